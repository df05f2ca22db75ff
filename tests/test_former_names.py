"""Former names still work, and say what has taken their place."""

import pytest

from divulge import decisions, evaluation
from divulge.decisions import fdr, weighted


@pytest.mark.parametrize(
    ("module", "name", "function"),
    [("boundary", "select", fdr.select_at_boundary), ("strata", "Strata", weighted.Strata)],
)
def test_former_modules_warn_and_name_their_successors(module, name, function):
    with pytest.warns(DeprecationWarning, match=f"{function.__module__}.{function.__name__}"):
        assert getattr(getattr(decisions, module), name) is function


@pytest.mark.parametrize(("former", "name"), [("least_nonmembers", "min_nonmembers"), ("telling", "text_differences")])
def test_former_functions_warn_and_name_their_successors(former, name):
    with pytest.warns(DeprecationWarning, match=rf"use divulge\.evaluation\.{name}"):
        assert getattr(evaluation, former) is getattr(evaluation, name)


@pytest.mark.parametrize(("module", "name"), [(decisions, "knockoff"), (evaluation, "baseline")])
def test_unknown_names_are_attribute_errors(module, name):
    assert not hasattr(module, name)
