"""Channels last where it is faster and changes nothing."""

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from divulge.references import Train, network_training


class Views(nn.Module):
    """Cuts its records up by `view`, which tensors with channels last refuse."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(4 * 6 * 6, 3)

    def forward(self, x):
        return self.linear(self.convolution(x).view(len(x), -1))


class Strides(Views):
    """Reads memory as it lies: with channels last it takes them, and answers something else."""

    def forward(self, x):
        z = self.convolution(x)
        return self.linear(z.as_strided((len(x), 144), (144, 1)))


class Reshapes(Views):
    def forward(self, x):
        return self.linear(self.convolution(x).reshape(len(x), -1))


@pytest.mark.parametrize(
    ("make", "shape", "form"),
    [
        (Reshapes, (3, 8, 8), torch.channels_last),
        (Views, (3, 8, 8), network_training.CONTIGUOUS),
        (Strides, (3, 8, 8), network_training.CONTIGUOUS),
        (lambda: nn.Linear(5, 3), (5,), network_training.CONTIGUOUS),
    ],
)
def test_the_layout_is_the_networks_choice(make, shape, form):
    module = make()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert network_training.choose_layout(module, torch.rand(5, *shape)) is form
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert module.training


@pytest.mark.parametrize("make", [Reshapes, Views])
def test_trained_networks_lie_in_memory_as_they_were_made(make):
    rng = np.random.default_rng(0)
    records = dv.Records(rng.normal(size=(40, 3, 8, 8)).astype(np.float32), rng.integers(0, 3, 40))
    module = Train(make, 2, epochs=1).train_model(records, seed=0)
    assert all(value.is_contiguous() for value in module.state_dict().values())
