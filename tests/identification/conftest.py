"""Tables of scores with known membership."""

import numpy as np
import polars as pl
import pytest


@pytest.fixture
def scores():
    """Losses, low = member-like: 300 members and 700 others, and 500 known non-members."""
    rng = np.random.default_rng(0)
    return np.append(rng.normal(-3, 1, 300), rng.normal(size=700)), rng.normal(size=500)


@pytest.fixture
def tables(tmp_path, scores):
    judged, known = scores
    rng = np.random.default_rng(1)
    candidates = pl.DataFrame(
        {
            "id": [f"d{i}" for i in range(len(judged))],
            "loss": judged,
            "other": judged + rng.normal(size=len(judged)),
            "member": np.arange(len(judged)) < 300,
        }
    )
    calibration = pl.DataFrame(
        {
            "id": [f"u{i}" for i in range(len(known))],
            "loss": known,
            "other": known + rng.normal(size=len(known)),
        }
    )
    candidates.write_parquet(tmp_path / "candidates.parquet")
    calibration.write_ndjson(tmp_path / "calibration.jsonl")
    return tmp_path
