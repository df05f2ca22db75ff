"""Names of recipes and the settings that they stand for, and what is refused of settings in Python and in a plan."""

from dataclasses import dataclass, fields
from pathlib import Path

import pytest

import divulge as dv
from divulge import plan, recipes
from divulge.recipes import ATTACKS, BASE, RMIA, Labels, Learned, LiRA, Loss, Quantile, aliases, configure, resolve
from recipes.forms import RECORD_TYPES, combinations, forms

NAMES = [(record_type, name) for record_type in RECORD_TYPES for name in aliases(documents=record_type == "documents")]


@pytest.mark.parametrize(("record_type", "name"), NAMES)
def test_a_name_is_its_settings_field_by_field(record_type, name):
    documents = record_type == "documents"
    settings = aliases(documents=documents)[name]
    from_name, from_settings = resolve(name, documents=documents), resolve(settings, documents=documents)
    assert from_name.name == from_settings.name == name
    for field in fields(from_name):
        assert repr(getattr(from_name, field.name)) == repr(getattr(from_settings, field.name))


@pytest.mark.parametrize("record_type", RECORD_TYPES)
def test_every_combination_is_a_recipe_of_its_own_or_is_refused(record_type):
    valid_settings = [settings for *_, settings in combinations(record_type) if settings is not None]
    assert len(forms(record_type)) == len(valid_settings)
    assert set(aliases(documents=record_type == "documents")) <= set(forms(record_type))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_setting_has_a_default_among_its_choices_and_a_meaning(attack):
    assert attack.description()
    for setting in attack.settings():
        assert setting.number or setting.default in (setting.choices or ("",))
        assert setting.meaning
    assert attack().changes() == {}
    assert attack.record_types()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LiRA(mode="onlin"), "LiRA.mode: 'onlin' is unknown; did you mean 'online'"),
        (lambda: LiRA(augment="yes"), "LiRA.augment: .*got 'yes'"),
        (lambda: LiRA(known="draws", mode="online"), "mode='online' and known='draws' do not go together"),
        (lambda: RMIA(known="best", augment=True), "known='best' and augment=True do not go together"),
        (lambda: Learned(few=True, mode="online"), "few=True and mode='online' do not go together"),
        (lambda: Learned(inside=True), "inside=True and few=False do not go together"),
        (lambda: Loss(signal="gap", known="best"), "signal='gap' and known='best' do not go together"),
        (lambda: Labels(signal="noise", calibrated=True), "signal='noise' and calibrated=True do not go together"),
        (lambda: LiRA(tokens="correlated").recipe(), 'LiRA.tokens: of a classifier it can be "mean", got "correlated"'),
        (lambda: LiRA(augment=True).recipe(documents=True), "LiRA.augment: of a language model it can be false"),
        (lambda: Loss(signal="zlib").recipe(), 'Loss.signal: of a classifier it can be "loss" or "entropy"'),
        (lambda: BASE().recipe(documents=True), "'base' is no attack on a language model"),
        (lambda: resolve("bavaria", documents=True), "recipes: 'bavaria' is unknown"),
        (lambda: Quantile(weights="w", regressor="trees"), "regressor='trees' and weights='w' do not go together"),
        (lambda: Quantile(weights=3), "Quantile.weights: the name of a folder is needed, got 3"),
        (lambda: Quantile(weights="w").recipe(documents=True), 'Quantile.weights: of a language model it can be ""'),
        (lambda: resolve(3), "recipes: a name, settings such as"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(dv.InputError, match=message):
        make()


def test_a_table_configures_the_attack_of_its_name():
    requested = configure(["loss", "lira", "rmia-online"], {"lira": {"mode": "online", "residual": True}})
    assert [resolve(each).name for each in requested] == ["loss", "lira-online-residual", "rmia-online"]
    assert configure(["quantile"], {"quantile": {}}) == (Quantile(),)
    in_plan = configure(["quantile"], {"quantile": {"weights": "convnext"}}, Path("/plans"))
    assert in_plan == (Quantile(weights=str(Path("/plans/convnext"))),)


@pytest.mark.parametrize(
    ("names", "tables", "message"),
    [
        (["loss"], {"lira": {}}, r"recipe.lira: these are settings of 'lira', which recipes \(loss\) does not name"),
        (["lira-online"], {"lira": {}}, "recipe.lira: .*which recipes .*does not name"),
        (["lira"], {"lirra": {}}, "recipe: 'lirra' is unknown; did you mean 'lira'"),
        (["lira-online"], {"lira-online": {}}, r"'lira-online' is 'lira' with mode='online'; write \[recipe.lira\]"),
        (["lira"], {"lira": {"mod": "online"}}, "recipe.lira: setting: 'mod' is unknown; did you mean 'mode'"),
        (["lira"], {"lira": {"mode": "of"}}, r"recipe.lira.mode: 'of' is unknown.*\(known: offline, online\)"),
        (["lira"], {"lira": {"augment": "no"}}, "recipe.lira.augment: .*got 'no'"),
        (["transfer"], {"transfer": {"mode": "online"}}, "recipe.transfer: transfer has no settings, got mode"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(names, tables, message):
    with pytest.raises(dv.InputError, match=message):
        configure(names, tables)


FILES = '\n[target]\nmodel = "a.onnx"\n[data]\nmembers = "m.npz"\nnonmembers = "n.npz"\npopulation = "p.npz"\n'


@pytest.mark.parametrize(
    ("head", "tables", "names"),
    [
        ("", "", ["auto", "loss"]),
        ("", '[recipe.lira]\nmode = "online"\n[recipe.quantile]', ["lira", "quantile"]),
        ('recipes = ["loss", "lira"]', '[recipe.lira]\nmode = "online"', ["loss", "lira"]),
    ],
)
def test_a_plan_names_the_attacks_that_it_configures(tmp_path, head, tables, names):
    path = tmp_path / "plan.toml"
    path.write_text(head + FILES + tables)
    result = plan.read(path)
    assert list(result.recipes) == names
    assert [resolve(each).name for each in configure(result.recipes, result.recipe or {})][-1] == {
        "auto": "loss", "lira": "quantile", "loss": "lira-online",
    }[names[0]]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_python_finds_every_attack_by_its_name(attack):
    found = getattr(recipes, attack.__name__, None)
    assert found is attack, f"import {attack.__name__} in src/divulge/recipes/__init__.py and name it in __all__"


OWN_SETTINGS = """
from dataclasses import dataclass
from typing import Literal

from divulge.attacks import Threshold
from divulge.recipes import AttackSettings, make_recipe, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Own(AttackSettings):
    signal: Literal["negative-loss", "hinge"] = setting("negative-loss", "what is compared")

    def _classifier_recipe(self):
        return make_recipe(f"own-{self.signal}", self.signal, Threshold(), "a threshold")


hinge = Own(signal="hinge")
wrong = Threshold()
"""


def test_settings_of_ones_own_are_named_by_their_module(tmp_path, monkeypatch):
    (tmp_path / "own_settings.py").write_text(OWN_SETTINGS)
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve("own_settings:Own").name == "own-negative-loss"
    assert resolve("own_settings:hinge").name == "own-hinge"
    with pytest.raises(dv.InputError, match="settings of an attack are needed, got Threshold"):
        resolve("own_settings:wrong")


def test_a_setting_of_another_type_is_refused_by_name():
    @dataclass(frozen=True, kw_only=True)
    class Share(recipes.AttackSettings):
        share: bytes = recipes.setting(b"", "share of the records")

    with pytest.raises(dv.InputError, match=r"Share\.share: .*Literal"):
        Share()
