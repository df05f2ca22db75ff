"""What public functions answer to fixed input, and what pages say of fixed runs, as text that can be kept.

    PYTHONPATH=src:tests python tests/recorded/recording.py        # after a deliberate change: read the diff it makes

Definitions are tested elsewhere, against oracles. What is recorded notices that an answer changed which nobody meant
to change: each number of each public function, under each of its named settings, and each sentence of each page.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import re
import shutil
import sys
import tempfile
import time
import types
import typing
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

import run_directories
from divulge.recipes import aliases, resolve
from faults import steps
from fuzz import functions, surface
from recorded import charts

FOLDER = Path(__file__).parent
AGAIN = "if that is meant: PYTHONPATH=src:tests python tests/recorded/recording.py, and read the diff that it makes"
LONGEST, DEEPEST = 40, 5
TOLERANCE = 1e-6
TRAINED = 1e-2
"""Relative, of numbers that come from training, whose last digits are a matter of the processor."""
SLOW = {"engine='ray'", "precision='mixed'", "detector='cade'", "detector='msad'"}
UNSTEADY = {"signals.margin.DeepMultipliers", "signals.margin.deep_multipliers"}
"""Least squares of nearly dependent columns: other threads, other multipliers of the same fit."""
LIMITS = {"erasure": "difference:0.05", "attributes": "share:0.05", "synthetic": "share:0.05", "cohorts": "cohorts:0"}
NOT_SHOWN = {"seconds", "created", "version", "path", "folder"}


def describe(value, depth=0):
    """A value as JSON: numbers, words, and what dataclasses hold and say; long arrays by their start and their sums."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item(), depth)
    if isinstance(value, int | float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if type(value).__module__.startswith("torch") and hasattr(value, "detach"):
        return _array(value.detach().numpy())
    if depth == DEEPEST:
        return type(value).__name__
    if isinstance(value, dict | types.MappingProxyType):
        return {str(key): describe(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [describe(part, depth + 1) for part in value[:LONGEST]]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, depth)
    return type(value).__name__


def _array(array):
    flat = array.ravel()
    if array.dtype.kind not in "fiub":
        return {"shape": list(array.shape), "first": [str(part) for part in flat[:LONGEST]]}
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return {
        "shape": list(array.shape),
        "first": [describe(part) for part in numbers[:LONGEST]],
        "sum": describe(finite.sum()),
        "sum of squares": describe((finite**2).sum()),
    }


def _dataclass(value, depth):
    content = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for name, member in inspect.getmembers_static(type(value)):
        if isinstance(member, property | functools.cached_property) and not name.startswith("_"):
            content[name] = _outcome(functools.partial(getattr, value, name))
    results = {
        name: describe(part, depth + 1)
        for name, part in content.items()
        if not name.startswith("_") and name not in NOT_SHOWN and not callable(part)
    }
    if type(value).__module__.startswith("divulge") and "__str__" in vars(type(value)):
        results["as text"] = str(value)
    return results


def _outcome(ask):
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _parameter_types(function):
    """The type of each parameter; None where it is written with a name that only type checkers import."""
    modules = [part.__module__ for part in function.__mro__] if inspect.isclass(function) else [function.__module__]
    names = {name: value for module in reversed(modules) for name, value in vars(sys.modules[module]).items()}
    types = {}
    for parameter, declared in inspect.signature(function).parameters.items():
        try:
            types[parameter] = eval(declared.annotation, names) if isinstance(declared.annotation, str) else None
        except (NameError, TypeError):
            types[parameter] = None
    return types


def settings(name):
    """The valid call of a function, and each that differs in one named choice or switch."""
    call, function = functions.CALLS[name], surface.public()[name]
    yield "as given", call.fresh()
    for parameter, hint in _parameter_types(function).items():
        choices = [choice for part in (hint, *typing.get_args(hint)) if typing.get_origin(part) is typing.Literal
                   for choice in typing.get_args(part)]  # fmt: skip
        if hint is bool:
            choices = [False, True]
        for choice in choices:
            word = f"{parameter}={choice!r}"
            if call.arguments.get(parameter) != choice and word not in SLOW:
                yield word, call.fresh() | {parameter: choice}


def answers(name):
    """What a public function answers under each setting."""
    call, function = functions.CALLS[name], surface.public()[name]
    return {
        word: describe(_outcome(lambda arguments=arguments: call.use(function(**arguments))))
        for word, arguments in settings(name)
    }


def difference(recorded, current, tolerance, path=""):
    """Where two descriptions differ first; an empty text where they do not."""
    if isinstance(recorded, dict) and isinstance(current, dict):
        if recorded.keys() != current.keys():
            return f"{path}: {sorted(recorded.keys() ^ current.keys())} on one side alone"
        pairs = [(f"{path}.{key}", recorded[key], current[key]) for key in recorded]
    elif isinstance(recorded, list) and isinstance(current, list) and len(recorded) == len(current):
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(recorded, current, strict=True))]
    elif isinstance(recorded, float) and isinstance(current, float | int) and not isinstance(current, bool):
        is_close = math.isclose(recorded, current, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
        return "" if is_close else f"{path}: {recorded} recorded, {current} found"
    elif isinstance(recorded, str) and isinstance(current, str):
        return "" if _texts_agree(recorded, current, tolerance) else f"{path}: {recorded!r} recorded, {current!r} found"
    else:
        same = type(recorded) is type(current) and recorded == current
        return "" if same else f"{path}: {recorded!r} recorded, {current!r} found"
    return next(filter(None, (difference(old, new, tolerance, place) for place, old, new in pairs)), "")


_NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?")


def _texts_agree(recorded, current, tolerance):
    """Whether two texts are the same but for the last digits of long numbers."""
    if recorded == current:
        return True
    if _NUMBER.sub("#", recorded) != _NUMBER.sub("#", current):
        return False
    pairs = zip(_NUMBER.findall(recorded), _NUMBER.findall(current), strict=True)
    return all(a == b or (len(a) > 9 and math.isclose(float(a), float(b), rel_tol=tolerance)) for a, b in pairs)


READ_ALOUD = ("class", "title", "aria-label", "alt", "scope", "open", "href")


class _Words(HTMLParser):
    """The words of a page, a line for each element; charts by what they say to a screen reader."""

    def __init__(self):
        super().__init__()
        self.lines, self._silent = [], 0

    def handle_starttag(self, tag, attributes):
        self._silent += tag in ("style", "script")
        shown_attributes = [f"{key}={value}" for key, value in attributes if key in READ_ALOUD]
        if shown_attributes and not self._silent:
            self.lines.append(f"<{tag} {' '.join(shown_attributes)}>")

    def handle_endtag(self, tag):
        self._silent -= tag in ("style", "script")

    def handle_data(self, data):
        if data.strip() and not self._silent:
            self.lines.append(" ".join(data.split()))


def words(page):
    """A page's text, without what changes from run to run."""
    parser = _Words()
    parser.feed(page)
    return "\n".join(parser.lines)


_CHANGES = (
    (re.compile(r"(?<=\S) {2,}|-{4,}"), " "),  # the width of a column is that of a path
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"), "DATE"),
    (re.compile(r"(?<!\.)\b(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b"), "DIGEST"),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)? (?:s|ms|min)\b"), "SECONDS"),
    (re.compile(r"(?:Python|Divulge|divulge|numpy|scikit-learn|polars|torch|scipy) \d[\w.+-]*"), "VERSION"),
)


_MACHINE = (
    (r'"timings": \{', r"\}"),
    (r'"environment": \{', r'"git_commit"'),
    (r'"git_commit": ', r"\n"),
    (r"\nTime\n", r"<details|<section|\Z"),
    (r"\nSoftware\n", r"<details|<section|\Z"),
)
"""Where parts of a page begin and end that tell of the machine and of the moment."""


def steady(text, folder):
    """Text without the folder, dates, digests, times and versions."""
    text = text.replace(str(folder), "FOLDER")
    for begins, ends in _MACHINE:
        text = re.sub(rf"(?<={begins}).*?(?={ends})", "", text, flags=re.DOTALL)
    for pattern, word in _CHANGES:
        text = pattern.sub(word, text)
    return text


REPORTS = {
    "report.html": (),
    "report.md": ("--format", "md"),
    "report.json": ("--format", "json"),
    "records.csv": ("--format", "csv"),
    "page.html": ("--one-page",),
    "page.md": ("--one-page", "--format", "md"),
}


def pages(run_kind, folder):
    """What the pages of a run of this kind say, and the command line of it."""
    folder = folder / "work"
    folder.mkdir()
    run = folder / "run"
    run_directories.WRITERS[run_kind](run)
    page_texts = {}
    for name, options in REPORTS.items():
        code, output = steps.run_command(("report", "run", "--to", name, *options), folder)
        page_texts[name] = f"exit code {code}\n{output}"
        if (folder / name).is_file():
            text = (folder / name).read_text(encoding="utf-8")
            page_texts[name] += words(text) if name.endswith("html") else text
    limit = LIMITS.get(run_kind, "auc:0.55")
    for name, options in {"gate": (), "gate.json": ("--json",)}.items():
        code, output = steps.run_command(("gate", "run", "--max", limit, *options), folder)
        page_texts[name] = f"exit code {code}\n{output}"
    return {name: steady(text, folder) for name, text in page_texts.items()}


def picture(name):
    """The specification of a picture, its points by their start and their number."""
    return json.loads(json.dumps(_with_few_points(charts.PICTURES[name]())))


def _with_few_points(part):
    if isinstance(part, dict):
        # What the library that writes specifications says of itself changes with its version.
        return {key: _with_few_points(held) for key, held in part.items() if key not in ("$schema", "config")}
    if isinstance(part, list):
        shown = [_with_few_points(held) for held in part[:LONGEST]]
        return shown if len(part) <= LONGEST else [*shown, f"{len(part)} altogether"]
    return part


def named_recipes():
    """The fields of each recipe that has a name, by type of record and name."""
    return {
        record_type: {name: fields_of(resolve(name, documents=documents)) for name in aliases(documents=documents)}
        for record_type, documents in (("classifiers", False), ("documents", True))
    }


def fields_of(recipe):
    return {field.name: repr(getattr(recipe, field.name)) for field in dataclasses.fields(recipe)}


def write():
    """Record everything afresh."""
    (FOLDER / "recipes.json").write_text(
        json.dumps(named_recipes(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(picture(name))}" for name in charts.PICTURES)
    (FOLDER / "charts.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    answers_by_name = {}
    for name in sorted(functions.CALLS.keys() - UNSTEADY):
        began = time.perf_counter()
        answers_by_name[name] = answers(name)
        print(f"{time.perf_counter() - began:6.2f} s  {len(answers_by_name[name])} settings  {name}", flush=True)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(answers_by_name[name])}" for name in answers_by_name)
    (FOLDER / "functions.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    for run_kind in run_directories.WRITERS:
        folder = Path(tempfile.mkdtemp())
        for name, page_text in pages(run_kind, folder).items():
            path = FOLDER / "pages" / run_kind / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page_text, encoding="utf-8")
        shutil.rmtree(folder)


if __name__ == "__main__":
    write()
