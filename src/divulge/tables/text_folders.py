"""A folder of texts, one file for each document, as a table of their names and contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from divulge.errors import InputError
from divulge.store import MAX_LINES_BYTES, read_untrusted
from divulge.tables.sources import is_hidden
from divulge.validation import format_value

if TYPE_CHECKING:
    from pathlib import Path

TEXT_ENDING = ".txt"
SCHEMA = {"id": pl.String(), "text": pl.String()}
"""Columns of the table: the name of each file, and what stands in it."""


def is_text_folder(path: Path) -> bool:
    """Return whether a path is a folder of ``.txt`` files and of nothing else that is not hidden."""
    endings = {_ending(each) for each in _visible(path)} if path.is_dir() else set()
    return endings == {TEXT_ENDING}


def check_no_texts(path: Path) -> None:
    """Raise where a folder that is no table holds texts beside other things.

    Raises:
        divulge.InputError: it does; which of its texts are meant, nobody can say.
    """
    others = [each for each in _visible(path) if _ending(each) != TEXT_ENDING]
    if others and len(others) < len(_visible(path)):
        what = "the folder" if others[0].is_dir() else "the file"
        raise InputError(
            f"{path}: texts, one {TEXT_ENDING} file for each document, stand in a folder of their own, and this one "
            f"also holds {what} {format_value(others[0].name)}"
        )


def read_text_folder(path: Path) -> pl.DataFrame:
    """Return name and content of the texts in a folder, in the order of their names; line ends are those of Unix.

    Raises:
        divulge.InputError: a file without a text, or one that is not UTF-8.
    """
    texts = {}
    for file in sorted(_visible(path)):
        try:
            text = read_untrusted(file, limit=MAX_LINES_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: not UTF-8 (byte {error.start:,}); save it as UTF-8") from None
        if not text.strip():
            raise InputError(f"{file}: there is no text in it; leave it out")
        texts[file.name] = text.replace("\r\n", "\n")
    return pl.DataFrame({"id": list(texts), "text": list(texts.values())}, schema=SCHEMA)


def _visible(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if not is_hidden(each, folder)]


def _ending(path: Path) -> str:
    return "" if path.is_dir() else path.suffix.lower()
