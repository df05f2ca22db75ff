"""MRAD: complete a record by descending the target's loss, then ask how far the completion deviates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np

from divulge import lazy, seeds
from divulge.completion.imputers import FittedImputer, Imputer, Perceptron, flatten_records, mean_and_scale
from divulge.errors import InputError
from divulge.signals.classification import negative_loss
from divulge.targets import GivesGradients, GivesHead, Metered
from divulge.targets.rights import class_name
from divulge.types import Records
from divulge.validation import as_list, check_choice, check_integer, check_number, format_value, require_callable

if TYPE_CHECKING:
    import torch
    from torch import nn

    from divulge.completion.imputers import RecordColumns
    from divulge.targets import GivesLogits
    from divulge.types import Bools, Floats, Ints, PartialRecords
else:
    nn = lazy.module("torch.nn")
    torch = lazy.module("torch")


DetectorName: TypeAlias = Literal["cade", "msad", "nci", "gradient-norm"]


@dataclass(frozen=True, slots=True)
class MRAD:
    """Membership inference with partial features, as summarised in arXiv:2508.06244.

    From zeros, ``x_u ← x_u - η ∂ℓ(f(x_k, x_u), y)/∂x_u`` on the unknown values alone, N times; then a detector measures
    how far the result deviates from its class. The signal is minus that deviation. Defaults are the published ones.

    What to expect: without ``clip`` one step of η = 1000 leaves the data range by orders of magnitude
    unless the gradient is tiny, which it is for memorised records: the deviation then ranks records by the
    norm of their gradient (``detector="gradient-norm"`` does the same without the detour), and the plain
    loss on the same starting point does better. With ``clip`` the completion saturates and the signal is
    close to chance. The completion does not reconstruct the record. It is here to be compared with.

    Args:
        step: η, > 0.
        iterations: N, at least 1.
        access: "white" (autograd) or "black" (zeroth-order estimates, ``2 · directions`` queries per step).
        directions: m, antithetic pairs of the black-box estimate; 5 do nearly as well as 100.
        epsilon: ε of the black-box estimate, in the unit of the records.
        clip: None; "range" (each column's auxiliary range); or ``(low, high)``.
        detector: "cade", "msad", "nci" (torch targets whose last layer is linear) or "gradient-norm". Without ``clip``
            "nci" ranks records the wrong way round.
        start: what the descent starts from: "zeros", or the completion of an imputer.
        limit: greatest number of queries in one call, or None.
        shadows: number of shadow models that an audit trains, on random halves of the population, for the ratio
            δ_s / δ; 0 for -δ.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    step: float = 1000.0
    iterations: int = 1
    access: Access = "white"
    directions: int = 100
    epsilon: float = 1e-2
    clip: Literal["range"] | tuple[float, float] | None = None
    detector: DetectorName = "cade"
    start: Imputer | Literal["zeros"] = "zeros"
    limit: int | None = None
    shadows: int = 0

    def __post_init__(self) -> None:
        check_number(self.step, "step", above=0)
        check_integer(self.iterations, "iterations", minimum=1)
        check_choice(self.detector, "detector", (*_DETECTORS, "gradient-norm"))
        Gradients(self.access, self.directions, self.epsilon)
        if isinstance(self.clip, str):
            check_choice(self.clip, "clip", ("range",))
        elif self.clip is not None:
            ends = as_list(self.clip, "clip")
            if len(ends) != 2:
                raise InputError(f"clip: (low, high) is needed, got {format_value(self.clip)}")
            low = check_number(ends[0], "clip")
            object.__setattr__(self, "clip", (low, check_number(ends[1], "clip", above=low)))
        if isinstance(self.start, str):
            check_choice(self.start, "start", ("zeros",))
        else:
            require_callable(self.start, "start", "fit")
        if self.limit is not None:
            check_integer(self.limit, "limit", minimum=1)
        check_integer(self.shadows, "shadows", minimum=0)

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        clipped, ratio = "" if self.clip is None else "-clipped", "-shadow-ratio" if self.shadows else ""
        return f"mrad-{self.detector}-{self.access}{clipped}{ratio}"

    @property
    def reads(self) -> str:
        """Part of the target that the adversary must see."""
        access_description = (
            "gradients at" if self.access == "white" else f"outputs on {self.gradients.queries} variations of"
        )
        return f"the target's {access_description} each candidate"

    @property
    def gradients(self) -> Gradients:
        """Method by which gradients are obtained."""
        return Gradients(self.access, self.directions, self.epsilon)

    def fit(self, auxiliary: Records, seed: int = 0) -> FittedMRAD:
        """Fit the starting completion and the detector on auxiliary records, disjoint from the candidates.

        Raises:
            divulge.InputError: records that cannot be completed.
            divulge.MissingExtraError: a detector that needs torch, which is not installed.
        """
        start = None if isinstance(self.start, str) else self.start.fit(auxiliary)
        detector = None if self.detector == "gradient-norm" else _DETECTORS[self.detector].fit(auxiliary, seed)
        return FittedMRAD(self, start, flatten_records(auxiliary)[1], detector, seed)


@dataclass(frozen=True, slots=True, eq=False)
class FittedMRAD:
    """MRAD that has seen its auxiliary records.

    Args:
        settings: how.
        start: the starting completion; None for zeros.
        columns: what the auxiliary records say about the columns, for clipping.
        detector: tells deviations; None for the gradient norm.
        seed: of the directions.
    """

    settings: MRAD
    start: FittedImputer | None
    columns: RecordColumns
    detector: Detector | None
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        return self.settings.name

    @property
    def queries(self) -> int:
        """Queries per record that the descent makes."""
        steps = 1 if self.detector is None else self.settings.iterations
        return steps * self.settings.gradients.queries

    def measure(self, target: GivesLogits, partial: PartialRecords, shadows: Sequence[GivesLogits] = ()) -> Floats:
        """One number per record ``[n]``, larger = more like a member.

        Args:
            target: the model asked.
            partial: records with labels, some of whose values are known.
            shadows: reference models; with some the signal is the shadow ratio δ_s / δ, δ_s the mean
                deviation when they are descended instead, and otherwise it is -δ.

        Raises:
            divulge.InputError: no labels; white-box access to a target without gradients; more queries
                than ``limit``.
        """
        deviation = self.deviation(target, partial)
        if not shadows:
            return -deviation
        return np.mean([self.deviation(shadow, partial) for shadow in shadows], axis=0) / np.maximum(deviation, 1e-12)

    def complete(self, target: GivesLogits, partial: PartialRecords) -> Floats:
        """Complete the records by the descent, float64 ``[n, ...]``."""
        settings, labels = self.settings, _require_labels(partial)
        x = self._start(partial)
        metered_target = self._meter_queries(target, len(partial))
        for step in range(settings.iterations):
            x = x - settings.step * settings.gradients.compute(
                metered_target, x, labels, partial.known, self.seed + step
            )
            x = np.where(partial.known, x, self._clipped(x))
        return x

    def deviation(self, target: GivesLogits, partial: PartialRecords) -> Floats:
        """δ, ``[n]``: how far each completed record lies from its class, or its gradient's norm."""
        labels = _require_labels(partial)
        if self.detector is not None:
            return self.detector.deviation(target, self.complete(target, partial), labels)
        metered_target, x = self._meter_queries(target, len(partial)), self._start(partial)
        gradient = self.settings.gradients.compute(metered_target, x, labels, partial.known, self.seed)
        return np.linalg.norm(gradient.reshape(len(gradient), -1), axis=1)

    def _start(self, partial: PartialRecords) -> Floats:
        if self.start is not None:
            return self.start.complete(partial)[0].astype(np.float64)
        if partial.x[0].size != len(self.columns):
            raise InputError(f"x: {len(self.columns)} values per record are needed, got {partial.x[0].size}")
        return partial.x.astype(np.float64)  # zeros where unknown

    def _meter_queries(self, target: GivesLogits, records: int) -> GivesLogits:
        """Return the target, behind a meter if there is a limit to keep to."""
        limit, n_queries = self.settings.limit, records * self.queries
        if limit is not None and n_queries > limit:
            raise InputError(
                f"limit: {n_queries} queries are needed ({self.queries} per record for {records} records), got {limit}"
            )
        return target if self.settings.access == "white" else Metered(target, n_queries)

    def _clipped(self, x: Floats) -> Floats:
        clip = self.settings.clip
        if clip is None:
            return x
        if clip == "range":
            low, high = (end.reshape(x.shape[1:]) for end in (self.columns.low, self.columns.high))
            return np.clip(x, low, high)
        return np.clip(x, *clip)


def _require_labels(partial: PartialRecords) -> Ints:
    if partial.y is None:
        raise InputError("partial records: a loss needs labels, but y is None")
    return partial.y


Access: TypeAlias = Literal["white", "black"]

# Values in one batch of perturbed records: some 256 MB of float64.
_BATCH = 1 << 25


@dataclass(frozen=True, slots=True)
class Gradients:
    """∂ loss / ∂ x of a target on the unknown values of a record.

    Args:
        access: "white" (the target's own gradients) or "black" (zeroth-order estimates from losses).
        directions: m of the black-box estimate ``(1/m) Σ [ℓ(x + εu) - ℓ(x - εu)] / (2ε) · u`` with u standard
            normal on the unknown values: antithetic pairs, 2m queries per record.
        epsilon: ε, in the unit of the records.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    access: Access = "white"
    directions: int = 5
    epsilon: float = 1e-2

    def __post_init__(self) -> None:
        check_choice(self.access, "access", ("white", "black"))
        check_integer(self.directions, "directions", minimum=1)
        check_number(self.epsilon, "epsilon", above=0)

    @property
    def queries(self) -> int:
        """Queries per record and step; autograd's forward and backward pass counts as one."""
        return 1 if self.access == "white" else 2 * self.directions

    def compute(self, target: GivesLogits, x: Floats, labels: Ints, known_mask: Bools, seed: int) -> Floats:
        """Return gradients ``[n, ...]``, zero where the value is known.

        Raises:
            divulge.InputError: white-box access to a target that gives no gradients.
        """
        if self.access == "black":
            rng = seeds.generator(seed, "directions")
            gradient = np.empty(x.shape)
            batch_size = max(1, _BATCH // (2 * self.directions * max(1, x[0].size)))
            for start in range(0, len(x), batch_size):
                part = slice(start, start + batch_size)
                u = np.where(known_mask[part], 0.0, rng.normal(size=(self.directions, *x[part].shape)))
                moved = np.stack([x[part] + self.epsilon * u, x[part] - self.epsilon * u]).astype(x.dtype)
                perturbed, truth = moved.reshape(-1, *x.shape[1:]), np.tile(labels[part], 2 * self.directions)
                losses = -negative_loss(target.logits(Records(perturbed, truth)), truth).reshape(2, self.directions, -1)
                slopes = (losses[0] - losses[1]) / (2 * self.epsilon)
                gradient[part] = np.einsum("mn,mn...->n...", slopes, u) / self.directions
            return gradient
        if not isinstance(target, GivesGradients):
            raise InputError(
                f"access: 'white' needs a target that gives gradients, {class_name(target)} does not; use 'black'"
            )
        return np.where(known_mask, 0.0, target.gradients(Records(x, labels)))


# 1 / Φ⁻¹(3/4): makes the median absolute deviation of a Gaussian its standard deviation.
_MAD = 1.4826
_NEAREST = 2
_CHUNK = 1024


# Detectors say how far a completed record lies from what its class looks like: the deviations that MRAD thresholds.
# ``fit(auxiliary, seed)`` gives an object with ``deviation(target, x, labels) -> [n]``; larger means further away.
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
        class_statistics = [_class_statistics(pool if len(pool) > 1 else latent) for pool in pools]
        centroids, medians, spreads = (np.stack(part) for part in zip(*class_statistics, strict=True))
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
        n_neighbours = min(_NEAREST, len(self.directions))
        deviations = [
            np.partition(2.0 - 2.0 * directions[start : start + _CHUNK] @ self.directions.T, n_neighbours - 1, axis=1)[
                :, :n_neighbours
            ]
            for start in range(0, len(directions), _CHUNK)
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
                f"detector: 'nci' looks at a torch network's last linear layer, {class_name(target)} shows none"
            )
        h, weights = target.head(Records(x, labels))
        centred = h - target.head(self.auxiliary)[0].mean(axis=0)
        class_weights = weights[target.labels(Records(x, labels))]
        return -((centred * class_weights).sum(axis=1) / _norms(centred)[:, 0] + self.alpha * np.abs(h).sum(axis=1))


def _class_statistics(pool: Floats) -> tuple[Floats, Floats, Floats]:
    centroid = pool.mean(axis=0)
    distance = np.linalg.norm(pool - centroid, axis=1)
    median = np.median(distance)
    return centroid, median, np.maximum(_MAD * np.median(np.abs(distance - median)), 1e-12)


def _norms(vectors: Floats) -> Floats:
    return np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _normalise(vectors: Floats) -> Floats:
    return vectors / _norms(vectors)


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
            check_integer(getattr(self, name), name, minimum=1)
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
        return Perceptron.from_linear(centre, scale, layers)

    def _train(self, x: Floats, labels: Ints, rng: np.random.Generator) -> tuple[nn.Linear, nn.Linear]:
        d = x.shape[1]
        encoder_input, encoder_output = nn.Linear(d, self.width), nn.Linear(self.width, self.latent)
        encoder = nn.Sequential(encoder_input, nn.ReLU(), encoder_output)
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
        return encoder_input, encoder_output

    def _pairs(self, latent: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        half = len(latent) // 2
        distance = ((latent[:half] - latent[half:]) ** 2).sum(dim=1).add(1e-9).sqrt()
        same = truth[:half] == truth[half:]
        return (same * distance**2 + ~same * (self.margin - distance).clamp(min=0) ** 2).mean()


_DETECTORS = {"cade": CADE, "msad": MSAD, "nci": NCI}
