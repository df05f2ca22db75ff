"""`divulge view` as a server and in a real browser: what it shows, and to whom."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import cli, provenance
from divulge.viewing import Shelf

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

COMMAND = [sys.executable, "-c", "from divulge.cli import main; main()"]


def model(x):
    return np.stack([x[:, 0], -x[:, 0]], axis=1)


def records(rng, n, shift=0.0):
    return dv.Records(rng.normal(size=(n, 2)) + shift, rng.integers(0, 2, n))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two audits of the same candidates and an identification, one folder below another."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    arguments = {"members": records(rng, 150), "nonmembers": records(rng, 150), "population": records(rng, 200)}
    for name in ("before", "team/after"):
        dv.audit(model, recipes=["loss"], fpr=(0.1,), out=folder / name, **arguments)
    pl.DataFrame({"score": rng.normal(size=200) + 2}).write_csv(folder / "candidates.csv")
    pl.DataFrame({"score": rng.normal(size=400)}).write_csv(folder / "calibration.csv")
    tables = [folder / "candidates.csv", "--calibration", folder / "calibration.csv", "--score", "score"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert cli.run(["identify", *map(str, tables), "--out", str(folder / "texts")]) == 0
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def address(runs):
    process = subprocess.Popen(
        [*COMMAND, "view", str(runs), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = process.stdout.readline()
    yield re.fullmatch(r"Open (http://127\.0\.0\.1:\d+/\?token=\S+)\n", line)[1]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert not err


@pytest.fixture
def client(address):
    with httpx.Client(base_url=address.partition("?")[0], follow_redirects=True, timeout=60) as client:
        assert client.get(address).status_code == 200
        yield client


def keys(runs):
    return {entry.name.partition("/")[2]: entry.key for entry in Shelf((runs,)).entries()}


def digests(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_readable_runs_are_listed_and_filtered(client, runs):
    page = client.get("/").text
    assert "3 of 3 runs" in page
    for name in ("before", "team/after", "texts"):
        assert f"{runs.name}/{name}</a>" in page
    assert "1 of 3 runs" in client.get("/?kind=identification").text
    assert "2 of 3 runs" in client.get("/?kind=audit&words=").text
    assert "1 of 3 runs" in client.get("/?words=team").text


def test_other_thresholds_are_decided_by_the_library_and_nothing_is_changed(client, runs):
    before = digests(runs)
    audit = dv.audit  # the very functions that the pages call
    assert audit
    from divulge import auditing
    from divulge.identification import finished_run

    loaded = auditing.load(runs / "before")
    for level in (0.05, 0.2):
        page = client.get(f"/runs/{keys(runs)['before']}/decision?level={level}").text
        assert f"<td>{loaded['loss'].selection(fpr=level).count}</td>" in page
        page = client.get(f"/runs/{keys(runs)['texts']}/decision?level={level}").text
        assert f"<td>{finished_run.preview(runs / 'texts', level).selected} of 200</td>" in page
    assert digests(runs) == before


def test_a_run_with_too_few_calibration_records_for_a_level_is_shown_with_the_reason(client, runs):
    page = client.get(f"/runs/{keys(runs)['before']}?level=0.0001")
    assert page.status_code == 200
    assert "known non-members are needed" in page.text
    assert "/report" in page.text
    assert (
        f'value="{dv.results.read_summary(runs / "before", dv.results.AuditSummary).fpr[0]:g}"'
        in client.get(f"/runs/{keys(runs)['before']}").text
    )


def test_a_preview_is_what_deciding_again_would_give(runs, tmp_path, divulge):

    from divulge.identification import finished_run

    shutil.copytree(runs / "texts", tmp_path / "texts")
    for level in (0.01, 0.1, 0.3):
        preview = finished_run.preview(tmp_path / "texts", level)
        decided = dv.identification.redecide(tmp_path / "texts", fdr=level, method="storey")
        assert (preview.selected, preview.candidates, preview.claim) == (
            decided.selected, decided.candidates, decided.claim,
        )  # fmt: skip


def test_two_audits_are_compared(client, runs):
    run_keys = keys(runs)
    page = client.get(f"/compare?run={run_keys['team/after']}&run={run_keys['before']}").text
    assert "<td>loss</td><td>AUC</td>" in page
    assert f'Before: <a href="/runs/{run_keys["before"]}">' in page  # the earliest, in whatever order they were chosen
    report = client.get(f"/compare/report?run={run_keys['before']}&run={run_keys['team/after']}")
    assert "What a defence changed" in report.text
    assert "sandbox allow-scripts;" in report.headers["content-security-policy"]
    for query in (
        f"run={run_keys['before']}&run={run_keys['texts']}",
        f"run={run_keys['before']}",
        f"run={run_keys['before']}&run={run_keys['before']}",
        "",
    ):
        for path in ("/compare", "/compare/report"):
            failed = client.get(f"{path}?{query}")
            assert failed.status_code == 400
            assert "Not shown" in failed.text
    assert client.get(f"/compare?run={run_keys['before']}&run=none").status_code == 404


def test_a_run_is_offered_the_other_audits_to_be_compared_with_and_no_other_kind(client, runs):
    run_keys = keys(runs)
    for name, names_offered in (("before", {"team/after"}), ("team/after", {"before"}), ("texts", set())):
        page = client.get(f"/runs/{run_keys[name]}").text
        assert set(re.findall(r'<option value="([^"]+)">', page)) == {
            run_keys[name_offered] for name_offered in names_offered
        }


def test_a_run_is_decided_again_only_after_one_of_its_files_has_changed(runs):
    shelf = Shelf((runs,))
    entries, repeat = shelf.entries(), shelf.entries()
    assert len(entries) == 3
    assert all(entry is repeated_entry for entry, repeated_entry in zip(entries, repeat, strict=True))
    os.utime(runs / "before" / "run.json")
    later = shelf.entries()
    changed = [entry.name for entry, repeated_entry in zip(entries, later, strict=True) if entry is not repeated_entry]
    assert changed == [f"{runs.name}/before"]
    assert later == entries


def test_dates_are_those_of_the_runs(client, runs):
    dates = {entry.name: entry.date for entry in Shelf((runs,)).entries()}
    for name in ("before", "team/after"):
        origin = provenance.read_provenance(runs / name).date
        assert dates[f"{runs.name}/{name}"] == origin
        os.utime(runs / name / "run.json", (0, 0))  # as a copy would
        assert {entry.name: entry.date for entry in Shelf((runs,)).entries()}[f"{runs.name}/{name}"] == origin
        assert f'<time datetime="{origin}">{origin[:10]} {origin[11:16]} UTC</time>' in client.get("/").text


def test_the_list_says_of_a_finding_that_it_is_in_doubt(client, runs):
    entry = Shelf((runs,)).entry(keys(runs)["texts"])
    assert entry.tone == "doubt"  # there was no second set of known non-members
    assert entry.first_sentence.startswith("In doubt: ")
    assert entry.first_sentence in client.get("/").text


def test_rows_can_be_chosen_where_there_is_something_to_compare(client, runs):
    page = client.get("/").text
    for name in ("before", "team/after"):
        assert f'aria-label="Compare {runs.name}/{name}"' in page
    assert page.count('type="checkbox"') == 2  # an identification has nothing to compare
    assert "checkbox" not in client.get("/?kind=identification").text


@pytest.mark.parametrize("level", ["0", "1", "nan", "inf", "-1", "x", "", "<b>"])
def test_a_level_that_is_none_is_refused_in_words(client, runs, level):
    answer = client.get(f"/runs/{keys(runs)['before']}/decision", params={"level": level})
    assert answer.status_code == 400
    assert "level" in answer.text
    assert "<b>" not in answer.text


@pytest.mark.parametrize(
    "path",
    ["/runs/none", "/runs/none/report", "/runs/..%2f..%2fetc/report", "/assets/..%2fserver.py", "/assets/server.py"],
)
def test_no_address_leads_out_of_the_directories(client, path):
    assert client.get(path).status_code == 404


def test_a_report_is_made_of_the_scores_and_has_no_origin(client, runs, tmp_path):
    key = keys(runs)["before"]
    answer = client.get(f"/runs/{key}/report")
    assert answer.content == (runs / "before" / "report.html").read_bytes()
    assert "sandbox allow-scripts;" in answer.headers["content-security-policy"]
    assert "allow-same-origin" not in answer.headers["content-security-policy"]
    (tmp_path / "secret.html").write_text("secret")
    report_file = runs / "before" / "report.html"
    moved = report_file.rename(tmp_path / "report.html")
    report_file.symlink_to(tmp_path / "secret.html")
    try:
        assert client.get(f"/runs/{key}/report").content == answer.content
    finally:
        report_file.unlink()
        shutil.move(moved, report_file)


def test_only_whoever_has_the_token_may_read_and_nobody_may_write(address, runs):
    home = address.partition("?")[0]
    assert httpx.get(home).status_code == 403
    assert httpx.get(f"{home}?token=wrong").status_code == 403
    assert httpx.get(f"{home}runs/{keys(runs)['before']}/report", cookies={"divulge-view": "wrong"}).status_code == 403
    assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 400
    for method in ("POST", "PUT", "DELETE"):
        assert httpx.request(method, address).status_code == 405
    entered = httpx.get(address)
    assert entered.status_code == 303
    assert "token" not in entered.headers["location"]
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert "samesite=strict" in entered.headers["set-cookie"].lower()


def test_directories_and_ports_that_cannot_be_had_are_refused(divulge, tmp_path, runs):
    import socket

    assert "no such directory" in divulge("view", tmp_path / "none")[2]
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        code, _, err = divulge("view", runs, "--port", busy_socket.getsockname()[1])
    assert code == 2
    assert "--port" in err


@pytest.mark.browser
def test_the_slider_moves_the_selection_in_a_browser(address, runs):
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium is on the path")
    from divulge.identification import finished_run

    with playwright.sync_playwright() as started:
        flags = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = started.chromium.launch(executable_path=path, args=flags)
        page = browser.new_page(viewport={"width": 400, "height": 800})
        complaints = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(address)
        assert "token" not in page.url
        held_scripts = []
        page.route("**/view.js", lambda route: held_scripts.append(route))
        page.get_by_role("link", name=f"{runs.name}/texts").click()
        page.get_by_label("FDR of at most").fill("0.3")
        assert held_scripts, "the level is typed before the script has come"
        held_scripts[0].continue_()
        page.wait_for_selector("#decision[data-level='0.3']")
        assert f"{finished_run.preview(runs / 'texts', 0.3).selected} of 200" in page.locator("#decision").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link", name="Report").click()
        page.wait_for_selector("h1")
        assert page.evaluate("location.origin + window.origin").endswith("null")
        browser.close()
    assert not [text for text in complaints if "sandbox" not in text]
