"""Documents into what a language model gives back of them."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store
from divulge.auditing import comparability
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.extraction.asking import FINISHED, Asked
from divulge.extraction.completed import Measured
from divulge.extraction.passages import Cut, Passage, passages
from divulge.extraction.result import KIND, Extraction
from divulge.report import in_words
from divulge.run_directory import RunDirectory
from divulge.targets import Decoding, GivesContinuations
from divulge.types import Records
from divulge.validation import (
    as_list,
    check_bool,
    check_instance,
    check_integer,
    check_number,
    check_path,
    check_strings,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from divulge.extraction.passages import Passages

_HALF = re.compile("[\ud800-\udfff]")
_DECODING = "a divulge.targets.Decoding"
_LEAST_BLIND = 2 * blind.FOLDS


def measure(
    target: Any,
    members: Records | Sequence[str],
    nonmembers: Records | Sequence[str],
    *,
    prefix: int | float = 50,
    suffix: int = 50,
    place: str = "start",
    decoding: Decoding | None = None,
    draws: Sequence[int] = (1, 100, 10_000),
    near: float = 0.75,
    reference: Any = None,
    confidence: float = 0.95,
    texts: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Extraction:
    """Ask a language model to go on from the beginnings of documents, and see which it gives back.

    The same is asked of documents that it was not trained on: what those give is what extraction looks like without
    training on them, and only what goes beyond it is called extracted. The probability of a suffix under sampling
    is computed, not drawn.

    Args:
        target: the model: `divulge.targets.CausalLM`, or anything that is a `divulge.targets.GivesContinuations`.
        members: documents that it was trained on.
        nonmembers: documents of the same kind that it was not trained on.
        prefix: tokens of the prompt, or the share of the document that it is.
        suffix: tokens that the model is to give back.
        place: where in a document: "start", "end" or "random".
        decoding: how tokens are drawn; as the model says when None. Greedy decoding is looked at in any case.
        draws: numbers of draws; a document counts as given back where an even chance of seeing it is reached.
        near: overlap from which a greedy continuation counts as near-verbatim.
        reference: a model with the same tokenizer that did not see the members (the base of a fine-tune). What it gives
            back as well is not counted.
        confidence: that all differences lie in their intervals.
        texts: False to keep documents out of the result, the run directory and the report.
        seed: of random places and of the blind baseline.
        out: run directory to write; what is finished is kept there, and the same call goes on after an interruption.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of documents finished and of all.

    Raises:
        divulge.InputError: a target that writes nothing (an endpoint, a classifier), a document in both sets, no
            document that is long enough, a reference with another tokenizer, settings out of their range.

    References:
        Carlini et al. 2023, Quantifying Memorization; Hayes et al. 2024, Measuring memorization through
        probabilistic discoverable extraction.
    """
    model = _writes(target, "target")
    other = None if reference is None else _writes(reference, "reference")
    cut = Cut(prefix, suffix, place)
    counts = _counts(draws)
    chosen = Decoding() if decoding is None else check_instance(decoding, "decoding", Decoding, _DECODING)
    close = check_number(near, "near", above=0, below=1, closed=True)
    level = check_number(confidence, "confidence", above=0, below=1)
    start = check_integer(seed, "seed", least=0)
    kept, replaced = check_bool(texts, "texts"), check_bool(overwrite, "overwrite")
    tell = (lambda done, total: None) if progress is None else require_callable(progress, "progress")
    sets = [_documents(given, name) for given, name in ((members, "members"), (nonmembers, "nonmembers"))]
    _refuse_shared(*sets)
    _refuse_other_tokens(model, other, *sets)
    room = min(int(one.length or 0) - len(one.start) for one in (model, other) if one is not None)
    made = [
        passages(model, list(given.x), cut, room, start, name)
        for given, name in zip(sets, ("members", "nonmembers"), strict=True)
    ]
    used, warnings = _apart(made)
    settings = (cut, chosen, counts, close, level, kept, start)
    key = store.hash_values(model.key(), None if other is None else other.key(), *(one.x for one in sets), *settings)
    with contextlib.ExitStack() as held:
        draft = None
        if out is not None:
            folder = RunDirectory(check_path(out, "out"))
            draft = held.enter_context(folder.writing(KIND, key, overwrite=replaced, keep=(FINISHED,)))
        finished = None if draft is None else draft.path / FINISHED
        asked = Asked(model, other, chosen, kept, tell, sum(map(len, used)), finished)
        parts = zip(sets, made, used, strict=True)
        inside, outside = (asked.measured(given, part, some) for given, part, some in parts)
        words = [[model.decode(passage.tokens) for passage in part] for part in used]
        signs = comparability.find_split_signs(*words, quoted=kept, seed=start)
        result = Extraction(
            members=inside,
            nonmembers=outside,
            cut=cut,
            decoding=chosen,
            draws=counts,
            near=close,
            confidence=level,
            blind=_blind(*words, start),
            signs=signs,
            model=str(model.key().get("model", type(target).__name__)),
            seed=start,
            warnings=(*comparability.describe_split_signs(signs), *_left_out(inside, outside), *warnings),
        )
        if draft is not None:
            result.into(draft)
    return result


def _writes(target: Any, name: str) -> GivesContinuations:
    if isinstance(target, type) or not isinstance(target, GivesContinuations):
        raise InputError(
            f"{name}: a language model that runs here is needed (divulge.targets.CausalLM), as its continuations are "
            f"computed token by token; {type(target).__name__} gives none"
        )
    return target


def _documents(given: Any, name: str) -> Records:
    if isinstance(given, Records):
        if given.x.dtype != object:
            raise InputError(f"{name}: documents are needed, one text per record, got shape {given.x.shape}")
        return given
    texts = list(check_strings(given, name))
    for row, text in enumerate(texts):
        if _HALF.search(text):
            raise InputError(f"{name}: document {row} holds half of a surrogate pair, which is no text")
    return Records(texts)


def _counts(draws: Sequence[int]) -> tuple[int, ...]:
    counts = [check_integer(count, "draws", least=1, most=10**15) for count in as_list(draws, "draws")]
    if not counts:
        raise InputError("draws: at least 1 number of draws is needed, got none")
    return tuple(sorted(set(counts)))


def _refuse_shared(members: Records, nonmembers: Records) -> None:
    both = blind.duplicates(members.x, nonmembers.x)
    if len(both):
        raise InputError(
            f"nonmembers: {len(both)} documents are members as well (first: non-member {both.nonmembers[0]}, member "
            f"{both.members[0]}); a document that was trained on is no baseline"
        )


def _refuse_other_tokens(target: GivesContinuations, reference: GivesContinuations | None, *sets: Records) -> None:
    if reference is not None and any(target.encode(list(one.x)) != reference.encode(list(one.x)) for one in sets):
        raise InputError("reference: a model with the target's tokenizer is needed, this one cuts other tokens")


def _apart(made: Sequence[Passages]) -> tuple[list[list[Passage]], list[str]]:
    """Each passage once, and none that stands in both sets; the second is what must be said of it."""
    inside, outside = ({passage.tokens for passage in part.cut} for part in made)
    shared = inside & outside
    used = [_once(part.cut, shared) for part in made]
    if not all(used):
        raise InputError("nonmembers: every passage of one set stands in the other; nothing is left to compare")
    several = in_words.several(len(shared), "passage")
    said = f"in documents of both sets, and left out of both: {several}" if shared else ""
    return used, [said] if said else []


def _once(cut: Sequence[Passage], shared: Collection[tuple[int, ...]]) -> list[Passage]:
    first: dict[tuple[int, ...], Passage] = {}
    for passage in cut:
        if passage.tokens not in shared:
            first.setdefault(passage.tokens, passage)
    return list(first.values())


def _left_out(*sets: Measured) -> list[str]:
    """What the user must know of documents that were not used, or not as a whole."""
    notes = []
    for name, one in zip(("member", "non-member"), sets, strict=True):
        if one.short:
            notes.append(f"too short, and left out: {in_words.several(one.short, name)}")
        if one.repeated:
            notes.append(f"left out, as the passage stands elsewhere as well: {in_words.several(one.repeated, name)}")
        if one.shortened:
            prompts = f"{in_words.several(one.shortened, 'prompt')} of {name}s"
            notes.append(f"without their beginning, as the model takes no more tokens: {prompts}")
    return notes


def _blind(members: Sequence[str], nonmembers: Sequence[str], seed: int) -> blind.Blind | None:
    if min(len(members), len(nonmembers)) < _LEAST_BLIND:
        return None
    return blind.baseline(np.array(members, object), np.array(nonmembers, object), seed)
