"""The figures of Aggarwal et al. (2021), run with the paper's own codes and exhaustive decoding, beside its claims.

    DIVULGE_DATA=… python benchmarks/label_figures.py [--quick]

The codes stand here literally (Theorem 14 for two classes, Theorem 3 for more, both repaired: Nτ in the exponent and
k = 1..K); every labelling of a block is tried and the nearest answer taken. Noise is ±τ, signs drawn anew each run.
Figure 1: one query, growing N, by precision; Figure 2: many queries, two classes; Figure 3: many queries, more classes.
Sizes and noise levels are ours, chosen so that each code is shown on both sides of its reach.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np

from divulge import labels
from label_data import data

MOST = 4096  # labellings tried per block


def code(rows: int, classes: int, strength: float) -> np.ndarray:
    """Probabilities of the paper's code, ``[rows, classes]``; ``strength``: how many rows the mean has, times τ."""
    n = np.arange(rows)[:, None]
    powers = 2.0 ** (n + 1) * np.arange(2) if classes == 2 else 2.0 ** (n * classes + np.arange(1, classes + 1))
    logits = np.minimum(math.log(3) * strength * powers, 1e300)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def exhaustive(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of losses of all labellings, ascending, and the labellings."""
    n, classes = table.shape
    every = np.array(list(itertools.product(range(classes), repeat=n)))
    sums = table[np.arange(n), every].sum(axis=1)
    order = np.argsort(sums)
    return sums[order], every[order]


def nearest(sums: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Index of the sum nearest to each value."""
    right = np.searchsorted(sums, values).clip(1, max(len(sums) - 1, 1))
    left = right - 1
    right = right.clip(max=len(sums) - 1)
    return np.where(values - sums[left] <= sums[right] - values, left, right)


def recovered(rows: np.ndarray, spec: labels.OracleSpec, tau: float, runs: int) -> tuple[float, float]:
    """Share of runs with every label right, and mean share of labels right, from one query."""
    table = spec.loss().table(rows)
    sums, every = exhaustive(table)
    whole, right = 0, 0.0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, spec.classes, spec.n)
        answer = table[np.arange(spec.n), y].mean() + tau * rng.choice([-1, 1])
        found = every[nearest(sums, np.array([answer * spec.n]))[0]]
        whole += bool((found == y).all())
        right += float((found == y).mean())
    return whole / runs, right / runs


def reach(classes: int, tau: float, span: float) -> int:
    """Largest n whose code fits into the oracle's range (its largest log odds below the span)."""
    n = 0
    while math.log(3) * (n + 1) * tau * 2.0 ** ((n + 1) * (1 if classes == 2 else classes)) <= span:
        n += 1
    return n


def figure_1(runs: int) -> None:
    """One query, two classes: all labels right until the range of the floats is used up."""
    for panel, dtype in zip("abc", ("float64", "float32", "float16"), strict=True):
        taus = (1e-3, 1e-2, 1e-1, 1.0)
        span = labels.OracleSpec(n=1, clip=dtype, float_dtype=dtype).loss().span
        print(
            f"\nFigure 1 ({panel}): one query, K = 2, {dtype} (R = {span:.2f}); runs with all labels right, % of {runs}"
        )
        print("   N  " + "".join(f"τ = {tau:<8g}" for tau in taus) + "random vector: runs, labels right")
        for n in range(1, 13):
            spec = labels.OracleSpec(n=n, clip=dtype, float_dtype=dtype)
            cells = [recovered(code(n, 2, n * tau).astype(dtype), spec, tau, runs)[0] for tau in taus]
            theta = np.random.default_rng(n).uniform(0.05, 0.95, n)
            chance = recovered(np.stack([1 - theta, theta], 1).astype(dtype), spec, 0.01, runs)
            print(f"{n:4d}  " + "".join(f"{100 * cell:<12.0f}" for cell in cells) + f"{chance[0]:.0%}, {chance[1]:.2f}")
        print("fits  " + "".join(f"N = {reach(2, tau, span):<8d}" for tau in taus), flush=True)


def blocks(y: np.ndarray, classes: int, m: int, tau: float, whole: bool, runs: int) -> float:
    """Mean share of labels right when every query asks m rows and the oracle averages over them, or over all."""
    scored = len(y) if whole else m
    spec = labels.OracleSpec(n=m, classes=classes)
    table = spec.loss().table(code(m, classes, scored * tau))
    sums, every = exhaustive(table)
    padded = np.append(y, np.zeros(-len(y) % m, dtype=np.int64)).reshape(-1, m)
    exact = table[np.arange(m), padded].sum(axis=1)
    right = 0.0
    for seed in range(runs):
        noise = scored * tau * np.random.default_rng(seed).choice([-1, 1], len(exact))
        right += float((every[nearest(sums, exact + noise)].ravel()[: len(y)] == y).mean())
    return right / runs


def multi(title: str, y: np.ndarray, classes: int, cases: list[tuple[float, tuple[int, ...]]], runs: int) -> None:
    print(f"\n{title}: labels right, % (mean of {runs} runs)")
    print("      τ   rows per query  queries  mean over these rows (the paper's)  mean over all rows (an endpoint's)")
    for tau, sizes in cases:
        for m in sizes:
            own, whole = (100 * blocks(y, classes, m, tau, over_all, runs) for over_all in (False, True))
            print(f"{tau:7g}   {m:12d}  {-(-len(y) // m):7d}  {own:34.2f}  {whole:34.2f}", flush=True)


def main(quick: bool = False) -> None:
    runs = 4 if quick else 20
    sets = data()
    figure_1(runs)
    print("the paper: exact recovery while the code fits into the floats; footnote 6: no accuracy for a random vector")
    cases = [(2e-3, (1, 2, 4, 8, 10, 11, 12)), (0.25, (1, 2, 4, 5, 6))]
    multi("Figure 2: many queries, Titanic, K = 2", sets["Titanic"], 2, cases, runs)
    print('the paper: "M >= 220" and "M >= 550" recover all labels: 221 queries of 10 rows, 551 of 4; true for')
    limits = [(m, labels.OracleSpec(n=1).loss().span / (math.log(3) * m * 2**m)) for m in (10, 4)]
    print("a mean over those rows, up to " + " and ".join(f"τ = {tau:.2g} ({m} rows)" for m, tau in limits), end="; ")
    print("an endpoint averages over all 2201")
    multi("Figure 3: many queries, Iris, K = 3", sets["Iris"], 3, [(1e-2, (1, 2, 3, 4)), (1e-4, (1, 2, 3, 4, 5))], runs)
    multi("Figure 3: many queries, Satimage, K = 6", sets["Satimage"], 6, [(1e-3, (1, 2)), (1e-4, (1, 2, 3))], runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="4 runs instead of 20")
    main(parser.parse_args().quick)
