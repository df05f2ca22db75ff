"""One run, however it is read: the same estimates, intervals, units and denominators wherever a number is shown."""

import json
import re

import polars as pl
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import divulge as dv
from divulge import evaluation
from divulge.auditing import compare
from divulge.cli import app
from divulge.report import html
from divulge.report.formatting import format_estimate, format_percent_estimate
from divulge.viewing import Shelf
from divulge.viewing.server import application
from run_directories import write_audit

LEVEL = 0.1
COUNT = re.compile(r"([\d,]+) of ([\d,]+) (?:such )?(pairs|training records) \(([\d,]+) to ([\d,]+)\)")


@pytest.fixture(scope="module", params=[1.5, 4.0], ids=["verdict by AUC", "verdict by TPR"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_audit(folder / "run", leak=request.param)
    write_audit(folder / "after", leak=0.7)
    return folder / "run", dv.load(folder / "run")


def invoke(folder, *words):
    result = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "300"})
    assert result.exit_code in (0, 1, 3), result.output
    return result.output


def extract_text(page):
    """Return the words of a page without its markup."""
    text = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("&#39;", "'")


@pytest.fixture(scope="module")
def outputs(run, tmp_path_factory):
    """The text of every output: report, model card, notebook, browser, command line, JSON and CSV."""
    folder, result = run
    folder_out = tmp_path_factory.mktemp("files")
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "write_pdf", lambda document, path: printed.append(document.read_text()))
        for name in ("html", "md", "json", "csv", "pdf"):
            invoke(folder, "report", folder, "--format", name, "--to", folder_out / f"report.{name}")
    client = TestClient(application(Shelf((folder.parent,)), "key", ("testserver",)))
    client.get("/?token=key")
    listing = client.get("/").text
    key = next(
        k for k, name in re.findall(r'href="/runs/([^"/]+)"[^>]*>([^<]+)', listing) if name.strip().endswith("run")
    )
    return {
        "report": extract_text((folder_out / "report.html").read_text()),
        "PDF": extract_text(printed[0]),
        "model card": (folder_out / "report.md").read_text(),
        "notebook": extract_text(result._repr_html_()),
        "view": extract_text(client.get(f"/runs/{key}/report").text),
        "command": invoke(folder, "compare", folder, folder.parent / "after"),
        "listing": extract_text(listing),
        "json": json.loads((folder_out / "report.json").read_text()),
        "csv": pl.read_csv(folder_out / "report.csv"),
    }


def test_auc_and_tpr_are_the_same_in_every_output(run, outputs):
    _, result = run
    auc, tpr = result["loss"].auc, result["loss"].tpr_at_fpr(LEVEL)
    for name in ("report", "PDF", "model card", "notebook", "view"):
        text = outputs[name].replace("\N{NO-BREAK SPACE}", " ")
        assert format_estimate(auc) in text, name
        assert format_percent_estimate(tpr) in text, name
    assert format_estimate(auc) in outputs["command"]


def test_the_same_number_has_no_second_interval(run, outputs):
    """Whatever begins with the AUC's or the TPR's value and has an interval has the same one."""
    _, result = run
    for estimate, form in (
        (result["loss"].auc, format_estimate),
        (result["loss"].tpr_at_fpr(LEVEL), format_percent_estimate),
    ):
        formatted = form(estimate)
        value = re.escape(formatted.partition("[")[0])
        for name in ("report", "PDF", "model card", "notebook", "view"):
            text = outputs[name].replace("\N{NO-BREAK SPACE}", " ")
            outcome = set(re.findall(rf"(?<![\d.]){value}\[[^\]]+\]", text))
            assert outcome == {formatted}, name


def test_python_json_table_and_gate_hold_the_same_estimates(run, outputs):
    _, result = run
    auc, tpr = result["loss"].auc, result["loss"].tpr_at_fpr(LEVEL)
    stored = outputs["json"]["results"]["recipes"]["loss"]
    frame = {row["statistic"]: row for row in result.to_frame().to_dicts()}
    rulings = {r.metric: r.estimate for r in dv.gate(result, ["auc:0.6", f"tpr@fpr={LEVEL:g}:0.2"], by="none")}
    for estimate, in_json, in_frame, in_gate in (
        (auc, stored["auc"], frame["auc"], rulings["auc"]),
        (tpr, stored["tpr_at_fpr"]["0.1"], frame["tpr@fpr=0.1"], rulings["tpr@fpr=0.1"]),
    ):
        for stored_estimate in (in_json, in_frame):
            assert [stored_estimate[end] for end in ("value", "low", "high", "confidence")] == pytest.approx(
                [estimate.value, estimate.low, estimate.high, estimate.confidence]
            )
        assert (in_gate.value, in_gate.low, in_gate.high) == (estimate.value, estimate.low, estimate.high)
    rows = outputs["csv"]
    repeat = evaluation.auc(rows["loss score"].to_numpy(), rows["member"].to_numpy(), auc.confidence)
    assert (repeat.value, repeat.low, repeat.high) == pytest.approx((auc.value, auc.low, auc.high))


def test_a_comparison_shows_the_estimates_of_its_runs(run):
    folder, result = run
    columns, rows = compare.overview_table(compare.compare_runs(folder, folder.parent / "after"))
    table_row = dict(zip(columns, rows[0], strict=True))
    assert table_row["AUC"] == format_estimate(result["loss"].auc)


def test_one_rate_has_one_denominator(run, outputs):
    """63 of 100, and never 630 of 1,000 or 54 of 1,000 beside it: verdict, dots, slider, notebook and list agree."""
    _, result = run
    (opening,) = [match.groups() for match in COUNT.finditer(result.verdict.plain)]
    for name in ("report", "PDF", "model card", "notebook", "view", "listing"):
        counts = {match.groups() for match in COUNT.finditer(outputs[name])}
        assert opening in counts, name
        same = {count for count in counts if count[2] == opening[2] and count[0] == opening[0]}
        assert {(count[0], count[1], count[3], count[4]) for count in same} == {(*opening[:2], *opening[3:])}, name
    if opening[2] == "pairs":  # an AUC, of which the whole report says one thing
        about_all = re.sub(r"The leak also shows[^.]*\.", "", outputs["report"])  # less what is said of a class alone
        about_pairs = {m.groups()[:2] for m in COUNT.finditer(about_all) if m[3] == "pairs"}
        assert about_pairs == {opening[:2]}


def test_rates_at_a_calibrated_threshold_have_a_name_of_their_own(run, outputs):
    folder, _ = run
    decided = invoke(folder, "decide", folder, "--fpr", str(LEVEL))
    for text in (decided, outputs["report"]):
        assert "realised FPR" in text
    assert "realised TPR" in decided
    assert not re.search(r"(?<!realised )\bTPR\b", decided)
