"""The labels that attacks on scoring endpoints are tried on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def data() -> dict[str, np.ndarray]:
    from sklearn.datasets import load_iris

    folder = Path(os.environ["DIVULGE_DATA"])
    satimage = np.unique(np.load(folder / "satimage.npz")["y"], return_inverse=True)[1]
    titanic = np.load(folder / "titanic2201.npz")["y"].astype(np.int64)
    return {"Titanic": titanic, "Iris": load_iris().target, "Satimage": satimage[:6430], "competition": titanic[:198]}
