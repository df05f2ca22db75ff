"""Vega-Lite specifications of every chart in a report: plain dicts with their data inside.

A specification names roles (first series, reference line), never colours: the page gives it light, dark and
printed colours, and a notebook shows it in Vega's own. Data sets are named, for the page prints each as a table
beside its chart; those whose names begin with ``_`` (lines that only guide the eye) are left out there.

No series is told apart by colour alone: lines also differ in their dashes, points in their shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from divulge.errors import InputError
from divulge.report import marks
from divulge.report.curves import (
    CURVE_POINTS,
    Curve,
    floor_of,
    points_each,
    rates,
    rows_of,
    short,
    some,
    spaced,
    thinned,
)
from divulge.report.marks import Layer, Row, Spec
from divulge.validation import check_array, check_choice, check_integer, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Estimate

CLOUD_POINTS = 1500
_MILLION = 1e6  # above which the places of a logarithmic axis are written as powers of ten
TALL = 0.4  # share of a group in one bin from which on a histogram has a square-root scale


def roc(curves: Mapping[str, Curve], *, focus: str | None = None) -> Spec:
    """ROC curves on logarithmic axes, where small false positive rates can be read (Carlini et al. 2022).

    Each curve is thinned to at most 300 of its own points (1,500 of all curves), evenly spaced in log FPR: the points
    at the left end all stay, and between points the line keeps the last rate that was reached, so thinning never
    flatters an attack.
    A logarithmic axis has no zero: a TPR reached at FPR 0 is drawn at the left border (tooltip and table say 0).

    Args:
        curves: attack → ``Curve(fpr, tpr, low, high)``, with rates in [0, 1].
        focus: the attack whose band is shown until the reader chooses another; all bands when None.

    Raises:
        divulge.InputError: no curve, a rate outside [0, 1], or an unknown ``focus``.

    Examples:
        >>> spec = roc({"LiRA": Curve([0, 0.001, 1], [0.1, 0.2, 1])})
        >>> spec["layer"][1]["data"]["values"][0]
        {'series': 'LiRA', 'x': 0.0, 'y': 0.1}
    """
    checked = rates(curves)
    if focus is not None:
        check_choice(focus, "focus", checked)
    floor = floor_of(np.concatenate([curve.x for curve in checked.values()]))
    thin = {name: thinned(curve, floor, points_each(len(checked))) for name, curve in checked.items()}
    x, y = "false positive rate", "true positive rate"
    return marks.log_log(thin, floor, x, y, interpolate="step-after", points=False, focus=focus)


def calibration(curves: Mapping[str, Curve]) -> Spec:
    """Observed over expected false positive rate, on logarithmic axes; above the diagonal a promise is broken.

    Args:
        curves: name → ``Curve(expected, observed, low, high)``, with rates in [0, 1].

    Raises:
        divulge.InputError: no curve, or a rate outside [0, 1].

    Examples:
        >>> calibration({"conformal": Curve([0.01, 0.1], [0.012, 0.098])})["layer"][1]["data"]["name"]
        'curves'
    """
    checked = rates(curves)
    floor = floor_of(np.concatenate([np.r_[curve.x, curve.y] for curve in checked.values()]))
    x, y = "expected false positive rate", "observed false positive rate"
    return marks.log_log(checked, floor, x, y, interpolate="linear", points=True)


def lines(curves: Mapping[str, Curve], *, x: str, y: str, reference: float | None = None, log_x: bool = False) -> Spec:
    """Curves with their bands: AUC by known share of a record, recovered labels over queries.

    Args:
        curves: series → curve; long ones are thinned to 300 points, or to 1,500 of all.
        x: title of the horizontal axis.
        y: title of the vertical axis.
        reference: a value of ``y`` to compare with (chance, a limit), drawn as a dashed line.
        log_x: logarithmic horizontal axis.

    Raises:
        divulge.InputError: no curve, or ``x`` ≤ 0 on a logarithmic axis.

    Examples:
        >>> spec = lines({"RMIA": Curve([0.25, 1.0], [0.6, 0.8])}, x="known share", y="AUC", reference=0.5)
        >>> spec["layer"][1]["data"]["values"]
        [{'series': 'RMIA', 'x': 0.25, 'y': 0.6}, {'series': 'RMIA', 'x': 1.0, 'y': 0.8}]
    """
    for name, curve in some(curves, "curves").items():
        if log_x and curve.x[0] <= 0:
            raise InputError(f"curves[{name!r}].x: must be above 0 on a logarithmic axis, got {curve.x[0]:g}")
    thin = {name: curve.at(spaced(len(curve.x), points_each(len(curves)))) for name, curve in curves.items()}
    points = max(len(curve.x) for curve in thin.values()) <= 40
    scale = alt.Scale(type="log", nice=False) if log_x else alt.Scale(zero=False, nice=False)
    across: Row = {"title": x, "scale": scale}
    if log_x and max(float(curve.x[-1]) for curve in curves.values()) > _MILLION:
        across["axis"] = alt.Axis(format=".0e")
    heights = np.concatenate([curve.y for curve in thin.values()])
    flat = {0.0} == set(heights)  # a scale of its own would put zero in the middle
    up: Row = {"title": y, "scale": alt.Scale(domain=[0, 1]) if flat else alt.Scale(zero=False)}
    guides = [] if reference is None else [marks.guides({"": reference}, "y", y)]
    return marks.finished(alt.layer(*guides, marks.curve_layers(thin, across, up, "linear", points=points)), height=320)


def bars(
    names: Sequence[str],
    estimates: Sequence[Estimate],
    *,
    quantity: str,
    unseen: Sequence[bool] | None = None,
    reference: float | None = None,
) -> Spec:
    """One horizontal bar per class or group, in the given order, with its interval as a whisker.

    Args:
        names: name of each group, no two the same.
        estimates: its value and interval.
        quantity: what the bars measure ("TPR at FPR 0.1 %").
        unseen: True where the auditor had no record of the class; told apart by colour and by shape.
        reference: a value to compare with, drawn as a dashed line.

    Raises:
        divulge.InputError: no or repeated names, lengths that differ, NaN or infinity in an estimate.

    Examples:
        >>> from divulge.types import Estimate
        >>> spec = bars(["ship"], [Estimate(0.2, 0.1, 0.3, 0.95, "clopper-pearson")], quantity="TPR", unseen=[True])
        >>> spec["data"]["values"]
        [{'name': 'ship', 'value': 0.2, 'low': 0.1, 'high': 0.3, 'kind': 'unseen class'}]
    """
    rows = marks.estimate_rows(names, estimates)
    colour: Row = {}
    mark: Row = {}
    if unseen is not None:
        if len(unseen) != len(rows):
            raise InputError(f"unseen: {len(rows)} values are needed (one per name), got {len(unseen)}")
        rows = [row | {"kind": "unseen class" if new else "seen class"} for row, new in zip(rows, unseen, strict=True)]
        colour, mark = (marks.apart("kind", ("seen class", "unseen class"), shape=shape) for shape in (False, True))
    across: Row = {"title": quantity}
    base: Layer = alt.Chart().encode(y=marks.lanes(rows), tooltip=marks.tips(rows[0]))
    layers = [
        base.mark_bar(height={"band": 0.6}, opacity=0.4).encode(x=alt.X("value:Q", **across), **colour),
        base.mark_rule(strokeWidth=1.5, style="whisker").encode(x=alt.X("low:Q", **across), x2="high:Q"),
        base.mark_point(filled=True, size=90, opacity=1).encode(x=alt.X("value:Q", **across), **mark),
    ]
    return marks.lanes_finished(alt.layer(*layers, data=marks.data("groups", rows)), len(rows), quantity, reference)


def intervals(estimates: Mapping[str, Estimate], *, quantity: str, reference: float | None = None) -> Spec:
    """A dot and its interval for each attack, below one another.

    Args:
        estimates: attack → value and interval.
        quantity: what is measured ("AUC").
        reference: a value to compare with (½ for an AUC: guessing), drawn as a dashed line.

    Raises:
        divulge.InputError: no estimate, or NaN or infinity in one.

    Examples:
        >>> from divulge.types import Estimate
        >>> spec = intervals({"LOSS": Estimate(0.6, 0.58, 0.62, 0.95, "delong")}, quantity="AUC", reference=0.5)
        >>> spec["layer"][0]["data"]["values"]
        [{'name': 'LOSS', 'value': 0.6, 'low': 0.58, 'high': 0.62}]
    """
    rows = marks.estimate_rows(list(estimates), list(estimates.values()))
    across: Row = {"title": quantity, "scale": alt.Scale(zero=False)}
    base: Layer = alt.Chart().encode(y=marks.lanes(rows), tooltip=marks.tips(rows[0]))
    ends = [base.mark_tick(thickness=2, size=9).encode(x=alt.X(f"{end}:Q", **across)) for end in ("low", "high")]
    whisker = base.mark_rule(strokeWidth=2, style="interval").encode(x=alt.X("low:Q", **across), x2="high:Q")
    dot = base.mark_point(filled=True, size=80, opacity=1).encode(x=alt.X("value:Q", **across))
    return marks.lanes_finished(
        alt.layer(whisker, *ends, dot, data=marks.data("estimates", rows)), len(rows), quantity, reference
    )


def histogram(groups: Mapping[str, object], *, quantity: str = "score", bins: int = 50) -> Spec:
    """How the values of each group spread: the share of the group in each bin, over common bins.

    The bins span the middle 99.8 % of all values; what lies outside is counted in the first and the last bin.

    Args:
        groups: name → values ``[n]`` ("members", "non-members").
        quantity: what is counted.
        bins: number of bins.

    Raises:
        divulge.InputError: no group, an empty group, NaN or infinity.

    Examples:
        >>> spec = histogram({"members": [1.0, 2.0], "non-members": [0.0, 0.0]}, bins=2)
        >>> [row["share"] for row in spec["data"]["values"] if row["group"] == "members"]
        [0.0, 1.0, 1.0]
    """
    bins = check_integer(bins, "bins", least=1)
    values = {name: check_vector(group, f"groups[{name!r}]") for name, group in some(groups, "groups").items()}
    low, high = np.quantile(np.concatenate(list(values.values())), [0.001, 0.999])
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    edges = np.linspace(low, high, bins + 1)
    rows: list[Row] = []
    for name, group in values.items():
        share = np.histogram(np.clip(group, low, high), edges)[0] / len(group)
        # The last step reaches the last edge only if its height stands there once more.
        heights = zip(edges, np.r_[share, share[-1]], strict=True)
        rows += [{"group": str(name), "from": short(edge), "share": short(height)} for edge, height in heights]
    # One bar that holds nearly all would flatten the others to nothing.
    tall = max(row["share"] for row in rows) > TALL
    scale: Row = {"scale": alt.Scale(type="sqrt")} if tall else {}
    base: Layer = alt.Chart().encode(
        x=alt.X("from:Q", title=quantity, scale=alt.Scale(nice=False, zero=False)),
        y=alt.Y("share:Q", title=f"share of the group{', square-root scale' if tall else ''}", stack=None, **scale),
        tooltip=["group:N", alt.Tooltip("from:Q", title=quantity), "share:Q"],
    )
    shade = base.mark_area(interpolate="step-after", opacity=0.22).encode(**marks.apart("group", groups, key="line"))
    outline = base.mark_line(interpolate="step-after", strokeWidth=1.6).encode(
        **marks.apart("group", groups, dash=True, key="line")
    )
    return marks.finished(alt.layer(shade, outline, data=marks.data("shares", rows)), height=280)


def scatter(
    groups: Mapping[str, tuple[object, object]],
    *,
    x: str,
    y: str,
    vertical: Mapping[str, float] | None = None,
    horizontal: Mapping[str, float] | None = None,
) -> Spec:
    """Points of several groups and lines to compare them with: |Φ(x)| of members and fresh points at the margin.

    Of more than 1,500 points as many are drawn, an equal share of each group, evenly spaced in the order of ``x``.

    Args:
        groups: name → (x ``[n]``, y ``[n]``).
        x: title of the horizontal axis.
        y: title of the vertical axis.
        vertical: name → value of ``x`` where a dashed line stands.
        horizontal: name → value of ``y`` where a dashed line lies.

    Raises:
        divulge.InputError: no group, lengths that differ, NaN or infinity.

    Examples:
        >>> spec = scatter({"member": ([1.0], [2.0])}, x="margin", y="|Φ|", horizontal={"margin": 2.0})
        >>> spec["layer"][0]["data"]["values"]
        [{'group': 'member', 'x': 1.0, 'y': 2.0}]
    """
    rows: list[Row] = []
    for name, (first, second) in some(groups, "groups").items():
        across = check_vector(first, f"groups[{name!r}][0]")
        up = check_vector(second, f"groups[{name!r}][1]", length=len(across))
        kept = np.argsort(across, kind="stable")[spaced(len(across), CLOUD_POINTS // len(groups))]
        rows += [{"group": str(name), "x": short(across[i]), "y": short(up[i])} for i in kept]
    points: Layer = alt.Chart(marks.data("points", rows)).mark_point(filled=True, opacity=0.7, size=38)
    points = points.encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=y, scale=alt.Scale(zero=False)),
        tooltip=["group:N", alt.Tooltip("x:Q", title=x), alt.Tooltip("y:Q", title=y)],
        **marks.apart("group", groups, shape=True),
    )
    guides = [marks.guides(vertical, "x", x)] if vertical is not None else []
    guides += [marks.guides(horizontal, "y", y)] if horizontal is not None else []
    return marks.finished(alt.layer(points, *guides), height=340)


def network(
    x: object,
    phi: object,
    *,
    break_points: object,
    margin: float,
    crossings: object = (),
    candidates: object = (),
    truth: object = (),
) -> Spec:
    """A univariate network: its function, its break-points, the margin lines, and the points read off it.

    Args:
        x: inputs ``[n]``, in increasing order.
        phi: the network's output there, ``[n]``.
        break_points: inputs ``[k]`` at which a neuron switches.
        margin: training points lie on the outputs ±margin.
        crossings: inputs at which the output crosses the margin.
        candidates: inputs that the weights give away.
        truth: the training inputs, where they are known.

    Raises:
        divulge.InputError: lengths that differ, a decreasing ``x``, NaN or infinity.

    Examples:
        >>> spec = network([0.0, 1.0], [-1.0, 1.0], break_points=[0.5], margin=1.0, candidates=[1.0])
        >>> spec["layer"][2]["data"]["values"]
        [{'what': 'break-point', 'x': 0.5, 'y': 0.0}, {'what': 'candidate', 'x': 1.0, 'y': 1.0}]
    """
    curve = Curve(x, phi)
    across, up = alt.X("x:Q", title="x", scale=alt.Scale(zero=False, nice=False)), alt.Y("y:Q", title="Φ(x)")
    function = [row | {"what": "Φ"} for row in rows_of(curve.at(spaced(len(curve.x), 2 * CURVE_POINTS)))]
    shapes = {
        "break-point": "M0,-1L0,1",
        "crossing": "M-1,0L1,0",
        "candidate": "circle",
        "training point": "M-0.7,-0.7L0.7,0.7M-0.7,0.7L0.7,-0.7",
    }
    places = {"break-point": break_points, "crossing": crossings, "candidate": candidates, "training point": truth}
    rows = [
        {"what": what, "x": short(at), "y": short(np.interp(at, curve.x, curve.y))}
        for what, inputs in places.items()
        for at in np.sort(check_array(inputs, what), axis=None)
    ]
    shapes = {what: shape for what, shape in shapes.items() if any(row["what"] == what for row in rows)}
    points: Layer = alt.Chart(marks.data("points", rows)).mark_point(strokeWidth=2, opacity=1, size=160)
    points = points.encode(
        x=across,
        y=up,
        tooltip=["what:N", "x:Q", "y:Q"],
        color=marks.apart("what", shapes)["color"],
        shape=alt.Shape("what:N", title=None, scale=alt.Scale(domain=list(shapes), range=list(shapes.values()))),
    )
    line: Layer = alt.Chart(marks.data("function", function))
    line = line.mark_line(strokeWidth=1.8, style="function").encode(x=across, y=up)
    guides = marks.guides({f"+{margin:g}": margin, f"−{margin:g}": -margin}, "y", "Φ(x)")
    return marks.finished(alt.layer(guides, line, points), height=340)
