"""Specifications: valid Vega-Lite, exact where it matters, honest when thinned, and no charts of nonsense."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import divulge as dv
from divulge.report import charts
from divulge.report.charts import CURVE_POINTS, Curve, axis_floor, evenly_spaced, thin_curve
from divulge.report.page import Chart


def reached(curve, x_limit):
    """The highest y among points with x ≤ at, by looking at all of them."""
    return max(y for x, y in zip(curve.x, curve.y, strict=True) if x <= x_limit)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 3_000), st.integers(0, 2**32 - 1))
def test_a_thinned_roc_consists_of_its_own_points_and_never_flatters(size, seed):
    rng = np.random.default_rng(seed)
    full = Curve(np.r_[0, np.sort(rng.integers(0, 1_001, size)) / 1_000, 1], np.r_[np.sort(rng.random(size + 1)), 1])
    thin = thin_curve(full, axis_floor(full.x))
    assert len(thin.x) <= CURVE_POINTS
    points = set(zip(full.x, full.y, strict=True))
    assert all(point in points for point in zip(thin.x, thin.y, strict=True))
    assert (thin.x[-1], thin.y[-1]) == (full.x[-1], full.y[-1])
    for x_limit in (0.0, *rng.random(5)):
        assert reached(thin, x_limit) <= reached(full, x_limit)


def test_the_left_end_of_a_roc_is_exact():
    n = 50_000
    full = Curve(np.arange(n + 1) / n, np.sqrt(np.arange(n + 1) / n))
    rows = charts.roc({"a": full})["layer"][1]["data"]["values"]
    assert len(rows) <= 300
    assert [row["x"] for row in rows[:15]] == [i / n for i in range(15)]
    assert rows[3]["y"] == pytest.approx(np.sqrt(3 / n), rel=1e-6)


def test_the_highest_rate_at_fpr_0_is_kept_and_the_axis_begins_below_the_least_positive_one():
    spec = charts.roc({"a": Curve([0, 0, 0, 0.004, 1], [0, 0.1, 0.3, 0.5, 1])})
    rows = spec["layer"][1]["data"]["values"]
    assert rows[0] == {"series": "a", "x": 0.0, "y": 0.3}
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0.002, 1]
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == [0.01, 0.1, 1]


@pytest.mark.parametrize(("rates", "floor"), [([0.0], 0.1), ([0.0, 1.0], 0.1), ([0.0, 1e-9, 1], 1e-6), ([1e-3], 5e-4)])
def test_a_logarithmic_axis_begins_somewhere_whatever_the_rates(rates, floor):
    assert axis_floor(np.array(rates)) == pytest.approx(floor)


@given(st.integers(1, 5_000), st.integers(2, 400))
def test_evenly_spaced_positions_keep_both_ends(count, max_count):
    positions = evenly_spaced(count, max_count)
    assert positions[0] == 0
    assert positions[-1] == count - 1
    assert len(positions) == min(count, max_count)
    assert (np.diff(positions) > 0).all()


def test_every_chart_of_the_sample_fills_its_place_and_holds_its_data(page):
    specs = [b.spec for section in page.sections for b in section.blocks if isinstance(b, Chart)]
    assert len(specs) == 8
    for spec in specs:
        assert spec["width"] == "container"
        assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
        assert all(rows for rows in find_data_sets(spec).values())
        json.dumps(spec, allow_nan=False)


def find_data_sets(spec):
    """All data sets of a specification."""
    data_sets = {spec["data"]["name"]: spec["data"]["values"]} if "data" in spec else {}
    for layer in spec.get("layer", ()):
        data_sets |= find_data_sets(layer)
    return data_sets


def test_a_histogram_counts_every_value_once_outliers_in_the_outermost_bins():
    rng = np.random.default_rng(0)
    groups = {"members": np.r_[rng.normal(1, 1, 5_000), 1e6], "non-members": rng.normal(0, 1, 3_000)}
    rows = find_data_sets(charts.histogram(groups, bins=20))["shares"]
    for name in groups:
        shares = [row["share"] for row in rows if row["group"] == name]
        assert len(shares) == 21
        assert sum(shares[:-1]) == pytest.approx(1)
    assert max(row["from"] for row in rows) < 10


def test_a_histogram_reaches_its_largest_value_or_says_how_many_lie_beyond():
    scores = np.linspace(0, 1, 5_000)
    near = charts.histogram({"all": np.r_[scores, 1.3]}, quantity="score", bins=10)
    far = charts.histogram({"all": np.r_[scores, 50, 60]}, quantity="score", bins=10)
    assert max(row["from"] for row in find_data_sets(near)["shares"]) == 1.3
    across = [spec["layer"][0]["encoding"]["x"] for spec in (near, far)]
    assert across[0]["title"] == across[1]["title"] == "score"
    assert "axis" not in across[0]
    assert "(12 beyond" in across[1]["axis"]["title"]


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0]])
def test_a_histogram_of_one_value_still_has_a_width(values):
    rows = find_data_sets(charts.histogram({"all": values}, bins=4))["shares"]
    assert sum(row["share"] for row in rows[:-1]) == 1
    assert rows[0]["from"] < values[0] < rows[-1]["from"]


def test_a_crowd_of_points_is_thinned_in_order_of_x_with_both_ends():
    x = np.random.default_rng(0).random(10_000)
    rows = find_data_sets(charts.scatter({"all": (x, -x)}, x="x", y="y"))["points"]
    assert len(rows) == charts.CLOUD_POINTS
    assert rows[0]["x"] == pytest.approx(x.min(), rel=1e-6)
    assert rows[-1]["x"] == pytest.approx(x.max(), rel=1e-6)
    assert all(row["y"] == -row["x"] for row in rows)


def test_seen_and_unseen_classes_differ_in_colour_and_in_shape():
    estimates = [dv.Estimate(0.2, 0.1, 0.3, 0.95, "m")] * 2
    spec = charts.bars(["a", "b"], estimates, quantity="TPR", unseen=[False, True])
    encoding = spec["layer"][0]["layer"][2]["encoding"]
    assert encoding["color"]["field"] == encoding["shape"]["field"] == "kind"
    assert encoding["shape"]["scale"]["range"] == ["circle", "diamond"]
    assert [row["kind"] for row in spec["data"]["values"]] == ["seen class", "unseen class"]


def marks(spec):
    """What a specification draws, from the bottom to the top."""
    own_marks = [spec["mark"]["type"]] if "mark" in spec else []
    return own_marks + [mark for layer in spec.get("layer", ()) for mark in marks(layer)]


BANDED = Curve([0.0, 0.1, 1.0], [0.0, 0.5, 1.0], low=[0.0, 0.4, 1.0], high=[0.0, 0.6, 1.0])
ESTIMATES = {"a": dv.Estimate(0.5, 0.4, 0.6, 0.95, "m"), "b": dv.Estimate(0.6, 0.5, 0.7, 0.95, "m")}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            charts.roc({"a": Curve([0, 1], [0, 1])}),
            ["rule", "line"],
        ),  # the diagonal; a curve of many points has no dots
        (charts.roc({"a": BANDED, "b": BANDED}), ["rule", "area", "line"]),
        (charts.roc({"a": BANDED, "b": BANDED}, focus="a"), ["rule", "area", "line"]),
        (charts.calibration({"a": BANDED}), ["rule", "area", "line", "point"]),  # one dot for each level
        (charts.intervals(ESTIMATES, quantity="AUC"), ["tick", "tick", "rule", "point"]),
        (charts.class_lanes({"a": ESTIMATES}, focus="a", quantity="AUC"), ["rule", "point"]),
        (charts.class_lanes({"a": ESTIMATES, "b": ESTIMATES}, focus="a", quantity="AUC"), ["rule", "point"]),
        (charts.histogram({"a": [1.0, 2.0]}), ["area", "line"]),
    ],
    ids=["roc", "roc with bands", "roc in focus", "calibration", "intervals", "lanes", "several lanes", "histogram"],
)
def test_what_a_chart_consists_of(spec, expected):
    assert sorted(marks(spec)) == sorted(expected)


def test_more_series_than_dashes_begin_again():
    curves = {f"attack {i}": Curve([0, 1], [0, 1]) for i in range(11)}
    assert len(find_data_sets(charts.roc(curves))["curves"]) == 22


def test_reference_lines_stand_where_they_are_asked_for():
    spec = charts.scatter({"a": ([1.0], [1.0])}, x="x", y="y", vertical={"left": 0.25}, horizontal={"top": 2})
    guides = [layer["data"]["values"] for layer in spec["layer"][1:]]
    assert guides == [[{"label": "left", "at": 0.25}], [{"label": "top", "at": 2.0}]]


ESTIMATE = dv.Estimate(0.5, 0.4, 0.6, 0.95, "m")
HOLE = dv.Estimate(float("nan"), 0.4, 0.6, 0.95, "m")
LINE = Curve([0, 1], [0, 1])


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: Curve([0, 1], [0, np.nan]), "y: 1 values are NaN"),
        (lambda: Curve([0, 1], [0]), "y: 2 values are needed"),
        (lambda: Curve([0, 2, 1], [0, 1, 2]), "x: must not decrease along a curve, but does after entry 1"),
        (lambda: Curve([0, 1], [0, 1], low=[0, 1]), "a band needs both"),
        (lambda: charts.roc({}), "curves: at least 1 entry"),
        (lambda: charts.roc({"LiRA": Curve([0, 1], [0, 1.5])}), r"curves\['LiRA'\]: rates must lie in \[0, 1\]"),
        (lambda: charts.calibration({"a": Curve([-0.1, 1], [0, 1])}), "rates must lie in"),
        (lambda: charts.lines({"a": LINE}, x="x", y="y", log_x=True), "must be above 0 on a logarithmic axis"),
        (lambda: charts.lines({"a": LINE}, x="x", y="y", reference=np.nan), "must lie in"),
        (lambda: charts.bars(["a", "a"], [ESTIMATE, ESTIMATE], quantity="q"), "'a' occurs more than once"),
        (lambda: charts.bars(["a"], [ESTIMATE, ESTIMATE], quantity="q"), "got 2 for 1 names"),
        (lambda: charts.bars(["a"], [ESTIMATE], quantity="q", unseen=[True, False]), "unseen: 1 values are needed"),
        (lambda: charts.intervals({"a": HOLE}, quantity="q"), "estimate of 'a': 1 values are NaN"),
        (lambda: charts.intervals({}, quantity="q"), "estimates: one per name"),
        (lambda: charts.histogram({"a": []}), r"groups\['a'\]: at least 1 entry"),
        (lambda: charts.histogram({"a": [1.0]}, bins=0), "bins: must be at least 1"),
        (lambda: charts.scatter({"a": ([1.0], [1.0, 2.0])}, x="x", y="y"), r"groups\['a'\]\[1\]: 1 values"),
        (lambda: charts.network([0, 1], [0, 1], break_points=[np.inf], margin=1), "break-point: 1 values"),
    ],
)
def test_nonsense_is_refused(draw, message):
    with pytest.raises(dv.InputError, match=message):
        draw()


def test_a_logarithmic_axis_refuses_a_curve_that_begins_at_zero():
    rising = charts.Curve([0.0, 0.5, 1.0], [0.0, 0.5, 1.0])
    assert charts.lines({"a": rising}, x="x", y="y")
    with pytest.raises(dv.InputError, match="must be above 0 on a logarithmic axis, got 0"):
        charts.lines({"a": rising}, x="x", y="y", log_x=True)
    assert charts.lines({"a": charts.Curve([0.1, 1.0], [0.0, 1.0])}, x="x", y="y", log_x=True)


def test_the_legend_of_a_network_names_the_marks_that_are_there():
    spec = charts.network([0.0, 1.0], [-1.0, 1.0], break_points=[0.5], margin=1.0, candidates=[1.0])
    scale = spec["layer"][2]["encoding"]["shape"]["scale"]
    assert scale["domain"] == ["break-point", "candidate"]
    assert len(scale["range"]) == 2


def test_a_trade_off_shows_both_intervals_and_the_axes_hold_them():
    """Two settings of equal accuracy: an axis of one value would say nothing of it."""
    accuracy = dv.Estimate(0.8, 0.7, 0.9, 0.95, "exact")
    leaks = dv.Estimate(0.8, 0.75, 0.85, 0.95, "delong"), dv.Estimate(0.55, 0.5, 0.6, 0.95, "delong")
    choices = {"as it is": (accuracy, leaks[0]), "max_depth = 2": (accuracy, leaks[1])}
    spec = charts.trade_off(choices, x="accuracy", y="AUC", reference=0.5, percent=True)
    rows = find_data_sets(spec)["choices"]
    assert [row["y"] for row in rows] == [0.8, 0.55]
    assert {(row["x_low"], row["x"], row["x_high"]) for row in rows} == {(70.0, 80.0, 90.0)}
    assert {layer["encoding"]["x"]["title"] for layer in spec["layer"][0]["layer"]} == {"accuracy, %"}
    with pytest.raises(dv.InputError, match="estimate of 'bad'"):
        charts.trade_off({"bad": (dv.Estimate(np.nan, 0, 1, 0.95, "exact"), leaks[0])}, x="x", y="y")


def test_shares_are_drawn_in_the_per_cent_of_the_tables():
    spec = charts.intervals({"model": dv.Estimate(0.525, 0.442, 0.646, 0.95, "x")}, quantity="difference", unit="%")
    assert find_data_sets(spec)["estimates"] == [{"name": "model", "value": 52.5, "low": 44.2, "high": 64.6}]
