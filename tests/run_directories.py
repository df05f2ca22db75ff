"""Small finished runs of every kind, made from scores, and what somebody could put in the place of their files."""

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import divulge as dv
from divulge import canaries, cli, extraction, run_directory, store
from divulge.attributes.result import AttributeInference
from divulge.canaries import proof
from divulge.defences import trade_off
from divulge.extraction import Completions, MeasuredDocuments
from divulge.results import SettingResult
from divulge.settings import AttributeSettings, ExtractSettings
from divulge.targets import Decoding


def write_audit(folder, seed=0, leak=4.0):
    """An audit of a model that is surer of members by ``leak``; their records differ in nothing else."""
    shutil.copytree(_audit_once(seed, leak), folder)


@functools.cache
def _audit_once(seed, leak):
    rng = np.random.default_rng(seed)
    sets = [dv.Records(rng.normal(size=(n, 4)), rng.integers(0, 2, n)) for n in (200, 200, 200)]
    label_by_row = {row.tobytes(): int(label) for row, label in zip(sets[0].x, sets[0].y, strict=True)}

    def model(x):
        logits = np.stack([x[:, 0], -x[:, 0]], axis=1)
        for i, row in enumerate(x):
            if row.tobytes() in label_by_row:
                logits[i, label_by_row[row.tobytes()]] += leak
        return logits

    members, nonmembers, population = sets
    folder = Path(tempfile.mkdtemp(prefix="divulge-audit-"))
    atexit.register(shutil.rmtree, folder)
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    dv.audit(model, **sets, recipes=["loss"], fpr=(0.1,), out=folder / "run")
    return folder / "run"


def write_identification(folder, shift=4.0):
    rng = np.random.default_rng(1)
    tables = folder.parent / f"{folder.name}-tables"
    tables.mkdir()
    candidates = np.concatenate([rng.normal(size=100) + shift, rng.normal(size=100)])
    pl.DataFrame({"id": [f"d{i}" for i in range(200)], "score": candidates}).write_csv(tables / "candidates.csv")
    pl.DataFrame({"id": [f"c{i}" for i in range(400)], "score": rng.normal(size=400)}).write_csv(
        tables / "calibration.csv"
    )
    words = ["identify", tables / "candidates.csv", "--calibration", tables / "calibration.csv"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert cli.run([*map(str, words), "--score", "score", "--fdr", "0.1", "--out", str(folder)]) == 0


def write_extraction(folder):
    def side(name, count, n_given_back):
        hits = np.arange(count) < n_given_back
        return MeasuredDocuments(
            np.array([f"{name}{i}" for i in range(count)], object),
            Completions(np.where(hits, -0.1, -50.0), hits, np.where(hits, 5, 1), np.where(hits, 1.0, 0.1)),
        )

    extraction.Extraction(
        side("m", 60, 40),
        side("n", 60, 0),
        ExtractSettings(prefix=5, suffix=5, draws=(1, 100), near=0.8),
        str(Decoding()),
        None,
        "model",
    ).save(folder)


def write_canary_audit(folder):
    rng = np.random.default_rng(0)
    included = rng.random(400) < 0.5
    scores = rng.normal(size=400) + 6 * included
    proven = proof.prove(scores, included, claim=dv.Claim(1.0, 1e-5))
    canaries.CanaryAudit(scores, included, proven, "loss", "mislabelled", 1000, seed=0).save(folder)


def write_erasure(folder):
    rng = np.random.default_rng(0)
    ids = [f"r{i}" for i in range(300)]

    def table(shift):
        return {"id": ids, "score": rng.normal(size=300) + shift * (np.arange(300) < 100)}

    controls = [table(0) for _ in range(4)]
    dv.forget(table(3), table(3), forget=ids[:100], never=ids[100:], retrained=controls, out=folder)


def write_attributes(folder):
    rng = np.random.default_rng(0)
    members = np.arange(400) < 200
    guess = rng.random(400) < 0.5
    AttributeInference(
        ids=np.array([f"r{i}" for i in range(400)]), members=members, is_counted=np.ones(400, bool),
        values=rng.integers(0, 2, 400), value_names=("f", "m"), right={"model": guess | members, "imputation": guess},
        column="sex", tried=2, references=0, checks=(), warnings=(),
        settings=AttributeSettings(),
    ).save(folder)  # fmt: skip


def write_trade_off(folder):
    def setting(name, low, loss=None):
        auc, right = dv.Estimate(low + 0.05, low, low + 0.1, 0.95, "delong"), dv.Estimate(0.8, 0.7, 0.9, 0.95, "exact")
        change = None if loss is None else dv.Estimate(loss, loss - 0.01, loss + 0.01, 0.95, "exact")
        return SettingResult(
            name, "leak found", "Some are told apart.", auc, None, right, change, 0, 1.0, "loss", False
        )

    rows = (setting(trade_off.AS_IT_IS, 0.75), setting("max_depth = 2", 0.5, 0.01))
    trade_off.TradeOff(rows, ("loss",), 0.1, "accuracy", 0.05, 0, 0, "DecisionTreeClassifier").save(folder)


def write_synthetic(folder):
    rng = np.random.default_rng(0)
    sets = {name: rng.normal(size=(n, 3)).round(3) for name, n in
            (("members", 120), ("nonmembers", 120), ("population", 240))}  # fmt: skip
    released = np.concatenate([sets["members"][:60], rng.normal(size=(60, 3)).round(3)])
    dv.synthetic.audit(released, **sets, attributes=(), out=folder)


def write_cohorts(folder):
    rng = np.random.default_rng(0)
    data = {name: (x := rng.normal(size=(60, 2)), x @ [1.0, 2.0] + rng.normal(size=60)) for name in ("oslo", "rome")}
    x, y = data["rome"]
    fitted = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0].round(5)
    dv.examine_cohorts(dv.margin.Publication(fitted[:2], fitted[2], "linear", decimals=5), data, out=folder)


WRITERS = {
    "audit": write_audit,
    "identification": write_identification,
    "extraction": write_extraction,
    "canary-audit": write_canary_audit,
    "erasure": write_erasure,
    "attributes": write_attributes,
    "trade-off": write_trade_off,
    "synthetic": write_synthetic,
    "cohorts": write_cohorts,
}
LEAKS = {
    "audit": "training records (48 to 93) can be recognised",
    "identification": "are identified as training data",
    "extraction": "Training documents can be extracted",
    "canary-audit": "is violated",
    "erasure": "Still remembered",
    "attributes": "Whoever knows the rest of a training record",
    "trade-off": "the attack loss tells which is which in about 80 of 100 such pairs",
    "synthetic": "stand in it unchanged",
    "cohorts": "they come from the records of rome",
}


def forge(run, name, change):
    """Change a JSON file of a run, and its digest in the mark with it."""
    content = json.loads((run / name).read_text())
    change(content)
    (run / name).write_text(json.dumps(content))
    content = json.loads((run / run_directory.MANIFEST_NAME).read_text())
    content["files"][name] = store.hash_file(run / name)
    (run / run_directory.MANIFEST_NAME).write_text(json.dumps(content))


def forge_verdict(run, run_kind):
    """Make a summary say that nothing was found."""

    def clear(summary):
        if run_kind == "audit":
            summary["verdict"] = {"answer": "no leak found", "tone": "clear", "text": "No leak found."}
        elif run_kind == "identification":
            summary |= {"selected": 0, "threshold": None, "claim": "nothing", "warnings": []}
        elif run_kind == "extraction":
            summary |= {"verdict": "No leak found.", "tone": "clear", "answer": "not shown", "extracted": 0}
        elif run_kind in ("attributes", "synthetic"):
            summary |= {"verdict": "No leak found.", "tone": "clear", "answer": "no leak found"}
        elif run_kind == "cohorts":
            summary |= {"verdict": "No leak found.", "tone": "clear", "answer": "none", "proven": [], "subsets": []}
        elif run_kind == "trade-off":
            summary |= {"verdict": "No leak found.", "tone": "clear", "recommended": "as it is"}
        elif run_kind == "erasure":
            summary |= {"verdict": "No leak found.", "tone": "clear", "answer": "too little data to say"}
            summary["findings"] = [finding | {"answer": "too little data to say"} for finding in summary["findings"]]
        else:
            summary |= {"verdict": "No leak found.", "tone": "clear", "answer": "consistent"}
            summary["bound"]["low"] = 0.0

    forge(run, "summary.json", clear)


def drop_from_mark(run, name):
    """Take a file out of those whose digests are compared."""
    content = json.loads((run / run_directory.MANIFEST_NAME).read_text())
    content["files"].pop(name, None)
    (run / run_directory.MANIFEST_NAME).write_text(json.dumps(content))


def put_fifo(path):
    os.mkfifo(path)


def put_endless_link(path):
    path.symlink_to("/dev/zero")


def put_folder(path):
    path.mkdir()


def put_hollow_file(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def put_link_out(path):
    path.symlink_to("/etc/passwd")


def put_link_to_copy(path):
    """A link to the very content that was there, but outside of the directory."""
    outside = path.parent.parent / f"outside-{path.name}"
    outside.write_bytes(path.with_name(f"{path.name}.was").read_bytes())
    path.symlink_to(outside)


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            listening.bind(f"/proc/self/fd/{directory}/{path.name}")  # a path of any length
        finally:
            os.close(directory)


TRAPS = [put_fifo, put_endless_link, put_folder, put_hollow_file, put_link_out, put_link_to_copy, put_socket]
