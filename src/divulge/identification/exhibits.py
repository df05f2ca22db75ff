"""The best candidates as they are, kept so that the report can show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store
from divulge.dossier import shape
from divulge.identification import kinds, score_files, selected_rows, shards
from divulge.results import HeatStrip, plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from divulge.dossier import Draft
    from divulge.identification.score_files import Columns
    from divulge.identification.shards import ScoreTable

NAME = "exhibits"
TOKENS = "tokens"
_STATISTICS = ("end", "logp", "entropy")
_SHOWN = 12
_LONGEST = 2000  # characters of a text
_DIGITS = 3
_AGAINST = "one that it would choose there by itself"


@dataclass(frozen=True, slots=True)
class Document:
    """A candidate, the beginning of its text, and how much better the model knows its tokens than it should."""

    id: str
    text: str
    heat: HeatStrip | None = None


def keep(draft: Draft, table: ScoreTable, columns: Columns, given: Sequence[Path]) -> None:
    """Write the texts of the candidates with the highest scores into ``draft``; nothing where there are no texts.

    Args:
        draft: holds ``selection.parquet``.
        table: the candidates.
        columns: which of their columns mean what.
        given: where they were read; token statistics that `divulge score` wrote there mark their tokens.
    """
    if columns.text is None:
        return
    best = {row["id"] for row in selected_rows.highest(draft.path / "selection.parquet", ["id", "score"], _SHOWN)}
    told = dict(_texts(table, columns.id, columns.text, best))
    strips = {} if columns.id is None else _strips(given, set(map(str, best)))
    rows = [Document(str(one), text[:_LONGEST], strips.get(str(one))) for one, text in told.items() if text]
    draft.write_json(NAME, plain(rows))


def _texts(table: ScoreTable, column: str | None, text: str, wanted: Collection[Any]) -> Iterator[tuple[Any, str]]:
    """Ids and texts of the wanted rows; ids are numbers of rows where there is no column of them."""
    at = 0
    for piece in table.frames([text, *([] if column is None else [column])]):
        ids = range(at, at + len(piece)) if column is None else piece[column].tolist()
        here = [row for row, one in enumerate(ids) if one in wanted]
        yield from ((ids[row], said) for row, said in zip(here, kinds.texts(piece[text][here]), strict=True))
        at += len(piece)


def _strips(given: Sequence[Path], wanted: Collection[str]) -> dict[str, HeatStrip]:
    """Id → the values of its tokens, as far as token statistics stand beside the tables that were given.

    There is no second model here to hold the first against. What it knows by heart it still finds likelier than its own
    choices where it hesitates: log-probability of the token, plus the entropy (Zhang et al. 2025, Min-K%++, unscaled).
    """
    strips: dict[str, HeatStrip] = {}
    for path in given:
        for file in sorted((_scored(path) / TOKENS).glob("*.parquet")):
            if not {"id", *_STATISTICS} <= set(score_files.names(file)):
                continue
            for piece in shards.parquet(file, ["id", *_STATISTICS]):
                here = [row for row, one in enumerate(piece["id"].tolist()) if str(one) in wanted]
                for row in piece.where(np.array(here, np.int64)).rows():
                    ends, logp, entropy = (row[name] for name in _STATISTICS)
                    if ends is not None and len(ends) and entropy is not None and len(entropy):
                        strips[str(row["id"])] = _strip(ends, logp, entropy)
    return strips


def _scored(path: Path) -> Path:
    """Where `divulge score` ran: what it wrote was given, or a table beside it, as the demo's is."""
    if path.suffix == ".parquet":
        return path.parent / "token-statistics" / path.stem
    return path.parent if path.name == score_files.DOCUMENTS else path


def _strip(ends: Sequence[int], logp: Sequence[float], entropy: Sequence[float]) -> HeatStrip:
    values = np.add(logp, entropy).round(_DIGITS).tolist()
    inside = [(end, value) for end, value in zip(ends, values, strict=True) if end <= _LONGEST]
    return HeatStrip(tuple(end for end, _ in inside), tuple(value for _, value in inside), _AGAINST)


def read(*folders: Path) -> dict[str, Document]:
    """Id → document of those kept in the first of ``folders`` that has any.

    Raises:
        divulge.InputError: a damaged file.
    """
    path = next((folder / f"{NAME}.json" for folder in folders if (folder / f"{NAME}.json").is_file()), None)
    if path is None:
        return {}
    rows = store.read_json(path)
    if not isinstance(rows, list):
        raise checks.InputError(f"{path}: damaged: a list of documents is needed")
    documents = [shape.parse(row, Document, path) for row in rows]
    for one in documents:
        if one.heat is not None and not one.heat.fits(one.text):
            raise checks.InputError(f"{path}: damaged: the heat of {one.id} does not belong to its text")
    return {one.id: one for one in documents}
