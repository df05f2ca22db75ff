"""The learned score with more signals of a record: does it gain from the hinge, the entropy and the top-two gap?

    OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/learned_views.py FOLDER

Reads what `membership.py` kept in FOLDER. Lessons are those of `Learned(few=True)`, offline, on known classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn import linear_model, pipeline, preprocessing

import divulge as dv
from divulge import store
from divulge.attacks.reference_moments import equal_counts
from membership import SIGNALS, SIZES

FEW = ("scaled-logit", "negative-loss")
MORE = (*FEW, "hinge", "modified-entropy", "top-two-gap")

Signals = dict[str, np.ndarray]


def views(own: Signals, others: Signals, drawn: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Each signal and its mean over the models drawn; the logarithm of their mean probability."""
    means = {name: (values * drawn).sum(axis=0) / drawn.sum(axis=0) for name, values in others.items()}
    columns = [part for name in names for part in (own[name], means[name])]
    return np.stack([*columns, np.log(np.maximum(means["confidence"], 1e-30))], axis=1)


def measured(folder: Path, key: str, seed: int, budget: int, names: Sequence[str]) -> np.ndarray:
    """AUC and TPR at 1 %."""
    target = store.read_arrays(folder / f"{key}-{seed}-target.npz")
    kept = store.read_arrays(folder / f"{key}-{seed}-out.npz")
    size, inside = SIZES[key], kept["trained_on"][:budget]
    references = {name: kept["signals"][:budget, :, i].astype(float) for i, name in enumerate(SIGNALS)}
    free = np.arange(inside.shape[1])[-size.population + size.population // 5 :]
    rows, truth = [], []
    for model in range(budget):
        others = {
            name: np.vstack([np.delete(values[:, free], model, axis=0), target[name][free]])
            for name, values in references.items()
        }
        held = inside[model, free]
        out = np.vstack([np.delete(~inside[:, free], model, axis=0), np.ones_like(held)])
        drawn, full = equal_counts(out, held, np.random.default_rng(model))
        own = {name: values[model, free] for name, values in references.items()}
        with np.errstate(invalid="ignore"):
            rows.append(views(own, others, drawn, names)[full])
        truth.append(held[full])
    fitted = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=1000))
    fitted.fit(np.concatenate(rows), np.concatenate(truth))
    asked = slice(0, size.members + size.outsiders)
    own = {name: target[name][asked] for name in SIGNALS}
    others = {name: values[:, asked] for name, values in references.items()}
    scores = fitted.decision_function(views(own, others, ~inside[:, asked], names))
    member = np.arange(len(scores)) < size.members
    return np.array([dv.evaluation.auc(scores, member).value, dv.evaluation.tpr_at_fpr(scores, member, 0.01).value])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print("| set | references | more views: AUC | TPR at 1 % |\n|---|---:|---:|---:|")
    gains = []
    for key in SIZES:
        for budget in (1, 2, 4, 8):
            pairs = [[measured(folder, key, seed, budget, names) for names in (FEW, MORE)] for seed in range(3)]
            gains.append(np.array([more - few for few, more in pairs]))
            auc, tpr = gains[-1].mean(axis=0)
            print(f"| {key} | {budget} | {auc:+.3f} | {tpr:+.3f} |", flush=True)
    runs = np.stack(gains).reshape(len(SIZES), 4, 3, 2).mean(axis=1).reshape(-1, 2)
    half = stats.t.ppf(0.975, len(runs) - 1) * runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    print(f"\nMean, ± Student's over {len(runs)} runs: {runs.mean(axis=0).round(4)} ± {half.round(4)}")


if __name__ == "__main__":
    main()
