"""Steps of completion, MRAD and the margin signals, against small cases worked out by hand."""

import itertools

import numpy as np
import pytest

import divulge as dv
from divulge import completion
from divulge.completion import imputers
from divulge.completion.imputers import RecordColumns
from divulge.signals import margin, mrad

torch = pytest.importorskip("torch")


# --- columns


def test_one_hot_groups_are_runs_of_columns_of_which_each_record_has_one():
    def groups(*columns):
        return [group.tolist() for group in RecordColumns.from_array(np.array(columns, dtype=float).T).groups]

    a, b, c = [1, 0, 0], [0, 1, 0], [0, 0, 1]
    assert groups(a, b, c) == [[0, 1, 2]]
    assert groups(a, b) == []  # the third record has none
    assert groups([0.5, 1, 0], a, b, c, [1, 1, 0]) == [[1, 2, 3]]
    assert groups([1, 1, 0], a, b, c) == [[1, 2, 3]]  # begins one column later
    assert groups(a, b, c, a, b, c) == [[0, 1, 2], [3, 4, 5]]
    assert groups([1, 1, 1], a, b, c) == [[1, 2, 3]]  # a constant is none
    assert groups([0, 1, 1], [1, 0, 0]) == [[0, 1]]
    assert groups([1, 0, 2], [0, 1, 0]) == []


def test_columns_have_the_range_and_the_type_of_their_values():
    columns = RecordColumns.from_array(np.array([[1, 0, 3, 7], [5, 1, 3, 7], [2, 1, 3, 7]]))
    assert columns.low.tolist() == [1, 0, 3, 7]
    assert columns.high.tolist() == [5, 1, 3, 7]
    assert columns.binary.tolist() == [False, True, False, False]
    assert columns.varying.tolist() == [True, True, False, False]
    assert columns.are_integers
    assert len(columns) == 4
    assert not RecordColumns.from_array(np.array([[1.0], [2.0]])).are_integers
    assert RecordColumns.from_array(np.array([[1], [2]], dtype=np.uint8)).are_integers


def test_a_group_goes_to_its_likeliest_unknown_column_unless_a_known_one_holds_it():
    def settle(weights, known):
        return imputers._settle_one_hot(np.array([weights]), np.array([known]), None)[0].tolist()

    assert settle([0.2, 0.5, 0.3], [False, False, False]) == [0, 1, 0]
    assert settle([0.0, 0.9, 0.3], [True, False, False]) == [0, 1, 0]
    assert settle([1.0, 0.9, 0.3], [True, False, False]) == [1, 0, 0]
    assert settle([0.0, 0.0, 0.3], [True, True, False]) == [0, 0, 1]
    assert settle([-3.0, -2.0, 0.0], [False, False, True]) == [1, 0, 0]  # all alike: the first
    assert settle([0.5, 0.9], [True, False]) == [0.5, 0]


def test_categories_are_drawn_by_their_weights_among_unknown_columns():
    rng = np.random.default_rng(0)
    weights = np.tile([0.6, 0.2, 0.2, -1.0], (8000, 1))
    known = np.tile([False, False, True, False], (8000, 1))
    known[:, 2], weights[:, 2] = True, 0.0
    drawn = imputers._settle_one_hot(weights, known, rng)
    assert (drawn.sum(axis=1) == 1).all()
    assert drawn[:, 0].mean() == pytest.approx(0.75, abs=4.5 * np.sqrt(0.75 * 0.25 / 8000))
    assert drawn[:, 2:].sum() == 0


def test_bits_are_drawn_and_expected_otherwise_and_integers_rounded():
    columns = RecordColumns.from_array(np.array([[0.0, 5.0], [1.0, 9.0], [1.0, 7.0]]))
    filled, known = np.tile([0.3, 99.0], (8000, 1)), np.zeros((8000, 2), dtype=bool)
    known[0] = True
    best = columns.settle(filled, known, None)
    assert best[0].tolist() == [0.3, 99.0]  # known values are not touched
    assert (best[1:] == [0.3, 9.0]).all()
    drawn = columns.settle(filled, known, np.random.default_rng(0))
    assert set(drawn[1:, 0].tolist()) == {0.0, 1.0}
    assert drawn[0].tolist() == [0.3, 99.0]
    assert drawn[1:, 0].mean() == pytest.approx(0.3, abs=4.5 * np.sqrt(0.21 / 8000))
    whole = RecordColumns.from_array(np.array([[0, 5], [4, 9]]))
    assert whole.settle(np.array([[2.6, 5.4], [2.5, 5.5]]), np.array([[False, False], [True, False]]), None).tolist() \
        == [[3, 5], [2.5, 6]]  # fmt: skip


@pytest.mark.parametrize("labels", [None, [0, 2, 0, 5]])
@pytest.mark.parametrize("auxiliary", [None, [0, 0, 1, 2]])
def test_rows_are_completed_from_those_of_their_class_or_from_all(labels, auxiliary):
    pairs = imputers.group_by_class(
        None if auxiliary is None else np.array(auxiliary), None if labels is None else np.array(labels), 4, 4
    )
    told = {int(row): pool.tolist() for rows, pool in pairs for row in rows}
    if labels is None or auxiliary is None:
        assert told == {row: [0, 1, 2, 3] for row in range(4)}
    else:
        assert told == {0: [0, 1], 2: [0, 1], 1: [3], 3: [0, 1, 2, 3]}


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


@pytest.mark.parametrize("shrinkage", [0.3, 1.0])
def test_a_share_of_shrinkage_moves_the_covariance_towards_a_multiple_of_the_identity(shrinkage):
    rows = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 3]
    empirical = sum(np.outer(row, row) for row in rows) / 50
    told = completion.ConditionalGaussian(shrinkage=shrinkage)._covariance(rows)
    np.testing.assert_allclose(
        told, (1 - shrinkage) * empirical + shrinkage * np.mean(np.diag(empirical)) * np.eye(3), atol=1e-12
    )


@pytest.mark.parametrize("rows", [5, 6])
def test_the_covariance_is_mostly_shrinkage_up_to_as_many_records_as_columns(rows):
    x = np.random.default_rng(0).normal(size=(rows, 5))
    assert bool(completion.ConditionalGaussian().fit(dv.Records(x)).warnings) == (rows == 5)


@pytest.mark.parametrize("n_known", [1, 2, 3, 4])
def test_both_systems_of_a_gaussian_give_the_same_regression(n_known):
    root = np.random.default_rng(1).normal(size=(5, 5))
    sigma = root @ root.T + np.eye(5)
    known = np.arange(5) < n_known
    told = imputers._Gaussian(sigma).regression(known)
    np.testing.assert_allclose(told, np.linalg.inv(sigma[np.ix_(known, known)]) @ sigma[np.ix_(known, ~known)])


@pytest.mark.parametrize(
    ("words", "shape", "rows", "columns"),
    [
        ("block:top-left:0.25", (4, 8), slice(0, 2), slice(0, 4)),
        ("block:top-right:0.25", (4, 8), slice(0, 2), slice(4, 8)),
        ("block:bottom-left:0.25", (4, 8), slice(2, 4), slice(0, 4)),
        ("block:bottom-right:0.25", (4, 8), slice(2, 4), slice(4, 8)),
        ("block:centre:0.25", (4, 8), slice(1, 3), slice(2, 6)),
        ("block:centre:0.01", (5, 5), slice(2, 3), slice(2, 3)),  # one pixel at least
    ],
)
def test_blocks_lie_where_their_names_say(words, shape, rows, columns):
    expected = np.zeros(shape, dtype=bool)
    expected[rows, columns] = True
    np.testing.assert_array_equal(completion.mask(words, shape), expected)
    np.testing.assert_array_equal(completion.mask(words, (*shape, 3)), np.repeat(expected[..., None], 3, axis=2))
    np.testing.assert_array_equal(completion.mask(words, (3, *shape)), np.repeat(expected[None], 3, axis=0))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((9,), None), ((4, 5), (4, 5)), ((4, 5, 3), (4, 5)), ((4, 5, 1), (4, 5)), ((4, 5, 4), (4, 5)),
        ((3, 4, 5), (4, 5)), ((1, 8, 8), (8, 8)), ((4, 6, 6), (6, 6)), ((3, 5, 3), (3, 5)), ((2, 5, 6), (2, 5)),
        ((2, 3, 4, 5), None),
    ],
)  # fmt: skip
def test_shapes_of_images(shape, expected):
    assert imputers._image_size(shape) == expected


def test_a_name_covers_what_extends_it_and_a_position_only_what_there_is():
    names = ["age", "sex=f", "sex=m", "job_1", "sexes", "7"]

    def known(words):
        return np.flatnonzero(completion.mask(f"columns:{words}", (6,), columns=names)).tolist()

    assert known("sex") == [1, 2]
    assert known("job, age") == [0, 3]
    assert known("7") == [5]
    assert known("5") == [5]
    assert known("0") == [0]
    with pytest.raises(dv.InputError, match="known: column"):
        known("6")
    with pytest.raises(dv.InputError, match=r"the records have the shape \(2, 3\)"):
        completion.mask("columns:age", (2, 3))


@pytest.mark.parametrize(("share", "known"), [("0.01", 1), ("0.25", 2), ("0.5", 5), ("0.96", 10), ("1", 10)])
def test_a_share_is_rounded_and_at_least_one_value(share, known):
    assert completion.mask(f"share:{share}", (10,)).sum() == known


def test_a_perceptron_standardises_and_rectifies_between_layers_only():
    net = imputers.Perceptron(
        np.array([1.0, 2.0]), np.array([2.0, 4.0]),
        ((np.array([[1.0, -1.0], [0.0, 2.0]]), np.array([0.5, 0.0])), (np.array([[1.0], [-3.0]]), np.array([0.25]))),
    )  # fmt: skip
    # (3, 6) → (1, 1) → (1.5, 1) → 1.5 - 3 + 0.25; (-3, 2) → (-2, 0) → (-1.5, 2) → 0 - 6 + 0.25
    np.testing.assert_allclose(net.outputs(np.array([[3.0, 6.0], [-3.0, 2.0]])), [[-1.25], [-5.75]])


# --- MRAD


class Linear:
    """Logits ``(x·w, 0)``."""

    def __init__(self):
        self.sizes = []

    def logits(self, records):
        self.sizes.append(len(records))
        return np.stack([records.x.sum(axis=1), np.zeros(len(records))], axis=1)


@pytest.mark.parametrize(("values", "sizes"), [(1 << 25, [36]), (12, [12] * 3), (24, [24, 12]), (1, [12] * 3)])
def test_perturbed_records_are_asked_in_batches_of_a_bounded_number_of_values(monkeypatch, values, sizes):
    """6 directions, so 12 variations of each record, here of a single value."""
    monkeypatch.setattr(mrad, "_BATCH", values)
    target, x = Linear(), np.zeros((3, 1))
    mrad.Gradients("black", directions=6).compute(target, x, np.zeros(3, int), np.zeros((3, 1), bool), 0)
    assert target.sizes == sizes


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


@pytest.mark.parametrize(
    ("access", "clip", "shadows", "name"),
    [
        ("white", None, 0, "mrad-cade-white"),
        ("black", "range", 0, "mrad-cade-black-clipped"),
        ("white", (0, 1), 2, "mrad-cade-white-clipped-shadow-ratio"),
        ("white", None, 1, "mrad-cade-white-shadow-ratio"),
    ],
)
def test_the_name_says_access_clipping_and_shadows(access, clip, shadows, name):
    settings = mrad.MRAD(access=access, clip=clip, shadows=shadows, directions=3)
    assert settings.name == name
    assert settings.reads == (
        "the target's gradients at each candidate"
        if access == "white"
        else "the target's outputs on 6 variations of each candidate"
    )
    assert settings.gradients.queries == (1 if access == "white" else 6)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_two_nearest_directions_count_or_the_only_one(count, monkeypatch):
    monkeypatch.setattr(mrad, "_CHUNK", 3)
    rng = np.random.default_rng(count)
    identity = imputers.Perceptron(np.zeros(2), np.ones(2), ((np.eye(2), np.zeros(2)),))
    directions = rng.normal(size=(count, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x = rng.normal(size=(7, 2))
    told = mrad.MSAD(identity, np.array([0.1, 0.2]), directions).deviation(None, x, np.zeros(7, int))
    for row, value in zip(x, told, strict=True):
        shifted = row / np.linalg.norm(row) - [0.1, 0.2]
        shifted /= np.linalg.norm(shifted)
        assert value == pytest.approx(sum(sorted(((shifted - d) ** 2).sum() for d in directions)[:2]))


def test_classes_of_fewer_than_two_records_are_measured_against_all(monkeypatch):
    short = mrad.Contrastive(steps=2)
    monkeypatch.setattr(mrad, "Contrastive", lambda: short)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), np.r_[[0], np.full(10, 1), np.full(9, 3)]  # one of class 0, none of class 2
    fitted = mrad.CADE.fit(dv.Records(x, y), 0)
    assert len(fitted.centroids) == 5  # four classes and all
    for c in (0, 2):
        np.testing.assert_array_equal(fitted.centroids[c], fitted.centroids[4])
        assert fitted.medians[c] == fitted.medians[4]
    for c in (1, 3):
        np.testing.assert_allclose(fitted.centroids[c], fitted.encoder.outputs(x[y == c]).mean(axis=0))
    beyond = fitted.deviation(None, x[:2], np.array([9, 4]))
    np.testing.assert_array_equal(beyond, fitted.deviation(None, x[:2], np.array([4, 4])))


def test_a_pool_without_spread_has_the_least():
    centroid, median, spread = mrad._class_statistics(np.ones((4, 2)))
    assert (centroid.tolist(), median, spread) == ([1, 1], 0, 1e-12)
    *_, spread = mrad._class_statistics(np.array([[0.0], [0.0], [3.0], [5.0]]))
    # Centre 2, distances 2, 2, 1, 3, median 2, absolute deviations 0, 0, 1, 1.
    assert spread == pytest.approx(1.4826 * 0.5)


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


@pytest.mark.parametrize(("records", "values"), [(None, 12), (1, 12), (50, 600)])
def test_masks_are_held_against_the_memory_that_all_of_them_need(records, values, monkeypatch):
    asked = []
    monkeypatch.setattr(imputers, "check_memory", lambda size, name, remedy: asked.append((size, name)))
    completion.mask("values:0.5", (3, 4), records=records)
    assert asked == [(values, "shape")]


def test_the_gradient_of_a_record_needs_no_record_beside_it():
    x = np.array([[0.3, -0.2, 0.9]])
    alone = mrad.Gradients("black", directions=3).compute(Linear(), x, np.zeros(1, int), np.zeros((1, 3), bool), 5)
    u = dv.seeds.generator(5, "directions").normal(size=(3, 1, 3))
    slope = -1 / (1 + np.exp(x.sum()))  # of the loss of class 0, whose logit is the sum
    expected = np.mean([slope * each.sum() * each for each in u], axis=0)
    np.testing.assert_allclose(alone, expected, rtol=1e-3)
