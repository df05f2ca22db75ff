"""From a plan in a folder to the arguments of an audit: files, groups, covariates, masks, access, and an erasure."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from divulge import plan
from divulge.errors import InputError
from divulge.settings import Plan

CODE = """
import numpy as np

def predict(x):
    return np.column_stack([x[:, 0], -x[:, 0], 0 * x[:, 0]])

def embed(records):
    return np.ones((len(records), 2))

def train(records, seed):
    return predict

def net():
    return None
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own_code.py").write_text(CODE)
    rng = np.random.default_rng(0)
    for number, name in enumerate(("members", "nonmembers", "population", "gone")):
        n = 12 + number
        pl.DataFrame({
            "id": [f"{'members' if name == 'gone' else name}{i}" for i in range(n)], "a": rng.normal(size=n),
            "b": rng.normal(size=n), "site": [["u", "v"][i % 2] for i in range(n)], "year": np.arange(n) + 2000,
            "label": np.arange(n) % 3,
        }).write_csv(tmp_path / "sub" / f"{name}.csv")  # fmt: skip
    return tmp_path


def resolve(place, *, data=None, **keys):
    files = {name: f"{name}.csv" for name in ("members", "nonmembers", "population")}
    content = {"folder": "sub", "recipes": ["loss"], "target": {"model": "own_code:predict"}}
    named = {"drop": ["site", "year"]} | (data or {})
    return plan.resolve(Plan.check(**content | keys, data=files | named), place)


def test_a_plan_of_three_files_is_a_subject_and_options(folder):
    found = resolve(folder, seed=3, fpr=[0.1], duplicates="drop")
    assert [len(getattr(found.subject, name)) for name in ("members", "nonmembers", "population")] == [12, 13, 14]
    assert (found.subject.groups, found.subject.known, found.subject.covariates) == (None, None, None)
    assert (found.subject.features, found.subject.unseen_classes, found.pool) == (None, (), None)
    assert (found.options.seed, found.options.fpr, found.options.duplicates) == (3, (0.1,), "drop")
    assert (found.options.references, found.options.imputer) == ("auto", None)
    assert found.subject.members.ids[0] == "members0"
    assert found.subject.members.table.columns == ["a", "b"]
    assert list(found.origins) == ["target.model"]
    assert found.plan["folder"] == str((folder / "sub").resolve())
    assert found.plan["data"] == {
        "members": "members.csv", "nonmembers": "nonmembers.csv", "population": "population.csv",
        "drop": ["site", "year"],
    }  # fmt: skip
    with pytest.raises(InputError, match=r"^folder: no such directory: "):
        resolve(folder, folder="none")
    with pytest.raises(InputError, match=r"^data.nonmembers: no such file: "):
        resolve(folder, data={"nonmembers": "none.csv"})


def test_groups_and_covariates_are_those_of_members_and_nonmembers(folder):
    found = resolve(folder, data={"group": "site", "covariates": ["year"], "drop": []})
    assert found.subject.groups.tolist() == ["u", "v"] * 6 + ["u", "v"] * 6 + ["u"]
    assert list(found.subject.covariates) == ["year"]
    assert found.subject.covariates["year"].tolist() == [*range(2000, 2012), *range(2000, 2013)]


def test_the_adversary_knows_what_the_plan_says(folder):
    found = resolve(folder, known="columns:a", imputer="mean")
    assert np.broadcast_to(found.subject.known, (25, 2))[0].tolist() == [True, False]
    assert type(found.options.imputer).__name__ == "Mean"
    several = resolve(folder, known=["columns:a", "columns:b"])
    assert isinstance(several.subject.known, tuple)
    assert type(several.options.imputer).__name__ == "ConditionalGaussian"
    each = resolve(folder, known="share:0.5:each")
    assert each.subject.known.shape == (25, 2)


def test_classes_that_are_dropped_are_unseen(folder):
    found = resolve(folder, access={"drop_classes": [2]}, unseen_classes=[1, 2])
    assert found.subject.unseen_classes == (1, 2)
    assert 2 not in found.subject.population.y
    assert 2 in found.subject.members.y
    assert resolve(folder, access={"drop_classes": [0]}).subject.unseen_classes == (0,)


def test_references_and_features_are_the_users_code(folder):
    found = resolve(folder, references={"train": "own_code:train", "count": 3, "pool": "p"},
                    data={"features": "own_code:embed"})  # fmt: skip
    assert found.options.references.count == 3
    assert found.options.references.train.__name__ == "train"
    assert found.pool == (folder / "sub" / "p").resolve()
    assert found.subject.features.__name__ == "embed"
    assert found.subject.members.features is None
    assert set(found.origins) == {"target.model", "references.train", "data.features"}
    net = resolve(folder, references={"make_model": "own_code:net", "count": 2}, device="cpu").options.references
    assert (net.make_model.__name__, net.device, net.count) == ("net", "cpu", 2)
    own = resolve(folder, references={"make_model": "own_code:net", "count": 2, "device": "cuda"}, device="cpu")
    assert own.options.references.device == "cuda"
    columns = resolve(folder, data={"features": "ye", "drop": ["site"]})
    assert columns.subject.features is None
    assert columns.subject.members.features[:, 0].tolist() == list(range(2000, 2012))
    for references, message in (
        ({"base": "none", "count": 2}, "references.base: no such folder: "),
        ({"train": "own_code:nothing"}, "references.train"),
    ):
        with pytest.raises(InputError, match=message):
            resolve(folder, references=references)


@pytest.mark.parametrize("lora", [None, {"rank": 3}])
def test_a_base_is_a_folder_or_a_name_of_the_hub(folder, lora):
    (folder / "base").mkdir()
    settings = {"base": "base", "count": 2} | ({} if lora is None else {"lora": lora})
    found = plan._make_references(Plan.check(target={"model": "m"}, data=dict.fromkeys(
        ("members", "nonmembers", "population"), "a"), references=settings).references, "cpu", folder)  # fmt: skip
    assert found.base == str(folder / "base")
    assert found.device == "cpu"
    assert (None if found.lora is None else found.lora.rank) == (None if lora is None else 3)
    hub = Plan.check(
        target={"model": "m"},
        data=dict.fromkeys(("members", "nonmembers", "population"), "a"),
        references={"base": "hf:org/name", "count": 2},
    ).references
    assert plan._make_references(hub, "cpu", folder).base == "hf:org/name"


def test_labels_are_needed_where_recipes_read_them(folder):
    unnamed = folder / "sub" / "members.csv"
    frame = pl.read_csv(unnamed).rename({"label": "outcome"})
    frame.write_csv(unnamed)
    with pytest.raises(InputError, match=r"^data.nonmembers: the columns differ"):
        resolve(folder)


def test_an_erasure_has_its_models_and_requests(folder):
    keys = {"forget": {"after": "own_code:predict", "records": "gone.csv", "retrained": ["own_code:predict"],
                       "margin": 0.07}}  # fmt: skip
    files = {name: f"{name}.csv" for name in ("members", "nonmembers", "population")}
    checked = Plan.check(folder="sub", recipes=["loss"], target={"model": "own_code:predict"},
                         data=files | {"drop": ["site", "year"]}, seed=5, **keys)  # fmt: skip
    resolved = plan.resolve(checked, folder)
    found = plan.resolve_forget(checked, resolved, folder)
    assert found["before"] is resolved.target
    assert list(found["forget"]) == ["forget"]
    assert len(found["forget"]["forget"]) == 15
    assert found["never"] is resolved.subject.nonmembers
    assert len(found["retrained"]) == 1
    assert (found["references"], found["population"], found["seed"], found["margin"]) == (None, None, 5, 0.07)
    assert found["retained"] is None  # all members are among the records that were to be forgotten
    with pytest.raises(InputError, match=r"^plan: it has no table \[forget\]$"):
        plan.resolve_forget(checked.model_copy(update={"forget": None}), resolved, folder)
    for change, message in (
        ({"after": "own_code:nothing"}, "^forget.after: "), ({"records": "none.csv"}, "^forget.records: no such file"),
        ({"retrained": ["own_code:nothing"]}, "^forget.retrained: "),
    ):  # fmt: skip
        broken = Plan.check(
            **checked.model_dump(exclude_unset=True, exclude={"forget"}), forget=keys["forget"] | change
        )
        with pytest.raises(InputError, match=message):
            plan.resolve_forget(broken, resolved, folder)
    trained = replace(resolved, options=resolved.options.model_copy(update={"references": "trainer"}))
    with_references = plan.resolve_forget(checked, trained, folder)
    assert with_references["references"] == "trainer"
    assert with_references["population"] is resolved.subject.population


@pytest.mark.parametrize("name", ["members", "nonmembers", "population"])
def test_a_text_among_numbers_that_the_model_cannot_read_is_named_with_file_and_column(folder, name):
    (folder / "sub" / "fitted.py").write_text(
        "import numpy as np\nfrom sklearn.naive_bayes import GaussianNB\n"
        "model = GaussianNB().fit(np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3)\n"
    )
    file = folder / "sub" / f"{name}.csv"
    file.write_text(file.read_text().replace(f"{name}3,", f"{name}3,old"))
    with pytest.raises(InputError, match=rf"data.{name}: {name}.csv: .*column 'a' .*'old"):
        resolve(folder, target={"model": "fitted:model"})


def fitted_on_an_array(folder, model):
    (folder / "sub" / "fitted.py").write_text(
        f"import numpy as np\nfrom sklearn.{model.rpartition('.')[0]} import {model.rpartition('.')[2]} as Model\n"
        "model = Model().fit(np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3)\n"
    )


def empty_a_value(folder, name):
    frame = pl.read_csv(folder / "sub" / f"{name}.csv")
    frame.with_columns(pl.when(pl.col("id") != f"{name}3").then("a")).write_csv(folder / "sub" / f"{name}.csv")


@pytest.mark.parametrize("name", ["members", "nonmembers", "population"])
def test_an_empty_value_that_the_model_refuses_is_named_with_file_row_and_column(folder, name):
    fitted_on_an_array(folder, "naive_bayes.GaussianNB")
    empty_a_value(folder, name)
    with pytest.raises(
        InputError, match=rf"^data.{name}: {name}.csv: row 4 .*is empty in 'a'.*fill it in or leave"
    ) as raised:
        resolve(folder, target={"model": "fitted:model"})
    assert "frames" not in str(raised.value)


def test_a_model_that_takes_empty_values_is_given_an_array_as_it_was_fitted(folder):
    """Scikit-learn would warn of a frame, which a test takes for an error."""
    fitted_on_an_array(folder, "ensemble.HistGradientBoostingClassifier")
    empty_a_value(folder, "members")
    resolved = resolve(folder, target={"model": "fitted:model"})
    records = resolved.subject.members
    inputs = resolved.target.model_inputs(records)
    assert isinstance(inputs, np.ndarray)
    np.testing.assert_array_equal(
        np.isnan(inputs), records.table.to_polars().with_columns(pl.all().is_null()).to_numpy()
    )
    assert np.isnan(inputs).sum() == 1
    assert np.isfinite(resolved.target.logits(records)).all()
