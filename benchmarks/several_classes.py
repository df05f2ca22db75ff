"""Members read off the weights of networks with several classes, beside their margins; and a null.

    python benchmarks/several_classes.py --runs 20

A network of one hidden ReLU layer (width 100) is trained on 60 records, Gaussian with a mean of 2 along the axis of
their class, until each has margin 20. 60 further records are candidates, 300 known non-members. The null asks the same
network about 120 candidates none of which it was trained on.
"""

import argparse

import numpy as np

from divulge import margin
from divulge.auditing.weights import ExaminationRules, examine_weights
from divulge.datafiles import NamedRows
from divulge.evaluation import auc, tpr_at_fpr

N_MEMBERS, N_CANDIDATES, N_KNOWN = 60, 120, 300


def train(x, y, classes, seed, width=100, target_margin=20.0, max_steps=8000):
    """Follow the gradient of the logarithm of the mean cross-entropy, which does not vanish as margins grow."""
    rng = np.random.default_rng(seed)
    points, rows = np.column_stack([x, np.ones(len(x))]), np.arange(len(x))
    w = 1e-3 * rng.normal(size=(width, points.shape[1]))
    v = 0.3 * rng.uniform(-1, 1, size=(classes, width)) / np.sqrt(width)
    largest = 0.5 / np.max(np.sum(points**2, axis=1))
    for _ in range(max_steps):
        before = points @ w.T
        hidden = np.maximum(before, 0.0)
        outputs = hidden @ v.T
        gaps = outputs - outputs[rows, y][:, None]
        gaps[rows, y] = -np.inf
        if -gaps.max() >= target_margin:
            break
        # log Σ_j exp(f_j - f_y) of a record, from which its loss and its pull follow without underflow.
        top = gaps.max(axis=1)
        excess = top + np.log(np.exp(gaps - top[:, None]).sum(axis=1))
        loss = np.where(excess < -30, excess, np.log(np.logaddexp(0.0, excess) + 1e-300))
        total = loss.max() + np.log(np.exp(loss - loss.max()).sum())
        size = np.exp(-np.log1p(np.exp(-excess)) - total)
        pull = -size[:, None] * np.exp(gaps - excess[:, None])
        pull[rows, y] = size
        slope_w, slope_v = ((pull @ v) * (before > 0)).T @ points, pull.T @ hidden
        length = np.sqrt(np.sum(slope_w**2) + np.sum(slope_v**2))
        step = min(0.05 * np.sqrt(np.sum(w**2) + np.sum(v**2)) / max(length, 1e-15), largest)
        w, v = w + step * slope_w, v + step * slope_v
    return margin.ShallowClassifier(w[:, :-1], w[:, -1], v)


def draw(rng, n, dimension, classes):
    """Draw records and their classes."""
    y = np.arange(n) % classes
    x = rng.normal(size=(n, dimension))
    x[np.arange(n), y] += 2.0
    return x, y


def examine(classes, dimension, seed):
    """Return AUC and TPR at 1 % by multipliers, by margins; FDP and power at an FDR of 10 %; a leak in the null."""
    rng = np.random.default_rng([7, classes, dimension, seed])
    x, y = draw(rng, N_MEMBERS, dimension, classes)
    fresh_x, fresh_y = draw(rng, N_CANDIDATES - N_MEMBERS + N_KNOWN, dimension, classes)
    other_x, other_y = draw(rng, N_MEMBERS, dimension, classes)
    net = train(x, y, classes, seed)
    n_fresh = N_CANDIDATES - N_MEMBERS
    known = NamedRows(fresh_x[n_fresh:], np.arange(N_KNOWN), fresh_y[n_fresh:])
    ids = np.arange(N_CANDIDATES)
    candidates, null = (
        NamedRows(np.concatenate([rows, fresh_x[:n_fresh]]), ids, np.concatenate([labels, fresh_y[:n_fresh]]))
        for rows, labels in ((x, y), (other_x, other_y))
    )
    found = examine_weights(net, candidates, ExaminationRules(fdr=0.1), nonmembers=known)
    is_member = np.arange(N_CANDIDATES + N_KNOWN) < N_MEMBERS
    multipliers = np.concatenate([found.scores, found.calibration[1]])
    margins = net.margins(np.concatenate([candidates.x, known.x]), np.concatenate([candidates.y, known.y]))
    figures = [
        figure
        for score in (multipliers, margins)
        for figure in (auc(score, is_member).value, tpr_at_fpr(score, is_member, 0.01).value)
    ]
    selected = found.decisions["FDR ≤ 0.1"].selected
    false = selected[N_MEMBERS:].sum() / max(selected.sum(), 1)
    leak = examine_weights(net, null, ExaminationRules(), nonmembers=known).leaks
    return [*figures, false, selected[:N_MEMBERS].mean(), found.unexplained, leak]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[50, 100, 200])
    options = parser.parse_args()
    print("| classes | d | multipliers: AUC; TPR at 1 % | margin | FDP at .1 | power | unexplained | null: leaks |")
    print("|---:|---:|---|---|---|---|---|---|")
    for classes in options.classes:
        for dimension in options.dimensions:
            rows = np.array([examine(classes, dimension, seed) for seed in range(options.runs)], float)
            mean, spread = rows.mean(axis=0), 1.96 * rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
            cells = [f"{value:.3f} ± {half:.3f}" for value, half in zip(mean[:7], spread[:7], strict=True)]
            print(
                f"| {classes} | {dimension} | {cells[0]}; {cells[1]} | {cells[2]}; {cells[3]} | {cells[4]} | "
                f"{cells[5]} | {mean[6]:.2f} | {int(rows[:, 7].sum())} of {len(rows)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
