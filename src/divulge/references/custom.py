"""`Custom` at work: models made by the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store, targets
from divulge.references import keys
from divulge.references.jobs import Inner, Job, Learned, Task, Tick
from divulge.references.outputs import Predict
from divulge.types import Array, Floats, Ints, Records

if TYPE_CHECKING:
    from divulge.references.settings import CustomSettings


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets made by ``config.train``."""

    config: CustomSettings

    def settings(self) -> dict[str, str]:
        """The function's name and version."""
        return {"train": getattr(self.config.train, "__qualname__", "?"), "version": self.config.version}

    def check(self, task: Task) -> None:
        """Nothing can be known before the user's function has run."""

    def trial(self, task: Task, jobs: Sequence[Job], *, alone: bool) -> tuple[Inner, float, str]:
        """One after the other: only the user knows whether copies of the training can run side by side."""
        return "serial", 0.0, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Digest of the function, its version, data, subset, seed, and of what is kept (observed records, signal)."""
        observed = [keys.data(records.x, records.y) for records in task.observe]
        how = keys.function(self.config.train), self.config.version, self.config.outputs
        return store.digest(keys.ARITHMETIC, how, task.data, rows, seed, observed, keys.function(task.signal))[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], Learned]:
        """The user's function on the records of a job."""

        def learn(job: Job, tick: Tick) -> Learned:
            target = self.config.train(task.records[job.rows], job.seed)
            tick(1.0)
            predict = asking(target, task.classes, self.config.outputs)
            return Learned(lambda rows: {str(k): np.ascontiguousarray(row) for k, row in enumerate(rows)}, predict)

        return learn

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """The outputs the pool kept."""
        return [arrays[str(k)] for k in range(len(task.observe))]


def asking(target: Any, classes: int, outputs: str) -> Predict:
    """How to get logits ``[b, classes]`` from a target the user made.

    Raises:
        divulge.InputError: not a target, or an output of another width than the label set.
    """
    # A classifier that never saw a class has no output for it: its adapter is told the whole label set.
    seen = hasattr(target, "classes_") and not isinstance(target, targets.GivesLogits)
    known = targets.SklearnTarget(target, classes=classes) if seen else targets.adapt(target, outputs=outputs)

    def predict(x: Array) -> Floats:
        found = known.logits(Records(x))
        if found.shape != (len(x), classes):
            raise checks.InputError(f"train: outputs of shape ({len(x)}, {classes}) are needed, got {found.shape}")
        return found.astype(np.float32)

    return predict
