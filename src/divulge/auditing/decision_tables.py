"""Decisions at each false-positive rate, and whether that rate was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.report import Fold, Paragraph, Section, Table, in_words
from divulge.report.markdown import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.report.page import Block
    from divulge.results import AuditSummary, Called, RealisedRate

_CLAIMS_NOTE = (
    "A marginal claim is an average over calibrations; the FPR of a single one lies in the interval shown (95 %, Beta "
    "distribution of the conformal rank)."
)
_REALISED_NOTE = (
    "The share of true non-members called members by a conformal-rank threshold on calibration records, which nothing "
    "was trained on, and whether its 95 % interval contains the nominal rate. A rate above nominal may be the luck of "
    "one calibration; where it is called too high, such luck has less than 5 % probability over all rows together. "
    "“Raw” is the threshold a quantile regressor would set by itself. A dash: too few records."
)


def decisions_section(summary: AuditSummary, strongest: str) -> Section:
    """Claims and realised rates of the strongest recipe; those of the others folded."""
    names = list(summary.recipes)
    warnings = {w for r in summary.recipes.values() for d in r.decisions.values() if d for w in d.warnings}
    blocks: list[Block] = [_decision_table(summary, strongest)]
    blocks.append(
        Fold(
            f"All recipes ({len(names)}), and what was realised",
            [_claims_table(summary, names), _realised_table(summary, names)],
        )
    )
    return Section(
        "Decisions, and whether their false-positive rate holds",
        [*blocks, *(Paragraph(in_words.sentence(w)) for w in sorted(warnings))],
    )


def _decision_table(summary: AuditSummary, name: str) -> Table:
    recipe = summary.recipes[name]
    rows = []
    for level, decision in recipe.decisions.items():
        called, _, claim = _format_claim(decision)
        rate = recipe.realised_fpr[level]
        rows.append(
            [
                _format_level(level),
                called,
                "–" if rate is None else percent(rate.rate),
                _format_realised(rate)[1],
                claim,
            ]
        )
    columns = ["FPR asked for", "called members", "FPR of true non-members", "compared", "claim and assumptions"]
    return Table(columns, rows, title=f"{name}, all candidates", sortable=False)


def _format_level(level: str) -> str:
    return in_words.per_cent(float(level))


def _claims_table(summary: AuditSummary, names: Sequence[str]) -> Table:
    rows = [
        [name, _format_level(level), *_format_claim(decision)]
        for name in names
        for level, decision in summary.recipes[name].decisions.items()
    ]
    columns = ["recipe", "nominal FPR", "called members", "one calibration's FPR", "claim and assumptions"]
    return Table(columns, rows, note=_CLAIMS_NOTE)


def _realised_table(summary: AuditSummary, names: Sequence[str]) -> Table:
    rows = []
    for name in names:
        recipe = summary.recipes[name]
        for level in recipe.decisions:
            for where, numbers in (("all", recipe), ("unseen classes", recipe.unseen)):
                if numbers is not None:
                    raw = percent(recipe.raw_fpr.get(level)) if where == "all" else "–"
                    rows.append(
                        [name, where, _format_level(level), *_format_realised(numbers.realised_fpr[level]), raw]
                    )
    columns = ["recipe", "candidates", "nominal FPR", "realised FPR", "compared", "raw"]
    return Table(columns, rows, title="Realised on these non-members", note=_REALISED_NOTE)


def _format_realised(rate: RealisedRate | None) -> tuple[str, str]:
    return ("–", "–") if rate is None else (percent(rate.rate), rate.judged)


def _format_claim(decision: Called | None) -> tuple[str, str, str]:
    if decision is None:
        return "–", "–", "too few calibration records for this level"
    return str(decision.selected), percent(decision.one_calibration), decision.guarantee
