"""Settings that lower what classical models give away: forests, boosting, neighbours, vectors, linear models, networks.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/defences.py [KIND ...]

For each table and kind of model, `divulge.defences.measure_settings` with 4 reference models of each setting. Writes
`benchmarks/results/defences.md` after every table; with kinds named, their rows are replaced.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import divulge as dv
from divulge.references import Train

HERE = Path(__file__).parent
N_REFERENCES = 4
SIZES = {"wine": (60, 60), "diabetes": (120, 120)}
HEAD = """# Settings that give away less

`benchmarks/defences.py`: 300 members, 300 non-members and up to 800 population records (wine 60, 60, 58; diabetes 120,
120, 202), one draw, {n} reference models with the same setting. AUC of `auto`; accuracy
(diabetes: mean absolute error) on the non-members. Brackets: intervals that hold together over the rows of a table and
kind of model with 95 % confidence. "In the file": training records that stand in the model's arrays.

| table | model | setting | AUC | TPR at 5 % | accuracy or error | loss | in the file |
|---|---|---|---|---|---|---|---|
"""


def read_tables(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, columns and labels."""
    yield "wine", *load_wine(return_X_y=True)
    yield "diabetes", *load_diabetes(return_X_y=True)
    arrays = np.load(folder / "adult.npz", allow_pickle=False)
    yield "adult", np.hstack([arrays["X_num"], arrays["X_cat"]]).astype(np.float64), arrays["y"]
    arrays = np.load(folder / "satimage.npz", allow_pickle=False)
    yield "satimage", arrays["X"].astype(np.float64), np.unique(arrays["y"], return_inverse=True)[1]
    arrays = np.load(folder / "location30.npz", allow_pickle=False)
    bits = np.unpackbits(arrays["x_bits"], axis=1)[:, : int(arrays["n_features"])]
    yield "location30", bits.astype(np.float64), np.unique(arrays["y"], return_inverse=True)[1]


def draw(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, dv.Records]:
    """Return the sets of an audit; each class is among the members."""
    _, first = np.unique(x, axis=0, return_index=True)
    rows = np.random.default_rng(0).permutation(np.sort(first))[:1400]
    n, m = SIZES.get(name, (300, 300))
    make = (lambda part: dv.Records(x[part], y[part])) if name == "diabetes" else (
        lambda part: dv.Records(x[part], y[part].astype(int))
    )  # fmt: skip
    sets = [make(part) for part in np.split(rows, [n, n + m])]
    return dict(zip(("members", "nonmembers", "population"), sets, strict=True))


def models(regression: bool) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Return estimator and settings by kind of model."""
    trees = [{"min_samples_leaf": 5}, {"min_samples_leaf": 20}, {"max_depth": 5}]
    if regression:
        return {
            "forest": (RandomForestRegressor(100, random_state=0), trees),
            "boosting": (GradientBoostingRegressor(random_state=0), [{"n_estimators": 20}, {"max_depth": 2}]),
            "linear": (make_pipeline(StandardScaler(), Ridge()), [{"alpha": 100.0}]),
            "neighbours": (KNeighborsRegressor(5), [{"n_neighbors": 20}]),
            "support vectors": (make_pipeline(StandardScaler(), SVR()), [{"C": 0.1}]),
            "network": (
                make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(64,), max_iter=400, random_state=0)),
                [{"alpha": 10.0}],
            ),
        }  # fmt: skip
    return {
        "forest": (RandomForestClassifier(100, random_state=0), trees),
        "boosting": (
            GradientBoostingClassifier(n_estimators=50, random_state=0), [{"n_estimators": 10}, {"max_depth": 1}]
        ),
        "linear": (make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)), [{"C": 0.01}]),
        "neighbours": (KNeighborsClassifier(5), [{"n_neighbors": 20}]),
        "support vectors": (make_pipeline(StandardScaler(), SVC()), [{"C": 0.1}]),
        "network": (
            make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=200, random_state=0)), [{"alpha": 10.0}]
        ),
    }  # fmt: skip


def format_row(table: str, model: str, row: Any) -> str:
    """Return a row of the page."""

    def text(estimate: Any) -> str:
        return "–" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"

    cells = [text(each) for each in (row.auc, row.tpr, row.utility, row.loss)]
    return f"| {table} | {model} | {row.name} | {' | '.join(cells)} | {row.stored or '–'} |"


def main() -> None:
    """Measure the kinds of model that are named, and write the page after each table."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(models(regression=False)))
    arguments = parser.parse_args()
    path = HERE / "results" / "defences.md"
    rows = path.read_text(encoding="utf-8").splitlines()[len(HEAD.splitlines()) :] if path.exists() else []
    tables = {name: draw(name, x, y) for name, x, y in read_tables(Path(os.environ.get("DIVULGE_DATA", "")))}
    for kind in arguments.kinds:
        rows = [row for row in rows if f"| {kind} |" not in row]
        for name, sets in tables.items():
            estimator, settings = models(regression=name == "diabetes")[kind]
            target = estimator.fit(sets["members"].x, sets["members"].y)
            result = dv.defences.measure_settings(
                target, **sets, settings=settings, references=Train(count=N_REFERENCES, engine="serial"),
                duplicates="drop",
            )  # fmt: skip
            rows += [format_row(name, kind, row) for row in result.rows]
            path.write_text(HEAD.format(n=N_REFERENCES) + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
