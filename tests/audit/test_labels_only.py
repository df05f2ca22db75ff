"""Audits of a target that gives labels and nothing else."""

import time

import numpy as np
import pytest

import divulge as dv
from divulge import auditing, settings, types
from divulge.attacks import Threshold
from divulge.recipes import Recipe, label_recipes
from divulge.signals import BoundaryDistance
from divulge.targets import Metered

pytestmark = pytest.mark.usefixtures("scores_alone")


def records(seed, n):
    rng = np.random.default_rng(seed)
    return dv.Records(rng.normal(size=(n, 6)), rng.integers(0, 3, n))


SETS = {"members": records(1, 60), "nonmembers": records(2, 60), "population": records(3, 120)}
NAMES = [recipe.name for recipe in label_recipes() if recipe.references == "none"]


CANDIDATES = dv.Records(
    np.concatenate([SETS["members"].x, SETS["nonmembers"].x]), np.concatenate([SETS["members"].y, SETS["nonmembers"].y])
)


class Nearest:
    """The class of the nearest training record; it counts what it is asked."""

    def __init__(self, data=SETS["members"]):
        self.data, self.asked = data, 0

    def labels(self, records):
        self.asked += len(records)
        distances = ((records.x[:, None] - self.data.x) ** 2).sum(axis=2)
        return self.data.y[distances.argmin(axis=1)]


def soft(data, seed):
    """A model that is asked for more than labels: less near a record, less sure of its class."""

    def logits(x):
        distances = ((x[:, None] - data.x) ** 2).sum(axis=2)
        return -np.stack([distances[:, data.y == c].min(axis=1) for c in range(3)], axis=1)

    return logits


def audit(target, names=NAMES, **more):
    return dv.audit(target, **(SETS | {"recipes": names, "fpr": (0.05,)} | more))


def test_labels_are_enough_for_the_recipes_that_ask_for_no_more():
    target = Nearest()
    result = audit(target)
    assert result["correct"].auc.low > 0.7
    assert result["boundary"].auc.low > 0.7
    queries = {name: result.about.recipes[name].queries for name in NAMES}
    assert queries["correct"] == 240
    assert queries["boundary"] <= 500 * 240
    assert queries["noise"] == 50 * 240
    # The residual shares the distance; 64 candidates show what the labels are, up to 64 whether they repeat.
    asked = queries["correct"] + queries["boundary"] + queries["noise"]
    assert asked + 64 <= target.asked <= asked + 64 + 64
    assert result.about.counts.classes == 3
    assert result.about.recipes["correct"].reads == "the target's label of each candidate"


def test_reference_models_say_what_is_easy_though_the_target_gives_labels_alone():
    references = dv.references.Custom(soft, count=2, engine="serial")
    target = Nearest()
    names = ["correct", "correct-calibrated"]
    result = audit(target, names, references=references)
    assert 240 + 64 <= target.asked <= 240 + 64 + 64  # 64 show what the labels are, up to 64 whether they repeat
    assert set(result.signals) == {"correctness"}
    np.testing.assert_array_equal(result.scores["correct"], target.labels(CANDIDATES) == CANDIDATES.y)
    other_results = audit(Nearest(), names[1:], references=references)
    np.testing.assert_array_equal(other_results.scores[names[1]], result.scores[names[1]])
    # The score is right or wrong less a probability: at most 1, and positive where the target is right.
    scores = result.scores["correct-calibrated"]
    assert ((scores > 0) == (result.scores["correct"] > 0)).all()
    assert np.abs(scores).max() <= 1
    assert result["correct-calibrated"].auc.low > 0.7
    honest = audit(Nearest(records(9, 60)), names[1:], references=references)
    assert abs(honest["correct-calibrated"].auc.value - 0.5) < 0.2


def test_the_same_seed_gives_the_same_and_what_labels_say_is_what_logits_say():
    class Logits:
        def logits(self, records):
            return np.eye(3)[Nearest().labels(records)] * 5

    expected, repeat, result = audit(Nearest()), audit(Nearest()), audit(Logits())
    for name in NAMES:
        np.testing.assert_array_equal(expected.scores[name], repeat.scores[name])
        np.testing.assert_array_equal(expected.scores[name], result.scores[name])


def test_of_a_target_that_leaks_nothing_nothing_is_told():
    """AUC beyond .5 ± .2 of 60 against 60 has probability 2e-4 a recipe."""
    result = audit(Nearest(records(9, 60)))
    for name in NAMES:
        assert abs(result[name].auc.value - 0.5) < 0.2
    assert result.verdict.tone != "leak"


def test_what_reads_more_than_labels_is_refused_before_the_target_is_asked():
    target = Nearest()
    references = dv.references.Custom(soft, count=2, engine="serial")
    with pytest.raises(dv.InputError, match=r"labels alone, but loss, lira read logits; .*: correct, correct-calibr"):
        audit(target, ["loss", "correct", "lira"], references=references)
    with pytest.raises(dv.InputError, match="correct read the records' labels"):
        audit(target, **{name: dv.Records(data.x) for name, data in SETS.items()})
    assert target.asked == 0


def test_a_limit_on_queries_is_kept():
    target = Nearest()
    small = Recipe("small", BoundaryDistance(queries=20), Threshold())
    assert audit(Metered(target, 20 * 240 + 64), [small]).about.recipes["small"].queries <= 20 * 240
    with pytest.raises(dv.InputError, match="limit: "):
        audit(Metered(target, 1000), [small])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.zeros(n + 1, int), "target: labels"),
        (lambda n: np.full(n, -1), "target: labels"),
        (lambda n: np.full(n, 0.5), "target: labels"),
        (lambda n: np.zeros((n, 2)), "target: labels"),
        (lambda n: None, "target: labels"),
        (lambda n: 1 // 0, "your code raised ZeroDivisionError"),
    ],
)
def test_answers_that_are_no_labels_are_refused(answer, message):
    class Odd:
        def labels(self, records):
            return answer(len(records))

    with pytest.raises((dv.InputError, dv.errors.UserCodeError), match=message):
        audit(Odd(), ["correct"])


def test_of_texts_only_whether_the_target_is_right_is_asked():
    class Words:
        def labels(self, records):
            return np.array([len(text) % 2 for text in records.x])

    def texts(seed, n):
        rng = np.random.default_rng(seed)
        words = np.array(["a b", "c", "d e f", "gh"])
        return dv.Records([" ".join(row) for row in rng.choice(words, (n, 9))], rng.integers(0, 2, n))

    sets = {"members": texts(1, 30), "nonmembers": texts(2, 30), "population": texts(3, 60)}
    assert len(dv.audit(Words(), recipes=["correct"], fpr=(0.1,), **sets)["correct"].scores) == 60
    with pytest.raises(dv.InputError, match="boundary, noise move records a little, which numbers allow and texts"):
        dv.audit(Words(), recipes=["boundary", "noise", "correct"], fpr=(0.1,), **sets)


CODE = """
import time

import numpy as np

class Guesses:
    def labels(self, records):
        return (records.x[:, 0] > 0).astype(int)

guesses = Guesses()

def make():
    return Guesses()
"""


def test_a_plan_may_name_one(divulge, tmp_path):
    for name, data in SETS.items():
        np.savez(tmp_path / f"{name}.npz", x=data.x, y=data.y)
    (tmp_path / "labelling.py").write_text(CODE)
    files = 'members = "members.npz"\nnonmembers = "nonmembers.npz"\npopulation = "population.npz"\n'
    plan = tmp_path / "plan.toml"

    def run_plan(recipes, model):
        plan.write_text(f'recipes = {recipes}\nfpr = [0.05]\n[target]\nmodel = "{model}"\n[data]\n{files}')

    run_plan('["correct", "noise"]', "labelling:make")
    code, output, _ = divulge("audit", plan, "--out", tmp_path / "run")
    assert code == 0
    assert "noise" in output
    run_plan('["loss"]', "labelling:guesses")
    code, _, errors = divulge("audit", plan, "--out", tmp_path / "run9")
    assert code == 2
    assert "it gives labels alone, but loss read logits" in errors


def test_the_forecast_counts_what_signals_ask_by_themselves():
    """The target takes 1 ms a record or somewhat more: 240 records, once, and then each of them 50 times."""

    class Slow(Nearest):
        def labels(self, records):
            time.sleep(0.001 * len(records))
            return super().labels(records)

    forecasts = []
    for names in (["correct"], ["correct", "noise"], ["correct", Recipe("mine", CountingSignal(), Threshold())]):
        options = settings.ResolvedAuditSettings.check(recipes=names, fpr=(0.05,))
        forecasts.append(auditing.forecast(Slow(), types.AuditData(**SETS), options).scoring)
    assert forecasts[0] >= 0.24
    assert forecasts[1] >= 51 * 0.24
    assert forecasts[2] is None  # a signal that does not say how often it asks


class CountingSignal:
    name = "counted"

    def measure(self, target, records):
        return target.labels(records).astype(float)
