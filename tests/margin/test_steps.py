"""Steps of training one by one, against literal versions, and the limits at which training chooses between them."""

import numpy as np
import pytest

import divulge as dv
from divulge import margin
from divulge.margin import training


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


@pytest.mark.parametrize(("second", "rank"), [(1.5e-12, 2), (0.8e-12, 1)])
def test_directions_of_a_trillionth_are_no_part_of_the_span(second, rank):
    basis = training.span_basis(np.diag([1.0, second]))
    assert basis.shape == (2, rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-12)


def test_equal_records_of_one_label_are_fine_and_of_two_are_not():
    x = np.array([[1.0], [2.0], [1.0], [3.0], [2.0]])
    training.check_consistent_labels(x, np.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    for signs in ([1.0, -1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]):
        with pytest.raises(dv.InputError, match=r"x: records \[1, 4\] are equal but their labels differ"):
            training.check_consistent_labels(x, np.array(signs))


@pytest.mark.parametrize(("name", "value"), [("max_rounds", 0), ("x", [[1.0], [1.0]]), ("y", [1, 1])])
def test_what_has_no_optimum_is_refused(name, value):
    arguments = {"x": [[-1.0], [1.0]], "y": [-1, 1], name: value}
    with pytest.raises(dv.InputError, match=f"^{name}: "):
        margin.solve(**arguments)


def test_more_neurons_than_memory_holds_are_refused_before_they_are_drawn():
    with pytest.raises(dv.InputError, match=r"width: .*fewer neurons need less"):
        margin.train(*draw_records(4, 2), width=10**12)
    with pytest.raises(dv.InputError, match=r"^width: must be at most|^width: must lie"):
        margin.train(*draw_records(4, 2), width=10**12 + 1)
