"""Documents under a language model: token statistics, asked once of every model, and what is made of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import evaluation, people
from divulge.attacks import Need
from divulge.auditing import plausibility, reference_models
from divulge.auditing.signals import compute_features, measure_active_signals
from divulge.errors import InputError
from divulge.evidence import Measurements, Models
from divulge.ragged import TokenLogs
from divulge.signals import ReCaLL, tokens
from divulge.targets import Endpoint, GivesLogits, GivesTokens, TokenStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.auditing.inputs import AuditInputs
    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.recipes import Recipe
    from divulge.references import FineTune
    from divulge.references.finetuning import Opened
    from divulge.types import Bools, Floats, Ints

# Signals that need no more of the target than how likely it finds the tokens that stand there.
_LIKELIHOOD_SIGNALS = frozenset({"log_likelihood", "zlib", "min_k", *tokens.RESCALED})
_MAX_LISTED = 3  # rows that a message names
ANSWERS_FILE = "answers.jsonl"  # of an endpoint, while an audit runs


def is_language_model(target: Any) -> bool:
    """Whether a target is a language model, asked for tokens rather than for classes."""
    return isinstance(target, GivesTokens) and not isinstance(target, GivesLogits)


def check_endpoint_recipes(recipes: Sequence[Recipe]) -> None:
    """Pass if an endpoint shows all that the recipes read; known before it is asked."""
    unseen = [
        r.name for r in recipes if isinstance(r.signal, ReCaLL | str) and r.signal_name not in _LIKELIHOOD_SIGNALS
    ]
    if unseen:
        raise InputError(
            f"recipes: {', '.join(unseen)} read more than an endpoint shows, which is how likely each token of a "
            "document is, and nothing of the rest of the vocabulary; loss, zlib, min-k and what is relative to other "
            "models can be had"
        )


def with_journal(target: Any, folder: Path) -> Any:
    """The target; if it is an endpoint, its answers are kept as they come, and an interrupted audit repeats none."""
    return (
        replace(target, journal=folder / ANSWERS_FILE)
        if isinstance(target, Endpoint) and not target.journal
        else target
    )


def open_references(given: AuditInputs, references: FineTune | None) -> Opened | None:
    """The references with their base in memory, where a recipe reads some."""
    return references.opened() if references is not None and required_references(given.recipes) else None


def compute_document_signals(case: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """Signals of every document under the target and under reference models.

    Raises:
        divulge.InputError: a document without a scored token, one the target could not take, a base that cuts
            documents into other tokens than the target.
    """
    view, target = case.views[0], case.target
    assert isinstance(target, GivesTokens)
    texts = list(view.x)
    named = [recipe for recipe in case.given.recipes if isinstance(recipe.signal, str)]
    vocabulary = any(recipe.signal not in _LIKELIHOOD_SIGNALS for recipe in named)
    stats = log.timed("target", partial(_query_tokens, target, texts, log, vocabulary=vocabulary))
    _check_all_scored(case, stats)
    log.token_fit = plausibility.measure_token_fit(case, stats)
    names = tuple(dict.fromkeys(recipe.signal_name for recipe in named))
    log.queries |= dict.fromkeys(names, len(people.split_documents(texts)[0]))
    logs = TokenLogs(stats.offsets, stats.logp)
    models = {
        kind: _reference_signals(case, log, kind, stats, texts) for kind in required_references(case.given.recipes)
    }
    if Need.REFERENCES_BASE in models:
        log.warnings += _base_warnings(models[Need.REFERENCES_BASE], case)
    return [
        Measurements(
            target={name: tokens.signal(name)(stats) for name in names} | measure_active_signals(case, log),
            layout=case.layout,
            labels=view.y,
            features=compute_features(case, log),
            models=models,
            tokens=logs,
        )
    ]


def _query_tokens(target: GivesTokens, records: list[str], log: AuditLog, *, vocabulary: bool) -> TokenStatistics:
    """Statistics of each record, whose documents are asked about one by one."""
    texts, counts = people.split_documents(records)
    stats = target.tokens(texts, vocabulary=vocabulary)
    log.warnings += _length_warnings(target, texts, stats)
    if len(texts) == len(records):
        return stats
    record = np.repeat(np.arange(len(records)), counts)
    return replace(
        stats,
        offsets=people.record_offsets(stats.offsets, counts),
        zlib_bytes=np.bincount(record, weights=stats.zlib_bytes).astype(np.int64),
        skipped={int(record[row]): why for row, why in stats.skipped.items()},
    )


def required_references(recipes: Sequence[Recipe]) -> list[Need]:
    """The kinds of reference models that recipes read."""
    every = (Need.REFERENCES_BASE, *reference_models.TRAINED_REFERENCES)
    return [kind for kind in every if any(kind in recipe.needs for recipe in recipes)]


def _reference_signals(
    case: PreparedAudit, log: AuditLog, kind: Need, stats: TokenStatistics, texts: list[str]
) -> Models:
    """What models of a kind say of every document."""
    if kind == Need.REFERENCES_BASE:
        own, lengths = log.timed("base", partial(case.references.asked, texts))
        _check_same_tokens(case, lengths, stats)
        logs, held = own[None], np.zeros((1, len(texts)), dtype=bool)
    else:
        logs, held = _fine_tune(case, log, kind, stats)
    reading = [recipe.signal_name for recipe in case.given.recipes if kind in recipe.needs]
    each = [TokenStatistics(stats.offsets, stats.zlib_bytes, logp=row.astype(np.float64)) for row in logs]
    signals = {name: np.stack([tokens.signal(name)(one) for one in each]) for name in dict.fromkeys(reading)}
    return Models(signals, held, np.minimum(logs, 0.0))


def _fine_tune(case: PreparedAudit, log: AuditLog, kind: Need, stats: TokenStatistics) -> tuple[Floats, Bools]:
    _check_same_tokens(case, case.references.cut(list(case.views[0].x)), stats)
    records, rows = reference_models.training_data(case, kind)
    parts = [each for each in required_references(case.given.recipes) if each != Need.REFERENCES_BASE]
    trained = log.timed(
        "reference models",
        lambda: case.references.fit(
            records,
            rows,
            seed=case.seed,
            observe=(case.views[0],),
            pool=case.pool,
            progress=reference_models.progress_of_part(case.progress, parts.index(kind), len(parts)),
        ),
    )
    log.engines.append(trained.engine)
    log.warnings += [f"{kind}: {note}" for note in trained.warnings]
    return trained.outputs[0], reference_models.trained_on_mask(case, kind, trained.trained_on)


def _check_all_scored(case: PreparedAudit, stats: TokenStatistics) -> None:
    if stats.skipped:
        row, why = next(iter(sorted(stats.skipped.items())))
        raise InputError(
            f"target: it could not take {len(stats.skipped)} documents (first: {_describe_document(case, row)}: "
            f"{why}); leave them out"
        )
    empty = np.flatnonzero(stats.lengths == 0)
    if empty.size:
        listed = ", ".join(_describe_document(case, int(row)) for row in empty[:_MAX_LISTED])
        raise InputError(
            f"records: {empty.size} documents have no token to score ({listed}): they are empty, or of one token "
            "without a BOS before it; leave them out"
        )


def _describe_document(case: PreparedAudit, row: int) -> str:
    """Which document that is, in the user's words."""
    layout, ids = case.layout, case.given.candidates.ids
    if row < layout.candidates and ids is not None:
        return f"candidate {ids[row]}"
    return "one of the population"


def _check_same_tokens(case: PreparedAudit, own: Sequence[int] | Ints, stats: TokenStatistics) -> None:
    """Token by token, only models with one tokenizer can be compared."""
    lengths = np.asarray(own)
    other = np.flatnonzero(lengths != stats.lengths)
    if other.size:
        row = int(other[0])
        raise InputError(
            f"references: the base cuts {other.size} documents into other tokens than the target (first: "
            f"{_describe_document(case, row)}, {lengths[row]} and {stats.lengths[row]} tokens); a base with the "
            "target's tokenizer, BOS and truncation is needed"
        )
    _check_same_boundaries(case)


def _check_same_boundaries(case: PreparedAudit) -> None:
    """Another tokenizer may cut a document into as many tokens, elsewhere."""
    if (other := case.references.elsewhere(case.target, list(case.views[0].x))) is not None:
        row, token = other
        raise InputError(
            f"references: the base cuts documents into as many tokens as the target, but elsewhere (first: "
            f"{_describe_document(case, row)}, token {token}); a base with the target's tokenizer is needed"
        )


def _length_warnings(target: GivesTokens, texts: Sequence[str], stats: TokenStatistics) -> list[str]:
    """What is done about documents longer than the target takes at once."""
    length = getattr(target, "length", None)
    if not length:
        return []
    if isinstance(target, Endpoint):
        longer = sum(len(text) > length for text in texts)
        said = f"{longer} documents have more than {length} characters: only their beginning was scored"
    elif getattr(target, "truncation", "") == "head":
        longer = int((stats.lengths >= length - 1).sum())
        said = f"{longer} documents fill the target's context of {length} tokens: only their beginning was scored"
    else:
        longer = int((stats.lengths >= length).sum())
        said = f"{longer} documents are longer than the target's context of {length} tokens: scored in windows"
    return [said] if longer else []


def _base_warnings(base: Models, case: PreparedAudit) -> list[str]:
    """A warning where the base finds the members likelier than the others, as one that has seen them would."""
    likelihood = next(iter(base.signals.values()))[0, case.layout.of_candidates]
    area = evaluation.measure(likelihood, case.given.truth, "auc")
    if area.low <= 0.5:
        return []
    return [
        f"the base model itself finds members likelier than non-members (AUC {area}): it may have been trained on "
        "them, and what is relative to it is then blind; or the sets differ in more than membership"
    ]
