"""Losses with a parameter have names, too."""

import pytest

from divulge import labels


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("brier", "squared_euclidean"),
        ("norm_like", labels.norm_like(2)),
        ("norm_like:3", labels.norm_like(3)),
        ("mahalanobis:2", labels.mahalanobis(2)),
    ],
)
def test_losses_with_a_parameter_are_named_on_the_command_line(name, metric):
    assert labels.OracleSpec(n=4, metric=name).metric == labels.OracleSpec(n=4, metric=metric).metric
