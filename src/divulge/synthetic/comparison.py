"""Releases of one table side by side: which gives away less of the same records?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import evaluation
from divulge.auditing.compare import CHANGE_UNKNOWN, HEADINGS_BY_TONE, Difference, change_table, summarise_changes
from divulge.auditing.findings import CONFIDENCE
from divulge.errors import InputError
from divulge.report import Chart, Page, Section, Table, charts, html, notebook
from divulge.report.formatting import format_estimate
from divulge.synthetic.controls import HOLDOUT
from divulge.synthetic.page import SYNTHETIC
from divulge.synthetic.result import CANNOT_JUDGE, LEAK, SyntheticAudit
from divulge.synthetic.scores import AUTO
from divulge.validation import check_choice, check_instance, check_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Tone

_NOTE = (
    "The same records in all runs; changes are paired record by record, and the intervals of all changes hold together "
    "with 95 % confidence."
)


@dataclass(frozen=True, slots=True, repr=False)
class ReleaseComparison:
    """Releases of one table (two generators, or two settings of one), each compared with the first.

    Args:
        runs: name → audit; the first is the one that the others are compared with.
        changes: name of every further run → its paired differences, whose intervals hold together.
    """

    runs: Mapping[str, SyntheticAudit]
    changes: Mapping[str, tuple[Difference, ...]]

    def judge(self, name: str) -> tuple[str, str, Tone]:
        """Return heading, sentence and tone of what became of a run; a leak that is left is never good news."""
        after = self.runs[name]
        verdict, holdout = after.verdict, next(each for each in after.controls if each.name == HOLDOUT)
        # Of a generator that saw the non-members, members and non-members are as near to the release.
        doubt = "" if holdout.state == "holds" or verdict.answer == LEAK else holdout.says
        stored = verdict.plain.rstrip(".") if verdict.code == "rows" else ""
        before = next(iter(self.runs.values())).verdict
        baseline = before.text.rstrip(".") if before.answer == CANNOT_JUDGE else ""
        sentence, tone = summarise_changes(self.changes[name], doubt, stored, baseline)
        heading = CHANGE_UNKNOWN if baseline else HEADINGS_BY_TONE[tone]
        if verdict.answer == CANNOT_JUDGE:
            return f"Nothing can be said of {name}", verdict.text, "void"
        if verdict.answer == LEAK:
            ending = "a leak is found all the same" if tone == "clear" else "a leak is found"
            return (
                f"{heading}, and {ending}",
                sentence if stored else f"{sentence} {verdict.plain}",
                "leak",
            )
        return heading, sentence, tone

    def overview(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows of a table of the runs: verdict, AUC, what is copied."""
        rows = []
        for name, audit in self.runs.items():
            copied = [f"{proof.members} / {proof.nonmembers}" for proof in audit.proofs if proof.name == "values"]
            rows.append([name, audit.verdict.answer, format_estimate(audit[AUTO].auc), *(copied or ["–"])])
        return ["run", "verdict", "AUC of auto", "copied values: members / non-members"], rows

    def page(self) -> Page:
        """Return the comparison as a page."""
        endings = {name: self.judge(name) for name in self.changes}
        first, (heading, sentence, tone) = next(iter(endings.items()))
        sections = [Section("Releases", [Table(*self.overview(), sortable=False)])]
        for name, changes in self.changes.items():
            aucs = {change.recipe: change.change for change in changes if change.statistic == "auc"}
            chart = Chart(
                charts.intervals(aucs, quantity="change of AUC", reference=0.0), note="Left: less than before."
            )
            sections.append(Section(f"Changes: {name}", [chart, Table(*change_table(changes), note=_NOTE)]))
        details = tuple(f"{name}: {title}. {text}" for name, (title, text, _) in endings.items() if name != first)
        return Page("Releases compared", sentence, tone, sections, heading=heading, details=details)

    def report(self, path: str | Path) -> Path:
        """Write the comparison as an HTML page to ``path`` and return it."""
        html.write(self.page(), file := check_path(path, "path"))
        return file

    def to_frame(self) -> pl.DataFrame:
        """Return a row for every run, score and statistic: before, after, and the change with its interval."""
        rows = [
            (name, d.recipe, d.statistic, d.before.value, d.after.value, d.change.value, d.change.low, d.change.high)
            for name, changes in self.changes.items()
            for d in changes
        ]
        columns = ["run", "score", "statistic", "before", "after", "change", "low", "high"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    def _repr_html_(self) -> str:
        return notebook.render_page(self.page())

    def __repr__(self) -> str:
        first, *others = self.runs
        return f"ReleaseComparison({', '.join(others)} with {first})"


def compare_releases(*runs: SyntheticAudit | str | Path, scores: Sequence[str] | None = None) -> ReleaseComparison:
    """Compare releases that were made from the same members, audited with the same non-members.

    Args:
        *runs: results or run directories, at least two; all are compared with the first.
        scores: which to compare; by default all that the runs share.

    Raises:
        divulge.InputError: fewer than two runs, other records, no score in common.
    """
    if len(runs) < 2:
        raise InputError(f"runs: at least 2 are needed, got {len(runs)}")
    names = [Path(run).name if isinstance(run, str | Path) else "" for run in runs]
    audits = {
        name if name and names.count(name) == 1 else f"run {number}": _open_release(run)
        for number, (name, run) in enumerate(zip(names, runs, strict=True), start=1)
    }
    before, *others = audits.values()
    for audit in others:
        if audit.candidates_digest != before.candidates_digest or not np.array_equal(audit.ids, before.ids):
            raise InputError("compare: the audits have other members or non-members; differences are paired by record")
    shared = [name for name in before if all(name in audit.scores for audit in others)]
    chosen = shared if scores is None else [check_choice(name, "scores", shared) for name in scores]
    levels = [level for level in before.settings.fpr if all(level in audit.settings.fpr for audit in others)]
    statistics = ["auc", *(f"tpr@fpr={level:g}" for level in levels)]
    confidence = 1 - (1 - CONFIDENCE) / (len(chosen) * len(statistics) * len(others))
    further = list(audits)[1:]
    return ReleaseComparison(
        audits,
        {name: tuple(_measure(before, audits[name], score, statistic, confidence)
                     for score in chosen for statistic in statistics) for name in further},
    )  # fmt: skip


def _open_release(run: SyntheticAudit | str | Path) -> SyntheticAudit:
    if isinstance(run, str | Path):
        return SYNTHETIC.load(check_path(run, "run")).result
    return check_instance(run, "run", SyntheticAudit, "the result of an audit of a release, or its run directory")


def _measure(
    before: SyntheticAudit, after: SyntheticAudit, score: str, statistic: str, confidence: float
) -> Difference:
    both_count = before.is_counted & after.is_counted
    is_member, old, new = before.members[both_count], before.scores[score][both_count], after.scores[score][both_count]
    return Difference(
        score,
        statistic,
        evaluation.measure(old, is_member, statistic),
        evaluation.measure(new, is_member, statistic),
        evaluation.paired_difference(new, old, is_member, statistic, confidence),
    )
