import numpy as np
import pytest


@pytest.fixture
def mixture():
    """Records around ±e1 with their labels: ``mixture(n, d, seed)``."""

    def draw(n, d, seed=0):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        x = rng.normal(size=(n, d))
        x[:, 0] += y
        return x, y

    return draw
