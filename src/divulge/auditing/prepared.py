"""An audit before its scores: checked inputs, everything the scores depend on, a forecast, and metadata of the run."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from divulge import chats, completion, evaluation, people, seeds, store
from divulge.attacks import Need
from divulge.auditing.scopes import LARGEST_UNSEEN_AUC
from divulge.auditing.signals import (
    MAX_BYTES_IN_MEMORY,
    TRAINED_REFERENCES,
    active_signals,
    signal_names,
    training_data,
    white_box_names,
)
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.evidence import Layout, concatenate_records
from divulge.inspection import collect_arrays
from divulge.references import matching
from divulge.references.clone_timing import time_clone
from divulge.references.clones import CloneTraining
from divulge.references.progress import ignore_progress
from divulge.results import Digests, EstimatorSummary, PartialKnowledgeSettings, RecipeRun, RecordCounts, RunSettings
from divulge.signals import internals
from divulge.targets import Endpoint
from divulge.targets.estimators import Regressor, SklearnRegressor, SklearnTarget, describe_estimator
from divulge.targets.rights import Averaged, FramedTarget, UserTarget, weights_key
from divulge.types import PartialRecords, Records
from divulge.validation import check_memory, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from divulge.attacks import Scored
    from divulge.auditing.modality import Modality
    from divulge.auditing.plausibility import SampleFit
    from divulge.recipes import Recipe
    from divulge.references import Progress
    from divulge.references.fine_tuning import TrainingStep
    from divulge.results import ClassFit, MatchedReferences, RegressionFit, TokenFit
    from divulge.settings import ResolvedAuditSettings
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
        copied: number of candidates whose copy in another set can hide a leak, where copies were kept.
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
    copied: int = 0

    def repeats_kept(self, policy: str) -> bool:
        """Check whether records that repeat are still there: copies across the sets are dropped with all others.

        Equal records that keep together and count once stay.
        """
        return policy != "drop" or not self.duplicates or self.duplicate_groups is not None

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
        calls: how often the target is asked about each record.
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
    calls: int = 1

    @property
    def averaged_target(self) -> Any:
        """The target, whose answers are means of ``calls`` of them."""
        return self.target if self.calls == 1 else Averaged(self.target, self.calls)

    @property
    def other_records(self) -> tuple[Array, Array | None] | None:
        """Records that are no candidates, and their labels or values; None where there are none."""
        parts = [part for part in (self.inputs.calibration, self.inputs.population) if len(part)]
        if not parts:
            return None
        labels = [part.y for part in parts if part.y is not None]
        return np.concatenate([part.x for part in parts]), np.concatenate(labels) if len(labels) == len(parts) else None

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
        fit: of the target to its training records; of a classifier that of its probabilities, where its accuracy
            leaves a doubt.
        matched: how their settings were chosen; None where they were given.
    """

    timings: dict[str, float] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    predicted_labels: Ints | None = None
    fit: ClassFit | TokenFit | RegressionFit | None = None
    matched: MatchedReferences | None = None

    def run_timed(self, name: str, work: Callable[[], T]) -> T:
        """Return the result of ``work`` and add its seconds to those of ``name``."""
        start = time.perf_counter()
        result = work()
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start
        return result


_N_TIMED_BATCHES = 16  # batches of one reference model that are timed, beyond those of a training of one batch
_LEAST_SECONDS = 0.1  # that they are to take, and no less than that training itself: more epochs where they are faster
_GROWTH_OF_TRIALS, _MAX_TIMED_EPOCHS = 4, 1024
_LR_OF_TRIALS = 1e-9
_N_TIMED_RECORDS = 10  # records that the target is asked about
_N_ASKED_MEMBERS, _MAX_SECONDS_OF_MEMBERS = 64, 5.0  # that show whether the target knows its records
_N_CALLS, _RECORDS_OF_CALL, _LEAST_SHARE = 20, 1000, 0.05  # of the target, where a call has a time of its own
_UNIT_SECONDS = 0.005  # of the work that shows how fast a machine is
_CHARACTERS_PER_TOKEN = 4  # before a server was asked
_MAX_TIMED_SETTINGS = 12  # of a grid, on which the time of an epoch depends; of more no time is forecast


@dataclass(frozen=True, slots=True)
class Forecast:
    """Models, time and memory that an audit takes.

    Args:
        records: candidates, calibration and population together.
        models: reference models that its recipes read; those already in the pool count too.
        lessons: records that each of them is trained on, on average.
        training: seconds of one core to train them one by one, from timed batches; None where nothing tells.
        scoring: seconds for the target to answer; None where it was not asked, or a signal does not say how often it
            will be.
        memory: bytes held at once, without what training takes.
        trials: models that are trained at most to find settings that match the target; they count in ``training``.
        too_few: why the answer cannot be "no leak found"; empty where there are enough records for it.
        step: a training step of a reference language model, as measured; None for other models.
        requests: to a server, at most, for all recipes together; 0 where the target is none.
        prompt_tokens: of these requests, from the tokens of ten documents where they were asked about.
        fit: of the target to a few of the members; None where it was not asked, or they have no labels.
        checks: seconds of attacks and checks once all models have answered; None where it was not estimated.
    """

    records: int
    models: int
    lessons: int
    training: float | None
    scoring: float | None
    memory: float
    trials: int = 0
    too_few: str = ""
    step: TrainingStep | None = None
    requests: int = 0
    prompt_tokens: int = 0
    fit: SampleFit | None = None
    checks: float | None = None

    @property
    def too_large(self) -> str:
        """Why training will run out of memory, or be slower than forecast; empty where it fits."""
        if self.step is None or self.step.free is None or self.step.memory <= self.step.free:
            return ""
        return (
            f"references: a step needs {format_bytes(self.step.memory)} beside the base, and {self.step.device} has "
            f"{format_bytes(self.step.free)} left: fewer documents will go through the model at a time. Less is needed "
            "with lora, gradient_checkpointing, gradient_accumulation_steps, length, precision or quantization"
        )

    @property
    def text(self) -> str:
        """The forecast in one line."""
        parts = [f"{self.records:,} records"]
        if self.trials:
            parts.append(f"at most {self.trials:,} trial models to match the target")
        if self.models:
            parts.append(f"{self.models:,} reference models of {self.lessons:,} records on average")
            duration = None if self.training is None else f"at most {format_duration(self.training)} on one core"
            parts.append(f"training {duration or 'of unknown length'}")
        if self.step is not None:
            free = "" if self.step.free is None else f", of which {format_bytes(self.step.free)} are free"
            parts.append(
                f"a step of it {self.step.seconds:.2g} s and {format_bytes(self.step.memory)} beside the base's "
                f"{format_bytes(self.step.weights)} on {self.step.device}{free}"
            )
        if self.requests:
            parts.append(
                f"at most {self.requests:,} requests to the server, each document once for all recipes, with about "
                f"{self.prompt_tokens:,} prompt tokens, and no more than one generated for each"
            )
        if self.scoring is not None:
            parts.append(f"scoring at most {format_duration(self.scoring)}")
        if self.checks is not None:
            parts.append(f"attacks and checks {format_duration(self.checks)}")
        return "; ".join([*parts, f"memory about {max(1, round(self.memory / 2**20)):,} MiB, without training"])


def make_forecast(audit: PreparedAudit, *, on_disk: bool) -> Forecast:
    """Forecast a checked audit without querying the target."""
    needs = [need for need in TRAINED_REFERENCES if any(need in recipe.needs for recipe in audit.inputs.recipes)]
    training_sets = [training_data(audit, need) for need in needs]
    sizes = np.concatenate([rows.sum(1) for _, rows in training_sets]) if training_sets else np.zeros(0)
    training, step = _training_seconds(audit, training_sets[0][0], sizes) if len(sizes) else (0.0, None)
    return Forecast(
        records=audit.layout.total,
        models=len(sizes),
        lessons=round(float(sizes.mean())) if len(sizes) else 0,
        training=training,
        scoring=None,
        memory=estimate_memory(audit, on_disk=on_disk),
        trials=0 if audit.held_out is None else matching.count_trials(audit.references)[0],
        too_few=_describe_too_few(audit.inputs.truth),
        step=step,
        **_count_server_work(audit, _CHARACTERS_PER_TOKEN, 0),
    )


def _count_server_work(audit: PreparedAudit, characters_per_token: float, check_queries: int) -> dict[str, Any]:
    """Return requests and prompt tokens that an audit of an endpoint takes; nothing for other targets."""
    if not isinstance(audit.target, Endpoint):
        return {}
    documents = dict.fromkeys(people.split_documents(list(audit.views[0].x))[0])
    lengths = [len(chats.show_text(document)[: audit.target.length]) for document in documents]
    requests = len(documents) + check_queries
    tokens = sum(lengths) * requests / len(documents) / characters_per_token
    return {"requests": requests, "prompt_tokens": round(tokens)}


def _describe_too_few(truth: Bools) -> str:
    """Say that there are too few candidates to see a large leak, even by a single interval; empty otherwise."""
    members, nonmembers = int(truth.sum()), int((~truth).sum())
    smallest = evaluation.smallest_detectable(members, nonmembers).auc
    if smallest is not None and smallest <= LARGEST_UNSEEN_AUC:
        return ""
    return (
        f'candidates: {members:,} members and {nonmembers:,} non-members are too few for "no leak found"; unless the '
        'leak is very large, the answer will be "too little data to say"'
    )


def estimate_check_seconds(audit: PreparedAudit, n_models: int) -> float:
    """Return the seconds of attacks, checks and report once all models have answered: a rule, for this machine's speed.

    Blind baselines learn from the candidates, and the games of ``auto`` and the controls from each reference model's
    answers about all records. The rule is one to three times what was measured on one core of the machine that
    `_UNIT_SECONDS` is of: classifiers of 300 to 6,000 candidates, documents, and 0 to 16 reference models.
    """
    candidates = audit.inputs.candidates
    if candidates.table is not None:
        per_candidate = 5e-4 + 2.5e-6 * len(candidates.table.columns)
    elif candidates.x.dtype == object:
        per_candidate = 5e-3
    else:
        per_candidate = 5e-4 + 2.5e-6 * min(candidates.x[0].size, 1000)
    seconds = 4 + per_candidate * len(candidates) + n_models * (0.05 + 9e-5 * audit.layout.total)
    values = seeds.generator(0, "speed of this machine").normal(size=(200, 200))
    gram = values @ values.T

    def work() -> None:
        np.linalg.eigh(gram)
        np.sort(values.ravel())
        sum(step * step for step in range(20_000))

    return seconds * float(np.clip(np.mean([_time_call(work) for _ in range(3)]) / _UNIT_SECONDS, 0.2, 20))


def add_scoring_time(
    audit: PreparedAudit, forecast: Forecast, *, check_queries: int = 0, asks_members: bool = True
) -> Forecast:
    """Add the time for the target's answers, measured on ten records of the population, and its fit to a few members.

    Signals that question it themselves say at most how often, in ``queries``; ``check_queries`` are those of checks.
    Members are asked about unless ``asks_members`` is false, as where nobody knows which they are.
    """
    if isinstance(audit.target, Endpoint):
        return _add_server_work(audit, audit.target, forecast, check_queries)
    query_counts = [getattr(signal, "queries", None) for signal in active_signals(audit.inputs.recipes).values()]
    if None in query_counts:
        return forecast
    sample = audit.inputs.population[:_N_TIMED_RECORDS]
    white_box = white_box_names(audit.inputs.recipes)
    records = len(audit.views[0])
    answers = (
        check_queries
        + sum(map(len, audit.views))
        + records * sum(int(queries) for queries in query_counts if queries is not None)
    )
    white_box_seconds = (
        records * _time_call(lambda: internals.measure(audit.target, sample, white_box)) if white_box else 0.0
    )
    answers += audit.modality.count_reference_answers(audit, forecast.models)
    seconds = _time_call(lambda: audit.modality.query(audit.averaged_target, sample))
    size = audit.modality.relative_size(audit.views[0], sample)
    start = time.perf_counter()
    fit = _measure_sample_fit(audit, seconds / len(sample)) if asks_members else None
    if fit is None or fit.records <= len(sample):
        return replace(forecast, scoring=(answers * size * seconds + white_box_seconds) / len(sample), fit=fit)
    # A forest takes about as long for ten records as for a thousand: what each further record adds is told apart.
    larger = time.perf_counter() - start
    per_record = max(larger - seconds, _LEAST_SHARE * larger) / (fit.records - len(sample))
    n_calls = _N_CALLS + answers / _RECORDS_OF_CALL
    scoring = answers * per_record + n_calls * seconds + white_box_seconds / len(sample)
    return replace(forecast, scoring=min(scoring, (answers * seconds + white_box_seconds) / len(sample)), fit=fit)


def _measure_sample_fit(audit: PreparedAudit, seconds: float) -> SampleFit | None:
    """Return the fit to as many members as can be asked about in a moment, of ``seconds`` for each; None for few."""
    count = int(min(_N_ASKED_MEMBERS, _MAX_SECONDS_OF_MEMBERS / max(seconds, 1e-9)))
    rows = np.flatnonzero(audit.inputs.truth)
    if audit.partial_knowledge is not None or count < _N_TIMED_RECORDS or len(rows) < _N_TIMED_RECORDS:
        return None
    rng = seeds.generator(audit.seed, "members that a forecast asks about")
    members = audit.inputs.candidates[np.sort(rng.permutation(rows)[:count])]
    return audit.modality.measure_fit(audit.averaged_target, members)


def _add_server_work(audit: PreparedAudit, server: Endpoint, forecast: Forecast, check_queries: int) -> Forecast:
    """Add requests, tokens and time of a server, which is asked about ten documents of the population once."""
    texts = people.split_documents(list(audit.inputs.population.x[:_N_TIMED_RECORDS]))[0]
    if chats.has_answers(texts):  # a server that does not show where answers begin is refused here
        server.tokens(texts[:1])
    whole = [chats.show_text(text) for text in texts]  # of which all tokens are counted, as the server counts them
    start = time.perf_counter()
    n_tokens = int(server.tokens(whole).lengths.sum()) + len(texts)
    seconds = (time.perf_counter() - start) / len(texts)
    n_characters = sum(len(text[: server.length]) for text in whole)
    work = _count_server_work(audit, n_characters / n_tokens, check_queries)
    return replace(forecast, **work, scoring=work["requests"] * seconds)


def _time_call(work: Callable[[], object]) -> float:
    """Return the seconds of a second call, after a first that warms up."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _training_seconds(
    audit: PreparedAudit, records: Records, sizes: np.ndarray
) -> tuple[float | None, TrainingStep | None]:
    """Estimate the seconds for training all models from a few batches; return a measured step.

    None without batches, and where models are trained on devices that this machine lacks.

    Where settings are to be chosen, all references are taken for those whose training takes longest. A trial model is
    asked about the held-out records after an epoch, which takes less than training on them.
    """
    if isinstance(audit.references, CloneTraining) and audit.references.match is None:
        size = round(float(sizes.mean()))
        seconds = time_clone(audit.references, records, audit.n_classes, size, audit.layout.total, audit.seed)
        return seconds * len(sizes), None
    if not hasattr(audit.references, "brief") or getattr(audit.references, "trains_elsewhere", False):
        return None, None
    plans = matching.plan_epochs(audit.references)
    if len(plans) > _MAX_TIMED_SETTINGS:
        return None, None
    timed = [(*_time_epoch(audit, plan.training, records), plan) for plan in plans]
    seconds = max(
        sum(fixed + per_record * size for size in sizes) * plan.longest for fixed, per_record, _, plan in timed
    )
    if audit.held_out is not None:
        n_records = float(training_data(audit, Need.REFERENCES_OUT)[1].sum(1).mean()) + int(audit.held_out.sum())
        seconds += sum((fixed + per_record * n_records) * plan.trial_epochs for fixed, per_record, _, plan in timed)
    steps = [step for _, _, step, _ in timed if step is not None]
    return seconds, max(steps, key=lambda step: step.memory, default=None)


def _time_epoch(audit: PreparedAudit, training: Any, records: Records) -> tuple[float, float, TrainingStep | None]:
    """Return the seconds of an epoch: of any, where all records are one batch, and of each record, elsewhere.

    Of a language model a step is measured, and returned too.
    """
    if hasattr(training, "measure_step"):
        step = training.measure_step(records)
        return 0.0, step.seconds * step.per_record, step
    size = getattr(training, "config", training).batch_size
    one_batch, count = min(size, len(records)), min((1 + _N_TIMED_BATCHES) * size, len(records))
    _fit_seconds(audit, training, records, one_batch)  # torch loads much of itself when it first trains
    least = _fit_seconds(audit, training, records, one_batch)
    epochs = 1 if count > one_batch else _GROWTH_OF_TRIALS
    while True:
        whole = _fit_seconds(audit, training, records, count, epochs)
        if whole - least > max(_LEAST_SECONDS, least) or epochs >= _MAX_TIMED_EPOCHS:
            break
        epochs *= _GROWTH_OF_TRIALS
    per_record = max(whole - least, _LEAST_SHARE * whole) / (epochs * count - one_batch)
    return (per_record * count, 0.0, None) if count == one_batch else (0.0, per_record, None)


def _fit_seconds(audit: PreparedAudit, training: Any, records: Records, count: int, epochs: int = 1) -> float:
    """Measure the seconds in which one model is trained on ``count`` records."""
    references, classes = training.brief(), {"classes": audit.n_classes} if audit.n_classes else {}
    if epochs > 1:  # so many passes over few records must not diverge where the reference models will not
        references = references.with_settings(epochs=epochs, lr=_LR_OF_TRIALS)
    start = time.perf_counter()
    references.fit(records, (np.arange(len(records)) < count)[None], seed=audit.seed, **classes)
    return time.perf_counter() - start


def format_duration(seconds: float) -> str:
    """Format a duration, rounded up.

    Examples:
        >>> format_duration(0.2), format_duration(31), format_duration(200), format_duration(9000)
        ('about 1 s', 'about 31 s', 'about 4 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {-(-seconds // 60):.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


_BYTES_PER_LOGIT = 3 * 8  # bytes per output of the target: itself, its copy in double precision, its exponential
_BYTES_PER_SIGNAL = 4
_BYTES_OF_SOFTWARE = 12 * 2**20  # trees, tests and what is kept of a page


def estimate_memory(audit: PreparedAudit, *, on_disk: bool) -> float:
    """Estimate the bytes that an audit holds at once, see `check_memory_fits`."""
    view = audit.views[0]
    rows = audit.layout.total
    outputs = rows * audit.n_classes * _BYTES_PER_LOGIT
    features = 0 if view.x.dtype == object else 2 * 8 * view.x.size
    signals = len({name for recipe in audit.inputs.recipes for name in (recipe.signal_name, *recipe.beside)})
    models = _count_models(audit)
    versions = 1 + len({place for places in audit.version_views.values() for place in places})
    reference_bytes = models * rows * versions * (signals * _BYTES_PER_SIGNAL + 1)
    if on_disk:
        reference_bytes = min(reference_bytes, 2 * MAX_BYTES_IN_MEMORY * _count_model_sets(audit))
    kept = outputs + features + reference_bytes + audit.modality.estimate_memory(audit, models)
    controls = blind.estimate_memory(
        audit.layout.candidates, view.x[:1], audit.n_classes if view.labels is not None else 0
    )
    return float(kept + controls + _BYTES_OF_SOFTWARE)


def check_memory_fits(audit: PreparedAudit, *, on_disk: bool) -> None:
    """Raise if an audit would hold more at once than this machine has free.

    Counted is what is made of the records: the target's outputs, the features that attacks condition on, what the
    reference models say, and what the controls compare. What training takes depends on the engine, which chooses its
    stacks by itself.

    Args:
        audit: the audit.
        on_disk: whether signals of reference models may be kept in the run directory.

    Raises:
        divulge.InputError: it does not fit; the sizes are named.
    """
    rows, models = audit.layout.total, _count_models(audit)
    check_memory(
        estimate_memory(audit, on_disk=on_disk),
        "members, nonmembers, population",
        f"they are {rows:,} records"
        + (f", of {audit.n_classes:,} classes" if audit.n_classes else "")
        + (f" and the answers of {models:,} reference models" if models else "")
        + ("; use fewer records" if on_disk or not models else "; set out=, or use fewer records or models"),
    )


def _count_models(audit: PreparedAudit) -> int:
    """Count the reference models of all kinds."""
    return 0 if audit.references is None else audit.references.count * _count_model_sets(audit)


def _count_model_sets(audit: PreparedAudit) -> int:
    """Count the kinds of reference models that some recipe reads."""
    return sum(any(need in recipe.needs for recipe in audit.inputs.recipes) for need in TRAINED_REFERENCES)


# Where an object lies in memory, as a repr tells it.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe_settings(
    inputs: AuditInputs,
    options: ResolvedAuditSettings,
    references: Any,
    target: str,
    partial: PartialKnowledgeSettings | None,
) -> RunSettings:
    """Return all settings that determine the run; their digest identifies an interrupted run."""
    sets = (inputs.candidates, inputs.calibration, inputs.population)
    values = [records.features for records in sets if records.features is not None]
    return RunSettings(
        seed=options.seed,
        recipes=tuple(recipe.name for recipe in inputs.recipes),
        attacks={recipe.name: f"{recipe.signal_name}: {describe_attack(recipe)}" for recipe in inputs.recipes},
        references="none" if references is None else describe_references(references),
        unseen_classes=inputs.unseen_classes,
        fpr=tuple(map(float, options.fpr)),
        calibration=float(options.calibration),
        duplicates=options.duplicates,
        outputs=options.outputs,
        device=options.device,
        data=Digests(
            candidates=_digest_records(inputs.candidates, inputs.truth),
            calibration=_digest_records(inputs.calibration),
            population=_digest_records(inputs.population),
            features=store.hash_values(*values, *(inputs.population.feature_names or ())) if values else "",
        ),
        target=target,
        partial=partial,
        calls=options.calls,
    )


def describe_attack(recipe: Recipe) -> str:
    """Describe a recipe's attack and the versions of the records that it queries."""
    return _repr_without_address(recipe.attack) + (
        "" if recipe.versions is None else f" on {_repr_without_address(recipe.versions)}"
    )


def describe_target(target: Any) -> str:
    """Describe the target as its user knows it, with a digest of its weights if they can be read."""
    if isinstance(target, SklearnTarget | SklearnRegressor):
        parts = [part for array in collect_arrays(target) for part in (array.name, array.values)]
        return f"{describe_estimator(target.estimator)}, arrays {store.hash_values(*parts)[:16]}"
    key = weights_key(target)
    return f"{name_model(target)}, weights {key}" if key else name_model(target)


def name_model(target: Any) -> str:
    """Return the class, function, file or folder that a user knows a model by, in place of the adapter around it.

    Examples:
        >>> from divulge.targets import CallableTarget
        >>> def answer(x):
        ...     return x
        >>> name_model(CallableTarget(answer)), name_model(CallableTarget(lambda x: x))
        ('the function answer', 'a function without a name')
    """
    while isinstance(target, UserTarget | FramedTarget | Regressor):
        target = target.target
    if not type(target).__module__.startswith("divulge."):
        return type(target).__name__
    inner = next(
        (getattr(target, name) for name in ("module", "function", "model", "estimator") if hasattr(target, name)),
        target,
    )
    if isinstance(inner, FunctionType):
        return "a function without a name" if inner.__name__ == "<lambda>" else f"the function {inner.__name__}"
    class_name = inner if isinstance(inner, str) else type(inner).__name__
    origin = str(getattr(target, "name", "") or getattr(target, "path", ""))
    if not origin or origin == "model":
        return class_name
    origin = origin if origin.startswith("hf:") else PurePath(origin).name
    return origin if inner is target else f"{class_name} from {origin}"


def is_adapter(target: Any) -> bool:
    """Return whether a target is a base with an adapter on it (LoRA)."""
    while isinstance(target, UserTarget | FramedTarget | Regressor):
        target = target.target
    model = getattr(target, "model", None)
    return bool(getattr(model, "is_adapted", False) or getattr(model, "peft_config", None))


def summarise_estimator(target: Any) -> EstimatorSummary | None:
    """Return class and parameters of the estimator of a target; None for other kinds of target."""
    while isinstance(target, FramedTarget | Regressor):
        target = target.target
    if not isinstance(target, SklearnTarget | SklearnRegressor):
        return None
    steps = [step for _, step in target.estimator.steps] if hasattr(target.estimator, "steps") else [target.estimator]
    final_step = steps[-1]
    parameters = final_step.get_params(deep=False) if callable(getattr(final_step, "get_params", None)) else {}
    plain = (bool, int, str, type(None))
    values = {
        str(name): value
        if isinstance(value, plain) or (isinstance(value, float) and np.isfinite(value))
        else (
            describe_estimator(value) if callable(getattr(value, "get_params", None)) else _repr_without_address(value)
        )
        for name, value in sorted(parameters.items())
    }
    return EstimatorSummary(type(final_step).__name__, values, tuple(type(step).__name__ for step in steps[:-1]))


def describe_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Describe the arguments of an audit by name, identically in every process."""
    return [f"{name}={_describe_value(arguments[name])}" for name in sorted(arguments)]


def _describe_value(value: Any) -> str:
    if isinstance(value, Records):
        return _digest_records(value)
    if is_dataclass(value) and not isinstance(value, type):
        return describe_references(value)
    return store.hash_values(value) if isinstance(value, np.ndarray) else _repr_without_address(value)


# How models are trained, but not what comes out.
_EXECUTION_SETTINGS = ("engine", "device", "workers", "gpus")


def training_settings(references: Any) -> dict[str, str]:
    """Return the settings that determine the reference models, as compared between two runs."""
    training = {"kind": type(getattr(references, "config", references)).__name__}
    return training | {name: value for name, value in _reference_options(references) if name not in _EXECUTION_SETTINGS}


def describe_references(references: Any) -> str:
    """Return a repr that is identical in every process: functions by name, not by address."""
    if not is_dataclass(references):
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {type(references).__name__}")
    training_type = type(getattr(references, "config", references)).__name__
    return f"{training_type}({', '.join(f'{name}={value}' for name, value in _reference_options(references))})"


def _reference_options(references: Any) -> list[tuple[str, str]]:
    pairs = []
    config = getattr(references, "config", references)
    for option in fields(config):
        if not option.repr:
            continue
        value = getattr(references, option.name, getattr(config, option.name))
        if value is None and option.name in ("match", "stop_after"):
            continue
        if option.name == "base" and (key := weights_key(value)):
            pairs.append((option.name, f"{type(value).__name__} {key}"))
            continue
        if option.name == "estimator":
            pairs.append((option.name, describe_estimator(value)))
            continue
        has_qualified_name = hasattr(value, "__qualname__")
        pairs.append(
            (
                option.name,
                f"{value.__module__}.{value.__qualname__}" if has_qualified_name else _repr_without_address(value),
            )
        )
    return pairs


def _repr_without_address(value: object) -> str:
    return _ADDRESS.sub("", repr(value))


def _digest_records(records: Records, *extra: object) -> str:
    values = records.x if records.table is None else b"".join(records.digests()).hex()
    return store.hash_values(values, *(() if records.y is None else (records.y,)), *extra)


def recipe_metadata(
    audit: PreparedAudit, log: AuditLog, scored: Mapping[str, Scored], fpr: Sequence[float]
) -> dict[str, RecipeRun]:
    """Return the metadata of every recipe: signal, attack, reference models, queries."""
    names = signal_names(audit.inputs.recipes)
    return {
        recipe.name: RecipeRun(
            signal=recipe.signal_name,
            reads=recipe.reads,
            attack=describe_attack(recipe),
            references=recipe.references,
            training=training_settings(audit.references) if recipe.needs_training else None,
            summary=recipe.summary,
            queries=log.queries.get(names[recipe.name], _count_queries(audit, recipe)),
            raw_thresholds={}
            if (nominal := scored[recipe.name].nominal) is None
            else {f"{level:g}": nominal(level) for level in fpr},
            completed_by=None if audit.partial_knowledge is None else audit.partial_knowledge.completed_by(recipe),
            chosen=scored[recipe.name].chosen,
        )
        for recipe in audit.inputs.recipes
    }


def count_records(audit: PreparedAudit) -> RecordCounts:
    """Count the records of each kind and the classes."""
    inputs = audit.inputs
    return RecordCounts(
        members=int(inputs.truth.sum()),
        nonmembers=int((~inputs.truth).sum()),
        population=inputs.layout.population,
        calibration=inputs.layout.calibration,
        classes=audit.n_classes,
    )


def _count_queries(audit: PreparedAudit, recipe: Recipe) -> int:
    """Count the records on which the target is queried for a recipe."""
    versions = 1 + len(audit.version_views.get(recipe.name, ()))
    n_passes = audit.calls * versions + internals.count_passes(recipe.inside)
    return audit.calls * recipe.imputed.random * audit.layout.scored or n_passes * audit.layout.total
