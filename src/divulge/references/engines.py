"""Ways to get jobs done in one process. Each gives the same models for the same seed; they differ in speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from divulge import checks
from divulge.references.jobs import Done, Job, Task, finish

Watch: TypeAlias = Callable[[Job, float], None]
Engine: TypeAlias = Callable[[Task, Sequence[Job], Watch], Iterator[Done]]
"""Trains jobs in any order and yields each the moment it is finished and stored."""


def serial(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[Done]:
    """One model after the other."""
    learn = task.how.learner(task)
    for job in jobs:
        try:
            yield finish(task, job, learn(job, partial(watch, job)))
        except ArithmeticError:
            yield Done(job, None)


def stacked(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[Done]:
    """Many networks at once.

    Raises:
        divulge.InputError: networks that cannot be stacked, with the reason.
    """
    from divulge.references import stacked as stacks
    from divulge.references.networks import Networks

    how = task.how
    assert isinstance(how, Networks)
    data = how.data(task)
    reason = stacks.refusal(how.config, data)
    if reason:
        raise checks.InputError(f"engine: 'stacked' cannot train this network ({reason}); use 'serial' or 'processes'")
    for job, module in stacks.train(how.config, data, jobs, watch):
        yield Done(job, None) if module is None else finish(task, job, how.learned(module))


INNER: dict[str, Engine] = {"serial": serial, "stacked": stacked}
