"""Audits that look inside the networks: what they tell, and what they refuse before any work."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from audit.conftest import make_model, records
from divulge.recipes import Recipe, white_box_recipes
from divulge.references import jobs
from divulge.signals import internals
from divulge.signals.versions import NoisyVersions
from divulge.targets import TorchTarget
from odd_networks import Scaled

pytestmark = pytest.mark.usefixtures("scores_alone")

WHITE_BOX = ("weight-gradient", "learned-white-box")


def test_they_find_members_and_say_what_they_read(case):
    result = case.audit(recipes=[*WHITE_BOX, "learned-few"])
    for name in WHITE_BOX:
        assert result[name].auc.low > 0.55
    total = 200 + 200 + 500
    recipes = result.about.recipes
    assert recipes["learned-white-box"].reads == (
        "the target's outputs, and last hidden layer with its weights on each candidate"
    )
    assert [recipes[name].queries for name in (*WHITE_BOX, "learned-few")] == [2 * total, 2 * total, total]
    assert set(result.signals) == {"scaled-logit", "weight-gradient", "feature-angle"}
    expected = internals.measure(TorchTarget(case.target), case.members, ("feature-angle",))[:, 0]
    np.testing.assert_array_equal(result.signals["feature-angle"][:200], expected)


def test_nothing_is_found_of_a_target_that_saw_none_of_them(case):
    """One fixed seed: an interval of 95 % misses one half one time in twenty."""
    blank = records(11, 200)
    result = dv.audit(case.target, **case.arguments(members=blank, recipes=WHITE_BOX))
    for name in WHITE_BOX:
        assert result[name].auc.low < 0.5 < result[name].auc.high


@pytest.mark.parametrize("engine", ["stacked", "processes"])
def test_models_of_every_engine_and_from_the_pool_are_looked_into_alike(case, engine, tmp_path):
    plain = case.audit(recipes=["learned-white-box"])
    references = dataclasses.replace(case.references, engine=engine, workers=2)
    expected = case.audit(recipes=["learned-white-box"], references=references, options=dv.AuditOptions(pool=tmp_path))
    np.testing.assert_allclose(expected.scores["learned-white-box"], plain.scores["learned-white-box"], atol=1e-2)
    repeat = case.audit(recipes=["learned-white-box"], references=references, options=dv.AuditOptions(pool=tmp_path))
    np.testing.assert_allclose(repeat.scores["learned-white-box"], expected.scores["learned-white-box"], atol=1e-6)


def test_networks_trained_by_the_user_are_looked_into_and_kept(case, tmp_path):
    seeds, pool = tmp_path / "seeds", tmp_path / "pool"  # a list would be in the pool's key, and change it

    def train(data, seed):
        with seeds.open("a") as file:
            file.write(f"{seed}\n")
        return dv.references.train_one(make_model, data, seed=seed, epochs=2, device="cpu")

    references = dv.references.Custom(train, count=1, engine="serial")
    names = ["learned-few", "learned-white-box"]
    expected = case.audit(recipes=names, references=references, options=dv.AuditOptions(pool=pool))
    repeat = case.audit(recipes=names, references=references, options=dv.AuditOptions(pool=pool))
    assert len(seeds.read_text().splitlines()) == 1
    for name in names:
        np.testing.assert_array_equal(expected.scores[name], repeat.scores[name])
    single_recipe = case.audit(recipes=["learned-few"], references=references, options=dv.AuditOptions(pool=pool))
    np.testing.assert_array_equal(expected.scores["learned-few"], single_recipe.scores["learned-few"])


def test_a_model_whose_gradients_overflow_counts_for_every_recipe_or_for_none():
    """An enormous weight: outputs are finite in single precision, the gradient's square is not."""
    module = nn.Linear(2, 2)
    module.weight.data.fill_(1.0)
    data = dv.Records(np.full((3, 2), 1e30), [0, 1, 0])
    values = internals.measure(TorchTarget(module, device="cpu"), data, tuple(internals.SIGNALS))
    assert np.isfinite(values).all()
    assert jobs.clip_to_dtype(np.array([1e300, -1e300]), np.dtype(np.float32)).tolist() == [
        float(np.finfo(np.float32).max),
        -float(np.finfo(np.float32).max),
    ]


def outputs_alone(case):
    return lambda x: case.target(torch.from_numpy(x)).detach().numpy()


@pytest.mark.parametrize("name", WHITE_BOX)
def test_a_target_that_cannot_be_looked_into_is_refused_before_any_work(case, name):
    worked = []
    references = dv.references.Custom(lambda data, seed: worked.append(seed), count=2, engine="serial")
    with pytest.raises(dv.InputError, match=rf"target: a torch module is needed .*{name} cannot .*got CallableTarget"):
        dv.audit(outputs_alone(case), **case.arguments(recipes=[name, "rmia"], references=references))
    with pytest.raises(dv.InputError, match="target: its outputs are not those of its last linear layer"):
        dv.audit(Scaled(make_model()), **case.arguments(recipes=["weight-gradient"], references=references))
    assert not worked


def test_references_that_cannot_be_looked_into_are_refused(case, monkeypatch):
    trained = []
    monkeypatch.setattr(dv.references.Train, "fit", lambda *_, **__: trained.append(1))
    references = dataclasses.replace(case.references, make_model=lambda: nn.Sequential(make_model(), nn.Softplus()))
    angle = Recipe("angle", "scaled-logit", white_box_recipes()[1].attack, "out", beside=("last-layer-gradient",))
    with pytest.raises(dv.InputError, match="references: a reference model as the target: its outputs are not those"):
        case.audit(recipes=[angle], references=references)
    assert not trained
    custom = dv.references.Custom(lambda data, seed: outputs_alone(case), count=1, engine="serial")
    with pytest.raises(
        dv.InputError, match=r"references: a reference model as the target: a torch module .*feature-angle"
    ):
        case.audit(recipes=["learned-white-box"], references=custom)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beside": ("gradient",)}, "beside: 'gradient' is unknown"),
        ({"beside": ("zlib",)}, "beside: 'zlib' is unknown"),
        ({"versions": NoisyVersions(2)}, "on whole records alone, without versions"),
        ({"signal": "zlib"}, "only a classifier's signals can have others beside them"),
        ({"beside": ()}, "reads further versions of the records, but versions=None"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(dv.InputError, match=message):
        dataclasses.replace(white_box_recipes()[1], name="mine", **changes)


def test_labels_alone_and_records_without_labels_are_refused(case):
    class Labels:
        def labels(self, data):
            return np.zeros(len(data), int)

    with pytest.raises(dv.InputError, match="gives labels alone, but weight-gradient read logits"):
        dv.audit(Labels(), **case.arguments(recipes=["weight-gradient"]))
    bare = {name: dv.Records(getattr(case, name).x) for name in ("members", "nonmembers", "population")}
    with pytest.raises(dv.InputError, match="weight-gradient read the records' labels, but there are none"):
        dv.audit(case.target, **bare, recipes=["weight-gradient"])
