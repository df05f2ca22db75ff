"""Steps of the training of neural regressors, against their definitions."""

import json
import types

import numpy as np
import pytest

from divulge import InputError, networks
from divulge.regressors import Network, bodies

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


def test_the_monotone_head_adds_positive_steps_to_its_lowest_quantile():
    head = torch_network.MonotoneHead(3)
    head(torch.zeros(1, 2))
    with torch.no_grad():
        head.linear.weight.zero_()
        head.linear.bias.copy_(torch.tensor([-1.0, 0.0, 2.0]))
    steps = np.log1p(np.exp([0.0, 2.0]))
    expected = [-1.0, -1.0 + steps[0], -1.0 + steps.sum()]
    np.testing.assert_allclose(head(torch.zeros(1, 2)).detach().numpy()[0], expected, rtol=1e-6)


def test_threads_and_random_streams_are_as_before():
    before, state = torch.get_num_threads(), torch.random.get_rng_state()
    with networks.single_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with networks.torch_seed(5, torch.device("cpu")):
        drawn = torch.rand(3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(5)))


def test_the_small_convolutional_network_halves_the_image_three_times():
    network = networks.small_cnn(3, 2)
    convolutions = [part for part in network if isinstance(part, torch.nn.Conv2d)]
    assert [(part.in_channels, part.out_channels) for part in convolutions] == [(3, 2), (2, 4), (4, 8), (8, 16)]
    assert [part.stride for part in convolutions] == [(1, 1), (2, 2), (2, 2), (2, 2)]
    assert {(part.kernel_size, part.padding) for part in convolutions} == {((3, 3), (1, 1))}
    assert [part.num_groups for part in network if isinstance(part, torch.nn.GroupNorm)] == [1] * 4
    assert network[:9](torch.zeros(1, 3, 16, 16)).shape == (1, 8, 4, 4)
    assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 16)


def test_words_are_numbered_from_one_and_cut_at_the_length():
    import zlib

    tokens = bodies.TextBag(length=3, rows=1000).prepare(np.array(["Yes, yes no more", "", "a_b"], dtype=object))
    numbers = [1 + zlib.crc32(word) % 999 for word in (b"yes", b"yes", b"no")]
    assert tokens.tolist() == [numbers, [0, 0, 0], [1 + zlib.crc32(b"a_b") % 999, 0, 0]]
    assert tokens.dtype == np.int64
    two = bodies.TextBag(length=50, rows=2).prepare(np.array([" ".join("abcdefgh")], dtype=object))
    assert set(two[0]) == {0, 1}
    embedding = networks.text_bag(10, 4, (3,))[0]
    assert embedding.padding_idx == 0
    assert (embedding.num_embeddings, embedding.embedding_dim) == (10, 4)


def test_images_are_standardised_by_channel_and_a_constant_channel_is_left():
    images = np.random.default_rng(0).normal(3, 2, (10, 2, 4, 5)).astype(np.float32)
    images[:, 1] = 7.0
    standardised = networks.standardised(torch.nn.Identity(), images)(torch.from_numpy(images)).numpy()
    expected = (images[:, 0] - images[:, 0].mean()) / images[:, 0].std()
    np.testing.assert_allclose(standardised[:, 0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(standardised[:, 1], 0.0, atol=1e-6)
    grey = images[:, :1]
    assert networks.standardised(torch.nn.Identity(), grey)(torch.from_numpy(grey)).shape == (10, 3, 4, 5)


@pytest.mark.parametrize("shape", [(2, 5, 6), (2, 5, 1, 1)])
def test_the_embedding_is_the_first_token_or_the_pooled_image(shape):
    sizes = []

    class Model(torch.nn.Module):
        def forward(self, pixel_values):
            sizes.append(tuple(pixel_values.shape[-2:]))
            hidden = torch.arange(60.0).reshape(2, 5, 6) if len(shape) == 3 else torch.zeros(2, 5, 3, 3)
            return types.SimpleNamespace(last_hidden_state=hidden, pooler_output=torch.ones(2, 5, 1, 1))

    pooled = networks.Pooled(Model(), 8)
    answers = [pooled(torch.zeros(2, 3, *image)) for image in ((8, 8), (8, 9), (4, 8))]
    assert sizes == [(8, 8)] * 3
    expected = torch.arange(60.0).reshape(2, 5, 6)[:, 0] if len(shape) == 3 else torch.ones(2, 5)
    assert all(torch.equal(answer, expected) for answer in answers)


def schedule(**settings):
    settings = {"epochs": 3, "lr": 1e-2, "batch_size": 8, "weight_decay": 0.0, "held": 0.2, "patience": 2} | settings
    return torch_network.Schedule(**settings, device="cpu")


def train(monkeypatch, losses, n=20, **settings):
    """Train with these held-out losses; return the best pass and the number of losses computed."""
    seen = []

    def loss(shape, module, prepared, target):
        seen.append(len(target))
        return losses[len(seen) - 1]

    monkeypatch.setattr(torch_network, "_validation_loss", loss)
    x = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    network = torch_network.fit_network(GAUSSIAN, schedule(**settings), x, x[:, 0].astype(np.float64), 0)
    return network.epochs, len(seen), (seen or [0])[0]


@pytest.mark.parametrize(
    ("n", "held", "held_out"), [(20, 0.2, 4), (20, 0.01, 2), (20, 0.26, 5), (20, 0.27, 5), (20, 0.9, 18)]
)
def test_the_share_held_out_is_rounded_and_never_below_two(monkeypatch, n, held, held_out):
    assert train(monkeypatch, [1.0], n, epochs=1, held=held)[2] == held_out


def test_two_records_must_be_left_to_learn_from(monkeypatch):
    with pytest.raises(InputError, match=r"Network\.held: 0\.95 of 20 records leaves fewer than 2 to learn"):
        train(monkeypatch, [1.0], 20, epochs=1, held=0.95)


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs"), ({"batch_size": 1}, "batch_size"), ({"patience": 0}, "patience"),
        ({"epochs": 2**31 + 1}, "epochs"), ({"batch_size": 2**31 + 1}, "batch_size"), ({"lr": 0.0}, "lr"),
        ({"lr": 3e38}, "lr"), ({"weight_decay": -0.1}, "weight_decay"), ({"held": 1.01}, "held"),
        ({"held": -0.01}, "held"), ({"levels": (0.5, 0.5)}, "levels"), ({"body": object()}, "body"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(InputError, match=rf"Network\.{message}"):
        Network(**settings)


def test_settings_at_their_limits_are_taken():
    network = Network(epochs=1, batch_size=2, patience=1, held=0, weight_decay=0, lr=2.9e38)
    assert (network.epochs, network.batch_size) == (1, 2)
    assert Network(epochs=2**31, batch_size=2**31, patience=2**31).epochs == 2**31
    defaults = Network()
    assert (defaults.epochs, defaults.lr, defaults.batch_size) == (30, 1e-3, 64)
    assert (defaults.weight_decay, defaults.held, defaults.patience) == (0, 0.2, 5)


@pytest.mark.parametrize("n", [9, 10])
def test_ten_records_are_enough_and_nine_are_not(n):
    x, signal = np.random.default_rng(0).normal(size=(n, 2)), np.arange(float(n))
    if n == 10:
        assert Network(epochs=1).fit(x, signal).location == 4.5
        return
    with pytest.raises(InputError, match="at least 10 records are needed to learn from, got 9"):
        Network(epochs=1).fit(x, signal)


@pytest.mark.parametrize(
    ("make", "is_allowed"),
    [
        (lambda: bodies.SmallCNN(1), True),
        (lambda: bodies.SmallCNN(0), False),
        (lambda: bodies.SmallCNN(10**5), True),
        (lambda: bodies.SmallCNN(10**5 + 1), False),
        (lambda: bodies.MLP((1, 10**5)), True),
        (lambda: bodies.MLP((1, 10**5 + 1)), False),
        (lambda: bodies.MLP((0,)), False),
        (lambda: bodies.MLP(()), False),
        (lambda: bodies.TextBag(length=1, rows=2, dimension=1), True),
        (lambda: bodies.TextBag(length=10**5, rows=10**9, dimension=10**5), True),
        (lambda: bodies.TextBag(length=0), False),
        (lambda: bodies.TextBag(rows=1), False),
        (lambda: bodies.TextBag(rows=10**9 + 1), False),
        (lambda: bodies.TextBag(dimension=0), False),
        (lambda: bodies.TextBag(hidden=()), False),
        (lambda: bodies.Backbone(size=32), True),
        (lambda: bodies.Backbone(size=31), False),
        (lambda: bodies.Backbone(size=2**14), True),
        (lambda: bodies.Backbone(size=2**14 + 1), False),
        (lambda: bodies.Backbone(weights=""), False),
        (lambda: bodies.Published(""), False),
    ],
)
def test_sizes_of_bodies_have_limits(make, is_allowed):
    if is_allowed:
        make()
        return
    with pytest.raises(InputError):
        make()


def test_defaults_of_bodies_are_those_of_the_paper():
    assert bodies.MLP().hidden == bodies.TextBag().hidden == (256, 128)
    bag = bodies.TextBag()
    assert (bag.length, bag.rows, bag.dimension) == (256, 20_000, 128)
    backbone = bodies.Backbone()
    assert (backbone.name, backbone.size, backbone.weights) == ("convnext-tiny", 224, None)
    assert bodies.SmallCNN().width == 16


@pytest.mark.parametrize(
    ("shape", "weights", "is_noted"),
    [((5, 4), None, False), ((5, 4, 4), None, True), ((5, 4, 4), "folder", False), ((5, 4, 4, 3), None, True)],
)
def test_images_read_as_rows_are_noted(shape, weights, is_noted):
    assert bool(bodies.Published(weights).notes(np.zeros(shape))) is is_noted


def test_each_kind_of_record_has_its_published_body(tmp_path):
    weights = str(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    (tmp_path / "model.safetensors").touch()
    texts = np.array(["a"], dtype=object)
    for given in (None, weights):
        published = bodies.Published(given)
        assert published._body(texts) == bodies.TextBag()
        assert published._body(np.zeros((2, 3))) == bodies.MLP()
    assert bodies.Published()._body(np.zeros((2, 3, 3))) == bodies.MLP()
    assert bodies.Published(weights)._body(np.zeros((2, 3, 3))) == bodies.Backbone("vit-base", 224, weights)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "resnet", "image_size": 64}))
    assert bodies.Published(weights)._backbone() == bodies.Backbone("resnet-50", 64, weights)
