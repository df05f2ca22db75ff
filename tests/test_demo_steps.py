"""The demonstrations step by step: who is a member of what, and that no record stands in two sets."""

import contextlib
from pathlib import Path

import pytest

from divulge import demo

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
