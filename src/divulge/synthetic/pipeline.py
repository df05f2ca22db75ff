"""An audit of a released table from inputs to result."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from divulge import columns, seeds, store
from divulge.errors import InputError
from divulge.run_directory import check_out
from divulge.settings import SyntheticSettings
from divulge.synthetic import controls
from divulge.synthetic.preparation import prepare_tables
from divulge.synthetic.result import BUT_FOR, MAX_LISTED, WHOLE_ROWS, CopiedRow, SyntheticAudit
from divulge.synthetic.risks import MAX_ATTRIBUTES, measure_risks
from divulge.synthetic.scores import (
    AUTO,
    MAX_SCORED_POPULATION,
    Rows,
    combine_scores,
    count_equal,
    person_maxima,
    sample_rows,
    score_table,
)
from divulge.synthetic.texts import PASSAGE, score_texts
from divulge.validation import check_bool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.synthetic.preparation import Tables
    from divulge.types import Bools, Ints

MAX_RECORDS = 20_000
"""Members, and non-members, that are scored; the release is never cut."""
_DEFAULTS = SyntheticSettings()


def audit(
    released: Any,
    *,
    members: Any,
    nonmembers: Any,
    population: Any,
    person: str | None = None,
    text: str | None = None,
    drop: Sequence[str] = (),
    attributes: Sequence[str] | None = None,
    at_random: bool = _DEFAULTS.at_random,
    duplicates: str = _DEFAULTS.duplicates,
    fpr: Sequence[float] = _DEFAULTS.fpr,
    fdr: float = _DEFAULTS.fdr,
    margin: float = _DEFAULTS.margin,
    confidence: float = _DEFAULTS.confidence,
    seed: int = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> SyntheticAudit:
    """Find out what a released synthetic table gives away about the records that it was made from.

    A table is a file (CSV, Parquet, JSON Lines, a folder of them), a data frame, rows of numbers, or a list of texts.
    Columns are matched by name. All are rounded to the coarsest of them, as copies hide behind rounding, and as
    finer digits on one side would tell the sides apart.

    Args:
        released: the release, or a list of several releases of one table.
        members: the table that it was made from.
        nonmembers: records of the same kind that were set aside before: the generator never saw them.
        population: further records of the same kind, which an adversary knows.
        person: column that names the person of each row, in members and non-members (and the population); a person's
            score is the largest of their rows', and persons are counted.
        text: column of documents, for released texts; found where it is the only column.
        drop: columns that are no part of a record.
        attributes: columns that are inferred through the release; by default the first 8, and none for an empty list.
        at_random: whether a random draw decided who is a member; then ε is bounded from below.
        duplicates: "error", or "drop" where sets share rows: equal ones are left out.
        fpr: false-positive rates at which the share of members found is measured.
        fdr: bound on the expected share of non-members on the list of members.
        margin: largest AUC above one half that counts as none.
        confidence: probability that a release that depends on no member is not said to leak.
        seed: of every random draw.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.

    Returns:
        A `SyntheticAudit`: ``result.verdict.answer``, ``result["auto"].auc``, ``result.selection(fdr=0.1)``.

    Raises:
        divulge.InputError: a set that is missing, fewer than 20 released rows, fewer than 2 common columns, a release
            that is the members' table, sets that share rows or persons, a setting that does not fit.

    Examples:
        >>> import polars as pl
        >>> rng = np.random.default_rng(0)
        >>> sets = {name: pl.DataFrame(rng.normal(size=(120, 3)).round(3), schema=["a", "b", "c"])
        ...         for name in ("members", "nonmembers", "population")}
        >>> audit(sets["members"].sample(90, seed=0), **sets, attributes=()).verdict.answer
        'leak found'
    """
    settings = SyntheticSettings.check(
        person=person, text=text, drop=drop, attributes=attributes, at_random=at_random, duplicates=duplicates,
        fpr=fpr, fdr=fdr, margin=margin, confidence=confidence, seed=seed,
    )  # fmt: skip
    check_bool(overwrite, "overwrite")
    out_folder = check_out(out, overwrite=overwrite)
    tables = prepare_tables(
        released, members, nonmembers, population,
        person=person, text=text, drop=settings.drop, duplicates=settings.duplicates, seed=settings.seed,
    )  # fmt: skip
    inferred = _choose_attributes(tables, settings)

    candidates, is_member, people = _choose_candidates(tables, settings.seed)
    reference = tables.rows_of("population")
    # Candidates that equal another do not count (_find_unique_records), so the population that the others are compared
    # with loses its equals, too: else it held rows of a kind that they cannot be.
    is_alone = np.ones(len(tables.rows), dtype=bool)
    if tables.overlaps:
        compared = np.concatenate([candidates, reference])
        is_alone = count_equal(tables.rows, compared, np.arange(len(tables.rows))) == 1
        reference = reference[is_alone[reference]]
        if not len(reference):
            raise InputError("population: every row equals another, of it or of members or non-members")
    # Each released row is its own owner: no person stands behind it.
    owners = np.arange(len(tables.rows))
    if tables.people is not None:
        owners = np.where(tables.people < 0, owners, tables.people + len(tables.rows))
    scored_population = sample_rows(reference, MAX_SCORED_POPULATION, settings.seed, "null")
    rows = Rows(np.concatenate([candidates, scored_population]), tables.rows_of("released"), reference, owners)
    is_candidate = np.arange(len(rows.scored)) < len(candidates)

    # Persons are compared by one row each: their rows are alike, and not independent of one another.
    one_each = _sample_row_per_person(candidates, people, settings.seed)
    member_rows, nonmember_rows = (one_each[np.isin(one_each, candidates[side])] for side in (is_member, ~is_member))
    population_rows = _sample_row_per_person(reference, owners[reference], settings.seed)
    alike = controls.compare_blindly(tables, member_rows, nonmember_rows, reference, settings.seed)
    # Fresh rows of the population are compared with non-members, so either both may have equals or neither.
    holdout, fresh = controls.test_holdout(
        tables, rows, nonmember_rows[is_alone[nonmember_rows]], population_rows, settings.margin, settings.seed
    )

    scores = score_table(tables, rows, settings.seed) if tables.columns else {}
    if tables.texts is not None:
        scores |= score_texts(tables.texts, rows)
    # Of a population that the generator saw, scores cannot be weighed by what stands out against it.
    scores[AUTO] = (
        combine_scores(scores, is_candidate, settings.seed, equally=fresh.state == "fails")
        if scores
        else np.zeros(len(rows.scored))
    )
    matches = {WHOLE_ROWS: _is_copied_whole(tables, rows)[is_candidate]}
    if len(tables.row_parts) > 2:
        name, is_copied = _match_but_for_a_column(tables, rows, is_candidate, settings.seed)
        matches[f"{BUT_FOR}{name}"] = is_copied[is_candidate]
    matches |= {name: scores[name][is_candidate] > 0 for name in ("values", "value-sets") if name in scores}
    if PASSAGE in scores:
        matches["passages"] = scores[PASSAGE][is_candidate] > 0
    names = _name_candidates(tables, candidates)
    every = np.concatenate([tables.rows_of("members"), tables.rows_of("nonmembers")])  # scored or not
    result = SyntheticAudit(
        ids=np.array(names, dtype=object)[np.unique(people, return_index=True)[1]],
        members=person_maxima(is_member, people) > 0,
        is_counted=_find_unique_records(tables, candidates, people),
        order=-person_maxima(-tables.rows[candidates], people).astype(np.int64),  # the smallest code of their rows
        scores={name: person_maxima(score[is_candidate], people) for name, score in scores.items()},
        matches={name: person_maxima(match, people) > 0 for name, match in matches.items()},
        copies=_list_copies(tables, every, _name_candidates(tables, every), tables.rows_of("population")),
        controls=(alike, holdout, fresh),
        risks=measure_risks(tables, rows, member_rows, nonmember_rows, inferred, settings.seed, settings.confidence)
        if tables.columns
        else (),
        released=tables.sizes["released"],
        population=len(reference),
        notes=tables.notes,
        uncompared=tables.uncompared,
        candidates_digest=store.hash_values(
            *(columns.row_digests(tables.frames[name]) for name in ("members", "nonmembers"))
        ),
        settings=settings,
    )
    if out_folder is not None:
        result.save(out_folder, overwrite=overwrite)
    return result


def _choose_attributes(tables: Tables, settings: SyntheticSettings) -> tuple[str, ...]:
    names = tuple(column.name for column in tables.columns)
    if settings.attributes is None:
        return names[:MAX_ATTRIBUTES] if len(names) > 1 else ()
    for name in settings.attributes:
        if name not in names:
            raise InputError(f"attributes: no column {name!r} is compared; these are: {columns.format_names(names)}")
    if settings.attributes and len(names) < 2:
        raise InputError("attributes: a column is inferred from the others, and there are none")
    return settings.attributes


def _choose_candidates(tables: Tables, seed: int) -> tuple[Ints, Bools, Ints]:
    """Return rows of members and non-members, which of them are members', and the number of the record of each."""
    parts, numbers = [], []
    for name in ("members", "nonmembers"):
        rows = tables.rows_of(name)
        people = np.arange(len(rows)) if tables.people is None else tables.people[rows]
        units = np.unique(people)
        is_chosen = np.isin(people, sample_rows(units, MAX_RECORDS, seed, name))
        parts.append(rows[is_chosen])
        numbers.append(np.unique(people[is_chosen], return_inverse=True)[1])
    is_member = np.arange(len(parts[0]) + len(parts[1])) < len(parts[0])
    return np.concatenate(parts), is_member, np.concatenate([numbers[0], numbers[1] + numbers[0].max() + 1])


def _sample_row_per_person(rows: Ints, people: Ints, seed: int) -> Ints:
    """Return a random row of each person."""
    shuffled = seeds.generator(seed, "synthetic", "one row").permutation(len(rows))
    return np.sort(rows[shuffled[np.unique(people[shuffled], return_index=True)[1]]])


def _is_copied_whole(tables: Tables, rows: Rows) -> Bools:
    """Check which rows stand in the release as a whole, and in no row of the population."""
    scored = tables.rows[rows.scored]
    return np.isin(scored, tables.rows[rows.released]) & ~np.isin(scored, tables.rows[rows.reference])


def _match_but_for_a_column(tables: Tables, rows: Rows, is_candidate: Bools, seed: int) -> tuple[str, Bools]:
    """Return a column, and which rows stand in the release but for it, and in no other row of the population.

    A copy of which one column is in another code, spelling, unit or day is found so. It is the column without which
    most more candidates match than rows of the population do. Membership has no part in that choice, so members and
    non-members match alike where the generator saw neither. Rows are equal if the sums of random numbers are, one for
    each value of each column: of a million rows two others collide once in ten million times.
    """
    rng = seeds.generator(seed, "synthetic", "rows but for a column")
    parts = [
        rng.integers(2**64, size=codes.max() + 2, dtype=np.uint64)[codes + 1] for codes in tables.row_parts.values()
    ]
    whole = np.add.reduce(parts)
    best, chosen = -np.inf, ("", np.zeros(len(rows.scored), dtype=bool))
    for name, part in zip(tables.row_parts, parts, strict=True):
        sums = whole - part
        codes = np.unique(sums, return_inverse=True)[1]
        n_equal = count_equal(codes, rows.reference, rows.scored) - ~is_candidate  # a row of the population is its own
        is_copied = np.isin(sums[rows.scored], sums[rows.released]) & (n_equal <= 0)
        n_matches = is_copied[is_candidate].sum()
        chance = (is_copied[~is_candidate].sum() + 0.5) / (~is_candidate).sum()
        expected = chance * is_candidate.sum()
        surprise = np.sign(n_matches - expected) * (special.rel_entr(n_matches, expected) - n_matches + expected)
        if surprise > best:
            best, chosen = surprise, (name, is_copied)
    return chosen


def _find_unique_records(tables: Tables, candidates: Ints, people: Ints) -> Bools:
    """Return which records count: where rows are equal all of them are left out, on whatever side they stand.

    To leave out one side alone would make the sets differ. Of persons, who have several rows, all count.
    """
    is_counted = np.ones(int(people.max()) + 1, dtype=bool)
    if tables.people is None:
        is_counted[people] = count_equal(tables.rows, candidates, candidates) == 1
    return is_counted


def _name_candidates(tables: Tables, candidates: Ints) -> list[str]:
    """Return the person of each row, or its number in its own table."""
    if tables.people is not None:
        return [tables.person_names[number] for number in tables.people[candidates]]
    first = tables.rows_of("members")[0], tables.rows_of("nonmembers")[0]
    return [str(row - (first[1] if row >= first[1] else first[0])) for row in candidates.tolist()]


def _list_copies(tables: Tables, candidates: Ints, names: Sequence[str], reference: Ints) -> tuple[CopiedRow, ...]:
    """List rows of the release that equal a candidate; those that are in no population first."""
    released, nonmembers = tables.rows_of("released"), tables.rows_of("nonmembers")[0]
    in_population = Counter(tables.rows[reference].tolist())
    by_code: dict[int, list[int]] = {}
    for number, code in enumerate(tables.rows[released].tolist()):
        by_code.setdefault(code, []).append(number)
    found = [
        (in_population[code], row >= nonmembers, number, name, row)
        for row, code, name in zip(candidates.tolist(), tables.rows[candidates].tolist(), names, strict=True)
        for number in by_code.get(code, ())
    ]
    return tuple(
        CopiedRow(
            number, "nonmembers" if is_outside else "members", name, count, _describe_released_row(tables, number)
        )
        for count, is_outside, number, name, _ in sorted(found)[:MAX_LISTED]
    )


def _describe_released_row(tables: Tables, number: int) -> str:
    return columns.describe_row(tables.frames["released"], number).replace("\n", ", ")
