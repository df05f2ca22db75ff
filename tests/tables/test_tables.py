"""Tables of one file or several: batches, rows, whole tables, files of a folder, and lines of JSON."""

import json
from pathlib import Path

import polars as pl
import pytest

from divulge import tables
from divulge.errors import InputError
from divulge.tables import json_lines, sources
from divulge.tables.sources import TableFile


def refused(message):
    return pytest.raises(InputError, match=message)


def lines(*values):
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def parquet(tmp_path, frame, name="a.parquet"):
    frame.write_parquet(tmp_path / name)
    return tmp_path / name


class TestBatches:
    def test_batches_have_numbers_texts_and_gaps(self, tmp_path):
        path = parquet(tmp_path, pl.DataFrame({"a": [1, 2], "b": ["u", ""]}))
        found = list(tables.scan_table(path).batches({"a": "number", "b": "text", "c": "number", "d": "text"}))
        assert len(found) == 1
        assert found[0].rows() == [(1.0, "u", None, None), (2.0, None, None, None)]
        assert found[0].dtypes == [pl.Float64, pl.String, pl.Float64, pl.String]
        (absent,) = tables.scan_table(path).batches({"c": "number"})
        assert absent.to_dict(as_series=False) == {"c": [None, None]}
        assert [len(batch) for batch in tables.scan_table(path).batches({"a": "text"}, 1)] == [1, 1]

    def test_a_value_that_is_no_number_is_named_by_its_row(self):
        rows = "\n".join(["1"] * 5 + ["x" * 13])
        with refused(
            r"^bytes: row 6 \(the header not counted\): column 'a': a number is needed, got a text of 13 characters$"
        ):
            list(
                tables.scan_table(f"a,b\n{rows.replace(chr(10), ',0' + chr(10))},0\n".encode()).batches(
                    {"a": "number"}, 2
                )
            )
        with refused("got 'xxxxxxxxxxxx'$"):
            list(tables.scan_table(b"a,b\n" + b"x" * 12 + b",0\n").batches({"a": "number"}))
        with refused(r"^bytes: column 'a': '1,500' may be"):
            list(tables.scan_table(b'a,b\n"1,500",0\n').batches({"a": "number"}))
        with refused("columns of different names are needed, got 'a' twice"):
            list(tables.scan_table(b"a,a\n1,2\n").batches({"a": "number"}))

    @pytest.mark.parametrize(
        ("value", "required", "shown"),
        [("u", "number", "'u'"), (True, "number", "True"), ([1], "text", "a list"), ({"b": 1}, "text", "an object")],
    )
    def test_a_key_of_another_type_is_named_by_the_line_of_its_first_value(self, value, required, shown):
        with refused(f"line 2: a: a {required} is needed, got {shown}$"):
            list(tables.scan_table(lines({"a": None, "z": 0}, {"a": value})).batches({"a": required}))

    def test_a_column_of_another_type_is_named(self, tmp_path):
        path = parquet(tmp_path, pl.DataFrame({"a": [[1]], "b": ["x"]}))
        for column, required, words in (("b", "number", "not numeric"), ("a", "text", "neither text nor numeric")):
            with refused(f"column '{column}' is .*{words}"):
                list(tables.scan_table(path).batches({column: required}))

    def test_numbers_of_lines_keep_their_spelling_as_texts(self):
        content = tables.scan_table(b'{"a": 1.50, "b": 2}\n{"a": 2.0, "b": 3}\n')
        (texts,) = content.batches({"a": "text", "b": "text"})
        assert texts.rows() == [("1.50", "2"), ("2.0", "3")]
        (numbers,) = content.batches({"a": "number", "b": "text"})
        assert numbers.rows() == [(1.5, "2"), (2.0, "3")]
        assert content.take([1], {"a": "text"}) == {1: {"a": "2.0"}}
        assert content.collect(texts=["a"])["a"].to_list() == ["1.50", "2.0"]
        assert content.collect().rows() == [(1.5, 2), (2.0, 3)]

    def test_rows_are_taken_by_their_numbers_over_all_files(self, tmp_path):
        first = parquet(tmp_path, pl.DataFrame({"a": [1, 2, 3]}))
        second = parquet(tmp_path, pl.DataFrame({"b": ["x", "y"], "a": [4, 5]}), "b.parquet")
        both = tables.scan_table([first, second])
        assert both.take([0, 3, 4], {"a": "text", "b": "text"}) == {
            0: {"a": "1", "b": None}, 3: {"a": "4", "b": "x"}, 4: {"a": "5", "b": "y"},
        }  # fmt: skip
        assert both.take([2], {"a": "number"}) == {2: {"a": "3"}}
        assert both.has_rows()
        assert not tables.scan_table(b"a,b\n").has_rows()
        assert tables.scan_table([b"a,b\n", b"a,b\n1,2\n"]).has_rows()

    def test_a_row_has_its_place_in_a_file_of_lines(self, monkeypatch):
        monkeypatch.setattr(json_lines, "_BATCH", 2)
        content = tables.scan_table(b'{"a": 1}\n\n{"a": 2}\n{"a": 3}\n\n{"a": 4}\n')
        assert len(content.parts[0].lines.files) == 3
        assert [content.place(row) for row in range(5)] == [
            "line 1",
            "line 3",
            "line 4",
            "line 6",
            "row 5 (the header not counted)",
        ]
        assert tables.scan_table(b"a,b\n1,2\n").place(7) == "row 8 (the header not counted)"

    def test_a_folder_that_looks_like_a_partition_adds_no_column(self, tmp_path):
        folder = tmp_path / "year=2020"
        folder.mkdir()
        frame = pl.DataFrame({"a": [1]})
        frame.write_parquet(folder / "[a].parquet")
        frame.write_ipc(folder / "[a].arrow")
        for name in ("[a].parquet", "[a].arrow"):
            assert tables.read_table(folder / name).columns == ["a"]
            assert tables.open_parquet(folder / name).collect().columns == ["a"]
            assert tables.open_parquet([folder / name]).collect().rows() == [(1,)]


class TestWholeTables:
    def test_columns_of_lines_have_one_type(self):
        def collect(*values):
            return tables.read_table(lines(*({"a": value, "z": 0} for value in values)))["a"]

        assert collect(1, None, 3).dtype == pl.Int64
        assert collect(1, 2.5).to_list() == [1.0, 2.5]
        assert collect(True, None).dtype == pl.Boolean
        assert collect("x", None).to_list() == ["x", None]
        assert collect(None, None).dtype == pl.String
        with refused(r"^bytes: line 2: a: a number is needed, got 'x'$"):
            collect(1, "x")
        with refused(r"^bytes: line 2: a: a text is needed, got a list$"):
            collect("x", [1])
        with refused("the columns a hold lists or images"):
            collect([1], [2])
        with refused("the columns a hold lists or images"):
            collect({"b": 1}, None)
        with refused("whole numbers of at most 64 bits are needed"):
            collect(1, 2**64)

    def test_files_of_several_kinds_are_stacked(self, tmp_path):
        first = parquet(tmp_path, pl.DataFrame({"a": [1], "b": [None]}))
        second = parquet(tmp_path, pl.DataFrame({"b": ["x"], "a": [2.5]}), "b.parquet")
        found = tables.read_table([first, second])
        assert found.rows() == [(1.0, None), (2.5, "x")]
        assert tables.read_table([first, second], columns=["b"]).columns == ["b"]
        third = parquet(tmp_path, pl.DataFrame({"a": ["u"]}), "c.parquet")
        with refused(f"^all: {first}: column 'a' holds numbers here and texts in {third}; columns of one kind are"):
            tables.read_table([first, third], "all")
        fourth = parquet(tmp_path, pl.DataFrame({"a": [True]}), "d.parquet")
        with refused(f"^{first}: column 'a' holds numbers here and Boolean in {fourth}"):
            tables.read_table([first, fourth])
        fifth = parquet(tmp_path, pl.DataFrame({"a": pl.Series(["v"], dtype=pl.Categorical)}), "e.parquet")
        assert tables.read_table([third, fifth])["a"].to_list() == ["u", "v"]

    def test_values_of_several_csv_files_tell_a_type_together(self):
        assert tables.read_table([b"a,b\n1,x\n", b"a,b\n2.5,y\n"])["a"].to_list() == [1.0, 2.5]
        assert tables.read_table([b"a,b\n1,x\n", b"a,b\nz,y\n"])["a"].to_list() == ["1", "z"]
        assert tables.read_table([b"a,b\n1,x\n", b"a;b\n2;y\n"])["a"].to_list() == [1, 2]
        assert tables.read_table([b"a,b\n1,x\n", b"a,c\n2,y\n"]).rows() == [(1, "x", None), (2, None, "y")]
        with refused("columns of different names are needed, got 'a' twice"):
            tables.read_table(b"a,a\n1,2\n")
        gaps = tables.scan_table(b"a,b\nNA,1\n2,3\n")
        assert gaps.collect(with_gaps=["a"])["a"].to_list() == [None, 2]
        assert gaps.collect()["a"].to_list() == ["NA", "2"]
        assert gaps.collect(texts=["a"], with_gaps=["a"])["a"].to_list() == [None, "2"]
        assert gaps.collect(texts=["a"])["a"].to_list() == ["NA", "2"]

    def test_parquet_files_are_read_back(self, tmp_path):
        frame = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
        for written in (frame, frame.lazy()):
            tables.write_parquet(written, tmp_path / "a.parquet")
            assert tables.read_parquet(tmp_path / "a.parquet").rows() == frame.rows()
        content = (tmp_path / "a.parquet").read_bytes()
        assert tables.read_parquet(content, ["b"]).columns == ["b"]
        assert tables.open_parquet(content).collect().rows() == frame.rows()
        with refused("none.parquet: no such file$"):
            tables.read_parquet(tmp_path / "none.parquet")
        with refused("none.parquet: "):
            tables.open_parquet(tmp_path / "none.parquet")

    @pytest.mark.parametrize(
        ("text", "escaped"),
        [
            ("=1", True), ("+1", False), ("-1.5e-3", False), ("-.5", False), ("+a", True), ("-", True), ("@a", True),
            ("\ta", True), ("\ra", True), ("\na", True), ("＝1", True), ("a=1", False), ("1-", False), ("", False),
            ("-1.", False), ("-1e", True), ("--1", True), (None, False),
        ],
    )  # fmt: skip
    def test_formulas_of_a_spreadsheet_are_texts(self, text, escaped):
        frame = pl.DataFrame({"a": [text], "=b": [-1]}, schema={"a": pl.String, "=b": pl.Int64})
        found = tables.escape_formulas(frame)
        assert found.columns == ["a", "'=b"]
        assert found["a"].to_list() == [f"'{text}" if escaped else text]
        assert found["'=b"].to_list() == [-1]


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "is_table"),
        [
            ("a.csv", True), ("a.TSV", True), ("a.jsonl.GZ", True), ("a.ndjson.zst", True), ("a.parquet", True),
            ("a.parquet.gz", False), ("a.feather", True), ("a.ipc", True), ("a.gz", False), ("a.json", False),
            ("a", False),
        ],
    )  # fmt: skip
    def test_a_table_is_known_by_its_name(self, name, is_table, tmp_path):
        assert sources.is_table_file(Path(name)) == is_table
        assert tables.is_table(tmp_path / name) == is_table
        (tmp_path / name).write_text("")
        assert tables.is_table(tmp_path) == is_table
        (tmp_path / name).rename(tmp_path / f".{name}")
        assert not tables.is_table(tmp_path)
        (tmp_path / "data").mkdir()
        assert not tables.is_table(tmp_path)
        (tmp_path / "data" / name).write_text("")
        assert tables.is_table(tmp_path) == is_table

    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("a.csv", b"PAR1", ("parquet", "")), ("a.csv", b"ARROW1", ("arrow file", "")),
            ("a.csv", b"\xff\xff\xff\xff", ("arrow stream", "")), ("a.csv", b"a,b", ("csv", "")),
            ("a.csv.gz", b"\x1f\x8b", ("csv", "gzip")), ("a.csv", b"\x28\xb5\x2f\xfd", ("csv", "zstd")),
            ("a.jsonl", b"{}", ("json lines", "")), ("a.ndjson", b"", ("json lines", "")),
            ("a.tsv", b"{}", ("csv", "")),
            (None, b'\xef\xbb\xbf {"a": 1}', ("json lines", "")), (None, b"a,b", ("csv", "")),
        ],
    )  # fmt: skip
    def test_content_and_name_tell_the_format(self, name, content, expected, tmp_path):
        if name is not None:
            (tmp_path / name).write_bytes(content)
        assert sources.file_type(TableFile.from_source(content if name is None else tmp_path / name)) == expected

    def test_folders_hold_one_data_set(self, tmp_path):
        with refused("no .csv.* file in this folder"):
            sources.find_files(tmp_path)
        (tmp_path / "data").mkdir()
        with refused("file in this folder.*; folders inside it are not read"):
            sources.find_files(tmp_path)
        (tmp_path / "data" / "b.csv").write_text("")
        assert sources.find_files(tmp_path) == [tmp_path / "data" / "b.csv"]
        for name in ("c.csv", "a.csv"):
            (tmp_path / name).write_text("")
        assert [path.name for path in sources.find_files(tmp_path)] == ["a.csv", "c.csv"]
        (tmp_path / "train.csv").write_text("")
        assert len(sources.find_files(tmp_path)) == 3
        (tmp_path / "test-00000-of-00001.parquet").write_text("")
        with refused(r"holds several data sets \(test, train\)"):
            sources.find_files(tmp_path)
        assert sources.find_files(tmp_path / "a.csv") == [tmp_path / "a.csv"]

    @pytest.mark.parametrize(
        ("state", "message"),
        [
            ("{", "state.json: damaged or half-written"), ('{"_data_files": []}', "there are no files of data"),
            ('{"a": 1}', "names no files of data"), ("[1]", "names no files of data"),
            ('{"_data_files": [{"filename": "../a.arrow"}]}', "a file of the folder itself is needed, got"),
        ],
    )  # fmt: skip
    def test_a_saved_data_set_names_its_files(self, state, message, tmp_path):
        (tmp_path / "state.json").write_text(state)
        assert sources.is_saved_dataset(tmp_path)
        assert tables.is_table(tmp_path)
        with refused(message):
            sources.find_files(tmp_path)
        (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "b.arrow"}, {"filename": "a.arrow"}]}')
        assert [path.name for path in sources.find_files(tmp_path)] == ["b.arrow", "a.arrow"]
        (tmp_path / "train").mkdir()
        (tmp_path / "train" / "state.json").write_text("{}")
        (tmp_path / "other").mkdir()
        (tmp_path / "dataset_dict.json").write_text("{}")
        with refused("holds several data sets; name one of its folders: train$"):
            sources.is_saved_dataset(tmp_path)


class TestLines:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b'{"a": 1}\n[1]\n', "line 2: an object is needed, got a list"),
            (b'{"a": 1}\n{"a"}\n', "line 2 is no JSON"), (b"[\n1]\n", "line 1 is no JSON .*one array holds everything"),
            (b'{"a": 1}\n3\n', "line 2: an object is needed, got 3"), (b"\n\n", "there is no line with an object"),
            (b'{"a": 1}, {"a": 2}\n', "line 1 is no JSON"), (b'{"a": 1}\n{"b": 1, "b": 2}\n', "line 2: the key 'b'"),
            (b'{"a" : 1, "a"\t: 2}\n', "line 1: the key 'a' occurs twice"),
            (b'{"a": "\xff"}\n', r"line 1 is no JSON \(not UTF-8\)$"),
            (b'{"a": "\\ud800"}\n', "line 1: a: half of a surrogate pair"),
            (b'{"z": 1}\n{"\\ud800": 1}\n', "line 1 or later: half of a surrogate pair in a key"),
        ],
    )  # fmt: skip
    def test_what_is_no_object_is_named_by_its_line(self, content, message):
        with refused(f"^{message}"):
            json_lines.convert_json_lines(TableFile.from_source(content), "")

    def test_objects_within_one_line_are_two_lines_to_nobody(self):
        """Two objects in one line and one over two have as many braces as lines."""
        with refused("^line 1 is no JSON"):
            json_lines.convert_json_lines(TableFile.from_source(b'{"a": 1}, {"a": 2}\n{"a":\n3}\n'), "")
        inner = json_lines.convert_json_lines(TableFile.from_source(b'{"a": [{"b": 1}, {"b": 2}]}\n'), "")
        assert inner.value_types == {"a": {"a list": (1, "a list")}}
