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
    candidate_losses, calibration_losses = scores
    rng = np.random.default_rng(1)
    candidates = pl.DataFrame(
        {
            "id": [f"d{i}" for i in range(len(candidate_losses))],
            "loss": candidate_losses,
            "other": candidate_losses + rng.normal(size=len(candidate_losses)),
            "member": np.arange(len(candidate_losses)) < 300,
        }
    )
    calibration = pl.DataFrame(
        {
            "id": [f"u{i}" for i in range(len(calibration_losses))],
            "loss": calibration_losses,
            "other": calibration_losses + rng.normal(size=len(calibration_losses)),
        }
    )
    candidates.write_parquet(tmp_path / "candidates.parquet")
    calibration.write_ndjson(tmp_path / "calibration.jsonl")
    return tmp_path
