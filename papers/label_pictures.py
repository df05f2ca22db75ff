"""Draws docs/sources/figures/002-*.svg, the label inference figures, from papers/results/label_figures.md.

python papers/label_pictures.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import altair as alt
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "papers" / "results" / "label_figures.md"
PICTURES = ROOT / "docs" / "sources" / "figures"
COLOURS = ["#0072b2", "#d55e00", "#009e73"]  # Okabe and Ito's: told apart by all
DATA = ["Titanic", "Iris", "Satellite"]
CODES = [
    "ours",
    "Theorem 3",
    "Theorem 3, logits",
    "Theorem 3, logarithms",
    "Theorem 3, linear system",
    "Theorem 14, two columns",
    "Theorem 14, one column",
]


def tables(section: str) -> list[list[dict[str, str]]]:
    """The tables of the section whose title begins so, each as rows by column."""
    text = RESULTS.read_text(encoding="utf-8")
    body = text.split(f"## {section}", 1)[1].split("\n## ", 1)[0]
    tables_read = []
    for block in body.split("\n\n"):
        lines = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line[:1] == "|"
        ]
        if lines:
            tables_read.append([dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]])
    return tables_read


def reaches() -> pl.DataFrame:
    """Figure 1 and Figure 3 (left), one row per point."""
    rows = [
        {"panel": row["panel"], "data": row["data"], "code": row["code"], "τ": float(column[4:]), "N": int(cell)}
        for row in tables("Figure 1")[0]
        for column, cell in row.items()
        if column.startswith("τ = ")
    ]
    # Ours reads every label, so what it reaches at 100 % it reaches at 50 %.
    rows += [{**row, "panel": "1b"} for row in rows if row["panel"] == "1a" and row["code"] == "ours"]
    return pl.DataFrame(rows)


def accuracies() -> pl.DataFrame:
    """Figure 2 and Figure 3 (right), one row per point."""
    rows = []
    for table in tables("Figure 2"):
        queries = next(row for row in table if row["code"] == "queries")
        rows += [
            {
                "panel": row["panel"],
                "title": f"{row['loss']}, {row['data']}",
                "code": row["code"],
                "τ": row["τ"],
                "queries": int(queries[column]),
                "right": float(cell),
            }
            for row in table
            if row is not queries
            for column, cell in row.items()
            if column.startswith("M = ") and cell
        ]
    return pl.DataFrame(rows)


def reach(points: pl.DataFrame, panel: str, title: str) -> alt.LayerChart:
    axis = alt.Axis(values=[1e-4, 1e-3, 0.01, 0.1, 1])
    base = alt.Chart(points.filter(pl.col("panel") == panel), title=title, width=250, height=260).encode(
        alt.X("τ:Q", scale=alt.Scale(type="log"), title="noise τ", axis=axis),
        alt.Y("N:Q", scale=alt.Scale(type="sqrt"), title="labels read in one query, N"),
        alt.Color("data:N", sort=DATA, scale=alt.Scale(domain=DATA, range=COLOURS), title="data"),
    )
    return drawn(base, [code for code in CODES if code in set(points["code"])])


def accuracy(points: pl.DataFrame, title: str) -> alt.LayerChart:
    base = alt.Chart(points.filter(pl.col("title") == title), title=title, width=230, height=180).encode(
        alt.X("queries:Q", scale=alt.Scale(type="log", nice=False), title="queries, N/M rounded up"),
        alt.Y("right:Q", scale=alt.Scale(domain=[0, 100]), title="labels right, %"),
        alt.Color("τ:N", scale=alt.Scale(range=COLOURS), title="noise τ"),
    )
    return drawn(base, CODES[:2])


def drawn(base: alt.Chart, order: list[str]) -> alt.LayerChart:
    """Lines told apart by dashes and points by shapes, so that none is by colour alone."""
    lines = base.mark_line().encode(alt.StrokeDash("code:N", sort=order, scale=alt.Scale(domain=order), legend=None))
    return lines + base.mark_point(size=40, opacity=1).encode(alt.Shape("code:N", sort=order, title="code"))


def save(chart: alt.HConcatChart | alt.VConcatChart, name: str) -> None:
    chart.configure(background="white", aria=False).configure_legend(symbolSize=60).save(PICTURES / f"{name}.svg")
    print(PICTURES / f"{name}.svg")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    if not RESULTS.is_file():
        sys.exit(f"needs {RESULTS.relative_to(ROOT)}, which papers/label_figures.py prints")
    PICTURES.mkdir(parents=True, exist_ok=True)
    reached, right = reaches(), accuracies()
    titles = {"1a": "(a) cross-entropy, 100 %", "1b": "(b) cross-entropy, ≥ 50 %", "1c": "(c) softmax, ≥ 50 %"}
    save(alt.hconcat(*(reach(reached, panel, title) for panel, title in titles.items())), "002-1")
    panels = [[accuracy(right, f"{loss}, {data}") for data in DATA] for loss in ("cross-entropy", "softmax")]
    save(alt.vconcat(*(alt.hconcat(*row) for row in panels)), "002-2")
    left_panel = reach(reached, "3 left", "sigmoid, ≥ 50 %, Titanic")
    save(
        alt.hconcat(left_panel, accuracy(right, "sigmoid, Titanic")).resolve_scale(
            color="independent", strokeDash="independent", shape="independent"
        ),
        "002-3",
    )


if __name__ == "__main__":
    main()
