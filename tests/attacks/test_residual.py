"""The residual of an attack against its definition, and against the suspicion that features do the work."""

import numpy as np
import pytest
from scipy import stats
from sklearn import linear_model

import divulge as dv
from divulge import seeds
from divulge.attacks import Calibrated, LiRA, Residual, Threshold, Transductive

N = 2000


def case(seed, *, lift=1.0, share=0.5, blind=0.0):
    """Records whose hardness features explain in part, references that know it badly, members by chance."""
    rng = np.random.default_rng(seed)
    member = rng.random(N) < share
    features = rng.normal(size=(N, 3)) + blind * member[:, None]
    hard = features @ [1.0, -0.5, 0.0] + rng.normal(size=N)
    missed = features @ [0.0, 1.0, 1.0]  # what the target finds easy and reference models do not
    target = hard + missed + lift * member + 0.3 * rng.normal(size=N)
    references = hard + 0.3 * rng.normal(size=(4, N))
    return dv.Evidence(target, references, features=features, labels=rng.integers(0, 3, N)), member


def auc(scores, member):
    return stats.mannwhitneyu(scores[member], scores[~member]).statistic / (member.sum() * (~member).sum())


def test_it_is_the_residual_of_a_ridge_regression_on_the_other_folds():
    evidence, _ = case(0)
    scores = Residual(LiRA(), seed=3).score(evidence)
    ranks = stats.rankdata(LiRA().score(evidence))
    deviates = stats.norm.ppf((ranks - 0.5) / N)
    table = (evidence.features - evidence.features.mean(0)) / evidence.features.std(0)
    classes = (evidence.labels[:, None] == np.arange(3)).astype(float)
    fold = seeds.generator(3, "transductive", "folds").permutation(N) % 5
    expected = np.empty(N)
    for k in range(5):
        in_fold = fold == k
        residuals = deviates - ridge(np.hstack([table, 3 * classes]), deviates, ~in_fold)
        for label in range(3):
            in_class = evidence.labels == label
            residuals[in_class] -= ridge(table[in_class], residuals[in_class], ~in_fold[in_class])
        expected[in_fold] = residuals[in_fold]
    np.testing.assert_allclose(scores, expected, atol=1e-8)


def ridge(table, values, learn):
    """The penalty of least leave-one-out error, found by leaving out (in closed form, by scikit-learn)."""
    model = linear_model.RidgeCV(np.logspace(0, 5, 11)).fit(table[learn], values[learn])
    return model.predict(table)


def test_transductive_is_the_residual_of_the_signal_itself():
    """Up to the ranks: on a signal that is its own normal deviate, both are one."""
    evidence, _ = case(1)
    deviates = stats.norm.ppf((stats.rankdata(evidence.target) - 0.5) / N)
    same = dv.Evidence(deviates, features=evidence.features, labels=evidence.labels)
    np.testing.assert_allclose(
        Residual(Threshold(), seed=2).score(evidence), Transductive(seed=2).score(same), atol=1e-12
    )


def test_it_finds_what_features_hide():
    """AUC of LiRA is about .6 here and of its residual about .9; a standard error is .013."""
    evidence, member = case(2)
    assert auc(Residual(LiRA()).score(evidence), member) > auc(LiRA().score(evidence), member) + 0.1


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_without_a_leak_nothing_is_told_apart(share):
    """5 standard errors of an AUC without a leak: fails with probability 6e-7."""
    evidence, member = case(3, lift=0.0, share=share)
    error = np.sqrt((N + 1) / (12 * member.sum() * (~member).sum()))
    assert abs(auc(Residual(LiRA()).score(evidence), member) - 0.5) < 5 * error


def test_a_score_that_says_nothing_of_a_confounded_split_is_not_made_to():
    """Features tell members at once, the score is noise: so is its residual."""
    evidence, member = case(4, lift=0.0, blind=2.0)
    noise = dv.Evidence(np.random.default_rng(5).normal(size=N), features=evidence.features)
    assert auc(evidence.features[:, 0], member) > 0.9
    assert abs(auc(Residual(Threshold()).score(noise), member) - 0.5) < 0.07


def test_permuted_features_gain_nothing():
    """Features of other records explain nothing: the residual is the score again, up to a regression's noise."""
    evidence, member = case(6)
    order = np.random.default_rng(7).permutation(N)
    parts = {"features": evidence.features[order], "labels": evidence.labels[order]}
    strange = dv.Evidence(evidence.target, evidence.references, **parts)
    plain = LiRA().score(evidence)
    shuffled = Residual(LiRA()).score(strange)
    assert stats.spearmanr(plain, shuffled).statistic > 0.99
    assert abs(auc(shuffled, member) - auc(plain, member)) < 0.01


def test_false_positives_stay_nominal_on_calibration_scored_in_the_same_call():
    """60 audits of 500 calibration records at 10 %: the mean rate is beyond .1 ± .011 with probability 1e-5."""
    rates = []
    for seed in range(60):
        evidence, member = case(100 + seed)
        scores = Residual(LiRA(), seed=seed).score(evidence)[~member]
        threshold = dv.decisions.fpr.threshold(scores[:500], fpr=0.1).value
        rates.append((scores[500:] >= threshold).mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.011)


def test_rows_are_treated_alike():
    """The folds are drawn for positions, so records in another order have other folds and nearly the same scores."""
    evidence, _ = case(8)
    order = np.random.default_rng(9).permutation(N)
    parts = {"features": evidence.features[order], "labels": evidence.labels[order]}
    moved = dv.Evidence(evidence.target[order], evidence.references[:, order], **parts)
    straight = Residual(Calibrated()).score(evidence)[order]
    assert np.corrcoef(Residual(Calibrated()).score(moved), straight)[0, 1] > 0.999


def test_a_constant_score_stays_constant():
    evidence, _ = case(10)
    flat = dv.Evidence(np.ones(N), features=evidence.features, labels=evidence.labels)
    assert np.abs(Residual(Threshold()).score(flat)).max() == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Residual(3), "Residual.inner"),
        (lambda: Residual(LiRA(), components=0), "Residual.components"),
        (lambda: Residual(LiRA(), folds=1), "Residual.folds"),
        (lambda: Residual(Threshold()).score(dv.Evidence([1.0, 2.0])), "Residual: evidence.features is needed"),
        (
            lambda: Residual(Threshold()).score(dv.Evidence(np.ones(5), features=np.ones((5, 1)))),
            "at least 20 candidates are needed to learn from, got 5",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(dv.InputError, match=message):
        make()
