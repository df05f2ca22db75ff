"""How much memory what the records alone tell is said to need."""

import tracemalloc

import numpy as np

from divulge.evaluation import blind


def test_memory_of_the_controls_is_forecast_within_a_factor_of_one_and_a_half():
    n = 3000
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 10)), rng.integers(0, 2, n)
    blind.baseline(x[:50], x[50:100])  # loads libraries
    tracemalloc.start()
    errors = blind.measure_label_errors(x, y)
    blind.baseline(x[::2], x[1::2], y_members=y[::2], y_nonmembers=y[1::2], label_errors=errors)
    blind.adjust_scores({"score": x[:, 0]}, x, y, label_errors=errors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / 1.5 < blind.estimate_memory(n, x[:1], 2) < 1.5 * peak
