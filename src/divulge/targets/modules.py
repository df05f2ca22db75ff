"""PyTorch modules as targets: batched, in evaluation and inference mode, and left as they were found."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError, missing_extra
from divulge.targets import declared_outputs as out
from divulge.validation import check_choice, check_integer, check_labels, format_value, require_callable

try:
    import torch
except ImportError:
    raise missing_extra("torch", "torch") from None

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from divulge.targets import weight_gradients
    from divulge.types import Array, Floats, Ints, Records
else:
    weight_gradients = lazy.module("divulge.targets.weight_gradients")


@dataclass(frozen=True, slots=True)
class TorchTarget:
    """A classifier ``module(x) -> [n, K]``.

    Records are cast to the module's own type; integers go as int64 into a module with an embedding (they are
    token ids there). Nothing is rescaled. The module stays on the device it was run on.

    Args:
        module: a ``torch.nn.Module`` (or a loaded TorchScript or exported module).
        outputs: "logits" or "probabilities": what the module returns.
        device: "auto" (CUDA, else Apple's MPS, else CPU), or a torch device.
        batch_size: records per forward pass.

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
    batch_size: int = 1024

    def __post_init__(self) -> None:
        require_callable(self.module, "module")
        check_choice(self.outputs, "outputs", out.OUTPUT_TYPES)
        check_integer(self.batch_size, "batch_size", least=1)
        places = {str(tensor.device) for tensor in _state_tensors(self.module)}
        if len(places) > 1:
            raise InputError(
                f"target: the module's parameters are on several devices ({', '.join(sorted(places))}); "
                "move it to one with module.to(device)"
            )

    def logits(self, records: Records) -> Floats:
        """Logits of each record, float64 ``[n, K]``."""
        place = resolve_device(self.device)
        with _evaluation_mode(self.module, place), torch.inference_mode():
            parts = [self._forward(batch.to(place)).float().cpu().numpy() for batch in self._batches(records.x)]
        return out.as_logits(np.concatenate(parts), self.outputs, len(records))

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
        labels, place = _label_tensor(records), resolve_device(self.device)
        parts = []
        with _evaluation_mode(self.module, place):
            for batch, truth in zip(self._batches(records.x), labels.split(self.batch_size), strict=True):
                x = batch.to(place).requires_grad_()
                answer = self._forward(x.clone())  # the module may write into it, into `x` itself it must not
                logits = torch.log(answer.clamp_min(out.PROBABILITY_FLOOR)) if self.outputs == "probabilities" else answer
                loss = torch.nn.functional.cross_entropy(logits, truth.to(place), reduction="sum")
                parts.append(torch.autograd.grad(loss, x)[0].float().cpu().numpy())
        return np.concatenate(parts).astype(np.float64)

    def head(self, records: Records) -> tuple[Floats, Floats]:
        """What the last linear layer is fed, ``[n, h]``, and that layer's weights ``[K, h]``.

        Raises:
            divulge.InputError: no linear layer is reached, or more than one vector per record arrives there.
        """
        _, fed = self._opened(records)
        return fed, self._last().weight.detach().double().cpu().numpy()

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
        labels, place, last = _label_tensor(records), resolve_device(self.device), self._last()
        answers, fed = self._opened(records)
        logits = fed @ last.weight.detach().double().cpu().numpy().T
        bias = dict(last.named_parameters()).get("bias")
        if bias is not None:
            logits = logits + bias.detach().double().cpu().numpy()
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        length, v = weight_gradients.logit_gradients(logits, check_labels(labels.numpy(), "y", classes=answers.shape[1]))
        if logits.shape != answers.shape or not weight_gradients.same_probabilities(logits, answers):
            raise InputError("target: its outputs are not those of its last linear layer")
        v = v[:, -last.out_features :]
        parts, directions = [], torch.from_numpy(v).split(self.batch_size)
        with _evaluation_mode(self.module, place):
            for batch, direction in zip(self._batches(records.x), directions, strict=True):
                along = direction.to(place, last.weight.dtype)
                parts.append(weight_gradients.parameter_log_norms(self.module, last, batch.to(place), along))
        own = weight_gradients.last_layer_log_norms(length, v, fed, bias=bias is not None)
        return np.stack([own, weight_gradients.clip_log_norms(length + np.concatenate(parts))], axis=1)

    def weights(self) -> Mapping[str, Array]:
        """Every parameter by name."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.module.named_parameters()}

    def _last(self) -> torch.nn.Linear:
        layers = [part for part in self.module.modules() if isinstance(part, torch.nn.Linear)]
        if not layers:
            raise InputError(f"target: {type(self.module).__name__} has no linear layer")
        return layers[-1]

    def _opened(self, records: Records) -> tuple[Floats, Floats]:
        """Logits, and what the last linear layer is fed."""
        fed: list[torch.Tensor] = []
        watch = self._last().register_forward_pre_hook(lambda _, given: fed.append(given[0].detach().cpu()))
        try:
            logits = self.logits(records)
        finally:
            watch.remove()
        if not fed or fed[0].ndim != 2 or sum(map(len, fed)) != len(records):
            raise InputError("target: its last linear layer is not fed one vector per record")
        return logits, torch.cat(fed).double().numpy()

    def _forward(self, batch: torch.Tensor) -> torch.Tensor:
        try:
            answer = _output_tensor(self.module(batch))
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(
                f"target: the module cannot take records of shape {tuple(batch.shape[1:])} "
                f"and type {str(batch.dtype).removeprefix('torch.')}: {reason}"
            ) from error
        return answer

    def _batches(self, x: Array) -> list[torch.Tensor]:
        if x.dtype == object:
            raise InputError("records: a network needs numbers, got text (turn it into token numbers first)")
        tensor = torch.from_numpy(x.copy())  # a module may write into what it is given
        own = next((t.dtype for t in _state_tensors(self.module) if t.is_floating_point()), torch.float32)
        if not tensor.is_floating_point() and _has_embedding(self.module):
            own = torch.int64
        return [tensor[start : start + self.batch_size].to(own) for start in range(0, len(tensor), self.batch_size)]


def resolve_device(device: Any) -> torch.device:
    """The torch device that ``device`` names; "auto" is the best there is.

    Raises:
        divulge.InputError: a device this machine does not have.
    """
    if isinstance(device, str) and device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        raise InputError(f"device: {format_value(device)} cannot be used here ({str(error)[:200]})") from None
    return where


def _output_tensor(answer: Any) -> torch.Tensor:
    """Logits of modules that wrap them (``.logits``, or first in a tuple)."""
    answer = getattr(answer, "logits", answer)
    output = answer[0] if isinstance(answer, tuple) and answer else answer
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"it returns {type(output).__name__}, not a tensor")
    return output


def _has_embedding(module: Any) -> bool:
    return hasattr(module, "modules") and any(isinstance(part, torch.nn.Embedding) for part in module.modules())


def _state_tensors(module: Any) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()] if hasattr(module, "parameters") else []


def _label_tensor(records: Records) -> torch.Tensor:
    if records.y is None:
        raise InputError("records: a loss needs labels, but y is None")
    return torch.from_numpy(records.y)


@contextlib.contextmanager
def _evaluation_mode(module: Any, place: torch.device) -> Generator[None]:
    """Evaluation mode on ``place``; afterwards every part trains, or does not, as before."""
    parts = list(module.modules()) if hasattr(module, "modules") else []
    before = [part.training for part in parts]
    exported = type(module).__name__ == "GraphModule"  # torch.export modules refuse eval()
    if not exported and hasattr(module, "eval"):
        module.eval()
    if hasattr(module, "to"):
        module.to(place)
    try:
        yield
    finally:
        for part, was in zip(parts, before, strict=True):
            part.training = was
