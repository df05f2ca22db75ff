"""`divulge weights` reports a leak among records that were not trained on in at most 5 % of runs, whatever is asked."""

import numpy as np
import pytest
from scipy.stats import binom

from divulge import margin
from divulge.cli import weights

RUNS = 200


@pytest.fixture(scope="module")
def net():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20) < 0.5, -1.0, 1.0)
    x = rng.normal(size=(20, 60))
    x[:, 0] += y
    return x, margin.train(x, y, width=100, target_margin=100.0).net


def examined(net, folder, candidates, nonmembers, **asked):
    files = folder / "candidates.npz", folder / "nonmembers.npz"
    for path, x in zip(files, (candidates, nonmembers), strict=True):
        np.savez(path, x=x)
    told = {"margin": None, "leaked": None, "band": 0.1, "signal": "kkt-nnls", "fpr": 0.01, "fdr": 0.05} | asked
    return weights._examine(net, weights._Request(*files, **told))


@pytest.mark.parametrize(("asked", "signal"), [(0.05, "kkt-nnls"), (0.5, "kkt-nnls"), (0.9, "margin-abs")])
def test_no_leak_is_reported_of_fresh_records(net, tmp_path, asked, signal):
    """Chance of failing in a true world: 1e-4 per case."""
    rng = np.random.default_rng(1)
    leaks = selected = 0
    for _ in range(RUNS):
        fresh = rng.normal(size=(70, 60))
        result = examined(net[1], tmp_path, fresh[:20], fresh[20:], fdr=asked, fpr=0.1, signal=signal)
        leaks += result.leaks
        selected += result.decisions[f"FDR ≤ {asked:g}"].count > 0
    assert leaks <= binom.isf(1e-4, RUNS, 0.05)
    if asked > 0.05:  # the level that was asked for would have reported far more
        assert selected > leaks


def test_a_leak_is_reported_of_training_records(net, tmp_path):
    fresh = np.random.default_rng(2).normal(size=(100, 60))
    assert examined(net[1], tmp_path, np.vstack([net[0], fresh[:20]]), fresh[20:], fpr=0.1).leaks
