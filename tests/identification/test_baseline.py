"""Blind scores in identification: arrays and tables alike, what is recorded, decided again and shown, and refused."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import divulge as dv
from divulge.cli import app
from divulge.decisions import pooled_scores
from divulge.identification import finished_run, from_tables, redecide, report
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score


@pytest.fixture
def sets():
    """Scores and blind scores: 60 members of 200 candidates, 300 in calibration, 100 in the holdout."""
    rng = np.random.default_rng(0)
    blind = {name: rng.normal(size=size) for name, size in (("c", 200), ("u", 300), ("h", 100), ("k", 50))}
    scores = {name: 2 * values + rng.normal(size=len(values)) for name, values in blind.items()}
    scores["c"][:60] += 5
    scores["k"] += 5
    return scores, blind


def write(folder, sets, ending="parquet"):
    scores, blind = sets
    for name in scores:
        size = len(scores[name])
        columns = {"id": [f"{name}{i}" for i in range(size)], "loss": -scores[name], "blind": blind[name]}
        frame = pl.DataFrame(columns | {"other": scores[name] ** 2, "member": np.arange(size) < 60})
        path = folder / f"{name}.{ending}"
        {"parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson}[ending](path)
    return {name: [folder / f"{name}.{ending}"] for name in scores}


LOSS = (Score("loss", -1),)


def run(paths, out, *, truth=None, scores=LOSS, holdout=True, **options):
    columns = Columns(scores, id="id", truth=truth, baseline=Score("blind"))
    plan = from_tables.DecisionPlan(columns, Policy(0.1, **options))
    other_files = {"holdout": paths["h"], "members": paths["k"]} if holdout else {}
    return from_tables.run(paths["c"], paths["u"], out, plan, **other_files)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_files_and_arrays_decide_alike(sets, tmp_path, ending):
    scores, blind = sets
    summary = run(write(tmp_path, sets, ending), tmp_path / "out")
    want = dv.identify(
        scores["c"],
        scores["u"],
        fdr=0.1,
        holdout=scores["h"],
        members=scores["k"],
        baseline=blind["c"],
        calibration_baseline=blind["u"],
        holdout_baseline=blind["h"],
        members_baseline=blind["k"],
    )
    table = pl.read_parquet(tmp_path / "out" / "selection.parquet")
    assert table["selected"].to_list() == want.selected.tolist()
    assert table["p"].to_list() == want.p_values.tolist()
    assert np.allclose(table["unadjusted"], scores["c"])
    assert np.allclose(table["baseline"], blind["c"])
    assert summary.threshold == want.threshold
    assert summary.usage == want.usage
    assert summary.warnings == tuple(want.warnings)
    assert summary.guarantee == want.guarantee
    assert want.guarantee.standing == "holds"
    assert {"blind score", "exchangeability", "low end", "low scores"} <= {control.name for control in summary.controls}


def test_run_records_the_comparison_and_is_decided_again_alike(sets, tmp_path):
    out = tmp_path / "out"
    result = run(write(tmp_path, sets), out, truth="member")
    assert result.baseline.column == "blind:high"
    assert result.baseline.answer == "leak found"
    assert set(result.baseline.known) == {"auc", "advantage", "tpr@fpr=0.01"}
    before = pl.read_parquet(out / "selection.parquet")
    redecide(out, fdr=0.2)
    repeat = redecide(out, fdr=0.1)
    assert repeat == result
    assert pl.read_parquet(out / "selection.parquet").equals(before)
    page = report(out, tmp_path / "page.html").read_text()
    assert "Against the blind score" in page
    assert "loss beyond blind" in page


def test_blind_score_that_separates_leaves_doubt_and_says_so(sets, tmp_path):
    scores, blind = sets
    blind["c"] += 1
    scores["c"] += 2
    summary = run(write(tmp_path, sets), tmp_path / "out", holdout=False)
    assert summary.guarantee.standing == "doubtful"
    assert "the blind score alone tells candidates from calibration" in summary.warnings[0]
    assert summary.used == "bh"
    assert redecide(tmp_path / "out", fdr=0.2).guarantee.standing == "doubtful"
    text = report(tmp_path / "out").read_text()
    assert "Training data identified, in doubt" in text


def test_known_members_whom_the_blind_score_tells_as_well_leave_doubt(tmp_path):
    """Few members, who differ in date and in nothing else: candidates as a whole look like the calibration."""
    rng = np.random.default_rng(3)
    truth = np.arange(400) < 40
    blind, calibration_scores = rng.normal(size=400) + 1.2 * truth, rng.normal(size=300)
    selection = dv.identify(
        blind, calibration_scores, fdr=0.1, baseline=blind, calibration_baseline=calibration_scores, truth=truth
    )
    assert selection.guarantee.standing == "doubtful"
    assert any("The split is confounded" in warning for warning in selection.warnings)


def test_several_score_columns_are_adjusted_one_by_one(sets, tmp_path):
    summary = run(write(tmp_path, sets), tmp_path / "out", scores=(Score("loss", -1), Score("other")), holdout=False)
    assert summary.used == "adadetect"
    scores, blind = sets
    signal_tables = [np.c_[scores[name], scores[name] ** 2] for name in "cu"]
    want = dv.identify(*signal_tables, fdr=0.1, baseline=blind["c"], calibration_baseline=blind["u"])
    table = pl.read_parquet(tmp_path / "out" / "selection.parquet")
    assert table["selected"].to_list() == want.selected.tolist()


def test_command_line(sets, tmp_path):
    paths = write(tmp_path, sets)
    options = ["--score", "loss:low", "--baseline", "blind", "--fdr", "0.1", "--json"]
    arguments = ["identify", *map(str, paths["c"]), "--calibration", *map(str, paths["u"]), *options]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["baseline"]["column"] == "blind:high"
    result = CliRunner().invoke(app, ["decide", str(tmp_path / "out"), "--fdr", "0.2"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ("blnd", "no column 'blnd'; nearest: blind"),
        ("id", "score column 'id' is text"),
        ("loss", "is the score itself"),
    ],
)
def test_columns_that_are_no_blind_score_are_refused(sets, tmp_path, baseline, message):
    paths = write(tmp_path, sets)
    plan = from_tables.DecisionPlan(Columns((Score("loss", -1),), baseline=Score(baseline)), Policy(0.1))
    with pytest.raises(dv.InputError, match=message):
        from_tables.run(paths["c"], paths["u"], tmp_path / "out", plan)


def test_missing_blind_scores_are_refused_or_left_out(sets, tmp_path):
    sets[1]["c"][[3, 8]] = np.nan
    paths = write(tmp_path, sets)
    with pytest.raises(dv.InputError, match=r"2 rows \(4, 9; the header not counted\)"):
        run(paths, tmp_path / "out")


def test_run_without_a_blind_score_written_before_is_still_read(sets, tmp_path):
    paths = write(tmp_path, sets)
    plan = from_tables.DecisionPlan(Columns((Score("loss", -1),)), Policy(0.1))
    from_tables.run(paths["c"], paths["u"], tmp_path / "out", plan)
    assert finished_run.read_run(tmp_path / "out", lambda summary, _: summary).baseline is None


ROWS = np.arange(60.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": ROWS[:40]}, "calibration_baseline: missing; blind scores are needed"),
        ({"calibration_baseline": ROWS}, "baseline: missing; blind scores are needed"),
        ({"baseline": ROWS[:39], "calibration_baseline": ROWS}, "baseline"),
        ({"baseline": np.full(40, np.nan), "calibration_baseline": ROWS}, "baseline"),
        ({"baseline": ROWS[:40], "calibration_baseline": ROWS, "holdout": ROWS}, "holdout_baseline: missing"),
        ({"baseline": ROWS[:40], "calibration_baseline": ROWS, "members": ROWS}, "members_baseline: missing"),
        (
            {"baseline": ROWS[:40], "calibration_baseline": ROWS, "holdout_baseline": ROWS},
            "given, but there are no scores of these records",
        ),
        (
            {
                "baseline": ROWS[:40],
                "calibration_baseline": ROWS,
                "adjust": dv.decisions.strata.Strata(["a"] * 40, ["a"] * 60),
            },
            "baseline: cannot be combined with adjust",
        ),
    ],
)
def test_blind_scores_of_some_records_only_are_refused(options, message):
    rng = np.random.default_rng(0)
    with pytest.raises(dv.InputError, match=message):
        dv.identify(rng.normal(size=40), rng.normal(size=60), fdr=0.2, **options)


def test_row_order_and_units_of_the_blind_score_change_nothing(sets):
    scores, blind = sets
    rng = np.random.default_rng(1)
    candidate_order, calibration_order = rng.permutation(200), rng.permutation(300)
    expected = dv.identify(scores["c"], scores["u"], fdr=0.1, baseline=blind["c"], calibration_baseline=blind["u"])
    repeat = dv.identify(
        scores["c"][candidate_order],
        scores["u"][calibration_order],
        fdr=0.1,
        baseline=np.exp(blind["c"][candidate_order]),
        calibration_baseline=np.exp(blind["u"][calibration_order]),
    )
    assert np.array_equal(expected.selected[candidate_order], repeat.selected)
    assert np.array_equal(expected.p_values[candidate_order], repeat.p_values)


def test_constant_blind_score_changes_no_p_value(sets):
    scores, _ = sets
    plain = dv.identify(scores["c"], scores["u"], fdr=0.1)
    selection = dv.identify(
        scores["c"], scores["u"], fdr=0.1, baseline=np.zeros(200), calibration_baseline=np.zeros(300)
    )
    assert np.array_equal(plain.p_values, selection.p_values)
    assert np.array_equal(plain.selected, selection.selected)
    assert selection.guarantee == plain.guarantee


@pytest.mark.parametrize("scores", [np.zeros(20), np.repeat([0.0, 1.0], 10)])
def test_adjusted_scores_of_equal_records_are_equal(scores):
    blind = np.tile([0.0, 5.0], 10)
    adjusted, adjusted_calibration = pooled_scores.adjust_for_blind_score(scores, scores, blind, blind)
    assert np.array_equal(adjusted, adjusted_calibration)
    assert len(np.unique(adjusted)) <= 2 * len(np.unique(scores))


def test_scores_too_large_are_refused():
    huge = np.repeat([-1.7e308, 1.7e308], 30)
    with pytest.raises(dv.InputError, match="too large"):
        pooled_scores.adjust_for_blind_score(huge, huge, np.sort(huge + np.arange(60)), np.arange(60.0))
