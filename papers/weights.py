"""What weights prove, measured: exact points, training, multipliers, reconstruction, and the paper's figures.

    DIVULGE_DATA=… python papers/weights.py [--quick] [--runs N] [--figures 1,4,C | --only oracle,speed,…]

Tables are Markdown, printed row by row. Every figure is a mean over runs with half its 95 % interval (Student's t
over runs). Training sets have n = 20 records around ±e1 with unit variance, training ends at margin 100 and width is
1000 unless a table says otherwise; fresh records are 2,000. Seconds are processor seconds (set OMP_NUM_THREADS=1).
"On m" counts members with |Φ| ≤ 1.1·m, "test ≥ m" fresh records with |Φ| ≥ m; the figures call them (a) and (b).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import weights_figures
import weights_images
import weights_line
from divulge import margin
from divulge.signals import margin as signals
from weights_tables import attack, columns, mixture, shown, table


def oracle(runs, quick):
    names = ["d", "s (max)", "residual (max)", "gap (max)", "neurons", "on m", "test ≥ m"]
    names += ["0/1 derivative, own λ: min / median", "λ fitted anew: min / median"]
    table(f"Exact KKT points, {runs} runs", names, (_exact(d, runs) for d in (20, 100, 1000)))


def _exact(d, runs):
    runs_measured = []
    for seed in range(runs):
        x, y = mixture(20, d, np.random.default_rng(seed))
        start = time.process_time()
        exact = margin.solve(x, y)
        took = time.process_time() - start
        state = margin.kkt(exact.net, x, y)
        naive = zero_one(exact, x, y), margin.kkt(exact.net, x, y, clarke=False).residual
        rates = _on_and_above(exact.net, 1, x, d, seed)
        runs_measured.append((took, state.residual, abs(exact.gap), exact.net.width, *rates, *naive))
    f = np.array(runs_measured)
    worst = [f"{f[:, 0].max():.1f}", f"{f[:, 1].max():.0e}", f"{f[:, 2].max():.0e}"]
    naive = [f"{column.min():.2f} / {np.median(column):.2f}" for column in f[:, 6:].T]
    neurons = "-".join(f"{k:.0f}" for k in dict.fromkeys((f[:, 3].min(), f[:, 3].max())))
    return [d, *worst, neurons, *columns(f[:, 4:6], 2), *naive]


def zero_one(exact, x, y):
    """The KKT residual with the point's own λ and the derivative 0 or 1 that the sign of w·x + b gives."""
    net, pull = exact.net, exact.multipliers * y
    points = np.column_stack([x, np.ones(len(x))])
    before = points @ net.augmented.T
    left_w = net.augmented - (((before > 0) * pull[:, None]).T @ points) * net.v[:, None]
    left_v = net.v - pull @ np.maximum(before, 0.0)
    return np.sqrt((np.sum(left_w**2) + np.sum(left_v**2)) / net.squared_norm)


def _on_and_above(net, m, x, d, seed):
    """Share of members on the margin and of fresh records at or above it."""
    fresh, _ = mixture(2000, d, np.random.default_rng(1000 + seed))
    return (np.abs(net(x)) <= 1.1 * m).mean(), (np.abs(net(fresh)) >= m * (1 - 1e-6)).mean()


def speed(runs, quick):
    x, y = mixture(20, 1000, np.random.default_rng(0))

    def row(k):
        plain, reduced = (1e3 * per_step(x, y, k, reduced) for reduced in (False, True))
        return [k, f"{plain:.2f}", f"{reduced:.2f}", f"{plain / reduced:.1f}"]

    names = ["width", "plain ms/step", "reduced ms/step", "ratio"]
    table("Span-reduced against plain training, d = 1000", names, map(row, (1000,) if quick else (1000, 10_000)))


def per_step(x, y, k, reduced):
    """Seconds a step, set-up taken off; the best of three, since other work on the machine only ever adds."""
    steps = 150 if reduced else 20
    best = {1: np.inf, 1 + steps: np.inf}
    for count in 3 * list(best):
        start = time.process_time()
        margin.train(x, y, width=k, target_margin=1e9, max_steps=count, reduced=reduced)
        best[count] = min(best[count], time.process_time() - start)
    return (best[1 + steps] - best[1]) / steps


def trained(d, seed, width=1000, steps=5000):
    """A data set of dimension d, training on it, and the seconds it took."""
    x, y = mixture(20, d, np.random.default_rng(seed))
    start = time.process_time()
    run = margin.train(x, y, width=width, target_margin=100.0, seed=seed, max_steps=steps)
    return x, y, run, time.process_time() - start


def hundred(runs, quick):
    def row(d):
        runs_measured = []
        for seed in range(runs):
            x, _, run, took = trained(d, seed)
            runs_measured.append((took, run.margin[-1], *_on_and_above(run.net, run.margin[-1], x, d, seed)))
        f = np.array(runs_measured)
        return [d, f"{f[:, 0].max():.2f}", f"{f[:, 1].min():.1f}", *columns(f[:, 2:], 2), f"{f[:, 2].min():.2f}"]

    names = ["d", "s (max)", "margin (min)", "on m", "test ≥ m", "on m (min)"]
    table(f"Training to margin 100, width 1000, {runs} runs", names, map(row, (20, 100, 500)))


def nnls(runs, quick):
    def row(d):
        runs_measured = []
        for seed in range(runs):
            x, y = mixture(220, d, np.random.default_rng(seed))
            run = margin.train(x[:20], y[:20], width=1000, target_margin=100.0, seed=seed, max_steps=10_000)
            score_pairs = (signals.kkt_nnls(run.net, x, y), signals.margin_abs(run.net, x))
            runs_measured.append([value for score in score_pairs for value in attack(score, np.arange(220) < 20)])
        return [d, *columns(runs_measured, 4)]

    names = ["d", "NNLS AUC", "NNLS TPR@1 %", "abs(Φ) AUC", "abs(Φ) TPR@1 %"]
    table(f"White-box multipliers, 20 members and 200 fresh in one pool, {runs} runs", names, map(row, (20, 50, 100)))


def leaked(runs, quick):
    def row(d):
        small, large = [], []
        for seed in range(runs):
            x, _, run, _ = trained(d, seed)
            fresh, _ = mixture(2000, d, np.random.default_rng(1000 + seed))
            for counts_by_size, z in ((small, 10), (large, 100)):
                sets = [np.vstack([x[i : i + 1], fresh[z * i : z * (i + 1)]]) for i in range(20)]
                hits = [np.argmax(np.abs(margin.leaked_point(run.net, each).outputs)) == 0 for each in sets]
                counts_by_size.append(np.mean(hits))
        return [d, shown(small), shown(large)]

    title = f"Leaked point: the largest abs(Φ) of a set with one member is the member's, {runs} runs"
    names = ["d", "among 10 fresh", "among 100 fresh"]
    table(title, names, map(row, (20, 50, 100, 200, 500)))


def sources(runs, quick):
    def row(d):
        means = np.zeros((4, d))
        means[np.arange(4), np.arange(4)] = 2.0
        cells = [f"{d:,}"]
        for source in (margin.Sphere(d), margin.Gaussian(d), margin.Mixture(means)):
            result = margin.assumption(source, n=20)
            cells += [f"{result.ratio:.2f}", f"{result.bound:.2f}"]
        return cells

    names = ["d", "sphere nδ/Δ", "bound", "Gaussian nδ/Δ", "bound", "mixture of 4 nδ/Δ", "bound"]
    title = "Assumption 3.1 for n = 20 with chance .95; a bound on fresh abs(Φ)/m below 1 proves membership"
    table(title, names, map(row, (100, 1000, 10_000, 20_000, 50_000, 100_000, 1_000_000)))


SECTIONS = {
    "oracle": oracle,
    "speed": speed,
    "hundred": hundred,
    "nnls": nnls,
    "leaked": leaked,
    "sources": sources,
    "dimension": weights_figures.dimension,
    "mnist": weights_images.connected,
    "cnn": weights_images.convolutional,
    "epochs": weights_figures.epochs,
    "width": weights_figures.width,
    "learnable": weights_figures.learnable,
    "univariate": weights_line.univariate,
    "algorithms": weights_line.algorithms,
}
FIGURES = {"1": "dimension", "2": "mnist", "3": "cnn", "4": "epochs", "5": "width", "C": "learnable"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three runs and fewer settings")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--figures", help="figures of the paper instead: 1 to 5 and C, separated by commas")
    parser.add_argument("--runs", type=int, help="data sets a setting (10, or 3 with --quick)")
    arguments = parser.parse_args()
    chosen = (
        [FIGURES[figure] for figure in arguments.figures.split(",")] if arguments.figures else arguments.only.split(",")
    )
    for name in chosen:
        SECTIONS[name](arguments.runs or (3 if arguments.quick else 10), arguments.quick)


if __name__ == "__main__":
    main()
