"""Modules that are slow to import (scikit-learn: 90 MiB, a second) or come with an extra, loaded at their first use.

Whoever uses one names it at the top of the file, for the type checker and for Python:

    if TYPE_CHECKING:
        import pandas as pd
        from scipy import special
    else:
        pd = lazy.module("pandas")
        special = lazy.module("scipy.special")
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from divulge.errors import as_missing_extra


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        # What inspect and doctest ask of every global is no use of the module.
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            imported = importlib.import_module(self.__name__)
        except ImportError as error:
            if (extra := as_missing_extra(error)) is None:
                raise
            raise extra from None
        return getattr(imported, name)


def module(name: str) -> ModuleType:
    """Return the module of that name, imported when an attribute of it is first read.

    Raises:
        divulge.MissingExtraError: then, if it comes with an extra that is not installed.

    Examples:
        >>> stats = module("scipy.stats")
        >>> float(stats.norm.ppf(0.5))
        0.0
    """
    return _LazyModule(name)
