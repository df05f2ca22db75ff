"""The command line: flags, exit codes, printing. One file a group of commands."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; user errors become one line on standard error and exit code 2."""
    from divulge.checks import InputError, MissingExtraError
    from divulge.cli.app import app

    try:
        app()
    except (InputError, MissingExtraError, OSError) as error:
        sys.stderr.write(f"divulge: {error}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"divulge: {stop or 'interrupted; what was finished is kept'}\n")
        raise SystemExit(130) from None
