"""How many small faults in the sources do the tests notice?

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/mutation/run.py --count 100

Draws ``--count`` faults at random from all that can be made in `src/divulge`, pages and templates included, with a seed
that is drawn too unless ``--seed`` gives it. Before that it measures which test runs which line, and how long each
test takes (``--map`` keeps that; a file of tests is measured again when it, or any source, has changed). For each fault
a child imports divulge afresh from a copy of the repository with the fault in its file, and runs the tests of its line,
the most telling first, and then the other tests of its package that start processes, where the line may run unseen. A
fault is

- noticed, when a test fails or does not end;
- survived, when all tests of its line pass, or no test runs the line;
- undecided, when ``--budget`` seconds of processor time were spent before all tests of its line had run, or the clock
  ran out.

Only the first counts. Faults go through in the order in which they were drawn; ``--out`` holds one line for each, and
a run that is started again goes on where it ended. ``--again FILE`` tries those of a file that were not noticed once
more, in the sources of today.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import line_map
import pytest
from mutants import Fault, faults
from workplace import ROOT, Workplace, import_dependencies, load_json, processor_seconds, run_pytest

ENDLESS, PATIENCE = 60, 600
"""A child is ended this many seconds of processor time beyond the budget, or this long by the clock."""
KEYS = ("file", "line", "text", "before", "after", "nth")


def main() -> None:
    """Measure, draw, try, count."""
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="divulge-mutants-"))
    try:
        import_dependencies()
        for claim in arguments.map.glob("*.claim"):  # of a run that was ended
            claim.unlink()
        units = [unit for unit in line_map.test_units() if not arguments.tests or unit in arguments.tests]
        _parallel(arguments.workers, lambda i: line_map.measure(
            Workplace.copy(folder / str(i)), units, arguments.map,
            limit=2 * arguments.budget, reuse=arguments.reuse))  # fmt: skip
        if arguments.measure_only:
            return
        chosen = list(_survivors(arguments.again)) if arguments.again else _draw(arguments)
        tried = _tried(arguments.out)
        remaining = [fault for fault in chosen if _key(fault) not in tried]
        known_tests = line_map.load(arguments.map)
        _parallel(arguments.workers, lambda i: _try_all(
            Workplace(folder / str(i)), remaining[i :: arguments.workers], known_tests, arguments))  # fmt: skip
        print(_table(arguments.out))
    finally:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, help="drawn and printed if left out")
    parser.add_argument("--sources", nargs="*", default=[""], help="draw in these parts of src/divulge alone")
    parser.add_argument("--budget", type=int, default=20, help="seconds of processor time for one fault")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", type=Path, help="try what this file has not noticed")
    parser.add_argument("--unchanged", action="store_true", help="put no fault in: none may be noticed")
    parser.add_argument("--tests", nargs="*", help="measure only these files of tests")
    parser.add_argument("--reuse", action="store_true", help="measure only tests that have changed, not sources")
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "divulge-line-map")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = secrets.randbelow(10**6)
    arguments.out, arguments.map = arguments.out.absolute(), arguments.map.absolute()
    return arguments


def _parallel(workers: int, work: Callable[[int], object]) -> None:
    """Run ``work(0)`` … in processes of their own."""
    children = []
    sys.stdout.flush()
    for i in range(workers):
        child = os.fork()
        if not child:
            try:
                work(i)
                sys.stdout.flush()
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        children.append(child)
    if sum(os.waitpid(child, 0)[1] != 0 for child in children):
        raise SystemExit("a worker failed")


def _every_fault(parts: Sequence[str] = ("",)) -> Iterator[Fault]:
    """All faults that can be made in the sources whose path begins with one of ``parts``, in a fixed order."""
    package = ROOT / "src" / "divulge"
    for file in sorted(package.rglob("*")):
        if file.suffix in (".py", ".j2") and str(file.relative_to(package)).startswith(tuple(parts)):
            yield from faults(ROOT, file)


def _draw(arguments: argparse.Namespace) -> list[Fault]:
    known_faults = list(_every_fault(arguments.sources))
    count = min(arguments.count, len(known_faults))
    print(f"{len(known_faults)} faults known, {count} drawn with seed {arguments.seed}", flush=True)
    return random.Random(arguments.seed).sample(known_faults, count)


def _survivors(ended: Path) -> Iterator[Fault]:
    """The faults of an earlier run that were not noticed, in the sources of today."""
    faults_by_text = defaultdict(list)
    for fault in _every_fault():
        faults_by_text[fault.file, fault.text, fault.before, fault.after, fault.nth].append(fault)
    for line in ended.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["end"] == "noticed":
            continue
        same = faults_by_text[tuple(record[key] for key in KEYS if key != "line")]
        if same:
            yield min(same, key=lambda fault: abs(fault.line - record["line"]))
        else:
            print(f"gone: {record['file']}:{record['line']}  {record['text']}", flush=True)


def _key(fault: Fault) -> tuple[object, ...]:
    return tuple(getattr(fault, key) for key in KEYS)


def _tried(out: Path) -> set[tuple[object, ...]]:
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return {tuple(json.loads(line)[key] for key in KEYS) for line in lines}


def _try_all(
    workplace: Workplace, chosen: Sequence[Fault], known_tests: line_map.LineMap, arguments: argparse.Namespace
) -> None:
    for fault in chosen:
        tests = known_tests.tests(fault.file, None if fault.at_import else fault.line)
        source = (ROOT / fault.file).read_text(encoding="utf-8") if arguments.unchanged else fault.source
        end = _try(workplace, fault, source, tests, arguments.budget) if tests else {"end": "survived", "ran": 0}
        record = end | {"of": len(tests)} | {key: getattr(fault, key) for key in KEYS}
        with arguments.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")
        print(f"{record['end']} {fault.file}:{fault.line} {fault.before} -> {fault.after} ({record['ran']} of "
              f"{len(tests)} tests) {record.get('by', '')}", flush=True)  # fmt: skip


def _try(workplace: Workplace, fault: Fault, source: str, tests: list[str], budget: int) -> dict:
    with workplace.faulty(fault.file, source):
        ended = workplace.run(
            lambda write: Trial(tests, budget, write).run(), seconds=budget + ENDLESS, patience=PATIENCE
        )
    record = load_json(ended.text)
    if record:
        return record
    clock = ended.signal == 14  # SIGALRM: the clock ran out, on a machine that may have been busy
    return {"end": "undecided" if clock else "noticed", "ran": 0, "by": f"ended by signal {ended.signal}"}


class Trial:
    """A plugin of pytest that runs the tests of a fault, file by file, until one fails or the budget is spent."""

    def __init__(self, tests: Sequence[str], budget: int, write: Callable[[str], None]) -> None:
        self.order = {name: i for i, name in enumerate(tests)}
        self.budget, self.write = budget, write
        self.started, self.ran = processor_seconds(), 0

    def run(self) -> None:
        """Write how the fault ended."""
        files: dict[str, list[str]] = defaultdict(list)
        for name in self.order:
            files[name.split("::")[0]].append(name)
        try:
            for file in files:
                if self._spent():
                    break
                if run_pytest([file], self) not in (0, 5):
                    self._end("noticed", test_name=file)
        except BaseException as error:
            self._end("noticed", test_name=repr(error))
        self._end("survived" if self.ran >= len(self.order) else "undecided")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the line, the most telling first."""
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda item: self.order[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Run nothing any more when the budget is spent."""
        self.ran += not self._spent()
        return self._spent() or None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End at the first failure."""
        if report.failed:
            self._end("noticed", test_name=report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file of tests that cannot be imported any more notices as well."""
        if report.failed:
            self._end("noticed", test_name=report.nodeid)

    def _spent(self) -> bool:
        return processor_seconds() - self.started > self.budget

    def _end(self, end: str, test_name: str = "") -> None:
        self.write(json.dumps({"end": end, "ran": self.ran, "by": test_name}))
        os._exit(0)


def _table(out: Path) -> str:
    """Markdown: how the faults of a file ended, by package."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in out.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        package = record["file"].split("/")[2] if record["file"].count("/") > 2 else "modules beside the packages"
        for group in (package, "**all**"):
            counts[group][record["end"]] += 1
    rows = ["| package | faults | noticed | survived | undecided |", "|---|---|---|---|---|"]
    for group, count in sorted(counts.items(), key=lambda item: (item[0].startswith("**"), item[0])):
        share = f" ({count['noticed'] / count.total():.1%})" if group.startswith("**") else ""
        rows.append(f"| {group} | {count.total()} | {count['noticed']}{share} | {count['survived']} "
                    f"| {count['undecided']} |")  # fmt: skip
    return "\n".join(rows)


if __name__ == "__main__":
    main()
