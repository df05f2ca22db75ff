"""Predictions that floats can express, and networks that train as they did before."""

import numpy as np
import pytest

from divulge import InputError
from divulge.targets import torch_modules
from divulge.targets.mutator import mutator

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("log_odds", "accepted"), [(-87.0, True), (-89.0, False), (13.0, True), (15.0, False), (0.0, True)]
)
def test_predictions_beyond_what_single_precision_expresses_are_refused(log_odds, accepted):
    chance = np.exp(log_odds) / (1 + np.exp(log_odds))
    if accepted:
        assert mutator([0.5, chance]) is not None
    else:
        with pytest.raises(InputError, match="log-odds from -88 to 14"):
            mutator([0.5, chance])


def test_every_part_of_a_network_trains_as_before_after_it_was_asked():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(), torch.nn.Sequential(torch.nn.Dropout()))
    network[1].eval()
    with torch_modules._evaluation_mode(network, torch.device("cpu")):
        assert not any(part.training for part in network.modules())
    assert [part.training for part in network.modules()] == [True, True, False, True, True]
    with torch_modules._evaluation_mode(lambda x: x, torch.device("cpu")):
        pass
