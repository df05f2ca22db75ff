"""One table in eight spellings, through every command that reads tables: is the answer the same?

python benchmarks/spellings.py [--folder FOLDER]

The table has numbers, truth values, categories, texts and dates, with missing values, and identifiers such as 007.
It is the data of a forest behind one-hot encoding in a skops file. A cell of the Markdown table that is printed says
"same" where exit code, printed result and files written equal those of the first spelling; otherwise it says what
differs. Below it stands an audit with columns reversed: from Python, from a plan, and with columns named on the command
line. The exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gzip
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

import divulge as dv
from divulge import cli, margin
from divulge.tables import read_table

N = 80  # records of a set
SETS = ("members", "nonmembers", "population")
FEATURES = ("age", "dose", "smoker", "insured", "sex", "admitted", "note")


def write_semicolons(frame: pl.DataFrame, path: Path) -> None:
    """Write a CSV file as a spreadsheet does where the decimal sign is a comma."""
    frame.write_csv(path, separator=";", decimal_comma=True)


SPELLINGS: dict[str, tuple[str, Callable[[pl.DataFrame, Path], object]]] = {
    "comma .csv": (".csv", lambda frame, path: frame.write_csv(path)),
    "semicolon and decimal comma .csv": (".csv", write_semicolons),
    "tab .tsv": (".tsv", lambda frame, path: frame.write_csv(path, separator="\t")),
    "UTF-16 with mark .csv": (".csv", lambda frame, path: path.write_bytes(frame.write_csv().encode("utf-16"))),
    ".csv.gz": (".csv.gz", lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode()))),
    "Parquet": (".parquet", lambda frame, path: frame.write_parquet(path)),
    "Arrow": (".arrow", lambda frame, path: frame.write_ipc(path)),
    "JSON Lines": (".jsonl", lambda frame, path: frame.write_ndjson(path)),
}


def make_patients() -> dict[str, pl.DataFrame]:
    """Return members, non-members and population of one distribution."""
    rng, n = np.random.default_rng(0), 3 * N
    words = ["cough", "fever; dry", "pain, left", 'so-called "rash"', "über"]
    frame = pl.DataFrame(
        {
            "person": [f"{i:03}" for i in range(n)],
            "age": [None if rng.random() < 0.1 else int(rng.integers(18, 90)) for _ in range(n)],
            "dose": rng.normal(size=n).round(4),
            "smoker": rng.random(n) < 0.3,
            "insured": [None if rng.random() < 0.1 else bool(rng.random() < 0.5) for _ in range(n)],
            "sex": [None if rng.random() < 0.1 else str(rng.choice(["Male", "Female"])) for _ in range(n)],
            "admitted": [
                None if rng.random() < 0.1 else f"2020-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
                for _ in range(n)
            ],
            "note": [" ".join(rng.choice(words, 4)) + f" {i}" for i in range(n)],
            "outcome": rng.choice(["ill", "well"], n),
        }
    ).with_columns(pl.col("admitted").str.to_date())
    return {name: frame[N * i : N * (i + 1)] for i, name in enumerate(SETS)}


def fit_model(members: pl.DataFrame, seed: int = 0) -> Pipeline:
    """Return a forest behind one-hot encoding, fitted on what pandas reads from a CSV file."""
    frame = pd.read_csv(io.StringIO(members.write_csv()), dtype={"person": str})
    encode = OneHotEncoder(handle_unknown="ignore")
    steps = [
        ("numbers", SimpleImputer(), ["age", "dose"]),
        ("categories", encode, ["smoker", "insured", "sex", "admitted"]),
        ("words", TfidfVectorizer(), "note"),
    ]
    forest = RandomForestClassifier(20, random_state=seed)
    return make_pipeline(ColumnTransformer(steps), forest).fit(frame[list(FEATURES)], frame["outcome"])


def make_tables() -> dict[str, pl.DataFrame]:
    """Return every table that a command reads, by the stem of its file."""
    rng = np.random.default_rng(1)
    tables = make_patients()
    tables["erased"], tables["kept"] = tables["members"][:40], tables["members"][40:]
    documents = pl.concat([tables["members"], tables["nonmembers"]]).select("person", "note")
    losses = np.append(rng.normal(-3, 1, N), rng.normal(size=N)).round(6)
    tables["candidates"] = documents.with_columns(Loss=losses, seen=np.arange(2 * N) < N)
    unseen = tables["population"].select("person", "note")
    tables["unused"] = unseen.with_columns(Loss=rng.normal(size=N).round(6))
    people = pl.concat([tables["erased"], tables["nonmembers"]])["person"]
    for name, shift in (("before", 3.0), ("after", 0.0), ("again0", 0.0), ("again1", 0.0)):
        scores = rng.normal(size=len(people)) + shift * (np.arange(len(people)) < 40)
        tables[name] = pl.DataFrame({"person": people, "score": scores.round(6)})
    tables["labels"] = pl.DataFrame({"row": np.arange(60), "outcome": rng.integers(0, 2, 60)})
    tables["public"] = pl.DataFrame({"public": (np.arange(60) % 3 > 0).astype(int)})
    cases = [f"{i:03}" for i in range(60)]
    tables["template"] = pl.DataFrame({"case": cases, "ill": [0.5] * 60, "well": [0.5] * 60})
    y = rng.integers(0, 2, 220)
    x = rng.normal(size=(220, 30)).round(6)
    x[:, 0] += 2 * y - 1
    points = pl.DataFrame({f"x{i}": x[:, i] for i in range(30)}).with_columns(
        id=pl.Series([f"{i:03}" for i in range(220)]), label=pl.Series(y), member=pl.Series(np.arange(220) < 10)
    )
    tables["points"], tables["outside"] = points[:60], points[60:].drop("member")
    tables["training"] = points[:60].drop("member")
    return tables


PLAN = """recipes = ["loss", "lira", "quantile-trees"]
fpr = [0.1]
[target]
model = "../model.skops"
[data]
id = "person"
label = "outcome"
members = "members{0}"
nonmembers = "nonmembers{0}"
population = "population{0}"
[references]
count = 4
"""
DEFEND = "[defend]\nsettings = [{{ min_samples_leaf = 20 }}]\n"
FORGET = """[forget]
after = "../after.skops"
records = "erased{0}"
retrained = ["../again0.skops", "../again1.skops"]
"""
NAMES = ("--id", "person", "--label", "outcome")
COMMANDS: dict[str, tuple[str, ...]] = {
    "init": (
        "init", "started", "--records", "table", "--model", "../model.skops", "--members", "members{0}", "--nonmembers",
        "nonmembers{0}", "--population", "population{0}", "--references", "4",
    ),
    "check": ("check", "plan.toml", "--json"),
    "check of what init wrote": ("check", "started/plan.toml", "--json"),
    "audit": ("audit", "plan.toml", "--out", "audit", "--json"),
    "report, json": ("report", "audit", "--format", "json", "--show-records", "--to", "results.json"),
    "report, md": ("report", "audit", "--format", "md", "--show-records", "--to", "card.md"),
    "report, csv": ("report", "audit", "--format", "csv", "--to", "records.csv"),
    "compare with the run of the first": ("compare", "../0/audit", "audit", "--json"),
    "gate": ("gate", "audit", "--max", "auc:0.6", "--json"),
    "decide": ("decide", "audit", "--fpr", "0.1", "--json"),
    "identify": (
        "identify", "candidates{0}", "--calibration", "unused{0}", "--score", "Loss:low", "--id", "person",
        "--text", "note", "--truth", "seen", "--fdr", "0.1", "--out", "identify", "--json",
    ),
    "decide, of an identification": ("decide", "identify", "--fdr", "0.2", "--json"),
    "forget, tables of scores": (
        "forget", "--before", "before{0}", "--after", "after{0}", "--retrained", "again0{0}", "--retrained",
        "again1{0}", "--forget", "erased{0}", "--never", "nonmembers{0}", "--id", "person", "--out", "forget", "--json",
    ),
    "forget, models": (
        "forget", "--before", "../model.skops", "--after", "../after.skops", "--retrained", "../again0.skops",
        "--retrained", "../again1.skops", "--forget", "erased{0}", "--never", "nonmembers{0}", "--retained", "kept{0}",
        *NAMES, "--json",
    ),
    "forget, a plan": ("forget", "--plan", "forget.toml", "--json"),
    "attribute": ("attribute", "plan.toml", "--column", "sex", "--out", "attribute", "--json"),
    "defend": ("defend", "defend.toml", "--out", "defend", "--json"),
    "inspect --members": ("inspect", "../model.skops", "--members", "members{0}", *NAMES, "--json"),
    "canaries make": (
        "canaries", "make", "--data", "training{0}", "--count", "40", "--kind", "mislabelled", "--seed", "1", "--out",
        "canaries",
    ),
    "canaries audit": (
        "canaries", "audit", "../points.skops", "--canaries", "canaries", "--training", "training{0}",
        "--claim-epsilon", "1", "--json",
    ),
    "weights": (
        "weights", "../net.safetensors", "--candidates", "points{0}", "--nonmembers", "outside{0}", "--margin", "100",
        "--selection", "selection.parquet", "--json",
    ),
    "labels simulate": ("labels", "simulate", "labels{0}", "--label", "outcome", "--noise", "1e-4", "--json"),
    "labels design --template": (
        "labels", "design", "--n", "60", "--template", "template{0}", "--write", "submissions", "--json",
    ),
    "identify score": (
        "identify", "score", "members{0}", "--model", "../language", "--text", "note", "--id", "person", "--out",
        "scored", "--json",
    ),
    "identify --model": (
        "identify", "members{0}", "--calibration", "population{0}", "--model", "../language", "--text", "note", "--id",
        "person", "--out", "identify-model", "--json",
    ),
    "extract": (
        "extract", "--model", "../language", "--members", "members{0}", "--nonmembers", "nonmembers{0}", "--text",
        "note", "--id", "person", "--prefix", "3", "--suffix", "3", "--out", "extract", "--json",
    ),
}  # fmt: skip

# Files that name or hash the files that were read, stored reference models, whose descriptions hold the time of day
# (their scores are compared), and submissions, which look like their template.
NOT_COMPARED = ("run.json", "provenance.json", "report.html", "submissions", "pool")
NOT_COMPARED_KEYS = (  # of JSON: times, and how the file of canaries is spelled
    "timings", "scoring", "seconds", "stored", "provenance", "ending", "separator", "codes",
)  # fmt: skip
CSV_ALONE = "labels design --template"  # an endpoint takes CSV files, in the form of the template


def save_models(folder: Path, tables: dict[str, pl.DataFrame]) -> None:
    """Save the models that are audited: forests behind one-hot encoding, two networks and a language model."""
    skops.io.dump(fit_model(tables["members"]), folder / "model.skops")
    for seed, name in enumerate(("after", "again0", "again1")):
        skops.io.dump(fit_model(tables["kept"], seed + 1), folder / f"{name}.skops")
    x, y = (tables["points"].select(f"x{i}" for i in range(30)), tables["points"]["label"].to_numpy())
    skops.io.dump(RandomForestClassifier(10, random_state=0).fit(x.to_pandas(), y), folder / "points.skops")
    net = margin.train(x.to_numpy()[:10], 2 * y[:10] - 1, width=60, target_margin=100.0).net
    net.to_safetensors(folder / "net.safetensors")
    save_language_model(folder / "language", tables["members"]["note"].to_list())


def save_language_model(folder: Path, documents: list[str]) -> None:
    """Save an untrained language model of the words of ``documents``."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({word for text in documents for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text)})
    raw = Tokenizer(models.WordLevel({"<s>": 0, "?": 1} | {word: i for i, word in enumerate(words, 2)}, "?"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(words) + 2, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2LMHeadModel(config).eval().save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="?").save_pretrained(folder)


def run_command(arguments: tuple[str, ...], ending: str) -> tuple[int, str]:
    """Run a command in the current folder; return its exit code and what it printed."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = cli.run([word.format(ending) for word in arguments])
    return code, without_varying_keys(output.getvalue() if output.getvalue() else errors.getvalue())


def describe_files(before: set[Path]) -> str:
    """Return the contents of the files in the current folder that were not there before."""
    contents = {
        without_ending(str(path)): describe_file(path)
        for path in {*Path().rglob("*")} - before
        if path.is_file() and not any(part in NOT_COMPARED or part.startswith(".") for part in path.parts)
    }
    return "\n".join(f"--- {name}\n{content}" for name, content in sorted(contents.items()))


def without_ending(text: str) -> str:
    """Return a text without the endings of files of canaries, which are spelled as the user's table is."""
    return re.sub(r"\b(insert|canaries)\.(csv|parquet|jsonl)\b", r"\1.TABLE", text)


def describe_file(path: Path) -> str:
    """Return the content of a file as lines of text: what is read from it where it is a table of canaries."""
    if without_ending(path.name) != path.name:
        frame = read_table(path)
        return frame.with_columns(cs.numeric().cast(pl.Float64)).write_ndjson()
    if path.suffix == ".parquet":
        return pl.read_parquet(path).write_ndjson()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return "\n".join(f"{name} {arrays[name].dtype} {arrays[name].tolist()}" for name in arrays.files)
    if path.suffix == ".safetensors" or b"\0" in path.read_bytes():
        return path.read_bytes().hex()
    return without_varying_keys(path.read_text(encoding="utf-8"))


def without_varying_keys(text: str) -> str:
    """Return a text of JSON without what may differ, one value a line; another text as it is."""

    def remove(value: object) -> object:
        if isinstance(value, dict):
            return {key: remove(each) for key, each in value.items() if key not in NOT_COMPARED_KEYS}
        return [remove(each) for each in value] if isinstance(value, list) else value

    try:
        return json.dumps(remove(json.loads(text)), indent=0)
    except ValueError:
        return text


def first_difference(first_text: str, other_text: str) -> str:
    """Return the first lines in which two texts differ, shortened to fit a cell."""
    lines = difflib.unified_diff(first_text.splitlines(), other_text.splitlines(), lineterm="", n=0)
    changed = [line[:160] for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return "differs: " + " ".join(changed[:4]).replace("|", "\\|")


def run_commands(
    place: Path, tables: dict[str, pl.DataFrame], ending: str, write: Callable[[pl.DataFrame, Path], object]
) -> dict[str, tuple[int, str]]:
    """Write all tables in one spelling, run every command on them, and return exit codes and results."""
    place.mkdir()
    for stem, table in tables.items():
        write(table, place / f"{stem}{ending}")
    for stem, extra in (("plan", ""), ("defend", DEFEND), ("forget", FORGET)):
        (place / f"{stem}.toml").write_text((PLAN + extra).format(ending), encoding="utf-8")
    outputs = {}
    with contextlib.chdir(place):
        for name, arguments in COMMANDS.items():
            before = {*Path().rglob("*")}
            code, output = run_command(arguments, ending)
            text = f"exit code {code}\n{output}\n{describe_files(before)}"
            text = without_ending(text.replace(str(place.resolve()), "."))
            for stem in tables:
                text = text.replace(f"{stem}{ending}", f"{stem}.TABLE")
            outputs[name] = (code, text)
            print(f"{place.name} {name}: {code}", file=sys.stderr)
    return outputs


def compare_spellings(results: dict[str, dict[str, tuple[int, str]]]) -> tuple[str, int]:
    """Return the Markdown table, and how many cells differ."""
    first_outputs, different = next(iter(results.values())), 0
    lines = ["| command | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for command, (code, text) in first_outputs.items():
        cells = [f"exit code {code}" if code in (0, 1, 3) else f"fails: {text[:200]}"]
        different += code not in (0, 1, 3)
        for result in list(results.values())[1:]:
            if result[command] == (code, text):
                cells.append("same")
            elif command == CSV_ALONE and "a CSV file is needed" in result[command][1]:
                cells.append("refused: a CSV file is needed")
            else:
                cells.append(first_difference(text, result[command][1]))
                different += 1
        lines.append(f"| {command} | " + " | ".join(cells) + " |")
    return "\n".join(lines), different


def audit_reversed(folder: Path, tables: dict[str, pl.DataFrame]) -> tuple[str, int]:
    """Audit the model of the skops file with columns in other orders; return a Markdown table, and how many differ."""
    backwards = {name: table.select(reversed(table.columns)) for name, table in tables.items() if name in SETS}
    mixed = {name: tables[name] for name in SETS} | {"nonmembers": backwards["nonmembers"]}
    orders = {"as fitted": {name: tables[name] for name in SETS}, "reversed": backwards, "one set reversed": mixed}
    scores: dict[str, np.ndarray] = {}
    lines = ["| columns | Python: AUC of loss | a plan | columns named on the command line |", "|---|---|---|---|"]
    target = dv.targets.load(str(folder / "model.skops"))
    for number, (order, sets) in enumerate(orders.items()):
        records = {name: dv.Records(part.drop("person", "outcome"), part["outcome"]) for name, part in sets.items()}
        result = dv.audit(target, **records, recipes=["loss"], fpr=[0.1])
        scores[f"Python, {order}"] = result.scores["loss"]
        place = folder / f"order{number}"
        place.mkdir()
        for name, part in sets.items():
            part.write_csv(place / f"{name}.csv")
        plan = PLAN.replace('"loss", "lira", "quantile-trees"', '"loss"').format(".csv").split("[references]")[0]
        (place / "plan.toml").write_text(plan, encoding="utf-8")
        unnamed = plan.replace('id = "person"\nlabel = "outcome"\n', "")
        (place / "unnamed.toml").write_text(unnamed, encoding="utf-8")
        with contextlib.chdir(place):
            for route, words in {"plan": ("plan.toml",), "options": ("unnamed.toml", *NAMES)}.items():
                code, output = run_command(("audit", *words, "--out", route, "--json"), ".csv")
                if code:
                    raise SystemExit(output)
                scores[f"{route}, {order}"] = dv.auditing.load(Path(route)).scores["loss"]
        expected = scores["Python, as fitted"]
        equal = [np.array_equal(scores[f"{route}, {order}"], expected) for route in ("Python", "plan", "options")]
        cells = ["same scores" if same else "differs" for same in equal]
        lines.append(f"| {order} | {result['loss'].auc.value:.3f}, {cells[0]} | {cells[1]} | {cells[2]} |")
    return "\n".join(lines), sum("differs" in line for line in lines)


def main() -> int:
    """Print the tables; return 1 where a spelling or the order of columns makes a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to work, which must not exist (default: a temporary one)")
    chosen = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1700000000")
    os.environ["COLUMNS"] = "200"
    with contextlib.ExitStack() as stack:
        folder = chosen.folder or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "work"
        folder.mkdir(parents=True)
        tables = make_tables()
        save_models(folder, tables)
        results = {
            name: run_commands(folder / str(number), tables, ending, write)
            for number, (name, (ending, write)) in enumerate(SPELLINGS.items())
        }
        spellings, n_spellings = compare_spellings(results)
        orders, n_orders = audit_reversed(folder, tables)
    print(f"# Eight spellings of one table, and the order of its columns\n\n{spellings}\n\n{orders}")
    return int(n_spellings + n_orders > 0)


if __name__ == "__main__":
    sys.exit(main())
