"""What a run was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from typing import Any

from divulge._version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "torch", "transformers", "polars", "ray")


def environment() -> dict[str, Any]:
    """Versions, machine kind and the git commit of the working directory, where there is one."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "divulge": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "packages": versions,
        "git_commit": _commit(),
    }


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    answer = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return answer.stdout.strip() if answer.returncode == 0 else None
