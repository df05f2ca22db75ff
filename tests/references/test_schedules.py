"""The learning rate over a training, by its schedule."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from divulge import InputError
from divulge.references import Train
from divulge.references import network_training as networks


def rates(schedule, **options):
    train = Train(lambda: nn.Linear(2, 2), count=2, epochs=1, schedule=schedule, **options)
    config = train.config if hasattr(train, "config") else train
    return [config.rate(progress) for progress in (0.0, 0.25, 0.5, 0.75, 1.0)]


def test_each_schedule_starts_at_the_learning_rate_and_falls_as_its_name_says():
    assert rates("constant", lr=0.2) == [0.2] * 5
    assert rates("linear", lr=0.2) == pytest.approx([0.2, 0.15, 0.1, 0.05, 0.0])
    cosine = [0.1 * (1 + math.cos(math.pi * fraction)) for fraction in (0, 0.25, 0.5, 0.75, 1)]
    assert rates("cosine", lr=0.2) == pytest.approx(cosine)
    assert rates(lambda progress: 3 * progress, lr=0.2) == pytest.approx([0.0, 0.15, 0.3, 0.45, 0.6])
    with pytest.raises(InputError, match="schedule"):
        rates(lambda progress: -1.0)


def test_the_rate_of_each_optimizer_is_its_own():
    assert rates("constant", optimizer="sgd") == [0.02] * 5
    assert rates("constant", optimizer="adam") == [0.001] * 5


@pytest.mark.parametrize(
    ("dtype", "module", "expected"),
    [
        ("int64", nn.Embedding(9, 2), torch.int64),
        ("uint8", nn.Sequential(nn.EmbeddingBag(9, 2)), torch.int64),
        ("int64", nn.Linear(2, 2), torch.float32),
        ("float64", nn.Embedding(9, 2), torch.float32),
        ("float64", nn.Linear(2, 2), torch.float32),
    ],
)
def test_whole_numbers_stay_whole_for_networks_that_look_them_up(dtype, module, expected):
    tensor = networks.to_tensor(np.ones((3, 2), dtype), module, torch.device("cpu"), torch.float32)
    assert tensor.dtype == expected
    assert tensor.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2)), (4, 3, 8, 8), torch.channels_last),
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), (4, 3, 8, 8), torch.contiguous_format),
        (nn.Linear(8, 2), (4, 8), torch.contiguous_format),
    ],
)
def test_channels_come_last_for_images_in_networks_that_convolve(module, shape, expected):
    assert networks.choose_layout(module, torch.zeros(shape)) == expected
