"""Tokens of a document, marked by how much better a model knows each than it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.report.page import HOTTEST

if TYPE_CHECKING:
    from divulge.results import HeatStrip

_DEEPEST = 3.0  # nats: a token twenty times likelier than it should be


def pieces(text: str, strip: HeatStrip | None) -> list[tuple[str, int]]:
    """The text in pieces of one colour each: the better a token is known beyond what it is held against, the deeper.

    Examples:
        >>> from divulge.results import HeatStrip
        >>> pieces("to be read", HeatStrip((2, 5), (0.0, 3.0), "chance"))
        [('to', 0), (' be', 6), (' read', 0)]
    """
    if strip is None:
        return []
    cut: list[tuple[str, int]] = []
    begin = 0
    for end, value in zip(strip.ends, strip.values, strict=True):
        step = round(HOTTEST * min(max(value / _DEEPEST, 0.0), 1.0))
        if cut and cut[-1][1] == step:
            cut[-1] = (cut[-1][0] + text[begin:end], step)
        else:
            cut.append((text[begin:end], step))
        begin = end
    return [*cut, (text[begin:], 0)]
