"""Identification's controls: false alarms, power, and fine-tuned models whose members are about something else.

Run with ``python benchmarks/identification_controls.py [--quick] [part ...]``; the parts are alarms, signals,
power and splits. ``splits`` reads the folder that DIVULGE_DATA names and is left out without it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np

from divulge.auditing.findings import CONTROL_FALSE_ALARM
from divulge.decisions import controls
from divulge.identification import identify, realised

DATA = os.environ.get("DIVULGE_DATA")
WORDS = np.array(["the", "a", "model", "data", "king", "queen", "green", "blue", "runs", "of", "train", "paper"])
SHAPES = {
    "continuous": lambda rng, n: rng.normal(size=n),
    "rounded": lambda rng, n: np.round(rng.normal(size=n)),
    "two values, rate .01": lambda rng, n: (rng.random(n) < 0.01).astype(float),
    "98 % zeros": lambda rng, n: np.where(rng.random(n) < 0.98, 0.0, rng.normal(size=n)),
    "constant": lambda rng, n: np.zeros(n),
}


def table(title, columns, rows):
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}", flush=True)
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def rate(values):
    values = np.asarray(values, float)
    return f"{values.mean():.3f} ± {1.96 * np.sqrt(max(values.mean() * (1 - values.mean()), 0) / len(values)):.3f}"


def texts(rng, count, words=WORDS):
    return [" ".join(rng.choice(words, 12)) for _ in range(count)]


def alarms(quick):
    """How often a control speaks though nothing is wrong."""
    rng, runs = np.random.default_rng(5), 200 if quick else 1000
    rows = []
    for name, draw in SHAPES.items():
        for n, h in ((5, 3), (500, 5), (20, 500), (500, 300)):
            p = np.array([controls.exchangeability(draw(rng, n), draw(rng, h)).p_value for _ in range(runs)])
            rows.append((name, n, h, rate(p <= 0.05), f"{np.mean(p <= CONTROL_FALSE_ALARM):.4f}"))
    columns = ("scores", "calibration", "holdout", "at .05", f"at {CONTROL_FALSE_ALARM}")
    table(f"Exchangeability fails, {runs} runs of non-members alike", columns, rows)

    def blind():
        return controls.blind_text(texts(rng, 60), texts(rng, 40), seed=int(rng.integers(1_000_000)))

    checks = {
        "low scores, 500 and 300 (doubt)": (
            runs,
            lambda: controls.low_scores(rng.normal(size=500), rng.normal(size=300)),
        ),
        "clean model, 500 and 300 (doubt)": (
            runs,
            lambda: controls.clean_model(rng.normal(size=500), rng.normal(size=300)),
        ),
        "blind text, 60 and 40 (doubt)": (runs // 10, blind),
    }
    rows = [
        (name, repeats, rate([not control().passed for _ in range(repeats)]))
        for name, (repeats, control) in checks.items()
    ]
    table(
        "Other controls at level 0.05, members like non-members in all but training", ("control", "runs", "rate"), rows
    )
    whole(quick)


def _own(lines, side):
    return [f"{line} x{2 * number + side}x" for number, line in enumerate(lines)]


def whole(quick):
    """Standing of whole runs whose non-members are alike, while members are not like them."""
    rows = []
    for name, shift, topic in (
        ("members score high", 3.0, False),
        ("members score low", -3.0, False),
        ("members on another topic", 3.0, True),
    ):
        rng, counter, false = np.random.default_rng(6), Counter(), []
        runs = (20 if quick else 200) if topic else (100 if quick else 1000)
        for seed in range(runs):
            scores, texts_given = np.append(rng.normal(shift, 1, 60), rng.normal(size=140)), {}
            if topic:
                # A number makes each text its own, as no candidate may be among the calibration.
                texts_given["candidate_texts"] = _own(texts(rng, 60, WORDS[:6]) + texts(rng, 140, WORDS[6:]), 0)
                texts_given["calibration_texts"] = _own(texts(rng, 200, WORDS[6:]), 1)
            selection = identify(
                scores, rng.normal(size=200), fdr=0.1, holdout=rng.normal(size=100), seed=seed, **texts_given
            )
            counter[selection.guarantee.standing] += 1
            false.append(realised(selection.selected, np.arange(200) < 60)[0].value)
        rows.append(
            (name, runs, *(f"{counter[s] / runs:.3f}" for s in ("holds", "doubtful", "void")), f"{np.mean(false):.3f}")
        )
    columns = ("runs of non-members alike", "runs", "holds", "doubtful", "void", "FDR at .1")
    table("Standing with a holdout of 100", columns, rows)


def signals(quick):
    """Several signals: non-members alike."""
    runs, rows = 40 if quick else 400, []
    for n, h, m, d, digits in ((20, 10, 50, 3, 9), (120, 60, 30, 12, 9), (300, 150, 400, 3, 9), (300, 150, 400, 3, 0)):
        rng, void, mix = np.random.default_rng(7), [], np.eye(d) + 0.3
        for seed in range(runs):
            candidates, calibration, holdout = (
                np.round(rng.normal(size=(size, d)) @ mix, digits) for size in (m, n, h)
            )
            candidates[: m // 2] -= 3
            selection = identify(candidates, calibration, fdr=0.2, holdout=holdout, seed=seed)
            void.append(selection.guarantee.standing == "void")
        rows.append((n, h, m, d, "continuous" if digits else "rounded", rate(void)))
    columns = ("calibration", "holdout", "candidates", "signals", "scores", "void")
    table(f"Several signals, {runs} runs of non-members alike; half of the candidates far off", columns, rows)


def power(quick):
    """How often a holdout that differs is found."""
    runs, rows = 50 if quick else 200, []
    for shift in (0.1, 0.25, 0.5, 1.0):
        for h in (20, 100, 500):
            rng, one_signal, each, all_ = np.random.default_rng(8), [], [], []
            for seed in range(runs):
                candidates, calibration, holdout = (rng.normal(size=(size, 3)) for size in (300, 500, h))
                candidates[:100] += 3
                one_signal.append(not controls.exchangeability(calibration[:, 0], holdout[:, 0] + shift).passed)
                if seed < runs // 4:
                    for moved, alarms in (([0], each), ([0, 1, 2], all_)):
                        shifted_holdout = holdout.copy()
                        shifted_holdout[:, moved] += shift
                        selection = identify(candidates, calibration, fdr=0.1, holdout=shifted_holdout, seed=seed)
                        alarms.append(selection.guarantee.standing == "void")
            rows.append((shift, h, rate(one_signal), rate(each), rate(all_)))
    columns = ("shift, sd", "holdout", "one score", "one of three signals", "all of three")
    table("A holdout that differs is found (500 calibration scores)", columns, rows)


def splits(quick):
    """Fine-tuned on other authors than those of the non-members, which are cut at random: exchangeable."""
    import polars as pl

    frame = pl.read_parquet(Path(DATA) / "tofu_llama2_phi_scores.parquet").filter(pl.col("trained_on") == "retain90")
    rows = []
    for (model, decay), run in frame.sort("index").group_by("model", "weight_decay", maintain_order=True):
        members, nonmembers = (run.filter(pl.col("split") == name) for name in ("retain", "forget"))
        counter, false, strength = Counter(), [], []
        count = 3 if quick else 20
        for seed in range(count):
            order = np.random.default_rng(seed).permutation(len(nonmembers))
            calibration, candidates = nonmembers[order[:150]], pl.concat([members, nonmembers[order[150:]]])
            selection = identify(
                -candidates["loss"].to_numpy(),
                -calibration["loss"].to_numpy(),
                fdr=0.05,
                candidate_texts=candidates["answer"].to_list(),
                calibration_texts=calibration["answer"].to_list(),
                seed=seed,
            )
            fdp, hit = realised(selection.selected, np.arange(len(candidates)) < len(members))
            counter[selection.guarantee.standing] += 1
            false.append(fdp.value)
            strength.append(hit.value)
        standing = ", ".join(f"{number} {name}" for name, number in counter.items())
        rows.append((f"{model}, decay {decay:g}", count, standing, f"{np.mean(false):.4f}", f"{np.mean(strength):.3f}"))
    columns = ("model", "splits", "standing", "mean FDP at .05", "power")
    table("Members about other authors, non-members cut at random, texts compared", columns, rows)


PARTS = {"alarms": alarms, "signals": signals, "power": power, "splits": splits}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name in options.parts:
        if name == "splits" and not DATA:
            print(f"\n{name}: left out, DIVULGE_DATA names no folder")
            continue
        start = time.perf_counter()
        PARTS[name](options.quick)
        print(f"[{name}: {time.perf_counter() - start:.0f} s]")


if __name__ == "__main__":
    main()
