"""A table as a terminal of some width can show it: no interval and no word is broken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from divulge import lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich import cells, console, table, text
else:
    cells = lazy.module("rich.cells")
    console = lazy.module("rich.console")
    table = lazy.module("rich.table")
    text = lazy.module("rich.text")

_PROSE = 32  # characters from which a cell is text that may go on in the next line
_NARROWEST = 20  # such a column is not made narrower than this
_INTERVAL = re.compile(r" (?=\[[-\d])")


def drawn(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> console.RenderableType:
    """The table; with intervals below their values where it is wide, as a list where it is wider still.

    Args:
        title: stands over it.
        columns: names.
        rows: cells, each in one line and with nothing in it that a terminal would obey.
        width: of the terminal.
    """
    for body in (rows, [[_INTERVAL.sub("\n", cell) for cell in row] for row in rows]):
        needed = [_needed(name, [row[at] for row in body]) for at, name in enumerate(columns)]
        if sum(needed) + 3 * len(columns) + 1 <= width:
            return _table(title, columns, body, needed)
    return _list(title, columns, rows)


def _needed(name: str, column: Sequence[str]) -> int:
    """The narrowest a column may be."""
    lines = [line for cell in column for line in cell.split("\n")]
    widest = max(map(cells.cell_len, lines), default=0)
    heading = max(map(cells.cell_len, name.split()), default=0)
    return max(heading, widest if widest <= _PROSE else _NARROWEST)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], needed: Sequence[int]) -> table.Table:
    made = table.Table(title=text.Text(title), title_justify="left", title_style="bold")
    for at, (name, least) in enumerate(zip(columns, needed, strict=True)):
        prose = any(cells.cell_len(row[at]) > _PROSE and "\n" not in row[at] for row in rows)
        left = at == 0 or prose
        made.add_column(text.Text(name), justify="left" if left else "right", overflow="fold", min_width=least)
    for row in rows:
        made.add_row(*(text.Text(cell) for cell in row))
    return made


def _list(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> console.Group:
    """One row after the other, a line for each cell."""
    lines = [text.Text(title, style="bold")]
    wide = max((cells.cell_len(name) for name in columns[1:]), default=0)
    for row in rows:
        lines.append(text.Text(row[0]))
        lines += [
            text.Text(f"  {name}{' ' * (wide - cells.cell_len(name))}  {cell}")
            for name, cell in zip(columns[1:], row[1:], strict=True)
        ]
    return console.Group(*lines)
