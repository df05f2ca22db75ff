"""The blind baseline: can members be told from non-members without asking the model at all?

If so, members and non-members differ by more than membership (a date, a source, a duplicate), and every
attack may be reading that difference: the split is confounded. What it cannot see may still move an attack's score, so
`adjust_scores` takes out of a score what the records alone explain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, special, stats

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation import likeness
from divulge.evaluation.record_features import RecordFeatures, extract_features
from divulge.statistics.duplicates import (
    canonical_order,
    digest_records,
    first_of_each_group,
    fold_groups,
    groups_are_split_whole,
)
from divulge.statistics.ranking import auc
from divulge.types import Estimate
from divulge.validation import check_integer, check_labels, check_number, check_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from divulge.types import Array, Bools, Floats, Ints

FOLDS = 5
# Shifts that are tried for `Blind.detectable`: how many standard errors apart the means are; each so many times.
_TRIED = (2.5, 3.5, 4.5, 6.0, 8.0, 11.0, 15.0)
_TIMES = 10
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Blind:
    """What a classifier that never saw the model could tell.

    Attributes:
        auc: of its cross-validated guesses. The interval takes the classifiers of the folds as given and is
            a description; the verdict rests on ``p_value``.
        confounded: True when ``p_value`` is at most ``false_alarm``.
        p_value: exact permutation p-value of "members and non-members are exchangeable".
        false_alarm: chance of calling a sound split confounded.
        records: how many records were used.
        method: the classifier and the test.
        detectable: the AUC of the smallest shift along one column (or leading component) that would have been called
            confounded with about 80 % probability; None where none would.
    """

    auc: Estimate
    confounded: bool
    p_value: float
    false_alarm: float
    records: int
    method: str
    detectable: float | None = None

    def __str__(self) -> str:
        verdict = "confounded" if self.confounded else "no difference found"
        return f"{verdict}: blind AUC {self.auc}, p = {self.p_value:.3g}"


def baseline(
    x_members: object,
    x_nonmembers: object,
    seed: int = 0,
    *,
    y_members: object = None,
    y_nonmembers: object = None,
    false_alarm: float = 0.01,
    permutations: int = 199,
    confidence: float = 0.95,
    most: int = 2000,
) -> Blind:
    """Try to tell members from non-members by their records alone.

    The classifier is kernel ridge regression (a Gaussian process' mean at unit noise) on a sum of
    kernels: linear and radial on standardised columns, with summaries for images; for texts, words and
    pairs of words by tf-idf, and length, digits, capitals and years; and equality of labels where given.
    It is judged by its AUC on five held-out folds. Kernel ridge is linear in the membership vector, so
    the same folds judge all permuted vectors at once: the whole procedure, cross-validation included, is
    repeated on ``permutations`` random memberships, and the p-value is exact. (The usual interval of a
    cross-validated AUC is too short, because the folds share their training data.)

    The kernel is that of ``most`` records; four ridge regressions on all records join it: linear and radial features
    (landmarks) at several strengths. The largest of the five standardised statistics is compared with the largest of
    each permutation, so the p-value stays exact, and power grows with the data.

    Equal records, labels included, are in one fold. Where they are on one side more often than a random deal of
    records would have them, groups were divided and not records: one record of each group and side is used.

    What is drawn depends on the seed and on what the records are, not on the order in which they come or on the
    units of their columns: the same records give the same answer, also after ``x → a·x + b`` in any column, to within
    rounding (for images: in all pixels alike, with ``a > 0``).

    Args:
        x_members: numbers ``[m, ...]`` or texts ``[m]``.
        x_nonmembers: the same, ``[n, ...]``.
        seed: of the draw, the folds and the permutations.
        y_members: whole-number labels ``[m]``, or None.
        y_nonmembers: labels ``[n]``, or None; both or neither.
        false_alarm: level of the verdict, in (0, 1).
        permutations: at least ``1/false_alarm - 1``.
        confidence: coverage of the AUC's interval.
        most: records of both kinds that the kernel compares at most, drawn by ``seed``; its time grows with the cube,
            that of the other regressions with the number of records.

    Raises:
        divulge.InputError: fewer than 10 records of a kind, shapes that differ, texts on one side only, too few
            permutations for ``false_alarm``.

    References:
        Das, Zhang & Tramèr, Blind Baselines Beat Membership Inference Attacks, 2024;
        Ojala & Garriga, Permutation tests for studying classifier performance, 2010.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> baseline(rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1.0).confounded
        True
    """
    inside, outside = _pair(x_members, x_nonmembers)
    level = check_number(false_alarm, "false_alarm", above=1e-15, below=1)
    draws = check_integer(permutations, "permutations", least=math.ceil(1 / level - 1e-9) - 1)
    for name, side in (("x_members", inside), ("x_nonmembers", outside)):
        if len(side) < 2 * FOLDS:
            raise InputError(f"{name}: at least {2 * FOLDS} records are needed, got {len(side)}")
    labels = _labels(y_members, y_nonmembers, len(inside), len(outside))

    rng = seeds.generator(check_integer(seed, "seed", least=0), "blind")
    both = np.concatenate([inside, outside])
    order, copies = canonical_order(both, labels, np.arange(len(both)) >= len(inside))
    if groups_are_split_whole(copies, order < len(inside)):
        units = first_of_each_group(copies, order < len(inside))
        order, copies = order[units], copies[units]
    used = np.sort(rng.permutation(len(order))[: check_integer(most, "most", least=4 * FOLDS)])
    truth = order < len(inside)
    if not 0 < truth.sum() < len(truth):
        raise InputError("x_members, x_nonmembers: records of both kinds are needed")
    own = None if labels is None else labels[order]
    features = extract_features(both[order], own, used)
    memberships = _memberships(truth, copies, draws, rng)
    tilted = _tilted(features.linear[:, : features.plain], int(truth.sum()), copies, rng)
    columns = np.hstack([memberships, tilted])
    fold = fold_groups(copies, FOLDS, rng)
    alike = likeness.kernel(both[order[used]], None if own is None else own[used])
    guesses = _cross_validated(alike, columns[used], [np.flatnonzero(fold[used] == k) for k in range(FOLDS)])
    ridges = list(_ridge_statistics(features, columns, fold))
    shown = guesses[:, 0], truth[used]
    if len(used) < len(order):
        shown = max(ridges, key=lambda one: float(_standard(one[0], draws)[0]))[1], truth
    found = [_areas(guesses, columns[used]), *(statistics for statistics, _ in ridges)]
    statistics = np.max([_standard(one, draws) for one in found], axis=0)
    exceeding = 1 + (statistics[1 : 1 + draws, None] >= statistics - 1e-12).sum(0)
    p_values = exceeding / (1 + draws)
    p_value = float(p_values[0])
    return Blind(
        auc=auc(*shown, confidence),
        confounded=p_value <= level,
        p_value=p_value,
        false_alarm=level,
        records=len(order),
        method=(
            f"kernel ridge of {len(used):,} records, linear and radial ridge of {len(order):,}, {FOLDS} folds; "
            f"{draws} permutations"
        ),
        detectable=_detectable(p_values[1 + draws :] <= level, truth),
    )


def adjust_scores(scores: Mapping[str, Floats], x: Array, labels: Ints | None, seed: int = 0) -> dict[str, Floats]:
    """Take out of each score what the records alone explain: normal scores of ranks, less their prediction.

    A model that leaks nothing scores a record by what the record is. So what moves its score where members and
    non-members differ is a function of the records; a regression that knows nothing of membership predicts it for each
    fold from the others, and the rest is compared. A leak is in the rest: no record tells that it was trained on.
    The strength of the ridge regression on linear and radial features, and those of each class, is the one of least
    squared error, or no regression at all.

    Args:
        scores: name → ``[n]``.
        x: the records, numbers ``[n, ...]`` or texts ``[n]``.
        labels: classes ``[n]``, or None.
        seed: of the folds and landmarks.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(2000, 2)), np.arange(2000) < 1000
        >>> x[member, 0] += 0.3
        >>> kept = adjust_scores({"honest": x[:, 0], "leak": x[:, 0] + member}, x, None)
        >>> [round(auc(one, member).value, 1) for one in kept.values()]
        [0.5, 1.0]
    """
    n = len(x)
    normal = np.column_stack([special.ndtri((stats.rankdata(one) - 0.5) / n) for one in scores.values()])
    if n < 4 * FOLDS:
        return dict(zip(scores, normal.T, strict=True))
    order, copies = canonical_order(x, labels, np.zeros(n, dtype=bool))
    rng = seeds.generator(seed, "blind", "adjust")
    sample = np.sort(rng.permutation(n)[:2000])
    features = extract_features(x[order], None if labels is None else labels[order], sample)
    fold, wanted = fold_groups(copies, FOLDS, rng), normal[order] - normal.mean(0)
    best, least = np.zeros_like(wanted), (wanted**2).sum(0)
    for guesses in _ridge(features, wanted, fold, _adjusting(features, n)):
        errors = ((wanted - guesses) ** 2).sum(0)
        better = errors < least
        best[:, better], least = guesses[:, better], np.minimum(errors, least)
    rest = np.empty_like(wanted)
    rest[order] = wanted - best
    # Rounding keeps ties ties.
    return dict(zip(scores, np.round(rest, 9).T, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Duplicates:
    """Records that stand on both sides, bit by bit.

    Attributes:
        members: positions of members that equal some non-member, rising.
        nonmembers: positions of non-members that equal some member, rising.
    """

    members: Ints
    nonmembers: Ints

    def __len__(self) -> int:
        return len(self.nonmembers)


def duplicates(x_members: object, x_nonmembers: object) -> Duplicates:
    """Members and non-members that are exact copies of each other; linear in the size of the data.

    A non-member that is also a member makes every attack look worse than it is, or the split void.

    Args:
        x_members: numbers ``[m, ...]`` or texts ``[m]``.
        x_nonmembers: the same, ``[n, ...]``.

    Raises:
        divulge.InputError: NaN or infinity, shapes that differ, texts on one side only.

    Examples:
        >>> found = duplicates([[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [5.0, 6.0]])
        >>> found.members, found.nonmembers
        (array([1]), array([0]))
    """
    inside, outside = (list(digest_records(side)) for side in _pair(x_members, x_nonmembers))
    shared = set(inside) & set(outside)
    at_members, at_nonmembers = (
        np.flatnonzero(np.fromiter((d in shared for d in side), bool, len(side))) for side in (inside, outside)
    )
    return Duplicates(at_members, at_nonmembers)


def _pair(x_members: object, x_nonmembers: object) -> tuple[Array, Array]:
    """Both sides as arrays of one type and one shape per record."""
    inside, outside = check_records(x_members, "x_members"), check_records(x_nonmembers, "x_nonmembers")
    if (inside.dtype == object) != (outside.dtype == object):
        raise InputError("x_members, x_nonmembers: both must be texts, or both numbers")
    if inside.shape[1:] != outside.shape[1:]:
        raise InputError(f"x_nonmembers: shape {inside.shape[1:]} per record is needed, got {outside.shape[1:]}")
    if inside.dtype == object:
        return inside.ravel(), outside.ravel()
    kind = np.result_type(inside, outside)
    return inside.astype(kind, copy=False), outside.astype(kind, copy=False)


def _labels(y_members: object, y_nonmembers: object, m: int, n: int) -> Ints | None:
    if (y_members is None) != (y_nonmembers is None):
        raise InputError("y_members, y_nonmembers: give both or neither")
    if y_members is None:
        return None
    return np.r_[
        check_labels(y_members, "y_members", length=m),
        check_labels(y_nonmembers, "y_nonmembers", length=n),
    ]


def _memberships(truth: Bools, copies: Ints, draws: int, rng: np.random.Generator) -> Bools:
    """The true memberships and random ones, ``[n, 1 + draws]``, each with the members first among equal records.

    Which of several copies of a record is a member means nothing, so true and random memberships are told in the one
    way that does not depend on the order in which the copies came.
    """
    n, inside = len(truth), truth.sum()
    columns = np.column_stack([truth, *(rng.permutation(n) < inside for _ in range(draws))])
    return np.sort(2 * copies[:, None] + ~columns, axis=0) % 2 == 0


def _cross_validated(kernel: Floats, memberships: Bools, folds: Sequence[Ints]) -> Floats:
    """Held-out guesses for every column of memberships, as ranks within each fold, ``[n, columns]``."""
    n = len(kernel)
    wanted = memberships.astype(np.float64)
    guesses = np.empty_like(wanted)
    for fold in folds:
        rest = np.setdiff1d(np.arange(n), fold)
        if not len(rest):  # all records are equal
            guesses[fold] = 0.5
            continue
        factor = linalg.cho_factor(kernel[np.ix_(rest, rest)] + np.eye(len(rest)), lower=True)
        weights = linalg.cho_solve(factor, wanted[rest] - wanted[rest].mean(0))
        # Rounding keeps equal records equal; ranks make folds comparable.
        held_out = np.round(kernel[np.ix_(fold, rest)] @ weights, 9)
        guesses[fold] = (stats.rankdata(held_out, axis=0) - 0.5) / len(fold)
    return guesses


def _areas(guesses: Floats, memberships: Bools) -> Floats:
    """The AUC of each column, by mid-ranks."""
    ranks = stats.rankdata(guesses, axis=0)
    m = memberships.sum(0)
    return ((ranks * memberships).sum(0) - m * (m + 1) / 2) / (m * (len(guesses) - m))


def _tilted(columns: Floats, members: int, copies: Ints, rng: np.random.Generator) -> Bools:
    """Memberships that lean towards one of the ``columns`` each, by shifts of `_TRIED` standard errors, ``[n, t]``."""
    n = len(copies)
    unit = (n / (members * (n - members))) ** 0.5
    drawn = []
    for distance in _TRIED:
        for _ in range(_TIMES):
            along = np.zeros(n) if not columns.shape[1] else columns[:, rng.integers(columns.shape[1])]
            deviation = float(along.std())
            keys = rng.logistic(size=n) + distance * unit * (along - along.mean()) / max(deviation, 1e-12)
            lean = np.zeros(n, dtype=bool)
            lean[np.argsort(-keys, kind="stable")[:members]] = True
            drawn.append(lean)
    return np.sort(2 * copies[:, None] + ~np.column_stack(drawn), axis=0) % 2 == 0


def _detectable(seen: Bools, truth: Bools) -> float | None:
    """The AUC of the smallest shift tried from which on 80 % of the leaning memberships were seen; None without any."""
    rates = seen.reshape(len(_TRIED), _TIMES).mean(1)
    enough = np.flatnonzero(np.minimum.accumulate(rates[::-1])[::-1] >= _POWER)
    if not len(enough):
        return None
    unit = (len(truth) / (truth.sum() * (~truth).sum())) ** 0.5
    return float(special.ndtr(_TRIED[int(enough[0])] * unit / 2**0.5))


def _standard(statistics: Floats, draws: int) -> Floats:
    """Statistics in standard deviations of the true and the permuted memberships."""
    null = statistics[: 1 + draws]
    deviation = float(null.std())
    return (statistics - null.mean()) / (deviation if deviation > 1e-12 else 1.0)


def _ridge_statistics(features: RecordFeatures, columns: Bools, fold: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Yield, for each strength of the regression, a statistic of every membership, and the true one's ranks."""
    n = len(fold)
    wanted = columns.astype(np.float32) - columns.mean(0, dtype=np.float64).astype(np.float32)
    never = np.inf
    penalties = ((1.0, never), (1.0, n / 1000), (1.0, 1.0), (n / 30, n / 30))
    for guesses in _ridge(features, wanted, fold, [(*one, never) for one in penalties]):
        total, own = np.zeros(columns.shape[1]), np.empty(n)
        for k in range(FOLDS):
            rows = np.flatnonzero(fold == k)
            if not len(rows):
                continue
            held = guesses[rows] - guesses[rows].mean(0)
            deviation = held.std(0)
            total += (held * wanted[rows]).sum(0, dtype=np.float64) / np.where(deviation > 1e-9, deviation, np.inf)
            own[rows] = (stats.rankdata(np.round(guesses[rows, 0], 9)) - 0.5) / len(rows)
        yield np.round(total, 6), own


def _adjusting(features: RecordFeatures, n: int) -> list[tuple[float, float, float]]:
    """Penalties of linear, radial and class features from which the regression of a score is chosen."""
    never = np.inf
    plain = [(1.0, never, never), (1.0, n / 1000, never), (1.0, 1.0, never), (n / 30, n / 30, never)]
    by_class = [(1.0, never, 1.0), (1.0, 1.0, 1.0), (1.0, 0.1, 0.1)]
    return [*plain, (1.0, 0.1, never), *(by_class if features.by_class.shape[1] else [])]


def _ridge(
    features: RecordFeatures, wanted: Floats, fold: Ints, penalties: Sequence[tuple[float, float, float]]
) -> Iterator[Floats]:
    """Held-out predictions of the columns of ``wanted`` by ridge regression, ``[n, columns]`` for each penalty.

    Args:
        features: of the records, ``[n, ...]``.
        wanted: centred, ``[n, columns]``.
        fold: of each record.
        penalties: of linear, radial and class features; infinite where a block is left out.
    """
    table, wanted = features.all, wanted.astype(np.float32)
    sizes = features.linear.shape[1], features.radial.shape[1], features.by_class.shape[1]
    rows = [np.flatnonzero(fold == k) for k in range(FOLDS)]
    grams = [(table[at].T @ table[at]).astype(np.float64) for at in rows]
    sums = [(table[at].T @ wanted[at]).astype(np.float64) for at in rows]
    for penalty in penalties:
        each = np.repeat(penalty, sizes)
        kept = np.flatnonzero(np.isfinite(each))
        guesses = np.zeros_like(wanted)
        for k, at in enumerate(rows):
            if not len(at) or not len(kept):
                continue
            gram = np.sum([one for i, one in enumerate(grams) if i != k], axis=0)[np.ix_(kept, kept)]
            target = np.sum([one for i, one in enumerate(sums) if i != k], axis=0)[kept]
            gram[np.diag_indices(len(kept))] += np.maximum(each[kept], 1e-3)
            weights = linalg.cho_solve(linalg.cho_factor(gram, lower=True), target)
            guesses[at] = table[np.ix_(at, kept)] @ weights.astype(np.float32)
        yield guesses
