"""The ledgers in docs/sources: every status is one of the five, every name of code exists, the counts are right."""

import ast
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(page for page in (ROOT / "docs" / "sources").glob("*.md") if page.name != "index.md")
STATUSES = ("stands", "shown smaller", "differs", "source errs", "out of reach")
HEAD = "| row | what it says | status | here | measured |"


def rows(page: Path) -> list[list[str]]:
    """The cells of each row of every ledger table of ``page``: row, what it says, status, here, measured."""
    table_rows, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.strip() == HEAD:
            inside = True
        elif inside and not re.fullmatch(r"[|\s:-]+", line):
            table_rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
    return table_rows


@cache
def defined(file: Path) -> frozenset[str]:
    """The functions and classes that ``file`` defines, methods as ``Class::method``."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return frozenset(names)


def exists(name: str) -> bool:
    """Whether ``name`` is a file here, a function of one (``file.py::name``), or a public or private name of ours."""
    if name.startswith("divulge"):
        return resolves(name)
    file, _, inner = name.partition("::")
    return (ROOT / file).is_file() and (not inner or inner in defined(ROOT / file))


def resolves(name: str) -> bool:
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[depth:]:
                value = getattr(value, part)
        except AttributeError:
            return False
        return True
    return False


def references(cell: str) -> list[str]:
    return re.findall(r"`((?:divulge|tests/|papers/|benchmarks/|examples/)[^`\s]*)`", cell)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
class TestLedger:
    def test_each_row_is_whole(self, page):
        table = rows(page)
        assert table
        for row in table:
            assert len(row) == 5, row
            assert row[2] in STATUSES, row
            assert row[4], row

    def test_every_name_exists(self, page):
        names = references(page.read_text(encoding="utf-8"))
        assert names
        assert [name for name in names if not exists(name)] == []

    def test_what_is_claimed_names_its_code(self, page):
        """A row that stands, or whose source errs, points at code; an erratum points at a test."""
        for row in rows(page):
            names = references(row[3])
            assert names or row[2] == "out of reach", row
            if row[2] == "source errs":
                assert any(name.startswith(("tests/", "papers/tests/")) for name in names), row

    def test_the_counts_are_those_of_the_table(self, page):
        counts = Counter(row[2] for row in rows(page))
        line = f"**{sum(counts.values())} rows**: " + ", ".join(f"{counts[status]} {status}" for status in STATUSES)
        assert line in page.read_text(encoding="utf-8"), line


def test_a_name_that_does_not_exist_is_noticed():
    assert not exists("divulge.attacks.NoSuchAttack")
    assert not exists("tests/test_sources.py::no_such_test")
    assert not exists("papers/no_such.py")
    assert exists("divulge.attacks.LiRA.score")
    assert exists("tests/test_sources.py::TestLedger::test_each_row_is_whole")
