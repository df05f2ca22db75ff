"""Completing records of which only some values are known, from auxiliary records of the same kind.

An imputer is a frozen dataclass with ``fit(auxiliary) -> FittedImputer``. All draw on `FittedImputer`: the imputer
fills in raw values, `RecordColumns` makes them values that such columns hold, and what is known is put back unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy import linalg

from divulge import errors, lazy, seeds
from divulge.errors import InputError
from divulge.types import PartialRecords
from divulge.validation import (
    as_list,
    check_array,
    check_bool,
    check_choice,
    check_instance,
    check_integer,
    check_memory,
    check_nonempty,
    check_number,
    check_string,
    check_strings,
    format_value,
)

if TYPE_CHECKING:
    from sklearn import covariance
    from torch import nn

    from divulge.types import Array, Bools, Floats, Ints, Records
else:
    covariance = lazy.module("sklearn.covariance")


ImputerFunction: TypeAlias = Callable[..., object]

Generators: TypeAlias = Sequence[np.random.Generator] | None
"""One for each draw, so that a draw is the same however many others there are; None for the best guess."""

CORNERS = ("top-left", "top-right", "bottom-left", "bottom-right", "centre")


class Filler(Protocol):
    """The fitted part of an imputer that fills in values."""

    def fill(self, x: Floats, known_mask: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        """Complete ``x[n, d]`` (0 where unknown) to ``[draws, n, d]``; the best guess without generators."""
        ...


@runtime_checkable
class Imputer(Protocol):
    """Learns from auxiliary records how to complete others."""

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Learn from the auxiliary records, which must be disjoint from those to be completed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FittedImputer:
    """An imputer that has seen its auxiliary records.

    Args:
        name: what the report calls it.
        columns: what the auxiliary records say about the columns.
        auxiliary: their values ``[z, ...]``.
        filler: fills in raw values.
        warnings: what the user must know before relying on it.
    """

    name: str
    columns: RecordColumns
    auxiliary: Array
    filler: Filler
    warnings: tuple[str, ...] = ()

    def complete(self, partial: PartialRecords, draws: int = 1, seed: int = 0) -> Floats:
        """Return completed records ``[draws, n, ...]``, of the auxiliary records' type; known values as they came.

        Args:
            partial: ``n`` records of which some values are known.
            draws: 1 gives the best single completion, in which nothing is random. More give multiple
                imputation: that many independent draws of the unknown values, all given the known ones.
            seed: of the draws.

        Raises:
            divulge.InputError: records of another shape than the auxiliary ones. (Candidates among the auxiliary
                records are found by `overlap`; an audit refuses them.)
        """
        if check_integer(draws, "draws", minimum=1) > 1:
            return self.sample(partial, draws, seed)
        return self._completed(partial, None)

    def sample(self, partial: PartialRecords, draws: int, seed: int) -> Floats:
        """Draw random completions ``[draws, n, ...]``; fewer draws are the first of more."""
        count = check_integer(draws, "draws", minimum=1)
        return self._completed(partial, [seeds.generator(seed, "completion", draw) for draw in range(count)])

    def _completed(self, partial: PartialRecords, rngs: Generators) -> Floats:
        shape = self.auxiliary.shape[1:]
        if partial.x.shape[1:] != shape:
            raise InputError(f"x: records of the auxiliary shape {shape} are needed, got {partial.x.shape[1:]}")
        n = len(partial)
        x, known_mask = partial.x.reshape(n, -1).astype(np.float64), partial.known.reshape(n, -1)
        raw = np.asarray(self.filler.fill(x, known_mask, partial.y, rngs))
        draws_with_rngs = zip(raw, [None] if rngs is None else rngs, strict=True)
        settled = np.stack([self.columns.settle(completed, known_mask, rng) for completed, rng in draws_with_rngs])
        dtype = self.auxiliary.dtype
        return settled.reshape(len(raw), *partial.x.shape).astype(dtype if dtype.kind in "iuf" else np.float64)


def overlap(partial: PartialRecords, auxiliary: Array) -> Bools:
    """Find the records that agree with some auxiliary record in every known value, bool ``[n]``.

    Args:
        partial: ``n`` records of which some values are known.
        auxiliary: ``[z, ...]``.

    Examples:
        >>> from divulge import PartialRecords
        >>> overlap(PartialRecords(np.eye(2), None, np.array([True, False])), np.array([[1.0, 5.0]]))
        array([ True, False])
    """
    check_instance(partial, "partial", PartialRecords)
    records = check_nonempty(check_array(auxiliary, "auxiliary"), "auxiliary")
    if records.shape[1:] != partial.x.shape[1:]:
        raise InputError(f"auxiliary: the shape {partial.x.shape[1:]} is needed, got {records.shape[1:]}")
    n, z = len(partial), len(records)
    x, known_mask = partial.x.reshape(n, -1), partial.known.reshape(n, -1)
    auxiliary_rows = records.reshape(z, -1).astype(x.dtype, copy=False)
    agrees = np.zeros(n, dtype=bool)
    masks, mask_ids = np.unique(known_mask, axis=0, return_inverse=True)
    for mask_id, mask in enumerate(masks):
        known_parts = {row.tobytes() for row in np.ascontiguousarray(auxiliary_rows[:, mask])}
        for row in np.flatnonzero(mask_ids == mask_id):
            agrees[row] = x[row, mask].tobytes() in known_parts
    return agrees


def flatten_records(auxiliary: Records) -> tuple[Floats, RecordColumns]:
    """Flatten auxiliary records to float64 ``[z, d]``; also describe their columns.

    Raises:
        divulge.InputError: fewer than 2 records, or records that are not numbers.
    """
    if auxiliary.x.dtype == object:
        raise InputError("auxiliary: only numbers can be completed, got text")
    if len(auxiliary) < 2:
        raise InputError(f"auxiliary: at least 2 records are needed, got {len(auxiliary)}")
    rows = auxiliary.x.reshape(len(auxiliary), -1)
    return rows.astype(np.float64), RecordColumns.from_array(rows)


@dataclass(frozen=True, slots=True)
class CustomImputer:
    """The user's own completion.

    Args:
        function: ``function(x, known, labels, auxiliary, rng)`` with ``x[n, d]`` (NaN where unknown), ``known[n, d]``,
            ``labels[n]`` or None, the auxiliary values ``[z, d]`` and a generator, or None where the best
            guess is wanted. Returns ``[n, d]``; what it says of known values is ignored.

    Raises:
        divulge.InputError: not a function.
    """

    function: ImputerFunction

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"imputer: a function or an imputer is needed, got {format_value(self.function)}")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Keep the auxiliary records."""
        x, columns = flatten_records(auxiliary)
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return FittedImputer(name, columns, auxiliary.x, _FunctionFiller(self.function, x))


def imputer(imputer_or_function: Imputer | ImputerFunction) -> Imputer:
    """Return an imputer as it is, and a function as `CustomImputer`."""
    return imputer_or_function if isinstance(imputer_or_function, Imputer) else CustomImputer(imputer_or_function)


@dataclass(frozen=True, slots=True, eq=False)
class _FunctionFiller:
    function: ImputerFunction
    x: Floats

    def fill(self, x: Floats, known_mask: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        hidden, filled = np.where(known_mask, x, np.nan), []
        for rng in rngs or [None]:
            with errors.user_code_errors("imputer"):
                answer = self.function(hidden.copy(), known_mask, labels, self.x, rng)
            completed = check_array(answer, "imputer", finite=False)
            if completed.shape != x.shape:
                raise InputError(f"imputer: shape {x.shape} is needed, the function returned {completed.shape}")
            filled.append(completed)
        return check_array(np.where(known_mask, x, np.stack(filled)), "imputer: completed values")


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """The columns of flattened records ``[n, d]``.

    Args:
        low: least value of each column, ``[d]``.
        high: greatest value, ``[d]``.
        binary: bool ``[d]``, columns that hold 0 and 1 alone and belong to no one-hot group.
        groups: positions of the columns of each one-hot group.
        are_integers: every column is of an integer type.
    """

    low: Floats
    high: Floats
    binary: Bools
    groups: tuple[Ints, ...]
    are_integers: bool = False

    @classmethod
    def from_array(cls, x: Array) -> RecordColumns:
        """Describe the columns of ``x[n, d]``.

        Examples:
            >>> columns = RecordColumns.from_array(np.array([[0.5, 1, 0, 0, 1], [0.7, 0, 1, 0, 0], [0.9, 0, 0, 1, 1]]))
            >>> [group.tolist() for group in columns.groups], columns.binary.tolist()
            ([[1, 2, 3]], [False, False, False, False, True])
        """
        zero_or_one = np.array([bool(((column == 0) | (column == 1)).all()) for column in x.T])
        groups = tuple(_one_hot_groups(x, zero_or_one))
        binary = zero_or_one.copy()
        for group in groups:
            binary[group] = False
        low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
        return cls(low, high, binary, groups, x.dtype.kind in "iu")

    def __len__(self) -> int:
        return len(self.low)

    @property
    def varying(self) -> Bools:
        """Bool ``[d]``, the columns that are not constant."""
        return self.high > self.low

    def settle(self, filled: Floats, known_mask: Bools, rng: np.random.Generator | None) -> Floats:
        """Make raw completions ``[n, d]`` into values that such columns hold.

        Everything is clipped to its column's range. A one-hot group is completed as one categorical
        value: the unknown columns share what the known ones leave of the one, and exactly one wins
        (none, if a known one holds it). Other binary columns become 0 or 1 only when drawn; without a
        generator they keep the expected value. Integer columns are rounded.

        Args:
            filled: raw completions; known values are in place.
            known_mask: bool ``[n, d]``.
            rng: draws categories and bits from their probabilities; None takes the likeliest.
        """
        settled = np.where(known_mask, filled, np.clip(filled, self.low, self.high))
        for group in self.groups:
            settled[:, group] = _settle_one_hot(settled[:, group], known_mask[:, group], rng)
        if rng is not None and self.binary.any():
            bits = rng.random((len(settled), int(self.binary.sum()))) < settled[:, self.binary]
            settled[:, self.binary] = np.where(known_mask[:, self.binary], settled[:, self.binary], bits)
        return np.where(known_mask, settled, np.round(settled)) if self.are_integers else settled


def _one_hot_groups(x: Array, zero_or_one: Bools) -> list[Ints]:
    """Find runs of neighbouring 0/1 columns of which every record has exactly one set."""
    groups, start, d = [], 0, x.shape[1]
    while start < d:
        end, total = start, np.zeros(len(x), dtype=np.int64)
        while end < d and zero_or_one[end] and total.max(initial=0) <= 1 and not (total == 1).all():
            total += x[:, end].astype(np.int64)
            end += 1
        # A constant column of ones is no group: nothing is left to complete in it.
        if end - start > 1 and (total == 1).all():
            groups.append(np.arange(start, end))
            start = end
        else:
            start += 1
    return groups


def _settle_one_hot(weights: Floats, known_mask: Bools, rng: np.random.Generator | None) -> Floats:
    has_known_one = (np.where(known_mask, weights, 0.0) >= 0.5).any(axis=1, keepdims=True)
    rivals = np.where(known_mask, 0.0, np.maximum(weights, 1e-9))
    if rng is None:
        winner = rivals.argmax(axis=1)
    else:
        cumulated = np.cumsum(rivals, axis=1)
        winner = (cumulated < rng.random((len(rivals), 1)) * cumulated[:, -1:]).sum(axis=1)
    chosen = (np.arange(weights.shape[1]) == winner[:, None]) & ~has_known_one
    return np.where(known_mask, weights, chosen)


# Donors are drawn for this many records at a time, which is part of the draw.
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Mean:
    """Unknown values as the auxiliary mean; draws take each from a random auxiliary record.

    Args:
        per_class: the mean of the record's class.
    """

    per_class: bool = True

    def __post_init__(self) -> None:
        check_bool(self.per_class, "per_class")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Keep the auxiliary records."""
        per_class = self.per_class and auxiliary.y is not None
        x, columns = flatten_records(auxiliary)
        filler = _MeanFiller(x, auxiliary.y if per_class else None)
        return FittedImputer("class mean" if per_class else "mean", columns, auxiliary.x, filler)


@dataclass(frozen=True, slots=True, eq=False)
class _MeanFiller:
    """Takes values from all auxiliary records of the class: their mean, or each from a random one."""

    x: Floats
    labels: Ints | None

    def fill(self, x: Floats, known_mask: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        filled = np.empty((len(rngs or [None]), *x.shape))
        for rows, pool in group_by_class(self.labels, labels, len(x), len(self.x)):
            if not rngs:
                filled[:, rows] = self.x[pool].mean(axis=0)
                continue
            for start in range(0, len(rows), _CHUNK):
                part = rows[start : start + _CHUNK]
                donors = pool[np.stack([rng.integers(len(pool), size=(len(part), x.shape[1])) for rng in rngs])]
                filled[:, part] = self.x[donors, np.arange(x.shape[1])]
        return np.where(known_mask, x, filled)


def group_by_class(auxiliary_labels: Ints | None, labels: Ints | None, n: int, z: int) -> list[tuple[Ints, Ints]]:
    """Pair rows to complete with auxiliary rows: those of their class, or all if it is unseen.

    Args:
        auxiliary_labels: labels of the auxiliary records ``[z]``, or None.
        labels: of the records to complete ``[n]``, or None.
        n: number of records to complete.
        z: number of auxiliary records.
    """
    all_rows = np.arange(z)
    if auxiliary_labels is None or labels is None:
        return [(np.arange(n), all_rows)]
    pairs = []
    for c in np.unique(labels):
        pool = np.flatnonzero(auxiliary_labels == c)
        pairs.append((np.flatnonzero(labels == c), pool if len(pool) else all_rows))
    return pairs


# Rows solved for at once under one mask: bounds the memory of a solve, not its result.
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class ConditionalGaussian:
    """Unknown values as a Gaussian given the known ones: its mean, or draws from it.

    ``x̂_u = μ_u + Σ_uk Σ_kk⁻¹ (x_k - μ_k)``. Each class has its own mean; the covariance is that within
    classes, shared by all (one of its own for every class has more parameters than auxiliary records can
    feed: on 768-pixel images with 600 records per class its error is 1.2 to 1.5 times as large). A class the
    auxiliary records lack gets the overall mean and covariance.

    The system solved is that of the smaller side. With few known values it is ``Σ_kk``; with many it is
    the precision matrix's block of the unknown ones, for ``x̂_u = μ_u - Λ_uu⁻¹ Λ_uk (x_k - μ_k)``. Draws
    need no further factor: with ``a ~ N(0, Σ)``, the completion of ``a``'s own known part is subtracted
    from ``a`` and what remains is added to ``x̂`` (Matheron's rule). Records with the same mask share one
    Cholesky factor.

    Args:
        shrinkage: "ledoit-wolf" (Ledoit & Wolf 2004, towards the identity of the standardised columns), or
            a share in (0, 1].
        per_class: a mean for each class; False for one mean (and when there are no labels).

    Raises:
        divulge.InputError: a shrinkage outside its range.

    Examples:
        >>> from divulge import PartialRecords, Records
        >>> x = np.random.default_rng(0).normal(size=(500, 1))
        >>> fitted = ConditionalGaussian().fit(Records(np.hstack([x, 2 * x])))
        >>> fitted.complete(PartialRecords(np.array([[1.0, np.nan]]), None, np.array([True, False])))[0].round(1)
        array([[1., 2.]])
    """

    shrinkage: str | float = "ledoit-wolf"
    per_class: bool = True

    def __post_init__(self) -> None:
        check_bool(self.per_class, "per_class")
        if isinstance(self.shrinkage, str):
            check_choice(self.shrinkage, "shrinkage", ("ledoit-wolf",))
        elif check_number(self.shrinkage, "shrinkage", above=0, below=1, closed=True) == 0:
            raise InputError("shrinkage: must lie in (0, 1], got 0")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Estimate means and covariance of the auxiliary records.

        Raises:
            divulge.InputError: fewer than 2 records, records that are not numbers.
        """
        x, columns = flatten_records(auxiliary)
        scale = np.where(columns.varying, x.std(axis=0), 0.0)
        standard = (x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        labels = auxiliary.y if self.per_class else None
        classes = np.unique(labels) if labels is not None else np.zeros(0, dtype=np.int64)
        means = np.stack([standard[labels == c].mean(axis=0) for c in classes] + [np.zeros(x.shape[1])])
        within = standard if labels is None else standard - means[np.searchsorted(classes, labels)]
        known_classes = _Gaussian(self._covariance(within))
        other_classes = known_classes if labels is None else _Gaussian(self._covariance(standard))
        filler = _Filler(x.mean(axis=0), scale, classes, means, known_classes, other_classes)
        n, d = x.shape
        warnings = [] if n > d else [f"{n} auxiliary records for {d} columns: the covariance is mostly shrinkage"]
        return FittedImputer(
            f"class-conditional Gaussian ({self.shrinkage})", columns, auxiliary.x, filler, tuple(warnings)
        )

    def _covariance(self, centred: Floats) -> Floats:
        if isinstance(self.shrinkage, str):
            return covariance.ledoit_wolf(centred, assume_centered=True)[0]
        empirical = centred.T @ centred / len(centred)
        identity = np.eye(len(empirical)) * np.trace(empirical) / len(empirical)
        return (1 - self.shrinkage) * empirical + self.shrinkage * identity


@dataclass(slots=True, eq=False)
class _Gaussian:
    """A covariance, and what is computed from it once when first needed."""

    covariance: Floats
    _root: Floats | None = field(default=None, init=False)
    _precision: Floats | None = field(default=None, init=False)

    def sample(self, rng: np.random.Generator, rows: int) -> Floats:
        if self._root is None:
            self._root = np.linalg.cholesky(self.covariance)
        return rng.normal(size=(rows, len(self.covariance))) @ self._root.T

    def regression(self, known_mask: Bools) -> Floats:
        """Solve for ``Σ_kk⁻¹ Σ_ku`` ``[k, u]``, from the smaller of two systems."""
        k, u = np.flatnonzero(known_mask), np.flatnonzero(~known_mask)
        if len(k) <= len(u):
            return linalg.cho_solve(linalg.cho_factor(self.covariance[np.ix_(k, k)]), self.covariance[np.ix_(k, u)])
        if self._precision is None:
            identity = np.eye(len(self.covariance))
            self._precision = linalg.cho_solve(linalg.cho_factor(self.covariance), identity)
        return -linalg.cho_solve(linalg.cho_factor(self._precision[np.ix_(u, u)]), self._precision[np.ix_(u, k)]).T


@dataclass(frozen=True, slots=True, eq=False)
class _Filler:
    centre: Floats
    scale: Floats
    classes: Ints
    means: Floats
    within: _Gaussian
    overall: _Gaussian

    def fill(self, x: Floats, known_mask: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        """Return completions ``[draws, n, d]``; the conditional mean without generators."""
        mean_rows = self._rows(labels, len(x))
        is_known_class = mean_rows < len(self.classes)
        standard = np.where(known_mask, (x - self.centre) / np.where(self.scale > 0, self.scale, 1.0), 0.0)
        means = self.means[mean_rows]
        raw = np.empty((len(rngs or [None]), *x.shape))
        for gaussian, rows in ((self.within, is_known_class), (self.overall, ~is_known_class)):
            if rows.any():
                raw[:, rows] = _conditional(gaussian, standard[rows], means[rows], known_mask[rows], rngs)
        return np.where(known_mask, x, self.centre + self.scale * raw)

    def _rows(self, labels: Ints | None, n: int) -> Ints:
        """Return the index of each record's mean; the last is the overall one."""
        overall_row = len(self.classes)
        if labels is None or not overall_row:
            return np.full(n, overall_row)
        positions = np.minimum(np.searchsorted(self.classes, labels), overall_row - 1)
        return np.where(self.classes[positions] == labels, positions, overall_row)


def _conditional(gaussian: _Gaussian, x: Floats, means: Floats, known_mask: Bools, rngs: Generators) -> Floats:
    """Return standardised completions ``[draws, n, d]``, mask by mask."""
    filled = np.stack([gaussian.sample(rng, len(x)) for rng in rngs]) if rngs else np.zeros((1, *x.shape))
    deviations = x - means - filled
    masks, mask_ids = np.unique(known_mask, axis=0, return_inverse=True)
    order = np.argsort(mask_ids, kind="stable")
    ends = np.cumsum(np.bincount(mask_ids, minlength=len(masks)))
    for mask, end, count in zip(masks, ends, np.diff(ends, prepend=0), strict=True):
        if mask.all():
            continue
        rows = order[end - count : end]
        weights = gaussian.regression(mask)
        k, u = np.flatnonzero(mask), np.flatnonzero(~mask)
        for start in range(0, count, _ROWS):
            part = rows[start : start + _ROWS]
            # One product a draw: a product of all at once rounds by how many there are.
            for draw, deviation in zip(filled, deviations, strict=True):
                draw[np.ix_(part, u)] += deviation[np.ix_(part, k)] @ weights
    return filled + means


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron:
    """Standardise, then linear layers with ReLU between.

    Args:
        centre: subtracted from flattened records, ``[d]``.
        scale: divided by, ``[d]``.
        layers: weight ``[in, out]`` and bias ``[out]`` of each layer.
    """

    centre: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def from_linear(cls, centre: Floats, scale: Floats, linear: Sequence[nn.Linear]) -> Perceptron:
        """Convert torch's linear layers."""
        layers = tuple(
            (each.weight.detach().double().numpy().T, each.bias.detach().double().numpy()) for each in linear
        )
        return cls(centre, scale, layers)

    def outputs(self, x: Floats) -> Floats:
        """Return the outputs of the last layer, ``[n, q]``, of records ``[n, ...]``."""
        hidden = (x.reshape(len(x), -1) - self.centre) / self.scale
        for layer, (weight, bias) in enumerate(self.layers):
            hidden = (np.maximum(hidden, 0.0) if layer else hidden) @ weight + bias
        return hidden


def mean_and_scale(x: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column of ``x[n, d]``; 1 for the deviation of a constant.

    Examples:
        >>> mean_and_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))
        (array([2., 5.]), array([1., 1.]))
    """
    deviation = x.std(axis=0)
    return x.mean(axis=0), np.where(deviation > 0, deviation, 1.0)


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
    shape = tuple(check_integer(side, "shape", minimum=1, maximum=2**31) for side in as_list(shape, "shape"))
    names = check_strings(columns, "columns")
    check_integer(seed, "seed", minimum=0)
    n_records = 1 if records is None else check_integer(records, "records", minimum=1, maximum=2**31)
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
    return _mask_share(share, shape, seed, is_per_value=mask_type == "values", records=n_records if separator else None)


def _mask_columns(names: str, shape: tuple[int, ...], columns: Sequence[str]) -> Bools:
    if len(shape) != 1:
        raise InputError(f"known: 'columns' is for rows of a table, the records have the shape {shape}")
    known_mask = np.zeros(shape, dtype=bool)
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
        known_mask[matching] = True
    return known_mask


def _mask_share(text: str, shape: tuple[int, ...], seed: int, *, is_per_value: bool, records: int | None) -> Bools:
    share, cells = _parse_share(text), None if is_per_value else _image_size(shape)
    spatial = shape if cells is None else cells
    count = int(np.prod(spatial))
    n_known, rng = max(1, round(share * count)), seeds.generator(seed, "known")
    is_known = np.zeros((1 if records is None else records, count), dtype=bool)
    for row in is_known:
        row[rng.permutation(count)[:n_known]] = True
    masks = is_known.reshape(-1, *spatial)
    if cells is not None:
        masks = np.stack([_repeat_over_channels(row, shape) for row in masks])
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
    return _repeat_over_channels(block, shape)


def _image_size(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return height and width if records of this shape are images."""
    if len(shape) == 2:
        return shape[0], shape[1]
    if len(shape) == 3:
        return (shape[1], shape[2]) if _channels_first(shape) else (shape[0], shape[1])
    return None


def _channels_first(shape: tuple[int, ...]) -> bool:
    return shape[-1] not in (1, 3, 4) and shape[0] in (1, 3, 4)


def _repeat_over_channels(cells: Bools, shape: tuple[int, ...]) -> Bools:
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
