"""Documents through a language model: sharded token statistics, resumed where a run was killed."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import lazy, store, tables
from divulge.dossier import Dossier
from divulge.errors import InputError
from divulge.identification import score_files
from divulge.results import ScoringSummary, Skipped
from divulge.signals import tokens as signals
from divulge.targets import token_statistics
from divulge.targets.endpoint import Endpoint
from divulge.validation import check_integer, require_callable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from divulge.dossier import Draft
    from divulge.identification.from_tables import Progress
    from divulge.tables import Table
    from divulge.targets import folders
    from divulge.targets.token_statistics import GivesTokens
    from divulge.types import Array
else:
    folders = lazy.module("divulge.targets.folders")

KIND = "scores"
_NAMED = 10  # documents that are skipped
_BATCH = 1 << 14  # rows at a time, of which each may hold a long document
JOURNAL = ".journal.jsonl"
KEPT = ("tokens", "documents", JOURNAL)
"""Finished work in a draft, from which an interrupted run is resumed."""


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """What to compute besides the signals of one pass.

    Args:
        text: column of the documents.
        id: column of their ids; the row number where None and no column is called ``id``.
        lowercase: also score the lower-cased texts, which doubles the work.
        reference: a model with the same tokenizer that did not see the documents.
        shard: documents per file.
    """

    text: str = "text"
    id: str | None = None
    lowercase: bool = False
    reference: GivesTokens | None = None
    shard: int = 512

    def key(self) -> dict[str, Any]:
        """The part of the options that determines the numbers."""
        reference = None if self.reference is None else dict(self.reference.key())
        return {"lowercase": self.lowercase, "reference": reference}


@dataclass(frozen=True, slots=True)
class Shard:
    """Some documents, in the order of the table, and the file their scores go to."""

    ids: list[Any]
    texts: list[str]
    name: str


def score(
    paths: Sequence[Path],
    target: GivesTokens,
    out: Path,
    options: ScoringOptions,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ScoringSummary:
    """Write token statistics and signals of every document to ``out``.

    ``out/tokens`` gets one row per document with a list per statistic and one of the places where its tokens end,
    ``out/documents`` one row per document with id, text and every signal (larger = more member-like), which
    `divulge identify` reads. A shard is written whole and named by its content: what an interrupted run, or the run
    that is replaced, wrote of it with the same model is not computed again.

    Args:
        paths: tables with a text column.
        target: the model.
        out: run directory to write.
        options: columns and extra signals.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of documents finished and of all.

    Returns:
        How many documents there are, have no score, or were finished before, and what decides the numbers.

    Raises:
        divulge.InputError: no text column, a directory in use, or one that holds a run.
    """
    check_integer(options.shard, "shard", least=1)
    with written(out, target.key(), options, overwrite=overwrite) as draft:
        return into(draft, paths, target, options, progress)


def into(
    draft: Draft, paths: Sequence[Path], target: GivesTokens, options: ScoringOptions, progress: Progress | None = None
) -> ScoringSummary:
    """As `score`, into the draft of a run."""
    tell = progress or (lambda done, total: None)
    journal = draft.path / JOURNAL
    draft.write_json("key", {**target.key(), **options.key()})
    with draft.workshop() as folder:
        table = folder / "texts"
        total = texts(score_files.scan(paths, "texts"), options, table)
        done = resumed = 0
        names = set()
        for shard in shards(table, options.shard):
            names.add(shard.name)
            if finished(draft, shard):
                resumed += len(shard.texts)
            else:
                write(draft, shard.name, *scored(target, shard, options, journal))
                journal.unlink(missing_ok=True)
            done += len(shard.texts)
            tell(done, total)
    return summary(draft, names, resumed, target.key())


def key(target: Mapping[str, Any], options: ScoringOptions) -> str:
    """Names everything that determines the numbers, except the documents."""
    return store.digest(sorted({**target, **options.key()}.items()))


@contextlib.contextmanager
def written(out: Path, target: Mapping[str, Any], options: ScoringOptions, *, overwrite: bool) -> Generator[Draft]:
    """The run directory ``out`` while token statistics are written to it.

    Raises:
        divulge.InputError: a directory in use, or one that holds a run.
    """
    held = out / "key.json"
    if os.path.lexists(held) and not overwrite:
        there, wanted = store.read_json(held, inside=out), {**target, **options.key()}
        if isinstance(there, dict) and (
            other := sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
        ):
            raise InputError(
                f"out: {out} holds token statistics made with another {', '.join(other)}; give another folder"
            )
    with Dossier(out).writing(KIND, key(target, options), overwrite=overwrite, keep=KEPT) as draft:
        yield draft


def summary(draft: Draft, names: set[str], resumed: int, key: Mapping[str, Any]) -> ScoringSummary:
    """Take away shards that are no longer part of the table, and count the documents of the others."""
    for stale in (entry for kind in ("documents", "tokens") for entry in (draft.path / kind).glob("*.parquet")):
        if stale.name not in names:
            stale.unlink()

    lengths = [row["tokens"] for row in _documents(draft, ["tokens"])]
    return ScoringSummary(
        documents=len(lengths),
        unscored=lengths.count(0),
        resumed=resumed,
        skipped=skipped(draft),
        key=dict(key),
    )


def skipped(draft: Draft) -> Skipped | None:
    """The documents the model could not take."""
    rows = [row for row in _documents(draft, ["id", "skipped"]) if row["skipped"] is not None]
    if not rows:
        return None
    return Skipped(len(rows), tuple(str(row["id"]) for row in rows[:_NAMED]), rows[0]["skipped"])


def _documents(draft: Draft, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for shard in sorted((draft.path / "documents").glob("*.parquet")):
        yield from tables.read_parquet(shard, names).iter_rows(named=True)


def finished(draft: Draft, shard: Shard) -> bool:
    """Whether a shard was written by an interrupted run, or by the one that is replaced; it is then in the draft."""
    return (draft.path / "documents" / shard.name).exists() or all(
        draft.take(f"{kind}/{shard.name}") for kind in ("tokens", "documents")
    )


def texts(table: Table, options: ScoringOptions, to: Path) -> int:
    """Write ids and texts of a table to ``to`` and give their number; a missing text is an empty one.

    Raises:
        divulge.InputError: no such column.
    """
    score_files.require(table, [options.text, *([options.id] if options.id else [])])
    column = options.id or ("id" if "id" in table else None)
    total, writer = 0, tables.PieceWriter(to)
    wanted = dict.fromkeys([options.text, *([] if column is None else [column])], tables.TEXT)
    for batch in table.batches(wanted, _BATCH):
        row = pl.Series("id", np.arange(total, total + len(batch), dtype=np.uint32))
        ids = row if column is None else batch[column].alias("id")
        writer.add(pl.DataFrame([ids, batch[options.text].alias("text").fill_null("")]))
        total += len(batch)
    writer.close()
    if not total:
        raise InputError(f"{table.name}: at least 1 row is needed, got 0")
    return total


def shards(table: Path, size: int) -> Iterator[Shard]:
    """The documents of a table, ``size`` at a time."""
    for number, piece in enumerate(tables.row_batches(tables.open_pieces(table), size)):
        ids, texts = piece["id"].to_list(), piece["text"].to_list()
        yield Shard(ids, texts, f"{number:08d}-{store.digest(ids, texts)[:16]}.parquet")


def scored(
    target: GivesTokens, shard: Shard, options: ScoringOptions, journal: Path | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Token statistics and signals of a shard; a target that keeps a journal is given one."""
    if journal is not None and hasattr(target, "journal"):
        target = replace(target, journal=journal)  # ty: ignore[invalid-argument-type]
    stats = target.tokens(shard.texts)
    values = signals.all_signals(stats)
    if options.lowercase:
        lowered = target.tokens([text.lower() for text in shard.texts], vocabulary=False)
        values["lowercase"] = signals.lowercase(stats, lowered)
    if options.reference is not None:
        values["reference"] = signals.reference_difference(
            stats, options.reference.tokens(shard.texts, vocabulary=False)
        )
    ids = _objects(shard.ids)
    cut = {name: _objects([np.asarray(row, np.float32) for row in rows]) for name, rows in stats.rows().items()}
    ends = [_ends(target, text, count) for text, count in zip(shard.texts, stats.lengths, strict=True)]
    cut["end"] = _objects([None if row is None else np.asarray(row, np.int32) for row in ends])
    skipped = _objects([stats.skipped.get(row) for row in range(len(stats))])
    tokens = tables.from_arrays(
        {"id": ids, "zlib_bytes": np.asarray(stats.zlib_bytes), **cut}, {"end": pl.List(pl.Int32)}
    )
    documents = {"id": ids, "text": _objects(shard.texts), "tokens": np.asarray(stats.lengths), **values}
    return tokens, tables.from_arrays({**documents, "skipped": skipped})


def _objects(values: Sequence[Any]) -> Array:
    return np.fromiter(values, dtype=object, count=len(values))


def _ends(target: GivesTokens, text: str, count: int) -> list[int] | None:
    """Where each scored token ends in its text; None where the target does not show it."""
    ends = token_statistics.token_ends(target, text)
    return ends if ends is not None and len(ends) == count else None


def write(draft: Draft, name: str, tokens: pl.DataFrame, documents: pl.DataFrame) -> None:
    """Keep a finished shard; the documents come last, as their file says that it is whole."""
    for kind, frame in (("tokens", tokens), ("documents", documents)):
        _write_table(draft.path / kind / name, frame)


def _write_table(path: Path, frame: pl.DataFrame) -> None:
    store.write_file(path, lambda out: tables.write_parquet(frame, out))


def load(name: str | None, endpoint: str | None, **options: Any) -> GivesTokens:
    """The target a user named: an endpoint's model, a folder, also of a LoRA adapter, or ``hf:NAME``.

    Raises:
        divulge.InputError: neither, or an option that the kind of target does not have.
    """
    if not name:
        raise InputError("--model: a folder, hf:NAME, or with --endpoint a name there, is needed")
    if endpoint:
        return Endpoint(endpoint, name, length=options.get("length"))
    return require_callable(folders.load_folder(name, **options), "--model: a language model", "tokens")
