"""What canaries are made of: records unlike the rest, so that a model which uses them shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from sklearn import neighbors

from divulge.errors import InputError
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.types import Array, Ints

Kind: TypeAlias = Literal["mislabelled", "far", "shuffled", "random", "blank", "random-token", "unigram", "own"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_TEXT: tuple[Kind, ...] = ("random-token", "unigram")
_TRIES = 20  # rounds of drawing anew what is already there

Rng: TypeAlias = "np.random.Generator"


def build(kind: Kind, data: Records, count: int, rng: Rng) -> Records:
    """``count`` canaries of a kind, no two alike and none of them a record of ``data``.

    Args:
        kind: any of `KINDS` but "own".
        data: records of the training set, or like them.
        count: how many.
        rng: of every draw.

    Raises:
        divulge.InputError: a kind that does not suit the records, more than there can be.
    """
    if documents(data) != (kind in _TEXT):
        what = "documents" if kind in _TEXT else "numbers"
        raise InputError(f"kind: {kind!r} canaries are made of {what}, and the records are not")
    taken = set(names(data))
    chosen: list[tuple[Array, int | None]] = []
    for _ in range(_TRIES):
        x, y = _MAKERS[kind](data, count, rng)
        drawn = Records(x, y)
        for i, name in enumerate(names(drawn)):
            if name not in taken and len(chosen) < count:
                taken.add(name)
                chosen.append((drawn.x[i], None if drawn.y is None else int(drawn.y[i])))
        if len(chosen) == count:
            labels = None if data.y is None else [label for _, label in chosen]
            return Records(np.array([x for x, _ in chosen]), labels)
    raise InputError(
        f"count: only {len(chosen)} of {count} different {kind!r} canaries that are no records of the data can be made"
    )


def names(records: Records) -> list[bytes]:
    """What tells each record and its label from others."""
    labels = [b""] * len(records) if records.y is None else [str(label).encode() for label in records.y.tolist()]
    return [_content(x) + b"\xff" + label for x, label in zip(records.x, labels, strict=True)]


def documents(records: Records) -> bool:
    """Whether the records are texts."""
    return records.x.dtype.kind in "OU"


def _content(x: Array | str) -> bytes:
    # One precision for all, so that a copy as float64, or as integers, is told to be the same record.
    return x.encode() if isinstance(x, str) else (np.asarray(x, np.float32) + 0.0).tobytes()


def _mislabelled(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Real records under a label that is not theirs."""
    labels = _labels(data, count)
    rows = rng.permutation(len(data))[:count]
    return data.x[rows], _other(labels[rows], np.unique(labels), rng)


def _far(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """The records farthest from their nearest neighbour, under a label that is not theirs."""
    labels = _labels(data, count)
    flat = data.x.reshape(len(data), -1).astype(np.float64)
    spread = flat.std(0)
    flat = (flat - flat.mean(0)) / np.where(spread > 0, spread, 1.0)
    away = neighbors.NearestNeighbors(n_neighbors=min(2, len(flat))).fit(flat).kneighbors(flat)[0][:, -1]
    rows = np.argsort(-away, kind="stable")[:count]
    return data.x[rows], _other(labels[rows], np.unique(labels), rng)


def _shuffled(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Every value from another record: each column as in the data, no two columns as they go together."""
    flat = data.x.reshape(len(data), -1)
    rows = rng.integers(0, len(flat), (count, flat.shape[1]))
    return np.take_along_axis(flat, rows, 0).reshape(count, *data.x.shape[1:]), _any(data, count, rng)


def _random(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """Values drawn evenly between the least and the greatest of their column."""
    low, high = data.x.min(0).astype(np.float64), data.x.max(0).astype(np.float64)
    return _like(rng.uniform(low, high, (count, *data.x.shape[1:])), data.x), _any(data, count, rng)


def _blank(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """One value throughout, another one in each record."""
    level = rng.uniform(float(data.x.min()), float(data.x.max()), count)
    shape = (count, *(1 for _ in data.x.shape[1:]))
    return _like(np.broadcast_to(level.reshape(shape), (count, *data.x.shape[1:])), data.x), _any(data, count, rng)


def _random_token(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """As many words as some document has, each drawn evenly from all words of the data."""
    return _words(data, count, rng, lambda words: np.unique(words))


def _unigram(data: Records, count: int, rng: Rng) -> tuple[Array, Ints | None]:
    """As many words as some document has, each drawn as often as the data use it."""
    return _words(data, count, rng, lambda words: words)


def _words(data: Records, count: int, rng: Rng, pool: Callable[[Array], Array]) -> tuple[Array, Ints | None]:
    documents = [str(text).split() for text in data.x]
    words = pool(np.array([word for document in documents for word in document]))
    if not len(words):
        raise InputError("data: the documents have no words")
    lengths = rng.choice([max(len(document), 1) for document in documents], count)
    return np.array([" ".join(rng.choice(words, length)) for length in lengths]), _any(data, count, rng)


def _like(values: Array, kind: Array) -> Array:
    return np.rint(values).astype(kind.dtype) if kind.dtype.kind in "iub" else values.astype(kind.dtype)


def _labels(data: Records, count: int) -> Ints:
    if count > len(data):
        raise InputError(f"count: must be at most {len(data)}, one canary per record, got {count}")
    if data.y is None or len(np.unique(data.y)) < 2:
        raise InputError("data: a wrong label needs labels of at least 2 classes, which the records lack")
    return data.y


def _any(data: Records, count: int, rng: Rng) -> Ints | None:
    """Labels drawn evenly from those of the data; None where it has none."""
    return None if data.y is None else rng.choice(np.unique(data.y), count)


def _other(labels: Ints, classes: Ints, rng: Rng) -> Ints:
    """Labels drawn evenly from the other classes."""
    step = rng.integers(1, len(classes), len(labels))
    return classes[(np.searchsorted(classes, labels) + step) % len(classes)]


_MAKERS: Mapping[str, Callable[[Records, int, Rng], tuple[Array, Ints | None]]] = {
    "mislabelled": _mislabelled,
    "far": _far,
    "shuffled": _shuffled,
    "random": _random,
    "blank": _blank,
    "random-token": _random_token,
    "unigram": _unigram,
}
