"""Files of records: each column, label and setting that is read or refused, and what stands just at a limit."""

import io

import numpy as np
import polars as pl
import pytest

from divulge import datafiles, tables
from divulge.datafiles import FileLayout, FileRows, read_labels, read_named_rows, read_records, read_rows
from divulge.errors import InputError


def refused(message):
    return pytest.raises(InputError, match=message)


def layout(**settings):
    return FileLayout(**settings, user_set=frozenset(settings))


@pytest.fixture
def write(tmp_path):
    def write_text(text, name="a.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_text


class TestTables:
    def test_columns_have_the_roles_of_the_layout(self, write):
        path = write("id,g,a,b,label,x\n007,u,1,2,0,9\n008,v,3,4,1,9\n")
        file = read_records(path, layout(group="g", drop=("x",)))
        assert file.columns == ("a", "b")
        assert file.records.ids.tolist() == ["007", "008"]
        assert file.group.tolist() == ["u", "v"]
        assert file.records.y.tolist() == [0, 1]
        assert not file.stores_types
        assert read_records(path, layout(columns=("b",))).records.x.tolist() == [[2], [4]]
        assert read_records(path, layout(columns=("b", "a"), label="x")).records.y.tolist() == [9, 9]
        assert read_records(path, FileLayout(drop=("g", "x"))).group is None

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"drop": ("w",)}, "data.drop: 'w' is unknown"),
            ({"columns": ("w",)}, "data.columns: 'w' is unknown"),
            ({"columns": ("label",)}, "data.columns: 'label' is the label, the id or the group, or is dropped"),
            ({"columns": ("a",), "drop": ("a",)}, "data.columns: 'a' is the label"),
            ({"columns": ("id",)}, "data.columns: 'id' is the label"),
            ({"label": "w"}, "data.label: 'w' is unknown"),
            ({"id": "w"}, "data.id: 'w' is unknown"),
            ({"group": "w"}, "data.group: 'w' is unknown"),
            ({"covariates": ("w",)}, "data.covariates: 'w' is unknown"),
            ({"features": "w"}, "data.features: no column begins with 'w', found id, a, label"),
            ({"person": "id"}, "data.person: several records of one person"),
            ({"drop": ("a",)}, "no column is left for the values"),
            ({"classes": ("p", "q")}, "data.classes: the classes in 'label' are numbers, which need no names"),
        ],
    )
    def test_columns_that_are_not_there_or_in_two_roles_are_refused(self, settings, message, write):
        path = write("id,a,label\n1,2,0\n2,3,1\n")
        with refused(f"^{path}: {message}"):
            read_records(path, layout(**settings))

    def test_files_that_are_none_are_refused(self, tmp_path, write):
        with refused(f"^no such file: {tmp_path / 'none.csv'}$"):
            read_records(tmp_path / "none.csv", FileLayout())
        with refused("file type: '.xyz' is unknown"):
            read_records(write("a", "a.xyz"), FileLayout())
        with refused("file type of texts: '.xyz' is unknown"):
            read_records(write("a", "a.xyz"), FileLayout(text="a"))
        with refused(r"a header \(a, label\) and no rows; at least 1 record is needed"):
            read_records(write("a,label\n"), FileLayout())
        with refused(r"a header \(a, label\) and no rows; at least 1 record is needed"):
            read_records(write("a,label\n"), FileLayout(text="a"))

    def test_covariates_of_numbers_are_values_too_and_words_are_none(self, write):
        path = write("a,n,w,f,label\n1,5,x,true,0\n2,6,y,false,1\n")
        file = read_records(path, layout(covariates=("n", "w", "f")))
        assert file.columns == ("a", "n", "f")
        assert {name: values.tolist() for name, values in file.covariates.items()} == {
            "n": [5, 6], "w": ["x", "y"], "f": [True, False],
        }  # fmt: skip
        assert read_records(path, layout(covariates=("w",), columns=("a", "w"))).columns == ("a", "w")
        assert read_records(path, layout(drop=("w", "f"))).covariates == {}

    def test_features_are_columns_with_one_beginning_and_no_values(self, write):
        file = read_records(write("a,e1,e2,label\n1,5,6,0\n2,7,8,1\n"), layout(features="e"))
        assert file.columns == ("a",)
        assert file.records.features.tolist() == [[5, 6], [7, 8]]
        with refused("data.features: column 'e1' holds no numbers"):
            read_records(write("a,e1,label\n1,x,0\n2,y,1\n"), layout(features="e"))

    def test_labels_are_classes_unless_real_values_are_welcome(self, write):
        path = write("a,label\n1,0.5\n2,1.5\n")
        with refused("y: whole-number labels are needed, or names of classes, got float"):
            read_records(path, FileLayout())
        assert read_records(path, FileLayout(real_values=True)).records.y.tolist() == [0.5, 1.5]
        low = write("a,label\n1,-5\n2,5\n", "b.csv")
        assert read_records(low, FileLayout()).records.class_names == ("-5", "5")
        assert read_records(low, FileLayout(real_values=True)).records.y.tolist() == [-5.0, 5.0]
        assert read_records(write("a,b\n1,2\n", "c.csv"), FileLayout()).records.y is None
        named = read_records(write("a,label\n1,u\n2,v\n", "d.csv"), FileLayout(classes=("v", "u"))).records
        assert named.y.tolist() == [1, 0]

    @pytest.mark.parametrize("separator", [";", "|", "\t"])
    def test_a_separator_that_was_set_wrongly_is_told(self, separator, write):
        path = write(f"a{separator}label\n1{separator}0\n")
        with refused(f"the values seem to be separated by .*; set data.separator = {separator!r}".replace("|", r"\|")
                     .replace("\\t", r"\\t")):  # fmt: skip
            read_records(path, layout(separator=","))
        assert read_records(path, layout(separator=separator)).columns == ("a",)
        assert read_records(path, FileLayout()).columns == ("a",)
        assert read_records(write("a\n1\n", "one.csv"), layout(separator=",")).columns == ("a",)


class TestDocuments:
    def test_documents_come_with_what_stands_beside_them(self, write):
        path = write("id,text,label,g,n,e1\n1,hello,0,u,5,7\n2,bye,1,v,6,8\n")
        file = read_records(path, layout(text="text", group="g", covariates=("n",), features="e"))
        assert file.records.x.tolist() == ["hello", "bye"]
        assert file.records.y.tolist() == [0, 1]
        assert file.records.ids.tolist() == ["1", "2"]
        assert file.group.tolist() == ["u", "v"]
        assert file.covariates["n"].tolist() == [5, 6]
        assert file.records.features.tolist() == [[7], [8]]
        assert file.columns == ("text",)
        odd = read_records(write("text,label\nhello,-1\nbye,x\n", "b.csv"), layout(text="text"))
        assert odd.records.y is None
        assert "'label'" in odd.unlabelled
        assert read_records(write("text\nhello\n", "c.csv"), layout(text="text")).unlabelled == ""
        same = read_records(write("text\nhello\n", "d.csv"), FileLayout(text="text", label="text"))
        assert same.records.y is None

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"columns": ("id",)}, "data.columns: of documents, only data.text is read"),
            ({"scale": 2.0}, "data.scale: texts have no scale"), ({"text": "w"}, "data.text: 'w' is unknown"),
            ({"person": "w"}, "data.person: 'w' is unknown"), ({"covariates": ("w",)}, "data.covariates: 'w' is unk"),
            ({"person": "p", "covariates": ("n",)}, "data.covariates: records of persons have none"),
            ({"person": "p", "features": "n"}, "data.features: records of persons have none"),
        ],
    )  # fmt: skip
    def test_settings_of_tables_are_refused(self, settings, message, write):
        path = write("id,text,p,n\n1,hello,ann,3\n2,bye,bob,4\n")
        with refused(f"^{path}: {message}"):
            read_records(path, layout(**{"text": "text"} | settings))
        numbers = path.with_suffix(".parquet")
        pl.DataFrame({"text": [1, 2]}).write_parquet(numbers)
        with refused(r"data.text: 'text' holds no texts \(number\); name the column that does"):
            read_records(numbers, layout(text="text"))

    def test_empty_documents_are_counted_from_the_first(self, write):
        path = write('text,p\nhello,ann\n" ",bob\n,\n')
        with refused(r"2 records have no text \(first: row 2 \(the header not counted\)\); leave them out"):
            read_records(path, layout(text="text"))

    def test_documents_of_a_person_are_one_record_in_the_order_of_the_first(self, write):
        path = write("text,p,g\na,bob,u\nb,ann,v\nc,bob,w\n")
        file = read_records(path, layout(text="text", person="p", group="g"))
        assert file.records.ids.tolist() == ["bob", "ann"]
        assert file.records.x.tolist() == ["a\x1ec", "b"]
        assert file.group.tolist() == ["u", "v"]
        assert file.unlabelled == "records of persons have no labels"
        assert read_records(path, layout(text="text", person="p")).group is None
        with refused("data.person: 1 records have no person; leave them out"):
            read_records(write("text,p\na,bob\nb,\n", "b.csv"), layout(text="text", person="p"))


class TestArrays:
    def test_arrays_have_their_names(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez(
            path, x=np.array([[1, 2], [3, 4]]), y=[0, 1], ids=["p", "q"], g=["u", "v"], columns=["a", "b"], e=[5, 6]
        )
        file = read_records(path, layout(group="g", features="e", covariates=("e",), scale=0.5))
        assert file.columns == ("a", "b")
        assert file.group.tolist() == ["u", "v"]
        assert file.records.x.tolist() == [[0.5, 1], [1.5, 2]]
        assert file.records.features.tolist() == [[5], [6]]
        assert file.covariates["e"].tolist() == [5, 6]
        for settings, message in (
            ({"group": "w"}, "data.group: 'w' is unknown"), ({"features": "w"}, "data.features: 'w' is unknown"),
            ({"columns": ("a",)}, "data.columns: the array x of an .npz is taken whole"),
            ({"covariates": ("w",)}, "data.covariates: 'w' is unknown"), ({"classes": ("u", "v")}, "are numbers"),
        ):  # fmt: skip
            with refused(message):
                read_records(path, layout(**settings))
        np.savez(path, z=[1])
        with refused("an array named 'x' is needed, found z"):
            read_records(path, FileLayout())
        np.savez(path, x=np.zeros((2, 1)))
        bare = read_records(path, layout(classes=("u", "v")))
        assert (bare.records.y, bare.columns, bare.group) == (None, (), None)

    def test_a_folder_of_images_has_no_columns(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for name, size in (("cat", (3, 2)), ("dog", (3, 2))):
            (tmp_path / name).mkdir()
            image.fromarray(np.full(size, 255 if name == "cat" else 51, np.uint8)).save(tmp_path / name / "a.png")
        file = read_records(tmp_path, FileLayout())
        assert file.records.x.shape == (2, 1, 3, 2)
        assert file.records.x[:, 0, 0, 0].tolist() == [1.0, pytest.approx(0.2)]
        assert file.records.y.tolist() == [0, 1]
        assert file.folders == ("cat", "dog")
        assert read_records(tmp_path, FileLayout(classes=("dog", "cat"))).records.y.tolist() == [1, 0]
        for name in ("group", "text", "features"):
            with refused("a folder of images has no columns"):
                read_records(tmp_path, FileLayout(**{name: "a"}))
        image.fromarray(np.zeros((3, 2, 3), np.uint8)).save(tmp_path / "dog" / "b.png")
        assert read_records(tmp_path, FileLayout()).records.x.shape == (3, 3, 3, 2)
        image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "dog" / "c.png")
        with refused("c.png: 2 x 2 pixels where a.png has 3 x 2"):
            read_records(tmp_path, FileLayout())
        image.fromarray(np.zeros((3, 2), np.uint16)).save(tmp_path / "dog" / "c.png")
        with refused("pixels of 8 bits are needed"):
            read_records(tmp_path, FileLayout())
        (tmp_path / "dog" / "c.png").write_bytes(b"no image")
        with refused("c.png: no image"):
            read_records(tmp_path, FileLayout())

    @pytest.mark.parametrize(
        ("dataset", "message"),
        [
            ([(1.0, 0), (1.0, 0, 2)], "pairs .x, y. are needed, got .* at 1;"), ([3], "got 3 at 0"),
            ([([1.0], 0), ([1.0, 2.0], 1)], r"all x need one shape, got \(1,\) and \(2,\)"),
            ([], "dataset: its length: must be at least 1, got 0"), (3, "an object with __len__"),
        ],
    )  # fmt: skip
    def test_data_sets_are_pairs(self, dataset, message):
        with refused(message):
            datafiles.from_pairs(dataset)

    def test_pairs_are_records_of_numbers_or_texts(self):
        records = datafiles.from_pairs([[np.ones(2), 0], (np.zeros(2), np.int64(1))])
        assert (records.x.tolist(), records.y.tolist()) == ([[1, 1], [0, 0]], [0, 1])
        texts = datafiles.from_pairs([("a", 0), ("bc", 1)])
        assert texts.x.tolist() == ["a", "bc"]

        class Loader:
            dataset = ()

        with refused("got a loader of batches; pass its .dataset"):
            datafiles.from_pairs(Loader())


class TestLabels:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("5\n0\n1\n", [5, 0, 1]), (" +5 \n0\n", [5, 0]), ("-1\n0\n", [-1, 0]), ("label\n0\n1\n", [0, 1]),
            ("a,Label\n7,0\n8,1\n", [0, 1]), ("true_false\ntrue\nfalse\n", [1, 0]),
        ],
    )  # fmt: skip
    def test_labels_are_the_only_column_or_that_of_a_usual_name(self, text, expected, write):
        labels = read_labels(write(text))
        assert labels.tolist() == expected
        assert labels.dtype == np.int64
        assert read_labels(write("a,b\n7,0\n8,1\n", "b.csv"), "a").tolist() == [7, 8]

    @pytest.mark.parametrize(
        ("text", "label", "message"),
        [
            ("a,b\n1,2\n", None, "one column is needed, got a, b; --label names it"),
            ("y,label\n1,2\n", None, "one column is needed, got y, label"), ("a\n1\n", "w", "^--label: 'w' is unknown"),
            ("1.5\n1\n", None, "one whole number per line is needed, got '1.5' in the first"),
            ("None\n1\n", None, "got 'None' in the first"), ("7\n1.5\n", None, "got '7' in the first"),
            ("a\n1.5\n", None, "the column 'a' holds others"), ("a,b\n1,2\n,2\n", "a", "the column 'a' holds others"),
        ],
    )  # fmt: skip
    def test_other_columns_are_refused(self, text, label, message, write):
        with refused(message):
            read_labels(write(text), label)

    def test_a_column_that_is_named_by_a_number_is_no_label(self, write):
        with refused("got '5' in the first"):
            read_labels(write("5,b\n1,2\n3,4\n"), "5")

    def test_labels_come_from_arrays_and_lines_too(self, tmp_path, write):
        np.save(tmp_path / "a.npy", np.array([True, False]))
        assert read_labels(tmp_path / "a.npy").tolist() == [1, 0]
        np.save(tmp_path / "b.npy", np.array([0.5]))
        assert read_labels(tmp_path / "b.npy").tolist() == [0.5]
        np.savez(tmp_path / "a.npz", y=[3])
        assert read_labels(tmp_path / "a.npz").tolist() == [3]
        np.savez(tmp_path / "a.npz", z=[3])
        with refused("an array named 'y' is needed"):
            read_labels(tmp_path / "a.npz")
        assert read_labels(write('"Label"\n4\n5\n', "a.txt")).tolist() == [4, 5]
        assert read_labels(write("4\n", "b.txt")).tolist() == [4]
        with refused("b.txt: one whole number per line is needed"):
            read_labels(write("4.5\n", "b.txt"))
        with refused("labels: .*none.txt: cannot be read"):
            read_labels(tmp_path / "none.txt")


class TestRows:
    def test_named_rows_have_ids_membership_and_columns(self, write, tmp_path):
        rows = read_named_rows(write("id,a,member,label,b\n07,1,1,0,3\n08,2,0,1,4\n"))
        assert (rows.x.tolist(), rows.ids.tolist(), rows.columns) == ([[1, 3], [2, 4]], ["07", "08"], ("a", "b"))
        assert (rows.member.tolist(), rows.y.tolist()) == ([True, False], [0, 1])
        turned = read_named_rows(write("a,b\n1,3\n"), order=("b", "a"))
        assert (turned.x.tolist(), turned.columns, turned.ids.tolist()) == ([[3, 1]], ("b", "a"), [0])
        with refused("lacks c and has the further columns b .*; needed are a, c$"):
            read_named_rows(write("a,b\n1,3\n"), order=("a", "c"))
        with refused("numbers are needed, and the columns b hold none"):
            read_named_rows(write("a,b\n1,x\n"))
        with refused("member: bool values are needed"):
            read_named_rows(write("a,member\n1,2\n"))
        with refused("data.label: 'w' is unknown"):
            read_named_rows(write("a,b\n1,3\n"), layout(label="w"))
        with refused("data.id: 'w' is unknown"):
            read_named_rows(write("a,b\n1,3\n"), layout(id="w"))
        assert read_named_rows(write("a,b\n1,3\n"), FileLayout(drop=("b",))).columns == ("a",)
        np.savez(tmp_path / "a.npz", x=np.zeros((2, 2, 2)), member=[True, False])
        assert read_named_rows(tmp_path / "a.npz").x.shape == (2, 2, 2)
        np.savez(tmp_path / "a.npz", z=[1])
        with refused("an array named x is needed, found z"):
            read_named_rows(tmp_path / "a.npz")

    def test_rows_are_spelled_as_in_the_file(self, write, tmp_path):
        rows = read_rows(write("a;b\n007;0,5\n010;1,5\n"), FileLayout())
        assert (rows.ending, rows.separator) == (".csv", ";")
        assert rows.frame["b"].to_list() == ["0,5", "1,5"]
        assert rows.find_codes() == ("a",)
        assert rows.spell_numbers("b", np.array([2.0, 2.5])).to_list() == ["2", "2,5"]
        assert rows.spell_numbers("a", np.array([2.5])).to_list() == ["2.5"]
        assert rows.filter(np.array([False, True])).frame["a"].to_list() == ["010"]
        assert rows.to_bytes() == b"a;b\n007;0,5\n010;1,5\n"
        lines = read_rows(write('{"a": 1, "c": [1]}\n{"a": 2}\n', "a.jsonl"), FileLayout())
        assert (lines.ending, lines.frame.columns) == (".jsonl", ["a"])
        assert lines.to_bytes() == b'{"a":1}\n{"a":2}\n'
        assert lines.find_codes() == ()
        assert lines.spell_numbers("a", np.array([3.0])).to_list() == [3]
        pl.DataFrame({"a": [1, 2]}).write_parquet(tmp_path / "a.parquet")
        stored = read_rows(tmp_path / "a.parquet", FileLayout())
        assert stored.ending == ".parquet"
        assert tables.read_parquet(io.BytesIO(stored.to_bytes()))["a"].to_list() == [1, 2]

    def test_rows_take_the_columns_of_others(self):
        rows = FileRows(pl.DataFrame({"a": [1], "z": [2]}), ".parquet")
        source = FileRows(pl.DataFrame({"b": ["x"], "a": [3]}), ".parquet")
        found = rows.with_columns_of(source).frame
        assert found.rows() == [(None, 1)]
        assert found.schema == source.frame.schema
