"""What prevents the attack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from divulge.errors import InputError
from divulge.labels import accuracy_bounds, ranking
from divulge.labels.spec import OracleSpec
from divulge.types import Estimate
from divulge.validation import check_instance, check_integer, check_number

_MOST_DECIMALS = 15  # more than that, floats have none
_CLIP = 0.01  # probabilities beyond it win hardly any score, and cost most of the protection


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to hold the attacker; nothing else is needed.

    Args:
        spec: the oracle as it would be.
        queries: most queries that it may answer; None: any number.
        flip: chance with which each label is replaced by another one, once and for all, before the first query.
        says: what to do.
        cost: Kendall's τ between the ranking of simulated submissions with it and by exact scores without it; None
            where no submissions can be simulated.
    """

    spec: OracleSpec
    queries: int | None
    flip: float
    says: str
    cost: Estimate | None = None

    def __str__(self) -> str:
        if self.cost is None:
            return f"{self.says} (cost for a ranking: not known)"
        cost = f"Kendall's τ with the exact ranking {self.cost.value:.2f} [{self.cost.low:.2f}, {self.cost.high:.2f}]"
        return f"{self.says} ({cost})"


@dataclass(frozen=True, slots=True)
class Defence:
    """What holds an attacker with this many queries to this accuracy: single settings, and whole remedies.

    Args:
        queries: what the attacker may ask.
        accuracy: mean accuracy over balanced labels that must not be exceeded.
        noise: standard deviation of Gaussian noise on every answer; None when no noise helps.
        decimals: most decimals an answer may show; None when no rounding is coarse enough.
        clip: smallest clip that suffices beside the noise or rounding the oracle already has; None when none does.
        query_cap: most queries an oracle may answer with the noise and rounding it has now; None when even one
            tells too much.
        epsilon: largest budget of label differential privacy for all answers together.
        formulas: the formula behind each number.
        remedies: what to do, each by itself, what distorts scores least first.
    """

    queries: int
    accuracy: float
    noise: float | None
    decimals: int | None
    clip: float | None
    query_cap: int | None
    epsilon: float
    formulas: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()

    @property
    def advice(self) -> tuple[str, ...]:
        """The remedies in words, each with its cost for a ranking; each line by itself suffices."""
        return tuple(str(remedy) for remedy in self.remedies)


_FORMULAS = {
    "noise": "sigma >= sqrt(Q) s / (2 z), s what one label moves a score, z = quantile(1/2 + (x - 1/K) / (2 - 2/K))",
    "decimals": "Q log2(2 + R 10^d) <= n (log2 K - h(x) - (1 - x) log2(K - 1)), h binary entropy, R range of a score",
    "clip": "R = ln((1-clip)/clip), the rest as it is; noise: as above with s = R/n; rounding: as above",
    "query_cap": "Gaussian: Q <= (2 sigma z / s)^2; rounding: as above; neither: 64 bits per score",
    "epsilon": "epsilon <= ln(x (K - 1) / (1 - x))",
}


def defend(spec: OracleSpec, queries: int = 100, accuracy: float = 0.55, *, seed: int = 0) -> Defence:
    """What holds an attacker with ``queries`` queries to ``accuracy``.

    With Gaussian noise σ every label swings an answer by at most s (R/n for a mean of losses that differ by R); told
    all other labels, an attacker has Q samples that lie s/σ standard deviations apart, and is right about one of two
    labels with probability ``Φ(√Q·s/(2σ))`` at most. The same bound holds for adaptive queries. Rounding protects by
    counting alone: an answer then takes one of ``2 + R·10^d`` values, so Q answers, adaptive or not, tell ``Q·log2`` of
    that many bits, and accuracy x on n balanced labels takes ``n·(1 - h(x))`` of them. A step beyond R/n alone
    protects nothing: an attacker who can place an answer on a rounding edge reads single labels through it. So
    rounding stands behind clipping, a cap and noise. Noise of unknown shape, of which only a bound is declared,
    protects nothing for certain and is not counted on. A loss without a bound on what one label can do (logits, no
    clip, predictions of any size) is protected by none of these; its remedies change the metric.

    Args:
        spec: the oracle as it is now.
        queries: how many queries an attacker may ask.
        accuracy: what balanced labels may be guessed with, above chance (1/K) and below 1.
        seed: of the submissions simulated for the cost of each remedy.

    Raises:
        divulge.InputError: accuracy outside (1/K, 1), fewer than one query, or an unknown number of scored rows.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> found = defend(OracleSpec(n=2201), queries=100, accuracy=0.55)
        >>> round(found.noise, 3)
        0.652
        >>> print(found.remedies[0].says)
        clip predictions into [0.01, 0.99] and add Gaussian noise of standard deviation 0.0831 to every score
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    check_integer(queries, "queries", least=1, most=10**15)
    check_number(accuracy, "accuracy", above=1 / spec.classes, below=1.0)
    if spec.scored == "unknown":
        raise InputError("scored: whoever defends an endpoint knows how many rows it scores; give the number")
    return Defence(
        queries,
        accuracy,
        _noise(spec, queries, accuracy),
        _decimals(spec, queries, accuracy),
        _clip(spec, queries, accuracy),
        _cap(spec, accuracy),
        math.log(accuracy * (spec.classes - 1) / (1 - accuracy)),
        _FORMULAS,
        tuple(_with_cost(spec, remedy, seed) for remedy in _remedies(spec, queries, accuracy)),
    )


def _with_cost(spec: OracleSpec, remedy: Remedy, seed: int) -> Remedy:
    shown = ranking.defended_scores(remedy.spec, flip=remedy.flip)
    return replace(remedy, cost=ranking.rank_correlation(spec, shown, seed=seed))


def _quantile(spec: OracleSpec, accuracy: float) -> float:
    """Half the deviations that the answers under two labels may lie apart; 0 when rare labels alone say too much."""
    guess = accuracy_bounds.chance(spec)
    apart = (accuracy - accuracy_bounds.rare(spec) - guess) / (1 - guess)
    return NormalDist().inv_cdf((1 + apart) / 2) if apart > 0 else 0.0


def _noise(spec: OracleSpec, queries: int, accuracy: float) -> float | None:
    one, quantile = accuracy_bounds.swing(spec), _quantile(spec, accuracy)
    return math.sqrt(queries) * one / (2 * quantile) if math.isfinite(one) and quantile > 0 else None


def _decimals(spec: OracleSpec, queries: int, accuracy: float) -> int | None:
    for decimals in range(_MOST_DECIMALS, -1, -1):
        if accuracy_bounds.by_counting(replace(spec, decimals=decimals), queries) <= accuracy:
            return decimals
    return None


def _clip(spec: OracleSpec, queries: int, accuracy: float) -> float | None:
    if spec.name != "log_loss":
        return None

    def holds(logit: float) -> bool:
        return accuracy_bounds.limit(replace(spec, clip=1 / (1 + math.exp(logit))), queries) <= accuracy

    # What one label can do grows with the logit of the clip.
    low, high = 1e-3, 700.0
    if not holds(low):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return 1 / (1 + math.exp(low))


def _cap(spec: OracleSpec, accuracy: float) -> int | None:
    low, high = 0, 1
    while high < 2**40 and accuracy_bounds.limit(spec, high) <= accuracy:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accuracy_bounds.limit(spec, middle) <= accuracy else (low, middle)
    return low or None


def _remedies(spec: OracleSpec, queries: int, accuracy: float) -> tuple[Remedy, ...]:
    if accuracy_bounds.limit(spec, queries) <= accuracy:
        return (Remedy(spec, queries, 0.0, f"nothing more is needed: {queries} scores reveal no more as it is"),)
    bounded, first = _bounded(spec)
    remedies = []
    if (noise := _noise(bounded, queries, accuracy)) is not None:
        sigma = _up(noise)
        says = f"{first}add Gaussian noise of standard deviation {sigma:g} to every score"
        remedies.append(Remedy(replace(bounded, noise=sigma, noise_kind="gaussian"), queries, 0.0, says))
    if (decimals := _decimals(bounded, queries, accuracy)) is not None:
        says = f"{first}show at most {decimals} decimals of a score"
        remedies.append(Remedy(replace(bounded, decimals=decimals), queries, 0.0, says))
    if (cap := _cap(bounded, accuracy)) is not None:
        says = f"{first}answer at most {cap} {'query' if cap == 1 else 'queries'} in total"
        remedies.append(Remedy(bounded, cap, 0.0, says))
    # Whoever sees every label as it is scored is right as often as it was left alone.
    flip = math.ceil((1 - accuracy) * 1e4) / 1e4
    says = (
        f"score against labels each replaced by another one with probability {flip:g}, once and for all before the "
        "first query; then any number of queries may be answered"
    )
    return (*remedies, Remedy(spec, None, flip, says))


def _up(value: float) -> float:
    """Rounded up to three digits, so that what is printed suffices as well."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step) * step:.3g}")


def _bounded(spec: OracleSpec) -> tuple[OracleSpec, str]:
    """The oracle with a bound on what one label can do, and the words that lead there."""
    if spec.name == "log_loss":
        clip = max(spec.epsilon, _CLIP)
        said = f"clip predictions into [{clip:g}, {1 - clip:g}]"
        return replace(spec, clip=clip), "" if clip == spec.epsilon else f"{said} and "
    if math.isfinite(accuracy_bounds.swing(spec)) or math.isfinite(accuracy_bounds.spread(spec)):
        return spec, ""
    form = "rows" if spec.submission == "labels" else spec.submission
    plain = replace(spec, metric="log_loss", clip=_CLIP, submission=form)
    said = f"{spec.name} has no bound on the effect of one label: "
    if spec.name in ("mse", "rmse"):
        square = replace(spec, metric="squared_euclidean", submission="positive")
        return square, f"{said}score the mean squared error of predictions clipped into [0, 1], and "
    return plain, f"{said}score the log loss of probabilities clipped into [{_CLIP:g}, {1 - _CLIP:g}], and "
