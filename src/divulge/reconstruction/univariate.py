"""Training points of a network of one input, read off its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge.errors import InputError
from divulge.margin.shallow_relu import ShallowReLU
from divulge.margin.stationarity import fit
from divulge.reconstruction.lines import ON_MARGIN, bends, crossings, thin
from divulge.reconstruction.needed import least_multipliers
from divulge.reconstruction.windows import fewest, flat_ends, windows, within
from divulge.types import Guarantee
from divulge.validation import check_instance, check_number, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.reconstruction.lines import Bends
    from divulge.types import Bools, Floats, Ints

Algorithm: TypeAlias = Literal["both", "crossings", 1, 2]
_RULES: Mapping[Algorithm, tuple[str, ...]] = {
    1: ("window", "flat"),
    2: ("window",),
    "crossings": ("crossing",),
    "both": ("window", "flat", "crossing", "moment"),
}
_KINK = 1e-3  # a merged neuron that bends this close to a point (as an angle) may take any derivative there
_NEAR = 1e-4  # a neuron that bends this close to a place on the margin (as an angle) is taken to bend there
_EXACT = 1e-5  # share of the weights; exact KKT points in single precision leave 1e-6, trained networks 0.02 and more
_APART = 1e-3  # of the width of the data: candidates closer than this are one
_SAME = 1e-6  # of the width of the data: positions closer than this are one
_CARRIES = 1e-3  # of the largest multiplier: what a proven candidate must carry at least
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
    """Candidate training points, and what is proven of them.

    Args:
        candidates: positions, sorted, ``[c]``.
        labels: the label each would have, -1 or +1, ``[c]``.
        rules: for each candidate the rules that gave it: "window" (Theorem 4.2), "flat" (Theorem 4.3),
            "crossing" (isolated |Φ| = m), "moment" (KKT equations between break-points).
        multipliers: λ of each candidate in the best explanation of the weights, ``[c]``; 0 where the weights
            need no training point there.
        residual: ‖θ - Σ λ_i y_i ∇Φ(c_i)‖/‖θ‖; near 0 the candidates explain every weight.
        ambiguous: stretches where training points must lie but their positions are open.
        proven: bool ``[c]``, candidates without which no training set gives these weights.
        windows: sets of candidates, by index, each of which holds at least one training point.
        guaranteed: least number of training points among the candidates.
        guarantee: largest share of candidates that are not training points; 1 where nothing is proven, void
            where the weights contradict what the proof assumes.
        break_points: the distinct break-points, ``[K]``.
        margin: the margin that was used.
        warnings: why nothing is proven, if so.
    """

    candidates: Floats
    labels: Floats
    rules: tuple[tuple[str, ...], ...]
    multipliers: Floats
    residual: float
    ambiguous: tuple[Stretch, ...]
    proven: Bools
    windows: tuple[tuple[int, ...], ...]
    guaranteed: int
    guarantee: Guarantee
    break_points: Floats
    margin: float
    warnings: tuple[str, ...] = ()

    @property
    def supported(self) -> Floats:
        """The candidates that the weights need: those of positive multiplier."""
        return self.candidates[self.multipliers > 1e-6 * self.multipliers.max(initial=0.0)]


def univariate(net: ShallowReLU, margin: float | None = None, algorithm: Algorithm = "both") -> Reconstruction:
    """Candidate training points of a network of one input with known margin.

    Theorem 4.2: of two adjacent pieces, neither constant on the margin, the *window* they make holds a training
    point, and it is one of at most four places with |Φ| = m. Two of the three neurons that bend there look the
    same way; with no training point between them they would be one neuron. Theorem 4.3: where the first and the
    third of three adjacent pieces lie on the margin and the one between does not, one of its two ends is a training
    point, if some neuron is active on all training points. The published proof does not hold, another does
    (docs/sources/004.md); this rule (``flat``) proposes candidates but proves nothing here.

    The paper's algorithm 1 joins both rules, its algorithm 2 (Appendix G) takes windows only. "crossings" are all
    isolated places with |Φ| = m, for which answers of the network suffice. "both" is Divulge's: all of these and
    what the KKT equations add (``moment``): between the ends of a stretch on the margin they fix the total
    multiplier and the mean, hence the point if it is alone.

    Windows run over the K distinct break-points (the paper's loops run over the n training points). The fewest
    candidates that meet every window replace the paper's share of 1/4: with overlapping windows only 1/6 follows from
    its counting. Divulge proves more than windows do: a candidate is ``proven`` where every way to rebuild the
    weights from places on the margin needs it (`needed.least_multipliers`). Proofs are claimed only where the weights
    bear their assumption out: at a KKT point of this margin the places on the margin rebuild the weights exactly,
    and no window is empty. Nothing is claimed of a line that stays on the margin beyond its first or last break-point:
    training points may lie anywhere there. "Is a training point" means up to a thousandth of the width of the data,
    which is how finely candidates are told apart. That the margin is the training set's cannot be checked: a network
    can be at KKT points of several margins, for different data.

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
        raise InputError(
            "margin: reconstruction needs the margin min y·Φ(x) over the training set; "
            "a leaked training point gives it (margin.leaked_point), a training loss bounds it (margin.least_margin)"
        )
    margin = check_number(margin, "margin", above=0.0, below=np.inf)
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    _one_input(net)
    if not isinstance(algorithm, str | int) or algorithm not in _RULES:
        raise InputError(f"algorithm: 1, 2, 'crossings' or 'both' is needed, got {format_value(algorithm)}")
    return _read(_Line.of(net, float(margin)), _RULES[algorithm])


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A network as a line: its break-points, the pieces on the margin, and where else it meets the margin.

    ``isolated`` are places to report, no two closer than ``resolution``; ``places`` are all places where training
    points may be taken to lie, a stretch on the margin counting as its ends.
    """

    net: ShallowReLU
    margin: float
    resolution: float
    bent: Bends
    flat: Bools
    isolated: Floats
    places: Floats

    @classmethod
    def of(cls, net: ShallowReLU, margin: float) -> _Line:
        scale = _scale(net, margin)
        bent = bends(net, _SAME * scale)
        flat = _on_margin(bent, margin)
        coarse, fine = (
            np.sort(np.concatenate([crossings(net, level, share * scale) for level in (margin, -margin)]))
            for share in (_APART, _SAME)
        )
        return cls(net, margin, _APART * scale, bent, flat, coarse, np.union1d(fine, flat_ends(bent, flat)))


def _read(line: _Line, wanted: Sequence[str]) -> Reconstruction:
    spans = windows(line.bent, line.flat)
    parts = within(line.places, spans)
    proposals = {
        "window": thin(line.places[np.unique(np.concatenate(parts))], line.resolution) if parts else np.zeros(0),
        "flat": _alternating(line.bent, line.flat),
        "crossing": line.isolated,
    }
    stretches: tuple[Stretch, ...] = ()
    if "moment" in wanted:
        proposals["moment"], stretches = _moments(line)
    chosen = {rule: proposals[rule] for rule in wanted}
    candidates = thin(np.concatenate(list(chosen.values())), line.resolution)
    against, open_end = _contradiction(line, parts), _open_end(line)
    weights, residual = _explain(line.bent.net, candidates)
    nothing = (), np.zeros(len(candidates), bool)
    held, proven = nothing if against or open_end else _proofs(line, parts, candidates, weights)
    guaranteed = int(proven.sum()) + fewest([np.array(window) for window in held if not proven[list(window)].any()])
    claim = Guarantee(
        "share of candidates that are not training points",
        1.0 - guaranteed / len(candidates) if len(candidates) else 1.0,
        (_KKT, f"the training set's margin is {line.margin:g}, which the weights cannot confirm"),
    )
    return Reconstruction(
        candidates=candidates,
        labels=_labels(line.net, candidates),
        rules=tuple(
            tuple(rule for rule, at in chosen.items() if len(at) and np.abs(at - c).min() <= line.resolution)
            for c in candidates
        ),
        multipliers=weights,
        residual=residual,
        ambiguous=stretches,
        proven=proven,
        windows=held,
        guaranteed=guaranteed,
        guarantee=claim.at_most("void") if against else claim,
        break_points=line.bent.at,
        margin=line.margin,
        warnings=() if guaranteed else (against or open_end or "no candidate is needed by the weights",),
    )


def _contradiction(line: _Line, parts: Sequence[Ints]) -> str:
    """What in the weights speaks against a KKT point of this margin; empty where nothing does."""
    refuted = f"so the network is not at a KKT point with the margin {line.margin:g}"
    empty = sum(not len(part) for part in parts)
    if empty:
        return f"{empty} of {len(parts)} stretches that must hold a training point never meet the margin, {refuted}"
    residual = _residual(line)
    if residual <= _EXACT or _open_end(line):  # points beyond the last break-point may explain what is missing
        return ""
    return f"the places on the margin rebuild the weights only up to a residual of {residual:.2g}, {refuted}"


def _open_end(line: _Line) -> str:
    """Where the line stays on the margin for ever: training points there are among no places; empty if nowhere."""
    at = line.bent.at
    reach = max(line.resolution / _APART, float(np.ptp(at)))
    for end, beyond in ((at[0], at[0] - reach), (at[-1], at[-1] + reach)):
        heights = np.abs(np.abs(line.net(np.array([[end], [beyond]]))) - line.margin)
        if (heights <= ON_MARGIN * line.margin).all():
            side = "above" if beyond > end else "below"
            return f"the line stays on the margin {side} x = {end + 0.0:.4g}, where training points may lie anywhere"
    return ""


def _residual(line: _Line) -> float:
    places = line.places
    return fit(line.net, places[:, None], _labels(line.net, places), _NEAR).residual if len(places) else 1.0


def _proofs(
    line: _Line, parts: Sequence[Ints], candidates: Floats, weights: Floats
) -> tuple[tuple[tuple[int, ...], ...], Bools]:
    """The windows all of whose places are candidates, as indices of candidates; and the candidates that are needed."""
    places = line.places
    if not len(candidates):
        return (), np.zeros(0, bool)
    away = np.abs(np.subtract.outer(places, candidates))
    nearest = np.where(away.min(1) <= line.resolution, away.argmin(1), -1)
    held = tuple(tuple(map(int, np.unique(nearest[part]))) for part in parts if (nearest[part] >= 0).all())
    slack = 10 * _residual(line) + 1e-7
    least = least_multipliers(
        line.bent.net, places, _labels(line.net, places), nearest, len(candidates), kink=_NEAR, slack=slack
    )
    proven = least > _CARRIES * weights.max()
    # The end of a stretch on the margin may stand for a point within it.
    proven[nearest[np.isin(places, flat_ends(line.bent, line.flat)) & (nearest >= 0)]] = False
    return held, proven


def _one_input(net: ShallowReLU) -> None:
    if net.dimension != 1:
        raise InputError(
            f"net: reconstruction is proven for one input, the network takes {net.dimension}; "
            "with candidates at hand use margin.multipliers instead"
        )


def _scale(net: ShallowReLU, margin: float) -> float:
    """How wide the data lie: the range of the places where |Φ| meets the margin."""
    at = np.concatenate([crossings(net, level, 0.0) for level in (margin, -margin)])
    width = float(np.ptp(at)) if len(at) > 1 else 0.0
    return width if width > 0 else 1.0


def _on_margin(bent: Bends, margin: float) -> Bools:
    """Pieces between adjacent break-points that stay at +margin or at -margin, ``[K - 1]``."""
    near = np.abs(bent.values[:, None] - [margin, -margin]) <= ON_MARGIN * margin
    return (near[:-1] & near[1:]).any(axis=1)


def _alternating(bent: Bends, flat: Bools) -> Floats:
    """Ends of a piece off the margin between two pieces on it (Theorem 4.3)."""
    places = [bent.at[i + 1 : i + 3] for i in range(len(bent.at) - 3) if flat[i] and flat[i + 2] and not flat[i + 1]]
    return np.unique(np.concatenate(places)) if places else np.zeros(0)


def _moments(line: _Line) -> tuple[Floats, tuple[Stretch, ...]]:
    """What the KKT equations tell about stretches on the margin, where no crossing is isolated.

    All neurons see a stretch between adjacent break-points through Σ λ_i·y_i·[1, x_i] alone. Points at its two
    ends can carry any such sum, so they stand for whatever is inside: weight on one end alone is a training point
    there; weight on both is one point at their mean, or several.
    """
    bent, atoms = line.bent, line.places
    edges = np.flatnonzero(np.diff(np.concatenate([[False], line.flat, [False]]).astype(np.int8))).reshape(-1, 2)
    if not len(edges):
        return np.zeros(0), ()
    weights, _ = _explain(bent.net, atoms)
    places, stretches = [], []
    for start, stop in edges:
        low, high = float(bent.at[start]), float(bent.at[stop])
        here = (atoms >= low) & (atoms <= high) & (weights > 1e-6 * weights.max(initial=0.0))
        places.append(atoms[here])
        if here.sum() > 1:
            label = 1 if bent.values[start] > 0 else -1
            stretches.append(Stretch(low, high, label, float(np.average(atoms[here], weights=weights[here]))))
    return np.concatenate(places), tuple(stretches)


def _labels(net: ShallowReLU, positions: Floats) -> Floats:
    return np.where(net(positions[:, None]) < 0, -1.0, 1.0) if len(positions) else np.zeros(0)


def _explain(net: ShallowReLU, positions: Floats) -> tuple[Floats, float]:
    """The multipliers with which points at ``positions`` best rebuild the weights, and what they leave."""
    if not len(positions):
        return np.zeros(0), 1.0
    best = fit(net, positions[:, None], _labels(net, positions), _KINK)
    return best.multipliers, best.residual
