"""Output of the command line: nothing printed can steer the terminal, or fail for want of a letter."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import textwrap
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from rich import cells as rich_cells
from rich import console as rich_console
from rich import progress as rich_progress
from rich import table as rich_table
from rich import text as rich_text

from divulge import lazy
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from pathlib import Path
    from typing import TextIO

    from divulge.report import page as report_page
    from divulge.types import Tone
else:
    report_page = lazy.module("divulge.report.page")  # which takes NumPy


class Exit(IntEnum):
    """Exit codes of the command line; each has one meaning.

    Attributes:
        OK: done; of `divulge gate`: the policy is kept.
        BROKEN: the policy of `divulge gate` is broken, the claim that `divulge canaries audit` tested is violated, or
            `divulge forget` finds the records still remembered, or overdone.
        INPUT: something that was handed in cannot be used: an option, a file, a directory, a missing package.
        UNDECIDED: whether the policy of `divulge gate` is kept cannot be told from so few records, or the claim not be
            tested with these canaries; or `divulge forget` has too little data to say.
        CONTRADICTED: the answers of a scoring endpoint contradict its specification.
        DAMAGED: `divulge pool verify` found a model that is not what was stored.
        INTERNAL: a fault of Divulge.
        INTERRUPTED: stopped from the keyboard, or by SIGTERM; finished work is kept.
    """

    OK = 0
    BROKEN = 1
    INPUT = 2
    UNDECIDED = 3
    CONTRADICTED = 4
    DAMAGED = 5
    INTERNAL = 70
    INTERRUPTED = 130


# Control characters (a terminal obeys them), marks that turn the reading direction, line separators, halves of
# surrogate pairs (from damaged file names).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def escape(text: object) -> str:
    r"""Return ``text`` in one line, with the characters that would steer a terminal spelt out.

    Examples:
        >>> print(escape("model" + chr(27) + "[2J" + chr(10)))
        model\x1b[2J\n
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def line(text: object = "", *, style: str = "") -> None:
    """Print one line; ``style`` as Rich names it ("bold red"), where the terminal has colours."""
    if style:
        _print_rich(rich_text.Text(escape(text), style=style), soft_wrap=True)
    else:
        _write(sys.stdout, f"{escape(text)}\n")


def lines(stream: TextIO, text: str) -> None:
    """Print several lines to ``stream``, each as `line` would."""
    _write(stream, "".join(f"{escape(part)}\n" for part in text.splitlines()))


def paragraph(text: str) -> None:
    """Print an empty line and a paragraph no wider than the terminal."""
    line()
    for part in textwrap.wrap(text, max(30, min(shutil.get_terminal_size().columns, 80)), break_on_hyphens=False):
        line(part)


# How a message begins that says what was done, and nothing speaks against it.
_CHOICE = re.compile(r"auto[\w-]*: (used|chose) |auto chose (?!bh, not )|candidates were scored by ")


def is_choice(text: str) -> bool:
    """Return whether a message says what was chosen or used, and nothing speaks against it."""
    return _CHOICE.match(text) is not None


def remark(text: str, *, style: str = "") -> None:
    """Print what a result says beside its numbers: a warning, or a note of what ``auto`` chose."""
    line(f"{'note' if is_choice(text) else 'warning'}: {text}", style=style)


def error(text: object) -> None:
    """Print one line on standard error."""
    _write(sys.stderr, f"divulge: {escape(' '.join(str(text).splitlines()))}\n")


def as_json(value: object) -> None:
    """Print ``value`` as JSON."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    # Line breaks are the layout; those within strings are escaped already.
    escaped = _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)
    _write(sys.stdout, escaped + "\n")


# The other tones have no colour.
_COLOURS = {"leak": "red", "clear": "green", "void": "magenta", "doubt": "yellow"}


def verdict(tone: Tone, text: str) -> None:
    """Print the first lines of a result, in the tone's colour where the terminal has colours."""
    line(f"{report_page.HEADINGS[tone].icon} {text}", style=f"bold {_COLOURS.get(tone, '')}".strip())


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, as wide as the terminal allows."""
    body = [[escape(cell) for cell in row] for row in rows]
    _print_rich(fit_table(escape(title), [escape(name) for name in columns], body, _console(sys.stdout).width))


TableParts: TypeAlias = "tuple[str, Sequence[str], Iterable[Sequence[object]]]"
"""Title, columns and rows of a table."""


def outcome(
    tone: Tone,
    text: str,
    *,
    caveats: Sequence[str] = (),
    shown: TableParts | None = None,
    folder: Path | None = None,
    next_step: str = "",
    further: Sequence[TableParts] = (),
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    verbose: bool = False,
) -> None:
    """Print a finished run: its answer, one small table, where the report is, and what to do next.

    Args:
        tone: of the answer.
        text: the answer, as its report begins.
        caveats: what limits the answer or puts it in doubt, which is always printed.
        shown: the table; None where there is none.
        folder: the run directory; None where nothing was written.
        next_step: a sentence.
        further: tables that are printed with ``verbose`` alone.
        notes: what else is known, likewise; otherwise it is said how much there is.
        warnings: of the run: of a finding likewise; of any other answer always, as they may be its reason.
        verbose: whether everything is printed.
    """
    verdict(tone, text)
    for caveat in caveats:
        line(caveat)
    if shown is not None:
        table(*shown)
    if tone != "leak" and not verbose:
        for warning in warnings:
            remark(warning)
        warnings = ()
    ending(folder, next_step, further=further, notes=notes, warnings=warnings, verbose=verbose)


def ending(
    folder: Path | None,
    next_step: str = "",
    *,
    further: Sequence[TableParts] = (),
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    verbose: bool = False,
) -> None:
    """Print what comes below the answer and its table; see `outcome`."""
    if verbose:
        for parts in further:
            table(*parts)
        for note in notes:
            line(f"note: {note}")
        for warning in warnings:
            remark(warning)
    if folder is not None:
        line(f"Report: {folder / 'report.html'}")
    if next_step or folder is None:
        line(f"Next: {next_step or 'the same with --out FOLDER writes a report.'}")
    counts = {"warning": len(warnings), "note": len(notes), "further table": len(further)}
    hidden = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items() if count]
    if hidden and not verbose:
        line(f"({', '.join(hidden)}: {'-v' if folder is None else 'in the report, or with -v'})", style="dim")


_PROSE = 32  # characters from which a cell is text that may go on in the next line
_NARROWEST = 20  # such a column is not made narrower than this
_INTERVAL = re.compile(r" (?=\[[-\d])")
_NUMBER = re.compile(r"[-−–≥≤±\d.]|$")  # how a cell begins that is aligned right


def fit_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> rich_console.RenderableType:
    """Return a table in which no interval and no word is broken.

    Intervals stand below their values where the table is too wide for the terminal; where it still is, it becomes a
    list with a line for each cell.

    Args:
        title: stands over it.
        columns: their names.
        rows: cells, each in one line and without characters that a terminal would obey.
        width: of the terminal.
    """
    for body in (rows, [[_INTERVAL.sub("\n", cell) for cell in row] for row in rows]):
        widths = [_least_width(name, [row[i] for row in body]) for i, name in enumerate(columns)]
        spare = width - sum(widths) - 3 * len(columns) - 1
        if spare >= 0:
            return _wide_table(title, columns, body, _widen(columns, body, widths, spare))
    lines = [rich_text.Text(title, style="bold")]
    name_width = max((rich_cells.cell_len(name) for name in columns[1:]), default=0)
    for row in rows:
        lines.append(rich_text.Text(row[0]))
        lines += [
            rich_text.Text(f"  {name}{' ' * (name_width - rich_cells.cell_len(name))}  {cell}")
            for name, cell in zip(columns[1:], row[1:], strict=True)
        ]
    return rich_console.Group(*lines)


def _least_width(name: str, column: Sequence[str]) -> int:
    widest = max((rich_cells.cell_len(part) for cell in column for part in cell.split("\n")), default=0)
    heading = max(map(rich_cells.cell_len, name.split()), default=0)
    return max(heading, widest if widest <= _PROSE else _NARROWEST)


def _widen(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], spare: int) -> list[int]:
    """Return widths with as much of the spare cells as each column can use: Rich by itself may exceed the terminal."""
    wanted = [
        max(map(rich_cells.cell_len, [name, *(part for row in rows for part in row[i].split("\n"))])) - widths[i]
        for i, name in enumerate(columns)
    ]
    widened = list(widths)
    for n_left, i in zip(range(len(columns), 0, -1), sorted(range(len(columns)), key=wanted.__getitem__), strict=True):
        extra = min(wanted[i], spare // n_left)
        widened[i], spare = widened[i] + extra, spare - extra
    return widened


def _wide_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> rich_table.Table:
    table = rich_table.Table(title=rich_text.Text(title), title_justify="left", title_style="bold")
    for i, (name, width) in enumerate(zip(columns, widths, strict=True)):
        has_prose = any(rich_cells.cell_len(row[i]) > _PROSE and "\n" not in row[i] for row in rows)
        is_number = all(_NUMBER.match(row[i]) for row in rows)
        justify = "left" if i == 0 or has_prose or not is_number else "right"
        table.add_column(rich_text.Text(name), justify=justify, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(rich_text.Text(cell) for cell in row))
    return table


def confirm(question: str) -> bool:
    """Return whether the user says yes.

    Raises:
        divulge.InputError: nobody is there to answer.
    """
    answer = ask(question)
    if answer is None:
        raise InputError("--yes: nothing was done, as there was no answer; give it where nobody can be asked")
    return answer.lower() in ("y", "yes")


def ask(question: str) -> str | None:
    """Return what the user answers, without blanks around it; None where nobody is there."""
    _write(sys.stderr, escape(question))
    answer = sys.stdin.readline()
    return answer.strip() if answer else None


@contextmanager
def bar(title: str) -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, so that standard output stays for results."""
    console = _console(sys.stderr)
    with rich_progress.Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(rich_text.Text(escape(title)).markup, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def prepare() -> None:
    """Let letters that the terminal lacks be spelt out, also in the help texts."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Write what is still buffered; a reader that has gone does not matter."""
    for stream in (sys.stdout, sys.stderr):
        _write(stream, "")


def _print_rich(renderable: rich_console.RenderableType, *, soft_wrap: bool = False) -> None:
    console = _console(sys.stdout)
    with console.capture() as capture:
        console.print(renderable, soft_wrap=soft_wrap)
    _write(sys.stdout, capture.get())


def _console(stream: TextIO) -> rich_console.Console:
    class Quiet(rich_console.Console):
        """Console that falls silent when its reader has gone; Rich would end the program with another exit code."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            _mute(stream)

    # A pipe or a log file has no width of its own; eighty columns would break intervals in two.
    return Quiet(file=stream, width=None if stream.isatty() or "COLUMNS" in os.environ else 120)


def _write(stream: TextIO, text: str) -> None:
    """Write and flush; when nobody reads any more, the command goes on in silence and keeps its own exit code."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _mute(stream)


def _mute(stream: TextIO) -> None:
    null_device = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null_device, stream.fileno())
    finally:
        os.close(null_device)
