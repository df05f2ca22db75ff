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


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_images_are_asked_about_in_batches_with_the_answers_of_all_at_once(form):
    x = np.random.default_rng(0).normal(size=(150, 3, 8, 8)).astype(np.float32)
    batches = []
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    net.register_forward_hook(lambda module, inputs, output: batches.append(len(output)))
    answers = network_training.predict_logits(net, x, torch.device("cpu"), form=form)
    assert batches == [64, 64, 22]
    with torch.inference_mode():
        np.testing.assert_allclose(answers, net.eval()(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-6)
    plain = nn.Linear(5, 2)
    plain.register_forward_hook(lambda module, inputs, output: batches.append(len(output)))
    network_training.predict_logits(plain, np.zeros((3000, 5), np.float32), torch.device("cpu"))
    assert batches[-1] == 3000
