"""Page of a report as plain data, which `divulge.report.html` and `divulge.report.markdown` render."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.validation import check_array, check_integer, check_nonempty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.results import HeatStrip
    from divulge.types import Tone


class Heading(NamedTuple):
    """Heading and icon of a verdict of one tone, so that colour is never its only sign."""

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
    """A table; numbers come ready formatted.

    Args:
        columns: their names.
        rows: the cells.
        title: stands over it.
        note: stands under it.
        sortable: whether rows can be compared.
        single_records: whether it names or shows single records, so that `hide_records` leaves it out.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    sortable: bool = True
    single_records: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite specification with its data inside, and what it shows in words (for those who can't see it).

    ``single_records``: whether the values of single records can be read off it, so that `hide_records` leaves it out.
    """

    spec: Mapping[str, Any]
    title: str = ""
    note: str = ""
    single_records: bool = False


MAX_HEAT = 6
"""Steps of colour in a text."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One record shown to the reader: a caption, and a PNG or text.

    Args:
        caption: what stands under it.
        png: a picture.
        text: a document.
        heat: how strongly each piece of the text is marked, from 0 (not at all) to `MAX_HEAT`, in order; -1 where
            it has no score, as in a prompt.
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
            ('3 of 4 labels', '1,500 of 2,000 labels (shown as 75 of 100)')
        """
        if total <= MAX_DOTS:
            return cls(f"{value:,} of {total:,} {noun}", value, total)
        share = value * 100 // total
        return cls(f"{value:,} of {total:,} {noun} (shown as {share} of 100)", share, 100)


@dataclass(frozen=True, slots=True)
class DotGrids:
    """Counts as grids of dots, side by side."""

    dots: Sequence[DotGrid]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bullet:
    """One entry of a list.

    Args:
        title: what it is called.
        text: what is said of it.
        source: where that was read or measured.
        mark: whether a condition is met, with a tick, a question mark or a cross; none where empty.
    """

    title: str
    text: str
    source: str = ""
    mark: Literal["", "met", "open", "not met"] = ""


MARKS: Mapping[str, str] = {"met": "✓", "open": "?", "not met": "✗"}


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
    """A heading and what stands under it; sections of the annex come after all others, on paper on their own pages."""

    title: str
    blocks: Sequence[Block]
    annex: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report: the verdict comes first.

    Args:
        title: what was examined.
        verdict: one or two sentences: what leaks, how sure we are, under which threat model.
        tone: "leak" (something leaks), "clear" (nothing found, and a leak would have been), "undecided" (too little
            data to say), "unproven" (nothing can be claimed), "void" (a guarantee has failed), "doubt" (a guarantee
            may fail), "plain".
        sections: the rest, in reading order but for the annex.
        facts: name → value pairs for the head (date, version, seed, …).
        heading: the words over the verdict; those of its tone where empty.
        pictures: the verdict as grids of dots.
        details: what stands under the verdict: who can do this, and what it rests on.
        compact: whether it is to fit one sheet: set smaller, without the list of words.
    """

    title: str
    verdict: str
    tone: Tone
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)
    heading: str = ""
    pictures: Sequence[DotGrid] = ()
    details: Sequence[str] = ()
    compact: bool = False

    @property
    def headed_verdict(self) -> str:
        """The verdict, which begins with its heading; a plain result has none by itself."""
        if self.tone == "plain" and not self.heading:
            return self.verdict
        return put_heading(self.heading or HEADINGS[self.tone].words, self.verdict)

    @property
    def ordered_sections(self) -> list[Section]:
        """The sections in reading order, those of the annex last."""
        return sorted(self.sections, key=lambda section: section.annex)


def put_heading(heading: str, verdict: str) -> str:
    """Return a verdict that begins with its heading.

    Examples:
        >>> put_heading("Leak found", "An AUC of .7."), put_heading("Too little data to say", "Too little data to say.")
        ('Leak found. An AUC of .7.', 'Too little data to say.')
    """
    return verdict if verdict.startswith((heading, "No answer")) else f"{heading}. {verdict}"


_HIDDEN = "Single records are left out here; the HTML report in the run directory shows them where it may."


def hide_records(page: Page) -> Page:
    """Return ``page`` without anything that shows or names single records.

    Galleries are left out, and tables and charts whose ``single_records`` is set; a sentence takes their place.

    Examples:
        >>> page = Page("t", "v", "plain", [Section("Most exposed", [Gallery([Exhibit("17", text="Jane Doe, 53")])])])
        >>> hide_records(page).sections[0].blocks[0].text.split(";")[0]
        'Single records are left out here'
    """
    return replace(page, sections=[replace(each, blocks=_without_records(each.blocks)) for each in page.sections])


def _without_records(blocks: Sequence[Block]) -> list[Block]:
    remaining: list[Block] = []
    is_hidden = False
    for block in blocks:
        if isinstance(block, Gallery) or getattr(block, "single_records", False):
            is_hidden = True
        elif isinstance(block, Collapsible):
            inner = _without_records(block.blocks)
            if any(not (isinstance(each, Paragraph) and each.text == _HIDDEN) for each in inner):
                remaining.append(replace(block, blocks=inner))
            else:
                is_hidden = True
        else:
            remaining.append(block)
    return [*remaining, Paragraph(_HIDDEN)] if is_hidden else remaining


_MAX_NATS = 3.0  # log-probability gain with the deepest colour: a token twenty times likelier than it should be


def thumbnail(image: object, *, max_side: int = 128) -> bytes:
    r"""Return a PNG of one record; the report enlarges small pictures without smoothing them.

    Args:
        image: ``[h, w]`` or ``[h, w, 1]`` (grey) or ``[h, w, 3]`` (RGB); uint8, or floats in [0, 1].
        max_side: pictures with a longer side are shrunk by averaging square blocks of whole pixels.

    Raises:
        divulge.InputError: another shape or type, NaN, or floats outside [0, 1].

    Examples:
        >>> thumbnail(np.zeros((28, 28)))[:4]
        b'\x89PNG'
    """
    pixels = _check_pixels(image)
    pixels = _shrink(pixels, check_integer(max_side, "max_side", minimum=1))
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    # Every row begins with its filter type; 0 leaves the row as it is.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _png_chunk(b"IHDR", header),
            _png_chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _png_chunk(b"IEND", b""),
        ]
    )


def _png_chunk(chunk_type: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + chunk_type + content + struct.pack(">I", zlib.crc32(chunk_type + content))


def _check_pixels(image: object) -> NDArray[np.uint8]:
    pixels: NDArray[Any] = check_nonempty(check_array(image, "image"), "image")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise InputError(f"image: shape [h, w], [h, w, 1] or [h, w, 3] is needed, got {pixels.shape}")
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind != "f":
        raise InputError(f"image: uint8 or floats in [0, 1] are needed, got dtype {pixels.dtype}")
    if pixels.min() < 0 or pixels.max() > 1:
        raise InputError(f"image: floats must lie in [0, 1], got {pixels.min():g} to {pixels.max():g}")
    return np.rint(pixels * 255).astype(np.uint8)


def _shrink(pixels: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    height, width, channels = pixels.shape
    block = -(-max(height, width) // max_side)
    if block == 1:
        return pixels
    # The last block is filled up by repeating the border.
    padded = np.pad(pixels, ((0, -height % block), (0, -width % block), (0, 0)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // block, block, padded.shape[1] // block, block, channels)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)


def mark_tokens(text: str, strip: HeatStrip | None) -> list[tuple[str, int]]:
    """Split a document into pieces of one colour step each: the better the model knows a token, the deeper the colour.

    Examples:
        >>> from divulge.results import HeatStrip
        >>> mark_tokens("to be read", HeatStrip((2, 5), (0.0, 3.0), "chance"))
        [('to', 0), (' be', 6), (' read', 0)]
        >>> mark_tokens("to be read", HeatStrip((10,), (3.0,), "chance", starts=(5,)))  # an answer after its prompt
        [('to be', -1), (' read', 6)]
    """
    if strip is None:
        return []
    pieces: list[tuple[str, int]] = []
    start, unscored = 0, 0 if strip.starts is None else -1
    for begin, end, value in zip(strip.starts or (0, *strip.ends)[:-1], strip.ends, strip.values, strict=True):
        if begin > start:
            pieces.append((text[start:begin], unscored))
            start = begin
        step = round(MAX_HEAT * min(max(value / _MAX_NATS, 0.0), 1.0))
        if pieces and pieces[-1][1] == step:
            pieces[-1] = (pieces[-1][0] + text[start:end], step)
        else:
            pieces.append((text[start:end], step))
        start = end
    return [*pieces, (text[start:], unscored)] if start < len(text) or not unscored else pieces
