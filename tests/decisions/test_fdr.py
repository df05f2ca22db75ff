"""Selections with a bounded false discovery rate: naive oracles, simulated guarantees, traps reproduced."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln

import divulge as dv
from divulge.decisions import fdr
from divulge.decisions.counts import Counts, p_values
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Auto, Storey, resolve_method
from divulge.errors import InputError

SCORES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=25)


def naive_p(candidates, calibration):
    return [Fraction(1 + sum(s >= t for s in calibration), 1 + len(calibration)) for t in candidates]


def naive_step_up(p, level, m):
    """Benjamini & Hochberg as written: the largest k with p_(k) ≤ kα/m, in exact arithmetic."""
    passing = [k for k, value in enumerate(sorted(p), 1) if value <= k * level / m]
    return [value <= sorted(p)[passing[-1] - 1] for value in p] if passing else [False] * len(p)


def naive_null_share(method, candidates, calibration):
    m, n = len(candidates), len(calibration)
    if method == "bh":
        return Fraction(1)
    if method == "ptdi":
        # The paper's own orientation: T is low for members, R = (τ, ∞), τ the upper 5 % quantile of calibration.
        low, test = sorted(-s for s in calibration), [-t for t in candidates]
        tau = next(t for t in low if Fraction(sum(s <= t for s in low), n) >= 1 - Fraction(1, 20))
        inside = Fraction(sum(s > tau for s in low), n)
        return Fraction(1 + sum(t > tau for t in test), m + 1) / inside if inside else None
    lam = Fraction(max((n + 1) // 2, 1), n + 1)
    return (1 + sum(p >= lam for p in naive_p(candidates, calibration))) / (m * (1 - lam))


@pytest.mark.parametrize("method", ["bh", "ptdi", "storey"])  # the mean of six ratios is no ratio of whole numbers
@given(candidates=SCORES, calibration=st.lists(st.integers(-4, 4).map(float), min_size=4, max_size=25))
@settings(max_examples=40, deadline=None)
def test_selection_is_the_textbook_procedure_in_exact_arithmetic(method, candidates, calibration):
    if len({*candidates, *calibration}) == 1:
        return
    level = Fraction(1, 4)
    selection = fdr.select(candidates, calibration, fdr=float(level), method=method)
    p = naive_p(candidates, calibration)
    share = naive_null_share(method, candidates, calibration)
    chosen = [False] * len(p) if share is None else naive_step_up([share * v for v in p], level, len(candidates))
    assert selection.p_values.tolist() == [float(value) for value in p]
    assert selection.selected.tolist() == chosen
    threshold = fdr.threshold(candidates, calibration, fdr=float(level), method=method)
    assert (np.array(candidates) > threshold).tolist() == selection.selected.tolist()


@given(candidates=SCORES, calibration=SCORES, parts=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_counts_stream_and_merge_exactly(tmp_path_factory, candidates, calibration, parts):
    counted_together = Counts.empty(calibration).add(candidates)
    pieces = [Counts.empty(calibration).add(piece) for piece in np.array_split(candidates, parts) if len(piece)]
    path = tmp_path_factory.mktemp("counts") / "c.npz"
    pieces[0].save(path)
    merged = Counts.load(path)
    for piece in pieces[1:]:
        merged = merged.merge(piece)
    assert merged.total == counted_together.total == len(candidates)
    assert (
        merged.above.tolist()
        == counted_together.above.tolist()
        == [sum(t > s for t in candidates) for s in sorted(calibration)]
    )
    once, p = Counts.empty(calibration).add_with_p_values(candidates)
    assert (once.above.tolist(), once.tied.tolist(), once.total) == (
        counted_together.above.tolist(),
        counted_together.tied.tolist(),
        counted_together.total,
    )
    assert p.tolist() == [float(value) for value in naive_p(candidates, calibration)]
    assert (
        merged.tied.tolist()
        == counted_together.tied.tolist()
        == [sum(t == s for t in candidates) for s in sorted(calibration)]
    )


def test_counts_of_other_calibration_are_not_merged():
    with pytest.raises(InputError, match="same calibration"):
        Counts.empty([1.0]).merge(Counts.empty([2.0]))


def proportions(method, n, m, share, level, shape, runs, rng, shift=0.0, signal=2.0):
    false, power = [], []
    members = round(share * m)
    for _ in range(runs):
        scores = shape(np.append(rng.normal(signal, 1, members), rng.normal(shift, 1, m - members)))
        rule = fdr.decide(Counts.empty(shape(rng.normal(size=n))).add(scores), fdr=level, method=method)
        chosen = scores > rule.threshold
        false.append(chosen[members:].sum() / max(chosen.sum(), 1))
        power.append(chosen[:members].mean() if members else 0.0)
    return np.array(false), np.array(power)


@pytest.mark.parametrize(
    ("signal", "share", "expected_power"),
    [
        (1.190, 0.5, {"bh": 0.066, "ptdi": 0.206, "storey": 0.148}),
        (2.326, 0.7, {"bh": 0.761, "ptdi": 0.928, "storey": 0.943}),
    ],
)
def test_power_is_what_the_methods_can_give(signal, share, expected_power):
    rng = np.random.default_rng(3)
    for method, value in expected_power.items():
        _, power = proportions(method, 500, 1000, share, 0.1, np.asarray, 150, rng, signal=signal)
        assert abs(power.mean() - value) < 4 * power.std() / np.sqrt(150) + 0.005, (method, power.mean())


def step_up(p, level):
    passing = np.flatnonzero(np.sort(p) <= level * np.arange(1, len(p) + 1) / len(p))
    return p <= np.sort(p)[passing[-1]] if passing.size else np.zeros(len(p), bool)


def trap_rate(p_of, runs, seed, n=50, m=100, share=0.0, level=0.1):
    rng = np.random.default_rng(seed)
    false = []
    for _ in range(runs):
        members = round(share * m)
        scores = np.append(rng.normal(2, 1, members), rng.normal(size=m - members))
        chosen = step_up(p_of(scores, rng.normal(size=n)), level)
        false.append(chosen[members:].sum() / max(chosen.sum(), 1))
    return np.mean(false)


def test_the_one_in_the_p_value_keeps_the_bound():
    # No member, so the rate is the chance of any selection. With the one it is at most 0.1: more than 0.185 of 200 runs
    # have probability 1e-4.
    assert trap_rate(lambda t, s: (s[None] >= t[:, None]).mean(1), 200, 4) > 0.4
    assert trap_rate(lambda t, s: p_values(t, np.sort(s)), 200, 4) <= 0.185


def test_counting_ties_keeps_the_bound():
    def strict(t, s):
        return (1 + (s[None] > t[:, None]).sum(1)) / (len(s) + 1)

    def signs(statistic):
        return lambda t, s: statistic(np.sign(np.round(t)), np.sort(np.sign(np.round(s))))

    assert trap_rate(signs(strict), 200, 5) > 0.2
    assert trap_rate(signs(p_values), 200, 5) <= 0.185


def test_ptdi_without_its_ones_breaks_the_bound_and_with_them_keeps_it():
    def without(t, s):
        low = np.sort(s)[max(int(0.05 * len(s)), 1) - 1]
        share = min((t <= low).mean() / (s <= low).mean(), 1)
        return share * (1 + (s[None] >= t[:, None]).sum(1)) / (len(s) + 1)

    assert trap_rate(without, 200, 6, n=100, m=10) > 0.3
    rng = np.random.default_rng(6)
    # 0.005 in that cell: more than 12 of 1,000 have probability 2e-3.
    false, _ = proportions("ptdi", 100, 10, 0.0, 0.1, np.asarray, 1000, rng)
    assert false.mean() <= 0.012


def test_shift_breaks_everything_and_adaptivity_most():
    rng = np.random.default_rng(7)
    rates = {
        method: proportions(method, 500, 1000, 0.3, 0.1, np.asarray, 60, rng, shift=0.5)[0].mean()
        for method in fdr.METHODS
    }
    assert 0.13 < rates["bh"] < rates["storey"] < rates["ptdi"]
    assert rates["storey"] > 0.2


@pytest.mark.parametrize(("m", "eta", "excess"), [(5, 0.5, 1.1625), (2, 0.5, 1.125), (125, 0.05, 1.006)])
def test_the_excess_of_ptdi_is_what_its_warning_says(m, eta, excess):
    """Its rate without members, by p-values of a very large calibration; three standard errors: .3 % a case."""
    rng = np.random.default_rng(12)
    p = np.sort(rng.random((200_000, m)))
    share = (1 + (p > 1 - eta).sum(1)) / ((m + 1) * eta)
    rate = np.any(p * share[:, None] <= 0.1 * np.arange(1, m + 1) / m, axis=1).mean()
    assert rate / 0.1 == pytest.approx(excess, abs=3 * np.sqrt(0.9 / 0.1 / 200_000))
    warned = PTDI(eta).caution(m)
    assert bool(warned) == (excess > 1.01)
    assert all(f"{excess:.2f} times its bound" in text for text in warned)


@pytest.mark.parametrize(("n", "m", "share", "eta"), [(20, 10, 0.0, 0.05), (100, 50, 0.4, 0.05), (40, 200, 0.0, 0.5)])
def test_ptdi_does_not_underestimate_the_share_of_nonmembers_on_average(n, m, share, eta):
    """E[(1 - π) / (1 - π̂)], members never in R: its closed form by Beta functions is at most 1, and met."""
    nulls, inside = round((1 - share) * m), int(eta * n + 1e-9)
    # R reaches to the calibration score next to the outermost ``inside``: its mass is Beta(inside + 1, n - inside).
    missed = np.exp(betaln(inside, n - inside + nulls + 1) - betaln(inside + 1, n - inside))
    expected = nulls * (m + 1) / (m * (nulls + 1)) * (1 - inside / n * missed)
    assert expected <= 1
    rng, share_ratios = np.random.default_rng(14), []
    for _ in range(4000):
        counts = Counts.empty(rng.random(n)).add(np.append(rng.random(nulls), np.full(m - nulls, 2.0)))
        top, bottom = PTDI(eta).null_share(counts)
        share_ratios.append((1 - share) * bottom / top)
    assert np.mean(share_ratios) == pytest.approx(expected, abs=4 * np.std(share_ratios) / np.sqrt(4000))


def test_a_selection_says_that_its_candidates_are_too_few_for_the_bound():
    rng = np.random.default_rng(13)
    candidates, calibration = rng.normal([4, 4, 4, -1, -1], 0.5), rng.normal(size=100)
    for method, is_doubtful in ((PTDI(0.5), True), (PTDI(), False), ("storey", False)):
        for selection in (
            fdr.select(candidates, calibration, fdr=0.5, method=method),
            dv.identify(candidates, calibration, holdout=rng.normal(size=200), fdr=0.5, method=method),
        ):
            assert any("1.16 times its bound" in text for text in selection.warnings) == is_doubtful
            assert selection.guarantee.standing == ("doubtful" if is_doubtful else "holds")
        assert "".join(selection.warnings).startswith("the guarantee is in doubt: with 5") == is_doubtful


@pytest.mark.parametrize(
    ("candidates", "calibration"),
    [(np.arange(30.0), np.arange(19.0)), ([1.0] * 5 + [0.0] * 5, [0.0] * 40), ([1.0, 0.0], [0.0] * 20 + [0.5] * 20)],
    ids=["fewer than 1/eta", "constant", "ties"],
)
def test_ptdi_selects_nothing_where_no_calibration_score_lies_in_its_region(candidates, calibration):
    selection = fdr.select(candidates, calibration, fdr=0.3, method="ptdi")
    assert selection.count == 0
    assert "none of the" in selection.warnings[-1]
    assert "storey and bh need no such score" in selection.warnings[-1]
    assert fdr.select(candidates, calibration, fdr=0.3, method="bh").count > 0


def test_every_method_rests_on_one_assumption():
    rng = np.random.default_rng(13)
    for method in fdr.METHODS:
        selection = fdr.select(rng.normal(size=50), rng.normal(size=200), fdr=0.2, method=method)
        assert selection.guarantee.assumes == fdr.ASSUMES
        assert not any("its bound" in warning for warning in selection.warnings)


def test_the_outermost_grid_point_is_one_that_can_be_counted_beyond():
    """A ``lam`` that no calibration score lies beyond is the last one that does; nothing is divided by zero."""
    selection = fdr.select(np.full(40, 9.0), np.arange(5.0), fdr=0.5, method=Storey(1 - 1e-12))
    assert np.array_equal(
        selection.selected, fdr.select(np.full(40, 9.0), np.arange(5.0), fdr=0.5, method=Storey(5 / 6)).selected
    )
    assert Storey(1 - 1e-12).grid(5) == 5


def test_planner_gives_the_least_calibration():
    assert fdr.required_calibration(1000, 0.05, 100) == 199
    for m, level, selected in ((1000, 0.05, 100), (10, 0.1, 10), (77, 0.03, 5)):
        n = fdr.required_calibration(m, level, selected)
        best = np.append(np.full(selected, 2.0), np.full(m - selected, -1.0))
        assert fdr.select(best, np.zeros(n), fdr=level, method="bh").count == selected
        if level * n >= 1:
            assert fdr.select(best, np.zeros(n - 1), fdr=level, method="bh").count == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, np.nan], [0.0]), "candidates: 1 values are NaN"),
        (([1.0], []), "calibration: at least 1 entry"),
        (([], [1.0]), "candidates: at least 1 entry"),
        (([1.0, 2.0], np.arange(10)), "at least 19 are needed"),
        (([1.0, 1.0], np.ones(50)), "every score, calibration included, is 1"),
    ],
)
def test_bad_input_says_what_would_do(arguments, message):
    with pytest.raises(InputError, match=message):
        fdr.select(*arguments, fdr=0.05)


@pytest.mark.parametrize(
    "options", [{"fdr": 0.0}, {"fdr": 1.0}, {"fdr": 0.1, "method": "by"}, {"method": None}, {"method": AdaDetect()}]
)
def test_levels_and_methods_are_checked(options):
    with pytest.raises(InputError):
        fdr.select([1.0, 2.0], np.arange(99), **{"fdr": 0.1, **options})


def test_methods_are_values_and_names_are_short_for_them():
    rng = np.random.default_rng(14)
    scores, calibration = np.append(rng.normal(3, 1, 60), rng.normal(size=60)), rng.normal(size=200)
    for method in (BH(), PTDI(), Storey(), Adaptive()):
        assert resolve_method(method.name, (type(method),)) == method
        from_name, from_value = (fdr.select(scores, calibration, fdr=0.1, method=m) for m in (method.name, method))
        assert np.array_equal(from_name.selected, from_value.selected)
    assert resolve_method("auto", (Auto,), eta=0.1, lam=0.3) == Auto(storey=Storey(0.3))
    for make in (PTDI, Storey):
        for value in (0.0, 1.0, np.nan, "0.5"):
            with pytest.raises(InputError, match=r"eta|lam"):
                make(value)


def test_an_empty_selection_says_what_it_would_take():
    rng = np.random.default_rng(8)
    selection = fdr.select(rng.normal(size=1000), rng.normal(size=40), fdr=0.05)
    assert selection.count == 0
    assert selection.threshold == np.inf
    assert "nothing was selected" in selection.warnings[0]
    assert "AUC near 0.65" in selection.warnings[0]


def test_an_empty_selection_never_asks_for_more_candidates_than_there_are():
    """The estimated share of non-members can exceed 1: then not even all candidates would be enough."""
    calibration = np.arange(19.0)
    scores = np.r_[np.full(810, -1.0), np.full(790, 9.5)]
    selection = fdr.select(scores, calibration, fdr=0.05)
    assert selection.count == 0
    assert "not even all 1600 candidates would be enough" in selection.warnings[0]
    n_needed = int(selection.warnings[0].partition("more calibration (")[2].split()[0])
    assert n_needed > fdr.required_calibration(1600, 0.05, 1)
    larger = fdr.select(scores, np.arange(0.0, 19.0, 0.1), fdr=0.05)
    assert "a selection needs at least" in larger.warnings[0]


def test_of_equal_calibration_scores_it_is_said_which_p_values_there_are():
    selection = fdr.select(np.r_[np.zeros(5), np.ones(5)], np.zeros(19), fdr=0.2)
    assert set(selection.p_values) == {1.0, 1 / 20}
    assert any("all 19 calibration scores are 0: p-values are 1 or 1/20" in warning for warning in selection.warnings)
