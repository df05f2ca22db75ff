"""Cut documents into a prompt and the suffix that follows it, and let language models complete the prompts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import chats, errors, seeds, store, tables
from divulge.errors import InputError
from divulge.extraction.likeness import likeness
from divulge.extraction.text_servers import Outcome, TextModel
from divulge.settings import CutSettings
from divulge.targets.token_statistics import ReadsAnswers
from divulge.validation import check_integer, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from divulge.targets import Decoding, GivesContinuations
    from divulge.types import Array, Bools, Floats, Ints, Records


_CUT_DEFAULTS = CutSettings()

CACHE = ".finished"
"""Folder of a draft that holds finished completions."""
_COLUMNS = ("log_p", "verbatim", "longest", "overlap")
_CHUNK = 64  # documents between two progress reports; an interruption loses at most one chunk
_MAX_DRAWS = 10**15
GREEDY = "verbatim, greedy"
_EVEN_CHANCE = 0.5  # chance at which a document counts as seen in n draws


@dataclass(frozen=True, slots=True)
class Cut:
    """Settings for cutting documents into a prompt and a suffix.

    Args:
        prefix: number of tokens of the prompt, or its share of the document.
        suffix: number of tokens after the prompt that the model is to return.
        place: where prefix and suffix stand: at the "start" of the document, at its "end", or at a "random" place.

    Raises:
        divulge.InputError: fewer than 1 token, a share outside (0, 1), a share at another place than the start.

    Examples:
        >>> Cut(prefix=0.25, suffix=10).prompt_length(100)
        25
    """

    prefix: int | float = _CUT_DEFAULTS.prefix
    suffix: int = _CUT_DEFAULTS.suffix
    place: str = _CUT_DEFAULTS.place

    def __post_init__(self) -> None:
        CutSettings.check_attributes(self, "prefix")
        if not isinstance(self.prefix, float | np.floating):
            check_integer(self.prefix, "prefix", minimum=1)
            return
        check_number(self.prefix, "prefix", above=0, below=1)
        if self.place != "start":
            raise InputError(f"place: a share of the document starts at its start, got {self.place!r}")

    def prompt_length(self, n_tokens: int) -> int:
        """Return the number of prompt tokens of a document of ``n_tokens``."""
        if isinstance(self.prefix, float | np.floating):
            return max(int(self.prefix * n_tokens + 1e-9), 1)
        return self.prefix

    def prompt_start(self, n_tokens: int, text: str, seed: int) -> int:
        """Return the position of the first prompt token; a random one depends only on the document and the seed."""
        spare = n_tokens - self.prompt_length(n_tokens) - self.suffix
        if self.place == "random":
            return int(seeds.generator(seed, "place", text).integers(spare + 1))
        return spare if self.place == "end" else 0


@dataclass(frozen=True, slots=True)
class Passage:
    """The prompt and the suffix of one document.

    Args:
        row: row of the document in its set.
        prefix: token numbers of the prompt, or its words.
        suffix: those of the suffix.
    """

    row: int
    prefix: tuple[Any, ...]
    suffix: tuple[Any, ...]

    @property
    def tokens(self) -> tuple[Any, ...]:
        """Prompt and suffix together."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of a set of documents.

    Args:
        passages: one for each document that is long enough.
        short: number of documents that are too short.
        shortened: number of prompts that lost their beginning because the model takes no more tokens.
    """

    passages: tuple[Passage, ...]
    short: int
    shortened: int


def cut_passages(
    target: GivesContinuations | TextModel, texts: Sequence[str], cut: Cut, max_tokens: int, seed: int, name: str
) -> Passages:
    """Cut documents; a prompt loses its beginning where the model cannot take all of it.

    Of a document with answers the last one is asked for, up to ``cut.suffix`` of its tokens, and the prompt is all that
    stands before it.

    Args:
        target: the model whose tokenizer is used.
        texts: the documents.
        cut: how to cut them.
        max_tokens: tokens of prompt and suffix together that the model takes at most.
        seed: of random places.
        name: name of the argument, for errors.

    Raises:
        divulge.InputError: a suffix that leaves no room for a prompt, no document that is long enough.
    """
    if cut.suffix >= max_tokens:
        raise InputError(f"suffix: must be below {max_tokens}, the tokens that the model takes, got {cut.suffix}")
    passages, short, shortened = [], 0, 0
    for row, (text, tokens) in enumerate(zip(texts, target.encode(texts), strict=True)):
        if (span := _find_last_answer(target, text, tokens)) is not None:
            start, stop = span[0], min(span[1], span[0] + cut.suffix)
            n_prefix = min(start, max_tokens - cut.suffix)
            shortened += n_prefix < start
            short += not 0 < start < stop
            if 0 < start < stop:
                passages.append(Passage(row, tokens[start - n_prefix : start], tokens[start:stop]))
            continue
        prompt_length = cut.prompt_length(len(tokens))
        if len(tokens) < prompt_length + cut.suffix:
            short += 1
            continue
        split = cut.prompt_start(len(tokens), text, seed) + prompt_length
        n_prefix = min(prompt_length, max_tokens - cut.suffix)
        shortened += n_prefix < prompt_length
        passages.append(Passage(row, tokens[split - n_prefix : split], tokens[split : split + cut.suffix]))
    if not passages:
        required = (
            f"{cut.prefix} + {cut.suffix}"
            if cut.prompt_length(1) == cut.prefix
            else f"enough for {cut.suffix} + a prompt"
        )
        raise InputError(f"{name}: none of {len(texts)} documents has the tokens that are needed ({required})")
    return Passages(tuple(passages), short, shortened)


def _find_last_answer(
    target: GivesContinuations | TextModel, text: str, tokens: Sequence[Any]
) -> tuple[int, int] | None:
    """Return where the last answer begins and ends among the tokens of a document; None where it knows of none.

    Raises:
        divulge.InputError: a target that is given plain texts.
    """
    if isinstance(target, TextModel):
        return target.find_last_answer(text)
    if not chats.has_answers([text]):
        return None
    if not isinstance(target, ReadsAnswers):
        raise InputError(f"target: {type(target).__name__} cannot tell answers from prompts; give documents as texts")
    (document,) = target.encode_documents([chats.score_answers_only(text)])
    n_special = len(document.ids) - len(tokens)
    in_answer = list(document.in_answer or ())[n_special:]
    stop = len(in_answer) - in_answer[::-1].index(True) if any(in_answer) else 0
    start = next((place + 1 for place in range(stop - 1, -1, -1) if not in_answer[place]), 0)
    return start, stop


@dataclass(frozen=True, slots=True, eq=False)
class Completions:
    """Completions of ``n`` prompts by one model.

    Args:
        log_p: logarithm of the probability that the suffix is drawn, ``[n]``; None of a server that shows text alone.
        verbatim: whether greedy decoding gives the suffix, ``[n]``.
        longest: length in tokens of the longest run shared by the greedy completion and the suffix, ``[n]``.
        overlap: share of the tokens of both that are in matching runs, ``[n]``.
        texts: the greedy completions, or None.
    """

    log_p: Floats | None
    verbatim: Bools
    longest: Ints
    overlap: Floats
    texts: tuple[str, ...] | None = None

    def hits(self, draws: tuple[int, ...], near: float) -> dict[str, Bools]:
        """Return which suffixes the model gives back, ``[n]``, for each extraction method."""
        hits = {GREEDY: self.verbatim, f"overlap of at least {near:g}, greedy": self.overlap >= near - 1e-12}
        for n in draws if self.log_p is not None else ():
            hits[f"likely within {n:,} {'draws' if n > 1 else 'draw'}"] = (
                probability_seen(self.log_p, n) >= _EVEN_CHANCE
            )
        return hits


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredDocuments:
    """A set of documents with the completions of their prompts.

    Args:
        ids: of the ``n`` documents, ``[n]``.
        target: completions by the audited model.
        reference: completions by the reference model, or None.
        prompts: the prompts as text, or None.
        suffixes: the suffixes as text, or None.
        copies: number of documents of the set that have this passage, ``[n]``; one each when None.
        suffix_numbers: a number for each distinct suffix, the same in both sets, ``[n]``; all differ when None.
        repeated: number of documents left out because their passage repeats or is in both sets.
        short: number of documents left out because they are too short.
        shortened: number of prompts that lost their beginning because the model takes no more tokens.
        outcomes: answers of a server that shows text alone, ``[n]``; else none.
    """

    ids: Array
    target: Completions
    reference: Completions | None = None
    prompts: tuple[str, ...] | None = None
    suffixes: tuple[str, ...] | None = None
    copies: Ints | None = None
    suffix_numbers: Ints | None = None
    repeated: int = 0
    short: int = 0
    shortened: int = 0
    outcomes: tuple[Outcome, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_documents(self) -> Ints:
        """Number of documents of the set that have each passage, ``[n]``."""
        return np.ones(len(self), np.int64) if self.copies is None else self.copies

    @classmethod
    def from_table(cls, table: pl.DataFrame) -> MeasuredDocuments:
        """Load what `to_table` returned; the numbers of documents left out are not in the table.

        Raises:
            KeyError: a column is missing.
            TypeError: a column of texts holds something else.
            ValueError: numbers of documents below 1.
        """
        parts = ("prefix", "suffix", "generated")
        for name in set(parts) & set(table.columns):
            if table[name].dtype not in (pl.String, pl.Null):
                raise TypeError(f"{name}: texts are needed, got {table[name].dtype}")
        prompts, suffixes, generated = (tuple(table[name]) if name in table.columns else None for name in parts)
        reference = _from_columns(table, "reference ") if "reference verbatim" in table.columns else None
        copies, suffix_numbers = _whole_numbers(table, "documents"), _whole_numbers(table, "suffix number")
        if copies is not None and (copies < 1).any():
            raise ValueError("documents: at least 1 document has each passage")
        completions = _from_columns(table, "", generated)
        return cls(tables.to_array(table["id"]), completions, reference, prompts, suffixes, copies, suffix_numbers)

    def to_table(self, name: str) -> pl.DataFrame:
        """Return one row per document."""
        columns: dict[str, Array] = {
            "set": _to_objects([name] * len(self)),
            "id": _to_objects([str(key) for key in self.ids]),
            "documents": self.n_documents,
        }
        if self.suffix_numbers is not None:
            columns["suffix number"] = self.suffix_numbers
        for prefix, model in (("", self.target), ("reference ", self.reference)):
            if model is not None and model.log_p is not None:
                columns |= {
                    f"{prefix}log_p": model.log_p,
                    f"{prefix}draws for an even chance": draws_needed(model.log_p),
                }
            if model is not None:
                columns |= {
                    f"{prefix}verbatim": model.verbatim,
                    f"{prefix}longest match": model.longest,
                    f"{prefix}overlap": model.overlap,
                }
        if self.prompts is not None:
            texts_by_part = {"prefix": self.prompts, "suffix": self.suffixes, "generated": self.target.texts}
            columns |= {part: _to_objects(texts or [None] * len(self)) for part, texts in texts_by_part.items()}
        return tables.from_arrays(columns)


def _to_objects(texts: Sequence[str | None]) -> Array:
    """Return an array of objects, as a NumPy string array would make all texts as long as the longest."""
    return np.array(texts, dtype=object)


def _whole_numbers(table: pl.DataFrame, name: str) -> Ints | None:
    """Return a column of whole numbers; None where there is none, as in runs of earlier releases."""
    if name not in table.columns:
        return None
    if not table[name].dtype.is_integer() or table[name].null_count():
        raise TypeError(f"{name}: whole numbers are needed, got {table[name].dtype}")
    return tables.to_array(table[name]).astype(np.int64)


def _from_columns(table: pl.DataFrame, prefix: str, texts: tuple[str, ...] | None = None) -> Completions:
    verbatim, longest, overlap = (
        tables.to_array(table[f"{prefix}{name}"]) for name in ("verbatim", "longest match", "overlap")
    )
    log_p = tables.to_array(table[f"{prefix}log_p"]) if f"{prefix}log_p" in table.columns else None
    return Completions(log_p, verbatim, longest, overlap, texts)


class Completer:
    """Completes the passages of one set after the other; finished chunks survive an interruption.

    Args:
        target: the audited model.
        reference: the reference model, or None.
        decoding: how tokens are drawn.
        show_records: whether texts may be stored.
        progress: called with the number of documents finished and of all.
        total: number of all documents.
        cache: folder of finished chunks, or None.
    """

    def __init__(
        self,
        target: GivesContinuations | TextModel,
        reference: GivesContinuations | TextModel | None,
        decoding: Decoding,
        show_records: bool,
        progress: Callable[[int, int], None],
        total: int,
        cache: Path | None,
    ) -> None:
        self._target, self._reference = target, reference
        self._decoding, self._show_records, self._cache = decoding, show_records, cache
        self._progress, self._n_done, self._total = progress, 0, total

    def complete(self, records: Records, passage_set: Passages, passages: Sequence[Passage]) -> MeasuredDocuments:
        """Complete ``passages``, the part of ``cut`` that is compared."""
        rows = np.array([f"row {row}" for row in range(1, len(records) + 1)], object)
        ids = rows if records.ids is None else records.ids
        counts = Counter(passage.tokens for passage in passage_set.passages)
        completions, outcomes = self._complete_by(self._target, records, passages, "target")
        measured = MeasuredDocuments(
            ids[np.array([passage.row for passage in passages])],
            completions,
            None if self._reference is None else self._complete_by(self._reference, records, passages, "reference")[0],
            copies=np.array([counts[passage.tokens] for passage in passages], np.int64),
            repeated=len(passage_set.passages) - len(passages),
            short=passage_set.short,
            shortened=passage_set.shortened,
            outcomes=outcomes,
        )
        self._n_done += len(passages)
        if not self._show_records:
            return measured
        return replace(
            measured,
            prompts=tuple(self._target.decode(passage.prefix) for passage in passages),
            suffixes=tuple(self._target.decode(passage.suffix) for passage in passages),
        )

    def _complete_by(
        self, model: GivesContinuations | TextModel, records: Records, passages: Sequence[Passage], name: str
    ) -> tuple[Completions, tuple[Outcome, ...]]:
        """Return completions, and the answers that they are computed from where a server shows text alone."""
        if isinstance(model, TextModel):
            return self._complete_by_text(model, records, passages, name)
        chunks = []
        for start in range(0, len(passages), _CHUNK):
            chunk = passages[start : start + _CHUNK]
            chunks.append(self._complete_chunk(model, chunk, f"{name}-{self._n_done + start}.npz"))
            with errors.user_code_errors("progress"):
                self._progress(self._n_done + start + len(chunk), self._total)
        columns = {key: np.concatenate([chunk[key] for chunk in chunks]) for key in chunks[0]}
        texts = None
        if self._show_records:
            rows = np.split(columns["written"], np.cumsum(columns["sizes"])[:-1])
            texts = tuple(model.decode(tuple(tokens.tolist())) for tokens in rows)
        return Completions(*(columns[key] for key in _COLUMNS), texts=texts), ()

    def _complete_by_text(
        self, model: TextModel, records: Records, passages: Sequence[Passage], name: str
    ) -> tuple[Completions, tuple[Outcome, ...]]:
        def report_progress(count: int) -> None:
            with errors.user_code_errors("progress"):
                self._progress(self._n_done + count, self._total)

        journal = None if self._cache is None else self._cache / f"{name}.jsonl"
        outcomes = model.complete(records, passages, journal, show_records=self._show_records, progress=report_progress)
        verbatim, longest, overlap = (
            np.array([getattr(outcome, field) for outcome in outcomes]) for field in ("verbatim", "longest", "overlap")
        )
        texts = tuple(str(outcome.text) for outcome in outcomes) if self._show_records else None
        return Completions(None, verbatim, longest, overlap, texts), tuple(outcomes)

    def _complete_chunk(self, model: GivesContinuations, passages: Sequence[Passage], name: str) -> dict[str, Array]:
        """Return the columns of `Completions` for one chunk, with the generated tokens where texts are stored."""
        path = None if self._cache is None else self._cache / name
        if path is not None and path.exists():
            return store.read_arrays(path, inside=path.parent)
        prompts = [(*model.start, *passage.prefix) for passage in passages]
        continuations = model.continuations(prompts, [passage.suffix for passage in passages], decoding=self._decoding)
        # Where the suffix is the likeliest continuation, greedy decoding returns it, and nothing needs to be generated.
        generated: list[Any] = [passage.suffix for passage in passages]
        differing = np.flatnonzero(~continuations.verbatim)
        if len(differing):
            greedy = model.greedy([prompts[i] for i in differing], max(len(generated[i]) for i in differing))
            for i, tokens in zip(differing, greedy, strict=True):
                generated[i] = tokens[: len(generated[i])]  # answers differ in length
        matches = [likeness(tokens, passage.suffix) for tokens, passage in zip(generated, passages, strict=True)]
        longest = np.array([match.longest for match in matches])
        overlap = np.array([match.overlap for match in matches])
        columns = (continuations.log_p, continuations.verbatim, longest, overlap)
        columns, generated = dict(zip(_COLUMNS, columns, strict=True)), generated
        if self._show_records:
            columns["sizes"] = np.array([len(tokens) for tokens in generated], np.int64)
            columns["written"] = np.array([token for tokens in generated for token in tokens], np.int64)
        if path is not None:
            store.write_arrays(path, columns)
        return columns


def probability_seen(log_p: object, draws: int) -> Floats:
    """Return the chance that a text is drawn at least once, ``1 - (1 - p)^n`` (Hayes et al. 2024, eq. 2), ``[k]``.

    Args:
        log_p: natural logarithms of probabilities, ``[k]``; minus infinity for what is never drawn.
        draws: n.

    Raises:
        divulge.InputError: logarithms above 0 or NaN, fewer than 1 draw.

    Examples:
        >>> probability_seen(np.log([0.5, 0.01, 1e-12]), 100).round(3)
        array([1. , 0.634, 0. ])
    """
    count = check_integer(draws, "draws", minimum=1, maximum=_MAX_DRAWS)
    return -np.expm1(count * _log_complement(_check_log_probabilities(log_p)))


def draws_needed(log_p: object, chance: float = 0.5) -> Floats:
    """Return the fewest draws that show a text at least once with this chance, ``[k]``.

    Infinity where it is never drawn, or takes more draws than a float64 can count.

    Args:
        log_p: as for `probability_seen`.
        chance: in (0, 1).

    Raises:
        divulge.InputError: logarithms above 0 or NaN, a chance outside (0, 1).

    Examples:
        >>> draws_needed(np.log([1.0, 0.5, 0.01]))
        array([ 1.,  1., 69.])
    """
    logs = _check_log_probabilities(log_p)
    target = -math.log1p(-check_number(chance, "chance", above=0, below=1))
    with np.errstate(over="ignore", divide="ignore"):
        exact = np.where(logs > -30, target / -_log_complement(np.maximum(logs, -30)), target * np.exp(-logs))
    # An exact whole number that floating-point error has raised slightly must not be rounded up to the next.
    return np.maximum(np.ceil(exact * (1 - 1e-12)), 1.0)


def _log_complement(log_p: Floats) -> Floats:
    """Return ``log(1 - p)``, to full precision at both ends."""
    is_large = log_p > -math.log(2)
    with np.errstate(divide="ignore"):
        return np.where(is_large, np.log(-np.expm1(np.where(is_large, log_p, -1.0))), np.log1p(-np.exp(log_p)))


def _check_log_probabilities(log_p: object) -> Floats:
    logs = check_vector(log_p, "log_p", finite=False)
    if np.isnan(logs).any() or (logs > 0).any():
        raise InputError("log_p: logarithms of probabilities are needed, some are NaN or above 0")
    return logs
