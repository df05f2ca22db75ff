"""The best candidates as they are, kept so that the report can show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, lazy, store
from divulge.dossier import shape
from divulge.identification import score_files
from divulge.results import HeatStrip, plain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import polars as pl

    from divulge.dossier import Draft
    from divulge.identification.score_files import Columns
else:
    pl = lazy.module("polars")

NAME = "exhibits"
TOKENS = "tokens"
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


def keep(draft: Draft, frame: pl.LazyFrame, columns: Columns, given: Sequence[Path]) -> None:
    """Write the texts of the candidates with the highest scores into ``draft``; nothing where there are no texts.

    Args:
        draft: holds ``selection.parquet``.
        frame: the candidates.
        columns: which of their columns mean what.
        given: where they were read; token statistics that `divulge score` wrote there mark their tokens.
    """
    if columns.text is None:
        return
    best = pl.scan_parquet(draft.path / "selection.parquet", glob=False)
    best = best.select("id", "score").top_k(_SHOWN, by=["score", "id"], reverse=[False, True]).collect()
    own = pl.col("row") if columns.id is None else pl.col(columns.id)
    texts = frame.with_row_index("row").select(id=own, text=pl.col(columns.text).cast(pl.String).str.slice(0, _LONGEST))
    with store.tables("candidates"):
        told = texts.filter(pl.col("id").is_in(best["id"].implode())).collect(engine="streaming")
    strips = {} if columns.id is None else _strips(given, {str(one) for one in best["id"].to_list()})
    rows = [Document(str(row["id"]), row["text"], strips.get(str(row["id"]))) for row in told.to_dicts() if row["text"]]
    draft.write_json(NAME, plain(rows))


def _strips(given: Sequence[Path], wanted: Collection[str]) -> dict[str, HeatStrip]:
    """Id → the values of its tokens, as far as token statistics stand beside the tables that were given.

    There is no second model here to hold the first against. What it knows by heart it still finds likelier than its own
    choices where it hesitates: log-probability of the token, plus the entropy (Zhang et al. 2025, Min-K%++, unscaled).
    """
    strips: dict[str, HeatStrip] = {}
    for path in given:
        run = path.parent if path.name == score_files.DOCUMENTS else path
        for file in sorted((run / TOKENS).glob("*.parquet")):
            if not {"end", "logp", "entropy"} <= set(score_files.names(file)):
                continue
            shard = score_files.parquet(file)
            with store.tables(str(file)):
                here = shard.select(pl.col("id").cast(pl.String).is_in(list(wanted)).any()).collect().item()
                rows = shard.filter(pl.col("id").cast(pl.String).is_in(list(wanted))).collect() if here else None
            for row in () if rows is None else rows.select("id", "end", "logp", "entropy").to_dicts():
                if row["end"] and row["entropy"]:
                    strips[str(row["id"])] = _strip(row["end"], row["logp"], row["entropy"])
    return strips


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
