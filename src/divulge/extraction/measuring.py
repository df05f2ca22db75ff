"""Documents into what a language model gives back of them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, errors, store
from divulge.dossier import Dossier
from divulge.evaluation import blind
from divulge.extraction.overlap import likeness
from divulge.extraction.passages import Cut, Passage, passages
from divulge.extraction.result import KIND, Completed, Extraction, Measured
from divulge.targets import Decoding, GivesContinuations
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from divulge.extraction.passages import Passages

_HALF = re.compile("[\ud800-\udfff]")
_CHUNK = 256  # documents between two words of progress
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
        out: run directory to write.
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
    chosen = Decoding() if decoding is None else checks.instance(decoding, "decoding", Decoding, _DECODING)
    close = checks.number(near, "near", above=0, below=1, closed=True)
    level = checks.number(confidence, "confidence", above=0, below=1)
    start = checks.integer(seed, "seed", least=0)
    kept, replaced = checks.flag(texts, "texts"), checks.flag(overwrite, "overwrite")
    tell = (lambda done, total: None) if progress is None else checks.able(progress, "progress")
    sets = [_documents(given, name) for given, name in ((members, "members"), (nonmembers, "nonmembers"))]
    _refuse_shared(*sets)
    _refuse_other_tokens(model, other, *sets)
    room = min(int(one.length or 0) - len(one.start) for one in (model, other) if one is not None)
    made = [
        passages(model, list(given.x), cut, room, start, name)
        for given, name in zip(sets, ("members", "nonmembers"), strict=True)
    ]
    used, warnings = _apart(made)
    asked = _Asked(model, other, chosen, kept, tell, sum(map(len, used)))
    settings = (cut, chosen, counts, close, level, kept, start)
    key = store.digest(model.key(), None if other is None else other.key(), *(one.x for one in sets), *settings)
    with contextlib.ExitStack() as held:
        draft = None
        if out is not None:
            folder = Dossier(checks.path(out, "out"))
            draft = held.enter_context(folder.writing(KIND, key, overwrite=replaced))
        parts = zip(sets, made, used, strict=True)
        inside, outside = (asked.measured(given, part, some) for given, part, some in parts)
        result = Extraction(
            members=inside,
            nonmembers=outside,
            cut=cut,
            decoding=chosen,
            draws=counts,
            near=close,
            confidence=level,
            blind=_blind(model, used, start),
            model=str(model.key().get("model", type(target).__name__)),
            seed=start,
            warnings=(*_left_out(inside, outside), *warnings),
        )
        if draft is not None:
            result.into(draft)
    return result


class _Asked:
    """Two models, asked for the passages of one set after the other."""

    def __init__(
        self,
        target: GivesContinuations,
        reference: GivesContinuations | None,
        decoding: Decoding,
        texts: bool,
        tell: Callable[[int, int], None],
        total: int,
    ) -> None:
        self._models = (target, reference)
        self._decoding, self._texts = decoding, texts
        self._tell, self._done, self._total = tell, 0, total

    def measured(self, records: Records, made: Passages, used: Sequence[Passage]) -> Measured:
        ids = np.arange(len(records)) if records.ids is None else records.ids
        target, reference = self._models
        rows = np.array([passage.row for passage in used])
        measured = Measured(
            ids[rows],
            self._completed(target, used),
            None if reference is None else self._completed(reference, used),
            repeated=len(made.cut) - len(used),
            short=made.short,
            shortened=made.shortened,
        )
        self._done += len(used)
        if not self._texts:
            return measured
        prompts, suffixes = (
            tuple(target.decode(part) for part in parts)
            for parts in zip(*((passage.prefix, passage.suffix) for passage in used), strict=True)
        )
        return replace(measured, prompts=prompts, suffixes=suffixes)

    def _completed(self, model: GivesContinuations, used: Sequence[Passage]) -> Completed:
        parts = []
        for first in range(0, len(used), _CHUNK):
            parts.append(_complete(model, used[first : first + _CHUNK], self._decoding, self._texts))
            with errors.theirs("progress"):
                self._tell(self._done + min(first + _CHUNK, len(used)), self._total)
        return Completed(
            *(np.concatenate(column) for column in zip(*(part[:4] for part in parts), strict=True)),
            texts=tuple(text for part in parts for text in part[4]) if self._texts else None,
        )


def _complete(model: GivesContinuations, used: Sequence[Passage], decoding: Decoding, texts: bool) -> tuple[Any, ...]:
    """The columns of `Completed` for some passages."""
    prompts = [(*model.start, *passage.prefix) for passage in used]
    asked = model.continuations(prompts, [passage.suffix for passage in used], decoding=decoding)
    # Greedy decoding goes on with what is asked for as long as that is the likeliest: then nothing need be generated.
    made = [passage.suffix for passage in used]
    rest = np.flatnonzero(~asked.verbatim)
    if len(rest):
        written = model.greedy([prompts[at] for at in rest], len(made[0]))
        for at, tokens in zip(rest, written, strict=True):
            made[at] = tokens
    alike = [likeness(tokens, passage.suffix) for tokens, passage in zip(made, used, strict=True)]
    return (
        asked.log_p,
        asked.verbatim,
        np.array([one.longest for one in alike]),
        np.array([one.overlap for one in alike]),
        [model.decode(tokens) for tokens in made] if texts else [],
    )


def _writes(target: Any, name: str) -> GivesContinuations:
    if isinstance(target, type) or not isinstance(target, GivesContinuations):
        raise checks.InputError(
            f"{name}: a language model that runs here is needed (divulge.targets.CausalLM), as its continuations are "
            f"computed token by token; {type(target).__name__} gives none"
        )
    return target


def _documents(given: Any, name: str) -> Records:
    if isinstance(given, Records):
        if given.x.dtype != object:
            raise checks.InputError(f"{name}: documents are needed, one text per record, got shape {given.x.shape}")
        return given
    texts = list(checks.texts(given, name))
    for row, text in enumerate(texts):
        if _HALF.search(text):
            raise checks.InputError(f"{name}: document {row} holds half of a surrogate pair, which is no text")
    return Records(texts)


def _counts(draws: Sequence[int]) -> tuple[int, ...]:
    counts = [checks.integer(count, "draws", least=1, most=10**15) for count in checks.listed(draws, "draws")]
    if not counts:
        raise checks.InputError("draws: at least 1 number of draws is needed, got none")
    return tuple(sorted(set(counts)))


def _refuse_shared(members: Records, nonmembers: Records) -> None:
    both = blind.duplicates(members.x, nonmembers.x)
    if len(both):
        raise checks.InputError(
            f"nonmembers: {len(both)} documents are members as well (first: non-member {both.nonmembers[0]}, member "
            f"{both.members[0]}); a document that was trained on is no baseline"
        )


def _refuse_other_tokens(target: GivesContinuations, reference: GivesContinuations | None, *sets: Records) -> None:
    if reference is not None and any(target.encode(list(one.x)) != reference.encode(list(one.x)) for one in sets):
        raise checks.InputError("reference: a model with the target's tokenizer is needed, this one cuts other tokens")


def _apart(made: Sequence[Passages]) -> tuple[list[list[Passage]], list[str]]:
    """Each passage once, and none that stands in both sets; the second is what must be said of it."""
    inside, outside = ({passage.tokens for passage in part.cut} for part in made)
    shared = inside & outside
    used = [_once(part.cut, shared) for part in made]
    if not all(used):
        raise checks.InputError("nonmembers: every passage of one set stands in the other; nothing is left to compare")
    said = f"{len(shared)} passages stand in documents of both sets and were left out of both" if shared else ""
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
    for name, one in zip(("members", "non-members"), sets, strict=True):
        if one.short:
            notes.append(f"{one.short} {name} are too short and were left out")
        if one.repeated:
            notes.append(f"{one.repeated} {name} were left out, as their passage stands elsewhere as well")
        if one.shortened:
            notes.append(f"{one.shortened} prompts of {name} lost their beginning, as the model takes no more tokens")
    return notes


def _blind(model: GivesContinuations, used: Sequence[Sequence[Passage]], seed: int) -> blind.Blind | None:
    if min(map(len, used)) < _LEAST_BLIND:
        return None
    inside, outside = ([model.decode(passage.tokens) for passage in part] for part in used)
    return blind.baseline(np.array(inside, object), np.array(outside, object), seed)
