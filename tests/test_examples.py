"""Every example runs as its first line says."""

import re
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


def test_a_network_gives_away_more_after_each_epoch():
    pytest.importorskip("torch")
    process = subprocess.run(
        [sys.executable, EXAMPLES / "leak_per_epoch.py"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    areas = [float(area) for area in re.findall(r"canaries (\d\.\d+)", process.stdout)]
    assert areas[-1] > max(areas[0], 0.9)


def test_one_model_seen_from_five_sides_leaves_one_folder_of_reports(tmp_path):
    pytest.importorskip("torch")
    process = subprocess.run(
        [sys.executable, EXAMPLES / "one_model.py", tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    links = re.findall('href="([^"]+)"', (tmp_path / "out" / "index.html").read_text())
    assert len(links) == 5
    assert all("<html" in (tmp_path / "out" / link).read_text(encoding="utf-8") for link in links)
    assert "60 of 60 diagnoses" in process.stdout
    listed, true = map(int, re.search(r"(\d+) of 400 images are listed, (\d+) of them", process.stdout).groups())
    assert true > 50
    assert true > 0.75 * listed
    assert int(re.search(r"(\d+) of 400 candidates are recognised", process.stdout)[1]) > 100


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
