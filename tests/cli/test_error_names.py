"""Errors name what the user typed: options, not keys of a plan or arguments of a function."""

import pytest

from divulge.cli import load_command, options, printing
from divulge.errors import InputError


@pytest.mark.parametrize(
    ("command", "typed", "message", "expected"),
    [
        ("extract", [], "m.csv: data.text: 'body' is unknown", "m.csv: --text: 'body' is unknown"),
        ("extract", [], "target.model: x is no model", "--model: x is no model"),
        ("extract", [], "suffix: must be at least 1", "--suffix: must be at least 1"),
        ("extract", ["data.text"], "no such file: data.text", "no such file: data.text"),
        ("extract", [], "no such file: a/data.text", "no such file: a/data.text"),
        ("extract", [], "data.scale: texts have no scale", "data.scale: texts have no scale"),
        ("extract", [], "texts: an on-or-off option is left alone", "texts: an on-or-off option is left alone"),
        ("score", [], "texts: in.csv: no such file", "texts: in.csv: no such file"),
        ("audit", [], "fpr: of a plan", "fpr: of a plan"),
    ],
)
def test_an_error_names_the_option(command, typed, message, expected):
    assert options.name_options(message, load_command(command), typed) == expected


def test_a_model_is_named_by_its_option():
    with pytest.raises(InputError, match=r"^--reference: 'x' cannot be loaded"), options.model_errors("--reference"):
        raise InputError("model: 'x' cannot be loaded")


def test_what_auto_chose_is_a_note_and_all_else_a_warning(capsys):
    expected_words = {
        "auto: chose lira of 9": "note",
        "auto chose storey, not bh: x": "note",
        "auto chose bh, not storey: x": "warning",
    }
    for text in expected_words:
        printing.remark(text)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(expected_words.values())


def test_a_log_holds_nothing_of_a_bar(capsys):
    with printing.bar("asking") as progress:
        progress(1, 2)
    assert capsys.readouterr() == ("", "")
