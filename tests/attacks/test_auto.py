"""The choice of attacks: what it rests on, that they are the best by its own measure, and that it costs nothing."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats
from sklearn import metrics

import divulge as dv
from divulge.attacks import BASE, RMIA, Auto, Learned, LiRA, Residual, Threshold, adapt, auto
from divulge.recipes import resolve

N, Z = 400, 1200


def case(seed, models=4, *, lift=2.0, spread=2.0, features=False):
    """Hard and easy records, a target and references that were trained on alternate halves of the population."""
    rng = np.random.default_rng(seed)
    member = rng.random(N) < 0.5
    hard, population_hardness = spread * rng.normal(size=N), spread * rng.normal(size=Z)
    inside = (np.arange(models)[:, None] % 2 == 0) ^ (rng.random(((models + 1) // 2, Z)) < 0.5).repeat(2, 0)[:models]
    parts = {"features": rng.normal(size=(N, 2)), "population_features": rng.normal(size=(Z, 2))} if features else {}
    evidence = dv.Evidence(
        hard + lift * member + rng.normal(size=N),
        hard + rng.normal(size=(models, N)),
        np.zeros((models, N), bool),
        population_hardness + rng.normal(size=Z),
        population_hardness + lift * inside + rng.normal(size=(models, Z)),
        population_trained_on=inside,
        **parts,
    )
    return evidence, member


def auc(scores, member):
    return stats.mannwhitneyu(scores[member], scores[~member]).statistic / (member.sum() * (~member).sum())


def deviates_of(scores):
    return stats.norm.ppf(np.array([(scores < s).sum() + (scores == s).sum() / 2 for s in scores]) / len(scores))


def options(*names):
    return tuple(option for option in auto.OPTIONS if option.name in names)


def chosen(evidence, tried=auto.OPTIONS, seed=0):
    return Auto(tried, (), margin=0, seed=seed).run(evidence).chosen


@pytest.mark.parametrize("models", [1, 2, 4, 8])
def test_the_scores_are_those_of_the_attack_it_names(models):
    evidence, _ = case(0, models)
    tried = options("lira", "loss", "base")
    result = Auto(tried, (), margin=0).run(evidence)
    logs = -np.logaddexp(0, -evidence.target), -np.logaddexp(0, -evidence.references)
    scores_by_attack = {
        "lira": LiRA().score(evidence),
        "loss": Threshold().score(dv.Evidence(logs[0])),
        "base": BASE().score(dv.Evidence(*logs)),
    }
    np.testing.assert_allclose(result.scores, scores_by_attack[result.chosen])
    learned_options = auto.JOINED[:1]
    with_learned = Auto(tried, learned_options, margin=0).run(evidence)
    assert with_learned.chosen == f"{result.chosen} + learned-few"
    learned = deviates_of(Learned(few=True).score(evidence))
    np.testing.assert_allclose(with_learned.scores, (2 * deviates_of(result.scores) + learned) / 3, atol=1e-9)
    averaged = Auto(tried, (), margin=9).run(evidence)
    assert sorted(averaged.chosen.split(" + ")) == sorted(scores_by_attack)
    np.testing.assert_allclose(
        averaged.scores, np.mean([deviates_of(s) for s in scores_by_attack.values()], axis=0), atol=1e-9
    )


def merit(option, game, member):
    """AUC and TPR at a low FPR of an option in a game."""
    return auto.game_merit(option.attack.run(auto.convert_unit(game, option.unit)).scores, member)


def test_all_within_the_margin_of_the_best_are_taken_and_no_others():
    evidence, _ = case(12, features=True)
    ran = Auto(joined=())
    rounds = list(auto.play_games(evidence, 4000, 16, 0))
    sums = {o.name: np.mean([sum(merit(o, *game)) for game in rounds]) for o in ran.options}
    for margin in (0.0, 0.05):
        within_margin = {name for name, total in sums.items() if total >= max(sums.values()) - margin}
        result = replace(ran, margin=margin).run(evidence)
        assert set(result.chosen.split(" + ")) == within_margin
        assert " of 12 options" in result.notes[0]
    assert result.chosen.split(" + ")[0] == max(sums, key=sums.get)


@pytest.mark.parametrize("models", [1, 2, 4, 8])
def test_references_pay_where_records_differ_and_not_where_they_do_not(models):
    """By far: fails with probability below 1e-6 for a spread of 5 (LOSS is blind) or 0 (references only add noise)."""
    tried = options("lira", "loss")
    assert chosen(case(1, models, spread=5.0)[0], tried) == "lira"
    assert chosen(case(2, models, spread=0.0)[0], tried) == "loss"


def test_the_candidates_do_not_enter_the_choice():
    evidence, _ = case(3, features=True)
    note = Auto().run(evidence).notes[0]
    rng = np.random.default_rng(0)
    strange = replace(evidence, target=rng.normal(size=N), features=rng.normal(size=(N, 2)))
    assert Auto().run(strange).notes[0] == note
    few_candidates = dv.Evidence(
        evidence.target[:30],
        evidence.references[:, :30],
        None,
        evidence.population,
        evidence.population_references,
        features=evidence.features[:30],
        population_features=evidence.population_features,
        population_trained_on=evidence.population_trained_on,
    )
    assert Auto().run(few_candidates).notes[0] == note


def test_merits_are_auc_and_tpr_by_their_definitions():
    evidence, _ = case(4)
    for game, member in auto.play_games(evidence, 4000, 16, 0):
        for option in options("lira", "loss"):
            attack = LiRA() if option.name == "lira" else Threshold()
            scores = attack.score(game)
            area, power = merit(option, game, member)
            assert area == pytest.approx(metrics.roc_auc_score(member, scores), abs=1e-12)
            limit = np.sort(scores[~member])[::-1][max(5, int(0.02 * (~member).sum())) - 1]
            assert power == pytest.approx((scores[member] > limit).mean(), abs=1e-12)


@pytest.mark.parametrize("models", [1, 2, 3, 8])
def test_a_game_tells_members_by_their_signals_alone(models):
    """Equally many OUT models for all candidates, none of which is the target's own or was trained on them."""
    evidence, _ = case(5, models)
    rounds = list(auto.play_games(evidence, 4000, 16, 0))
    assert len(rounds) == models
    for game, member in rounds:
        counts = (~game.trained_on).sum(axis=0)
        assert counts.min() == counts.max() >= max(1, models // 2)
        assert len(game.references) == models
        assert 100 < member.sum() < Z / 2 - 100
        assert not set(game.target) & set(game.population)
        rows = {value: j for j, value in enumerate(np.round(evidence.population, 9))}
        positions = [rows[value] for value in np.round(game.references[-1], 9)]  # the real target is the last model
        model = next(i for i in range(models) if game.target[0] == evidence.population_references[i, positions[0]])
        np.testing.assert_array_equal(member, evidence.population_trained_on[model, positions])
        other_trained_on = np.delete(evidence.population_trained_on, model, axis=0)[:, positions]
        assert not (other_trained_on & ~game.trained_on[:-1]).any()


@pytest.mark.parametrize("models", [1, 2, 4])
def test_attacks_win_nothing_in_games_without_a_leak(models):
    """An AUC of 300 against 300 is beyond .5 ± .12 with probability 4e-7; there are 7 games of 5 attacks."""
    evidence, _ = case(6, models, lift=0.0)
    for game, member in auto.play_games(evidence, 4000, 16, 0):
        for option in options("rmia", "base", "bavaria", "lira", "learned", "loss"):
            if option.attack.least_references <= models:
                assert abs(merit(option, game, member)[0] - 0.5) < 0.12, option.name


def test_false_positives_stay_nominal_after_the_choice():
    """40 choices, 150 calibration records at 10 %: the mean rate is beyond .1 ± .026 with probability 1e-5."""
    rates, tried = [], options("lira", "loss", "base", "rmia", "bavaria")
    for seed in range(40):
        evidence, member = case(200 + seed, 2)
        scores = Auto(tried, seed=seed).score(evidence)[~member]
        rates.append((scores[150:] >= dv.decisions.fpr.threshold(scores[:150], fpr=0.1).value).mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.026)


def test_what_cannot_be_tried_is_left_out_and_said():
    evidence, _ = case(7, 2)
    assert "of 5 options" in Auto().run(evidence).notes[0]  # no features; too few models for `learned`
    blind = dv.Evidence(evidence.target, evidence.references, None, evidence.population)
    silent = Auto(options("lira", "loss")).run(blind)
    assert silent.notes[0].startswith("nothing to choose by: used lira")
    np.testing.assert_array_equal(silent.scores, LiRA().score(blind))
    tiny = replace(
        evidence,
        population=evidence.population[:90],
        population_references=evidence.population_references[:, :90],
        population_trained_on=evidence.population_trained_on[:, :90],
    )
    assert Auto().run(tiny).notes[0].startswith("nothing to choose by: used rmia")


def test_of_many_that_come_near_the_note_names_four_and_the_record_all():
    evidence, _ = case(7, 4, lift=0.0, features=True)
    result = Auto(margin=2.0).run(evidence)
    names = result.chosen.split(" + ")
    assert len(names) == 14
    start = " + ".join(names[:4]) + " and 8 more of 12 options on the reference models alone"
    assert result.notes[0].startswith(f"chose {start}, and added learned-few + learned-few-residual: AUC / TPR")
    assert len(result.notes[0]) < 360


def test_one_option_is_used_and_said_to_be_the_only_one():
    evidence, _ = case(7, 2)
    result = Auto(options("lira", "learned")).run(evidence)  # two models are too few for `learned`
    assert result.notes[0].startswith("used lira, the only option for which there are reference models, features and")
    np.testing.assert_array_equal(result.scores, LiRA().score(evidence))


@pytest.mark.parametrize("count", [1, 19, 20])
def test_a_few_candidates_are_scored_without_residuals(count):
    evidence, _ = case(7, 2, features=True)
    parts = {"target": evidence.target[:count], "features": evidence.features[:count]}
    parts |= {name: getattr(evidence, name)[:, :count] for name in ("references", "trained_on")}
    result = Auto(margin=2.0).run(replace(evidence, **parts))
    assert np.isfinite(result.scores).all()
    assert ("residual" in result.chosen) == (count == 20)


def test_features_that_are_texts_are_refused():
    evidence, _ = case(7, 2)
    texts = {name: np.array(["word"] * n, object) for name, n in (("features", N), ("population_features", Z))}
    with pytest.raises(dv.InputError, match=r"Auto: evidence\.features must be numbers, got texts"):
        Auto().run(replace(evidence, **texts))


def test_on_classes_that_the_population_lacks_no_game_is_played():
    """Unless fewer than half of the candidates are of such classes, or the option is not there."""
    evidence, _ = case(10, 2, features=True)
    labels_without_candidates = np.zeros(Z, int)
    for share, sure in ((0.4, False), (0.6, True)):
        labels = (np.arange(N) < share * N).astype(int)
        result = Auto().run(replace(evidence, labels=labels, population_labels=labels_without_candidates))
        assert result.notes[0].startswith("used rmia-residual: most candidates") == sure
    assert result.chosen == "rmia-residual"
    strange = replace(evidence, labels=np.ones(N, int), population_labels=labels_without_candidates)
    probable = auto.convert_unit(strange, "probability")
    np.testing.assert_array_equal(Auto().score(strange), Residual(RMIA()).score(probable))
    assert Auto(options("lira", "loss")).run(strange).notes[0].startswith("chose")


def test_records_of_classes_that_the_population_lacks_are_scored_by_the_residual_of_rmia():
    """The others as if these were of a known class; both as normal deviates of ranks."""
    evidence, _ = case(10, 2, features=True)
    labels, known = (np.arange(N) < 0.4 * N).astype(int), np.zeros(Z, int)
    some = replace(evidence, labels=labels, population_labels=known)
    result = Auto().run(some)
    unseen = labels == 1
    assert result.notes[0] == (
        f"used rmia-residual for {unseen.sum()} records of classes that the population lacks, of which the reference "
        "models' games cannot tell"
    )
    assert result.notes[1].startswith("chose")
    residuals = Residual(RMIA()).score(auto.convert_unit(some, "probability"))
    deviates = special.ndtri((stats.rankdata(residuals) - 0.5) / N)
    np.testing.assert_array_equal(result.scores[unseen], deviates[unseen])
    of_known = Auto(tuple(o for o in auto.OPTIONS if o.name != "rmia-residual")).run(some)
    assert "rmia-residual for" not in of_known.notes[0]
    whole = Auto().run(replace(evidence, labels=labels, population_labels=np.arange(Z) % 2))
    assert whole.notes[0].startswith("chose")


def test_constants_and_ties_are_no_failure():
    evidence, _ = case(8, 2, features=True)
    names = ("target", "references", "population", "population_references")
    for change in (np.zeros_like, np.round):
        flat = replace(evidence, **{name: change(getattr(evidence, name)) for name in names})
        assert np.isfinite(Auto().score(flat)).all()
    same = replace(evidence, **{name: np.zeros_like(getattr(evidence, name)) for name in names})
    assert np.ptp(Auto(options("loss", "lira", "rmia")).score(same)) == 0


def test_the_seed_reaches_the_options_and_large_populations_are_drawn_from():
    sown = Auto().seeded(7)
    learned = [o.attack for o in (*sown.options, *sown.joined) if isinstance(o.attack, Learned)]
    assert [attack.seed for attack in learned] == [7, 7]
    evidence, _ = case(9)
    assert len(next(auto.play_games(evidence, 600, 16, 0))[1]) <= 300
    assert len(list(auto.play_games(evidence, 4000, 3, 0))) == 3
    assert repr(Auto(options("lira", "loss"))) == (
        "Auto(options=(lira, loss), joined=(learned-few, learned-few-residual), margin=0.05, most=4000, games=16, "
        "seed=0)"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Auto(()), "Auto.options: at least 1"),
        (lambda: Auto((LiRA(),)), "Auto.options"),
        (lambda: Auto(joined=(LiRA(),)), "Auto.joined"),
        (lambda: Auto(most=0), "Auto.most"),
        (lambda: Auto(margin=-0.1), "Auto.margin"),
        (lambda: Auto(games=0), "Auto.games"),
        (lambda: auto.Option("x", "logit", RMIA()), "Option.unit"),
        (lambda: auto.Option("x", "probability", 3), "Option.attack"),
        (lambda: Auto().score(dv.Evidence([1.0])), "Auto: evidence.references is needed"),
        (lambda: Auto().score(dv.Evidence([1.0], [[1.0]])), "Auto: evidence.population is needed"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(dv.InputError, match=message):
        make()


def test_one_reference_model_is_enough():
    """And is not refused before work starts."""
    rng = np.random.default_rng(0)
    evidence = dv.Evidence(
        rng.normal(size=40), rng.normal(size=(1, 40)), population=rng.normal(size=400),
        population_references=rng.normal(size=(1, 400)), population_trained_on=rng.random((1, 400)) < 0.5,
        features=rng.normal(size=(40, 2)), population_features=rng.normal(size=(400, 2)),
        labels=rng.integers(0, 2, 40), population_labels=rng.integers(0, 2, 400),
    )  # fmt: skip
    assert np.isfinite(Auto().run(evidence).scores).all()
    assert adapt(resolve("auto").attack).least_references <= 1
