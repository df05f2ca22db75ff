"""The audit's report: verdict first, then the evidence for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import people
from divulge.auditing import known, shift
from divulge.auditing.audit_summary import summarise
from divulge.auditing.verdict import counted
from divulge.evaluation.epsilon import BY_NONMEMBERS
from divulge.report import HOTTEST, Chart, Exhibit, Gallery, Page, Paragraph, Section, Table, charts, thumbnail
from divulge.report.markdown import shown
from divulge.results import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from divulge.auditing.findings import Findings, Outcome
    from divulge.report.page import Block
    from divulge.results import AuditSummary, BlindBaseline, Called, Group, HeatStrip, Numbers, RealisedRate
    from divulge.types import Array

_EXHIBITS = 12
_DEEPEST = 3.0  # nats: a token twenty times likelier than it should be


def page(audit: Findings, summary: AuditSummary, inner: Mapping[str, Findings]) -> Page:
    """The report as data; every number in it comes from a summary or from the scores.

    Args:
        audit: what was found.
        summary: `Audit.summary` of it.
        inner: the same audit under other conditions, by name.
    """
    sections = [
        _attacks(audit, summary),
        known.section(audit, tuple(inner.values())),
        *(_inner(name, summarise(other)) for name, other in inner.items()),
    ]
    sections += [_curves(audit), _classes(audit, summary), _calibration(summary), shift.section(audit.about.transfer)]
    sections += [_exposed(audit, summary), _split(summary), _reproduce(summary)]
    return Page(
        title="Membership inference audit",
        verdict=summary.verdict.text,
        tone=summary.verdict.tone,
        sections=[section for section in sections if section.blocks],
        facts=_facts(summary),
    )


def table(summary: AuditSummary, *, unseen: bool = False) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of attacks, of all candidates or of the unseen classes alone."""
    levels = [f"{level:g}" for level in summary.fpr]
    columns = ["recipe", "AUC", *(f"TPR at FPR {level}" for level in levels), "advantage", "ε ≥", "queries"]
    rows = []
    for name, recipe in summary.recipes.items():
        numbers = recipe.unseen if unseen else recipe
        if numbers is None:
            continue
        epsilon = "–" if numbers.epsilon is None else f"{numbers.epsilon.low:.2f}"
        rates = [shown(numbers.tpr_at_fpr[level]) for level in levels]
        queries = str(summary.about.recipes[name].queries)
        rows.append([name, shown(numbers.auc), *rates, shown(numbers.advantage), epsilon, queries])
    return columns, rows


def notes(summary: AuditSummary) -> list[str]:
    """What the tables of attacks leave open: where an ε comes from, which false-positive rates were not kept."""
    return [*_sure_nonmembers(summary), *_overruns(summary)]


def _sure_nonmembers(summary: AuditSummary) -> Iterator[str]:
    for name, where, numbers in _everywhere(summary):
        if (epsilon := numbers.epsilon) and epsilon.method.endswith(BY_NONMEMBERS):
            yield (
                f"{name}{where}: ε ≥ {epsilon.low:.2f} comes from sure non-members, records that score lower than "
                "nearly every member; TPR counts sure members, and may still be at chance"
            )


def _overruns(summary: AuditSummary) -> Iterator[str]:
    for name, where, numbers in _everywhere(summary):
        for level, rate in numbers.realised_fpr.items():
            if rate and rate.broken:
                yield f"{name}{where}: the realised FPR at nominal {level} is {shown(rate.rate)}, {rate.judged}"


def _everywhere(summary: AuditSummary) -> Iterator[tuple[str, str, Numbers]]:
    """Every recipe's numbers: of all candidates, then of the unseen classes alone."""
    for name, recipe in summary.recipes.items():
        yield name, "", recipe
        if recipe.unseen is not None:
            yield name, " on the unseen classes", recipe.unseen


def _attacks(audit: Findings, summary: AuditSummary) -> Section:
    note = (
        "95 % intervals. TPR at FPR is conservative: the threshold's own uncertainty is in the interval. "
        "ε is a lower bound at 95 % confidence, 0 when nothing can be claimed; it assumes independent scores, "
        "which is only approximately true under a single trained model."
    )
    blocks: list[Block] = []
    if audit.unseen_classes:
        columns, rows = table(summary, unseen=True)
        title = f"Unseen classes {', '.join(map(str, audit.unseen_classes))}: the auditor holds no record of them"
        blocks.append(Table(columns, rows, title=title, note=note))
    columns, rows = table(summary)
    blocks.append(Table(columns, rows, title="All candidates", note=note))
    explained = [[name, r.signal, r.summary, r.references] for name, r in summary.about.recipes.items()]
    blocks += [Paragraph(f"{text}.") for text in notes(summary)]
    blocks.append(Table(["recipe", "signal", "attack", "reference models"], explained, title="What was run"))
    return Section("Attacks", blocks)


def _inner(name: str, summary: AuditSummary) -> Section:
    blocks: list[Block] = [Paragraph(summary.verdict.text)]
    if summary.unseen_classes:
        listed = ", ".join(map(str, summary.unseen_classes))
        blocks.append(Table(*table(summary, unseen=True), title=f"Unseen classes {listed} alone"))
    blocks.append(Table(*table(summary), title="All candidates", note=f"The full report is {name}/report.html."))
    return Section(f"The same audit: {name}", blocks)


def _curves(audit: Findings) -> Section:
    blocks: list[Block] = []
    if audit.unseen_classes:
        unseen = {name: audit[name].unseen for name in audit}
        blocks.append(_roc(unseen, "ROC on the unseen classes"))
    blocks.append(_roc({name: audit[name] for name in audit}, "ROC, all candidates"))
    return Section("Trade-off", blocks)


def _roc(outcomes: Mapping[str, Outcome], title: str) -> Chart:
    curves = {name: outcome.roc for name, outcome in outcomes.items()}
    return Chart(
        charts.roc({name: charts.Curve(c.fpr, c.tpr, c.low, c.high) for name, c in curves.items()}),
        title=title,
        note="Both axes are logarithmic; the band is a pointwise 95 % interval, the dashed line is guessing.",
    )


def _classes(audit: Findings, summary: AuditSummary) -> Section:
    blocks: list[Block] = []
    for name, recipe in summary.recipes.items():
        for one, groups in (("class", recipe.classes), ("group", recipe.groups)):
            if any(row.auc for row in groups.values()):
                blocks.append(_bars(audit, groups, name, one))
    strongest = _strongest(summary)
    recipe = summary.recipes[strongest]
    for one, groups in (("class", recipe.classes), ("group", recipe.groups)):
        if groups:
            blocks.append(_rates(groups, one, strongest, max(summary.fpr)))
    return Section("Classes and subgroups", blocks)


def _strongest(summary: AuditSummary) -> str:
    areas = {name: recipe.auc for name, recipe in summary.recipes.items()}
    return max(areas, key=lambda name: 0.0 if (area := areas[name]) is None else area.value)


def _rates(groups: Mapping[str, Group], one: str, name: str, level: float) -> Table:
    columns = [one, "members", "non-members", "AUC", "TPR", "FPR"]
    rows = [
        [group, str(row.members), str(row.nonmembers), *map(shown, (row.auc, row.tpr, row.fpr))]
        for group, row in groups.items()
    ]
    note = f"TPR and FPR at a common threshold, where the FPR over all non-members is at most {level:g}."
    return Table(columns, rows, title=f"{name}: by {one}", note=note)


def _bars(audit: Findings, groups: Mapping[str, Group], name: str, one: str) -> Chart:
    judged = {group: row.auc for group, row in groups.items() if row.auc is not None}
    unseen = [one == "class" and int(group) in audit.unseen_classes for group in judged]
    spec = charts.bars(
        [f"{one} {group}" for group in judged],
        list(judged.values()),
        quantity="AUC",
        unseen=unseen if any(unseen) else None,
        reference=0.5,
    )
    return Chart(spec, title=f"{name}: AUC by {one}", note="The dashed line is guessing; whiskers are 95 % intervals.")


def _calibration(summary: AuditSummary) -> Section:
    rows, claims = [], []
    for name, recipe in summary.recipes.items():
        for level, decision in recipe.decisions.items():
            for where, numbers in (("all", recipe), ("unseen classes", recipe.unseen)):
                if numbers is not None:
                    raw = shown(recipe.raw_fpr.get(level)) if where == "all" else "–"
                    rows.append([name, where, level, *_realised(numbers.realised_fpr[level]), raw])
            claims.append([name, level, *_claim(decision)])
    note = (
        "The share of true non-members called members by a conformal-rank threshold on calibration records, which "
        "nothing was trained on, and whether its 95 % interval contains the nominal rate. A rate above nominal may be "
        "the luck of one calibration; where it is called too high, such luck has less than 5 % probability over "
        "all rows together. “Raw” is the threshold a quantile regressor would set by itself. A dash: too few records."
    )
    columns = ["recipe", "candidates", "nominal FPR", "realised FPR", "compared", "raw"]
    blocks: list[Block] = [
        Table(
            [
                "recipe",
                "nominal FPR",
                "called members",
                "one calibration's FPR",
                "claim and assumptions",
            ],
            claims,
            note="A marginal claim is an average over calibrations; the FPR of a single one lies in the interval shown "
            "(95 %, Beta distribution of the conformal rank).",
        ),
        Table(columns, rows, title="Realised on these non-members", note=note),
    ]
    warnings = {w for r in summary.recipes.values() for d in r.decisions.values() if d for w in d.warnings}
    return Section(
        "Decisions, and whether their false-positive rate holds", [*blocks, *map(Paragraph, sorted(warnings))]
    )


def _realised(rate: RealisedRate | None) -> tuple[str, str]:
    return ("–", "–") if rate is None else (shown(rate.rate), rate.judged)


def _claim(decision: Called | None) -> tuple[str, str, str]:
    if decision is None:
        return "–", "–", "too few calibration records for this level"
    return str(decision.selected), shown(decision.one_calibration), decision.guarantee


def _exposed(audit: Findings, summary: AuditSummary) -> Section:
    strongest = _strongest(summary)
    scores = audit.scores[strongest]
    inside = [row for row in np.argsort(-scores, kind="stable") if audit.members[row] and int(row) in audit.exhibits]
    exhibits = [_exhibit(audit, int(row), float(scores[row])) for row in inside[:_EXHIBITS]]
    note = f"Members with the highest scores under {strongest}, which has the largest AUC here."
    if audit.heat:
        against = next(iter(audit.heat.values())).against
        note += f" The deeper a token is marked, the likelier the target finds it than {against} does."
    return Section("Most exposed records", [Gallery(exhibits, note=note)] if exhibits else [])


def _exhibit(audit: Findings, row: int, score: float) -> Exhibit:
    label = "" if audit.labels is None else f", class {audit.labels[row]}"
    caption = f"{audit.ids[row]}{label}, score {score:.3g}"
    value = audit.exhibits[row]
    if isinstance(value, str):
        value = value.replace(people.SEPARATOR, "\n")
        return Exhibit(caption, text=value, heat=_pieces(value, audit.heat.get(row)))
    image = _as_image(value)
    if image is not None:
        return Exhibit(caption, png=thumbnail(image))
    return Exhibit(caption, text=", ".join(f"{number:.4g}" for number in value.ravel()[:64]))


def _pieces(text: str, strip: HeatStrip | None) -> list[tuple[str, int]]:
    """The text in pieces of one colour each: the better a token is known beyond what it is held against, the deeper."""
    if strip is None:
        return []
    cut: list[tuple[str, int]] = []
    begin = 0
    for end, value in zip(strip.ends, strip.values, strict=True):
        step = round(HOTTEST * min(max(value / _DEEPEST, 0.0), 1.0))
        if cut and cut[-1][1] == step:
            cut[-1] = (cut[-1][0] + text[begin:end], step)
        else:
            cut.append((text[begin:end], step))
        begin = end
    return [*cut, (text[begin:], 0)]


def _as_image(value: Array) -> Array | None:
    """``[h, w]``, ``[h, w, 3]`` or channels-first arrays, scaled to [0, 1]; None for a row of a table."""
    if value.ndim == 3 and value.shape[0] in (1, 3):
        value = np.moveaxis(value, 0, -1)
    if value.ndim == 3 and value.shape[-1] == 1:
        value = value[..., 0]
    if value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[-1] != 3):
        return None
    low, high = float(value.min()), float(value.max())
    return (value - low) / (high - low) if high > low else np.zeros(value.shape)


def _split(summary: AuditSummary) -> Section:
    about = summary.about
    rows = [[name, f"{count:,}"] for name, count in plain(about.counts).items()]
    texts: Iterable[str] = [
        _blind(about.blind_baseline),
        *([] if about.texts is None else [f"{about.texts.shared[0].upper()}{about.texts.shared[1:]}."]),
        f"Exact duplicates across members, non-members and population: {about.duplicates}.",
        *about.warnings,
    ]
    return Section("Is the comparison fair?", [*map(Paragraph, texts), Table(["set", "records"], rows)])


def _blind(baseline: BlindBaseline | None) -> str:
    if baseline is None:
        return "Blind baseline: too few records for one, so a confounded split would go undetected."
    judged = "it can: the split is confounded" if baseline.confounded else "no difference found"
    return (
        "Blind baseline: can a classifier that never sees the model tell members from non-members? "
        f"AUC {shown(baseline.auc)}, p = {baseline.p_value:.2g} ({baseline.method}): {judged}."
    )


def _reproduce(summary: AuditSummary) -> Section:
    about, environment = summary.about, summary.about.environment
    rows = [["seed", str(about.settings.seed)], ["divulge", summary.divulge]]
    rows += [["python", environment.python], *([name, v] for name, v in environment.packages.items())]
    rows += [[f"{name} digest", digest[:16]] for name, digest in plain(about.settings.data).items()]
    rows += [["git commit", environment.git_commit or "–"], ["reference engine", about.engine or "–"]]
    timings = [[name, f"{seconds:.2f}"] for name, seconds in about.timings.items()]
    attacks = [[name, recipe.attack] for name, recipe in about.recipes.items()]
    return Section(
        "Reproduce it",
        [
            Table(["what", "value"], rows),
            Table(["recipe", "configuration"], attacks),
            Table(["step", "seconds"], timings, title="Time"),
        ],
    )


def _facts(summary: AuditSummary) -> dict[str, str]:
    counts = summary.about.counts
    return {
        "candidates": counted(counts.members, counts.nonmembers),
        "auditor holds": f"{counts.population + counts.calibration:,} records",
        "unseen classes": ", ".join(map(str, summary.unseen_classes)) or "none",
        "seed": str(summary.about.settings.seed),
        "divulge": summary.divulge,
    }
