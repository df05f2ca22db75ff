"""Identification: how fast ten million scores are decided, and documents scored on a CPU.

Run with ``python benchmarks/identification_speed.py [--quick] [part ...]``; the parts are decisions, 70m and 160m
(documents through models of these sizes). Take the machine for yourself; for documents, set OMP_NUM_THREADS=1 for
figures of one thread, and for decisions, taskset -c 0. All numbers are printed, none is kept.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import zlib
from functools import partial

import numpy as np

from divulge import machine
from divulge.decisions import fdr
from divulge.decisions.counts import Counts, p_values
from identification import table


def clock(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak(work):
    tracemalloc.start()
    work()
    high = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return high / 2**20


def decisions(quick):
    m, n = (10**6, 10**5) if quick else (10**7, 10**6)
    rng = np.random.default_rng(7)
    scores, calibration = np.append(rng.normal(3, 1, m // 10), rng.normal(size=m - m // 10)), rng.normal(size=n)
    ordered = np.sort(calibration)

    def streaming():
        counts = Counts.empty(calibration)
        for start in range(0, m, 1 << 21):
            counts = counts.add(scores[start : start + (1 << 21)])
        return fdr.decide(counts, fdr=0.1)

    work = {
        "np.sort(test)": lambda: np.sort(scores),
        "selection (threshold)": lambda: fdr.threshold(scores, calibration, fdr=0.1),
        "streaming in chunks of 2^21": streaming,
        "all p-values": lambda: p_values(scores, ordered),
        "all of select(), p-values included": lambda: fdr.select(scores, calibration, fdr=0.1),
    }
    seconds = dict.fromkeys(work, np.inf)
    for _ in range(5):  # in turns, so that a busy machine slows all alike
        for name, part in work.items():
            seconds[name] = min(seconds[name], clock(part))
    base = seconds["np.sort(test)"]
    rows = [(name, f"{s:.3f}", f"{s / base:.2f}", f"{peak(work[name]):.0f}") for name, s in seconds.items()]
    title = f"Speed, m = {m:.0e}, n = {n:.0e}, {machine.available_cores()} cores (p-values use all, the rest one)"
    table(title, ("", "wall s", "× np.sort", "peak MiB over inputs"), rows)


def corpus(each):
    """Stretches of 32, 64, 128 and 256 words of Python's manual, as many of each: the lengths of WikiMIA."""
    from pydoc_data.topics import topics

    words, rng = " ".join(topics.values()).split(), np.random.default_rng(0)
    documents = []
    for length in np.repeat([32, 64, 128, 256], each):
        start = rng.integers(len(words) - length)
        documents.append(" ".join(words[start : start + length]))
    return [documents[i] for i in rng.permutation(len(documents))], list(topics.values())


def pythia(width, layers, heads):
    """A model of the shape of Pythia, with random weights: what is computed does not depend on them."""
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(0)
    config = GPTNeoXConfig(
        vocab_size=50304,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPTNeoXForCausalLM(config).eval()
    with torch.no_grad():  # logits with the spread of a trained model's
        model.get_output_embeddings().weight.mul_(5)
    return model


def min_k_loop(model, tokenizer, text, plus):
    """A document as detect-pretrain-code scores it: alone, then in lower case; with ``plus``, Min-K%++ as well."""
    import torch

    def likelihood(text):
        ids = torch.tensor(tokenizer.encode(text)).unsqueeze(0)
        with torch.no_grad():
            loss, logits = model(ids, labels=ids)[:2]
        logp = torch.nn.functional.log_softmax(logits, dim=-1)
        own_logs = [logp[0, i, token].item() for i, token in enumerate(ids[0][1:])]
        return loss.item(), own_logs, logits, logp

    loss, own_logs, logits, logp = likelihood(text)
    lowered = likelihood(text.lower())[0]
    statistics = {
        "log_likelihood": -loss,
        "lowercase": lowered / loss,
        "zlib": -loss / len(zlib.compress(text.encode())),
        "min_k": np.mean(np.sort(own_logs)[: max(int(0.2 * len(own_logs)), 1)]),
    }
    if plus:
        p = torch.nn.functional.softmax(logits[0, :-1], dim=-1)
        mu = (p * logp[0, :-1]).sum(-1)
        sigma = (p * torch.square(logp[0, :-1])).sum(-1) - torch.square(mu)
        z = (np.array(own_logs) - mu.numpy()) / sigma.sqrt().numpy()
        statistics["min_k_plus"] = np.mean(np.sort(z)[: max(int(0.2 * len(z)), 1)])
    return statistics


def every_statistic(model, tokenizer, text, exact=False):
    """All seven statistics of each token and all signals, as formulas are written; ``exact``: in double precision."""
    import torch

    ids = torch.tensor(tokenizer.encode(text)).unsqueeze(0)
    with torch.no_grad():
        logits = model(ids).logits[0, :-1]
    logits = logits.double() if exact else logits
    logp, p = torch.log_softmax(logits, dim=-1), torch.softmax(logits, dim=-1)
    own_logp = logp.gather(1, ids[0, 1:, None])[:, 0]
    entropy = -(p * logp).sum(-1)
    variance = (p * torch.square(logp + entropy[:, None])).sum(-1)
    other_probabilities = p.clone().scatter_(1, ids[0, 1:, None], 0.0)
    modified = -(1 - own_logp.exp()) * own_logp - (other_probabilities * torch.log1p(-other_probabilities)).sum(-1)
    half, two = 2 * p.sqrt().sum(-1).log(), -p.square().sum(-1).log()
    return torch.stack([own_logp, entropy, variance, modified, half, two, -logp.amax(-1)]).numpy()


def whole_loop(model, tokenizer, text):
    """One document at a time, everything that we give: seven statistics per token, and the lower-case ratio."""
    rows = every_statistic(model, tokenizer, text)
    lowered = every_statistic(model, tokenizer, text.lower())
    return rows, lowered[0].mean() / rows[0].mean()


def ours(target, texts):
    from divulge.signals import tokens as signals

    stats = target.tokens(texts)
    lowered = target.tokens([text.lower() for text in texts], vocabulary=False)
    return stats, {**signals.all_signals(stats), "lowercase": signals.lowercase(stats, lowered)}


SHAPES = {"Pythia-70m": (512, 6, 8), "Pythia-160m": (768, 12, 12)}


def scoring(quick, name):
    import torch

    from divulge import demo
    from divulge.targets.language_models import CausalLM

    texts, every = corpus(2 if quick else 5)
    tokenizer, model = demo.train_tokenizer(every, 8192), pythia(*SHAPES[name])
    target = CausalLM(model, tokenizer)
    count = sum(len(tokenizer.encode(text)) for text in texts)
    work = {
        "Min-K% loop": lambda: [min_k_loop(model, tokenizer, text, False) for text in texts],
        "Min-K%, Min-K%++ loop": lambda: [min_k_loop(model, tokenizer, text, True) for text in texts],
        "loop for all we give": lambda: [whole_loop(model, tokenizer, text) for text in texts],
        "ours": lambda: ours(target, texts),
    }
    min_k_loop(model, tokenizer, texts[0], True), ours(target, texts[:2])
    seconds, outputs = dict.fromkeys(work, np.inf), {}
    for _ in range(2):  # in turns, so that a busy machine slows all alike
        for method, part in work.items():
            start = time.perf_counter()
            outputs[method] = part()
            seconds[method] = min(seconds[method], time.perf_counter() - start)
    rows = [
        (method, f"{seconds_taken:.2f}", f"{seconds_taken / count * 1e3:.2f}", f"{seconds_taken / seconds['ours']:.2f}")
        for method, seconds_taken in seconds.items()
    ]
    threads = torch.get_num_threads()
    title = f"{name}: {len(texts)} documents, {count} tokens, and again in lower case, {threads} thread(s)"
    table(title, ("", "wall s", "ms per token", "over ours"), rows)
    agreement(name, model, tokenizer, texts, outputs)


def agreement(name, model, tokenizer, texts, outputs):
    from divulge.targets.token_statistics import PER_TOKEN

    stats, signals = outputs["ours"]
    rows, naive = stats.rows(), [row for row, _ in outputs["loop for all we give"]]
    exact = [every_statistic(model, tokenizer, text, exact=True) for text in texts]
    lines = []
    for k, statistic in enumerate(PER_TOKEN):

        def largest_gap(first_rows, second_rows):
            return f"{max(np.abs(a - b).max() for a, b in zip(first_rows, second_rows, strict=True)):.1e}"

        mine, naive_rows, true = rows[statistic], [row[k] for row in naive], [row[k] for row in exact]
        lines.append((statistic, largest_gap(mine, naive_rows), largest_gap(mine, true), largest_gap(naive_rows, true)))
    columns = ("statistic", "ours - naive fp32", "ours - double", "naive fp32 - double")
    table(f"Largest difference, {name}", columns, lines)
    loop = outputs["Min-K%, Min-K%++ loop"]
    errors = {
        statistic: max(abs(row[statistic] - signals[statistic][i]) for i, row in enumerate(loop))
        for statistic in loop[0]
    }
    print("signals against the loop's: " + ", ".join(f"{statistic} {error:.1e}" for statistic, error in errors.items()))


PARTS = {
    "decisions": decisions,
    "70m": partial(scoring, name="Pythia-70m"),
    "160m": partial(scoring, name="Pythia-160m"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name in options.parts:
        start = time.perf_counter()
        PARTS[name](options.quick)
        print(f"[{name}: {time.perf_counter() - start:.0f} s]")


if __name__ == "__main__":
    main()
