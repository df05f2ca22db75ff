"""Integer codes: every labelling is read back, exactly, with the fewest queries and no weight beyond its bound."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge import labels
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


def rows_of_block(count, base, bound, dense):
    return sum(codes.max_set_size(base, bound << number.bit_count(), dense) for number in range(count))


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(("base", "bound", "bits"), [(2, 1, 0), (2, 3, 2), (2, 11, 3), (3, 5, 2), (4, 4, 1)])
def test_full_blocks_come_first_and_the_last_is_the_smallest_that_reads_the_rest(base, bound, bits, dense):
    full = rows_of_block(2**bits, base, bound, dense)
    for n in range(1, 2 * full + 3):
        n_full, size, last = codes.smallest_blocks(n, base, bound, dense, bits)
        assert size == 2**bits
        assert 0 <= last < size
        naive = next(
            count
            for count in itertools.count(1)
            if count // size * full + rows_of_block(count % size, base, bound, dense) >= n
        )
        assert codes.count_queries(n, base, bound, dense, bits) == n_full * size + last == naive
        code = codes.build_code(n, base, bound, dense=dense, max_bits=bits)
        assert code.count == naive
        assert list(zip([shape.count for shape in code.shapes], code.repeats, strict=True)) == [
            (count, repeats) for count, repeats in ((size, n_full), (last, 1)) if count and repeats
        ]


@pytest.mark.parametrize(("dense", "base"), [(True, 2), (False, 2), (False, 3)])
@pytest.mark.parametrize(("n", "bits"), [(1, 0), (7, 0), (23, 2), (60, 3)])
def test_the_relaxed_bound_is_the_smallest_that_needs_no_more_queries(n, bits, dense, base):
    for bound in range(1, 40):
        counts = [codes.count_queries(n, base, each, dense, bits) for each in range(1, bound + 1)]
        expected = next(each for each, count in enumerate(counts, 1) if count == counts[-1])
        assert codes.relax_bound(n, base, bound, dense=dense, max_bits=bits) == expected


def test_totals_count_idle_rows_before_within_and_after_every_block():
    for n, bound, bits in ((11, 3, 1), (12, 3, 1), (13, 3, 1), (40, 2, 2), (2, 9, 0), (6, 1, 0)):
        code = codes.build_code(n, 2, bound, dense=False, max_bits=bits)
        alphabet = code.alphabet()
        assert alphabet.tolist() == sorted(set(alphabet.tolist()))
        values = np.arange(len(alphabet)) ** 2 + 3
        for query, total in enumerate(code.totals(alphabet, values)):
            start, part = code.weights(query)
            weights = [0] * start + part.tolist() + [0] * (n - start - len(part))
            assert len(weights) == n
            assert total == sum(values[alphabet.tolist().index(weight)] for weight in weights)


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


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("base", "bound"), [(2, 1), (2, 2), (2, 13), (2, 26), (2, 50), (3, 1), (3, 26), (3, 27), (5, 25)]
)
def test_sets_read_the_sums_that_digits_can_make_and_no_others(base, bound, dense):
    chosen = codes.sum_distinct_set(base, bound, dense)
    assert len(chosen.weights) == codes.max_set_size(base, bound, dense)
    assert max(chosen.weights) <= bound
    digits_of = {
        sum(w * d for w, d in zip(chosen.weights, digits, strict=True)): digits
        for digits in itertools.product(range(base), repeat=len(chosen.weights))
    }
    assert len(digits_of) == base ** len(chosen.weights)
    sums = np.arange(-3, max(digits_of) + 4)
    digits, valid = chosen.read(sums)
    assert valid.tolist() == [total in digits_of for total in sums.tolist()]
    for total, each, is_valid in zip(sums.tolist(), digits.tolist(), valid, strict=True):
        assert not is_valid or tuple(each) == digits_of[total]


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 6, 7, 12, 13, 23, 24, 44, 81, 162])
def test_a_dense_set_is_the_largest_of_powers_of_two_before_a_conway_guy_set(bound):
    sizes = [
        low + next(size for size in itertools.count() if codes.conway_guy(size + 1)[-1] << low > bound)
        for low in range(bound.bit_length())
    ]
    assert codes.max_set_size(2, bound, True) == max(sizes)
    assert codes.sum_distinct_set(2, bound, True).low == sizes.index(max(sizes))
    powers = next(size for size in itertools.count() if 2**size > bound)
    assert codes.max_set_size(2, bound, False) == powers <= max(sizes)


def test_conway_guy_sets_follow_their_recursion():
    u = [0, 1]
    for n in range(1, 20):
        u.append(2 * u[n] - u[n - round(math.sqrt(2 * n))])
    for size in range(1, 20):
        assert codes.conway_guy(size) == tuple(sorted(u[size] - u[i] for i in range(size)))


def make(options, weights=(-3, 0, 1, 7), unit=0.01, digits=(0, 1), grid=0.0):
    spec = labels.OracleSpec(n=20, **options)
    digits = np.array(digits)
    return spec, codes.make_alphabet(spec, spec.loss(), np.array(weights), unit, digits, grid)


@pytest.mark.parametrize(
    ("options", "digits"),
    [
        ({}, (0, 1)),
        ({"float_dtype": "float32"}, (0, 1)),
        ({"submission": "positive"}, (0, 1)),
        ({"classes": 3}, (0, 1, 2)),
        ({"classes": 3}, (2, 0, 1)),
        ({"metric": "mse"}, (0, 1)),
        ({"metric": "squared_euclidean"}, (0, 1)),
        ({"metric": "mae"}, (0, 1)),
        ({"metric": "softmax_cross_entropy", "classes": 3}, (0, 1, 2)),
        ({"metric": "sigmoid_cross_entropy", "float_dtype": "float32"}, (0, 1)),
    ],
)
def test_losses_lie_a_weight_of_units_a_digit_apart_within_their_deviation(options, digits):
    spec, alphabet = make(options, digits=digits)
    table = spec.loss().table(alphabet.rows)
    said = alphabet.base[:, None] + 0.01 * np.outer(alphabet.weights, digits)
    np.testing.assert_allclose(alphabet.low, said.min(axis=1), atol=1e-15)
    np.testing.assert_allclose(alphabet.high, said.max(axis=1), atol=1e-15)
    assert (np.abs(table - said) <= alphabet.deviation[:, None]).all()
    # No more than some units in the last place beyond what the floats show.
    spacing = float(np.finfo(spec.float_dtype).eps) * max(1.0, float(np.abs(table).max()))
    assert (alphabet.deviation <= np.abs(table - said).max(axis=1) + 12 * spacing).all()
    assert (alphabet.deviation > 0).all()


@pytest.mark.parametrize("metric", ["log_loss", "mse", "softmax_cross_entropy"])
def test_on_a_grid_every_loss_is_a_multiple_of_it(metric):
    grid = 2.0**-40 if metric != "softmax_cross_entropy" else 2.0**30
    weights = (0, 1, 2, 6)
    spec, alphabet = make({"metric": metric}, weights, unit=4 * grid, grid=grid)
    table = spec.loss().table(alphabet.rows)
    for values in (alphabet.base, alphabet.low, alphabet.high):
        np.testing.assert_array_equal(values, np.round(values / grid) * grid)
    said = alphabet.base[:, None] + 4 * grid * np.outer(weights, [0, 1])
    np.testing.assert_array_equal(alphabet.high, said.max(axis=1))
    np.testing.assert_array_equal(alphabet.low, said.min(axis=1))
    assert (np.abs(table - said) <= np.maximum(alphabet.deviation, np.spacing(table.max()))[:, None]).all()
    if metric == "log_loss":
        assert (alphabet.deviation <= 4 * np.spacing(1.0)).all()
        np.testing.assert_allclose(alphabet.rows.sum(axis=1), 1.0, atol=40 * grid)
        assert alphabet.rows.max() <= 1


def test_mirrored_codes_weigh_and_decode_with_the_sign_turned():
    code = codes.build_code(10, 3, 9, dense=False, max_bits=0)
    turned = codes.mirrored(code)
    y = np.array([0, 1, 2, 2, 1, 0, 1, 0, 2, 2])
    sums = []
    for query in range(code.count):
        (start, weights), (same, negated) = code.weights(query), turned.weights(query)
        assert (start, weights.tolist()) == (same, (-negated).tolist())
        sums.append(int(negated @ y[start : start + len(negated)]))
    decoded, sound = turned.decode(np.array(sums))
    assert decoded.tolist() == y.tolist()
    assert sound.all()
    with pytest.raises(AssertionError, match="decode by their own weights"):
        codes.mirrored(codes.build_code(30, 2, 3, dense=False, max_bits=2))
