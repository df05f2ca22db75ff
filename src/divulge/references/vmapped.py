"""Any network, stacked with `torch.func`: the general path of the stacked engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from divulge.references import loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from divulge.references.settings import TrainSettings


class Stack:
    """``M`` networks of one architecture; parameters and buffers gain a first axis of length ``M``.

    Networks whose forward pass draws random numbers (dropout) are refused by `vmap`: their stream would
    differ from the plain loop's.
    """

    def __init__(self, config: TrainSettings, made: Sequence[nn.Module]) -> None:
        self._made, self._base = made, made[0]
        trained = {name for name, p in self._base.named_parameters() if p.requires_grad}
        self._weights = {name: _gather(made, name).requires_grad_() for name in trained}
        self._fixed = {name: _gather(made, name) for name in self._base.state_dict() if name not in trained}
        self._update = loop.optimizer(config, [self._weights[name] for name in sorted(trained)])
        mixed = config.precision == "mixed"

        def loss(weights: Any, fixed: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Any]:
            with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=mixed):
                z: Any = functional_call(self._base, {**weights, **fixed}, (x,))
                return functional.cross_entropy(z, y), z

        self._slopes: Callable[..., tuple[dict[str, torch.Tensor], torch.Tensor]] = vmap(
            grad(loss, has_aux=True), randomness="error"
        )

    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """One step on batches ``x[M, b, ...]``, ``y[M, b]``; returns the logits ``[M, b, K]`` before it."""
        slopes, z = self._slopes({name: w.detach() for name, w in self._weights.items()}, self._fixed, x, y)
        for name, w in self._weights.items():
            w.grad = slopes[name].contiguous()  # a fused optimiser reads weights and slopes side by side
        loop.set_rate(self._update, rate)
        self._update.step()
        return z

    def finite(self) -> Sequence[bool]:
        """For each network, whether all of its weights are finite."""
        return [loop.finite(w[index] for w in self._weights.values()) for index in range(len(self._made))]

    def module(self, index: int) -> nn.Module:
        """One network with weights and buffers as they stand."""
        state = {name: value[index].detach() for name, value in {**self._weights, **self._fixed}.items()}
        self._made[index].load_state_dict(state)
        return self._made[index]


def _gather(made: Sequence[nn.Module], name: str) -> torch.Tensor:
    return torch.stack([module.state_dict()[name].detach() for module in made])
