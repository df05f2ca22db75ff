"""Gradient matching: complete a record so that its gradient is what training leaves of a member's."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.completion.imputers import FittedImputer, Imputer, Mean
from divulge.errors import InputError
from divulge.targets.outputs import PROBABILITY_FLOOR
from divulge.targets.rights import class_name
from divulge.validation import check_integer, check_number, require_callable

if TYPE_CHECKING:
    import torch

    from divulge.types import Floats, Ints, PartialRecords, Records
else:
    torch = lazy.module("torch")

# Records whose gradients (each as large as the network) are held at once.
_CHUNK = 32


@dataclass(frozen=True, slots=True)
class GradientMatching:
    """Deep leakage from gradients (Zhu et al. 2019, arXiv:1906.08935), for records of which part is known.

    DLG seeks the record whose gradient with respect to the weights matches one that leaked. A finished model
    leaks none, but training ends where members' gradients are near zero: so x_u descends
    ``‖∂ℓ(f(x_k, x_u), y)/∂θ‖²`` by signed steps within the auxiliary range, and the signal is minus the logarithm
    of what mismatch remains. White box, of torch networks alone. It is here to be compared with.

    Args:
        steps: how many; with 0 the mismatch is that of the starting completion.
        rate: length of a step, in standard deviations of a column.
        start: what the descent starts from.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    steps: int = 5
    rate: float = 0.1
    start: Imputer = Mean(per_class=False)  # noqa: RUF009  (frozen, so it can be shared)

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps", minimum=0)
        check_number(self.rate, "rate", above=0)
        require_callable(self.start, "start", "fit")

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        return "gradient-matching"

    @property
    def reads(self) -> str:
        """Part of the target that the adversary must see."""
        return "the target's weights"

    def fit(self, auxiliary: Records, seed: int = 0) -> FittedMatching:
        """Fit the starting completion on auxiliary records, disjoint from the candidates.

        Raises:
            divulge.InputError: records that cannot be completed.
        """
        deviation = auxiliary.x.std(axis=0).astype(np.float64)
        return FittedMatching(self, self.start.fit(auxiliary), deviation)


@dataclass(frozen=True, slots=True, eq=False)
class FittedMatching:
    """Gradient matching that has seen its auxiliary records.

    Args:
        settings: how.
        start: the starting completion.
        deviation: standard deviation of each column, the shape of one record: the unit of a step.
    """

    settings: GradientMatching
    start: FittedImputer
    deviation: Floats

    @property
    def queries(self) -> int:
        """Forward and backward passes per record."""
        return self.settings.steps + 1

    def measure(self, target: Any, partial: PartialRecords) -> Floats:
        """Minus the logarithm of the remaining mismatch, ``[n]``.

        Raises:
            divulge.InputError: no labels; a target that is not a torch network.
        """
        if partial.y is None:
            raise InputError("partial records: a loss needs labels, but y is None")
        module = getattr(target, "module", None)
        if not hasattr(module, "named_parameters"):
            raise InputError(
                f"gradient-matching: a torch network's weights are needed, {class_name(target)} shows none"
            )
        columns, shape = self.start.columns, partial.x.shape[1:]
        low, high = columns.low.reshape(shape), columns.high.reshape(shape)
        network = _GradientNetwork.from_module(module, getattr(target, "outputs", "logits") == "probabilities")
        x = self.start.complete(partial)[0].astype(np.float64)
        for _ in range(self.settings.steps):
            _, gradients = network.mismatch(x, partial.y)
            step = self.settings.rate * self.deviation * np.sign(gradients)
            x = np.where(partial.known, x, np.clip(x - step, low, high))
        return -np.log(np.maximum(network.mismatch(x, partial.y)[0], 1e-30))


@dataclass(frozen=True, slots=True)
class _GradientNetwork:
    """A copy of a torch network, in evaluation mode on the CPU, asked for gradients of its gradients."""

    module: Any
    parameters: Any
    probabilities: bool

    @classmethod
    def from_module(cls, module: Any, probabilities: bool) -> _GradientNetwork:
        network = copy.deepcopy(module).cpu().eval()
        return cls(network, {name: value.detach() for name, value in network.named_parameters()}, probabilities)

    def mismatch(self, x: Floats, labels: Ints) -> tuple[Floats, Floats]:
        """``‖∂ℓ/∂θ‖²`` of each record ``[n]``, and its slope in x ``[n, ...]``."""

        def loss(parameters: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            answer = torch.func.functional_call(self.module, parameters, (record[None],))
            logits = torch.log(answer.clamp_min(PROBABILITY_FLOOR)) if self.probabilities else answer
            return torch.nn.functional.cross_entropy(logits, label[None])

        def squared(record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return sum((part**2).sum() for part in torch.func.grad(loss)(self.parameters, record, label).values())

        dtype = next(iter(self.parameters.values())).dtype
        inputs = torch.from_numpy(x).to(dtype), torch.from_numpy(labels)
        gradients, values = torch.func.vmap(torch.func.grad_and_value(squared), chunk_size=_CHUNK)(*inputs)
        return values.double().numpy(), gradients.double().numpy()
