"""Former names of modules still work, and say what has taken their place."""

import pytest

from divulge import decisions
from divulge.decisions import fdr, weighted


@pytest.mark.parametrize(
    ("module", "name", "function"),
    [("boundary", "select", fdr.select_at_boundary), ("strata", "Strata", weighted.Strata)],
)
def test_former_modules_warn_and_name_their_successors(module, name, function):
    with pytest.warns(DeprecationWarning, match=f"{function.__module__}.{function.__name__}"):
        assert getattr(getattr(decisions, module), name) is function


def test_unknown_modules_are_attribute_errors():
    assert not hasattr(decisions, "knockoff")
