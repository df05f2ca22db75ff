"""Features of the user's own: joined to the records' own components, checked, recorded, and never a cause of a leak."""

import json

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.auditing.inputs import attach_features
from divulge.auditing.signals import record_features
from divulge.errors import InputError
from divulge.results import BlindBaseline
from divulge.targets import CallableTarget
from divulge.types import AuditData

N = 150
NAMES = ("members", "nonmembers", "population")


def _draw(seed, leak, population=N):
    """Return a target whose loss depends on a hidden quality of each record, the sets, and that quality by set.

    The records' own values show nothing of it; the given features do.
    """
    rng = np.random.default_rng(seed)
    ends = np.cumsum([N, N, population])
    x = rng.normal(size=(ends[-1], 3))
    quality = rng.normal(size=len(x))
    margin = 3.0 * quality + leak * (np.arange(len(x)) < N)
    y = rng.integers(0, 2, len(x))
    logits = np.where(y[:, None] == [0, 1], margin[:, None], 0.0)
    answers = {row.tobytes(): value for row, value in zip(x, logits, strict=True)}
    target = CallableTarget(lambda rows: np.array([answers[row.tobytes()] for row in rows]))
    rows = dict(zip(NAMES, np.split(np.arange(len(x)), ends[:-1]), strict=True))
    parts = {name: dv.Records(x[part], y[part]) for name, part in rows.items()}
    return target, parts, {name: np.c_[quality, quality**2][part] for name, part in rows.items()}


RECIPES = ["loss", "transductive", "quantile", "quantile-trees"]


def test_attacks_learn_from_given_features_what_records_do_not_show():
    target, parts, features = _draw(0, leak=3.0, population=450)
    without = dv.audit(target, **parts, recipes=RECIPES)
    with_features = dv.audit(target, **parts, recipes=RECIPES, features=features)
    for name in ("transductive", "quantile", "quantile-trees"):
        assert with_features[name].auc.value > without[name].auc.value + 0.1, name
    assert np.array_equal(with_features.scores["loss"], without.scores["loss"])  # it reads none


def test_features_are_joined_to_the_records_own_components():
    _, parts, features = _draw(1, leak=0.0)
    everything = dv.Records.concatenate([parts[name].with_features(features[name]) for name in NAMES])
    joined = record_features(everything, np.arange(3 * N) >= 2 * N, 0)
    assert np.array_equal(joined, np.c_[everything.x, everything.features])
    wide = everything.with_features(np.random.default_rng(0).normal(size=(3 * N, 200)))
    assert record_features(wide, np.arange(3 * N) >= 2 * N, 0).shape == (3 * N, 3 + 48)


def test_models_that_leak_nothing_stay_innocent_with_features():
    target, parts, features = _draw(11, leak=0.0)
    verdict = dv.audit(target, **parts, recipes=RECIPES, features=features).verdict
    assert verdict.answer in ("no leak found", "too little data to say")


def test_features_that_tell_the_sets_apart_are_a_confounded_split():
    """Features from another extraction run for the members: no attack's number may be blamed on the model."""
    target, parts, features = _draw(5, leak=0.0)
    features["members"] = features["members"] + 1.0
    result = dv.audit(target, **parts, recipes=RECIPES, features=features)
    assert result.verdict.answer == "split is confounded"
    assert "given features" in result.about.measured(BlindBaseline).method


def test_all_forms_give_the_same_features(tmp_path, monkeypatch):
    _, parts, features_by_set = _draw(2, leak=1.0)
    features_of_row = {
        row.tobytes(): value for name in NAMES for row, value in zip(parts[name].x, features_by_set[name], strict=True)
    }

    def look_up(records):
        return np.array([features_of_row[row.tobytes()] for row in records.x])

    (tmp_path / "look_up_features.py").write_text("table = None\ndef look_up(records):\n    return table(records)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import look_up_features

    look_up_features.table = look_up
    frames = {
        name: dv.Records(
            pl.DataFrame(dict(zip(["a", "b", "c", "emb_0", "emb_1"], [*r.x.T, *f.T], strict=True))), r.y
        )
        for name, r, f in ((name, parts[name], features_by_set[name]) for name in NAMES)
    }  # fmt: skip
    forms = {
        "sequence": [features_by_set[name] for name in NAMES],
        "frames": {name: pl.DataFrame({"p": f[:, 0], "q": f[:, 1]}) for name, f in features_by_set.items()},
        "function": look_up,
        "module": "look_up_features:look_up",
    }
    for form, features in forms.items():
        attached = attach_features(AuditData(**parts, features=features), 0)
        assert all(np.array_equal(getattr(attached, name).features, features_by_set[name]) for name in NAMES), form
    attached = attach_features(AuditData(**frames, features="emb_"), 0)
    assert all(np.array_equal(getattr(attached, name).features, features_by_set[name]) for name in NAMES)
    assert attached.members.table.columns == ["a", "b", "c"]
    assert attached.members.feature_names == ("emb_0", "emb_1")
    assert attached.members.x.shape[1] == 3
    assert np.array_equal(attached.members.y, frames["members"].y)
    records_with_features = {name: parts[name].with_features(features_by_set[name]) for name in NAMES}
    assert np.array_equal(
        attach_features(AuditData(**records_with_features), 0).members.features, features_by_set["members"]
    )
    with pytest.raises(InputError, match="have features already"):
        attach_features(AuditData(**records_with_features, features=features_by_set), 0)


def test_a_function_sees_all_records_at_once_and_in_random_order():
    """What it makes of a batch, such as its mean, cannot tell the sets apart."""
    _, parts, _ = _draw(4, leak=0.0)
    calls = []
    attached = attach_features(AuditData(**parts, features=lambda r: calls.append(r.x) or r.x - r.x.mean(axis=0)), 0)
    assert len(calls) == 1
    assert len(calls[0]) == 3 * N
    assert not np.array_equal(calls[0][:N], parts["members"].x)
    everything = np.concatenate([parts[name].x for name in NAMES])
    assert np.allclose(attached.members.features, parts["members"].x - everything.mean(axis=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipes": ["los"]}, "recipes: 'los' is unknown"),
        ({"recipes": ["lira"]}, "references: the recipes lira need reference models"),
        ({"recipes": ["loss"], "fpr": (1e-6,)}, "fpr: 1e-06 needs at least"),
        ({"recipes": ["loss"], "unseen_classes": (1,)}, "unseen_classes: the population holds"),
        (
            {"recipes": ["loss"], "options": dv.AuditOptions(known="share:0.5")},
            "features: of partly known records there are none",
        ),
    ],
)
def test_a_function_that_may_work_for_hours_is_called_after_all_else_is_checked(options, message):
    target, parts, _ = _draw(8, leak=0.0)
    calls = []
    with pytest.raises(InputError, match=f"^{message}"):
        dv.audit(target, **parts, features=lambda r: calls.append(r.x) or r.x, **options)
    assert not calls


def test_a_torch_module_gives_features():
    """As it answers when it is evaluated, whatever its mode and the size of the batches; it is left as it was."""
    torch = pytest.importorskip("torch")
    _, parts, _ = _draw(6, leak=0.0)
    body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Tanh())
    body = torch.nn.Sequential(body, torch.nn.Unflatten(1, (2, 2))).train()
    attached = attach_features(AuditData(**parts, features=body), 0)
    assert body.training
    with torch.inference_mode():
        expected = body.eval()(torch.from_numpy(parts["members"].x).float()).flatten(1).numpy()
    assert np.allclose(attached.members.features, expected, atol=1e-6)
    with pytest.raises(InputError, match=r"^features: the module cannot take records of shape \(3,\)"):
        attach_features(AuditData(**parts, features=torch.nn.Linear(5, 2)), 0)


def test_the_model_under_audit_gives_no_features():
    target, parts, _ = _draw(7, leak=1.0)
    with pytest.raises(InputError, match="features: the model under audit itself"):
        dv.audit(target, **parts, recipes=["loss"], features=target)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((N, 2)), "a mapping of members, nonmembers and population"),
        ({"members": np.zeros((N, 2))}, "an array for each of members, nonmembers, population is needed, got members"),
        ({n: np.zeros((N - (n == "members"), 2)) for n in NAMES}, "members: an array .150, d. .* got .149, 2."),
        ({n: np.zeros((N, 2 + (n == "population"))) for n in NAMES}, "same ones .* population 3 columns"),
        ({n: np.zeros((N, 0)) for n in NAMES}, "d ≥ 1"),
        ({n: np.full((N, 2), np.nan) for n in NAMES}, "features: members: .*NaN"),
        ({n: pl.DataFrame({"a" if n == NAMES[0] else "b": np.zeros(N)}) for n in NAMES}, "members 'a', nonmembers 'b'"),
        ({n: pl.DataFrame({"a": ["x"] * N}) for n in NAMES}, "column 'a' holds no numbers"),
        ("emb_", "have no columns"),
        ("no_such_module:f", "no_such_module"),
        (lambda records: np.zeros((3, 2)), "the function's result"),
        (5, "a mapping of members, nonmembers and population"),
    ],
)  # fmt: skip
def test_features_that_do_not_fit_are_refused_before_any_work(features, message):
    """A function is called last, after the model was asked about a few records."""
    target, parts, _ = _draw(7, leak=0.0)
    model = target if callable(features) else lambda x: 1 / 0
    with pytest.raises(InputError, match=message):
        dv.audit(model, **parts, recipes=["quantile"], features=features)


def test_too_small_a_population_is_refused_before_the_target_is_asked():
    _, parts, _ = _draw(1, leak=0.0)
    parts["population"] = parts["population"][:12]
    with pytest.raises(InputError, match=r"population: quantile learns from at least 10 records .* got 9 of 12"):
        dv.audit(lambda x: 1 / 0, **parts, recipes=["quantile"])


def test_partly_known_records_have_no_features():
    target, parts, features = _draw(7, leak=0.0)
    with pytest.raises(InputError, match="partly known"):
        dv.audit(target, **parts, recipes=["loss"], features=features, options=dv.AuditOptions(known="share:0.5"))


def test_features_nobody_reads_are_noted_and_change_the_digest():
    target, parts, set_features = _draw(8, leak=0.0)
    changed = {name: 2 * values for name, values in set_features.items()}
    digests = set()
    for features in (set_features, changed, None):
        about = dv.audit(target, **parts, features=features, recipes=("loss",), fpr=(0.1,)).about
        digests.add(about.settings.data.features)
        notes = [text for text in about.warnings if "none of the recipes learns from features" in text]
        assert bool(notes) == (features is not None)
    assert len(digests) == 3
    assert "" in digests


PLAN = """
recipes = ["transductive"]
[target]
model = "model:predict"
[data]
members = "members.{ending}"
nonmembers = "nonmembers.{ending}"
population = "population.{ending}"
features = "{features}"
"""


@pytest.mark.parametrize(("ending", "features"), [("csv", "emb_"), ("npz", "emb"), ("npz", "model:embed")])
def test_a_plan_names_features(tmp_path, ending, features, divulge):
    _, parts, features_by_set = _draw(9, leak=0.0)
    for name in NAMES:
        x, y, f = parts[name].x, parts[name].y, features_by_set[name]
        if ending == "npz":
            np.savez(tmp_path / f"{name}.npz", x=x, y=y, emb=f)
        else:
            values = {f"v{k}": x[:, k] for k in range(3)} | {f"emb_{k}": f[:, k] for k in range(2)}
            pl.DataFrame(values | {"label": y}).write_csv(tmp_path / f"{name}.csv")
    (tmp_path / "model.py").write_text(
        "import numpy as np\n"
        "def predict(x):\n    x = np.asarray(x, dtype=float)\n    assert x.shape[1] == 3\n"
        "    return np.c_[x[:, 0], -x[:, 0]]\n"
        "def embed(records):\n    return records.x[:, :2] ** 2\n"
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(ending=ending, features=features))
    code, _, err = divulge("check", plan)
    assert code == 0, err
    refused = {"not_there": "features", "": "features"}
    if ending == "npz":
        refused |= {"x": "the records themselves", "y": "the labels"}
    for name, reason in refused.items():
        plan.write_text(PLAN.format(ending=ending, features=name))
        code, _, err = divulge("check", plan)
        assert (code, reason in err) == (2, True)
    plan.write_text(PLAN.format(ending=ending, features=features))
    if ending == "csv" or ":" in features:
        return
    code, out, err = divulge("audit", plan, "--out", tmp_path / "run", "--json")
    assert code == 0, err
    assert json.loads(out)["about"]["settings"]["data"]["features"]


def test_features_are_read_from_tables_of_texts(tmp_path):
    from divulge.datafiles import FileLayout, read_records

    frame = pl.DataFrame({"text": ["a b", "c d"], "emb_0": [1.0, 2.0], "emb_1": [0.0, 1.0]})
    frame.write_ndjson(tmp_path / "texts.jsonl")
    records = read_records(tmp_path / "texts.jsonl", FileLayout(text="text", features="emb_")).records
    assert records.features.tolist() == [[1.0, 0.0], [2.0, 1.0]]
    assert records.feature_names == ("emb_0", "emb_1")
