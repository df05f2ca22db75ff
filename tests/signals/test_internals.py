"""Norms of gradients in the weights and angles of hidden layers, beside loops over records."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from divulge.signals import internals
from divulge.targets import CallableTarget, GivesGradientNorms, Metered, TorchTarget, torch_modules
from odd_networks import Scaled


class Recurrent(nn.Module):
    """`vmap` takes its recurrent layer, and warns that it is slow."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.inner(x)[0][:, -1])


class Wrapped(nn.Module):
    """Probabilities, in a tuple."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return (self.inner(x).softmax(1),)


def perceptron(bias=True, outputs=3):
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, outputs, bias=bias))


def convolutions():
    inner = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)]
    return nn.Sequential(*inner)


def tokens():
    return nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 3))


class Branching(nn.Module):
    """`vmap` cannot take it: where it goes depends on the values."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.first(x)
        return self.last(h if float(h.detach().sum()) > 0 else h.tanh())


CASES = {
    "perceptron": (perceptron, (5,)),
    "without a bias": (lambda: perceptron(bias=False), (5,)),
    "one output": (lambda: perceptron(outputs=1), (5,)),
    "convolutions": (convolutions, (1, 6, 6)),
    "tokens": (tokens, (3,)),
    "recurrent": (Recurrent, (6, 4)),
}


def records(shape, n=9, classes=3, *, integers=False):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 7, size=(n, *shape)) if integers else rng.normal(size=(n, *shape))
    return dv.Records(x, rng.integers(0, classes, n))


def naive_norms(net, data):
    """Log-norms of each record's gradient, by autograd on its own loss: of the last linear layer, and of everything."""
    last_layer = [part for part in net.modules() if isinstance(part, nn.Linear)][-1]
    log_norms = []
    net.eval()
    for x, y in zip(data.x, data.y, strict=True):
        net.zero_grad()
        inputs = torch.from_numpy(x)[None] if x.dtype.kind == "i" else torch.from_numpy(x)[None].double()
        z = net(inputs)
        z = torch.cat([torch.zeros_like(z), z], dim=1) if z.shape[1] == 1 else z
        nn.functional.cross_entropy(z, torch.tensor([y])).backward()
        norms = [sum(float((p.grad**2).sum()) for p in part.parameters()) for part in (last_layer, net)]
        log_norms.append([math.log(norm) / 2 for norm in norms])
    return np.array(log_norms)


@pytest.mark.parametrize("case", CASES)
def test_norms_of_gradients_are_those_of_a_loop_over_records(case):
    make, shape = CASES[case]
    torch.manual_seed(0)
    net = make()
    data = records(shape, classes=2 if case == "one output" else 3, integers=case == "tokens")
    records_given = dv.Records(data.x if case == "tokens" else data.x.astype(np.float32), data.y)
    slow = naive_norms(make_double(net), data)
    for batch_size in (1, 4, 64):
        fast = TorchTarget(net, device="cpu", batch_size=batch_size).gradient_norms(records_given)
        np.testing.assert_allclose(fast, slow, atol=2e-5)


def make_double(net):
    """A copy in double precision."""
    state = {name: value.double() if value.is_floating_point() else value for name, value in net.state_dict().items()}
    twin = Recurrent() if isinstance(net, Recurrent) else nn.Sequential(*(_reuse(part) for part in net))
    twin.double().load_state_dict(state)
    return twin


def _reuse(part):
    if isinstance(part, nn.Linear):
        return nn.Linear(part.in_features, part.out_features, bias=part.bias is not None)
    if isinstance(part, nn.Conv2d):
        return nn.Conv2d(1, 4, 3)
    return {nn.BatchNorm2d: lambda: nn.BatchNorm2d(4), nn.Embedding: lambda: nn.Embedding(7, 4)}.get(
        type(part), type(part)
    )()


def test_what_vmap_cannot_take_is_asked_one_record_at_a_time():
    """Its answer for a batch is that of its sum, so batches of one are asked for here."""
    torch.manual_seed(4)
    net, data = Branching(), records((5,))
    fast = TorchTarget(net, device="cpu", batch_size=1).gradient_norms(data)
    twin = Branching().double()
    twin.load_state_dict({name: value.double() for name, value in net.state_dict().items()})
    np.testing.assert_allclose(fast, naive_norms(twin, data), atol=2e-5)


def test_probabilities_and_double_precision_give_the_norms_of_the_logits():
    torch.manual_seed(2)
    net, data = perceptron(), records((5,))
    plain = TorchTarget(net, device="cpu").gradient_norms(data)
    wrapped = TorchTarget(Wrapped(net), outputs="probabilities", device="cpu").gradient_norms(data)
    np.testing.assert_allclose(wrapped, plain, atol=1e-6)
    np.testing.assert_allclose(TorchTarget(net.double(), device="cpu").gradient_norms(data), plain, atol=1e-5)


def test_a_record_the_network_is_sure_of_keeps_its_order_where_single_precision_says_zero():
    """1 - p underflows from logits 17 apart in single precision; the norms still differ by the factor they should."""
    layer = nn.Linear(1, 2)
    layer.weight.data, layer.bias.data = torch.tensor([[1.0], [0.0]]), torch.zeros(2)
    data = dv.Records([[40.0], [80.0], [400.0]], [0, 0, 0])
    norms = TorchTarget(layer, device="cpu").gradient_norms(data)
    expected = [math.log(2) / 2 - x + math.log(x**2 + 1) / 2 for x in (40.0, 80.0, 400.0)]
    np.testing.assert_allclose(norms, np.column_stack([expected, expected]), rtol=1e-6)
    values = internals.measure(TorchTarget(layer, device="cpu"), dv.Records([[1e5]], [0]), ("weight-gradient",))
    assert values.tolist() == [[torch_modules.MAX_LOG_NORM]]


def test_directions_and_lengths_of_a_loss_in_the_logits():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(50, 4)) * 3, rng.integers(0, 4, 50)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    slope = p - np.eye(4)[y]
    length, v = torch_modules.logit_gradients(z, y)
    np.testing.assert_allclose(np.exp(length)[:, None] * v, slope, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1.0)


def test_angles_are_those_of_a_loop_and_do_not_change_with_rotation_scale_or_a_common_part():
    rng = np.random.default_rng(1)
    h, w, y = rng.normal(size=(20, 6)), rng.normal(size=(4, 6)), rng.integers(0, 4, 20)
    fast = internals.feature_angle(h, w, y)
    slow = [
        float(a @ (w[c] - w.mean(0))) / math.sqrt(float(a @ a) * float(((w[c] - w.mean(0)) ** 2).sum()))
        for a, c in zip(h, y, strict=True)
    ]
    np.testing.assert_allclose(fast, slow)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    np.testing.assert_allclose(internals.feature_angle(3 * h @ turn, 7 * w @ turn + rng.normal(size=6), y), fast)
    np.testing.assert_allclose(
        internals.feature_angle(h, w[:1], y % 2), internals.feature_angle(h, np.vstack([0 * w[:1], w[:1]]), y % 2)
    )
    assert internals.feature_angle(np.zeros((1, 6)), w, np.array([0])).tolist() == [0.0]


def test_larger_means_more_like_a_member():
    """A network that fits 40 records by heart: their gradients are shorter, and they lie nearer their class."""
    rng = np.random.default_rng(5)
    data = dv.Records(rng.normal(size=(80, 20)), rng.integers(0, 3, 80))

    def make():
        return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))

    net = dv.references.train_one(make, data[:40], seed=0, epochs=60, lr=0.01, optimizer="adam", device="cpu")
    values = internals.measure(TorchTarget(net, device="cpu"), data, tuple(internals.SIGNALS))
    member = np.arange(80) < 40
    for column in values.T:
        assert dv.evaluation.auc(column, member).value > 0.8


def test_where_nothing_was_seen_nothing_is_told():
    """80 draws of 60 records of each kind: the mean AUC has a standard error of about .006."""
    rng = np.random.default_rng(6)
    areas = []
    for seed in range(80):
        torch.manual_seed(seed)
        data = dv.Records(rng.normal(size=(120, 5)), rng.integers(0, 3, 120))
        values = internals.measure(TorchTarget(perceptron(), device="cpu"), data, tuple(internals.SIGNALS))
        areas.append([dv.evaluation.auc(column, np.arange(120) < 60).value for column in values.T])
    np.testing.assert_allclose(np.mean(areas, axis=0), 0.5, atol=0.025)


def test_a_meter_grants_the_right_and_counts():
    meter = Metered(TorchTarget(perceptron(), device="cpu"))
    assert isinstance(meter, GivesGradientNorms)
    assert not isinstance(Metered(CallableTarget(lambda x: x)), GivesGradientNorms)
    names = tuple(internals.SIGNALS)
    internals.measure(meter, records((5,)), names)
    assert meter.queries == internals.count_passes(names) * 9


class Detached(nn.Module):
    """Nothing can be differentiated."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        with torch.no_grad():
            return self.last(x)


@pytest.mark.parametrize(
    ("net", "y", "message"),
    [
        (Scaled(perceptron()), [0], "outputs are not those of its last linear layer"),
        (nn.Conv1d(1, 3, 5), [0], "Conv1d has no linear layer"),
        (
            nn.Sequential(perceptron(), nn.Unflatten(1, (1, 3)), nn.Linear(3, 3), nn.Flatten()),
            [0],
            "not fed one vector",
        ),
        (perceptron(), [3], r"y: .*3"),
        (perceptron(), None, "y is None"),
        (Detached(), [0], "cannot be differentiated in its weights"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(net, y, message):
    shape = (1, 1, 5) if isinstance(net, nn.Conv1d) else (1, 5)
    with pytest.raises(dv.InputError, match=message):
        TorchTarget(net, device="cpu").gradient_norms(dv.Records(np.ones(shape), y))


def test_unknown_names_missing_rights_and_labels_are_refused():
    net = TorchTarget(perceptron(), device="cpu")
    with pytest.raises(dv.InputError, match="signal: 'gradient' is unknown"):
        internals.measure(net, records((5,)), ("gradient",))
    with pytest.raises(dv.InputError, match=r"y is None"):
        internals.measure(net, dv.Records(np.ones((1, 5))), ("feature-angle",))
    with pytest.raises(dv.InputError, match=r"torch module is needed .*, got CallableTarget"):
        internals.measure(CallableTarget(lambda x: x), records((5,)), ("feature-angle",))
