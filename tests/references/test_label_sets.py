"""How many classes there are: what the user says, or what the labels show."""

import numpy as np
import pytest

from divulge import InputError, Records
from divulge.references.jobs import count_classes


def records(*labels):
    return Records(np.zeros((len(labels), 2)), np.array(labels))


def test_the_users_number_counts_and_without_one_the_largest_label():
    assert count_classes(records(0, 1, 2, 0), None) == 3
    assert count_classes(records(0, 1, 2, 0), 3) == 3
    assert count_classes(records(0, 1, 2, 0), 10) == 10
    assert count_classes(records(0, 0), 2) == 2


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (records(0, 1, 2), 2, "records.y"),
        (records(0, 0), None, "at least 2 classes"),
        (records(0, 5), None, r"at least as many as classes \(6\)"),
        (records(0, 1), 1, "classes"),
        (Records(np.zeros((2, 2))), None, "labels are needed"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, classes, message):
    with pytest.raises(InputError, match=message):
        count_classes(labels, classes)
