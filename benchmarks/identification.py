"""Identification: guarantees, power, traps and the share of members.

Run with ``python benchmarks/identification.py [--quick] [part ...]``; the parts are simulation, learned, power,
sizes, real, traps, usage and coverage. ``real``, ``usage`` and a part of ``traps`` read the folder that
DIVULGE_DATA names and are left out without it. All numbers are printed, none is kept. The controls:
``benchmarks/identification_controls.py``; speed: ``benchmarks/identification_speed.py``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import norm

from divulge.decisions import controls, fdr, pooled_scores, usage
from divulge.decisions.counts import Counts, ranks
from divulge.decisions.methods import PTDI

METHODS = ("bh", "ptdi", "storey")
DATA = os.environ.get("DIVULGE_DATA")


def table(title, columns, rows):
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def mean(values):
    values = np.asarray(values, float)
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def outcome(chosen, members):
    return chosen[members:].sum() / max(chosen.sum(), 1), chosen[:members].mean() if members else 0.0


def levels_of(scores, calibration, method, levels):
    """Selected, bool ``[levels, m]``: one decision says at which level each candidate would be selected."""
    counts = Counts.empty(calibration).add(scores)
    q = fdr.decide(counts, fdr=max(levels), method=method).q_values
    return q[ranks(scores, counts.calibration)] <= np.array(levels)[:, None]


def select(scores, calibration, level, method):
    return levels_of(scores, calibration, method, (level,))[0]


def learn(scores, calibration, levels, seed):
    candidate_scores, calibration_scores = pooled_scores.adadetect_scores(scores, calibration, seed=seed)
    if max(levels) * (len(calibration_scores) + 1) < 1:
        return np.zeros((len(levels), len(candidate_scores)), bool)
    return levels_of(candidate_scores, calibration_scores, "bh", levels)


def gaussian(rng, n, m, members, signal, shape, columns=None):
    if columns is None:
        return shape(np.append(rng.normal(signal, 1, members), rng.normal(size=m - members))), shape(rng.normal(size=n))
    scores = rng.normal(size=(m, columns))
    scores[:members, 0] += signal
    return shape(scores), shape(rng.normal(size=(n, columns)))


SHAPES = {
    "continuous": np.asarray,
    "rounded": np.round,
    "two values": np.sign,
    "mostly zero": lambda x: np.where(x < 1.5, 0.0, x),
}
LEVELS = (0.05, 0.1, 0.2, 0.5)
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def cell(rng, n, m, share, shape, runs, learned):
    """False discovery proportions ``[runs, levels]`` of each method."""
    members = round(share * m)
    names = ("adadetect",) if learned else METHODS
    false = {name: np.zeros((runs, len(LEVELS))) for name in names}
    for run in range(runs):
        scores, calibration = gaussian(rng, n, m, members, 2.0, shape, 3 if learned else None)
        for name, fdp in false.items():
            chosen = (
                learn(scores, calibration, LEVELS, run) if learned else levels_of(scores, calibration, name, LEVELS)
            )
            fdp[run] = chosen[:, members:].sum(1) / np.maximum(chosen.sum(1), 1)
    return false


def simulation(quick, learned=False):
    """Of decisions on one score."""
    runs = {(False, False): 2000, (True, False): 60, (False, True): 200, (True, True): 4}[quick, learned]
    rows = []
    for name, shape in SHAPES.items():
        cells = {}
        for n, m, share in itertools.product((20, 100, 1000), (10, 100, 1000), SHARES):
            rng = np.random.default_rng([n, m, round(10 * share)])
            for method, false in cell(rng, n, m, share, shape, runs, learned).items():
                rate, error = false.mean(0), false.std(0, ddof=1) / np.sqrt(runs)
                z = np.where(error > 0, (rate - LEVELS) / np.maximum(error, 1e-12), -np.inf)
                cells.setdefault(method, []).extend(zip(rate / LEVELS, z, strict=True))
        for method, proportions in cells.items():
            ratio, z = np.array(proportions).T
            limit = norm.isf(0.05 / len(z))
            rows.append((method, name, len(z), f"{ratio.max():.3f}", f"{z.max():.2f}", int((z > limit).sum())))
            print(f"  {rows[-1]}", flush=True)
    columns = ("method", "scores", "cells", "worst FDR/level", "worst z", "beyond chance")
    table(f"False discovery rate, {runs} runs a cell; beyond chance: z above Bonferroni's 5 %", columns, rows)


def power(quick):
    rows = []
    for auc, signal in ((0.65, 0.545), (0.80, 1.190), (0.95, 2.326), (0.99, 3.290)):
        for share in (0.3, 0.5, 0.7):
            rng, members = np.random.default_rng(0), round(1000 * share)
            results = {name: [] for name in (*METHODS, "ptdi .1", "adadetect")}
            for run in range(20 if quick else 2000):
                scores, calibration = gaussian(rng, 500, 1000, members, signal, np.asarray, 3)
                for name in (*METHODS, "ptdi .1"):
                    method = PTDI(0.1) if name == "ptdi .1" else name
                    chosen = levels_of(scores[:, 0], calibration[:, 0], method, (0.1,))
                    results[name].append(chosen[0, :members].mean())
                if run < 100:
                    results["adadetect"].append(learn(scores, calibration, (0.1,), run)[0, :members].mean())
            rows.append((auc, share, *(mean(powers) for powers in results.values())))
    columns = ("AUC", "share", *METHODS, "ptdi eta .1", "adadetect")
    table("Power at FDR 0.1, m = 1000, n = 500 (adadetect: not told which of three signals counts)", columns, rows)


def sizes(quick):
    """Power of "ptdi" less that of "storey", averaged over shares of .3, .5 and .7, by the numbers of scores."""
    rows, aucs = [], ((0.80, 1.190), (0.90, 1.812), (0.95, 2.326), (0.99, 3.290))
    for n in (50, 100, 200, 500, 1000):
        for m in (50, 200, 500, 1000):
            gains = []
            for _, signal in aucs:
                rng, powers = np.random.default_rng([n, m]), []
                for run in range(10 if quick else 700):
                    members = round(m * (0.3, 0.5, 0.7)[run % 3])
                    scores, calibration = gaussian(rng, n, m, members, signal, np.asarray)
                    powers.append(
                        [select(scores, calibration, 0.1, name)[:members].mean() for name in ("ptdi", "storey")]
                    )
                gains.append(mean(np.subtract(*np.transpose(powers))))
            rows.append((n, m, *gains))
            print(f"  {rows[-1]}", flush=True)
    table("Power of ptdi less that of storey at FDR 0.1", ("n", "m", *(f"AUC {auc}" for auc, _ in aucs)), rows)


def tofu(runs=("retain90", "retain95")):
    """Fine-tuned models by name, as score columns by split."""
    import polars as pl

    frame = pl.read_parquet(Path(DATA) / "tofu_llama2_phi_scores.parquet").filter(pl.col("trained_on").is_in(runs))
    for key, run in frame.sort("index").group_by("model", "trained_on", "weight_decay", maintain_order=True):
        yield " ".join(map(str, key)), {name: run.filter(pl.col("split") == name) for name in run["split"].unique()}


def draw(rng, members, outsiders, share):
    """Half of the non-members calibrate; the other half and as many members as ``share`` asks for are candidates."""
    shuffled = rng.permutation(outsiders)
    half = len(outsiders) // 2
    nonmembers = shuffled[half:]
    count = min(len(members), round(share / (1 - share) * len(nonmembers)))
    nonmembers = nonmembers[: round(count * (1 - share) / share)] if share else nonmembers
    return np.append(rng.choice(members, count, replace=False), nonmembers), shuffled[:half], count


def real(quick):
    levels, rows = (0.05, 0.1), {0.05: [], 0.1: []}
    worst = {level: [] for level in levels}
    for name, run in tofu(("retain90", "retain95", "retain99")):
        members, nonmembers = -run["retain"]["loss"].to_numpy(), -run["forget"]["loss"].to_numpy()
        for share in (0.0, 0.2, 0.5, 0.8):
            rng = np.random.default_rng(1)
            results = {method: np.zeros((50 if quick else 1000, 2, len(levels))) for method in METHODS}
            for i in range(50 if quick else 1000):
                scores, calibration, count = draw(rng, members, nonmembers, share)
                for method, pairs in results.items():
                    chosen = levels_of(scores, calibration, method, levels)
                    pairs[i] = np.transpose([outcome(row, count) for row in chosen])
            for k, level in enumerate(levels):
                cells = [f"{mean(pairs[:, 0, k])} / {mean(pairs[:, 1, k])}" for pairs in results.values()]
                rows[level].append((name, share, *cells))
                for false in (pairs[:, 0, k] for pairs in results.values()):
                    error = false.std(ddof=1) / np.sqrt(len(false))
                    worst[level].append((false.mean() / level, (false.mean() - level) / error if error else -np.inf))
    for level in levels:
        table(f"TOFU, loss, FDR / power at level {level}", ("run", "share", *METHODS), rows[level])
        ratio, z = np.array(worst[level]).T
        beyond = int((z > norm.isf(0.05 / len(z))).sum())
        print(f"{len(z)} cells: largest FDR / level {ratio.max():.3f}, largest z {z.max():.2f}, beyond chance {beyond}")


def step_up(p, level):
    passing = np.flatnonzero(np.sort(p) <= level * np.arange(1, len(p) + 1) / len(p))
    return p <= np.sort(p)[passing[-1]] if passing.size else np.zeros(len(p), bool)


def ties(t, s):
    return (1 + (s[None] > t[:, None]).sum(1)) / (len(s) + 1)


def no_one(t, s):
    return (s[None] >= t[:, None]).mean(1)


def no_ones(t, s):
    low = np.sort(s)[max(int(0.05 * len(s)), 1) - 1]
    return min((t <= low).mean() / (s <= low).mean(), 1) * (1 + (s[None] >= t[:, None]).sum(1)) / (len(s) + 1)


def traps(quick):
    runs, rows = 200 if quick else 2000, []
    cells = (
        ("strict > on three values", ties, 50, 100, lambda x: np.sign(np.round(x))),
        ("no +1", no_one, 50, 100, np.asarray),
        ("ptdi without its +1s, at most 1", no_ones, 100, 10, np.asarray),
    )
    for name, p_of, n, m, shape in cells:
        rng = np.random.default_rng(2)
        wrong, right = [], []
        for _ in range(runs):
            scores, calibration = gaussian(rng, n, m, 0, 0.0, shape)
            wrong.append(step_up(p_of(scores, calibration), 0.1).any())
            right.append(select(scores, calibration, 0.1, "ptdi" if "ptdi" in name else "bh").any())
        rows.append((name, mean(wrong), mean(right)))
    table("Traps: FDR at level 0.1, no member at all", ("trap", "trap's FDR", "ours"), rows)

    rows = []
    for shift in (0.0, 0.1, 0.25, 0.5, 1.0):
        rng, fired = np.random.default_rng(3), {"exchangeability": 0, "low scores": 0}
        results = {method: [] for method in METHODS}
        for _ in range(runs):
            scores = np.append(rng.normal(2, 1, 300), rng.normal(shift, 1, 700))
            calibration = rng.normal(size=500)
            for method, false in results.items():
                false.append(outcome(select(scores, calibration, 0.1, method), 300)[0])
            fired["exchangeability"] += not controls.exchangeability(calibration, rng.normal(shift, 1, 200)).passed
            fired["low scores"] += not controls.low_scores(calibration, scores).passed
        share = [f"{count / runs:.3f}" for count in fired.values()]
        rows.append((shift, *(mean(false) for false in results.values()), *share))
    columns = ("shift", *METHODS, *(f"{name} fires" for name in fired))
    table("Shift of the non-members, in sd: FDR at level 0.1, and how often controls fire", columns, rows)
    if DATA:
        real_traps(quick)


def real_traps(quick):
    rows = []
    for name, run in tofu():
        nonmembers = np.column_stack([-run["forget"]["loss"].to_numpy(), -run["forget"]["paraphrase_loss"].to_numpy()])
        favoured = (nonmembers[:, 0] > nonmembers[:, 1]).mean()
        moved = controls.exchangeability(-run["world_fact"]["loss"].to_numpy(), nonmembers[:, 0])
        rows.append((name, f"{favoured:.3f}", f"{moved.p_value:.1e}"))
    columns = (
        "run",
        "nulls that favour the original",
        "p, other calibration",
    )
    table("TOFU: paraphrases, and world facts as calibration", columns, rows)

    import gzip
    import json

    with gzip.open(Path(DATA) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line) for line in lines]
    rows = []
    for name in ("gutenberg", "multi_web", "laion_mi"):
        sides = [[row["text"] for row in texts if row["set"] == name and row["member"] == side] for side in (0, 1)]
        result, sound = controls.blind_text(*sides), controls.blind_text(sides[0][::2], sides[0][1::2])
        rows.append((name, result.auc, result.passed, sound.auc, sound.passed))
    table("Blind text control", ("set", "AUC", "passed", "AUC within non-members", "passed"), rows)


def usage_error(quick):
    """Mean error of the share; an auditor with a twin run knows the scores of 150 members there, none a candidate."""
    for column in ("loss", "zlib", "paraphrase_loss"):
        rows = []
        runs = list(tofu(("retain90",)))
        for (name, run), (_, twin) in zip(runs, [runs[1], runs[0], runs[3], runs[2]], strict=True):
            members, outsiders = -run["retain"][column].to_numpy(), -run["forget"][column].to_numpy()
            twin_members, unseen = -twin["retain"][column].to_numpy(), -twin["forget"][column].to_numpy()
            rng, error, covered = np.random.default_rng(6), {}, {}
            for _ in range(20 if quick else 300):
                for share in (0.0, 0.2, 0.5, 0.8):
                    nonmember_order, member_order = rng.permutation(len(outsiders)), rng.permutation(len(members))
                    calibration, nonmembers = (
                        nonmember_order[: len(nonmember_order) // 2],
                        nonmember_order[len(nonmember_order) // 2 :],
                    )
                    chosen, taught = member_order[: len(member_order) // 2], member_order[len(member_order) // 2 :]
                    count = round(share / (1 - share) * len(nonmembers)) if share < 0.5 else len(chosen)
                    kept_nonmembers = nonmembers[: round(count * (1 - share) / share)] if share else nonmembers
                    scores = np.append(members[chosen[:count]], outsiders[kept_nonmembers])
                    counts, true = Counts.empty(outsiders[calibration]).add(scores), count / len(scores)
                    estimates = {
                        "unseen only": usage.share(counts),
                        "with members": usage.share(counts, twin_members[taught]),
                    }
                    for method, estimate in estimates.items():
                        error.setdefault(method, []).append(abs(estimate.value - true))
                        covered.setdefault(method, []).append(estimate.low <= true <= estimate.high)
                    values = duci(scores, twin_members[taught], unseen[calibration])
                    error.setdefault("DUCI", []).append(abs(values - true))
                    # Without a twin it has no rate of members: as if all of them stood above the best tenth.
                    threshold = np.quantile(outsiders[calibration], 0.9)
                    rate = (outsiders[calibration] > threshold).mean()
                    blind = np.clip(((scores > threshold).mean() - rate) / (1 - rate), 0, 1)
                    error.setdefault("DUCI, no twin", []).append(abs(blind - true))
            rows.append((name, *(mean(error[k]) for k in ERRORS), *(f"{np.mean(v):.3f}" for v in covered.values())))
        columns = ("run", "ours, unseen only", "DUCI, no twin", "ours, twin", "DUCI, twin", "holds", "holds, twin")
        table(f"Share of members from {column}: mean absolute error, and how often our interval holds", columns, rows)


def coverage(quick):
    """How often intervals for the share hold it, with known members and without, by numbers of scores."""
    runs, rows = 10 if quick else 1000, []
    cells = list(itertools.product((0.0, 0.5, 1.2, 2.3, 4.0), (0.0, 0.1, 0.5, 0.8, 1.0), SHAPES.values()))
    for k, n, m in ((5, 5, 5), (5, 100, 100), (5, 2000, 2000), (60, 500, 1000), (60, 5000, 5000), (5000, 20, 500)):
        rng = np.random.default_rng([k, n, m])
        taught, without_members = np.transpose([held(rng, k, n, m, *cell_settings, runs) for cell_settings in cells])
        figures = (taught.mean(), taught.min(), without_members.mean(), without_members.min())
        rows.append((k, n, m, len(cells), *(f"{figure:.3f}" for figure in figures)))
        print(f"  {rows[-1]}", flush=True)
    columns = ("known members", "n", "m", "cells", "mean", "worst", "mean, low end without", "worst")
    table(f"Share of members: how often the interval holds it, {runs} runs a cell", columns, rows)


def held(rng, k, n, m, signal, share, shape, runs):
    """How often the interval with known members, and the low end without, hold the share."""
    members, covered = round(m * share), []
    for _ in range(runs):
        scores, calibration = gaussian(rng, n, m, members, signal, shape)
        counts = Counts.empty(calibration).add(scores)
        taught = usage.mixture(counts, shape(rng.normal(signal, 1, k)))
        covered.append((taught.low <= members / m <= taught.high, usage.share(counts).low <= members / m))
    return np.mean(covered, axis=0)


ERRORS = ("unseen only", "DUCI, no twin", "with members", "DUCI")


def duci(scores, members, nonmembers):
    """Tong et al. 2025: the share above the twin's best cut, corrected by the twin's rates there."""
    cuts = np.sort(np.append(members, nonmembers))
    gap = [(members > threshold).mean() - (nonmembers > threshold).mean() for threshold in cuts]
    threshold = cuts[int(np.argmax(gap))]
    false = (nonmembers > threshold).mean()
    return np.clip(((scores > threshold).mean() - false) / ((members > threshold).mean() - false), 0, 1)


PARTS = {
    "simulation": simulation,
    "learned": partial(simulation, learned=True),
    "power": power,
    "sizes": sizes,
    "real": real,
    "traps": traps,
    "usage": usage_error,
    "coverage": coverage,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name in options.parts:
        if name in ("real", "usage") and not DATA:
            print(f"\n{name}: left out, DIVULGE_DATA names no folder")
            continue
        start = time.perf_counter()
        PARTS[name](options.quick)
        print(f"[{name}: {time.perf_counter() - start:.0f} s]")


if __name__ == "__main__":
    main()
