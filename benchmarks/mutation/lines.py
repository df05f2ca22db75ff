"""Which test runs which line, and how long each test takes: a plugin of pytest, and what it found.

`coverage` knows a test by the function it is in. Here a test is one item of pytest, parameter and all, and what a
fixture of a module or a session runs belongs to every test that asks for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Measured:
    """The tests that run each line of each file, and the seconds of processor time each takes; paths below the root."""

    lines: Mapping[str, Mapping[int, Sequence[str]]]
    seconds: Mapping[str, float]

    def tests(self, file: str, line: int | None) -> list[str]:
        """The tests that run a line, the fast ones first; without a line, all that run any line of the file."""
        lines = self.lines.get(file, {})
        found = {name for at in (lines if line is None else [line]) for name in lines.get(at, ())}
        return sorted(found & self.seconds.keys(), key=lambda name: (self.seconds[name], name))


def measure(path: Path, where: Sequence[str]) -> Measured:
    """Run the tests once under `coverage`, unless ``path`` and the ``.json`` beside it hold that already."""
    from coverage import CoverageData

    if not path.with_suffix(".json").exists():
        words = ["run", f"--data-file={path}", f"--source={ROOT / 'src' / 'divulge'}", "-m", "pytest"]
        there = {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", Path(__file__).parent))),
            "MUTATION_MAP": str(path),
        }
        ran = subprocess.run(
            [sys.executable, "-m", "coverage", *words, "-p", "lines", *where],
            cwd=ROOT, check=False, env=os.environ | there, capture_output=True, text=True,
        )  # fmt: skip
        if ran.returncode:
            raise SystemExit(f"the tests fail without any fault:\n{ran.stdout[-4000:]}{ran.stderr[-2000:]}")
    data = CoverageData(str(path))
    data.read()
    notes = json.loads(path.with_suffix(".json").read_text())
    users: Mapping[str, Sequence[str]] = notes["fixtures"]
    lines = {
        "src/divulge/" + file.rpartition("/src/divulge/")[2]: {
            line: [name for context in contexts if context for name in users.get(context, [context])]
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return Measured(lines, notes["seconds"])


class Watch:
    """Names the context of `coverage` after the test, or the fixture, that runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, list[str]] = {}
        self.item = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """What runs now belongs to this test."""
        self.item, started = item.nodeid, time.process_time()
        self._switch(self.item)
        try:
            return (yield)
        finally:
            self.seconds[self.item] = time.process_time() - started
            self.item = ""
            self._switch("")

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
        self._switch(name)
        try:
            return (yield)
        finally:
            self._switch(self.item)

    def pytest_sessionfinish(self) -> None:
        """Write what `coverage` does not."""
        found = {"seconds": self.seconds, "fixtures": self.fixtures}
        self.path.with_suffix(".json").write_text(json.dumps(found))

    @staticmethod
    def _switch(context: str) -> None:
        from coverage import Coverage

        running = Coverage.current()
        if running is not None:
            running.switch_context(context)


def pytest_configure(config: pytest.Config) -> None:
    """Watch, where a run of `measure` asks for it."""
    if "MUTATION_MAP" in os.environ:
        config.pluginmanager.register(Watch(Path(os.environ["MUTATION_MAP"])))
