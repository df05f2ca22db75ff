"""Settings that match a target: what is compared, what is reused, and who has no say in it."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import divulge as dv
from divulge.errors import InputError
from divulge.references import Train, engines, fitting, matching
from divulge.results import ReferenceComparison


def make():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def make_normalised():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 3))


def draw(n, seed):
    rng = np.random.default_rng([17, seed])
    x = rng.normal(size=(n, 6)).astype(np.float32)
    return dv.Records(x, (x[:, :3] + rng.normal(size=(n, 3))).argmax(axis=1))


SETTINGS = {"epochs": 3, "optimizer": "adam", "batch_size": 32}
pytestmark = pytest.mark.usefixtures("records_compared_once")

SETS = {"members": draw(80, 0), "nonmembers": draw(80, 1), "population": draw(240, 2)}
FAR_TARGET = dv.targets.CallableTarget(lambda x: x[:, :3])


@pytest.fixture(scope="module")
def target():
    return Train(make, epochs=12, optimizer="adam", lr=0.01, batch_size=32).train_model(SETS["members"], seed=3)


def audit(references, target=FAR_TARGET, **changes):
    options = {"recipes": ["calibrated"], "fpr": (0.1,), "progress": None, "seed": 0}
    return dv.audit(target, **SETS | options | changes, references=references)


def tried_distances(result):
    """The settings that were tried, by their names, and how far from the target they are."""
    return {each.setting: each.rmse and each.rmse.value for each in result.about.matched.tried}


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


def test_a_trial_model_is_the_reference_and_is_not_trained_again(target, tmp_path):
    references = Train(make, count=2, match={"lr": [0.0001, 0.01], "epochs": [3, 12]}, **SETTINGS)
    result = audit(references, target, options=dv.AuditOptions(pool=tmp_path / "pool"))
    assert result.about.matched.chosen == "lr=0.01, epochs=12"
    assert [each.models for each in result.about.matched.tried] == [2, 2]  # each with its nearest epoch
    assert result.about.engine.endswith("all others from the pool")


def test_candidates_have_no_say(target):
    """Whatever stands in their place, the same settings are tried, at the same distances, and the same is chosen."""
    references = Train(make, count=2, match={"lr": [0.001, 0.01], "epochs": [2, 4]}, **SETTINGS)
    strange = {name: SETS[name].with_values(SETS[name].x * 1000) for name in ("members", "nonmembers")}
    plain, other = (audit(references, target, **changes) for changes in ({}, strange))
    assert plain.about.matched == other.about.matched
    assert not np.array_equal(plain.scores["calibrated"], other.scores["calibrated"])


def test_auto_finds_a_learning_rate_far_from_the_given_one(target):
    result = audit(Train(make, count=2, lr=0.0003, match="auto", **SETTINGS), target)
    distances = tried_distances(result)
    assert float(result.about.matched.chosen.split(",")[0].removeprefix("lr=")) >= 0.003
    assert min(distances.values()) < max(distances.values())


class Dial(ClassifierMixin, BaseEstimator):
    """A classifier whose answers are its parameters alone, so that the nearest ones are known."""

    def __init__(self, max_depth=None, min_samples_leaf=0.2, n_neighbors=30, C=1.0):
        self.max_depth, self.min_samples_leaf, self.n_neighbors, self.C = max_depth, min_samples_leaf, n_neighbors, C

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x):
        dials = np.array([self.max_depth or 32, self.min_samples_leaf, self.n_neighbors, np.log10(self.C)])
        shown = (dials * [0.05, 5, 0.02, 0.5])[np.digitize(x[:, 0], [-0.7, 0, 0.7])]  # of a quarter of the records each
        odds = np.exp(shown)[:, None]
        return np.hstack([odds, np.ones((len(x), 2))]) / (odds + 2)


def test_auto_climbs_from_parameter_to_parameter_on_both_sides_of_the_given_value():
    """No limit is tried with some, a number with half and twice it, a strength by half decades up and down."""
    result = audit(Train(Dial, count=2, match="auto"), Dial(4, 0.1, 60, 0.1).fit(SETS["members"].x, SETS["members"].y))
    assert result.about.matched.chosen == "max_depth=4, min_samples_leaf=0.1, n_neighbors=60, C=0.1"
    tried = set(tried_distances(result))
    assert {"as given", *(f"max_depth={depth}" for depth in (16, 8, 4, 2))} < tried
    shares = {name.partition("leaf=")[2].partition(",")[0] for name in tried if "leaf=" in name}
    assert {"0.4", "0.1"} <= shares <= {"0.4", "0.1", "0.05", "0.025"}  # a leaf of more than half there is none
    numbers = {name.partition("n_neighbors=")[2] for name in tried if "n_neighbors" in name and "C=" not in name}
    assert "60" in numbers
    assert numbers <= {"60", "15", "7", "3"}  # a clone has fewer than 120 records
    assert {name.partition("C=")[2] for name in tried if "C=" in name} >= {"3.16", "0.316", "0.1"}
    assert len(tried) <= matching.MAX_PARAMETER_RUNS


def test_parameters_of_estimators_are_matched():
    members = SETS["members"]
    forest = RandomForestClassifier(30, max_depth=2, random_state=0).fit(members.x, members.y)
    answers = dv.targets.CallableTarget(lambda x: np.log(forest.predict_proba(x) + 1e-3))
    grid = {"max_depth": [None, 2], "n_estimators": [10, 30]}
    matched = audit(Train(lambda: RandomForestClassifier(random_state=0), count=2, match=grid), answers).about.matched
    assert "max_depth=2" in matched.chosen
    assert matched.models == 8


def test_clones_of_the_target_need_no_search():
    model = GradientBoostingClassifier(n_estimators=3).fit(SETS["members"].x, SETS["members"].y)
    assert audit(Train(count=2, match="auto"), model).about.matched is None
    assert audit(Train(count=2, match={"n_estimators": [3, 6]}), model).about.matched is not None


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
        audit(Train(make, count=2, match=match, **SETTINGS), options=dv.AuditOptions(pool=tmp_path))
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            {"random_state": [0, 1]},
            "match: random_state cannot be tried, as each reference model has a seed of its own",
        ),
        ({"max_depth": [2], "verbose": [0, 1]}, "match: verbose cannot be tried, as it changes no reference model"),
        ({"max_depth": [3, 0]}, "match: The 'max_depth' parameter of RandomForestClassifier must be an int"),
        ({"depth": [2]}, "match: a parameter of RandomForestClassifier.*depth"),
    ],
)
def test_values_that_change_nothing_or_are_invalid_are_refused_before_any_training(match, message, monkeypatch):
    monkeypatch.setattr(RandomForestClassifier, "fit", lambda *args: pytest.fail("a model was trained"))
    with pytest.raises(InputError, match=message):
        audit(Train(lambda: RandomForestClassifier(5), count=2, match=match))


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


def test_auto_passes_over_values_that_an_estimator_does_not_take():
    """Only fitting tells that the bag's share holds fewer records than neighbours."""
    bag = BaggingClassifier(KNeighborsClassifier(25), n_estimators=2, max_samples=0.4)
    tried = audit(Train(lambda: bag, count=2, match="auto")).about.matched.tried
    assert len(tried) > 1
    assert tried[0].rmse is not None
    assert all("n_neighbors" in each.failure for each in tried if each.rmse is None)


def test_a_setting_that_cannot_be_trained_is_one_of_those_tried():
    matched = audit(Train(KNeighborsClassifier, count=2, match={"n_neighbors": [5000, 5]})).about.matched
    nearest, failed = matched.tried
    assert (matched.chosen, nearest.failure, failed.models, failed.rmse) == ("n_neighbors=5", None, 0, None)
    assert "Expected n_neighbors <= n_samples" in failed.failure
    with pytest.raises(InputError, match=r"no model could be trained with any of the 2 settings tried; .* n_neighbors"):
        audit(Train(KNeighborsClassifier, count=2, match={"n_neighbors": [5000, 6000]}))
    with pytest.raises(InputError, match="match: training diverged"):
        audit(Train(make, count=2, match={"lr": [1e30, 1e35]}, epochs=2))


def test_values_that_print_alike_are_numbered():
    small, large = (lambda: nn.Sequential(nn.Linear(6, 3))), (lambda: nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3)))
    result = audit(Train(make, count=2, match={"make_model": [small, make, large]}, **SETTINGS))
    names = {name.partition("make_model=")[2] for name in tried_distances(result)}
    assert names == {"<lambda> (1 of 2)", "make", "<lambda> (2 of 2)"}


def test_matching_needs_a_target_and_records_enough():
    records = draw(20, 0)
    with pytest.raises(InputError, match=r"match: settings are chosen in divulge\.audit alone"):
        Train(make, count=1, match="auto").fit(records, np.ones((1, 20), dtype=bool), seed=0)
    with pytest.raises(InputError, match="match: at least 60 distinct population records"):
        audit(Train(make, count=2, match="auto", **SETTINGS), population=draw(70, 4))


def test_stored_models_keep_their_keys_where_the_new_settings_are_not_used():
    from divulge.references import pool

    names = [name for name, _ in pool.list_settings(Train(make))]
    assert not {"match", "stop_after"} & set(names)
    assert "stop_after" in dict(pool.list_settings(Train(make, stop_after=2)))


@pytest.mark.parametrize(
    ("match", "settings"),
    [
        ({"epochs": [2, 1], "stop_after": [1]}, {}),
        ({"stop_after": [None, 1, 2]}, {"schedule": "cosine"}),
        ({"epochs": [2, 3], "privacy": [None, dv.references.Private(1.0)]}, {}),
        ({"epochs": [2, 3], "stop_at_accuracy": [0.1, 1.0]}, {}),
        ("auto", {"stop_after": 1, "schedule": "linear"}),
    ],
)
def test_no_more_models_are_trained_than_are_forecast(match, settings):
    """Whatever the grid, of which the number is known before; epochs are counted below."""
    references = Train(make, count=2, match=match, epochs=2, batch_size=32, optimizer="adam", **settings)
    records = SETS["population"]
    held_out = draw(20, 7)
    rows = dv.references.splits.offline(len(records), 2, 0)
    request = fitting.TrainingRequest(records, rows, (records,), None, 3, None, None, None)
    goal = matching.MatchGoal(held_out, held_out.x[:, 0], lambda model, records: model.logits(records)[:, 0])
    match_found = matching.match_settings(references, request, rows, 0, goal)
    n_models, n_epochs = matching.count_trials(references)
    assert match_found.n_models <= n_models
    chosen = match_found.training
    assert (chosen.stop_after or chosen.epochs) <= matching.longest_training(references)
    if match != "auto":
        assert match_found.n_models == n_models
        assert len(match_found.tried) <= np.prod([len(each) for each in match.values()])
    assert all(not setting.failure for setting in match_found.tried)
    plans = matching.plan_epochs(references)
    assert sum(plan.trial_epochs for plan in plans) == n_epochs
    assert max(plan.longest for plan in plans) == matching.longest_training(references)
