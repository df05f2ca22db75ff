"""Which engine does the work: the one asked for, or the one a short measured trial says is fastest."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from divulge.references.engines import INNER, Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.references.jobs import Job, Task

WORTH_PROCESSES = 15.0
"""Seconds of work from which several processes pay their start (importing torch takes about three each)."""


def engine(task: Task, jobs: Sequence[Job]) -> tuple[Engine, str]:
    """The engine a configuration asks for, or the fastest of a short measured trial; and in words why."""
    config = task.how.config
    if config.engine in INNER:
        return INNER[config.engine], config.engine
    workers = config.workers or cores()
    alone = config.engine == "auto" and (workers == 1 or len(jobs) == 1)
    inner, seconds, why = task.how.trial(task, jobs, alone=alone)
    if config.engine == "ray":
        from divulge.references import cluster

        return partial(cluster.run, inner=inner), f"ray, {inner} in each task{why}"
    if config.engine == "processes" or (not alone and seconds >= WORTH_PROCESSES):
        from divulge.references import processes

        return partial(processes.run, inner=inner, workers=workers), f"{workers} processes, {inner} in each{why}"
    return INNER[inner], f"{inner}{why}"


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
