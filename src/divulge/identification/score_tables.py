"""Read tables of scores: the meaning of their columns, and the rows that a decision can use.

`clean_table` reads a table in batches and writes it to a folder of Parquet files. For each row 8 bytes of its id, and 8
of its text, stay in memory; of sets of known membership, 24 more of id and scores, by which their copies are found.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shutil
import unicodedata
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import special

from divulge import seeds, tables
from divulge.errors import InputError
from divulge.report.formatting import format_count
from divulge.run_directory import RunDirectory
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from divulge.tables import Table
    from divulge.tables.table import ColumnType
    from divulge.types import Array, Bools, Floats

DOCUMENTS = "documents"
"""Folder of the tables that `divulge identify score` writes."""
INPUT_COLUMNS = "input-columns"
"""Folder beside it: what the scored tables say of their documents beside ids and texts, such as titles."""

_MAX_NAMES = 500  # characters of the names of columns in a message
_MAX_ROWS = 10  # row numbers in a message
_MAX_VALUES = 5  # values in a message
_TEXTS_PER_BATCH = 1 << 14  # small, because each row may hold a long document
_ID_HASH_SEED = 0  # any: ids whose hashes repeat are compared themselves
_HASHES_PER_BLOCK = 1 << 20
NO_TEXT = "none"
"""What stands in the place of a column of texts where no texts are to be compared."""
_SAMPLED_ROWS = 200  # of each table, by which free text is told from names and categories
_MIN_WORDS, _MIN_DISTINCT = 4, 0.5  # mean number of words of free text in one of the tables, and share of distinct ones
_WORD = re.compile(r"[^\W\d_]{2,}")
_CHANCE = 1e-6  # probability at which agreement between sets is taken for copies
_HASH_BITS = 3  # of a hash, by which parts are told apart
# Spellings of membership in lower case; a missing value means unknown.
_MEMBER = ("1", "1.0", "true", "t", "yes", "y", "member", "members")
_NONMEMBER = ("0", "0.0", "false", "f", "no", "n", "nonmember", "non-member", "nonmembers", "non-members")
_UNKNOWN = ("", "nan", "null", "none", "na")


@dataclass(frozen=True, slots=True)
class Score:
    """A column of scores and its member-like end.

    Examples:
        >>> Score.parse("loss:low")
        Score(column='loss', sign=-1)
    """

    column: str
    sign: int = 1
    assumed: bool = field(default=False, repr=False, compare=False)
    """Whether the user named no end, so that a high score was taken as member-like."""

    @classmethod
    def parse(cls, text: str) -> Score:
        """Parse ``column:low`` (perplexity, loss) or ``column:high``; high by default.

        Raises:
            divulge.InputError: an ending that is neither.
        """
        column, separator, end = text.rpartition(":")
        if not separator:
            return cls(text, assumed=True)
        check_choice(end, "score", ("low", "high"))
        return cls(column, -1 if end == "low" else 1)

    def __str__(self) -> str:
        return f"{self.column}:{'low' if self.sign < 0 else 'high'}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Meaning of the columns of a table of scores.

    Args:
        scores: one column, or several to learn from.
        id: unique identifiers; the row number where None.
        text: the documents, for the blind text control and to find overlap; None where there are none.
        is_text_found: whether nobody named that column, so that messages say how to name another or none.
        truth: known membership, as true and false, yes and no, 1 and 0 or member and nonmember; a missing value
            where it is not known. None where it is known of no row.
        baseline: the score of a classifier that never saw the model, and its member-like end; None where there is none.
    """

    scores: tuple[Score, ...]
    id: str | None = None
    text: str | None = None
    truth: str | None = None
    baseline: Score | None = None
    is_text_found: bool = False

    @property
    def numbers(self) -> list[str]:
        """The columns that hold numbers."""
        return [score.column for score in (*self.scores, *([self.baseline] if self.baseline else []))]

    @property
    def texts(self) -> list[str]:
        """The columns that are read as texts."""
        return [column for column in (self.id, self.text, self.truth) if column]

    def dtypes(self) -> dict[str, ColumnType]:
        """Return the type as which each column is read."""
        if shared := sorted({*self.texts} & {*self.numbers}):
            raise InputError(f"score: column {shared[0]!r} is also named as id, text or truth")
        return dict.fromkeys(self.texts, tables.TEXT) | dict.fromkeys(self.numbers, tables.NUMBER)


def scan_scores(paths: Sequence[Path], name: str) -> Table:
    """Scan one or more tables, one below the other; only their columns are read yet.

    Args:
        paths: files or folders, as `divulge.tables.scan_table` takes them, or what `divulge identify score` wrote.
        name: name of the argument, for errors.

    Raises:
        divulge.InputError: nothing there, an unknown kind of file, or a damaged one.
    """
    return tables.scan_table([_documents_folder(Path(path)) for path in paths], name)


def _documents_folder(path: Path) -> Path:
    """Return the folder of the tables: one level down in a run of `divulge identify score`, which must be finished."""
    for run in (path, path.parent) if path.name == DOCUMENTS else (path,):
        if RunDirectory(run).holds("scores") or ((run / "run.json").exists() and (run / DOCUMENTS).is_dir()):
            return RunDirectory(run).open("scores", only=f"{DOCUMENTS}/").path / DOCUMENTS
    return path


def resolve_columns(
    table: Table,
    scores: Sequence[str],
    *,
    id: str | None = None,  # noqa: A002  the option's name
    text: str | None = None,
    truth: str | None = None,
    baseline: str | None = None,
    calibration: Table | None = None,
) -> Columns:
    """Return the columns a user named, with ``id`` and ``text`` taken where a table has columns of that name.

    Where no column of texts is named and none is called so, the longest free text that stands in both tables is taken;
    none at all if ``text`` is `NO_TEXT`.

    Args:
        table: the candidates.
        scores: columns of scores, with or without their member-like end.
        id: column of identifiers.
        text: column of the documents.
        truth: column of known membership.
        baseline: column of a blind score.
        calibration: the table to compare with, in which free text must stand as well.

    Raises:
        divulge.InputError: no score column named.
    """
    if not scores:
        raise InputError("score: name at least one column and its member-like end, such as loss:low")
    columns = Columns(
        tuple(Score.parse(score) for score in scores),
        id=id or ("id" if "id" in table else None),
        text=text or ("text" if "text" in table else None),
        truth=truth,
        baseline=Score.parse(baseline) if baseline else None,
    )
    if columns.text == NO_TEXT and NO_TEXT not in table:
        return replace(columns, text=None)
    if columns.text is None and calibration is not None:
        others = {*columns.numbers, *columns.texts}
        if found := find_free_texts([table, calibration], without=others):
            return replace(columns, text=found[0], is_text_found=True)
    return columns


def find_free_texts(sets: Sequence[Table], *, without: Collection[str] = ()) -> list[str]:
    """Return the columns that hold free text in all tables, the longest texts first.

    Free text has a few words in each value, and few values that repeat; names, categories, dates and numbers are none.

    Args:
        sets: tables, of which the first rows are read.
        without: columns that mean something else.

    Raises:
        divulge.InputError: a damaged file.
    """
    names = [
        name
        for name in sets[0].columns
        if name not in without and all(name in each and each.column_type(name) in (tables.TEXT, "any") for each in sets)
    ]
    if not names:
        return []
    samples = [next(each.batches(dict.fromkeys(names, tables.TEXT), _SAMPLED_ROWS), None) for each in sets]
    lengths: dict[str, float] = {}
    for name in names:
        columns = [[] if sample is None else sample[name].drop_nulls().to_list() for sample in samples]
        if not all(columns) or min(len(set(texts)) / len(texts) for texts in columns) < _MIN_DISTINCT:
            continue
        if max(np.mean([len(_WORD.findall(text)) for text in texts]) for texts in columns) >= _MIN_WORDS:
            lengths[name] = max(float(np.mean([len(text) for text in texts])) for texts in columns)
    return sorted(lengths, key=lambda name: -lengths[name])


def check_columns(table: Table, columns: Columns) -> None:
    """Check the columns of a table before it is read.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, a column of texts
            or ids of another kind, no rows.
    """
    if columns.baseline and columns.baseline.column in [score.column for score in columns.scores]:
        raise InputError(f"baseline: {columns.baseline.column!r} is the score itself; another column is needed")
    require_columns(table, [*columns.numbers, *columns.texts])
    if not table.has_rows():
        raise InputError(f"{table.name}: at least 1 row is needed, got 0")
    for column in columns.numbers:
        if (dtype := table.column_type(column)) not in (tables.NUMBER, "any", "empty"):
            raise InputError(f"{table.name}: score column {column!r} is {dtype}, not numeric")
    for column in columns.texts:
        if (dtype := table.column_type(column)) not in (tables.NUMBER, tables.TEXT, "any", "empty", "true or false"):
            raise InputError(f"{table.name}: column {column!r} is {dtype}, which is neither text nor numeric")


def require_columns(table: Table, columns: Sequence[str]) -> None:
    """Check that a table has all ``columns``.

    Raises:
        divulge.InputError: one is missing; the message offers the nearest names.
    """
    for column in columns:
        if column not in table:
            nearest = difflib.get_close_matches(column, table.columns, n=3, cutoff=0.4)
            hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
            names = ", ".join(table.columns)
            names = names if len(names) <= _MAX_NAMES else f"{names[:_MAX_NAMES]}…"
            raise InputError(f"{table.name}: no column {column!r}{hint} (columns: {names})")


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """Treatment of rows that cannot be used, and the size of the sample of texts.

    Args:
        drop_nan: leave out rows whose score is missing instead of refusing them.
        drop_overlap: leave out rows that stand in ``known_sets``, with the same text or the same id and scores, instead
            of refusing them.
        known_sets: cleaned tables of known membership, whose rows and texts none may repeat.
        keep_hashes: whether the table is to be one of the ``known_sets`` of others.
        seed: of the sample of texts.
        sample_size: largest size of that sample.
    """

    drop_nan: bool = False
    drop_overlap: bool = False
    known_sets: tuple[CleanTable, ...] = ()
    keep_hashes: bool = False
    seed: int = 0
    sample_size: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CleanTable:
    """The rows of a table that can be used.

    Args:
        path: folder of Parquet files with the columns row (its number in the table), id (as the file spells it; the
            number of the row where no column is named), score0, score1, …, baseline where there is a blind score,
            text_digest where there are texts, and truth where membership is known.
        n_rows: number of rows.
        notes: which rows were left out.
        text_digests: of the texts, ascending, each once; 0 stands for rows without text.
        text_sample: of the distinct texts of all rows.
        name: of the table.
        has_ids: whether a column of ids was named.
        row_hashes: of the id and of all scores of each usable row, ``[2, rows]``, where these were asked for.
        scores_digest: of all scores of the usable rows in their order.
        left_out: known set → hashes of the ids of rows that were left out as copies of its rows.
        left_out_texts: known set → digests of the texts of rows that were left out, as it has them, ascending.
    """

    path: Path
    n_rows: int
    notes: tuple[str, ...]
    text_digests: Array
    text_sample: tuple[str, ...]
    name: str
    has_ids: bool
    row_hashes: Array
    scores_digest: str
    left_out: Mapping[str, Array]
    left_out_texts: Mapping[str, Array]

    def scan(self) -> pl.LazyFrame:
        """Return a lazy frame of the rows."""
        return tables.open_pieces(self.path)

    def scores(self, count: int) -> Floats:
        """Return all scores, ``[rows, count]``."""
        return self.scan().select([f"score{i}" for i in range(count)]).collect().to_numpy()

    def column(self, name: str) -> Array:
        """Return all values of one column, ``[rows]``."""
        return tables.to_array(self.scan().select(name).collect()[name])


def clean_table(table: Table, columns: Columns, folder: Path, options: CleaningOptions | None = None) -> CleanTable:
    """Write what a decision needs of a table into ``folder``: row, id, scores (larger = member-like) and truth.

    Raises:
        divulge.InputError: a column that is missing (the nearest names are offered) or not numeric, an
            unreadable file, no rows, rows that cannot be used, ids that repeat, rows of a known set.
    """
    check_columns(table, columns)
    cleaner = _Cleaner(table.name, columns, options or CleaningOptions())
    writer = tables.PieceWriter(folder)
    for batch in table.batches(columns.dtypes(), _TEXTS_PER_BATCH if columns.text else None):
        writer.add(cleaner.clean(batch))
    writer.close()
    notes = cleaner.notes()
    digests, counts = np.unique(np.concatenate([*cleaner.text_digests, np.empty(0, np.uint64)]), return_counts=True)
    clean = CleanTable(
        folder,
        cleaner.n_usable,
        notes,
        digests,
        tuple(cleaner.text_sample.texts()),
        table.name,
        columns.id is not None,
        np.concatenate([*cleaner.row_hashes, np.empty((2, 0), np.uint64)], axis=1),
        cleaner.scores_digest.hexdigest(),
        {copies.known: np.concatenate([*copies.id_hashes, np.empty(0, np.uint64)]) for copies in cleaner.copies},
        {
            name: np.unique(np.concatenate([*digests, np.empty(0, np.uint64)]))
            for name, digests in cleaner.left_out_texts.items()
        },
    )
    for known in cleaner.options.known_sets:
        if known.scores_digest == clean.scores_digest and surely_same_scores(known.scores(len(columns.scores))):
            raise InputError(equal_scores_message(table.name, known.name))
    if columns.id:
        _check_unique_ids(clean.scan(), cleaner.id_hashes, table.name)
    return _keep_each_text_once(clean, digests[(counts > 1) & (digests != 0)], table.name)


def _keep_each_text_once(clean: CleanTable, repeated: Array, name: str) -> CleanTable:
    """Leave out rows whose text another row has: copies of a document are one observation.

    The row with the middle score is kept, the lower one of two, and of equal scores the one with the middle id, so that
    the order of the rows changes nothing.

    Args:
        clean: all usable rows.
        repeated: digests of the texts that occur more than once.
        name: of the table.
    """
    if not len(repeated):
        return clean
    is_repeated = pl.col("text_digest").is_in(pl.Series(repeated).implode())
    middle = pl.col("row").sort_by("score0", "id").get((pl.len() - 1) // 2)
    kept_rows = clean.scan().filter(is_repeated).group_by("text_digest").agg(middle).collect()["row"]
    distinct = _keep_rows(clean, ~is_repeated | pl.col("row").is_in(kept_rows.implode()))
    n_left_out = clean.n_rows - distinct.n_rows
    note = f"{n_left_out} {name} rows repeat the text of another and were left out; each text counts once"
    return replace(distinct, notes=(*clean.notes, note))


def _keep_rows(clean: CleanTable, condition: pl.Expr) -> CleanTable:
    """Write the rows that meet a condition in the place of all."""
    folder = clean.path.with_name(f"{clean.path.name} kept")
    writer, n_rows = tables.PieceWriter(folder), 0
    for batch in tables.row_batches(clean.scan().filter(condition)):
        writer.add(batch)
        n_rows += len(batch)
    writer.close()
    shutil.rmtree(clean.path)
    folder.rename(clean.path)
    return replace(clean, n_rows=n_rows)


def leave_out_copies(known: CleanTable, candidates: CleanTable) -> CleanTable:
    """Return a set of known membership without the rows that were left out of the candidates as copies of them.

    A document in question that stayed among those known to be unused would hide others that were used.

    Raises:
        divulge.InputError: nothing is left.
    """
    conditions = []
    if len(ids := candidates.left_out.get(known.name, ())):
        conditions.append(~pl.col("id").hash(_ID_HASH_SEED).is_in(pl.Series(ids).implode()))
    if len(digests := candidates.left_out_texts.get(known.name, ())):
        conditions.append(~pl.col("text_digest").is_in(pl.Series(digests).implode()))
    if not conditions:
        return known
    kept = _keep_rows(known, pl.all_horizontal(conditions))
    if not kept.n_rows:
        raise InputError(f"{known.name}: every row is also among the candidates; nothing is left")
    return kept


class _Cleaner:
    """Filters the usable rows of a table in one pass, and counts the others."""

    def __init__(self, name: str, columns: Columns, options: CleaningOptions) -> None:
        self._name, self._columns, self.options = name, columns, options
        self._membership = MembershipReader()
        self.n_rows, self.n_usable, self.unusable = 0, 0, _RowNumbers()
        self.known_texts = {known.name: known.text_digests for known in self.options.known_sets if columns.text}
        self.overlapping = {name: _RowNumbers() for name in self.known_texts}
        self.copies = [_Copies(known) for known in options.known_sets if known.has_ids and columns.id]
        self.row_hashes: list[Array] = []
        self.scores_digest = hashlib.blake2b(digest_size=16)
        self.text_digests: list[Array] = []
        self.left_out_texts: dict[str, list[Array]] = {name: [] for name in self.known_texts}
        self.text_sample = TextSample(options.sample_size)
        self.id_hashes = _Hashes()

    def clean(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return the usable rows of the next batch, with the columns of `CleanTable`."""
        names = self._columns
        row = np.arange(self.n_rows, self.n_rows + len(batch), dtype=np.uint32)
        self.n_rows += len(batch)
        columns = {"row": pl.Series(row), "id": batch[names.id] if names.id else pl.Series(row)}
        scores = {f"score{i}": score for i, score in enumerate(names.scores)}
        if names.baseline:
            scores["baseline"] = names.baseline
        values = {key: score.sign * batch[score.column].fill_null(np.nan).to_numpy() for key, score in scores.items()}
        columns |= {key: pl.Series(array) for key, array in values.items()}
        usable: Bools = np.asarray(np.isfinite(np.column_stack(list(values.values()))).all(axis=1))
        self.unusable.add(row[~usable])
        if names.text:
            usable, columns["text_digest"] = self._exclude_texts(batch[names.text], usable, row)
        if names.truth:
            columns["truth"] = self._membership.read(batch[names.truth])
        rows = pl.DataFrame(columns).filter(pl.Series(usable))
        score_names = [f"score{i}" for i in range(len(names.scores))]
        self.scores_digest.update(rows.select(score_names).to_numpy().tobytes())
        if names.id:
            hashes = np.stack([rows["id"].hash(_ID_HASH_SEED).to_numpy(), _hash_rows(rows.select(score_names))])
            is_copy = np.zeros(len(rows), dtype=bool)
            for copies in self.copies:
                is_copy |= copies.find(hashes, rows["id"])
            if self.options.drop_overlap:
                rows, hashes = rows.filter(pl.Series(~is_copy)), hashes[:, ~is_copy]
            self.id_hashes.add(hashes[0])
            if self.options.keep_hashes:
                self.row_hashes.append(hashes)
        self.n_usable += len(rows)
        return rows

    def _exclude_texts(self, column: pl.Series, usable: Bools, row: Array) -> tuple[Bools, pl.Series]:
        """Return the usable rows whose text is not excluded, and digests, 0 without text; sample all texts."""
        texts = tables.to_array(column)
        digests = digest_texts(texts, self.options.seed)
        has_text = digests != 0
        self.text_sample.add(digests, texts, has_text)
        is_elsewhere = np.zeros(len(texts), dtype=bool)
        for name, known_digests in self.known_texts.items():
            overlapping = usable & np.isin(digests, known_digests) & has_text
            self.overlapping[name].add(row[overlapping])
            self.left_out_texts[name].append(digests[overlapping])
            is_elsewhere |= overlapping
        usable = usable & ~is_elsewhere
        self.text_digests.append(digests[usable])
        return usable, pl.Series(digests)

    def notes(self) -> tuple[str, ...]:
        """Return notes about rows that were left out.

        Raises:
            divulge.InputError: unusable rows that the options do not drop; no usable row; unreadable membership.
        """
        name, notes = self._name, []
        if self._columns.truth:
            self._membership.check(self._columns.truth, name)
        if self.unusable.number and not self.options.drop_nan:
            raise InputError(f"{name}: missing, NaN or infinite scores in {self.unusable}; --drop-nan leaves them out")
        if self.n_rows == self.unusable.number:
            raise InputError(
                f"{name}: at least 1 row with a score is needed, got {self.n_rows} rows, {self.n_rows} without"
            )
        if self.unusable.number:
            notes.append(f"{self.unusable.number} {name} rows without a usable score were left out")
        notes += self._check_equal_texts()
        notes += self._check_copies()
        if self.n_rows and not self.n_usable:
            raise InputError(f"{name}: every row is also in another set; nothing is left")
        return tuple(notes)

    def _check_equal_texts(self) -> list[str]:
        """Return notes about rows whose text a known set has, too; raise where these are not to be left out."""
        name, notes = self._name, []
        for known, rows in self.overlapping.items():
            if not rows.number:
                continue
            if not self.options.drop_overlap:
                reason = {
                    "candidates": "a document cannot be both a candidate and known to be unseen",
                    "holdout": "a holdout that repeats the calibration tests nothing",
                }.get(known if known == "members" else name, "no document can be in both")
                sides = {"candidates": "both", "holdout": "the holdout"}.get(name)
                remedies = [f"--drop-overlap leaves it out of {sides}"] if sides else []
                if self._columns.is_text_found:
                    remedies.append(
                        f"column {self._columns.text!r} was taken for the documents; --text names another, and --text "
                        f"{NO_TEXT} compares none"
                    )
                remedy = f" ({'; '.join(remedies)})" if remedies else ""
                raise InputError(f"{name}: the text of {rows} is also in the {known}; {reason}{remedy}")
            of_both = " of both" if name == "candidates" else ""
            notes.append(f"{rows.number} {name} whose text is also in the {known} were left out{of_both}")
        return notes

    def _check_copies(self) -> list[str]:
        """Return notes about rows that stand in a known set, too; raise where these are not to be left out."""
        name, notes = self._name, []
        for copies in self.copies:
            if self.options.drop_overlap and copies.number:
                of_both = " of both" if name == "candidates" else ""
                notes.append(
                    f"{copies.number} {name} with id and scores of rows of the {copies.known} were left out{of_both} "
                    f"({copies.sample})"
                )
            elif copies.are_more_than_chance():
                is_certain = name == "members"  # used and not used: no row of either can be left out unasked
                sides = "both" if name == "candidates" else f"the {name}"
                remedy = "" if is_certain else f" (--drop-overlap leaves it out of {sides})"
                raise InputError(
                    f"{name}: {format_count(copies.number, 'row')} with id and scores of rows of the {copies.known} "
                    f"({copies.sample}); no document can be in both; remove it from one{remedy}"
                )
        return notes


def _hash_rows(frame: pl.DataFrame) -> Array:
    """Return a hash of each row, ``[n]``; zeros of either sign are one number."""
    return frame.select(pl.all() + 0.0).hash_rows(_ID_HASH_SEED).to_numpy()


class _Copies:
    """Counts rows that have id and scores of a row of a known set, and those that would do so by chance.

    Numbers of rows as ids occur in every set, and scores with few values agree by chance then.
    """

    def __init__(self, known: CleanTable) -> None:
        self.known, self.number, self._n_shared, self._n_expected = known.name, 0, 0, 0.0
        self._ids: list[str] = []
        self.id_hashes: list[Array] = []
        order = np.argsort(known.row_hashes[0])
        self._hashes, self._sorted_scores = known.row_hashes[:, order], np.sort(known.row_hashes[1])

    def find(self, hashes: Array, ids: pl.Series) -> Bools:
        """Return which rows of a batch are copies, by their hashes ``[2, n]``."""
        if not self._hashes.size:
            return np.zeros(len(ids), dtype=bool)
        places = np.minimum(np.searchsorted(self._hashes[0], hashes[0]), self._hashes.shape[1] - 1)
        is_shared = self._hashes[0, places] == hashes[0]
        is_copy = is_shared & (self._hashes[1, places] == hashes[1])
        first, last = (np.searchsorted(self._sorted_scores, hashes[1][is_shared], side) for side in ("left", "right"))
        self.number += int(is_copy.sum())
        self.id_hashes.append(hashes[0, is_copy])
        self._n_shared += int(is_shared.sum())
        n_equal_elsewhere = float((last - first).sum()) - is_copy.sum()
        self._n_expected += n_equal_elsewhere / max(len(self._sorted_scores) - 1, 1)
        self._ids += ids.filter(pl.Series(is_copy)).head(_MAX_VALUES - len(self._ids)).to_list()
        return is_copy

    @property
    def sample(self) -> str:
        """The first ids of copies."""
        return ", ".join(map(repr, self._ids)) + (", …" if self.number > len(self._ids) else "")

    def are_more_than_chance(self) -> bool:
        """Return True if all shared ids have equal scores, or more of them than ids of other meaning would have."""
        if not self.number or self.number == self._n_shared:
            return self.number > 0
        return bool(special.gammainc(self.number, self._n_expected) < _CHANCE)  # a Poisson count of at least so many


def surely_same_scores(scores: Array) -> bool:
    """Return whether another set with the same scores ``[n]`` or ``[n, d]`` in the same order is no chance."""
    _, counts = np.unique(scores, axis=0, return_counts=True)
    agreement = float(((counts / len(scores)) ** 2).sum())  # of one pair of rows
    return bool(len(scores) * np.log(agreement) < np.log(_CHANCE))


def equal_scores_message(name: str, known: str) -> str:
    """Return the message about two sets that hold the same scores."""
    return (
        f"{name}: its scores are those of the {known}, row by row; two different sets are needed, so the same one was "
        "given twice"
    )


@dataclass(slots=True)
class _RowNumbers:
    """Number of some rows, and the first of them."""

    number: int = 0
    first_rows: list[int] = field(default_factory=list)

    def add(self, rows: Array) -> None:
        self.number += len(rows)
        self.first_rows += rows[: _MAX_ROWS - len(self.first_rows)].tolist()

    def __str__(self) -> str:
        ellipsis = ", …" if self.number > len(self.first_rows) else ""
        numbers = ", ".join(f"{row + 1:,}" for row in self.first_rows)
        return f"{format_count(self.number, 'row')} ({numbers}{ellipsis}; the header not counted)"


class MembershipReader:
    """Reads a column of membership in any of its spellings, batch by batch."""

    def __init__(self) -> None:
        self._has_values = False
        self._unreadable: list[str] = []

    def read(self, texts: pl.Series) -> pl.Series:
        """Return true, false or missing for each text ``[n]``.

        Examples:
            >>> MembershipReader().read(pl.Series([" Yes", "no", None, "perhaps"])).to_list()
            [True, False, None, None]
        """
        words = texts.str.strip_chars().str.to_lowercase()
        spellings = dict.fromkeys(_MEMBER, True) | dict.fromkeys(_NONMEMBER, False)
        is_member = words.replace_strict(
            list(spellings), list(spellings.values()), default=None, return_dtype=pl.Boolean
        )
        self._has_values = self._has_values or is_member.null_count() < len(is_member)
        unreadable = texts.filter(is_member.is_null() & words.is_not_null() & ~words.is_in(list(_UNKNOWN)))
        if len(unreadable):
            values = {*self._unreadable, *unreadable.str.strip_chars().unique().to_list()}
            self._unreadable = sorted(values)[: _MAX_VALUES + 1]
        return is_member

    def check(self, column: str, name: str) -> None:
        """Check the column after the last batch.

        Raises:
            divulge.InputError: it holds other values, or none at all.
        """
        if self._unreadable:
            ellipsis = ", …" if len(self._unreadable) > _MAX_VALUES else ""
            values = ", ".join(map(repr, self._unreadable[:_MAX_VALUES])) + ellipsis
            raise InputError(
                f"truth: column {column!r} of {name} must hold yes and no, true and false, 1 and 0 or member and "
                f"nonmember, got {values}"
            )
        if not self._has_values:
            raise InputError(f"truth: column {column!r} of {name} is empty in every row; membership is known of none")


def digest_texts(texts: Array, seed: int) -> Array:
    """Return a 64-bit digest per text, ``[n]`` uint64, the same on every machine; 0 where there is none.

    Texts that differ in white space, in case or in how Unicode spells them are equal, see `normalise_text`.

    The probability that any of ``m`` texts shares its digest with a different one of ``n`` is about ``m n / 2^64``: 1
    in 18 million for a million of each. Such a collision counts as overlap, which removes a candidate and never adds
    one to the selection.

    Examples:
        >>> digest_texts(np.array(["a", None], object), 0)
        array([512022889870262686,                  0], dtype=uint64)
    """
    salt = seeds.derive_seed(seed, "digests of texts").to_bytes(16, "little")
    normalised = [normalise_text(text) if text else "" for text in texts.tolist()]
    digests = [
        hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest() if text else bytes(8) for text in normalised
    ]
    return np.frombuffer(b"".join(digests), "<u8")


def normalise_text(text: str) -> str:
    r"""Return a text without white space, invisible signs, case and the differences of Unicode's normal forms.

    Copies of a document that differ in no more than these are one document.

    Examples:
        >>> normalise_text("The  \N{LATIN SMALL LIGATURE FI}rst line. ") == normalise_text("the first Line.")
        True
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", folded))


_INVISIBLE = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")


class TextSample:
    """The distinct texts with the lowest digests: a sample that no order of the rows changes."""

    def __init__(self, size: int) -> None:
        self._size, self._bound = size, np.uint64(2**64 - 1)
        self._lowest: set[tuple[int, str]] = set()

    def add(self, digests: Array, texts: Array, usable: Bools) -> None:
        """Add the texts ``[n]`` of the mask ``usable`` to the sample, with their digests ``[n]``."""
        low = usable & (digests <= self._bound)
        self._lowest.update(zip(digests[low].tolist(), texts[low].tolist(), strict=True))
        if len(self._lowest) > 2 * self._size:
            self._truncate()

    def texts(self) -> list[str]:
        """Return the sample, in the order of the digests."""
        self._truncate()
        return [text for _, text in sorted(self._lowest)]

    def _truncate(self) -> None:
        lowest = sorted(self._lowest)[: self._size]
        self._lowest = set(lowest)
        if lowest and len(lowest) == self._size:
            self._bound = np.uint64(lowest[-1][0])


class _Hashes:
    """64-bit hashes, in blocks of their own: small arrays of polars, kept among larger ones, would keep their pages."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._n_filled = _HASHES_PER_BLOCK  # of the last block

    def add(self, hashes: Array) -> None:
        """Copy hashes ``[n]``."""
        while len(hashes):
            if self._n_filled == _HASHES_PER_BLOCK:
                self._blocks.append(np.empty(_HASHES_PER_BLOCK, np.uint64))
                self._n_filled = 0
            count = min(len(hashes), _HASHES_PER_BLOCK - self._n_filled)
            self._blocks[-1][self._n_filled : self._n_filled + count] = hashes[:count]
            self._n_filled += count
            hashes = hashes[count:]

    def repeated(self) -> Array:
        """Return the hashes that occur more than once, ascending, and forget all."""
        if not self._blocks:
            return np.empty(0, np.uint64)
        blocks = [*self._blocks[:-1], self._blocks[-1][: self._n_filled]]
        self._blocks.clear()
        repeated_hashes = []
        for part in range(1 << _HASH_BITS):  # an eighth is copied and sorted at a time
            pooled = np.concatenate([block[block >> np.uint64(64 - _HASH_BITS) == part] for block in blocks])
            pooled.sort()
            repeated_hashes.append(np.unique(pooled[1:][pooled[1:] == pooled[:-1]]))
        return np.concatenate(repeated_hashes)


def _check_unique_ids(rows: pl.LazyFrame, hashes: _Hashes, name: str) -> None:
    """Raise for ids that repeat; only those whose hashes repeat are compared."""
    repeated_hashes = hashes.repeated()
    if not len(repeated_hashes):
        return
    suspects = rows.select("id").filter(pl.col("id").hash(_ID_HASH_SEED).is_in(pl.Series(repeated_hashes).implode()))
    sizes = suspects.group_by("id", maintain_order=True).len().filter(pl.col("len") > 1).collect()
    if repeated := sizes["id"].to_list():
        sample = ", ".join(repr(value) for value in repeated[:_MAX_VALUES])
        raise InputError(f"{name}: ids must be unique; {len(repeated)} occur more than once ({sample})")


def find_input_columns(paths: Sequence[Path]) -> list[Path]:
    """Return where titles, dates and the like of scored documents stand: in the tables, or beside their scores."""
    runs = [path.parent if path.name == DOCUMENTS else path for path in paths]
    beside = [run / INPUT_COLUMNS for run in runs]
    return beside if beside and all(folder.is_dir() for folder in beside) else list(paths)
