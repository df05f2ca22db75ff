"""How many small faults in the number wing do the tests notice?

    OMP_NUM_THREADS=1 python benchmarks/mutation/run.py [--count 300] [--seed 0] [--workers 2]
    OMP_NUM_THREADS=1 python benchmarks/mutation/run.py --again ended.jsonl

Draws ``count`` faults at random from all that can be made in the wing, puts one at a time into a copy of the
repository and runs the tests that run its line: those of its room first, then the others, the fast ones first, until
``--seconds`` of tests are spent. A fault is killed when a test fails, or when the tests do not end. A fault in a line
that no test runs survives. Each fault and how it ended goes to ``--out``; ``--again`` tries those that survived against
the repository of today.

Which test runs which line, and how long each takes, is measured first, with `coverage`, and kept in ``--map``.
"""

from __future__ import annotations

import argparse
import compileall
import json
import multiprocessing
import os
import py_compile
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from faults import Fault, faults
from lines import ROOT, Measured, measure

WING = ("attacks", "decisions", "evaluation", "labels", "margin", "reconstruction", "statistics")
TESTS = (
    *(f"tests/{room}" for room in WING if room != "statistics"),
    *("tests/guarantees", "tests/identification", "tests/results", "tests/unseen"),
    *("tests/test_checks.py", "tests/test_ground.py"),
    *(f"src/divulge/{room}" for room in WING),
)
PRELOADED = (
    "altair fastapi flint httpx hypothesis hypothesis.extra.numpy jinja2 lightgbm numpy polars pytest rich.console "
    "scipy.optimize scipy.stats sklearn.ensemble sklearn.metrics torch typer uvicorn"
).split()
"""Imported once, before the processes part that run the tests; nothing of divulge."""
PATIENCE, SLOWNESS = 60.0, 5.0
"""Tests are taken never to end after so many seconds and so many times what they took without the fault."""
ELSEWHERE = 99
FORK = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Trial:
    """Tries faults: what the tests run, which tests exist today, and how many seconds of them one fault may take."""

    measured: Measured
    today: frozenset[str]
    seconds: float

    def survives(self, fault: Fault, line: int, folder: Path) -> bool:
        """Whether no test notices the fault, put into the copy of the repository in ``folder``."""
        place = folder / fault.file
        right = place.read_text(encoding="utf-8")
        place.write_text(fault.source, encoding="utf-8")
        try:
            return all(self._pass(folder, names) for names in self._stages(fault, line) if names)
        finally:
            place.write_text(right, encoding="utf-8")

    def _stages(self, fault: Fault, line: int) -> Iterator[list[str]]:
        names = self.measured.tests(fault.file, None if fault.at_import else line)
        room = fault.file.split("/")[2]
        own = (f"tests/{room}/", f"src/divulge/{room}/")
        near = [name for name in names if name.startswith(own)]
        yield sorted(self.today - self.measured.seconds.keys())
        yield self._affordable(near)
        yield self._affordable([name for name in names if not name.startswith(own)])

    def _affordable(self, names: Iterable[str]) -> list[str]:
        """The first of them that take ``seconds`` together."""
        spent, kept = 0.0, []
        for name in names:
            spent += self.measured.seconds[name]
            if spent > self.seconds:
                break
            if name in self.today:
                kept.append(name)
        return kept

    def _pass(self, folder: Path, names: Sequence[str]) -> bool:
        process = FORK.Process(target=_tests, args=(folder, names))
        process.start()
        process.join(PATIENCE + SLOWNESS * sum(self.measured.seconds.get(name, 1.0) for name in names))
        if process.exitcode is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
        if process.exitcode == ELSEWHERE:
            raise SystemExit("the tests import divulge from elsewhere than the copy with the fault")
        return process.exitcode == 0


def _tests(folder: Path, names: Sequence[str]) -> None:
    """Run these tests in a copy of the repository, silently, and end with pytest's exit status."""
    import pytest

    os.setsid()
    os.chdir(folder)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.environ["PYTHONPATH"] = str(folder / "src")
    sys.path.insert(0, str(folder / "src"))
    found = find_spec("divulge")
    if found is None or not str(found.origin).startswith(str(folder)):
        os._exit(ELSEWHERE)
    os._exit(int(pytest.main(["-x", "--assert=plain", *names])))


@contextmanager
def copies(count: int) -> Iterator[queue.SimpleQueue[Path]]:
    """So many copies of the repository, in temporary folders.

    Compiled files are checked by content: a fault that leaves size and second of a file as they were is not missed.
    """
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        for number in range(count):
            folder = Path(name) / str(number)
            ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "runs", "site")
            shutil.copytree(ROOT, folder, ignore=ignored)
            hashed = py_compile.PycInvalidationMode.CHECKED_HASH
            compileall.compile_dir(folder / "src", quiet=2, invalidation_mode=hashed)
            free.put(folder)
        yield free


def tests_of_today() -> frozenset[str]:
    """The names of all tests that pytest collects."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=--doctest-modules --import-mode=importlib", "-q", *TESTS],
        cwd=ROOT, check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    return frozenset(line for line in ran.stdout.splitlines() if "::" in line)


def drawn(count: int, seed: int) -> Iterator[tuple[Fault, int]]:
    """Random faults, each with its line."""
    files = [file for room in WING for file in sorted((ROOT / "src" / "divulge" / room).glob("*.py"))]
    known = [fault for file in files for fault in faults(ROOT, file)]
    print(f"{len(known)} faults known, {min(count, len(known))} drawn with seed {seed}", flush=True)
    for fault in random.Random(seed).sample(known, min(count, len(known))):
        yield fault, fault.line


def survivors(ended: Path) -> Iterator[tuple[Fault, int]]:
    """The faults of an earlier run that survived, in the files of today, each with its line of then."""
    for line in ended.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        if told["end"] == "killed":
            continue
        known = faults(ROOT, ROOT / told["file"]) if (ROOT / told["file"]).exists() else ()
        same = [fault for fault in known if all(getattr(fault, key) == told[key] for key in ("text", "before", "after"))]
        if same:
            yield min(same, key=lambda fault: abs(fault.line - told["line"])), told["line"]
        else:
            print(f"gone {told['file']}:{told['line']}\n    {told['text']}", flush=True)


def main() -> None:
    """Draw, try, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rooms", nargs="*", default=WING, help="try only those drawn in these")
    parser.add_argument("--again", type=Path, help="try the survivors of this file")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "divulge-mutants.coverage")
    given = parser.parse_args()
    trial = Trial(measure(given.map, TESTS), tests_of_today(), given.seconds)
    chosen = list(survivors(given.again) if given.again else drawn(given.count, given.seed))
    chosen = [(fault, line) for fault, line in chosen if fault.file.split("/")[2] in given.rooms]
    FORK.set_forkserver_preload(PRELOADED)
    with copies(given.workers) as free, ThreadPoolExecutor(given.workers) as pool, given.out.open("w") as out:

        def attempt(fault: Fault, line: int) -> bool:
            folder = free.get()
            try:
                return trial.survives(fault, line, folder)
            finally:
                free.put(folder)

        work = [(fault, line, pool.submit(attempt, fault, line)) for fault, line in chosen]
        alive = 0
        for done, (fault, line, future) in enumerate(work, start=1):
            survived = future.result()
            alive += survived
            told = {key: getattr(fault, key) for key in ("file", "text", "before", "after")}
            end = "survived" if survived else "killed"
            out.write(json.dumps({"end": end, "line": fault.line, **told}) + "\n")
            out.flush()
            if survived:
                count = len(trial.measured.tests(fault.file, None if fault.at_import else line))
                print(f"survived {fault.file}:{fault.line} ({count} tests run it)", flush=True)
                print(f"    {fault.text}\n    {fault.before}  ->  {fault.after}", flush=True)
            if done % 25 == 0:
                print(f"{done - alive} of {done} killed", flush=True)
    print(f"killed {len(chosen) - alive} of {len(chosen)} ({(len(chosen) - alive) / max(len(chosen), 1):.1%})")


if __name__ == "__main__":
    main()
