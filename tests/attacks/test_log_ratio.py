"""The logarithm of the ratio to the mean probability under reference models, written in loops."""

import numpy as np
import pytest

import divulge as dv
from divulge.attacks import BASE


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    trained = rng.random((6, 9)) < 0.5
    trained[:, 3] = True  # no model is without this record
    trained[:, 4] = False
    return -rng.exponential(3, 9), -rng.exponential(3, (6, 9)), trained


def test_the_mean_is_over_the_models_that_were_not_trained_on_the_record(table):
    target, references, trained = table
    everything = [np.exp(references[k, i]) for k in range(6) for i in range(9) if not trained[k, i]]
    scores = BASE(scale=1.0).score(dv.Evidence(target=target, references=references, trained_on=trained))
    for i in range(9):
        out = [np.exp(references[k, i]) for k in range(6) if not trained[k, i]]
        assert scores[i] == pytest.approx(target[i] - np.log(np.mean(out or everything)))


def test_over_all_the_mean_is_over_every_model(table):
    target, references, trained = table
    evidence = dv.Evidence(target=target, references=references, trained_on=trained)
    expected = target - np.log(np.exp(references).mean(axis=0))
    np.testing.assert_allclose(BASE("online").score(evidence), expected, atol=1e-6)
    np.testing.assert_allclose(
        BASE(scale=1.0).score(dv.Evidence(target=target, references=references)), expected, atol=1e-6
    )


def test_probabilities_that_vanish_as_floats_are_still_compared():
    target, references = np.array([-1000.0, -2000.0]), np.array([[-1100.0, -2000.0], [-1100.0, -2000.0]])
    np.testing.assert_allclose(BASE(scale=1.0).score(dv.Evidence(target=target, references=references)), [100.0, 0.0])


def test_what_is_no_log_probability_is_refused():
    with pytest.raises(dv.InputError, match=r"at most 0, got 0\.5"):
        BASE(scale=1.0).score(dv.Evidence(target=[0.5], references=[[-1.0]]))
    with pytest.raises(dv.InputError, match="mode"):
        BASE("none")
