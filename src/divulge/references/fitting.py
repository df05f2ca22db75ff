"""From splits to trained models: checks, the pool, an engine, a second chance for models that diverge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from divulge import machine, seeds
from divulge.errors import InputError
from divulge.references import engines, keys, processes, ray_tasks
from divulge.references.jobs import Done, Job, Learner, Task
from divulge.references.pool import DamagedError, Pool
from divulge.references.predictions import Inside, Sheets, Signal, Trained
from divulge.references.progress import Progress, silent
from divulge.references.splits import Splits
from divulge.types import Array, Bools, Records


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The arguments of `Train.fit`."""

    records: Records
    splits: Splits | Bools
    observe: tuple[Records | Array, ...]
    signal: Signal | None
    classes: int | None
    pool: Path | str | None
    out: Path | str | None
    progress: Progress | None
    inside: Inside | None = None


def fit(how: Learner, work: Work, count: int, seed: int, place: engines.Placement) -> Trained:
    """Train what the pool lacks, and collect outputs of all models."""
    started = time.monotonic()
    splits = _splits(work, count)
    task = _task(how, work)
    how.check(task)
    if task.pool is not None:
        Pool(task.pool).claim()
    jobs = [_job(task, splits, model, seed, "model") for model in range(len(splits))]
    run = _Run(
        task, Sheets(len(jobs), None if work.out is None else Path(work.out)), work.progress or silent, len(jobs)
    )

    todo = [job for job in jobs if not run.restore(job)]
    reused = len(jobs) - len(todo)
    note = "nothing to train"
    if todo:
        engine, note = _engine(task, todo, place)
        try:
            diverged = run.train(engine, todo, note)
            again = [_job(task, splits, job.model, seed, "retry") for job in diverged]
            run.give_up(run.train(engine, [job for job in again if not run.restore(job)], note))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(run.interrupted()) from None
    if not run.finished.any():
        raise InputError(
            f"references: none of the {len(jobs)} models could be trained, the loss became NaN or infinite every time; "
            "lower the learning rate or scale the records"
        )
    outputs = run.sheets.read()
    seconds = time.monotonic() - started
    return Trained(outputs, splits.trained_on[run.finished], note, reused, seconds, tuple(run.warnings))


class _Run:
    """What has happened so far."""

    def __init__(self, task: Task, sheets: Sheets, progress: Progress, total: int) -> None:
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
        self._take(Done(job, self.task.how.restore(self.task, job, arrays)), "from the pool")
        return True

    def train(self, engine: engines.Engine, jobs: Sequence[Job], note: str) -> list[Job]:
        """Train jobs; those that diverged are returned."""
        diverged = []

        def tick(job: Job, share: float) -> None:
            self._share[job.model] = share
            self.progress(float(self._share.sum()), self.total, note)

        for done in engine(self.task, jobs, tick) if jobs else ():
            if done.rows is None:
                diverged.append(done.job)
                self.warnings.append(
                    f"model {done.job.model}: its loss or its outputs became NaN or infinite (seed {done.job.seed})"
                )
            else:
                self._take(done, note)
        return diverged

    def give_up(self, jobs: Sequence[Job]) -> None:
        """Say which models are missing."""
        self.warnings += [f"model {job.model}: left out, it diverged with a second seed too" for job in jobs]

    def interrupted(self) -> str:
        """What is kept when the user stops."""
        if self.task.pool is None:
            return "reference models: stopped; without a pool nothing is kept"
        done = f"{int(self.finished.sum())} of {self.total} models are finished and kept in {self.task.pool}"
        return f"reference models: stopped; {done}; the same call resumes"

    def _take(self, done: Done, note: str) -> None:
        assert done.rows is not None
        self.sheets.write(done.job.model, done.rows)
        self.finished[done.job.model] = True
        self._share[done.job.model] = 1.0
        self.progress(float(self._share.sum()), self.total, note)


def _splits(work: Work, count: int) -> Splits:
    splits = work.splits if isinstance(work.splits, Splits) else Splits(work.splits)
    models, records = splits.trained_on.shape
    if models != count:
        raise InputError(f"splits: {count} rows are needed (one per model), got {models}")
    if records != len(work.records):
        raise InputError(f"splits: {len(work.records)} columns are needed (one per record), got {records}")
    return splits


def _task(how: Learner, work: Work) -> Task:
    observe = tuple(r if isinstance(r, Records) else Records(r) for r in work.observe)
    return Task(
        how=how,
        records=work.records,
        data=keys.data(work.records),
        classes=how.width(work.records, work.classes),
        observe=observe,
        signal=work.signal,
        pool=None if work.pool is None else Path(work.pool),
        inside=work.inside,
    )


def _job(task: Task, splits: Splits, model: int, seed: int, stream: str) -> Job:
    rows, own = splits.members(model), seeds.derive_seed(seed, "references", stream, model)
    return Job(model, own, rows, "" if task.pool is None else task.how.key(task, own, rows))


def _engine(task: Task, jobs: Sequence[Job], place: engines.Placement) -> tuple[engines.Engine, str]:
    """The engine asked for, or the fastest of a short measured trial; and in words why."""
    if place.engine in engines.INNER:
        return engines.INNER[place.engine], place.engine
    workers = place.workers or machine.available_cores()
    alone = place.engine == "auto" and (workers == 1 or len(jobs) == 1)
    if place.engine == "auto" and task.how.timed_by_doing:
        note = f"serial, on one thread; on {workers} processes after the first model if the others take long"
        return partial(processes.after_one, workers=workers), note
    inner, seconds, why = task.how.trial(task, jobs, alone=alone)
    if place.engine == "ray":
        return partial(ray_tasks.run, inner=inner), f"ray, {inner} in each task{why}"
    if place.engine == "processes" or (not alone and seconds >= processes.WORTH):
        return partial(processes.run, inner=inner, workers=workers), f"{workers} processes, {inner} in each{why}"
    return engines.INNER[inner], f"{inner}{why}"
