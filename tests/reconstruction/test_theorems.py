"""Section 4 and Appendix F of "Provable Privacy Attacks on Trained Shallow Neural Networks", statement by statement."""

import itertools

import numpy as np
import pytest

import divulge as dv
from divulge import margin, reconstruction
from divulge.reconstruction import find_break_points, find_crossings

TOLERANCE = 1e-4  # a break-point this close to a record lies on it


@pytest.fixture(scope="module")
def exact():
    """Exact points of 3 to 12 records: the records on the margin, and the network."""
    networks = []
    for seed in (1, 5, 6, 7, 9, 11, 14, 16, 21, 23):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 13))
        x = 3 * (-1 + 2 * (np.arange(n) + rng.uniform(0.2, 0.8, n)) / n)
        y = rng.choice([-1.0, 1.0], n)
        y[:2] = -1, 1
        net = margin.solve(x[:, None], y).net
        networks.append((x[np.abs(np.abs(net(x[:, None])) - 1) < TOLERANCE], net))
    return networks


class TestOneRecordOneNeuron:
    """Theorem 4.1: n = k = 1."""

    @staticmethod
    def point(x, label, size=1.3):
        """The KKT point of the record ``x``, of margin size²·√(x² + 1)."""
        share = size / np.hypot(x, 1.0)
        return margin.ShallowReLU([[share * x]], [share], [label * size]), size**2 * np.hypot(x, 1.0)

    @pytest.mark.parametrize("label", [-1.0, 1.0])
    @pytest.mark.parametrize("x", [-7.0, -0.4, 0.01, 2.5])
    def test_the_margin_gives_the_record(self, x, label):
        net, m = self.point(x, label)
        state = margin.explain(net, [[x]], [label])
        assert state.residual < 1e-12
        reconstructed = reconstruction.univariate(net, m, "crossings")
        np.testing.assert_allclose(reconstructed.candidates, [x], rtol=1e-9)
        assert reconstructed.labels == [label]

    @pytest.mark.parametrize("x", [-7.0, 0.0, 2.5])
    def test_the_weights_give_it_without_the_margin(self, x):
        net, _ = self.point(x, 1.0)
        assert net.w[0, 0] / net.b[0] == pytest.approx(x)

    def test_at_the_origin_the_line_has_no_slope(self):
        # The proof says that the neuron has a slope. For x = 0 it is flat, and every place is on the margin.
        net, m = self.point(0.0, 1.0)
        assert margin.explain(net, [[0.0]], [1.0]).residual < 1e-12
        np.testing.assert_allclose(net([[-5.0], [0.0], [5.0]]), m)
        with pytest.raises(dv.InputError, match="no break-points"):
            reconstruction.univariate(net, m)


class TestBreakPoints:
    """Lemmas F.1 and F.2 at exact points."""

    def test_at_most_two_between_neighbours_and_they_look_different_ways(self, exact):
        met = 0
        for x, net in exact:
            merged = find_break_points(net, 1e-6).net
            break_points = -merged.b / merged.w[:, 0]
            for low, high in itertools.pairwise(x):
                inside = (break_points > low + TOLERANCE) & (break_points < high - TOLERANCE)
                assert inside.sum() <= 2
                assert len(set(np.sign(merged.w[inside, 0]))) == inside.sum()
                met += inside.sum() == 2
        assert met >= 1

    def test_at_most_one_beyond_the_records(self, exact):
        # Neurons that bend beyond the records are active on all of them, so they bend at one place.
        lines = [(x, find_break_points(net, 1e-6).positions) for x, net in exact]
        outer = [np.sum((positions < x[0] - TOLERANCE) | (positions > x[-1] + TOLERANCE)) for x, positions in lines]
        assert set(outer) == {0, 1}

    def test_the_margin_is_crossed_at_most_six_times_per_record(self, exact):
        # The proof counts n - 2 gaps of n - 1 and 6 crossings on either side. 6·(n - 1) + 12 is too many, but the
        # sides have one break-point together, so three pieces and 6 crossings: 6n holds.
        for x, net in exact:
            assert sum(len(find_crossings(net, level, 1e-6)) for level in (-1.0, 1.0)) <= 6 * len(x)


def test_break_points_and_answers_suffice(exact):
    # Footnote 6: between break-points the line is known by its ends, so places on the margin need no weights.
    for x, net in exact:
        positions = find_break_points(net, 1e-6).positions
        answers_seen = net(positions[:, None])
        read = [
            low + (level - value_left) / (value_right - value_left) * (high - low)
            for (low, high), (value_left, value_right) in zip(
                itertools.pairwise(positions), itertools.pairwise(answers_seen), strict=True
            )
            for level in (-1.0, 1.0)
            if min(value_left, value_right) < level - TOLERANCE and level + TOLERANCE < max(value_left, value_right)
        ]
        points = reconstruction.univariate(net, 1.0, "crossings").candidates
        assert np.abs(np.subtract.outer(read, points)).min(axis=1, initial=np.inf).max(initial=0.0) < TOLERANCE
        assert np.abs(np.subtract.outer(read, x)).min(axis=1, initial=np.inf).max(initial=0.0) < TOLERANCE


def on_off_on(seed):
    """A line on the margin, off it and on it again, from a neuron active everywhere and one for each end.

    Returns the weights ``[3, 3]`` (w, b, v) of the neuron that is active everywhere, of the one that bends at the left
    end and looks right, and of the one that bends at the right end and looks left; and both ends.
    """
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.uniform(-2, 2, 2))
    slope, input_weight = rng.choice([-1, 1]) * rng.uniform(0.5, 2), rng.uniform(0.5, 2)
    ahead, back = rng.uniform(0.5, 2), -rng.uniform(0.5, 2)
    everywhere = [-slope / input_weight, 100.0, input_weight]
    return (
        np.array([everywhere, [ahead, -ahead * low, slope / ahead], [back, -back * high, slope / back]]),
        low,
        high,
    )


def answers(weights, x):
    return np.maximum(np.outer(x, weights[:, 0]) + weights[:, 1], 0) @ weights[:, 2]


def moved(weights, step):
    """The proof's network: the two neurons change, the one that is active everywhere makes up for it."""
    (w1, b1, v1), (w0, b0, v0), (w, b, v) = weights
    return np.array([
        [w1 + step * v * w / v1, b1 + step * v * w * b0 / (v1 * w0), v1],
        [w0, b0, v0 * (1 - step * v * w / (v0 * w0))],
        [w, b - step / (1 - step) * (w * b0 / w0 - b), (1 - step) * v],
    ])  # fmt: skip


class TestOnOffOn:
    """Theorem 4.3 and Figure 6: a line on the margin, off it and on it again."""

    @pytest.mark.parametrize("seed", range(20))
    def test_the_line_is_what_it_should_be(self, seed):
        weights, low_end, high_end = on_off_on(seed)
        low, high = (
            answers(weights, np.array([low_end - 3, low_end])),
            answers(weights, np.array([high_end, high_end + 3])),
        )
        assert low[0] == pytest.approx(low[1])
        assert high[0] == pytest.approx(high[1])
        assert abs(low[0] - high[0]) > 1e-3

    @pytest.mark.parametrize("seed", range(20))
    def test_the_products_are_equal_not_opposite(self, seed):
        # The proof's first observation has v_i·w_i = -v_{i-1}·w_{i-1}, hence its (14) and (15) the wrong sign.
        _, (w0, _, v0), (w, _, v) = on_off_on(seed)[0]
        assert v * w == pytest.approx(v0 * w0)
        assert v0 * w0 * v / w == pytest.approx(v**2)

    @pytest.mark.parametrize("seed", range(20))
    def test_the_moved_network_is_equal_off_the_middle_and_smaller(self, seed):
        weights, low_end, high_end = on_off_on(seed)
        (w1, b1, v1), (w0, b0, v0), (w, b, v) = weights
        change = v**2 + v * w * v0 / w0 + b * (w * b0 / w0 - b) - w1 * v * w / v1 - b1 * b0 * v * w / (v1 * w0)
        step = 1e-5 * np.sign(change)
        # The right end moves a little.
        outside = np.r_[np.linspace(low_end - 3, low_end, 30), np.linspace(high_end + 0.01, high_end + 3, 30)]
        moved_weights = moved(weights, step)
        np.testing.assert_allclose(answers(moved_weights, outside), answers(weights, outside), atol=1e-9)
        assert np.sum(moved_weights**2) < np.sum(weights**2)
        assert (np.sum(moved_weights**2) - np.sum(weights**2)) / step == pytest.approx(-2 * change, rel=0.05, abs=0.05)

    def test_the_norm_of_case_2_is_not_that_of_its_network(self):
        # The network moves the second bias by δ/(1 + δ), its printed norm by δ/(1 - δ).
        step, weights = 0.1, on_off_on(0)[0]
        _, (w0, b0, _), (w, b, _) = weights
        lean = w * b0 / w0 - b
        moved_weights = moved(weights, -step)
        assert moved_weights[2, 1] == pytest.approx(b + step / (1 + step) * lean)
        total = np.sum(moved_weights**2)
        printed = total - moved_weights[2, 1] ** 2 + (b + step / (1 - step) * lean) ** 2
        assert abs(printed - total) > 1e-3

    def test_the_theorem_follows_from_three_unit_vectors(self):
        # A neuron that bends at no record has the direction ±u, u = Σ λ_i·y_i·[x_i, 1] over the records it is active
        # on, and ‖u‖ = 1 (equations 7 to 9). If neither end of the middle is a record, so for u on the left, on the
        # right, and their sum: they are 120° apart. Flat on both sides asks for cosines of one sign; then the
        # sum bends between the ends, so the third neuron is not active on both sides. No local optimum is needed.
        met = 0
        for angle in np.linspace(-np.pi, np.pi, 721)[:-1] + 0.001:
            for right in (angle + 2 * np.pi / 3, angle - 2 * np.pi / 3):
                u = np.array([[np.cos(a), np.sin(a)] for a in (angle, right)])
                total = u.sum(axis=0)
                assert np.linalg.norm(total) == pytest.approx(1.0)
                if u[0, 0] * u[1, 0] > 0:
                    low, high = np.sort(-u[:, 1] / u[:, 0])
                    assert low < -total[1] / total[0] < high
                    met += 1
        assert met >= 200

    def test_off_on_off_is_no_case_of_either_theorem(self):
        # The paper calls its two cases exhaustive; here are four break-points and no window, and nothing is found.
        net = margin.ShallowReLU([[1.0]] * 4, [0.0, -1.0, -2.0, -4.0], [1.0, -1.0, -1.0, -1.0])
        np.testing.assert_allclose(net([[0.0], [1.0], [2.0], [4.0]]), [0.0, 1.0, 1.0, -1.0])
        for algorithm in (1, 2):
            assert len(reconstruction.univariate(net, 1.0, algorithm).candidates) == 0
