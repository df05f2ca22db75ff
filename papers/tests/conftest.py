"""Modules of the scripts can be imported by the tests beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
