"""Steps of the integer codes: sizes of blocks, bounds, sets, alphabets and what floats add, against naive counts."""

import itertools
import math

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes, metrics


def rows_of_block(count, base, bound, dense):
    return sum(codes.max_set_size(base, bound << number.bit_count(), dense) for number in range(count))


@pytest.mark.parametrize(
    ("base", "bound", "largest"),
    [
        (2, 81, 2048),
        (2, 2**35, 2048),  # 61 - 36 - 1 - 2 bits are free, two for each address bit
        (2, 2**36, 1024),
        (2, 2**37, 1024),
        (2, 2**38, 512),
        (3, 2**37, 512),
        (2, 2**54, 2),
        (2, 2**55, 2),
        (2, 2**56, 1),
        (2, 2**58, 1),
    ],
)
def test_blocks_are_as_large_as_the_integers_of_the_decoder_allow(base, bound, largest):
    assert codes.smallest_blocks(10**9, base, bound, False, 11)[1] == largest


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


@pytest.mark.parametrize("bound", [0, -1])
def test_a_code_needs_one_step(bound):
    with pytest.raises(InputError, match=f"at least 1 distinguishable step is needed, got {bound}"):
        codes.build_code(5, 2, bound, dense=False, max_bits=0)
    assert codes.max_set_size(2, bound, False) == codes.max_set_size(2, bound, True) == 0


@pytest.mark.parametrize(
    ("arguments", "method"),
    [
        ((30, 2, 5, False, 0), "positional"),
        ((30, 2, 5, False, 1), "weighing"),
        ((3, 2, 4, False, 3), "positional"),  # one query reads them
        ((4, 2, 4, False, 3), "weighing"),
        ((30, 3, 9, True, 0), "positional"),
        ((30, 2, 13, True, 0), "dense"),
        ((30, 2, 2, True, 0), "dense"),
    ],
)
def test_a_code_is_named_by_its_sets_and_its_blocks(arguments, method):
    n, base, bound, dense, bits = arguments
    code = codes.build_code(n, base, bound, dense=dense, max_bits=bits)
    assert code.method == method


@pytest.mark.parametrize(("n", "bound", "bits"), [(30, 3, 2), (61, 1, 1), (5, 40, 2)])
def test_queries_are_located_block_after_block(n, bound, bits):
    code = codes.build_code(n, 2, bound, dense=False, max_bits=bits)
    expected, row = [], 0
    for shape, (block, repeats) in enumerate(zip(code.shapes, code.repeats, strict=True)):
        for _ in range(repeats):
            expected += [(shape, number, row) for number in range(block.count)]
            row += block.capacity
    assert [code.locate(query) for query in range(code.count)] == expected
    with pytest.raises(InputError, match=f"the code has {code.count} queries, there is no number {code.count}$"):
        code.locate(code.count)
    with pytest.raises(InputError, match=f"there is no number {code.count + 3}$"):
        code.locate(code.count + 3)


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


def test_detecting_blocks_have_2048_queries_of_which_the_first_is_not_asked(monkeypatch):
    monkeypatch.setattr(codes, "detecting_block", lambda count: codes.Block(count, (), (), (), ()))
    rows = sum(number.bit_count() for number in range(2048))
    for n, shapes, repeats in (
        (rows, (2048,), (1,)), (rows + 1, (2048, 2), (1, 1)), (2 * rows, (2048,), (2,)), (1, (2,), (1,)),
        (rows - 1, (2048,), (1,)), (rows - 11, (2047,), (1,)), (2 * rows + 2, (2048, 3), (2, 1)), (3, (4,), (1,)),
    ):  # fmt: skip
        code = codes.detecting_code(n)
        assert (tuple(shape.count for shape in code.shapes), code.repeats) == (shapes, repeats)
        blocks = [range(shape) for shape, times in zip(shapes, repeats, strict=True) for _ in range(times)]
        numbers = [number for block in blocks for number in block]
        assert codes.detecting_queries(code).tolist() == [place for place, number in enumerate(numbers) if number]


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


@pytest.mark.parametrize(("dtype", "one"), [("float64", 2.0**-52), ("float32", 2.0**-23), ("float16", 2.0**-10)])
def test_units_in_the_last_place_are_those_of_the_oracle_s_floats(dtype, one):
    np.testing.assert_array_equal(codes.ulps(np.array([1.0, -1.5, 2.0, 0.5]), dtype), [one, one, 2 * one, one / 2])


def test_the_size_of_a_prediction_is_its_largest_absolute_loss():
    zeros = np.zeros(3)
    alphabet = codes.Alphabet(np.arange(3), zeros, zeros, np.array([-3.0, 1, 0]), np.array([2.0, 4, 0]), zeros)
    assert alphabet.size.tolist() == [3, 4, 0]
    assert alphabet.index(np.array([2, 0])).tolist() == [2, 0]


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


def test_the_nearest_probability_is_the_nearest_of_the_floats_around_it():
    losses = np.array([[0.1, 2.3], [0.693, 0.7], [3.7, 0.025], [0.0, 5.0]])
    found, miss = codes._nearest_probabilities(losses)
    for row, (values, probabilities) in enumerate(zip(losses, found, strict=True)):
        worst = 0.0
        for loss, probability in zip(values, probabilities, strict=True):
            centre = min(math.exp(-loss), 1.0)
            candidates = [centre]
            for direction in (0.0, 1.0):
                neighbour = centre
                for _ in range(3):
                    neighbour = float(np.nextafter(neighbour, direction))
                    candidates.append(neighbour)
            best = min(metrics.log_error(np.array(candidates), np.full(7, loss)))
            assert metrics.log_error(np.array([probability]), np.array([loss]))[0] <= best * (1 + 1e-3) + 1e-30
            worst = max(worst, best / max(float(np.spacing(loss)), 1e-17))
        assert miss[row] == pytest.approx(worst, rel=0.02, abs=1e-3)


def test_the_deviation_of_a_loss_covers_the_digits_that_its_floats_lack():
    rows = np.array([[0.3, 0.7], [0.011, 0.989]])
    spec = labels.OracleSpec(n=20)
    table = spec.loss().table(rows)
    plain = codes._loss_deviation(spec, spec.loss(), rows, table, False)
    np.testing.assert_allclose(plain, metrics.log_error(rows, table) + np.spacing(table), rtol=1e-12)
    near = codes._loss_deviation(spec, spec.loss(), rows, table, True)
    true = metrics.log_error(rows, table)
    expected = np.where(true <= 0.45 * np.spacing(table), 0.0, true + np.spacing(table))
    np.testing.assert_allclose(near, expected, rtol=1e-12)
    # Elsewhere: three units in the last place of the largest term that cancels.
    for options, scale in (
        ({"class_weight": (1.0, 1.0)}, 0.0), ({"float_dtype": "float32", "class_weight": (1.0, 1.0)}, 0.0),
        ({"metric": "squared_euclidean"}, 1.0), ({"metric": labels.norm_like(3)}, 3.0),
    ):  # fmt: skip
        other = labels.OracleSpec(n=20, **options)
        loss = other.loss()
        values = loss.table(rows)
        off = values + 1e-3
        size = np.maximum(np.maximum(np.abs(off), np.abs(values)), scale)
        expected = np.abs(values - off) + 3 * np.spacing(size.astype(other.float_dtype)).astype(float)
        np.testing.assert_allclose(codes._loss_deviation(other, loss, rows, off, False), expected, rtol=1e-12)
        off = values - 1e-3
        size = np.maximum(np.maximum(np.abs(off), np.abs(values)), scale)
        expected = np.abs(values - off) + 3 * np.spacing(size.astype(other.float_dtype)).astype(float)
        np.testing.assert_allclose(codes._loss_deviation(other, loss, rows, off, False), expected, rtol=1e-12)


def test_clipped_probabilities_deviate_as_the_clipped_ones_do():
    spec = labels.OracleSpec(n=20, clip=0.1)
    rows = np.array([[0.02, 0.98]])
    losses = -np.log([[0.1, 0.9]])
    np.testing.assert_allclose(codes._exact_deviation(spec, rows, losses), 0.0, atol=1e-15)
    free = labels.OracleSpec(n=20, clip=None)
    np.testing.assert_allclose(codes._exact_deviation(free, rows, losses), np.abs(-np.log(rows) - losses), rtol=1e-12)


def test_a_square_that_floats_hold_deviates_by_nothing_and_another_by_less_than_a_unit():
    spec = labels.OracleSpec("mse", n=20)
    rows = np.array([0.5, 0.25])
    losses = np.array([[0.25, 0.25], [0.0625, 0.5625]])
    assert codes._loss_deviation(spec, spec.loss(), rows, losses, True).tolist() == [[0, 0], [0, 0]]
    off = losses + 1e-6
    np.testing.assert_allclose(
        codes._loss_deviation(spec, spec.loss(), rows, off, True), np.abs(losses - off) + np.spacing(off), rtol=1e-12
    )
    soft = labels.OracleSpec("sigmoid_cross_entropy", n=20)
    table = soft.loss().table(np.array([3.0, -2.0]))
    np.testing.assert_allclose(
        codes._loss_deviation(soft, soft.loss(), np.array([3.0, -2.0]), table + 0.5, True), 0.5 + 4 * 2.0**-52
    )


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
