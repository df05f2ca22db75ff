"""Privacy against utility: an estimator is trained again on its members with each of several settings, and audited.

Every model is audited on the same candidates by the same recipes, with reference models that have its own settings, and
predicts the same non-members. It is ranked by the attack that tells most apart. The intervals of a column hold together
(Bonferroni, over settings and recipes), so that the best setting may be chosen by them.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import errors, results, statistics, store
from divulge.auditing.checks import determinism
from divulge.auditing.inputs import attach_features
from divulge.auditing.modality import Classifier
from divulge.auditing.pipeline import prepare_audit, run_audit
from divulge.auditing.prepared import add_scoring_time, estimate_check_seconds, format_duration, make_forecast
from divulge.auditing.target_features import refuse_target_as_features
from divulge.errors import InputError
from divulge.evidence import query_target
from divulge.provenance import collect_environment
from divulge.references import Train, clones
from divulge.references.clone_timing import time_clone
from divulge.references.progress import check_progress, ignore_progress, show_progress
from divulge.report import charts, formatting
from divulge.report.formatting import NaturalFrequency
from divulge.report.page import Bullet, BulletList, Chart, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, RunKind
from divulge.report.sections import model_family
from divulge.results import SettingResult, StoredRecords, TradeOffSummary
from divulge.run_directory import RunDirectory, check_out
from divulge.settings import DefendSettings, ResolvedAuditSettings
from divulge.study import Study, StudyRun, open_subject, reopen
from divulge.targets.estimators import SklearnRegressor, SklearnTarget
from divulge.targets.outputs import as_predictions
from divulge.targets.rights import FramedTarget
from divulge.types import AuditData, Estimate, Records
from divulge.validation import check_bool, check_instance, format_value, require_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.auditing import Audit
    from divulge.auditing.prepared import PreparedAudit
    from divulge.references.progress import ProgressSetting
    from divulge.run_directory import RunDraft
    from divulge.settings import Duplicates, TaskName
    from divulge.types import Floats

RUN_TYPE = "trade-off"
AS_IT_IS = "as it is"
_DEFAULTS, _AUDIT_DEFAULTS = DefendSettings(), ResolvedAuditSettings()
_ROUNDS, _LEAVES, _DEPTH = ("n_estimators", "max_iter", "iterations"), ("max_leaf_nodes", "num_leaves"), ("max_depth",)
_LEAF = ("min_samples_leaf", "min_child_samples", "min_child_weight")
_CHANCE = 0.05
_FINISHED = ".finished"  # folder of an unfinished run's draft with what is measured so far


def suggest_settings(estimator: Any) -> list[dict[str, Any]]:
    """Return settings that lower what an estimator gives away, by its kind; of a pipeline, those of the last step.

    Forests and trees: records of a leaf, depth. Boosting: rounds, leaves, depth. Linear models and networks: strength
    of the penalty. Neighbours and support vectors: milder ones, though these models keep records whatever is set.

    Raises:
        divulge.InputError: a kind of model for which none is known.
    """
    final_step = _last_step(estimator)
    name, family = type(final_step).__name__, model_family(type(final_step).__name__)
    parameters = final_step.get_params(deep=False) if callable(getattr(final_step, "get_params", None)) else {}
    if family in ("forest", "tree"):
        return [
            {"min_samples_leaf": 5}, {"min_samples_leaf": 10}, {"min_samples_leaf": 20}, {"max_depth": 5},
            {"max_depth": 3}, {"min_samples_leaf": 10, "max_depth": 5},
        ]  # fmt: skip
    if family == "boosting":
        candidate_values = [(_ROUNDS, 50), (_ROUNDS, 20), (_ROUNDS, 10), (_LEAVES, 4), (_DEPTH, 2), (_LEAF, 50)]
        if name.startswith("CatBoost"):  # which lists only what was set
            return [{"iterations": 50}, {"iterations": 20}, {"depth": 2}]
        available_values = [
            (next((each for each in names if each in parameters), ""), value) for names, value in candidate_values
        ]
        return [{name: value} for name, value in available_values if name]
    grids: dict[str, tuple[str, tuple[Any, ...]]] = {
        "neighbours": ("n_neighbors", (10, 20, 50)),
        "support vectors": ("C", (0.1, 0.01)),
        "network": ("alpha", (1.0, 10.0)),
        "linear": ("C", (0.1, 0.01, 0.001)) if "C" in parameters else ("alpha", (10.0, 100.0, 1000.0)),
    }
    parameter, values = grids.get(family, ("", ()))
    if parameter not in parameters:
        raise InputError(f"settings: none is known for {name}; name some, such as [{{'max_depth': 5}}]")
    grid_settings = [{parameter: value} for value in values]
    return [*grid_settings, {"early_stopping": True}, {"max_iter": 50}] if family == "network" else grid_settings


def _last_step(estimator: Any) -> Any:
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff(Study):
    """Result of `measure_settings`.

    Args:
        rows: one for each model; the first is the target as it is.
        recipes: the attacks that each was audited by.
        fpr: the false-positive rate of the rates.
        utility: "accuracy", or "mean absolute error".
        max_loss: largest loss of utility that a recommended setting may have.
        seed: of every random draw.
        references: reference models of each.
        model: class of the target.
        warnings: of the audit of the target as it is.
    """

    rows: tuple[SettingResult, ...]
    recipes: tuple[str, ...]
    fpr: float
    utility: str
    max_loss: float
    seed: int
    references: int
    model: str
    warnings: tuple[str, ...] = ()

    @property
    def recommended(self) -> SettingResult | None:
        """The setting that surely gives away less, surely costs no more than ``max_loss``, and comes nearest to chance.

        None where no setting does, and where the audit of the target as it is found no leak that could become smaller.
        A setting that leaves training records in the model is never recommended. An AUC below ½ gives away as much as
        one that lies as far above it: the score reversed finds members. How little a recommended setting gives away is
        for its own audit to say: settings without a leak come first, and `verdict` repeats what it says.
        """
        if self.rows[0].answer != "leak found":
            return None
        acceptable = [row for row in self.rows[1:] if not self._objections(row)]
        return min(acceptable, key=lambda row: (row.answer != "no leak found", _distance(row)), default=None)

    def _objections(self, row: SettingResult) -> list[str]:
        """Return what speaks against a setting, in words; nothing where it can be recommended."""
        limit = f"{_format_limit(self.utility, self.max_loss)} {'of' if self.utility == 'accuracy' else 'more'}"
        is_costly = row.loss is None or row.loss.high > self.max_loss
        return [
            text
            for text, applies in {
                f"{row.stored:,} training records stand in that model": row.stored > 0,
                "that model predicts the same for all records": row.constant and not self.rows[0].constant,
                "its audit can say nothing of the model": row.answer == "split is confounded",
                "that it gives away less is not sure": _distance_bounds(row)[1] >= _distance_bounds(self.rows[0])[0],
                f"it may cost more than {limit} {self.utility}": is_costly,
            }.items()
            if applies
        ]

    @property
    def verdict(self) -> str:
        """Effect of the settings, in sentences."""
        unchanged, best = self.rows[0], self.recommended
        if unchanged.answer != "leak found":
            none = "So no setting can be seen to give away less."
            return f"Of the model as it is: {unchanged.reason} {none}{self._describe_weakness()}"
        rate = _frequency_told_apart(unchanged.auc)
        text = (
            f"As it is, shown a training record and another one, the attack {unchanged.recipe} tells which is which in "
            f"about {rate.describe('such pairs')}; guessing is right in {rate.total // 2:,}. "
        )
        if unchanged.stored:
            after = min(row.stored for row in self.rows[1:])
            text += f"{unchanged.stored:,} training records stand in the model; " + (
                "no setting takes them out of it. " if after else "with some of the settings none does. "
            )
        if best is None:
            lowest = min(self.rows[1:], key=lambda row: (len(self._objections(row)), _distance(row)))
            return (
                f"{text}No setting can be recommended. Nearest comes {self._describe_effect(lowest)}; but "
                f"{' and '.join(self._objections(lowest))}.{self._describe_weakness()}"
            )
        state = {
            "leak found": "That is less, and still a leak.",
            "no leak found": "Its audit finds no leak.",
        }.get(best.answer, "That is less; whether it is still a leak, its audit cannot say.")
        below = [row for row in self.rows[1:] if _distance(row) < _distance(best)]
        passed_over = "".join(
            f" {row.name} seems to give away less, but {' and '.join(self._objections(row))}." for row in below
        )
        return f"{text}With {self._describe_effect(best)}. {state}{passed_over}{self._describe_weakness()}"

    def _describe_effect(self, row: SettingResult) -> str:
        assert row.loss is not None
        rate, change = _frequency_told_apart(row.auc), _describe_change(self.utility, row.loss)
        return f"{row.name}: about {rate.describe(f'by {row.recipe}')}, and {change}"

    def _describe_weakness(self) -> str:
        """Say that stronger attacks were left out, where they were."""
        if any(name.startswith("auto") for name in self.recipes):
            return ""
        return f' Only {" and ".join(self.recipes)} attacked; stronger attacks may see more: put "auto" in recipes.'

    def summary(self) -> TradeOffSummary:
        """Return the typed summary for JSON and the report."""
        best = self.recommended
        return TradeOffSummary(
            verdict=self.verdict, tone="plain", recipes=self.recipes, fpr=self.fpr, utility=self.utility,
            max_loss=self.max_loss, references=self.references, model=self.model, rows=self.rows,
            recommended="" if best is None else best.name, seed=self.seed, warnings=self.warnings,
            environment=collect_environment(),
        )  # fmt: skip

    def write(self, draft: RunDraft) -> None:
        """Write nothing: the summary holds all."""


def _frequency_told_apart(auc: Estimate) -> NaturalFrequency:
    """Return how often the attack is right about a pair; reversed, where it is surely wrong more often than right."""
    if auc.high < 0.5:
        auc = replace(auc, value=1 - auc.value, low=1 - auc.high, high=1 - auc.low)
    return formatting.natural_frequency(auc, 0.5)


def _describe_change(utility: str, loss: Estimate) -> str:
    """Say what a setting does to the utility: an accuracy falls or rises, an error grows or shrinks."""
    is_gain = loss.value < 0
    change = replace(loss, value=-loss.value, low=-loss.high, high=-loss.low) if is_gain else loss
    if utility == "accuracy":
        return f"the accuracy {'rises' if is_gain else 'falls'} by {_utility_format(utility)(change)}"
    return f"the {utility} {'shrinks' if is_gain else 'grows'} by {_utility_format(utility)(change)}"


def _distance(row: SettingResult) -> float:
    """Return how far the AUC lies from that of guessing."""
    return abs(row.auc.value - 0.5)


def _distance_bounds(row: SettingResult) -> tuple[float, float]:
    """Return the least and the largest distance from guessing that the interval of the AUC leaves."""
    low, high = row.auc.low - 0.5, row.auc.high - 0.5
    return max(low, -high, 0.0), max(abs(low), abs(high))


@dataclass(frozen=True, slots=True)
class SettingsForecast:
    """What `measure_settings` will take.

    Args:
        settings: models that are trained with another setting.
        references: reference models of all of them, and of the target as it is.
        seconds: of one core, to train, ask and judge all models, if each takes as long as the target as it is;
            None where nothing tells.
    """

    settings: int
    references: int
    seconds: float | None

    @property
    def text(self) -> str:
        """The forecast in one line."""
        duration = "of unknown length" if self.seconds is None else format_duration(self.seconds)
        models = f", with {self.references:,} reference models" if self.references else ""
        plural = "s" * (self.settings != 1)
        return f"{duration} on one core for {self.settings:,} setting{plural} and the model as it is{models}"


@dataclass(frozen=True, slots=True)
class _Finished:
    """What is kept of a model that was measured, until all are."""

    row: SettingResult
    warnings: tuple[str, ...]


def measure_settings(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records,
    settings: Sequence[Mapping[str, Any]] | None = None,
    recipes: Sequence[Any] = _AUDIT_DEFAULTS.recipes,
    references: Any = _AUDIT_DEFAULTS.references,
    fpr: float | Sequence[float] = 0.05,
    max_loss: float = _DEFAULTS.max_loss,
    duplicates: Duplicates = "error",
    task: TaskName = "auto",
    seed: int = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
) -> TradeOff:
    """Train an estimator again on its members with other settings, and measure what each gives away and what it costs.

    Args:
        target: a fitted estimator in scikit-learn's idiom, or a pipeline.
        members: the records that it was trained on.
        nonmembers: records of the same kind that it was not trained on; utility is measured on them.
        population: further such records, for reference models and calibration.
        settings: parameters to change, one mapping for each model; names of a pipeline's last step need no prefix.
            None takes `suggest_settings`.
        recipes: the attacks, as for `divulge.audit`; a setting is ranked by the one that tells most apart.
        references: `divulge.references.Train`: reference models are clones with the same settings; "auto": as
            `divulge.audit` decides for the target as it is; or None.
        fpr: false-positive rates, as for `divulge.audit`; the largest is reported.
        max_loss: largest loss of accuracy that the recommended setting may have; of a regression model, of the mean
            absolute error, in its own units.
        duplicates: what to do about records in several sets.
        task: "auto", "classification" or "regression".
        seed: of every random draw.
        out: run directory to write. After an interruption the same call goes on: settings that are measured, and
            reference models that are trained, are kept there.
        overwrite: replace a finished run in ``out``.
        progress: called with (done, total, note) after each model; "auto" or True: a bar on a terminal and in a
            notebook; None or False: nothing.

    Returns:
        A `TradeOff`: ``result.rows``, ``result.recommended``.

    Raises:
        divulge.InputError: no estimator, unknown parameters or values it refuses, and what `divulge.audit` refuses.
    """
    options = DefendSettings.check(settings=settings, max_loss=max_loss, seed=seed)
    audit_settings = ResolvedAuditSettings.check(
        recipes=recipes, references=references, fpr=fpr if hasattr(fpr, "__len__") else (fpr,),
        duplicates=duplicates, task=task, seed=options.seed,
    )  # fmt: skip
    data = AuditData(members=members, nonmembers=nonmembers, population=population)
    return run_settings(target, data, audit_settings, options, out=out, overwrite=overwrite, progress=progress)


def run_settings(
    target: Any,
    data: AuditData,
    audit_settings: ResolvedAuditSettings,
    options: DefendSettings,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
    pool: Path | None = None,
    expect: Callable[[SettingsForecast], object] | None = None,
) -> TradeOff:
    """Measure the settings of a plan; `measure_settings` is this with its arguments by name.

    Args:
        target: as for `measure_settings`.
        data: what is audited: whole records of all classes, with everything that an audit of them takes.
        audit_settings: how each model is audited.
        options: settings, and the largest loss; the seed is the audit's.
        out: as for `measure_settings`.
        overwrite: as for `measure_settings`.
        progress: as for `measure_settings`.
        pool: where finished reference models are kept; the folder ``pool`` of the run when None.
        expect: called with what all this will take, before it starts.

    Raises:
        divulge.InputError: as `measure_settings`.
    """
    check_bool(overwrite, "overwrite")
    out_folder = check_out(out, overwrite=overwrite)
    shown_progress = check_progress(progress)
    if expect is not None:
        require_callable(expect, "expect")
    plan = _prepare(target, data, audit_settings, options)
    if expect is not None:
        with errors.user_code_errors("expect"):
            expect(_forecast(plan))
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(show_progress(shown_progress, "settings"))
        draft = None
        if out_folder is not None:
            run = RunDirectory(out_folder).writing(RUN_TYPE, plan.key, overwrite=overwrite, keep=(_FINISHED,))
            draft = stack.enter_context(run)
            pool = pool or draft.home / "pool"
        baseline, _ = _predict(plan.target, plan.data.nonmembers)
        finished = []
        for number, name in enumerate(plan.names):
            report(number, len(plan.names), name)
            finished.append(_measure_once(plan, number, baseline, draft, pool))
        report(len(plan.names), len(plan.names), "")
        references = plan.audit_settings.references
        result = TradeOff(
            tuple(each.row for each in finished),
            tuple(recipe.name for recipe in plan.prepared.inputs.recipes),
            float(max(plan.audit_settings.fpr)),
            "accuracy" if isinstance(plan.prepared.modality, Classifier) else "mean absolute error",
            float(options.max_loss),
            plan.audit_settings.seed,
            0 if references is None else references.count,
            type(_last_step(plan.target.estimator)).__name__,
            finished[0].warnings,
        )
        if draft is not None:
            result.write_to(draft)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What is measured: the target as it is, then an estimator of each setting, all audited alike.

    Args:
        target: the adapted target.
        data: in its order of columns and classes.
        names: of the models.
        estimators: unfitted; None for the target as it is.
        trainer: trains clones as the target is given its records.
        audit_settings: with the references decided.
        prepared: the audit of the target as it is.
        key: of all that determines the result.
    """

    target: Any
    data: AuditData
    names: list[str]
    estimators: list[Any]
    trainer: Any
    audit_settings: ResolvedAuditSettings
    prepared: PreparedAudit
    key: str


def _prepare(target: Any, data: AuditData, audit_settings: ResolvedAuditSettings, options: DefendSettings) -> _Plan:
    """Check everything that `run_settings` is given, and decide on reference models for all settings alike."""
    if audit_settings.references is not None and not isinstance(audit_settings.references, str):
        check_instance(audit_settings.references, "references", Train)
    for name in ("members", "nonmembers", "population"):
        if check_instance(getattr(data, name), name, Records).y is None:
            raise InputError(f"{name}: labels are needed to train on, and there is no y")
    if data.features is not None:  # of which a function is asked once for all models
        attached = attach_features(refuse_target_as_features(data, target), audit_settings.seed)
        data = replace(attached, features=None)
    subject = open_subject(target, data, task=audit_settings.task, unknown_classes=audit_settings.unknown_classes)
    model, data = subject.model, subject.data
    if not isinstance(model, SklearnTarget | SklearnRegressor):
        raise InputError(
            f"target: an estimator is trained again here, got {type(target).__name__}; train other models again "
            "yourself, audit each, and set them side by side with divulge compare"
        )
    subject.modality.check_records({"members": data.members, "nonmembers": data.nonmembers})
    trainer: Any = Train(count=2).for_target(model)
    grid = suggest_settings(trainer.estimator) if options.settings is None else list(options.settings)
    estimators = [None, *(_with_settings(trainer.estimator, each) for each in grid)]
    audit_settings = audit_settings.model_copy(update={"show_records": False})
    prepared, run_values = prepare_audit(model, data, audit_settings, ignore_progress, None)
    if isinstance(audit_settings.references, str):  # decided once, as the clones of another setting may be faster
        decided = None if prepared.references is None else Train(count=prepared.references.count)
        audit_settings = audit_settings.model_copy(update={"references": decided})
    covariates = itertools.chain.from_iterable((prepared.inputs.covariates or {}).items())
    key = store.hash_values(RUN_TYPE, run_values, *covariates, repr(grid), float(options.max_loss))
    names = [AS_IT_IS, *map(_describe, grid)]
    return _Plan(model, data, names, estimators, trainer, audit_settings, prepared, key)


def _measure_once(plan: _Plan, number: int, baseline: Floats, draft: RunDraft | None, pool: Path | None) -> _Finished:
    """Return the figures of a model: those that an interrupted run kept, or measured now and kept."""
    kept_file = None if draft is None else draft.path / _FINISHED / f"{number}.json"
    if kept_file is not None and kept_file.is_file():
        return store.parse_json(store.read_json(kept_file, inside=kept_file.parent), _Finished, kept_file)
    start = time.perf_counter()
    estimator, model, seed = plan.estimators[number], plan.target, plan.audit_settings.seed
    if estimator is not None:
        model = _train(replace(plan.trainer, estimator=estimator), plan.target, plan.data.members, seed)
    audited = run_audit(model, plan.data, plan.audit_settings, progress=None, pool=pool)
    losses, is_constant = _predict(model, plan.data.nonmembers)
    row = _measure(plan.names[number], audited, losses, baseline, max(plan.audit_settings.fpr), len(plan.names))
    row = replace(row, constant=is_constant)
    finished = _Finished(replace(row, seconds=round(time.perf_counter() - start, 2)), audited.warnings)
    if kept_file is not None:
        store.make_private_directory(kept_file.parent)
        store.write_json(kept_file, results.to_json_values(finished))
    return finished


def _forecast(plan: _Plan) -> SettingsForecast:
    """Forecast the training and the audits of the target as it is and of every setting."""
    prepared, n_settings = plan.prepared, len(plan.names) - 1
    unasked = make_forecast(prepared, on_disk=False)
    one = add_scoring_time(prepared, unasked, check_queries=determinism.count_queries(prepared))
    seconds = None
    if one.training is not None and one.scoring is not None:
        n_members, n_asked = len(plan.data.members), len(plan.data.nonmembers)
        fit = time_clone(plan.trainer, plan.data.members, prepared.n_classes, n_members, n_asked, prepared.seed)
        audits = one.training + one.scoring + estimate_check_seconds(prepared, one.models)
        seconds = audits * (1 + n_settings) + fit * n_settings
    return SettingsForecast(n_settings, one.models * (1 + n_settings), seconds)


def _train(training: clones.CloneTraining, target: Any, members: Records, seed: int) -> Any:
    """Train a clone on the members, and return it as the target is: with its columns, frames and names of classes.

    Raises:
        divulge.InputError: the members do not have all classes that the target was fitted on.
    """
    if isinstance(target, SklearnRegressor):
        trained = clones.train_regressor(training, members, seed)
    else:
        labels = members.labels
        classes = len(target.estimator.classes_) if labels is None else 1 + int(labels.max())
        trained = clones.train_clone(training, members, seed, max(classes, len(target.estimator.classes_)))
    inner = trained.target if isinstance(trained, FramedTarget) else trained
    estimator = inner.inner.estimator
    if isinstance(target, SklearnTarget) and len(estimator.classes_) != len(target.estimator.classes_):
        raise InputError(
            f"members: they have {len(estimator.classes_)} classes, and the target was fitted on "
            f"{len(target.estimator.classes_)}; give all records that it was trained on"
        )
    return replace(target, estimator=estimator)


def _with_settings(estimator: Any, settings: Mapping[str, Any]) -> Any:
    """Return a clone of an estimator with other parameters.

    Raises:
        divulge.InputError: a parameter that it does not have.
    """
    parameters = estimator.get_params()
    prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    is_open = type(_last_step(estimator)).__name__.startswith(("CatBoost", "XGB", "LGBM"))  # they take any name
    changed_parameters = {}
    for name, value in settings.items():
        full = name if name in parameters or not prefix else prefix + name
        if full not in parameters and not is_open:
            raise InputError(f"settings: {type(_last_step(estimator)).__name__} has no parameter {name!r}")
        changed_parameters[full] = value
    with errors.user_code_errors(f"settings: {_describe(settings)}"):
        return clones.clone_as_trained(estimator).set_params(**changed_parameters)


def _describe(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {format_value(value)}" for name, value in settings.items())


def _predict(model: Any, records: Records) -> tuple[Floats, bool]:
    """Return the cost of each prediction, 1 for a wrong class or the absolute error, and whether all are equal."""
    if isinstance(model, SklearnRegressor):
        predicted = as_predictions(model.predictions(records), len(records))
        losses = np.abs(np.asarray(records.y, np.float64) - predicted)
    else:
        _, predicted = query_target(model, records, ())
        losses = (predicted != records.labels).astype(np.float64)
    return losses, bool((predicted == predicted[0]).all())


def _measure(name: str, audited: Audit, losses: Floats, baseline: Floats, fpr: float, n_models: int) -> SettingResult:
    """Return the figures of a model; those of one kind hold for all models, and attacks, together."""
    confidence, attack_confidence = (1 - _CHANCE / count for count in (n_models, n_models * len(audited)))
    outcomes = [replace(audited[recipe], confidence=attack_confidence) for recipe in audited]
    strongest = max(outcomes, key=lambda outcome: abs(outcome.auc.value - 0.5))
    try:
        rate = strongest.tpr_at_fpr(fpr)
    except InputError:  # too few non-members
        rate = None
    is_share = bool(np.isin(losses, (0.0, 1.0)).all() and np.isin(baseline, (0.0, 1.0)).all())
    stored = audited.about.measured(StoredRecords)
    if is_share:
        right = statistics.proportion(int((losses == 0).sum()), len(losses), confidence)
        loss = statistics.paired_rate_difference(losses > 0, baseline > 0, confidence)
    else:
        right, loss = (
            statistics.mean_estimate(each, confidence, "t over records") for each in (losses, losses - baseline)
        )
    return SettingResult(
        name=name, answer=audited.verdict.answer, reason=audited.verdict.plain, auc=strongest.auc, tpr=rate,
        utility=right, loss=None if name == AS_IT_IS else loss, stored=0 if stored is None else stored.found,
        seconds=0.0, recipe=strongest.recipe, constant=False,
    )  # fmt: skip


def brief_rows(summary: TradeOffSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table that a first reader needs."""
    has_stored = any(row.stored for row in summary.rows)
    columns = ["setting", "pairs told apart", _loss_title(summary.utility), "audit"]
    columns += ["records in the file"] if has_stored else []
    format_utility = _utility_format(summary.utility)
    rows = [
        [
            row.name, str(_frequency_told_apart(row.auc)), "–" if row.loss is None else format_utility(row.loss),
            row.answer, *([f"{row.stored:,}" if row.stored else "none found"] if has_stored else ()),
        ]
        for row in summary.rows
    ]  # fmt: skip
    return columns, rows


def _loss_title(utility: str) -> str:
    return "accuracy lost" if utility == "accuracy" else "error added"


def setting_rows(summary: TradeOffSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the whole table of settings."""
    format_utility = _utility_format(summary.utility)
    columns = ["setting", "strongest attack", "AUC", f"TPR at FPR {formatting.format_percent(summary.fpr)}"]
    columns += [summary.utility, _loss_title(summary.utility), "records in the file", "audit"]
    rows = [
        [
            row.name, row.recipe, formatting.format_estimate(row.auc), formatting.format_percent_estimate(row.tpr),
            format_utility(row.utility), "–" if row.loss is None else format_utility(row.loss),
            f"{row.stored:,}" if row.stored else "none found", row.answer,
        ]
        for row in summary.rows
    ]  # fmt: skip
    return columns, rows


def _utility_format(utility: str) -> Callable[[Estimate], str]:
    """Return the form of utilities and losses: shares in per cent, errors in the unit of the values."""
    return formatting.format_percent_estimate if utility == "accuracy" else formatting.format_error


def _format_limit(utility: str, limit: float) -> str:
    return formatting.format_percent(limit) if utility == "accuracy" else formatting.format_amount(limit)


def _load_settings(folder: Path) -> pl.DataFrame:
    """Return one row per model: each estimate with both ends of its interval."""
    names = ("auc", "tpr", "utility", "loss")
    rows = [
        {
            "setting": row.name, "verdict": row.answer, "stored": row.stored, "recipe": row.recipe,
            **{
                name if end == "value" else f"{name}_{end}": getattr(getattr(row, name), end, None)
                for name in names
                for end in ("value", "low", "high")
            },
        }
        for row in TRADE_OFF.load(folder).summary.rows
    ]  # fmt: skip
    estimates = {name: pl.Float64 for name in rows[0] if name not in ("setting", "verdict", "stored", "recipe")}
    return pl.DataFrame(rows, schema_overrides=estimates)


_NOTE = (
    "Each model was trained again on the same members with its setting, and with its own reference models; utility is "
    "that on the non-members. AUC and TPR are those of the attack that tells most apart. All intervals of a column "
    "hold together with 95 %, so the best row may be chosen. A further training of the same setting, or more records, "
    "may give another value: audit the model that will be released."
)


def sections(run: StudyRun[TradeOff]) -> list[Section]:
    """Return the table of settings, and privacy against utility as a picture."""
    summary = run.summary
    columns, rows = setting_rows(summary)
    spec = charts.trade_off(
        {row.name: (row.utility, row.auc) for row in summary.rows},
        x=summary.utility,
        y="AUC of the strongest attack",
        reference=0.5,
        percent=summary.utility == "accuracy",
    )
    aucs = {row.name: row.auc for row in summary.rows}
    return [
        Section(
            "Settings", [Table(columns, rows, note=_NOTE), BulletList([Bullet(*each) for each in reasons(summary)])]
        ),
        Section(
            "Privacy against utility",
            [
                Chart(
                    spec,
                    note="Lower is more private; the dashed line is guessing. Bars are the intervals of the table.",
                ),
                Chart(charts.intervals(aucs, quantity="AUC", reference=0.5)),
            ],
        ),
        Section("What this does not say", [Paragraph(_CANNOT)]),
    ]


def reasons(summary: TradeOffSummary) -> list[tuple[str, str]]:
    """Return each setting with the sentence behind its verdict."""
    return [(f"{row.name}:", row.reason) for row in summary.rows]


_CANNOT = (
    "Only these settings and attacks were tried. A setting that lowers the AUC bounds no attack that was not "
    "tried, and gives no guarantee; training with differential privacy does."
)


def headline(run: StudyRun[TradeOff]) -> Headline:
    """Return what the settings do."""
    return Headline("plain", run.summary.verdict, "Privacy against utility")


def facts(run: StudyRun[TradeOff]) -> dict[str, str]:
    """Return what was trained and how it was attacked."""
    summary = run.summary
    return {
        "model": summary.model,
        "settings": str(len(summary.rows) - 1),
        "attacks": ", ".join(summary.recipes),
        "reference models": str(summary.references),
        "largest loss": _format_limit(summary.utility, summary.max_loss),
        "seed": str(summary.seed),
    }


def _read_run(directory: RunDirectory) -> StudyRun[TradeOff]:
    """Read the summary; the verdict is reached from its rows again.

    Raises:
        divulge.InputError: damaged, or without a setting.
    """
    stored = results.read_summary(directory.path, TradeOffSummary)
    if len(stored.rows) < 2 or any(row.loss is None for row in stored.rows[1:]):
        raise InputError(f"{directory.path / 'summary.json'}: damaged: a model and at least 1 setting are needed")
    if unknown := {row.recipe for row in stored.rows} - set(stored.recipes):
        name = format_value(unknown.pop())
        raise InputError(f"{directory.path / 'summary.json'}: damaged: {name} is none of the recipes")
    result = TradeOff(
        stored.rows, stored.recipes, stored.fpr, stored.utility, stored.max_loss, stored.seed, stored.references,
        stored.model, stored.warnings,
    )  # fmt: skip
    return reopen(result, stored)


TRADE_OFF = RunKind(
    name=RUN_TYPE,
    title="Settings that give away less",
    summary_type=TradeOffSummary,
    sections=sections,
    headline=headline,
    facts=facts,
    warnings=lambda run: run.summary.warnings,
    read=_read_run,
    records=_load_settings,
)
TradeOff.run_kind = TRADE_OFF
