"""Coverage of what is bounded exactly: TPR at an FPR, advantage, ε, and the difference of two TPRs."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import norm

from divulge.evaluation import advantage, epsilon_lower_bound, paired_difference, tpr_at_fpr

FPR = 0.03
SLACK = 2e-3
STATISTICS = (f"TPR at FPR {FPR}", "advantage", "ε", "ε, split")


def _curve(cell):
    """FPR and TPR of every threshold, rising."""
    if isinstance(cell, float):
        cuts = np.linspace(-12, 12, 48_001)
        return norm.cdf(cuts), norm.cdf(cuts + norm.ppf(cell) * 2**0.5)
    p, q = (np.r_[0.0, (pmf / pmf.sum())[::-1].cumsum()] for pmf in cell)
    return q, p


def truths(cell):
    """The true value of each of `STATISTICS`; ε is infinite where a likelihood ratio has no bound."""
    fpr, tpr = _curve(cell)
    tpr_at_fpr = tpr[fpr <= FPR + 1e-12].max()
    if isinstance(cell, float):
        leak = 0.0 if cell == 0.5 else np.inf
    else:
        # A curve of steps: the largest slope of a chord from either corner.
        with np.errstate(all="ignore"):
            ratios = np.r_[tpr / fpr, (1 - fpr) / (1 - tpr)]
        defined = np.r_[tpr > 1e-12, fpr < 1 - 1e-12]
        leak = max(0.0, np.log(np.maximum(ratios[defined], 1e-300)).max())
    return np.array([tpr_at_fpr, max(0.0, (tpr - fpr).max()), leak, leak])


def _scores(cell, m, n, draws, rng):
    """Scores of members, then of non-members, one draw a time."""
    if isinstance(cell, float):
        for _ in range(draws):
            yield np.append(rng.normal(norm.ppf(cell) * 2**0.5, size=m), rng.normal(size=n))
    else:
        for _ in range(draws):
            yield np.concatenate(
                [rng.choice(len(pmf), k, p=pmf / pmf.sum()) for k, pmf in zip((m, n), cell, strict=True)]
            )


def held(cell, m, n, draws):
    """How often each interval, or bound, holds the truth, ``[4]``; NaN where no bound could miss it."""
    rng, members, true = np.random.default_rng(1), np.arange(m + n) < m, truths(cell)
    hits = []
    for seed, scores in enumerate(_scores(cell, m, n, draws, rng)):
        estimates = (
            tpr_at_fpr(scores, members, FPR),
            advantage(scores, members),
            epsilon_lower_bound(scores, members),
            epsilon_lower_bound(scores, members, strategy="split", seed=seed),
        )
        hits.append([e.low <= t + 1e-9 and t - 1e-9 <= e.high for e, t in zip(estimates, true, strict=True)])
    return np.where(np.isfinite(true), np.mean(hits, 0), np.nan)


def paired_held(pair, m, n, draws):
    """How often the interval of the difference of two TPRs holds the truth, ``[1]``."""
    rng, members, true = np.random.default_rng(1), np.arange(m + n) < m, _true_difference(pair)
    hits = 0
    for _ in range(draws):
        a, b = (np.append(*sides) for sides in zip(pair[0](rng, m), pair[1](rng, n), strict=True))
        difference = paired_difference(a, b, members, f"tpr@fpr={FPR}")
        hits += difference.low <= true + SLACK and true - SLACK <= difference.high
    return np.array([hits / draws])


@cache
def _true_difference(pair):
    """From a million records a side; off by less than `SLACK`."""
    rng = np.random.default_rng(99)
    members, nonmembers = (draw(rng, 1_000_000) for draw in pair)
    shares = []
    for inside, outside in zip(members, nonmembers, strict=True):
        ordered = np.sort(outside.astype(float))
        shares.append((inside > ordered[-1 - int(FPR * len(ordered))]).mean())
    return shares[0] - shares[1]
