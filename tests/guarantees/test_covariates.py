"""Members that differ from non-members beside membership: masked leaks are found, and differences blamed on nobody.

Each test states its chance of failing although all is well; `benchmarks/covariates.py` makes the same at length.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from divulge.auditing.gates import gate
from divulge.evaluation import blind
from divulge.evaluation.covariates import Covariates, adjust, text_covariates
from score_audits import SCORE_SHAPES, scored, sizes, with_covariates

RUNS = 20


def max_wrong(runs, rate=0.05):
    """More than so many of ``runs`` are wrong with probability 0.1 % where 5 % may be."""
    return binom.isf(0.001, runs, rate)


def audit_with_lengths(
    rng, n, m=None, *, longer=0.0, carried=0.9, leak=0.0, recipes=1, uneven=0.0, values=lambda scores: scores
):
    """Scores that fall with length; ``longer`` in standard errors, ``uneven``: those of short documents vary more."""
    m = m or n
    members = sizes(m, n)
    length = rng.normal(size=m + n) + longer * (1 / m + 1 / n) ** 0.5 * members
    residuals = rng.normal(size=(recipes, m + n)) * np.exp(-uneven * length) + leak * members
    scores = values(-carried * length + (1 - carried**2) ** 0.5 * residuals)
    audit = scored({f"r{i}": row for i, row in enumerate(scores)}, members, fpr=(0.05,))
    return with_covariates(audit, Covariates(("length",), np.round(np.exp(6 + 0.5 * length))[:, None]))


def blamed(audits, policy="auc:0.5"):
    """How many audits call a leak or break a gate that an honest model keeps."""
    return sum(
        audit.verdict.answer == "leak found" or any(ruling.state == "broken" for ruling in gate(audit, policy))
        for audit in audits
    )


def test_a_difference_in_length_is_seldom_blamed_on_the_model():
    """8 cells of 7 audits, alone and together: fails by chance in .9 % at the worst. Without adjustment most would."""
    counts = []
    for case, n in (
        ({"longer": 2.5, "carried": 1.0}, 200),
        ({"longer": 6.0, "carried": 0.7}, 200),
        ({"longer": -2.5, "carried": 0.5, "uneven": 0.6}, 200),
        ({"longer": 2.5, "recipes": 4}, 200),
        ({"longer": 2.5, "m": 300}, 60),
        ({"longer": 2.5, "values": np.sign}, 200),
        ({"longer": 2.5}, 12),
        ({"carried": 0.0, "recipes": 4}, 100),
    ):
        rng = np.random.default_rng(n)
        counts.append(blamed(audit_with_lengths(rng, n, **case) for _ in range(7)))
    assert max(counts) <= max_wrong(7), counts
    assert sum(counts) <= max_wrong(7 * len(counts)), counts


def test_a_leak_that_length_masks_is_found_and_never_cleared():
    """Members are longer by as much as hides the leak: its AUC is .5. Found in 93 % and more of simulated audits."""
    n, area, carried = 300, 0.61, 0.9
    rng, leak = np.random.default_rng(n), 2**0.5 * ndtri(area)
    longer = leak * (1 - carried**2) ** 0.5 / carried / (2 / n) ** 0.5
    audits = [audit_with_lengths(rng, n, longer=longer, carried=carried, leak=leak) for _ in range(12)]
    raw = [audit["r0"].auc for audit in audits]
    assert sum(auc.low < 0.5 < auc.high for auc in raw) >= 8
    answers = [audit.verdict.answer for audit in audits]
    assert answers.count("leak found") >= 8
    assert answers.count("no leak found") <= 2
    assert not any(ruling.state == "kept" for audit in audits for ruling in gate(audit, f"auc:{area - 0.05}"))


def audit_with_topics(rng, n, share, *, carried=0.8, leak=0.0):
    """Documents of one of two topics, which moves their scores; ``share`` of the members are of the first."""
    members = sizes(n, n)
    topic = rng.random(2 * n) < np.where(members, share, 0.5)
    is_topic_word, word = rng.random((2 * n, 40)) < 0.25, rng.integers(0, 200, (2 * n, 40))
    word = np.where(is_topic_word, 200 + 50 * topic[:, None] + word % 50, word)
    texts = [" ".join(f"w{each}" for each in row) for row in word]
    scores = carried * (2 * topic - 1) + (1 - carried**2) ** 0.5 * (rng.normal(size=2 * n) + leak * members)
    return with_covariates(scored({"r": scores}, members, fpr=(0.05,)), text_covariates(texts))


def test_a_difference_in_topic_is_seldom_blamed_on_the_model():
    """Fails by chance in .1 % at the worst. Raw scores tell the sets apart in more than half."""
    rng = np.random.default_rng(62)
    audits = [audit_with_topics(rng, 300, 0.62) for _ in range(12)]
    assert blamed(audits) <= max_wrong(12)
    assert sum(audit["r"].auc.low > 0.5 for audit in audits) > 5


def test_a_leak_that_topic_masks_is_found():
    audits = [audit_with_topics(np.random.default_rng(seed), 300, 0.42, leak=0.45) for seed in range(6)]
    assert sum(audit.verdict.answer == "leak found" for audit in audits) >= 4
    assert not any(audit.verdict.answer == "no leak found" and audit["r"].auc.low > 0.5 for audit in audits)


def test_where_nothing_differs_no_leak_is_called():
    rng = np.random.default_rng(7)
    audits = []
    for shape in ("rounded", "two-valued, rate .02", "nine of ten zero"):

        def values(own, draw=SCORE_SHAPES[shape]):
            return draw(rng, own.shape)

        audits += [audit_with_lengths(rng, 80, 80, recipes=3, values=values) for _ in range(8)]
    assert blamed(audits) <= max_wrong(24)


def test_power_does_not_suffer_where_nothing_differs():
    """Of 20 leaks beside an even split, at most five fewer are found than without covariates; a standard error is 2."""
    rng = np.random.default_rng(8)
    n_found = raw = 0
    for _ in range(RUNS):
        audit = audit_with_lengths(rng, 200, carried=0.0, leak=0.4)
        n_found += audit.verdict.answer == "leak found"
        raw += scored(audit.scores, audit.members, fpr=(0.05,)).verdict.answer == "leak found"
    assert n_found >= raw - 5
    assert raw > 0.6 * RUNS


def test_no_verdict_goes_against_the_runs_own_evidence():
    """Neither a clear verdict nor a kept gate stands beside adjusted or raw evidence of more."""
    rng = np.random.default_rng(9)
    for _ in range(RUNS):
        audit = audit_with_lengths(
            rng, 100, longer=rng.uniform(-4, 4), carried=rng.uniform(0, 1), leak=rng.uniform(-0.6, 0.6)
        )
        summary = audit.summary()
        lows = [summary.recipes["r0"].auc, summary.adjusted.recipes["r0"].auc]
        if audit.verdict.answer == "no leak found":
            assert all(low.low <= 0.5 <= low.high for low in lows)
        for ruling in gate(audit, ["auc:0.55", "auc:0.6"]):
            if ruling.state == "kept":
                assert audit["r0"].auc.low <= ruling.limit
                assert ruling.estimate.high <= ruling.limit


def columns(rng, n, k=10):
    return Covariates(tuple(f"column:{i}" for i in range(k)), rng.normal(size=(n, k)))


def test_small_sets_that_are_alike_are_seldom_called_confounded():
    """60 splits at 1 %: fails by chance in .1 %. The normal law alone calls 5 % of those of 12 confounded."""
    members = sizes(12, 12)
    adjustments = [adjust({}, members, columns(np.random.default_rng([12, seed]), 24), seed=seed) for seed in range(60)]
    assert sum(adjustment.confounded for adjustment in adjustments) <= max_wrong(60, 0.01)


def test_equal_records_take_part_once():
    """Groups of 1 to 8 copies are divided whole and fairly. As single records 9 in 10 differ in the covariates with
    p ≤ .05, and more than a quarter are called confounded."""
    alarms = differ = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(120), rng.integers(1, 9, 120))
        members = (rng.permutation(120) < 60)[groups]
        record_columns = columns(rng, 120)[groups]
        adjustment = adjust({"r": rng.normal(size=120)[groups]}, members, record_columns, seed=seed, groups=groups)
        assert (
            len(np.unique(groups[adjustment.is_included]))
            == adjustment.is_included.sum()
            == len(adjustment.scores["r"])
        )
        alarms += adjustment.confounded
        differ += adjustment.p_before <= 0.05
    assert alarms <= max_wrong(20, 0.01)
    assert differ <= max_wrong(20)


def test_a_leak_that_a_named_column_masks_is_confirmed_without_what_the_records_explain():
    """Scores fall with a column that is not in the records, so both are adjusted for it: 9 of 10 such leaks are found,
    and 4 of 10 where the scores less what the records explain are not."""
    n_found = 0
    for seed in range(10):
        rng, members = np.random.default_rng(seed), sizes(300, 300)
        age, x = rng.normal(size=600) + 0.4 * members, rng.normal(size=(600, 4))
        scores = -0.7 * age + 0.4 * x[:, 0] + 0.71 * rng.normal(size=600) + 0.28 * members
        audit = scored({"r": scores}, members, fpr=(0.05,))
        audit = replace(audit, unexplained_scores=blind.adjust_scores(audit.scores, x, None, seed))
        answer = with_covariates(audit, Covariates(("column:age",), age[:, None]), seed=seed).verdict.answer
        n_found += answer == "leak found"
        assert answer != "no leak found" or audit["r"].auc.low <= 0.5
    assert n_found >= 7
