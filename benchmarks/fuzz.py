"""Fuzzing for as long as wanted: functions, files, run directories and servers, by the code of tests/fuzz.

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
from functools import partial
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # instead of this folder, where a file has the same name

from fuzz import commands, formats, functions, judge, servers  # noqa: E402


def work(template, server, seed):
    """Pieces of work of one seed, by part; each takes the part's counts."""
    server.seed = seed

    def folder():
        return Path(tempfile.mkdtemp())

    return {
        "functions": [partial(functions.run, name=name, seed=seed) for name in functions.CALLS],
        "files": [lambda tally, kind=kind: formats.run(tally, kind, folder(), 200, seed) for kind in formats.FORMATS],
        "commands": [
            lambda tally, reader=reader: commands.run(tally, reader, template, folder(), share=0.2, seed=seed)
            for reader in commands.READERS
        ],
        "servers": [partial(servers.run, reader=reader, server=server) for reader in servers.READERS],
    }


def spend(seconds, seed, template, server):
    """Counts by part; the part that had the least of the time so far comes next, with the next seed when it is done."""
    start, spent, remaining, seeds = time.monotonic(), {}, {}, {}
    tallies = {part: judge.Tally(part) for part in work(template, server, seed)}
    while time.monotonic() - start < seconds:
        part = min(tallies, key=lambda name: spent.get(name, 0.0))
        if not remaining.get(part):
            seeds[part] = seeds.get(part, seed - 1) + 1
            remaining[part] = work(template, server, seeds[part])[part]
        began = time.monotonic()
        remaining[part].pop(0)(tallies[part])
        spent[part] = spent.get(part, 0.0) + time.monotonic() - began
    return tallies, seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home), judge.little_memory():
        os.environ["TMPDIR"] = tempfile.tempdir = home
        with servers.Server().running() as server:
            template = commands.prepare(Path(tempfile.mkdtemp()))
            tallies, seeds = spend(arguments.seconds, arguments.seed, template, server)
    for part, tally in tallies.items():
        print(f"{tally} (seeds {arguments.seed} to {seeds[part]})")
        print(*(f"  {violation}" for violation in tally.violations), sep="\n", end="\n" * bool(tally.violations))
    return any(tally.violations for tally in tallies.values())


if __name__ == "__main__":
    sys.exit(main())
