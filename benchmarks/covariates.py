"""Members that differ from non-members in length or topic: is a leak found, and is a difference blamed on a model?

    OMP_NUM_THREADS=1 PYTHONPATH=src:tests python benchmarks/covariates.py [length] [topic] [plain] [--audits 200]

Numbers alone, no model. Scores depend on a document's length or topic with a correlation of ``carried``, and on
membership by ``leak`` standard deviations of what is left. A split whose words, years or lengths tell the sets apart is
confounded; left out is the blind baseline, which names more. The gate holds ``auc:0.55``.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from divulge import evaluation
from divulge.auditing.gates import gate
from divulge.evaluation.covariates import Covariates, text_covariates
from score_audits import SCORE_SHAPES, compared, scored, sizes, with_covariates

ANSWERS = ("leak found", "no leak found", "split is confounded", "too little data to say")
POLICY = "auc:0.55"
VOCABULARY, WORDS, TOPIC_SHARE = 400, 60, 0.2


def judge(scores, members, texts, covariates_given, seed):
    """Answer and ruling on adjusted scores, and the share of records that took part."""
    audit = with_covariates(scored(scores, members, fpr=(0.05,)), covariates_given, texts=texts, seed=seed)
    part = 1.0 if audit.adjustment is None else float(audit.adjustment.is_included.mean())
    return audit.verdict.answer, worst([ruling.state for ruling in gate(audit, POLICY)]), part


def worst(states: list[str]) -> str:
    """One ruling of several recipes' rulings."""
    return next(state for state in ("broken", "undecided", "kept") if state in states)


def by_length(rng, m, n, longer, carried, leak, recipes=1, uneven=0.0, rounded=None):
    """Scores that fall with the length of documents; ``uneven``: those of short ones vary more."""
    members = sizes(m, n)
    length = rng.normal(size=m + n) + longer * members
    scores = {}
    for i in range(recipes):
        residual = rng.normal(size=m + n) * np.exp(-uneven * length) + leak * members
        row_scores = -carried * length + np.sqrt(1 - carried**2) * residual
        scores[f"r{i}"] = row_scores if rounded is None else rounded(row_scores)
    covariates_given = Covariates(("length",), np.log1p(np.round(np.exp(6 + 0.5 * length)))[:, None])
    return scores, members, compared(members, covariates_given.values[:, 0]), covariates_given


def by_topic(rng, m, n, share, carried, leak, recipes=1):
    """Scores that depend on which of two topics a document is of; ``share`` of the members are of the first."""
    members = sizes(m, n)
    topic = rng.random(m + n) < np.where(members, share, 0.5)
    words = rng.integers(0, VOCABULARY, (m + n, WORDS))
    is_topic_word = rng.random((m + n, WORDS)) < TOPIC_SHARE
    words = np.where(is_topic_word, VOCABULARY + 100 * topic[:, None] + rng.integers(0, 100, (m + n, WORDS)), words)
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    level = (topic - 0.5) * 2 * carried
    scores = {
        f"r{i}": level + np.sqrt(1 - carried**2) * (rng.normal(size=m + n) + leak * members) for i in range(recipes)
    }
    signs = tuple(map(str, evaluation.text_differences(texts[:m], texts[m:], seed=0)))
    length = np.array([float(len(text)) for text in texts])
    return scores, members, compared(members, length, signs), text_covariates(texts)


def shift_for_auc(area: float) -> float:
    """Standard deviations between two normal distributions with this AUC."""
    return float(2**0.5 * ndtri(area))


def masking(area: float, carried: float) -> float:
    """By how much longer members must be for a leak of this AUC to vanish."""
    return shift_for_auc(area) * float(np.sqrt(1 - carried**2)) / carried


def two_valued(scores):
    """The larger half."""
    return (scores > np.median(scores)) * 1.0


def coarse(scores):
    """Five values."""
    return np.floor((rankdata(scores) - 0.5) / len(scores) * 5)


LENGTH = {
    "masked leak, AUC .61": (by_length, (300, 300, masking(0.61, 0.9), 0.9, shift_for_auc(0.61))),
    "masked leak, AUC .59": (by_length, (1000, 1000, masking(0.59, 0.95), 0.95, shift_for_auc(0.59))),
    "masked leak, AUC .57": (by_length, (2000, 2000, masking(0.57, 0.95), 0.95, shift_for_auc(0.57))),
    **{
        f"honest, {n} a side, longer by {z:g} SE": (by_length, (n, n, z * (2 / n) ** 0.5, 0.9, 0.0))
        for n in (300, 1000)
        for z in (0, 1, 2, 3)
    },
    "honest, 4 recipes, longer by 2 SE": (by_length, (300, 300, 2 * (2 / 300) ** 0.5, 0.9, 0.0, 4)),
    "honest, short ones vary more, longer by 2 SE": (by_length, (300, 300, 2 * (2 / 300) ** 0.5, 0.5, 0.0, 1, 0.6)),
    "honest, two-valued, longer by 2 SE": (by_length, (300, 300, 2 * (2 / 300) ** 0.5, 0.9, 0.0, 1, 0.0, two_valued)),
    "honest, five values, longer by 2 SE": (by_length, (300, 300, 2 * (2 / 300) ** 0.5, 0.9, 0.0, 1, 0.0, coarse)),
    "honest, 100 members, longer by 2 SE": (by_length, (100, 2000, 2 * (0.01 + 1 / 2000) ** 0.5, 0.9, 0.0)),
    "honest, 2000 members, longer by 2 SE": (by_length, (2000, 100, 2 * (0.01 + 1 / 2000) ** 0.5, 0.9, 0.0)),
}
PLAIN = {
    **{
        f"nothing differs, {kind}": (by_length, (300, 300, 0.0, 0.0, 0.0, 4, 0.0, lambda own, k=kind: tied(own, k)))
        for kind in SCORE_SHAPES
    },
    **{f"nothing differs, {n} a side": (by_length, (n, n, 0.0, 0.5, 0.0, 4)) for n in (5, 10, 20, 50, 100)},
    **{
        f"leak, AUC {area:g}, correlation {carried:g}": (by_length, (300, 300, 0.0, carried, shift_for_auc(area)))
        for carried, area in ((0.0, 0.57), (0.0, 0.59), (0.3, 0.58), (0.7, 0.58), (0.9, 0.58))
    },
    "leak, AUC .59, two-valued": (by_length, (300, 300, 0.0, 0.0, shift_for_auc(0.59), 1, 0.0, two_valued)),
    "leak, AUC .60, 100 members": (by_length, (100, 2000, 0.0, 0.0, shift_for_auc(0.6))),
}
TOPIC = {
    **{
        f"honest, {n} a side, topic share {share:g}": (by_topic, (n, n, share, 0.8, 0.0))
        for n in (300, 1000)
        for share in (0.5, 0.53, 0.56, 0.6)
    },
    "masked leak, AUC .60, topic share .45": (by_topic, (500, 500, 0.45, 0.8, shift_for_auc(0.6))),
    "leak, AUC .59, topic share .50": (by_topic, (300, 300, 0.5, 0.0, shift_for_auc(0.59))),
}
PARTS = {"length": LENGTH, "topic": TOPIC, "plain": PLAIN}


def tied(scores, shape):
    """Scores that know nothing of length or membership, of one kind."""
    return SCORE_SHAPES[shape](np.random.default_rng(int(abs(scores[0]) * 1e9)), scores.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--only", default="", help="cells whose names contain this")
    arguments = parser.parse_args()
    for part in arguments.parts:
        only = f' --only "{arguments.only}"' if arguments.only else ""
        print(f"\n# `benchmarks/covariates.py {part} --audits {arguments.audits}{only}`\n")
        outcomes = "leak", "none", "confounded", "gate kept", "broken"
        print(f"| {part} | members / non-members | {' | '.join(outcomes)} | took part |")
        print(f"|---|---:|{'---:|' * (len(outcomes) + 1)}")
        for name, (draw, cell) in PARTS[part].items():
            if arguments.only not in name:
                continue
            rng = np.random.default_rng(29)
            answered, parts = [], []
            for seed in range(arguments.audits):
                scores, members, texts, covariates_given = draw(rng, *cell)
                *answers, took = judge(scores, members, texts, covariates_given, seed)
                answered.append(tuple(answers))
                parts.append(took)
            cells = [
                f"{np.mean([pair_of_answers[position] == outcome for pair_of_answers in answered]):.1%}"
                for position, outcome in ((0, ANSWERS[0]), (0, ANSWERS[1]), (0, ANSWERS[2]), (1, "kept"), (1, "broken"))
            ]
            print(f"| {name} | {cell[0]:,} / {cell[1]:,} | {' | '.join(cells)} | {np.mean(parts):.0%} |", flush=True)


if __name__ == "__main__":
    main()
