"""Released tables: what is copied is found and listed, innocent releases are not accused, odd tables are answered."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import divulge as dv
import synthetic_generators as generators
from divulge.report import html
from divulge.synthetic import SYNTHETIC
from divulge.viewing import Shelf, application

QUIET = {"attributes": ()}


def patients(n, seed):
    """Patients as a hospital has them: numbers of several precisions, categories, a date, missing values."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, n)
    weight = (60 + age / 5 + rng.normal(0, 12, n)).round(1)
    weight[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "weight": weight,
            "marker": rng.gamma(2.0, age / 40).round(3),
            "ward": rng.choice(["north", "south", "east"], n),
            "smoker": rng.random(n) < 0.3,
            "admitted": [
                (dt.date(2020, 1, 1) + dt.timedelta(days=int(day))).isoformat() for day in rng.integers(0, 900, n)
            ],
            "hospital": "St. Mary",
        }
    )


def hospital(seed=0, n=150):
    sets = {"members": n, "nonmembers": n, "population": 2 * n}
    return {name: patients(size, 10 * seed + number) for number, (name, size) in enumerate(sets.items())}


def proof(result, name):
    return next(each for each in result.proofs if each.name == name)


def control(result, words):
    return next(each for each in result.controls if words in each.name)


class TestLeaks:
    def test_trees_copy_no_row_and_are_proven_to_copy_values(self):
        sets = hospital(n=200)
        result = dv.synthetic.audit(generators.trees(sets["members"], 200, 0), **sets, **QUIET)
        assert result.verdict.answer == "leak found"
        assert proof(result, "values").proven
        assert not proof(result, "whole rows").proven
        assert result["auto"].auc.low > 0.6

    def test_noise_on_copied_rows_is_found_without_any_copied_value(self):
        sets = hospital(1)
        released = generators.copy_with_noise(sets["members"], 150, 0, 0.1)
        result = dv.synthetic.audit(released, **sets, **QUIET)
        assert result["auto"].auc.value > 0.74
        assert result.verdict.answer == "leak found"

    @pytest.mark.parametrize("store", [lambda t: t.round({"marker": 1}), lambda t: t.astype({"marker": np.float32})])
    def test_copies_do_not_hide_behind_the_precision_of_the_release(self, store):
        sets = hospital(2, n=80)
        released = pd.concat([sets["members"].iloc[:60], patients(20, 99)])
        result = dv.synthetic.audit(store(released), **sets, **QUIET)
        assert result.copied[0] == 60
        assert proof(result, "whole rows").proven

    def test_notes_that_are_copied_in_part_are_found(self):
        rng = np.random.default_rng(0)
        words = np.array([f"word{i}" for i in range(400)])
        notes = [" ".join(rng.choice(words, 30)) for _ in range(600)]
        members, nonmembers, population = notes[:150], notes[150:300], notes[300:]
        released = [" ".join([*one.split()[:15], *rng.choice(words, 15)]) for one in members]
        result = dv.synthetic.audit(released, members=members, nonmembers=nonmembers, population=population)
        assert proof(result, "passages").proven
        assert result["3-grams"].auc.value > 0.9

    def test_a_column_of_notes_is_read_beside_the_table(self):
        sets = hospital(4, n=120)
        rng = np.random.default_rng(0)
        for table in sets.values():
            table["note"] = [" ".join(rng.choice(list("abcdefghijklmnop"), 12)) for _ in range(len(table))]
        released = patients(120, 97).assign(note=sets["members"]["note"])
        result = dv.synthetic.audit(released, **sets, text="note", **QUIET)
        assert {"5-grams", "nearest-text", "values"} <= {*result}
        assert proof(result, "passages").proven
        unread = dv.synthetic.audit(released, **sets, **QUIET)
        (note,) = [note for note in unread.notes if "looks like text" in note]
        assert "text='note'" in note


class TestInnocentReleases:
    def test_a_release_of_other_rows_is_cleared(self):
        sets = hospital(5, n=500)
        result = dv.synthetic.audit(patients(500, 96), **sets, **QUIET)
        assert result.verdict.answer == "no leak found"
        assert not result.selection(fdr=0.1).count

    def test_a_private_chain_is_not_accused(self):
        sets = hospital(6, n=200)
        released = generators.chain(
            sets["members"], 200, 0, epsilon=1.0, edges=generators.make_edges(sets["population"])
        )
        result = dv.synthetic.audit(released, **sets, at_random=True, **QUIET)
        assert result.verdict.answer != "leak found"
        assert result.epsilon.low <= 1

    def test_persons_are_counted_and_not_their_rows(self):
        """Two accusations of three have probability below 1e-2, if each has 2.5 %."""
        rng, answers = np.random.default_rng(0), []
        for draw in range(3):
            sets = {name: person_rows(rng, name, n) for name, n in
                    (("members", 100), ("nonmembers", 100), ("population", 100))}  # fmt: skip
            released = generators.trees(person_rows(rng, "others", 100).drop(columns="who"), 200, draw)
            result = dv.synthetic.audit(released, **sets, person="who", seed=draw, **QUIET)
            assert result.counts == (100, 100)
            answers.append(result.verdict.answer)
        assert answers.count("leak found") <= 1

    def test_equal_rows_of_different_persons_are_no_overlap(self):
        rng, sets = np.random.default_rng(0), {}
        for name, n in (("members", 60), ("nonmembers", 60), ("population", 120)):
            table = pd.DataFrame({"stage": rng.integers(0, 4, n), "ward": rng.choice(list("xyz"), n)})
            sets[name] = table.loc[np.repeat(table.index, 3)].assign(
                who=np.repeat([f"{name} {i}" for i in range(n)], 3)
            )
        released = sets["population"].drop(columns="who").sample(90, random_state=0)
        result = dv.synthetic.audit(released, **sets, person="who", **QUIET)
        assert result.counts == (60, 60)

    def test_persons_who_share_many_rows_are_no_overlap(self):
        """Patients of 15 kinds have visits of their kind; most draws are refused where visits are dealt alone."""
        for draw in range(2):
            rng, sets = np.random.default_rng(draw), {}
            for name, n in (("members", 25), ("nonmembers", 25), ("population", 50)):
                who = np.repeat(np.arange(n), 20)
                kinds = rng.integers(0, 15, n)[who]
                codes, flags = rng.integers(0, 10, len(who)), rng.integers(0, 2, len(who))
                sets[name] = pd.DataFrame({"who": who, "unit": kinds, "code": codes, "flag": flags})
                sets[name]["who"] = [f"{name} {i}" for i in who]
            released = sets["population"].drop(columns="who").sample(40, random_state=0)
            assert dv.synthetic.audit(released, **sets, person="who", **QUIET).counts == (25, 25)

    def test_numbers_of_patients_that_a_release_writes_anew_hold_up_nothing(self):
        sets, rng = hospital(6, n=80), np.random.default_rng(0)
        for table in sets.values():
            table["mrn"] = rng.integers(10**6, 10**7, len(table))
        result = dv.synthetic.audit(patients(80, 95).assign(mrn=range(1, 81)), **sets, **QUIET)
        assert not result.uncompared
        assert any("'mrn'" in note for note in result.notes)

    def test_digits_that_members_alone_share_with_the_release_are_no_leak(self):
        sets = hospital(17)
        for name in ("nonmembers", "population"):
            sets[name] = sets[name].round({"marker": 1, "weight": 0})
        result = dv.synthetic.audit(generators.trees(patients(150, 90), 150, 0), **sets, **QUIET)
        assert result.verdict.answer != "leak found"
        assert any("marker" in note and "rounded" in note for note in result.notes)

    def test_of_a_split_that_differs_nothing_is_judged_and_no_limit_kept(self):
        sets = hospital(7)
        sets["nonmembers"]["age"] += 25
        result = dv.synthetic.audit(generators.trees(sets["members"], 150, 0), **sets, **QUIET)
        assert result.verdict.answer == "cannot judge"
        assert result.selection(fdr=0.2).guarantee.standing == "void"
        assert dv.gate(result, ["auc:0.99", "share:0.99"]).state == "undecided"

    def test_a_generator_that_saw_the_holdout_gives_no_all_clear(self):
        sets = hospital(8, n=200)
        both = pd.concat([sets["members"], sets["nonmembers"]], ignore_index=True)
        result = dv.synthetic.audit(generators.trees(both, 400, 0), **sets, **QUIET)
        assert control(result, "saw the non-members").state == "fails"
        assert result.verdict.answer == "cannot judge"

    def test_a_release_that_overlaps_the_population_is_noted(self):
        sets = hospital(9, n=200)
        result = dv.synthetic.audit(generators.copy_with_noise(sets["population"], 400, 0), **sets, **QUIET)
        assert control(result, "saw the population").state == "fails"
        assert result.verdict.answer != "leak found"


class TestInferredColumns:
    def infer(self, released, sets, name):
        risks = dv.synthetic.audit(released, **sets, attributes=[name]).risks
        return next(each for each in risks if each.name == f"inference of {name}")

    def test_values_too_many_to_guess_are_not_guessed_right(self):
        def noise(n, seed):
            rng = np.random.default_rng(seed)
            return pd.DataFrame({"a": rng.normal(size=n).round(3), "postcode": rng.integers(0, 2_000, n).astype(str)})

        sets = {name: noise(size, size + 1) for name, size in (("members", 150), ("nonmembers", 151),
                                                               ("population", 400))}  # fmt: skip
        risk = self.infer(noise(152, 5), sets, "postcode")
        assert max(risk.members.value, risk.nonmembers.value) < 0.05

    def test_a_rare_value_that_the_release_gives_away_counts(self):
        sets = hospital(18, n=120)
        for seed, table in enumerate(sets.values()):
            table["postcode"] = np.random.default_rng(seed).integers(0, 2_000, len(table)).astype(str)
        risk = self.infer(generators.copy_with_noise(sets["members"], 120, 0, 0.01), sets, "postcode")
        assert risk.members.value > 0.3
        assert risk.difference.low > 0.1
        assert risk.gain.low > 0.1

    def test_a_rare_value_that_the_population_gives_away_is_no_gain_of_the_release(self):
        def towns(n, seed):
            town = np.random.default_rng(seed).integers(0, 60, n)
            return pd.DataFrame({"town": [f"t{i}" for i in town], "postcode": [f"p{i}" for i in town],
                                 "a": np.random.default_rng(seed).normal(size=n)})  # fmt: skip

        sets = {name: towns(size, size) for name, size in (("members", 150), ("nonmembers", 151), ("population", 900))}
        risk = self.infer(towns(900, 7), sets, "postcode")
        assert risk.members.value > 0.9
        assert risk.gain.low <= 0 <= risk.gain.high


def person_rows(rng, name, n, rows=5):
    centre = np.repeat(rng.normal(size=(n, 3)), rows, axis=0)
    table = pd.DataFrame((centre + 0.02 * rng.normal(size=centre.shape)).round(3), columns=["a", "b", "c"])
    return table.assign(who=np.repeat([f"{name} {i}" for i in range(n)], rows))


class TestGuarantees:
    def test_false_verdicts_are_rare(self):
        """Of 8 releases of other rows more than 2 are accused with probability below 1e-3, if each is with 2.5 %."""
        answers = []
        for draw in range(8):
            rng = np.random.default_rng(draw)
            tables = [
                pd.DataFrame(rng.normal(size=(n, 3)).round(2), columns=["a", "b", "c"]) for n in (110, 110, 110, 110)
            ]
            members, nonmembers, population, others = tables
            result = dv.synthetic.audit(
                generators.trees(others, 110, draw), members=members, nonmembers=nonmembers, population=population,
                duplicates="drop", seed=draw, **QUIET,
            )  # fmt: skip
            answers.append(result.verdict.answer)
        assert answers.count("leak found") <= 2

    def test_rows_that_agree_but_for_a_column_by_chance_prove_nothing(self):
        """Of 12 draws one is proven with probability below 3e-3, and 3 are held up with probability below 3e-4."""
        proofs = []
        for draw in range(12):
            rng = np.random.default_rng(draw)
            released, members, nonmembers, population = (
                pd.DataFrame(rng.integers(0, [40, 60, 3, 2], (n, 4)), columns=list("abcd")) for n in (60, 60, 60, 120)
            )
            result = dv.synthetic.audit(
                released, members=members, nonmembers=nonmembers, population=population, duplicates="drop", **QUIET
            )
            proofs += [each for each in result.proofs if each.name.startswith("rows but for ")]
        assert len(proofs) == 12
        assert sum(each.members + each.nonmembers for each in proofs) > 12, "nothing agrees: the tables show nothing"
        assert not any(each.proven for each in proofs)
        assert sum(each.p_value <= 0.01 for each in proofs) <= 2

    def test_the_list_keeps_its_bound_on_false_discoveries(self):
        """The mean of three shares, each bounded in expectation by .1, exceeds .3 with probability below 1e-2."""
        shares = []
        for draw in range(3):
            sets = hospital(20 + draw, n=200)
            result = dv.synthetic.audit(
                generators.trees(sets["members"], 200, draw, leaf=1), **sets, seed=draw, **QUIET
            )
            selected = result.selection(fdr=0.1).selected
            shares.append((selected & ~result.members).sum() / max(1, selected.sum()))
            assert selected[result.members].mean() > 0.2
        assert np.mean(shares) < 0.3


class TestTablesAsPeopleHaveThem:
    def test_files_of_any_form_and_numbered_rows_give_the_same_scores_and_fewer_columns_are_compared(self, tmp_path):
        sets = hospital(10, n=100)
        released = generators.trees(sets["members"], 100, 0)
        expected = dv.synthetic.audit(released, **sets, **QUIET)
        files = {}
        for name, table in {"released": released, **sets}.items():
            files[name] = tmp_path / f"{name}.{'parquet' if name == 'members' else 'csv'}"
            frame = pl.from_pandas(table)[:, ::-1]
            frame.write_parquet(files[name]) if name == "members" else frame.write_csv(files[name])
        result = dv.synthetic.audit(files.pop("released"), **files, **QUIET)
        assert proof(result, "values") == proof(expected, "values")
        assert result["nearest"].auc.value == pytest.approx(expected["nearest"].auc.value)

        numbered = {name: table.assign(patient_id=np.arange(len(table))) for name, table in sets.items()}
        result = dv.synthetic.audit(released.assign(patient_id=np.arange(100)), **numbered, **QUIET)
        assert proof(result, "values") == proof(expected, "values")
        assert any("patient_id" in note for note in result.notes)

        result = dv.synthetic.audit(released[["marker", "weight", "admitted"]], **sets, **QUIET)
        assert any("lacks" in note and "ward" in note for note in result.notes)
        assert proof(result, "values").members > proof(result, "values").nonmembers

    def test_several_releases_of_one_table_are_tested_together(self):
        sets = hospital(13, n=80)
        releases = [generators.trees(sets["members"], 80, seed) for seed in range(4)]
        together = dv.synthetic.audit(releases, **sets, **QUIET)
        alone = dv.synthetic.audit(releases[0], **sets, **QUIET)
        assert together.released == 320
        assert proof(together, "values").members > proof(alone, "values").members

    def test_equal_rows_are_left_out_on_both_sides(self):
        sets = hospital(14, n=60)
        sets["members"] = pd.concat([sets["members"], sets["members"].iloc[:5]], ignore_index=True)
        sets["nonmembers"] = pd.concat([sets["nonmembers"], sets["members"].iloc[[10]]], ignore_index=True)
        result = dv.synthetic.audit(patients(60, 95), **sets, duplicates="drop", **QUIET)
        assert result.counts == (54, 60)

    @pytest.mark.parametrize("columns", [["hospital", "ward"], ["weight", "hospital"], ["admitted", "smoker"]])
    def test_constant_missing_and_coarse_columns_are_answered(self, columns):
        sets = {name: table[columns] for name, table in hospital(15, n=110).items()}
        result = dv.synthetic.audit(patients(110, 94)[columns], **sets)
        assert result.verdict.answer != "leak found"
        assert result.page().sections


def without(name):
    sets = hospital(16, n=60)
    return {"released": patients(60, 93), **sets, name: None}


def with_rows(target, source):
    sets = hospital(16, n=60)
    sets[target] = pd.concat([sets[target], sets[source].iloc[:20]])
    return {"released": patients(60, 93), **sets}


ERRORS = {
    "no non-members": (lambda: without("nonmembers"), "nonmembers"),
    "no population": (lambda: without("population"), "population"),
    "few rows": (lambda: {"released": patients(19, 0), **hospital(n=60)}, "at least 20"),
    "no common column": (lambda: {"released": patients(60, 0).add_prefix("x"), **hospital(n=60)}, "in common"),
    "one common column": (lambda: {"released": patients(60, 0)[["age"]], **hospital(n=60)}, "in common"),
    "the members themselves": (
        lambda: {"released": (sets := hospital(n=60))["members"].sample(frac=1, random_state=0), **sets}, "own rows",
    ),
    "members among the others": (lambda: with_rows("nonmembers", "members"), "nonmembers: 20 rows of members"),
    "members in the population": (lambda: with_rows("population", "members"), "population: 20 rows of members"),
    "others in the population": (lambda: with_rows("population", "nonmembers"), "population: 20 rows of nonmembers"),
    "no such person": (lambda: {"released": patients(60, 93), **hospital(n=60), "person": "who"}, "person"),
    "no such attribute": (lambda: {"released": patients(60, 93), **hospital(n=60), "attributes": ["x"]}, "attributes"),
    "a level": (lambda: {"released": patients(60, 93), **hospital(n=60), "fdr": 2.0}, "fdr"),
    "no table": (lambda: {"released": 5, **hospital(n=60)}, "released"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_is_one_error_that_names_it(name):
    make, words = ERRORS[name]
    with pytest.raises(dv.InputError, match=words):
        dv.synthetic.audit(**make())


def test_a_person_on_both_sides_is_refused():
    rng = np.random.default_rng(0)
    sets = {name: person_rows(rng, "p", 30) for name in ("members", "nonmembers", "population")}
    with pytest.raises(dv.InputError, match="person"):
        dv.synthetic.audit(person_rows(rng, "x", 30).drop(columns="who"), **sets, person="who")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A leaking release and its run directory."""
    folder = tmp_path_factory.mktemp("release")
    sets = hospital(30, n=150)
    released = pd.concat([generators.trees(sets["members"], 148, 0), sets["members"].iloc[:2]], ignore_index=True)
    result = dv.synthetic.audit(released, **sets, at_random=True, attributes=["ward", "marker"], out=folder / "trees")
    return sets, result, folder / "trees"


def view_comparison(folders):
    """Return the page on which `divulge view` compares runs."""
    testclient = pytest.importorskip("starlette.testclient")
    shelf = Shelf(tuple(folders))
    client = testclient.TestClient(application(shelf, "token", ("testserver",)))
    client.get("/?token=token")
    return client.get("/compare", params=[("run", entry.key) for entry in shelf.entries()]).text


class TestRuns:
    def test_a_run_that_is_read_back_says_the_same(self, release):
        _, result, folder = release
        again = SYNTHETIC.load(folder)
        assert again.summary.verdict == result.verdict.text
        assert again.result.to_frame().equals(result.to_frame())
        assert dv.load(folder).summary.answer == "leak found"
        assert "Leak found" in result._repr_html_()

    def test_the_page_shows_proofs_list_risks_and_copies(self, release):
        _, result, _ = release
        page = html.render(result.page())
        for words in (
            "value-sets",
            "Copied rows",
            "singling out",
            "linkability",
            "inference of marker",
            "is at least 1.",
        ):
            assert words in page

    def test_ten_records_of_a_list_are_open_and_the_rest_is_folded(self, release):
        _, result, _ = release
        blocks = next(each for each in result.page().sections if each.title == "Whom it gives away").blocks
        shown, folded = blocks[-2:]
        assert len(shown.rows) == 10
        assert shown.columns[0] == "row"
        assert len(folded.blocks[0].rows) == min(50, result.selection().count) - 10

    def test_a_gate_holds_scores_and_copied_shares_to_limits(self, release):
        _, _, folder = release
        assert dv.gate(folder, ["auc:0.6"]).state == "broken"
        assert dv.gate(folder, "share:0.05").state == "broken"
        assert dv.gate(folder, "share:0.99").state == "kept"

    def test_what_is_kept_beside_an_open_verdict_says_so(self):
        result = dv.synthetic.audit(patients(80, 96), **hospital(5, n=60), **QUIET)
        assert result.verdict.code == "few"
        rulings = dv.gate(result, "auc:0.95")
        assert rulings.answer == "kept (no verdict)"
        assert 'could not say "no leak"' in repr(rulings)
        assert dv.gate(result, "copies:0").answer == "kept"

    def test_two_generators_are_compared_record_by_record(self, release, tmp_path):
        sets, result, folder = release
        smooth = dv.synthetic.audit(generators.trees(sets["members"], 150, 0, smooth=0.5), **sets, **QUIET)
        compared = dv.compare(folder, smooth)
        (changes,) = compared.changes.values()
        change = next(each for each in changes if (each.recipe, each.statistic) == ("auto", "auc"))
        assert change.change.high < 0
        assert compared.report(tmp_path / "compared.html").exists()
        smooth.save(tmp_path / "smooth")
        page = view_comparison([folder, tmp_path / "smooth"])
        assert "Less is given away, and a leak is found all the same" in page
        with pytest.raises(dv.InputError, match="other members"):
            dv.compare(result, dv.synthetic.audit(patients(60, 91), **hospital(31, n=60), **QUIET))


class TestCopiesLimit:
    """``copies:0``: no row of a training record stands in the release as it is."""

    @pytest.mark.parametrize(("n_copies", "state"), [(0, "kept"), (1, "broken")])
    def test_one_copy_breaks_it_and_is_listed_and_none_keeps_it(self, n_copies, state, divulge, tmp_path):
        sets = hospital(3)
        released = pd.concat([patients(150 - n_copies, 98), sets["members"].iloc[:n_copies]], ignore_index=True)
        result = dv.synthetic.audit(released, **sets, **QUIET, out=tmp_path / "run")
        listed = [(copy.released, copy.set, copy.record, copy.population) for copy in result.copies]
        assert listed == [(149, "members", "0", 0)][:n_copies]
        assert not n_copies or result.verdict.answer == "too little data to say"
        for ruled in (dv.gate(result, "copies:0"), dv.gate(tmp_path / "run", "copies:0")):
            assert ruled.state == state
        code, out, _ = divulge("gate", tmp_path / "run", "--max", "copies:0")
        assert code == (1 if n_copies else 0)
        assert ("that may be a coincidence" in " ".join(out.split())) == bool(n_copies)
        assert dv.gate(result, f"copies:{n_copies}").state == "kept"

    def test_coincidences_of_few_columns_never_break_it(self):
        """Rows of three columns that others have as well; a copy among them is not taken for nothing, either."""
        for seed in range(2):
            rng = np.random.default_rng(seed)
            draw = lambda n: pd.DataFrame(rng.integers(0, 14, (n, 3)), columns=["a", "b", "c"])  # noqa: B023, E731
            sets = {"members": draw(150), "nonmembers": draw(150), "population": draw(300)}
            result = dv.synthetic.audit(draw(400), **sets, **QUIET)
            (ruling,) = dv.gate(result, "copies:0")
            assert min(result.copied)
            assert ruling.state == "undecided"
            assert "coincidence" in ruling.reason

    def test_where_rows_are_ordinarily_equal_a_copy_may_be_a_coincidence(self):
        """Hardly a row is one record's alone, so that none of the others has to stand in the release by itself."""
        open_rulings = 0
        for seed in range(4):
            rng = np.random.default_rng(seed)
            draw = lambda n: pd.DataFrame(  # noqa: E731
                {name: rng.geometric(0.4, n) for name in "abc"}  # noqa: B023
            )
            sets = {"members": draw(100), "nonmembers": draw(100), "population": draw(600)}
            result = dv.synthetic.audit(draw(270), **sets, **QUIET)
            ruled = dv.gate(result, "copies:0")
            assert ruled.state == ("undecided" if result.copied[0] else "kept")
            open_rulings += ruled.state == "undecided"
        assert open_rulings

    def test_rows_of_non_members_that_the_generator_saw_are_no_coincidence(self):
        sets = hospital(8)
        seen = pd.concat([sets["members"].iloc[:100], sets["nonmembers"].iloc[:100]], ignore_index=True)
        result = dv.synthetic.audit(seen, **sets, **QUIET)
        assert result.verdict.answer == "cannot judge"
        assert dv.gate(result, "copies:0").state == "broken"

    def test_a_copy_of_a_record_beyond_those_that_are_scored_is_seen(self):
        rng = np.random.default_rng(0)
        draw = lambda n: pd.DataFrame(rng.normal(size=(n, 2)).round(9), columns=["a", "b"])  # noqa: E731
        sets = {"members": draw(21_000), "nonmembers": draw(60), "population": draw(60)}
        released = pd.concat([draw(30), sets["members"].iloc[::2100]], ignore_index=True)
        result = dv.synthetic.audit(released, **sets, **QUIET)
        assert dv.gate(result, "copies:9").state == "broken"
        assert dv.gate(result, "copies:10").state == "kept"


class TestColumnsWrittenOtherwise:
    """Copied rows hide behind no padding, spelling, language, code or unit of a column."""

    def audit(self, change):
        sets = hospital(5, n=300)
        released = pd.concat([patients(300, 96), sets["members"].iloc[:3]], ignore_index=True)
        return dv.synthetic.audit(change(released), **sets, **QUIET)

    def test_white_space_around_texts_says_nothing(self):
        pads = {"north": "north ", "south": "  south\t", "east": "\u00a0east"}
        result = self.audit(lambda table: table.assign(ward=table["ward"].map(pads)))
        assert result.copied == (3, 0)
        assert not result.uncompared
        assert dv.gate(result, "copies:0").state == "broken"

    @pytest.mark.parametrize(
        "changes",
        [
            {
                "age": lambda age: 12 * age + 100,
                "ward": lambda ward: ward.str.upper(),
                "admitted": lambda days: pd.to_datetime(days).dt.strftime("%d.%m.%Y"),
            },
            {"ward": lambda ward: ward.map({"north": "north", "south": "sud", "east": "est"})},
            {"ward": lambda ward: ward.map({"north": 1, "south": 2, "east": 3})},
        ],
        ids=["all values", "a part", "codes"],
    )
    def test_another_spelling_is_named_and_nothing_is_cleared(self, changes):
        result = self.audit(lambda table: table.assign(**{name: do(table[name]) for name, do in changes.items()}))
        assert result.uncompared == (*changes,)
        assert all(any(f"'{name}'" in note for note in result.notes) for name in changes)
        assert result.copied == (3, 0)
        assert result.verdict.answer == "too little data to say"
        assert all(f"'{name}'" in result.verdict.text for name in changes)
        ruled = dv.gate(result, ["copies:0", "auc:0.7"])
        assert [ruling.state for ruling in ruled if ruling.metric == "copies"] == ["undecided"]
        assert ruled.state == "undecided"

    @pytest.mark.parametrize(
        ("column", "change"),
        [
            ("admitted", lambda days: (pd.to_datetime(days) + pd.Timedelta(days=1)).dt.date),
            ("marker", lambda marker: (0.8 * marker).round(3)),
            ("ward", lambda ward: ward.replace("north", "NORTH")),
        ],
    )
    def test_twenty_copies_of_which_a_column_was_changed_are_seen(self, column, change):
        sets = hospital(5)
        twenty = sets["members"].query("ward == 'north'").iloc[:20]
        released = pd.concat([patients(130, 96), twenty], ignore_index=True)
        result = dv.synthetic.audit(released.assign(**{column: change(released[column])}), **sets, **QUIET)
        assert result.verdict.answer != "no leak found"
        assert dv.gate(result, "copies:0").state != "kept"
        if column not in result.uncompared:
            match = proof(result, f"rows but for {column}")
            assert match.proven
            assert match.members >= 20

    def test_without_copies_the_limit_is_kept_and_the_columns_named(self, tmp_path):
        """A number that is the same everywhere may be written otherwise, too."""
        sets = {name: table.assign(country=1) for name, table in hospital(5, n=500).items()}
        released = patients(500, 96).assign(ward=lambda table: table["ward"].str.upper(), country=276)
        result = dv.synthetic.audit(released, **sets, **QUIET, out=tmp_path / "run")
        assert result.uncompared == ("ward", "country")
        assert result.verdict.code == "columns"
        for ruled in (dv.gate(result, "copies:0"), dv.gate(tmp_path / "run", "copies:0")):
            assert ruled.answer == "kept (no verdict)"
            assert "'ward'" in repr(ruled)

    def test_a_copied_table_in_another_language_is_a_leak(self):
        sets = hospital(5, n=80)
        result = dv.synthetic.audit(sets["members"].assign(ward=sets["members"]["ward"].str.upper()), **sets, **QUIET)
        assert proof(result, "whole rows").proven
        assert dv.gate(result, "copies:0").state == "broken"
        assert "'ward'" in result.verdict.text

    def test_names_measures_and_rare_texts_of_honest_releases_are_compared(self):
        """Values that hardly any two tables share are no other spelling; nor is a rare text that is new."""
        for seed in range(4):
            rng = np.random.default_rng(seed)

            def draw(n, rng=rng):
                kinds = {
                    "measure": lambda: rng.normal(size=n),
                    "name": lambda: [f"n{i}" for i in rng.integers(0, 10**9, n)],
                    "street": lambda: [f"s{i}" for i in rng.zipf(1.3, n) % 10**6],
                    "town": lambda: [f"t{i}" for i in rng.zipf(2.0, n) % 1000],
                    "postcode": lambda: [f"p{i}" for i in rng.integers(0, 300, n)],
                    "constant": lambda: "x",
                }
                columns = {f"{name} {copy}": kind() for name, kind in kinds.items() for copy in range(2)}
                return pd.DataFrame(columns).assign(
                    gaps=np.where(rng.random(n) < 0.97, None, rng.choice(["a", "b"], n))
                )

            released, members, nonmembers, population = (draw(int(n)) for n in rng.integers(20, 200, 4))
            result = dv.synthetic.audit(
                released, members=members, nonmembers=nonmembers, population=population, duplicates="drop", **QUIET
            )
            assert not result.uncompared


class TestCommand:
    def write(self, sets, folder):
        for name, table in sets.items():
            table.to_csv(folder / f"{name}.csv", index=False)
        return [folder / "released.csv", *(f"--{name}={folder / name}.csv" for name in sets if name != "released")]

    def test_options_or_a_plan_give_an_exit_code_and_a_run_that_gate_compare_and_report_take(self, divulge, tmp_path):
        sets = hospital(40, n=120)
        arguments = self.write({"released": generators.trees(sets["members"], 120, 0), **sets}, tmp_path)
        code, out, _ = divulge("synthetic", *arguments, "--json")
        assert code == 1
        assert json.loads(out)["answer"] == "leak found"
        tables = "\n".join(f'{name} = "{name}.csv"' for name in sets)
        plan = tmp_path / "plan.toml"
        plan.write_text(f'[synthetic]\nreleased = ["released.csv"]\n{tables}\nattributes = ["ward"]\n')
        code, out, err = divulge("synthetic", plan, "--out", tmp_path / "run")
        assert (code, err) == (1, "")
        assert "Leak found" in out
        assert divulge("gate", tmp_path / "run", "--max", "auc:0.6")[0] == 1
        assert divulge("compare", tmp_path / "run", tmp_path / "run")[0] == 0
        assert divulge("report", tmp_path / "run", "--format", "csv")[0] == 0
        code, _, err = divulge("check", plan)
        assert code == 2
        assert "divulge synthetic" in err

    def test_a_table_that_is_missing_is_named(self, divulge, tmp_path):
        code, _, err = divulge("synthetic", tmp_path / "x.csv", "--members", tmp_path / "y.csv")
        assert code == 2
        assert "--nonmembers" in err
