"""The examples in the README and on the pages by role, by task and on methods run as they stand."""

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import polars as pl
import pytest

from divulge import cli, demo

pytestmark = pytest.mark.usefixtures("records_compared_once")

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS.parent / "examples"
TASKS = {  # each page on a task, and what its examples print
    "audit": "plan.toml can be run",
    "canaries": "canaries find a Gaussian mechanism",
    "evaluation": "AUC ≥",
    "held_out": "declared non-members",
    "identification": "FDR ≤ 0.05",
    "labels": "60 labels proven",
    "pipelines": "nonmembers as high",
    "references": "(4, 200, 4)",
    "synthetic": "Leak found",
    "unseen_and_partial": "guessing is right in 50",
    "weights": "[ True  True  True  True False False]",
}
METHODS = sorted((DOCS / "methods").glob("*.md"))
ROLES = sorted((DOCS / "roles").glob("*.md"))
NAVIGATION = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")


def run_examples(page):
    """Run the blocks of ``page`` that are marked as Python or console, one after the other."""
    names = {}
    for language, block in re.findall(r"```(python|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
        else:
            for line in block.splitlines():
                assert cli.run(shlex.split(line.removeprefix("$ divulge "))) == 0, line


@pytest.mark.parametrize("name", TASKS)
def test_every_page_on_a_task_runs(name, tmp_path, monkeypatch, capsys):
    if name == "references":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run_examples(DOCS / f"{name}.md")
    assert TASKS[name] in capsys.readouterr().out
    assert f"{name}.md" in NAVIGATION


def test_the_example_in_the_readme_prints_what_stands_below_it(capsys):
    readme = DOCS.parent / "README.md"
    run_examples(readme)
    (printed,) = re.findall(r"```text\n(.*?)```", readme.read_text(encoding="utf-8"), re.S)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("page", [page for page in METHODS if page.stem != "index"], ids=lambda page: page.stem)
def test_the_formula_of_every_method_is_what_is_computed(page):
    for method in methods_of(page):
        if method.startswith("What is promised"):
            continue
        assert_it_is_a_method(method)
    run_examples(page)


def assert_it_is_a_method(section):
    assert "```python\n" in section
    assert all(part in section for part in ("**Assumes**", "**Fails**", "**Source")), section.split("\n", 1)[0]


def methods_of(page):
    """The section of each method: from one heading of the second level to the next."""
    return re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)[1:]


@pytest.mark.parametrize("page", ROLES, ids=lambda page: page.stem)
def test_every_page_by_role_runs_as_a_notebook(page, tmp_path, monkeypatch, capsys):
    """The notebooks are made of the pages (`test_generated_docs`), so that each example runs once."""
    if page.stem in ("torch", "language_models"):
        pytest.importorskip("torch")
    smaller = demo.TextDemoSize(60, members=40, nonmembers=100, population=60, count=3, base_epochs=1, epochs=1)
    monkeypatch.setattr(demo, "QUICK_TEXTS", smaller)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(?:python|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    notebook = json.loads((EXAMPLES / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
    html_outputs = run_notebook(notebook)
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [text.replace("!divulge", "$ divulge") for text in code] == [block.strip("\n") for block in blocks]
    assert all("<table" in text for text in html_outputs)
    assert bool(html_outputs) == (page.stem in ("torch", "privacy_engineer", "language_models"))
    assert f"roles/{page.name}" in NAVIGATION
    if page.stem == "language_models":  # no document of the demonstration stands in two sets
        inputs = tmp_path / "runs" / "small" / "inputs"
        texts = [
            pl.read_parquet(inputs / f"{name}.parquet")["text"] for name in ("members", "nonmembers", "population")
        ]
        assert len(set(pl.concat(texts))) == sum(map(len, texts)) > 0


def run_notebook(notebook):
    """Run the cells in order, as Jupyter does; return what it would draw of the last expression of each."""
    names, html_outputs = {}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        commands = [line for line in source.splitlines() if line.startswith("!divulge ")]
        if commands:
            for line in commands:
                assert cli.run(shlex.split(line.removeprefix("!divulge "))) == 0, line
            continue
        tree = ast.parse(source)
        last_expression = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if last_expression is not None:
            value = eval(compile(ast.Expression(last_expression.value), cell["id"], "eval"), names)
            html_outputs += [value._repr_html_()] if hasattr(value, "_repr_html_") else []
    return html_outputs


def test_every_method_is_listed_and_stands_in_the_navigation():
    index = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[([^\]]+)\]\(([\w./]+\.md)#", index, re.M))
    elsewhere = {(title, page) for title, page in listed if page.startswith("../")}
    for title, page in elsewhere:
        method = next(m for m in methods_of(DOCS / "methods" / page) if m.startswith(f"{title}\n"))
        assert_it_is_a_method(method)
    pages = [page for page in METHODS if page.stem != "index"]
    titles = {(method.split("\n", 1)[0], page.name) for page in pages for method in methods_of(page)}
    assert listed - elsewhere == titles - {("What is promised, and what tests it", "decisions.md")}
    assert len(elsewhere) == 3
    assert all(f"methods/{page.name}" in NAVIGATION for page in METHODS)


def test_the_layers_on_the_page_on_architecture_are_those_that_are_enforced():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"to the lowest:\n\n((?:    .+\n)+)", page)
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (contract["layers"] for contract in contracts["contracts"] if contract["type"] == "layers")
    enforced = [set(re.findall(r"\w+", layer)) for layer in layers]
    assert [set(re.findall(r"\w+", line)) for line in listed.splitlines()] == enforced
