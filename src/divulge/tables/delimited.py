"""CSV files as people have them: any common separator, encoding, line ending and decimal mark.

A file that follows RFC 4180 in UTF-8 is read by polars where it lies, after one pass over its bytes has shown that it
does: polars fills up rows that are too short and reads a row for an empty line. Every other file is rewritten as such a
one first, by Python's `csv`, or refused with its line.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge.errors import InputError
from divulge.tables.sources import TableFile, TemporaryFolder, blocks_of_lines, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from divulge.types import Array

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LONGEST_HEADER = 1 << 20  # bytes
_LONGEST_CELL = 1 << 30  # characters
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_EXCEL_SEPARATOR = re.compile(r'[\r\n]*"?sep=(?P<sign>[^"])"?[\r\n]*')  # a first line that is no header
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_UTF8_LIKE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_LIKE_THOUSANDS = r"^ *[+-]?[1-9]\d{0,2}[.,]\d{3} *$"
_EXACT_DECIMAL = r"^[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"
_GROUPED_NUMBER = r"^[+-]?[1-9]\d{{0,2}}(\{group}\d{{3}})+\{decimal}\d+$"
_DECIMAL_NUMBER = r"^[+-]?([1-9]\d{{0,2}}(\{group}\d{{3}})+|\d+)(\{decimal}\d+)?$"


@dataclass(frozen=True, slots=True)
class DelimitedFile:
    """A CSV file that polars reads as it is.

    Args:
        file: the file, or what it was rewritten to.
        separator: between the values of a row.
        names: of the columns, as the header has them; they may repeat.
    """

    file: TableFile
    separator: str
    names: tuple[str, ...]

    def scan(self) -> pl.LazyFrame:
        """Return all columns as texts, under the names `unique_names` gives them; a gap is missing, ``""`` is empty."""
        names = self.unique_names
        options: dict[str, Any] = {"infer_schema": False, "separator": self.separator}
        options["with_column_names"] = lambda _: names
        if self.file.content is not None:
            return pl.scan_csv(self.file.content, **options)
        return pl.scan_csv(self.file.polars_source, glob=False, **options)

    @property
    def unique_names(self) -> list[str]:
        """The names of the columns; a second one of a name that there was has its number after it."""
        counts = Counter(self.names)
        return [name if counts[name] == 1 else f"{name}\0{position}" for position, name in enumerate(self.names)]


def open_delimited(file: TableFile, compression: str, separator: str | None) -> DelimitedFile:
    """Find out how a CSV file is written, and rewrite it where polars could not be trusted with it.

    Args:
        file: the file.
        compression: "gzip", "zstd" or "".
        separator: between its values; found from the header when None.

    Raises:
        divulge.InputError: no header, an encoding that cannot be told, a row of another length, an open quote.
    """
    encoding, skipped = _find_encoding(file, compression)
    header = _read_header(file, compression, encoding, skipped)
    if declared := _EXCEL_SEPARATOR.fullmatch(header):
        skipped += len(header.encode(encoding))
        header, separator = _read_header(file, compression, encoding, skipped), separator or declared["sign"]
    sign = separator or _find_separator(header)
    names = tuple(next(csv.reader(io.StringIO(header, newline=""), delimiter=sign), ()))
    if not names:
        raise InputError("there is no header")
    # pandas gives these names to columns without one; a single column keeps its own.
    named = list(names)
    for position, name in enumerate(names):
        if not name and len(names) > 1:
            usual = f"Unnamed: {position}"
            named[position] = next(
                n for n in (usual, *(f"{usual}.{i}" for i in range(1, len(names) + 1))) if n not in named
            )
    names = tuple(named)
    delimited = DelimitedFile(file, sign, names)
    with unpacked(file, compression) as stream:
        stream.read(skipped)
        regular = encoding == "utf-8" and _is_regular(stream, sign, len(names))
    if regular and not compression and not skipped:
        return delimited
    return replace(delimited, file=_rewrite(file, compression, encoding, skipped, delimited))


def _find_encoding(file: TableFile, compression: str) -> tuple[str, int]:
    """Return the encoding of a file and the length of its byte-order mark.

    Without a mark it is UTF-8, or Windows' code page 1252 (and so Latin-1) where no letter beyond ASCII would be UTF-8.

    Raises:
        divulge.InputError: neither.
    """
    with unpacked(file, compression) as stream:
        start = stream.read(4)
        mark = next((mark for mark in _BOMS if start.startswith(mark)), b"")
        if mark and mark != codecs.BOM_UTF8:
            return _BOMS[mark], len(mark)
        if start[:2].count(0) == 1 and start[2:4].count(0) == 1:
            return ("utf-16-le" if start[1] == 0 else "utf-16-be"), 0
        decoder = codecs.getincrementaldecoder("utf-8")()
        n_read = 0
        for block in itertools.chain([start], iter(lambda: stream.read(1 << 20), b""), [b""]):
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                break
            n_read += len(block)
        else:
            return "utf-8", len(mark)
    line = 1
    with unpacked(file, compression) as stream:
        for line, text in enumerate(iter(stream.readline, b""), 1):  # noqa: B007  the number is what is wanted
            if not _is_utf8(text):
                break
        opened_at = line
    with unpacked(file, compression) as stream:
        western = not mark and all(_is_western(block) for block in blocks_of_lines(stream))
    if not western:
        raise InputError(f"line {opened_at} is not UTF-8 (invalid utf-8, nor another known encoding); save as UTF-8")
    return "cp1252", 0


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_western(block: bytes) -> bool:
    """Check whether the bytes are code page 1252: all are defined there, and none of them form a UTF-8 character."""
    try:
        block.decode("cp1252")
    except UnicodeDecodeError:
        return False
    values = np.frombuffer(block, np.uint8)
    control = (values < 0x20) & ~np.isin(values, [9, 10, 12, 13])
    is_text = not control.any() and bool((values >= 0x80).mean() < 0.5)
    return is_text and not any(_is_utf8(match[0]) for match in _UTF8_LIKE.finditer(block))


def _read_header(file: TableFile, compression: str, encoding: str, skipped: int) -> str:
    """Return the header with its line end: the first line that is not empty, and those that its quotes go on in."""
    with unpacked(file, compression) as stream:
        stream.read(skipped)
        text = io.TextIOWrapper(stream, encoding, errors="strict", newline="")
        lines: list[str] = []
        length = n_quotes = 0  # counted as lines come: a quote that is never closed goes on for many of them
        while length < _LONGEST_HEADER:
            line = text.readline(_LONGEST_HEADER)
            if lines or line.strip("\r\n"):
                lines.append(line)
                length, n_quotes = length + len(line), n_quotes + line.count('"')
            if not line or (lines and n_quotes % 2 == 0):
                break
        text.detach()
    header = "".join(lines)
    if "\0" in header:
        raise InputError("a byte of zero in the header; the file must be saved as UTF-8")
    if not header.strip("\r\n"):
        raise InputError("there is no header; the file is empty")
    return header


def _find_separator(header: str) -> str:
    """Return the sign that cuts the header into most names, a comma where none does."""

    def count_names(sign: str) -> int:
        try:
            return len(next(csv.reader(io.StringIO(header, newline=""), delimiter=sign, strict=True), ()))
        except csv.Error:  # a quote ends within a name
            return 0

    pieces = {sign: count_names(sign) for sign in SEPARATORS}
    return max(pieces, key=pieces.__getitem__)


def _is_regular(stream: IO[bytes], separator: str, columns: int) -> bool:
    """Return whether each row has so many values, each quote opens or closes a value, and lines end as they should."""
    sign = ord(separator)
    if sign > 127:
        return False
    inside, last_byte, pending = False, _NEWLINE, 0  # pending: separators in a row that goes on in the next block
    for number, block in enumerate(blocks_of_lines(stream)):
        if (number == 0 and block.startswith((b"\n", b"\r"))) or block.count(b"\r") != block.count(b"\r\n"):
            return False
        values = np.frombuffer(block, np.uint8)
        ends, signs = np.flatnonzero(values == _NEWLINE), np.flatnonzero(values == sign)
        if inside or b'"' in block:
            quotes = np.flatnonzero(values == _QUOTE)
            if not _quotes_fit(values, quotes, sign, inside=inside, last_byte=last_byte):
                return False
            ends, signs = (each[(np.searchsorted(quotes, each) + inside) % 2 == 0] for each in (ends, signs))
            inside = bool((len(quotes) + inside) % 2)
        last_byte = int(values[-1])
        if last_byte != _NEWLINE and not inside:
            ends = np.append(ends, len(values))
        before = np.searchsorted(signs, ends)
        counts = np.diff(before, prepend=0)
        if len(counts):
            counts[0] += pending
            pending = 0
        if (counts != columns - 1).any():
            return False
        pending += len(signs) - (int(before[-1]) if len(before) else 0)
    return not inside


def _quotes_fit(values: Array, quotes: Array, sign: int, *, inside: bool, last_byte: int) -> bool:
    """Return whether quotes stand where a value begins or ends, or in pairs within one."""
    opening = (np.arange(len(quotes)) + inside) % 2 == 0
    before = np.where(quotes > 0, values[quotes - 1], last_byte)
    after = np.append(values, _NEWLINE)[quotes + 1]
    begins = np.isin(before, [sign, _NEWLINE, _QUOTE])
    ends = np.isin(after, [sign, _NEWLINE, _RETURN, _QUOTE])
    return bool(np.where(opening, begins, ends).all())


def _rewrite(file: TableFile, compression: str, encoding: str, skipped: int, delimited: DelimitedFile) -> TableFile:
    """Write the file anew, as RFC 4180 has it, in UTF-8 and without compression, into a folder of its own.

    Raises:
        divulge.InputError: a row of another length than the header, a quote that is not closed.
    """
    folder = TemporaryFolder()
    path = folder.path / "table.csv"
    columns = len(delimited.names)
    with (
        unpacked(file, compression) as stream,
        path.open("w", encoding="utf-8", newline="") as out,
    ):
        stream.read(skipped)
        text = io.TextIOWrapper(stream, encoding, newline="")
        # All in quotes: a carriage return at the end of a value would else belong to the end of the line.
        writer = csv.writer(out, delimiter=delimited.separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in _checked_rows(text, delimited.separator, columns):
            writer.writerow(row)
        text.detach()
    return TableFile(file.name, path, folder=folder)


def _checked_rows(text: io.TextIOWrapper, separator: str, columns: int) -> Iterator[Sequence[str]]:
    """Yield the header and the rows; an empty line is one only where there is one column, and no line before it."""
    before = csv.field_size_limit(_LONGEST_CELL)
    rows = csv.reader(text, delimiter=separator, strict=True)
    line, header = 1, True
    try:
        for row in rows:
            if not row and (header or columns > 1):
                line = rows.line_num + 1
                continue
            cells = row or [""]
            if len(cells) != columns:
                quote = f"; put values that hold {SEPARATORS.get(separator, 'the separator')} into quotes"
                raise InputError(
                    f"line {line} has {len(cells)} values, {columns} are needed as in the header"
                    f"{quote if columns == 1 else ''}"
                )
            yield cells
            line, header = rows.line_num + 1, False
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise InputError(f"a quote is opened and not closed (the row begins in line {line})") from None
        raise InputError(f"line {line}: a quote is closed before the value ends") from None
    except UnicodeDecodeError:
        raise InputError(f"line {line} cannot be decoded; save the file as UTF-8") from None
    finally:
        csv.field_size_limit(before)


@dataclass(slots=True)
class NumberReader:
    """Reads one column of texts as numbers, batch by batch, with a decimal point or a decimal comma throughout.

    Args:
        separator: of the file; a comma between digits is a decimal one for sure where the file is cut by semicolons.
    """

    separator: str
    points: bool = field(default=False, init=False)
    commas: bool = field(default=False, init=False)
    thousands: str = field(default="", init=False)
    decided: bool = field(default=False, init=False)
    has_proof: bool = field(default=False, init=False)  # that its marks are decimal ones: 0.5 or 12,25

    def read(self, texts: pl.Series) -> pl.Series:
        """Return the numbers, float64; what is empty is missing.

        Raises:
            BadCell: a value is none, or uses another decimal mark than those before; its place in ``texts`` is given.
        """
        numbers = texts.cast(pl.Float64, strict=False)
        unread = numbers.is_null() & texts.is_not_null() & (texts != "")
        if not self.has_proof and (self.points or self.commas or bool(texts.str.contains(r"[.,]").any())):
            self.has_proof = bool((texts.str.contains(r"[.,]") & ~texts.str.contains(_LIKE_THOUSANDS)).any())
        if not unread.any() and not self.commas:
            if not self.points:
                self.points = bool(texts.str.contains(".", literal=True).any())
            return numbers
        texts = texts.str.strip_chars(" ")
        comma = texts.str.contains(_EXACT_DECIMAL).fill_null(value=False)
        self.points = self.points or bool(texts.str.contains(".", literal=True).any())
        if comma.any():
            self.commas = True
            grouped = texts.filter(comma).str.contains(_THOUSANDS)
            self.decided = self.decided or self.separator == ";" or not grouped.all()
            self.thousands = self.thousands or str(texts.filter(comma)[0])
        if self.commas and self.points:
            row = (
                comma.arg_max()
                if comma.any()
                else texts.str.contains(".", literal=True).fill_null(value=False).arg_max()
            )
            raise BadCell(int(row or 0), "one decimal mark in the whole column")
        numbers = texts.set(comma, None).cast(pl.Float64, strict=False)
        if comma.any():
            marked = texts.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
            numbers = pl.select(pl.when(comma).then(marked).otherwise(numbers)).to_series()
        unread = numbers.is_null() & texts.is_not_null() & (texts != "")
        if unread.any():
            raise BadCell(int(unread.arg_max() or 0), "a number")
        return numbers

    def check(self) -> None:
        """Raise where commas may have been decimal ones or have stood between thousands.

        Raises:
            divulge.InputError: in that case.
        """
        if self.commas and not self.decided:
            raise InputError(
                f"{self.thousands!r} may be a number with a decimal comma or one of thousands; write it without it"
            )


MISSING = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-NaN", "-nan")
"""Words that `pandas.read_csv` takes for a missing value."""


class BadCell(ValueError):
    """A value that cannot be read.

    Args:
        at: its place in the column that was read.
        needed: what it should have been.
    """

    def __init__(self, row: int, required: str) -> None:
        super().__init__(f"{required} is needed")
        self.row, self.required = row, required


def infer_column(texts: pl.Series, separator: str, *, with_gaps: bool = False) -> pl.Series:
    """Return a column of texts as what all of its values are: truth values, whole numbers, numbers, or else texts.

    Whole numbers of more than 64 bits stay texts, and so does a column without a value.

    Args:
        texts: the column.
        separator: of the file.
        with_gaps: whether `MISSING`, the words that pandas and R write for a missing value, are missing ones.
    """
    absent = texts.is_in(list(MISSING)) if with_gaps else texts == ""
    texts = pl.select(pl.when(~absent).then(texts).alias(texts.name)).to_series()
    present = texts.drop_nulls()
    if not len(present):
        return texts
    if bool(present.is_in([*_TRUE, *_FALSE]).all()):
        return texts.is_in(list(_TRUE))
    if bool(present.str.contains(r"^[+-]?\d+$").all()):
        integers = texts.cast(pl.Int64, strict=False)
        return integers if integers.null_count() == texts.null_count() else texts
    reader = NumberReader(separator)
    try:
        numbers = reader.read(texts)
        reader.check()
    except ValueError:  # of which both BadCell and InputError are
        ungrouped = _remove_thousands(texts)
        return texts if ungrouped is None else infer_column(ungrouped, ";")
    return numbers.alias(texts.name)


def _remove_thousands(texts: pl.Series) -> pl.Series | None:
    """Return numbers such as 1.234,5 or 1,234.5 without the marks between thousands; None where others are among them.

    That each value has both marks, or is such a number without its fraction, leaves no doubt which is which.
    """
    present = texts.drop_nulls()
    for group, decimal in ((".", ","), (",", ".")):
        if (
            present.str.contains(_GROUPED_NUMBER.format(group=group, decimal=decimal)).any()
            and present.str.contains(_DECIMAL_NUMBER.format(group=group, decimal=decimal)).all()
        ):
            return texts.str.replace_all(group, "", literal=True)
    return None


def check_decimal_marks(readers: Mapping[str, NumberReader]) -> None:
    """Raise where a column of one file may hold thousands: 1.234 beside a column that has decimal commas, or reversed.

    Raises:
        divulge.InputError: in that case.
    """
    marks = {name: "," if each.commas else "." for name, each in readers.items() if each.commas or each.points}
    for name, mark in marks.items():
        if not readers[name].has_proof and (others := set(marks.values()) - {mark}):
            raise InputError(
                f"column {name!r}: {mark!r} in all of its values may stand between thousands (1{mark}234), as other "
                f"columns have {others.pop()!r} before their decimals; write its numbers without it, or all numbers "
                "with one decimal mark"
            )


def read_marks(texts: pl.Series, separator: str) -> NumberReader | None:
    """Return the reader of a column of numbers, which knows their decimal marks; None where it holds others."""
    present = texts.filter(~texts.is_in(list(MISSING)))
    reader = NumberReader(separator)
    if not len(present) or not bool(present.str.contains(r"[.,]").any()):
        return None
    try:
        reader.read(present)
    except BadCell:
        if (ungrouped := _remove_thousands(present)) is None:
            return None
        reader = NumberReader(";")
        reader.read(ungrouped)
    return reader
