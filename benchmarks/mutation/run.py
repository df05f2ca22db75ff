"""How many small faults in the number wing do the tests notice?

    OMP_NUM_THREADS=1 python benchmarks/mutation/run.py [--count 300] [--seed 0] [--rooms labels]
    OMP_NUM_THREADS=1 python benchmarks/mutation/run.py --again ended.jsonl

Draws ``count`` faults at random from all that can be made in the wing. The tests are collected once; for each fault
the process forks, puts the fault into its modules and runs the tests that run its line: those of its room first, the
fast ones first, until ``--seconds`` of processor time are spent. A fault is killed when a test fails or does not end. A
fault in a line that no test runs survives, and so does one that only the tests beyond ``--seconds`` would notice.
Each fault and how it ended goes to ``--out``; ``--again`` tries those that survived once more, in the files of today.

Which test runs which line, and how long each takes, is measured first, with `coverage`, and kept in ``--map``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from graft import graft
from lines import ROOT, Measured, measure
from mutants import Fault, faults

WING = ("attacks", "decisions", "evaluation", "labels", "margin", "reconstruction", "statistics")
TESTS = (
    *(f"tests/{room}" for room in WING if room != "statistics"),
    *("tests/guarantees", "tests/identification", "tests/results", "tests/unseen"),
    *("tests/test_checks.py", "tests/test_ground.py"),
    *(f"src/divulge/{room}" for room in WING),
)
ENDLESS, HANGING = 60, 900
"""Tests never end if they take so much processor time beyond ``--seconds``, or so many seconds by the clock."""
Place = tuple[str, int]
"""A file and a line of the repository that the map was measured in."""


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """A plugin of pytest that runs the tests once per fault instead of once."""

    drawn: Sequence[tuple[Fault, Place]]
    measured: Measured
    seconds: float
    also: Sequence[str]
    out: Path

    def files(self) -> list[str]:
        """All that has to be collected."""
        names = {name.split("::")[0] for fault, place in self.drawn for name in self._names(fault, place)}
        return sorted(name for name in {*names, *self.also} if (ROOT / name).exists())

    def _names(self, fault: Fault, place: Place) -> list[str]:
        room = fault.file.split("/")[2]
        own = (f"tests/{room}/", f"src/divulge/{room}/")
        names = self.measured.tests(place[0], None if fault.at_import else place[1])
        return sorted(names, key=lambda name: not name.startswith(own))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every fault; pytest itself runs nothing."""
        items = {item.nodeid: item for item in session.items}
        fresh = [item for name, item in items.items() if name not in self.measured.seconds]
        alive = 0
        with self.out.open("w") as out:
            for done, (fault, place) in enumerate(self.drawn, start=1):
                chosen = [items[name] for name in self._names(fault, place) if name in items]
                room = (f"tests/{fault.file.split('/')[2]}/", "tests/test_", *self.also)
                ran, end = self._try(fault, [*(item for item in fresh if item.nodeid.startswith(room)), *chosen])
                alive += end == "survived"
                told = {key: getattr(fault, key) for key in ("file", "line", "text", "before", "after", "nth")}
                out.write(json.dumps({"end": end, "ran": ran, "of": len(chosen), **told}) + "\n")
                out.flush()
                if end == "survived":
                    print(f"\nsurvived {fault.file}:{fault.line} ({ran} of the {len(chosen)} tests that run it)")
                    print(f"    {fault.text}\n    {fault.before}  ->  {fault.after}")
                if done % 10 == 0:
                    print(f"\n{done - alive} of {done} killed", flush=True)
        print(f"\nkilled {len(self.drawn) - alive} of {len(self.drawn)}")
        return True

    def _try(self, fault: Fault, items: Sequence[pytest.Item]) -> tuple[int, str]:
        """How many tests ran, and how the fault ended."""
        reads, writes = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.close(reads)
            self._notice(fault, items, writes)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            ran = len(pipe.read())
        _, status = os.waitpid(child, 0)
        return ran, "survived" if status == 0 else "killed"

    def _notice(self, fault: Fault, items: Sequence[pytest.Item], progress: int) -> None:
        """In a process of its own: status 0 if no test notices the fault."""
        os.setsid()
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        started = time.process_time()
        most = int(started + self.seconds + ENDLESS)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANGING)
        try:
            graft(fault)
            for item, following in zip(items, [*items[1:], None], strict=True):
                if time.process_time() - started > self.seconds:
                    break
                os.write(progress, b".")
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End the process at the first failure."""
        if report.failed:
            os._exit(1)


def every() -> Iterator[Fault]:
    """All faults that can be made in the wing, in a fixed order."""
    for room in WING:
        for file in sorted((ROOT / "src" / "divulge" / room).glob("*.py")):
            yield from faults(ROOT, file)


def drawn(count: int, seed: int) -> list[tuple[Fault, Place]]:
    """Random faults."""
    known = list(every())
    print(f"{len(known)} faults known, {min(count, len(known))} drawn with seed {seed}", flush=True)
    return [(fault, (fault.file, fault.line)) for fault in random.Random(seed).sample(known, min(count, len(known)))]


def survivors(ended: Path) -> Iterator[tuple[Fault, Place]]:
    """The faults of an earlier run that survived, in the files of today, and where they were then."""
    known = list(every())
    for line in ended.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        if told["end"] == "killed":
            continue
        same = [
            fault
            for fault in known
            if all(getattr(fault, key) == told[key] for key in ("text", "before", "after", "nth"))
        ]
        if same:
            nearest = min(same, key=lambda fault: (fault.file != told["file"], abs(fault.line - told["line"])))
            yield nearest, (told["file"], told["line"])
        else:
            print(f"gone {told['file']}:{told['line']}\n    {told['text']}", flush=True)


def unchanged(faults: Sequence[Fault]) -> list[Fault]:
    """The same places without the faults: none may be killed."""
    return [
        replace(fault, source=(ROOT / fault.file).read_text(encoding="utf-8"), after=fault.before) for fault in faults
    ]


def main() -> None:
    """Draw, try, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rooms", nargs="*", default=WING, help="try only the faults drawn in these")
    parser.add_argument("--again", type=Path, help="try the survivors of this file")
    parser.add_argument(
        "--also",
        nargs="*",
        default=(),
        help="files with tests that the map does not know: tried on every fault, and first",
    )
    parser.add_argument("--unchanged", action="store_true", help="put no fault in: none may be killed")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "divulge-mutants.coverage")
    given = parser.parse_args()
    chosen = list(survivors(given.again)) if given.again else drawn(given.count, given.seed)
    chosen = [(fault, place) for fault, place in chosen if fault.file.split("/")[2] in given.rooms]
    trials = Trials(
        [(unchanged(fault), place) for fault, place in chosen] if given.unchanged else chosen,
        measure(given.map, TESTS), given.seconds, given.also, given.out.absolute(),
    )  # fmt: skip
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    raise SystemExit(pytest.main(["-q", "-s", "--assert=plain", *trials.files()], plugins=[trials]))


if __name__ == "__main__":
    main()
