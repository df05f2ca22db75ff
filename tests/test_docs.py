"""The how-to page, the tutorials and the page of every method run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from divulge import cli

DOCS = Path(__file__).parents[1] / "docs"
METHODS = sorted((DOCS / "methods").glob("*.md"))
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def ran(page):
    """Run its blocks one after the other: Python, and the commands of those that show a console."""
    names = {}
    for kind, block in re.findall(r"```(python|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        if kind == "python":
            exec(compile(block, str(page), "exec"), names)
        else:
            for line in block.splitlines():
                assert cli.run(shlex.split(line.removeprefix("$ divulge "))) == 0, line


def test_every_block_of_the_how_to_runs(capsys):
    assert len(blocks(DOCS / "howto.md")) > 5
    ran(DOCS / "howto.md")
    told = capsys.readouterr().out
    assert "60 labels proven" in told
    assert "[ True False]" in told


@pytest.mark.parametrize("page", [page for page in METHODS if page.stem != "index"], ids=lambda page: page.stem)
def test_the_formula_of_every_method_is_what_is_computed(page):
    text = page.read_text(encoding="utf-8")
    assert blocks(page)
    assert all(part in text for part in ("**Assumes**", "**Fails**", "**Source"))
    ran(page)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_tutorial_runs(page, tmp_path, monkeypatch):
    if page.stem == "torch":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    ran(page)
    assert f"tutorials/{page.name}" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_method_is_listed_and_stands_in_the_navigation():
    listed = set(re.findall(r"\]\((\w+)\.md\)", (DOCS / "methods" / "index.md").read_text(encoding="utf-8")))
    assert listed == {page.stem for page in METHODS} - {"index"}
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"methods/{page.name}" in navigation for page in METHODS)
