"""The blind baseline: can members be told from non-members without asking the model at all?

If so, members and non-members differ by more than membership (a date, a source, a duplicate), and every
attack may be reading that difference: the split is confounded.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, lazy, seeds
from divulge.evaluation import likeness
from divulge.statistics import canonical
from divulge.statistics.ranking import auc
from divulge.types import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scipy import linalg, stats

    from divulge.types import Array, Bools, Floats, Ints
else:
    linalg = lazy.module("scipy.linalg")
    stats = lazy.module("scipy.stats")

FOLDS = 5


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
    """

    auc: Estimate
    confounded: bool
    p_value: float
    false_alarm: float
    records: int
    method: str

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
        most: records of both kinds to use at most, drawn by ``seed``; 2,000 give the AUC to within ±0.025 in
            seconds, and time grows with the cube.

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
    level = checks.number(false_alarm, "false_alarm", above=1e-15, below=1)
    draws = checks.integer(permutations, "permutations", least=math.ceil(1 / level - 1e-9) - 1)
    for name, side in (("x_members", inside), ("x_nonmembers", outside)):
        if len(side) < 2 * FOLDS:
            raise checks.InputError(f"{name}: at least {2 * FOLDS} records are needed, got {len(side)}")
    labels = _labels(y_members, y_nonmembers, len(inside), len(outside))

    rng = seeds.generator(checks.integer(seed, "seed", least=0), "blind")
    both = np.concatenate([inside, outside])
    order, copies = canonical.order(both, labels, np.arange(len(both)) >= len(inside))
    used = np.sort(rng.permutation(len(order))[: checks.integer(most, "most", least=4 * FOLDS)])
    order, copies = order[used], copies[used]
    memberships = _memberships(order < len(inside), copies, draws, rng)
    alike = likeness.kernel(both[order], None if labels is None else labels[order])
    guesses = _cross_validated(alike, memberships, np.array_split(rng.permutation(len(order)), FOLDS))
    areas = _areas(guesses, memberships)
    p_value = float((1 + (areas[1:] >= areas[0] - 1e-12).sum()) / (1 + draws))
    return Blind(
        auc=auc(guesses[:, 0], memberships[:, 0], confidence),
        confounded=p_value <= level,
        p_value=p_value,
        false_alarm=level,
        records=len(order),
        method=f"kernel ridge, {FOLDS} folds; {draws} permutations",
    )


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
    inside, outside = (list(_digests(side)) for side in _pair(x_members, x_nonmembers))
    shared = set(inside) & set(outside)
    at_members, at_nonmembers = (
        np.flatnonzero(np.fromiter((d in shared for d in side), bool, len(side))) for side in (inside, outside)
    )
    return Duplicates(at_members, at_nonmembers)


def _pair(x_members: object, x_nonmembers: object) -> tuple[Array, Array]:
    """Both sides as arrays of one type and one shape per record."""
    inside, outside = checks.records(x_members, "x_members"), checks.records(x_nonmembers, "x_nonmembers")
    if (inside.dtype == object) != (outside.dtype == object):
        raise checks.InputError("x_members, x_nonmembers: both must be texts, or both numbers")
    if inside.shape[1:] != outside.shape[1:]:
        raise checks.InputError(f"x_nonmembers: shape {inside.shape[1:]} per record is needed, got {outside.shape[1:]}")
    if inside.dtype == object:
        return inside.ravel(), outside.ravel()
    kind = np.result_type(inside, outside)
    return inside.astype(kind, copy=False), outside.astype(kind, copy=False)


def _labels(y_members: object, y_nonmembers: object, m: int, n: int) -> Ints | None:
    if (y_members is None) != (y_nonmembers is None):
        raise checks.InputError("y_members, y_nonmembers: give both or neither")
    if y_members is None:
        return None
    return np.r_[checks.labels(y_members, "y_members", length=m), checks.labels(y_nonmembers, "y_nonmembers", length=n)]


def _digests(x: Array) -> Iterator[bytes]:
    """A 128-bit digest of each record: collisions are out of the question, and only digests are kept."""
    if x.dtype == object:
        rows = (text.encode() for text in x)
    else:
        # -0.0 equals 0.0 but has other bits.
        rows = (np.ascontiguousarray(row + 0 if x.dtype.kind == "f" else row).tobytes() for row in x)
    return (hashlib.blake2b(row, digest_size=16).digest() for row in rows)


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
