"""ML Privacy Meter: run with a Python that has its needs, and its source tree in PYTHONPATH."""

from __future__ import annotations

import numpy as np
from modules.mia.attacks.rmia import run_rmia
from protocol import Said, probability, serve

from audit import compute_abstain_attack_results, compute_attack_results

COMMIT = "commit e384af8 (2025-04-26)"


def _rmia(arrays):
    return run_rmia(
        probability(arrays.target),
        np.ascontiguousarray(probability(arrays.references).T),
        np.ascontiguousarray(arrays.trained_on.T),
        probability(arrays.population),
        np.ascontiguousarray(probability(arrays.population_references).T),
        0.3,
    )


def _said(scores, members):
    done = compute_attack_results(scores, members)
    bound = compute_abstain_attack_results(scores, members.astype(int))["eps_opt"]
    return {
        "AUC (no interval)": Said(done["auc"]),
        "TPR at FPR 1 % (no interval)": Said(done["one_fpr"]),
        "ε, one run, best of all numbers of guesses": Said(bound, bound > 1e-3),
    }


if __name__ == "__main__":
    serve(COMMIT, {"RMIA offline": _rmia}, _said, runs=10)
