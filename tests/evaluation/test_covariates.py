"""Balancing sets in covariates and making scores relative to them."""

import numpy as np
import pytest
from scipy import stats

from divulge.evaluation import covariates
from divulge.evaluation.covariates import Covariates, adjust


def draw(seed, m=300, n=300, *, shift=0.5, columns=1):
    rng = np.random.default_rng(seed)
    members = np.arange(m + n) < m
    values = rng.normal(size=(m + n, columns)) + shift * members[:, None]
    return rng, members, Covariates(tuple(f"column:{i}" for i in range(columns)), values)


def test_membership_is_never_looked_at_together_with_scores():
    """Which records take part depends on covariates and membership, their scores on covariates and scores."""
    rng, members, covariates = draw(0)
    scores = covariates.values[:, 0] + rng.normal(size=600)
    adjustment, other_adjustment = (
        adjust({"r": scores_given}, members, covariates) for scores_given in (scores, rng.normal(size=600))
    )
    assert np.array_equal(adjustment.is_included, other_adjustment.is_included)
    rng, members, covariates = draw(1, shift=0.0)
    shuffled = rng.permutation(members)
    adjustment, other_adjustment = (adjust({"r": scores}, membership, covariates) for membership in (members, shuffled))
    assert adjustment.is_included.all()
    assert other_adjustment.is_included.all()
    assert np.array_equal(adjustment.scores["r"], other_adjustment.scores["r"])


@pytest.mark.parametrize(("m", "n"), [(300, 300), (100, 1500), (1500, 100)])
def test_strata_have_members_and_nonmembers_in_one_proportion(m, n):
    _, members, covariates = draw(2, m, n, shift=0.8)
    adjustment = adjust({"r": np.zeros(m + n)}, members, covariates)
    length, inside = covariates.values[adjustment.is_included, 0], members[adjustment.is_included]
    assert stats.mannwhitneyu(covariates.values[members, 0], covariates.values[~members, 0]).pvalue < 1e-6
    assert stats.mannwhitneyu(length[inside], length[~inside]).pvalue > 0.01
    assert min(inside.sum(), (~inside).sum()) >= 0.6 * min(m, n)
    assert (adjustment.p_before < 1e-4, adjustment.confounded) == (True, False)


def test_several_covariates_are_balanced_at_once():
    _, members, covariates = draw(3, shift=0.3, columns=6)
    adjustment = adjust({"r": np.zeros(600)}, members, covariates)
    inside = members[adjustment.is_included]
    for column in covariates.values[adjustment.is_included].T:
        assert stats.ttest_ind(column[inside], column[~inside]).pvalue > 0.01


def test_scores_that_have_nothing_to_do_with_covariates_stay_as_they_are():
    rng, members, covariates = draw(4, shift=0.0)
    scores = rng.normal(size=600)
    adjustment = adjust({"r": scores, "two": (scores > 0) * 1.0, "one": np.ones(600)}, members, covariates)
    assert np.array_equal(adjustment.scores["r"], scores[adjustment.is_included])
    assert adjustment.explained == {"r": 0.0, "two": 0.0, "one": 0.0}


def test_of_a_score_that_is_the_covariate_nothing_is_left():
    _, members, covariates = draw(5, shift=0.2)
    adjustment = adjust({"r": np.exp(covariates.values[:, 0])}, members, covariates)
    assert (
        stats.mannwhitneyu(
            *(adjustment.scores["r"][members[adjustment.is_included] == side] for side in (True, False))
        ).pvalue
        > 0.05
    )
    rounded = Covariates(("length",), np.round(covariates.values * 2))
    rounded_adjustment = adjust({"r": rounded.values[:, 0]}, members, rounded)
    assert (
        stats.mannwhitneyu(
            *(rounded_adjustment.scores["r"][members[rounded_adjustment.is_included] == side] for side in (True, False))
        ).pvalue
        > 0.05
    )


def test_sets_without_overlap_are_confounded_and_tiny_ones_left_alone():
    _, members, covariates = draw(6, shift=50.0)
    assert adjust({"r": np.zeros(600)}, members, covariates).confounded
    _, few_members, their = draw(7, 9, 300)
    assert adjust({"r": np.zeros(309)}, few_members, their) is None
    _, members, _ = draw(8)
    assert adjust({"r": np.zeros(600)}, members, Covariates(("length",), np.ones((600, 1)))) is None


def test_a_balanced_split_is_seldom_called_confounded():
    """At 1 %: more than 2 of 25 have a chance of .2 %; a rate of 20 % is noticed with 90 %."""
    adjustments = [adjust({"r": np.zeros(200)}, *draw(seed, 100, 100, shift=0.3)[1:]) for seed in range(25)]
    assert sum(adjustment.confounded for adjustment in adjustments) <= 2


def test_what_texts_show():
    texts = [f"in {1990 + i % 3} the king of france {'spoke ' * (i % 5)}" for i in range(40)]
    texts += [f"my phone number is {i}" for i in range(40)]
    table = covariates.text_covariates(texts)
    assert table.sources == ("length", "year", "topic")
    values = dict(zip(table.names, table.values.T, strict=True))
    assert values["length"][0] == pytest.approx(np.log1p(len(texts[0])))
    assert values["year:named"].tolist() == [1.0] * 40 + [0.0] * 40
    assert np.ptp(values["year"][40:]) == 0
    assert stats.mannwhitneyu(values["topic:2"][:40], values["topic:2"][40:]).pvalue < 1e-6
    assert covariates.text_covariates(["日本", "中国"]).sources == ("length", "year")


def test_columns_of_numbers_dates_and_words():
    days = np.array(["2020-01-01", "2021-06-01", "2022-01-01"], dtype="datetime64[D]")
    table = covariates.column_covariates({"age": np.array([3, 4, 5]), "day": days, "ward": np.array(["a", "b", "b"])})
    assert table.names == ("column:age", "column:day", "category:0:ward")
    assert table.sources == ("age", "day", "ward")
    assert table.values[:, 2].tolist() == [0.0, 1.0, 1.0]
    written = covariates.column_covariates({"day": days.astype(str)})
    assert written.names == ("column:day",)
    assert np.array_equal(np.argsort(written.values[:, 0]), [0, 1, 2])
