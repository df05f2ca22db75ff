"""Every bound that arguments are checked by, just at it and just beyond, and what is said on either side."""

import decimal
from datetime import datetime

import numpy as np
import pytest

from divulge import validation
from divulge.errors import InputError
from divulge.validation import (
    as_list,
    check_array,
    check_bool,
    check_choice,
    check_class_labels,
    check_column_names,
    check_ids,
    check_instance,
    check_integer,
    check_labels,
    check_mask,
    check_matrix,
    check_memory,
    check_names,
    check_nonempty,
    check_number,
    check_path,
    check_rates,
    check_records,
    check_string,
    check_strings,
    check_vector,
    format_bytes,
    format_exception,
    format_value,
    is_missing,
    require_callable,
    to_numpy,
)

EXACT = 2**53


def refused(message):
    return pytest.raises(InputError, match=message)


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def named(name):
    """A value whose type has this name, as pandas' own have."""
    return type(name, (), {})()


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        (None, True), (float("nan"), True), (np.float64("nan"), True), (decimal.Decimal("NaN"), True),
        (named("NAType"), True), (named("NaTType"), True), (named("Nothing"), False),
        (0.0, False), (0, False), ("", False), ("nan", False), (float("inf"), False), (decimal.Decimal(1), False),
        ([], False), (False, False),
    ],
)  # fmt: skip
def test_what_is_missing_is_none_nan_and_what_pandas_calls_so(value, missing):
    assert is_missing(value) is missing


class TestArrays:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (objects(2**64, 1), "18446744073709551616, which does not fit into 64 bits"),
            (objects(1, -(2**64)), "-18446744073709551616, which does not fit into 64 bits"),
            (objects(2**64 - 1, "a"), r"'a' \(str\)"),
            (objects(1 - 2**64, True, 0.5, np.int8(1), "a"), r"'a' \(str\)"),
            (objects(float("inf"), "a"), "inf, which does not fit into 64 bits"),
            (objects(1, np.float32(2)), "dtype object"),
            (np.array(["a"]), "dtype <U1"),
            (np.array(["1", "a"]), "dtype <U1"),
            (np.array(["1.5", "-2"]), r"dtype <U3; np.asarray\(x, dtype=float\) reads such texts as numbers"),
        ],
    )
    def test_the_first_entry_that_is_no_number_is_named(self, values, message):
        with refused(f"^x: numbers are needed, got {message}$"):
            check_array(values, "x")

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.uint64, np.float16, np.float32])
    def test_numbers_of_any_type_are_kept(self, dtype):
        values = check_array(np.array([0, 1], dtype), "x")
        assert values.dtype == dtype
        assert values.tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("values", "worst"),
        [
            ([EXACT, -EXACT], None), ([0, EXACT + 1], EXACT + 1), ([-EXACT - 1, 0], -EXACT - 1),
            ([[-EXACT - 5, EXACT + 1]], EXACT + 1), ([[0, 1], [EXACT + 1, EXACT + 2]], EXACT + 2), ([], None),
        ],
    )  # fmt: skip
    def test_whole_numbers_are_those_that_float64_tells_apart(self, values, worst, monkeypatch):
        for block in (1 << 24, 1, 2):
            monkeypatch.setattr(validation, "_BLOCK", block)
            for dtype in (np.int64, np.uint64) if min(np.ravel(values), default=0) >= 0 else (np.int64,):
                array = np.array(values, dtype)
                if worst is None:
                    assert check_array(array, "x") is array
                    continue
                with refused(f"beyond ±2\\^53 cannot all be told apart as float64, got {worst};"):
                    check_array(array, "x")

    @pytest.mark.parametrize("block", [1 << 24, 1, 4])
    def test_values_that_are_not_finite_are_counted_and_the_first_is_placed(self, block, monkeypatch):
        monkeypatch.setattr(validation, "_BLOCK", block)
        values = np.zeros((5, 2))
        values[3, 1], values[4] = np.inf, np.nan
        with refused(r"^x: 3 values are NaN or infinite \(first at \[3, 1\]: inf\)$"):
            check_array(values, "x")
        assert check_array(values, "x", finite=False) is values
        with refused(r"first at \[0\]: -inf"):
            check_array([-np.inf, np.nan], "x")

    def test_entries_are_needed(self):
        for value, got in (([], "0"), (np.empty((0, 3)), "0"), (np.array(3.0), "a single number")):
            with refused(f"^x: at least 1 entry is needed, got {got}$"):
                check_nonempty(np.asarray(value), "x")
        assert len(check_nonempty(np.zeros((1, 0)), "x")) == 1

    def test_masked_entries_and_what_is_no_array_are_told(self):
        with refused("^x: 2 of 3 values are masked"):
            to_numpy(np.ma.array([1, 2, 3], mask=[True, False, True]), "x")
        with refused("rows of different lengths cannot form an array"):
            to_numpy([[1], [1, 2]], "x")

        class Broken:
            def __array__(self, *_, **__):
                raise RuntimeError("mine")

        with refused(r"^x: not an array \(mine\)$"):
            to_numpy(Broken(), "x")
        assert to_numpy(np.array([1, 2], ">i4"), "x").dtype == np.dtype("=i4")

    def test_vectors_and_matrices_have_the_shape_that_is_asked_for(self):
        with refused(r"one dimension is needed, got shape \(1, 2\)"):
            check_vector([[1, 2]], "x")
        with refused("3 values are needed, got 2"):
            check_vector([1, 2], "x", length=3)
        assert check_vector([1, 2], "x", length=2).tolist() == [1, 2]
        assert np.isnan(check_vector([np.nan], "x", finite=False)).all()
        with refused(r"two dimensions are needed, got shape \(2,\)"):
            check_matrix([1, 2], "x")
        with refused("3 columns are needed, got 2"):
            check_matrix([[1, 2]], "x", columns=3)
        for check, value in ((check_vector, [np.nan]), (check_matrix, [[np.nan]])):
            with refused("1 values are NaN"):
                check(value, "x")
        assert check_matrix([[1, 2]], "x", columns=2).dtype == np.float64
        assert np.isnan(check_matrix([[np.nan]], "x", finite=False)).all()
        for dtype in (np.float32, np.float64):
            kept = np.ones((2, 3), dtype)
            assert check_matrix(kept, "x") is kept
        assert check_matrix(np.ones((2, 3), np.float16), "x").dtype == np.float64
        turned = check_matrix(np.arange(6.0).reshape(2, 3).T, "x")
        assert turned.flags.c_contiguous
        assert turned.tolist() == [[0, 3], [1, 4], [2, 5]]


class TestRecords:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (objects("a", "b", 1), "texts are needed, got 1 in row 2"),
            (objects("a", None), "texts are needed, got None in row 1"),
            (objects("a", float("nan"), None), "texts are needed, got nan in row 1"),
            (objects("a", 1), r"numbers are needed, got 'a' \(str\)"),  # no more texts than others
            (["a", 1], r"numbers are needed, got 'a' \(str\)"),
            (("a", "b", 1), "texts are needed, got 1 in row 2"),
            (objects("a", "b\ud800"), "half of a surrogate pair, which is no character, in row 1"),
            ([["a", "b"]], r"one text per record is needed, got shape \(1, 2\)"),
            ([], "at least 1 entry"),
            (np.empty(0, dtype=object), "numbers are needed, got dtype object"),
        ],
    )
    def test_records_are_texts_where_most_of_them_are(self, values, message):
        with refused(f"^x: {message}"):
            check_records(values, "x")

    def test_texts_keep_their_length_and_numbers_their_type(self):
        texts = check_records(["a\0", "bcd", ""], "x")
        assert (texts.dtype, texts.tolist()) == (np.dtype(object), ["a\0", "bcd", ""])
        assert check_records(np.array(["a", "b"]), "x").dtype == object
        assert check_records(np.array([[1, 2]], np.float32), "x").dtype == np.float32


class TestLabels:
    @pytest.mark.parametrize(
        ("values", "options", "message"),
        [
            ([0.0, 1.0], {}, "whole-number labels are needed, got dtype float64"),
            ([[0, 1]], {}, r"one dimension is needed, got shape \(1, 2\)"),
            ([0, 1], {"length": 3}, r"3 labels are needed \(one per record\), got 2"),
            ([0, -1], {}, "labels must be ≥ 0, got -1"),
            ([0, 2], {"classes": 2}, r"labels must be below 2 \(the number of classes\), got 2"),
            ([True], {}, "whole-number labels are needed, got dtype bool"),
        ],
    )
    def test_labels_count_classes_from_0(self, values, options, message):
        with refused(f"^y: {message}$"):
            check_labels(values, "y", **options)

    def test_the_last_class_is_one_below_their_number(self):
        assert check_labels(np.array([0, 1], np.uint8), "y", length=2, classes=2).dtype == np.int64

    @pytest.mark.parametrize(
        ("values", "names", "expected"),
        [
            ([2, 0], None, ([2, 0], None)),
            (objects(2, 0), None, ([2, 0], None)),
            (objects(2, -1), None, ([1, 0], ("-1", "2"))),
            ([-1, 1, -1], None, ([0, 1, 0], ("-1", "1"))),
            ([0.0, 3.0], None, ([0, 3], None)),
            ([-1.0, 3.0], None, ([0, 1], ("-1", "3"))),
            ([True, False], None, ([1, 0], ("False", "True"))),
            (["b", "a"], None, ([1, 0], ("a", "b"))),
            (["b", "a"], ["b", "c", "a"], ([0, 2], ("b", "c", "a"))),
            ([1, 0], ["1", "0"], ([0, 1], ("1", "0"))),
            ([7.0, 8.0], [8, 7], ([1, 0], ("8", "7"))),
            ([float(EXACT - 1)], None, ([EXACT - 1], None)),
        ],
    )
    def test_classes_have_numbers_or_names(self, values, names, expected):
        numbers, class_names = check_class_labels(values, "y", length=len(values), names=names)
        assert (numbers.tolist(), class_names) == expected
        assert numbers.dtype == np.int64

    @pytest.mark.parametrize(
        ("values", "names", "message"),
        [
            ([[1.0]], None, r"1 labels are needed \(one per record\), got shape \(1, 1\)"),
            (
                objects("a", None, None),
                None,
                r"records without class or value: 2 \(first: row 1, counted from 0\); leave",
            ),
            ([0.0, np.nan], None, r"records without class or value: 1 \(first: row 1"),
            ([0.5, np.inf], None, "labels must be finite, got inf in row 1"),
            ([0.5, 1.0], None, "whole-number labels are needed, or names of classes, got float"),
            ([float(EXACT)], None, "whole-number labels are needed, or names of classes, got float"),
            (objects("a", 1), None, "names of classes, got int and str"),
            (objects(1, True), None, "names of classes, got bool and int"),
            (["a"], ["a", "a"], r"class_names: each may be named once, got \['a', 'a'\]"),
            (["a", "x"], ["a", "b"], "class_names: a class in y: 'x' is unknown"),
        ],
    )
    def test_other_labels_are_refused(self, values, names, message):
        with refused(message):
            check_class_labels(values, "y", length=len(values), names=names)

    def test_ids_are_as_many_unique_and_of_one_kind(self):
        assert check_ids(["b", "a"], "ids", 2).tolist() == ["b", "a"]
        with refused(r"^ids: 2 identifiers are needed, got shape \(3,\)$"):
            check_ids([1, 2, 3], "ids", 2)
        with refused(r"without identifier: 2 \(first: row 1"):
            check_ids(objects(1, None, None), "ids", 3)
        with refused("must be unique, 'b' occurs more than once"):
            check_ids(["a", "b", "c", "b", "c"], "ids", 5)
        with refused("identifiers of one kind are needed"):
            check_ids(objects(1, "a"), "ids", 2)

    def test_names_are_texts_or_whole_numbers_one_for_each(self):
        assert check_names([1, 2, 1], "groups").tolist() == [1, 2, 1]
        assert check_names(objects("a", "b"), "groups", length=2).dtype.kind == "U"
        assert check_names(np.array(["a"], np.dtypes.StringDType()), "groups").dtype.kind == "U"
        with refused("texts, or whole numbers, are needed, got None in row 1"):
            check_names(objects("a", None), "groups")
        for values, length, words in (
            ([0.5], None, "each document, got float64"),
            ([1, 2], 3, "each of 3 documents, got int64 of shape \\(2,\\)"),
            ([["a"]], None, "each document, got <U1 of shape \\(1, 1\\)"),
            ([True], 1, "each of 1 documents, got bool"),
        ):
            with refused(f"one for {words}"):
                check_names(values, "groups", length=length)

    def test_masks_are_of_bools_and_broadcast_where_that_is_possible(self):
        mask = np.array([[True, False], [False, False]])
        assert check_mask(mask, "m", (2, 2)) is mask
        assert check_mask(mask, "m", (None, 2)) is mask
        assert check_mask(mask[0], "m", (3, 2)).tolist() == [[True, False]] * 3
        assert check_mask(mask[0], "m", (None, 2)).tolist() == [[True, False]]
        with refused("bool values are needed, got dtype int64; pass np.asarray\\(m\\) == 1 where"):
            check_mask([1, 0], "m", (2,))
        with refused("bool values are needed, got dtype <U1; pass np.asarray\\(m\\) == '1' where"):
            check_mask(["1", "0"], "m", (2,))
        for values in ([0, 2], [0.0, np.nan], [0.1, 1.0], ["yes", "0"], []):
            with refused(r"^m: bool values are needed, got dtype \S+$"):
                check_mask(values, "m", (None,))
        with refused(r"^m: shape \(3, 2\) is needed, got \(2, 2\)$"):
            check_mask(mask, "m", (3, 2))
        with refused(r"shape \(2,\) is needed"):
            check_mask(mask, "m", (2,))


class TestMessages:
    def test_values_and_reasons_are_cut_at_their_length(self):
        assert format_value("x" * 78) == f"'{'x' * 78}'"
        assert format_value("x" * 79) == f"'{'x' * 78}…"
        assert len(format_value("x" * 200)) == 80
        assert format_exception(ValueError("x" * 300)) == "x" * 300
        assert format_exception(ValueError("x" * 301)) == "x" * 299 + "…"
        assert format_exception(ValueError()) == "ValueError"
        assert format_exception(ValueError("  first\nsecond")) == "first"
        assert format_value(np.zeros((2, 3))) == "an array of shape (2, 3)"
        assert format_value([np.float64(1.5), np.int64(2)]) == "[1.5, 2]"
        assert "0x" not in format_value(object())
        assert format_value(type("Shaped", (), {"shape": (1,), "__repr__": lambda _: "mine"})()) == "mine"

    @pytest.mark.parametrize(
        ("value", "closed", "allowed"),
        [(0, False, False), (1, False, False), (0, True, True), (1, True, True), (0.5, False, True),
         (-1e-9, True, False), (1 + 1e-9, True, False), (np.float32(0.5), False, True), (np.int8(1), True, True)],
    )  # fmt: skip
    def test_numbers_lie_between_bounds_that_count_only_where_closed(self, value, closed, allowed):
        if allowed:
            assert check_number(value, "x", above=0, below=1, closed=closed) == float(value)
            return
        bounds = r"\[0, 1\]" if closed else r"\(0, 1\)"
        with refused(f"^x: must lie in {bounds}, got "):
            check_number(value, "x", above=0, below=1, closed=closed)

    def test_numbers_are_unbounded_unless_asked(self):
        assert check_number(-1e300, "x") == -1e300
        with refused("larger than any float64"):
            check_number(10**400, "x")
        for value in (True, "1", None):
            with refused("a number is needed"):
                check_number(value, "x")

    def test_whole_numbers_reach_from_the_least_to_the_largest(self):
        for value in (2, 3, np.uint8(4)):
            assert check_integer(value, "x", minimum=2, maximum=4) == value
        assert check_integer(10**30, "x", minimum=2) == 10**30
        for value in (True, 2.0, "2", None):
            with refused("a whole number is needed"):
                check_integer(value, "x", minimum=0)
        with refused("must be at least 2, got 1"):
            check_integer(1, "x", minimum=2)
        with refused("must be at most 4, got 5"):
            check_integer(5, "x", minimum=2, maximum=4)
        with refused("must be at most 0, got 1"):
            check_integer(1, "x", minimum=-1, maximum=0)

    def test_a_choice_is_known_or_its_neighbour_is_suggested(self):
        assert check_choice("bh", "method", iter(["by", "bh"])) == "bh"
        with refused(r"^method: 'bhh' is unknown; did you mean 'bh'\? \(known: by, bh\)$"):
            check_choice("bhh", "method", ["by", "bh"])
        with refused(r"^method: 'zzz' is unknown \(known: by, bh\)$"):
            check_choice("zzz", "method", ["by", "bh"])
        with refused(r"^method: 3 is unknown \(known: by\)$"):
            check_choice(3, "method", ["by"])

    @pytest.mark.parametrize(("value", "is_path"), [
        ("a" * 255, True), ("a" * 256, False), ("é" * 127, True), ("é" * 128, False),
        ("/".join(["a" * 200] * 5), True), (f"a/{'b' * 256}/c", False),
        ("a\0b", False), ("\ud800", False), (3, False), (None, False),
    ])  # fmt: skip
    def test_a_path_is_one_that_a_file_can_have(self, value, is_path):
        if is_path:
            assert str(check_path(value, "out")) == value
            return
        with refused("^out: the name of a file or folder is needed, got "):
            check_path(value, "out")

    def test_texts_truth_values_and_instances_are_what_they_are_called(self):
        assert check_string("a", "x") == "a"
        for value in ("", 3, None):
            with refused("^x: a text is needed, got "):
                check_string(value, "x")
        assert check_bool(np.bool_(True), "x") is True
        assert check_bool(False, "x") is False
        for value in (1, 0, "yes", None):
            with refused("^x: True or False is needed, got "):
                check_bool(value, "x")
        assert check_instance(3, "x", int) == 3
        with refused(r"^x: divulge\.datetime is needed, got 3$"):
            check_instance(3, "x", datetime)
        with refused("^x: a day is needed, got 3$"):
            check_instance(3, "x", datetime, "a day")

    def test_functions_and_methods_are_needed_by_name(self):
        class Model:
            def fit(self):
                pass

            predict = 3

        model = Model()
        assert require_callable(len, "f") is len
        assert require_callable(model, "m", "fit") is model
        with refused("^f: a function is needed, got 3$"):
            require_callable(3, "f")
        for value, methods in (
            (model, ("fit", "predict")),
            (model, ("transform",)),
            (Model, ("fit",)),
            (len, ("fit",)),
        ):
            with refused(r"^m: an object with \w+\(…\)"):
                require_callable(value, "m", *methods)
        with refused(r"an object with fit\(…\) and predict\(…\) is needed"):
            require_callable(model, "m", "fit", "predict")

    def test_lists_are_no_single_values(self):
        assert as_list((1, 2), "x") == [1, 2]
        assert as_list(np.array([1, 2]), "x") == [1, 2]
        for value in ("ab", b"ab", {"a": 1}, 3, np.zeros((1, 2)), np.array(3)):
            with refused("^x: a list is needed, such as "):
                as_list(value, "x")

        class Broken:
            def __len__(self):
                return 1

            def __iter__(self):
                raise RuntimeError

            def __repr__(self):
                return "mine"

        with refused("^x: mine cannot be read as a list$"):
            as_list(Broken(), "x")
        assert check_strings(["a", "b"], "x") == ("a", "b")
        with refused("^x: texts are needed, got 2$"):
            check_strings(["a", 2], "x")

    def test_rates_lie_between_0_and_1_and_rise_where_asked(self):
        assert check_rates([0.5], "fpr") == (0.5,)
        assert check_rates([0.1, 0.2], "fpr", increasing=True) == (0.1, 0.2)
        with refused("at least 1 level is needed, got none"):
            check_rates([], "fpr")
        for value in (0, 1):
            with refused(r"must lie in \(0, 1\)"):
                check_rates([0.5, value], "fpr")
        for rates in ([0.1], [0.1, 0.1], [0.2, 0.1], [0.1, 0.3, 0.2]):
            with refused("at least two, increasing, are needed"):
                check_rates(rates, "fpr", increasing=True)

    @pytest.mark.parametrize(("name", "is_pattern"), [
        ("*", True), ("^a$", True), ("^$", True), ("**", False), ("a*", False), ("^a", False), ("a$", False),
    ])  # fmt: skip
    def test_names_that_polars_takes_for_a_pattern_are_refused(self, name, is_pattern):
        if not is_pattern:
            check_column_names(["b", name], "t")
            return
        with refused(r"^t: column '.*' cannot be read, as its name is a pattern"):
            check_column_names(["b", name], "t")
        with refused(r"^column '.*' cannot be read"):
            check_column_names([name])


class TestMemory:
    @pytest.mark.parametrize(("n_bytes", "fits"), [(900, True), (901, False), (0, True)])
    def test_nine_tenths_of_what_is_free_may_be_used(self, n_bytes, fits, monkeypatch):
        monkeypatch.setattr(validation, "available_memory", lambda: 1000)
        if fits:
            check_memory(n_bytes, "count", "less")
        else:
            with refused("^count: about 0.00086 MiB of memory are needed, 0.00095 MiB are free; less$"):
                check_memory(n_bytes, "count", "less")
        monkeypatch.setattr(validation, "available_memory", lambda: None)
        check_memory(1e30, "count", "")

    @pytest.mark.parametrize(
        ("size", "text"), [(2**30, "1 GiB"), (2**30 - 1, "1e+03 MiB"), (2**20, "1 MiB"), (1.5 * 2**30, "1.5 GiB")]
    )
    def test_bytes_are_gib_from_one_of_them_on(self, size, text):
        assert format_bytes(size) == text

    @pytest.mark.parametrize(
        ("sizes", "least"), [((5, 3), 3), ((3, 5), 3), ((None, 5), 5), ((3, None), 3), ((None, None), None)]
    )
    def test_the_machine_and_its_container_both_limit(self, sizes, least, monkeypatch):
        monkeypatch.setattr(validation, "_free_memory", lambda: sizes[0])
        monkeypatch.setattr(validation, "_free_container_memory", lambda: sizes[1])
        assert validation.available_memory() == least
