"""The blind baseline: a test of whether members and non-members differ without the model.

If they do, in date, source or by duplicates, every attack may detect that difference instead of membership: the split
is confounded. A difference too small for the test may still change an attack's score, so `adjust_scores` removes from a
score what the records alone explain.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, special

from divulge import lazy, seeds
from divulge.duplicates import (
    canonical_order,
    digest_records,
    first_of_each_group,
    fold_groups,
    groups_are_split_whole,
    match_records,
    orient_columns,
)
from divulge.errors import InputError
from divulge.statistics import auc
from divulge.types import Estimate, Records
from divulge.validation import check_integer, check_labels, check_number, check_records, check_vector, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import lightgbm
    from scipy import stats
    from sklearn.feature_extraction import text as sklearn_text

    from divulge.types import Array, Bools, Floats, Ints
else:
    lightgbm = lazy.module("lightgbm")
    stats = lazy.module("scipy.stats")
    sklearn_text = lazy.module("sklearn.feature_extraction.text")


FOLDS = 5
# Shifts tried for `Blind.detectable`, in standard errors of the difference of means, and the repetitions of each.
_SHIFTS = (2.5, 3.5, 4.5, 6.0, 8.0, 11.0, 15.0)
_SHIFT_REPEATS = 10
_POWER = 0.8
_BLIND_LEVEL = 0.01

# Features of records.
MAX_CHARACTERS = 20_000  # of a text
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_MAX_COLUMNS = 4096
_MAX_LINEAR = 256
_LANDMARKS = 200
_MAX_CLASSES = 64
_MAX_CLASS_FEATURES = 512
_HASHED_WORDS = 2**16
_MAX_OTHERS = 10_000  # records of neither side that labels are learned from
_MAX_TREE_COLUMNS, _COLUMNS_OF_TREE = 64, 10
_MAX_CODES = 4  # columns that boosted trees predict
_MAX_BOOSTED = 20_000  # records that each of the boosted trees learns from
_ROUNDS, _MIN_ROUNDS, _RATE = 100, 25, 0.05
_BOOSTING = {
    "objective": "regression", "num_leaves": 31, "min_data_in_leaf": 5,
    "bagging_fraction": 0.7, "bagging_freq": 1, "seed": 1, "num_threads": 1, "deterministic": True,
    "force_row_wise": True, "verbosity": -1,
}  # fmt: skip
_CHUNK_VALUES = 2**23  # values read at a time
_MAX_KERNEL = 2000  # records of the kernel, and from which components and landmarks are taken
_BLOCK = 2**14  # records of a fold, or of all, whose features or memberships are multiplied at a time
_SUMMARIES = ("brightness", "contrast", "darkest pixel", "brightest pixel", "roughness", "share of the darkest value")

_FALSE_ALARM = 0.01  # of `differences`
LABEL_ERRORS = "how badly labels are predicted from the records"


@dataclass(frozen=True, slots=True)
class Blind:
    """Result of the blind baseline.

    Attributes:
        auc: of the classifier's cross-validated predictions. Its interval takes the classifiers of the folds as given
            and describes only; the verdict is made by ``p_value``.
        confounded: whether ``p_value`` is at most ``false_alarm``.
        p_value: exact permutation p-value of the hypothesis that members and non-members are exchangeable.
        false_alarm: probability of calling a sound split confounded.
        records: number of records used.
        method: the classifier and the test.
        detectable: the AUC of the smallest shift along one column (or leading component) that would have been called
            confounded with about 80 % probability; None if none would.
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
    other_records: tuple[Array, Array | None] | None = None,
    label_errors: Floats | None = None,
    false_alarm: float = _BLIND_LEVEL,
    permutations: int = 199,
    confidence: float = 0.95,
    max_records: int = _MAX_KERNEL,
) -> Blind:
    """Test whether members can be told from non-members by their records alone.

    The classifier is kernel ridge regression (a Gaussian process' mean at unit noise) on a sum of kernels: linear and
    radial on standardised columns, with summaries for images; for texts, words and pairs of words by tf-idf, and
    length, digits, capitals and years; and equality of labels where given. Real values are two more columns, as they
    are and as normal scores of their ranks.

    The statistic is its AUC on five held-out folds. Kernel ridge is linear in the membership vector, so all permuted
    vectors are fitted at once: the whole procedure, cross-validation included, is repeated on ``permutations`` random
    memberships, and the p-value is exact. (The usual interval of a cross-validated AUC is too short, as folds share
    training data.)

    The kernel is that of ``max_records`` records; four ridge regressions on all records join it: linear and radial
    features (landmarks) at several strengths. The largest of all standardised statistics is compared with the largest
    of each permutation, so the p-value stays exact, and power grows with the data.

    Labels that are surer on one side (of another annotator, or measured with less noise) lower the loss of a model that
    saw none of the records. So the errors of predicting each label from its record, by ridge regressions and by boosted
    trees on the other folds, are compared as well, either way round.

    Equal records, labels included, are in one fold. If equal records are on one side more often than in a random
    division of records, whole groups were divided: then one record of each group and side is used.

    Random draws depend on the seed and on the records, not on their order or the units of columns: the same records
    give the same answer, also after ``x → a·x + b`` in any column, to within rounding (for images: in all pixels
    alike, with ``a > 0``).

    Args:
        x_members: numbers ``[m, ...]`` or texts ``[m]``.
        x_nonmembers: the same, ``[n, ...]``.
        seed: of the draw, the folds and the permutations.
        y_members: whole-number labels ``[m]``, which are classes; floats, which are real values; or None.
        y_nonmembers: the same ``[n]``, or None; both or neither.
        other_records: records ``[z, ...]`` of neither side and their labels ``[z]``, from which labels are learned
            as well.
        label_errors: `measure_label_errors` of members, then non-members, ``[m + n, 2]``, where that is known already.
        false_alarm: level of the verdict, in (0, 1).
        permutations: at least ``1/false_alarm - 1``.
        confidence: coverage of the AUC's interval.
        max_records: maximum number of records in the kernel, drawn by ``seed``; its time grows with the cube of that
            number, that of the other regressions in proportion to the number of records.

    Raises:
        divulge.InputError: fewer than 10 records of a kind, shapes that differ, texts on one side only, too few
            permutations for ``false_alarm``, ``other_records`` of another kind.

    References:
        Das, Zhang & Tramèr, Blind Baselines Beat Membership Inference Attacks, 2024;
        Ojala & Garriga, Permutation tests for studying classifier performance, 2010.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> baseline(rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1.0).confounded
        True
    """
    inside, outside = _check_pair(x_members, x_nonmembers)
    level = check_number(false_alarm, "false_alarm", above=1e-15, below=1)
    n_permutations = check_integer(permutations, "permutations", minimum=math.ceil(1 / level - 1e-9) - 1)
    for name, side in (("x_members", inside), ("x_nonmembers", outside)):
        if len(side) < 2 * FOLDS:
            raise InputError(f"{name}: at least {2 * FOLDS} records are needed, got {len(side)}")
    labels = _check_labels(y_members, y_nonmembers, len(inside), len(outside))
    other_records = None if other_records is None or labels is None else _check_others(other_records, inside, labels)

    rng = seeds.generator(check_integer(seed, "seed", minimum=0), "blind")
    records, n_inside = np.concatenate([inside, outside]), len(inside)
    del x_members, x_nonmembers, inside, outside  # where they are copies, they are not held any longer
    order, copies = canonical_order(records, labels, np.arange(len(records)) >= n_inside)
    if groups_are_split_whole(copies, order < n_inside):
        units = first_of_each_group(copies, order < n_inside)
        order, copies = order[units], copies[units]
    kernel_rows = np.sort(rng.permutation(len(order))[: check_integer(max_records, "max_records", minimum=4 * FOLDS)])
    truth = order < n_inside
    if not 0 < truth.sum() < len(truth):
        raise InputError("x_members, x_nonmembers: records of both kinds are needed")
    ordered_labels = None if labels is None else labels[order]
    features = _extract_features(records[order], ordered_labels, kernel_rows)
    # The true memberships and random ones. Which of several copies of a record is a member is arbitrary: members come
    # first among equal records, so that the result does not depend on the order of copies.
    random = (rng.permutation(len(truth)) < truth.sum() for _ in range(n_permutations))
    shifted = _shifted_memberships(features.linear[:, : features.plain], int(truth.sum()), rng)
    memberships = _Memberships.pack(_put_members_first(itertools.chain([truth], random, shifted), copies), len(truth))
    folds = fold_groups(copies, FOLDS, rng)
    similarity = _similarity_kernel(
        records[order[kernel_rows]], None if ordered_labels is None else ordered_labels[kernel_rows]
    )
    guesses = _kernel_ridge_guesses(
        similarity, memberships[kernel_rows], [np.flatnonzero(folds[kernel_rows] == k) for k in range(FOLDS)]
    )
    del similarity
    table, sizes = features.without_classes().centred_table(), features.without_classes().sizes
    del features
    ridges = list(_ridge_statistics(table, sizes, memberships, folds))
    del table
    surprises = (
        _label_surprises(records[order], ordered_labels, folds, kernel_rows, other_records)
        if label_errors is None
        else list(label_errors[order].T)
    )
    guesses_and_truth = guesses[:, 0], truth[kernel_rows]
    if len(kernel_rows) < len(order):
        guesses_and_truth = max(ridges, key=lambda group: float(_standard(group[0], n_permutations)[0]))[1], truth
    area_groups = [_aucs(guesses, memberships[kernel_rows]), *(statistics for statistics, _ in ridges)]
    for surprise in surprises:
        surprise_auc = _aucs(surprise[:, None], memberships)
        area_groups += [surprise_auc, 1 - surprise_auc]
    statistics = np.max([_standard(group, n_permutations) for group in area_groups], axis=0)
    exceeding = 1 + (statistics[1 : 1 + n_permutations, None] >= statistics - 1e-12).sum(0)
    p_values = exceeding / (1 + n_permutations)
    p_value = float(p_values[0])
    evidence = ""
    if surprises and p_value <= level:
        strengths = [float(_standard(group, n_permutations)[0]) for group in area_groups]
        strongest = int(np.argmax(strengths)) - (len(strengths) - 2 * len(surprises))
        if strongest >= 0:
            surprise = surprises[strongest // 2]
            guesses_and_truth = surprise if strongest % 2 == 0 else -surprise, truth
            evidence = f"; most telling is {LABEL_ERRORS}"
    return Blind(
        auc=auc(*guesses_and_truth, confidence),
        confounded=p_value <= level,
        p_value=p_value,
        false_alarm=level,
        records=len(order),
        method=(
            f"kernel ridge of {len(kernel_rows):,} records, linear and radial ridge of {len(order):,}, {FOLDS} folds; "
            f"{n_permutations} permutations{evidence}"
        ),
        detectable=_detectable(p_values[1 + n_permutations :] <= level, truth),
    )


def estimate_memory(n: int, record: Array, n_classes: int) -> int:
    """Estimate the bytes that are held at once by `measure_label_errors`, `baseline` and `adjust_scores`, in turn.

    Args:
        n: number of records.
        record: one of them, ``[1, ...]``, or a text in an array ``[1]``.
        n_classes: number of classes; 0 without labels or for real values.

    Examples:
        >>> estimate_memory(100_000, np.zeros((1, 10)), 2) // 2**20  # MiB
        203
    """
    is_text, values = record.dtype == object, 1 if record.dtype == object else max(record.size, 1)
    linear = _MAX_LINEAR + 10 if is_text else min(values, _MAX_LINEAR) + (len(_SUMMARIES) if record.ndim > 3 else 0)
    indicators = min(n_classes, _MAX_CLASSES)
    by_class = linear * indicators if linear * indicators <= _MAX_CLASS_FEATURES else 0
    radial = min(n, _LANDMARKS) * (2 if record.ndim > 3 else 1)
    n_memberships, n_kernel = 200 + len(_SHIFTS) * _SHIFT_REPEATS, min(n, _MAX_KERNEL)
    # Linear features are held before and after they are scaled, and in the table; records as given and in order.
    copies = 0 if is_text else 3 * record.nbytes
    held = n * (copies + 4 * 2 * (linear + indicators) + 8 * 20)
    table = 4 * n * (linear + indicators + radial)
    block = min(n, _BLOCK) * (9 * n_memberships + 8 * (linear + radial))
    compared = n * n_memberships / 8 + max(5 * 8 * n_kernel**2, table + block)
    explained = table + 4 * n * (by_class + 2 * 20)
    return round(held + max(compared, explained))


def baseline_with_features(
    x: Array,
    y: Array | None,
    features: Floats | None,
    is_member: Bools,
    seed: int = 0,
    other_records: tuple[Array, Array | None] | None = None,
    label_errors: Floats | None = None,
) -> Blind:
    """Test whether members can be told from non-members by their records, or by what else is known of each.

    Each of the two is tested at half the level, and the p-value is Bonferroni's: features that differ between the sets
    (extracted in other runs, say) move the scores of attacks that learn from them as a difference of records would.

    Args:
        x: records ``[n, ...]``, numbers or texts.
        y: their classes or real values ``[n]``, or None.
        features: numbers ``[n, d]``, or None: then this is `baseline`.
        is_member: bool ``[n]``.
        seed: as for `baseline`.
        other_records: as for `baseline`.
        label_errors: of each record, as for `baseline`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(200, 2)), np.arange(200) < 100
        >>> baseline_with_features(x, None, x + member[:, None], member).confounded
        True
    """
    y_members, y_nonmembers = (None, None) if y is None else (y[is_member], y[~is_member])
    level = _BLIND_LEVEL if features is None else _BLIND_LEVEL / 2
    tested = baseline(
        x[is_member],
        x[~is_member],
        seed,
        y_members=y_members,
        y_nonmembers=y_nonmembers,
        other_records=other_records,
        label_errors=None
        if label_errors is None
        else np.concatenate([label_errors[is_member], label_errors[~is_member]]),
        false_alarm=level,
    )
    if features is None:
        return tested
    features_baseline = baseline(features[is_member], features[~is_member], seed, false_alarm=level)
    worse = features_baseline if features_baseline.p_value < tested.p_value else tested
    source = "the given features" if worse is features_baseline else "records"
    return replace(
        worse,
        p_value=min(1.0, 2 * worse.p_value),
        false_alarm=_BLIND_LEVEL,
        method=f"{worse.method}; of {source}, the more telling of records and the given features",
    )


def adjust_scores(
    scores: Mapping[str, Floats],
    x: Array,
    labels: Array | None,
    seed: int = 0,
    other_records: tuple[Array, Array | None] | None = None,
    label_errors: Floats | None = None,
) -> dict[str, Floats]:
    """Return the residuals of the scores, as normal scores of ranks, after regression on the records.

    Without a leak a score is a function of the record. A regression that does not use membership predicts it for each
    fold from the other folds, and the residual is compared. A leak remains in the residual, as no record tells that it
    was trained on. The ridge regression uses linear, radial and class features; its penalty has the smallest squared
    error, and where no regression does better than a constant, none is used. How badly the record's label is predicted
    from the record, out of fold, by ridge regressions and by boosted trees, is a feature as well.

    Args:
        scores: name → ``[n]``.
        x: the records, numbers ``[n, ...]`` or texts ``[n]``.
        labels: classes ``[n]``, int; real values ``[n]``, float; or None.
        seed: of the folds and landmarks.
        other_records: further records and their labels, from which labels are learned as well.
        label_errors: `measure_label_errors` of the records, where that is known already.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(2000, 2)), np.arange(2000) < 1000
        >>> x[member, 0] += 0.3
        >>> kept = adjust_scores({"honest": x[:, 0], "leak": x[:, 0] + member}, x, None)
        >>> [round(auc(one, member).value, 1) for one in kept.values()]
        [0.5, 1.0]
    """
    n = len(x)
    normal = np.column_stack([special.ndtri((stats.rankdata(values) - 0.5) / n) for values in scores.values()])
    if n < 4 * FOLDS:
        return dict(zip(scores, normal.T, strict=True))
    order, copies = canonical_order(x, labels, np.zeros(n, dtype=bool))
    rng = seeds.generator(seed, "blind", "adjust")
    sample = np.sort(rng.permutation(n)[:_MAX_KERNEL])
    ordered_labels = None if labels is None else labels[order]
    features = _extract_features(x[order], ordered_labels, sample)
    folds, targets = fold_groups(copies, FOLDS, rng), normal[order] - normal.mean(0)
    surprises = (
        _label_surprises(x[order], ordered_labels, folds, sample, other_records)
        if label_errors is None
        else label_errors[order].T
    )
    features = features.join_blocks(
        [_linear_and_radial_block(_normal_scores(surprise)[:, None], sample) for surprise in surprises]
    )
    best_guesses, best_errors = np.zeros_like(targets, dtype=np.float32), (targets**2).sum(0)
    # Penalties of linear, radial and class features; those of class features are tried where there are any.
    unused = np.inf
    penalties = [(1.0, unused, unused), (1.0, n / 1000, unused), (1.0, 1.0, unused), (n / 30, n / 30, unused)]
    penalties.append((1.0, 0.1, unused))
    if features.class_indicators.shape[1]:
        penalties += [(1.0, unused, 1.0), (1.0, 1.0, 1.0), (1.0, 0.1, 0.1)]
    table, sizes = features.centred_table(), features.sizes
    del features
    for guesses in _ridge_predictions(table, sizes, targets, folds, penalties):
        errors = ((targets - guesses) ** 2).sum(0)
        is_better = errors < best_errors
        best_guesses[:, is_better], best_errors = guesses[:, is_better], np.minimum(errors, best_errors)
    residuals = np.empty_like(targets)
    residuals[order] = targets - best_guesses
    # Residuals are rounded so that ties remain ties.
    return dict(zip(scores, np.round(residuals, 9).T, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Duplicates:
    """Records that appear in both sets, equal in the digits that both sets have.

    Attributes:
        members: positions of members that equal a non-member, ascending.
        nonmembers: positions of non-members that equal a member, ascending.
    """

    members: Ints
    nonmembers: Ints

    def __len__(self) -> int:
        return len(self.nonmembers)


def duplicates(x_members: object, x_nonmembers: object) -> Duplicates:
    """Find members and non-members that are copies of each other, whatever precision each side is stored in.

    A non-member that is also a member makes attacks look weaker than they are, or the split void.

    Args:
        x_members: numbers ``[m, ...]`` or texts ``[m]``.
        x_nonmembers: the same, ``[n, ...]``.

    Raises:
        divulge.InputError: NaN or infinity, shapes that differ, texts on one side only.

    Examples:
        >>> copies = duplicates([[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [5.0, 6.0]])
        >>> copies.members, copies.nonmembers
        (array([1]), array([0]))
    """
    _check_pair(x_members, x_nonmembers)
    groups, other_groups = match_records({"members": Records(x_members), "nonmembers": Records(x_nonmembers)}).groups
    return Duplicates(np.flatnonzero(np.isin(groups, other_groups)), np.flatnonzero(np.isin(other_groups, groups)))


def differences(
    x: Array,
    inside: Bools,
    labels: Array | None = None,
    *,
    max_differences: int = 3,
    column_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Name the columns, image summaries and classes in which members and non-members differ, most significant first.

    Each is compared by rank sums (classes by their shares), with Bonferroni's correction at 1 %. Use it to describe a
    difference that a test has found; columns that differ only jointly are not named.

    Args:
        x: numbers ``[n, ...]``, or texts, of which only the labels are compared.
        inside: bool ``[n]``, True for members.
        labels: classes ``[n]``, int; real values ``[n]``, float, which are compared as a column; or None.
        max_differences: maximum number of differences.
        column_names: of the columns of ``x``; None where they have none.
        class_names: of the classes, by their numbers; None where they have none.

    Examples:
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> x[:200, 1] += 1
        >>> differences(x, np.arange(400) < 200)[0]
        'column 1 (counted from 0) is larger among the members (AUC 0.78)'
        >>> differences(x, np.arange(400) < 200, column_names=["age", "income", "height"])[0]
        'income is larger among the members (AUC 0.78)'
    """
    columns, names = _compared_columns(x)
    if column_names is not None and x.ndim == 2:
        names = list(column_names[: columns.shape[1]])
    if labels is not None and labels.dtype.kind == "f":
        columns, names, labels = np.column_stack([columns, labels]), [*names, "y"], None
    descriptions: list[tuple[float, str]] = []
    m, n = int(inside.sum()), int((~inside).sum())
    class_labels = np.zeros(len(inside), dtype=np.int64) if labels is None else labels
    classes = np.unique(class_labels)
    tests = max(1, columns.shape[1] + len(classes))
    for name, column in zip(names, columns.T, strict=True):
        ranks = stats.rankdata(column)
        auc = float((ranks[inside].sum() - m * (m + 1) / 2) / (m * n))
        deviation = float(ranks.std()) / ((m + n - 1) * m * n) ** 0.5
        distance = abs(auc - 0.5) / deviation if deviation else 0.0
        direction = "larger" if auc > 0.5 else "smaller"
        descriptions.append((distance, f"{name} is {direction} among the members (AUC {max(auc, 1 - auc):.2f})"))
    for class_label in classes:
        member_share, nonmember_share = ((class_labels[rows] == class_label).mean() for rows in (inside, ~inside))
        pooled = (m * member_share + n * nonmember_share) / (m + n)
        deviation = (pooled * (1 - pooled) * (1 / m + 1 / n)) ** 0.5
        distance = abs(member_share - nonmember_share) / deviation if deviation else 0.0
        shares = f"{member_share:.1%} of the members and {nonmember_share:.1%} of the non-members"
        name = f"class {class_label}" if class_names is None else f"class {class_names[class_label]}"
        descriptions.append((distance, f"{name} is {shares}"))
    limit = float(stats.norm.isf(_FALSE_ALARM / 2 / tests))
    significant = sorted((pair for pair in descriptions if pair[0] > limit), key=lambda pair: -pair[0])
    return tuple(text.replace("%", " %") for _, text in significant[:max_differences])


def _check_pair(x_members: object, x_nonmembers: object) -> tuple[Array, Array]:
    """Return both sides as arrays of one dtype and one shape per record."""
    inside, outside = check_records(x_members, "x_members"), check_records(x_nonmembers, "x_nonmembers")
    if (inside.dtype == object) != (outside.dtype == object):
        raise InputError("x_members, x_nonmembers: both must be texts, or both numbers")
    if inside.shape[1:] != outside.shape[1:]:
        raise InputError(f"x_nonmembers: shape {inside.shape[1:]} per record is needed, got {outside.shape[1:]}")
    if inside.dtype == object:
        return inside.ravel(), outside.ravel()
    common_dtype = np.result_type(inside, outside)
    return inside.astype(common_dtype, copy=False), outside.astype(common_dtype, copy=False)


def _check_labels(y_members: object, y_nonmembers: object, m: int, n: int) -> Array | None:
    """Return the classes of both sides, or their real values as float64."""
    if (y_members is None) != (y_nonmembers is None):
        raise InputError("y_members, y_nonmembers: give both or neither")
    if y_members is None:
        return None
    sides = (("y_members", y_members, m), ("y_nonmembers", y_nonmembers, n))
    if any(to_numpy(values, name).dtype.kind == "f" for name, values, _ in sides):
        return np.concatenate([check_vector(values, name, length=length) for name, values, length in sides])
    return np.concatenate([check_labels(values, name, length=length) for name, values, length in sides])


def _check_others(other_records: tuple[object, object], inside: Array, labels: Array) -> tuple[Array, Array | None]:
    """Return the records of neither side and their labels; raise where they are of another kind."""
    if not isinstance(other_records, tuple) or len(other_records) != 2:
        raise InputError(
            f"other_records: records and their labels are needed, a tuple of two, got {type(other_records).__name__}"
        )
    records = check_records(other_records[0], "other_records")
    if (records.dtype == object) != (inside.dtype == object):
        raise InputError("other_records: texts or numbers are needed, as the other records are")
    records = records.ravel() if inside.dtype == object else records
    if records.shape[1:] != inside.shape[1:]:
        raise InputError(f"other_records: shape {inside.shape[1:]} per record is needed, got {records.shape[1:]}")
    if other_records[1] is None:
        return records, None
    if labels.dtype.kind == "f":
        return records, check_vector(other_records[1], "other_records", length=len(records))
    return records, check_labels(other_records[1], "other_records", length=len(records))


@dataclass(frozen=True, slots=True, eq=False)
class _Memberships:
    """Memberships of records, the true and random ones, bool ``[n, columns]``, of which eight take a byte.

    Examples:
        >>> memberships = _Memberships.pack([np.array([True, False]), np.array([False, True])], 2)
        >>> memberships[np.array([1])]
        array([[False,  True]])
    """

    packed: Array
    n_columns: int

    @classmethod
    def pack(cls, columns: Iterable[Bools], n: int) -> _Memberships:
        """Pack columns of ``n`` records, eight at a time."""
        remaining, packed, n_columns = iter(columns), [], 0
        while some := list(itertools.islice(remaining, 8)):
            packed.append(np.packbits(np.column_stack(some), axis=1))
            n_columns += len(some)
        return cls(np.hstack(packed).reshape(n, -1), n_columns)

    def __getitem__(self, rows: Ints | slice) -> Bools:
        return np.unpackbits(self.packed[rows], axis=1, count=self.n_columns).view(bool)


def _put_members_first(columns: Iterable[Bools], copies: Ints) -> Iterator[Bools]:
    """Yield columns of memberships in which members come before non-members among equal records."""
    _, first, sizes = np.unique(copies, return_index=True, return_counts=True)
    repeated = np.repeat(sizes > 1, sizes)  # equal records follow each other
    groups = np.repeat(2 * first, sizes)[repeated]
    for column in columns:
        column[repeated] = np.sort(groups + ~column[repeated]) % 2 == 0
        yield column


def _kernel_ridge_guesses(kernel: Floats, memberships: Bools, folds: Sequence[Ints]) -> Floats:
    """Guess held-out memberships, every column, as ranks within each fold, ``[n, columns]``."""
    n = len(kernel)
    targets = memberships.astype(np.float64)
    guesses = np.empty_like(targets)
    for fold in folds:
        training_rows = np.setdiff1d(np.arange(n), fold)
        if not len(training_rows):  # All records are equal.
            guesses[fold] = 0.5
            continue
        factor = linalg.cho_factor(
            kernel[np.ix_(training_rows, training_rows)] + np.eye(len(training_rows)), lower=True
        )
        weights = linalg.cho_solve(factor, targets[training_rows] - targets[training_rows].mean(0))
        # Predictions are rounded so that equal records tie, and ranked so that folds are comparable.
        held_out = np.round(kernel[np.ix_(fold, training_rows)] @ weights, 9)
        guesses[fold] = (stats.rankdata(held_out, axis=0) - 0.5) / len(fold)
    return guesses


def _aucs(guesses: Floats, memberships: Bools | _Memberships) -> Floats:
    """Return the AUC of each column, by mid-ranks."""
    ranks = stats.rankdata(guesses, axis=0)
    m, rank_sums = np.zeros(1, dtype=np.int64), np.zeros(1)
    for start in range(0, len(ranks), _BLOCK):  # sums of mid-ranks are exact in any order
        block = memberships[start : start + _BLOCK]
        m, rank_sums = m + block.sum(0), rank_sums + (ranks[start : start + _BLOCK] * block).sum(0)
    return (rank_sums - m * (m + 1) / 2) / (m * (len(guesses) - m))


def _shifted_memberships(columns: Floats, members: int, rng: np.random.Generator) -> Iterator[Bools]:
    """Yield memberships that are shifted along one of the ``columns`` each, by `_SHIFTS` standard errors."""
    n = len(columns)
    unit = (n / (members * (n - members))) ** 0.5
    for distance in np.repeat(_SHIFTS, _SHIFT_REPEATS):
        along = np.zeros(n) if not columns.shape[1] else columns[:, rng.integers(columns.shape[1])]
        deviation = float(along.std())
        keys = rng.logistic(size=n) + distance * unit * (along - along.mean()) / max(deviation, 1e-12)
        membership = np.zeros(n, dtype=bool)
        membership[np.argpartition(-keys, members)[:members]] = True
        yield membership


def _detectable(detected: Bools, truth: Bools) -> float | None:
    """Return the AUC of the smallest shift from which on 80 % of the shifted memberships were detected, or None."""
    rates = detected.reshape(len(_SHIFTS), _SHIFT_REPEATS).mean(1)
    is_powerful = np.flatnonzero(np.minimum.accumulate(rates[::-1])[::-1] >= _POWER)
    if not len(is_powerful):
        return None
    unit = (len(truth) / (truth.sum() * (~truth).sum())) ** 0.5
    return float(special.ndtr(_SHIFTS[int(is_powerful[0])] * unit / 2**0.5))


def _standard(statistics: Floats, draws: int) -> Floats:
    """Standardise statistics by the mean and deviation of the true and the permuted memberships."""
    null = statistics[: 1 + draws]
    deviation = float(null.std())
    return (statistics - null.mean()) / (deviation if deviation > 1e-12 else 1.0)


def _ridge_statistics(
    table: Floats, sizes: Sequence[int], memberships: _Memberships, folds: Ints
) -> Iterator[tuple[Floats, Floats]]:
    """Yield, for each strength of the regression, a statistic of every membership, and the true one's ranks.

    The statistic is the sum over folds of the covariance of held-out guesses and memberships, in standard deviations of
    the guesses. Both are quadratic in the weights, so that they follow from sums over the records of a fold.
    """
    n, never = len(folds), np.inf
    penalties = ((1.0, never), (1.0, n / 1000), (1.0, 1.0), (n / 30, n / 30))
    columns, true_share = memberships.n_columns, float((memberships.packed[:, 0] >= 128).mean())  # of each membership
    sums = _sum_folds(table, lambda rows: memberships[rows].astype(np.float32) - np.float32(true_share), columns, folds)
    # Equal records differ by exactly nothing from their mean, and their guesses are no statistic.
    spreads = [_sum_spread(table, rows, moments[0]) for rows, moments in zip(sums.rows, sums.moments, strict=True)]
    for used_columns, weights in _ridge_weights(sums, [(*pair, never) for pair in penalties], sizes):
        total, guesses_by_fold = np.zeros(columns), np.empty(n)
        for rows, spread, products, moments, fold_weights in zip(
            sums.rows[:FOLDS], spreads, sums.products, sums.moments, weights, strict=False
        ):
            if not len(rows):
                continue
            guesses_by_fold[rows] = 0.5
            if fold_weights is None:
                continue
            means, target_sums = moments[0][used_columns] / len(rows), moments[1]
            products = products[used_columns] - np.outer(means, target_sums)
            spread = spread[np.ix_(used_columns, used_columns)] / len(rows)
            variance = (fold_weights * (spread @ fold_weights)).sum(0)
            is_varied = variance > 1e-18
            deviation = np.sqrt(np.where(is_varied, variance, np.inf))
            total += (fold_weights * products).sum(0) / deviation
            if is_varied[0]:
                guesses = _predict(table, rows, used_columns, fold_weights[:, :1])[:, 0]
                guesses_by_fold[rows] = (stats.rankdata(np.round(guesses, 9)) - 0.5) / len(rows)
        yield np.round(total, 6), guesses_by_fold


def _label_surprises(
    x: Array,
    labels: Array | None,
    folds: Ints,
    sample: Ints,
    other_records: tuple[Array, Array | None] | None,
) -> list[Floats]:
    """Return two squared errors of each label's prediction from its record, ``[n]``; none without labels that differ.

    Ridge regressions on the other folds, and on ``other_records``, predict an indicator of each class, or the normal
    score of a real value; the strength with the smallest error is taken. Boosted trees, which learn interactions of
    columns that ridge regressions do not, predict the same. Membership is not used.
    """
    if labels is None or (labels == labels[0]).all():
        return []
    n = len(labels)
    if other_records is not None and other_records[1] is not None:
        other_x, other_labels = _draw_others(other_records[0], other_records[1])
        x, labels = np.concatenate([x, other_x]), np.concatenate([labels, other_labels])
        folds = np.concatenate([folds, np.full(len(other_x), FOLDS)])
    if labels.dtype.kind == "f":
        targets = _normal_scores(labels)[:, None]
    else:
        targets = (labels[:, None] == _frequent_classes(labels)) * 1.0
    targets = targets - targets.mean(0)
    penalties = [(1.0, np.inf, np.inf), *((min(1.0, 10 * radial), radial, np.inf) for radial in (1.0, 0.1, 0.03, 0.01))]
    features = _extract_features(x, None, sample)
    best_errors, lowest_error = np.zeros(n), np.inf
    tree_columns, table, sizes = _tree_columns(x, features), features.centred_table(), features.sizes
    del features
    for guesses in _ridge_predictions(table, sizes, targets, folds, penalties):
        errors = ((targets[:n] - guesses[:n]) ** 2).sum(1)
        if errors.sum() < lowest_error:
            best_errors, lowest_error = errors, float(errors.sum())
    del table
    targets = _code_classes(targets)
    boosted = targets[:n] - _boosted_predictions(tree_columns, targets, folds)
    # Errors are rounded so that ties do not depend on the machine.
    return [np.round(best_errors, 6), np.round((boosted**2).sum(1), 6)]


def measure_label_errors(
    x: Array, labels: Array | None, seed: int = 0, other_records: tuple[Array, Array | None] | None = None
) -> Floats | None:
    """Return how badly each label is predicted from its record by what all other folds teach, ``[n, 2]``.

    Two squared errors: of ridge regressions, and of boosted trees. None without labels that differ, or with too few
    records to learn from. Several comparisons of the same records need them once: they do not depend on membership.

    Args:
        x: records, numbers ``[n, ...]`` or texts ``[n]``.
        labels: as for `adjust_scores`.
        seed: of the folds.
        other_records: as for `adjust_scores`.

    Examples:
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> labels = (x[:, 0] > 0).astype(int)
        >>> labels[:5] = 1 - labels[:5]
        >>> errors = measure_label_errors(x, labels)
        >>> bool((errors[:5].mean(0) > 3 * errors[5:].mean(0)).all())
        True
    """
    if labels is None or len(x) < 4 * FOLDS or (labels == labels[0]).all():
        return None
    order, copies = canonical_order(x, labels, np.zeros(len(x), dtype=bool))
    rng = seeds.generator(seed, "blind", "label errors")
    sample = np.sort(rng.permutation(len(x))[:_MAX_KERNEL])
    errors = np.empty((len(x), 2))
    errors[order] = np.column_stack(
        _label_surprises(x[order], labels[order], fold_groups(copies, FOLDS, rng), sample, other_records)
    )
    return errors


def _code_classes(targets: Floats) -> Floats:
    """Return at most `_MAX_CODES` columns: indicators of two classes are one, those of many are summed at random."""
    columns = targets.shape[1]
    if columns <= 2:
        return targets[:, :1]
    if columns <= _MAX_CODES:
        return targets
    signs = seeds.generator(0, "blind", "codes").choice([-1.0, 1.0], (columns, _MAX_CODES))
    return targets @ signs


def _tree_columns(x: Array, features: _RecordFeatures) -> Floats:
    """Return the columns that trees split, ``[n, d]``: ranks, so that units change nothing, or leading components."""
    rows = x.reshape(len(x), -1)
    if x.dtype == object or rows.shape[1] > _MAX_TREE_COLUMNS:
        plain = features.linear[:, : features.plain]
        return orient_columns(plain[:, np.sort(np.argsort(-plain.var(0), kind="stable")[:_MAX_TREE_COLUMNS])])
    oriented = orient_columns(rows[:, (rows != rows[:1]).any(0)])
    ranks = [np.unique(column, return_inverse=True)[1] for column in oriented.T]
    return np.array(ranks, dtype=np.float64).reshape(len(ranks), len(x)).T


def _boosted_predictions(columns: Floats, targets: Floats, folds: Ints) -> Floats:
    """Return held-out predictions of the targets of all records but those of fold `FOLDS`, ``[n, targets]``."""
    n = int((folds < FOLDS).sum())
    rounds = max(_MIN_ROUNDS, min(_ROUNDS, len(targets) // 10) // targets.shape[1])
    shared = min(0.8, _COLUMNS_OF_TREE / max(columns.shape[1], 1))
    settings = {"learning_rate": _RATE * _ROUNDS / rounds, "feature_fraction": shared, **_BOOSTING}
    guesses = np.zeros((n, targets.shape[1]))
    for k in range(FOLDS):
        held_out, training_rows = np.flatnonzero(folds == k), np.flatnonzero(folds != k)
        if not len(held_out) or not len(training_rows) or not columns.shape[1]:
            continue
        # In canonical order every second or third record is as good as a random draw.
        training_rows = training_rows[:: -(-len(training_rows) // _MAX_BOOSTED)]
        table = lightgbm.Dataset(columns[training_rows], free_raw_data=False)
        for j, target in enumerate(targets.T):
            table.set_label(target[training_rows])
            # Otherwise LightGBM writes the trees as text and reads them again.
            trees = lightgbm.train(settings, table, num_boost_round=rounds, keep_training_booster=True)
            guesses[held_out, j] = trees.predict(columns[held_out], num_threads=1)
    return guesses


def _draw_others(x: Array, labels: Array) -> tuple[Array, Array]:
    """Return at most `_MAX_OTHERS` records in canonical order, the same ones whatever their order."""
    if len(x) > _MAX_OTHERS:
        rows = np.argsort(np.array(list(digest_records(x))), kind="stable")[:_MAX_OTHERS]
        x, labels = x[rows], labels[rows]
    order, _ = canonical_order(x, labels, np.zeros(len(x), dtype=bool))
    return x[order], labels[order]


def _normal_scores(values: Floats) -> Floats:
    return np.asarray(special.ndtri((stats.rankdata(values) - 0.5) / len(values)), dtype=np.float64)


def _frequent_classes(labels: Ints) -> Ints:
    """Return the most frequent classes, at most `_MAX_CLASSES`."""
    classes, counts = np.unique(labels, return_counts=True)
    return classes[np.sort(np.argsort(-counts, kind="stable")[:_MAX_CLASSES])]


def _ridge_predictions(
    table: Floats,
    sizes: Sequence[int],
    targets: Floats,
    folds: Ints,
    penalties: Sequence[tuple[float, float, float]],
) -> Iterator[Floats]:
    """Yield held-out predictions of the columns of ``targets`` by ridge regression, ``[n, columns]`` for each penalty.

    Args:
        table: centred features of the records, ``[n, p]``.
        sizes: number of linear, radial and class features.
        targets: centred, ``[n, columns]``.
        folds: the fold of each record; those in fold `FOLDS` are in every regression and not predicted.
        penalties: of linear, radial and class features; infinite where a block is left out.
    """
    sums = _sum_folds(table, lambda rows: targets[rows].astype(np.float32), targets.shape[1], folds)
    for used_columns, weights in _ridge_weights(sums, penalties, sizes):
        guesses = np.zeros(targets.shape, dtype=np.float32)
        for rows, fold_weights in zip(sums.rows, weights, strict=False):
            if fold_weights is not None:
                guesses[rows] = _predict(table, rows, used_columns, fold_weights)
        yield guesses


@dataclass(frozen=True, slots=True, eq=False)
class _FoldSums:
    """What ridge regressions need of each fold, `FOLDS` of them and those records that are never predicted.

    Attributes:
        rows: of the fold.
        grams: products of features, float64 ``[p, p]``.
        products: of features and targets, float64 ``[p, columns]``.
        moments: sums of the features ``[p]`` and of the targets ``[columns]``, float64.
    """

    rows: list[Ints]
    grams: list[Floats]
    products: list[Floats]
    moments: list[tuple[Floats, Floats]]


def _sum_folds(table: Floats, read_targets: Callable[[Ints], Floats], columns: int, folds: Ints) -> _FoldSums:
    """Sum products of features, and with the targets of rows, over each fold, a block of records at a time."""
    p = table.shape[1]
    sums = _FoldSums([np.flatnonzero(folds == k) for k in range(FOLDS + 1)], [], [], [])
    for rows in sums.rows:
        gram, products = np.zeros((p, p)), np.zeros((p, columns))
        feature_sums, target_sums = np.zeros(p), np.zeros(columns)
        for start in range(0, len(rows), _BLOCK):
            block = table[rows[start : start + _BLOCK]]
            target_block = read_targets(rows[start : start + _BLOCK])
            gram += block.T @ block.copy()  # of one array NumPy takes another routine, whose last digits differ
            products += block.T @ target_block
            feature_sums += block.sum(0, dtype=np.float64)
            target_sums += target_block.sum(0, dtype=np.float64)
        sums.grams.append(gram)
        sums.products.append(products)
        sums.moments.append((feature_sums, target_sums))
    return sums


def _sum_spread(table: Floats, rows: Ints, feature_sums: Floats) -> Floats:
    """Return the products of the features of ``rows`` less their means, summed, ``[p, p]``."""
    means, spread = (feature_sums / max(len(rows), 1)).astype(np.float32), np.zeros((table.shape[1],) * 2)
    for start in range(0, len(rows), _BLOCK):
        block = table[rows[start : start + _BLOCK]] - means
        spread += block.T @ block
    return spread


def _ridge_weights(
    sums: _FoldSums, penalties: Sequence[tuple[float, float, float]], sizes: Sequence[int]
) -> Iterator[tuple[Ints, list[Floats | None]]]:
    """Yield, for each penalty, the columns that it leaves and their weights by all folds but one, for each fold.

    None stands for a fold without records, or where no column is left.
    """
    for penalty in penalties:
        column_penalties = np.repeat(penalty, sizes)
        used_columns = np.flatnonzero(np.isfinite(column_penalties))
        weights: list[Floats | None] = []
        for k, rows in enumerate(sums.rows[:FOLDS]):
            if not len(rows) or not len(used_columns):
                weights.append(None)
                continue
            gram = np.sum(sums.grams[:k] + sums.grams[k + 1 :], axis=0)[np.ix_(used_columns, used_columns)]
            target = np.sum(sums.products[:k] + sums.products[k + 1 :], axis=0)[used_columns]
            gram[np.diag_indices(len(used_columns))] += np.maximum(column_penalties[used_columns], 1e-3)
            weights.append(linalg.cho_solve(linalg.cho_factor(gram, lower=True), target))
        yield used_columns, weights


def _predict(table: Floats, rows: Ints, used_columns: Ints, weights: Floats) -> Floats:
    """Return the guesses for ``rows`` in single precision, ``[rows, columns]``."""
    is_whole, single_weights = len(used_columns) == table.shape[1], weights.astype(np.float32)
    blocks = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
    return np.concatenate(
        [(table[block] if is_whole else table[np.ix_(block, used_columns)]) @ single_weights for block in blocks]
    )


def _similarity_kernel(x: Array, labels: Array | None) -> Floats:
    """Return the similarity of records, ``[n, n]``; membership is not used."""
    x, labels, values = _split_real_values(x, labels)
    parts = _text_kernels(x) if x.dtype == object else _number_kernels(x)
    if labels is not None:
        parts = [*parts, (labels[:, None] == labels).astype(np.float64)]
    if values is not None:
        parts = [*parts, *_linear_and_radial_kernels(values)]
    total = np.zeros((len(x), len(x)))
    for part in parts:
        total += part / max(float(np.diag(part).mean()), 1e-12)
    return total


def _split_real_values(x: Array, labels: Array | None) -> tuple[Array, Array | None, Floats | None]:
    """Return records, classes and columns of real values, where ``labels`` may be classes or such values.

    The values are two columns: as they are, and as normal scores of their ranks, in which large ones hide no others.
    They join the columns of a table, as what tells members from others may lie in both; beside texts and images they
    are a table of their own.

    Examples:
        >>> x, labels, values = _split_real_values(np.zeros((3, 2)), np.array([0.5, 2.0, 9.0]))
        >>> x.shape, labels, values
        ((3, 4), None, None)
    """
    if labels is None or labels.dtype.kind != "f":
        return x, labels, None
    columns = np.column_stack([labels, special.ndtri((stats.rankdata(labels) - 0.5) / len(labels))])
    if x.dtype == object or x.ndim > 2:
        return x, None, columns
    return np.hstack([x.reshape(len(x), -1).astype(np.float64), columns]), None, None


def _number_kernels(x: Array) -> list[Floats]:
    rows = x.reshape(len(x), -1)
    parts = _linear_and_radial_kernels(rows[:, :: -(-rows.shape[1] // _MAX_COLUMNS)].astype(np.float64))
    return (
        parts if x.ndim < 3 else [*parts, *_linear_and_radial_kernels(_image_summaries(rows.astype(np.float64), rows))]
    )


def _image_summaries(rows: Floats, everything: Array) -> Floats:
    """Return brightness, contrast, range and roughness of images, ``[n, 6]``; pixels are scaled by ``everything``."""
    low, high = float(everything.min()) / 2, float(everything.max()) / 2
    rows = (rows / 2 - low) / (high - low if high > low else 1.0)
    steps = np.abs(np.diff(rows, axis=1))
    return np.column_stack(
        [rows.mean(1), rows.std(1), rows.min(1), rows.max(1), steps.mean(1), (rows == rows.min(1)[:, None]).mean(1)]
    )


def _text_kernels(texts: Array) -> list[Floats]:
    short = [text[:MAX_CHARACTERS] for text in texts]
    words = sklearn_text.TfidfVectorizer(analyzer="word", ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    parts = _linear_and_radial_kernels(np.array([_style_features(text) for text in short]))
    try:
        tfidf = words.fit_transform(short)
    except ValueError:  # No word occurs in two texts, so only the style is compared.
        return parts
    return [np.asarray((tfidf @ tfidf.T).todense(), np.float64), *parts]


def _style_features(text: str) -> list[float]:
    """Return length, shares of kinds of characters, and years of a text."""
    size = max(len(text), 1)
    words = text.split()
    years = [int(year) for year in YEAR.findall(text)]
    return [
        math.log1p(len(text)),
        math.log1p(len(words)),
        len(text) / (len(words) + 1),
        sum(c.isdigit() for c in text) / size,
        sum(c.isupper() for c in text) / size,
        sum(not c.isalnum() for c in text) / size,
        sum(ord(c) > 127 for c in text) / size,
        float(len(years)),
        float(max(years, default=0)),
        sum(years) / len(years) if years else 0.0,
    ]


def _linear_and_radial_kernels(columns: Floats) -> list[Floats]:
    """Return the linear and the radial kernel of standardised columns, clipped at five standard deviations."""
    varied_columns = columns[:, columns.min(0) < columns.max(0)]
    if varied_columns.shape[1] == 0:
        return [np.zeros((len(columns), len(columns)))]
    # Columns are scaled to [0, 1]; they are halved first, so that the largest numbers do not overflow.
    low, high = varied_columns.min(0) / 2, varied_columns.max(0) / 2
    varied_columns = (varied_columns / 2 - low) / np.where(high > low, high - low, 1.0)
    scaled = np.clip((varied_columns - varied_columns.mean(0)) / varied_columns.std(0), -5, 5)
    linear = scaled @ scaled.T
    square = np.diag(linear)
    distances = square[:, None] + square
    distances -= 2 * linear
    np.maximum(distances, 0, out=distances)
    distances /= -max(float(np.median(distances)), 1e-12)
    return [linear, np.exp(distances, out=distances)]


@dataclass(frozen=True, slots=True, eq=False)
class _RecordFeatures:
    """Features of records, float32, each block with a mean squared length of one.

    They are joined in one table where they are needed, so that the radial ones are held once.

    Attributes:
        linear: standardised columns or their leading components, tf-idf components of texts, and labels, ``[n, p]``.
        radial: Gaussian kernels through landmarks (Nyström's approximation), ``q`` features together.
        class_indicators: whether a record is of each class whose linear features are features of their own,
            ``[n, classes]``; no columns if there would be too many.
        plain: the first ``plain`` columns of ``linear`` are those of the records themselves.
    """

    linear: Floats
    radial: tuple[_RadialFeatures, ...]
    class_indicators: Floats
    plain: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of linear, radial and class features."""
        n_radial = sum(block.n_features for block in self.radial)
        return self.linear.shape[1], n_radial, self.class_indicators.shape[1] * self.plain

    def centred_table(self) -> Floats:
        """Return all features side by side, linear, radial and by class, centred, ``[n, p + q + r]``."""
        table = np.empty((len(self.linear), sum(self.sizes)), dtype=np.float32)
        place = self.linear.shape[1]
        table[:, :place] = self.linear
        for block in self.radial:
            block.write(table[:, place : place + block.n_features])
            place += block.n_features
        for indicator in self.class_indicators.T:
            np.multiply(indicator[:, None], self.linear[:, : self.plain], out=table[:, place : place + self.plain])
            place += self.plain
        table -= table.mean(0)
        return table

    def without_classes(self) -> _RecordFeatures:
        """Return the features without those by class."""
        return replace(self, class_indicators=self.class_indicators[:, :0])

    def join_blocks(self, blocks: Sequence[tuple[Floats, _RadialFeatures | None]]) -> _RecordFeatures:
        """Return the features with those of further columns."""
        radial = tuple(block for _, block in blocks if block is not None)
        linear = np.hstack([self.linear, *(linear for linear, _ in blocks)])
        return replace(self, linear=linear, radial=self.radial + radial)


@dataclass(frozen=True, slots=True, eq=False)
class _RadialFeatures:
    """A Gaussian kernel of standardised columns ``[n, d]`` through landmarks: ``[n, q]`` features, made when needed."""

    columns: Floats
    landmarks: Floats
    spread: float
    root: Floats

    @property
    def n_features(self) -> int:
        return self.root.shape[1]

    def write(self, out: Floats) -> None:
        """Write the features into ``out``, ``[n, q]``."""
        for i in range(0, len(out), 8192):
            distances = _distances(self.columns[i : i + 8192].astype(np.float64), self.landmarks)
            distances /= -self.spread
            out[i : i + 8192] = np.exp(distances, out=distances) @ self.root


def _extract_features(x: Array, labels: Array | None, sample: Ints) -> _RecordFeatures:
    """Compute features of all records without using membership; time and memory are linear in their number.

    Args:
        x: numbers ``[n, ...]`` or texts ``[n]``.
        labels: classes ``[n]``, int; real values ``[n]``, float; or None.
        sample: rows from which components, landmarks and distances are taken.
    """
    x, labels, values = _split_real_values(x, labels)
    blocks = _text_blocks(x, sample) if x.dtype == object else _number_blocks(x, sample)
    if values is not None:
        blocks.append(_linear_and_radial_block(values, sample))
    records = np.hstack([linear for linear, _ in blocks])
    plain = records.shape[1]
    class_indicators = np.zeros((len(x), 0), dtype=np.float32)
    if labels is not None:
        frequent = _frequent_classes(labels)
        indicators = (labels[:, None] == frequent).astype(np.float32)
        if len(frequent) > 1 and plain * len(frequent) <= _MAX_CLASS_FEATURES:
            class_indicators = indicators
        records = np.hstack([records, indicators])
    return _RecordFeatures(
        records, tuple(radial for _, radial in blocks if radial is not None), class_indicators, plain
    )


def _number_blocks(x: Array, sample: Ints) -> list[tuple[Floats, _RadialFeatures | None]]:
    rows = x.reshape(len(x), -1)
    sampled_columns = rows[:, :: -(-rows.shape[1] // _MAX_COLUMNS)]
    blocks = [_linear_and_radial_block(sampled_columns, sample)]
    if x.ndim > 2:
        step = max(1, _CHUNK_VALUES // rows.shape[1])
        summaries = [_image_summaries(rows[i : i + step].astype(np.float64), rows) for i in range(0, len(rows), step)]
        blocks.append(_linear_and_radial_block(np.concatenate(summaries), sample))
    return blocks


def _text_blocks(texts: Array, sample: Ints) -> list[tuple[Floats, _RadialFeatures | None]]:
    shortened = [text[:MAX_CHARACTERS] for text in texts]
    style = np.array([_style_features(text) for text in shortened])
    words = sklearn_text.HashingVectorizer(n_features=_HASHED_WORDS, ngram_range=(1, 2), alternate_sign=False)
    word_counts = words.transform(shortened)
    sample_counts = word_counts[sample]
    directions = _components((sample_counts @ sample_counts.T).toarray())
    projected = word_counts @ (sample_counts.T @ directions)
    return [(_scale_to_unit_norm(np.asarray(projected)), None), _linear_and_radial_block(style, sample)]


def _linear_and_radial_block(columns: Array, sample: Ints) -> tuple[Floats, _RadialFeatures | None]:
    """Compute linear and radial features of columns that are standardised chunk by chunk."""
    standardise = _standardiser(columns)
    sample_columns = standardise(columns[sample])
    directions = (
        None
        if sample_columns.shape[1] <= _MAX_LINEAR
        else sample_columns.T @ _components(sample_columns @ sample_columns.T)
    )
    step = max(1, _CHUNK_VALUES // max(columns.shape[1], 1))

    def project(rows: Array) -> Floats:
        standard = standardise(rows)
        return (standard if directions is None else standard @ directions).astype(np.float32)

    linear = np.concatenate([project(columns[i : i + step]) for i in range(0, len(columns), step)])
    if not linear.shape[1]:
        return linear, None
    sample_linear = linear[sample].astype(np.float64)
    landmarks = sample_linear[:_LANDMARKS]
    spread = max(float(np.median(_distances(sample_linear, landmarks))), 1e-12)
    values, vectors = linalg.eigh(np.exp(-_distances(landmarks, landmarks) / spread))
    used_components = values > 1e-6 * values[-1]
    root = vectors[:, used_components] / np.sqrt(values[used_components])
    return _scale_to_unit_norm(linear), _RadialFeatures(linear, landmarks, spread, root)


def _standardiser(columns: Array) -> Callable[[Array], Floats]:
    """Return a function that moves, scales and clips rows as `_similarity_kernel` does, by means over all rows."""
    low, high = columns.min(0).astype(np.float64) / 2, columns.max(0).astype(np.float64) / 2
    varied = low < high
    low, width = low[varied], (high - low)[varied]
    step = max(1, _CHUNK_VALUES // max(columns.shape[1], 1))
    total, squares = np.zeros(len(low)), np.zeros(len(low))
    for i in range(0, len(columns), step):
        unit = (columns[i : i + step][:, varied].astype(np.float64) / 2 - low) / width
        total += unit.sum(0)
        squares += (unit**2).sum(0)
    mean = total / len(columns)
    deviation = np.sqrt(np.maximum(squares / len(columns) - mean**2, 1e-24))

    def standardise(rows: Array) -> Floats:
        return np.clip(((rows[:, varied].astype(np.float64) / 2 - low) / width - mean) / deviation, -5, 5)

    return standardise


def _components(gram: Floats) -> Floats:
    """Return the weights of a sample's rows that give its leading components, ``[sample, at most 256]``."""
    values, vectors = linalg.eigh(gram)
    used_components = np.flatnonzero(values > 1e-9 * max(values[-1], 1e-12))[-_MAX_LINEAR:]
    return vectors[:, used_components] / np.sqrt(values[used_components])


def _distances(rows: Floats, marks: Floats) -> Floats:
    square = (rows**2).sum(1)[:, None] + (marks**2).sum(1) - 2 * rows @ marks.T
    return np.maximum(square, 0, out=square)


def _scale_to_unit_norm(linear: Floats) -> Floats:
    """Scale the features to a mean squared length of one."""
    size = float(np.sqrt((linear.astype(np.float64) ** 2).sum(1).mean()))
    return (linear / max(size, 1e-12)).astype(np.float32)


def _compared_columns(x: Array) -> tuple[Floats, list[str]]:
    """Return the columns to compare and their names; images have columns of summaries."""
    if x.dtype == object:
        return np.zeros((len(x), 0)), []
    rows = x.reshape(len(x), -1)
    if x.ndim > 2:
        return _image_summaries(rows.astype(np.float64), rows), list(_SUMMARIES)
    compared = rows[:, :_MAX_COLUMNS]
    return compared.astype(np.float64), [f"column {i} (counted from 0)" for i in range(compared.shape[1])]
