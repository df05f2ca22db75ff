"""Documents split by length, and scores that go with length: how often is a leak called that is none?

    python benchmarks/language_lengths.py

Numbers alone, no model: each audit has one recipe of twelve claims at once; a leak is called where an interval excludes
chance. Its score correlates with the number of words. Left out is the blind baseline, which would name more splits.
"""

from __future__ import annotations

import argparse

import numpy as np

from divulge import evaluation
from divulge.results.recorded import UNEQUAL
from divulge.statistics import two_samples

CLAIMS, FPR = 12, 0.05
SIGNS = 0.01 / 4  # of the lengths, of two tests that have half of 1 %
WORDS = 2.3  # standard deviation of the number of words


def audit(rng: np.random.Generator, n: int, longer: float, carried: float, leak: float) -> tuple[bool, bool, bool]:
    """Whether the split is named by its lengths, a leak would be called, and is called."""
    members = np.arange(2 * n) < n
    words = 14 + rng.integers(0, 8, 2 * n) + (rng.random(2 * n) < longer * members)
    scores = carried * (words - words.mean()) / WORDS + np.sqrt(1 - carried**2) * rng.normal(size=2 * n)
    scores = np.round(scores, 6) + leak * members
    level = 1 - 0.05 / CLAIMS
    area = evaluation.auc(scores, members, level)
    called = (
        area.low > 0.5
        or area.high < 0.5
        or evaluation.tpr_at_fpr(scores, members, FPR, level).low > FPR
        or evaluation.epsilon_lower_bound(scores, members, confidence=level).low > 0
    )
    lengths = 3.0 * words - 1
    p_value = two_samples.rank_sum(lengths[~members], lengths[members])
    owed = p_value <= UNEQUAL and two_samples.among_equals(scores, members, lengths) > 1 - level
    return p_value <= SIGNS, called, called and not owed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=400)
    count = parser.parse_args().audits
    sizes = ((100, 1), (300, 0.6), (1000, 0.3))
    cells = [(n, longer, carried, 0.0) for n, longer in sizes for carried in (0.5, 0.8, 0.95, 1)]
    cells += [(100, 0, 0.5, leak) for leak in (0.5, 0.8)]
    print("| documents of each kind | longer by, words | correlation | leak | named | leak called without | with |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for cell in cells:
        rng = np.random.default_rng(0)
        named, before, now = np.array([audit(rng, *cell) for _ in range(count)]).T
        shares = (named.mean(), (before & ~named).mean(), (now & ~named).mean())
        print(f"| {' | '.join(map(str, cell))} | {' | '.join(f'{share:.2%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
