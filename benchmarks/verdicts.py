"""How often verdicts and gates are wrong, on scores whose truth is known, and on models that were trained on nothing.

OMP_NUM_THREADS=1 PYTHONPATH=src:tests python benchmarks/verdicts.py [models] [wrong] [kept] [seen] [--runs 1000]
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtri

from divulge.auditing.findings import realised_fpr
from divulge.auditing.gates import gate
from null_models import ANSWERS, INFORMED, audited
from score_audits import SCORE_SHAPES, null, scored, sizes

SIZES = ((1, 1), (1, 1000), (5, 5), (30, 30), (100, 10), (60, 60), (500, 120), (1000, 1000))
MODEL_SIZES = ((30, 30), (100, 10), (200, 20), (200, 200), (1000, 120))
POLICIES = ("auc:0.5", "tpr@fpr=0.1:0.1", "epsilon:0")


def models(runs: int) -> None:
    """Whole audits of models that were trained on nothing, three recipes each; a split may be called confounded."""
    print("\n| answers | members / non-members | leak found | no leak found | too little data | confounded |")
    print("|---|---|---|---|---|---|")
    for m, n in MODEL_SIZES:
        for model_type in ANSWERS | INFORMED:
            answers = [audited(model_type, m, n, seed).verdict.answer for seed in range(runs)]
            print(
                f"| {model_type} | {m:,} / {n:,} | {' | '.join(shares(answers, 'split is confounded'))} |", flush=True
            )


def shares(answers: list[str], *further: str) -> list[str]:
    """How often each of the three answers was given, and further ones."""
    answers_counted = "leak found", "no leak found", "too little data to say", *further
    return [f"{answers.count(answer) / len(answers):.3f}" for answer in answers_counted]


def wrong(runs: int) -> None:
    """Eight recipes that know nothing: shares of audits broken, called a leak, cleared, told of too high an FPR."""
    print("\n| scores | members / non-members | broken | leak found | no leak found | too little data | FPR too high |")
    print("|---|---|---|---|---|---|---|")
    for m, n in SIZES:
        for shape in SCORE_SHAPES:
            rng = np.random.default_rng(m + n)
            broken, alarms, answers = 0, 0, []
            for _ in range(runs):
                audit = null(rng, shape, m, n, 8)
                broken += any(ruling.state == "broken" for ruling in gate(audit, POLICIES))
                outcomes = [audit[name] for name in audit]
                nulls = [
                    realised_fpr(outcome.scores[~outcome.members], outcome.calibration, 0.1, tests=8)
                    for outcome in outcomes
                ]
                alarms += any(null.broken for null in nulls)
                answers.append(audit.verdict.answer)
            cells = [f"{broken / runs:.3f}", *shares(answers), f"{alarms / runs:.3f}"]
            print(f"| {shape} | {m:,} / {n:,} | {' | '.join(cells)} |", flush=True)


def kept(runs: int) -> None:
    """Eight recipes with an AUC of .6 held to .599."""
    print("\n| members / non-members | kept although above the limit |\n|---|---|")
    for m, n in ((60, 60), (300, 300), (1000, 120)):
        rng, members = np.random.default_rng(m + n), sizes(m, n)
        count = 0
        for _ in range(runs):
            scores = rng.normal(size=(8, m + n)) + 2**0.5 * ndtri(0.6) * members
            rulings = gate(scored({f"r{i}": row for i, row in enumerate(scores)}, members), "auc:0.599")
            count += any(ruling.state == "kept" for ruling in rulings)
        print(f"| {m:,} / {n:,} | {count / runs:.3f} |", flush=True)


def seen(runs: int) -> None:
    """One recipe with the AUC that the verdict names, and with .75 where it says that there is too little data."""
    print("\n| members / non-members | AUC | leak found |\n|---|---|---|")
    for m, n in ((5, 5), (20, 20), (30, 30), (40, 40), (60, 60), (500, 60), (60, 500), (1000, 1000)):
        rng, members = np.random.default_rng(m + n), sizes(m, n)
        null_audit = null(rng, "continuous", m, n, 1)
        has_power = null_audit.verdict.answer == "no leak found"
        area = null_audit.summary().smallest_detectable.auc if has_power else 0.75
        draws = rng.normal(size=(runs, m + n)) + 2**0.5 * ndtri(area) * members
        result = sum(scored({"r": row}, members, fpr=(0.1,)).verdict.answer == "leak found" for row in draws)
        print(f"| {m:,} / {n:,} | {area:.3f}{'' if has_power else ' (too little)'} | {result / runs:.3f} |", flush=True)


PARTS = {"models": models, "wrong": wrong, "kept": kept, "seen": seen}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    for part in arguments.parts:
        print(f"\n# `benchmarks/verdicts.py {part} --runs {arguments.runs}`")
        print(f"\n{PARTS[part].__doc__}")
        PARTS[part](arguments.runs)
