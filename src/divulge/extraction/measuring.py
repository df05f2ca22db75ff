"""Measure which documents a language model gives back."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store
from divulge.auditing.checks.texts import describe_split_signs, find_split_signs
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.extraction.completions import CACHE, Completer, Cut, Passage, cut_passages
from divulge.extraction.result import RUN_TYPE, Extraction
from divulge.extraction.text_servers import TextModel, describe_text_only, require_greedy
from divulge.report import formatting
from divulge.run_directory import RunDirectory
from divulge.settings import ExtractSettings
from divulge.targets import Decoding, GivesContinuations, GivesText
from divulge.types import Records
from divulge.validation import (
    check_bool,
    check_instance,
    check_path,
    check_strings,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from divulge.extraction.completions import MeasuredDocuments, Passages

_SURROGATE = re.compile("[\ud800-\udfff]")
_DECODING = "a divulge.targets.Decoding"
_DEFAULTS = ExtractSettings()


def measure(
    target: Any,
    members: Records | Sequence[str],
    nonmembers: Records | Sequence[str],
    *,
    prefix: int | float = _DEFAULTS.prefix,
    suffix: int = _DEFAULTS.suffix,
    place: str = _DEFAULTS.place,
    decoding: Decoding | None = None,
    draws: Sequence[int] = _DEFAULTS.draws,
    near: float = _DEFAULTS.near,
    reference: Any = None,
    confidence: float = _DEFAULTS.confidence,
    duplicates: str = _DEFAULTS.duplicates,
    show_records: bool = _DEFAULTS.show_records,
    seed: int = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Extraction:
    """Measure which documents a language model completes from their beginnings, beyond what it completes anyway.

    Documents that the model was not trained on are the baseline: only what members are given back more often is called
    extracted. The probability of a suffix under sampling is computed, not drawn.

    Args:
        target: the model: `divulge.targets.CausalLM`, or anything that is a `divulge.targets.GivesContinuations`; or a
            server, `divulge.targets.Endpoint` or `divulge.targets.ChatEndpoint`, of which text alone is read: prefix
            and suffix are then words, and the likeliest answers alone are compared.
        members: documents that it was trained on.
        nonmembers: documents of the same kind that it was not trained on.
        prefix: number of tokens of the prompt, or its share of the document.
        suffix: number of tokens that the model is to give back.
        place: where in a document: "start", "end" or "random".
        decoding: how tokens are drawn; plain sampling when None. Greedy decoding is measured in any case.
        draws: numbers of draws; a document counts as given back where an even chance of seeing it is reached.
        near: overlap from which a greedy continuation counts as near-verbatim.
        reference: a model with the same tokenizer that did not see the members (the base of a fine-tune). Documents
            that it gives back as well are not counted.
        confidence: probability with which all differences lie in their intervals.
        duplicates: what to do about documents of both sets: "error", or "drop", which leaves them out of both.
        show_records: False to keep documents out of the result, the run directory and the report.
        seed: of random places and of the blind baseline.
        out: run directory to write; finished work stays there, and the same call resumes after an interruption.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of documents finished and of all.

    Raises:
        divulge.InputError: a target that cannot generate text (a classifier), a decoding for a server, documents in
            both sets that are not to be dropped, none that is long enough, a reference with another tokenizer, settings
            out of their range.

    References:
        Carlini et al. 2023, Quantifying Memorization; Hayes et al. 2024, Measuring memorization through
        probabilistic discoverable extraction.
    """
    model = _check_model(target, "target")
    reference_model = None if reference is None else _check_model(reference, "reference")
    cut = Cut(prefix, suffix, place)
    options = ExtractSettings.check(
        prefix=cut.prefix, suffix=cut.suffix, place=cut.place, draws=draws, near=near, confidence=confidence,
        duplicates=duplicates, show_records=show_records, seed=seed,
    )  # fmt: skip
    options = options.model_copy(update={"draws": tuple(sorted(set(options.draws)))})
    is_text_only = isinstance(model, TextModel)
    if is_text_only:
        require_greedy(decoding)
    decoding = Decoding() if decoding is None else check_instance(decoding, "decoding", Decoding, _DECODING)
    show_records, seed = options.show_records, options.seed
    overwrite = check_bool(overwrite, "overwrite")
    report_progress = (lambda done, total: None) if progress is None else require_callable(progress, "progress")
    names = ("members", "nonmembers")
    documents = [_check_documents(value, name) for value, name in zip((members, nonmembers), names, strict=True)]
    documents, left_out = _separate_documents(*documents, options.duplicates)
    _check_same_tokenizer(model, reference_model, *documents)
    models = [model] if reference_model is None else [model, reference_model]
    max_tokens = min(int(each.length or 0) - len(each.start) for each in models)
    cuts = [
        cut_passages(model, list(records.x), cut, max_tokens, seed, name)
        for records, name in zip(documents, names, strict=True)
    ]
    passages, shared, warnings = _distinct_passages(cuts)
    reference_key = None if reference_model is None else reference_model.key()
    key = store.hash_values(model.key(), reference_key, *(records.x for records in documents), repr(options), decoding)
    with contextlib.ExitStack() as stack:
        draft = None
        if out is not None:
            folder = RunDirectory(check_path(out, "out"))
            draft = stack.enter_context(folder.writing(RUN_TYPE, key, overwrite=overwrite, keep=(CACHE,)))
        cache = None if draft is None else draft.path / CACHE
        total = sum(map(len, passages))
        completer = Completer(model, reference_model, decoding, show_records, report_progress, total, cache)
        measured = [completer.complete(*each) for each in zip(documents, cuts, passages, strict=True)]
        numbers: dict[tuple[int, ...], int] = {}
        measured = [
            replace(
                side, suffix_numbers=np.array([numbers.setdefault(each.suffix, len(numbers)) for each in side_passages])
            )
            for side, side_passages in zip(measured, passages, strict=True)
        ]
        passage_texts = [[model.decode(passage.tokens) for passage in each] for each in passages]
        signs = find_split_signs(*passage_texts, quoted=show_records, seed=seed)
        result = Extraction(
            members=measured[0],
            nonmembers=measured[1],
            settings=options,
            decoding="the likeliest answer" if is_text_only else str(decoding),
            blind=_run_blind_baseline(*passage_texts, seed),
            signs=signs,
            model=str(model.key().get("model", type(target).__name__)),
            shared=shared,
            warnings=(
                *describe_split_signs(signs),
                *(describe_text_only(*(side.outcomes for side in measured)) if is_text_only else ()),
                *_describe_left_out(*measured),
                *left_out,
                *warnings,
            ),
        )
        if draft is not None:
            result.write_to(draft)
    return result


def _check_model(target: Any, name: str) -> GivesContinuations | TextModel:
    if not isinstance(target, type):
        if isinstance(target, GivesContinuations):
            return target
        if isinstance(target, GivesText):
            return TextModel(target)
    raise InputError(
        f"{name}: a language model that runs here (divulge.targets.CausalLM) or one behind a server is needed; "
        f"{type(target).__name__} gives no continuations"
    )


def _check_documents(value: Any, name: str) -> Records:
    if isinstance(value, Records):
        if value.x.dtype != object:
            raise InputError(f"{name}: documents are needed, one text per record, got shape {value.x.shape}")
        return value
    texts = list(check_strings(value, name))
    for row, text in enumerate(texts):
        if _SURROGATE.search(text):
            raise InputError(f"{name}: document {row} holds half of a surrogate pair, which is no text")
    return Records(texts)


def _separate_documents(members: Records, nonmembers: Records, duplicates: str) -> tuple[list[Records], list[str]]:
    """Return both sets without the documents that stand in both, and a note on these.

    Raises:
        divulge.InputError: such documents where ``duplicates`` is "error", or a set that holds no others.
    """
    shared = blind.duplicates(members.x, nonmembers.x)
    if not len(shared):
        return [members, nonmembers], []
    if duplicates == "error":
        raise InputError(
            f"nonmembers: {len(shared)} documents are members as well (first: non-member {shared.nonmembers[0]}, "
            f"member {shared.members[0]}); a document that was trained on is no baseline: set duplicates to 'drop', "
            "which leaves these out of both sets, or remove them"
        )
    numbered = [  # so that a document is still found by the row that it had
        records if records.ids is not None else records.with_ids([f"row {row + 1}" for row in range(len(records))])
        for records in (members, nonmembers)
    ]
    sides = list(zip(numbered, (shared.members, shared.nonmembers), strict=True))
    if any(len(rows) == len(records) for records, rows in sides):
        raise InputError("nonmembers: every document of one set stands in the other; nothing is left to compare")
    kept = [records[np.setdiff1d(np.arange(len(records)), rows)] for records, rows in sides]
    counts = f"{len(shared.members):,} members and {len(shared.nonmembers):,} non-members"
    return kept, [f"documents of both sets, left out of both: {counts}"]


def _check_same_tokenizer(
    target: GivesContinuations | TextModel, reference: GivesContinuations | TextModel | None, *sets: Records
) -> None:
    if reference is not None and any(
        target.encode(list(records.x)) != reference.encode(list(records.x)) for records in sets
    ):
        raise InputError(
            "reference: a model with the target's tokenizer is needed, this one cuts other tokens (beside a server, "
            "another server)"
        )


def _distinct_passages(
    passage_sets: Sequence[Passages],
) -> tuple[list[list[Passage]], tuple[int, int, int, int], list[str]]:
    """Return the passages of each set without repeats and those of both sets, `Extraction.shared`, and a warning."""
    member_counts, nonmember_counts = (
        Counter(passage.tokens for passage in passage_set.passages) for passage_set in passage_sets
    )
    shared = member_counts.keys() & nonmember_counts.keys()
    distinct = []
    for passage_set in passage_sets:
        passages_by_tokens: dict[tuple[int, ...], Passage] = {}
        for passage in passage_set.passages:
            if passage.tokens not in shared:
                passages_by_tokens.setdefault(passage.tokens, passage)
        distinct.append(list(passages_by_tokens.values()))
    if not all(distinct):
        raise InputError("nonmembers: every passage of one set stands in the other; nothing is left to compare")
    shared_passages = formatting.format_count(len(shared), "passage")
    notes = [f"in documents of both sets, and left out of both: {shared_passages}"] if shared else []
    # A passage of both sets is taken to be given back where a larger share of the non-members has it: the reading
    # that shows least.
    given_back = [
        tokens
        for tokens in shared
        if nonmember_counts[tokens] * member_counts.total() >= member_counts[tokens] * nonmember_counts.total()
    ]
    return (
        distinct,
        (
            sum(member_counts[tokens] for tokens in shared),
            sum(nonmember_counts[tokens] for tokens in shared),
            sum(member_counts[tokens] for tokens in given_back),
            sum(nonmember_counts[tokens] for tokens in given_back),
        ),
        notes,
    )


def _describe_left_out(*sets: MeasuredDocuments) -> list[str]:
    """Return warnings about documents that were left out or shortened."""
    notes = []
    for name, measured in zip(("member", "non-member"), sets, strict=True):
        if measured.short:
            notes.append(f"too short, and left out: {formatting.format_count(measured.short, name)}")
        if measured.repeated:
            repeated = formatting.format_count(measured.repeated, name)
            notes.append(
                f"left out, as the passage stands elsewhere as well: {repeated}; intervals of differences hold both "
                "with and without them"
            )
        if measured.shortened:
            prompts = f"{formatting.format_count(measured.shortened, 'prompt')} of {name}s"
            notes.append(f"without their beginning, as the model takes no more tokens: {prompts}")
    return notes


def _run_blind_baseline(members: Sequence[str], nonmembers: Sequence[str], seed: int) -> float | None:
    if min(len(members), len(nonmembers)) < 2 * blind.FOLDS:
        return None
    return blind.baseline(np.array(members, object), np.array(nonmembers, object), seed).p_value
