"""SACRO-ML (sacroml): run with its own Python. Its LiRA trains its models itself; we hand its scoring our arrays."""

from __future__ import annotations

import tempfile

import numpy as np
from protocol import Said, probability, serve
from sacroml import metrics
from sacroml.attacks.likelihood_attack import LIRAAttack


def _lira(mode, **how):
    def attack(arrays):
        with tempfile.TemporaryDirectory() as folder:
            lira = LIRAAttack(output_dir=folder, mode=mode, write_report=False, **how)
            chance = probability(arrays.target)
            sides = [
                {i: arrays.references[side[:, i], i].tolist() for i in range(len(chance))}
                for side in (~arrays.trained_on, arrays.trained_on)
            ]
            ones = np.ones(len(chance), int)
            scores, _ = lira._compute_scores(ones, np.stack([1 - chance, chance], 1), *sides)
            return np.array(scores)[:, 1]

    return attack


def _metrics(scores, members):
    """In the order that it makes itself: members first. Its scores are probabilities."""
    order = np.argsort(~members, kind="stable")
    chance = probability(scores[order])
    return metrics.get_metrics(np.stack([1 - chance, chance], 1), members[order].astype(int))


def _said(scores, members):
    done = _metrics(scores, members)
    return {
        "AUC, “significant at p=0.05”": Said(done["AUC"], done["P_HIGHER_AUC"] <= 0.05),
        "FDIF01, “significant at p=0.05”": Said(done["FDIF01"], np.exp(-done["PDIF01"]) <= 0.05),
        "TPR@0.1% (no interval)": Said(float(done["TPR@0.1%"])),
    }


ATTACKS = {
    "LiRA offline": _lira("offline"),
    "LiRA online": _lira("online-carlini"),
}

if __name__ == "__main__":
    serve("sacroml", ATTACKS, _said)
