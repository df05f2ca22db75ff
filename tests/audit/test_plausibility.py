"""What an audit makes of a model that may be no good, of copies, and of rates that were not kept: the numbers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import evaluation
from divulge.auditing import plausibility, scopes
from divulge.auditing.checks.copies import count_copies, hidden_share
from divulge.auditing.findings import realised_fpr
from divulge.errors import InputError
from score_audits import scored, sizes, with_copies


def quiet(n=300, fpr=(0.05,), recipes=("r",)):
    scores = np.r_[np.linspace(0, 1, n), np.linspace(0, 1, n)]
    return scored(dict.fromkeys(recipes, scores), sizes(n, n), fpr=fpr)


def with_about(audit, **changes):
    return replace(audit, about=replace(audit.about, **changes))


def with_recipe(audit, **changes):
    recipes = {name: replace(recipe, **changes) for name, recipe in audit.about.recipes.items()}
    return with_about(audit, recipes=recipes)


@pytest.mark.parametrize(
    ("needs", "is_advised"),
    [("none", True), ("base", True), ("substitutes", False), ("out", False), ("in and out", False)],
)
def test_without_reference_models_a_stronger_adversary_is_named(needs, is_advised):
    told = with_recipe(quiet(), references=needs).verdict
    assert ("attacks that train models of their own to compare with were not" in told.text) == is_advised
    assert "The attacks that were tried: r." in told.evidence


@pytest.mark.parametrize("name", ["LogisticRegression", "Ridge", "RandomForestClassifier"])
def test_of_a_regression_no_leak_is_said_to_leave_its_coefficients_open(name):
    told = with_about(quiet(), estimator=SimpleNamespace(name=name)).verdict
    assert told.answer == "no leak found"
    assert ("divulge weights --cohort" in told.text) == (name != "RandomForestClassifier")


@pytest.mark.parametrize(("copies", "answer"), [(0, "no leak found"), (10, "no leak found"), (400, "too little data")])
def test_copies_in_another_set_raise_the_smallest_auc_that_would_have_been_seen(copies, answer):
    audit = with_copies(quiet(1000), copies)
    scope = scopes.scopes(audit)[0]
    raw = evaluation.smallest_detectable(1000, 1000, 0.05, scopes.simultaneous_confidence(audit))
    found = scopes.smallest_detectable_leak(audit, scope)
    assert count_copies(audit.about) == copies
    assert hidden_share(audit.about, 1000, 1000) == copies / 1000
    if not copies:
        assert (found.auc, found.tpr) == (raw.auc, raw.tpr)
    else:
        expected = raw.auc / (1 - copies / 1000)
        assert found.auc == (pytest.approx(expected) if expected < 1 else None)
        assert found.tpr is None
    told = audit.verdict
    assert told.answer.startswith(answer)
    assert ("10 candidates have copies in another set" in told.text) == (copies == 10)
    assert ("400 candidates have copies in another set" in told.plain) == (copies == 400)


def test_where_all_may_be_copies_no_leak_is_detectable():
    audit = with_copies(quiet(), 300)
    found = scopes.smallest_detectable_leak(audit, scopes.scopes(audit)[0])
    assert (found.auc, found.tpr) == (None, None)


@pytest.mark.parametrize(("n", "n_classes"), [(400, 10), (4000, 2)])
def test_a_classifier_is_plausible_if_it_is_surely_better_than_the_most_frequent_class(n, n_classes):
    """By the exact lower bound at 0.1 %, and by a margin of 5 % of the rest, at most 2 %."""
    labels = np.repeat(np.arange(n_classes), n // n_classes)
    share = 1 / n_classes
    limit = share + min(0.05 * (1 - share), 0.02)
    plausible = next(k for k in range(n + 1) if plausibility.statistics.clopper_pearson_lower(k, n, 1e-3) > limit)
    assert plausibility.describe_accuracy_doubt(plausible, labels) == ""
    assert "surely better" in plausibility.describe_accuracy_doubt(plausible - 1, labels)


def test_the_margin_of_a_plausible_classifier_shrinks_where_the_most_frequent_class_is_nearly_all():
    """Of 90 % one class the margin is 0.5 %: 91 % right of a million is enough, 90.4 % is not."""
    labels = np.repeat([0, 1], [900_000, 100_000])
    assert plausibility.describe_accuracy_doubt(910_000, labels) == ""
    assert "surely better" in plausibility.describe_accuracy_doubt(904_000, labels)


def test_the_largest_margin_of_a_plausible_classifier_is_two_per_cent():
    labels = np.repeat([0, 1], [500_000, 500_000])
    assert plausibility.describe_accuracy_doubt(523_000, labels) == ""
    assert "surely better" in plausibility.describe_accuracy_doubt(519_000, labels)


def test_a_perplexity_beyond_any_number_is_none():
    largest = np.log(np.finfo(float).max)
    assert plausibility.estimate_perplexity(np.full(3, -largest * 0.999)).value > 1e300
    assert plausibility.estimate_perplexity(np.full(3, -largest)) is None
    assert plausibility.estimate_perplexity(np.log([1 / 8, 1 / 2])).method == "student, of the logarithm"


def test_a_realised_fpr_counts_nonmembers_beyond_the_threshold_and_has_the_beta_binomial_tail():
    calibration, nonmembers = np.arange(19.0), np.array([17.5, 18.0, 18.5, 30.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    found = realised_fpr(nonmembers, calibration, 0.05, tests=3)
    assert (found.rate.value, found.nominal, found.tests) == (0.2, 0.05, 3)
    # Of 10 exchangeable beside 19, two or more lie above the largest of the 19.
    expected = 10 / 29 * 9 / 28
    assert found.p_value == pytest.approx(expected)
    assert realised_fpr(np.zeros(10), calibration, 0.05).p_value == 1.0


def test_a_selection_is_at_one_rate_and_no_other():
    outcome = quiet()["r"]
    for options in ({}, {"fpr": 0.05, "fdr": 0.05}):
        with pytest.raises(InputError, match="give fpr or fdr, exactly one of them"):
            outcome.selection(**options)
    assert outcome.selection(fpr=0.05).guarantee
    assert outcome.selection(fdr=0.05).guarantee
    assert list(outcome.selections((0.05, 0.001))) == [0.05, 0.001]
    assert outcome.selections((0.05, 0.001))[0.001] is None


def test_the_fit_of_a_regression_has_textbook_intervals():
    """R² by the delta method, Spearman's correlation by Bonett and Wright, mean errors by Student."""
    from scipy import stats

    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    predictions, is_member = 0.7 * y + 0.2 * rng.normal(size=60), np.arange(60) < 50
    fit = plausibility.measure_regression_fit(y, predictions, is_member)
    y, predictions = y[:50], predictions[:50]
    residual, total = (y - predictions) ** 2, (y - y.mean()) ** 2
    ratio, rho = residual.sum() / total.sum(), stats.spearmanr(y, predictions).statistic
    influence = (residual - ratio * total) / total.mean()
    half = 1.959963985 * np.sqrt(np.mean(influence**2) / 50)
    expected = {
        "r_squared_members": (1 - ratio, 1 - ratio - half, 1 - ratio + half),
        "rank_correlation": (
            rho, *np.tanh(np.arctanh(rho) + np.array([-1, 1]) * 3.090232306 * np.sqrt((1 + rho**2 / 2) / 47))
        ),
        "error_members": (
            np.abs(y - predictions).mean(), *stats.t.interval(0.95, 49, np.abs(y - predictions).mean(),
                                                              stats.sem(np.abs(y - predictions)))
        ),
    }  # fmt: skip
    for name, numbers in expected.items():
        estimate = getattr(fit, name)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(numbers)


def test_a_constant_has_no_rank_correlation_and_constant_values_no_share_of_variance():
    is_member = np.arange(18) < 9
    assert plausibility.measure_regression_fit(np.arange(18.0), np.ones(18), is_member).rank_correlation.value == 0.0
    fit = plausibility.measure_regression_fit(np.ones(18), np.arange(18.0), is_member)
    assert fit.rank_correlation.value == 0.0
    assert fit.r_squared_members is None
    assert fit.squared_gain is None
