"""How alike records are, as kernels that know neither units nor membership."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
from sklearn.feature_extraction import text as sklearn_text

if TYPE_CHECKING:
    from divulge.types import Array, Floats, Ints

MOST_COLUMNS = 4096
MOST_CHARACTERS = 20_000
YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def kernel(x: Array, labels: Ints | None) -> Floats:
    """Likeness of records, ``[n, n]``; made without a look at membership."""
    parts = _text_kernels(x) if x.dtype == object else _number_kernels(x)
    if labels is not None:
        parts = [*parts, (labels[:, None] == labels).astype(np.float64)]
    total = np.zeros((len(x), len(x)))
    for part in parts:
        total += part / max(float(np.diag(part).mean()), 1e-12)
    return total


def _number_kernels(x: Array) -> list[Floats]:
    rows = x.reshape(len(x), -1)
    parts = _linear_and_radial(rows[:, :: -(-rows.shape[1] // MOST_COLUMNS)].astype(np.float64))
    return parts if x.ndim < 3 else [*parts, *_linear_and_radial(summarise(rows.astype(np.float64), rows))]


def summarise(rows: Floats, everything: Array) -> Floats:
    """Brightness, contrast, range, roughness of images, ``[n, 6]``; pixels are scaled by those of ``everything``."""
    low, high = float(everything.min()) / 2, float(everything.max()) / 2
    rows = (rows / 2 - low) / (high - low if high > low else 1.0)
    steps = np.abs(np.diff(rows, axis=1))
    return np.column_stack(
        [rows.mean(1), rows.std(1), rows.min(1), rows.max(1), steps.mean(1), (rows == rows.min(1)[:, None]).mean(1)]
    )


def _text_kernels(texts: Array) -> list[Floats]:
    short = [text[:MOST_CHARACTERS] for text in texts]
    words = sklearn_text.TfidfVectorizer(analyzer="word", ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    parts = _linear_and_radial(np.array([style(text) for text in short]))
    try:
        tfidf = words.fit_transform(short)
    except ValueError:  # no word stands in two texts: only the style is left to compare
        return parts
    return [np.asarray((tfidf @ tfidf.T).todense(), np.float64), *parts]


def style(text: str) -> list[float]:
    """Length, make-up and years of a text."""
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


def _linear_and_radial(columns: Floats) -> list[Floats]:
    """Linear and radial kernel of standardised columns; outliers are pulled in to five deviations."""
    varied_columns = _scale_to_unit(columns[:, columns.min(0) < columns.max(0)])
    if varied_columns.shape[1] == 0:
        return [np.zeros((len(columns), len(columns)))]
    scaled = np.clip((varied_columns - varied_columns.mean(0)) / varied_columns.std(0), -5, 5)
    linear = scaled @ scaled.T
    square = np.diag(linear)
    distances = np.maximum(square[:, None] + square - 2 * linear, 0)
    return [linear, np.exp(-distances / max(float(np.median(distances)), 1e-12))]


def _scale_to_unit(columns: Floats) -> Floats:
    """Columns moved and scaled to [0, 1]; halves, lest the largest numbers overflow."""
    low, high = columns.min(0) / 2, columns.max(0) / 2
    return (columns / 2 - low) / np.where(high > low, high - low, 1.0)
