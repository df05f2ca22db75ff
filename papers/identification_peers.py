"""Other procedures that name training data, through the simulations that ours go through.

    OMP_NUM_THREADS=1 PYTHONPATH=src python papers/identification_peers.py [--runs 2000] [part ...]

The parts are rates (nominal and realised false discovery rates over 252 settings for each kind of scores), power,
knockoffs and thresholds. Each procedure is written down from its formula; ``SOURCES`` says where that was read. Tables
are printed.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from scipy.stats import norm

from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, PTDI, Adaptive, Storey
from knockoffs import select_by_knockoffs

LEVELS = np.array([0.05, 0.1, 0.2, 0.5])
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
SHAPES = {"continuous": np.asarray, "rounded": np.round, "two values": np.sign}
AUCS = {0.65: 0.545, 0.8: 1.190, 0.95: 2.326, 0.99: 3.290}

SOURCES = {
    "`bh`, `storey`, `ptdi`, `adaptive`": "this library",
    "min-Storey": "the formula: Storey's estimate with its +1, the least over λ = .5, .55, …, .95, no correction",
    "MIAFdR, evaluation": "the authors' code (ChenxuZhao0/MIAFdR, 8fa37c1, 20b27a6): Benjamini-Hochberg on conformal "
    "p-values at α / .5, its default; of the paper the abstract was read",
    "KTD": "a summary of the paper: knockoff+ on the difference of a document and its paraphrase",
    "DUCI": "the authors' module in Privacy Meter (0b8cb7a): the cut where a twin's true less its false positive rate "
    "is largest; it estimates a share and claims no rate",
    "threshold": "the usual reading of a false-positive rate: all scores above the calibration's 1 - α quantile",
}


def table(title, columns, rows):
    print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def shown(values):
    values = np.asarray(values, float)
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def p_values(counts):
    """Of all candidates, ascending."""
    n = len(counts.calibration)
    return np.repeat(np.arange(1, n + 2) / (n + 1), np.diff(counts.reached, prepend=0))


def ours(method):
    def share(counts, rng):
        top, bottom = method.null_share(counts)
        return top / bottom if bottom else np.inf

    return share


def min_storey(counts, rng):
    """The least of ten estimates; each of them alone is valid."""
    return min(ours(Storey(lam))(counts, rng) for lam in np.arange(0.5, 0.96, 0.05).round(2).tolist())


def half(counts, rng):
    """BH at α / .5."""
    return 0.5


OURS = {"`bh`": ours(BH()), "`storey`": ours(Storey()), "`ptdi`": ours(PTDI()), "`adaptive`": ours(Adaptive())}
PEERS = {"min-Storey": min_storey, "MIAFdR, evaluation": half}


def step_up(counts, false, share, levels):
    """False discovery proportion and number of members selected, at each level, of BH on ``share`` times p."""
    n, m, reached = len(counts.calibration), counts.total, counts.reached
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.arange(1, n + 2) * share * m / ((n + 1) * reached)
    q = np.minimum.accumulate(np.where(reached, q, np.inf)[::-1])[::-1]
    rank = np.searchsorted(q, levels * (1 + 1e-12), side="right") - 1
    chosen = np.where(rank >= 0, reached[rank], 0)
    wrong = np.where(rank >= 0, false[rank], 0)
    return wrong / np.maximum(chosen, 1), chosen - wrong


def draw(rng, n, m, members, signal, shape):
    scores = shape(np.append(rng.normal(signal, 1, members), rng.normal(size=m - members)))
    calibration = shape(rng.normal(size=n))
    counts = Counts.empty(calibration).add(scores)
    false = Counts.empty(calibration).add(scores[members:]).reached if members < m else np.zeros(n + 1, np.int64)
    return counts, false


def cell(seed, n, m, share, signal, shape, runs, procedures):
    """False discovery proportions and powers, ``[runs, levels]`` each, by procedure."""
    rng, members = np.random.default_rng(seed), round(share * m)
    outcomes = {name: np.zeros((2, runs, len(LEVELS))) for name in procedures}
    for run in range(runs):
        counts, false = draw(rng, n, m, members, signal, shape)
        for name, estimate in procedures.items():
            wrong, right = step_up(counts, false, estimate(counts, rng), LEVELS)
            outcomes[name][:, run] = wrong, right / max(members, 1)
    return outcomes


def rates(runs):
    """Nominal against realised: the largest excess over all settings, and how many are beyond chance."""
    rows, worst = [], []
    for shape, make in SHAPES.items():
        cells = {}
        for n, m, share in itertools.product((20, 100, 1000), (10, 100, 1000), SHARES):
            seed = [n, m, round(10 * share)]
            outcomes = cell(seed, n, m, share, 2.0, make, runs, OURS | PEERS)
            for name, (false, _) in outcomes.items():
                rate, error = false.mean(0), false.std(0, ddof=1) / np.sqrt(len(false))
                z = (rate - LEVELS) / np.maximum(error, 1e-9)
                settings = [(n, m, share, level) for level in LEVELS.tolist()]
                cells.setdefault(name, []).extend(zip(rate / LEVELS, z, rate, error, settings, strict=True))
        for name, cell_values in cells.items():
            z = np.array([cell_value[1] for cell_value in cell_values])
            limit = norm.isf(0.05 / len(z))
            top = max(cell_values, key=lambda cell_value: cell_value[0])
            n, m, share, level = top[4]
            largest_z = f"{np.clip(z.max(), -999, 999):.1f}"
            rows.append((name, shape, len(z), f"{top[0]:.2f}", largest_z, int((z > limit).sum())))
            if (z > limit).any():
                top = max(
                    (cell_value for cell_value in cell_values if cell_value[1] > limit),
                    key=lambda cell_value: cell_value[0],
                )
                n, m, share, level = top[4]
                worst.append((name, shape, n, m, share, level, f"{top[2]:.3f} ± {1.96 * top[3]:.3f}"))
        print(f"  ({shape} done)", flush=True)
    columns = ("procedure", "scores", "settings", "largest FDR / level", "largest z", "beyond chance")
    table(f"Nominal and realised false discovery rate, {runs} runs", columns, rows)
    columns = ("procedure", "scores", "n", "m", "share of members", "nominal", "realised")
    table("Where it is largest, of the settings beyond chance", columns, worst)


def power(runs):
    """Realised rate and power at level .1, ample and scarce calibration."""
    for n, m in ((500, 1000), (100, 200)):
        rows = []
        for area, share in itertools.product((0.65, 0.8, 0.95), (0.0, 0.3, 0.5, 0.7, 0.9)):
            if share == 0.0 and area != 0.8:
                continue
            seed = [n, m, round(10 * share)]
            outcomes = cell(seed, n, m, share, AUCS[area], np.asarray, runs, OURS | PEERS)
            cells = [
                f"{false[:, 1].mean():.3f} / {power_runs[:, 1].mean():.3f}" for false, power_runs in outcomes.values()
            ]
            rows.append((area if share else "", share, *cells))
        size = f"{n} calibration scores, {m} candidates, {runs} runs"
        title = f"Realised rate / power at level .1, {size}"
        table(title, ("AUC", "share of members", *OURS, *PEERS), rows)


def knockoffs(runs):
    """Differences of documents and paraphrases: symmetric for non-members, and as measured on real paraphrases."""
    rows = []
    for share_name, lean in (("half", 0.5), ("60 %", 0.6), ("88 %, as measured (TOFU)", 0.88)):
        for m, share in ((100, 0.0), (1000, 0.0), (1000, 0.3), (1000, 0.5), (1000, 0.7)):
            rng, members = np.random.default_rng([m, round(10 * share)]), round(share * m)
            false, power = np.zeros((runs, 2)), np.zeros((runs, 2))
            for run in range(runs):
                gap = np.append(rng.normal(2.326, 1, members), rng.normal(norm.ppf(lean), 1, m - members))
                for level_index, level in enumerate((0.1, 0.2)):
                    chosen, _ = select_by_knockoffs(gap, np.zeros(m), fdr=level)
                    false[run, level_index] = chosen[members:].sum() / max(chosen.sum(), 1)
                    power[run, level_index] = chosen[:members].mean() if members else 0
            cells = [f"{shown(false[:, level_index])} / {power[:, level_index].mean():.3f}" for level_index in (0, 1)]
            rows.append((share_name, m, share, *cells))
    columns = ("non-members that favour their original", "m", "share of members", "level .1", "level .2")
    table(f"KTD: realised rate / power, {runs} runs; members' differences lie 2.3 sd above", columns, rows)


def thresholds(runs):
    """Rules that claim no false discovery rate, read as if they did."""
    rows = []
    for area, share in itertools.product((0.8, 0.95), (0.0, 0.1, 0.5, 0.9)):
        rng, m, n, members = np.random.default_rng(round(10 * share)), 1000, 500, round(share * 1000)
        outcomes = np.zeros((runs, 3, 2))
        errors = np.zeros(runs)
        for run in range(runs):
            scores = np.append(rng.normal(AUCS[area], 1, members), rng.normal(size=m - members))
            nonmembers, twin = rng.normal(size=n), rng.normal(AUCS[area], 1, n)
            cuts = np.sort(np.append(nonmembers, twin))
            up = [1 - np.searchsorted(np.sort(side), cuts, side="right") / n for side in (twin, nonmembers)]
            best = int(np.argmax(up[0] - up[1]))
            used = (np.mean(scores > cuts[best]) - up[1][best]) / (up[0][best] - up[1][best])
            errors[run] = abs(used - share)
            rules = (scores > np.quantile(nonmembers, 0.9), scores > np.quantile(nonmembers, 0.99), scores > cuts[best])
            for k, chosen in enumerate(rules):
                outcomes[run, k] = (
                    chosen[members:].sum() / max(chosen.sum(), 1),
                    chosen[:members].sum() / max(members, 1),
                )
        cells = [f"{shown(outcomes[:, i, 0])} / {outcomes[:, i, 1].mean():.3f}" for i in range(3)]
        rows.append((area, share, *cells, f"{errors.mean():.3f}"))
    columns = ("AUC", "share of members", "threshold, FPR .1", "threshold, FPR .01", "DUCI's cut", "error of its share")
    table(f"Realised rate / power of thresholds, 500 calibration scores, 1,000 candidates, {runs} runs", columns, rows)


PARTS = {"rates": rates, "power": power, "knockoffs": knockoffs, "thresholds": thresholds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--runs", type=int, default=2000)
    arguments = parser.parse_args()
    table("Where each formula was read", ("procedure", "source"), SOURCES.items())
    for name in arguments.parts or PARTS:
        start = time.perf_counter()
        PARTS[name](arguments.runs)
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
