"""Clauses of an audit that decide alone: unseen classes, a gate's error."""

from types import SimpleNamespace

import numpy as np
import pytest

from divulge.auditing import gates
from divulge.auditing.findings import Outcome
from divulge.errors import InputError


@pytest.mark.parametrize(("labels", "unseen"), [(None, ()), (None, (1,)), ([0, 1, 2, 1], ())])
def test_without_labels_or_unseen_classes_nothing_is_unseen(labels, unseen):
    labels = None if labels is None else np.array(labels)
    outcome = Outcome("loss", np.arange(4.0), np.array([True, False, True, False]), labels, np.zeros(3), None, unseen)
    with pytest.raises(InputError, match="declared no unseen classes"):
        _ = outcome.unseen


def test_unseen_classes_are_a_part_of_the_outcome_with_all_that_is_known_of_each_record():
    columns = {
        "unexplained": np.array([0.5, 1.5, 2.5, 3.5, 4.5]),
        "is_counted": np.array([True, True, False, True, True]),
    }
    members, labels = np.array([True, False, True, False, True]), np.array([0, 1, 2, 1, 2])
    outcome = Outcome("loss", np.arange(5.0), members, labels, np.zeros(3), np.zeros(3, int), (1, 2), **columns)
    rows = [1, 2, 3, 4]
    for part in (outcome.unseen, outcome.on(np.array(rows)), outcome.on(labels > 0)):
        assert part.scores.tolist() == rows
        assert part.members.tolist() == members[rows].tolist()
        assert part.labels.tolist() == labels[rows].tolist()
        assert part.unexplained.tolist() == columns["unexplained"][rows].tolist()
        assert part.is_counted.tolist() == columns["is_counted"][rows].tolist()
        assert part.calibration is outcome.calibration
        assert part.distinct.scores.tolist() == [1, 3, 4]
        assert part.distinct.is_counted is None
        assert repr(part) == "Outcome('loss', members=2, nonmembers=2)"


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5, -0.5, 95])
def test_a_gate_has_a_confidence_between_0_and_1(confidence):
    with pytest.raises(InputError, match="confidence"):
        gates.gate(SimpleNamespace(), "auc:0.6", confidence=confidence)
