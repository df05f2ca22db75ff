"""Training points of networks of one input."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import margin, reconstruction
from divulge.reconstruction import (
    BreakPoints,
    exact_break_points,
    find_break_points,
    find_crossings,
    find_windows,
    margin_pieces,
    min_group_multipliers,
    min_hitting_set_size,
    positions_in_spans,
)


def data(seed, n=10, waves=2):
    """Jittered records on [-3, 3] with labels that alternate smoothly."""
    rng = np.random.default_rng(seed)
    x = 3 * (-1 + 2 * (np.arange(n) + rng.uniform(0.2, 0.8, n)) / n)
    y = np.where(np.sin(waves * np.pi * x / 3 + rng.uniform(0, 2 * np.pi)) > 0, 1.0, -1.0)
    return x, y


def is_near(a, b, tolerance):
    """For each of ``a`` whether one of ``b`` is within ``tolerance``."""
    return np.abs(np.subtract.outer(a, b)).min(axis=1, initial=np.inf) <= tolerance


@pytest.fixture(scope="module")
def exact():
    solutions = []
    for seed in range(8):
        x, y = data(seed)
        net = margin.solve(x[:, None], y).net
        solutions.append((x, y, net, reconstruction.univariate(net, margin=1.0)))
    return solutions


def test_every_candidate_of_an_exact_point_is_a_training_point(exact):
    for x, _, _, reconstructed in exact:
        assert is_near(reconstructed.candidates, x, 1e-4).all()
        assert reconstructed.residual < 1e-5


def test_every_training_point_that_carries_weight_is_found(exact):
    for x, y, net, reconstructed in exact:
        state = margin.kkt(net, x[:, None], y, band=1e-4)
        carried = x[state.multipliers > 1e-4 * state.multipliers.max()]
        assert is_near(carried, reconstructed.candidates, 1e-4).all()
        assert len(reconstructed.supported) <= state.on_margin.sum()


def test_windows_hold_training_points(exact):
    # Theorem 4.2, window by window.
    count = 0
    for x, _, net, _ in exact:
        bent = find_break_points(net, 1e-6)
        flat = np.abs(np.abs(bent.values) - 1) < 0.01
        for low, high in find_windows(bent, flat[:-1] & flat[1:]):
            inside = x[(x >= low - 1e-6) & (x <= high + 1e-6)]
            assert len(inside)
            assert np.abs(np.abs(net(inside[:, None])) - 1).min() < 1e-5
            count += 1
    assert count >= 4


def test_a_window_has_no_piece_on_the_margin():
    bent = BreakPoints(np.arange(4.0), np.zeros(4), margin.ShallowReLU([[1.0]], [0.0], [1.0]))
    results = {flat: len(find_windows(bent, np.array(flat))) for flat in itertools.product([False, True], repeat=3)}
    assert results[False, False, False] == 2
    assert results[True, False, False] == results[False, False, True] == 1
    assert sum(results.values()) == 4
    np.testing.assert_array_equal(find_windows(bent, np.array([True, False, False])), [[1.0, 3.0]])


def test_what_is_guaranteed_is_kept(exact):
    for x, _, _, reconstructed in exact:
        assert is_near(reconstructed.candidates, x, 1e-4).sum() >= reconstructed.guaranteed
        assert reconstructed.guarantee.level == pytest.approx(
            1 - reconstructed.guaranteed / len(reconstructed.candidates)
        )


def test_the_kkt_equations_find_what_crossings_miss():
    # Three records of one label on a stretch of the margin: no crossing is isolated there.
    n_found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.uniform(-1, 1, 10))
        y = np.where(np.sin(2 * np.pi * (x + rng.random())) > 0, 1.0, -1.0)
        if seed not in (3, 14):
            continue
        net = margin.solve(x[:, None], y).net
        plain = reconstruction.univariate(net, 1.0, "crossings")
        solved = reconstruction.univariate(net, 1.0)
        assert is_near(solved.candidates, x, 1e-3).all()
        n_found += is_near(x, solved.candidates, 1e-3).sum() - is_near(x, plain.candidates, 1e-3).sum()
        assert solved.ambiguous
        for part in solved.ambiguous:
            assert ((x >= part.low - 1e-6) & (x <= part.high + 1e-6)).any()
    assert n_found >= 2


def test_trained_networks():
    right = total = hit = points = 0
    for seed in range(4):
        x, y = data(seed)
        if seed % 2:
            rng = np.random.default_rng(seed)
            x = np.sort(rng.uniform(-3, 3, 10))
            y = np.where(np.sin(2 * np.pi * x / 3 + rng.uniform(0, 2 * np.pi)) > 0, 1.0, -1.0)
        run = margin.train(x[:, None], y, width=300, target_margin=100.0, seed=seed, max_steps=3000)
        assert run.reached
        candidates_found = reconstruction.univariate(run.net, 100.0, "crossings").candidates
        right, total = right + is_near(candidates_found, x, 0.06).sum(), total + len(candidates_found)
        hit, points = hit + is_near(x, candidates_found, 0.06).sum(), points + len(x)
    assert right / total >= 0.9
    assert hit / points >= 0.5


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 5.0))
def test_crossings_equal_a_dense_search(seed, level):
    rng = np.random.default_rng(seed)
    net = margin.ShallowReLU(rng.normal(size=(5, 1)), rng.normal(size=5), rng.normal(size=5))
    break_points = exact_break_points(net)
    assume(np.abs(np.abs(net(break_points[:, None])) - level).min() > 0.02 * level)
    crossings = find_crossings(net, level, 1e-9)
    grid = np.linspace(-50, 50, 40_001)
    height = net(grid[:, None]) - level
    changes = grid[:-1][np.diff(np.sign(height)) != 0]
    np.testing.assert_allclose(crossings[np.abs(crossings) < 50], changes, atol=3e-3)
    if len(crossings):
        np.testing.assert_allclose(net(crossings[:, None]), level, rtol=1e-6)


@pytest.mark.parametrize("level", [0.5, 1.0, 1.00005, 2.0])
@pytest.mark.parametrize("turn", [-1.0, 1.0])
def test_crossings_on_a_ray_are_found_wherever_they_lie(turn, level):
    """At 1 they lie on the node that is added beyond the last break-point."""
    crossings = find_crossings(margin.ShallowReLU([[turn]], [0.0], [1.0]), level, 1e-6)
    np.testing.assert_allclose(crossings, [turn * level], atol=1e-4)


def test_collapsed_neurons_are_merged():
    merged_network = margin.ShallowReLU([[1.0], [-2.0]], [-1.0, -2.0], [1.0, -1.0])
    spread = np.random.default_rng(0).normal(scale=1e-5, size=(50, 1))
    split_network = margin.ShallowReLU(
        np.vstack([1.0 + spread, -2.0 + spread]),
        np.r_[np.full(50, -1.0), np.full(50, -2.0)],
        np.r_[np.ones(50), -np.ones(50)],
    )
    positions = find_break_points(merged_network, 1e-6).positions
    np.testing.assert_allclose(find_break_points(split_network, 1e-6).positions, positions, atol=1e-4)
    x = np.linspace(-3, 3, 20)[:, None]
    np.testing.assert_allclose(find_break_points(split_network, 1e-6).net(x), split_network(x), atol=1e-2)


def test_a_group_that_straddles_the_turn_of_the_angle_stays_whole():
    net = margin.ShallowReLU([[-1.0], [-1.0], [1.0]], [1e-5, -1e-5, 0.5], [1.0, 1.0, 1.0])
    assert len(find_break_points(net, 1e-3).positions) == 2


class TestErrorsOfThePaper:
    """What the univariate section gets wrong."""

    def test_windows_run_over_break_points_not_over_records(self, exact):
        for x, _, _, reconstructed in exact:
            assert len(reconstructed.break_points) - 2 < len(x)

    def test_every_break_point_is_that_of_its_own_neuron(self):
        # The algorithm's listing divides every bias by the first neuron's weight.
        net = margin.ShallowReLU([[1.0], [2.0], [-4.0]], [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0])
        np.testing.assert_allclose(find_break_points(net, 1e-6).positions, [-0.25, 0.5, 1.0], atol=1e-12)

    def test_a_share_of_one_quarter_does_not_follow_from_overlapping_windows(self):
        # Three pieces, two overlapping windows, six crossings: one training point in the middle meets both.
        positions = np.array([0.2, 0.8, 1.2, 1.8, 2.2, 2.8])
        assert min_hitting_set_size(positions_in_spans(positions, np.array([[0.0, 2.0], [1.0, 3.0]]))) == 1
        # Stepping by two leaves one window of four.
        assert min_hitting_set_size(positions_in_spans(positions[:4], np.array([[0.0, 2.0]]))) / 4 == 0.25

    def test_the_fewest_are_those_of_a_brute_force_search(self):
        rng = np.random.default_rng(0)
        for _ in range(30):
            positions = np.sort(rng.uniform(0, 6, 7))
            parts = [
                part
                for part in positions_in_spans(positions, np.column_stack([np.arange(5), np.arange(5) + 2.0]))
                if len(part)
            ]
            sizes = [
                size
                for size in range(8)
                for chosen in itertools.combinations(range(7), size)
                if all(set(part) & set(chosen) for part in parts)
            ]
            assert min_hitting_set_size(parts) == min(sizes)

    def test_theorem_4_3_case_3_multiplies_by_a_product_of_either_sign(self):
        rng = np.random.default_rng(0)
        t0, t1, w0, w1 = rng.uniform(-2, 2, (4, 500))
        expanded = -((t0 * w0) ** 2) - (t1 * w1) ** 2 + t0 * t1 * (w0**2 + w1**2)
        np.testing.assert_allclose((t1 - t0) * (t0 * w0**2 - t1 * w1**2), expanded, atol=1e-12)
        # Moving the origin moves no break-point against another, but turns the sign.
        shifted = [np.sign((t1 - t0) * ((t0 + s) * w0**2 - (t1 + s) * w1**2)) for s in (-100.0, 100.0)]
        assert (shifted[0] != shifted[1]).mean() > 0.9

    def test_flat_pieces_are_taken_on_the_margin_off_it_and_on_it_again(self):
        # On, off, on (Theorem 4.3): both ends of the middle piece.
        on = margin.ShallowReLU([[1.0]] * 5, [1.0, 0.0, -1.0, -2.0, -3.0], [1.0, -1.0, -2.0, 2.0, 1.0])
        reconstructed = reconstruction.univariate(on, 1.0, 1)
        flat = [
            candidate
            for candidate, rules in zip(reconstructed.candidates, reconstructed.rules, strict=True)
            if "flat" in rules
        ]
        np.testing.assert_allclose(flat, [1.0, 2.0])
        # Off, on, off is no case of it.
        off = margin.ShallowReLU([[1.0]] * 4, [0.0, -1.0, -2.0, -4.0], [1.0, -1.0, -1.0, -1.0])
        reconstructed = reconstruction.univariate(off, 1.0, 1)
        assert not any("flat" in rules for rules in reconstructed.rules)

    def test_flat_pieces_propose_but_prove_nothing(self, exact):
        for _, _, net, _ in exact:
            first_algorithm, second_algorithm = (reconstruction.univariate(net, 1.0, algorithm) for algorithm in (1, 2))
            assert first_algorithm.guaranteed == second_algorithm.guaranteed
            assert {rule for rules in second_algorithm.rules for rule in rules} <= {"window"}
            assert set(second_algorithm.candidates) <= set(first_algorithm.candidates)


@pytest.mark.parametrize("m", [None, 0.0, -1.0, float("nan")])
def test_margins_that_are_absent_or_impossible(m):
    net = margin.ShallowReLU([[1.0]], [0.0], [1.0])
    with pytest.raises(dv.InputError, match="margin"):
        reconstruction.univariate(net, margin=m)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (margin.ShallowReLU([[1.0, 2.0]], [0.0], [1.0]), "the network takes 2"),
        (margin.ShallowReLU([[0.0], [0.0]], [0.0, 0.0], [0.0, 0.0]), "every neuron is zero"),
        (margin.ShallowReLU([[0.0]], [1.0], [1.0]), "no break-points"),
    ],
)
def test_networks_that_tell_nothing(net, message):
    with pytest.raises(dv.InputError, match=message):
        reconstruction.univariate(net, margin=1.0)


def test_an_unknown_algorithm():
    with pytest.raises(dv.InputError, match="algorithm: 1, 2"):
        reconstruction.univariate(margin.ShallowReLU([[1.0]], [0.0], [1.0]), 1.0, "three")


@pytest.mark.parametrize("turn", [1.0, -1.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nothing_is_claimed_where_the_line_stays_on_the_margin_for_ever(turn, sign):
    """Training points on the ray are among no places, so neither a proof nor a contradiction would be true."""
    reconstructed = reconstruction.univariate(
        margin.ShallowReLU([[turn], [turn]], [1.0, 0.0], [sign, -sign]), margin=1.0
    )
    assert reconstructed.guaranteed == 0
    assert not reconstructed.needed.any()
    assert reconstructed.guarantee.standing == "conditional"
    side = "above" if turn > 0 else "below"
    assert reconstructed.warnings == (
        f"the line stays on the margin {side} x = 0, where training points may lie anywhere",
    )


def test_a_ray_that_leaves_the_margin_takes_no_proof_away(exact):
    for *_, reconstructed in exact:
        assert reconstructed.guaranteed
        assert reconstructed.warnings == ()


def test_duplicated_break_points_and_zero_neurons_do_not_matter(exact):
    x, _, net, reconstructed = exact[0]
    doubled = margin.ShallowReLU(
        np.vstack([net.w, net.w, [[0.0]]]) / 2**0.5,
        np.append(np.append(net.b, net.b), 0.0) / 2**0.5,
        np.append(np.append(net.v, net.v), 0.0) / 2**0.5,
    )
    np.testing.assert_allclose(doubled(x[:, None]), net(x[:, None]))
    repeat = reconstruction.univariate(doubled, 1.0)
    np.testing.assert_allclose(repeat.candidates, reconstructed.candidates, atol=1e-9)
    np.testing.assert_allclose(repeat.break_points, reconstructed.break_points, atol=1e-9)


def test_a_piece_on_the_margin_is_longer_than_the_resolution():
    line, height = np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.0, 1.0])
    assert margin_pieces(line, height, 1.0, 0.5).tolist() == [True, False]
    assert margin_pieces(line, height, 1.0, 1.0).tolist() == [False, False]


@pytest.mark.parametrize(("w", "position"), [(1.0, 9.0), (-1.0, -9.0)])
def test_a_level_is_crossed_far_out_on_either_ray(w, position):
    net = margin.ShallowReLU([[w], [w]], [0.0, -1.0], [1.0, 1.0])
    np.testing.assert_allclose(find_crossings(net, 17.0, 1e-9), [position])


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_least_multipliers_do_not_depend_on_the_scale_of_the_network(exact, scale):
    x, y, net, _ = exact[0]
    louder = margin.ShallowReLU(scale * net.w, scale * net.b, scale * net.v)
    owner = np.arange(len(x))
    multipliers, louder_multipliers = (
        min_group_multipliers(network, x, y, owner, len(x), kink=1e-6, slack=1e-6) for network in (net, louder)
    )
    assert multipliers.max() > 0
    np.testing.assert_allclose(multipliers, louder_multipliers, rtol=1e-3, atol=1e-6)
