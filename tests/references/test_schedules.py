"""The learning rate over a training, by its schedule."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from divulge import InputError
from divulge.references import Train
from divulge.references import network_training as networks
from divulge.references.hyperparameters import FineTuneSettings, Hyperparameters, LoRA, Private


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


@pytest.mark.parametrize(("lora", "lr", "rate"), [(None, None, 5e-5), (LoRA(), None, 2e-4), (LoRA(), 0.1, 0.1)])
def test_the_default_rate_of_a_fine_tune_is_higher_with_adapters(lora, lr, rate):
    assert FineTuneSettings("hf:base", lora=lora, lr=lr).learning_rate == rate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"privacy": Private(1.0), "stop_at_accuracy": 0.9}, "privacy: DP-SGD works with neither"),
        ({"privacy": Private(1.0), "precision": "mixed"}, "privacy: DP-SGD works with neither"),
        ({"privacy": 1.0}, "privacy"),
        ({"augment": 3}, "augment"),
        ({"make_model": 3}, "make_model: a function that returns a new network"),
        ({"make_model": torch.nn.Linear(1, 1)}, "make_model: a function that returns a new network"),
        ({"stop_after": 31, "epochs": 30}, "stop_after: must be at most epochs = 30, got 31"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Hyperparameters(**settings)


@pytest.mark.parametrize(
    ("noise", "is_allowed"), [(0.0, True), (1e-6, True), (0.99e-6, False), (1e-9, False), (-1.0, False), (1.0, True)]
)
def test_noise_is_none_or_enough_to_be_accounted_for(noise, is_allowed):
    if is_allowed:
        assert Private(noise).noise == noise
        return
    with pytest.raises(InputError, match="noise"):
        Private(noise)


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
