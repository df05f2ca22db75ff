"""Candidates of unknown membership: a model is asked, and the list of those that were used keeps its bound."""

import functools
import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import skops.io
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from typer.testing import CliRunner

import divulge as dv
from divulge import InputError, candidates, cli

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1400, 5)).round(6)
Y = (X[:, 0] + RNG.normal(size=1400) > 0).astype(int)
N_USED = 150  # of the first 300 records, which are the candidates
FOREST = RandomForestClassifier(8, random_state=0).fit(X[:N_USED], Y[:N_USED])
USED = np.arange(300) < N_USED


def records(start, stop, y=Y):
    return dv.Records(X[start:stop], y[start:stop])


def identify(**options):
    defaults = {"target": FOREST, "candidates": records(0, 300), "population": records(300, 900), "fdr": 0.2}
    return dv.identify(**defaults | {"progress": None} | options)


@functools.cache
def with_an_unseen_class(by):
    """The list where the population lacks a class of the candidates, and the labels."""
    y = np.where(X[:, 1] > 0.8, 2, Y)
    model = RandomForestClassifier(8, random_state=0).fit(X[:N_USED], y[:N_USED])
    population = records(300, 900, y)[np.flatnonzero(y[300:900] != 2)]
    found = identify(
        target=model, candidates=records(0, 300, y), population=population, unseen_classes=[2], by=by, recipes=["loss"]
    )
    return found, y


def test_the_list_is_that_of_conformal_p_values_of_the_scores():
    found = identify(recipes=["loss"], method="bh")
    scores, compared = found.scores["loss"], found.calibration["loss"]
    p = np.array([(1 + (compared >= score).sum()) / (1 + len(compared)) for score in scores])
    np.testing.assert_allclose(found.p_values, p)
    assert (found.selected == (stats.false_discovery_control(p) <= 0.2)).all()
    assert len(compared) > 250
    assert found.usage.low <= 0.5 <= found.usage.high


def test_false_discoveries_keep_their_bound_where_half_or_none_of_the_candidates_was_used():
    """16 draws with a rate of .2: a mean above .45 has a probability of at most 15 % (Hoeffding); seeds are fixed."""
    shares = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(260, 3))
        y = rng.integers(0, 2, 260)
        trained = np.arange(200, 260) if seed % 2 else np.arange(30)
        model = KNeighborsClassifier(1).fit(x[trained], y[trained])
        found = dv.identify(
            target=model, candidates=dv.Records(x[:60], y[:60]), population=dv.Records(x[60:200], y[60:200]),
            recipes=["loss"], fdr=0.2, seed=seed, progress=None,
        )  # fmt: skip
        false = found.selected & ~np.isin(np.arange(60), trained)
        shares.append(false.sum() / max(1, found.count))
    assert np.mean(shares) < 0.45


def test_known_members_say_how_many_are_found_and_move_nothing_on_the_list():
    plain, found = identify(recipes=["loss"]), identify(recipes=["loss"], members=records(900, 1000))
    assert (plain.selected == found.selected).all()
    assert (plain.p_values == found.p_values).all()
    assert found.known_members["loss"].high < 0.65, "these were not used, and do not score as if they were"
    used = RandomForestClassifier(8, random_state=0).fit(
        np.append(X[:N_USED], X[900:1000], axis=0), np.append(Y[:N_USED], Y[900:1000])
    )
    found = identify(target=used, members=records(900, 1000), holdout=records(1000, 1400), recipes=["loss"])
    power = (found.selected & USED).sum() / N_USED
    assert found.known_members["loss"].low > 0.6
    assert found.power.low <= power <= found.power.high
    assert found.guarantee.standing != "void"


def test_a_copy_of_a_candidate_is_selected_with_it():
    doubled = dv.Records(np.repeat(X[:300], 2, axis=0), np.repeat(Y[:300], 2))
    found, single = identify(candidates=doubled, recipes=["loss"]), identify(recipes=["loss"])
    assert (found.selected == np.repeat(single.selected, 2)).all()


def test_rows_that_repeat_within_a_set_are_compared_once():
    repeated = dv.Records(np.repeat(X[300:900], 6, axis=0), np.repeat(Y[300:900], 6))
    found = identify(population=repeated, recipes=["loss"])
    assert 150 < len(found.calibration["loss"]) < 450


@pytest.mark.parametrize("by", [None, "class"])
def test_an_unseen_class_voids_its_own_list_alone_where_lists_are_by_class(by):
    found, y = with_an_unseen_class(by)
    assert (found.guarantee.standing == "void") == (by is None)
    assert list(found.by_class) == ([] if by is None else ["2"])
    if by is not None:
        assert found.by_class["2"].guarantee.standing == "void"
        assert not (found.selected & found.by_class["2"].selected).any()
        assert not found.selected[y[:300] == 2].any()


def test_a_class_that_the_population_lacks_and_nobody_named_raises_doubt():
    y = np.where(X[:, 1] > 0.8, 2, Y)
    model = RandomForestClassifier(8, random_state=0).fit(X[:N_USED], y[:N_USED])
    population = records(300, 900, y)[np.flatnonzero(y[300:900] != 2)]
    found = identify(target=model, candidates=records(0, 300, y), population=population, recipes=["loss"])
    assert found.guarantee.standing == "doubtful"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population": None}, "population"),
        ({"population": records(200, 900)}, "population: .*100 of the candidates"),
        ({"population": records(300, 330), "fdr": 0.05}, "at least 19 records, got 15"),
        ({"candidates": records(0, 300, np.where(np.arange(1400) < N_USED, Y, 5))}, "candidates: .*class 5"),
        ({"unseen_classes": [1]}, "unseen_classes: the population holds"),
        ({"unseen_classes": [7]}, "unseen_classes: no candidate"),
        ({"recipes": ["loss", "transductive"], "method": "bh"}, "method"),
        ({"duplicates": "keep"}, "duplicates"),
        ({"features": {"members": X}}, "features: .*candidates, population"),
        ({"target": None}, "target"),
        ({"calibration": np.zeros(9)}, "population"),
        ({"known": np.ones((7, 5), dtype=bool)}, "known: .*300 candidates .*got 7"),
    ],
)
def test_what_does_not_fit_is_one_error_before_anything_is_trained(options, message):
    trainer = dv.references.Custom(lambda *_: pytest.fail("trained"), count=4)
    with pytest.raises(InputError, match=message):
        identify(**{"references": trainer} | options)


def test_copies_in_the_population_are_left_out_where_that_is_asked_for():
    found = identify(population=records(200, 900), duplicates="drop", recipes=["loss"])
    assert not found.selected[200:].any()
    assert (found.p_values[200:] == 1).all()
    assert found.selected[:N_USED].any()


@pytest.mark.parametrize(
    "options",
    [
        {"known": "share:0.6", "recipes": ["loss"]},
        {"known": RNG.random((300, 5)) < 0.8, "recipes": ["loss"]},
        {"features": {"candidates": X[:300, :2], "population": X[300:900, :2]}, "recipes": ["transductive"]},
        {"recipes": ["loss", "transductive"]},
        {"recipes": ["lira-online"], "references": dv.references.Train(count=4)},
        {"recipes": ["correct"]},
        {
            "target": RandomForestRegressor(10, random_state=0).fit(X[:N_USED, 1:], X[:N_USED, 0]),
            "candidates": dv.Records(X[:300, 1:], X[:300, 0]),
            "population": dv.Records(X[300:900, 1:], X[300:900, 0]),
            "recipes": ["loss"],
        },
    ],
    ids=lambda options: "-".join(options),
)
def test_every_way_of_asking_gives_a_list(options):
    if "known" in options and not isinstance(options["known"], str):
        options["known"][:, 0] = True
    found = identify(**options)
    assert found.selected.shape == (300,)
    assert found.guarantee.standing in ("holds", "doubtful")
    assert len(found.envelope()) == 300


def test_options_and_a_plan_give_the_same_list_as_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    y, ids = np.where(Y, "yes", "no"), [f"r{row}" for row in range(len(X))]
    frame = pl.DataFrame({f"c{i}": X[:, i] for i in range(5)})
    model = RandomForestClassifier(8, random_state=0).fit(X[:N_USED], y[:N_USED])
    skops.io.dump(model, "model.skops")
    frame.with_columns(label=pl.Series(y), id=pl.Series(ids))[:200].write_csv("candidates.csv")
    frame.with_columns(label=pl.Series(y), id=pl.Series(ids))[300:600].write_parquet("population.parquet")

    def run(*arguments, code=0):
        assert cli.run(arguments) == code
        written = capsys.readouterr()
        return written.err if code else json.loads(written.out)

    files = ("--candidates", "candidates.csv", "--population", "population.parquet")
    asked = run("identify", "--target", "model.skops", *files, "--fdr", "0.2", "--out", "run", "--json")
    run("init", ".", "--records", "table", "--model", "model.skops", *files, "--references", "16", "--json")
    planned = run("identify", "plan.toml", "--fdr", "0.2", "--out", "planned", "--json")
    assert asked["selected"] == planned["selected"] > 20
    found = identify(
        target=model, candidates=dv.Records(frame[:200], y[:200], ids[:200]),
        population=dv.Records(frame[300:600], y[300:600], ids[300:600]),
    )  # fmt: skip
    assert sorted(pl.read_csv("run/selected.csv")["id"]) == sorted(found.ids[found.selected])
    loaded = dv.load("run").summary
    assert loaded.guarantee.standing == found.guarantee.standing == "doubtful"  # no second set is known to be unused
    for folder in ("run", "planned"):  # what was read are the files of the user, not the tables of scores made of them
        sources = {each["name"]: each for each in json.loads(Path(folder, "provenance.json").read_text())["sources"]}
        for name in ("candidates.csv", "population.parquet", "model.skops"):
            assert sources[name]["digest"] == hashlib.sha256(Path(name).read_bytes()).hexdigest()
        assert set(sources) <= {"candidates.csv", "population.parquet", "model.skops", "plan.toml"}
    assert "divulge identify" in run("audit", "plan.toml", code=2)
    assert run("check", "plan.toml", "--json")["forecast"]["records"] == 500
    plan = Path("plan.toml").read_text().replace('candidates = "', 'members = "known.csv"\nnonmembers = "')
    Path("audit.toml").write_text(plan)
    assert "divulge audit" in run("identify", "audit.toml", code=2)
    assert "--population" in run("identify", "--target", "model.skops", "candidates.csv", code=2)
    assert "--score" in run("identify", "--target", "model.skops", *files, "--score", "loss", code=2)


class Interrupted(RandomForestClassifier):
    """A forest whose third training is interrupted from the keyboard."""

    n_fits = 0

    def fit(self, x, y):
        Interrupted.n_fits += 1
        if Interrupted.n_fits == 3:
            raise KeyboardInterrupt
        return super().fit(x, y)


def test_models_that_were_trained_outlive_an_interruption(tmp_path):
    target = Interrupted(5, random_state=0).fit(X[:N_USED], Y[:N_USED])
    options = {
        "target": target, "recipes": ["rmia"], "references": dv.references.Train(count=4, engine="serial"),
        "out": tmp_path / "run",
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        identify(**options)
    identify(**options)
    assert Interrupted.n_fits == 6, "the target, one model before the interruption, the interrupted one, three after it"


def test_bounds_of_the_best_count_equal_candidates_once_and_leave_void_lists_out():
    doubled = dv.Records(np.repeat(X[:300], 3, axis=0), np.repeat(Y[:300], 3))
    single, tripled = (identify(**options, recipes=["loss"]).envelope() for options in ({}, {"candidates": doubled}))
    assert [tripled.largest(share) for share in (0.1, 0.3)] == [single.largest(share) for share in (0.1, 0.3)]
    (whole, y), (apart, _) = with_an_unseen_class(None), with_an_unseen_class("class")
    assert whole.envelope().guarantee.standing == "void"
    assert len(apart.envelope()) == (y[:300] != 2).sum()


def test_each_unseen_class_has_a_run_of_its_own(tmp_path):
    y = np.where(X[:, 1] > 0.8, 2, Y)
    model = RandomForestClassifier(8, random_state=0).fit(X[:N_USED], y[:N_USED])
    population = records(300, 900, y)[np.flatnonzero(y[300:900] != 2)]
    found = candidates.identify_records(
        model, records(0, 300, y), population=population, unseen_classes=[2], by="class", recipes=["loss"],
        out=tmp_path / "run", progress=None,
    )  # fmt: skip
    assert dv.load(tmp_path / "run").summary.candidates == (y[:300] != 2).sum()
    inner = dv.load(tmp_path / "run" / "class-1").summary
    assert inner.guarantee.standing == "void"
    assert inner.selected == found.by_class["2"].count


@pytest.mark.parametrize("recipes", [["loss"], ["auto"]])
def test_no_other_direction_is_advised_for_a_score_of_our_own_making(tmp_path, recipes):
    """Candidates of which none was used, and that the model finds harder than the population."""
    hard = np.flatnonzero(np.abs(X[900:, 0]) < 0.4)[:150] + 900
    candidate_records = dv.Records(X[hard], 1 - FOREST.predict(X[hard]))
    found = identify(candidates=candidate_records, recipes=recipes, out=tmp_path / "run", show_records=False)
    summary = dv.load(tmp_path / "run").summary
    assert found.guarantee.standing == "doubtful" if found.count else True
    assert "low scores" in [control.name for control in summary.controls if control.state == "doubtful"]
    said = " ".join([*found.warnings, *summary.warnings, (tmp_path / "run" / "report.html").read_text()])
    assert "did you mean" not in said
    assert "direction may be wrong" not in said
    assert summary.selected == 0


def test_use_is_shown_where_no_record_can_be_named(tmp_path):
    """A weak score of many used records: a share is proven although no list is."""
    used = RandomForestClassifier(60, min_samples_leaf=4, random_state=0).fit(X[:400], Y[:400])
    found = identify(
        target=used, candidates=records(0, 500), population=records(500, 1300), recipes=["loss"], fdr=0.01,
        holdout=records(1300, 1400), out=tmp_path / "run",
    )  # fmt: skip
    summary = dv.load(tmp_path / "run").summary
    assert found.count == summary.selected == 0
    assert 0 < summary.members <= 400
    result = CliRunner().invoke(cli.app, ["decide", str(tmp_path / "run"), "--fdr", "0.011"])
    assert result.stdout.split(" ", 1)[1].startswith(
        f"At least {summary.members} of 500 records were used for training"
    )
    assert f"At least {summary.members} of 500 records" in (tmp_path / "run" / "report.html").read_text()
    assert summary.usage.low * 500 <= summary.members
    bounds = dv.identification.envelope(tmp_path / "run")
    top = CliRunner().invoke(cli.app, ["decide", str(tmp_path / "run"), "--top", "500"])
    differs = 500 - bounds.false(500) < summary.members  # two bounds of one number: the second is said beside the first
    assert (f"at least {summary.members} of all 500 were used" in top.stdout) == differs


ASKS = """
import json, pathlib
import numpy as np

def answer(rows):
    {line}

def query(frame):
    return np.array(answer(frame.to_dicts()))
"""


@pytest.fixture
def case(tmp_path, monkeypatch, capsys):
    """A classifier that a function of the user's asks, clients in question, and others that it never saw."""
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({f"c{i}": X[:, i] for i in range(5)}).with_columns(
        town=pl.Series(np.where(X[:, 3] > 0, "Brno", "Graz")),
        label=pl.Series(np.where(Y, "yes", "no")),
        id=pl.Series([f"r{row}" for row in range(len(X))]),
    )
    frame[:300].write_csv("clients.csv")
    frame[300:900].write_csv("census.csv")

    def run(*arguments, code=0):
        assert cli.run(arguments) == code
        written = capsys.readouterr()
        return " ".join(f"{written.out} {written.err}".split())

    return run


FILES = ("--candidates", "clients.csv", "--population", "census.csv")


def test_a_function_that_asks_a_server_is_written_to_be_filled_in(case):
    said = case("init", "case", "--records", "table", "--model", "remote:query", *FILES, "--references", "0")
    assert "Wrote case/remote.py" in said
    assert "fill in remote.py: the server's address" in said
    plan, code = Path("case/plan.toml"), Path("case/remote.py")
    compile(code.read_text(), "remote.py", "exec")
    assert "def query(frame):" in code.read_text()
    assert '\noutputs = "probabilities"' in plan.read_text()
    plan.write_text(plan.read_text().replace("# classes = ", "classes = "))
    assert "URLError" in case("check", "case/plan.toml", code=2)  # nobody listens there
    again = case("init", "case", "--records", "table", "--model", "remote:query", *FILES, code=2)
    assert "is there already" in again


def test_an_address_in_the_place_of_a_model_is_answered_with_how_it_is_asked(case):
    said = case("identify", "--target", "http://127.0.0.1:1/", *FILES, "--label", "label", "--id", "id", code=2)
    assert "def query(frame)" in said
    assert "'remote:query'" in said


def write_case(line):
    Path("asking.py").write_text(ASKS.format(line=line))
    Path("plan.toml").write_text(
        'recipes = ["loss"]\n[target]\nmodel = "asking:query"\noutputs = "probabilities"\n[data]\n'
        'candidates = "clients.csv"\npopulation = "census.csv"\nid = "id"\nclasses = ["no", "yes"]\n'
    )


def test_lines_of_the_users_own_code_are_shown_where_it_fails(case):
    write_case('raise ValueError("the server says no")')
    for command in (["check", "plan.toml"], ["identify", "plan.toml", "--out", "run"]):
        said = case(*command, code=2)
        assert "your code raised ValueError: the server says no" in said
        assert "asking.py" in said
        assert 'raise ValueError("the server says no")' in said
        assert "typer" not in said


def test_columns_that_nobody_knows_are_added_empty_and_said(case):
    write_case("return [[0.5, 0.5]] * len(rows)")
    clients = pl.read_csv("clients.csv")
    clients.drop("c1").write_csv("clients.csv")
    assert "add them to data.candidates as empty columns" in case("check", "plan.toml", code=2)
    clients.with_columns(c1=None).write_csv("clients.csv")
    assert "data.candidates: column 'c1' is empty in every row" in case("check", "plan.toml")
