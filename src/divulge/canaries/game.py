"""The game: canaries against a trained model, or against a training function that we may call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import seeds, store
from divulge.canaries import canary_page
from divulge.canaries.claim import Claim
from divulge.canaries.planted import Canaries, refuse_known
from divulge.canaries.proof import Proof, prove, refuse_one_sided
from divulge.canaries.scoring import scored
from divulge.errors import InputError, UserCodeError
from divulge.evaluation import proportion
from divulge.evidence import concatenate_records
from divulge.report import html, origin
from divulge.results import CanarySummary, LeastEpsilon, environment, provenance, write
from divulge.run_directory import RunDirectory
from divulge.targets import GivesLabels, adapt
from divulge.types import Estimate, Records
from divulge.validation import check_instance, check_integer, check_path, format_exception, require_callable

if TYPE_CHECKING:
    from divulge.evaluation.families import Families
    from divulge.evaluation.guess_bounds import Sides
    from divulge.report import Page
    from divulge.request import Outputs
    from divulge.types import Bools, Floats

KIND = "canary-audit"


@dataclass(frozen=True, slots=True, eq=False)
class CanaryAudit:
    """What canaries gave away.

    Args:
        scores: ``[n]``, larger = more like an included one; over several runs, one run after the other.
        included: bool ``[n]``.
        proof: what is proven, and of what.
        recipe: how the canaries were scored.
        kind: what they are made of.
        trained_on: number of records of the training set without them.
        runs: number of models trained.
        accuracy: of the model with canaries, and of one without, where that was measured.
        training_accuracy: of the model on the training set, where that was given.
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
    def epsilon(self) -> Estimate:
        """The bound on ε that decides."""
        return self.proof.bound

    @property
    def exposures(self) -> Floats:
        """Exposure of each included canary in bits, ``[k]``: log2 |R| - log2 rank (Carlini et al. 2019, §4.2).

        R are the canary itself and those that were not included; of equal scores the worst rank counts.
        """
        others = np.sort(self.scores[~self.included])
        above = len(others) - np.searchsorted(others, self.scores[self.included], side="left")
        return np.log2(len(others) + 1) - np.log2(above + 1.0)

    def summary(self) -> CanarySummary:
        """All of it, typed, for JSON and for the report."""
        proof, exposures = self.proof, self.exposures
        return CanarySummary(
            verdict=proof.text,
            tone=proof.tone,
            answer=proof.answer,
            claimed=None if proof.claim is None else proof.claim.epsilon,
            delta=None if proof.claim is None else proof.claim.delta,
            bound=_least(proof.bound),
            others={name: _least(bound) for name, bound in proof.others.items()},
            most=proof.most,
            would_see=proof.would_see,
            guarantee=str(proof.guarantee),
            canaries=len(self.scores),
            included=int(self.included.sum()),
            kind_of_canary=self.kind,
            recipe=self.recipe,
            trained_on=self.trained_on,
            runs=self.runs,
            accuracy=None if self.accuracy is None else _ends(self.accuracy[0]),
            accuracy_without=None if self.accuracy is None else _ends(self.accuracy[1]),
            training_accuracy=None if self.training_accuracy is None else _ends(self.training_accuracy),
            seed=self.seed,
            mean_exposure=float(exposures.mean()),
            largest_exposure=float(exposures.max()),
            warnings=self.warnings,
            environment=environment(),
            settings=proof.settings,
        )

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML file."""
        html.write(origin.added(self._page(), provenance.now()), check_path(path, "path"))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write scores, summary and report into a run directory.

        Raises:
            divulge.InputError: the folder is in use, cannot be written, or holds a run (unless ``overwrite``).
        """
        key = store.hash_values(KIND, self.scores, self.included, self.recipe, str(self.proof.claim))
        with RunDirectory(check_path(folder, "out")).writing(KIND, key, overwrite=overwrite) as draft:
            draft.write_arrays("scores", {"scores": self.scores, "included": self.included})
            write(draft, self.summary())
            made = provenance.write(draft)
            html.write(origin.added(self._page(), made), draft.path / "report.html")

    def _page(self) -> Page:
        return canary_page.page(self.summary(), self.scores, self.included)

    def __str__(self) -> str:
        return self.proof.text


def _least(bound: Estimate) -> LeastEpsilon:
    return LeastEpsilon(bound.low, bound.confidence, bound.method)


def _ends(share: Estimate) -> tuple[float, float, float]:
    return share.value, share.low, share.high


def audit(
    target: Any,
    canaries: Canaries | str | Path,
    *,
    claim: Claim | None = None,
    recipe: Any = "loss",
    population: Records | None = None,
    references: Any = None,
    training: Records | None = None,
    family: Families | str | None = None,
    sides: Sides | str = "both",
    confidence: float = 0.95,
    outputs: Outputs = "logits",
    device: str = "auto",
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> CanaryAudit:
    """What a model that was trained with canaries gives away of them, and what that proves of a claim.

    Args:
        target: as for `divulge.audit`; for canaries that are documents a language model
            (`divulge.targets.CausalLM` or an endpoint).
        canaries: what `make` returned, or the folder it wrote.
        claim: the claim of differential privacy to test; None for the bound alone.
        recipe: how canaries are scored: any recipe of `divulge.audit`.
        population: other records, for recipes that learn from them ("quantile": each canary against what such a
            record would have).
        references: how reference models are trained, for recipes that need them.
        training: the training set, to be searched for canaries that should not be in it.
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
        divulge.InputError: canaries that are damaged or known to the training set, a δ that is not below 1/n of the
            training set, a target or a recipe that does not fit them.
    """
    planted = canaries if isinstance(canaries, Canaries) else Canaries.load(canaries)
    if claim is not None:
        _refuse_large(check_instance(claim, "claim", Claim), planted.trained_on + int(planted.included.sum()))
    if training is not None:
        refuse_known(planted, check_instance(training, "training", Records))
    refuse_one_sided(planted.included, "canaries")
    scores, name, notes = scored(target, planted, recipe, population, references, outputs, device, seed)
    proof = prove(
        scores,
        planted.included,
        claim=claim,
        design=planted.design,
        family=family,
        sides=sides,
        confidence=confidence,
        seed=check_integer(seed, "seed", least=0),
    )
    result = CanaryAudit(
        scores,
        planted.included,
        proof,
        name,
        planted.kind,
        planted.trained_on,
        training_accuracy=_known_accuracy(target, training, outputs),
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
    recipe: Any = "loss",
    population: Records | None = None,
    family: Families | str | None = None,
    sides: Sides | str = "both",
    confidence: float = 0.95,
    outputs: Outputs = "logits",
    device: str = "auto",
    seed: int = 0,
) -> CanaryAudit:
    """The whole game: train with the included canaries, score all of them, and say what is proven.

    Args:
        train: ``train(records, seed) -> target``, the training that is claimed to be private.
        canaries: what `make` returned; their coins are thrown anew for every run.
        data: the training set without canaries.
        claim: as for `audit`.
        runs: number of models to train; each has coins of its own, so their canaries add up.
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
    refuse_known(replace(canaries, included=np.zeros(len(canaries), bool)), check_instance(data, "data", Records))
    count = check_integer(runs, "runs", least=1)
    if canaries.design == "fixed" and count > 1:
        raise InputError(f"runs: a fixed number of canaries is for 1 run, got {count}; coins add up over runs")
    start = check_integer(seed, "seed", least=0)
    games, targets = [], []
    for i in range(count):
        planted = canaries.redrawn(seeds.derive_seed(start, "canaries", "run", i))
        given = concatenate_records([data, planted.insert]) if planted.included.any() else data
        targets.append(_trained(train, given, seeds.derive_seed(start, "training", i)))
        games.append((planted, scored(targets[-1], planted, recipe, population, None, outputs, device, start)))
    scores = np.concatenate([told[0] for _, told in games])
    included = np.concatenate([planted.included for planted, _ in games])
    if claim is not None:
        _refuse_large(check_instance(claim, "claim", Claim), len(data) + int(games[0][0].included.sum()))
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
        plain = _trained(train, data, seeds.derive_seed(start, "training", 0))
        accuracy = (_accuracy(targets[0], holdout, outputs), _accuracy(plain, holdout, outputs))
    notes = tuple(dict.fromkeys(note for _, told in games for note in told[2]))
    return CanaryAudit(
        scores, included, proof, games[0][1][1], canaries.kind, len(data), count, accuracy, seed=start, warnings=notes
    )


def _trained(train: Callable[[Records, int], Any], records: Records, seed: int) -> Any:
    try:
        return train(records.copy(), seed)
    except InputError:
        raise
    except Exception as error:
        raise UserCodeError(f"train: it raised {type(error).__name__}: {format_exception(error)}") from error


def _accuracy(target: Any, holdout: Records, outputs: Outputs) -> Estimate:
    adapted = adapt(target, outputs=outputs)
    if not isinstance(adapted, GivesLabels) or holdout.y is None:
        raise InputError("holdout: accuracy needs a target that gives labels, and records that have them")
    return proportion(int((adapted.labels(holdout) == holdout.y).sum()), len(holdout))


def _known_accuracy(target: Any, records: Records | None, outputs: Outputs) -> Estimate | None:
    """On records that have labels, of a target that gives some; None otherwise."""
    if records is None or records.y is None or not isinstance(adapt(target, outputs=outputs), GivesLabels):
        return None
    return _accuracy(target, records, outputs)


def _refuse_large(claim: Claim, records: int) -> None:
    if claim.delta * records >= 1:
        raise InputError(
            f"claim.delta: must be below 1/{records} (one over the records trained on), got {claim.delta:g}; "
            "such a δ allows whole records to be published"
        )
