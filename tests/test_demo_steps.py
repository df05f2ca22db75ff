"""The demonstrations step by step: who is a member of what, and that no record stands in two sets."""

import contextlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import demo, store
from divulge.types import Records

torch = pytest.importorskip("torch")


class Draft:
    """A run directory that keeps nothing but what it was asked for."""

    def __init__(self, path):
        self.path, self.home, self.parts, self.written = path, path, [], {}

    def writing(self, kind, key, overwrite):
        self.overwrite = overwrite
        return contextlib.nullcontext(self)

    @contextlib.contextmanager
    def part(self, name, kind, key):
        self.parts.append(name)
        yield Draft(self.path / name)

    def write_table(self, name, frame):
        self.written[name] = frame


@pytest.fixture
def draft(tmp_path, monkeypatch):
    made = Draft(tmp_path)
    monkeypatch.setattr(demo, "RunDirectory", lambda out: made)
    return made


def test_images_are_grey_values_from_0_to_1_in_ten_classes():
    records = demo.fashion_mnist()
    assert records.x.dtype == np.float32
    assert (records.x.min(), records.x.max()) == (0, 1)
    assert np.bincount(records.y).tolist() == [1000] * 10
    layers = list(demo.network())
    assert [(layer.in_features, layer.out_features) for layer in layers if hasattr(layer, "in_features")] == [
        (784, 256), (256, 10),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 3])
def test_images_are_split_into_sets_that_share_none(seed, draft, monkeypatch):
    n = 100
    records = Records(np.arange(float(n))[:, None], np.arange(n) % 10)
    target = SimpleNamespace(state_dict=lambda: {"w": torch.zeros(1)})
    trained, audits = [], []
    monkeypatch.setattr(demo, "fashion_mnist", lambda: records)
    monkeypatch.setattr(
        demo.Train, "train_model", lambda self, members, seed: trained.append((self, members)) or target
    )

    def audit(model, data, settings, **given):
        audits.append({"data": data, "settings": settings, **given})
        return SimpleNamespace(report=lambda path, related, origin: audits.append((path, list(related))))

    monkeypatch.setattr(demo, "run_audit", audit)
    monkeypatch.setattr(demo.provenance, "read_provenance", lambda path: None)
    size = demo.ImageDemoSize(members=20, population=50, count=2, epochs=7)
    demo.audit_images(draft.path, seed=seed, size=size)
    known, unseen, (path, related) = audits
    data = known["data"]
    sets = [part.x[:, 0].tolist() for part in (data.members, data.nonmembers, data.population)]
    assert list(map(len, sets)) == [20, 20, 50]
    assert len({value for values in sets for value in values}) == 90
    assert trained[0][1].x.tolist() == data.members.x.tolist()
    assert (trained[0][0].count, trained[0][0].epochs) == (2, 7)
    assert unseen["data"].population.x[:, 0].tolist() == [value for value in sets[2] if value % 10 != 3]
    assert unseen["data"].unseen_classes == (3,)
    assert unseen["data"].members is data.members
    assert (known["settings"].seed, known["pool"]) == (seed, draft.path / "pool")
    assert not data.unseen_classes
    assert known["plan"]["references"] | {"make_model": ""} == {
        "make_model": "", "count": 2, "epochs": 7, "optimizer": "adam",
    }  # fmt: skip
    assert unseen["plan"]["access"] == {"drop_classes": [3]}
    assert (path, related, draft.parts) == (draft.path / "report.html", ["unseen"], ["unseen"])
    for name, values in zip(("members", "nonmembers", "population"), sets, strict=True):
        stored = store.read_arrays(draft.path / "inputs" / f"{name}.npz")
        assert stored["x"][:, 0].tolist() == values
        assert stored["y"].tolist() == [value % 10 for value in values]
    assert not draft.overwrite


def test_paragraphs_have_80_to_1200_characters_and_are_distinct(monkeypatch):
    short, long = "s" * 80, "l" * 1200
    topics = {"a": f"{short}\n \n{'x' * 79}\n\n{short}", "b": f"{long}\n\n\n{'y' * 1201}\n\n  {'z' * 100}  "}
    monkeypatch.setattr(demo, "topics", SimpleNamespace(topics=topics))
    assert sorted(demo.load_paragraphs()) == [long, short, "z" * 100]
    many = {"a": "\n\n".join(f"{i:03}" * 30 for i in range(50))}
    monkeypatch.setattr(demo, "topics", SimpleNamespace(topics=many))
    assert demo.load_paragraphs() == demo.load_paragraphs(0) != demo.load_paragraphs(1)
    assert sorted(demo.load_paragraphs(1)) == sorted(demo.load_paragraphs())


def test_a_base_learns_from_none_of_the_paragraphs_that_are_audited(draft, monkeypatch):
    paragraphs = [f"paragraph {i}" for i in range(40)]
    bases, tuned, audits, inputs = [], [], [], []
    monkeypatch.setattr(demo, "load_paragraphs", lambda seed: paragraphs)
    monkeypatch.setattr(demo, "train_language_model", lambda texts, config, seed: bases.append((texts, config, seed)))
    tuning = SimpleNamespace(train_model=lambda members, seed: tuned.append(members.x.tolist()) or "target")
    monkeypatch.setattr(demo, "FineTune", lambda *given, **named: audits.append((given, named)) or tuning)
    monkeypatch.setattr(demo, "run_audit", lambda target, data, _, **given: audits.append({"data": data, **given}))
    monkeypatch.setattr(demo, "_write_text_inputs", lambda draft, models, sets: inputs.append(sets))
    size = demo.TextDemoSize(base=10, members=5, nonmembers=6, population=7, count=2, base_epochs=4, epochs=9)
    demo.audit_language_model(draft.path, seed=2, size=size)
    assert bases == [(paragraphs[:10], demo.DemoModelConfig(epochs=4), 2)]
    (given, named), run = audits
    assert (given[1:], named["lr"], named["bos"]) == ((2, 9), 2e-3, "add")
    sets = [part.x.tolist() for part in (run["data"].members, run["data"].nonmembers, run["data"].population)]
    assert sets == [paragraphs[10:15], paragraphs[15:21], paragraphs[21:28]]
    assert tuned == [paragraphs[10:15]]
    assert run["plan"]["references"] == {"base": "base", "count": 2, "epochs": 9, "lr": 2e-3, "bos": "add"}
    assert run["plan"]["data"] == {
        "members": "members.parquet", "nonmembers": "nonmembers.parquet", "population": "population.parquet",
        "text": "text",
    }  # fmt: skip


@pytest.mark.parametrize("n", [48, 101])
def test_candidates_calibration_and_holdout_share_no_document(n, draft, monkeypatch):
    """Half is trained on; of the other half one part is the calibration, one tests it, and one is added to members."""
    texts, scored, runs = [f"text {i}" for i in range(n)], {}, []
    monkeypatch.setattr(demo, "load_paragraphs", lambda seed: texts)
    monkeypatch.setattr(demo, "train_language_model", lambda part, config, **_: scored.setdefault("trained", part))

    def score(draft, name, target, documents, n_members):
        scored[name] = (documents, n_members)
        return Path(name)

    monkeypatch.setattr(demo, "_score_documents", score)
    monkeypatch.setattr(demo.from_tables, "run", lambda *given, **named: runs.append((given, named)))
    demo.identify_documents(draft.path, fdr=0.2, method="bh", seed=1)
    trained, (candidates, n_members) = set(scored["trained"]), scored["candidates"]
    assert len(trained) == n // 2
    assert set(candidates[:n_members]) <= trained
    assert not set(candidates[n_members:]) & trained
    assert n_members == n // 2 - n // 4 // 2
    unused = [*candidates[n_members:], *scored["calibration"][0], *scored["holdout"][0]]
    assert sorted(unused) == sorted(set(texts) - trained)
    assert len(scored["holdout"][0]) == n // 4 // 3
    assert len(scored["calibration"][0]) == n // 4 - n // 4 // 3
    assert scored["calibration"][1] == scored["holdout"][1] == 0
    (given, named) = runs[0]
    assert given[0] == [draft.path / "candidates.parquet"]
    assert given[1] == [Path("calibration")]
    assert named == {"holdout": [Path("holdout")]}
    assert (given[3].policy.fdr, given[3].seed, given[3].columns.truth) == (0.2, 1, "member")


def test_a_small_model_learns_every_batch_of_every_epoch_until_its_texts_are_the_likelier_ones():
    pytest.importorskip("transformers")
    texts = [f"{word} {'and so on ' * (number % 3)}{word}" for number, word in enumerate("abcdefghij")]
    config, steps = demo.DemoModelConfig(width=16, layers=1, vocabulary=300, epochs=12, batch=4, rate=0.02), []
    target = demo.train_language_model(texts, config, seed=1, progress=lambda *done: steps.append(done))
    assert steps == [(step, 36) for step in range(1, 37)]
    inside, outside = (target.tokens(some).logp.mean() for some in (texts, [text[::-1] + "!" for text in texts]))
    assert inside > outside + 0.5
    assert not target.model.training
