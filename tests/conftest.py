"""Fixtures that tests of several rooms share."""

import sys

import pytest

from divulge import cli, machine, store

_KNOWN: dict[str, object] = {}


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


@pytest.fixture(scope="module")
def records_compared_once():
    """What records alone tell takes most of an audit's time; here it is asked once of the same records."""
    from divulge.evaluation import blind

    def remember(function):
        def look_up(*given, **named):
            key = store.hash_values(function.__name__, *_parts(given), *_parts(sorted(named.items())))
            if key not in _KNOWN:
                _KNOWN[key] = function(*given, **named)
            return _KNOWN[key]

        return look_up

    with pytest.MonkeyPatch.context() as patch:
        for function in (blind.baseline_with_features, blind.measure_label_errors):
            patch.setattr(blind, function.__name__, remember(function))
        yield


@pytest.fixture
def scores_alone(monkeypatch):
    """Audits without checks, and without what the records explain: tests of scores and columns ask about neither."""
    from divulge.auditing import checks
    from divulge.evaluation import blind

    monkeypatch.setattr(checks, "CHECKS", ())
    monkeypatch.setattr(blind, "adjust_scores", lambda scores, *_, **__: dict(scores))


def _parts(values):
    """Arrays and plain values of nested tuples, in order."""
    for value in values:
        if isinstance(value, tuple | list):
            yield len(value)
            yield from _parts(value)
        else:
            yield value
