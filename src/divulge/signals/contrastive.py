"""A latent space in which records of one class lie together, learned from auxiliary records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, seeds
from divulge.completion.perceptron import Perceptron, mean_and_scale
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    import torch
    from torch import nn

    from divulge.types import Floats, Ints, Records
else:
    nn = lazy.module("torch.nn")
    torch = lazy.module("torch")


@dataclass(frozen=True, slots=True)
class Contrastive:
    """The contrastive autoencoder of CADE (Yang et al. 2021, USENIX Security, eq. 1).

    Reconstruction error plus ``λ · E[same · D² + (1 - same) · max(0, m - D)²]`` over pairs of a batch, where
    D is the latent distance of a pair, ``same`` says whether both have one class, and m is the margin.

    Args:
        width: units of the hidden layer.
        latent: dimensions of the latent space.
        steps: batches of 128.
        margin: m.
        weight: λ.

    Raises:
        divulge.InputError: a size below 1, a margin or weight that is not positive.
    """

    width: int = 128
    latent: int = 16
    steps: int = 600
    margin: float = 10.0
    weight: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "latent", "steps"):
            check_integer(getattr(self, name), name, least=1)
        check_number(self.margin, "margin", above=0)
        check_number(self.weight, "weight", above=0)

    def fit(self, auxiliary: Records, seed: int) -> Perceptron:
        """Train on the auxiliary records.

        Raises:
            divulge.MissingExtraError: torch is not installed.
        """
        x = auxiliary.x.reshape(len(auxiliary), -1).astype(np.float64)
        labels = np.zeros(len(x), dtype=np.int64) if auxiliary.y is None else auxiliary.y
        centre, scale = mean_and_scale(x)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.derive_seed(seed, "contrastive"))
            layers = self._train((x - centre) / scale, labels, seeds.generator(seed, "contrastive batches"))
        return Perceptron.of(centre, scale, layers)

    def _train(self, x: Floats, labels: Ints, rng: np.random.Generator) -> tuple[nn.Linear, nn.Linear]:
        d = x.shape[1]
        first, last = nn.Linear(d, self.width), nn.Linear(self.width, self.latent)
        encoder = nn.Sequential(first, nn.ReLU(), last)
        decoder = nn.Sequential(nn.Linear(self.latent, self.width), nn.ReLU(), nn.Linear(self.width, d))
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
        for _ in range(self.steps):
            rows = rng.integers(len(x), size=128)
            batch, truth = torch.from_numpy(x[rows]).float(), torch.from_numpy(labels[rows])
            latent = encoder(batch)
            loss = nn.functional.mse_loss(decoder(latent), batch) + self.weight * self._pairs(latent, truth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return first, last

    def _pairs(self, latent: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        half = len(latent) // 2
        distance = ((latent[:half] - latent[half:]) ** 2).sum(dim=1).add(1e-9).sqrt()
        same = truth[:half] == truth[half:]
        return (same * distance**2 + ~same * (self.margin - distance).clamp(min=0) ** 2).mean()
