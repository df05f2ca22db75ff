"""Fair splits of tables full of duplicates, and honest models on shifted sets: neither is called what it is not."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import divulge as dv
from divulge.auditing.inputs import separate_sets
from divulge.duplicates import fold_groups, groups_are_split_whole, keep_together, match_records, number_groups
from divulge.evaluation import blind
from score_audits import scored


def table(rng, distinct, columns=4):
    """Records of which a third have 2 to 5 copies."""
    rows = np.repeat(np.arange(distinct), np.where(rng.random(distinct) < 0.33, rng.integers(2, 6, distinct), 1))
    x = rng.normal(size=(distinct, columns))[rows]
    return x, (x[:, 0] > 0).astype(int)


def split(rng, x, y, sizes):
    rows = np.split(rng.permutation(len(x)), np.cumsum(sizes))[: len(sizes)]
    names = ("members", "nonmembers", "population")
    return {name: dv.Records(x[indices], y[indices]) for name, indices in zip(names, rows, strict=True)}


def spell(x, digits):
    return np.array([[float(f"{value:{digits}}") for value in row] for row in x])


PRECISIONS = {
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "bfloat16": lambda x: (x.astype(np.float32).view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32),
    "float32 as text": lambda x: x.astype(np.float32).astype(str).astype(float),
    "half to even": lambda x: np.round(x, 3),
    "half away from zero": lambda x: np.sign(x) * np.floor(np.abs(x) * 1e3 + 0.5) / 1e3,
    "toward zero": lambda x: np.trunc(x * 1e3) / 1e3,
    "%.3f": lambda x: spell(x, ".3f"),
    "%.4g": lambda x: spell(x, ".4g"),
    "%.3f of float32": lambda x: spell(x.astype(np.float32), ".3f"),
    "one column": lambda x: np.column_stack([x[:, 0].astype(np.float32), x[:, 1:]]),
}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_copy_in_another_precision_is_a_copy(precision):
    base, coarse = [("bits", "members"), ("5 decimals", "nonmembers")][list(PRECISIONS).index(precision) % 2]
    x = np.random.default_rng(0).normal(size=(600, 5))
    x = x if base == "bits" else x.round(5)
    rows = {"members": x[:200], "nonmembers": np.concatenate([x[200:400], x[:3]]), "population": x[400:]}
    rows[coarse] = PRECISIONS[precision](rows[coarse])
    sets = {name: dv.Records(values, np.arange(len(values)) % 2) for name, values in rows.items()}
    with pytest.raises(dv.InputError, match="3 non-members are"):
        separate_sets(sets, "error")
    separated = separate_sets(sets, "drop")
    assert (len(separated.members), len(separated.nonmembers), len(separated.population)) == (197, 200, 200)
    assert separate_sets(sets, "keep").copied == 3
    assert len(blind.duplicates(rows["members"], rows["nonmembers"])) == 3


def test_columns_of_a_table_are_compared_each_in_its_own_precision():
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01T00:00:00", "ms") + rng.integers(0, 10**11, 300)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=300),
            "b": rng.normal(size=300),
            "age": rng.uniform(18, 90, 300),
            "day": days,
            "sex": ["f", "m"] * 150,
        }
    )
    copies = frame[:20].assign(
        a=frame.a.astype("float32"),
        b=frame.b.round(4),
        age=frame.age.astype(int),
        day=frame.day.dt.floor("s"),
        sex=frame.sex.astype("category"),
    )
    sets = {
        "members": dv.Records(frame[:150]),
        "nonmembers": dv.Records(copies),
        "population": dv.Records(frame[150:]),
    }
    assert separate_sets(sets, "keep").duplicates == 20


DRAWS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "zeros": lambda rng, n, d: rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.3),
    "clusters": lambda rng, n, d: rng.integers(0, 9, (n, 1)) + 0.02 * rng.normal(size=(n, d)),
    "mixed": lambda rng, n, d: np.column_stack([rng.normal(size=n), rng.integers(0, 3, (n, d - 1))]),
}


@pytest.mark.parametrize("family", DRAWS)
@pytest.mark.parametrize(("decimals", "columns"), [(0, 2), (1, 2), (1, 4), (2, 4)])
def test_independent_records_that_rounding_makes_equal_are_no_copies(family, decimals, columns):
    """6 pairs of sets in each of 16 cells: none is refused but by chance, once in more than 10,000 each."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, z = DRAWS[family](rng, 300, columns), DRAWS[family](rng, 200, columns)
        sets = {"members": dv.Records(x.round(decimals)), "nonmembers": dv.Records(z)}
        matches = match_records(sets if seed % 2 else dict(reversed(sets.items())))
        assert not matches.are_rounded
        equal = np.isin(matches.groups[0], matches.groups[1])
        exact = {*map(bytes, x.round(decimals) + 0)} & {*map(bytes, z + 0)}
        assert bool(equal.any()) == bool(exact)


def test_fair_splits_with_duplicates_are_seldom_called_confounded():
    """40 splits at 5 %, every other one with its copies kept: fails by chance in .1 % of seeds."""
    alarms = refused = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        policy, sizes = [("drop", (100, 100, 100)), ("keep", (120, 50, 50))][seed % 2]
        try:
            sets = separate_sets(split(rng, *table(rng, 240), sizes), policy)
        except dv.InputError:  # kept copies in the population happen to be those of one side
            assert policy == "keep"
            refused += 1
            continue
        members, nonmembers = sets.members, sets.nonmembers
        blind_baseline = blind.baseline(
            members.x,
            nonmembers.x,
            seed,
            y_members=members.y,
            y_nonmembers=nonmembers.y,
            false_alarm=0.05,
            permutations=19,
        )
        alarms += blind_baseline.confounded
    assert alarms <= binom.isf(0.001, 40, 0.05)
    assert refused <= binom.isf(0.001, 20, 0.05)


def test_groups_that_keep_together_are_one_observation_each():
    """Whole groups of 1 to 8 are dealt out; as single records, too many of these fair splits would be called a leak."""
    alarms = leaks = naive = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(120, 3))
        rows = np.repeat(np.arange(120), rng.integers(1, 9, 120))
        inside = (rng.permutation(120) < 60)[rows]
        alarms += blind.baseline(x[rows][inside], x[rows][~inside], seed, false_alarm=0.05, permutations=19).confounded
        sets = {"members": dv.Records(x[rows][inside]), "nonmembers": dv.Records(x[rows][~inside])}
        separated = separate_sets(sets | {"population": dv.Records(rng.normal(size=(50, 3)))}, "error")
        assert separated.groups is not None
        assert "equal records count once" in separated.notes[0]
        values = np.concatenate([x[rows][inside], x[rows][~inside]])
        audit = scored({"r": values[:, 0]}, np.arange(len(values)) < inside.sum())
        naive += audit.verdict.answer == "leak found"
        object.__setattr__(audit, "duplicate_groups", separated.groups)
        assert int(audit["r"].distinct.members.sum()) + int((~audit["r"].distinct.members).sum()) == 120
        leaks += audit.verdict.answer == "leak found"
    assert max(alarms, leaks) <= binom.isf(0.001, 25, 0.05) < naive


def test_the_level_holds_where_all_records_join_a_kernel_of_few():
    """30 fair splits of 240 with a kernel of 60; 5 % nominal."""
    alarms = 0
    for seed in range(30):
        x = np.exp(np.random.default_rng(seed).normal(size=(240, 3)))
        alarms += blind.baseline(x[:100], x[100:], seed, false_alarm=0.05, permutations=19, max_records=60).confounded
    assert alarms <= binom.isf(0.001, 30, 0.05)


def test_what_a_shift_does_to_an_honest_score_is_no_leak():
    """A tenth of a standard deviation at 3,000 a side, where the blind baseline may or may not see it; the score reads
    the shifted column, a leak moves the score itself. 10 of each: without the adjustment most honest ones are leaks."""
    leaks, naive, adjusted_leaks, plain = 0, 0, 0, 0
    members = np.arange(6000) < 3000
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(6000, 10))
        true = np.tanh(x[:, 0]) + x[:, 1] * x[:, 2] / 3 + 0.1 * members
        x[members, 0] += 0.1
        scores = {"honest": np.tanh(x[:, 0]) + x[:, 1] * x[:, 2] / 3, "leak": true}
        adjusted = blind.adjust_scores(scores, x, None, seed)
        for name in scores:
            audit = scored({name: scores[name]}, members)
            raw = audit.verdict.answer == "leak found"
            object.__setattr__(audit, "unexplained_scores", {name: adjusted[name]})
            now = audit.verdict.answer == "leak found"
            if name == "honest":
                naive, leaks = naive + raw, leaks + now
            else:
                plain, adjusted_leaks = plain + raw, adjusted_leaks + now
    assert naive > 5
    assert leaks <= binom.isf(0.001, 10, 0.05)
    assert adjusted_leaks >= plain - 2


def test_a_shift_that_two_thousand_records_do_not_show_is_seen_in_all():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(12_000, 10)), rng.normal(size=(12_000, 10))
    x[:, 0] += 0.08
    blind_baseline = blind.baseline(x, z, 0, max_records=500)
    assert blind_baseline.confounded
    assert blind_baseline.records == 24_000
    assert 0.5 < blind_baseline.detectable < 0.54


@pytest.mark.parametrize("seed", range(2))
def test_folds_and_draws_keep_equal_records_together(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (60, 2)).astype(float)
    groups = number_groups(x)
    for fold in (fold_groups(groups, 5, rng), keep_together(rng.permutation(60) % 5, x)):
        assert all(len(set(fold[groups == group])) == 1 for group in groups)
    assert sorted(np.bincount(fold_groups(np.arange(60), 5, rng))) == [12] * 5
    splits = dv.references.splits.online(60, 6, seed, groups=groups).trained_on
    assert (splits.sum(0) == 3).all()
    assert all(
        (splits[:, groups == group] == splits[:, [np.flatnonzero(groups == group)[0]]]).all() for group in groups
    )


def test_records_that_were_dealt_out_are_told_from_groups_that_were():
    """3 standard deviations: of 200 random deals at most a few are taken for whole groups."""
    wrong = missed = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(80), rng.integers(1, 5, 80))
        wrong += groups_are_split_whole(groups, rng.permutation(len(groups)) < len(groups) / 3)
        missed += not groups_are_split_whole(groups, (rng.random(80) < 1 / 3)[groups])
    assert wrong <= 4
    assert not missed


def naive_split_whole(groups, side):
    """Undivided groups of two or more, against all ways to draw as many records of each set without replacement."""
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    repeated = [rows for rows in members if len(rows) > 1]
    totals = [int((side == group).sum()) for group in np.unique(side)]
    if not repeated or len(totals) < 2:
        return False
    chances = [sum(math.comb(t, len(rows)) for t in totals) / math.comb(len(side), len(rows)) for rows in repeated]
    undivided = sum(len(set(side[rows].tolist())) == 1 for rows in repeated)
    if undivided == len(repeated):
        return math.prod(chances) < 0.05
    return undivided > sum(chances) + 3 * math.sqrt(sum(chance * (1 - chance) for chance in chances))


@pytest.mark.parametrize("n_sides", [1, 2, 3])
def test_whether_groups_were_divided_is_what_counting_all_draws_says(n_sides):
    rng = np.random.default_rng(n_sides)
    answers = []
    for _ in range(100):
        sizes = rng.integers(1, 6, rng.integers(1, 25))
        groups = np.repeat(np.arange(len(sizes)), sizes)
        undivided_sides = np.repeat(rng.integers(0, n_sides, len(sizes)), sizes)
        side = np.where(
            rng.random(len(groups)) < rng.choice([0, 0.1, 0.3, 1]),
            rng.integers(0, n_sides, len(groups)),
            undivided_sides,
        )
        answers.append(groups_are_split_whole(groups, side))
        assert answers[-1] == naive_split_whole(groups, side)
    assert any(answers) == (n_sides > 1)
    assert not all(answers)


def test_drop_takes_out_whole_groups_and_says_how_many():
    x = np.array([0.0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9])[:, None]
    sets = {"members": dv.Records(x[1:5]), "nonmembers": dv.Records(x[[0, 5, 6]]), "population": dv.Records(x[7:])}
    separated = separate_sets(sets, "drop")
    assert separated.members.x.ravel().tolist() == [1.0]
    assert separated.nonmembers.x.ravel().tolist() == [3.0, 4.0]
    assert (
        "all copies were dropped from every set, and 2 records with copies in their own set alone" in separated.notes[0]
    )


def test_one_shared_record_does_not_put_groups_on_both_sides_of_the_calibration():
    """Groups of ten were dealt out whole; one record that two sets share does not make their copies single ones."""
    rng = np.random.default_rng(0)
    training_sets = []

    def records(groups, *more):
        x = np.concatenate([np.repeat(rng.normal(size=(groups, 2)), 10, axis=0), *more])
        return dv.Records(x, (x[:, 0] > 0).astype(int))

    class Honest:
        """A model that knows nothing."""

        def logits(self, records):
            return np.column_stack([records.x[:, 0], -records.x[:, 0]])

    def train(training_records, seed):
        training_sets.append(training_records)
        return Honest()

    shared_record = rng.normal(size=(1, 2))
    members, nonmembers, population = records(20, shared_record), records(20, shared_record), records(40)
    audit = dv.audit(
        Honest(), members=members, nonmembers=nonmembers, population=population, duplicates="keep",
        fpr=(0.2,), recipes=["lira"], references=dv.references.Custom(train, count=2),
    )  # fmt: skip
    learned = {row.tobytes() for training_records in training_sets for row in training_records.x}
    held_out = {row.tobytes() for row in population.x} - learned
    assert audit.duplicate_groups is not None
    assert len(audit["lira"].calibration) == len(held_out) < 40


def test_confounded_says_what_differs_and_what_to_do():
    rng = np.random.default_rng(0)

    def records(n, shift=0.0):
        x = rng.normal(size=(n, 3))
        x[:, 1] += shift
        return dv.Records(x, rng.integers(0, 2, n))

    audit = dv.audit(
        lambda x: x[:, :2], members=records(150, 1.0), nonmembers=records(150), population=records(60), recipes=["loss"]
    )
    assert audit.verdict.answer == "split is confounded"
    assert "column 1 (counted from 0) is larger among the members" in audit.verdict.text
    assert "name the columns in which they differ as covariates" in audit.verdict.text
