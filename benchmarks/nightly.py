"""How often nightly audits raise a false alarm: gates of several limits, and comparisons with the night before.

OMP_NUM_THREADS=1 PYTHONPATH=src:tests python benchmarks/nightly.py [limits] [changes] [--nights 1200]
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from divulge import evaluation
from divulge.auditing.gates import gate
from score_audits import scored, sizes

RECORDS = 1000  # members, and as many non-members
LEAK = 0.2  # by how many standard deviations members score higher
AT_THE_LIMIT = {
    "auc": ndtr(LEAK / np.sqrt(2)),
    "tpr@fpr=0.05": ndtr(LEAK + ndtri(0.05)),
    "advantage": 2 * ndtr(LEAK / 2) - 1,
    "tpr@fpr=0.01": ndtr(LEAK + ndtri(0.01)),
}
"""What a model that leaks so much has in truth: limits that it keeps, and exceeds in every second estimate."""
USUAL = {"auc": 0.6, "tpr@fpr=0.05": 0.15, "advantage": 0.2, "tpr@fpr=0.01": 0.1}
CASES = ((1, 1), (2, 1), (4, 1), (1, 4), (2, 4), (4, 4))  # limits, recipes
NIGHTS_A_MONTH = 30
CONFIDENCE = 0.95


def limits(nights: int) -> None:
    """Print how gates answer of a model exactly at its limits, and of one that leaks nothing."""
    print("\n| the model | records of each kind | limits | recipes | broken | undecided | kept | broken in 30 nights |")
    print("|---|---|---|---|---|---|---|---|")
    for n_limits, n_recipes in CASES:
        _print_row("exactly at every limit", RECORDS, LEAK, AT_THE_LIMIT, n_limits, n_recipes, nights)
    for n_records in (200, 500, 1000, 2000):
        for n_limits, n_recipes in ((1, 1), (4, 4)):
            _print_row("leaks nothing", n_records, 0.0, USUAL, n_limits, n_recipes, nights // 4)


def _print_row(
    words: str, n: int, leak: float, policy: dict[str, float], n_limits: int, n_recipes: int, nights: int
) -> None:
    """Print how often the gate of a night answers each way; records and scores are drawn anew each night."""
    rng, members = np.random.default_rng([n, n_limits, n_recipes]), sizes(n, n)
    texts = [f"{metric}:{limit:.12f}" for metric, limit in list(policy.items())[:n_limits]]
    states = [
        gate(scored({f"r{i}": rng.normal(size=2 * n) + leak * members for i in range(n_recipes)}, members), texts).state
        for _ in range(nights)
    ]
    shares = {state: states.count(state) / nights for state in ("broken", "undecided", "kept")}
    month = 1 - (1 - shares["broken"]) ** NIGHTS_A_MONTH
    cells = " | ".join(f"{share:.3f}" for share in shares.values())
    print(f"| {words} | {n:,} | {n_limits} | {n_recipes} | {cells} | {month:.2f} |", flush=True)


def changes(nights: int) -> None:
    """Print how often a night differs from the one before, of models trained alike and of one and the same model."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    inside, outside = order[:500], order[500:1000]
    members = sizes(500, 500)
    records, classes = np.concatenate([x[inside], x[outside]]), np.concatenate([y[inside], y[outside]])

    def train(seed: int) -> np.ndarray:
        forest = RandomForestClassifier(100, max_depth=8, random_state=seed).fit(x[inside], y[inside])
        return np.log(forest.predict_proba(records)[np.arange(len(classes)), classes] + 1e-6)

    scores = [train(seed) for seed in range(nights)]
    areas = [evaluation.auc(each, members).value for each in scores]
    pairs = list(itertools.pairwise(scores))
    differences = [evaluation.paired_difference(after, before, members, "auc", CONFIDENCE) for before, after in pairs]
    alarms = np.mean([not each.low <= 0 <= each.high for each in differences])
    print(
        f"\nForests trained anew on the same records: {alarms:.3f} of {len(pairs)} nights differ from the one before."
    )
    print(f"AUC of each night: mean {np.mean(areas):.4f}, standard deviation {np.std(areas):.4f}.")
    rng, resampled = np.random.default_rng(1), []
    for _ in range(nights):  # one model whose outputs carry noise: the truth is equal, and the records are drawn anew
        shared = rng.normal(size=2 * RECORDS) + LEAK * sizes(RECORDS, RECORDS)
        before, after = (shared + 0.3 * rng.normal(size=2 * RECORDS) for _ in range(2))
        change = evaluation.paired_difference(after, before, sizes(RECORDS, RECORDS), "auc", CONFIDENCE)
        resampled.append(not change.low <= 0 <= change.high)
    print(f"Two models with the same AUC in truth, records drawn anew: {np.mean(resampled):.3f} of {nights} nights.")


PARTS = {"limits": limits, "changes": changes}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--nights", type=int, default=1200)
    arguments = parser.parse_args()
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.nights)
