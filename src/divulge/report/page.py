"""What a report says, as plain data; `report.html` turns it into one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Tone


class Heading(NamedTuple):
    """What stands over a verdict of one tone, so that colour is never the only sign of it."""

    words: str
    icon: str


HEADINGS: Mapping[str, Heading] = {
    "leak": Heading("Leak found", "▲"),
    "clear": Heading("No leak found", "●"),
    "undecided": Heading("Too little data to say", "○"),
    "unproven": Heading("Nothing is proven", "○"),
    "void": Heading("Guarantee void", "✕"),
    "doubt": Heading("Guarantee in doubt", "◆"),
    "plain": Heading("Result", "■"),
}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of plain text (it is escaped, never read as HTML)."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table; numbers come ready formatted. ``note`` stands under it; ``sortable`` where rows can be compared."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    sortable: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite specification with its data inside, and what it shows in words (for those who can't see it)."""

    spec: Mapping[str, Any]
    title: str = ""
    note: str = ""


MAX_HEAT = 6
"""Steps of colour in a text."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One record shown to the reader: a caption, and a PNG or text.

    Args:
        caption: what stands under it.
        png: a picture.
        text: a document.
        heat: how strongly each piece of the text is marked, from 0 (not at all) to `MAX_HEAT`, in order.
    """

    caption: str
    png: bytes | None = None
    text: str = ""
    heat: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Gallery:
    """Records side by side."""

    exhibits: Sequence[Exhibit]
    title: str = ""
    note: str = ""


MAX_DOTS = 1_000


@dataclass(frozen=True, slots=True)
class DotGrid:
    """A count as a picture: a grid of ``total`` dots, ``value`` of them filled.

    Args:
        caption: what is counted, in a sentence that says the same as the picture.
        value: dots that are filled.
        total: all dots, at most `MAX_DOTS`.
        low: filled dots up to the lower end of the interval; all without an interval.
        high: dots up to the upper end: those above ``value`` are rings.
        chance: whether it shows the rate of guessing, which is drawn in a calm colour.
    """

    caption: str
    value: int
    total: int
    low: int | None = None
    high: int | None = None
    chance: bool = False

    @classmethod
    def from_count(cls, value: int, total: int, noun: str) -> DotGrid:
        """Draw ``value`` of ``total`` things, a dot each; of more than a thousand, a hundred dots for all.

        Examples:
            >>> DotGrid.from_count(3, 4, "labels").caption, DotGrid.from_count(1500, 2000, "labels").caption
            ('3 of 4 labels', '1,500 of 2,000 labels (drawn as 75 of 100)')
        """
        if total <= MAX_DOTS:
            return cls(f"{value:,} of {total:,} {noun}", value, total)
        share = value * 100 // total
        return cls(f"{value:,} of {total:,} {noun} (drawn as {share} of 100)", share, 100)


@dataclass(frozen=True, slots=True)
class DotGrids:
    """Counts as grids of dots, side by side."""

    dots: Sequence[DotGrid]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bullet:
    """One entry of a list: what it is called, what is said of it, and where that was read or measured."""

    title: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list."""

    points: Sequence[Bullet]
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A way to a report beside this one.

    Args:
        file: its place, relative to this page.
        words: what it is called.
        note: what it says.
    """

    file: str
    words: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SliderPosition:
    """One position of a `Slider`: what it is called, what holds there, and the same as grids of dots."""

    label: str
    words: str
    dots: Sequence[DotGrid] = ()


@dataclass(frozen=True, slots=True)
class Slider:
    """Positions to choose among by a slider; without JavaScript all of them are listed.

    Args:
        label: what is chosen ("false-positive rate").
        stops: the positions, in order.
        start: the one that is shown first.
        title: what the figure shows.
        note: stands under it.
    """

    label: str
    stops: Sequence[SliderPosition]
    start: int = 0
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Collapsible:
    """Blocks that are shown when asked for."""

    title: str
    blocks: Sequence[Block]


Block: TypeAlias = "Paragraph | Table | Chart | Gallery | DotGrids | BulletList | Link | Slider | Collapsible"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report: the verdict comes first.

    Args:
        title: what was examined.
        verdict: one or two sentences: what leaks, how sure we are, under which threat model.
        tone: "leak" (something leaks), "clear" (nothing found, and a leak would have been), "undecided" (too little
            data to say), "unproven" (nothing can be claimed), "void" (a guarantee has failed), "doubt" (a guarantee
            may fail), "plain".
        sections: the rest, in reading order.
        facts: name → value pairs for the head (date, version, seed, …).
        heading: the words over the verdict; those of its tone where empty.
        pictures: the verdict as grids of dots.
        more: what stands under the verdict: who can do this, and what it rests on.
    """

    title: str
    verdict: str
    tone: Tone
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)
    heading: str = ""
    pictures: Sequence[DotGrid] = ()
    more: Sequence[str] = ()
