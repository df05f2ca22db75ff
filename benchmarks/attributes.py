"""What models give away of a column of their training records, on real tables, and where there is nothing to find.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/attributes.py [--null 2]

Each run has 300 members, 300 non-members and 800 population records. Null runs are the same with a target that was
trained on other records. Writes `benchmarks/results/attributes.md`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge import statistics

FOLDER = Path(__file__).parent
MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "forest, leaves of 5": lambda: RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
}
COLUMNS: dict[str, dict[str, float | None]] = {
    "adult": {"sex": None, "race": None, "marital_status": None, "age": 2.0},
    "bank_marketing": {"marital": None, "default": None, "job": None, "age": 2.0},
}
HEAD = """# Attribute inference

`benchmarks/attributes.py`: 300 members, 300 non-members, 800 population records; no reference models. A guess of age is
right within 2 years. Shares are those of the better attack ("model", "model and imputation") by what it surely gives
away; brackets are intervals that hold together for all attacks and values of a run with 95 % confidence. "Beyond
imputation" is on members. Seconds are of one thread of a shared machine.

| table, attribute | model | answer | members | non-members | difference | beyond imputation | imputation, members | s |
|---|---|---|---|---|---|---|---|---|
"""


def read_table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return columns, classes and names of the columns; copies of a record are left out."""
    arrays = np.load(folder / f"{name}.npz", allow_pickle=False)
    x = np.hstack([arrays["X_num"], arrays["X_cat"]]).astype(np.float64)
    rows = np.unique(np.column_stack([x, arrays["y"]]), axis=0)
    _, first_rows = np.unique(rows[:, :-1], axis=0, return_index=True)
    return (
        rows[first_rows, :-1],
        rows[first_rows, -1].astype(int),
        [*arrays["num_names"].tolist(), *arrays["cat_names"].tolist()],
    )


def draw(x: np.ndarray, y: np.ndarray, seed: int) -> list[dv.Records]:
    """Return members, non-members, population, and the records of a null target."""
    rows = np.random.default_rng(seed).permutation(len(y))[:1700]
    return [dv.Records(x[part], y[part]) for part in np.split(rows, [300, 600, 1400])]


def runs(folder: Path, n_null: int) -> Iterator[tuple[str, str, str, bool, Any, float]]:
    """Yield table, attribute, model, whether the target saw the members, the result, and seconds."""
    for table, columns in COLUMNS.items():
        x, y, names = read_table(folder, table)
        for seed in range(1 + n_null):
            *sets, outsiders = draw(x, y, seed)
            data = dict(zip(("members", "nonmembers", "population"), sets, strict=True))
            for model, make in MODELS.items():
                trained_on = sets[0] if seed == 0 else outsiders
                target = make().fit(trained_on.x, trained_on.y)
                for column, tolerance in columns.items():
                    start = time.perf_counter()
                    place = names.index(column)
                    result = dv.attributes.infer(target, **data, column=place, tolerance=tolerance, seed=seed)
                    yield table, column, model, seed == 0, result, time.perf_counter() - start


def format_row(table: str, column: str, model: str, result: Any, seconds: float) -> str:
    """Return one row of the table of leaks."""
    best = max(result.finding.attacks[:-1], key=lambda one: min(one.difference.low, one.gain.low))
    control = result.finding.attacks[-1]

    def share(estimate: Any) -> str:
        return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"

    cells = [result.finding.answer]
    cells += [share(each) for each in (best.members, best.nonmembers, best.difference, best.gain)]
    name = f"{table.replace('_', ' ')}, {column.replace('_', ' ')}"
    return f"| {name} | {model} | {' | '.join(cells)} | {control.members.value:.3f} | {seconds:.1f} |"


def main() -> None:
    """Run everything and write the page after each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--null", type=int, default=2)
    arguments = parser.parse_args()
    folder = Path(os.environ.get("DIVULGE_DATA", ""))
    rows: list[str] = []
    answers: dict[str, list[str]] = {}
    for table, column, model, is_member, result, seconds in runs(folder, arguments.null):
        if is_member:
            rows.append(format_row(table, column, model, result, seconds))
        else:
            answers.setdefault(model, []).append(result.finding.answer)
        lines = [HEAD + "\n".join(rows), "", "## Targets trained on other records", ""]
        if results := [answer for each in answers.values() for answer in each]:
            leaks = results.count("leak found")
            share = statistics.proportion(leaks, len(results))
            lines += [f'"Leak found" in {leaks} of {len(results)} runs ({share}); at most 5 % are to be.']
            lines += ["", "| model | leak found | no leak found | too little data to say | split is confounded |"]
            lines += ["|---|---|---|---|---|"]
            verdict_answers = ("leak found", "no leak found", "too little data to say", "split is confounded")
            lines += [
                f"| {name} | {' | '.join(str(each.count(answer_name)) for answer_name in verdict_answers)} |"
                for name, each in answers.items()
            ]
        (FOLDER / "results" / "attributes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
