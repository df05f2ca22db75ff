"""Multipliers of deep homogeneous networks: empirical, and said to be."""

import itertools

import numpy as np
import pytest

import divulge as dv
from divulge import margin

torch = pytest.importorskip("torch")
from divulge.signals import margin as margin_signals  # noqa: E402  needs torch


def layers(*sizes, bias=False):
    parts = []
    for a, b in itertools.pairwise(sizes):
        parts += [torch.nn.Linear(a, b, bias=bias), torch.nn.ReLU()]
    torch.manual_seed(0)
    return torch.nn.Sequential(*parts[:-1])


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_degree_is_the_number_of_layers(depth):
    net = layers(6, *[5] * (depth - 1), 1)
    x = np.random.default_rng(0).normal(size=(8, 6))
    assert margin_signals.homogeneity_degree(net, x) == pytest.approx(depth, abs=1e-3)


def test_a_network_with_biases_is_refused():
    with pytest.raises(dv.InputError, match="not homogeneous"):
        margin_signals.deep_multipliers(layers(6, 5, 5, 1, bias=True), np.random.default_rng(0).normal(size=(9, 6)))


def test_several_outputs_are_scored_by_the_margin_over_the_second_class():
    rng = np.random.default_rng(0)
    net, x, y = layers(60, 40, 3).double(), rng.normal(size=(90, 60)), np.arange(90) % 3
    optimiser = torch.optim.SGD(net.parameters(), lr=0.2)
    for _ in range(600):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.tensor(x[:30])), torch.tensor(y[:30])).backward()
        optimiser.step()
    scores = margin_signals.deep_multipliers(net, x, y)
    assert dv.evaluation.auc(scores, np.arange(90) < 30).value > 0.9
    with pytest.raises(dv.InputError, match="classes 0 to 2"):
        margin_signals.deep_multipliers(net, x, y + 1)


def test_with_one_hidden_layer_it_is_the_shallow_score():
    net = layers(6, 9, 1).double()
    x = np.random.default_rng(0).normal(size=(15, 6))
    shallow = margin.ShallowReLU.from_torch(net)
    # The shallow score also spans the biases, which this network holds at 0: a column of zeros in the data is none.
    gradients = margin_signals.deep_multipliers(net, x)
    sign = np.where(shallow(x) < 0, -1.0, 1.0)
    before = x @ shallow.w.T
    table = [
        np.column_stack([((row > 0) * shallow.v)[:, None] * point, np.maximum(row, 0)]).ravel() * s
        for row, point, s in zip(before, x, sign, strict=True)
    ]
    from scipy.optimize import nnls

    expected, _ = nnls(np.array(table).T, np.column_stack([shallow.w, shallow.v]).ravel())
    np.testing.assert_allclose(gradients, expected, atol=1e-6)


def test_members_of_a_deep_network_carry_weight():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 80)), np.where(np.arange(60) % 2, 1.0, -1.0)
    net = layers(80, 30, 30, 1)
    data, sign = torch.tensor(x[:12], dtype=torch.float32), torch.tensor(y[:12], dtype=torch.float32)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(800):
        optimiser.zero_grad()
        torch.nn.functional.softplus(-net(data)[:, 0] * sign).mean().backward()
        optimiser.step()
    score = margin_signals.deep_multipliers(net, x, y)
    assert dv.evaluation.auc(score, np.arange(60) < 12).value > 0.9
    assert margin_signals.DeepMultipliers().guarantee.level == 1.0
