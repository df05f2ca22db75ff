"""The figures of Aggarwal et al. (2021) with the paper's axes, noise levels, codes and numbers of draws, beside ours.

    DIVULGE_DATA=… python papers/label_figures.py > papers/results/label_figures.md
    python papers/label_pictures.py     # draws docs/sources/figures/002-*.svg from that file

The codes are literal (Theorem 3 with k = 1..K, Theorem 14 with Nτ in the exponent), in doubles that are not clipped;
the decoder is the argmin over all labellings, as NumPy computes it: a labelling whose loss is infinite never wins, and
an infinite answer gives the first labelling with an infinite loss. The mean runs over the rows of a query, as the
paper's does. Noise is ±τ with random signs, the worst the theorems allow. Labels are drawn from the data sets' own,
with replacement. The paper does not say how it solved for the logits of a softmax: "linear system" is least squares,
whose error is relative to the largest entry of a row; "logarithms" takes the logarithms of the probabilities.

"ours" is `labels.design` for the same oracle: the most rows for which its certificate needs one query, and a tenth of
the draws to confirm it. It reads every label, so panel (b) needs no curve of its own. "Theorem 3, logits" is our plan
`theorem3`, whose logits are written down without computing probabilities first, for a stable log-softmax.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings

import numpy as np

from divulge import labels
from label_data import data

TAUS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
MAX_LABELLINGS = 2**20  # labellings tried per block


def theorem3(m: int, classes: int, strength: float) -> np.ndarray:
    """Logarithms of the probabilities, ``[m, K]``; ``strength``: how many rows the mean has, times τ."""
    powers = 2.0 ** (classes * np.arange(m)[:, None] + np.arange(1, classes + 1))
    return normalised(math.log(3) * strength * powers)


def theorem14(m: int, classes: int, strength: float) -> np.ndarray:
    assert classes == 2
    return normalised(math.log(3) * strength * 2.0 ** np.arange(1, m + 1)[:, None] * np.arange(2))


def normalised(exponents: np.ndarray) -> np.ndarray:
    shifted = exponents - exponents.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def cross_entropy(logs: np.ndarray) -> np.ndarray:
    return -np.log(np.exp(logs))


def one_column(logs: np.ndarray) -> np.ndarray:
    """Cross-entropy of p(y = 1) alone: the other probability is 1 - p, rounded."""
    p = np.exp(logs[:, 1])
    return -np.log(np.stack([1 - p, p], axis=1))


def softmax_logarithms(logs: np.ndarray) -> np.ndarray:
    return softmax(np.log(np.exp(logs)))


def softmax_system(logs: np.ndarray) -> np.ndarray:
    """``exp(t_k) = θ_k·Σ exp(t_j)`` with the sum set to 1, solved as a linear system by least squares."""
    classes = logs.shape[1]
    expected = np.append(np.zeros(classes), 1.0)
    results = [
        np.linalg.lstsq(np.vstack([np.eye(classes) - row[:, None], np.ones(classes)]), expected, rcond=None)[0]
        for row in np.exp(logs)
    ]
    return softmax(np.log(results))


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits)
    return -np.log(raised / raised.sum(axis=1, keepdims=True))


def sigmoid(logs: np.ndarray) -> np.ndarray:
    """As the paper writes it: ``ln(p/(1-p))`` in, ``ln σ`` and ``ln(1 - σ)`` out."""
    p = np.exp(logs[:, 1])
    s = 1 / (1 + np.exp(-np.log(p / (1 - p))))
    return -np.log(np.stack([1 - s, s], axis=1))


def answers(table: np.ndarray) -> np.ndarray:
    """Mean losses of all labellings, the first row's label changing slowest."""
    sums = np.zeros(1)
    for row in table:
        sums = np.add.outer(sums, row).ravel()
    return sums / len(table)


def number(y: np.ndarray, classes: int) -> np.ndarray:
    """Which of all labellings each row of ``y`` is."""
    return y @ classes ** np.arange(y.shape[1])[::-1]


def labelling(index: np.ndarray, classes: int, m: int) -> np.ndarray:
    return index[:, None] // classes ** np.arange(m)[::-1] % classes


def argmin(means: np.ndarray, noisy_answers: np.ndarray) -> np.ndarray:
    """``np.argmin(np.abs(means - answer))`` for every given answer."""
    finite = np.flatnonzero(np.isfinite(means))
    if not len(finite):
        return np.zeros(len(noisy_answers), dtype=int)
    values, first_rows = np.unique(means[finite], return_index=True)
    right = np.searchsorted(values, noisy_answers).clip(max=len(values) - 1)
    lower = (right - 1).clip(0)
    nearest = np.where(noisy_answers - values[lower] <= values[right] - noisy_answers, lower, right)
    unread = int(np.argmax(~np.isfinite(means)))
    return np.where(np.isfinite(noisy_answers), finite[first_rows[nearest]], unread)


def shares(table: np.ndarray, y: np.ndarray, tau: float, rng: np.random.Generator) -> np.ndarray:
    """Share of labels right of every draw ``y [draws, m]``."""
    m, classes = table.shape
    means = answers(table)
    noisy_answers = means[number(y, classes)] + tau * rng.choice([-1, 1], len(y))
    return (labelling(argmin(means, noisy_answers), classes, m) == y).mean(axis=1)


def reach(y: np.ndarray, classes: int, code, oracle, tau: float, draws: int) -> tuple[int, int]:
    """Largest N with every label right in all draws, and with at least half of them; two larger ones were tried."""
    all_right = half = failed = n = 0
    while failed < 2 and classes ** (n + 1) <= MAX_LABELLINGS:
        n += 1
        rng = np.random.default_rng([n, draws])
        worst = shares(oracle(code(n, classes, n * tau)), rng.choice(y, (draws, n)), tau, rng).min()
        all_right = n if worst == 1 else all_right
        half, failed = (n, 0) if worst >= 0.5 else (half, failed + 1)
    return all_right, half


def our_plan(metric: str, classes: int, n: int, tau: float, method: str) -> labels.QueryPlan:
    return labels.design(labels.OracleSpec(metric, n=n, classes=classes, clip=None, noise=tau), method)


def our_reach(y: np.ndarray, classes: int, metric: str, tau: float, draws: int, method: str = "auto") -> int:
    """Largest N that one query of ours reads, every label of every draw right (its certificate says all labellings)."""
    low, high = 0, 64
    while high - low > 1:
        n = (low + high) // 2
        low, high = (n, high) if our_plan(metric, classes, n, tau, method).count == 1 else (low, n)
    plan = our_plan(metric, classes, low, tau, method)
    assert plan.certificate.certified
    rng = np.random.default_rng([low, draws])
    table, rows = plan.spec.loss().table(plan.queries[0]), np.arange(low)
    for truth in rng.choice(y, (draws, low)):
        noisy_answer = table[rows, truth].mean() + tau * rng.choice([-1, 1])
        assert (labels.read(plan, [noisy_answer]).labels == truth).all()
    return low


SOFTMAX = (
    ("Theorem 3, linear system", theorem3, softmax_system),
    ("Theorem 3, logarithms", theorem3, softmax_logarithms),
)
PLAIN = (("Theorem 3", theorem3, cross_entropy),)
BINARY = (("Theorem 14, two columns", theorem14, cross_entropy), ("Theorem 14, one column", theorem14, one_column))
PANELS = (  # of 100 % and of 50 %; loss; codes; our metric; data
    ("1a", "1b", "cross-entropy", PLAIN, "log_loss", ("Titanic", "Iris", "Satellite")),
    ("", "1c", "softmax", SOFTMAX, "softmax_cross_entropy", ("Titanic", "Iris", "Satellite")),
    ("3 left, 100 %", "3 left", "sigmoid", (("Theorem 3", theorem3, sigmoid),), "sigmoid_cross_entropy", ("Titanic",)),
)


def head(*columns: object) -> None:
    print("\n| " + " | ".join(map(str, columns)) + " |")
    print("|---|" + "---|" * (len(columns) - 1))


def line(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def figure_1(sets: dict[str, np.ndarray], draws: int) -> None:
    print(f"\n## Figure 1 and Figure 3 (left): the largest N in one query, {draws} draws of labels")
    head("panel", "loss", "data", "code", *(f"τ = {tau:g}" for tau in TAUS))
    for full_panel, half, loss, codes, metric, names in PANELS:
        for name in names:
            y = sets[name]
            classes = int(y.max()) + 1
            for code_name, code, oracle in codes + (BINARY if loss == "cross-entropy" and classes == 2 else ()):
                results = [reach(y, classes, code, oracle, tau, draws) for tau in TAUS]
                for panel, cells in zip((full_panel, half), zip(*results, strict=True), strict=True):
                    if panel:
                        line(panel, loss, name, code_name, *cells)
            for code_name, method in (("Theorem 3, logits", "theorem3"), ("ours", "auto")):
                if method == "auto" or loss != "cross-entropy":
                    cells = [our_reach(y, classes, metric, tau, draws // 10, method) for tau in TAUS]
                    line(full_panel if loss == "cross-entropy" else half, loss, name, code_name, *cells)


SIZES = {"Titanic": 14, "Iris": 8, "Satellite": 5}
LOSSES = (
    ("2", "cross-entropy", cross_entropy, "log_loss", ("Titanic", "Iris", "Satellite")),
    ("2", "softmax", softmax_system, "softmax_cross_entropy", ("Titanic", "Iris", "Satellite")),
    ("3 right", "sigmoid", sigmoid, "sigmoid_cross_entropy", ("Titanic",)),
)


def blocks(y: np.ndarray, m: int) -> np.ndarray:
    """The labels in blocks of m; the last is filled up with the first ones."""
    return np.resize(y, (-(-len(y) // m), m))


def accuracy(y: np.ndarray, table: np.ndarray, tau: float, runs: int) -> float:
    m = len(table)
    label_blocks = blocks(y, m)
    is_row = (np.arange(label_blocks.size) < len(y)).reshape(label_blocks.shape)
    means, right = answers(table), []
    index = number(label_blocks, table.shape[1])
    for seed in range(runs):
        noise = tau * np.random.default_rng(seed).choice([-1, 1], len(label_blocks))
        result = labelling(argmin(means, means[index] + noise), table.shape[1], m)
        right.append((result == label_blocks)[is_row].mean())
    return float(np.mean(right))


def our_accuracy(y: np.ndarray, classes: int, metric: str, m: int, tau: float) -> float | None:
    """One run of our code on blocks of m rows; None where m rows need a second query."""
    plan = our_plan(metric, classes, m, tau, "auto")
    if plan.count > 1:
        return None
    table, rng, rows = plan.spec.loss().table(plan.queries[0]), np.random.default_rng(0), np.arange(m)
    results = [
        labels.read(plan, [table[rows, truth].mean() + tau * rng.choice([-1, 1])]).labels for truth in blocks(y, m)
    ]
    return float((np.concatenate(results)[: len(y)] == y).mean())


def figure_2(sets: dict[str, np.ndarray], runs: int) -> None:
    print(f"\n## Figure 2 and Figure 3 (right): labels right, %, with ⌈N/M⌉ queries of M rows (mean of {runs} runs)")
    for panel, loss, oracle, metric, names in LOSSES:
        for name in names:
            y = sets[name]
            classes, max_size = int(y.max()) + 1, SIZES[name]
            sizes = range(1, max_size + 1)
            head("panel", "loss", "data", "τ", "code", *(f"M = {m}" for m in sizes))
            line(panel, loss, name, "", "queries", *(-(-len(y) // m) for m in sizes))
            for tau in (1e-4, 1.0):
                results = [accuracy(y, oracle(theorem3(m, classes, m * tau)), tau, runs) for m in sizes]
                line(panel, loss, name, f"{tau:g}", "Theorem 3", *(f"{100 * share:.2f}" for share in results))
                ours = [our_accuracy(y, classes, metric, m, tau) for m in sizes]
                cells = ("" if share is None else f"{100 * share:.2f}" for share in ours)
                line(panel, loss, name, f"{tau:g}", "ours", *cells)


def among_all(y: np.ndarray, runs: int) -> None:
    print("\n## The same code where the oracle averages over all 2201 rows of Titanic: labels right, %")
    sizes = range(1, 9)
    head("τ", *(f"M = {m}" for m in sizes))
    for tau in (1e-4, 1e-3, 1e-2, 1.0):
        # A query of m rows sees noise 2201/m times as large; the other rows add a constant.
        cells = [accuracy(y, cross_entropy(theorem3(m, 2, len(y) * tau)), tau * len(y) / m, runs) for m in sizes]
        line(f"{tau:g}", *(f"{100 * cell:.2f}" for cell in cells))


def footnote_6(y: np.ndarray, draws: int) -> None:
    print(f"\n## Footnote 6: a random vector instead of the code, Titanic, {draws} runs, uniform noise up to τ")
    head("N", "τ", "labels right, %", "runs with all right, %", "runs with none right, %")
    for n in (4, 8, 12):
        for tau in (0.1, 1.0):
            rng = np.random.default_rng(n)
            right = []
            for _ in range(draws):
                p, truth = rng.random(n), rng.choice(y, (1, n))
                means = answers(-np.log(np.stack([1 - p, p], axis=1)))
                result = argmin(means, means[number(truth, 2)] + rng.uniform(-tau, tau, 1))
                right.append((labelling(result, 2, n) == truth).mean())
            shares_right = (np.mean(right), np.mean(np.equal(right, 1)), np.mean(np.equal(right, 0)))
            line(n, tau, *(f"{100 * value:.1f}" for value in shares_right))


def speed() -> None:
    print("\n## Time of one attack (largest of three)")
    head("attack", "seconds")
    for n in (10, 18):
        spent = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            started = time.perf_counter()
            shares(cross_entropy(theorem14(n, 2, 1e-5)), rng.integers(0, 2, (1, n)), 1e-6, rng)
            spent.append(time.perf_counter() - started)
        line(f"argmin over 2^{n} labellings", f"{max(spent):.4f}")


def main(quick: bool = False) -> None:
    if "DIVULGE_DATA" not in os.environ:
        sys.exit("needs the data folder in DIVULGE_DATA")
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # infinite losses are part of the experiment
    sets = {name.replace("Satimage", "Satellite"): y for name, y in data().items() if name != "competition"}
    print("# The figures of the label inference paper, and our codes beside them")
    print("\n`DIVULGE_DATA=… python papers/label_figures.py`" + (" (quick)" if quick else ""))
    draws, runs = (50, 2) if quick else (1000, 20)
    figure_1(sets, draws)
    figure_2(sets, runs)
    among_all(sets["Titanic"], runs)
    footnote_6(sets["Titanic"], draws)
    speed()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="50 draws and 2 runs instead of 1000 and 20")
    main(parser.parse_args().quick)
