"""Membership from partly known records: every attack over the known share, and what MRAD is worth.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/partial.py [--quick] [--only cifar-mlp …]

Resumable: each finished cell (data set, seed, mask) is a line of ``--out``; only missing cells run. The tables
are printed from that file: mean over seeds of AUC, and of TPR at FPR 1 % in brackets. 800 members, 800 others;
the auxiliary records (4,000 where there are as many) are disjoint from both.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import nn

import divulge as dv
from divulge.attacks import LiRA, LogRatio
from divulge.demo import fashion_mnist
from divulge.evaluation import auc, tpr_at_fpr
from divulge.evidence import of_logits
from divulge.signals import completion
from divulge.targets import TorchTarget

N, AUXILIARY, REFERENCES, ONLINE, DRAWS, LESSONS = 800, 4000, 10, 16, 8, 8
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
NAMES = ("negative-loss", "scaled-logit")


def cifar():
    """Ten superclasses of CIFAR-100, 16 x 16."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "cifar100_full.npz")
    parts = []
    for name in ("train_res", "test_res"):
        x = np.cumsum(np.cumsum(z[name], 2, dtype=np.uint8), 3, dtype=np.uint8)
        x[0] += x[1]
        x[2] += x[1]
        parts.append(x.transpose(1, 2, 3, 0))
    y = np.r_[z["coarse_train"], z["coarse_test"]]
    x = np.concatenate(parts)[y < 10]
    x = x.reshape(-1, 16, 2, 16, 2, 3).mean((2, 4)) / 255
    return x.astype(np.float32), y[y < 10].astype(int)


def fashion():
    records = fashion_mnist()
    return records.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)), records.y


def location():
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "location30.npz")
    x = np.unpackbits(z["x_bits"], axis=1, count=int(z["n_features"]))
    return x.astype(np.float32), z["y"].astype(int)


def adult():
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz")
    numbers, codes = z["X_num"].astype(np.float64), z["X_cat"]
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    groups = [np.eye(codes[:, j].max() + 1)[codes[:, j]] for j in range(codes.shape[1])]
    x, first = np.unique(np.hstack([numbers, *groups]).astype(np.float32), axis=0, return_index=True)
    return x, z["y"].astype(int)[first]


def mlp(width, classes, hidden=256, dropout=0.0):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
    )


class Channels(nn.Module):
    """Channels last, as the records are, to channels first."""

    def forward(self, x):
        """One batch."""
        return x.movedim(-1, 1)


def cnn(width, classes):
    side = 4
    return nn.Sequential(
        Channels(),
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(48 * side * side, classes),
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A data set, a network and how it is trained."""

    load: object
    make: object
    epochs: int
    lr: float = 2e-3
    weight_decay: float = 0.0
    mask: str = "share"


CASES = {
    "cifar-mlp": Case(cifar, mlp, 100),
    "cifar-mlp-block": Case(cifar, mlp, 100, mask="block:top-left"),
    "cifar-cnn": Case(cifar, cnn, 60),
    "cifar-regularised": Case(cifar, lambda w, k: mlp(w, k, dropout=0.5), 25, weight_decay=5e-2),
    "fashion-mlp": Case(fashion, mlp, 100),
    "location-mlp": Case(location, mlp, 60),
    "adult-mlp": Case(adult, mlp, 150, lr=3e-3),
}


class Cell:
    """One data set and seed: the target, offline references, and every attack at any mask."""

    def __init__(self, case: Case, seed: int, references: int):
        x, y = case.load()
        order = np.random.default_rng(seed).permutation(len(x))
        x, y = x[order], y[order]
        self.case, self.seed, self.classes = case, seed, int(y.max()) + 1
        self.pool, self.auxiliary = dv.Records(x[: 2 * N], y[: 2 * N]), dv.Records(x[2 * N :], y[2 * N :])[:AUXILIARY]
        self.members = np.arange(2 * N) < N
        self.width = int(np.prod(x.shape[1:]))
        self.target = TorchTarget(self.train(2).one(self.pool[:N], seed=seed, classes=self.classes), device="cpu")
        rows = np.zeros((references, len(self.auxiliary)), dtype=bool)
        rng = np.random.default_rng(seed + 1)
        for row in rows:
            row[rng.choice(len(self.auxiliary), min(N, len(self.auxiliary) // 2), replace=False)] = True
        self.rows = rows

    def train(self, count):
        """How networks are trained, target and references alike."""
        case = self.case
        return dv.references.Train(
            lambda: case.make(self.width, self.classes), count=count, epochs=case.epochs, optimizer="adamw",
            lr=case.lr, weight_decay=case.weight_decay, batch_size=100, stop_at_accuracy=0.995, engine="stacked",
            device="cpu",
        )  # fmt: skip

    def partial(self, share):
        """What is known of the candidates."""
        known = completion.mask(f"{self.case.mask}:{share}", self.pool.x.shape[1:], seed=self.seed)
        return dv.PartialRecords(self.pool.x, self.pool.y, known)

    def signals(self, x):
        """Both signals of the target, ``[2, n]``."""
        records = dv.Records(x.astype(np.float32), self.pool.y)
        return of_logits(self.target.logits(records), records.y, NAMES).T


def offline(cell: Cell, shares) -> dict:
    """Scores of every attack without references on the candidates, by share and name."""
    keep = lambda logits, labels: of_logits(logits, labels, NAMES)  # noqa: E731
    gaussian = completion.ConditionalGaussian().fit(cell.auxiliary)
    mean = completion.Mean(per_class=False).fit(cell.auxiliary)
    cade = completion.MRAD().fit(cell.auxiliary, cell.seed)
    views, scores = [], {share: {} for share in shares}
    for share in shares:
        partial = cell.partial(share)
        best = gaussian.complete(partial)[0]
        drawn = gaussian.sample(partial, DRAWS, cell.seed)
        views.append((best, *drawn))
        found = scores[share]
        found["LOSS, zero"] = cell.signals(partial.x)[0]
        found["LOSS, mean"] = cell.signals(mean.complete(partial)[0])[0]
        found["LOSS, cg"] = cell.signals(best)[0]
        for name, options in MRADS.items():
            settings = completion.MRAD(**options)
            detector = None if settings.detector == "gradient-norm" else cade.detector
            found[name] = replace(cade, settings=settings, detector=detector).measure(cell.target, partial)
    views.append((cell.pool.x,))
    scores["1.0"] = {"LOSS, cg": cell.signals(cell.pool.x)[0]}
    observe = [dv.Records(x.astype(np.float32), cell.pool.y) for each in views for x in each]
    trained = cell.train(len(cell.rows)).fit(
        cell.auxiliary, cell.rows, seed=cell.seed, classes=cell.classes, observe=observe, signal=keep
    )
    at = 0
    for share, each in zip([*shares, "1.0"], views, strict=True):
        outputs = trained.outputs[at : at + len(each)]
        at += len(each)
        mine = [cell.signals(np.asarray(x)) for x in each]
        scores[share] |= ratios(mine, outputs)
    return scores


MRADS = {
    "MRAD, clipped": {"clip": "range"},
    "MRAD, unclipped": {},
    "MRAD, unclipped, black box": {"access": "black"},
    "gradient norm": {"detector": "gradient-norm"},
    "gradient norm, black box": {"detector": "gradient-norm", "access": "black"},
}


def ratios(mine, outputs) -> dict:
    """LiRA, the log ratio and the marginal ratio from signals of the target ``[2, n]`` and references ``[m, n, 2]``."""
    drawn = range(1, len(mine)) if len(mine) > 1 else range(1)
    log = np.logaddexp.reduce
    evidence = lambda at, k: dv.Evidence(mine[at][k], outputs[at][:, :, k].astype(float))  # noqa: E731
    marginal = dv.Evidence(
        np.minimum(log([mine[at][0] for at in drawn]) - np.log(len(drawn)), 0),
        np.minimum(log([outputs[at][:, :, 0].astype(float) for at in drawn]) - np.log(len(drawn)), 0),
    )
    averaged = dv.Evidence(
        np.mean([mine[at][1] for at in drawn], axis=0), np.mean([outputs[at][:, :, 1] for at in drawn], axis=0)
    )
    return {
        "LiRA, cg": LiRA().score(averaged),
        "RMIA ratio, cg": np.mean([LogRatio().score(evidence(at, 0)) for at in drawn], axis=0),
        "RMIA ratio, cg, 1 query": LogRatio().score(evidence(0, 0)),
        "marginal ratio, cg": LogRatio().score(marginal),
    }


def online(cell: Cell, share, models) -> dict:
    """References trained on completions of the candidates: one random completion each, asked about the best one."""
    partial = cell.partial(share)
    gaussian = completion.ConditionalGaussian().fit(cell.auxiliary)
    best = dv.Records(gaussian.complete(partial)[0].astype(np.float32), cell.pool.y)
    lessons = gaussian.sample(partial, LESSONS, cell.seed + 99).astype(np.float32)
    inside = dv.references.splits.online(2 * N, models, cell.seed).trained_on
    rows = np.zeros((models, 2 * N * LESSONS), dtype=bool)
    for model in range(models):
        first = 2 * N * (model % LESSONS)
        rows[model, first : first + 2 * N] = inside[model]
    records = dv.Records(lessons.reshape(-1, *cell.pool.x.shape[1:]), np.tile(cell.pool.y, LESSONS))
    trained = cell.train(models).fit(
        records, rows, seed=cell.seed, classes=cell.classes, observe=[best],
        signal=lambda logits, labels: of_logits(logits, labels, NAMES),
    )  # fmt: skip
    loss, logit = cell.signals(best.x)
    outputs = trained.outputs[0].astype(float)
    return {
        "LiRA, online": LiRA(mode="online").score(dv.Evidence(logit, outputs[:, :, 1], inside)),
        "RMIA ratio, online": LogRatio(over="all").score(dv.Evidence(loss, np.minimum(outputs[:, :, 0], 0), inside)),
    }


def measured(scores, members) -> dict:
    return {name: [auc(s, members).value, tpr_at_fpr(s, members, 0.01).value] for name, s in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, one share, 4 references")
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--online", type=float, nargs="*", default=[0.4], help="shares with online references")
    parser.add_argument("--out", type=Path, default=Path("runs/partial.jsonl"))
    given = parser.parse_args()
    shares, seeds, references, models = SHARES, given.seeds, REFERENCES, ONLINE
    if given.quick:
        shares, seeds, references, models = (0.4,), 1, 4, 4
        given.out = given.out.with_suffix(".quick.jsonl")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    for seed in range(seeds):
        for name in given.only:
            run(name, seed, shares, references, [s for s in given.online if s in shares], models, done, given.out)
    for name in given.only:
        show(name, [line for line in done if line["case"] == name])


def run(name, seed, shares, references, online_shares, models, done, out) -> None:
    """Run the missing parts of a cell and append them to the file."""
    have = {(line["case"], line["seed"], line["part"]) for line in done}
    parts = ["offline", *(f"online {share}" for share in online_shares)]
    missing = [part for part in parts if (name, seed, part) not in have]
    if not missing:
        return
    cell = Cell(CASES[name], seed, references)
    right = cell.target.labels(cell.pool) == cell.pool.y
    for part in missing:
        began = time.perf_counter()
        if part == "offline":
            found = offline(cell, shares)
        else:
            share = float(part.split()[1])
            found = {share: online(cell, share, models)}
        line = {
            "case": name, "seed": seed, "part": part, "seconds": round(time.perf_counter() - began, 1),
            "accuracy": [float(right[cell.members].mean()), float(right[~cell.members].mean())],
            "found": {str(share): measured(scores, cell.members) for share, scores in found.items()},
        }  # fmt: skip
        done.append(line)
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name} seed {seed} {part}: {line['seconds']} s, accuracy {line['accuracy']}", flush=True)


def show(name, lines) -> None:
    """Mean over seeds, by share and attack."""
    if not lines:
        return
    shares = sorted({share for line in lines for share in line["found"]}, key=float)
    attacks = list(dict.fromkeys(a for line in lines for found in line["found"].values() for a in found))
    print(f"\n{name}: {len({line['seed'] for line in lines})} seeds; AUC (TPR at FPR 1 %)")
    print(f"{'known share':28}" + "".join(f"{share:>13}" for share in shares))
    for attack in attacks:
        cells = []
        for share in shares:
            values = [line["found"][share][attack] for line in lines if attack in line["found"].get(share, {})]
            cells.append(f"{np.mean(values, 0)[0]:.3f} ({np.mean(values, 0)[1]:.2f})" if values else "")
        print(f"{attack:28}" + "".join(f"{cell:>13}" for cell in cells))


if __name__ == "__main__":
    main()
