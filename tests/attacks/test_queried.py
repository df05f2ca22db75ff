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
    inside, held = rng.random((m, n)) < 0.5, rng.random((m, z)) < 0.5
    inside[0], held[0] = False, False
    inside[1] = True
    made = []
    for _ in range(v):
        parts = [rng.random(n), rng.random((m, n)), rng.random(z), rng.random((m, z))]
        target, references, population, others = [np.round(p, 1) if ties else p for p in parts]
        made.append(
            dv.Evidence(
                target, references, inside, population, others, population_trained_on=held, labels=np.zeros(n, int)
            )
        )
    return made


def joined(made):
    return dv.Evidence(
        **{name: getattr(made[0], name) for name in made[0].__dataclass_fields__ if name != "queries"},
        queries=made[1:],
    )


def naive_majority(made, gamma, a):
    """Pair by pair and version by version, as the published code does; a tie of ratios counts as dominance here."""
    n, z = len(made[0]), len(made[0].population)
    share = np.zeros(n)
    for i in range(n):
        for j in range(z):
            votes = 0
            for one in made:
                own, others = one.references[:, i], one.population_references[:, j]
                if a is None:
                    out_x, out_z = own.mean(), others.mean()
                else:
                    out_x = own[~one.trained_on[:, i]].mean()
                    out_z = others[~one.population_trained_on[:, j]].mean()
                    out_x, out_z = ((1 + a) / 2 * p + (1 - a) / 2 for p in (out_x, out_z))
                votes += one.target[i] / out_x >= gamma * one.population[j] / out_z - 1e-13
            share[i] += votes > len(made) / 2
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
    whole = MajorityRMIA().score(joined(version_evidence))
    monkeypatch.setattr("divulge.attacks.rmia._BLOCK", 64)
    np.testing.assert_array_equal(MajorityRMIA().score(joined(version_evidence)), whole)


@pytest.mark.parametrize("a", [None, 0.3])
def test_one_version_is_rmia(a):
    (one,) = versions(1, 1)
    np.testing.assert_array_equal(MajorityRMIA(RMIA(offline_a=a)).score(joined([one])), RMIA(offline_a=a).score(one))


def naive_online(made):
    """As the published code: Gaussians of each version by itself, the mean of the log ratios (a variance for all)."""
    ratios = []
    for one in made:
        into = [one.references[one.trained_on[:, j], j] for j in range(len(one))]
        out = [one.references[~one.trained_on[:, j], j] for j in range(len(one))]
        s_in, s_out = (
            sum(((c - c.mean()) ** 2).sum() for c in side) / sum(len(c) - 1 for c in side) for side in (into, out)
        )
        ratios.append(
            [
                0.5 * ((t - o.mean()) ** 2 / s_out - (t - i.mean()) ** 2 / s_in + np.log(s_out / s_in))
                for t, i, o in zip(one.target, into, out, strict=True)
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
    expected = np.mean([LiRA().score(one) for one in version_evidence], axis=0)
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


def _plain(one):
    return dv.Evidence(one.target, one.references, one.trained_on)


def test_versions_that_do_not_fit_are_refused():
    made, other = versions(5), versions(5, n=8)
    for bad in ([other[0]], [np.ones(7)], [joined(made)]):
        with pytest.raises(dv.InputError, match=r"^queries: "):
            joined([made[0], *bad])


def test_more_versions_tell_more():
    """Independent noise in each: of 9 versions a mean or a vote tells members from others better than of one."""
    rng = np.random.default_rng(6)
    member = np.arange(2000) < 1000

    def one():
        hard, easy = rng.normal(size=2000), rng.normal(size=500)
        signals = [hard + 0.5 * member, hard + np.zeros((4, 1)), easy, easy + np.zeros((4, 1))]
        target, references, population, others = (1 / (1 + np.exp(-(s + rng.normal(size=s.shape)))) for s in signals)
        return dv.Evidence(target, references, population=population, population_references=others)

    made = [one() for _ in range(9)]
    for inner, attack in ((LiRA(), Averaged(LiRA())), (RMIA(), MajorityRMIA())):
        alone = dv.evaluation.auc(inner.score(made[0]), member).value
        assert dv.evaluation.auc(attack.score(joined(made)), member).value > alone + 0.1
