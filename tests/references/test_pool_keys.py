"""Keys of stored models: what a function reads elsewhere decides what it does, though its own code stays the same."""

import cmath
import functools
import math
import os
import subprocess
import sys
import types

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from divulge.references import Train, clones, pool

LONG = np.arange(5000.0)
CHANGED = np.where(LONG == 2500, 7.0, LONG)  # the repr of both is the same


def user_function(source: str, **values: object) -> types.FunctionType:
    """Return the function ``f`` of a module of the user's own that holds ``values``."""
    module = {"__name__": "users_module", **values}
    exec(source, module)
    return module["f"]


class Settings:
    def __init__(self, width):
        self.width = width


CONSTANT = "f = lambda x: x * WIDTH"
PAIRS = {
    "a constant": [(CONSTANT, {"WIDTH": width}) for width in (1, 2)],
    "a constant of an inner function": [
        ("f = lambda x: (lambda y: y + WIDTH)(x)", {"WIDTH": width}) for width in (1, 2)
    ],
    "a helper": [(f"def helper(x): return x + {step}\nf = lambda x: helper(x)", {}) for step in (1, 2)],
    "a constant of a helper": [
        ("def helper(x): return x + WIDTH\nf = lambda x: helper(x)", {"WIDTH": width}) for width in (1, 2)
    ],
    "a method's constant": [
        ("class Body:\n    def forward(self, x): return x * WIDTH\nf = lambda: Body()", {"WIDTH": width})
        for width in (1, 2)
    ],
    "a base class": [
        (f"class Base:\n    step = {step}\nclass Body(Base): pass\nf = lambda: Body()", {}) for step in (1, 2)
    ],
    "a module": [("f = lambda x: library.sqrt(x)", {"library": library}) for library in (math, cmath)],
    "a long array": [(CONSTANT, {"WIDTH": values}) for values in (LONG, CHANGED)],
    "a list of long arrays": [(CONSTANT, {"WIDTH": [values]}) for values in (LONG, CHANGED)],
    "a frame": [(CONSTANT, {"WIDTH": pl.DataFrame({"a": values})}) for values in (LONG, CHANGED)],
    "an object": [(CONSTANT, {"WIDTH": Settings(width)}) for width in (1, 2)],
    "a fitted estimator": [
        (CONSTANT, {"WIDTH": StandardScaler().fit(values[:, None])}) for values in (LONG, CHANGED)
    ],
    "a random generator": [(CONSTANT, {"WIDTH": np.random.default_rng(seed)}) for seed in (0, 1)],
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_functions_of_equal_code_that_read_other_things_have_other_keys(what):
    first, same, other = (user_function(source, **values) for source, values in (PAIRS[what][0], *PAIRS[what]))
    assert pool.digest_function(first) == pool.digest_function(same)
    assert pool.digest_function(first) != pool.digest_function(other)


def test_captured_values_count_with_all_they_hold():
    pairs = ((LONG, CHANGED), ([LONG], [CHANGED]), ({"a": LONG}, {"a": CHANGED}), (Settings(1), Settings(2)))
    for first, other in pairs:

        def capture(values):
            return lambda x: x * values

        assert pool.digest_function(capture(first)) == pool.digest_function(capture(first))
        assert pool.digest_function(capture(first)) != pool.digest_function(capture(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (True, 1), ([1], (1,)), ({1}, [1]), ({"a": 1}, {"a": 2}), ({"a": 1}, {"b": 1}), ([1, 2], [2, 1]),
        (np.arange(2), np.arange(2.0)), (np.array(["a"], object), np.array(["b"], object)), (np.sin, np.cos),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (functools.partial(max, key=len), functools.partial(max)),
        (np.random.default_rng(0), np.random.default_rng(1)), (torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)),
        (torch.zeros(2), torch.ones(2)), ("abc".upper, "abd".upper), (pool, clones), ({1: [object]}, {1: [int]}),
    ],
)  # fmt: skip
def test_values_that_differ_have_other_digests(one, other):
    assert pool.digest_value(one) == pool.digest_value(one)
    assert pool.digest_value(one) != pool.digest_value(other)


def test_the_order_of_a_set_does_not_count_and_values_that_hold_themselves_have_a_digest():
    assert pool.digest_value({"a", "b", (1, 2)}) == pool.digest_value({(1, 2), "b", "a"})
    assert pool.digest_value({"a", (1, 2)}) != pool.digest_value(frozenset({"a", (1, 2)}))
    endless: list = []
    endless.append(endless)
    assert pool.digest_value(endless) == pool.digest_value(endless)


def test_an_object_that_was_changed_in_place_is_another():
    settings = Settings(1)
    before = pool.digest_function(lambda_of := (lambda x: x * settings.width))
    settings.width = 2
    assert pool.digest_function(lambda_of) != before
    settings.width = 1
    assert pool.digest_function(lambda_of) == before


def test_what_refers_to_itself_has_a_key():
    source = "def f(n): return 1 if n < 1 else g(n - 1)\ndef g(n): return f(n)"
    assert pool.digest_function(user_function(source)) == pool.digest_function(user_function(source))
    ring = [1]
    ring.append(ring)
    settings = Settings(ring)
    settings.owner = settings
    assert pool.digest_value(settings) == pool.digest_value(settings)


def test_functions_that_read_only_installed_packages_keep_their_keys():
    """Built-in functions have no address in their key, or a stored model would never be found again."""
    assert "0x" not in pool.digest_value(np.random.default_rng)
    wave = user_function("f = lambda x: sin(x)", sin=math.sin)
    assert pool.digest_function(wave) == pool.digest_function(user_function("f = lambda x: sin(x)", sin=math.sin))
    assert pool.digest_function(wave) != pool.digest_function(user_function("f = lambda x: sin(x)", sin=math.cos))


def test_estimators_of_functions_with_other_globals_have_other_keys():
    keys = {clones.digest_estimator(FunctionTransformer(user_function(CONSTANT, WIDTH=width))) for width in (1, 2)}
    assert len(keys) == 2


def test_networks_whose_attributes_differ_have_other_keys():
    """Two networks of one class, printed alike and with equal first weights, that compute different things."""

    class Body(torch.nn.Module):
        def __init__(self, activation, extra=None):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(2, 2)
            self.activation, self.extra = activation, extra

        def forward(self, x):
            return self.activation(self.layer(x))

    keys = [
        pool.digest_architecture(Body(*arguments))
        for arguments in (
            (torch.tanh,), (torch.relu,), (torch.tanh, [1]), (torch.tanh, [2]), (torch.tanh, (torch.zeros(2000),)),
            (torch.tanh, (torch.ones(2000),)), (lambda x: x + 1,), (user_function(CONSTANT, WIDTH=2),),
        )
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert pool.digest_architecture(Body(torch.tanh)) == keys[0]
    base = torch.nn.Linear(3, 3)
    captured = lambda x: base(x)  # noqa: E731
    before = pool.digest_function(captured)
    with torch.no_grad():
        base.weight += 1
    assert pool.digest_function(captured) != before


def test_a_global_that_changed_trains_again(fit, networks, tmp_path):
    source = "def f(x, rng): return x * SCALE"
    first, other = (
        Train(networks.mlp, 1, epochs=1, augment=user_function(source, SCALE=scale)) for scale in (1.0, -1.0)
    )
    assert [fit(train, pool=tmp_path).reused for train in (first, first, other)] == [0, 1, 0]


def test_keys_do_not_depend_on_the_process():
    """Sets of texts have another order in each process; models stored by one must be found by the next."""
    script = (
        "from divulge.references import pool\n"
        "NAMES = {'gamma', 'delta', 'epsilon'}\n"
        "def f(x): return x in {'alpha', 'beta', 'zeta'} or x in NAMES\n"
        "print(pool.digest_function(f))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(keys) == 1
    assert len(keys.pop().strip()) > 10
