"""Sets that are unlike the calibration as a whole, and how many of a set were used, at least."""

import numpy as np
import pytest

import divulge as dv
from divulge.decisions.counts import Counts
from divulge.identification.decision import count_members

DRAWS = 60


def lists(n_used, shift, seed, *, gain=2.33):
    """Selections of 100 candidates of normal scores; a gain of 2.33 standard deviations is an AUC of .95."""
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        candidates = rng.normal(shift, 1, 100) + np.where(np.arange(100) < n_used, gain, 0)
        yield dv.identify(candidates, rng.normal(size=400), fdr=0.1, holdout=rng.normal(size=400))


@pytest.mark.parametrize("shift", [2, 4])
def test_a_list_of_a_set_that_is_shifted_as_a_whole_is_hardly_ever_held(shift):
    """None was used. A rate of 5 % of held lists would give 12 or more of 60 with a probability below 1/1000."""
    held = [found for found in lists(0, shift, shift) if found.count and found.guarantee.standing == "holds"]
    assert len(held) < 12


def test_honest_lists_of_a_set_half_of_which_was_used_are_rarely_in_doubt():
    """Other controls doubt up to 10 %, this one hardly any: 17 or more of 60 have a probability below 1/1000."""
    assert sum(found.guarantee.standing != "holds" for found in lists(50, 0, 9)) < 17


def test_texts_that_are_alike_let_a_list_of_nearly_all_candidates_stand():
    """The attack is perfect, and nine in ten were used: what the scores cannot tell, the texts do."""
    rng = np.random.default_rng(1)
    words = [f"{a}{b}" for a in ("mo", "lin", "tar") for b in ("ra", "sto", "ken", "bil")]
    texts = [" ".join(rng.choice(words, 30)) for _ in range(900)]
    candidates = rng.normal(size=400) + np.where(np.arange(400) < 360, 9, 0)
    calibration, holdout = rng.normal(size=500), rng.normal(size=500)
    bare = dv.identify(candidates, calibration, fdr=0.1, holdout=holdout)
    assert bare.guarantee.standing == "doubtful"
    assert "nearly all" in bare.warnings[0]
    compared = dv.identify(
        candidates, calibration, fdr=0.1, holdout=holdout, candidate_texts=texts[:400], calibration_texts=texts[400:]
    )
    assert compared.guarantee.standing == "holds"
    assert compared.count >= 360


@pytest.mark.parametrize(("m", "n", "decimals"), [(300, 1500, 1), (50, 100, 12), (20, 1000, 12)])
def test_no_more_are_said_to_be_used_than_were(m, n, decimals):
    """At 95 %: 21 or more failures of 200 draws have a probability below 1/1000."""
    rng = np.random.default_rng(m)
    failures = 0
    for draw in range(200):
        n_used = 0 if draw % 2 else m // 5
        candidates = np.append(rng.beta(5, 2, m - n_used), 1 - 0.4 * rng.beta(1, 3, n_used))
        counts = Counts.empty(rng.beta(5, 2, n).round(decimals)).add(candidates.round(decimals))
        failures += count_members(counts) > n_used
    assert failures < 21
