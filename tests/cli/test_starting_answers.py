"""The questions of `divulge init`, and which columns a table shows by itself."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

from divulge import InputError, plan, settings


@pytest.mark.parametrize(("records", "usual"), [("images", "16"), ("table", "0"), ("text", "4")])
def test_each_question_is_a_sentence_without_its_stop_and_names_its_choices(records, usual, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {}

    def ask(question, suggested):
        asked[question] = suggested
        return {"What a record is (images, table, text)": records, "The model": "m.pt"}.get(
            question.split(":")[0], suggested
        )

    answers = plan.complete_answers({}, ask)
    assert list(asked) == [
        "What a record is (images, table, text)",
        "The model: a file (.safetensors, .onnx, .skops), a Hugging Face folder, or module:name",
        "Do you know which records it was trained on? If not, the plan is for divulge identify (yes, no)",
        "File of records that the model was trained on",
        "File of records of the same kind that it was not trained on",
        "File of further records that it was not trained on",
        "Column of the classes (of documents: of the text)",
        "Reference models to train; with 0 of them there are only weaker attacks",
    ]
    assert asked["What a record is (images, table, text)"] == "images"
    assert list(asked.values())[-1] == usual
    assert answers.references == int(usual)
    assert answers.task == "auto"


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


@pytest.mark.parametrize(("count", "records", "fits"), [(0, "table", True), (1, "table", False), (2, "table", True),
                                                        (1, "text", True), (1, "images", False)])  # fmt: skip
def test_one_reference_model_is_enough_for_texts_alone(count, records, fits):
    given = {"records": records, "references": count, "model": "m.skops"}
    if fits:
        assert plan.complete_answers(given, None).references == count
    else:
        with pytest.raises(InputError, match="references: 0 or at least 2 are needed, got 1"):
            plan.complete_answers(given, None)


def test_a_table_is_suggested_for_an_estimator():
    assert plan.complete_answers({"model": "m.skops"}, None).records == "table"
    assert plan.complete_answers({"model": "m.skops"}, None).references == 8
    assert plan.complete_answers({"model": "m.onnx"}, None).records == "images"
    assert plan.complete_answers({"model": "m.onnx", "records": "table"}, None).references == 0


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


def test_answers_that_nobody_gave_are_images_without_reference_models():
    answers = settings.InitSettings.check()
    assert (answers.records, answers.references, answers.task) == ("images", 0, "auto")
    assert {getattr(answers, name) for name in ("model", "members", "nonmembers", "population", "label")} == {""}
    assert settings.InitSettings.check(references=0).references == 0
    with pytest.raises(InputError, match="references"):
        settings.InitSettings.check(references=-1)


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
