"""Attacks with 1 to 4 reference models, and what `Learned(few=True)` changes.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/few_references.py

Targets, populations and reference models are those of `augmented.py`; two seeds.
"""

from __future__ import annotations

import numpy as np
import torch

import divulge as dv
from augmented import MODELS, SEEDS, Convolutions, evidences, fewer, perceptron
from divulge.attacks import RMIA, BaVarIA, Calibrated, Learned, LiRA, Threshold
from partial_cases import adult, fashion, location

CASES = {
    "Adult": (adult, perceptron, 1000, 60),
    "Fashion-MNIST": (fashion, Convolutions, 1000, 40),
    "Location-30": (location, perceptron, 800, 30),
}
ATTACKS = {
    "LOSS": ("scaled-logit", Threshold()),
    "LiRA": ("scaled-logit", LiRA()),
    "BaVarIA": ("scaled-logit", BaVarIA()),
    "RMIA": ("confidence", RMIA()),
    "learned": ("scaled-logit", Learned()),
    "learned-few": ("scaled-logit", Learned(few=True)),
    "correct": ("correctness", Threshold()),
    "correct-calibrated": ("correctness", Calibrated()),
}


class Alone:
    """No further versions."""

    def of(self, records, seed):
        """None."""
        return ()


def main() -> None:
    torch.set_num_threads(1)
    print(f"| set | references | {' | '.join(ATTACKS)} |\n|---|---:|{'---:|' * len(ATTACKS)}")
    for name, (load, make, n, epochs) in CASES.items():
        made = [evidences(load, make, n, epochs, Alone(), seed, moved=False) for seed in range(SEEDS)]
        for models in MODELS:
            cells = []
            for signal, attack in ATTACKS.values():
                if attack.least_references > models:
                    cells.append("")
                    continue
                rows = []
                for told, member in made:
                    scores = attack.score(fewer(told[signal][0], models))
                    auc = dv.evaluation.auc(scores, member).value
                    rows.append((auc, dv.evaluation.tpr_at_fpr(scores, member, 0.01).value))
                cells.append("{:.3f} / {:.3f}".format(*np.mean(rows, axis=0)))
            print(f"| {name} | {models} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
