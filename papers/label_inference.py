"""Queries for 100 % recovery, beside the paper's codes, the positional code and the entropy limit.

    DIVULGE_DATA=… python papers/label_inference.py [--quick]

Every cell of "ours" is the plan's query count, followed by the number of seeds (of 20; --quick: 2) in which every
label was right under worst-case ±τ noise (each seed draws the signs anew and puts the rows in another order). Titanic
and satimage come from DIVULGE_DATA, Iris from scikit-learn. The limit is entropy over the most one answer can say,
`labels.capacity` with class frequencies.
The paper's own experiments are in label_figures.py.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import tracemalloc

import numpy as np

from divulge import labels
from divulge.labels.oracles import compute_score
from label_data import data

METHODS = ("theorem3", "theorem14", "positional", "weighing", "auto")


BOARD = {"clip": 1e-15, "decimals": 5}
CASES = [
    ("Titanic, scikit-learn, 0", "Titanic", {}, 48),
    ("Titanic, scikit-learn, 1e-6", "Titanic", {"noise": 1e-6}, 135),
    ("Titanic, scikit-learn, 1e-4", "Titanic", {"noise": 1e-4}, 217),
    ("Titanic, scikit-learn, 1e-3", "Titanic", {"noise": 1e-3}, 283),
    ("Titanic, leaderboard", "Titanic", BOARD, 156),
    ("Titanic, raw, 1e-2", "Titanic", {"clip": None, "noise": 1e-2}, 256),
    ("Titanic, raw, 0.1", "Titanic", {"clip": None, "noise": 0.1}, 480),
    ("Iris, scikit-learn, 1e-4", "Iris", {"noise": 1e-4}, 20),
    ("Iris, scikit-learn, 1e-2", "Iris", {"noise": 1e-2}, 44),
    ("Iris, leaderboard", "Iris", BOARD, 16),
    ("Satimage, scikit-learn, 0", "Satimage", {}, 378),
    ("Satimage, scikit-learn, 1e-4", "Satimage", {"noise": 1e-4}, 2048),
    ("Satimage, leaderboard", "Satimage", BOARD, 1356),
    ("competition, leaderboard", "competition", BOARD, 13),
    ("Titanic, MSE exact", "Titanic", {"metric": "mse"}, 47),
    ("Titanic, MSE 5 decimals", "Titanic", {"metric": "mse", "decimals": 5}, 82),
    ("Titanic, MSE 3 decimals", "Titanic", {"metric": "mse", "decimals": 3}, 89),
    ("Titanic, accuracy", "Titanic", {"metric": "accuracy"}, 512),
    ("Titanic, F1", "Titanic", {"metric": "f1"}, 512),
    ("Titanic, AUC", "Titanic", {"metric": "auc"}, 324),
]
for _dtype, _reach in (("float64", (43, 5, 322)), ("float32", (96, 11, 804))):
    for (_name, _want), _noise in (
        (pair, noise) for pair in zip(("Titanic", "Iris", "Satimage"), _reach, strict=True) for noise in (0.0, 1e6)
    ):
        _options = {"metric": "softmax_cross_entropy", "float_dtype": _dtype, "noise": _noise}
        CASES.append((f"{_name}, cross-entropy {_dtype}, {_noise:g}", _name, _options, _want))
GAUSSIAN = [(1e-4, None, 256), (1e-3, None, 480), (1e-2, 1000, 1000), (0.1, 1760, 1760), (0.1, None, None)]


def seeds_right(spec: labels.OracleSpec, y: np.ndarray, plan: labels.QueryPlan, seeds: int) -> tuple[int, int, float]:
    """Seeds with every label right, labels ever certain and wrong, mean wrong labels; seeds shuffle the rows."""
    orders = [np.random.default_rng(seed).permutation(y) if seed else y for seed in range(seeds)]
    exact = np.array([[compute_score(spec, truth, query) for truth in orders] for query in plan.queries]).T
    right = bad = 0
    wrong = 0.0
    for seed, (truth, answers) in enumerate(zip(orders, exact, strict=True)):
        rng = np.random.default_rng(seed)
        noise = (
            rng.normal(0, spec.noise, len(answers))
            if spec.noise_kind == "gaussian"
            else (rng.choice([-spec.noise, spec.noise], len(answers)))
        )
        noisy = answers + noise
        noisy = noisy if spec.decimals is None else np.array([round(a, spec.decimals) for a in noisy])
        result = labels.read(plan, noisy)
        off = result.labels != truth
        right += not off.any()
        bad += int((off & result.certain).sum())
        wrong += off.mean() * len(y) / seeds
    return right, bad, wrong


def entropy_limit(spec: labels.OracleSpec, y: np.ndarray) -> int:
    share = np.bincount(y) / len(y)
    bits = -len(y) * float((share * np.log2(share)).sum())
    return math.ceil(bits / labels.capacity(spec).bits_per_query - 1e-9)


def table(cases: list, sets: dict[str, np.ndarray], seeds: int) -> None:
    heads = ("thm 3", "thm 14", "posit.", "weigh.", "auto", "reach", "limit")
    print(" " * 38 + "".join(f"{head:>7s}" for head in heads) + "  seeds right", flush=True)
    for name, key, options, reach in cases:
        y = sets[key]
        spec = labels.OracleSpec(n=len(y), classes=int(y.max()) + 1, **options)
        started = time.perf_counter()
        counts = []
        for method in METHODS:
            try:
                plan = labels.design(spec, method)
                counts.append(str(plan.count))
            except ValueError:
                counts.append("-")
        right, bad, _ = seeds_right(spec, y, plan, seeds)
        cells = "".join(f"{cell:>7s}" for cell in counts)
        certified = "certified" if plan.certificate.certified else "not certified"
        spent = time.perf_counter() - started
        print(
            f"{name:38s}{cells}{reach:7d}{entropy_limit(spec, y):7d}  {right}/{seeds}, certain and wrong {bad}, "
            f"{certified}, {spent:.0f} s",
            flush=True,
        )


def gaussian(y: np.ndarray, seeds: int) -> None:
    print("\nGaussian noise (Titanic, scikit-learn): sigma, queries, reach, seeds right, mean wrong, limit of a genie")
    for sigma, queries, reach in GAUSSIAN:
        spec = labels.OracleSpec(n=len(y), noise=sigma, noise_kind="gaussian")
        plan = labels.design(spec, queries=queries)
        right, bad, wrong = seeds_right(spec, y, plan, seeds)
        odds = math.sqrt(plan.count) * spec.loss().span / (2 * spec.n * sigma)
        genie = len(y) * 0.5 * math.erfc(odds / math.sqrt(2))
        print(
            f"{sigma:8g}{plan.count:7d}{reach or '-':>7}  {right}/{seeds}  {wrong:.3f} wrong on average "
            f"(told all others: {genie:.3g}), certain and wrong {bad}",
            flush=True,
        )


SPLITS = [
    ("scikit-learn, 0", {}),
    ("scikit-learn, 1e-4", {"noise": 1e-4}),
    ("leaderboard", BOARD),
    ("accuracy", {"metric": "accuracy"}),
    ("MSE, 5 decimals", {"metric": "mse", "decimals": 5}),
]


def splits(y: np.ndarray, seeds: int) -> None:
    """A hidden 30 % of Titanic is scored: which rows, and their labels."""
    print(
        "\nHidden split (Titanic, 30 % scored): queries, limit, seeds with every row right, proven, certain and wrong"
    )
    for name, options in SPLITS:
        for size_known in (True, False):
            right = proven = bad = 0
            for seed in range(seeds):
                scored = np.random.default_rng(seed).permutation(len(y)) < round(0.3 * len(y))
                size = int(scored.sum()) if size_known else "unknown"
                spec = labels.OracleSpec(n=len(y), scored=size, **options)
                plan = labels.design(spec)
                simulation = labels.simulate(spec, y, plan, seed=seed, scored=scored)
                right += simulation.accuracy == 1
                proven += bool(simulation.inference.proven.all())
                bad += simulation.certain_and_wrong
            size_text = "known" if size_known else "unknown"
            print(
                f"{name:20s} size {size_text:8s}{plan.count:6d}{labels.capacity(spec).queries:6d}  "
                f"{right}/{seeds} right, {proven}/{seeds} all proven, certain and wrong {bad}",
                flush=True,
            )


MILLION = [
    ("noise 1e-9, positional", {"noise": 1e-9}, "positional", None),
    ("noise 1e-9, weighing k = 8", {"noise": 1e-9}, "weighing", 8),
    ("noise 1e-9, best", {"noise": 1e-9}, "auto", None),
    ("noiseless, best", {}, "auto", None),
    ("10 classes, noise 1e-9, best", {"classes": 10, "noise": 1e-9}, "auto", None),
    ("8 decimals, one column, best", {"decimals": 8, "submission": "positive"}, "auto", None),
    ("MSE, best", {"metric": "mse"}, "auto", None),
    ("cross-entropy, best", {"metric": "softmax_cross_entropy"}, "auto", None),
    ("accuracy", {"metric": "accuracy"}, "auto", None),
    ("AUC", {"metric": "auc"}, "auto", None),
    ("hidden split of unknown size", {"noise": 1e-9, "scored": "unknown"}, "auto", None),
]


def speed() -> None:
    print("\nDesign for 10^6 labels (bound: 2 s)")
    for name, options, method, block in MILLION:
        started = time.perf_counter()
        plan = labels.design(labels.OracleSpec(n=1_000_000, **options), method, block=block)
        print(f"{name:32s}{time.perf_counter() - started:6.2f} s {plan.count:8d} queries", flush=True)
    print("\nDesign with its certificate for 2201 labels (bound: 1 s)")
    for method in ("positional", "weighing", "auto"):
        for options in ({}, {"noise": 1e-4}, {"clip": 1e-15, "decimals": 5}):
            started = time.perf_counter()
            plan = labels.design(labels.OracleSpec(n=2201, **options), method)
            spent = time.perf_counter() - started
            print(f"{method:12s}{options!s:36s}{spent:6.2f} s  {plan.certificate}", flush=True)
    print("\nDecoding 10^6 labels")
    decoding("positional", None, "50 ms")
    decoding("weighing", 8, "5 s, no array of 200 MB")


def decoding(method: str, block: int | None, bound: str) -> None:
    """Time and peak memory from integer sums to labels, and from answers to labels with their certainty."""
    plan = labels.design(labels.OracleSpec(n=1_000_000, noise=1e-9), method, block=block)
    part = plan.inner.digit_plans[0]
    rng = np.random.default_rng(0)
    sums, truth = [], []
    for shape, repeats in zip(part.code.shapes, part.code.repeats, strict=True):
        labelling = rng.integers(0, 2, (repeats, shape.capacity))
        labelling.ravel()[max(0, part.code.n - sum(len(t) for t in truth)) :] = 0
        weights = np.stack([shape.weights(q, shape.capacity) for q in range(shape.count)])
        sums.append((labelling @ weights.T).ravel())
        truth.append(labelling.ravel())
    y, total = np.concatenate(truth)[: part.code.n], np.concatenate(sums)
    answers = np.asarray((part.base + total * np.longdouble(part.unit)) / part.code.n, dtype=float)
    for step_name, run in (
        ("sums to labels", lambda: part.code.decode(total)[0]),
        ("answers", lambda: read(plan, answers)),
    ):
        spent = []
        for _ in range(5):
            started = time.perf_counter()
            result = run()
            spent.append(time.perf_counter() - started)
        assert (result == y).all()
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(
            f"{method}, {step_name}: {1e3 * min(spent):.0f} ms (of 5 runs; bound {bound}), peak {peak:.0f} MB",
            flush=True,
        )


def read(plan: labels.QueryPlan, answers: np.ndarray) -> np.ndarray:
    return labels.read(plan, answers).labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="2 seeds, without the largest tables")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--speed", action="store_true", help="the speed section alone")
    options = parser.parse_args()
    if "DIVULGE_DATA" not in os.environ:
        sys.exit("needs the data folder in DIVULGE_DATA")
    if options.speed:
        speed()
        return
    sets = data()
    seeds = 2 if options.quick else 20
    cases = [case for case in CASES if options.only in case[0] and not (options.quick and case[1] == "Satimage")]
    table(cases, sets, seeds)
    if not options.only:
        gaussian(sets["Titanic"], 3 if options.quick else 20)
        splits(sets["Titanic"], seeds)
        speed()


if __name__ == "__main__":
    main()
