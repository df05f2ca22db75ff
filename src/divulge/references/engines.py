"""Ways to get jobs done in one process. Each gives the same models for the same seed; they differ in speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from divulge.references.jobs import JobResult, Job, Task, finish_job
from divulge.validation import check_choice, check_integer

EngineName: TypeAlias = Literal["auto", "serial", "stacked", "processes", "ray"]
ENGINES = ("auto", "serial", "stacked", "processes", "ray")

Watch: TypeAlias = Callable[[Job, float], None]
Engine: TypeAlias = Callable[[Task, Sequence[Job], Watch], Iterator[JobResult]]
"""Trains jobs in any order and yields each the moment it is finished and stored."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where models are trained: the engine asked for, and its number of processes (None: one per core).

    Raises:
        divulge.InputError: fewer than 1 process.
    """

    engine: EngineName = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        check_choice(self.engine, "engine", ENGINES)
        if self.workers is not None:
            check_integer(self.workers, "workers", least=1)


def train_serially(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[JobResult]:
    """One model after the other."""
    learn = task.how.learner(task)
    for job in jobs:
        try:
            yield finish_job(task, job, learn(job, partial(watch, job)))
        except ArithmeticError:
            yield JobResult(job, None)


def train_stacked(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[JobResult]:
    """Many networks at once.

    Raises:
        divulge.InputError: models that cannot be stacked, with the reason.
    """
    for job, learned in task.how.stack(task, jobs, watch):
        yield JobResult(job, None) if learned is None else finish_job(task, job, learned)


LOCAL_ENGINES: dict[str, Engine] = {"serial": train_serially, "stacked": train_stacked}
