"""Make the scripts of this folder's parent importable; in pyproject.toml they would hide packages of `tests`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
