"""How often intervals cover, on ties, constants, tiny and lopsided sets: before and now.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/coverage.py [auc] [paired] [others] [verdict] [--draws 2000]

95 % intervals. Two-valued scores are not simulated: every table is weighed by its probability. *Before* is DeLong's
interval alone, as it was; it is kept here for comparison only.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from coverage_cells import CELLS, delong_alone, draw, paired_delong, truth
from coverage_pairs import CONTINUOUS, PAIRS, areas, true_difference
from divulge.evaluation import comparison, placements, ranking

ERROR = 0.05
SIZES = ((5, 5), (5, 500), (20, 20), (100, 10), (100, 100), (500, 50), (1000, 99), (2000, 500), (5, 5000), (5000, 5000))
PAIRED_SIZES = ((2, 2), (5, 5), (5, 100), (100, 5), (20, 20), (100, 100), (500, 20))
VERDICT_SIZES = ((1000, 120), (30, 30), (5, 500))
CHUNK = 2_000_000


def table(title, columns, rows):
    print(f"\n## {title}\n\n| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def sized(sizes):
    return [f"{m:,}/{n:,}" for m, n in sizes]


def share(rate):
    return f"{min(rate, 0.9999):.3f}".lstrip("0") if rate < 0.9995 else "1"


def study(pieces, true):
    """Coverage of two intervals, and the median of their ratio of lengths; ``pieces`` are ends and weights."""
    hits, lengths, weights = [], [], []
    for intervals, weight in pieces:
        hits.append([(low <= true + 1e-9) & (true - 1e-9 <= high) for low, high in intervals])
        lengths.append([high - low for low, high in intervals])
        weights.append(weight)
    before, now = np.average(np.concatenate(hits, 1), axis=1, weights=np.concatenate(weights))
    old, new = np.concatenate(lengths, 1)
    return before, now, np.median(new[old > 0] / old[old > 0]) if (old > 0).any() else np.inf


def of_auc(cell, m, n, draws):
    rng = np.random.default_rng(1)
    at_once = max(1, CHUNK // (m + n)) if isinstance(cell, float) else draws
    for start in range(0, draws, at_once):
        inside, outside, weights = draw(rng, cell, m, n, min(at_once, draws - start))
        found = placements.of_counts(inside, outside)
        yield [delong_alone(found, ERROR), ranking.bounds(found, ERROR)], weights


def of_pair(pair, m, n, draws):
    rng = np.random.default_rng(1)
    at_once = max(1, 5 * CHUNK // (m * n))
    for start in range(0, draws, at_once):
        a, b = areas(rng, pair, m, n, min(at_once, draws - start), ERROR)
        both = [paired_delong(a, b, ERROR), comparison.difference_bounds(a, b, ERROR)]
        yield both, np.ones(len(both[0][0]))


def compare(title, cells, sizes, true, pieces, smooth):
    """Coverage before → now, a row a distribution; then the lengths of those without ties."""
    found = {name: [study(pieces(cell, m, n), true(cell)) for m, n in sizes] for name, cell in cells.items()}
    rows = ([name, *(f"{share(a)} → {share(b)}" for a, b, _ in row)] for name, row in found.items())
    table(f"{title}: coverage before → now", ["members/non-members", *sized(sizes)], rows)
    rows = ([name, *(f"{ratio:.2f}" for *_, ratio in found[name])] for name in smooth)
    table(f"{title}: length now / before, median", ["members/non-members", *sized(sizes)], rows)
    cover = np.array([[cell[:2] for cell in row] for row in found.values()])
    ratios = [ratio for name in smooth for *_, ratio in found[name]]
    print(f"\nLowest coverage before {cover[..., 0].min():.3f}, now {cover[..., 1].min():.3f};", end=" ")
    print(f"median ratio of lengths without ties {np.median(ratios):.3f}.")


def auc(draws):
    smooth = [name for name, cell in CELLS.items() if isinstance(cell, float)]
    compare("AUC", CELLS, SIZES, truth, partial(of_auc, draws=draws), smooth)


def paired(draws):
    pieces = partial(of_pair, draws=draws)
    compare("Paired difference of AUCs", PAIRS, PAIRED_SIZES, true_difference, pieces, CONTINUOUS)


PARTS = {"auc": auc, "paired": paired}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--draws", type=int, default=2000, help="tables a cell")
    chosen = parser.parse_args()
    for part in chosen.parts:
        PARTS[part](chosen.draws)


if __name__ == "__main__":
    main()
