"""One thread for whatever trains: several processes share the cores, and a result must not depend on how many."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import threadpoolctl

from divulge import lazy

if TYPE_CHECKING:
    from collections.abc import Generator

    from divulge import networks
else:
    networks = lazy.module("divulge.networks")


@contextlib.contextmanager
def one() -> Generator[None]:
    """One thread inside the block, in linear algebra and OpenMP; in torch too where it is loaded."""
    with threadpoolctl.threadpool_limits(1), contextlib.ExitStack() as stack:
        if "torch" in sys.modules:
            stack.enter_context(networks.single_thread())
        yield
