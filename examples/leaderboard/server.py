"""A small real leaderboard: submissions as CSV, scores from SQLite, a quota per team and day.

    python examples/leaderboard/server.py labels.csv --port 8000 --clip 1e-15 --decimals 5 --quota 200

``labels.csv``: one label (0, 1, …) a line. Submissions: ``POST /submit`` with a CSV body (identifier and one
probability a class) and the header ``x-team``. The score is the mean log loss over all rows or, with ``--public 0.3``,
over a hidden share of them.
"""

from __future__ import annotations

import argparse
import csv
import io
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

DAY = 86_400


def log_loss(y: np.ndarray, rows: np.ndarray, clip: float) -> float:
    return float(-np.log(np.clip(rows, clip, 1 - clip)[np.arange(len(y)), y]).mean())


def read_submission(text: str, n: int, classes: int) -> np.ndarray:
    """The probabilities of a submission, in the order of the identifiers 0..n-1."""
    try:
        _, *lines = list(csv.reader(io.StringIO(text)))
        results = {int(line[0]): [float(value) for value in line[1:]] for line in lines}
        rows = np.array([results[i] for i in range(n)])
    except (ValueError, KeyError, IndexError):
        raise HTTPException(422, "a CSV with one line an identifier is needed") from None
    if rows.shape != (n, classes) or len(lines) != n:
        raise HTTPException(422, f"{n} rows of {classes} probabilities are needed")
    if not np.isfinite(rows).all() or rows.min() < 0 or np.abs(rows.sum(axis=1) - 1).max() > 1e-6:
        raise HTTPException(422, "rows must be probabilities that sum to one")
    return rows


@dataclass(frozen=True)
class Rules:
    """How the leaderboard scores.

    Args:
        clip: probabilities are clipped into ``[clip, 1 - clip]``.
        decimals: of a score; None: all of them.
        quota: submissions a team may make in a day.
        noise: standard deviation of Gaussian noise on every score.
        public: the rows that are scored, bool ``[n]``; all when None.
    """

    clip: float = 1e-15
    decimals: int | None = 5
    quota: int = 1000
    noise: float = 0.0
    public: np.ndarray | None = None


def create_app(database: Path, y: np.ndarray, rules: Rules) -> FastAPI:
    """The leaderboard for labels ``y``."""
    app = FastAPI(title="Leaderboard")
    classes = int(y.max()) + 1
    draws = np.random.default_rng()
    scored = np.full(len(y), True) if rules.public is None else rules.public
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("CREATE TABLE IF NOT EXISTS submissions (team TEXT, at REAL, score REAL)")

    def admit(team: str, score: float) -> int:
        """Record a score if the team may still submit today; what is left, or -1."""
        with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as opened:
            opened.execute("BEGIN IMMEDIATE")
            (used,) = opened.execute(
                "SELECT COUNT(*) FROM submissions WHERE team = ? AND at > ?", (team, time.time() - DAY)
            ).fetchone()
            if used < rules.quota:
                opened.execute("INSERT INTO submissions VALUES (?, ?, ?)", (team, time.time(), score))
            opened.execute("COMMIT")
        return rules.quota - used - 1

    @app.post("/submit")
    async def submit(request: Request) -> dict[str, float | int]:
        team = request.headers.get("x-team", "anonymous")
        rows = read_submission((await request.body()).decode(), len(y), classes)
        score = log_loss(y[scored], rows[scored], rules.clip) + (draws.normal(0, rules.noise) if rules.noise else 0.0)
        score = score if rules.decimals is None else round(score, rules.decimals)
        left = await run_in_threadpool(admit, team, score)
        if left < 0:
            raise HTTPException(429, "no submissions left today", headers={"retry-after": str(DAY)})
        return {"score": score, "left": left}

    @app.get("/leaderboard")
    def leaderboard() -> list[dict[str, str | float]]:
        with closing(sqlite3.connect(database)) as opened:
            result = opened.execute("SELECT team, MIN(score) FROM submissions GROUP BY team ORDER BY 2").fetchall()
        return [{"team": team, "score": score} for team, score in result]

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--database", type=Path, default=Path("leaderboard.sqlite"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--clip", type=float, default=1e-15)
    parser.add_argument("--decimals", type=int, default=5)
    parser.add_argument("--quota", type=int, default=1000)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--public", type=float, default=1.0, help="share of the rows that are scored")
    parser.add_argument("--seed", type=int, default=0, help="draws the public rows")
    options = parser.parse_args()
    y = np.loadtxt(options.labels, dtype=np.int64, ndmin=1)
    public = np.random.default_rng(options.seed).permutation(len(y)) < round(options.public * len(y))
    rules = Rules(options.clip, options.decimals, options.quota, options.noise, public)
    app = create_app(options.database, y, rules)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
