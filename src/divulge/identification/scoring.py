"""Documents through a language model: sharded token statistics, resumed where a run was killed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store
from divulge.identification import sources
from divulge.signals import tokens as signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from divulge.identification.tables import Progress
    from divulge.targets.statistics import GivesTokens, TokenStatistics


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
    _claim(out, {**target.key(), **options.key()})
    done = found = empty = 0
    names = set()
    with tempfile.TemporaryDirectory(dir=out, prefix=".work.") as folder:
        table = Path(folder) / "texts.parquet"
        total = _texts(sources.scan(paths, "texts"), options, table)
        for shard in shards(table, options.shard):
            names.add(shard.name)
            if (out / "documents" / shard.name).exists():
                found += len(shard.texts)
            else:
                _write(shard, out, *statistics(target, shard.texts, options, out))
            empty += _empty(out / "documents" / shard.name)
            done += len(shard.texts)
            tell(done, total)
    for stale in (entry for kind in ("documents", "tokens") for entry in (out / kind).glob("*.parquet")):
        if stale.name not in names:
            stale.unlink()
    return {"documents": done, "without a score": empty, "found finished": found, "key": dict(target.key())}


def _claim(out: Path, key: dict[str, Any]) -> None:
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


def _texts(frame: pl.LazyFrame, options: Options, to: Path) -> int:
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


def statistics(
    target: GivesTokens, texts: Sequence[str], options: Options, out: Path
) -> tuple[TokenStatistics, dict[str, Any]]:
    """Token statistics and signals of some documents; a target that keeps a journal gets one in ``out``."""
    journal = out / "journal.jsonl"
    kept = replace(target, journal=journal) if hasattr(target, "journal") else target  # ty: ignore[invalid-argument-type]
    stats = kept.tokens(texts)
    values = signals.all_signals(stats)
    if options.lowercase:
        values["lowercase"] = signals.lowercase(stats, kept.tokens([text.lower() for text in texts]))
    if options.reference is not None:
        values["reference"] = signals.reference_difference(stats, options.reference.tokens(texts))
    return stats, values


def _write(shard: Shard, out: Path, stats: TokenStatistics, values: dict[str, Any]) -> None:
    import polars as pl

    rows = {name: pl.Series(cut, dtype=pl.List(pl.Float32)) for name, cut in stats.rows().items()}
    tokens = pl.DataFrame({"id": shard.ids, "zlib_bytes": stats.zlib_bytes, **rows})
    documents = pl.DataFrame({"id": shard.ids, "text": shard.texts, "tokens": stats.lengths, **values})
    # The documents come last: their file says that the shard is finished.
    for kind, frame in (("tokens", tokens), ("documents", documents)):
        with store.atomic(out / kind / shard.name) as temporary:
            frame.write_parquet(temporary)
    (out / "journal.jsonl").unlink(missing_ok=True)


def _empty(path: Path) -> int:
    import polars as pl

    return int(np.sum(pl.read_parquet(path, columns=["tokens"])["tokens"].to_numpy() == 0))


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
