"""Memory of the device that a model is on: where it runs out, less is run at a time, and the work goes on."""

from __future__ import annotations

import contextlib
import gc
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from divulge import validation
from divulge.errors import InputError, missing_extra

try:
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "torch") from None

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

_Result = TypeVar("_Result")

# What torch says where an allocator without an exception of its own has nothing left: CUDA's, HIP's, MPS's; the CPU's;
# and cuDNN, which finds no room for its workspace.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "CUDNN_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_ALLOC_FAILED")

RECORD_VALUES = "values of records"
"""What is counted of the records that go through a network at once: the numbers in them."""

# By device and what is counted, the most that has fitted since memory ran out there.
_largest_sizes: dict[tuple[str, str], int] = {}


def run_in_slices(
    work: Callable[[slice], _Result],
    count: int,
    *,
    item_size: int,
    unit: str,
    device: torch.device,
    remedy: str,
    at_once: int | None = None,
) -> Iterator[_Result]:
    """Yield ``work`` of consecutive slices of ``count`` items: of all at once, or of fewer where memory runs out.

    Each time it runs out the size is halved; what fits is remembered for the device until `forget_sizes`.

    Args:
        work: what is done with some items; done again with fewer if memory runs out.
        count: number of items.
        item_size: what one of them takes, in ``unit``.
        unit: what is counted, such as "tokens".
        device: whose memory it is.
        remedy: what would need less, for the error.
        at_once: items of a slice at most, however much memory there is; None for all.

    Raises:
        divulge.InputError: not even one item fits.

    Examples:
        >>> def double(rows):
        ...     if rows.stop - rows.start > 2:
        ...         raise torch.OutOfMemoryError("too much")
        ...     return [2 * row for row in range(rows.start, rows.stop)]
        >>> list(run_in_slices(double, 5, item_size=1, unit="rows", device=torch.device("cpu"), remedy=""))
        [[0, 2], [4, 6], [8]]
        >>> forget_sizes()
    """
    start = 0
    while start < count:
        largest = _largest_sizes.get((str(device), unit))
        n_items = (at_once or count) if largest is None else min(at_once or count, max(largest // item_size, 1))
        stop = min(start + n_items, count)
        try:
            result = work(slice(start, stop))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if stop - start == 1:
                raise InputError(
                    f"memory: {device} has too little for {item_size:,} {unit} at once; {remedy}"
                ) from None
        else:
            start = stop
            yield result
            continue
        # Not within the handler: the exception's frames hold on to the tensors of the attempt.
        remember_halved((stop - start) * item_size, unit, device)


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
        isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    )


@contextlib.contextmanager
def memory_errors(work: str, device: torch.device, remedy: str) -> Generator[None]:
    """Name ``work``, and what would need less, where memory runs out inside the block.

    Raises:
        divulge.InputError: it does.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(f"memory: {device} has too little {work}; {remedy}") from None


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated on a device; None where it does not say."""
    if device.type == "cpu":
        return validation.available_memory()
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    return None


@dataclass(slots=True)
class MemoryPeak:
    """Bytes that a block of code held at most, beyond what was held before it."""

    n_bytes: int = 0


@contextlib.contextmanager
def measure_peak(device: torch.device) -> Generator[MemoryPeak]:
    """Measure the memory of tensors that a block holds at once: by the allocator of a GPU, else tensor by tensor.

    Elsewhere than on a GPU what other threads hold is not seen, nor what an operation holds inside.

    Examples:
        >>> with measure_peak(torch.device("cpu")) as peak:
        ...     x = torch.zeros(1000) + 1  # the zeros and the sum
        ...     del x
        ...     y = torch.zeros(500).view(2, 250)
        >>> peak.n_bytes
        8000
    """
    peak = MemoryPeak()
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak.n_bytes = torch.cuda.max_memory_allocated(device) - before
        return
    with _TensorCounter() as counter:
        yield peak
    peak.n_bytes = counter.most


class _TensorCounter(TorchDispatchMode):
    """Counts the bytes of new tensors, from when they are made until they are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most = 0
        self._storages: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {id(tensor.untyped_storage()) for tensor in _tensors((args, kwargs))}
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            # A view, or an operation in place, makes nothing new.
            if id(storage) not in given and id(storage) not in self._storages:
                self._add(storage)
        return result

    def _add(self, storage: Any) -> None:
        key, n_bytes = id(storage), storage.nbytes()

        def release(_: object) -> None:
            self.held -= n_bytes
            del self._storages[key]

        self._storages[key] = weakref.ref(storage, release)
        self.held += n_bytes
        self.most = max(self.most, self.held)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor)]


def weights_size(model: Any) -> int:
    """Return the bytes of a model's weights; shared ones count once."""
    return sum({id(part.untyped_storage()): part.untyped_storage().nbytes() for part in model.parameters()}.values())


def module_device(module: Any) -> torch.device:
    """Return where a layer computes: where its weights are, or where accelerate brings them when they are needed."""
    hook = getattr(module, "_hf_hook", None)
    for part in getattr(hook, "hooks", (hook,)):
        if (device := getattr(part, "execution_device", None)) is not None:
            return torch.device(device)
    return module.weight.device


def input_device(model: Any) -> torch.device:
    """Return where a model takes its tokens: where its embedding is, of a model on several devices the first."""
    return module_device(model.get_input_embeddings())
