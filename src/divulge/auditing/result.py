"""An audit's findings in a run directory and out of it, and on paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from divulge import results, tables
from divulge.auditing import covariate_adjustment, kept
from divulge.auditing.audit_page import audit_page
from divulge.auditing.audit_summary import summarise_audit
from divulge.auditing.findings import Findings
from divulge.auditing.verdict import Verdict, decide_verdict
from divulge.dossier import Dossier
from divulge.report import html
from divulge.results import provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.dossier import Draft
    from divulge.report import Page
    from divulge.results import AuditSummary
    from divulge.results.provenance import Provenance
    from divulge.types import Array
KIND = "audit"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit(Findings):
    """The result of an audit; indexing by a recipe's name gives its `Outcome`.

    Its fields are those of `divulge.auditing.findings.Findings`.
    """

    def summary(self) -> AuditSummary:
        """Every number of the report, and what was done; what ``summary.json`` holds."""
        return summarise_audit(self)

    @property
    def verdict(self) -> Verdict:
        """The answer: a leak found, none found (and what would have been seen), or too little data to say."""
        return decide_verdict(self)

    def report(
        self, path: str | Path, *, beside: Mapping[str, Audit] | None = None, made: Provenance | None = None
    ) -> Path:
        """Write the HTML report to ``path`` and return it.

        Args:
            path: the file.
            beside: audits of the same candidates to show in it, by name; those kept inside this one's directory
                when None.
            made: where the run comes from; what its directory says when None.
        """
        html.write(self.page(beside=beside, made=made), Path(path))
        return Path(path)

    def page(self, *, beside: Mapping[str, Audit] | None = None, made: Provenance | None = None) -> Page:
        """The report as data; see `report`."""
        shown = self.inner() if beside is None else self._same(beside)
        said = self.verdict
        return audit_page(self, summarise_audit(self, said), said, shown, made or provenance.read(self.path))

    def inner(self) -> dict[str, Audit]:
        """Finished audits in sub-directories of this one's, of the same candidates under other conditions."""
        if self.path is None:
            return {}
        folders = [mark.parent for mark in sorted(self.path.glob("*/run.json"))]
        return self._same({folder.name: load(folder) for folder in folders if Dossier(folder).finished(KIND)})

    def _same(self, audits: Mapping[str, Audit]) -> dict[str, Audit]:
        return {name: audits[name] for name in sorted(audits) if audits[name].candidates == self.candidates}

    def save(self, draft: Draft, files: Mapping[str, Sequence[Path]] | None = None) -> None:
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
        unexplained = {f"{kept.UNEXPLAINED_PREFIX}{name}": values for name, values in self.unexplained_scores.items()}
        signals = {f"{kept.SIGNAL_PREFIX}{name}": values for name, values in self.signals.items()}
        draft.write_table("scores", tables.from_arrays(columns | dict(self.scores) | unexplained | signals))
        calibration: dict[str, Array] = dict(self.calibration)
        if self.calibration_labels is not None:
            calibration = {"label": self.calibration_labels} | calibration
        draft.write_table("calibration", tables.from_arrays(calibration))
        if self.covariates is not None:
            draft.write_table("covariates", covariate_adjustment.covariates_to_frame(self.covariates))
        arrays = {str(row): values for row, values in self.exhibits.items() if not isinstance(values, str)}
        draft.write_arrays("exhibits", arrays)
        said = self.verdict
        summary = summarise_audit(self, said)
        results.write(draft, summary)
        made = provenance.write(draft, files)
        html.write(audit_page(self, summary, said, {}, made), draft.path / "report.html")

    def __repr__(self) -> str:
        return f"Audit({', '.join(self.scores)}; {int(self.members.sum())} members of {len(self.members)} candidates)"


def load(directory: str | Path) -> Audit:
    """The audit kept in ``directory``, without running anything again.

    Raises:
        divulge.InputError: no finished audit there, or a damaged file.
    """
    dossier = Dossier(Path(directory))
    return dossier.read(KIND, lambda: kept.read_findings(dossier, Audit))


def rerender(directory: str | Path) -> Path:
    """Write ``report.html`` in ``directory`` anew from the audit kept there, and return its place.

    Raises:
        divulge.InputError: as `load`; another process is writing there.
    """
    dossier = Dossier(Path(directory))
    with dossier.changing(KIND) as draft:
        load(directory).report(draft.path / "report.html")
    return dossier.path / "report.html"
