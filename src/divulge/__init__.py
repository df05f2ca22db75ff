"""Divulge finds out what a trained model gives away about its training data, and proves it.

Everything public hangs here and is imported on first use, so `import divulge` stays fast and
loads neither torch nor scikit-learn.
"""

from __future__ import annotations

import sys

# `python -m divulge` puts the current folder, which may hold anybody's files, before every installed module. What such
# a folder holds is never imported; this must come before anything else is.
if (
    sys.argv[:1] == ["-m"]
    and not sys.flags.safe_path
    and any(
        (word == "-m" and name.split(".")[0] == "divulge") or word.startswith("-mdivulge")
        for word, name in zip(sys.orig_argv, [*sys.orig_argv[1:], ""], strict=True)
    )
):
    del sys.path[0]

import importlib
from typing import TYPE_CHECKING, Any

from divulge._version import __version__

if TYPE_CHECKING:
    from divulge import (
        access,
        attacks,
        attributes,
        canaries,
        completion,
        decisions,
        defences,
        evaluation,
        extraction,
        labels,
        margin,
        reconstruction,
        references,
        regressors,
        signals,
        synthetic,
        targets,
        unlearning,
    )
    from divulge.auditing import audit
    from divulge.canaries import Claim
    from divulge.candidates import identify
    from divulge.chats import from_messages, from_prompts
    from divulge.datafiles import from_pairs
    from divulge.errors import InputError, MissingExtraError
    from divulge.people import by_person
    from divulge.published_fits import examine_cohorts
    from divulge.runs import compare_runs as compare
    from divulge.runs import gate, load
    from divulge.settings import AuditOptions
    from divulge.types import Estimate, Evidence, Guarantee, PartialRecords, Records, Selection
    from divulge.unlearning import forget

__all__ = [
    "AuditOptions",
    "Claim",
    "Estimate",
    "Evidence",
    "Guarantee",
    "InputError",
    "MissingExtraError",
    "PartialRecords",
    "Records",
    "Selection",
    "__version__",
    "access",
    "attacks",
    "attributes",
    "audit",
    "by_person",
    "canaries",
    "compare",
    "completion",
    "decisions",
    "defences",
    "evaluation",
    "examine_cohorts",
    "extraction",
    "forget",
    "from_messages",
    "from_pairs",
    "from_prompts",
    "gate",
    "identify",
    "labels",
    "load",
    "margin",
    "reconstruction",
    "references",
    "regressors",
    "signals",
    "synthetic",
    "targets",
    "unlearning",
]

# Where each public name lives, and after a colon under which name. A name absent here is a sub-package of the same
# name. The modules behind `audit` and `identify` have other names on purpose: importing a sub-module sets an attribute
# of its name on this package and would hide the function.
_HOMES = {
    "AuditOptions": "divulge.settings",
    "Claim": "divulge.canaries",
    "Estimate": "divulge.types",
    "Evidence": "divulge.types",
    "Guarantee": "divulge.types",
    "InputError": "divulge.errors",
    "MissingExtraError": "divulge.errors",
    "PartialRecords": "divulge.types",
    "Records": "divulge.types",
    "Selection": "divulge.types",
    "audit": "divulge.auditing",
    "by_person": "divulge.people",
    "compare": "divulge.runs:compare_runs",
    "examine_cohorts": "divulge.published_fits",
    "forget": "divulge.unlearning",
    "from_messages": "divulge.chats",
    "from_pairs": "divulge.datafiles",
    "from_prompts": "divulge.chats",
    "gate": "divulge.runs",
    "identify": "divulge.candidates",
    "load": "divulge.runs",
}


# Sub-packages that are reached as attributes, and left out of ``from divulge import *``.
_FURTHER_PACKAGES = frozenset({"auditing", "identification", "recipes"})


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _FURTHER_PACKAGES:
        raise AttributeError(f"module 'divulge' has no attribute {name!r}")
    home, _, attribute = _HOMES.get(name, "").partition(":")
    module = importlib.import_module(home or f"divulge.{name}")
    value = getattr(module, attribute or name) if home else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
