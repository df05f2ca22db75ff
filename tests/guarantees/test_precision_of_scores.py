"""Identification where candidates and calibration were saved with different precision, or in different units.

Nobody is a member in the first tests, so that every selection is false: undoubted ones are allowed in a twentieth of
the runs, and 6 of 20 or more happen by chance with probability 1e-3 at most in any of them.
"""

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.identification import from_tables
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score

RUNS = 20


def shares(rng, count):
    return rng.beta(60, 1, count)


def losses(rng, count):
    return -rng.gamma(40, 0.075, count)


def sure_answers(rng, count):
    """Confidences of a model that is sure, and in one of seven cases wrong."""
    return np.where(rng.random(count) < 0.15, rng.beta(1, 200, count), rng.beta(200, 1, count))


def three_digits(scores):
    return np.array([float(f"{score:.3g}") for score in scores])


def as_float(dtype):
    return lambda scores: scores.astype(dtype).astype(np.float64)


DIFFERENT = {
    "one decimal": (shares, lambda x: x.round(1), np.asarray),
    "two decimals beside three": (shares, lambda x: x.round(2), lambda x: x.round(3)),
    "few sure answers as 0 and 1": (sure_answers, lambda x: x[:40].round(1), np.asarray),
    "one decimal of the calibration": (shares, np.asarray, lambda x: x.round(1)),
    "losses cut off": (losses, lambda x: np.trunc(10 * x) / 10, np.asarray),
    "whole losses": (losses, np.trunc, np.asarray),
    "float16": (lambda rng, n: 1 - 1e-4 * rng.random(n), as_float("f2"), np.asarray),
    "float32 of three decimals": (shares, lambda x: as_float("f4")(x.round(3)), lambda x: x.round(3)),
    "three digits": (lambda rng, n: np.exp(rng.normal(0, 4, n)), three_digits, np.asarray),
    "per cent of shares": (shares, lambda x: 100 * x, np.asarray),
    "losses of another sign": (losses, np.negative, np.asarray),
    "half of one decimal": (shares, lambda x: np.where(np.arange(len(x)) % 2, x, x.round(1)), np.asarray),
    "one decimal of both": (shares, lambda x: x.round(1), lambda x: x.round(1)),
}


@pytest.mark.parametrize(("draw", "of_candidates", "of_calibration"), DIFFERENT.values(), ids=DIFFERENT)
def test_no_undoubted_selection_comes_from_precision_or_unit_alone(draw, of_candidates, of_calibration):
    n_false = 0
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, 3])
        try:
            calibration, holdout = np.split(of_calibration(draw(rng, 599)), [499])
            selection = dv.identify(of_candidates(draw(rng, 200)), calibration, holdout=holdout)
        except dv.InputError:  # nothing but equal scores is left
            continue
        n_false += selection.count > 0 and selection.guarantee.standing == "holds"
    assert n_false < 6


HONEST = {
    "continuous": np.asarray,
    "exponential": lambda x: np.exp(3 * x),
    "saturated in float32": lambda x: (1 / (1 + np.exp(-4 * x.astype(np.float32)))).astype(np.float64),
    "three decimals": lambda x: x.round(3),
    "whole numbers": lambda x: (3 * x).round(),
}


@pytest.mark.parametrize("shape", HONEST.values(), ids=HONEST)
@pytest.mark.parametrize(("n", "m"), [(40, 5), (499, 200)])
def test_scores_of_one_precision_and_unit_are_never_refused_or_changed(n, m, shape):
    """Nineteen of twenty candidates are members, of AUC .99."""
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, n])
        scores = rng.normal(3.29 * (rng.random(m) < 0.95), 1)
        warnings = dv.identify(shape(scores), shape(rng.normal(size=n))).warnings
        assert not [text for text in warnings if "next higher" in text or "have to be members" in text]


def test_members_are_still_found_where_precision_differs():
    rng = np.random.default_rng(0)
    scores = np.append(rng.normal(4, 1, 100), rng.normal(size=100))
    selection = dv.identify(scores.round(2), rng.normal(size=499), holdout=rng.normal(size=200))
    assert selection.selected[:100].sum() > 60
    assert selection.guarantee.standing == "holds"


@pytest.mark.parametrize("columns", [["score"], ["score", "other"]], ids=["one score", "several scores"])
def test_tables_in_several_files_are_compared_alike(tmp_path, columns):
    rng = np.random.default_rng(1)
    parts = {"a": shares(rng, 100).round(1), "b": shares(rng, 100).round(1), "calibration": shares(rng, 499)}
    for name, scores in parts.items():
        pl.DataFrame({"score": scores, "other": rng.normal(size=len(scores))}).write_csv(tmp_path / f"{name}.csv")
    plan = from_tables.DecisionPlan(Columns(tuple(map(Score, columns))), Policy())
    out = tmp_path / "run"
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    summary = from_tables.run(files, [tmp_path / "calibration.csv"], out, plan)
    assert summary.selected == 0 or summary.guarantee.standing != "holds"
    assert any("1 decimal" in text for text in summary.warnings)
    again = from_tables.redecide(out, fdr=0.2)
    assert again.selected == 0 or again.guarantee.standing != "holds"
