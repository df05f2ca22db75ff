"""Questions about the unknown part of a record: gradients there, by autograd or by asking only for losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.signals.classification import negative_loss
from divulge.targets import GivesGradients
from divulge.types import Records
from divulge.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from divulge.targets import GivesLogits
    from divulge.types import Bools, Floats, Ints

Access: TypeAlias = Literal["white", "black"]

# Values in one batch of perturbed records: some 256 MB of float64.
_BATCH = 1 << 25


@dataclass(frozen=True, slots=True)
class Gradients:
    """∂ loss / ∂ x of a target on the unknown values of a record.

    Args:
        access: "white" (the target's own gradients) or "black" (zeroth-order estimates from losses).
        directions: m of the black-box estimate ``(1/m) Σ [ℓ(x + εu) - ℓ(x - εu)] / (2ε) · u`` with u standard
            normal on the unknown values: antithetic pairs, 2m queries per record.
        epsilon: ε, in the unit of the records.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    access: Access = "white"
    directions: int = 5
    epsilon: float = 1e-2

    def __post_init__(self) -> None:
        check_choice(self.access, "access", ("white", "black"))
        check_integer(self.directions, "directions", least=1)
        check_number(self.epsilon, "epsilon", above=0)

    @property
    def queries(self) -> int:
        """Queries per record and step; autograd's forward and backward pass counts as one."""
        return 1 if self.access == "white" else 2 * self.directions

    def at(self, target: GivesLogits, x: Floats, labels: Ints, known: Bools, seed: int) -> Floats:
        """Gradients ``[n, ...]``, zero where the value is known.

        Raises:
            divulge.InputError: white-box access to a target that gives no gradients.
        """
        if self.access == "black":
            return self._estimated(target, x, labels, known, seed)
        if not isinstance(target, GivesGradients):
            raise InputError(
                f"access: 'white' needs a target that gives gradients, {type(target).__name__} does not; use 'black'"
            )
        return np.where(known, 0.0, target.gradients(Records(x, labels)))

    def _estimated(self, target: GivesLogits, x: Floats, labels: Ints, known: Bools, seed: int) -> Floats:
        rng = seeds.generator(seed, "directions")
        gradient = np.empty(x.shape)
        each = max(1, _BATCH // (2 * self.directions * max(1, x[0].size)))
        for at in range(0, len(x), each):
            part = slice(at, at + each)
            u = np.where(known[part], 0.0, rng.normal(size=(self.directions, *x[part].shape)))
            moved = np.stack([x[part] + self.epsilon * u, x[part] - self.epsilon * u]).astype(x.dtype)
            asked, truth = moved.reshape(-1, *x.shape[1:]), np.tile(labels[part], 2 * self.directions)
            losses = -negative_loss(target.logits(Records(asked, truth)), truth).reshape(2, self.directions, -1)
            slopes = (losses[0] - losses[1]) / (2 * self.epsilon)
            gradient[part] = np.einsum("mn,mn...->n...", slopes, u) / self.directions
        return gradient
