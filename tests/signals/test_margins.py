"""Margin signals, MRAD's gradients and images with masks of their own, against small cases worked out by hand."""

import itertools

import numpy as np
import pytest

import divulge as dv
from divulge import completion
from divulge.signals import margin, mrad

torch = pytest.importorskip("torch")


def test_images_with_masks_of_their_own_are_completed_as_flat_rows_are():
    """Overlap and completion of images, against the same records as rows."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 5, (30, 2, 3, 2)).astype(float)
    known = rng.random((6, 2, 3, 2)) < 0.6
    partial = dv.PartialRecords(images[:6] + (np.arange(6) % 2)[:, None, None, None], None, known)
    flat = dv.PartialRecords(partial.x.reshape(6, -1), None, known.reshape(6, -1))
    agrees = completion.overlap(partial, images)
    expected = [
        any((image[mask] == record[mask]).all() for image in images)
        for record, mask in zip(partial.x, known, strict=True)
    ]
    assert agrees.tolist() == expected == completion.overlap(flat, images.reshape(30, -1)).tolist()
    assert expected[::2] == [True] * 3
    whole = completion.Mean().fit(dv.Records(images)).complete(partial)
    np.testing.assert_allclose(
        whole.reshape(6, -1), completion.Mean().fit(dv.Records(images.reshape(30, -1))).complete(flat)[0]
    )


# --- MRAD


class Linear:
    """Logits ``(x·w, 0)``."""

    def logits(self, records):
        return np.stack([records.x.sum(axis=1), np.zeros(len(records))], axis=1)


def test_the_slope_of_the_loss_along_each_direction_is_a_central_difference():
    x, y = np.array([[0.3, -0.2], [1.0, 0.5]]), np.array([0, 1])
    known = np.array([[False, True], [False, False]])
    told = mrad.Gradients("black", directions=4, epsilon=0.05).compute(Linear(), x, y, known, 7)
    u = dv.seeds.generator(7, "directions").normal(size=(4, 2, 2)) * ~known

    def loss(values):
        s = values.sum(axis=1)
        return np.logaddexp(0, s) - np.where(y == 0, s, 0.0)

    expected = np.mean([((loss(x + 0.05 * each) - loss(x - 0.05 * each)) / 0.1)[:, None] * each for each in u], axis=0)
    np.testing.assert_allclose(told, expected, atol=1e-9)
    assert told[0, 1] == 0


# --- margins


@pytest.mark.parametrize("n", [6, 40, 299, 300, 700])
def test_values_crowd_in_the_relatively_narrowest_window(n):
    values = np.random.default_rng(n).uniform(0.1, 9.0, n)
    k = max(5, n // 50)
    ordered = np.sort(values)
    windows = [ordered[i : i + k + 1] for i in range(n - k)]
    narrowest = min(windows, key=lambda window: (window[-1] - window[0]) / window[-1])
    assert margin.densest_value(values) == np.median(narrowest)
    with pytest.raises(dv.InputError, match="at least 6 are needed to find a margin, got 5"):
        margin.densest_value(values[:5])


def test_the_sign_of_an_output_stands_for_a_label_that_is_not_given_and_zero_counts_as_one():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.ReLU(), torch.nn.Linear(4, 1, bias=False))
    with torch.no_grad():
        net[2].weight.copy_(torch.tensor([[1.0, -1.0, 2.0, -0.5]]))
    x = np.random.default_rng(0).normal(size=(12, 3))
    outputs = net(torch.tensor(x, dtype=torch.float32)).detach().numpy().ravel()
    for y in (np.where(outputs < 0, -1, 1), np.where(outputs < 0, 0, 1)):
        np.testing.assert_allclose(margin.deep_multipliers(net, x, y), margin.deep_multipliers(net, x))
    assert outputs.min() < 0 < outputs.max()
    assert net.training
    net.eval()
    margin.deep_multipliers(net, x)
    assert not net.training


class Power(torch.nn.Module):
    """``w^degree · x``, for the first record plus ``offset``."""

    def __init__(self, degree, offset=0.0):
        super().__init__()
        self.w, self.degree, self.offset = torch.nn.Parameter(torch.tensor([1.5])), degree, offset

    def forward(self, x):
        return self.w**self.degree * x[:, :1] + self.offset * (x[:, :1] > 0)


@pytest.mark.parametrize(
    ("degree", "offset", "is_homogeneous"),
    [(1.0, 0, True), (2.5, 0, True), (0.995, 0, True), (0.98, 0, False), (0.5, 0, False), (2, 0.5, False)],
)
def test_a_network_is_homogeneous_of_degree_one_at_least_and_alike_on_all_records(degree, offset, is_homogeneous):
    x = np.array([[1.0], [-2.0], [0.0]])
    if is_homogeneous:
        assert margin.homogeneity_degree(Power(degree, offset), x) == pytest.approx(degree, abs=1e-3)
    else:
        with pytest.raises(dv.InputError, match="scales its outputs unevenly"):
            margin.homogeneity_degree(Power(degree, offset), x)
    with pytest.raises(dv.InputError, match="answers 0 on every record"):
        margin.homogeneity_degree(Power(degree), x[2:])


@pytest.mark.parametrize(
    ("labels", "signs"),
    [([0, 1], [-1, 1]), ([-1, 1], [-1, 1]), ([0, 0], [-1, -1]), ([1, 1], [1, 1]), ([-1, -1], [-1, -1])],
)
def test_labels_of_two_classes_are_signs(labels, signs):
    assert margin.labels_to_signs(labels, 2).tolist() == signs
    for wrong in ([0, -1], [0, 2], [0.5, 1]):
        with pytest.raises(dv.InputError, match="two classes are needed"):
            margin.labels_to_signs(wrong, 2)


def test_a_margin_is_found_where_none_is_given_and_labels_turn_wrong_records_away_from_it():
    net = dv.margin.ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
    x = np.r_[np.linspace(0.1, 9, 30), np.full(8, 4.0), [-4.0]][:, None]
    y = np.ones(39, dtype=int)
    told = margin.MarginBand().measure(net, dv.Records(x, y))
    np.testing.assert_allclose(told, -np.abs(x[:, 0] - 4.0) / 4.0)
    given = margin.MarginBand(margin=2.0).measure(net, dv.Records(x))
    np.testing.assert_allclose(given, -np.abs(np.abs(x[:, 0]) - 2.0) / 2.0)
    for signal, names in itertools.product((margin.MarginAbs(),), ("margin-abs",)):
        assert signal.name == names
        np.testing.assert_allclose(signal.measure(net, dv.Records(x, y)), x[:, 0])
