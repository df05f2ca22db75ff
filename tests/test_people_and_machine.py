"""Persons of several documents, random streams, cores and time, and what the package shows of itself."""

import datetime as dt

import numpy as np
import pytest

import divulge as dv
from divulge import errors, machine, people, runs, seeds
from divulge.errors import InputError
from divulge.types import SEPARATOR, Records


def refused(message):
    return pytest.raises(InputError, match=message)


class TestPeople:
    def test_documents_of_a_person_are_one_record_in_their_order(self):
        records = people.by_person(["a", "b", "c", f"d{SEPARATOR}e"], ["ann", "bob", "ann", 7])
        assert records.ids.tolist() == ["ann", "bob", "7"]
        assert [people.split_record(record) for record in records.x] == [["a", "c"], ["b"], ["d e"]]
        texts, counts = people.split_documents(records.x.tolist())
        assert (texts, counts.tolist()) == (["a", "c", "b", "d e"], [2, 1, 1])
        assert people.by_person(["a"], np.array([3])).ids.tolist() == ["3"]

    @pytest.mark.parametrize(
        ("texts", "names", "message"),
        [
            ([1.0], ["a"], r"texts: documents \(strings\) are needed, got float64"),
            (["a", "b"], ["x"], r"people: 2 names are needed \(one per document\), got 1"),
            (["a", "b"], np.array("x"), r"people: 2 names are needed \(one per document\), got 1"),
            (["a", "b"], ["x", None], "people: a text or a whole number is needed, got None in row 1"),
            (["a", "b"], ["x", " "], "got ' ' in row 1"), (["a", "b"], [True, "x"], "got True in row 0"),
            (["a", "b"], ["x", 1.5], "got 1.5 in row 1"),
        ],
    )  # fmt: skip
    def test_each_document_has_a_person(self, texts, names, message):
        with refused(message):
            people.by_person(texts, names)

    def test_shared_documents_are_those_of_two_sets(self):
        one = Records([f"a{SEPARATOR}b", "c"])
        assert people.find_shared_documents([one, Records(["c", "x"]), Records(["x", "b"])]) == {"c", "x", "b"}
        assert people.find_shared_documents([Records([f"a{SEPARATOR}a"]), Records(["b"])]) == set()
        assert people.find_shared_documents([Records(["a"]), Records(["a"])]) == set()
        remaining, has_any = people.remove_documents(one, {"b", "c"})
        assert (remaining.x.tolist(), has_any.tolist()) == (["a"], [True, False])
        nothing, has_any = people.remove_documents(one, {"a", "b", "c"})
        assert nothing is None
        assert has_any.tolist() == [False, False]


class TestMachine:
    @pytest.mark.parametrize("epoch", ["", "-1", "1.5", "x", "٣", "1" * 12])
    def test_a_time_that_is_set_is_whole_seconds(self, epoch, monkeypatch):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        with refused("^SOURCE_DATE_EPOCH: whole seconds since 1970 are needed, got "):
            machine.current_time()

    def test_the_time_is_that_of_the_clock_unless_it_is_set(self, monkeypatch):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "99999999999")
        assert machine.current_time() == "5138-11-16T09:46:39+00:00"
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
        assert machine.current_time() == "1970-01-01T00:00:00+00:00"
        monkeypatch.delenv("SOURCE_DATE_EPOCH")
        now = dt.datetime.fromisoformat(machine.current_time())
        assert abs(dt.datetime.now(dt.UTC) - now) < dt.timedelta(seconds=5)
        assert now.microsecond == 0

    def test_streams_are_those_of_seed_and_name(self):
        def draws(*path):
            return seeds.generator(*path).integers(10**9, size=3).tolist()

        streams = [draws(0, "a"), draws(0, "b"), draws(1, "a"), draws(0, "a", 1), draws(0, "a", 2), draws(0)]
        assert len({tuple(stream) for stream in streams}) == 6
        assert draws(0, "a") == streams[0]
        expected = np.random.SeedSequence(entropy=5, spawn_key=(0xE8B7BE43, 2)).generate_state(1)[0]
        assert seeds.derive_seed(5, "a", 2) == int(expected) // 2
        assert 0 <= seeds.derive_seed(0, "x") < 2**31
        with refused("seed: must be at least 0"):
            seeds.generator(-1)


class TestErrors:
    def test_errors_of_the_users_code_name_the_argument_and_its_reason(self):
        for error, text in (
            (ValueError("one\ntwo"), "target: your code raised ValueError: one"),
            (KeyError(), "target: your code raised KeyError: no message"),
        ):
            with pytest.raises(errors.UserCodeError) as caught, errors.user_code_errors("target"):
                raise error
            assert str(caught.value) == text
            assert caught.value.__cause__ is error
        hinted = errors.user_code_errors("target", hint="a hint")
        with pytest.raises(errors.UserCodeError, match=r": one \(a hint\)$"), hinted:
            raise ValueError("one")
        for passed in (InputError("mine"), errors.MissingExtraError("torch")):
            with pytest.raises(type(passed)) as caught, errors.user_code_errors("target"):
                raise passed
            assert caught.value is passed
        with pytest.raises(KeyError), errors.user_code_errors("target", KeyError):
            raise KeyError("a")

    def test_a_trace_shows_the_users_calls_alone(self):
        def mine():
            raise ValueError("here")

        with pytest.raises(errors.UserCodeError) as caught, errors.user_code_errors("target"):
            list(machine.map_in_threads(lambda _: mine(), [1]))
        trace = caught.value.traceback()
        assert "in mine" in trace
        assert "/divulge/machine.py" not in trace
        assert trace.endswith("ValueError: here\n")

    @pytest.mark.parametrize(
        ("error", "extra"),
        [
            (ModuleNotFoundError("x", name="torch.nn"), "torch"), (ModuleNotFoundError("x", name="PIL"), "images"),
            (ImportError("x", name="uvicorn.config"), "view"), (ModuleNotFoundError("x", name="nothing"), None),
            (ModuleNotFoundError("x"), None), (ValueError("torch"), None),
        ],
    )  # fmt: skip
    def test_a_missing_package_has_its_extra(self, error, extra):
        found = errors.as_missing_extra(error)
        assert (found is None) == (extra is None)
        if extra:
            assert f"pip install '.[{extra}]'" in str(found)

    def test_a_name_that_is_no_package_has_no_extra(self):
        error = ValueError("x")
        error.name = "torch"  # ty: ignore[unresolved-attribute]
        assert errors.as_missing_extra(error) is None


class TestPackage:
    def test_public_names_live_where_they_are_said_to(self):
        assert dv.compare.__name__ == "compare_runs"
        assert dv.by_person is people.by_person
        assert dv.recipes.__name__ == "divulge.recipes"
        assert dv.canaries.__name__ == "divulge.canaries"
        assert "recipes" not in dir(dv)
        assert dir(dv) == sorted(dv.__all__)
        with pytest.raises(AttributeError, match="module 'divulge' has no attribute 'nothing'"):
            _ = dv.nothing

    def test_kinds_of_runs_have_one_name_each(self, tmp_path, monkeypatch):
        monkeypatch.setattr(runs, "RUN_KINDS", dict(runs.RUN_KINDS))
        (first, *_) = runs.RUN_KINDS.values()
        runs.register(first)
        other = type("Kind", (), {"name": first.name})()
        with refused(f"^kind: '{first.name}' is registered already"):
            runs.register(other)
        new = type("Kind", (), {"name": "new"})()
        runs.register(new)
        assert runs.RUN_KINDS["new"] is new
        monkeypatch.setattr(runs.RunDirectory, "kind", lambda self: "odd")
        with refused("a run of kind 'odd' has no report; one of "):
            runs.find_kind(tmp_path)
