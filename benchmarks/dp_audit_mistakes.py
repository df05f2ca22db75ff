"""Classic mistakes of DP-SGD, and the same loops without: which audits flag, by the loops of tests/broken_training."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from broken_training import DELTA, MISTAKES, RIGHT
from dp_audit_games import decided

CANARIES = 250
_SEARCHED = 10  # runs a row whose bound is searched for; of the others it is asked whether the claim is refuted
_SURE = 0.9999  # confidence at which 200 right loops of every kind are flagged with probability .08 at most
BOUND_OPTIONS = ({}, {"confidence": _SURE}, {"family": False})


def mistakes(runs):
    """How many of ``runs`` audits call the claim violated."""
    print(
        f"Logistic regression on 100 records and {CANARIES} canaries that are records, {runs} runs a row, δ = "
        f"{DELTA:g}. The claim is what the accountant says; without a mistake it is exactly true.\n"
    )
    print(f"| loop | claimed ε | median ε ≥, 95 % | flagged, 95 % | flagged, {_SURE:.2%} | flagged, any, 95 % |")
    print("|---|---|---|---|---|---|")
    loops = {f"right: {name}": loop for name, loop in RIGHT.items()} | MISTAKES
    for name, loop in loops.items():
        epsilon = loop.claim.epsilon
        lows = [[loop.bound(CANARIES, seed, **options) for options in BOUND_OPTIONS] for seed in range(_SEARCHED)]
        bound = np.median(np.array(lows)[:, 0])
        with decided(epsilon):
            lows += [
                [loop.bound(CANARIES, seed, **options) for options in BOUND_OPTIONS] for seed in range(_SEARCHED, runs)
            ]
        flags = (np.array(lows) > epsilon + 1e-5).sum(0)
        shares = " | ".join(f"{flag} of {runs}" for flag in flags)
        print(f"| {name} | {loop.claim.epsilon:.2f} | {bound:.2f} | {shares} |", flush=True)
