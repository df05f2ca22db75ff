"""Blind scores: what verdicts and selections do beside the score of a classifier that never saw the model.

    python benchmarks/baselines.py [evaluation|identification] [--runs N]

``evaluation``: share of comparisons that say "leak found" (`divulge.evaluation.against_baseline`), of attacks that are
the blind score plus noise, with and without a real signal. ``identification``: the false discovery rate and the power
at level .1, the share of runs in doubt, and of runs that select something under a guarantee that holds.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

import divulge as dv
from divulge.evaluation import against_baseline
from divulge.identification import realised

SIZES = ((5, 5), (100, 100), (400, 200))


def blind_score(rng, members, shape):
    """The blind score of each record, and the part of it that an attack reads."""
    z = rng.normal(size=len(members))
    sides = rng.choice([-1.2, 1.2], len(members))
    blind_by_shape = {
        "members one sd higher": z + members,
        "the wrong way round": -(z + members),
        "both ends member-like": np.where(members, sides + z, z),
        "rounded": np.round(z + members),
        "two values": (z + members > 1) * 1.0,
        "constant": np.zeros(len(members)),
        "noise": z,
    }[shape]
    read = {
        "the wrong way round": -blind_by_shape,
        "both ends member-like": np.abs(blind_by_shape),
        "noise": 0 * blind_by_shape,
    }
    return blind_by_shape, read.get(shape, blind_by_shape)


SHAPES = (
    "members one sd higher",
    "the wrong way round",
    "both ends member-like",
    "rounded",
    "two values",
    "constant",
    "noise",
)


def evaluation(runs):
    print("| blind score | members, others | attacks | noise | signal | leak | confounded | no leak | too little |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for shape in SHAPES:
        for m, n in SIZES:
            for attacks, noise, signal in ((1, 0.3, 0.0), (4, 1.0, 0.0), (1, 1.0, 1.0)):
                counter = Counter()
                for run in range(runs):
                    rng = np.random.default_rng([run, m, n, attacks])
                    members = np.arange(m + n) < m
                    blind, read = blind_score(rng, members, shape)
                    scores = {
                        f"attack {i}": read + noise * rng.normal(size=m + n) + signal * members for i in range(attacks)
                    }
                    counter[against_baseline(scores, blind, members, seed=run).answer] += 1
                shares = [counter[answer] / runs for answer in ANSWERS]
                print(
                    f"| {shape} | {m}, {n} | {attacks} | {noise:g} | {signal:g} | "
                    + " | ".join(f"{share:.2f}" for share in shares)
                    + " |",
                    flush=True,
                )


ANSWERS = ("leak found", "split is confounded", "no leak found", "too little data to say")

# n, m, share of members; shift of the blind score of non-members, of members; its weight in the score; noise, signal
CELLS = (
    (500, 1000, 0.0, 0.0, 0.0, 1.0, 0.3, 0.0),
    (500, 1000, 0.0, 0.1, 0.0, 1.0, 0.3, 0.0),
    (500, 1000, 0.0, 0.2, 0.0, 1.0, 0.3, 0.0),
    (500, 1000, 0.0, 0.5, 0.0, 1.0, 0.3, 0.0),
    (500, 1000, 0.0, 1.0, 0.0, 1.0, 0.3, 0.0),
    (100, 100, 0.0, 0.3, 0.0, 1.0, 0.3, 0.0),
    (100, 100, 0.0, 1.0, 0.0, 1.0, 0.3, 0.0),
    (20, 30, 0.0, 0.5, 0.0, 1.0, 0.3, 0.0),
    (500, 1000, 0.5, 0.0, 0.0, 0.0, 1.0, 3.0),
    (500, 1000, 0.1, 0.0, 0.0, 0.0, 1.0, 3.0),
    (100, 100, 0.3, 0.0, 0.0, 0.0, 1.0, 3.0),
    (500, 1000, 0.5, 0.0, 0.0, 1.0, 1.0, 3.0),
    (500, 1000, 0.5, 0.0, 1.0, 1.0, 1.0, 3.0),
    (500, 1000, 0.5, 0.5, 1.0, 1.0, 1.0, 3.0),
)


def identification(runs):
    print(
        "| n, m | members | shift of non-members, members | weight, noise, signal | without: FDR, power | "
        "with: FDR, power | in doubt | selects and holds: without | with |"
    )
    print("|---|---:|---|---|---|---|---:|---:|---:|")
    for n, m, share, shift, shift_members, weight, noise, signal in CELLS:
        rows = []
        members = np.arange(m) < round(share * m)
        for run in range(runs):
            rng = np.random.default_rng([run, n, m])
            known_blind = rng.normal(size=n)
            blind = rng.normal(size=m) + np.where(members, shift_members, shift)
            calibration = weight * known_blind + noise * rng.normal(size=n)
            scores = weight * blind + noise * rng.normal(size=m) + signal * members
            row = []
            for options in ({}, {"baseline": blind, "calibration_baseline": known_blind}):
                selection = dv.identify(scores, calibration, fdr=0.1, seed=run, **options)
                row += [each.value for each in realised(selection.selected, members)]
                row += [
                    selection.count > 0 and selection.guarantee.standing == "holds",
                    selection.guarantee.standing != "holds",
                ]
            rows.append(row)
        a, b, c, _, e, f, g, h = np.mean(rows, axis=0)
        print(
            f"| {n}, {m} | {share:g} | {shift:g}, {shift_members:g} | {weight:g}, {noise:g}, {signal:g} | "
            f"{a:.3f}, {b:.3f} | {e:.3f}, {f:.3f} | {h:.2f} | {c:.2f} | {g:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("evaluation", "identification"))
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    for part in (evaluation, identification):
        if arguments.part in (None, part.__name__):
            print(f"\n## {part.__name__}\n")
            part(arguments.runs)
