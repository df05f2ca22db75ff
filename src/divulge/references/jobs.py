"""The unit of work: one model. What an engine is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from divulge import user_code
from divulge.references import pool, predictions
from divulge.types import Array, Floats, Ints, Records

if TYPE_CHECKING:
    from pathlib import Path

Inner: TypeAlias = Literal["serial", "stacked"]
"""How one process trains: the two kinds of arithmetic that the others spread over processes and machines."""

Tick: TypeAlias = Callable[[float], None]
"""Told the share of one model's epochs that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One model to train.

    Args:
        model: its row in the splits.
        seed: its own seed.
        rows: positions of its records.
        key: its name in the pool.
    """

    model: int
    seed: int
    rows: Ints
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """One trained model: what the pool keeps of it, how to question it, and itself as a target."""

    arrays: Callable[[Sequence[Floats]], Mapping[str, Array]]
    predict: predictions.Predict
    target: Any = None


def by_outputs(predict: predictions.Predict, target: Any = None) -> TrainedModel:
    """A model of which the pool keeps what it says of the observed records, and nothing else."""
    return TrainedModel(lambda rows: {str(k): np.ascontiguousarray(row) for k, row in enumerate(rows)}, predict, target)


def kept_outputs(task: Task, arrays: Mapping[str, Array]) -> list[Floats]:
    """What the pool kept of a model `by_outputs`."""
    return [arrays[str(k)] for k in range(len(task.observe))]


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """One finished job: outputs on every observed set, or None when training diverged."""

    job: Job
    rows: Sequence[Floats] | None


class Learner(Protocol):
    """How one model is made: `Train` (networks) and `Custom` (anything)."""

    @property
    def timed_by_doing(self) -> bool:
        """Whether only training a whole model tells how long one takes."""
        ...

    def settings(self) -> dict[str, str]:
        """What a reader of the pool wants to know."""
        ...

    def width(self, records: Records, classes: int | None) -> int:
        """Size of the label set; 0 for models without classes."""
        ...

    def check(self, task: Task) -> None:
        """Find bad input before any work starts."""
        ...

    def trial(self, task: Task, jobs: Sequence[Job], *, alone: bool) -> tuple[Inner, float, str]:
        """The faster arithmetic for these jobs, the seconds they take with it in one process, and why.

        ``alone`` says that nobody needs the seconds: there is but one process or one job.
        """
        ...

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """The pool's name for a model."""
        ...

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """A function that trains a model; it holds the data where training wants it."""
        ...

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Train several models at once; None for one that diverged.

        Raises:
            divulge.InputError: models that cannot be stacked, with the reason.
        """
        ...

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """Outputs on every observed set, from what the pool kept."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What all jobs of a run share.

    The user's modules come first: in another process they are run again before anything made from them is read.
    """

    modules: user_code.UserModules = field(default_factory=user_code.loaded_user_modules, kw_only=True)
    how: Learner
    records: Records
    data: str
    classes: int
    observe: tuple[Records, ...]
    signal: predictions.Signal | None
    pool: Path | None
    inside: predictions.Inside | None = None

    def about(self, job: Job) -> dict[str, Any]:
        """What the pool records beside a model."""
        return {
            "model": job.model,
            "seed": job.seed,
            "records": len(job.rows),
            "data": self.data,
            "how": self.how.settings(),
        }


def said(task: Task, learned: TrainedModel) -> list[Floats]:
    """What a model says of every observed set; beside the first, what can be seen inside it."""
    rows = [predictions.answers(learned.predict, records, task.signal) for records in task.observe]
    if task.inside is not None and rows:
        seen = predictions.narrowed(task.inside(learned.target, task.observe[0]), rows[0].dtype)
        rows[0] = np.hstack([rows[0].reshape(len(seen), -1), seen])
    return rows


def finish(task: Task, job: Job, learned: TrainedModel) -> Done:
    """Question a trained model and store it; a model whose answers are not finite counts as diverged."""
    rows = said(task, learned)
    if not all(np.isfinite(row).all() for row in rows):
        return Done(job, None)
    if task.pool is not None:
        pool.Pool(task.pool).put(job.key, learned.arrays(rows), task.about(job))
    return Done(job, rows)
