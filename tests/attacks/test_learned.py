"""The learned score: leave-one-out features against plain loops, and what it does with what it learned."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge.attacks import BASE, Learned, LiRA, Threshold
from divulge.attacks.reference_moments import equal_counts
from divulge.evaluation import auc


def simulated(seed, models=8, records=400, population=500, effect=1.5):
    """Scaled logits with a difficulty of each record and an effect of training; row 0 is the target."""
    rng = np.random.default_rng(seed)
    n = records + population
    inside = rng.random((models, n)) < 0.5
    inside[1:, :records] = False
    signals = 2 * rng.normal(size=n) + rng.normal(size=(models, n)) + effect * inside
    c, p = np.s_[:records], np.s_[records:]
    evidence = dv.Evidence(
        signals[0, c],
        signals[1:, c],
        population=signals[0, p],
        population_references=signals[1:, p],
        population_trained_on=inside[1:, p],
    )
    return evidence, inside[0, c]


def naive_features(x, reference_signals, trained_on, online):
    """What is known of one record: its signal, and the means of the models with and without it."""
    logs = lambda s: -np.log1p(np.exp(-s))  # noqa: E731
    outside, within = reference_signals[~trained_on], reference_signals[trained_on]
    row = [x, logs(x), outside.mean(), logs(outside).mean(), np.log(np.exp(logs(outside)).mean())]
    for view in (lambda s: s, logs) if online else ():
        a, b = view(outside).mean(), view(within).mean()
        row += [b, (view(x) - (a + b) / 2) * (b - a)]
    return row


def naive(target, references, inside, lessons, lessons_inside, online):
    rows, truth = [], []
    for model in range(len(lessons)):
        other_models = np.arange(len(lessons)) != model
        for j in range(lessons.shape[1]):
            rows.append(
                naive_features(lessons[model, j], lessons[other_models, j], lessons_inside[other_models, j], online)
            )
            truth.append(lessons_inside[model, j])
    candidate_rows = [naive_features(x, references[:, j], inside[:, j], online) for j, x in enumerate(target)]
    scale = StandardScaler().fit(rows)
    return (
        LogisticRegression(max_iter=1000)
        .fit(scale.transform(rows), truth)
        .decision_function(scale.transform(candidate_rows))
    )


def test_offline_is_a_regression_on_the_population():
    evidence, _ = simulated(0, records=30, population=40)
    outside = np.zeros(evidence.references.shape, dtype=bool)
    # Half of 7 models: a record that none, or every, other model was trained on has no mean of its own.
    usable = (evidence.population_trained_on.sum(axis=0) >= 2) & (evidence.population_trained_on.sum(axis=0) <= 5)
    lessons, inside = evidence.population_references[:, usable], evidence.population_trained_on[:, usable]
    offline_evidence = dv.Evidence(
        evidence.target,
        evidence.references,
        population=evidence.population[usable],
        population_references=lessons,
        population_trained_on=inside,
    )
    expected = naive(evidence.target, evidence.references, outside, lessons, inside, online=False)
    np.testing.assert_allclose(Learned().score(offline_evidence), expected, atol=1e-3)


def naive_few(evidence, seed=0):
    """`Learned(few=True)` with the further signals, in plain loops over models and records."""
    parts = [evidence, *(evidence.queries or ())]
    held_by = evidence.population_trained_on

    def row(target_signals, reference_signals):
        columns = naive_features(
            target_signals[0], reference_signals[0], np.zeros(len(reference_signals[0]), bool), online=False
        )
        return [
            *columns,
            *(
                part
                for x, signals in zip(target_signals[1:], reference_signals[1:], strict=True)
                for part in (x, signals.mean())
            ),
        ]

    rows, truth = [], []
    for model, member in enumerate(held_by):
        signals = [i for i in range(len(held_by)) if i != model]
        out = np.vstack([~held_by[signals], np.ones_like(member)])
        chosen, full = equal_counts(out, member, dv.seeds.generator(seed, "learned", "few", model))
        for j in np.flatnonzero(full):
            target_signals = [part.population_references[model, j] for part in parts]
            reference_signals = [
                np.r_[part.population_references[signals, j], part.population[j]][chosen[:, j]] for part in parts
            ]
            rows.append(row(target_signals, reference_signals))
            truth.append(member[j])
    candidate_rows = [
        row([part.target[j] for part in parts], [part.references[:, j] for part in parts]) for j in range(len(evidence))
    ]
    scale = StandardScaler().fit(rows)
    return (
        LogisticRegression(max_iter=1000)
        .fit(scale.transform(rows), truth)
        .decision_function(scale.transform(candidate_rows))
    )


@pytest.mark.parametrize("models", [2, 6])
def test_further_signals_are_two_more_columns_each(models):
    evidence, _ = simulated(4, models=models, records=30, population=60)
    queries = [simulated(seed, models=models, records=30, population=60)[0] for seed in (5, 6)]
    evidence = dataclasses.replace(
        evidence,
        queries=tuple(
            dataclasses.replace(evidence, **{
                name: getattr(evidence, name) + getattr(query, name)
                for name in ("target", "references", "population", "population_references")
            })
            for query in queries
        ),
    )  # fmt: skip
    scores = Learned(few=True, beside=True).score(evidence)
    np.testing.assert_allclose(scores, naive_few(evidence), atol=1e-3)
    assert not np.allclose(scores, Learned(few=True).score(evidence), atol=1e-3)
    none = dataclasses.replace(evidence, queries=())
    np.testing.assert_array_equal(Learned(few=True, beside=True).score(none), Learned(few=True).score(none))


def test_a_further_signal_that_tells_members_is_used_and_one_that_does_not_does_no_harm():
    """A logistic regression of 11 columns on some 3,000 lessons."""
    evidence, members = simulated(7, effect=0.3)
    clear, blind = simulated(7, effect=3.0)[0], simulated(8, effect=0.0)[0]
    plain_auc, informed_auc, noise = (
        auc(attack.score(dataclasses.replace(evidence, queries=queries)), members).value
        for attack, queries in (
            (Learned(few=True), ()),
            (Learned(few=True, beside=True), (clear,)),
            (Learned(few=True, beside=True), (blind,)),
        )
    )
    assert informed_auc > plain_auc + 0.2
    assert abs(noise - plain_auc) < 0.05


def test_online_is_a_regression_on_the_candidates():
    rng = np.random.default_rng(0)
    inside = np.array([rng.permutation(8) < 4 for _ in range(40)]).T
    signals = rng.normal(size=(8, 40)) + 1.5 * inside
    target = rng.normal(size=40)
    expected = naive(target, signals, inside, signals, inside, online=True)
    np.testing.assert_allclose(Learned("online").score(dv.Evidence(target, signals, inside)), expected, atol=1e-3)


def test_it_knows_more_than_the_loss_and_the_ratio():
    evidence, members = simulated(1)
    log = lambda s: -np.logaddexp(0, -s)  # noqa: E731
    ratio = BASE(scale=1.0).score(dv.Evidence(log(evidence.target), log(evidence.references)))
    plain, ratio, learned = (
        auc(s, members).value for s in (Threshold().score(evidence), ratio, Learned().score(evidence))
    )
    assert plain < ratio < learned


def test_nothing_is_found_where_nothing_leaks():
    evidence, members = simulated(2, effect=0.0)
    estimate = auc(Learned().score(evidence), members)
    # One fixed seed; over seeds a 95 % interval would miss 0.5 one time in twenty.
    assert estimate.low < 0.5 < estimate.high


def test_pairs_beyond_the_limit_are_drawn_by_the_seed():
    evidence, _ = simulated(3)
    expected = Learned(most=700, seed=1).score(evidence)
    np.testing.assert_array_equal(expected, Learned(most=700, seed=1).score(evidence))
    assert not np.array_equal(expected, Learned(most=700, seed=2).score(evidence))
    assert np.corrcoef(expected, Learned().score(evidence))[0, 1] > 0.9


ALL_HELD = dataclasses.replace(simulated(0)[0], trained_on=np.ones((7, 400), bool))


@pytest.mark.parametrize(
    ("attack", "evidence", "message"),
    [
        (Learned(), dv.Evidence([0.0]), "evidence.references is needed"),
        (Learned(), dv.Evidence([0.0], [[0.0]]), "evidence.population_trained_on is needed"),
        (Learned("online"), dv.Evidence([0.0], [[0.0]]), "evidence.trained_on is needed"),
        (Learned("online"), dv.Evidence([0.0], np.zeros((4, 1)), np.zeros((4, 1), bool)), "at least 3 reference"),
        (Learned("online"), dv.Evidence([0.0], np.zeros((2, 1)), [[True], [False]]), "got 2 models"),
        (Learned(few=True, beside=True), simulated(0)[0], "evidence.queries is needed"),
        (Learned(), ALL_HELD, "every reference model was trained on every candidate"),
        (Learned(few=True), ALL_HELD, "every reference model was trained on every candidate"),
    ],
)
def test_what_it_cannot_do_without(attack, evidence, message):
    with pytest.raises(dv.InputError, match=message):
        attack.score(evidence)


def test_with_one_reference_the_lesson_is_that_model_against_the_target():
    evidence, _ = simulated(3, models=2, records=30, population=60)
    inside = evidence.population_trained_on[0]
    rows = [
        naive_features(reference_signal, np.array([target_signal]), np.array([False]), online=False)
        for reference_signal, target_signal in zip(evidence.population_references[0], evidence.population, strict=True)
    ]
    candidate_rows = [
        naive_features(reference_signal, np.array([target_signal]), np.array([False]), online=False)
        for reference_signal, target_signal in zip(evidence.target, evidence.references[0], strict=True)
    ]
    scale = StandardScaler().fit(rows)
    fitted = LogisticRegression(max_iter=1000).fit(scale.transform(rows), inside)
    np.testing.assert_allclose(
        Learned(few=True).score(evidence), fitted.decision_function(scale.transform(candidate_rows)), atol=1e-3
    )


@pytest.mark.parametrize("models", [1, 2, 3])
def test_with_few_references_it_is_no_worse_than_the_best_and_better_than_without_the_target(models):
    """Halves of a population, as audits train them; a standard error of the mean AUC is .005."""
    aucs = {"few": [], "plain": [], "lira": [], "loss": []}
    for seed in range(8):
        evidence, member = halves(seed, models)
        aucs["few"].append(auc(Learned(few=True).score(evidence), member).value)
        aucs["lira"].append(auc(LiRA().score(evidence), member).value)
        aucs["loss"].append(auc(evidence.target, member).value)
        if models >= Learned().least_references:
            aucs["plain"].append(auc(Learned().score(evidence), member).value)
    mean = {name: np.mean(values) for name, values in aucs.items() if values}
    assert mean["few"] > max(mean["lira"], mean["loss"]) - 0.005
    assert mean["few"] > mean.get("plain", 0.0) + 0.01


def halves(seed, models):
    """Reference models trained on random halves of the population, pair by pair; the target on half the candidates."""
    rng = np.random.default_rng(seed)
    inside = rng.random((models + 1, 1600)) < 0.5
    inside[2::2] = ~inside[1:-1:2][: len(inside[2::2])]
    inside[0, 800:], inside[1:, :800] = False, False
    signals = 2 * rng.normal(size=1600) + rng.normal(size=inside.shape) + 1.0 * inside
    c, p = np.s_[:800], np.s_[800:]
    parts = {"population": signals[0, p], "population_references": signals[1:, p]}
    return dv.Evidence(signals[0, c], signals[1:, c], **parts, population_trained_on=inside[1:, p]), inside[0, c]


def test_few_is_offline_and_follows_the_seed():
    with pytest.raises(dv.InputError, match=r"Learned\.few: only offline"):
        Learned("online", few=True)
    evidence, _ = halves(0, 2)
    with pytest.raises(dv.InputError, match=r"Learned\(few=True\): evidence\.population is needed"):
        Learned(few=True).score(dataclasses.replace(evidence, population=None))
    evidence, _ = halves(0, 3)
    scores, repeated, other_seed = (Learned(few=True, seed=seed).score(evidence) for seed in (0, 0, 1))
    np.testing.assert_array_equal(scores, repeated)
    assert not np.array_equal(scores, other_seed)


def test_probabilities_far_from_one_another_lose_no_digits():
    """Beside a probability of 1 in a model that does not count, a mean of 1e-20 once came out as 0."""
    evidence, _ = simulated(3, models=4, records=30, population=200)
    population_trained_on = evidence.population_trained_on
    offsets = np.where(population_trained_on, 45.0, -45.0)
    evidence = dataclasses.replace(evidence, population_references=evidence.population_references + offsets)
    evidence = dataclasses.replace(
        evidence, population=evidence.population - 45.0, references=evidence.references - 45.0
    )
    np.testing.assert_allclose(Learned(few=True).score(evidence), naive_few(evidence), atol=1e-6)
