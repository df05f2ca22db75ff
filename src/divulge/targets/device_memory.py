"""Memory of the device that a model is on: where it runs out, less is run at a time, and the rest of the work goes on."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from divulge import lazy, validation
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from accelerate.utils import memory as accelerate_memory
else:
    accelerate_memory = lazy.module("accelerate.utils.memory")

_Result = TypeVar("_Result")

# By device and what is counted, the most that has fitted since memory ran out there.
_largest_sizes: dict[tuple[str, str], int] = {}


def run_in_slices(
    work: Callable[[slice], _Result], count: int, *, item_size: int, unit: str, device: torch.device, remedy: str
) -> list[_Result]:
    """Return ``work`` of consecutive slices of ``count`` items: of all at once, or of fewer where memory runs out.

    Each time it runs out the size is halved; what fits is remembered for the device until `forget_sizes`.

    Args:
        work: what is done with some items; done again with fewer if memory runs out.
        count: number of items.
        item_size: what one of them takes, in ``unit``.
        unit: what is counted, such as "tokens".
        device: whose memory it is.
        remedy: what would need less, for the error.

    Raises:
        divulge.InputError: not even one item fits.

    Examples:
        >>> def double(rows):
        ...     if rows.stop - rows.start > 2:
        ...         raise torch.OutOfMemoryError("too much")
        ...     return [2 * row for row in range(rows.start, rows.stop)]
        >>> run_in_slices(double, 5, item_size=1, unit="rows", device=torch.device("cpu"), remedy="")
        [[0, 2], [4, 6], [8]]
        >>> forget_sizes()
    """
    results: list[_Result] = []
    start = 0
    while start < count:
        largest = _largest_sizes.get((str(device), unit))
        stop = count if largest is None else min(start + max(largest // item_size, 1), count)
        try:
            results.append(work(slice(start, stop)))
            start = stop
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if stop - start == 1:
                raise InputError(f"memory: {device} has too little for {item_size:,} {unit} at once; {remedy}") from None
        # Not within the handler: the exception's frames hold on to the tensors of the attempt.
        remember_halved((stop - start) * item_size, unit, device)
    return results


def remember_halved(size: int, unit: str, device: torch.device) -> int:
    """Remember that ``size`` does not fit and half of it is to be tried; free what is cached; return that half."""
    _largest_sizes[str(device), unit] = size // 2
    gc.collect()
    if device.type != "cpu" and (module := getattr(torch, device.type, None)) is not None:
        module.empty_cache()
    return size // 2


def largest_size(unit: str, device: torch.device) -> int | None:
    """Return the most that has fitted since memory ran out on a device; None where it never did."""
    return _largest_sizes.get((str(device), unit))


def forget_sizes() -> None:
    """Forget what did not fit, as when another program has freed the memory."""
    _largest_sizes.clear()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device, or this machine, has no memory left."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, Exception) and accelerate_memory.should_reduce_batch_size(error)
    )


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated on a device; None where it does not say."""
    if device.type == "cpu":
        return validation.available_memory()
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    return None


def module_device(module: Any) -> torch.device:
    """Return where a layer computes: where its weights are, or where accelerate brings them when they are needed."""
    hook = getattr(module, "_hf_hook", None)
    for part in getattr(hook, "hooks", (hook,)):
        if (device := getattr(part, "execution_device", None)) is not None:
            return torch.device(device)
    return module.weight.device


def input_device(model: Any) -> torch.device:
    """Return where a model takes its tokens, which is where its embedding is: of a model on several devices, the first."""
    return module_device(model.get_input_embeddings())
