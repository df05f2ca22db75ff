"""Every example runs as its first line says."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["own_model", "scikit_learn", "score_table"])
def test_example(name):
    process = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "AUC" in process.stdout
