"""A calibration unlike the candidates: decisions within strata."""

import numpy as np
import pytest
from scipy.stats import binom

import divulge as dv
from divulge.decisions import fdr
from divulge.decisions import strata as by_strata
from divulge.decisions.strata import Strata

LEVEL = 0.2


def limit(runs, level):
    """The largest mean of ``runs`` proportions with mean ``level``, exceeded with probability 1e-5 or less.

    Hoeffding (1963, theorem 1): the bound of coins holds for all proportions of that mean.
    """
    return binom.isf(1e-7, runs, level) / runs


def test_within_strata_nothing_is_estimated():
    """Strata of other sizes and levels of scores, members of other strata; 1e-5 per cell."""
    runs, lift = 200, np.array([0.0, 2.0, 4.0])
    for members in (0, 40):
        rng, plain_fdp, stratified_fdp = np.random.default_rng([7, members]), [], []
        for _ in range(runs):
            calibration_strata, candidate_strata = (
                rng.choice(3, 300, p=[0.7, 0.2, 0.1]),
                rng.choice(3, 80, p=[0.1, 0.2, 0.7]),
            )
            candidate_strata[:members] = rng.choice(3, members, p=[0.8, 0.1, 0.1])
            calibration, scores = (
                lift[calibration_strata] + rng.normal(size=300),
                lift[candidate_strata] + rng.normal(size=80),
            )
            scores[:members] += 4
            chosen = by_strata.select_within_strata(
                scores, calibration, Strata(candidate_strata, calibration_strata), fdr=LEVEL
            ).selected
            stratified_fdp.append(chosen[members:].sum() / max(chosen.sum(), 1))
            chosen = fdr.select(scores, calibration, fdr=LEVEL, method="bh").selected
            plain_fdp.append(chosen[members:].sum() / max(chosen.sum(), 1))
        assert np.mean(stratified_fdp) <= limit(runs, LEVEL * (80 - members) / 80)
        assert np.mean(plain_fdp) > LEVEL + 0.05


@pytest.mark.parametrize("shape", [np.asarray, np.round])
def test_p_values_within_strata_are_those_of_each_stratum_alone(shape):
    rng = np.random.default_rng(11)
    calibration, scores = shape(rng.normal(size=60)), shape(rng.normal(1, 1, 40))
    calibration_strata, candidate_strata = rng.integers(0, 7, 60), rng.integers(2, 9, 40)
    expected = [
        (1 + sum(calibration[calibration_strata == stratum] >= score)) / (1 + sum(calibration_strata == stratum))
        if stratum in calibration_strata
        else 1.0
        for score, stratum in zip(scores, candidate_strata, strict=True)
    ]
    assert (
        by_strata.stratified_p_values(scores, calibration, Strata(candidate_strata, calibration_strata)).tolist()
        == expected
    )
    assert Strata(candidate_strata, calibration_strata).uncovered == np.isin(candidate_strata, [7, 8]).sum()


def test_one_stratum_is_benjamini_and_hochberg():
    rng = np.random.default_rng(8)
    for shape in (np.asarray, np.round):
        calibration, scores = shape(rng.normal(size=200)), shape(np.append(rng.normal(3, 1, 30), rng.normal(size=30)))
        result = by_strata.select_within_strata(scores, calibration, Strata(["a"] * 60, ["a"] * 200), fdr=0.1)
        assert np.array_equal(result.selected, fdr.select(scores, calibration, fdr=0.1, method="bh").selected)


def test_what_cannot_carry_the_level_is_refused():
    calibration, scores = np.arange(100.0), np.arange(50.0, 70.0)
    with pytest.raises(dv.InputError, match="strata are too small"):
        by_strata.select_within_strata(scores, calibration, Strata(np.arange(20) // 2, np.arange(100) // 10), fdr=0.05)
    with pytest.raises(dv.InputError, match="no calibration record"):
        Strata(["a"], ["b"])
    with pytest.raises(dv.InputError, match=r"strata\.candidates"):
        Strata([0.5], ["b"])


def test_a_whole_decision():
    rng = np.random.default_rng(9)
    calibration_strata, candidate_strata = np.repeat([0, 1], [400, 200]), np.repeat([0, 1], [40, 160])
    calibration, scores = 3.0 * calibration_strata + rng.normal(size=600), 3.0 * candidate_strata + rng.normal(size=200)
    scores[::2] += 5
    within = dv.identify(scores, calibration, fdr=0.1, adjust=Strata(candidate_strata, calibration_strata))
    assert within.guarantee.standing == "holds"
    assert within.selected[::2].mean() > 0.9
    assert any("is your assumption" in message for message in within.warnings)
    same = np.repeat([0, 1], 100)
    with_holdout = dv.identify(scores, calibration, fdr=0.1, holdout=3.0 * same + rng.normal(size=200),
                        adjust=Strata(candidate_strata, calibration_strata, same))  # fmt: skip
    assert with_holdout.guarantee.standing == "holds"
    assert not any("without a holdout" in message for message in with_holdout.warnings)
    partial_holdout = dv.identify(
        scores,
        calibration,
        fdr=0.1,
        holdout=rng.normal(size=100),
        adjust=Strata(candidate_strata, calibration_strata, np.zeros(100, int)),
    )
    assert any(
        message.startswith("160 of 200 candidates are of strata without a holdout")
        for message in partial_holdout.warnings
    )
    moved = dv.identify(scores, calibration, fdr=0.1, holdout=3.0 * same + rng.normal(1.5, 1, 200),
                        adjust=Strata(candidate_strata, calibration_strata, same))  # fmt: skip
    assert moved.guarantee.standing == "void"


def test_scores_the_wrong_way_round_and_scores_that_say_nothing():
    rng, truth = np.random.default_rng(10), np.arange(40) < 20
    scores, calibration = np.append(rng.normal(-3, 1, 20), rng.normal(size=20)), rng.normal(size=100)
    adjust = Strata(["a"] * 40, ["a"] * 100)
    warnings = dv.identify(scores, calibration, adjust=adjust, truth=truth).warnings
    assert any("wrong way round" in message for message in warnings)
    with pytest.raises(dv.InputError, match="every score, calibration included"):
        dv.identify(np.ones(40), np.ones(100), adjust=adjust)
    strata_apart = Strata(["a"] * 40, ["a"] * 100, ["b"] * 5)
    with pytest.raises(dv.InputError, match=r"^holdout: none of its strata"):
        dv.identify(scores, calibration, adjust=strata_apart, holdout=calibration[:5])


def test_what_has_no_place_beside_it_is_named():
    calibration, scores, strata = np.arange(100.0), np.arange(20.0), Strata([1] * 20, [1] * 100)
    options = {
        "members": scores,
        "candidate_texts": ["a"] * 20,
        "holdout": calibration,
    }
    for name, value in options.items():
        with pytest.raises(dv.InputError, match=f"^{name}"):
            dv.identify(scores, calibration, adjust=strata, **{name: value})
    with pytest.raises(dv.InputError, match="method"):
        dv.identify(scores, calibration, adjust=strata, method="storey")
    with pytest.raises(dv.InputError, match="adjust"):
        dv.identify(np.ones((20, 2)), np.ones((100, 2)), adjust=strata)
    with pytest.raises(dv.InputError, match="adjust"):
        dv.identify(scores, calibration, adjust="length")
