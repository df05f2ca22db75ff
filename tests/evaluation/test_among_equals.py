"""Whether two samples differ among records that are alike in something else."""

import numpy as np
import pytest

from divulge.statistics import two_samples


def drawn(rng, n, *, carried=0.9, leak=0.0):
    """Members longer than the others; scores that read length, and membership by ``leak``."""
    inside = np.arange(2 * n) < n
    length = np.round(rng.normal(size=2 * n) * 20 + 100 + 8 * inside)
    scores = carried * (length - 100) / 20 + np.sqrt(1 - carried**2) * rng.normal(size=2 * n) + leak * inside
    return scores, inside, length


def test_as_divisions_within_groups_say():
    """The two-sided p-value of the same sum over 2,000 random divisions; its standard error is below 0.012."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        scores, inside, length = drawn(rng, 40)
        scores = np.round(scores, 1)
        order = np.argsort(np.argsort(length, kind="stable"), kind="stable")
        length = np.floor(order / 10)  # eight groups of ten

        def total(where, scores=scores, length=length):
            sums = 0.0
            for one in np.unique(length):
                own, there = scores[length == one], where[length == one]
                ranks = (own[:, None] > own).sum(1) + ((own[:, None] == own).sum(1) + 1) / 2
                sums += (ranks[there].sum() - there.sum() * (len(own) + 1) / 2) / (len(own) + 1)
            return sums

        others = []
        for _ in range(2000):
            shuffled = inside.copy()
            for one in np.unique(length):
                shuffled[length == one] = rng.permutation(inside[length == one])
            others.append(total(shuffled))
        p = np.mean(np.abs(others) >= abs(total(inside)) - 1e-12)
        assert two_samples.among_equals(scores, inside, length) == pytest.approx(p, abs=0.04)


def test_what_goes_with_length_is_not_seen_and_what_does_not_is():
    """400 unfair splits without a leak: 40 or more p-values below 0.05 have a chance below 0.01 % at 5.5 %."""
    rng = np.random.default_rng(1)
    unleaking, leaking = (
        [two_samples.among_equals(*drawn(rng, 100, leak=leak)) for _ in range(400)] for leak in (0.0, 0.6)
    )
    assert sum(p <= 0.05 for p in unleaking) < 40
    assert sum(p <= 0.05 for p in leaking) > 380
    assert np.median([two_samples.rank_sum(s[~m], s[m]) for s, m, _ in (drawn(rng, 100) for _ in range(20))]) < 0.05


@pytest.mark.parametrize(
    ("scores", "inside", "by"),
    [
        (np.ones(24), np.arange(24) % 2 == 0, np.zeros(24)),
        (np.arange(24.0), np.arange(24) < 12, np.repeat([0.0, 9.0], 12)),
        (np.arange(2.0), np.array([True, True]), np.arange(2.0)),
    ],
)
def test_where_nothing_can_be_told_the_p_value_is_one(scores, inside, by):
    assert two_samples.among_equals(scores, inside, by) == 1.0
