"""Columns in memory, and what other libraries make of them."""

import numpy as np
import polars as pl
import pytest

from divulge.frames import Frame, concat

FRAME = Frame({"id": np.array(["a", "b", "c"], object), "score": np.array([0.5, 2.0, -1.0]), "n": np.arange(3)})


def test_rows_and_columns_are_chosen():
    assert (len(FRAME), FRAME.names, "id" in FRAME, "x" in FRAME) == (3, ("id", "score", "n"), True, False)
    assert FRAME.select(["n", "id"]).names == ("n", "id")
    assert FRAME.drop(["n"]).names == ("id", "score")
    assert FRAME.where(FRAME["score"] > 0)["id"].tolist() == ["a", "b"]
    assert FRAME.where(np.array([2, 0]))["id"].tolist() == ["c", "a"]
    assert FRAME.slice(1, 2)["n"].tolist() == [1]
    assert FRAME.renamed({"n": "number"}).names == ("id", "score", "number")
    assert FRAME.with_columns({"n": np.ones(3)})["n"].tolist() == [1, 1, 1]
    assert list(FRAME.rows())[1] == {"id": "b", "score": 2.0, "n": 1}
    assert len(Frame({})) == 0


def test_columns_have_one_length():
    with pytest.raises(ValueError, match="one length"):
        Frame({"a": np.ones(2), "b": np.ones(3)})


def test_frames_are_put_below_each_other():
    twice = concat([FRAME, FRAME.select(["n", "score", "id"])])
    assert twice["id"].tolist() == ["a", "b", "c"] * 2
    assert concat([FRAME]) is FRAME
    with pytest.raises(KeyError, match="id"):
        concat([FRAME, FRAME.drop(["id"])])


def test_polars_takes_a_frame_as_it_is():
    assert pl.DataFrame(FRAME).rows() == [("a", 0.5, 0), ("b", 2.0, 1), ("c", -1.0, 2)]
