"""Signals of a classifier that gives labels alone: how far a record is from being called something else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.targets import GivesLabels
from divulge.targets.rights import class_name
from divulge.types import Records
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Bools, Floats, Ints

# Values in one batch of points: 128 MB of float64.
_BATCH = 1 << 24
# Halvings of the line between a record and a point beyond the boundary: to 1/256 of its length.
_HALVINGS = 8
# Directions of the first gradient estimate; later ones take more, with the square root of the round.
_DIRECTIONS = 16
# How far from the boundary directions are tried, as a share of the record's distance.
_REACH = 0.05
# Steps along the gradient that are tried, each half the one before.
_STEPS = 4


@dataclass(frozen=True, slots=True)
class BoundaryDistance:
    """Distance of each record from the nearest point found that the target calls something else.

    Choquette-Choo et al. 2021 (arXiv:2007.14321): members lie farther from the decision boundary. The search is that
    of HopSkipJump (Chen et al. 2020, arXiv:1904.02144, algorithm 2, L2), for all records at once: halve the line to a
    point beyond the boundary, estimate the boundary's normal there from the labels of random neighbours, step along
    it, halve again. It starts from the nearest record that the target puts into another class, so no query is spent on
    a start. Distances are in standard deviations of each column of the records asked about, and no point leaves their
    range. The points have values that real records may not have (half of a one-hot column).

    A record that the target gets wrong has distance 0; where the target calls all records the same, all have 0.

    Args:
        queries: most queries a record, at least 16; the search stops before the round that would exceed it.
        seed: of the directions.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> from divulge.targets import CallableTarget
        >>> target = CallableTarget(lambda x: np.stack([-x[:, 0], x[:, 0]], axis=1))
        >>> records = Records([[-2.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [3.0, 1.0]], [0, 0, 1, 1])
        >>> BoundaryDistance(queries=300).measure(target, records).round(1)
        array([1. , 0.5, 0.5, 1.6])
    """

    name: ClassVar[str] = "boundary-distance"
    reads: ClassVar[str] = "the target's label of each candidate and of points around it"
    needs_numbers: ClassVar[bool] = True

    queries: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer(self.queries, "BoundaryDistance.queries", minimum=16, maximum=10**6)
        check_integer(self.seed, "BoundaryDistance.seed", minimum=0)

    def measure(self, target: Any, records: Records) -> Floats:
        """Distances ``[n]``, in standard deviations of the columns; at most ``queries`` queries each.

        Raises:
            divulge.InputError: texts, or a target that gives neither labels nor logits.
        """
        scaled, predicted, truth = _query_records(target, records)
        starts, rows = _nearest_other_class(scaled.points, predicted, truth)
        distances = np.zeros(len(records))
        rng = seeds.generator(self.seed, "boundary")
        # A budget of queries is a budget of rounds that is the same for all.
        plan = list(_plan_rounds(self.queries - 1 - _HALVINGS))
        width = max(1, _BATCH // (scaled.points.shape[1] * max(plan, default=1)))
        for start in range(0, len(rows), width):
            part = rows[start : start + width]
            search = _BoundarySearch(scaled, scaled.points[part], truth[part])
            beyond = search.halved(scaled.points[starts[start : start + width]])
            for number, directions in enumerate(plan, start=1):
                beyond = search.closer(beyond, directions, number, rng)
            distances[part] = search.distances(beyond)
        return distances


@dataclass(frozen=True, slots=True)
class NoiseRobustness:
    """Share of noisy copies of each record that the target still gets right.

    Choquette-Choo et al. 2021 (arXiv:2007.14321), section 4.3: a cheaper stand-in for the distance. Noise of
    growing size is added to the columns, in their standard deviations, and columns with two values are flipped
    with growing probability, so that records at all distances differ somewhere.

    Args:
        queries: copies of each record, itself among them, at least 2.
        scale: largest noise, in standard deviations.
        flips: largest probability to flip a column of two values, in [0, 1].
        seed: of the noise.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> from divulge.targets import CallableTarget
        >>> target = CallableTarget(lambda x: np.stack([-x[:, 0], x[:, 0]], axis=1))
        >>> records = Records([[-2.0], [-0.1], [0.2], [3.0]], [0, 0, 1, 1])
        >>> shares = NoiseRobustness().measure(target, records)
        >>> bool(shares[0] > shares[1]), bool(shares[3] > shares[2])
        (True, True)
    """

    name: ClassVar[str] = "noise-robustness"
    reads: ClassVar[str] = "the target's label of each candidate and of noisy copies of it"
    needs_numbers: ClassVar[bool] = True

    queries: int = 50
    scale: float = 1.0
    flips: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer(self.queries, "NoiseRobustness.queries", minimum=2, maximum=10**6)
        check_number(self.scale, "NoiseRobustness.scale", above=0)
        check_number(self.flips, "NoiseRobustness.flips", above=0, below=1, closed=True)
        check_integer(self.seed, "NoiseRobustness.seed", minimum=0)

    def measure(self, target: Any, records: Records) -> Floats:
        """Shares ``[n]``, in [0, 1]; exactly ``queries`` queries each.

        Raises:
            divulge.InputError: texts, or a target that gives neither labels nor logits.
        """
        scaled, predicted, truth = _query_records(target, records)
        low, high = scaled.low, scaled.high
        is_binary = ((scaled.points == low) | (scaled.points == high)).all(axis=0)
        rng = seeds.generator(self.seed, "noise")
        n_correct = (predicted == truth).astype(np.float64)
        for noise_level in np.arange(1, self.queries) / (self.queries - 1):
            moved = scaled.points + noise_level * self.scale * rng.normal(size=scaled.points.shape)
            flip = rng.random(scaled.points.shape) < noise_level * self.flips
            flipped = np.where(flip, low + high - scaled.points, scaled.points)
            n_correct += scaled.labels(np.where(is_binary, flipped, moved)) == truth
        return n_correct / self.queries


@dataclass(frozen=True, slots=True, eq=False)
class _ScaledRecords:
    """Records as points ``[n, d]`` with columns of unit spread, and labels of any such points."""

    target: Any
    points: Floats
    scale: Floats
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def from_records(cls, target: Any, records: Records) -> _ScaledRecords:
        if records.x.dtype == object:
            raise InputError("records: a label-only signal moves numbers, got texts")
        flat = records.x.reshape(len(records), -1).astype(np.float64)
        spread = flat.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        dtype = records.x.dtype if records.x.dtype.kind == "f" else np.dtype(np.float32)
        return cls(target, flat / scale, scale, records.x.shape[1:], dtype)

    @property
    def low(self) -> Floats:
        """Smallest value of each column."""
        return self.points.min(axis=0)

    @property
    def high(self) -> Floats:
        """Largest value of each column."""
        return self.points.max(axis=0)

    def labels(self, points: Floats) -> Ints:
        """Return the target's labels, ``[k]``."""
        batch_size = max(1, _BATCH // points.shape[1])
        parts = [self._query_labels(points[start : start + batch_size]) for start in range(0, len(points), batch_size)]
        return np.concatenate(parts)

    def _query_labels(self, points: Floats) -> Ints:
        records = Records((points * self.scale).reshape(len(points), *self.shape).astype(self.dtype))
        if isinstance(self.target, GivesLabels):
            return np.asarray(self.target.labels(records))
        if not hasattr(self.target, "logits"):
            raise InputError(f"target: {class_name(self.target)} gives neither labels nor logits")
        return self.target.logits(records).argmax(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _BoundarySearch:
    """The search of some records at once: ``centres[k, d]`` and their true classes ``[k]``."""

    plane: _ScaledRecords
    centres: Floats
    truth: Ints

    def distances(self, points: Floats) -> Floats:
        """Return the distance of each point from its record."""
        return np.linalg.norm(points - self.centres, axis=1)

    def wrong(self, points: Floats) -> Bools:
        """Check where the target gives the point another class than its record's: ``[k]`` or ``[k, b]``."""
        each = self.truth if points.ndim == 2 else self.truth[:, None]
        flat = points.reshape(-1, points.shape[-1])
        return self.plane.labels(flat).reshape(points.shape[:-1]) != each

    def halved(self, beyond: Floats) -> Floats:
        """Return the first point beyond the boundary on the line to each point that is beyond it."""
        inside, outside = np.zeros(len(beyond)), np.ones(len(beyond))
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_outside = self.wrong(self.centres + middle[:, None] * (beyond - self.centres))
            outside, inside = np.where(is_outside, middle, outside), np.where(is_outside, inside, middle)
        return self.centres + outside[:, None] * (beyond - self.centres)

    def closer(self, beyond: Floats, directions: int, round_number: int, rng: np.random.Generator) -> Floats:
        """Take a round of HopSkipJump from points just beyond the boundary; no result is farther than they are."""
        reach = self.distances(beyond)
        # Unit vectors towards the other side are estimated from the labels of random neighbours (equation 16).
        directions_drawn = rng.normal(size=(len(beyond), directions, beyond.shape[1]))
        directions_drawn /= np.linalg.norm(directions_drawn, axis=2, keepdims=True)
        neighbours = beyond[:, None] + (_REACH * reach)[:, None, None] * directions_drawn
        side = np.where(self.wrong(np.clip(neighbours, self.plane.low, self.plane.high)), 1.0, -1.0)
        mean = side.mean(axis=1, keepdims=True)
        weights = np.where(np.abs(mean) < 1, side - mean, side)
        normal = np.einsum("kb,kbd->kd", weights, directions_drawn)
        normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
        step, moved, has_crossed = reach / np.sqrt(round_number), beyond.copy(), np.zeros(len(beyond), dtype=bool)
        for _ in range(_STEPS):
            candidates = np.clip(beyond + step[:, None] * normal, self.plane.low, self.plane.high)
            crosses = self.wrong(candidates) & ~has_crossed
            moved[crosses], has_crossed = candidates[crosses], has_crossed | crosses
            step = step / 2
        projected = self.halved(moved)
        is_closer = has_crossed & (self.distances(projected) < reach)
        return np.where(is_closer[:, None], projected, beyond)


def _query_records(target: Any, records: Records) -> tuple[_ScaledRecords, Ints, Ints]:
    """Return the records as points, what the target calls them, and what they are: the same where no label is known."""
    scaled = _ScaledRecords.from_records(target, records)
    predicted = scaled.labels(scaled.points)
    return scaled, predicted, predicted if records.y is None else records.y


def _plan_rounds(budget: int) -> Iterator[int]:
    """Return the number of directions of each round that ``budget`` queries a record allow."""
    number = 1
    while (budget := budget - (directions := math.isqrt(_DIRECTIONS**2 * number)) - _STEPS - _HALVINGS) >= 0:
        yield directions
        number += 1


def _nearest_other_class(points: Floats, predicted: Ints, truth: Ints) -> tuple[Ints, Ints]:
    """Find the nearest record of another predicted class for each one classified rightly: its row, and the record's."""
    nearest_rows, rows = [], []
    squares = (points**2).sum(axis=1)
    for label in np.unique(truth):
        correct = np.flatnonzero((truth == label) & (predicted == label))
        other_class = np.flatnonzero(predicted != label)
        if not len(correct) or not len(other_class):
            continue
        batch_size = max(1, _BATCH // len(other_class))
        for start in range(0, len(correct), batch_size):
            part = correct[start : start + batch_size]
            nearest = (squares[other_class] - 2 * points[part] @ points[other_class].T).argmin(axis=1)
            nearest_rows.append(other_class[nearest])
            rows.append(part)
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(nearest_rows), np.concatenate(rows)
