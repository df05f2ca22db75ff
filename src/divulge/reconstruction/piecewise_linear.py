"""A network of one input as a piecewise linear function with break-points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.margin import ShallowReLU

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

_NEGLIGIBLE_STRENGTH = 1e-6  # neurons below this share of the strongest |v|·‖w‖ are dropped
MARGIN_TOLERANCE = 0.01  # a stretch lies on the margin when Φ stays within this share of it
_TOUCH_TOLERANCE = 1e-4  # a peak within this share of the margin touches it
_MIN_SLOPE = 1e-6  # a neuron whose slope is below this share of its length bends the line nowhere
_SAME_ANGLE = 1e-3  # neurons of equal output sign whose directions differ by less are one neuron


@dataclass(frozen=True, slots=True, eq=False)
class BreakPoints:
    """Distinct break-points of a network of one input.

    Args:
        positions: break-points, sorted, ``[K]``; repeated positions are kept once.
        values: Φ at the break-points, ``[K]``.
        net: the network with its neurons merged; nearly the same function, a few neurons wide.
    """

    positions: Floats
    values: Floats
    net: ShallowReLU


def find_break_points(net: ShallowReLU, resolution: float) -> BreakPoints:
    """Return the distinct break-points of a network of one input.

    Training leaves hundreds of neurons that have collapsed on a few directions; they are merged by direction
    and output sign. The K that count are these, not the number of neurons nor of records.

    Args:
        net: a network of one input.
        resolution: break-points closer than this are one.

    Raises:
        divulge.InputError: a network that is zero, or one that bends nowhere.
    """
    weights = net.augmented
    strength = np.abs(net.v) * np.linalg.norm(weights, axis=1)
    if strength.max(initial=0.0) == 0:
        raise InputError("net: every neuron is zero; such a network carries no information")
    is_strong = strength >= _NEGLIGIBLE_STRENGTH * strength.max()
    merged = _merge_neurons(weights[is_strong] * np.abs(net.v[is_strong])[:, None], np.sign(net.v[is_strong]))
    w, b = merged.w[:, 0], merged.b
    bending = np.abs(w) > _MIN_SLOPE * np.hypot(w, b)
    if not bending.any():
        raise InputError("net: no neuron bends the line within reach; such a network has no break-points")
    positions = drop_close(-b[bending] / w[bending], resolution)
    return BreakPoints(positions, net(positions[:, None]), merged)


def _merge_neurons(pull: Floats, sign: Floats) -> ShallowReLU:
    """Merge each group of equal direction and output sign into one balanced neuron (|v| = ‖[w, b]‖)."""
    groups = [(total, s) for s in (1.0, -1.0) for total in _group_totals(pull[sign == s])]
    size = np.sqrt([np.linalg.norm(total) for total, _ in groups])
    w = np.array([total for total, _ in groups]) / size[:, None]
    return ShallowReLU(w[:, :1], w[:, 1], size * [s for _, s in groups])


def _group_totals(pull: Floats) -> list[Floats]:
    """Sum rows whose directions follow each other within the angle that counts as equal."""
    if not len(pull):
        return []
    angle = np.arctan2(pull[:, 1], pull[:, 0])
    order = np.argsort(angle)
    turn = np.diff(angle[order], append=angle[order[0]] + 2 * np.pi)
    ends = np.flatnonzero(turn > _SAME_ANGLE)
    if not len(ends):
        return [pull.sum(axis=0)]
    # Starting after a gap keeps a group that straddles ±π whole.
    shift = ends[0] + 1
    cuts = (ends - ends[0])[1:]
    return [part.sum(axis=0) for part in np.split(pull[np.roll(order, -shift)], cuts)]


def exact_break_points(net: ShallowReLU) -> Floats:
    """Return every position where the exact line may bend, sorted, without repeats."""
    w = net.w[:, 0]
    moving = (net.v != 0) & (np.abs(w) > 1e-12 * np.abs(net.b)) & (w != 0)
    return np.unique(-net.b[moving] / w[moving])


def find_crossings(net: ShallowReLU, level: float, resolution: float) -> Floats:
    """Return the isolated solutions of Φ(x) = level, the outer rays included, sorted.

    Solutions inside a stretch where Φ stays at the level are not isolated and are left out. A peak that touches
    the level counts.
    """
    positions = exact_break_points(net)
    if not len(positions):
        return np.zeros(0)
    extent = max(1.0, float(positions[-1] - positions[0]))
    # One node beyond each end turns the rays into ordinary pieces of known slope.
    line = np.concatenate([[positions[0] - extent], positions, [positions[-1] + extent]])
    height = net(line[:, None]) - level
    flat = margin_pieces(line, height, abs(level), resolution)
    height = np.where(np.abs(height) <= _TOUCH_TOLERANCE * abs(level), 0.0, height)
    left_height, right_height = height[:-1], height[1:]
    inside = (left_height * right_height < 0) & ~flat
    roots = line[:-1][inside] - left_height[inside] * np.diff(line)[inside] / (right_height - left_height)[inside]
    touching = np.flatnonzero(height[1:-1] == 0) + 1
    isolated = touching[~flat[touching - 1] & ~flat[touching]]
    return drop_close(np.concatenate([roots, line[isolated], *_outer_crossings(line, height)]), resolution)


def margin_pieces(line: Floats, height: Floats, margin: float, resolution: float) -> Bools:
    """Flag pieces on the margin: both ends within 1 % of it, in a stretch longer than ``resolution``."""
    is_near = np.abs(height) <= MARGIN_TOLERANCE * margin
    pieces = is_near[:-1] & is_near[1:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], pieces, [False]]).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2):
        if line[stop] - line[start] <= resolution:
            pieces[start:stop] = False
    return pieces


def drop_close(points: Floats, resolution: float) -> Floats:
    """Sort positions and keep the first of those closer than ``resolution``."""
    points = np.sort(points)
    return points[np.concatenate([[True], np.diff(points) > resolution])] if len(points) else points


def _outer_crossings(line: Floats, height: Floats) -> list[Floats]:
    """Return solutions on the two rays, beyond the nodes that were added."""
    places = []
    for end, inner in ((0, 1), (-1, -2)):
        slope = (height[inner] - height[end]) / (line[inner] - line[end])
        if slope == 0:
            continue
        root = line[end] - height[end] / slope
        # A root on the added node is neither a change of sign nor a touching peak of an inner piece: it counts here.
        beyond = root <= line[0] if end == 0 else root >= line[-1]
        if beyond:
            places.append(np.array([root]))
    return places
