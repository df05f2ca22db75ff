"""What pieces of a line on the margin tell, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from divulge.reconstruction import _alternating_ends, _pieces_on_margin, _predicted_labels


def bent(*at):
    return SimpleNamespace(positions=np.array(at, float))


@pytest.mark.parametrize(
    ("break_points", "flat", "ends"),
    [
        ((0, 1, 2, 3), (True, False, True), (1, 2)),
        ((0, 1, 2, 3), (True, True, True), ()),
        ((0, 1, 2, 3), (False, False, True), ()),
        ((0, 1, 2, 3), (True, False, False), ()),
        ((0, 1, 2), (True, False), ()),
        ((0, 1, 2, 3, 4, 5), (True, False, True, False, True), (1, 2, 3, 4)),
        ((0, 1, 2, 3, 4), (False, True, False, True), (2, 3)),
    ],
)
def test_a_piece_off_the_margin_between_two_on_it_ends_in_training_points(break_points, flat, ends):
    assert _alternating_ends(bent(*break_points), np.array(flat)).tolist() == list(ends)


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ((1, 1), [True]),
        ((-1, -1), [True]),
        ((1, -1), [False]),
        ((1, 0.5, 1), [False, False]),
        ((1, 1, -1), [True, False]),
    ],
)
def test_a_piece_is_on_the_margin_if_both_of_its_ends_are_at_the_same_height(values, flat):
    assert _pieces_on_margin(SimpleNamespace(values=np.array(values, float)), 1.0).tolist() == flat
    assert _pieces_on_margin(SimpleNamespace(values=7 * np.array(values, float)), 7.0).tolist() == flat


def test_labels_are_the_signs_of_the_network():
    def net(x):
        return x[:, 0] - 1

    assert _predicted_labels(net, np.array([0.0, 1.0, 2.0])).tolist() == [-1.0, 1.0, 1.0]
    assert _predicted_labels(net, np.zeros(0)).tolist() == []
