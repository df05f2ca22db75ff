"""Stored records where members differ from non-members: they are found, and rows of others are not taken for theirs.

A model that holds rows of other people, drawn as the members were, holds rows that are equal to members' by chance, and
more of them than of non-members that are drawn otherwise. Nothing of that proves that a member is stored.
"""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import divulge as dv
from divulge.inspection import find_stored_records
from divulge.results import BlindBaseline, StoredRecords

RUNS, BOUND = 24, 0.2


def numbers(n, shift, rng):
    return rng.normal(size=(n, 3)) + shift


def tied(n, shift, rng):
    return np.round(2 * rng.normal(size=(n, 3)) + 2 * shift)


def bits(n, shift, rng):
    return (rng.random((n, 10)) < 0.3 + 0.4 * shift).astype(float)


def ages(n, shift, rng):
    return np.column_stack([rng.integers(18 + 20 * shift, 60 + 20 * shift, n), rng.integers(0, 2, (n, 2))])


def sites(n, shift, rng):
    """A column that says on which side a record is, and little else."""
    return np.column_stack([np.round(rng.normal(size=(n, 2))), np.full(n, shift)])


TABLES = [numbers, tied, bits, ages, sites]


def search(table, stored_of, n, seed, bound=BOUND):
    rng = np.random.default_rng(seed)
    members, nonmembers, other_rows = table(n, 0, rng), table(n, 1, rng), table(n, 0, rng)
    stored = stored_of(members, other_rows, rng)
    records, is_member = dv.Records(np.r_[members, nonmembers]), np.arange(2 * n) < n
    return find_stored_records({"a": stored}, records, is_member, bound=bound, comparable=False)


@pytest.mark.parametrize(("table", "n"), [(numbers, 20), (tied, 60), (bits, 20), (bits, 60), (ages, 20), (sites, 60)])
def test_rows_of_others_are_not_said_to_be_members(table, n):
    """At a bound of 0.2, more than 0.2 * 24 + 4 standard deviations happen with less than 1 in 10,000."""
    false_matches = sum(search(table, lambda members, others, rng: others, n, seed).found > 0 for seed in range(RUNS))
    assert false_matches <= RUNS * BOUND + 4 * (RUNS * BOUND * (1 - BOUND)) ** 0.5


def postcodes(n, shift, rng):
    """Columns that follow from the first, as a region follows from a place: who shares the one shares all."""
    code = rng.integers(0, 2000, n) + 1500 * shift
    return np.column_stack([code, code // 10, code // 100]).astype(float)


def test_a_column_that_only_the_model_has_does_not_hide_that_rows_repeat():
    def numbered(members, other_rows, rng):
        return np.column_stack([other_rows, np.arange(len(other_rows)) + 0.5])

    assert [search(postcodes, numbered, 400, seed, bound=0.05).found for seed in range(3)] == [0, 0, 0]
    own_matches = search(
        numbers, lambda members, other_rows, rng: numbered(other_rows, members, rng), 60, 0, bound=0.05
    )
    assert own_matches.found == 60


@pytest.mark.parametrize(("table", "n_stored"), [(tied, 40), (bits, 120), (ages, 40)])
def test_rows_of_others_are_not_said_to_be_members_that_are_left_without_repeats(table, n_stored):
    """Dropped copies take every record that repeats with them; at most 2.4 of 12 are expected at a bound of 0.2."""
    n, false_matches = 120, 0
    for seed in range(RUNS // 2):
        rng = np.random.default_rng(seed)
        x, other_rows = np.r_[table(n, 0, rng), table(n, 1, rng)], table(n_stored, 0, rng)
        _, row_groups, sizes = np.unique(x, axis=0, return_inverse=True, return_counts=True)
        once = sizes[row_groups.ravel()] == 1
        is_member = (np.arange(2 * n) < n)[once]
        matches = find_stored_records(
            {"a": other_rows}, dv.Records(x[once]), is_member, bound=BOUND, comparable=False, repeats_kept=False
        )
        false_matches += matches.found > 0
    assert false_matches <= RUNS // 2 * BOUND + 4 * (RUNS // 2 * BOUND * (1 - BOUND)) ** 0.5


def test_with_repeats_assumed_they_would_be():
    false_matches = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        members, nonmembers, other_rows = tied(120, 0, rng), tied(120, 1, rng), tied(120, 0, rng)
        x = np.r_[members, nonmembers]
        _, row_groups, sizes = np.unique(x, axis=0, return_inverse=True, return_counts=True)
        once = sizes[row_groups.ravel()] == 1
        is_member = (np.arange(240) < 120)[once]
        matches = find_stored_records({"a": other_rows}, dv.Records(x[once]), is_member, bound=0.05, comparable=False)
        false_matches += matches.found > 0
    assert false_matches > 2


def test_stored_members_without_repeats_are_found():
    rng = np.random.default_rng(0)
    x = np.r_[numbers(60, 0, rng), numbers(60, 1, rng)]
    records, is_member = dv.Records(x), np.arange(120) < 60
    assert find_stored_records({"a": x[:60]}, records, is_member, comparable=False, repeats_kept=False).found == 60


@pytest.mark.parametrize("on_members", [False, True])
def test_attribute_inference_does_not_take_rows_of_others_for_members(on_members):
    rng = np.random.default_rng(0)
    members, nonmembers, other_rows, population = (bits(120, shift, rng) for shift in (0, 1, 0, 0.5))
    sets = [dv.Records(x, rng.integers(0, 2, 120)) for x in (members, nonmembers, other_rows, population)]
    model = KNeighborsClassifier(3).fit(sets[0 if on_members else 2].x, sets[0 if on_members else 2].y)
    result = dv.attributes.infer(
        model, column=0, members=sets[0], nonmembers=sets[1], population=sets[3], duplicates="drop"
    )
    assert (result.finding.answer == "leak found") == on_members, result.verdict


def test_without_this_control_they_would_be():
    """What the test above guards against: non-members that are drawn otherwise are no control."""
    rng = np.random.default_rng(0)
    members, nonmembers, other_rows = bits(200, 0, rng), bits(200, 1, rng), bits(200, 0, rng)
    records, is_member = dv.Records(np.r_[members, nonmembers]), np.arange(400) < 200
    assert find_stored_records({"a": other_rows}, records, is_member).found > 50
    unproven = find_stored_records({"a": other_rows}, records, is_member, comparable=False)
    assert unproven.found == 0
    assert unproven.suspected > 50
    assert "it may be another's" in unproven.sentence


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("table", [numbers, tied, bits, ages])
def test_stored_members_are_found_though_the_sets_differ(table, n):
    def half(members, other_rows, rng):
        return members[: n // 2]

    def with_repeats(members, other_rows, rng):
        return members[rng.integers(0, n, n)]  # as a bag of neighbours holds them

    for seed in range(3):
        for stored_of in (lambda members, other_rows, rng: members, half, *([with_repeats] if n > 20 else [])):
            matches = search(table, stored_of, n, seed, bound=0.05)
            assert matches.found >= n // 2, (table, stored_of)


def audited(table, model, *, on_members):
    """Audit a model of the members, or of others that were drawn as they were, beside non-members that differ."""
    rng = np.random.default_rng(11)
    parts = [table(80, shift, rng) for shift in (0, 1, 0, 1)]
    parts[3] = parts[3] + 0.25  # a population in which no candidate stands
    labels = [(part[:, 0] + rng.normal(size=80) > np.median(part[:, 0])).astype(int) for part in parts]
    sets = [dv.Records(x, y) for x, y in zip(parts, labels, strict=True)]
    trained_on = sets[0] if on_members else sets[2]
    model.fit(trained_on.x, trained_on.y)
    members, nonmembers, _, population = sets
    names = {"members": members, "nonmembers": nonmembers, "population": population}
    return dv.audit(model, **names, recipes=["loss"], fpr=[0.1], duplicates="keep")


@pytest.mark.parametrize("model", [KNeighborsClassifier(3), SVC()])
def test_a_stored_record_outranks_a_confounded_split(model):
    result = audited(numbers, model, on_members=True)
    assert result.about.measured(BlindBaseline).confounded
    assert result.verdict.answer == "leak found"
    assert result.about.measured(StoredRecords).found == len(getattr(model, "support_", range(80)))
    assert result.about.measured(StoredRecords).nonmembers_found == 0
    scaled = audited(
        lambda n, shift, rng: StandardScaler().fit_transform(numbers(n, 0, rng)) + shift, model, on_members=True
    )
    assert scaled.verdict.answer == "leak found"


@pytest.mark.parametrize(
    ("table", "model"),
    [(numbers, KNeighborsClassifier(3)), (tied, SVC()), (bits, RandomForestClassifier(10, random_state=0))],
)
def test_a_confounded_split_stays_one_where_none_of_the_members_is_stored(model, table):
    result = audited(table, model, on_members=False)
    assert result.about.measured(BlindBaseline).confounded
    assert result.verdict.answer == "split is confounded"
