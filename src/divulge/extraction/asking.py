"""Two models, asked for passages some at a time; what is finished outlives an interruption."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, store
from divulge.extraction.completed import Completed, Measured
from divulge.extraction.overlap import likeness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from divulge.extraction.passages import Passage, Passages
    from divulge.targets import Decoding, GivesContinuations
    from divulge.types import Array, Records

FINISHED = ".finished"
_COLUMNS = ("log_p", "verbatim", "longest", "overlap")
_CHUNK = 64  # documents between two words of progress; an interruption loses no more


class Asked:
    """Two models, asked for the passages of one set after the other.

    Args:
        target: the model under examination.
        reference: the model whose own continuations do not count, or None.
        decoding: how tokens are drawn.
        texts: whether texts may be kept.
        tell: called with the number of documents finished and of all.
        total: of all documents.
        finished: folder of what was computed before and is computed now, or None.
    """

    def __init__(
        self,
        target: GivesContinuations,
        reference: GivesContinuations | None,
        decoding: Decoding,
        texts: bool,
        tell: Callable[[int, int], None],
        total: int,
        finished: Path | None,
    ) -> None:
        self._models = (target, reference)
        self._decoding, self._texts, self._finished = decoding, texts, finished
        self._tell, self._done, self._total = tell, 0, total

    def measured(self, records: Records, made: Passages, used: Sequence[Passage]) -> Measured:
        """What the models make of a set."""
        ids = np.arange(len(records)) if records.ids is None else records.ids
        target, reference = self._models
        rows = np.array([passage.row for passage in used])
        measured = Measured(
            ids[rows],
            self._completed(target, used, "target"),
            None if reference is None else self._completed(reference, used, "reference"),
            repeated=len(made.cut) - len(used),
            short=made.short,
            shortened=made.shortened,
        )
        self._done += len(used)
        if not self._texts:
            return measured
        prompts, suffixes = (
            tuple(target.decode(part) for part in parts)
            for parts in zip(*((passage.prefix, passage.suffix) for passage in used), strict=True)
        )
        return replace(measured, prompts=prompts, suffixes=suffixes)

    def _completed(self, model: GivesContinuations, used: Sequence[Passage], name: str) -> Completed:
        parts = []
        for first in range(0, len(used), _CHUNK):
            some = used[first : first + _CHUNK]
            parts.append(self._part(model, some, f"{name}-{self._done + first}.npz"))
            with errors.user_code_errors("progress"):
                self._tell(self._done + first + len(some), self._total)
        columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        return Completed(*(columns[key] for key in _COLUMNS), texts=self._decoded(model, columns))

    def _decoded(self, model: GivesContinuations, columns: Mapping[str, Array]) -> tuple[str, ...] | None:
        if not self._texts:
            return None
        rows = np.split(columns["written"], np.cumsum(columns["sizes"])[:-1])
        return tuple(model.decode(tuple(tokens.tolist())) for tokens in rows)

    def _part(self, model: GivesContinuations, used: Sequence[Passage], name: str) -> dict[str, Array]:
        """The columns of `Completed` for some passages, and where texts are kept the tokens that were written."""
        path = None if self._finished is None else self._finished / name
        if path is not None and path.exists():
            return store.read_arrays(path, inside=path.parent)
        columns, written = _asked(model, used, self._decoding)
        if self._texts:
            columns["sizes"] = np.array([len(tokens) for tokens in written], np.int64)
            columns["written"] = np.array([token for tokens in written for token in tokens], np.int64)
        if path is not None:
            store.write_arrays(path, columns)
        return columns


def _asked(
    model: GivesContinuations, used: Sequence[Passage], decoding: Decoding
) -> tuple[dict[str, Array], list[tuple[int, ...]]]:
    """The columns of `Completed` for some passages, and the greedy continuations."""
    prompts = [(*model.start, *passage.prefix) for passage in used]
    asked = model.continuations(prompts, [passage.suffix for passage in used], decoding=decoding)
    # Greedy decoding goes on with what is asked for as long as that is the likeliest: then nothing need be generated.
    made: list[Any] = [passage.suffix for passage in used]
    rest = np.flatnonzero(~asked.verbatim)
    if len(rest):
        written = model.greedy([prompts[at] for at in rest], len(made[0]))
        for at, tokens in zip(rest, written, strict=True):
            made[at] = tokens
    alike = [likeness(tokens, passage.suffix) for tokens, passage in zip(made, used, strict=True)]
    longest, overlap = (np.array(column) for column in zip(*((one.longest, one.overlap) for one in alike), strict=True))
    return dict(zip(_COLUMNS, (asked.log_p, asked.verbatim, longest, overlap), strict=True)), made
