"""What is about to be held in memory is counted before it is made."""

import sys

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError


class TooMuchError(Exception):
    """Ends the work where it is about to begin."""


@pytest.fixture
def bytes_needed(monkeypatch):
    """What was asked for, in bytes; nothing is granted."""
    sizes = []

    def refuse(size, name, remedy):
        sizes.append(size)
        raise TooMuchError

    monkeypatch.setattr(sys.modules["divulge.labels.design"], "check_memory", refuse)
    return sizes


@pytest.mark.parametrize(
    ("options", "numbers"), [({}, 2), ({"classes": 5}, 5), ({"submission": "positive"}, 1), ({"metric": "accuracy"}, 2)]
)
def test_a_submission_takes_eight_bytes_a_number(bytes_needed, options, numbers):
    with pytest.raises(TooMuchError):
        labels.design(labels.OracleSpec(n=1000, **options))
    assert bytes_needed == [8 * 1000 * numbers]


@pytest.mark.parametrize(
    ("machine", "container", "free"),
    [(100, None, 100), (None, 50, 50), (100, 50, 50), (40, 50, 40), (None, None, None)],
)
def test_the_smaller_of_machine_and_container_is_free(monkeypatch, machine, container, free):
    from divulge import validation

    monkeypatch.setattr(validation, "_free_memory", lambda: machine)
    monkeypatch.setattr(validation, "_free_container_memory", lambda: container)
    assert validation.available_memory() == free


def test_nine_tenths_of_what_is_free_may_be_taken(monkeypatch):
    from divulge import validation

    monkeypatch.setattr(validation, "available_memory", lambda: 1000)
    validation.check_memory(900, "n", "take fewer")
    with pytest.raises(InputError, match=r"n: about .* are needed, .* are free; take fewer"):
        validation.check_memory(901, "n", "take fewer")
    monkeypatch.setattr(validation, "available_memory", lambda: None)
    validation.check_memory(10**18, "n", "take fewer")


def test_as_many_rows_of_references_as_of_reference_models_are_needed():
    from divulge import Evidence, InputError

    target, population = np.zeros(3), np.zeros(2)
    for rows, fits in ((4, True), (3, False), (5, False)):
        arguments = {
            "references": np.zeros((4, 3)),
            "population": population,
            "population_references": np.zeros((rows, 2)),
        }
        if fits:
            assert Evidence(target, **arguments).population_references.shape == (4, 2)
        else:
            with pytest.raises(InputError, match=f"population_references: {rows} rows, but references has 4"):
                Evidence(target, **arguments)
