"""One picture of each kind, with and without what can be left out of it."""

import numpy as np

from divulge.report import charts
from divulge.report.charts import Curve
from divulge.types import Estimate

RISING = Curve([0.0, 0.1, 1.0], [0.0, 0.5, 1.0], low=[0.0, 0.4, 1.0], high=[0.0, 0.6, 1.0])
PLAIN = Curve(np.arange(401) / 400, np.sqrt(np.arange(401) / 400))
ESTIMATES = {"a": Estimate(0.5, 0.4, 0.6, 0.95, "m"), "b": Estimate(0.625, 0.5, 0.75, 0.95, "m")}
MANY = {f"class {i}": Estimate(i % 7 / 8, i % 7 / 9, i % 7 / 7, 0.95, "m") for i in range(34)}
LINES = {"x": "known share", "y": "AUC"}
PICTURES = {
    "roc": lambda: charts.roc({"a": PLAIN}),
    "roc in focus": lambda: charts.roc({"a": RISING, "b": PLAIN}, focus="a"),
    "roc of ten": lambda: charts.roc({f"attack {i}": PLAIN for i in range(10)}),
    "calibration": lambda: charts.calibration({"a": RISING, "b": Curve([0.001, 0.01], [0.002, 0.01])}),
    "lines": lambda: charts.lines({"a": RISING, "b": PLAIN}, reference=0.5, **LINES),
    "lines of few points": lambda: charts.lines({"a": RISING}, **LINES),
    "lines at zero": lambda: charts.lines({"a": Curve([0.0, 1.0], [0.0, 0.0])}, **LINES),
    "lines on a logarithmic axis": lambda: charts.lines({"a": Curve([1.0, 10.0], [0.5, 0.75])}, log_x=True, **LINES),
    "lines to a million": lambda: charts.lines({"a": Curve([1.0, 1e6], [0.5, 0.75])}, log_x=True, **LINES),
    "lines beyond": lambda: charts.lines({"a": Curve([1.0, 2e6], [0.5, 0.75])}, log_x=True, **LINES),
    "bars": lambda: charts.bars(list(ESTIMATES), list(ESTIMATES.values()), quantity="TPR"),
    "bars of unseen classes": lambda: charts.bars(
        list(ESTIMATES), list(ESTIMATES.values()), quantity="TPR", unseen=[False, True], reference=0.25
    ),
    "intervals": lambda: charts.intervals(ESTIMATES, quantity="AUC", reference=0.5),
    "many intervals": lambda: charts.intervals(MANY, quantity="AUC"),
    "lanes": lambda: charts.class_lanes({"r": ESTIMATES}, focus="r", quantity="AUC"),
    "lanes of two": lambda: charts.class_lanes({"r": ESTIMATES, "s": MANY}, focus="s", quantity="AUC", reference=0.5),
    "histogram": lambda: charts.histogram({"members": np.arange(99.0), "non-members": np.arange(50.0)}, bins=10),
    "histogram of one tall bar": lambda: charts.histogram({"all": np.r_[np.zeros(50), 1:51]}, quantity="score", bins=5),
    "scatter": lambda: charts.scatter({"a": ([0.5, 0.25], [1.0, 2.0]), "b": ([0.75], [4.0])}, x="margin", y="output"),
    "scatter with guides": lambda: charts.scatter(
        {"a": ([0.5], [1.0])}, x="margin", y="output", vertical={"left": 0.25}, horizontal={"top": 2.0, "low": 1.0}
    ),
    "network": lambda: charts.network(
        [0.0, 1.0, 2.0], [-1.0, 1.0, 0.0],
        break_points=[1.0], margin=1.0, crossings=[0.5], candidates=[1.0], truth=[2.0],
    ),
    "bare network": lambda: charts.network([0.0, 1.0], [-1.0, 1.0], break_points=[0.5], margin=0.5),
}  # fmt: skip
