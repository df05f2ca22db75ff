"""Agreement with references, tables by group, shared documents and planned sizes, against their definitions."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge import evaluation
from divulge.errors import InputError
from divulge.evaluation import agreement, metrics


def student(values, confidence=0.95):
    n, mean = len(values), np.mean(values)
    reach = stats.t.ppf((1 + confidence) / 2, n - 1) * np.std(values, ddof=1) / math.sqrt(n)
    return mean, mean - reach, mean + reach


def root(ends):
    return tuple(math.sqrt(max(end, 0)) for end in ends)


def ends(estimate):
    return estimate.value, estimate.low, estimate.high


@pytest.mark.parametrize("confidence", [0.95, 0.5])
@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0], [0.5, -3.0], [2.0] * 5])
def test_a_mean_has_students_interval(values, confidence):
    found = agreement.mean_estimate(values, confidence)
    assert ends(found) == pytest.approx(student(values, confidence))
    assert found.confidence == confidence
    assert ends(agreement.root_of_mean(values, confidence)) == pytest.approx(root(student(values, confidence)))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("models", [1, 2, 3, 4, 6])
def test_a_target_is_compared_with_the_trainings_that_never_saw_a_record(models, masked):
    rng = np.random.default_rng(models)
    target, references = rng.normal(size=40), rng.normal(size=(models, 40)) + rng.normal(size=40)
    out = rng.random((models, 40)) < 0.7 if masked else np.ones((models, 40), bool)
    rows = [i for i in range(40) if out[:, i].sum() >= min(2, models)]
    known = [references[out[:, i], i] for i in rows]
    found = agreement.compare_answers(target, references, out if masked else None)
    assert (found.records, found.models) == (len(rows), models)
    squares = [(target[i] - x.mean()) ** 2 for i, x in zip(rows, known, strict=True)]
    if models == 1:
        assert ends(found.rmse) == pytest.approx(root(student(squares)))
        assert found.spread is found.differs is None
        return
    variances = [x.var(ddof=1) for x in known]
    unbiased = [s - v / len(x) for s, v, x in zip(squares, variances, known, strict=True)]
    assert ends(found.rmse) == pytest.approx(root(student(unbiased)))
    assert ends(found.spread) == pytest.approx(root(student(variances)))


def directions(target, references):
    """One over the mean squared cosine of deviations that are independent, and of a quarter of a pair in parallel."""
    contrasts = [references[:i].mean(axis=0) - references[i] for i in range(1, len(references))]
    vectors = [target - references.mean(axis=0), *contrasts]
    squares = [(a @ b) ** 2 / (a @ a) / (b @ b) for place, a in enumerate(vectors) for b in vectors[:place]]
    return (len(squares) + 0.25) / (sum(squares) + 0.25)


def differs(target, references):
    """Farther from the mean of all than any reference, or nearer, and by a factor; or of another mean."""
    k = len(references)
    few = directions(target, references)
    everything = np.vstack([target, references])
    distances = np.abs(everything - everything.mean(axis=0)).mean(axis=1)
    factor = 2.0 if k < 4 else 1.75 if k < 8 else 1.6
    alike = np.abs(references - references.mean(axis=0)).mean() * math.sqrt(k / (k - 1)) * math.sqrt(1 + 1 / k)
    gap = np.abs(target - references.mean(axis=0)).mean()
    far = max(factor, math.sqrt(stats.f.isf(0.03, few, few * (k - 1))))
    near = max(factor, math.sqrt(stats.f.isf(0.03, few * (k - 1), few)))
    farther = distances[0] > distances[1:].max() and gap > far * alike
    nearer = distances[0] < distances[1:].min() and gap < alike / near
    levels = references.mean(axis=1)
    t = abs(target.mean() - levels.mean()) / (levels.std(ddof=1) * math.sqrt(1 + 1 / k))
    return bool(farther or nearer or 2 * stats.t.sf(t, k - 1) < 0.02)


@pytest.mark.parametrize("models", [2, 3, 4, 7, 9])
def test_a_target_differs_where_it_is_farthest_or_nearest_by_a_factor_or_has_another_mean(models):
    rng = np.random.default_rng(models)
    answers = []
    for scale in np.repeat(np.linspace(0.1, 4, 40), 2):
        references = rng.normal(size=(models, 30)) * rng.choice([1.0, 2.0], (models, 1)) + 0.1 * rng.normal()
        target = scale * rng.normal(size=30) + rng.choice([0.0, 1.5])
        answers.append(differs(target, references))
        assert agreement.compare_answers(target, references).differs is answers[-1]
    assert len(set(answers)) == 2


@pytest.mark.parametrize("models", [1, 2, 4])
def test_models_of_one_setting_are_as_far_as_their_squares_and_less_half_of_their_own_scatter(models):
    rng = np.random.default_rng(models)
    target, answers = rng.normal(size=20), rng.normal(size=(models, 20))
    rmse, score = agreement.distance_between(target, list(answers))
    assert ends(rmse) == pytest.approx(root(student(((answers - target) ** 2).mean(axis=0))))
    if models == 1:
        assert score is None
        return
    pairs = [np.abs(answers[i] - answers[j]) for i in range(models) for j in range(i)]
    crps = np.abs(answers - target).mean(axis=0) - np.mean(pairs, axis=0) / 2
    assert ends(score) == pytest.approx(student(crps))


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_the_interval_of_a_tpr_takes_four_steps_at_a_quarter_of_the_error(confidence):
    rng = np.random.default_rng(0)
    truth = np.arange(250) < 100
    scores = rng.normal(size=250) + 1.5 * truth
    inside, outside = scores[truth], sorted(scores[~truth], reverse=True)
    step = (1 - confidence) / 4
    found = metrics.tpr_at_fpr(scores, truth, 0.1, confidence)
    surely = max(r for r in range(1, 151) if stats.binom.cdf(r - 1, 150, 0.1) <= step)
    possibly = min(r for r in range(1, 151) if stats.binom.sf(r - 1, 150, 0.1) <= step)
    above = [int((inside > outside[rank - 1]).sum()) for rank in (surely, 16, possibly)]
    assert found.value == above[1] / 100
    assert found.low == pytest.approx(stats.beta.ppf(step, above[0], 101 - above[0]))
    assert found.high == pytest.approx(stats.beta.isf(step, above[2] + 1, 100 - above[2]))


def test_where_no_record_is_high_or_low_enough_an_end_is_none():
    scores, truth = np.arange(20.0), np.arange(20) >= 10
    assert metrics.tpr_at_fpr(scores, truth, 0.1).low == 0.0  # of ten, none surely bounds the highest tenth
    assert metrics.tpr_at_fpr(-scores, truth, 0.9).high == 1.0
    flat = metrics.advantage(np.zeros(20), truth)
    assert (flat.value, flat.low, flat.high) == pytest.approx((0.0, 0.0, 2 * math.sqrt(math.log(80) / 20)))
    assert metrics.advantage(scores[:12] % 2, np.arange(12) >= 6).high == 1.0
    below = metrics.advantage(-scores, truth)
    assert (below.value, below.low) == (0.0, 0.0)
    with pytest.raises(InputError, match=r"fnr: 0\.05 needs at least 19 members, got 10"):
        metrics.tnr_at_fnr(scores, truth, 0.05)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_table_by_group_shares_a_threshold_and_divides_the_error_on_demand(simultaneous):
    rng = np.random.default_rng(1)
    truth, groups, scores = rng.random(120) < 0.5, rng.integers(0, 4, 120), rng.normal(size=120).round(1)
    found = metrics.subgroups(scores, truth, groups, 0.2, 0.9, simultaneous=simultaneous)
    outside = np.sort(scores[~truth])[::-1]
    threshold = outside[int(0.2 * len(outside) + 1e-9)]
    level = 1 - 0.1 / 4 if simultaneous else 0.9
    for group, row in enumerate(found):
        rows = groups == group
        inside, others = scores[rows & truth] > threshold, scores[rows & ~truth] > threshold
        assert (row.group, row.members, row.nonmembers) == (group, len(inside), len(others))
        assert row.tpr == evaluation.proportion(int(inside.sum()), len(inside), level)
        assert row.fpr == evaluation.proportion(int(others.sum()), len(others), level)
        assert row.auc == evaluation.auc(scores[rows], truth[rows], level)
    with pytest.raises(InputError, match="groups: values of one kind are needed"):
        metrics.subgroups(scores, truth, np.array([1, "a"] * 60, dtype=object), 0.2)
