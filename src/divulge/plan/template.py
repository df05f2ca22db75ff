"""A plan to start from: commented, valid, and with a stub of the code that it names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from divulge.errors import InputError
from divulge.validation import check_choice, check_path, check_string

Kind: TypeAlias = Literal["images", "table", "text"]
Ask: TypeAlias = Callable[[str, str], str]
"""A question and its default → the answer."""

_DEFAULTS: dict[Kind, dict[str, str]] = {
    "images": {
        "model": "model.safetensors",
        "members": "members.npz",
        "nonmembers": "nonmembers.npz",
        "population": "population.npz",
        "label": "label",
        "references": "16",
    },
    "table": {
        "model": "model.skops",
        "members": "members.csv",
        "nonmembers": "nonmembers.csv",
        "population": "population.csv",
        "label": "label",
        "references": "0",
    },
    "text": {
        "model": "finetuned/",
        "members": "members.jsonl",
        "nonmembers": "nonmembers.jsonl",
        "population": "population.jsonl",
        "label": "text",
        "references": "4",
    },
}
_QUESTIONS = {
    "model": "The model: a file (.safetensors, .onnx, .skops), a Hugging Face folder, or module:name",
    "members": "File of records it was trained on",
    "nonmembers": "File of records of the same kind that it was not trained on",
    "population": "File of further records, not trained on either",
    "label": "Column of the classes (of documents: of the text)",
    "references": "Reference models to train (0: none, and weaker attacks)",
}
_STUB = '''"""The network whose weights the plan names: fill in the one that was trained."""

from torch import nn


def make_model():
    """The untrained network; one output for each class."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
'''
_FACTORY = "my_model:make_model"


@dataclass(frozen=True, slots=True)
class Answers:
    """What there is to audit.

    Args:
        records: what a record is.
        model: the target, as a plan names it.
        members: file of the records that it was trained on.
        nonmembers: file of others.
        population: file of further ones.
        label: column of the classes; of documents, of the text.
        references: number of reference models.
    """

    records: Kind
    model: str
    members: str
    nonmembers: str
    population: str
    label: str
    references: int

    @classmethod
    def collect(cls, given: Mapping[str, str | None], ask: Ask | None) -> Answers:
        """From options; what they leave open is asked, or is the usual where nobody can be asked.

        Raises:
            divulge.InputError: an unknown kind of records, an empty name, a number of models that is none.
        """
        kinds = get_args(Kind)

        def answer(name: str, question: str, default: str) -> str:
            said = given.get(name)
            if said is None:
                said = default if ask is None else ask(question, default)
            return check_string(said, f"--{name}")

        said = answer("records", f"A record is ({', '.join(kinds)})", "images")
        kind = cast("Kind", check_choice(said, "--records", kinds))
        told = {name: answer(name, question, _DEFAULTS[kind][name]) for name, question in _QUESTIONS.items()}
        count = told.pop("references")
        if not count.isdecimal():
            raise InputError(f"--references: a whole number from 0 is needed, got {count!r}")
        return cls(records=kind, references=_count(int(count), kind), **told)


def _count(count: int, kind: Kind) -> int:
    if count == 1 and kind != "text":
        raise InputError("--references: 0 or at least 2 are needed, got 1")
    return count


def write(folder: Path, answers: Answers) -> list[Path]:
    """``plan.toml`` in ``folder``, and ``my_model.py`` where the plan names code; what is there is left alone.

    Files that lie where the command was given, and not in ``folder``, are named as seen from there.

    Raises:
        divulge.InputError: one of them is there already, or cannot be written.
    """
    seen = {
        name: _seen_from(folder, getattr(answers, name)) for name in ("model", "members", "nonmembers", "population")
    }
    files = {"plan.toml": plan(replace(answers, **seen))} | ({"my_model.py": _STUB} if _named(answers) else {})
    paths = {check_path(folder / name, "folder"): text for name, text in files.items()}
    if there := [path for path in paths if path.exists()]:
        raise InputError(f"folder: {there[0]} is there already; move it away, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            with path.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise InputError(f"folder: {folder} cannot be written ({error.strerror or error})") from None
    return list(paths)


def _seen_from(folder: Path, name: str) -> str:
    try:
        if (folder / name).exists() or not Path(name).exists():
            return name
    except (OSError, ValueError):  # no name that a file could have
        return name
    return Path(os.path.relpath(Path(name).absolute(), folder.absolute())).as_posix()


def plan(answers: Answers) -> str:
    """The plan's text.

    Examples:
        >>> print(plan(Answers.collect({"records": "text"}, None)).splitlines()[0])
        # An audit: which of these records was the model trained on? Run it with: divulge audit plan.toml
    """
    return "\n\n".join([_head(answers), _target(answers), _data(answers), _references(answers)]) + "\n"


def _head(a: Answers) -> str:
    if a.records == "text":
        recipes = ["loss", "min-k++", "zlib"] + (["base-ratio", "reference-ratio", "windows"] if a.references else [])
    else:
        recipes = ["loss", *(["lira", "rmia"] if a.references else []), "quantile"]
    return f"""# An audit: which of these records was the model trained on? Run it with: divulge audit plan.toml
# Paths start at this file's folder. Every key is explained in docs/reference/plan.md.

recipes = {json.dumps(recipes)}  # `divulge list` shows all; each is tested, and corrected for
fpr = [0.01]  # wrongly accused among non-members, at most; 0.01 needs at least 100 of them
seed = 0  # of every random draw: the same seed gives the same result"""


def _target(a: Answers) -> str:
    lines = ["[target]", f"model = {_said(a.model)}"]
    if a.model.endswith(".safetensors"):
        lines.append(f"factory = {_said(_FACTORY)}  # builds the empty network for these weights, in my_model.py")
    elif a.model.endswith(".onnx") or ":" in a.model:
        lines.append('# outputs = "probabilities"  # where the model returns probabilities, not logits')
    elif a.model.endswith(".skops"):
        lines.append(
            '# frames = "pandas"  # what it was fitted on, or "polars", where it does not show: see docs/audit.md'
        )
    elif a.records == "text":
        lines.append('# base = "base/"  # of a LoRA adapter: the model that it was trained on')
    return "\n".join(lines)


def _data(a: Answers) -> str:
    column = (
        f"text = {_said(a.label)}  # column of the documents"
        if a.records == "text"
        else f"label = {_said(a.label)}  # column of the classes; in an .npz they are the array y, the records x"
    )
    more = {
        "images": "# scale = 0.00392156862745098  # factor on every value: pixels of 0 to 255 to 0 to 1",
        "table": """# id = "id"  # column of identifiers
# columns = ["age", "hours"]  # the values of a record; all other columns where this is not said
# drop = ["row"]  # columns that are no part of a record
# classes = ["no", "yes"]  # where classes have names and the model does not: in the order of its outputs""",
        "text": '# id = "id"  # column of identifiers',
    }
    return f"""[data]
members = {_said(a.members)}  # the model was trained on these
nonmembers = {_said(a.nonmembers)}  # and not on these, drawn like them
population = {_said(a.population)}  # nor on these: attacks learn from them, and decisions are calibrated on them
{column}
{more[a.records]}"""


def _references(a: Answers) -> str:
    if not a.references:
        return "# [references]  # with reference models, attacks are much stronger: see docs/references.md"
    if a.records == "text":
        return f"""[references]  # trained as the target was: the same base, epochs and learning rate
base = "base/"
count = {a.references}
epochs = 3"""
    return f"""[references]  # trained as the target was: the same network, epochs and optimiser
make_model = {_said(_FACTORY)}
count = {a.references}
epochs = 20"""


def _named(a: Answers) -> bool:
    """Whether the plan names code."""
    return a.model.endswith(".safetensors") or (bool(a.references) and a.records != "text")


def _said(value: str) -> str:
    """As a TOML string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
