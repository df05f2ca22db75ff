"""Clauses of an audit that decide alone: unseen classes, plausible targets, a gate's error, the order of classes."""

from types import SimpleNamespace

import numpy as np
import pytest

from divulge.auditing import gates, plausibility
from divulge.auditing.findings import Outcome
from divulge.auditing.plausibility import RegressionFit
from divulge.errors import InputError
from divulge.types import Estimate


def between(low, high):
    return Estimate((low + high) / 2, low, high, 0.95, "")


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


@pytest.mark.parametrize("squared", [None, -0.2, 0.0, 0.005, 0.01, 0.011])
@pytest.mark.parametrize("absolute", [None, -0.2, 0.0, 0.005, 0.01, 0.011])
@pytest.mark.parametrize("correlation", [-0.5, 0.1, 0.11])
def test_a_regression_model_is_plausible_if_it_errs_less_than_a_constant_and_rises_with_the_values(
    squared, absolute, correlation
):
    gains = [gain for gain in (squared, absolute) if gain is not None]
    fit = RegressionFit(
        r_squared_members=None if squared is None else between(0.2, 0.4), r_squared_nonmembers=None,
        error_members=between(1.0, 3.0), error_nonmembers=between(1.0, 4.0),
        squared_gain=None if squared is None else between(squared, squared),
        absolute_gain=None if absolute is None else between(absolute, absolute),
        rank_correlation=between(correlation, correlation),
    )  # fmt: skip
    doubt = plausibility.describe_regression_doubt(fit)
    if not gains:
        assert doubt.startswith("the values of all training records are equal")
    elif any(gain > 0.01 for gain in gains) and correlation > 0.1:
        assert not doubt
    else:
        r_squared = "" if squared is None else ", R² 0.300"
        found = "hardly worse, so the model is not surely better" if any(gain > 0 for gain in gains) else "no worse"
        assert doubt == (
            f"the model errs by 2 on average on its own training records{r_squared}, and always answering their mean "
            f"or median is {found}"
        )


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5, -0.5, 95])
def test_a_gate_has_a_confidence_between_0_and_1(confidence):
    with pytest.raises(InputError, match="confidence"):
        gates.gate(SimpleNamespace(), "auc:0.6", confidence=confidence)
