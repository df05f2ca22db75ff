"""What every script of this folder answers; it needs NumPy alone, so that it runs in each peer's own environment.

PYTHON SCRIPT names: the attacks and the version, as JSON
PYTHON SCRIPT score ATTACK IN.npz OUT.npy: scores of one attack; its seconds and memory, as JSON
PYTHON SCRIPT null CASES.npz: what it says of scores that know nothing, as JSON
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
    """

    value: float
    alarm: bool | None = None


def serve(package, attacks, statements, runs=None):
    """Answers the command line.

    Args:
        package: name on the package index, or a version.
        attacks: name → function of `Arrays` to scores ``[n]``; NaN where the peer gives a record none.
        statements: function of scores and members to name → `Said`.
        runs: how many runs of a case it is given; all when None.
    """
    command, *rest = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        if command == "names":
            answer = {"attacks": list(attacks), "version": package if " " in package else version(package)}
        elif command == "score":
            answer = _scored(attacks[rest[0]], *rest[1:])
        else:
            answer = _nulls(statements, rest[0], runs)
    print(json.dumps(answer))


def _scored(attack, given, kept):
    with np.load(given) as file:
        arrays = Arrays(**file)
    before, wall, processor = resource.getrusage(PEAK).ru_maxrss, time.perf_counter(), time.process_time()
    scores = np.asarray(attack(arrays), dtype=float)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    np.save(kept, scores)
    return {"wall": wall, "processor": processor, "MB": (resource.getrusage(PEAK).ru_maxrss - before) / 1024}


def _nulls(statements, given, runs):
    with np.load(given) as file:
        cases = {name: file[name] for name in file.files}
    names = [name.removesuffix("/scores") for name in cases if name.endswith("/scores")]
    return {
        case: _repeated(statements, cases[f"{case}/scores"][:runs], cases[f"{case}/members"][:runs]) for case in names
    }


def _repeated(statements, scores, members):
    """What is said of each row: values and alarms by name, and errors."""
    said, errors = {}, []
    for row, inside in zip(scores, members, strict=True):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers = statements(row.copy(), inside.copy())
        except Exception as error:  # its own errors are what we came to see
            errors.append(f"{type(error).__name__}: {error}".splitlines()[0][:120])
            continue
        for name, one in answers.items():
            kept = said.setdefault(name, {"values": [], "alarms": []})
            kept["values"].append(float(one.value))
            if one.alarm is not None:
                kept["alarms"].append(bool(one.alarm))
    return {"said": said, "errors": errors, "runs": len(scores)}
