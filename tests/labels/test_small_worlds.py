"""Plans for every metric, held against all labellings of a few rows: what is proven, certain or refuted, and why."""

import itertools

import numpy as np
import pytest

from divulge import labels


def f2(y, p):
    right = int((np.asarray(y) & np.asarray(p)).sum())
    return 5 * right / max(4 * int(y.sum()) + int(p.sum()), 1)


WORLDS = {
    "accuracy": labels.OracleSpec("accuracy", n=5, noise=0.03),
    "f1": labels.OracleSpec("f1", n=5, noise=0.012),
    "auc": labels.OracleSpec("auc", n=5, noise=0.004),
    "auc, rounded": labels.OracleSpec("auc", n=6, decimals=3),
    "balanced accuracy": labels.OracleSpec("balanced_accuracy", n=5, noise=0.008),
    "mcc": labels.OracleSpec("mcc", n=5, noise=0.006),
    "kappa": labels.OracleSpec("quadratic_weighted_kappa", n=4, classes=3, noise=0.002),
    "map": labels.OracleSpec("map_at_k", n=4, classes=3, noise=0.05),
    "r2": labels.OracleSpec("r2", n=5, noise=0.02),
    "r2, rounded": labels.OracleSpec("r2", n=5, decimals=3),
    "counts": labels.OracleSpec(labels.Evaluated(f2, depends_on="counts"), n=5, noise=0.004),
    "mae": labels.OracleSpec("mae", n=5, noise=0.01),
    "rmse": labels.OracleSpec("rmse", n=5, noise=0.01),
    "rmsle": labels.OracleSpec("rmsle", n=5, noise=0.001),
    "macro_f1": labels.OracleSpec("macro_f1", n=5, noise=0.006),
    "mape": labels.OracleSpec("mape", n=5, noise=0.01),
    "brier": labels.OracleSpec("squared_euclidean", n=4, classes=3, noise=0.01),
    "softmax": labels.OracleSpec("softmax_cross_entropy", n=4, classes=3, noise=0.1),
    "log loss of a sum": labels.OracleSpec(n=5, clip=1e-2, noise=0.05, reduction="sum"),
    "log loss of one column": labels.OracleSpec(n=5, clip=1e-2, noise=0.02, submission="positive"),
    "log loss, single precision": labels.OracleSpec(n=5, clip=1e-3, noise=0.02, float_dtype="float32"),
    "weighted log loss": labels.OracleSpec(n=4, clip=1e-3, noise=0.01, class_weight=(0.5, 2.0)),
}

# Plans whose first answer is taken for the nearest that any number of ones gives: its residual says nothing.
COUNTED_FIRST = ("accuracy", "f1", "weighted log loss")


def exact_answers(spec, plan):
    """Labellings and what the endpoint would answer; those with no defined answer are left out."""
    every = np.array(list(itertools.product(range(spec.classes), repeat=spec.n)))
    if spec.name == "auc":
        every = every[(every.min(axis=1) == 0) & (every.max(axis=1) == 1)]
    queries = [plan.queries[i] for i in range(plan.count)]
    exact = np.array([[labels.LocalOracle(spec, y).exact(query) for query in queries] for y in every])
    defined = np.isfinite(exact).all(axis=1)
    return every[defined], exact[defined]


@pytest.mark.parametrize("name", WORLDS)
def test_every_labelling_is_tried_beside_what_a_plan_says(name):
    """Answers within the declared noise, at its bound, and beyond; complete and with some missing."""
    spec = WORLDS[name]
    plan = labels.design(spec)
    every, exact = exact_answers(spec, plan)
    rng = np.random.default_rng(list(WORLDS).index(name))
    sizes = (0.0, 0.99, 1.01, 1.99, 2.2, 6.0)
    bound = spec.noise + spec.rounding
    seen = dict.fromkeys(("proven", "certain", "refuted", "only proven"), 0)
    for trial in range(90):
        size, world = sizes[trial % len(sizes)], int(rng.integers(len(every)))
        answers = exact[world] + size * bound * rng.choice([-1.0, 0.0, 1.0], plan.count)
        if trial % 5 == 4:
            answers[rng.random(plan.count) < 0.2] = np.nan
        reading = plan.inner.read(answers)
        distance = np.nan_to_num(np.abs(exact - answers))
        within = [(distance <= spec.rounding + times * spec.noise + 1e-9).all(axis=1) for times in (1, 2)]
        inside = [
            (distance <= (spec.rounding + times * spec.noise) * (1 - 1e-7) - 1e-11).all(axis=1) for times in (1, 2)
        ]
        for told, fits in ((reading.proven, inside[0]), (reading.certain, inside[1])):
            assert (every[fits][:, told] == reading.labels[told]).all(), "another labelling explains the answers too"
        assert not (reading.certain & ~reading.proven).any() or not within[0].any()
        if inside[0].any():
            assert not reading.refuted.any(), "these answers have an explanation"
        if reading.proven.all() and not reading.refuted.any() and not np.isnan(answers).any():
            row = int(np.flatnonzero((every == reading.labels).all(axis=1))[0])
            assert (distance[row] <= 2 * (spec.rounding + spec.noise) + 1e-9).all(), "the labels do not explain them"
            compared = np.arange(plan.count) >= (name in COUNTED_FIRST)
            if name in ("accuracy", "f1"):  # answers beyond all scores are taken for the nearest score
                compared &= (answers >= 0) & (answers <= 1)
            np.testing.assert_allclose(reading.residual[compared], distance[row][compared], rtol=0.02, atol=1e-6)
        if size < 1 and plan.certificate.certified and not np.isnan(answers).any():
            assert plan.certificate.separation > plan.certificate.needed >= 2 * bound * (1 - 1e-9)
            assert reading.proven.all() or len(np.unique(every[world])) == 1
        if size == 6.0 and not np.isnan(answers).any() and not (distance <= 3 * bound).all(axis=1).any():
            seen["refuted"] += int(reading.refuted.any())
        seen["proven"] += int(reading.proven.sum())
        seen["certain"] += int(reading.certain.sum())
        seen["only proven"] += int((reading.proven & ~reading.certain).sum())
    assert seen["proven"]


@pytest.mark.parametrize("name", WORLDS)
def test_exact_answers_settle_every_label_that_no_other_labelling_within_reach_disputes(name):
    """Proven: none within twice the error an answer may have; certain: none with twice the noise."""
    spec = WORLDS[name]
    plan = labels.design(spec)
    every, exact = exact_answers(spec, plan)
    step, settled = max(len(every) // 16, 1), 0
    for world, answers in zip(every[::step], exact[::step], strict=True):
        reading = plan.inner.read(answers)
        assert not reading.refuted.any()
        assert np.nanmax(reading.residual) <= 1e-6
        assert (reading.labels[reading.proven] == world[reading.proven]).all()
        for told, times in ((reading.proven, 1), (reading.certain, 2)):
            reach = 2 * (spec.rounding + times * spec.noise) + 1e-9
            if (np.abs(exact - answers) <= reach).all(axis=1).sum() == 1:
                settled += 1
                assert told.all()
                assert (reading.labels == world).all()
    assert settled


def test_a_row_that_is_read_as_two_classes_is_of_none_and_refutes_the_answers():
    spec = labels.OracleSpec("map_at_k", n=3, classes=3)
    plan = labels.design(spec)
    first, second = (
        np.array([labels.LocalOracle(spec, np.array(y)).exact(plan.queries[i]) for i in range(plan.count)])
        for y in ([0, 2, 2], [1, 2, 2])
    )
    half = plan.count // 2
    reading = plan.inner.read(np.r_[first[:half], second[half:]])
    assert reading.proven.tolist() == reading.certain.tolist() == [False, True, True]
    assert reading.refuted.any()
    assert labels.read(plan, np.r_[first[:half], second[half:]]).contradiction is not None
    whole = plan.inner.read(first)
    assert whole.proven.all()
    assert not whole.refuted.any()


@pytest.mark.parametrize("metric", ["mcc", "macro_f1", "balanced_accuracy"])
def test_a_single_row_cannot_be_of_both_classes(metric):
    certificate = labels.design(labels.OracleSpec(metric, n=1)).certificate
    assert not certificate.certified
    assert certificate.separation == 0
    assert "two rows" in certificate.why
