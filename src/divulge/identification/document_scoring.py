"""Score documents with a language model: token statistics and signals, in shards that survive an interruption.

`score` runs in this process, `score_on_ray` on a Ray cluster: one actor per GPU, shards out, statistics back.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import chats, datafiles, lazy, store, tables
from divulge.datafiles import FileLayout
from divulge.errors import InputError
from divulge.identification.score_tables import INPUT_COLUMNS, require_columns, scan_scores
from divulge.results import ScoringSummary, SkippedDocuments
from divulge.run_directory import RunDirectory
from divulge.settings import ScoreSettings
from divulge.signals import tokens as signals
from divulge.targets import token_statistics
from divulge.targets.endpoint import Endpoint
from divulge.validation import require_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    import ray.data

    from divulge.identification.from_tables import Progress
    from divulge.run_directory import RunDraft
    from divulge.settings import ColumnNames
    from divulge.targets import folders
    from divulge.targets.token_statistics import GivesTokens
    from divulge.types import Array
else:
    folders = lazy.module("divulge.targets.folders")
    ray = lazy.module("ray")

RUN_TYPE = "scores"
_JOURNAL = ".journal.jsonl"
_RESUMABLE = ("tokens", "documents", _JOURNAL)  # finished work in a draft, from which an interrupted run resumes
_DEFAULTS = ScoreSettings()
_NAMED_COLUMNS = ("id", "text", "messages", "prompt", "answer")
_MAX_SKIPPED_IDS = 10
_ROWS_PER_BATCH = 1 << 14  # small, because each row may hold a long document
_SHARDS_PER_WAVE = 1024  # submitted to the cluster at a time, to bound the memory of the driver


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """Columns of the documents, and signals beside those of one pass.

    Args:
        text: column of the documents; ``text`` where None and no chats or answers are named.
        id: column of their ids; the row number where None and no column is called ``id``.
        lowercase: also score the lower-cased texts, which doubles the work.
        reference: a model with the same tokenizer that did not see the documents.
        shard: documents per file.
        messages: column of chats, in place of ``text``; see `divulge.chats`.
        prompt: column of prompts, in place of ``text``.
        answer: column of their answers.
        tokens: which tokens of chats and answers are scored.
    """

    text: str | None = None
    id: str | None = None
    lowercase: bool = _DEFAULTS.lowercase
    reference: GivesTokens | None = None
    shard: int = _DEFAULTS.shard
    messages: str | None = None
    prompt: str | None = None
    answer: str | None = None
    tokens: str = "answer"

    @classmethod
    def from_column_names(cls, names: ColumnNames, **options: Any) -> ScoringOptions:
        """Return options with the columns that the user named."""
        columns: dict[str, Any] = {key: name for key, name in names.required().items() if key in _NAMED_COLUMNS}
        return cls(**columns, tokens=names.tokens, **options)

    @property
    def layout(self) -> FileLayout:
        """How documents are read from the tables."""
        named = {key: name for key in _NAMED_COLUMNS if (name := getattr(self, key)) is not None}
        text = {} if named.keys() - {"id"} else {"text": "text"}
        return FileLayout(**named, **text, tokens=self.tokens, user_set=frozenset(named))

    def key(self) -> dict[str, Any]:
        """Return the part of the options that determines the numbers."""
        reference = None if self.reference is None else dict(self.reference.key())
        return {"lowercase": self.lowercase, "reference": reference}


def load_target(name: str | None, endpoint: str | None, **options: Any) -> GivesTokens:
    """Load the target that a user named: a model of an endpoint, a folder (also of a LoRA adapter), or ``hf:NAME``.

    Raises:
        divulge.InputError: no name, or an option that such a target does not have.
    """
    if not name:
        raise InputError("--model: a folder, hf:NAME, or with --endpoint a name there, is needed")
    if endpoint:
        return Endpoint(endpoint, name, length=options.get("length"))
    return require_callable(folders.load_folder(name, **options), "--model: a language model", "tokens")


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

    ``out/tokens`` gets one row per document with a list per statistic and one of the places where its tokens end (of
    answers, also where they begin), ``out/documents`` one row per document with id, text and every signal (larger =
    more member-like), which `divulge identify` reads, and ``out/input-columns`` what else the tables say, such as
    titles. Shards are written whole and named by their content: a shard that an interrupted run, or the run that is
    replaced, computed with the same model is not computed again.

    Args:
        paths: tables with a text column.
        target: the model.
        out: run directory to write.
        options: columns and extra signals.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of documents finished and of all.

    Returns:
        Number of documents, of those without a score and of those finished before, and the key of the run.

    Raises:
        divulge.InputError: no text column, a directory in use, or one that holds a run.
    """
    ScoreSettings.check(shard=options.shard)
    with _scoring_run(out, target.key(), options, overwrite=overwrite) as draft:
        return score_into(draft, paths, target, options, progress)


def score_into(
    draft: RunDraft,
    paths: Sequence[Path],
    target: GivesTokens,
    options: ScoringOptions,
    progress: Progress | None = None,
) -> ScoringSummary:
    """Run `score` into the draft of a run."""
    journal = draft.path / _JOURNAL
    draft.write_json("key", {**target.key(), **options.key()})
    with draft.scratch_folder() as folder:
        table = folder / "texts"
        n_documents = write_texts(paths, options, table, draft.path / INPUT_COLUMNS)
        n_done = n_resumed = 0
        shard_names = set()
        for shard in _read_shards(table, options.shard):
            shard_names.add(shard.name)
            if _is_finished(draft, shard):
                n_resumed += len(shard.texts)
            else:
                _write_shard(draft, shard.name, *_score_shard(target, shard, options, journal))
                journal.unlink(missing_ok=True)
            n_done += len(shard.texts)
            if progress is not None:
                progress(n_done, n_documents)
    return _finish(draft, shard_names, n_resumed, target.key())


def score_on_ray(
    paths: Sequence[Path],
    factory: Callable[[], GivesTokens],
    out: Path,
    options: ScoringOptions,
    *,
    actors: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ScoringSummary:
    """Run `score` on the running Ray cluster, or on this machine where there is none.

    Every actor loads the model once; finished shards come back to this process, which writes them, so
    nodes need no common file system and a run resumes as a local one does.

    Args:
        paths: tables with a text column.
        factory: builds the target on the node where it runs.
        out: run directory to write.
        options: columns and extra signals.
        actors: number of models at a time; when None, one per GPU, or one per node without GPUs.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of documents finished and of all.

    Raises:
        divulge.InputError: see `score`.
        divulge.MissingExtraError: Ray is not installed.
    """
    if not ray.is_initialized():
        ray.init(logging_level=logging.ERROR)
    n_gpus = int(ray.cluster_resources().get("GPU", 0))
    cores = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    n_actors = actors or n_gpus or len(cores)
    gpus_per_actor = 1 if n_gpus else 0
    n_threads = max(1, min(cores) * len(cores) // n_actors)
    key = ray.get(ray.remote(num_gpus=gpus_per_actor)(_target_key).remote(factory))
    with _scoring_run(out, key, options, overwrite=overwrite) as draft, draft.scratch_folder() as folder:
        draft.write_json("key", {**key, **options.key()})
        table = folder / "texts"
        n_documents = write_texts(paths, options, table, draft.path / INPUT_COLUMNS)
        n_done = n_resumed = 0
        shard_names = set()
        shards = _read_shards(table, options.shard)
        while wave := list(itertools.islice(shards, _SHARDS_PER_WAVE)):
            shard_names |= {shard.name for shard in wave}
            remaining = []
            for shard in wave:
                if _is_finished(draft, shard):
                    n_resumed, n_done = n_resumed + len(shard.texts), n_done + len(shard.texts)
                else:
                    remaining.append(shard)
            for name, tokens, documents in _map_shards(
                remaining, factory, options, n_actors, gpus_per_actor, n_threads
            ):
                _write_shard(draft, name, tokens, documents)
                n_done += len(documents)
                if progress is not None:
                    progress(n_done, n_documents)
        return _finish(draft, shard_names, n_resumed, key)


def run_key(target: Mapping[str, Any], options: ScoringOptions) -> str:
    """Return a digest of everything that determines the numbers, except the documents."""
    return store.hash_values(sorted({**target, **options.key()}.items()))


@contextlib.contextmanager
def _scoring_run(
    out: Path, target: Mapping[str, Any], options: ScoringOptions, *, overwrite: bool
) -> Generator[RunDraft]:
    """Yield the draft of a run in ``out``; finished work there is continued if it was made in the same way.

    Raises:
        divulge.InputError: a directory in use, or one that holds a run.
    """
    key_file = out / "key.json"
    if os.path.lexists(key_file) and not overwrite:
        stored, key = store.read_json(key_file, inside=out), {**target, **options.key()}
        if isinstance(stored, dict) and (
            changed := sorted(name for name in {*stored, *key} if stored.get(name) != key.get(name))
        ):
            raise InputError(
                f"out: {out} holds token statistics made with another {', '.join(changed)}; give another folder"
            )
    with RunDirectory(out).writing(RUN_TYPE, run_key(target, options), overwrite=overwrite, keep=_RESUMABLE) as draft:
        yield draft


@dataclass(frozen=True, slots=True)
class _Shard:
    """Some documents, in the order of the table, and the file their scores go to."""

    ids: list[Any]
    texts: list[str]
    name: str


def write_texts(
    paths: Sequence[Path], options: ScoringOptions, folder: Path, columns_folder: Path | None = None
) -> int:
    """Write ids and texts of tables to ``folder`` and return their number; a missing text is an empty one.

    Chats and answers are texts with marks, see `divulge.chats`; they are read into memory. Other columns, such as
    titles and dates, go to ``columns_folder`` in the spelling of the file, for the lists of an identification.

    Raises:
        divulge.InputError: no such column, a row without an answer.
    """
    table, layout = scan_scores(paths, "texts"), options.layout
    columns = layout.document_columns()
    datafiles.check_text_column(table, layout)
    require_columns(table, [*columns.values(), *([options.id] if options.id else [])])
    id_column = options.id or ("id" if "id" in table else None)
    chat_texts = None if layout.text else pl.Series("text", datafiles.read_chats(table, columns, layout.tokens))
    read = [name for name in (layout.text, id_column) if name]
    others = (
        [] if columns_folder is None else tables.list_input_columns(table, without=(*columns.values(), *read, "id"))
    )
    if columns_folder is not None and columns_folder.exists():  # of a run that was interrupted
        shutil.rmtree(columns_folder)
    n_documents, writer = 0, tables.PieceWriter(folder)
    columns_writer = tables.PieceWriter(columns_folder) if columns_folder is not None and others else None
    types = dict.fromkeys([*read, *others] or table.columns[:1], tables.TEXT)
    for batch in table.batches(types, _ROWS_PER_BATCH):
        if id_column:
            ids = batch[id_column].alias("id")
        else:
            ids = pl.Series("id", np.arange(n_documents, n_documents + len(batch), dtype=np.uint32))
        if chat_texts is not None:
            texts = chat_texts.slice(n_documents, len(batch))
        else:  # in which nothing is read as a mark
            texts = batch[str(layout.text)].alias("text").fill_null("").str.replace_all(r"[\x{FDD0}-\x{FDD4}]", " ")
        writer.add(pl.DataFrame([ids, texts]))
        if columns_writer is not None:
            columns_writer.add(batch.select(ids.cast(pl.String), *others))
        n_documents += len(batch)
    writer.close()
    if columns_writer is not None:
        columns_writer.close()
    if not n_documents:
        raise InputError(f"{table.name}: at least 1 row is needed, got 0")
    return n_documents


def _read_shards(table: Path, size: int) -> Iterator[_Shard]:
    """Yield the documents of a table, ``size`` at a time."""
    for number, batch in enumerate(tables.row_batches(tables.open_pieces(table), size)):
        ids, texts = batch["id"].to_list(), batch["text"].to_list()
        yield _Shard(ids, texts, f"{number:08d}-{store.hash_values(ids, texts)[:16]}.parquet")


def _is_finished(draft: RunDraft, shard: _Shard) -> bool:
    """Return True where an earlier run computed the shard, and take it over into the draft."""
    return (draft.path / "documents" / shard.name).exists() or all(
        draft.take(f"{folder}/{shard.name}") for folder in ("tokens", "documents")
    )


def _score_shard(
    target: GivesTokens, shard: _Shard, options: ScoringOptions, journal: Path | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return token statistics and signals of a shard; targets with a journal write it to ``journal``."""
    if journal is not None and hasattr(target, "journal"):
        target = replace(target, journal=journal)  # ty: ignore[invalid-argument-type]
    statistics = target.tokens(shard.texts)
    values = signals.all_signals(statistics)
    if options.lowercase:
        lowercase = target.tokens([chats.to_lowercase(text) for text in shard.texts], vocabulary=False)
        values["lowercase"] = signals.lowercase(statistics, lowercase)
    if options.reference is not None:
        reference = options.reference.tokens(shard.texts, vocabulary=False)
        values["reference"] = signals.reference_difference(statistics, reference)
    ids = _as_objects(shard.ids)
    lists = {
        name: _as_objects([np.asarray(row, np.float32) for row in rows]) for name, rows in statistics.rows().items()
    }
    places: dict[str, list[Any]] = {"end": []} | ({"start": []} if chats.has_answers(shard.texts) else {})
    for text, count in zip(shard.texts, statistics.lengths, strict=True):
        spans = token_statistics.token_spans(target, text)  # None where the target does not show them
        fits = spans is not None and len(spans) == count
        for name, column in places.items():
            column.append(np.asarray([span[name == "end"] for span in spans or ()], np.int32) if fits else None)
    tokens = tables.from_arrays(
        {"id": ids, "zlib_bytes": np.asarray(statistics.zlib_bytes), **lists}
        | {name: _as_objects(values) for name, values in places.items()},
        dict.fromkeys(places, pl.List(pl.Int32)),
    )
    shown = _as_objects([chats.show_text(text) for text in shard.texts])
    documents = {"id": ids, "text": shown, "tokens": np.asarray(statistics.lengths), **values}
    skipped = _as_objects([statistics.skipped.get(row) for row in range(len(statistics))])
    return tokens, tables.from_arrays({**documents, "skipped": skipped})


def _as_objects(values: Sequence[Any]) -> Array:
    return np.fromiter(values, dtype=object, count=len(values))


def _write_shard(draft: RunDraft, name: str, tokens: pl.DataFrame, documents: pl.DataFrame) -> None:
    """Write a finished shard; the documents come last, because their file marks the shard as complete."""
    store.write_file(draft.path / "tokens" / name, lambda out: tables.write_parquet(tokens, out))
    store.write_file(draft.path / "documents" / name, lambda out: tables.write_parquet(documents, out))


def _finish(draft: RunDraft, shard_names: set[str], n_resumed: int, key: Mapping[str, Any]) -> ScoringSummary:
    """Remove shards that are no longer part of the table, and count the documents of the others."""
    for folder in ("documents", "tokens"):
        for file in list((draft.path / folder).glob("*.parquet")):
            if file.name not in shard_names:
                file.unlink()
    lengths, skipped_rows = [], []
    for file in sorted((draft.path / "documents").glob("*.parquet")):
        rows = tables.read_parquet(file, ["id", "tokens", "skipped"])
        lengths += rows["tokens"].to_list()
        skipped_rows += rows.filter(pl.col("skipped").is_not_null()).select("id", "skipped").rows()
    skipped = None
    if skipped_rows:
        ids = tuple(str(key) for key, _ in skipped_rows[:_MAX_SKIPPED_IDS])
        skipped = SkippedDocuments(len(skipped_rows), ids, skipped_rows[0][1])
    return ScoringSummary(
        documents=len(lengths), unscored=lengths.count(0), resumed=n_resumed, skipped=skipped, key=dict(key)
    )


def _target_key(factory: Callable[[], GivesTokens]) -> dict[str, Any]:
    return dict(factory().key())


def _map_shards(
    shards: list[_Shard],
    factory: Callable[[], GivesTokens],
    options: ScoringOptions,
    n_actors: int,
    gpus_per_actor: int,
    n_threads: int,
) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
    """Score shards on the cluster; yield the name, token statistics and signals of each as it is finished."""
    if not shards:
        return
    rows = [
        {"name": shard.name, "shard": _to_bytes(pl.DataFrame({"id": shard.ids, "text": shard.texts}))}
        for shard in shards
    ]
    scored = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _Actor,
        fn_constructor_args=(factory, options, n_threads),
        batch_size=1,
        num_gpus=gpus_per_actor,
        compute=ray.data.ActorPoolStrategy(size=min(n_actors, len(rows))),
    )
    for row in scored.iter_rows():
        yield str(row["name"]), tables.read_parquet(row["tokens"]), tables.read_parquet(row["documents"])


class _Actor:
    """Holds a model on a node and scores shards with it, on all cores that are for it; Ray leaves it one."""

    def __init__(self, factory: Callable[[], GivesTokens], options: ScoringOptions, n_threads: int) -> None:
        self.target, self.options, self.n_threads = factory(), options, n_threads

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if "torch" in sys.modules:  # of the thread in which this is called
            sys.modules["torch"].set_num_threads(self.n_threads)
        scored = {"name": list(batch["name"]), "tokens": [], "documents": []}
        for name, content in zip(batch["name"], batch["shard"], strict=True):
            rows = tables.read_parquet(content)
            shard = _Shard(rows["id"].to_list(), rows["text"].to_list(), str(name))
            tokens, documents = _score_shard(self.target, shard, self.options)
            scored["tokens"].append(_to_bytes(tokens))
            scored["documents"].append(_to_bytes(documents))
        return scored


def _to_bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    tables.write_parquet(frame, buffer)
    return buffer.getvalue()
