"""MRAD as published: where it starts, what its descent is worth, its black box, its last tenth, and the sign of NCI.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/mrad.py [--quick] [part ...]

The parts are masks, starts, ablation, black, perturbation, steps, above, sign, optimisers, networks and private. 800
members and 800 others; 4,000 auxiliary records disjoint from both; CIFAR-10 at 16 × 16 (a stranger's ResNet-20: 32 ×
32), Fashion-MNIST at 28 × 28. Every target but that one is trained here until it has memorised its members; those of
``private`` by DP-SGD. Tables are printed; intervals are 95 % over records.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge import completion, signals
from divulge.evaluation import auc
from divulge.targets import TorchTarget
from partial_cases import CASES, Cell, N, cifar10

MEAN = completion.Mean(per_class=False)
DETECTORS = ("cade", "msad", "nci", "gradient-norm")


TARGETS = {
    "CIFAR-10, MLP": replace(CASES["cifar-mlp"], data="cifar10"),
    "CIFAR-10, CNN": replace(CASES["cifar-cnn"], data="cifar10"),
    "Fashion-MNIST, MLP": replace(CASES["fashion-mlp"], data="fashion28"),
}
TARGETS["CIFAR-10, transformer"] = replace(
    CASES["cifar-cnn"], data="cifar10", network="transformer", epochs=150, lr=1e-3
)
PRIVATE = {
    f"CIFAR-10, MLP, DP-SGD, noise {noise:g}": replace(TARGETS["CIFAR-10, MLP"], epochs=40, noise=noise)
    for noise in (0.0, 0.5, 1.0, 2.0)
}
CENTRED = {f"{name}, centred": replace(case, data=f"{case.data}-centred") for name, case in TARGETS.items()}
TARGETS |= CENTRED | PRIVATE


class Residual(nn.Module):
    """A block of ResNet-20 with the parameters' names of its source."""

    def __init__(self, entering, leaving, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(leaving), nn.BatchNorm2d(leaving)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.stride, self.details = stride, (leaving - entering) // 2

    def forward(self, x):
        """One batch; the short cut drops every second pixel and pads channels with zeros."""
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        short = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.details, self.details))
        return torch.relu(y + short)


class ResNet20(nn.Module):
    """ResNet-20 for CIFAR-10, of images in [0, 1] with channels last."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        for i, (entering, leaving, stride) in enumerate(((16, 16, 1), (16, 32, 2), (32, 64, 2)), 1):
            blocks = [Residual(entering, leaving, stride), *(Residual(leaving, leaving, 1) for _ in range(2))]
            self.add_module(f"layer{i}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        """One batch."""
        mean, spread = x.new_tensor([0.485, 0.456, 0.406]), x.new_tensor([0.229, 0.224, 0.225])
        x = torch.relu(self.bn1(self.conv1(((x - mean) / spread).movedim(-1, 1))))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


class Stranger(Cell):
    """ResNet-20 that a stranger trained on all training images of CIFAR-10, with flips and crops."""

    def __init__(self, seed):
        x, y = cifar10(32)
        rng, half = np.random.default_rng(seed), len(x) // 2
        inside, outside = rng.permutation(half)[:N], half + rng.permutation(half)
        rows = np.append(inside, outside[:N])
        self.pool, self.seed = dv.Records(x[rows], y[rows]), seed
        self.auxiliary, self.members = dv.Records(x[outside[N:]], y[outside[N:]])[:4000], np.arange(2 * N) < N
        self.gaussian, self.classes = None, 10

    @property
    def target(self):
        """As it came."""
        from safetensors.torch import load_file

        module = ResNet20()
        module.load_state_dict(load_file(Path(os.environ["DIVULGE_DATA"]) / "models" / "resnet20_cifar10.safetensors"))
        return TorchTarget(module.eval(), device="cpu")


@cache
def cell(name, seed):
    return Stranger(seed) if name == "CIFAR-10, ResNet-20" else Cell(TARGETS[name], seed)


@cache
def target(name, seed):
    return cell(name, seed).target


@cache
def detector(name, seed, detector_name):
    """A detector is fitted once for all the descents it judges."""
    return signals.MRAD(detector=detector_name).fit(cell(name, seed).auxiliary, seed).detector


@cache
def completed(name, seed, share, start, clip, access, directions, epsilon=0.01):
    """The records as the descent completes them: once for all the detectors that judge them."""
    this_cell = cell(name, seed)
    settings = signals.MRAD(
        start=MEAN if start == "mean" else start, clip=clip, access=access, directions=directions,
        epsilon=epsilon, detector="gradient-norm",
    )  # fmt: skip
    return settings.fit(this_cell.auxiliary, seed).complete(target(name, seed), this_cell.partial("share", share))


def measured(name, seed, share, detector_name, start="zeros", clip=None, access="white", directions=100, epsilon=0.01):
    """Minus the deviation of each record, ``[n]``; larger = more like a member."""
    x = completed(name, seed, share, start, clip, access, directions, epsilon)
    this_cell = cell(name, seed)
    if detector_name == "gradient-norm":  # the step is 1000 times the gradient
        partial = this_cell.partial("share", share)
        begun = MEAN.fit(this_cell.auxiliary).complete(partial)[0] if start == "mean" else partial.x
        return -np.linalg.norm((x - begun).reshape(len(x), -1), axis=1)
    return -detector(name, seed, detector_name).deviation(target(name, seed), x, this_cell.pool.y)


def pooled(values, members):
    """Mean AUC over seeds with the interval of independent targets."""
    estimates = [auc(value, members) for value in values]
    value, low, high = np.array([(e.value, e.low, e.high) for e in estimates]).T
    below, above = (np.sqrt(((value - end) ** 2).sum()) / len(value) for end in (low, high))
    return f"{value.mean():.3f} [{value.mean() - below:.2f}, {value.mean() + above:.2f}]"


def table(title, columns, rows):
    print(f"\n### {title}\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def over(name, seeds, score):
    return pooled([score(seed) for seed in seeds], cell(name, 0).members)


def about(names, seeds):
    rows = []
    for name in names:
        right = [target(name, s).labels(cell(name, s).pool) == cell(name, s).pool.y for s in seeds]
        loss = over(name, seeds, lambda s, n=name: -target(n, s).loss(cell(n, s).pool))
        inside, outside = (
            np.mean([r[cell(name, 0).members == is_member].mean() for r in right]) for is_member in (True, False)
        )
        rows.append((name, f"{inside:.3f}", f"{outside:.3f}", loss))
    table("Targets", ("target", "accuracy, members", "accuracy, others", "AUC of the loss, whole records"), rows)


def starts(names, seeds):
    """Half of the pixels known: white box, from zeros and from the mean."""
    for name in names:
        rows = []
        for detector_name in DETECTORS:
            cells = [
                over(name, seeds, lambda s, k=detector_name, n=name, b=begin, c=clip: measured(n, s, 0.5, k, b, c))
                if not (clip and detector_name == "gradient-norm")
                else ""
                for begin in ("zeros", "mean")
                for clip in (None, "range")
            ]
            rows.append((detector_name, *cells))
        columns = ("detector", "zeros", "zeros, clipped", "mean", "mean, clipped")
        table(f"{name}, half of the pixels known: AUC by start", columns, rows)


def ablation(names, seeds):
    """Random unknowns that nothing descends."""
    rows = []
    for name in names:
        for share in (0.5, 0.9):
            cells = [over(name, seeds, lambda s, n=name, p=share: -plain(n, s, p, None)[0])]
            cells += [
                over(name, seeds, lambda s, k=detector_name, n=name, p=share: -plain(n, s, p, k)[1])
                for detector_name in ("cade", "msad", "nci")
            ]
            rows.append((name, share, *cells))
    columns = ("target", "known", "loss", "cade", "msad", "nci")
    table("Uniform random unknowns, no descent: AUC", columns, rows)


def plain(name, seed, share, detector_name):
    """Loss and deviation of records whose unknown values are drawn uniformly from [0, 1] and left there."""
    this_cell, known_mask = cell(name, seed), cell(name, seed).known("share", share)
    uniform = np.random.default_rng(seed + 1).random(this_cell.pool.x.shape)
    records = dv.Records(np.where(known_mask, this_cell.pool.x, uniform).astype(np.float32), this_cell.pool.y)
    attacked = target(name, seed)
    if detector_name is None:
        return attacked.loss(records), None
    return None, detector(name, seed, detector_name).deviation(attacked, records.x.astype(float), records.y)


def black(names, seeds):
    """70 % of the pixels known: zeroth-order gradients against autograd."""
    rows = []
    for name in names:
        for detector_name in ("cade", "msad", "nci"):
            results = [over(name, seeds, lambda s, k=detector_name, n=name: measured(n, s, 0.7, k))]
            results += [
                over(
                    name,
                    seeds,
                    lambda s, k=detector_name, n=name, m=m: measured(n, s, 0.7, k, access="black", directions=m),
                )
                for m in (1, 5, 20, 100)
            ]
            rows.append((name, detector_name, *results))
    columns = ("target", "detector", "white box", *(f"black box, m = {m} ({2 * m} queries)" for m in (1, 5, 20, 100)))
    table("70 % of the pixels known, from zeros: AUC", columns, rows)


WIDTHS = (1e-4, 1e-3, 0.01, 0.1, 1.0)


def perturbation(names, seeds):
    """70 % of the pixels known, 5 and 100 directions: how far apart a pair lies."""
    rows = []
    for name in names:
        for m in (5, 100):
            black = [
                over(name, seeds, lambda s, n=name, e=e, m=m: measured(n, s, 0.7, "cade", "zeros", None, "black", m, e))
                for e in WIDTHS
            ]
            rows.append((name, m, *black))
    columns = ("target", "m", *(f"ε = {e:g}" for e in WIDTHS))
    table("70 % of the pixels known, from zeros, black box: AUC of CADE by the width ε", columns, rows)


def steps(names, seeds):
    """Half of the pixels known: one long step or many short ones, and how far the result is from the record."""
    rows = []
    for name in names:
        this_cell, known_mask = cell(name, 0), cell(name, 0).known("share", 0.5)
        partial = this_cell.partial("share", 0.5)
        guess = this_cell.gaussian.complete(partial)[0]
        for row_name, x in (
            ("zeros", partial.x),
            ("mean", MEAN.fit(this_cell.auxiliary).complete(partial)[0]),
            ("cg", guess),
        ):
            rows.append((name, f"{row_name}, no descent", *off(this_cell, x, known_mask), ""))
        for length, count in ((1000.0, 1), (100.0, 10), (10.0, 100), (1.0, 100)):
            for clip in (None, "range"):
                settings = signals.MRAD(step=length, iterations=count, clip=clip, detector="gradient-norm")
                x = settings.fit(this_cell.auxiliary, 0).complete(target(name, 0), partial)
                deviations = -detector(name, 0, "cade").deviation(target(name, 0), x, this_cell.pool.y)
                row_name = f"η = {length:g}, N = {count}{', clipped' if clip else ''}"
                rows.append((name, row_name, *off(this_cell, x, known_mask), pooled([deviations], this_cell.members)))
    columns = ("target", "completion", "error, members", "error, others", "AUC, CADE")
    table("Median over records of the root mean squared error of the unknown pixels (one target)", columns, rows)


def off(this_cell, x, known_mask):
    error = np.sqrt(((x - this_cell.pool.x)[:, ~known_mask] ** 2).mean(axis=1))
    return f"{np.median(error[this_cell.members]):.3g}", f"{np.median(error[~this_cell.members]):.3g}"


SHARES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.996, 1.0)


def above(names, seeds):
    """More than 90 % known."""
    rows = []
    for name in names:
        loss = [over(name, seeds, lambda s, n=name, p=p: -zero_loss(n, s, p)) for p in SHARES]
        rows.append((name, "loss, zeros, no descent", *loss))
        for detector_name in ("cade", "nci"):
            for clip in (None, "range"):
                results = [
                    over(name, seeds, lambda s, k=detector_name, c=clip, n=name, p=p: measured(n, s, p, k, clip=c))
                    for p in SHARES
                ]
                rows.append((name, f"{detector_name}{', clipped' if clip else ''}", *results))
    table("AUC by the share of pixels known, from zeros", ("target", "what", *map(str, SHARES)), rows)


def zero_loss(name, seed, share):
    this_cell = cell(name, seed)
    return target(name, seed).loss(dv.Records(this_cell.partial("share", share).x.astype(np.float32), this_cell.pool.y))


def sign(names, seeds):
    """NCI by its parts, on the records as they are and after the descent; larger should mean member."""
    rows = []
    for name in names:
        for row_name, share, clip in (
            ("whole records, no descent", 1.0, None), ("90 % known, clipped", 0.9, "range"),
            ("90 % known, unclipped", 0.9, None), ("40 % known, unclipped", 0.4, None),
        ):  # fmt: skip
            results = [parts(name, seed, share, clip) for seed in seeds]
            cells = [pooled([f[i] for f in results], cell(name, 0).members) for i in range(4)]
            rows.append((name, row_name, *cells))
    columns = ("target", "records", "NCI", "(h - μ)·w / ‖h - μ‖ alone", "‖h‖₁ alone", "minus the distance moved")
    table("The sign of NCI: AUC, larger taken as member", columns, rows)


def parts(name, seed, share, clip):
    this_cell, attacked = cell(name, seed), target(name, seed)
    partial, x = this_cell.partial("share", share), completed(name, seed, share, "zeros", clip, "white", 100)
    records = dv.Records(x, this_cell.pool.y)
    h, weights = attacked.head(records)
    centred = h - attacked.head(this_cell.auxiliary)[0].mean(axis=0)
    aligned = (centred * weights[attacked.labels(records)]).sum(1) / np.linalg.norm(centred, axis=1)
    length = np.abs(h).sum(1)
    moved = np.linalg.norm((x - partial.x).reshape(len(x), -1), axis=1)
    return aligned + 0.001 * length, aligned, length, -moved


MASKS = ("share", "values", "share each", "values each")


def masks(names, seeds):
    """White box, from zeros: pixels or single values unknown, one mask for all records or one for each."""
    for share in (0.4, 0.5):
        rows = []
        for name in names:
            for mask in MASKS:
                loss = over(name, seeds, lambda s, n=name, m=mask, p=share: -masked_loss(n, s, p, m))
                results = [
                    over(
                        name,
                        seeds,
                        lambda s, n=name, m=mask, k=detector_name, c=clip, p=share: masked(n, s, p, m, k, c),
                    )
                    for clip in (None, "range")
                    for detector_name in ("cade", "msad", "nci")
                ]
                rows.append((name, mask, loss, *results))
        columns = ("target", "mask", "loss, zeros, no descent", "cade", "msad", "nci", *(
            f"{detector_name}, clipped" for detector_name in ("cade", "msad", "nci")
        ))  # fmt: skip
        table(f"{share:.0%} known, from zeros: AUC by mask and by inputs", columns, rows)


@cache
def descended(name, seed, share, mask, clip):
    settings = signals.MRAD(clip=clip, detector="gradient-norm")
    this_cell = cell(name, seed)
    return settings.fit(this_cell.auxiliary, seed).complete(target(name, seed), this_cell.partial(mask, share))


def masked(name, seed, share, mask, detector_name, clip):
    x = descended(name, seed, share, mask, clip)
    return -detector(name, seed, detector_name).deviation(target(name, seed), x, cell(name, seed).pool.y)


def masked_loss(name, seed, share, mask):
    this_cell = cell(name, seed)
    return target(name, seed).loss(dv.Records(this_cell.partial(mask, share).x.astype(np.float32), this_cell.pool.y))


def descend(name, seed, share, kind, steps, access, directions):
    """The completion after some steps by one rule; together they are as long as one of η = 1000.

    Momentum is .9; "adaptive" divides each value's mean gradient by the root of its mean square, as Adam does, and
    moves by .1 a step: there the length of a step no longer depends on the gradient's.
    """
    here, gradients = cell(name, seed), signals.mrad.Gradients(access, directions, 0.01)
    partial = here.partial("share", share)
    x = partial.x.astype(float)
    first, second = np.zeros_like(x), np.zeros_like(x)
    for step in range(steps):
        slope = gradients.compute(target(name, seed), x, here.pool.y, partial.known, seed + step)
        if kind == "plain":
            x = x - 1000 / steps * slope
        elif kind == "momentum":
            first = 0.9 * first + 0.1 * slope
            x = x - 1000 / steps * first / (1 - 0.9 ** (step + 1))
        else:
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            ahead, spread = first / (1 - 0.9 ** (step + 1)), np.sqrt(second / (1 - 0.999 ** (step + 1)))
            x = x - 0.1 * ahead / np.maximum(spread, 1e-12)
    return np.where(partial.known, partial.x, x)


def rule(name, seed, kind, steps, access, directions):
    x = descend(name, seed, 0.7, kind, steps, access, directions)
    return -detector(name, seed, "cade").deviation(target(name, seed), x, cell(name, seed).pool.y)


def optimisers(names, seeds):
    """70 % of the pixels known: rules of descent at equal numbers of queries."""
    for name in names:
        rows = []
        for access, directions, count in (
            ("black", 10, 1), ("black", 1, 10), ("black", 50, 1), ("black", 5, 10), ("white", 1, 1), ("white", 1, 10),
        ):  # fmt: skip
            cells = [
                over(name, seeds, lambda s, k=kind, n=name, how=(count, access, directions): rule(n, s, k, *how))
                for kind in ("plain", "momentum", "adaptive")
            ]
            rows.append((access, count * (2 * directions if access == "black" else 1), count, *cells))
        columns = ("access", "queries", "steps N", "plain", "momentum", "adaptive")
        table(f"{name}, 70 % of the pixels known, from zeros: AUC of CADE by the rule of descent", columns, rows)


def networks(names, seeds):
    """Does it work on this kind of network? Unclipped, from zeros; beside the loss of the zero-filled record."""
    rows = []
    for name in names:
        for share in (0.4, 0.5, 0.7, 0.9):
            loss = over(name, seeds, lambda s, n=name, p=share: -zero_loss(n, s, p))
            cells = [
                over(name, seeds, lambda s, k=kind, n=name, p=share, c=clip: measured(n, s, p, k, clip=c))
                for clip in (None, "range")
                for kind in ("cade", "msad", "nci")
            ]
            rows.append((name, share, loss, *cells))
    columns = ("target", "known", "loss, zeros, no descent", "cade", "msad", "nci", *(
        f"{kind}, clipped" for kind in ("cade", "msad", "nci")
    ))  # fmt: skip
    table("From zeros, white box: AUC", columns, rows)


def private(names, seeds):
    """Does DP-SGD stop it? The same, and what the noise guarantees over 40 passes of 8 batches of about 100."""
    for name in names:
        if case := TARGETS[name].noise:
            spent = dv.references.Private(noise=case, clip=1.0).epsilon(
                records=N, batch_size=100, epochs=TARGETS[name].epochs, delta=1e-5
            )
            print(f"{name}: ε = {spent:.2f} at δ = 1e-5")
    networks(names, seeds)


PARTS = {
    "masks": masks,
    "starts": starts, "ablation": ablation, "black": black, "perturbation": perturbation, "steps": steps,
    "above": above, "sign": sign, "optimisers": optimisers, "networks": networks, "private": private,
}  # fmt: skip
OURS = ("CIFAR-10, MLP", "CIFAR-10, CNN", "Fashion-MNIST, MLP")
NAMES = {
    "masks": (*OURS, *(f"{name}, centred" for name in OURS)),
    "starts": (*OURS, "CIFAR-10, ResNet-20"), "ablation": (*OURS, "CIFAR-10, ResNet-20"),
    "black": ("Fashion-MNIST, MLP", "CIFAR-10, MLP"), "perturbation": OURS[:1], "above": OURS,
    "steps": OURS[:1], "sign": OURS, "optimisers": OURS[:1],
    "networks": ("CIFAR-10, transformer", "CIFAR-10, transformer, centred"), "private": tuple(PRIVATE),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="one seed instead of two")
    arguments = parser.parse_args()
    if not os.environ.get("DIVULGE_DATA"):
        sys.exit("DIVULGE_DATA: name the folder that holds cifar10_12k.npz and models/resnet20_cifar10.safetensors")
    seeds = range(1 if arguments.quick else 2)
    names = [name for name in (*TARGETS, "CIFAR-10, ResNet-20") if any(name in NAMES[part] for part in arguments.parts)]
    about(names, seeds)
    for part in arguments.parts:
        began = time.perf_counter()
        PARTS[part](NAMES[part], seeds)
        print(f"\n({part}: {time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
