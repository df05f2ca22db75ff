"""The command line: flags, exit codes, printing. One file per group of commands."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from divulge import lazy, machine
from divulge.cli import options, printing
from divulge.cli.app import app
from divulge.cli.exit_codes import Exit
from divulge.errors import InputError, MissingExtraError, UserCodeError, as_missing_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.results import provenance
else:
    provenance = lazy.module("divulge.results.provenance")


def main() -> None:
    """Run the command line: every error is one line on standard error and an exit code of its own."""
    printing.prepare()
    os.environ["PYTHONSAFEPATH"] = "1"  # of the processes that are started: none imports from the current folder
    if "_DIVULGE_COMPLETE" in os.environ:  # a shell asks how a line may go on
        typer.main.get_command(app)(prog_name="divulge")
    code = run(sys.argv[1:])
    printing.finish()
    raise SystemExit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command and give its exit code, see `divulge.cli.exit_codes.Exit`."""
    try:
        if "SOURCE_DATE_EPOCH" in os.environ:  # libraries read it, too, and fail in words of their own
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
        printing.error(options.spoken(str(error), _command(arguments), arguments))
    except (MissingExtraError, OSError, MemoryError) as error:
        printing.error(_refusal(error))
    except Exception as error:
        return _unexpected(error)
    return Exit.INPUT


def _unexpected(error: Exception) -> Exit:
    """Say what went wrong with the command itself, an import, or a name, and give the exit code; else it is a fault."""
    if hasattr(error, "format_message"):
        _usage(error)
    elif (extra := as_missing_extra(error)) is not None:
        printing.error(extra)
    elif (name := _misspelt(error)) is not None:
        printing.error(f"{name}: a name that is not UTF-8, which cannot be written down; rename it")
    else:
        printing.error(_fault(error))
        return Exit.INTERNAL
    return Exit.INPUT


def _refusal(error: Exception) -> str:
    """What the system refused: the file and the reason, where it says both."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error) or "out of memory"


def _misspelt(error: Exception) -> str | None:
    """The name that an error is about, if it holds bytes that are not UTF-8: Python hands them on as surrogates."""
    text = error.object if isinstance(error, UnicodeEncodeError) else ""
    odd = next((part for part in text.splitlines() if any("\udc80" <= letter <= "\udcff" for letter in part)), None)
    return None if odd is None else odd.strip().strip('",')


def _command(arguments: Sequence[str]) -> Any:
    """The command that the first of ``arguments`` name."""
    named: Any = typer.main.get_command(app)
    for word in arguments:
        named = getattr(named, "commands", {}).get(word, named)
    return named


def _usage(error: Any) -> None:
    """What was wrong with the command itself, and where its help is; nothing after the help of a bare command."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if message:
        printing.error(message + ("" if context is None else f" (see {context.command_path} --help)"))


def _fault(error: Exception) -> str:
    """Where a fault of ours happened. Not its message: it may hold what nobody should read."""
    if os.environ.get("DIVULGE_TRACEBACK"):
        traceback.print_exception(error)
    package = Path(__file__).parents[1]
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [f" at {file.relative_to(package.parent)}:{row}" for file, row in frames if file.is_relative_to(package)]
    return (
        f"internal error: {type(error).__name__}{''.join(ours[-1:])}. This is a bug in Divulge, please report it; "
        "DIVULGE_TRACEBACK=1 shows more"
    )
