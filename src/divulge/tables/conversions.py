"""Files of records that are not read, and the program or call that makes one of them that is."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from divulge.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_TO_TEXT = {
    **dict.fromkeys((".docx", ".odt", ".rtf", ".epub", ".html", ".htm"), "pandoc -t plain -o {stem}.txt {name}"),
    ".pdf": "pdftotext {name} {stem}.txt",
    ".doc": "soffice --headless --convert-to txt:Text {name}",
}
_TO_TABLE = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), "pandas.read_excel({name!r})"),
    ".sav": "pandas.read_spss({name!r})",
    ".dta": "pandas.read_stata({name!r})",
    **dict.fromkeys((".sas7bdat", ".xpt"), "pandas.read_sas({name!r}, encoding='utf-8')"),
}


def reject_convertible_file(path: Path) -> None:
    """Raise where the name of a file is that of a document or table that another program makes readable.

    Raises:
        divulge.InputError: it is; the message says by what.

    Examples:
        >>> from pathlib import Path
        >>> reject_convertible_file(Path("survey.dta"))
        Traceback (most recent call last):
        divulge.errors.InputError: survey.dta: .dta is not read here; pandas.read_stata('survey.dta').to_parquet(...
        >>> reject_convertible_file(Path("survey.csv"))
    """
    suffix = path.suffix.lower()
    if suffix in _TO_TEXT:
        command = _TO_TEXT[suffix].format(name=shlex.quote(path.name), stem=shlex.quote(path.stem))
        way = f"make a text of it ({command}) and name the folder of these .txt files, one for each document"
    elif suffix in _TO_TABLE:
        way = f"{_TO_TABLE[suffix].format(name=path.name)}.to_parquet('{path.stem}.parquet') makes a table that is"
    elif suffix in (".rds", ".rda", ".rdata"):
        way = f"in R, write.csv(data, '{path.stem}.csv', row.names = FALSE) makes a table that is"
    else:
        return
    raise InputError(f"{path}: {suffix} is not read here; {way}")
