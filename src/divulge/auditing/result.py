"""Finished audit: reading and writing its run directory, and its report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from divulge import lazy, provenance, results, tables
from divulge.auditing import audit_page
from divulge.auditing.audit_page import AuditRun
from divulge.auditing.checks.covariates import (
    CovariateBalance,
    covariates_to_frame,
    describe_balance,
    read_covariates,
)
from divulge.auditing.findings import CONFIDENCE, Findings
from divulge.auditing.scopes import scopes, simultaneous_confidence
from divulge.auditing.summary import summarise_audit
from divulge.auditing.verdict import decide_verdict
from divulge.auditing.wording import Verdict, format_counts
from divulge.errors import InputError
from divulge.evaluation.covariates import adjust
from divulge.evaluation.exposure import rank_exposed
from divulge.recipes import RESERVED
from divulge.report import formatting, html, notebook
from divulge.report.run_kinds import RunKind, build_page, read_input_columns, write_columns_of_sets, write_run
from divulge.results import AuditSummary
from divulge.run_directory import RunDirectory
from divulge.validation import (
    check_array,
    check_choice,
    check_labels,
    check_mask,
    check_nonempty,
    check_number,
    check_strings,
    check_vector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from divulge.auditing.findings import Outcome
    from divulge.evaluation.covariates import Adjustment
    from divulge.provenance import Provenance
    from divulge.report import Page
    from divulge.results import HeatStrip, LowerBound, RecipeStatistics, RunMetadata
    from divulge.run_directory import RunDraft
    from divulge.types import Array, Estimate, Floats, Ints

    FindingsT = TypeVar("FindingsT", bound=Findings)
else:
    alt = lazy.module("altair")

KIND = "audit"
_ESTIMATE_SCHEMA = {
    "recipe": pl.String,
    "candidates": pl.String,
    "statistic": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "confidence": pl.Float64,
    "method": pl.String,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit(Findings):
    """The result of an audit; indexing by a recipe's name gives its `Outcome`.

    Its fields are those of `divulge.auditing.findings.Findings`.
    """

    @property
    def confidence(self) -> float:
        """Confidence of each interval: that for which all intervals of the verdict hold with 95 %."""
        return simultaneous_confidence(self)

    def __getitem__(self, recipe: str) -> Outcome:
        """Return the outcome of the recipe of that name, with the intervals of verdict and report."""
        return replace(self.outcome(recipe), confidence=self.confidence)

    def summary(self) -> AuditSummary:
        """Return all numbers of the report and the run metadata; the content of ``summary.json``."""
        return summarise_audit(self)

    @property
    def verdict(self) -> Verdict:
        """The answer: a leak found, none found (with the smallest detectable one), or too little data to say."""
        return decide_verdict(self)

    def report(
        self, path: str | Path, *, related: Mapping[str, Audit] | None = None, origin: Provenance | None = None
    ) -> Path:
        """Write the HTML report to ``path`` and return it.

        Args:
            path: the file.
            related: audits of the same candidates to show in it, by name; those kept inside this one's directory
                when None.
            origin: provenance of the run; read from its directory when None.
        """
        html.write(self.page(related=related, origin=origin), Path(path))
        return Path(path)

    def page(self, *, related: Mapping[str, Audit] | None = None, origin: Provenance | None = None) -> Page:
        """Build the report; see `report`."""
        run = AuditRun(self, self.inner if related is None else lambda: self._with_same_candidates(related))
        name = "" if self.path is None else self.path.resolve().name
        return build_page(AUDIT, run, origin or provenance.read_provenance(self.path), name)

    def inner(self) -> dict[str, Audit]:
        """Return finished audits of the same candidates in sub-directories of this one."""
        if self.path is None:
            return {}
        folders = [mark.parent for mark in sorted(self.path.glob("*/run.json"))]
        return self._with_same_candidates(
            {folder.name: load(folder) for folder in folders if RunDirectory(folder).finished(KIND)}
        )

    def _with_same_candidates(self, audits: Mapping[str, Audit]) -> dict[str, Audit]:
        return {name: audits[name] for name in sorted(audits) if audits[name].candidates == self.candidates}

    def save(self, draft: RunDraft, files: Mapping[str, Sequence[Path]] | None = None) -> None:
        """Write scores, calibration scores, summary, origin and report into ``draft``.

        Args:
            draft: the run.
            files: what was read, by its role.
        """
        columns: dict[str, Array] = {"id": self.ids, "member": self.members}
        if self.labels is not None:
            columns["label"] = self.labels
        if self.groups is not None:
            columns["group"] = self.groups
        if self.duplicate_groups is not None:
            columns["duplicate_group"] = self.duplicate_groups
        unexplained = {f"{UNEXPLAINED_PREFIX}{name}": values for name, values in self.unexplained_scores.items()}
        signals = {f"{SIGNAL_PREFIX}{name}": values for name, values in self.signals.items()}
        draft.write_table("scores", tables.from_arrays(columns | dict(self.scores) | unexplained | signals))
        calibration: dict[str, Array] = dict(self.calibration)
        if self.calibration_labels is not None:
            calibration = {"label": self.calibration_labels} | calibration
        draft.write_table("calibration", tables.from_arrays(calibration))
        if self.covariates is not None:
            draft.write_table("covariates", covariates_to_frame(self.covariates))
        arrays = {str(row): values for row, values in self.exhibits.items() if not isinstance(values, str)}
        draft.write_arrays("exhibits", arrays)
        if any(isinstance(values, str) for values in self.exhibits.values()):  # documents, which may be shown
            ids = {True: self.ids[self.members], False: self.ids[~self.members]}
            write_columns_of_sets(draft, "member", ids, files)
        write_run(draft, AUDIT, AuditRun(self), files)

    def to_frame(self) -> pl.DataFrame:
        """Return every estimate of the report as a row.

        Returns:
            Columns recipe, candidates ("all", "unseen classes", or "adjusted": what the verdict judges where there are
            covariates), statistic, value, low, high, confidence, method. ε has no upper end.

        Examples:
            >>> result.to_frame().filter(pl.col("statistic") == "auc")  # doctest: +SKIP
        """
        rows = [
            (name, candidates, statistic, estimate.value, estimate.low, getattr(estimate, "high", None),
             estimate.confidence, estimate.method)
            for name, candidates, numbers in audit_page.iterate_scopes(self.summary())
            for statistic, estimate in _list_estimates(numbers)
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=_ESTIMATE_SCHEMA, orient="row")

    def records(self) -> pl.DataFrame:
        """Return one row per candidate, also for pandas and others through the Arrow interface.

        Returns:
            Columns id, member, label and group (where there are such), and for each recipe "NAME score" and "NAME
            called at FPR LEVEL".

        Examples:
            >>> pandas.DataFrame.from_arrow(result.records())  # doctest: +SKIP
        """
        return records_table(self)

    def most_exposed(self, recipe: str | None = None) -> pl.DataFrame:
        """Return the members that nearly no non-member of their own class scores as high as, clearest first.

        Args:
            recipe: by whose scores; None for the attack that the report shows them by.

        Returns:
            Columns id, label (where there are classes), score, "nonmembers as high" and "nonmembers", both of the
            record's own class. How many of them chance explains says `divulge.evaluation.exposed_members`.

        Raises:
            divulge.InputError: no such recipe, or nothing can be said of the model: such a list would accuse the split.
        """
        verdict = self.verdict
        if verdict.answer == "split is confounded":
            raise InputError(f"most_exposed: nothing can be said of the model. {verdict.plain}")
        names = list(self.scores)
        largest = max(names, key=lambda name: self[name].auc.value)
        name = check_choice(recipe or verdict.recipe or largest, "recipe", names)
        scores, rows = self.scores[name], rank_exposed(self.scores[name], self.members, self.labels)
        classes = np.zeros(len(scores), np.int64) if self.labels is None else self.labels
        outside = [scores[~self.members & (classes == classes[row])] for row in rows]
        columns: dict[str, Array] = {"id": self.ids[rows]}
        if self.labels is not None:
            columns["label"] = _name_labels(self)[rows]
        columns |= {
            "score": scores[rows],
            "nonmembers as high": np.array(
                [(others >= scores[row]).sum() for row, others in zip(rows, outside, strict=True)], np.int64
            ),
            "nonmembers": np.array([len(others) for others in outside], np.int64),
        }
        return tables.from_arrays(columns)

    def plot(self) -> alt.LayerChart:
        """Return the ROC curves of all recipes, those that the verdict judges, as an Altair chart."""
        return alt.LayerChart.from_dict(audit_page.roc_specification(scopes(self)[0]))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, its intervals as a picture, and the table of recipes."""
        run = AuditRun(self)
        top, summary = audit_page.headline(run), run.summary
        adjusted = summary.adjusted is not None
        judged_statistics: Mapping[str, RecipeStatistics] = (
            summary.recipes if summary.adjusted is None else summary.adjusted.recipes
        )
        columns, rows = audit_page.recipe_table(summary, adjusted=adjusted, brief=True)
        aucs = {name: numbers.auc for name, numbers in judged_statistics.items() if numbers.auc is not None}
        return notebook.render(
            top.heading,
            top.text,
            top.tone,
            details=top.details,
            columns=columns,
            rows=rows,
            picture=notebook.draw_intervals(aucs, "AUC", 0.5) if aucs else "",
            note=f"{format_counts(int(self.members.sum()), int((~self.members).sum()))}"
            f"{', adjusted for covariates' if adjusted else ''}. The intervals hold together with "
            f"{formatting.format_percent(CONFIDENCE)} confidence.",
        )

    def __repr__(self) -> str:
        return f"Audit({', '.join(self.scores)}; {int(self.members.sum())} members of {len(self.members)} candidates)"


def _list_estimates(numbers: RecipeStatistics) -> list[tuple[str, Estimate | LowerBound]]:
    """List the statistics that there are enough records for, by the names that a policy has for them."""
    rates = {f"tpr@fpr={level}": rate for level, rate in numbers.tpr_at_fpr.items()}
    every = {"auc": numbers.auc, **rates, "advantage": numbers.advantage, "epsilon": numbers.epsilon}
    return [(statistic, estimate) for statistic, estimate in every.items() if estimate is not None]


def load(directory: str | Path) -> Audit:
    """Load a finished audit from ``directory`` without running anything again.

    Raises:
        divulge.InputError: no finished audit there, or a damaged file.
    """
    return AUDIT.open(Path(directory), lambda run: run.audit)


def rerender(directory: str | Path) -> Path:
    """Rewrite ``report.html`` of the audit in ``directory`` and return its path.

    Raises:
        divulge.InputError: as `load`; another process is writing there.
    """
    return AUDIT.render_again(Path(directory))


def _read_run(directory: RunDirectory) -> AuditRun[Audit]:
    audit = read_findings(directory, Audit)
    return AuditRun(audit, audit.inner)


SIGNAL_PREFIX = "signal:"
"""Prefix of the columns of signals in ``scores.parquet``."""
UNEXPLAINED_PREFIX = "unexplained:"
"""Prefix of the columns of scores less what the records explain."""


def read_findings(dossier: RunDirectory, findings_type: type[FindingsT]) -> FindingsT:
    """Read the findings of a run directory; every value is validated.

    Raises:
        divulge.InputError: a missing or damaged file, a value of another kind, numbers that contradict each other.
    """
    folder = dossier.path
    scores, calibration = dossier.read_table("scores"), dossier.read_table("calibration")
    summary = results.read_summary(folder, AuditSummary)
    _require_columns(scores, ("id", "member"), folder / "scores.parquet")
    recipes = [
        name
        for name in scores.columns
        if name not in RESERVED and not name.startswith((SIGNAL_PREFIX, UNEXPLAINED_PREFIX))
    ]
    _require_columns(calibration, recipes, folder / "calibration.parquet")
    if not recipes or set(recipes) != set(summary.about.recipes):
        raise InputError(f"{folder}: scores.parquet and summary.json have different recipes")
    members = check_mask(tables.to_array(scores["member"]), f"{folder / 'scores.parquet'}: member", (None,))
    counts = summary.about.counts
    if (counts.members, counts.nonmembers) != (int(members.sum()), int((~members).sum())):
        raise InputError(f"{folder}: scores.parquet and summary.json have different candidates")
    covariates = None
    if summary.adjusted is not None or (folder / "covariates.parquet").is_file():
        frame = dossier.read_table("covariates")
        covariates = read_covariates(frame, len(members), folder / "covariates.parquet")
    recipe_scores = {name: _float_column(scores, name, folder) for name in recipes}
    groups, seed = _integer_column(scores, "duplicate_group", folder), summary.about.settings.seed
    unexplained = {
        name: _float_column(scores, f"{UNEXPLAINED_PREFIX}{name}", folder)
        for name in recipes
        if f"{UNEXPLAINED_PREFIX}{name}" in scores.columns
    }
    adjustment = None
    if covariates is not None:
        adjustment = adjust(recipe_scores, members, covariates, seed=seed, groups=groups, unexplained=unexplained)
    names = summary.class_names
    return findings_type(
        scores=recipe_scores,
        calibration={name: _float_column(calibration, name, folder) for name in recipes},
        ids=tables.to_array(scores["id"]),
        members=members,
        labels=_label_column(scores, folder),
        calibration_labels=_label_column(calibration, folder),
        unseen_classes=summary.unseen_classes,
        fpr=tuple(check_number(level, f"{folder}: fpr", above=0, below=1) for level in summary.fpr),
        signals={
            name.removeprefix(SIGNAL_PREFIX): tables.to_array(scores[name])
            for name in scores.columns
            if name.startswith(SIGNAL_PREFIX)
        },
        about=summary.about if adjustment is None else _judge_balance_anew(summary.about, adjustment, folder),
        exhibits=_read_exhibits(dossier, summary.texts, len(members)),
        heat=_read_heat(dossier, summary),
        groups=tables.to_array(scores["group"]) if "group" in scores.columns else None,
        covariates=covariates,
        adjustment=adjustment,
        path=folder,
        class_names=None if names is None else check_strings(names, f"{folder}: class_names"),
        unexplained_scores=unexplained,
        duplicate_groups=groups,
    )


def _judge_balance_anew(about: RunMetadata, adjustment: Adjustment, folder: Path) -> RunMetadata:
    """Return the metadata with the finding on covariates as scores and covariates give it, whatever the file says."""
    if all(finding.check != CovariateBalance.name for finding in about.findings):
        raise InputError(f"{folder}: summary.json lacks the finding on covariates")
    anew = describe_balance(adjustment)
    return replace(about, findings=tuple(anew if each.check == anew.check else each for each in about.findings))


def _require_columns(frame: pl.DataFrame, names: Sequence[str], path: Path) -> None:
    if missing := [name for name in names if name not in frame.columns]:
        raise InputError(f"{path}: lacks the columns {', '.join(missing)}")


def _float_column(frame: pl.DataFrame, name: str, folder: Path) -> Floats:
    return check_vector(tables.to_array(frame[name]), f"{folder}: {name}")


def _label_column(frame: pl.DataFrame, folder: Path) -> Ints | None:
    return _integer_column(frame, "label", folder)


def _integer_column(frame: pl.DataFrame, name: str, folder: Path) -> Ints | None:
    return check_labels(tables.to_array(frame[name]), f"{folder}: {name}") if name in frame.columns else None


def _read_exhibits(dossier: RunDirectory, texts: Mapping[str, str], candidates: int) -> dict[int, Array | str]:
    exhibits: dict[str, Array | str] = dict(texts)
    for row, values in dossier.read_arrays("exhibits").items():
        exhibits[row] = check_nonempty(np.atleast_1d(check_array(values, f"{dossier.path}: exhibit {row}")), row)
    rows = {str(row) for row in range(candidates)}
    if unknown_rows := sorted(set(exhibits) - rows):
        raise InputError(f"{dossier.path}: exhibits of unknown candidates ({', '.join(unknown_rows[:5])})")
    return {int(row): value for row, value in exhibits.items()}


def _read_heat(dossier: RunDirectory, summary: AuditSummary) -> dict[int, HeatStrip]:
    """Return token values by row, checked against the text that each belongs to."""
    for row, strip in summary.heat.items():
        if not strip.fits(summary.texts.get(row, "")):
            raise InputError(f"{dossier.path}: heat {row} does not belong to a text shown")
    return {int(row): strip for row, strip in summary.heat.items()}


def records_table(audit: Findings) -> pl.DataFrame:
    """Table with one row per candidate: id, membership, class, group, scores, and selections at each FPR.

    A level for which there are too few calibration records has no column.
    """
    columns: dict[str, Array] = {"id": audit.ids, "member": audit.members}
    if audit.labels is not None:
        columns["label"] = _name_labels(audit)
    if audit.groups is not None:
        columns["group"] = audit.groups
    for name in audit:
        columns[f"{name} score"] = audit.scores[name]
        selections = audit[name].selections(audit.fpr)
        columns |= {
            f"{name} called at FPR {level:g}": selection.selected
            for level, selection in selections.items()
            if selection is not None
        }
    return tables.from_arrays(columns)


def _name_labels(audit: Findings) -> Array:
    """Return the class of each candidate by its name; by its number where classes have none."""
    assert audit.labels is not None
    return audit.labels if audit.class_names is None else np.array(audit.class_names, dtype=object)[audit.labels]


AUDIT = RunKind(
    name=KIND,
    title="Membership inference audit",
    summary_type=AuditSummary,
    sections=audit_page.sections,
    headline=audit_page.headline,
    facts=audit_page.facts,
    origin=audit_page.origin,
    read=_read_run,
    records=lambda folder: tables.add_input_columns(records_table(load(folder)), read_input_columns(folder)),
)
