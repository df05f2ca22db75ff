"""Calibrated, LiRA and RMIA against slow re-implementations of the papers' formulas."""

import itertools
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import divulge as dv
from divulge.attacks import RMIA, Calibrated, LiRA, Threshold, lira

CASES = settings(max_examples=60, deadline=None)
VARIANCES = ("global", "per_record")


@st.composite
def tables(draw, least_models=2, values=None):
    """Signals of m models on n records, with or without ties, and any membership whatever."""
    m, n = draw(st.integers(least_models, 7)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from(("spread", "ties", "constant", "far", "single")))
    signals = {
        "spread": lambda: rng.normal(size=(m, n)),
        "ties": lambda: rng.integers(0, 3, (m, n)).astype(float),
        "constant": lambda: np.full((m, n), rng.normal()),
        "far": lambda: 1e6 + rng.normal(size=(m, n)),
        "single": lambda: rng.normal(size=(m, n)).astype(np.float32),
    }[shape]()
    trained_on = rng.random((m, n)) < draw(st.sampled_from((0.2, 0.5, 0.8)))
    if values == "probabilities":
        signals = (signals - signals.min()) / max(np.ptp(signals), 1.0)
    return signals, trained_on


def naive_side(references, keep):
    """Per record: count, mean and own variance (count - 1); pooled and total variance of the side."""
    columns = [references[keep[:, j], j].astype(float) for j in range(references.shape[1])]
    count = np.array([len(c) for c in columns])
    mean = np.array([c.mean() if len(c) else np.nan for c in columns])
    # Equal values have no spread; NumPy's own rounding of their mean must not invent one.
    ss = np.array([0.0 if len(c) < 2 or np.ptp(c) == 0 else ((c - c.mean()) ** 2).sum() for c in columns])
    freedom = np.maximum(count - 1, 0)
    pooled = ss.sum() / freedom.sum() if freedom.sum() and ss.sum() > 0 else 1.0
    every = np.concatenate(columns)
    total = every.var(ddof=1) if len(every) > 1 and np.ptp(every) > 0 else 1.0
    record_variances = np.array([s / f if f and s > 0 else pooled for s, f in zip(ss, freedom, strict=True)])
    return count, mean, record_variances, pooled, every.mean(), total


def naive_lira(target, references, trained_on, mode, variance):
    n = len(target)
    k0, mean0, own0, pooled0, grand0, total0 = naive_side(references, ~trained_on)
    var0 = own0 if variance == "per_record" else np.full(n, pooled0)
    scores = np.empty(n)
    if mode == "offline":
        for j in range(n):
            mean, var = (mean0[j], var0[j]) if k0[j] else (grand0, total0)
            scores[j] = (target[j] - mean) / np.sqrt(var)
        return scores
    k1, mean1, own1, pooled1, grand1, _ = naive_side(references, trained_on)
    var1 = own1 if variance == "per_record" else np.full(n, pooled1)
    on_both_sides = (k0 > 0) & (k1 > 0)
    mean_shift = (mean1 - mean0)[on_both_sides].mean() if on_both_sides.any() else grand1 - grand0
    for j in range(n):
        into = mean1[j] if k1[j] else mean0[j] + mean_shift
        out = mean0[j] if k0[j] else mean1[j] - mean_shift
        scores[j] = stats.norm.logpdf(target[j], into, np.sqrt(var1[j]))
        scores[j] -= stats.norm.logpdf(target[j], out, np.sqrt(var0[j]))
    return scores


def close(actual, expected):
    """Equal up to rounding, which for signals near 1e6 is six digits coarser."""
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@CASES
@given(tables(), st.sampled_from(VARIANCES))
def test_offline_lira_is_the_one_sided_z_score(table, variance):
    signals, trained_on = table
    if trained_on[1:].all():
        return
    evidence = dv.Evidence(signals[0], signals[1:], trained_on[1:])
    scores = LiRA(variance=variance).score(evidence)
    close(scores, naive_lira(evidence.target, signals[1:], trained_on[1:], "offline", variance))


@CASES
@given(tables(), st.sampled_from(VARIANCES))
def test_online_lira_is_the_log_likelihood_ratio(table, variance):
    signals, trained_on = table
    if trained_on[1:].all() or not trained_on[1:].any():
        return
    evidence = dv.Evidence(signals[0], signals[1:], trained_on[1:])
    scores = LiRA("online", variance).score(evidence)
    close(scores, naive_lira(evidence.target, signals[1:], trained_on[1:], "online", variance))


@CASES
@given(tables(least_models=3), st.sampled_from(VARIANCES), st.sampled_from(("offline", "online")))
def test_leave_one_out_is_lira_with_every_model_as_the_target(table, variance, mode):
    """Where a model was trained on all records or on none, there is no other side to have equal numbers with."""
    signals, trained_on = table
    trained_on = np.repeat(trained_on[:, :1], trained_on.shape[1], axis=1)
    m = len(signals)
    rests = [np.delete(trained_on, i, axis=0) for i in range(m)]
    if any(remaining.all() or (mode == "online" and not remaining.any()) for remaining in rests):
        with pytest.raises(dv.InputError, match="trained_on: without model"):
            lira.leave_one_out(signals, trained_on, mode=mode, variance=variance)
        return
    scores = lira.leave_one_out(signals, trained_on, mode=mode, variance=variance)
    for i, remaining in enumerate(rests):
        evidence = dv.Evidence(signals[i], np.delete(signals, i, axis=0), remaining)
        close(scores[i], LiRA(mode, variance).score(evidence))


def test_leave_one_out_gives_members_and_others_equally_many_models():
    """With each record in half of 6 models, every score is LiRA's with 2 OUT models, none with 3."""
    rng = np.random.default_rng(8)
    m, n = 6, 40
    signals, inside = rng.normal(size=(m, n)) + 3 * rng.normal(size=n), rng.random((m, n)).argsort(0) < m // 2
    scores, repeated, other_seed = (
        lira.leave_one_out(signals, inside, variance="per_record", seed=seed) for seed in (0, 0, 1)
    )
    for (i, j), score in np.ndenumerate(scores):
        out = [signals[k, j] for k in range(m) if k != i and not inside[k, j]]
        pairs = [np.array(pair) for pair in itertools.combinations(out, 2)]
        assert any(np.isclose((signals[i, j] - pair.mean()) / pair.std(ddof=1), score) for pair in pairs)
    np.testing.assert_array_equal(scores, repeated)
    assert not np.array_equal(scores, other_seed)


def test_leave_one_out_is_refused_where_no_equal_number_is_left():
    """With 2 models and each record in one, a member has an OUT model left and no IN model, another the reverse.

    The same of two models with the same records, and of a table that is too small to tell pairs from coincidence.
    """
    inside = np.random.default_rng(10).random((2, 30)).argsort(0) < 1
    with pytest.raises(dv.InputError, match="no record has an OUT model left"):
        lira.leave_one_out(np.ones((2, 30)), inside)
    with pytest.raises(dv.InputError, match="model 0 was not trained on, or on the same records"):
        lira.leave_one_out(np.ones((2, 30)), inside[[0, 0]])
    with pytest.raises(dv.InputError, match="without model 0, no record has an OUT model left"):
        lira.leave_one_out(np.ones((2, 20)), inside[:, :20])


def test_without_trained_on_every_reference_is_out():
    rng = np.random.default_rng(0)
    target, references = rng.normal(size=20), rng.normal(size=(5, 20))
    nobody = np.zeros((5, 20), dtype=bool)
    for attack in (LiRA(), LiRA(variance="per_record"), Calibrated()):
        np.testing.assert_array_equal(
            attack.score(dv.Evidence(target, references)), attack.score(dv.Evidence(target, references, nobody))
        )


def test_a_record_without_out_models_is_compared_with_all_values():
    references = np.array([[1.0, 5.0], [3.0, 6.0], [2.0, 10.0]])
    trained_on = np.array([[True, False], [True, False], [True, False]])
    values = references[:, 1]
    expected = (np.array([4.0, 8.0]) - values.mean()) / values.std(ddof=1)
    np.testing.assert_allclose(LiRA().score(dv.Evidence([4.0, 8.0], references, trained_on)), expected)


def test_the_global_variance_is_within_records_not_between_them():
    rng = np.random.default_rng(1)
    hardness = rng.normal(scale=10.0, size=2000)
    references = hardness + rng.normal(size=(8, 2000))
    scores = LiRA().score(dv.Evidence(hardness + rng.normal(size=2000), references))
    # Known spread 1: z has variance 1 + 1/8. The spread of all values (10) would make it 0.01.
    assert 1.0 < scores.var() < 1.25


def test_offline_lira_is_one_sided_and_does_not_saturate():
    references = np.tile([[-1.0], [0.0], [1.0]], (1, 4))
    scores = LiRA().score(dv.Evidence([-50.0, 0.0, 40.0, 50.0], references))
    assert (np.diff(scores) > 0).all()


def test_columns_are_taken_in_blocks_without_a_seam(tmp_path):
    rng = np.random.default_rng(2)
    m, n = 100, 6000
    stored = np.lib.format.open_memmap(tmp_path / "refs.npy", "w+", np.float32, (m, n))
    stored[:] = rng.normal(size=(m, n))
    trained_on = rng.random((m, n)) < 0.5
    target = rng.normal(size=n)
    scores = LiRA("online", "per_record").score(dv.Evidence(target, stored, trained_on))
    close(scores, naive_lira(target, np.asarray(stored), trained_on, "online", "per_record"))


@pytest.mark.parametrize(
    "attack",
    [Threshold(), Calibrated(), Calibrated("all"), LiRA("online", "per_record"), LiRA("offline", "global"), RMIA()],
    ids=repr,
)
def test_row_order_changes_nothing(attack):
    rng = np.random.default_rng(3)
    n, m, z = 300, 8, 100
    target, references, trained_on = rng.random(n), rng.random((m, n)), rng.random((m, n)) < 0.5
    population_evidence = {"population": rng.random(z), "population_references": rng.random((m, z))}
    order = rng.permutation(n)
    straight = attack.score(dv.Evidence(target, references, trained_on, **population_evidence))
    shuffled = attack.score(
        dv.Evidence(target[order], references[:, order], trained_on[:, order], **population_evidence)
    )
    np.testing.assert_allclose(shuffled, straight[order], rtol=1e-12)


@CASES
@given(tables(least_models=3), st.sampled_from(("out", "all")))
def test_calibrated_subtracts_the_mean(table, over):
    signals, trained_on = table
    target, references, trained_on = signals[0], signals[1:], trained_on[1:]
    if trained_on.all():
        return
    out = np.where(trained_on, np.nan, references) if over == "out" else references
    expected = [
        t - (c[~np.isnan(c)].mean() if not np.isnan(c).all() else np.nanmean(out))
        for t, c in zip(target, out.T, strict=True)
    ]
    close(Calibrated(over).score(dv.Evidence(target, references, trained_on)), expected)


def naive_rmia(evidence, gamma, a):
    """The definition in exact fractions: what ties on paper ties here."""

    def mean(values):
        return sum(map(Fraction, values)) / len(values)

    def ratio(target, references, trained_on):
        values = []
        for j in range(len(target)):
            if a is None:
                typical = mean(references[:, j])
            else:
                out = references[~trained_on[:, j], j]
                p_out = mean(out) if len(out) else mean(references[~trained_on])
                typical = ((1 + Fraction(a)) * p_out + (1 - Fraction(a))) / 2
            values.append(Fraction(target[j]) / max(typical, Fraction(1e-100)))
        return values

    x = ratio(evidence.target, evidence.references, evidence.trained_on)
    z = ratio(evidence.population, evidence.population_references, evidence.population_trained_on)
    return np.array([sum(xi >= Fraction(gamma) * zj for zj in z) / len(z) for xi in x])


def rmia_evidence(rng, n, m, z, step):
    """Probabilities on a grid of ``step``, coarse ones with many ties."""

    def draw(*shape):
        return np.round(rng.random(shape) / step) * step

    trained_on, z_held = rng.random((m, n)) < 0.5, rng.random((m, z)) < 0.3
    return dv.Evidence(draw(n), draw(m, n), trained_on, draw(z), draw(m, z), population_trained_on=z_held)


@CASES
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from((0.25, 0.5, 1e-9)),
    st.sampled_from((0.5, 1.0, 2.0, 4.0)),
    st.sampled_from((None, 0.0, 0.25, 0.5, 1.0)),
)
def test_rmia_is_the_dominated_share_of_the_population(seed, step, gamma, a):
    rng = np.random.default_rng(seed)
    evidence = rmia_evidence(rng, 5, 4, 9, step)
    if a is not None and (evidence.trained_on.all() or evidence.population_trained_on.all()):
        return
    published = RMIA(gamma, a, "published").score(evidence)
    np.testing.assert_array_equal(published, naive_rmia(evidence, gamma, a))
    free = RMIA(gamma, a).score(evidence)
    assert np.abs(free - published).max() <= 1e-9
    assert ((free >= 0) & (free <= 1)).all()
    above = published[:, None] > published[None, :]
    assert (free[:, None] > free[None, :])[above].all()


def test_rmia_breaks_ties_at_the_top_by_the_ratio():
    target = np.array([0.90, 0.95, 0.99, 0.2])
    evidence = dv.Evidence(target, np.full((2, 4), 0.3), None, np.full(10, 0.25), np.full((2, 10), 0.3))
    published = RMIA(ranking="published").score(evidence)
    np.testing.assert_array_equal(published, [1.0, 1.0, 1.0, 0.0])
    assert (np.diff(RMIA().score(evidence)[:3]) > 0).all()


@pytest.mark.parametrize("a", [None, 0.0, 0.3, 1.0])
def test_rmia_is_finite_where_probabilities_are_zero_or_one(a):
    zeros = dv.Evidence([0.0, 1.0, 0.5], np.zeros((2, 3)), None, [0.0, 1.0], np.zeros((2, 2)))
    for ranking in ("tie-free", "published"):
        assert np.isfinite(RMIA(gamma=2.0, offline_a=a, ranking=ranking).score(zeros)).all()


def test_constant_signals_give_equal_finite_scores():
    same = np.full((6, 10), 0.7)
    half = np.arange(60).reshape(6, 10) % 2 == 0  # odd records have no IN model, even ones no OUT model
    evidence = dv.Evidence(same[0], same, half, np.full(5, 0.7), np.full((6, 5), 0.7))
    attacks = [LiRA(mode, variance) for mode in ("online", "offline") for variance in VARIANCES]
    for attack in (Threshold(), Calibrated(), RMIA(), *attacks):
        scores = attack.score(evidence)
        assert np.isfinite(scores).all(), attack
        assert np.ptp(scores) == 0.0, attack


def test_members_score_higher():
    """Orientation: member signals are 2 standard deviations up; P(AUC < 0.8) is far below 1e-9 for each attack."""
    rng = np.random.default_rng(4)
    n, m = 2000, 16
    hardness = rng.normal(size=n)
    member, trained_on = rng.random(n) < 0.5, rng.random((m, n)) < 0.5

    def probability(inside, base):
        return 1 / (1 + np.exp(-(base + 2.0 * inside + rng.normal(size=inside.shape))))

    target, references = probability(member, hardness), probability(trained_on, hardness)
    outside = rng.normal(size=500)
    evidence = dv.Evidence(
        target,
        references,
        trained_on,
        probability(np.zeros(500), outside),
        probability(np.zeros((m, 500)), outside),
    )
    attacks = [LiRA(mode, variance) for mode in ("online", "offline") for variance in VARIANCES]
    for attack in (Threshold(), Calibrated(), RMIA(), RMIA(offline_a=None), *attacks):
        scores = attack.score(evidence)
        auc = stats.mannwhitneyu(scores[member], scores[~member]).statistic / (member.sum() * (~member).sum())
        assert auc > 0.8, (attack, auc)


@pytest.mark.parametrize(
    ("attack", "parts", "message"),
    [
        (LiRA(), {}, "LiRA: evidence.references is needed"),
        (LiRA("online"), {"references": np.ones((2, 3))}, r"LiRA\(mode='online'\): evidence.trained_on is needed"),
        (LiRA("online"), {"references": np.ones((2, 3)), "trained_on": np.zeros((2, 3), bool)}, "use mode='offline'"),
        (LiRA(), {"references": np.ones((2, 3)), "trained_on": np.ones((2, 3), bool)}, "every reference model"),
        (Calibrated(), {}, "Calibrated: evidence.references is needed"),
        (Calibrated(), {"references": np.ones((2, 3)), "trained_on": np.ones((2, 3), bool)}, "every reference model"),
        (RMIA(), {}, "RMIA: evidence.references is needed"),
        (RMIA(), {"references": np.ones((2, 3))}, "RMIA: evidence.population is needed"),
        (RMIA(), {"references": np.ones((2, 3)), "population": [0.5]}, "evidence.population_references is needed"),
        (
            RMIA(),
            {"references": -np.ones((2, 3)), "population": [0.5], "population_references": [[0.5], [0.5]]},
            r"evidence.references must hold probabilities in \[0, 1\].*'confidence' signal",
        ),
    ],
)
def test_missing_evidence_is_named(attack, parts, message):
    with pytest.raises(dv.InputError, match=message):
        attack.score(dv.Evidence([0.1, 0.2, 0.3], **parts))


def test_importing_attacks_needs_no_torch():
    code = "import sys, divulge.attacks; print('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(dv.__file__).parents[1])}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert process.stdout == "False\n"


def test_rmia_takes_probabilities_alone():
    parts = {"references": [[1.0]], "population": [0.0, 1.0], "population_references": [[0.5, 1.0]]}
    assert np.isfinite(RMIA().score(dv.Evidence(target=[1.0], **parts))).all()
    for value in (1.5, -0.5):
        with pytest.raises(dv.InputError, match=r"evidence\.target must hold probabilities"):
            RMIA().score(dv.Evidence(target=[value], **parts))
