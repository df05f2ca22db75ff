"""A target that knows nothing of its own training records is never cleared, and a working one always can be.

Broken targets are a working model that is handed its columns, its scaling or its classes wrongly, another model, a
constant, an all-zero network. What is judged is the number of training records that a target is right on; the
simulations over accuracies and class shares draw that number itself.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import divulge as dv
from divulge import statistics
from divulge.auditing import plausibility
from divulge.auditing.checks.target_fit import describe_fit
from divulge.auditing.compare import Comparison, comparison_page, judge_ending
from divulge.auditing.gates import gate, reason_of
from divulge.report import html
from divulge.results import Accuracy, ClassifierFit, TokenFit
from divulge.types import Estimate
from score_audits import scored, sizes, with_findings, with_no_findings

pytestmark = pytest.mark.usefixtures("records_compared_once")

N = 300


@pytest.fixture(scope="module")
def world():
    """Records that a linear model knows well without learning any by heart."""
    rng = np.random.default_rng(0)
    scale, weights = np.array([1.0, 40.0, 0.1, 9.0]), np.array([[2.0, 0.0, -2.0], [0.3, -0.6, 0.3]]).repeat(2, 0)

    def records(n):
        x = rng.normal(size=(n, 4)) * scale + 5 * scale
        logits = (x / scale - 5) @ (2 * weights) + rng.gumbel(size=(n, 3))
        return dv.Records(x, logits.argmax(1))

    parts = records(20_000), records(N), records(N), records(N)
    model = LogisticRegression(max_iter=5000).fit((parts[0].x - 5 * scale) / scale, parts[0].y)
    return parts[1:], lambda x: np.log(model.predict_proba((x - 5 * scale) / scale) + 1e-12), scale


BROKEN = {
    "columns": lambda model, scale: lambda x: model(x[:, [1, 0, 3, 2]]),
    "scaling": lambda model, scale: lambda x: model((x - 5 * scale) / scale),
    "classes": lambda model, scale: lambda x: model(x)[:, [1, 2, 0]],
    "another model": lambda model, scale: lambda x: np.sin(np.outer(x @ (1 / scale), [1.0, 2.0, 3.0])),
    "all zero": lambda model, scale: lambda x: np.zeros((len(x), 3)),
    "constant": lambda model, scale: lambda x: np.tile([0.1, 0.2, 0.7], (len(x), 1)),
}


def audited(target, parts, recipes=("loss",), **options):
    members, nonmembers, population = parts
    return dv.audit(
        target, members=members, nonmembers=nonmembers, population=population, recipes=recipes, fpr=(0.05,), **options
    )


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_targets_are_never_cleared(fault, world, tmp_path):
    parts, model, scale = world
    run = audited(BROKEN[fault](model, scale), parts, out=tmp_path / "run")
    for audit in (run, dv.auditing.load(tmp_path / "run")):
        verdict = audit.verdict
        assert verdict.answer == "too little data to say"
        assert verdict.plain.startswith("No answer: the model ")
        assert "of its own training records" in verdict.plain
        assert {ruling.state for ruling in gate(audit, ["auc:0.9", "tpr@fpr=0.05:0.9"])} == {"undecided"}
    assert "another file would give nothing away either" in (tmp_path / "run" / "report.html").read_text()


def test_the_working_model_is_cleared_and_keeps_its_limits(world):
    parts, model, _ = world
    run = audited(model, parts)
    assert run.verdict.answer == "no leak found"
    assert {ruling.state for ruling in gate(run, ["auc:0.9", "tpr@fpr=0.05:0.9"])} == {"kept"}


WEAK = {
    "stump": DecisionTreeClassifier(max_depth=1),
    "naive Bayes": GaussianNB(),
    "strong penalty": make_pipeline(StandardScaler(), LogisticRegression(C=1e-3)),
    "one randomised tree": ExtraTreeClassifier(min_samples_leaf=40, random_state=0),  # of which many know much more
    "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(60)),
}
"""Models that know little of what a linear model knows, all the same when they are asked as they were trained."""


@pytest.mark.parametrize("weak", WEAK)
def test_a_model_of_which_clones_know_no_more_is_judged(weak, world):
    parts, _, _ = world
    options = {} if weak != "stump" else {"recipes": ("loss", "rmia"), "references": dv.references.Train(count=4)}
    fitted = clone(WEAK[weak]).fit(parts[0].x, parts[0].y)
    honest = audited(fitted, parts, **options)
    assert not reason_of(honest, "implausible"), honest.verdict.text


@pytest.mark.parametrize("references", [None, dv.references.Train(count=4)])
def test_a_model_that_is_asked_otherwise_than_it_was_trained_is_not(references, world):
    """Trained on scaled records, and saved without the scaler."""
    parts, _, scale = world
    options = {"recipes": ("loss",) if references is None else ("loss", "rmia"), "references": references}
    scaled = dv.Records((parts[0].x - 5 * scale) / scale, parts[0].y)
    unscaled = audited(clone(WEAK["strong penalty"][-1]).fit(scaled.x, scaled.y), parts, **options)
    assert unscaled.verdict.answer == "too little data to say"


BY_HEART = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(12, random_state=0),
    "boosted trees": HistGradientBoostingClassifier(max_iter=50),
}


@pytest.mark.parametrize("learner", BY_HEART)
def test_an_estimator_that_learns_by_heart_and_knows_the_members_no_better_than_others_may_be_another_file(learner):
    """Of weak signal: trained on other records it is no answer; on the members or ten times as many it is judged."""
    rng, weights = np.random.default_rng(7), np.random.default_rng(99).normal(size=10)

    def records(n, strength=0.45):
        x = rng.normal(size=(n, 10))
        return dv.Records(x, (rng.random(n) < 1 / (1 + np.exp(-strength * x @ weights))).astype(int))

    members, nonmembers, population, others, many = (records(n) for n in (400, 400, 800, 400, 4_000))
    parts = members, nonmembers, population
    wrong = audited(clone(BY_HEART[learner]).fit(others.x, others.y), parts)
    assert wrong.verdict.answer == "too little data to say"
    assert "the same estimator" in wrong.verdict.plain
    assert gate(wrong, "auc:0.9")[0].state == "undecided"
    x, y = np.concatenate([members.x, many.x]), np.concatenate([members.y, many.y])
    for trained_on in (members, dv.Records(x, y)):
        honest = audited(clone(BY_HEART[learner]).fit(trained_on.x, trained_on.y), parts)
        assert not reason_of(honest, "implausible"), honest.verdict.text


def test_a_network_of_weighted_classes_is_right_less_often_than_a_linear_model_and_is_judged():
    """Of a rare outcome: right on fewer than always answering the frequent class, as it was trained to be."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1800, 4))
    y = (x[:, 0] + 2 * rng.logistic(size=1800) > 4.5).astype(int)
    parts = [dv.Records(x[i::3], y[i::3]) for i in range(3)]
    model = LogisticRegression(class_weight="balanced").fit(parts[0].x, parts[0].y)
    result = audited(lambda x: model.decision_function(x)[:, None] * [-0.5, 0.5], parts)
    assert result.about.measured(ClassifierFit).accuracy.members.value < 0.85 < (parts[0].y == 0).mean()
    assert result.verdict.answer == "no leak found", result.verdict.text


@pytest.mark.parametrize("has_classes", [True, False])
def test_what_knows_more_than_a_constant_and_less_than_a_linear_model_is_no_answer(has_classes, world):
    """One of the columns reaches the model as it should, which is enough to be right more often than a constant."""
    parts, model, scale = world
    rng = np.random.default_rng(1)

    def broken(x):
        return model(np.where([True, False, False, False], x, 5 * scale))

    if not has_classes:

        def value(x):
            return x @ (1 / scale)

        parts = [dv.Records(part.x, value(part.x) + 0.1 * rng.normal(size=N)) for part in parts]
        model, broken = value, lambda x: x[:, 0] / scale[0] + 15
    for target, answer in ((model, "no leak found"), (broken, "too little data to say")):
        result = audited(target, parts)
        assert result.verdict.answer == answer, result.verdict.text
    assert "a linear model" in result.verdict.plain
    assert "scale" in result.verdict.text
    assert gate(result, "auc:0.9")[0].state == "undecided"


class Labels:
    """A target that gives labels alone."""

    def __init__(self, model):
        self.model = model

    def labels(self, records):
        return self.model(records.x).argmax(1)


def test_labels_alone_and_records_partly_known_are_judged_too(world):
    parts, model, scale = world
    for broken in (BROKEN["classes"](model, scale), BROKEN["all zero"](model, scale)):
        assert audited(Labels(broken), parts, ("correct",)).verdict.answer == "too little data to say"
    assert audited(Labels(model), parts, ("correct",)).verdict.answer == "no leak found"
    partly, recipes = {"options": dv.AuditOptions(known="share:0.75")}, ("partial-loss",)
    result = audited(BROKEN["classes"](model, scale), parts, recipes, **partly)
    assert result.about.measured(ClassifierFit).accuracy.completed
    assert "completed where their values are unknown" in result.verdict.plain
    assert audited(model, parts, recipes, **partly).verdict.answer == "no leak found"


def test_records_without_labels_and_a_single_answer(world):
    parts, model, _ = world
    bare = [dv.Records(part.x) for part in parts]
    verdict = audited(lambda x: np.tile([0.0, 0.0, 1.0], (len(x), 1)), bare, ("gap",)).verdict
    assert verdict.answer == "too little data to say"
    assert "one and the same class" in verdict.plain
    assert audited(model, bare, ("gap",)).verdict.answer == "no leak found"


@cache
def shown_nothing(n):
    """An audit of scores that show nothing, without labels."""
    return scored({"loss": np.random.default_rng(n).normal(size=2 * n)}, sizes(n, n))


def table(right, labels):
    """An audit of scores that show nothing, of a target that is right on so many members."""
    n = len(labels)
    run, share = shown_nothing(n), statistics.proportion(int(right), n)
    all_labels = np.concatenate([labels, labels])
    fit = ClassifierFit(Accuracy(share, share), None, single_answer=False)
    return replace(with_findings(run, describe_fit(fit, labels)), labels=all_labels)


def labels_of(n, classes, majority):
    minority_shares = [(1 - majority) / (classes - 1)] * (classes - 1)
    counts = np.round(np.cumsum([0, majority, *minority_shares]) * n).astype(int)
    return np.repeat(np.arange(classes), np.diff(counts))


@pytest.mark.parametrize("n", [60, 300, 2000, 20_000])
@pytest.mark.parametrize(("classes", "majority"), [(2, 0.5), (2, 0.7), (2, 0.9), (2, 0.99), (10, 0.1), (100, 0.01)])
def test_targets_at_the_majority_share_are_always_doubted(n, classes, majority):
    """Right at random at exactly the majority share: 2,000 draws, and one in a thousand may pass at most."""
    labels = labels_of(n, classes, max(majority, 1 / min(classes, n)))
    share = np.bincount(labels).max() / n
    draws = np.random.default_rng(1).binomial(n, share, size=2000)
    doubted, above = 0, n + 1
    while doubted < above:  # what is doubted is doubted below it too
        middle = (doubted + above) // 2
        if middle <= n and not reason_of(table(middle, labels), "implausible"):
            above = middle
        else:
            doubted = middle + 1
    assert stats.binom.sf(doubted - 1, n, share) <= plausibility.ERROR
    assert (draws >= doubted).mean() <= 0.005
    assert reason_of(table(round(share * n), labels), "implausible")


@pytest.mark.parametrize("n", [300, 20_000])
@pytest.mark.parametrize(
    ("classes", "majority", "accuracy"), [(2, 0.5, 0.65), (2, 0.9, 0.98), (10, 0.1, 0.2), (100, 0.01, 0.1)]
)
def test_honest_targets_that_know_their_records_are_not(n, classes, majority, accuracy):
    labels = labels_of(n, classes, majority)
    # With few records only what is clearly better can be told from the constant answer.
    accuracy = min(accuracy + 0.08, 0.99) if n == 300 else accuracy
    draws = np.random.default_rng(2).binomial(n, accuracy, size=200)
    assert not any(reason_of(table(k, labels), "implausible") for k in np.unique(draws))


def test_the_sentence_of_a_weak_target_is_true_and_leaks_are_leaks_all_the_same():
    run = table(310, labels_of(600, 2, 0.5))
    verdict = run.verdict
    assert verdict.plain == (
        "No answer: the model is right on 51.7 % of its own training records (310 of 600), and always "
        "answering their most frequent class is right on 50.0 %, so it is not surely better."
    )
    assert "trained with much noise" in verdict.text
    leaking = replace(run, scores={"loss": run.scores["loss"] + 2.0 * run.members})
    assert leaking.verdict.answer == "leak found"
    assert gate(leaking, "auc:0.6")[0].state == "broken"
    before = with_no_findings(leaking)
    compared = Comparison.from_runs({"before": before, "after": run})
    _, words, tone = judge_ending(compared.changes["after"], run)
    assert tone == "undecided"
    assert "may be another model" in words
    assert "Nothing can be said of the second model" in html.render(comparison_page(compared))


def test_runs_in_which_nothing_was_measured_are_judged_as_before():
    run = scored({"loss": np.random.default_rng(3).normal(size=1000)}, sizes(500, 500))
    assert run.verdict.answer == "no leak found"


@pytest.mark.parametrize(
    ("gain", "constant", "cleared"), [(2.0, False, True), (-3.0, False, False), (2.0, True, False)]
)
def test_language_models_below_the_frequencies_of_their_tokens(gain, constant, cleared):
    run = scored({"loss": np.random.default_rng(4).normal(size=1000)}, sizes(500, 500))
    fit = TokenFit(-5.0, Estimate(gain, gain - 0.5, gain + 0.5, 0.998, "student"), "token", constant)
    run = with_findings(run, describe_fit(fit, None))
    assert (run.verdict.answer == "no leak found") == cleared
    assert (gate(run, "auc:0.9")[0].state == "kept") == cleared
    assert cleared or "tokenizer" in run.verdict.text
