"""PTDI as published: its ablations, an estimator with confirmed members, and a language model trained on the spot.

    OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/ptdi.py [--quick] [part ...]
    PYTHONPATH=src:benchmarks python papers/ptdi.py kept --out FOLDER      # of papers/language.py scores --knockoffs

The parts are calibration (ρ), eta, share (π), moments, tofu and model; ``tofu`` reads the folder that DIVULGE_DATA
names and ``model`` trains two small language models on half of Python's manual. Tables are printed. ``kept`` reads
what `papers/language.py` left of a fine-tuned model, a pretrained one for instance.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from pathlib import Path

import numpy as np

from divulge import demo, store
from divulge.decisions import fdr
from divulge.decisions.counts import Counts, ranks
from divulge.decisions.methods import BH, PTDI, Moments, Storey
from divulge.evaluation import auc
from divulge.signals import tokens
from knockoffs import select_by_knockoffs

LEVELS = (0.05, 0.1, 0.2, 0.5)
SIGNALS = {0.65: 0.545, 0.80: 1.190, 0.95: 2.326}  # AUC of two Gaussians of unit variance, by the gap of their means


def table(title, columns, rows):
    print(f"\n### {title}\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def outcomes(candidates, members, calibration, method, levels):
    """False discovery proportion and power at each level, ``[levels, 2]``; members come first."""
    counts = Counts.empty(calibration).add(candidates)
    q = fdr.decide(counts, fdr=max(levels), method=method).q_values[ranks(candidates, counts.calibration)]
    chosen = q <= np.array(levels)[:, None]
    false = chosen[:, members:].sum(1) / np.maximum(chosen.sum(1), 1)
    return np.stack([false, chosen[:, :members].mean(1) if members else np.zeros(len(levels))], axis=1)


def simulated(runs, seed, n, m, share, signal, methods, levels, n_known=0):
    """``[methods, runs, levels, 2]`` of Gaussian scores; ``methods`` are made of the scores of known members."""
    rng, members = np.random.default_rng(seed), round(share * m)
    result = np.empty((len(methods), runs, len(levels), 2))
    for run in range(runs):
        scores = np.append(rng.normal(signal, 1, members), rng.normal(size=m - members))
        calibration, confirmed = rng.normal(size=n), rng.normal(signal, 1, n_known)
        for i, make in enumerate(methods):
            result[i, run] = outcomes(scores, members, calibration, make(confirmed), levels)
    return result


def bh(_):
    return BH()


def ptdi(eta=0.05):
    return lambda _: PTDI(eta)


def shown(values, digits=3):
    return f"{values.mean():.{digits}f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def calibration(quick):
    """ρ = n / m: what more calibration buys."""
    runs, m, rows = 50 if quick else 1000, 500, []
    for rho in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        plain, scaled = simulated(runs, 1, round(rho * m), m, 0.5, SIGNALS[0.95], (bh, ptdi()), (0.1,))[:, :, 0]
        for name, outcomes in (("BH", plain), ("PTDI", scaled)):
            false, power = outcomes.T
            rows.append((rho, name, shown(false), f"{false.std():.3f}", shown(power), f"{power.std():.3f}"))
    columns = ("ρ = n/m", "method", "FDR", "sd of the FDP", "power", "sd of the power")
    table(f"Calibration: 500 candidates, half of them members, AUC .95, level .1, {runs} runs", columns, rows)


def eta(quick):
    """η: which share of the calibration is the sparse region."""
    runs, rows = 50 if quick else 1000, []
    for value in (0.01, 0.05, 0.1, 0.5):
        for area in (0.80, 0.95):
            for share in (0.0, 0.3, 0.5, 0.7):
                values = simulated(runs, 2, 500, 500, share, SIGNALS[area], (ptdi(value),), (0.1,))[0, :, 0]
                rows.append((value, area, share, shown(values[:, 0]), shown(values[:, 1]) if share else ""))
        if not quick:
            five_candidates = simulated(20000, 3, 500, 5, 0.0, 0.0, (ptdi(value),), (0.1,))[0, :, 0, 0]
            rows.append((value, "", "0 of 5", shown(five_candidates, 4), ""))
    columns = ("η", "AUC", "share of members", "FDR", "power")
    table(f"η: 500 candidates and 500 calibration scores, level .1, {runs} runs; 5 candidates: 20,000", columns, rows)


def share(quick):
    """π: the share of members among the candidates."""
    runs, rows = 50 if quick else 1000, []
    for area in (0.80, 0.95):
        for members in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9):
            result = simulated(runs, 4, 500, 500, members, SIGNALS[area], (bh, ptdi()), LEVELS)
            cells = [
                f"{method_result[:, k, 0].mean():.3f} / {method_result[:, k, 1].mean():.3f}"
                for k in (0, 1, 3)
                for method_result in result
            ]
            rows.append((area, members, *cells))
    columns = ("AUC", "π", *(f"{name}, level {level}" for level in (0.05, 0.1, 0.5) for name in ("BH", "PTDI")))
    table(f"π: 500 candidates, 500 calibration scores, FDR / power, {runs} runs", columns, rows)


def moments(quick):
    """What confirmed members add."""
    runs, rows = 30 if quick else 500, []
    methods = {
        "BH": bh, "PTDI": ptdi(), "Storey ½": lambda _: Storey(),
        "moments": Moments, "uncorrected": lambda n_known: Moments(n_known, corrected=False),
    }  # fmt: skip
    for area in (0.65, 0.80, 0.95):
        for members in (0.0, 0.3, 0.5, 0.7, 0.9):
            for n_known in (50, 500):
                result = simulated(runs, 5, 500, 1000, members, SIGNALS[area], tuple(methods.values()), (0.1,), n_known)
                cells = [
                    f"{method_result[:, 0, 0].mean():.3f} / {method_result[:, 0, 1].mean():.3f}"
                    for method_result in result
                ]
                rows.append((area, members, n_known, *cells))
    columns = ("AUC", "π", "known members", *methods)
    table(f"Confirmed members: 1,000 candidates, 500 calibration scores, level .1, FDR / power, {runs} runs",
          columns, rows)  # fmt: skip
    few(quick)


def few(quick):
    """Where an estimate scatters most, and its bound is likeliest to break."""
    runs, rows = 100 if quick else 4000, []
    for area in (0.65, 0.95):
        for m in (5, 10, 20):
            for n_known in (20, 500):
                methods = (ptdi(0.5), Moments, lambda confirmed: Moments(confirmed, corrected=False))
                result = simulated(runs, 6, 1000, m, 0.0, SIGNALS[area], methods, (0.1, 0.5), n_known)
                rows.append(
                    (area, m, n_known, *(shown(method_result[:, k, 0]) for method_result in result for k in (0, 1)))
                )
    methods = (f"{name}, level {level}" for name in ("PTDI, η .5", "moments", "uncorrected") for level in (0.1, 0.5))
    columns = ("AUC", "candidates", "known members", *methods)
    table(f"Few candidates, none of them a member, 1,000 calibration scores: FDR, {runs} runs", columns, rows)


SCORES = ("log_likelihood", "zlib", "min_k", "modified_entropy")


def paired(texts, seed):
    """Each text with every seventh word, roughly, drawn from what follows the word before it in all the texts."""
    rng, follows = np.random.default_rng(seed), {}
    words = [text.split(" ") for text in texts]
    for line in words:
        for before, after in itertools.pairwise(line):
            follows.setdefault(before, []).append(after)
    new_lines = [
        [str(rng.choice(follows[line[i - 1]])) if i and rng.random() < 0.15 else word for i, word in enumerate(line)]
        for line in words
    ]
    return [" ".join(line) for line in new_lines]


def gradient_norms(target, texts):
    """Minus the norm of the loss's gradient in the weights, ``[n]``: what a white box shows."""
    import torch

    norms = []
    weights = [weight for weight in target.model.parameters() if weight.requires_grad]
    for text in texts:
        ids = torch.tensor([[target.tokenizer.bos_token_id, *target.tokenizer(text)["input_ids"]][:128]])
        slopes = torch.autograd.grad(target.model(input_ids=ids, labels=ids).loss, weights)
        norms.append(-float(torch.sqrt(sum((slope**2).sum() for slope in slopes))))
    return np.array(norms)


def splits(members, nonmembers, part, seed):
    """Candidates (places among the members, then among the others) and calibration, by the share of members."""
    rng = np.random.default_rng(seed)
    order, half = rng.permutation(nonmembers), nonmembers // 2
    nulls = order[half:]
    count = min(round(part / (1 - part) * len(nulls)), members)
    nulls = nulls[: round(count * (1 - part) / part)]
    return rng.choice(members, count, replace=False), nulls, order[:half]


def model(quick):
    """Two language models, with scores a black box gives, and knockoffs scored by a white box."""
    texts, runs = demo.load_paragraphs(0)[:640], 20 if quick else 300
    half = len(texts) // 2
    for epochs in (1, 2) if quick else (4, 12):
        recipe = demo.DemoModelConfig(epochs=epochs, longest=128)
        target = demo.train_language_model(texts[:half], recipe, seed=0)
        scored = tokens.all_signals(target.tokens(texts))
        rows = []
        for name in SCORES:
            area = auc(scored[name], np.arange(len(texts)) < half).value
            sides = scored[name][:half], scored[name][half:]
            rows += [(name, f"{area:.2f}", part, *compared(*sides, part, runs)) for part in (0.3, 0.5, 0.7)]
        model_name = f"a language model trained on 320 of 640 paragraphs for {epochs} epochs"
        table(f"Of {model_name}: FDR / power, {runs} splits", COLUMNS, rows)
        text_norms, paraphrase_norms = gradient_norms(target, texts), gradient_norms(target, paired(texts, 1))
        favour, area = (
            np.mean(text_norms[half:] > paraphrase_norms[half:]),
            auc(text_norms, np.arange(len(texts)) < half).value,
        )
        description = f"{favour:.2f} of non-members favour their original; AUC of the gradient's norm {area:.2f}"
        table(
            f"Knockoffs scored by gradients, of {model_name}: FDR / power; {description}",
            VERSUS,
            knockoffs(text_norms, paraphrase_norms, half, runs),
        )


def of_kept(out, quick):
    """Scores that `papers/language.py` kept of fine-tuned models, and knockoffs where gradients lie beside them."""
    runs = 20 if quick else 300
    for path in sorted(out.glob("*.npz")):
        found = store.read_arrays(path)
        member, rows = found.pop("member"), []
        for name, values in found.items():
            inside, outside = values[member], values[~member]
            area = auc(values, member).value
            rows += [(name, f"{area:.2f}", part, *compared(inside, outside, part, runs)) for part in (0.3, 0.5, 0.7)]
        sizes = f"{member.sum()} members, {(~member).sum()} others, half of these for calibration"
        table(f"{path.stem}: FDR / power, {runs} splits; {sizes}", COLUMNS, rows)
        beside = out / "knockoffs" / path.name
        if beside.exists():
            own, other = (store.read_arrays(beside)[key] for key in ("own", "other"))
            favour, area = np.mean((own > other)[~member]), auc(own, member).value
            described = f"{favour:.2f} of non-members favour their original; AUC of the gradient's norm {area:.2f}"
            rows = knockoffs(own, other, int(member.sum()), runs)
            table(f"{path.stem}, knockoffs scored by gradients: FDR / power; {described}", VERSUS, rows)


VERSUS = ("π", *(f"{kind}, level {level}" for level in LEVELS for kind in ("KTD", "PTDI")))


def tofu(quick):
    """Models of others: fine-tuned LLaMA-2-7B and Phi-1.5, with non-members of the same kind."""
    import polars as pl

    if not os.environ.get("DIVULGE_DATA"):
        print("\ntofu: left out, DIVULGE_DATA names no folder with tofu_llama2_phi_scores.parquet")
        return
    path, runs, rows = Path(os.environ["DIVULGE_DATA"]) / "tofu_llama2_phi_scores.parquet", 20 if quick else 300, []
    frame = pl.read_parquet(path).filter(pl.col("trained_on") == "retain90").sort("index")
    frame = frame.with_columns(ratio=pl.col("sum_loss") / pl.col("zlib_bytes"))
    for (name, decay), run in frame.group_by("model", "weight_decay", maintain_order=True):
        for score, column in (("loss", "loss"), ("zlib", "ratio"), ("loss of a paraphrase", "paraphrase_loss")):
            inside, outside = (
                -run.filter(pl.col("split") == split_name)[column].to_numpy() for split_name in ("retain", "forget")
            )
            area = auc(np.append(inside, outside), np.arange(len(inside) + len(outside)) < len(inside)).value
            rows += [
                (f"{name}, decay {decay:g}", score, f"{area:.2f}", part, *compared(inside, outside, part, runs))
                for part in (0.3, 0.5, 0.7)
            ]
    table(f"Fine-tuned models of others (TOFU): FDR / power, {runs} splits", ("model", *COLUMNS), rows)


def compared(inside, outside, part, runs):
    """FDR / power of BH and of PTDI at levels .05, .1 and .5, over splits of the non-members."""
    outcomes_by_method = {"BH": [], "PTDI": []}
    for seed in range(runs):
        ours, nulls, calibration_rows = splits(len(inside), len(outside), part, seed)
        scores = np.append(inside[ours], outside[nulls])
        for method_name, method in (("BH", BH()), ("PTDI", PTDI())):
            outcomes_by_method[method_name].append(
                outcomes(scores, len(ours), outside[calibration_rows], method, LEVELS)
            )
    means = {method_name: np.mean(values, axis=0) for method_name, values in outcomes_by_method.items()}
    return [
        f"{means[method_name][k, 0]:.3f} / {means[method_name][k, 1]:.3f}" for k in (0, 1, 3) for method_name in means
    ]


COLUMNS = ("score", "AUC", "π",
          *(f"{kind}, level {level}" for level in (0.05, 0.1, 0.5) for kind in ("BH", "PTDI")))  # fmt: skip


def knockoffs(own_scores, knockoff_scores, half, runs):
    """FDR / power of knockoffs and of PTDI on the same score, by the share of members."""
    rows = []
    for part in (0.3, 0.5, 0.7):
        outcome = {"KTD": [], "PTDI": []}
        for seed in range(runs):
            ours, nulls, calibration_rows = splits(half, len(own_scores) - half, part, seed)
            candidate_rows = np.append(ours, half + nulls)
            chosen = [
                select_by_knockoffs(own_scores[candidate_rows], knockoff_scores[candidate_rows], fdr=level)[0]
                for level in LEVELS
            ]
            outcome["KTD"].append(
                [(one[len(ours) :].sum() / max(one.sum(), 1), one[: len(ours)].mean()) for one in chosen]
            )
            outcome["PTDI"].append(
                outcomes(own_scores[candidate_rows], len(ours), own_scores[half + calibration_rows], PTDI(), LEVELS)
            )
        means = {method_name: np.mean(values, axis=0) for method_name, values in outcome.items()}
        rows.append(
            (part, *(f"{mean[k, 0]:.3f} / {mean[k, 1]:.3f}" for k in range(len(LEVELS)) for mean in means.values()))
        )
    return rows


PARTS = {"calibration": calibration, "eta": eta, "share": share, "moments": moments, "tofu": tofu, "model": model}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="few runs: to see that it works")
    parser.add_argument("--out", type=Path, help="the folder of papers/language.py, for the part 'kept'")
    arguments = parser.parse_args()
    if arguments.parts == ["kept"]:
        if arguments.out is None:
            parser.error("--out: the folder of scores is needed")
        of_kept(arguments.out, arguments.quick)
        return
    for name in arguments.parts:
        began = time.perf_counter()
        PARTS[name](arguments.quick)
        print(f"\n({name}: {time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
