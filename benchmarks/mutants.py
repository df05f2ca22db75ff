"""How many small faults in the number wing do the tests notice?

    python benchmarks/mutants.py [--count 300] [--seed 0] [--workers 2] [--only decisions/fdr.py …]

Draws ``count`` random faults (a comparison, an operator, a constant, a condition, min for max), each in one line that
some test runs, puts one at a time into a copy of the package and runs the tests that run that line, the fast ones
first. A fault is killed when one of them fails, or when they never end. Prints each fault that survived and the share
killed.

Which test runs which line, and how long each takes, is measured first, with `coverage`, and kept in ``--map``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "divulge"
WING = ("attacks", "decisions", "evaluation", "labels", "margin", "reconstruction", "statistics")
TESTS = ("attacks", "decisions", "evaluation", "guarantees", "identification", "labels", "margin", "reconstruction")
PATIENCE = 900.0
"""Seconds after which a fault's tests are taken never to end."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("floor", "ceil"),
    ("argmin", "argmax"),
    ("left", "right"),
)
NAMES = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the file, the line, what stood there and what stands there now."""

    file: Path
    line: int
    before: str
    after: str
    source: str


def mutants(file: Path) -> Iterator[Mutant]:
    """Every fault this script knows how to make in ``file``."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    ignored = set(_untested(tree))
    lines = text.splitlines()
    for node in ast.walk(tree):
        if node in ignored:
            continue
        for changed in _changes(node):
            segment = ast.get_source_segment(text, node)
            if segment is None or "\n" in segment:
                continue
            after = ast.unparse(changed)
            line = lines[node.lineno - 1].encode()
            fresh = (line[: node.col_offset] + f"({after})".encode() + line[node.end_col_offset :]).decode()
            if isinstance(node, ast.Constant | ast.Name | ast.Attribute):
                fresh = (line[: node.col_offset] + after.encode() + line[node.end_col_offset :]).decode()
            source = "\n".join([*lines[: node.lineno - 1], fresh, *lines[node.lineno :]]) + "\n"
            with contextlib.suppress(SyntaxError):
                ast.parse(source)
                yield Mutant(file, node.lineno, lines[node.lineno - 1].strip(), fresh.strip(), source)


def _untested(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes where a change says nothing: annotations, docstrings, messages of errors, type-checking blocks."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            parts = [node.returns, *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg))]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif (
            isinstance(node, ast.Raise | ast.JoinedStr)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        ):
            parts = [node]
        for part in parts:
            if part is not None:
                yield from ast.walk(part)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in COMPARISONS:
        changed.ops[0] = COMPARISONS[type(changed.ops[0])]()
        yield changed
    elif isinstance(changed, ast.BinOp) and type(changed.op) in OPERATORS:
        changed.op = OPERATORS[type(changed.op)]()
        yield changed
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not | ast.USub | ast.Invert):
        yield changed.operand
    elif isinstance(changed, ast.IfExp):
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
        yield changed
    elif isinstance(changed, ast.Name) and changed.id in NAMES:
        changed.id = NAMES[changed.id]
        yield changed
    elif isinstance(changed, ast.Attribute) and changed.attr in NAMES:
        changed.attr = NAMES[changed.attr]
        yield changed
    elif isinstance(changed, ast.Constant):
        yield from _constants(changed)


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2 if value else 1.0)
    elif isinstance(value, str) and value in NAMES:
        yield ast.Constant(NAMES[value])


@dataclass(frozen=True, slots=True)
class Measured:
    """Which test functions run which line, and the seconds each takes."""

    lines: Mapping[Path, Mapping[int, Sequence[str]]]
    seconds: Mapping[str, float]

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run the line of a fault, the fast ones first."""
        found = {_function(context) for context in self.lines.get(mutant.file, {}).get(mutant.line, ())}
        return sorted(found - {""}, key=lambda name: (self.seconds.get(name, 0.0), name))


def measure(path: Path) -> Measured:
    """Run the tests once under `coverage`, unless that was done before."""
    from coverage import CoverageData

    durations = path.with_suffix(".json")
    if not durations.exists():
        settings = path.with_suffix(".rc")
        settings.write_text(f"[run]\ndynamic_context = test_function\nsource = {PACKAGE}\ndata_file = {path}\n")
        where = [str(ROOT / "tests" / name) for name in TESTS]
        words = ["run", f"--rcfile={settings}", "-m", "pytest", "-q", "--durations=0", "--durations-min=0.01", *where]
        ran = subprocess.run(
            [sys.executable, "-m", "coverage", *words],
            cwd=ROOT, check=False, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        )  # fmt: skip
        if ran.returncode:
            raise SystemExit(f"the tests fail without any fault:\n{ran.stdout[-2000:]}")
        taken: dict[str, float] = {}
        for seconds, name in re.findall(r"^([\d.]+)s \w+ +(\S+?)(?:\[.*)?$", ran.stdout, re.MULTILINE):
            taken[name] = taken.get(name, 0.0) + float(seconds)
        durations.write_text(json.dumps(taken))
    data = CoverageData(str(path))
    data.read()
    lines = {Path(file): data.contexts_by_lineno(file) for file in data.measured_files()}
    return Measured(lines, json.loads(durations.read_text()))


@cache
def _function(context: str) -> str:
    """A context of `coverage` (``tests.evaluation.test_ranking.test_x``) as pytest's name; empty for none."""
    parts = context.split(".")
    at = next((i for i, part in enumerate(parts) if part.startswith("test_")), len(parts))
    file = next((ROOT / "tests").rglob(f"{parts[at]}.py"), None) if at < len(parts) - 1 else None
    return "" if file is None else f"{file.relative_to(ROOT)}::{'::'.join(parts[at + 1 :])}"


def survives(mutant: Mutant, names: Sequence[str]) -> bool:
    """Whether no test notices the fault."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / mutant.file.relative_to(ROOT / "src")).write_text(mutant.source, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-o", f"pythonpath={folder} tests", *names]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
        ) as process:
            try:
                return process.wait(timeout=PATIENCE) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return False


def main() -> None:
    """Draw, try, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="files below src/divulge")
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "divulge-mutants.coverage")
    given = parser.parse_args()
    measured = measure(given.map)
    files = [PACKAGE / name for name in given.only] or [
        file for room in WING for file in sorted((PACKAGE / room).glob("*.py"))
    ]
    known = [mutant for file in files for mutant in mutants(file) if measured.tests(mutant)]
    drawn = random.Random(given.seed).sample(known, min(given.count, len(known)))
    print(f"{len(known)} faults known, {len(drawn)} drawn")
    survivors = 0
    with ThreadPoolExecutor(given.workers) as pool:
        work = {mutant: pool.submit(survives, mutant, measured.tests(mutant)) for mutant in drawn}
        for done, (mutant, future) in enumerate(work.items(), start=1):
            if future.result():
                survivors += 1
                where = mutant.file.relative_to(PACKAGE)
                print(f"survived {where}:{mutant.line}\n    - {mutant.before}\n    + {mutant.after}", flush=True)
            if done % 25 == 0:
                print(f"{done - survivors} of {done} killed", flush=True)
    print(f"killed {len(drawn) - survivors} of {len(drawn)} ({(len(drawn) - survivors) / len(drawn):.1%})")


if __name__ == "__main__":
    main()
