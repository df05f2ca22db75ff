"""Every command that reads a directory, on damaged ones: a documented exit code, one line, nothing unnoticed."""

import pytest

from fuzz import commands, judge

SHARE = 0.04  # of the cases; benchmarks/fuzz.py tries all of them


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return commands.prepare(tmp_path_factory.mktemp("template"))


@pytest.mark.parametrize("reader", commands.READERS, ids=lambda reader: " ".join(reader.command))
def test_a_damaged_directory_is_noticed_and_said(reader, template, tmp_path):
    tally = judge.Tally(" ".join(reader.command))
    commands.run(tally, reader, template, tmp_path, share=SHARE)
    print(tally)
    assert not tally.violations
