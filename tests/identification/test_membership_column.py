"""Reading a column of membership, and naming rows, up to as many as a message holds."""

import numpy as np
import polars as pl
import pytest

from divulge import InputError
from divulge.identification.score_tables import MembershipReader


def test_every_spelling_is_read_whatever_its_case_and_spaces():
    yes = ["1", "1.0", "TRUE", " t ", "Yes", "y", "member", "Members"]
    no = ["0", "0.0", "False", "F", "no", "N", "nonmember", "non-member", "nonmembers", "Non-Members"]
    unknown = ["", " ", "NaN", "null", "None", "NA", None]
    reader = MembershipReader()
    assert reader.read(pl.Series(yes)).to_list() == [True] * len(yes)
    assert reader.read(pl.Series(no)).to_list() == [False] * len(no)
    assert reader.read(pl.Series(unknown)).to_list() == [None] * len(unknown)
    reader.check("used", "candidates")


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("wrong", [1, 4, 5, 6, 9])
def test_five_values_that_cannot_be_read_are_named_and_that_there_are_more(wrong, batches):
    values = [f" v{i} " for i in range(wrong)]
    reader = MembershipReader()
    for part in np.array_split(np.array([*values, "yes"] * 2), batches):
        reader.read(pl.Series(part.tolist()))
    named = ", ".join(f"'v{i}'" for i in range(min(wrong, 5))) + (", …" if wrong > 5 else "")
    with pytest.raises(InputError) as error:
        reader.check("used", "candidates")
    assert str(error.value) == (
        "truth: column 'used' of candidates must hold yes and no, true and false, 1 and 0 or member and nonmember, "
        f"got {named}"
    )


def test_a_column_with_a_value_in_any_batch_is_not_empty():
    empty, late, early = MembershipReader(), MembershipReader(), MembershipReader()
    for reader, batches in (
        (empty, [["", None], ["na"]]), (late, [[None], ["no", None]]), (early, [["no"], [None, ""]]),
    ):  # fmt: skip
        for batch in batches:
            reader.read(pl.Series(batch, dtype=pl.String))
    late.check("used", "candidates")
    early.check("used", "candidates")
    with pytest.raises(InputError, match="column 'used' of candidates is empty in every row"):
        empty.check("used", "candidates")
