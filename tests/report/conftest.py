"""A realistic report with every kind of block, and a real browser to look at it."""

import shutil

import numpy as np
import pytest

from divulge import report
from divulge.report import Bullet, BulletList, Collapsible, DotGrid, DotGrids, Link, Slider, SliderPosition, charts
from divulge.report.charts import Curve
from divulge.report.page import Chart, Exhibit, Gallery, Page, Paragraph, Section, Table
from divulge.types import Estimate


def estimate(value, half):
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), 0.95, "delong")


def roc_curve(power, n=10_000):
    fpr = np.arange(n + 1) / n
    tpr = np.clip(fpr**power + 0.02 * (1 - power) ** 2, 0, 1)
    half = 1.96 * np.sqrt(tpr * (1 - tpr) / 2_000)
    return Curve(fpr, tpr, np.clip(tpr - half, 0, 1), np.clip(tpr + half, 0, 1))


def all_charts(rng):
    names = ["LOSS", "calibrated", "LiRA offline, variance global", "LiRA online", "RMIA γ = 2", "quantile regression"]
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    shares = np.array([0.1, 0.2, 0.35, 0.5, 0.75, 1.0])
    x = np.linspace(-1.2, 1.2, 900)
    breaks = np.array([-0.8, -0.3, 0.1, 0.55, 0.9])
    phi = -1.0 + sum(s * np.maximum(x - b, 0) for s, b in zip([4, -6, 5, -7, 8], breaks, strict=True))
    levels = np.array([0.001, 0.003, 0.01, 0.03, 0.1])
    margins = rng.uniform(0.5, 3, 4_000)
    return [
        Chart(
            charts.roc(
                {name: roc_curve(p) for name, p in zip(names, [0.92, 0.8, 0.62, 0.48, 0.45, 0.7], strict=True)},
                focus=names[4],
            ),
            "Detection at small false positive rates",
            "ROC on logarithmic axes; bands are 95 % pointwise intervals, the dashed diagonal is guessing.",
        ),
        Chart(
            charts.intervals(
                {n: estimate(v, 0.02) for n, v in zip(names, [0.58, 0.64, 0.71, 0.77, 0.78, 0.66], strict=True)},
                quantity="AUC",
                reference=0.5,
            ),
            "AUC of every attack",
            "Dots are estimates, whiskers 95 % intervals; the dashed line is guessing.",
        ),
        Chart(
            charts.bars(
                classes,
                [estimate(v, 0.03) for v in np.linspace(0.04, 0.22, 10)],
                quantity="TPR at FPR 1 %",
                unseen=[False] * 8 + [True] * 2,
                reference=0.01,
            ),
            "Exposure by class",
            "Filled diamonds are classes of which the auditor had no record.",
        ),
        Chart(
            charts.histogram(
                {"members": rng.normal(0.8, 1.1, 5_000), "non-members": rng.normal(0, 1, 5_000)}, quantity="LiRA score"
            ),
            "Scores of members and non-members",
            "Share of each group in each of 50 bins.",
        ),
        Chart(
            charts.lines(
                {
                    "completion": Curve(shares, 0.5 + 0.28 * shares, 0.48 + 0.26 * shares, 0.52 + 0.3 * shares),
                    "mean imputation": Curve(shares, 0.5 + 0.2 * shares**2),
                },
                x="known share of the record",
                y="AUC",
                reference=0.5,
            ),
            "AUC by known share",
            "Bands are 95 % intervals over five seeds.",
        ),
        Chart(
            charts.scatter(
                {
                    "member": (margins, np.abs(margins + rng.normal(0, 0.02, 4_000))),
                    "fresh point": (margins, np.abs(rng.normal(1.4, 0.8, 4_000))),
                },
                x="margin of the class",
                y="|Φ(x)|",
                horizontal={"margin": 1.0},
            ),
            "Outputs against the margin",
            "Members lie on the margin.",
        ),
        Chart(
            charts.network(
                x,
                phi,
                break_points=breaks,
                margin=1.0,
                crossings=[-0.3, 0.1],
                candidates=[-0.3, 0.1, 0.55],
                truth=[-0.31, 0.1, 0.8],
            ),
            "What the weights give away",
            "Candidates are read off the break-points alone.",
        ),
        Chart(
            charts.calibration(
                {
                    "conformal": Curve(levels, levels * 1.02, levels * 0.8, levels * 1.3),
                    "raw": Curve(levels, np.r_[0, levels[1:] * 3]),
                }
            ),
            "Is the false positive rate kept?",
            "On or under the diagonal it is.",
        ),
    ]


def rows_of_three():
    return [("lira", "0.71 [0.69, 0.73]"), ("rmia", "0.78 [0.76, 0.80]"), ("loss", "0.58 [0.56, 0.60]")]


@pytest.fixture(scope="session")
def page():
    rng = np.random.default_rng(0)
    pictures = [
        Exhibit(f"record {i}: Ankle boot, score {4.2 - i / 7:.2f}", report.thumbnail(rng.random((28, 28)) ** 2))
        for i in range(8)
    ]
    documents = [
        Exhibit("doc-00017, p = 0.0003", text="The quick brown fox jumps over the lazy dog. " * 8),
        Exhibit("doc-00902, p = 0.0007", text="Row values: age 39, education 13, hours per week 40."),
    ]
    rows = [
        ("LiRA online", "0.771 [0.752, 0.790]", "12.3 % [10.1, 14.8]", "0.43 [0.31, 0.52]", "64"),
        ("RMIA", "0.780 [0.761, 0.799]", "13.0 % [10.8, 15.5]", "0.47 [0.35, 0.55]", "64"),
        ("LOSS", "0.581 [0.559, 0.603]", "1.2 % [0.6, 2.2]", "0.00 [0.00, 0.11]", "1"),
    ]
    chart_list = all_charts(rng)
    return Page(
        title="Membership audit of fashion-mlp-256",
        verdict="Membership leaks. RMIA finds 13.0 % of the training records at a false positive rate of 0.1 % "
        "(95 % interval 10.8 % to 15.5 %), given class probabilities and 64 reference models.",
        tone="leak",
        facts={
            "Date": "2031-05-04",
            "Version": "0.1.0",
            "Seed": "7",
            "Records": "5,000 members, 5,000 non-members",
            "Data digest": "sha256:" + "9f" * 32,
        },
        pictures=(
            DotGrid("13 of 100 (11 to 16) are recognised", 13, 100, 11, 16),
            DotGrid("1 of 1,000 others", 1, 1000),
        ),
        details=("The adversary needs class probabilities and 64 reference models.",),
        sections=(
            Section(
                "Attacks",
                (
                    Paragraph("Every attack saw the same candidates. Intervals have a confidence of 95 %."),
                    Table(
                        ("attack", "AUC", "TPR at FPR 0.1 %", "ε lower bound", "queries a record"),
                        rows,
                        "What each attack finds",
                        "DeLong for AUC; Clopper-Pearson for rates.",
                    ),
                    chart_list[0],
                    chart_list[1],
                    chart_list[3],
                ),
            ),
            Section(
                "Classes",
                (
                    chart_list[2],
                    Slider(
                        "false-positive rate",
                        [
                            SliderPosition(f"{i} %", f"{3 * i} of 100 are recognised.", (DotGrid("", 3 * i, 100),))
                            for i in (1, 2, 3)
                        ],
                        start=1,
                        title="At which price",
                    ),
                    BulletList((Bullet("Regularise.", "The AUC fell.", "benchmarks"),)),
                    DotGrids((DotGrid("half", 50, 100),)),
                    Link("unseen/report.html", "unseen", "The same audit."),
                    Collapsible("All recipes", (Table(("recipe", "AUC"), rows_of_three()), Paragraph("Folded away."))),
                ),
            ),
            Section("Partial records", (chart_list[4],)),
            Section("Weights", (chart_list[5], chart_list[6])),
            Section("Guarantees", (Paragraph("FPR ≤ 0.01, assuming exchangeable calibration records."), chart_list[7])),
            Section(
                "Most exposed records",
                (Gallery(pictures, "Images", "Highest scores first."), Gallery(documents, "Documents")),
            ),
        ),
    )


@pytest.fixture(scope="module")
def chromium():
    """A browser for one file of tests: while it lives, its event loop occupies the thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    result = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if result is None:
        pytest.skip("no Chromium: none of chromium, chromium-browser, google-chrome is on the path")
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=result, args=flags)
        yield browser
        browser.close()
