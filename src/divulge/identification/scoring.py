"""Documents through a language model: sharded token statistics, resumed where a run was killed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import checks, store
from divulge.identification import sources
from divulge.signals import tokens as signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from divulge.identification.tables import Progress
    from divulge.targets.statistics import GivesTokens


@dataclass(frozen=True, slots=True)
class Options:
    """What to compute beside the signals of one pass.

    Args:
        text: column of the documents.
        id: column of their ids; the row number where None and no column is called ``id``.
        lowercase: also score the lower-cased texts, which doubles the work.
        reference: a model with the same tokenizer that did not see the documents.
        shard: documents a file.
    """

    text: str = "text"
    id: str | None = None
    lowercase: bool = False
    reference: GivesTokens | None = None
    shard: int = 512

    def key(self) -> dict[str, Any]:
        """The part of the options that decides the numbers."""
        reference = None if self.reference is None else dict(self.reference.key())
        return {"lowercase": self.lowercase, "reference": reference}


@dataclass(frozen=True, slots=True)
class Shard:
    """Some documents, in the order of the table, and the file their scores go to."""

    ids: list[Any]
    texts: list[str]
    name: str


def score(
    paths: Sequence[Path], target: GivesTokens, out: Path, options: Options, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Write token statistics and signals of every document to ``out``.

    ``out/tokens`` gets one row a document with a list a statistic, ``out/documents`` one row a document
    with id, text and every signal (larger = more member-like), which `divulge identify` reads. A shard is
    written whole and named by its content: what stands there is not computed again.

    Args:
        paths: tables with a text column.
        target: the model.
        out: folder for the results.
        options: columns and extra signals.
        progress: called with the number of documents finished and of all.

    Returns:
        Numbers of documents, of those without a score, of those found finished, and the target's key.

    Raises:
        divulge.InputError: no text column, or a folder that holds results of another model or policy.
    """
    tell = progress or (lambda done, total: None)
    checks.integer(options.shard, "shard", least=1)
    claim(out, {**target.key(), **options.key()})
    with tempfile.TemporaryDirectory(dir=out, prefix=".work.") as folder:
        table = Path(folder) / "texts.parquet"
        total = texts(sources.scan(paths, "texts"), options, table)
        done = found = 0
        names = set()
        for shard in shards(table, options.shard):
            names.add(shard.name)
            if finished(out, shard):
                found += len(shard.texts)
            else:
                write(out, shard.name, *frames(target, shard, options, out / "journal.jsonl"))
                (out / "journal.jsonl").unlink(missing_ok=True)
            done += len(shard.texts)
            tell(done, total)
    return summary(out, names, found, dict(target.key()))


def summary(out: Path, names: set[str], found: int, key: dict[str, Any]) -> dict[str, Any]:
    """Take away shards that are no longer part of the table, and count the documents of the others."""
    for stale in (entry for kind in ("documents", "tokens") for entry in (out / kind).glob("*.parquet")):
        if stale.name not in names:
            stale.unlink()
    import polars as pl

    lengths = pl.scan_parquet(sorted((out / "documents").glob("*.parquet"))).select("tokens").collect()["tokens"]
    return {
        "documents": len(lengths),
        "without a score": int((lengths == 0).sum()),
        "found finished": found,
        "key": key,
    }


def finished(out: Path, shard: Shard) -> bool:
    """Whether a shard was written by an earlier run."""
    return (out / "documents" / shard.name).exists()


def claim(out: Path, key: dict[str, Any]) -> None:
    """Make the folder this run's own, or refuse if it is another's."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "key.json"
    if not path.exists():
        store.write_json(path, key)
        return
    held = store.read_json(path)
    different = sorted(name for name in {*held, *key} if held.get(name) != key.get(name))
    if different:
        raise checks.InputError(
            f"out: {out} holds token statistics made with another {', '.join(different)}; give another folder"
        )


def texts(frame: pl.LazyFrame, options: Options, to: Path) -> int:
    """Write ids and texts of a table to ``to`` and give their number; a missing text is an empty one.

    Raises:
        divulge.InputError: no such column.
    """
    import polars as pl

    known = sources.schema(frame, "texts")
    sources.require(known, [options.text, *([options.id] if options.id else [])], "texts")
    column = options.id or ("id" if "id" in known else None)
    ids = pl.col("row") if column is None else pl.col(column)
    rows = frame.with_row_index("row").select(id=ids, text=pl.col(options.text).cast(pl.String).fill_null(""))
    rows.sink_parquet(to)
    return sources.length(to)


def shards(table: Path, size: int) -> Iterator[Shard]:
    """The documents of a table, ``size`` at a time."""
    for number, chunk in enumerate(sources.chunks(table, ["id", "text"], size)):
        ids, texts = chunk["id"].to_list(), chunk["text"].to_list()
        yield Shard(ids, texts, f"{number:08d}-{store.digest(ids, texts)[:16]}.parquet")


def frames(
    target: GivesTokens, shard: Shard, options: Options, journal: Path | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Token statistics and signals of a shard; a target that keeps a journal is given one."""
    import polars as pl

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
    cut = {name: pl.Series(rows, dtype=pl.List(pl.Float32)) for name, rows in stats.rows().items()}
    tokens = pl.DataFrame({"id": shard.ids, "zlib_bytes": stats.zlib_bytes, **cut})
    return tokens, pl.DataFrame({"id": shard.ids, "text": shard.texts, "tokens": stats.lengths, **values})


def write(out: Path, name: str, tokens: pl.DataFrame, documents: pl.DataFrame) -> None:
    """Keep a finished shard; the documents come last, as their file says that it is whole."""
    for kind, frame in (("tokens", tokens), ("documents", documents)):
        with store.atomic(out / kind / name) as temporary:
            frame.write_parquet(temporary)


def load(name: str | None, endpoint: str | None, **options: Any) -> GivesTokens:
    """The target a user named: an endpoint's model, or ``hf:NAME``.

    Raises:
        divulge.InputError: neither, or an option that the kind of target does not have.
    """
    if not name:
        raise checks.InputError("--model: hf:NAME, or with --endpoint the name of the model there, is needed")
    if endpoint:
        from divulge.targets.endpoint import Endpoint

        return Endpoint(endpoint, name)
    from divulge.targets.text import CausalLM

    return CausalLM.load(name, **options)
