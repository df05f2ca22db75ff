"""Integer codes: every labelling is read back, exactly, and no weight exceeds its bound."""

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


@pytest.mark.parametrize(("n", "bound"), [(1, 1), (50, 3), (198, 17444), (2201, 81), (2201, 1)])
def test_the_count_is_the_smallest_that_reads_all_rows(n, bound):
    # Naive: add up, number by number, what each subset reads.
    total = count = 0
    while total < n:
        total += codes.max_set_size(2, bound << count.bit_count(), dense=True)
        count += 1
    assert codes.count_queries(n, 2, bound, True, 11) == count


def test_relaxing_the_bound_keeps_the_number_of_queries():
    for bound in (5, 81, 1569, 8188):
        small = codes.relax_bound(2201, 2, bound, dense=True, max_bits=11)
        assert small <= bound
        assert codes.count_queries(2201, 2, small, True, 11) == codes.count_queries(2201, 2, bound, True, 11)


def test_totals_are_the_sums_over_all_rows():
    code = codes.build_code(40, 3, 7, dense=False, max_bits=2)
    alphabet = code.alphabet()
    values = np.random.default_rng(0).normal(size=len(alphabet))
    naive = []
    for query in range(code.count):
        weights = np.zeros(40, dtype=np.int64)
        start, part = code.weights(query)
        weights[start : start + len(part)] = part
        naive.append(values[np.searchsorted(alphabet, weights)].sum())
    assert np.allclose(code.totals(alphabet, values), naive)


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


@pytest.mark.parametrize(("n", "max_bits", "bound"), [(29, 3, 5), (2201, 0, 81), (7, 4, 1)])
def test_digits_beyond_the_last_row_betray_the_last_block(n, max_bits, bound):
    code = codes.build_code(n, 2, bound, dense=False, max_bits=max_bits)
    width = sum(r * s.capacity for r, s in zip(code.repeats, code.shapes, strict=True))
    assert width > n
    padded = np.random.default_rng(0).integers(0, 2, width)
    padded[n:] = 0
    sums, last_block = [], code.shapes[-1]
    for query in range(code.count):
        index, within, block_start = code.locate(query)
        block = code.shapes[index]
        sums.append(int(block.weights(within, block.capacity) @ padded[block_start : block_start + block.capacity]))
    decoded, sound = code.decode(np.array(sums))
    assert (decoded == padded[:n]).all()
    assert sound.all()
    # The same sums with one digit set where no row is: sums that this code can make, but not with n rows.
    start = width - last_block.capacity
    padded[n] = 1
    sums[code.count - last_block.count :] = [
        int(last_block.weights(query, last_block.capacity) @ padded[start:]) for query in range(last_block.count)
    ]
    decoded, sound = code.decode(np.array(sums))
    assert (decoded == padded[:n]).all()
    assert sound[:start].all()
    assert not sound[start:].any()


@pytest.mark.parametrize(("base", "bits"), [(2, 52), (2, 57), (3, 55), (6, 50), (30, 50)])
def test_no_number_of_the_decoder_leaves_its_integers(base, bits):
    # Blocks as large as are asked for would need weights of up to 2^bits·2^11.
    code = codes.build_code(3000, base, 2**bits - 1, dense=False, max_bits=codes.MAX_ADDRESS_BITS)
    for block in code.shapes:
        assert max(weight for level in block.levels for weight in level.weights) < 2**63
    labels = np.random.default_rng(0).integers(0, base, 3000)
    sums = []
    for query in range(code.count):
        start, weights = code.weights(query)
        sums.append(sum(int(w) * int(d) for w, d in zip(weights, labels[start : start + len(weights)], strict=True)))
    assert max(abs(total) for total in sums) < 2**61
    decoded, sound = code.decode(np.array(sums))
    assert (decoded == labels).all()
    assert sound.all()


def test_queries_of_flagged_rows_are_those_of_their_blocks():
    code = codes.build_code(50, 2, 3, dense=False, max_bits=2)
    for row in (0, 13, 49):
        flags = np.arange(50) == row
        queries = code.queries_in_flagged_blocks(flags)
        assert code.rows_in_flagged_blocks(queries)[row]
        naive = [row in range(f, f + len(w)) for f, w in map(code.weights, range(code.count))]
        assert (queries == naive).all()
