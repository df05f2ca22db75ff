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
        ("text", "shown"),
        [
            ("a\x1fb", r"a\x1fb"), ("a b~", "a b~"), ("\x7f\x9f\xa0", "\\x7f\\x9f\xa0"),
            ("\u2027\u2028", "\u2027\\u2028"),
            ("\u202e\u202f", "\\u202e\u202f"), ("\u2066\u2069\u206a", "\\u2066\\u2069\u206a"), ("\ud800", r"\ud800"),
            ("\ufeffé", "\\ufeffé"), ("\u061c\u200e\u200f\u2010", "\\u061c\\u200e\\u200f\u2010"), (3, "3"),
        ],
    )  # fmt: skip
    def test_what_would_steer_a_terminal_is_spelt_out(self, text, shown, capsys):
        assert printing.escape(text) == shown
        printing.line(text)
        assert capsys.readouterr().out == f"{shown}\n"

    def test_streams_have_their_lines(self, capsys):
        printing.line("plain", style="bold")
        printing.line()
        printing.lines(printing.sys.stderr, "a\nb")
        printing.error("two\nlines")
        printing.as_json({"a": "x\ny\u2028é"})
        streams = capsys.readouterr()
        assert streams.out == 'plain\n\n{\n  "a": "x\\ny\\u2028é"\n}\n'
        assert streams.err == "a\nb\ndivulge: two lines\n"
        with pytest.raises(ValueError, match="not JSON compliant"):
            printing.as_json(float("nan"))

    @pytest.mark.parametrize(("columns", "widest"), [("200", 80), ("50", 50), ("10", 30)])
    def test_a_paragraph_is_no_wider_than_the_terminal(self, columns, widest, monkeypatch, capsys):
        monkeypatch.setenv("COLUMNS", columns)
        printing.paragraph("word " * 60 + "well-known " * 9)
        first, *rest = capsys.readouterr().out.splitlines()
        assert first == ""
        assert max(map(len, rest)) <= widest
        assert max(map(len, rest)) > widest - 12
        assert not any(text.endswith("well-") for text in rest)

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

    def test_exit_codes_have_one_meaning_each(self):
        codes = {"OK": 0, "BROKEN": 1, "INPUT": 2, "UNDECIDED": 3, "CONTRADICTED": 4, "DAMAGED": 5}
        assert {code.name: code.value for code in Exit} == codes | {"INTERNAL": 70, "INTERRUPTED": 130}


def shown(columns, rows, width):
    console = printing.rich_console.Console(file=io.StringIO(), width=width, color_system=None)
    console.print(printing.fit_table("Title", columns, rows, width))
    return console.file.getvalue().splitlines()


class TestTables:
    columns = ("name", "estimate", "how it was found")
    rows = (("loss", "0.500 [0.250, 0.750]", "exactly"), ("long name", "0.1 [-0.2, 0.3]", "by hand"))

    def test_a_table_is_one_block_two_lines_or_a_list_by_its_width(self):
        """Each column takes two blanks and a line beside its widest cell, and the table one line more."""
        whole, stacked = 9 + 20 + 7 + 3 * 3 + 1, 9 + 14 + 7 + 3 * 3 + 1
        assert any("0.500 [0.250, 0.750]" in text for text in shown(self.columns, self.rows, whole))
        narrower = shown(self.columns, self.rows, whole - 1)
        assert not any("0.500 [" in text for text in narrower)
        assert any("[0.250, 0.750]" in text and "0.500" not in text for text in narrower)
        assert len(shown(self.columns, self.rows, stacked)[0]) <= stacked
        listed = shown(self.columns, self.rows, stacked - 1)
        assert listed[:2] == ["Title", "loss"]
        assert "  how it was found  exactly" in [text.rstrip() for text in listed]
        assert "long name" in [text.rstrip() for text in listed]

    def test_numbers_stand_to_the_right_and_names_to_the_left(self):
        lines = shown(["name", "count"], [["x", "1"], ["yyyyyyyy", "20,000"]], 60)
        (row,) = (text for text in lines if "x" in text)
        assert row.index("x") < row.index("1") == max(text.rfind("0") for text in lines)

    def test_a_file_is_as_wide_as_asked_or_120(self, monkeypatch, capsys):
        for columns, width in ((None, 120), ("77", 77)):
            monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS", raising=False)
            printing.table("Title", ["name", "prose"], [["a", "word " * 60]])
            assert width - 15 < max(map(len, capsys.readouterr().out.splitlines())) <= width

    def test_a_table_of_one_column_that_does_not_fit_is_a_list(self):
        assert [text.rstrip() for text in shown(["a"], [["x" * 30], ["y"]], 31)] == ["Title", "x" * 30, "y"]

    def test_colours_belong_to_tones(self, monkeypatch):
        styles = {}
        monkeypatch.setattr(printing, "line", lambda text, style: styles.__setitem__(text[2:], style))
        for tone in ("leak", "clear", "void", "doubt", "undecided", "plain"):
            printing.verdict(tone, tone)
        assert styles == {
            "leak": "bold red", "clear": "bold green", "void": "bold magenta", "doubt": "bold yellow",
            "undecided": "bold", "plain": "bold",
        }  # fmt: skip


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

    def test_errors_about_a_model_name_their_option(self):
        for message, expected in (
            ("target.model: none", "--m: none"), ("model: none", "--m: none"), ("base: none", "--m: none"),
            ("target.base: x model: y", "--m: x model: y"), ("remodel: x", "remodel: x"),
        ):  # fmt: skip
            with refused(f"^{expected}$"), options.model_errors("--m"):
                raise InputError(message)

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
