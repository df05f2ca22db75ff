"""What weights prove, measured: the exact oracle, span-reduced training, multipliers, reconstruction, the figures.

    DIVULGE_DATA=… python benchmarks/weights.py [--quick] [--runs N] [--only oracle,speed,nnls,…]

Every figure is a mean over runs with its 95 % interval (Student's t over runs). Training sets have n = 20
records around ±e1 with unit variance, training ends at margin 100 unless a table says otherwise; test records
are 2,000 fresh ones; seconds are processor seconds (run it with OMP_NUM_THREADS=1). "On margin" counts |Φ| ≤ 1.1·m.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from divulge import evaluation, margin, reconstruction
from divulge.signals import margin as signals


def mixture(n, d, rng):
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x = rng.normal(size=(n, d))
    x[:, 0] += y
    return x, y


def shown(values, digits=3):
    """Mean and 95 % interval over runs."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    mean = values.mean()
    if len(values) < 2:
        return f"{mean:.{digits}g}"
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{mean:.{digits}g} ±{half:.2g}"


def table(title, columns, rows):
    print(f"\n{title}")
    text = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[i]) for row in text) for i in range(len(columns))]
    for row in text:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), flush=True)


def attack(scores, members):
    return (
        evaluation.auc(scores, members).value,
        evaluation.tpr_at_fpr(scores, members, 0.01).value,
    )


def oracle(runs, quick):
    rows = []
    for d in (20, 100, 1000):
        found = []
        for seed in range(runs):
            x, y = mixture(20, d, np.random.default_rng(seed))
            start = time.process_time()
            exact = margin.solve(x, y)
            took = time.process_time() - start
            fresh, _ = mixture(2000, d, np.random.default_rng(1000 + seed))
            state = margin.kkt(exact.net, x, y)
            naive = margin.kkt(exact.net, x, y, clarke=False).residual
            above = (np.abs(exact.net(fresh)) >= state.margin).mean()
            found.append((took, state.residual, abs(exact.gap), exact.net.width, naive, state.on_margin.mean(), above))
        f = np.array(found)
        rows.append([d, f"{f[:, 0].max():.1f}", f"{f[:, 1].max():.0e}", f"{f[:, 2].max():.0e}",
                     f"{f[:, 3].min():.0f}-{f[:, 3].max():.0f}", f"{np.min(f[:, 4]):.2f} / {np.median(f[:, 4]):.2f}",
                     shown(f[:, 5]), shown(f[:, 6])])  # fmt: skip
    columns = [
        "d",
        "s (max)",
        "residual (max)",
        "gap (max)",
        "neurons",
        "0/1 residual (min/median)",
        "on margin",
        "test ≥ m",
    ]
    table(f"Exact KKT points, {runs} runs", columns, rows)


def speed(runs, quick):
    x, y = mixture(20, 1000, np.random.default_rng(0))
    rows = []
    for k in (1000,) if quick else (1000, 10_000):
        plain, reduced = (1e3 * per_step(x, y, k, reduced) for reduced in (False, True))
        rows.append([k, f"{plain:.2f}", f"{reduced:.2f}", f"{plain / reduced:.1f}"])
    columns = ["width", "plain ms/step", "reduced ms/step", "ratio"]
    table("Span-reduced against plain training, d = 1000", columns, rows)


def per_step(x, y, k, reduced):
    """Seconds a step, set-up taken off; the best of three, since other work on the machine only ever adds."""
    steps = 150 if reduced else 20
    best = {1: np.inf, 1 + steps: np.inf}
    for count in 3 * list(best):
        start = time.process_time()
        margin.train(x, y, width=k, target_margin=1e9, max_steps=count, reduced=reduced)
        best[count] = min(best[count], time.process_time() - start)
    return (best[1 + steps] - best[1]) / steps


def trained(x, y, d, seed, width=1000, steps=5000, scale=1e-4):
    start = time.process_time()
    run = margin.train(x, y, width=width, target_margin=100.0, seed=seed, max_steps=steps, initial_scale=scale)
    took = time.process_time() - start
    fresh, fresh_y = mixture(2000, d, np.random.default_rng(1000 + seed))
    outputs, other = np.abs(run.net(x)), np.abs(run.net(fresh))
    m = run.margin[-1]
    scores, members = np.append(outputs, other), np.arange(len(x) + 2000) < len(x)
    auc, tpr = attack(scores, members)
    band = -np.abs(scores - np.median(outputs))
    return run, took, (outputs <= 1.1 * m).mean(), (other >= m).mean(), auc, tpr, *attack(band, members), fresh, fresh_y


def dimension(runs, quick):
    rows = []
    for d in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        exact, made, lost = [], [], 0
        for seed in range(runs):
            x, y = mixture(20, d, np.random.default_rng(seed))
            run, took, on, above, auc, tpr, band_auc, band_tpr, fresh, _ = trained(x, y, d, seed)
            if run.reached:
                made.append((on, above, auc, tpr, band_auc, band_tpr, took))
            lost += not run.reached
            if d >= 20 and seed < (2 if quick else 5):
                net = margin.solve(x, y).net
                exact.append(((np.abs(net(x)) <= 1.1).mean(), (np.abs(net(fresh)) >= 1 - 1e-6).mean()))
        cells = [shown(column) for column in np.array(made).T] if made else ["–"] * 7
        best = [shown(column) for column in np.array(exact).T] if exact else ["–"] * 2
        rows.append([d, f"{len(made)}/{len(made) + lost}", *best, *cells])
    columns = [
        "d",
        "reached",
        "on m, exact",
        "test ≥ m, exact",
        "on m",
        "test ≥ m",
        "|Φ| AUC",
        "TPR@1%",
        "band AUC",
        "TPR@1%",
        "s",
    ]
    table(
        f"Figure 1: dimension, width 1000, {runs} runs (the paper: members on the margin, fresh below)",
        columns,
        rows,
    )


def nnls(runs, quick):
    rows = []
    for d in (20, 50, 100):
        found = []
        for seed in range(runs):
            x, y = mixture(220, d, np.random.default_rng(seed))
            run = margin.train(x[:20], y[:20], width=1000, target_margin=100.0, seed=seed, max_steps=10_000)
            members = np.arange(220) < 20
            both = (signals.kkt_nnls(run.net, x, y), signals.margin_abs(run.net, x))
            found.append([value for score in both for value in attack(score, members)])
        rows.append([d, *(shown(column) for column in np.array(found).T)])
    columns = ["d", "NNLS AUC", "NNLS TPR@1%", "|Φ| AUC", "|Φ| TPR@1%"]
    table(f"White-box multipliers, 20 members and 200 fresh in one pool, {runs} runs", columns, rows)


def digits(side, centred=True):
    path = Path(os.environ.get("DIVULGE_DATA", "")) / "mnist.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        x, label = found["x_train"][:20_000].astype(float) / 255, found["y_train"][:20_000]
    step = 28 // side
    x = x.reshape(len(x), side, step, side, step).mean(axis=(2, 4))
    return x - x.mean(axis=0) if centred else x, np.where(label % 2, 1.0, -1.0)


def mnist(runs, quick):
    if digits(28) is None:
        print("\nMNIST: skipped, DIVULGE_DATA has no mnist.npz")
        return
    rows = []
    for side in (7, 14, 28):
        images, parity = digits(side)
        found, start = [], time.process_time()
        for seed in range(6):
            chosen = np.random.default_rng(seed).permutation(len(images))[:220]
            x, y = images[chosen].reshape(220, -1), parity[chosen]
            run = margin.train(x[:20], y[:20], width=1000, target_margin=100.0, seed=seed)
            members, outputs = np.arange(220) < 20, np.abs(run.net(x))
            m = run.margin[-1]
            found.append([(outputs[:20] <= 1.1 * m).mean(), (outputs[20:] >= m).mean(),
                          *attack(signals.kkt_nnls(run.net, x, y), members), *attack(outputs, members)])  # fmt: skip
        rows.append([side, *(shown(column) for column in np.array(found).T), f"{time.process_time() - start:.1f}"])
    columns = ["side", "on margin", "test ≥ m", "NNLS AUC", "TPR@1%", "|Φ| AUC", "TPR@1%", "s for 6 runs"]
    table("Figure 2: MNIST odd/even, fully connected, mean image taken off, 6 runs", columns, rows)


def cnn(runs, quick):
    if digits(28) is None:
        print("\nCNN: skipped, DIVULGE_DATA has no mnist.npz")
        return
    import torch

    from divulge.signals.homogeneous import deep_multipliers

    rows = []
    for side in (14,) if quick else (7, 14, 28):
        images, parity = digits(side)
        found, start, lost = [], time.process_time(), 0
        for seed in range(2 if quick else 5):
            chosen = np.random.default_rng(seed).permutation(len(images))[:220]
            x, y = images[chosen][:, None].astype(np.float32), parity[chosen]
            torch.manual_seed(seed)
            net = convolutional(torch, side)
            reached, m = climb(torch, net, torch.tensor(x[:20]), torch.tensor(y[:20], dtype=torch.float32))
            lost += not reached
            members = np.arange(220) < 20
            with torch.no_grad():
                outputs = np.abs(net(torch.tensor(x)).numpy()[:, 0].astype(float))
            found.append([(outputs[:20] <= 1.1 * m).mean(), (outputs[20:] >= m).mean(),
                          *attack(deep_multipliers(net, x, y), members), *attack(outputs, members)])  # fmt: skip
        rows.append(
            [side, *(shown(column) for column in np.array(found).T), lost, f"{time.process_time() - start:.0f}"]
        )
    columns = ["side", "on margin", "test ≥ m", "NNLS AUC", "TPR@1%", "|Φ| AUC", "TPR@1%", "not reached", "s"]
    table("Figure 3: MNIST odd/even, CNN 32/64 + linear without biases (empirical, nothing proven)", columns, rows)


def convolutional(torch, side):
    nn = torch.nn
    stride = 2 if side > 7 else 1
    body = nn.Sequential(
        nn.Conv2d(1, 32, 3, stride, bias=False),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride, bias=False),
        nn.ReLU(),
        nn.Flatten(),
    )
    width = body(torch.zeros(1, 1, side, side)).shape[1]
    net = nn.Sequential(*body, nn.Linear(width, 1, bias=False))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.5)
    return net


def climb(torch, net, x, y, target=1000.0, steps=3000):
    """Gradient steps on log Σ exp(-yΦ) whose size follows the norm: from loss 1 on they keep pace with the margin."""
    parameters = list(net.parameters())
    rate, last = 1e-3, np.inf
    for _ in range(steps):
        outputs = net(x)[:, 0] * y
        loss = torch.logsumexp(-outputs, 0)
        m = float(outputs.min())
        if m >= target:
            return True, m
        rate = rate * 1.03 if float(loss) < last else rate * 0.5
        last = float(loss)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
    return False, m


def epochs(runs, quick):
    rows = []
    for steps in (100, 1000) if quick else (100, 1000, 4000, 10_000):
        found = []
        for seed in range(runs):
            x, y = mixture(20, 500, np.random.default_rng(seed))
            run = margin.descend(x, y, width=1000, steps=steps, learning_rate=0.1, seed=seed)
            fresh, _ = mixture(2000, 500, np.random.default_rng(1000 + seed))
            m = run.margin[-1]
            found.append(((np.abs(run.net(x)) <= 1.1 * m).mean(), (np.abs(run.net(fresh)) >= m).mean(), m))
        rows.append([steps, *(shown(column) for column in np.array(found).T)])
    table(
        f"Figure 4: epochs of plain gradient descent, rate .1, d = 500, {runs} runs",
        ["epochs", "on margin", "test ≥ m", "margin"],
        rows,
    )


def width(runs, quick):
    rows = []
    for d in (50, 500):
        for k in (20, 100, 1000) if quick else (20, 100, 1000, 10_000):
            found, lost = [], 0
            for seed in range(runs):
                x, y = mixture(20, d, np.random.default_rng(seed))
                run, took, on, above, *_ = trained(x, y, d, seed, width=k)
                lost += not run.reached
                found.append((on, above, took))
            rows.append([d, k, *(shown(column) for column in np.array(found).T), lost])
    table(f"Figure 5: width, {runs} runs", ["d", "width", "on margin", "test ≥ m", "s", "not reached"], rows)


def leaked(runs, quick):
    rows = []
    for d in (20, 50, 100, 200, 500):
        found = []
        for seed in range(runs):
            x, y = mixture(20, d, np.random.default_rng(seed))
            run = margin.train(x, y, width=1000, target_margin=100.0, seed=seed, max_steps=5000)
            fresh, _ = mixture(2000, d, np.random.default_rng(1000 + seed))
            # One member among 100 fresh records: is the largest |Φ| the member's?
            hits = [
                margin.leaked_point(run.net, np.vstack([x[i : i + 1], fresh[100 * i : 100 * (i + 1)]])).outputs
                for i in range(20)
            ]
            found.append(np.mean([np.argmax(np.abs(outputs)) == 0 for outputs in hits]))
        rows.append([d, shown(found)])
    table(f"Leaked point: one member among 100 fresh records is the largest |Φ|, {runs} runs", ["d", "success"], rows)


def sources(runs, quick):
    rows = []
    for d in (100, 1000, 10_000, 20_000, 50_000, 100_000, 1_000_000):
        means = np.zeros((4, d))
        means[np.arange(4), np.arange(4)] = 2.0
        row = [d]
        for source in (margin.Sphere(d), margin.Gaussian(d), margin.Mixture(means)):
            found = margin.assumption(source, n=20)
            row += [f"{found.ratio:.2f}", f"{found.bound:.2f}"]
        rows.append(row)
    columns = ["d", "sphere nδ/Δ", "bound", "Gaussian nδ/Δ", "bound", "mixture nδ/Δ", "bound"]
    table("Assumption 3.1 for n = 20 with chance .95; a bound on fresh |Φ|/m below 1 proves membership", columns, rows)


def line(seed, scheme, n=10):
    rng = np.random.default_rng(seed)
    x = 3 * (-1 + 2 * (np.arange(n) + rng.uniform(0.2, 0.8, n)) / n)
    phase = rng.uniform(0, 2 * np.pi)
    y = {
        "threshold": np.where(x > x[n // 2] - 1e-9, 1.0, -1.0),
        "smooth": np.where(np.sin(2 * np.pi * x / 3 + phase) > 0, 1.0, -1.0),
        "random": rng.choice([-1.0, 1.0], n),
        "alternating": np.where(np.arange(n) % 2, 1.0, -1.0),
    }[scheme]
    y[0] = -1.0 if (y == 1).all() else y[0]
    y[0] = 1.0 if (y == -1).all() else y[0]
    return x, y


def rates(found, x, tolerance):
    gap = np.abs(np.subtract.outer(found, x))
    return (
        (gap.min(axis=1, initial=np.inf) <= tolerance).sum(),
        len(found),
        (gap.min(axis=0, initial=np.inf) <= tolerance).sum(),
    )


def ratio(right, made, hit, points):
    """Precision / recall."""
    return f"{right / made:.2f} / {hit / points:.2f}" if made else "– / 0.00" if points else "–"


def univariate(runs, quick):
    columns = ["margin", "reached", "≤ 1.01 m", "rule 1", "crossings", "both", "ambiguous stretches"]
    for scheme in ("smooth", "threshold", "random", "alternating"):
        rows = [[target, *_reconstructed(scheme, target, runs, 10_000 if quick else 30_000)] for target in TARGETS]
        title = f"One dimension, n = 10, {scheme} labels, {runs} data sets: precision / recall"
        table(f"{title} (within 1 % of the range; 1e-3 at exact points)", columns, rows)


TARGETS = ("exact", 10.0, 100.0)


def _reconstructed(scheme, target, runs, steps):
    counts = {rule: np.zeros(3) for rule in (1, "crossings", "both")}
    used = ambiguous = on = 0
    for seed in range(runs):
        x, y = line(seed, scheme)
        if target == "exact":
            net, m, tolerance = margin.solve(x[:, None], y).net, 1.0, 1e-3
        else:
            run = margin.train(
                x[:, None], y, width=300, target_margin=target, seed=seed, initial_scale=0.5, max_steps=steps
            )
            if not run.reached:
                continue
            net, m, tolerance = run.net, run.margin[-1], 0.06
        used += 1
        on += (np.abs(net(x[:, None])) <= 1.01 * m).sum()
        for rule in counts:
            found = reconstruction.univariate(net, m, rule)
            counts[rule] += rates(found.candidates, x, tolerance)
            ambiguous += rule == "both" and len(found.ambiguous)
    cells = [ratio(*found, 10 * used) for found in counts.values()]
    return [f"{used}/{runs}", f"{on / (10 * used):.2f}" if used else "–", *cells, ambiguous]


SECTIONS = {
    "oracle": oracle,
    "speed": speed,
    "dimension": dimension,
    "nnls": nnls,
    "mnist": mnist,
    "cnn": cnn,
    "epochs": epochs,
    "width": width,
    "leaked": leaked,
    "sources": sources,
    "univariate": univariate,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three runs and fewer settings")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--runs", type=int, help="data sets a figure (10, or 3 with --quick)")
    given = parser.parse_args()
    for name in given.only.split(","):
        SECTIONS[name](given.runs or (3 if given.quick else 10), given.quick)


if __name__ == "__main__":
    main()
