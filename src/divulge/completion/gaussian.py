"""The class-conditional Gaussian: what the unknown values of a record are, given the known ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from sklearn import covariance

from divulge.completion.imputers import FittedImputer, Generators, flatten_records
from divulge.errors import InputError
from divulge.validation import check_bool, check_choice, check_number

if TYPE_CHECKING:
    from divulge.types import Bools, Floats, Ints, Records

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
        """Means and covariance of the auxiliary records.

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
        others = known_classes if labels is None else _Gaussian(self._covariance(standard))
        filler = _Filler(x.mean(axis=0), scale, classes, means, known_classes, others)
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

    def regression(self, known: Bools) -> Floats:
        """``Σ_kk⁻¹ Σ_ku`` ``[k, u]``, from the smaller of two systems."""
        k, u = np.flatnonzero(known), np.flatnonzero(~known)
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

    def fill(self, x: Floats, known: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        """Completions ``[draws, n, d]``; the conditional mean without generators."""
        row = self._rows(labels, len(x))
        seen = row < len(self.classes)
        standard = np.where(known, (x - self.centre) / np.where(self.scale > 0, self.scale, 1.0), 0.0)
        means = self.means[row]
        raw = np.empty((len(rngs or [None]), *x.shape))
        for gaussian, of in ((self.within, seen), (self.overall, ~seen)):
            if of.any():
                raw[:, of] = _conditional(gaussian, standard[of], means[of], known[of], rngs)
        return np.where(known, x, self.centre + self.scale * raw)

    def _rows(self, labels: Ints | None, n: int) -> Ints:
        """Which mean each record has; the last is the overall one."""
        last = len(self.classes)
        if labels is None or not last:
            return np.full(n, last)
        at = np.minimum(np.searchsorted(self.classes, labels), last - 1)
        return np.where(self.classes[at] == labels, at, last)


def _conditional(gaussian: _Gaussian, x: Floats, means: Floats, known: Bools, rngs: Generators) -> Floats:
    """Standardised completions ``[draws, n, d]``, mask by mask."""
    filled = np.stack([gaussian.sample(rng, len(x)) for rng in rngs]) if rngs else np.zeros((1, *x.shape))
    deviations = x - means - filled
    masks, which = np.unique(known, axis=0, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(masks)))
    for mask, end, count in zip(masks, ends, np.diff(ends, prepend=0), strict=True):
        if mask.all():
            continue
        rows = order[end - count : end]
        weights = gaussian.regression(mask)
        k, u = np.flatnonzero(mask), np.flatnonzero(~mask)
        for at in range(0, count, _ROWS):
            part = rows[at : at + _ROWS]
            # One product a draw: a product of all at once rounds by how many there are.
            for draw, away in zip(filled, deviations, strict=True):
                draw[np.ix_(part, u)] += away[np.ix_(part, k)] @ weights
    return filled + means
