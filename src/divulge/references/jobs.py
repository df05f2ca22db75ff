"""Jobs, one for each model: what an engine is given, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias

import numpy as np

from divulge import store, user_code
from divulge.errors import InputError
from divulge.references import pool
from divulge.references.record_source import RecordSource
from divulge.types import Array, Bools, Floats, Ints, Records
from divulge.validation import check_instance, check_integer, check_labels

LocalEngine: TypeAlias = Literal["serial", "stacked"]
"""Engines of one process: the two kinds of arithmetic that the other engines spread over processes and machines."""

Tick: TypeAlias = Callable[[float], None]
"""Called with the share of one model's epochs that is done."""

Execute: TypeAlias = Callable[..., Any]
"""Calls a function with its arguments in another place, and returns its result."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One model to train.

    Args:
        model: its row in the splits.
        seed: its own seed.
        rows: positions of its records.
        key: its name in the pool.
    """

    model: int
    seed: int
    rows: Ints
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """One trained model: the arrays that the pool keeps, its predictions, and itself as a target."""

    arrays: Callable[[Sequence[Floats]], Mapping[str, Array]]
    predict: Predict
    target: Any = None


def output_only_model(predict: Predict, target: Any = None) -> TrainedModel:
    """Return a model of which the pool keeps its outputs on the observed records, and nothing else."""
    return TrainedModel(lambda rows: {str(k): np.ascontiguousarray(row) for k, row in enumerate(rows)}, predict, target)


@dataclass(frozen=True, slots=True, eq=False)
class JobResult:
    """One finished job: outputs on every observed set, or None when training diverged."""

    job: Job
    rows: Sequence[Floats] | None


Visit: TypeAlias = "Callable[[int, TrainedModel], tuple[bool, bool]]"
"""Called with the number of epochs done and the model; returns whether to keep this state, and whether to stop."""


class Learner(Protocol):
    """Training, storing and restoring of one model: a network, the user's own model or a fine-tune."""

    @property
    def timed_by_doing(self) -> bool:
        """Whether only training a whole model tells how long one takes."""
        ...

    @property
    def device(self) -> str:
        """The device that models are trained on, as `divulge.targets.torch_modules.resolve_device` takes it."""
        ...

    def settings(self) -> dict[str, str]:
        """Return the settings by name, for a reader of the pool."""
        ...

    def width(self, records: Records, classes: int | None) -> int:
        """Return the size of the label set; 0 for models without classes."""
        ...

    def check(self, task: Task) -> None:
        """Find bad input before any work starts."""
        ...

    def check_device(self) -> None:
        """Check that models can be trained on this machine's devices.

        Raises:
            divulge.InputError: it lacks the one asked for.
        """
        ...

    def trial(
        self, task: Task, jobs: Sequence[Job], *, untimed: bool, execute: Execute | None = None
    ) -> tuple[LocalEngine, float, str]:
        """Return the faster engine for these jobs, the seconds they take with it in one process, and the reason.

        ``untimed`` says that nobody needs the seconds: there is but one process or one job. ``execute`` measures where
        models will be trained; None for here.
        """
        ...

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Return the pool's key of a model."""
        ...

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Return a function that trains a model; it holds the data where training needs them."""
        ...

    def trace(self, task: Task, job: Job, visit: Visit) -> TrainedModel | None:
        """Train one model, show it after each epoch, and return the last state that was to be kept; None without any.

        Models that are not trained in epochs are shown once, as after one epoch.
        """
        ...

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Train several models at once; None for one that diverged.

        Raises:
            divulge.InputError: models that cannot be stacked, with the reason.
        """
        ...

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """Return the outputs on every observed set, from the stored arrays."""
        ...


class OutputLearner(ABC):
    """Models of which the pool keeps their outputs on the observed records, and which are trained one by one."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """The CPU, or what the user's own code takes."""
        return "cpu"

    def check_device(self) -> None:  # noqa: B027 - most such models have none
        """Accept any: what such models are trained on is known where they are trained."""

    @abstractmethod
    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Return a function that trains a model."""

    def trace(self, task: Task, job: Job, visit: Visit) -> TrainedModel | None:
        """Train a model, and show it once, as after one epoch."""
        learned = self.learner(task)(job, lambda share: None)
        return learned if visit(1, learned)[0] else None

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Raise, as only small networks are stacked."""
        raise InputError("engine: 'stacked' trains small networks alone; use 'serial' or 'processes'")

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """Return the outputs that the pool kept."""
        return [arrays[str(k)] for k in range(len(task.observe))]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Everything that the jobs of a run share.

    The user's modules come first: in another process they are run again before anything made from them is read.
    """

    modules: user_code.UserModules = field(default_factory=user_code.loaded_user_modules, kw_only=True)
    learner: Learner
    records: Records  # a `RecordSource` until `read_own_records` has read what its models learn from
    data: str
    classes: int
    observe: tuple[Records, ...]
    signal: Signal | None
    pool: Path | None
    inside: InternalSignal | None = None
    measure: InternalSignal | None = None

    def describe_job(self, job: Job) -> dict[str, Any]:
        """Return the description that the pool stores beside a model."""
        return {
            "model": job.model,
            "seed": job.seed,
            "records": len(job.rows),
            "data": self.data,
            "how": self.learner.settings(),
        }


def read_own_records(task: Task, jobs: Sequence[Job]) -> tuple[Task, Sequence[Job]]:
    """Return a task whose records are in memory, those of ``jobs`` alone where they were not, and jobs of its rows."""
    if not isinstance(task.records, RecordSource):
        return task, jobs
    rows = np.unique(np.concatenate([job.rows for job in jobs]))
    own_jobs = [replace(job, rows=np.searchsorted(rows, job.rows)) for job in jobs]
    return replace(task, records=task.records[rows]), own_jobs


_SAMPLED_RECORDS = 4096


def read_sample(task: Task, rows: Ints) -> Task:
    """Return a task with records in memory, the first of ``rows`` alone where they were not; for checks and trials."""
    if not isinstance(task.records, RecordSource):
        return task
    return replace(task, records=task.records[rows[:_SAMPLED_RECORDS]])


def query_model(task: Task, learned: TrainedModel) -> list[Floats]:
    """Return a model's outputs on every observed set; beside the first, the signals of its inside."""
    rows = [query_in_chunks(learned.predict, records, task.signal) for records in task.observe]
    if task.inside is not None and rows:
        internal_values = clip_to_dtype(task.inside(learned.target, task.observe[0]), rows[0].dtype)
        rows[0] = np.hstack([rows[0].reshape(len(internal_values), -1), internal_values])
    return rows


def finish_job(task: Task, job: Job, learned: TrainedModel) -> JobResult:
    """Query a trained model and store it; one whose outputs are not finite counts as diverged."""
    rows = query_model(task, learned)
    if not all(np.isfinite(row).all() for row in rows):
        return JobResult(job, None)
    if task.pool is not None:
        pool.Pool(task.pool).put(job.key, learned.arrays(rows), task.describe_job(job))
    return JobResult(job, rows)


QUERY_CHUNK = 8192
"""Records a model is queried on at a time."""

Predict: TypeAlias = Callable[[Records], Floats]
"""``b`` records to outputs ``[b, K]``."""

Signal: TypeAlias = Callable[[Floats, Ints | None], Floats]
"""Outputs ``[b, K]`` and labels ``[b]`` to what is kept of them: ``[b]`` or ``[b, q]``."""

InternalSignal: TypeAlias = Callable[[Any, Records], Floats]
"""A model as a target, and records, to what is kept of it: ``[b, w]``."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Outputs of trained reference models, and how they were trained.

    Args:
        outputs: one array for each set of observed records, ``[m, n_k, ...]``: logits, or the signals asked for (then,
            of the first set, what was asked of their inside); float32 (float64 where training was in double precision).
        trained_on: bool ``[m, n]``, the rows of the splits whose models were trained.
        engine: how they were trained, with the measurement that chose it.
        reused: how many came from the pool.
        seconds: wall-clock time.
        warnings: what went wrong and was mended or left out.
    """

    outputs: tuple[Floats, ...]
    trained_on: Bools
    engine: str
    reused: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.trained_on)

    def __repr__(self) -> str:
        shapes = ", ".join(str(outputs.shape) for outputs in self.outputs)
        return f"Trained(models={len(self)}, engine={self.engine!r}, reused={self.reused}, outputs=[{shapes}])"


def query_in_chunks(predict: Predict, records: Records, signal: Signal | None) -> Floats:
    """Query one model on all ``records`` in chunks, and reduce the outputs by ``signal`` as they come.

    Examples:
        >>> records = Records([[1.0, 2.0], [3.0, 4.0]], [0, 1])
        >>> query_in_chunks(lambda records: records.x, records, lambda z, y: z.max(axis=1))
        array([2., 4.])
    """
    chunks = []
    for start in range(0, len(records), QUERY_CHUNK):
        chunk = records[start : start + QUERY_CHUNK]
        outputs = predict(chunk)
        if signal is not None:
            outputs = clip_to_dtype(np.asarray(signal(outputs, chunk.y)), outputs.dtype)
        chunks.append(outputs)
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def clip_to_dtype(values: Floats, dtype: np.dtype[Any]) -> Floats:
    """Clip and cast signals to ``dtype``, the type of the outputs.

    One too large for it becomes the largest that is not: whether a model diverged is for its outputs to say, not for
    what is made of them.
    """
    largest = np.finfo(dtype).max
    return np.clip(values, -largest, largest).astype(dtype, copy=False)


class OutputStore:
    """One array ``[m, n_k, ...]`` a set of observed records, filled a model at a time.

    With a folder the arrays are ``.npy`` files written row by row and read back memory-mapped, so that never
    more than one model's outputs are held in memory.
    """

    def __init__(self, models: int, folder: Path | None) -> None:
        self._models, self._folder = models, folder
        self._sheets: list[_MemoryOutputs | _FileOutputs] = []
        self._filled = np.zeros(models, dtype=bool)

    def write(self, model: int, rows: Sequence[Floats]) -> None:
        """Keep the outputs of one model.

        Raises:
            divulge.InputError: the folder cannot be written or the disk is full.
        """
        try:
            if not self._sheets:  # the first model shows the shapes
                shapes = [(self._models, *row.shape) for row in rows]
                if self._folder is None:
                    self._sheets = [
                        _MemoryOutputs(np.empty(shape, row.dtype)) for shape, row in zip(shapes, rows, strict=True)
                    ]
                else:
                    store.make_private_directory(self._folder)
                    self._sheets = [
                        _FileOutputs(self._folder / f"outputs-{k}.npy", shape, row.dtype)
                        for k, (shape, row) in enumerate(zip(shapes, rows, strict=True))
                    ]
            for sheet, row in zip(self._sheets, rows, strict=True):
                sheet.write(model, row)
        except OSError as error:
            raise InputError(f"out: cannot write to {self._folder}: {error.strerror or error}") from None
        self._filled[model] = True

    def read(self) -> tuple[Floats, ...]:
        """Return the arrays; rows of models without outputs are left out."""
        present = np.flatnonzero(self._filled)
        return tuple(sheet.read(present) for sheet in self._sheets)


class _MemoryOutputs:
    """Outputs of one set of records, in memory."""

    def __init__(self, array: Floats) -> None:
        self._array = array

    def write(self, model: int, row: Floats) -> None:
        self._array[model] = row

    def read(self, present: Ints) -> Floats:
        return self._array if len(present) == len(self._array) else self._array[present]


class _FileOutputs:
    """Rows in an ``.npy`` file. Written, not mapped: a full disk is then an error and not a bus fault."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path, self._shape, self._dtype = path, shape, dtype
        self._row = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        path.touch(mode=0o600)
        with path.open("wb") as out:
            self._start = self._header(out, shape[0])

    def write(self, model: int, row: Floats) -> None:
        with self._path.open("r+b") as out:
            out.seek(self._start + model * self._row)
            out.write(np.ascontiguousarray(row, dtype=self._dtype).data)

    def read(self, present: Ints) -> Floats:
        if len(present) < self._shape[0]:  # close up the rows of missing models, in place
            with self._path.open("r+b") as out:
                for new_row, model in enumerate(present):
                    out.seek(self._start + int(model) * self._row)
                    row = out.read(self._row)
                    out.seek(self._start + new_row * self._row)
                    out.write(row)
                out.truncate(self._start + len(present) * self._row)
                out.seek(0)
                assert self._header(out, len(present)) == self._start  # the format leaves room for the first axis
        return np.load(self._path, mmap_mode="r", allow_pickle=False)

    def _header(self, out: BinaryIO, models: int) -> int:
        described = {"descr": self._dtype.str, "fortran_order": False, "shape": (models, *self._shape[1:])}
        np.lib.format.write_array_header_1_0(out, described)
        return out.tell()


def count_classes(records: Records | RecordSource, classes: int | None) -> int:
    """Count the classes: what the user says, or the largest label plus one.

    Raises:
        divulge.InputError: no labels, a label outside the set, fewer than 2 classes, or fewer records than classes
            where the labels alone say how many there are (they may be something else).
    """
    if isinstance(records, RecordSource):
        n_labels = records.largest_class + 1
        width = n_labels if classes is None else check_integer(classes, "classes", minimum=2)
        if n_labels > width or width < 2:
            raise InputError(f"records: labels below {width}, of at least 2 classes, are needed, got {n_labels - 1}")
        return width
    check_instance(records, "records", Records)
    if records.y is None:
        raise InputError("records: labels are needed to train on, got y=None")
    width = int(records.y.max()) + 1 if classes is None else check_integer(classes, "classes", minimum=2)
    check_labels(records.y, "records.y", classes=width)
    if width < 2:
        raise InputError("records.y: at least 2 classes are needed, got 1 (or give the size of the label set)")
    if classes is None and len(records) < width:
        raise InputError(f"records: at least as many as classes ({width}) are needed, got {len(records)}")
    return width
