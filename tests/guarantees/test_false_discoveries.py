"""The false discovery rate of every method, over scores and members of many kinds.

A sound method's proportions of false discoveries lie in [0, 1] and have at most the level as their mean, so by
Chernoff's bound their average over independent runs passes the limits below with probability 1e-5 at most, and
any of the 1000 of this file with .01.
"""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import binom

import divulge as dv
from divulge.decisions import fdr
from divulge.decisions.counts import Counts, ranks

LEVELS = np.array([0.05, 0.1, 0.5])
RUNS = 100
SHAPES = {
    "continuous": np.asarray,
    "rounded": np.round,
    "two values": lambda x: (x > 1).astype(float),
    "mostly zero": lambda x: np.where(x < 1.5, 0.0, x),
}
# Members that score higher; and members of another kind, half of them lower than any non-member.
MEMBERS = {
    "higher": lambda rng, count: rng.normal(2, 1, count),
    "unlike": lambda rng, count: rng.choice([-6.0, 3.0], count) + rng.normal(0, 0.1, count),
}


def limit(level, runs):
    def tail(share):
        return runs * (rel_entr(share, level) + rel_entr(1 - share, 1 - level)) - np.log(1e5)

    return brentq(tail, level, 1 - 1e-12)


LIMITS = [limit(level, RUNS) for level in LEVELS]


def proportions(rng, n, m, members, alternative, shape):
    """False discovery proportions ``[methods, levels]`` of one draw."""
    scores = shape(np.append(MEMBERS[alternative](rng, members), rng.normal(size=m - members)))
    counts = Counts.empty(shape(rng.normal(size=n))).add(scores)
    candidate_ranks = ranks(scores, counts.calibration)
    proportions_by_method = []
    for method in fdr.METHODS:
        chosen = fdr.decide(counts, fdr=0.5, method=method).q_values[candidate_ranks] <= LEVELS[:, None]
        proportions_by_method.append(chosen[:, members:].sum(1) / np.maximum(chosen.sum(1), 1))
    return np.array(proportions_by_method)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("n", "m"), [(20, 5), (20, 200), (100, 500), (500, 50)])
def test_every_method_keeps_its_level(n, m, shape):
    rng = np.random.default_rng([n, m])
    for share, alternative in ((0.0, "higher"), (0.3, "higher"), (0.7, "higher"), (0.3, "unlike"), (0.7, "unlike")):
        mean = np.mean([proportions(rng, n, m, round(share * m), alternative, shape) for _ in range(RUNS)], axis=0)
        assert np.all(mean <= LIMITS), (share, alternative, dict(zip(fdr.METHODS, mean.tolist(), strict=True)))


@pytest.mark.parametrize(("n", "m", "share", "shape"), [(40, 10, 0.0, np.round), (60, 40, 0.3, np.asarray)])
def test_a_learned_score_keeps_its_level_at_one_seed(n, m, share, shape):
    """Every run has seed 0: which half of the calibration is learned from must differ with the data."""
    rng = np.random.default_rng([n, m, 2])
    false, members = [], round(share * m)
    for _ in range(RUNS):
        signals = rng.normal(size=(m, 2))
        signals[:members] += (2, 1)
        chosen = dv.identify(shape(signals), shape(rng.normal(size=(n, 2))), fdr=0.1, method="adadetect").selected
        false.append(chosen[members:].sum() / max(chosen.sum(), 1))
    assert np.mean(false) <= limit(0.1, RUNS)


@pytest.mark.parametrize(("n", "m", "has_holdout"), [(30, 10, True), (120, 100, False), (120, 100, True)])
def test_auto_keeps_its_level_with_the_controls_that_guide_it(n, m, has_holdout):
    rng = np.random.default_rng([n, m, 1])
    for share, alternative in ((0.0, "higher"), (0.3, "higher"), (0.7, "unlike")):
        false, members = [], round(share * m)
        for shape in list(SHAPES.values()) * 15:
            scores = shape(np.append(MEMBERS[alternative](rng, members), rng.normal(size=m - members)))
            calibration, holdout = shape(rng.normal(size=n)), shape(rng.normal(size=50))
            if len(np.unique([*scores, *calibration])) > 1:
                known = {"holdout": holdout} if has_holdout else {}
                chosen = dv.identify(scores, calibration, fdr=0.1, **known).selected
                false.append(chosen[members:].sum() / max(chosen.sum(), 1))
        assert np.mean(false) <= limit(0.1, len(false)), (share, alternative, np.mean(false))


def test_without_members_auto_selects_somebody_in_at_most_a_tenth_of_runs():
    """120 runs at 10 %: fails by chance in 1e-4; of continuous scores, so that the level is nearly reached."""
    rng = np.random.default_rng(4)
    draws = ((rng.normal(size=40), rng.normal(size=199), rng.normal(size=50)) for _ in range(120))
    n_selected = sum(dv.identify(scores, known, fdr=0.1, holdout=other).count > 0 for scores, known, other in draws)
    assert n_selected <= binom.isf(1e-4, 120, 0.1)


def test_copies_that_are_left_out_of_both_sides_cost_no_guarantee(tmp_path, divulge):
    """Of 80 members and 80 others in question, a third each stand among the unused; ids are row numbers."""
    runs, shares = 10, []
    for seed in range(runs):
        decimals = (0, 6)[seed % 2]
        rng, folder = np.random.default_rng(seed), tmp_path / str(seed)
        folder.mkdir()
        candidates = np.r_[rng.normal(2, 1, 80), rng.normal(size=80)].round(decimals)
        unused, copied = rng.normal(size=200).round(decimals), rng.random(160) < 1 / 3
        rows = [(f"d{i}", score) for i, score in enumerate(candidates)]
        known = [(f"u{i}", score) for i, score in enumerate(unused)]
        known += [row for row, is_copied in zip(rows, copied, strict=True) if is_copied]
        for name, table in (("candidates", rows), ("calibration", known)):
            lines = "\n".join(f"{each},{score}" for each, score in table)
            (folder / f"{name}.csv").write_text(f"id,score\n{lines}\n")
        words = ["identify", folder / "candidates.csv", "--calibration", folder / "calibration.csv", "--id", "id"]
        words += ["--score", "score:high", "--fdr", 0.1, "--out", folder / "run"]
        if seed == 0:
            code, _, error = divulge(*words)
            assert (code, f"{copied.sum()} rows" in error) == (2, True), error
        assert divulge(*words, "--drop-overlap")[0] == 0
        listed = (folder / "run" / "selected.csv").read_text("utf-8-sig").splitlines()[1:]
        places = [int(line.split(",")[0][1:]) for line in listed]
        assert not copied[places].any()
        shares.append(np.mean([place >= 80 for place in places]) if places else 0.0)
    assert np.mean(shares) <= limit(0.1, runs)
