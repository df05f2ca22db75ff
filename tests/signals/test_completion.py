"""Completing partly known records: against naive formulas, and never reading what is unknown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf

import divulge as dv
from divulge import completion
from divulge.completion.imputers import RecordColumns

IMPUTERS = (
    completion.ConditionalGaussian(),
    completion.ConditionalGaussian(shrinkage=0.2, per_class=False),
    completion.Mean(),
    completion.Mean(per_class=False),
    completion.CustomImputer(lambda x, known, labels, auxiliary, rng: np.where(known, x, auxiliary.mean(axis=0))),
)
NAMES = [repr(imputer)[:40] for imputer in IMPUTERS]


def mixed(rng, n, d=6):
    """Correlated rows, in two classes of different means."""
    mixing = np.random.default_rng(7).normal(size=(d, d))
    y = rng.integers(0, 2, n)
    return dv.Records(rng.normal(size=(n, d)) @ mixing + 3 * y[:, None], y)


@pytest.fixture(scope="module")
def auxiliary():
    return mixed(np.random.default_rng(0), 400)


@pytest.fixture(scope="module")
def partial():
    rng = np.random.default_rng(1)
    records = mixed(rng, 60)
    known_mask = rng.random(records.x.shape) < 0.5
    known_mask[:, 0] |= ~known_mask.any(axis=1)
    return dv.PartialRecords(records.x, records.y, known_mask)


def naive_gaussian(auxiliary, partial):
    """The class-conditional mean, record by record, in the columns' own units."""
    scale = auxiliary.x.std(axis=0)
    means = np.stack([auxiliary.x[auxiliary.y == c].mean(axis=0) for c in range(2)])
    sigma = ledoit_wolf((auxiliary.x - means[auxiliary.y]) / scale, assume_centered=True)[0] * np.outer(scale, scale)
    low, high = auxiliary.x.min(axis=0), auxiliary.x.max(axis=0)
    filled = []
    for x, c, k in zip(partial.x, partial.y, partial.known, strict=True):
        guess = means[c].copy()
        guess[~k] += sigma[np.ix_(~k, k)] @ np.linalg.solve(sigma[np.ix_(k, k)], x[k] - means[c][k])
        filled.append(np.where(k, x, np.clip(guess, low, high)))
    return np.stack(filled)


def test_conditional_mean_is_that_of_the_formula_for_every_mask(auxiliary, partial):
    completed = completion.ConditionalGaussian().fit(auxiliary).complete(partial)[0]
    np.testing.assert_allclose(completed, naive_gaussian(auxiliary, partial), atol=1e-9)


def test_one_mask_for_all_equals_the_same_mask_for_each(auxiliary, partial):
    fitted, mask = completion.ConditionalGaussian().fit(auxiliary), np.array([1, 0, 1, 0, 0, 1], dtype=bool)
    completed_at_once = fitted.complete(dv.PartialRecords(partial.x, partial.y, mask))[0]
    completed_singly = [
        fitted.complete(dv.PartialRecords(x[None], [y], mask))[0, 0] for x, y in zip(partial.x, partial.y, strict=True)
    ]
    np.testing.assert_allclose(completed_at_once, np.stack(completed_singly), atol=1e-10)


@pytest.mark.parametrize("known_columns", [[True, False, False], [True, True, False]])
def test_draws_have_the_conditional_distribution(known_columns):
    rng = np.random.default_rng(3)
    mixing = np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.7], [0.0, 0.0, 1.0]])
    records = dv.Records(rng.normal(size=(20_000, 3)) @ mixing)
    sigma, k = mixing.T @ mixing, np.array(known_columns)
    partial_record = dv.PartialRecords(np.full((1, 3), 0.5), None, k)
    samples = (
        completion.ConditionalGaussian(per_class=False).fit(records).complete(partial_record, 4000, seed=1)[:, 0][:, ~k]
    )
    weights = np.linalg.solve(sigma[np.ix_(k, k)], sigma[np.ix_(k, ~k)])
    spread = sigma[np.ix_(~k, ~k)] - sigma[np.ix_(~k, k)] @ weights
    # Standard error of a mean over 4,000 draws is below 0.025; 0.1 is four of them and the fit's own error.
    np.testing.assert_allclose(samples.mean(axis=0), 0.5 * weights.sum(axis=0), atol=0.1)
    np.testing.assert_allclose(np.cov(samples.T).reshape(spread.shape), spread, atol=0.12)


@pytest.mark.parametrize("imputer", IMPUTERS, ids=NAMES)
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_unknown_values_are_never_read(auxiliary, partial, imputer, poison):
    fitted = imputer.fit(auxiliary)
    poisoned = dv.PartialRecords(np.where(partial.known, partial.x, poison), partial.y, partial.known)
    for draws in (1, 3):
        clean = fitted.complete(partial, draws, seed=5)
        np.testing.assert_array_equal(fitted.complete(poisoned, draws, seed=5), clean)
        assert clean.shape == (draws, *partial.x.shape)
        assert np.isfinite(clean).all()
        np.testing.assert_array_equal(clean[:, partial.known], np.tile(partial.x[partial.known], (draws, 1)))


@pytest.mark.parametrize("imputer", IMPUTERS[:-1], ids=NAMES[:-1])
def test_draws_are_random_and_repeatable(auxiliary, partial, imputer):
    fitted = imputer.fit(auxiliary)
    completed = fitted.complete(partial, 2, seed=1)
    np.testing.assert_array_equal(completed, fitted.complete(partial, 2, seed=1))
    assert not np.array_equal(completed[0], completed[1])
    assert not np.array_equal(completed, fitted.complete(partial, 2, seed=2))
    assert not np.array_equal(fitted.sample(partial, 1, seed=1), fitted.complete(partial))


def test_better_models_of_the_records_complete_them_better(auxiliary):
    rng = np.random.default_rng(2)
    truth, known_mask = mixed(rng, 300), np.array([True, True, True, False, True, False])
    partial_records = dv.PartialRecords(truth.x, truth.y, known_mask)

    def error(imputer):
        return ((imputer.fit(auxiliary).complete(partial_records)[0] - truth.x) ** 2).mean()

    gaussian, mean, overall = map(error, (IMPUTERS[0], IMPUTERS[2], IMPUTERS[3]))
    assert gaussian < mean < overall


def test_the_mean_draws_values_one_by_one_from_records_of_the_class(auxiliary, partial):
    completed = completion.Mean().fit(auxiliary).complete(partial, 30, seed=0)
    for i, (c, k) in enumerate(zip(partial.y, partial.known, strict=True)):
        donors = auxiliary.x[auxiliary.y == c]
        for column in np.flatnonzero(~k):
            assert np.isin(completed[:, i, column], donors[:, column]).all()
            assert len(np.unique(completed[:, i, column])) > 1


def test_classes_without_auxiliary_records_get_the_overall_model(auxiliary, partial):
    unseen = dv.PartialRecords(partial.x, np.full(len(partial), 9), partial.known)
    for imputer in IMPUTERS[:-1]:
        assert np.isfinite(imputer.fit(auxiliary).complete(unseen)).all()
    overall = completion.Mean(per_class=False).fit(auxiliary).complete(unseen)
    np.testing.assert_allclose(completion.Mean().fit(auxiliary).complete(unseen), overall)


def table(rng, n):
    """Two numbers, a one-hot group of three that depends on them, a bit, a constant."""
    numbers = rng.normal(size=(n, 2))
    group = np.eye(3)[np.digitize(numbers[:, 0], [-0.5, 0.5])]
    return np.hstack([numbers, group, rng.integers(0, 2, (n, 1)), np.full((n, 1), 4.0)])


@pytest.mark.parametrize("imputer", IMPUTERS[:-1], ids=NAMES[:-1])
@pytest.mark.parametrize("draws", [1, 4])
def test_one_hot_groups_are_completed_together(imputer, draws):
    rng = np.random.default_rng(0)
    fitted = imputer.fit(dv.Records(table(rng, 500)))
    assert [group.tolist() for group in fitted.columns.groups] == [[2, 3, 4]]
    x, known_mask = table(rng, 80), rng.random((80, 7)) < 0.5
    known_mask[:, 0] = True
    completed = fitted.complete(dv.PartialRecords(x, None, known_mask), draws, seed=0)
    group = completed[..., 2:5]
    assert set(np.unique(group)) <= {0.0, 1.0}
    # Where all three were said to be zero, nothing is left to set.
    possible = ~known_mask[:, 2:5].all(axis=1) | (x[:, 2:5].sum(axis=1) == 1)
    np.testing.assert_array_equal(group.sum(axis=2)[:, possible], 1)
    assert (completed[..., 6] == 4.0).all()
    if draws > 1:
        assert set(np.unique(completed[..., 5])) <= {0.0, 1.0}


def test_a_category_is_told_from_the_numbers_it_depends_on():
    rng = np.random.default_rng(0)
    fitted, x = completion.ConditionalGaussian().fit(dv.Records(table(rng, 2000))), table(rng, 200)
    completed = fitted.complete(dv.PartialRecords(x, None, np.array([1, 1, 0, 0, 0, 1, 1], dtype=bool)))[0]
    clear = (np.abs(x[:, 0]) > 1.2) | (np.abs(x[:, 0]) < 0.1)
    assert (completed[clear, 2:5] == x[clear, 2:5]).all(axis=1).mean() > 0.7


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.booleans())
def test_settled_groups_are_valid_whatever_is_known(seed, width, is_drawn):
    rng = np.random.default_rng(seed)
    columns = RecordColumns.from_array(np.eye(width)[np.r_[np.arange(width), rng.integers(0, width, 10)]])
    assert len(columns.groups) == 1
    truth = np.eye(width)[rng.integers(0, width, 20)]
    known_mask = rng.random(truth.shape) < 0.4
    settled = columns.settle(
        np.where(known_mask, truth, rng.normal(size=truth.shape)), known_mask, rng if is_drawn else None
    )
    np.testing.assert_array_equal(settled.sum(axis=1), 1)
    np.testing.assert_array_equal(settled[known_mask], truth[known_mask])


def test_integer_records_stay_integers(auxiliary, partial):
    rng = np.random.default_rng(0)
    counts = dv.Records(rng.poisson(5, (200, 4)))
    known_mask = np.array([True, False, True, False])
    completed = (
        completion.ConditionalGaussian().fit(counts).complete(dv.PartialRecords(counts.x[:9], None, known_mask), 2)
    )
    assert completed.dtype == counts.x.dtype


def test_images_with_their_own_masks_keep_their_shape():
    rng = np.random.default_rng(0)
    images = dv.Records(rng.random((100, 4, 5, 3)).astype(np.float32), rng.integers(0, 2, 100))
    known_mask = rng.random((7, 4, 5, 3)) < 0.3
    known_mask[:, 0, 0] = True
    fitted = completion.ConditionalGaussian().fit(images)
    completed = fitted.complete(dv.PartialRecords(images.x[:7] * 0.5, images.y[:7], known_mask), 2)
    assert completed.shape == (2, 7, 4, 5, 3)
    assert completed.dtype == np.float32
    assert completed.min() >= 0
    assert completed.max() <= 1


def test_fewer_auxiliary_records_than_columns_is_said():
    rng = np.random.default_rng(0)
    fitted = completion.ConditionalGaussian().fit(dv.Records(rng.normal(size=(10, 30))))
    assert "10 auxiliary records for 30 columns" in fitted.warnings[0]
    known_mask = np.arange(30) < 12
    assert np.isfinite(fitted.complete(dv.PartialRecords(rng.normal(size=(5, 30)), None, known_mask), 3)).all()


def test_overlap_is_by_known_values_alone(auxiliary):
    known_mask = np.array([True, True, False, False, False, False])
    query = np.vstack([auxiliary.x[:3] * [1, 1, 9, 9, 9, 9], auxiliary.x[:2] + 1])
    overlap = completion.overlap(dv.PartialRecords(query, None, known_mask), auxiliary.x)
    assert overlap.tolist() == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda a, p: completion.ConditionalGaussian("ledoit").fit(a), "did you mean 'ledoit-wolf'"),
        (lambda a, p: completion.ConditionalGaussian(shrinkage=0.0), "shrinkage: must lie in"),
        (lambda a, p: completion.imputer("mean"), "a function or an imputer is needed"),
        (lambda a, p: completion.Mean().fit(dv.Records(["a", "b"])), "auxiliary: only numbers"),
        (lambda a, p: completion.Mean().fit(a[:1]), "auxiliary: at least 2 records"),
        (lambda a, p: completion.Mean().fit(a).complete(p, 0), "draws: must be at least 1"),
        (lambda a, p: completion.Mean().fit(dv.Records(a.x[:, :3])).complete(p), "x: records of the auxiliary shape"),
        (lambda a, p: completion.CustomImputer(lambda *_: np.zeros(3)).fit(a).complete(p), "the function returned"),
        (lambda a, p: completion.CustomImputer(lambda x, *_: x).fit(a).complete(p), "imputer: completed values"),
    ],
)
def test_bad_input_is_named(auxiliary, partial, work, message):
    with pytest.raises(dv.InputError, match=message):
        work(auxiliary, partial)


@pytest.mark.parametrize(
    ("words", "shape", "count"),
    [
        ("share:0.4", (10,), 4),
        ("share:0.25", (4, 4), 4),
        ("share:0.25", (4, 4, 3), 12),
        ("share:0.25", (3, 4, 4), 12),
        ("share:1", (7,), 7),
        ("block:top-left:0.25", (4, 4, 3), 12),
        ("block:centre:0.25", (4, 4), 4),
        ("block:bottom-right:1.0", (4, 6), 24),
        ("columns:age,sex", (5,), 3),
        ("columns:1,4", (5,), 2),
    ],
)
def test_masks_in_words(words, shape, count):
    columns = ["age", "sex=f", "sex=m", "income", "hours"]
    mask = completion.mask(words, shape, columns=columns, seed=0)
    assert mask.shape == shape
    assert mask.sum() == count
    np.testing.assert_array_equal(mask, completion.mask(words, shape, columns=columns, seed=0))


def test_masks_cover_whole_pixels_in_their_place():
    assert completion.mask("share:0.5", (6, 6, 3), seed=1).all(axis=2).sum() == 18
    assert completion.mask("share:0.5", (3, 6, 6), seed=1).all(axis=0).sum() == 18
    assert completion.mask("values:0.5", (6, 6, 3), seed=1).sum() == 54
    value_mask = completion.mask("values:0.5", (6, 6, 3), seed=1)
    assert (value_mask.any(axis=2) & ~value_mask.all(axis=2)).any()  # parts of pixels
    corner = completion.mask("block:bottom-right:0.25", (4, 4))
    assert corner[2:, 2:].all()
    assert corner.sum() == 4


@pytest.mark.parametrize(("words", "shape"), [("share:0.5:each", (4, 4, 3)), ("values:0.25:each", (8,))])
def test_masks_may_be_drawn_anew_for_every_record(words, shape):
    masks = completion.mask(words, shape, seed=3, records=40)
    share = float(words.split(":")[1])
    assert masks.shape == (40, *shape)
    assert (masks.reshape(40, -1).mean(axis=1) == share).all()
    assert len({row.tobytes() for row in masks}) > 10
    np.testing.assert_array_equal(masks, completion.mask(words, shape, seed=3, records=40))
    assert completion.mask(words.removesuffix(":each"), shape, seed=3, records=40).shape == shape


@pytest.mark.parametrize(
    ("words", "records", "message"),
    [
        ("share:0.5:each", None, "say how many there are"),
        ("share:0.5:every", 4, "did you mean|is unknown"),
        ("values:2", 4, "a share in"),
        ("share:0.5:each", 0, "records"),
    ],
)
def test_masks_that_cannot_be_drawn_are_named(words, records, message):
    with pytest.raises(dv.InputError, match=message):
        completion.mask(words, (4,), records=records)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("shares:0.4", "did you mean 'share'"),
        ("share:x", "a share in"),
        ("share:1.5", "a share in"),
        ("share:0", "a share in"),
        ("block:top-left:0.5", "'block' is for images"),
        ("columns:agee", "did you mean 'age'"),
        ("columns:17", "known: column"),
    ],
)
def test_masks_that_cannot_be_read(words, message):
    with pytest.raises(dv.InputError, match=message):
        completion.mask(words, (3,), columns=["age", "sex", "hours"])
