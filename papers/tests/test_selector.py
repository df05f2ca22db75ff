"""The choice of an attack for an unseen class, by the seen classes."""

import numpy as np
import pytest

from divulge import InputError
from divulge.attacks import Threshold, Transductive
from selector import leave_one_class_out, mean


def classes(seed, n=600, leak=0.5):
    """Each class has its own slope from features to signal: what one class teaches does not fit another."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 3)), rng.integers(0, 4, n)
    slopes = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [-2, -2, 0]], dtype=float)
    member = rng.random(n) < 0.5
    return x, y, member, (slopes[y] * x).sum(axis=1) + leak * member + 0.5 * rng.normal(size=n)


def test_the_selector_finds_what_works_without_the_unseen_class():
    x, y, _, _ = classes(3)
    inside = np.random.default_rng(4).random((3, 600)) < 0.5
    slopes = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [-2, -2, 0]], dtype=float)
    noise = 0.5 * np.random.default_rng(5).normal(size=(3, 600))
    signal = (slopes[y] * x).sum(axis=1) + 0.5 * inside + noise
    result = leave_one_class_out(
        {"plain": (Threshold(), signal), "transductive": (Transductive(), signal)}, inside, x, y
    )
    assert result.name == "transductive"
    assert result.gains["plain"].low > 0
    assert result.gains["transductive"].value == 0
    assert len(result.cells["plain"]) == 12
    assert repr(result).startswith("Chosen('transductive'")


def test_the_mean_of_cells_covers_the_truth():
    rng = np.random.default_rng(0)
    results = [mean(rng.normal(0.6, 0.1, size=8)) for _ in range(300)]
    covered = sum(e.low <= 0.6 <= e.high for e in results)
    # Binomial(300, 0.95): P(below 272) is 0.1 %.
    assert covered >= 272


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {}}, "at least 1 attack"),
        ({"options": {"a": (Threshold(), np.zeros((2, 7)))}}, "a signal of shape"),
        ({"labels": np.arange(60)}, "no class has 10 members"),
    ],
)
def test_bad_choices_are_named(change, message):
    rng = np.random.default_rng(0)
    inside = rng.random((2, 60)) < 0.5
    arguments = {
        "options": {"a": (Threshold(), rng.normal(size=(2, 60)))},
        "trained_on": inside,
        "features": rng.normal(size=(60, 2)),
        "labels": np.zeros(60, int),
    } | change
    with pytest.raises(InputError, match=message):
        leave_one_class_out(**arguments)
