"""Attribute inference from inputs to result: a model is asked about each record with every value of a column.

The adversary knows a record's other columns and its label, holds a population, and wants one column. Whoever asks the
model about the record with each possible value in turn sees which value makes the label likeliest; what the other
columns say of it by themselves is imputed from the population (Fredrikson et al. 2014, Yeom et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import special

from divulge import columns, inspection, lazy
from divulge.attributes.finding import IMPUTATION
from divulge.attributes.result import AttributeInference
from divulge.auditing import plausibility
from divulge.auditing.inputs import check_inputs
from divulge.auditing.modality import Classifier, RegressionModel
from divulge.duplicates import first_of_each_group, number_groups
from divulge.errors import InputError
from divulge.references import Custom, Train, splits
from divulge.references.progress import check_progress, show_progress
from divulge.results import StoredRecords
from divulge.run_directory import check_out
from divulge.settings import AttributeSettings, ResolvedAuditSettings
from divulge.study import compare_blindly, open_subject
from divulge.targets import is_label_only
from divulge.targets.outputs import as_predictions
from divulge.targets.rights import check_outputs
from divulge.types import AuditData, Records
from divulge.validation import check_bool, check_instance, check_path, format_value, is_missing

if TYPE_CHECKING:
    from sklearn import ensemble

    from divulge.references import Progress
    from divulge.references.progress import ProgressSetting
    from divulge.settings import Duplicates, Outputs, TaskName
    from divulge.types import Array, Bools, Floats, Ints
else:
    ensemble = lazy.module("sklearn.ensemble")

ColumnName: TypeAlias = int | str
_DEFAULTS = AttributeSettings()
_TREES, _LEAF = 100, 2  # of the imputation
_SMOOTHING = 0.02  # share of the marginal distribution in what is imputed
_LEAST_PROBABILITY = 0.01  # of a label; a leaf that never saw a class says 0, and no adversary is that sure
_MAX_RESIDUALS = 400
_LEAST_REACHABLE = 0.5  # of the candidates, that a guess can be right of: with fewer, most of a leak would go unseen
_LABEL_RIGHT, _LABEL_WRONG = np.log(0.9), np.log(0.1)


def infer(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records,
    column: ColumnName | Sequence[ColumnName],
    tolerance: float | None = _DEFAULTS.tolerance,
    references: Any = None,
    max_values: int = _DEFAULTS.max_values,
    margin: float = _DEFAULTS.margin,
    confidence: float = _DEFAULTS.confidence,
    duplicates: Duplicates = "error",
    outputs: Outputs = "logits",
    task: TaskName = "auto",
    device: str = "auto",
    seed: int = _DEFAULTS.seed,
    show_records: bool = True,
    pool: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
) -> AttributeInference:
    """Find out whether a model gives away one column of its training records.

    A guess that is right on everybody alike, because the column can be imputed from the others, is no leak of a record
    (Jayaraman & Evans 2022). So each attack's guesses are compared between members and non-members, and a guess from
    the population without the model is the control. Two attacks run: "model" weighs the likelihood of the record's
    label under each value with how frequent the value is; "model and imputation" with what the other columns say of
    it. With reference models the likelihood is relative to theirs.

    Args:
        target: a classifier or regression model, as for `divulge.audit`.
        members: records that it was trained on, with labels.
        nonmembers: records of the same kind that it was not trained on.
        population: further such records, from which the attribute is imputed.
        column: name of a table's column, or position in a row of numbers; several for one-hot codes, which have one
            value together.
        tolerance: of a column of real values: a guess so near is right. None compares values exactly.
        references: how reference models are trained on the population (`divulge.references.Train`, `Custom`), or None.
        max_values: values that are tried at most; of a real-valued column, at evenly spaced quantiles.
        margin: largest difference of the rates that counts as none.
        confidence: probability that all intervals hold.
        duplicates: what to do about records in several sets: "error", "drop" or "keep".
        outputs: "logits" or "probabilities": what a network or function returns.
        task: "auto", "classification" or "regression".
        device: where a torch module runs.
        seed: of every random draw.
        show_records: whether the values of the column may be named in the result and its files; without, they are
            numbered.
        pool: folder of finished reference models.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.
        progress: called with (done, total, note) while references are trained; "auto" or True: a bar on a terminal and
            in a notebook; None or False: nothing.

    Returns:
        An `AttributeInference`: ``result.finding.answer``, ``result.finding.attacks``.

    Raises:
        divulge.InputError: no such column, one value alone, more values than ``max_values`` without a tolerance, texts
            with a tolerance, records without labels, a language model, and what `divulge.audit` refuses.
    """
    options = AttributeSettings.check(
        tolerance=tolerance, max_values=max_values, margin=margin, confidence=confidence, seed=seed
    )
    audit_options = ResolvedAuditSettings.check(
        fpr=(0.5,), duplicates=duplicates, outputs=outputs, task=task, device=device, seed=seed, references=references
    )
    check_bool(overwrite, "overwrite")
    check_bool(show_records, "show_records")
    out_folder = check_out(out, overwrite=overwrite)
    pool_folder = None if pool is None else check_path(pool, "pool")
    shown_progress = check_progress(progress)
    if references is not None and not isinstance(references, Train | Custom):
        given_type = format_value(references)
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {given_type}")
    for name, records in (("members", members), ("nonmembers", nonmembers), ("population", population)):
        check_instance(records, name, Records)
    data = AuditData(members=members, nonmembers=nonmembers, population=population)
    study = _prepare(target, data, audit_options)
    names = _check_column(column, study.candidates)
    attribute = _read_attribute(study, names, options)
    n_values, is_shown = len(attribute.group_names), show_records or attribute.tolerance is not None  # thirds name none
    likelihood = _likelihoods(study, attribute)
    relative = None
    if study.references is not None:
        with show_progress(shown_progress, "reference models") as report:
            relative = _reference_likelihoods(study, attribute, options.seed, pool_folder, report)
    right = _guess(study, attribute, likelihood, relative, options.seed)
    y = np.asarray(study.candidates.y)
    split_check = compare_blindly(
        "blind classifier", study.candidates.x[study.truth], study.candidates.x[~study.truth],
        (y[study.truth], y[~study.truth]), options.seed, other_records=(study.population.x, study.population.y),
        apart="without the model, members can be told from non-members ({})",
        alike="members and non-members look alike",
    )  # fmt: skip
    stored, stored_notes = _find_stored_values(study, attribute, options.seed, split_check.passed is not False)
    result = AttributeInference(
        ids=np.asarray(study.candidates.ids),
        members=study.truth,
        is_counted=study.is_counted,
        values=attribute.groups[: len(study.truth)],
        value_names=attribute.group_names if is_shown else tuple(f"value {i + 1}" for i in range(n_values)),
        right=right,
        column=", ".join(map(str, names)),
        tried=len(attribute.donors),
        references=0 if relative is None else int(study.references.count),
        checks=(split_check,),
        warnings=(*study.warnings, *stored_notes),
        settings=options,
        doubt=_doubt_target(study, options.seed),
        stored=stored,
        copied=study.copied,
    )  # fmt: skip
    if out_folder is not None:
        result.save(out_folder, overwrite=overwrite)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Study:
    """Checked inputs: candidates (members first), the population, and a target that fits them."""

    target: Any
    is_regression: bool
    candidates: Records
    truth: Bools
    is_counted: Bools
    population: Records
    classes: int
    references: Any
    warnings: tuple[str, ...]
    copied: int
    repeats_kept: bool


def _prepare(target: Any, data: AuditData, options: ResolvedAuditSettings) -> _Study:
    """Check everything as an audit does, and bring columns and classes into the order that the model knows."""
    subject = open_subject(target, data, outputs=options.outputs, device=options.device, task=options.task)
    modality, references = subject.modality, options.references
    if not isinstance(modality, Classifier | RegressionModel):
        raise InputError(f"target: a classifier or a regression model of rows is needed, this is {modality.name}")
    if isinstance(references, Train):
        references = references.for_target(subject.model)
    recipes = modality.default_recipes(subject.target, None)
    options = options.model_copy(update={"recipes": recipes, "references": None})
    checked = check_inputs(subject.data, options, modality, subject.target)
    if references is not None:
        modality.check_references(references, checked.recipes, subject.data.members)
    population = Records.concatenate([checked.population, checked.calibration])
    if checked.candidates.y is None or population.y is None:
        raise InputError("members: the adversary knows each record's label, and there is no y")
    if checked.candidates.x.dtype == object or checked.candidates.x.ndim != 2:
        raise InputError("members: rows of a table are needed, an attribute is one of their columns")
    is_counted = np.ones(len(checked.truth), dtype=bool)
    if checked.duplicate_groups is not None:
        is_counted = np.zeros_like(is_counted)
        is_counted[first_of_each_group(checked.duplicate_groups, checked.truth)] = True
    return _Study(
        subject.target, isinstance(modality, RegressionModel), checked.candidates, checked.truth, is_counted,
        population, modality.probe_target(subject.target, checked), references, (*checked.warnings, *subject.notes),
        checked.copied, checked.repeats_kept(options.duplicates),
    )  # fmt: skip


def _check_column(column: Any, records: Records) -> tuple[ColumnName, ...]:
    """Return the columns of the attribute: names of a table, or positions in a row."""
    column_names = tuple(column) if isinstance(column, list | tuple) else (column,)
    is_name = all(isinstance(name, int | str | np.integer) and not isinstance(name, bool) for name in column_names)
    if not column_names or not is_name or len(set(column_names)) < len(column_names):
        raise InputError(f"column: one column, or several different ones, are needed, got {format_value(column)}")
    for name in column_names:
        if records.table is not None:
            if name not in records.table.columns:
                listed = ", ".join(records.table.columns[:20]) + (" …" if len(records.table.columns) > 20 else "")
                raise InputError(f"column: the records have no column {format_value(name)}; they have {listed}")
        elif isinstance(name, str) or not 0 <= name < records.x.shape[1]:
            raise InputError(
                f"column: a position from 0 to {records.x.shape[1] - 1} is needed, got {format_value(name)}"
            )
    width = records.x.shape[1] if records.table is None else len(records.table.columns)
    if len(column_names) == width:
        raise InputError("column: the adversary knows the other columns, and there are none")
    return column_names


@dataclass(frozen=True, slots=True, eq=False)
class _Attribute:
    """The column of interest.

    Args:
        columns: its names or positions.
        donors: row of the population that has each value that is tried, ``[k]``.
        codes: number of each record's value among those tried, −1 for another; candidates, then population.
        numbers: the values as numbers, candidates, then population, where they are compared with a tolerance.
        grid: the values that are tried, as numbers ``[k]``, likewise.
        tolerance: largest difference of a right guess; None where values are compared exactly.
        groups: number of each record's value, or third, for the table of values; candidates, then population.
        group_names: their names.
        features: the other columns as numbers, candidates, then population ``[n + z, d]``.
    """

    columns: tuple[ColumnName, ...]
    donors: Ints
    codes: Ints
    numbers: Floats | None
    grid: Floats | None
    tolerance: float | None
    groups: Ints
    group_names: tuple[str, ...]
    features: Floats


def _read_attribute(study: _Study, names: tuple[ColumnName, ...], options: AttributeSettings) -> _Attribute:
    """Read the column, choose the values to try, and set it to one value everywhere else."""
    n = len(study.candidates)
    everything = Records.concatenate([study.candidates, study.population])
    cells = [
        everything.x[:, int(name)]
        if everything.table is None
        else columns.read_column(everything.table, str(name)).values
        for name in names
    ]

    def spell(value: Any) -> str:  # a missing value is not the text "None", and −0 is 0
        return "-" if is_missing(value) else f"={value + 0.0 if isinstance(value, float) else value}"

    spelled = np.array(["\x1f".join(map(spell, row)) for row in zip(*(each.tolist() for each in cells), strict=True)])
    population_values, first_rows = np.unique(spelled[n:], return_index=True)
    if len(population_values) < 2:
        raise InputError(f"column: {names[0]!r} has a single value in the population; there is nothing to infer")
    features = everything.with_columns_of(names, everything, n).x.reshape(len(everything), -1).astype(np.float64)
    if options.tolerance is not None:
        return _real_attribute(names, cells, n, features, options)
    if len(population_values) > min(options.max_values, max(2.0, len(study.population) / 2)):
        raise InputError(
            f"column: {names[0]!r} has {len(population_values)} values among {len(study.population)} records "
            f"of the population; at most max_values = {options.max_values} are tried, each of two records or more on "
            "average; give a tolerance for a column of real values"
        )
    _, group_rows, groups = np.unique(spelled, return_index=True, return_inverse=True)
    place = {value: code for code, value in enumerate(population_values.tolist())}
    codes = np.array([place.get(value, -1) for value in spelled.tolist()])
    if (reachable := float((codes[:n] >= 0).mean())) < _LEAST_REACHABLE:
        raise InputError(
            f"column: {1 - reachable:.0%} of the members and non-members have a value of {names[0]!r} that nobody in "
            "the population has, and no guess of them can be right"
        )
    group_names = _value_names(everything, names, group_rows.tolist())
    return _Attribute(names, first_rows, codes, None, None, None, groups, group_names, features)


def _value_names(records: Records, names: tuple[ColumnName, ...], rows: list[int]) -> tuple[str, ...]:
    """Return the values of the attribute in some rows as a reader knows them; texts in quotes where two look alike."""
    cells = [
        [records.x[row, int(name)].item() for row in rows]
        if records.table is None
        else [records.table[str(name)][row] for row in rows]
        for name in names
    ]
    texts = [", ".join(map(columns.format_cell, row)) for row in zip(*cells, strict=True)]
    if len(set(texts)) < len(texts):
        texts = [
            ", ".join(repr(value) if isinstance(value, str) else columns.format_cell(value) for value in row)
            for row in zip(*cells, strict=True)
        ]
    if len(set(texts)) < len(texts):  # numbers that differ in their last digits
        texts = [", ".join(map(repr, row)) for row in zip(*cells, strict=True)]
    return tuple(texts)


def _real_attribute(
    names: tuple[ColumnName, ...], cells: list[Array], n: int, features: Floats, options: AttributeSettings
) -> _Attribute:
    if len(cells) > 1 or cells[0].dtype.kind not in "iufb":
        raise InputError("tolerance: goes with one column of numbers")
    numbers = cells[0].astype(np.float64)
    if np.isnan(numbers).any():
        raise InputError(f"tolerance: column {names[0]!r} has missing values, which are near to none")
    grid, rows = np.unique(numbers[n:], return_index=True)
    if len(grid) > options.max_values:
        places = np.unique(np.linspace(0, len(numbers) - n - 1, options.max_values).round().astype(int))
        grid = np.unique(np.sort(numbers[n:])[places])
        order = np.argsort(numbers[n:], kind="stable")
        rows = order[np.searchsorted(numbers[n:][order], grid)]
    # By some tolerances most guesses cannot be right, or all are: neither would show a leak.
    values, population_values, tolerance = numbers[:n], numbers[n:], float(options.tolerance or 0.0)
    if (np.maximum(grid - population_values.min(), population_values.max() - grid) <= tolerance).any():
        raise InputError(
            f"tolerance: {tolerance:g} is so wide that one guess is right of every record of the population; there is "
            "nothing to infer"
        )
    above = np.minimum(np.searchsorted(grid, values), len(grid) - 1)
    distances = np.minimum(np.abs(grid[above] - values), np.abs(grid[np.maximum(above - 1, 0)] - values))
    if (reachable := float((distances <= tolerance).mean())) < _LEAST_REACHABLE:
        raise InputError(
            f"tolerance: {tolerance:g} is so narrow that none of the {len(grid)} values that are tried comes near "
            f"enough to {1 - reachable:.0%} of the values of members and non-members; give a wider one, or a larger "
            "max_values"
        )
    thirds = np.quantile(numbers[n:], (1 / 3, 2 / 3))
    groups = np.searchsorted(thirds, numbers, side="left")
    return _Attribute(
        names, rows, np.full(len(numbers), -1), numbers, grid, tolerance, groups,
        ("low third", "middle third", "high third"), features,
    )  # fmt: skip


def _doubt_target(study: _Study, seed: int) -> str:
    """Say why the target may not be the model that was trained on the members; empty where it surely is."""
    answers = _read_outputs(study.target, study.candidates, study)
    if study.is_regression:
        y = np.asarray(study.candidates.y, dtype=np.float64)
        return plausibility.describe_regression_doubt(
            plausibility.measure_regression_fit(y, answers.astype(np.float64), study.truth)
        )
    labels = np.asarray(study.candidates.labels)
    predicted = answers if answers.ndim == 1 else answers.argmax(axis=1)
    if answers.ndim == 2:
        check_outputs(study.target, answers, labels)
        fit = plausibility.measure_class_fit(answers[study.truth], labels[study.truth], seed)
        if fit is not None and plausibility.fits_classes(fit):
            return ""
    return plausibility.describe_accuracy_doubt(int((predicted == labels)[study.truth].sum()), labels[study.truth])


def _find_stored_values(
    study: _Study, attribute: _Attribute, seed: int, is_comparable: bool
) -> tuple[StoredRecords | None, tuple[str, ...]]:
    """Search the model's arrays for candidates with their attribute; also warn of candidates that stand without it.

    An array holds the attribute if fewer records match it, or fewer columns do, once all have another value.
    """
    stored = inspection.find_stored_records(
        study.target, study.candidates, study.truth, seed=seed, comparable=is_comparable,
        repeats_kept=study.repeats_kept,
    )  # fmt: skip
    if not stored.arrays:
        return None, ()
    without = stored.matches
    for row in (attribute.donors[0], attribute.donors[-1]) if stored.matches else ():
        changed = study.candidates.with_columns_of(attribute.columns, study.population, int(row))
        stored_with_change = inspection.find_stored_records(study.target, changed, study.truth, seed=seed, bound=0.5)
        unchanged = {(match.array, match.form, match.members, match.columns) for match in stored_with_change.matches}
        without = tuple(
            match for match in without if (match.array, match.form, match.members, match.columns) in unchanged
        )
    matches = tuple(match for match in stored.matches if match not in without)
    if len(matches) == len(stored.matches):
        return stored, ()
    if not matches:
        return None, (f"{stored.sentence[:-1]}, without the column of interest",)
    return replace(stored, matches=matches, found=matches[0].members, nonmembers_found=matches[0].nonmembers), ()


def _versions(study: _Study, attribute: _Attribute) -> list[Records]:
    """Return the candidates with each value that is tried in their column."""
    return [study.candidates.with_columns_of(attribute.columns, study.population, int(row)) for row in attribute.donors]


def _likelihoods(study: _Study, attribute: _Attribute) -> Floats:
    """Return the log-likelihood of each candidate's label under each value ``[n, k]``."""
    read = [_read_outputs(study.target, records, study) for records in _versions(study, attribute)]
    if study.is_regression:
        spread = _error_spread(_read_outputs(study.target, study.population, study), study.population)
        return np.stack([_log_error(each, study.candidates, spread) for each in read], axis=1)
    return np.stack([_log_class(each, study.candidates, study.target) for each in read], axis=1)


def _read_outputs(target: Any, records: Records, study: _Study) -> Array:
    if study.is_regression:
        return as_predictions(target.predictions(records), len(records))
    return target.labels(records) if is_label_only(target) else target.logits(records)


def _log_class(answers: Array, records: Records, target: Any) -> Floats:
    labels = np.asarray(records.y, dtype=np.int64)
    if answers.ndim == 1:
        return np.where(answers == labels, _LABEL_RIGHT, _LABEL_WRONG)
    logits = special.log_softmax(np.asarray(answers, np.float64), axis=1)[np.arange(len(labels)), labels]
    return np.maximum(logits, np.log(_LEAST_PROBABILITY))


def _error_spread(predictions: Floats, records: Records) -> float:
    """Return the robust deviation of the errors on the population; 1 where there is none."""
    errors = np.asarray(records.y, np.float64) - predictions
    spread = 1.4826 * float(np.median(np.abs(errors - np.median(errors)))) or float(errors.std())
    return spread or 1.0


def _log_error(predictions: Floats, records: Records, spread: float) -> Floats:
    """Return the Cauchy log-likelihood of the error, relative to its peak."""
    return -np.log1p(((np.asarray(records.y, np.float64) - predictions) / spread) ** 2)


def _reference_likelihoods(
    study: _Study, attribute: _Attribute, seed: int, pool: Path | None, progress: Progress | None
) -> Floats:
    """Return the log of the mean likelihood under models that were trained on halves of the population ``[n, k]``."""
    population, references = study.population, study.references
    halves = splits.offline(
        len(population),
        references.count,
        seed,
        labels=population.labels,
        groups=number_groups(population.x, population.y),
    )
    versions = _versions(study, attribute)
    common: dict[str, Any] = {"seed": seed, "observe": tuple(versions), "pool": pool, "progress": progress}
    if study.is_regression:

        def measure(model: Any, observed: Records) -> Floats:
            return as_predictions(model.predictions(observed), len(observed))[:, None]

        spread = _error_spread(_read_outputs(study.target, population, study), population)
        answers = references.fit(population, halves, measure=measure, **common).outputs
        logs = [[_log_error(np.asarray(row)[:, 0], study.candidates, spread) for row in each] for each in answers]
    else:
        answers = references.fit(population, halves, classes=study.classes, **common).outputs
        logs = [[_log_class(np.asarray(row), study.candidates, study.target) for row in each] for each in answers]
    stacked = np.asarray(logs)  # [k, models, n]
    return (special.logsumexp(stacked, axis=1) - np.log(stacked.shape[1])).T


def _guess(
    study: _Study, attribute: _Attribute, likelihood: Floats, relative: Floats | None, seed: int
) -> dict[str, Bools]:
    """Return whether each attack's guess is right, by its name; the imputation last."""
    n = len(study.candidates)
    y = np.concatenate([np.asarray(study.candidates.y), np.asarray(study.population.y)]).astype(np.float64)
    with_label = np.column_stack([attribute.features, y])
    impute = _impute_numbers if attribute.tolerance is not None else _impute_classes
    imputed = impute(attribute, with_label, n, seed)
    marginal = np.broadcast_to(_marginal(attribute, n), likelihood.shape)
    if relative is None:  # the label is read from the model, and not a second time from the population
        weighed = {"model": marginal + likelihood,
                   "model and imputation": impute(attribute, attribute.features, n, seed) + likelihood}  # fmt: skip
    else:
        weighed = {"model": marginal + likelihood, "model against references": imputed + likelihood - relative}
    return {name: _is_right(attribute, logs, n) for name, logs in {**weighed, IMPUTATION: imputed}.items()}


def _marginal(attribute: _Attribute, n: int) -> Floats:
    """Return the log of how frequent each value that is tried is in the population ``[k]``."""
    if attribute.grid is not None and attribute.numbers is not None:
        nearest = np.abs(attribute.numbers[n:, None] - attribute.grid).argmin(axis=1)
        counts = np.bincount(nearest, minlength=len(attribute.grid))
    else:
        counts = np.bincount(attribute.codes[n:], minlength=len(attribute.donors))
    return np.log((counts + 0.5) / (counts + 0.5).sum())


def _impute_classes(attribute: _Attribute, features: Floats, n: int, seed: int) -> Floats:
    """Return the log-probability of each value, from a forest on the population ``[n, k]``."""
    forest = ensemble.RandomForestClassifier(_TREES, min_samples_leaf=_LEAF, random_state=seed)
    forest.fit(features[n:], attribute.codes[n:])
    probabilities = np.zeros((n, len(attribute.donors)))
    probabilities[:, forest.classes_] = forest.predict_proba(features[:n])
    marginal = np.exp(_marginal(attribute, n))
    return np.log((1 - _SMOOTHING) * probabilities + _SMOOTHING * marginal)


def _impute_numbers(attribute: _Attribute, features: Floats, n: int, seed: int) -> Floats:
    """Return the log of the share of each value on the grid, from a forest's mean and its out-of-bag errors."""
    assert attribute.numbers is not None
    assert attribute.grid is not None
    population_values = attribute.numbers[n:]
    forest = ensemble.RandomForestRegressor(_TREES, min_samples_leaf=_LEAF, random_state=seed, oob_score=True)
    forest.fit(features[n:], population_values)
    errors = population_values - forest.oob_prediction_
    errors = np.quantile(errors, (np.arange(_MAX_RESIDUALS) + 0.5) / _MAX_RESIDUALS)
    width = max(
        float(errors.std()) * 0.3, (attribute.tolerance or 0.0) / 2, 1e-9 * float(np.abs(population_values).max() + 1)
    )
    means = forest.predict(features[:n])
    shares = np.empty((n, len(attribute.grid)))
    for k, value in enumerate(attribute.grid):
        z = (value - means[:, None] - errors) / width
        shares[:, k] = special.logsumexp(-(z**2) / 2, axis=1)
    # Each value stands for what is nearest to it on the line.
    edges = np.concatenate([attribute.grid[:1], (attribute.grid[1:] + attribute.grid[:-1]) / 2, attribute.grid[-1:]])
    shares += np.log(np.maximum(np.diff(edges), 1e-12 * (np.abs(attribute.grid).max() + 1)))
    return shares - special.logsumexp(shares, axis=1, keepdims=True)


def _is_right(attribute: _Attribute, logs: Floats, n: int) -> Bools:
    """Return whether the likeliest value is the true one, or within the tolerance of it."""
    if attribute.grid is None or attribute.numbers is None or attribute.tolerance is None:
        return logs.argmax(axis=1) == attribute.codes[:n]
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    is_near = np.abs(attribute.grid[:, None] - attribute.grid) <= attribute.tolerance
    guesses = attribute.grid[(weights @ is_near).argmax(axis=1)]
    return np.abs(guesses - attribute.numbers[:n]) <= attribute.tolerance
