"""DP-SGD of a logistic regression, right or with one classic mistake, and record canaries that test it.

A canary is a record far out along a direction of its own: its gradient is far above the clipping norm and lies in
nobody's way. It is scored by what the released sums hold of its direction.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

import divulge as dv
from divulge.evaluation import GaussianMechanism, SubsampledGaussian, epsilon_one_run

DELTA, RECORDS, FEATURES, DISTANCE, RATE = 1e-5, 100, 5, 1000.0, 1e-7


@dataclass(frozen=True)
class Loop:
    """A training loop; the fields after ``score`` are mistakes, none of which is made by default."""

    noise: float = 3.0
    clip: float = 0.5
    rate: float = 1.0
    steps: int = 9
    score: str = "sum"
    told_rate: float | None = None
    told_steps: int | None = None
    clipped: str = "records"
    copies: int = 1
    unscaled: bool = False
    averaged_twice: bool = False
    noise_reused: bool = False

    @property
    def family(self):
        """What the accountant takes this loop for."""
        rate = self.told_rate or self.rate
        return GaussianMechanism() if rate == 1 else SubsampledGaussian(rate, self.told_steps or self.steps)

    @property
    def claim(self):
        """What the accountant says; exact where there is no mistake."""
        steps = 1 if isinstance(self.family, SubsampledGaussian) else self.told_steps or self.steps
        return dv.Claim(self.family.epsilon(np.sqrt(steps) / self.noise, DELTA), DELTA)

    def play(self, count, seed):
        """Scores of canaries, and their coins."""
        rng = np.random.default_rng(seed)
        included = rng.random(count) < 0.5
        x = np.zeros((RECORDS + count, FEATURES + count))
        x[:RECORDS, :FEATURES] = rng.normal(size=(RECORDS, FEATURES))
        x[RECORDS:, FEATURES:] = -DISTANCE * np.eye(count)
        y = np.append(rng.random(RECORDS) < 0.5, np.ones(count))
        in_training = np.append(np.ones(RECORDS, bool), included)
        weights, draw, gradients = np.zeros(FEATURES + count), None, []
        for _ in range(self.steps):
            batch = in_training & (rng.random(len(y)) < self.rate)
            slopes = (expit(x[batch] @ weights) - y[batch])[:, None] * x[batch]
            if draw is None or not self.noise_reused:
                draw = rng.normal(size=len(weights))
            spread = self.noise * (1.0 if self.unscaled else self.clip) / (len(slopes) if self.averaged_twice else 1)
            released = self.total(slopes) + spread * draw
            weights = weights - RATE * released
            gradients.append(released[FEATURES:])
        return (np.sum if self.score == "sum" else np.var)(gradients, axis=0), included

    def total(self, slopes):
        """The sum of clipped gradients."""
        if self.clipped == "nothing":
            return slopes.sum(0)
        if self.clipped == "the mean":
            return len(slopes) * _clip(slopes.mean(0, keepdims=True), self.clip)[0]
        if self.clipped == "groups":
            groups = np.add.reduceat(slopes, np.arange(0, len(slopes), 8))
            return _clip(groups, 8 * self.clip).sum(0)
        return self.copies * _clip(slopes, self.clip).sum(0)

    def bound(self, count, seed, *, confidence=0.95, family=True):
        """What canaries prove of ε; ``family`` assumes what the accountant does."""
        scores, included = self.play(count, seed)
        assumed = self.family if family else None
        return epsilon_one_run(scores, included, DELTA, confidence, family=assumed).low


def _clip(slopes, norm):
    norms = np.linalg.norm(slopes, axis=1, keepdims=True)
    return slopes * np.minimum(1.0, norm / np.maximum(norms, 1e-300))


RIGHT = {
    "full batches": Loop(),
    "full batches, much noise, many steps": Loop(noise=6.0, steps=36),
    "subsampled": Loop(noise=1.5, rate=0.3, steps=10),
    "subsampled, spread": Loop(noise=4.0, rate=0.5, steps=30, score="spread"),
}
MISTAKES = {
    "the mean of the batch is clipped": Loop(clipped="the mean"),
    "the mean of every 8 records is clipped": Loop(clipped="groups"),
    "nothing is clipped": Loop(clipped="nothing"),
    "every copy of a record is clipped by itself (4 copies)": Loop(copies=4),
    "noise is not scaled by the clipping norm (of 10)": Loop(clip=10.0, unscaled=True),
    "noise is divided by the batch size twice": Loop(averaged_twice=True),
    "one noise draw is reused at every step": Loop(noise=4.0, rate=0.5, steps=30, score="spread", noise_reused=True),
    "the accountant is told a rate of .05, not .3": Loop(noise=1.5, rate=0.3, steps=30, told_rate=0.05),
    "the accountant is told a tenth of the steps": Loop(noise=np.sqrt(3.0), steps=30, told_steps=3),
}
