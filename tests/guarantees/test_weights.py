"""`divulge weights` reports a leak among records that were not trained on in at most 5 % of runs, whatever is asked."""

import numpy as np
import pytest
from scipy.stats import binom

from divulge import margin
from divulge.auditing.weights import ExaminationRules, examine_weights
from divulge.datafiles import NamedRows

RUNS = 80


@pytest.fixture(scope="module")
def net():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20) < 0.5, -1.0, 1.0)
    x = rng.normal(size=(20, 60))
    x[:, 0] += y
    return x, margin.train(x, y, width=100, target_margin=100.0).net


def examined(net, candidates, nonmembers, **asked):
    rows = [NamedRows(x, np.arange(len(x))) for x in (candidates, nonmembers)]
    return examine_weights(net, rows[0], ExaminationRules(**{"band": 0.1, **asked}), nonmembers=rows[1])


@pytest.mark.parametrize(("fdr", "signal"), [(0.05, "kkt-nnls"), (0.5, "kkt-nnls"), (0.9, "margin-abs")])
def test_no_leak_is_reported_of_fresh_records(net, fdr, signal):
    """Chance of failing in a true world: 1e-4 per case."""
    rng = np.random.default_rng(1)
    leaks = selected = 0
    for _ in range(RUNS):
        fresh = rng.normal(size=(70, 60))
        result = examined(net[1], fresh[:20], fresh[20:], fdr=fdr, fpr=0.1, signal=signal)
        leaks += result.leaks
        selected += result.decisions[f"FDR ≤ {fdr:g}"].count > 0
    assert leaks <= binom.isf(1e-4, RUNS, 0.05)
    if fdr > 0.05:  # the level that was asked for would have reported far more
        assert selected > leaks


def test_a_leak_is_reported_of_training_records(net):
    fresh = np.random.default_rng(2).normal(size=(100, 60))
    assert examined(net[1], np.vstack([net[0], fresh[:20]]), fresh[20:], fpr=0.1).leaks
