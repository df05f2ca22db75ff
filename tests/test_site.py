"""The documentation as it is read: sample reports that open, and a search that finds the page on the task first."""

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[1]
SAMPLES = {  # sample report → how its verdict begins, which its page and the gallery say alike
    "audit": "Leak found",
    "identification": "Training data identified",
    "synthetic": "Leak found",
    "erasure": "Still remembered",
    "cohorts": "It can be told which cohorts were used, if the numbers were fitted as assumed",
    "settings": "Privacy against utility",
}
SEARCHES = {  # what somebody types → the page that is to be found first
    "gate CI": "pipelines",
    "references": "references",
    "synthetic table": "synthetic",
    "python audit": "audit",
    "exit code": "reference/commands",
    "extract documents": "language_models",
    "forget": "erasure",
    "GPU": "cluster",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that a strict build writes without any data but what this clone holds."""
    pytest.importorskip("material", reason="the documentation is made with mkdocs-material")
    folder = tmp_path_factory.mktemp("site")
    paths = ":".join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {name: value for name, value in os.environ.items() if name != "DIVULGE_DATA"}
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "mkdocs.yml", "-d", folder],
        env=environment | {"PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Where a server on this machine shows the site."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium: none of chromium, chromium-browser, google-chrome is on the path")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def test_the_gallery_quotes_and_links_every_sample(site):
    gallery = (site / "gallery" / "index.html").read_text("utf-8")
    for name, verdict in SAMPLES.items():
        assert f'href="{name}.html"' in gallery, f"docs/gallery.md: link gallery/{name}.html"
        assert re.search(rf"<blockquote>\s*<p>{verdict}", gallery), f"docs/gallery.md: quote {{{{ {name} }}}}"
    assert "{{" not in gallery
    written = {path.stem for path in (site / "gallery").glob("*.html")} - {"index"}
    assert written == set(SAMPLES), "docs/gallery.md and examples/gallery.py: a sample of each, or of none"


def test_every_sample_opens_draws_its_charts_and_asks_for_nothing_else(address, chromium):
    for name, verdict in SAMPLES.items():
        tab = chromium.new_page()
        complaints, requests = [], []
        tab.on("console", lambda message, complaints=complaints: complaints.append(message.text))
        tab.on("request", lambda request, requests=requests: requests.append(request.url))
        tab.goto(f"{address}gallery/{name}.html")
        assert verdict in tab.locator(".verdict").inner_text()
        assert "2026-01-01" in tab.locator(".facts").inner_text()  # the same from build to build
        if tab.locator(".plot").count():
            tab.wait_for_function("document.documentElement.dataset.drawn === 'yes'", timeout=60_000)
        assert complaints == []
        assert requests == [f"{address}gallery/{name}.html"]
        tab.close()


def test_the_search_finds_the_page_on_the_task_first(address, chromium):
    tab = chromium.new_page()
    found = {}
    for words in SEARCHES:
        tab.goto(address)
        tab.keyboard.press("/")
        tab.locator("input.md-search__input").press_sequentially(words)
        first = tab.locator(".md-search-result__item a").first
        first.wait_for(timeout=60_000)
        tab.wait_for_timeout(500)  # results follow each letter
        found[words] = first.get_attribute("href").split("?")[0].removeprefix(address).strip("./")
    tab.close()
    assert found == SEARCHES, "raise or lower the page in docs/hooks.py, or name these words under its tags"
