"""The scripts of `benchmarks/`: the README beside them lists each, and `--help` says what it does."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
COMMANDS = [
    *(path for path in SCRIPTS if "__main__" in path.read_text(encoding="utf-8")),
    *(ROOT / "benchmarks" / folder / "run.py" for folder in ("mutation", "peers")),
]


def relative(path):
    return str(path.relative_to(ROOT))


def test_the_readme_lists_every_script_and_no_other():
    names = re.findall(r"[\w/]+\.py\b", (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8"))
    listed = {name.removeprefix("benchmarks/") for name in names} - {"SCRIPT.py"}
    unlisted = sorted({path.name for path in SCRIPTS} - listed)
    gone = [name for name in sorted(listed) if not (ROOT / "benchmarks" / name).is_file()]
    assert not unlisted + gone, f"benchmarks/README.md: give a row to {unlisted}, and take out {gone}"


@pytest.mark.parametrize("path", COMMANDS, ids=relative)
def test_a_script_reads_its_command_line_and_says_what_it_answers(path):
    """Without a parser `--help` would start the measurement."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = {
        node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert calls >= {"ArgumentParser", "parse_args"}
    assert ast.get_docstring(tree)
