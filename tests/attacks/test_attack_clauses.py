"""Clauses of attacks: the parts of a choice, moments and their limits, and refusals with their messages."""

import math

import numpy as np
import pytest
from scipy import special, stats

from divulge import Evidence
from divulge.attacks import RMIA, LiRA, Threshold, auto, lira, protocol, residual, threshold
from divulge.attacks import reference_moments as moments_of
from divulge.attacks.auto import Auto, Option
from divulge.attacks.bavaria import BaVarIA
from divulge.attacks.learned import Learned
from divulge.attacks.protocol import Need
from divulge.attacks.reference_moments import ColumnMoments, LessOne, moments
from divulge.attacks.residual import Residual, Transductive
from divulge.errors import InputError

LOSS = Option("loss", "log-probability", Threshold())
LIRA = Option("lira", "scaled logit", LiRA())


# Auto


def test_scaled_logits_become_what_an_option_takes():
    logits = np.array([-800.0, -1.0, 0.0, 2.0])
    evidence = Evidence(logits, logits[None], population=logits[:2], population_references=logits[None, :2])
    assert auto.convert_unit(evidence, "scaled logit") is evidence
    log = auto.convert_unit(evidence, "log-probability")
    plain = auto.convert_unit(evidence, "probability")
    assert log.target == pytest.approx([-800.0, -np.log1p(np.e), -np.log(2), -np.log1p(np.exp(-2))])
    assert plain.references[0] == pytest.approx([0.0, 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-2))])
    assert plain.population_references[0] == pytest.approx(plain.population)
    assert auto.convert_unit(Evidence(logits), "probability").references is None


@pytest.mark.parametrize("n_nonmembers", [5, 6, 249, 250, 251, 299, 300, 400])
def test_the_merit_counts_members_above_all_but_a_few_nonmembers(n_nonmembers):
    rng = np.random.default_rng(n_nonmembers)
    scores = np.append(rng.integers(0, 90, 40), rng.integers(0, 60, n_nonmembers)) * 1.0
    member = np.arange(len(scores)) < 40
    positive, negative = scores[member], np.sort(scores[~member])[::-1]
    auc = np.mean((positive[:, None] > negative) + (positive[:, None] == negative) / 2)
    limit = negative[max(5, int(0.02 * n_nonmembers)) - 1]
    assert auto.game_merit(scores, member) == (pytest.approx(auc), pytest.approx((positive > limit).mean()))


@pytest.mark.parametrize(("n", "plays"), [(400, True), (199, False)])
def test_a_game_has_fifty_members_and_fifty_others(n, plays):
    rng = np.random.default_rng(0)
    inside = np.tile(np.arange(n) % 2 == 0, (2, 1))
    evidence = Evidence(
        np.zeros(2), np.zeros((2, 2)), population=rng.normal(size=n), population_references=rng.normal(size=(2, n)),
        population_trained_on=inside,
    )  # fmt: skip
    games = list(auto.play_games(evidence, 4000, 16, 0))
    assert len(games) == (2 if plays else 0)
    assert len(list(auto.play_games(evidence, 4000, 1, 0))) == plays
    assert list(auto.play_games(evidence, 150, 16, 0)) == []
    for game, member in games:
        assert min(member.sum(), (~member).sum(), len(game.population)) >= 50
        # the real target saw none of these records, and the other model every second one
        assert len(game.references) == 2
        assert len(game.target) + len(game.population) <= n
    without = Evidence(np.zeros(2), np.zeros((2, 2)), population=np.zeros(n), population_references=np.zeros((2, n)))
    assert list(auto.play_games(without, 4000, 16, 0)) == []


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"options": ()}, "options: at least 1"), ({"options": (Threshold(),)}, "options"),
        ({"joined": ("a",)}, "joined"),
        ({"margin": -0.01}, "margin"), ({"most": 0}, "most"), ({"games": 0}, "games"), ({"seed": -1}, "seed"),
    ],
)  # fmt: skip
def test_settings_of_auto_are_checked(arguments, name):
    with pytest.raises(InputError, match=f"Auto.{name}"):
        Auto(**arguments)
    assert Auto(margin=0, most=1, games=1, joined=()).joined == ()


# Moments over models


def test_moments_by_numpy_with_and_without_a_mask():
    rng = np.random.default_rng(1)
    values, keep = rng.normal(5, 1, size=(6, 40)), rng.random((6, 40)) < 0.5
    for mask, complement in ((None, False), (keep, False), (keep, True)):
        chosen = np.ones_like(keep) if mask is None else (~keep if complement else keep)
        found = moments(values, mask, complement=complement)
        for column in range(40):
            part = values[chosen[:, column], column]
            assert found.count[column] == len(part)
            if len(part):
                assert found.mean[column] == pytest.approx(part.mean())
            assert found.squares[column] == pytest.approx(((part - part.mean()) ** 2).sum() if len(part) > 1 else 0.0)
        every = values[chosen]
        assert found.total == len(every)
        assert found.grand_mean == pytest.approx(every.mean())
        assert found.total_variance == pytest.approx(every.var(ddof=1))
        assert found.pooled_variance == pytest.approx(found.squares.sum() / np.maximum(found.count - 1, 0).sum())
        plain = moments(values, mask, complement=complement, spread=False)
        assert plain.mean[found.count > 0] == pytest.approx(found.mean[found.count > 0])
        assert not plain.squares.any()


def test_a_spread_that_cannot_be_told_is_one():
    single = ColumnMoments(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.zeros(2))
    assert (single.pooled_variance, single.total_variance, single.variance().tolist()) == (1.0, 1.0, [1.0, 1.0])
    lone = ColumnMoments(np.array([1.0]), np.array([2.0]), np.zeros(1))
    assert (lone.total_variance, lone.grand_mean) == (1.0, 2.0)
    pair = ColumnMoments(np.array([3.0, 2.0, 1.0]), np.array([0.0, 4.0, 9.0]), np.array([4.0, 0.0, 0.0]))
    assert pair.pooled_variance == pytest.approx(4 / 3)
    assert pair.variance() == pytest.approx([2.0, 4 / 3, 4 / 3])


@pytest.mark.parametrize("m", [2, 3, 5])
def test_one_value_less_is_the_moments_of_the_others(m):
    rng = np.random.default_rng(m)
    values, keep = rng.normal(size=(m, 30)), rng.random((m, 30)) < 0.7
    less = LessOne(moments(values, keep))
    for row in range(m):
        others = keep.copy()
        others[row] = False
        found, expected = less(values[row], keep[row]), moments(values, others)
        assert found.count.tolist() == expected.count.tolist()
        has_values = expected.count > 0
        assert found.mean[has_values] == pytest.approx(expected.mean[has_values])
        assert found.squares == pytest.approx(expected.squares, abs=1e-12)


def test_a_side_without_models_borrows_the_other_moved_by_the_average_difference():
    into = ColumnMoments(np.array([2.0, 2.0, 0.0, 0.0]), np.array([5.0, 7.0, 0.0, 0.0]), np.zeros(4))
    out = ColumnMoments(np.array([2.0, 0.0, 2.0, 0.0]), np.array([2.0, 0.0, 1.0, 0.0]), np.zeros(4))
    mean_in, mean_out = moments_of.means(into, out)
    assert mean_in.tolist() == [5.0, 7.0, 4.0, 6.0]
    assert mean_out.tolist() == [2.0, 4.0, 1.0, 1.5]
    apart_in = ColumnMoments(np.array([1.0, 0.0]), np.array([5.0, 0.0]), np.zeros(2))
    apart_out = ColumnMoments(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.zeros(2))
    assert [side.tolist() for side in moments_of.means(apart_in, apart_out)] == [[5.0, 5.0], [1.0, 1.0]]


def test_equally_many_models_are_what_nine_in_ten_have():
    rng = np.random.default_rng(3)
    out = np.zeros((5, 20), bool)
    for column, count in enumerate([5] * 9 + [2] + [4] * 9 + [1]):
        out[:count, column] = True
    chosen, has_enough = moments_of.equal_counts(out, np.arange(20) < 10, rng)
    # the tenth of ten members has 2 models, and of ten others 1: the lower tenth is the second lowest or the lowest
    number = min(int(np.quantile(side, 0.1, method="lower")) for side in ([5] * 9 + [2], [4] * 9 + [1]))
    assert has_enough.tolist() == (out.sum(axis=0) >= number).tolist()
    assert (chosen.sum(axis=0) == np.minimum(out.sum(axis=0), number)).all()
    assert not (chosen & ~out).any()
    none, enough = moments_of.equal_counts(np.zeros((2, 4), bool), np.zeros(4, bool), rng)
    assert not none.any()
    assert not enough.any()


@pytest.mark.parametrize("left_out", [None, "some", "a column"])
def test_the_logarithm_of_a_mean_of_exponentials(left_out):
    rng = np.random.default_rng(4)
    values = rng.normal(-300, 50, size=(4, 9))
    mask = None if left_out is None else rng.random((4, 9)) < 0.4
    if left_out == "some":
        mask[0] = False
    if left_out == "a column":
        mask[:, 3] = True
    used = np.ones_like(values, bool) if mask is None else ~mask
    overall = special.logsumexp(values[used]) - np.log(used.sum())
    expected = [
        special.logsumexp(values[used[:, j], j]) - np.log(used[:, j].sum()) if used[:, j].any() else overall
        for j in range(9)
    ]
    assert moments_of.log_mean(values, mask) == pytest.approx(expected, abs=1e-5)


# LiRA


def test_a_record_without_out_models_is_compared_with_all_values():
    references = np.array([[1.0, 5.0], [3.0, 6.0], [2.0, 10.0]])
    trained_on = np.array([[True, False], [True, False], [True, False]])
    scores = LiRA().score(Evidence([4.0, 8.0], references, trained_on))
    values = references[:, 1]
    assert scores[0] == pytest.approx((4.0 - values.mean()) / values.std(ddof=1))
    assert scores[1] == pytest.approx((8.0 - values.mean()) / values.std(ddof=1))


def test_log_ratios_are_of_two_gaussians():
    rng = np.random.default_rng(5)
    references, trained_on = rng.normal(size=(8, 12)), np.tile([True, False], 4)[:, None] & np.ones(12, bool)
    target = rng.normal(size=12)
    for variance in ("global", "per_record"):
        sides = [references[::2], references[1::2]]
        spreads = [side.var(axis=0, ddof=1) for side in sides]
        if variance == "global":
            spreads = [spread.mean() for spread in spreads]
        logs = [
            stats.norm(side.mean(axis=0), np.sqrt(spread)).logpdf(target)
            for side, spread in zip(sides, spreads, strict=True)
        ]
        scores = LiRA("online", variance).score(Evidence(target, references, trained_on))
        assert scores == pytest.approx(logs[0] - logs[1])


def test_every_other_model_a_partner_leaves_nothing_to_compare_with():
    inside = np.array([np.arange(40) < 20, np.arange(40) >= 20])
    with pytest.raises(
        InputError, match="trained_on: every other model was trained on what model 0 was not trained on"
    ):
        lira.leave_one_out(np.random.default_rng(0).normal(size=(2, 40)), inside)
    with pytest.raises(InputError, match="signals: at least 2 models are needed, got 1"):
        lira.leave_one_out(np.zeros((1, 4)), np.zeros((1, 4), bool))


# Residuals, traces, settings


@pytest.mark.parametrize(
    ("n", "folds", "message"), [(19, 5, "at least 20 candidates"), (20, 21, "folds"), (20, 1, "folds")]
)
def test_a_residual_needs_twenty_records_and_as_many_as_folds(n, folds, message):
    with pytest.raises(InputError, match=message):
        residual.unexplained(np.arange(float(n)), np.ones((n, 1)), None, folds, 0)
    assert len(residual.unexplained(np.arange(20.0), np.arange(20.0)[:, None], None, 20, 0)) == 20


@pytest.mark.parametrize(("columns", "components"), [(3, 3), (4, 3), (2, 3), (6, 1)])
def test_leading_directions_are_the_principal_ones(columns, components):
    rng = np.random.default_rng(8)
    features = rng.normal(size=(30, columns)) * np.arange(1, columns + 1)
    found = residual.leading(features, components)
    if columns <= components:
        assert np.array_equal(found, features)
        return
    centred = features - features.mean(axis=0)
    _, singular, _ = np.linalg.svd(centred, full_matrices=False)
    assert np.sort((found**2).sum(axis=0))[::-1] == pytest.approx(singular[:components] ** 2)
    with pytest.raises(InputError, match=r"evidence\.features must be numbers, got texts"):
        residual.leading(np.array([["a"], ["b"]], object), 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Transductive(folds=1), "Transductive.folds"), (lambda: Transductive(seed=-1), "Transductive.seed"),
        (lambda: Residual(Threshold(), components=0), "Residual.components"),
        (lambda: Residual(Threshold(), folds=1), "Residual.folds"),
        (lambda: RMIA(gamma=0.0), "RMIA.gamma"), (lambda: RMIA(offline_a=1.1), "RMIA.offline_a"),
        (lambda: RMIA(offline_a=-0.1), "RMIA.offline_a"),
        (lambda: Learned("online", few=True), "Learned.few: only offline"),
        (lambda: Learned(beside=True), "Learned.beside: only with few=True"), (lambda: Learned(most=0), "Learned.most"),
        (lambda: BaVarIA("both"), "BaVarIA.mode"),
    ],
)  # fmt: skip
def test_settings_out_of_their_range_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
    assert (RMIA(offline_a=0.0).offline_a, RMIA(offline_a=1.0).offline_a) == (0.0, 1.0)


@pytest.mark.parametrize(("low", "high", "is_allowed"), [(0.0, 1.0, True), (0.5, 0.5, False), (0.6, 0.5, False)])
def test_quantiles_of_a_trace_are_in_order(low, high, is_allowed):
    losses = np.array([[3.0, 1.0], [1.0, 1.0]])
    if is_allowed:
        assert threshold.at_risk(losses, low=low, high=high).tolist() == [2.0, 0.0]
        return
    with pytest.raises(InputError, match=f"low: must be less than high, got {low:g} and {high:g}"):
        threshold.at_risk(losses, low=low, high=high)
    with pytest.raises(InputError, match="losses: at least 2 epochs are needed, got 1"):
        threshold.at_risk(losses[:1])


def test_learning_needs_models_that_hold_and_lack_a_record():
    rng = np.random.default_rng(9)
    signals, inside = rng.normal(size=(3, 50)), rng.random((3, 50)) < 0.5
    candidates = np.zeros((3, 4))

    def score(attack, references=signals, trained_on=inside):
        evidence = Evidence(
            np.zeros(4), candidates[: len(references)], population=rng.normal(size=50),
            population_references=references, population_trained_on=trained_on,
        )  # fmt: skip
        return attack.score(evidence)

    assert len(score(Learned())) == len(score(Learned(few=True), signals[:1], inside[:1])) == 4
    for references, trained_on in ((signals[:2], inside[:2]), (signals, inside | True), (signals, inside & False)):
        with pytest.raises(InputError, match="Learned: at least 3 reference models that were trained on some"):
            score(Learned(), references, trained_on)


def test_online_attacks_need_models_of_both_kinds():
    assert protocol.references_for_mode("online", Need.POPULATION) == {Need.REFERENCES_IN_AND_OUT}
    assert protocol.references_for_mode("offline", Need.POPULATION) == {Need.REFERENCES_OUT, Need.POPULATION}
    assert protocol.references_for_mode("offline") == {Need.REFERENCES_OUT}
    assert math.isfinite(LiRA("online").score(Evidence([1.0], [[0.0], [2.0]], [[True], [False]]))[0])
    for trained_on in (None, [[False], [False]]):
        with pytest.raises(InputError, match="LiRA"):
            LiRA("online").score(Evidence([1.0], [[0.0], [2.0]], trained_on))
    with pytest.raises(InputError, match="LiRA"):
        LiRA().score(Evidence([1.0], [[0.0], [2.0]], [[True], [True]]))
