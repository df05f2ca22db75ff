"""LiRA and RMIA on random forests, whose probabilities are often exactly 0 or 1, through `divulge.audit`.

    DIVULGE_DATA=… PYTHONPATH=src:benchmarks python papers/membership_forest.py [--seeds 5]

Breast cancer (569 records, 30 columns, 2 classes; comes with scikit-learn) and satimage (36 columns, 6 classes). 100
trees each; 16 reference forests. Student's intervals over seeds, each with its own records, target and references.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import divulge as dv
from data_sets import DATA_SETS
from divulge import references
from membership_tables import clipped, over_seeds, short


def satimage() -> tuple[np.ndarray, np.ndarray]:
    """The first 2,000 records in a random order."""
    data = DATA_SETS["satimage"]()
    rows = np.random.default_rng(0).permutation(len(data.x))[:2000]
    return data.x[rows], data.y[rows]


TABLES = {"breast cancer": (lambda: load_breast_cancer(return_X_y=True), 150), "satimage": (satimage, 400)}
RECIPES = ("loss", "lira", "bavaria", "rmia", "learned", "auto")


def forest(records: dv.Records, seed: int) -> RandomForestClassifier:
    """The target and every reference."""
    return RandomForestClassifier(100, random_state=seed).fit(records.x, records.y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    logging.disable()
    print("| table | members | recipe | AUC | TPR at 1 % | TPR at 5 % |\n|---|---:|---|---|---|---|")
    for name, (load, n) in TABLES.items():
        x, y = load()
        estimates: dict[str, list[list[dv.Estimate]]] = {}
        for seed in range(arguments.seeds):
            order = np.random.default_rng(seed).permutation(len(x))
            records = dv.Records(x[order], y[order])
            members, nonmembers, beyond = records[:n], records[n : 2 * n], records[2 * n :]
            result = dv.audit(
                forest(members, 1000 + seed),
                members=members,
                nonmembers=nonmembers,
                population=beyond,
                references=references.Custom(forest, count=16, engine="serial"),
                recipes=RECIPES,
                fpr=(0.1,),
                seed=seed,
            )
            member = np.asarray(result.members)
            for recipe in RECIPES:
                scores = result.scores[recipe]
                statistics_named = ("auc", "tpr@fpr=0.01", "tpr@fpr=0.05")
                estimates.setdefault(recipe, []).append(
                    [dv.evaluation.measure(scores, member, s) for s in statistics_named]
                )
        for recipe, runs in estimates.items():
            cells = " | ".join(short(clipped(over_seeds(column))) for column in zip(*runs, strict=True))
            print(f"| {name} | {n} | {recipe} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
