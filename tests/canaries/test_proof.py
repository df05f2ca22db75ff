"""What a proof from canaries answers, and when, and what is refused."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import divulge as dv
from divulge import canaries
from divulge.canaries import GradientCanaries, proof, prove
from divulge.canaries import canary_kinds as kinds
from divulge.canaries.proof import prove_again
from divulge.evaluation import (
    GaussianMechanism,
    SubsampledGaussian,
    epsilon_fixed_count,
    epsilon_one_run,
    smallest_violation,
)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.1), (3.0, 1e-3)])
def test_the_errors_that_a_claim_allows_are_bounded_by_two_lines(epsilon, delta):
    claim = dv.Claim(epsilon, delta)
    for fpr in np.linspace(0, 1, 21):
        lines = 1 - delta - math.exp(epsilon) * fpr, math.exp(-epsilon) * (1 - delta - fpr)
        assert claim.fnr(fpr) == pytest.approx(max(0.0, *lines))
    assert str(claim) == f"({epsilon:g}, {delta:g})-DP"
    assert dv.Claim(64, 0).epsilon == 64
    with pytest.raises(dv.InputError, match=r"claim\.epsilon"):
        dv.Claim(64.1, 0)


def draw(shift, n=100, seed=0, design="coins"):
    rng = np.random.default_rng(seed)
    included = rng.permutation(n) < n // 2 if design == "fixed" else rng.random(n) < 0.5
    return rng.normal(size=n) + shift * included, included


@pytest.mark.parametrize("family", [None, "gaussian"])
@pytest.mark.parametrize("design", ["coins", "fixed"])
@pytest.mark.parametrize(("shift", "claimed"), [(6.0, 1.0), (6.0, 5.0), (0.5, 1.0), (0.0, 20.0)])
def test_the_answer_compares_the_bound_and_that_of_the_best_guesses_with_the_claim(shift, claimed, design, family):
    scores, included = draw(shift, design=design)
    best = np.isin(np.arange(100), np.argsort(-scores)[: included.sum()])
    bound = epsilon_one_run if design == "coins" else epsilon_fixed_count
    found = prove(scores, included, claim=dv.Claim(claimed, 1e-5), design=design, family=family, confidence=0.9)
    low, most = (bound(scores, each, 1e-5, 0.9, family=family).low for each in (included, best))
    assert (found.bound.low, found.most) == (low, most)
    detectable = None
    if low > claimed:
        answer = "violated"
    elif most > claimed:
        answer = "consistent"
        if design == "coins":
            power = smallest_violation(100, claimed, 1e-5, power=0.8, confidence=0.9, family=family)
            answer, detectable = (answer, power.epsilon) if power else ("not testable", None)
    else:
        answer = "not testable"
    assert (found.answer, found.would_see) == (answer, detectable)
    others = {"of any mechanism": None, "if Gaussian": GaussianMechanism()}
    given = GaussianMechanism() if family else None
    assert {name: each.low for name, each in found.others.items()} == {
        name: bound(scores, included, 1e-5, 0.9, family=each).low for name, each in others.items() if each != given
    }
    inclusion = "each canary was included by its own fair coin" if design == "coins" else "a random half of the"
    assert inclusion in str(found.guarantee)
    assert found.guarantee.level == pytest.approx(0.1)
    assert (found.constant, found.settings.design, found.settings.delta) == (False, design, 1e-5)
    assert found.settings.family == ("gaussian" if family else "none")


def test_a_bound_equal_to_the_claim_violates_nothing():
    scores, included = draw(6.0)
    low = prove(scores, included, delta=1e-5).bound.low
    assert prove(scores, included, claim=dv.Claim(low, 1e-5)).answer != "violated"
    assert prove(scores, included, claim=dv.Claim(low - 1e-6, 1e-5)).answer == "violated"
    most = prove(scores, included, delta=1e-5).most
    assert prove(scores, included, claim=dv.Claim(most, 1e-5)).answer == "not testable"


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_what_would_have_been_found_is_known_without_ties_above_delta_zero(tied, delta):
    scores, included = draw(0.0, 200)
    scores[0] = scores[1] if tied else scores[0]
    found = prove(scores, included, claim=dv.Claim(0.5, delta))
    assert found.answer == "consistent"
    assert (found.would_see is None) == (tied or delta == 0)
    assert set(found.others) == ({"if Gaussian"} if delta else set())


def test_one_delta_is_given_and_both_sides_are_needed():
    scores, included = draw(1.0)
    assert prove(scores, included).settings.delta == 0
    assert prove(scores, included, delta=0.01).settings.delta == 0.01
    with pytest.raises(dv.InputError, match="delta: the claim has one; give only one of them"):
        prove(scores, included, claim=dv.Claim(1, 0), delta=0.0)
    for values, count in ((np.ones(5, bool), 5), (np.zeros(5, bool), 0)):
        with pytest.raises(dv.InputError, match=f"x: some must be in and some out, got {count} of 5 in"):
            proof.check_both_sides(values, "x")
    proof.check_both_sides(np.arange(5) == 0, "x")
    proof.check_both_sides(np.arange(5) > 0, "x")
    with pytest.raises(dv.InputError, match="seed"):
        prove(scores, included, seed=-1)
    with pytest.raises(dv.InputError, match="sides: pairs of a fixed number are guessed on 'both', got 'in'"):
        prove(scores, included, design="fixed", sides="in")


@pytest.mark.parametrize("family", [None, "gaussian", SubsampledGaussian(0.5)])
@pytest.mark.parametrize("claim", [None, dv.Claim(1.0, 1e-4)])
def test_a_proof_is_repeated_from_its_settings(family, claim):
    scores, included = draw(2.0)
    scores = scores.round(1)
    first = prove(scores, included, claim=claim, delta=None if claim else 1e-4, family=family, confidence=0.9, seed=7)
    stored = SimpleNamespace(
        settings=first.settings, claimed=claim and claim.epsilon, delta=claim and claim.delta, bound=first.bound
    )
    again = prove_again(scores, included, stored)
    assert (again.bound, again.most, again.settings, again.answer) == (
        first.bound, first.most, first.settings, first.answer,
    )  # fmt: skip
    assert again.claim == claim
    assert first.settings.seed == 7
    assert (first.settings.rate, first.settings.steps) == ((0.5, 1) if hasattr(family, "rate") else (None, None))


LABELLED = dv.Records(np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2)


def constant_target(x):
    return np.zeros((len(x), 2))


@pytest.mark.parametrize("recipe", ["quantile-trees", "rmia", "mrad", "transductive", "loss"])
def test_a_recipe_that_learns_is_refused_without_records_to_learn_from(recipe):
    planted = canaries.make(LABELLED, count=10, seed=0)
    if recipe == "loss":
        assert not np.ptp(canaries.audit(constant_target, planted, recipe=recipe).scores)
        return
    with pytest.raises(dv.InputError, match=r"population: '.*' learns from other records, and none are given"):
        canaries.audit(constant_target, planted, recipe=recipe)


class Optimizer:
    """An optimizer that adds to each gradient the noise it is given, as that of Opacus does."""

    def __init__(self, sizes, noise=0.0, **declared):
        self.params = [SimpleNamespace(summed_grad=torch.zeros(size), grad=None) for size in sizes]
        self.noise = noise
        self.__dict__ |= declared

    def add_noise(self):
        for parameter in self.params:
            parameter.grad = parameter.summed_grad + self.noise


def test_an_optimizer_gives_its_noise_and_must_clip_to_the_length_of_the_canaries():
    for declared, expected in (({"noise_multiplier": 1.5, "max_grad_norm": 2.0}, 1.5), ({}, None)):
        tested = GradientCanaries(10, clip=2.0, seed=0)
        optimizer = Optimizer([6, 8], **declared)
        tested.attach(optimizer)
        optimizer.add_noise()
        assert (tested.noise, tested.steps) == (expected, 1)
        np.testing.assert_array_equal(tested.scores(), tested.included * 1.0)
    stated = GradientCanaries(10, clip=2.0, noise=0.5, seed=0)
    stated.attach(Optimizer([20], noise_multiplier=3.0))
    assert stated.noise == 0.5
    with pytest.raises(dv.InputError, match="clip: the optimizer clips to 1, the canaries are 2 long"):
        GradientCanaries(10, clip=2.0).attach(Optimizer([20], max_grad_norm=1.0))
    for partial in (SimpleNamespace(params=[]), SimpleNamespace(add_noise=print)):
        with pytest.raises(dv.InputError, match="optimizer: Opacus' DPOptimizer is needed"):
            GradientCanaries(10, clip=2.0).attach(partial)


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("False", "True"), [False, True]),
        (("-1", "7"), [-1, 7]),
        (("01", "2"), ["01", "2"]),
        (("a", "2"), ["a", "2"]),
        (("True", "x"), ["True", "x"]),
    ],
)
def test_labels_are_told_as_the_user_has_them(names, values):
    records = dv.Records(np.zeros((2, 1)), list(names), class_names=names)
    assert kinds.label_values(records).tolist() == values
    assert kinds.label_values(dv.Records(np.zeros((2, 1)))) is None


def test_kinds_of_documents_and_of_numbers_are_not_exchanged():
    texts, numbers = dv.Records(["a b", "c d"]), LABELLED
    rng = np.random.default_rng(0)
    with pytest.raises(dv.InputError, match="kind: 'unigram' canaries are made of documents, and the records are not"):
        kinds.build_records("unigram", numbers, 8, rng)
    with pytest.raises(dv.InputError, match="kind: 'random' canaries are made of numbers, and the records are not"):
        kinds.build_records("random", texts, 8, rng)
    assert kinds.are_documents(texts)
    assert not kinds.are_documents(numbers)
