"""The same scoring on a Ray cluster: one actor per GPU, shards out, statistics back."""

from __future__ import annotations

import io
import itertools
import logging
from typing import TYPE_CHECKING, Any

import polars as pl

from divulge import lazy, tables
from divulge.identification import document_scoring, score_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import ray.data

    from divulge.identification.document_scoring import ScoringOptions, Shard
    from divulge.identification.from_tables import Progress
    from divulge.results import ScoringSummary
    from divulge.targets.token_statistics import GivesTokens
else:
    ray = lazy.module("ray")

_WAVE = 1024  # shards handed to the cluster at a time; bounds what the driver holds


def score(
    paths: Sequence[Path],
    factory: Callable[[], GivesTokens],
    out: Path,
    options: ScoringOptions,
    *,
    actors: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ScoringSummary:
    """As `scoring.score`, on the Ray cluster that is running (or on this machine, if none is).

    Every actor loads the model once; finished shards come back to this process, which writes them, so
    nodes need no common file system and a run resumes as a local one does.

    Args:
        paths: tables with a text column.
        factory: makes the target, on the node where it will run.
        out: run directory to write.
        options: columns and extra signals.
        actors: models at a time; one per GPU, or one per node where there is none, when None.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of documents finished and of all.

    Raises:
        divulge.InputError: see `scoring.score`.
        divulge.MissingExtraError: Ray is not installed.
    """
    tell = progress or (lambda done, total: None)
    if not ray.is_initialized():
        ray.init(logging_level=logging.ERROR)
    graphics = int(ray.cluster_resources().get("GPU", 0))
    number = actors or graphics or len(ray.nodes())
    share = 1 if graphics else 0
    key = ray.get(ray.remote(num_gpus=share)(_key).remote(factory))
    with document_scoring.written(out, key, options, overwrite=overwrite) as draft, draft.workshop() as folder:
        draft.write_json("key", {**key, **options.key()})
        table = folder / "texts"
        total = document_scoring.texts(score_files.scan(paths, "texts"), options, table)
        done = scored = 0
        names = set()
        shards = document_scoring.shards(table, options.shard)
        while wave := list(itertools.islice(shards, _WAVE)):
            names |= {shard.name for shard in wave}
            wanted = [shard for shard in wave if not document_scoring.finished(draft, shard)]
            there = sum(len(shard.texts) for shard in wave) - sum(len(shard.texts) for shard in wanted)
            scored, done = scored + there, done + there
            for name, tokens, documents in _map(wanted, factory, options, number, share):
                document_scoring.write(draft, name, tokens, documents)
                done += len(documents)
                tell(done, total)
        return document_scoring.summary(draft, names, scored, key)


def _key(factory: Callable[[], GivesTokens]) -> dict[str, Any]:
    return dict(factory().key())


def _map(
    wanted: list[Shard], factory: Callable[[], GivesTokens], options: ScoringOptions, actors: int, share: int
) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
    if not wanted:
        return
    rows = [{"name": s.name, "shard": _pack(_documents(s))} for s in wanted]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _Actor,
        fn_constructor_args=(factory, options),
        batch_size=1,
        num_gpus=share,
        compute=ray.data.ActorPoolStrategy(size=min(actors, len(rows))),
    )
    for row in data.iter_rows():
        yield str(row["name"]), _unpack(row["tokens"]), _unpack(row["documents"])


class _Actor:
    """Holds a model on a node and scores the shards it is given."""

    def __init__(self, factory: Callable[[], GivesTokens], options: ScoringOptions) -> None:
        self.target, self.options = factory(), options

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        results = {"name": list(batch["name"]), "tokens": [], "documents": []}
        for name, packed in zip(batch["name"], batch["shard"], strict=True):
            frame = _unpack(packed)
            shard = document_scoring.Shard(frame["id"].to_list(), frame["text"].to_list(), str(name))
            tokens, documents = document_scoring.scored(self.target, shard, self.options)
            results["tokens"].append(_pack(tokens))
            results["documents"].append(_pack(documents))
        return results


def _documents(shard: Shard) -> pl.DataFrame:
    return pl.DataFrame({"id": shard.ids, "text": shard.texts})


def _pack(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    tables.write_parquet(frame, buffer)
    return buffer.getvalue()


def _unpack(content: bytes) -> pl.DataFrame:
    return tables.read_parquet(content)
