"""Every public function, each argument replaced by what nobody should hand in: a right answer or an InputError."""

import pytest

from fuzz import functions, judge

SHARE = 0.1  # of the cases; benchmarks/fuzz.py tries all of them


def test_every_public_function_has_a_valid_call():
    uncovered = ", ".join(functions.uncovered())
    assert not uncovered, f"in tests/fuzz/numbers.py or models.py, give a valid call of {uncovered}; then record again"


@pytest.mark.parametrize("name", functions.CALLS)
def test_a_function_answers_rightly_or_refuses_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = judge.Tally(name)
    with judge.little_memory():
        functions.run(tally, name, SHARE)
    print(tally)
    assert not tally.violations
