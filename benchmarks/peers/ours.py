"""Divulge, asked like the others; run with its own Python, with ``src`` and ``tests`` in PYTHONPATH."""

from __future__ import annotations

import numpy as np
from protocol import Said, probability, serve

from divulge.attacks import RMIA, LiRA
from divulge.evaluation import auc, epsilon_lower_bound, epsilon_one_run, tpr_at_fpr
from divulge.evidence import Evidence
from score_audits import scored


def _lira(**how):
    def attack(arrays):
        return LiRA(**how).score(Evidence(arrays.target, arrays.references, arrays.trained_on))

    return attack


def _rmia(**how):
    def attack(arrays):
        evidence = Evidence(
            probability(arrays.target),
            probability(arrays.references),
            arrays.trained_on,
            population=probability(arrays.population),
            population_references=probability(arrays.population_references),
        )
        return RMIA(**how).score(evidence)

    return attack


def _low(estimate, truth):
    return Said(estimate.low, estimate.low > truth)


def _verdict(scores, members):
    answer = scored({"r": scores}, members, fpr=(0.1,)).verdict.answer
    return Said(float(answer == "too little data to say"), answer == "leak found")


def _said(scores, members):
    return {
        "verdict of an audit (value: “too little data to say”)": _verdict(scores, members),
        "AUC, lower end": _low(auc(scores, members), 0.5),
        "TPR at FPR 1 %, lower end": _low(tpr_at_fpr(scores, members, 0.01), 0.01),
        "ε, many runs": _low(epsilon_lower_bound(scores, members, 1e-5), 0),
        "ε, one run": _low(epsilon_one_run(scores, members, 1e-5), 0),
    }


ATTACKS = {
    "LiRA offline": _lira(mode="offline", variance="per_record"),
    "LiRA offline, one variance": _lira(mode="offline", variance="global"),
    "LiRA online": _lira(mode="online", variance="per_record"),
    "LiRA online, one variance": _lira(mode="online", variance="global"),
    "RMIA offline": _rmia(),
    "RMIA online": _rmia(offline_a=None),
}


if __name__ == "__main__":
    np.seterr(over="ignore")
    serve("divulge", ATTACKS, _said, runs=30)
