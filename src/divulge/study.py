"""What studies have in common: one way to open a subject, to save and show a result, and to hold it to limits.

A study is a package with settings, a result (a `Study`) and a `divulge.report.run_kinds.RunKind`, which one entry in
`divulge.runs` lists; CONTRIBUTING.md writes one from scratch. An audit, which resumes work, has a result of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from divulge import store
from divulge.auditing.findings import CONFIDENCE
from divulge.auditing.gates import Limit, Ruling, Rulings, parse_limits
from divulge.auditing.inputs import align_data
from divulge.auditing.modality import resolve_task
from divulge.auditing.pipeline import find_modality
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.report import notebook
from divulge.report.run_kinds import build_page, write_report, write_run
from divulge.results import StudyControl
from divulge.run_directory import RunDirectory
from divulge.targets import adapt
from divulge.validation import check_number, check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from divulge.auditing.modality import Modality
    from divulge.report import Page
    from divulge.report.run_kinds import RunKind
    from divulge.run_directory import RunDraft
    from divulge.settings import Outputs, TaskName, UnknownClasses
    from divulge.types import Array, AuditData, Tone

FALSE_ALARM = 0.01  # of every check of records and models
StudyT = TypeVar("StudyT", bound="Study")


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Model and records of a study, checked as an audit checks them.

    Args:
        model: the adapter as it came, of which reference models are clones.
        target: the same, given frames where the records have columns: ask this one.
        modality: of the model.
        data: records in the target's order of columns and classes.
        notes: what was assumed.
    """

    model: Any
    target: Any
    modality: Modality
    data: AuditData
    notes: tuple[str, ...]


def open_subject(
    target: Any,
    data: AuditData,
    *,
    outputs: Outputs = "logits",
    device: str = "auto",
    task: TaskName = "auto",
    unknown_classes: UnknownClasses = "error",
) -> Subject:
    """Adapt a model, find out what it does, and bring the records into its order of columns and classes.

    Raises:
        divulge.InputError: a model that cannot be asked, records that do not fit it.
    """
    model = resolve_task(adapt(target, outputs=outputs, device=device, labels_only=True, task=task), data, task)
    modality = find_modality(model)
    aligned = align_data(modality.prepare_data(data), model, unknown_classes)
    return Subject(model, aligned.target, modality, aligned.subject, aligned.notes)


def compare_blindly(
    name: str,
    inside: Array,
    outside: Array,
    y: tuple[Array | None, Array | None],
    seed: int,
    *,
    other_records: tuple[Array, Array | None] | None = None,
    apart: str,
    alike: str,
) -> StudyControl:
    """Compare two sets of records without any model; different ones say nothing of the model that tells them apart.

    Args:
        name: of the check.
        inside: records ``[m, ...]``, encoded with the others.
        outside: records ``[n, ...]``.
        y: their labels ``[m]`` and ``[n]``, or None and None.
        seed: of `divulge.evaluation.blind.baseline`.
        other_records: of neither side, from which labels are learned as well.
        apart: what is said where they can be told apart; ``{}`` stands for AUC and p-value.
        alike: what is said where they cannot be.
    """
    if min(len(inside), len(outside)) < 2 * blind.FOLDS:
        return StudyControl(name, None, f"not run: fewer than {2 * blind.FOLDS} records of a kind")
    baseline = blind.baseline(
        inside, outside, seed, y_members=y[0], y_nonmembers=y[1], other_records=other_records, false_alarm=FALSE_ALARM
    )
    p_value = f"p = {baseline.p_value:.2g}"
    says = apart.format(f"AUC {baseline.auc.value:.3f}, {p_value}") if baseline.confounded else f"{alike} ({p_value})"
    return StudyControl(name, not baseline.confounded, says)


@dataclass(frozen=True, slots=True)
class StudyVerdict:
    """Answer of a study.

    Args:
        answer: in a word or two; those that there are stand with the study.
        text: the answer in sentences.
        tone: of a report that begins with it.
    """

    answer: str
    text: str
    tone: Tone

    def __str__(self) -> str:
        return self.text


class Study(ABC):
    """Result of a study: a frozen dataclass (``repr=False``) of what its answer is computed from.

    A subclass has its ``run_kind``, its `summary`, and what `write` keeps beside that; where its `RunKind`
    names metrics, also how to `rule` on them. Page, report, run directory, notebook and gate follow.
    """

    run_kind: ClassVar[RunKind[Any]]

    @abstractmethod
    def summary(self) -> Any:
        """Return the typed summary for JSON and the report."""

    @abstractmethod
    def write(self, draft: RunDraft) -> None:
        """Write what the answer is computed from, beside the summary, into the draft of a run."""

    def rule(self, limits: Sequence[Limit], confidence: float) -> Iterable[Ruling]:
        """Return a ruling for each limit and for what it is held against; all hold with this confidence.

        None by default: without metrics in its `RunKind` there are no limits.
        """
        return ()

    def page(self) -> Page:
        """Return the report as data."""
        return build_page(self.run_kind, StudyRun(self.summary(), self))

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML file."""
        write_report(self.run_kind, StudyRun(self.summary(), self), check_path(path, "path"))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write what the answer is computed from, summary and report into a run directory.

        Raises:
            divulge.InputError: the folder is in use, cannot be written, or holds a run (unless ``overwrite``).
        """
        name = self.run_kind.name
        key = store.hash_values(name, repr(self.summary()))
        with RunDirectory(check_path(folder, "out")).writing(name, key, overwrite=overwrite) as draft:
            self.write_to(draft)

    def write_to(self, draft: RunDraft) -> None:
        """Write all files of the run into its draft."""
        self.write(draft)
        write_run(draft, self.run_kind, StudyRun(self.summary(), self))

    def gate(self, policy: str | Sequence[str], *, confidence: float = CONFIDENCE) -> Rulings:
        """Hold the result against one or more ``METRIC:LIMIT``; `divulge.gate` says more.

        Raises:
            divulge.InputError: no policy, one that cannot be read, a confidence outside (0, 1), a study without limits.
        """
        if not self.run_kind.metrics:
            raise InputError(f"policy: a result of kind {self.run_kind.name!r} cannot be held to limits")
        limits = parse_limits(policy, self.run_kind.metrics, self.run_kind.noun)
        check_number(confidence, "confidence", above=0, below=1)
        return Rulings(self.rule(limits, confidence))

    def picture(self) -> str:
        """Return a picture for notebooks, of `divulge.report.notebook.draw_intervals`; none by default."""
        return ""

    def __str__(self) -> str:
        return str(self.summary().verdict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, the picture, and the first table of the report."""
        return notebook.render_page(self.page(), self.picture())


def reopen(result: StudyT, stored: Any) -> StudyRun[StudyT]:
    """Return a run that was read back: all is decided again, except which software ran."""
    return StudyRun(replace(result.summary(), environment=stored.environment), result)


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun(Generic[StudyT]):
    """A finished study as its page needs it."""

    summary: Any
    result: StudyT
