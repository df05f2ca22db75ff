"""Accuracy, F1, AUC; stochastic noise; models that carry a query."""

import itertools

import numpy as np
import pytest

import divulge as dv
from divulge import labels
from divulge.labels import stochastic


@pytest.mark.parametrize("metric", ["accuracy", "f1", "auc"])
@pytest.mark.parametrize("n", [2, 3, 7, 60, 203])
def test_counts_give_the_labels_away(metric, n):
    spec = labels.OracleSpec(metric=metric, n=n)
    plan = labels.design(spec)
    for seed in range(3):
        y = np.random.default_rng(seed).integers(0, 2, n)
        y[:2] = 0, 1
        simulation = labels.simulate(spec, y, plan)
        assert simulation.accuracy == 1.0
        assert simulation.inference.certain.all()


@pytest.mark.parametrize("metric", ["accuracy", "f1", "auc"])
def test_scikit_learn_counts_the_same(metric):
    spec = labels.OracleSpec(metric=metric, n=30)
    y = np.random.default_rng(0).integers(0, 2, 30)
    assert (labels.infer(labels.ScikitLearn(spec, y), labels.design(spec)).labels == y).all()


@pytest.mark.parametrize("y", [np.zeros(20, dtype=int), np.ones(20, dtype=int)])
@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_a_single_class_is_counted_too(metric, y):
    spec = labels.OracleSpec(metric=metric, n=20)
    assert labels.simulate(spec, y).accuracy == 1.0


@pytest.mark.parametrize(("metric", "max_queries"), [("accuracy", 512), ("f1", 512), ("auc", 324)])
def test_titanic_by_counts(metric, max_queries, titanic):
    spec = labels.OracleSpec(metric=metric, n=2201)
    plan = labels.design(spec)
    assert plan.count <= max_queries
    assert labels.simulate(spec, titanic, plan).accuracy == 1.0


def test_accuracy_with_noise_at_twice_the_bound_is_never_certain_and_wrong():
    spec = labels.OracleSpec(metric="accuracy", n=60, noise=0.006)
    plan = labels.design(spec)
    for seed in range(20):
        y = np.random.default_rng(seed).integers(0, 2, 60)
        loud = labels.OracleSpec(metric="accuracy", n=60, noise=0.012)
        inference = labels.infer(labels.LocalOracle(loud, y, seed), plan)
        assert not (inference.certain & (inference.labels != y)).any()
        assert labels.simulate(spec, y, plan, seed=seed).accuracy == 1.0


def test_rounding_that_hides_a_count_is_said():
    with pytest.raises(dv.InputError, match="so this is no all-clear"):
        labels.design(labels.OracleSpec(metric="accuracy", n=1000, decimals=1))


@pytest.mark.parametrize("noise_kind", ["gaussian", "laplace"])
def test_small_stochastic_noise_is_read_with_integer_codes(noise_kind):
    spec = labels.OracleSpec(n=200, noise=1e-4, noise_kind=noise_kind)
    plan = labels.design(spec)
    assert plan.method == "dense"
    assert not plan.certificate.certified
    for seed in range(5):
        y = np.random.default_rng(seed).integers(0, 2, 200)
        assert labels.simulate(spec, y, plan, seed=seed).accuracy == 1.0


def test_large_gaussian_noise_is_read_by_message_passing():
    spec = labels.OracleSpec(n=300, noise=0.1, noise_kind="gaussian")
    plan = labels.design(spec)
    assert plan.method == "signs"
    for seed in range(3):
        y = np.random.default_rng(seed).integers(0, 2, 300)
        simulation = labels.simulate(spec, y, plan, seed=seed)
        assert simulation.accuracy == 1.0
        assert simulation.certain_and_wrong == 0


def test_twice_the_declared_deviation_makes_no_wrong_label_certain():
    spec = labels.OracleSpec(n=300, noise=0.1, noise_kind="gaussian")
    loud = labels.OracleSpec(n=300, noise=0.2, noise_kind="gaussian")
    for plan in (labels.design(spec), labels.design(spec, queries=120)):
        for seed in range(4):
            y = np.random.default_rng(seed).integers(0, 2, 300)
            inference = labels.infer(labels.LocalOracle(loud, y, seed), plan)
            assert not (inference.certain & (inference.labels != y)).any()


def test_paley_rows_are_orthogonal():
    prime = stochastic.paley_prime(40)
    plan = stochastic.SignPlan(labels.OracleSpec(n=prime + 1), prime + 1, prime)
    matrix = plan.matrix(np.arange(prime + 1))[:, :prime]
    assert (matrix.T @ matrix == (prime + 1) * np.eye(prime)).all()
    assert (matrix.sum(axis=0) == 2).all()  # nearly orthogonal to an offset


def test_stochastic_noise_of_many_classes_beyond_integer_codes_is_refused():
    with pytest.raises(dv.InputError, match="2 unweighted classes only"):
        labels.design(labels.OracleSpec(n=300, classes=3, noise=1.0, noise_kind="gaussian"))


def torch_loss_oracle(y, loss, dtype="float64"):
    """The mean of one of torch's own losses over hidden labels, as a scoring oracle."""
    torch = pytest.importorskip("torch")

    def score(predictions):
        columns = np.asarray(predictions)
        if loss == "binary_cross_entropy" and columns.ndim == 2:
            columns = columns[:, 1]
        values, truth = torch.as_tensor(columns, dtype=getattr(torch, dtype)), torch.as_tensor(y)
        truth = truth if loss == "cross_entropy" else truth.to(values.dtype)
        return float(getattr(torch.nn.functional, loss)(values, truth))

    return score


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_losses(dtype):
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        y = rng.integers(0, classes, 70)
        spec = labels.OracleSpec(metric="softmax_cross_entropy", n=70, classes=classes, float_dtype=dtype)
        inference = labels.infer(torch_loss_oracle(y, "cross_entropy", dtype), labels.design(spec))
        assert (inference.labels == y).all()
        assert inference.certain.all()
    y = rng.integers(0, 2, 70)
    spec = labels.OracleSpec(metric="sigmoid_cross_entropy", n=70, float_dtype=dtype)
    oracle = torch_loss_oracle(y, "binary_cross_entropy_with_logits", dtype)
    assert (labels.infer(oracle, labels.design(spec)).labels == y).all()


def test_torch_clamps_logarithms_at_minus_100():
    y = np.random.default_rng(0).integers(0, 2, 70)
    oracle = torch_loss_oracle(y, "binary_cross_entropy")
    spec = labels.OracleSpec(n=70, submission="positive", clip=1e-30, noise=1e-4)
    assert (labels.infer(oracle, labels.design(spec)).labels == y).all()
    assert oracle(np.where(y == 1, 0.0, 1.0)) == pytest.approx(100.0)


@pytest.mark.filterwarnings("ignore:F-score is ill-defined")  # without positives, where scikit-learn says 0 too
@pytest.mark.parametrize(
    "metric", ["log_loss", "squared_euclidean", "mse", "rmse", "rmsle", "mae", "accuracy", "f1", "auc"]
)
def test_a_local_oracle_answers_as_scikit_learn_does(metric):
    """Ties, constant predictions, and labels of one class, where there is an answer."""
    rng = np.random.default_rng(0)
    spec = labels.OracleSpec(metric=metric, n=60)
    mixed, zeros, ones = rng.integers(0, 2, 60), np.zeros(60, int), np.ones(60, int)
    for p in (rng.integers(0, 5, 60) / 4, np.full(60, 0.5), np.zeros(60), np.ones(60)):
        predictions = np.column_stack([1 - p, p]) if metric in ("log_loss", "squared_euclidean") else p
        hard = (p >= 0.5).astype(int) if metric in ("accuracy", "f1") else predictions
        for y in (mixed,) if metric == "auc" else (mixed, zeros, ones):
            expected = labels.ScikitLearn(spec, y)(hard)
            assert labels.LocalOracle(spec, y).exact(predictions) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_an_answer_that_no_score_can_be_is_refuted(metric):
    """Where the true answer is 1, only the bound itself refutes 1.7, as answers are clipped before they are counted."""
    spec = labels.OracleSpec(metric=metric, n=3)
    plan = labels.design(spec)
    worlds = [np.array(world) for world in itertools.product((0, 1), repeat=3)]
    exact = [np.array([labels.LocalOracle(spec, y).exact(query) for query in plan.queries]) for y in worlds]
    world, query = next((i, j) for i, answers in enumerate(exact) for j in range(1, plan.count) if answers[j] == 1.0)
    assert labels.read(plan, exact[world]).contradiction is None
    assert (labels.read(plan, exact[world]).labels == worlds[world]).all()
    for wrong in (1.7, -0.7):
        answers = exact[world].copy()
        answers[query] = wrong
        assert labels.read(plan, answers).contradiction is not None
    unanswered = exact[world].copy()
    unanswered[query] = np.nan
    assert labels.read(plan, unanswered).contradiction is None


@pytest.mark.parametrize("ones", [1, 5, 7, 11])
def test_labels_read_from_exact_r_squared_are_certain(ones):
    """At twice the declared noise, which is none, the first answer still admits one number of ones alone."""
    y = np.random.default_rng(0).permutation(np.arange(12) < ones).astype(int)
    spec = labels.OracleSpec("r2", n=12)
    inference = labels.infer(labels.LocalOracle(spec, y, 0), labels.design(spec))
    assert inference.proven.all()
    assert inference.certain.all()
    assert (inference.labels == y).all()


@pytest.mark.parametrize(
    ("n", "decimals", "options"),
    [
        (100, 2, {"metric": "accuracy"}),
        (10, 1, {"metric": "accuracy"}),
        (100, 2, {"metric": "map_at_k", "classes": 3}),
        (150, 2, {"metric": "accuracy", "scored": 100}),
    ],
)
def test_rounding_that_loses_nothing_hides_nothing(n, decimals, options):
    """A naive endpoint that shows shares of 100 rows in two decimals: every label is read, as without rounding."""
    spec = labels.OracleSpec(n=n, decimals=decimals, **options)
    plan = labels.design(spec)
    assert plan.count == labels.design(labels.OracleSpec(n=n, **options)).count
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, spec.classes, n)
        rows = np.sort(rng.permutation(n)[: options.get("scored", n)])

        def endpoint(predictions, y=y, rows=rows):
            guesses = np.asarray(predictions)[rows].reshape(len(rows)).round()
            return round(float(np.mean(guesses == y[rows])), decimals)

        inference = labels.infer(endpoint, plan)
        expected = np.full(n, -1)
        expected[rows] = y[rows]
        assert inference.proven.all()
        assert (inference.labels == expected).all()


def test_what_a_defence_leaves_readable_is_not_hidden_by_two_decimals_of_a_hundred_rows():
    items = {item.name: item for item in labels.menu(labels.OracleSpec("accuracy", n=100, decimals=2))}
    assert items["as it is"].read == items["rounding"].read == 100


@pytest.mark.parametrize(("n", "decimals"), [(200, 2), (100, 1)])
def test_rounding_that_merges_counts_is_no_precision_to_read_at(n, decimals):
    with pytest.raises(dv.InputError, match="no code known here reads accuracy for certain"):
        labels.design(labels.OracleSpec("accuracy", n=n, decimals=decimals))
