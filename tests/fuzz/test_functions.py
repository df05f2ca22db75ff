"""Every public function, each argument replaced by what nobody should hand in: a right answer or an InputError."""

import pytest

from fuzz import functions, judge, surface

SHARE = 0.05  # of the cases; benchmarks/fuzz.py tries all of them
SHARE_OF_LONG = {"synthetic.audit": 0.02}


def test_every_public_function_has_a_valid_call():
    uncovered = ", ".join(functions.uncovered())
    assert not uncovered, f"in tests/fuzz/numbers.py or models.py, give a valid call of {uncovered}; then record again"


@pytest.mark.parametrize("name", functions.CALLS)
def test_a_function_answers_rightly_or_refuses_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = judge.Tally(name)
    with judge.little_memory():
        functions.run(tally, name, SHARE_OF_LONG.get(name, SHARE))
    print(tally)
    assert not tally.violations


LONGEST_REPR = 900  # characters
CONFIGURATIONS = {"references.FineTune", "targets.TextClassifier"}  # whose repr says all


@pytest.mark.parametrize("name", sorted(functions.CALLS.keys() - CONFIGURATIONS))
def test_an_answer_is_shown_in_a_few_lines(name):
    call = functions.CALLS[name]
    answer = surface.public()[name](**call.fresh())
    if type(answer).__module__.startswith("divulge"):
        text = repr(answer)
        assert len(text) <= LONGEST_REPR, f"{type(answer).__name__}: derive it from divulge.types.ShortRepr: {text}"
