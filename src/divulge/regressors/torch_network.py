"""Training, early stopping and predictions of neural regressors."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from scipy import special
from torch import nn
from torch.nn import functional

from divulge import networks, seeds
from divulge.errors import InputError
from divulge.targets import device_memory
from divulge.targets.torch_modules import resolve_device

if TYPE_CHECKING:
    from divulge.regressors.bodies import Body
    from divulge.types import Array, Floats


# Standard deviations of the standardised signal between e⁻⁵ and e⁵: beyond, a likelihood is a spike on one record.
_LOG_VARIANCE = 10.0
_PREDICTION_BATCH = 256


@dataclass(frozen=True, slots=True)
class Schedule:
    """Training schedule: the fields of `divulge.regressors.Network` about optimisation."""

    epochs: int
    lr: float
    batch_size: int
    weight_decay: float
    held: float
    patience: int
    device: str


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """Architecture: the fields of `divulge.regressors.Network` about body and head."""

    body: Body
    head: Literal["gaussian", "pinball"]
    levels: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FittedNetwork:
    """A trained network, and the unit of the signal it speaks in.

    Args:
        shape: body, head and quantile levels.
        module: the network: its body, then its head.
        location: mean of the signal it learnt from.
        scale: its standard deviation (1 where it is constant).
        epochs: passes until the best one, 0 when the loss was never finite.
    """

    shape: NetworkShape
    module: nn.Sequential
    location: float
    scale: float
    epochs: int

    def predict(self, features: Array) -> tuple[Floats, Floats]:
        """Location and scale of the signal of a non-member ``[n]`` each; NaN where training diverged."""
        out = self._out(features)
        if self.shape.head == "gaussian":
            middle, spread = out[:, 0], np.exp(0.5 * np.clip(out[:, 1], -_LOG_VARIANCE, _LOG_VARIANCE))
        else:
            normal_quantiles = _normal_quantiles(self.shape.levels)
            spread = (out[:, -1] - out[:, 0]) / (normal_quantiles[-1] - normal_quantiles[0])
            nearest = int(np.abs(normal_quantiles).argmin())
            middle = out[:, nearest] - normal_quantiles[nearest] * spread
        return self.location + self.scale * middle, self.scale * spread

    def quantiles(self, features: Array) -> Floats:
        """Conditional quantiles at ``shape.levels``, never crossing, ``[n, levels]``."""
        if self.shape.head == "pinball":
            return self.location + self.scale * self._out(features)
        location, scale = self.predict(features)
        return location[:, None] + scale[:, None] * _normal_quantiles(self.shape.levels)

    def embed(self, features: Array) -> Floats:
        """Return the layer the head stands on, ``[n, h]``: what `divulge.evaluation.transfer` looks at."""
        return _predict(self.module[0], self.shape.body.prepare(np.asarray(features)), self._device)

    @property
    def _device(self) -> torch.device:
        return next(self.module.parameters()).device

    def _out(self, features: Array) -> Floats:
        prepared = self.shape.body.prepare(np.asarray(features))
        if not self.epochs:
            return np.full((len(prepared), max(2, len(self.shape.levels))), np.nan)
        return _predict(self.module, prepared, self._device)


def fit_network(shape: NetworkShape, schedule: Schedule, prepared: Array, signal: Floats, seed: int) -> FittedNetwork:
    """Fit a network; return that of the epoch with the lowest held-out loss, of the last if nothing is held out.

    Args:
        shape: what the network is made of.
        schedule: how it learns.
        prepared: what the body made of the records, ``[z, ...]``.
        signal: ``[z]``.
        seed: the user's.
    """
    device = resolve_device(schedule.device)
    location, scale = float(signal.mean()), float(signal.std())
    scale = scale if scale > 0 or np.isnan(scale) else 1.0
    with networks.single_thread(), networks.torch_seed(seeds.derive_seed(seed, "network", "weights"), device):
        module = nn.Sequential(
            shape.body.build(prepared),
            nn.LazyLinear(2) if shape.head == "gaussian" else MonotoneHead(len(shape.levels)),
        )
        module.eval()
        _forward(module, prepared[:2], torch.device("cpu"))
        module.to(device)
        target = torch.from_numpy(((signal - location) / scale).astype(np.float32))
        work = f"for a step on {schedule.batch_size:,} records"
        with device_memory.memory_errors(work, device, "a smaller Network.batch_size needs less"):
            best = _train(shape, schedule, module, prepared, target, seed)
    return FittedNetwork(shape, module.eval(), location, scale, best)


def _train(
    shape: NetworkShape, schedule: Schedule, module: nn.Sequential, prepared: Array, target: torch.Tensor, seed: int
) -> int:
    """Train in place; the number of passes of the best epoch, whose weights are put back."""
    device = next(module.parameters()).device
    order = seeds.generator(seed, "network", "held").permutation(len(target))
    validation_rows = np.sort(order[: max(2, round(schedule.held * len(order))) if schedule.held else 0])
    rows = np.sort(order[len(validation_rows) :])
    if len(rows) < 2:
        raise InputError(f"Network.held: {schedule.held:g} of {len(order)} records leaves fewer than 2 to learn")
    # One kernel for all parameters: a third of the time where an embedding has millions of them.
    optimizer = torch.optim.Adam(
        module.parameters(),
        lr=float(schedule.lr),
        weight_decay=float(schedule.weight_decay),
        fused=device.type != "mps",
    )
    lowest, best, best_state = np.inf, 0, copy.deepcopy(module.state_dict())
    batch_seed = seeds.derive_seed(seed, "network", "batches")
    for epoch in range(1, schedule.epochs + 1):
        module.train()
        for batch in networks.epoch_batches(rows, batch_seed, epoch, schedule.batch_size):
            optimizer.zero_grad(set_to_none=True)
            outputs = _forward(module, prepared[batch], device)
            _loss(shape, outputs, networks.move(target[batch], device)).backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
        if not networks.all_finite(module.parameters()):
            break
        loss = (
            _validation_loss(shape, module, prepared[validation_rows], target[validation_rows])
            if len(validation_rows)
            else -float(epoch)
        )  # the last is best
        if loss < lowest:
            lowest, best, best_state = loss, epoch, copy.deepcopy(module.state_dict())
        elif epoch - best >= schedule.patience:
            break
    module.load_state_dict(best_state)
    return best


def _validation_loss(shape: NetworkShape, module: nn.Sequential, prepared: Array, target: torch.Tensor) -> float:
    device = next(module.parameters()).device
    return float(_loss(shape, torch.from_numpy(_predict(module, prepared, device)), target))


class MonotoneHead(nn.Module):
    """Quantiles that cannot cross: the lowest one, and positive steps up from it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.linear = nn.LazyLinear(count)

    def forward(self, embedding: torch.Tensor) -> torch.Tensor:
        """``[n, h]`` to increasing ``[n, levels]``."""
        lowest, steps = self.linear(embedding).split([1, self.linear.out_features - 1], dim=1)
        return torch.cat([lowest, lowest + functional.softplus(steps).cumsum(1)], dim=1)


def _loss(shape: NetworkShape, out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood in nats (less a constant), or the mean pinball loss over the levels."""
    if shape.head == "gaussian":
        mean, log_variance = out[:, 0], out[:, 1].clamp(-_LOG_VARIANCE, _LOG_VARIANCE)
        return 0.5 * (log_variance + (target - mean).square() * torch.exp(-log_variance)).mean()
    levels = out.new_tensor(shape.levels)
    gap = target[:, None] - out
    return torch.maximum(levels * gap, (levels - 1) * gap).mean()


def _forward(module: nn.Module, prepared: Array, device: torch.device) -> torch.Tensor:
    try:
        outputs: torch.Tensor = module(networks.move(torch.from_numpy(prepared), device))
    except (RuntimeError, ValueError) as error:
        if device_memory.is_out_of_memory(error):
            raise
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"Network.body: it cannot take records of shape {prepared.shape[1:]}: {reason}") from error
    return outputs


def _predict(module: nn.Module, prepared: Array, device: torch.device) -> Floats:
    module.eval()
    parts = device_memory.run_in_slices(
        lambda rows: _forward(module, np.ascontiguousarray(prepared[rows]), device).cpu().numpy(),
        len(prepared),
        item_size=math.prod(prepared.shape[1:]) or 1,
        unit=device_memory.RECORD_VALUES,
        device=device,
        remedy="a device with more is needed",
        at_once=_PREDICTION_BATCH,
    )
    with torch.inference_mode():
        return np.concatenate(list(parts)).astype(np.float64)


def _normal_quantiles(levels: tuple[float, ...]) -> Floats:
    return np.asarray(special.ndtri(levels), dtype=np.float64)
