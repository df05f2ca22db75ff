"""Span-reduced training is plain training, only faster."""

import numpy as np
import pytest

import divulge as dv
from divulge import margin


@pytest.mark.parametrize(("n", "d"), [(6, 15), (12, 4)])
def test_reduced_equals_plain_step_for_step(mixture, n, d):
    x, y = mixture(n, d)
    plain = margin.train(x, y, width=40, target_margin=1e9, seed=3, max_steps=150, implicit=False, reduced=False)
    reduced = margin.train(x, y, width=40, target_margin=1e9, seed=3, max_steps=150, implicit=False)
    np.testing.assert_allclose(reduced.loss, plain.loss, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(reduced.net.w, plain.net.w, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(reduced.net.v, plain.net.v, rtol=1e-7, atol=1e-9)


def test_the_first_step_follows_the_gradient_by_finite_differences(mixture):
    x, y = mixture(5, 3)
    run = margin.train(x, y, width=4, target_margin=1e9, seed=0, max_steps=1, initial_scale=0.3, implicit=False)
    start = margin.train(x, y, width=4, target_margin=1e-300, seed=0, max_steps=1, initial_scale=0.3, implicit=False)
    before = _start(x, y, run)

    def loss(theta):
        w, b, v = theta[:12].reshape(4, 3), theta[12:16], theta[16:]
        return np.log(np.sum(np.exp(-y * margin.ShallowReLU(w, b, v)(x))))

    theta = np.concatenate([before.w.ravel(), before.b, before.v])
    moved = np.concatenate([run.net.w.ravel(), run.net.b, run.net.v]) - theta
    slope = np.array([(loss(theta + 1e-6 * e) - loss(theta - 1e-6 * e)) / 2e-6 for e in np.eye(20)])
    assert start.steps == 1
    np.testing.assert_allclose(moved / np.linalg.norm(moved), -slope / np.linalg.norm(slope), atol=1e-5)


def _start(x, y, run):
    from divulge import seeds

    rng = seeds.generator(0, "margin", "initialisation")
    w = 0.3 * rng.normal(size=(4, 4))
    return margin.ShallowReLU(w[:, :3], w[:, 3], rng.uniform(-1, 1, 4) / 2)


def test_it_reaches_the_target_and_stops(mixture):
    x, y = mixture(20, 100)
    run = margin.train(x, y, width=200, target_margin=100.0)
    assert run.reached
    assert run.margin[-1] >= 100 > run.margin[-2]
    assert (run.net(x) * y).min() == pytest.approx(run.margin[-1], rel=1e-9)
    assert run.history["loss"][-1] < run.history["loss"][0]


def test_margins_beyond_the_reach_of_exp_do_not_underflow(mixture):
    x, y = mixture(6, 50)
    run = margin.train(x, y, width=50, target_margin=5000.0)
    assert run.reached
    assert np.isfinite(run.loss).all()


def test_the_same_seed_gives_the_same_network(mixture):
    x, y = mixture(6, 20)
    a, b, c = (margin.train(x, y, width=10, target_margin=2.0, seed=seed).net.w for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_descend_is_plain_gradient_descent(mixture):
    x, y = mixture(5, 12)
    run = margin.descend(x, y, width=6, steps=40, learning_rate=0.3, seed=0)
    from divulge import seeds

    rng = seeds.generator(0, "margin", "initialisation")
    w, v = 1e-4 * rng.normal(size=(6, 13)), rng.uniform(-1, 1, 6) / np.sqrt(6)
    full = np.column_stack([x, np.ones(5)])
    for _ in range(40):
        before = full @ w.T
        outputs = np.maximum(before, 0) @ v
        pull = -y / (1 + np.exp(y * outputs)) / 5
        w, v = (
            w - 0.3 * (((before > 0) * pull[:, None]).T @ full) * v[:, None],
            v - 0.3 * pull @ np.maximum(before, 0),
        )
    np.testing.assert_allclose(run.net.w, w[:, :-1], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(run.net.v, v, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1, 0, 1]}, r"labels must be -1 or \+1, got 0 \(0/1 labels become"),
        ({"y": [1, 1, 1, 1]}, "both labels"),
        ({"y": [1, -1]}, "y: 4 values are needed, got 2"),
        ({"x": [[1.0], [1.0], [2.0], [3.0]]}, r"records \[0, 1\] are equal but their labels differ"),
        ({"x": [[1.0], [np.nan], [2.0], [3.0]]}, "x: 1 values are NaN"),
        ({"target_margin": 0.0}, "target_margin: must lie in"),
        ({"width": 0}, "width: must be at least 1"),
        ({"initial_scale": -1.0}, "initial_scale"),
    ],
)
@pytest.mark.parametrize("function", ["train", "solve"])
def test_bad_input(function, change, message):
    arguments = {"x": [[0.0], [1.0], [2.0], [3.0]], "y": [-1, 1, -1, 1]} | change
    if function == "solve" and not set(change) <= {"x", "y"}:
        arguments["y"], message = [2, 1, 1, 1], "labels must be"
        arguments = {key: arguments[key] for key in ("x", "y")}
    with pytest.raises(dv.InputError, match=message):
        getattr(margin, function)(**arguments)


def draw_records(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), np.where(np.arange(n) % 2, 1.0, -1.0)


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


def test_more_neurons_than_memory_holds_are_refused_before_they_are_drawn():
    with pytest.raises(dv.InputError, match=r"width: .*fewer neurons need less"):
        margin.train(*draw_records(4, 2), width=10**12)
    with pytest.raises(dv.InputError, match=r"^width: must be at most|^width: must lie"):
        margin.train(*draw_records(4, 2), width=10**12 + 1)


def test_equal_records_of_two_labels_are_refused():
    x = np.array([[1.0], [2.0], [1.0], [3.0], [2.0]])
    for signs in ([1.0, -1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]):
        with pytest.raises(dv.InputError, match=r"x: records \[1, 4\] are equal but their labels differ"):
            margin.train(x, np.array(signs), width=3)
