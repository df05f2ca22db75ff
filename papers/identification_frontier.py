"""Identification's frontier: adaptive estimates of the share of non-members, and bounds for all thresholds.

Run with ``python papers/identification_frontier.py [--runs 2000] [part ...]``; the parts are adaptive,
envelope and shift. Scores are Gaussian and every method decides on the same ranks, so differences are paired. The
tables stand in ``benchmarks/results/identification.md``.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

from divulge.decisions import fdp, fdr
from divulge.decisions.counts import Counts
from divulge.decisions.methods import PTDI, Adaptive, Storey

AUCS = {0.65: 0.545, 0.8: 1.190, 0.9: 1.812, 0.95: 2.326, 0.99: 3.290}
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def table(title, columns, rows):
    cells = [[str(cell) for cell in row] for row in rows]
    print(f"\n### {title}\n")
    print(f"| {' | '.join(columns)} |")
    print("|" + "---:|" * len(columns))
    for row in cells:
        print(f"| {' | '.join(row)} |", flush=True)


def draw(rng, n, m, members, signal, shift=0.0):
    return np.append(rng.normal(signal, 1, members), rng.normal(shift, 1, m - members)), rng.normal(size=n)


def outcome(counts, false, level, method):
    """False discovery proportion and power; ``false`` and ``counts.reached`` by rank."""
    rank = fdr.step_up(counts, level, method).rank
    if rank < 0:
        return 0.0, 0.0
    chosen, wrong = int(counts.reached[rank]), int(false[rank])
    members = counts.total - false[-1]
    return wrong / max(chosen, 1), (chosen - wrong) / max(members, 1)


def simple(m):
    return Storey(1 - float(np.clip(100 / m, 0.1, 0.5)))


def adaptive(runs):
    """Power of every method in every cell, by size; both levels decide on the same draws."""
    for n, m in ((100, 100), (200, 200), (500, 1000), (1000, 200)):
        methods = {"bh": fdr.BH(), "storey": Storey(), "ptdi": PTDI(), "simple": simple(m), "adaptive": Adaptive()}
        rows, worst = {0.05: [], 0.1: []}, {}
        for auc, share in itertools.product(AUCS, SHARES):
            rng, members = np.random.default_rng([n, m, round(10 * share)]), round(share * m)
            results = {level: {name: [] for name in methods} for level in rows}
            for _ in range(runs):
                scores, calibration = draw(rng, n, m, members, AUCS[auc])
                counts = Counts.empty(calibration).add(scores)
                false = Counts.empty(calibration).add(scores[members:]).reached
                for level, name in itertools.product(rows, methods):
                    results[level][name].append(outcome(counts, false, level, methods[name]))
            for level, each in results.items():
                rate, power = ({name: np.array(pairs)[:, i] for name, pairs in each.items()} for i in (0, 1))
                for name, values in rate.items():
                    error = max(values.std() / np.sqrt(runs), 1e-12)
                    worst.setdefault(name, []).append((values.mean() / level, (values.mean() - level) / error))
                gain = power["adaptive"] - power["simple"]
                better = power["adaptive"].mean() - max(power["storey"].mean(), power["ptdi"].mean())
                powers = [f"{power[name].mean():.3f}" for name in methods]
                paired = f"{gain.mean():+.3f} ± {1.96 * gain.std() / np.sqrt(runs):.3f}"
                rows[level].append((auc, share, *powers, paired, f"{better:+.3f}"))
        columns = ("AUC", "share", *methods, "adaptive − simple", "adaptive − better of storey, ptdi")
        for level, cells in rows.items():
            table(f"Power at level {level}, n = {n}, m = {m}, {runs} runs", columns, cells)
        top = {name: np.max(pairs, axis=0) for name, pairs in worst.items()}
        ratios_text = ", ".join(f"{name} {ratio:.3f} (largest z {z:.2f})" for name, (ratio, z) in top.items())
        print(f"\nLargest false discovery rate over its level, 50 cells: {ratios_text}.", flush=True)


def shift(runs):
    """Non-members that score higher than the calibration, and odd documents among it."""
    methods = {"bh": fdr.BH(), "storey": Storey(), "ptdi": PTDI(), "adaptive": Adaptive()}
    rows = []
    for moved, odd in ((0.0, 0.0), (0.1, 0.0), (0.25, 0.0), (0.5, 0.0), (0.0, 0.02), (0.0, 0.05), (0.0, 0.1)):
        rng, results = np.random.default_rng(3), {name: [] for name in methods}
        for _ in range(runs):
            scores, calibration = draw(rng, 500, 1000, 300, 2.0, moved)
            calibration[: round(500 * odd)] = -9 + 0.1 * calibration[: round(500 * odd)]
            counts = Counts.empty(calibration).add(scores)
            false = Counts.empty(calibration).add(scores[300:]).reached
            for name, method in methods.items():
                results[name].append(outcome(counts, false, 0.1, method)[0])
        rows.append((moved, odd, *(f"{np.mean(v):.3f}" for v in results.values())))
    title = "False discovery rate at level .1, 300 members of 1,000, n = 500: non-members shifted, odd calibration"
    table(title, ("shift, sd", "odd share of calibration", *methods), rows)


def envelope(runs):
    """How many of the best can be named with at most a tenth of non-members, and how often any bound fails."""
    rows = []
    for n, m in ((100, 200), (500, 1000), (2000, 1000)):
        for auc, share in ((0.8, 0.5), (0.8, 0.9), (0.95, 0.3), (0.95, 0.5), (0.95, 0.7), (0.99, 0.5), (0.95, 0.0)):
            rng, members = np.random.default_rng([n, m]), round(share * m)
            sizes_named, true, missed, average = [], [], [], []
            for _ in range(runs):
                scores, calibration = draw(rng, n, m, members, AUCS[auc])
                counts = Counts.empty(calibration).add(scores)
                best = fdp.envelope_from_counts(counts)
                order = np.argsort(-scores)
                false = np.cumsum(order >= members)
                missed.append(np.any(false > np.asarray(best) * np.arange(1, m + 1) + 1e-9))
                k = best.largest(0.1)
                sizes_named.append(k)
                true.append(false[k - 1] / k if k else 0.0)
                rank = fdr.step_up(counts, 0.1, Storey()).rank
                average.append(int(counts.reached[rank]) if rank >= 0 else 0)
            row = (n, m, auc, share, f"{np.mean(sizes_named):.0f}", f"{np.mean(true):.3f}", f"{np.mean(average):.0f}")
            rows.append((*row, f"{np.mean(missed):.3f}"))
    title = "Named with at most a tenth of non-members, 95 % confidence for all numbers at once"
    table(title, ("n", "m", "AUC", "share", "named", "their FDP", "`storey` selects at .1", "any bound fails"), rows)


PARTS = {"adaptive": adaptive, "shift": shift, "envelope": envelope}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--runs", type=int, default=2000)
    arguments = parser.parse_args()
    for name in arguments.parts or PARTS:
        start = time.perf_counter()
        PARTS[name](arguments.runs)
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
