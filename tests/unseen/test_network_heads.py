"""What neural regressors predict, against its definition, and the settings that they refuse."""

import numpy as np
import pytest

from divulge.regressors import bodies

torch = pytest.importorskip("torch")
from divulge.regressors import torch_network  # noqa: E402

LEVELS = (0.1, 0.4, 0.9)
GAUSSIAN = torch_network.NetworkShape(bodies.MLP(), "gaussian", LEVELS)
PINBALL = torch_network.NetworkShape(bodies.MLP(), "pinball", LEVELS)


class Fixed(torch.nn.Module):
    """A network that answers its input."""

    def __init__(self):
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x


def fitted(shape, location=0.0, scale=1.0, epochs=1):
    return torch_network.FittedNetwork(shape, torch.nn.Sequential(Fixed()), location, scale, epochs)


def test_the_gaussian_head_gives_mean_and_deviation_within_bounds():
    out = np.array([[0.5, 0.0], [-1.0, 2.0], [0.0, 30.0], [0.0, -30.0]])
    location, scale = fitted(GAUSSIAN, 3.0, 2.0).predict(out)
    np.testing.assert_allclose(location, [4.0, 1.0, 3.0, 3.0])
    np.testing.assert_allclose(scale, 2 * np.exp([0.0, 1.0, 5.0, -5.0]), rtol=1e-6)
    quantiles = fitted(GAUSSIAN, 3.0, 2.0).quantiles(out[:2])
    from scipy.stats import norm

    np.testing.assert_allclose(quantiles[0], norm.ppf(LEVELS, 4.0, 2.0), rtol=1e-6)
    np.testing.assert_allclose(quantiles[1], norm.ppf(LEVELS, 1.0, 2 * np.e), rtol=1e-6)


def test_the_pinball_head_gives_the_normal_distribution_through_its_outer_quantiles():
    """Quantiles of a normal distribution give back its mean and deviation."""
    from scipy.stats import norm

    out = np.stack([norm.ppf(LEVELS, 0.5, 3.0), norm.ppf(LEVELS, -2.0, 0.1)])
    location, scale = fitted(PINBALL, 10.0, 4.0).predict(out)
    np.testing.assert_allclose(location, [12.0, 2.0], rtol=1e-5)
    np.testing.assert_allclose(scale, [12.0, 0.4], rtol=1e-5)
    np.testing.assert_allclose(fitted(PINBALL, 10.0, 4.0).quantiles(out), 10 + 4 * out, rtol=1e-5)


@pytest.mark.parametrize("shape", [GAUSSIAN, PINBALL])
def test_a_network_that_never_had_a_finite_loss_predicts_nothing(shape):
    network = fitted(shape, epochs=0)
    location, scale = network.predict(np.ones((4, 3)))
    assert np.isnan(location).all()
    assert np.isnan(scale).all()
    assert network.quantiles(np.ones((4, 3))).shape == (4, 3)
    single = torch_network.NetworkShape(bodies.MLP(), "gaussian", (0.5,))
    assert np.isnan(fitted(single, epochs=0).predict(np.ones((2, 3)))[1]).all()


def schedule(**settings):
    settings = {"epochs": 3, "lr": 1e-2, "batch_size": 8, "weight_decay": 0.0, "held": 0.2, "patience": 2} | settings
    return torch_network.Schedule(**settings, device="cpu")


def test_location_and_scale_are_those_of_the_signal():
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    signal = np.linspace(5.0, 9.0, 20)
    network = torch_network.fit_network(GAUSSIAN, schedule(epochs=1), x, signal, 0)
    assert network.location == pytest.approx(7.0)
    assert network.scale == pytest.approx(signal.std())
    constant = torch_network.fit_network(GAUSSIAN, schedule(epochs=1), x, np.full(20, 2.0), 0)
    assert (constant.location, constant.scale) == (2.0, 1.0)
    broken = torch_network.fit_network(GAUSSIAN, schedule(epochs=1), x, np.full(20, np.nan), 0)
    assert np.isnan(broken.scale)
    assert broken.epochs == 0


def test_defaults_of_bodies_are_those_of_the_paper():
    assert bodies.MLP().hidden == bodies.TextBag().hidden == (256, 128)
    bag = bodies.TextBag()
    assert (bag.length, bag.rows, bag.dimension) == (256, 20_000, 128)
    backbone = bodies.Backbone()
    assert (backbone.name, backbone.size, backbone.weights) == ("convnext-tiny", 224, None)
    assert bodies.SmallCNN().width == 16
