"""Integer codes: every labelling is read back, exactly, with the fewest queries and no weight beyond its bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge.labels import codes


@given(
    n=st.integers(1, 300),
    base=st.integers(2, 6),
    bound=st.integers(1, 2**40),
    dense=st.booleans(),
    max_bits=st.integers(0, 5),
    seed=st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_every_labelling_is_read_back(n, base, bound, dense, max_bits, seed):
    code = codes.build_code(n, base, bound, dense=dense, max_bits=max_bits)
    labels = np.random.default_rng(seed).integers(0, base, n)
    sums = []
    for query in range(code.count):
        start, weights = code.weights(query)
        assert np.abs(weights).max() <= bound
        sums.append(int(weights @ labels[start : start + len(weights)]))
    decoded, sound = code.decode(np.array(sums))
    assert (decoded == labels).all()
    assert sound.all()


@pytest.mark.parametrize("size", range(1, 15))
def test_conway_guy_sets_are_sum_distinct(size):
    members = codes.conway_guy(size)
    sums = {sum(c) for r in range(size + 1) for c in itertools.combinations(members, r)}
    assert len(sums) == 2**size


def test_impossible_sums_are_not_sound():
    code = codes.build_code(30, 2, 5, dense=False, max_bits=3)
    sums = np.zeros(code.count, dtype=np.int64)
    sums[1] = 10_000
    assert not code.decode(sums)[1].all()


def test_a_million_labels_never_need_a_dense_matrix():
    code = codes.build_code(1_000_000, 2, 81, dense=False, max_bits=8)
    largest = max(array.nbytes for shape in code.shapes for array in (*shape.spread, *shape.cells))
    assert largest < 200e6
    rng = np.random.default_rng(0)
    block = code.shapes[0]
    labels = rng.integers(0, 2, (3, block.capacity))
    sums = np.stack([labels @ block.weights(q, block.capacity) for q in range(block.count)], axis=1)
    assert (block.decode(sums)[0] == labels).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 32, 33])
def test_a_detecting_code_reads_every_labelling_with_the_fewest_sets(n):
    code = codes.detecting_code(n)
    asked = codes.detecting_queries(code)
    count = next(count for count in itertools.count() if sum(number.bit_count() for number in range(count + 1)) >= n)
    assert len(asked) == count == code.count - 1
    rng = np.random.default_rng(n)
    for y in itertools.product((0, 1), repeat=n) if n < 6 else rng.integers(0, 2, (30, n)):
        sums = np.zeros(code.count, dtype=np.int64)
        for query in asked:
            start, weights = code.weights(int(query))
            assert set(weights.tolist()) <= {0, -1}
            sums[query] = weights @ np.array(y)[start : start + len(weights)]
        decoded, sound = code.decode(sums)
        assert decoded.tolist() == list(y)
        assert sound.all()
