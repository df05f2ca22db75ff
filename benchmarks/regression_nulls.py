"""How often a regression model that was trained on other records is said to leak, over many kinds of values.

    PYTHONPATH=src python benchmarks/regression_nulls.py [--first 0] [--count 60]

Each audit has its own draw of records, kind of values, kind of model and size; recipes are `auto` and `loss`, with 4
reference models of the target's kind. Writes `benchmarks/results/regression_nulls.md`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.datasets import make_friedman1, make_friedman2, make_regression
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import HuberRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge import statistics
from divulge.references import Train

PAGE = Path(__file__).parent / "results" / "regression_nulls.md"
SIZES = (60, 150, 300)
MODELS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestRegressor(30, random_state=seed),
    "boosting": lambda seed: GradientBoostingRegressor(n_estimators=40, random_state=seed),
    "ridge": lambda seed: make_pipeline(StandardScaler(), Ridge()),
    "LightGBM": lambda seed: lightgbm.LGBMRegressor(
        n_estimators=30, min_child_samples=2, verbose=-1, n_jobs=1, random_state=seed
    ),
    "Huber": lambda seed: HuberRegressor(max_iter=200),
}


def draw_tables(rng: np.random.Generator, n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return columns and values of every kind."""
    seed = int(rng.integers(2**31))
    x, y = make_friedman1(n, random_state=seed, noise=1.0)
    physical = make_friedman2(n, random_state=seed, noise=50.0)
    linear, values = make_regression(n, 8, noise=20, random_state=seed)
    outliers = values.copy()
    outliers[rng.random(n) < 0.05] *= 50
    return {
        "Friedman 1": (x, y),
        "Friedman 2": physical,
        "outliers": (linear, outliers),
        "tails of t with 2 degrees": (x, y + rng.standard_t(2, n) * 5),
        "Cauchy": (x, rng.standard_cauchy(n)),
        "counts": (x, rng.poisson(np.exp(y / 10))),
        "few values": (x, np.round(y / 6)),
        "times 1e9": (x, y * 1e9),
        "lognormal": (x, np.exp(y / 4)),
        "four fifths zero": (x, np.where(rng.random(n) < 0.8, 0.0, y)),
        "noise": (x, rng.normal(size=n)),
        "rounded columns": (np.round(x * 2), np.round(y)),
    }


def audit(seed: int) -> tuple[str, str, int, dv.auditing.Audit]:
    """Audit a target that was trained on other records; return kind of values, model, members and result."""
    rng, n = np.random.default_rng(seed), SIZES[seed % 3]
    value_types = list(draw_tables(np.random.default_rng(0), 20))
    value_type, model = value_types[seed % len(value_types)], list(MODELS)[seed % len(MODELS)]
    x, y = draw_tables(rng, 5 * n)[value_type]
    x = x + rng.normal(size=x.shape) * 1e-9 if value_type != "rounded columns" else x
    members, nonmembers, population, other_rows = np.split(np.arange(5 * n), [n, 2 * n, 4 * n])
    sets = {
        name: dv.Records(x[rows], np.asarray(y, float)[rows]).with_real_values()
        for name, rows in (("members", members), ("nonmembers", nonmembers), ("population", population))
    }
    target = MODELS[model](seed).fit(x[other_rows], y[other_rows])
    references = Train(count=4, engine="serial")
    options = {"seed": seed, "duplicates": "drop", "fpr": [0.05], "task": "regression"}
    return value_type, model, n, dv.audit(target, **sets, recipes=["auto", "loss"], references=references, **options)


def main() -> None:
    """Run all audits and write the page."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    rows: list[str] = []
    n_leaks = 0
    for seed in range(options.first, options.first + options.count):
        value_type, model, n, result = audit(seed)
        n_leaks += result.verdict.answer == "leak found"
        scores = " | ".join(f"{result[name].auc.value:.3f}" for name in ("auto", "loss"))
        rows.append(f"| {seed} | {value_type} | {model} | {n} | {scores} | {result.verdict.answer} |")
        print(rows[-1], flush=True)
    share = statistics.proportion(n_leaks, options.count)
    description = f'"Leak found" was said in {n_leaks} of {options.count} audits ({share}); at most 5 % are promised.'
    head = [
        "# Regression models that were trained on other records",
        "",
        f"`benchmarks/regression_nulls.py`. {description}",
        "",
    ]
    table = ["| draw | values | model | members | AUC of auto | of loss | answer |", "|---|---|---|---|---|---|---|"]
    PAGE.write_text("\n".join([*head, *table, *rows, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
