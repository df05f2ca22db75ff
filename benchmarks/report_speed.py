"""How long a report of a million scored records takes to be saved and to open, and how large it is.

python benchmarks/report_speed.py [--records 1000000] [--recipes 3]

An audit of score tables (ten classes, two false-positive rates), and an identification of a table with ids, a score
and known membership. Where Playwright and Chromium are there, each report is opened five times in a fresh browser: the
median time from navigation to first contentful paint, and until every chart is drawn.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from divulge.decisions import methods
from divulge.identification import decision, from_tables, score_tables
from divulge.run_directory import RunDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import score_audits

N_OPENINGS = 5
_NOTE = """new MutationObserver(() => {
  if (document.documentElement?.dataset.drawn) window.allDrawn ??= performance.now();
}).observe(document, {attributes: true, childList: true, subtree: true});"""


def audit(out: Path, records: int, recipes: int) -> float:
    """Processor seconds that an audit of so many records takes to be saved."""
    rng, members = np.random.default_rng(0), score_audits.sizes(records // 2, records - records // 2)
    scores = {f"recipe {i}": rng.normal(size=records) + 0.5 * members * i for i in range(1, recipes + 1)}
    calibration = {name: rng.normal(size=20_000) for name in scores}
    labels = rng.integers(0, 10, records)
    result = score_audits.scored(scores, members, calibration=calibration, fpr=(0.01, 0.001), labels=labels)
    begun = time.process_time()
    with RunDirectory(out).writing("audit", "benchmark") as draft:
        result.save(draft)
    return time.process_time() - begun


def identification(out: Path, records: int) -> float:
    """Processor seconds that an identification among so many documents takes, from its tables to its report."""
    rng = np.random.default_rng(0)
    members = rng.random(records) < 0.3
    files = [out.parent / f"{name}.parquet" for name in ("candidates", "calibration")]
    loss, ids = 3 + rng.normal(size=records) - 2.2 * members, [f"document {i}" for i in range(records)]
    pl.DataFrame({"id": ids, "loss": loss, "member": members}).write_parquet(files[0])
    n_others = records // 10
    pl.DataFrame({"id": [f"other {i}" for i in range(n_others)], "loss": 3 + rng.normal(size=n_others)}).write_parquet(
        files[1]
    )
    table = score_tables.scan_scores(files[:1], "candidates")
    columns = score_tables.resolve_columns(table, ["loss:low"], id="id", text=None, truth="member")
    policy = decision.Policy(0.05, methods.resolve_method("auto", decision.METHODS))
    begun = time.process_time()
    from_tables.run(files[:1], files[1:], out, from_tables.DecisionPlan(columns, policy))
    return time.process_time() - begun


def opened(report: Path) -> tuple[float, float] | None:
    """Median seconds to first paint and until all is drawn; None without a browser."""
    try:
        from playwright import sync_api
    except ImportError:
        return None
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        return None
    paints, draw_seconds = [], []
    with sync_api.sync_playwright() as started:
        for _ in range(N_OPENINGS):
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.add_init_script(_NOTE)
            tab.goto(report.as_uri())
            tab.wait_for_function("window.allDrawn")
            draw_seconds.append(tab.evaluate("window.allDrawn") / 1000)
            paints.append(
                tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN") / 1000
            )
            browser.close()
    return statistics.median(paints), statistics.median(draw_seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--recipes", type=int, default=3)
    arguments = parser.parse_args()
    print("| run | records | saved, processor s | report, MB | first paint, s | all drawn, s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("audit", "identification"):
            out = Path(folder) / name
            seconds = (
                audit(out, arguments.records, arguments.recipes)
                if name == "audit"
                else identification(out, arguments.records)
            )
            report = out / "report.html"
            times = opened(report)
            times_text = "– | –" if times is None else f"{times[0]:.2f} | {times[1]:.2f}"
            size = report.stat().st_size / 1e6
            print(f"| {name} | {arguments.records:,} | {seconds:.1f} | {size:.2f} | {times_text} |", flush=True)


if __name__ == "__main__":
    main()
