"""How far a completed record lies from what its class looks like: the deviations that MRAD thresholds.

``Name.fit(auxiliary, seed)`` gives an object with ``deviation(target, x, labels) -> [n]``; larger means
further away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from divulge.errors import InputError
from divulge.signals.contrastive import Contrastive
from divulge.targets import GivesHead
from divulge.types import Records

if TYPE_CHECKING:
    from divulge.completion.perceptron import Perceptron
    from divulge.targets import GivesLogits
    from divulge.types import Floats, Ints

# 1 / Φ⁻¹(3/4): makes the median absolute deviation of a Gaussian its standard deviation.
_MAD = 1.4826
_NEAREST = 2
_CHUNK = 1024


class Detector(Protocol):
    """Tells how far a record lies from its class."""

    def deviation(self, target: GivesLogits, x: Floats, labels: Ints) -> Floats:
        """One deviation per record, ``[n]``, of ``x[n, ...]``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CADE:
    """``|d_y - med_y| / MAD_y`` with d_y the latent distance to the class centroid (Yang et al. 2021, §3.2).

    MAD_y is 1.4826 times the median of ``|d - med_y|`` over auxiliary records of the class.

    Args:
        encoder: the contrastive latent.
        centroids: ``[classes, q]``; the last row is the overall centroid, for classes without records.
        medians: ``[classes]``, of the distances.
        spreads: ``[classes]``, their MAD.
    """

    encoder: Perceptron
    centroids: Floats
    medians: Floats
    spreads: Floats

    @classmethod
    def fit(cls, auxiliary: Records, seed: int) -> CADE:
        """Train the latent space and measure the classes in it."""
        encoder = Contrastive().fit(auxiliary, seed)
        latent = encoder.outputs(auxiliary.x)
        labels = np.zeros(len(latent), dtype=np.int64) if auxiliary.y is None else auxiliary.y
        pools = [latent[labels == c] for c in range(int(labels.max()) + 1)] + [latent]
        measured = [_class_statistics(pool if len(pool) > 1 else latent) for pool in pools]
        centroids, medians, spreads = (np.stack(part) for part in zip(*measured, strict=True))
        return cls(encoder, centroids, medians, spreads)

    def deviation(self, target: GivesLogits, x: Floats, labels: Ints) -> Floats:
        """``|d_y - med_y| / MAD_y``, ``[n]``."""
        row = np.minimum(labels, len(self.centroids) - 1)
        distance = np.linalg.norm(self.encoder.outputs(x) - self.centroids[row], axis=1)
        return np.abs(distance - self.medians[row]) / self.spreads[row]


@dataclass(frozen=True, slots=True, eq=False)
class MSAD:
    """Sum of squared distances to the two nearest auxiliary records, by direction (Reiss & Hoshen 2021, §3.3).

    Latent vectors are scaled to length one, shifted by their auxiliary mean and scaled to length one again.

    Args:
        encoder: the contrastive latent.
        centre: mean of the normalised auxiliary vectors, ``[q]``.
        directions: the auxiliary vectors, shifted and normalised, ``[z, q]``.
    """

    encoder: Perceptron
    centre: Floats
    directions: Floats

    @classmethod
    def fit(cls, auxiliary: Records, seed: int) -> MSAD:
        """Train the latent space and keep the auxiliary records' directions in it."""
        encoder = Contrastive().fit(auxiliary, seed)
        normal = _normalise(encoder.outputs(auxiliary.x))
        centre = normal.mean(axis=0)
        return cls(encoder, centre, _normalise(normal - centre))

    def deviation(self, target: GivesLogits, x: Floats, labels: Ints) -> Floats:
        """Σ of the two smallest ``‖a - b‖² = 2 - 2 a·b``, ``[n]``."""
        directions = _normalise(_normalise(self.encoder.outputs(x)) - self.centre)
        near = min(_NEAREST, len(self.directions))
        deviations = [
            np.partition(2.0 - 2.0 * directions[at : at + _CHUNK] @ self.directions.T, near - 1, axis=1)[:, :near]
            for at in range(0, len(directions), _CHUNK)
        ]
        return np.concatenate(deviations).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class NCI:
    """Minus ``(h - μ)·w_c / ‖h - μ‖ + α‖h‖₁`` on the target's last hidden layer (Liu & Qin 2025, NCI).

    h is what the last linear layer is fed, w_c its weights for the *predicted* class, μ the mean of h over
    the auxiliary records. In a network that has collapsed onto its training data, h - μ is parallel to w_c.

    Args:
        auxiliary: records that μ is taken over.
        alpha: α, as published; never tuned on what is being audited.
    """

    auxiliary: Records
    alpha: float = 0.001

    @classmethod
    def fit(cls, auxiliary: Records, seed: int) -> NCI:
        """Keep the auxiliary records."""
        return cls(auxiliary)

    def deviation(self, target: GivesLogits, x: Floats, labels: Ints) -> Floats:
        """Minus the collapse score, ``[n]``.

        Raises:
            divulge.InputError: a target that does not show its last linear layer.
        """
        if not isinstance(target, GivesHead):
            raise InputError(
                f"detector: 'nci' looks at a torch network's last linear layer, {type(target).__name__} shows none"
            )
        h, weights = target.head(Records(x, labels))
        centred = h - target.head(self.auxiliary)[0].mean(axis=0)
        own = weights[target.labels(Records(x, labels))]
        return -((centred * own).sum(axis=1) / _norms(centred)[:, 0] + self.alpha * np.abs(h).sum(axis=1))


def _class_statistics(pool: Floats) -> tuple[Floats, Floats, Floats]:
    centroid = pool.mean(axis=0)
    distance = np.linalg.norm(pool - centroid, axis=1)
    median = np.median(distance)
    return centroid, median, np.maximum(_MAD * np.median(np.abs(distance - median)), 1e-12)


def _norms(vectors: Floats) -> Floats:
    return np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _normalise(vectors: Floats) -> Floats:
    return vectors / _norms(vectors)
