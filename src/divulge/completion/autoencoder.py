"""An autoencoder that was taught to fill in what it is not shown."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, seeds
from divulge.completion.imputers import (
    FittedImputer,
    Generators,
    Perceptron,
    flatten_records,
    group_by_class,
    mean_and_scale,
)
from divulge.validation import check_bool, check_integer

if TYPE_CHECKING:
    import torch
    from torch import nn

    from divulge.types import Bools, Floats, Ints, Records
else:
    nn = lazy.module("torch.nn")
    torch = lazy.module("torch")

_WIDEST = 10**5  # units
_BATCH = 128


@dataclass(frozen=True, slots=True)
class Autoencoder:
    """Unknown values as a denoising autoencoder decodes them from the known ones.

    It is shown auxiliary records with a random share of their values set to zero (of standardised columns, so
    to the mean), which values those are, and the class; it learns to tell the hidden ones (Vincent et al. 2008;
    masked as in Pathak et al. 2016). Draws add what it gets wrong about a random auxiliary record of the class
    under the same mask.

    Here to be compared with `ConditionalGaussian`, which completes images and tables of some hundred columns
    better from a few thousand records.

    Args:
        width: units of the two hidden layers.
        latent: dimensions between them.
        steps: batches of 128.
        per_class: show it the class.
        seed: of first weights, batches and masks.

    Raises:
        divulge.InputError: a size below 1.
    """

    width: int = 256
    latent: int = 64
    steps: int = 1500
    per_class: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps", minimum=1)
        for name in ("width", "latent"):
            check_integer(getattr(self, name), name, minimum=1, maximum=_WIDEST)
        check_integer(self.seed, "seed", minimum=0)
        check_bool(self.per_class, "per_class")

    def fit(self, auxiliary: Records) -> FittedImputer:
        """Train on the auxiliary records.

        Raises:
            divulge.InputError: fewer than 2 records, records that are not numbers.
            divulge.MissingExtraError: torch is not installed.
        """
        x, columns = flatten_records(auxiliary)
        labels = auxiliary.y if self.per_class else None
        classes = np.zeros(0, dtype=np.int64) if labels is None else np.unique(labels)
        centre, scale = mean_and_scale(x)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.derive_seed(self.seed, "autoencoder"))
            layers = self._train((x - centre) / scale, _encode_classes(labels, classes, len(x)))
        # Beside the values it reads which of them are known, and the class; these are not rescaled.
        n_indicators = x.shape[1] + len(classes)
        decoder = Perceptron.from_linear(
            np.r_[centre, np.zeros(n_indicators)], np.r_[scale, np.ones(n_indicators)], layers
        )
        filler = _AutoencoderFiller(x, labels, classes, centre, scale, decoder)
        return FittedImputer(f"autoencoder ({self.latent} latent dimensions)", columns, auxiliary.x, filler)

    def _train(self, x: Floats, class_indicators: Floats) -> list[nn.Linear]:
        d, rng = x.shape[1], seeds.generator(self.seed, "autoencoder batches")
        sizes = (2 * d + class_indicators.shape[1], self.width, self.latent, self.width, d)
        linear = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        network = nn.Sequential(*[part for layer in linear for part in (layer, nn.ReLU())][:-1])
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        for _ in range(self.steps):
            rows = rng.integers(len(x), size=_BATCH)
            known_mask = rng.random((_BATCH, d)) < rng.random((_BATCH, 1))
            inputs = np.hstack([x[rows] * known_mask, known_mask, class_indicators[rows]])
            hidden = torch.from_numpy(~known_mask)
            error = (network(torch.from_numpy(inputs).float()) - torch.from_numpy(x[rows]).float()) ** 2
            optimizer.zero_grad()
            ((error * hidden).sum() / hidden.sum().clamp(min=1)).backward()
            optimizer.step()
        return linear


@dataclass(frozen=True, slots=True, eq=False)
class _AutoencoderFiller:
    x: Floats
    labels: Ints | None
    classes: Ints
    centre: Floats
    scale: Floats
    network: Perceptron

    def fill(self, x: Floats, known_mask: Bools, labels: Ints | None, rngs: Generators) -> Floats:
        best = self._decoded(x, known_mask, labels)
        if rngs is None:
            return np.where(known_mask, x, best)[None]
        errors = np.stack([self._error(known_mask, labels, rng) for rng in rngs])
        return np.where(known_mask, x, best + errors)

    def _decoded(self, x: Floats, known_mask: Bools, labels: Ints | None) -> Floats:
        class_indicators = _encode_classes(labels if self.labels is not None else None, self.classes, len(x))
        inputs = np.hstack([np.where(known_mask, x, self.centre), known_mask.astype(np.float64), class_indicators])
        return self.centre + self.scale * self.network.outputs(inputs)

    def _error(self, known_mask: Bools, labels: Ints | None, rng: np.random.Generator) -> Floats:
        """Sample reconstruction errors of random auxiliary records, of the same classes and under the same masks."""
        donors = np.empty(len(known_mask), dtype=np.int64)
        for rows, pool in group_by_class(self.labels, labels, len(known_mask), len(self.x)):
            donors[rows] = rng.choice(pool, len(rows))
        donor_labels = None if self.labels is None else self.labels[donors]
        return self.x[donors] - self._decoded(self.x[donors], known_mask, donor_labels)


def _encode_classes(labels: Ints | None, classes: Ints, n: int) -> Floats:
    """Encode labels as indicators ``[n, K]``; zeros without a label, or for a class that the auxiliary records lack."""
    return np.zeros((n, len(classes))) if labels is None else (labels[:, None] == classes).astype(np.float64)
