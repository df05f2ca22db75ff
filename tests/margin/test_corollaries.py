"""The corollaries as decisions, and what geometry proves of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import margin

LINE = margin.ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])  # Φ(x) = x


def test_the_band_is_two_sided():
    result = margin.known_margin(LINE, [[1.98], [2.0], [-2.02], [2.03], [1.9]], m=2.0, band=0.01)
    assert result.members.tolist() == [True, True, True, False, False]
    assert result.count == 3


def test_a_leaked_point_is_the_largest_of_its_set():
    result = margin.leaked_point(LINE, [[0.5], [-3.0], [1.0]])
    assert result.margin == 3.0
    assert result.members.tolist() == [False, True, False]


def test_a_lower_bound_misses_no_member():
    x = np.array([[-5.0], [0.9], [1.0]])
    assert margin.bounded_margin(LINE, x, c=1.0).members.tolist() == [True, False, True]
    assert margin.bounded_margin(LINE, x, c=(0.5, 2.0)).members.tolist() == [False, True, True]


def test_nothing_is_claimed_without_geometry(mixture):
    x, _ = mixture(10, 100)
    net = margin.solve(*mixture(10, 100)).net
    assert margin.known_margin(net, x, 1.0).guarantee.level == 1.0
    assert "without the geometry" in margin.known_margin(net, x, 1.0).warnings[0]
    vague = margin.known_margin(net, x, 1.0, geometry=margin.orthogonality(x))
    assert vague.guarantee.level == 1.0
    assert "not orthogonal enough" in vague.warnings[0]


def test_with_enough_orthogonality_no_fresh_record_passes():
    rng = np.random.default_rng(0)
    x = 30 * np.linalg.qr(rng.normal(size=(400, 400)))[0][:7]
    y = np.array([1, -1, 1, -1, 1, -1, 1.0])
    fresh = rng.normal(size=(500, 400))
    net = margin.solve(x, y).net
    shape = margin.orthogonality(x, fresh)
    assert shape.says_something
    result = margin.known_margin(net, np.vstack([x, fresh]), 1.0, geometry=shape)
    assert result.guarantee.level == 0.0
    assert result.members[:7].all()
    assert not result.members[7:].any()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 6), st.floats(0.0, 0.1))
def test_the_bound_bounds_fresh_outputs(seed, n, mixing):
    rng = np.random.default_rng(seed)
    x = 10 * (np.eye(n, 20) + mixing * rng.normal(size=(n, 20)) / np.sqrt(20))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    fresh = rng.normal(size=(50, 20))
    net = margin.solve(x, y).net
    shape = margin.orthogonality(x, fresh)
    assert (np.abs(net(fresh)) <= shape.bound * (1 + 1e-6)).all()


def test_orthogonality_is_measured_as_defined():
    x = np.array([[3.0, 0.0], [1.0, 2.0], [0.0, -4.0]])
    orthogonality = margin.orthogonality(x)
    assert (orthogonality.delta, orthogonality.Delta, orthogonality.ratio) == (8.0, 5.0, 3 * 8.0 / 5.0)
    assert not orthogonality.says_something
    with pytest.raises(dv.InputError, match="at least 2 records"):
        margin.orthogonality(x[:1])


@pytest.mark.parametrize(
    "source", [margin.Sphere(60), margin.Gaussian(60, mean=2.0), margin.Mixture(3 * np.eye(4, 60))]
)
def test_assumption_holds_as_often_as_it_says(source):
    # 200 draws at tau = .2: a true rate of .2 gives 57 or more failures with chance < .003.
    n, failed = 10, 0
    delta, min_norm = source.extremes(n, tau=0.2)
    for seed in range(200):
        shape = margin.orthogonality(source.sample(n, seed))
        failed += shape.delta > delta or shape.Delta < min_norm * (1 - 1e-12)
    assert failed < 57


@pytest.mark.parametrize("m", [0.0, -1.0, float("nan"), float("inf")])
def test_margins_that_cannot_be(m):
    with pytest.raises(dv.InputError, match="m: must lie in"):
        margin.known_margin(LINE, [[1.0]], m)


def test_bad_input():
    with pytest.raises(dv.InputError, match="answers 0 on every record"):
        margin.leaked_point(LINE, [[0.0]])
    with pytest.raises(dv.InputError, match="upper bound 1 is below the lower bound 2"):
        margin.bounded_margin(LINE, [[1.0]], (2.0, 1.0))
    with pytest.raises(dv.InputError, match="records have 2 values"):
        margin.known_margin(LINE, [[1.0, 2.0]], 1.0)
    with pytest.raises(dv.InputError, match="band"):
        margin.known_margin(LINE, [[1.0]], 1.0, band=0.0)
