"""Attacks on several versions of every record, against slow re-implementations of the published code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import divulge as dv
from attacks.test_references import CASES
from divulge.attacks import RMIA, Averaged, LiRA, MajorityRMIA, Residual
from divulge.attacks.rmia import majority_share


def versions(seed, v=3, n=7, z=5, m=4, *, ties=False):
    """Probabilities of ``v`` versions: of candidates, of a population, under target and references."""
    rng = np.random.default_rng(seed)
    inside, population_trained_on = rng.random((m, n)) < 0.5, rng.random((m, z)) < 0.5
    inside[0], population_trained_on[0] = False, False
    inside[1] = True
    version_list = []
    for _ in range(v):
        parts = [rng.random(n), rng.random((m, n)), rng.random(z), rng.random((m, z))]
        target, references, population, population_references = [np.round(p, 1) if ties else p for p in parts]
        version_list.append(
            dv.Evidence(
                target,
                references,
                inside,
                population,
                population_references,
                population_trained_on=population_trained_on,
                labels=np.zeros(n, int),
            )
        )
    return version_list


def joined(version_list):
    return dv.Evidence(
        **{name: getattr(version_list[0], name) for name in version_list[0].__dataclass_fields__ if name != "queries"},
        queries=version_list[1:],
    )


def naive_majority(version_list, gamma, a):
    """Pair by pair and version by version, as the published code does; a tie of ratios counts as dominance here."""
    n, z = len(version_list[0]), len(version_list[0].population)
    share = np.zeros(n)
    for i in range(n):
        for j in range(z):
            votes = 0
            for version in version_list:
                candidate_signals, population_signals = version.references[:, i], version.population_references[:, j]
                if a is None:
                    out_x, out_z = candidate_signals.mean(), population_signals.mean()
                else:
                    out_x = candidate_signals[~version.trained_on[:, i]].mean()
                    out_z = population_signals[~version.population_trained_on[:, j]].mean()
                    out_x, out_z = ((1 + a) / 2 * p + (1 - a) / 2 for p in (out_x, out_z))
                votes += version.target[i] / out_x >= gamma * version.population[j] / out_z - 1e-13
            share[i] += votes > len(version_list) / 2
    return share / z


@CASES
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from((1.0, 2.0)), st.sampled_from((None, 0.3)))
def test_majority_is_the_published_vote(seed, v, gamma, a):
    version_evidence = versions(seed, v)
    attack = MajorityRMIA(RMIA(gamma, a, "published"))
    np.testing.assert_allclose(
        attack.score(joined(version_evidence)), naive_majority(version_evidence, gamma, a), atol=1e-12
    )
    untied = MajorityRMIA(RMIA(gamma, a)).score(joined(version_evidence))
    np.testing.assert_allclose(untied, attack.score(joined(version_evidence)), atol=2e-9)


@CASES
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_votes_are_counted_right_among_ties(seed, v):
    rng = np.random.default_rng(seed)
    ratios, population = rng.integers(0, 4, (v, 9)) / 2.0, rng.integers(0, 4, (v, 6)) / 2.0
    votes = (ratios[:, :, None] >= population[:, None, :]).sum(axis=0)
    np.testing.assert_array_equal(majority_share(ratios, population, 1.0), (votes > v / 2).mean(axis=1))


def test_blocks_do_not_matter(monkeypatch):
    version_evidence = versions(0, 3, n=50, z=20)
    expected = MajorityRMIA().score(joined(version_evidence))
    monkeypatch.setattr("divulge.attacks.rmia._BLOCK", 64)
    np.testing.assert_array_equal(MajorityRMIA().score(joined(version_evidence)), expected)


@pytest.mark.parametrize("a", [None, 0.3])
def test_one_version_is_rmia(a):
    (version,) = versions(1, 1)
    np.testing.assert_array_equal(
        MajorityRMIA(RMIA(offline_a=a)).score(joined([version])), RMIA(offline_a=a).score(version)
    )


def naive_online(version_list):
    """As the published code: Gaussians of each version by itself, the mean of the log ratios (a variance for all)."""
    ratios = []
    for version in version_list:
        into = [version.references[version.trained_on[:, j], j] for j in range(len(version))]
        out = [version.references[~version.trained_on[:, j], j] for j in range(len(version))]
        s_in, s_out = (
            sum(((c - c.mean()) ** 2).sum() for c in side) / sum(len(c) - 1 for c in side) for side in (into, out)
        )
        ratios.append(
            [
                0.5 * ((t - o.mean()) ** 2 / s_out - (t - i.mean()) ** 2 / s_in + np.log(s_out / s_in))
                for t, i, o in zip(version.target, into, out, strict=True)
            ]
        )
    return np.mean(ratios, axis=0)


def test_averaged_lira_is_the_published_mean_of_log_ratios():
    for seed in range(20):
        version_evidence = versions(seed)
        np.testing.assert_allclose(
            Averaged(LiRA("online")).score(joined(version_evidence)), naive_online(version_evidence), rtol=1e-9
        )


def test_offline_it_is_the_mean_of_one_sided_scores():
    version_evidence = versions(3)
    expected = np.mean([LiRA().score(version) for version in version_evidence], axis=0)
    np.testing.assert_allclose(Averaged(LiRA()).score(joined(version_evidence)), expected)


def test_attacks_on_versions_are_attacks_like_any_other():
    """They nest, and further versions are needed."""
    version_evidence = versions(4, n=40)
    features = np.random.default_rng(0).normal(size=(40, 2))
    evidence = dv.Evidence(
        version_evidence[0].target,
        version_evidence[0].references,
        version_evidence[0].trained_on,
        features=features,
        queries=[_plain(version_evidence[1])],
    )
    assert Residual(Averaged(LiRA())).score(evidence).shape == (40,)
    for attack in (Averaged(LiRA()), MajorityRMIA()):
        with pytest.raises(dv.InputError, match=f"{type(attack).__name__}: evidence.queries is needed"):
            attack.score(version_evidence[0])


def _plain(version):
    return dv.Evidence(version.target, version.references, version.trained_on)


def test_versions_that_do_not_fit_are_refused():
    good, longer = versions(5), versions(5, n=8)
    for bad in ([longer[0]], [np.ones(7)], [joined(good)]):
        with pytest.raises(dv.InputError, match=r"^queries: "):
            joined([good[0], *bad])


def test_more_versions_tell_more():
    """Independent noise in each: of 9 versions a mean or a vote tells members from others better than of one."""
    rng = np.random.default_rng(6)
    member = np.arange(2000) < 1000

    def draw_version():
        hard, easy = rng.normal(size=2000), rng.normal(size=500)
        signals = [hard + 0.5 * member, hard + np.zeros((4, 1)), easy, easy + np.zeros((4, 1))]
        target, references, population, population_references = (
            1 / (1 + np.exp(-(s + rng.normal(size=s.shape)))) for s in signals
        )
        return dv.Evidence(target, references, population=population, population_references=population_references)

    version_list = [draw_version() for _ in range(9)]
    for inner, attack in ((LiRA(), Averaged(LiRA())), (RMIA(), MajorityRMIA())):
        single_auc = dv.evaluation.auc(inner.score(version_list[0]), member).value
        assert dv.evaluation.auc(attack.score(joined(version_list)), member).value > single_auc + 0.1
