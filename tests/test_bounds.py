"""Documented bounds of arguments: accepted at the bound or inside it, refused beyond it by the argument's name."""

import math

import numpy as np
import pytest

from divulge import InputError, canaries, completion, evaluation, labels, settings
from divulge.decisions import controls, fdr, planning, usage
from divulge.decisions.counts import Counts
from divulge.extraction.completions import Cut
from divulge.margin.membership import least_margin
from divulge.regressors.bodies import TextBag
from divulge.statistics import text_differences

SCORES, MEMBERS = np.r_[np.arange(200.0), np.arange(200.0) + 20], np.arange(400) >= 200
COUNTS = Counts.empty(range(100)).add([*range(0, 100, 2), *range(200, 250)])
SETTING = planning.Setting(50, 20, 0.9)
OLD, NEW = [f"the king of {i}" for i in range(40)], [f"a tweet of {i}" for i in range(40)]
OPEN = ([0.5], [-0.5, 0.0, 1.0, 1.5, math.nan])
CASES = {
    "planning.power fdr": ("fdr", lambda v: planning.power(20, SETTING, fdr=v), *OPEN),
    "planning.power n": ("n", lambda v: planning.power(v, SETTING), [1], [0, 10**7 + 1]),
    "usage.share": ("confidence", lambda v: usage.share(COUNTS, confidence=v), *OPEN),
    "usage.mixture": ("confidence", lambda v: usage.mixture(COUNTS, range(200, 250), confidence=v), *OPEN),
    "sensitivity": ("fdr", lambda v: fdr.sensitivity_by_rank(COUNTS, fdr=v, method="bh"), *OPEN),
    "telling": ("false_alarm", lambda v: text_differences(OLD, NEW, false_alarm=v), *OPEN),
    "smallest_detectable fpr": ("fpr", lambda v: evaluation.smallest_detectable(500, 500, v), *OPEN),
    "smallest_detectable power": ("power", lambda v: evaluation.smallest_detectable(500, 500, 0.1, power=v), *OPEN),
    "smallest_violation canaries": ("canaries", lambda v: evaluation.smallest_violation(v, 1.0, 1e-5), [1, 500], [0]),
    "smallest_violation claimed": (
        "claimed",
        lambda v: evaluation.smallest_violation(500, v, 1e-5),
        [0.0, 1.0],
        [-0.1, 64.5],
    ),
    "violation delta": ("delta", lambda v: evaluation.smallest_violation(500, 1.0, v), [0.1], [-0.1, 0.0, 1.5]),
    "smallest_violation power": ("power", lambda v: evaluation.smallest_violation(500, 1.0, 1e-5, power=v), *OPEN),
    "gradient canaries noise": (
        "noise",
        lambda v: canaries.GradientCanaries(8, clip=1.0, noise=v),
        [None, 0.0, 2.0],
        [-0.1],
    ),
    "gradient canaries rate": (
        "rate",
        lambda v: canaries.GradientCanaries(8, clip=1.0, rate=v),
        [0.5, 1.0],
        [0.0, 1.1],
    ),
    "gradient canaries count": ("count", lambda v: canaries.GradientCanaries(v, clip=1.0), [8], [7]),
    "least_margin n": ("n", lambda v: least_margin(0.1, n=v), [1, 10**15], [0, 10**15 + 1, 10**16]),
    "least_margin loss": ("loss", least_margin, [0.1], [0.0, 1e9]),
    "cut": ("prefix", lambda v: Cut(prefix=v), [0.01, 0.99], [0.0, 1.0, 1.5]),
    "bag of words": ("TextBag.rows", lambda v: TextBag(rows=v), [2, 10**9], [1, 10**9 + 1]),
    "ladder": (
        "best",
        lambda v: labels.Ladder(lambda _: 0.0, 0.1, best=v),
        [math.inf, -math.inf, 0.0],
        [math.nan],
    ),
    "defend": ("queries", lambda v: labels.defend(labels.OracleSpec(n=9), queries=v), [1, 10**15], [0, 10**15 + 1]),
    "references": ("count", lambda v: settings.TrainingSettings.check(count=v), [1, 10**6], [0, 10**6 + 1]),
    "own references": ("count", lambda v: settings.CustomTrainingSettings.check(count=v), [1, 10**6], [0, 10**6 + 1]),
    "fine-tuned references": (
        "count",
        lambda v: settings.FineTuningSettings.check(count=v),
        [0, 10**6],
        [-1, 10**6 + 1],
    ),
    "mask seed": ("seed", lambda v: completion.mask("share:0.5", (4,), seed=v), [0], [-1]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_argument_is_accepted_within_its_bounds_and_refused_by_name_beyond_them(case):
    name, call, accepted, refused = CASES[case]
    for value in accepted:
        call(value)
    for value in refused:
        with pytest.raises(InputError, match=name):
            call(value)


def test_the_mask_of_a_share_is_that_of_seed_zero_unless_another_is_given():
    masks = [completion.mask("share:0.5", (40,), **seed).tolist() for seed in ({}, {"seed": 0}, {"seed": 1})]
    assert masks[0] == masks[1] != masks[2]


def test_a_control_raises_false_alarms_at_one_in_twenty_unless_another_level_is_given():
    rng = np.random.default_rng(0)
    control = controls.exchangeability(rng.normal(size=50), rng.normal(size=50))
    assert control.level == 0.05
