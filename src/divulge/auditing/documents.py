"""Signals of documents under a language model and its reference models."""

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
    from divulge.references.fine_tuning import LoadedFineTune
    from divulge.types import Bools, Floats, Ints

# Signals that need no more of the target than how likely it finds the tokens that stand there.
_LIKELIHOOD_SIGNALS = frozenset({"log_likelihood", "zlib", "min_k", *tokens.RESCALED})
_MAX_LISTED = 3  # rows that a message names
ANSWERS_FILE = "answers.jsonl"  # of an endpoint, while an audit runs


def is_language_model(target: Any) -> bool:
    """Check whether a target is a language model, queried for tokens rather than for classes."""
    return isinstance(target, GivesTokens) and not isinstance(target, GivesLogits)


def check_endpoint_recipes(recipes: Sequence[Recipe]) -> None:
    """Check that an endpoint returns everything that the recipes read."""
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
    """Let an endpoint record its answers in ``folder``, so that an interrupted audit repeats no query."""
    return (
        replace(target, journal=folder / ANSWERS_FILE)
        if isinstance(target, Endpoint) and not target.journal
        else target
    )


def open_references(inputs: AuditInputs, references: FineTune | None) -> LoadedFineTune | None:
    """Load the base of the references into memory, if a recipe reads reference models."""
    return references.opened() if references is not None and required_references(inputs.recipes) else None


def compute_document_signals(audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """Compute the signals of every document under the target and under reference models.

    Raises:
        divulge.InputError: a document without a scored token, one the target could not take, a base that cuts
            documents into other tokens than the target.
    """
    view, target = audit.views[0], audit.target
    assert isinstance(target, GivesTokens)
    texts = list(view.x)
    signal_recipes = [recipe for recipe in audit.inputs.recipes if isinstance(recipe.signal, str)]
    vocabulary = any(recipe.signal not in _LIKELIHOOD_SIGNALS for recipe in signal_recipes)
    stats = log.run_timed("target", partial(_query_tokens, target, texts, log, vocabulary=vocabulary))
    _check_all_scored(audit, stats)
    log.token_fit = plausibility.measure_token_fit(audit, stats)
    names = tuple(dict.fromkeys(recipe.signal_name for recipe in signal_recipes))
    log.queries |= dict.fromkeys(names, len(people.split_documents(texts)[0]))
    logs = TokenLogs(stats.offsets, stats.logp)
    models = {
        need: _reference_signals(audit, log, need, stats, texts) for need in required_references(audit.inputs.recipes)
    }
    if Need.REFERENCES_BASE in models:
        log.warnings += _base_warnings(models[Need.REFERENCES_BASE], audit)
    return [
        Measurements(
            target={name: tokens.get_signal(name)(stats) for name in names} | measure_active_signals(audit, log),
            layout=audit.layout,
            labels=view.y,
            features=compute_features(audit, log),
            models=models,
            tokens=logs,
        )
    ]


def _query_tokens(target: GivesTokens, records: list[str], log: AuditLog, *, vocabulary: bool) -> TokenStatistics:
    """Return token statistics of each record; documents of a record are queried one by one."""
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
        skipped={int(record[row]): reason for row, reason in stats.skipped.items()},
    )


def required_references(recipes: Sequence[Recipe]) -> list[Need]:
    """Return the kinds of reference models that the recipes read."""
    all_needs = (Need.REFERENCES_BASE, *reference_models.TRAINED_REFERENCES)
    return [need for need in all_needs if any(need in recipe.needs for recipe in recipes)]


def _reference_signals(
    audit: PreparedAudit, log: AuditLog, need: Need, stats: TokenStatistics, texts: list[str]
) -> Models:
    """Compute the signals of every document under reference models of one kind."""
    if need == Need.REFERENCES_BASE:
        base_log_probabilities, lengths = log.run_timed("base", partial(audit.references.asked, texts))
        _check_same_tokens(audit, lengths, stats)
        log_probabilities, trained_on = base_log_probabilities[None], np.zeros((1, len(texts)), dtype=bool)
    else:
        log_probabilities, trained_on = _fine_tune(audit, log, need, stats)
    signal_names = [recipe.signal_name for recipe in audit.inputs.recipes if need in recipe.needs]
    statistics = [
        TokenStatistics(stats.offsets, stats.zlib_bytes, logp=row.astype(np.float64)) for row in log_probabilities
    ]
    signals = {
        name: np.stack([tokens.get_signal(name)(model_statistics) for model_statistics in statistics])
        for name in dict.fromkeys(signal_names)
    }
    return Models(signals, trained_on, np.minimum(log_probabilities, 0.0))


def _fine_tune(audit: PreparedAudit, log: AuditLog, need: Need, stats: TokenStatistics) -> tuple[Floats, Bools]:
    _check_same_tokens(audit, audit.references.cut(list(audit.views[0].x)), stats)
    records, rows = reference_models.training_data(audit, need)
    needs = [
        other_need for other_need in required_references(audit.inputs.recipes) if other_need != Need.REFERENCES_BASE
    ]
    trained = log.run_timed(
        "reference models",
        lambda: audit.references.fit(
            records,
            rows,
            seed=audit.seed,
            observe=(audit.views[0],),
            pool=audit.pool,
            progress=reference_models.progress_of_part(audit.progress, needs.index(need), len(needs)),
        ),
    )
    log.engines.append(trained.engine)
    log.warnings += [f"{need}: {note}" for note in trained.warnings]
    return trained.outputs[0], reference_models.trained_on_mask(audit, need, trained.trained_on)


def _check_all_scored(audit: PreparedAudit, stats: TokenStatistics) -> None:
    if stats.skipped:
        row, reason = next(iter(sorted(stats.skipped.items())))
        raise InputError(
            f"target: it could not take {len(stats.skipped)} documents (first: {_describe_document(audit, row)}: "
            f"{reason}); leave them out"
        )
    empty_rows = np.flatnonzero(stats.lengths == 0)
    if empty_rows.size:
        listed = ", ".join(_describe_document(audit, int(row)) for row in empty_rows[:_MAX_LISTED])
        raise InputError(
            f"records: {empty_rows.size} documents have no token to score ({listed}): they are empty, or of one token "
            "without a BOS before it; leave them out"
        )


def _describe_document(audit: PreparedAudit, row: int) -> str:
    """Name a document by its id, or as one of the population."""
    layout, ids = audit.layout, audit.inputs.candidates.ids
    if row < layout.candidates and ids is not None:
        return f"candidate {ids[row]}"
    return "one of the population"


def _check_same_tokens(audit: PreparedAudit, base_lengths: Sequence[int] | Ints, stats: TokenStatistics) -> None:
    """Check that base and target tokenize every document alike, as tokens are compared one by one."""
    lengths = np.asarray(base_lengths)
    different_rows = np.flatnonzero(lengths != stats.lengths)
    if different_rows.size:
        row = int(different_rows[0])
        raise InputError(
            f"references: the base cuts {different_rows.size} documents into other tokens than the target (first: "
            f"{_describe_document(audit, row)}, {lengths[row]} and {stats.lengths[row]} tokens); a base with the "
            "target's tokenizer, BOS and truncation is needed"
        )
    _check_same_boundaries(audit)


def _check_same_boundaries(audit: PreparedAudit) -> None:
    """Check that equally many tokens also have the same boundaries."""
    if (difference := audit.references.elsewhere(audit.target, list(audit.views[0].x))) is not None:
        row, token = difference
        raise InputError(
            f"references: the base cuts documents into as many tokens as the target, but elsewhere (first: "
            f"{_describe_document(audit, row)}, token {token}); a base with the target's tokenizer is needed"
        )


def _length_warnings(target: GivesTokens, texts: Sequence[str], stats: TokenStatistics) -> list[str]:
    """Return a warning about documents longer than the target's context."""
    length = getattr(target, "length", None)
    if not length:
        return []
    if isinstance(target, Endpoint):
        n_long = sum(len(text) > length for text in texts)
        message = f"{n_long} documents have more than {length} characters: only their beginning was scored"
    elif getattr(target, "truncation", "") == "head":
        n_long = int((stats.lengths >= length - 1).sum())
        message = f"{n_long} documents fill the target's context of {length} tokens: only their beginning was scored"
    else:
        n_long = int((stats.lengths >= length).sum())
        message = f"{n_long} documents are longer than the target's context of {length} tokens: scored in windows"
    return [message] if n_long else []


def _base_warnings(base: Models, audit: PreparedAudit) -> list[str]:
    """Return a warning if the base finds members likelier than non-members, as if trained on them."""
    likelihood = next(iter(base.signals.values()))[0, audit.layout.candidate_rows]
    area = evaluation.measure(likelihood, audit.inputs.truth, "auc")
    if area.low <= 0.5:
        return []
    return [
        f"the base model itself finds members likelier than non-members (AUC {area}): it may have been trained on "
        "them, and what is relative to it is then blind; or the sets differ in more than membership"
    ]
