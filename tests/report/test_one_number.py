"""Runs of every kind, through every door: each number that is shown is one of the run's own, with one interval."""

import html
import json
import math
import re
from pathlib import Path

import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from starlette.testclient import TestClient
from typer.testing import CliRunner

import divulge as dv
from divulge import results
from divulge.auditing import summary
from divulge.cli import app
from divulge.report import sections
from divulge.viewing import Shelf
from divulge.viewing.server import application
from run_directories import WRITERS, np

INTERVAL = re.compile(r"([-+]?[\d.,]+(?: %)?) \[([-+]?[\d.,e-]+), ([-+]?[\d.,e-]+)\]")
GATES = {"audit": "auc:0.6", "regression": "auc:0.6", "erasure": "difference:0.05", "attributes": "share:0.05"}
RUN_KINDS = [*WRITERS, "regression"]
# Advice quotes intervals that were measured on other models.
PUBLISHED = re.sub(r'"\s*\n\s*f?"', "", Path(sections.__file__).read_text()).replace("\N{NO-BREAK SPACE}", " ")


def write_regression(folder):
    """An audit of a forest that remembers amounts in the tens of thousands."""

    def draw(n, seed):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 3))
        return dv.Records(x, 40_000 + 10_000 * x[:, 0] + 10_000 * rng.normal(size=n))

    members = draw(100, 0)
    forest = RandomForestRegressor(10, random_state=0).fit(members.x, members.y)
    dv.audit(
        forest, members=members, nonmembers=draw(100, 1), population=draw(100, 2), recipes=["loss"], fpr=(0.1,),
        out=folder,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, write in (WRITERS | {"regression": write_regression}).items():
        write(folder / name)
    return folder


@pytest.fixture(scope="module")
def doors(runs, tmp_path_factory):
    """Run → door → what is read there: pages as words, JSON as values, tables as frames."""
    folder_out = tmp_path_factory.mktemp("files")
    client = TestClient(application(Shelf((runs,)), "key", ("testserver",)))
    client.get("/?token=key")
    keys = {
        n.strip().split("/")[-1]: k for k, n in re.findall(r'href="/runs/([^"/]+)"[^>]*>([^<]+)', client.get("/").text)
    }
    outputs = {}
    for name in RUN_KINDS:
        for form in ("html", "md", "json", "csv"):
            invoke("report", runs / name, "--format", form, "--to", folder_out / f"{name}.{form}")
        invoke("report", runs / name, "--one-page", "--to", folder_out / f"{name}-page.html")
        result = dv.load(runs / name)
        pages = {
            "report": (folder_out / f"{name}.html").read_text(),
            "model card": (folder_out / f"{name}.md").read_text(),
            "one page": (folder_out / f"{name}-page.html").read_text(),
            "notebook": result._repr_html_(),
            "view": client.get(f"/runs/{keys[name]}").text,
            "report in view": client.get(f"/runs/{keys[name]}/report").text,
            "verdict in Python": getattr(result.verdict, "text", result.verdict),
        }
        if name in ("audit", "regression"):
            pages["decide"] = invoke("decide", runs / name, "--fpr", 0.1)
        if name in GATES:
            pages["gate"] = invoke("gate", runs / name, "--max", GATES[name])
        outputs[name] = {door: words(page) for door, page in pages.items()} | {
            "JSON": json.loads((folder_out / f"{name}.json").read_text())["results"],
            "CSV": pl.read_csv(folder_out / f"{name}.csv"),
        }
    return outputs


def invoke(*arguments):
    command_result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "300"})
    assert command_result.exit_code in (0, 1, 3), (arguments, command_result.output)
    return command_result.output


def words(page):
    """Return the words of a page without its markup."""
    text = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", " ", text)).replace("\N{NO-BREAK SPACE}", " ").replace("\\", "")
    return re.sub(r"[\s│]+", " ", text)


def estimates(values):
    """Return every estimate in a summary, as (value, low, high)."""
    if isinstance(values, list):
        return [estimate for each in values for estimate in estimates(each)]
    if not isinstance(values, dict):
        return []
    estimate_here = (
        [(values["value"], values["low"], values["high"])] if {"value", "low", "high"} <= set(values) else []
    )
    return estimate_here + [estimate for each in values.values() for estimate in estimates(each)]


def is_rounded(text, exact):
    """Whether what is shown is ``exact``, or its hundredfold, to the digits that are shown."""
    digits = text.replace(",", "").removesuffix(" %").strip()
    number, scaled = float(digits), exact * (100 if text.endswith("%") else 1)
    last_digit = 10.0 ** -len(digits.partition(".")[2]) if "e" not in digits else abs(number) * 1e-3
    if "." not in digits and abs(number) >= 10_000:  # four significant digits
        last_digit = 10.0 ** (math.floor(math.log10(abs(number))) - 3)
    return abs(number - scaled) <= 0.5 * last_digit * (1 + 1e-9) + 1e-12


def strangers(text, own_values):
    """Return the intervals in a text that are none of a run's own."""
    intervals = set(INTERVAL.findall(text)) - set(INTERVAL.findall(PUBLISHED))
    return [interval for interval in intervals if not any(is_shown_as(interval, estimate) for estimate in own_values)]


def is_shown_as(interval, exact):
    unit = " %" if "%" in interval[0] else ""
    ends = [part.removesuffix(" %") + unit for part in interval]
    return all(is_rounded(end, number) for end, number in zip(ends, exact, strict=True))


def own_estimates(folder, run_kind):
    """Return every estimate of a finished run as Python holds it; of an audit, those of its decision at FPR .1 too."""
    result = dv.load(folder / run_kind)
    if run_kind not in ("audit", "regression"):
        return estimates(results.to_json_values(result.summary))
    decision = summary.summarise_decision(result["loss"], result["loss"].selection(fpr=0.1), 0.1, 1)
    return estimates([results.to_json_values(result.summary()), results.to_json_values(decision)])


@pytest.mark.parametrize("run_kind", RUN_KINDS)
def test_every_interval_that_is_shown_is_one_of_the_runs_own(run_kind, runs, doors):
    own_values = [estimate for estimate in own_estimates(runs, run_kind) if None not in estimate]
    pages = {door: text for door, text in doors[run_kind].items() if isinstance(text, str)}
    for door, text in pages.items():
        assert strangers(text, own_values) == [], door
    assert run_kind in ("canary-audit", "cohorts") or any(set(INTERVAL.findall(text)) for text in pages.values())


def test_an_interval_that_is_not_the_runs_own_is_noticed():
    own_values = [(0.775, 0.4994, 0.9254), (3215.71, 3100.2, 33421.0)]
    text = "0.775 [0.499, 0.925] and 77.5 % [49.9, 92.5] and 3216 [3100, 33,420]"
    assert strangers(text, own_values) == []
    assert strangers("0.775 [0.514, 0.910]", own_values) == [("0.775", "0.514", "0.910")]
    assert strangers("76.5 % [49.9, 92.5]", own_values) == [("76.5 %", "49.9", "92.5")]
    assert strangers("3216 [3100, 33,430]", own_values) == [("3216", "3100", "33,430")]


@pytest.mark.parametrize("run_kind", RUN_KINDS)
def test_json_and_tables_hold_what_python_holds(run_kind, runs, doors):
    outputs, result = doors[run_kind], dv.load(runs / run_kind)
    assert set(estimates(outputs["JSON"])) <= set(own_estimates(runs, run_kind))
    if run_kind in ("audit", "regression", "identification"):  # whose frames have a row per statistic, or per candidate
        return
    frame, table = result.to_frame(), outputs["CSV"]
    assert (frame.columns, frame.height) == (table.columns, table.height)
    for name in frame.columns:
        if frame[name].dtype.is_numeric():
            columns = [each[name].cast(pl.Float64).fill_null(-9.0).to_list() for each in (table, frame)]
            assert columns[0] == pytest.approx(columns[1], nan_ok=True), name


@pytest.mark.parametrize("run_kind", [*GATES])
def test_a_policy_is_held_against_the_estimate_of_the_report(run_kind, runs):
    own_values = own_estimates(runs, run_kind)
    for run in (runs / run_kind, dv.load(runs / run_kind)):
        for ruling in dv.gate(run, GATES[run_kind]):
            estimate = ruling.estimate
            assert any(
                (estimate.value, estimate.low, estimate.high) == pytest.approx(own_value) for own_value in own_values
            )


def test_a_run_that_no_policy_holds_is_refused(runs):
    refusal = "run: a policy can hold an audit, .* or cohorts behind a regression"
    for run, got in ((dv.load(runs / "canary-audit"), ".* is a run of kind 'canary-audit'"), (3, ", got 3")):
        with pytest.raises(dv.InputError, match=refusal + got):
            dv.gate(run, "auc:0.5")


def test_an_identification_counts_the_same_documents_everywhere(runs, doors):
    outputs = doors["identification"]
    stored, table, frame = outputs["JSON"], outputs["CSV"], dv.load(runs / "identification").to_frame()
    selected = stored["selected"]
    finding = f"{selected} of {stored['candidates']} documents"
    for door in ("report", "model card", "one page", "notebook", "view", "report in view", "verdict in Python"):
        assert finding in outputs[door], door
        assert set(re.findall(r"(\d+) of 200 documents are identified", outputs[door])) == {str(selected)}, door
    listed = pl.read_csv(runs / "identification" / "selected.csv")
    assert selected == listed.height == int(frame["selected"].sum()) == table.height
    assert set(listed["id"]) == set(frame.filter(pl.col("selected"))["id"])
    row_by_id = {row["id"]: row for row in frame.to_dicts()}
    for row in [*listed.to_dicts(), *table.to_dicts()]:
        assert row["score"] == pytest.approx(row_by_id[row["id"]]["score"])
        assert row["p"] == pytest.approx(row_by_id[row["id"]]["p"])


def test_an_audit_of_canaries_proves_the_same_epsilon_everywhere(doors):
    outputs = doors["canary-audit"]
    bounds = [outputs["JSON"]["bound"], *outputs["JSON"]["others"].values()]
    proven = {math.floor(100 * bound["low"] + 1e-9) / 100 for bound in bounds}
    for door, text in outputs.items():
        if isinstance(text, str):
            numbers_shown = {float(number) for number in re.findall(r"ε ≥ (\d+\.\d+)", text)}
            assert math.floor(100 * bounds[0]["low"] + 1e-9) / 100 in numbers_shown, door
            assert numbers_shown <= proven, door
    assert outputs["CSV"].height == outputs["JSON"]["canaries"]
    assert int(outputs["CSV"]["included"].sum()) == outputs["JSON"]["included"]
