"""The best candidates as they are, kept so that the report can show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from divulge import checks, lazy, store
from divulge.dossier import shape
from divulge.results import plain

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from divulge.dossier import Draft
    from divulge.identification.score_files import Columns
else:
    pl = lazy.module("polars")

NAME = "exhibits"
_SHOWN = 12
_LONGEST = 2000  # characters of a text


@dataclass(frozen=True, slots=True)
class Document:
    """A candidate and the beginning of its text."""

    id: str
    text: str


def keep(draft: Draft, frame: pl.LazyFrame, columns: Columns) -> None:
    """Write the texts of the candidates with the highest scores into ``draft``; nothing where there are no texts.

    Args:
        draft: holds ``selection.parquet``.
        frame: the candidates.
        columns: which of their columns mean what.
    """
    if columns.text is None:
        return
    best = pl.scan_parquet(draft.path / "selection.parquet", glob=False)
    best = best.select("id", "score").top_k(_SHOWN, by=["score", "id"], reverse=[False, True]).collect()
    own = pl.col("row") if columns.id is None else pl.col(columns.id)
    texts = frame.with_row_index("row").select(id=own, text=pl.col(columns.text).cast(pl.String).str.slice(0, _LONGEST))
    with store.tables("candidates"):
        told = texts.filter(pl.col("id").is_in(best["id"].implode())).collect(engine="streaming")
    rows = [Document(str(row["id"]), row["text"]) for row in told.to_dicts() if row["text"]]
    draft.write_json(NAME, plain(rows))


def read(*folders: Path) -> dict[str, str]:
    """Id → text of the documents kept in the first of ``folders`` that has any.

    Raises:
        divulge.InputError: a damaged file.
    """
    path = next((folder / f"{NAME}.json" for folder in folders if (folder / f"{NAME}.json").is_file()), None)
    if path is None:
        return {}
    rows = store.read_json(path)
    if not isinstance(rows, list):
        raise checks.InputError(f"{path}: damaged: a list of documents is needed")
    return {one.id: one.text for one in (shape.parse(row, Document, path) for row in rows)}
