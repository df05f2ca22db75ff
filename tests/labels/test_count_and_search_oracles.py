"""Plans that count, and the search among all labellings, beside definitions written down again for a few rows."""

import itertools
import math

import numpy as np
import pytest

from divulge import InputError, labels
from divulge.labels import count_plans, search
from divulge.labels.oracles import draw_submission


def all_labellings(n, classes=2):
    return np.array(list(itertools.product(range(classes), repeat=n)))


def exact_scores(spec, plan, y):
    return np.array([labels.LocalOracle(spec, y).exact(plan.queries[i]) for i in range(plan.count)])


# --- how precise an answer has to be


# The largest error at which rows are counted together, n = 8: half a count of accuracy, half of what one more of n ones
# moves F1 (at least), half a pair of AUC, half a row of a list.
THRESHOLDS = {"accuracy": 1 / 16, "f1": 1 / 32, "auc": 1 / 256, "map_at_k": 1 / 16}


@pytest.mark.parametrize("metric", THRESHOLDS)
def test_counts_give_way_to_single_rows_from_the_error_that_hides_one_and_are_read_just_below(metric):
    threshold = THRESHOLDS[metric]
    classes = 3 if metric == "map_at_k" else 2
    for noise in (threshold, threshold * 1.01):
        spec = labels.OracleSpec(metric, n=8, classes=classes, noise=noise)
        if metric == "map_at_k":
            with pytest.raises(InputError, match=rf"no all-clear.*which need one below {threshold:.3g}"):
                labels.design(spec)
        else:
            assert labels.design(spec).method == "one row a query"
    spec = labels.OracleSpec(metric, n=8, classes=classes, noise=threshold * (1 - 1e-6))
    plan = labels.design(spec)
    assert plan.certificate.certified
    assert plan.certificate.separation == pytest.approx(2 * threshold, rel=1e-12)
    assert plan.certificate.needed == pytest.approx(2 * spec.noise, rel=1e-9)
    rng = np.random.default_rng(0)
    for y in rng.integers(0, classes, (20, 8)):
        if metric == "auc" and len(set(y.tolist())) == 1:
            continue
        answers = exact_scores(spec, plan, y) + spec.noise * rng.choice([-1, 1], plan.count)
        reading = plan.inner.read(answers)
        np.testing.assert_array_equal(reading.labels, y)
        assert reading.proven.all()
        assert not reading.refuted.any()


@pytest.mark.parametrize("metric", THRESHOLDS)
def test_rounding_counts_as_noise_does(metric):
    """Half of 0.1 is below 1/16 and above 1/32 and 1/256."""
    spec = labels.OracleSpec(metric, n=8, classes=3 if metric == "map_at_k" else 2, decimals=1)
    plan = labels.design(spec)
    assert (plan.method == "one row a query") == (metric in ("f1", "auc"))
    assert plan.certificate.needed == pytest.approx(0.1)


@pytest.mark.parametrize("metric", ["f1", "auc", "map_at_k", "r2", "mcc"])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_without_a_bound_is_said_by_name(metric, kind):
    spec = labels.OracleSpec(metric, n=8, noise=1e-6, noise_kind=kind)
    plans = {
        "map_at_k": count_plans.plan_top_ranks,
        "mcc": count_plans.plan_ratio,
        "r2": lambda spec: count_plans.plan_r_squared(spec, labels.design),
    }
    with pytest.raises(InputError, match=f"no code known here reads {metric} under {kind} noise"):
        plans.get(metric, count_plans.plan_counts)(spec)


@pytest.mark.parametrize(
    ("metric", "classes", "n"),
    [
        ("accuracy", 2, 5), ("f1", 2, 5), ("auc", 2, 5), ("map_at_k", 3, 4), ("balanced_accuracy", 2, 5), ("mcc", 2, 5),
        ("r2", 2, 5), ("mcc", 2, 2), ("balanced_accuracy", 2, 3),
    ],
)  # fmt: skip
def test_no_two_labellings_give_answers_closer_than_a_certificate_says(metric, classes, n):
    spec = labels.OracleSpec(metric, n=n, classes=classes)
    plan = labels.design(spec)
    every = all_labellings(n, classes)
    if metric not in ("accuracy", "f1", "map_at_k"):  # defined, or certified, for both classes only
        every = every[(every.min(axis=1) == 0) & (every.max(axis=1) == 1)]
    exact = np.array([exact_scores(spec, plan, y) for y in every])
    apart = min(np.abs(a - b).max() for a, b in itertools.combinations(exact, 2))
    assert plan.certificate.certified
    assert plan.certificate.needed < plan.certificate.separation <= apart + 1e-9


@pytest.mark.parametrize("metric", ["balanced_accuracy", "mcc"])
def test_a_ratio_is_refused_only_where_the_largest_step_of_one_label_is_hidden(metric):
    """The step is ``score(one more right) - score``, over all totals and all sizes of a query's set, 5 rows."""
    n = 5
    exact = labels.OracleSpec(metric, n=n)
    inner = labels.design(exact).inner
    sizes = {1, *(int(inner.query(i).sum()) for i in range(1, 1 + len(inner.slots)))} - {0, n}
    steps = []
    for size, ones in itertools.product(sizes, range(1, n)):
        p = (np.arange(n) < size).astype(int)
        scores = [
            labels.LocalOracle(exact, np.array(y)).exact(p)
            for y in sorted((y for y in itertools.product((0, 1), repeat=n) if sum(y) == ones), key=lambda y: y[:size])
        ]
        steps.append(np.diff(np.unique(np.round(scores, 12))).max())
    largest = max(steps)
    with pytest.raises(InputError, match=f"which need one below {largest / 2:.3g};"):
        labels.design(labels.OracleSpec(metric, n=n, noise=largest / 2))
    certificate = labels.design(labels.OracleSpec(metric, n=n, noise=largest / 2 * (1 - 1e-9))).certificate
    assert not certificate.certified
    assert "what is proven follows from the answers" in certificate.why


@pytest.mark.parametrize(("classes", "n", "is_refused"), [(3, 10_000, False), (3, 10_001, True), (5, 5_001, True)])
def test_more_classes_are_read_up_to_a_sum_of_labels(classes, n, is_refused, monkeypatch):
    spec = labels.OracleSpec("quadratic_weighted_kappa", n=n, classes=classes)
    monkeypatch.setattr(count_plans.codes, "build_code", lambda *args, **kwargs: pytest.fail("was built"))
    if is_refused:
        with pytest.raises(InputError, match=f"for {classes} classes at most {20_000 // (classes - 1)} rows, got {n}"):
            count_plans.plan_ratio(spec)
    else:
        with pytest.raises(pytest.fail.Exception, match="was built"):
            count_plans.plan_ratio(spec)


@pytest.mark.parametrize("n", [6])
def test_r_squared_is_asked_a_second_number_where_zeros_hide_the_number_of_ones(n):
    # Zeros everywhere score 1 - Σy² / Σ(y - mean)², which is -k/(n - k) for k ones; 1 and 0 where all labels are alike.
    scores = sorted([1.0, 0.0, *(1 - n / (n - ones) for ones in range(1, n))])
    half_gap = min(b - a for a, b in itertools.pairwise(scores)) / 2
    for noise in (half_gap / 2, half_gap, 0.3):
        spec = labels.OracleSpec("r2", n=n, noise=noise)
        plan = labels.design(spec)
        assert len(plan.inner.constants) == 1 + (noise >= half_gap)
        for y in all_labellings(n):
            simulation = labels.simulate(spec, y, plan)
            assert simulation.accuracy == 1.0
            assert simulation.inference.determined.all()
    with pytest.raises(InputError, match=r"no all-clear.*number of ones has to be read first"):
        labels.design(labels.OracleSpec("r2", n=n, noise=0.5))


# --- the search among all labellings


def weighted_hits(y, p):
    return float(((np.arange(len(y)) + 1) ** 1.5 * (np.asarray(p) == y)).sum() / 50)


def undefined_for_one_class(y, p):
    if len(set(np.asarray(y).tolist())) == 1:
        raise ValueError
    return float(np.mean(np.asarray(p) == y))


def evaluated(function, n, classes=2, **changes):
    return labels.OracleSpec(labels.Evaluated(function), n=n, classes=classes, submission="labels", **changes)


@pytest.mark.parametrize(("n", "classes", "fits"), [(12, 2, True), (13, 2, False), (6, 4, True), (7, 4, False)])
def test_at_most_4096_labellings_are_searched(n, classes, fits):
    spec = evaluated(weighted_hits, n, classes)
    if not fits:
        with pytest.raises(InputError, match=f"{n} rows of {classes} classes have more labellings .*4096"):
            search.plan_search(spec)
        return
    plan = search.plan_search(spec)
    assert plan.method == "search"
    assert plan.count == 2 * math.ceil(n * math.log2(classes)) + 4


def test_what_cannot_be_searched_is_refused_and_what_is_promised():
    for changes in ({"noise": 0.1, "noise_kind": "gaussian"}, {"scored": 3}, {"scored": "unknown"}):
        with pytest.raises(InputError, match="attacked under bounded noise and without a split only"):
            search.plan_search(evaluated(weighted_hits, 4, **changes))
    certificate = search.plan_search(evaluated(weighted_hits, 4, noise=0.01, decimals=2)).certificate
    assert (certificate.certified, certificate.separation, certificate.needed) == (False, 0.0, pytest.approx(0.03))
    assert "follows from the answers" in certificate.why


def naive_choice(spec, alive, index, generator):
    """Of 8 random submissions, the first with the fewest labellings left on average; four rounds."""
    compared = alive
    if len(alive) > 100:
        compared = alive[generator(index, -1).permutation(len(alive))[:100]]
    for attempt in range(4):
        rng = generator(index, attempt)
        drawn = [draw_submission(spec, rng) for _ in range(8)]
        left = []
        for submission in drawn:
            values = [spec.metric(y, submission) for y in compared]
            defined = [v for v in values if not math.isnan(v)]
            reach = 2 * spec.tolerance + 1e-12 * max([1.0, *(abs(v) for v in defined)])
            close = (np.abs(np.subtract.outer(defined, defined)) <= reach).sum()
            left.append(close / len(compared) + len(values) - len(defined))
        best = min(range(8), key=lambda i: left[i])
        if left[best] < len(compared):
            return drawn[best]
    return None


@pytest.mark.parametrize(
    ("function", "n", "classes"), [(weighted_hits, 4, 2), (undefined_for_one_class, 4, 2), (weighted_hits, 3, 3),
                                   (weighted_hits, 7, 2)],
)  # fmt: skip
@pytest.mark.parametrize("size", [0.0, 0.9, 1.8, 8.0])
def test_each_query_and_reading_of_the_search_is_that_of_its_definition(function, n, classes, size):
    spec = evaluated(function, n, classes, noise=0.004, decimals=3)
    every = all_labellings(n, classes)
    rng = np.random.default_rng([n, int(10 * size)])
    for y in every[rng.permutation(len(every))[: 3 if n < 7 else 1]]:
        plan = search.plan_search(spec).inner
        answers, queries = np.full(plan.count, np.nan), []
        for index in range(plan.count):
            alive = every
            for query, answer in zip(queries, answers, strict=False):
                values = np.array([spec.metric(labelling, query) for labelling in alive])
                alive = alive[np.abs(values - answer) <= 0.0005 + 0.004 + 1e-12]
            query = plan.query_after(index, answers)
            expected = naive_choice(spec, alive, index, plan._generator) if len(alive) > 1 else None
            assert (query is None) == (expected is None)
            if query is None:
                break
            np.testing.assert_array_equal(query, expected)
            queries.append(query)
            exact = spec.metric(y, query)
            answers[index] = np.round((0.0 if math.isnan(exact) else exact) + size * 0.004 * rng.choice([-1, 1]), 3)
        reading = plan.read(answers)
        values = np.array([[spec.metric(labelling, query) for query in queries] for labelling in every])
        off = np.abs(values - answers[: len(queries)])
        possible = [every[(off <= 0.0005 + times * 0.004 + 1e-12).all(axis=1)] for times in (1, 2)]
        np.testing.assert_array_equal(reading.labels, possible[0][0] if len(possible[0]) else every[0])
        for told, left in ((reading.proven, possible[0]), (reading.certain, possible[1])):
            expected = [len(left) > 0 and all(row[i] == reading.labels[i] for row in left) for i in range(n)]
            np.testing.assert_array_equal(told, expected)
        row = int(np.flatnonzero((every == reading.labels).all(axis=1))[0])
        np.testing.assert_allclose(reading.residual[: len(queries)], off[row], atol=1e-12)
        assert np.isnan(reading.residual[len(queries) :]).all()
        np.testing.assert_array_equal(reading.refuted, ~np.isnan(answers) & (len(possible[0]) == 0))


def test_the_search_reads_up_to_the_first_answer_that_is_missing():
    spec = evaluated(weighted_hits, 4)
    plan = search.plan_search(spec).inner
    y = np.array([1, 0, 0, 1])
    answers = np.full(plan.count, np.nan)
    answers[0] = weighted_hits(y, plan.query_after(0, answers))
    whole = plan.read(answers)
    answers[2] = 0.123
    gap = plan.read(answers)
    np.testing.assert_array_equal(gap.proven, whole.proven)
    np.testing.assert_array_equal(gap.labels, whole.labels)
    nothing = plan.read(np.full(plan.count, np.nan))
    assert not nothing.proven.any()
    assert not nothing.refuted.any()
    assert np.isnan(nothing.residual).all()


def test_answers_are_held_against_values_to_a_millionth_of_a_millionth_of_their_size():
    large = search.plan_search(evaluated(lambda y, p: 1e6 * float((np.asarray(p) == y).sum()), 2)).inner
    answers = np.full(large.count, np.nan)
    answers[0] = 1e6 * float((large.query_after(0, answers) == np.array([1, 0])).sum())
    for off, fits in ((0.0, True), (0.9e-6, True), (-0.9e-6, True), (1.3e-6, False)):
        told = large.read(np.r_[answers[0] + off, answers[1:]])
        assert told.refuted[0] == (not fits)
