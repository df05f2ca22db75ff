"""How a table is laid out follows from its numbers of columns and rows, just below, at and above each bound."""

import pytest

from divulge import InputError
from divulge.report import html
from divulge.report.page import Table


def classes(columns, rows, cell="1", sortable=True):
    table = Table([f"c{i}" for i in range(columns)], [[cell] * columns] * rows, sortable=sortable)
    return set(html._table(table)["classes"].split())


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (2, 2, set()), (2, 3, {"sortable"}), (3, 2, {"stacked"}), (3, 3, {"stacked", "sortable"}),
        (3, 100, {"stacked", "sortable"}), (3, 101, {"sortable"}), (7, 1, {"stacked"}), (8, 1, {"stacked", "wide"}),
        (8, 101, {"wide", "sortable"}),
    ],
)  # fmt: skip
def test_tables_are_wide_stacked_and_sortable_by_their_size(columns, rows, expected):
    assert classes(columns, rows) == expected
    assert classes(columns, rows, sortable=False) == expected - {"sortable"}
    laid_out = html._table(Table([""] * columns, [["1"] * columns] * rows))
    assert laid_out["stacked"] == ("stacked" in expected)


@pytest.mark.parametrize(("cell", "is_long"), [("x" * 24, False), ("x" * 25, True), ("x" * 20 + " " + "x" * 20, False)])
def test_a_table_is_long_by_a_single_word(cell, is_long):
    assert ("long" in classes(1, 1, cell)) is is_long


@pytest.mark.parametrize(
    ("cells", "is_numeric"),
    [
        (["1", "2.5"], True), (["1", "–"], True), (["–", "…"], False), (["1", "one"], False), (["nan", "1"], True),
        (["nan", "inf"], False), (["±0.5 %", "≥ 3"], True), ([], False), (["1e-5"], True), (["0.5 (95 % CI)"], False),
    ],
)  # fmt: skip
def test_a_column_is_of_numbers_if_all_its_cells_are_and_one_has_a_digit(cells, is_numeric):
    assert html._numeric(cells) is is_numeric


def test_a_row_of_another_length_is_named():
    with pytest.raises(InputError, match="table 'sizes': row 1 has 1 cells, but there are 2 columns"):
        html._table(Table(["a", "b"], [["1", "2"], ["1"]], title="sizes"))
