"""Imputers of one's own, columns that do not vary, and masks in words."""

import numpy as np
import pytest

from divulge import completion
from divulge.errors import InputError
from divulge.types import PartialRecords, Records

NAN = np.nan


def refused(message):
    return pytest.raises(InputError, match=message)


X = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 30.0], [9.0, 70.0]])
Y = np.array([0, 0, 1, 1])


def complete(imputer, x, known, y=None, auxiliary=(X, Y), **options):
    return imputer.fit(Records(*auxiliary)).complete(PartialRecords(x, y, known), **options)


class TestImputers:
    def test_own_functions_are_given_what_is_known(self):
        seen = []

        def fill(x, known, labels, auxiliary, rng):
            seen.append((x.copy(), known, labels, auxiliary, rng))
            return np.full(x.shape, 5.0 + len(seen))

        found = complete(completion.CustomImputer(fill), [[1.0, 3.0]], [True, False], [1], draws=2)
        assert found.tolist() == [[[1, 6]], [[1, 7]]]
        x, known, labels, auxiliary, rng = seen[0]
        assert np.isnan(x).tolist() == [[False, True]]
        assert (known.tolist(), labels.tolist(), auxiliary.tolist()) == ([[True, False]], [1], X.tolist())
        assert rng is not None
        seen.clear()
        assert complete(completion.CustomImputer(fill), [[1.0, 3.0]], [True, False]).tolist() == [[[1, 6]]]
        assert seen[0][4] is None
        assert completion.CustomImputer(fill).fit(Records(X)).name == "fill"
        assert isinstance(completion.imputer(fill), completion.CustomImputer)
        mean = completion.Mean()
        assert completion.imputer(mean) is mean
        for dtype in (np.int64, np.float32):
            typed = complete(completion.Mean(), [[1.0, 3.0]], [True, False], auxiliary=(X.astype(dtype),))
            assert typed.dtype == dtype


class TestGaussian:
    sigma = np.array([[2.0, 0.5, 0.3, 0.1], [0.5, 1.0, 0.2, 0.4], [0.3, 0.2, 1.5, 0.6], [0.1, 0.4, 0.6, 1.2]])

    def test_a_constant_column_stays_what_it_is(self):
        x = np.column_stack([np.arange(6.0), np.full(6, 3.0), np.arange(6.0) ** 2])
        found = complete(completion.ConditionalGaussian(0.1), [[2.0, NAN, NAN]], [True, False, False], auxiliary=(x,))
        assert found[0, 0, 1] == 3
        known = complete(completion.ConditionalGaussian(0.1), [[NAN, 3.0, 4.0]], [False, True, True], auxiliary=(x,))
        assert np.isfinite(known).all()

    @pytest.mark.parametrize(("share", "fits"), [(0.0, False), (1e-9, True), (1.0, True), (1.1, False), (-0.1, False)])
    def test_a_shrinkage_is_a_share(self, share, fits):
        if fits:
            assert completion.ConditionalGaussian(share).shrinkage == share
            return
        with refused("^shrinkage: must lie in"):
            completion.ConditionalGaussian(share)


class TestMasks:
    @pytest.mark.parametrize(
        ("words", "rows", "columns"),
        [
            ("top-left", (0, 2), (0, 3)), ("top-right", (0, 2), (3, 6)), ("bottom-left", (2, 4), (0, 3)),
            ("bottom-right", (2, 4), (3, 6)), ("centre", (1, 3), (1, 4)),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (3, 4, 6)])
    def test_a_block_stands_in_its_corner(self, words, rows, columns, shape):
        expected = np.zeros((4, 6), bool)
        expected[slice(*rows), slice(*columns)] = True
        found = completion.mask(f"block:{words}:0.25", shape)
        assert found.shape == shape
        axis = None if len(shape) == 2 else 0 if shape[0] != 4 else 2
        flat = found if axis is None else found.take(0, axis)
        assert flat.tolist() == expected.tolist()
        assert axis is None or (found.all(axis=axis) == found.any(axis=axis)).all()

    def test_columns_are_known_by_name_beginning_or_position(self):
        columns = ["age", "sex=f", "sex_m", "sexual", "7"]

        def known(words):
            return np.flatnonzero(completion.mask(f"columns:{words}", (5,), columns=columns)).tolist()

        assert known("sex") == [1, 2]
        assert known("age, sexual") == [0, 3]
        assert known("7") == [4]
        assert known("0,4") == [0, 4]
        for words in ("5", "-1", "height"):
            with refused("^known: column: "):
                known(words)
        with refused(r"^known: column: '3' is unknown.*\(known: 0 to 2\)$"):
            completion.mask("columns:3", (3,))
        assert completion.mask("columns:2", (3,)).tolist() == [False, False, True]
        with refused(r"'columns' is for rows of a table, the records have the shape \(2, 2\)"):
            completion.mask("columns:0", (2, 2))

    def test_masks_are_the_seeds(self):
        first, other = (completion.mask("share:0.5", (40,), seed=seed) for seed in (0, 1))
        assert first.tolist() != other.tolist()
        assert completion.mask("share:0.5", (40,)).tolist() == first.tolist()
        each = completion.mask("share:0.5:each", (40,), records=1)
        assert each.shape == (1, 40)
        assert completion.mask("share:0.5", (40,), records=3).shape == (40,)
