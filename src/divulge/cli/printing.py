"""How results reach a terminal or a pipe: nothing printed can steer the terminal, or fail for want of a letter."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import tables
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import TextIO

    from rich import console as rich_console
    from rich import progress as rich_progress
    from rich import text as rich_text

    from divulge.report import page
    from divulge.types import Tone
else:
    page = lazy.module("divulge.report.page")
    rich_console = lazy.module("rich.console")
    rich_progress = lazy.module("rich.progress")
    rich_text = lazy.module("rich.text")

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]

# Control characters (a terminal obeys them), marks that turn the reading direction, line separators, halves of
# surrogate pairs (from damaged file names).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def visible(text: object) -> str:
    r"""``text`` in one line, with what would steer a terminal spelt out.

    Examples:
        >>> print(visible("model" + chr(27) + "[2J" + chr(10)))
        model\x1b[2J\n
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def line(text: object = "", *, style: str = "") -> None:
    """Print one line; ``style`` as Rich names it ("bold red"), where the terminal has colours."""
    if style:
        _show(rich_text.Text(visible(text), style=style), soft_wrap=True)
    else:
        _write(sys.stdout, f"{visible(text)}\n")


# What an `auto` says of its choice where nothing spoke against it.
_CHOICE = re.compile(r"auto[\w-]*: (used|chose) |auto chose (?!bh, not )")


def remark(text: str, *, style: str = "") -> None:
    """Print what a result says beside its numbers: a warning, or a note of what ``auto`` chose."""
    line(f"{'note' if _CHOICE.match(text) else 'warning'}: {text}", style=style)


def lines(stream: TextIO, text: str) -> None:
    """Print several lines to ``stream``, each as `line` would."""
    _write(stream, "".join(f"{visible(part)}\n" for part in text.splitlines()))


def error(text: object) -> None:
    """Print one line on standard error."""
    _write(sys.stderr, f"divulge: {visible(' '.join(str(text).splitlines()))}\n")


def as_json(value: object) -> None:
    """Print ``value`` as JSON."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    # Line breaks are the layout; those within strings are escaped already.
    _write(
        sys.stdout, _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text) + "\n"
    )


# The other tones have none.
_COLOURS = {"leak": "red", "clear": "green", "void": "magenta", "doubt": "yellow"}


def verdict(tone: Tone, text: str) -> None:
    """Print the first lines of a result, in the tone's colour where the terminal has colours."""
    line(f"{page.HEADINGS[tone].icon} {text}", style=f"bold {_COLOURS.get(tone, '')}".strip())


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, as wide as the terminal allows."""
    body = [[visible(cell) for cell in row] for row in rows]
    _show(tables.drawn(visible(title), [visible(name) for name in columns], body, _console(sys.stdout).width))


def ask(question: str) -> bool:
    """Whether the user says yes.

    Raises:
        divulge.InputError: nobody is there to answer.
    """
    said = answer(question)
    if said is None:
        raise InputError("--yes: nothing was done, as there was no answer; give it where nobody can be asked")
    return said.lower() in ("y", "yes")


def answer(question: str) -> str | None:
    """What the user says, without blanks around it; None where nobody is there."""
    _write(sys.stderr, visible(question))
    said = sys.stdin.readline()
    return said.strip() if said else None


@contextmanager
def bar(title: str) -> Generator[Callable[[int, int], None]]:
    """A progress bar on standard error, so that standard output stays for results."""
    console = _console(sys.stderr)
    with rich_progress.Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(rich_text.Text(visible(title)).markup, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def prepare() -> None:
    """Let letters that the terminal lacks be spelt out, also in the help texts."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Hand over what is still to be written; a reader that has gone does not matter."""
    for stream in (sys.stdout, sys.stderr):
        _write(stream, "")


def _show(renderable: rich_console.RenderableType, *, soft_wrap: bool = False) -> None:
    console = _console(sys.stdout)
    with console.capture() as captured:
        console.print(renderable, soft_wrap=soft_wrap)
    _write(sys.stdout, captured.get())


def _console(stream: TextIO) -> rich_console.Console:
    class Quiet(rich_console.Console):
        """Says nothing more when its reader has gone; Rich would end the program with the code of a broken policy."""

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
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
