"""Progress of training: the protocol of the caller's function, and a progress bar."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from divulge import lazy
from divulge.validation import check_number, require_callable

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

    from rich import console as rich_console
    from rich import progress as rich_progress
else:
    rich_console = lazy.module("rich.console")
    rich_progress = lazy.module("rich.progress")


class Progress(Protocol):
    """Called whenever something got done.

    ``completed`` counts models; an unfinished model counts by its share of epochs. ``note`` says how the work is done.
    """

    def __call__(self, completed: float, total: int, note: str) -> None:
        """Report that ``completed`` of ``total`` models are trained."""
        ...


def ignore_progress(completed: float, total: int, note: str) -> None:
    """Ignore progress."""


ProgressContext: TypeAlias = Callable[[str], AbstractContextManager[Progress | None]]
"""A title → the context in which the progress of what it names is shown."""


def no_progress(title: str) -> AbstractContextManager[None]:
    """Return a context without progress."""
    return contextlib.nullcontext()


ProgressSetting: TypeAlias = Progress | Literal["auto"] | bool | None
"""How progress is shown: by the caller's function, by a bar ("auto" or True), or not at all (None or False)."""


def check_progress(progress: ProgressSetting) -> Progress | Literal["auto"] | None:
    """Return the caller's function, "auto" for a bar, or None.

    Raises:
        divulge.InputError: anything else.
    """
    if progress is None or progress is False:
        return None
    if progress is True or (isinstance(progress, str) and progress == "auto"):
        return "auto"
    return require_callable(progress, "progress")


@contextlib.contextmanager
def show_progress(progress: Progress | Literal["auto"] | None, title: str) -> Generator[Progress]:
    """Yield what is to be told of progress.

    Args:
        progress: the caller's function; "auto" for a bar, which begins with the first report, on a terminal and in a
            notebook; None for nothing.
        title: of the bar.
    """
    if not isinstance(progress, str):
        yield progress or ignore_progress
        return
    console = rich_console.Console(file=sys.stderr)
    if not (console.is_terminal or console.is_jupyter):
        yield ignore_progress
        return
    with contextlib.ExitStack() as stack:
        bars: list[Bar] = []

        def report(completed: float, total: int, note: str) -> None:
            if not bars:
                bars.append(stack.enter_context(Bar(title)))
            bars[0](completed, total, note)

        yield report


def describe_progress(completed: float, total: int, seconds: float, before: float = 0.0) -> str:
    """Describe progress, with models per minute and the time left at the pace so far.

    Args:
        completed: models that are trained, those found in the pool included.
        total: models wanted.
        seconds: time spent.
        before: models that were done when the clock started: they say nothing about the pace.

    Examples:
        >>> describe_progress(5, 16, 120.0, before=1)
        '5 of 16 models, 2.0 a minute, 6 min left'
    """
    n_new, count_text = completed - before, f"{int(completed + 1e-9)} of {total} models"
    if n_new <= 0 or seconds <= 0 or completed >= total:
        return count_text
    seconds_left = (total - completed) * seconds / n_new
    words = f"{seconds_left / 60:.0f} min" if seconds_left >= 90 else f"{seconds_left:.0f} s"
    return f"{count_text}, {60 * n_new / seconds:.1f} a minute, {words} left"


class Bar:
    """A progress bar on a terminal or in a notebook; in a log file one line a minute.

    Examples:
        >>> with Bar("references") as bar:  # doctest: +SKIP
        ...     train.fit(records, splits, seed=0, progress=bar)
    """

    def __init__(self, title: str, *, every: float = 60.0, stream: TextIO | None = None) -> None:
        self._title, self._every = title, check_number(every, "every", above=0, closed=True)
        self._stream = stream or sys.stderr

    def __enter__(self) -> Self:
        console = rich_console.Console(file=self._stream)
        self._started = self._spoke = time.monotonic()
        self._start: float | None = None
        self._finished = False
        self._live = console.is_terminal or console.is_jupyter
        columns = (
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(),
            rich_progress.TextColumn("{task.fields[words]}", markup=False),
        )
        self._bar = rich_progress.Progress(*columns, console=console, disable=not self._live)
        self._task = self._bar.add_task(self._title, total=1.0, words="")
        self._bar.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, completed: float, total: int, note: str) -> None:
        """Show that ``completed`` of ``total`` models are trained."""
        now = time.monotonic()
        if self._start is None:
            self._start = completed
        description = describe_progress(completed, total, now - self._started, self._start)
        words = f"{description} ({note})" if note else description
        self._bar.update(self._task, completed=completed, total=float(total), words=words)
        is_finished = completed >= total
        if not self._live and (now - self._spoke >= self._every or (is_finished and not self._finished)):
            self._spoke, self._finished = now, is_finished
            with contextlib.suppress(BrokenPipeError):  # nobody reads any more: the work goes on
                self._stream.write(f"{self._title}: {words}\n")
                self._stream.flush()
