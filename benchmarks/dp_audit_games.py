"""Simulated games: how often each bound exceeds the true ε, and how much of it is proven."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom

from divulge.evaluation import (
    GaussianMechanism,
    SubsampledGaussian,
    epsilon_fixed_count,
    epsilon_lower_bound,
    epsilon_one_run,
    one_run_bound,
)
from divulge.evaluation.epsilon import GuessRule
from divulge.evaluation.families import largest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DELTA = 1e-5
ONCE, OFTEN = SubsampledGaussian(0.3), SubsampledGaussian(0.1, steps=8)
EPSILONS, SIZES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0), (100, 1000, 10_000)
_SEARCHED = 3  # games a row whose bound is searched for
_ALPHA = 1e-4  # probability that any cell of a true world is called beyond chance


@lru_cache
def strength(family, epsilon):
    """The strength at which a family is (ε, δ)-DP."""
    return largest(lambda s: family.epsilon(s, DELTA) <= epsilon)


def randomised_response(rng, used, epsilon):
    """The answer to each coin, true with probability e^ε / (1 + e^ε); which of equal answers scores higher is noise."""
    return np.where(rng.random(len(used)) < expit(epsilon), used, ~used) + 0.1 * rng.random(len(used))


def gaussian(rng, used, epsilon):
    """N(0, 1), shifted by μ where the coin says so."""
    return rng.normal(size=len(used)) + strength(GaussianMechanism(), epsilon) * used


def subsampled(rng, used, epsilon, family):
    """The log-likelihood ratio of all steps, each of which uses the record with the family's rate."""
    shift, ratio = strength(family, epsilon), np.zeros(len(used))
    for _ in range(family.steps):
        z = rng.normal(size=len(used)) + shift * (used & (rng.random(len(used)) < family.rate))
        ratio += np.log1p(family.rate * np.expm1(shift * z - shift**2 / 2))
    return ratio


@dataclass(frozen=True)
class Mechanism:
    """How scores come from coins, and the bounds that hold of it."""

    name: str
    scores: Callable
    bounds: dict[str, Callable]
    fixed: bool = False

    def game(self, rng, n, epsilon):
        """Scores of one game, and the coins."""
        used = rng.permutation(n) < n // 2 if self.fixed else rng.random(n) < 0.5
        return self.scores(rng, used, epsilon), used


ANY = partial(epsilon_one_run, delta=DELTA)
F_DP = partial(ANY, family="gaussian", bound="f-dp")
MECHANISMS = (
    Mechanism("randomised response", randomised_response, {"any": partial(epsilon_one_run, delta=0.0)}),
    Mechanism(
        "Gaussian",
        gaussian,
        {
            "any": ANY,
            "any, one-sided": partial(ANY, sides="in"),
            "f-DP": F_DP,
            "tight": partial(ANY, family="gaussian"),
            "tight, one-sided": partial(ANY, family="gaussian", sides="in"),
        },
    ),
    Mechanism(
        "Gaussian, a fixed number in",
        gaussian,
        {
            "any": partial(epsilon_fixed_count, delta=DELTA),
            "tight": partial(epsilon_fixed_count, delta=DELTA, family="gaussian"),
            "many runs, any": partial(epsilon_lower_bound, delta=DELTA),
            "many runs, Gaussian": partial(epsilon_lower_bound, delta=DELTA, family="gaussian"),
        },
        fixed=True,
    ),
    *(
        Mechanism(
            f"Gaussian, {family.steps} step{'s' * (family.steps > 1)} at rate {family.rate}",
            partial(subsampled, family=family),
            {
                "any": ANY,
                "tight": partial(ANY, family=family),
                "tight, one-sided": partial(ANY, family=family, sides="in"),
            },
        )
        for family in (ONCE, OFTEN)
    ),
)


def cells() -> Iterator[tuple[float, int, Mechanism]]:
    """Every ε, number of canaries and mechanism."""
    return itertools.product(EPSILONS, SIZES, MECHANISMS)


def level(rule, epsilon, swaps):
    """The level of a rule at which its mechanism is (ε, δ)-DP; a swap of two records counts twice."""
    if rule.family is None:
        return epsilon
    return strength(rule.family, epsilon) * (2 if swaps else 1)


@contextmanager
def decided(epsilon):
    """Bounds that are not searched for: infinite where the truth is refuted, which is when a bound exceeds it, or 0.

    The scores of a game are sorted once for all bounds.
    """

    @cache
    def refuted(rule, canaries, guesses, wrong, error, swaps):
        return rule.refutes(level(rule, epsilon, swaps), canaries, guesses, wrong, error, swaps=swaps)

    @cache
    def max_wrong_for(rule, canaries, guesses, error):
        # The least number of wrong guesses that does not refute; fewer do.
        return bisect_left(
            range(guesses + 1), True, key=lambda u: not refuted(rule, canaries, guesses, u, error, False)
        )

    def bound(rule, canaries, guesses, wrong, error, *, swaps=False):
        if not guesses:
            return 0.0
        if swaps:  # the number of pairs differs from game to game, that of canaries does not
            return np.inf if refuted(rule, canaries, guesses, wrong, error, True) else 0.0
        return np.inf if wrong < max_wrong_for(rule, canaries, guesses, error) else 0.0

    cached, ordered = {}, epsilon._ascending_order

    def once(values, seed):
        key = (values.tobytes(), seed)
        if key not in cached:
            cached.clear()
            cached[key] = ordered(values, seed)
        return cached[key]

    with patch.object(GuessRule, "epsilon", bound), patch.object(epsilon, "_ascending_order", once):
        yield


def play(mechanism, rng, n, epsilon, lows, i):
    """One game: every bound's value into place ``i``."""
    scores, used = mechanism.game(rng, n, epsilon)
    for bound, prove in mechanism.bounds.items():
        lows[bound][i] = prove(scores, used).low


def games(runs, epsilons=EPSILONS, sizes=SIZES):
    """Share of games in which the bound exceeds the truth, and the median share of the truth that is proven.

    A game depends on its row alone, so parts that are run apart are those of the whole.
    """
    total = sum(len(mechanism.bounds) for _, _, mechanism in cells())
    print(
        f"{runs} games per row, 95 % bounds, δ = {DELTA:g} (0 for randomised response). The median is that of the "
        f"first {_SEARCHED} games; for all of them it is asked whether the truth is refuted.\n"
    )
    print("| ε | canaries | mechanism | bound | above ε | median bound / ε |")
    print("|---|---|---|---|---|---|")
    beyond, most_wrong, n_done = 0, 0, 0
    for row, (epsilon, n, mechanism) in enumerate(cells()):
        if epsilon not in epsilons or n not in sizes:
            continue
        rng = np.random.default_rng(row)
        lows = {bound: np.empty(runs) for bound in mechanism.bounds}
        for i in range(_SEARCHED):
            play(mechanism, rng, n, epsilon, lows, i)
        with decided(epsilon):
            for i in range(_SEARCHED, runs):
                play(mechanism, rng, n, epsilon, lows, i)
        for bound, low in lows.items():
            wrong = int((low > epsilon + 1e-5).sum())
            most_wrong, n_done = max(most_wrong, wrong), n_done + 1
            beyond += wrong > binom.isf(_ALPHA / total, runs, 0.05)
            share = "" if epsilon == 0 else f"{np.median(low[:_SEARCHED]) / epsilon:.2f}"
            print(f"| {epsilon:g} | {n} | {mechanism.name} | {bound} | {wrong / runs:.4f} | {share} |", flush=True)
    print(f"\n{n_done} of {total} rows; the largest share above ε is {most_wrong / runs:.4f}, where .05 is stated.")
    print(f"Rows beyond chance (at {_ALPHA:g} over all {total} rows): {beyond}.")


def published():
    """Known answers from counts alone."""
    counts = {"canaries": 10_000, "guesses": 2_500, "wrong": 364, "delta": DELTA}
    print("| bound | ε ≥ |\n|---|---|")
    for name, options in {
        "any (Steinke et al. 2023; published 1.674)": {},
        "f-DP (Mahloujifar et al. 2024)": {"family": "gaussian", "bound": "f-dp"},
        "tight (published 4.137)": {"family": "gaussian"},
    }.items():
        print(f"| {name} | {one_run_bound(**counts, **options).low:.3f} |")
    print(f"| truth, μ = 1 | {GaussianMechanism().epsilon(1.0, DELTA):.3f} |")


def quantiles(mu):
    """10,000 members at normal quantiles shifted by μ, and 10,000 non-members at them."""
    z = ndtri((np.arange(10_000) + 0.5) / 10_000)
    return np.append(z + mu, z), np.arange(20_000) < 10_000
