"""`divulge view` among runs that somebody forged, replaces or booby-traps, and at its end."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from divulge import run_directory
from run_directories import LEAKS, TRAPS, WRITERS, drop_from_mark, forge_verdict, write_audit

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and FIFOs are POSIX")

COMMAND = "from divulge.cli import main; main()"


def start(folder, code=COMMAND):
    """A real server, and the address that it printed."""
    command = [sys.executable, "-c", code, "view", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    return process, re.fullmatch(r"Open (http://127\.0\.0\.1:\d+/\?token=\S+)\n", line)[1]


def end(process):
    """End it by one Ctrl-C; whoever does not end then is killed, and the test fails."""
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("one Ctrl-C does not end it") from None
    assert (process.returncode, err) == (0, "")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A folder, and a client of one server of its runs, which one Ctrl-C ends after all it was asked."""
    folder = tmp_path_factory.mktemp("served")
    process, address = start(folder)
    with httpx.Client(base_url=address.partition("?")[0], follow_redirects=True, timeout=60) as client:
        client.get(address)
        yield folder, client
    end(process)


@pytest.fixture
def served(server):
    """That folder, empty again, and the client."""
    for path in server[0].iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return server


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for run_kind, write in WRITERS.items():
        write(folder / run_kind)
    return folder


def links(client):
    return re.findall(r'href="(/runs/\w+)"', client.get("/").text)


@pytest.mark.parametrize("run_kind", WRITERS)
def test_a_forged_summary_and_a_forged_report_change_nothing_that_is_shown(runs, served, run_kind):
    folder, client = served
    shutil.copytree(runs / run_kind, folder / "run")
    forge_verdict(folder / "run", run_kind)
    (folder / "run" / "report.html").write_text("No leak found.")
    (address,) = links(client)
    for page in ("/", address, f"{address}/report"):
        answer = client.get(page)
        assert answer.status_code == 200
        assert "No leak found" not in answer.text
        page_text = re.sub(r"[\s\u00a0]+", " ", re.sub("<[^>]*>", "", answer.text))
        # The list shows the first sentence alone, which of attributes is the answer.
        expected = "▲ leak found." if (run_kind, page) == ("attributes", "/") else LEAKS[run_kind]
        assert expected.lower() in page_text.lower(), page


def test_a_verdict_is_computed_again_when_a_file_changes(runs, served, tmp_path):
    folder, client = served
    shutil.copytree(runs / "audit", folder / "run")
    assert LEAKS["audit"] in client.get("/").text
    write_audit(tmp_path / "other", leak=0.0)
    shutil.copy(tmp_path / "other" / "scores.parquet", folder / "run")
    assert "scores.parquet: damaged" in client.get("/").text
    shutil.rmtree(folder / "run")
    shutil.copytree(tmp_path / "other", folder / "run")
    assert LEAKS["audit"] not in client.get("/").text
    assert "damaged" not in client.get("/").text


@pytest.mark.parametrize("run_kind", ["audit", "identification", "erasure", "synthetic"])
def test_no_page_waits_for_any_file(runs, served, run_kind):
    """A FIFO in the place of each file: list, page, report, decision and comparison answer, and one Ctrl-C ends it."""
    folder, client = served
    names = sorted(path.name for path in (runs / run_kind).iterdir() if path.name != run_directory.MANIFEST_NAME)
    for name in names:
        run = folder / f"run-{name}"
        shutil.copytree(runs / run_kind, run)
        (run / name).unlink()
        os.mkfifo(run / name)
        drop_from_mark(run, name)
    shutil.copytree(runs / "audit", folder / "sound")
    addresses = links(client)
    assert len(addresses) == len(names) + 1
    for address in addresses[:-1]:
        query = f"?run={address.split('/')[-1]}&run={addresses[-1].split('/')[-1]}"
        for page in (address, f"{address}/report", f"{address}/decision?level=0.1", f"/compare{query}"):
            assert client.get(page).status_code in (200, 400)


@pytest.mark.parametrize("run_kind", ["audit", "extraction"])
def test_traps_are_shown_as_what_they_are(runs, served, run_kind):
    folder, client = served
    for trap in TRAPS:
        for name in ("summary.json", "scores.parquet", "counts.npz", "scores.npz", "documents.parquet"):
            if (runs / run_kind / name).exists():
                run = folder / f"{trap.__name__}-{name}"
                shutil.copytree(runs / run_kind, run, ignore=lambda *_: ["report.html"])
                (run / name).rename(run / f"{name}.was")
                trap(run / name)
                drop_from_mark(run, name)
    addresses = links(client)
    assert len(addresses) == len(list(folder.glob("put_*")))
    for address in addresses[::3]:
        for page in (address, f"{address}/decision?level=0.1", f"{address}/report"):
            assert client.get(page).status_code in (200, 400)


def test_runs_that_are_replaced_meanwhile_are_whole_or_said_to_be_replaced(runs, served, tmp_path):
    """One thread puts other runs in the place of one, in both ways, while another asks for every page."""
    folder, client = served
    versions = [tmp_path / "leaky", tmp_path / "clean"]
    for version, leak in zip(versions, (4.0, 0.0), strict=True):
        write_audit(version, leak=leak)
        (version / "report.html").write_text("short")
    shutil.copytree(versions[0], folder / "run")
    shutil.copytree(runs / "identification", folder / "other")
    addresses = links(client)
    pages = ["/", *addresses, *(f"{address}/decision?level=0.1" for address in addresses)]
    pages += [f"/compare?before={addresses[0].split('/')[-1]}&after={addresses[1].split('/')[-1]}"]
    result = threading.Event()

    def replace():
        count = 0
        while not result.is_set():
            count += 1
            fresh = tmp_path / f"fresh{count}"
            shutil.copytree(versions[count % 2], fresh)
            if count % 3:
                shutil.rmtree(folder / "run")
                fresh.rename(folder / "run")
            else:  # file by file
                shutil.copytree(fresh, folder / "run", dirs_exist_ok=True)

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        answers = [(page, client.get(page)) for _ in range(6) for page in pages]
    finally:
        result.set()
        replacing.join()
    assert not {(page, answer.text[:200]) for page, answer in answers if answer.status_code == 500}
    assert {answer.status_code for _, answer in answers} <= {200, 400, 404, 503}
    for _, answer in answers:
        if answer.status_code == 503:
            assert "being replaced" in answer.text
    assert any(answer.status_code == 200 for _, answer in answers)
    assert client.get("/").status_code == 200


SLOW = """
import threading
from divulge.report.run_kinds import RunKind
def open_slowly(kind, *arguments):
    print("entered", flush=True)
    threading.Event().wait()
RunKind.open = open_slowly
"""


def test_one_ctrl_c_ends_it_while_an_answer_is_computed_and_another_is_awaited(runs):
    process, address = start(runs, SLOW + COMMAND)
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port)) as half:
        half.sendall(b"GET / HTTP/1.1\r\nHost: 127")  # and never the rest
        token = url.params["token"]
        slow = socket.create_connection((url.host, url.port))
        slow.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: divulge-view={token}\r\n\r\n".encode())
        assert process.stdout.readline() == "entered\n"
        end(process)
        slow.close()


def test_one_ctrl_c_ends_it_with_a_fifo_among_its_runs(runs, tmp_path):
    shutil.copytree(runs / "audit", tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    os.mkfifo(tmp_path / "run" / "summary.json")
    process, address = start(tmp_path)
    assert httpx.get(address, follow_redirects=True).status_code in (200, 403)
    end(process)


def test_json_and_gate_and_view_say_the_same(runs, served, divulge, tmp_path):
    folder, client = served
    shutil.copytree(runs / "audit", folder / "run")
    forge_verdict(folder / "run", "audit")
    assert divulge("report", folder / "run", "--format", "json", "--to", tmp_path / "told.json")[0] == 0
    verdict = json.loads((tmp_path / "told.json").read_text())["results"]["verdict"]
    assert verdict["answer"] == "leak found"
    assert divulge("gate", folder / "run", "--max", "auc:0.55")[0] == 1
    assert verdict["text"].partition(".")[0] in client.get(links(client)[0]).text
