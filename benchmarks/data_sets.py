"""Six data sets for `unseen_classes.py`: features that are fixed before any split, labels, and what is dropped.

Nothing here is fitted on data, so no statistic of a dropped class reaches the auditor through the features
(CIFAR-100 is reduced by principal components later, fitted on the auditor's own records alone).
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class DataSet:
    """``x[n, d]``, labels, the subgroup a record belongs to (its label, or a column), and sizes.

    ``raw`` is what a neural regressor sees: images or texts where the records are such, ``x`` otherwise.
    ``outsiders`` is the most non-members that are asked about.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    group: np.ndarray
    members: int
    population: int
    epochs: int
    hidden: int = 64
    components: int = 0
    raw: np.ndarray | None = None
    outsiders: int = 6000


def folder() -> Path:
    folder = os.environ.get("DIVULGE_DATA", "")
    if not Path(folder).is_dir() or not folder:
        raise SystemExit("DIVULGE_DATA names no folder: the data sets are not here, and nothing was measured")
    return Path(folder)


def cifar100() -> DataSet:
    """All 60,000 images, 20 superclasses, averaged to 16 x 16."""
    with np.load(folder() / "cifar100_full.npz") as z:
        images = [_decoded(z["train_res"]), _decoded(z["test_res"])]
        y = np.concatenate([z["coarse_train"], z["coarse_test"]]).astype(np.int64)
    x = np.concatenate(images).reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4), dtype=np.float32) / 255
    flat = x.reshape(len(x), -1)
    return DataSet("CIFAR-100", flat, y, y, 3000, 4000, epochs=15, hidden=128, components=64, raw=x)


def cifar100_fine() -> DataSet:
    """The same images under their 100 fine labels, with enough non-members for a rate of 0.1 %."""
    with np.load(folder() / "cifar100_full.npz") as z:
        y = np.concatenate([z["fine_train"], z["fine_test"]]).astype(np.int64)
    return replace(
        cifar100(), name="CIFAR-100, fine", y=y, group=y, members=10_000, population=10_000, outsiders=40_000
    )


def cifar10() -> DataSet:
    """6,000 training and 6,000 test images, averaged to 16 x 16."""
    images, y = cifar10_images()
    x = images.reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4), dtype=np.float32)
    flat = x.reshape(len(x), -1)
    return DataSet("CIFAR-10", flat, y, y, 3000, 4000, epochs=15, hidden=128, components=64, raw=x)


def cifar10_images() -> tuple[np.ndarray, np.ndarray]:
    """6,000 training images, then 6,000 test images, float32 ``[n, 32, 32, 3]`` in [0, 1], and their labels."""
    with np.load(folder() / "cifar10_12k.npz") as z:
        images = np.concatenate([_decoded(z["res_train"]), _decoded(z["res_test"])])
        y = np.concatenate([z["y_train"], z["y_test"]]).astype(np.int64)
    return images.astype(np.float32) / 255, y


def _decoded(residuals: np.ndarray) -> np.ndarray:
    x = np.cumsum(np.cumsum(residuals, 2, dtype=np.uint8), 3, dtype=np.uint8)
    x[0] += x[1]
    x[2] += x[1]
    return x.transpose(1, 2, 3, 0)


def fashion() -> DataSet:
    with np.load(folder() / "fashion_mnist.npz") as z:
        x = np.concatenate([z["x_train"], z["x_test"]])
        y = np.concatenate([z["y_train"], z["y_test"]]).astype(np.int64)
    x = x.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32).reshape(len(x), -1) / 255 - 0.3
    return DataSet("Fashion-MNIST", x, y, y, 2000, 3000, epochs=40, raw=x.reshape(len(x), 14, 14))


def location() -> DataSet:
    with np.load(folder() / "location30.npz") as z:
        x = np.unpackbits(z["x_bits"], axis=1, count=int(z["n_features"])).astype(np.float32)
        y = np.unique(z["y"], return_inverse=True)[1].astype(np.int64)
    return DataSet("Location-30", x, y, y, 1200, 1800, epochs=30)


def newsgroups() -> DataSet:
    """Bodies without headers, quotes and signatures; signed hashes of words in 256 columns."""
    from sklearn.feature_extraction.text import HashingVectorizer

    with gzip.open(folder() / "20news_bydate.jsonl.gz", "rt", encoding="utf8") as lines:
        rows = [json.loads(line) for line in lines]
    hashes = HashingVectorizer(n_features=256, stop_words="english", norm="l2")
    texts = np.array([_body(row["text"]) for row in rows], dtype=object)
    x = hashes.transform(texts).toarray().astype(np.float32) * 8
    y = np.array([row["label"] for row in rows])
    non_empty = np.abs(x).sum(axis=1) > 0
    x, y = x[non_empty], y[non_empty]
    return DataSet("20 Newsgroups", x, y, y, 3000, 4000, epochs=15, raw=texts[non_empty])


def _body(text: str) -> str:
    body = text.partition("\n\n")[2]
    body = re.sub(r"^(?:[>|].*|.*(?:writes:|wrote:).*)$", "", body, flags=re.MULTILINE)
    return body.rpartition("\n-- \n")[0] or body


def satimage() -> DataSet:
    with np.load(folder() / "satimage.npz") as z:
        x, y = z["X"].astype(np.float32), np.unique(z["y"], return_inverse=True)[1].astype(np.int64)
    return DataSet("satimage", (x - 85) / 20, y, y, 1200, 1800, epochs=60, hidden=128)


def adult() -> DataSet:
    """Income; the unseen subgroups are occupations."""
    with np.load(folder() / "adult.npz") as z:
        codes, names = z["X_cat"], list(z["cat_names"])
        number = z["X_num"].astype(np.float32)
        y = z["y"].astype(np.int64)
    number = np.sign(number) * np.log1p(np.abs(number))
    onehot = [np.eye(int(column.max()) + 1, dtype=np.float32)[column] for column in codes.T]
    job = codes[:, names.index("occupation")].astype(np.int64)
    x = np.hstack([number - number.mean(axis=0), *onehot])
    return DataSet("Adult", x, y, job, 2000, 4000, epochs=40)


DATA_SETS: dict[str, Callable[[], DataSet]] = {
    "cifar100": cifar100,
    "fashion": fashion,
    "location": location,
    "newsgroups": newsgroups,
    "satimage": satimage,
    "adult": adult,
}
