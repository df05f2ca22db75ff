"""Data, rates and tables that the benchmarks of `weights.py` share."""

from __future__ import annotations

import numpy as np

from divulge import evaluation


def mixture(n, d, rng):
    """Records around ±e1 of unit variance, half of each label."""
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x = rng.normal(size=(n, d))
    x[:, 0] += y
    return x, y


def shown(values, digits=3):
    """Mean and half of the 95 % interval (Student's t) over runs."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    if not len(values):
        return "–"
    mean = values.mean()
    if len(values) < 2 or np.ptp(values) == 0:
        return f"{mean:.{digits}g}"
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{mean:.{digits}g} ±{half:.2g}"


def columns(rows, count):
    """The runs' columns, each as mean and interval."""
    table = np.array(rows, dtype=float).reshape(-1, count)
    return [shown(column) for column in table.T]


def table(title, names, rows):
    """A Markdown table, row by row as the rows are made: what was measured before an interruption stays."""
    print(f"\n**{title}**\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)


def attack(scores, members):
    """AUC and TPR at FPR 1 %."""
    return evaluation.auc(scores, members).value, evaluation.tpr_at_fpr(scores, members, 0.01).value
