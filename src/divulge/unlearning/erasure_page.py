"""Report of an erasure check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge.report import charts, formatting, notebook
from divulge.report.page import Bullet, BulletList, Chart, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, Origin
from divulge.report.sections import ADVICE_TITLE, MEASURED_TITLE, RegulatorAnswers, regulator_section
from divulge.types import Estimate
from divulge.unlearning.finding import RECOMMENDED_CONTROLS

if TYPE_CHECKING:
    from divulge.results import ErasureFinding, ErasureSummary
    from divulge.study import StudyRun
    from divulge.unlearning.result import Erasure

_HEADINGS = {
    "still remembered": "Still remembered",
    "no difference from a model that never saw them": "No difference from a model that never saw them",
    "overdone: they stand out the other way": "Overdone",
    "too little data to say": "Too little data to say",
}
_HARM = (
    "Who may be harmed: people who had their records erased. Whoever holds such a record and sees the model's outputs "
    "may still tell that it was used."
)
_MAX_LISTED = 20
_MAX_REQUESTS_DRAWN = 6
CANNOT = (
    "Scores do not show everything: traces in the weights, in models trained on this one's answers, in backups, or in "
    "answers to questions that were not asked stay unseen. Whoever also has the model from before the erasure could "
    "learn more; that was not measured.",
)
REQUEST_COLUMNS = (
    "request",
    "records",
    "answer",
    "AUC before",
    "AUC after",
    "never saw them",
    "difference",
    "remembered",
)


def headline(run: StudyRun[Erasure]) -> Headline:
    """Return the answer, and what it rests on."""
    summary = run.summary
    k = len(summary.control_names)
    null = "No model that never saw the records was given, so that there is nothing to compare with."
    if k:
        noise = (
            "how much these differ among themselves is taken into account"
            if k > 1
            else "how much such models differ among themselves is not known: that takes two or more"
        )
        null = (
            f"Compared with {formatting.format_count(k, 'model')} that never saw the records ({summary.null}); {noise}."
        )

    harm = (_HARM,) if summary.answer == "still remembered" else ()
    return Headline(summary.tone, summary.verdict, _HEADINGS[summary.answer], (null, *CANNOT, *harm))


def sections(run: StudyRun[Erasure]) -> list[Section]:
    """Return what to do, answers, which records, costs and failed checks on one sheet; the rest is the annex."""
    summary = run.summary
    several, pictures = len(summary.findings) > 1, _interval_charts(summary)
    failed_checks = [Paragraph(f"{check.name}: {formatting.as_sentence(check.says)}") for check in summary.checks
             if not check.passed]  # fmt: skip
    # A sheet has room for the numbers of one request, or for the answers of several.
    left_out = ("AUC before", "AUC after", "never saw them") if several else ("request", "answer")
    places = [i for i, name in enumerate(REQUEST_COLUMNS) if name not in left_out]
    rows = [[row[i] for i in places] for row in request_rows(summary)]
    requests = Table([REQUEST_COLUMNS[i] for i in places], rows, note=_NOTE)
    reasons = [
        Paragraph(f"{finding.request}: {formatting.as_sentence(finding.reason)}")
        for finding in summary.findings
        if several  # that of a single request is the verdict
    ]
    checks = [[check.name, check.result, check.says] for check in summary.checks]
    return [
        *_advice(summary),
        Section("Before, after, and never", [requests, *([] if several else pictures), *reasons]),
        Section("Which records", _listed_records(run)),
        Section("What the erasure cost", _quality_blocks(summary)),
        Section("Checks that found something", failed_checks),
        Section(
            "All numbers of each request",
            [Table(REQUEST_COLUMNS, request_rows(summary)), *pictures] if several else [],
            annex=True,
        ),
        Section("Further comparisons", _further_comparisons(summary), annex=True),
        Section("Scores of the records", _histograms(run), annex=True),
        Section(
            "Checks of records and models",
            [
                Table(("check", "result", "what it says"), checks, sortable=False)
                if checks
                else Paragraph("None could be run on scores alone.")
            ],
            annex=True,
        ),
        regulator_section(
            RegulatorAnswers(
                means=f"One score of each record ({summary.signal}), compared with {_describe_controls(summary)}.",
                queries=f"Of the records that were to be forgotten: {summary.verdict}",
                unit="One record, as given.",
            )
        ),
    ]


def facts(run: StudyRun[Erasure]) -> dict[str, str]:
    """Return what was compared, and how."""
    summary = run.summary
    settings = summary.settings
    return {
        "records to be forgotten": f"{sum(finding.forgotten for finding in summary.findings):,}",
        "records never used": f"{summary.never:,}",
        "compared with": _describe_controls(summary),
        "seed": str(settings.seed),
    }


def origin(run: StudyRun[Erasure]) -> Origin:
    """Return how models were compared."""
    summary, settings = run.summary, run.summary.settings
    together = f", {len(summary.findings)} requests together" if len(summary.findings) > 1 else ""
    return Origin(
        {
            "read from the models": summary.signal,
            "interval that counts as no difference": f"±{settings.margin:g} of AUC",
            "confidence": formatting.format_percent(settings.confidence) + together,
        }
    )


def _describe_controls(summary: ErasureSummary) -> str:
    k = len(summary.control_names)
    return f"{k} {summary.null}" if k else "nothing"


def request_rows(summary: ErasureSummary) -> list[list[str]]:
    """Return one row for each request, under `REQUEST_COLUMNS`."""
    return [
        [
            finding.request,
            f"{finding.forgotten:,}",
            finding.answer,
            formatting.format_estimate(finding.auc_before),
            formatting.format_estimate(finding.auc_after),
            f"{min(finding.controls):.3f} to {max(finding.controls):.3f}"
            if len(finding.controls) > 1
            else ", ".join(f"{auc:.3f}" for auc in finding.controls) or "–",
            formatting.format_estimate(finding.difference),
            formatting.format_percent_estimate(finding.share),
        ]
        for finding in summary.findings
    ]


_NOTE = (
    "AUC: in what share of all pairs of a record to be forgotten and a never-used one the first looks more like "
    "training data; where the two kinds are alike, models that never saw them have 0.5. Difference: AUC after, minus "
    "the mean of the models that never saw them. Remembered: the share of the records, if each of them either scores "
    "as it did before or as if it had never been seen; this is no count of people. In brackets: ranges that hold the "
    "true values."
)


def draw_aucs(summary: ErasureSummary) -> str:
    """Draw the AUC of each request before, after and under models that never saw it, for a notebook."""
    several = len(summary.findings) > 1
    intervals = {
        f"{finding.request}, {name}" if several else name: estimate
        for finding in summary.findings[:_MAX_REQUESTS_DRAWN]
        for name, estimate in _aucs(finding).items()
    }
    control_aucs = () if several else summary.findings[0].controls
    return notebook.draw_intervals(intervals, "AUC", float(np.mean(control_aucs)) if control_aucs else 0.5)


def _further_comparisons(summary: ErasureSummary) -> list[Paragraph]:
    """Return what scores relative to the controls say, of the AUC and of the spread."""
    texts = []
    for finding in summary.findings:
        start = f"{finding.request}: " if len(summary.findings) > 1 else ""
        if finding.relative is not None and finding.training_noise is not None:
            texts.append(
                f"{start}Of scores less what these models give each record in the mean, the difference of AUC is "
                f"{formatting.format_estimate(finding.relative)}. Between trainings the AUC itself varies by "
                f"{finding.training_noise:.4f} (standard deviation)."
            )
        if finding.spread is not None:
            texts.append(
                f"{start}Measured by how far each score lies from that of a typical never-used record, in either "
                f"direction, the difference of AUC is {formatting.format_estimate(finding.spread)}. An "
                "interval above 0 would show that they lie further from it, higher or lower, than under these models."
            )
    return [Paragraph(text) for text in texts]


def _interval_charts(summary: ErasureSummary) -> list[Chart]:
    """Draw the AUC of each request before, after and under models that never saw it."""
    blocks = []
    for finding in summary.findings[:_MAX_REQUESTS_DRAWN]:
        title = finding.request if len(summary.findings) > 1 else ""
        note = "The line is the mean of models that never saw the records; their bar is where a further one would lie."
        reference = float(np.mean(finding.controls)) if finding.controls else None
        blocks.append(
            Chart(charts.intervals(_aucs(finding), quantity="AUC", reference=reference), title=title, note=note)
        )
    return blocks


def _histograms(run: StudyRun[Erasure]) -> list[Chart]:
    """Draw the scores of each request's records."""
    erasure, blocks = run.result, []
    note = (
        "Scores of the records to be forgotten. After an erasure that worked they lie as under models that never saw "
        "them."
    )
    for finding in run.summary.findings[:_MAX_REQUESTS_DRAWN]:
        rows = erasure.rows(finding.request)
        groups = {} if erasure.before is None else {"before": erasure.before[rows]}
        groups["after"] = erasure.after[rows]
        if len(erasure.controls):
            scores = erasure.controls[:, rows]
            groups["never saw them"] = scores[~np.isnan(scores)]
        title = finding.request if len(run.summary.findings) > 1 else ""
        blocks.append(Chart(charts.histogram(groups, quantity=erasure.signal), title=title, note=note))
    return blocks


def _aucs(finding: ErasureFinding) -> dict[str, Estimate]:
    aucs = {"before": finding.auc_before, "after": finding.auc_after, "never saw them": _control_range(finding)}
    return {name: estimate for name, estimate in aucs.items() if estimate is not None}


def _control_range(finding: ErasureFinding) -> Estimate | None:
    """Return the mean of the controls' AUCs, and where a further one lies in 95 % of trainings."""
    aucs = np.array(finding.controls)
    if not len(aucs):
        return None
    if len(aucs) == 1:
        return Estimate(float(aucs[0]), float(aucs[0]), float(aucs[0]), 0.95, "a single model")
    # A further model differs from the mean by its own deviation and by that of the mean of these k: 1 + 1/k variances.
    reach = float(stats.t.ppf(0.975, len(aucs) - 1) * aucs.std(ddof=1) * np.sqrt(1 + 1 / len(aucs)))
    mean = float(aucs.mean())
    return Estimate(mean, max(mean - reach, 0.0), min(mean + reach, 1.0), 0.95, "t for a further model")


def _listed_records(run: StudyRun[Erasure]) -> list[Paragraph | Table]:
    """Return the records that stand out most, where there are any."""
    erasure, summary = run.result, run.summary
    rows = []
    for name, ids in erasure.remembered.items():
        frame = dict(zip(erasure.ids.tolist(), range(len(erasure.ids)), strict=True))
        for record_id in ids[:_MAX_LISTED].tolist():
            row = frame[record_id]
            before = "–" if erasure.before is None else f"{erasure.before[row]:.3g}"
            never = f"{np.nanmean(erasure.controls[:, row]):.3g}" if len(erasure.controls) else "–"
            rows.append([str(record_id), name, before, f"{erasure.after[row]:.3g}", never])
    count = sum(finding.remembered for finding in summary.findings)
    level = formatting.format_percent(summary.settings.fdr)
    if not rows:
        return [
            Paragraph(
                "No single record is shown to be remembered. A record that is not on a list is not shown to be "
                "forgotten."
            )
        ]
    text = (
        f"{formatting.format_count(count, 'record')} on the list: at most {level} of such a list are expected to be "
        "wrong. A record that is not on it is not shown to be forgotten. records.csv (divulge report --format csv) has "
        "all of them."
    )
    columns = ("record", "request", "score before", "after", "never saw it")
    return [Paragraph(text), Table(columns, rows, single_records=True)]


def _quality_blocks(summary: ErasureSummary) -> list[Table | Paragraph]:
    if not summary.quality:
        return [Paragraph("Not known: the model before the erasure was not given.")]
    rows = [
        [
            change.records, f"{change.count:,}", change.measure, f"{change.before:.3f}", f"{change.after:.3f}",
            formatting.format_estimate(change.change), _perplexities(change.measure, change.before, change.after),
        ]
        for change in summary.quality
    ]  # fmt: skip
    columns = ("records", "number", "measure", "before", "after", "change", "perplexity")
    if all(row[-1] == "–" for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return [Table(columns, rows, note="Each interval is over records, and holds by itself.")]


def _perplexities(measure: str, before: float, after: float) -> str:
    return f"{np.exp(-before):.3g} to {np.exp(-after):.3g}" if measure.startswith("log-likelihood") else "–"


def _advice(summary: ErasureSummary) -> list[Section]:
    """Advise whoever can train the model, or, where no model was trained again, an outsider."""
    is_outsider = summary.null == "reference models"
    if summary.answer == "too little data to say":
        has_few_controls = len(summary.control_names) < RECOMMENDED_CONTROLS
        title = "Compare more records."
        if has_few_controls:
            title = (
                "Compare with more models that never saw the records."
                if is_outsider
                else "Train more models without the records."
            )
        point = Bullet(
            title,
            "Each training with a seed of its own; four or more are recommended."
            if has_few_controls
            else "More never-used records, more records in one request, or more models shorten the interval.",
        )
        return [Section(ADVICE_TITLE, [BulletList([point])])]
    if summary.answer.startswith("no difference"):
        return []
    title = "Ask whoever holds the model to train it again without the records." if is_outsider else (
        "Train again without the records."
    )  # fmt: skip
    point = Bullet(
        title,
        'Then check again: where this was measured, models that were trained again were rarely "still remembered".',
    )
    other = Bullet(
        "Other ways to erase.",
        "After fine-tuning on the rest or pruning, models were found to remember in every setting that was measured, "
        "after ascent or random labels in most, after training again rarely.",
        "benchmarks/results/erasure.md",
    )
    return [
        Section(ADVICE_TITLE, [BulletList([point])]),
        Section(MEASURED_TITLE, [BulletList([other])], annex=True),
    ]
