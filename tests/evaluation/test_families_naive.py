"""Privacy losses of the families of mechanisms, against integrals and enumerations."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from divulge import InputError
from divulge.evaluation import GaussianMechanism, SubsampledGaussian, families
from divulge.evaluation.families import PrivacyLoss


def three_values():
    used = np.array([0.2, 0.5, 0.3])
    loss = np.array([-1.0, 0.25, 2.0])
    unused = used * np.exp(-loss)
    return PrivacyLoss(loss, used, unused / 1.0), used, unused, loss


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.5, 1.0, 2.0, 3.0])
def test_delta_is_the_larger_of_both_hockey_sticks(epsilon):
    distribution, used, unused, _ = three_values()
    added = sum(max(p - math.exp(epsilon) * q, 0) for p, q in zip(used, unused, strict=True))
    removed = sum(max(q - math.exp(epsilon) * p, 0) for p, q in zip(used, unused, strict=True))
    assert distribution.delta(epsilon) == pytest.approx(max(added, removed))


def test_delta_is_that_of_removing_where_it_is_the_larger():
    distribution, used, unused, loss = three_values()
    assert PrivacyLoss(-loss, unused, used).delta(0.4) == pytest.approx(distribution.delta(0.4))


@pytest.mark.parametrize("both_sides", [True, False])
def test_errors_are_those_of_guesses_in_the_order_of_how_much_is_known(both_sides):
    distribution, used, unused, loss = three_values()
    errors = distribution.errors(both_sides=both_sides)
    order = [2, 0, 1] if both_sides else [2, 1, 0]
    mass = wrong = 0.0
    total = used.sum() + unused.sum()
    for step, i in enumerate(order, start=1):
        mass += used[i] + unused[i]
        # Of two records in this state, one used and one not, the less likely kind is guessed wrongly.
        wrong += min(used[i], unused[i]) if both_sides or loss[i] >= 0 else unused[i]
        assert errors.shares[step] == pytest.approx(mass / total)
        assert errors.missed[step] == pytest.approx(wrong / total)
    assert (errors.shares[0], errors.missed[0]) == (0, 0)
    half = errors.shares[1] / 2
    assert errors.mean(np.array([half]))[0] == pytest.approx(errors.missed[1] / errors.shares[1])


@pytest.mark.parametrize(("mu", "delta"), [(0.3, 1e-5), (1.0, 1e-5), (3.0, 1e-3), (1.0, 0.3), (1.0, 0.39)])
def test_the_epsilon_of_the_gaussian_mechanism_leaves_just_delta(mu, delta):
    epsilon = GaussianMechanism().epsilon(mu, delta)

    def excess(e):
        def gap(z):
            return max(stats.norm.pdf(z, mu) - math.exp(e) * stats.norm.pdf(z), 0)

        return integrate.quad(gap, e / mu + mu / 2, mu + 12, limit=200)[0]

    if epsilon == 0:
        assert excess(0.0) <= delta
    else:
        assert excess(epsilon + 1e-3) < delta < excess(max(epsilon - 1e-3, 0))
    assert GaussianMechanism().epsilon(0.0, delta) == 0


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
def test_one_step_uses_a_record_with_its_rate(rate):
    losses = SubsampledGaussian(rate).losses(1.2)
    assert losses.used.sum() == pytest.approx(1)
    assert losses.unused.sum() == pytest.approx(1)
    z = np.linspace(-4, 5, 7)
    expected = np.log((1 - rate) + rate * np.exp(1.2 * z - 0.72))
    grid = np.linspace(-10, 11.2, 4000)
    np.testing.assert_allclose(np.interp(z, grid, losses.loss), expected, atol=1e-4)
    # E[P/Q - 1]² = rate² (e^{μ²} - 1)
    assert losses.unused @ (np.exp(losses.loss) - 1) ** 2 == pytest.approx(rate**2 * (math.exp(1.44) - 1), rel=1e-6)


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"rate": 1.1}, {"rate": 0.5, "steps": 0}, {"rate": -0.1}])
def test_a_rate_lies_above_zero_and_reaches_one(wrong):
    with pytest.raises(InputError, match=r"rate|steps"):
        SubsampledGaussian(**wrong)
    assert "2 steps of a Gaussian mechanism that uses it with probability 1" in SubsampledGaussian(1.0, 2).assumes


def test_a_family_is_given_by_name_by_object_or_not():
    given = SubsampledGaussian(0.5)
    assert families.resolve_family(None) is None
    assert families.resolve_family(given) is given
    assert families.resolve_family("gaussian") == GaussianMechanism()
    with pytest.raises(InputError, match="did you mean 'gaussian'"):
        families.resolve_family("gausian")
    with pytest.raises(InputError, match="is needed, got 3"):
        families.resolve_family(3)
