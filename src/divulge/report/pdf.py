"""A report on paper: the HTML file, printed by a Chromium that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from divulge import store
from divulge.errors import InputError

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_PATIENCE = 120  # seconds


def write(document: Path, path: Path) -> None:
    """Print the HTML file ``document`` to ``path``.

    Raises:
        divulge.InputError: no browser is installed, or it could not print.
    """
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise InputError(
            "--format pdf: a Chromium is needed (none of chromium, google-chrome, msedge is on the path); or open "
            f"{document.name} in any browser and print it: the page has a layout for paper"
        )
    with tempfile.TemporaryDirectory(prefix="divulge-pdf-") as folder:
        made = Path(folder) / "report.pdf"
        command = [browser, *_flags(), f"--user-data-dir={folder}/profile", f"--print-to-pdf={made}"]
        try:
            subprocess.run([*command, document.resolve().as_uri()], capture_output=True, check=True, timeout=_PATIENCE)  # noqa: S603 - our own words
            content = made.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"--format pdf: {browser} could not print ({type(error).__name__})") from None
    store.write_bytes(path, content)


def _flags() -> list[str]:
    flags = ["--headless", "--disable-gpu", "--no-pdf-header-footer", "--no-first-run", "--virtual-time-budget=20000"]
    # Chromium refuses to start its sandbox for root; the page is our own file and may connect to nothing.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*flags, "--no-sandbox"] if root else flags
