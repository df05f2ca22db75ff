"""Versions of a record that models are asked about beside the record itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from divulge import errors, seeds
from divulge.errors import InputError
from divulge.types import Records
from divulge.validation import as_list, check_bool, check_integer, check_number, check_records, require_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from divulge.types import Array

# Numbers of channels that an image may have.
_CHANNELS = (1, 3, 4)


@runtime_checkable
class Versions(Protocol):
    """Anything that makes further versions of records."""

    @property
    def count(self) -> int:
        """Number of further versions."""
        ...

    def generate(self, records: Records, seed: int = 0) -> tuple[Records, ...]:
        """Return one `Records` for each further version, all in the order of the records."""
        ...


@dataclass(frozen=True, slots=True)
class ImageVersions:
    """Images mirrored left to right, and moved by up to ``shift`` pixels each way.

    With the image itself there are ``(2·shift + 1)²`` versions, twice as many with ``flip``: 18 by default, the
    largest number in both papers' published runs (Carlini et al. 2022, Zarifzadeh et al. 2024). As in their code, edges
    are filled by reflection.

    Args:
        flip: whether images are mirrored.
        shift: greatest move, in pixels.
        shape: of one image, where records are flat rows: ``(height, width)``, ``(height, width, channels)`` or
            ``(channels, height, width)``.

    Raises:
        divulge.InputError: a setting out of its range; neither flips nor shifts.

    Examples:
        >>> image = Records([[[1.0, 2.0], [3.0, 4.0]]])
        >>> [version.x[0].tolist() for version in ImageVersions(shift=0).generate(image)]
        [[[2.0, 1.0], [4.0, 3.0]]]
    """

    flip: bool = True
    shift: int = 1
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_bool(self.flip, "ImageVersions.flip")
        check_integer(self.shift, "ImageVersions.shift", minimum=0, maximum=100)
        if self.shape is not None:
            sides = as_list(self.shape, "ImageVersions.shape")
            shape = tuple(check_integer(side, "ImageVersions.shape", minimum=1) for side in sides)
            object.__setattr__(self, "shape", shape)
        if not (self.flip or self.shift):
            raise InputError("ImageVersions: neither flips nor shifts, so there is no further version")

    @property
    def count(self) -> int:
        """Number of further versions."""
        return (1 + self.flip) * (2 * self.shift + 1) ** 2 - 1

    def generate(self, records: Records, seed: int = 0) -> tuple[Records, ...]:
        """Return all versions but the image itself.

        Raises:
            divulge.InputError: records that are no images, or smaller than the shift.
        """
        shape = self._shape(records)
        height_axis = _height_axis(shape)
        images = records.x.reshape(len(records), *shape)
        margin = [(0, 0)] * images.ndim
        for axis in (height_axis, height_axis + 1):
            if images.shape[axis] <= self.shift:
                raise InputError(f"ImageVersions.shift: {self.shift} does not fit images of shape {shape}")
            margin[axis] = (self.shift, self.shift)
        versions = []
        for mirrored in (False, True)[: 1 + self.flip]:
            padded = np.pad(np.flip(images, height_axis + 1) if mirrored else images, margin, mode="reflect")
            for down in range(2 * self.shift + 1):
                for right in range(2 * self.shift + 1):
                    if mirrored or (down, right) != (self.shift, self.shift):
                        window = [slice(None)] * images.ndim
                        window[height_axis] = slice(down, down + images.shape[height_axis])
                        window[height_axis + 1] = slice(right, right + images.shape[height_axis + 1])
                        versions.append(_with_values(records, padded[tuple(window)]))
        return tuple(versions)

    def _shape(self, records: Records) -> tuple[int, ...]:
        record_shape = records.x.shape[1:]
        if records.x.dtype == object:
            raise InputError("records: images are flipped and shifted, got texts")
        if self.shape is None:
            return record_shape
        if int(np.prod(self.shape)) != int(np.prod(record_shape)):
            raise InputError(f"ImageVersions.shape: {self.shape} does not fit records of shape {record_shape}")
        return self.shape


@dataclass(frozen=True, slots=True)
class NoisyVersions:
    """Rows of numbers with a little noise: for tables.

    Gaussian noise is added to every column, in its standard deviations; columns of two values are flipped instead.

    Args:
        count: number of noisy copies.
        scale: standard deviation of the noise, in those of each column.
        flips: probability to flip a column of two values, in [0, 1].

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> rows = Records([[0.0, 1.0], [3.0, 0.0], [5.0, 1.0]])
        >>> [version.x.shape for version in NoisyVersions(count=2).generate(rows)]
        [(3, 2), (3, 2)]
    """

    count: int = 8
    scale: float = 0.1
    flips: float = 0.01

    def __post_init__(self) -> None:
        check_integer(self.count, "NoisyVersions.count", minimum=1, maximum=1000)
        check_number(self.scale, "NoisyVersions.scale", above=0)
        check_number(self.flips, "NoisyVersions.flips", above=0, below=1, closed=True)

    def generate(self, records: Records, seed: int = 0) -> tuple[Records, ...]:
        """Return noisy copies; the same seed gives the same noise.

        Raises:
            divulge.InputError: texts.
        """
        if records.x.dtype == object:
            raise InputError("records: noise is added to numbers, got texts")
        rng = seeds.generator(seed, "noisy versions")
        flat = records.x.reshape(len(records), -1).astype(np.float64)
        low, high, spread = flat.min(axis=0), flat.max(axis=0), flat.std(axis=0)
        is_binary = ((flat == low) | (flat == high)).all(axis=0)
        versions = []
        for _ in range(self.count):
            moved = flat + self.scale * spread * rng.normal(size=flat.shape)
            flipped = np.where(rng.random(flat.shape) < self.flips, low + high - flat, flat)
            versions.append(_with_values(records, np.where(is_binary, flipped, moved)))
        return tuple(versions)


@dataclass(frozen=True, slots=True)
class OwnVersions:
    """Versions of the records that a function of the user's makes.

    Args:
        function: ``function(x, generator)``, with all records ``[n, ...]`` and a NumPy generator, returns one version
            of them, of the same shape. What it makes of a record must not depend on who is a member.
        count: how often it is called.

    Raises:
        divulge.InputError: no function, a count below 1.

    Examples:
        >>> half = OwnVersions(lambda x, rng: x / 2)
        >>> half.generate(Records([[2.0, 4.0]]))[0].x
        array([[1., 2.]])
    """

    function: Callable[[Array, np.random.Generator], Any]
    count: int = 1

    def __post_init__(self) -> None:
        require_callable(self.function, "OwnVersions.function")
        check_integer(self.count, "OwnVersions.count", minimum=1, maximum=1000)

    def generate(self, records: Records, seed: int = 0) -> tuple[Records, ...]:
        """Return the function's versions, ``count`` of them.

        Raises:
            divulge.InputError: another shape than the records', NaN or infinity.
            divulge.errors.UserCodeError: the function raised an error.
        """
        rng = seeds.generator(seed, "versions")
        return tuple(self._call_function(records, rng) for _ in range(self.count))

    def _call_function(self, records: Records, rng: np.random.Generator) -> Records:
        with errors.user_code_errors("versions: the function"):
            returned = self.function(records.x.copy(), rng)
        values = check_records(returned, "versions: what the function returns")
        if values.shape != records.x.shape:
            raise InputError(f"versions: {records.x.shape} is needed of the function, got {values.shape}")
        return records.with_values(values)


def _with_values(records: Records, x: Array) -> Records:
    """Records of the same kind and shape with these values."""
    dtype = records.x.dtype if records.x.dtype.kind == "f" else x.dtype
    return records.with_values(np.ascontiguousarray(x, dtype).reshape(records.x.shape))


def _height_axis(shape: Sequence[int]) -> int:
    """Return the axis of a batch of images that is their height."""
    if len(shape) == 2:
        return 1
    if len(shape) == 3 and (channels_first := shape[0] in _CHANNELS) != (shape[2] in _CHANNELS):
        return 2 if channels_first else 1
    raise InputError(
        "records: images [height, width], with 1, 3 or 4 channels first or last, are flipped and shifted, got shape "
        f"{tuple(shape)}; give ImageVersions(shape=(height, width)) for flat images, NoisyVersions for tables, or "
        "OwnVersions of divulge.signals.versions"
    )
