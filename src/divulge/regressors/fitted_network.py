"""How a neural regressor is trained, stopped, and asked."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from scipy import special
from torch import nn
from torch.nn import functional

from divulge import networks, seeds
from divulge.errors import InputError
from divulge.targets.modules import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.regressors.bodies import Body
    from divulge.types import Array, Floats

# Standard deviations of the standardised signal between e⁻⁵ and e⁵: beyond, a likelihood is a spike on one record.
_LOG_VARIANCE = 10.0
_ASKED = 256


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast a regressor learns: those fields of `divulge.regressors.Network`."""

    epochs: int
    lr: float
    batch_size: int
    weight_decay: float
    held: float
    patience: int
    device: str


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """What a regressor's network is made of: those fields of `divulge.regressors.Network`."""

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
            at = _normal(self.shape.levels)
            spread = (out[:, -1] - out[:, 0]) / (at[-1] - at[0])
            nearest = int(np.abs(at).argmin())
            middle = out[:, nearest] - at[nearest] * spread
        return self.location + self.scale * middle, self.scale * spread

    def quantiles(self, features: Array) -> Floats:
        """Conditional quantiles at ``shape.levels``, never crossing, ``[n, levels]``."""
        if self.shape.head == "pinball":
            return self.location + self.scale * self._out(features)
        location, scale = self.predict(features)
        return location[:, None] + scale[:, None] * _normal(self.shape.levels)

    def embed(self, features: Array) -> Floats:
        """The layer the head stands on, ``[n, h]``: what `divulge.evaluation.transfer` looks at."""
        return _asked(self.module[0], self.shape.body.prepare(np.asarray(features)), self._where)

    @property
    def _where(self) -> torch.device:
        return next(self.module.parameters()).device

    def _out(self, features: Array) -> Floats:
        prepared = self.shape.body.prepare(np.asarray(features))
        if not self.epochs:
            return np.full((len(prepared), max(2, len(self.shape.levels))), np.nan)
        return _asked(self.module, prepared, self._where)


def fit(shape: NetworkShape, schedule: Schedule, prepared: Array, signal: Floats, seed: int) -> FittedNetwork:
    """The network of the epoch with the lowest held-out loss, or of the last one where nothing is held out.

    Args:
        shape: what the network is made of.
        schedule: how it learns.
        prepared: what the body made of the records, ``[z, ...]``.
        signal: ``[z]``.
        seed: the user's.
    """
    where = resolve(schedule.device)
    location, scale = float(signal.mean()), float(signal.std())
    scale = scale if scale > 0 or np.isnan(scale) else 1.0
    with networks.single_thread(), networks.torch_seed(seeds.derive_seed(seed, "network", "weights"), where):
        module = nn.Sequential(shape.body.build(prepared), _head(shape))
        module.eval()
        _take(module, prepared[:2], torch.device("cpu"))
        module.to(where)
        target = torch.from_numpy(((signal - location) / scale).astype(np.float32))
        best = _train(shape, schedule, module, prepared, target, seed)
    return FittedNetwork(shape, module.eval(), location, scale, best)


def _train(
    shape: NetworkShape, schedule: Schedule, module: nn.Sequential, prepared: Array, target: torch.Tensor, seed: int
) -> int:
    """Train in place; the number of passes of the best epoch, whose weights are put back."""
    where = next(module.parameters()).device
    order = seeds.generator(seed, "network", "held").permutation(len(target))
    held = np.sort(order[: max(2, round(schedule.held * len(order))) if schedule.held else 0])
    rows = np.sort(order[len(held) :])
    if len(rows) < 2:
        raise InputError(f"Network.held: {schedule.held:g} of {len(order)} records leaves fewer than 2 to learn")
    update = torch.optim.Adam(module.parameters(), lr=float(schedule.lr), weight_decay=float(schedule.weight_decay))
    lowest, best, kept = np.inf, 0, copy.deepcopy(module.state_dict())
    draw = seeds.derive_seed(seed, "network", "batches")
    for epoch in range(1, schedule.epochs + 1):
        module.train()
        for batch in networks.epoch_batches(rows, draw, epoch, schedule.batch_size):
            update.zero_grad(set_to_none=True)
            _loss(shape, _take(module, prepared[batch], where), target[batch].to(where)).backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            update.step()
        if not networks.all_finite(module.parameters()):
            break
        now = (
            _held_loss(shape, module, prepared[held], target[held]) if len(held) else -float(epoch)
        )  # the last is best
        if now < lowest:
            lowest, best, kept = now, epoch, copy.deepcopy(module.state_dict())
        elif epoch - best >= schedule.patience:
            break
    module.load_state_dict(kept)
    return best


def _held_loss(shape: NetworkShape, module: nn.Sequential, prepared: Array, target: torch.Tensor) -> float:
    where = next(module.parameters()).device
    return float(_loss(shape, torch.from_numpy(_asked(module, prepared, where)), target))


def _head(shape: NetworkShape) -> nn.Module:
    return nn.LazyLinear(2) if shape.head == "gaussian" else Steps(len(shape.levels))


class Steps(nn.Module):
    """Quantiles that cannot cross: the lowest one, and positive steps up from it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.linear = nn.LazyLinear(count)

    def forward(self, embedding: torch.Tensor) -> torch.Tensor:
        """``[n, h]`` to increasing ``[n, levels]``."""
        first, steps = self.linear(embedding).split([1, self.linear.out_features - 1], dim=1)
        return torch.cat([first, first + functional.softplus(steps).cumsum(1)], dim=1)


def _loss(shape: NetworkShape, out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood in nats (less a constant), or the mean pinball loss over the levels."""
    if shape.head == "gaussian":
        mean, log_variance = out[:, 0], out[:, 1].clamp(-_LOG_VARIANCE, _LOG_VARIANCE)
        return 0.5 * (log_variance + (target - mean).square() * torch.exp(-log_variance)).mean()
    levels = out.new_tensor(shape.levels)
    gap = target[:, None] - out
    return torch.maximum(levels * gap, (levels - 1) * gap).mean()


def _take(module: nn.Module, prepared: Array, where: torch.device) -> torch.Tensor:
    try:
        outputs: torch.Tensor = module(torch.from_numpy(prepared).to(where))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"Network.body: it cannot take records of shape {prepared.shape[1:]}: {reason}") from error
    return outputs


def _asked(module: nn.Module, prepared: Array, where: torch.device) -> Floats:
    module.eval()
    with torch.inference_mode():
        parts = [_take(module, part, where).cpu().numpy() for part in _parts(prepared)]
    return np.concatenate(parts).astype(np.float64)


def _parts(prepared: Array) -> Iterator[Array]:
    return (np.ascontiguousarray(prepared[i : i + _ASKED]) for i in range(0, len(prepared), _ASKED))


def _normal(levels: tuple[float, ...]) -> Floats:
    return np.asarray(special.ndtri(levels), dtype=np.float64)
