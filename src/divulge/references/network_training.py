"""Building, checking, training and querying networks; here user data become torch data."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.lazy import LazyModuleMixin

from divulge import errors, networks, seeds
from divulge.errors import InputError
from divulge.targets import device_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from divulge.references.hyperparameters import Hyperparameters
    from divulge.types import Array, Floats, Ints


HyperparametersT = TypeVar("HyperparametersT", bound="Hyperparameters")

MemoryFormat: TypeAlias = torch.memory_format
"""Memory layout of images: on the CPU, convolutions run faster with a pixel's channels side by side.

Measured on one core, training is 1.2 to 1.4 times and asking 1.3 to 3 times as fast as with a channel's pixels side
by side; the results differ by rounding alone.
"""

CONTIGUOUS = torch.contiguous_format


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Records on the device: ``x[n, ...]`` as the network takes them, and labels ``y[n]``."""

    x: torch.Tensor
    y: torch.Tensor


def weights_dtype(name: str) -> torch.dtype:
    """Return the type of weights and records."""
    return torch.float64 if name == "double" else torch.float32


def build_network(make_model: Callable[..., Any] | None, seed: int) -> nn.Module:
    """Build a new network on the CPU; the same seed gives the same weights.

    ``make_model`` may take the seed (its first required or its ``seed`` parameter) or nothing: torch's
    generators are seeded either way.

    Raises:
        divulge.InputError: the function does not return a network with parameters.
    """
    if make_model is None:
        raise InputError("make_model: a function that returns a new network is needed, got None")
    with networks.torch_seed(seed, torch.device("cpu")):
        arguments, seed_argument = _seed_arguments(make_model, seed)
        with errors.user_code_errors("make_model"):
            module = make_model(*arguments, **seed_argument)
    if not isinstance(module, nn.Module) or not any(p.requires_grad for p in module.parameters()):
        raise InputError(f"make_model: a torch.nn.Module with parameters is needed, got {type(module).__name__}")
    return module


@dataclass(frozen=True, slots=True)
class LazyModel:
    """``make_model`` of networks with lazy modules (`torch.nn.LazyLinear`), which take their shapes from one record.

    Args:
        make_model: the user's function.
        record: one record, ``[1, ...]``.
    """

    make_model: Callable[..., Any]
    record: Array

    def __call__(self, seed: int) -> nn.Module:
        """Return a network whose parameters have their shapes; they are drawn from torch's generators, as others are.

        Raises:
            divulge.InputError: the network cannot take the record.
        """
        module = build_network(self.make_model, seed)
        # Building has reset the generators, so what the lazy modules draw needs a stream of its own.
        device = torch.device("cpu")
        stream = seeds.derive_seed(seed, "lazy modules")
        with networks.torch_seed(stream, device), torch.no_grad(), _errors_of_records(self.record):
            module.eval()(to_tensor(self.record, module, device, torch.float32))
        return module.train()


def initialize_lazy(config: HyperparametersT, x: object) -> HyperparametersT:
    """Return settings whose ``make_model`` gives networks with shapes, if those of the user have lazy modules.

    Args:
        config: settings of the training.
        x: what the networks are trained on, ``[n, ...]``.
    """
    try:
        module = build_network(config.make_model, 0)
    except InputError:
        return config  # raised again where the records have been checked
    is_lazy = any(isinstance(part, LazyModuleMixin) and part.has_uninitialized_params() for part in module.modules())
    if config.make_model is None or not isinstance(x, np.ndarray) or not is_lazy:
        return config
    return replace(config, make_model=LazyModel(config.make_model, x[:1]))


def _seed_arguments(make_model: Callable[..., Any], seed: int) -> tuple[tuple[int, ...], dict[str, int]]:
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


def to_tensor(x: Array, module: nn.Module, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Convert records for the network: token numbers for an embedding, ``dtype`` otherwise."""
    if x.dtype == object:
        raise InputError("x: a network needs numbers, got text (turn it into token numbers first)")
    embeds = x.dtype.kind in "iu" and any(isinstance(p, nn.Embedding | nn.EmbeddingBag) for p in module.modules())
    target_dtype = torch.int64 if embeds else dtype
    contiguous = np.ascontiguousarray(x)
    tensor = torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy())
    return networks.move(tensor.to(target_dtype), device)


def label_tensor(y: Array, device: torch.device) -> torch.Tensor:
    """Return the class labels as a tensor on the device."""
    return torch.tensor(np.asarray(y, dtype=np.int64), device=device)


@torch.inference_mode()
def predict_logits(
    module: nn.Module,
    x: Array,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    form: torch.memory_format = torch.contiguous_format,
) -> Floats:
    """Return outputs ``[n, K]`` of a network in evaluation mode, as float32 (float64 for a float64 network).

    Raises:
        divulge.InputError: not even one record at a time fits into memory.
    """
    module.eval()
    outputs = device_memory.run_in_slices(
        lambda rows: module(to_tensor(x[rows], module, device, dtype).contiguous(memory_format=form)),
        len(x),
        item_size=math.prod(x.shape[1:]) or 1,
        unit=device_memory.RECORD_VALUES,
        device=device,
        remedy="a device with more is needed",
        at_once=networks.records_per_pass(x.ndim, device, rows=max(1, len(x))),
    )
    return torch.cat(list(outputs)).to(dtype).cpu().numpy()


def check_outputs(module: nn.Module, x: Array, classes: int, device: torch.device, dtype: torch.dtype) -> None:
    """Query the untrained network on two records.

    Raises:
        divulge.InputError: the network cannot take such records, or has another number of outputs than classes.
    """
    with _errors_of_records(x):
        outputs = predict_logits(module, x[:2], device, dtype)
    if outputs.ndim != 2 or outputs.shape[1] != classes:
        raise InputError(
            f"make_model: {classes} outputs are needed (one per class of the label set), got shape {outputs.shape[1:]}"
        )


@contextlib.contextmanager
def _errors_of_records(x: Array) -> Generator[None]:
    """Raise what a network raises inside the block as an error about the shape of the records."""
    try:
        yield
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, InputError) or device_memory.is_out_of_memory(error):
            raise
        raise InputError(f"make_model: the network cannot take records of shape {x.shape[1:]}: {error}") from None


def state_arrays(module: nn.Module) -> dict[str, Array]:
    """Return parameters and buffers as plain arrays; half precision is widened, which loses nothing."""
    arrays = {}
    for name, value in module.state_dict().items():
        plain = value.detach().cpu()
        narrow = plain.dtype.is_floating_point and plain.element_size() < 4
        arrays[name] = np.array((plain.float() if narrow else plain).numpy(), order="C")
    return arrays


def load_state(module: nn.Module, state: Mapping[str, Array]) -> nn.Module:
    """Put stored parameters and buffers into a network."""
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    return module


def choose_layout(module: nn.Module, x: torch.Tensor) -> MemoryFormat:
    """Return the memory layout in which a network trains fastest, for records like ``x[n, ...]``.

    Channels come last only for images on the CPU in a network with convolutions that can take them so: one that
    cuts its records up by `Tensor.view`, say, cannot.
    """
    convolves = any(isinstance(part, nn.Conv2d) for part in module.modules())
    if x.device.type != "cpu" or x.ndim != 4 or not convolves:
        return CONTIGUOUS
    return torch.channels_last if _supports_channels_last(module, x[:2]) else CONTIGUOUS


def set_layout(module: nn.Module, form: MemoryFormat) -> nn.Module:
    """Set the memory layout of a network's weights, and return it."""
    move: Any = module.to  # torch's own annotations leave this form of the call out
    return move(memory_format=form)


def _supports_channels_last(module: nn.Module, x: torch.Tensor) -> bool:
    """Check that the network trains with channels last, and answers as it does without."""
    probe = copy.deepcopy(module)
    with networks.torch_seed(0, x.device):
        try:
            with torch.no_grad():
                plain = probe.eval()(x)
                channels_last = set_layout(probe, torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
            probe.train()(x.contiguous(memory_format=torch.channels_last)).sum().backward()
        except (RuntimeError, ValueError):
            return False
    return torch.allclose(plain, channels_last, rtol=1e-3, atol=1e-4)


class DivergedError(ArithmeticError):
    """The loss became NaN or infinite, and the weights with it."""


AfterEpoch: TypeAlias = "Callable[[int, nn.Module], bool]"
"""Called with the number of epochs done and the network, which it may query; True ends the training."""


def train_by_sgd(
    config: Hyperparameters,
    data: TrainingData,
    rows: Ints,
    seed: int,
    tick: Callable[[float], None] | None = None,
    after_epoch: AfterEpoch | None = None,
) -> nn.Module:
    """Train one network on ``data[rows]``.

    Args:
        config: the hyperparameters.
        data: all records on the device.
        rows: positions of this model's records.
        seed: the model's own seed: weights, batch order, dropout and augmentation follow from it.
        tick: called with the share of epochs done after each.
        after_epoch: called after each epoch.

    Raises:
        DivergedError: NaN or infinity in the weights.
        divulge.InputError: a batch does not fit into memory.
    """
    device, dtype = data.x.device, weights_dtype(config.precision)
    module = build_network(config.make_model, seed).to(device=device, dtype=dtype)
    layout = choose_layout(module, data.x)
    set_layout(module, layout)
    optimizer = make_optimizer(config, module.parameters())
    total = config.epochs * networks.steps_per_epoch(len(rows), config.batch_size)
    step = 0
    with networks.torch_seed(seeds.derive_seed(seed, "noise"), device), batch_memory_errors(config, device):
        augment_rng = torch.Generator(device=device).manual_seed(seeds.derive_seed(seed, "augment"))
        for epoch in range(config.stop_after or config.epochs):
            module.train()
            correct = torch.zeros((), device=device)
            for batch in networks.epoch_batches(rows, seed, epoch, config.batch_size):
                batch_rows = networks.move(torch.from_numpy(batch), device)
                x, y = data.x.index_select(0, batch_rows), data.y[batch_rows]
                if config.augment is not None:
                    with errors.user_code_errors("augment", torch.OutOfMemoryError):
                        x = config.augment(x, augment_rng)
                set_learning_rate(optimizer, config.rate(step / total))
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "mixed"):
                    z = module(x.contiguous(memory_format=layout))
                    loss = functional.cross_entropy(z, y)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                step += 1
                if config.stop_at_accuracy is not None:
                    correct += (z.detach().argmax(1) == y).sum()
            if not networks.all_finite(module.parameters()):
                raise DivergedError
            if tick is not None:
                tick((epoch + 1) / (config.stop_after or config.epochs))
            if after_epoch is not None and after_epoch(epoch + 1, module):
                break
            if config.stop_at_accuracy is not None and float(correct) >= config.stop_at_accuracy * len(rows):
                break
    return set_layout(module, CONTIGUOUS)


def batch_memory_errors(config: Hyperparameters, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Say what would need less memory where that of a step runs out inside the block."""
    work = f"for a step on {config.batch_size:,} records"
    return device_memory.memory_errors(work, device, "a smaller batch_size or precision='mixed' needs less")


def make_optimizer(config: Hyperparameters, parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """Return torch's optimiser for these settings; all work element by element, on stacked weights too.

    Fused where torch can: a stack's weights do not fit the cache, and one pass over them takes a sixth of Adam's time.
    """
    trainable = [p for p in parameters if p.requires_grad]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in trainable)
    shared: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay, "fused": fused}
    if config.optimizer == "sgd":
        return torch.optim.SGD(trainable, momentum=config.momentum, **shared)
    return (torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam)(trainable, **shared)


def set_learning_rate(update: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in update.param_groups:
        group["lr"] = rate
