"""Reconstruction of training points on a line, measured (a part of `weights.py`)."""

from __future__ import annotations

import numpy as np

from divulge import margin, reconstruction
from weights_tables import shown, table

N = 10
STEPS = 3000
TARGETS = ("exact", 10.0, 100.0)
RULES = ("crossings", "both")


def line(seed, scheme):
    """Ten records on [-3, 3] and their labels; "uniform" leaves gaps to chance, the others space them with jitter."""
    rng = np.random.default_rng(seed)
    if scheme == "uniform":
        x = np.sort(rng.uniform(-3, 3, N))
    else:
        x = 3 * (-1 + 2 * (np.arange(N) + rng.uniform(0.2, 0.8, N)) / N)
    smooth = np.where(np.sin(2 * np.pi * x / 3 + rng.uniform(0, 2 * np.pi)) > 0, 1.0, -1.0)
    y = {
        "smooth": smooth,
        "uniform": smooth,
        "threshold": np.where(x > x[N // 2] - 1e-9, 1.0, -1.0),
        "random": rng.choice([-1.0, 1.0], N),
        "alternating": np.where(np.arange(N) % 2, 1.0, -1.0),
    }[scheme]
    y[0] = -y[1:].mean().round() or 1.0 if (y == y[0]).all() else y[0]
    return x, y


SCHEMES = {
    "smooth": "smooth labels, spaced records",
    "uniform": "smooth labels, records uniform",
    "threshold": "one threshold, spaced records",
    "random": "random labels, spaced records",
    "alternating": "alternating labels, spaced records",
}


def univariate(runs, quick):
    names = ["network", "reached", "on m", "crossings: precision", "recall", "both: precision", "recall"]
    names += ["recall of those on m", "candidates proven", "stretches", "of them hold a point", "false proofs"]
    for scheme, scheme_text in SCHEMES.items():
        rows = (_row(scheme, target, runs) for target in (TARGETS[::2] if quick else TARGETS))
        table(f"One dimension, n = 10, {scheme_text}, {runs} data sets, width 300", names, rows)


def _row(scheme, target, runs):
    results = [each for seed in range(runs) if (each := reconstructed(scheme, target, seed)) is not None]
    name = target if target == "exact" else f"trained to {target:g}"
    keys = ("on", "crossings p", "crossings r", "both p", "both r", "of those on m", "proven")
    cells = [shown([each[key] for each in results if not np.isnan(each[key])], 2) for key in keys]
    return [
        name,
        f"{len(results)}/{runs}",
        *cells,
        sum(each["stretches"] for each in results),
        sum(each["held"] for each in results),
        sum(each["false"] for each in results),
    ]


def reconstructed(scheme, target, seed):
    """Rates of one data set; None where training did not reach the margin."""
    x, y = line(seed, scheme)
    if target == "exact":
        net, m, tolerance, band = margin.solve(x[:, None], y).net, 1.0, 1e-3, 1e-4
    else:
        run = margin.train(x[:, None], y, width=300, target_margin=target, seed=seed, max_steps=STEPS)
        if not run.reached:
            return None
        net, m, tolerance, band = run.net, float(run.margin[-1]), 0.06, 0.1
    on = np.abs(net(x[:, None])) <= (1 + band) * m
    rates = {"on": on.mean()}
    for rule in RULES:
        reconstructed_points = reconstruction.univariate(net, m, rule)
        gap = np.abs(np.subtract.outer(reconstructed_points.candidates, x)) <= tolerance
        rates[f"{rule} p"] = gap.any(axis=1).mean() if len(gap) else np.nan
        rates[f"{rule} r"] = gap.any(axis=0).mean()
    rates["of those on m"] = gap.any(axis=0)[on].mean()
    rates["proven"] = reconstructed_points.needed.mean() if len(gap) else np.nan
    rates["false"] = int((reconstructed_points.needed & ~gap.any(axis=1)).sum())
    rates["stretches"] = len(reconstructed_points.ambiguous)
    rates["held"] = sum(
        ((x >= s.low - tolerance) & (x <= s.high + tolerance)).any() for s in reconstructed_points.ambiguous
    )
    return rates


def algorithms(runs, quick):
    """The paper's own algorithms at exact points: how often they return anything, and how much of it is right."""
    names = ["labels", "break-points", "of them where 1 returns nothing"]
    names += ["1: returns something", "least share right", "recall", "2: returns something", "least share right"]
    names += ["on-off-on", "windows", "of them hold a point", "a neuron active on all"]
    title = f"The paper's algorithms 1 and 2 at exact points, n = 10, {runs} data sets each"
    table(title, names, (_algorithms(scheme, runs) for scheme in SCHEMES))


def _algorithms(scheme, runs):
    each = [_told(*line(seed, scheme)) for seed in range(runs)]
    first_algorithm, second_algorithm = (np.array([figures[algorithm] for figures in each]) for algorithm in (1, 2))
    nothing = np.isnan(first_algorithm[:, 0])
    bent = np.array([figures["bends"] for figures in each])
    cells = [
        scheme,
        _range(bent),
        _range(bent[nothing]),
        *_shares(first_algorithm, runs),
        shown(first_algorithm[:, 1], 2),
        *_shares(second_algorithm, runs),
    ]
    return [*cells, *(sum(figures[key] for figures in each) for key in ("flat", "windows", "held", "everywhere"))]


def _told(x, y):
    """Of each algorithm the share of candidates that are right and of records found; what the line is like."""
    net = margin.solve(x[:, None], y).net
    figures = {}
    for algorithm in (1, 2):
        read = reconstruction.univariate(net, 1.0, algorithm)
        gap = np.abs(np.subtract.outer(read.candidates, x)) <= 1e-3
        figures[algorithm] = (gap.any(axis=1).mean() if len(gap) else np.nan, gap.any(axis=0).mean())
        figures["flat"] = figures.get("flat", False) or any("flat" in rules for rules in read.rules)
    figures["bends"], figures["windows"] = len(read.break_points), len(read.windows)
    figures["held"] = sum(gap[list(window)].any() for window in read.windows)
    figures["everywhere"] = ((x[:, None] * net.w[:, 0] + net.b > 1e-6).all(axis=0) & (net.v != 0)).any()
    return figures


def _range(counts):
    return f"{counts.min()} to {counts.max()}" if len(counts) else "–"


def _shares(rates, runs):
    right = rates[~np.isnan(rates[:, 0]), 0]
    return f"{len(right)}/{runs}", f"{right.min():.2f}" if len(right) else "–"
