"""What models make of the prompts of a set of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import tables
from divulge.extraction.chances import draws_needed, seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from divulge.types import Array, Bools, Estimate, Floats, Ints
GREEDY = "verbatim, greedy"
_LIKELY = 0.5  # chance at which a document counts as seen in n draws


@dataclass(frozen=True, slots=True, eq=False)
class Completed:
    """What one model makes of ``n`` prompts.

    Args:
        log_p: logarithm of the probability that the suffix is drawn, ``[n]``.
        verbatim: whether greedy decoding gives the suffix, ``[n]``.
        longest: tokens of the longest run that the greedy continuation shares with the suffix, ``[n]``.
        overlap: share of both that stands in matching runs, ``[n]``.
        texts: the greedy continuations, or None.
    """

    log_p: Floats
    verbatim: Bools
    longest: Ints
    overlap: Floats
    texts: tuple[str, ...] | None = None

    def given(self, draws: tuple[int, ...], near: float) -> dict[str, Bools]:
        """Which suffixes the model gives back, ``[n]``, by each way to ask for them."""
        ways = {GREEDY: self.verbatim, f"overlap of at least {near:g}, greedy": self.overlap >= near - 1e-12}
        for n in draws:
            ways[f"likely within {n:,} {'draws' if n > 1 else 'draw'}"] = seen(self.log_p, n) >= _LIKELY
        return ways


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A set of documents, as far as they were asked for.

    Args:
        ids: of the ``n`` documents, ``[n]``.
        target: what the examined model makes of them.
        reference: what the reference model makes of them, or None.
        prompts: the prompts as text, or None.
        suffixes: the suffixes as text, or None.
        repeated: documents left out because their passage stood in the set before.
        short: documents left out because they are too short.
        shortened: prompts that lost their beginning, as the model takes no more.
    """

    ids: Array
    target: Completed
    reference: Completed | None = None
    prompts: tuple[str, ...] | None = None
    suffixes: tuple[str, ...] | None = None
    repeated: int = 0
    short: int = 0
    shortened: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of_table(cls, table: pl.DataFrame) -> Measured:
        """What `table` made a table of, but for the numbers of documents left out."""
        parts = ("prefix", "suffix", "generated")
        prompts, suffixes, said = (tuple(table[name]) if name in table.columns else None for name in parts)
        reference = _of_columns(table, "reference ") if "reference log_p" in table.columns else None
        return cls(tables.to_array(table["id"]), _of_columns(table, "", said), reference, prompts, suffixes)

    def table(self, name: str) -> pl.DataFrame:
        """One row per document."""
        columns: dict[str, Array] = {"set": _texts([name] * len(self)), "id": _texts([str(one) for one in self.ids])}
        for prefix, model in (("", self.target), ("reference ", self.reference)):
            if model is not None:
                columns |= {
                    f"{prefix}log_p": model.log_p,
                    f"{prefix}draws for an even chance": draws_needed(model.log_p),
                    f"{prefix}verbatim": model.verbatim,
                    f"{prefix}longest match": model.longest,
                    f"{prefix}overlap": model.overlap,
                }
        if self.prompts is not None:
            said = {"prefix": self.prompts, "suffix": self.suffixes, "generated": self.target.texts}
            columns |= {part: _texts(texts or [None] * len(self)) for part, texts in said.items()}
        return tables.from_arrays(columns)


def _texts(texts: Sequence[str | None]) -> Array:
    """As they are: NumPy's own strings would all be as long as the longest."""
    return np.array(texts, dtype=object)


def _of_columns(table: pl.DataFrame, prefix: str, texts: tuple[str, ...] | None = None) -> Completed:
    log_p, verbatim, longest, overlap = (
        tables.to_array(table[f"{prefix}{name}"]) for name in ("log_p", "verbatim", "longest match", "overlap")
    )
    return Completed(log_p, verbatim, longest, overlap, texts)


@dataclass(frozen=True, slots=True)
class RateOf:
    """How many documents are given back by one way to ask for them.

    Args:
        way: which.
        members: share of the members; with a reference model only what that one does not give back as well.
        nonmembers: the same of the non-members.
        difference: the first less the second.
        of_reference: members and non-members that the reference model gives back, too; None without one.
    """

    way: str
    members: Estimate
    nonmembers: Estimate
    difference: Estimate
    of_reference: tuple[int, int] | None = None
