"""State of an audit: its checked inputs, what is known of partial records, everything the scores depend on, a log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from divulge import completion, store
from divulge.evidence import Layout, concatenate_records
from divulge.references.progress import ignore_progress
from divulge.results import PartialKnowledgeSettings
from divulge.types import PartialRecords, Records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from divulge.auditing.modality import Modality
    from divulge.recipes import Recipe
    from divulge.references import Progress
    from divulge.results import MatchedReferences, ReferenceAgreement, RegressionFit, TokenFit
    from divulge.types import Array, Bools, Ints

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class AuditInputs:
    """Checked inputs of an audit.

    Args:
        candidates: members, then non-members.
        truth: membership of the candidates, bool ``[n]``.
        calibration: records of the population that nothing is trained on; they are scored like the candidates.
        population: the remaining records, from which reference models and regressors learn.
        recipes: recipes to run.
        unseen_classes: classes the auditor holds no records of.
        warnings: messages about changed or missing inputs.
        duplicates: number of records that appear in more than one set.
        groups: subgroup of each candidate, or None.
        known: mask of known values in the candidates' shape; None if all are known.
        covariates: name → values of the candidates, as given by the user; None without any.
        duplicate_groups: number of each candidate's group of equal records, if equal records count once; None if each
            record counts.
    """

    candidates: Records
    truth: Bools
    calibration: Records
    population: Records
    recipes: tuple[Recipe, ...]
    unseen_classes: tuple[int, ...]
    warnings: tuple[str, ...]
    duplicates: int
    groups: Array | None
    known: Bools | None = None
    covariates: Mapping[str, Array] | None = None
    duplicate_groups: Ints | None = None

    @property
    def layout(self) -> Layout:
        """Number of records of each kind, and their rows."""
        return Layout(len(self.candidates), len(self.calibration), len(self.population))

    @property
    def everything(self) -> Records:
        """All records, in the order of the layout."""
        return concatenate_records([self.candidates, self.calibration, self.population])


@dataclass(frozen=True, slots=True, eq=False)
class PartialKnowledge:
    """Known parts of candidates and calibration records, and completions of their unknown values.

    Args:
        visible: candidates, then calibration records; unknown values are gone.
        imputer: what completed them, fitted on the population.
        best: candidates, calibration and population, under masks drawn alike, with their single best completion.
        draws: random completions of candidates and calibration, one `Records` each.
        training_completions: random completions of the same, for training reference models.
        share: part of all values that is known.
    """

    visible: PartialRecords
    imputer: completion.FittedImputer
    best: Records
    draws: tuple[Records, ...]
    training_completions: tuple[Records, ...]
    share: float

    @property
    def views(self) -> tuple[Records, ...]:
        """Records that a model is queried on: the best completion, then the random draws."""
        return (self.best, *self.draws)

    def metadata(self) -> PartialKnowledgeSettings:
        """Return the metadata for the report."""
        return PartialKnowledgeSettings(
            self.share, self.imputer.name, len(self.draws), store.hash_values(self.visible.known)
        )

    def completed_by(self, recipe: Recipe) -> str:
        """Return the name of what completed the records for this recipe."""
        if isinstance(recipe.signal, str) or not recipe.needs_known:
            return self.imputer.name
        start = getattr(recipe.signal, "start", None)
        return "the attack itself" + ("" if start is None else f", from {start}")

    def training_data(self, population: Records, trained_on: Bools) -> tuple[Records, Bools]:
        """Return the records for reference models that see candidates, and the mask of each model's rows.

        The target was trained on the true record and is queried on a completion of it. So that IN models
        are in the same position, each is trained on a completion drawn at random and asked about others.

        Args:
            population: whole records.
            trained_on: bool ``[m, n + k + z]`` of candidates, calibration and population.
        """
        n_scored = len(self.visible)
        rows = np.zeros((len(trained_on), len(population) + n_scored * len(self.training_completions)), dtype=bool)
        rows[:, : len(population)] = trained_on[:, n_scored:]
        for model, candidate_mask in enumerate(trained_on[:, :n_scored]):
            start = len(population) + n_scored * (model % len(self.training_completions))
            rows[model, start : start + n_scored] = candidate_mask
        return concatenate_records([population, *self.training_completions]), rows

    def trained_on_mask(self, rows: Bools) -> Bools:
        """Invert `training_data`: bool ``[m, n + k + z]`` of candidates, calibration and population."""
        n_scored, n_models = len(self.visible), len(rows)
        n_population = len(self.best) - n_scored
        completion_rows = rows[:, n_population:].reshape(n_models, -1, n_scored)
        return np.hstack([completion_rows.any(axis=1), rows[:, :n_population]])


@dataclass(frozen=True, slots=True, eq=False)
class PreparedAudit:
    """Everything the scores depend on, and the folders for intermediate results.

    Args:
        inputs: the checked inputs.
        modality: the kind of model that the target is.
        target: the model under audit.
        n_classes: number of classes (for a target that gives labels alone, as far as its answers show); 0 for a
            model without classes.
        references: training settings of the reference models, or None.
        seed: seed of every random draw.
        views: versions of the records that the models are queried on: candidates, calibration and population (with
            the best completion of unknown values), random completions of the first two, then further versions of all.
        partial_knowledge: known parts of the records and their completions, where not all values are known.
        progress: callback for the progress of training.
        pool: folder of finished reference models, or None.
        scratch_folder: folder for signals that exceed memory, or None.
        show_records: whether documents may be stored and shown.
        version_views: recipe name → positions in ``views`` of the further versions that the recipe queries.
        held_out: bool ``[z]``, the population records on which settings of reference models are matched and that no
            such model is trained on; None where settings are given.
    """

    inputs: AuditInputs
    modality: Modality
    target: Any
    n_classes: int
    references: Any
    seed: int
    views: tuple[Records, ...]
    partial_knowledge: PartialKnowledge | None = None
    progress: Progress = ignore_progress
    pool: Path | None = None
    scratch_folder: Path | None = None
    show_records: bool = True
    version_views: Mapping[str, range] = field(default_factory=dict)
    held_out: Bools | None = None

    @property
    def layout(self) -> Layout:
        """Row ranges of candidates, calibration and population in every array."""
        return self.inputs.layout


@dataclass(slots=True)
class AuditLog:
    """Timings, query counts and warnings collected during an audit.

    Args:
        timings: name of a step → seconds.
        queries: signal name → number of queries.
        warnings: messages for the reader of the report.
        engines: engines that trained reference models.
        predicted_labels: class that the target predicts for each record, ``[n]``; None for a language model.
        token_fit: fit of a language model to its training documents; None for other targets.
        regression_fit: how well a regression model predicts; None for other targets.
        agreement: how well each kind of reference models answers like the target.
        matched: how their settings were chosen; None where they were given.
    """

    timings: dict[str, float] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    predicted_labels: Ints | None = None
    token_fit: TokenFit | None = None
    regression_fit: RegressionFit | None = None
    agreement: list[ReferenceAgreement] = field(default_factory=list)
    matched: MatchedReferences | None = None

    def run_timed(self, name: str, work: Callable[[], T]) -> T:
        """Return the result of ``work`` and add its seconds to those of ``name``."""
        start = time.perf_counter()
        result = work()
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start
        return result
