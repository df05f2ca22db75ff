"""Features, kernels and differences of records, computed without a look at the model.

`extract_features` and `similarity_kernel` describe records for the blind baseline; neither depends on units or on
membership. `differences` names the columns in which members and non-members differ.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, special, stats

from divulge import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.feature_extraction import text as sklearn_text

    from divulge.types import Array, Bools, Floats, Ints
else:
    sklearn_text = lazy.module("sklearn.feature_extraction.text")

MAX_COLUMNS = 4096
MAX_CHARACTERS = 20_000
YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def similarity_kernel(x: Array, labels: Array | None) -> Floats:
    """Return the similarity of records, ``[n, n]``; membership is not used."""
    x, labels, values = split_real_values(x, labels)
    parts = _text_kernels(x) if x.dtype == object else _number_kernels(x)
    if labels is not None:
        parts = [*parts, (labels[:, None] == labels).astype(np.float64)]
    if values is not None:
        parts = [*parts, *_linear_and_radial_kernels(values)]
    total = np.zeros((len(x), len(x)))
    for part in parts:
        total += part / max(float(np.diag(part).mean()), 1e-12)
    return total


def split_real_values(x: Array, labels: Array | None) -> tuple[Array, Array | None, Floats | None]:
    """Return records, classes and columns of real values, where ``labels`` may be classes or such values.

    The values are two columns: as they are, and as normal scores of their ranks, in which large ones hide no others.
    They join the columns of a table, as what tells members from others may lie in both; beside texts and images they
    are a table of their own.

    Examples:
        >>> x, labels, values = split_real_values(np.zeros((3, 2)), np.array([0.5, 2.0, 9.0]))
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
    parts = _linear_and_radial_kernels(rows[:, :: -(-rows.shape[1] // MAX_COLUMNS)].astype(np.float64))
    return (
        parts if x.ndim < 3 else [*parts, *_linear_and_radial_kernels(image_summaries(rows.astype(np.float64), rows))]
    )


def image_summaries(rows: Floats, everything: Array) -> Floats:
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
    parts = _linear_and_radial_kernels(np.array([style_features(text) for text in short]))
    try:
        tfidf = words.fit_transform(short)
    except ValueError:  # No word occurs in two texts, so only the style is compared.
        return parts
    return [np.asarray((tfidf @ tfidf.T).todense(), np.float64), *parts]


def style_features(text: str) -> list[float]:
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
    varied_columns = _scale_to_unit_interval(columns[:, columns.min(0) < columns.max(0)])
    if varied_columns.shape[1] == 0:
        return [np.zeros((len(columns), len(columns)))]
    scaled = np.clip((varied_columns - varied_columns.mean(0)) / varied_columns.std(0), -5, 5)
    linear = scaled @ scaled.T
    square = np.diag(linear)
    distances = np.maximum(square[:, None] + square - 2 * linear, 0)
    return [linear, np.exp(-distances / max(float(np.median(distances)), 1e-12))]


def _scale_to_unit_interval(columns: Floats) -> Floats:
    """Scale columns to [0, 1]; they are halved first, so that the largest numbers do not overflow."""
    low, high = columns.min(0) / 2, columns.max(0) / 2
    return (columns / 2 - low) / np.where(high > low, high - low, 1.0)


_MAX_LINEAR = 256
_LANDMARKS = 200
_MAX_CLASSES = 64
_MAX_CLASS_FEATURES = 512
_HASHED = 2**16
_CHUNK_VALUES = 2**23  # values read at a time


@dataclass(frozen=True, slots=True, eq=False)
class RecordFeatures:
    """Features of records, float32, each block with a mean squared length of one.

    Attributes:
        linear: standardised columns or their leading components, tf-idf components of texts, and labels, ``[n, p]``.
        radial: a Gaussian kernel through landmarks (Nyström's approximation), ``[n, q]``.
        class_features: the linear features of each class separately, ``[n, r]``; no columns if there would be too many.
        plain: the first ``plain`` columns of ``linear`` are those of the records themselves.
    """

    linear: Floats
    radial: Floats
    class_features: Floats
    plain: int

    @property
    def all(self) -> Floats:
        """All blocks side by side, centred."""
        joined = np.hstack([self.linear, self.radial, self.class_features])
        joined -= joined.mean(0)
        return joined


def extract_features(x: Array, labels: Array | None, sample: Ints) -> RecordFeatures:
    """Compute features of all records without using membership; time and memory are linear in their number.

    Args:
        x: numbers ``[n, ...]`` or texts ``[n]``.
        labels: classes ``[n]``, int; real values ``[n]``, float; or None.
        sample: rows from which components, landmarks and distances are taken.
    """
    x, labels, values = split_real_values(x, labels)
    blocks = _text_blocks(x, sample) if x.dtype == object else _number_blocks(x, sample)
    if values is not None:
        blocks.append(_linear_and_radial_block(values, sample))
    linear, radial = [block[0] for block in blocks], [block[1] for block in blocks if block[1] is not None]
    records = np.hstack(linear)
    plain = records.shape[1]
    class_blocks = np.zeros((len(x), 0), dtype=np.float32)
    if labels is not None:
        classes, counts = np.unique(labels, return_counts=True)
        frequent = classes[np.sort(np.argsort(-counts, kind="stable")[:_MAX_CLASSES])]
        class_indicators = (labels[:, None] == frequent).astype(np.float32)
        if len(frequent) > 1 and plain * len(frequent) <= _MAX_CLASS_FEATURES:
            class_blocks = (class_indicators[:, :, None] * records[:, None, :]).reshape(len(x), -1)
        records = np.hstack([records, class_indicators])
    empty = np.zeros((len(x), 0), dtype=np.float32)
    return RecordFeatures(records, np.hstack([empty, *radial]), class_blocks, plain)


def _number_blocks(x: Array, sample: Ints) -> list[tuple[Floats, Floats | None]]:
    rows = x.reshape(len(x), -1)
    sampled_columns = rows[:, :: -(-rows.shape[1] // MAX_COLUMNS)]
    blocks = [_linear_and_radial_block(sampled_columns, sample)]
    if x.ndim > 2:
        step = max(1, _CHUNK_VALUES // rows.shape[1])
        summaries = [image_summaries(rows[i : i + step].astype(np.float64), rows) for i in range(0, len(rows), step)]
        blocks.append(_linear_and_radial_block(np.concatenate(summaries), sample))
    return blocks


def _text_blocks(texts: Array, sample: Ints) -> list[tuple[Floats, Floats | None]]:
    shortened = [text[:MAX_CHARACTERS] for text in texts]
    style = np.array([style_features(text) for text in shortened])
    words = sklearn_text.HashingVectorizer(n_features=_HASHED, ngram_range=(1, 2), alternate_sign=False)
    word_counts = words.transform(shortened)
    sample_counts = word_counts[sample]
    directions = _components((sample_counts @ sample_counts.T).toarray())
    projected = word_counts @ (sample_counts.T @ directions)
    return [(_scale_to_unit_norm(np.asarray(projected)), None), _linear_and_radial_block(style, sample)]


def _linear_and_radial_block(columns: Array, sample: Ints) -> tuple[Floats, Floats]:
    """Linear and radial features of columns that are standardised chunk by chunk."""
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
        return linear, linear
    sample_linear = linear[sample].astype(np.float64)
    landmarks = sample_linear[:_LANDMARKS]
    spread = max(float(np.median(_distances(sample_linear, landmarks))), 1e-12)
    values, vectors = linalg.eigh(np.exp(-_distances(landmarks, landmarks) / spread))
    used_components = values > 1e-6 * values[-1]
    root = vectors[:, used_components] / np.sqrt(values[used_components])
    radial = [
        (np.exp(-_distances(linear[i : i + 8192].astype(np.float64), landmarks) / spread) @ root).astype(np.float32)
        for i in range(0, len(linear), 8192)
    ]
    return _scale_to_unit_norm(linear), np.concatenate(radial)


def _standardiser(columns: Array) -> Callable[[Array], Floats]:
    """Return a function that moves, scales and clips rows as `similarity_kernel` does, by means over all rows."""
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
    """Weights of a sample's rows that give its leading components, ``[sample, at most 256]``."""
    values, vectors = linalg.eigh(gram)
    used_components = np.flatnonzero(values > 1e-9 * max(values[-1], 1e-12))[-_MAX_LINEAR:]
    return vectors[:, used_components] / np.sqrt(values[used_components])


def _distances(rows: Floats, marks: Floats) -> Floats:
    square = (rows**2).sum(1)[:, None] + (marks**2).sum(1) - 2 * rows @ marks.T
    return np.maximum(square, 0)


def _scale_to_unit_norm(linear: Floats) -> Floats:
    """Scale the features to a mean squared length of one."""
    size = float(np.sqrt((linear.astype(np.float64) ** 2).sum(1).mean()))
    return (linear / max(size, 1e-12)).astype(np.float32)


_SUMMARIES = ("brightness", "contrast", "darkest pixel", "brightest pixel", "roughness", "share of the darkest value")
_MAX_COMPARED_COLUMNS = 4096
_FALSE_ALARM = 0.01


def differences(x: Array, inside: Bools, labels: Array | None = None, *, most: int = 3) -> tuple[str, ...]:
    """Name the columns, image summaries and classes in which members and non-members differ, most significant first.

    Each is compared by rank sums (classes by their shares), with Bonferroni's correction at 1 %. Use it to describe a
    difference that a test has found; columns that differ only jointly are not named.

    Args:
        x: numbers ``[n, ...]``, or texts, of which only the labels are compared.
        inside: bool ``[n]``, True for members.
        labels: classes ``[n]``, int; real values ``[n]``, float, which are compared as a column; or None.
        most: maximum number of differences.

    Examples:
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> x[:200, 1] += 1
        >>> differences(x, np.arange(400) < 200)[0]
        'column 1 (from 0) is larger among the members (AUC 0.78)'
    """
    columns, names = _columns(x)
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
    """Return the columns to compare and their names; images have columns of summaries."""
    if x.dtype == object:
        return np.zeros((len(x), 0)), []
    rows = x.reshape(len(x), -1)
    if x.ndim > 2:
        return image_summaries(rows.astype(np.float64), rows), list(_SUMMARIES)
    compared = rows[:, :_MAX_COMPARED_COLUMNS]
    return compared.astype(np.float64), [f"column {i} (from 0)" for i in range(compared.shape[1])]
