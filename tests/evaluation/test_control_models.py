"""Control models: the difference of a target from models that leak nothing."""

import numpy as np
import pytest
from scipy import stats

from divulge import InputError
from divulge.evaluation.control_models import compare_auc, subtract_explained

N, K = 60, 8
MEMBERS = np.arange(N) < 25


def draw_scores(seed=0, k=K):
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=N)
    return hard + 0.5 * rng.normal(size=N) + 0.4 * MEMBERS, hard + 0.5 * rng.normal(size=(k, N))


def placements(scores):
    """Every comparison of a record with each of the other side, one by one."""

    def share(record):
        others = [other for other in range(N) if MEMBERS[other] != MEMBERS[record]]
        signs = [np.sign(scores[record] - scores[other]) for other in others]
        share_below = np.mean([(sign + 1) / 2 for sign in signs])
        return share_below if MEMBERS[record] else 1 - share_below

    return np.array([share(record) for record in range(N)])


def variance(values):
    return sum(values[side].var(ddof=1) / side.sum() for side in (MEMBERS, ~MEMBERS))


@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize("subtracts_references", [False, True])
def test_interval_is_that_of_the_formula(k, subtracts_references):
    target, controls = draw_scores(k=k)
    found = compare_auc(target, controls, MEMBERS, overlap=0.4, subtracts_references=subtracts_references)

    v_target, v = placements(target), np.stack([placements(row) for row in controls])
    areas = v[:, MEMBERS].mean(axis=1)
    shrink = ((k - 1) / k) ** 2 if subtracts_references else 1
    spread = shrink * areas.var(ddof=1)
    by_records = shrink * np.mean([variance(row - v.mean(axis=0)) for row in v]) * k / (k - 1)
    between, f = max(0, spread - by_records), 1.4 / 0.6 + 1 / k
    d = variance(v_target - v.mean(axis=0))
    doubt = f * (between if k >= 8 else spread)
    freedom = max(k - 1, (d + f * between) ** 2 / (d**2 / 24 + doubt**2 / (k - 1)))
    reach = stats.t.ppf(0.975, freedom) * (d + f * between) ** 0.5
    gap = v_target[MEMBERS].mean() - areas.mean()
    assert np.allclose((found.difference.low, found.difference.high), (gap - reach, gap + reach))
    assert np.allclose(found.controls, areas)


def test_one_control_is_refused_and_three_are_noted():
    target, controls = draw_scores()
    with pytest.raises(InputError, match="at least 2 models"):
        compare_auc(target, controls[:1], MEMBERS)
    assert "3 controls" in compare_auc(target, controls[:3], MEMBERS).note
    assert not compare_auc(target, controls, MEMBERS).note


def test_rank_of_eight_controls_cannot_reach_five_percent():
    target, controls = draw_scores()
    assert compare_auc(target + 9 * MEMBERS, controls, MEMBERS).p_value == pytest.approx(2 / 9)


def test_models_that_answer_by_class_alone_leave_nothing_to_compare():
    rng = np.random.default_rng(0)
    labels, none = rng.integers(0, 3, 400), np.zeros((K, 400), dtype=bool)
    constants = rng.normal(size=(K + 1, 3))[:, labels]
    gaps, control_gaps = subtract_explained(constants[0], constants[1:], none, labels, rng.normal(size=(400, 4)), 100)
    assert not gaps.any()
    assert not control_gaps.any()
