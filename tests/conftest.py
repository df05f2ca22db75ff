"""Fixtures that tests of several rooms share."""

import sys

import pytest

from divulge import cli, machine


@pytest.fixture
def divulge(monkeypatch, capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    for name in ("PYTHONSAFEPATH", *machine.TABLE_MEMORY):  # which the command line sets
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["divulge", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_info:
            cli.main()
        streams = capsys.readouterr()
        return exit_info.value.code or 0, streams.out, streams.err

    return run
