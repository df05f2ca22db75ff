"""Figures 1, 4 and 5 of the paper on its own axes, and its Appendix C (a part of `weights.py`).

Records are drawn as in its Section 3.2: 20 training records, each from N(e1, I) or N(-e1, I) with equal chance and
labelled by which, and 5,000 fresh ones. (a) is the share of training records with |Φ| ≤ 1.1·m, (b) that of fresh
records with |Φ| ≥ m, where m is the least |Φ| of a training record.
"""

from __future__ import annotations

import numpy as np

from divulge import InputError, margin
from weights_tables import attack, columns, table

N, FRESH, WIDTH = 20, 5_000, 10_000
_VALUES = 2**25  # fresh values held at once


def gaussians(n, d, squared, rng, *, crossed=False):
    """Records around ±μ labelled by the sign; ``crossed``, around ±μ, +1, and ±ν, -1, with ν orthogonal to μ."""
    x, length = rng.normal(size=(n, d)), np.sqrt(squared)
    side, cluster = rng.choice([-1.0, 1.0], n), rng.integers(2, size=n) if crossed else np.zeros(n, int)
    x[np.arange(n), cluster] += length * side
    return x, np.where(cluster, -1.0, 1.0) if crossed else side


def separated(n, d, squared, rng, *, crossed=False):
    """As `gaussians`, drawn again until both labels occur."""
    while True:
        x, y = gaussians(n, d, squared, rng, crossed=crossed)
        if len(np.unique(y)) == 2:
            return x, y


def outputs(net, d, squared, seed, *, fresh=FRESH, crossed=False):
    """Φ of ``fresh`` fresh records, and their labels; a block at a time, in single precision for speed."""
    rng, blocks = np.random.default_rng([seed, 1]), []
    w, b, v = (part.astype(np.float32) for part in (net.w, net.b, net.v))
    block = max(1, min(fresh, _VALUES // d))
    for start in range(0, fresh, block):
        x, y = gaussians(min(block, fresh - start), d, squared, rng, crossed=crossed)
        blocks.append((np.maximum(x.astype(np.float32) @ w.T + b, 0) @ v, y))
    return tuple(np.concatenate(part) for part in zip(*blocks, strict=True))


def shares(training_outputs, fresh):
    """(a) and (b) of the figures, from Φ of the training records and of fresh ones."""
    m = np.abs(training_outputs).min()
    return (np.abs(training_outputs) <= 1.1 * m).mean(), (np.abs(fresh) >= m * (1 - 1e-6)).mean()


def dimension(runs, quick):
    names = ["d", "reached", "(a)", "(b)", "exact: (a)", "(b)", "solved"]
    names += ["abs(Φ) AUC", "TPR@1 %", "band AUC", "TPR@1 %"]
    sizes = (1, 20, 1000) if quick else (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    title = f"Figure 1: x = dimension; width {WIDTH:,}, trained to margin 100, {runs} runs"
    table(title, names, (_dimension(d, runs) for d in sizes))


def _dimension(d, runs):
    trained_rows, exact = [], []
    for seed in range(runs):
        x, y = separated(N, d, 1.0, np.random.default_rng([seed, 0]))
        run = margin.train(x, y, width=WIDTH, target_margin=100.0, seed=seed, max_steps=600 if d <= 10 else 5000)
        if run.reached:
            training_outputs, fresh = run.net(x), outputs(run.net, d, 1.0, seed)[0]
            size = np.abs(np.concatenate([training_outputs, fresh]))
            members = np.arange(len(size)) < N
            trained_rows.append(
                (*shares(training_outputs, fresh), *attack(size, members), *attack(-np.abs(size - 100.0), members))
            )
        try:
            best = margin.solve(x, y).net
        except InputError:  # records of both labels closer than float64 resolves
            continue
        exact.append(shares(best(x), outputs(best, d, 1.0, seed)[0]))
    result = columns(trained_rows, 6)
    return [
        f"{d:,}",
        f"{len(trained_rows)}/{runs}",
        *result[:2],
        *columns(exact, 2),
        f"{len(exact)}/{runs}",
        *result[2:],
    ]


def epochs(runs, quick):
    title = f"Figure 4: x = epochs of gradient descent at rate .1; d = 500, width 1,000, {runs} runs"
    counts = 2 ** np.arange(3, 11 if quick else 14)
    table(title, ["epochs", "(a)", "(b)", "m", "separated"], (_epochs(int(count), runs) for count in counts))


def _epochs(count, runs):
    rows_found, right = [], 0
    for seed in range(runs):
        x, y = separated(N, 500, 1.0, np.random.default_rng([seed, 0]))
        net = margin.descend(x, y, width=1000, steps=count, learning_rate=0.1, seed=seed).net
        training_outputs = net(x)
        right += bool((training_outputs * y > 0).all())
        rows_found.append((*shares(training_outputs, outputs(net, 500, 1.0, seed)[0]), np.abs(training_outputs).min()))
    return [f"{count:,}", *columns(rows_found, 3), f"{right}/{runs}"]


def width(runs, quick):
    names = ["d", "width", "(a)", "(b), in units of 1e-5", "reached"]
    sizes = (20, 100, 1000) if quick else (20, 100, 1000, 10_000)
    title = f"Figure 5: x = width; trained to margin 100, {runs} runs"
    table(title, names, (_width(d, k, runs) for d in (100, 200, 500) for k in sizes))


def _width(d, k, runs):
    rows_found, reached = [], 0
    for seed in range(runs):
        x, y = separated(N, d, 1.0, np.random.default_rng([seed, 0]))
        run = margin.train(x, y, width=k, target_margin=100.0, seed=seed)
        reached += run.reached
        on, above = shares(run.net(x), outputs(run.net, d, 1.0, seed)[0])
        rows_found.append((on, 1e5 * above))
    return [d, f"{k:,}", *columns(rows_found, 2), f"{reached}/{runs}"]


# Kind, training records, inputs, ‖μ‖² and width. The last row has ‖μ‖² ≥ n^.51·√d and d ≥ n²·‖μ‖².
LEARNABLE = (
    ("two", 20, 100, 100**0.8, 1000),
    ("two", 20, 500, 500**0.7, 1000),
    ("two", 20, 2000, 2000**0.6, 1000),
    ("two", 20, 10_000, 10_000**0.6, 300),
    ("four", 20, 500, 40.0, 1000),
    ("four", 20, 2000, 200.0, 1000),
    ("four", 40, 2000, 200.0, 1000),
    ("four", 20, 10_000, 400.0, 300),
    ("four", 40, 10_000, 400.0, 300),
    ("four", 12, 262_200, 1820.0, 20),
)


def learnable(runs, quick):
    names = ["Gaussians", "n", "d", "‖μ‖²", "n·‖μ‖²/d", "width", "test accuracy"]
    names += ["(a)", "(b)", "largest fresh abs(Φ)/m", "abs(Φ) AUC", "TPR@1 %", "reached"]
    title = f"Appendix C: the attack while the network generalises; trained to margin 100, {runs} runs"
    table(title, names, (_learnable(*setting, runs) for setting in (LEARNABLE[:6] if quick else LEARNABLE)))


def _learnable(source_name, n, d, squared, k, runs):
    rows_found, reached, crossed = [], 0, source_name == "four"
    for seed in range(runs):
        x, y = separated(n, d, squared, np.random.default_rng([seed, 0]), crossed=crossed)
        run = margin.train(x, y, width=k, target_margin=100.0, seed=seed)
        reached += run.reached
        count = FRESH if d <= 2000 else 1000 if d <= 10_000 else 300
        fresh, label = outputs(run.net, d, squared, seed, fresh=count, crossed=crossed)
        training_outputs = run.net(x)
        size = np.abs(np.concatenate([training_outputs, fresh]))
        above = np.abs(fresh).max() / np.abs(training_outputs).min()
        rows_found.append((
            (fresh * label > 0).mean(), *shares(training_outputs, fresh), above, *attack(size, np.arange(len(size)) < n)
        ))  # fmt: skip
    size = [source_name, n, f"{d:,}", f"{squared:.0f}", f"{n * squared / d:.2f}", f"{k:,}"]
    return [*size, *columns(rows_found, 6), f"{reached}/{runs}"]
