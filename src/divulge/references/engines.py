"""Ways to get jobs done. Each gives the same models for the same seed; they differ in speed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from divulge import checks
from divulge.references.jobs import Done, Job, Task, finish

Watch: TypeAlias = Callable[[Job, float], None]
Engine: TypeAlias = Callable[[Task, Sequence[Job], Watch], Iterator[Done]]
"""Trains jobs in any order and yields each the moment it is finished and stored."""

WORTH_PROCESSES = 15.0
"""Seconds of work from which several processes pay their start (importing torch takes about three each)."""


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


def choose(task: Task, jobs: Sequence[Job]) -> tuple[Engine, str]:
    """The engine a configuration asks for, or the fastest of a short measured trial; and in words why."""
    config = task.how.config
    if config.engine in INNER:
        return INNER[config.engine], config.engine
    inner, seconds, why = task.how.trial(task, jobs)
    if config.engine == "ray":
        from divulge.references import cluster

        return partial(cluster.run, inner=inner), f"ray, {inner} in each task{why}"
    workers = config.workers or cores()
    if config.engine == "processes" or (workers > 1 and len(jobs) > 1 and seconds >= WORTH_PROCESSES):
        from divulge.references import processes

        return partial(processes.run, inner=inner, workers=workers), f"{workers} processes, {inner} in each{why}"
    return INNER[inner], f"{inner}{why}"


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
