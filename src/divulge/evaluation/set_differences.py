"""What tells two sets of numeric records apart, column by column, in words that a reader can check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge.evaluation import likeness

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints

_SUMMARIES = ("brightness", "contrast", "darkest pixel", "brightest pixel", "roughness", "share of the darkest value")
_MAX_COLUMNS = 4096
_FALSE_ALARM = 0.01


def differences(x: Array, inside: Bools, labels: Ints | None = None, *, most: int = 3) -> tuple[str, ...]:
    """Name the columns, image summaries and classes in which members and non-members differ, the surest first.

    Each is compared by rank sums, corrected for their number (Bonferroni at 1 %). It describes a difference that a test
    has found; where several columns differ only together, it names none of them.

    Args:
        x: numbers ``[n, ...]``; of texts, only labels are compared.
        inside: bool ``[n]``, True for members.
        labels: classes ``[n]``, or None.
        most: how many to name.

    Examples:
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> x[:200, 1] += 1
        >>> differences(x, np.arange(400) < 200)[0]
        'column 1 (from 0) is larger among the members (AUC 0.78)'
    """
    columns, names = _columns(x)
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
        descriptions.append(
            (
                distance,
                f"class {class_label} is {member_share:.1%} of the members and "
                f"{nonmember_share:.1%} of the non-members",
            )
        )
    limit = float(stats.norm.isf(_FALSE_ALARM / 2 / tests))
    significant = sorted(
        (class_label for class_label in descriptions if class_label[0] > limit), key=lambda class_label: -class_label[0]
    )
    return tuple(text.replace("%", " %") for _, text in significant[:most])


def _columns(x: Array) -> tuple[Floats, list[str]]:
    """Columns to compare and what they are called: of images, summaries."""
    if x.dtype == object:
        return np.zeros((len(x), 0)), []
    rows = x.reshape(len(x), -1)
    if x.ndim > 2:
        return likeness.summarise(rows.astype(np.float64), rows), list(_SUMMARIES)
    compared = rows[:, :_MAX_COLUMNS]
    return compared.astype(np.float64), [f"column {i} (from 0)" for i in range(compared.shape[1])]
