"""Many machines: one Ray task a unit of work. Ray schedules, moves data and repeats what a dead worker lost."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from divulge import lazy
from divulge.errors import InputError
from divulge.references import engines, processes, threads
from divulge.references.jobs import Done, Inner, Job, Task
from divulge.references.pool import Pool

if TYPE_CHECKING:
    import ray.exceptions

    from divulge.types import Array, Floats
else:
    ray = lazy.module("ray")

RETRIES = 10
"""Times Ray repeats a task whose worker or node died."""

_Result: TypeAlias = "tuple[int, Sequence[Floats] | None, Mapping[str, Array]]"


def run(task: Task, jobs: Sequence[Job], watch: engines.Watch, *, inner: Inner) -> Iterator[Done]:
    """Train jobs on the Ray cluster this program is connected to, else on ``RAY_ADDRESS``, else on a local one.

    A connection made here is closed at the end; one that was there stays.

    Raises:
        divulge.MissingExtraError: Ray is not installed.
        divulge.InputError: a task was lost more often than `RETRIES`.
    """
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False)
    try:
        yield from _gather(task, jobs, inner)
    finally:
        if ours:
            ray.shutdown()


def _gather(task: Task, jobs: Sequence[Job], inner: Inner) -> Iterator[Done]:
    by_model = {job.model: job for job in jobs}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    slots = int(sum(node.get("CPU", 0) for node in nodes)) or 1
    gpus = 1 if any(node.get("GPU") for node in nodes) else 0
    work = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_work)
    shared = ray.put(replace(task, pool=None))
    running = [work.remote(shared, unit, inner, task.pool is not None) for unit in processes.shares(jobs, slots, inner)]
    while running:
        ready, running = ray.wait(running, num_returns=1)
        try:
            results: Sequence[_Result] = ray.get(ready[0])
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
        ) as lost:
            reason = type(lost).__name__
            raise InputError(
                f"engine: a Ray task was lost {RETRIES} times ({reason}); finished models are kept"
            ) from None
        for model, rows, arrays in results:
            if rows is not None and task.pool is not None:
                Pool(task.pool).put(by_model[model].key, arrays, task.about(by_model[model]))
            yield Done(by_model[model], rows)


def _work(task: Task, jobs: Sequence[Job], inner: Inner, keep: bool) -> Sequence[_Result]:
    """On any node: train, and send outputs and (for the pool) weights home."""
    with tempfile.TemporaryDirectory(prefix="divulge-") as name:
        local = replace(task, pool=Path(name)) if keep else task
        with threads.one():
            finished = list(engines.INNER[inner](local, jobs, lambda job, share: None))
        return [(done.job.model, done.rows, _weights(Pool(Path(name)), done) if keep else {}) for done in finished]


def _weights(pool: Pool, done: Done) -> Mapping[str, Array]:
    return (pool.get(done.job.key) if done.rows is not None else None) or {}
