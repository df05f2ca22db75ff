"""How often a true claim of (ε, δ) is called violated: mechanisms whose ε is known, audited by canaries in one run.

Run with ``python benchmarks/claims.py [--games 60] [--canaries 20 200]``. Scores are what the mechanism gives out about
each coin; no model is trained. Cells: mechanisms × ε of 0 to 3 × δ of 0 to .02 × coins or a fixed number × assumed
families and kinds of guesses.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import binom

import divulge as dv
from divulge.evaluation import GaussianMechanism, epsilon_fixed_count, epsilon_one_run
from divulge.evaluation.families import largest

Scores = np.ndarray
Mechanism = Callable[[np.random.Generator, np.ndarray, float, float], Scores]
REVEALED = 9.0  # the score of a coin that is given away with probability δ


def gaussian_shift(epsilon: float, delta: float) -> float:
    """Return the largest μ at which a Gaussian mechanism is (ε, δ)-private."""
    return largest(lambda mu: GaussianMechanism().epsilon(mu, delta) <= epsilon)


def randomised_response(rng: np.random.Generator, coins: np.ndarray, epsilon: float, _: float) -> Scores:
    """Each coin, or with probability 1/(1 + e^ε) the other."""
    return np.where(rng.random(len(coins)) < expit(epsilon), coins, ~coins) * 2.0 - 1.0


def with_slips(rng: np.random.Generator, coins: np.ndarray, epsilon: float, delta: float) -> Scores:
    """Randomised response in which each coin is given away for sure with probability δ."""
    answers = randomised_response(rng, coins, epsilon, delta)
    return np.where(rng.random(len(coins)) < delta, np.where(coins, REVEALED, -REVEALED), answers)


def all_or_nothing(rng: np.random.Generator, coins: np.ndarray, epsilon: float, delta: float) -> Scores:
    """With probability δ all coins at once are given away."""
    if rng.random() < delta:
        return np.where(coins, REVEALED, -REVEALED)
    return randomised_response(rng, coins, epsilon, delta)


def laplace(rng: np.random.Generator, coins: np.ndarray, epsilon: float, _: float) -> Scores:
    """Coins with Laplace noise of scale 1/ε."""
    return coins * (epsilon > 0) + rng.laplace(size=len(coins)) / (epsilon or 1)


def geometric(rng: np.random.Generator, coins: np.ndarray, epsilon: float, _: float) -> Scores:
    """Integers: coins with the difference of two geometric variables, so that many scores are equal."""
    p = 1 - np.exp(-epsilon) if epsilon else 0.05
    noise = rng.geometric(p, len(coins)) - rng.geometric(p, len(coins))
    return (coins if epsilon else 0) + noise.astype(float)


def gaussian(rng: np.random.Generator, coins: np.ndarray, epsilon: float, delta: float) -> Scores:
    """Coins with Gaussian noise."""
    return rng.normal(size=len(coins)) + gaussian_shift(epsilon, delta) * coins


def rounded_gaussian(rng: np.random.Generator, coins: np.ndarray, epsilon: float, delta: float) -> Scores:
    """The same, to integers."""
    return np.round(gaussian(rng, coins, epsilon, delta))


def parity(rng: np.random.Generator, coins: np.ndarray, epsilon: float, _: float) -> Scores:
    """Whether five coins have an odd sum, by randomised response: one answer for each five."""
    odd = np.add.reduceat(coins, np.arange(0, len(coins), 5)) % 2 == 1
    return np.repeat(randomised_response(rng, odd, epsilon, 0.0), 5)[: len(coins)]


def order(_: np.random.Generator, coins: np.ndarray, __: float, ___: float) -> Scores:
    """The number of the row, which tells nothing."""
    return np.arange(len(coins), dtype=float)


PURE: tuple[Mechanism, ...] = (randomised_response, laplace, geometric, parity, order)
WITH_DELTA: tuple[Mechanism, ...] = (*PURE, with_slips, all_or_nothing, gaussian, rounded_gaussian)


@dataclass(frozen=True)
class Cell:
    """One mechanism at one ε and δ, and how it is audited."""

    mechanism: Mechanism
    canaries: int
    epsilon: float
    delta: float
    design: str
    family: str | None
    sides: str

    def count_violated(self, games: int) -> tuple[int, int]:
        """Return how many games call the true claim violated, and how many were not refused for their coins."""
        rng = np.random.default_rng([self.canaries, int(100 * self.epsilon), int(1000 * self.delta)])
        violated = played = 0
        for game in range(games):
            if self.design == "coins":
                coins = rng.random(self.canaries) < 0.5
            else:
                coins = rng.permutation(self.canaries) < self.canaries // 2
            scores = self.mechanism(rng, coins, self.epsilon, self.delta)
            try:
                if self.design == "coins":
                    bound = epsilon_one_run(
                        scores, coins, self.delta, family=self.family, sides=self.sides, seed=game
                    )  # fmt: skip
                else:
                    bound = epsilon_fixed_count(scores, coins, self.delta, family=self.family, seed=game)
            except dv.InputError:  # coins that fair ones hardly are
                continue
            played += 1
            violated += bound.low > self.epsilon + 1e-9
        return violated, played


def cells(canaries: int) -> Iterator[Cell]:
    """All of this number of canaries."""
    for delta in (0.0, 1e-3, 0.02):
        if delta * canaries >= 1:
            continue
        for mechanism in WITH_DELTA if delta else PURE:
            for epsilon in (0.0, 0.3, 1.0, 3.0):
                audits = [("coins", None, "both"), ("coins", None, "in"), ("fixed", None, "both")]
                if mechanism in (gaussian, rounded_gaussian):
                    audits += [(design, "gaussian", sides) for design, _, sides in audits]
                for audit in audits:
                    yield Cell(mechanism, canaries, epsilon, delta, *audit)


def main() -> None:
    """Print the totals, and the cells in which true claims were called violated most often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=60)
    parser.add_argument("--canaries", type=int, nargs="+", default=[20, 200])
    arguments = parser.parse_args()
    began = time.perf_counter()
    rows = []
    for cell in (cell for canaries in arguments.canaries for cell in cells(canaries)):
        violated, played = cell.count_violated(arguments.games)
        rows.append((float(binom.sf(violated - 1, played, 0.05)), violated, played, cell))
    rows.sort(key=lambda row: row[0])
    violated, played = sum(row[1] for row in rows), sum(row[2] for row in rows)
    print(
        f"{len(rows)} cells, {time.perf_counter() - began:.0f} s: {violated} of {played:,} true claims called violated"
    )
    print(f"{len(rows) * arguments.games - played} games refused for their coins")
    for chance, violated, played, cell in rows[:5]:
        print(
            f"{violated} of {played} (chance {chance:.3f} at 5 %): {cell.mechanism.__name__}, "
            f"{cell.canaries} canaries, ε {cell.epsilon:g}, δ {cell.delta:g}, {cell.design}, "
            f"family {cell.family}, sides {cell.sides}"
        )


if __name__ == "__main__":
    main()
