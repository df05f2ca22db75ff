"""Tables in a terminal: names and prose to the left, numbers to the right."""

import pytest

from divulge.cli import printing
from divulge.cli.printing import Exit


def justified(columns, rows):
    return [column.justify for column in printing.fit_table("title", columns, rows, 200).columns]


def test_the_first_column_and_prose_stand_to_the_left_and_numbers_to_the_right():
    rows = [["lira", "0.71", "a sentence that says much more than any number could say in a cell of a table"]]
    assert justified(["recipe", "AUC", "why"], rows) == ["left", "right", "left"]


@pytest.mark.parametrize(
    ("code", "number"),
    [("OK", 0), ("BROKEN", 1), ("INPUT", 2), ("UNDECIDED", 3), ("CONTRADICTED", 4), ("DAMAGED", 5), ("INTERNAL", 70),
     ("INTERRUPTED", 130)],
)  # fmt: skip
def test_exit_codes_are_those_of_the_documentation(code, number):
    assert Exit[code] == number
    assert len(Exit) == 8
