"""Values that nobody should hand in, and the same values in other forms."""

import datetime as dt
import decimal
import fractions
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse
import torch


class _Rude:
    """Raises at whatever is asked of it."""

    def __repr__(self):
        raise RuntimeError("rude")

    def __array__(self, *_, **__):
        raise RuntimeError("rude")

    def __len__(self):
        raise RuntimeError("rude")


def _cycle():
    items = [1.0]
    items.append(items)
    return items


# In the place of any argument. Fresh ones for each case: some remember what was done with them.
ANYTHING = {
    "None": lambda: None,
    "True": lambda: True,
    "zero": lambda: 0,
    "one": lambda: 1,
    "minus one": lambda: -1,
    "a half more": lambda: 1.5,
    "minus zero": lambda: -0.0,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: -float("inf"),
    "2**70": lambda: 2**70,
    "-(2**70)": lambda: -(2**70),
    "10**400": lambda: 10**400,
    "1e308": lambda: 1e308,
    "5e-324": lambda: 5e-324,
    "a trillion": lambda: 10**12,
    "numpy int": lambda: np.int64(3),
    "numpy float": lambda: np.float64(0.25),
    "numpy NaN": lambda: np.float32("nan"),
    "numpy uint64": lambda: np.uint64(2**64 - 1),
    "numpy bool": lambda: np.True_,
    "0-d": lambda: np.array(0.5),
    "0-d object": lambda: np.array(None),
    "no text": lambda: "",
    "text": lambda: "abc",
    "digits": lambda: "1",
    "control characters": lambda: "\x1b[2J[red]\r\n\0",
    "half a pair": lambda: "\ud800",
    "long text": lambda: "x" * 100_000,
    "bytes": lambda: b"12",
    "a path": lambda: Path("nowhere"),
    "complex": lambda: 1j,
    "decimal": lambda: decimal.Decimal("0.5"),
    "fraction": lambda: fractions.Fraction(1, 2),
    "date": lambda: dt.date(2020, 1, 1),
    "no list": list,
    "no tuple": tuple,
    "[None]": lambda: [None],
    "[True]": lambda: [True],
    "[-1]": lambda: [-1],
    "[0.5]": lambda: [0.5],
    "['abc']": lambda: ["abc"],
    "ragged": lambda: [[1.0], [2.0, 3.0]],
    "cycle": _cycle,
    "dict": lambda: {"a": 1},
    "no dict": dict,
    "set": lambda: {1, 2},
    "generator": lambda: (i for i in range(3)),
    "object": object,
    "rude": _Rude,
    "a class": lambda: int,
    "a function": lambda: len,
    "a module": lambda: np,
    "no rows": lambda: np.empty((0, 2)),
    "no columns": lambda: np.empty((3, 0)),
    "3-d": lambda: np.zeros((2, 2, 2)),
    "9-d": lambda: np.zeros((1,) * 9),
    "objects": lambda: np.array([1.0, None, "a"], dtype=object),
    "texts": lambda: np.array(["a", "b"]),
    "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "complex array": lambda: np.array([1 + 2j, 3.0]),
    "records array": lambda: np.zeros(2, [("a", float)]),
    "masked": lambda: np.ma.array([1.0, 2.0], mask=[False, True]),
    "sparse": lambda: scipy.sparse.csr_matrix([[1.0, 0.0]]),
    "uint64": lambda: np.array([2**63 + 1, 1], np.uint64),
    "int64": lambda: np.array([2**53 + 1, 2**53]),
    "longdouble": lambda: np.array([1.0, "1e4000"], np.longdouble),
    "frame": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    "polars frame": lambda: pl.DataFrame({"a": [1.0, None]}),
    "missing": lambda: pd.Series([1, None], dtype="Int64"),
    "sparse tensor": lambda: torch.eye(2).to_sparse(),
    "no content": lambda: torch.empty(2, device="meta"),
}

# Counts that no run would end with.
VAST = ("a trillion", "2**70", "10**400", "numpy uint64")

# No function has an answer to these where it takes numbers.
NEVER = ("rude", "cycle", "complex array", "masked", "sparse", "longdouble", "records array", "dates", "NaN", "ragged")


def _put(value):
    def damage(array):
        array = array.astype(np.result_type(array, type(value)) if not isinstance(value, str | None) else object)
        array.flat[array.size // 2] = value
        return array

    return damage


def _masked(array):
    out = np.ma.array(array)
    out[(0,) * array.ndim] = np.ma.masked
    return out


# A valid array, damaged in one place: none of these has an answer where the array is one of numbers.
DAMAGED = {
    "a NaN in it": _put(float("nan")),
    "an infinity in it": _put(float("inf")),
    "a complex in it": _put(1j),
    "a None in it": _put(None),
    "a text in it": _put("abc"),
    "one masked": _masked,
    "as complex": lambda found: found.astype(complex),
    "as text": lambda found: found.astype(str),
    "as dates": lambda found: found.astype(np.int64).astype("datetime64[D]"),
}

# Still an array of numbers, of another shape or range: an answer may be right.
BENT = {
    "one more": lambda found: np.concatenate([found, found[:1]]),
    "one less": lambda found: found[1:],
    "none": lambda found: found[:0],
    "one": lambda found: found[:1],
    "0-d": lambda found: found.reshape(-1)[0],
    "flat": lambda found: found.reshape(-1),
    "a row": lambda found: found[None],
    "a column": lambda found: found[..., None],
    "transposed": lambda found: found.T,
    "negative": lambda found: -found.astype(float),
    "huge": lambda found: found.astype(float) * 1e300,
    "tiny": lambda found: found.astype(float) * 1e-320,
    "all the same": lambda found: np.full_like(found, found.reshape(-1)[0]),
    "halves": lambda found: found.astype(float) / 2,
    "int8": lambda found: found.astype(np.int8),
    "beyond 2^53": lambda found: found.astype(np.int64) + 2**60,
    "bool": lambda found: found.astype(bool),
}


def _frame(library):
    def as_frame(array):
        if array.ndim > 2:
            raise TypeError
        return library.Series(array) if array.ndim == 1 else library.DataFrame(array)

    return as_frame


def _strided(array):
    out = np.repeat(array, 2, axis=0)
    return out[::2]


def _read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


# The same array in another form: the same answer, or a refusal.
SAME = {
    "list": lambda found: found.tolist(),
    "tuple": lambda found: tuple(found.tolist()),
    "strided": _strided,
    "read-only": _read_only,
    "fortran": np.asfortranarray,
    "big-endian": lambda found: found.astype(found.dtype.newbyteorder(">")),
    "longdouble": lambda found: found.astype(np.longdouble) if found.dtype.kind == "f" else found,
    "object": lambda found: found.astype(object),
    "unmasked": np.ma.array,
    "pandas": _frame(pd),
    "polars": _frame(pl),
    "torch": torch.tensor,
    "with gradient": lambda found: torch.tensor(found, requires_grad=True),
}
