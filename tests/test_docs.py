"""The examples on the how-to page, the pages by role and the pages on methods run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from divulge import cli

DOCS = Path(__file__).parents[1] / "docs"
METHODS = sorted((DOCS / "methods").glob("*.md"))
ROLES = sorted((DOCS / "roles").glob("*.md"))
NAVIGATION = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")


def python_examples(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def run_examples(page):
    """Run the Python examples of ``page`` and its console commands, one after the other."""
    names = {}
    for language, block in re.findall(r"```(python|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
        else:
            for line in block.splitlines():
                assert cli.run(shlex.split(line.removeprefix("$ divulge "))) == 0, line


def test_every_block_of_the_how_to_runs(capsys):
    assert len(python_examples(DOCS / "howto.md")) > 5
    run_examples(DOCS / "howto.md")
    output = capsys.readouterr().out
    assert "60 labels proven" in output
    assert "[ True False]" in output


@pytest.mark.parametrize("page", [page for page in METHODS if page.stem != "index"], ids=lambda page: page.stem)
def test_the_formula_of_every_method_is_what_is_computed(page):
    for method in methods_of(page):
        assert "```python\n" in method
        assert all(part in method for part in ("**Assumes**", "**Fails**", "**Source")), method.split("\n", 1)[0]
    run_examples(page)


def methods_of(page):
    """The section of each method: from one heading of the second level to the next."""
    return re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)[1:]


@pytest.mark.parametrize("page", ROLES, ids=lambda page: page.stem)
def test_every_page_by_role_runs(page, tmp_path, monkeypatch):
    if page.stem == "torch":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run_examples(page)
    assert f"roles/{page.name}" in NAVIGATION


def test_every_method_is_listed_and_stands_in_the_navigation():
    index = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[([^\]]+)\]\((\w+)\.md#", index, re.M))
    pages = [page for page in METHODS if page.stem != "index"]
    assert listed == {(method.split("\n", 1)[0], page.stem) for page in pages for method in methods_of(page)}
    assert all(f"methods/{page.name}" in NAVIGATION for page in METHODS)
