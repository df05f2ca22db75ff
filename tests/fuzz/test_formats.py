"""Every kind of file, damaged: a right answer or an InputError that says which file."""

import pytest

from fuzz import formats, judge

FLIPS = 25  # of each kind of damage; benchmarks/fuzz.py tries more


@pytest.mark.parametrize("file_format", formats.FORMATS, ids=lambda file_format: file_format.name)
def test_a_damaged_file_is_an_error_that_names_it(file_format, tmp_path):
    tally = judge.Tally(file_format.name)
    with judge.little_memory():
        formats.run(tally, file_format, tmp_path, FLIPS)
    print(tally)
    assert not tally.violations
