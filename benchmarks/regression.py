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
from divulge.references import Custom
from divulge.statistics import intervals

HERE = Path(__file__).parent
RECIPES = ("auto", "loss", "calibrated", "lira", "rmia", "base", "learned", "quantile")
N_REFERENCES = 8
MODELS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestRegressor(100, random_state=seed),
    "forest, leaves of 5": lambda seed: RandomForestRegressor(100, min_samples_leaf=5, random_state=seed),
    "boosting": lambda seed: GradientBoostingRegressor(random_state=seed),
    "ridge": lambda seed: make_pipeline(StandardScaler(), Ridge()),
}
HEAD = """# What regression models give away

`benchmarks/regression.py`: {members} members, {members} non-members, {population} population records, 8 reference
models (diabetes: 120, 120, 202). AUC is the mean over {seeds} draws of records, targets and references, in brackets the
interval of the first draw alone (DeLong, 95 %). R² is that of the first target on its members and on the non-members. A
forest has 100 trees, boosting 100 rounds of depth 3."""


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
        sets = [dv.Records(self.x[part], self.y[part]) for part in parts[: 3 + (n_null > 0)]]
        return dict(zip(("members", "nonmembers", "population"), sets, strict=False)), sets[-1]


def read_tables(folder: Path) -> Iterator[tuple[str, Table]]:
    """Yield the tables by name; copies of a record are left out."""
    diabetes = load_diabetes(return_X_y=True)
    yield "diabetes progression", Table(*diabetes)
    for file, columns in (("adult", ("hours_per_week", "age")), ("bank_marketing", ("balance", "duration"))):
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
    sets, others = table.draw(seed)
    target = fit(make, others if null else sets["members"], seed)
    references = Custom(partial(fit, make), count=N_REFERENCES, engine="serial")
    return dv.audit(target, **sets, recipes=RECIPES, references=references, seed=seed, duplicates="drop", fpr=[0.05])


def main() -> None:
    """Run all audits and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--null", type=int, default=10)
    options = parser.parse_args()
    lines = [HEAD.format(members=300, population=800, seeds=options.seeds), ""]
    lines += [f"| table | model | R² | {' | '.join(RECIPES)} |", "|---|---|---|" + "---|" * len(RECIPES)]
    null_lines, n_alarms, n_null = [], 0, 0
    for name, table in read_tables(Path(os.environ["DIVULGE_DATA"])):
        for model, make in MODELS.items():
            runs = [audit(make, table, seed) for seed in range(options.seeds)]
            fit_of_first = runs[0].about.regression_fit
            cells = []
            for recipe in RECIPES:
                first = runs[0][recipe].auc
                mean = np.mean([run[recipe].auc.value for run in runs])
                cells.append(f"{mean:.3f} [{first.low:.3f}, {first.high:.3f}]")
            r_squared = " / ".join(
                f"{each.value:.2f}" for each in (fit_of_first.r_squared_members, fit_of_first.r_squared_nonmembers)
            )
            lines.append(f"| {name.replace('_', ' ')} | {model} | {r_squared} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
            if len(table.y) <= 2000:
                continue  # too few records for a target trained on others
            null_runs = [audit(make, table, 1000 + seed, null=True) for seed in range(options.null)]
            alarms = sum(run.verdict.tone == "leak" for run in null_runs)
            aucs = [run["auto"].auc.value for run in null_runs]
            n_alarms, n_null = n_alarms + alarms, n_null + len(null_runs)
            null_lines.append(
                f"| {name.replace('_', ' ')} | {model} | {alarms} of {len(null_runs)} | {np.mean(aucs):.3f} |"
            )
            print(null_lines[-1], flush=True)
    share = intervals.proportion(n_alarms, n_null) if n_null else None
    lines += ["", "## Targets trained on other records", ""]
    lines += [f'The verdict was "leak found" in {n_alarms} of {n_null} audits ({share}).', ""] if share else []
    lines += ["| table | model | leak found | mean AUC of auto |", "|---|---|---|---|", *null_lines, ""]
    (HERE / "results" / "regression.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
