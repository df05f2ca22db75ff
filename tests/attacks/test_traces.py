"""LT-IQR against its definition."""

import numpy as np
import pytest

import divulge as dv
from divulge.attacks import at_risk


def naive(trace, share):
    """A quantile by linear interpolation between order statistics."""
    ordered = sorted(trace)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@pytest.mark.parametrize("epochs", [2, 3, 10, 41])
def test_it_is_the_interquartile_range_of_each_trace(epochs):
    losses = np.random.default_rng(epochs).exponential(size=(epochs, 30))
    expected = [naive(trace, 0.75) - naive(trace, 0.25) for trace in losses.T]
    np.testing.assert_allclose(at_risk(losses), expected, atol=1e-12)
    wide = [naive(trace, 0.9) - naive(trace, 0.1) for trace in losses.T]
    np.testing.assert_allclose(at_risk(losses.astype(np.float32), low=0.1, high=0.9), wide, atol=1e-6)


def test_what_is_learnt_late_ranks_above_what_was_easy_and_what_was_never_learnt():
    epochs = np.arange(40)
    early, late, never = (3.0 / (1 + np.exp(epochs - midpoint)) for midpoint in (2, 20, 300))
    assert at_risk(np.stack([early, late, never], axis=1)).argmax() == 1
    assert at_risk(np.full((5, 3), 0.7)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("losses", "options", "message"),
    [
        (np.ones((1, 3)), {}, "losses: at least 2 epochs"),
        (np.ones(3), {}, "losses"),
        (np.full((3, 3), np.nan), {}, "losses"),
        (np.ones((3, 3)), {"low": 0.8}, "low: must be less than high"),
        (np.ones((3, 3)), {"high": 1.5}, "high"),
    ],
)
def test_what_is_no_trace_is_refused(losses, options, message):
    with pytest.raises(dv.InputError, match=message):
        at_risk(losses, **options)
