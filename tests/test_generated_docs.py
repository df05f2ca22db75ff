"""Pages made from the code say what the code says now."""

import importlib.util
from pathlib import Path


def test_the_pages_of_plan_keys_and_commands_are_those_of_this_code():
    script = Path(__file__).parents[1] / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", script)
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert set((script.parent / "reference" / "schemas").glob("*")) <= set(generate.pages())
    for page, text in generate.pages().items():
        if page.suffix == ".json":
            assert (page.read_text(encoding="utf-8") if page.is_file() else "") == text, (
                f"the keys of {page.stem} summaries changed: where a released version of Divulge wrote the old ones, "
                "raise VERSION in src/divulge/results.py; say it in CHANGELOG.md; then run python docs/generate.py"
            )
            continue
        assert page.read_text(encoding="utf-8") == text, f"run python docs/generate.py: {page.name} is out of date"
