"""Speed and memory of the reference-based attacks beside the forms they replace.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/attacks.py [--quick]

Prints CPU seconds of one thread (the best of several runs, in turns with what they are compared with, so that other
work on the machine meets all alike), ratios from this one run, peak extra memory, and whether the fast form gives the
numbers of the slow one.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from divulge.attacks import BASE, RMIA, BaVarIA, LiRA, lira, rmia
from divulge.types import Evidence


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    name: str
    seconds: float
    peak: float
    ratio: float
    note: str = ""


def timed(calls: dict[str, tuple[Callable[[], Any], int]]) -> dict[str, float]:
    best = dict.fromkeys(calls, np.inf)
    for turn in range(max(runs for _, runs in calls.values())):
        for name, (call, runs) in calls.items():
            if turn < runs:
                start = time.process_time()
                call()
                best[name] = min(best[name], time.process_time() - start)
    return best


def peak_mb(call: Callable[[], Any]) -> float:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def table(title: str, base: str, rows: list[Row]) -> None:
    print(f"\n{title}\n{'':34}{'seconds':>10}{'× ' + base:>22}{'peak MB':>10}  ")
    for row in rows:
        print(f"{row.name:34}{row.seconds:10.4f}{row.ratio:22.2f}{row.peak:10.1f}  {row.note}")


def compare(title: str, base: str, cases: dict[str, tuple[Callable[[], Any], int, str]]) -> None:
    """One row a case; the first is what the others are compared with."""
    best = timed({name: (call, runs) for name, (call, runs, _) in cases.items()})
    baseline_time = next(iter(best.values()))
    rows = [
        Row(name, best[name], peak_mb(call), best[name] / baseline_time, note)
        for name, (call, _, note) in cases.items()
    ]
    table(title, base, rows)


def masked_sums(references, trained_on):
    out = (~trained_on).astype(float)
    return out.sum(0), (out * references).sum(0), (out * references * references).sum(0)


def lira_loop(evidence):
    """One fitted Gaussian a record, the way audit tools commonly write it."""
    scores = np.empty(len(evidence))
    for j, target in enumerate(evidence.target):
        out = evidence.references[~evidence.trained_on[:, j], j]
        scores[j] = -stats.norm.logsf(target, out.mean(), out.std(ddof=1) + 1e-30)
    return scores


def bench_lira(n: int, m: int) -> None:
    rng = np.random.default_rng(0)
    evidence = Evidence(rng.normal(size=n), rng.normal(size=(m, n)), rng.random((m, n)) < 0.5)
    single = Evidence(evidence.target, evidence.references.astype(np.float32), evidence.trained_on)
    part = min(n, 2000)
    small_evidence = Evidence(evidence.target[:part], evidence.references[:, :part], evidence.trained_on[:, :part])
    same = stats.spearmanr(lira_loop(small_evidence), LiRA(variance="per_record").score(small_evidence)).statistic
    cases = {
        "bare masked sums": (lambda: masked_sums(evidence.references, evidence.trained_on), 25, ""),
        "LiRA offline, global": (lambda: LiRA().score(evidence), 25, ""),
        "LiRA offline, per record": (lambda: LiRA(variance="per_record").score(evidence), 25, ""),
        "LiRA offline, global, float32": (lambda: LiRA().score(single), 25, ""),
        "LiRA online, per record": (lambda: LiRA("online", "per_record").score(evidence), 25, ""),
        "scipy.stats loop over records": (lambda: lira_loop(evidence), 1, f"same ranks: rho = {same:.6f}"),
    }
    compare(f"LiRA, {n:,} records × {m} references", "bare masked sums", cases)


def bench_few_references(n: int, m: int) -> None:
    rng = np.random.default_rng(3)
    signals = -np.abs(rng.normal(size=(m + 1, n)))
    nobody, half = np.zeros((m, n), bool), rng.random((m, n)) < 0.5
    for mode, inside in (("offline", nobody), ("online", half)):
        evidence = Evidence(signals[0], signals[1:], inside)
        cases = {
            f"{type(attack).__name__} {mode}": (lambda attack=attack, given=evidence: attack.score(given), 25, "")
            for attack in (LiRA(mode), BaVarIA(mode), BASE(mode))
        }
        compare(f"BaVarIA and BASE, {n:,} records × {m} references, {mode}", "LiRA", cases)


def rmia_matrix(ratio, population, gamma):
    return (ratio[:, None] / population[None, :] >= gamma).mean(axis=1)


def bench_rmia(n: int, m: int, z: int) -> None:
    rng = np.random.default_rng(1)
    evidence = Evidence(rng.random(n), rng.random((m, n)), rng.random((m, n)) < 0.5, rng.random(z), rng.random((m, z)))
    ratio, population = rng.exponential(size=n), rng.exponential(size=z)

    def bare():
        return np.searchsorted(np.sort(2.0 * population), ratio, side="right") / z

    equal = np.array_equal(rmia_matrix(ratio, population, 2.0), rmia.dominated_share(ratio, population, 2.0))
    cases = {
        "bare sort and look-up": (bare, 25, ""),
        "rmia.dominated_share": (lambda: rmia.dominated_share(ratio, population, 2.0), 25, ""),
        "N × Z matrix": (lambda: rmia_matrix(ratio, population, 2.0), 1, f"equal scores: {equal}"),
        "RMIA whole (checks, means, look-up)": (lambda: RMIA().score(evidence), 25, ""),
    }
    compare(f"RMIA, {n:,} records × {m} references, {z:,} population", "bare sort and look-up", cases)


def bench_leave_one_out(n: int, m: int) -> None:
    rng = np.random.default_rng(2)
    signals, trained_on = rng.normal(size=(m, n)), rng.random((m, n)) < 0.5

    def loop(mode, variance):
        rows = []
        for i in range(m):
            remaining = Evidence(signals[i], np.delete(signals, i, axis=0), np.delete(trained_on, i, axis=0))
            rows.append(LiRA(mode, variance).score(remaining))
        return np.array(rows)

    for mode, variance in (("offline", "global"), ("online", "per_record")):

        def fast(mode=mode, variance=variance):
            return lira.leave_one_out(signals, trained_on, mode=mode, variance=variance)

        def slow(mode=mode, variance=variance):
            return loop(mode, variance)

        largest_gap = np.abs(fast() - slow()).max()
        cases = {
            "leave_one_out": (fast, 3, ""),
            "LiRA.score, once a target": (slow, 1, f"largest difference {largest_gap:.1e}"),
        }
        compare(f"All-targets LiRA {mode}, {variance}: {n:,} records × {m} models", "leave_one_out", cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    size = 10 if parser.parse_args().quick else 1
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    bench_lira(50_000 // size, 64)
    bench_few_references(50_000 // size, 64)
    bench_rmia(50_000 // size, 64, 10_000 // size)
    bench_leave_one_out(50_000 // size, 64)


if __name__ == "__main__":
    main()
