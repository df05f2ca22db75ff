"""Every kind of file, damaged: a right answer or an InputError that says which file."""

import pytest

from fuzz import formats, judge

FLIPS = 25  # of each kind of damage; benchmarks/fuzz.py tries more


@pytest.mark.parametrize("kind", formats.FORMATS, ids=lambda kind: kind.name)
def test_a_damaged_file_is_an_error_that_names_it(kind, tmp_path):
    tally = judge.Tally(kind.name)
    with judge.little_memory():
        formats.run(tally, kind, tmp_path, FLIPS)
    print(tally)
    assert not tally.violations
