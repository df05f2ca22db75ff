"""What every test run has in common: examples that hypothesis draws are the same each time.

`HYPOTHESIS=random pytest` looks for new ones.
"""

import gc
import os
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # one of a worker per core, whose threads would only wait for one another
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ["COLUMNS"] = "120"  # as of a log file, whoever starts the tests: pytest-xdist gives its workers 80

# Bytecode is kept whatever this environment says: hundreds of processes would each compile all of the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("fixed", derandomize=True)
settings.register_profile("random", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS", "fixed"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep garbage collection from what is read: it would go through all modules and tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
