"""The questions of `divulge init`, and which columns a table shows by itself."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

from divulge import InputError, plan


def test_candidates_are_asked_for_in_place_of_members_where_membership_is_unknown(tmp_path):
    answers = plan.complete_answers({}, lambda question, suggested: "no" if "Do you know" in question else suggested)
    assert answers.files == ("candidates", "population")
    assert answers.candidates
    text = plan.write_starting_plan(tmp_path, answers)[0].read_text()
    assert "candidates = " in text
    assert "members = " not in text
    assert "[identify]" in text
    assert plan.complete_answers({"candidates": "c.csv"}, None).known == "no"
    with pytest.raises(InputError, match="members"):
        plan.complete_answers({"candidates": "c.csv", "members": "m.csv"}, None)


FRAME = pl.DataFrame({"a": ["x", "y", "x"], "y": ["u", "v", "w"], "b": ["x", "x", "x"], "Label": ["x", "y", "y"]})


@pytest.mark.parametrize(
    ("columns", "classes", "expected"),
    [
        (["a", "b"], (), ""),
        (["a", "y", "Label"], (), "y"),  # of two usual names the first
        (["a", "b"], ("x", "y"), ""),  # both could be
        (["a", "y"], ("x", "y"), "a"),  # the only one that fits, whatever its name
        (["a", "y", "Label"], ("x", "y"), "Label"),  # of those that fit the one of the usual name
        (["y"], ("x", "y"), "y"),  # nothing fits
        (["b"], ("x", "y"), "b"),
        (["a"], ("x",), ""),
    ],
)
def test_the_column_of_the_classes_is_found_by_its_name_and_its_values(columns, classes, expected, tmp_path):
    FRAME.select(*columns, f=pl.Series([1, 1, 2])).write_csv(tmp_path / "members.csv")
    if classes:
        rows = pd.DataFrame({"f": range(len(classes))})
        skops.io.dump(DecisionTreeClassifier().fit(rows, list(classes)), tmp_path / "model.skops")
    assert plan.find_columns(str(tmp_path / "model.skops"), str(tmp_path / "members.csv")).label == expected


@pytest.mark.parametrize(
    ("name", "is_id"), [("id", True), ("ID", True), ("user_id", True), ("user-Id", True), ("user id", True),
                        ("paid", False), ("idx", False)]
)  # fmt: skip
def test_names_of_identifiers(name, is_id, tmp_path):
    pl.DataFrame({name: [7, 7], "n": [1, 1]}).write_csv(tmp_path / "members.csv")
    assert plan.find_columns("none", str(tmp_path / "members.csv")).id == (name if is_id else "")


def test_the_longest_texts_are_the_documents(tmp_path):
    path = tmp_path / "members.csv"
    pl.DataFrame({"short": ["a", "b"], "long": ["aaa", "bbb"], "n": [1, 2], "user_id": [7, 7]}).write_csv(path)
    found = plan.find_columns("none", str(path), is_text=True)
    assert (found.text, found.id, found.label, found.drop) == ("long", "user_id", "", ())
    assert plan.find_columns("none", str(path)).text == ""
    pl.DataFrame({"a": []}).write_csv(path)
    assert plan.find_columns("none", str(path)) == plan.TableColumns()


@pytest.mark.parametrize("names_recipes", [False, True])
def test_check_counts_clones_and_offers_the_online_form_where_recipes_are_the_usual(tmp_path, divulge, names_recipes):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(360, 3)), columns=list("abc"))
    frame["label"] = np.where(frame["a"] > 0, "high", "low")
    parts = {"members": frame[:120], "nonmembers": frame[120:240], "population": frame[240:]}
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    model = DecisionTreeClassifier(random_state=0).fit(parts["members"][list("abc")], parts["members"]["label"])
    skops.io.dump(model, tmp_path / "model.skops")
    data = "".join(f'{name} = "{name}.csv"\n' for name in parts) + 'label = "label"\n'
    head = "fpr = [0.1]\n" + 'recipes = ["loss"]\n' * names_recipes
    (tmp_path / "plan.toml").write_text(f'{head}[target]\nmodel = "model.skops"\n[data]\n{data}')
    code, out, err = divulge("check", tmp_path / "plan.toml")
    assert code == 0, err
    assert ("16 reference models" in out) == (not names_recipes)
    assert "of unknown length" not in out
    assert ("auto-online" in out + err) == (not names_recipes)
