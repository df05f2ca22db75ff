"""Losses with a parameter have names, too."""

import pytest

import divulge as dv
from divulge import cli, labels


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("brier", "squared_euclidean"),
        ("qwk", "quadratic_weighted_kappa"),
        ("norm_like", labels.norm_like(2)),
        ("norm_like:3", labels.norm_like(3)),
        ("mahalanobis:2", labels.mahalanobis(2)),
    ],
)
def test_losses_with_a_parameter_are_named_on_the_command_line(name, metric):
    assert labels.OracleSpec(n=4, metric=name).metric == labels.OracleSpec(n=4, metric=metric).metric


def test_an_unknown_name_is_refused_with_the_way_to_a_metric_of_ones_own(capsys):
    with pytest.raises(
        dv.InputError, match=r"metric: 'gini' is unknown .*macro_f1.*; a metric of your own is a function"
    ):
        labels.OracleSpec(n=4, metric="gini")
    assert cli.run(["labels", "capacity", "--n", "4", "--metric", "gini"]) == 2
    assert "'module:function'" in " ".join(capsys.readouterr().err.split())
