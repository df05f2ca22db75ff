"""What would stop the attack: the other half of the tool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

from divulge import checks
from divulge.labels.capacity import capacity

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec


_MOST_DECIMALS = 15  # more than that, floats have none


@dataclass(frozen=True, slots=True)
class Defence:
    """Settings each of which, alone, holds an attacker with this many queries to this accuracy.

    Args:
        queries: what the attacker may ask.
        accuracy: mean accuracy over balanced labels that must not be exceeded.
        noise: standard deviation of Gaussian noise on every answer; None when no noise helps.
        decimals: most decimals an answer may show; None when no rounding is coarse enough.
        clip: smallest clip that suffices beside the noise or rounding the oracle already has; None when none does.
        query_cap: most queries an oracle may answer with the noise and rounding it has now (0: not even one).
        epsilon: largest budget of label differential privacy for all answers together.
        formulas: the formula behind each number.
        advice: in which order to act.
    """

    queries: int
    accuracy: float
    noise: float | None
    decimals: int | None
    clip: float | None
    query_cap: int
    epsilon: float
    formulas: Mapping[str, str] = field(default_factory=dict)
    advice: tuple[str, ...] = ()


_FORMULAS = {
    "noise": "sigma >= sqrt(Q) R / (2 n quantile(x)), quantile of the standard normal",
    "decimals": "Q log2(2 + R 10^d) <= n (1 - h(x)), h binary entropy",
    "clip": "R = ln((1-clip)/clip), the rest as it is; Gaussian: R <= 2 n sigma quantile(x) / sqrt(Q); "
    "rounding: Q log2(2 + R 10^d) <= n (1 - h(x))",
    "query_cap": "Gaussian: Q <= (2 n sigma quantile(x) / R)^2; bounded: Q bits <= n (1 - h(x)), h binary entropy",
    "epsilon": "epsilon <= ln(x / (1 - x))",
}


def defend(spec: OracleSpec, queries: int = 100, accuracy: float = 0.55) -> Defence:
    """What holds an attacker with ``queries`` queries to ``accuracy``.

    With Gaussian noise σ every label swings an answer by at most R/n; told all other labels, an attacker has Q
    samples ``N(±R/(2n), σ²)`` and is right with probability ``Φ(√Q·R/(2nσ))`` at most. The same bound holds
    for adaptive queries. Rounding protects by counting alone: an answer then takes one of ``2 + R·10^d`` values, so
    Q answers, adaptive or not, tell ``Q·log2`` of that many bits, and accuracy x on n balanced labels takes
    ``n·(1 - h(x))`` of them. A step beyond R/n alone protects nothing: an attacker who can place an answer on a
    rounding edge reads single labels through it. So rounding stands behind clipping, a cap and noise.

    Args:
        spec: the oracle as it is now.
        queries: how many queries an attacker may ask.
        accuracy: what balanced binary labels may be guessed with, between ½ and 1.

    Raises:
        divulge.InputError: accuracy outside (½, 1), fewer than one query, or an unknown number of scored rows.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> round(defend(OracleSpec(n=2201), queries=100, accuracy=0.55).noise, 3)
        0.652
    """
    checks.integer(queries, "queries", least=1)
    checks.number(accuracy, "accuracy", above=0.5, below=1.0)
    if spec.scored == "unknown":
        raise checks.InputError("scored: whoever defends an endpoint knows how many rows it scores; give the number")
    quantile = NormalDist().inv_cdf(accuracy)
    per_label = _per_label(spec)
    noise = math.sqrt(queries) * per_label / (2 * quantile) if math.isfinite(per_label) else None
    return Defence(
        queries,
        accuracy,
        noise,
        _decimals(spec, queries, accuracy, per_label),
        _clip(spec, queries, accuracy, quantile),
        _cap(spec, accuracy, quantile, per_label),
        math.log(accuracy / (1 - accuracy)),
        _FORMULAS,
        _advice(spec, per_label),
    )


def _per_label(spec: OracleSpec) -> float:
    """How far one label moves an answer at most."""
    if spec.name in ("accuracy", "f1"):
        return {"accuracy": 1, "f1": 2}[spec.name] / spec.most_scored
    if spec.name == "auc":
        return 1.0  # with a single one among the labels, its rank is the whole answer
    return spec.loss().span / _units(spec)


def _units(spec: OracleSpec) -> float:
    return float(spec.most_scored) if spec.reduction == "mean" else 1.0


def _clip(spec: OracleSpec, queries: int, accuracy: float, quantile: float) -> float | None:
    if spec.name != "log_loss":
        return None
    allowed = 0.0
    if spec.sigma:
        allowed = 2 * _units(spec) * spec.sigma * quantile / math.sqrt(queries)
    elif spec.decimals is not None:
        bits = min(_needed(spec, accuracy) / queries, 100.0)
        allowed = (2**bits - 2) * 10.0**-spec.decimals * _units(spec) / spec.most_scored
    clip = 1 / (1 + math.exp(min(allowed, 700.0)))
    return clip if clip < 0.5 else None


def _decimals(spec: OracleSpec, queries: int, accuracy: float, per_label: float) -> int | None:
    bits = _needed(spec, accuracy) / queries
    span = per_label * spec.most_scored
    if not math.isfinite(span) or bits <= 1:
        return None
    found = math.floor(math.log10((2 ** min(bits, 100.0) - 2) / span))
    return min(found, _MOST_DECIMALS) if found >= 0 else None


def _needed(spec: OracleSpec, accuracy: float) -> float:
    """Bits that an attacker needs to be this accurate on balanced labels of two classes."""
    entropy = -accuracy * math.log2(accuracy) - (1 - accuracy) * math.log2(1 - accuracy)
    return spec.most_scored * (1 - entropy)


def _cap(spec: OracleSpec, accuracy: float, quantile: float, per_label: float) -> int:
    if spec.sigma > 0 and math.isfinite(per_label):
        return math.floor((2 * spec.sigma * quantile / per_label) ** 2)
    bits = capacity(spec).bits_per_query
    if spec.noise == 0 and spec.decimals is not None:
        bits = max(bits, math.log2(2 + min(per_label * spec.most_scored, 1e300) * 10.0**spec.decimals))
    return math.floor(_needed(spec, accuracy) / bits) if bits > 0 else 0


def _advice(spec: OracleSpec, per_label: float) -> tuple[str, ...]:
    if not math.isfinite(per_label):
        return (
            f"{spec.name} has no bound: no noise protects it; score clipped probabilities instead",
            "then cap the number of queries",
        )
    return ("clip predictions", "cap the number of queries", "add noise; do not rely on rounding alone")
