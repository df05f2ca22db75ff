"""Training points of a network of one input, read off its weights.

Windows of the line hold at least one training point each; linear programs over the KKT equations tell which places on
the margin the weights cannot do without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, eye_array, hstack, vstack

from divulge.errors import InputError
from divulge.margin.shallow_relu import ShallowReLU, fit_multipliers
from divulge.results import OpenStretch, ReconstructionSummary
from divulge.types import Guarantee, ShortRepr
from divulge.validation import check_bool, check_instance, check_number, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array

    from divulge.types import Bools, Floats, Ints


__all__ = ["Reconstruction", "Stretch", "univariate"]

Algorithm: TypeAlias = Literal["both", "crossings", 1, 2]
_ALGORITHM_RULES: Mapping[Algorithm, tuple[str, ...]] = {
    1: ("window", "flat"),
    2: ("window",),
    "crossings": ("crossing",),
    "both": ("window", "flat", "crossing", "moment"),
}
_KINK_ANGLE = 1e-3  # a merged neuron that bends this close to a point (as an angle) may take any derivative there
_NEAR_KINK_ANGLE = 1e-4  # a neuron that bends this close to a place on the margin (as an angle) is taken to bend there
# As a share of the weights; exact KKT points in single precision leave 1e-6, trained networks 0.02 and more.
_EXACT_RESIDUAL = 1e-5
_CANDIDATE_SEPARATION = 1e-3  # of the width of the data: candidates closer than this are one
_POSITION_SEPARATION = 1e-6  # of the width of the data: positions closer than this are one
_MIN_PROVEN_SHARE = 1e-3  # of the largest multiplier: what a proven candidate must carry at least
_KKT_ASSUMPTION = "the network is at a KKT point of the margin problem"

_EDGE_SLACK = 1e-9  # relative; a position on the edge of a window lies in it

_NEGLIGIBLE_STRENGTH = 1e-6  # neurons below this share of the strongest |v|·‖w‖ are dropped
MARGIN_TOLERANCE = 0.01  # a stretch lies on the margin when Φ stays within this share of it
_TOUCH_TOLERANCE = 1e-4  # a peak within this share of the margin touches it
_MIN_SLOPE = 1e-6  # a neuron whose slope is below this share of its length bends the line nowhere
_SAME_ANGLE = 1e-3  # neurons of equal output sign whose directions differ by less are one neuron


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch that holds at least one training point whose position the weights leave open.

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reconstruction(ShortRepr):
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
        needed: bool ``[c]``, candidates without which no training set *of this margin* gives these weights.
        windows: sets of candidates, by index, each of which holds at least one training point of such a set.
        guaranteed: least number of training points among the candidates, if the margin is the training set's.
        guarantee: largest share of candidates that are not training points; 1 where nothing is claimed, conditional
            where the margin was typed in, void where the weights contradict what the proof assumes.
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
    needed: Bools
    windows: tuple[tuple[int, ...], ...]
    guaranteed: int
    guarantee: Guarantee
    break_points: Floats
    margin: float
    warnings: tuple[str, ...] = ()

    @property
    def proven(self) -> Bools:
        """The candidates that are needed, where the margin is recorded with the weights; none where it was typed in."""
        return self.needed & (self.guarantee.standing == "holds")

    @property
    def supported(self) -> Floats:
        """The candidates that the weights need: those of positive multiplier."""
        return self.candidates[self.multipliers > 1e-6 * self.multipliers.max(initial=0.0)]


def univariate(
    net: ShallowReLU, margin: float | None = None, algorithm: Algorithm = "both", *, is_recorded: bool = False
) -> Reconstruction:
    """Reconstruct candidate training points of a network of one input with known margin.

    Theorem 4.2: of two adjacent pieces, neither constant on the margin, the *window* they make holds a training
    point, and it is one of at most four places with |Φ| = m. Two of the three neurons that bend there look the
    same way; with no training point between them they would be one neuron. Theorem 4.3: where the first and the
    third of three adjacent pieces lie on the margin and the one between does not, one of its two ends is a training
    point, if some neuron is active on all training points. The published proof does not hold, another does
    (docs/sources/weights.md); this rule (``flat``) proposes candidates but proves nothing here.

    The paper's algorithm 1 joins both rules, its algorithm 2 (Appendix G) takes windows only. "crossings" are all
    isolated places with |Φ| = m, for which answers of the network suffice. "both" is Divulge's: all of these and
    what the KKT equations add (``moment``): between the ends of a stretch on the margin they fix the total
    multiplier and the mean, hence the point if it is alone.

    Windows run over the K distinct break-points (the paper's loops run over the n training points). The fewest
    candidates that meet every window replace the paper's share of 1/4: with overlapping windows only 1/6 follows from
    its counting. Divulge shows more than windows do: a candidate is ``needed`` where every way to rebuild the
    weights from places on the margin needs it (`min_group_multipliers`). That is claimed only where the weights
    bear their assumption out: at a KKT point of this margin the places on the margin rebuild the weights exactly,
    and no window is empty. Nothing is claimed of a line that stays on the margin beyond its first or last break-point:
    training points may lie anywhere there. "Is a training point" means up to a thousandth of the width of the data,
    which is how finely candidates are told apart. That the margin is the training set's cannot be checked: a network
    can be at KKT points of several margins, for different data. So a candidate is ``proven`` only where the margin is
    recorded with the weights; under one that was typed in, all of this is conditional on it.

    Args:
        net: a network of one input.
        margin: min_i y_i·Φ(x_i) over the training set; from a leaked point, a loss, or published.
        algorithm: 1, 2, "crossings" or "both".
        is_recorded: the margin was recorded when the network was trained (`margin.read_margin`), not typed in.

    Raises:
        divulge.InputError: more than one input, a margin that is absent or ≤ 0, a network that is zero or bends
            nowhere, an unknown algorithm.

    Examples:
        >>> from divulge import margin
        >>> points = univariate(margin.solve([[-1.0], [0.5], [2.0]], [-1, 1, 1]).net, margin=1.0)
        >>> points.candidates.round(3), points.supported.round(3)
        (array([-1. ,  0.5]), array([-1. ,  0.5]))
    """
    if margin is None:
        raise InputError(
            "margin: reconstruction needs the margin min y·Φ(x) over the training set; "
            "a leaked training point gives it (margin.leaked_point), a training loss bounds it (margin.least_margin)"
        )
    margin = check_number(margin, "margin", above=0.0, below=np.inf)
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    if net.dimension != 1:
        raise InputError(
            f"net: reconstruction is proven for one input, the network takes {net.dimension}; "
            "with candidates at hand use margin.multipliers instead"
        )
    if not isinstance(algorithm, str | int) or algorithm not in _ALGORITHM_RULES:
        raise InputError(f"algorithm: 1, 2, 'crossings' or 'both' is needed, got {format_value(algorithm)}")
    check_bool(is_recorded, "is_recorded")
    return _reconstruct(_MarginLine.from_network(net, float(margin)), _ALGORITHM_RULES[algorithm], is_recorded)


@dataclass(frozen=True, slots=True, eq=False)
class _MarginLine:
    """A network as a line: its break-points, the pieces on the margin, and where else it meets the margin.

    ``isolated`` are places to report, no two closer than ``resolution``; ``places`` are all places where training
    points may be taken to lie, a stretch on the margin counting as its ends.
    """

    net: ShallowReLU
    margin: float
    resolution: float
    break_points: BreakPoints
    flat: Bools
    isolated: Floats
    places: Floats

    @classmethod
    def from_network(cls, net: ShallowReLU, margin: float) -> _MarginLine:
        # The width of the data: the range of the places where |Φ| meets the margin.
        positions = np.concatenate([find_crossings(net, level, 0.0) for level in (margin, -margin)])
        scale = float(np.ptp(positions)) if len(positions) > 1 else 0.0
        scale = scale if scale > 0 else 1.0
        bent = find_break_points(net, _POSITION_SEPARATION * scale)
        # A piece between adjacent break-points is on the margin if both of its ends lie at +margin, or both at -margin.
        is_near = np.abs(bent.values[:, None] - [margin, -margin]) <= MARGIN_TOLERANCE * margin
        flat = (is_near[:-1] & is_near[1:]).any(axis=1)
        coarse, fine = (
            np.sort(np.concatenate([find_crossings(net, level, share * scale) for level in (margin, -margin)]))
            for share in (_CANDIDATE_SEPARATION, _POSITION_SEPARATION)
        )
        return cls(
            net,
            margin,
            _CANDIDATE_SEPARATION * scale,
            bent,
            flat,
            coarse,
            np.union1d(fine, margin_piece_ends(bent, flat)),
        )


def _reconstruct(line: _MarginLine, rules: Sequence[str], is_recorded: bool) -> Reconstruction:
    spans = find_windows(line.break_points, line.flat)
    parts = positions_in_spans(line.places, spans)
    proposals = {
        "window": drop_close(line.places[np.unique(np.concatenate(parts))], line.resolution) if parts else np.zeros(0),
        "flat": _alternating_ends(line.break_points, line.flat),
        "crossing": line.isolated,
    }
    stretches: tuple[Stretch, ...] = ()
    if "moment" in rules:
        proposals["moment"], stretches = _moment_candidates(line)
    chosen = {rule: proposals[rule] for rule in rules}
    candidates = drop_close(np.concatenate(list(chosen.values())), line.resolution)
    contradiction, open_end = _find_contradiction(line, parts), _describe_open_end(line)
    weights, residual = _fit_candidates(line.break_points.net, candidates)
    no_proofs = (), np.zeros(len(candidates), bool)
    proven_windows, proven = (
        no_proofs if contradiction or open_end else _prove_candidates(line, parts, candidates, weights)
    )
    guaranteed = int(proven.sum()) + min_hitting_set_size(
        [np.array(window) for window in proven_windows if not proven[list(window)].any()]
    )
    claim = Guarantee(
        "share of candidates that are not training points",
        1.0 - guaranteed / len(candidates) if len(candidates) else 1.0,
        (
            _KKT_ASSUMPTION,
            f"the training set's margin is {line.margin:g}, "
            + ("as the file of the weights records" if is_recorded else "which the weights cannot confirm"),
        ),
        "holds" if is_recorded else "conditional",
    )
    return Reconstruction(
        candidates=candidates,
        labels=_predicted_labels(line.net, candidates),
        rules=tuple(
            tuple(
                rule for rule, places in chosen.items() if len(places) and np.abs(places - c).min() <= line.resolution
            )
            for c in candidates
        ),
        multipliers=weights,
        residual=residual,
        ambiguous=stretches,
        needed=proven,
        windows=proven_windows,
        guaranteed=guaranteed,
        guarantee=claim.capped_at("void") if contradiction else claim,
        break_points=line.break_points.positions,
        margin=line.margin,
        warnings=() if guaranteed else (contradiction or open_end or "no candidate is needed by the weights",),
    )


def _find_contradiction(line: _MarginLine, parts: Sequence[Ints]) -> str:
    """Describe what in the weights contradicts a KKT point of this margin; "" where nothing does."""
    refuted = f"so the network is not at a KKT point with the margin {line.margin:g}"
    empty = sum(not len(part) for part in parts)
    if empty:
        return f"{empty} of {len(parts)} stretches that must hold a training point never meet the margin, {refuted}"
    residual = _explanation_residual(line)
    if residual <= _EXACT_RESIDUAL or _describe_open_end(
        line
    ):  # points beyond the last break-point may explain what is missing
        return ""
    # Records closer than places are told apart merge into one, from which no multipliers rebuild the weights.
    return (
        f"the places on the margin rebuild the weights only up to a residual of {residual:.2g}, {refuted}, or some of "
        "its training points are too close to each other to be told apart"
    )


def _describe_open_end(line: _MarginLine) -> str:
    """Describe where the line stays on the margin for ever, with training points anywhere there; "" if nowhere."""
    positions = line.break_points.positions
    extent = max(line.resolution / _CANDIDATE_SEPARATION, float(np.ptp(positions)))
    for end, beyond in ((positions[0], positions[0] - extent), (positions[-1], positions[-1] + extent)):
        heights = np.abs(np.abs(line.net(np.array([[end], [beyond]]))) - line.margin)
        if (heights <= MARGIN_TOLERANCE * line.margin).all():
            side = "above" if beyond > end else "below"
            return f"the line stays on the margin {side} x = {end + 0.0:.4g}, where training points may lie anywhere"
    return ""


def _explanation_residual(line: _MarginLine) -> float:
    places = line.places
    return (
        fit_multipliers(line.net, places[:, None], _predicted_labels(line.net, places), _NEAR_KINK_ANGLE).residual
        if len(places)
        else 1.0
    )


def _prove_candidates(
    line: _MarginLine, parts: Sequence[Ints], candidates: Floats, weights: Floats
) -> tuple[tuple[tuple[int, ...], ...], Bools]:
    """Return the windows all of whose places are candidates, as indices, and a mask of the candidates needed."""
    places = line.places
    if not len(candidates):
        return (), np.zeros(0, bool)
    distances = np.abs(np.subtract.outer(places, candidates))
    nearest = np.where(distances.min(1) <= line.resolution, distances.argmin(1), -1)
    proven_windows = tuple(tuple(map(int, np.unique(nearest[part]))) for part in parts if (nearest[part] >= 0).all())
    slack = 10 * _explanation_residual(line) + 1e-7
    smallest_totals = min_group_multipliers(
        line.break_points.net,
        places,
        _predicted_labels(line.net, places),
        nearest,
        len(candidates),
        kink=_NEAR_KINK_ANGLE,
        slack=slack,
    )
    proven = smallest_totals > _MIN_PROVEN_SHARE * weights.max()
    # The end of a stretch on the margin may stand for a point within it.
    proven[nearest[np.isin(places, margin_piece_ends(line.break_points, line.flat)) & (nearest >= 0)]] = False
    return proven_windows, proven


def _alternating_ends(break_points: BreakPoints, flat: Bools) -> Floats:
    """Return the ends of pieces off the margin between two pieces on it (Theorem 4.3)."""
    places = [
        break_points.positions[i + 1 : i + 3]
        for i in range(len(break_points.positions) - 3)
        if flat[i] and flat[i + 2] and not flat[i + 1]
    ]
    return np.unique(np.concatenate(places)) if places else np.zeros(0)


def _moment_candidates(line: _MarginLine) -> tuple[Floats, tuple[Stretch, ...]]:
    """Return candidates on stretches of the margin, and open stretches, from the KKT equations.

    All neurons see a stretch between adjacent break-points through Σ λ_i·y_i·[1, x_i] alone. Points at its two
    ends can carry any such sum, so they stand for whatever is inside: weight on one end alone is a training point
    there; weight on both is one point at their mean, or several.
    """
    break_points, atoms = line.break_points, line.places
    edges = np.flatnonzero(np.diff(np.concatenate([[False], line.flat, [False]]).astype(np.int8))).reshape(-1, 2)
    if not len(edges):
        return np.zeros(0), ()
    weights, _ = _fit_candidates(break_points.net, atoms)
    places, stretches = [], []
    for start, stop in edges:
        low, high = float(break_points.positions[start]), float(break_points.positions[stop])
        has_weight = (atoms >= low) & (atoms <= high) & (weights > 1e-6 * weights.max(initial=0.0))
        places.append(atoms[has_weight])
        if has_weight.sum() > 1:
            label = 1 if break_points.values[start] > 0 else -1
            stretches.append(
                Stretch(low, high, label, float(np.average(atoms[has_weight], weights=weights[has_weight])))
            )
    return np.concatenate(places), tuple(stretches)


def _predicted_labels(net: ShallowReLU, positions: Floats) -> Floats:
    return np.where(net(positions[:, None]) < 0, -1.0, 1.0) if len(positions) else np.zeros(0)


def _fit_candidates(net: ShallowReLU, positions: Floats) -> tuple[Floats, float]:
    """Return the multipliers with which points at ``positions`` best rebuild the weights, and the residual."""
    if not len(positions):
        return np.zeros(0), 1.0
    best = fit_multipliers(net, positions[:, None], _predicted_labels(net, positions), _KINK_ANGLE)
    return best.multipliers, best.residual


def find_windows(break_points: BreakPoints, flat: Bools) -> Floats:
    """Return ends ``[w, 2]`` of two adjacent pieces, neither constant on the margin (Theorem 4.2).

    Args:
        break_points: the line.
        flat: bool ``[K - 1]``, pieces that lie on the margin.
    """
    starts = np.flatnonzero(~(flat[:-1] | flat[1:]))
    return np.column_stack([break_points.positions[starts], break_points.positions[starts + 2]])


def margin_piece_ends(break_points: BreakPoints, flat: Bools) -> Floats:
    """Return both ends of every piece on the margin, ``[e]``: a neighbouring window takes in the nearer one."""
    return break_points.positions[np.concatenate([flat, [False]]) | np.concatenate([[False], flat])]


def positions_in_spans(positions: Floats, spans: Floats) -> list[Ints]:
    """Return, for each span, the indices of the positions in it, ends included."""
    slack = _EDGE_SLACK * (1.0 + np.abs(positions))
    return [np.flatnonzero((positions >= low - slack) & (positions <= high + slack)) for low, high in spans]


def min_hitting_set_size(parts: Sequence[Ints]) -> int:
    """Return the fewest positions that meet every set of neighbours; sets must be intervals of indices.

    So many of the positions are training points at least, if each set holds one. Empty sets ask for nothing.
    """
    count, last_position = 0, -1
    for part in sorted((part for part in parts if len(part)), key=lambda part: part[-1]):
        if part[0] > last_position:
            count, last_position = count + 1, int(part[-1])
    return count


def min_group_multipliers(
    net: ShallowReLU, places: Floats, sign: Floats, owner: Ints, count: int, *, kink: float, slack: float
) -> Floats:
    """Minimise the total λ of each group of places over all ways to rebuild the weights, ``[count]``.

    At a KKT point θ = Σ λ_i·y_i·∇Φ(x_i) with λ ≥ 0 and every x_i of positive λ on the margin. If all such x_i are
    among ``places``, a group whose least total is positive holds a training point: no training set without one
    gives these weights. Clarke subgradients at kinks are free, as in `margin.kkt`; a point inside a linear piece is
    a combination of the piece's two ends, so ends may stand for what lies between them.

    Args:
        net: the network, of one input; its neurons merged, for speed.
        places: positions, ``[p]``.
        sign: their labels, -1 or +1, ``[p]``.
        owner: the group of each place, -1 for none, ``[p]``.
        count: number of groups.
        kink: a neuron whose |w·x + b| is below this share of ‖[w, b]‖·‖[x, 1]‖ bends at x.
        slack: how far each weight may be missed, as a share of ‖θ‖.

    Returns:
        0 where a group can be left out, and everywhere if no multipliers rebuild the weights within the slack.

    Examples:
        >>> from divulge import margin
        >>> net = margin.solve([[-1.0], [1.0]], [-1, 1]).net
        >>> at = np.array([-1.0, 1.0])
        >>> min_group_multipliers(net, at, at, np.array([0, 1]), 2, kink=1e-6, slack=1e-7).round(3)
        array([0.707, 0.707])
    """
    gradients, kinks = _place_gradients(net, places, sign, kink)
    weights = np.concatenate([net.augmented.ravel(), net.v])
    reach = slack * float(np.linalg.norm(weights))
    # A derivative at a kink lies in [0, 1]: κ ≤ λ of its place.
    free = hstack([-eye_array(len(places)).tocsr()[kinks], eye_array(len(kinks))])
    matrix = vstack([gradients, -gradients, free]).tocsr()
    bounds = np.concatenate([weights + reach, reach - weights, np.zeros(len(kinks))])

    def minimise_total(groups: Ints) -> OptimizeResult:
        cost = np.concatenate([np.isin(owner, groups), np.zeros(len(kinks))])
        return linprog(cost, A_ub=matrix, b_ub=bounds, bounds=(0, None), method="highs")

    lowest = np.zeros(count)
    unrestricted = minimise_total(np.zeros(0, np.int64))
    if unrestricted.status == 0:
        # Groups that one solution leaves out have 0.
        for group in np.unique(owner[(unrestricted.x[: len(places)] > 0) & (owner >= 0)]):
            best = minimise_total(group)
            lowest[group] = best.fun if best.status == 0 else 0.0
    return lowest


def _place_gradients(net: ShallowReLU, places: Floats, sign: Floats, kink: float) -> tuple[csr_array, Ints]:
    """Return y·∇Φ of each place, then one column per kink, ``[3k, p + kinks]``, and the place of each kink."""
    points = np.column_stack([places, np.ones(len(places))])
    before = points @ net.augmented.T
    size = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(net.augmented, axis=1)
    bends = np.abs(before) <= kink * size
    slope = np.where(bends, 0.0, before > 0)
    inner = (sign[:, None] * slope * net.v)[:, :, None] * points[:, None]
    outer = sign[:, None] * np.maximum(before, 0.0)
    smooth = np.concatenate([inner.reshape(len(places), -1), outer], axis=1).T
    place, neuron = np.nonzero(bends)
    pull = (sign[place] * net.v[neuron])[:, None] * points[place]
    column = np.arange(len(place))
    free = coo_array(
        (pull.ravel(), (np.column_stack([2 * neuron, 2 * neuron + 1]).ravel(), np.repeat(column, 2))),
        (smooth.shape[0], len(place)),
    )
    return hstack([coo_array(smooth), free]).tocsr(), place


@dataclass(frozen=True, slots=True, eq=False)
class BreakPoints:
    """Distinct break-points of a network of one input.

    Args:
        positions: break-points, sorted, ``[K]``; repeated positions are kept once.
        values: Φ at the break-points, ``[K]``.
        net: the network with its neurons merged; nearly the same function, a few neurons wide.
    """

    positions: Floats
    values: Floats
    net: ShallowReLU


def find_break_points(net: ShallowReLU, resolution: float) -> BreakPoints:
    """Return the distinct break-points of a network of one input.

    Training leaves hundreds of neurons that have collapsed on a few directions; they are merged by direction
    and output sign. The K that count are these, not the number of neurons nor of records.

    Args:
        net: a network of one input.
        resolution: break-points closer than this are one.

    Raises:
        divulge.InputError: a network that is zero, or one that bends nowhere.
    """
    weights = net.augmented
    strength = np.abs(net.v) * np.linalg.norm(weights, axis=1)
    if strength.max(initial=0.0) == 0:
        raise InputError("net: every neuron is zero; such a network carries no information")
    is_strong = strength >= _NEGLIGIBLE_STRENGTH * strength.max()
    merged = _merge_neurons(weights[is_strong] * np.abs(net.v[is_strong])[:, None], np.sign(net.v[is_strong]))
    w, b = merged.w[:, 0], merged.b
    bending = np.abs(w) > _MIN_SLOPE * np.hypot(w, b)
    if not bending.any():
        raise InputError("net: no neuron bends the line within reach; such a network has no break-points")
    positions = drop_close(-b[bending] / w[bending], resolution)
    return BreakPoints(positions, net(positions[:, None]), merged)


def _merge_neurons(pull: Floats, sign: Floats) -> ShallowReLU:
    """Merge each group of equal direction and output sign into one balanced neuron (|v| = ‖[w, b]‖)."""
    groups = [(total, s) for s in (1.0, -1.0) for total in _group_totals(pull[sign == s])]
    size = np.sqrt([np.linalg.norm(total) for total, _ in groups])
    w = np.array([total for total, _ in groups]) / size[:, None]
    return ShallowReLU(w[:, :1], w[:, 1], size * [s for _, s in groups])


def _group_totals(pull: Floats) -> list[Floats]:
    """Sum rows whose directions follow each other within the angle that counts as equal."""
    if not len(pull):
        return []
    angle = np.arctan2(pull[:, 1], pull[:, 0])
    order = np.argsort(angle)
    turn = np.diff(angle[order], append=angle[order[0]] + 2 * np.pi)
    ends = np.flatnonzero(turn > _SAME_ANGLE)
    if not len(ends):
        return [pull.sum(axis=0)]
    # Starting after a gap keeps a group that straddles ±π whole.
    shift = ends[0] + 1
    cuts = (ends - ends[0])[1:]
    return [part.sum(axis=0) for part in np.split(pull[np.roll(order, -shift)], cuts)]


def exact_break_points(net: ShallowReLU) -> Floats:
    """Return every position where the exact line may bend, sorted, without repeats."""
    w = net.w[:, 0]
    moving = (net.v != 0) & (np.abs(w) > 1e-12 * np.abs(net.b)) & (w != 0)
    return np.unique(-net.b[moving] / w[moving])


def find_crossings(net: ShallowReLU, level: float, resolution: float) -> Floats:
    """Return the isolated solutions of Φ(x) = level, the outer rays included, sorted.

    Solutions inside a stretch where Φ stays at the level are not isolated and are left out. A peak that touches
    the level counts.
    """
    positions = exact_break_points(net)
    if not len(positions):
        return np.zeros(0)
    extent = max(1.0, float(positions[-1] - positions[0]))
    # One node beyond each end turns the rays into ordinary pieces of known slope.
    line = np.concatenate([[positions[0] - extent], positions, [positions[-1] + extent]])
    height = net(line[:, None]) - level
    flat = margin_pieces(line, height, abs(level), resolution)
    height = np.where(np.abs(height) <= _TOUCH_TOLERANCE * abs(level), 0.0, height)
    left_height, right_height = height[:-1], height[1:]
    inside = (left_height * right_height < 0) & ~flat
    roots = line[:-1][inside] - left_height[inside] * np.diff(line)[inside] / (right_height - left_height)[inside]
    touching = np.flatnonzero(height[1:-1] == 0) + 1
    isolated = touching[~flat[touching - 1] & ~flat[touching]]
    return drop_close(np.concatenate([roots, line[isolated], *_outer_crossings(line, height)]), resolution)


def margin_pieces(line: Floats, height: Floats, margin: float, resolution: float) -> Bools:
    """Flag pieces on the margin: both ends within 1 % of it, in a stretch longer than ``resolution``."""
    is_near = np.abs(height) <= MARGIN_TOLERANCE * margin
    pieces = is_near[:-1] & is_near[1:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], pieces, [False]]).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2):
        if line[stop] - line[start] <= resolution:
            pieces[start:stop] = False
    return pieces


def drop_close(points: Floats, resolution: float) -> Floats:
    """Sort positions and keep the first of those closer than ``resolution``."""
    points = np.sort(points)
    return points[np.concatenate([[True], np.diff(points) > resolution])] if len(points) else points


def _outer_crossings(line: Floats, height: Floats) -> list[Floats]:
    """Return solutions on the two rays, beyond the nodes that were added."""
    places = []
    for end, inner in ((0, 1), (-1, -2)):
        slope = (height[inner] - height[end]) / (line[inner] - line[end])
        if slope == 0:
            continue
        root = line[end] - height[end] / slope
        # A root on the added node is neither a change of sign nor a touching peak of an inner piece: it counts here.
        beyond = root <= line[0] if end == 0 else root >= line[-1]
        if beyond:
            places.append(np.array([root]))
    return places


def summarise(read: Reconstruction) -> ReconstructionSummary:
    """Summarise a reconstruction."""
    return ReconstructionSummary(
        verdict=verdict(read),
        tone="leak" if read.guaranteed and read.guarantee.standing == "holds" else "unproven",
        candidates=tuple(read.candidates.tolist()),
        labels=tuple(read.labels.tolist()),
        rules=read.rules,
        multipliers=tuple(read.multipliers.tolist()),
        residual=float(read.residual),
        ambiguous=tuple(OpenStretch(part.low, part.high, part.label, part.mean) for part in read.ambiguous),
        proven=tuple(read.proven.tolist()),
        needed=tuple(read.needed.tolist()),
        standing=read.guarantee.standing,
        windows=read.windows,
        guaranteed=read.guaranteed,
        warnings=read.warnings,
        guarantee=str(read.guarantee),
        break_points=tuple(read.break_points.tolist()),
        margin=float(read.margin),
    )


def verdict(read: Reconstruction) -> str:
    """Describe a reconstruction in a few sentences."""
    count, needed = len(read.candidates), int(read.needed.sum())
    text = f"{count} candidates; they rebuild the weights up to a residual of {read.residual:.2g}."
    if read.guaranteed and read.guarantee.standing == "conditional":
        text = (
            f"Nothing is proven, as the margin was typed in. If the training set's margin is {read.margin:g}, which "
            f"the weights cannot confirm, and {_KKT_ASSUMPTION}, at least {read.guaranteed} of the {count} points read "
            f"off the weights are training points ({needed} of them one by one); under another margin none need be."
        )
    elif read.guaranteed:
        text = (
            f"At least {read.guaranteed} of the {count} points read off the weights are training points "
            f"({needed} of them proven one by one), if {' and '.join(read.guarantee.assumes)}."
        )
    else:
        text = f"Nothing is proven: {'; '.join(read.warnings)}. Found, but not proven: {text}"
    if read.ambiguous:
        spans = ", ".join(f"[{part.low:.4g}, {part.high:.4g}]" for part in read.ambiguous)
        if read.guaranteed:
            text += f" Then training points also lie in {spans}, but the weights do not tell where."
        else:
            text += f" In {spans} the network stays on the margin, so points there cannot be told from others."
    return text
