"""The how-to page runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "howto.md"


def test_every_block_of_the_how_to_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) > 5
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    told = capsys.readouterr().out
    assert "60 labels proven" in told
    assert "[ True False]" in told
