"""Steps of the command line's output and options: what is escaped, how tables fit, what an option is read as."""

import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from divulge import InputError, cli
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import UserCodeError


def refused(message):
    return pytest.raises(InputError, match=message)


class TestLines:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("auto: used bh", "note"), ("auto-lira: chose 4", "note"), ("auto chose storey", "note"),
            ("auto chose bh, not adaptive", "warning"), ("auto: failed", "warning"), ("the auto: used it", "warning"),
        ],
    )  # fmt: skip
    def test_a_choice_of_auto_is_a_note_unless_something_speaks_against_it(self, text, kind, capsys):
        printing.remark(text)
        assert capsys.readouterr().out == f"{kind}: {text}\n"

    @pytest.mark.parametrize(("answer", "says"), [("y\n", True), (" YES \n", True), ("n\n", False), ("\n", False)])
    def test_only_yes_is_a_yes(self, answer, says, monkeypatch, capsys):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert printing.confirm("Sure?") is says
        assert capsys.readouterr().err == "Sure?"
        with refused("^--yes: nothing was done"):
            printing.confirm("Sure?")


class TestOptions:
    @pytest.mark.parametrize(
        ("message", "arguments", "expected"),
        [
            ("data.text: is needed", [], "--text: is needed"), ("n_rows: bad", [], "--rows: bad"),
            ("n_rows: bad", ["n_rows"], "n_rows: bad"), ("other: bad", [], "other: bad"),
            ("see data.text and references.n_rows", [], "see --text and --rows"),
            ("my-data.text: x", [], "my-data.text: x"), ("/data.text", [], "/data.text"), ("flag: x", [], "flag: x"),
            ("file: x", [], "file: x"), ("text n_rows: x", [], "text n_rows: x"), ("n_rows:x", [], "n_rows:x"),
        ],
    )  # fmt: skip
    def test_messages_name_options_in_place_of_arguments(self, message, arguments, expected):
        def parameter(name, flag, is_flag=False):
            return SimpleNamespace(name=name, opts=[flag], is_flag=is_flag)

        parameters = [
            parameter("text", "--text"), parameter("n_rows", "--rows"), parameter("file", "file"),
            parameter("flag", "--flag", True),
        ]  # fmt: skip
        command = SimpleNamespace(params=parameters)
        assert options.name_options(message, command, arguments) == expected
        planned = SimpleNamespace(params=[*parameters, parameter("plan", "plan")])
        assert options.name_options(message, planned, arguments) == message

    def test_a_run_has_a_folder_of_its_own(self, monkeypatch):
        monkeypatch.setattr("time.strftime", lambda text: text)
        assert options.run_folder(Path("a"), "b") == Path("a")
        assert options.run_folder(None, "b") == Path("runs/b-%Y%m%d-%H%M%S")
        assert options.run_folder(None, "") == Path("runs/run-%Y%m%d-%H%M%S")


class TestCommands:
    @pytest.mark.parametrize(
        ("error", "code", "text"),
        [
            (InputError("bad"), Exit.INPUT, "bad"), (KeyboardInterrupt(), Exit.INTERRUPTED, "the same command resumes"),
            (EOFError("gone"), Exit.INTERRUPTED, "gone"), (MemoryError(), Exit.INPUT, "out of memory"),
            (OSError(2, "No such", "a"), Exit.INPUT, "a: No such"), (RuntimeError("secret"), Exit.INTERNAL, "internal"),
            (UserCodeError("mine"), Exit.INPUT, "mine"), (BrokenPipeError(), Exit.INPUT, ""),
            (ModuleNotFoundError("no", name="torch"), Exit.INPUT, "'.[torch]'"),
            (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "no"), Exit.INPUT, "a name that is not UTF-8"),
        ],
    )  # fmt: skip
    def test_each_error_has_its_exit_code_and_one_line(self, error, code, text, monkeypatch, capsys):
        def fail():
            raise error

        monkeypatch.setattr(cli.machine, "current_time", fail)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
        assert cli.run(["list"]) == code
        streams = capsys.readouterr()
        assert text in streams.err
        assert "secret" not in streams.err
        assert bool(streams.err) == bool(text)
        monkeypatch.delenv("SOURCE_DATE_EPOCH")
        assert cli.run(["--version"]) == Exit.OK


def test_streams_without_an_end_are_muted(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        printing.lines(stream, "lost")
        printing.lines(stream, "lost again")
