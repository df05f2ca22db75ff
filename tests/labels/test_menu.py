"""What defences cost a ranking, and what the usual ones protect."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import divulge as dv
from divulge import cli, labels
from divulge.labels import defences


def test_every_remedy_is_printed_with_its_cost(capsys):
    spec = labels.OracleSpec(n=60, decimals=5)
    defended = labels.defend(spec)
    assert all(remedy.cost is not None for remedy in defended.remedies)
    assert all("Kendall's τ" in line for line in defended.advice)
    assert defended.remedies == labels.defend(spec).remedies
    assert labels.defend(spec, seed=1).remedies != defended.remedies
    assert cli.run(["labels", "defend", "--n", "60", "--decimals", "4"]) == 0
    output = capsys.readouterr().out
    for name in ("private split", "submissions per day", "rounding", "ladder", "Kendall's"):
        assert name in output
    unknown = labels.defend(labels.OracleSpec(labels.KnownRange(0, 1), n=60, decimals=4))
    assert all("not known" in line for line in unknown.advice)


def test_a_remedy_that_leaves_no_leaderboard_says_so_and_stands_below_what_keeps_one(capsys):
    def command(*options):
        assert cli.run(["labels", "defend", *options]) == 0
        return " ".join(capsys.readouterr().out.split())

    reversing = command("--n", "100", "--decimals", "5", "--queries", "20", "--accuracy", "0.55")
    assert "turns the ranking round" in reversing
    assert reversing.index("Gaussian noise of standard deviation") < reversing.index("turns the ranking round")
    assert "None of them keeps the ranking. What does: rank in the end by rows that no shown score" in reversing
    keeping = command("--n", "2000", "--decimals", "5", "--queries", "20", "--accuracy", "0.55")
    assert "None of them" not in keeping
    for spec in (labels.OracleSpec(n=60), labels.OracleSpec("accuracy", n=300)):
        kept = [remedy.keeps_ranking for remedy in labels.defend(spec, 10).remedies]
        assert kept == sorted(kept, reverse=True)


def test_a_number_of_labels_that_is_not_the_file_s_is_refused(tmp_path, capsys):
    (tmp_path / "y.txt").write_text("\n".join("01" * 15))
    command = ["labels", "simulate", str(tmp_path / "y.txt"), "--metric", "accuracy"]
    assert cli.run([*command, "--n", "30"]) == cli.run(command) == 0
    capsys.readouterr()
    assert cli.run([*command, "--n", "31"]) == 2
    assert "--n: " in (message := capsys.readouterr().err)
    assert "holds 30 labels, got 31" in message


def test_more_noise_and_fewer_rows_cost_more_and_nothing_costs_nothing():
    spec = labels.OracleSpec(n=400)
    assert defences.rank_correlation(spec, defences.defended_scores(spec)).value == 1.0
    costs = [
        defences.rank_correlation(
            spec, defences.defended_scores(replace(spec, noise=noise, noise_kind="gaussian"))
        ).value
        for noise in (0.001, 0.03, 1.0)
    ]
    assert costs[0] > 0.9 > costs[1] > costs[2] + 0.1
    shares = [defences.rank_correlation(spec, defences.defended_scores(spec, share=s)).value for s in (0.9, 0.3, 0.05)]
    assert shares[0] > shares[1] > shares[2]


def test_the_interval_covers_the_mean_over_many_competitions():
    # 20 seeds at 95 %: fewer than 15 covered has probability 3e-4.
    spec = labels.OracleSpec("accuracy", n=60)
    ladder_scores = defences.defended_scores(spec, share=0.5)
    results = [defences.rank_correlation(spec, ladder_scores, teams=10, seed=seed) for seed in range(20)]
    middle = float(np.mean([result.value for result in results]))
    assert sum(result.low <= middle <= result.high for result in results) >= 15


@pytest.mark.parametrize(
    "options",
    [
        {}, {"metric": "accuracy"}, {"metric": "r2"}, {"metric": "auc"}, {"metric": "map_at_k", "classes": 4},
        {"metric": "softmax_cross_entropy", "classes": 3}, {"noise": 0.01, "noise_kind": "laplace", "metric": "mae"},
        {"metric": labels.Evaluated(lambda y, p: float(np.mean(y == p)), depends_on="counts", low=0, high=1)},
    ],
)  # fmt: skip
def test_no_attack_of_ours_reads_more_than_is_readable(options):
    spec = labels.OracleSpec(**({"n": 60, "decimals": 5} | options))
    items = labels.menu(spec, days=4, per_day=3)
    assert [item.name for item in items] == [
        "as it is",
        "private split",
        "submissions per day",
        "rounding",
        "minimum gain",
        "ladder",
    ]
    assert [item.queries for item in items] == [12, 12, 4, 12, 12, 12]
    for item in items:
        assert 0 <= item.readable <= 60
        assert item.read is None or item.read <= item.readable, item
        assert -1 <= item.cost.low <= item.cost.value <= item.cost.high <= 1
    assert items[1].readable <= 18


@pytest.mark.parametrize(("levels", "queries"), [(2, 1), (2, 5), (3, 4), (5, 3)])
def test_a_ladder_has_no_more_sequences_of_answers_than_are_counted(levels, queries):
    """Naively: all sequences of scores on a fine grid through a Ladder, and how many different answers they give."""
    step = 1 / levels
    sequences = set()
    for scores in itertools.product(np.linspace(0, 1, 2 * levels + 1), repeat=queries):
        remaining_scores = iter(scores)
        ladder = labels.Ladder(lambda _, remaining_scores=remaining_scores: next(remaining_scores), step)
        sequences.add(tuple(ladder(None) for _ in range(queries)))
    spec = labels.OracleSpec(labels.KnownRange(0, 1), n=1000)
    ladder = labels.menu(spec, days=queries, per_day=1, step=step)[-1]
    assert math.log2(len(sequences)) < ladder.readable + 1


def test_a_ladder_protects_once_its_step_outweighs_one_label():
    spec = labels.OracleSpec("accuracy", n=50)
    fine, coarse = (labels.menu(spec, days=10, step=step)[-1] for step in (0.01, 0.1))
    assert fine.read == 49
    assert coarse.read < 25
    assert coarse.cost.value < fine.cost.value


def test_the_menu_refuses_what_it_cannot_set():
    spec = labels.OracleSpec(n=50)
    for options, message in (
        ({"days": 0}, "days"), ({"per_day": 0}, "per_day"), ({"public": 1.0}, "public"), ({"public": 0.001}, "public"),
        ({"decimals": 16}, "decimals"), ({"step": 0.0}, "step"),
    ):  # fmt: skip
        with pytest.raises(dv.InputError, match=message):
            labels.menu(spec, **options)
    with pytest.raises(dv.InputError, match="scores all rows"):
        labels.menu(replace(spec, scored=20))


@pytest.mark.parametrize(("noise", "min_read", "max_read"), [(1e-9, 20, 20), (1e3, 0, 13)])
def test_guesses_under_noise_count_beyond_what_guessing_gets(noise, min_read, max_read):
    """All labels are read through no noise to speak of, and hardly more than by guessing through a lot of it."""
    spec = labels.OracleSpec(n=20, noise=noise, noise_kind="gaussian", decimals=None)
    as_it_is = labels.menu(spec, per_day=20, days=2)[0]
    assert min_read <= as_it_is.read <= max_read
