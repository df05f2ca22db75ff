"""A copy of the repository in which files can be made faulty, and children that run its tests.

The parent process imports what divulge depends on, never divulge itself. Each child is a fork, so it starts in no
time, and it imports divulge afresh from the copy: a fault in a file is there for every module that imports it, at
import time as well, and for processes that a test starts.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = "not browser and not ray"
"""Tests that need a Chromium or start a Ray cluster."""
DEPENDENCIES = (
    *("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "scipy.sparse", "scipy.linalg", "scipy.signal"),
    *("scipy.spatial", "scipy.interpolate", "scipy.integrate", "sklearn.ensemble", "sklearn.linear_model"),
    *("sklearn.mixture", "sklearn.decomposition", "sklearn.pipeline", "sklearn.preprocessing", "sklearn.svm"),
    *("sklearn.neighbors", "sklearn.feature_extraction.text", "sklearn.model_selection", "sklearn.neural_network"),
    *("lightgbm", "polars", "pandas", "pyarrow.parquet", "torch", "torch.utils.data", "torch.func", "transformers"),
    *("transformers.models.auto", "peft", "safetensors.torch", "skops.io", "onnxruntime", "httpx", "fastapi"),
    *("uvicorn", "starlette.applications", "starlette.testclient", "hypothesis", "pydantic", "typer.testing"),
    *("rich.console", "rich.table", "altair", "jinja2", "joblib", "PIL.Image", "polars", "tomli_w", "flint"),
    *("threadpoolctl", "filelock"),
)


def import_dependencies() -> None:
    """Import what divulge and its tests import from elsewhere, where it is installed."""
    for name in DEPENDENCIES:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"not installed: {name}", flush=True)
    gc.collect()
    gc.freeze()  # pytest collects garbage after every file: a child need not look through what is here


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: what it wrote, its processor time, and the signal that ended it (0: none)."""

    text: str
    seconds: float
    signal: int


@dataclass(frozen=True, slots=True)
class Workplace:
    """A copy of the repository's files at ``path``, changes that are not committed included."""

    path: Path

    @classmethod
    def copy(cls, path: Path) -> Workplace:
        """Copy the repository and compile its sources."""
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, path / name)
        subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], cwd=path, check=True)
        return cls(path)

    @contextmanager
    def faulty(self, file: str, source: str) -> Iterator[None]:
        """Replace the text of ``file`` for as long as the block runs; its compiled form is left out."""
        target_file = self.path / file
        before, stat = target_file.read_bytes(), target_file.stat()
        compiled = Path(importlib.util.cache_from_source(str(target_file)))
        cached = compiled.read_bytes() if compiled.exists() else None
        compiled.unlink(missing_ok=True)
        target_file.write_text(source, encoding="utf-8")
        try:
            yield
        finally:
            target_file.write_bytes(before)
            os.utime(target_file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            if cached is not None:
                compiled.write_bytes(cached)

    def run(self, work: Callable[[Callable[[str], None]], None], *, seconds: int, patience: int) -> Ended:
        """Run ``work`` in a child inside the copy; it is handed a function that writes text back.

        Args:
            work: what the child does.
            seconds: of processor time after which the child is ended.
            patience: seconds by the clock after which it is ended, in which case the signal is SIGALRM.
        """
        reads, writes = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.close(reads)
            errors = os.dup(2)
            self._enter(seconds)
            try:
                work(lambda text: _write_all(writes, text))
            except BaseException:
                _write_all(errors, traceback.format_exc())
                os._exit(1)
            finally:
                os._exit(0)
        os.close(writes)
        os.set_blocking(reads, False)
        pieces: list[bytes] = []
        deadline, wait = time.monotonic() + patience, 0.005
        while True:
            pieces.extend(_available(reads))
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                _end_group(child)
                _, status, usage = os.wait4(child, 0)
                status = signal.SIGALRM
                break
            time.sleep(wait)
            wait = min(wait * 1.5, 0.2)
        pieces.extend(_available(reads))
        os.close(reads)
        _end_group(child)  # what its tests started and left behind
        return Ended(b"".join(pieces).decode(), usage.ru_utime + usage.ru_stime, status & 0x7F)

    def _enter(self, seconds: int) -> None:
        os.setsid()
        os.chdir(self.path)
        os.environ["PYTHONPATH"] = str(self.path / "src")
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.path[:0] = [str(self.path / "src")]
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        spent = int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, spent + seconds))


def run_pytest(words: list[str], plugin: object) -> int:
    """Run pytest in this process, in the current folder."""
    return int(pytest.main(["-q", "-p", "no:xdist", "--assert=plain", "-m", LEFT_OUT, *words], plugins=[plugin]))


def processor_seconds() -> float:
    """Processor time of this process and of those it has waited for."""
    return sum(os.times()[:4])


def _write_all(stream: int, text: str) -> None:
    remaining = text.encode()
    while remaining:
        remaining = remaining[os.write(stream, remaining) :]


def _available(stream: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(stream, 1 << 16)
        except BlockingIOError:
            return
        if not piece:
            return
        yield piece


def _end_group(leader: int) -> None:
    """End the processes of a child's own session."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def load_json(text: str) -> dict:
    """Read what a child wrote; nothing if it was ended before."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {}
