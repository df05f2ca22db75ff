"""An audit's findings in a run directory and out of it, and on paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from divulge import checks, store
from divulge.auditing.outcome import Findings
from divulge.auditing.page import page
from divulge.auditing.summary import summarise
from divulge.dossier import Dossier
from divulge.recipes import RESERVED

KIND = "audit"

_SIGNAL = "signal:"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit(Findings):
    """The result of an audit; indexing by a recipe's name gives its `Outcome`.

    Its fields are those of `divulge.auditing.outcome.Findings`.
    """

    def summary(self) -> dict[str, Any]:
        """Every number of the report as plain data; what ``summary.json`` holds."""
        return summarise(self)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report to ``path`` and return it; audits kept inside this one's directory are in it too."""
        from divulge.report import html

        html.write(page(self, self.summary(), self.inner()), Path(path))
        return Path(path)

    def inner(self) -> dict[str, Audit]:
        """Finished audits in sub-directories of this one's, of the same candidates under other conditions."""
        if self.path is None:
            return {}
        folders = [mark.parent for mark in sorted(self.path.glob("*/run.json"))]
        found = {folder.name: load(folder) for folder in folders if Dossier(folder).finished(KIND)}
        return {name: inner for name, inner in found.items() if inner.candidates == self.candidates}

    def save(self, dossier: Dossier) -> None:
        """Write scores, nulls, summary and report into ``dossier``."""
        import polars as pl

        columns: dict[str, Any] = {"id": self.ids, "member": self.members}
        if self.labels is not None:
            columns["label"] = self.labels
        if self.groups is not None:
            columns["group"] = self.groups
        signals = {f"{_SIGNAL}{name}": values for name, values in self.signals.items()}
        dossier.write_table("scores", pl.DataFrame(columns | dict(self.scores) | signals))
        nulls: dict[str, Any] = dict(self.nulls)
        if self.null_labels is not None:
            nulls = {"label": self.null_labels} | nulls
        dossier.write_table("nulls", pl.DataFrame(nulls))
        texts = {str(row): text for row, text in self.exhibits.items() if isinstance(text, str)}
        arrays = {str(row): values for row, values in self.exhibits.items() if not isinstance(values, str)}
        store.write_arrays(dossier.path / "exhibits.npz", arrays)
        dossier.write_json("summary", {"kind": KIND, **self.summary(), "about": dict(self.about), "texts": texts})
        self.report(dossier.path / "report.html")

    def __repr__(self) -> str:
        return f"Audit({', '.join(self.scores)}; {int(self.members.sum())} members of {len(self.members)} candidates)"


def load(directory: str | Path) -> Audit:
    """The audit kept in ``directory``, without running anything again.

    Raises:
        divulge.InputError: no finished audit there, or a damaged file.
    """
    dossier = Dossier(Path(directory)).open(KIND)
    scores, nulls, kept = dossier.read_table("scores"), dossier.read_table("nulls"), dossier.read_json("summary")
    recipes = [name for name in scores.columns if name not in RESERVED and not name.startswith(_SIGNAL)]
    if missing := [name for name in recipes if name not in nulls.columns]:
        raise checks.InputError(f"{dossier.path}: nulls.parquet lacks the columns {', '.join(missing)}")
    exhibits: dict[int, Any] = {int(row): text for row, text in kept["texts"].items()}
    exhibits |= {int(row): values for row, values in store.read_arrays(dossier.path / "exhibits.npz").items()}
    return Audit(
        scores={name: scores[name].to_numpy() for name in recipes},
        nulls={name: nulls[name].to_numpy() for name in recipes},
        ids=scores["id"].to_numpy(),
        members=scores["member"].to_numpy(),
        labels=scores["label"].to_numpy() if "label" in scores.columns else None,
        null_labels=nulls["label"].to_numpy() if "label" in nulls.columns else None,
        unseen_classes=tuple(kept["unseen_classes"]),
        fpr=tuple(kept["fpr"]),
        signals={
            name.removeprefix(_SIGNAL): scores[name].to_numpy() for name in scores.columns if name.startswith(_SIGNAL)
        },
        about=kept["about"],
        exhibits=exhibits,
        groups=scores["group"].to_numpy() if "group" in scores.columns else None,
        path=dossier.path,
    )
