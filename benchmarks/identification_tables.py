"""Identification from tables: seconds and memory of `divulge identify` as whole processes, for each kind of file.

python benchmarks/identification_tables.py [--rows 1000000] [--against PYTHON] [--runs 3] [KIND ...]

``--against`` names the Python of another environment with another version of Divulge: both take turns, so that a busy
machine slows both. Time is wall and processor seconds, memory the largest resident set (Linux, macOS), load the mean
number of processes that wanted a core when a run began.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

CALIBRATION_SHARE = 0.1
SHARDS = 2000
MEMBER_SHARE = 0.1


def make_tables(rows, with_ids):
    """Candidates of which a tenth are members, three standard deviations higher, and non-members to calibrate on."""
    rng = np.random.default_rng(7)
    n_members = int(rows * MEMBER_SHARE)
    scores = np.append(rng.normal(3, 1, n_members), rng.normal(size=rows - n_members))
    candidates = pl.DataFrame({"score": scores})
    calibration = pl.DataFrame({"score": rng.normal(size=int(rows * CALIBRATION_SHARE))})
    if with_ids:
        candidates = candidates.with_columns(id=pl.format("document-{}", pl.int_range(len(candidates))))
        calibration = calibration.with_columns(id=pl.format("known-{}", pl.int_range(len(calibration))))
    return candidates, calibration


def write_tables(file_type, rows, paths):
    with_ids, _, write = FILE_TYPES[file_type]
    for table, path in zip(make_tables(rows, with_ids), paths, strict=True):
        write(table, path)


def write_shards(table, path):
    path.mkdir()
    size = -(-len(table) // SHARDS)
    for i in range(SHARDS):
        table.slice(i * size, size).write_parquet(path / f"part-{i:05}.parquet")


FILE_TYPES = {
    "parquet, text ids": (True, ".parquet", pl.DataFrame.write_parquet),
    "parquet, no ids": (False, ".parquet", pl.DataFrame.write_parquet),
    "csv, text ids": (True, ".csv", pl.DataFrame.write_csv),
    "json lines, text ids": (True, ".jsonl", pl.DataFrame.write_ndjson),
    f"{SHARDS:,} shards of parquet": (True, "", write_shards),
}


def run_identify(python, candidates, calibration, out):
    """Run the command; return wall seconds, processor seconds, MiB and the load of the machine before."""
    command = [python, "-P", "-m", "divulge", "identify", str(candidates), "--calibration", str(calibration)]
    command += ["--score", "score:high", "--out", str(out), "--overwrite"]
    load, start = os.getloadavg()[0], time.perf_counter()
    process = os.posix_spawn(
        python, command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(process, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit, load


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=[], help=", ".join(FILE_TYPES))
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--against", help="Python of another environment")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    pythons = {"this version": sys.executable} | ({"the other": options.against} if options.against else {})
    print(f"{options.rows:,} rows, {os.cpu_count()} cores; medians of {options.runs} runs in turns, after one more\n")
    print("| files | version | wall s | processor s | peak MiB | load |\n|---|---|---|---|---|---|")
    for file_type in options.kinds or FILE_TYPES:
        suffix = FILE_TYPES[file_type][1]
        folder = Path(tempfile.mkdtemp(prefix="identification-"))
        try:
            paths = [folder / f"candidates{suffix}", folder / f"calibration{suffix}"]
            # In a process of its own: what this one has held would count as memory of those it starts.
            writer = multiprocessing.get_context("spawn").Process(
                target=write_tables, args=(file_type, options.rows, paths)
            )
            writer.start()
            writer.join()
            measured = {name: [] for name in pythons}
            for turn in range(options.runs + 1):
                for name, python in pythons.items():
                    figures = run_identify(python, *paths, folder / "run")
                    if turn:
                        measured[name].append(figures)
        finally:
            shutil.rmtree(folder)
        for name, figures in measured.items():
            wall, processor, memory, load = (statistics.median(column) for column in zip(*figures, strict=True))
            print(f"| {file_type} | {name} | {wall:.1f} | {processor:.1f} | {memory:,.0f} | {load:.1f} |", flush=True)


if __name__ == "__main__":
    main()
