"""How long the gradient of a record's loss is in the weights of a network, record by record.

With the gradient of the loss in the logits, ``g = p - e_y``, and its direction ``v = g / ‖g‖``, the gradient in the
parameters is ``Jᵀg = ‖g‖ · Jᵀv``. ``‖g‖`` is computed from the logits in double precision and in logarithms, so that a
record which the network is sure of does not drown in the rounding of ``1 - p_y``; the network gives ``Jᵀv`` alone.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Floats, Ints

# Bytes of gradients held at once; a record of a network with more parameters than fit goes by itself.
_GRADIENT_BYTES = 1 << 26
# Logarithms stay within these bounds: a gradient of exactly 0, or one that overflows, is still a number.
MAX_LOG_NORM = 500.0
# Probabilities that differ by more are not of the same logits.
_PROBABILITY_TOLERANCE = 1e-2


def logit_gradients(logits: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """Log ``‖p - e_y‖``, ``[n]``, and its direction ``[n, K]``.

    Examples:
        >>> length, direction = logit_gradients(np.array([[0.0, 0.0], [800.0, 0.0]]), np.array([0, 0]))
        >>> length.round(1).tolist(), direction.round(4).tolist()
        ([-0.3, -799.7], [[-0.7071, 0.7071], [-0.7071, 0.7071]])
    """
    rows = np.arange(len(logits))
    z = logits - logits.max(axis=1, keepdims=True)
    parts = z - np.log(np.exp(z).sum(axis=1, keepdims=True))  # log p
    parts[rows, labels] = -np.inf
    parts[rows, labels] = np.logaddexp.reduce(parts, axis=1)  # log(1 - p_y), from the others
    length = np.logaddexp.reduce(2.0 * parts, axis=1) / 2.0
    with np.errstate(invalid="ignore"):
        direction = np.exp(parts - length[:, None])
    direction[~np.isfinite(length)] = 0.0
    direction[rows, labels] *= -1.0
    return length, direction


def same_probabilities(logits: Floats, answers: Floats) -> bool:
    """Whether two tables of logits mean the same probabilities, up to the rounding of single precision."""
    p, q = (np.exp(z - z.max(axis=1, keepdims=True)) for z in (logits, answers))
    return bool(np.abs(p / p.sum(axis=1, keepdims=True) - q / q.sum(axis=1, keepdims=True)).max() < _PROBABILITY_TOLERANCE)


def last_layer_log_norms(length: Floats, v: Floats, fed: Floats, *, bias: bool) -> Floats:
    """Log of the gradient's norm in the last linear layer alone, ``[n]``: ``‖g‖ · √(‖h‖² + 1)``, the 1 for a bias.

    Args:
        length: log ``‖g‖``, ``[n]``, with two classes where the layer has one output.
        v: the direction of g in the layer's outputs, ``[n, K]``; shorter than 1 where the layer has one output.
        fed: what the layer is fed, h, ``[n, h]``.
        bias: whether it has one.

    Examples:
        >>> last_layer_log_norms(np.array([0.0]), np.array([[0.6, -0.8]]), np.array([[2.0, 2.0]]), bias=True).round(4)
        array([1.0986])
    """
    with np.errstate(divide="ignore"):
        return clip_log_norms(length + np.log((v**2).sum(axis=1) * ((fed**2).sum(axis=1) + float(bias))) / 2.0)


def parameter_log_norms(module: nn.Module, last: nn.Linear, x: torch.Tensor, v: torch.Tensor) -> Floats:
    """Log ``‖Jᵀv‖`` of each record, ``[n]``, over all parameters; by `vmap` where it can, else one record at a time.

    Args:
        module: the network, in evaluation mode on the records' device.
        last: its last linear layer, whose outputs are the logits.
        x: records, ``[n, ...]``.
        v: directions in the logits, ``[n, K]``.

    Raises:
        divulge.InputError: a network that cannot be differentiated.
    """
    weights = {name: p.detach() for name, p in module.named_parameters() if p.is_floating_point()}
    said: list[torch.Tensor] = []

    def along(held: dict[str, torch.Tensor], record: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        functional_call(module, held, (record[None],))
        return (said.pop()[0] * direction).sum()

    def alone(record: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        module(record[None])
        return (said.pop()[0] * direction).sum()

    size = max(1, _GRADIENT_BYTES // (4 * sum(p.numel() for p in weights.values())))
    watch = last.register_forward_hook(lambda _, __, outputs: said.append(outputs))
    try:
        slopes = vmap(grad(along), in_dims=(None, 0, 0))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")  # true and harmless
            squares = [_squared_norms(slopes(weights, *part)) for part in zip(x.split(size), v.split(size), strict=True)]
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError):
        squares = _squared_norms_one_by_one(module, alone, x, v)  # whatever vmap cannot do ends here
    finally:
        watch.remove()
    if not (values := torch.cat(squares)).any():
        raise InputError("target: the module cannot be differentiated in its weights: every gradient is 0")
    with np.errstate(divide="ignore"):
        return clip_log_norms(np.log(values.double().cpu().numpy()) / 2.0)


def clip_log_norms(values: Floats) -> Floats:
    """Within `BOUND`; what is not a number, as the largest: nothing memorised has such a gradient."""
    return np.clip(np.nan_to_num(values, nan=MAX_LOG_NORM, posinf=MAX_LOG_NORM, neginf=-MAX_LOG_NORM), -MAX_LOG_NORM, MAX_LOG_NORM)


def _squared_norms(slopes: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.stack([slope.float().flatten(1).square().sum(1) for slope in slopes.values()]).sum(0)


def _squared_norms_one_by_one(
    module: nn.Module,
    along: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    v: torch.Tensor,
) -> list[torch.Tensor]:
    held = [p for p in module.parameters() if p.is_floating_point()]
    frozen = [p for p in held if not p.requires_grad]
    squares = []
    try:
        for p in frozen:
            p.requires_grad_(True)
        for record, direction in zip(x, v, strict=True):
            slopes = torch.autograd.grad(along(record, direction), held, allow_unused=True, materialize_grads=True)
            squares.append(torch.stack([slope.float().square().sum() for slope in slopes]).sum().reshape(1))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"target: the module cannot be differentiated in its weights: {reason}") from error
    finally:
        for p in frozen:
            p.requires_grad_(False)
    return squares
