"""What the report says about partly known records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from divulge.report import Chart, Paragraph, Section, Table, charts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.report.page import Block


def section(summary: Mapping[str, Any], inner: Sequence[Mapping[str, Any]]) -> Section:
    """The known share, the imputer behind the numbers, and, where several shares were tried, curves over them.

    Args:
        summary: of the audit reported.
        inner: of the same audit under other conditions; those of partly known records are shown beside it.
    """
    partial = summary["partial"]
    if partial is None:
        return Section("Known share", [])
    blocks: list[Block] = [Paragraph(_described(partial))]
    found = sorted((s for s in (summary, *inner) if s["partial"] is not None), key=lambda s: s["partial"]["share"])
    if len(found) > 1:
        note = "The band is a 95 % interval. The same candidates, with more and more of each record known."
        level = f"{min(summary['fpr']):g}"
        measures: dict[str, Callable[[Any], Any]] = {
            "AUC": lambda recipe: recipe["auc"],
            f"TPR at FPR {level}": lambda recipe: recipe["tpr_at_fpr"].get(level),
        }
        for quantity, pick in measures.items():
            chance = 0.5 if quantity == "AUC" else float(level)
            curves = _curves(found, pick)
            spec = charts.lines(curves, x="known share of the record", y=quantity, reference=chance)
            blocks.append(Chart(spec, title=f"{quantity} over the known share", note=note))
        blocks.append(_table(found))
    return Section("Known share", blocks)


def _described(partial: Mapping[str, Any]) -> str:
    if partial["share"] == 1.0:
        return "Every value of every record is known; nothing was completed."
    drawn = f" and {partial['draws']} random draws" if partial["draws"] else ""
    return (
        f"The adversary knows {partial['share']:.0%} of the values. The others were completed from the population by: "
        f"{partial['imputer']} (the single best completion{drawn} of every record). A number made with another "
        "imputer is another attack's."
    )


def _curves(found: Sequence[Mapping[str, Any]], pick: Callable[[Any], Any]) -> dict[str, charts.Curve]:
    curves = {}
    for name in found[0]["recipes"]:
        points = [(s["partial"]["share"], pick(s["recipes"][name])) for s in found if name in s["recipes"]]
        held = [(share, estimate) for share, estimate in points if estimate is not None]
        if held:
            x = [share for share, _ in held]
            parts = ([estimate[part] for _, estimate in held] for part in ("value", "low", "high"))
            curves[name] = charts.Curve(x, *parts)
    return curves


def _table(found: Sequence[Mapping[str, Any]]) -> Table:
    whole = next((s for s in found if s["partial"]["share"] == 1.0), None)
    rows = []
    for summary in found:
        for name, recipe in summary["recipes"].items():
            area = recipe["auc"]
            full = None if whole is None or name not in whole["recipes"] else whole["recipes"][name]["auc"]
            shown = "–" if area is None else f"{area['value']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"
            gap = "–" if area is None or full is None else f"{area['value'] - full['value']:+.3f}"
            partial = summary["partial"]
            rows.append([f"{partial['share']:.0%}", name, shown, gap, partial["imputer"], str(recipe["queries"])])
    columns = ["known", "recipe", "AUC", "gap to the whole record", "imputer", "queries"]
    return Table(columns, rows, title="By known share")
