"""What may be handed in as numbers: the same values in any form give the same array, the rest is refused by name."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch

import divulge as dv
from divulge import seeds
from divulge.validation import (
    available_memory,
    check_array,
    check_choice,
    check_ids,
    check_integer,
    check_labels,
    check_mask,
    check_matrix,
    check_memory,
    check_number,
    check_records,
    check_vector,
)

VALUES = [0.25, -1.5, 3.0]
SAME = {
    "list": list,
    "tuple": tuple,
    "float32": lambda v: np.array(v, np.float32),
    "longdouble": lambda v: np.array(v, np.longdouble),
    "big-endian": lambda v: np.array(v, ">f8"),
    "read-only": lambda v: np.broadcast_to(np.array(v), (3,)),
    "strided": lambda v: np.repeat(v, 2)[::2],
    "pandas": pd.Series,
    "pandas nullable": lambda v: pd.Series(v, dtype="Float64"),
    "polars": pl.Series,
    "unmasked": np.ma.array,
    "torch": torch.tensor,
    "torch with gradient": lambda v: torch.tensor(v, requires_grad=True),
    "torch bfloat16": lambda v: torch.tensor(v, dtype=torch.bfloat16),
    "torch half": lambda v: torch.tensor(v, dtype=torch.float16),
    "torch negated lazily": lambda v: torch.complex(torch.zeros(3), -torch.tensor(v)).conj().imag,
}


@pytest.mark.parametrize("form", SAME)
def test_the_same_values_in_any_form_give_the_same_vector(form):
    vector = check_vector(SAME[form](VALUES), "scores")
    assert vector.dtype == np.float64
    assert vector.dtype.isnative
    assert vector.tolist() == VALUES


REFUSED = {
    "masked": (np.ma.array([1.0, 2.0], mask=[False, True]), "1 of 2 values are masked"),
    "sparse": (scipy.sparse.csr_matrix([[1.0, 0.0]]), r"sparse csr_matrix .* \.toarray\(\)"),
    "sparse tensor": (torch.eye(2).to_sparse(), "torch.sparse_coo cannot be read"),
    "tensor without content": (torch.empty(2, device="meta"), "cannot be read as an array"),
    "complex": ([1 + 2j], "dtype complex128"),
    "complex tensor": (torch.tensor([1 + 2j]), "dtype complex64"),
    "dates": (np.array(["2020-01-01"], "datetime64[D]"), "dtype datetime64"),
    "durations": (np.array([3], "timedelta64[s]"), "dtype timedelta64"),
    "None inside": ([1.0, None], r"got None \(NoneType\)"),
    "text inside": (pd.Series([1.0, "a"]), r"got 'a' \(str\)"),
    "decimals": ([decimal.Decimal(1)], r"\(Decimal\)"),
    "huge": ([2**70, 1], "which does not fit into 64 bits"),
    "dict": ({"a": 1}, r"\(dict\)"),
    "nothing": (None, r"got None \(NoneType\)"),
    "bytes": (b"12", r"dtype \|S2"),
    "uint64": (np.array([2**63 + 1], np.uint64), r"beyond ±2\^53 .* got 9223372036854775809"),
    "int64": (np.array([2**53 + 1, 2**53], np.int64), r"beyond ±2\^53 .* got 9007199254740993"),
    "negative int64": (np.array([-(2**60)]), r"beyond ±2\^53"),
    "longdouble": (np.array([1.0, "1e4000"], np.longdouble), "1 values of .* too large for float64"),
    "pandas missing": (pd.Series([1, None], dtype="Int64"), "NA|NaN"),
    "polars missing": (pl.Series([1, None]), "1 values are NaN"),
    "ragged": ([[1.0], [2.0, 3.0]], "rows of different lengths"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("check", [check_array, check_records, check_vector, check_matrix, check_labels])
def test_what_is_not_numbers_is_refused_by_name(case, check):
    value, message = REFUSED[case]
    with pytest.raises(dv.InputError, match=f"scores: .*(?:{message})") as caught:
        check(value, "scores")
    assert "np." not in str(caught.value)


def test_whole_numbers_that_float64_holds_are_kept():
    assert check_array(np.array([2**53, -(2**53)]), "x").tolist() == [2**53, -(2**53)]
    assert check_ids([2**62, 2**62 + 1], "ids", 2).tolist() == [2**62, 2**62 + 1]


@pytest.mark.parametrize("value", [None, True, "1", 1.0, np.float64(1), [1], np.array([1]), 0, -1, 10**400 * -1])
def test_a_count_is_a_whole_number(value):
    with pytest.raises(dv.InputError, match=r"^count: ") as caught:
        check_integer(value, "count", minimum=1)
    assert "np." not in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, True, "1", [0.5], np.array(0.5), 1j, decimal.Decimal("0.5"), float("nan"), np.float32(0), 10**400]
)
def test_a_level_is_a_number_between_its_bounds(value):
    with pytest.raises(dv.InputError, match=r"^fdr: ") as caught:
        check_number(value, "fdr", above=0, below=1)
    assert "np." not in str(caught.value)


def test_a_value_without_a_usable_repr_is_named_by_its_type():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(dv.InputError, match="of type Rude"):
        check_choice(Rude(), "method", ("bh",))
    with pytest.raises(dv.InputError, match="is unknown") as caught:
        check_choice("x" * 10**6, "method", ("bh",))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("seed", [None, 1.0, -1, "0"])
def test_a_seed_is_never_left_to_chance(seed):
    with pytest.raises(dv.InputError, match=r"^seed: "):
        seeds.generator(seed, "splits")
    with pytest.raises(dv.InputError, match=r"^seed: "):
        dv.identify(np.arange(9.0), np.arange(9.0), seed=seed)


def test_what_does_not_fit_into_memory_is_refused_with_both_sizes(monkeypatch):
    check_memory(2**20, "count", "")
    monkeypatch.setattr("divulge.validation.available_memory", lambda: 2**30)
    with pytest.raises(dv.InputError, match=r"^count: about 3 GiB of memory are needed, 1 GiB are free; fewer$"):
        check_memory(3 * 2**30, "count", "fewer")


def test_free_memory_is_what_the_container_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr("divulge.validation._CGROUP", tmp_path)
    in_total = available_memory()
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert available_memory() == 400
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory() == pytest.approx(in_total, rel=0.5)


def test_a_mask_is_of_truth_values_alone_and_of_the_shape_that_is_asked_for():
    mask = np.array([[True, False], [False, False]])
    assert check_mask(mask, "m", (None, 2)) is mask
    assert check_mask(mask[0], "m", (3, 2)).tolist() == [[True, False]] * 3
    for values, advice in (([1, 0], "; pass np.asarray.* == 1"), ([0, 2], "$"), ([0.1, 1.0], "$"), (["yes"], "$")):
        with pytest.raises(dv.InputError, match=rf"^m: bool values are needed, got dtype \S+{advice}"):
            check_mask(values, "m", (None,))
    with pytest.raises(dv.InputError, match=r"^m: shape \(3, 2\) is needed, got \(2, 2\)$"):
        check_mask(mask, "m", (3, 2))
