"""Steps of completing records, against formulas that are written down again, and masks at their limits."""

from dataclasses import replace

import numpy as np
import pytest

from divulge import completion
from divulge.completion import imputers
from divulge.completion.imputers import Perceptron, RecordColumns
from divulge.errors import InputError
from divulge.types import PartialRecords, Records

NAN = np.nan


def refused(message):
    return pytest.raises(InputError, match=message)


def describe(rows, dtype=float):
    return RecordColumns.from_array(np.array(rows, dtype=dtype))


def naive_groups(x):
    """The first run of at least two columns of 0 and 1 of which each record has exactly one; then the next after it."""
    groups, start = [], 0
    while start < x.shape[1]:
        ends = [
            end for end in range(start + 2, x.shape[1] + 1)
            if np.isin(x[:, start:end], (0, 1)).all() and (x[:, start:end].sum(axis=1) == 1).all()
            and not (x[:, start] == 1).all()
        ]  # fmt: skip
        if ends:
            groups.append(list(range(start, ends[0])))
        start = ends[0] if ends else start + 1
    return groups


class TestColumns:
    @pytest.mark.parametrize(
        ("rows", "groups", "binary"),
        [
            ([[1, 0], [0, 1]], [[0, 1]], [False, False]), ([[1, 0], [0, 0]], [], [True, True]),
            ([[1, 1], [0, 1]], [], [True, True]), ([[1, 0, 1], [0, 1, 0]], [[0, 1]], [False, False, True]),
            ([[0, 1, 0, 1], [0, 0, 1, 0]], [[0, 1, 2]], [False, False, False, True]), ([[1], [1]], [], [True]),
            ([[0.5, 1, 0], [2, 0, 1]], [[1, 2]], [False, False, False]), ([[1, 0, 0], [1, 1, 0]], [], [True] * 3),
            ([[1, 0, 1, 0], [0, 1, 0, 1]], [[0, 1], [2, 3]], [False] * 4),
        ],
    )  # fmt: skip
    def test_categories_are_runs_of_which_each_record_has_one(self, rows, groups, binary):
        columns = describe(rows)
        assert [group.tolist() for group in columns.groups] == groups
        assert columns.binary.tolist() == binary
        assert len(columns) == len(rows[0])

    def test_runs_are_those_of_all_small_tables(self):
        rng = np.random.default_rng(0)
        for _ in range(150):
            x = (rng.random((3, 5)) < 0.4).astype(float)
            x[rng.random(3) < 0.1, rng.integers(5)] = 2
            assert [group.tolist() for group in describe(x).groups] == naive_groups(x)

    def test_columns_have_their_range_and_type(self):
        columns = describe([[1, -2], [1, 5]], int)
        assert (columns.low.tolist(), columns.high.tolist()) == ([1, -2], [1, 5])
        assert columns.varying.tolist() == [False, True]
        assert columns.are_integers
        assert not describe([[1, 2]]).are_integers

    def test_values_are_brought_into_range_rounded_and_drawn(self):
        columns = describe([[0, 0, 1], [4, 1, 3]])
        filled, known = np.array([[9.0, 0.4, 2.5], [-9.0, 7.0, -2.0]]), np.array([[False] * 3, [False, False, True]])
        assert columns.settle(filled, known, None).tolist() == [[4, 0.4, 2.5], [0, 1, -2]]
        whole = replace(columns, are_integers=True)
        assert whole.settle(filled, np.zeros((2, 3), bool), None).tolist() == [[4, 0, 2], [0, 1, 1]]
        assert whole.settle(filled, np.ones((2, 3), bool), None).tolist() == filled.tolist()
        many = np.tile([1.0, 0.25, 2.0], (4000, 1))
        drawn = columns.settle(many, np.zeros((4000, 3), bool), np.random.default_rng(0))[:, 1]
        assert set(drawn.tolist()) == {0, 1}
        assert drawn.mean() == pytest.approx(0.25, abs=0.04)
        kept = columns.settle(many, np.ones((4000, 3), bool), np.random.default_rng(0))
        assert (kept[:, 1] == 0.25).all()


X = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 30.0], [9.0, 70.0]])
Y = np.array([0, 0, 1, 1])


def complete(imputer, x, known, y=None, auxiliary=(X, Y), **options):
    return imputer.fit(Records(*auxiliary)).complete(PartialRecords(x, y, known), **options)


class TestImputers:
    def test_records_that_stand_among_the_auxiliary_ones_are_found_by_their_own_mask(self):
        auxiliary = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        x = np.array([[1.0, 9.0, 3.0], [1.0, 9.0, 3.0], [4.0, 5.0, 0.0], [4.0, 2.0, 0.0], [1.0, 2.0, 3.0]])
        known = np.array([[1, 0, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1]], bool)
        assert completion.overlap(PartialRecords(x, None, known), auxiliary).tolist() == [
            True,
            False,
            True,
            False,
            True,
        ]
        with refused(r"auxiliary: the shape \(3,\) is needed, got \(2,\)"):
            completion.overlap(PartialRecords(x, None, known), auxiliary[:, :2])

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

    @pytest.mark.parametrize("share", [0.25, 1.0])
    def test_a_share_shrinks_towards_the_mean_variance(self, share):
        centred = np.array([[1.0, 2.0], [-1.0, 0.0], [0.0, -2.0]])
        empirical = centred.T @ centred / 3
        expected = (1 - share) * empirical + share * np.eye(2) * np.trace(empirical) / 2
        np.testing.assert_allclose(completion.ConditionalGaussian(share)._covariance(centred), expected)

    def test_a_constant_column_stays_what_it_is(self):
        x = np.column_stack([np.arange(6.0), np.full(6, 3.0), np.arange(6.0) ** 2])
        found = complete(completion.ConditionalGaussian(0.1), [[2.0, NAN, NAN]], [True, False, False], auxiliary=(x,))
        assert found[0, 0, 1] == 3
        known = complete(completion.ConditionalGaussian(0.1), [[NAN, 3.0, 4.0]], [False, True, True], auxiliary=(x,))
        assert np.isfinite(known).all()

    @pytest.mark.parametrize(("n", "is_warned"), [(5, False), (4, True), (3, True)])
    def test_more_records_than_columns_are_asked_for(self, n, is_warned):
        x = np.random.default_rng(0).normal(size=(n, 4))
        warnings = completion.ConditionalGaussian().fit(Records(x)).warnings
        assert warnings == ((f"{n} auxiliary records for 4 columns: the covariance is mostly shrinkage",) if is_warned
                            else ())  # fmt: skip

    @pytest.mark.parametrize(("share", "fits"), [(0.0, False), (1e-9, True), (1.0, True), (1.1, False), (-0.1, False)])
    def test_a_shrinkage_is_a_share(self, share, fits):
        if fits:
            assert completion.ConditionalGaussian(share).shrinkage == share
            return
        with refused("^shrinkage: must lie in"):
            completion.ConditionalGaussian(share)

    def test_two_records_are_enough(self):
        assert imputers.flatten_records(Records(X[:2]))[0].shape == (2, 2)
        with refused("at least 2 records are needed, got 1"):
            imputers.flatten_records(Records(X[:1]))


class TestNetworks:
    def test_layers_have_relu_between_and_standardise_first(self):
        rng = np.random.default_rng(0)
        layers = [(rng.normal(size=(3, 4)), rng.normal(size=4)), (rng.normal(size=(4, 2)), np.full(2, -1.5))]
        centre, scale, x = rng.normal(size=3), rng.random(3) + 1, rng.normal(size=(5, 3))
        hidden = np.maximum((x - centre) / scale @ layers[0][0] + layers[0][1], 0)
        expected = hidden @ layers[1][0] + layers[1][1]
        network = Perceptron(centre, scale, tuple(layers))
        np.testing.assert_allclose(network.outputs(x), expected)
        np.testing.assert_allclose(network.outputs(x.reshape(5, 3, 1)), expected)
        assert (expected < 0).any()


class TestMasks:
    @pytest.mark.parametrize(
        ("words", "rows", "columns"),
        [
            ("top-left", (0, 2), (0, 3)), ("top-right", (0, 2), (3, 6)), ("bottom-left", (2, 4), (0, 3)),
            ("bottom-right", (2, 4), (3, 6)), ("centre", (1, 3), (1, 4)),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (3, 4, 6), (1, 4, 6), (4, 6, 1), (4, 6, 4)])
    def test_a_block_stands_in_its_corner(self, words, rows, columns, shape):
        expected = np.zeros((4, 6), bool)
        expected[slice(*rows), slice(*columns)] = True
        found = completion.mask(f"block:{words}:0.25", shape)
        assert found.shape == shape
        axis = None if len(shape) == 2 else 0 if shape[0] != 4 else 2
        flat = found if axis is None else found.take(0, axis)
        assert flat.tolist() == expected.tolist()
        assert axis is None or (found.all(axis=axis) == found.any(axis=axis)).all()

    @pytest.mark.parametrize(
        ("words", "shape", "count"),
        [
            ("share:0.001", (4,), 1), ("share:0.6", (4,), 2), ("share:0.65", (4,), 3), ("share:1", (4,), 4),
            ("values:0.001", (2, 2, 3), 1), ("share:0.001", (2, 2, 3), 3), ("block:centre:0.001", (4, 4), 1),
            ("values:0.5", (2, 3, 4, 5), 60), ("share:0.5", (2, 3, 4, 5), 60),
        ],
    )  # fmt: skip
    def test_something_is_known_at_least(self, words, shape, count):
        assert completion.mask(words, shape).sum() == count

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

    @pytest.mark.parametrize(
        ("words", "options", "message"),
        [
            ("share:nan", {}, r"a share in \(0, 1\] is needed, got nan"), ("share:0", {}, "got 0"),
            ("share:1.0001", {}, "got 1.0001"), ("share:x", {}, "got 'x'"),
            ("other:1", {}, "^known: 'other' is unknown"),
            ("block:middle:0.5", {}, "^known: block: 'middle' is unknown"), ("block:centre:0.5", {}, "is for images"),
            ("share:0.5:all", {}, "^known: after share:0.5: 'all' is unknown"),
            ("share:0.5:each", {}, r"say how many there are \(records=n\)"), ("", {}, "^known: a text is needed"),
            ("share:0.5", {"shape": (0,)}, "^shape: must be at least 1"), ("share:0.5", {"seed": -1}, "^seed: must be"),
            ("share:0.5", {"records": 0}, "^records: must be at least 1"),
            ("share:0.5", {"records": 2**31 + 1}, "^records: must be at most"),
            ("share:0.5", {"shape": (2**31 + 1,)}, "^shape: must be at most"),
        ],
    )  # fmt: skip
    def test_other_masks_are_refused(self, words, options, message):
        with refused(message):
            completion.mask(words, **{"shape": (4,)} | options)

    def test_masks_are_the_seeds(self):
        first, other = (completion.mask("share:0.5", (40,), seed=seed) for seed in (0, 1))
        assert first.tolist() != other.tolist()
        assert completion.mask("share:0.5", (40,)).tolist() == first.tolist()
        each = completion.mask("share:0.5:each", (40,), records=1)
        assert each.shape == (1, 40)
        assert completion.mask("share:0.5", (40,), records=3).shape == (40,)
