"""A calibration unlike the candidates: by weights, and within strata."""

import numpy as np
import pytest
from scipy.stats import binom

import divulge as dv
from divulge.decisions import fdr, weighted
from divulge.decisions.weighted import Strata, Weights

LEVEL = 0.2


def literal(scores, calibration, weights, level, uniforms):
    """Jin and Candès's selection as written: one heap per candidate."""
    w, candidate_weights, m = weights.calibration, weights.candidates, len(scores)
    p, sizes = np.empty(m), np.empty(m, int)
    for j in range(m):
        heap = [
            (w[calibration >= s].sum() + candidate_weights[j] * (scores[j] >= s)) / (w.sum() + candidate_weights[j])
            for s in scores
        ]
        p[j], heap[j] = heap[j], 0.0
        sizes[j] = np.flatnonzero(np.sort(heap) <= level * np.arange(1, m + 1) / m + 1e-12)[-1] + 1
    passing = p <= level * sizes / m + 1e-12
    fits = [r for r in range(1, m + 1) if (uniforms * sizes[passing] <= r).sum() >= r]
    return passing & (uniforms * sizes <= max(fits, default=0))


@pytest.mark.parametrize("shape", [np.asarray, np.round])
def test_one_heap_per_candidate(shape):
    rng = np.random.default_rng(0)
    for trial in range(60):
        n, m, spread = rng.integers(5, 40), rng.integers(2, 15), trial % 3
        calibration, scores = shape(rng.normal(size=n)), shape(rng.normal(1, 1, m))
        weights = Weights(np.exp(spread * rng.normal(size=n)), np.exp(spread * rng.normal(size=m)))
        level, uniform = rng.choice([0.2, 0.3, 0.5]), rng.random()
        passing = weighted.p_values(calibration, scores, weights) * m <= level * (
            sizes := weighted._step_up_sizes(scores, calibration, weights, level)
        ) * (1 + 1e-12)
        expected = literal(scores, calibration, weights, level, uniform)
        assert np.array_equal(weighted._prune(passing, uniform * sizes), expected)


def test_equal_weights_are_benjamini_and_hochberg():
    rng = np.random.default_rng(1)
    for trial in range(40):
        calibration, scores = rng.normal(size=200), np.append(rng.normal(3, 1, 30), rng.normal(size=30))
        plain = fdr.select(scores, calibration, fdr=0.1, method="bh")
        selection = weighted.select(
            scores, calibration, Weights(np.full(200, 7.0), np.full(60, 7.0)), fdr=0.1, seed=trial
        )
        assert np.array_equal(selection.selected, plain.selected)
        assert selection.p_values == pytest.approx(plain.p_values)


def shifted(rng, n, m, members, lift, member_shift):
    """Scores that rise with a feature, which is greater among candidates by ``lift``; members' by ``of_members``."""
    calibration_feature, candidate_feature = rng.normal(size=n), rng.normal(lift, 1, m)
    candidate_feature[:members] += member_shift - lift
    calibration, scores = calibration_feature + rng.normal(size=n), candidate_feature + rng.normal(size=m)
    scores[:members] += 4
    return calibration_feature, candidate_feature, calibration, scores


def limit(runs, level):
    """The largest mean of ``runs`` proportions with mean ``level``, exceeded with probability 1e-5 or less.

    Hoeffding (1963, theorem 1): the bound of coins holds for all proportions of that mean.
    """
    return binom.isf(1e-7, runs, level) / runs


@pytest.mark.parametrize("members", [0, 20, 60])
def test_true_weights_bound_false_discoveries(members):
    """Members of any features; each cell exceeds its limit with probability 1e-5 at most."""
    runs, rng, plain_fdp, weighted_fdp = 400, np.random.default_rng(members), [], []
    for seed in range(runs):
        calibration_feature, candidate_feature, calibration, scores = shifted(rng, 300, 80, members, 1.0, -0.5)
        chosen = weighted.select(
            scores, calibration, Weights(np.exp(calibration_feature), np.exp(candidate_feature)), fdr=LEVEL, seed=seed
        ).selected
        weighted_fdp.append(chosen[members:].sum() / max(chosen.sum(), 1))
        chosen = fdr.select(scores, calibration, fdr=LEVEL, method="bh").selected
        plain_fdp.append(chosen[members:].sum() / max(chosen.sum(), 1))
    assert np.mean(weighted_fdp) <= limit(runs, LEVEL * (80 - members) / 80)
    assert members == 60 or np.mean(plain_fdp) > LEVEL + 0.05


def test_wrong_weights_break_it_by_no_more_than_their_error():
    """The worst non-members: twice as likely as the weights say where scores are high, half as likely where low."""
    runs, rng, false = 400, np.random.default_rng(5), []
    for seed in range(runs):
        calibration, scores = rng.random(600), rng.random(40)
        high = rng.random(40) < 2 / 3  # the upper third of the calibration has two thirds of them
        scores = np.where(high, 2 / 3 + scores / 3, scores * 2 / 3)
        selection = weighted.select(scores, calibration, Weights(np.ones(600), np.ones(40)), fdr=0.1, seed=seed)
        false.append(selection.count > 0)
    assert 0.1 < np.mean(false) <= limit(runs, 0.4)


def test_estimated_weights_repair_what_they_can_see():
    """Members of other features mislead weights that are made of all candidates, and not those made of a holdout."""
    rng, rates = np.random.default_rng(6), {"candidates": [], "like": []}
    for seed in range(25):
        calibration_feature, candidate_feature, calibration, scores = shifted(rng, 500, 100, 50, 1.0, -1.0)
        for name, target_sample in (("candidates", None), ("like", rng.normal(1, 1, (300, 1)))):
            weights = weighted.density_ratio(
                calibration_feature[:, None], candidate_feature[:, None], like=target_sample, seed=seed
            )
            chosen = weighted.select(scores, calibration, weights, fdr=LEVEL, seed=seed).selected
            rates[name].append(chosen[50:].sum() / max(chosen.sum(), 1))
    assert np.mean(rates["candidates"]) > LEVEL
    assert np.mean(rates["like"]) < LEVEL


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
            chosen = weighted.select_within_strata(
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
        weighted.stratified_p_values(scores, calibration, Strata(candidate_strata, calibration_strata)).tolist()
        == expected
    )
    assert Strata(candidate_strata, calibration_strata).uncovered == np.isin(candidate_strata, [7, 8]).sum()


def test_one_stratum_is_benjamini_and_hochberg():
    rng = np.random.default_rng(8)
    for shape in (np.asarray, np.round):
        calibration, scores = shape(rng.normal(size=200)), shape(np.append(rng.normal(3, 1, 30), rng.normal(size=30)))
        result = weighted.select_within_strata(scores, calibration, Strata(["a"] * 60, ["a"] * 200), fdr=0.1)
        assert np.array_equal(result.selected, fdr.select(scores, calibration, fdr=0.1, method="bh").selected)


def test_what_cannot_carry_the_level_is_refused():
    calibration, scores = np.arange(100.0), np.arange(50.0, 70.0)
    with pytest.raises(dv.InputError, match=r"worth 1\.0 that look like"):
        weighted.select(scores, calibration, Weights(np.r_[1e6, np.full(99, 1e-6)], np.ones(20)))
    with pytest.raises(dv.InputError, match="only 0% of the candidates"):
        weighted.select(scores, calibration, Weights(np.ones(100), np.full(20, 1e6)))
    with pytest.raises(dv.InputError, match=r"weights\.candidates"):
        weighted.select(scores, calibration, Weights(np.ones(100), np.arange(20.0)))
    with pytest.raises(dv.InputError, match="strata are too small"):
        weighted.select_within_strata(scores, calibration, Strata(np.arange(20) // 2, np.arange(100) // 10), fdr=0.05)
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
    weights = weighted.density_ratio(calibration_strata[:, None], candidate_strata[:, None])
    weighted_selection = dv.identify(scores, calibration, fdr=0.1, adjust=weights)
    assert weighted_selection.guarantee.standing == "doubtful"
    assert weighted_selection.warnings[0].startswith("the guarantee is in doubt: nothing here checks")


def test_scores_the_wrong_way_round_and_scores_that_say_nothing():
    rng, truth = np.random.default_rng(10), np.arange(40) < 20
    scores, calibration = np.append(rng.normal(-3, 1, 20), rng.normal(size=20)), rng.normal(size=100)
    for adjust in (Strata(["a"] * 40, ["a"] * 100), Weights(np.ones(100), np.ones(40))):
        assert any(
            "wrong way round" in message
            for message in dv.identify(scores, calibration, adjust=adjust, truth=truth).warnings
        )
        with pytest.raises(dv.InputError, match="every score, calibration included"):
            dv.identify(np.ones(40), np.ones(100), adjust=adjust)
    strata_apart = Strata(["a"] * 40, ["a"] * 100, ["b"] * 5)
    with pytest.raises(dv.InputError, match=r"^holdout: none of its strata"):
        dv.identify(scores, calibration, adjust=strata_apart, holdout=calibration[:5])


def test_what_has_no_place_beside_it_is_named():
    calibration, scores, weights = np.arange(100.0), np.arange(20.0), Weights(np.ones(100), np.ones(20))
    options = {
        "members": scores,
        "candidate_texts": ["a"] * 20,
        "holdout": calibration,
    }
    for name, value in options.items():
        with pytest.raises(dv.InputError, match=f"^{name}"):
            dv.identify(scores, calibration, adjust=weights, **{name: value})
    with pytest.raises(dv.InputError, match="method"):
        dv.identify(scores, calibration, adjust=weights, method="storey")
    with pytest.raises(dv.InputError, match="adjust"):
        dv.identify(np.ones((20, 2)), np.ones((100, 2)), adjust=weights)
    with pytest.raises(dv.InputError, match="adjust"):
        dv.identify(scores, calibration, adjust="length")
