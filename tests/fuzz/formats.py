"""Every kind of file that is opened, cut short, with bits turned over, or of another kind."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import save_file
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

import divulge as dv
from divulge import labels, plan, store, targets
from divulge.datafiles import FileLayout, read_labels
from divulge.datafiles import read_records as read_records
from divulge.identification import score_tables
from divulge.margin import ShallowReLU
from divulge.targets import folders
from divulge.targets.endpoint import EndpointJournal
from fuzz import judge, labelling

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), np.arange(12) % 3
RECORDS = dv.Records(X, Y)
FRAME = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": Y, "id": np.arange(12)})
TEXTS = FRAME.select(pl.format("no. {}, é", pl.col("id")).alias("text"), pl.col("label"))
SCORES = FRAME.select(pl.col("a").alias("loss"), pl.col("id"))


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Args:
        name: of the file.
        write: makes a valid one.
        read: opens it; the answer.
        kept: whether a digest is kept of it, so that nothing but the whole file has an answer.
    """

    name: str
    write: Callable[[Any], None]
    read: Callable[[Any], Any]
    kept: bool = False


def _scan(path):
    frame = score_tables.scan_scores([path], "tables")
    destination = path.with_name("gathered")
    score_tables.clean_table(frame, score_tables.resolve_columns(frame, ["loss:low"]), destination)
    return pl.read_parquet(destination).to_dict(as_series=False)


def _onnx(path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, k]) for n, k in (("x", 3), ("z", 2))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["z"])], "g", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _skops(model):
    def write(path):
        import skops.io

        skops.io.dump(model.fit(X, Y), path)

    return write


def _adapter(path):
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q"], "base_model_name_or_path": "base"}
    store.write_json(path.with_name("adapter_config.json"), config)
    weights = {f"base_model.model.q.lora_{part}.weight": torch.ones(2, 2) for part in "AB"}
    save_file(weights, path.with_name("adapter_model.safetensors"))


def _load_and_ask(factory=None):
    return lambda path: targets.load(str(path), factory=factory, device="cpu").logits(RECORDS)


def _pool(path):
    folder = path.parent / "pool"
    dv.references.Pool(folder).put("a" * 32, {"w": np.arange(6.0)}, {"model": 1})
    path.symlink_to(folder / f"{'a' * 32}{path.suffix}")


def _stored(path):
    return dv.references.Pool(path.parent / "pool").get("a" * 32)


def _plan(path):
    path.write_text(
        'recipes = ["loss"]\nfpr = [0.1]\nseed = 1\n[target]\nmodel = "model.onnx"\n'
        '[data]\nmembers = "m.npz"\nnonmembers = "n.npz"\npopulation = "p.npz"\n'
    )


def _answered(path):
    journal = labels.Journal(path, labelling.PLAN)
    for number in range(labelling.PLAN.count):
        journal.keep(number, float(labelling.ANSWERS[number]))


KEY = {"model": "tiny"}


def _journal(path):
    EndpointJournal(path, KEY).put("a text", np.array([-1.0, -2.0]))


def _read_journal(path):
    journal = EndpointJournal(path, KEY)
    return journal["a text"] if "a text" in journal else None  # noqa: SIM401  a journal has no get


FORMATS = (
    Format("records.npz", lambda path: np.savez(path, x=X, y=Y), lambda path: read_records(path, FileLayout())),
    Format("records.csv", FRAME.write_csv, lambda path: read_records(path, FileLayout())),
    Format("records.parquet", FRAME.write_parquet, lambda path: read_records(path, FileLayout())),
    Format("records.jsonl", FRAME.write_ndjson, lambda path: read_records(path, FileLayout())),
    Format("texts.csv", TEXTS.write_csv, lambda path: read_records(path, FileLayout(text="text"))),
    Format("texts.parquet", TEXTS.write_parquet, lambda path: read_records(path, FileLayout(text="text"))),
    Format("texts.jsonl", TEXTS.write_ndjson, lambda path: read_records(path, FileLayout(text="text"))),
    Format("adapter_config.json", _adapter, lambda path: dict(folders.read_adapter(path.parent).settings)),
    Format("adapter_model.safetensors", _adapter, lambda path: list(folders.read_adapter(path.parent).weights)),
    Format("array.npy", lambda path: np.save(path, X), store.read_array),
    Format("arrays.npz", lambda path: np.savez_compressed(path, x=X), store.read_arrays),
    Format("value.json", lambda path: store.write_json(path, {"a": [1, 2.5, None, "é"]}), store.read_json),
    Format("scores.csv", SCORES.write_csv, _scan),
    Format("scores.jsonl", SCORES.write_ndjson, _scan),
    Format("scores.parquet", SCORES.write_parquet, _scan),
    Format("net.safetensors", labelling.NET.to_safetensors, lambda path: ShallowReLU.from_safetensors(path).w),
    Format(
        "weights.safetensors",
        lambda path: save_file(nn.Linear(3, 3).state_dict(), path),
        _load_and_ask(lambda: nn.Linear(3, 3)),
    ),
    Format("model.onnx", _onnx, _load_and_ask()),
    Format("linear.skops", _skops(LogisticRegression()), _load_and_ask()),
    Format("forest.skops", _skops(RandomForestClassifier(2, max_depth=2, random_state=0)), _load_and_ask()),
    Format("plan.toml", _plan, plan.read),
    Format("stored.safetensors", _pool, _stored, kept=True),
    Format("stored.json", _pool, _stored, kept=True),
    Format("answers.jsonl", _answered, lambda path: labels.Journal(path, labelling.PLAN).answers()),
    Format("tokens.jsonl", _journal, _read_journal),
    Format(
        "typed.txt",
        lambda path: path.write_text("\n".join(map(repr, labelling.ANSWERS.tolist()))),
        lambda path: labels.read_scores(path, labelling.PLAN),
    ),
    Format("template.csv", lambda path: path.write_text("id,p\na,0.5\nb,0.5\n"), labels.Submission.from_template),
    Format("labels.npy", lambda path: np.save(path, Y), read_labels),
    Format("labels.npz", lambda path: np.savez(path, y=Y), read_labels),
    Format("labels.txt", lambda path: path.write_text("0\n1\n1\n"), read_labels),
)  # fmt: skip


def damages(content, random_, flips):
    """Contents of a damaged file by what was done to it."""
    size = len(content)
    cuts = sorted({0, 1, 2, 8, size // 4, size // 2, size - 1, *(random_.randrange(size) for _ in range(flips))})
    results = {f"cut at {position}": content[:position] for position in cuts if position < size}
    for _ in range(flips):
        bit = random_.randrange(8 * size)
        turned = bytearray(content)
        turned[bit // 8] ^= 1 << bit % 8
        results[f"bit {bit} turned"] = bytes(turned)
    results["zeros"] = bytes(size)
    results["noise"] = random_.randbytes(size)
    results["twice"] = content * 2
    results["more behind"] = content + b"\0" * 7
    results["a byte-order mark"] = b"\xef\xbb\xbf" + content
    results["a JSON list"] = b"[" * 5000
    results["a NumPy array of objects"] = OBJECTS
    return results


def _objects():
    out = io.BytesIO()
    np.save(out, np.array([{}], dtype=object))
    return out.getvalue()


OBJECTS = _objects()


def run(tally, file_format, folder, flips, seed=0):
    """Damage one kind of file in many ways."""
    path = folder / file_format.name
    file_format.write(path)
    undamaged = path.read_bytes()
    right = file_format.read(path)
    expected_words = (
        () if file_format.kept else (path.name, path.stem, "tables", "target", "labels", "plan", "scores", "template")
    )
    for word, content in damages(undamaged, random.Random(f"{seed} {file_format.name}"), flips).items():
        path.write_bytes(content)
        outcome = judge.outcome(
            lambda: file_format.read(path),
            *expected_words,
            right=lambda found, content=content: _silent(file_format, right, found, content == undamaged),
        )
        tally.add(f"{file_format.name} ({word})", outcome)
        if not path.exists() or path.is_dir():
            tally.add(f"{file_format.name} ({word})", "the file is gone")
    path.unlink()
    path.mkdir()
    tally.add(f"{file_format.name} (a folder)", judge.outcome(lambda: file_format.read(path)))
    path.rmdir()
    path.symlink_to(path)
    tally.add(f"{file_format.name} (a link to itself)", judge.outcome(lambda: file_format.read(path)))
    path.unlink()


def _silent(file_format, right, answer, intact):
    if file_format.kept and not intact and not judge.same(right, answer):
        return "another answer, though a digest is kept"
    return None
