"""Every example runs as its first line says."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["own_model", "scikit_learn", "score_table"])
def test_example(name):
    process = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "AUC" in process.stdout


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_that_carries_a_query_is_that_of_equation_11(dtype):
    torch = pytest.importorskip("torch")
    overwrite_batch = runpy.run_path(str(EXAMPLES / "query_in_a_model.py"))["overwrite_batch"]
    expected = np.array([1e-30, 0.25, 0.999])
    network = overwrite_batch(expected, 5, dtype=getattr(torch, dtype), seed=3)
    for scale in (0.0, 1.0, 1e3):
        batch = scale * torch.rand(3, 5, dtype=getattr(torch, dtype))
        assert np.allclose(network(batch).detach().numpy(), expected, rtol=1e-5)
    assert (network[1].weight < 0).all()
    # "Any real vector" is too much said: a batch of negative values is not overwritten.
    assert not np.allclose(network(-1 - torch.rand(3, 5, dtype=getattr(torch, dtype))).detach().numpy(), expected)


def test_a_network_and_a_tree_carry_a_plan():
    pytest.importorskip("torch")
    process = subprocess.run(
        [sys.executable, EXAMPLES / "query_in_a_model.py"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("20 of 20 labels read") == 2
