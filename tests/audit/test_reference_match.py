"""Audits with references that match: plan, forecast, report; and models that leak nothing stay innocent."""

import json

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import divulge as dv
from divulge.references import Train
from divulge.report import formatting, markdown
from divulge.results import ReferenceComparison
from divulge.runs import load_page

torch = pytest.importorskip("torch")


def make_model():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))


def draw(n, seed):
    rng = np.random.default_rng([23, seed])
    x = rng.normal(size=(n, 6)).astype(np.float32)
    return dv.Records(x, (x[:, :3] + rng.normal(size=(n, 3))).argmax(axis=1))


def sets(seed=0, n=100):
    return {"members": draw(n, 3 * seed), "nonmembers": draw(n, 3 * seed + 1), "population": draw(240, 3 * seed + 2)}


@pytest.mark.parametrize("seed", range(2))
def test_models_that_leak_nothing_stay_innocent_when_matched(seed):
    """The target was trained on other records; each audit accuses with at most 5 %, both with 1 in 400."""
    target = Train(make_model, epochs=10, optimizer="adam", lr=0.01, batch_size=32).train_model(
        draw(100, 900 + seed), seed=seed
    )
    references = Train(make_model, count=3, epochs=4, optimizer="adam", batch_size=32, match="auto")
    result = dv.audit(target, **sets(seed), recipes=["lira", "calibrated"], references=references, seed=seed)
    assert result.verdict.answer in ("no leak found", "too little data to say")
    assert result.about.matched.models > 2


def test_every_audit_with_references_says_how_well_they_match(tmp_path):
    parts = sets(5)
    target = Train(make_model, epochs=60, optimizer="adam", lr=0.02, batch_size=16).train_model(
        parts["members"], seed=0
    )
    references = Train(make_model, count=4, epochs=1, lr=1e-4)
    result = dv.audit(target, **parts, recipes=["calibrated"], references=references, out=tmp_path / "run")
    (match,) = result.about.measured(ReferenceComparison).agreement
    assert match.differs
    assert match.records == 60  # the calibration records
    assert match.target.low < match.target.value < match.target.high
    assert "tend to understate a leak" in match.text
    assert match.text in result.about.warnings
    page = (tmp_path / "run" / "report.html").read_text()
    assert "held-out loss" in page
    assert dv.load(tmp_path / "run").about.findings == result.about.findings
    card = markdown.card(load_page(tmp_path / "run"))
    paragraphs = set(card.split("\n\n"))
    assert match.text in paragraphs
    assert {formatting.as_sentence(warning) for warning in result.warnings} <= paragraphs


def test_an_audit_with_substitutes_says_how_they_follow_the_target_and_what_cannot_be_said(tmp_path):
    parts = sets(5)
    target = DecisionTreeClassifier(random_state=0).fit(parts["members"].x, parts["members"].y)
    references = Train(count=2, match={"max_depth": [2, None]})
    result = dv.audit(target, **parts, recipes=["transfer"], references=references, out=tmp_path / "run")
    assert result.about.measured(ReferenceComparison).agreement == ()
    (sentence,) = result.about.measured(ReferenceComparison).uncompared
    assert "cannot be said" in sentence
    assert "that the target labels rightly" in sentence
    assert "that the target labels wrongly" in sentence
    assert dv.load(tmp_path / "run").about.findings == result.about.findings
    text = markdown.render(load_page(tmp_path / "run"))
    assert f"{formatting.as_sentence(sentence)}\n" in text
    assert "the paragraph above" not in text
    assert formatting.as_sentence(sentence) in markdown.card(load_page(tmp_path / "run"))
    assert result.about.engine.startswith("4 trial models of the matching")


PLAN = """
recipes = ["calibrated"]
fpr = [0.1]
[target]
model = "model.safetensors"
factory = "model:make_model"
[data]
members = "members.npz"
nonmembers = "nonmembers.npz"
population = "population.npz"
[references]
make_model = "model:make_model"
count = 2
epochs = 2
optimizer = "adam"
batch_size = 32
match = {lr = [0.0001, 0.02], epochs = [2, 20]}
"""


def test_a_plan_matches_and_check_forecasts_it(tmp_path, divulge):
    from safetensors.torch import save_file

    parts = sets(6)
    target = Train(make_model, epochs=20, optimizer="adam", lr=0.02, batch_size=32).train_model(
        parts["members"], seed=0
    )
    save_file(target.state_dict(), tmp_path / "model.safetensors")
    for name, records in parts.items():
        np.savez(tmp_path / f"{name}.npz", x=records.x, y=records.y)
    (tmp_path / "model.py").write_text(
        "from torch import nn\n\ndef make_model():\n"
        "    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))\n"
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    code, out, err = divulge("check", plan)
    assert code == 0, err
    assert "at most 4 trial models to match the target" in out
    code, out, err = divulge("audit", plan, "--out", tmp_path / "run", "-v")
    assert code == 0, err
    assert "reference models were matched: lr=0.02" in " ".join(out.split())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["about"]["matched"]["chosen"].startswith("lr=0.02")
    assert summary["about"]["recipes"]["calibrated"]["training"]["lr"] == "0.02"
    assert "Settings of the reference models: lr=0.02" in (tmp_path / "run" / "report.html").read_text()
    for bad, message in (('match = "best"', "match"), ("match = {lr = []}", "match"), ("match = {rate = [1]}", "rate")):
        plan.write_text(PLAN.replace("match = {lr = [0.0001, 0.02], epochs = [2, 20]}", bad))
        code, _, err = divulge("audit", plan, "--out", tmp_path / "bad")
        assert code == 2
        assert message in err


def test_an_audit_says_where_it_had_no_use_for_settings_to_try():
    parts = sets(7)
    forest = RandomForestClassifier(5, random_state=0).fit(parts["members"].x, parts["members"].y)

    def match_warnings(recipe, references):
        result = dv.audit(forest, **parts, recipes=[recipe], references=references, seed=0)
        assert result.about.matched is None
        return [warning for warning in result.warnings if warning.startswith("match:")]

    (no_training,) = match_warnings("loss", Train(count=2, match={"max_depth": [2, 3]}))
    assert no_training.startswith("match: none of the recipes trains reference models")
    (clones,) = match_warnings("calibrated", Train(count=2, match="auto"))
    assert "clones with the target's own parameters" in clones
    assert not match_warnings("loss", Train(count=2))
