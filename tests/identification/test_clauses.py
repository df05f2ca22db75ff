"""Clauses of an identification, in both readings and at their bounds: shards on a cluster, truth, large differences."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from divulge.errors import InputError
from divulge.identification import document_scoring, score_tables
from divulge.signals.tokens import TokenStatistics


class Letters:
    """A language model in which each letter is a token, and no documents are needed to know it."""

    def __init__(self, asked):
        self.asked = asked

    def tokens(self, texts, **_):
        self.asked += texts
        return TokenStatistics.from_documents(texts, [{"logp": -np.arange(1.0, len(t) + 1)} for t in texts])

    def key(self):
        return {"model": "letters"}


class Rows(list):
    """Rows of Ray's data, on which an actor's work is done at once and in this process."""

    def map_batches(self, actor, *, fn_constructor_args, batch_size, num_gpus, compute):
        assert (batch_size, num_gpus) == (1, 0)
        assert 1 <= compute <= len(self)
        work, done = actor(*fn_constructor_args), Rows()
        for row in self:
            answer = work({name: [value] for name, value in row.items()})
            done.append({name: values[0] for name, values in answer.items()})
        return done

    def iter_rows(self):
        return iter(self)


@pytest.fixture
def nodes(monkeypatch):
    """A stand-in for Ray that has two nodes without GPUs."""
    data = SimpleNamespace(from_items=lambda rows, override_num_blocks: Rows(rows), ActorPoolStrategy=lambda size: size)
    ray = SimpleNamespace(
        is_initialized=lambda: True, cluster_resources=dict, get=lambda value: value,
        nodes=lambda: 2 * [{"Alive": True, "Resources": {"CPU": 1.0}}],
        remote=lambda **_: lambda function: SimpleNamespace(remote=function), data=data,
    )  # fmt: skip
    monkeypatch.setattr(document_scoring, "ray", ray)
    monkeypatch.setattr(document_scoring, "_SHARDS_PER_WAVE", 2)


@pytest.mark.usefixtures("nodes")
def test_a_cluster_takes_over_what_is_finished_and_counts_it(tmp_path):
    """As on one machine: all documents once, in their order, and those of finished shards without asking again."""
    texts = [f"text {'x' * i}" for i in range(11)]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "t.parquet")
    options = document_scoring.ScoringOptions(shard=3)

    def run(out, **arguments):
        asked, at = [], []
        summary = document_scoring.score_on_ray(
            [tmp_path / "t.parquet"], lambda: Letters(asked), tmp_path / out, options,
            progress=lambda done, n: at.append((done, n)), **arguments,
        )  # fmt: skip
        return summary, asked, at

    summary, asked, at = run("out")
    assert (summary.documents, summary.resumed, summary.unscored, summary.skipped) == (11, 0, 0, None)
    assert asked == texts
    assert at == [(3, 11), (6, 11), (9, 11), (11, 11)]
    asked = []
    here = document_scoring.score([tmp_path / "t.parquet"], Letters(asked), tmp_path / "here", options)
    assert here == summary
    for folder in ("documents", "tokens"):
        assert pl.read_parquet(tmp_path / "here" / folder).equals(pl.read_parquet(tmp_path / "out" / folder))

    texts[4] = "another text"  # of the second shard
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "t.parquet")
    summary, asked, at = run("out", overwrite=True, actors=1)
    assert (summary.documents, summary.resumed) == (11, 8)
    assert asked == texts[3:6]
    assert at == [(6, 11)]  # those of the first shard count as done
    assert sorted(pl.read_parquet(tmp_path / "out" / "documents")["text"]) == sorted(texts)
    summary, asked, at = run("out", overwrite=True)
    assert (summary.resumed, asked, at) == (11, [], [])


def test_membership_in_other_words_is_named_up_to_five_of_them():
    for n, ending in ((1, ""), (5, ""), (6, ", …"), (9, ", …")):
        reader = score_tables.MembershipReader()
        words = [f"w{i}" for i in range(n)]
        for start in range(0, n, 2):  # in several batches, with values that are known between them
            assert reader.read(pl.Series([*words[start : start + 2], "yes", None])).to_list()[-2:] == [True, None]
        with pytest.raises(InputError) as error:
            reader.check("member", "a.csv")
        assert str(error.value).endswith("got " + ", ".join(map(repr, words[:5])) + ending)
