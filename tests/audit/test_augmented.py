"""Audits that ask about several versions of every record, from end to end."""

import dataclasses

import numpy as np
import pytest

import divulge as dv
from divulge.auditing import load
from divulge.recipes import Recipe, augmented_recipes
from divulge.signals.versions import OwnVersions

pytestmark = pytest.mark.usefixtures("scores_alone")

CLASSES, SHAPE = 3, (4, 4)


def records(seed, n):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    return dv.Records(rng.normal(y[:, None, None], 2.0, size=(n, *SHAPE)), y)


SETS = {"members": records(1, 60), "nonmembers": records(2, 60), "population": records(3, 100)}


def neighbours(data, seed):
    """Near each class's records, by the nearest one: members are remembered exactly. It counts what it is asked."""
    jitter = np.random.default_rng(seed).normal(scale=0.01, size=CLASSES)

    def logits(x):
        distances = ((x[:, None] - data.x) ** 2).sum(axis=(2, 3))
        return np.stack([-distances[:, data.y == c].min(axis=1) for c in range(CLASSES)], axis=1) + jitter

    return logits


REFERENCES = dv.references.Custom(neighbours, count=4, engine="serial")


def audit(names, target=None, **more):
    arguments = SETS | {"references": REFERENCES, "fpr": (0.05,), "recipes": names} | more
    return dv.audit(neighbours(SETS["members"], 0) if target is None else target, **arguments)


def test_every_recipe_runs_by_its_name_and_says_what_it_asks(tmp_path):
    names = [recipe.name for recipe in augmented_recipes()]
    result = audit(names, out=tmp_path / "run")
    for name in names:
        description = result.about.recipes[name]
        assert description.queries == 18 * 220
        assert description.reads == "the target's outputs on each candidate and on 17 further versions of it"
        assert "on ImageVersions(flip=True, shift=1, shape=None)" in description.attack
        assert result[name].auc.value > 0.55
        np.testing.assert_array_equal(load(tmp_path / "run")[name].scores, result[name].scores)


def test_the_target_is_asked_about_every_version():
    batch_sizes = []
    inner = neighbours(SETS["members"], 0)

    def target(x):
        batch_sizes.append(len(x))
        return inner(x)

    result = audit(["lira-augmented"], target)
    queries = result.about.recipes["lira-augmented"].queries
    assert queries <= sum(batch_sizes) <= queries + 64 + 64  # to see what its outputs are, and whether they repeat


def test_of_a_target_that_leaks_nothing_nothing_is_told():
    """Trained on other records: AUC beyond .5 ± .2 of 60 against 60 has probability 2e-4 a recipe."""
    result = audit([recipe.name for recipe in augmented_recipes()], neighbours(records(9, 60), 0))
    for name in result:
        assert abs(result[name].auc.value - 0.5) < 0.2


def flat(name):
    return dv.Records(SETS[name].x.reshape(len(SETS[name]), -1), SETS[name].y)


def test_tables_and_texts_are_refused_and_the_way_out_is_named():
    sets = {name: flat(name) for name in SETS}
    with pytest.raises(dv.InputError, match=r"got shape \(16,\); give ImageVersions\(shape=\(height, width\)\)"):
        audit(["rmia-augmented"], lambda x: x[:, :3], **sets)


def test_versions_of_ones_own():
    plain = augmented_recipes()[0]

    def rolled(x, rng):
        return np.roll(x, 1, axis=1)

    mine = dataclasses.replace(plain, name="mine", versions=OwnVersions(rolled))
    assert audit([mine])["mine"].auc.value > 0.55

    class Odd:
        count = 2

        def generate(self, records, seed=0):
            return (records,)

    with pytest.raises(dv.InputError, match="mine: 2 further versions are needed, got 1"):
        audit([dataclasses.replace(plain, name="mine", versions=Odd())])
    with pytest.raises(dv.InputError, match=r"versions: of divulge.signals.versions"):
        dataclasses.replace(plain, versions=rolled)
    with pytest.raises(dv.InputError, match="reads further versions of the records, but versions=None"):
        dataclasses.replace(plain, versions=None)
    with pytest.raises(dv.InputError, match="only a classifier's outputs"):
        Recipe("mine", "log_likelihood", plain.attack, "out", versions=plain.versions)


def test_partly_known_images_are_completed_first():
    known_mask = np.arange(16).reshape(SHAPE) % 4 > 0
    result = audit(["lira-augmented"], options=dv.AuditOptions(known=known_mask))
    assert len(result["lira-augmented"].scores) == 120
