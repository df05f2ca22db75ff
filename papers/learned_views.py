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

TWO_VIEWS = ("scaled-logit", "negative-loss")
FIVE_VIEWS = (*TWO_VIEWS, "hinge", "modified-entropy", "top-two-gap")

Signals = dict[str, np.ndarray]


def views(target_signals: Signals, reference_signals: Signals, chosen: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Each signal and its mean over the models drawn; the logarithm of their mean probability."""
    means = {name: (values * chosen).sum(axis=0) / chosen.sum(axis=0) for name, values in reference_signals.items()}
    columns = [part for name in names for part in (target_signals[name], means[name])]
    return np.stack([*columns, np.log(np.maximum(means["confidence"], 1e-30))], axis=1)


def measured(folder: Path, key: str, seed: int, budget: int, names: Sequence[str]) -> np.ndarray:
    """AUC and TPR at 1 %."""
    target = store.read_arrays(folder / f"{key}-{seed}-target.npz")
    stored = store.read_arrays(folder / f"{key}-{seed}-out.npz")
    size, inside = SIZES[key], stored["trained_on"][:budget]
    references = {name: stored["signals"][:budget, :, i].astype(float) for i, name in enumerate(SIGNALS)}
    free = np.arange(inside.shape[1])[-size.population + size.population // 5 :]
    rows, truth = [], []
    for model in range(budget):
        reference_signals = {
            name: np.vstack([np.delete(values[:, free], model, axis=0), target[name][free]])
            for name, values in references.items()
        }
        is_member = inside[model, free]
        out = np.vstack([np.delete(~inside[:, free], model, axis=0), np.ones_like(is_member)])
        chosen, full = equal_counts(out, is_member, np.random.default_rng(model))
        target_signals = {name: values[model, free] for name, values in references.items()}
        with np.errstate(invalid="ignore"):
            rows.append(views(target_signals, reference_signals, chosen, names)[full])
        truth.append(is_member[full])
    fitted = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=1000))
    fitted.fit(np.concatenate(rows), np.concatenate(truth))
    candidates = slice(0, size.members + size.outsiders)
    target_signals = {name: target[name][candidates] for name in SIGNALS}
    reference_signals = {name: values[:, candidates] for name, values in references.items()}
    scores = fitted.decision_function(views(target_signals, reference_signals, ~inside[:, candidates], names))
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
            pairs = [
                [measured(folder, key, seed, budget, names) for names in (TWO_VIEWS, FIVE_VIEWS)] for seed in range(3)
            ]
            gains.append(np.array([five_views - two_views for two_views, five_views in pairs]))
            auc, tpr = gains[-1].mean(axis=0)
            print(f"| {key} | {budget} | {auc:+.3f} | {tpr:+.3f} |", flush=True)
    runs = np.stack(gains).reshape(len(SIZES), 4, 3, 2).mean(axis=1).reshape(-1, 2)
    half = stats.t.ppf(0.975, len(runs) - 1) * runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    print(f"\nMean, ± Student's over {len(runs)} runs: {runs.mean(axis=0).round(4)} ± {half.round(4)}")


if __name__ == "__main__":
    main()
