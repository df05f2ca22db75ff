"""Label-only signals: queries against AUC, and the batched search against one record after the other.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/label_only.py [--speed]

MLPs with 128 hidden units that fit their training records; 500 members and 500 others, three seeds. ``--speed``: the
search alone, in CPU seconds of one thread, in turns with the loop, the best of three.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge.attacks import Residual, Threshold
from divulge.evidence import signals_from_logits
from divulge.references import Train
from divulge.signals import BoundaryDistance, NoiseRobustness
from divulge.signals.boundary import _BoundarySearch, _nearest_other_class, _plan_rounds, _ScaledRecords
from divulge.targets import Metered, TorchTarget
from partial_cases import adult, fashion

N, SEEDS = 500, 3
CASES = {"Adult": (adult, 1000), "Fashion-MNIST, 14 x 14": (fashion, 1500)}
BUDGETS = (50, 250, 1000)


def case(load, trained, seed):
    """A target, members and as many others, and who is a member."""
    x, y = load()
    x, classes = x.reshape(len(x), -1).astype(np.float32), int(y.max()) + 1
    order = np.random.default_rng(seed).permutation(len(x))
    training_rows, nonmember_rows = order[:trained], order[trained : trained + N]

    def make():
        return nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, classes))

    train = Train(make, count=1, epochs=60, optimizer="adam", batch_size=32)
    target = TorchTarget(
        train.train_model(dv.Records(x[training_rows], y[training_rows]), seed=seed, classes=classes), device="cpu"
    )
    rows = np.r_[training_rows[:N], nonmember_rows]
    return target, dv.Records(x[rows], y[rows]), np.arange(2 * N) < N


def one_by_one(signal, plane, nearest, rows_searched, records, rows):
    """The same search for one record after the other, from the same starts."""
    rng = np.random.default_rng(0)
    for k in range(rows):
        search = _BoundarySearch(plane, plane.points[rows_searched[k : k + 1]], records.y[rows_searched[k : k + 1]])
        beyond = search.halved(plane.points[nearest[k : k + 1]])
        for number, directions in enumerate(_plan_rounds(signal.queries - 9), start=1):
            beyond = search.closer(beyond, directions, number, rng)


def speed(name, target, records, rows=20):
    """All records at once beside one after the other, which is timed on some of them."""
    plane = _ScaledRecords.from_records(target, records)
    nearest, rows_searched = _nearest_other_class(plane.points, plane.labels(plane.points), records.y)
    for queries in (50, 250, 1000):
        signal, best = BoundaryDistance(queries=queries), [np.inf, np.inf]
        work = (
            lambda signal=signal: signal.measure(target, records),
            lambda signal=signal: one_by_one(signal, plane, nearest, rows_searched, records, rows),
        )
        for _ in range(3):
            for index, call in enumerate(work):
                began = time.process_time()
                call()
                best[index] = min(best[index], time.process_time() - began)
        batched, one_by_one_seconds = (
            best[0],
            best[1] * len(rows_searched) / rows,
        )  # of records told wrong there is nothing to search
        print(
            f"{name}, {len(records)} records, at most {queries} queries: batched {batched:.2f} s, one by one "
            f"{one_by_one_seconds:.2f} s, {one_by_one_seconds / batched:.1f} x"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", action="store_true")
    torch.set_num_threads(1)
    if parser.parse_args().speed:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for name, (load, trained) in CASES.items():
            speed(name, *case(load, trained, 0)[:2])
        return
    for name, (load, trained) in CASES.items():
        rows: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(SEEDS):
            target, records, member = case(load, trained, seed)

            def add(row_name, scores, queries, seconds, member=member, records=records, rows=rows):
                auc = dv.evaluation.auc(scores, member).value
                rows.setdefault(row_name, []).append((auc, queries / len(records), seconds))
                residual = Residual(Threshold()).score(dv.Evidence(scores, features=records.x, labels=records.y))
                rows.setdefault(f"{row_name}, residual", []).append((dv.evaluation.auc(residual, member).value, 0, 0))

            logits = target.logits(records)
            add(
                "LOSS (not label-only)",
                signals_from_logits(logits, records.y, ("negative-loss",))[:, 0],
                len(records),
                0.0,
            )
            add("right or wrong", (logits.argmax(axis=1) == records.y).astype(float), len(records), 0.0)
            for budget in BUDGETS:
                for signal in (BoundaryDistance(queries=budget), NoiseRobustness(queries=budget)):
                    meter, began = Metered(target), time.perf_counter()
                    scores = signal.measure(meter, records)
                    add(f"{signal.name} {budget}", scores, meter.queries, time.perf_counter() - began)
        print(f"\n{name}\n{'':38}{'AUC':>22}{'queries a record':>18}{'seconds':>9}")
        for row_name, values in rows.items():
            auc, queries, seconds = np.array(values).T
            spread = f"[{auc.min():.3f}, {auc.max():.3f}]"
            print(f"{row_name:38}{auc.mean():8.3f} {spread}{queries.mean():16.0f}{seconds.mean():9.1f}")
        speed(name, target, records)


if __name__ == "__main__":
    main()
