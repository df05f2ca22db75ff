"""A chart of one lane per class: the value of every recipe, and the interval of the one that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from divulge.errors import InputError
from divulge.report import marks
from divulge.report.curves import some
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.report.marks import Layer, Row, Spec
    from divulge.types import Estimate

LANES = 30


def lanes(
    series: Mapping[str, Mapping[str, Estimate]], *, focus: str, quantity: str, reference: float | None = None
) -> Spec:
    """A dot for each series in each lane, with whiskers on those of ``focus``; the page lets its reader choose another.

    Of more than 30 lanes those are shown in which ``focus`` is largest, in their own order.

    Args:
        series: recipe → class → value and interval.
        focus: the series whose intervals are shown first.
        quantity: what is measured ("AUC").
        reference: a value to compare with, drawn as a dashed line.

    Raises:
        divulge.InputError: no series, an unknown ``focus``, or one without lanes; NaN or infinity in an estimate.

    Examples:
        >>> from divulge.types import Estimate
        >>> one = {"class 3": Estimate(0.6, 0.5, 0.7, 0.95, "delong")}
        >>> spec = lanes({"lira": one, "loss": one}, focus="lira", quantity="AUC")
        >>> spec["params"][0]
        {'name': 'focus', 'value': 'lira'}
    """
    check_choice(focus, "focus", some(series, "series"))
    shown = _shown(series[focus])
    rows: list[Row] = []
    for name, estimates in series.items():
        kept = {lane: estimates[lane] for lane in shown if lane in estimates}
        if kept:
            rows += [{"series": name} | row for row in marks.estimate_rows(list(kept), list(kept.values()))]
    across: Row = {"title": quantity, "scale": alt.Scale(zero=False)}
    base: Layer = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=list(shown)), tooltip=["series:N", "name:N", "value:Q", "low:Q", "high:Q"]
    )
    value = alt.X("value:Q", **across)
    seen = base.transform_filter(marks.VISIBLE)
    others = seen.transform_filter(marks.NOT_FOCUSED).mark_point(filled=True, size=42, opacity=0.75)
    looked_at = seen.transform_filter(marks.FOCUSED)
    whisker = looked_at.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **across), x2="high:Q", **_coloured(series))
    dot = looked_at.mark_point(filled=True, size=110, opacity=1).encode(x=value, **_coloured(series, shape=True))
    beside = [others.encode(x=value, **_coloured(series, shape=True))] if len(series) > 1 else []
    chart = alt.layer(*beside, whisker, dot, data=marks.data("estimates", rows))
    return marks.focused(marks.lanes_finished(chart, len(shown), quantity, reference), focus)


def _shown(estimates: Mapping[str, Estimate]) -> list[str]:
    if not estimates:
        raise InputError("series: the one in focus has no lanes")
    largest = sorted(estimates, key=lambda name: -estimates[name].value)[:LANES]
    return [name for name in estimates if name in set(largest)]


def _coloured(series: Mapping[str, object], *, shape: bool = False) -> Row:
    return marks.apart("series", series, shape=shape, legend=False)
