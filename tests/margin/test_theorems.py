"""Sections 2 and 3 and Appendices B and D of "Provable Privacy Attacks on Trained Shallow Neural Networks"."""

import math

import numpy as np
import pytest
from scipy.stats import beta, chi2, ncx2, norm

import divulge as dv
from divulge import margin


def near_orthogonal(seed, n=5, d=60):
    """Records with Δ + 1 > 3·(δ + 1)·(n - 1), what the proofs of Appendix B ask for, and arbitrary labels."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(10, 12, (n, 1)) * np.linalg.qr(rng.normal(size=(d, n)))[0].T + 0.1 * rng.normal(size=(n, d))
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = -1, 1
    return x, y


def sizes(x, fresh=None):
    """δ, or δ_x with a fresh record, and Δ."""
    inner = x @ x.T
    delta = np.abs(inner[~np.eye(len(x), dtype=bool)]).max()
    return delta if fresh is None else max(delta, np.abs(x @ fresh).max()), np.diag(inner).min(), np.diag(inner).max()


def pulls(exact, x, y):
    """λ_i·σ'_ij of an exact point, ``[n, k]``; at kinks, what the equations (8) and (9) leave for them."""
    points, net = np.column_stack([x, np.ones(len(x))]), exact.net
    before = points @ net.augmented.T
    kink = np.abs(before) <= 1e-6 * np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(net.augmented, axis=1)
    coefficients = ((before > 0) & ~kink) * exact.multipliers[:, None]
    for j in range(net.width):
        remainder = net.augmented[j] / net.v[j] - (coefficients[:, j] * y) @ points
        kink_rows = np.flatnonzero(kink[:, j])
        coefficients[kink_rows, j] = (
            np.linalg.lstsq((y[kink_rows, None] * points[kink_rows]).T, remainder, rcond=None)[0]
            if len(kink_rows)
            else 0.0
        )
    return coefficients


class TestStationarity:
    """Theorem 2.1, Assumption 2.1 and equations 7 to 9."""

    def test_training_approaches_a_kkt_point(self, mixture):
        x, y = mixture(10, 200)
        runs = [margin.train(x, y, width=100, target_margin=m).net for m in (1.0, 10.0, 100.0, 1000.0)]
        states = [margin.kkt(net, x, y, band=10.0) for net in runs]
        residuals = [state.residual for state in states]
        assert residuals == sorted(residuals, reverse=True)
        assert residuals[-1] < residuals[0] / 2
        assert states[-1].on_margin.all()

    @pytest.mark.parametrize("seed", range(3))
    def test_the_equations_of_an_exact_point(self, seed):
        x, y = near_orthogonal(seed)
        exact = margin.solve(x, y)
        net, pull = exact.net, pulls(exact, x, y)
        points = np.column_stack([x, np.ones(len(x))])
        hidden = np.maximum(points @ net.augmented.T, 0)
        np.testing.assert_allclose(net.v, (exact.multipliers * y) @ hidden, atol=1e-6)
        np.testing.assert_allclose(net.augmented, net.v[:, None] * ((pull * y[:, None]).T @ points), atol=1e-6)
        assert ((pull > -1e-9) & (pull <= exact.multipliers[:, None] + 1e-9)).all()
        # Both layers weigh the same.
        np.testing.assert_allclose(net.v**2, np.sum(net.augmented**2, axis=1), rtol=1e-6)


class TestNearOrthogonalRecords:
    """Lemmas B.3 and B.4 and Theorem 3.2, with their constants, at exact points of margin 1."""

    @pytest.mark.parametrize("seed", range(6))
    def test_the_lemmas(self, seed):
        x, y = near_orthogonal(seed)
        exact = margin.solve(x, y)
        n, (delta, min_norm, max_norm) = len(x), sizes(x)
        assert min_norm + 1 > 3 * (delta + 1) * (n - 1)
        weight = exact.net.v**2 * pulls(exact, x, y)
        weight_by_sign = np.array([weight[:, exact.net.v > 0].sum(axis=1), weight[:, exact.net.v < 0].sum(axis=1)])
        top = 1 / (min_norm + 1 - 2 * (delta + 1) * (n - 1))
        assert weight_by_sign.max() <= top * (1 + 1e-6)  # B.3
        same_sign = np.where(y > 0, weight_by_sign[0], weight_by_sign[1])
        assert same_sign.min() >= (1 - (delta + 1) * (n - 1) * top) / (max_norm + 1) * (1 - 1e-6)  # B.4

    @pytest.mark.parametrize("seed", range(6))
    def test_every_record_is_on_the_margin_and_fresh_ones_are_below(self, seed):
        x, y = near_orthogonal(seed)
        exact = margin.solve(x, y)
        np.testing.assert_allclose(exact.net(x) * y, 1.0, atol=1e-6)
        assert (exact.multipliers > 1e-6).all()
        n, (delta, min_norm, _) = len(x), sizes(x)
        fresh = np.random.default_rng(seed).normal(size=(50, x.shape[1]))
        bounds = np.array([2 * n * (sizes(x, z)[0] + 1) / (min_norm + 1 - 2 * (delta + 1) * (n - 1)) for z in fresh])
        assert (np.abs(exact.net(fresh)) <= bounds).all()
        # Ours is sharper by a factor of 2.
        assert (margin.orthogonality(x, fresh).bound <= bounds / 2 * (1 + 1e-12)).all()

    def test_the_proof_leaves_out_the_relu_of_fresh_records(self):
        # It writes |Φ(x)| as a sum over all neurons, active or not; that is an upper bound only of each summand.
        x, y = near_orthogonal(0)
        net = margin.solve(x, y).net
        fresh = np.random.default_rng(0).normal(size=(50, x.shape[1]))
        linear = np.column_stack([fresh, np.ones(50)]) @ net.augmented.T
        assert np.abs(np.abs(linear @ net.v) - np.abs(net(fresh))).max() > 0.1 * np.abs(net(fresh)).max()
        assert (np.abs(net(fresh)) <= np.abs(linear) @ np.abs(net.v) * (1 + 1e-12)).all()


@pytest.fixture(scope="module")
def case():
    """20 records and 2,000 fresh ones, d = 2,000, and the exact point."""
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 20)
    x, fresh = rng.normal(size=(20, 2000)), rng.normal(size=(2000, 2000))
    return x, fresh, margin.solve(x, y).net


class TestCorollaries:
    """Corollaries 3.3 to 3.5 at exact points, d = 2,000."""

    def test_known_margin(self, case):
        x, fresh, net = case
        np.testing.assert_allclose(np.abs(net(x)), 1.0, atol=1e-6)
        assert np.abs(net(fresh)).max() < 0.5
        assert margin.known_margin(net, np.vstack([x, fresh]), 1.0).members.tolist() == [True] * 20 + [False] * 2000

    def test_leaked_point(self, case):
        x, fresh, net = case
        result = margin.leaked_point(net, np.vstack([fresh[:9], x[:1]]))
        assert result.margin == pytest.approx(1.0, abs=1e-6)
        assert result.members.tolist() == [False] * 9 + [True]
        assert np.abs(result.outputs[:9]).max() < result.margin / 2

    def test_bounded_margin(self, case):
        x, fresh, net = case
        bound = margin.bounded_margin(net, np.vstack([x, fresh]), c=0.5)
        assert bound.members.tolist() == [True] * 20 + [False] * 2000

    def test_outputs_are_all_that_is_read(self, case):
        # Remark 3.1: other weights of the same function, the same decision.
        x, fresh, net = case
        rescaled = margin.ShallowReLU(3 * net.w[::-1], 3 * net.b[::-1], net.v[::-1] / 3)
        pool = np.vstack([x, fresh[:50]])
        original, rescaled_decision = (margin.known_margin(each, pool, 1.0) for each in (net, rescaled))
        np.testing.assert_array_equal(original.members, rescaled_decision.members)


class TestTheMarginInPractice:
    """Remarks B.5 and B.6."""

    def test_b5_a_step_of_the_proof_gives_a_negative_margin(self):
        # From ln(1 + e^-m) < 1/e the remark goes on to e^-m < e^(1/e), which m = -.3 satisfies, and to m > 1/e.
        m = -0.3
        assert math.exp(-m) < math.exp(1 / math.e)
        assert m < 1 / math.e < margin.least_margin(1 / math.e)

    def test_b6_the_derivative_has_no_factor_of_the_output(self):
        # As printed, |dℓ/dΦ| ≤ m·e^-m/(1 + e^-m). At Φ = m = .1 the derivative is ten times that.
        def loss(output):
            return math.log1p(math.exp(-output))

        m = 0.1
        slope = abs(loss(m + 1e-6) - loss(m - 1e-6)) / 2e-6
        printed = m * math.exp(-m) / (1 + math.exp(-m))
        assert slope == pytest.approx(math.exp(-m) / (1 + math.exp(-m)), rel=1e-6)
        assert slope > 9 * printed

    def test_b6_the_printed_bound_grows_up_to_margin_1_28(self):
        # So a record beyond the margin may exceed the bound that is to hold for all.
        def printed(z):
            return z * math.exp(-z) / (1 + math.exp(-z))

        assert printed(1.2) > 2 * printed(0.3)
        assert max(np.linspace(0.01, 5, 5000), key=printed) == pytest.approx(1.278, abs=0.002)

    def test_b6_what_it_is_for_stands(self, mixture):
        # |∂L/∂θ_j| ≤ max_i |∂Φ(x_i)/∂θ_j|/(1 + e^m) for every weight.
        x, y = mixture(10, 50)
        net = margin.train(x, y, width=30, target_margin=8.0).net
        points, margins = np.column_stack([x, np.ones(10)]), net(x) * y
        active = (points @ net.augmented.T > 0) * net.v
        each = np.concatenate([
            (active[:, :, None] * points[:, None]).reshape(10, -1), np.maximum(points @ net.augmented.T, 0)
        ], axis=1)  # fmt: skip
        gradient = np.abs((y / (1 + np.exp(margins))) @ each) / 10
        assert (gradient <= np.abs(each).max(axis=0) / (1 + math.exp(margins.min())) + 1e-15).all()

    def test_plain_gradient_descent_stops_below_the_square_of_log_d(self, mixture):
        x, y = mixture(20, 500)
        run = margin.descend(x, y, width=100, steps=2000, learning_rate=0.1)
        assert 0.81 < run.margin[-1] < math.log(500) ** 2


class TestSources:
    """Assumption 3.1 and Appendix D."""

    @staticmethod
    def ratios(source, count, dimensions):
        return [margin.assumption(source(d), n=count(d)).ratio for d in dimensions]

    def test_near_orthogonality_improves_with_the_dimension(self):
        # Lemmas B.1 and B.2 with the n that the three examples allow; n·δ/Δ falls.
        def four(d):
            means = np.zeros((4, d))
            means[np.arange(4), np.arange(4)] = d**0.2
            return margin.Mixture(means)

        cases = [
            (margin.Sphere, lambda d: int(3 * d**0.5 / math.log(d) ** 1.5), (10**3, 10**4, 10**5, 10**6)),
            (lambda d: margin.Gaussian(d, mean=d**0.2), lambda d: int(2 * d**0.2), (10**3, 10**4, 10**5, 10**6)),
            (four, lambda d: int(2 * d**0.2), (10**3, 10**4, 10**5)),
        ]
        for source, count, dimensions in cases:
            result = self.ratios(source, count, dimensions)
            assert result == sorted(result, reverse=True)
            assert result[-1] < result[0] / 1.5

    def test_what_makes_four_gaussians_learnable_makes_them_near_orthogonal(self):
        # Appendix C with constants of 1: d = n²·‖μ‖² and ‖μ‖² = n^.51·√d, so d = n^5.02; n·δ/Δ falls with n.
        ratios = []
        for n in (6, 12):
            d = math.ceil(n**5.02)
            means = np.zeros((4, d))
            means[np.arange(4), [0, 0, 1, 1]] = math.sqrt(d / n**2) * np.array([1, -1, 1, -1])
            source = margin.Mixture(means)
            ratios.append(np.mean([margin.orthogonality(source.sample(n, seed)).ratio for seed in range(3)]))
        assert 0.25 > ratios[0] > 1.5 * ratios[1]

    def test_lemma_d1_and_remark_d2(self):
        for d in np.unique(np.geomspace(2, 1e7, 300).astype(int)):
            stated = d ** (1 - math.log(d) / 4)
            chance = beta.sf(min(math.log(d) ** 2 / d, 1.0), 0.5, (d - 1) / 2)
            assert chance <= stated
        tau = [(d**0.5 / math.log(d)) ** 2 * d ** (1 - math.log(d) / 4) for d in (10**3, 10**4, 10**6, 10**9)]
        assert tau == sorted(tau, reverse=True)
        assert tau[-1] < 1e-20

    def test_lemma_d3_products_stay_below_the_mean_and_a_power(self):
        # P(|x·x'| > ‖μ‖² + d^ε), given x' a normal probability; ε = .7 and ‖μ‖² = d^.4.
        chances = []
        for d in (100, 1000, 10_000):
            sample = margin.Gaussian(d, mean=d**0.2).sample(200, seed=0)
            centre, spread = d**0.2 * sample[:, 0], np.linalg.norm(sample, axis=1)
            top = d**0.4 + d**0.7
            chances.append(np.mean(norm.sf((top - centre) / spread) + norm.cdf((-top - centre) / spread)))
        assert chances[0] > 10 * chances[1] > 1000 * chances[2]

    def test_lemma_d3_defines_a_norm_that_is_none(self):
        # inf{t: E exp(x²/t) ≤ 2} is 8/3 for N(0, 1) and four times that for N(0, 4); a norm doubles. x²/t² is meant.
        def printed(variance):
            return 2 * variance / (1 - 0.25)  # E exp(x²/t) = (1 - 2·variance/t)^-½

        x = np.random.default_rng(0).normal(size=400_000)
        assert np.mean(np.exp(x**2 / (2 * printed(1.0)))) == pytest.approx((1 - 1 / printed(1.0)) ** -0.5, rel=0.01)
        assert (1 - 2 / printed(1.0)) ** -0.5 == pytest.approx(2.0)
        assert printed(4.0) == 4 * printed(1.0)

    def test_lemmas_d3_to_d6_bound_the_norms_from_the_wrong_side(self):
        # What they state, |x·x'| = o(d) and ‖x‖² = O(d), holds for records on a circle of radius 1, which are no
        # nearer to orthogonal however many zeros follow; Assumption 3.1 asks for ‖x‖² = Ω(d).
        turn = np.random.default_rng(0).uniform(0, 2 * np.pi, 5)
        for d in (100, 10_000):
            x = np.zeros((5, d))
            x[:, 0], x[:, 1] = np.cos(turn), np.sin(turn)
            orthogonality = margin.orthogonality(x)
            assert orthogonality.delta <= 1
            assert orthogonality.Delta == pytest.approx(1.0)
            assert orthogonality.ratio > 4

    def test_lemma_d6_norms_of_a_mixture_have_a_centre_per_component(self):
        # The proof has ‖x‖² within d^ε of its mean over the mixture, but for a vanishing chance (and prints the
        # chance of the complement). With means 0 and ‖μ‖² = d^.9 every record is further off than d^.6.
        d = 10**6
        squared, distance = d**0.9, d**0.6
        mean = d + squared / 2
        within = [law.cdf(mean + distance) - law.cdf(mean - distance) for law in (chi2(d), ncx2(d, squared))]
        assert max(within) < 1e-12
        assert ncx2(d, squared).ppf(1e-6) > d / 2  # what is needed stands

    def test_a_fresh_record_beside_the_training_set_is_bounded_too(self):
        """Of n training records and a fresh one (n + 1)·n/2 pairs are held below δ, at τ over that each."""
        result = margin.assumption(margin.Sphere(1000), n=20, tau=0.1)
        pair = beta.isf(0.1 / (21 * 20 / 2), 0.5, 999 / 2)
        assert result.delta == pytest.approx(1000 * math.sqrt(pair))

    @pytest.mark.parametrize(
        "source",
        [margin.Sphere(1000), margin.Sphere(100_000), margin.Gaussian(50_000), margin.Mixture(np.eye(3, 20_000))],
        ids=["sphere", "large sphere", "gaussian", "mixture"],
    )
    def test_what_is_stated_of_a_source_holds_of_a_draw_and_is_not_far_from_it(self, source):
        stated, orthogonality = (
            margin.assumption(source, n=7, tau=0.001),
            margin.orthogonality(source.sample(8, seed=1)),
        )
        assert stated.ratio == pytest.approx(7 * stated.delta / stated.Delta)
        assert orthogonality.delta <= stated.delta <= 8 * orthogonality.delta
        assert orthogonality.Delta * (1 + 1e-12) >= stated.Delta >= 0.8 * orthogonality.Delta
        assert orthogonality.ratio * 7 / 8 <= stated.ratio <= 10 * orthogonality.ratio
        assert stated.says_something == (stated.bound < 1)
        assert stated.bound > stated.ratio
        # Fewer records, or a weaker promise, are nearer to orthogonal.
        fewer, weaker = margin.assumption(source, n=3, tau=0.001), margin.assumption(source, n=7, tau=0.5)
        assert max(fewer.ratio, weaker.ratio) < stated.ratio
        assert max(fewer.bound, weaker.bound) <= stated.bound

    def test_means_too_far_for_the_quantiles_are_refused(self):
        assert margin.Gaussian(3, mean=1e6).sample(2, seed=0).shape == (2, 3)
        for mean in (1.1e6, -1.5e6):
            with pytest.raises(dv.InputError, match="mean"):
                margin.Gaussian(3, mean=mean)
            with pytest.raises(dv.InputError, match=r"no value beyond ±1e\+06"):
                margin.Mixture(np.full((1, 3), mean))
