"""What quantile regression promises and what it keeps: raw and conformal false-positive rates on Adult.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/quantile_fpr.py [--quick]

A gradient-boosted target is trained on 4,000 census records. Each regressor sees 20,000 others and is
asked for FPR = 1 %. *raw* is the FPR at its own nominal 99 % quantile; *conformal* is the FPR at the
rank of the calibration part; both are measured on 16,000 outsiders, as mean and range over ten draws of
population and outsiders.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import lightgbm
import numpy as np
from scipy import stats

from divulge.attacks import QuantileRegression, Threshold
from divulge.attacks.regressors import Boosted, Marginal, PerClass
from divulge.types import Evidence

FPR = 0.01
MEMBERS = 4000


def load():
    """Features, labels and the target's signal of all records; the first 4,000 are members."""
    with np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz") as data:
        x = np.column_stack([data["X_num"], data["X_cat"]]).astype(np.float64)
        y = data["y"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    settings = {"objective": "binary", "num_leaves": 63, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1}
    target = lightgbm.train(settings, lightgbm.Dataset(x[:MEMBERS], y[:MEMBERS]), num_boost_round=150)
    # The scaled logit of the true class of a binary classifier is its margin.
    return x, y, target.predict(x, raw_score=True) * (2 * y - 1)


def evidence(x, y, signal, population: int, seed: int):
    """Candidates are the members and 16,000 outsiders; population and outsiders are drawn anew a seed."""
    outsiders = MEMBERS + np.random.default_rng(seed).permutation(len(x) - MEMBERS)
    population_rows, rows = outsiders[:population], np.r_[:MEMBERS, outsiders[-16_000:]]
    return Evidence(
        signal[rows],
        features=x[rows],
        labels=y[rows],
        population=signal[population_rows],
        population_features=x[population_rows],
        population_labels=y[population_rows],
    )


def power(scores):
    inside, outside = scores[:MEMBERS], scores[MEMBERS:]
    auc = stats.mannwhitneyu(inside, outside).statistic / (len(inside) * len(outside))
    return auc, (inside > np.quantile(outside, 1 - FPR, method="higher")).mean()


def spread(values):
    return f"{100 * np.mean(values):5.2f} [{100 * np.min(values):5.2f}, {100 * np.max(values):5.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the population, two seeds")
    quick = parser.parse_args().quick
    x, y, signal = load()
    tables = [evidence(x, y, signal, 5_000 if quick else 20_000, seed) for seed in range(2 if quick else 10)]
    print(f"{'':12}{'AUC':>7}{'TPR at 1 %':>12}{'raw FPR, %':>24}{'conformal FPR, %':>24}{'seconds':>9}")
    auc, tpr = np.mean([power(Threshold().score(table)) for table in tables], axis=0)
    print(f"{'(threshold)':12}{auc:7.3f}{tpr:12.4f}")
    for regressor in (Marginal(), PerClass(), Boosted()):
        raw, conformal, powers = [], [], []
        start = time.perf_counter()
        for seed, table in enumerate(tables):
            attack = QuantileRegression(regressor, seed=seed)
            scored = attack.run(table)
            outside, calibration = scored.scores[MEMBERS:], np.sort(scored.calibration)
            rank = int(np.floor(FPR * (len(calibration) + 1)))
            raw.append((outside > attack.nominal_threshold(FPR)).mean())
            conformal.append((outside >= calibration[-rank]).mean())
            powers.append(power(scored.scores))
        seconds = (time.perf_counter() - start) / len(tables)
        auc, tpr = np.mean(powers, axis=0)
        name = type(regressor).__name__
        print(f"{name:12}{auc:7.3f}{tpr:12.4f}{spread(raw):>24}{spread(conformal):>24}{seconds:9.2f}")


if __name__ == "__main__":
    main()
