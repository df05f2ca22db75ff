"""The best candidates as they are, kept so that the report can show them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import store, tables
from divulge.dossier import shape
from divulge.errors import InputError
from divulge.identification import score_files, selected_rows
from divulge.results import HeatStrip, to_json_values

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from divulge.dossier import Draft
    from divulge.identification.score_files import Columns
    from divulge.tables import Table

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


def keep(draft: Draft, table: Table, columns: Columns, given: Sequence[Path]) -> None:
    """Write the texts of the candidates with the highest scores into ``draft``; nothing where there are no texts.

    Args:
        draft: holds ``selection.parquet``.
        table: the candidates.
        columns: which of their columns mean what.
        given: where they were read; token statistics that `divulge score` wrote there mark their tokens.
    """
    if columns.text is None:
        return
    best = selected_rows.highest(draft.path / "selection.parquet", ["row", "id", "score"], _SHOWN)
    texts = table.take([row["row"] for row in best], {columns.text: tables.TEXT})
    told = {str(row["id"]): texts[row["row"]][columns.text] for row in sorted(best, key=lambda row: row["row"])}
    strips = {} if columns.id is None else _strips(given, told.keys())
    rows = [Document(one, text[:_LONGEST], strips.get(one)) for one, text in told.items() if text]
    draft.write_json(NAME, to_json_values(rows))


def _strips(given: Sequence[Path], wanted: Collection[str]) -> dict[str, HeatStrip]:
    """Id → the values of its tokens, as far as token statistics stand beside the tables that were given.

    There is no second model here to hold the first against. What it knows by heart it still finds likelier than its own
    choices where it hesitates: log-probability of the token, plus the entropy (Zhang et al. 2025, Min-K%++, unscaled).
    """
    strips: dict[str, HeatStrip] = {}
    for path in given:
        for file in sorted((_scored(path) / TOKENS).glob("*.parquet")):
            statistics = tables.open_parquet(file)
            if not {"id", *_STATISTICS} <= set(statistics.collect_schema()):
                continue
            here = statistics.filter(pl.col("id").cast(pl.String).is_in(list(wanted)))
            with tables.table_errors(str(file)):
                rows = here.select("id", *_STATISTICS).collect().to_dicts()
            for row in rows:
                ends, logp, entropy = (row[name] for name in _STATISTICS)
                if ends and entropy:
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
    paths = [folder / f"{NAME}.json" for folder in folders]
    path = next((path for path in paths if os.path.lexists(path)), None)
    if path is None:
        return {}
    rows = store.read_json(path, inside=path.parent)
    if not isinstance(rows, list):
        raise InputError(f"{path}: damaged: a list of documents is needed")
    documents = [shape.parse(row, Document, path) for row in rows]
    for one in documents:
        if one.heat is not None and not one.heat.fits(one.text):
            raise InputError(f"{path}: damaged: the heat of {one.id} does not belong to its text")
    return {one.id: one for one in documents}
