"""Metrics beyond sums over rows, against scikit-learn and against every labelling of a few rows."""

import itertools
import math
import textwrap

import numpy as np
import pytest
from sklearn import metrics

import divulge as dv
from divulge import cli, labels
from divulge.labels import metrics as label_metrics

CODES = ("balanced_accuracy", "macro_f1", "mcc", "quadratic_weighted_kappa", "r2", "map_at_k", "mape", "rmsle")
ANY_CLASSES = ("macro_f1", "quadratic_weighted_kappa", "map_at_k")
IGNORE = (
    "ignore:y_pred contains classes",
    "ignore:A single label",
    "ignore:invalid value",
    "ignore:Mean of empty",
    "ignore:`y1`",
    "ignore:R",
)


def scikit_learn(name, y, p):
    functions = {
        "balanced_accuracy": metrics.balanced_accuracy_score,
        "macro_f1": lambda y, p: metrics.f1_score(y, p, average="macro", zero_division=0.0),
        "mcc": metrics.matthews_corrcoef,
        "quadratic_weighted_kappa": lambda y, p: metrics.cohen_kappa_score(y, p, weights="quadratic", labels=range(4)),
        "r2": metrics.r2_score,
        "mape": metrics.mean_absolute_percentage_error,
        "rmsle": metrics.root_mean_squared_log_error,
        "map_at_k": lambda y, p: np.mean(
            [sum((row == c) / (i + 1) for i, row in enumerate(r)) for r, c in zip(p, y, strict=True)]
        ),
    }
    return float(functions[name](y, p))


def labellings(n, classes):
    return [np.array(y) for y in itertools.product(range(classes), repeat=n)]


@pytest.mark.filterwarnings(*IGNORE)
@pytest.mark.parametrize("name", CODES)
def test_the_local_oracle_is_scikit_learns(name):
    rng = np.random.default_rng(CODES.index(name))
    for n, classes in itertools.product((2, 3, 17), (2, 4) if name in ANY_CLASSES else (2,)):
        spec = labels.OracleSpec(name, n=n, classes=classes)
        for _ in range(20):
            y, p = rng.integers(0, classes, n), rng.integers(0, classes, n)
            if name == "map_at_k":
                p = np.array([rng.permutation(classes)[:3] for _ in range(n)])
            if name in ("r2", "mape", "rmsle"):
                p = rng.normal(size=n) if name != "rmsle" else rng.exponential(size=n)
            result, expected = labels.LocalOracle(spec, y).exact(p), scikit_learn(name, y, p)
            assert result == pytest.approx(expected, rel=1e-9, abs=1e-12) or (
                math.isnan(result) and math.isnan(expected)
            )


@pytest.mark.filterwarnings(*IGNORE)
@pytest.mark.parametrize("decimals", [None, 2])
@pytest.mark.parametrize("name", CODES)
def test_what_is_proven_is_what_all_labellings_with_these_answers_share(name, decimals):
    """The naive oracle: scikit-learn scores every labelling of a few rows; those with the same answers are alike."""
    for n, classes in ((5, 2), (3, 3)):
        if classes > 2 and name not in ("quadratic_weighted_kappa", "map_at_k"):
            continue  # macro-F1 of more classes is searched, below
        try:
            spec = labels.OracleSpec(name, n=n, classes=classes, decimals=decimals)
            plan = labels.design(spec)
        except dv.InputError:
            assert decimals == 2
            continue
        every = labellings(n, classes)
        exact = np.array([[scikit_learn(name, y, q) for q in plan.queries] for y in every])
        has_both_labels = np.array([len(np.unique(y)) > 1 for y in every])
        all_answers = exact if decimals is None else np.round(exact, decimals)
        tolerance = spec.tolerance + 1e-11
        if plan.certificate.certified:
            added_up = exact[has_both_labels] ** (2 if name == "rmsle" else 1)  # the means that are certified
            distances = np.abs(added_up[:, None] - added_up[None]).max(axis=2)
            np.fill_diagonal(distances, math.inf)
            assert distances.min() >= plan.certificate.separation * (1 - 1e-9) > 2 * spec.tolerance
        for y, answers in zip(every, all_answers, strict=True):
            if not np.isfinite(answers).all():
                continue
            inference = labels.read(plan, answers)
            assert inference.contradiction is None, (y, str(inference.contradiction))
            consistent = [
                labelling for labelling, e in zip(every, exact, strict=True) if (np.abs(e - answers) <= tolerance).all()
            ]
            shared = np.array([len({int(labelling[i]) for labelling in consistent}) == 1 for i in range(n)])
            assert (shared | ~inference.determined).all(), (y, consistent)
            assert (inference.labels[inference.determined] == y[inference.determined]).all()
            if plan.certificate.certified and len(np.unique(y)) > 1:
                assert inference.determined.all()


def f2(y, p):
    right = int((y & p).sum())
    return 5 * right / max(4 * int(y.sum()) + int(p.sum()), 1)


def mean_cost(y, p):
    return float(np.mean(np.where(y == 1, 3.0 * (p == 0), 1.0 * (p == 1))))


@pytest.mark.parametrize("function", [f2, mean_cost])
@pytest.mark.parametrize("n", [2, 9, 40])
def test_a_metric_of_counts_is_read_by_evaluation(function, n):
    spec = labels.OracleSpec(labels.Evaluated(function, depends_on="counts"), n=n, decimals=6)
    plan = labels.design(spec)
    for seed in range(3):
        y = np.random.default_rng(seed).integers(0, 2, n)
        inference = labels.infer(lambda p, y=y: round(function(y, np.asarray(p)), 6), plan)
        assert inference.contradiction is None
        assert (inference.labels[inference.proven] == y[inference.proven]).all()
        assert inference.proven.all() or len(np.unique(y)) == 1


def test_a_metric_that_depends_on_more_than_counts_is_found_out():
    def first_label_only(y, p):
        return float(y[0] == p[0])

    with pytest.raises(dv.InputError, match="rows in another order"):
        labels.design(labels.OracleSpec(labels.Evaluated(first_label_only, depends_on="counts"), n=9))


@pytest.mark.parametrize("decimals", [None, 3, 1])
def test_a_search_proves_what_the_labellings_left_over_share(decimals):
    def weighted(y, p):
        return float((y * np.asarray(p) * np.arange(1, len(y) + 1)).sum() / len(y) + np.log1p(y.sum()))

    spec = labels.OracleSpec(weighted, n=6, submission="positive", decimals=decimals)
    plan = labels.design(spec)
    for y in labellings(6, 2)[::5]:
        queries = []

        def oracle(p, y=y, queries=queries):
            queries.append(np.asarray(p))
            value = weighted(y, p)
            return value if decimals is None else round(value, decimals)

        inference = labels.infer(oracle, plan, control=False)
        answers = [oracle(p) for p in queries[: inference.queries]]
        consistent = [
            labelling
            for labelling in labellings(6, 2)
            if all(
                abs(weighted(labelling, p) - a) <= spec.tolerance + 1e-9
                for p, a in zip(queries[: inference.queries], answers, strict=True)
            )
        ]
        shared = np.array([len({int(labelling[i]) for labelling in consistent}) == 1 for i in range(6)])
        assert (inference.determined == shared).all()
        assert (inference.labels[shared] == y[shared]).all()
        assert inference.contradiction is None


def test_a_search_reads_the_auc_and_macro_f1_of_three_classes():
    def auc(y, p):
        return metrics.roc_auc_score(y, p)

    def macro(y, p):
        intersections, either = (
            [((y == c) & (p == c)).sum() for c in range(3)],
            [(y == c).sum() + (p == c).sum() for c in range(3)],
        )
        return float(np.mean([2 * b / max(e, 1) for b, e in zip(intersections, either, strict=True)]))

    for function, classes, submission, n in (
        (auc, 2, "positive", 5),
        (macro, 3, "labels", 4),
        ("macro_f1", 3, "rows", 4),
    ):
        spec = labels.OracleSpec(function, n=n, classes=classes, submission=submission, decimals=5)
        y = np.random.default_rng(1).integers(0, classes, n)
        inference = labels.infer(labels.LocalOracle(spec, y), labels.design(spec))
        assert (inference.labels == y).all()
        assert inference.proven.all()
        assert inference.checked
        assert inference.complete


def test_where_no_code_is_known_it_says_so():
    with pytest.raises(dv.InputError, match="no code is known"):
        labels.design(labels.OracleSpec(f2, n=300, submission="labels"))
    with pytest.raises(dv.InputError, match="only the range is known"):
        labels.design(labels.OracleSpec(labels.KnownRange(0, 1), n=300, decimals=4))
    with pytest.raises(dv.InputError, match="the number of ones has to be read"):
        labels.design(labels.OracleSpec("r2", n=100, decimals=0))


@pytest.mark.parametrize(("low", "high", "decimals"), [(0, 1, 2), (-1, 1, 1), (0.004, 0.996, 2), (0.3, 0.31, 3)])
def test_no_more_answers_are_seen_than_are_counted(low, high, decimals):
    """Whichever way ties are rounded; and nearly as many are seen."""
    values = np.linspace(low, high, 200_001)
    answers = {round(float(v), decimals) for v in values} | {
        math.floor(v * 10**decimals + 0.5) / 10**decimals for v in values
    }
    n_answers = labels.distinct_answers(low, high, decimals)
    assert n_answers - 2 <= len({round(v * 10**decimals) for v in answers}) <= n_answers


def test_no_plan_of_ours_beats_the_information_bound():
    for name, low in (
        ("accuracy", 0),
        ("f1", 0),
        ("balanced_accuracy", 0),
        ("macro_f1", 0),
        ("mcc", -1),
        ("quadratic_weighted_kappa", -1),
    ):
        for decimals in (4, 6):
            bound = labels.information_bound(60, low=low, high=1, decimals=decimals)
            assert bound.labels_per_query == pytest.approx(math.log2((1 - low) * 10**decimals + 1))
            assert labels.design(labels.OracleSpec(name, n=60, decimals=decimals)).count >= bound.queries
    # One answer of two tells one label: the bound is met.
    assert labels.information_bound(10, low=0, high=1, decimals=0).queries == 10


def test_the_command_line_takes_a_function_and_a_range(tmp_path, monkeypatch, capsys):
    module = """
    import numpy as np
    def agreement(y, p):
        return float(np.mean(y == np.asarray(p)))
    """
    (tmp_path / "board_metric.py").write_text(textwrap.dedent(module))
    monkeypatch.chdir(tmp_path)
    assert (
        cli.run(["labels", "design", "--n", "8", "--metric", "board_metric:agreement", "--submission", "labels"]) == 0
    )
    assert "search" in capsys.readouterr().out
    assert cli.run(["labels", "capacity", "--n", "2201", "--metric", "0:1", "--decimals", "5"]) == 0
    assert "16.61 labels per query" in capsys.readouterr().out
    np.savetxt(tmp_path / "y.txt", np.array([0, 1, 1, 0, 1, 0]), fmt="%d")
    command = ["labels", "simulate", "y.txt", "--metric", "board_metric:agreement", "--submission", "labels"]
    assert cli.run(command) == 0, capsys.readouterr()
    assert "6/6 labels recovered" in capsys.readouterr().out


def test_degenerate_labels_are_not_proven_where_the_metric_cannot_tell():
    for value in (0, 1):
        spec = labels.OracleSpec("mcc", n=6)
        inference = labels.infer(labels.LocalOracle(spec, np.full(6, value)), labels.design(spec))
        assert not inference.proven.any()
    assert label_metrics.r_squared(np.zeros(3, dtype=int), np.zeros(3)) == 1.0


# Of each loss of two classes: the largest gap tried here, the loss's own span, and the size of what cancels near zero.
LOSSES = {
    "log loss": (labels.OracleSpec(n=2), 20.0, -math.log(2.0**-52), 0.0),
    "log loss of one column": (labels.OracleSpec(n=2, submission="positive"), 20.0, -math.log(2.0**-52), 0.0),
    "clipped log loss": (labels.OracleSpec(n=2, clip=1e-3), 6.0, math.log(999), 0.0),
    "brier": (labels.OracleSpec("squared_euclidean", n=2), 1.0, 1.0, 1.0),
    "brier of one column": (labels.OracleSpec("squared_euclidean", n=2, submission="positive"), 1.0, 1.0, 0.0),
    "mahalanobis": (labels.OracleSpec(labels.mahalanobis(3.0), n=2), 6.0, 6.0, 0.0),
    "mse": (labels.OracleSpec("mse", n=2), 9.0, math.inf, 0.0),
    "mae": (labels.OracleSpec("mae", n=2), 1.0, 1.0, 0.0),
    "mape": (labels.OracleSpec("mape", n=2), 1.0, 1.0, 0.0),
    "softmax": (labels.OracleSpec("softmax_cross_entropy", n=2), 30.0, math.inf, 2.0),  # the sum of two exponentials
    "sigmoid": (labels.OracleSpec("sigmoid_cross_entropy", n=2), 30.0, math.inf, 1.0),  # 1 + e^-z
    "itakura-saito": (labels.OracleSpec("itakura_saito", n=2), 30.0, math.inf, 1.0),  # 1/p - 1
    "norm-like, 2": (labels.OracleSpec(labels.norm_like(2.0), n=2), 2.0, 2.0, 2.0),
    "norm-like, 3.5": (labels.OracleSpec(labels.norm_like(3.5), n=2), 3.5, 3.5, 3.5),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("digit", [1, 2, 3])
def test_predictions_drive_both_labels_as_far_apart_as_they_are_asked_to(name, digit):
    """Loss(1) - loss(0) is the gap times the digit of class 1, of either sign; a column holds rows of any gaps."""
    spec, reach, span, scale = LOSSES[name]
    loss = spec.loss()
    assert loss.span == pytest.approx(span, rel=1e-3)
    assert loss.float_scale == scale
    assert loss.largest_gap(np.array([0, digit])) == pytest.approx(span / digit, rel=1e-3)
    gaps = np.linspace(-0.999, 0.999, 41) * min(reach, loss.two_sided) / digit
    predictions = loss.predict(gaps, np.array([0, digit]))
    assert predictions.shape == (len(gaps), *loss.shape)
    table = loss.table(predictions)
    assert table.shape == (len(gaps), 2)
    assert table.min() >= -1e-9
    np.testing.assert_allclose(table[:, 1] - table[:, 0], gaps * digit, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "spec",
    [
        labels.OracleSpec("r2", n=7, decimals=4),
        labels.OracleSpec("balanced_accuracy", n=7, decimals=4),
        labels.OracleSpec("mcc", n=7, decimals=4),
        labels.OracleSpec("quadratic_weighted_kappa", n=7, decimals=4),
        labels.OracleSpec("accuracy", n=7, decimals=4),
        labels.OracleSpec("f1", n=7, decimals=4),
        labels.OracleSpec("auc", n=7, decimals=4),
        labels.OracleSpec("mape", n=7, decimals=4),
        labels.OracleSpec("mse", n=7, decimals=4),
        labels.OracleSpec("mae", n=7, decimals=4),
        labels.OracleSpec(n=7, decimals=4),
    ],
    ids=lambda spec: spec.name,
)
def test_residuals_are_how_far_answers_lie_from_what_the_labels_imply(spec):
    """For R², of labels of both classes and of one."""
    plan, rng = labels.design(spec), np.random.default_rng(0)
    for y in (
        rng.permutation([0, 0, 0, 1, 1, 1, 1]),
        *([np.zeros(7, int), np.ones(7, int)] if spec.name == "r2" else []),
    ):
        exact = np.array([labels.LocalOracle(spec, y).exact(plan.queries[i]) for i in range(plan.count)])
        answers = exact + 0.9 * spec.rounding * rng.choice([-1, 1], plan.count)
        inference = plan.inner.read(answers)
        assert (inference.labels == y).all()
        assert not inference.refuted.any()
        has_count_query = spec.name in ("accuracy", "f1")  # whose first answer is taken for the nearest number of ones
        np.testing.assert_allclose(
            inference.residual[has_count_query:], np.abs(answers - exact)[has_count_query:], rtol=1e-3, atol=1e-9
        )
        for wrong in range(plan.count):
            off = answers.copy()
            off[wrong] += 0.4 * (exact[wrong] - 1.0) - 0.1234  # R² of zeros is -k/(n-k): this is none of them
            reading = plan.inner.read(off)
            assert reading.refuted.any() or not reading.proven.all() or (reading.labels != y).any()
