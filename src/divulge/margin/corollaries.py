"""What the margin proves about a candidate: the corollaries as decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.margin.geometry import Orthogonality
from divulge.margin.shallow_relu import ShallowReLU, inputs
from divulge.types import Guarantee
from divulge.validation import as_list, check_instance, check_number, format_value

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

_KKT = "the network is at a KKT point of the margin problem (trained to a large margin)"
_KIND = "probability of calling a fresh record a member"


@dataclass(frozen=True, slots=True, eq=False)
class MarginDecision:
    """Which candidates sit on the margin, and what that proves.

    Args:
        members: bool ``[n]``, candidates called members.
        outputs: Φ of the candidates, ``[n]``.
        margin: the margin that was used.
        low: smallest |Φ| that counts as a member.
        high: largest |Φ| that counts as a member (infinity for a one-sided rule).
        guarantee: the largest probability of calling a fresh record a member: 0 where the geometry of the training
            set proves it, 1 (nothing is claimed) where that proof was not supplied or says nothing.
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
    net: ShallowReLU, x: object, m: float, band: float = 0.01, *, geometry: Orthogonality | None = None
) -> MarginDecision:
    """Members by a known margin: those with | |Φ(x)| - m | ≤ band·m.

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
    return _decide(net, x, m, m * (1.0 - band), m * (1.0 + band), (), geometry)


def leaked_point(
    net: ShallowReLU, z: object, x: object = None, band: float = 0.01, *, geometry: Orthogonality | None = None
) -> MarginDecision:
    """Members by a leaked record: the largest |Φ| over a set that holds at least one training record is the margin.

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
        >>> found = leaked_point(net, [[2.0], [0.5]], x=[[-2.0], [0.1]])
        >>> found.margin, found.members
        (2.0, array([ True, False]))
    """
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    margin = float(np.max(np.abs(net(inputs(z, "z", net.dimension)))))
    if margin == 0:
        raise InputError("z: the network answers 0 on every record, so none of them was learnt")
    assumed = ("at least one record of z was trained on",)
    check_number(band, "band", above=0.0)
    candidates = z if x is None else x
    return _decide(net, candidates, margin, margin * (1.0 - band), margin * (1.0 + band), assumed, geometry)


def bounded_margin(
    net: ShallowReLU, x: object, c: float | tuple[float, float], *, geometry: Orthogonality | None = None
) -> MarginDecision:
    """Members by a bound on the margin: those with |Φ(x)| ≥ c where the margin is known to be at least ``c``.

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
    return _decide(net, x, low, low, high, (f"the margin lies in [{low:g}, {high:g}]",), geometry)


def _decide(
    net: ShallowReLU,
    x: object,
    margin: float,
    low: float,
    high: float,
    assumed: tuple[str, ...],
    geometry: Orthogonality | None,
) -> MarginDecision:
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    if geometry is not None:
        check_instance(geometry, "geometry", Orthogonality, "what margin.orthogonality returned")
    outputs = net(inputs(x, "x", net.dimension))
    size = np.abs(outputs)
    members = (size >= low) & (size <= high)
    # Proven only where even the largest possible margin leaves fresh records below the threshold.
    largest = high if low == margin else margin
    reach = np.inf if geometry is None else float(np.max(geometry.bound)) * largest
    if reach < low:
        near = f"fresh records are nearly orthogonal to the training set: |Φ| ≤ {reach / low:.3g} of the threshold"
        return MarginDecision(members, outputs, margin, low, high, Guarantee(_KIND, 0.0, (_KKT, *assumed, near)))
    warning = (
        "nothing is proven about fresh records without the geometry of the training set"
        if geometry is None
        else "nothing is proven about fresh records: the training set is not orthogonal enough for the bound "
        f"n·δ_x/(Δ - 2(n-1)·δ), which is {np.max(geometry.bound):.3g}"
    )
    nothing = Guarantee(_KIND, 1.0, (_KKT, *assumed))
    return MarginDecision(members, outputs, margin, low, high, nothing, (warning,))
