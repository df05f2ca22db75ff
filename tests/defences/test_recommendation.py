"""The setting that is recommended, the rows that it is chosen from, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge.defences import measure_settings, suggest_settings, trade_off
from divulge.defences.trade_off import AS_IT_IS, TradeOff
from divulge.results import SettingResult
from divulge.run_directory import RunDirectory
from divulge.types import Estimate


def made(name, **parameters):
    """An estimator of a class of this name with these parameters."""
    return type(name, (), {"get_params": lambda self, deep: parameters})()


@pytest.mark.parametrize("model", [GaussianNB(), object(), made("LinearRegression"), made("KNeighborsClassifier")])
def test_a_kind_without_settings_is_refused_by_name(model):
    name = type(model).__name__
    with pytest.raises(dv.InputError, match=f"settings: none is known for {name}; name some, such as"):
        suggest_settings(model)


def row(name, auc=0.7, loss=0.01, stored=0, reach=0.02, utility=0.9, tpr=0.1, answer="leak found"):
    estimates = [None if v is None else Estimate(v, v - reach, v + reach, 0.95, "") for v in (auc, loss, utility, tpr)]
    return SettingResult(
        name, answer, "Some are told apart.", estimates[0], estimates[3], estimates[2], estimates[1], stored, 0.5,
        recipe="lira", constant=False,
    )  # fmt: skip


def traded(*rows, utility="accuracy", max_loss=0.05, as_it_is=None, recipes=("auto", "lira")):
    first = as_it_is or row(AS_IT_IS, 0.9, None)
    return TradeOff((first, *rows), recipes, 0.05, utility, max_loss, 7, 4, "Forest", ("mind",))


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([row("a", loss=0.03)], "a"),
        ([row("a", loss=0.0301)], None),
        ([row("a", 0.9)], None),
        ([row("a", 0.87)], None),  # less than 0.9, but the intervals overlap
        ([row("a", 0.85)], "a"),
        ([row("a", 0.1)], None),  # as far below one half as the model is above
        ([row("a", 0.15)], "a"),
        ([row("a", 0.7), row("b", 0.35)], "b"),
        ([row("a", 0.7), row("b", 0.25)], "a"),
        ([row("a", 0.45), row("b", 0.6)], "a"),
        ([row("a", 0.52, answer="too little data to say"), row("b", 0.53, answer="no leak found")], "b"),
        ([row("a", 0.6, answer="split is confounded")], None),
        ([row("a", stored=1)], None),
        ([replace(row("a"), loss=None)], None),
        ([row("a"), row("b")], "a"),
    ],
)
def test_the_setting_nearest_to_guessing_that_surely_helps_and_costs_little_is_recommended(rows, name):
    found = traded(*rows).recommended
    assert (found and found.name) == name
    if all(each.loss is not None for each in rows):
        summary = traded(*rows).summary()
        assert summary.recommended == (name or "")
        assert (summary.tone, summary.recipes, summary.fpr) == ("plain", ("auto", "lira"), 0.05)
        assert (summary.max_loss, summary.references, summary.model, summary.seed) == (0.05, 4, "Forest", 7)
        assert (summary.warnings, len(summary.rows)) == (("mind",), 1 + len(rows))


def test_a_model_in_which_records_stand_is_never_recommended():
    for stored, name in ((0, "a"), (1, None), (5, None)):
        result = traded(row("a", stored=stored), as_it_is=row(AS_IT_IS, 0.9, None, stored=5))
        assert (result.recommended and result.recommended.name) == name


@pytest.mark.parametrize("answer", ["no leak found", "too little data to say", "split is confounded"])
def test_where_no_leak_was_seen_no_setting_is_said_to_help(answer):
    result = traded(row("a", 0.5, answer="no leak found"), as_it_is=row(AS_IT_IS, 0.9, None, answer=answer))
    assert result.recommended is None
    assert result.verdict == "Of the model as it is: Some are told apart. So no setting can be seen to give away less."


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("leak found", "That is less, and still a leak."),
        ("too little data to say", "That is less; whether it is still a leak, its audit cannot say."),
        ("no leak found", "Its audit finds no leak."),
    ],
)
def test_an_undecided_audit_of_the_best_setting_is_no_all_clear(answer, sentence):
    assert traded(row("a", 0.54, answer=answer)).verdict.endswith(sentence)


def test_weak_attacks_are_named_where_no_stronger_one_was_tried():
    weak = traded(row("a", 0.54, answer="no leak found"), recipes=("loss",)).verdict
    assert weak.endswith('Only loss attacked; stronger attacks may see more: put "auto" in recipes.')
    assert "may see more" not in traded(row("a", 0.54)).verdict


def test_a_saved_run_is_judged_again_from_its_rows(tmp_path):
    result = traded(row("a"), row("b", 0.6, tpr=None))
    result.save(tmp_path / "run")
    with pytest.raises(dv.InputError):
        result.save(tmp_path / "run")
    result.save(tmp_path / "run", overwrite=True)
    loaded = trade_off.TRADE_OFF.load(tmp_path / "run").summary
    assert (loaded.verdict, loaded.recommended, loaded.tone) == (result.verdict, "b", "plain")
    frame = dv.load(tmp_path / "run").to_frame()
    assert frame["setting"].to_list() == [AS_IT_IS, "a", "b"]
    assert frame["auc"].to_list() == [0.9, 0.7, 0.6]
    assert frame["loss_high"].to_list() == [None, pytest.approx(0.03), pytest.approx(0.03)]
    assert frame["tpr_low"].to_list() == [pytest.approx(0.08), pytest.approx(0.08), None]
    assert frame.columns[:4] == ["setting", "verdict", "stored", "recipe"]
    assert len(frame.columns) == 16
    content = json.loads((tmp_path / "run" / "summary.json").read_text())
    target, first, _ = content["rows"]
    for rows in ([target], [target, first | {"loss": None}], [target, first]):
        with RunDirectory(tmp_path / "run").changing("trade-off") as draft:
            draft.write_json("summary", content | {"rows": rows})
        if rows[-1] == first:
            assert dv.load(tmp_path / "run").summary.recommended == "a"
            continue
        with pytest.raises(dv.InputError, match="damaged: a model and at least 1 setting are needed"):
            dv.load(tmp_path / "run")


def sets(n=60):
    x, y = load_breast_cancer(return_X_y=True)
    parts = np.split(np.random.default_rng(0).permutation(len(y))[: 3 * n], [n, 2 * n])
    return dict(zip(("members", "nonmembers", "population"), (dv.Records(x[p], y[p]) for p in parts), strict=True))


@pytest.fixture(scope="module")
def data():
    return sets()


@pytest.fixture(scope="module")
def pipeline(data):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(data["members"].x, data["members"].y)


def test_each_setting_is_trained_as_the_target_is_asked_and_all_intervals_of_a_column_hold_together(data, pipeline):
    told = []
    result = measure_settings(
        pipeline, **data, recipes=["loss", "gap"], fpr=[0.1, 0.05], seed=5, references=None,
        settings=[{"C": 0.01}, {"logisticregression__C": 0.1, "standardscaler__with_mean": False}],
        progress=lambda done, total, note: told.append((done, total, note)),
    )  # fmt: skip
    names = [AS_IT_IS, "C = 0.01", "logisticregression__C = 0.1, standardscaler__with_mean = False"]
    assert [each.name for each in result.rows] == names
    assert told == [*((i, 3, name) for i, name in enumerate(names)), (3, 3, "")]
    asked = data["nonmembers"]
    for each, scale, c in zip(result.rows, (True, True, False), (1.0, 0.01, 0.1), strict=True):
        model = make_pipeline(StandardScaler(with_mean=scale), LogisticRegression(C=c))
        right = model.fit(data["members"].x, data["members"].y).predict(asked.x) == asked.y
        exact = stats.binomtest(int(right.sum()), len(right)).proportion_ci(each.utility.confidence)
        assert (each.utility.value, each.utility.low, each.utility.high) == pytest.approx(
            (right.mean(), exact.low, exact.high)
        )
        assert each.utility.confidence == pytest.approx(1 - 0.05 / 3)
        assert each.auc.confidence == pytest.approx(1 - 0.05 / 6)  # of two attacks each
        audit = dv.audit(model, **data, recipes=["loss", "gap"], fpr=[0.1, 0.05], seed=5, references=None)
        aucs = {name: audit[name].auc.value for name in audit}
        assert each.recipe == max(aucs, key=lambda name: abs(aucs[name] - 0.5))
        assert (each.auc.value, each.answer) == (aucs[each.recipe], audit.verdict.answer)
        assert (each.loss is None) == (each.name == AS_IT_IS)
        assert each.loss is None or each.loss.value == pytest.approx(result.rows[0].utility.value - each.utility.value)
    assert (result.recipes, result.fpr, result.utility, result.seed) == (("loss", "gap"), 0.1, "accuracy", 5)
    assert (result.model, result.references, result.max_loss) == ("LogisticRegression", 0, 0.05)


def test_settings_that_are_not_named_are_the_suggested_ones_and_a_regression_loses_in_its_units(data):
    records = {name: dv.Records(part.x[:, 1:], part.x[:, 0]) for name, part in data.items()}
    target = Ridge().fit(records["members"].x, records["members"].y)
    result = measure_settings(target, **records, recipes=["loss"])
    assert [each.name for each in result.rows] == [AS_IT_IS, "alpha = 10.0", "alpha = 100.0", "alpha = 1000.0"]
    assert (result.utility, result.references) == ("mean absolute error", 0)
    models = [Ridge(alpha).fit(records["members"].x, records["members"].y) for alpha in (1.0, 10.0, 100.0, 1000.0)]
    errors = [np.abs(model.predict(records["nonmembers"].x) - records["nonmembers"].y) for model in models]
    for each, error in zip(result.rows, errors, strict=True):
        student = stats.t.interval(each.utility.confidence, len(error) - 1, error.mean(), stats.sem(error))
        assert (each.utility.value, each.utility.low, each.utility.high) == pytest.approx((error.mean(), *student))
        assert each.loss is None or each.loss.value == pytest.approx((error - errors[0]).mean())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipes": ()}, "recipes: at least 1 entry is needed"),
        ({"recipes": ["unheard-of"]}, "unheard-of"),
        ({"references": "many"}, "references"),
        ({"overwrite": 1}, "overwrite"),
        ({"members": np.zeros((3, 2))}, "members"),
        ({"max_loss": math.nan}, "max_loss"),
        ({"seed": -1}, "seed"),
        ({"task": "ranking"}, "task"),
        ({"duplicates": "maybe"}, "duplicates"),
    ],
)
def test_odd_requests_are_refused_before_anything_is_trained(data, pipeline, options, message):
    with pytest.raises(dv.InputError, match=message):
        measure_settings(pipeline, **(data | options))


@pytest.mark.parametrize("name", ["members", "nonmembers", "population"])
def test_records_without_labels_are_refused_by_their_set(data, pipeline, name):
    with pytest.raises(dv.InputError, match=f"{name}: labels are needed to train on, and there is no y"):
        measure_settings(pipeline, **(data | {name: dv.Records(data[name].x)}))


@pytest.mark.parametrize("label", [0, 1])
def test_members_must_have_all_classes_of_the_target(data, label):
    target = DecisionTreeClassifier(random_state=0).fit(data["members"].x, data["members"].y)
    chosen = data["members"].y == label
    few = dv.Records(data["members"].x[chosen], data["members"].y[chosen])
    with pytest.raises(dv.InputError, match="members: they have 1 classes, and the target was fitted on 2; give all"):
        measure_settings(target, **(data | {"members": few}), settings=[{"max_depth": 2}], recipes=["loss"])
