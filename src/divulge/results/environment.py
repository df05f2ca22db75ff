"""What a run was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess

from divulge._version import __version__
from divulge.results.audit import Environment

_PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "torch", "transformers", "polars", "ray")


def environment() -> Environment:
    """Versions, machine kind and the git commit of the working directory, where there is one."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Environment(__version__, platform.python_version(), platform.platform(), os.cpu_count(), versions, _commit())


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    answer = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return answer.stdout.strip() if answer.returncode == 0 else None
