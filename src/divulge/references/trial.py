"""A short measured trial: is this network trained faster alone or in a stack?"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import torch

from divulge import networks, store
from divulge.errors import InputError
from divulge.references import keys, loop, models, stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from divulge.references.hyperparameters import Hyperparameters
    from divulge.references.jobs import Inner, Job, Task
    from divulge.types import Ints

Alone: TypeAlias = "Callable[[Hyperparameters, models.Data, Ints, int], object]"
"""Trains one network by itself."""

BATCHES = 3
"""Batches a model in the trial; one before them warms up."""

BY_HAND: tuple[Inner, float, str] = ("stacked", 0.0, " (written-out backward)")
"""The outcome for an MLP where nothing was measured."""


def measure(config: Hyperparameters, data: models.Data, jobs: Sequence[Job], alone: Alone) -> tuple[Inner, float, str]:
    """The faster arithmetic, the seconds all jobs will take with it in one process, and the reason in words.

    An MLP is always stacked: written out by hand it wins everywhere, and the same seed then gives the same bits.
    Other networks are stacked when a trial says so; with too little work for a trial, or two engines so close
    that it could fall either way, the plain loop is taken. The seconds are 0 where nothing was measured.
    """
    steps = sum(config.epochs * networks.steps_per_epoch(len(job.rows), config.batch_size) for job in jobs)
    few = jobs[: stacked.width(config, len(jobs), data.x.device)]
    short = [replace(job, rows=jobs[0].rows[: BATCHES * config.batch_size]) for job in few]
    brief = replace(config, epochs=1, stop_at_accuracy=None)

    def together() -> float:
        return _seconds(lambda some: stacked.together(brief, data, some, _unwatched), short, config)

    if stacked.by_hand(config):
        each = together() if _affords(steps, len(short)) else 0.0
        return BY_HAND[0], steps * each, BY_HAND[2]
    if not _affords(steps, 1):
        return "serial", 0.0, " (too little work for a trial)"
    single = _seconds(lambda some: alone(brief, data, some[0].rows, some[0].seed), short[:1], config)
    if stacked.refusal(config, data):
        return "serial", steps * single, " (cannot be stacked)"
    if not _affords(steps, 1 + len(short)):
        return "serial", steps * single, " (too little work for a trial)"
    try:
        each = together()
    except torch.OutOfMemoryError:
        each = float("inf")
    words = f" (trial: {1e3 * single:.2g} ms per step alone, {1e3 * each:.2g} ms in a stack of {len(short)})"
    return ("stacked" if each < 0.95 * single else "serial"), steps * min(single, each), words


def _affords(steps: int, models_timed: int) -> bool:
    """True when a trial of so many models costs less than a twentieth of the work."""
    return steps >= 20 * models_timed * (1 + 2 * BATCHES)


def remembered(
    task: Task, config: Hyperparameters, device: str, compute: Callable[[], tuple[Inner, float, str]]
) -> tuple[Inner, float, str]:
    """The outcome of an earlier trial of the same work in the same pool: a run that goes on keeps its arithmetic."""
    if task.pool is None:
        return compute()
    structure = keys.architecture(models.build(config.make_model, 0))
    name = store.hash_values(structure, task.data, keys.settings(config), device, torch.__version__)[:32]
    path = task.pool / ".trials" / f"{name}.json"
    if path.exists():
        try:
            kept = store.read_json(path, inside=task.pool)
            return ("stacked" if kept["inner"] == "stacked" else "serial"), float(kept["seconds"]), str(kept["why"])
        except (InputError, KeyError, TypeError, ValueError):
            path.unlink()  # damaged: measure again
    measured = compute()
    store.write_json(path, dict(zip(("inner", "seconds", "why"), measured, strict=True)))
    return measured


def _unwatched(job: Job, share: float) -> None:
    """The trial is too short to report."""


def _seconds(train: Callable[[Sequence[Job]], object], jobs: Sequence[Job], config: Hyperparameters) -> float:
    """Seconds per model and step; the better of two measurements."""
    warm = [replace(job, rows=job.rows[: config.batch_size]) for job in jobs]
    times = []
    for some in (warm, jobs, jobs):
        started = time.perf_counter()
        with contextlib.suppress(loop.DivergedError):  # its time counts all the same
            train(some)
        times.append(time.perf_counter() - started)
    return min(times[1:]) / len(jobs) / networks.steps_per_epoch(len(jobs[0].rows), config.batch_size)
