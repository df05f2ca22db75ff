"""How often a model that leaks nothing is told from its controls, and one that leaks is, over many draws.

A model's signal is that of a rule, plus random features whose weights are its training: of controls, which share
records, they are correlated. Non-members are of another kind, so that the AUC under any model is far from one half.
"""

import numpy as np
import pytest
from scipy.stats import binom

from divulge.evaluation import auc
from divulge.evaluation.control_models import compare_auc, subtract_explained

DRAWS, SIDE, UNSEEN, K, OVERLAP = 50, 100, 400, 8, 0.4
MEMBERS = np.arange(2 * SIDE) < SIDE


def most(share):
    """More than so many draws are wrong with probability 0.1 % where ``share`` of them may be."""
    return binom.isf(0.001, DRAWS, share)


def draw_signals(rng, *, leak=0.0, shift=1.0, other_rule=0.0):
    """Signals of a target and its controls on candidates and unseen records, their classes and columns."""
    n = 2 * SIDE + UNSEEN
    x, labels = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    x[SIDE : 2 * SIDE, 0] += shift
    labels[:SIDE] |= rng.random(SIDE) < 0.4 * (other_rule > 0)
    waves = np.cos(x @ rng.normal(size=(3, 30)) + rng.uniform(0, 6, 30))
    shared, own = rng.normal(size=30), rng.normal(size=(K + 1, 30))
    own[1:] = OVERLAP**0.5 * shared + (1 - OVERLAP) ** 0.5 * own[1:]
    signals = x[:, 0] + labels + 0.1 * own @ waves.T
    signals[0] += other_rule * (2 * labels - 1) * (1 + x[:, 1])
    signals[0, :SIDE] += leak
    return signals[0], signals[1:], labels, x


def count(rule, **world):
    rng = np.random.default_rng(7)
    return sum(rule(*draw_signals(rng, **world)) for _ in range(DRAWS))


def by_loss(target, controls, labels, x):
    n = 2 * SIDE
    return compare_auc(target[:n], controls[:, :n], MEMBERS, overlap=OVERLAP).difference.low > 0


def by_unexplained(target, controls, labels, x):
    gaps, control_gaps = subtract_explained(target, controls, np.zeros(controls.shape, bool), labels, x, 2 * SIDE)
    compared = compare_auc(gaps, control_gaps, MEMBERS, overlap=OVERLAP, subtracts_references=True, confidence=0.995)
    return compared.difference.low > 0


@pytest.mark.parametrize(("rule", "error"), [(by_loss, 0.025), (by_unexplained, 0.005)])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_model_that_leaks_nothing_is_seldom_told_from_its_controls(rule, error, shift):
    """Four tests, one of which fails by chance in .4 %."""
    assert count(rule, shift=shift) <= most(error)


def test_an_auc_alone_accuses_whoever_meets_other_nonmembers():
    def plain(target, *_):
        return auc(target[: 2 * SIDE], MEMBERS).low > 0.5 or auc(-target[: 2 * SIDE], MEMBERS).low > 0.5

    assert count(plain, shift=1.0) > 25


def test_another_class_mix_and_rule_are_explained_by_unseen_records_and_not_by_controls():
    assert count(by_loss, other_rule=2.0, shift=0.0) > most(0.025)
    assert count(by_unexplained, other_rule=2.0, shift=0.0) <= most(0.02)


def test_leak_is_found_behind_nonmembers_of_another_kind():
    assert count(by_unexplained, leak=0.5) > 30
