"""Limits at which training chooses between its steps, ends, or refuses."""

import numpy as np
import pytest

import divulge as dv
from divulge import margin
from divulge.margin import gradient_flow


def draw_records(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), np.where(np.arange(n) % 2, 1.0, -1.0)


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


def test_equal_records_of_one_label_are_fine_and_of_two_are_not():
    x = np.array([[1.0], [2.0], [1.0], [3.0], [2.0]])
    gradient_flow.check_consistent_labels(x, np.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    for signs in ([1.0, -1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]):
        with pytest.raises(dv.InputError, match=r"x: records \[1, 4\] are equal but their labels differ"):
            gradient_flow.check_consistent_labels(x, np.array(signs))


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
