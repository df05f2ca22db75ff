"""A result in a notebook: verdict, numbers and picture; one number in every output; runs loaded, compared, gated."""

import html.parser
import json

import altair as alt
import numpy as np
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge.auditing import Verdict
from divulge.auditing.checks.target_fit import describe_fit
from divulge.auditing.compare import Comparison, judge_ending
from divulge.auditing.gates import gate
from divulge.references.progress import check_progress, show_progress
from divulge.report import html as report_html
from divulge.report import notebook
from divulge.results import Accuracy, ClassifierFit
from divulge.types import Estimate
from score_audits import scored, sizes, with_findings

EVIL = "<img src=x onerror=alert(1)>&\"'"


def leaking(shift, n=300, recipes=("loss", "lira"), seed=0):
    rng, members = np.random.default_rng(seed), sizes(n, n)
    return scored({name: rng.normal(size=2 * n) + shift * members for name in recipes}, members, fpr=(0.01, 0.1))


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory):
    """An audit of a model that knows one column of its training records, in its run directory."""
    folder, rng = tmp_path_factory.mktemp("runs") / "first", np.random.default_rng(0)
    x, y = rng.normal(size=(600, 2)), rng.integers(0, 2, 600)
    parts = [dv.Records(x[rows], y[rows]) for rows in (slice(0, 200), slice(200, 400), slice(400, 600))]
    result = dv.audit(
        lambda a: np.c_[a[:, 0], -a[:, 0]],
        members=parts[0], nonmembers=parts[1], population=parts[2], recipes=["loss"], out=folder,
    )  # fmt: skip
    return result, folder


class Checker(html.parser.HTMLParser):
    """Every tag that is opened is closed, and none of them runs or loads anything."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.seen.append(tag)
        if tag not in ("br", "line", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert not {"script", "iframe", "img", "style", "link"} & set(checker.seen)
    return checker


@pytest.mark.parametrize(("shift", "heading", "sign"), [(1.0, "Leak found", "▲"), (0.0, "No leak found", "✓")])
def test_a_notebook_shows_verdict_numbers_and_picture(shift, heading, sign):
    audit = leaking(shift)
    html_text = audit._repr_html_()
    tags = parsed(html_text).seen
    assert f"{sign} {heading}<" in html_text
    assert audit.verdict.plain.split(":")[0] in html_text
    assert tags.count("circle") == 2
    for name in audit:
        area = audit[name].auc
        assert f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]" in html_text


def test_names_are_shown_and_never_run():
    audit = leaking(1.0, recipes=(EVIL,))
    parsed(audit._repr_html_())
    text = notebook.render(EVIL, EVIL, "leak", details=[EVIL], columns=[EVIL], rows=[[EVIL]], note=EVIL)
    parsed(text)
    assert "<img" not in text


def test_the_picture_shows_each_interval_where_it_is():
    estimates = {"a": Estimate(0.6, 0.5, 0.7, 0.95, "delong"), "b": Estimate(0.9, 0.8, 1.0, 0.95, "delong")}
    svg = notebook.draw_intervals(estimates, "AUC", 0.5)
    lines = [part.split('"') for part in svg.split("<line ")[2:]]
    (a_low, a_high), (b_low, b_high) = ([float(part[1]), float(part[3])] for part in lines)
    assert a_low < a_high < b_low < b_high
    assert (a_high - a_low) == pytest.approx(b_high - b_low, abs=0.2)
    same = notebook.draw_intervals({"a": Estimate(0.5, 0.5, 0.5, 0.95, "delong")}, "AUC", 0.5)
    assert "nan" not in same.lower()


def test_one_run_has_one_number_in_every_output(saved_run):
    audit, folder = saved_run
    summary = json.loads((folder / "summary.json").read_text())["recipes"]["loss"]
    frame = {row["statistic"]: row for row in dv.load(folder).to_frame().iter_rows(named=True)}
    page = report_html.render(audit.page())
    html_text = audit._repr_html_()
    levels = {f"tpr@fpr={level:g}": audit["loss"].tpr_at_fpr(level) for level in audit.fpr}
    for statistic, estimate in {"auc": audit["loss"].auc, **levels}.items():
        stored = summary["auc"] if statistic == "auc" else summary["tpr_at_fpr"][statistic.removeprefix("tpr@fpr=")]
        (ruling,) = dv.gate(folder, f"{statistic}:0.5")
        for end in ("value", "low", "high", "confidence"):
            numbers = [getattr(estimate, end), stored[end], frame[statistic][end], getattr(ruling.estimate, end)]
            assert numbers == pytest.approx([numbers[0]] * 4, rel=1e-12), (statistic, end)
    area = audit["loss"].auc
    words = f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
    assert words in page
    assert words in html_text
    compared = dv.compare(audit, folder)
    assert [repeated.before for repeated in compared.changes["first"]] == [
        repeated.after for repeated in compared.changes["first"]
    ]
    assert compared.changes["first"][0].before == area


def test_intervals_of_a_single_recipe_hold_together_with_the_verdict():
    audit = leaking(0.3)
    assert audit.confidence == pytest.approx(1 - 0.9 * 0.05 / (2 * (2 + 2)))
    assert audit["loss"].epsilon().confidence == audit["loss"].advantage.confidence == audit.confidence
    assert {ruling.estimate.confidence for ruling in gate(audit, ["auc:0.6", "tpr@fpr=0.1:0.5"])} == {audit.confidence}
    limits = [f"tpr@fpr={level}:0.5" for level in (0.1, 0.11, 0.12, 0.13, 0.14)]
    assert gate(audit, limits)[0].estimate.confidence == pytest.approx(1 - 0.9 * 0.05 / 10)


def test_results_become_frames_and_charts(saved_run):
    audit, _ = saved_run
    frame = audit.to_frame()
    assert frame.columns == ["recipe", "candidates", "statistic", "value", "low", "high", "confidence", "method"]
    assert frame.filter(pl.col("statistic") == "epsilon")["high"].to_list() == [None]
    chart = audit.plot()
    assert isinstance(chart, alt.LayerChart)
    assert '"series": "loss"' in json.dumps(chart.to_dict())


def test_short_names_for_what_is_printed(saved_run):
    audit, folder = saved_run
    assert repr(Estimate(0.5, 0.25, 1.0, 0.95, "delong")) == "Estimate(0.5000 [0.2500, 1.0000], 95 %, delong)"
    assert repr(Verdict("leak found", "About 7 of 100.", ("more",))) == "Verdict('leak found': About 7 of 100.)"
    assert repr(dv.load(folder)) == repr(audit)
    assert repr(dv.compare(folder, audit)) == "Comparison(run 2 with first; 2 changes each)"


def test_other_kinds_of_run_are_loaded_too(tmp_path, divulge):
    rng = np.random.default_rng(0)
    for name, scores in (("judged", np.r_[rng.normal(4, 1, 60), rng.normal(size=60)]), ("known", rng.normal(size=200))):
        pl.DataFrame({"id": [f"{name} {i}" for i in range(len(scores))], "score": scores}).write_csv(
            tmp_path / f"{name}.csv"
        )
    files = (tmp_path / "judged.csv", "--calibration", tmp_path / "known.csv")
    code, _, errors = divulge("identify", *files, "--score", "score:high", "--out", tmp_path / "found")
    assert code == 0, errors
    run = dv.load(tmp_path / "found")
    assert run.summary.selected == run.to_frame()["selected"].sum() > 40
    parsed(run._repr_html_())
    assert run.report(tmp_path / "page.html").is_file()
    assert "identification" in repr(run)
    with pytest.raises(dv.InputError, match="identification"):
        dv.compare(tmp_path / "found", tmp_path / "found")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    for use in (dv.load, lambda folder: dv.gate(folder, "auc:0.5"), lambda folder: dv.compare(folder, folder)):
        with pytest.raises(dv.InputError):
            use(tmp_path / "nothing")
    with pytest.raises(dv.InputError, match=r"run: a policy can hold an audit, .*, got 3"):
        dv.gate(3, "auc:0.5")
    with pytest.raises(dv.InputError, match="at least 2 are needed, got 1"):
        dv.compare(leaking(0.1))


def test_several_runs_are_compared_and_the_least_leaky_is_told_first():
    rng, members = np.random.default_rng(0), sizes(400, 400)
    noise = rng.normal(size=800)
    runs = {name: scored({"loss": noise + shift * members}, members) for name, shift in
            (("plain", 2.0), ("weak", 1.0), ("strong", 0.0))}  # fmt: skip
    compared = Comparison.from_runs(runs)
    confidences = {change.change.confidence for changes in compared.changes.values() for change in changes}
    assert confidences == {1 - 0.05 / compared.to_frame().height}
    heading, _, tone = judge_ending(compared.changes["weak"], runs["weak"])
    assert (heading, tone) == ("Less is given away, and a leak is found all the same", "leak")
    heading, _, tone = judge_ending(compared.changes["strong"], runs["strong"])
    assert (heading, tone) == ("Less is given away", "clear")
    html_text = compared._repr_html_()
    parsed(html_text)
    assert "✓ Less is given away<" in html_text
    assert "strong: " in html_text
    turned = Comparison.from_runs({"strong": runs["strong"], "plain": runs["plain"]})
    assert judge_ending(turned.changes["plain"], runs["plain"])[::2] == (
        "More is given away, and a leak is found",
        "leak",
    )


def test_what_a_defence_costs_stands_beside_what_it_gains():
    audit = leaking(0.5)
    assert "accuracy" not in Comparison.from_runs({"before": audit, "after": audit})._repr_html_()
    rate = Estimate(0.8, 0.7, 0.9, 0.95, "clopper-pearson")
    fit = ClassifierFit(Accuracy(rate, rate), None, single_answer=False)
    informed = with_findings(audit, describe_fit(fit, None))
    assert "80.0 % [70.0, 90.0]" in Comparison.from_runs({"before": informed, "after": informed})._repr_html_()


def test_progress_is_shown_where_somebody_looks(capsys, monkeypatch):
    with show_progress("auto", "models") as report:
        report(1, 2, "")
    assert capsys.readouterr().err == ""
    heard = []
    with show_progress(lambda *said: heard.append(said), "models") as report:
        report(1, 2, "note")
    assert heard == [(1, 2, "note")]
    with show_progress(None, "models") as report:
        report(1, 2, "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with show_progress("auto", "models") as report:
        report(1, 2, "")
    assert "models" in capsys.readouterr().err


@pytest.mark.parametrize(("progress", "bar"), [("auto", True), (False, False)])
def test_every_training_shows_a_bar_unless_asked_not_to(progress, bar, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    rng = np.random.default_rng(0)
    sets = [dv.Records(pl.DataFrame({"a": rng.normal(size=40), "b": rng.integers(0, 2, 40)}), np.arange(40) % 2)
            for _ in range(4)]  # fmt: skip
    tree = DecisionTreeClassifier(random_state=0).fit(sets[0].table.to_native().to_pandas(), sets[0].y)
    data = {"members": sets[0], "nonmembers": sets[1], "population": sets[2]}
    shared = {"seed": 0, "progress": progress}
    dv.audit(tree, **data, recipes=["rmia"], references=dv.references.Train(count=2), fpr=[0.1], **shared)
    assert ("reference models" in capsys.readouterr().err) is bar
    dv.attributes.infer(tree, **data, column="b", references=dv.references.Train(count=2), **shared)
    assert ("reference models" in capsys.readouterr().err) is bar
    dv.forget(None, tree, forget=sets[0], never=sets[1], population=sets[3],
              references=dv.references.Train(count=2), **shared)  # fmt: skip
    assert ("reference models" in capsys.readouterr().err) is bar
    dv.defences.measure_settings(tree, **data, settings=[{"max_depth": 2}], **shared)
    assert ("settings" in capsys.readouterr().err) is bar


def test_progress_is_a_function_or_a_choice():
    with pytest.raises(dv.InputError, match="progress: a function is needed, got 'yes'"):
        check_progress("yes")


def test_a_run_again_says_how(saved_run):
    _, folder = saved_run
    x = np.random.default_rng(5).normal(size=(60, 2))
    parts = [dv.Records(x[i : i + 20], np.arange(20) % 2) for i in (0, 20, 40)]
    with pytest.raises(dv.InputError, match=r"overwrite=True \(--overwrite\)"):
        dv.audit(lambda a: np.c_[a[:, 0], -a[:, 0]], members=parts[0], nonmembers=parts[1], population=parts[2],
                 recipes=["loss"], fpr=(0.1,), out=folder)  # fmt: skip
