"""What `partial.py` runs on: real data sets, disjoint from what comes with the package but for Fashion-MNIST."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

from divulge.demo import fashion_mnist


@cache
def cifar():
    """Ten superclasses of CIFAR-100, 16 x 16."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "cifar100_full.npz")
    parts = []
    for name in ("train_res", "test_res"):
        x = np.cumsum(np.cumsum(z[name], 2, dtype=np.uint8), 3, dtype=np.uint8)
        x[0] += x[1]
        x[2] += x[1]
        parts.append(x.transpose(1, 2, 3, 0))
    y = np.r_[z["coarse_train"], z["coarse_test"]]
    x = np.concatenate(parts)[y < 10]
    x = x.reshape(-1, 16, 2, 16, 2, 3).mean((2, 4)) / 255
    return x.astype(np.float32), y[y < 10].astype(int)


@cache
def fashion():
    """Fashion-MNIST, 14 x 14."""
    records = fashion_mnist()
    return records.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)), records.y


@cache
def location():
    """446 places that somebody visited or did not."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "location30.npz")
    x = np.unpackbits(z["x_bits"], axis=1, count=int(z["n_features"]))
    return x.astype(np.float32), z["y"].astype(int)


@cache
def adult():
    """Six standardised numbers and eight one-hot groups, without duplicates."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz")
    numbers, codes = z["X_num"].astype(np.float64), z["X_cat"]
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    groups = [np.eye(codes[:, j].max() + 1)[codes[:, j]] for j in range(codes.shape[1])]
    x, first = np.unique(np.hstack([numbers, *groups]).astype(np.float32), axis=0, return_index=True)
    return x, z["y"].astype(int)[first]


@cache
def attributes() -> tuple[str, ...]:
    """Names of Adult's columns: a one-hot column is called attribute=value."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz")
    codes = zip(z["cat_names"], z["X_cat"].max(0) + 1, strict=True)
    return (*map(str, z["num_names"]), *(f"{name}={code}" for name, count in codes for code in range(count)))


DATA = {"cifar": cifar, "fashion": fashion, "location": location, "adult": adult}
