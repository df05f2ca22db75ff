"""Negative controls: states at the level itself, and tests by their definitions."""

from math import comb

import numpy as np
import pytest

from divulge.decisions import controls
from divulge.decisions.controls import Control
from divulge.decisions.counts import Counts
from divulge.errors import InputError


@pytest.mark.parametrize(
    ("p", "conclusive", "state", "standing", "word"),
    [
        (0.0501, False, "passed", "holds", "passed"), (0.05, False, "doubtful", "doubtful", "raises doubt"),
        (0.05, True, "failed", "void", "FAILED"), (0.0501, True, "passed", "holds", "passed"),
    ],
)  # fmt: skip
def test_a_p_value_of_the_level_itself_does_not_pass(p, conclusive, state, standing, word):
    control = Control("low scores", p, 0.05, "seen", conclusive=conclusive)
    assert (control.passed, control.state, control.standing) == (state == "passed", state, standing)
    assert str(control) == f"low scores {word} (p = {p:.2g}): seen"


def test_the_strongest_of_several_pays_for_all():
    weak, strong = Control("a", 0.9, 0.05, "a"), Control("b", 0.3, 0.05, "b")
    assert controls.strongest([weak, strong]).name == "b"
    assert controls.strongest([weak, strong]).p_value == pytest.approx(0.6)
    assert controls.strongest([weak, weak]).p_value == 1.0
    assert controls.strongest([strong]).p_value == 0.3
    with pytest.raises(InputError, match="evidence: at least 1 control is needed, got none"):
        controls.strongest([])
    with pytest.raises(InputError, match=r"evidence"):
        controls.strongest([strong, "b"])


@pytest.mark.parametrize("level", [0.0, 1.0, -1, "0.05"])
@pytest.mark.parametrize("control", ["exchangeability", "clean_model", "low_scores", "low_end", "blind_score"])
def test_a_level_lies_between_nothing_and_all(control, level):
    with pytest.raises(InputError, match="level"):
        getattr(controls, control)([0.0, 1.0, 2.0], [0.5, 1.5], level=level)


@pytest.mark.parametrize("seed", range(4))
def test_low_scores_counts_the_candidates_below_each_calibration_score(seed):
    rng = np.random.default_rng(seed)
    calibration, candidates = rng.integers(0, 12, 15 + seed) * 1.0, rng.integers(-3, 12, 25) * 1.0
    n, m = len(calibration), 25
    excess = max(0.0, max((candidates < c).mean() - (calibration < c).mean() for c in calibration))
    control = controls.low_scores(calibration, candidates, level=0.03)
    assert control.p_value == pytest.approx(np.exp(-2 * n * m / (n + m) * excess**2))
    assert control.says == f"low scores are more frequent among candidates than in calibration, by up to {excess:.3f}"
    assert (control.name, control.level, control.conclusive) == ("low scores", 0.03, False)
    best = controls.low_scores(calibration, calibration + 50)
    assert best.p_value == 1
    assert "nowhere more frequent" in best.says
    with pytest.raises(InputError, match="candidates: at least 1"):
        controls.low_scores_from_counts(Counts.empty(calibration))


def naive_low_end(calibration, holdout):
    """Fisher's exact test among the lowest tenth and fortieth, doubled for both tails and again for both parts."""
    pooled, results = sorted([*calibration, *holdout]), [(1.0, "no lowest scores that stand apart from the rest")]
    n, h = len(pooled), len(holdout)
    for part in (10, 40):
        edge = pooled[n // part]
        n_low, k = sum(value < edge for value in pooled), sum(value < edge for value in holdout)
        weights = {i: comb(h, i) * comb(n - h, n_low - i) / comb(n, n_low) for i in range(n_low + 1)}
        tail = min(sum(w for i, w in weights.items() if i <= k), sum(w for i, w in weights.items() if i >= k))
        text = f"{k} of the {n_low} lowest scores are of the declared-unseen holdout, {n_low * h / n:.1f} expected"
        results.append((4 * tail, text))
    return min(results, key=lambda result: result[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("odd", ["none", "calibration", "holdout"])
def test_the_low_end_is_fishers_exact_test_of_two_parts(seed, odd):
    rng = np.random.default_rng(seed)
    calibration, holdout = rng.normal(size=60), rng.normal(size=35)
    if odd == "calibration":
        calibration[: 2 + seed] -= 9
    elif odd == "holdout":
        holdout[: 2 + seed] -= 9
    calibration, holdout = calibration.round(1 + seed % 2), holdout.round(1 + seed % 2)
    control = controls.low_end(calibration, holdout, level=0.02)
    p, says = naive_low_end(calibration, holdout)
    assert control.p_value == pytest.approx(p)
    assert (control.says, control.level, control.conclusive, control.name) == (says, 0.02, True, "low end")


# Texts


def test_texts_too_few_to_be_told_apart_pass():
    control = controls.blind_text(["a"] * 8, ["b"] * 8)
    assert (control.p_value, control.auc) == (1.0, None)
    assert control.says == "1 and 1 distinct texts are too few to be told apart"
