"""The result of an erasure check: scores of every record under every model, and everything that follows from them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import results, statistics, tables
from divulge.auditing.gates import Limit, Ruling
from divulge.errors import InputError
from divulge.provenance import collect_environment
from divulge.report import formatting
from divulge.report.run_kinds import RunKind
from divulge.results import ErasureSummary, QualityChange, StudyControl
from divulge.settings import ForgetSettings
from divulge.study import Study, StudyRun, StudyVerdict, reopen
from divulge.types import Estimate
from divulge.unlearning import erasure_page
from divulge.unlearning.finding import (
    NO_DIFFERENCE,
    OVERDONE,
    REMEMBERED,
    TOO_LITTLE,
    decide_request,
    drop_copies,
)
from divulge.validation import check_matrix, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.results import ErasureFinding
    from divulge.run_directory import RunDirectory, RunDraft
    from divulge.types import Array, Bools, Floats, Tone
    from divulge.unlearning.finding import DecidedRequest

RUN_TYPE = "erasure"
NEVER, RETAINED, OTHER = "never used", "retained", "other"
BLIND = "blind classifier"
CONTROL_CHECKS = (CONTROLS_MATCH, CONTROLS_NEVER_SAW) = ("controls match the model", "controls never saw the records")
# The answer of several requests is that of the worst.
_ORDER = (NO_DIFFERENCE, TOO_LITTLE, OVERDONE, REMEMBERED)
_TONES: Mapping[str, Tone] = {
    NO_DIFFERENCE: "clear", TOO_LITTLE: "undecided", OVERDONE: "doubt", REMEMBERED: "leak",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Erasure(Study):
    """Result of `divulge.forget`.

    Args:
        ids: of all records, ``[n]``.
        part: "never used", "retained", "other", or the name of a request in square brackets, ``[n]``.
        after: scores under the model after the erasure, ``[n]``, larger = more like a training record.
        before: the same before it; None where that model was not given.
        controls: the same under models that never saw the records, ``[k, n]``; NaN where one was trained on a record.
        control_names: of these models.
        null: "retrained models", "reference models", "retrained and reference models" or "nothing".
        signal: what was read from every model.
        correct: whether the models before and after predict the class, ``[2, n]``; None where nobody knows.
        checks: of records and models.
        warnings: what the user must know.
        settings: what was asked for.
    """

    ids: Array
    part: Array
    after: Floats
    before: Floats | None
    controls: Floats
    control_names: tuple[str, ...]
    null: str
    signal: str
    correct: Floats | None
    checks: tuple[StudyControl, ...]
    warnings: tuple[str, ...]
    settings: ForgetSettings

    @property
    def requests(self) -> tuple[str, ...]:
        """Names of the requests, in order."""
        names = (str(name) for name in dict.fromkeys(self.part.tolist()))
        return tuple(name[1:-1] for name in names if name.startswith("["))

    def rows(self, request: str) -> Bools:
        """Return which records a request is about, ``[n]``."""
        return self.part == f"[{request}]"

    @cached_property
    def decided(self) -> Mapping[str, DecidedRequest]:
        """Every request, decided so that all answers hold together."""
        return self.decide(self.settings.confidence)

    def decide(self, confidence: float) -> Mapping[str, DecidedRequest]:
        """Decide every request so that with probability ``confidence`` no answer is wrong (Bonferroni)."""
        never, names = self.part == NEVER, self.requests
        unlike = {check.name for check in self.checks if not check.passed}
        decided = {}
        for name in names:
            is_forgotten = self.rows(name)
            used = is_forgotten | never
            is_alike = blind_name(name) not in unlike
            decided[name] = decide_request(
                name, self.after[used], self.controls[:, used], is_forgotten[used],
                before=None if self.before is None else self.before[used], margin=self.settings.margin,
                confidence=1 - (1 - confidence) / len(names), fdr=self.settings.fdr / len(names),
                at_random=self.settings.at_random and is_alike, is_alike=is_alike,
                matched=not unlike & set(CONTROL_CHECKS),
                unseen=CONTROLS_NEVER_SAW not in unlike,
            )  # fmt: skip
        return decided

    @property
    def findings(self) -> tuple[ErasureFinding, ...]:
        """Findings on each request."""
        return tuple(decided.finding for decided in self.decided.values())

    @property
    def verdict(self) -> StudyVerdict:
        """The answer, in a word and in sentences.

        "still remembered", "no difference from a model that never saw them", "overdone: they stand out the other way"
        or "too little data to say"; of several requests, that of the one that fares worst.
        """
        findings = self.findings
        answer = max((finding.answer for finding in findings), key=_ORDER.index)
        return StudyVerdict(answer, self._describe(findings, answer), _TONES[answer])

    def _describe(self, findings: tuple[ErasureFinding, ...], answer: str) -> str:
        """Return the verdict of all requests in sentences, the first of which names what it was compared with."""
        k = len(drop_copies(self.controls))
        models = self.null[:-1] if k == 1 else self.null
        null = f", compared with {k} {models} by one score of each record" if k else ""
        if len(findings) == 1:
            return f"{formatting.capitalize(answer)}{null}: {_explain(findings[0])}."
        requests_by_answer = {
            each: [finding.request for finding in findings if finding.answer == each] for each in reversed(_ORDER)
        }
        parts = [
            f"{formatting.capitalize(each)}: {formatting.join_words(names)}."
            for each, names in requests_by_answer.items()
            if names
        ]
        return f"{len(findings)} requests{null}. {' '.join(parts)}"

    @property
    def remembered(self) -> Mapping[str, Array]:
        """Request → ids of the records on the list of those still remembered, those that stand out most first."""
        listed = {}
        for name, decided in self.decided.items():
            order = np.argsort(decided.p_values[decided.listed], kind="stable")
            listed[name] = self.ids[self.rows(name)][decided.listed][order]
        return listed

    @property
    def quality(self) -> tuple[QualityChange, ...]:
        """Cost of the erasure on records that were not to be forgotten."""
        if self.before is None:
            return ()
        confidence = self.settings.confidence
        changes = []
        for name in (RETAINED, NEVER, OTHER):
            rows = self.part == name
            if not rows.any():
                continue
            if self.correct is not None:
                before, after, measure = *self.correct[:, rows], "accuracy"
                change = _change_of_shares(before > 0, after > 0, confidence)
            else:
                before, after, measure = self.before[rows], self.after[rows], self.signal
                change = statistics.mean_estimate(after - before, confidence, "t over records")
            changes.append(
                QualityChange(name, int(rows.sum()), measure, float(before.mean()), float(after.mean()), change)
            )
        return tuple(changes)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per record that was to be forgotten: scores, p-value, and whether it is on the list."""
        parts = []
        for name, decided in self.decided.items():
            rows = self.rows(name)
            columns: dict[str, Any] = {"id": self.ids[rows], "request": np.full(int(rows.sum()), name)}
            if self.before is not None:
                columns["before"] = self.before[rows]
            columns["after"] = self.after[rows]
            if len(self.controls):
                columns["never_saw_it"] = np.nanmean(self.controls[:, rows], axis=0)
            columns |= {"p_value": decided.p_values, "remembered": decided.listed}
            parts.append(tables.from_arrays(columns))
        return pl.concat(parts)

    def summary(self) -> ErasureSummary:
        """Return the typed summary for JSON and the report."""
        verdict = self.verdict
        return ErasureSummary(
            verdict=verdict.text,
            tone=verdict.tone,
            answer=verdict.answer,
            findings=self.findings,
            never=int((self.part == NEVER).sum()),
            null=self.null,
            control_names=self.control_names,
            signal=self.signal,
            quality=self.quality,
            checks=self.checks,
            warnings=self.warnings,
            settings=self.settings,
            environment=collect_environment(),
        )

    def write(self, draft: RunDraft) -> None:
        """Write the scores, and what each record is."""
        arrays = {"after": self.after, "controls": self.controls}
        arrays |= {} if self.before is None else {"before": self.before}
        arrays |= {} if self.correct is None else {"correct": self.correct}
        draft.write_arrays("scores", arrays)
        draft.write_table("records", tables.from_arrays({"id": self.ids, "part": self.part.astype(str)}))

    def rule(self, limits: Sequence[Limit], confidence: float) -> list[Ruling]:
        """Rule on each request and limit, on the share that is left or on the difference without its sign.

        Nothing is "kept" by fewer than 2 models that never saw the records, whose intervals leave training noise out;
        by a request whose answer is "still remembered" or "overdone" by other evidence; or where the model before the
        erasure does not show the records either.
        """
        rulings = []
        decided = self.decide(1 - (1 - confidence) / len(limits))
        for limit, (name, request) in itertools.product(limits, decided.items()):
            finding, doubt = request.finding, ""
            measured = finding.share if limit.metric == "share" else finding.difference
            if limit.metric == "difference" and measured is not None:
                low, high = sorted((abs(measured.low), abs(measured.high)))
                low = 0.0 if measured.low <= 0 <= measured.high else low
                measured = Estimate(abs(measured.value), low, high, measured.confidence, measured.method)
            if measured is None:
                doubt = "no model that never saw the records was given"
            elif measured.high <= limit.limit and len(finding.controls) < 2:
                doubt = "a single model that never saw the records was given, so that training noise is not included"
            elif measured.high <= limit.limit and finding.answer in (REMEMBERED, OVERDONE):
                doubt = f"{finding.answer}: {finding.reason}"
            elif measured.high <= limit.limit and finding.answer != NO_DIFFERENCE:
                doubt = finding.reason
            rulings.append(Ruling(name, "all", limit.metric, limit.limit, measured, doubt))
        return rulings

    def picture(self) -> str:
        """Draw the AUC of each request before, after and under models that never saw it."""
        return erasure_page.draw_aucs(self.summary())

    def __repr__(self) -> str:
        counts = ", ".join(f"{finding.request}: {finding.forgotten}" for finding in self.findings)
        return f"Erasure({self.verdict.answer}; {counts}; {len(self.controls)} models that never saw them)"


_PLAIN = {
    REMEMBERED: "the records that were to be forgotten stand out more than under models that never saw them",
    NO_DIFFERENCE: "the records that were to be forgotten stand out no more than under models that never saw them",
    OVERDONE: "the records that were to be forgotten stand out less than under models that never saw them, which shows "
    "that something was done to them",
}


def _explain(finding: ErasureFinding) -> str:
    """Say what an answer means, and its figures after that."""
    if finding.answer not in _PLAIN:
        return finding.reason.rstrip(".")
    return f"{_PLAIN[finding.answer]}. {formatting.capitalize(_describe_figures(finding))}"


def _describe_figures(finding: ErasureFinding) -> str:
    """Say by how much the AUC differs, where that decides, as pairs of a record to be forgotten and a never-used one.

    Beside a single model it may be something else that decides.
    """
    difference, is_decided = finding.difference, finding.answer in (REMEMBERED, OVERDONE) and len(finding.controls) > 1
    if not is_decided or difference is None or difference.low <= 0 <= difference.high:
        return finding.reason.rstrip(".")
    after, gap = 100 * finding.auc_after.value, 100 * difference.value
    decimals = 0 if abs(gap) >= 3 else 1
    return (
        "set beside a never-used record, a record that was to be forgotten looks more like training data in "
        f"{after:.{decimals}f} of 100 pairs; with models that never saw either, the level to compare with, in "
        f"{after - gap:.{decimals}f}. This does not tell how many records are remembered"
    )


def blind_name(request: str) -> str:
    """Return the name of the check that tells a request's records from never-used ones without a model."""
    return f"{BLIND}: {request}"


def _change_of_shares(before: Bools, after: Bools, confidence: float) -> Estimate:
    """Return after less before, from the records that changed (Clopper-Pearson on either kind)."""
    n, error = len(before), (1 - confidence) / 4
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    low = statistics.clopper_pearson_lower(gained, n, error) - statistics.clopper_pearson_upper(lost, n, error)
    high = statistics.clopper_pearson_upper(gained, n, error) - statistics.clopper_pearson_lower(lost, n, error)
    return Estimate((gained - lost) / n, float(low), float(high), confidence, "clopper-pearson on changed records")


def _read_run(directory: RunDirectory) -> StudyRun[Erasure]:
    """Read scores and summary; every answer is decided from the scores again."""
    folder = directory.path
    stored, arrays = results.read_summary(folder, ErasureSummary), directory.read_arrays("scores")
    frame = directory.read_table("records")
    if missing := ({"after", "controls"} - set(arrays)) | ({"id", "part"} - set(frame.columns)):
        raise InputError(f"{folder}: damaged, lacks {', '.join(sorted(missing))}")
    if nested := [name for name in ("id", "part") if frame[name].dtype.is_nested()]:
        raise InputError(f"{folder / 'records.parquet'}: damaged, {nested[0]} holds lists or tables")
    n = len(frame)
    try:
        correct = arrays.get("correct")
        controls = arrays["controls"]
        if len(controls) != len(stored.control_names) or controls.shape[1:] != (n,):
            raise InputError(f"controls: shape ({len(stored.control_names)}, {n}) is needed, got {controls.shape}")
        erasure = Erasure(
            ids=tables.to_array(frame["id"]),
            part=tables.to_array(frame["part"]),
            after=check_vector(arrays["after"], "after", length=n),
            before=check_vector(arrays["before"], "before", length=n) if "before" in arrays else None,
            controls=check_matrix(controls, "controls", columns=n, finite=False) if len(controls) else controls,
            control_names=stored.control_names,
            null=stored.null,
            signal=stored.signal,
            correct=None if correct is None else check_matrix(correct, "correct", columns=n),
            checks=stored.checks,
            warnings=stored.warnings,
            settings=stored.settings,
        )
        if not erasure.requests or not (erasure.part == NEVER).any():
            raise InputError("records: forgotten and never-used ones are needed")
        return reopen(erasure, stored)
    except InputError as error:
        raise InputError(f"{folder}: damaged, {error}") from None


ERASURE = RunKind(
    name=RUN_TYPE,
    title="Was it really forgotten?",
    summary_type=ErasureSummary,
    sections=erasure_page.sections,
    headline=erasure_page.headline,
    facts=erasure_page.facts,
    origin=erasure_page.origin,
    warnings=lambda run: run.summary.warnings,
    read=_read_run,
    records=lambda folder: ERASURE.load(folder).result.to_frame(),
    noun="an erasure check",
    metrics=("difference", "share"),
)
Erasure.run_kind = ERASURE
