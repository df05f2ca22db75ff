"""What the search for rows in arrays says of what it cannot search, and how its parts share one bound."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.inspection import collect_arrays, find_stored_records, model_arrays
from divulge.results import FALSE_MATCH

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))


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
            monkeypatch.setattr(model_arrays, "MAX_VALUES", max(most, 120))
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
        monkeypatch.setattr(model_arrays, "_MAX_PARTS", 3)
        model = {name: np.zeros(1) for name in "abcd"}
        assert len(collect_arrays(model)) == 2  # the mapping is a part too

    @pytest.mark.parametrize(("name", "content", "message"), [
        ("m.json", b"{", "is not readable (JSONDecodeError)"),
        ("m.txt", b"\xff", "is not readable (UnicodeDecodeError)"),
        ("m.csv", b"", "cannot be looked into"),
    ])  # fmt: skip
    def test_files_that_cannot_be_read_are_refused_by_name(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(dv.InputError) as refusal:
            model_arrays.read_model(tmp_path / name)
        assert message in str(refusal.value)
        assert name in str(refusal.value)

    @pytest.mark.parametrize("name", ["m.TXT", "m.model", "m.lgb"])
    def test_endings_of_lightgbm(self, tmp_path, name):
        (tmp_path / name).write_text("Tree=0\nleaf_count=3 4\n")
        assert [array.name for array in collect_arrays(str(tmp_path / name))] == ["tree 0.leaf_count"]
        (tmp_path / "m.json").write_text(json.dumps({"a": [1, 2]}))
        assert [array.values.tolist() for array in collect_arrays(tmp_path / "m.json")] == [[1, 2]]
