"""MRAD: complete a record by descending the target's loss, then ask how far the completion deviates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge.completion.imputers import FittedImputer, Imputer, flatten_records
from divulge.errors import InputError
from divulge.signals.descent import Access, Gradients
from divulge.signals.detectors import CADE, MSAD, NCI, Detector
from divulge.targets import Metered
from divulge.validation import as_list, check_choice, check_integer, check_number, format_value, require_callable

if TYPE_CHECKING:
    from divulge.completion.columns import RecordColumns
    from divulge.targets import GivesLogits
    from divulge.types import Floats, Ints, PartialRecords, Records

DetectorName: TypeAlias = Literal["cade", "msad", "nci", "gradient-norm"]

_DETECTORS = {"cade": CADE, "msad": MSAD, "nci": NCI}


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
        check_integer(self.iterations, "iterations", least=1)
        check_choice(self.detector, "detector", (*_DETECTORS, "gradient-norm"))
        Gradients(self.access, self.directions, self.epsilon)
        if isinstance(self.clip, str):
            check_choice(self.clip, "clip", ("range",))
        elif self.clip is not None:
            object.__setattr__(self, "clip", _check_interval(self.clip))
        if isinstance(self.start, str):
            check_choice(self.start, "start", ("zeros",))
        else:
            require_callable(self.start, "start", "fit")
        if self.limit is not None:
            check_integer(self.limit, "limit", least=1)
        check_integer(self.shadows, "shadows", least=0)

    @property
    def name(self) -> str:
        """What the signal is called in tables and files."""
        clipped, ratio = "" if self.clip is None else "-clipped", "-shadow-ratio" if self.shadows else ""
        return f"mrad-{self.detector}-{self.access}{clipped}{ratio}"

    @property
    def reads(self) -> str:
        """What of the target the adversary must see."""
        seen = "gradients at" if self.access == "white" else f"outputs on {self.gradients.queries} variations of"
        return f"the target's {seen} each candidate"

    @property
    def gradients(self) -> Gradients:
        """How gradients are obtained."""
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


def _check_interval(clip: object) -> tuple[float, float]:
    ends = as_list(clip, "clip")
    if len(ends) != 2:
        raise InputError(f"clip: (low, high) is needed, got {format_value(clip)}")
    low = check_number(ends[0], "clip")
    return low, check_number(ends[1], "clip", above=low)


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
        """What the signal is called in tables and files."""
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
        """The records as the descent completes them, float64 ``[n, ...]``."""
        settings, labels = self.settings, _require_labels(partial)
        x = self._start(partial)
        asked = self._asked(target, len(partial))
        for step in range(settings.iterations):
            x = x - settings.step * settings.gradients.at(asked, x, labels, partial.known, self.seed + step)
            x = np.where(partial.known, x, self._clipped(x))
        return x

    def deviation(self, target: GivesLogits, partial: PartialRecords) -> Floats:
        """δ, ``[n]``: how far each completed record lies from its class, or its gradient's norm."""
        labels = _require_labels(partial)
        if self.detector is not None:
            return self.detector.deviation(target, self.complete(target, partial), labels)
        asked, x = self._asked(target, len(partial)), self._start(partial)
        gradient = self.settings.gradients.at(asked, x, labels, partial.known, self.seed)
        return np.linalg.norm(gradient.reshape(len(gradient), -1), axis=1)

    def _start(self, partial: PartialRecords) -> Floats:
        if self.start is not None:
            return self.start.complete(partial)[0].astype(np.float64)
        if partial.x[0].size != len(self.columns):
            raise InputError(f"x: {len(self.columns)} values per record are needed, got {partial.x[0].size}")
        return partial.x.astype(np.float64)  # zeros where unknown

    def _asked(self, target: GivesLogits, records: int) -> GivesLogits:
        """The target, behind a meter where there is one to keep to."""
        limit, needed = self.settings.limit, records * self.queries
        if limit is not None and needed > limit:
            raise InputError(
                f"limit: {needed} queries are needed ({self.queries} per record for {records} records), got {limit}"
            )
        return target if self.settings.access == "white" else Metered(target, needed)

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
