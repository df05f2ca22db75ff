"""Training of any network (threads, random streams, batches, finite weights), and architectures of regressors."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from divulge import lazy, seeds
from divulge.errors import InputError

if TYPE_CHECKING:
    transformers: Any
    from collections.abc import Generator, Iterable, Sequence

    from divulge.types import Array, Ints
else:
    transformers = lazy.module("transformers")


@contextlib.contextmanager
def single_thread() -> Generator[None]:
    """Limit torch to one thread inside the block: small products gain nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def torch_seed(seed: int, device: torch.device) -> Generator[None]:
    """Seed torch's generators inside the block, and restore them after it."""
    states = random_states(device)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        restore_random_states(states, device)


def random_states(device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the states of torch's generators on this machine and on ``device``."""
    if device.type == "cuda":
        return torch.get_rng_state(), torch.cuda.get_rng_state(device)
    return (torch.get_rng_state(), torch.mps.get_rng_state()) if device.type == "mps" else (torch.get_rng_state(),)


def restore_random_states(states: tuple[torch.Tensor, ...], device: torch.device) -> None:
    """Bring torch's generators back to what `random_states` gave."""
    torch.set_rng_state(states[0])
    for state in states[1:]:
        if device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.mps.set_rng_state(state)


_MAX_PINNED_BYTES = 1 << 28  # pinned memory is taken from all programs of a machine


def move(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device; to CUDA a batch goes from pinned memory, while this machine goes on."""
    if device.type == "cuda" and tensor.device.type == "cpu" and tensor.nbytes <= _MAX_PINNED_BYTES:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Check that no value is NaN or infinite; the device is waited for once."""
    flags = [rows_finite([tensor.unsqueeze(0)]) for tensor in tensors]
    return not flags or bool(torch.cat(flags).all())


def rows_finite(stacks: Sequence[torch.Tensor]) -> torch.Tensor:
    """Check in which rows of ``[m, ...]`` no value of any tensor is NaN or infinite, without waiting: bool ``[m]``.

    Examples:
        >>> rows_finite([torch.tensor([[1.0, 2.0], [np.nan, 0.0], [3.0, np.inf]]), torch.zeros(3)])
        tensor([ True, False, False])
    """
    finite = torch.ones(len(stacks[0]), dtype=torch.bool, device=stacks[0].device)
    for stack in stacks:
        numbers = (torch.view_as_real(stack) if stack.is_complex() else stack).detach()
        if numbers.numel():  # the least and the greatest number are NaN where one is, and take no copy of the weights
            least, greatest = numbers.reshape(len(numbers), -1).aminmax(dim=1)
            finite = finite & least.isfinite() & greatest.isfinite()
    return finite


IMAGES_PER_PASS = 64
"""Images, or other records that are no plain rows, per forward pass on the CPU.

What convolutions leave between two layers then stays in the cache; with thousands at once it is memory that the
system has to find anew for each layer, which takes three to five times as long.
"""


RECORDS_PER_PASS = 1024
"""The same on other devices, which are busy by then; where memory runs out fewer go at once."""


def records_per_pass(dimensions: int, device: torch.device, rows: int) -> int:
    """Return how many records to put through a network at once.

    Args:
        dimensions: of the records' array; images have four, plain rows two.
        device: where the network is.
        rows: as many where the records are plain rows.

    Examples:
        >>> records_per_pass(4, torch.device("cpu"), 8192), records_per_pass(4, torch.device("cuda"), 8192)
        (64, 1024)
        >>> records_per_pass(2, torch.device("cpu"), 8192)
        8192
    """
    if dimensions <= 2:
        return rows
    return IMAGES_PER_PASS if device.type == "cpu" else RECORDS_PER_PASS


def epoch_batches(rows: Ints, seed: int, epoch: int, size: int) -> Sequence[Ints]:
    """Draw the batches of one epoch: a permutation of ``rows`` that depends on seed and epoch alone, cut at ``size``.

    Every engine sees the records in this order. A last batch of a single record joins the one before (batch
    normalisation has no variance of one).

    Examples:
        >>> [len(batch) for batch in epoch_batches(np.arange(9), seed=0, epoch=0, size=4)]
        [4, 5]
    """
    order = rows[seeds.generator(seed, "order", epoch).permutation(len(rows))]
    return np.split(order, _cuts(len(rows), size))


def steps_per_epoch(records: int, size: int) -> int:
    """Number of batches per epoch."""
    return len(_cuts(records, size)) + 1


def _cuts(records: int, size: int) -> Ints:
    """Return the positions where the batches of an epoch begin, the first left out."""
    cuts = np.arange(size, records, size)
    return cuts[:-1] if len(cuts) and records - cuts[-1] == 1 else cuts


def mlp(width: int, hidden: Sequence[int]) -> nn.Module:
    """Build linear layers with ReLU on inputs normalised by running statistics."""
    return nn.Sequential(nn.BatchNorm1d(width), *_dense((width, *hidden)))


def small_cnn(channels: int, width: int) -> nn.Module:
    """Build four convolutions, three of stride 2, then the mean over the image."""
    widths = (channels, width, 2 * width, 4 * width, 8 * width)
    parts: list[nn.Module] = []
    for index, (a, b) in enumerate(pairwise(widths)):
        stride = 1 if index == 0 else 2
        parts += [nn.Conv2d(a, b, 3, stride=stride, padding=1), nn.GroupNorm(1, b), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def text_bag(rows: int, dimension: int, hidden: Sequence[int]) -> nn.Module:
    """Build the mean of word embeddings, then linear layers; row 0 is no word."""
    return nn.Sequential(nn.EmbeddingBag(rows, dimension, padding_idx=0), *_dense((dimension, *hidden)))


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    return [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]


def backbone(name: str, size: int, channels: int, weights: str | None) -> nn.Module:
    """Build an architecture of the transformers library, with random or stored weights.

    Raises:
        divulge.MissingExtraError: transformers is not installed.
        divulge.InputError: weights that are not there or do not fit.
    """
    configs: dict[str, Any] = {
        "convnext-tiny": lambda: transformers.ConvNextConfig(num_channels=channels, image_size=size),
        "resnet-18": lambda: transformers.ResNetConfig(
            num_channels=channels, layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512]
        ),
        "resnet-50": lambda: transformers.ResNetConfig(num_channels=channels),
        "vit-tiny": lambda: transformers.ViTConfig(
            num_channels=channels,
            image_size=size,
            hidden_size=192,
            num_attention_heads=3,
            intermediate_size=768,
            patch_size=_patch(size),
        ),
        "vit-base": lambda: transformers.ViTConfig(num_channels=channels, image_size=size, patch_size=_patch(size)),
    }
    model_classes = {
        "convnext": transformers.ConvNextModel,
        "resnet": transformers.ResNetModel,
        "vit": transformers.ViTModel,
    }
    model_class: Any = model_classes[name.split("-")[0]]
    if weights is None:
        return Pooled(model_class(configs[name]()), size)
    try:
        return Pooled(model_class.from_pretrained(weights, local_files_only=True, use_safetensors=True), size)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"Backbone.weights: {weights!r} holds no weights of {name} ({error})") from None


def _patch(size: int) -> int:
    """Return the pixels of a patch: 16 as published, 4 for images too small to hold many of these."""
    return 16 if size >= 128 else 4


class Pooled(nn.Module):
    """A transformers model as a function of images: resized, and averaged to one embedding."""

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Embed images ``[n, c, h, w]`` as ``[n, h]``."""
        if images.shape[-2:] != (self.size, self.size):
            images = functional.interpolate(images, (self.size, self.size), mode="bilinear", align_corners=False)
        answer = self.model(pixel_values=images)
        # A vision transformer's pooler is one more layer on its first token; the token itself is the embedding.
        pooled = answer.last_hidden_state[:, 0] if answer.last_hidden_state.ndim == 3 else answer.pooler_output
        return pooled.flatten(1)


class Standardised(nn.Module):
    """A body for colour images, given images whose channels are brought to mean 0 and deviation 1.

    Pretrained weights expect such images, whatever unit they came in; one channel serves as all three.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, body: nn.Module, mean: torch.Tensor, deviation: torch.Tensor) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("mean", mean[:, None, None])
        self.register_buffer("deviation", deviation[:, None, None])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``[n, c, h, w]`` to ``[n, h]``."""
        images = (images - self.mean) / self.deviation
        return self.body(images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images)


def standardised(body: nn.Module, images: Array) -> nn.Module:
    """Return ``body`` behind a standardisation by the channels of ``images``, ``[n, c, h, w]``."""
    deviation = images.std(axis=(0, 2, 3))
    values = (images.mean(axis=(0, 2, 3)), np.where(deviation > 0, deviation, 1.0))
    return Standardised(body, *(torch.from_numpy(value.astype(np.float32)) for value in values))


def classifier(body: nn.Module, classes: int) -> nn.Module:
    """Put a linear layer on a body; it finds its own width at the first call."""
    return nn.Sequential(body, nn.LazyLinear(classes))
