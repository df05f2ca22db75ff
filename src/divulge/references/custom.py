"""Reference models made by the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from divulge import errors, store, targets
from divulge.errors import InputError
from divulge.references import fitting, keys
from divulge.references.engines import ENGINES, Placement
from divulge.references.jobs import Inner, Job, Task, Tick, TrainedModel, by_outputs, kept_outputs
from divulge.references.label_sets import label_set
from divulge.references.predictions import Inside, Predict, Signal, Trained
from divulge.references.progress import Progress
from divulge.references.splits import Splits
from divulge.types import Array, Bools, Floats, Ints, Records
from divulge.validation import check_choice, check_instance, check_integer


@dataclass(frozen=True, slots=True)
class Custom:
    """The user's own training, of any kind of model.

    Args:
        train: ``train(records, seed) -> target``; the target is anything `divulge.targets.adapt` takes: a network, a
            scikit-learn classifier, a function from ``x[b, ...]`` to ``[b, K]``, an object with ``logits(records)``.
        count: number of reference models.
        version: part of the pool's key. Name, source and captured values of ``train`` are in the key too, but what
            it imports is not: change this when that changes.
        outputs: "logits" or "probabilities": what a network or function returns.
        engine: "serial" (one after the other, with all the threads that ``train`` uses), "processes", "ray", or "auto":
            the first model is trained here and timed, and where the others would take more than 15 seconds, they are
            spread over processes, except for a ``train`` that uses a GPU or cannot be pickled. All but "serial" train
            on one thread, and give the same models bit for bit.
        workers: processes for "processes"; None means one per core.

    What the pool keeps of such a model are its outputs on the observed records.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    train: Callable[[Records, int], Any]
    count: int = 16
    version: str = ""
    outputs: Literal["logits", "probabilities"] = "logits"
    engine: Literal["auto", "serial", "processes", "ray"] = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.train):
            raise InputError("train: a function of records and a seed is needed")
        check_integer(self.count, "count", least=1, most=10**6)
        check_instance(self.version, "version", str, "a text")
        check_choice(self.outputs, "outputs", ("logits", "probabilities"))
        check_choice(self.engine, "engine", tuple(name for name in ENGINES if name != "stacked"))
        Placement(self.engine, self.workers)

    def fit(
        self,
        records: Records,
        splits: Splits | Bools,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        signal: Signal | None = None,
        classes: int | None = None,
        pool: Path | str | None = None,
        out: Path | str | None = None,
        progress: Progress | None = None,
        inside: Inside | None = None,
    ) -> Trained:
        """Train the models of ``splits`` and keep what they say about the observed records (see `Train.fit`)."""
        work = fitting.Work(records, splits, tuple(observe), signal, classes, pool, out, progress, inside)
        return fitting.fit(_Targets(self), work, self.count, seed, Placement(self.engine, self.workers))


@dataclass(frozen=True, slots=True)
class _Targets:
    """Targets made by ``config.train``: how they are named, made, questioned and brought back from the pool."""

    config: Custom

    @property
    def timed_by_doing(self) -> bool:
        """Nothing is known of the user's function."""
        return True

    def settings(self) -> dict[str, str]:
        """The function's name and version."""
        return {"train": getattr(self.config.train, "__qualname__", "?"), "version": self.config.version}

    def width(self, records: Records, classes: int | None) -> int:
        """Of the whole label set."""
        return label_set(records, classes)

    def check(self, task: Task) -> None:
        """Nothing can be known before the user's function has run."""

    def trial(self, task: Task, jobs: Sequence[Job], *, alone: bool) -> tuple[Inner, float, str]:
        """One after the other in each process."""
        return "serial", 0.0, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Digest of the function, its version, data, subset, seed, and of what is kept (observed records, signal)."""
        observed = [keys.data(records) for records in task.observe]
        how = keys.function(self.config.train), self.config.version, self.config.outputs
        kept = [keys.function(task.signal), *([] if task.inside is None else [keys.function(task.inside)])]
        return store.hash_values(keys.ARITHMETIC, how, task.data, rows, seed, observed, *kept)[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """The user's function on the records of a job."""

        def learn(job: Job, tick: Tick) -> TrainedModel:
            with errors.user_code_errors("train"):
                target = self.config.train(task.records[job.rows], job.seed)
            tick(1.0)
            known = adapted(target, task.classes, self.config.outputs)
            return by_outputs(asking(known, task.classes), known)

        return learn

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Refused: only networks are stacked."""
        raise InputError("engine: 'stacked' trains networks alone; use 'serial' or 'processes'")

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """The outputs the pool kept."""
        return kept_outputs(task, arrays)


def adapted(target: Any, classes: int, outputs: str) -> targets.GivesLogits:
    """What the user made, as a target.

    Raises:
        divulge.InputError: not a target.
    """
    # A classifier that never saw a class has no output for it: its adapter is told the whole label set.
    seen = hasattr(target, "classes_") and not isinstance(target, targets.GivesLogits)
    return targets.SklearnTarget(target, classes=classes) if seen else targets.adapt(target, outputs=outputs)


def asking(known: targets.GivesLogits, classes: int) -> Predict:
    """How to get logits ``[b, classes]`` from a target, which raises for outputs of another width."""

    def predict(records: Records) -> Floats:
        logits = known.logits(records)
        if logits.shape != (len(records), classes):
            raise InputError(f"train: outputs of shape ({len(records)}, {classes}) are needed, got {logits.shape}")
        return logits.astype(np.float32)

    return predict
