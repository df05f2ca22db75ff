"""Audit a trained model, or a training function, with canaries: scores, the bound on ε, and the run directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import attacks, results, seeds
from divulge.attacks import Need
from divulge.auditing import audit as run_audit
from divulge.auditing.inputs import AuditData, align_data
from divulge.canaries import canary_page
from divulge.canaries.canary_records import Canaries, check_not_trained_on
from divulge.canaries.proof import Claim, Proof, check_both_sides, prove, prove_again
from divulge.errors import InputError, UserCodeError
from divulge.evaluation import proportion
from divulge.evidence import concatenate_records, target_signals
from divulge.provenance import collect_environment
from divulge.recipes import PartialSignal, PreparedSignal, Recipe, resolve
from divulge.report.run_kinds import RunKind
from divulge.results import CanarySummary, EpsilonLowerBound
from divulge.settings import CanaryAuditSettings
from divulge.signals import tokens
from divulge.signals.named import OutputSignal
from divulge.study import Study, StudyRun, StudyVerdict
from divulge.targets import GivesLabels, GivesLogits, GivesTokens, adapt
from divulge.targets.estimators import settle_frames
from divulge.types import Estimate, Evidence, Records
from divulge.validation import (
    check_instance,
    check_integer,
    check_mask,
    check_vector,
    format_exception,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from divulge.evaluation.epsilon import Sides
    from divulge.evaluation.families import Families
    from divulge.run_directory import RunDirectory, RunDraft
    from divulge.settings import Outputs
    from divulge.types import Bools, Floats

RUN_TYPE = "canary-audit"
_DEFAULTS = CanaryAuditSettings()
_FPR = 0.5  # The audit that scores canaries needs a rate; this one is defined for any number of canaries.
# Fields of a summary that are computed from scores; the others describe how the audit was made.
_COMPUTED = (
    *("verdict", "tone", "answer", "bound", "others", "most", "would_see", "guarantee"),
    *("canaries", "included", "mean_exposure", "largest_exposure"),
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CanaryAudit(Study):
    """Result of a canary audit: the scores of the canaries, and what they prove.

    Args:
        scores: ``[n]``, larger = more like an included one; over several runs, one run after the other.
        included: bool ``[n]``.
        proof: the bound on ε, and the answer to the claim.
        recipe: how the canaries were scored.
        kind: how the canaries were made, see `divulge.canaries.make`.
        trained_on: number of records of the training set without canaries.
        runs: number of models trained.
        accuracy: of a model trained with canaries and of one trained without; None where it was not measured.
        training_accuracy: of the model on the training set; None where that was not given.
        seed: of every random draw.
        warnings: what the user must know.
    """

    scores: Floats
    included: Bools
    proof: Proof
    recipe: str
    kind: str
    trained_on: int
    runs: int = 1
    accuracy: tuple[Estimate, Estimate] | None = None
    training_accuracy: Estimate | None = None
    seed: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> StudyVerdict:
        """The answer to the claim ("violated", "consistent", "not testable" or "no claim"), and it in sentences."""
        return StudyVerdict(self.proof.answer, self.proof.text, self.proof.tone)

    @property
    def epsilon(self) -> Estimate:
        """The bound on ε that is compared with the claim."""
        return self.proof.bound

    @property
    def exposures(self) -> Floats:
        """Exposure of each included canary in bits, ``[k]``: log2 |R| - log2 rank (Carlini et al. 2019, §4.2).

        R is the canary itself and all that were not included; ties take the worst rank.
        """
        excluded_scores = np.sort(self.scores[~self.included])
        above = len(excluded_scores) - np.searchsorted(excluded_scores, self.scores[self.included], side="left")
        return np.log2(len(excluded_scores) + 1) - np.log2(above + 1.0)

    def summary(self) -> CanarySummary:
        """Return the typed summary for JSON and the report."""
        proof, exposures = self.proof, self.exposures
        return CanarySummary(
            verdict=proof.text,
            tone=proof.tone,
            answer=proof.answer,
            claimed=None if proof.claim is None else proof.claim.epsilon,
            delta=None if proof.claim is None else proof.claim.delta,
            bound=_to_least_epsilon(proof.bound),
            others={name: _to_least_epsilon(bound) for name, bound in proof.others.items()},
            most=proof.most,
            would_see=proof.would_see,
            guarantee=str(proof.guarantee),
            canaries=len(self.scores),
            included=int(self.included.sum()),
            kind_of_canary=self.kind,
            recipe=self.recipe,
            trained_on=self.trained_on,
            runs=self.runs,
            accuracy=None if self.accuracy is None else _to_triple(self.accuracy[0]),
            accuracy_without=None if self.accuracy is None else _to_triple(self.accuracy[1]),
            training_accuracy=None if self.training_accuracy is None else _to_triple(self.training_accuracy),
            seed=self.seed,
            mean_exposure=float(exposures.mean()),
            largest_exposure=float(exposures.max()),
            warnings=self.warnings,
            environment=collect_environment(),
            settings=proof.settings,
        )

    def write(self, draft: RunDraft) -> None:
        """Write the scores."""
        draft.write_arrays("scores", {"scores": self.scores, "included": self.included})


def _to_least_epsilon(bound: Estimate) -> EpsilonLowerBound:
    return EpsilonLowerBound(bound.low, bound.confidence, bound.method)


def _to_triple(share: Estimate) -> tuple[float, float, float]:
    return share.value, share.low, share.high


def audit(
    target: Any,
    canaries: Canaries | str | Path,
    *,
    claim: Claim | None = None,
    recipe: Any = _DEFAULTS.recipe,
    population: Records | None = None,
    references: Any = None,
    training: Records | None = None,
    family: Families | str | None = None,
    sides: Sides | str = _DEFAULTS.sides,
    confidence: float = _DEFAULTS.confidence,
    outputs: Outputs = _DEFAULTS.outputs,
    device: str = _DEFAULTS.device,
    seed: int = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> CanaryAudit:
    """Score the canaries planted in a trained model, bound ε from them, and test a claim.

    Args:
        target: as for `divulge.audit`; for canaries that are documents a language model
            (`divulge.targets.CausalLM` or an endpoint).
        canaries: what `make` returned, or the folder it wrote.
        claim: the claim of differential privacy to test; None for the bound alone.
        recipe: how canaries are scored: any recipe of `divulge.audit`.
        population: other records, for recipes that learn from them, such as "quantile-trees".
        references: how reference models are trained, for recipes that need them.
        training: the training set, which is searched for canaries that were not to be included.
        family: what is assumed of the training: None (nothing), "gaussian", or
            `divulge.evaluation.SubsampledGaussian(rate, steps)`.
        sides: whether canaries are guessed to be in and out ("both") or in only ("in"), see `prove`.
        confidence: of the bound.
        outputs: as for `divulge.audit`.
        device: as for `divulge.audit`.
        seed: of every random draw.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.

    Raises:
        divulge.InputError: damaged canaries; canaries in the training set that were not to be included; a δ that is not
            below 1/n for n training records; a target or a recipe that does not fit the canaries.
    """
    CanaryAuditSettings.check(sides=sides, confidence=confidence, outputs=outputs, device=device, seed=seed)
    planted = canaries if isinstance(canaries, Canaries) else Canaries.load(canaries)
    if claim is not None:
        check_delta(check_instance(claim, "claim", Claim), planted.trained_on + int(planted.included.sum()))
    if training is not None:
        check_not_trained_on(planted, check_instance(training, "training", Records))
    check_both_sides(planted.included, "canaries")
    scores, name, notes = score_canaries(target, planted, recipe, population, references, outputs, device, seed)
    proof = prove(
        scores,
        planted.included,
        claim=claim,
        design=planted.design,
        family=family,
        sides=sides,
        confidence=confidence,
        seed=seed,
    )
    result = CanaryAudit(
        scores,
        planted.included,
        proof,
        name,
        planted.kind,
        planted.trained_on,
        training_accuracy=_training_accuracy(target, training, outputs),
        seed=seed,
        warnings=notes,
    )
    if out is not None:
        result.save(out, overwrite=overwrite)
    return result


def play(
    train: Callable[[Records, int], Any],
    canaries: Canaries,
    data: Records,
    *,
    claim: Claim | None = None,
    runs: int = 1,
    holdout: Records | None = None,
    recipe: Any = _DEFAULTS.recipe,
    population: Records | None = None,
    family: Families | str | None = None,
    sides: Sides | str = _DEFAULTS.sides,
    confidence: float = _DEFAULTS.confidence,
    outputs: Outputs = _DEFAULTS.outputs,
    device: str = _DEFAULTS.device,
    seed: int = _DEFAULTS.seed,
) -> CanaryAudit:
    """Train with canaries included by random coins, score all canaries, and bound ε.

    Args:
        train: ``train(records, seed) -> target``, the training that is claimed to be private.
        canaries: what `make` returned; every run draws new coins.
        data: the training set without canaries.
        claim: as for `audit`.
        runs: number of models to train; as each has its own coins, the canaries of all runs are pooled.
        holdout: records to measure accuracy on, with canaries and, by one more training, without.
        recipe: as for `audit`.
        population: as for `audit`.
        family: as for `audit`.
        sides: as for `audit`.
        confidence: as for `audit`.
        outputs: as for `audit`.
        device: as for `audit`.
        seed: of every random draw, coins included.

    Raises:
        divulge.InputError: as for `audit`; canaries that are among ``data``.
        divulge.errors.UserCodeError: the training raised an error.
    """
    require_callable(train, "train")
    check_instance(canaries, "canaries", Canaries)
    check_not_trained_on(
        replace(canaries, included=np.zeros(len(canaries), bool)), check_instance(data, "data", Records)
    )
    n_runs = check_integer(runs, "runs", minimum=1)
    if canaries.design == "fixed" and n_runs > 1:
        raise InputError(f"runs: a fixed number of canaries is for 1 run, got {n_runs}; coins add up over runs")
    start = CanaryAuditSettings.check(
        sides=sides, confidence=confidence, outputs=outputs, device=device, seed=seed
    ).seed
    games, targets = [], []
    for i in range(n_runs):
        planted = canaries.redrawn(seeds.derive_seed(start, "canaries", "run", i))
        training = concatenate_records([data, planted.insert]) if planted.included.any() else data
        targets.append(_train(train, training, seeds.derive_seed(start, "training", i)))
        games.append((planted, score_canaries(targets[-1], planted, recipe, population, None, outputs, device, start)))
    scores = np.concatenate([scored[0] for _, scored in games])
    included = np.concatenate([planted.included for planted, _ in games])
    if claim is not None:
        check_delta(check_instance(claim, "claim", Claim), len(data) + int(games[0][0].included.sum()))
    proof = prove(
        scores,
        included,
        claim=claim,
        design=canaries.design,
        family=family,
        sides=sides,
        confidence=confidence,
        seed=start,
    )
    accuracy = None
    if holdout is not None:
        without_canaries = _train(train, data, seeds.derive_seed(start, "training", 0))
        accuracy = (_accuracy(targets[0], holdout, outputs), _accuracy(without_canaries, holdout, outputs))
    notes = tuple(dict.fromkeys(note for _, scored in games for note in scored[2]))
    return CanaryAudit(
        scores, included, proof, games[0][1][1], canaries.kind, len(data), n_runs, accuracy, seed=start, warnings=notes
    )


def _train(train: Callable[[Records, int], Any], records: Records, seed: int) -> Any:
    try:
        return train(records.copy(), seed)
    except InputError:
        raise
    except Exception as error:
        raise UserCodeError(f"train: it raised {type(error).__name__}: {format_exception(error)}") from error


def _accuracy(target: Any, holdout: Records, outputs: Outputs) -> Estimate:
    adapted = adapt(target, outputs=outputs)
    if not isinstance(adapted, GivesLabels) or holdout.labels is None:
        raise InputError("holdout: accuracy needs a target that gives labels, and records that have them")
    records, adapted = _align(holdout, adapted)
    return proportion(int((adapted.labels(records) == records.labels).sum()), len(records))


def _align(records: Records, target: Any) -> tuple[Records, Any]:
    """Bring columns and classes into the order that a target knows; return it as one that is given data frames."""
    target = settle_frames(target, records)
    aligned = align_data(AuditData(members=records, nonmembers=records[:1], population=records[:1]), target, "error")
    return check_instance(aligned.subject.members, "canaries", Records), aligned.target


def _training_accuracy(target: Any, records: Records | None, outputs: Outputs) -> Estimate | None:
    """Return the accuracy on records with labels, of a target that gives some; None otherwise."""
    if records is None or records.labels is None or not isinstance(adapt(target, outputs=outputs), GivesLabels):
        return None
    return _accuracy(target, records, outputs)


def check_delta(claim: Claim, records: int) -> None:
    """Raise for a δ so large that the claim allows publishing whole records."""
    if claim.delta * records >= 1:
        raise InputError(
            f"claim.delta: must be below 1/{records} (one over the records trained on), got {claim.delta:g}; "
            "such a δ allows whole records to be published"
        )


def score_canaries(
    target: Any,
    canaries: Canaries,
    recipe: Any,
    population: Records | None,
    references: Any,
    outputs: Outputs,
    device: str,
    seed: int,
) -> tuple[Floats, str, tuple[str, ...]]:
    """Return scores in the order of the canaries, the name of the recipe, and warnings.

    Args:
        target: as for `divulge.canaries.audit`, like all further arguments.
        canaries: to be scored.
        recipe: of the scores.
        population: other records.
        references: how reference models are trained.
        outputs: logits or probabilities.
        device: of the target.
        seed: of every random draw.

    Raises:
        divulge.InputError: a recipe that does not suit the target, or needs records that are missing.
    """
    if isinstance(target, GivesTokens):
        if recipe != "loss":
            raise InputError(f"recipe: documents are scored by 'loss', got {format_value(recipe)}")
        scores = tokens.log_likelihood(target.tokens([str(text) for text in canaries.records.x]))
        if np.isnan(scores).any():
            raise InputError(f"canaries: {np.isnan(scores).sum()} documents have no token that could be scored")
        return scores, "loss", ()
    if population is None:
        return _score_by_outputs(adapt(target, outputs=outputs, device=device), canaries, resolve(recipe))
    included = canaries.included
    result = run_audit(
        target,
        members=canaries.records[included],
        nonmembers=canaries.records[~included],
        population=population,
        recipes=[recipe],
        references=references,
        fpr=[_FPR],
        outputs=outputs,
        device=device,
        seed=seed,
    )
    name = next(iter(result.scores))
    scores = np.empty(len(included))
    scores[included], scores[~included] = result.scores[name][result.members], result.scores[name][~result.members]
    return scores, name, tuple(result.about.warnings)


def _score_by_outputs(target: GivesLogits, canaries: Canaries, recipe: Recipe) -> tuple[Floats, str, tuple[str, ...]]:
    """Score by a recipe that needs nothing but the target's outputs on the canaries."""
    records, target = _align(canaries.records, target)
    signal = recipe.signal
    learns = recipe.needs_training or recipe.needs_known or recipe.needs - {Need.LABELS}
    if learns or isinstance(signal, PartialSignal | PreparedSignal):
        raise InputError(f"population: {recipe.name!r} learns from other records, and none are given")
    if isinstance(signal, str | OutputSignal):
        values = target_signals(target, records, (signal,))[:, 0]
    else:
        values = signal.measure(target, records)
    scored = attacks.adapt(recipe.attack).run(Evidence(target=values, labels=records.labels))
    return np.asarray(scored.scores, np.float64), recipe.name, tuple(scored.notes)


def _read_run(directory: RunDirectory) -> StudyRun[CanaryAudit]:
    """Read scores and summary, with everything that scores decide computed from them again."""
    folder = directory.path
    arrays, stored = directory.read_arrays("scores"), results.read_summary(folder, CanarySummary)
    if missing := {"scores", "included"} - set(arrays):
        raise InputError(f"{folder / 'scores.npz'}: damaged, lacks {', '.join(sorted(missing))}")
    try:
        scores = check_vector(arrays["scores"], "scores")
        included = check_mask(arrays["included"], "included", (len(scores),))
        proof = prove_again(scores, included, stored)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    audit = CanaryAudit(scores, included, proof, stored.recipe, stored.kind_of_canary, stored.trained_on)
    computed = audit.summary()
    return StudyRun(replace(stored, **{name: getattr(computed, name) for name in _COMPUTED}), audit)


def _load_canaries(folder: Path) -> pl.DataFrame:
    """Return one row per canary, of each run in turn: whether its coin included it, and its score."""
    audit = CANARY_AUDIT.load(folder).result
    return pl.DataFrame({"canary": np.arange(len(audit.scores)), "included": audit.included, "score": audit.scores})


CANARY_AUDIT = RunKind(
    name=RUN_TYPE,
    title="A claim of differential privacy",
    summary_type=CanarySummary,
    sections=canary_page.sections,
    headline=canary_page.headline,
    facts=lambda run: canary_page.facts(run.summary),
    warnings=lambda run: run.summary.warnings,
    read=_read_run,
    records=_load_canaries,
)
CanaryAudit.run_kind = CANARY_AUDIT
