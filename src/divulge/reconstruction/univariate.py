"""Training points of a network of one input, read off its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from divulge import checks
from divulge.margin.stationarity import fit
from divulge.reconstruction.lines import ON_MARGIN, bends, crossings, thin
from divulge.types import Guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.margin import ShallowReLU
    from divulge.reconstruction.lines import Bends
    from divulge.types import Bools, Floats

_ALL = ("window", "flat", "crossing", "moment")
_KINK = 1e-3  # a merged neuron that bends this close to a point (as an angle) may take any derivative there
_KKT = "the network is at a KKT point of the margin problem"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the line that holds at least one training point whose position the weights leave open.

    Args:
        low: left end.
        high: right end.
        label: label of the points in it, -1 or +1.
        mean: mean of the points in it, weighted by their multipliers; the point itself if it is a single one.
    """

    low: float
    high: float
    label: int
    mean: float


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """Candidate training points and what is proven of them.

    Args:
        candidates: positions, sorted, ``[c]``.
        labels: the label each would have, -1 or +1, ``[c]``.
        rules: for each candidate the rules that gave it: "window" (Theorem 4.2), "flat" (Theorem 4.3),
            "crossing" (isolated |Φ| = m), "moment" (KKT equations between break-points).
        multipliers: λ of each candidate in the best explanation of the weights, ``[c]``; 0 where the weights
            need no training point there.
        residual: ‖θ - Σ λ_i y_i ∇Φ(c_i)‖/‖θ‖; near 0 the candidates explain every weight.
        ambiguous: stretches where training points must lie but their positions are open.
        guaranteed: least number of training points among the candidates.
        guarantee: largest share of candidates that are not training points.
        break_points: the distinct break-points, ``[K]``.
        margin: the margin that was used.
    """

    candidates: Floats
    labels: Floats
    rules: tuple[tuple[str, ...], ...]
    multipliers: Floats
    residual: float
    ambiguous: tuple[Stretch, ...]
    guaranteed: int
    guarantee: Guarantee
    break_points: Floats
    margin: float

    @property
    def supported(self) -> Floats:
        """The candidates that the weights need: those of positive multiplier."""
        return self.candidates[self.multipliers > 1e-6 * self.multipliers.max(initial=0.0)]


def univariate(
    net: ShallowReLU, margin: float | None = None, algorithm: Literal["both", "crossings", 1, 2] = "both"
) -> Reconstruction:
    """Candidate training points of a network of one input with known margin.

    Rule 1 (Theorem 4.2): if neither of two adjacent pieces is constant on the margin, the two hold a training
    point, and it is one of at most four places with |Φ| = m. Two of the three neurons that bend there look the
    same way; with no training point between them they would be one neuron. Rule 2 (Theorem 4.3): of three
    adjacent pieces alternately on and off the margin, an inner break-point is a training point; the proof of its
    third case multiplies an inequality by (t_i - t_{i-1})(t_{i-1}w²_{i-1} - t_i w²_i), whose sign depends on where
    the origin lies, so rule 2 proposes candidates but proves nothing here. Crossings: every isolated |Φ| = m, for
    which answers of the network suffice. "both" joins all of these and what the KKT equations add (``moment``): between
    the ends of a stretch on the margin they fix the total multiplier and the mean, hence the point if it is alone.

    Windows run over the K distinct break-points (the paper's loops run over the n training points), the guaranteed
    number is that of the fewest candidates that meet every window, which replaces the paper's share of 1/4: with
    overlapping windows only 1/6 follows from its counting.

    Args:
        net: a network of one input.
        margin: min_i y_i·Φ(x_i) over the training set; from a leaked point, a loss, or published.
        algorithm: 1, 2, "crossings" or "both".

    Raises:
        divulge.InputError: more than one input, a margin that is absent or ≤ 0, a network that is zero or bends
            nowhere, an unknown algorithm.

    Examples:
        >>> from divulge import margin
        >>> found = univariate(margin.solve([[-1.0], [0.5], [2.0]], [-1, 1, 1]).net, margin=1.0)
        >>> found.candidates.round(3), found.supported.round(3)
        (array([-1. ,  0.5]), array([-1. ,  0.5]))
    """
    if margin is None:
        raise checks.InputError(
            "margin: reconstruction needs the margin min y·Φ(x) over the training set; "
            "a leaked training point gives it (margin.leaked_point), a training loss bounds it (margin.least_margin)"
        )
    checks.number(margin, "margin", above=0.0, below=np.inf)
    _one_input(net)
    if algorithm not in ("both", "crossings", 1, 2):
        raise checks.InputError(f"algorithm: 1, 2, 'crossings' or 'both' is needed, got {algorithm!r}")
    scale = _scale(net, margin)
    resolution = 1e-3 * scale
    bent = bends(net, 1e-6 * scale)
    flat = _on_margin(bent, margin)
    isolated = np.sort(np.concatenate([crossings(net, level, resolution) for level in (margin, -margin)]))
    windows = _windows(bent, flat)
    proposals = {
        "window": _inside(isolated, windows),
        "flat": _alternating(bent, flat),
        "crossing": isolated,
    }
    wanted: tuple[str, ...] = {1: ("window",), 2: ("flat",), "crossings": ("crossing",)}.get(algorithm, _ALL)
    stretches: tuple[Stretch, ...] = ()
    if "moment" in wanted:
        proposals["moment"], stretches = _moments(bent, flat, isolated)
    chosen = {rule: proposals[rule] for rule in wanted}
    candidates = thin(np.concatenate(list(chosen.values())), 1e-3 * resolution)
    hits = 0 if algorithm == 2 else _fewest(isolated, windows)
    weights, residual = _explain(bent.net, candidates)
    return Reconstruction(
        candidates=candidates,
        labels=_labels(net, candidates),
        rules=tuple(
            tuple(rule for rule, at in chosen.items() if len(at) and np.abs(at - c).min() <= resolution)
            for c in candidates
        ),
        multipliers=weights,
        residual=residual,
        ambiguous=stretches,
        guaranteed=hits,
        guarantee=Guarantee(
            "share of candidates that are not training points",
            1.0 - hits / len(candidates) if len(candidates) else 0.0,
            (_KKT, f"the margin is {margin:g}"),
        ),
        break_points=bent.at,
        margin=float(margin),
    )


def _one_input(net: ShallowReLU) -> None:
    if net.dimension != 1:
        raise checks.InputError(
            f"net: reconstruction is proven for one input, the network takes {net.dimension}; "
            "with candidates at hand use margin.multipliers instead"
        )


def _scale(net: ShallowReLU, margin: float) -> float:
    """How wide the data lie: the range of the places where |Φ| meets the margin."""
    found = np.concatenate([crossings(net, level, 0.0) for level in (margin, -margin)])
    width = float(np.ptp(found)) if len(found) > 1 else 0.0
    return width if width > 0 else 1.0


def _on_margin(bent: Bends, margin: float) -> Bools:
    """Pieces between adjacent break-points that stay at +margin or at -margin, ``[K - 1]``."""
    near = np.abs(bent.values[:, None] - [margin, -margin]) <= ON_MARGIN * margin
    return (near[:-1] & near[1:]).any(axis=1)


def _windows(bent: Bends, flat: Bools) -> list[tuple[float, float]]:
    """Two adjacent pieces, neither constant on the margin: each pair holds a training point (Theorem 4.2)."""
    return [(float(bent.at[i]), float(bent.at[i + 2])) for i in range(len(bent.at) - 2) if not (flat[i] or flat[i + 1])]


def _inside(positions: Floats, windows: Sequence[tuple[float, float]]) -> Floats:
    if not windows:
        return np.zeros(0)
    low, high = np.array(windows).T
    slack = 1e-9 * (1.0 + np.abs(positions[:, None]))
    return positions[((positions[:, None] >= low - slack) & (positions[:, None] <= high + slack)).any(axis=1)]


def _alternating(bent: Bends, flat: Bools) -> Floats:
    """Inner break-points of three adjacent pieces that alternate on and off the margin (Theorem 4.3)."""
    found = [bent.at[i + 1 : i + 3] for i in range(len(bent.at) - 3) if flat[i] == flat[i + 2] != flat[i + 1]]
    return np.unique(np.concatenate(found)) if found else np.zeros(0)


def _fewest(isolated: Floats, windows: Sequence[tuple[float, float]]) -> int:
    """The fewest candidates that meet every window: so many of them are training points at least."""
    count, last = 0, -np.inf
    for low, high in sorted(windows, key=lambda window: window[1]):
        inside = _inside(isolated, [(low, high)])
        if last >= low or not len(inside):
            continue
        count, last = count + 1, float(inside[-1])
    return count


def _moments(bent: Bends, flat: Bools, isolated: Floats) -> tuple[Floats, tuple[Stretch, ...]]:
    """What the KKT equations tell about stretches on the margin, where no crossing is isolated.

    All neurons see a stretch between adjacent break-points through Σ λ_i·y_i·[1, x_i] alone. Points at its two
    ends can carry any such sum, so they stand for whatever is inside: weight on one end alone is a training point
    there; weight on both is one point at their mean, or several.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8))).reshape(-1, 2)
    if not len(edges):
        return np.zeros(0), ()
    ends = np.unique(np.concatenate([bent.at[start : stop + 1] for start, stop in edges]))
    atoms = np.unique(np.concatenate([isolated, ends]))
    weights, _ = _explain(bent.net, atoms)
    found, stretches = [], []
    for start, stop in edges:
        low, high = float(bent.at[start]), float(bent.at[stop])
        here = (atoms >= low) & (atoms <= high) & (weights > 1e-6 * weights.max(initial=0.0))
        found.append(atoms[here])
        if here.sum() > 1:
            label = 1 if bent.values[start] > 0 else -1
            stretches.append(Stretch(low, high, label, float(np.average(atoms[here], weights=weights[here]))))
    return np.concatenate(found), tuple(stretches)


def _labels(net: ShallowReLU, positions: Floats) -> Floats:
    return np.where(net(positions[:, None]) < 0, -1.0, 1.0) if len(positions) else np.zeros(0)


def _explain(net: ShallowReLU, positions: Floats) -> tuple[Floats, float]:
    """The multipliers with which points at ``positions`` best rebuild the weights, and what they leave."""
    if not len(positions):
        return np.zeros(0), 1.0
    best = fit(net, positions[:, None], _labels(net, positions), _KINK)
    return best.multipliers, best.residual
