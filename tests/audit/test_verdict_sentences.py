"""Sentences of a verdict at the limits where they change, and the numbers in them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import evaluation
from divulge.auditing import plausibility, scopes
from divulge.auditing.checks.check import REDRAW_ADVICE
from divulge.auditing.checks.copies import count_copies, hidden_share
from divulge.auditing.checks.covariates import describe_adjustment, describe_confounding
from divulge.auditing.checks.texts import text_warnings
from divulge.auditing.findings import RealisedFpr, realised_fpr
from divulge.auditing.wording import describe_claim, dot_grids, format_counts
from divulge.errors import InputError
from divulge.evaluation import SurestRecords
from divulge.evaluation.covariates import Adjustment
from divulge.report import formatting
from divulge.results import TextSplit
from divulge.types import Estimate
from score_audits import scored, sizes, with_copies


def interval(low, high, value=None):
    return Estimate((low + high) / 2 if value is None else value, low, high, 0.95, "m")


@pytest.mark.parametrize(
    ("statistic", "chance", "low", "high", "below", "leak", "strength"),
    [
        ("AUC", 0.5, 0.5, 0.9, False, False, 0.0),
        ("AUC", 0.5, 0.6, 0.9, False, True, 0.2),
        ("AUC", 0.5, 0.1, 0.5, False, False, -0.8),
        ("AUC", 0.5, 0.1, 0.4, True, True, 0.2),
        ("TPR", 0.1, 0.0, 0.05, False, False, -1.0),
        ("TPR", 0.1, 0.1, 0.5, False, False, 0.0),
        ("TPR", 0.1, 0.3, 0.5, False, True, 2.0),
        ("ε", 0.0, 0.0, 9.0, False, False, 0.0),
        ("ε", 0.0, 0.5, 9.0, False, True, 0.0),
    ],
)
def test_a_statistic_is_a_leak_if_its_interval_excludes_chance(statistic, chance, low, high, below, leak, strength):
    tested = scopes.TestedStatistic("r", statistic, chance, interval(low, high))
    assert (tested.below, tested.leak) == (below, leak)
    assert tested.strength == pytest.approx(strength)


@pytest.mark.parametrize("adjusted", [False, True])
def test_a_statistic_is_written_with_its_interval_and_chance(adjusted):
    word = "adjusted " if adjusted else ""
    assert str(scopes.TestedStatistic("r", "TPR", 0.01, interval(0.1, 0.3), adjusted)) == (
        f"r: {word}TPR 0.200 [0.100, 0.300] at FPR 0.01, where a model that leaks nothing has 0.01"
    )
    assert str(scopes.TestedStatistic("r", "AUC", 0.5, interval(0.6, 0.8), adjusted)) == (
        f"r: {word}AUC 0.700 [0.600, 0.800], where a model that leaks nothing has 0.5"
    )
    assert str(scopes.TestedStatistic("r", "AUC", 0.5, interval(0.2, 0.4), adjusted)).endswith(
        "has 0.5; the score points the wrong way; reversed, it finds members"
    )
    assert str(scopes.TestedStatistic("r", "ε", 0.0, interval(0.119, 9), adjusted)) == (
        f"r: {word}ε ≥ 0.11, where a model that leaks nothing has 0"
    )


@pytest.mark.parametrize(
    ("members", "nonmembers", "text"),
    [
        (0, 1, "0 members and 1 non-member"),
        (1, 2, "1 member and 2 non-members"),
        (1000, 0, "1,000 members and 0 non-m"),
    ],
)
def test_counts_of_candidates_are_in_the_plural_unless_one(members, nonmembers, text):
    assert format_counts(members, nonmembers).startswith(text)


@pytest.mark.parametrize(
    ("surest", "sentence"),
    [
        (
            SurestRecords(True, 1200, 5000, 0, 4800),
            "For 1,200 of 5,000 training records it can be told, X that they were used for training: none of 4,800 "
            "other records looks like them.",
        ),
        (
            SurestRecords(False, 12, 500, 0, 480),
            "For 12 of 500 other records it can be told, X that they were not used for training: none of 480 training "
            "records looks like them.",
        ),
        (
            SurestRecords(True, 12, 500, 1, 480),
            "12 of 500 training records stand out, X as used for training: only 1 of 480 other records looks like "
            "them, fewer than chance explains.",
        ),
        (
            SurestRecords(False, 12, 500, 2, 480),
            "12 of 500 other records stand out, X as not used for training: only 2 of 480 training records look like "
            "them, fewer than chance explains.",
        ),
    ],
)
def test_the_surest_records_are_told_by_side_and_errors(surest, sentence):
    tested = scopes.TestedStatistic("r", "ε", 0.0, interval(0.5, 9))
    plain, pictures = describe_claim(tested, ", X", surest)
    assert plain == sentence
    if surest.total > 1000:
        assert pictures == ()
        return
    sides = ("training records", "other records") if surest.members else ("other records", "training records")
    negation = "" if surest.members else "not "
    assert [(dots.caption, dots.value, dots.total) for dots in pictures] == [
        (f"{surest.right} of 500 {sides[0]} stand out as {negation}used", surest.right, 500),
        (f"{surest.wrong} of 480 {sides[1]} look like them", surest.wrong, 480),
    ]


def test_an_epsilon_without_records_is_told_in_words_alone():
    plain, pictures = describe_claim(scopes.TestedStatistic("r", "ε", 0.0, interval(0.5, 9)), " on all classes")
    assert plain.startswith("Of some records it can be told on all classes whether they were used")
    assert pictures == ()


@pytest.mark.parametrize(
    ("total", "fpr", "expected"),
    [
        (100, 0.05, [(7, 100), (5, 100)]),
        (1000, 0.05, [(7, 1000), (50, 1000)]),
        (100, 0.001, [(7, 100), (1, 1000)]),
        (100, 0.0001, []),
        (10_000, 0.05, []),
        (100, 1 / 3, []),
    ],
)
def test_recognised_and_accused_are_drawn_in_grids_of_one_size(total, fpr, expected):
    grids = dot_grids(formatting.NaturalFrequency(7, 4, 12, total), fpr)
    assert [(grid.value or grid.high, grid.total) for grid in grids] == expected
    if expected:
        count, n = expected[1]
        assert grids[0].caption == f"7 of {total:,} training records (4 to 12) are recognised"
        assert (grids[0].low, grids[0].high) == (4, 12)
        assert grids[1].caption == f"{count} of {n:,} others are wrongly accused, at most"


@pytest.mark.parametrize("suffix", ["", " on all classes"])
@pytest.mark.parametrize(("low", "high"), [(0.6, 0.8), (0.2, 0.4)])
def test_an_auc_is_told_in_pairs_from_the_side_that_finds_members(low, high, suffix):
    plain, pictures = describe_claim(scopes.TestedStatistic("r", "AUC", 0.5, interval(low, high)), suffix)
    opening = "On all classes, shown" if suffix else "Shown"
    assert plain == (
        f"{opening} a training record and another one, the attack tells which is which in about 70 of 100 such "
        "pairs (60 to 80); guessing is right in 50."
    )
    told, guessed = pictures
    assert (told.value, told.low, told.high, told.total) == (70, 60, 80, 100)
    assert told.caption == "70 of 100 pairs (60 to 80) are told right"
    assert (guessed.value, guessed.total, guessed.chance) == (50, 100, True)
    assert guessed.caption == "50 of 100 by guessing"


def test_an_auc_hardly_above_chance_is_told_without_dots_of_more_than_a_thousand():
    plain, pictures = describe_claim(scopes.TestedStatistic("r", "AUC", 0.5, interval(0.50011, 0.54, 0.52)))
    assert pictures == ()
    assert "5,200 of 10,000 such pairs (5,001 to 5,400); guessing is right in 5,000." in plain
    drawn = describe_claim(scopes.TestedStatistic("r", "AUC", 0.5, interval(0.502, 0.54, 0.52)))
    assert [grid.total for grid in drawn[1]] == [1000, 1000]


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


@pytest.mark.parametrize(
    ("needs", "models"),
    [
        ("none", ""),
        ("out", "can train models of their own on similar data"),
        ("in and out", "can train models of their own on similar data, with these records and without"),
        ("base", "has the model that it was fine-tuned from"),
        ("substitutes", "can train models of their own on similar data, as the model labels it"),
    ],
)
@pytest.mark.parametrize("share", [None, 0.25, 1.0])
def test_a_leak_says_what_the_adversary_needs_and_knows(needs, models, share):
    members = sizes(300, 300)
    audit = with_recipe(scored({"r": np.linspace(0, 1, 600)[::-1] + members}, members), references=needs)
    if share is not None:
        partial = SimpleNamespace(share=share)
        audit = with_about(audit, settings=replace(audit.about.settings, partial=partial))
    told = audit.verdict
    knowledge = "knows 25 % of the values of the record in question" if share == 0.25 else "has the record in question"
    able = f", sees logits and {models}" if models else " and sees logits"
    others = "The other training records may be at risk, too."
    assert told.details == (f"Who can do this: anyone who {knowledge}{able}.", others)
    assert told.evidence[0].endswith("The intervals of all recipes hold simultaneously with 95 % confidence.")
    assert told.recipe == "r"


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


@pytest.mark.parametrize(("copies", "sides", "share"), [(5, (10, 20), 0.5), (5, (20, 10), 0.5), (30, (10, 20), 1.0)])
def test_the_share_that_copies_hide_is_of_the_smaller_side_and_at_most_all(copies, sides, share):
    assert hidden_share(with_copies(quiet(), copies).about, *sides) == share
    assert hidden_share(with_copies(quiet(), copies).about, 0, 3) == 1.0


def test_where_all_may_be_copies_no_leak_is_detectable():
    audit = with_copies(quiet(), 300)
    found = scopes.smallest_detectable_leak(audit, scopes.scopes(audit)[0])
    assert (found.auc, found.tpr) == (None, None)


def adjustment(kept=(True,) * 6, explained=(), overlap=True):
    return Adjustment(("length", "age"), np.array(kept), {}, dict(explained), 0.01, 0.0312, overlap=overlap)


@pytest.mark.parametrize(
    ("explained", "sentence"),
    [
        ({"a": 0.0}, "no score depends on it enough to be corrected for it"),
        ({}, "no score depends on it enough to be corrected for it"),
        ({"a": 0.1, "b": 0.0, "c": 0.2}, "scores of a and c are relative to what it leads one to expect"),
    ],
)
def test_an_adjustment_is_described_by_records_and_corrected_scores(explained, sentence):
    told = describe_adjustment(adjustment((True, True, False, True), explained))
    assert told == (
        "Adjusted for document length and age: members are compared with non-members that are alike in this respect, "
        f"3 of 4 records took part, and {sentence}."
    )


@pytest.mark.parametrize("overlap", [True, False])
def test_a_confounded_split_says_whether_any_records_are_alike(overlap):
    told = describe_confounding(adjustment(overlap=overlap))
    assert ("hardly any members and non-members are alike in document length and age" in told) == (not overlap)
    assert ("also where the sets were balanced in this respect (p = 0.031)" in told) == overlap
    assert told.endswith(f"{REDRAW_ADVICE}.")


@pytest.mark.parametrize("copies", [0, 1, 3])
@pytest.mark.parametrize("signs", [(), ("word a", "word b")])
def test_warnings_of_texts_name_signs_and_copies(copies, signs):
    warnings = text_warnings(TextSplit(signs, "none", copies, 0.5))
    expected = ["members and non-members differ in more than membership: word a; word b"] if signs else []
    noun = "non-member" if copies == 1 else "non-members"
    if copies:
        expected.append(
            f"at least half of the word n-grams of {copies} {noun} stand in a member; a model that has learnt the one "
            "knows the other, so the numbers are too low"
        )
    assert warnings == expected


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("n", [50, 400, 4000])
def test_a_classifier_is_plausible_if_it_is_surely_better_than_the_most_frequent_class(n, n_classes):
    """By the exact lower bound at 0.1 %, and by a margin of 5 % of the rest, at most 2 %."""
    labels = np.repeat(np.arange(n_classes), n // n_classes)
    share = 1 / n_classes
    limit = share + min(0.05 * (1 - share), 0.02)
    plausible = next(k for k in range(n + 1) if plausibility.statistics.clopper_pearson_lower(k, n, 1e-3) > limit)
    assert plausibility.describe_accuracy_doubt(plausible, labels) == ""
    told = plausibility.describe_accuracy_doubt(plausible - 1, labels, ", X")
    right = f"{100 * ((plausible - 1) / n):.1f} %"
    assert told == (
        f"the model is right on {right} of its own training records ({plausible - 1:,} of {n:,}, X), and always "
        f"answering their most frequent class is right on {100 * share:.1f} %, so it is not surely better"
    )
    assert "surely better" not in plausibility.describe_accuracy_doubt(n // n_classes, labels)
    assert "surely better" in plausibility.describe_accuracy_doubt(n // n_classes + 1, labels)


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


@pytest.mark.parametrize(
    ("low", "high", "p_value", "tests", "told"),
    [
        (0.06, 0.1, 0.0499, 1, "higher than asked for: the luck of one calibration does not explain it (p = 0.05)"),
        (0.06, 0.1, 0.05, 1, "above, as in one of 20 calibrations"),
        (0.06, 0.1, 0.02, 2, "higher than asked for: the luck of one calibration does not explain it (p = 0.02)"),
        (0.06, 0.1, 0.025, 2, "above, as in one of 40 calibrations"),
        (0.05, 0.1, 0.5, 1, "agrees"),
        (0.01, 0.05, 0.5, 1, "agrees"),
        (0.01, 0.049, 0.5, 1, "below"),
    ],
)
def test_a_realised_fpr_is_judged_by_its_interval_and_tail(low, high, p_value, tests, told):
    found = RealisedFpr(0.05, interval(low, high), p_value, tests)
    assert found.judged == told
    assert found.broken == told.startswith("higher than asked for")


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
