"""White-box canaries: gradients, planted in a training loop instead of records.

Nasr et al. 2023 (arXiv:2302.07956): a canary is a direction of the parameters, as long as the clipping norm. An
included canary is added to a step's sum of clipped gradients with the probability with which the step would have used a
record; the auditor measures how much of it is in the gradient that the step releases. DP-SGD hides exactly such a
contribution, so these canaries come closest to the ε that is really spent. They test the noise and the accountant's
parameters, but not the clipping of records, which canaries that are records test.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from divulge import lazy, seeds
from divulge.canaries.canary_audit import CanaryAudit
from divulge.canaries.proof import Claim, prove
from divulge.errors import InputError
from divulge.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from divulge.evaluation.epsilon import Sides
    from divulge.evaluation.families import Families
    from divulge.types import Bools, Floats, Ints
else:
    torch = lazy.module("torch")


Score: TypeAlias = Literal["sum", "likelihood", "spread"]
SCORES: tuple[Score, ...] = get_args(Score)


class GradientCanaries:
    """Directions of the parameters, each of which is included by its own fair coin.

    Each canary is a different parameter, so canaries do not disturb each other. In your own loop, call `plant` on
    the sum of the clipped gradients before noise is added and `observe` on the sum after; `attach` does both to an
    optimizer of Opacus.

    Args:
        count: how many; at most one per parameter of the network.
        clip: norm to which the loop clips the gradient of a record.
        rate: probability with which a step uses a record, 1 for full batches.
        noise: noise multiplier of the loop, for the score "likelihood"; `attach` reads it from the optimizer.
        seed: of directions, coins and steps; drawn from the system's entropy when None.

    Raises:
        divulge.InputError: fewer than 8 canaries, a clip that is not positive, a rate outside (0, 1], a negative noise.

    Examples:
        >>> import torch
        >>> canaries = GradientCanaries(200, clip=1.0, seed=0)
        >>> for step in range(10):
        ...     total = [torch.zeros(20, 20)]  # of the clipped gradients
        ...     canaries.plant(total)
        ...     canaries.observe([each + 0.5 * torch.randn(each.shape) for each in total])
        >>> canaries.audit(claim=Claim(epsilon=1.0, delta=1e-5)).proof.answer
        'violated'
    """

    def __init__(
        self,
        count: int = 1000,
        *,
        clip: float,
        rate: float = 1.0,
        noise: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.count = check_integer(count, "count", minimum=8, maximum=10**7)
        self.clip = check_number(clip, "clip", above=0.0)
        check_number(rate, "rate", above=0.0)
        self.rate = check_number(rate, "rate", above=0.0, below=1.0, closed=True)
        self.noise = None if noise is None else check_number(noise, "noise", above=0.0, closed=True)
        self.seed = secrets.randbits(63) if seed is None else check_integer(seed, "seed", minimum=0)
        self.included: Bools = seeds.generator(self.seed, "canaries", "coins").random(self.count) < 0.5
        self.total: Floats = np.zeros(self.count)
        self.squares: Floats = np.zeros(self.count)
        self.ratios: Floats = np.zeros(self.count)
        self.steps = 0
        self._draws = seeds.generator(self.seed, "canaries", "steps")
        self._positions: list[tuple[Ints, Ints]] | None = None

    def plant(self, total: Sequence[torch.Tensor]) -> None:
        """Add the canaries that this step uses to the sum of clipped gradients, in place.

        Args:
            total: one tensor per parameter, the same and in the same order at every step.

        Raises:
            divulge.InputError: fewer parameters than canaries.
        """
        used = self.included & (self._draws.random(self.count) < self.rate)
        for gradient, (canaries, positions) in zip(total, self._positions_in(total), strict=True):
            planted = torch.as_tensor(positions[used[canaries]], device=gradient.device)
            gradient.view(-1)[planted] += self.clip

    def observe(self, released: Sequence[torch.Tensor]) -> None:
        """Read the canaries' directions in what the step releases: the sum of gradients with its noise."""
        for gradient, (canaries, positions) in zip(released, self._positions_in(released), strict=True):
            index = torch.as_tensor(positions, device=gradient.device)
            projections = gradient.detach().reshape(-1)[index].double().cpu().numpy() / self.clip
            self.total[canaries] += projections
            self.squares[canaries] += projections**2
            if self.noise:
                self.ratios[canaries] += _log_likelihood_ratio(projections, self.rate, self.noise)
        self.steps += 1

    def attach(self, optimizer: Any) -> None:
        """Plant and observe at every step of an Opacus optimizer.

        Raises:
            divulge.InputError: not an optimizer that adds noise to ``summed_grad``, or one that clips to another norm.
        """
        if not hasattr(optimizer, "add_noise") or not hasattr(optimizer, "params"):
            raise InputError(f"optimizer: Opacus' DPOptimizer is needed, got {type(optimizer).__name__}")
        if self.noise is None:
            self.noise = getattr(optimizer, "noise_multiplier", None)
        norm = getattr(optimizer, "max_grad_norm", self.clip)
        if norm != self.clip:
            raise InputError(f"clip: the optimizer clips to {norm:g}, the canaries are {self.clip:g} long")
        add_noise = optimizer.add_noise

        def with_canaries() -> None:
            self.plant([parameter.summed_grad for parameter in optimizer.params])
            add_noise()
            self.observe([parameter.grad for parameter in optimizer.params])

        optimizer.add_noise = with_canaries

    def scores(self, score: Score | str = "sum") -> Floats:
        """Return one score per canary, ``[n]``: sum, log-likelihood ratio or variance of its projections.

        Raises:
            divulge.InputError: another score; no step was observed; a likelihood without noise.
        """
        if not self.steps:
            raise InputError("canaries: no step was observed yet; attach them before training")
        check_choice(score, "score", SCORES)
        if score == "sum":
            return self.total.copy()
        if score == "likelihood":
            if not self.noise:
                raise InputError("score: 'likelihood' needs a noise multiplier above 0; pass noise=")
            return self.ratios.copy()
        return self.squares / self.steps - (self.total / self.steps) ** 2

    def audit(
        self,
        *,
        claim: Claim | None = None,
        score: Score | str = "sum",
        family: Families | str | None = None,
        sides: Sides | str = "both",
        confidence: float = 0.95,
    ) -> CanaryAudit:
        """Bound ε from what the released gradients show of the canaries, and test a claim.

        Args:
            score: "sum", the best one of full batches; "likelihood", the best one where steps use a record at a rate
                below 1; or "spread", which detects noise that is drawn once and reused. Choose it before looking at
                any scores.
            claim: the claim to test.
            family: see `divulge.canaries.audit`.
            sides: see `divulge.canaries.audit`.
            confidence: of the bound.

        Raises:
            divulge.InputError: as for `scores`.
        """
        scores = self.scores(score)
        proof = prove(scores, self.included, claim=claim, family=family, sides=sides, confidence=confidence)
        return CanaryAudit(scores, self.included, proof, f"{score} over {self.steps} steps", "gradient", 0)

    def _positions_in(self, tensors: Sequence[torch.Tensor]) -> list[tuple[Ints, Ints]]:
        """Return for each tensor the canaries that lie in it and their positions."""
        if self._positions is None:
            sizes = np.array([tensor.numel() for tensor in tensors])
            if sizes.sum() < self.count:
                raise InputError(f"count: must be at most {sizes.sum()} (the parameters), got {self.count}")
            rng = seeds.generator(self.seed, "canaries", "directions")
            chosen = rng.choice(int(sizes.sum()), self.count, replace=False)
            ends = np.cumsum(sizes)
            owner = np.searchsorted(ends, chosen, side="right")
            starts = ends - sizes
            rows = [np.flatnonzero(owner == i) for i in range(len(sizes))]
            self._positions = [(row, chosen[row] - starts[i]) for i, row in enumerate(rows)]
        return self._positions


def _log_likelihood_ratio(projections: Floats, rate: float, noise: float) -> Floats:
    """Return the log-likelihood ratio of one step: the record in the training set against one that is not."""
    # A record is in a batch with probability `rate`, and then moves the mean of the projection from 0 to 1: the ratio
    # of the two normal densities is exp((x - 1/2) / σ²).
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-rate), np.log(rate) + (projections - 0.5) / noise**2)
