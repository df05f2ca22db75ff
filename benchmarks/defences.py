"""Settings that lower what classical models give away: forests, boosting, neighbours, vectors, linear models, networks.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/defences.py [KIND ...] [--draws 1 2]

For each table and kind of model, `divulge.defences.measure_settings` with 4 reference models of each setting. Writes
`benchmarks/results/defences.md` after every table; with kinds named, their rows are replaced. With ``--draws``, the
same is done with other draws of records, models and references, whose rows stand in a table of their own below.
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

FOLDER = Path(__file__).parent
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


DRAWS_HEAD = """
## Other draws

The same with other draws of records, models and reference models; draw 0 is the one above. Lowest and highest are of
all draws' AUC. Brackets as above, of the draw alone.

| table | model | setting | draw | AUC | accuracy or error | AUC of all draws, lowest to highest |
|---|---|---|---|---|---|---|
"""


def draw(name: str, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, dv.Records]:
    """Return the sets of an audit; each class is among the members."""
    _, first_rows = np.unique(x, axis=0, return_index=True)
    rows = np.random.default_rng(seed).permutation(np.sort(first_rows))[:1400]
    n, m = SIZES.get(name, (300, 300))
    make = (lambda part: dv.Records(x[part], y[part])) if name == "diabetes" else (
        lambda part: dv.Records(x[part], y[part].astype(int))
    )  # fmt: skip
    sets = [make(part) for part in np.split(rows, [n, n + m])]
    return dict(zip(("members", "nonmembers", "population"), sets, strict=True))


def models(regression: bool, seed: int = 0) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Return estimator and settings by kind of model."""
    trees = [{"min_samples_leaf": 5}, {"min_samples_leaf": 20}, {"max_depth": 5}]
    if regression:
        return {
            "forest": (RandomForestRegressor(100, random_state=seed), trees),
            "boosting": (GradientBoostingRegressor(random_state=seed), [{"n_estimators": 20}, {"max_depth": 2}]),
            "linear": (make_pipeline(StandardScaler(), Ridge()), [{"alpha": 100.0}]),
            "neighbours": (KNeighborsRegressor(5), [{"n_neighbors": 20}]),
            "support vectors": (make_pipeline(StandardScaler(), SVR()), [{"C": 0.1}]),
            "network": (
                make_pipeline(
                    StandardScaler(), MLPRegressor(hidden_layer_sizes=(64,), max_iter=400, random_state=seed)
                ),
                [{"alpha": 10.0}],
            ),
        }  # fmt: skip
    return {
        "forest": (RandomForestClassifier(100, random_state=seed), trees),
        "boosting": (
            GradientBoostingClassifier(n_estimators=50, random_state=seed), [{"n_estimators": 10}, {"max_depth": 1}]
        ),
        "linear": (make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)), [{"C": 0.01}]),
        "neighbours": (KNeighborsClassifier(5), [{"n_neighbors": 20}]),
        "support vectors": (make_pipeline(StandardScaler(), SVC()), [{"C": 0.1}]),
        "network": (
            make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=200, random_state=seed)), [{"alpha": 10.0}]
        ),
    }  # fmt: skip


def format_row(table: str, model: str, row: Any) -> str:
    """Return a row of the page."""

    def text(estimate: Any) -> str:
        return "–" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"

    cells = [text(each) for each in (row.auc, row.tpr, row.utility, row.loss)]
    return f"| {table} | {model} | {row.name} | {' | '.join(cells)} | {row.stored or '–'} |"


def write_page(rows: list[str], draw_rows: list[str]) -> None:
    """Write both tables; in that of other draws, each row says how far the AUC of its setting lie apart."""
    auc: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        cells = [cell.strip() for cell in row.split("|")]
        auc[tuple(cells[1:4])] = [float(cells[4].split()[0])]
    for row in draw_rows:
        cells = [cell.strip() for cell in row.split("|")]
        auc[tuple(cells[1:4])].append(float(cells[5].split()[0]))
    lines = []
    for row in draw_rows:
        cells = row.split("|")
        values = auc[tuple(cell.strip() for cell in cells[1:4])]
        lines.append("|".join(cells[:7]) + f"| {min(values):.3f} to {max(values):.3f} |")
    text = HEAD.format(n=N_REFERENCES) + "\n".join(rows) + "\n"
    text += DRAWS_HEAD + "\n".join(lines) + "\n" if lines else ""
    (FOLDER / "results" / "defences.md").write_text(text, encoding="utf-8")


def read_rows() -> tuple[list[str], list[str]]:
    """Return the rows of both tables as they stand."""
    path = FOLDER / "results" / "defences.md"
    if not path.exists():
        return [], []
    settings_part, _, draws_part = path.read_text(encoding="utf-8").partition(DRAWS_HEAD)
    return settings_part.splitlines()[len(HEAD.splitlines()) :], draws_part.splitlines()


def measure(name: str, model_type: str, sets: dict[str, dv.Records], seed: int) -> Any:
    """Measure the settings of one kind of model on one table."""
    estimator, settings = models(name == "diabetes", seed)[model_type]
    target = estimator.fit(sets["members"].x, sets["members"].y)
    references = Train(count=N_REFERENCES, engine="serial")
    return dv.defences.measure_settings(
        target, **sets, settings=settings, references=references, duplicates="drop", seed=seed
    )


def main() -> None:
    """Measure the kinds of model that are named, and write the page after each table."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(models(regression=False)))
    parser.add_argument("--draws", nargs="*", type=int, default=[0])
    arguments = parser.parse_args()
    rows, draw_rows = read_rows()
    tables = list(read_tables(Path(os.environ.get("DIVULGE_DATA", ""))))
    for seed in arguments.draws:
        for model_type in arguments.kinds:
            if seed == 0:
                rows = [row for row in rows if f"| {model_type} |" not in row]
            else:
                draw_rows = [row for row in draw_rows if f"| {model_type} |" not in row or f"| {seed} |" not in row]
            for name, x, y in tables:
                result = measure(name, model_type, draw(name, x, y, seed), seed)
                for row in result.rows:
                    line = format_row(name, model_type, row)
                    cells = line.split("|")
                    draw_line = "|".join([*cells[:4], f" {seed} ", cells[4], cells[6]]) + "|"
                    (rows if seed == 0 else draw_rows).append(line if seed == 0 else draw_line)
                print(name, model_type, seed, flush=True)
                write_page(rows, draw_rows)


if __name__ == "__main__":
    main()
