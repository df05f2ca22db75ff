"""Membership by the margin: decisions, and the near-orthogonality under which they are proven.

`orthogonality` measures the assumption on given records, `assumption` bounds it for distributions in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from divulge import lazy, seeds
from divulge.errors import InputError
from divulge.margin.multi_class import ClassNetwork
from divulge.margin.shallow_relu import Network, as_records, augment, check_network
from divulge.types import Guarantee
from divulge.validation import (
    as_list,
    check_instance,
    check_integer,
    check_matrix,
    check_number,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from scipy import stats

    from divulge.types import Bools, Floats
else:
    stats = lazy.module("scipy.stats")

_KKT_ASSUMPTION = "the network is at a KKT point of the margin problem (trained to a large margin)"
_GUARANTEE_KIND = "probability of calling a fresh record a member"

_MAX_SIZE = 10**7  # inputs, and records
_MAX_MEAN = 1e6  # a mean; beyond, the quantiles of the norms are not to be had


@dataclass(frozen=True, slots=True, eq=False)
class MarginDecision:
    """The candidates that sit on the margin, and what that proves.

    Args:
        members: bool ``[n]``, candidates called members.
        outputs: Φ of the candidates, ``[n]``; with several classes how far the first is above the second.
        margin: the margin that was used.
        low: smallest |Φ| (or distance of the first two classes) that counts as a member.
        high: largest |Φ| that counts as a member (infinity for a one-sided rule).
        guarantee: the largest probability of calling a fresh record a member: 0 where the geometry of the training
            set proves it, 1 (nothing is claimed) where that proof was not supplied or says nothing. It is conditional
            where the margin was given, not read off a leaked record.
        warnings: why nothing is claimed, if so.
    """

    members: Bools
    outputs: Floats
    margin: float
    low: float
    high: float
    guarantee: Guarantee
    warnings: tuple[str, ...] = ()

    @property
    def selected(self) -> Bools:
        """The same as ``members``, under the name that every other decision uses."""
        return self.members

    @property
    def count(self) -> int:
        """Number of candidates called members."""
        return int(self.members.sum())


def known_margin(
    net: Network, x: object, m: float, band: float = 0.01, *, geometry: Orthogonality | None = None
) -> MarginDecision:
    """Decide membership by a known margin: members have | |Φ(x)| - m | ≤ band·m.

    In theory fresh records stay far below the margin and one side would do. In moderate dimension fresh records
    overshoot it as often as they fall short, so the two-sided band is the better rule by far.

    Args:
        net: the network.
        x: candidates ``[n, d]``.
        m: the margin min_i y_i·Φ(x_i) over the training set.
        band: half-width of the band as a share of ``m``.
        geometry: ``orthogonality`` of the training set with these candidates as ``fresh``, where the auditor knows
            it; what it proves goes into the guarantee.

    Raises:
        divulge.InputError: another dimension, a margin ≤ 0, a band ≤ 0.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        >>> known_margin(net, [[-2.0], [0.5], [2.001]], m=2.0).members
        array([ True, False,  True])
    """
    check_number(m, "m", above=0.0, below=np.inf)
    check_number(band, "band", above=0.0)
    assumed = (f"the training set's margin is {m:g}, which the weights cannot confirm",)
    decision = _decide(net, x, m, m * (1.0 - band), m * (1.0 + band), assumed, geometry)
    return replace(decision, guarantee=decision.guarantee.capped_at("conditional"))


def leaked_point(
    net: Network, z: object, x: object = None, band: float = 0.01, *, geometry: Orthogonality | None = None
) -> MarginDecision:
    """Decide membership by a leaked record: the largest |Φ| over a set with a training record is the margin.

    Args:
        net: the network.
        z: records ``[n, d]`` of which at least one was trained on; a single record is a leaked point.
        x: candidates ``[n, d]``; ``z`` itself is judged when None.
        band: half-width of the band as a share of the margin.
        geometry: as in ``known_margin``.

    Raises:
        divulge.InputError: another dimension, a network that answers zero everywhere on ``z``.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        >>> margin_bound = leaked_point(net, [[2.0], [0.5]], x=[[-2.0], [0.1]])
        >>> margin_bound.margin, margin_bound.members
        (2.0, array([ True, False]))
    """
    check_network(net)
    margin = float(np.max(net.margins(as_records(z, "z", net.dimension))))
    if margin == 0:
        raise InputError("z: the network answers 0 on every record, so none of them was learnt")
    assumed = ("at least one record of z was trained on",)
    check_number(band, "band", above=0.0)
    candidates = z if x is None else x
    return _decide(net, candidates, margin, margin * (1.0 - band), margin * (1.0 + band), assumed, geometry)


def bounded_margin(
    net: Network, x: object, c: float | tuple[float, float], *, geometry: Orthogonality | None = None
) -> MarginDecision:
    """Decide membership by a lower bound ``c`` on the margin: members have |Φ(x)| ≥ c.

    No member is missed. A fresh record can be called a member only if n·δ_x/Δ lets it reach c.

    Args:
        net: the network.
        x: candidates ``[n, d]``.
        c: a lower bound on the margin, or a lower and an upper one; ``least_margin`` gives one from the loss.
        geometry: as in ``known_margin``; the upper bound (or 1, for c itself) scales what it proves.

    Raises:
        divulge.InputError: another dimension, bounds ≤ 0 or in the wrong order.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        >>> bounded_margin(net, [[-2.0], [0.5]], c=1.0).members
        array([ True, False])
    """
    bounds = as_list(c, "c") if isinstance(c, tuple) else [c, np.inf]
    if len(bounds) != 2:
        raise InputError(f"c: one bound, or a lower and an upper one, are needed, got {format_value(c)}")
    low = check_number(bounds[0], "c", above=0.0, below=np.inf)
    high = check_number(bounds[1], "c", above=0.0, closed=True)
    if high < low:
        raise InputError(f"c: the upper bound {high:g} is below the lower bound {low:g}")
    decision = _decide(net, x, low, low, high, (f"the margin lies in [{low:g}, {high:g}]",), geometry)
    return replace(decision, guarantee=decision.guarantee.capped_at("conditional"))


def _decide(
    net: Network,
    x: object,
    margin: float,
    low: float,
    high: float,
    assumed: tuple[str, ...],
    geometry: Orthogonality | None,
) -> MarginDecision:
    check_network(net)
    if geometry is not None:
        check_instance(geometry, "geometry", Orthogonality, "what margin.orthogonality returned")
    data = as_records(x, "x", net.dimension)
    size = net.margins(data)
    outputs = size if isinstance(net, ClassNetwork) else net(data)
    members = (size >= low) & (size <= high)
    # Proven only where even the largest possible margin leaves fresh records below the threshold.
    largest = high if low == margin else margin
    fresh_bound = np.inf if geometry is None else float(np.max(geometry.bound)) * largest
    if fresh_bound < low:
        proof = (
            f"fresh records are nearly orthogonal to the training set: |Φ| ≤ {fresh_bound / low:.3g} of the threshold"
        )
        return MarginDecision(
            members, outputs, margin, low, high, Guarantee(_GUARANTEE_KIND, 0.0, (_KKT_ASSUMPTION, *assumed, proof))
        )
    warning = (
        "nothing is proven about fresh records without the geometry of the training set"
        if geometry is None
        else "nothing is proven about fresh records: the training set is not orthogonal enough for the bound "
        f"on |Φ|/m, which is {np.max(geometry.bound):.3g}"
    )
    no_guarantee = Guarantee(_GUARANTEE_KIND, 1.0, (_KKT_ASSUMPTION, *assumed))
    return MarginDecision(members, outputs, margin, low, high, no_guarantee, (warning,))


@dataclass(frozen=True, slots=True, eq=False)
class Orthogonality:
    """Near-orthogonality of a training set, and what it proves about fresh records.

    Args:
        n: number of records.
        delta: δ = max |x_i·x_j| over pairs i ≠ j.
        Delta: Δ = min ‖x_i‖².
        ratio: n·δ/Δ, what Assumption 3.1 asks to vanish.
        bound: largest possible |Φ(x)|/m of a fresh record, for each fresh record, ``[z]``; for one as orthogonal
            to the records as they are to each other when no fresh record was given, ``[1]``; infinity where
            nothing is proven.
        says_something: whether every bound is below 1, so that no fresh record can reach the margin.
    """

    n: int
    delta: float
    Delta: float
    ratio: float
    bound: Floats
    says_something: bool


def orthogonality(x: object, fresh: object = None, *, net: ClassNetwork | None = None) -> Orthogonality:
    """Measure near-orthogonality (Assumption 3.1) of these records, with a bound that has no hidden constant.

    At a KKT point of margin m every w_j = v_j·Σ λ_i y_i σ'_ij [x_i, 1]. Let δ̃ and Δ̃ be δ and Δ of the records
    with the 1 of the bias appended. Summing Φ(x_i) = ±m over the records gives
    Σ_i λ_i Σ_j v_j² σ'_ij ≤ n·m/(Δ̃ - 2(n - 1)·δ̃), hence for a fresh x with δ_x = max_i |[x_i, 1]·[x, 1]|

        |Φ(x)| ≤ m·n·δ_x/(Δ̃ - 2(n - 1)·δ̃).

    The fresh record's own δ_x belongs in the numerator: the pairwise δ of the training set, which Theorem 3.2 of
    "Provable Privacy Attacks on Trained Shallow Neural Networks" uses, says nothing about a record outside it.
    For Gaussian or spherical data and n = 20 the bound stays above 1 until d reaches some 10⁴, although the
    attack itself works from d = 100 on; ``says_something`` keeps the two apart.

    With several classes the bound is that of `ClassNetwork.fresh_bound`, which asks nothing of the training records'
    products with each other, and takes the training set's margin to be the least distance of their first two classes.

    Args:
        x: the training records ``[n, d]``, at least two.
        fresh: records ``[z, d]`` that are not in the training set.
        net: the network, where it has several classes.

    Raises:
        divulge.InputError: fewer than two records, dimensions that differ.

    Examples:
        >>> import numpy as np
        >>> report = orthogonality(1e3 * np.eye(3))
        >>> report.delta, report.Delta, bool(report.bound < 1e-5), report.says_something
        (0.0, 1000000.0, True, True)
    """
    if net is not None:
        check_instance(net, "net", ClassNetwork, "a margin.ShallowClassifier or LinearHead")
    data = as_records(x, "x", None if net is None else net.dimension)
    n = len(data)
    if n < 2:
        raise InputError(f"x: at least 2 records are needed to compare them, got {n}")
    plain_delta, plain_smallest_norm = _inner_product_extremes(data)
    full = augment(data) if net is None else net.with_bias(data)
    delta, smallest_norm = _inner_product_extremes(full)
    denominator = smallest_norm - 2 * (n - 1) * delta
    if fresh is None:
        nearest = np.array([delta])
    else:
        others = as_records(fresh, "fresh", data.shape[1])
        nearest = np.max(np.abs((augment(others) if net is None else net.with_bias(others)) @ full.T), axis=1)
    bound = n * nearest / denominator if denominator > 0 else np.full(len(nearest), np.inf)
    if net is not None:
        margin = float(net.margins(data).min())
        bound = net.fresh_bound(margin) * nearest / margin if margin > 0 else np.full(len(nearest), np.inf)
    ratio = n * plain_delta / plain_smallest_norm if plain_smallest_norm > 0 else float("inf")
    return Orthogonality(n, plain_delta, plain_smallest_norm, ratio, bound, bool((bound < 1).all()))


def _inner_product_extremes(data: Floats) -> tuple[float, float]:
    inner = data @ data.T
    off = ~np.eye(len(data), dtype=bool)
    return float(np.max(np.abs(inner[off]))), float(np.min(np.diag(inner)))


def least_margin(loss: float, n: int = 1) -> float:
    """Return the margin that a training loss guarantees: y_i·Φ(x_i) ≥ -ln(e^{n·loss} - 1) for mean logistic loss.

    No single record can carry more than the total loss n·loss. The bound is positive exactly below
    loss = (ln 2)/n, which is therefore the threshold from which Theorem 2.1 (convergence to a KKT point) applies
    to logistic loss; 1/n, as printed in the paper, is the one for exponential loss. A total loss of 1/e gives
    0.81 (Remark B.5).

    Args:
        loss: mean logistic loss over the training set.
        n: number of training records.

    Raises:
        divulge.InputError: a loss ≤ 0 or n < 1.

    Examples:
        >>> import math
        >>> round(least_margin(1 / math.e), 2), abs(least_margin(math.log(2) / 7, n=7)) < 1e-12
        (0.81, True)
    """
    total = check_number(loss, "loss", above=0.0, below=1e9) * check_integer(n, "n", minimum=1, maximum=10**15)
    return float(-total - np.log1p(-np.exp(-total)))


class RecordSource(Protocol):
    """A distribution of records."""

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        ...

    def sample(self, n: int, seed: int) -> Floats:
        """Draw ``n`` independent records ``[n, d]``."""
        ...

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """Return (δ, Δ) with |x_i·x_j| ≤ δ for all pairs and ‖x_i‖² ≥ Δ for all i, with chance at least 1 - tau."""
        ...


@dataclass(frozen=True, slots=True)
class Sphere:
    """Uniform on the sphere of radius √d.

    Examples:
        >>> Sphere(100).extremes(20, 0.05)[1]
        100.0
    """

    dimension: int

    def __post_init__(self) -> None:
        check_integer(self.dimension, "Sphere.dimension", minimum=1, maximum=_MAX_SIZE)

    def sample(self, n: int, seed: int) -> Floats:
        """Draw ``n`` independent records ``[n, d]``."""
        x = seeds.generator(seed, "source", "sphere").normal(size=(n, self.dimension))
        return x * (np.sqrt(self.dimension) / np.linalg.norm(x, axis=1, keepdims=True))

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """Bound the products by (x·x'/d)² ~ Beta(1/2, (d-1)/2), exact, and a union bound over the n(n-1)/2 pairs."""
        quantile = (
            float(stats.beta.isf(_pair_probability(n, tau), 0.5, (self.dimension - 1) / 2))
            if self.dimension > 1
            else 1.0
        )
        return float(self.dimension * np.sqrt(quantile)), float(self.dimension)


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Equal mixture of Gaussians with identity covariance.

    Args:
        means: ``[k, d]``.

    Examples:
        >>> Mixture(np.zeros((2, 50))).sample(3, seed=0).shape
        (3, 50)
    """

    means: Floats

    def __post_init__(self) -> None:
        means = check_matrix(self.means, "Mixture.means")
        if not means.shape[1] or np.abs(means).max() > _MAX_MEAN:
            raise InputError(f"Mixture.means: at least 1 input is needed, and no value beyond ±{_MAX_MEAN:g}")
        object.__setattr__(self, "means", means)

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        return self.means.shape[1]

    def sample(self, n: int, seed: int) -> Floats:
        """Draw ``n`` independent records ``[n, d]``."""
        rng = seeds.generator(seed, "source", "mixture")
        component = rng.integers(len(self.means), size=n)
        return self.means[component] + rng.normal(size=(n, self.dimension))

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """Bound norms by non-central χ² quantiles, x·x' given x' by its normal law, and a union bound over everything.

        The events are n norms from below, n from above and n(n-1)/2 pairs; the number of components does not
        enter because each is bounded by the worst mean. Counting n pairs instead of n² (as between the
        statement and the proof of Lemma D.5) does not hold.
        """
        lengths = np.sum(self.means**2, axis=1)
        smallest_norm = min(float(_squared_norm_law(self.dimension, c).ppf(tau / (4 * n))) for c in lengths)
        largest_norm = max(float(_squared_norm_law(self.dimension, c).isf(tau / (4 * n))) for c in lengths)
        deviation = float(stats.norm.isf(_pair_probability(n, tau / 2) / 2))
        return float((np.sqrt(lengths.max()) + deviation) * np.sqrt(largest_norm)), smallest_norm


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(μ, I) with μ = (mean, 0, …, 0).

    Examples:
        >>> Gaussian(30).sample(2, seed=1).shape
        (2, 30)
    """

    dimension: int
    mean: float = 0.0

    def __post_init__(self) -> None:
        check_integer(self.dimension, "Gaussian.dimension", minimum=1, maximum=_MAX_SIZE)
        check_number(self.mean, "Gaussian.mean", above=-_MAX_MEAN, below=_MAX_MEAN, closed=True)

    def _mixture(self) -> Mixture:
        means = np.zeros((1, self.dimension))
        means[0, 0] = self.mean
        return Mixture(means)

    def sample(self, n: int, seed: int) -> Floats:
        """Draw ``n`` independent records ``[n, d]``."""
        return self._mixture().sample(n, seed)

    def extremes(self, n: int, tau: float) -> tuple[float, float]:
        """Bound products and norms as for a mixture of one component."""
        return self._mixture().extremes(n, tau)


@dataclass(frozen=True, slots=True)
class Assumption:
    """Assumption 3.1 for ``n`` records of a source, with chance at least 1 - tau.

    Args:
        delta: bound on |x_i·x_j| over pairs, a fresh record included.
        Delta: bound on ‖x_i‖² from below.
        ratio: n·δ/Δ.
        bound: |Φ(x)|/m of a fresh record is at most this; infinity where nothing is proven.
        says_something: whether ``bound`` is below 1.
        tau: chance that any of it fails.
    """

    delta: float
    Delta: float
    ratio: float
    bound: float
    says_something: bool
    tau: float


def assumption(source: RecordSource, n: int, tau: float = 0.05) -> Assumption:
    """Bound the near-orthogonality of ``n`` records of ``source`` and a fresh one.

    Args:
        source: where records come from.
        n: number of training records, at least 2.
        tau: chance with which the statement may fail.

    Raises:
        divulge.InputError: n < 2, tau outside (0, 1).

    Examples:
        >>> assumption(Sphere(1000), n=20).says_something, assumption(Sphere(200_000), n=20).says_something
        (False, True)
    """
    require_callable(source, "source", "extremes")
    check_integer(n, "n", minimum=2, maximum=_MAX_SIZE)
    check_number(tau, "tau", above=0.0, below=1.0)
    delta, smallest_norm = source.extremes(n + 1, tau)
    # The bias appends a 1 to every record, which adds 1 to every product.
    denominator = (smallest_norm + 1.0) - 2 * (n - 1) * (delta + 1.0)
    bound = float(n * (delta + 1.0) / denominator) if denominator > 0 else float("inf")
    return Assumption(
        delta, smallest_norm, n * delta / smallest_norm if smallest_norm > 0 else float("inf"), bound, bound < 1.0, tau
    )


def _pair_probability(n: int, tau: float) -> float:
    return tau / (n * (n - 1) / 2)


def _squared_norm_law(dimension: int, centre: float) -> Any:
    """Return the distribution of ‖x‖² for x ~ N(μ, I) with ‖μ‖² = centre."""
    return stats.ncx2(dimension, centre) if centre > 0 else stats.chi2(dimension)
