"""Published regressions: coefficients read from a model's file or a table, and the cohorts they were fitted on."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from divulge import margin, store
from divulge.datafiles import FileLayout, read_named_rows
from divulge.errors import InputError
from divulge.report import formatting
from divulge.results import CohortsSummary, OddRecordResult, SubsetResult
from divulge.targets.skops_files import read_skops
from divulge.validation import check_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.margin import CohortMatch, OddRecord, Publication, SubsetFit
    from divulge.settings import CohortSettings
    from divulge.types import Array, Floats, Tone

_INTERCEPTS = ("intercept", "(intercept)", "const", "constant", "_cons", "bias")
_EXACT_DIGITS = 15  # significant digits from which on a number is taken to be whole
_LBFGS_GRADIENT = 1e-5  # lbfgs stops where the loss no longer falls, too, which no tolerance shows
_N_SHOWN = 12  # subsets that are not accepted, the nearest first
_NAMES = {"logistic": "logistic", "linear": "linear", "poisson": "Poisson"}


def examine_cohorts(
    model: Path, paths: Sequence[Path], settings: CohortSettings, layout: FileLayout, *, show_records: bool = True
) -> CohortsSummary:
    """Say which cohorts a published regression was fitted on.

    Args:
        model: a .skops file of a scikit-learn regression, or a table (.csv) of names and coefficients.
        paths: tables of the cohorts, with the columns of the coefficients by name, and a label.
        settings: how the regression was fitted, where the model's file does not say it.
        layout: of the tables.
        show_records: whether a record that can be read off may be shown.

    Raises:
        divulge.InputError: a model that is no such regression or whose fit solves no equation that can be checked
            (L1 penalty, class weights, early stopping), settings that contradict its file, columns that differ.
    """
    published, columns, classes = (
        _read_table(model, settings) if model.suffix == ".csv" else _read_model(model, settings)
    )
    data = {}
    for path in paths:
        if path.stem in data:
            raise InputError(f"--cohort: two files are called {path.stem}; their names stand for them")
        rows = read_named_rows(check_path(path, "--cohort"), layout, columns)
        if rows.y is None:
            raise InputError(f"{path}: a label is needed (--label names its column)")
        if rows.x.shape[1] != len(published.coefficients):
            raise InputError(f"{path}: {len(published.coefficients)} columns are needed, got {rows.x.shape[1]}")
        data[path.stem] = (rows.x, _encode_labels(rows.y, classes, path))
    match = margin.cohorts(published, data)
    return summarise(match, published, {name: len(y) for name, (_, y) in data.items()}, columns, show_records)


def _encode_labels(y: Array, classes: Array | None, path: Path) -> Floats:
    if classes is not None:
        if not np.isin(y, classes).all():
            raise InputError(f"{path}: labels are needed that the model was fitted on, {classes[0]} and {classes[1]}")
        return (y == classes[1]).astype(float)
    if np.asarray(y).dtype.kind not in "iufb":
        raise InputError(f"{path}: labels that are numbers are needed (of logistic regression, 0 and 1)")
    return np.asarray(y, float)


def _read_table(path: Path, settings: CohortSettings) -> tuple[Publication, tuple[str, ...], None]:
    """Read names and coefficients, and how many decimals they have."""
    numbers: dict[str, str] = {}
    text = store.read_text(check_path(path, "model"), limit=store.MAX_LINES_BYTES).removeprefix("\ufeff")
    for row in csv.reader(text.splitlines()):
        if len(row) < 2 or (not numbers and not _is_number(row[1])):
            continue  # the names of the columns
        if not _is_number(row[1]) or row[0].strip() in numbers:
            raise InputError(f"{path}: names, each once, and beside them their coefficients are needed, got {row}")
        numbers[row[0].strip()] = row[1].strip()
    if not numbers:
        raise InputError(
            f"{path}: names and, after a comma, their coefficients are needed, a pair on a line; none found"
        )
    intercept = next((name for name in numbers if name.lower() in _INTERCEPTS), None)
    columns = tuple(name for name in numbers if name != intercept)
    decimals = max((_count_decimals(number) for number in numbers.values()), default=0)
    digits = max((sum(c.isdigit() for c in number.lower().split("e")[0]) for number in numbers.values()), default=0)
    published = margin.Publication(
        np.array([float(numbers[name]) for name in columns]),
        None if intercept is None else float(numbers[intercept]),
        settings.family or "logistic",
        settings.decimals if settings.decimals is not None else None if digits >= _EXACT_DIGITS else decimals,
        settings.penalty,
        settings.scaled,
        settings.penalises_intercept,
        gradient=settings.gradient,
    )
    return published, columns, None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _count_decimals(number: str) -> int:
    mantissa, _, exponent = number.lower().partition("e")
    return max(len(mantissa.partition(".")[2]) - int(exponent or 0), 0)


def _read_model(path: Path, settings: CohortSettings) -> tuple[Publication, tuple[str, ...], Array | None]:
    """Read the coefficients of a scikit-learn regression, and how its file says that it was fitted."""
    model: Any = read_skops(check_path(path, "model"))
    columns = tuple(getattr(model, "feature_names_in_", ()))
    scaled = isinstance(model, Pipeline)
    if scaled:
        steps = [step for _, step in model.steps]
        if (
            len(steps) != 2
            or not isinstance(steps[0], StandardScaler)
            or not (steps[0].with_mean and steps[0].with_std)
        ):
            raise InputError("model: a regression alone, or behind one StandardScaler, is needed")
        model = steps[1]
    if settings.family is not None or settings.scaled or settings.penalises_intercept or settings.penalty is not None:
        raise InputError("--family, --penalty, --scaled, --penalises-intercept: a model's file says this itself")
    fits = {LogisticRegression: _read_logistic, LinearRegression: _read_linear, Ridge: _read_linear,
            PoissonRegressor: _read_poisson}  # fmt: skip
    if type(model) not in fits:
        raise InputError(f"model: {', '.join(kind.__name__ for kind in fits)} are needed, got {type(model).__name__}")
    published = fits[type(model)](model)
    gradient = published.gradient if settings.gradient is None else settings.gradient
    published = replace(published, scaled=scaled, decimals=settings.decimals, gradient=gradient)
    return published, columns, getattr(model, "classes_", None)


def _read_logistic(model: LogisticRegression) -> Publication:
    ratio = getattr(model, "l1_ratio", None)
    penalty = getattr(model, "penalty", "l2")
    if (isinstance(ratio, int | float) and ratio > 0) or penalty in ("l1", "elasticnet"):
        raise InputError("model: an L1 penalty sets coefficients to 0, and no equation gives them back")
    if model.class_weight is not None:
        raise InputError("model: class weights count records differently, which is not read here")
    if len(model.classes_) != 2:
        raise InputError(f"model: 2 classes are needed, got {len(model.classes_)}")
    if model.solver in ("liblinear", "sag", "saga"):
        raise InputError(f"model: solver {model.solver} does not say how far from the optimum it stopped")
    _check_converged(model)
    has_none = penalty is None or penalty == "none" or math.isinf(model.C)
    strength = 0.0 if has_none else 1 / float(model.C)
    intercept = float(model.intercept_[0]) if model.fit_intercept else None
    return margin.Publication(model.coef_[0], intercept, "logistic", None, strength, gradient=_stopped_at(model))


def _read_linear(model: LinearRegression | Ridge) -> Publication:
    if np.ndim(model.coef_) != 1 or model.positive:
        raise InputError("model: coefficients of one output, of any sign, are needed")
    if isinstance(model, Ridge) and getattr(model, "solver_", model.solver) not in ("auto", "cholesky", "svd"):
        raise InputError(f"model: solver {model.solver} does not say how far from the optimum it stopped")
    penalty = float(model.alpha) if isinstance(model, Ridge) else 0.0
    intercept = float(model.intercept_) if model.fit_intercept else None
    return margin.Publication(model.coef_, intercept, "linear", None, penalty)


def _read_poisson(model: PoissonRegressor) -> Publication:
    _check_converged(model)
    intercept = float(model.intercept_) if model.fit_intercept else None
    return margin.Publication(model.coef_, intercept, "poisson", None, float(model.alpha), gradient=_stopped_at(model))


def _check_converged(model: Any) -> None:
    if np.max(model.n_iter_) >= model.max_iter:
        raise InputError(f"model: it stopped after max_iter = {model.max_iter} steps, before its optimum")


def _stopped_at(model: Any) -> float:
    return max(float(model.tol), _LBFGS_GRADIENT if model.solver == "lbfgs" else 0.0)


def summarise(
    match: CohortMatch, published: Publication, sizes: dict[str, int], columns: Sequence[str], show_records: bool
) -> CohortsSummary:
    """Return the answer in sentences, with the subsets it rests on."""
    answer, tone, text = _decide(match)
    n_others = sum(not each.accepted for each in match.subsets)
    shown = match.subsets[: len(match.subsets) - n_others + _N_SHOWN]
    odd = match.odd_record
    names = tuple(columns) or tuple(f"column {place}" for place in range(1, len(published.coefficients) + 1))
    return CohortsSummary(
        verdict=text,
        tone=tone,
        answer=answer,
        cohorts=sizes,
        coefficients=len(published.theta),
        decimals=published.decimals,
        units=match.units,
        tried=len(match.subsets),
        chance=match.chance,
        subsets=tuple(_subset_result(each) for each in shown),
        odd_record=_odd_result(odd, names) if odd is not None and show_records else None,
        assumes=_assumptions(published, match),
    )


def _subset_result(fit: SubsetFit) -> SubsetResult:
    distance, penalty = (value if math.isfinite(value) else None for value in (fit.distance, fit.penalty))
    return SubsetResult(
        fit.cohorts, fit.records, distance, fit.accepted, fit.chance, penalty, fit.told_apart, fit.hidden, fit.undecided
    )


def _odd_result(odd: OddRecord, names: Sequence[str]) -> OddRecordResult:
    values, errors = (dict(zip(names, each.tolist(), strict=True)) for each in (odd.x, odd.error))
    return OddRecordResult(odd.cohorts, odd.missing, values, odd.y, errors, odd.row, odd.chance)


def _decide(match: CohortMatch) -> tuple[Any, Tone, str]:
    accepted, n_tried = match.accepted, len(match.subsets)
    undecided = [each for each in match.subsets if each.undecided]
    if match.match is not None:
        fit = match.match
        spare = (
            f"give or take up to about {formatting.format_count(fit.hidden, 'record')}"
            if fit.hidden
            else "give or take single records"
        )
        text = (
            f"If they were fitted as assumed, these coefficients are those of {_list_names(fit.cohorts)}, {spare}: of "
            f"{n_tried:,} subsets it alone fits. The chance that coefficients from other records fit some subset is "
            f"{formatting.format_chance(match.chance)} at most. Leaving out any single one of {fit.told_apart:,} of "
            f"its {fit.records:,} records would show at these decimals."
        )
        return "found", "leak", text
    if len(accepted) > 1:
        names = "; ".join(_list_names(each.cohorts) for each in accepted[:4])
        text = (
            f"Too little to say: {len(accepted):,} of {n_tried:,} subsets fit these coefficients ({names}"
            f"{' …' if len(accepted) > 4 else ''}), and the decimals do not tell them apart."
        )
        return "several", "undecided", text
    if accepted:
        reason = (
            f"{formatting.format_count(len(undecided), 'subset')} cannot be checked ({undecided[0].undecided})"
            if undecided
            else f"coefficients from other records would fit some subset with a chance of up to {match.chance:.2g}"
        )
        text = f"Too little to say: {_list_names(accepted[0].cohorts)} fits these coefficients, but {reason}."
        return "undecided", "undecided", text
    if match.odd_record is not None:
        odd = match.odd_record
        what = (
            "and of one more record, which is in none of these cohorts and can be read off the coefficients"
            if odd.missing
            else f"without one of their records (row {int(odd.row or 0) + 1})"
        )
        text = (
            f"If they were fitted as assumed, these coefficients are those of {_list_names(odd.cohorts)} {what}. "
            f"Another difference would look like this with a chance of about {formatting.format_chance(odd.chance)}."
        )
        return "one record off", "leak", text
    text = (
        "No subset of these cohorts gives these coefficients, within rounding and optimiser. They were fitted on other "
        "records, or in another way than assumed, or some records were left out; none of the cohorts is cleared."
    )
    return "none", "plain", text


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _assumptions(published: Publication, match: CohortMatch) -> tuple[str, ...]:
    penalty = "a squared penalty of any strength"
    if published.penalty is not None:
        penalty = f"the squared penalty {published.penalty:g}" if published.penalty else "no penalty"
    intercept = ", the intercept penalised, too" if published.penalises_intercept else ""
    digits = "given with all digits"
    if published.decimals is not None:
        rounded = "rounded to" if match.units < 1 else "cut off or rounded up at"
        digits = f"{rounded} {formatting.format_count(published.decimals, 'decimal')}"
    return (
        f"A {_NAMES[published.family]} regression with {penalty}{intercept}, every record counted once",
        f"Coefficients {digits}; a mean gradient of at most {published.largest_gradient:.2g} where the optimiser ended",
        f"Columns coded as in these files{', scaled by the training set' if published.scaled else ', not scaled'}",
        "The chance is that of another cohort drawn from the same population, by the normal law of its coefficients",
    )
