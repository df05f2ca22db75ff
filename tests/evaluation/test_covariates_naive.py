"""Steps of the adjustment for covariates, against definitions written down again."""

import numpy as np
import pytest

from divulge.evaluation.covariates import Covariates, adjust, column_covariates, text_covariates


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


def test_a_covariate_that_does_not_vary_adjusts_nothing():
    members = np.arange(60) < 30
    assert adjust({"r": np.arange(60.0)}, members, Covariates(("a",), np.ones((60, 1)))) is None
    groups = np.arange(60)
    assert adjust({"r": np.arange(60.0)}, members, Covariates(("a",), np.ones((60, 1))), groups=groups) is None
