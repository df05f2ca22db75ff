"""What stands between an auditor and a model: meters, rounding, noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import seeds, store
from divulge.errors import InputError
from divulge.targets.declared_outputs import FLOOR
from divulge.targets.rights import grant, own
from divulge.validation import check_integer, check_number, require_callable

if TYPE_CHECKING:
    from divulge.targets.rights import GivesLogits
    from divulge.types import Floats, Records


@dataclass
class Metered:
    """Counts the records a target is queried on, and refuses to go over a limit.

    It grants exactly the rights of the target behind it.

    Args:
        target: the target to count for.
        limit: greatest number of queries, or None.

    Raises:
        divulge.InputError: a call that would go over the limit (before it is made).

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget, GivesGradients
        >>> meter = Metered(CallableTarget(lambda x: x))
        >>> meter.labels(Records([[0.0, 2.0], [3.0, 0.0]])), meter.queries, isinstance(meter, GivesGradients)
        (array([1, 0]), 2, False)
    """

    target: Any
    limit: int | None = None
    queries: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.target = own(self.target)
        if self.limit is not None:
            check_integer(self.limit, "limit", least=0)
        grant(self, self.target, self._ask)

    if TYPE_CHECKING:  # given by `grant`, where the target has them

        def logits(self, records: Records) -> Floats:
            """The target's logits, counted."""
            ...

    def _ask(self, right: str, records: Records) -> Any:
        self._count(records)
        return getattr(self.target, right)(records)

    def _count(self, records: Records) -> None:
        if self.limit is not None and self.queries + len(records) > self.limit:
            raise InputError(
                f"limit: {self.queries} of {self.limit} allowed queries are used and {len(records)} more are requested"
            )
        self.queries += len(records)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A target whose probabilities are rounded to ``decimals`` places before anyone sees them.

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget
        >>> inner = CallableTarget(lambda x: [[0.123, 0.877]], outputs="probabilities")
        >>> np.exp(Rounded(inner, decimals=1).logits(Records([[0.0]])))
        array([[0.1, 0.9]])
    """

    target: GivesLogits
    decimals: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", own(require_callable(self.target, "target", "logits")))
        check_integer(self.decimals, "decimals", least=0, most=300)

    def logits(self, records: Records) -> Floats:
        """Logarithms of the rounded probabilities."""
        return np.log(np.maximum(np.round(_probabilities(self.target.logits(records)), self.decimals), FLOOR))


@dataclass(frozen=True, slots=True)
class Noisy:
    """A target that adds Gaussian noise to its logits; the same record always gets the same noise.

    (Noise drawn afresh for every query could be averaged away.)

    Args:
        target: the target behind.
        scale: standard deviation of the noise.
        seed: of the noise.
    """

    target: GivesLogits
    scale: float
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", own(require_callable(self.target, "target", "logits")))
        check_number(self.scale, "scale", above=0.0, below=1e300, closed=True)
        check_integer(self.seed, "seed", least=0)

    def logits(self, records: Records) -> Floats:
        """Logits with the noise that belongs to each record."""
        logits = self.target.logits(records)
        noise = [
            seeds.generator(self.seed, "noise", int(store.hash_values(np.asarray(x))[:12], 16)).normal(
                size=logits.shape[1]
            )
            for x in records.x
        ]
        return logits + self.scale * np.stack(noise)


def _probabilities(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
