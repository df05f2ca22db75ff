"""Tables of every common kind of file, read and written by polars in one way for every command.

A file, an open binary file or bytes go in; a `polars.DataFrame` (`read_table`), a `polars.LazyFrame` (`open_parquet`)
or batches of rows (`Table.batches`) come out. Identifiers are text, exactly as the file spells them; an empty text is a
missing value; whatever is wrong with a file is one `divulge.InputError` that names it.
"""

from divulge.settings import ColumnNames
from divulge.tables.arrays import from_arrays, to_array
from divulge.tables.conversions import reject_convertible_file
from divulge.tables.delimited import MISSING, SEPARATORS
from divulge.tables.dummies import Level, code_levels, find_levels
from divulge.tables.input_columns import InputColumns, add_input_columns, list_input_columns, read_input_columns
from divulge.tables.sources import (
    ENDINGS,
    find_files,
    is_hidden,
    is_saved_dataset,
    is_table_file,
    table_errors,
)
from divulge.tables.table import (
    NUMBER,
    TEXT,
    Part,
    PieceWriter,
    Table,
    escape_formulas,
    is_table,
    open_parquet,
    open_pieces,
    read_parquet,
    read_table,
    row_batches,
    scan_table,
    write_csv,
    write_parquet,
)
from divulge.tables.text_folders import check_no_texts, is_text_folder

__all__ = [
    "ENDINGS",
    "MISSING",
    "NUMBER",
    "SEPARATORS",
    "TEXT",
    "ColumnNames",
    "InputColumns",
    "Level",
    "Part",
    "PieceWriter",
    "Table",
    "add_input_columns",
    "check_no_texts",
    "code_levels",
    "escape_formulas",
    "find_files",
    "find_levels",
    "from_arrays",
    "is_hidden",
    "is_saved_dataset",
    "is_table",
    "is_table_file",
    "is_text_folder",
    "list_input_columns",
    "open_parquet",
    "open_pieces",
    "read_input_columns",
    "read_parquet",
    "read_table",
    "reject_convertible_file",
    "row_batches",
    "scan_table",
    "table_errors",
    "to_array",
    "write_csv",
    "write_parquet",
]
