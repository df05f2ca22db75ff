"""How often intervals cover, on ties, constants, tiny and lopsided sets.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/coverage.py [auc] [paired] [others] [--draws 2000]

95 % intervals. For the AUC of two-valued scores nothing is simulated: every table is weighed by its probability.
*Before* is DeLong's interval alone, as it was; it is kept here for comparison only. Cells of one size share their
random numbers.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import norm

from coverage_cells import CELLS, delong_alone, draw, exact, paired_delong, truth
from coverage_others import FPR, STATISTICS, held, paired_held
from coverage_pairs import CONTINUOUS, PAIRS, areas, true_difference
from divulge import statistics
from divulge.evaluation import comparison

ERROR = 0.05
SIZES = (
    *((5, 5), (5, 500), (500, 5), (20, 20), (100, 10), (10, 100), (100, 100), (500, 50), (1000, 99)),
    *((2000, 500), (5, 5000), (5000, 5), (5000, 5000)),
)
PAIRED_SIZES = ((2, 2), (5, 5), (5, 100), (100, 5), (20, 20), (100, 100), (500, 20), (20, 500), (5, 5000), (5000, 5000))
OTHER_SIZES = ((5, 40), (100, 100), (20, 500), (1000, 120), (500, 1000))
CHUNK = 2_000_000


def table(title, columns, rows):
    print(f"\n## {title}\n\n| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def sized(sizes):
    return [f"{m:,}/{n:,}" for m, n in sizes]


def share(rate):
    return f"{rate:.3f}".lstrip("0") if rate < 0.9995 else "1"


def unexplained(cover, cells, draws):
    """Cells that cover less than .95 by more than so many draws explain (Bonferroni, 5 %); exact ones, at all."""
    error = np.sqrt(ERROR * (1 - ERROR) / draws) * norm.isf(0.05 / cover.size)
    limit = np.array([[1 - ERROR - (0.0 if exact(cell) else error)] for cell in cells])
    return int((cover < limit - 1e-6).sum())


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
    batch_draws = max(1, CHUNK // (m + n)) if isinstance(cell, float) else draws
    for start in range(0, draws, batch_draws):
        inside, outside, weights = draw(rng, cell, m, n, min(batch_draws, draws - start))
        placements = statistics.placements_from_counts(inside, outside)
        yield [delong_alone(placements, ERROR), statistics.auc_bounds(placements, ERROR)], weights


def of_pair(pair, m, n, draws):
    rng = np.random.default_rng(1)
    batch_draws = max(1, CHUNK // (m + n))
    for start in range(0, draws, batch_draws):
        a, b = areas(rng, pair, m, n, min(batch_draws, draws - start), ERROR)
        bounds_of_both = [paired_delong(a, b, ERROR), comparison.difference_bounds(a, b, ERROR)]
        yield bounds_of_both, np.ones(len(bounds_of_both[0][0]))


def compare(title, cells, sizes, true, pieces, smooth, draws):
    """Coverage before → now, a row a distribution; then the lengths of those without ties."""
    studies = {}
    for name, cell in cells.items():
        value = true(cell)
        studies[name] = [study(pieces(cell, m, n, draws), value) for m, n in sizes]
    rows = ([name, *(f"{share(a)} → {share(b)}" for a, b, _ in row)] for name, row in studies.items())
    table(f"{title}: coverage before → now", ["members/non-members", *sized(sizes)], rows)
    rows = ([name, *(f"{ratio:.2f}" for *_, ratio in studies[name])] for name in smooth)
    table(f"{title}: length now / before, median", ["members/non-members", *sized(sizes)], rows)
    before, now = np.array([[cell[:2] for cell in row] for row in studies.values()]).transpose(2, 0, 1)
    wrong = [unexplained(cover, cells.values(), draws) for cover in (before, now)]
    print(f"\n{now.size} cells. Lowest coverage before {share(before.min())}, now {share(now.min())};", end=" ")
    print(f"lower than .95 by more than chance before {wrong[0]}, now {wrong[1]}.", flush=True)


def auc(draws):
    smooth = [name for name, cell in CELLS.items() if isinstance(cell, float)]
    compare("AUC", CELLS, SIZES, truth, of_auc, smooth, draws)


def paired(draws):
    compare("Paired difference of AUCs", PAIRS, PAIRED_SIZES, true_difference, of_pair, CONTINUOUS, draws)


def others(draws):
    """What is bounded exactly: coverage is at least nominal by proof, so these tables look for mistakes."""
    for title, cells, columns, hold in (
        ("Other statistics", CELLS, STATISTICS, held),
        (f"Paired difference of TPR at FPR {FPR}", PAIRS, ("difference",), paired_held),
    ):
        results = {name: np.array([hold(cell, *size, draws) for size in OTHER_SIZES]) for name, cell in cells.items()}
        rows = ([name, *("" if np.isnan(x) else share(x) for x in cell.min(0))] for name, cell in results.items())
        table(f"{title}: lowest coverage over {', '.join(sized(OTHER_SIZES))}", ["scores", *columns], rows)
        lowest = np.nanmin(list(results.values()), (0, 1))
        print(f"\nLowest: {', '.join(f'{name} {share(x)}' for name, x in zip(columns, lowest, strict=True))}.")


PARTS = {"auc": auc, "paired": paired, "others": others}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--draws", type=int, default=2000, help="tables per cell")
    chosen = parser.parse_args()
    for part in chosen.parts:
        print(f"\n# `benchmarks/coverage.py {part} --draws {chosen.draws}`")
        PARTS[part](chosen.draws)


if __name__ == "__main__":
    main()
