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
from divulge.references.jobs import JobResult, LocalEngine, Job, Task
from divulge.references.pool import Pool

if TYPE_CHECKING:
    import ray.exceptions

    from divulge.types import Array, Floats
else:
    ray = lazy.module("ray")

RAY_RETRIES = 10
"""Times Ray repeats a task whose worker or node died."""

_NodeResult: TypeAlias = "tuple[int, Sequence[Floats] | None, Mapping[str, Array]]"


def run_ray(task: Task, jobs: Sequence[Job], watch: engines.Watch, *, inner: LocalEngine) -> Iterator[JobResult]:
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
        yield from _run_tasks(task, jobs, inner)
    finally:
        if ours:
            ray.shutdown()


def _run_tasks(task: Task, jobs: Sequence[Job], inner: LocalEngine) -> Iterator[JobResult]:
    by_model = {job.model: job for job in jobs}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    slots = int(sum(node.get("CPU", 0) for node in nodes)) or 1
    gpus = 1 if any(node.get("GPU") for node in nodes) else 0
    work = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RAY_RETRIES)(_run_on_node)
    shared = ray.put(replace(task, pool=None))
    running = [work.remote(shared, unit, inner, task.pool is not None) for unit in processes.split_jobs(jobs, slots, inner)]
    while running:
        ready, running = ray.wait(running, num_returns=1)
        try:
            results: Sequence[_NodeResult] = ray.get(ready[0])
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
        ) as lost:
            reason = type(lost).__name__
            raise InputError(
                f"engine: a Ray task was lost {RAY_RETRIES} times ({reason}); finished models are kept"
            ) from None
        for model, rows, arrays in results:
            if rows is not None and task.pool is not None:
                Pool(task.pool).put(by_model[model].key, arrays, task.about(by_model[model]))
            yield JobResult(by_model[model], rows)


def _run_on_node(task: Task, jobs: Sequence[Job], inner: LocalEngine, keep: bool) -> Sequence[_NodeResult]:
    """On any node: train, and send outputs and (for the pool) weights home."""
    with tempfile.TemporaryDirectory(prefix="divulge-") as name:
        local = replace(task, pool=Path(name)) if keep else task
        with threads.limit_to_one_thread():
            finished = list(engines.LOCAL_ENGINES[inner](local, jobs, lambda job, share: None))
        return [(done.job.model, done.rows, _stored_arrays(Pool(Path(name)), done) if keep else {}) for done in finished]


def _stored_arrays(pool: Pool, done: JobResult) -> Mapping[str, Array]:
    return (pool.get(done.job.key) if done.rows is not None else None) or {}
