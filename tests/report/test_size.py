"""A report stays small enough to mail and quick enough to open, however much was audited; times: report_speed.py."""

import numpy as np

from divulge.report import charts, html
from divulge.report.charts import Curve
from divulge.report.page import Chart, Page, Section
from score_audits import scored

MAX_BYTES = 1_500_000


def test_an_audit_of_many_recipes_classes_and_people_is_at_most_one_and_a_half_megabytes():
    rng, members = np.random.default_rng(0), np.arange(945) % 2 == 0
    scores = {f"recipe {i}": rng.normal(size=945) + members * i / 6 for i in range(4)}
    audit = scored(scores, members, fpr=(0.05, 0.1), labels=np.arange(945) // 2 % 10)
    object.__setattr__(audit, "groups", np.array([f"person {i // 3}" for i in range(945)]))
    page = audit.page(related={})
    document = html.render(page)
    assert len(document.encode()) < MAX_BYTES
    assert "Of 315, the 300 with the largest AUC are listed" in document


def test_sixty_curves_do_not_make_a_page_large():
    rates = np.linspace(0, 1, 5_000)
    curves = {f"attack {i}": Curve(rates, rates**0.5, rates, rates**0.25) for i in range(60)}
    spec = charts.roc(curves, focus="attack 0")
    page = Page("t", "v", "plain", (Section("s", (Chart(spec), Chart(spec))),))
    assert len(html.render(page).encode()) < MAX_BYTES


def test_points_of_several_groups_share_what_one_may_have():
    cloud = np.random.default_rng(0).normal(size=(2, 2_000))
    spec = charts.scatter({f"group {i}": tuple(cloud) for i in range(3)}, x="x", y="y")
    assert len(spec["data"]["values"]) == charts.CLOUD_POINTS
