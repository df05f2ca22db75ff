"""Files of records: what is wrong is said in words that name the setting which mends it."""

import gzip
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import datafiles, plan
from divulge.datafiles import FileLayout, read_labels, read_records, require_labels
from divulge.identification import score_tables

X, Y = np.array([[0.5, 2.0], [1.5, 4.0], [2.5, 6.0]]), np.array([0, 1, 0])


@pytest.mark.parametrize("spelling", ["csv", "parquet", "npz", "jsonl", "ndjson", "semicolons", "odd name"])
def test_every_kind_gives_the_same_records(tmp_path, spelling):
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "class": Y, "key": ["p", "q", "r"], "sex": ["f", "m", "f"]})
    layout = FileLayout(label="class", id="key", group="sex", separator=";" if spelling == "semicolons" else ",")
    path = tmp_path / {"odd name": "data[1]*.parquet", "semicolons": "data.csv"}.get(spelling, f"data.{spelling}")
    if spelling == "npz":
        np.savez(path, x=X, y=Y, ids=["p", "q", "r"], sex=["f", "m", "f"], columns=["a", "b"])
    elif path.suffix == ".csv":
        frame.write_csv(path, separator=layout.separator)
    elif path.suffix in (".jsonl", ".ndjson"):
        frame.write_ndjson(path)
    else:
        frame.write_parquet(path)
    records = read_records(path, layout)
    np.testing.assert_array_equal(records.records.x, X)
    assert records.records.y.tolist() == Y.tolist()
    assert list(records.records.ids) == ["p", "q", "r"]
    assert list(records.group) == ["f", "m", "f"]
    assert records.columns == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,label\n", r"a header \(a, b, label\) and no rows"),
        ("a,label\n1,yes\n2,\n", r"'label': 1 records have no class"),
        ("a,label\n1,0.5\n", r"y: whole-number labels are needed, or names of classes, got float"),
        ("a,label\ninf,0\n1,1\n", r"column 'a': infinite values: 1"),
        ("a,label\n1,\n2,1\n", r"y: records without class or value: 1"),
        (
            "key,label\n9007199254740993,0\n9007199254740992,1\n",
            r"'key' holds whole numbers beyond .* name it as data\.id",
        ),
        ("label\n0\n1\n", r"no column is left"),
        ("", r"there is no header"),
    ],
)
def test_tables_say_what_is_wrong_and_what_to_set(tmp_path, text, message):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(dv.InputError, match=message) as caught:
        read_records(path, FileLayout())
    assert str(path) in str(caught.value)


def written(tmp_path, **data):
    """A plan whose three files are alike."""
    text = "a,b,class\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(40))
    (tmp_path / "data.csv").write_text(text)
    files = "".join(f'{key} = "data.csv"\n' for key in ("members", "nonmembers", "population"))
    extra_keys = "".join(f"{key} = {value!r}\n" for key, value in data.items())
    path = tmp_path / "plan.toml"
    path.write_text(f'recipes = ["loss"]\n[target]\nmodel = "m.onnx"\n[data]\n{files}{extra_keys}')
    return path


def test_a_label_column_by_another_name_is_asked_for(tmp_path):
    path = written(tmp_path)
    with pytest.raises(
        dv.InputError, match=r"data\.members: there are no labels \(no column 'label' among a, b, class\)"
    ):
        plan.resolve(plan.read(path), tmp_path)
    path = written(tmp_path, label="class")
    with pytest.raises(dv.InputError, match=r"target\.model: no such file"):  # the labels were found
        plan.resolve(plan.read(path), tmp_path)
    path = written(tmp_path, label="clas")
    with pytest.raises(dv.InputError, match=r"data\.label: 'clas' is unknown; did you mean 'class'"):
        plan.resolve(plan.read(path), tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seed = true", "seed: "),
        ('seed = "1"', "seed: "),
        ("seed = -1", "seed: "),
        ("fpr = [0.0]", r"fpr: "),
        ("fpr = [nan]", r"fpr: "),
        ('fpr = ["0.1"]', r"fpr: "),
        ("fpr = 0.1", "fpr: "),
        ("recipes = []", "recipes: "),
        ("calibration = inf", "calibration: "),
        ("seeds = 1", "did you mean 'seed'"),
    ],
)
def test_settings_of_another_type_are_refused(tmp_path, line, message):
    path = written(tmp_path)
    path.write_text(
        f"{line}\n"
        + path.read_text().replace('recipes = ["loss"]\n', "" if "recipes" in line else 'recipes = ["loss"]\n')
    )
    with pytest.raises(dv.InputError, match=f"plan: .*{message}"):
        plan.read(path)


DOCUMENTS = ["one, two", 'say "yes"\nand no', "ünïcödé ☃ \0 end\0", "3"]
TEXTS = FileLayout(text="body", label="class", id="key", group="who")


def write(path, frame):
    if path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_ndjson(path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "ndjson"])
def test_documents_come_from_the_column_that_is_named(tmp_path, ending):
    path = tmp_path / f"data.{ending}"
    frame = pl.DataFrame(
        {
            "date": ["x", "y", "z", ""],
            "class": [0, 1, 1, 0],
            "body": DOCUMENTS,
            "key": [7, 8, 9, 5],
            "who": list("aabb"),
        }
    )
    write(path, frame)
    records = read_records(path, TEXTS)
    assert records.records.x.dtype == object
    assert records.records.x.tolist() == DOCUMENTS
    assert records.records.y.tolist() == [0, 1, 1, 0]
    assert records.records.ids.tolist() == ["7", "8", "9", "5"]
    assert list(records.group) == list("aabb")
    write(path, frame.select("body"))
    records = read_records(path, FileLayout(text="body"))
    assert records.records.y is None
    assert records.records.ids is None
    with pytest.raises(dv.InputError, match=r"data\.text: 'bodi' is unknown; did you mean 'body'"):
        read_records(path, FileLayout(text="bodi"))
    write(path, frame.rename({"class": "klass"}))
    with pytest.raises(dv.InputError, match=r"data\.label: 'class' is unknown; did you mean 'klass'"):
        read_records(path, FileLayout(text="body", label="class", user_set=frozenset({"label"})))


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_records_without_a_text_are_named(tmp_path, ending):
    path = tmp_path / f"data.{ending}"
    write(path, pl.DataFrame({"body": ["a", "", "b", " \n", None], "class": [0, 1, 0, 1, 0]}))
    place = "line 2" if ending == "jsonl" else r"row 2 \(the header not counted\)"
    with pytest.raises(dv.InputError, match=f"3 records have no text \\(first: {place}\\)"):
        read_records(path, TEXTS)


def test_a_damaged_file_of_documents_is_named_without_them(tmp_path):
    path = tmp_path / "data.csv"
    for damaged in ('body,class\n"private letter,1\nprivate,2\n', "body,class\na,1\nprivate letter, private,2\n"):
        path.write_text(damaged)
        with pytest.raises(dv.InputError, match=r"(not closed|3 values, 2 are needed)") as refused:
            read_records(path, TEXTS)
        assert "private" not in str(refused.value)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_row_is_one_document_whatever_it_holds(tmp_path, ending):
    path = tmp_path / f"data.{ending}"
    write(path, pl.DataFrame({"body": ["one\x1edocument", "two"], "class": [0, 1]}))
    assert read_records(path, TEXTS).records.x.tolist() == ["one document", "two"]


def test_texts_of_another_kind_are_refused(tmp_path):
    pl.DataFrame({"body": [1.5]}).write_parquet(tmp_path / "data.parquet")
    with pytest.raises(dv.InputError, match=r"data\.text: 'body' holds no texts \(number\)"):
        read_records(tmp_path / "data.parquet", TEXTS)
    pl.DataFrame({"body": ["a", "b"]}).with_columns(pl.col("body").cast(pl.Categorical)).write_parquet(
        tmp_path / "data.parquet"
    )
    assert read_records(tmp_path / "data.parquet", TEXTS).records.x.tolist() == ["a", "b"]
    np.savez(tmp_path / "data.npz", x=X)
    with pytest.raises(dv.InputError, match=r"file type of texts: '\.npz' is unknown"):
        read_records(tmp_path / "data.npz", TEXTS)
    with pytest.raises(dv.InputError, match=r"data\.scale: texts have no scale"):
        read_records(tmp_path / "data.parquet", FileLayout(text="body", scale=2.0))
    (tmp_path / "data.csv").write_text("body,class\n")
    with pytest.raises(dv.InputError, match="and no rows"):
        read_records(tmp_path / "data.csv", TEXTS)
    pl.DataFrame({"words": ["a"], "label": [1]}).write_csv(tmp_path / "data.csv")
    assert read_records(tmp_path / "data.csv", FileLayout()).records.table.columns == [
        "words"
    ]  # a column like any other


GOOD = {"body": "a text", "class": 1}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"{"], "line 3 is no JSON"),
        ([b"\xff\xfe"], "line 3 is no JSON"),
        ([b"[" * 100_000], "line 3 is no JSON"),
        ([b"9" * 5000], "line 3 is no JSON"),
        ([b'"a"'], "line 3: an object is needed, got 'a'"),
        ([b"null"], "line 3: an object is needed"),
        ([{"class": 1}], r"1 records have no text \(first: line 3\)"),
        ([GOOD | {"body": 3}], "line 3: body: a text is needed, got 3"),
        ([GOOD | {"body": ["private"]}], "line 3: body: a text is needed, got a list$"),
        ([GOOD | {"class": "a private letter"}], "line 3: class: a number is needed, got a text of 16 characters$"),
        ([b'"a private letter"'], "line 3: an object is needed, got a text of 16 characters$"),
        ([GOOD | {"body": "\ud800"}], "line 3: body: half of a surrogate pair"),
        ([GOOD | {"body": None}], r"1 records have no text \(first: line 3\)"),
        ([GOOD | {"class": "1"}], "line 3: class: a number is needed, got '1'"),
        ([GOOD | {"class": True}], "line 3: class: a number is needed, got True"),
        ([GOOD | {"class": 2**70}], "class: cannot be read as a column"),
        ([GOOD | {"class": 0.5}], "'class': whole-number labels are needed"),
        ([GOOD | {"class": None}], "'class': 1 values are NaN"),
        ([b'{"body": "a", "class": NaN}'], "'class': 1 values are NaN"),
        ([b'{"body": "a", "class": -1}'], "labels must be"),
    ],
)
def test_broken_lines_are_named(tmp_path, lines, message):
    path = tmp_path / "data.jsonl"
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in [GOOD, b"", *lines, GOOD]]
    path.write_bytes(b"\n".join(encoded))
    with pytest.raises(dv.InputError, match=message) as caught:
        read_records(path, replace(TEXTS, user_set=frozenset({"label"})))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("label", ["a source", 0.5, -1])
def test_labels_that_no_language_model_needs_are_read_by_whoever_asks(tmp_path, label):
    pl.DataFrame({"text": ["one", "two"], "label": [label] * 2}).write_parquet(tmp_path / "data.parquet")
    file = read_records(tmp_path / "data.parquet", FileLayout(text="text"))
    assert file.records.y is None
    with pytest.raises(dv.InputError, match=r"data\.members: .*'label'"):
        require_labels({"members": file}, FileLayout(text="text"))


def test_lines_without_any_object_and_marks_of_byte_order(tmp_path):
    path = tmp_path / "data.jsonl"
    for content in (b"", b"\n\n"):
        path.write_bytes(content)
        with pytest.raises(dv.InputError, match="no line with an object"):
            read_records(path, TEXTS)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n")
    assert read_records(path, TEXTS).records.x.tolist() == ["a text"]


def test_lists_of_texts_keep_every_character():
    assert dv.Records(["a\0", "b" * 1000]).x.tolist() == ["a\0", "b" * 1000]


def test_a_plan_names_the_column_of_texts(tmp_path):
    path = written(tmp_path, text="body")
    pl.DataFrame({"body": [f"text {i}" for i in range(40)]}).write_csv(tmp_path / "data.csv")
    (tmp_path / "classifying.py").write_text("def predict(x):\n    return [[0.0, 1.0]] * len(x)\n")
    path.write_text(path.read_text().replace("m.onnx", "classifying:predict"))
    message = re.escape("data.members: there are no labels (no column 'label' among body)")
    with pytest.raises(dv.InputError, match=message):
        plan.resolve(plan.read(path), tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('make_model = "a:b"\nbase = "c"', "one of make_model, train and base may be given, got make_model and base"),
        ('make_model = "a:b"\ncount = 1', "references.count: must be at least 2"),
        ('make_model = "a:b"\n[references.lora]\nrank = 2', "lora goes with base"),
        ('base = "b"\n[references.lora]\nranks = 2', r"references\.lora\.ranks.*did you mean 'rank'"),
        ('base = "b"\n[references.lora]\nrank = 0', r"references\.lora\.rank: "),
    ],
)
def test_references_are_trained_or_fine_tuned(tmp_path, lines, message):
    path = written(tmp_path)
    path.write_text(f"{path.read_text()}\n[references]\n{lines}\n")
    with pytest.raises(dv.InputError, match=message):
        plan.read(path)


def test_a_base_is_fine_tuned_as_the_plan_says(tmp_path):
    (tmp_path / "base").mkdir()
    path = written(tmp_path)
    path.write_text(
        f'{path.read_text()}\n[references]\nbase = "base"\ncount = 3\nlr = 1e-3\n[references.lora]\nrank = 2\n'
    )
    references = plan._make_references(plan.read(path).references, "cpu", tmp_path)
    assert (references.base, references.count, references.epochs, references.lr) == (str(tmp_path / "base"), 3, 3, 1e-3)
    assert (references.lora.rank, references.lora.alpha) == (2, 16.0)
    for base, message in (("absent", r"references\.base: no such folder"), ("a" * 999, r"references\.base: the name")):
        path.write_text(path.read_text().replace('base = "base"', f'base = "{base}"').replace('"absent"', f'"{base}"'))
        with pytest.raises(dv.InputError, match=message):
            plan._make_references(plan.read(path).references, "cpu", tmp_path)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_the_header_tells_the_separator_unless_the_user_set_one(tmp_path, sign):
    path = tmp_path / "data.csv"
    path.write_text(f"a{sign}b{sign}label\n1{sign}2{sign}0\n")
    assert read_records(path, FileLayout()).records.x.tolist() == [[1, 2]]
    texts = FileLayout(text="a")
    assert read_records(path, texts).records.x.tolist() == ["1"]
    with pytest.raises(dv.InputError, match=r"one column only.*set data\.separator"):
        read_records(path, FileLayout(user_set=frozenset({"separator"})))


def test_classes_with_names_are_numbered_in_the_order_of_the_models_outputs(tmp_path):
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "label": ["yes", "no", "yes"]})
    layout = FileLayout(classes=("yes", "no", "never"))
    frame.write_csv(tmp_path / "a.csv")
    frame.cast({"label": pl.Categorical}).write_parquet(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", x=frame["a"].to_numpy()[:, None], y=["yes", "no", "yes"])
    for name in ("a.csv", "a.parquet", "a.npz"):
        assert read_records(tmp_path / name, layout).records.y.tolist() == [0, 1, 0]
        with pytest.raises(dv.InputError, match=r"class_names: a class in y: 'no' is unknown"):
            read_records(tmp_path / name, FileLayout(classes=("yes", "never")))
    np.savez(tmp_path / "b.npz", x=X, y=Y)
    with pytest.raises(dv.InputError, match=r"are numbers, which need no names"):
        read_records(tmp_path / "b.npz", layout)


def test_columns_name_the_values_of_a_record_and_leave_out_the_others(tmp_path):
    frame = pl.DataFrame({"note": ["p", "q"], "b": [1, 2], "a": [0.5, 1.5], "label": [0, 1]})
    frame.write_parquet(tmp_path / "a.parquet")
    read_ = read_records(tmp_path / "a.parquet", FileLayout(columns=("a", "b")))
    assert read_.records.x.tolist() == [[0.5, 1], [1.5, 2]]
    assert read_.columns == ("a", "b")
    for columns, message in ((("c",), "'c' is unknown"), (("label",), "is the label, the id or the group")):
        with pytest.raises(dv.InputError, match=message):
            read_records(tmp_path / "a.parquet", FileLayout(columns=columns))


def test_a_column_that_may_hold_the_classes_is_suggested(tmp_path):
    pl.DataFrame({"a": [0.5, 1.5], "Target": [0, 1]}).write_csv(tmp_path / "a.csv")
    layout = FileLayout()
    with pytest.raises(dv.InputError, match=r"set data\.label to the column that holds them; 'Target' may be it"):
        require_labels({"members": read_records(tmp_path / "a.csv", layout)}, layout)


def saved(folder, frame, names=("data-00000-of-00001.arrow",)):
    """As `datasets` saves a data set."""
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    for name in names:
        frame.write_ipc_stream(folder / name.rpartition("/")[2])
    return folder


def test_a_data_set_saved_by_datasets_is_read_like_a_table(tmp_path):
    frame = pl.DataFrame({"text": ["one", "two"], "a": [1.0, 2.0], "label": [0, 1]})
    folder = saved(tmp_path / "all" / "train", frame, ("data-0.arrow", "data-1.arrow"))
    assert read_records(folder, FileLayout(text="text")).records.x.tolist() == ["one", "two"] * 2
    assert read_records(folder, FileLayout(columns=("a",))).records.y.tolist() == [0, 1, 0, 1]
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(dv.InputError, match="several data sets; name one of its folders: train"):
        read_records(tmp_path / "all", FileLayout())
    (folder / "data-1.arrow").write_bytes(b"damaged")
    with pytest.raises(dv.InputError, match=r"data-1\.arrow"):
        read_records(folder, FileLayout())
    for name in ("../train/data-0.arrow", "/etc/passwd"):
        with pytest.raises(dv.InputError, match="a file of the folder itself is needed"):
            read_records(saved(tmp_path / name.replace("/", "_"), frame, (name,)), FileLayout())


def test_lists_and_images_in_a_table_are_asked_for_as_arrays(tmp_path):
    for number, cell in enumerate(([1.0, 2.0], {"bytes": b"png", "path": None})):
        folder = saved(tmp_path / str(number), pl.DataFrame({"image": [cell, cell], "label": [0, 1]}))
        with pytest.raises(dv.InputError, match=r"the columns image hold lists or images, .* array x of an \.npz"):
            read_records(folder, FileLayout())


def test_a_data_set_saved_by_datasets_is_a_table_to_score_and_to_identify(tmp_path):
    frame = pl.DataFrame({"text": ["one", "two", "three"], "loss": [1.0, None, 3.0]})
    folder = saved(tmp_path / "all" / "train", frame, ("data-0.arrow", "data-1.arrow"))
    frame.write_ipc_stream(folder / "cache-1.arrow")  # what `datasets` computed from it later
    table = score_tables.scan_scores([folder], "candidates")
    pieces = list(table.batches({"loss": "number", "text": "text"}, 2))
    assert all(len(piece) <= 2 for piece in pieces)
    assert [text for piece in pieces for text in piece["text"]] == ["one", "two", "three"] * 2
    assert pieces[0]["loss"].to_list() == [1.0, None]
    (tmp_path / "all" / "dataset_dict.json").write_text("{}")
    with pytest.raises(dv.InputError, match="several data sets; name one of its folders: train"):
        score_tables.scan_scores([tmp_path / "all"], "candidates")
    (folder / "data-1.arrow").write_bytes(b"damaged")
    with pytest.raises(dv.InputError, match=r"candidates: .*data-1\.arrow"):
        score_tables.scan_scores([folder], "candidates")


def painted(folder, mode, size=(4, 3), start=0):
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for shade in (0, 255):
        Image.new(mode, size, shade if mode == "L" else (shade, 0, 51)).save(folder / f"{start + shade}.png")


def test_a_folder_of_images_has_a_class_for_each_folder(tmp_path):
    painted(tmp_path / "dog", "L")
    painted(tmp_path / "cat", "L")
    records = read_records(tmp_path, FileLayout()).records
    assert records.x.shape == (4, 1, 3, 4)
    assert records.y.tolist() == [0, 0, 1, 1]
    assert records.x[:, 0, 0, 0].tolist() == [0, 1, 0, 1]
    assert records.ids.tolist()[:2] == ["cat/0.png", "cat/255.png"]
    assert read_records(tmp_path, FileLayout(classes=("dog", "cat", "cow"))).records.y.tolist() == [1, 1, 0, 0]
    with pytest.raises(dv.InputError, match="'dog' is unknown"):
        read_records(tmp_path, FileLayout(classes=("cat", "cow")))
    painted(tmp_path / "dog", "RGB", start=1)
    records = read_records(tmp_path, FileLayout()).records
    assert records.x.shape == (6, 3, 3, 4)
    np.testing.assert_allclose(records.x[-1, :, 0, 0], [1, 0, 0.2])
    painted(tmp_path / "dog", "L", size=(5, 3), start=1)
    with pytest.raises(dv.InputError, match=r"dog.*pixels where"):
        read_records(tmp_path, FileLayout())
    (tmp_path / "dog" / "1.png").write_bytes(b"no image")
    with pytest.raises(dv.InputError, match=r"1\.png: no image"):
        read_records(tmp_path, FileLayout())
    with pytest.raises(dv.InputError, match="is no folder of images"):
        read_records(tmp_path / "cat", FileLayout())


def test_what_a_system_leaves_in_folders_of_images_is_no_image_and_no_class(tmp_path):
    painted(tmp_path / "cat", "L")
    painted(tmp_path / "dog" / "more", "L")
    for stray in (".DS_Store", "cat/Thumbs.db", "cat/._0.png", "__MACOSX/cat/._0.png", "notes.txt"):
        (tmp_path / stray).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / stray).write_bytes(b"no image")
    file = read_records(tmp_path, FileLayout())
    assert file.folders == ("cat", "dog")
    assert file.records.y.tolist() == [0, 0, 1, 1]
    from PIL import Image

    Image.fromarray(np.full((3, 4), 60_000, np.uint16)).save(tmp_path / "cat" / "0.png")
    with pytest.raises(dv.InputError, match=r"0\.png: pixels of 8 bits are needed, and its mode is 'I;16'"):
        read_records(tmp_path, FileLayout())


def test_folders_of_images_may_share_names_of_files_but_must_share_their_classes(tmp_path):
    for name in ("members", "nonmembers", "population"):
        painted(tmp_path / name / "cat", "L")
        painted(tmp_path / name / "dog", "L")
    (tmp_path / "images_model.py").write_text("def scores(x):\n    return x.reshape(len(x), -1)[:, :2]\n")
    text = """recipes = ["loss"]
[target]
model = "images_model:scores"
[data]
members = "members/"
nonmembers = "nonmembers"
population = "population"
"""
    (tmp_path / "plan.toml").write_text(text)
    ready = plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)
    assert ready.subject.members.ids.tolist()[0] == "members/cat/0.png"
    assert ready.subject.nonmembers.ids.tolist()[-1] == "nonmembers/dog/255.png"
    shutil.rmtree(tmp_path / "population" / "cat")  # 'dog' would be class 0 there
    with pytest.raises(dv.InputError, match=r"data\.population: the folders of the classes differ .* in cat; set data"):
        plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)
    (tmp_path / "plan.toml").write_text(text + 'classes = ["cat", "dog"]\n')
    assert plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path).subject.population.y.tolist() == [1, 1]


def test_a_torch_data_set_becomes_records():
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([1, 0, 1]))
    records = dv.from_pairs(dataset)
    assert records.x.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert records.y.tolist() == [1, 0, 1]
    assert dv.from_pairs([("one", 0), ("two", 1)]).x.dtype == object
    for wrong, message in (
        ([(1, 2, 3)], "pairs"),
        ([([1.0], 0), ([1.0, 2.0], 0)], "one shape"),
        (7, "dataset: an object"),
        (torch.utils.data.DataLoader(dataset), r"a loader of batches; pass its \.dataset"),
        ([], "dataset: its length"),
    ):
        with pytest.raises(dv.InputError, match=message):
            dv.from_pairs(wrong)


@pytest.mark.parametrize(("text", "expected"), [("0\n1\n", [0, 1]), ("label\n0\n1\n", [0, 1]), ('"y"\n1\n', [1])])
def test_labels_stand_one_a_line_under_a_header_or_not(tmp_path, text, expected):
    (tmp_path / "y.csv").write_text(text)
    assert read_labels(tmp_path / "y.csv").tolist() == expected


@pytest.mark.parametrize("text", ["nan\n1\n", "1.5\n1\n", "label\nx\n"])
def test_labels_that_are_no_numbers_are_refused(tmp_path, text):
    (tmp_path / "y.csv").write_text(text)
    with pytest.raises(dv.InputError, match="one whole number per line"):
        read_labels(tmp_path / "y.csv")


def test_rows_of_an_archive_come_with_what_it_says_of_them_and_defaults_for_the_rest(tmp_path):
    np.savez(tmp_path / "all.npz", x=X, y=Y, ids=["p", "q", "r"], member=np.array([True, False, True]))
    np.savez(tmp_path / "bare.npz", x=X)
    every, bare = datafiles.read_named_rows(tmp_path / "all.npz"), datafiles.read_named_rows(tmp_path / "bare.npz")
    assert list(every.ids) == ["p", "q", "r"]
    assert every.member.tolist() == [True, False, True]
    assert every.y.tolist() == Y.tolist()
    assert bare.ids.tolist() == [0, 1, 2]
    assert bare.member is None
    assert bare.y is None
    np.testing.assert_array_equal(every.x, X)
    np.savez(tmp_path / "short.npz", x=X, member=np.array([True, False]))
    with pytest.raises(dv.InputError, match="member"):
        datafiles.read_named_rows(tmp_path / "short.npz")


@pytest.mark.parametrize("names", [["a", "b", "a"], ["a", "a", "a"]])
def test_a_name_may_be_given_once_and_the_message_shows_which_was_given_twice(tmp_path, names):
    files = "".join(f'{name} = "x.csv"\n' for name in ("members", "nonmembers", "population"))
    (tmp_path / "plan.toml").write_text(f'[target]\nmodel = "m.skops"\n[data]\n{files}columns = {names}\n')
    with pytest.raises(dv.InputError, match=r"data\.columns: each may be named once, got 'a' more than once"):
        plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)


def test_tables_keep_names_types_and_missing_values(tmp_path):
    (tmp_path / "a.csv").write_text("age,sex,outcome,id\n48,f,ill,007\n,m,well,1e5\n31,,ill,008\n")
    records = read_records(tmp_path / "a.csv", FileLayout(label="outcome"))
    assert records.columns == ("age", "sex")
    assert records.records.table["age"].to_list() == [48, None, 31]
    assert records.records.table["sex"].to_list() == ["f", "m", None]
    assert records.records.ids.tolist() == ["007", "1e5", "008"]
    assert records.records.class_names == ("ill", "well")
    with pytest.raises(dv.InputError, match=r"data\.scale: 0\.5 is a factor on numbers, and the columns sex"):
        read_records(tmp_path / "a.csv", FileLayout(label="outcome", scale=0.5))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("y.csv", b"id;Label\n007;1\n008;0\n"),
        ("y.csv.gz", gzip.compress(b"label\ntrue\nfalse\n", mtime=0)),
        ("y.tsv", "y\n1\n0\n".encode("utf-16")),
        ("y.jsonl", b'{"id": "a", "label": 1}\n{"id": "b", "label": 0}\n'),
        ("y.csv", b"Outcome\r\n1\r\n0\r\n"),
        ("y.csv", b"1\r\n0\r\n"),
    ],
)
def test_labels_are_read_from_any_table(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_labels(tmp_path / name).tolist() == [1, 0]


def test_the_column_of_labels_is_named_or_the_only_one_that_may_be_it(tmp_path):
    path = tmp_path / "y.csv"
    path.write_text("a,b\n1,0\n")
    assert read_labels(path, "b").tolist() == [0]
    with pytest.raises(dv.InputError, match=r"one column is needed, got a, b; --label names it"):
        read_labels(path)
    with pytest.raises(dv.InputError, match=r"--label.*'c'"):
        read_labels(path, "c")
    path.write_text("label\n1\n\n0\n")
    with pytest.raises(dv.InputError, match="the column 'label' holds others"):
        read_labels(path)


def write_named_rows(frame, path):
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == "":
        path.mkdir()
        frame[:2].write_ndjson(path / "0.jsonl")
        frame[2:].write_csv(path / "1.csv", separator=";")
    else:
        frame.write_csv(path)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows"])
def test_named_rows_are_read_from_any_table(tmp_path, name):
    frame = pl.DataFrame(
        {"id": ["007", "1e5", "c"], "b": [1.5, 2, 3], "a": [4, 5, 6], "label": [1, 0, 1], "member": [True, False, True]}
    )
    write_named_rows(frame, tmp_path / name)
    rows = datafiles.read_named_rows(tmp_path / name)
    assert rows.ids.tolist() == ["007", "1e5", "c"]
    assert rows.columns == ("b", "a")
    assert rows.x.tolist() == [[1.5, 4], [2, 5], [3, 6]]
    assert rows.y.tolist() == [1, 0, 1]
    assert rows.member.tolist() == [True, False, True]
    assert datafiles.read_named_rows(tmp_path / name, order=("a", "b")).x.tolist() == [[4, 1.5], [5, 2], [6, 3]]
    with pytest.raises(dv.InputError, match=r"lacks c and has the further columns b .*; needed are a, c"):
        datafiles.read_named_rows(tmp_path / name, order=("a", "c"))


def test_named_rows_that_are_no_numbers_are_said(tmp_path):
    (tmp_path / "rows.csv").write_text("id,a,b\n1,2,x\n")
    with pytest.raises(dv.InputError, match="numbers are needed, and the columns b hold none"):
        datafiles.read_named_rows(tmp_path / "rows.csv")
    layout = FileLayout(drop=("b",))
    assert datafiles.read_named_rows(tmp_path / "rows.csv", layout).x.tolist() == [[2]]
    (tmp_path / "rows.csv").write_text("a,member\n1,2\n")
    with pytest.raises(dv.InputError, match="member: bool values are needed"):
        datafiles.read_named_rows(tmp_path / "rows.csv")


def test_a_folder_of_images_is_held_against_the_memory_of_all_in_three_colours(tmp_path, monkeypatch):
    """Four bytes a number, before any image but the first is read, although grey ones need less."""
    image = pytest.importorskip("PIL.Image")
    for i, mode in enumerate(("L", "L", "RGB", "1")):
        (tmp_path / f"c{i % 2}").mkdir(exist_ok=True)
        image.new(mode, (5, 3), 1).save(tmp_path / f"c{i % 2}" / f"{i}.png")
    asked = []
    monkeypatch.setattr(datafiles, "check_memory", lambda size, name, _: asked.append((size, name)))
    read = read_records(tmp_path, FileLayout())
    assert asked == [(4 * 4 * 3 * 3 * 5, str(tmp_path))]
    assert read.records.x.shape == (4, 3, 3, 5)
    (tmp_path / "c0" / "2.png").unlink()
    read = read_records(tmp_path, FileLayout())
    assert asked[1:] == [(3 * 4 * 3 * 3 * 5, str(tmp_path))]
    assert read.records.x.shape == (3, 1, 3, 5)


def test_documents_are_no_persons(tmp_path):
    (tmp_path / "m.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(dv.InputError, match=r"data.person: 'text' is the column of the documents"):
        datafiles.read_records(tmp_path / "m.jsonl", datafiles.FileLayout(text="text", person="text"))
