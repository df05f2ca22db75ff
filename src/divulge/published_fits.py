"""Published regressions: coefficients read from a model's file or a table, and the cohorts they were fitted on.

`divulge.margin.cohorts` compares arrays; here stand the study around it (files, answer, run directory, page, limits).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import lazy, margin, results, store, tables
from divulge.auditing.gates import Ruling
from divulge.datafiles import FileLayout, read_named_rows
from divulge.errors import InputError
from divulge.provenance import collect_environment
from divulge.report import formatting
from divulge.report.page import Bullet, BulletList, Section, Table
from divulge.report.run_kinds import Headline, RunKind
from divulge.report.sections import ADVICE_TITLE, RegulatorAnswers, regulator_section
from divulge.results import CohortsSummary, OddRecordResult, SubsetResult
from divulge.run_directory import check_out
from divulge.study import Study, StudyRun, reopen
from divulge.targets.skops_files import read_skops
from divulge.types import Estimate
from divulge.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_mask,
    check_path,
    check_string,
    check_strings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sklearn import linear_model, pipeline, preprocessing

    from divulge.auditing.gates import Limit
    from divulge.margin import OddRecord, Publication
    from divulge.margin.published_regression import Family
    from divulge.run_directory import RunDirectory, RunDraft
    from divulge.settings import CohortSettings
    from divulge.types import Array, Floats, Tone
else:
    linear_model = lazy.module("sklearn.linear_model")
    pipeline = lazy.module("sklearn.pipeline")
    preprocessing = lazy.module("sklearn.preprocessing")

_INTERCEPTS = ("intercept", "(intercept)", "const", "constant", "_cons", "bias")
_EXACT_DIGITS = 15  # significant digits from which on a number is taken to be given with all of them
_DIGITS_OF_EXACT = 9  # significant digits that are believed of one beside others that are rounded
_LBFGS_GRADIENT = 1e-5  # lbfgs stops where the loss no longer falls, too, which no tolerance shows
_MAX_DECIMALS = 15  # that are believed
_N_SHOWN = 12  # subsets that are not accepted, the nearest first
_NAMES = {"logistic": "logistic", "linear": "linear", "poisson": "Poisson"}
_MEMBER = "in "  # before the name of a cohort: whether it is part of the subset


@dataclass(frozen=True, eq=False, repr=False)
class CohortExamination(Study):
    """Result of `divulge.examine_cohorts`.

    Args:
        subsets: every subset, those that are accepted first, then by distance.
        odd_record: the record by which training set and a subset differ, if one is read off.
        cohorts: name → number of records.
        family: of the regression.
        coefficients: how many there are, the intercept among them.
        decimals: of them; None where all digits are given.
        units: rounding error that was allowed, in units of the last decimal.
        assumes: what all of this holds under.
        model: name of the model.
    """

    subsets: tuple[margin.SubsetFit, ...]
    odd_record: OddRecordResult | None
    cohorts: Mapping[str, int]
    family: Family
    coefficients: int
    decimals: int | None
    units: float
    assumes: tuple[str, ...]
    model: str = "regression"

    @cached_property
    def match(self) -> margin.CohortMatch:
        """The subsets, and which of them are accepted."""
        return margin.CohortMatch(self.subsets, None, self.units)

    @property
    def proven(self) -> tuple[str, ...]:
        """Cohorts that are in the training set if the regression was fitted as assumed."""
        return self.match.certain if self.odd_record is None else self.odd_record.cohorts

    @property
    def answer(self) -> Any:
        """One of those of `divulge.results.CohortsSummary`."""
        if self.match.match is not None:
            return "found"
        if self.match.accepted:
            return "several" if len(self.match.accepted) > 1 else "undecided"
        return "none" if self.odd_record is None else "one record off"

    def to_frame(self) -> pl.DataFrame:
        """Return one row per subset: its cohorts, and how well it fits."""
        members = {f"{_MEMBER}{name}": [name in each.cohorts for each in self.subsets] for name in self.cohorts}
        columns = {name: [getattr(each, name) for each in self.subsets] for name in _FIT_TYPES}
        return pl.DataFrame(members | columns, schema=dict.fromkeys(members, pl.Boolean) | _FIT_TYPES)

    def summary(self) -> CohortsSummary:
        """Return the typed summary for JSON and the report."""
        tone, text = _describe(self)
        n_accepted = len(self.match.accepted)
        return CohortsSummary(
            verdict=text,
            tone=tone,
            answer=self.answer,
            proven=self.proven,
            model=self.model,
            family=self.family,
            cohorts=self.cohorts,
            coefficients=self.coefficients,
            decimals=self.decimals,
            units=self.units,
            tried=len(self.subsets),
            chance=self.match.chance,
            subsets=tuple(_summarise_subset(each) for each in self.subsets[: n_accepted + _N_SHOWN]),
            odd_record=self.odd_record,
            assumes=self.assumes,
            environment=collect_environment(),
        )

    def write(self, draft: RunDraft) -> None:
        """Write how well every subset fits."""
        draft.write_table("subsets", self.to_frame())

    def rule(self, limits: Sequence[Limit], confidence: float) -> list[Ruling]:
        """Rule on how many cohorts ("cohorts"), and records that no held one equals ("records"), are proven.

        No limit is held where no subset fits, or other people's records would too easily: then nothing shows that the
        regression was fitted as assumed. None of records is where one more or fewer may not show.
        """
        error, match, odd = (1 - confidence) / len(limits), self.match, self.odd_record
        undecided = [each for each in match.subsets if each.undecided]
        largest_chance = min(error, margin.MAX_CHANCE if odd is None else margin.MAX_MISTAKE)
        chance = match.chance if odd is None else odd.chance
        bounds, doubt, is_proven = {"cohorts": (0, len(self.cohorts)), "records": (0, 1)}, "", False
        is_open = not (match.accepted or odd is not None) or chance > largest_chance
        if is_open:
            reason = "a subset fits, but so would other people's records" if match.accepted else "no subset fits"
            if odd is not None:
                reason = "another difference would often look like this record"
            doubt = f"{reason}, as after a fit unlike the assumed; none is cleared"
        elif odd is not None:
            most = max(len(odd.cohorts), *(len(each.cohorts) for each in undecided), 0)
            # One that equals a held record may be that one, which counts otherwise; then none was read that was not in
            # the hand.
            is_told = odd.equal_cohort is None if odd.missing else odd.copies <= 1
            bounds = {"cohorts": (len(odd.cohorts), most), "records": (int(is_told), 1)}
            is_proven = odd.chance + (odd.alike or 0.0) <= error
            doubt = "" if is_told else "the record equals others that are in the hand"
        else:
            possible = [*match.accepted, *undecided]
            common = set(self.cohorts).intersection(*(each.cohorts for each in possible))
            bounds = {
                "cohorts": (len(common), max(len(each.cohorts) for each in possible)),
                "records": (0, 1),
            }
            is_proven = bool(self.proven)
            # Where each of n alone shows, one more of their population does, but in one case of n + 1.
            if len(possible) == 1 and all(each.told_apart == each.records >= 1 / error - 1 for each in possible):
                bounds["records"] = (0, int(bool(possible[0].hidden)))
            advice = _NEWTON_ADVICE if any(_ANY_OPTIMISER in each for each in self.assumes) else ""
            doubt = f"{_bound_hidden(match.accepted)}{advice}"
            if len(possible) > 1:
                doubt = (
                    "several subsets fit, or cannot be checked; the regression may be that of the largest, or of one "
                    "but for some records"
                )
        rulings = []
        for limit in limits:
            low, high = bounds[limit.metric]
            low = low if is_proven else 0
            estimate = Estimate(low if low < high else high, low, high, 1 - error, "accepted subsets")
            message = doubt if is_open or low <= limit.limit < high else ""
            rulings.append(Ruling("coefficients", "all", limit.metric, limit.limit, estimate, message))
        return rulings


_FIT_TYPES: dict[str, Any] = {
    "records": pl.Int64, "distance": pl.Float64, "accepted": pl.Boolean, "chance": pl.Float64, "penalty": pl.Float64,
    "told_apart": pl.Int64, "hidden": pl.Int64, "undecided": pl.String,
}  # fmt: skip


def examine_cohorts(
    published: Publication,
    data: Mapping[str, tuple[object, object]],
    *,
    columns: Sequence[str] = (),
    model: str = "regression",
    show_records: bool = True,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> CohortExamination:
    """Say which cohorts a published regression was fitted on, if it was fitted as assumed.

    Args:
        published: the coefficients and how they were fitted.
        data: name of each cohort → its ``x`` ``[n, d]``, in the order of the coefficients, and ``y`` ``[n]``.
        columns: names of the ``d`` columns, for a record that is read off.
        model: name of the model, for the report.
        show_records: whether such a record may stand in the result and its files.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.

    Returns:
        A `CohortExamination`: ``result.answer``, ``result.proven``.

    Raises:
        divulge.InputError: names that are no texts or too few, and what `divulge.margin.cohorts` refuses.

    References:
        arXiv 2602.06110.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> data = {name: (x := rng.normal(size=(50, 2)), x @ [1.0, 2.0] + rng.normal(size=50)) for name in "abc"}
        >>> x, y = (np.concatenate([data[name][part] for name in "ac"]) for part in (0, 1))
        >>> fitted = np.linalg.lstsq(np.c_[x, np.ones(100)], y, rcond=None)[0].round(4)
        >>> examine_cohorts(margin.Publication(fitted[:2], fitted[2], "linear", decimals=4), data).proven
        ('a', 'c')
    """
    check_bool(show_records, "show_records")
    check_bool(overwrite, "overwrite")
    check_string(model, "model")
    folder = check_out(out, overwrite=overwrite)
    names = check_strings(columns, "columns")
    check_instance(published, "published", margin.Publication, "a divulge.margin.Publication")
    names = names or tuple(f"column {place}" for place in range(1, len(published.coefficients) + 1))
    if not len(set(names)) == len(names) == len(published.coefficients):
        raise InputError(f"columns: {len(published.coefficients)} names, each once, are needed, got {len(names)}")
    match = margin.cohorts(published, data)
    result = CohortExamination(
        subsets=match.subsets,
        odd_record=None if match.odd_record is None else _summarise_odd(match.odd_record, names, show_records),
        cohorts={name: len(np.asarray(data[name][1])) for name in data},
        family=published.family,
        coefficients=len(published.theta),
        decimals=None if match.decimals is None else int(np.max(match.decimals)),
        units=match.units,
        assumes=_list_assumptions(published, match),
        model=model,
    )
    if folder is not None:
        result.save(folder, overwrite=overwrite)
    return result


def _summarise_subset(fit: margin.SubsetFit) -> SubsetResult:
    distance, penalty = (value if math.isfinite(value) else None for value in (fit.distance, fit.penalty))
    return SubsetResult(
        fit.cohorts, fit.records, distance, fit.accepted, fit.chance, penalty, fit.told_apart, fit.hidden, fit.undecided
    )


def _summarise_odd(odd: OddRecord, names: Sequence[str], show_records: bool) -> OddRecordResult:
    cohort, row = odd.equal or (None, None)
    if not show_records:
        return OddRecordResult(
            odd.cohorts, odd.missing, odd.chance, None, None, None, None, None, odd.alike, odd.copies, cohort
        )
    values, errors = (dict(zip(names, each.tolist(), strict=True)) for each in (odd.x, odd.error))
    return OddRecordResult(
        odd.cohorts, odd.missing, odd.chance, values, odd.y, errors, odd.row, odd.y_error, odd.alike,
        odd.copies, cohort, row,
    )  # fmt: skip


def read_publication(path: Path, settings: CohortSettings) -> tuple[Publication, tuple[str, ...], Array | None]:
    """Read a published regression.

    Args:
        path: a .skops file of a scikit-learn regression, or a table (.csv) of names and coefficients.
        settings: how the regression was fitted, where the model's file does not say it.

    Returns:
        The publication, names of its columns (empty where the file has none), and its two classes (None where labels
        are numbers).

    Raises:
        divulge.InputError: a model that is no such regression or whose fit solves no equation that can be checked
            (L1 penalty, class weights, early stopping), settings that contradict its file.
    """
    return _read_table(path, settings) if path.suffix in (".csv", ".tsv", ".txt") else _read_model(path, settings)


def read_cohorts(
    paths: Sequence[Path], published: Publication, columns: Sequence[str], classes: Array | None, layout: FileLayout
) -> dict[str, tuple[Floats, Floats]]:
    """Read tables of cohorts; each is called as its file is.

    Args:
        paths: tables with the columns of the coefficients by name, and a label; where coefficients are called as
            dummies of a column of texts are (``sexM``, ``sex_M``), with that column.
        published: the coefficients.
        columns: their names; empty to take the tables' order.
        classes: see `read_publication`.
        layout: of the tables.

    Raises:
        divulge.InputError: too many, two of one name, columns or labels that differ.
    """
    if len(paths) > margin.MAX_COHORTS:
        raise InputError(f"--cohort: must be given at most {margin.MAX_COHORTS} times, got {len(paths)}")
    data: dict[str, tuple[Floats, Floats]] = {}
    levels = tables.find_levels(
        [check_path(path, "--cohort") for path in paths],
        columns,
        texts=[layout.id, *layout.codes],
        excluded=[layout.label, layout.id, "member"],
        drop=layout.drop,
    )
    for path in paths:
        if path.stem in data:
            raise InputError(f"--cohort: two files are called {path.stem}; their names stand for them")
        rows = read_named_rows(path, layout, columns, levels)
        if rows.y is None:
            raise InputError(f"{path}: a label is needed (--label names its column)")
        if rows.x.shape[1] != len(published.coefficients):
            raise InputError(f"{path}: {len(published.coefficients)} columns are needed, got {rows.x.shape[1]}")
        data[path.stem] = (rows.x, _encode_labels(rows.y, published.family, classes, path))
    return data


def _encode_labels(y: Array, family: Family, classes: Array | None, path: Path) -> Floats:
    if classes is not None:
        if not np.isin(y, classes).all():
            odd = next(label for label in y.tolist() if label not in classes)
            raise InputError(f"{path}: labels of the model are needed, {classes[0]} and {classes[1]}, got {odd!s:.80}")
        return (y == classes[1]).astype(float)
    allowed = {"logistic": "labels 0 and 1", "poisson": "counts (whole numbers from 0)", "linear": "numbers"}[family]
    values = np.asarray(y, float) if np.asarray(y).dtype.kind in "iufb" else np.full(len(y), np.nan)
    is_odd = ~np.isfinite(values)
    if family == "logistic":
        is_odd |= ~np.isin(values, (0, 1))
    elif family == "poisson":
        is_odd |= (values < 0) | (values % 1 != 0)
    if is_odd.any():
        raise InputError(
            f"{path}: {allowed} are needed as labels of {_NAMES[family]} regression, got {y[is_odd][0]!s:.80}"
        )
    return values


def _read_table(path: Path, settings: CohortSettings) -> tuple[Publication, tuple[str, ...], None]:
    """Read names and coefficients, and how many decimals they have."""
    numbers: dict[str, str] = {}
    text = store.read_text(check_path(path, "model"), limit=store.MAX_LINES_BYTES).removeprefix("\ufeff")
    lines = text.splitlines()
    separator = next((sign for sign in (";", "\t") if lines and sign in lines[0]), ",")
    for row in csv.reader(lines, delimiter=separator):
        if separator != "," and len(row) > 1 and "." not in row[1]:
            row[1] = row[1].replace(",", ".", 1)  # as spreadsheets and R's write.csv2 write decimals
        if len(row) < 2 or (not numbers and not _is_number(row[1])):
            continue  # the names of the columns
        if not _is_number(row[1]) or row[0].strip() in numbers:
            raise InputError(f"{path}: names, each once, and beside them their coefficients are needed, got {row}")
        numbers[row[0].strip()] = row[1].strip()
    if not numbers:
        printed = any(len(cells := line.split()) > 1 and _is_number(cells[1]) for line in lines)
        advice = " (it looks like a printed summary: in R, write.csv(coef(model), file) saves them)" if printed else ""
        raise InputError(
            f"{path}: names and, after a comma or semicolon, their coefficients are needed, a pair a line; none found"
            f"{advice}"
        )
    intercept = next((name for name in numbers if name.lower() in _INTERCEPTS), None)
    columns = tuple(name for name in numbers if name != intercept)
    ordered = [numbers[name] for name in (*columns, *([] if intercept is None else [intercept]))]
    decimals: int | list[int] | None = settings.decimals
    if decimals is None and not all(_is_exact(number) for number in ordered):
        decimals = [_count_decimals(number) for number in ordered]
    published = margin.Publication(
        np.array([float(numbers[name]) for name in columns]),
        None if intercept is None else float(numbers[intercept]),
        settings.family or "logistic",
        decimals,
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


def _is_exact(number: str) -> bool:
    """Return whether so many significant digits are given that no more are left out."""
    digits = "".join(each for each in number.lower().partition("e")[0] if each.isdigit())
    return len(digits.lstrip("0")) >= _EXACT_DIGITS


def _count_decimals(number: str) -> int:
    """Return to how many decimals a number is given; below 0 for one of tens or hundreds, as 1.2e3 is."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if _is_exact(number) and float(number):  # other libraries find as many digits of it, and no more
        decimals = _DIGITS_OF_EXACT - math.ceil(math.log10(abs(float(number))))
    return min(max(decimals, -_MAX_DECIMALS), _MAX_DECIMALS)


def _read_model(path: Path, settings: CohortSettings) -> tuple[Publication, tuple[str, ...], Array | None]:
    """Read the coefficients of a scikit-learn regression, and how its file says that it was fitted."""
    model: Any = read_skops(check_path(path, "model"))
    columns = tuple(getattr(model, "feature_names_in_", ()))
    scaled = isinstance(model, pipeline.Pipeline)
    if scaled:
        steps = [step for _, step in model.steps]
        if (
            len(steps) != 2
            or not isinstance(steps[0], preprocessing.StandardScaler)
            or not (steps[0].with_mean and steps[0].with_std)
        ):
            raise InputError("model: a regression alone, or behind one StandardScaler, is needed")
        model = steps[1]
    if settings.family is not None or settings.scaled or settings.penalises_intercept or settings.penalty is not None:
        raise InputError("--family, --penalty, --scaled: a model's file says this itself")
    fits = {linear_model.LogisticRegression: _read_logistic, linear_model.LinearRegression: _read_linear,
            linear_model.Ridge: _read_linear, linear_model.PoissonRegressor: _read_poisson}  # fmt: skip
    if type(model) not in fits:
        raise InputError(f"model: {', '.join(each.__name__ for each in fits)} are needed, got {type(model).__name__}")
    published = fits[type(model)](model)
    gradient = published.gradient if settings.gradient is None else settings.gradient
    published = replace(published, scaled=scaled, decimals=settings.decimals, gradient=gradient)
    return published, columns, getattr(model, "classes_", None)


def _read_logistic(model: linear_model.LogisticRegression) -> Publication:
    ratio = getattr(model, "l1_ratio", None)
    penalty = getattr(model, "penalty", "l2")
    if (isinstance(ratio, int | float) and ratio > 0) or penalty in ("l1", "elasticnet"):
        raise InputError("model: an L1 penalty sets coefficients to 0, and no equation gives them back")
    if model.class_weight is not None:
        raise InputError("model: class weights count records differently, which is not read here")
    if len(model.classes_) != 2:
        raise InputError(
            f"model: 2 classes are needed, got {len(model.classes_)}; of more, a regression of each class against the "
            "others can be checked, as OneVsRestClassifier fits them (dump one of its estimators_)"
        )
    if model.solver in ("liblinear", "sag", "saga"):
        raise InputError(f"model: solver {model.solver} does not say how far from the optimum it stopped")
    _check_converged(model)
    has_none = penalty is None or penalty == "none" or math.isinf(model.C)
    strength = 0.0 if has_none else 1 / float(model.C)
    intercept = float(model.intercept_[0]) if model.fit_intercept else None
    return margin.Publication(model.coef_[0], intercept, "logistic", None, strength, gradient=_stopped_at(model))


def _read_linear(model: linear_model.LinearRegression | linear_model.Ridge) -> Publication:
    if np.ndim(model.coef_) != 1 or model.positive:
        raise InputError("model: coefficients of one output, of any sign, are needed")
    if isinstance(model, linear_model.Ridge) and getattr(model, "solver_", model.solver) not in (
        "auto",
        "cholesky",
        "svd",
    ):
        raise InputError(f"model: solver {model.solver} does not say how far from the optimum it stopped")
    penalty = float(model.alpha) if isinstance(model, linear_model.Ridge) else 0.0
    intercept = float(model.intercept_) if model.fit_intercept else None
    return margin.Publication(model.coef_, intercept, "linear", None, penalty)


def _read_poisson(model: linear_model.PoissonRegressor) -> Publication:
    _check_converged(model)
    intercept = float(model.intercept_) if model.fit_intercept else None
    return margin.Publication(model.coef_, intercept, "poisson", None, float(model.alpha), gradient=_stopped_at(model))


def _check_converged(model: Any) -> None:
    if np.max(model.n_iter_) >= model.max_iter:
        raise InputError(f"model: it stopped after max_iter = {model.max_iter} steps, before its optimum")


def _stopped_at(model: Any) -> float:
    return max(float(model.tol), _LBFGS_GRADIENT if model.solver == "lbfgs" else 0.0)


def _describe(result: CohortExamination) -> tuple[Tone, str]:
    """Return the tone and the sentences of an answer."""
    match, n_tried, odd = result.match, len(result.subsets), result.odd_record
    combinations = "these records" if n_tried == 1 else "one of these combinations"
    chance = (
        "How likely it is that this answer is wrong cannot be said in a number: the coefficients may come from some of "
        "these records with others, from another population, or from another calculation. There is one "
        "for coincidence alone, which is not the chance that the answer is wrong: other records of the same population "
        f"would fit {combinations} in {_format_cases(match.chance)}."
    )
    if match.match is not None:
        fit = match.match
        fits = "they fit" if n_tried == 1 else f"of {n_tried:,} combinations of cohorts only this one fits"
        tolerance = _describe_tolerance(result)
        told_apart = ""
        if fit.told_apart:
            told_apart = (
                f" Single people: whoever holds all {formatting.format_count(fit.records, 'record')}, and knows that "
                f"all but one took part, can tell that this one did, too. That works for {fit.told_apart:,} of them: "
                "leaving any one of these out would change the published numbers."
            )
        return "leak", (
            "If these coefficients were fitted as assumed, they come from the records of "
            f"{formatting.join_words(fit.cohorts)}: {fits}{tolerance}.{told_apart} {chance}"
        )
    if len(match.accepted) > 1:
        return _describe_several(result, chance)
    if match.accepted:
        name = formatting.join_words(match.accepted[0].cohorts)
        hint = (
            " If it is known that there was no penalty, or which, saying so (--penalty) narrows this."
            if any(_ANY_PENALTY in each for each in result.assumes)
            else ""
        )
        return "undecided", f"Too little to say: {name} fits these coefficients, but {_describe_doubt(match)}.{hint}"
    if odd is not None:
        return "leak", _describe_odd(odd)
    return "plain", (
        "No combination of these cohorts gives these coefficients, within rounding and optimiser. They were fitted on "
        "other records, or in another way than assumed, or some records were left out; none of the cohorts is cleared."
        f"{_describe_nearest(result)}"
    )


_ANY_PENALTY = "a squared penalty of any strength"
_ANY_OPTIMISER = "where the optimiser ended, as of scikit-learn's"
_NEWTON_ADVICE = "; if R's glm or another Newton solver fitted these coefficients, --gradient 1e-6 may tell more"
_NEWTON_GRADIENT = 1e-6  # at most that of R's glm, of columns up to some hundreds
_NO_INTERCEPT = "Fitted without an intercept, as no number of that name was given"
_NEAR, _FAR = 0.1, 5  # standard errors, and times as far as the nearest, from which on one combination stands out


def _describe_nearest(result: CohortExamination) -> str:
    """Return what may be why nothing fits: no intercept, or small differences from one combination."""
    hint = f" {_NO_INTERCEPT}." if _NO_INTERCEPT in result.assumes else ""
    checked = sorted((each for each in result.match.subsets if not each.undecided), key=lambda each: each.distance)
    if len(checked) > 1 and checked[0].distance < min(_NEAR, checked[1].distance / _FAR):
        hint += (
            f" Nearest is {formatting.join_words(checked[0].cohorts)}, {checked[0].distance:.2g} standard errors away "
            f"(the next: {checked[1].distance:.2g}): a few records more or fewer, another penalty or an optimiser that "
            "stopped early leave so little; that proves nothing."
        )
    return hint


def _describe_several(result: CohortExamination, chance: str) -> tuple[Tone, str]:
    """Return the tone and the sentences where several combinations fit."""
    match, n_tried = result.match, len(result.subsets)
    names = "; ".join(formatting.join_words(each.cohorts) for each in match.accepted[:4])
    several = (
        f"{len(match.accepted):,} of {n_tried:,} combinations of cohorts fit these coefficients ({names}"
        f"{' …' if len(match.accepted) > 4 else ''}), and nothing tells which of them was used"
    )
    if not result.proven:
        return "undecided", f"Too little to say: {several}; {_describe_doubt(match)}."
    are = "is" if len(result.proven) == 1 else "are"
    return "leak", (
        f"If these coefficients were fitted as assumed, {formatting.join_words(result.proven)} {are} among "
        f"the cohorts behind them{_describe_tolerance(result)}. {several}. {chance}"
    )


def _describe_tolerance(result: CohortExamination) -> str:
    """Return by how many records a training set may differ from a subset that fits without showing it."""
    fits = result.match.accepted
    if all(each.told_apart == each.records and not each.hidden for each in fits):
        return ""
    bound = _bound_hidden(fits)
    return f". {bound[0].upper()}{bound[1:]}"


def _bound_hidden(fits: Sequence[margin.SubsetFit]) -> str:
    """Return how many records more or fewer than those of one of these subsets may not show."""
    widest = max(fits, key=lambda each: each.hidden or 0)
    about = "at least" if 2 * (widest.hidden or 0) > widest.records else "up to about"
    count = f"{about} {formatting.format_count(widest.hidden, 'record')}" if widest.hidden else "single records"
    return f"{count} more or fewer may not show, of those that hardly count"


def _describe_doubt(match: margin.CohortMatch) -> str:
    """Return why nothing is proven although subsets fit."""
    undecided = [each.undecided for each in match.subsets if each.undecided]
    if undecided:
        return f"{formatting.format_count(len(undecided), 'combination')} cannot be checked ({undecided[0]})"
    if match.chance > margin.MAX_CHANCE:
        return (
            f"those of other people's records would fit one of {len(match.subsets):,} combinations in "
            f"{_format_cases(match.chance)}"
        )
    return "no cohort is part of all of these"


def _describe_odd(odd: OddRecordResult) -> str:
    """Return the sentences of a record by which training set and cohorts differ."""
    what, twins = "without one of their records, which can be named", ""
    if odd.missing and odd.equal_cohort is not None:
        what = f"with one record more that equals one of {odd.equal_cohort}"
        if odd.equal_cohort in odd.cohorts:
            what += ", or with that one counted twice"
    elif odd.missing:
        what = "with one record more, which is in none of these cohorts and can be read off the coefficients"
    elif odd.copies > 1:
        what = (
            f"with one of {odd.copies:,} equal records counted less, as where a person who is in them twice was "
            "counted once"
        )
    if odd.alike is not None:
        same = "" if odd.equal_cohort is None else f" (a record of {odd.equal_cohort} has them)"
        what = (
            "but for a record whose values can be read off the coefficients" + same + ": most simply, one that was "
            "trained on, too"
        )
        twins = (
            " Others that are alike in every column, or that the decimals hardly show, may differ with it; of all "
            f"pairs of these cohorts' records a share of {odd.alike:.1g} is alike."
        )
    return (
        "If these coefficients were fitted as assumed, they come from the records of "
        f"{formatting.join_words(odd.cohorts)} {what}. Another difference would look like this in "
        f"{_format_cases(odd.chance)}.{twins}"
    )


def _format_cases(chance: float) -> str:
    """Return a bound on a chance as a number of cases."""
    return f"{'at most ' if chance >= 1e-9 else ''}{formatting.format_chance(chance)} cases"


def _list_assumptions(published: Publication, match: margin.CohortMatch) -> tuple[str, ...]:
    penalty = _ANY_PENALTY
    if published.penalty is not None:
        penalty = f"the squared penalty {published.penalty:g}" if published.penalty else "no penalty"
    intercept = ", the intercept penalised, too" if published.penalises_intercept else ""
    digits = "given with all digits"
    if match.decimals is not None:
        rounded = "rounded to" if match.units < 1 else "cut off or rounded up at"
        least, most = int(np.min(match.decimals)), int(np.max(match.decimals))
        digits = f"each {rounded} as many decimals as it shows, from {least} to {most}"
        if least == most:
            digits = f"{rounded} {formatting.format_count(most, 'decimal')}"
    ended = f"a mean gradient of at most {published.largest_gradient:.2g} where the optimiser ended"
    if published.largest_gradient <= _NEWTON_GRADIENT:
        ended = f"fitted to the optimum, as R's glm and lm and Newton solvers do, that is with {ended}"
    elif published.gradient is None:
        ended = f"{ended.partition('where')[0]}{_ANY_OPTIMISER}{_NEWTON_ADVICE}"
    return (
        f"A {_NAMES[published.family]} regression with {penalty}{intercept}, every record counted once",
        f"Coefficients {digits}; {ended}",
        f"Columns coded as in these files{', scaled by the training set' if published.scaled else ', not scaled'}",
        *([_NO_INTERCEPT] if published.intercept is None else []),
        "The chance is that of another cohort of the same population, estimated by the normal law of its coefficients "
        "and by draws of labels and records",
    )


SUBSET_COLUMNS = [
    "cohorts", "records", "fits", "distance from the published numbers (standard errors)", "by chance, at most",
    "single records told apart",
]  # fmt: skip
_ADVERSARY = (
    "Who can do this: anyone who has the published numbers and the cohorts' records; no access to a model is needed."
)
_HARM = (
    "Who may be harmed: people of these cohorts, if it says something about them that they took part, as in a study of "
    "an illness."
)
_FEWER_DECIMALS = BulletList(
    [
        Bullet(
            "Publish fewer decimals than these, to protect single people.",
            "From six decimals, whoever holds every record but one can often work out the values of that one. Fewer "
            "decimals hardly hide the cohorts: even two mostly tell which took part. To hide that, do not publish the "
            "coefficients.",
        ),
        Bullet(
            "If they are out already, nothing takes them back.",
            "Decide to whom the cohorts' data may still go: whoever gets them can repeat this.",
        ),
    ]
)


def _headline(run: StudyRun[CohortExamination]) -> Headline:
    odd = run.summary.odd_record
    heading = {
        "found": "It can be told which cohorts were used, if the numbers were fitted as assumed",
        "several": "Some of the cohorts that were used can be told" if run.summary.proven else "",
        "one record off": "Values are read off"
        if odd is not None and odd.alike is not None
        else "It can be told which cohorts were used, but for one record"
        if odd is not None and (odd.copies > 1 or odd.equal_cohort is not None)
        else "A single record is recognised",
    }.get(run.summary.answer, "")
    harm = [] if run.summary.tone != "leak" else [_HARM]
    if harm and odd is not None and odd.missing and odd.equal_cohort is None:
        harm.append("So may be the person behind the record that was read off, whose values are known now.")
    return Headline(run.summary.tone, run.summary.verdict, heading, (_ADVERSARY, *harm))


def _facts(run: StudyRun[CohortExamination]) -> dict[str, str]:
    summary = run.summary
    return {
        "model": summary.model,
        "coefficients": str(summary.coefficients),
        "decimals": "all" if summary.decimals is None else str(summary.decimals),
        "cohorts (records)": ", ".join(f"{name} ({size:,})" for name, size in summary.cohorts.items()),
    }


def _sections(run: StudyRun[CohortExamination]) -> list[Section]:
    """Return the subsets, the record that was read off, and what is assumed."""
    summary = run.summary
    odd = summary.odd_record
    note = (
        f"All that fit of {summary.tried:,} combinations of cohorts, and the nearest others. The right records give "
        "the published numbers up to rounding, so that a distance below 1 is not yet a fit. By chance: how often, at "
        "most, another cohort would fit this combination. Told apart: for how many records of a combination leaving "
        "out that one alone would change the printed numbers; of the others nothing is said. –: not known, as the "
        "combination does not fit or cannot be checked."
    )
    record = (
        []
        if odd is None or odd.values is None
        else [Table(*odd_record_table(odd), single_records=True, sortable=False)]
    )
    return [
        *([Section(ADVICE_TITLE, [_FEWER_DECIMALS])] if summary.tone == "leak" else []),
        Section(
            "Combinations of the cohorts", [Table(SUBSET_COLUMNS, subset_rows(summary), note=note, sortable=False)]
        ),
        Section("The record", record),
        Section("What is assumed", [BulletList([Bullet(text, "") for text in summary.assumes])]),
        regulator_section(
            RegulatorAnswers(
                means="published coefficients alone.",
                queries=f"On membership alone: {summary.verdict}",
                unit="One cohort, and single records as far as said.",
            )
        ),
    ]


def subset_rows(summary: CohortsSummary) -> list[list[str]]:
    """Return each subset, how well it fits, and what that says."""
    return [
        [
            " + ".join(each.cohorts),
            f"{each.records:,}",
            each.undecided or ("yes" if each.accepted else "no"),
            "–" if each.distance is None else f"{each.distance:.2g}",
            "–" if each.undecided else formatting.format_chance(each.chance),
            "–" if each.told_apart is None else f"{each.told_apart:,} of {each.records:,}",
        ]
        for each in summary.subsets
    ]


def odd_record_table(record: OddRecordResult) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the values of a record that was read off, and where it stands."""
    values, errors = record.values or {}, record.errors or {}
    label = "label" if record.alike is None else "label, if it is one record"
    cells = [(name, value, errors[name]) for name, value in values.items()] + [
        (label, record.label or 0.0, record.label_error or 0.0)
    ]
    cells = [(name, value + 0.0, error) for name, value, error in cells]  # no -0
    rows = [[name, f"{value:.6g}", f"± {error:.2g}" if error else "exact"] for name, value, error in cells]
    place = [] if record.row is None else [["row of these cohorts", str(record.row + 1), ""]]
    if record.equal_row is not None:
        place.append([f"equals row of {record.equal_cohort}", str(record.equal_row + 1), ""])
    if record.copies > 1:
        place.append(["records that equal it", str(record.copies), ""])
    return ["column", "value", "error"], [*rows, *place]


def _read_run(directory: RunDirectory) -> StudyRun[CohortExamination]:
    """Read subsets and summary; the answer is decided from the subsets again."""
    stored, frame = results.read_summary(directory.path, CohortsSummary), directory.read_table("subsets")
    members = [f"{_MEMBER}{name}" for name in stored.cohorts]
    try:
        if dict(frame.schema) != dict.fromkeys(members, pl.Boolean) | _FIT_TYPES or not len(frame):
            raise InputError("subsets.parquet: a column for each cohort, and those of a fit, are needed")
        inside = check_mask(frame.select(members).to_numpy(), "subsets", (len(frame), len(members)))
        check_choice(stored.family, "family", _NAMES)
        subsets = tuple(
            margin.SubsetFit(tuple(name for name, is_in in zip(stored.cohorts, row, strict=True) if is_in), **fit)
            for row, fit in zip(inside, frame.select(list(_FIT_TYPES)).to_dicts(), strict=True)
        )
        fields = ("odd_record", "cohorts", "family", "coefficients", "decimals", "units", "assumes", "model")
        result = CohortExamination(subsets, **{name: getattr(stored, name) for name in fields})
        return reopen(result, stored)
    except (InputError, TypeError) as error:
        raise InputError(f"{directory.path}: damaged, {error}") from None


COHORTS = RunKind(
    name="cohorts",
    title="Cohorts behind a published regression",
    summary_type=CohortsSummary,
    sections=_sections,
    headline=_headline,
    facts=_facts,
    read=_read_run,
    records=lambda folder: COHORTS.load(folder).result.to_frame(),
    noun="cohorts behind a regression",
    metrics=("cohorts", "records"),
)
CohortExamination.run_kind = COHORTS
