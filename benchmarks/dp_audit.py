"""Bounds on ε from canaries: how often they are wrong, how much of the truth they prove, and on real training.

    python benchmarks/dp_audit.py games [--runs 2000]     error rates and tightness over simulated games
    python benchmarks/dp_audit.py published               published numbers
    python benchmarks/dp_audit.py peers [--runs 20]       the same scores by jax_privacy and PrivacyGuard
    python benchmarks/dp_audit.py training                DP-SGD on MNIST: ε = 1, 4, 8 and none
    python benchmarks/dp_audit.py worst [--runs 100]      full batches from worst-case initial weights
    python benchmarks/dp_audit.py mistakes [--runs 200]   classic mistakes, and the same loops without

Prints tables in Markdown. ``peers`` prints the columns of those that can be imported. ``training`` and ``worst`` need
the folder DIVULGE_DATA.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from dp_audit_games import EPSILONS, SIZES, games, published
from dp_audit_mistakes import mistakes
from dp_audit_peers import peers

PARTS = {
    "games": lambda runs: games(runs or 2000, arguments.epsilon, arguments.canaries),
    "published": lambda _: published(),
    "peers": lambda runs: peers(runs or 20),
    "training": lambda _: import_module("dp_audit_training").training(),
    "worst": lambda runs: import_module("dp_audit_training").worst(runs or 100),
    "mistakes": lambda runs: mistakes(runs or 200),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS, help="games of these ε only")
    parser.add_argument("--canaries", type=int, nargs="+", default=SIZES, help="games of so many canaries only")
    arguments = parser.parse_args()
    PARTS[arguments.part](arguments.runs)
