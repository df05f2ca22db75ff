"""Identification: guarantees, power, traps, usage and speed.

Run with ``python benchmarks/identification.py [--quick] [part ...]``; the parts are simulation, real,
traps, usage, speed and scoring. ``real``, ``usage`` and a part of ``traps`` read the folder that
DIVULGE_DATA names and are left out without it. All numbers are printed, none is kept.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from pathlib import Path

import numpy as np

from divulge.decisions import adadetect, controls, fdr, knockoff, usage
from divulge.decisions.counts import Counts, p_values
from divulge.identification import identify

METHODS = ("bh", "ptdi", "storey")
DATA = os.environ.get("DIVULGE_DATA")


def table(title, columns, rows):
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def mean(values):
    values = np.asarray(values, float)
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def outcome(chosen, members):
    return chosen[members:].sum() / max(chosen.sum(), 1), chosen[:members].mean() if members else 0.0


def select(scores, calibration, level, method):
    rule = fdr.decide(Counts.empty(calibration).add(scores), fdr=level, method=method)
    return scores > rule.cut


def learn(scores, calibration, level, seed):
    judged, kept = adadetect.scores(scores, calibration, seed=seed)
    if level * (len(kept) + 1) < 1:
        return np.zeros(len(judged), bool)
    return select(judged, kept, level, "bh")


def gaussian(rng, n, m, members, signal, shape, columns=None):
    if columns is None:
        return shape(np.append(rng.normal(signal, 1, members), rng.normal(size=m - members))), shape(rng.normal(size=n))
    scores = rng.normal(size=(m, columns))
    scores[:members, 0] += signal
    return shape(scores), shape(rng.normal(size=(n, columns)))


def simulation(quick):
    shapes = {"continuous": np.asarray, "rounded": np.round, "two values": np.sign}
    for method in (*METHODS, "adadetect"):
        runs = (60 if quick else 1000) if method != "adadetect" else (4 if quick else 60)
        rows = []
        for name, shape in shapes.items():
            ratios, scores_above = [], []
            for n in (20, 100, 1000):
                for m in (10, 100, 1000):
                    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
                        rng = np.random.default_rng([n, m, round(10 * share)])
                        found = {level: [] for level in (0.05, 0.1, 0.2, 0.5)}
                        for run in range(runs):
                            members = round(share * m)
                            columns = 3 if method == "adadetect" else None
                            scores, known = gaussian(rng, n, m, members, 2.0, shape, columns)
                            for level, false in found.items():
                                chosen = (
                                    learn(scores, known, level, run)
                                    if method == "adadetect"
                                    else select(scores, known, level, method)
                                )
                                false.append(outcome(chosen, members)[0])
                        for level, false in found.items():
                            error = np.std(false, ddof=1) / np.sqrt(runs)
                            ratios.append(np.mean(false) / level)
                            scores_above.append((np.mean(false) - level) / max(error, 1e-12) if error else -np.inf)
            above = np.array(scores_above)
            rows.append((name, len(ratios), f"{max(ratios):.3f}", f"{above.max():.2f}", int((above > 3).sum())))
        columns = ("scores", "cells", "worst FDR/level", "worst z", "cells with z > 3")
        table(f"False discovery rate, {method}, {runs} runs a cell", columns, rows)
    power(quick)


def power(quick):
    rows = []
    for auc, signal in ((0.80, 1.190), (0.95, 2.326), (0.99, 3.290)):
        for share in (0.3, 0.5, 0.7):
            rng, found = np.random.default_rng(0), {method: [] for method in (*METHODS, "ptdi .1")}
            for _ in range(50 if quick else 500):
                scores, known = gaussian(rng, 500, 1000, round(1000 * share), signal, np.asarray)
                counts = Counts.empty(known).add(scores)
                for method, powers in found.items():
                    eta = 0.1 if method == "ptdi .1" else 0.05
                    rule = fdr.decide(counts, fdr=0.1, method=method.split()[0], eta=eta)
                    powers.append((scores > rule.cut)[: round(1000 * share)].mean())
            rows.append((auc, share, *(mean(powers) for powers in found.values())))
    table("Power at FDR 0.1, m = 1000, n = 500", ("AUC", "share", *METHODS, "ptdi eta .1"), rows)


def tofu(runs=("retain90", "retain95")):
    import polars as pl

    frame = pl.read_parquet(Path(DATA) / "tofu_llama2_phi_scores.parquet").filter(pl.col("trained_on").is_in(runs))
    for key, run in frame.group_by("model", "trained_on", "weight_decay", maintain_order=True):
        yield " ".join(map(str, key)), {name: run.filter(pl.col("split") == name) for name in run["split"].unique()}


def draw(rng, members, others, share):
    """Half of the non-members calibrate; the other half and as many members as ``share`` asks for are candidates."""
    shuffled = rng.permutation(others)
    half = len(others) // 2
    nulls = shuffled[half:]
    count = min(len(members), round(share / (1 - share) * len(nulls)))
    nulls = nulls[: round(count * (1 - share) / share)] if share else nulls
    return np.append(rng.choice(members, count, replace=False), nulls), shuffled[:half], count


def real(quick):
    for level in (0.05, 0.1):
        rows = []
        for name, run in tofu():
            members, others = -run["retain"]["loss"].to_numpy(), -run["forget"]["loss"].to_numpy()
            for share in (0.0, 0.2, 0.5, 0.8):
                rng = np.random.default_rng(1)
                found = {method: ([], []) for method in METHODS}
                for _ in range(50 if quick else 1000):
                    scores, known, count = draw(rng, members, others, share)
                    for method, (false, strength) in found.items():
                        one, two = outcome(select(scores, known, level, method), count)
                        false.append(one)
                        strength.append(two)
                cells = [f"{mean(false)} / {mean(strength)}" for false, strength in found.values()]
                rows.append((name, share, *cells))
        table(f"TOFU, loss, FDR / power at level {level}", ("run", "share", *METHODS), rows)


def step_up(p, level):
    kept = np.flatnonzero(np.sort(p) <= level * np.arange(1, len(p) + 1) / len(p))
    return p <= np.sort(p)[kept[-1]] if kept.size else np.zeros(len(p), bool)


def ties(t, s):
    return (1 + (s[None] > t[:, None]).sum(1)) / (len(s) + 1)


def no_one(t, s):
    return (s[None] >= t[:, None]).mean(1)


def top_ratio(t, s):
    low = np.sort(s)[max(int(0.05 * len(s)), 1) - 1]
    return min((t <= low).mean() / (s <= low).mean(), 1) * (1 + (s[None] >= t[:, None]).sum(1)) / (len(s) + 1)


def traps(quick):
    runs, rows = 200 if quick else 2000, []
    cells = (
        ("strict > on three values", ties, 50, 100, lambda x: np.sign(np.round(x))),
        ("no +1", no_one, 50, 100, np.asarray),
        ("top tail as a ratio", top_ratio, 100, 10, np.asarray),
    )
    for name, p_of, n, m, shape in cells:
        rng = np.random.default_rng(2)
        wrong, right = [], []
        for _ in range(runs):
            scores, known = gaussian(rng, n, m, 0, 0.0, shape)
            wrong.append(step_up(p_of(scores, known), 0.1).any())
            right.append(select(scores, known, 0.1, "ptdi" if "tail" in name else "bh").any())
        rows.append((name, mean(wrong), mean(right)))
    table("Traps: FDR at level 0.1, no member at all", ("trap", "trap's FDR", "ours"), rows)

    rows = []
    for shift in (0.0, 0.25, 0.5, 1.0):
        rng, fired = np.random.default_rng(3), {"exchangeability": 0, "low scores": 0}
        found = {method: [] for method in METHODS}
        for _ in range(runs // 4):
            scores = np.append(rng.normal(2, 1, 300), rng.normal(shift, 1, 700))
            known = rng.normal(size=500)
            for method, false in found.items():
                false.append(outcome(select(scores, known, 0.1, method), 300)[0])
            fired["exchangeability"] += not controls.exchangeability(known, rng.normal(shift, 1, 200)).passed
            fired["low scores"] += not controls.low_scores(known, scores).passed
        share = [f"{count / (runs // 4):.3f}" for count in fired.values()]
        rows.append((shift, *(mean(false) for false in found.values()), *share))
    columns = ("shift", *METHODS, *(f"{name} fires" for name in fired))
    table("Shift of the non-members, in sd: FDR at level 0.1, and how often controls fire", columns, rows)
    if DATA:
        real_traps(quick)
    alarms(quick)


def real_traps(quick):
    rows = []
    for name, run in tofu():
        rng, false, fired = np.random.default_rng(4), [], 0
        others = np.column_stack([-run["forget"]["loss"].to_numpy(), -run["forget"]["paraphrase_loss"].to_numpy()])
        favoured = (others[:, 0] > others[:, 1]).mean()
        repeats = 50 if quick else 500
        for _ in range(repeats):
            shuffled = rng.permutation(others)
            half = len(others) // 2
            false.append(knockoff.select(*shuffled[:half].T, fdr=0.1)[0].any())
            fired += not knockoff.symmetry(*shuffled[half:].T).passed
        moved = controls.exchangeability(-run["world_fact"]["loss"].to_numpy(), others[:, 0])
        rows.append((name, f"{favoured:.3f}", mean(false), f"{fired / repeats:.3f}", f"{moved.p_value:.1e}"))
    columns = (
        "run",
        "nulls that favour the original",
        "knockoff FDR, no member",
        "symmetry fires",
        "p, other calibration",
    )
    table("TOFU: knockoffs of paraphrases at level 0.1; world facts as calibration", columns, rows)

    import gzip
    import json

    with gzip.open(Path(DATA) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line) for line in lines]
    rows = []
    for name in ("gutenberg", "multi_web", "laion_mi"):
        sides = [[row["text"] for row in texts if row["set"] == name and row["member"] == side] for side in (0, 1)]
        found, sound = controls.blind_text(*sides), controls.blind_text(sides[0][::2], sides[0][1::2])
        rows.append((name, found.auc, found.passed, sound.auc, sound.passed))
    table("Blind text control", ("set", "AUC", "passed", "AUC within non-members", "passed"), rows)


def alarms(quick):
    rng, runs = np.random.default_rng(5), 200 if quick else 2000
    words = np.array(["the", "a", "model", "data", "king", "queen", "green", "blue", "runs", "of", "train", "paper"])

    def texts(count):
        return [" ".join(rng.choice(words, 12)) for _ in range(count)]

    def whole():
        scores = np.append(rng.normal(2, 1, 60), rng.normal(size=140))
        return identify(scores, rng.normal(size=200), fdr=0.1, holdout=rng.normal(size=100)).guarantee.holds

    def blind():
        return controls.blind_text(texts(60), texts(40), seed=int(rng.integers(1_000_000)))

    checks = {
        "exchangeability, 30 and 20": (
            runs,
            lambda: controls.exchangeability(rng.normal(size=30), rng.normal(size=20)).passed,
        ),
        "exchangeability, 500 and 300": (
            runs,
            lambda: controls.exchangeability(rng.normal(size=500), rng.normal(size=300)).passed,
        ),
        "low scores, 500 and 300": (
            runs,
            lambda: controls.low_scores(rng.normal(size=500), rng.normal(size=300)).passed,
        ),
        "symmetry, 100": (runs, lambda: knockoff.symmetry(rng.normal(size=100), rng.normal(size=100)).passed),
        "blind text, 60 and 40": (runs // 10, lambda: blind().passed),
        "all of one run": (runs // 4, whole),
    }
    rows = []
    for name, (repeats, passed) in checks.items():
        rows.append((name, repeats, mean([not passed() for _ in range(repeats)])))
    table("False alarms of the controls at level 0.05", ("control", "runs", "rate"), rows)


def usage_error(quick):
    runs = list(tofu(("retain90",)))
    rows = []
    for (name, run), (_, other) in zip(runs, [runs[1], runs[0], runs[3], runs[2]], strict=True):
        members, others = -run["retain"]["loss"].to_numpy(), -run["forget"]["loss"].to_numpy()
        rate = _best_rates(-other["retain"]["loss"].to_numpy(), -other["forget"]["loss"].to_numpy())
        rng, ours, duci, covered, proven = np.random.default_rng(6), [], [], [], []
        for _ in range(20 if quick else 300):
            for share in (0.0, 0.2, 0.5, 0.8):
                scores, known, count = draw(rng, members, others, share)
                true = count / len(scores)
                found = usage.share(Counts.empty(known).add(scores))
                cut, positive, false = rate
                ours.append(abs(found.value - true))
                duci.append(abs(np.clip(((scores > cut).mean() - false) / (positive - false), 0, 1) - true))
                covered.append(found.low <= true <= found.high)
                proven.append(found.low <= true)
        rows.append((name, mean(ours), mean(duci), f"{np.mean(covered):.3f}", f"{np.mean(proven):.3f}"))
    columns = ("run", "ours", "DUCI", "interval holds", "lower end holds")
    table("Share of members, mean error (DUCI with rates from a twin run whose members are known)", columns, rows)


def _best_rates(members, others):
    cuts = np.sort(np.append(members, others))
    gap = [(members > cut).mean() - (others > cut).mean() for cut in cuts]
    cut = cuts[int(np.argmax(gap))]
    return cut, (members > cut).mean(), (others > cut).mean()


def clock(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def peak(work):
    tracemalloc.start()
    work()
    high = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return high / 2**20


def speed(quick):
    m, n = (10**6, 10**5) if quick else (10**7, 10**6)
    rng = np.random.default_rng(7)
    scores, known = np.append(rng.normal(3, 1, m // 10), rng.normal(size=m - m // 10)), rng.normal(size=n)
    ordered = np.sort(known)

    def streaming():
        counts = Counts.empty(known)
        for start in range(0, m, 1 << 21):
            counts = counts.add(scores[start : start + (1 << 21)])
        return fdr.decide(counts, fdr=0.1)

    work = {
        "np.sort(test)": lambda: np.sort(scores),
        "selection (threshold)": lambda: fdr.threshold(scores, known, fdr=0.1),
        "streaming in chunks of 2^21": streaming,
        "all p-values": lambda: p_values(scores, ordered),
        "all of select()": lambda: fdr.select(scores, known, fdr=0.1),
    }
    seconds = dict.fromkeys(work, np.inf)
    for _ in range(5):  # in turns, so that a busy machine slows all alike
        for name, part in work.items():
            seconds[name] = min(seconds[name], clock(part))
    base = seconds["np.sort(test)"]
    rows = [(name, f"{s:.3f}", f"{s / base:.2f}", f"{peak(work[name]):.0f}") for name, s in seconds.items()]
    table(f"Speed, m = {m:.0e}, n = {n:.0e}, one thread", ("", "CPU s", "× np.sort", "peak MiB over inputs"), rows)


def naive_loop(model, tokenizer, texts, everything):
    """One document at a time, as detect-pretrain-code and Min-K%++ do it; with ``everything``, all our statistics."""
    import torch

    found = []
    for text in texts:
        ids = torch.tensor(tokenizer.encode(text)).unsqueeze(0)
        with torch.no_grad():
            logits = model(ids, labels=ids)[1]
        probabilities = torch.softmax(logits[0, :-1], dim=-1)
        logp = torch.log_softmax(logits[0, :-1], dim=-1)
        own = torch.tensor([logp[i, token].item() for i, token in enumerate(ids[0, 1:])])
        mu = (probabilities * logp).sum(-1)
        sigma = (probabilities * torch.square(logp)).sum(-1) - torch.square(mu)
        row = [own, -mu, sigma]
        if everything:
            others = probabilities.clone()
            others[torch.arange(len(own)), ids[0, 1:]] = 0
            row.append(-(1 - own.exp()) * own - (others * torch.log1p(-others)).sum(-1))
            row += [2 * probabilities.sqrt().sum(-1).log(), -probabilities.square().sum(-1).log(), -logp.amax(-1)]
        found.append(torch.stack(row).numpy())
    return found


def scoring(quick):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from divulge.identification import demo
    from divulge.targets.statistics import PER_TOKEN
    from divulge.targets.text import CausalLM

    texts = demo.paragraphs()[: 60 if quick else 300]
    tokenizer = demo._tokenizer(texts, 4096)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=16384, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval()
    target = CausalLM(model, tokenizer)
    texts = [text for text in texts if len(tokenizer.encode(text)) > 1]
    target.tokens(texts[:8])
    rows, times = [], {}
    work = {
        "loop, Min-K%++ statistics": lambda: naive_loop(model, tokenizer, texts, False),
        "loop, all seven statistics": lambda: naive_loop(model, tokenizer, texts, True),
        "ours, all seven statistics": lambda: target.tokens(texts),
    }
    for name, part in work.items():
        start, cpu = time.perf_counter(), time.process_time()
        part()
        times[name] = time.perf_counter() - start
        rows.append((name, f"{times[name]:.2f}", f"{time.process_time() - cpu:.2f}"))
    table(f"Scoring {len(texts)} documents, {torch.get_num_threads()} thread(s)", ("", "wall s", "CPU s"), rows)
    ours, loop = target.tokens(texts).rows(), naive_loop(model, tokenizer, texts, True)
    error = max(np.abs(ours[name][i] - loop[i][k]).max() for i in range(len(texts)) for k, name in enumerate(PER_TOKEN))
    last = times["ours, all seven statistics"]
    print(
        f"wall time of the loops over ours: {times['loop, Min-K%++ statistics'] / last:.2f} (three statistics), "
        f"{times['loop, all seven statistics'] / last:.2f} (the same seven); largest difference {error:.1e}"
    )


PARTS = {
    "simulation": simulation,
    "real": real,
    "traps": traps,
    "usage": usage_error,
    "speed": speed,
    "scoring": scoring,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name in options.parts:
        if name in ("real", "usage") and not DATA:
            print(f"\n{name}: left out, DIVULGE_DATA names no folder")
            continue
        start = time.perf_counter()
        PARTS[name](options.quick)
        print(f"[{name}: {time.perf_counter() - start:.0f} s]")


if __name__ == "__main__":
    main()
