"""Language models in an audit: documents, fine-tuned reference models, signals of token probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import chats, evaluation, people
from divulge import recipes as book
from divulge.attacks import Need
from divulge.auditing import plausibility, signals
from divulge.auditing.modality import Modality
from divulge.errors import InputError
from divulge.evidence import Measurements, Models
from divulge.references import FineTune
from divulge.report import formatting
from divulge.signals import ReCaLL, tokens
from divulge.targets import Endpoint, TokenStatistics
from divulge.targets.token_statistics import ReadsAnswers
from divulge.types import Records, TokenLogs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from divulge.auditing.prepared import AuditInputs, AuditLog, PreparedAudit
    from divulge.recipes import Recipe
    from divulge.references.fine_tuning import LoadedFineTune
    from divulge.targets import GivesTokens
    from divulge.types import AuditData, Floats, Ints

# Signals that need no more of the target than how likely it finds the tokens that stand there.
_LIKELIHOOD_SIGNALS = frozenset({"log_likelihood", "zlib", "min_k", *tokens.RESCALED, *tokens.OF_ENDS})
_MAX_LISTED = 3  # rows that a message names
_MAX_COUNTED = 200  # records whose scored tokens are counted to choose an attack
_FEW_TOKENS = 50  # of which min-k++ averages ten
_CHARACTERS_PER_TOKEN = 4  # in most languages and tokenizers
_BYTES_PER_TOKEN = 7 * 8  # of the target
_BYTES_PER_REFERENCE_TOKEN = 4
_CUT_ENDS = "and what reads the last tokens reads where they were cut off, not their end"
ANSWERS_FILE = "answers.jsonl"  # of an endpoint, while an audit runs


@dataclass(frozen=True, slots=True)
class LanguageModel(Modality):
    """Models that give the probability of every token of a document."""

    name: str = "a language model"
    outputs: tuple[str, ...] = ("tokens",)
    labels: Literal["classes", "real values"] = "classes"

    @property
    def references(self) -> str:
        """Code that trains suitable reference models, for messages."""
        return "FineTune(base, count=4, epochs=…)"

    def known_recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes for documents."""
        return book.document_recipes()

    def resolve_recipe(self, requested: object) -> Recipe:
        """Return the recipe for documents that ``requested`` means."""
        return book.resolve(requested, documents=True)

    def default_recipes(self, target: Any, references: Any) -> tuple[str, ...]:
        """Return "auto", the loss to compare with, and the ends of documents beside whatever other models there are.

        The ends stand alone: a model that was fine-tuned on answers shows nothing elsewhere, and one that was
        fine-tuned on all tokens shows little there, so a mean would hide either.
        """
        suffix = "" if references is None else "-out" if references.count else "-base"
        return ("auto", "loss", f"last-tokens{suffix}", f"last-quarter{suffix}")

    def auto_recipe(self, target: Any, references: Any, records: Any = None) -> Recipe:
        """Return the attacks that do best with fine-tunes, with the base alone, or with neither."""
        return book.Auto().recipe_in(
            documents=True,
            has_references=references is not None and references.count > 0,
            has_base=references is not None,
            has_vocabulary=not isinstance(target, Endpoint),
            short_answers=_has_short_answers(target, records),
        )

    def check_target(self, target: Any, recipes: Sequence[Recipe]) -> None:
        """Check that an endpoint, if the target is one, returns everything that the recipes read."""
        if not isinstance(target, Endpoint):
            return
        unseen = [
            r.name
            for r in recipes
            if r.reads_vocabulary
            or ((r.output == "tokens" or isinstance(r.signal, ReCaLL)) and r.signal_name not in _LIKELIHOOD_SIGNALS)
        ]
        if unseen:
            raise InputError(
                f"recipes: {', '.join(unseen)} read more than an endpoint shows, which is how likely each token of a "
                "document is, and nothing of the rest of the vocabulary; loss, zlib, min-k and what is relative to "
                "other models can be had"
            )

    def check_references(self, references: Any, recipes: Sequence[Recipe], members: Records) -> None:
        """Check that references are fine-tunes of a language model."""
        if not isinstance(references, FineTune):
            raise InputError(
                "references: the target is a language model: divulge.references.FineTune is needed, got "
                f"{type(references).__name__}"
            )

    def prepare_data(self, data: AuditData) -> AuditData:
        """Return the data as they are: labels of documents are not read."""
        return data

    def check_records(self, sets: Mapping[str, Records]) -> None:
        """Check that the records are non-empty documents.

        Raises:
            divulge.InputError: numbers in place of texts; a text without a visible character.
        """
        for name, records in sets.items():
            if records.x.dtype != object:
                columns = [] if records.encoder is None else records.encoder.columns
                text_columns = [column.name for column in columns if column.measure in ("text", "category")]
                hint = (
                    f"; name the column of the documents as data.text (it may be {text_columns[0]!r})"
                    if text_columns
                    else ""
                )
                raise InputError(
                    f"{name}: the target is a language model, so documents (strings) are needed, got "
                    f"{records.x.dtype}{hint}"
                )
            empty_rows = [row for row, text in enumerate(records.x) if not text.strip()]
            if empty_rows:
                raise InputError(
                    f"{name}: empty documents: {len(empty_rows)} (first: row {empty_rows[0]}, counted from 0); "
                    "leave them out"
                )

    def probe_target(self, target: Any, inputs: AuditInputs) -> int:
        """Return 0: tokens have no classes, and documents may be costly to ask about."""
        return 0

    def open_references(self, references: FineTune | None, recipes: Sequence[Recipe]) -> LoadedFineTune | None:
        """Load the base of the references into memory, if a recipe reads reference models."""
        if references is None or not required_references(recipes):
            return None
        loaded = references.load_base()
        if references.count and any(need != Need.REFERENCES_BASE for need in required_references(recipes)):
            loaded.check_memory()
        return loaded

    def query(self, target: Any, records: Records) -> None:
        """Ask the target for the tokens of the documents once."""
        target.tokens(list(records.x))

    def count_reference_answers(self, audit: PreparedAudit, n_models: int) -> int:
        """Return the documents that reference models, and the base, are asked about."""
        n_bases = any(Need.REFERENCES_BASE in recipe.needs for recipe in audit.inputs.recipes)
        return (n_models + n_bases) * len(audit.views[0])

    def relative_size(self, records: Records, sample: Records) -> float:
        """Return by how much documents are longer than those of ``sample``."""
        return float(np.mean([len(text) for text in records.x]) / np.mean([len(text) for text in sample.x]))

    def matched_answer(self, target: Any) -> str:
        """Return what is compared: log-likelihoods."""
        return "log-likelihoods per token"

    def measure_answers(self, target: Any, records: Records) -> Floats:
        """Return the mean log-probability of the tokens of each record, ``[n]``."""
        texts, counts = people.split_documents(list(records.x))
        statistics = target.tokens(texts, vocabulary=False)
        return mean_of_tokens(statistics.logp, people.record_offsets(statistics.offsets, counts))

    def estimate_memory(self, audit: PreparedAudit, n_models: int) -> int:
        """Estimate the bytes of the token statistics."""
        characters = sum(map(len, audit.views[0].x))
        return characters // _CHARACTERS_PER_TOKEN * (_BYTES_PER_TOKEN + n_models * _BYTES_PER_REFERENCE_TOKEN)

    def compute_signals(self, audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
        """Compute the signals of every document under the target and under reference models."""
        return compute_document_signals(audit, log)


def _has_short_answers(target: Any, records: Any) -> bool:
    """Return whether answers alone are scored, and half of the first records have few tokens of them."""
    if not isinstance(target, ReadsAnswers) or not isinstance(records, Records) or records.x.dtype != object:
        return False
    texts = [str(text) for text in records.x[:_MAX_COUNTED]]
    if not chats.scores_answers_alone(texts):
        return False
    counts = [
        sum(document.n_scored for document in target.encode_documents(people.split_record(text))) for text in texts
    ]
    return float(np.median(counts)) < _FEW_TOKENS


def mean_of_tokens(values: Floats, offsets: Ints) -> Floats:
    """Return the mean over the tokens of each record, ``[n]``; 0 where there are none.

    Examples:
        >>> mean_of_tokens(np.array([-1.0, -3.0, -5.0]), np.array([0, 2, 3]))
        array([-2., -5.])
    """
    sums = np.append(0.0, np.cumsum(values, dtype=np.float64))
    return (sums[offsets[1:]] - sums[offsets[:-1]]) / np.maximum(np.diff(offsets), 1)


def with_journal(target: Any, folder: Path) -> Any:
    """Let an endpoint record its answers in ``folder``, so that an interrupted audit repeats no query."""
    return (
        replace(target, journal=folder / ANSWERS_FILE)
        if isinstance(target, Endpoint) and not target.journal
        else target
    )


def compute_document_signals(audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """Compute the signals of every document under the target and under reference models.

    Raises:
        divulge.InputError: a document without a scored token, one the target could not take, a base that cuts
            documents into other tokens than the target.
    """
    view, target = audit.views[0], audit.target
    texts = list(view.x)
    required = signals.output_signals(audit.inputs.recipes)
    reads_vocabulary = any(recipe.reads_vocabulary for recipe in audit.inputs.recipes)
    vocabulary = reads_vocabulary or not _LIKELIHOOD_SIGNALS.issuperset(required)
    stats = log.run_timed("target", partial(_query_tokens, target, texts, log, vocabulary=vocabulary))
    _check_all_scored(audit, stats)
    log.fit = plausibility.measure_token_fit(audit, stats)
    log.queries |= dict.fromkeys(required, len(people.split_documents(texts)[0]))
    # The likeliest token's log-probability is computed as its own is: where it stands there, both are equal.
    wrong = None if stats.renyi_inf is None else stats.logp < -stats.renyi_inf
    logs = TokenLogs(stats.offsets, stats.logp, wrong=wrong)
    models = {
        need: _reference_signals(audit, log, need, stats, texts) for need in required_references(audit.inputs.recipes)
    }
    if (base := models.get(Need.REFERENCES_BASE)) is not None:
        likelihood = next(iter(base.signals.values()))[0, audit.layout.candidate_rows]
        area = evaluation.measure(likelihood, audit.inputs.truth, "auc")
        if area.low > 0.5:
            log.warnings.append(
                f"the base model itself finds members likelier than non-members (AUC {area}): it may have been trained "
                "on them, and what is relative to it is then blind; or the sets differ in more than membership"
            )
    return [
        Measurements(
            target={name: signal.compute(stats, view.y) for name, signal in required.items()}
            | signals.measure_active_signals(audit, log),
            layout=audit.layout,
            labels=view.labels,
            features=signals.compute_features(audit, log),
            records=signals.records_to_read(audit),
            models=models,
            tokens=logs,
        )
    ]


def _query_tokens(target: GivesTokens, records: list[str], log: AuditLog, *, vocabulary: bool) -> TokenStatistics:
    """Return token statistics of each record; documents of a record are queried one by one."""
    texts, counts = people.split_documents(records)
    if not isinstance(target, ReadsAnswers | Endpoint):
        texts = chats.to_plain_texts(texts, type(target).__name__)
    stats = target.tokens(texts, vocabulary=vocabulary)
    log.warnings += [*_length_warnings(target, texts, stats), *_template_warnings(target, texts)]
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
    all_needs = (Need.REFERENCES_BASE, *signals.TRAINED_REFERENCES)
    return [need for need in all_needs if any(need in recipe.needs for recipe in recipes)]


def _reference_signals(
    audit: PreparedAudit, log: AuditLog, need: Need, stats: TokenStatistics, texts: list[str]
) -> Models:
    """Compute the signals of every document under reference models of one kind."""
    if need == Need.REFERENCES_BASE:
        base_log_probabilities, lengths = log.run_timed("base", partial(audit.references.base_log_probabilities, texts))
        _check_same_tokens(audit, lengths, stats)
        log_probabilities, trained_on = base_log_probabilities[None], np.zeros((1, len(texts)), dtype=bool)
    else:
        _check_same_tokens(audit, audit.references.count_tokens(texts), stats)
        if chats.has_answers(texts) and (n_unlearned := audit.references.count_unlearned(texts)):
            log.warnings.append(
                f"the answers of {formatting.format_count(n_unlearned, 'document')} lie wholly beyond the "
                f"{audit.references.max_tokens} tokens that reference models are trained on: none of them learns these"
            )
        records, rows = signals.training_data(audit, need)
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
                progress=signals.progress_of_part(audit.progress, needs.index(need), len(needs)),
            ),
        )
        log.engines.append(trained.engine)
        log.warnings += [f"{need}: {note}" for note in trained.warnings]
        log_probabilities, trained_on = trained.outputs[0], signals.trained_on_mask(audit, need, trained.trained_on)
    statistics = [
        TokenStatistics(stats.offsets, stats.zlib_bytes, logp=row.astype(np.float64)) for row in log_probabilities
    ]
    readers = [recipe for recipe in audit.inputs.recipes if need in recipe.needs]
    values = {
        signal.name: np.stack([signal.compute(model_statistics, None) for model_statistics in statistics])
        for signal in signals.signals_read(audit, readers)
    }
    return Models(values, trained_on, np.minimum(log_probabilities, 0.0))


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
        if chats.has_answers([str(audit.views[0].x[row]) for row in empty_rows]):
            raise InputError(
                f"records: {empty_rows.size} documents have no token of an answer to score ({listed}): their answers "
                f"are empty, or lie wholly beyond the {getattr(audit.target, 'length', None)} tokens that the target "
                "is given; leave them out, or give the target more tokens"
            )
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
    # Equally many tokens may still have other boundaries.
    if (difference := audit.references.find_token_mismatch(audit.target, list(audit.views[0].x))) is not None:
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
    if isinstance(target, ReadsAnswers) and chats.has_answers(texts):
        return _answer_warnings(target, texts, length)
    if isinstance(target, Endpoint):
        n_long = sum(len(chats.show_text(text)) > length for text in texts)
        message = f"{n_long} documents have more than {length} characters: only their beginning was scored, {_CUT_ENDS}"
    elif getattr(target, "truncation", "") == "head":
        n_long = int((stats.lengths >= length - 1).sum())
        message = (
            f"{n_long} documents fill the target's context of {length} tokens: only their beginning was scored, "
            f"{_CUT_ENDS}"
        )
    else:
        n_long = int((stats.lengths >= length).sum())
        message = f"{n_long} documents are longer than the target's context of {length} tokens: scored in windows"
    return [message] if n_long else []


def _template_warnings(target: GivesTokens, texts: Sequence[str]) -> list[str]:
    """Return a warning about documents that are no chats, of a model that may have been tuned on chats."""
    if not getattr(getattr(target, "tokenizer", None), "chat_template", None):
        return []
    dialogue = chats.parse_dialogue(texts[0])
    if dialogue is not None and any(turn.role for turn in dialogue.turns):
        return []
    return [
        "the tokenizer has a chat template, and these documents are no chats: a model tuned on chats shows less of a "
        "leak by them; name the column of messages (data.messages)"
    ]


def _answer_warnings(target: ReadsAnswers, texts: Sequence[str], length: int) -> list[str]:
    """Return a warning about answers that a model whose training cut documents at its context never saw."""
    documents = target.encode_documents(texts)
    n_long = sum(document.n_scored > document.head(length).n_scored for document in documents)
    n_beyond = sum(document.n_scored > 0 and not document.head(length).n_scored for document in documents)
    return (
        [
            f"answers of {formatting.format_count(n_long, 'document')} go beyond the target's context of {length} "
            f"tokens, and those of {n_beyond} begin there: a training that cuts documents off has not seen that part, "
            "and nothing is found of it"
        ]
        if n_long
        else []
    )
