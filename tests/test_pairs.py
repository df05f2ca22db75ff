"""Data sets of pairs as records: numbers and texts, and what is refused."""

import numpy as np
import pytest

from divulge import InputError
from divulge.datafiles import from_pairs


def test_numbers_become_an_array_and_texts_stay_texts():
    numbers = from_pairs([(np.array([1.0, 2.0]), 3), (np.array([4.0, 5.0]), 0)])
    assert numbers.x.tolist() == [[1, 2], [4, 5]]
    assert numbers.y.tolist() == [3, 0]
    texts = from_pairs([("a text", 1), ("another, longer text", 0)])
    assert texts.x.dtype == object
    assert texts.x.tolist() == ["a text", "another, longer text"]
    assert texts.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ([], "its length"),
        ([(1, 2, 3)], "pairs"),
        ([np.zeros(2)], "pairs"),
        ([(np.zeros(2), 0), (np.zeros(3), 1)], "one shape"),
        (5, "dataset"),
    ],
)
def test_what_is_no_pair_is_refused(dataset, message):
    with pytest.raises(InputError, match=message):
        from_pairs(dataset)
