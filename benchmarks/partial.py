"""Membership from partly known records: every attack over the known share, and what MRAD is worth.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/partial.py [--quick] [--only cifar-mlp …]

Resumable: each finished cell (data set, seed, part) is a file in ``--out``, named after everything that determines
it; only missing cells run. ``--tables`` prints what is there and runs nothing; ``--timing`` times the scoring alone.
800 members, 800 others; the auxiliary records (4,000 where there are as many) are disjoint from both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge import store
from divulge.attacks import Learned, LiRA, LogRatio
from divulge.evaluation import auc, tpr_at_fpr
from divulge.evidence import of_logits
from divulge.signals import completion
from divulge.targets import TorchTarget
from partial_data import DATA, attributes

N, AUXILIARY, DRAWS, LESSONS, SHADOWS = 800, 4000, 8, 8, 2
NAMES = ("negative-loss", "scaled-logit")
# Part of every cell's name: raise when the arithmetic of a part changes.
EDITION = {"offline": 2, "online": 2, "imputers": 1, "descent": 1, "matching": 1}


class Channels(nn.Module):
    """Channels last, as the records are, to channels first."""

    def forward(self, x):
        """One batch."""
        return x.movedim(-1, 1)


@dataclass(frozen=True)
class Case:
    """A data set, a network, how it is trained, and what is tried on it."""

    data: str
    network: str = "mlp"
    epochs: int = 150
    lr: float = 3e-3
    dropout: float = 0.0
    weight_decay: float = 0.0
    masks: tuple[str, ...] = ("share",)
    references: int = 10
    models: int = 16
    shares: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.9)
    online: tuple[float, ...] = (0.4,)
    matching: tuple[float, ...] = (0.4, 0.9)

    def make(self, shape, classes):
        """A network for records of this shape."""
        if self.network == "mlp":
            return nn.Sequential(
                nn.Flatten(), nn.Linear(int(np.prod(shape)), 256), nn.ReLU(), nn.Dropout(self.dropout),
                nn.Linear(256, classes),
            )  # fmt: skip
        return nn.Sequential(
            Channels(),
            nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(48 * 4 * 4, classes),
        )  # fmt: skip


BLOCK = "block:top-left"
CASES = {
    "cifar-mlp": Case(
        "cifar", epochs=250, masks=("share", BLOCK), shares=(0.1, 0.2, 0.4, 0.6, 0.9, 0.95), online=(0.4, 0.2, 0.9)
    ),
    "fashion-mlp": Case("fashion", masks=("share", BLOCK)),
    "location-mlp": Case("location", epochs=60, lr=2e-3, online=(0.4, 0.9)),
    "adult-mlp": Case("adult", epochs=200, masks=("attributes", "share"), online=(0.4, 0.9)),
    "cifar-regularised": Case("cifar", epochs=100, dropout=0.5, weight_decay=0.5, shares=(0.2, 0.4, 0.9)),
    "cifar-cnn": Case("cifar", "cnn", epochs=60, lr=4e-3, references=6, models=10, shares=(0.2, 0.4, 0.9), matching=()),
}


class Cell:
    """One data set, network and seed."""

    def __init__(self, case: Case, seed: int):
        x, y = DATA[case.data]()
        order = np.random.default_rng(seed).permutation(len(x))
        x, y = x[order], y[order]
        self.case, self.seed, self.classes = case, seed, int(y.max()) + 1
        self.pool, self.auxiliary = dv.Records(x[: 2 * N], y[: 2 * N]), dv.Records(x[2 * N :], y[2 * N :])[:AUXILIARY]
        self.members = np.arange(2 * N) < N
        self.gaussian = completion.ConditionalGaussian().fit(self.auxiliary)

    @cached_property
    def target(self) -> TorchTarget:
        """Trained on the whole records of the members."""
        return TorchTarget(self.train(2).one(self.pool[:N], seed=self.seed, classes=self.classes), device="cpu")

    def train(self, count: int):
        """How networks are trained, target and references alike."""
        case, shape = self.case, self.pool.x.shape[1:]
        return dv.references.Train(
            lambda: case.make(shape, self.classes), count=count, epochs=case.epochs, optimizer="adamw",
            lr=case.lr, weight_decay=case.weight_decay, batch_size=100, stop_at_accuracy=0.995, engine="serial",
            device="cpu",
        )  # fmt: skip

    def rows(self, count: int):
        """Which auxiliary records each offline model is trained on."""
        rng = np.random.default_rng(self.seed + 1)
        size = min(N, len(self.auxiliary) // 2)
        chosen = [rng.choice(len(self.auxiliary), size, replace=False) for _ in range(count)]
        return np.stack([np.isin(np.arange(len(self.auxiliary)), rows) for rows in chosen])

    def known(self, mask: str, share: float) -> np.ndarray:
        """What is known of every record: one mask for all."""
        shape = self.pool.x.shape[1:]
        if mask == "whole":
            return np.ones(shape, dtype=bool)
        if mask != "attributes":
            return completion.mask(f"{mask}:{share}", shape, seed=self.seed)
        names = list(dict.fromkeys(name.split("=")[0] for name in attributes()))
        kept = np.random.default_rng(self.seed).permutation(names)[: max(1, round(share * len(names)))]
        return completion.mask(f"columns:{','.join(kept)}", shape, columns=attributes())

    def partial(self, mask: str, share: float) -> dv.PartialRecords:
        """What is known of the candidates."""
        return dv.PartialRecords(self.pool.x, self.pool.y, self.known(mask, share))

    def asked(self, place) -> list[dv.Records]:
        """What models are asked about: best completion and draws of the candidates, best one of the auxiliary."""
        partial, held = self.partial(*place), self.auxiliary
        own = self.gaussian.complete(dv.PartialRecords(held.x, held.y, self.known(*place)))[0]
        best = self.gaussian.complete(partial)[0]
        drawn = [] if place[0] == "whole" else self.gaussian.sample(partial, DRAWS, self.seed)
        views = [dv.Records(x.astype(np.float32), self.pool.y) for x in (best, *drawn)]
        return [dv.Records(own.astype(np.float32), held.y), *views]

    def signals(self, x) -> np.ndarray:
        """Both signals of the target, ``[2, n]``."""
        records = dv.Records(np.asarray(x, dtype=np.float32), self.pool.y)
        return of_logits(self.target.logits(records), records.y, NAMES).T


def both(logits, labels):
    """What is kept of a reference model's answer."""
    return of_logits(logits, labels, NAMES)


def offline(cell: Cell, places, *, pool=None) -> dict:
    """References trained on auxiliary records alone."""
    places = [*places, ("whole", 1.0)]
    views = [cell.asked(place) for place in places]
    count = cell.case.references
    rows = cell.rows(count)
    outputs = iter(
        cell.train(count).fit(
            cell.auxiliary, rows, seed=cell.seed, classes=cell.classes, observe=[x for each in views for x in each],
            signal=both, pool=pool,
        ).outputs
    )  # fmt: skip
    scores = {}
    for place, (_, *each) in zip(places, views, strict=True):
        population = next(outputs)[:, :, 1]
        mine = [cell.signals(records.x) for records in each]
        scores[place] = ratios(mine, [next(outputs) for _ in each], population, rows)
    return scores


def ratios(mine, outputs, population, rows) -> dict:
    """Every attack with offline references.

    Args:
        mine: signals of the target on each view, ``[2, n]``.
        outputs: of the references on each view, ``[m, n, 2]``.
        population: their scaled logits of the auxiliary records' completions, ``[m, z]``.
        rows: which of these each was trained on.
    """
    drawn = range(1, len(mine)) if len(mine) > 1 else range(1)
    log, count = np.logaddexp.reduce, np.log(len(drawn))
    evidence = lambda at, k: dv.Evidence(mine[at][k], outputs[at][:, :, k].astype(float))  # noqa: E731
    marginal = dv.Evidence(
        np.minimum(log([mine[at][0] for at in drawn]) - count, 0),
        np.minimum(log([outputs[at][:, :, 0].astype(float) for at in drawn]) - count, 0),
    )
    averaged = dv.Evidence(
        np.mean([mine[at][1] for at in drawn], axis=0), np.mean([outputs[at][:, :, 1] for at in drawn], axis=0)
    )
    lessons = dv.Evidence(
        mine[0][1], outputs[0][:, :, 1], population=np.zeros(population.shape[1]), population_references=population,
        population_trained_on=rows,
    )  # fmt: skip
    return {
        "LOSS, cg": mine[0][0],
        "LiRA, cg": LiRA().score(averaged),
        "RMIA ratio, cg": np.mean([LogRatio().score(evidence(at, 0)) for at in drawn], axis=0),
        "RMIA ratio, cg, 1 query": LogRatio().score(evidence(0, 0)),
        "marginal ratio, cg": LogRatio().score(marginal),
        "learned, cg, 1 query": Learned().score(lessons),
    }


IMPUTERS = {
    "mean": completion.Mean(per_class=False),
    "class mean": completion.Mean(),
    "KNN": completion.KNN(),
    "hot deck": completion.HotDeck(),
    "autoencoder": completion.Autoencoder(),
}


def imputers(cell: Cell, places) -> dict:
    """Plain loss on completions by every other imputer."""
    fitted = {name: imputer.fit(cell.auxiliary) for name, imputer in IMPUTERS.items()}
    scores = {}
    for place in places:
        partial = cell.partial(*place)
        scores[place] = {"LOSS, zero": cell.signals(partial.x)[0]}
        for name, imputer in fitted.items():
            scores[place][f"LOSS, {name}"] = cell.signals(imputer.complete(partial)[0])[0]
    return scores


def descent(cell: Cell, places) -> dict:
    """MRAD and its kin: they descend the target's own loss."""
    fitted = {kind: completion.MRAD(detector=kind).fit(cell.auxiliary, cell.seed) for kind in DETECTORS}
    train, rows = cell.train(2), cell.rows(SHADOWS)
    shadows = [
        TorchTarget(train.one(cell.auxiliary[row], seed=cell.seed + 100 + at, classes=cell.classes), device="cpu")
        for at, row in enumerate(rows)
    ]
    scores = {}
    for place in places:
        partial, found = cell.partial(*place), {}
        for name, options in MRADS.items():
            settings = completion.MRAD(**options)
            found[name] = replace(fitted[settings.detector], settings=settings).measure(cell.target, partial)
        for name, kind in (("MRAD, unclipped, δ_s/δ", "cade"), ("gradient norm, δ_s/δ", "gradient-norm")):
            found[name] = fitted[kind].measure(cell.target, partial, shadows=shadows)
        scores[place] = found
    return scores


DETECTORS = ("cade", "msad", "nci", "gradient-norm")
MRADS = {
    "MRAD, clipped": {"clip": "range"},
    "MRAD, clipped, MSAD": {"clip": "range", "detector": "msad"},
    "MRAD, clipped, NCI": {"clip": "range", "detector": "nci"},
    "MRAD, unclipped": {},
    "MRAD, unclipped, MSAD": {"detector": "msad"},
    "MRAD, unclipped, NCI": {"detector": "nci"},
    "MRAD, unclipped, black box": {"access": "black"},
    "gradient norm": {"detector": "gradient-norm"},
    "gradient norm, black box": {"detector": "gradient-norm", "access": "black"},
}


def matching(cell: Cell, places) -> dict:
    """DLG's gradient matching."""
    fitted = completion.GradientMatching().fit(cell.auxiliary)
    return {place: {"gradient matching": fitted.measure(cell.target, cell.partial(*place))} for place in places}


def online(cell: Cell, places) -> dict:
    """References trained on completions of the candidates: one random completion each, asked about the best one."""
    (place,) = places
    partial, models = cell.partial(*place), cell.case.models
    best = dv.Records(cell.gaussian.complete(partial)[0].astype(np.float32), cell.pool.y)
    lessons = cell.gaussian.sample(partial, LESSONS, cell.seed + 99).astype(np.float32)
    inside = dv.references.splits.online(2 * N, models, cell.seed).trained_on
    rows = np.zeros((models, 2 * N * LESSONS), dtype=bool)
    for model in range(models):
        first = 2 * N * (model % LESSONS)
        rows[model, first : first + 2 * N] = inside[model]
    records = dv.Records(lessons.reshape(-1, *cell.pool.x.shape[1:]), np.tile(cell.pool.y, LESSONS))
    trained = cell.train(models).fit(
        records, rows, seed=cell.seed, classes=cell.classes, observe=[best], signal=both,
    )  # fmt: skip
    loss, logit = cell.signals(best.x)
    outputs = trained.outputs[0].astype(float)
    return {
        place: {
            "LiRA, online": LiRA(mode="online").score(dv.Evidence(logit, outputs[:, :, 1], inside)),
            "RMIA ratio, online": LogRatio(over="all").score(
                dv.Evidence(loss, np.minimum(outputs[:, :, 0], 0), inside)
            ),
        }
    }


PARTS = {"offline": offline, "online": online, "imputers": imputers, "descent": descent, "matching": matching}


@dataclass(frozen=True)
class Task:
    """A cell, by everything that determines it."""

    name: str
    case: Case
    seed: int
    part: str
    places: tuple[tuple[str, float], ...]

    def path(self, folder: Path) -> Path:
        """The file of its result."""
        models = {"offline": self.case.references, "online": self.case.models}.get(self.part)
        case = {k: v for k, v in asdict(self.case).items() if k not in _PLANNED}
        sizes = (N, AUXILIARY, DRAWS, LESSONS, SHADOWS, EDITION[self.part], torch.__version__)
        key = store.digest(json.dumps([case, models, self.seed, self.part, self.places, sizes]))[:10]
        share = f"-{self.places[0][1]}" if self.part == "online" else ""
        return folder / f"{self.name}-{self.seed}-{self.part}{share}-{key}.json"


# Fields that say which cells there are, not what one finds.
_PLANNED = ("masks", "shares", "online", "matching", "references", "models")


def planned(name: str, case: Case, seed: int) -> list[Task]:
    """The cells of one data set and seed."""
    every = tuple((mask, share) for mask in case.masks for share in case.shares)
    first = case.masks[0]
    tasks = [Task(name, case, seed, part, every) for part in ("offline", "descent")]
    tasks.append(Task(name, case, seed, "imputers", tuple((first, share) for share in case.shares)))
    tasks += [Task(name, case, seed, "online", ((first, share),)) for share in case.online]
    if case.matching:
        tasks.append(Task(name, case, seed, "matching", tuple((first, share) for share in case.matching)))
    return tasks


def run(task: Task, cell: Cell, path: Path) -> None:
    """Run one cell and file its result."""
    began, used = time.perf_counter(), time.process_time()
    scores = PARTS[task.part](cell, task.places)
    right = cell.target.labels(cell.pool) == cell.pool.y
    found = [
        {"mask": mask, "share": share, "attack": attack, "auc": _plain(auc(s, cell.members)),
         "tpr": _plain(tpr_at_fpr(s, cell.members, 0.01))}
        for (mask, share), attacks in scores.items() for attack, s in attacks.items()
    ]  # fmt: skip
    result = {
        "case": task.name, "seed": task.seed, "part": task.part, "seconds": round(time.perf_counter() - began, 1),
        "processor": round(time.process_time() - used, 1),
        "accuracy": [float(right[cell.members].mean()), float(right[~cell.members].mean())], "found": found,
    }  # fmt: skip
    with store.atomic(path) as temporary:
        Path(temporary).write_text(json.dumps(result))
    print(
        f"{path.name}: {result['seconds']} s ({result['processor']} s of processor), accuracy {result['accuracy']}",
        flush=True,
    )


def _plain(estimate):
    return [estimate.value, estimate.low, estimate.high]


def show(name: str, results) -> None:
    """Mean over seeds, by share and attack."""
    rows: dict = {}
    for result in results:
        for line in result["found"]:
            rows.setdefault((line["mask"], line["attack"]), {}).setdefault(line["share"], []).append(line)
    accuracy = np.mean([result["accuracy"] for result in results], axis=0)
    seeds = len({result["seed"] for result in results})
    print(f"\n### {name}: {seeds} seeds, training accuracy {accuracy[0]:.2f}, other records {accuracy[1]:.2f}")
    whole = {attack: found for (mask, attack), found in rows.items() if mask == "whole"}
    for mask in dict.fromkeys(mask for mask, _ in rows if mask != "whole"):
        part = {attack: found | whole.get(attack, {}) for (m, attack), found in rows.items() if m == mask}
        shares = sorted({share for found in part.values() for share in found})
        for measure in ("auc", "tpr"):
            print(f"\n{mask}: {'AUC' if measure == 'auc' else 'TPR at FPR 1 %'}\n")
            print("| known share | " + " | ".join(f"{share:g}" for share in shares) + " |")
            print("|---" * (len(shares) + 1) + "|")
            for attack, found in part.items():
                cells = [pooled([line[measure] for line in found.get(share, [])]) for share in shares]
                print(f"| {attack} | " + " | ".join(cells) + " |")


def pooled(estimates) -> str:
    """Mean over seeds with its 95 % interval: every seed has its own records and models, so errors add as squares."""
    if not estimates:
        return ""
    value, low, high = np.array(estimates).T
    below, above = (np.sqrt(((value - end) ** 2).sum()) / len(value) for end in (low, high))
    return f"{value.mean():.3f} [{value.mean() - below:.2f}, {value.mean() + above:.2f}]"


def timing() -> None:
    """800 records, 10 trained references, 8 completions: completing, asking and scoring, without training."""
    cell = Cell(CASES["cifar-mlp"], 0)
    cell.pool = cell.pool[N // 2 : N // 2 + N]
    cell.__dict__["target"] = Cell(CASES["cifar-mlp"], 0).target
    with tempfile.TemporaryDirectory() as folder:
        offline(cell, [("share", 0.4)], pool=folder)
        wall, cpu = time.perf_counter(), time.process_time()
        offline(cell, [("share", 0.4)], pool=folder)
        print(f"{time.perf_counter() - wall:.1f} s, {time.process_time() - cpu:.1f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, one share, 4 references")
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--timing", action="store_true", help="time the scoring alone")
    parser.add_argument("--out", type=Path, default=Path("runs/partial"))
    given = parser.parse_args()
    if given.timing:
        timing()
        return
    found: dict[str, list] = {name: [] for name in given.only}
    for seed in range(1 if given.quick else given.seeds):
        for name in given.only:
            case = CASES[name]
            if given.quick:
                case = replace(case, references=4, models=4, shares=(0.4,), online=(0.4,), matching=())
            tasks = [task for task in planned(name, case, seed) if task.part in given.parts]
            found[name] += finished(tasks, given.out, given.tables)
    for name, results in found.items():
        if results:
            show(name, results)


def finished(tasks, folder: Path, only_there: bool) -> list:
    """Results of these cells of one data set and seed; what is missing is run first."""
    cell = None
    for task in tasks:
        if not only_there and not task.path(folder).exists():
            cell = cell or Cell(task.case, task.seed)
            run(task, cell, task.path(folder))
    return [json.loads(task.path(folder).read_text()) for task in tasks if task.path(folder).exists()]


if __name__ == "__main__":
    main()
