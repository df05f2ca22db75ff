"""Bounds on ε from one training run: the published numbers, known mechanisms, and how often they are wrong."""

import math

import numpy as np
import pytest
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

import divulge as dv
from divulge.evaluation import GaussianMechanism, SubsampledGaussian, epsilon, epsilon_one_run, one_run_bound

PUBLISHED = {"canaries": 10_000, "guesses": 2_500, "wrong": 364, "delta": 1e-5}


def test_the_published_numbers():
    assert one_run_bound(**PUBLISHED).low == pytest.approx(1.674, abs=5e-4)
    assert one_run_bound(**PUBLISHED, family="gaussian").low == pytest.approx(4.137, abs=5e-4)
    assert GaussianMechanism().epsilon(1.0, 1e-5) == pytest.approx(4.377, abs=5e-4)


class TestFamilies:
    def test_every_step_is_gaussian_where_each_uses_the_record(self):
        for steps in (1, 4, 9):
            epsilon = SubsampledGaussian(1.0, steps).epsilon(1 / math.sqrt(steps), 1e-5)
            assert epsilon == pytest.approx(GaussianMechanism().epsilon(1.0, 1e-5), abs=1e-3)

    def test_an_accountant_agrees(self):
        accountants = pytest.importorskip("opacus.accountants")
        accountant = accountants.PRVAccountant()
        accountant.history = [(1.0, 0.1, 100)]
        upper = accountant.get_epsilon(1e-5)
        assert upper - 0.03 < SubsampledGaussian(0.1, 100).epsilon(1.0, 1e-5) <= upper

    @pytest.mark.parametrize("family", [GaussianMechanism(), SubsampledGaussian(0.2), SubsampledGaussian(0.2, 5)])
    def test_a_stronger_mechanism_leaks_more(self, family):
        strengths = np.linspace(0, 4, 9)
        assert (np.diff([family.epsilon(strength, 1e-5) for strength in strengths]) > 0).all()
        errors = [family.losses(strength).errors().mean(np.array([0.3]))[0] for strength in strengths]
        assert errors[0] == pytest.approx(0.5)
        assert (np.diff(errors) < 0).all()

    @pytest.mark.parametrize("share", [1.0, 0.25, 0.01])
    def test_the_error_of_the_most_telling_is_the_gaussian_integral(self, share):
        """P(wrong, |z - μ/2| > t) = Φ(-t - μ/2), and P(|z - μ/2| > t) adds Φ(-t + μ/2)."""
        cuts = np.linspace(0, 8, 200_001)
        tail = ndtr(-cuts - 0.75) + ndtr(-cuts + 0.75)
        cut_point = cuts[np.argmin(np.abs(tail - share))]
        error = GaussianMechanism().losses(1.5).errors().mean(np.array([share]))[0]
        assert error == pytest.approx(ndtr(-cut_point - 0.75) / share, rel=2e-3)


class TestSteinke:
    @pytest.mark.parametrize(
        ("n", "guesses", "wrong", "delta"),
        [(100, 60, 6, 1e-4), (50, 50, 2, 1e-3), (1000, 200, 70, 1e-5), (1000, 4, 0, 0.0), (9, 9, 0, 1e-4)],
    )
    def test_the_bound_is_where_the_papers_loop_gives_the_allowed_error(self, n, guesses, wrong, delta):
        """Steinke et al. 2023, algorithm 1: a p-value for each ε, of which the largest that is refuted is reported."""

        def p_value(epsilon):
            right, chance = guesses - wrong, float(expit(epsilon))
            alpha = total = 0.0
            for i in range(1, right + 1):
                total += binom.pmf(right - i, guesses, chance)
                alpha = max(alpha, total / i)
            return binom.sf(right - 1, guesses, chance) + alpha * delta * 2 * n

        found = one_run_bound(canaries=n, guesses=guesses, wrong=wrong, delta=delta).low
        assert (found > 0) == (p_value(1e-3) <= 0.05)
        if found:
            assert p_value(found - 1e-3) <= 0.05 < p_value(found + 1e-3)


class TestTight:
    @pytest.mark.parametrize("sides", epsilon.SIDES)
    def test_the_law_of_wrong_guesses_is_that_of_the_game(self, sides):
        """20,000 games of 60 canaries, 15 guesses, μ = 1: the share of games with so few errors (4.5 sd)."""
        rng, games = np.random.default_rng(0), 20_000
        used = rng.random((games, 60)) < 0.5
        z = rng.normal(size=used.shape) + used
        signal = np.abs(z - 0.5) if sides == "both" else z
        guessed = np.argsort(-signal, axis=1)[:, :15]
        says_in = np.take_along_axis((z > 0.5) | (sides == "in"), guessed, 1)
        wrong = (says_in != np.take_along_axis(used, guessed, 1)).sum(1)
        for max_wrong in (0, 1, 3, 5):
            frequency = (wrong <= max_wrong).mean()
            rule = epsilon.GuessRule.from_options("gaussian", "tight", sides, 1e-5)
            slack = 4.5 * math.sqrt(frequency * (1 - frequency) / games) + 1e-3
            assert rule.refutes(1.0, 60, 15, max_wrong, frequency + slack)
            assert not rule.refutes(1.0, 60, 15, max_wrong, frequency - slack)

    def test_all_guessed_is_a_binomial(self):
        low = one_run_bound(canaries=500, guesses=500, wrong=150, delta=1e-5, family="gaussian").low
        strengths = np.linspace(0.5, 1.5, 100_001)
        refuted = binom.cdf(150, 500, ndtr(-strengths / 2)) <= 0.05
        assert low == pytest.approx(GaussianMechanism().epsilon(strengths[refuted].max(), 1e-5), abs=1e-3)


class TestFDP:
    def test_one_canary_is_the_best_test_between_two_laws(self):
        """P(right) of one guess is at most Φ(μ/2): not refuted a little above it, refuted a little below."""
        rule = epsilon.GuessRule.from_options("gaussian", "f-dp", "both", 1e-5)
        for strength in (0.5, 1.0, 3.0):
            best = float(ndtr(strength / 2))
            assert rule.refutes(strength, 1, 1, 0, best + 1e-6)
            assert not rule.refutes(strength, 1, 1, 0, best - 1e-6)

    def test_it_lies_between_the_bounds_that_assume_less_and_more(self):
        lows = [one_run_bound(**PUBLISHED, **options).low for options in ({}, {"family": "gaussian", "bound": "f-dp"})]
        assert lows[0] < lows[1] < one_run_bound(**PUBLISHED, family="gaussian").low


def games(mechanism, canaries, runs, seed):
    """Scores and coins of ``runs`` games."""
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        used = rng.random(canaries) < 0.5
        yield mechanism(rng, used), used


def gaussian(mu):
    return lambda rng, used: rng.normal(size=len(used)) + mu * used


def response(epsilon):
    def mechanism(rng, used):
        return np.where(rng.random(len(used)) < expit(epsilon), used, ~used) + 0.1 * rng.random(len(used))

    return mechanism


def subsampled(rate, strength):
    return lambda rng, used: rng.normal(size=len(used)) + strength * (used & (rng.random(len(used)) < rate))


@pytest.mark.parametrize(
    ("mechanism", "truth", "options"),
    [
        (gaussian(0.0), 0.0, {"family": "gaussian"}),
        (gaussian(0.0), 0.0, {"family": "gaussian", "bound": "f-dp"}),
        (gaussian(0.0), 0.0, {"sides": "in"}),
        (gaussian(1.0), GaussianMechanism().epsilon(1.0, 1e-5), {"family": "gaussian", "sides": "in"}),
        (gaussian(1.0), GaussianMechanism().epsilon(1.0, 1e-5), {"family": "gaussian", "bound": "f-dp"}),
        (response(1.0), 1.0, {}),
        (subsampled(0.3, 2.0), SubsampledGaussian(0.3).epsilon(2.0, 1e-5), {"family": SubsampledGaussian(0.3)}),
        (
            lambda rng, used: gaussian(1.0)(rng, used).round(1),
            GaussianMechanism().epsilon(1.0, 1e-5),
            {"family": "gaussian"},
        ),
    ],
)
def test_the_bound_exceeds_the_truth_in_at_most_5_percent_of_games(mechanism, truth, options):
    """150 games of 120 canaries, the number of guesses chosen and paid for; 1e-4 to fail in a true world."""
    lows = np.array([epsilon_one_run(z, used, 1e-5, **options).low for z, used in games(mechanism, 120, 150, 3)])
    assert (lows > truth + 1e-9).sum() <= binom.isf(1e-4, 150, 0.05)


class TestFixedCount:
    """Half of the canaries, drawn to a fixed number, were included: coins are not independent, pairs are."""

    def fixed(self, mechanism, canaries, runs, seed):
        rng = np.random.default_rng(seed)
        for _ in range(runs):
            used = rng.permutation(canaries) < canaries // 2
            yield mechanism(rng, used), used

    @pytest.mark.parametrize(
        ("mechanism", "truth", "options"),
        [
            (gaussian(0.0), 0.0, {}),
            (gaussian(0.0), 0.0, {"family": "gaussian"}),
            (gaussian(1.0), GaussianMechanism().epsilon(1.0, 1e-5), {"family": "gaussian"}),
            (response(1.0), 1.0, {}),
        ],
    )
    def test_the_bound_exceeds_the_truth_in_at_most_5_percent_of_games(self, mechanism, truth, options):
        """150 games of 60 canaries; 1e-4 to fail in a true world."""
        bounds = [
            dv.evaluation.epsilon_fixed_count(z, used, 1e-5, **options).low
            for z, used in self.fixed(mechanism, 60, 150, 6)
        ]
        assert (np.array(bounds) > truth + 1e-9).sum() <= binom.isf(1e-4, 150, 0.05)

    def test_it_sees_a_leak(self):
        for z, used in self.fixed(gaussian(2.0), 2000, 2, 7):
            assert dv.evaluation.epsilon_fixed_count(z, used, 1e-5).low > 0.5
            low = dv.evaluation.epsilon_fixed_count(z, used, 1e-5, family="gaussian").low
            assert 0.4 * GaussianMechanism().epsilon(2.0, 1e-5) < low < GaussianMechanism().epsilon(2.0, 1e-5)

    @pytest.mark.parametrize(("n", "seed"), [(32, 0), (252, 0), (200, 180)])
    def test_no_pairing_settles_what_is_left_to_chance(self, n, seed):
        """150 games of noise per size and seed: pairs drawn by score or by truth go wrong in up to 35 %; 1e-4."""
        rng = np.random.default_rng(9)
        wrong = sum(
            dv.evaluation.epsilon_fixed_count(rng.normal(size=n), rng.permutation(n) < n // 2, 1e-5, seed=seed).low > 0
            for _ in range(150)
        )
        assert wrong <= binom.isf(1e-4, 150, 0.05)


class TestPower:
    @pytest.mark.parametrize("family", [None, "gaussian"])
    def test_the_power_that_is_planned_is_the_one_that_is_had(self, family):
        """200 games of the planned size, and of a quarter of it: found in 80 % or more, and in fewer (4.5 sd)."""
        planned = dv.evaluation.canaries_needed(1.0, 6.0, 1e-5, family=family)
        mu = min(np.linspace(1, 2, 101), key=lambda strength: abs(GaussianMechanism().epsilon(strength, 1e-5) - 6))
        slack = 4.5 * math.sqrt(0.2 * 0.8 / 200)
        means = [
            np.mean([epsilon_one_run(z, u, 1e-5, family=family).low > 1.0 for z, u in games(gaussian(mu), n, 200, 8)])
            for n in (planned.canaries, max(8, planned.canaries // 4))
        ]
        assert means[0] >= 0.8 - slack
        assert means[1] < means[0]

    def test_the_smallest_violation_is_what_so_many_canaries_were_planned_for(self):
        planned = dv.evaluation.canaries_needed(1.0, 6.0, 1e-5)
        smallest = dv.evaluation.smallest_violation(planned.canaries, 1.0, 1e-5)
        assert 1.0 < smallest.epsilon <= 6.0

    def test_what_cannot_be_seen_is_said(self):
        assert dv.evaluation.canaries_needed(8.0, 8.001, 1e-5, family="gaussian") is None
        assert dv.evaluation.smallest_violation(8, 8.0, 1e-5) is None

    @pytest.mark.parametrize(("claimed", "true"), [(8.0, 8.0), (-1.0, 2.0), (1.0, float("nan")), (1.0, 65.0)])
    def test_impossible_plans_are_refused(self, claimed, true):
        with pytest.raises(dv.InputError, match=r"claimed|true"):
            dv.evaluation.canaries_needed(claimed, true, 1e-5)


def test_80_percent_of_the_truth_is_proven_of_10_000_canaries():
    for z, used in games(gaussian(1.0), 10_000, 3, 4):
        assert epsilon_one_run(z, used, 1e-5, family="gaussian").low > 0.8 * GaussianMechanism().epsilon(1.0, 1e-5)


def test_a_family_needs_no_less_than_a_multi_run_audit():
    """10,000 members at normal quantiles shifted by μ, 10,000 non-members at them: ahead of every published bound."""
    z = ndtri((np.arange(10_000) + 0.5) / 10_000)
    members = np.arange(20_000) < 10_000
    for mu, published in ((1, 2.165), (2, 4.722), (4, 9.134)):
        scores = np.append(z + mu, z)
        truth = GaussianMechanism().epsilon(mu, 1e-6)
        for low in (
            dv.evaluation.epsilon_lower_bound(scores, members, 1e-6, family="gaussian").low,
            epsilon_one_run(scores, members, 1e-6, family="gaussian").low,
        ):
            assert published < low < truth


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_the_gaussian_bound_of_many_runs_is_wrong_in_at_most_5_percent(mu):
    """150 sets of 300; ties by rounding in half of them; 1e-4 to fail in a true world."""
    rng, wrong = np.random.default_rng(5), 0
    for i in range(150):
        members = np.arange(300) < 150
        scores = (rng.normal(size=300) + mu * members).round(1 if i % 2 else 9)
        low = dv.evaluation.epsilon_lower_bound(scores, members, 1e-5, family="gaussian").low
        wrong += low > GaussianMechanism().epsilon(mu, 1e-5) + 1e-9
    assert wrong <= binom.isf(1e-4, 150, 0.05)


def test_ties_and_constants_tell_nothing():
    members = np.arange(100) < 50
    for options in ({}, {"family": "gaussian"}, {"family": "gaussian", "bound": "f-dp"}):
        assert epsilon_one_run(np.ones(100), members, 1e-5, **options).low == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"guesses": 101}, "guesses: must be at most 100"),
        ({"wrong": 41}, "wrong: must be at most 40"),
        ({"canaries": 0}, "canaries: must be at least 1"),
        ({"delta": 1.0}, "delta: must lie"),
        ({"family": "laplace"}, "family: "),
        ({"family": 3}, "GaussianMechanism()"),
        ({"bound": "tight"}, "the bound 'tight' needs a family"),
        ({"bound": "steinke", "family": "gaussian"}, "holds for every mechanism"),
        ({"bound": "f-dp", "family": SubsampledGaussian(0.1)}, "takes 'gaussian'"),
        ({"sides": "out"}, "sides: "),
        ({"family": "gaussian", "delta": 0.0}, "delta: must be above 0 for a family"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(dv.InputError, match=message):
        one_run_bound(**({"canaries": 100, "guesses": 40, "wrong": 3, "delta": 1e-5} | changes))


def test_coins_that_cannot_be_fair_are_refused():
    with pytest.raises(dv.InputError, match="no draw of fair coins"):
        epsilon_one_run(np.zeros(1000), np.random.default_rng(0).random(1000) < 0.9, sides="in")


def test_rare_use_over_many_steps_is_composed_finely():
    """Against grids 16 times finer: 1.295 and .157; a coarse one says 1.543 and .169."""
    assert SubsampledGaussian(1e-4, 10**6).epsilon(1.5, 1e-6) == pytest.approx(1.295, rel=0.02)
    assert SubsampledGaussian(1e-4, 10**5).epsilon(1.0, 1e-6) == pytest.approx(0.157, rel=0.02)


@pytest.mark.parametrize(("rate", "steps"), [(1e-4, 2), (1e-4, 100_000)])
def test_no_strength_is_refused(rate, steps):
    """However little or much a step tells: ε is finite, grows with the strength, and an audit ends with a bound."""
    epsilons = [SubsampledGaussian(rate, steps).epsilon(strength, 1e-5) for strength in (0.01, 1.0, 6.0, 64.0)]
    assert (np.diff(epsilons) >= 0).all()
    assert 0 <= epsilons[0] < epsilons[2] <= 64


def test_perfect_guesses_of_many_steps_are_no_error():
    family = SubsampledGaussian(0.1, 20)
    assert one_run_bound(canaries=1000, guesses=125, wrong=0, delta=1e-5, family=family).low > 10


def test_a_loss_that_settles_the_sum_is_cut_where_nothing_changes():
    """20 steps at strength 4, against the sum of draws: the share of losses above ε, where the record was used."""
    rng, rate, strength = np.random.default_rng(0), 0.1, 4.0
    used = rng.random((20_000, 20)) < rate
    z = rng.normal(size=used.shape) + strength * used
    loss = np.log1p(rate * np.expm1(strength * z - strength**2 / 2)).sum(1)
    law = SubsampledGaussian(rate, 20).losses(strength)
    for level in (-1.0, 0.0, 5.0, 15.0):
        share = (loss > level).mean()
        assert law.used[law.loss > level].sum() == pytest.approx(share, abs=4.5 * math.sqrt(0.25 / 20_000))


@pytest.mark.parametrize("rate", [0.0, -1.0, 1.5, float("nan")])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(dv.InputError, match="rate: must lie"):
        SubsampledGaussian(rate)
