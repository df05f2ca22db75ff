"""PTDI with confirmed members: the formula by hand, a simulation that could refute its bound, and what breaks it."""

import numpy as np
import pytest

import divulge as dv
from divulge.decisions import PTDI, Moments, fdr
from divulge.decisions.counts import Counts
from divulge.errors import InputError


def naive_estimate(candidates, calibration, members, eta):
    """Non-members' share from the three shares in R, as the docstring says, without counts."""
    tau = np.sort(calibration)[int(eta * len(calibration))]
    shares = [(1 + np.sum(candidates < tau)) / (len(candidates) + 1), np.mean(calibration < tau)]
    n_missed, k = np.sum(members < tau), len(members)
    shares.append(n_missed / (k + 1))
    x = (shares[0] - shares[2]) / (shares[1] - shares[2])
    clipped_share, rate = min(max(x, 0), 1), (n_missed + 0.5) / (k + 1)
    variance = shares[0] * (1 - shares[0]) / len(candidates) + clipped_share**2 * shares[1] * (1 - shares[1]) / len(
        calibration
    )
    variance += (1 - clipped_share) ** 2 * rate * (1 - rate) / k
    s = np.sqrt(variance) / (shares[1] - shares[2])
    return max(x, s) * (1 + (s / max(x, s)) ** 2)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_it_is_the_equation_of_moments_with_its_correction(share):
    rng = np.random.default_rng(0)
    scores = np.append(rng.normal(1, 1, round(40 * share)), rng.normal(size=40 - round(40 * share)))
    calibration, members = rng.normal(size=30), rng.normal(1, 1, 25)
    counts = Counts.empty(calibration).add(scores)
    for eta in (0.1, 0.5):
        top, bottom = Moments(members, eta=eta).null_share(counts)
        assert top / bottom == pytest.approx(naive_estimate(scores, calibration, members, eta))


def test_p_values_are_not_made_smaller_where_confirmed_members_are_as_common_among_low_scores():
    counts = Counts.empty(np.arange(20.0)).add(np.arange(100.0, 110.0))
    top, bottom = Moments([-1.0] * 5).null_share(counts)
    assert top / bottom == 1.0


def test_nothing_is_selected_where_no_calibration_score_lies_in_its_region():
    selection = fdr.select(np.arange(30.0), np.zeros(40), fdr=0.3, method=Moments([1.0]))
    assert selection.count == 0


def test_a_selection_says_that_nothing_is_proven():
    rng = np.random.default_rng(2)
    selection = fdr.select(rng.normal(2, 1, 50), rng.normal(size=100), fdr=0.1, method=Moments(rng.normal(2, 1, 50)))
    assert selection.count > 0
    assert str(selection.guarantee) == "nothing is proven about the FDR"
    assert any("no proof" in text for text in selection.warnings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": []}, "members: at least 1"),
        ({"members": [np.nan]}, "members: "),
        ({"members": [1.0], "eta": 1.0}, "eta: must lie in"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        Moments(**settings)


def test_it_is_refused_by_name_where_a_proof_is_needed():
    with pytest.raises(InputError, match=r"method: Moments does not apply here \(known: auto, bh"):
        dv.identify([1.0, 2.0], np.arange(20.0), method=Moments([1.0]))


MEMBER_SHAPES = {
    "weak": lambda rng, count: rng.normal(0.545, 1, count),
    "middling": lambda rng, count: rng.normal(1.19, 1, count),
    "strong": lambda rng, count: rng.normal(2.33, 1, count),
    "two kinds": lambda rng, count: rng.choice([0.0, 3.0], count) + rng.normal(0, 1, count),
    "some lowest": lambda rng, count: rng.choice([-6.0, 3.0], count) + rng.normal(0, 0.1, count),
}


def proportions(rng, method, n, m, k, share, draw_members, level, runs, candidates=None):
    false, power, members = [], [], round(share * m)
    for _ in range(runs):
        scores = np.append((candidates or draw_members)(rng, members), rng.normal(size=m - members))
        counts = Counts.empty(rng.normal(size=n)).add(scores)
        chosen = scores > fdr.decide(counts, fdr=level, method=method(draw_members(rng, k))).threshold
        false.append(chosen[members:].sum() / max(chosen.sum(), 1))
        power.append(chosen[:members].mean() if members else 0.0)
    return np.array(false), np.mean(power)


@pytest.mark.parametrize(
    ("n", "m", "k", "shape"),
    [
        (50, 5, 100, "weak"),
        (1000, 20, 20, "weak"),
        (50, 200, 20, "middling"),
        (1000, 10, 100, "strong"),
        (200, 200, 500, "two kinds"),
        (50, 200, 20, "some lowest"),
    ],
)
def test_its_bound_is_kept_where_confirmed_members_are_like_the_others(n, m, k, shape):
    """A mean above the level by four standard errors: 3e-5 a cell for a method that keeps it, some 1 % over all."""
    rng, draw_members = np.random.default_rng([n, m, k]), MEMBER_SHAPES[shape]
    for share in (0.0, 0.3, 0.9):
        for level in (0.1, 0.5):
            false, _ = proportions(rng, Moments, n, m, k, share, draw_members, level, 100)
            error = false.std(ddof=1) / np.sqrt(len(false))
            assert false.mean() <= level + 4 * error + 1e-12, (share, level, false.mean())


def test_the_bound_is_kept_where_members_are_hardly_told_from_others():
    """Where the estimate of the share, uncorrected for its variance, has 2.7 times the level."""
    rng = np.random.default_rng(3)
    weak = lambda rng, count: rng.normal(0.2, 1, count)  # noqa: E731
    false, _ = proportions(rng, Moments, 1000, 10, 100, 0.0, weak, 0.1, 400)
    assert false.mean() <= 0.1 + 4 * np.sqrt(0.09 / 400)


def test_confirmed_members_unlike_the_others_break_the_bound():
    """Canaries that score lower than the members among the candidates: too much is subtracted."""
    rng = np.random.default_rng(4)
    false, _ = proportions(
        rng,
        Moments,
        500,
        1000,
        500,
        0.3,
        MEMBER_SHAPES["weak"],
        0.1,
        40,
        candidates=lambda rng, count: rng.normal(6, 1, count),
    )
    assert false.mean() > 0.13


def test_confirmed_members_raise_the_power():
    rng = np.random.default_rng(5)
    cell = (500, 1000, 500, 0.7, MEMBER_SHAPES["middling"], 0.1, 60)
    ours, ptdi_power = (proportions(rng, method, *cell)[1] for method in (Moments, lambda _: PTDI()))
    assert ours > ptdi_power + 0.03
