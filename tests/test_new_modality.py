"""A modality from outside the package: a target adapter, a signal and recipes are all that regression models cost."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

import divulge as dv
from divulge import auditing, runs
from divulge.attacks import Calibrated, LiRA, Threshold
from divulge.auditing import Modality
from divulge.auditing.compare import compare
from divulge.auditing.gates import gate
from divulge.recipes import Recipe, recipes
from divulge.references import Custom, Train
from divulge.signals import OutputSignal

pytestmark = pytest.mark.usefixtures("records_compared_once")

SQUARED_ERROR = OutputSignal("negative-squared-error", "predictions", lambda predicted, y: -((predicted - y) ** 2))
RECIPES = (
    Recipe("squared-error", SQUARED_ERROR, Threshold(), summary="how small the squared error is"),
    Recipe("squared-error-calibrated", SQUARED_ERROR, Calibrated(), "out", "the same, less its mean under references"),
    Recipe("squared-error-lira", SQUARED_ERROR, LiRA(mode="offline", variance="global"), "out"),
)
REGRESSION = Modality("a regression model", ("predictions",), recipes=RECIPES)


class Regressor:
    """Least squares on as many features as records: it remembers what it was fitted on."""

    modality = REGRESSION

    def __init__(self, records, seed=0):
        self.seed = seed
        self.weights = np.linalg.lstsq(self._features(records.x), records.y, rcond=None)[0]

    def _features(self, x):
        return np.tanh(x @ np.random.default_rng(self.seed).normal(size=(x.shape[1], 60)))

    def predictions(self, records):
        return self._features(records.x) @ self.weights


def train(records, seed):
    return Regressor(records, seed)


def draw(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return dv.Records(x, x @ np.array([1.0, -2.0, 0.5, 0.0]) + shift + rng.normal(size=n))


@pytest.fixture(scope="module")
def sets():
    return {"members": draw(60, 0), "nonmembers": draw(150, 1), "population": draw(240, 2)}


@pytest.fixture(scope="module")
def run(sets, tmp_path_factory):
    return dv.audit(
        Regressor(sets["members"]),
        **sets,
        recipes=[recipe.name for recipe in RECIPES],
        references=Custom(train, count=4),
        fpr=[0.05],
        out=tmp_path_factory.mktemp("regression") / "run",
    )


def test_records_take_real_values_and_keep_them():
    records = dv.Records([[0.0], [1.0], [2.0]], [0.5, -1.0, 2.0])
    assert records.y.dtype == np.float64
    assert records.labels is None
    assert records[1:].y.tolist() == [-1.0, 2.0]
    one_record = dv.Records([[3.0]], [-4.0])
    assert dv.Records.concatenate([records, one_record]).y.tolist() == [0.5, -1.0, 2.0, -4.0]
    assert repr(records) == "Records(n=3, shape=(1,), y=-1..2)"
    with pytest.raises(dv.InputError, match="real values are needed, and these are names"):
        dv.Records([[0.0]], ["ill"]).with_real_values()


def test_what_an_audit_finds_is_what_the_arrays_say(run, sets):
    target = Regressor(sets["members"])
    records = dv.Records.concatenate([sets["members"], sets["nonmembers"]])
    expected = -((target.predictions(records) - records.y) ** 2)
    np.testing.assert_allclose(run.scores["squared-error"], expected, rtol=1e-6, atol=1e-20)
    assert np.array_equal(run.scores["squared-error"], run.signals["negative-squared-error"])
    assert run["squared-error"].auc.low > 0.7
    assert run["squared-error-calibrated"].auc.low > 0.7
    assert run["squared-error-lira"].auc.low > 0.6
    assert run.labels is None
    assert run.about.counts.classes == 0


def test_reports_and_verdict_speak_of_it(run, tmp_path):
    run.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "squared-error-calibrated" in page
    assert "the target's predictions on each candidate" in run.about.recipes["squared-error"].reads
    assert run.verdict.tone == "leak"
    assert json.loads((run.path / "summary.json").read_text())["recipes"]["squared-error"]


def test_a_run_is_loaded_compared_and_gated(run, sets, tmp_path):
    loaded = auditing.load(run.path)
    assert np.array_equal(loaded.scores["squared-error"], run.scores["squared-error"])
    other_run = dv.audit(Regressor(draw(60, 5)), **sets, recipes=["squared-error"], fpr=[0.05], out=tmp_path / "other")
    assert other_run.verdict.tone != "leak"
    changes = compare(loaded, auditing.load(other_run.path), recipes=["squared-error"])
    assert all(change.change.high < 0 for change in changes if change.statistic == "auc")
    assert next(ruling.state for ruling in gate(loaded, "auc:0.6")) == "broken"


class DensityEstimator:
    """A kernel density: its records have no y."""

    modality = Modality(
        "a density estimator",
        ("densities",),
        recipes=(
            Recipe(
                "density",
                OutputSignal("log-density", "densities", lambda densities, y: densities, needs_labels=False),
                Threshold(),
            ),
        ),
    )

    def __init__(self, records):
        self.records = records

    def densities(self, records):
        squared = ((records.x[:, None] - self.records.x[None]) ** 2).sum(axis=2)
        return np.log(np.exp(-6 * squared).mean(axis=1) + 1e-300)


def test_records_of_a_modality_may_have_no_y():
    sets = {name: dv.Records(records.x) for name, records in
            (("members", draw(60, 0)), ("nonmembers", draw(120, 1)), ("population", draw(150, 2)))}  # fmt: skip
    target = DensityEstimator(sets["members"])
    run = dv.audit(target, **sets)
    assert list(run) == ["density"]
    assert np.allclose(run.scores["density"][:60], target.densities(sets["members"]))
    assert run["density"].auc.low > 0.6
    with pytest.raises(dv.InputError, match=r"a density estimator: divulge\.references\.Custom is needed"):
        dv.audit(target, **sets, references=Train(count=2))
    target.densities = lambda records: np.zeros(len(records) - 1)
    with pytest.raises(dv.InputError, match=r"DensityEstimator\.densities: 64 rows are needed, got shape \(63,\)"):
        dv.audit(target, **sets)


def test_reference_models_come_from_the_pool_again(sets, tmp_path):
    calls = []

    def measure():
        return dv.audit(
            Regressor(sets["members"]),
            **sets,
            recipes=["squared-error-calibrated"],
            references=Custom(train, count=2, engine="serial"),
            fpr=[0.05],
            options=dv.AuditOptions(pool=tmp_path / "pool"),
            progress=lambda done, total, note: calls.append(note),
        ).scores["squared-error-calibrated"]

    assert np.array_equal(measure(), measure())
    assert calls[-2:] == ["from the pool"] * 2


def refused(sets, message, target=None, **options):
    with pytest.raises(dv.InputError, match=message):
        dv.audit(target or Regressor(sets["members"]), **(sets | {"fpr": [0.05]} | options))


def test_what_does_not_fit_the_modality_is_refused(sets):
    refused(sets, "recipes: loss is unknown|recipes: .*'loss'", recipes=["loss"])
    refused(
        sets,
        "lira read other signals than those of a regression model",
        recipes=[r for r in recipes() if r.name == "lira"],
    )
    refused(sets, "Custom is needed, got Train", recipes=["squared-error"], references=Train(lambda: None))
    refused(sets, r"references=divulge.references.Custom\(train", recipes=["squared-error-calibrated"])
    refused(sets, "unseen_classes: .* needs labelled records", recipes=["squared-error"], unseen_classes=[1])
    no_y = {name: dv.Records(records.x) for name, records in sets.items()}
    refused(sets, "read the records' labels, but there are none", recipes=["squared-error"], **no_y)


def test_a_classifier_takes_no_real_values(sets):
    def classifier(x):
        return np.stack([x[:, 0], -x[:, 0]], axis=1)

    refused(sets, "members: y: the target is a classifier: whole-number labels are needed", classifier, recipes=["gap"])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.zeros(n - 1), "rows are needed"),
        (lambda n: np.full(n, np.nan), "NaN or infinite"),
        (lambda n: np.zeros((n, 3)), "negative-squared-error"),
    ],
)
def test_answers_that_are_no_predictions_are_refused(sets, answer, message):
    target = Regressor(sets["members"])
    target.predictions = lambda records: answer(len(records))
    refused(sets, message, target, recipes=["squared-error"])


def test_whole_numbers_are_real_values_too(sets):
    rounded = {
        name: dv.Records(records.x, np.round(records.y).astype(dtype))
        for (name, records), dtype in zip(sets.items(), (int, float, float), strict=True)
    }
    target = Regressor(rounded["members"].with_real_values())
    run = dv.audit(target, **rounded, recipes=["squared-error"], fpr=[0.05])
    assert run["squared-error"].auc.low > 0.7


def test_a_signal_of_ones_own_for_classifiers_has_references_too():
    margin = OutputSignal("own-margin", "logits", lambda logits, y: logits[np.arange(len(y)), y])

    class Memory:
        """A classifier that is sure of the records it has seen."""

        def __init__(self, records):
            self.records = records

        def logits(self, records):
            is_seen = np.isin(records.x[:, 0], self.records.x[:, 0])
            return np.eye(2)[(records.x[:, 1] > 0).astype(int)] * np.where(is_seen, 9.0, 1.0)[:, None]

    def labelled(n, seed):
        x = np.random.default_rng(seed).normal(size=(n, 2))
        return dv.Records(x, (x[:, 1] > 0).astype(int))

    parts = {"members": labelled(60, 0), "nonmembers": labelled(150, 1), "population": labelled(200, 2)}
    run = dv.audit(
        Memory(parts["members"]),
        **parts,
        recipes=[Recipe("own", margin, Calibrated(), "out"), "loss"],
        references=Custom(lambda records, seed: Memory(records), count=2),
        fpr=[0.05],
    )
    assert run["own"].auc.low > 0.9
    assert dataclasses.replace(margin, name="other").name == "other"


def test_the_code_in_contributing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "RUN_KINDS", dict(runs.RUN_KINDS))
    page = Path(__file__).parents[1] / "CONTRIBUTING.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "contributing"})
    assert "Closest predictions" in (tmp_path / "report.html").read_text()
