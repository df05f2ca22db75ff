"""Membership from partly known records: every attack by known share, and what MRAD is worth.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/partial.py [--quick] [--only cifar-mlp …]

Resumable: each finished cell (data set, seed, part) is a file in ``--out``, named after everything that determines
it; only missing cells run. ``--tables`` prints what is there and runs nothing; ``--timing`` times the scoring alone.
800 members, 800 others; the auxiliary records (4,000 where there are as many) are disjoint from both.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

import divulge as dv
from divulge import completion, signals, store
from divulge.attacks import BASE, Learned, LiRA
from divulge.evaluation import auc, tpr_at_fpr
from divulge.evidence import signals_from_logits
from divulge.targets import TorchTarget
from partial_cases import AUXILIARY, CASES, DRAWS, NAMES, Case, Cell, N

LESSONS, SHADOWS = 8, 2
# Part of every cell's name: raise when the arithmetic of a part changes.
EDITION = {"offline": 2, "online": 3, "imputers": 1, "descent": 1, "matching": 1}


def both(logits, labels):
    """What is kept of a reference model's answer."""
    return signals_from_logits(logits, labels, NAMES)


def offline(cell: Cell, places, pool) -> dict:
    """References trained on auxiliary records alone, and kept for other masks."""
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
    draw_indices = range(1, len(mine)) if len(mine) > 1 else range(1)
    log, count = np.logaddexp.reduce, np.log(len(draw_indices))
    evidence = lambda index, k: dv.Evidence(mine[index][k], outputs[index][:, :, k].astype(float))  # noqa: E731
    marginal = dv.Evidence(
        np.minimum(log([mine[index][0] for index in draw_indices]) - count, 0),
        np.minimum(log([outputs[index][:, :, 0].astype(float) for index in draw_indices]) - count, 0),
    )
    averaged = dv.Evidence(
        np.mean([mine[index][1] for index in draw_indices], axis=0),
        np.mean([outputs[index][:, :, 1] for index in draw_indices], axis=0),
    )
    lessons = dv.Evidence(
        mine[0][1], outputs[0][:, :, 1], population=np.zeros(population.shape[1]), population_references=population,
        population_trained_on=rows,
    )  # fmt: skip
    return {
        "LOSS, cg": mine[0][0],
        "LiRA, cg": LiRA().score(averaged),
        "RMIA ratio, cg": np.mean([BASE(scale=1.0).score(evidence(index, 0)) for index in draw_indices], axis=0),
        "RMIA ratio, cg, 1 query": BASE(scale=1.0).score(evidence(0, 0)),
        "marginal ratio, cg": BASE(scale=1.0).score(marginal),
        "learned, cg, 1 query": Learned().score(lessons),
    }


IMPUTERS = {
    "mean": completion.Mean(per_class=False),
    "class mean": completion.Mean(),
    "KNN": completion.KNN(),
    "hot deck": completion.HotDeck(),
    "autoencoder": completion.Autoencoder(),
}


def imputers(cell: Cell, places, _) -> dict:
    """Plain loss on completions by every other imputer."""
    fitted = {name: imputer.fit(cell.auxiliary) for name, imputer in IMPUTERS.items()}
    scores = {}
    for place in places:
        partial = cell.partial(*place)
        scores[place] = {"LOSS, zero": cell.signals(partial.x)[0]}
        for name, imputer in fitted.items():
            scores[place][f"LOSS, {name}"] = cell.signals(imputer.complete(partial)[0])[0]
    return scores


def descent(cell: Cell, places, _) -> dict:
    """MRAD and its kin: they descend the target's own loss."""
    fitted = {
        detector_name: signals.MRAD(detector=detector_name, **OURS).fit(cell.auxiliary, cell.seed)
        for detector_name in DETECTORS
    }
    train, rows = cell.train(2), cell.rows(SHADOWS)
    shadows = [
        TorchTarget(
            train.train_model(cell.auxiliary[row], seed=cell.seed + 100 + i, classes=cell.classes), device="cpu"
        )
        for i, row in enumerate(rows)
    ]
    scores = {}
    for place in places:
        partial, scores_by_name = cell.partial(*place), {}
        for name, options in MRADS.items():
            settings = signals.MRAD(**options, **OURS)
            scores_by_name[name] = replace(fitted[settings.detector], settings=settings).measure(cell.target, partial)
        for name, detector_name in (("MRAD, unclipped, δ_s/δ", "cade"), ("gradient norm, δ_s/δ", "gradient-norm")):
            scores_by_name[name] = fitted[detector_name].measure(cell.target, partial, shadows=shadows)
        scores[place] = scores_by_name
    return scores


# These tables start from the mean and take 5 directions; `mrad.py` has the published zeros and 100.
OURS = {"start": completion.Mean(per_class=False), "directions": 5}
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


def matching(cell: Cell, places, _) -> dict:
    """DLG's gradient matching."""
    fitted = signals.GradientMatching().fit(cell.auxiliary)
    return {place: {"gradient matching": fitted.measure(cell.target, cell.partial(*place))} for place in places}


def online(cell: Cell, places, _) -> dict:
    """References trained on completions of the candidates: one random completion each, asked about the best one."""
    (place,) = places
    partial, models = cell.partial(*place), cell.case.models
    best = dv.Records(cell.gaussian.complete(partial)[0].astype(np.float32), cell.pool.y)
    lessons = cell.gaussian.sample(partial, LESSONS, cell.seed + 99).astype(np.float32)
    inside = dv.references.splits.online(2 * N, models, cell.seed).trained_on
    rows = np.zeros((models, 2 * N * LESSONS), dtype=bool)
    for model in range(models):
        start = 2 * N * (model % LESSONS)
        rows[model, start : start + 2 * N] = inside[model]
    records = dv.Records(lessons.reshape(-1, *cell.pool.x.shape[1:]), np.tile(cell.pool.y, LESSONS))
    trained = cell.train(models).fit(
        records, rows, seed=cell.seed, classes=cell.classes, observe=[best], signal=both,
    )  # fmt: skip
    loss, logit = cell.signals(best.x)
    outputs = trained.outputs[0].astype(float)
    return {
        place: {
            "LiRA, online": LiRA(mode="online").score(dv.Evidence(logit, outputs[:, :, 1], inside)),
            "RMIA ratio, online": BASE("online").score(dv.Evidence(loss, np.minimum(outputs[:, :, 0], 0), inside)),
            "learned, online": Learned("online").score(dv.Evidence(logit, outputs[:, :, 1], inside)),
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
        key = store.hash_values(json.dumps([case, models, self.seed, self.part, self.places, sizes]))[:10]
        mask, share = self.places[0]
        place = f"{mask.partition(':')[0]}-{share}" if len(self.places) == 1 else mask.partition(":")[0]
        return folder / f"{self.name}-{self.seed}-{self.part}-{place}-{key}.json"


# Fields that say which cells there are, not what one finds.
_PLANNED = ("masks", "shares", "online", "matching", "references", "models")


def planned(name: str, case: Case, seed: int) -> list[Task]:
    """The cells of one data set and seed."""
    places_by_mask = {mask: tuple((mask, share) for share in case.shares) for mask in case.masks}
    first_mask = case.masks[0]
    tasks = [
        Task(name, case, seed, part, places) for places in places_by_mask.values() for part in ("offline", "descent")
    ]
    tasks += [Task(name, case, seed, "online", ((first_mask, share),)) for share in case.online]
    tasks.append(Task(name, case, seed, "imputers", places_by_mask[first_mask]))
    if case.matching:
        tasks.append(Task(name, case, seed, "matching", tuple((first_mask, share) for share in case.matching)))
    return tasks


def run(task: Task, cell: Cell, path: Path) -> None:
    """Run one cell and file its result."""
    began, used = time.perf_counter(), time.process_time()
    scores = PARTS[task.part](cell, task.places, path.parent / "pool")
    right = cell.target.labels(cell.pool) == cell.pool.y
    results = [
        {"mask": mask, "share": share, "attack": attack, "auc": _plain(auc(s, cell.members)),
         "tpr": _plain(tpr_at_fpr(s, cell.members, 0.01))}
        for (mask, share), attacks in scores.items() for attack, s in attacks.items()
    ]  # fmt: skip
    result = {
        "case": task.name, "seed": task.seed, "part": task.part, "seconds": round(time.perf_counter() - began, 1),
        "processor": round(time.process_time() - used, 1),
        "accuracy": [float(right[cell.members].mean()), float(right[~cell.members].mean())], "found": results,
    }  # fmt: skip
    with store.atomic_write(path) as temporary:
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
    on_whole_records = {attack: estimates for (mask, attack), estimates in rows.items() if mask == "whole"}
    for mask in dict.fromkeys(mask for mask, _ in rows if mask != "whole"):
        part = {
            attack: estimates | on_whole_records.get(attack, {}) for (m, attack), estimates in rows.items() if m == mask
        }
        shares = sorted({share for estimates in part.values() for share in estimates})
        for measure in ("auc", "tpr"):
            print(f"\n{mask}: {'AUC' if measure == 'auc' else 'TPR at FPR 1 %'}\n")
            print("| known share | " + " | ".join(f"{share:g}" for share in shares) + " |")
            print("|---" * (len(shares) + 1) + "|")
            for attack, estimates in part.items():
                cells = [pooled([line[measure] for line in estimates.get(share, [])], seeds) for share in shares]
                print(f"| {attack} | " + " | ".join(cells) + " |")


def pooled(estimates, seeds: int) -> str:
    """Mean over seeds with its 95 % interval: every seed has its own records and models, so errors add as squares.

    A cell that not all seeds have run says how many have.
    """
    if not estimates:
        return ""
    value, low, high = np.array(estimates).T
    below, above = (np.sqrt(((value - end) ** 2).sum()) / len(value) for end in (low, high))
    seeds_note = "" if len(value) >= seeds else f" ({len(value)} of {seeds} seeds)"
    return f"{value.mean():.3f} [{value.mean() - below:.2f}, {value.mean() + above:.2f}]{seeds_note}"


def timing(pool: Path) -> None:
    """800 records, 10 trained references, 8 completions: completing, asking and scoring, without training."""
    cell = Cell(CASES["cifar-mlp"], 0)
    _ = cell.target  # trained on the members it has now
    cell.pool, cell.members = cell.pool[N // 2 : N // 2 + N], cell.members[N // 2 : N // 2 + N]
    offline(cell, [("share", 0.4)], pool)
    wall, cpu = time.perf_counter(), time.process_time()
    offline(cell, [("share", 0.4)], pool)
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
    arguments = parser.parse_args()
    if arguments.timing:
        timing(arguments.out / "pool")
        return
    outcomes: dict[str, list] = {name: [] for name in arguments.only}
    for seed in range(1 if arguments.quick else arguments.seeds):
        for name in arguments.only:
            case = CASES[name]
            if arguments.quick:
                case = replace(case, references=4, models=4, shares=(0.4,), online=(0.4,), matching=())
            tasks = [task for task in planned(name, case, seed) if task.part in arguments.parts]
            outcomes[name] += finished(tasks, arguments.out, arguments.tables)
    for name, results in outcomes.items():
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
