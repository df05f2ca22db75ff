"""Steps of clones and fine-tunes: rounds, seeds, voices, classes and rates, with plain objects for libraries."""

import math
import types
from itertools import pairwise

import numpy as np
import pytest

import divulge as dv
from divulge.errors import InputError
from divulge.references import clones
from divulge.references.hyperparameters import FineTuneSettings


class Booster:
    """An estimator with the given parameters and attributes, of a library."""

    def __init__(self, library, parameters, **attributes):
        self.parameters = parameters
        self.__dict__ |= attributes
        self.__class__ = type("Booster", (Booster,), {"__module__": f"{library}.sklearn"})

    def get_params(self, deep=True):
        return dict(self.parameters)

    def fit(self, x, y):
        return self


EarlyStopping = type("EarlyStopping", (), {})
STOP, OTHER = EarlyStopping(), object()


@pytest.mark.parametrize(
    ("library", "parameters", "attributes", "rounds", "expected"),
    [
        ("lightgbm", {"n_estimators": 9}, {"best_iteration_": 4}, 4, {"n_estimators": 4}),
        ("lightgbm", {"n_estimators": 9}, {"best_iteration_": 1}, 1, {"n_estimators": 1}),
        ("lightgbm", {"n_estimators": 9}, {"best_iteration_": 0}, None, {}),
        ("lightgbm", {"n_estimators": 9}, {"best_iteration_": None}, None, {}),
        ("lightgbm", {"n_estimators": 9}, {}, None, {}),
        (
            "lightgbm",
            {"num_iterations": 9, "num_trees": 9, "early_stopping_round": 3, "n_iter_no_change": 3},
            {"best_iteration_": 4},
            4,
            {"num_iterations": 4, "num_trees": 4, "early_stopping_round": 0, "n_iter_no_change": 0},
        ),
        ("xgboost", {}, {"best_iteration": 4}, 5, {"n_estimators": 5}),
        ("xgboost", {}, {"best_iteration": 0}, 1, {"n_estimators": 1}),
        (
            "xgboost",
            {"n_estimators": 9, "early_stopping_rounds": 3},
            {"best_iteration": 4},
            5,
            {"n_estimators": 5, "early_stopping_rounds": None},
        ),
        (
            "xgboost",
            {"callbacks": [STOP, OTHER]},
            {"best_iteration": 4},
            5,
            {"n_estimators": 5, "callbacks": [OTHER]},
        ),
        ("xgboost", {"callbacks": [STOP]}, {"best_iteration": 4}, 5, {"n_estimators": 5, "callbacks": None}),
        ("xgboost", {"callbacks": None}, {"best_iteration": 4}, 5, {"n_estimators": 5}),
        ("xgboost", {}, {}, None, {}),
        ("catboost", {"iterations": 9}, {"tree_count_": 4}, 4, {"iterations": 4}),
        (
            "catboost",
            {"iterations": 9, "use_best_model": True, "early_stopping_rounds": 3},
            {"tree_count_": 4},
            4,
            {"iterations": 4, "use_best_model": False},
        ),
        ("catboost", {"iterations": 9, "eval_fraction": 0.1}, {"tree_count_": 4}, None, {}),
        ("catboost", {"iterations": 9, "eval_fraction": 0}, {"tree_count_": 4}, 4, {"iterations": 4}),
        ("catboost", {"iterations": 9}, {"tree_count_": 0}, None, {}),
        ("catboost", {"iterations": 9}, {}, None, {}),
        ("sklearn", {"n_estimators": 9}, {"bootstrap": False, "estimators_": [1, 2]}, None, {"n_estimators": 2}),
        ("sklearn", {"n_estimators": 9}, {"bootstrap": True}, None, {}),
        ("sklearn", {"n_estimators": 9}, {"estimators_": [1, 2]}, None, {}),
        ("sklearn", {}, {"bootstrap": True, "estimators_": [1, 2]}, None, {}),
    ],
)
def test_a_clone_has_the_rounds_after_which_training_stopped(library, parameters, attributes, rounds, expected):
    part = Booster(library, parameters, **attributes)
    assert clones._stopped_rounds(part) == rounds
    assert clones._rounds_as_trained(part, parameters, "") == expected
    prefixed = {f"step__{name}": value for name, value in parameters.items()}
    assert clones._rounds_as_trained(part, prefixed, "step__") == expected


def test_a_booster_that_is_not_fitted_was_not_stopped():
    class Unfitted(Booster):
        @property
        def best_iteration(self):
            raise ValueError("need to call fit")

    part = Unfitted.__new__(type("U", (Unfitted,), {"__module__": "xgboost"}))
    assert clones._stopped_rounds(part) is None


@pytest.mark.parametrize(
    ("library", "attributes", "was_stopped"),
    [
        ("lightgbm", {"best_iteration_": 4}, True),
        ("lightgbm", {"best_iteration_": 0}, False),
        ("catboost", {"tree_count_": 4, "best_iteration_": None}, False),
        ("catboost", {"tree_count_": 4, "best_iteration_": 3}, True),
        ("catboost", {"tree_count_": 0, "best_iteration_": 3}, False),
        ("sklearn", {"best_iteration_": 4}, False),
    ],
)
def test_what_a_validation_set_stopped_is_known(library, attributes, was_stopped):
    assert clones._was_stopped(Booster(library, {}, **attributes)) is was_stopped


@pytest.mark.parametrize(
    ("library", "parameters", "waits"),
    [
        ("xgboost", {"callbacks": [STOP]}, True),
        ("xgboost", {"callbacks": [OTHER]}, False),
        ("xgboost", {"callbacks": [OTHER, STOP]}, True),
        ("xgboost", {"callbacks": None, "early_stopping_rounds": 1}, True),
        ("xgboost", {"early_stopping_rounds": None}, False),
        ("xgboost", {"n_iter_no_change": 1}, False),
        ("lightgbm", {"early_stopping_round": 1}, True),
        ("lightgbm", {"early_stopping_rounds": 2, "n_iter_no_change": 0}, True),
        ("lightgbm", {"n_iter_no_change": 1}, True),
        ("lightgbm", {"early_stopping": 0}, False),
        ("lightgbm", {"early_stopping_round": None, "n_estimators": 5}, False),
        ("catboost", {"early_stopping_rounds": 5}, False),
        ("sklearn", {"n_iter_no_change": 5}, False),
    ],
)
def test_what_waits_for_a_validation_set_is_known(library, parameters, waits):
    assert clones._waits_for_validation(Booster(library, parameters)) is waits


@pytest.mark.parametrize(
    ("library", "parameters", "expected"),
    [
        ("lightgbm", {}, {"verbose": -1}),
        ("lightgbm", {"verbosity": 1}, {"verbosity": -1}),
        ("lightgbm", {"verbosity": 1, "verbose": 1}, {"verbosity": -1, "verbose": -1}),
        ("catboost", {}, {"verbose": False}),
        ("catboost", {"logging_level": "Info"}, {"logging_level": "Silent"}),
        ("catboost", {"silent": False}, {"silent": True}),
        ("catboost", {"verbose_eval": 5}, {"verbose_eval": False}),
        ("catboost", {"verbose": 5}, {"verbose": False}),
        ("xgboost", {"verbosity": 1}, {}),
        ("sklearn", {"verbose": 1}, {}),
    ],
)
def test_clones_print_nothing(library, parameters, expected):
    assert clones._silent_parameters(Booster(library, parameters)) == expected


@pytest.mark.parametrize(
    ("library", "parameters", "expected"),
    [
        ("catboost", {}, {"a__allow_writing_files", "a__random_seed", "a__thread_count"}),
        ("catboost", {"random_state": 1}, {"a__allow_writing_files", "a__thread_count"}),
        ("catboost", {"random_seed": 1, "thread_count": 4}, {"a__allow_writing_files"}),
        ("sklearn", {}, set()),
    ],
)
def test_what_catboost_does_not_list_is_set_all_the_same(library, parameters, expected):
    changed = clones._catboost_parameters(Booster(library, parameters), "a__", 3)
    assert changed.keys() == expected
    assert changed.get("a__allow_writing_files", False) is False
    assert changed.get("a__thread_count", 1) == 1
    assert 0 <= changed.get("a__random_seed", 0) < 2**31
    if "a__random_seed" in changed:
        assert (
            changed["a__random_seed"] != clones._catboost_parameters(Booster(library, {}), "a__", 4)["a__random_seed"]
        )


def test_seeds_threads_caches_and_voices_of_every_step_are_set():
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.model_selection import KFold, StratifiedShuffleSplit
    from sklearn.pipeline import Pipeline

    forest = ensemble.RandomForestClassifier(random_state=7, n_jobs=4, verbose=3)
    pipeline = Pipeline([("forest", forest)], memory="/nowhere", verbose=True)
    clone = clones.clone_estimator(pipeline, 5)
    inner = clone.named_steps["forest"]
    assert clone.memory is None
    assert clone.verbose is False
    assert (inner.n_jobs, inner.verbose) == (1, 0)
    assert 0 <= inner.random_state < 2**31
    assert inner.random_state == clones.clone_estimator(pipeline, 5).named_steps["forest"].random_state
    assert inner.random_state != clones.clone_estimator(pipeline, 6).named_steps["forest"].random_state
    assert (forest.random_state, forest.n_jobs, pipeline.memory) == (7, 4, "/nowhere")
    quiet = clones.clone_estimator(ensemble.RandomForestClassifier(verbose=0), 5)
    assert quiet.verbose == 0
    from sklearn.model_selection import GridSearchCV

    for folds, is_seeded in (
        (KFold(3), False),
        (KFold(3, shuffle=True), True),
        (KFold(3, shuffle=True, random_state=4), False),
        (StratifiedShuffleSplit(), True),
    ):
        search = clones.clone_estimator(GridSearchCV(forest, {}, cv=folds), 5)
        assert (search.cv.random_state not in (None, 4)) is is_seeded
        assert folds.random_state in (None, 4)


@pytest.mark.parametrize(
    ("attributes", "is_refused"),
    [
        ({"cv": "prefit"}, True),
        ({"cv": 5}, False),
        ({"cv": np.arange(3)}, False),
        ({"prefit": True}, True),
        ({"prefit": False}, False),
        ({}, False),
    ],
)
def test_parts_that_are_fitted_already_are_refused(attributes, is_refused):
    for part in (Booster("own", {}, **attributes), Booster("own", {"inner": Booster("own", {}, **attributes)})):
        if is_refused:
            with pytest.raises(InputError, match="would hold a part that is fitted already"):
                clones._refuse_fitted_parts(part)
        else:
            clones._refuse_fitted_parts(part)
    frozen = Booster("own", {})
    frozen.__class__ = type("FrozenEstimator", (Booster,), {})
    with pytest.raises(InputError, match="FrozenEstimator"):
        clones._refuse_fitted_parts(frozen)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Booster("own", {}), True),
        (Booster, False),
        (types.SimpleNamespace(fit=len), False),
        (types.SimpleNamespace(get_params=len), False),
        (types.SimpleNamespace(get_params=len, fit=3), False),
    ],
)
def test_estimators_can_be_cloned_and_fitted(value, expected):
    assert clones.is_estimator(value) is expected


@pytest.mark.parametrize(
    ("target_classes", "seen", "expected"),
    [
        (None, [0, 2], [0, 2]),
        (["a", "b", "c"], [0, 2], ["a", "c"]),
        (["a", "b"], [0, 2], [0, 2]),
        ([3, 5], [3, 5], [3, 5]),
        ([3, 5], [0, 5], [0, 5]),
    ],
)
def test_clones_know_classes_by_the_values_of_the_target(target_classes, seen, expected):
    target = None
    if target_classes is not None:
        estimator = types.SimpleNamespace(classes_=np.array(target_classes), predict_proba=len)
        target = dv.targets.SklearnTarget(estimator)
    config = types.SimpleNamespace(estimator=object(), target=target)
    assert clones._class_values(config, np.array(seen)).tolist() == expected
    xgboost = types.SimpleNamespace(estimator=types.SimpleNamespace(get_booster=len), target=target)
    assert clones._class_values(xgboost, np.array(seen)) is None


def test_a_clone_that_numbers_its_classes_itself_answers_over_all_of_them():
    estimator = types.SimpleNamespace(
        classes_=np.array([0, 1]), predict_proba=lambda x: np.tile([0.2, 0.8], (len(x), 1))
    )
    inner = dv.targets.SklearnTarget(estimator)
    records = dv.Records(np.zeros((3, 2)))
    whole = clones.CloneTarget(inner, 2).logits(records)
    np.testing.assert_allclose(whole, np.log([[0.2, 0.8]] * 3))
    full = clones.CloneTarget(inner, 4, np.array([1, 3])).logits(records)
    np.testing.assert_allclose(full[:, [1, 3]], whole)
    np.testing.assert_allclose(full[:, [0, 2]], np.log(0.8) + np.log(inner.floor))
    assert clones.CloneTarget(inner, 4, np.array([1, 3])).labels(records).tolist() == [3, 3, 3]


def test_labels_or_values_are_needed_to_train_on():
    config = types.SimpleNamespace(target=None, estimator=None)
    unlabelled = dv.Records(np.zeros((3, 2)))
    with pytest.raises(InputError, match="references: labels are needed to train on"):
        clones.train_clone(config, unlabelled, 0, 2)
    with pytest.raises(InputError, match="references: real values are needed to train on"):
        clones.train_regressor(config, unlabelled, 0)


class Owned:
    """An estimator of the user's own, whose parameters count and whose seed and threads do not."""

    def __init__(self, **parameters):
        self.parameters = parameters

    def get_params(self, deep=True):
        return self.parameters


def test_the_digest_of_an_estimator_is_that_of_its_parameters_but_for_seed_threads_and_cache(monkeypatch):
    monkeypatch.setattr(clones, "_has_version", lambda package: True)  # no source is read

    def digest(**parameters):
        return clones.digest_estimator(Owned(**parameters))

    for name in ("random_state", "random_seed", "seed", "n_jobs", "thread_count", "nthread", "memory"):
        assert digest(**{name: 1}) == digest(**{name: 2})
    pairs = [
        (1, 2), ([1], (1,)), ([1, 2], [2, 1]), ({"a": 1}, {"a": 2}), (np.arange(2), np.arange(2.0)),
        (Owned(a=1), Owned(a=2)), (len, max), ({1: Owned(a=1)}, {1: Owned(a=2)}),
    ]  # fmt: skip
    for one, other in pairs:
        assert digest(c=one) == digest(c=one)
        assert digest(c=one) != digest(c=other)
    assert digest(a=1, b=2) == digest(b=2, a=1)
    assert digest(a=1) != digest(b=1)


def test_versions_of_libraries_are_named_and_the_users_own_have_none():
    from importlib import metadata

    own, sklearn = Booster("my_module", {}), Booster("sklearn", {})
    own.parameters = {"inner": sklearn}
    assert clones._library_versions(own) == ["my_module", f"sklearn {metadata.version('scikit-learn')}"]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("warmup", "total"), [(0.0, 10), (0.2, 10), (0.26, 10), (0.5, 4), (0.9, 3)])
def test_the_rate_of_a_fine_tune_rises_and_then_follows_its_schedule(schedule, warmup, total):
    pytest.importorskip("torch")
    from divulge.references import fine_tuning

    config = FineTuneSettings("hf:base", schedule=schedule, warmup=warmup)
    rising = round(warmup * total)
    for step in range(total):
        if step < rising:
            expected = (step + 1) / (rising + 1)
        else:
            share = (step - rising) / (total - rising)
            expected = {"constant": 1.0, "linear": 1 - share, "cosine": (1 + math.cos(math.pi * share)) / 2}[schedule]
        assert fine_tuning._rate_factor(config, step, total) == pytest.approx(expected, abs=1e-12)
    after = {"constant": 1.0, "linear": 0.0, "cosine": 0.0}[schedule]
    if rising < total:
        assert fine_tuning._rate_factor(config, total, total) == pytest.approx(after, abs=1e-12)
    else:
        assert fine_tuning._rate_factor(config, total, total) == 1.0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 7, 9])
@pytest.mark.parametrize("longest", [2, 3, 4])
def test_each_transition_of_a_document_is_learned_once(n, longest):
    pytest.importorskip("torch")
    from divulge.references import fine_tuning

    stretches = fine_tuning.split_stretches(range(n), longest)
    assert all(2 <= len(stretch) <= longest for stretch in stretches)
    assert [pair for s in stretches for pair in pairwise(s)] == [(i, i + 1) for i in range(n - 1)]


def test_batches_hold_each_stretch_once_and_those_of_similar_length_together():
    pytest.importorskip("torch")
    from divulge.references import fine_tuning

    pieces = [[row] * (2 + 100 * (row % 3)) for row in range(12)]
    batches = list(fine_tuning.batch_stretches(pieces, 5, np.random.default_rng(0)))
    assert sorted(len(batch) for batch in batches) == [2, 5, 5]
    assert sorted(piece[0] for batch in batches for piece in batch) == list(range(12))
    by_length = sorted(batches, key=lambda batch: sum(map(len, batch)) / len(batch))
    assert [sorted({len(piece) for piece in batch}) for batch in by_length] == [[2, 102], [102, 202], [202]]


def test_the_loss_of_a_batch_is_the_mean_over_its_tokens_whatever_the_padding(monkeypatch):
    torch = pytest.importorskip("torch")
    from divulge.references import fine_tuning

    table = torch.nn.Embedding(5, 5)
    head = torch.nn.Linear(5, 5, bias=False)

    def run(input_ids, attention_mask, use_cache):
        hidden = table(input_ids)
        return types.SimpleNamespace(last_hidden_state=hidden, logits=head(hidden))

    class Model:
        device = torch.device("cpu")
        config = types.SimpleNamespace()
        __call__ = staticmethod(run)
        base_model = staticmethod(run)

        def get_output_embeddings(self):
            return head

    batch = [[1, 2, 3], [4, 1]]
    pairs = torch.tensor([[1, 2], [2, 3], [4, 1]])
    expected = torch.nn.functional.cross_entropy(head(table(pairs[:, 0])), pairs[:, 1])
    expected.backward()
    gradients = [table.weight.grad.clone(), head.weight.grad.clone()]
    monkeypatch.setattr(fine_tuning, "_LOGITS", 10)  # two rows of logits at a time
    for inner in (None, Model()):
        table.weight.grad, head.weight.grad = None, None
        loss = fine_tuning.NextTokenLoss(Model(), inner)(batch)
        assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
        torch.testing.assert_close(table.weight.grad, gradients[0])
        torch.testing.assert_close(head.weight.grad, gradients[1])
    table.requires_grad_(requires_grad=False)
    head.weight.grad = None
    assert fine_tuning.NextTokenLoss(Model(), Model())(batch) == pytest.approx(float(expected.detach()), rel=1e-5)
    torch.testing.assert_close(head.weight.grad, gradients[1])


def test_the_key_of_a_fine_tune_is_that_of_all_that_decides_it_but_the_name_of_the_base():
    pytest.importorskip("torch")
    from divulge.references import fine_tuning

    def key(seed=0, rows=(0, 1), digest="d", data="x", observe=(), config=None, **base):
        settings = {"model": "name", "weights": "w", "bos": "add", "length": 7} | base
        tuning = types.SimpleNamespace(
            base=types.SimpleNamespace(name="name", key=lambda: settings),
            digest=digest,
            config=config or FineTuneSettings("hf:base"),
        )
        task = types.SimpleNamespace(data=data, observe=observe)
        return fine_tuning.DocumentLearner(tuning).key(task, seed, np.array(rows))

    assert len(key()) == 32
    assert key() == key(model="other", weights="other")
    assert key() == key(config=FineTuneSettings("hf:base", count=9, device="cuda", workers=3))
    texts = np.array(["a", "b"], dtype=object)
    others = [
        {"bos": "none"}, {"length": 8}, {"seed": 1}, {"rows": (0, 2)}, {"digest": "e"}, {"data": "y"},
        {"observe": (dv.Records(texts),)}, {"config": FineTuneSettings("hf:base", epochs=9)},
        {"config": FineTuneSettings("hf:base", stop_after=1)}, {"config": FineTuneSettings("hf:base", lr=0.5)},
    ]  # fmt: skip
    assert len({key(), *(key(**other) for other in others)}) == len(others) + 1
    assert key(observe=(dv.Records(texts),)) == key(observe=(dv.Records(texts, [0, 1]),))
