"""What forests, boosting and ridge give away where they predict a real value, on real tables, and without a leak.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/regression.py [--seeds 3] [--null 10]

Each audit has 300 members, 300 non-members and 800 population records of a table (of the diabetes data, which has 442
records, 120, 120 and 202), and 8 reference models of the target's kind. Null audits are the same with a target that was
trained on other records. Writes `benchmarks/results/regression.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge import statistics
from divulge.references import Custom
from divulge.results import RegressionFit

FOLDER = Path(__file__).parent
RECIPES = ("auto", "loss", "calibrated", "lira", "rmia", "base", "learned", "quantile-trees")
N_REFERENCES = 8
MODELS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestRegressor(100, random_state=seed),
    "forest, leaves of 5": lambda seed: RandomForestRegressor(100, min_samples_leaf=5, random_state=seed),
    "boosting": lambda seed: GradientBoostingRegressor(random_state=seed),
    "ridge": lambda seed: make_pipeline(StandardScaler(), Ridge()),
}
HEAD = """# What regression models give away

`benchmarks/regression.py`: 300 members, 300 non-members, 800 population records, 8 reference models (diabetes, with
its 442 records: 120, 120, 202). Draws of records, targets and references: {seeds}. AUC is their mean; in brackets
stands the interval of the first draw alone (DeLong, 95 %). R² is that of the first target, on its members / on the
non-members. A forest has 100 trees, boosting 100 rounds of depth 3."""


@dataclass(frozen=True)
class Table:
    """A table whose last word of the name is what is predicted.

    Args:
        x: columns, ``[n, d]``.
        y: real values, ``[n]``.
    """

    x: np.ndarray
    y: np.ndarray

    def draw(self, seed: int) -> tuple[dict[str, dv.Records], dv.Records]:
        """Return the sets of an audit, and as many other records as there are members, to train a null target on."""
        members, population = (300, 800) if len(self.y) > 2000 else (120, 202)
        n_null = members if len(self.y) > 2000 else 0
        rows = np.random.default_rng(seed).permutation(len(self.y))[: 2 * members + population + n_null]
        parts = np.split(rows, np.cumsum([members, members, population]))
        sets = [dv.Records(self.x[part], self.y[part]).with_real_values() for part in parts[: 3 + (n_null > 0)]]
        return dict(zip(("members", "nonmembers", "population"), sets, strict=False)), sets[-1]


def read_tables(folder: Path) -> Iterator[tuple[str, Table]]:
    """Yield the tables by name; copies of a record are left out."""
    diabetes = load_diabetes(return_X_y=True)
    yield "diabetes progression", Table(*diabetes)
    for file, columns in (("adult", ("hours_per_week",)), ("bank_marketing", ("balance", "duration"))):
        arrays = np.load(folder / f"{file}.npz", allow_pickle=False)
        names = arrays["num_names"].tolist()
        table = np.unique(np.hstack([arrays["X_num"], arrays["X_cat"]]).astype(np.float64), axis=0)
        for column in columns:
            place = names.index(column)
            yield f"{file} {column}", Table(np.delete(table, place, axis=1), table[:, place])


def fit(make: Callable[[int], Any], records: dv.Records, seed: int) -> Any:
    """Train a model on records."""
    return make(seed % 2**31).fit(records.x, records.y)


def audit(make: Callable[[int], Any], table: Table, seed: int, *, null: bool = False) -> dv.auditing.Audit:
    """Audit one target; that of a null audit was trained on other records."""
    sets, outsiders = table.draw(seed)
    target = fit(make, outsiders if null else sets["members"], seed)
    references = Custom(partial(fit, make), count=N_REFERENCES, engine="serial")
    return dv.audit(target, **sets, recipes=RECIPES, references=references, seed=seed, duplicates="drop", fpr=[0.05])


def row_of_audits(name: str, model: str, runs: list[dv.auditing.Audit]) -> str:
    """Return a row of the first table: mean AUC of every recipe, with the interval of the first audit."""
    fitted, cells = runs[0].about.measured(RegressionFit), []
    for recipe in RECIPES:
        first_auc, mean = runs[0][recipe].auc, np.mean([run[recipe].auc.value for run in runs])
        cells.append(f"{mean:.3f} [{first_auc.low:.3f}, {first_auc.high:.3f}]")
    r_squared = " / ".join(f"{each.value:.2f}" for each in (fitted.r_squared_members, fitted.r_squared_nonmembers))
    return f"| {name.replace('_', ' ')} | {model} | {r_squared} | {' | '.join(cells)} |"


def write_page(n_seeds: int, rows: list[str], null_rows: list[str], n_alarms: int, n_null: int) -> None:
    """Write what has been measured so far."""
    lines = [HEAD.format(seeds=n_seeds), "", f"| table | model | R² | {' | '.join(RECIPES)} |"]
    lines += ["|---|---|---|" + "---|" * len(RECIPES), *rows, "", "## Targets trained on other records", ""]
    if n_null:
        share = statistics.proportion(n_alarms, n_null)
        lines += [f'The verdict was "leak found" in {n_alarms} of {n_null} audits ({share}).', ""]
    lines += ["| table | model | leak found | mean AUC of auto |", "|---|---|---|---|", *null_rows, ""]
    (FOLDER / "results" / "regression.md").write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    """Run all audits and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--null", type=int, default=10)
    options = parser.parse_args()
    tables = dict(read_tables(Path(os.environ["DIVULGE_DATA"])))
    pairs = [(name, model) for name in tables for model in MODELS]
    rows: list[str] = []
    null_rows: list[str] = []
    n_alarms = n_null = 0
    for name, model in pairs:
        rows.append(row_of_audits(name, model, [audit(MODELS[model], tables[name], s) for s in range(options.seeds)]))
        print(rows[-1], flush=True)
        write_page(options.seeds, rows, null_rows, n_alarms, n_null)
    for name, model in pairs if options.null else ():
        if len(tables[name].y) <= 2000:
            continue  # too few records for a target trained on others
        runs = [audit(MODELS[model], tables[name], 1000 + seed, null=True) for seed in range(options.null)]
        alarms, mean = sum(run.verdict.tone == "leak" for run in runs), np.mean([run["auto"].auc.value for run in runs])
        n_alarms, n_null = n_alarms + alarms, n_null + len(runs)
        null_rows.append(f"| {name.replace('_', ' ')} | {model} | {alarms} of {len(runs)} | {mean:.3f} |")
        print(null_rows[-1], flush=True)
        write_page(options.seeds, rows, null_rows, n_alarms, n_null)


if __name__ == "__main__":
    main()
