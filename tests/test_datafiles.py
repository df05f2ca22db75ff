"""Files of records: what is wrong is said in words that name the setting which mends it."""

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import plan
from divulge.datafiles import FileLayout, read

X, Y = np.array([[0.5, 2.0], [1.5, 4.0], [2.5, 6.0]]), np.array([0, 1, 0])


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "semicolons", "odd name"])
def test_every_kind_gives_the_same_records(tmp_path, kind):
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "class": Y, "key": ["p", "q", "r"], "sex": ["f", "m", "f"]})
    layout = FileLayout(label="class", id="key", group="sex", separator=";" if kind == "semicolons" else ",")
    path = tmp_path / {"odd name": "data[1]*.parquet", "semicolons": "data.csv"}.get(kind, f"data.{kind}")
    if kind == "npz":
        np.savez(path, x=X, y=Y, ids=["p", "q", "r"], sex=["f", "m", "f"], columns=["a", "b"])
    elif path.suffix == ".csv":
        frame.write_csv(path, separator=layout.separator)
    else:
        frame.write_parquet(path)
    found = read(path, layout)
    np.testing.assert_array_equal(found.records.x, X)
    assert found.records.y.tolist() == Y.tolist()
    assert list(found.records.ids) == ["p", "q", "r"]
    assert list(found.group) == ["f", "m", "f"]
    assert found.columns == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,label\n", r"a header \(a, b, label\) and no rows"),
        ("a;b;label\n1;2;0\n", r"separated by semicolons; set data\.separator = ';'"),
        ("a\tb\tlabel\n1\t2\t0\n", r"separated by tabs; set data\.separator"),
        ("a,name,label\n1,x,0\n", r"the columns name are not numeric"),
        ("a,label\n1,yes\n", r"y: numbers are needed, got 'yes'"),
        ("a,label\n1,0.5\n", r"y: whole-number labels are needed, got dtype float64"),
        ("a,label\n,0\n1,1\n", r"x: 1 values are NaN"),
        ("a,label\n1,\n2,1\n", r"y: 1 values are NaN"),
        (
            "key,label\n9007199254740993,0\n9007199254740992,1\n",
            r"'key' holds whole numbers beyond .* name it as data\.id",
        ),
        ("label\n0\n1\n", r"no column is left"),
        ("", r"damaged or half-written"),
    ],
)
def test_tables_say_what_is_wrong_and_what_to_set(tmp_path, text, message):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(dv.InputError, match=message) as caught:
        read(path, FileLayout())
    assert str(path) in str(caught.value)


def written(tmp_path, **data):
    """A plan whose three files are alike."""
    text = "a,b,class\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(40))
    (tmp_path / "data.csv").write_text(text)
    files = "".join(f'{key} = "data.csv"\n' for key in ("members", "nonmembers", "population"))
    more = "".join(f"{key} = {value!r}\n" for key, value in data.items())
    path = tmp_path / "plan.toml"
    path.write_text(f'recipes = ["loss"]\n[target]\nmodel = "m.onnx"\n[data]\n{files}{more}')
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
        ("fpr = [0.0]", r"fpr\.0: "),
        ("fpr = [nan]", r"fpr\.0: "),
        ('fpr = ["0.1"]', r"fpr\.0: "),
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
