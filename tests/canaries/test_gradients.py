"""Gradient canaries in training loops: DP-SGD that keeps its claim, and classic mistakes that break it."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import divulge as dv
from divulge.canaries import GradientCanaries
from divulge.evaluation import GaussianMechanism, SubsampledGaussian

DELTA = 1e-5


def loop(canaries, steps, noise, *, reuse=False, seed=0):
    """A loop of one's own: gradients of no record, noise as given; ``reuse`` adds one draw at every step."""
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(shape, generator=generator) for shape in ((30, 20), (7,))]
    for _ in range(steps):
        total = [torch.zeros(30, 20), torch.zeros(7)]
        canaries.plant(total)
        if not reuse:
            draw = [torch.randn(each.shape, generator=generator) for each in total]
        canaries.observe([each + noise * canaries.clip * part for each, part in zip(total, draw, strict=True)])
    return canaries


@pytest.mark.parametrize(("rate", "family"), [(1.0, "gaussian"), (0.3, SubsampledGaussian(0.3))])
def test_a_correct_loop_is_called_broken_in_at_most_5_percent_of_games(rate, family):
    """30 games of 100 canaries at exactly the claimed ε; 1e-4 to fail in a true world."""
    steps = 9 if rate == 1 else 1
    truth = GaussianMechanism().epsilon(math.sqrt(9) / 2.0, DELTA) if rate == 1 else family.epsilon(0.5, DELTA)
    wrong = sum(
        loop(GradientCanaries(100, clip=2.0, rate=rate, seed=seed), steps, 2.0, seed=seed)
        .audit(claim=dv.Claim(truth, DELTA), family=family)
        .proof.answer
        == "violated"
        for seed in range(30)
    )
    assert wrong <= binom.isf(1e-4, 30, 0.05)


def test_much_of_the_truth_is_proven():
    result = loop(GradientCanaries(600, clip=1.0, seed=1), 4, 2.0).audit(family="gaussian", claim=dv.Claim(8.0, DELTA))
    truth = GaussianMechanism().epsilon(1.0, DELTA)
    assert 0.5 * truth < result.epsilon.low < truth


class TestMistakes:
    """What each mistake spends is far above the claim; the audit says so."""

    CLAIM = dv.Claim(GaussianMechanism().epsilon(math.sqrt(16) / 8.0, DELTA), DELTA)  # 16 steps at σ = 8

    def test_noise_that_is_not_scaled_by_the_clip(self):
        canaries = GradientCanaries(600, clip=10.0, seed=2)
        assert loop(canaries, 16, 8.0 / 10.0).audit(claim=self.CLAIM, family="gaussian").proof.answer == "violated"

    def test_one_noise_draw_that_is_used_at_every_step(self):
        claim = dv.Claim(SubsampledGaussian(0.5, 64).epsilon(1 / 8.0, DELTA), DELTA)
        for reuse, answer in ((True, "violated"), (False, "consistent")):
            result = loop(GradientCanaries(600, clip=1.0, rate=0.5, seed=3), 64, 8.0, reuse=reuse)
            assert result.audit(claim=claim, score="spread").proof.answer == answer

    def test_a_sampling_rate_that_the_accountant_was_not_told(self):
        gaussian, true = SubsampledGaussian(0.01, 100), 0.5
        claim = dv.Claim(gaussian.epsilon(1.0, DELTA), DELTA)
        canaries = GradientCanaries(600, clip=1.0, rate=true, seed=4)
        assert loop(canaries, 100, 1.0).audit(claim=claim, family="gaussian").proof.answer == "violated"

    def test_the_same_loop_without_a_mistake(self):
        canaries = GradientCanaries(600, clip=1.0, seed=2)
        assert loop(canaries, 16, 12.0).audit(claim=self.CLAIM, family="gaussian").proof.answer == "consistent"


def test_the_optimizer_of_opacus_is_tested():
    """Noise as declared, and a tenth of it."""
    opacus = pytest.importorskip("opacus")
    from opacus.optimizers import DPOptimizer

    answers = []
    for noise in (4.0, 0.2):
        torch.manual_seed(0)
        module = opacus.GradSampleModule(nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 2)))
        optimizer = DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.1),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            expected_batch_size=16,
            generator=torch.Generator().manual_seed(0),
        )
        canaries = GradientCanaries(600, clip=1.0, seed=0)
        canaries.attach(optimizer)
        for _ in range(4):
            optimizer.zero_grad()
            x = torch.randn(16, 20, requires_grad=True)
            nn.functional.cross_entropy(module(x), torch.randint(0, 2, (16,))).backward()
            optimizer.step()
        assert canaries.steps == 4
        claim = dv.Claim(GaussianMechanism().epsilon(1.0, DELTA), DELTA)
        answers.append(canaries.audit(claim=claim, family="gaussian").proof.answer)
    assert answers == ["consistent", "violated"]


def test_the_likelihood_is_that_of_every_step():
    """By its definition, from what was released; and it sees more of rare use than the sum does."""
    rate, noise, steps = 0.1, 0.5, 30
    canaries, releases = GradientCanaries(300, clip=2.0, rate=rate, noise=noise, seed=5), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        total = [torch.zeros(300)]
        canaries.plant(total)
        released = [total[0] + 2.0 * noise * torch.randn(300, generator=generator)]
        canaries.observe(released)
        releases.append(released[0].numpy()[canaries._positions_in(released)[0][1]] / 2.0)
    x = np.array(releases, np.float64)
    ratios = np.log(1 - rate + rate * np.exp((x - 0.5) / noise**2)).sum(0)
    np.testing.assert_allclose(canaries.scores("likelihood"), ratios, atol=1e-4)
    family = SubsampledGaussian(rate, steps)
    claim = dv.Claim(family.epsilon(1 / noise, DELTA), DELTA)
    lows = [canaries.audit(claim=claim, family=family, score=score).epsilon.low for score in ("likelihood", "sum")]
    assert claim.epsilon > lows[0] > lows[1]


def test_a_likelihood_needs_the_noise():
    with pytest.raises(dv.InputError, match="needs a noise multiplier above 0"):
        loop(GradientCanaries(9, clip=1.0), 1, 1.0).scores("likelihood")
    with pytest.raises(dv.InputError, match="noise: must"):
        GradientCanaries(9, clip=1.0, noise=-1.0)


def test_each_canary_is_a_parameter_of_its_own():
    canaries = GradientCanaries(607, clip=3.0, seed=0)
    canaries.included[:] = True
    total = [torch.zeros(30, 20), torch.zeros(7)]
    canaries.plant(total)
    assert all((each == 3.0).all() for each in total)
    canaries.observe(total)
    np.testing.assert_array_equal(canaries.scores(), np.ones(607))


def test_what_cannot_be_is_named():
    with pytest.raises(dv.InputError, match="count: must be at most 4"):
        GradientCanaries(9, clip=1.0).plant([torch.zeros(4)])
    with pytest.raises(dv.InputError, match="no step was observed"):
        GradientCanaries(9, clip=1.0).audit()
    with pytest.raises(dv.InputError, match="score: "):
        loop(GradientCanaries(9, clip=1.0), 1, 1.0).audit(score="mean")
    with pytest.raises(dv.InputError, match="DPOptimizer is needed"):
        GradientCanaries(9, clip=1.0).attach(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1))
    with pytest.raises(dv.InputError, match="rate: must lie"):
        GradientCanaries(9, clip=1.0, rate=0.0)
