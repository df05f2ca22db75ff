"""Every step of the search for rows in arrays, against loops over all pairs and at its limits."""

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from scipy import stats

import divulge as dv
from divulge.inspection import arrays, collect_arrays, find_stored_records
from divulge.inspection.arrays import ModelArray
from divulge.results import FALSE_MATCH

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))


def tables(values, width, **options):
    return [table.tolist() for table in arrays._tables(ModelArray("a", np.asarray(values)), width, **options)]


def test_an_array_is_read_as_every_table_of_rows_that_it_can_be():
    flat = np.arange(6.0)
    assert tables(flat, 1) == [flat[:, None].tolist()]
    assert tables(flat, 2) == [flat.reshape(3, 2).tolist(), flat.reshape(2, 3).T.tolist()]
    assert tables(flat, 3) == [flat.reshape(2, 3).tolist(), flat.reshape(3, 2).T.tolist()]
    assert tables(flat, 2, flat=False) == tables(flat, 4) == tables(flat, 6) == tables(flat, 0) == []
    table = flat.reshape(2, 3)
    assert tables(table, 3) == [table.tolist()]
    assert tables(table, 2) == [table.T.tolist()]
    assert tables(table, 6) == tables(table, 1) == []
    assert tables(np.eye(2), 2) == [np.eye(2).tolist()]
    cube = np.arange(12.0).reshape(2, 3, 2)
    assert tables(cube, 6) == [cube.reshape(2, 6).tolist()]
    assert tables(cube, 2) == []
    assert tables(flat.astype(bool), 2) == tables(flat.astype(complex), 2) == []
    for dtype in (np.int8, np.uint8, np.float32):
        assert len(tables(flat.astype(dtype), 2)) == 2


@pytest.mark.parametrize(
    ("shape", "width", "is_searched"),
    [
        ((4, 2), 2, True), ((3, 2), 2, False), ((4, 1), 2, False), ((4, 2), 1, False), ((8,), 2, False),
        ((4, 2, 2), 2, False), ((4, 200), 200, True), ((4, 201), 200, False),
    ],
)  # fmt: skip
def test_columns_are_looked_for_in_tables_of_4_rows_with_40_000_pairs_of_columns_at_most(shape, width, is_searched):
    found = list(arrays._column_tables(ModelArray("a", np.zeros(shape)), width))
    assert len(found) == is_searched
    assert not list(arrays._column_tables(ModelArray("a", np.zeros(shape, bool)), width))


@pytest.mark.parametrize(
    ("values", "tolerance"),
    [
        (np.array([1, 2]), 1e-9),
        (np.array([0.1, 0.2]), 1e-9),
        (np.array([0.1, 0.2], np.float32), 1e-5),
        (np.array([0.1, 0.2], np.float16), 1e-2),
        (np.array([0.1, 0.2], np.float32).astype(float), 1e-5),
        (np.array([1.0, 2.0]), 1e-9),  # whole numbers are exact in every type
        (np.array([0.5, 0.25, np.nan]), 1e-5),
        (np.array([0.5, 1e300]), 1e-9),
        (np.array([0.1, 0.2], np.longdouble), 1e-9),
    ],
)
def test_numbers_are_as_exact_as_the_type_that_they_were_made_of(values, tolerance):
    assert arrays._tolerance(values) == tolerance


def test_the_unit_of_a_column_is_its_spread_or_a_tenth_of_its_largest_value():
    rows = np.array([[0.0, 100.0, 5.0, 0.5, -200.0, 0.0], [2.0, 101.0, 5.0, 0.5, -201.0, 0.0]])
    np.testing.assert_allclose(arrays._scale(rows), [2.0, 10.1, 5.0, 1.0, 20.1, 1.0])


@pytest.mark.parametrize("coarse", [1e-9, 1e-3])
def test_rows_are_counted_as_a_loop_counts_them(coarse):
    stored = np.vstack([ROWS[:5], ROWS[:2], ROWS[3:4], ROWS[10:12] + 0.3, [[np.nan, 0, 0]], [[1e9, 0, 0]]])
    counts = arrays._match_rows(ROWS, stored, coarse)
    expected = [sum(np.allclose(row, other, rtol=0, atol=1e-6) for other in stored) for row in ROWS]
    assert counts.tolist() == expected
    assert sum(counts) == 8
    assert arrays._match_rows(ROWS, stored[-2:], coarse).tolist() == [0] * 40


@pytest.mark.parametrize(("off", "is_match"), [(1.9, True), (2.1, False)])
def test_a_row_matches_within_twice_the_tolerance(off, is_match):
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.4, 0.6]])
    moved = rows[2:] + np.array([off * 1e-5, -off * 1e-5])
    assert arrays._match_rows(rows, moved, 1e-5).tolist() == [0, 0, is_match]
    edge = rows[1:2] + np.array([[0.9e-5, 0.0]])  # beyond the largest of the rows, but not by more than the tolerance
    assert arrays._match_rows(rows, edge, 1e-5).tolist() == [0, 1, 0]
    assert arrays._match_rows(rows, rows[1:2] + 1.1e-5, 1e-5).tolist() == [0, 0, 0]
    assert arrays._match_rows(rows, rows[:1] - 0.9e-5, 1e-5).tolist() == [1, 0, 0]
    assert arrays._match_rows(rows, rows[:1] - 1.1e-5, 1e-5).tolist() == [0, 0, 0]


def test_the_nearest_value_is_that_of_a_search():
    for n in (1, 2, 7):
        ordered = np.sort(RNG.normal(size=n))
        values = np.concatenate([RNG.normal(scale=2, size=50), ordered])
        nearest = ordered[arrays._nearest(values, ordered)]
        np.testing.assert_array_equal(np.abs(nearest - values), np.abs(ordered - values[:, None]).min(axis=1))


@pytest.mark.parametrize(("n", "count"), [(3, 3), (500, 500), (501, 500), (5000, 500)])
def test_values_are_sampled_from_the_smallest_to_the_largest(n, count):
    sample = arrays._sample_values(np.tile(np.arange(n)[::-1], 2))
    assert (len(sample), sample[0], sample[-1]) == (count, 0, n - 1)
    assert len(np.unique(sample)) == count


class TestColumns:
    def test_columns_that_agree_on_nine_tenths_of_the_rows_are_taken(self):
        for n, n_columns in ((22, 2), (21, 0)):  # each column is wrong in two rows of its own: 18 of 20, 17 of 19
            stored = ROWS[:n, [2, 0]].copy()
            stored[:2, 0] += 7.0
            stored[2:4, 1] += 7.0
            counts, compared = arrays._match_columns(ROWS, stored, 1e-9)
            assert compared.shape[1] == n_columns
            assert np.flatnonzero(counts).tolist() == (list(range(4, n)) if n_columns else [])

    @pytest.mark.parametrize(("n", "is_found"), [(7, False), (8, True)])
    def test_eight_values_of_a_column_must_be_there(self, n, is_found):
        counts, compared = arrays._match_columns(ROWS, ROWS[:n, [2, 0]], 1e-9)
        assert (counts.sum(), compared.shape[1]) == ((n, 2) if is_found else (0, 0))

    def test_all_columns_are_found_in_any_order_and_the_most_of_them_win(self):
        for order in itertools.permutations(range(3)):
            counts, compared = arrays._match_columns(ROWS, ROWS[5:25][:, list(order)], 1e-9)
            assert np.flatnonzero(counts).tolist() == list(range(5, 25))
            assert compared.shape == (20, 3)
        counts, compared = arrays._match_columns(ROWS, np.vstack([ROWS[:10, [1, 0]], [[np.nan, 1.0]]]), 1e-9)
        assert (counts.sum(), compared.shape) == (10, (10, 2))

    def test_one_column_alone_tells_nothing(self):
        stored = np.column_stack([ROWS[:20, 0], RNG.normal(size=20)])
        counts, compared = arrays._match_columns(ROWS, stored, 1e-9)
        assert not counts.any()
        assert compared.shape[1] == 0
        constant = np.column_stack([ROWS[:, 0], np.full(40, 5.0)])
        assert not arrays._match_columns(constant, constant[:20], 1e-9)[0].any()

    @pytest.mark.parametrize(("off", "is_match"), [(1.9, True), (2.1, False)])
    def test_values_agree_within_twice_the_tolerance(self, off, is_match):
        rows = np.column_stack([np.linspace(0, 1, 30), RNG.permutation(30) / 29])
        stored = rows[:20] + off * 1e-5 * np.array([1, -1])
        counts, _ = arrays._match_columns(rows, stored, 1e-5)
        assert (counts[1:19] > 0).all() == is_match
        assert counts.any() == is_match


class TestAffineMaps:
    @pytest.mark.parametrize("n_stored", [3, 4, 12])
    def test_rows_are_found_up_to_a_map_of_each_column(self, n_stored):
        stored = ROWS[:n_stored] * [2.0, -0.5, 30.0] + [1.0, 100.0, -3.0]
        counts = arrays._match_affine(ROWS, stored, np.random.default_rng(0), 1e-9)
        assert np.flatnonzero(counts).tolist() == (list(range(n_stored)) if n_stored >= 4 else [])

    def test_other_rows_are_not_found(self):
        assert not arrays._match_affine(ROWS, RNG.normal(size=(12, 3)), np.random.default_rng(0), 1e-9).any()
        assert not arrays._match_affine(ROWS, np.full((5, 3), np.nan), np.random.default_rng(0), 1e-9).any()

    def test_columns_that_do_not_vary_must_not_vary_in_the_array_either(self):
        rows = np.column_stack([ROWS, np.full(40, 3.0)])
        constant, varying = (np.column_stack([2 * ROWS[:9] + 1, last]) for last in (np.full(9, 8.0), np.arange(9.0)))
        assert arrays._match_affine(rows, constant, np.random.default_rng(0), 1e-9).sum() == 9
        assert not arrays._match_affine(rows, varying, np.random.default_rng(0), 1e-9).any()
        one = np.column_stack([ROWS[:, 0], np.full(40, 3.0)])
        assert not arrays._match_affine(one, 2 * one[:9], np.random.default_rng(0), 1e-9).any()

    def test_a_map_sends_two_candidates_to_two_stored_rows_and_a_third_to_a_third(self):
        slope, shift = np.array([2.0, -3.0, 0.5]), np.array([1.0, 0.0, -4.0])
        stored = ROWS[:3] * slope + shift
        columns = [0, 1, 2]
        maps = list(arrays._fit_maps((ROWS, ROWS), ROWS, stored, columns, 1e-9))
        assert len(maps) == 1
        np.testing.assert_allclose(maps[0][0], slope)
        np.testing.assert_allclose(maps[0][1], shift, atol=1e-9)
        assert not list(arrays._fit_maps((ROWS, ROWS), ROWS, stored + [[0], [0], [0.01]], columns, 1e-9))
        assert not list(arrays._fit_maps((ROWS[3:], ROWS), ROWS, stored, columns, 1e-9))

    def test_columns_in_which_both_rows_are_alike_fix_no_map(self):
        grid = np.array(list(itertools.product([0.0, 1.0], [0.0, 2.0, 5.0])))
        maps = list(arrays._fit_maps((grid, grid), grid, grid[:3], [1, 0], 1e-9, max_maps=99))
        assert maps == []  # the first column is 0 in all three
        maps = list(arrays._fit_maps((grid, grid), grid, grid[[0, 4, 2]], [1, 0], 1e-9, max_maps=99))
        assert maps
        for slope, shift in maps:
            assert (slope != 0).all()
            for row in grid[[0, 4]]:
                assert any(np.allclose(other * slope + shift, row) for other in grid)
        assert len(list(arrays._fit_maps((grid, grid), grid, grid[[0, 4, 2]], [1, 0], 1e-9, max_maps=1))) == 1


class TestJudgement:
    @pytest.mark.parametrize("seed", range(4))
    def test_members_among_distinct_matched_rows_have_fishers_chance(self, seed):
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, 12, (40, 1)).astype(float)
        is_member, stored = rng.random(40) < 0.5, set(range(0, 12, 2))
        counts = np.array([int(row[0] in stored) for row in rows])
        judge = arrays._judge(
            "a", "as they are", counts, rows, None, is_member=is_member, comparable=True, repeats_kept=True
        )
        sides = {value: set(is_member[rows[:, 0] == value].tolist()) for value in np.unique(rows)}
        table = np.zeros((2, 2), int)
        for value, side in sides.items():
            if len(side) == 1:
                table[0 if value in stored else 1, 0 if True in side else 1] += 1
        expected = stats.fisher_exact(table, alternative="greater").pvalue if table[0].sum() else 1.0
        assert judge[0].p_value == pytest.approx(expected)
        assert (judge[0].members, judge[0].nonmembers) == (counts[is_member].sum(), counts[~is_member].sum())
        assert judge[0].control_p_value is None
        assert judge[1].tolist() == (counts > 0).tolist()

    def test_without_a_match_there_is_no_evidence(self):
        judge = arrays._judge(
            "a", "as they are", np.zeros(4, int), ROWS[:4], None, is_member=np.arange(4) < 2, comparable=True,
            repeats_kept=True,
        )  # fmt: skip
        assert judge[0].p_value == 1.0

    def test_sets_that_differ_need_both_chances(self):
        is_member = np.arange(40) < 20
        counts = np.where(np.arange(40) < 12, 1, 0)
        options = {"is_member": is_member, "repeats_kept": True}
        plain, _ = arrays._judge("a", "as they are", counts, ROWS, ROWS[:12], comparable=True, **options)
        match, _ = arrays._judge("a", "as they are", counts, ROWS, ROWS[:12], comparable=False, **options)
        repetition = arrays._repetition_p_value(counts, ROWS, ROWS[:12], is_member, True)
        assert match.control_p_value == plain.p_value
        assert match.p_value == max(plain.p_value, repetition)
        without, _ = arrays._judge("a", "as they are", counts, ROWS, None, comparable=False, **options)
        assert without.p_value == 1.0

    @pytest.mark.parametrize("repeats_kept", [True, False])
    @pytest.mark.parametrize("seed", range(3))
    def test_pairs_across_members_and_stored_rows_are_counted_against_their_share(self, seed, repeats_kept):
        rng = np.random.default_rng(seed)
        rows, is_member = rng.integers(0, 40, (60, 1)).astype(float), rng.random(60) < 0.5
        stored = rng.integers(0, 40, (25, 1)).astype(float)
        stored[0] = np.nan
        finite = stored[1:, 0].tolist()
        counts = np.array([finite.count(row[0]) for row in rows])
        members = rows[is_member, 0].tolist()
        values = set(members) | set(finite)
        across = sum(members.count(v) == 1 and finite.count(v) == 1 for v in values)
        within = sum(members.count(v) == 2 and finite.count(v) == 0 for v in values)
        within += max(
            sum(finite.count(v) == 2 for v in set(finite)) - sum(finite.count(v) == 2 for v in set(members)), 0
        )
        n, m = len(members), len(finite)
        pairs = math.comb(n + m, 2) if repeats_kept else n * m + math.comb(m, 2)
        expected = stats.binom.sf(across - 1, across + within, n * m / pairs)
        p_value = arrays._repetition_p_value(counts, rows, stored, is_member, repeats_kept)
        assert p_value == pytest.approx(expected)
        assert across > 0
        assert within > 0


class TestSearch:
    IS_MEMBER = np.arange(40) < 20
    RECORDS = dv.Records(ROWS)

    def search(self, model, **options):
        return find_stored_records(model, self.RECORDS, self.IS_MEMBER, **options)

    def test_what_cannot_be_searched_is_said(self, monkeypatch):
        assert find_stored_records(lambda x: x, self.RECORDS, self.IS_MEMBER).not_searched == (
            "the model shows no arrays",
        )
        one_sided = ("the records are texts, or of one side alone",)
        for mask in (np.ones(40, bool), np.zeros(40, bool)):
            assert find_stored_records({"a": ROWS}, self.RECORDS, mask).not_searched == one_sided
        assert (
            find_stored_records({"a": ROWS}, dv.Records(["a", "b"]), np.array([True, False])).not_searched == one_sided
        )
        for most, notes in ((60, ()), (59, ("a has more than 59 values",))):
            monkeypatch.setattr(arrays, "MAX_VALUES", max(most, 120))
            model = {"a": np.zeros((20, 3)) if most == 60 else np.zeros((41, 3)), "b": np.zeros((0, 3))}
            result = self.search(model)
            assert result.not_searched == tuple(note.replace("59", "120") for note in notes)
            assert result.arrays == 2

    def test_the_bound_is_shared_by_all_searches_and_lies_in_0_to_1(self):
        model = {"a": ROWS[:15], **{f"noise {i}": RNG.normal(size=(5, 3)) for i in range(3)}}
        found = self.search(model)
        assert found.searches == 4 * 3  # rows, columns and maps of each
        match = next(match for match in found.matches if match.form == "as they are")
        threshold = match.p_value * found.searches
        assert self.search(model, bound=threshold * 1.0001).proven
        assert not any(m.form == "as they are" for m in self.search(model, bound=threshold * 0.9999).matches)
        for bound in (0.0, 1.0):
            with pytest.raises(dv.InputError, match=r"^bound: "):
                self.search(model, bound=bound)
        with pytest.raises(dv.InputError, match=r"^is_member: "):
            find_stored_records(model, self.RECORDS, self.IS_MEMBER[:-1])
        assert found.bound == FALSE_MATCH

    def test_rows_of_several_arrays_are_counted_together(self):
        found = self.search({"a": ROWS[:10], "b": ROWS[8:18], "c": ROWS[19:21]}, bound=0.2)
        assert (found.found, found.nonmembers_found) == (18, 0)
        assert [match.members for match in found.matches] == sorted((m.members for m in found.matches), reverse=True)

    def test_some_arrays_of_many_are_mapped(self, monkeypatch):
        monkeypatch.setattr(arrays, "_MOST_AFFINE", 2)
        long, short = 3 * ROWS[:15] + 1, RNG.normal(size=(5, 3))
        result = self.search({"a": short, "b": long, "c": short + 1})
        assert result.not_searched == ("a scale and shift was looked for in 2 of 3 arrays",)
        assert result.found == 15
        assert self.search({"b": long, "c": short}).not_searched == ()
        assert arrays._MOST_AFFINE == 2

    def test_columns_are_counted_with_those_that_vary(self):
        rows = np.column_stack([ROWS, np.full(40, 2.0)])
        found = find_stored_records({"a": rows[:18, [2, 0]]}, dv.Records(rows), self.IS_MEMBER)
        (match,) = [match for match in found.matches if match.columns]
        assert (match.columns, match.width, match.members) == (2, 3, 18)


class TestModels:
    def test_every_part_of_an_object_is_walked_once(self):
        shared = np.arange(3.0)
        model = SimpleNamespace(
            a=shared, again=shared, none=None, text="x", number=3, flag=np.array([True, False]), words=np.array(["a"]),
            nested={"k": [1, 2], 5: ({"deep": np.ones(2)},)}, objects=np.array([np.zeros(1), None], dtype=object),
            records=np.array([(1, 2.0)], dtype=[("i", int), ("f", float)]), rng=np.random.default_rng(0),
            mixed=[1, "a"], ragged=[[1], [1, 2]], huge=[10**400, 1], complex=np.ones(2, complex), empty=[],
        )  # fmt: skip
        model.itself = model
        found = {array.name: array.values.tolist() for array in collect_arrays(model)}
        assert found.pop("a", found.pop("again", None)) == [0, 1, 2]
        assert found == {
            "flag": [True, False], "nested.k": [1, 2], "nested.5.0.deep": [1, 1], "objects.0": [0.0],
            "records.i": [1], "records.f": [2.0], "ragged.0": [1], "ragged.1": [1, 2],
        }  # fmt: skip

    def test_a_model_of_too_many_parts_is_not_walked_to_its_end(self, monkeypatch):
        monkeypatch.setattr(arrays, "_MAX_PARTS", 3)
        model = {name: np.zeros(1) for name in "abcd"}
        assert len(collect_arrays(model)) == 2  # the mapping is a part too

    def test_sparse_matrices_are_taken_whole_or_by_their_values(self, monkeypatch):
        matrix = scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
        for limit, expected in ((9, np.diag([1.0, 2.0, 3.0])), (8, [1.0, 2.0, 3.0])):
            monkeypatch.setattr(arrays, "MAX_VALUES", limit)
            np.testing.assert_array_equal(arrays._as_numbers(matrix), expected)

    @pytest.mark.parametrize("library", [pd, pl])
    def test_frames_give_their_numbers_and_truth_values(self, library):
        frame = library.DataFrame({"a": [1, 2], "t": ["x", "y"], "b": [True, False], "c": [0.5, 1.5]})
        np.testing.assert_array_equal(arrays._frame_numbers(frame), [[1, 1, 0.5], [2, 0, 1.5]])
        assert arrays._frame_numbers(library.DataFrame({"t": ["x"]})) is None
        np.testing.assert_array_equal(arrays._frame_numbers(library.Series([1.0, 2.0])), [1, 2])
        assert arrays._frame_numbers(library.Series(["x"])) is None
        assert arrays._as_numbers(library.Series([True, False])).tolist() == [True, False]

    def test_a_forms_size_has_a_limit(self, monkeypatch):
        monkeypatch.setattr(arrays, "MAX_VALUES", 6)
        notes = []
        np.testing.assert_array_equal(
            arrays._as_table(np.array([[1, np.nan, 3], [4, 5, 6]]), notes), [[1, 0, 3], [4, 5, 6]]
        )
        assert arrays._as_table(np.array([["a"]]), notes) is None
        assert notes == []
        assert arrays._as_table(np.zeros((7, 1)), notes) is None
        assert notes == ["a form of the records has 7 values, more than 6"]
        assert arrays._as_table(scipy.sparse.csr_array(np.eye(2)), notes).tolist() == [[1, 0], [0, 1]]

    def test_lightgbms_text_is_read_up_to_the_end_of_its_trees(self):
        text = (
            "version=v4\nlabel=1 2\n\nTree=0\nleaf_count=3 4\nsplit=a b\n\nTree=1\nleaf_count=7\nend of trees\nlast=1\n"
        )
        found = {name: values.tolist() for name, values in arrays._parse_lightgbm(text).items()}
        assert found == {"header.label": [1, 2], "tree 0.leaf_count": [3, 4], "tree 1.leaf_count": [7]}

    @pytest.mark.parametrize(("name", "content", "message"), [
        ("m.json", b"{", "is not readable (JSONDecodeError)"),
        ("m.txt", b"\xff", "is not readable (UnicodeDecodeError)"),
        ("m.csv", b"", "cannot be looked into"),
    ])  # fmt: skip
    def test_files_that_cannot_be_read_are_refused_by_name(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(dv.InputError) as refusal:
            arrays.read_model(tmp_path / name)
        assert message in str(refusal.value)
        assert name in str(refusal.value)

    @pytest.mark.parametrize("name", ["m.TXT", "m.model", "m.lgb"])
    def test_endings_of_lightgbm(self, tmp_path, name):
        (tmp_path / name).write_text("Tree=0\nleaf_count=3 4\n")
        assert [array.name for array in collect_arrays(str(tmp_path / name))] == ["tree 0.leaf_count"]
        (tmp_path / "m.json").write_text(json.dumps({"a": [1, 2]}))
        assert [array.values.tolist() for array in collect_arrays(tmp_path / "m.json")] == [[1, 2]]

    def test_catboosts_leaves_are_those_of_each_tree(self):
        class Model:
            def __init__(self, weights, values, fitted=True):
                self.depth, self._weights, self._values, self._fitted = 2, weights, values, fitted

            def is_fitted(self):
                return self._fitted

            def get_leaf_weights(self):
                if self._weights is None:
                    raise AssertionError
                return self._weights

            def get_leaf_values(self):
                return self._values

            def get_tree_leaf_counts(self):
                return [2, 4]

        def leaves(*arguments):
            found = arrays._catboost_arrays(Model(*arguments))
            return {name: np.asarray(values).tolist() for name, values in found if name.startswith("trees")}

        assert leaves([1, 2, 3, 4, 5, 6], range(12)) == {
            "trees.0.leaf_weights": [1, 2], "trees.1.leaf_weights": [3, 4, 5, 6],
            "trees.0.leaf_values": [0, 1, 2, 3], "trees.1.leaf_values": list(range(4, 12)),
        }  # fmt: skip
        assert leaves(None, []) == leaves([1], [1], False) == {}
