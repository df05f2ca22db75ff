"""The command line: one file for each group of commands; `options` and `printing` serve all of them."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from divulge import machine
from divulge._version import __version__
from divulge.cli import (
    attributes,
    canaries,
    defences,
    documents,
    erasure,
    inspection,
    labels,
    options,
    plans,
    printing,
    runs,
    weights,
)
from divulge.cli.modules import provenance
from divulge.cli.printing import Exit
from divulge.errors import InputError, MissingExtraError, UserCodeError, as_missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STEPS: Mapping[tuple[str, str], str] = {
    ("identify", "score"): "score",
    ("identify", "power"): "power",
}
"""The first two words of a step → the command that it is; these names alone are accepted as well."""


class Commands(options.Group):
    """All commands; a step of one is typed after its name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return name, command and remaining arguments of what was typed."""
        if step := STEPS.get((args[0], args[1]) if len(args) > 1 else ("", "")):
            return " ".join(args[:2]), self.commands[step], args[2:]
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


_AUDIT, _QUESTIONS, _HOUSEKEEPING = "Audit", "Other questions", "Housekeeping"


def _add(name: str, command: Callable[..., None], panel: str = "", *, hidden: bool = False) -> None:
    app.command(name, cls=options.Command, rich_help_panel=panel or None, hidden=hidden)(command)


_add("init", plans.init, _AUDIT)
_add("check", plans.check, _AUDIT)
_add("audit", plans.audit, _AUDIT)
_add("report", runs.report, _AUDIT)
_add("decide", runs.decide, _AUDIT)
_add("compare", runs.compare, _AUDIT)
_add("gate", runs.gate, _AUDIT)
_add("view", runs.view, _AUDIT)
_add("defend", defences.defend, _AUDIT)
_add("identify", documents.identify, _QUESTIONS)
_add("extract", documents.extract, _QUESTIONS)
_add("forget", erasure.forget, _QUESTIONS)
_add("attribute", attributes.attribute, _QUESTIONS)
app.add_typer(canaries.app, name="canaries", rich_help_panel=_QUESTIONS)
_add("weights", weights.weights, _QUESTIONS)
app.add_typer(labels.app, name="labels", rich_help_panel=_QUESTIONS)
_add("inspect", inspection.inspect, _QUESTIONS)
_add("list", plans.list_all, _HOUSEKEEPING)
app.add_typer(runs.pool_app, rich_help_panel=_HOUSEKEEPING)
# Steps of others, and the names that they had before.
_add("score", documents.score, hidden=True)
_add("power", documents.power, hidden=True)
_add("reconstruct", weights.reconstruct, hidden=True)


def main() -> None:
    """Run the command line: every error is one line on standard error and has an exit code of its own."""
    printing.prepare()
    machine.limit_table_memory()
    os.environ["PYTHONSAFEPATH"] = "1"  # of the processes that are started: none imports from the current folder
    if "_DIVULGE_COMPLETE" in os.environ:  # a shell asks how a line may go on
        typer.main.get_command(app)(prog_name="divulge")
    code = run(sys.argv[1:])
    printing.finish()
    raise SystemExit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code, see `divulge.cli.printing.Exit`."""
    try:
        if "SOURCE_DATE_EPOCH" in os.environ:  # libraries read it, too, and raise errors of their own
            machine.current_time()
        with (
            provenance.record_command(("divulge", *arguments)),
            typer.main.get_command(app).make_context("divulge", list(arguments)) as context,
        ):
            context.command.invoke(context)
        return Exit.OK
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort, EOFError) as stop:
        printing.error(str(stop) or "interrupted; finished work is kept, and the same command resumes")
        return Exit.INTERRUPTED
    except UserCodeError as error:
        printing.error(error)
        printing.lines(sys.stderr, error.traceback())
    except BrokenPipeError:  # whoever read a help page has gone
        pass
    except InputError as error:
        printing.error(options.name_options(str(error), _find_command(arguments), arguments))
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
        command = getattr(command, "commands", {}).get(word, command)
    return command


def _format_system_error(error: Exception) -> str:
    """Return the file and the reason where the system says both."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error) or "out of memory"


def _report_unexpected(error: Exception) -> Exit:
    """Print wrong usage, a missing package, or a name that cannot be written; anything else is a fault of Divulge."""
    if hasattr(error, "format_message"):
        _report_usage(error)
    elif (extra := as_missing_extra(error)) is not None:
        printing.error(extra)
    elif (name := _find_odd_name(error)) is not None:
        printing.error(f"{name}: a name that is not UTF-8, which cannot be written down; rename it")
    else:
        printing.error(_format_fault(error))
        return Exit.INTERNAL
    return Exit.INPUT


def _report_usage(error: Any) -> None:
    """Print what was wrong with the command itself, and where its help is; nothing after the help of a bare command."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if message:
        printing.error(message + ("" if context is None else f" (see {context.command_path} --help)"))


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
