"""Steps of training one by one, against literal versions, and the limits at which training chooses between them."""

import numpy as np
import pytest

import divulge as dv
from divulge import margin
from divulge.margin import training
from divulge.margin.training import _best_direction, _Cone, _cutting_plane, _tight_directions, _unique_cones


def start(seed=0, n=6, k=20, r=3, scale=1.0):
    rng = np.random.default_rng(seed)
    points, sign = rng.normal(size=(n, r)), np.where(np.arange(n) % 2, 1.0, -1.0)
    return training.evaluate_state(scale * rng.normal(size=(k, r)), scale * rng.normal(size=k), points), points, sign


def draw_records(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), np.where(np.arange(n) % 2, 1.0, -1.0)


def test_the_loss_is_the_logarithm_of_the_sum_of_exponentials():
    margins = np.array([1.0, -2.0, 0.5])
    assert training.log_sum_exp(margins) == pytest.approx(np.log(np.exp(-margins).sum()))
    assert training.log_sum_exp(np.array([2e3, 2e3])) == pytest.approx(np.log(2) - 2e3)
    assert training.log_sum_exp(np.array([-2e3, 5e3])) == pytest.approx(2e3)


def test_the_smallest_step_is_a_twentieth_over_the_norms():
    points = np.array([[1.0, 2.0], [3.0, 0.0]])
    assert training.min_step(4.0, points) == pytest.approx(0.05 / (5 * 9))


def test_a_state_holds_what_follows_from_its_weights():
    state, points, _ = start(k=4)
    assert state.squared_norm == pytest.approx(sum(w**2 for w in [*state.w.ravel(), *state.v]))
    for i, point in enumerate(points):
        before = [w @ point for w in state.w]
        np.testing.assert_allclose(state.before[i], before)
        np.testing.assert_allclose(state.hidden[i], [max(b, 0) for b in before])
        assert state.outputs[i] == pytest.approx(sum(v * max(b, 0) for v, b in zip(state.v, before, strict=True)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("last_step", [0.0, 1e-3, 0.1, 30.0])
def test_an_explicit_step_is_the_first_that_delivers_three_tenths_of_what_the_gradient_promises(seed, last_step):
    state, points, sign = start(seed)
    frozen_norm = 2.0
    loss = training.log_sum_exp(state.outputs * sign)
    weight = np.exp(-state.outputs * sign) / np.exp(-state.outputs * sign).sum()
    grad_w = -sum(weight[i] * sign[i] * np.outer(state.v * (state.before[i] > 0), points[i]) for i in range(len(sign)))
    grad_v = -sum(weight[i] * sign[i] * state.hidden[i] for i in range(len(sign)))
    slope = (grad_w**2).sum() + (grad_v**2).sum()
    floor = 0.05 / ((state.squared_norm + frozen_norm + 1) * (points**2).sum(axis=1).max())
    step = max(1.03 * last_step, floor)
    while True:
        outputs = np.maximum(points @ (state.w - step * grad_w).T, 0) @ (state.v - step * grad_v)
        value = np.logaddexp.reduce(-outputs * sign)
        if value <= loss - 0.3 * step * slope or step <= floor:
            break
        step = max(0.6 * step, floor)
    trial, found, length = training._explicit_step(state, points, sign, loss, last_step, frozen_norm)
    assert length == pytest.approx(step)
    assert found == pytest.approx(value)
    np.testing.assert_allclose(trial.w, state.w - step * grad_w)
    np.testing.assert_allclose(trial.v, state.v - step * grad_v)


def distance(a, b):
    return np.sqrt(((a.w - b.w) ** 2).sum() + ((a.v - b.v) ** 2).sum())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("frozen_norm", [0.0, 50.0])
def test_an_implicit_step_moves_the_weights_by_a_fiftieth_at_most(seed, frozen_norm):
    state, points, sign = start(seed)
    loss, pull = training.log_sum_exp(state.outputs * sign), np.full(6, 1 / 6)
    trial, value, step, weights = training.implicit_step(state, points, sign, loss, 1.0, pull, frozen_norm, np.inf)
    limit = 0.02 * np.sqrt(state.squared_norm + frozen_norm)
    floor = 0.05 / ((state.squared_norm + frozen_norm + 1) * (points**2).sum(axis=1).max())
    assert step > floor
    assert 0.4 * limit < distance(trial, state) < 1.05 * limit
    assert value < loss
    assert weights.sum() == pytest.approx(1)


def test_an_implicit_step_is_three_tenths_longer_than_the_last_and_never_below_the_smallest():
    state, points, sign = start()
    loss, pull = training.log_sum_exp(state.outputs * sign), np.full(6, 1 / 6)
    _, _, step, _ = training.implicit_step(state, points, sign, loss, 1e-6, pull, 1e8, np.inf)
    assert step == pytest.approx(1.3e-6)
    _, _, step, _ = training.implicit_step(state, points, sign, loss, 0.0, pull, 1e8, np.inf)
    assert step == pytest.approx(0.05 / ((state.squared_norm + 1e8 + 1) * (points**2).sum(axis=1).max()))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_an_implicit_step_ends_on_the_target_or_a_fiftieth_of_itself_beyond(share):
    state, points, sign = start()
    margins = state.outputs * sign
    loss, pull = training.log_sum_exp(margins), np.full(6, 1 / 6)
    full, _, full_step, _ = training.implicit_step(state, points, sign, loss, 1e-3, pull, 1e6, np.inf)
    gained = (full.outputs * sign).min() - margins.min()
    assert gained > 0
    target = margins.min() + share * gained
    trial, _, step, _ = training.implicit_step(state, points, sign, loss, 1e-3, pull, 1e6, target)
    assert step < full_step
    assert -1e-12 <= (trial.outputs * sign).min() - target <= 0.021 * gained


@pytest.mark.parametrize(("n", "d", "implicit"), [(200, 10, True), (201, 10, False), (20, 11, False), (20, 10, True)])
def test_steps_are_implicit_up_to_10_inputs_and_200_records(n, d, implicit):
    x, y = draw_records(n, d)
    default, chosen, other = (
        margin.train(x, y, width=3, max_steps=2, initial_scale=0.5, implicit=which).loss.tolist()
        for which in (None, implicit, not implicit)
    )
    assert default == chosen != other


@pytest.mark.parametrize(("d", "scale"), [(1, 0.2), (3, 0.2), (4, 1e-4)])
def test_the_first_weights_are_large_up_to_3_inputs(d, scale):
    x, y = draw_records(8, d)
    default, chosen = (margin.train(x, y, width=3, max_steps=1, initial_scale=s).loss.tolist() for s in (None, scale))
    assert default == chosen


@pytest.mark.parametrize(("implicit", "limit"), [(True, 5_000), (False, 50_000)])
def test_training_gives_up_after_so_many_steps(monkeypatch, implicit, limit):
    x, y = draw_records(2, 1)
    monkeypatch.setattr(
        training, "implicit_step", lambda state, points, sign, loss, step, pull, *_: (state, loss, step, pull)
    )
    monkeypatch.setattr(training, "_explicit_step", lambda state, points, sign, loss, step, _: (state, loss, step))
    run = margin.train(x, y, width=1, implicit=implicit)
    assert (run.steps, run.reached) == (limit, False)


def test_training_ends_on_the_target_and_not_before():
    x, y = draw_records(6, 12)
    run = margin.train(x, y, width=30, target_margin=1e9, max_steps=300, initial_scale=0.3, implicit=False)
    assert (run.steps, run.reached) == (300, False)
    first = int(np.flatnonzero(run.margin == run.margin.max())[0])
    assert run.margin[first] > 0
    again = margin.train(
        x, y, width=30, target_margin=run.margin[first], max_steps=300, initial_scale=0.3, implicit=False
    )
    assert (again.steps, again.reached) == (first, True)
    short = margin.train(
        x, y, width=30, target_margin=run.margin[first], max_steps=first, initial_scale=0.3, implicit=False
    )
    assert (short.steps, short.reached) == (first, True)
    np.testing.assert_array_equal(again.margin, run.margin[: first + 1])


def test_descent_reaches_nothing_where_a_record_is_answered_with_0():
    x, y = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0])
    outcomes = {}
    for seed in range(30):
        run = margin.descend(x, y, width=1, steps=1, learning_rate=1e-9, seed=seed)
        assert run.reached == (run.margin[-1] > 0)
        outcomes[float(np.sign(run.margin[-1]))] = run.reached
    assert outcomes[0.0] is False
    assert run.loss[0] == pytest.approx(np.mean(np.log1p(np.exp(-y * run.net(x)))))


def test_a_neuron_is_drawn_in_the_span_of_the_records_and_what_is_outside_stays():
    data = np.column_stack([draw_records(4, 7)[0], np.ones(4)])
    (w, v), basis, frozen = training._initialise(data, 5, 3, 0.5, reduced=True)
    (plain, plain_v), identity, nothing = training._initialise(data, 5, 3, 0.5, reduced=False)
    np.testing.assert_allclose(w @ basis.T + frozen, plain)
    np.testing.assert_allclose(frozen @ data.T, 0, atol=1e-12)
    np.testing.assert_array_equal(v, plain_v)
    np.testing.assert_array_equal(identity, np.eye(8))
    assert not nothing.any()
    assert np.abs(v).max() <= 1 / np.sqrt(5)
    assert v.min() < 0 < v.max()


def test_memory_is_asked_for_before_neurons_are_drawn(monkeypatch):
    asked = []
    monkeypatch.setattr(training, "check_memory", lambda size, *_: asked.append(size))
    training._initialise(np.ones((2, 3)), 10, 0, 1.0, reduced=True)
    assert asked == [64 * 10 * 3]
    monkeypatch.undo()
    with pytest.raises(dv.InputError, match=r"width: .*fewer neurons need less"):
        margin.train(*draw_records(4, 2), width=10**12)
    with pytest.raises(dv.InputError, match=r"^width: must be at most|^width: must lie"):
        margin.train(*draw_records(4, 2), width=10**12 + 1)


@pytest.mark.parametrize(("second", "rank"), [(1.5e-12, 2), (0.8e-12, 1)])
def test_directions_of_a_trillionth_are_no_part_of_the_span(second, rank):
    basis = training.span_basis(np.diag([1.0, second]))
    assert basis.shape == (2, rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-12)


@pytest.mark.parametrize("place", [(0, 0), (1, 1), None])
def test_weights_that_are_no_numbers_are_refused(place):
    state, _, _ = start(k=3, r=2)
    if place is None:
        state.v[2] = np.inf
    else:
        state.w[place] = np.nan
    with pytest.raises(dv.InputError, match="x: training diverged"):
        training._build_network(state, np.eye(2), np.zeros((3, 2)))


def test_equal_records_of_one_label_are_fine_and_of_two_are_not():
    x = np.array([[1.0], [2.0], [1.0], [3.0], [2.0]])
    training.check_consistent_labels(x, np.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    for signs in ([1.0, -1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]):
        with pytest.raises(dv.InputError, match=r"x: records \[1, 4\] are equal but their labels differ"):
            training.check_consistent_labels(x, np.array(signs))


class TestCones:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("cone_sign", [1.0, -1.0])
    def test_the_best_direction_is_the_best_of_its_pattern(self, seed, cone_sign):
        """No direction of the pattern (1 of 20,000) earns more per length, and it keeps the pattern."""
        rng = np.random.default_rng(seed)
        points, pull = rng.normal(size=(4, 2)), rng.normal(size=4)
        cone = _Cone(cone_sign, rng.normal(size=2) @ points.T > 0)
        best = _best_direction(points, pull, cone)
        target = cone_sign * (pull[cone.active] @ points[cone.active])
        turn = np.linspace(0, 2 * np.pi, 20_000)
        directions = np.column_stack([np.cos(turn), np.sin(turn)])
        keeps = ((directions @ points.T > 0) == cone.active).all(axis=1)
        most = (directions[keeps] @ target).max()
        length = np.linalg.norm(best)
        assert length == pytest.approx(max(most, 0), abs=1e-3)
        heights = points @ best
        assert (heights[cone.active] >= -1e-9).all()
        assert (heights[~cone.active] <= 1e-9).all()

    def test_patterns_are_kept_once_and_none_without_a_record(self):
        on, off = np.array([True, False]), np.array([False, False])
        kept = _unique_cones([_Cone(1.0, on), _Cone(-1.0, on), _Cone(1.0, on.copy()), _Cone(1.0, off)])
        assert [(cone.sign, cone.active.tolist()) for cone in kept] == [(1.0, [True, False]), (-1.0, [True, False])]

    def test_a_plane_is_what_its_direction_earns_of_each_record(self):
        points, sign = np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 0.0]]), np.array([1.0, -1.0, -1.0])
        cone = _Cone(1.0, np.array([True, False, True]))
        np.testing.assert_allclose(_cutting_plane(points, sign, sign, cone), [3.0, 0.0, -1.0])
        np.testing.assert_allclose(_cutting_plane(points, sign, sign, _Cone(-1.0, cone.active)), 0.0)
        for length, kept in ((0.5e-12, False), (1.5e-12, True)):
            plane = _cutting_plane(np.eye(2), np.ones(2), np.array([length, 0.0]), _Cone(1.0, np.array([True, False])))
            assert plane.tolist() == ([1.0, 0.0] if kept else [0.0, 0.0])

    @pytest.mark.parametrize(
        ("length", "is_tight"), [(1 - 0.5e-6, True), (1 - 1.5e-6, False), (1.0, True), (1.2, True)]
    )
    def test_a_direction_is_tight_within_a_millionth(self, length, is_tight):
        directions, outputs = _tight_directions(
            np.eye(2),
            np.array([length, 0.5]),
            [_Cone(1.0, np.array([True, False])), _Cone(1.0, np.array([False, True]))],
        )
        assert len(outputs) == is_tight
        if is_tight:
            np.testing.assert_allclose(directions, [[1.0, 0.0]])

    @pytest.mark.parametrize(("second", "count"), [(0.5e-6, 1), (1.5e-6, 2)])
    def test_directions_within_a_millionth_are_one_of_each_sign(self, second, count):
        first, both = np.array([True, False]), np.array([True, True])
        pull = np.array([1.0, second])
        _, outputs = _tight_directions(np.eye(2), pull, [_Cone(1.0, first), _Cone(1.0, both)])
        assert outputs.tolist() == [1.0] * count
        _, outputs = _tight_directions(np.eye(2), -pull, [_Cone(-1.0, first), _Cone(-1.0, both), _Cone(1.0, both)])
        assert outputs.tolist() == [-1.0] * count

    @pytest.mark.parametrize(("n", "count"), [(2, 4), (3, 4), (4, 16)])
    def test_the_search_starts_from_both_classes_and_from_all_records(self, n, count):
        points, sign = np.random.default_rng(0).normal(size=(n, 3)), np.where(np.arange(n) % 2, 1.0, -1.0)
        cones = training._initial_cones(points, sign)
        assert len(cones) == count
        patterns = [(cone.sign, tuple(cone.active)) for cone in cones]
        assert patterns[:2] == [(s, tuple(sign == s)) for s in (1.0, -1.0)]
        assert patterns[2:4] == [(s, (True,) * n) for s in (1.0, -1.0)]
        for column in points.T if count > 4 else ():
            for s in (1.0, -1.0):
                assert (s, tuple(column > 0)) in patterns
                assert (s, tuple(column < 0)) in patterns

    def test_a_local_search_flips_records_on_the_kink(self):
        """The best direction of the first record alone is (1, 0), on the kink of the second, which adds to it."""
        points = np.array([[1.0, 0.0], [0.0, 1.0]])
        cone, length = training._local_search(points, np.array([1.0, 1.0]), _Cone(1.0, np.array([True, False])), {})
        assert cone.active.tolist() == [True, True]
        assert length == pytest.approx(np.sqrt(2))
        cone, length = training._local_search(points, np.array([1.0, -1.0]), _Cone(1.0, np.array([True, False])), {})
        assert cone.active.tolist() == [True, False]
        assert length == pytest.approx(1.0)
        cone, length = training._local_search(points, np.array([-1.0, 1.0]), _Cone(1.0, np.array([True, False])), {})
        assert (cone.active.tolist(), length) == ([True, False], 0.0)


@pytest.mark.parametrize(("name", "value"), [("max_rounds", 0), ("x", [[1.0], [1.0]]), ("y", [1, 1])])
def test_what_has_no_optimum_is_refused(name, value):
    arguments = {"x": [[-1.0], [1.0]], "y": [-1, 1], name: value}
    with pytest.raises(dv.InputError, match=f"^{name}: "):
        margin.solve(**arguments)
