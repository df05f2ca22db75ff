"""Steps of the command line's output and options: what is escaped, how tables fit, what an option is read as."""

import datetime as dt
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import pytest

from divulge import InputError, cli
from divulge.cli import labels, options, printing, runs, weights
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

    @pytest.mark.parametrize(
        ("name", "cells", "width"),
        [
            ("a", ["x" * 32], 32), ("a", ["x" * 33], 20), ("heading word", ["x"], 7), ("h" * 25, ["x" * 33], 25),
            ("a", [], 1), ("a", ["xx\nyyyy"], 4), ("", [""], 0), ("a", ["日本"], 4),
        ],
    )  # fmt: skip
    def test_a_column_is_as_wide_as_its_widest_word_or_cell(self, name, cells, width):
        assert printing._least_width(name, cells) == width

    def test_numbers_stand_to_the_right_and_prose_to_the_left(self):
        prose = "w" * 33
        table = printing._wide_table("t", ["a", "b", "c"], [["x", "1", prose], ["y", "2", "z"]], [1, 1, 20])
        assert [column.justify for column in table.columns] == ["left", "right", "left"]
        assert [column.min_width for column in table.columns] == [1, 1, 20]
        lines = printing._wide_table("t", ["a", "b"], [["x", prose[:32]], ["y", f"{prose}\n{prose}"]], [1, 1])
        assert lines.columns[1].justify == "right"

    def test_a_table_of_one_column_that_does_not_fit_is_a_list(self):
        assert [text.rstrip() for text in shown(["a"], [["x" * 30], ["y"]], 31)] == ["Title", "x" * 30, "y"]

    def test_a_file_has_a_width_of_its_own(self, monkeypatch):
        monkeypatch.delenv("COLUMNS", raising=False)
        assert printing._console(io.StringIO()).width == 120
        monkeypatch.setenv("COLUMNS", "77")
        assert printing._console(io.StringIO()).width == 77

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
        ("annotation", "expected"),
        [
            (int, int), (float, float), (bool, bool), (str, str), (Path, str), (int | None, int),
            (list[int], list[int]),
            (tuple[float, ...], list[float]), (int | float, str), (Annotated[int, 3], int), (int | str | None, str),
            (list[Annotated[float, 1]] | None, list[float]), (Annotated[bool, 1] | None, bool),
        ],
    )  # fmt: skip
    def test_an_option_is_a_scalar_a_list_or_a_text(self, annotation, expected):
        assert options._option_type(annotation) == expected

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (int | float, "3", 3), (int | float, "3.0", 3.0), (int | float, "x", "x"), (int | str, "3", "3"),
            (float | str, "3", "3"), (int | float | str, "1e3", 1000.0), (int | float, 4, 4), (int | float, None, None),
        ],
    )  # fmt: skip
    def test_a_text_is_a_number_where_a_setting_is_either(self, annotation, value, expected):
        found = options._parse(SimpleNamespace(annotation=annotation), value)
        assert (found, type(found)) == (expected, type(expected))

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

    def test_help_shows_switches_without_a_type_and_ranges_in_words(self):
        flag = SimpleNamespace(is_flag=True, opts=["--show"], secondary_opts=["--no-show"], metavar="X")
        found = options._narrow(flag)
        assert (found.metavar, found.opts, found.secondary_opts) == ("", ["--[no-]show"], [])
        assert flag.opts == ["--show"]
        single = options._narrow(SimpleNamespace(is_flag=True, opts=["--a"], secondary_opts=[], metavar="X"))
        assert (single.opts, single.metavar) == (["--a"], "")
        for low, high in ((0, None), (None, 3), (0, 3)):
            ranged = options._narrow(SimpleNamespace(min=low, max=high, metavar="X"))
            assert (ranged.metavar, ranged.min, ranged.max) == ("<int>", None, None)
        plain = options._narrow(SimpleNamespace(min=None, max=None, metavar="X"))
        assert plain.metavar == "X"


class TestCommands:
    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (FileNotFoundError(2, "No such file", "a.csv"), "a.csv: No such file"),
            (OSError(5, "Input"), "[Errno 5] Input"),
            (OSError("plain"), "plain"), (MemoryError(), "out of memory"), (OSError(2, "", "a"), "[Errno 2] : 'a'"),
            (ValueError("x"), "x"),
        ],
    )  # fmt: skip
    def test_what_the_system_says_is_file_and_reason(self, error, text):
        assert cli._format_system_error(error) == text

    def test_names_that_are_not_utf8_are_shown(self):
        def odd(text):
            return cli._find_odd_name(UnicodeEncodeError("utf-8", text, 0, 1, "no"))

        assert odd('fine\n"a\udc80b",\nlater\udcff') == "a\udc80b"
        assert odd("a\udcffb") == "a\udcffb"
        assert odd("a\udc7fb") is odd("a\udd00b") is cli._find_odd_name(ValueError("\udc80")) is None

    def test_a_fault_is_told_by_its_place_alone(self):
        with pytest.raises(TypeError) as inside:
            cli._find_command(None)
        text = cli._format_fault(inside.value)
        assert text.startswith("internal error: TypeError at divulge/cli/__init__.py:")
        assert "please report it" in text
        assert cli._format_fault(KeyError("secret")).startswith("internal error: KeyError. This is a bug")

    @pytest.mark.parametrize(
        ("words", "name"),
        [
            (["labels", "attack", "x"], "attack"), (["identify", "score", "x"], "score"), (["identify"], "identify"),
            (["identify", "power"], "power"), (["pool", "ls"], "ls"), (["nothing"], "divulge"), ([], "divulge"),
            (["score"], "score"), (["identify", "x", "score"], "identify"),
        ],
    )  # fmt: skip
    def test_the_command_is_what_the_first_words_name(self, words, name):
        assert cli._find_command(words).name == name

    @pytest.mark.parametrize(
        ("error", "code", "text"),
        [
            (InputError("bad"), Exit.INPUT, "bad"), (KeyboardInterrupt(), Exit.INTERRUPTED, "finished work is kept"),
            (EOFError("gone"), Exit.INTERRUPTED, "gone"), (MemoryError(), Exit.INPUT, "out of memory"),
            (OSError(2, "No such", "a"), Exit.INPUT, "a: No such"), (RuntimeError("secret"), Exit.INTERNAL, "internal"),
            (UserCodeError("mine"), Exit.INPUT, "mine"), (BrokenPipeError(), Exit.INPUT, ""),
            (ModuleNotFoundError("no", name="torch"), Exit.INPUT, "divulge[torch]"),
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


class TestLabels:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [("none", None), ("float32", "float32"), ("float16", "float16"), ("0.01", 0.01), ("1e-7", 1e-7)],
    )
    def test_a_clip_is_a_number_a_type_or_none(self, text, expected):
        assert labels._parse_clip(text) == expected
        with refused("^clip: a number, float64, float32, float16 or none is needed, got 'x'$"):
            labels._parse_clip("x")

    def test_weights_are_numbers_with_commas(self):
        assert labels._parse_weights(None) is None
        assert labels._parse_weights("1,2.5") == (1.0, 2.5)
        with refused("^class_weight: numbers with commas are needed, got '1;2'$"):
            labels._parse_weights("1;2")

    def test_headers_have_a_colon(self, monkeypatch):
        made = []
        monkeypatch.setattr(labels.modules.labels, "HttpOracle", lambda *given: made.append(given))
        labels._make_oracle("http://x", None, ["A: b:c", " D :e "], "score")
        assert made[0][0] == "http://x"
        assert made[0][2:] == ({"A": "b:c", "D": "e"}, "score")
        labels._make_oracle("http://x", None, None, "s")
        assert made[1][2] == {}
        with refused("^header: 'Name: value' is needed, got one without a colon$"):
            labels._make_oracle("http://x", None, ["A b"], "score")


class TestRuns:
    def test_models_of_a_pool_are_a_table_with_megabytes(self, capsys):
        entry = SimpleNamespace(
            key="k" * 40, state="good", bytes=1_500_000, stored="2020", about={"records": "ab"}, problem="no"
        )
        runs._show_pool("title", [entry], json=False)
        out = capsys.readouterr().out
        assert "k" * 32 in out
        assert "k" * 33 not in out
        assert "1.50" in out
        runs._show_pool("title", [entry], json=True)
        assert '"bytes": 1500000' in capsys.readouterr().out

    def test_models_are_removed_when_they_are_old_and_somebody_says_yes(self, monkeypatch, capsys):
        entry = SimpleNamespace(key="kk", state="good", bytes=1, stored="", about={}, problem="")
        asked, removed = [], []

        class Pool:
            def __init__(self, folder):
                pass

            def prunable(self, before):
                asked.append(before)
                return [entry]

            def prune(self, before, keys):
                removed.append((before, keys))
                return [entry]

        monkeypatch.setattr(runs.modules.pool, "Pool", Pool)
        prune = runs.prune_pool
        with refused("^--json: give --yes to remove, or --dry-run"):
            prune(Path("p"), json=True)
        prune(Path("p"), dry_run=True)
        assert (asked, removed) == ([""], [])
        assert "to be removed from p" in capsys.readouterr().out
        prune(Path("p"), yes=True, older_than=0)
        age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(asked[-1])
        assert dt.timedelta(0) <= age < dt.timedelta(minutes=1)
        assert removed == [(asked[-1], ["kk"])]
        assert "to be removed" not in capsys.readouterr().out
        monkeypatch.setattr(printing, "confirm", lambda question: False)
        prune(Path("p"))
        assert len(removed) == 1
        monkeypatch.setattr(printing, "confirm", lambda question: question == "Remove 1 of them? [y/N] ")
        prune(Path("p"))
        assert len(removed) == 2
        prune(Path("p"), json=True, yes=True)
        assert len(removed) == 3

    def test_options_of_another_use_are_refused(self):
        weights._refuse("it goes with --candidates", nonmembers=None, leaked=None)
        with refused("^--leaked: it goes with --candidates"):
            weights._refuse("it goes with --candidates", nonmembers=None, leaked=Path("x"))


def test_streams_without_an_end_are_muted(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        printing._write(stream, "lost")
        printing._write(stream, "lost again")
