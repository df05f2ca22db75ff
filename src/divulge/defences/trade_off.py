"""Privacy against utility: an estimator is trained again on its members with each of several settings, and audited.

Every model is audited on the same candidates by the same recipe, with reference models that have its own settings, and
predicts the same non-members. All intervals hold together (Bonferroni), so that the best setting may be chosen by them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import errors, results, statistics
from divulge.auditing.modality import Classifier
from divulge.auditing.pipeline import audit
from divulge.errors import InputError
from divulge.evidence import query_target
from divulge.provenance import collect_environment
from divulge.references import Train, clones
from divulge.references.progress import check_progress, show_progress
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
from divulge.validation import check_bool, check_instance, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.auditing import Audit
    from divulge.references.progress import ProgressSetting
    from divulge.run_directory import RunDraft
    from divulge.settings import Duplicates, TaskName
    from divulge.types import Floats

RUN_TYPE = "trade-off"
AS_IT_IS = "as it is"
_DEFAULTS = DefendSettings()
_ROUNDS, _LEAVES, _DEPTH = ("n_estimators", "max_iter", "iterations"), ("max_leaf_nodes", "num_leaves"), ("max_depth",)
_LEAF = ("min_samples_leaf", "min_child_samples", "min_child_weight")
_CHANCE = 0.05


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
        recipe: the attack.
        fpr: the false-positive rate of the rates.
        utility: "accuracy", or "mean absolute error".
        max_loss: largest loss of utility that a recommended setting may have.
        seed: of every random draw.
        references: reference models of each.
        model: class of the target.
        warnings: of the audit of the target as it is.
    """

    rows: tuple[SettingResult, ...]
    recipe: str
    fpr: float
    utility: str
    max_loss: float
    seed: int
    references: int
    model: str
    warnings: tuple[str, ...] = ()

    @property
    def recommended(self) -> SettingResult | None:
        """The setting whose AUC is nearest to ½ among those that surely lose no more than ``max_loss``; else None.

        An AUC below ½ gives away as much as one that lies as far above it: the score reversed finds members.
        """
        unchanged = self.rows[0]
        acceptable = [row for row in self.rows[1:] if row.loss is not None and row.loss.high <= self.max_loss]
        acceptable = [
            row
            for row in acceptable
            if _distance_from_chance(row) < _distance_from_chance(unchanged) and row.stored <= unchanged.stored
        ]
        return min(acceptable, key=_distance_from_chance, default=None)

    @property
    def verdict(self) -> str:
        """Effect of the settings, in sentences."""
        unchanged, best = self.rows[0], self.recommended
        rate = _frequency_told_apart(unchanged.auc)
        text = (
            f"As it is, shown a training record and another one, the attack {self.recipe} tells which is which in "
            f"about {rate.describe('such pairs')}; guessing is right in {rate.total // 2:,}. "
        )
        if unchanged.stored:
            after = min(row.stored for row in self.rows[1:])
            text += f"{unchanged.stored:,} training records stand in the model; " + (
                "no setting takes them out of it. " if after else "with some of the settings none does. "
            )
        if best is None:
            limit = f"{_format_limit(self.utility, self.max_loss)} {'of' if self.utility == 'accuracy' else 'more'}"
            return f"{text}No setting that was tried makes that rarer and surely costs at most {limit} {self.utility}."
        assert best.loss is not None
        rate = _frequency_told_apart(best.auc)
        return f"{text}With {best.name} it does so in about {rate}, and {_describe_change(self.utility, best.loss)}."

    def summary(self) -> TradeOffSummary:
        """Return the typed summary for JSON and the report."""
        best = self.recommended
        return TradeOffSummary(
            verdict=self.verdict, tone="plain", recipe=self.recipe, fpr=self.fpr, utility=self.utility,
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


def _distance_from_chance(row: SettingResult) -> float:
    return abs(row.auc.value - 0.5)


def measure_settings(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records,
    settings: Sequence[Mapping[str, Any]] | None = None,
    recipe: Any = "auto",
    references: Train | None = None,
    fpr: float = 0.05,
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
        recipe: the attack, as for `divulge.audit`.
        references: `divulge.references.Train`: reference models are clones with the same settings; or None.
        fpr: false-positive rate of the rates.
        max_loss: largest loss of accuracy that the recommended setting may have; of a regression model, of the mean
            absolute error, in its own units.
        duplicates: what to do about records in several sets.
        task: "auto", "classification" or "regression".
        seed: of every random draw.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.
        progress: called with (done, total, note) after each model; "auto" or True: a bar on a terminal and in a
            notebook; None or False: nothing.

    Returns:
        A `TradeOff`: ``result.rows``, ``result.recommended``.

    Raises:
        divulge.InputError: no estimator, unknown parameters or values it refuses, and what `divulge.audit` refuses.
    """
    options = DefendSettings.check(settings=settings, max_loss=max_loss, seed=seed)
    ResolvedAuditSettings.check(fpr=(fpr,), duplicates=duplicates, task=task)
    check_bool(overwrite, "overwrite")
    out_folder = check_out(out, overwrite=overwrite)
    shown_progress = check_progress(progress)
    if hasattr(recipe, "__len__") and not isinstance(recipe, str):
        raise InputError(f"recipe: one attack is needed, got {format_value(recipe)}")
    if references is not None:
        check_instance(references, "references", Train)
    for name, records in (("members", members), ("nonmembers", nonmembers), ("population", population)):
        if check_instance(records, name, Records).y is None:
            raise InputError(f"{name}: labels are needed to train on, and there is no y")
    data = AuditData(members=members, nonmembers=nonmembers, population=population)
    subject = open_subject(target, data, task=task)
    adapted, modality = subject.model, subject.modality
    if not isinstance(adapted, SklearnTarget | SklearnRegressor):
        raise InputError(
            f"target: an estimator is trained again here, got {type(target).__name__}; train other models again "
            "yourself, audit each, and set them side by side with divulge compare"
        )
    members, nonmembers = subject.data.members, subject.data.nonmembers
    modality.check_records({"members": members, "nonmembers": nonmembers})
    trainer: Any = Train(count=2).for_target(adapted)
    grid = suggest_settings(trainer.estimator) if options.settings is None else list(options.settings)
    estimators = [_with_settings(trainer.estimator, each) for each in grid]
    confidence = 1 - _CHANCE / (len(grid) + 1)
    audit_options: dict[str, Any] = {
        "members": members, "nonmembers": nonmembers, "population": subject.data.population,
        "recipes": (recipe,), "references": references, "fpr": (fpr,), "duplicates": duplicates, "seed": options.seed,
        "task": task, "show_records": False, "progress": None,
    }  # fmt: skip
    rows: list[SettingResult] = []
    baseline: Floats | None = None
    warnings: tuple[str, ...] = ()
    attack = ""
    with show_progress(shown_progress, "settings") as report:
        for place, estimator in enumerate([None, *estimators]):
            name = AS_IT_IS if estimator is None else _describe(grid[place - 1])
            report(place, len(estimators) + 1, name)
            start = time.perf_counter()
            model = adapted
            if estimator is not None:
                model = _train(replace(trainer, estimator=estimator), adapted, members, options.seed)
            audited = audit(model, **audit_options)
            losses = _losses(model, nonmembers)
            baseline = losses if baseline is None else baseline
            rows.append(_measure(name, audited, losses, baseline, fpr, confidence, time.perf_counter() - start))
            warnings, attack = warnings or audited.warnings, next(iter(audited))
        report(len(estimators) + 1, len(estimators) + 1, "")
    result = TradeOff(
        tuple(rows), attack, float(fpr),
        "accuracy" if isinstance(modality, Classifier) else "mean absolute error", float(options.max_loss),
        options.seed, 0 if references is None else references.count, type(_last_step(adapted.estimator)).__name__,
        tuple(warnings),
    )  # fmt: skip
    if out_folder is not None:
        result.save(out_folder, overwrite=overwrite)
    return result


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


def _losses(model: Any, records: Records) -> Floats:
    """Return what the model's prediction of each record costs: 1 where the class is wrong, or the absolute error."""
    if isinstance(model, SklearnRegressor):
        return np.abs(np.asarray(records.y, np.float64) - as_predictions(model.predictions(records), len(records)))
    _, predicted = query_target(model, records, ())
    return (predicted != records.labels).astype(np.float64)


def _measure(
    name: str, audited: Audit, losses: Floats, baseline: Floats, fpr: float, confidence: float, seconds: float
) -> SettingResult:
    outcome = replace(audited[next(iter(audited))], confidence=confidence)
    try:
        rate = outcome.tpr_at_fpr(fpr)
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
        name=name, answer=audited.verdict.answer, reason=audited.verdict.plain, auc=outcome.auc, tpr=rate,
        utility=right, loss=None if name == AS_IT_IS else loss, stored=0 if stored is None else stored.found,
        seconds=round(seconds, 2),
    )  # fmt: skip


def setting_rows(summary: TradeOffSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of settings."""
    format_utility = _utility_format(summary.utility)
    columns = ["setting", f"AUC of {summary.recipe}", f"TPR at FPR {formatting.format_percent(summary.fpr)}"]
    columns += [
        summary.utility,
        "accuracy lost" if summary.utility == "accuracy" else "error added",
        "records in the file",
        "verdict",
    ]
    rows = [
        [
            row.name, formatting.format_estimate(row.auc), formatting.format_percent_estimate(row.tpr),
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
            "setting": row.name, "verdict": row.answer, "stored": row.stored,
            **{
                name if end == "value" else f"{name}_{end}": getattr(getattr(row, name), end, None)
                for name in names
                for end in ("value", "low", "high")
            },
        }
        for row in TRADE_OFF.load(folder).summary.rows
    ]  # fmt: skip
    estimates = {name: pl.Float64 for name in rows[0] if name not in ("setting", "verdict", "stored")}
    return pl.DataFrame(rows, schema_overrides=estimates)


_NOTE = (
    "Each model was trained again on the same members with its setting, and with its own reference models; utility is "
    "that on the non-members. All intervals hold together with 95 %, so the best row may be chosen. A further training "
    "of the same setting, or more records, may give another value: audit the model that will be released."
)


def sections(run: StudyRun[TradeOff]) -> list[Section]:
    """Return the table of settings, and privacy against utility as a picture."""
    summary = run.summary
    columns, rows = setting_rows(summary)
    spec = charts.trade_off(
        {row.name: (row.utility, row.auc) for row in summary.rows},
        x=summary.utility,
        y=f"AUC of {summary.recipe}",
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
    "Only these settings and this attack were tried. A setting that lowers the AUC bounds no attack that was not "
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
        "attack": summary.recipe,
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
    result = TradeOff(
        stored.rows, stored.recipe, stored.fpr, stored.utility, stored.max_loss, stored.seed, stored.references,
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
