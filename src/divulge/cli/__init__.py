"""The command line: flags, exit codes, printing. One file a group of commands."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; user errors become one line on standard error and exit code 2."""
    from divulge.cli.app import app
    from divulge.errors import InputError, MissingExtraError, UserCodeError

    try:
        app()
    except UserCodeError as error:
        sys.stderr.write(f"divulge: {error}\n{error.traceback()}")
        raise SystemExit(2) from None
    except (InputError, MissingExtraError, OSError) as error:
        sys.stderr.write(f"divulge: {error}\n")
        raise SystemExit(2) from None
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            sys.stderr.write(f"divulge: {_what_is_kept(stop)}\n")
        raise


def _what_is_kept(stop: BaseException) -> str:
    """The words of the KeyboardInterrupt that ended the command, wherever it stands in the chain of causes."""
    cause: BaseException | None = stop
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return str(cause or "") or "interrupted; what was finished is kept, the same command goes on from there"
