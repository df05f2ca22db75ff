"""The result of attribute inference: right and wrong guesses, what follows from them, and its page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from divulge import results, store, tables
from divulge.attributes.finding import (
    CONFOUNDED,
    IMPUTATION,
    LEAK,
    TONES,
    TOO_LITTLE,
    decide_attribute,
    describe_copies,
    possibly_given_away,
)
from divulge.auditing.gates import Limit, Ruling, describe_open_verdict
from divulge.errors import InputError
from divulge.provenance import collect_environment
from divulge.report import charts, formatting
from divulge.report.page import Bullet, BulletList, Chart, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, RunKind
from divulge.report.sections import ADVICE_TITLE, FAIRNESS_TITLE, RegulatorAnswers, regulator_section
from divulge.results import AttributeAttack, AttributeSummary, AttributeValue, StoredRecords, StudyControl
from divulge.settings import AttributeSettings
from divulge.study import Study, StudyRun, reopen
from divulge.types import Estimate
from divulge.validation import check_mask, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from divulge.attributes.finding import AttributeFinding
    from divulge.run_directory import RunDirectory, RunDraft
    from divulge.types import Array, Bools, Ints

RUN_TYPE = "attributes"
_STORED = "records in the file"
_MEANING: Mapping[str, str] = {
    "model": "the label's likelihood under each value, and how frequent the value is",
    "model and imputation": "the same, and what the other columns say",
    "model against references": "the likelihood relative to models that never saw the record, and what columns and "
    "label say",
    IMPUTATION: "what columns and label say, from the population; the model is not asked",
}
_HEADINGS = {CONFOUNDED: "Nothing can be said of the model"}
_ADVERSARY = (
    "Who can do this: anyone who knows all other columns of a record and its label, has records of the same kind, and "
    "may ask the model about the record with each value of the column."
)
_CANNOT = (
    "An attribute that can be guessed from the population is guessed of everybody, whether or not the model was "
    "trained on them; that is no leak of a record, and may yet be unwelcome. Other attacks, and adversaries who know "
    "less or more, were not tried."
)


@dataclass(frozen=True, eq=False, repr=False)
class AttributeInference(Study):
    """Result of `divulge.attributes.infer`.

    Args:
        ids: of the candidates, members first, ``[n]``.
        members: bool ``[n]``.
        is_counted: bool ``[n]``, the first of equal records on each side.
        values: number of each candidate's value, or third of a real-valued column, ``[n]``.
        value_names: their names.
        right: attack → bool ``[n]``, whether its guess is right.
        column: name of the attribute.
        tried: number of values that the model was asked about.
        references: number of reference models.
        checks: of the split.
        warnings: what the user must know.
        settings: what was asked for.
        doubt: why the target may not be the model that was trained on the members; empty where it surely is.
        stored: training records that stand in the model's arrays; None where nothing was searched.
        copied: number of records that have a copy in another set, which can hide a leak.
    """

    ids: Array
    members: Bools
    is_counted: Bools
    values: Ints
    value_names: tuple[str, ...]
    right: Mapping[str, Bools]
    column: str
    tried: int
    references: int
    checks: tuple[StudyControl, ...]
    warnings: tuple[str, ...]
    settings: AttributeSettings
    doubt: str = ""
    stored: StoredRecords | None = None
    copied: int = 0

    @property
    def counts(self) -> tuple[int, int]:
        """Number of members and of non-members that count."""
        return int(self.members[self.is_counted].sum()), int((~self.members[self.is_counted]).sum())

    @cached_property
    def finding(self) -> AttributeFinding:
        """The answer, with every difference behind it; equal records on one side count once."""
        return self.decide(self.settings.confidence)

    def decide(self, confidence: float) -> AttributeFinding:
        """Return the answer with intervals that all hold together with another confidence."""
        is_stored = self.stored is not None and self.stored.proven
        rows = self.is_counted
        failed = [check.says for check in self.checks if check.passed is False]
        return decide_attribute(
            {name: each[rows] for name, each in self.right.items()},
            self.members[rows],
            self.values[rows],
            self.value_names,
            margin=self.settings.margin,
            confidence=confidence,
            confounded="; ".join(failed),
            doubt=self.doubt,
            stored=self.stored.sentence if self.stored is not None and is_stored else "",
            copied=self.copied,
        )

    @property
    def verdict(self) -> str:
        """The answer in sentences."""
        return f"{formatting.capitalize(self.finding.answer)}. {self.finding.reason}"

    def to_frame(self) -> pl.DataFrame:
        """Return one row per candidate: id, membership, and whether each attack is right."""
        guesses = {f"right: {name}": each for name, each in self.right.items()}
        return tables.from_arrays({"id": self.ids, "member": self.members} | guesses)

    def summary(self) -> AttributeSummary:
        """Return the typed summary for JSON and the report."""
        finding = self.finding
        notes = [f"{check.name}: {check.says}" for check in self.checks if not check.passed]
        if self.stored is not None and (self.stored.proven or self.stored.suspected):
            notes.append(f"{_STORED}: {self.stored.sentence}")
        return AttributeSummary(
            verdict=self.verdict,
            tone=TONES[finding.answer],
            answer=finding.answer,
            column=self.column,
            tried=self.tried,
            references=self.references,
            members=self.counts[0],
            nonmembers=self.counts[1],
            attacks=finding.attacks,
            values=finding.values,
            untested=finding.untested,
            checks=self.checks,
            warnings=(*self.warnings, *notes),
            settings=self.settings,
            environment=collect_environment(),
            doubt=self.doubt,
            stored=self.stored,
            copied=self.copied,
        )

    def write(self, draft: RunDraft) -> None:
        """Write the guesses."""
        columns: dict[str, Any] = {"id": self.ids, "member": self.members, "counted": self.is_counted}
        columns |= {"value": self.values} | {f"right: {name}": each for name, each in self.right.items()}
        draft.write_table("guesses", tables.from_arrays(columns))
        draft.write_json("value_names", list(self.value_names))

    def rule(self, limits: Sequence[Limit], confidence: float) -> list[Ruling]:
        """Rule on each attack and limit; of "value", on each attack and value that was tested.

        What is given away is the smaller of two differences: what an attack is right on members more often than on
        non-members, and more often than imputation is. All are broken where training records stand in the model's
        file, and undecided where members differ from non-members without the model. Nothing is "kept" by a target that
        may not be the model that was trained on the members, of single values where too few records have one of them,
        or where copies across the sets may hide more.
        """
        finding = self.decide(1 - (1 - confidence) / len(limits))
        void = finding.reason.rstrip(".") if finding.answer == CONFOUNDED else ""
        open_verdict = describe_open_verdict(finding.reason) if finding.answer == TOO_LITTLE else ""
        in_file = "" if self.stored is None else self.stored.sentence.rstrip(".")
        stored = in_file if self.stored is not None and self.stored.proven else ""
        suspected = in_file if self.stored is not None and self.stored.suspected else ""
        untested = finding.untested
        rare = f"{untested:,} members have a value that too few records have for a test" if untested else ""
        rulings = []
        for limit in limits:
            parts: list[tuple[str, str, AttributeAttack | AttributeValue]] = [
                (each.name, "all", each) for each in finding.attacks if each.gain is not None
            ]
            if limit.metric == "value":
                parts = [(each.attack, each.value, each) for each in finding.values]
            if not parts:
                doubt = void or "no value is shared by enough members and non-members for a test of its own"
                rulings.append(Ruling("all", "all", limit.metric, limit.limit, None, doubt, stored=stored))
            for name, scope, part in parts:
                difference, gain = part.difference, part.gain
                assert gain is not None
                # Where the intervals of both differences hold, so does this one of the smaller of them.
                low, value, high = (
                    min(getattr(difference, end), getattr(gain, end)) for end in ("low", "value", "high")
                )
                measured = Estimate(value, low, high, difference.confidence, difference.method)
                doubt = ""
                if high <= limit.limit:
                    counts = (part.members, part.nonmembers) if isinstance(part, AttributeValue) else self.counts
                    doubt = self.doubt or suspected or (rare if limit.metric == "value" else "")
                    if not doubt and possibly_given_away(part, *counts, self.copied) > limit.limit:
                        doubt = describe_copies(self.copied)
                rulings.append(
                    Ruling(
                        name, scope, limit.metric, limit.limit, measured, void or doubt, stored=stored,
                        open_verdict=open_verdict,
                    )
                )  # fmt: skip
        return rulings


AttributeRun: TypeAlias = StudyRun[AttributeInference]


def _read_run(directory: RunDirectory) -> AttributeRun:
    """Read guesses and summary; the answer is decided from the guesses again."""
    folder = directory.path
    stored, frame = results.read_summary(folder, AttributeSummary), directory.read_table("guesses")
    names = store.read_json(folder / "value_names.json", inside=folder)
    try:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("value_names.json: a list of texts is needed")
        if missing := {"id", "member", "counted", "value", f"right: {IMPUTATION}"} - set(frame.columns):
            raise InputError(f"lacks {', '.join(sorted(missing))}")
        n = len(frame)
        values = check_vector(tables.to_array(frame["value"]), "value", length=n).astype(np.int64)
        if not 0 <= values.min() <= values.max() < len(names):
            raise InputError("value: a value without a name")
        right = {
            name.removeprefix("right: "): check_mask(tables.to_array(frame[name]), name, (n,))
            for name in frame.columns
            if name.startswith("right: ")
        }
        notes = {f"{check.name}: {check.says}" for check in stored.checks}  # which `summary` adds again
        others = [text for text in stored.warnings if not text.startswith(f"{_STORED}: ")]
        warnings = tuple(text for text in others if text not in notes)
        result = AttributeInference(
            ids=tables.to_array(frame["id"]),
            members=check_mask(tables.to_array(frame["member"]), "member", (n,)),
            is_counted=check_mask(tables.to_array(frame["counted"]), "counted", (n,)),
            values=values, value_names=tuple(names), right=right, column=stored.column, tried=stored.tried,
            references=stored.references, checks=stored.checks,
            warnings=warnings,
            settings=stored.settings, stored=stored.stored,
            doubt=stored.doubt,
            copied=stored.copied,
        )  # fmt: skip
        return reopen(result, stored)
    except InputError as error:
        raise InputError(f"{folder}: damaged, {error}") from None


def headline(run: AttributeRun) -> Headline:
    """Return the answer, and what the adversary needs."""
    summary = run.summary
    heading = _HEADINGS.get(summary.answer, formatting.capitalize(summary.answer))
    text = run.result.finding.reason
    return Headline(summary.tone, text, heading, (_ADVERSARY,), statement=summary.verdict)


def facts(run: AttributeRun) -> dict[str, str]:
    """Return what was inferred of whom."""
    summary, settings = run.summary, run.summary.settings
    return {
        "attribute": summary.column,
        "a guess is right": "exactly" if settings.tolerance is None else f"within {settings.tolerance:g}",
        "values tried": str(summary.tried),
        "candidates": f"{summary.members:,} members and {summary.nonmembers:,} non-members",
        "reference models": str(summary.references),
        "difference that counts as none": formatting.format_percent(settings.margin),
        "seed": str(settings.seed),
    }


def attack_rows(summary: AttributeSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of attacks."""
    columns = ["guess by", "right on members", "on non-members", "difference", "beyond imputation, on members"]
    rows = [
        [
            attack.name,
            formatting.format_percent_estimate(attack.members),
            formatting.format_percent_estimate(attack.nonmembers),
            formatting.format_percent_estimate(attack.difference),
            "–" if attack.gain is None else formatting.format_percent_estimate(attack.gain),
        ]
        for attack in summary.attacks
    ]
    return columns, rows


def sections(run: AttributeRun) -> list[Section]:
    """Return advice, rates on members and others, single values, checks, and what this cannot show."""
    summary = run.summary
    columns, rows = attack_rows(summary)
    note = (
        f"The differences of the attacks hold together with {formatting.format_percent(summary.settings.confidence)} "
        "confidence, those of single values included; that of the imputation, which never asks the model, holds with "
        "99 % and shows whether the sets are alike. A value is given away where both are above 0: what an attack gains "
        "beyond imputation alone may be what the model teaches of everybody, and a difference alone may come from "
        "listening to a model that is wrong on others."
    )
    differences = {attack.name: attack.difference for attack in summary.attacks}
    meanings = [[attack.name, _MEANING.get(attack.name, "")] for attack in summary.attacks]
    return [
        *_advice(summary),
        Section(
            "What it shows of an attribute",
            [
                Table(columns, rows, note=note, sortable=False),
                Chart(charts.intervals(differences, quantity="difference of the rates", reference=0.0, unit="%")),
                Table(("guess by", "what it weighs"), meanings, sortable=False),
            ],
        ),
        Section("By value", _value_blocks(summary)),
        Section(FAIRNESS_TITLE, [_check_table(summary)]),
        Section("What this cannot show", [Paragraph(_CANNOT)]),
        regulator_section(
            RegulatorAnswers(
                means=f"attribute inference of {summary.column} by {', '.join(differences)}.",
                queries=f"On this attribute alone: {summary.verdict}",
                unit="One column of one record, as given.",
            )
        ),
    ]


def _advice(summary: AttributeSummary) -> list[Section]:
    if summary.answer != LEAK:
        return []
    if summary.stored is not None and summary.stored.proven:
        point = Bullet(
            "Do not release the file.",
            f"{summary.stored.sentence} {summary.stored.evidence} Another kind of model keeps none; grant "
            "queries alone where it must be this one.",
        )
        return [Section(ADVICE_TITLE, [BulletList([point])])]
    point = Bullet(
        "Make the model fit single records less.",
        "A value is given away because the model is surer of a training record as it is than of the same record with "
        "another value. What lowers membership leaks lowers this: divulge defend measures it on your own model.",
    )
    return [Section(ADVICE_TITLE, [BulletList([point])])]


def _value_blocks(summary: AttributeSummary) -> list[Paragraph | Table]:
    blocks: list[Paragraph | Table] = []
    if summary.values:
        rows = [
            [
                comparison.attack, comparison.value, f"{comparison.right_members} of {comparison.members}",
                f"{comparison.right_nonmembers} of {comparison.nonmembers}",
                formatting.format_percent_estimate(comparison.difference),
                formatting.format_percent_estimate(comparison.gain),
            ]
            for comparison in summary.values
        ]  # fmt: skip
        columns = ("guess by", "value", "right on members", "on non-members", "difference", "beyond imputation")
        blocks.append(Table(columns, rows, single_records=True))
    if summary.untested:
        blocks.append(
            Paragraph(
                f"{formatting.format_count(summary.untested, 'member')} have a value that too few records have for a "
                "test of its own: of them by themselves nothing can be said."
            )
        )
    return blocks


def _check_table(summary: AttributeSummary) -> Table:
    rows = [[check.name, check.result, check.says] for check in summary.checks]
    control = next(check for check in summary.attacks if check.name == IMPUTATION)
    is_alike = control.difference.low <= 0 <= control.difference.high
    if summary.stored is not None:
        rows.append(
            [
                "records in the model's arrays",
                "FOUND" if summary.stored.proven else "nothing found",
                summary.stored.sentence,
            ]
        )
    rows.append(
        [
            "whether this is the model trained on the members",
            "FOUND" if summary.doubt else "nothing found",
            f"in doubt: {summary.doubt}" if summary.doubt else "it predicts them surely better than a constant answer",
        ]
    )
    says = f"right on members less on non-members: {formatting.format_percent_estimate(control.difference)}"
    rows.append(["imputation without the model", "nothing found" if is_alike else "FOUND", says])
    return Table(("check", "result", "what it says"), rows, sortable=False)


ATTRIBUTES = RunKind(
    name=RUN_TYPE,
    title="Attribute inference",
    summary_type=AttributeSummary,
    sections=sections,
    headline=headline,
    facts=facts,
    warnings=lambda run: run.summary.warnings,
    read=_read_run,
    records=lambda folder: ATTRIBUTES.load(folder).result.to_frame(),
    noun="attribute inference",
    metrics=("share", "value"),
)
AttributeInference.run_kind = ATTRIBUTES
