"""Slow modules are imported at their first use, and by this one mechanism."""

import ast
import functools
import inspect
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import divulge as dv
from divulge import lazy, machine

SOURCE = Path(dv.__file__).parent


def test_a_module_is_imported_when_it_is_used_and_not_before():
    code = (
        "import sys; from divulge import lazy; wave = lazy.module('wave'); "
        "print('wave' in sys.modules, wave.open.__name__, 'wave' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "False open True\n"


def test_a_missing_extra_is_named_at_the_first_use(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(dv.MissingExtraError, match=r"pip install '\.\[torch\]'"):
        _ = lazy.module("torch").nn


def test_a_missing_module_of_no_extra_stays_what_it_is():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = lazy.module("no_such_module").anything


def test_looking_at_a_lazy_module_does_not_import_it():
    assert inspect.unwrap(lazy.module("no_such_module")).__name__ == "no_such_module"


@functools.cache
def trees():
    """The syntax of every module with an import that is not at its left margin."""
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    indented = re.compile(r"^\s+(import|from)\s", re.MULTILINE)
    return {path: ast.parse(text) for path, text in texts.items() if indented.search(text)}


def test_no_function_imports_a_module():
    inside = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in trees().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert inside == []


def test_a_lazy_module_is_the_one_that_the_type_checker_sees():
    for path, tree in trees().items():
        for block in tree.body:
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING" and block.orelse:
                assert set(lazies(block.orelse)) <= set(typed(block.body)), path
                for name, target in lazies(block.orelse).items():
                    assert typed(block.body)[name] in (target, "Any"), (path, name)


def lazies(lines):
    return {line.targets[0].id: line.value.args[0].value for line in lines if isinstance(line, ast.Assign)}


def typed(lines):
    """Name → module, of imports for the type checker; "Any" where a library has no types."""
    annotations = {}
    for line in lines:
        if isinstance(line, ast.AnnAssign):
            annotations[line.target.id] = ast.unparse(line.annotation)
        elif isinstance(line, ast.Import):
            annotations |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in line.names
            }
        elif isinstance(line, ast.ImportFrom):
            annotations |= {a.asname or a.name: f"{line.module}.{a.name}" for a in line.names}
    return annotations


def test_the_command_line_says_how_much_memory_tables_take_before_polars_is_loaded():
    code = (
        "import os, sys; from divulge import cli, machine; print('polars' in sys.modules); "
        "sys.argv = ['divulge', '--version']\ntry: cli.main()\nexcept SystemExit: pass\n"
        "print(*(os.environ[name] for name in machine.TABLE_MEMORY))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in machine.TABLE_MEMORY}
    environment["POLARS_CSV_CHUNK_SIZE"] = "7"  # which the user has set
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    loaded, _, values = process.stdout.splitlines()
    assert loaded == "False"
    expected = machine.TABLE_MEMORY | {"POLARS_CSV_CHUNK_SIZE": "7"}
    # polars puts what it sets for its allocator in front, of which the last counts.
    assert all(value.endswith(want) for value, want in zip(values.split(), expected.values(), strict=True))


def test_every_name_on_the_pages_is_reached_after_the_one_import():
    root = SOURCE.parents[1]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    names = sorted({name for page in pages for name in re.findall(r"\bdv\.\w+(?:\.\w+)+", page.read_text("utf-8"))})
    code = (
        "import sys, divulge as dv\n"
        "for name in sys.argv[1:]:\n"
        "    try: eval(name)\n"
        "    except dv.MissingExtraError: pass\n"
        "    except AttributeError: print(name)\n"
    )

    def unreached(names):
        return subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True).stdout

    assert len(names) > 20
    # A module within a package may be there because something else imported it: its names have a process of their own.
    inner = [name for name in names if (SOURCE / "/".join(name.split(".")[1:3])).with_suffix(".py").exists()]
    packages = [list(group) for _, group in itertools.groupby(inner, lambda name: name.split(".")[1])]
    assert [unreached(group) for group in (names, *packages)] == [""] * (1 + len(packages)), (
        "a page names what `import divulge as dv` does not reach: correct the page or divulge/__init__.py"
    )


def test_commands_that_need_no_learner_do_not_load_one():
    """scikit-learn, LightGBM and skops take 90 MiB and more than a second of every command that loads them."""
    code = (
        "import sys, numpy as np, divulge as dv; draws = np.random.default_rng(0); "
        "dv.identify(draws.normal(size=200), draws.normal(size=200)); "
        "print([name for name in ('sklearn', 'lightgbm', 'skops') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


def test_a_target_whose_library_is_missing_names_the_extra():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import divulge as dv\n"
        "for name in ('TorchTarget', 'CausalLM'):\n"
        "    try: getattr(dv.targets, name)\n"
        "    except dv.MissingExtraError as error: print(error)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.count("torch is not installed; it comes with the extra '") == 2
