"""The real leaderboard on loopback: attack, crash, quota, errors, submissions by hand, and the command line."""

import asyncio
import contextlib
import io
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

import divulge as dv
from divulge import cli, labels

pytest.importorskip("httpx")
BOARD = {"clip": 1e-15, "decimals": 5}


def start(*arguments):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "from divulge.cli import main; main()", "labels", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=paths)


def run(*arguments, check=True):
    """Run a command within this process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = cli.run(["labels", *map(str, arguments)])
    if check:
        assert code == 0, errors.getvalue()
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


@pytest.fixture
def y():
    return np.random.default_rng(3).integers(0, 2, 198)


def test_titanic_through_the_real_leaderboard(leaderboard, titanic, tmp_path):
    url = leaderboard(titanic, **BOARD, quota=160)
    options = ("--n", 2201, "--clip", "1e-15", "--decimals", "5", "--json", "--report", tmp_path / "r.html")
    content = json.loads(run("attack", url, *options).stdout)
    assert content["labels"] == titanic.tolist()
    assert content["queries"] <= 156
    assert content["certain"] == 2201
    assert "2,201 of 2,201 labels" in (tmp_path / "r.html").read_text()


def test_a_quota_stop_and_a_crash_lose_no_answer_and_repeat_no_query(leaderboard, y, tmp_path):
    spec = labels.OracleSpec(n=198, **BOARD)
    plan = labels.design(spec)
    journal = tmp_path / "answers.jsonl"
    interrupted = labels.infer(
        labels.HttpOracle(leaderboard(y, **BOARD, quota=4)), plan, journal=labels.Journal(journal, plan)
    )
    assert interrupted.queries == 4
    assert not interrupted.complete
    with journal.open("a") as crashed:
        crashed.write('{"query": 4, "sco')
    board = leaderboard(y, **BOARD, quota=plan.count - 4 + len(plan.controls))
    inference = labels.infer(labels.HttpOracle(board), plan, journal=labels.Journal(journal, plan))
    assert inference.complete
    assert (inference.labels == y).all()
    assert len(journal.read_text().splitlines()) == 1 + plan.count + len(plan.controls)


def test_a_killed_attack_goes_on_where_it_was(leaderboard, server_module, tmp_path):
    """The board says when it has the sixth submission, and holds its answer back until the attack is killed."""
    y = np.random.default_rng(1).integers(0, 2, 700)
    app = server_module.create_app(tmp_path / "board0.sqlite", y, server_module.Rules(**BOARD))
    submissions, attack_started, killed = itertools.count(1), threading.Event(), threading.Event()

    @app.middleware("http")
    async def hold(request, answer):
        if next(submissions) == 6:
            attack_started.set()
            await asyncio.to_thread(killed.wait)
        return await answer(request)

    url = leaderboard.app(app)
    common = ("--n", 700, "--clip", "1e-15", "--decimals", 5, "--journal", tmp_path / "j", "--json")
    with start("attack", url, *common) as attack:
        arrived = attack_started.wait(300)
        attack.kill()
        killed.set()
    assert arrived
    journal_text = (tmp_path / "j").read_text()
    content = json.loads(run("attack", url, *common).stdout)
    assert content["labels"] == y.tolist()
    assert (tmp_path / "j").read_text().startswith(journal_text[: journal_text.rfind("\n") + 1])
    with closing(sqlite3.connect(tmp_path / "board0.sqlite")) as connection:
        ((n_submissions,),) = connection.execute("SELECT COUNT(*) FROM submissions").fetchall()
    # Beside the control queries at most the one that was under way when the attack was killed is asked again.
    n_controls = len(labels.design(labels.OracleSpec(n=700, **BOARD)).controls)
    assert content["queries"] + n_controls <= n_submissions <= content["queries"] + n_controls + 1
    assert content["checked"]


def test_the_public_rows_of_a_real_leaderboard(leaderboard, y, tmp_path):
    public = np.random.default_rng(5).random(198) < 0.4
    url = leaderboard(y, **BOARD, public=public)
    spec = labels.OracleSpec(n=198, scored="unknown", **BOARD)
    simulation = labels.simulate(spec, y, oracle=labels.HttpOracle(url), scored=public)
    assert simulation.accuracy == 1
    assert simulation.inference.certain.all()
    board = ("--clip", "1e-15", "--decimals", 5, "--scored", "unknown")
    output = run("attack", url, "--n", 198, *board, "--out", tmp_path / "found.csv").stdout
    assert f"{public.sum()} rows are scored" in output
    assert f"{public.sum()} of {public.sum()} labels proven" in output
    assert f"({public.sum()} labels from" in repr(simulation.inference)
    read = np.loadtxt(tmp_path / "found.csv", delimiter=",", skiprows=1, dtype=int)
    assert (read[:, 1] == np.where(public, y, -1)).all()


def test_the_public_rows_of_an_oracle_on_this_machine(y):
    public = np.random.default_rng(6).random(198) < 0.4
    simulation = labels.simulate(labels.OracleSpec(n=198, scored=int(public.sum()), **BOARD), y, scored=public)
    assert simulation.accuracy == 1


def test_a_journal_of_another_plan_is_refused(tmp_path):
    plan = labels.design(labels.OracleSpec(n=198, **BOARD))
    clipped_plan = labels.design(labels.OracleSpec(n=198, clip=1e-15, decimals=4))
    labels.Journal(tmp_path / "j", plan).keep(0, 0.5)
    assert labels.Journal(tmp_path / "j", plan).answers() == {0: 0.5}
    with pytest.raises(dv.InputError, match="holds answers to another plan"):
        labels.Journal(tmp_path / "j", clipped_plan)
    (tmp_path / "k").write_text("no journal\n")
    with pytest.raises(dv.InputError, match="not a journal"):
        labels.Journal(tmp_path / "k", plan)


def test_what_a_server_can_do_wrong(leaderboard):
    from fastapi import FastAPI, Response

    app = FastAPI()
    behaviours = iter(["500", "busy", "ok", "500", "500", "nan", "inf", "none", "text", "422"])

    @app.post("/submit")
    def submit():
        behaviour = next(behaviours)
        if behaviour == "busy":
            return Response(status_code=429, headers={"retry-after": "0"})
        if behaviour in ("500", "422"):
            return Response(status_code=int(behaviour), content="trouble")
        return Response(
            {
                "ok": '{"score": 0.5}',
                "nan": '{"score": NaN}',
                "inf": "Infinity",
                "none": '{"score": null}',
                "text": "hm",
            }[behaviour]
        )

    url = leaderboard.app(app)
    waits = []
    oracle = labels.HttpOracle(url, retries=2, sleep=waits.append)
    assert oracle(np.array([0.5])) == 0.5
    assert waits == [0.5, 0.0]
    short = labels.HttpOracle(url, retries=1, sleep=waits.append)
    for message in (
        "failed 2 times, last: HTTP 500",
        "without a number .*NaN",
        "answered Infinity",
        "without a number",
        "without a number",
        "HTTP 422",
    ):
        with pytest.raises(dv.InputError, match=message):
            short(np.array([0.5]))


def test_no_server_at_all():
    oracle = labels.HttpOracle("http://127.0.0.1:9/submit", retries=1, sleep=lambda _: None)
    with pytest.raises(dv.InputError, match="failed 2 times, last: ConnectError"):
        oracle(np.array([0.5]))


def test_the_board_keeps_its_quota_and_its_scores(leaderboard, y, tmp_path):
    url = leaderboard(y, **BOARD, quota=1)
    oracle = labels.HttpOracle(url, headers={"x-team": "a"})
    rows = np.full((198, 2), 0.5)
    assert oracle(rows) == round(np.log(2), 5)
    with pytest.raises(labels.QuotaReachedError):
        oracle(rows)
    with closing(sqlite3.connect(tmp_path / "board0.sqlite")) as connection:
        assert connection.execute("SELECT team, score FROM submissions").fetchall() == [("a", 0.69315)]
    with pytest.raises(dv.InputError, match="HTTP 422"):
        labels.HttpOracle(url)(np.full((198, 2), 0.4))


def test_scores_carried_by_hand(y, tmp_path):
    common = ("--n", "198", "--clip", "1e-15", "--decimals", "5")
    template = tmp_path / "sample.csv"
    template.write_text("Id,no,yes\n" + "".join(f"r{i},0.5,0.5\n" for i in range(198)))
    run("design", *common, "--write", tmp_path / "subs", "--template", template)
    scores = []
    for path in sorted((tmp_path / "subs").glob("*.csv")):
        head, *lines = path.read_text().splitlines()
        assert head == "Id,no,yes"
        rows = np.array([line.split(",")[1:] for line in lines], dtype=float)
        scores.append(round(-np.log(np.clip(rows, 1e-15, 1 - 1e-15)[np.arange(198), y]).mean(), 5))
    typed = tmp_path / "scores.txt"
    typed.write_text("\n".join(map(str, scores)))
    run("attack", *common, "--scores", typed, "--out", tmp_path / "found.csv")
    values = np.loadtxt(tmp_path / "found.csv", delimiter=",", skiprows=1, dtype=int)
    assert (values[:, 1] == y).all()
    assert values[:, 2].all()
    typed.write_text("\n".join(map(str, scores[:3])))
    failed = run("attack", *common, "--scores", typed, check=False)
    assert failed.returncode == 2
    assert f"scores: {len(scores)} are needed" in failed.stderr
    typed.write_text("0.5\nhello\n")
    assert "line 2" in run("attack", *common, "--scores", typed, check=False).stderr


def test_the_attack_command_goes_on_after_a_quota_stop(leaderboard, y, tmp_path):
    common = ("--n", 198, "--clip", "1e-15", "--decimals", 5, "--journal", tmp_path / "j", "--json")
    interrupted = json.loads(run("attack", leaderboard(y, **BOARD, quota=5), *common).stdout)
    assert interrupted["queries"] == 5
    assert not interrupted["complete"]
    completed = json.loads(run("attack", leaderboard(y, **BOARD), *common, "--report", tmp_path / "r.html").stdout)
    assert completed["labels"] == y.tolist()
    assert (tmp_path / "r.html").stat().st_size > 1000


def test_the_small_commands():
    assert json.loads(run("capacity", "--n", 198, "--clip", "1e-15", "--decimals", 5, "--json").stdout)["queries"] == 10
    assert "at most" in run("capacity", "--n", 198).stdout
    assert json.loads(run("defend", "--n", 40, "--json").stdout)["noise"] > 0
    assert "clip predictions" in run("defend", "--n", 40).stdout
    assert "queries for 198 labels" in run("design", "--n", 198).stdout
    bad = run("capacity", "--n", 198, "--clip", "often", check=False)
    assert bad.returncode == 2
    assert "clip: a number" in bad.stderr


def test_templates_that_do_not_fit(tmp_path):
    with pytest.raises(dv.InputError, match=r"2 identifiers .* for 3 rows"):
        labels.Submission(ids=("a", "b")).text(np.zeros(3))
    with pytest.raises(dv.InputError, match="2 columns, but"):
        labels.Submission(columns=("id", "p")).text(np.zeros((3, 2)))
    (tmp_path / "t.csv").write_text("id\n")
    with pytest.raises(dv.InputError, match="a header and at least one row"):
        labels.Submission.from_template(tmp_path / "t.csv")


@pytest.mark.parametrize("separator", [";;", "ab", "\n", "\r", '"'])
def test_values_are_separated_by_one_character_that_ends_no_line_and_quotes_nothing(separator):
    with pytest.raises(dv.InputError, match="separator: one character is needed, got"):
        labels.Submission(separator=separator)


@pytest.mark.parametrize(
    ("content", "separator"),
    [
        (b"id,p\n007,0.5\nb,0.5\n", ","),
        (b"\xef\xbb\xbfid;p\r\n007;0,5\r\nb;0,5\r\n", ";"),
        ("id\tp\n007\t1\nb\t1\n".encode("utf-16"), "\t"),
    ],
)
def test_a_template_is_read_as_any_csv(tmp_path, content, separator):
    (tmp_path / "t.csv").write_bytes(content)
    assert labels.Submission.from_template(tmp_path / "t.csv") == labels.Submission(
        ("007", "b"), ("id", "p"), separator
    )


def test_a_template_that_is_no_csv_or_lacks_an_identifier_is_refused(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"id": 1, "p": 2}\n')
    with pytest.raises(dv.InputError, match="a CSV file is needed"):
        labels.Submission.from_template(tmp_path / "t.jsonl")
    (tmp_path / "t.csv").write_text("id,p\n,1\n")
    with pytest.raises(dv.InputError, match="each with an identifier"):
        labels.Submission.from_template(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.txt", "\ufeff0.25\n0.5\n"),
        ("s.txt", "score\n0,25\n0,5\n"),
        ("s.csv", "0.25\n0.5\n"),
        ("s.csv", "query;Score\n1;0,25\n2;0,5\n"),
        ("s.tsv", '"score"\n0.25\n0.5\n'),
        ("s.jsonl", '{"score": 0.25, "by": "x"}\n{"score": 0.5, "by": "y"}\n'),
    ],
)
def test_scores_carried_by_hand_are_read_from_any_table(tmp_path, name, content):
    plan = labels.design(labels.OracleSpec(n=4))
    assert plan.count == 1
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert labels.read_scores(path, plan).tolist() == [0.25, 0.5]


def test_scores_that_cannot_be_told_apart_or_are_none_are_named(tmp_path):
    plan = labels.design(labels.OracleSpec(n=4))
    path = tmp_path / "s.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(dv.InputError, match="one column is needed, or one that is called score, got a, b"):
        labels.read_scores(path, plan)
    path.write_text("score\n0.5\n1e\n")
    with pytest.raises(dv.InputError, match=r"row 1 of .*s\.csv is '1e'; a number is needed"):
        labels.read_scores(path, plan)
    path.write_text("by,score\nx,0.5\ny,\n")
    with pytest.raises(dv.InputError, match=r"row 1 of .*s\.csv is ''; a number is needed"):
        labels.read_scores(path, plan)
