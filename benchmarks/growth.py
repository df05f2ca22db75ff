"""What an audit takes as its records grow: seconds, memory, forecast, and what the controls around the attacks take.

    PYTHONPATH=src python benchmarks/growth.py [--sizes 1000 10000 100000] [--large] [--only score] [--record]

Each line is a process of its own: a table of ten numbers a record, two classes, as many candidates as the line says,
half of them members, and a fifth as many records of the population. ``forest, 16 references`` runs LiRA with that many
reference models; the others read the loss alone, which costs nothing, so that nearly all of the time is of controls.
Seconds are those of the processor; memory is the highest resident memory above that before the audit, after a small
audit has loaded every library. ``score table`` is the command ``divulge identify`` on a Parquet or CSV file with a
score, an id and a truth value for each candidate, and a tenth as many of the calibration; its memory is the whole of
the process. The last columns are ratios to the figures recorded last; ``--record`` writes new ones.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import divulge as dv
from divulge.auditing import run_audit
from divulge.auditing.checks import CHECKS
from divulge.identification import from_tables
from divulge.identification.score_tables import Columns, Score
from divulge.settings import ResolvedAuditSettings
from divulge.types import AuditData

RESULTS = Path(__file__).parent / "results"
CONTROLS = {"errors of labels", "scores less what records explain", "covariates", *(check.name for check in CHECKS)}
MODELS = {
    "logistic regression": (LogisticRegression(), ["loss"], 10**6),
    "forest": (RandomForestClassifier(50, min_samples_leaf=5, random_state=0), ["loss"], 10**5),
    "forest, 16 references": (RandomForestClassifier(50, min_samples_leaf=5, random_state=0), ["lira"], 10**5),
}
"""Name → estimator, recipes, and the largest size that is run."""
TABLES = {"score table, Parquet": "parquet", "score table, CSV": "csv"}


def measure(name: str, n: int) -> dict[str, float]:
    """Audit a model twice, first with few records; return the figures of the second."""
    vars(time)["perf_counter"] = time.process_time  # the timings of an audit in seconds of the processor
    estimator, recipes, _ = MODELS[name]
    for count in (400, n):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(count + count // 5, 10)).astype(np.float32)
        y = (x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=len(x)) > 0).astype(int)
        members, nonmembers, population = (
            dv.Records(x[rows], y[rows]) for rows in (slice(count // 2), slice(count // 2, count), slice(count, None))
        )
        target, forecasts = estimator.fit(members.x, members.y), []
        references = dv.references.Train(count=16, engine="serial") if recipes == ["lira"] else None
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = resident_memory("VmRSS"), time.process_time()
        subject = AuditData(members=members, nonmembers=nonmembers, population=population)
        settings = ResolvedAuditSettings(recipes=tuple(recipes), references=references)
        result = run_audit(target, subject, settings, progress=False, expect=forecasts.append)
        seconds, peak = time.process_time() - start, resident_memory("VmHWM") - before
    controls = sum(spent for step, spent in result.about.timings.items() if step in CONTROLS)
    return {"seconds": seconds, "controls": controls, "memory": peak, "forecast": forecasts[0].memory / 2**20}


def measure_table(ending: str, n: int) -> dict[str, float]:
    """Decide on a table of scores with the command line, in a process of its own."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, count in (("candidates", n), ("calibration", n // 10)):
            is_member = (np.arange(count) % 10 == 0) & (name == "candidates")
            ids = pl.Series(np.arange(count)).cast(pl.String).str.zfill(9)
            frame = pl.DataFrame({"id": ids, "loss": rng.normal(size=count) - 3 * is_member, "member": is_member})
            path = Path(folder, f"{name}.{ending}")
            frame.write_parquet(path) if ending == "parquet" else frame.write_csv(path)
        tables = [f"{folder}/candidates.{ending}", "--calibration", f"{folder}/calibration.{ending}"]
        options = ["--score", "loss:low", "--truth", "member", "--out", f"{folder}/run"]
        command = [sys.executable, "-m", "divulge", "identify", *tables, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    forecast = from_tables.estimate_memory(n, Columns((Score("loss"),)))
    return {"seconds": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024, "forecast": forecast / 2**20}


def resident_memory(field: str) -> float:
    """Return resident memory of this process in MiB, now (VmRSS) or at its highest (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def write_table(figures: dict[str, dict[str, float]], recorded: dict[str, dict[str, float]]) -> str:
    """Write the figures as a table, with ratios to those recorded."""
    lines = [
        "| model | candidates | seconds | controls, s | controls | memory, MiB | forecast, MiB | forecast / memory "
        "| seconds / recorded | memory / recorded |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cell, now in figures.items():
        name, n = cell.rsplit(" ", 1)
        ratios = [f"{now[key] / recorded[cell][key]:.2f}" if cell in recorded else "–" for key in ("seconds", "memory")]
        controls = f"{now['controls']:.1f} | {now['controls'] / now['seconds']:.0%}" if "controls" in now else "– | –"
        ratio = now["forecast"] / now["memory"]
        lines.append(
            f"| {name} | {int(n):,} | {now['seconds']:.1f} | {controls} | {now['memory']:.0f} "
            f"| {now['forecast']:.0f} | {ratio:.2f} | {ratios[0]} | {ratios[1]} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure every line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**3, 10**4, 10**5])
    parser.add_argument("--large", action="store_true", help="10⁶ candidates as well, and 10⁷ of a table of scores")
    parser.add_argument("--only", default="", help="lines whose names begin so")
    parser.add_argument("--record", action="store_true", help="write the figures to benchmarks/results")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        name, n = options.cell[0], int(options.cell[1])
        print(json.dumps(measure_table(TABLES[name], n) if name in TABLES else measure(name, n)))
        return
    sizes = [*options.sizes, *([10**6] if options.large else [])]
    file = RESULTS / "growth.json"
    recorded = json.loads(file.read_text()) if file.exists() else {}
    largest_sizes = {name: largest for name, (_, _, largest) in MODELS.items()} | dict.fromkeys(TABLES, 10**7)
    figures = {}
    for name, largest in largest_sizes.items():
        of_tables = [*sizes, *([10**7] if options.large else [])] if name in TABLES else sizes
        for n in (size for size in of_tables if size <= largest and name.startswith(options.only)):
            command = [sys.executable, __file__, "--cell", name, str(n)]
            figures[f"{name} {n}"] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    table = write_table(figures, recorded)
    print(table)
    if options.record:
        rounded = {cell: {key: round(value, 2) for key, value in row.items()} for cell, row in figures.items()}
        file.write_text(json.dumps(recorded | rounded, indent=1) + "\n")
        (RESULTS / "growth.md").write_text(f"# What an audit takes as its records grow\n\n{table}\n")


if __name__ == "__main__":
    main()
