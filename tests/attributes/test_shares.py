"""The largest share that may be given away beneath copies: of all guesses that could stand behind those observed."""

from types import SimpleNamespace

import pytest

from divulge.attributes import finding
from divulge.types import Estimate


def comparison(difference, gain=None):
    high = Estimate(difference - 0.1, difference - 0.2, difference, 0.95, "m")
    return SimpleNamespace(
        difference=high, gain=None if gain is None else Estimate(gain - 0.1, gain - 0.3, gain, 0.95, "m")
    )


@pytest.mark.parametrize(("difference", "copied"), [(0.1, 0), (0.1, 10), (0.3, 25), (0.0, 50), (0.2, 99)])
def test_copies_among_nonmembers_may_all_be_guessed_rightly(difference, copied):
    """Of 100 non-members; the others are then right less often, and members may always be."""
    found = finding.possibly_given_away(comparison(difference), 200, 100, copied)
    copies = copied / 100
    largest = 0.0
    for step in range(101):
        nonmembers = step / 100
        others = (nonmembers - copies) / (1 - copies)  # with all copies right
        largest = max(largest, nonmembers + difference - others if copied else difference)
    assert found == pytest.approx(min(1.0, (difference + copies) / (1 - copies)))
    assert found >= min(1.0, largest) - 1e-9


def test_all_copies_leave_everything_possible_and_the_imputation_knows_those_in_the_population():
    assert finding.possibly_given_away(comparison(0.1), 200, 100, 100) == 1.0
    assert finding.possibly_given_away(comparison(0.1), 200, 100, 500) == 1.0
    assert finding.possibly_given_away(comparison(0.9), 200, 100, 60) == 1.0
    assert finding.possibly_given_away(comparison(0.3, gain=0.2), 200, 100) == pytest.approx(0.2)
    assert finding.possibly_given_away(comparison(0.1, gain=0.2), 200, 100) == pytest.approx(0.1)
    assert finding.possibly_given_away(comparison(0.3, gain=0.2), 200, 100, 10) == pytest.approx(0.25)


def test_one_copy_and_several_are_told():
    assert finding.describe_copies(1).startswith("1 record has a copy in another set")
    assert finding.describe_copies(2).startswith("2 records have copies in another set")
