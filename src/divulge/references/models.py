"""Networks and tensors: building, checking, asking. The one place where user data becomes torch data."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from divulge import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from divulge.types import Array, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Records on the device: ``x[n, ...]`` ready for the network, labels ``y[n]``."""

    x: torch.Tensor
    y: torch.Tensor


def precision(name: str) -> torch.dtype:
    """The type of weights and records."""
    return torch.float64 if name == "double" else torch.float32


@contextlib.contextmanager
def one_thread() -> Generator[None]:
    """One thread inside the block: small products gain nothing from more, and lose much when cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def randomness(seed: int, where: torch.device) -> Generator[None]:
    """Torch's generators seeded inside the block, and as they were after it."""
    devices = [where] if where.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def build(make_model: Callable[..., Any], seed: int) -> nn.Module:
    """A fresh network on the CPU; the same seed gives the same weights.

    ``make_model`` may take the seed (its first required or its ``seed`` parameter) or nothing: torch's
    generators are seeded either way.

    Raises:
        divulge.InputError: the function does not return a network with parameters.
    """
    with randomness(seed, torch.device("cpu")):
        arguments, named = _takes_seed(make_model, seed)
        module = make_model(*arguments, **named)
    if not isinstance(module, nn.Module) or not any(p.requires_grad for p in module.parameters()):
        raise checks.InputError(f"make_model: a torch.nn.Module with parameters is needed, got {type(module).__name__}")
    return module


def _takes_seed(make_model: Callable[..., Any], seed: int) -> tuple[tuple[int, ...], dict[str, int]]:
    try:
        parameters = inspect.signature(make_model).parameters.values()
    except (TypeError, ValueError):
        return (), {}
    if any(p.name == "seed" and p.kind is not p.POSITIONAL_ONLY for p in parameters):
        return (), {"seed": seed}
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return ((seed,), {}) if required else ((), {})


def tensor(x: Array, module: nn.Module, where: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Records as the network wants them: token numbers for an embedding, ``dtype`` otherwise."""
    if x.dtype == object:
        raise checks.InputError("x: a network needs numbers, got text (turn it into token numbers first)")
    embeds = x.dtype.kind in "iu" and any(isinstance(p, nn.Embedding | nn.EmbeddingBag) for p in module.modules())
    wanted = torch.int64 if embeds else dtype
    plain = np.ascontiguousarray(x)
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device=where, dtype=wanted)


def labels(y: Array, where: torch.device) -> torch.Tensor:
    """Class labels on the device."""
    return torch.tensor(np.asarray(y, dtype=np.int64), device=where)


@torch.inference_mode()
def logits(
    module: nn.Module,
    x: Array,
    where: torch.device,
    dtype: torch.dtype = torch.float32,
    form: torch.memory_format = torch.contiguous_format,
) -> Floats:
    """Outputs ``[n, K]`` of a network in evaluation mode, as float32 (float64 for a float64 network)."""
    module.eval()
    return module(tensor(x, module, where, dtype).contiguous(memory_format=form)).to(dtype).cpu().numpy()


def check_outputs(module: nn.Module, x: Array, classes: int, where: torch.device, dtype: torch.dtype) -> None:
    """Ask the untrained network about two records.

    Raises:
        divulge.InputError: the network cannot take such records, or has another number of outputs than classes.
    """
    try:
        found = logits(module, x[:2], where, dtype)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, checks.InputError | torch.OutOfMemoryError):
            raise
        raise checks.InputError(
            f"make_model: the network cannot take records of shape {x.shape[1:]}: {error}"
        ) from None
    if found.ndim != 2 or found.shape[1] != classes:
        raise checks.InputError(
            f"make_model: {classes} outputs are needed (one a class of the label set), got shape {found.shape[1:]}"
        )


def arrays(module: nn.Module) -> dict[str, Array]:
    """The parameters and buffers of a network as plain arrays; half precision is widened, which loses nothing."""
    found = {}
    for name, value in module.state_dict().items():
        plain = value.detach().cpu()
        narrow = plain.dtype.is_floating_point and plain.element_size() < 4
        found[name] = np.array((plain.float() if narrow else plain).numpy(), order="C")
    return found


def load(module: nn.Module, state: Mapping[str, Array]) -> nn.Module:
    """Put stored parameters and buffers into a network."""
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    return module
