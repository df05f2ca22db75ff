"""How images lie in memory: on the CPU, convolutions run faster with a pixel's channels side by side.

Measured on one core, training is 1.2 to 1.4 times and asking 1.3 to 3 times as fast as with a channel's pixels side
by side; the results differ by rounding alone.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import torch
from torch import nn

from divulge.references import models

Layout: TypeAlias = torch.memory_format
PLAIN = torch.contiguous_format


def best(module: nn.Module, x: torch.Tensor) -> Layout:
    """The layout a network trains fastest in, for records like ``x[n, ...]``.

    Channels come last only for images on the CPU in a network with convolutions that can take them so: one that
    cuts its records up by `Tensor.view`, say, cannot.
    """
    convolves = any(isinstance(part, nn.Conv2d) for part in module.modules())
    if x.device.type != "cpu" or x.ndim != 4 or not convolves:
        return PLAIN
    return torch.channels_last if _takes(module, x[:2]) else PLAIN


def turn(module: nn.Module, form: Layout) -> nn.Module:
    """The network itself, its weights laid out anew."""
    move: Any = module.to  # torch's own annotations leave this form of the call out
    return move(memory_format=form)


def _takes(module: nn.Module, x: torch.Tensor) -> bool:
    """Whether a copy of the network goes forward and back with channels last, and answers as it does without."""
    probe = copy.deepcopy(module)
    with models.randomness(0, x.device):
        try:
            with torch.no_grad():
                plain = probe.eval()(x)
                turned = turn(probe, torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
            probe.train()(x.contiguous(memory_format=torch.channels_last)).sum().backward()
        except (RuntimeError, ValueError):
            return False
    return torch.allclose(plain, turned, rtol=1e-3, atol=1e-4)
