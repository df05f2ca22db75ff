"""Which test runs which line, and how long each test takes.

Every test file is run once under `coverage` in a child of its own. A test is one item of pytest, parameter and all;
what a fixture of a module or a session runs belongs to every test that asks for it. A test that takes longer than a
fault's budget could never be used, and is cut off there.
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from workplace import ROOT, Workplace, load_json, processor_seconds, run_pytest

PATIENCE = 900
"""Seconds by the clock for one file of tests."""


QUICK = tuple(f"tests/{name}/" for name in (
    "labels", "decisions", "evaluation", "report", "signals", "canaries", "extraction", "targets", "identification",
))  # fmt: skip
TESTS_OF = {"auditing": "audit"}
"""Folders of tests that are not called what their package is."""
SLOW = tuple(f"tests/{name}/" for name in ("fuzz", "faults", "guarantees", "documents", "references", "tokens"))


@dataclass(slots=True)
class LineMap:
    """The tests of each line, and the seconds each test takes."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    size: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    of_file: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, record: dict) -> None:
        """Add what one file of tests gave."""
        names = list(record["tests"])
        self.seconds.update(record["tests"])
        for file, lines in record["lines"].items():
            for line, tests in lines.items():
                self.lines[file][int(line)].extend(names[i] for i in tests)
                for i in tests:
                    self.size[names[i]] += 1
                    self.of_file[file, names[i]] += 1

    def tests(self, file: str, line: int | None) -> list[str]:
        """The tests that run a line, the most telling first; without a line, all that run any line of the file.

        Telling is a test that spends much of what it runs on this file, in little time.
        """
        folder = file.rpartition("/")[0]
        files = [file]
        if not self.lines[file]:
            # A template, a file of which nothing runs after its import, or one that only other threads run.
            line, files = None, [name for name in self.lines if name.rpartition("/")[0] == folder]
        test_names = {
            name
            for mapped_file in files
            for line_number in (self.lines[mapped_file] if line is None else [line])
            for name in self.lines[mapped_file].get(line_number, ())
        }
        package = folder.rpartition("/")[2]
        beside = tuple(f"tests/{name}/" for name in {package, TESTS_OF.get(package, package)})
        # A line that only other processes run: tests of the same file may start them, and those of the folder.
        test_names = test_names or {
            name for name in self.seconds if self.of_file.get((file, name)) or name.startswith(beside)
        }

        def worth(name: str) -> float:
            share = sum(self.of_file[mapped_file, name] for mapped_file in files) / max(self.size[name], 1)
            return (share + 0.01) / (self.seconds[name] + 0.1)

        # Tests that start processes may run the line there, unseen; they come last.
        elsewhere = {name for name in self.seconds if name.startswith(beside) and starts_processes(name.split("::")[0])}
        return [
            name
            for names in (test_names, elsewhere - test_names)
            for name in sorted(names, key=lambda name: (-worth(name), name))
        ]


@cache
def starts_processes(file: str) -> bool:
    """Whether a file of tests speaks of processes of its own."""
    path = ROOT / file
    return path.is_file() and any(word in path.read_text(encoding="utf-8") for word in ("subprocess", "Process"))


def test_units() -> list[str]:
    """Files of tests, the slower folders last, and the sources with the examples in their docstrings."""
    tests = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    return sorted(["src/divulge", *tests], key=lambda name: (name.startswith(SLOW), not name.startswith(QUICK)))


def measure(workplace: Workplace, units: Iterable[str], folder: Path, *, limit: int, reuse: bool) -> None:
    """Measure what ``folder`` does not hold yet.

    Args:
        workplace: where the tests run.
        units: files or packages, one child each.
        folder: of the records, one a unit.
        limit: processor seconds of one test under `coverage`.
        reuse: take a record even if sources have changed since, as long as its tests have not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sources = _digest(sorted((ROOT / "src").rglob("*.py")))
    for unit in units:
        tests = _digest(sorted((ROOT / unit).rglob("*.py")) if (ROOT / unit).is_dir() else [ROOT / unit])
        record = folder / (unit.replace("/", "+") + ".json")
        recorded = json.loads(record.read_text()) if record.exists() else {}
        if recorded.get("tests_digest") == tests and (reuse or recorded.get("sources") == sources):
            continue
        if _claimed(record):
            continue
        ended = workplace.run(
            lambda write, unit=unit: write(json.dumps(_measure_unit(unit, workplace.path, limit))),
            seconds=PATIENCE, patience=2 * PATIENCE,
        )  # fmt: skip
        measured = load_json(ended.text) or {"tests": {}, "failed": ["the whole file"], "lines": {}}
        record.write_text(json.dumps(measured | {"tests_digest": tests, "sources": sources}))
        record.with_suffix(".claim").unlink()
        print(
            f"{unit}: {len(measured['tests'])} tests, {ended.seconds:.0f} s"
            + (f", left out {measured['failed']}" if measured["failed"] else ""),
            flush=True,
        )


def load(folder: Path) -> LineMap:
    """Read all records of a folder."""
    line_map = LineMap()
    for record in sorted(folder.glob("*.json")):
        line_map.add(json.loads(record.read_text()))
    return line_map


def _claimed(record: Path) -> bool:
    """Whether another process measures this now."""
    try:
        record.with_suffix(".claim").touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _measure_unit(unit: str, root: Path, limit: int) -> dict:
    from coverage import Coverage

    running = Coverage(data_file=None, config_file=False, source=[str(root / "src" / "divulge")])
    watch = Watch(running, limit)
    running.start()
    run_pytest([unit], watch)
    running.stop()
    data = running.get_data()
    order = {name: i for i, name in enumerate(watch.passed)}
    lines = {}
    for file in data.measured_files():
        lines_run = {}
        for line, contexts in data.contexts_by_lineno(file).items():
            tests = {test for context in contexts for test in watch.fixtures.get(context, [context])}
            if ran := sorted(order[test] for test in tests if test in order):
                lines_run[line] = ran
        if lines_run:
            lines[str(Path(file).relative_to(root))] = lines_run
    return {"tests": watch.passed, "failed": sorted(watch.failed), "lines": lines}


class Watch:
    """Names the context of `coverage` after the test, or the fixture, that runs."""

    def __init__(self, running: object, limit: int) -> None:
        self.running, self.limit = running, limit
        self.passed: dict[str, float] = {}
        self.failed: set[str] = set()
        self.fixtures: dict[str, list[str]] = {}
        self.item = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """What runs now belongs to this test."""
        self.item, started = item.nodeid, processor_seconds()
        self.running.switch_context(self.item)
        signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            if self.item not in self.failed:
                self.passed[self.item] = round(processor_seconds() - started, 3)
            self.item = ""
            self.running.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
        """What runs now belongs to all tests that use the fixture."""
        if fixturedef.scope == "function":
            return (yield)
        name = f"fixture {fixturedef.argname} of {fixturedef.baseid}"
        self.fixtures[name] = [
            item.nodeid
            for item in request.session.items
            if fixturedef.argname in getattr(item, "fixturenames", ()) and item.nodeid.startswith(fixturedef.baseid)
        ]
        self.running.switch_context(name)
        try:
            return (yield)
        finally:
            self.running.switch_context(self.item)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what fails, is skipped or takes too long without any fault."""
        if not report.passed:
            self.failed.add(report.nodeid)


def _too_slow(*_: object) -> None:
    pytest.fail("takes longer than the budget of a fault")
