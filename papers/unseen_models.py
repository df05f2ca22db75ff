"""Targets and reference models for `unseen_classes.py`: trained once, kept, and taken up again after a stop.

Of every data set and seed, in the folder ``<out>/<data set>-<seed>``:

- ``target.npz``: logits and hidden layer of the target on every record,
- ``references-<f>-of-<folds>.npz``: logits of reference models trained on halves of the population without fold f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from data_sets import DataSet
from divulge import references, seeds, store
from divulge.types import Records

REFERENCES = 16
BATCH = 128


@dataclass(frozen=True)
class Case:
    """One data set in one random order: members, non-members, population."""

    key: str
    seed: int
    data: DataSet
    x: np.ndarray
    y: np.ndarray
    group: np.ndarray
    fold: np.ndarray
    folds: int
    raw: np.ndarray
    folder: Path
    weight_decay: float = 0.0
    noise: float = 0.0

    @property
    def held(self) -> slice:
        """The population's rows."""
        return slice(len(self.x) - self.data.population, None)

    @property
    def candidates(self) -> slice:
        """The rows of members and non-members."""
        return slice(0, len(self.x) - self.data.population)

    @property
    def classes(self) -> int:
        """Size of the label set."""
        return int(self.y.max()) + 1


def case(
    key: str, data: DataSet, seed: int, folds: int, out: Path, weight_decay: float = 0.0, epsilon: float | None = None
) -> Case:
    """Members first, then non-members, then the population; classes (or subgroups) dealt into folds.

    ``weight_decay`` and ``epsilon`` (DP-SGD at δ = 1e-5) defend the target; reference models are trained alike.
    """
    rng = seeds.generator(seed, "unseen", key)
    size = min(len(data.x), data.members + data.population + data.outsiders)
    rows = rng.permutation(len(data.x))[:size]
    names, codes = np.unique(data.group, return_inverse=True)
    dealt = (rng.permutation(len(names)) % folds)[codes]
    noise = 0.0 if epsilon is None else noise_for(epsilon, data)
    defended = f"-decay-{weight_decay:g}" * (weight_decay > 0) + f"-epsilon-{epsilon}" * (epsilon is not None)
    folder = out / f"{key}-{seed}{defended}"
    raw = (data.x if data.raw is None else data.raw)[rows]
    return Case(
        key,
        seed,
        data,
        data.x[rows],
        data.y[rows],
        data.group[rows],
        dealt[rows],
        folds,
        raw,
        folder,
        weight_decay,
        noise,
    )


def noise_for(epsilon: float, data: DataSet) -> float:
    """The noise multiplier that spends ``epsilon`` at δ = 1e-5 on the members."""
    low, high = 0.3, 100.0
    for _ in range(30):
        noise = (low * high) ** 0.5
        spent = references.Private(noise).epsilon(
            records=data.members, batch_size=BATCH, epochs=data.epochs, delta=1e-5
        )
        low, high = (noise, high) if spent > epsilon else (low, noise)
    return high


def inputs(case: Case, rows: np.ndarray) -> np.ndarray:
    """What a network sees: the records, whitened on ``rows`` where the data set asks for it."""
    if not case.data.components:
        return case.x
    from sklearn.decomposition import PCA

    fitted = PCA(case.data.components, whiten=True, svd_solver="randomized", random_state=0).fit(case.x[rows])
    return fitted.transform(case.x).astype(np.float32)


def network(width: int, hidden: int, classes: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def settings(case: Case, width: int, count: int) -> references.Train:
    return references.Train(
        network(width, case.data.hidden, case.classes),
        count=count,
        epochs=case.data.epochs,
        optimizer="adam",
        lr=3e-3,
        batch_size=BATCH,
        weight_decay=case.weight_decay,
        privacy=references.Private(case.noise) if case.noise else None,
        engine="auto" if case.noise else "stacked",
    )


def kept(path: Path, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays at ``path``, made and written first where they are not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        store.write_arrays(path, make())
    return store.read_arrays(path)


def target(case: Case) -> dict[str, np.ndarray]:
    def make() -> dict[str, np.ndarray]:
        rows = np.arange(case.data.members)
        x = inputs(case, rows)
        config = settings(case, x.shape[1], 2)
        net = config.train_model(Records(x[rows], case.y[rows]), seed=case.seed, classes=case.classes)
        with torch.inference_mode():
            hidden = net[:2](torch.from_numpy(x))
            return {"hidden": hidden.numpy(), "logits": net[2](hidden).numpy()}

    return kept(case.folder / "target.npz", make)


def population(case: Case, without: int | None, keep: int = 0) -> np.ndarray:
    """What the auditor holds: all but fold ``without``, of whose classes (or subgroups) ``keep`` each remain."""
    rows = np.arange(len(case.x))[case.held]
    if without is None:
        return rows
    dropped = rows[case.fold[rows] == without]
    kept_rows = [dropped[case.group[dropped] == name][:keep] for name in np.unique(case.group[dropped])]
    return np.sort(np.concatenate([rows[case.fold[rows] != without], *kept_rows]))


def half_models(case: Case, without: int | None, keep: int = 0) -> dict[str, np.ndarray]:
    """Reference models, each trained on half of what the auditor holds: ``logits[m, n, K]``, ``trained_on[m, n]``."""

    def make() -> dict[str, np.ndarray]:
        rows = population(case, without, keep)
        x = inputs(case, rows)
        config = settings(case, x.shape[1], REFERENCES)
        splits = references.splits.offline(len(rows), REFERENCES, case.seed, labels=case.y[rows])
        fitted = config.fit(Records(x[rows], case.y[rows]), splits, seed=case.seed, observe=[x], classes=case.classes)
        trained_on = np.zeros((len(fitted.trained_on), len(x)), dtype=bool)
        trained_on[:, rows] = fitted.trained_on
        return {"logits": fitted.outputs[0].astype(np.float16), "trained_on": trained_on}

    fold_name = "all" if without is None else f"{without}-of-{case.folds}" + f"-keep-{keep}" * (keep > 0)
    return kept(case.folder / f"references-{fold_name}.npz", make)
