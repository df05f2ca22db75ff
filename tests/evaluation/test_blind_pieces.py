"""Memberships, statistics, features and descriptions of the blind baseline, each against its definition."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge import seeds
from divulge.errors import InputError
from divulge.evaluation import blind

SHIFTS = (2.5, 3.5, 4.5, 6.0, 8.0, 11.0, 15.0)


def first_of_equal(rows):
    """Of each record the place of the first that is equal to it; equal ones stand together."""
    return np.array([rows.index(row) for row in rows])


def test_members_stand_before_nonmembers_among_equal_records():
    copies = first_of_equal(["a", "b", "b", "b", "c", "c", "d"])
    memberships = np.array([[0, 0, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0, 0]], bool).T
    found = blind._members_first(memberships, copies)
    assert found.T.astype(int).tolist() == [[0, 1, 0, 0, 1, 0, 1], [1, 1, 1, 0, 0, 0, 0]]
    distinct = np.array([[True], [False], [True]])
    assert blind._members_first(distinct, np.arange(3)) is distinct


def test_random_memberships_have_as_many_members_as_the_true_one():
    truth = np.array([True, False, True, False, False, True, False, False])
    found = blind._permuted_memberships(truth, np.arange(8), 200, np.random.default_rng(0))
    assert found.shape == (8, 201)
    np.testing.assert_array_equal(found[:, 0], truth)
    assert (found.sum(0) == 3).all()
    assert np.abs(found[:, 1:].mean(1) - 3 / 8).max() < 0.15


def test_aucs_of_columns_are_the_shares_of_pairs_in_order():
    rng = np.random.default_rng(1)
    guesses, memberships = (
        rng.integers(0, 4, (11, 3)).astype(float),
        rng.permuted(np.tile(np.arange(11) < 4, (3, 1)), axis=1).T,
    )
    for found, values, truth in zip(blind._aucs(guesses, memberships), guesses.T, memberships.T, strict=True):
        pairs = [(a > b) + (a == b) / 2 for a in values[truth] for b in values[~truth]]
        assert found == pytest.approx(np.mean(pairs))


def test_statistics_are_standardised_by_the_true_and_the_permuted_memberships():
    statistics = np.array([3.0, 1.0, 2.0, 9.0])
    null = statistics[:3]
    np.testing.assert_allclose(blind._standard(statistics, 2), (statistics - null.mean()) / null.std())
    np.testing.assert_allclose(blind._standard(np.array([2.0, 2.0, 5.0]), 1), [0.0, 0.0, 3.0])
    # A spread that is rounding error alone counts as none.
    np.testing.assert_allclose(blind._standard(np.array([2.0, 2.0 + 1e-13, 5.0]), 1), [0.0, 0.0, 3.0], atol=1e-9)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_shifted_memberships_follow_one_column_by_so_many_standard_errors(columns):
    n, members = 50, 20
    table = np.random.default_rng(2).exponential(size=(n, columns))
    found = blind._shifted_memberships(table, members, np.arange(n), np.random.default_rng(3))
    rng = np.random.default_rng(3)
    expected = []
    for distance in SHIFTS:
        for _ in range(10):
            z = np.zeros(n)
            if columns:
                column = table[:, rng.integers(columns)]
                z = (column - column.mean()) / column.std()
            keys = rng.logistic(size=n) + distance * math.sqrt(n / (members * (n - members))) * z
            expected.append(keys >= np.sort(keys)[-members])
    np.testing.assert_array_equal(found, np.array(expected).T)
    copies = np.repeat(np.arange(0, n, 2), 2)
    pairs = blind._shifted_memberships(table, members, copies, np.random.default_rng(3))
    assert (pairs[::2] >= pairs[1::2]).all()


@pytest.mark.parametrize(
    ("counts", "first"),
    [
        ([10] * 7, 0),
        ([0] * 7, None),
        ([0, 8, 9, 10, 10, 10, 10], 1),
        ([0, 9, 7, 8, 10, 10, 10], 3),
        ([10, 10, 10, 10, 10, 10, 7], None),
        ([0, 0, 0, 0, 0, 0, 8], 6),
    ],
)
def test_a_shift_is_detectable_from_which_on_eight_of_ten_were_detected(counts, first):
    truth = np.arange(60) < 20
    detected = np.concatenate([np.arange(10) < count for count in counts])
    found = blind._detectable(detected, truth)
    if first is None:
        assert found is None
    else:
        # Two normal distributions of unit spread that lie so many standard errors of a difference of means apart.
        assert found == pytest.approx(stats.norm.cdf(SHIFTS[first] * math.sqrt(1 / 20 + 1 / 40) / math.sqrt(2)))


def random_features(rng, n, sizes=(2, 3, 0)):
    return blind._RecordFeatures(*(rng.normal(size=(n, size)).astype(np.float32) for size in sizes), sizes[0])


def test_a_ridge_statistic_sums_the_covariances_of_all_folds_with_standardised_guesses():
    rng = np.random.default_rng(4)
    n = 90
    features, memberships = random_features(rng, n), rng.random((n, 4)) < 0.4
    folds = np.arange(n) % 4  # none is in the last fold
    targets = memberships - memberships.mean(0)
    penalties = [(1, np.inf, np.inf), (1, 0.09, np.inf), (1, 1, np.inf), (3, 3, np.inf)]
    predictions = list(blind._ridge_predictions(features, targets, folds, penalties))
    found = list(blind._ridge_statistics(features, memberships, folds))
    assert len(found) == len(penalties)
    for guesses, (totals, ranks) in zip(predictions, found, strict=True):
        for j in range(4):
            total = sum(
                ((guesses[folds == k, j] - guesses[folds == k, j].mean()) * targets[folds == k, j]).sum()
                / guesses[folds == k, j].std()
                for k in range(4)
            )
            assert totals[j] == pytest.approx(total, abs=2e-3)
        for k in range(4):
            inside = guesses[folds == k, 0]
            np.testing.assert_allclose(ranks[folds == k], (stats.rankdata(inside) - 0.5) / len(inside), atol=0.1)
            assert sorted(ranks[folds == k]) == pytest.approx((np.arange(len(inside)) + 0.5) / len(inside))


def test_guesses_that_do_not_differ_tell_nothing():
    constant = blind._RecordFeatures(*(np.zeros((20, size), np.float32) for size in (2, 1, 0)), 2)
    for totals, ranks in blind._ridge_statistics(constant, np.arange(20)[:, None] % 2 == 0, np.arange(20) % 5):
        assert totals.tolist() == [0.0]
        assert set(ranks.tolist()) == {0.5}


def test_kernel_guesses_are_ridge_regressions_at_unit_noise_as_ranks_within_each_fold():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(23, 2))
    kernel, memberships = x @ x.T, rng.random((23, 3)) < 0.5
    folds = [np.flatnonzero(np.arange(23) % 5 == k) for k in range(5)]
    found = blind._kernel_ridge_guesses(kernel, memberships, folds)
    for fold in folds:
        train = np.setdiff1d(np.arange(23), fold)
        target = memberships[train] * 1.0
        weights = np.linalg.solve(kernel[np.ix_(train, train)] + np.eye(len(train)), target - target.mean(0))
        guesses = np.round(kernel[np.ix_(fold, train)] @ weights, 9)
        np.testing.assert_allclose(found[fold], (stats.rankdata(guesses, axis=0) - 0.5) / len(fold))
    assert set(blind._kernel_ridge_guesses(kernel, memberships, [np.arange(23)]).ravel()) == {0.5}


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 5, 9])
def test_classes_are_told_to_trees_in_at_most_four_columns(classes):
    targets = np.random.default_rng(6).normal(size=(30, classes))
    found = blind._code_classes(targets)
    if classes <= 2:
        np.testing.assert_array_equal(found, targets[:, :1])
    elif classes <= 4:
        assert found is targets
    else:
        signs = np.linalg.lstsq(targets, found, rcond=None)[0]
        assert found.shape == (30, 4)
        np.testing.assert_allclose(np.abs(signs), 1)
        np.testing.assert_array_equal(found, blind._code_classes(targets))


def test_trees_split_ranks_of_varied_columns_or_leading_components():
    rng = np.random.default_rng(7)
    x = np.column_stack([rng.exponential(size=30).round(1), np.full(30, 4.0), rng.integers(0, 3, 30) * 1e9])
    features = blind._extract_features(x, None, np.arange(20))
    found = blind._tree_columns(x, features)
    assert found.shape == (30, 2)
    for column, values in zip(found.T, x[:, [0, 2]].T, strict=True):
        levels = {value: i for i, value in enumerate(sorted(set(values)))}
        ranks = np.array([levels[value] for value in values])
        assert column.tolist() in (ranks.tolist(), (len(levels) - 1 - ranks).tolist())
    for width in (64, 65):
        wide = rng.normal(size=(40, width)) * np.linspace(1, 2, width)
        plain = random_features(rng, 40, (70, 0, 0))
        plain.linear[:, :6] *= 0.01
        columns = blind._tree_columns(wide, plain)
        if width == 64:
            assert set(columns.ravel()) == set(range(40))
        else:
            np.testing.assert_allclose(np.abs(columns), np.abs(plain.linear[:, 6:]), rtol=1e-6)
    constant = np.ones((5, 2))
    assert blind._tree_columns(constant, random_features(rng, 5)).shape == (5, 0)


@pytest.mark.parametrize(
    ("records", "targets", "columns", "rounds", "shared"),
    [(300, 1, 3, 30, 0.8), (300, 2, 3, 25, 0.8), (200, 1, 30, 25, 1 / 3), (1100, 1, 12, 100, 0.8)],
)
def test_boosted_trees_predict_each_fold_from_the_others(records, targets, columns, rounds, shared):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(records, columns)), rng.normal(size=(records, targets))
    folds = rng.integers(0, 6, records)
    folds = np.sort(folds)  # those of fold 5, of neither side, come last
    found = blind._boosted_predictions(x, y, folds)
    assert found.shape == ((folds < 5).sum(), targets)
    settings = {
        "objective": "regression", "num_leaves": 31, "min_data_in_leaf": 5, "bagging_fraction": 0.7, "bagging_freq": 1,
        "seed": 1, "num_threads": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1,
        "learning_rate": 5 / rounds, "feature_fraction": shared,
    }  # fmt: skip
    for fold in (1, 4):
        train, test = folds != fold, folds == fold
        trees = lightgbm.train(settings, lightgbm.Dataset(x[train], label=y[train, -1]), num_boost_round=rounds)
        np.testing.assert_allclose(found[test[: len(found)], -1], trees.predict(x[test], num_threads=1))


def test_trees_learn_from_every_second_record_where_there_are_too_many(monkeypatch):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(9)
    x, y, folds = rng.normal(size=(60, 2)), rng.normal(size=(60, 1)), np.repeat(np.arange(5), 12)
    limited = {}
    for limit in (48, 47, 24, 23):
        monkeypatch.setattr(blind, "_MAX_BOOSTED", limit)
        limited[limit] = blind._boosted_predictions(x, y, folds)
    assert not np.array_equal(limited[48], limited[47])
    np.testing.assert_array_equal(limited[47], limited[24])
    assert not np.array_equal(limited[24], limited[23])
    assert not blind._boosted_predictions(np.zeros((60, 0)), y, folds).any()


@pytest.mark.parametrize("classes", [0, 3])
def test_a_score_is_regressed_at_five_penalties_and_three_with_class_features(classes):
    features = random_features(np.random.default_rng(10), 4, (2, 2, classes))
    unused = np.inf
    expected = [(1, unused, unused), (1, 0.6, unused), (1, 1, unused), (20, 20, unused), (1, 0.1, unused)]
    if classes:
        expected += [(1, unused, 1), (1, 1, 1), (1, 0.1, 0.1)]
    assert blind._adjustment_penalties(features, 600) == expected


def standardised(columns):
    return np.clip((columns - columns.mean(0)) / columns.std(0), -5, 5)


def unit(linear):
    return linear / math.sqrt((linear**2).sum(1).mean())


def test_a_block_has_standardised_columns_and_a_gaussian_kernel_of_landmarks():
    rng = np.random.default_rng(11)
    columns = np.column_stack([rng.normal(size=(60, 2)), np.ones(60), rng.exponential(size=60)])
    sample = np.arange(0, 60, 2)
    linear, radial = blind._linear_and_radial_block(columns, sample)
    scaled = standardised(columns[:, [0, 1, 3]])
    np.testing.assert_allclose(linear, unit(scaled), atol=1e-5)
    marks = scaled[sample]
    square = ((scaled[:, None] - marks) ** 2).sum(-1)
    spread = np.median(square[sample])
    np.testing.assert_allclose(radial @ radial[sample].T, np.exp(-square / spread), atol=1e-3)
    for nothing in (np.ones((6, 2)), np.ones((6, 0))):
        parts = blind._linear_and_radial_block(nothing, np.arange(4))
        assert [part.shape for part in parts] == [(6, 0), (6, 0)]


def test_blocks_are_the_same_chunk_by_chunk(monkeypatch):
    rng = np.random.default_rng(12)
    columns, sample = rng.exponential(size=(50, 3)), np.arange(30)
    whole = blind._linear_and_radial_block(columns, sample)
    images = rng.random((50, 3, 2))
    blocks = blind._number_blocks(images, sample)
    monkeypatch.setattr(blind, "_CHUNK_VALUES", 20)
    for found, expected in zip(blind._linear_and_radial_block(columns, sample), whole, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    for (linear, _), (expected, _) in zip(blind._number_blocks(images, sample), blocks, strict=True):
        np.testing.assert_allclose(linear, expected, atol=1e-4)
    assert len(blocks) == 2
    summaries = blind._image_summaries(images.reshape(50, 6), images)
    varied = summaries[:, np.ptp(summaries, axis=0) > 0]
    np.testing.assert_allclose(blocks[1][0], unit(standardised(varied)), atol=1e-4)
    assert len(blind._number_blocks(images.reshape(50, 6), sample)) == 1


def test_every_second_column_is_used_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(blind, "_MAX_COLUMNS", 4)
    rng = np.random.default_rng(13)
    for columns, step in ((4, 1), (5, 2), (8, 2), (9, 3)):
        x = rng.normal(size=(20, columns))
        (block,) = blind._number_blocks(x, np.arange(20))
        np.testing.assert_allclose(block[0], unit(standardised(x[:, ::step])), atol=1e-5)
        for found, expected in zip(
            blind._number_kernels(x), blind._linear_and_radial_kernels(x[:, ::step]), strict=True
        ):
            np.testing.assert_allclose(found, expected)
        names = blind._compared_columns(x)[1]
        assert names == [f"column {i} (from 0)" for i in range(4)]


def test_components_of_a_sample_are_orthonormal_and_the_largest(monkeypatch):
    rng = np.random.default_rng(14)
    x = rng.normal(size=(12, 5)) * [5, 4, 3, 2, 1]
    weights = blind._components(x @ x.T)
    assert weights.shape == (12, 5)
    directions = x.T @ weights
    np.testing.assert_allclose(directions.T @ directions, np.eye(5), atol=1e-8)
    monkeypatch.setattr(blind, "_MAX_LINEAR", 2)
    largest = x.T @ blind._components(x @ x.T)
    values = np.linalg.svd(x, compute_uv=False)
    np.testing.assert_allclose(sorted(np.linalg.norm(x @ largest, axis=0)), sorted(values[:2]), rtol=1e-8)
    # Columns beyond the limit are told by the leading components of the sample.
    columns = rng.normal(size=(40, 3)) * [1, 1, 1]
    sample = np.arange(25)
    scaled = standardised(columns)
    projected = scaled @ scaled[sample].T @ blind._components(scaled[sample] @ scaled[sample].T)
    np.testing.assert_allclose(blind._linear_and_radial_block(columns, sample)[0], unit(projected), atol=1e-4)
    assert blind._linear_and_radial_block(columns[:, :2], sample)[0].shape == (40, 2)
    np.testing.assert_allclose(
        blind._linear_and_radial_block(columns[:, :2], sample)[0], unit(standardised(columns[:, :2])), atol=1e-5
    )


@pytest.mark.parametrize(("classes", "columns"), [(1, 3), (3, 3), (3, 171), (3, 170), (2, 256)])
def test_classes_have_features_of_their_own_unless_these_are_too_many(classes, columns):
    rng = np.random.default_rng(15)
    x, labels = rng.normal(size=(30, columns)), np.arange(30) % classes
    features = blind._extract_features(x, labels, np.arange(20))
    indicators = (labels[:, None] == np.arange(classes)) * 1.0
    plain = unit(standardised(x))
    np.testing.assert_allclose(features.linear, np.hstack([plain, indicators]), atol=1e-4)
    assert features.plain == columns
    if classes == 1 or classes * columns > 512:
        assert features.class_features.shape == (30, 0)
        return
    expected = np.hstack([indicators[:, [c]] * plain for c in range(classes)])
    np.testing.assert_allclose(features.class_features, expected, atol=1e-4)
    joined = features.all
    np.testing.assert_allclose(joined.mean(0), 0, atol=1e-5)
    assert joined.shape[1] == sum(part.shape[1] for part in (features.linear, features.radial, features.class_features))


def test_texts_are_told_by_components_of_their_words_and_by_their_style():
    texts = np.array(["the cat sat", "The dog ran", "a cat of 1999", "dogs!", "the cat ran", "sat"], dtype=object)
    (words, nothing), (style, radial) = blind._text_blocks(texts, np.arange(5))
    assert nothing is None
    assert math.isclose((words**2).sum(1).mean(), 1, rel_tol=1e-5)
    columns = np.array([blind._style_features(text) for text in texts])
    varied = columns[:, np.ptp(columns, axis=0) > 0]
    np.testing.assert_allclose(style, unit(standardised(varied)), atol=1e-4)
    assert len(radial) == 6
    same = blind._text_blocks(np.array(["The cat sat", *texts[1:]], dtype=object), np.arange(5))[0][0]
    np.testing.assert_allclose(np.abs(same), np.abs(words), atol=1e-4)  # of words in lower case


def test_texts_are_similar_by_words_of_two_texts_and_their_style():
    texts = np.array(["the cat sat", "the cat ran", "zebra", "quick 1999"], dtype=object)
    style = blind._linear_and_radial_kernels(np.array([blind._style_features(text) for text in texts]))
    words, *others = blind._text_kernels(texts)
    for found, expected in zip(others, style, strict=True):
        np.testing.assert_allclose(found, expected)
    # Of "the", "cat" and "the cat", each once in either.
    np.testing.assert_allclose(words, [[1, 1, 0, 0], [1, 1, 0, 0], [0] * 4, [0] * 4], atol=1e-9)
    assert len(blind._text_kernels(np.array(["one", "two", "three"], dtype=object))) == 2


def naive_differences(x, inside, names, classes):
    """Distances in standard errors of a rank sum (with ties), or of a difference of two shares at the pooled rate."""
    m, n = inside.sum(), (~inside).sum()
    found = []
    for name, column in zip(names, x.T, strict=True):
        above = np.mean([(a > b) + (a == b) / 2 for a in column[inside] for b in column[~inside]])
        ties = np.unique(column, return_counts=True)[1]
        variance = (m + n + 1 - (ties**3 - ties).sum() / ((m + n) * (m + n - 1))) / (12 * m * n)
        word = "larger" if above > 0.5 else "smaller"
        distance = abs(above - 0.5) / math.sqrt(variance)
        found.append((distance, f"{name} is {word} among the members (AUC {max(above, 1 - above):.2f})"))
    for value in sorted(set(classes)):
        a, b = (classes[inside] == value).mean(), (classes[~inside] == value).mean()
        pooled = (classes == value).mean()
        spread = math.sqrt(pooled * (1 - pooled) * (1 / m + 1 / n))
        text = f"class {value} is {a:.1%} of the members and {b:.1%} of the non-members".replace("%", " %")
        found.append((abs(a - b) / spread, text))
    limit = stats.norm.isf(0.005 / len(found))
    return [text for distance, text in sorted(found, key=lambda pair: -pair[0]) if distance > limit]


def test_differences_are_named_by_rank_sums_and_shares_the_clearest_first():
    rng = np.random.default_rng(16)
    inside = np.arange(120) < 50
    x = rng.normal(size=(120, 4)).round(1)
    x[inside, 1] += 1.6
    x[inside, 3] += 0.9
    x[inside, 2] -= 1.0
    labels = np.where(rng.random(120) < np.where(inside, 0.7, 0.2), 4, rng.integers(0, 2, 120))
    names = [f"column {i} (from 0)" for i in range(4)]
    expected = naive_differences(x, inside, names, labels)
    assert len(expected) > 3
    assert list(blind.differences(x, inside, labels, max_differences=9)) == expected
    assert list(blind.differences(x, inside, labels)) == expected[:3]
    reals = naive_differences(np.column_stack([x, x[:, 1] * 2]), inside, [*names, "y"], np.zeros(0))
    assert set(blind.differences(x, inside, x[:, 1] * 2, max_differences=9)) == set(reals)
    assert blind.differences(np.ones((120, 2)), inside, np.zeros(120, int)) == ()


@pytest.mark.parametrize("size", [7, 8, 10, 13, 20])
def test_a_difference_is_named_just_beyond_its_limit(size):
    """One column and one class of all: the limit is that of two tests."""
    limit = stats.norm.isf(0.0025)
    inside = np.arange(2 * size) < size
    for moved in range(size + 1):
        column = np.r_[np.full(moved, 2.0), np.zeros(size - moved), np.arange(size) % 3 * 0.5]
        above = np.mean([(a > b) + (a == b) / 2 for a in column[inside] for b in column[~inside]])
        n, ties = 2 * size, np.unique(column, return_counts=True)[1]
        variance = (n + 1 - (ties**3 - ties).sum() / (n * (n - 1))) / (12 * size**2)
        assert bool(blind.differences(column[:, None], inside)) == (abs(above - 0.5) / math.sqrt(variance) > limit)


def test_regressions_are_tried_at_these_strengths(monkeypatch):
    tried, original = [], blind._ridge_predictions

    def recording(features, targets, folds, penalties):
        tried.append(list(penalties))
        return original(features, targets, folds, penalties)

    monkeypatch.setattr(blind, "_ridge_predictions", recording)
    rng = np.random.default_rng(23)
    x, folds = rng.normal(size=(30, 2)), np.arange(30) % 5
    blind._label_surprises(x, rng.normal(size=30), folds, np.arange(30), None)
    list(blind._ridge_statistics(random_features(rng, 30), rng.random((30, 1)) < 0.5, folds))
    unused = np.inf
    labels = [(1, unused, unused), (1, 1, unused), (1, 0.1, unused), (0.3, 0.03, unused), (0.1, 0.01, unused)]
    memberships = [(1, unused, unused), (1, 0.03, unused), (1, 1, unused), (1, 1, unused)]
    for found, expected in zip(tried, (labels, memberships), strict=True):
        np.testing.assert_allclose(found, expected)


def test_characters_beyond_ascii_begin_at_128():
    assert blind._style_features("a\x7f\x80ä")[6] == 0.5


def test_images_are_compared_by_their_summaries_and_texts_by_their_classes_alone():
    rng = np.random.default_rng(17)
    images = rng.random((40, 3, 3))
    columns, names = blind._compared_columns(images)
    rows = images.reshape(40, 9)
    np.testing.assert_allclose(columns, blind._image_summaries(rows, rows))
    assert names[:2] == ["brightness", "contrast"]
    assert len(names) == 6
    texts = np.array(["a"] * 40, dtype=object)
    assert blind._compared_columns(texts)[0].shape == (40, 0)
    inside = np.arange(40) < 20
    assert blind.differences(texts, inside, np.where(inside, 1, 2)) == (
        "class 1 is 100.0 % of the members and 0.0 % of the non-members",
        "class 2 is 0.0 % of the members and 100.0 % of the non-members",
    )


def test_two_sides_are_both_texts_or_both_numbers_of_one_shape():
    with pytest.raises(InputError, match="both must be texts, or both numbers"):
        blind._check_pair([1.0], ["a"])
    with pytest.raises(InputError, match=r"x_nonmembers: shape \(2,\) per record is needed, got \(3,\)"):
        blind._check_pair(np.zeros((4, 2)), np.zeros((4, 3)))
    inside, outside = blind._check_pair(np.zeros((4, 2), np.float32), np.zeros((3, 2)))
    assert inside.dtype == outside.dtype == np.float64
    assert [side.tolist() for side in blind._check_pair(["a", "b"], ["c"])] == [["a", "b"], ["c"]]


def test_labels_of_both_sides_are_classes_or_real_values():
    assert blind._check_labels(None, None, 2, 2) is None
    for pair in ((None, [1]), ([1], None)):
        with pytest.raises(InputError, match="y_members, y_nonmembers: give both or neither"):
            blind._check_labels(*pair, 1, 1)
    assert blind._check_labels([1, 2], [3], 2, 1).tolist() == [1, 2, 3]
    for members, others in (([1, 2], [0.5]), ([0.5, 1.0], [2])):
        found = blind._check_labels(members, others, 2, 1)
        assert found.dtype == np.float64
        assert found.tolist() == [*members, *others]
    with pytest.raises(InputError, match="y_nonmembers"):
        blind._check_labels([1, 2], [3], 2, 2)


@pytest.mark.parametrize("n", [19, 20])
def test_few_scores_are_normal_scores_of_their_ranks(n):
    rng = np.random.default_rng(18)
    x = np.arange(float(n))[:, None]
    values = x[:, 0] + 0.01 * rng.normal(size=n)
    (found,) = blind.adjust_scores({"a": values}, x, None).values()
    normal = stats.norm.ppf((stats.rankdata(values) - 0.5) / n)
    if n < 20:
        np.testing.assert_allclose(found, normal)
    else:
        assert (found**2).sum() < 0.7 * (normal**2).sum()


def test_a_score_is_adjusted_by_the_regression_of_the_smallest_error_or_by_none():
    rng = np.random.default_rng(19)
    n = 60
    x = rng.normal(size=(n, 2))
    scores = {"linear": x[:, 0] + 0.1 * rng.normal(size=n), "noise": rng.normal(size=n)}
    found = blind.adjust_scores(scores, x, None, seed=3)
    order, copies = blind.canonical_order(x, None, np.zeros(n, dtype=bool))
    draws = seeds.generator(3, "blind", "adjust")
    sample = np.sort(draws.permutation(n))
    folds = blind.fold_groups(copies, 5, draws)
    features = blind._extract_features(x[order], None, sample)
    for name, values in scores.items():
        normal = stats.norm.ppf((stats.rankdata(values) - 0.5) / n)
        target = normal[order][:, None]
        penalties = [(*pair, np.inf) for pair in ((1, np.inf), (1, 0.06), (1, 1), (2, 2), (1, 0.1))]
        tried = [np.zeros((n, 1)), *blind._ridge_predictions(features, target, folds, penalties)]
        best = min(tried, key=lambda guesses: ((target - guesses) ** 2).sum())
        expected = np.empty(n)
        expected[order] = (target - best)[:, 0]
        np.testing.assert_allclose(found[name], expected, atol=1e-5)
    assert (found["linear"] ** 2).sum() < 0.2 * n


@pytest.mark.parametrize("shifted", ["records", "features", "nothing"])
def test_records_and_features_are_tested_at_half_the_level_each(shifted):
    rng = np.random.default_rng(20)
    member = np.arange(30) < 15
    x, features = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    x[member] += 3 * (shifted == "records")
    features[member] += 3 * (shifted == "features")
    alone = blind.baseline_with_features(x, None, None, member, seed=2)
    assert alone == blind.baseline(x[member], x[~member], 2, false_alarm=0.01)
    found = blind.baseline_with_features(x, None, features, member, seed=2)
    halves = [blind.baseline(part[member], part[~member], 2, false_alarm=0.005) for part in (x, features)]
    by_features = halves[1].p_value < halves[0].p_value
    worse = halves[by_features]
    assert (found.p_value, found.confounded, found.auc) == (min(1, 2 * worse.p_value), worse.confounded, worse.auc)
    assert found.detectable == worse.detectable
    assert found.false_alarm == 0.01
    assert found.method.startswith(worse.method)
    source = "of the given features," if by_features else "of records,"
    assert source in found.method
    if shifted != "nothing":
        assert (shifted == "features") is bool(by_features)
        assert found.p_value == pytest.approx(2 / 200)


@pytest.mark.parametrize(("level", "fewest"), [(0.01, 99), (0.03, 33), (0.05, 19), (0.3, 3)])
def test_a_level_needs_enough_permutations(level, fewest):
    x = np.random.default_rng(21).normal(size=(20, 1))
    with pytest.raises(InputError, match=f"permutations: must be at least {fewest}, got {fewest - 1}"):
        blind.baseline(x[:10], x[10:], false_alarm=level, permutations=fewest - 1)
    found = blind.baseline(x[:10], x[10:] + 9, false_alarm=level, permutations=fewest)
    assert (found.p_value, found.confounded, found.records) == (1 / (1 + fewest), 1 / (1 + fewest) <= level, 20)
    assert f"kernel ridge of 20 records, linear and radial ridge of 20, 5 folds; {fewest} permutations" == found.method
    with pytest.raises(InputError, match="max_records: must be at least 20"):
        blind.baseline(x[:10], x[10:], max_records=19)
    with pytest.raises(InputError, match="x_nonmembers: at least 10 records are needed, got 9"):
        blind.baseline(x[:11], x[11:])


@pytest.mark.parametrize("side", [True, False])
def test_labels_that_are_surer_on_one_side_are_the_evidence_that_is_named(side):
    rng = np.random.default_rng(22)
    x = rng.normal(size=(160, 1))
    inside = np.arange(160) < 80
    labels = (x[:, 0] > 0).astype(int)
    y = np.where((inside == side) & (rng.random(160) < 0.5), 1 - labels, labels)
    found = blind.baseline(
        x[inside], x[~inside], y_members=y[inside], y_nonmembers=y[~inside], permutations=19, false_alarm=0.05
    )
    assert found.confounded
    assert found.method.endswith("19 permutations; most telling is how badly labels are predicted from the records")
    assert found.auc.low > 0.6


@pytest.mark.parametrize(
    ("shift", "max_records", "copied", "labels"),
    [(0.0, 20, False, None), (2.0, 500, True, None), (2.0, 20, True, "classes"), (0.0, 500, False, "values"),
     (2.0, 20, False, "values")],
)  # fmt: skip
def test_a_baseline_compares_the_largest_standardised_statistic_with_those_of_permutations(
    shift, max_records, copied, labels
):
    """Put together from its steps; each has a test of its own."""
    rng = np.random.default_rng(24)
    m, n, draws, level = 14, 16, 19, 0.05
    x = rng.normal(size=(m + n, 2)).round(1)
    x[:m] += shift
    if copied:  # whole groups of equal records lie on one side
        x[:6], x[m : m + 6] = x[0], x[m]
    y = None
    if labels:
        y = rng.integers(0, 2, m + n) if labels == "classes" else rng.normal(size=m + n)
        if copied:
            y[:6], y[m : m + 6] = y[0], y[m]
    given = {} if y is None else {"y_members": y[:m], "y_nonmembers": y[m:]}
    found = blind.baseline(
        x[:m], x[m:], 3, false_alarm=level, permutations=draws, max_records=max_records, confidence=0.9, **given
    )

    random = seeds.generator(3, "blind")
    order, copies = blind.canonical_order(x, y, np.arange(m + n) >= m)
    if blind.groups_are_split_whole(copies, order < m):
        assert copied
        first = blind.first_of_each_group(copies, order < m)
        order, copies = order[first], copies[first]
    size, truth = len(order), order < m
    rows = np.sort(random.permutation(size)[:max_records])
    ordered = None if y is None else y[order]
    features = blind._extract_features(x[order], ordered, rows)
    memberships = blind._permuted_memberships(truth, copies, draws, random)
    plain = features.linear[:, : features.plain]
    columns = np.hstack([memberships, blind._shifted_memberships(plain, int(truth.sum()), copies, random)])
    folds = blind.fold_groups(copies, 5, random)
    kernel = blind._similarity_kernel(x[order[rows]], None if y is None else ordered[rows])
    parts = [np.flatnonzero(folds[rows] == k) for k in range(5)]
    guesses = blind._kernel_ridge_guesses(kernel, columns[rows], parts)
    ridges = list(blind._ridge_statistics(features, columns, folds))
    surprises = blind._label_surprises(x[order], ordered, folds, rows, None)
    statistics = [blind._aucs(guesses, columns[rows]), *(total for total, _ in ridges)]
    for surprise in surprises:
        area = blind._aucs(np.repeat(surprise[:, None], columns.shape[1], axis=1), columns)
        statistics += [area, 1 - area]
    standard = np.array([(each - each[: 1 + draws].mean()) / each[: 1 + draws].std() for each in statistics])
    largest = standard.max(axis=0)
    p_values = [(1 + sum(largest[1 : 1 + draws] >= each - 1e-12)) / (1 + draws) for each in largest]
    assert (found.p_value, found.confounded) == (p_values[0], p_values[0] <= level)
    assert (found.records, found.false_alarm) == (size, level)
    assert found.detectable == blind._detectable(np.array(p_values[1 + draws :]) <= level, truth)

    shown = guesses[:, 0], truth[rows]
    if len(rows) < size:
        shown = max(((standard[1 + i, 0], ranks) for i, (_, ranks) in enumerate(ridges)), key=lambda p: p[0])[1], truth
    strongest = int(np.argmax(standard[:, 0])) - 5
    by_labels = found.confounded and strongest >= 0
    if by_labels:
        shown = surprises[strongest // 2] * (1 if strongest % 2 == 0 else -1), truth
    assert found.auc == blind.auc(*shown, 0.9)
    assert found.method == (
        f"kernel ridge of {len(rows)} records, linear and radial ridge of {size}, 5 folds; 19 permutations"
        + ("; most telling is how badly labels are predicted from the records" if by_labels else "")
    )
