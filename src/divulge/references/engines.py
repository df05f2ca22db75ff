"""Ways to get jobs done in one process. Each gives the same models for the same seed; they differ in speed."""

from __future__ import annotations

import contextlib
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np
import threadpoolctl

from divulge import lazy, store
from divulge.errors import InputError, UserCodeError
from divulge.references.jobs import Job, JobResult, LocalEngine, Task, finish_job, read_own_records
from divulge.references.pool import Pool
from divulge.references.record_source import RecordSource
from divulge.settings import EngineName, PlacementSettings

if TYPE_CHECKING:
    from collections.abc import Generator

    import joblib
    import ray.exceptions
    from joblib.externals.loky import process_executor
    from joblib.externals.loky.backend import reduction

    from divulge import networks
    from divulge.types import Array, Floats
else:
    process_executor = lazy.module("joblib.externals.loky.process_executor")
    reduction = lazy.module("joblib.externals.loky.backend.reduction")
    ray = lazy.module("ray")
    networks = lazy.module("divulge.networks")
    joblib = lazy.module("joblib")


ENGINES: tuple[EngineName, ...] = get_args(EngineName)

Watch: TypeAlias = Callable[[Job, float], None]
Engine: TypeAlias = Callable[[Task, Sequence[Job], Watch], Iterator[JobResult]]
"""Trains jobs in any order and yields each the moment it is finished and stored."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where models are trained: the engine asked for, its number of processes (None: one per core), and GPUs of a task.

    Raises:
        divulge.InputError: fewer than 1 process, or than 0 GPUs.
    """

    engine: EngineName = "auto"
    workers: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        PlacementSettings.check_attributes(self)


def train_serially(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[JobResult]:
    """Train one model after the other."""
    if isinstance(task.records, RecordSource) and len(jobs) != 1:  # one model's records are in memory at a time
        for job in jobs:
            yield from train_serially(task, [job], watch)
        return
    task, jobs = read_own_records(task, jobs)
    learn = task.learner.learner(task)
    for job in jobs:
        try:
            yield finish_job(task, job, learn(job, partial(watch, job)))
        except ArithmeticError:
            yield JobResult(job, None)


def train_stacked(task: Task, jobs: Sequence[Job], watch: Watch) -> Iterator[JobResult]:
    """Train many networks at once.

    Raises:
        divulge.InputError: models that cannot be stacked, with the reason.
    """
    task, jobs = read_own_records(task, jobs)
    for job, learned in task.learner.stack(task, jobs, watch):
        yield JobResult(job, None) if learned is None else finish_job(task, job, learned)


LOCAL_ENGINES: dict[str, Engine] = {"serial": train_serially, "stacked": train_stacked}


MIN_PROCESS_SECONDS = 15.0
"""Seconds of work from which several processes pay their start (importing torch takes about three each)."""

MAX_RESTARTS = 3
"""Times the workers are restarted without a single model finished in between, before giving up."""


# Several processes on one machine: every finished model is a file, so a killed worker costs only what it was at.
def run_processes(
    task: Task, jobs: Sequence[Job], watch: Watch, *, inner: LocalEngine, workers: int
) -> Iterator[JobResult]:
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


def run_after_first(task: Task, jobs: Sequence[Job], watch: Watch, *, workers: int) -> Iterator[JobResult]:
    """Train the first job here, and the others on ``workers`` processes if they take long enough.

    They stay here where the training cannot be sent to another process, or where it uses a GPU, which copies of it
    might not share. All is trained on one thread, so that the result does not depend on how long the first job took.
    """
    began = time.monotonic()
    with limit_to_one_thread():
        yield from train_serially(task, jobs[:1], watch)
    other_jobs = jobs[1:]
    is_worth_processes = (time.monotonic() - began) * len(other_jobs) >= MIN_PROCESS_SECONDS
    if is_worth_processes and workers > 1 and _can_pickle(task):
        yield from run_processes(task, other_jobs, watch, inner="serial", workers=workers)
        return
    with limit_to_one_thread():
        yield from train_serially(task, other_jobs, watch)


def _can_pickle(task: Task) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    try:
        reduction.dumps(task.learner)
    except Exception:  # whatever a user's object raises when it is pickled
        return False
    return True


def _run_parallel(task: Task, jobs: Sequence[Job], folder: Path, inner: LocalEngine, workers: int) -> Iterator[object]:
    units = split_jobs(jobs, workers, inner)
    # joblib runs a single job in this process, which would be killed with it.
    n_jobs = 1 if workers == 1 else max(2, min(workers, len(units)))
    with joblib.parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1):
        yield from joblib.Parallel(return_as="generator_unordered")(
            joblib.delayed(_run_in_process)(task, unit, folder, inner) for unit in units
        )


def split_jobs(jobs: Sequence[Job], workers: int, inner: LocalEngine, widest: int = 4) -> Sequence[Sequence[Job]]:
    """Split jobs into units of work: single models, or stacks small enough that every worker has some."""
    width = min(widest, -(-len(jobs) // workers)) if inner == "stacked" else 1
    return [jobs[start : start + width] for start in range(0, len(jobs), width)]


def _run_in_process(task: Task, jobs: Sequence[Job], folder: Path, inner: LocalEngine) -> None:
    """Train jobs in a worker process, and write one file per model."""
    with limit_to_one_thread():
        for result in LOCAL_ENGINES[inner](task, jobs, lambda job, share: None):
            rows = {} if result.rows is None else {str(k): row for k, row in enumerate(result.rows)}
            store.write_arrays(folder / f"{result.job.model}.npz", {"good": np.array(result.rows is not None), **rows})


def _collect_results(folder: Path, waiting: dict[int, Job]) -> Iterator[JobResult]:
    """Yield the results of models whose files are written by now."""
    for model in sorted(waiting):
        path = folder / f"{model}.npz"
        if path.exists():
            arrays = store.read_arrays(path)
            path.unlink()
            good = bool(arrays.pop("good"))
            yield JobResult(waiting.pop(model), [arrays[str(k)] for k in range(len(arrays))] if good else None)


_WIDEST_ON_GPU = 1024  # models of a task; its memory says how many of them are one stack
RAY_RETRIES = 10
"""Times Ray repeats a task whose worker or node died."""

_NodeResult: TypeAlias = "tuple[int, Sequence[Floats] | None, Mapping[str, Array]]"


def run_ray(
    task: Task, jobs: Sequence[Job], watch: Watch, *, inner: LocalEngine, gpus: float | None = None
) -> Iterator[JobResult]:
    """Train jobs on the Ray cluster this program is connected to, else on ``RAY_ADDRESS``, else on a local one.

    A connection made here is closed at the end; one that was there stays. Tasks that still run when this ends, by an
    error or by Ctrl-C, are cancelled.

    Args:
        task: what all jobs share.
        jobs: models to train.
        watch: told nothing: tasks do not report before they end.
        inner: the arithmetic of a task.
        gpus: of a task; None for 1 where models are networks and the cluster has any.

    Raises:
        divulge.MissingExtraError: Ray is not installed.
        divulge.InputError: a task was lost more often than `RETRIES`; no node has so many GPUs, or the device that is
            asked for; what training itself raises.
    """
    with _ray_connection():
        yield from _run_tasks(task, jobs, inner, gpus)


def run_on_ray(task: Task, gpus: float | None, work: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``work`` with its arguments, once, where models of a task will be trained; see `run_ray`."""
    with _ray_connection():
        share = _count_slots(task.learner.device, gpus)[0]
        return _take_result(_remote(_call_on_node, share).remote(replace(task, pool=None), work, arguments))


@contextlib.contextmanager
def _ray_connection() -> Generator[None]:
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


def _remote(work: Callable[..., Any], share: float) -> Any:
    # Ray ends the worker of a task with GPUs after each task; here the next one imports all again and gains nothing.
    return ray.remote(num_cpus=1, num_gpus=share, max_retries=RAY_RETRIES, max_calls=0)(work)


def _run_tasks(task: Task, jobs: Sequence[Job], inner: LocalEngine, gpus: float | None) -> Iterator[JobResult]:
    jobs_by_model = {job.model: job for job in jobs}
    share, slots, widest = _count_slots(task.learner.device, gpus)
    work = _remote(_run_on_node, share)
    shared = ray.put(replace(task, pool=None))
    units = split_jobs(jobs, slots, inner, widest)
    running = [work.remote(shared, unit, inner, task.pool is not None) for unit in units]
    try:
        while running:
            ready, running = ray.wait(running, num_returns=1)
            finished: Sequence[_NodeResult] = _take_result(ready[0])
            for model, rows, arrays in finished:
                if rows is not None and task.pool is not None:
                    Pool(task.pool).put(jobs_by_model[model].key, arrays, task.describe_job(jobs_by_model[model]))
                yield JobResult(jobs_by_model[model], rows)
    finally:
        for each in running:
            ray.cancel(each)


def _count_slots(device: str, gpus: float | None) -> tuple[float, int, int]:
    """Return the GPUs of a task, how many tasks the cluster runs at once, and the widest stack of a task."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    most = max((node.get("GPU", 0) for node in nodes), default=0)
    if gpus is not None and gpus > most:
        raise InputError(f"gpus: {gpus:g} are wanted for each task, and no node of the cluster has more than {most:g}")
    if gpus is None and most < 1 and device.startswith("cuda"):
        raise InputError(
            f"device: {device!r} is wanted, and no node of the cluster has a GPU (where Ray finds none, "
            "`ray start --num-gpus` says how many it has)"
        )
    share = float(gpus if gpus is not None else device != "cpu" and most >= 1)
    on_gpu = [int(min(node.get("GPU", 0) / share, node.get("CPU", 0))) for node in nodes] if share else []
    slots = sum(on_gpu) if share else int(sum(node.get("CPU", 0) for node in nodes))
    return share, slots or 1, _WIDEST_ON_GPU if share else 4


def _take_result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError) as lost:
        reason = type(lost).__name__
        raise InputError(
            f"engine: a Ray task was lost {RAY_RETRIES} times ({reason}); finished models are kept"
        ) from None
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError | UserCodeError):  # as it would be without Ray
            raise error.cause from None
        raise


def _run_on_node(task: Task, jobs: Sequence[Job], inner: LocalEngine, keep: bool) -> Sequence[_NodeResult]:
    """Train jobs on a Ray node; return outputs and, for the pool, weights."""
    _check_node(task)
    with tempfile.TemporaryDirectory(prefix="divulge-") as name:
        local = replace(task, pool=Path(name)) if keep else task
        with limit_to_one_thread():
            finished = list(LOCAL_ENGINES[inner](local, jobs, lambda job, share: None))
        pool = Pool(Path(name)) if keep else None
        return [
            (
                result.job.model,
                result.rows,
                (pool.get(result.job.key) or {}) if pool is not None and result.rows is not None else {},
            )
            for result in finished
        ]


def _call_on_node(task: Task, work: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    _check_node(task)
    with limit_to_one_thread():
        return work(*arguments)


def _check_node(task: Task) -> None:
    """Check that a node has the device that a task asks for; its cluster only knows how many GPUs it was told of."""
    try:
        task.learner.check_device()
    except InputError as error:
        raise InputError(f"{error}; here: the Ray node {platform.node()}") from None


@contextlib.contextmanager
def limit_to_one_thread() -> Generator[None]:
    """Limit linear algebra and OpenMP, and torch where it is loaded, to one thread inside the block."""
    with threadpoolctl.threadpool_limits(1), contextlib.ExitStack() as stack:
        if "torch" in sys.modules:
            stack.enter_context(networks.single_thread())
        yield
