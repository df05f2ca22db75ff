"""Ways to get jobs done. Each gives the same models for the same seed; they differ in speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from divulge.references.jobs import Done, Job, Task, finish

Watch: TypeAlias = Callable[[Job, float], None]
Bound: TypeAlias = Callable[[Task, Sequence[Job], Watch], Iterator[Done]]


def serial(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[Done]:
    """One model after the other."""
    learn = task.how.learner(task)
    for job in jobs:
        try:
            yield finish(task, job, learn(job, lambda share, job=job: watch(job, share)))
        except ArithmeticError:
            yield Done(job, None)


def choose(task: Task, jobs: Sequence[Job]) -> tuple[Bound, str]:
    """The engine a configuration asks for, and in words why."""
    return serial, "serial"
