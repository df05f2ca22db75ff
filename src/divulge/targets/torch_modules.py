"""PyTorch modules as targets: batched, in evaluation and inference mode, and left as they were found."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from divulge import networks
from divulge.errors import InputError
from divulge.targets import device_memory
from divulge.targets import outputs as out
from divulge.validation import (
    check_choice,
    check_integer,
    check_labels,
    format_exception,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from divulge.types import Array, Floats, Ints, Records

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TorchTarget:
    """A classifier ``module(x) -> [n, K]``.

    Records are cast to the module's own type, of several to the first that it takes; integers go as int64 into a
    module with an embedding (they are token ids there). Nothing is rescaled. The module stays on the device it was run
    on.

    Args:
        module: a ``torch.nn.Module``, a TorchScript module (frozen ones too), or a program that ``torch.export`` made.
        outputs: "logits" or "probabilities": what the module returns.
        device: "auto" (CUDA, else Apple's MPS, else CPU), or a torch device.
        batch_size: records per forward pass (None: 64 images on the CPU, where more are slower, and 1,024 otherwise);
            fewer where memory runs out.

    Raises:
        divulge.InputError: parameters on several devices, outputs that are not what was declared,
            records the module cannot take.

    Examples:
        >>> from divulge import Records
        >>> TorchTarget(torch.nn.Identity(), device="cpu").logits(Records([[1.0, -1.0]]))
        array([[ 1., -1.]])
    """

    module: Any
    outputs: str = "logits"
    device: str = "auto"
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.module, torch.export.ExportedProgram):
            object.__setattr__(self, "module", self.module.module())
        require_callable(self.module, "module")
        check_choice(self.outputs, "outputs", out.OUTPUT_TYPES)
        if self.batch_size is not None:
            check_integer(self.batch_size, "batch_size", minimum=1)
        devices = {str(tensor.device) for tensor in _state_tensors(self.module)}
        if len(devices) > 1:
            raise InputError(
                f"target: the module's parameters are on several devices ({', '.join(sorted(devices))}); "
                "move it to one with module.to(device)"
            )

    def logits(self, records: Records) -> Floats:
        """Logits of each record, float64 ``[n, K]``."""
        return out.as_logits(self.raw_outputs(records), self.outputs, len(records))

    def raw_outputs(self, records: Records) -> Array:
        """Return what the module returns for the records, as it is."""
        with _evaluation_mode(self.module, resolve_device(self.device)), torch.inference_mode():
            answers = self._batches(records.x, lambda batch, _: self._forward(batch).float().cpu().numpy())
            return np.concatenate(list(answers))

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)

    def loss(self, records: Records) -> Floats:
        """Cross-entropy in nats of each record under its own label, ``[n]``."""
        labels = _label_tensor(records)
        logits = torch.from_numpy(self.logits(records))
        return torch.nn.functional.cross_entropy(logits, labels, reduction="none").numpy()

    def gradients(self, records: Records) -> Floats:
        """∂ cross-entropy / ∂ x of each record, the shape of ``records.x``."""
        labels, device = _label_tensor(records), resolve_device(self.device)

        def differentiate(batch: torch.Tensor, rows: slice) -> Array:
            x = batch.requires_grad_()
            answer = self._forward(x.clone())  # the module may write into it, into `x` itself it must not
            is_probability = self.outputs == "probabilities"
            if answer.numel() == len(batch):  # of class 1 alone
                answer = answer.reshape(-1, 1)
                answer = torch.hstack([1 - answer if is_probability else torch.zeros_like(answer), answer])
            logits = torch.log(answer.clamp_min(out.PROBABILITY_FLOOR)) if is_probability else answer
            loss = torch.nn.functional.cross_entropy(logits, networks.move(labels[rows], device), reduction="sum")
            try:
                return torch.autograd.grad(loss, x)[0].float().cpu().numpy()
            except RuntimeError as error:
                if device_memory.is_out_of_memory(error):
                    raise
                raise InputError(
                    f"target: the module cannot be differentiated in its records ({format_exception(error)})"
                ) from None

        with _evaluation_mode(self.module, device):
            return np.concatenate(list(self._batches(records.x, differentiate))).astype(np.float64)

    def head(self, records: Records) -> tuple[Floats, Floats]:
        """Return the input of the last linear layer, ``[n, h]``, and that layer's weights ``[K, h]``.

        Raises:
            divulge.InputError: no linear layer is reached, or more than one vector per record arrives there.
        """
        _, hidden = self._forward_with_hidden(records)
        return hidden, _double(self._output_layer().weight)

    def gradient_norms(self, records: Records) -> Floats:
        """Logarithms of ‖∂ cross-entropy / ∂ θ‖ of each record, float64 ``[n, 2]``.

        First of the last linear layer's parameters, in closed form, then of all parameters of the module, one backward
        pass a record; frozen parameters count, too. A norm of 0 is told as e⁻⁵⁰⁰, one that overflows as e⁵⁰⁰.

        Raises:
            divulge.InputError: as `head`; no labels; outputs that are not those of the last linear layer; a module that
                cannot be differentiated.

        Examples:
            >>> from divulge import Records
            >>> layer = torch.nn.Linear(1, 2)
            >>> _ = layer.weight.data.zero_(), layer.bias.data.zero_()
            >>> np.exp(TorchTarget(layer, device="cpu").gradient_norms(Records([[0.0], [1.0]], [0, 1]))).round(3)
            array([[0.707, 0.707],
                   [1.   , 1.   ]])
        """
        labels, device, last_layer = _label_tensor(records), resolve_device(self.device), self._output_layer()
        answers, hidden = self._forward_with_hidden(records)
        logits = hidden @ _double(last_layer.weight).T
        bias = dict(last_layer.named_parameters()).get("bias")
        if bias is not None:
            logits = logits + _double(bias)
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        log_length, directions = logit_gradients(logits, check_labels(labels.numpy(), "y", classes=answers.shape[1]))
        if logits.shape != answers.shape or not same_probabilities(logits, answers):
            raise InputError("target: its outputs are not those of its last linear layer")
        directions = directions[:, -last_layer.out_features :]

        def measure_norms(batch: torch.Tensor, rows: slice) -> Floats:
            v = networks.move(torch.from_numpy(directions[rows]).to(last_layer.weight.dtype), device)
            return parameter_log_norms(self.module, last_layer, batch, v)

        with _evaluation_mode(self.module, device):
            parts = list(self._batches(records.x, measure_norms))
        last_layer_norms = last_layer_log_norms(log_length, directions, hidden, bias=bias is not None)
        return np.stack([last_layer_norms, clip_log_norms(log_length + np.concatenate(parts))], axis=1)

    def weights(self) -> Mapping[str, Array]:
        """Return every parameter by name, in single precision where NumPy lacks the type; none if frozen."""
        tensors = {name: tensor.detach().cpu() for name, tensor in self.module.named_parameters()}
        return {
            name: (
                tensor.float() if tensor.is_floating_point() and tensor.dtype not in _NUMPY_FLOATS else tensor
            ).numpy()
            for name, tensor in tensors.items()
        }

    def _output_layer(self) -> torch.nn.Linear:
        layers = [part for part in self.module.modules() if isinstance(part, torch.nn.Linear)]
        if not layers:
            raise InputError(f"target: {type(self.module).__name__} has no linear layer")
        return layers[-1]

    def _forward_with_hidden(self, records: Records) -> tuple[Floats, Floats]:
        """Return logits, and the input of the last linear layer."""
        inputs_of_batch: list[torch.Tensor] = []

        def answer(batch: torch.Tensor, _: slice) -> tuple[Array, list[torch.Tensor]]:
            inputs_of_batch.clear()
            return self._forward(batch).float().cpu().numpy(), inputs_of_batch.copy()

        hook = self._output_layer().register_forward_pre_hook(
            lambda _, inputs: inputs_of_batch.append(inputs[0].detach().cpu())
        )
        try:
            with _evaluation_mode(self.module, resolve_device(self.device)), torch.inference_mode():
                answers, inputs = zip(*self._batches(records.x, answer), strict=True)
        finally:
            hook.remove()
        logits = out.as_logits(np.concatenate(answers), self.outputs, len(records))
        hidden = [each for inputs_of_part in inputs for each in inputs_of_part]
        if not hidden or hidden[0].ndim != 2 or sum(map(len, hidden)) != len(records):
            raise InputError("target: its last linear layer is not fed one vector per record")
        return logits, torch.cat(hidden).double().numpy()

    def _forward(self, batch: torch.Tensor) -> torch.Tensor:
        try:
            output = self.module(batch)
        except (RuntimeError, IndexError, TypeError, ValueError, AssertionError) as error:  # the last of torch.export
            if device_memory.is_out_of_memory(error):
                raise
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(
                f"target: the module cannot take records of shape {tuple(batch.shape[1:])} "
                f"and type {str(batch.dtype).removeprefix('torch.')}: {reason}"
            ) from error
        output = getattr(output, "logits", output)  # some modules wrap them, or give them first in a tuple
        output = out.unpack_outputs(output, self.outputs, _PART_OF_MODULE)
        answer = output[0] if isinstance(output, tuple) and output else output
        if not isinstance(answer, torch.Tensor):
            raise InputError(
                f"target: the module returns {type(answer).__name__}, not a tensor; pass a function of the records "
                "that returns an array"
            )
        return answer

    def _batches(self, x: Array, work: Callable[[torch.Tensor, slice], _Result]) -> Iterator[_Result]:
        """Yield ``work`` of each batch on the device, and of its place among the records."""
        if x.dtype == object:
            raise InputError("records: a network needs numbers, got text (turn it into token numbers first)")
        probe, device = torch.from_numpy(x[:2].copy()), resolve_device(self.device)
        dtypes = _input_dtypes(self.module, is_integer=not probe.is_floating_point())
        dtype = next((each for each in dtypes if self._takes(probe.to(each))), dtypes[0]) if dtypes[1:] else dtypes[0]

        def run(rows: slice) -> _Result:
            batch = torch.from_numpy(x[rows].copy())  # a module may write into what it is given
            return work(networks.move(batch.to(dtype), device), rows)

        return device_memory.run_in_slices(
            run,
            len(x),
            item_size=math.prod(x.shape[1:]) or 1,
            unit=device_memory.RECORD_VALUES,
            device=device,
            remedy="a device with more is needed",
            at_once=self._records_per_pass(x),
        )

    def _takes(self, batch: torch.Tensor) -> bool:
        """Check whether the module takes records of this type."""
        device = resolve_device(self.device)
        try:
            with _evaluation_mode(self.module, device), torch.inference_mode():
                self._forward(batch.clone().to(device))
        except InputError:
            return False
        return True

    def _records_per_pass(self, x: Array) -> int:
        if self.batch_size is not None:
            return self.batch_size
        if _is_exported(self.module):  # such a module may refuse the last batch where it is of one record
            return networks.RECORDS_PER_PASS
        return networks.records_per_pass(x.ndim, resolve_device(self.device), rows=networks.RECORDS_PER_PASS)


def resolve_device(device: Any) -> torch.device:
    """Return the torch device that ``device`` names; "auto" is the best available.

    Raises:
        divulge.InputError: a device this machine does not have.
    """
    if isinstance(device, str) and device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        raise InputError(f"device: {format_value(device)} cannot be used here ({str(error)[:200]})") from None
    return resolved


def has_device(device: Any) -> bool:
    """Check whether this machine has the device that ``device`` names."""
    try:
        resolve_device(device)
    except InputError:
        return False
    return True


# How a part of a module's answer, filled in for {part}, is had by a function of arrays.
_PART_OF_MODULE = "lambda x: module.cpu().eval()(torch.as_tensor(x, dtype=torch.float32))[{part}].detach().numpy()"
_NUMPY_FLOATS = (torch.float16, torch.float32, torch.float64)


def _input_dtypes(module: Any, *, is_integer: bool) -> list[torch.dtype]:
    """Return the types in which a module may take its records, the likeliest first."""
    if is_integer and _has_embedding(module):
        return [torch.int64]
    own = list(dict.fromkeys(tensor.dtype for tensor in _state_tensors(module) if tensor.is_floating_point()))
    if not own and isinstance(module, torch.jit.ScriptModule):  # frozen: its weights are constants of its code
        return [torch.float32, torch.bfloat16, torch.float16, torch.float64, *([torch.int64] if is_integer else [])]
    return own or [torch.float32]


def _has_embedding(module: Any) -> bool:
    parts = module.modules() if hasattr(module, "modules") else ()
    # A scripted part is of torch's class, and remembers the name of its own.
    return any(isinstance(part, nn.Embedding) or getattr(part, "original_name", "") == "Embedding" for part in parts)


def _state_tensors(module: Any) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()] if hasattr(module, "parameters") else []


def _is_exported(module: Any) -> bool:
    return type(module).__name__ == "GraphModule"  # of torch.export


def _double(tensor: torch.Tensor) -> Floats:
    """Return a tensor's values in double precision, which Apple's GPUs do not know."""
    return tensor.detach().cpu().double().numpy()


def _label_tensor(records: Records) -> torch.Tensor:
    if records.y is None:
        raise InputError("records: a loss needs labels, but y is None")
    return torch.from_numpy(records.y)


@contextlib.contextmanager
def _evaluation_mode(module: Any, device: torch.device) -> Generator[None]:
    """Put a module into evaluation mode on ``device`` inside the block; afterwards every part is in its former mode."""
    parts = list(module.modules()) if hasattr(module, "modules") else []
    parts = [part for part in parts if hasattr(part, "training")]  # a frozen TorchScript module has no modes
    training_flags = [part.training for part in parts]
    if not _is_exported(module) and hasattr(module, "eval"):  # exported modules refuse it
        module.eval()
    if hasattr(module, "to"):
        module.to(device)
    try:
        yield
    finally:
        for part, was_training in zip(parts, training_flags, strict=True):
            part.training = was_training


# Bytes of gradients held at once; a record of a network with more parameters than fit goes by itself.
_GRADIENT_BYTES = 1 << 26
# Logarithms stay within these bounds: a gradient of exactly 0, or one that overflows, is still a number.
MAX_LOG_NORM = 500.0
# Probabilities that differ by more are not of the same logits.
_PROBABILITY_TOLERANCE = 1e-2


# The norm of the gradient of a record's loss in the weights, record by record: with the gradient in the logits,
# g = p - e_y, and its direction v = g / ‖g‖, the gradient in the parameters is Jᵀg = ‖g‖ · Jᵀv. ‖g‖ is computed from
# the logits in double precision and in logarithms, so that a record which the network is sure of does not drown in the
# rounding of 1 - p_y; the network gives Jᵀv alone.
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
    """Check whether two tables of logits give the same probabilities, up to the rounding of single precision."""
    p, q = (np.exp(z - z.max(axis=1, keepdims=True)) for z in (logits, answers))
    return bool(
        np.abs(p / p.sum(axis=1, keepdims=True) - q / q.sum(axis=1, keepdims=True)).max() < _PROBABILITY_TOLERANCE
    )


def last_layer_log_norms(length: Floats, v: Floats, fed: Floats, *, bias: bool) -> Floats:
    """Return the log norm of the last linear layer's gradient, ``[n]``: ``‖g‖ · √(‖h‖² + 1)``, the 1 for a bias.

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


def parameter_log_norms(module: nn.Module, last_layer: nn.Linear, x: torch.Tensor, v: torch.Tensor) -> Floats:
    """Log ``‖Jᵀv‖`` of each record, ``[n]``, over all parameters; by `vmap` where it can, else one record at a time.

    Args:
        module: the network, in evaluation mode on the records' device.
        last_layer: its last linear layer, whose outputs are the logits.
        x: records, ``[n, ...]``.
        v: directions in the logits, ``[n, K]``.

    Raises:
        divulge.InputError: a network that cannot be differentiated.
    """
    weights = {name: p.detach() for name, p in module.named_parameters() if p.is_floating_point()}
    outputs: list[torch.Tensor] = []

    def directional_output_of_copy(
        parameters: dict[str, torch.Tensor], record: torch.Tensor, direction: torch.Tensor
    ) -> torch.Tensor:
        functional_call(module, parameters, (record[None],))
        return (outputs.pop()[0] * direction).sum()

    def directional_output(record: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        module(record[None])
        return (outputs.pop()[0] * direction).sum()

    size = max(1, _GRADIENT_BYTES // (4 * sum(p.numel() for p in weights.values())))
    hook = last_layer.register_forward_hook(lambda _, __, output: outputs.append(output))
    try:
        gradient = vmap(grad(directional_output_of_copy), in_dims=(None, 0, 0))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")  # true and harmless
            squares = [
                _squared_norms(gradient(weights, *part)) for part in zip(x.split(size), v.split(size), strict=True)
            ]
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        if device_memory.is_out_of_memory(error):
            raise
        squares = _squared_norms_one_by_one(module, directional_output, x, v)  # whatever vmap cannot do ends here
    finally:
        hook.remove()
    if not (values := torch.cat(squares)).any():
        raise InputError("target: the module cannot be differentiated in its weights: every gradient is 0")
    with np.errstate(divide="ignore"):
        return clip_log_norms(np.log(_double(values)) / 2.0)


def clip_log_norms(values: Floats) -> Floats:
    """Clip to `BOUND`; NaN becomes the largest, as nothing memorised has such a gradient."""
    return np.clip(
        np.nan_to_num(values, nan=MAX_LOG_NORM, posinf=MAX_LOG_NORM, neginf=-MAX_LOG_NORM), -MAX_LOG_NORM, MAX_LOG_NORM
    )


def _squared_norms(gradients: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.stack([gradient.float().flatten(1).square().sum(1) for gradient in gradients.values()]).sum(0)


def _squared_norms_one_by_one(
    module: nn.Module,
    directional_output: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    v: torch.Tensor,
) -> list[torch.Tensor]:
    parameters = [p for p in module.parameters() if p.is_floating_point()]
    frozen = [p for p in parameters if not p.requires_grad]
    squares = []
    try:
        for p in frozen:
            p.requires_grad_(True)
        for record, direction in zip(x, v, strict=True):
            gradients = torch.autograd.grad(
                directional_output(record, direction), parameters, allow_unused=True, materialize_grads=True
            )
            squares.append(torch.stack([gradient.float().square().sum() for gradient in gradients]).sum().reshape(1))
    except (RuntimeError, ValueError, TypeError) as error:
        if device_memory.is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"target: the module cannot be differentiated in its weights: {reason}") from error
    finally:
        for p in frozen:
            p.requires_grad_(False)
    return squares


def reject_quantised_weights(stored_types: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Raise where weights are stored as integers and a module computes with floats.

    Such weights are quantised, and mean nothing without the scales that belong to them. A library that only casts them
    gives a model that runs, and says something else than the one that was trained.

    Args:
        stored_types: by name, the type of each tensor of a file, as safetensors or torch writes it.
        parameters: parameters and buffers of the module, by name; a name in the file may lack a prefix, or have
            one more.

    Raises:
        ValueError: there are some; the first is named.
    """
    for name, stored_dtype in stored_types.items():
        dtype = stored_dtype.removeprefix("torch.")
        if dtype.lower().startswith(("f", "bf", "c")):
            continue
        parameter = parameters.get(
            name, next((value for key, value in parameters.items() if _is_same_parameter(key, name)), None)
        )
        if parameter is not None and parameter.is_floating_point():
            raise ValueError(
                f"{name} is stored as {dtype} where the model has {str(parameter.dtype).removeprefix('torch.')}: "
                "quantised weights mean nothing without their scales; save them dequantised"
            )


def _is_same_parameter(name: str, other_name: str) -> bool:
    return name.endswith(f".{other_name}") or other_name.endswith(f".{name}")
