"""Networks that train as they did before."""

import pytest

from divulge.targets import torch_modules

torch = pytest.importorskip("torch")


def test_every_part_of_a_network_trains_as_before_after_it_was_asked():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(), torch.nn.Sequential(torch.nn.Dropout()))
    network[1].eval()
    with torch_modules._evaluation_mode(network, torch.device("cpu")):
        assert not any(part.training for part in network.modules())
    assert [part.training for part in network.modules()] == [True, True, False, True, True]
    with torch_modules._evaluation_mode(lambda x: x, torch.device("cpu")):
        pass
