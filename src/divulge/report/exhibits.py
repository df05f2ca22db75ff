"""Records shown in a report: images as PNG files, and documents with marked tokens."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.report.page import MAX_HEAT
from divulge.validation import check_array, check_integer, check_nonempty

if TYPE_CHECKING:
    from divulge.results import HeatStrip

_MAX_NATS = 3.0  # log-probability gain with the deepest colour: a token twenty times likelier than it should be


def thumbnail(image: object, *, most: int = 128) -> bytes:
    r"""Return a PNG of one record; the report enlarges small pictures without smoothing them.

    Args:
        image: ``[h, w]`` or ``[h, w, 1]`` (grey) or ``[h, w, 3]`` (RGB); uint8, or floats in [0, 1].
        most: pictures with a longer side are shrunk by averaging square blocks of whole pixels.

    Raises:
        divulge.InputError: another shape or type, NaN, or floats outside [0, 1].

    Examples:
        >>> thumbnail(np.zeros((28, 28)))[:4]
        b'\x89PNG'
    """
    pixels = _check_pixels(image)
    pixels = _shrink(pixels, check_integer(most, "most", least=1))
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    # Every row begins with its filter type; 0 leaves the row as it is.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _png_chunk(b"IHDR", header),
            _png_chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _png_chunk(b"IEND", b""),
        ]
    )


def _png_chunk(chunk_type: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + chunk_type + content + struct.pack(">I", zlib.crc32(chunk_type + content))


def _check_pixels(image: object) -> NDArray[np.uint8]:
    pixels: NDArray[Any] = check_nonempty(check_array(image, "image"), "image")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise InputError(f"image: shape [h, w], [h, w, 1] or [h, w, 3] is needed, got {pixels.shape}")
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind != "f":
        raise InputError(f"image: uint8 or floats in [0, 1] are needed, got dtype {pixels.dtype}")
    if pixels.min() < 0 or pixels.max() > 1:
        raise InputError(f"image: floats must lie in [0, 1], got {pixels.min():g} to {pixels.max():g}")
    return np.rint(pixels * 255).astype(np.uint8)


def _shrink(pixels: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    height, width, channels = pixels.shape
    block = -(-max(height, width) // max_side)
    if block == 1:
        return pixels
    # The last block is filled up by repeating the border.
    padded = np.pad(pixels, ((0, -height % block), (0, -width % block), (0, 0)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // block, block, padded.shape[1] // block, block, channels)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)


def mark_tokens(text: str, strip: HeatStrip | None) -> list[tuple[str, int]]:
    """Split a document into pieces of one colour step each: the better the model knows a token, the deeper the colour.

    Examples:
        >>> from divulge.results import HeatStrip
        >>> mark_tokens("to be read", HeatStrip((2, 5), (0.0, 3.0), "chance"))
        [('to', 0), (' be', 6), (' read', 0)]
    """
    if strip is None:
        return []
    pieces: list[tuple[str, int]] = []
    start = 0
    for end, value in zip(strip.ends, strip.values, strict=True):
        step = round(MAX_HEAT * min(max(value / _MAX_NATS, 0.0), 1.0))
        if pieces and pieces[-1][1] == step:
            pieces[-1] = (pieces[-1][0] + text[start:end], step)
        else:
            pieces.append((text[start:end], step))
        start = end
    return [*pieces, (text[start:], 0)]
