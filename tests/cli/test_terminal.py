"""What reaches a terminal: plain text, whatever was read; and the exit codes, each with one meaning."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import divulge as dv
from divulge import cli
from divulge.cli import printing
from divulge.cli.printing import Exit
from divulge.references import Pool

COMMAND = [sys.executable, "-c", "from divulge.cli import main; main()"]
HOSTILE = "\x1b]0;owned\x07[red]x[/red]\x9b2J\u202e\n[link=http://x]y"
OPTIONAL = ("PIL", "httpx", "onnxruntime", "opacus", "ray", "skops", "tokenizers", "torch", "transformers")


def divulge(*arguments, command=COMMAND, **options):
    environment = os.environ | {"PYTHONPATH": str(Path(dv.__file__).parents[1])} | options.pop("env", {})
    settings = {"capture_output": True, "check": False, "env": environment} | options
    return subprocess.run([*command, *map(str, arguments)], **settings)


def obeyed(text):
    """Characters that a terminal would obey."""
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished audit whose warnings, ids and paths are hostile."""
    rng = np.random.default_rng(0)

    def records(n, name):
        ids = np.array([f"{name}{i}{HOSTILE}" for i in range(n)])
        return dv.Records(rng.normal(size=(n, 2)), rng.integers(0, 2, n), ids)

    path = tmp_path_factory.mktemp("runs") / "run\x1b[2J[red]"
    dv.audit(
        lambda x: np.stack([x[:, 0], -x[:, 0]], axis=1),
        members=records(40, "m"),
        nonmembers=records(40, "n"),
        population=dv.Records(rng.normal(size=(80, 2)), rng.integers(0, 2, 80)),
        recipes=["loss"],
        fpr=(0.1,),
        groups=[HOSTILE] * 80,
        out=path,
    )
    return path


def test_nothing_that_was_read_steers_the_terminal(run, tmp_path, capsys):
    pool = Pool(tmp_path / "pool\x1b[2J")
    pool.put("aa", {"w": np.ones(2)}, {"records": HOSTILE})
    (pool.path / f"bad{HOSTILE.replace('/', '')}").write_bytes(b"")
    commands = [
        ("report", run),
        ("decide", run, "--fpr", "0.2"),
        ("decide", run, "--fpr", HOSTILE),
        ("gate", run, "--max", "auc:1"),
        ("gate", run, "--max", HOSTILE),
        ("compare", run, run),
        ("pool", "ls", pool.path),
        ("pool", "prune", pool.path, "--dry-run"),
        ("audit", f"/nowhere/{HOSTILE}", "--out", tmp_path / "out"),
        ("identify", f"/nowhere/{HOSTILE}", "--calibration", HOSTILE, "--out", tmp_path / "o", "--score", "x"),
        (HOSTILE,),
        ("report", f"--{HOSTILE}"),
    ]
    for command in commands:
        for options in ((), ("--json",)):
            if not (options and command[0] == HOSTILE):
                assert cli.run([*map(str, command), *options]) in (Exit.OK, Exit.INPUT, Exit.BROKEN, Exit.UNDECIDED)
                streams = capsys.readouterr()
                assert not obeyed(streams.out + streams.err), command
    cli.run(["pool", "ls", str(pool.path)])
    assert "[red]" in "".join(capsys.readouterr().out.split())  # shown as it is, not taken for a colour
    cli.run(["pool", "ls", str(pool.path), "--json"])
    assert json.loads(capsys.readouterr().out)[0]["about"]["records"] == HOSTILE


# Several commands in one process: what takes time is its start.
SEVERAL = """
import json, sys
from divulge import cli
from divulge.cli import printing
printing.prepare()
codes = [int(cli.run(words)) for words in json.loads(sys.argv[1])]
printing.finish()
sys.exit(str(codes))
"""


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_a_terminal_without_letters_is_no_reason_to_fail(run, variables):
    commands = [["list"], ["decide", str(run), "--fpr", "0.2"], ["--help"], ["labels", "attack", "--help"]]
    result = divulge(json.dumps(commands), command=[sys.executable, "-c", SEVERAL], env=variables)
    assert result.stderr.decode("ascii").strip() == str([0] * 4)
    assert "\\u2264 0.2" in result.stdout.decode("ascii")


def closed():
    """The end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_a_reader_that_leaves_changes_nothing(run):
    """As in `divulge gate RUN | head -1`."""
    end = closed()
    for errors in (subprocess.PIPE, end):
        result = divulge("gate", run, "--max", "auc:0.01", capture_output=False, stdout=end, stderr=errors)
        assert result.returncode == Exit.BROKEN
        assert not result.stderr
    os.close(end)


NEEDS = {
    "torch": [("audit", "--demo", "--out", "OUT"), ("audit", "--demo", "--quick", "--out", "OUT")],
    "text": [("identify", "--demo", "--out", "OUT"), ("score", "t.csv", "--model", "hf:tiny", "--out", "OUT")],
    "http": [
        ("score", "t.csv", "--model", "tiny", "--endpoint", "http://127.0.0.1:9/v1", "--out", "OUT"),
        ("identify", "t.csv", "--calibration", "u.csv", "--model", "x", "--endpoint", "http://[::1]:9", "--out", "OUT"),
        ("labels", "attack", "http://127.0.0.1:9/", "--n", "4"),
    ],
    "": [
        ("list",),
        ("identify", "t.csv", "--calibration", "u.csv", "--score", "x", "--fdr", "0.2", "--out", "done"),
        ("labels", "capacity", "--n", "4"),
        ("labels", "design", "--n", "4"),
        ("labels", "defend", "--n", "40"),
        ("labels", "simulate", "y.txt"),
    ],
}


PLAIN = f"""
import contextlib, importlib.machinery, io, json, sys

class Plain(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name.partition(".")[0] in {OPTIONAL} else super().find_spec(name, *where)

sys.meta_path[:] = [Plain if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
from divulge import cli
found = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        found.append([cli.run(words), said.getvalue()])
print(json.dumps(found))
"""


def test_on_the_plain_installation_every_command_works_or_says_what_to_install(tmp_path):
    (tmp_path / "t.csv").write_text("text,x\n" + "".join(f"word {i},{(7 * i) % 10}\n" for i in range(10)))
    (tmp_path / "u.csv").write_text("text,x\n" + "".join(f"other {i},{(3 * i) % 10}\n" for i in range(30)))
    (tmp_path / "y.txt").write_text("0\n1\n1\n0\n")
    commands = [(extra, list(words)) for extra in NEEDS for words in NEEDS[extra]]
    plain = [sys.executable, "-c", PLAIN]
    result = divulge(json.dumps([words for _, words in commands]), command=plain, cwd=tmp_path, text=True)
    assert result.returncode == 0, result.stderr
    for (extra, words), (code, message) in zip(commands, json.loads(result.stdout), strict=True):
        assert code == (Exit.INPUT if extra else Exit.OK), (words, message)
        assert f"it comes with the extra '{extra}': pip install '.[{extra}]'" in message or not extra, words
    assert not (tmp_path / "OUT" / "run.json").exists()


def test_a_fault_of_ours_is_one_line_with_its_place_and_without_its_words(capsys, monkeypatch):
    def fails(*_):
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(printing, "as_json", fails)
    assert cli.run(["labels", "capacity", "--n", "10", "--json"]) == Exit.INTERNAL
    errors = capsys.readouterr().err
    assert re.fullmatch(r"divulge: internal error: RuntimeError at divulge/cli/labels.py:\d+\. .*\n", errors)
    assert "swordfish" not in errors


def test_interrupted_is_a_code_of_its_own(capsys, monkeypatch):
    def stops(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(printing, "as_json", stops)
    assert cli.run(["labels", "capacity", "--n", "10", "--json"]) == Exit.INTERRUPTED
    assert "the same command resumes" in capsys.readouterr().err


def test_wrong_usage_is_one_line_that_names_the_help(capsys):
    for command, message in (
        ((), None),
        (("report",), "Missing argument"),
        (("report", "--nope"), "see divulge report --help"),
        (("nope",), "No such command"),
        (("pool",), None),
        (("gate", "x", "--max"), "requires an argument"),
        (("labels", "capacity", "--n", "many"), "valid integer"),
    ):
        assert cli.run(command) == Exit.INPUT
        errors = capsys.readouterr().err
        assert errors.count("\n") == (message is not None)
        assert (message or "") in errors


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_table_breaks_an_interval_or_a_word_at_any_width(width):
    from rich.console import Console

    columns = ["recipe", "AUC", "TPR at FPR 0.01", "ε ≥"]
    rows = [["transductive", "0.606 [0.551, 0.659]", "0.026 [0.000, 0.090]", "0.32"], ["loss", "–", "0.5", "1.00"]]
    console = Console(width=width, file=io.StringIO())
    for titled in (rows, [[*row[:3], "a sentence that is longer than any column ought to be made"] for row in rows]):
        with console.capture() as captured:
            console.print(printing.fit_table("All", columns, titled, width))
        lines = captured.get().splitlines()
        assert max(map(len, lines)) <= width
        for unbroken in ("transductive", "[0.551, 0.659]", "[0.000, 0.090]"):
            assert any(unbroken in line for line in lines), (width, unbroken)


@pytest.mark.parametrize(("columns", "widest"), [("1", 30), ("30", 30), ("31", 31), ("80", 80), ("200", 80)])
def test_a_paragraph_is_as_wide_as_the_terminal_and_never_unreadably_narrow(monkeypatch, capsys, columns, widest):
    monkeypatch.setenv("COLUMNS", columns)
    printing.paragraph("i " * 200)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ""
    assert max(map(len, lines)) == widest - (widest + 1) % 2  # words of one letter, and spaces between them
