"""Steps of the adjustment for covariates, against definitions written down again."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import RidgeCV

from divulge import seeds
from divulge.evaluation import covariates
from divulge.evaluation.covariates import Covariates, adjust, column_covariates, text_covariates


def best_proportion(inside, outside):
    """Try every proportion of a stratum; keep what keeps the largest effective sample."""
    best = (0.0, [0] * len(inside), [0] * len(outside))
    for a, b in zip(inside, outside, strict=True):
        if not a or not b:
            continue
        m = [min(i, int(np.floor(a / b * o + 0.5))) for i, o in zip(inside, outside, strict=True)]
        n = [min(o, int(np.floor(i / (a / b) + 0.5))) for i, o in zip(inside, outside, strict=True)]
        size = sum(m) * sum(n) / max(sum(m) + sum(n), 1)
        if size > best[0] + 1e-9:
            best = (size, m, n)
    return best


@pytest.mark.parametrize(
    ("m", "n", "shift"), [(50, 60, 0.8), (200, 70, 1.0), (39, 300, 0.5), (400, 400, 3.0), (25, 25, 9.0)]
)
def test_strata_keep_as_many_records_as_one_proportion_allows(m, n, shift):
    rng = np.random.default_rng([m, n])
    members = rng.permutation(np.arange(m + n) < m)
    predicted = rng.normal(size=m + n).round(1) + shift * members
    kept = covariates._balance_strata(predicted, members, seed=3)
    count = min(max(min(m, n) // 20, 2), 10)
    ranks = np.array([(predicted < p).sum() + ((predicted == p).sum() + 1) / 2 for p in predicted])
    stratum = ((ranks - 0.5) / (m + n) * count).astype(int)
    inside = [int((members & (stratum == i)).sum()) for i in range(count)]
    outside = [int((~members & (stratum == i)).sum()) for i in range(count)]
    size, _, _ = best_proportion(inside, outside)
    kept_in = [int((kept & members & (stratum == i)).sum()) for i in range(count)]
    kept_out = [int((kept & ~members & (stratum == i)).sum()) for i in range(count)]
    assert sum(kept_in) * sum(kept_out) / max(sum(kept_in) + sum(kept_out), 1) == pytest.approx(size)
    for a, b in zip(kept_in, kept_out, strict=True):
        if min(a, b) > 0:
            assert abs(a - b * sum(kept_in) / sum(kept_out)) <= 1 + sum(kept_in) / sum(kept_out)
    other = covariates._balance_strata(predicted, members, seed=4)
    assert kept.sum() == other.sum()
    assert kept.all() or not np.array_equal(kept, other) or not kept.any()


def test_columns_become_what_their_values_are():
    n = 400
    rng = np.random.default_rng(0)
    two, few, many = rng.integers(0, 2, n) * 5.0, rng.integers(0, 20, n) * 1.0, rng.normal(size=n)
    few[:20] = np.arange(20)
    topic = rng.normal(size=n)

    def features(**columns):
        return covariates._features(Covariates(tuple(columns), np.column_stack(list(columns.values()))))

    def standardised(*columns):
        table = np.column_stack(columns)
        return (table - table.mean(axis=0)) / table.std(axis=0)

    def rank(column):
        return (stats.rankdata(column) - 0.5) / n

    assert features(constant=np.ones(n)).shape == (n, 0)
    np.testing.assert_allclose(features(two=two, constant=np.ones(n)), standardised(two))
    np.testing.assert_allclose(features(**{"topic:1": topic}), standardised(topic))
    indicators = [few == value for value in np.unique(few)[1:]]
    np.testing.assert_allclose(features(few=few), standardised(rank(few), *indicators))
    curves = features(many=many)
    assert curves.shape == (n, 6)  # cubic splines of five knots, but one
    np.testing.assert_allclose(curves, features(many=np.exp(many)))  # of ranks alone
    assert features(few=np.where(few == 0, 20.5 + rng.integers(0, 2, n), few)).shape == (n, 6)  # 21 values
    assert features(two=two, many=many).shape == (n, 7)
    assert covariates._features(Covariates(("a",), (np.arange(200.0) % 11)[:, None])).shape == (200, 6)  # 11 > 200 / 20
    assert covariates._features(Covariates(("a",), (np.arange(200.0) % 10)[:, None])).shape == (200, 10)


def cross_fitted(features, values, folds):
    predicted = np.empty(len(values))
    for fold in range(5):
        model = RidgeCV(alphas=[0.001, 0.01, 0.1, 1, 10, 100, 1e3, 1e4, 1e5]).fit(
            features[folds != fold], values[folds != fold]
        )
        predicted[folds == fold] = model.predict(features[folds == fold])
    return predicted


@pytest.mark.parametrize(("slope", "width"), [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (1e6, 0.0)])
def test_scores_are_relative_to_what_covariates_predict_of_their_ranks(slope, width):
    rng = np.random.default_rng(1)
    x = stats.norm.ppf((rng.permutation(300)[:, None] + 0.5) / 300)
    scores = slope * x[:, 0] + rng.normal(size=300) * np.exp(width * x[:, 0])
    folds = rng.permutation(np.arange(300) % 5)
    found, explained = covariates._relative_scores(x, scores, folds)
    normal = stats.norm.ppf((stats.rankdata(scores) - 0.5) / 300)
    expected = cross_fitted(x, normal, folds)
    share = 1 - ((normal - expected) ** 2).sum() / ((normal - normal.mean()) ** 2).sum()
    if share < 0.01:
        np.testing.assert_array_equal(found, scores)
        assert (slope, explained) == (0.0, 0.0)
        return
    assert explained == pytest.approx(share)
    if share >= 0.999:
        assert slope == 1e6
        assert not found.any()
        return
    residuals = np.round(normal - expected, 2)
    sizes = cross_fitted(x, np.abs(residuals), folds)
    spread = np.abs(residuals)
    if 1 - ((spread - sizes) ** 2).sum() / ((spread - spread.mean()) ** 2).sum() >= 0.01:
        residuals = residuals / np.maximum(sizes, spread.mean() / 4)
        assert width
    np.testing.assert_allclose(found, residuals)


def test_an_explained_share_is_of_the_variance_and_none_of_a_constant():
    values = np.array([1.0, 2.0, 3.0, 6.0])
    assert covariates._explained_variance(values, values) == 1
    assert covariates._explained_variance(values, np.full(4, 3.0)) == pytest.approx(0)
    assert covariates._explained_variance(values, np.zeros(4)) == pytest.approx(1 - 50 / 14)
    assert covariates._explained_variance(np.ones(4), np.zeros(4)) == 0


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.6, 2.0])
def test_small_p_values_are_those_of_memberships_permuted_within_folds(shift):
    rng = np.random.default_rng(2)
    members = np.arange(60) < 30
    x = rng.normal(size=(60, 1)) + shift * members[:, None]
    folds = covariates._stratified_folds(members, 5, "before")
    assert np.bincount(folds[members]).tolist() == np.bincount(folds[~members]).tolist() == [6] * 5
    z = covariates._separation_z(np.round(cross_fitted(x, members * 1.0, folds), 9), members)
    found = covariates._p_value(x, members, folds, z, 5)
    normal = stats.norm.sf(z)
    if normal > 0.05:
        assert found == pytest.approx(normal)
        return
    draws = seeds.generator(5, "covariates", "permuted")
    table = np.repeat(members[:, None], 199, axis=1)
    for fold in range(5):
        table[folds == fold] = draws.permuted(table[folds == fold], axis=0)
    reached = [
        covariates._separation_z(np.round(cross_fitted(x, each * 1.0, folds), 9), each) >= z - 1e-9 for each in table.T
    ]
    assert found == pytest.approx(max(normal, (1 + sum(reached)) / 200))


def test_of_many_records_the_normal_p_value_is_enough():
    members = np.arange(2002) < 1001
    x = np.random.default_rng(3).normal(size=(2002, 1))
    folds = covariates._stratified_folds(members, 5, "before")
    assert covariates._p_value(x, members, folds, 2.5, 5) == pytest.approx(stats.norm.sf(2.5))


@pytest.mark.parametrize(("m", "n"), [(9, 40), (40, 9), (10, 10)])
def test_ten_members_and_ten_nonmembers_are_needed(m, n):
    members = np.arange(m + n) < m
    values = np.random.default_rng(4).normal(size=(m + n, 1))
    found = adjust({"r": values[:, 0]}, members, Covariates(("a",), values))
    assert (found is None) == (min(m, n) < 10)


def test_of_equal_records_one_of_each_side_takes_part():
    rng = np.random.default_rng(5)
    members = np.arange(120) < 60
    values = rng.normal(size=(120, 1))
    groups = np.r_[np.repeat(np.arange(30), 2), np.arange(30), np.arange(30, 60)]
    scores, residuals = rng.normal(size=120), rng.normal(size=120)
    found = adjust({"r": scores}, members, Covariates(("a",), values), groups=groups, unexplained={"r": residuals})
    firsts = np.r_[np.arange(0, 60, 2), np.arange(60, 120)]
    alone = adjust(
        {"r": scores[firsts]}, members[firsts], Covariates(("a",), values[firsts]), unexplained={"r": residuals[firsts]}
    )
    assert np.isin(np.flatnonzero(found.is_included), firsts).all()
    np.testing.assert_array_equal(found.is_included[firsts], alone.is_included)
    np.testing.assert_array_equal(found.scores["r"], alone.scores["r"])
    np.testing.assert_array_equal(found.unexplained["r"], alone.unexplained["r"])


def test_texts_without_a_year_are_given_the_median_of_the_newest_years():
    table = text_covariates(["in 1990 and 2001", "in 1995", "of 2005", "none", "of 12345"])
    values = dict(zip(table.names, table.values.T, strict=True))
    assert values["year"].tolist() == [2001, 1995, 2005, 2001, 2001]
    assert values["year:named"].tolist() == [1, 1, 1, 0, 0]
    no_years = text_covariates(["a", "b"])
    assert dict(zip(no_years.names, no_years.values.T, strict=True))["year"].tolist() == [0, 0]


@pytest.mark.parametrize(("texts", "topics"), [(19, 0), (20, 1), (29, 2), (60, 5)])
def test_a_topic_takes_ten_texts(texts, topics):
    rng = np.random.default_rng(6)
    words = [" ".join(rng.choice(list("abcdefghijklmnop"), 12)) for _ in range(texts)]
    table = text_covariates(words)
    expected = min(texts // 10, 15)
    assert [name for name in table.names if "topic" in name] == [f"topic:{i + 1}" for i in range(expected)]
    assert texts // 10 >= topics


@pytest.mark.parametrize("wards", [1, 2, 20, 21, 30])
def test_frequent_words_have_an_indicator_each_but_the_rarest(wards):
    values = np.concatenate([np.repeat(f"w{i:02}", 2 + (i * 7) % 31) for i in range(wards)])
    table = column_covariates({"ward": values})
    counts = sorted((-(values == w).sum(), w) for w in np.unique(values))
    expected = [w for _, w in counts][: min(20, wards - 1)]
    assert table.names == tuple(f"category:{row}:ward" for row in range(len(expected)))
    for column, word in zip(table.values.T, expected, strict=True):
        np.testing.assert_array_equal(column, values == word)


def test_numbers_dates_and_durations_are_numbers():
    table = column_covariates(
        {
            "flag": np.array([True, False]),
            "day": np.array(["2020-01-02", "2020-01-01"]),
            "span": np.array([60, 120], dtype="timedelta64[s]"),
            "word": np.array(["2020-01-02", "never"]),
            "gap": np.array(["2020-01-02", "NaT"]),
        }
    )
    values = dict(zip(table.names, table.values.T.tolist(), strict=True))
    assert values["column:flag"] == [1, 0]
    assert values["column:day"][0] - values["column:day"][1] == 86400
    assert values["column:span"] == [60, 120]
    assert [name for name in values if name.startswith("category")] == ["category:0:word", "category:0:gap"]
    assert table.sources == ("flag", "day", "span", "word", "gap")


@pytest.mark.parametrize(
    ("overlap", "p_value", "confounded"), [(True, 0.01, True), (True, 0.0101, False), (False, 0.5, True)]
)
def test_sets_are_confounded_without_overlap_or_by_a_small_p_value(overlap, p_value, confounded):
    found = covariates.Adjustment(("a",), np.ones(3, bool), {}, {}, 0.5, p_value, overlap)
    assert found.confounded is confounded


def test_covariates_that_vary_are_kept_with_their_names():
    table = Covariates(("a", "b", "c"), np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 0.0]]))
    assert table.varied.names == ("b",)
    assert table.varied.values.tolist() == [[2.0], [3.0]]
    assert table[[1]].values.tolist() == [[1.0, 3.0, 0.0]]
    assert Covariates(("a",), np.zeros((0, 1))).varied.names == ()
    joined = covariates.join_covariates([table, Covariates((), np.zeros((2, 0))), Covariates(("d",), np.ones((2, 1)))])
    assert joined.names == ("a", "b", "c", "d")
    assert joined.values.shape == (2, 4)


@pytest.mark.parametrize(("m", "n"), [(7, 5), (1, 9), (20, 20)])
def test_predictions_tell_the_sets_apart_by_a_rank_sum_in_standard_errors(m, n):
    rng = np.random.default_rng(m)
    predicted, members = rng.normal(size=m + n).round(1), rng.permutation(np.arange(m + n) < m)
    pairs = [(a > b) + (a == b) / 2 for a in predicted[members] for b in predicted[~members]]
    expected = (np.mean(pairs) - 0.5) / np.sqrt((m + n + 1) / (12 * m * n))
    assert covariates._separation_z(predicted, members) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.8, 1.5, 6.0])
@pytest.mark.parametrize("sizes", [(60, 60), (24, 90)])
def test_sets_are_balanced_where_covariates_tell_them_apart_and_scores_made_relative(shift, sizes):
    rng = np.random.default_rng([int(10 * shift), *sizes])
    total = sum(sizes)
    members = rng.permutation(np.arange(total) < sizes[0])
    values = rng.normal(size=(total, 1)) + shift * members[:, None]
    table = Covariates(("column:age",), values)
    scores, residuals = values[:, 0] + rng.normal(size=total), rng.normal(size=total)
    found = adjust({"r": scores}, members, table, seed=6, unexplained={"u": residuals})

    features = covariates._features(table)
    folds = covariates._stratified_folds(members, 6, "before")
    predicted = np.round(cross_fitted(features, members * 1.0, folds), 9)
    before = after = covariates._separation_z(predicted, members)
    kept = covariates._balance_strata(predicted, members, 6) if before > 1 else np.ones(total, bool)
    overlap = min(members[kept].sum(), (~members[kept]).sum()) >= 10
    if not overlap:
        kept = np.ones(total, bool)
        overlap = covariates._p_value(features, members, folds, before, 6) > 0.01
    if not kept.all():
        features = covariates._features(table[kept])
        folds = covariates._stratified_folds(members[kept], 6, "after")
        again = np.round(cross_fitted(features, members[kept] * 1.0, folds), 9)
        after = covariates._separation_z(again, members[kept])
    assert found.adjusted_for == ("age",)
    np.testing.assert_array_equal(found.is_included, kept)
    assert found.p_before == pytest.approx(stats.norm.sf(before))
    assert found.p_value == covariates._p_value(features, members[kept], folds, after, 6)
    assert found.overlap is bool(overlap)
    last = covariates._folds(int(kept.sum()), seeds.generator(6, "covariates", "folds"))
    expected, explained = covariates._relative_scores(features, scores[kept], last)
    np.testing.assert_array_equal(found.scores["r"], expected)
    assert found.explained["r"] == explained
    np.testing.assert_array_equal(
        found.unexplained["u"], covariates._relative_scores(features, residuals[kept], last)[0]
    )
    assert adjust({"r": scores}, members, table, seed=6).unexplained == {}


def test_a_covariate_that_does_not_vary_adjusts_nothing():
    members = np.arange(60) < 30
    assert adjust({"r": np.arange(60.0)}, members, Covariates(("a",), np.ones((60, 1)))) is None
    groups = np.arange(60)
    assert adjust({"r": np.arange(60.0)}, members, Covariates(("a",), np.ones((60, 1))), groups=groups) is None


@pytest.mark.parametrize("seed", [0, 1])
def test_folds_are_as_equal_as_can_be(seed):
    folds = covariates._folds(23, np.random.default_rng(seed))
    assert sorted(np.bincount(folds).tolist()) == [4, 4, 5, 5, 5]
    assert folds.tolist() != sorted(folds.tolist())


def test_a_name_is_told_without_its_kind():
    names = ("length", "topic:3", "column:a:b", "category:2:ward:x", "year:named")
    assert Covariates(names, np.zeros((0, 5))).sources == ("length", "topic", "a:b", "ward:x", "year")


def test_long_texts_count_whole_in_length_and_by_their_beginning_in_years():
    limit = 20_000
    table = text_covariates(["x" * (limit - 5) + " 1999", "y" * limit + " 1999", "in 1985", "in 1800 and 1700"])
    values = dict(zip(table.names, table.values.T, strict=True))
    np.testing.assert_allclose(values["length"], np.log1p([limit, limit + 5, 7, 16]))
    assert values["year:named"].tolist() == [1, 0, 1, 0]
    assert values["year"].tolist() == [1999, 1992, 1985, 1992]


@pytest.mark.parametrize("shift", [1.0, 1.6])
def test_a_p_value_of_a_twentieth_is_left_to_the_normal_law(shift):
    """Of z = 1.6 it is 0.055, of 1.7 it is 0.045: only that is asked of permutations."""
    members = np.arange(40) < 20
    x = np.random.default_rng(7).normal(size=(40, 1))
    folds = covariates._stratified_folds(members, 5, "before")
    assert covariates._p_value(x, members, folds, shift, 5) == stats.norm.sf(shift)
    found = covariates._p_value(x, members, folds, 1.7, 5)
    assert found == stats.norm.sf(1.7) or (200 * found) % 1 == pytest.approx(0, abs=1e-9)
    assert found >= stats.norm.sf(1.7)


def test_regressions_are_tried_at_nine_strengths():
    np.testing.assert_allclose(covariates._PENALTIES, [0.001, 0.01, 0.1, 1, 10, 100, 1e3, 1e4, 1e5])


def test_small_strata_are_balanced_by_the_best_of_all_proportions():
    """Eight records in two strata, with every division of them into three members and five others."""
    for chosen in itertools.combinations(range(8), 3):
        members = np.isin(np.arange(8), chosen)
        kept = covariates._balance_strata(np.arange(8.0), members, seed=0)
        inside, outside = (
            [int((side & half).sum()) for half in (np.arange(8) < 4, np.arange(8) >= 4)] for side in (members, ~members)
        )
        size = best_proportion(inside, outside)[0]
        m, n = (kept & members).sum(), (kept & ~members).sum()
        assert m * n / max(m + n, 1) == pytest.approx(size)


def test_a_share_is_explained_of_small_values_too():
    values = np.array([0.1, 0.2, 0.4])
    assert covariates._explained_variance(values, values) == 1
