"""Masks of known values from descriptions in words: columns, a share, a block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import as_list, check_choice, check_integer, check_memory, check_string, check_strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Bools

CORNERS = ("top-left", "top-right", "bottom-left", "bottom-right", "centre")


def mask(
    words: str, shape: tuple[int, ...], *, columns: Sequence[str] = (), seed: int = 0, records: int | None = None
) -> Bools:
    """Make one mask for all records, of their ``shape``, or one for each; True where a value is known.

    - ``"columns:age,income"``: columns by name, or by position from 0. A name also covers the columns
      that extend it as ``name=value`` or ``name_value`` (a one-hot group).
    - ``"share:0.4"``: that share, drawn at random once. Of an image whole pixels are drawn, all channels
      of one together.
    - ``"values:0.4"``: the same, but of an image every value is drawn by itself, also the channels of one pixel.
    - ``"share:0.4:each"``, ``"values:0.4:each"``: drawn anew for every record.
    - ``"block:top-left:0.5"``: a rectangle of an image that covers that share of it, with the image's
      proportions; also top-right, bottom-left, bottom-right and centre.

    Args:
        words: one of these.
        shape: of one record: ``(d,)``, ``(h, w)``, ``(h, w, c)`` or ``(c, h, w)`` with c of 1, 3 or 4.
        columns: names, where records are rows of a table.
        seed: of the share drawn.
        records: number of records, for masks that are drawn for each.

    Returns:
        bool, ``shape``; ``[records, *shape]`` where each record has a mask of its own.

    Raises:
        divulge.InputError: words that cannot be read, an unknown column, a share outside (0, 1], a block
            of records that are not images, a mask for each of an unknown number of records.

    Examples:
        >>> mask("columns:age", (3,), columns=["age", "sex", "hours"])
        array([ True, False, False])
        >>> mask("block:top-left:0.25", (2, 2))
        array([[ True, False],
               [False, False]])
        >>> mask("values:0.5:each", (4,), records=3).sum(axis=1)
        array([2, 2, 2])
    """
    mask_type, _, specification = check_string(words, "known").partition(":")
    shape = tuple(check_integer(side, "shape", least=1, most=2**31) for side in as_list(shape, "shape"))
    names = check_strings(columns, "columns")
    check_integer(seed, "seed", least=0)
    n_records = 1 if records is None else check_integer(records, "records", least=1, most=2**31)
    check_memory(math.prod(shape) * n_records, "shape", "smaller records need less")
    check_choice(mask_type, "known", ("columns", "share", "values", "block"))
    if mask_type == "columns":
        return _mask_columns(specification, shape, names)
    if mask_type == "block":
        return _mask_block(specification, shape)
    share, separator, extent = specification.partition(":")
    if separator:
        check_choice(extent, f"known: after {mask_type}:{share}", ("each",))
        if records is None:
            raise InputError(f"known: {words!r} draws a mask for each record; say how many there are (records=n)")
    return _mask_share(share, shape, seed, by_value=mask_type == "values", records=n_records if separator else None)


def _mask_columns(names: str, shape: tuple[int, ...], columns: Sequence[str]) -> Bools:
    if len(shape) != 1:
        raise InputError(f"known: 'columns' is for rows of a table, the records have the shape {shape}")
    known = np.zeros(shape, dtype=bool)
    for name in (part.strip() for part in names.split(",")):
        matching = [
            position
            for position, column in enumerate(columns)
            if column == name or column.startswith((f"{name}=", f"{name}_"))
        ]
        if not matching and name.isdecimal() and int(name) < shape[0]:
            matching = [int(name)]
        if not matching:
            check_choice(name, "known: column", columns or [f"0 to {shape[0] - 1}"])
        known[matching] = True
    return known


def _mask_share(text: str, shape: tuple[int, ...], seed: int, *, by_value: bool, records: int | None) -> Bools:
    share, cells = _parse_share(text), None if by_value else _image_size(shape)
    spatial = shape if cells is None else cells
    count = int(np.prod(spatial))
    n_known, rng = max(1, round(share * count)), seeds.generator(seed, "known")
    is_known = np.zeros((1 if records is None else records, count), dtype=bool)
    for row in is_known:
        row[rng.permutation(count)[:n_known]] = True
    masks = is_known.reshape(-1, *spatial)
    if cells is not None:
        masks = np.stack([_over_channels(row, shape) for row in masks])
    return masks[0] if records is None else masks


def _mask_block(text: str, shape: tuple[int, ...]) -> Bools:
    corner, _, size = text.partition(":")
    check_choice(corner, "known: block", CORNERS)
    share, cells = _parse_share(size), _image_size(shape)
    if cells is None:
        raise InputError(f"known: 'block' is for images, the records have the shape {shape}")
    sides = [max(1, round(length * np.sqrt(share))) for length in cells]
    starts = [
        (length - side) // 2 if corner == "centre" else (length - side) * (far_side in corner)
        for length, side, far_side in zip(cells, sides, ("bottom", "right"), strict=True)
    ]
    block = np.zeros(cells, dtype=bool)
    block[starts[0] : starts[0] + sides[0], starts[1] : starts[1] + sides[1]] = True
    return _over_channels(block, shape)


def _image_size(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return height and width if records of this shape are images."""
    if len(shape) == 2:
        return shape[0], shape[1]
    if len(shape) == 3:
        return (shape[1], shape[2]) if _channels_first(shape) else (shape[0], shape[1])
    return None


def _channels_first(shape: tuple[int, ...]) -> bool:
    return shape[-1] not in (1, 3, 4) and shape[0] in (1, 3, 4)


def _over_channels(cells: Bools, shape: tuple[int, ...]) -> Bools:
    if len(shape) == 3 and not _channels_first(shape):
        cells = cells[..., None]
    return np.broadcast_to(cells, shape).copy()


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        raise InputError(f"known: a share in (0, 1] is needed, got {text!r}") from None
    if not 0 < share <= 1:
        raise InputError(f"known: a share in (0, 1] is needed, got {share:g}")
    return share
