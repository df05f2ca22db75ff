"""Every command that reads a run directory, a pool or a journal, on directories that are damaged."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from dataclasses import dataclass

import numpy as np
import polars as pl

import divulge as dv
from divulge.cli.printing import Exit
from divulge.identification import document_scoring
from divulge.targets import TokenStatistics
from faults import steps

DOCUMENTED = {Exit.OK, Exit.BROKEN, Exit.INPUT, Exit.UNDECIDED, Exit.CONTRADICTED, Exit.DAMAGED}
FREE = ("plan.toml", "report.html", "inputs/")  # may be edited: nothing is computed from them
IDENTIFY = ("identify", "t.csv", "--calibration", "u.csv", "--score", "loss:low", "--out", "identified")


@dataclass(frozen=True)
class Reader:
    """A command, and the directory that it reads."""

    reads: str
    command: tuple[str, ...]


READERS = (
    Reader("identified", ("report", "identified")),
    Reader("identified", ("decide", "identified", "--fdr", "0.4", "--json")),
    Reader("audited", ("report", "audited")),
    Reader("audited", ("decide", "audited", "--fpr", "0.2", "--json")),
    Reader("audited", ("compare", "audited", "again", "--json")),
    Reader("audited", ("gate", "audited", "--max", "auc:0.99", "--json")),
    Reader("scored", (*IDENTIFY[:1], "scored", *IDENTIFY[2:4], "--score", "log_likelihood", "--out", "new")),
    Reader("pool", ("pool", "ls", "pool", "--json")),
    Reader("pool", ("pool", "verify", "pool", "--json")),
    Reader("pool", ("pool", "prune", "pool", "--dry-run")),
)


class Tokens:
    """A language model that finds every text equally likely."""

    def key(self):
        return {"model": "even"}

    def tokens(self, texts, *, vocabulary=True):
        return TokenStatistics.from_documents(texts, [{"logp": -np.ones(len(text.split()))} for text in texts])


def prepare(folder):
    """A folder with one directory of each kind."""
    rng = np.random.default_rng(0)
    for name, loss in (("t", np.append(rng.normal(-3, 1, 20), rng.normal(size=40))), ("u", rng.normal(size=80))):
        texts = [f"{name} {i}" for i in range(len(loss))]
        frame = pl.DataFrame({"loss": loss, "log_likelihood": -loss, "text": texts, "id": texts})
        frame.write_csv(folder / f"{name}.csv")
    assert steps.run_command(IDENTIFY, folder)[0] == 0
    x = rng.normal(size=(180, 2))
    sets = [dv.Records(part, rng.integers(0, 2, len(part))) for part in np.split(x, 3)]
    for seed, name in enumerate(("audited", "again")):
        dv.audit(
            lambda part: np.stack([part[:, 0], -part[:, 0]], axis=1),
            members=sets[0], nonmembers=sets[1], population=sets[2], recipes=["loss", "entropy"], fpr=[0.2], seed=seed,
            out=folder / name,
        )  # fmt: skip
    document_scoring.score([folder / "t.csv"], Tokens(), folder / "scored", document_scoring.ScoringOptions())
    pool = dv.references.Pool(folder / "pool")
    for key in ("a" * 32, "b" * 32):
        pool.put(key, {"w": np.arange(3.0)}, {"model": 1})
    assert steps.run_command(("labels", "design", "--n", "6", "--write", "submitted"), folder)[0] == 0
    return folder


def files(folder):
    """Names of the files of a run."""
    return [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]


def _wrong(value, random_):
    """JSON of another shape."""
    if isinstance(value, dict) and value:
        key = random_.choice(sorted(value))
        return value | {key: random_.choice(_SHAPES) if random_.random() < 0.5 else _wrong(value[key], random_)}
    if isinstance(value, list) and value:
        position = random_.randrange(len(value))
        return [*value[:position], _wrong(value[position], random_), *value[position + 1 :]]
    return random_.choice(_SHAPES)


_SHAPES = (None, True, 0, -1, 1e308, 2**70, "", "abc", "\x1b[2J", [], [None], {}, {"a": 1}, [[[]]])


def damages(folder, random_, count):
    """What can be done to a directory like this one: a word, and the deed, done to a copy of it."""
    file_names = files(folder)
    damage_by_name = {}
    for name in [*file_names, *(random_.choice(file_names) for _ in range(count))]:
        content = (folder / name).read_bytes()
        bit = random_.randrange(8 * max(len(content), 1))
        turned = bytearray(content or b"\0")
        turned[bit // 8] ^= 1 << bit % 8
        damage_by_name[f"{name} missing"] = _with(name, lambda path: path.unlink())
        damage_by_name[f"{name} cut"] = _with(name, lambda path, text=content: path.write_bytes(text[: len(text) // 2]))
        damage_by_name[f"{name} empty"] = _with(name, lambda path: path.write_bytes(b""))
        damage_by_name[f"{name} bit {bit} turned"] = _with(name, lambda path, text=turned: path.write_bytes(text))
        damage_by_name[f"{name} a folder"] = _with(name, lambda path: (path.unlink(), path.mkdir()))
        damage_by_name[f"{name} a link"] = _with(name, lambda path: (path.unlink(), path.symlink_to("/etc/hostname")))
        damage_by_name[f"{name} a link to itself"] = _with(
            name, lambda path: (path.unlink(), path.symlink_to(path.name))
        )
        for turn in range(4 * count if name.endswith(".json") else 0):
            text = json.dumps(_wrong(json.loads(content), random_))
            damage_by_name[f"{name} of another shape {turn}"] = _with(
                name, lambda path, text=text: path.write_text(text)
            )
    damage_by_name["all gone"] = shutil.rmtree
    damage_by_name["a file"] = lambda home: (shutil.rmtree(home), home.write_text("x"))
    damage_by_name["nothing in it"] = lambda home: (shutil.rmtree(home), home.mkdir())
    for other_run in sorted({"identified", "audited", "scored", "submitted", "pool"} - {folder.name}):
        damage_by_name[f"another kind: {other_run}"] = lambda home, other_run=other_run: _replaced(
            home, home.parent / other_run
        )
    if "run.json" in file_names:
        damage_by_name["unfinished"] = lambda home: _marked(home, state="running")
        damage_by_name["of a later format"] = lambda home: _marked(home, format=99)
    return damage_by_name


def _with(name, deed):
    return lambda home: deed(home / name)


def _replaced(home, replacement):
    shutil.rmtree(home)
    shutil.copytree(replacement, home)


def _marked(home, **changes):
    mark = json.loads((home / "run.json").read_text())
    (home / "run.json").write_text(json.dumps(mark | changes))


def sealed(folder):
    """Put the digests right again, as a sender who means harm would."""
    path = folder / "run.json"
    try:
        mark = json.loads(path.read_text())
        for name in mark["files"]:
            mark["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        path.write_text(json.dumps(mark))
    except (OSError, ValueError, KeyError, TypeError):
        return


def run(tally, reader, template, folder, *, count=1, share=1.0, seed=0):
    """Damage the directory in many ways and run the command on each."""
    right = _copied(template, folder / "right")
    code, expected = steps.run_command(reader.command, right)
    shutil.rmtree(right)
    assert code in (Exit.OK, Exit.BROKEN, Exit.UNDECIDED), expected
    random_ = random.Random(f"{seed} {reader.command}")
    for word, deed in damages(template / reader.reads, random_, count).items():
        if random_.random() >= share:
            continue
        for hidden in (False, True) if "run.json" in files(template / reader.reads) else (False,):
            home = _copied(template, folder / "case")
            deed(home / reader.reads)
            if hidden:
                sealed(home / reader.reads)
            case = f"{' '.join(reader.command)} ({word}{', sealed' * hidden})"
            tally.add(case, _outcome(reader, home, word, hidden, expected))
            shutil.rmtree(home)


def _copied(template, destination):
    return shutil.copytree(template, destination, symlinks=True)


def _outcome(reader, home, word, hidden, expected):
    try:
        code, output = steps.run_command(reader.command, home)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if code not in DOCUMENTED:
        return f"exit code {code}: {output[-300:]}"
    if "Traceback" in output or "np.float" in output or "allow_pickle" in output:
        return f"says {output[-300:]}"
    if code in (Exit.INPUT, Exit.DAMAGED):
        return "InputError"
    return "answer" if hidden or output == expected or not _counts(reader, word) else f"not noticed: {output[-200:]}"


def _counts(reader, word):
    """Whether the damage is to something that an answer is made from."""
    return reader.reads in ("identified", "audited", "scored") and not word.startswith((*FREE, ".lock", "another kind"))
