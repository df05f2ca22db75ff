"""`Custom` at work: models made by the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store
from divulge.references import keys
from divulge.references.jobs import Inner, Job, Learned, Task, Tick
from divulge.references.outputs import Predict
from divulge.types import Array, Floats, Ints

if TYPE_CHECKING:
    from divulge.references.training import Custom


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets made by ``config.train``."""

    config: Custom

    def settings(self) -> dict[str, str]:
        """The function's name and version."""
        return {"train": getattr(self.config.train, "__qualname__", "?"), "version": self.config.version}

    def check(self, task: Task) -> None:
        """Nothing can be known before the user's function has run."""

    def trial(self, task: Task, jobs: Sequence[Job]) -> tuple[Inner, float, str]:
        """One after the other: only the user knows whether copies of the training can run side by side."""
        return "serial", 0.0, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Digest of the function, its version, data, subset, seed, and of what is kept (observed records, signal)."""
        observed = [keys.data(records.x, records.y) for records in task.observe]
        how = keys.function(self.config.train), self.config.version
        return store.digest(keys.ARITHMETIC, how, task.data, rows, seed, observed, keys.function(task.signal))[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], Learned]:
        """The user's function on the records of a job."""

        def learn(job: Job, tick: Tick) -> Learned:
            target = self.config.train(task.records[job.rows], job.seed)
            tick(1.0)
            predict = asking(target, task.classes)
            return Learned(lambda rows: {str(k): np.ascontiguousarray(row) for k, row in enumerate(rows)}, predict)

        return learn

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """The outputs the pool kept."""
        return [arrays[str(k)] for k in range(len(task.observe))]


def asking(target: Any, classes: int) -> Predict:
    """How to get logits ``[b, classes]`` from a target the user made.

    A classifier that never saw a class has no output for it: its columns are put in their places and the unseen
    class gets the lowest logit a float32 probability allows.

    Raises:
        divulge.InputError: not a target, or an output of another width than the label set.
    """
    answer, columns = _answer(target)

    def predict(x: Array) -> Floats:
        found = np.asarray(answer(x))
        if columns is not None and len(columns) != classes:
            spread = np.full((len(x), classes), np.log(np.finfo(np.float32).tiny), dtype=np.float32)
            spread[:, columns] = found
            found = spread
        if found.shape != (len(x), classes):
            raise checks.InputError(f"train: outputs of shape ({len(x)}, {classes}) are needed, got {found.shape}")
        if not np.isfinite(found).all():
            raise FloatingPointError
        return found.astype(np.float32, copy=False)

    return predict


def _answer(target: Any) -> tuple[Callable[[Array], Any], Ints | None]:
    if hasattr(target, "state_dict") and hasattr(target, "eval"):
        import torch

        from divulge.references import models

        where = next((p.device for p in target.parameters()), torch.device("cpu"))
        return lambda x: models.logits(target, x, where), None
    if hasattr(target, "predict_log_proba"):
        tiny = float(np.log(np.finfo(np.float32).tiny))
        seen = np.asarray(target.classes_, dtype=np.int64)
        return lambda x: np.maximum(target.predict_log_proba(x.reshape(len(x), -1)), tiny), seen
    if hasattr(target, "logits"):
        return target.logits, None
    if callable(target):
        return target, None
    got = type(target).__name__
    raise checks.InputError(f"train: must return a network, a scikit-learn classifier or a function, got {got}")
