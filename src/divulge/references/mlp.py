"""Stacked linear models and MLPs with the backward pass written out.

Autograd spends about half of a small network's step on bookkeeping. Here a step is batched matrix products and
little else; under SGD the product that makes a weight's gradient adds straight into the momentum buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import nn

from divulge import networks
from divulge.references import loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.references.hyperparameters import Hyperparameters

Activation: TypeAlias = Literal["relu", "tanh", "none"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer by its place in the network, and what follows it."""

    name: str
    bias: bool
    activation: Activation


def layers(module: nn.Module) -> Sequence[Layer] | None:
    """The layers of an `nn.Sequential` of ``Linear``, ``ReLU``, ``Tanh``, ``Identity`` and leading ``Flatten``.

    None for any other network, and for one with frozen or shared weights or hooks.
    """
    if not isinstance(module, nn.Linear | nn.Sequential) or not _plain(module):
        return None
    chain: list[Layer] = []
    for name, part in _leaves(module, ""):
        if isinstance(part, nn.Linear):
            chain.append(Layer(name, part.bias is not None, "none"))
        elif isinstance(part, nn.ReLU | nn.Tanh) and chain and chain[-1].activation == "none":
            kind: Activation = "relu" if isinstance(part, nn.ReLU) else "tanh"
            chain[-1] = Layer(chain[-1].name, chain[-1].bias, kind)
        elif not (isinstance(part, nn.Identity) or (_flattens(part) and not chain)):
            return None
    return chain if chain and chain[-1].activation == "none" else None


def _plain(module: nn.Module) -> bool:
    """True for torch's own parts only, all weights trained and none shared, no hooks."""
    own = all(type(part).__module__.startswith("torch.nn.modules.") for part in module.modules())
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    every = list(module.named_parameters(remove_duplicate=False))
    return (
        own and not hooked and all(p.requires_grad for _, p in every) and len({id(p) for _, p in every}) == len(every)
    )


def _flattens(part: nn.Module) -> bool:
    return isinstance(part, nn.Flatten) and part.start_dim == 1 and part.end_dim == -1


def _leaves(module: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    if not isinstance(module, nn.Sequential):
        return [(name, module)]
    prefix = f"{name}." if name else ""
    return [leaf for child, part in module.named_children() for leaf in _leaves(part, f"{prefix}{child}")]


class MlpStack:
    """``M`` networks of one shape: weights ``[M, in, out]``, as the products read them fastest, biases ``[M, out]``."""

    def __init__(self, config: Hyperparameters, made: Sequence[nn.Module], shape: Sequence[Layer]) -> None:
        self._made, self._layers = made, shape
        self._weights = [_gather(made, layer.name, "weight", turned=True) for layer in shape]
        self._biases = [_gather(made, layer.name, "bias") if layer.bias else None for layer in shape]
        self._all = [p for p in (*self._weights, *self._biases) if p is not None]
        for p in self._all:
            p.grad = torch.zeros_like(p)
        sgd = config.optimizer == "sgd"
        self._keep = config.momentum if sgd else 0.0  # what remains of the last gradient: SGD's momentum buffer
        self._decay = config.weight_decay if sgd else 0.0
        self._update = None if sgd else loop.optimizer(config, self._all)

    @torch.no_grad()
    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """One step on batches ``x[M, b, ...]``, ``y[M, b]``; returns the logits ``[M, b, K]`` before it."""
        a, z = forward(self._layers, self._weights, self._biases, x.flatten(2))
        slopes = backward(self._layers, self._weights, a, z, y, 1.0 / y.shape[1])
        for w, b, inputs, slope in zip(self._weights, self._biases, a, slopes, strict=True):
            self._accumulate(w, slope, inputs)
            if b is not None:
                assert b.grad is not None
                b.grad.mul_(self._keep).add_(slope.sum(1)).add_(b, alpha=self._decay)
        if self._update is not None:
            loop.set_rate(self._update, rate)
            self._update.step()
            return z
        for p in self._all:
            assert p.grad is not None
            p.add_(p.grad, alpha=-rate)
        return z

    def _accumulate(self, w: torch.Tensor, slope: torch.Tensor, a: torch.Tensor) -> None:
        assert w.grad is not None
        w.grad.baddbmm_(a.mT, slope, beta=self._keep)
        if self._decay:
            w.grad.add_(w, alpha=self._decay)

    def finite(self) -> Sequence[bool]:
        """For each network, whether all of its weights are finite."""
        return [networks.all_finite(p[index] for p in self._all) for index in range(len(self._made))]

    @torch.no_grad()
    def module(self, index: int) -> nn.Module:
        """One network with the weights as they stand."""
        module = self._made[index]
        for layer, w, b in zip(self._layers, self._weights, self._biases, strict=True):
            linear = module.get_submodule(layer.name)
            linear.get_parameter("weight").copy_(w[index].T)
            if b is not None:
                linear.get_parameter("bias").copy_(b[index])
        return module


def forward(
    shape: Sequence[Layer], weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None], a: torch.Tensor
) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
    """The input of every layer and the logits, for ``a[..., b, in]`` and weights ``[..., in, out]``."""
    inputs = []
    for layer, w, b in zip(shape, weights, biases, strict=True):
        inputs.append(a)
        if b is None:
            a = a @ w
        elif a.ndim == 3:
            a = torch.baddbmm(b.unsqueeze(1), a, w)
        else:
            a = torch.addmm(b, a, w)
        if layer.activation == "relu":
            a.relu_()
        elif layer.activation == "tanh":
            a.tanh_()
    return inputs, a


def backward(
    shape: Sequence[Layer],
    weights: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    z: torch.Tensor,
    y: torch.Tensor,
    scale: float,
) -> Sequence[torch.Tensor]:
    """The slope of ``scale`` times the summed cross-entropy at the output of every layer, ``[..., b, out]``."""
    slope = z.softmax(-1)
    slope.scatter_add_(-1, y.unsqueeze(-1), slope.new_full((), -1.0).expand(*y.shape, 1))
    if scale != 1.0:
        slope *= scale
    slopes = [slope]
    for index in range(len(shape) - 1, 0, -1):
        slope = _through(shape[index - 1].activation, slope @ weights[index].mT, inputs[index])
        slopes.append(slope)
    return slopes[::-1]


def _through(activation: Activation, slope: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The slope before an activation, from the slope after it and its output."""
    if activation == "relu":
        return torch.ops.aten.threshold_backward(slope, output, 0.0)
    if activation == "tanh":
        return slope.mul_(1.0 - output.square())
    return slope


def _gather(made: Sequence[nn.Module], name: str, kind: str, turned: bool = False) -> torch.Tensor:
    own = torch.stack([module.get_submodule(name).get_parameter(kind).detach() for module in made])
    return (own.mT.contiguous() if turned else own).requires_grad_()
