"""Demonstration audit on Fashion-MNIST: all classes known, then one unseen."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, provenance, seeds, store
from divulge.auditing import audit
from divulge.auditing.result import KIND
from divulge.references import Train
from divulge.references.progress import ProgressContext, no_progress
from divulge.run_directory import RunDirectory
from divulge.types import Records

if TYPE_CHECKING:
    from safetensors import torch as tensors
    from torch import nn

    from divulge.auditing import Audit
    from divulge.run_directory import RunDraft
else:
    nn = lazy.module("torch.nn")
    tensors = lazy.module("safetensors.torch")

UNSEEN = 3
RECIPES = ("loss", "calibrated", "lira", "rmia", "learned", "quantile-trees", "transductive")


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the demo: records of each set, reference models, epochs."""

    members: int
    population: int
    count: int
    epochs: int


FULL = Size(members=2500, population=5000, count=16, epochs=50)
QUICK = Size(members=500, population=1500, count=4, epochs=20)


def fashion_mnist() -> Records:
    """Load 10,000 images of clothing in 10 classes, 28 x 28 grey values in [0, 1] (Zalando, MIT licence).

    Examples:
        >>> fashion_mnist()
        Records(n=10000, shape=(28, 28), classes=10)
    """
    with resources.as_file(resources.files("divulge") / "data" / "fashion_mnist_small.npz") as path:
        arrays = store.read_arrays(path)
    x = np.concatenate([arrays["x_train"], arrays["x_test"]]).astype(np.float32) / np.float32(255)
    return Records(x, np.concatenate([arrays["y_train"], arrays["y_test"]]))


def network() -> nn.Module:
    """Return the classifier of the demo: one hidden layer of 256."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def run(
    out: Path,
    *,
    seed: int = 0,
    size: Size = FULL,
    overwrite: bool = False,
    watching: ProgressContext = no_progress,
) -> tuple[Audit, Audit]:
    """Train a target, then audit it twice: all classes known to the auditor, and class 3 (dresses) unseen.

    The first audit lies in ``out``, the second in ``out/unseen``; the report in ``out`` shows both. The target and
    the records lie in ``out/inputs``, so that both plans can be run again and changed.

    Args:
        out: run directory.
        seed: of every random draw.
        size: `FULL` or `QUICK`.
        overwrite: replace a finished run in ``out``.
        watching: called with a title for each audit, gives the context in which its progress is shown.
    """
    network()  # says what is missing before anything is made
    with RunDirectory(out).writing(KIND, store.hash_values("demo", size, seed), overwrite=overwrite) as draft:
        return _run_both_audits(draft, seed, size, watching)


def _run_both_audits(draft: RunDraft, seed: int, size: Size, watching: ProgressContext) -> tuple[Audit, Audit]:
    records = fashion_mnist()
    order = seeds.generator(seed, "demo").permutation(len(records))
    members = records[order[: size.members]]
    nonmembers = records[order[size.members : 2 * size.members]]
    population = records[order[2 * size.members : 2 * size.members + size.population]]
    training = Train(network, count=size.count, epochs=size.epochs, optimizer="adam")
    target = training.one(members, seed=seeds.derive_seed(seed, "demo target"))
    _write_inputs(
        draft.path / "inputs", target, {"members": members, "nonmembers": nonmembers, "population": population}
    )
    shared: dict[str, Any] = {
        "members": members,
        "nonmembers": nonmembers,
        "recipes": RECIPES,
        "references": training,
        "seed": seed,
        "pool": draft.home / "pool",
    }
    plan = _plan(size, seed)
    with watching("reference models, all classes known") as progress:
        all_classes_audit = audit(target, population=population, out=draft, plan=plan, progress=progress, **shared)
    without_unseen = population[np.asarray(population.y) != UNSEEN]
    plan |= {"unseen_classes": [UNSEEN], "access": {"drop_classes": [UNSEEN]}, "folder": "../inputs"}
    shared |= {"population": without_unseen, "unseen_classes": (UNSEEN,), "plan": plan}
    with (
        watching(f"reference models, class {UNSEEN} unseen") as progress,
        draft.part("unseen", KIND, store.hash_values("demo", size, seed)) as part,
    ):
        unseen_class_audit = audit(target, out=part, progress=progress, **shared)
    all_classes_audit.report(
        draft.path / "report.html", beside={"unseen": unseen_class_audit}, made=provenance.read_provenance(draft.path)
    )
    return all_classes_audit, unseen_class_audit


def _plan(size: Size, seed: int) -> dict[str, Any]:
    """Return the plan of the first audit, relative to its run directory."""
    return {
        "folder": "inputs",
        "seed": seed,
        "recipes": list(RECIPES),
        "target": {"model": "target.safetensors", "factory": f"{__name__}:network"},
        "data": {"members": "members.npz", "nonmembers": "nonmembers.npz", "population": "population.npz"},
        "references": {
            "make_model": f"{__name__}:network",
            "count": size.count,
            "epochs": size.epochs,
            "optimizer": "adam",
        },
    }


def _write_inputs(folder: Path, target: nn.Module, sets: dict[str, Records]) -> None:
    """Write target and records to the paths that the plans name."""
    store.make_private_directory(folder)
    store.write_bytes(folder / "target.safetensors", tensors.save(target.state_dict()))
    for name, records in sets.items():
        assert records.y is not None
        store.write_arrays(folder / f"{name}.npz", {"x": records.x, "y": records.y})
