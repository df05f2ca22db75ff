"""Several processes on one machine; every finished model is a file, so a killed worker costs only what it was at."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import joblib
import numpy as np

from divulge import lazy, store
from divulge.errors import InputError
from divulge.references import engines, threads
from divulge.references.jobs import JobResult, LocalEngine, Job, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from joblib.externals.loky import process_executor
    from joblib.externals.loky.backend import reduction
else:
    process_executor = lazy.module("joblib.externals.loky.process_executor")
    reduction = lazy.module("joblib.externals.loky.backend.reduction")

MIN_PROCESS_SECONDS = 15.0
"""Seconds of work from which several processes pay their start (importing torch takes about three each)."""

MAX_RESTARTS = 3
"""Times the workers are restarted without a single model finished in between, before giving up."""


def run_processes(task: Task, jobs: Sequence[Job], watch: engines.Watch, *, inner: LocalEngine, workers: int) -> Iterator[JobResult]:
    """Train jobs on ``workers`` processes of one thread each.

    Raises:
        divulge.InputError: workers were killed again and again (out of memory, as a rule).
    """
    with tempfile.TemporaryDirectory(prefix="divulge-") as name:
        folder = Path(name)
        waiting = {job.model: job for job in jobs}
        starts = MAX_RESTARTS
        while waiting:
            before = len(waiting)
            try:
                for _ in _run_parallel(task, list(waiting.values()), folder, inner, workers):
                    yield from _collect_results(folder, waiting)
            except process_executor.BrokenProcessPool:
                yield from _collect_results(folder, waiting)
                starts = starts - 1 if len(waiting) == before else MAX_RESTARTS
                if not starts:
                    raise InputError(
                        f"engine: a worker process was killed {MAX_RESTARTS} times in a row before finishing a model "
                        "(out of memory?); models finished before are kept; try fewer workers"
                    ) from None


def run_after_first(task: Task, jobs: Sequence[Job], watch: engines.Watch, *, workers: int) -> Iterator[JobResult]:
    """Train the first job here, and the others on ``workers`` processes if they take long enough.

    They stay here where the training cannot be sent to another process, or where it uses a GPU, which copies of it
    might not share. All is trained on one thread, so that the result does not depend on how long the first job took.
    """
    began = time.monotonic()
    with threads.limit_to_one_thread():
        yield from engines.train_serially(task, jobs[:1], watch)
    rest = jobs[1:]
    long = (time.monotonic() - began) * len(rest) >= MIN_PROCESS_SECONDS
    if long and workers > 1 and _can_pickle(task):
        yield from run_processes(task, rest, watch, inner="serial", workers=workers)
        return
    with threads.limit_to_one_thread():
        yield from engines.train_serially(task, rest, watch)


def _can_pickle(task: Task) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    try:
        reduction.dumps(task.how)
    except Exception:  # whatever a user's object raises when it is pickled
        return False
    return True


def _run_parallel(task: Task, jobs: Sequence[Job], folder: Path, inner: LocalEngine, workers: int) -> Iterator[object]:
    units = split_jobs(jobs, workers, inner)
    with joblib.parallel_config("loky", n_jobs=min(workers, len(units)), inner_max_num_threads=1):
        yield from joblib.Parallel(return_as="generator_unordered")(
            joblib.delayed(_run_in_process)(task, unit, folder, inner) for unit in units
        )


def split_jobs(jobs: Sequence[Job], workers: int, inner: LocalEngine) -> Sequence[Sequence[Job]]:
    """Jobs cut into units of work: single models, or stacks small enough that every worker has some."""
    width = min(4, -(-len(jobs) // workers)) if inner == "stacked" else 1
    return [jobs[at : at + width] for at in range(0, len(jobs), width)]


def _run_in_process(task: Task, jobs: Sequence[Job], folder: Path, inner: LocalEngine) -> None:
    """In a worker: train, and leave one file per model."""
    with threads.limit_to_one_thread():
        for done in engines.LOCAL_ENGINES[inner](task, jobs, lambda job, share: None):
            rows = {} if done.rows is None else {str(k): row for k, row in enumerate(done.rows)}
            store.write_arrays(folder / f"{done.job.model}.npz", {"good": np.array(done.rows is not None), **rows})


def _collect_results(folder: Path, waiting: dict[int, Job]) -> Iterator[JobResult]:
    """The models that are finished by now."""
    for model in sorted(waiting):
        path = folder / f"{model}.npz"
        if path.exists():
            arrays = store.read_arrays(path)
            path.unlink()
            good = bool(arrays.pop("good"))
            yield JobResult(waiting.pop(model), [arrays[str(k)] for k in range(len(arrays))] if good else None)
