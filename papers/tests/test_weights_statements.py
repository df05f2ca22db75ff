"""Statements of "Provable Privacy Attacks on Trained Shallow Neural Networks" that do not hold as printed."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from divulge import margin


class TestTheorem21:
    """The loss from which training is assured to converge to a KKT point."""

    def test_the_threshold_for_logistic_loss_is_ln2_over_n(self):
        n = 20
        assert margin.least_margin(math.log(2) / n * 0.999, n) > 0
        assert margin.least_margin(math.log(2) / n * 1.001, n) < 0

    def test_a_flow_from_below_1_over_n_never_classifies_every_record(self):
        # w - b never changes, so the neuron stays inactive at x = -1, whose loss stays at ln 2.
        x, y = np.array([1.0, -1.0]), np.array([1.0, 1.0])
        w, b, v = 2.0, 0.0, 1.0
        losses = []
        for _ in range(10_000):
            hidden = np.maximum(w * x + b, 0)
            losses.append(np.mean(np.logaddexp(0, -y * v * hidden)))
            pull = y / (1 + np.exp(y * v * hidden)) / 2
            active = pull * (hidden > 0) * v
            w, b, v = w + 0.1 * active @ x, b + 0.1 * active.sum(), v + 0.1 * pull @ hidden
        assert losses[0] == pytest.approx(0.410, abs=5e-4)
        assert losses[0] < 1 / 2
        assert losses == sorted(losses, reverse=True)
        assert math.log(2) / 2 < losses[-1] < math.log(2) / 2 + 1e-4
        assert v * max(-w + b, 0) == 0


def test_remark_b5_the_margin_at_a_total_loss_of_1_over_e():
    assert margin.least_margin(1 / math.e) == pytest.approx(-math.log(math.exp(1 / math.e) - 1))
    assert margin.least_margin(1 / math.e) == pytest.approx(0.81, abs=0.005)


class TestTheorem32:
    """What is proven of fresh records."""

    def test_orthogonal_records_leave_an_output_that_the_bound_does_not(self):
        # Four draws from √d·e_i, uniform over i, and a fifth. Two coincide with chance 1/d ≤ τ/n² at τ = .04.
        n, d = 4, 400
        records = math.sqrt(d) * np.eye(5, d)
        x, fresh = records[:n], records[n:]
        net = margin.solve(x, np.array([1, 1, 1, -1.0])).net
        orthogonality = margin.orthogonality(x)
        size = abs(net(fresh)[0])
        assert orthogonality.delta == np.abs(x @ fresh.T).max() == 0.0  # δ and δ_x
        assert size == pytest.approx(0.00495, abs=5e-6)
        # With the 1 of the bias in each product it holds.
        holds = n * (0 + 1) / (orthogonality.Delta + 1 - 2 * (n - 1) * (orthogonality.delta + 1))
        assert size <= holds == pytest.approx(margin.orthogonality(x, fresh).bound[0])
        assert size <= 2 * holds  # the last line but one of the proof

    def test_one_given_record_needs_its_own_products(self):
        # δ = 0, yet a near copy of a member is almost on the margin. It is no fresh draw; see the ledger.
        x = 100 * np.eye(4, 30)
        net = margin.solve(x, np.array([1, -1, 1, -1.0])).net
        copy = x[:1] * 0.999
        assert margin.orthogonality(x).bound[0] < 1e-3
        assert abs(net(copy)[0]) > 0.9
        assert margin.orthogonality(x, copy).bound[0] >= abs(net(copy)[0])

    def test_a_fresh_draw_seldom_has_the_largest_product(self):
        # Of n + 1 exchangeable records the fresh one is in the largest pair with chance 2/(n + 1).
        n, n_largest = 9, 0
        for seed in range(400):
            inner = np.abs(np.triu((x := margin.Sphere(50).sample(n + 1, seed)) @ x.T, 1))
            n_largest += inner[:, -1].max() > inner[:, :-1].max()
        assert abs(n_largest - 400 * 0.2) < 4 * math.sqrt(400 * 0.2 * 0.8)  # 4 standard deviations


class TestModerateDimensions:
    """Section 3.2: what its dimensions have to do with the theorem."""

    def test_theorem_3_2_is_vacuous_below_ten_thousand_dimensions(self):
        assert not margin.assumption(margin.Sphere(10_000), n=20).says_something
        assert not margin.assumption(margin.Gaussian(10_000), n=20).says_something
        assert margin.assumption(margin.Sphere(200_000), n=20).says_something

    def test_twenty_records_are_not_near_orthogonal_at_d_1000(self):
        means = np.zeros((2, 1000))
        means[:, 0] = 1, -1
        ratios = [margin.orthogonality(margin.Mixture(means).sample(20, seed)).ratio for seed in range(101)]
        assert np.median(ratios) == pytest.approx(2.0, abs=0.05)
        assert min(ratios) > 1.4
        assert margin.assumption(margin.Sphere(1000), n=20).ratio == pytest.approx(2.3, abs=0.05)
        assert margin.assumption(margin.Gaussian(1000), n=20).ratio == pytest.approx(3.0, abs=0.05)

    @pytest.mark.parametrize("d", [100, 1000, 10_000])
    def test_one_product_is_often_far_below_its_scale(self, d):
        # Given x' the product with N(0, I) is normal; its chance to be below √d/10 does not vanish.
        spread = np.linalg.norm(margin.Gaussian(d).sample(200, seed=0), axis=1)
        assert np.mean(2 * norm.cdf(0.1 * math.sqrt(d) / spread) - 1) == pytest.approx(0.08, abs=0.002)


class TestDistributions:
    """Appendix D."""

    @staticmethod
    def size(mean):
        """inf{t: E exp(x²/t²) ≤ 2} of x from N(mean, 1)."""

        # E exp(x²/t²) = (1 - 2/t²)^-½·exp(mean²/(t² - 2))
        def excess(squared):
            return mean**2 / (squared - 2) - 0.5 * math.log1p(-2 / squared) - math.log(2)

        return math.sqrt(brentq(excess, 2 + 1e-9, 10 + 9 * mean**2))

    def test_lemma_d3_the_norm_of_an_input_grows_with_its_mean(self):
        assert self.size(0.0) == pytest.approx(math.sqrt(8 / 3))
        for d in (100, 10_000, 10**6):
            mean = d**0.4  # ‖μ‖² = d^.8 = o(d)
            assert self.size(mean) > mean

    def test_lemma_d5_pairs_count_as_n_squared(self):
        # Per-pair chances of tau/n leave far more than tau over all pairs; those of tau/(n(n-1)/2) do not.
        n, d, tau = 40, 50, 0.1
        # Two records of N(e_1, I): x·x' = ‖x + x'‖²/4 - ‖x - x'‖²/4, of laws that are independent.
        rng = np.random.default_rng(0)
        product = np.abs(rng.noncentral_chisquare(d, 2, 10**6) - rng.chisquare(d, 10**6)) / 2
        bound_n, bound_pairs = np.quantile(product, [1 - tau / n, 1 - tau / (n * (n - 1) / 2)])
        source = margin.Gaussian(d, mean=1.0)
        delta = np.array([margin.orthogonality(source.sample(n, seed)).delta for seed in range(100)])
        assert (delta > bound_n).mean() > 0.6
        assert (delta > bound_pairs).mean() < 0.2  # 100 draws at .1: 20 or more have chance .002
