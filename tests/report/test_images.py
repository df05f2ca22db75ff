"""Thumbnails: PNG files that decode to what was put in."""

import struct
import zlib

import numpy as np
import pytest

import divulge as dv
from divulge.report import thumbnail


def decoded(png):
    """The pixels of an 8-bit, unfiltered PNG, with every checksum looked at."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    parts, offset = {}, 8
    while offset < len(png):
        (length,) = struct.unpack(">I", png[offset : offset + 4])
        chunk_type, content = png[offset + 4 : offset + 8], png[offset + 8 : offset + 8 + length]
        assert struct.unpack(">I", png[offset + 8 + length : offset + 12 + length])[0] == zlib.crc32(
            chunk_type + content
        )
        parts[chunk_type], offset = content, offset + 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    channels = {0: 1, 2: 3}[colour]
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("shape", [(1, 1), (28, 28), (5, 9), (7, 3, 1), (32, 32, 3)])
def test_pixels_come_back(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    expected = image if image.ndim == 3 else image[:, :, None]
    assert (decoded(thumbnail(image)) == expected).all()
    assert (decoded(thumbnail(image / 255)) == expected).all()


def test_pixels_in_any_memory_order_come_back():
    image = np.random.default_rng(0).integers(0, 256, (3, 6, 4), dtype=np.uint8).transpose(1, 2, 0)
    assert (decoded(thumbnail(image)) == image).all()


def test_large_pictures_shrink_by_averaging_blocks():
    image = np.kron(np.array([[0, 200], [100, 50]], dtype=np.uint8), np.ones((10, 10), dtype=np.uint8))
    assert decoded(thumbnail(image, max_side=2))[:, :, 0].tolist() == [[0, 200], [100, 50]]
    assert decoded(thumbnail(np.zeros((300, 200, 3)), max_side=128)).shape == (100, 67, 3)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(4), "shape"),
        (np.zeros((2, 2, 4)), "shape"),
        (np.zeros((2, 0)), "shape"),
        (np.full((2, 2), 1.5), r"must lie in \[0, 1\], got 1.5"),
        (np.full((2, 2), np.nan), "NaN"),
        (np.zeros((2, 2), dtype=np.int64), "uint8 or floats"),
        (np.array([["a"]]), "numbers are needed"),
    ],
)
def test_what_is_no_picture_is_refused(image, message):
    with pytest.raises(dv.InputError, match=message):
        thumbnail(image)
