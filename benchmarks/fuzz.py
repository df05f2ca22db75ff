"""Fuzzing for as long as wanted: public functions, files and commands on run directories, by the code of tests/fuzz.

    python benchmarks/fuzz.py --seconds 600 --seed 1

Every case has one property: a right answer or an InputError that names what was wrong. Prints the counts as a table
and the violations, and ends with 1 where there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzz import commands, formats, functions, judge


def rounds(seed, template):
    """What is tried with one seed, part by part."""
    for name in functions.CALLS:
        yield "functions", lambda tally, name=name: functions.run(tally, name, seed=seed)
    for kind in formats.FORMATS:
        yield "files", lambda tally, kind=kind: formats.run(tally, kind, Path(tempfile.mkdtemp()), 200, seed)
    for reader in commands.READERS:
        yield (
            "commands",
            lambda tally, reader=reader: commands.run(
                tally, reader, template, Path(tempfile.mkdtemp()), share=0.2, seed=seed
            ),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, seed, tallies = time.monotonic() + given.seconds, given.seed, {}
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home), judge.little_memory():
        os.environ["TMPDIR"] = tempfile.tempdir = home
        template = commands.prepare(Path(tempfile.mkdtemp()))
        while time.monotonic() < end:
            for part, work in rounds(seed, template):
                if time.monotonic() > end:
                    break
                work(tallies.setdefault(part, judge.Tally(part)))
            seed += 1
    for tally in tallies.values():
        print(tally)
        print(*(f"  {said}" for said in tally.violations), sep="\n", end="\n" * bool(tally.violations))
    return any(tally.violations for tally in tallies.values())


if __name__ == "__main__":
    sys.exit(main())
