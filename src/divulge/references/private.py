"""DP-SGD at work: ghost norms for stacked MLPs, Opacus for every other network.

The gradient of a linear layer's weight for one record is the outer product of the slope at its output and its
input, so its squared norm is the product of theirs (Goodfellow 2015; Li et al. 2022 call it the ghost norm):
records are clipped without a gradient of their own ever being formed.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from divulge import lazy, networks, seeds
from divulge.errors import InputError
from divulge.references import network_training, stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import opacus
    from opacus import optimizers, validators

    from divulge.references.hyperparameters import Hyperparameters, Private
    from divulge.types import Ints
else:
    opacus = lazy.module("opacus")
    optimizers = lazy.module("opacus.optimizers")
    validators = lazy.module("opacus.validators")


def train_privately(
    config: Hyperparameters,
    data: network_training.TrainingData,
    rows: Ints,
    seed: int,
    tick: Callable[[float], None] | None = None,
) -> nn.Module:
    """Train one network on ``data[rows]`` with DP-SGD.

    Raises:
        divulge.MissingExtraError: the network is no MLP and Opacus is not installed.
        divulge.InputError: a network that mixes records (batch normalisation), which DP-SGD cannot clip; a batch does
            not fit into memory.
        DivergedError: NaN or infinity in the weights.
    """
    device = data.x.device
    module = (
        network_training.build_network(config.make_model, seed)
        .to(device=device, dtype=network_training.weights_dtype(config.precision))
        .train()
    )
    layers = stacked.mlp_layers(module)
    step = (
        GhostClipping(config, module, layers, seed)
        if layers is not None
        else OpacusClipping(config, module, len(rows), seed)
    )
    count = networks.steps_per_epoch(len(rows), config.batch_size)
    noise_seed = seeds.derive_seed(seed, "noise")
    with networks.torch_seed(noise_seed, device), network_training.batch_memory_errors(config, device):
        for epoch in range(config.stop_after or config.epochs):
            for number, batch in enumerate(poisson_batches(rows, seed, epoch, count, config.batch_size)):
                batch_rows = networks.move(torch.from_numpy(batch), device)
                step(data.x[batch_rows], data.y[batch_rows], config.rate((epoch + number / count) / config.epochs))
            if not networks.all_finite(module.parameters()):
                raise network_training.DivergedError
            if tick is not None:
                tick((epoch + 1) / (config.stop_after or config.epochs))
    step.close()
    return module


def poisson_batches(rows: Ints, seed: int, epoch: int, steps: int, size: int) -> Sequence[Ints]:
    """Draw the batches of one epoch: each record is in each batch with probability ``size / n``, independently.

    Examples:
        >>> import numpy as np
        >>> [len(batch) for batch in poisson_batches(np.arange(8), seed=0, epoch=0, steps=4, size=2)]
        [1, 2, 1, 2]
    """
    rng = seeds.generator(seed, "poisson", epoch)
    return [rows[rng.random(len(rows)) < size / len(rows)] for _ in range(steps)]


class GhostClipping:
    """DP-SGD steps of one MLP, its per-record norms from slopes and inputs."""

    def __init__(self, config: Hyperparameters, module: nn.Module, layers: Sequence[stacked.Layer], seed: int) -> None:
        self._privacy, self._size = _privacy_settings(config), config.batch_size
        self._layers = layers
        self._linear = [module.get_submodule(layer.name) for layer in layers]
        self._update = network_training.make_optimizer(config, module.parameters())
        self._rng = noise_generator(module, seed)

    @torch.no_grad()
    def __call__(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
        """Take one step on a batch ``x[b, ...]``, ``y[b]``; the batch may be empty."""
        weights = [linear.get_parameter("weight") for linear in self._linear]
        biases = [
            linear.get_parameter("bias") if layer.bias else None
            for layer, linear in zip(self._layers, self._linear, strict=True)
        ]
        transposed = [w.mT for w in weights]
        inputs, z = stacked.mlp_forward(self._layers, transposed, biases, x.flatten(1))
        slopes = stacked.mlp_backward(self._layers, transposed, inputs, z, y, 1.0)
        squares = torch.zeros_like(y, dtype=x.dtype)
        for layer, a, slope in zip(self._layers, inputs, slopes, strict=True):
            squares += slope.square().sum(1) * (a.square().sum(1) + float(layer.bias))
        factor = (self._privacy.clip / (squares.sqrt() + 1e-6)).clamp(max=1.0).unsqueeze(1)
        parameters, totals = [], []
        for w, b, a, slope in zip(weights, biases, inputs, slopes, strict=True):
            clipped = slope * factor
            parameters.append(w)
            totals.append(clipped.mT @ a)
            if b is not None:
                parameters.append(b)
                totals.append(clipped.sum(0))
        for parameter, total in zip(parameters, self.release(totals), strict=True):
            parameter.grad = total / self._size
        network_training.set_learning_rate(self._update, rate)
        self._update.step()

    def close(self) -> None:
        """Do nothing: the module was never changed."""

    def release(self, totals: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Add noise to the sums of clipped gradients."""
        spread = self._privacy.noise * self._privacy.clip
        if not spread:
            return totals
        return [total + torch.empty_like(total).normal_(0.0, spread, generator=self._rng) for total in totals]


class OpacusClipping:
    """DP-SGD steps of any network, by Opacus' per-record gradients and optimiser."""

    def __init__(self, config: Hyperparameters, module: nn.Module, records: int, seed: int) -> None:
        problems = validators.ModuleValidator.validate(module, strict=False)
        if problems:
            raise InputError(f"make_model: DP-SGD cannot train this network: {problems[0]}")
        privacy = _privacy_settings(config)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus registers full backward hooks and says so
            self._module = opacus.GradSampleModule(module)
        self._update = optimizers.DPOptimizer(
            network_training.make_optimizer(config, module.parameters()),
            noise_multiplier=privacy.noise,
            max_grad_norm=privacy.clip,
            expected_batch_size=config.batch_size,
            generator=noise_generator(module, seed),
        )

    def __call__(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
        """Take one step on a batch ``x[b, ...]``, ``y[b]``; the batch may be empty."""
        self._update.zero_grad()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Full backward hook is firing")  # true and harmless
            functional.cross_entropy(self._module(x), y, reduction="mean").backward()
        network_training.set_learning_rate(self._update, rate)
        self._update.step()

    def close(self) -> None:
        """Leave the module as it was given: hooks and per-record gradients would break its later gradients."""
        for parameter in self._module.parameters():
            parameter.grad = None
        self._module.to_standard_module()


def noise_generator(module: nn.Module, seed: int) -> torch.Generator:
    """Return the generator of a model's noise."""
    device = next(module.parameters()).device
    return torch.Generator(device=device).manual_seed(seeds.derive_seed(seed, "privacy"))


def _privacy_settings(config: Hyperparameters) -> Private:
    assert config.privacy is not None
    return config.privacy
