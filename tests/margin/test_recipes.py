"""The recipes of weights in an audit: scores like any other, with every decision that follows."""

import numpy as np
import pytest

import divulge as dv
from divulge import margin
from divulge.recipes import weight_recipes

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    y = np.arange(340) % 2
    x = rng.normal(size=(340, 60))
    x[:, 0] += 2 * y - 1
    return margin.train(x[:20], 2 * y[:20] - 1, width=100).net, dv.Records(x, y)


def module(net):
    """The same network in torch."""
    layers = torch.nn.Sequential(torch.nn.Linear(60, 100), torch.nn.ReLU(), torch.nn.Linear(100, 1, bias=False))
    state = {"0.weight": net.w, "0.bias": net.b, "2.weight": net.v[None]}
    layers.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    return layers.double()


@pytest.mark.parametrize("library", ["arrays", "torch"])
def test_members_are_found(trained, library):
    net, records = trained
    recipe_names = [recipe.name for recipe in weight_recipes()]
    assert recipe_names == ["margin-abs", "margin-band", "kkt-nnls", "kkt-nnls-deep"]
    result = dv.audit(
        net if library == "arrays" else module(net),
        members=records[:20],
        nonmembers=records[20:140],
        population=records[140:],
        recipes=recipe_names[:3] if library == "arrays" else recipe_names,
    )
    for name, rates in result.summary().recipes.items():
        assert rates.auc.value > 0.9, name
