"""What reference models say about records, one model at a time, in memory or streamed to disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from divulge import store
from divulge.errors import InputError
from divulge.types import Bools, Floats, Ints, Records

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK = 8192
"""Records a model is queried on at a time."""

Predict: TypeAlias = Callable[[Records], Floats]
"""``b`` records to outputs ``[b, K]``."""

Signal: TypeAlias = Callable[[Floats, Ints | None], Floats]
"""Outputs ``[b, K]`` and labels ``[b]`` to what is kept of them: ``[b]`` or ``[b, q]``."""

Inside: TypeAlias = Callable[[Any, Records], Floats]
"""A model as a target, and records, to what is kept of its inside: ``[b, w]``."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What training left behind.

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
        shapes = ", ".join(str(kept.shape) for kept in self.outputs)
        return f"Trained(models={len(self)}, engine={self.engine!r}, reused={self.reused}, outputs=[{shapes}])"


def answers(predict: Predict, records: Records, signal: Signal | None) -> Floats:
    """Outputs of one model on all ``records``, asked in chunks, reduced by ``signal`` as they come.

    Examples:
        >>> answers(lambda records: records.x, Records([[1.0, 2.0], [3.0, 4.0]], [0, 1]), lambda z, y: z.max(axis=1))
        array([2., 4.])
    """
    kept = [_chunk(predict, records, slice(at, at + CHUNK), signal) for at in range(0, len(records), CHUNK)]
    return kept[0] if len(kept) == 1 else np.concatenate(kept)


def _chunk(predict: Predict, records: Records, at: slice, signal: Signal | None) -> Floats:
    outputs = predict(records[at])
    if signal is None:
        return outputs
    return narrowed(np.asarray(signal(outputs, None if records.y is None else records.y[at])), outputs.dtype)


def narrowed(kept: Floats, dtype: np.dtype[Any]) -> Floats:
    """Signals as ``dtype``, the type of the outputs.

    One too large for it becomes the largest that is not: whether a model diverged is for its outputs to say, not for
    what is made of them.
    """
    largest = np.finfo(dtype).max
    return np.clip(kept, -largest, largest).astype(dtype, copy=False)


class Sheets:
    """One array ``[m, n_k, ...]`` a set of observed records, filled a model at a time.

    With a folder the arrays are ``.npy`` files written row by row and read back memory-mapped, so that never
    more than one model's outputs are held in memory.
    """

    def __init__(self, models: int, folder: Path | None) -> None:
        self._models, self._folder = models, folder
        self._sheets: list[_Held | _Filed] = []
        self._filled = np.zeros(models, dtype=bool)

    def write(self, model: int, rows: Sequence[Floats]) -> None:
        """Keep the outputs of one model.

        Raises:
            divulge.InputError: the folder cannot be written or the disk is full.
        """
        if not self._sheets:
            self._sheets = [self._sheet(k, row) for k, row in enumerate(rows)]
        try:
            for sheet, row in zip(self._sheets, rows, strict=True):
                sheet.write(model, row)
        except OSError as error:
            raise InputError(f"out: cannot write to {self._folder}: {error.strerror or error}") from None
        self._filled[model] = True

    def read(self) -> tuple[Floats, ...]:
        """The arrays; rows of models without outputs are left out."""
        present = np.flatnonzero(self._filled)
        return tuple(sheet.read(present) for sheet in self._sheets)

    def _sheet(self, k: int, row: Floats) -> _Held | _Filed:
        shape = (self._models, *row.shape)
        if self._folder is None:
            return _Held(np.empty(shape, row.dtype))
        try:
            store.make_private_directory(self._folder)
            return _Filed(self._folder / f"outputs-{k}.npy", shape, row.dtype)
        except OSError as error:
            raise InputError(f"out: cannot write to {self._folder}: {error.strerror or error}") from None


class _Held:
    """Rows in memory."""

    def __init__(self, array: Floats) -> None:
        self._array = array

    def write(self, model: int, row: Floats) -> None:
        self._array[model] = row

    def read(self, present: Ints) -> Floats:
        return self._array if len(present) == len(self._array) else self._array[present]


class _Filed:
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
        if len(present) < self._shape[0]:
            self._compact(present)
        return np.load(self._path, mmap_mode="r", allow_pickle=False)

    def _compact(self, present: Ints) -> None:
        with self._path.open("r+b") as out:
            for to, model in enumerate(present):
                out.seek(self._start + int(model) * self._row)
                row = out.read(self._row)
                out.seek(self._start + to * self._row)
                out.write(row)
            out.truncate(self._start + len(present) * self._row)
            out.seek(0)
            assert self._header(out, len(present)) == self._start  # the format leaves room for the first axis

    def _header(self, out: BinaryIO, models: int) -> int:
        described = {"descr": self._dtype.str, "fortran_order": False, "shape": (models, *self._shape[1:])}
        np.lib.format.write_array_header_1_0(out, described)
        return out.tell()
