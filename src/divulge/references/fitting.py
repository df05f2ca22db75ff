"""Training of all models of a split: checks, pool, engine, and a second seed for models that diverge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from divulge import lazy, machine, seeds
from divulge.errors import InputError
from divulge.references import engines, pool
from divulge.references.jobs import (
    InternalSignal,
    Job,
    JobResult,
    Learner,
    OutputStore,
    Signal,
    Task,
    Trained,
    read_sample,
)
from divulge.references.pool import DamagedError, Pool
from divulge.references.progress import Progress, ignore_progress
from divulge.references.record_source import RecordSource
from divulge.references.splits import Splits
from divulge.types import Array, Bools, Records
from divulge.validation import require_callable

if TYPE_CHECKING:
    from divulge.targets import torch_modules
else:
    torch_modules = lazy.module("divulge.targets.torch_modules")


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRequest:
    """Arguments of `Train.fit`."""

    records: Records | RecordSource
    splits: Splits | Bools
    observe: tuple[Records | Array, ...]
    signal: Signal | None
    classes: int | None
    pool: Path | str | None
    out: Path | str | None
    progress: Progress | None
    inside: InternalSignal | None = None
    measure: InternalSignal | None = None


def fit_references(
    learner: Learner, request: TrainingRequest, count: int, seed: int, placement: engines.Placement
) -> Trained:
    """Train what the pool lacks, and collect outputs of all models."""
    started = time.monotonic()
    if request.signal is not None:
        require_callable(request.signal, "signal")
    splits = request.splits if isinstance(request.splits, Splits) else Splits(request.splits)
    models, records = splits.trained_on.shape
    if models != count:
        raise InputError(f"splits: {count} rows are needed (one per model), got {models}")
    if records != len(request.records):
        raise InputError(f"splits: {len(request.records)} columns are needed (one per record), got {records}")
    task = make_task(learner, request)
    learner.check(read_sample(task, splits.members(0)))
    if placement.engine != "ray":  # there the nodes have the device, and this machine may not
        learner.check_device()
    if task.pool is not None:
        Pool(task.pool).claim()
    jobs = [make_job(task, splits, model, seed, "model") for model in range(len(splits))]
    training = _TrainingRun(
        task,
        OutputStore(len(jobs), None if request.out is None else Path(request.out)),
        request.progress or ignore_progress,
        len(jobs),
    )

    missing = [job for job in jobs if not training.restore(job)]
    reused = len(jobs) - len(missing)
    note = "nothing to train"
    if missing:
        engine, note = _choose_engine(task, missing, placement)
        try:
            diverged = training.train(engine, missing, note)
            retries = [make_job(task, splits, job.model, seed, "retry") for job in diverged]
            training.give_up(training.train(engine, [job for job in retries if not training.restore(job)], note))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(training.interrupted()) from None
    if not training.finished.any():
        raise InputError(
            f"references: none of the {len(jobs)} models could be trained, the loss became NaN or infinite every time; "
            "lower the learning rate or scale the records"
        )
    outputs = training.sheets.read()
    seconds = time.monotonic() - started
    return Trained(outputs, splits.trained_on[training.finished], note, reused, seconds, tuple(training.warnings))


class _TrainingRun:
    """State of a training run: outputs, finished models, warnings."""

    def __init__(self, task: Task, sheets: OutputStore, progress: Progress, total: int) -> None:
        self.task, self.sheets, self.progress, self.total = task, sheets, progress, total
        self.warnings: list[str] = []
        self.finished = np.zeros(total, dtype=bool)
        self._share = np.zeros(total)

    def restore(self, job: Job) -> bool:
        """Take a model from the pool if it is there and whole."""
        if self.task.pool is None:
            return False
        pool = Pool(self.task.pool)
        try:
            arrays = pool.get(job.key)
        except DamagedError as error:
            self.warnings.append(f"model {job.model}: the stored model is damaged and is trained again ({error})")
            pool.discard(job.key)
            return False
        if arrays is None:
            return False
        self._take(JobResult(job, self.task.learner.restore(self.task, job, arrays)), "from the pool")
        return True

    def train(self, engine: engines.Engine, jobs: Sequence[Job], note: str) -> list[Job]:
        """Train jobs; those that diverged are returned."""
        diverged = []

        def tick(job: Job, share: float) -> None:
            self._share[job.model] = share
            self.progress(float(self._share.sum()), self.total, note)

        for result in engine(self.task, jobs, tick) if jobs else ():
            if result.rows is None:
                diverged.append(result.job)
                self.warnings.append(
                    f"model {result.job.model}: its loss or its outputs became NaN or infinite (seed {result.job.seed})"
                )
            else:
                self._take(result, note)
        return diverged

    def give_up(self, jobs: Sequence[Job]) -> None:
        """Record which models are left out."""
        self.warnings += [f"model {job.model}: left out, it diverged with a second seed too" for job in jobs]

    def interrupted(self) -> str:
        """Describe what is kept when the user stops."""
        if self.task.pool is None:
            return "reference models: stopped; without a pool nothing is kept"
        progress_note = f"{int(self.finished.sum())} of {self.total} models are finished and kept in {self.task.pool}"
        return f"reference models: stopped; {progress_note}; the same call resumes"

    def _take(self, result: JobResult, note: str) -> None:
        assert result.rows is not None
        self.sheets.write(result.job.model, result.rows)
        self.finished[result.job.model] = True
        self._share[result.job.model] = 1.0
        self.progress(float(self._share.sum()), self.total, note)


def make_task(learner: Learner, request: TrainingRequest) -> Task:
    """Return what all jobs of a request share."""
    # Engines read a source where they train, before a learner sees the records: for all else they are in memory.
    records = cast("Records", request.records)
    observe = tuple(r if isinstance(r, Records) else Records(r) for r in request.observe)
    return Task(
        learner=learner,
        records=records,
        data=_digest_training_data(request),
        classes=0 if request.measure is not None else learner.width(records, request.classes),
        observe=observe,
        signal=request.signal,
        pool=None if request.pool is None else Path(request.pool),
        inside=request.inside,
        measure=request.measure,
    )


def _digest_training_data(request: TrainingRequest) -> str:
    """Return a digest of the training records; of those in files only for a pool, as all of them are read for it."""
    if not isinstance(request.records, RecordSource):
        return pool.digest_records(request.records)
    return "" if request.pool is None else request.records.digest()


def make_job(task: Task, splits: Splits, model: int, seed: int, stream: str) -> Job:
    """Return the job of one model, with its seed and its name in the pool."""
    rows, model_seed = splits.members(model), seeds.derive_seed(seed, "references", stream, model)
    return Job(model, model_seed, rows, "" if task.pool is None else task.learner.key(task, model_seed, rows))


def _choose_engine(task: Task, jobs: Sequence[Job], placement: engines.Placement) -> tuple[engines.Engine, str]:
    """Choose the requested engine, or the fastest in a short measured trial; also return the reason."""
    if placement.engine in engines.LOCAL_ENGINES:
        return engines.LOCAL_ENGINES[placement.engine], placement.engine
    workers = placement.workers or machine.available_cores()
    is_single = placement.engine == "auto" and (workers == 1 or len(jobs) == 1)
    if placement.engine == "auto" and task.learner.timed_by_doing:
        note = f"serial, on one thread; on {workers} processes after the first model if the others take long"
        return partial(engines.run_after_first, workers=workers), note
    sample, sampled_jobs = read_sample(task, jobs[0].rows), jobs
    if sample is not task:  # as many rows as before, so that the steps are counted right
        n = len(sample.records)
        sampled_jobs = [replace(job, rows=np.arange(len(job.rows)) % n) for job in jobs]
    if placement.engine == "ray":
        on_ray = None if task.learner.device == "cpu" else partial(engines.run_on_ray, sample, placement.gpus)
        inner, _, reason = task.learner.trial(sample, sampled_jobs, untimed=True, execute=on_ray)
        return partial(engines.run_ray, inner=inner, gpus=placement.gpus), f"ray, {inner} in each task{reason}"
    inner, seconds, reason = task.learner.trial(sample, sampled_jobs, untimed=is_single)
    # Processes would share one GPU, each with a context and the data of its own.
    is_worth_processes = not is_single and seconds >= engines.MIN_PROCESS_SECONDS and not _uses_gpu(task.learner.device)
    if placement.engine == "processes" or is_worth_processes:
        return partial(
            engines.run_processes, inner=inner, workers=workers
        ), f"{workers} processes, {inner} in each{reason}"
    return engines.LOCAL_ENGINES[inner], f"{inner}{reason}"


def _uses_gpu(device: str) -> bool:
    return device != "cpu" and torch_modules.resolve_device(device).type != "cpu"
