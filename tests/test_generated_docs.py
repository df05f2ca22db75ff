"""Pages made from the code say what the code says now."""

import importlib.util
from pathlib import Path


def test_the_pages_of_plan_keys_and_commands_are_those_of_this_code():
    script = Path(__file__).parents[1] / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", script)
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for page, text in generate.pages().items():
        assert page.read_text(encoding="utf-8") == text, f"run python docs/generate.py: {page.name} is out of date"
