"""What every script of this folder answers; it needs NumPy alone, so that it runs in each peer's own environment.

PYTHON SCRIPT names: the attacks and the version, as JSON
PYTHON SCRIPT score ATTACK IN.npz OUT.npy: scores of one attack; its seconds and memory, as JSON
PYTHON SCRIPT null CASES.npz: what it says of scores that know nothing, as JSON
PYTHON SCRIPT few CASES.npz: what it says after its attacks with few reference models on a model that leaks nothing
PYTHON SCRIPT train RECORDS.npz ROUNDS: what training reference models takes, where the tool trains any
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

PEAK = resource.RUSAGE_SELF
REFERENCED = ("LiRA", "RMIA")  # the attacks that use reference models


@dataclass(frozen=True)
class Arrays:
    """Scaled logits of a two-class problem: the target's, those of reference models, and the population's."""

    target: np.ndarray  # [n]
    references: np.ndarray  # [m, n]
    trained_on: np.ndarray  # bool [m, n]
    members: np.ndarray  # bool [n]
    population: np.ndarray  # [z]
    population_references: np.ndarray  # [m, z]

    @property
    def means(self):
        """Means and standard deviations [n] of a record's IN and OUT values; NaN where there are none."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            sides = [np.where(side, self.references, np.nan) for side in (self.trained_on, ~self.trained_on)]
            return [(np.nanmean(side, axis=0), np.nanstd(side, axis=0)) for side in sides]


def probability(logits):
    """Of the true class."""
    return 1 / (1 + np.exp(-logits))


@dataclass(frozen=True)
class Said:
    """One number that a peer prints of a table of scores.

    Attributes:
        value: the number.
        alarm: whether it says, at its stated confidence, that something leaks; None where it states no confidence.
        holds: whether its interval holds the truth; None where there is no two-sided interval.
    """

    value: float
    alarm: bool | None = None
    holds: bool | None = None

    @classmethod
    def area(cls, value, low, high):
        """An AUC with an interval; where nothing leaks the truth is .5."""
        return cls(value, low > 0.5, low <= 0.5 <= high)


def serve(package, attacks, statements, briefly=None, train=None):
    """Answers the command line.

    Args:
        package: name on the package index, or a version.
        attacks: name → function of `Arrays` to scores ``[n]``; NaN where the peer gives a record none.
        statements: function of scores and members to name → `Said`.
        briefly: like ``statements``, for attacks with few reference models; None: the same.
        train: returns name → way of training, for `training.in_turns`; None where the tool trains no models.
    """
    command, *rest_of_command = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        if command == "names":
            version_text = package if " " in package else version(package)
            answer = {"attacks": list(attacks), "version": version_text, "trains": train is not None}
        elif command == "score":
            answer = _scored(attacks[rest_of_command[0]], *rest_of_command[1:])
        elif command == "few":
            answer = _few(attacks, briefly or statements, rest_of_command[0])
        elif command == "train":
            answer = train(rest_of_command[0], int(rest_of_command[1]))
        else:
            answer = _nulls(statements, rest_of_command[0])
    print(json.dumps(answer))


def _scored(attack, arrays_file, scores_file):
    with np.load(arrays_file) as file:
        arrays = Arrays(**file)
    before, wall, processor = resource.getrusage(PEAK).ru_maxrss, time.perf_counter(), time.process_time()
    scores = np.asarray(attack(arrays), dtype=float)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    np.save(scores_file, scores)
    return {"wall": wall, "processor": processor, "MB": (resource.getrusage(PEAK).ru_maxrss - before) / 1024}


def _nulls(statements, arrays_file):
    with np.load(arrays_file) as file:
        cases = {name: file[name] for name in file.files}
    names = [name.removesuffix("/scores") for name in cases if name.endswith("/scores")]
    return {
        case: _repeated(statements, zip(cases[f"{case}/scores"], cases[f"{case}/members"], strict=True))
        for case in names
    }


def _few(attacks, statements, arrays_file):
    """Number of reference models → attack → what is said of its scores; records without a score are left out."""
    with np.load(arrays_file) as file:
        stacked = {name: file[name] for name in file.files}
    fields = [name.removeprefix("1/") for name in stacked if name.startswith("1/")]
    answers = {}
    for models in dict.fromkeys(name.partition("/")[0] for name in stacked):
        columns = [stacked[f"{models}/{field}"] for field in fields]
        tables = [Arrays(**dict(zip(fields, row, strict=True))) for row in zip(*columns, strict=True)]
        for attack, run in attacks.items():
            if not attack.startswith(REFERENCED):
                continue

            def statements_of(arrays, members, run=run):
                scores = np.asarray(run(arrays), dtype=float)
                scored = np.isfinite(scores)
                if not scored.any():
                    raise ValueError("no record has a score")
                return {"records scored": Said(scored.mean())} | statements(scores[scored], members[scored])

            answers.setdefault(models, {})[attack] = _repeated(
                statements_of, [(table, table.members) for table in tables]
            )
    return answers


def _repeated(statements, tables):
    """What is said of each table: values, alarms and intervals that hold by name, and errors."""
    statements_by_name, errors, runs = {}, [], 0
    for runs, (scores, inside) in enumerate(tables, 1):  # noqa: B007  counted
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers = statements(scores, inside)
        except Exception as error:  # its own errors are what we came to see
            errors.append(" ".join(f"{type(error).__name__}: {error}".split())[:160])
            continue
        for name, statement in answers.items():
            collected = statements_by_name.setdefault(name, {"values": [], "alarms": [], "holds": []})
            collected["values"].append(float(statement.value))
            for key, fact in (("alarms", statement.alarm), ("holds", statement.holds)):
                if fact is not None:
                    collected[key].append(bool(fact))
    return {"said": statements_by_name, "errors": errors, "runs": runs}
