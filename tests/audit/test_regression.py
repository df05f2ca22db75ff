"""Audits of regression models: every kind of target, the task, what y means, and what the pages say."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import divulge as dv
from divulge import auditing, plan, recipes, targets
from divulge.attacks import RMIA, LiRA, OnErrors, Threshold
from divulge.attacks.prediction_errors import error_logits, error_variance
from divulge.auditing import run_audit
from divulge.auditing.compare import Comparison, compare, comparison_page
from divulge.auditing.gates import gate
from divulge.evaluation import blind
from divulge.evaluation.blind import differences
from divulge.references import Custom, Train
from divulge.report import html
from divulge.results import BlindBaseline, RegressionFit
from divulge.types import Evidence


def draw(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return dv.Records(x, 5 + x @ np.array([2.0, -1.0, 0.0]) + rng.normal(size=n))


def forest(records, seed):
    return RandomForestRegressor(20, random_state=seed % 2**31).fit(records.x, records.y)


@pytest.fixture(scope="module")
def sets():
    return {"members": draw(80, 0), "nonmembers": draw(80, 1), "population": draw(160, 2)}


@pytest.fixture(scope="module")
def run(sets, tmp_path_factory):
    return dv.audit(
        forest(sets["members"], 0),
        **sets,
        recipes=["auto", "loss", "lira", "rmia", "lira-residual", "quantile-trees"],
        references=Custom(forest, count=4, engine="serial"),
        fpr=[0.05],
        out=tmp_path_factory.mktemp("regression") / "run",
    )


def audited(target, sets, **options):
    return dv.audit(target, **sets, **({"recipes": ["loss"], "fpr": [0.05]} | options))


# The likelihood of an error in the place of a class's probability.


def literal_evidence(likelihood, unit, rng):
    """Evidence of squared errors, and the same turned by hand into what an attack on probabilities takes."""
    errors = {"target": rng.normal(size=30), "population": rng.normal(size=50) * 3}
    errors |= {"references": rng.normal(size=(4, 30)), "population_references": rng.normal(size=(4, 50))}
    inside = rng.random((4, 50)) < 0.5
    variance = np.median(errors["population"] ** 2) / stats.chi2.median(1)
    turned = {}
    for name, values in errors.items():
        z = values / variance**0.5
        p = 1 / (1 + z**2) if likelihood == "cauchy" else np.exp(-(z**2) / 2)
        turned[name] = {"probability": p, "log-probability": np.log(p), "scaled logit": np.log(p / (1 - p))}[unit]
    squares = {name: -(values**2) for name, values in errors.items()}
    return Evidence(**squares, population_trained_on=inside), Evidence(**turned, population_trained_on=inside)


@pytest.mark.parametrize("likelihood", ["cauchy", "gaussian"])
@pytest.mark.parametrize(
    ("attack", "unit"),
    [(LiRA(variance="global"), "scaled logit"), (RMIA(), "probability"), (Threshold(), "log-probability")],
)
def test_attacks_on_errors_are_attacks_on_their_likelihood(likelihood, attack, unit):
    squares, turned = literal_evidence(likelihood, unit, np.random.default_rng(3))
    got = OnErrors(attack, unit, likelihood).score(squares)
    np.testing.assert_allclose(got, attack.score(turned), rtol=1e-7, atol=1e-9)


def test_the_deviation_does_not_follow_a_few_large_errors():
    squares = np.random.default_rng(0).normal(size=4000) ** 2
    assert error_variance(squares) == pytest.approx(1, rel=0.1)
    assert error_variance(np.r_[squares, np.full(40, 1e12)]) == pytest.approx(1, rel=0.15)
    assert error_variance(np.r_[np.zeros(6), 5.0]) == pytest.approx(5 / 7)  # where half of the errors are 0
    logits = error_logits(np.array([0.0, 1e-300, 1.0, 1e300]), 1.0)
    assert np.isfinite(logits).all()
    assert (np.diff(logits) <= 0).all()


def test_scores_do_not_depend_on_the_unit_of_y(sets):
    in_cents = {name: dv.Records(records.x, 100 * records.y) for name, records in sets.items()}
    runs = [
        audited(
            LinearRegression().fit(parts["members"].x, parts["members"].y),
            parts,
            recipes=["loss", "rmia", "lira"],
            references=Custom(lambda records, seed: LinearRegression().fit(records.x, records.y), count=3),
        )
        for parts in (sets, in_cents)
    ]
    for recipe in runs[0]:
        np.testing.assert_allclose(runs[0].scores[recipe], runs[1].scores[recipe], rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("scores_alone")
@pytest.mark.parametrize(
    ("scale", "estimator"),
    [
        (-1.0, RandomForestRegressor(8, random_state=0)),
        (2.0**200, KNeighborsRegressor(2)),  # trees of scikit-learn know no such values
    ],
)
def test_no_attack_depends_on_the_unit_of_y(scale, estimator):
    """Powers of two, under which models are scaled exactly: all scores are the same, but for rounding."""
    recipes_run = [recipe.name for recipe in recipes.regression_recipes() if recipe.name != "quantile"]
    runs = []
    for factor in (1.0, scale):
        sets = {
            name: dv.Records(records.x, factor * records.y).with_real_values()
            for name, records in {"members": draw(40, 0), "nonmembers": draw(40, 1), "population": draw(100, 2)}.items()
        }
        target = estimator.fit(sets["members"].x, sets["members"].y)
        references = Train(count=3, engine="serial")
        runs.append(audited(target, sets, recipes=recipes_run, references=references, fpr=[0.1], task="regression"))
    assert runs[0].verdict.answer == runs[1].verdict.answer
    for name in recipes_run:
        np.testing.assert_allclose(runs[0].scores[name], runs[1].scores[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: np.where(np.arange(len(y)) == 3, np.nan, y), "records without class or value: 1 .first: row 3"),
        (lambda y: np.where(np.arange(len(y)) == 3, np.inf, y), "labels must be finite, got inf in row 3"),
        (lambda y: y * 1e200, r"members: y: values must spread over 1e-140 to 1e\+140"),
        (lambda y: y * 1e-200, r"members: y: values must spread over 1e-140 to 1e\+140"),
    ],
)
def test_values_of_which_no_square_can_be_taken_are_refused(change, message):
    model = LinearRegression().fit(draw(20, 0).x, draw(20, 0).y)

    def audit():
        sets_drawn = {"members": draw(20, 0), "nonmembers": draw(20, 1), "population": draw(40, 2)}
        return audited(model, {name: dv.Records(r.x, change(r.y)).with_real_values() for name, r in sets_drawn.items()})

    with pytest.raises(dv.InputError, match=message):
        audit()


def test_large_whole_numbers_are_values_and_no_classes():
    """From 2**53 on every float is whole: times in nanoseconds, incomes in cents times a billion."""
    assert dv.Records(np.zeros((2, 1)), [1.7e18, 1.8e18]).labels is None
    assert dv.Records(np.zeros((2, 1)), [3.0, 4.0]).labels is not None
    sets = {name: dv.Records(r.x, 1e17 * (10 + r.y)) for name, r in {"members": draw(60, 0), "nonmembers": draw(60, 1),
            "population": draw(120, 2)}.items()}  # fmt: skip
    model = LinearRegression().fit(sets["members"].x, sets["members"].y)
    assert audited(model, sets).about.measured(RegressionFit).r_squared_members.value > 0.5


# Targets.


def torch_target(records):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 1)
    fitted = LinearRegression().fit(records.x, records.y)
    with torch.no_grad():
        model.weight.copy_(torch.as_tensor(fitted.coef_[None]))
        model.bias.copy_(torch.as_tensor([fitted.intercept_]))
    return model, fitted


def onnx_bytes(fitted):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, numpy_helper, element_type = onnx.helper, onnx.numpy_helper, onnx.TensorProto.FLOAT
    weights = [numpy_helper.from_array(fitted.coef_[:, None].astype(np.float32), "w")]
    weights.append(numpy_helper.from_array(np.array([fitted.intercept_], np.float32), "b"))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", element_type, [None, 3])]
    outputs = [helper.make_tensor_value_info("y", element_type, [None, 1])]
    graph = helper.make_graph(nodes, "line", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


class CustomRegressor:
    def __init__(self, fitted):
        self.fitted = fitted

    def predictions(self, records):
        return self.fitted.predict(records.x)


def make_target(model_type, records, folder):
    """A target of a kind, and the estimator whose predictions it gives."""
    linear = LinearRegression().fit(records.x, records.y)
    if model_type in ("lightgbm", "xgboost", "catboost"):
        library = pytest.importorskip(model_type)
        settings = {
            "lightgbm": {"verbose": -1},
            "xgboost": {},
            "catboost": {"verbose": 0, "allow_writing_files": False},
        }
        classes = {"lightgbm": "LGBMRegressor", "xgboost": "XGBRegressor", "catboost": "CatBoostRegressor"}
        model = getattr(library, classes[model_type])(n_estimators=10, **settings[model_type]).fit(records.x, records.y)
        return model, model
    if model_type == "torch":
        return torch_target(records)
    if model_type == "onnx":
        (folder / "line.onnx").write_bytes(onnx_bytes(linear))
        return targets.OnnxTarget(folder / "line.onnx"), linear
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(records.x, records.y)
    return {
        "estimator": (linear, linear),
        "pipeline": (pipeline, pipeline),
        "function": (lambda x: linear.predict(x), linear),
        "function of a column": (lambda x: linear.predict(x)[:, None], linear),
        "own class": (CustomRegressor(linear), linear),
        "adapter": (targets.SklearnRegressor(linear), linear),
    }[model_type]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "model_type",
    [
        *("estimator", "pipeline", "lightgbm", "xgboost", "catboost", "torch", "onnx"),
        *("function", "function of a column", "own class", "adapter"),
    ],
)
def test_every_kind_of_target_is_audited_by_its_own_errors(model_type, sets, tmp_path):
    target, estimator = make_target(model_type, sets["members"], tmp_path)
    result = audited(target, sets)
    records = dv.Records.concatenate([sets["members"], sets["nonmembers"]])
    expected = -((estimator.predict(records.x) - records.y) ** 2)
    np.testing.assert_allclose(result.signals["negative-squared-loss"], expected, rtol=2e-3, atol=1e-4)
    assert result.about.measured(RegressionFit) is not None
    assert result.about.counts.classes == 0


def test_named_columns_are_given_in_the_order_of_the_fit(sets):
    def frames(order):
        return {
            name: dv.Records(pl.DataFrame(dict(zip("abc", records.x.T, strict=True))).select(*order), records.y)
            for name, records in sets.items()
        }

    members = frames("abc")["members"]
    model = LinearRegression().fit(members.table.to_native().to_pandas(), members.y)
    straight, reordered = (audited(model, frames(order)) for order in ("abc", "cab"))
    assert np.array_equal(straight.scores["loss"], reordered.scores["loss"])


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (RandomForestClassifier(5), {"task": "regression"}, "RandomForestClassifier is a classifier"),
        (LinearRegression(), {"task": "classification"}, "predicts real values"),
        (LinearRegression(), {"task": "guessing"}, "task"),
        (lambda x: np.zeros((len(x), 3)), {}, "the target is a classifier: whole-number labels are needed"),
        (lambda x: np.zeros((len(x), 3)), {"task": "regression"}, "one real value per record is needed"),
        (lambda x: np.full(len(x), np.nan), {"task": "regression"}, "NaN or infinite"),
        (lambda x: np.zeros(len(x) - 1), {"task": "regression"}, "rows are needed"),
        (
            LinearRegression(),
            {"options": dv.AuditOptions(known="share:0.5")},
            "known: the target is a regression model",
        ),
        (LinearRegression(), {"recipes": ["gap"]}, "gap is no attack on a regression model.*lira"),
        (LinearRegression(), {"recipes": ["lira-augmented"], "references": Custom(forest, count=2)}, "is no attack on"),
        (LinearRegression(), {"recipes": ["lira"], "references": None}, "references=divulge.references.Train"),
        (LinearRegression(), {"unseen_classes": [1]}, "needs labelled records"),
    ],
)
def test_what_does_not_fit_is_refused(target, options, message, sets):
    if hasattr(target, "fit"):
        y = sets["members"].y
        target.fit(sets["members"].x, y.round().astype(int) if isinstance(target, RandomForestClassifier) else y)
    with pytest.raises(dv.InputError, match=message):
        audited(target, sets, **options)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.usefixtures("scores_alone")
@pytest.mark.parametrize("model_type", ["estimator", "pipeline", "xgboost"])
def test_references_are_clones_of_an_estimator(model_type, sets, tmp_path):
    target, _ = make_target(model_type, sets["members"], tmp_path)
    options = {
        "recipes": ["lira", "loss"],
        "references": Train(count=3, engine="serial"),
        "options": dv.AuditOptions(pool=tmp_path / "pool"),
    }
    result, repeated = (audited(target, sets, **options) for _ in range(2))
    assert np.array_equal(result.scores["lira"], repeated.scores["lira"])
    assert "from the pool" not in result.about.engine
    assert type(target).__name__ in result.about.settings.target
    if model_type == "estimator":  # it draws nothing, so a clone is what anyone fits on the same records

        def fit(records, seed):
            return LinearRegression().fit(records.x, records.y)

        custom_result = audited(target, sets, **(options | {"references": Custom(fit, count=3, engine="serial")}))
        np.testing.assert_allclose(result.scores["lira"], custom_result.scores["lira"], rtol=1e-9)


def test_clones_are_given_frames_as_the_target_is(sets):
    frames = {
        name: dv.Records(
            pl.DataFrame(dict(zip("ab", records.x.T, strict=False)) | {"sex": np.where(records.x[:, 2] > 0, "f", "m")}),
            records.y,
        )
        for name, records in sets.items()
    }
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    members = frames["members"]
    model = make_pipeline(encoder, Ridge()).fit(members.table.to_native().to_pandas(), members.y)
    result = audited(model, frames, recipes=["lira", "loss"], references=Train(count=2, engine="serial"))
    assert result.about.measured(RegressionFit).r_squared_members.value > 0.5


def test_a_function_has_clones_of_what_make_model_returns(sets):
    linear = LinearRegression().fit(sets["members"].x, sets["members"].y)
    options = {"recipes": ["lira"], "task": "regression"}
    function_result, target_result = (
        audited(target, sets, references=Train(make, count=2, engine="serial"), **options)
        for target, make in ((lambda x: linear.predict(x), LinearRegression), (linear, None))
    )
    np.testing.assert_allclose(function_result.scores["lira"], target_result.scores["lira"], rtol=1e-9)


def test_references_that_are_classifiers_are_refused(sets):
    def classifier(records, seed):
        return RandomForestClassifier(3).fit(records.x, records.y > 5)

    with pytest.raises(dv.InputError, match="is a classifier"):
        audited(forest(sets["members"], 0), sets, recipes=["lira"], references=Custom(classifier, count=2))
    with pytest.raises(dv.InputError, match=r"Custom is needed|make_model"):
        audited(lambda x: x[:, 0], sets, recipes=["lira"], references=Train(lambda: None, count=2))


def test_a_function_of_whole_numbers_is_a_regression_model_only_if_the_user_says_so(sets):
    count_sets = {
        name: dv.Records(records.x, np.abs(np.round(records.y)).astype(int)) for name, records in sets.items()
    }
    linear = LinearRegression().fit(count_sets["members"].x, count_sets["members"].y)
    with pytest.raises(dv.InputError, match="task='regression'"):
        audited(lambda x: linear.predict(x), count_sets)
    assert audited(lambda x: linear.predict(x), count_sets, task="regression").labels is None
    assert audited(linear, count_sets).labels is None  # an estimator says it itself
    below = {name: dv.Records(records.x, np.round(records.y).astype(int) - 2) for name, records in sets.items()}
    assert audited(lambda x: linear.predict(x) - 2, below).labels is None  # no class is called -2


# What y means.


def test_records_that_differ_in_y_alone_are_two(sets):
    doubled = sets | {"nonmembers": dv.Records(sets["members"].x, sets["members"].y + 1.0)}
    model = forest(sets["members"], 0)
    assert audited(model, doubled).about.duplicates == 0
    with pytest.raises(dv.InputError, match="80 non-members are exact duplicates of members"):
        audited(model, sets | {"nonmembers": sets["members"]})


def test_the_blind_baseline_is_given_y_as_a_number():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    inside = np.arange(400) < 200
    shifted = np.exp(y + inside)
    split = {"y_members": shifted[inside], "y_nonmembers": shifted[~inside]}
    assert blind.baseline(x[inside], x[~inside], **split).confounded
    assert not blind.baseline(x[inside], x[~inside], y_members=y[inside], y_nonmembers=y[~inside]).confounded
    assert differences(x, inside, shifted)[0].startswith("y is larger among the members")
    texts = np.array([f"word{i % 7} again" for i in range(400)], dtype=object)
    assert blind.baseline(texts[inside], texts[~inside], **split).confounded


def test_scores_are_adjusted_for_y_as_a_number():
    rng = np.random.default_rng(6)
    inside = np.arange(1200) < 600
    x, y = rng.normal(size=(1200, 2)), np.exp(rng.normal(size=1200) + 0.7 * inside)
    honest = {"honest": np.log(y) + 0.5 * rng.normal(size=1200)}
    told_apart = [
        abs(stats.spearmanr(blind.adjust_scores(honest, x, labels)["honest"], inside)[0]) for labels in (y, None)
    ]
    assert told_apart[0] < 0.1 < 0.2 < told_apart[1]


def test_a_difference_in_y_is_told_of_a_run(sets):
    richer = sets | {"nonmembers": dv.Records(sets["nonmembers"].x, sets["nonmembers"].y + 6.0)}
    result = audited(LinearRegression().fit(richer["members"].x, richer["members"].y), richer)
    assert result.about.measured(BlindBaseline).confounded
    assert any("y is smaller among the members" in text for text in result.about.measured(BlindBaseline).differences)


# A model that knows nothing of its records is never cleared.


@pytest.mark.parametrize(
    "model",
    [
        lambda x: np.full(len(x), 5.0),
        lambda x: np.zeros(len(x)),
        lambda x: 5 + np.sin(1000 * x[:, 0]),
        lambda x: 5 + 2 * x[:, 2],
        lambda x: 5 - 2 * x[:, 0],
        lambda x: 500 * (5 + 2 * x[:, 0] - x[:, 1]),
    ],
    ids=["mean", "zero", "noise", "wrong column", "wrong sign", "other unit"],
)
def test_a_model_no_better_than_a_constant_is_never_cleared(model, sets):
    result = audited(model, sets, task="regression")
    assert result.verdict.answer == "too little data to say"
    assert "on its own training records" in result.verdict.plain
    assert gate(result, "auc:0.99")[0].state == "undecided"


def test_a_constant_y_is_never_cleared_and_a_sound_model_is(sets):
    constant = {name: dv.Records(records.x, np.full(len(records), 2.5)) for name, records in sets.items()}
    result = audited(lambda x: np.full(len(x), 2.5), constant)
    assert "values of all training records are equal" in result.verdict.plain
    large = [draw(400, seed) for seed in range(11, 14)]
    sound = LinearRegression().fit(large[0].x, large[0].y)
    parts = dict(zip(("members", "nonmembers", "population"), large, strict=True))
    assert audited(sound, parts).verdict.answer == "no leak found"


# Runs and pages.


def test_a_forest_leaks_and_the_pages_say_how_well_it_predicts(run, sets):
    assert run.verdict.tone == "leak"
    assert run["auto"].auc.low > 0.55
    page = (run.path / "report.html").read_text()
    for text in (
        "R² on members",
        "R² on non-members",
        "mean absolute error on members",
        "Who can do this",
    ):
        assert text in page
    fit = auditing.load(run.path).about.measured(RegressionFit)
    predicted = forest(sets["members"], 0).predict(sets["members"].x)
    y = sets["members"].y
    assert fit.r_squared_members.value == pytest.approx(1 - np.sum((predicted - y) ** 2) / np.sum((y - y.mean()) ** 2))
    assert fit.error_members.value == pytest.approx(np.abs(predicted - y).mean())
    assert fit.r_squared_members.low < fit.r_squared_members.value < fit.r_squared_members.high
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["recipes"]["rmia"]


def test_a_run_is_compared_with_what_it_costs(run, sets, tmp_path):
    calmer = RandomForestRegressor(20, min_samples_leaf=15, random_state=0).fit(sets["members"].x, sets["members"].y)
    after = audited(calmer, sets, out=tmp_path / "after")
    before = auditing.load(run.path)
    after = auditing.load(after.path)
    changes = compare(before, after, recipes=["loss"])
    assert all(change.change.high < 0 for change in changes if change.statistic == "auc")
    html.write(comparison_page(Comparison.from_runs({"before": before, "after": after})), tmp_path / "compare.html")
    page = (tmp_path / "compare.html").read_text()
    assert "R² on non-members" in page
    assert "mean absolute error on non-members" in page
    assert gate(run, "auc:0.55")[0].state == "broken"


def test_recipes_of_regression_models_all_run_and_are_repeatable():
    parts = {"members": draw(60, 0), "nonmembers": draw(60, 1), "population": draw(80, 2)}
    names = [recipe.name for recipe in recipes.regression_recipes()]
    assert {"auto", "loss", "calibrated", "lira", "rmia", "base", "bavaria", "learned", "quantile-trees"} <= set(names)
    assert {"lira-online", "lira-residual", "transductive"} <= set(names)

    def fit(records, seed):
        return RandomForestRegressor(8, bootstrap=False, random_state=seed % 2**31).fit(records.x, records.y)

    options = {"recipes": names, "references": Custom(fit, count=4, engine="serial")}
    result, repeated = (audited(fit(parts["members"], 0), parts, **options) for _ in range(2))
    for name in names:
        assert np.array_equal(result.scores[name], repeated.scores[name])
        assert result[name].auc.value > 0.7, name


def write_plan(folder, sets, target, **keys):
    for name, records in sets.items():
        columns = dict(zip("abc", records.x.T, strict=True)) | {"charges": records.y}
        pl.DataFrame(columns).write_csv(folder / f"{name}.csv")
    lines = ['recipes = ["auto", "loss"]', "fpr = [0.05]", *(f'{key} = "{value}"' for key, value in keys.items())]
    lines += ["[target]", f'model = "{target}"', "[data]", 'label = "charges"']
    lines += [f'{name} = "{name}.csv"' for name in sets]
    (folder / "plan.toml").write_text("\n".join(lines))
    return folder / "plan.toml"


def audit_plan(path):
    resolved = plan.resolve(plan.read(path), path.parent)
    return run_audit(resolved.target, resolved.subject, resolved.options)


def test_a_plan_audits_a_skops_file(sets, tmp_path):
    skops_io = pytest.importorskip("skops.io")
    model = Ridge().fit(sets["members"].x, sets["members"].y)
    skops_io.dump(model, tmp_path / "model.skops")
    result = audit_plan(write_plan(tmp_path, sets, "model.skops"))
    np.testing.assert_allclose(result.scores["loss"], audited(model, sets).scores["loss"], rtol=1e-9)


def test_init_writes_a_plan_that_runs_with_clones(sets, tmp_path):
    skops_io = pytest.importorskip("skops.io")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(sets["members"].x, columns=list("abc"))
    skops_io.dump(Ridge().fit(frame, sets["members"].y), tmp_path / "model.skops")
    write_plan(tmp_path, sets, "model.skops").unlink()
    files = {name: str(tmp_path / f"{name}.csv") for name in sets}
    arguments = {"records": "table", "model": str(tmp_path / "model.skops"), "references": 2, **files}
    plan.write_starting_plan(tmp_path, plan.complete_answers(arguments, None))
    text = (tmp_path / "plan.toml").read_text()
    assert 'label = "charges"' in text
    result = audit_plan(tmp_path / "plan.toml")
    assert result.about.measured(RegressionFit) is not None
    assert "Ridge" in result.about.settings.references


def test_a_plan_names_the_task_of_an_onnx_file_where_data_do_not_show_it(sets, tmp_path):
    count_sets = {
        name: dv.Records(records.x, np.abs(np.round(records.y)).astype(int)) for name, records in sets.items()
    }
    linear = LinearRegression().fit(count_sets["members"].x, count_sets["members"].y)
    (tmp_path / "line.onnx").write_bytes(onnx_bytes(linear))
    with pytest.raises(dv.InputError, match="task='regression'"):
        audit_plan(write_plan(tmp_path, count_sets, "line.onnx"))
    assert (
        audit_plan(write_plan(tmp_path, count_sets, "line.onnx", task="regression")).about.measured(RegressionFit)
        is not None
    )
    assert audit_plan(write_plan(tmp_path, sets, "line.onnx")).about.measured(RegressionFit) is not None


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 3, 7], [0, 3, 7]),
        ([-1, 1, 1], [0, 1, 1]),  # codes of the names -1 and 1
        ([-1.0, 1.0, 0.0], [0, 2, 1]),
        ([-12, 3, 7], [-12.0, 3.0, 7.0]),
        (pd.array([-12, 3, 7], dtype="Int64"), [-12.0, 3.0, 7.0]),
        ([-2.0, 2.0, 0.0], [-2.0, 2.0, 0.0]),
        ([0.5, -1, 2], [0.5, -1.0, 2.0]),
    ],
)
def test_whole_numbers_are_classes_from_minus_one_on_and_nothing_is_lost(y, expected):
    records = dv.Records(np.arange(3.0)[:, None], y)
    assert records.y.tolist() == expected
    assert records.with_real_values().y.tolist() == [float(value) for value in y]
    classes = records.with_class_labels()
    if all(value % 1 == 0 for value in y):
        names = classes.class_names or tuple(map(str, range(8)))
        assert [names[code] for code in classes.labels] == [str(int(value)) for value in y]
    else:
        assert classes.labels is None


def test_a_classifier_whose_classes_go_below_minus_one_is_audited_by_them():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(240, 3)), rng.integers(-2, 3, 240)
    sets = [dv.Records(x[part], y[part]) for part in (slice(0, 80), slice(80, 160), slice(160, 240))]
    model = RandomForestClassifier(5, random_state=0).fit(x[:80], y[:80])
    names = ("members", "nonmembers", "population")
    result = dv.audit(model, **dict(zip(names, sets, strict=True)), recipes=["loss"], fpr=[0.1])
    assert result.class_names == ("-2", "-1", "0", "1", "2")
    assert result["loss"].auc.low > 0.6


def test_init_writes_the_task_that_it_is_told(divulge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, error = divulge("init", "--records", "table", "--model", "model.onnx", "--task", "regression")
    assert code == 0, error
    written = plan.read(tmp_path / "plan.toml")
    assert written.task == "regression"


def test_a_network_that_predicts_values_has_one_output_in_the_stub(divulge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--records", "images", "--model", "model.safetensors", "--task", "regression"]
    assert divulge("init", *options)[0] == 0
    assert "nn.Linear(256, 1)" in (tmp_path / "my_model.py").read_text()
    assert "nn.Linear(256, 10)" not in (tmp_path / "my_model.py").read_text()


def test_partly_known_records_of_real_values_are_refused_by_the_reason():
    x, known_mask = np.zeros((3, 2)), np.array([True, False])
    with pytest.raises(
        dv.InputError, match="y: real values, and partly known records are completed for classifiers alone"
    ):
        dv.PartialRecords(x, [0.5, 1.5, 2.5], np.tile(known_mask, (3, 1)))
    assert dv.PartialRecords(x, [0, 1, 2], np.tile(known_mask, (3, 1))).y.tolist() == [0, 1, 2]
