"""Bodies of neural regressors: the networks that turn records into embeddings, one for each kind of record.

A body turns records into the array its network takes (`prepare`) and builds the network (`build`), whose
output ``[n, h]`` is the embedding a head stands on. Nothing here imports torch before a body is built.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import as_list, check_choice, check_integer, check_string

if TYPE_CHECKING:
    from torch import nn

    from divulge import networks
    from divulge.types import Array
else:
    networks = lazy.module("divulge.networks")

Architecture: TypeAlias = Literal["convnext-tiny", "resnet-18", "resnet-50", "vit-tiny", "vit-base"]
ARCHITECTURES: tuple[Architecture, ...] = ("convnext-tiny", "resnet-18", "resnet-50", "vit-tiny", "vit-base")

_WIDEST = 10**5  # units of a layer, words of a document
_WORD = re.compile(r"\w+")


class Body(Protocol):
    """Records into an embedding."""

    def prepare(self, features: Array) -> Array:
        """Return the array that the network takes, one entry per record."""
        ...

    def build(self, prepared: Array) -> nn.Module:
        """Build a new network for entries such as these, with output ``[n, h]``."""
        ...


@dataclass(frozen=True, slots=True)
class MLP:
    """Rows of a table through fully connected layers (256 and 128 wide in Thaker et al. 2025).

    Args:
        hidden: width of each layer.
    """

    hidden: tuple[int, ...] = (256, 128)

    def __post_init__(self) -> None:
        _widths(self.hidden, "MLP.hidden")

    def prepare(self, features: Array) -> Array:
        """Rows as float32 ``[n, d]``."""
        return _numbers(features, "MLP").reshape(len(features), -1)

    def build(self, prepared: Array) -> nn.Module:
        """Build linear layers with ReLU, inputs normalised by running statistics."""
        return networks.mlp(prepared.shape[1], self.hidden)


@dataclass(frozen=True, slots=True)
class SmallCNN:
    """Images through four convolutions: small enough to be trained on a CPU.

    Args:
        width: channels of the first layer; each later one has twice as many.
    """

    width: int = 16

    def __post_init__(self) -> None:
        check_integer(self.width, "SmallCNN.width", minimum=1, maximum=_WIDEST)

    def prepare(self, features: Array) -> Array:
        """Images as float32 ``[n, c, h, w]``."""
        return _images(features, "SmallCNN")

    def build(self, prepared: Array) -> nn.Module:
        """Build convolutions of stride 2 with group normalisation, averaged over the image at the end."""
        return networks.small_cnn(prepared.shape[1], self.width)


@dataclass(frozen=True, slots=True)
class TextBag:
    """Documents as the mean of their words' embeddings, through an MLP (Thaker et al. 2025, §4.2).

    Words are hashed into a fixed number of rows, so no vocabulary is learnt from anybody's data.

    Args:
        length: words of a document that are read.
        rows: rows of the embedding table; words that share one share an embedding.
        dimension: width of an embedding.
        hidden: width of each layer after it.
    """

    length: int = 256
    rows: int = 20_000
    dimension: int = 128
    hidden: tuple[int, ...] = (256, 128)

    def __post_init__(self) -> None:
        check_integer(self.length, "TextBag.length", minimum=1, maximum=_WIDEST)
        check_integer(self.rows, "TextBag.rows", minimum=2, maximum=10**9)
        check_integer(self.dimension, "TextBag.dimension", minimum=1, maximum=_WIDEST)
        _widths(self.hidden, "TextBag.hidden")

    def prepare(self, features: Array) -> Array:
        """Return word numbers int64 ``[n, length]``; 0 where a document has ended.

        Examples:
            >>> TextBag(length=3, rows=1000).prepare(np.array(["Yes, yes"], dtype=object)).shape
            (1, 3)
        """
        if features.dtype != object:
            raise InputError(f"TextBag: texts are needed, got dtype {features.dtype}")
        tokens = np.zeros((len(features), self.length), dtype=np.int64)
        for row, text in zip(tokens, features.reshape(len(features), -1)[:, 0], strict=True):
            words = _WORD.findall(text.lower())[: self.length]
            row[: len(words)] = [1 + zlib.crc32(word.encode()) % (self.rows - 1) for word in words]
        return tokens

    def build(self, prepared: Array) -> nn.Module:
        """Build an embedding bag and linear layers with ReLU."""
        return networks.text_bag(self.rows, self.dimension, self.hidden)


@dataclass(frozen=True, slots=True)
class Backbone:
    """Images through an architecture of the transformers library.

    Args:
        name: "convnext-tiny" (the regressor of Thaker et al. 2025), "resnet-18", "resnet-50", "vit-tiny", "vit-base".
        size: images are resized to this many pixels per side.
        weights: a folder of pretrained weights (``config.json``, ``model.safetensors``); random weights when None.

    Raises:
        divulge.InputError: an unknown name, a size below 32.
    """

    name: Architecture = "convnext-tiny"
    size: int = 224
    weights: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.name, "Backbone.name", ARCHITECTURES)
        check_integer(self.size, "Backbone.size", minimum=32, maximum=2**14)
        if self.weights is not None:
            check_string(self.weights, "Backbone.weights")

    def prepare(self, features: Array) -> Array:
        """Images as float32 ``[n, c, h, w]``; they are resized a batch at a time."""
        return _images(features, "Backbone")

    def build(self, prepared: Array) -> nn.Module:
        """Build the architecture without its classifier, averaged over the image."""
        return networks.backbone(self.name, self.size, prepared.shape[1], self.weights)

    def classifier(self, channels: int, classes: int) -> nn.Module:
        """Build the same architecture as a classifier (target or reference model) of images ``[n, channels, h, w]``."""
        return networks.classifier(networks.backbone(self.name, self.size, channels, self.weights), classes)


@dataclass(frozen=True, slots=True)
class Published:
    """The bodies of Thaker et al. 2025 (arXiv:2506.06488): one for each kind of record.

    Rows of a table go through `MLP` and texts through `TextBag`. Images go through a pretrained `Backbone` that is
    fine-tuned, if its weights are there (ConvNeXt-Tiny at 224 pixels in the paper); without weights, which Divulge
    neither ships nor loads from anywhere, through `MLP` as rows of pixels.

    Args:
        weights: folder of a ConvNeXt, ResNet or ViT in the format of the transformers library (``config.json``,
            ``model.safetensors``).

    Raises:
        divulge.InputError: an empty name.

    Examples:
        >>> Published().prepare(np.zeros((5, 8, 8))).shape
        (5, 64)
    """

    weights: str | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            check_string(self.weights, "Published.weights")

    def prepare(self, features: Array) -> Array:
        """Return what the body for this kind of record makes of them."""
        return self._body(np.asarray(features)).prepare(features)

    def build(self, prepared: Array) -> nn.Module:
        """Build that body: texts are whole numbers, images have four axes, rows two."""
        if prepared.dtype == np.int64:
            return TextBag().build(prepared)
        if prepared.ndim == 2:
            return MLP().build(prepared)
        backbone = self._backbone()
        return networks.standardised(networks.backbone(backbone.name, backbone.size, 3, self.weights), prepared)

    def notes(self, features: Array) -> tuple[str, ...]:
        """Return what sets the body apart from the published one."""
        if features.ndim < 3 or self.weights is not None:
            return ()
        return (
            "images were read as rows of pixels by the network for tables: the published regressor of images is a "
            "pretrained ConvNeXt-Tiny, whose weights were not given",
        )

    def check_installed(self) -> None:
        """Check that the weights, if any, are there.

        Raises:
            divulge.InputError: the folder holds no weights of an architecture that is known.
        """
        if self.weights is not None:
            self._backbone()

    def _body(self, features: Array) -> Body:
        if features.dtype == object:
            return TextBag()
        return MLP() if self.weights is None or features.ndim < 3 else self._backbone()

    def _backbone(self) -> Backbone:
        assert self.weights is not None
        folder = Path(self.weights)
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            family = config["model_type"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"weights: {folder} holds no config.json of a pretrained network ({error})") from None
        if not (folder / "model.safetensors").is_file():
            raise InputError(f"weights: {folder} holds no model.safetensors")
        names: dict[str, Architecture] = {"convnext": "convnext-tiny", "resnet": "resnet-50", "vit": "vit-base"}
        name = names[check_choice(family, f"weights: {folder}: model_type", names)]
        return Backbone(name, config.get("image_size") or 224, self.weights)


def _widths(hidden: tuple[int, ...], name: str) -> None:
    if not as_list(hidden, name):
        raise InputError(f"{name}: at least 1 layer is needed, got none")
    for width in hidden:
        check_integer(width, name, minimum=1, maximum=_WIDEST)


def _numbers(features: Array, name: str) -> Array:
    if features.dtype == object:
        raise InputError(f"{name}: numbers are needed, got texts; use TextBag")
    if not int(np.prod(features.shape[1:])):
        raise InputError(f"{name}: records have no features to learn from")
    return features.astype(np.float32, copy=False)


def _images(features: Any, name: str) -> Array:
    """Return images with channels first; a last axis of 1 or 3 is taken for channels."""
    images = _numbers(features, name)
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4:
        raise InputError(f"{name}: images [n, h, w], [n, c, h, w] or [n, h, w, c] are needed, got {images.shape}")
    if images.shape[1] not in (1, 3) and images.shape[-1] in (1, 3):
        images = np.moveaxis(images, -1, 1)
    return np.ascontiguousarray(images)
