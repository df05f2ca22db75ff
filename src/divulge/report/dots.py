"""A rate as a picture: one dot for each of a hundred or a thousand, those it counts filled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST = 1_000
_ROWS = {100: 10, 1_000: 50}


@dataclass(frozen=True, slots=True)
class Dots:
    """So many of ``of``: a grid of dots.

    Args:
        caption: what is counted, in a sentence that says the same as the picture.
        value: dots that are filled.
        of: all dots, at most `MOST`.
        low: of the filled ones, those that the lower end of the interval counts, too; all without an interval.
        high: dots up to the upper end: those above ``value`` are rings.
        chance: whether it shows what guessing has, which alarms nobody.
    """

    caption: str
    value: int
    of: int
    low: int | None = None
    high: int | None = None
    chance: bool = False


def counted(value: int, of: int, words: str) -> Dots:
    """``value`` of ``of`` things, a dot each; of more than a thousand, a hundred dots for all.

    Examples:
        >>> counted(3, 4, "labels").caption, counted(1500, 2000, "labels").caption
        ('3 of 4 labels', '1,500 of 2,000 labels (drawn as 75 of 100)')
    """
    if of <= MOST:
        return Dots(f"{value:,} of {of:,} {words}", value, of)
    share = value * 100 // of
    return Dots(f"{value:,} of {of:,} {words} (drawn as {share} of 100)", share, 100)


def svg(dots: Dots) -> str:
    """The picture as an inline element; colours come from the page.

    Each kind of dot is one path of round points, so that a thousand dots take a few kilobytes.

    Examples:
        >>> svg(Dots("1 of 2", 1, 2)).count("<path")
        2
    """
    across = _ROWS.get(dots.of, max(10, round(dots.of**0.5)))
    low = dots.value if dots.low is None else dots.low
    high = dots.value if dots.high is None else dots.high
    kinds = {
        "rest": range(high, dots.of),
        "ring": range(dots.value, high),
        "hole": range(dots.value, high),
        "likely": range(low, dots.value),
        "sure": range(min(low, dots.value)),
    }
    paths = "".join(f'<path class="{kind}" d="{_points(at, across)}"/>' for kind, at in kinds.items() if len(at))
    rows = -(-dots.of // across)
    kind = " ".join(name for name, told in (("many", dots.of == MOST), ("chance", dots.chance)) if told)
    named = f' class="{kind}"' if kind else ""
    return f'<svg{named} viewBox="0 0 {10 * across} {10 * rows}" aria-hidden="true" focusable="false">{paths}</svg>'


def _points(places: Iterable[int], across: int) -> str:
    return "".join(f"M{10 * (i % across) + 5} {10 * (i // across) + 5}h0" for i in places)
