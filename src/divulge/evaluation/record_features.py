"""Records as features whose number does not grow with the records: what `likeness` compares, for large sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from sklearn.feature_extraction import text as sklearn_text

from divulge.evaluation import likeness

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.types import Array, Floats, Ints

MOST_LINEAR = 256
LANDMARKS = 200
MOST_CLASSES = 64
MOST_BY_CLASS = 512
_HASHED = 2**16
_CHUNK_VALUES = 2**23  # values read at a time


@dataclass(frozen=True, slots=True, eq=False)
class RecordFeatures:
    """Features of records, float32, each block with a mean squared length of one.

    Attributes:
        linear: standardised columns or their leading components, tf-idf components of texts, and labels, ``[n, p]``.
        radial: a Gaussian kernel through landmarks (Nyström's approximation), ``[n, q]``.
        by_class: the linear features of each class apart, ``[n, r]``; no columns where there are too many.
        plain: the first ``plain`` columns of ``linear`` are those of the records themselves.
    """

    linear: Floats
    radial: Floats
    by_class: Floats
    plain: int

    @property
    def all(self) -> Floats:
        """All blocks side by side, centred."""
        joined = np.hstack([self.linear, self.radial, self.by_class])
        joined -= joined.mean(0)
        return joined


def extract_features(x: Array, labels: Ints | None, sample: Ints) -> RecordFeatures:
    """Compute features of all records without a look at membership; time and memory are linear in their number.

    Args:
        x: numbers ``[n, ...]`` or texts ``[n]``.
        labels: classes ``[n]``, or None.
        sample: rows from which components, landmarks and distances are taken.
    """
    blocks = _text_blocks(x, sample) if x.dtype == object else _number_blocks(x, sample)
    linear, radial = [block[0] for block in blocks], [block[1] for block in blocks if block[1] is not None]
    records = np.hstack(linear)
    plain = records.shape[1]
    class_features = np.zeros((len(x), 0), dtype=np.float32)
    if labels is not None:
        classes, counts = np.unique(labels, return_counts=True)
        frequent = classes[np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])]
        class_indicators = (labels[:, None] == frequent).astype(np.float32)
        if len(frequent) > 1 and plain * len(frequent) <= MOST_BY_CLASS:
            class_features = (class_indicators[:, :, None] * records[:, None, :]).reshape(len(x), -1)
        records = np.hstack([records, class_indicators])
    empty = np.zeros((len(x), 0), dtype=np.float32)
    return RecordFeatures(records, np.hstack([empty, *radial]), class_features, plain)


def _number_blocks(x: Array, sample: Ints) -> list[tuple[Floats, Floats | None]]:
    rows = x.reshape(len(x), -1)
    sampled_columns = rows[:, :: -(-rows.shape[1] // likeness.MOST_COLUMNS)]
    blocks = [_linear_and_radial_block(sampled_columns, sample)]
    if x.ndim > 2:
        step = max(1, _CHUNK_VALUES // rows.shape[1])
        summaries = [likeness.summarise(rows[i : i + step].astype(np.float64), rows) for i in range(0, len(rows), step)]
        blocks.append(_linear_and_radial_block(np.concatenate(summaries), sample))
    return blocks


def _text_blocks(texts: Array, sample: Ints) -> list[tuple[Floats, Floats | None]]:
    shortened = [text[: likeness.MOST_CHARACTERS] for text in texts]
    style = np.array([likeness.style(text) for text in shortened])
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
        if sample_columns.shape[1] <= MOST_LINEAR
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
    landmarks = sample_linear[:LANDMARKS]
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
    """Return a function that moves, scales and clips rows as `likeness` does, by means over all rows."""
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
    used_components = np.flatnonzero(values > 1e-9 * max(values[-1], 1e-12))[-MOST_LINEAR:]
    return vectors[:, used_components] / np.sqrt(values[used_components])


def _distances(rows: Floats, marks: Floats) -> Floats:
    square = (rows**2).sum(1)[:, None] + (marks**2).sum(1) - 2 * rows @ marks.T
    return np.maximum(square, 0)


def _scale_to_unit_norm(linear: Floats) -> Floats:
    """The same with a mean squared length of one."""
    size = float(np.sqrt((linear.astype(np.float64) ** 2).sum(1).mean()))
    return (linear / max(size, 1e-12)).astype(np.float32)
