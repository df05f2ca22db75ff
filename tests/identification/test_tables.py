"""Identification on files: formats, shards, chunks, bad rows, deciding again, the command line."""

import gzip
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import divulge as dv
from divulge import results
from divulge import tables as readers
from divulge.cli import app
from divulge.decisions.methods import resolve_method
from divulge.errors import InputError
from divulge.identification import from_tables as runs
from divulge.identification import redecide, score_tables
from divulge.identification.decision import METHODS, Policy
from divulge.identification.score_tables import Columns, Score

LOSS_LOW = (Score("loss", -1),)


def plan(scores=LOSS_LOW, **options):
    names = {name: options.pop(name) for name in ("id", "text", "truth") if name in options}
    method = resolve_method(options.pop("method", "auto"), METHODS, eta=options.pop("eta", 0.05))
    return runs.DecisionPlan(Columns(scores, **names), Policy(options.pop("fdr", 0.1), method), **options)


def selection(folder):
    return pl.read_parquet(folder / "selection.parquet")


SPELLINGS = [
    (
        [" Yes", "true", "1.0", "member", "y", "1", "TRUE"],
        ["NO ", "false", "0.0", "non-member", "n", "0", "nonmember"],
        "csv",
    ),
    ([1], [0], "parquet"),
    ([True], [False], "parquet"),
]


@pytest.mark.parametrize(("members", "nonmembers", "ending"), SPELLINGS)
def test_membership_is_read_in_every_usual_spelling(tables, tmp_path, members, nonmembers, ending):
    frame = pl.read_parquet(tables / "candidates.parquet")
    words = [members[i % len(members)] if i < 300 else nonmembers[i % len(nonmembers)] for i in range(len(frame))]
    spellings = [word if i % 10 else None for i, word in enumerate(words)]
    path = tmp_path / f"spelled.{ending}"
    frame = frame.with_columns(member=pl.Series(spellings))
    frame.write_parquet(path) if ending == "parquet" else frame.write_csv(path)
    summary = runs.run([path], [tables / "calibration.jsonl"], tmp_path / "out", plan(truth="member"))
    assert (summary.truth.known, summary.truth.members) == (900, 270)
    assert summary.truth.fdp.value < 0.15


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["ja", "nein"], "truth: column 'member' of candidates must hold yes and no.* got 'ja', 'nein'"),
        ([1, -1], "got '-1'"),
        ([2, 0], "got '2'"),
        ([0.5, 1.0], "got '0.5'"),
        ([None, None], "truth: column 'member' of candidates is empty in every row"),
        (["", "NaN"], "is empty in every row"),
        ([f"x{i}" for i in range(9)], "got 'x0', 'x1', 'x2', 'x3', 'x4', …"),
    ],
)
def test_membership_that_is_something_else_is_refused(tables, tmp_path, values, message):
    frame = pl.read_parquet(tables / "candidates.parquet")
    odd = pl.Series([values[i % len(values)] for i in range(len(frame))], dtype=None if values[0] else pl.String)
    frame.with_columns(member=odd).write_parquet(tmp_path / "odd.parquet")
    with pytest.raises(dv.InputError, match=message):
        runs.run([tmp_path / "odd.parquet"], [tables / "calibration.jsonl"], tmp_path / "out", plan(truth="member"))


@pytest.mark.parametrize("method", ["auto", "bh"])
def test_files_and_arrays_decide_alike(tables, scores, tmp_path, method):
    candidates, calibration = scores
    summary = runs.run(
        [tables / "candidates.parquet"], [tables / "calibration.jsonl"], tmp_path / "out", plan(id="id", method=method)
    )
    want = dv.identify(-candidates, -calibration, fdr=0.1, method=method)
    result = selection(tmp_path / "out")
    assert result.columns == ["row", "id", "score", "p", "q", "selected"]
    assert result["selected"].to_list() == want.selected.tolist()
    assert result["p"].to_list() == want.p_values.tolist()
    assert np.array_equal(result["q"].to_numpy() <= 0.1, want.selected)
    assert summary.selected == want.count
    assert summary.threshold == want.threshold
    assert tuple(summary.warnings) == tuple(want.warnings)
    assert summary.usage.value == want.usage.value


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl"])
def test_formats_shards_and_chunks_make_no_difference(tables, tmp_path, monkeypatch, ending):
    full_table = pl.read_parquet(tables / "candidates.parquet")
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, part in enumerate(full_table.iter_slices(400)):
        path = folder / f"{number}.{ending}"
        if ending == "parquet":
            part.write_parquet(path)
        elif ending == "jsonl":
            part.write_ndjson(path)
        else:
            content = part.write_csv().encode()
            path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    calibration = [tables / "calibration.jsonl"]
    runs.run([tables / "candidates.parquet"], calibration, tmp_path / "a", plan(id="id", truth="member"))
    monkeypatch.setattr(runs, "_ROWS_PER_BATCH", 137)
    monkeypatch.setattr(readers.table, "BATCH", 97)
    monkeypatch.setattr(readers.table, "_PIECE_ROWS", 60)
    progress_calls = []
    runs.run(
        [folder],
        calibration,
        tmp_path / "b",
        plan(id="id", truth="member"),
        progress=lambda *at: progress_calls.append(at),
    )
    assert selection(tmp_path / "a").equals(selection(tmp_path / "b"))
    assert progress_calls[-1] == (2000, 2000)
    assert len(progress_calls) > 10


def test_truth_adds_realised_numbers_and_catches_the_wrong_end(tables, tmp_path):
    files = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    summary = runs.run(*files, tmp_path / "out", plan(truth="member"))
    assert summary.truth.fdp.value < 0.15
    assert summary.truth.power.value > 0.8
    summary = runs.run(*files, tmp_path / "out", plan((Score("loss"),), truth="member"), overwrite=True)
    assert any("wrong way round" in warning for warning in summary.warnings)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_brackets_and_stars_are_part_of_a_name(tmp_path, ending):
    """They are no pattern, which would read other files, or none."""
    folder = tmp_path / "a[b]*"
    folder.mkdir()
    (tmp_path / "ab").mkdir()
    frames = {folder / f"s?.{ending}": 1.0, tmp_path / "ab" / f"sx.{ending}": 9.0}
    for path, value in frames.items():
        frame = pl.DataFrame({"loss": [value] * 60 + [2.0]})
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[ending](path)
    result = runs.run([next(iter(frames))], [tmp_path / "ab" / f"sx.{ending}"], folder / "out[1]", plan())
    assert result.candidates == 61
    selection = readers.open_parquet(folder / "out[1]" / "selection.parquet").select("score").collect()
    assert set(selection["score"]) == {-2.0, -1.0}


def test_known_members_sharpen_the_share_and_stay_with_the_run(tables, tmp_path):
    files = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    pl.DataFrame({"loss": np.random.default_rng(5).normal(-3, 1, 400)}).write_csv(tables / "known.csv")
    without_members = runs.run(*files, tmp_path / "alone", plan())
    summary = runs.run(*files, tmp_path / "out", plan(), members=[tables / "known.csv"])
    assert summary.selected == without_members.selected
    assert summary.usage.low <= 0.3 <= summary.usage.high
    width = [result.usage.high - result.usage.low for result in (summary, without_members)]
    assert width[0] < width[1] / 2
    assert redecide(tmp_path / "out", fdr=0.3).usage == summary.usage
    with pytest.raises(dv.InputError, match="members: the share is estimated from one score"):
        runs.run(*files, tmp_path / "two", plan((*LOSS_LOW, Score("other", -1))), members=[tables / "known.csv"])


def test_deciding_again_needs_no_score_and_equals_a_fresh_run(tables, tmp_path):
    files = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    runs.run(*files, tmp_path / "out", plan(id="id", truth="member"))
    repeat = redecide(tmp_path / "out", fdr=0.3, method="bh")
    fresh = runs.run(*files, tmp_path / "fresh", plan(id="id", truth="member", fdr=0.3, method="bh"))
    assert repeat == fresh
    assert selection(tmp_path / "out").equals(selection(tmp_path / "fresh"))
    with pytest.raises(dv.InputError, match="needs the signals again"):
        redecide(tmp_path / "out", method="adadetect")
    with pytest.raises(dv.InputError, match="not a run directory"):
        redecide(tmp_path / "nothing")


def test_too_little_left_after_learning_selects_nothing_and_says_why(tmp_path):
    """As arrays do; the share of the calibration that is not learned from is too small for the level."""
    rng = np.random.default_rng(2)
    for name, length in (("judged", 30), ("known", 20)):
        pl.DataFrame(rng.normal(size=(length, 2)), schema=["a", "b"]).write_parquet(tmp_path / f"{name}.parquet")
    files = [tmp_path / "judged.parquet"], [tmp_path / "known.parquet"]
    summary = runs.run(*files, tmp_path / "out", plan((Score("a"), Score("b")), fdr=0.05, method="adadetect"))
    assert summary.selected == 0
    assert "nothing was selected: 10 calibration rows remain after learning" in summary.warnings[0]
    assert selection(tmp_path / "out")["selected"].sum() == 0


def test_several_columns_are_learned_from(tables, tmp_path):
    files = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    two_scores = (*LOSS_LOW, Score("other", -1))
    summary = runs.run(*files, tmp_path / "out", plan(two_scores, truth="member"))
    assert summary.used == "adadetect"
    assert summary.truth.power.value > 0.5
    assert redecide(tmp_path / "out", fdr=0.3).selected > summary.selected


def spoil(tables, **columns):
    frame = pl.read_parquet(tables / "candidates.parquet").with_columns(**columns)
    frame.write_parquet(tables / "spoiled.parquet")
    return [tables / "spoiled.parquet"], [tables / "calibration.jsonl"], tables / "out"


def test_missing_scores_are_named_or_dropped_and_counted(tables):
    row = pl.int_range(pl.len())
    holes = pl.when(row == 5).then(float("nan")).when(row == 9).then(None).otherwise(pl.col("loss"))
    files = spoil(tables, loss=holes)
    with pytest.raises(
        dv.InputError, match=r"candidates: missing, NaN or infinite scores in 2 rows \(6, 10; the header not counted\)"
    ):
        runs.run(*files, plan())
    summary = runs.run(*files, plan(drop_nan=True))
    assert summary.candidates == 998
    assert "2 candidates rows without a usable score were left out" in summary.warnings
    assert 5 not in selection(tables / "out")["id"].to_list()


def test_repeated_ids_are_refused(tables):
    with pytest.raises(dv.InputError, match="ids must be unique; 1 occur more than once \\('d0'\\)"):
        runs.run(*spoil(tables, id=pl.col("id").replace("d7", "d0")), plan(id="id"))


def test_overlap_of_texts_is_refused_or_dropped(tables):
    pl.read_ndjson(tables / "calibration.jsonl").with_columns(text=pl.col("id") + " unseen").write_ndjson(
        tables / "calibration.jsonl"
    )
    files = spoil(tables, text=pl.col("id").replace("d3", "u4") + " unseen")
    with pytest.raises(
        dv.InputError, match=r"the text of 1 row \(4; the header not counted\) is also in the calibration"
    ):
        runs.run(*files, plan(text="text"))
    summary = runs.run(*files, plan(text="text", drop_overlap=True))
    assert (summary.candidates, summary.calibration) == (999, 499)
    # "d…" against "u…": the texts tell the sides apart, so the claim is doubtful and bh is used.
    assert summary.used == "bh"
    assert summary.guarantee.standing == "doubtful"
    assert summary.warnings[0].startswith("the guarantee is in doubt: blind text (p = ")
    assert summary.claim.startswith("DOUBTFUL")
    assert {control.name: control.state for control in summary.controls} == {
        "blind text": "doubtful",
        "low scores": "passed",
    }
    report = (tables / "out" / "report.html").read_text()
    assert 'class="verdict doubt"' in report
    assert "Are the texts of the documents like those of the unused ones?" in report
    assert "No (p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}" in report
    # Deciding again keeps what is known of the controls.
    repeat = redecide(tables / "out", fdr=0.2)
    assert repeat.guarantee.standing == "doubtful"
    assert repeat.controls == summary.controls


@pytest.fixture
def mixed_up(tables):
    """The calibration with forty candidates among it, which are members, and a holdout."""
    candidates, unused = pl.read_parquet(tables / "candidates.parquet"), pl.read_ndjson(tables / "calibration.jsonl")
    unused[400:].write_csv(tables / "holdout.csv")
    calibration = pl.concat([unused[:400], candidates[:40].drop("member")])
    calibration.write_csv(tables / "mixed.csv")
    return [tables / "candidates.parquet"], [tables / "mixed.csv"], tables / "out"


@pytest.mark.parametrize("columns", [(*LOSS_LOW, Score("other", -1))])
def test_candidates_among_the_calibration_are_refused_or_left_out_of_both(tables, mixed_up, columns):
    with pytest.raises(dv.InputError, match=r"candidates: 40 rows .* of the calibration \('d0', .*--drop-overlap"):
        runs.run(*mixed_up, plan(columns, id="id"))
    assert not (tables / "out" / "selection.parquet").exists()
    summary = runs.run(*mixed_up, plan(columns, id="id", drop_overlap=True))
    n_compared = 400 // len(columns)  # of two scores one is learned with half of the calibration
    assert (summary.candidates, summary.calibration) == (960, n_compared)
    assert summary.selected > 100, "members that stayed in the calibration hide others"
    assert any("were left out of both ('d0', " in warning for warning in summary.warnings)


@pytest.mark.parametrize(("first", "second"), [("holdout", "candidates"), ("members", "calibration")])
def test_no_document_is_on_two_sides(tables, first, second):
    sides = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    rows = pl.read_parquet(sides[0][0]) if second == "candidates" else pl.read_ndjson(sides[1][0])
    rows[:30].select("id", "loss").write_csv(tables / "some.csv")
    with pytest.raises(dv.InputError, match="30 rows with id and scores of rows of the"):
        runs.run(*sides, tables / "out", plan(id="id"), **{first: [tables / "some.csv"]})


@pytest.mark.parametrize("decimals", [0, 8])
def test_row_numbers_as_ids_are_no_copies(tables, scores, decimals):
    for name, losses in zip(("candidates", "calibration"), scores, strict=True):
        rows = pl.DataFrame({"id": np.arange(len(losses)), "loss": losses.round(decimals)})
        rows.write_csv(tables / f"{name}.csv")
    summary = runs.run([tables / "candidates.csv"], [tables / "calibration.csv"], tables / "out", plan(id="id"))
    assert (summary.candidates, summary.calibration) == (1000, 500)


def test_one_copy_among_row_numbers_is_noticed(tables, scores):
    candidates, calibration = scores
    calibration[7] = candidates[7]
    for name, losses in (("candidates", candidates), ("calibration", calibration)):
        pl.DataFrame({"id": np.arange(len(losses)), "loss": losses}).write_csv(tables / f"{name}.csv")
    with pytest.raises(dv.InputError, match=r"candidates: 1 row with id .* of the calibration \('7'\)"):
        runs.run([tables / "candidates.csv"], [tables / "calibration.csv"], tables / "out", plan(id="id"))


def test_the_same_file_or_the_same_scores_on_two_sides_are_refused(tables):
    candidates, copy = tables / "candidates.parquet", tables / "copy.parquet"
    copy.write_bytes(candidates.read_bytes())
    for other in (candidates, copy):
        with pytest.raises(dv.InputError, match=f"{other.name} is the same file as .*candidates.parquet of the cand"):
            runs.run([candidates], [other], tables / "out", plan())
    pl.read_parquet(candidates).select("loss").write_csv(tables / "scores.csv")
    with pytest.raises(dv.InputError, match="its scores are those of the calibration, row by row"):
        runs.run([candidates], [tables / "scores.csv"], tables / "out", plan())


def test_the_same_array_on_two_sides_is_refused(scores):
    candidates, calibration = scores
    for options in ({"calibration": candidates}, {"calibration": calibration, "holdout": calibration}):
        with pytest.raises(dv.InputError, match="its scores are those of the"):
            dv.identify(candidates, **options)


@pytest.mark.parametrize("columns", [LOSS_LOW, (*LOSS_LOW, Score("other", -1))])
def test_a_holdout_that_differs_voids_the_guarantee(tables, columns):
    files = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    rng = np.random.default_rng(8)
    for shift, standing, tone in ((0.0, "holds", "leak"), (-1.0, "void", "void")):
        loss = rng.normal(shift, 1, 300)
        pl.DataFrame({"loss": loss, "other": loss + rng.normal(size=300)}).write_csv(tables / "holdout.csv")
        out, holdout = tables / standing, [tables / "holdout.csv"]
        summary = runs.run(*files, out, plan(columns), holdout=holdout)
        assert summary.guarantee.standing == standing
        ran = ["exchangeability", "low end", "low scores"] if columns == LOSS_LOW else ["exchangeability", "low scores"]
        assert [control.name for control in summary.controls] == ran
        assert f'class="verdict {tone}"' in (out / "report.html").read_text()
    assert summary.warnings[0].startswith("the guarantee is void: exchangeability FAILED")
    calibration = pl.read_ndjson(tables / "calibration.jsonl")["loss", "other"].to_numpy()
    candidates = pl.read_parquet(tables / "candidates.parquet")["loss", "other"].to_numpy()
    holdout = pl.read_csv(tables / "holdout.csv").to_numpy()
    arrays = [-side[:, 0] if columns == LOSS_LOW else -side for side in (candidates, calibration, holdout)]
    want = dv.identify(*arrays[:2], fdr=0.1, holdout=arrays[2])
    assert tuple(want.warnings) == tuple(summary.warnings)
    assert selection(out)["selected"].to_list() == want.selected.tolist()


def test_too_few_candidates_for_ptdi_are_said_on_arrays_and_in_files(tables, scores):
    candidates, calibration = scores
    pl.DataFrame({"loss": candidates[298:303]}).write_csv(tables / "few.csv")
    files = [tables / "few.csv"], [tables / "calibration.jsonl"]
    for eta, is_said in ((0.5, True), (0.05, False)):
        selection = dv.identify(-candidates[298:303], -calibration, fdr=0.1, method="ptdi", eta=eta)
        summary = runs.run(*files, tables / str(eta), plan(method="ptdi", eta=eta))
        for warnings in (selection.warnings, summary.warnings):
            assert (
                any("with 5 candidates and eta=0.5 ptdi can reach 1.16 times" in text for text in warnings) == is_said
            )


def test_the_terminal_says_first_that_a_guarantee_does_not_stand(tables):
    pl.DataFrame({"loss": np.random.default_rng(8).normal(-1, 1, 300)}).write_csv(tables / "holdout.csv")
    pl.DataFrame({"id": [f"h{i}" for i in range(400)], "loss": [9.5] * 400}).write_csv(tables / "high.csv")
    base = ["--calibration", tables / "calibration.jsonl", "--score", "loss:low"]
    for options, icon, reason, title in (
        (
            [tables / "candidates.parquet", "--holdout", tables / "holdout.csv"],
            "✕ ",
            "nothing is claimed about them",
            "VOID",
        ),
        ([tables / "candidates.parquet", tables / "high.csv"], "◆ ", "in: low scores.", "DOUBTFUL"),
    ):
        out = tables / title
        for arguments in (["identify", *options, *base, "--out", out], ["decide", out, "--fdr", "0.1"]):
            result = CliRunner().invoke(app, list(map(str, arguments)))
            assert result.exit_code == 0, result.exception
            headline, *other_lines = result.stdout.splitlines()
            assert headline.startswith(icon)
            assert reason in headline
            assert other_lines[0].startswith("✗ Do both" if title == "VOID" else "? Do both")
            assert f"{title}: FDR ≤ " in result.stdout
            if arguments[0] == "identify":
                assert title.lower() in next(line for line in other_lines if "false discovery rate" in line)
            assert set(pl.read_csv(out / "selected.csv")["guarantee"]) <= {title.lower()}
            assert not (title == "VOID" and "divulge decide" in result.stdout)


def test_documents_with_a_footer_that_a_model_likes_are_not_identified_without_doubt(tmp_path):
    """Published pages of which the model saw none, against drafts: the footer alone lowers the loss of all."""
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(300)]
    for name, n, footer in (
        ("pages", 150, " all rights reserved by the publisher"),
        ("drafts", 250, ""),
        ("more", 250, ""),
    ):
        texts = [" ".join(rng.choice(words, 40)) + footer for _ in range(n)]
        losses = rng.normal(-8 if footer else 0, 1, n)
        pl.DataFrame({"id": [f"{name}{i}" for i in range(n)], "text": texts, "loss": losses}).write_ndjson(
            tmp_path / f"{name}.jsonl"
        )
    arguments = ["identify", tmp_path / "pages.jsonl", "--calibration", tmp_path / "drafts.jsonl", "--holdout"]
    arguments += [tmp_path / "more.jsonl", "--score", "loss:low", "--text", "text", "--out", tmp_path / "out"]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.exception
    headline = result.stdout.splitlines()[0]
    assert headline.startswith("◆ ")
    assert "150 of 150" in headline
    assert "In doubt: the documents differ from the unused ones" in headline
    assert "auto chose bh" not in result.stdout
    verbose = CliRunner().invoke(app, list(map(str, [*arguments, "--overwrite", "-v"])))
    assert "note: auto chose bh" in " ".join(verbose.stdout.split())
    assert set(pl.read_csv(tmp_path / "out" / "selected.csv")["guarantee"]) == {"doubtful"}


def test_a_loss_that_is_read_from_its_wrong_end_is_said_beside_the_finding(tables):
    arguments = ["identify", tables / "candidates.parquet", "--calibration", tables / "calibration.jsonl"]
    out = tables / "out"
    result = CliRunner().invoke(app, list(map(str, [*arguments, "--score", "loss:high", "--out", out])))
    assert "The direction may be wrong" in result.stdout.splitlines()[0]
    assert "did you mean loss:low?" in result.stdout
    assert "The direction may be wrong" in (out / "report.html").read_text()
    right = CliRunner().invoke(app, list(map(str, [*arguments, "--score", "loss:low", "--out", out, "--overwrite"])))
    assert "did you mean" not in right.stdout
    assert "direction may be wrong" not in right.stdout


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((Score("los"),), "no column 'los'; nearest: loss"),
        ((Score("id"),), "score column 'id' is text, not numeric"),
    ],
)
def test_wrong_columns_are_explained(tables, columns, message):
    with pytest.raises(dv.InputError, match=message):
        runs.run([tables / "candidates.parquet"], [tables / "calibration.jsonl"], tables / "out", plan(columns))


def test_tables_without_rows_or_of_one_value_are_refused(tables, tmp_path):
    candidates, calibration = tables / "candidates.parquet", tables / "calibration.jsonl"
    (tmp_path / "none.csv").write_text("id,loss\n")
    for files, message in (
        (([candidates], [tmp_path / "none.csv"]), "calibration: .*at least 1 row"),
        (([tmp_path / "none.csv"], [calibration]), "candidates: .*at least 1 row"),
    ):
        with pytest.raises(dv.InputError, match=message):
            runs.run(*files, tmp_path / "out", plan())
    same, more = tmp_path / "same.parquet", tmp_path / "more.parquet"
    pl.DataFrame({"loss": [1.0] * 50}).write_parquet(same)
    pl.DataFrame({"loss": [1.0] * 60}).write_parquet(more)
    with pytest.raises(dv.InputError, match="cannot tell anything apart"):
        runs.run([same], [more], tmp_path / "out", plan())


def test_files_that_cannot_be_read_are_named(tables, tmp_path):
    calibration = [tables / "calibration.jsonl"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 broken")
    (tmp_path / "table.xlsx").write_bytes(b"")
    for name, message in (
        ("absent.csv", "no such file"),
        ("empty", "in this folder"),
        ("broken.parquet", "damaged or half-written"),
        ("table.xlsx", r"pandas\.read_excel\('table.xlsx'\)\.to_parquet"),
    ):
        with pytest.raises(dv.InputError, match=message):
            runs.run([tmp_path / name], calibration, tmp_path / "out", plan())


def test_command_line(tables, tmp_path, divulge):
    out = tmp_path / "out"
    base = ["identify", tables / "candidates.parquet", "--calibration", tables / "calibration.jsonl", "--out", out]
    code, printed, err = divulge(*base, "--score", "loss:low", "--fdr", "0.1", "--truth", "member", "--json")
    assert code == 0, err
    summary = json.loads(printed)
    assert summary["selected"] == selection(out)["selected"].sum()
    assert json.loads((out / "summary.json").read_text()) == summary
    report = (out / "report.html").read_text()
    assert f"{summary['selected']} of 1,000 documents are identified as training data" in report
    code, _, err = divulge(*base, "--score", "loss:low")
    assert (code, "holds a finished run" in err) == (2, True)
    _, printed, _ = divulge(*base, "--score", "loss:low", "--fdr", "0.1", "--truth", "member", "--overwrite")
    assert "realised power" in printed
    code, printed, _ = divulge("decide", out, "--fdr", "0.3", "--json")
    assert (code, json.loads(printed)["selected"] > summary["selected"]) == (0, True)
    assert divulge("report", out, "--to", tmp_path / "again.html")[0] == 0
    assert (tmp_path / "again.html").read_text() == (out / "report.html").read_text()
    assert divulge("decide", out, "--fpr", "0.1")[0] == 2
    assert divulge("report", tmp_path)[0] == 2
    code, _, err = divulge(*base, "--score", "lss:low", "--overwrite")
    assert (code, "nearest: loss" in err) == (2, True)
    assert json.loads((out / "summary.json").read_text())["settings"]["fdr"] == 0.3  # the run before is untouched
    assert divulge("identify", tables / "candidates.parquet")[0] == 2
    assert "member-like end" in divulge(*base)[2]


def test_core_command_needs_no_torch(tables, tmp_path):
    code = (
        "import sys\n"
        "class NotInstalled:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, NotInstalled())\n"
        "from divulge.cli import main; main()"
    )
    arguments = [tables / "candidates.parquet", "--calibration", tables / "calibration.jsonl", "--score", "loss:low"]
    process = subprocess.run(
        [sys.executable, "-c", code, "identify", *map(str, arguments), "--out", str(tmp_path / "o")],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_more_rows_than_memory_takes_are_refused_before_they_are_read(tmp_path, monkeypatch, ending):
    from divulge import validation

    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"loss": rng.normal(size=1_000), "other": rng.normal(size=1_000)})
    path, other = tmp_path / f"scores.{ending}", tmp_path / f"other.{ending}"
    for rows, file in ((frame, path), (frame.reverse(), other)):
        {"csv": rows.write_csv, "jsonl": rows.write_ndjson, "parquet": rows.write_parquet}[ending](file)
    rows = runs.scan_scores([path], "candidates").estimate_rows()
    assert rows == pytest.approx(1_000, rel=0.02)
    columns = Columns(LOSS_LOW)
    several = Columns((Score("loss", -1), Score("other", -1)))
    between = sum(runs.estimate_memory(1_000, each) for each in (columns, several)) / 2
    monkeypatch.setattr(validation, "available_memory", lambda: between / 0.9)
    assert runs.run([path], [other], tmp_path / "one", plan()).candidates == 1_000
    with pytest.raises(InputError, match=r"candidates: about .* needed, .* free; there are about .* rows"):
        runs.run([path], [other], tmp_path / "several", runs.DecisionPlan(several))
    assert not (tmp_path / "several" / "summary.json").exists()


def test_rows_of_files_that_do_not_tell_are_counted_as_they_are_read(tmp_path):
    (tmp_path / "quoted.csv").write_text('loss,text\n1,"two\nlines"\n')
    (tmp_path / "packed.csv").write_bytes(gzip.compress(b"loss\n1\n2\n"))
    for name in ("quoted.csv", "packed.csv"):
        assert runs.scan_scores([tmp_path / name], "candidates").estimate_rows() is None


WORDS = np.array([f"{a}{b}" for a in ("mo", "lin", "tar", "ve") for b in ("ra", "sto", "ken", "bil", "nu")])


def write_documents(path, n, *, length=25, shift=0.0, seed=0, column="answer", **columns):
    """Write documents of so many words; a model knows none of them better than another, but for the shift."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, length)) for _ in range(n)]
    frame = pl.DataFrame({"id": [f"{path.stem}{i}" for i in range(n)], column: texts, "loss": rng.normal(-shift, 1, n)})
    frame.with_columns(**columns).write_csv(path)
    return path


def run_command(*arguments):
    result = CliRunner().invoke(app, ["identify", *map(str, arguments)])
    return result, " ".join(f"{result.output} {result.exception or ''}".split())


@pytest.mark.parametrize("text", ["found", "none"])
def test_documents_that_are_all_unlike_the_calibration_are_not_identified_without_doubt(tmp_path, text):
    """None was used: documents are longer than the unused ones, and any model finds long ones easier."""
    candidates = write_documents(tmp_path / "pages.csv", 100, shift=4, seed=1)
    known = [write_documents(tmp_path / f"{name}.csv", 110, length=2, seed=seed) for seed, name in ((2, "a"), (3, "b"))]
    arguments = [candidates, "--calibration", known[0], "--holdout", known[1], "--score", "loss:low", "--drop-overlap"]
    arguments += ["--out", tmp_path / "out", *(["--text", "none"] if text == "none" else [])]
    result, said = run_command(*arguments)
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("◆ ")
    assert "In doubt: " in said
    assert ("column 'answer', the longest free text" in said) == (text == "found")
    summary = results.read_summary(tmp_path / "out", results.IdentificationSummary)
    assert summary.guarantee.standing == "doubtful"
    states = {control.name: control.state for control in summary.controls}
    assert states.get("blind text") == ("doubtful" if text == "found" else None)
    assert "hold no texts" not in said
    if text == "none":
        assert "nothing but the scores was compared" in said


def test_the_longest_free_text_is_taken_and_names_categories_and_dates_are_none(tmp_path):
    tables = []
    for name in ("candidates", "calibration"):
        rows = pl.int_range(0, 60, eager=True)
        file = write_documents(
            tmp_path / f"{name}.csv", 60, length=30,
            title=pl.lit("on the use of ") + pl.Series([f"{name}{row}" for row in rows]) + pl.lit(" in our time"),
            kind=pl.lit("a letter to the editor of a paper"),
            author=pl.Series([f"Jane Smith{row}" for row in rows]),
            day=pl.lit("2024-01-01 10:00"),
        )  # fmt: skip
        tables.append(score_tables.scan_scores([file], name))
    assert score_tables.find_free_texts(tables, without=("id", "loss")) == ["answer", "title"]
    columns = score_tables.resolve_columns(tables[0], ["loss:low"], calibration=tables[1])
    assert (columns.text, columns.is_text_found) == ("answer", True)
    assert score_tables.resolve_columns(tables[0], ["loss:low"], text="none", calibration=tables[1]).text is None
    named = score_tables.resolve_columns(tables[0], ["loss:low"], text="title", calibration=tables[1])
    assert (named.text, named.is_text_found) == ("title", False)


def test_a_document_is_on_one_side_alone_however_it_is_spelled(tmp_path):
    """Other ids, and scores that differ in the fifth decimal."""
    ways = [
        lambda text: text,
        lambda text: f"{text} ",
        lambda text: text.replace(" ", " \N{NO-BREAK SPACE}"),
        str.upper,
        lambda text: text.replace("fi", "\N{LATIN SMALL LIGATURE FI}"),
    ]
    known = write_documents(tmp_path / "known.csv", 120, seed=4)
    frame = pl.read_csv(known).with_columns(answer=pl.col("answer") + " file")
    frame.write_csv(known)
    copies = frame.with_columns(
        id="copy" + pl.col("id"),
        answer=pl.Series([ways[i % len(ways)](text) for i, text in enumerate(frame["answer"])]),
        loss=pl.col("loss") + 1e-5,
    )
    candidates = write_documents(tmp_path / "candidates.csv", 80, seed=5)
    copies.write_csv(tmp_path / "holdout.csv")
    copies[:30].write_csv(tmp_path / "planted.csv")
    base = ["--calibration", known, "--score", "loss:low", "--out", tmp_path / "out"]
    for option in ([], ["--text", "answer"]):
        result, said = run_command(candidates, *base, "--holdout", tmp_path / "holdout.csv", *option)
        assert isinstance(result.exception, InputError)
        assert "holdout: the text of 120 rows" in said
        assert "is also in the calibration" in said
        result, said = run_command(candidates, tmp_path / "planted.csv", *base, *option)
        assert isinstance(result.exception, InputError)
        assert "candidates: the text of 30 rows" in said
    result, said = run_command(candidates, tmp_path / "planted.csv", *base, "--drop-overlap")
    assert result.exit_code == 0
    assert "30 candidates whose text is also in the calibration were left out of both" in said
    texts = frame["answer"].to_list()
    with pytest.raises(dv.InputError, match=r"30 rows .* are also among the calibration texts"):
        dv.identify(
            np.arange(30.0) + 0.5, np.arange(120.0), fdr=0.1,
            candidate_texts=copies["answer"][:30].to_list(), calibration_texts=texts,
        )  # fmt: skip


def test_one_run_has_one_standing_everywhere(tables):
    """Without a second set of unused documents nothing says that the comparison is fair: in doubt everywhere."""
    out = tables / "out"
    arguments = [tables / "candidates.parquet", "--calibration", tables / "calibration.jsonl", "--score", "loss:low"]
    result, said = run_command(*arguments, "--fdr", "0.1", "--out", out)
    assert result.stdout.startswith("◆ ")
    assert "DOUBTFUL: FDR ≤ 0.1" in said
    assert "10 % at most (doubtful)" in said
    assert json.loads((out / "summary.json").read_text())["guarantee"]["standing"] == "doubtful"
    assert set(pl.read_csv(out / "selected.csv")["guarantee"]) == {"doubtful"}
    top = CliRunner().invoke(app, ["decide", str(out), "--top", "17"])
    assert top.stdout.startswith("if the assumption holds")
    assert redecide(out, fdr=0.2).guarantee.standing == "doubtful"
    assert dv.load(out).summary.guarantee.standing == "doubtful"
