"""The command line: one file for each group of commands; `options` and `printing` serve all of them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from divulge import lazy, machine
from divulge._version import __version__
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError, MissingExtraError, UserCodeError, as_missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge import provenance
else:
    provenance = lazy.module("divulge.provenance")  # help and completion start without NumPy


class LazyCommand(NamedTuple):
    """A command: where it is, what the help of all says of it, and in which panel (empty: in none)."""

    place: str
    help: str
    panel: str


_PANELS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Audit": {
        "init": (
            "plans:init",
            "Write a commented plan, and a stub of the code it names; on a terminal, asks for what no option says.",
        ),
        "check": (
            "plans:check",
            "Can this plan be run? Reads everything, asks the model about a few records, says what an audit will take.",
        ),
        "audit": ("plans:audit", "Was this record used? Run the attacks of a plan, or of several, on its target."),
        "report": ("runs:report", "Render the report of a finished run again, in another format if one is named."),
        "decide": ("runs:decide", "Decide again from saved scores, without running any model."),
        "compare": (
            "runs:compare",
            "What defences changed: paired differences, whose intervals hold together with 95 % confidence, and their "
            "cost.",
        ),
        "gate": (
            "runs:gate",
            "Hold a run to a policy, for CI: exit code 0 when it is kept, 1 when it is broken, 3 when that is "
            "undecided.",
        ),
        "table": (
            "runs:table",
            "List runs by date: verdict, AUC, stored records, gate, and the change since the last version of the same "
            "model.",
        ),
        "view": (
            "runs:view",
            "Look at runs in a browser: list, filter, compare, move thresholds. Nothing is written; Ctrl-C ends it.",
        ),
        "defend": (
            "defences:defend",
            "Which settings give away less, and what do they cost? Train the plan's estimator again with each, and "
            "audit it.",
        ),
    },
    "Other questions": {
        "identify": (
            "documents:identify",
            "Which of these records were used for training? A list with a bound on false discoveries.",
        ),
        "extract": (
            "documents:extract",
            "Can training documents be extracted from a language model? Measured against documents it never saw.",
        ),
        "forget": (
            "erasure:forget",
            "Was it really forgotten? Compare a model after an erasure with models that never saw the records.",
        ),
        "attribute": (
            "attributes:attribute",
            "Does the model give a column of its training records away? Guess it for members and others, and compare.",
        ),
        "synthetic": (
            "synthetic:synthetic_table",
            "What does a released synthetic table give away about the records that it was made from?",
        ),
        "weights": (
            "weights:weights",
            "Which candidates, points or cohorts was this model trained on? Read it off the weights.",
        ),
        "inspect": (
            "inspection:inspect",
            "Does this model's file hold training records? Look at its arrays, leaves and settings, without data.",
        ),
        "canaries": ("canaries:app", "Canaries: does a claim of differential privacy hold?"),
        "labels": ("labels:app", "Labels behind a scoring endpoint: what leaks, how fast, and what prevents it."),
    },
    "Housekeeping": {
        "list": (
            "plans:list_all",
            "Attacks with their settings, signals and embedded data sets; with --for, the recipes that suit you.",
        ),
        "pool": ("runs:pool_app", "Finished reference models: list, check, clean up."),
    },
    "": {
        "score": ("documents:score", ""),
        "power": ("documents:power", ""),
    },
}
COMMANDS = {name: LazyCommand(*entry, panel) for panel, entries in _PANELS.items() for name, entry in entries.items()}
"""Every command; its file is imported when it is called or its own help is asked for."""

STEPS: Mapping[tuple[str, str], str] = {
    ("identify", "score"): "score",
    ("identify", "power"): "power",
}
"""The first two words of a step → the command that it is; these names alone are accepted as well."""


@cache
def load_command(name: str) -> Any:
    """Import the file of a command, and return the command as Click knows it."""
    module, _, attribute = COMMANDS[name].place.partition(":")
    command = getattr(importlib.import_module(f"divulge.cli.{module}"), attribute)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False)
        command.command(name, cls=options.Command)(function)
    return typer.main.get_command(command)


class Commands(options.Group):
    """All commands; a step of one is typed after its name."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.commands = {
            name: options.Command(name, help=entry.help, rich_help_panel=entry.panel, hidden=not entry.panel)
            for name, entry in COMMANDS.items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None for another name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, for which no command is imported."""
        vars(self)["get_command"] = super().get_command
        try:
            super().format_help(ctx, formatter)
        finally:
            del vars(self)["get_command"]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return name, command and remaining arguments of what was typed."""
        if step := STEPS.get((args[0], args[1]) if len(args) > 1 else ("", "")):
            return " ".join(args[:2]), load_command(step), args[2:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="divulge",
    cls=Commands,
    help="Find out what a trained model gives away about its training data, and prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        printing.line(f"divulge {__version__}")
        raise typer.Exit


@app.callback()
def divulge(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Find out what a trained model gives away about its training data, and prove it."""


def main() -> None:
    """Run the command line: every error is one line on standard error and has an exit code of its own."""
    printing.prepare()
    signal.signal(signal.SIGTERM, _stop)  # of batch systems and containers: as from the keyboard, workers end too
    machine.limit_table_memory()
    os.environ["PYTHONSAFEPATH"] = "1"  # of the processes that are started: none imports from the current folder
    if "_DIVULGE_COMPLETE" in os.environ:  # a shell asks how a line may go on
        typer.main.get_command(app)(prog_name="divulge")
    code = run(sys.argv[1:])
    printing.finish()
    raise SystemExit(code)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code, see `divulge.cli.printing.Exit`."""

    def invoke() -> None:
        if "SOURCE_DATE_EPOCH" in os.environ:  # libraries read it, too, and raise errors of their own
            machine.current_time()
        with (
            provenance.record_command(("divulge", *arguments)),
            typer.main.get_command(app).make_context("divulge", list(arguments)) as context,
        ):
            context.command.invoke(context)

    return call(invoke, arguments)


def call(work: Callable[[], object], arguments: Sequence[str]) -> int:
    """Do the work of a command, or a part of it that may fail alone; print its error and return its exit code.

    Args:
        work: what is done.
        arguments: words of the command, whose options errors name.
    """
    try:
        work()
        return Exit.OK
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort, EOFError) as stop:
        printing.error(str(stop) or "interrupted; what is finished stays in the run folder: the same command resumes")
        return Exit.INTERRUPTED
    except UserCodeError as error:
        printing.error(error)
        printing.lines(sys.stderr, error.traceback())
    except BrokenPipeError:  # whoever read a help page has gone
        pass
    except InputError as error:
        is_of_clock = str(error).startswith("SOURCE_DATE_EPOCH")  # with which libraries cannot be imported
        printing.error(error if is_of_clock else options.name_options(str(error), _find_command(arguments), arguments))
    except (MissingExtraError, OSError, MemoryError) as error:
        printing.error(_format_system_error(error))
    except Exception as error:
        return _report_unexpected(error)
    return Exit.INPUT


def _find_command(arguments: Sequence[str]) -> Any:
    """Return the command that the first of ``arguments`` name."""
    command: Any = typer.main.get_command(app)
    words = list(arguments)
    if step := STEPS.get((words[0], words[1]) if len(words) > 1 else ("", "")):
        words[:2] = [step]
    for word in words:
        command = (command.get_command(None, word) if hasattr(command, "commands") else None) or command
    return command


def _format_system_error(error: Exception) -> str:
    """Return the file and the reason where the system says both."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error) or "out of memory"


def _report_unexpected(error: Exception) -> Exit:
    """Print wrong usage, a missing package, or a name that cannot be written; anything else is a fault of Divulge."""
    if (format_message := getattr(error, "format_message", None)) is not None:  # Click's, of wrong usage
        message, context = format_message(), getattr(error, "ctx", None)
        if message:  # empty after the help of a bare command
            printing.error(message + ("" if context is None else f" (see {context.command_path} --help)"))
    elif (extra := as_missing_extra(error)) is not None:
        printing.error(extra)
    elif (name := _find_odd_name(error)) is not None:
        printing.error(f"{name}: a name that is not UTF-8, which cannot be written down; rename it")
    else:
        printing.error(_format_fault(error))
        return Exit.INTERNAL
    return Exit.INPUT


def _find_odd_name(error: Exception) -> str | None:
    """Return the name that an error is about, if it has bytes that are not UTF-8: Python makes surrogates of them."""
    text = error.object if isinstance(error, UnicodeEncodeError) else ""
    odd = next((part for part in text.splitlines() if any("\udc80" <= letter <= "\udcff" for letter in part)), None)
    return None if odd is None else odd.strip().strip('",')


def _format_fault(error: Exception) -> str:
    """Return where a fault of Divulge happened, without its message, which may hold what nobody should read."""
    if os.environ.get("DIVULGE_TRACEBACK"):
        traceback.print_exception(error)
    package = Path(__file__).parents[1]
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    places = [f" at {file.relative_to(package.parent)}:{row}" for file, row in frames if file.is_relative_to(package)]
    return (
        f"internal error: {type(error).__name__}{''.join(places[-1:])}. This is a bug in Divulge, please report it; "
        "DIVULGE_TRACEBACK=1 shows more"
    )
