"""Recommended defences against our own attacks, and against one that is told all labels but one."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

import divulge as dv
from divulge import labels
from divulge.labels import defences


def accuracy(spec, plan, runs=12):
    rights = []
    for seed in range(runs):
        y = np.random.default_rng(seed).integers(0, 2, spec.n)
        rights.append(labels.simulate(spec, y, plan, seed=seed).accuracy)
    return float(np.mean(rights)), 3 * math.sqrt(0.25 / (spec.n * runs))


def test_the_recommended_noise_stops_our_attack_and_a_third_of_it_does_not():
    # Chance that sampling error alone fails this test: three standard errors either way, about 0.3 %.
    start = labels.OracleSpec(n=300)
    defence = labels.defend(start, queries=100, accuracy=0.6)
    for factor, holds in ((1.0, True), (1 / 3, False)):
        spec = labels.OracleSpec(n=300, noise=defence.noise * factor, noise_kind="gaussian")
        reached, slack = accuracy(spec, labels.design(spec, queries=100))
        assert (reached <= 0.6 + slack) == holds


def test_the_recommended_clip_stops_our_attack_and_a_weaker_one_does_not():
    noisy = labels.OracleSpec(n=300, noise=0.05, noise_kind="gaussian")
    defence = labels.defend(noisy, queries=100, accuracy=0.6)
    for clip, holds in ((defence.clip, True), (defence.clip / 20, False)):
        spec = labels.OracleSpec(n=300, noise=0.05, noise_kind="gaussian", clip=clip)
        reached, slack = accuracy(spec, labels.design(spec, queries=100))
        assert (reached <= 0.6 + slack) == holds


def test_the_recommended_cap_stops_our_attack_and_ten_times_it_does_not():
    spec = labels.OracleSpec(n=100, noise=3.0, noise_kind="gaussian")
    cap = labels.defend(spec, accuracy=0.6).query_cap
    assert cap >= 1
    for queries, holds in ((cap, True), (10 * cap, False)):
        reached, slack = accuracy(spec, labels.design(spec, queries=queries), runs=6)
        assert (reached <= 0.6 + slack) == holds


def test_the_cap_under_rounding_stops_our_attack_and_the_whole_plan_does_not():
    spec = labels.OracleSpec(n=300, decimals=2, clip=1e-3)
    cap = labels.defend(spec, accuracy=0.7).query_cap
    plan = labels.design(spec)
    reached = []
    for seed in range(12):
        y = np.random.default_rng(seed).integers(0, 2, 300)
        answers = np.array([labels.LocalOracle(spec, y)(q) for q in plan.queries])
        assert (labels.read(plan, answers).labels == y).all()
        answers[cap:] = np.nan
        reached.append((labels.read(plan, answers).labels == y).mean())
    assert np.mean(reached) <= 0.7 + 3 * math.sqrt(0.25 / 3600)


def test_the_recommended_epsilon_stops_our_attack_and_twice_of_it_does_not():
    # Randomised response with budget epsilon keeps a label with probability e^eps / (1 + e^eps); answers are exact.
    defence = labels.defend(labels.OracleSpec(n=2000), accuracy=0.6)
    spec = labels.OracleSpec(n=2000)
    plan = labels.design(spec)
    for epsilon, holds in ((defence.epsilon, True), (2 * defence.epsilon, False)):
        rights = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            y = rng.integers(0, 2, 2000)
            reported = np.where(rng.random(2000) < math.exp(epsilon) / (1 + math.exp(epsilon)), y, 1 - y)
            rights.append((labels.simulate(spec, reported, plan).inference.labels == y).mean())
        assert (np.mean(rights) <= 0.6 + 3 * math.sqrt(0.25 / 10_000)) == holds


@pytest.mark.parametrize(("n", "clip", "queries", "decimals"), [(16, 1e-6, 2, 1), (12, 0.05, 4, 0)])
def test_the_recommended_decimals_stop_our_attack_and_one_more_does_not(n, clip, queries, decimals):
    # The promise is proven for balanced labels on average; three standard errors are allowed, as above.
    start = labels.OracleSpec(n=n, clip=clip)
    assert labels.defend(start, queries=queries, accuracy=0.99).decimals == decimals
    assert rounded(labels.OracleSpec(n=n, clip=clip, decimals=decimals), queries) <= 0.99 + 3 * math.sqrt(
        0.01 / (40 * n)
    )
    assert rounded(labels.OracleSpec(n=n, clip=clip, decimals=decimals + 1), queries) == 1.0


@pytest.mark.parametrize(("n", "decimals", "queries"), [(16, 1, 3), (12, 0, 4)])
def test_the_recommended_clip_beside_rounding_stops_our_attack_and_a_weaker_one_does_not(n, decimals, queries):
    start = labels.OracleSpec(n=n, decimals=decimals)
    clip = labels.defend(start, queries=queries, accuracy=0.99).clip
    assert 1e-3 < clip < 0.1
    assert rounded(replace(start, clip=clip), queries) <= 0.99 + 3 * math.sqrt(0.01 / (40 * n))
    assert rounded(replace(start, clip=1e-15), queries) == 1.0


def rounded(spec, queries):
    """Accuracy of the best attack on an oracle that rounds."""
    # Rounding as if it were noise: the attack that is left where no label can be read for certain.
    plans = [labels.design(replace(spec, noise=1e-9, noise_kind="gaussian"), queries=queries)]
    if spec.tolerance < labels.capacity(spec).threshold:
        plans.append(labels.design(spec))
    return max(capped(spec, plan, queries) for plan in plans)


def capped(spec, plan, queries, runs=40):
    """Mean accuracy of a plan whose first ``queries`` queries are answered, against the rounding oracle."""
    rights = []
    for seed in range(runs):
        y = np.random.default_rng(seed).integers(0, 2, spec.n)
        oracle = labels.LocalOracle(spec, y)
        answers = np.full(plan.count, np.nan)
        for index in range(min(queries, plan.count)):
            answers[index] = oracle(plan.queries[index])
        rights.append((labels.read(plan, answers).labels == y).mean())
    return float(np.mean(rights))


def test_a_step_beyond_one_label_s_share_protects_no_label():
    # R/n is 0.0069, less than the step of 0.01; yet ln 2 lies so near an edge that a single label shows.
    n = 5000
    spec = labels.OracleSpec(n=n, clip=1e-15, decimals=2)
    assert spec.loss().span / n < 10.0**-spec.decimals
    query = np.full((n, 2), 0.5)
    query[0] = 1 - 1e-15, 1e-15
    answers = {labels.LocalOracle(spec, np.eye(1, n, dtype=int)[0] * label)(query) for label in (0, 1)}
    assert len(answers) == 2


def test_rounding_that_would_have_to_be_coarser_than_a_unit_is_not_recommended():
    assert labels.defend(labels.OracleSpec(n=100)).decimals is None
    for n, expected in ((1_000_000, 15), (20_000, 2)):
        spec, decimals = labels.OracleSpec(n=n), labels.defend(labels.OracleSpec(n=n), queries=10).decimals
        bits = n * (1 + 0.55 * math.log2(0.55) + 0.45 * math.log2(0.45))
        assert decimals == expected
        assert 10 * math.log2(2 + spec.loss().span * 10.0**decimals) <= bits


def test_an_oracle_on_logits_cannot_be_defended_by_noise():
    advice = labels.defend(labels.OracleSpec(metric="softmax_cross_entropy", n=100))
    assert advice.noise is None
    assert "no bound" in advice.advice[0]


def test_the_ladder_is_no_better_than_rounding():
    spec = labels.OracleSpec(n=40, clip=1e-15)
    y = np.random.default_rng(0).integers(0, 2, 40)
    ladder = labels.Ladder(labels.LocalOracle(spec, y), step=1e-3)
    worst = np.where(y[:, None] == np.arange(2), 1e-15, 1.0)
    previous = ladder(worst)
    for _ in range(3):
        # One row put right at a time lowers the score by R/n, far more than the step: each is seen.
        row = int(np.flatnonzero(worst[np.arange(40), y] < 0.5)[0])
        worst[row] = worst[row, ::-1]
        score = ladder(worst)
        assert score < previous
        previous = score


@pytest.mark.parametrize(("arguments", "message"), [({"queries": 0}, "queries"), ({"accuracy": 0.5}, "accuracy")])
def test_bad_demands_on_a_defence(arguments, message):
    with pytest.raises(dv.InputError, match=message):
        labels.defend(labels.OracleSpec(n=5), **arguments)


SPECS = {
    "scikit-learn": {},
    "leaderboard": {"clip": 1e-15, "decimals": 5},
    "unclipped": {"clip": None},
    "clipped": {"clip": 0.05},
    "noisy": {"noise": 0.01, "noise_kind": "gaussian"},
    "laplace": {"noise": 3.0, "noise_kind": "laplace"},
    "bounded noise": {"noise": 0.01},
    "one column": {"submission": "positive"},
    "sum": {"reduction": "sum"},
    "weighted": {"class_weight": (1.0, 3.0)},
    "three classes": {"classes": 3},
    "brier": {"metric": "squared_euclidean"},
    "itakura-saito": {"metric": "itakura_saito"},
    "mse": {"metric": "mse"},
    "rmse": {"metric": "rmse"},
    "softmax": {"metric": "softmax_cross_entropy", "classes": 3},
    "sigmoid": {"metric": "sigmoid_cross_entropy"},
    "accuracy": {"metric": "accuracy"},
    "auc": {"metric": "auc"},
    "hinge": {"metric": labels.Linear(lambda t, y: np.maximum(0, 1 - (2 * y - 1) * t), -1.0, 3.0, "hinge")},
}


@functools.cache  # the cost of each remedy is simulated, which takes longer than the rest
def defence(name, n=60, queries=20, accuracy=0.7):
    return labels.defend(labels.OracleSpec(n=n, **SPECS[name]), queries, accuracy)


def scored(spec, y, rows):
    """Scores of predictions for every labelling in ``y``, ``[m]``."""
    return np.array(
        [labels.LocalOracle(replace(spec, noise=0.0, decimals=None), labelling).exact(rows) for labelling in y]
    )


def surest(spec, row):
    """Predictions that show the label of one row as well as any can."""
    if spec.name in ("accuracy", "f1", "auc"):
        return (np.arange(spec.n) == row).astype(float)
    loss = spec.loss()
    gaps = np.zeros(spec.n)
    gaps[row] = loss.largest_gap(np.arange(spec.classes)) if math.isfinite(loss.span) else 1.0
    return loss.predict(gaps, np.arange(spec.classes))


@pytest.mark.parametrize("name", SPECS)
def test_who_is_told_all_other_labels_stays_below_the_promised_accuracy_under_noise(name):
    # No attack on noisy scores does better; the chance of failing is that of four standard errors.
    n, queries, accuracy, runs = 60, 20, 0.7, 4000
    rng = np.random.default_rng(0)
    for remedy in defence(name, n, queries, accuracy).remedies:
        spec = remedy.spec
        if spec.noise_kind == "bounded" or remedy.flip:
            continue
        right = []
        for _ in range(8):
            y = rng.integers(0, spec.classes, n)
            worlds = np.tile(y, (spec.classes, 1))
            worlds[:, 0] = np.arange(spec.classes)
            exact = scored(spec, worlds, surest(spec, 0))
            truth = rng.integers(0, spec.classes, runs // 8)
            draw = rng.normal if spec.noise_kind == "gaussian" else rng.laplace
            noise = draw(0, spec.noise, (len(truth), min(remedy.queries, queries))).mean(axis=1)
            guess = np.abs(exact[truth][:, None] + noise[:, None] - exact[None]).argmin(axis=1)
            right.append(guess == truth)
        assert np.mean(right) <= accuracy + 4 * math.sqrt(0.25 / runs)


@pytest.mark.parametrize("name", ["scikit-learn", "brier", "accuracy", "sum", "three classes"])
def test_half_of_the_recommended_noise_is_too_little(name):
    advice = defence(name)
    spec = replace(advice.remedies[0].spec, noise=advice.remedies[0].spec.noise / 2)
    assert defences.max_accuracy(advice.remedies[0].spec, 20) <= 0.7
    assert defences.max_accuracy(spec, 20) > 0.7
    rng = np.random.default_rng(0)
    exact = scored(spec, np.stack([np.zeros(60, int), np.eye(1, 60, dtype=int)[0]]), surest(spec, 0))
    noise = rng.normal(0, spec.noise, (4000, 20)).mean(axis=1)
    assert np.mean(np.abs(noise) < abs(exact[1] - exact[0]) / 2) / 2 + 0.5 > 0.5
    if spec.classes == 2:
        truth = rng.integers(0, 2, 4000)
        guess = np.abs(exact[truth][:, None] + noise[:, None] - exact[None]).argmin(axis=1)
        assert (guess == truth).mean() > 0.75


@pytest.mark.parametrize("name", SPECS)
def test_our_own_attacks_stay_below_the_promised_accuracy_whatever_is_recommended(name):
    # Chance that sampling error alone fails this: four standard errors.
    n, queries, accuracy, runs = 60, 20, 0.7, 4
    for remedy in defence(name, n, queries, accuracy).remedies:
        reached = max(attacks(remedy, queries, runs), default=0.0)
        assert reached <= accuracy + 4 * math.sqrt(0.25 / (n * runs)), remedy.says


def attacks(remedy, queries, runs):
    """Mean accuracy of every attack we have on the defended oracle."""
    spec, allowed = remedy.spec, queries if remedy.queries is None else min(queries, remedy.queries)
    plans = [replace(spec, noise=1e-9, noise_kind="gaussian"), replace(spec, noise=0.0, noise_kind="bounded"), spec]
    for attack_plan in plans:
        try:
            plan = (
                labels.design(attack_plan, queries=allowed)
                if attack_plan.noise_kind == "gaussian"
                else labels.design(attack_plan)
            )
        except dv.InputError:
            continue  # nothing leaks for certain: no plan
        yield np.mean([answered(remedy, plan, allowed, seed) for seed in range(runs)])


def answered(remedy, plan, allowed, seed):
    """Share of true labels that a plan reads from the answers it is allowed."""
    rng = np.random.default_rng(seed)
    spec = remedy.spec
    truth = rng.integers(0, spec.classes, spec.n)
    randomised = truth.copy()
    if remedy.flip:
        # Any number of queries: all that the attacker could ever learn is what the labels were replaced by.
        replaced = rng.random(spec.n) < remedy.flip
        randomised[replaced] = (truth[replaced] + rng.integers(1, spec.classes, replaced.sum())) % spec.classes
        allowed = plan.count
    oracle = labels.LocalOracle(spec, randomised, seed)
    answers = np.full(plan.count, np.nan)
    for index in range(min(allowed, plan.count)):
        answers[index] = oracle(plan.queries[index])
    return (plan.inner.read(answers).labels == truth).mean()


@pytest.mark.parametrize(
    ("name", "n", "queries", "accuracy"),
    [
        *((name, 60, 20, 0.7) for name in SPECS),
        *((name, 200_001, 1, 0.9) for name in ("scikit-learn", "leaderboard", "three classes", "auc")),
        *((name, 400, 500, 0.6) for name in ("noisy", "accuracy")),
    ],
)
def test_all_that_is_recommended_suffices_by_itself_and_nothing_is_said_twice(name, n, queries, accuracy):
    advice = defence(name, n, queries, accuracy)
    for remedy in advice.remedies:
        if remedy.flip:
            assert 1 - remedy.flip <= accuracy
        else:
            assert defences.max_accuracy(remedy.spec, remedy.queries) <= accuracy, remedy.says
    assert len(set(advice.advice)) == len(advice.advice) >= 1
    spec = labels.OracleSpec(n=n, **SPECS[name])
    settings = {
        "noise": {"noise": advice.noise, "noise_kind": "gaussian"},
        "decimals": {"decimals": advice.decimals},
        "clip": {"clip": advice.clip},
    }
    for setting, changes in settings.items():
        if getattr(advice, setting) is not None:
            assert defences.max_accuracy(replace(spec, **changes), queries) <= accuracy + 1e-9
    if advice.query_cap is not None:
        within, beyond = (defences.max_accuracy(spec, cap) for cap in (advice.query_cap, advice.query_cap + 1))
        assert within <= accuracy < beyond or advice.query_cap >= 2**39


@pytest.mark.parametrize("name", ["unclipped", "softmax", "sigmoid", "mse", "itakura-saito"])
def test_no_noise_is_recommended_where_one_label_can_do_anything(name):
    advice = labels.defend(labels.OracleSpec(n=300, **SPECS[name]))
    assert advice.noise is None
    assert advice.decimals is None
    assert all(math.isfinite(defences.max_label_effect(remedy.spec)) for remedy in advice.remedies if not remedy.flip)
    # A single sure prediction that is wrong makes the answer infinite, whatever noise is added.
    if name == "unclipped":
        rows = np.full((300, 2), 0.5)
        rows[7] = 1.0, 0.0
        y = np.zeros(300, dtype=int)
        spec = labels.OracleSpec(n=300, clip=None, noise=advice.noise or 12.8, noise_kind="gaussian")
        assert math.isfinite(labels.LocalOracle(spec, y)(rows))
        y[7] = 1
        assert labels.LocalOracle(spec, y)(rows) == math.inf


def test_a_number_of_queries_against_an_unbounded_loss_is_refused():
    spec = labels.OracleSpec(metric="softmax_cross_entropy", n=30, noise=1.0, noise_kind="gaussian")
    with pytest.raises(dv.InputError, match="queries: softmax_cross_entropy has no bound"):
        labels.design(spec, queries=10)


def test_a_defended_oracle_needs_nothing_more():
    remedy = labels.defend(labels.OracleSpec(n=3000), 100, 0.6).remedies[0]
    repeat = labels.defend(remedy.spec, 100, 0.6)
    (advice,) = repeat.advice
    assert advice.startswith("nothing more is needed: 100 scores reveal no more as it is (Kendall's τ")


def test_laplace_noise_of_equal_spread_protects_less_than_gaussian():
    gaussian = labels.OracleSpec(n=100, noise=math.sqrt(2), noise_kind="gaussian")
    laplace = labels.OracleSpec(n=100, noise=1.0, noise_kind="laplace")
    assert laplace.sigma == pytest.approx(gaussian.sigma)
    assert defences.max_accuracy(laplace, 50) > defences.max_accuracy(gaussian, 50)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "auc"])
def test_one_label_moves_a_ratio_no_further_than_is_said(metric):
    rng = np.random.default_rng(0)
    spec = labels.OracleSpec(metric=metric, n=41)
    for _ in range(300):
        y = rng.permutation(np.arange(41) < rng.integers(12, 30)).astype(int)
        rows = rng.random(41) if metric == "auc" else (rng.random(41) < rng.random()).astype(float)
        turned = y.copy()
        turned[0] = 1 - y[0]
        if metric != "accuracy" and rng.random() < 0.5:
            rows = (np.arange(41) == 0).astype(float)
        a, b = scored(spec, [y, turned], rows)
        assert abs(a - b) <= defences.max_label_effect(spec) + 1e-12


@pytest.mark.parametrize("classes", [2, 5])
def test_epsilon_is_that_of_randomised_response_with_this_accuracy(classes):
    advice = labels.defend(labels.OracleSpec(n=50, classes=classes, clip=0.01), accuracy=0.7)
    assert math.exp(advice.epsilon) / (math.exp(advice.epsilon) + classes - 1) == pytest.approx(0.7)


def test_the_clip_that_is_advised_costs_hardly_any_score():
    advice = labels.defend(labels.OracleSpec(n=2201), queries=100, accuracy=0.55)
    assert advice.advice[0].startswith("clip predictions into [0.01, 0.99] and add Gaussian noise")
