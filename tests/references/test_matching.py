"""Settings that match a target: what is compared, what is reused, and who has no say in it."""

import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import divulge as dv
from divulge.auditing import prepared
from divulge.auditing.pipeline import _prepare_audit
from divulge.auditing.prepared import AuditLog
from divulge.auditing.reference_match import match_references
from divulge.errors import InputError
from divulge.references import Train, engines, fitting, matching, network_learner, network_training, stacked
from divulge.references.progress import ignore_progress
from divulge.results import ReferenceComparison
from divulge.settings import AuditOptions
from divulge.types import AuditData


def make():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def make_normalised():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 3))


def draw(n, seed):
    rng = np.random.default_rng([17, seed])
    x = rng.normal(size=(n, 6)).astype(np.float32)
    return dv.Records(x, (x[:, :3] + rng.normal(size=(n, 3))).argmax(axis=1))


def draw_sets():
    return {"members": draw(80, 0), "nonmembers": draw(80, 1), "population": draw(240, 2)}


SETTINGS = {"epochs": 3, "optimizer": "adam", "batch_size": 32}


def prepare(references, pool=None, target=None, **changes):
    sets = draw_sets() | changes
    target = target or Train(make, epochs=12, optimizer="adam", lr=0.01, batch_size=32).train_model(
        sets["members"], seed=3
    )
    options = AuditOptions(recipes=("calibrated",), references=references, fpr=(0.1,))
    return _prepare_audit(target, AuditData(**sets), options, ignore_progress, pool)[0]


def test_settings_are_ranked_by_the_distance_of_all_trial_models():
    target = np.zeros(2)
    assert matching.root_mean_square(target, [np.full(2, 1.0), np.full(2, 7.0)]) == 5.0
    assert matching.root_mean_square(target, []) == np.inf


@pytest.mark.parametrize(("model", "engine"), [(make, "stacked"), (make_normalised, "serial")])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_an_early_epoch_is_the_model_of_a_shorter_training(model, engine, schedule):
    """Bit for bit, whatever was asked of it on the way; and the training goes on as if nobody had asked."""
    config = Train(model, schedule=schedule, **SETTINGS | {"epochs": 6})
    records = draw(64, 5)
    shorter = {"epochs": 4} if schedule == "constant" else {"stop_after": 4}
    request = fitting.TrainingRequest(records, np.ones((1, 64), dtype=bool), (records,), None, 3, None, None, None)
    rows = dv.references.Splits(request.splits)
    learner = config.make_learner(records)
    task = fitting.make_task(learner, request)
    job = fitting.make_job(task, rows, 0, 0, "model")
    predictions = []
    with engines.limit_to_one_thread():
        traced = learner.trace(
            task, job, lambda epoch, m: (predictions.append(m.predict(records)) or epoch == 4, False)
        )
    assert len(predictions) == 6
    expected = dataclasses.replace(config, count=1, engine=engine, **shorter)
    np.testing.assert_array_equal(traced.predict(records), expected.fit(**_arguments(request)).outputs[0][0])
    full_training = dataclasses.replace(config, count=1, engine=engine).fit(**_arguments(request)).outputs[0][0]
    np.testing.assert_array_equal(predictions[-1], full_training)


def _arguments(request):
    return {"records": request.records, "splits": request.splits, "seed": 0, "observe": request.observe, "classes": 3}


class Search:
    """A search whose settings have known distances: the nearest rate is so many decades from the given one."""

    def __init__(self, training, decades, best_epoch):
        self.training, self.tried, self.asked = training, [], []
        self.decades, self.best_epoch = decades, best_epoch

    def run(self, changes, axis, *, prune=False):
        self.tried.append(changes)
        self.asked.append((changes, axis, prune))
        distance = abs(np.log10(changes.get("lr", 0.01) / 0.01) - self.decades)
        return type("Setting", (), {"rmse": distance}), min(self.best_epoch, changes.get("epochs", 99))


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("decades", [0.0, 1.0, -0.75])
@pytest.mark.parametrize("best_epoch", [2, 99])
def test_rates_are_searched_and_trained_longer_where_the_last_epoch_was_the_nearest(
    schedule, private, decades, best_epoch
):
    privacy = dv.references.Private(1.0) if private else None
    training = Train(make, **SETTINGS | {"optimizer": "sgd"}, lr=0.01, schedule=schedule, privacy=privacy)
    search = Search(training, decades, best_epoch)
    matching._search_rates(search)
    axis = None if private else {"constant": "epochs"}.get(schedule, "stop_after")
    assert {asked_axis for _, asked_axis, _ in search.asked} == {axis}
    rates = [changes for changes, _, _ in search.asked if "lr" in changes]
    nearest = min(rates, key=lambda changes: abs(np.log10(changes["lr"] / 0.01) - decades))
    assert nearest["lr"] == pytest.approx(0.01 * 10**decades, rel=1e-2)
    given_epochs, twice, longest = 3, 6, 12
    assert nearest["epochs"] == (given_epochs if private else twice)
    goes_on = not private and best_epoch == 99
    assert ({"lr": nearest["lr"], "epochs": longest} in search.tried) is goes_on
    assert ({} in search.tried) is (axis == "stop_after")  # the given setting, as it is


def test_a_trial_model_is_the_reference_and_is_not_trained_again(tmp_path):
    references = Train(make, count=3, match={"lr": [0.0001, 0.01], "epochs": [3, 12]}, **SETTINGS)
    prepared, log = prepare(references, tmp_path / "pool"), AuditLog()
    matched = match_references(prepared, log)
    chosen = matched.references
    assert chosen.match is None
    assert (chosen.lr, chosen.epochs) == (0.01, 12)
    assert [setting.models for setting in log.matched.tried] == [2, 2]  # each with its nearest epoch
    result = matched.modality.compute_signals(matched, AuditLog())
    (models,) = result[0].models.values()
    fresh = dataclasses.replace(matched, pool=tmp_path / "other").modality.compute_signals(
        dataclasses.replace(matched, pool=tmp_path / "other"), AuditLog()
    )
    (fresh_models,) = fresh[0].models.values()
    for name, values in models.signals.items():
        np.testing.assert_allclose(values, fresh_models.signals[name], atol=1e-5)  # stacks of 1, 2 and 3
    repeat = chosen.fit(
        prepared.inputs.population,
        _rows(prepared),
        seed=prepared.seed,
        classes=3,
        pool=tmp_path / "pool",
    )
    assert repeat.reused == 3
    assert not models.trained_on[:, prepared.layout.population_rows][:, prepared.held_out].any()


def _rows(prepared):
    from divulge.attacks import Need
    from divulge.auditing.signals import training_data

    return training_data(prepared, Need.REFERENCES_OUT)[1]


def test_candidates_and_calibration_have_no_say(tmp_path):
    """Whatever stands in their place, the same settings are tried, at the same distances, and the same is chosen."""
    references = Train(make, count=2, match={"lr": [0.001, 0.01], "epochs": [2, 4]}, **SETTINGS)
    target = Train(make, epochs=12, optimizer="adam", lr=0.01, batch_size=32).train_model(draw(80, 0), seed=3)
    tables, rng = [], np.random.default_rng(0)
    for number in range(2):
        prepared = prepare(references, tmp_path / str(number), target)
        inputs = prepared.inputs
        if number:
            order = rng.permutation(len(inputs.candidates))
            strange = inputs.candidates[order].with_values(inputs.candidates.x[order] * 1000)
            inputs = dataclasses.replace(
                inputs,
                candidates=strange,
                calibration=inputs.calibration.with_values(inputs.calibration.x[::-1] * 3),
                truth=inputs.truth[order],
            )
        log = AuditLog()
        chosen = match_references(
            dataclasses.replace(prepared, inputs=inputs, views=(inputs.everything,)), log
        ).references
        tables.append((chosen, log.matched))
    assert tables[0] == tables[1]


def test_auto_finds_a_learning_rate_far_from_the_given_one(tmp_path):
    references = Train(make, count=2, lr=0.0003, match="auto", **SETTINGS)
    log = AuditLog()
    chosen = match_references(prepare(references, tmp_path), log).references
    tried = {setting.setting: setting.rmse.value for setting in log.matched.tried}
    assert chosen.lr >= 0.003
    assert min(tried.values()) < max(tried.values())
    assert len(tried) <= matching.count_trials(references)[0]


def test_parameters_of_estimators_are_matched(tmp_path):
    members = draw(80, 0)
    forest = RandomForestClassifier(30, max_depth=2, random_state=0).fit(members.x, members.y)
    target = dv.targets.CallableTarget(lambda x: np.log(forest.predict_proba(x) + 1e-3))
    grid = {"max_depth": [None, 2], "n_estimators": [10, 30]}
    references = Train(lambda: RandomForestClassifier(random_state=0), count=2, match=grid)
    log = AuditLog()
    chosen = match_references(prepare(references, tmp_path, target), log).references
    assert chosen.estimator.max_depth == 2
    assert log.matched.models == matching.count_trials(references.for_target(target))[0] == 8
    auto, log = Train(lambda: RandomForestClassifier(10, random_state=0), count=2, match="auto"), AuditLog()
    matched = match_references(prepare(auto, tmp_path, target), log).references.estimator
    distances = {setting.setting: setting.rmse.value for setting in log.matched.tried}
    assert distances[log.matched.chosen] < distances["as given"]
    assert matched.max_depth is not None or matched.max_leaf_nodes is not None


def test_clones_of_the_target_need_no_search():
    members = draw(80, 0)
    target = GradientBoostingClassifier(n_estimators=3).fit(members.x, members.y)
    assert prepare(Train(count=2, match="auto"), target=target).held_out is None
    assert prepare(Train(count=2, match={"n_estimators": [3, 6]}), target=target).held_out is not None


def audit_estimator(target, **settings):
    sets = {"members": draw(60, 0), "nonmembers": draw(60, 1), "population": draw(400, 2)}
    settings |= {"count": 4}
    result = dv.audit(
        target, **sets, recipes=["calibrated"], references=Train(**settings), fpr=(0.1,), progress=None, seed=0
    )
    (agreement,) = result.about.measured(ReferenceComparison).agreement
    return agreement


def test_what_is_said_of_references_that_differ_fits_how_they_were_made():
    """Clones already have the target's settings; others can be matched. Both texts have the numbers of records."""
    members = draw(60, 0)
    target = RandomForestClassifier(10, random_state=0).fit(members.x, members.y)
    clones = audit_estimator(target)
    assert "RMSE of their negative-losses" in clones.text
    match = audit_estimator(target, make_model=lambda: RandomForestClassifier(40, max_depth=1, random_state=0))
    assert match.differs
    assert "each, beside the 60 members given)" in match.text
    assert 'give its settings, or match="auto"' in match.text
    network = Train(make, epochs=40, optimizer="adam", lr=0.01, batch_size=16).train_model(members, seed=3)
    assert 'match="auto"' in audit_estimator(network, make_model=make, epochs=1).text
    assert clones_of(target).has_target_settings
    assert not clones_of(target).with_settings(max_depth=3).has_target_settings
    noise = RandomForestClassifier(3, random_state=0).fit(members.x, np.arange(60) % 3)  # overfit on few records
    text = audit_estimator(noise).text
    assert "they have its own settings" in text
    assert 'match="auto"' not in text


def clones_of(target):
    return Train(count=2).for_target(dv.targets.adapt(target))


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("best", "match: must be one of|match: 'best'"),
        ({}, "a mapping of settings"),
        ([0.1], "a mapping of settings"),
        ({"lr": []}, "match: lr: at least 1 value is needed"),
        ({"lr": [0.1, 0.01, 0.1]}, "match: lr: each value may be given once, got 0.1 twice"),
        ({"lr": 0.1}, "match: lr"),
        ({"lr": range(1, 100), "epochs": range(1, 100)}, "at most 200 combinations .* got 9,801"),
    ],
)
def test_what_cannot_be_tried_is_refused(match, message):
    with pytest.raises(InputError, match=message):
        Train(make, match=match)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ({"rate": [0.1]}, "a setting"),
        ({"count": [2]}, "a setting"),
        ({"lr": [-1.0]}, "lr: must lie"),
        ({"stop_after": [9], "epochs": [3], "schedule": ["linear"]}, "stop_after: must be at most"),
        ({"make_model": [make, lambda: nn.Linear(6, 2)]}, "make_model: 3 outputs are needed"),
        ({"match": ["auto"]}, "match: what is to be tried cannot itself be tried"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_any_training(match, message, tmp_path):
    with pytest.raises(InputError, match=message):
        match_references(prepare(Train(make, count=2, match=match, **SETTINGS), tmp_path), AuditLog())
    assert not list(tmp_path.glob("*.safetensors"))


FAR_TARGET = dv.targets.CallableTarget(lambda x: x[:, :3])


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            {"random_state": [0, 1]},
            "match: random_state cannot be tried, as each reference model has a seed of its own",
        ),
        ({"n_jobs": [1, 2]}, "match: n_jobs cannot be tried, as it changes no reference model"),
        ({"max_depth": [2], "verbose": [0, 1]}, "match: verbose cannot be tried, as it changes no reference model"),
        ({"warm_start": [True]}, "match: warm_start cannot be tried, as it changes no reference model"),
        ({"max_depth": [3, "a"]}, "match: The 'max_depth' parameter of RandomForestClassifier must be an int"),
        ({"max_depth": [3, 0]}, "match: The 'max_depth' parameter of RandomForestClassifier must be an int"),
    ],
)
def test_values_that_change_nothing_or_are_invalid_are_refused_before_any_training(match, message, monkeypatch):
    monkeypatch.setattr(RandomForestClassifier, "fit", lambda *args: pytest.fail("a model was trained"))
    references = Train(lambda: RandomForestClassifier(5), count=2, match=match)
    with pytest.raises(InputError, match=message):
        prepare(references, target=FAR_TARGET)


def test_parameters_of_a_part_are_refused_by_its_name():
    pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier())
    training = dv.references.clones.CloneTraining(pipeline, 2)
    for changes, message in (
        ({"standardscaler__copy": False}, "standardscaler__copy cannot be tried"),
        ({"kneighborsclassifier__n_jobs": 2}, "kneighborsclassifier__n_jobs cannot be tried"),
        ({"kneighborsclassifier__n_neighbors": 0}, "The 'n_neighbors' parameter of KNeighborsClassifier"),
        ({"kneighborsclassifier": RandomForestClassifier(0)}, "The 'n_estimators' parameter of RandomForestClassifier"),
    ):
        with pytest.raises(InputError, match=f"match: {message}"):
            training.with_settings(**changes)


@pytest.mark.parametrize(
    "make_estimator",
    [
        lambda: KNeighborsClassifier(30),
        lambda: RandomForestClassifier(5, min_samples_leaf=0.02),
        lambda: BaggingClassifier(KNeighborsClassifier(25), n_estimators=2, max_samples=0.4),
    ],
)
def test_auto_passes_over_values_that_an_estimator_does_not_take(make_estimator, tmp_path):
    log = AuditLog()
    match_references(prepare(Train(make_estimator, count=2, match="auto"), tmp_path, FAR_TARGET), log)
    assert len(log.matched.tried) > 1
    assert log.matched.tried[0].rmse is not None
    failures = [setting.failure for setting in log.matched.tried if setting.rmse is None]
    assert all("n_neighbors" in failure for failure in failures)


def test_auto_tries_no_share_beyond_one_of_a_regressor():
    """Of `GradientBoostingRegressor`, alpha is a quantile: half a decade up from .9 there is none."""
    training = dv.references.clones.CloneTraining(GradientBoostingRegressor(), 2)
    assert matching._is_valid(training, {"alpha": 0.285})
    assert not matching._is_valid(training, {"alpha": 2.85})


def test_a_setting_that_cannot_be_trained_is_one_of_those_tried(tmp_path):
    """Only fitting tells that there are fewer records than neighbours; the report says why."""
    references = Train(KNeighborsClassifier, count=2, match={"n_neighbors": [5000, 5]})
    log = AuditLog()
    chosen = match_references(prepare(references, tmp_path, FAR_TARGET), log).references
    assert chosen.estimator.n_neighbors == 5
    nearest, failed = log.matched.tried
    assert (nearest.failure, failed.models, failed.rmse) == (None, 0, None)
    assert "Expected n_neighbors <= n_samples" in failed.failure
    none = Train(KNeighborsClassifier, count=2, match={"n_neighbors": [5000, 6000]})
    with pytest.raises(InputError, match=r"no model could be trained with any of the 2 settings tried; .* n_neighbors"):
        match_references(prepare(none, tmp_path, FAR_TARGET), AuditLog())


def test_values_that_print_alike_are_numbered(tmp_path):
    small, large = (lambda: nn.Sequential(nn.Linear(6, 3))), (lambda: nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3)))
    references = Train(make, count=2, match={"make_model": [small, make, large]}, **SETTINGS)
    log = AuditLog()
    chosen = match_references(prepare(references, tmp_path), log).references
    names = {setting.setting.partition("make_model=")[2] for setting in log.matched.tried}
    assert names == {"<lambda> (1 of 2)", "make", "<lambda> (2 of 2)"}
    number = {small: "<lambda> (1 of 2)", large: "<lambda> (2 of 2)", make: "make"}[chosen.make_model]
    assert log.matched.chosen.endswith(f"make_model={number}")


def test_a_parameter_that_the_estimator_lacks_is_named(tmp_path):
    references = Train(lambda: RandomForestClassifier(), count=2, match={"depth": [2]})
    target = dv.targets.CallableTarget(lambda x: x[:, :3])
    with pytest.raises(InputError, match=r"match: a parameter of RandomForestClassifier.*depth"):
        match_references(prepare(references, tmp_path, target), AuditLog())


def test_matching_needs_a_target_and_records_enough():
    records = draw(20, 0)
    with pytest.raises(InputError, match=r"match: settings are chosen in divulge\.audit alone"):
        Train(make, count=1, match="auto").fit(records, np.ones((1, 20), dtype=bool), seed=0)
    with pytest.raises(InputError, match="match: at least 60 distinct population records"):
        prepare(Train(make, count=2, match="auto", **SETTINGS), population=draw(70, 4))


def test_training_that_diverges_with_every_setting_is_an_error(tmp_path):
    references = Train(make, count=2, match={"lr": [1e30, 1e35]}, epochs=2)
    with pytest.raises(InputError, match="match: training diverged"):
        match_references(prepare(references, tmp_path), AuditLog())


def test_stored_models_keep_their_keys_where_the_new_settings_are_not_used():
    from divulge.references import pool

    names = [name for name, _ in pool.list_settings(Train(make))]
    assert not {"match", "stop_after"} & set(names)
    assert "stop_after" in dict(pool.list_settings(Train(make, stop_after=2)))


def test_hooks_stop_a_training():
    data = network_training.TrainingData(*(__import__("torch").zeros(8, 6), __import__("torch").zeros(8).long()))
    epochs = []
    hook = lambda epoch, module: epochs.append(epoch) or epoch == 2  # noqa: E731
    network_training.train_by_sgd(Train(make, epochs=5), data, np.arange(8), 0, after_epoch=hook)
    job = fitting.Job(0, 0, np.arange(8), "")
    stacked.train_stack(Train(make, epochs=5), data, [job], lambda job, share: None, hook)
    assert epochs == [1, 2, 1, 2]
    stopping = Train(make, epochs=5, stop_at_accuracy=0.01)
    shown = []
    hook = lambda epoch, module: shown.append(epoch)  # noqa: E731
    network_training.train_by_sgd(stopping, data, np.arange(8), 0, after_epoch=hook)
    stacked.train_stack(stopping, data, [job], lambda job, share: None, hook)
    assert shown == [1, 1]  # the epoch in which a training reaches its accuracy is its last


@pytest.mark.parametrize(
    ("name", "value", "ladders"),
    [
        # No limit is tried with some; a limit with half and twice it.
        ("max_depth", None, [[16, 8, 4, 2]]),
        ("max_depth", -1, [[16, 8, 4, 2]]),
        ("max_depth", 0, [[16, 8, 4, 2]]),
        ("max_depth", 5, [[10, 20, 40], [2, 1]]),
        ("max_depth", np.int64(8), [[16, 32, 64], [4, 2, 1]]),
        ("max_leaf_nodes", None, [[64, 16, 4]]),
        ("max_leaf_nodes", 31, [[62, 124, 248], [15, 7, 3]]),
        ("depth", None, [[8, 4, 2]]),
        ("depth", 6, [[12], [3, 1]]),  # trees of CatBoost have at most 16 levels
        ("num_leaves", 7, [[14, 28, 56], [3]]),
        ("n_neighbors", 1, [[2, 4, 8], []]),
        ("n_estimators", 100, [[200, 400, 800], [50, 25, 12]]),
        ("n_estimators", 0, []),
        ("n_estimators", None, []),
        ("n_estimators", True, []),
        # Strengths by half decades.
        ("C", 1.0, [[3.16, 10.0, 31.6], [0.316, 0.1, 0.0316]]),
        ("learning_rate", 0.1, [[0.316, 1.0, 3.16], [0.0316, 0.01, 0.00316]]),
        ("learning_rate", "adaptive", []),
        ("alpha", 0, []),
        ("alpha", -1.0, []),
    ],
)
def test_values_tried_of_a_parameter_lie_on_both_sides_of_the_given_one(name, value, ladders):
    values_tried = matching._ladders(name, value, 1000)
    assert len(values_tried) == len(ladders)
    for ladder, expected in zip(values_tried, ladders, strict=True):
        assert ladder == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(
    ("name", "value", "ladders"),
    [
        ("n_neighbors", 30, [[60], [15, 7, 3]]),
        ("min_samples_leaf", 20, [[40], [10, 5, 2]]),  # two leaves
        ("min_samples_leaf", 0.02, [[0.04, 0.08, 0.16], [0.01, 0.005, 0.0025]]),
        ("min_samples_leaf", 0.2, [[0.4], [0.1, 0.05, 0.025]]),
        ("min_samples_leaf", np.float32(0.25), [[0.5], [0.125, 0.0625, 0.03125]]),
        ("num_leaves", 31, [[62], [15, 7, 3]]),
        ("max_depth", 6.0, [[12.0, 24.0, 48.0], [3.0, 1.0]]),
        ("n_estimators", 100, [[200, 400, 800], [50, 25, 12]]),
        ("C", np.inf, []),
        ("C", np.nan, []),
    ],
)
def test_values_tried_keep_their_type_and_fit_100_records(name, value, ladders):
    values_tried = matching._ladders(name, value, 100)
    assert values_tried == [pytest.approx(ladder) for ladder in ladders]
    is_share = isinstance(value, float | np.floating)
    assert {type(each) for ladder in values_tried for each in ladder} <= {float if is_share else int}


GRIDS = [
    {"epochs": [2, 1], "stop_after": [1]},
    {"stop_after": [None, 1, 2]},
    {"stop_after": [1, 2], "lr": [0.1, 0.01]},
    {"epochs": [2, 3]},
    {"epochs": [2, 3], "privacy": [None, dv.references.Private(1.0)]},
    {"epochs": [2, 3], "schedule": ["constant", "linear"]},
    {"epochs": [2, 3], "schedule": ["constant"]},
    {"epochs": [2, 3], "stop_at_accuracy": [0.1, 1.0]},
    {"lr": [0.1], "batch_size": [16, 64]},
    "auto",
]


@pytest.mark.parametrize("match", GRIDS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"schedule": "cosine"},
        {"privacy": dv.references.Private(1.0)},
        {"stop_at_accuracy": 0.5},
        {"stop_after": 2},
        {"stop_after": 1, "schedule": "linear"},
    ],
)
def test_no_more_models_and_epochs_are_trained_than_are_forecast(match, settings, monkeypatch):
    """Whatever the grid: trainings are counted as they run, and each ends with the epochs of its setting."""
    if {"privacy", "stop_at_accuracy"} <= {*settings, *match}:
        return  # the two exclude each other
    references = Train(make, count=2, match=match, epochs=2, batch_size=32, optimizer="adam", **settings)
    trained = []
    trace = network_learner.NetworkLearner.trace

    def count_epochs(learner, task, job, visit):
        trained.append(learner.config.stop_after or learner.config.epochs)
        return trace(learner, task, job, visit)

    monkeypatch.setattr(network_learner.NetworkLearner, "trace", count_epochs)
    audit, log = prepare(references, target=FAR_TARGET), AuditLog()
    n_models, n_epochs = matching.count_trials(audit.references)
    chosen = match_references(audit, log).references
    assert len(trained) == log.matched.models <= n_models
    assert sum(trained) <= n_epochs
    assert (chosen.stop_after or chosen.epochs) <= matching.longest_training(audit.references)
    if match != "auto":
        assert (len(trained), sum(trained)) == (n_models, n_epochs)
        values = [len(each) for each in match.values()]
        assert len(log.matched.tried) <= np.prod(values)
    assert all(setting.failure is None for setting in log.matched.tried)
    plans = matching.plan_epochs(audit.references)
    assert sum(plan.trial_epochs for plan in plans) == n_epochs
    assert max(plan.longest for plan in plans) == matching.longest_training(audit.references)


def test_time_is_forecast_of_the_slowest_setting_of_a_grid(monkeypatch):
    """Each setting on which an epoch's time depends is timed; all references may turn out to be of the slowest."""
    references = Train(make, count=3, match={"batch_size": [8, 64], "epochs": [2, 5]}, **SETTINGS)
    audit = prepare(references, target=FAR_TARGET)
    rates = {8: 4.0, 64: 1.0}
    monkeypatch.setattr(
        prepared, "_epoch_seconds", lambda audit, training, records, count: count * rates[training.batch_size]
    )
    n_population, n_held_out = len(audit.inputs.population), int(audit.held_out.sum())
    n_learned = (n_population - n_held_out) / 2
    forecast = prepared.make_forecast(audit, on_disk=False)
    trials = 2 * 5 * (4.0 + 1.0) * (n_learned + n_held_out)
    assert forecast.trials == 4
    assert forecast.training == pytest.approx(trials + 3 * 5 * 4.0 * n_learned)
    many = Train(make, count=3, match={"batch_size": list(range(2, 15))}, **SETTINGS)
    assert prepared.make_forecast(prepare(many, target=FAR_TARGET), on_disk=False).training is None


@pytest.mark.parametrize("epochs", [1, 3, 10, 200])
@pytest.mark.parametrize(("count", "trials"), [(1, 1), (2, 2), (16, 2)])
def test_epochs_are_counted_of_all_trials(epochs, count, trials):
    def planned(**options):
        return matching.count_trials(Train(make, count, epochs=epochs, **options))

    assert planned() == (0, 0)
    # Eight settings for twice the epochs each, and once more for four times as many.
    assert planned(match="auto") == (9 * trials, (8 * 2 + 4) * epochs * trials)
    assert planned(match={"lr": [0.1, 0.01, 1e-3]}) == (3 * trials, 3 * epochs * trials)
    # Epochs of a constant rate are moments of one training.
    assert planned(match={"lr": [0.1, 0.01], "epochs": [2, 40, 7]}) == (2 * trials, 2 * 40 * trials)
    assert matching.longest_training(Train(make, count, epochs=epochs)) == epochs
    assert matching.longest_training(Train(make, count, epochs=epochs, match="auto")) == 4 * epochs
    assert matching.longest_training(Train(make, count, epochs=epochs, match={"epochs": [2, 7]})) == 7
