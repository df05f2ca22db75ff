"""Training and asking reference models: how fast beside a plain loop written by hand, and on Ray.

    PYTHONPATH=src python benchmarks/throughput.py [PART …] [--rounds 5] [--record]

Each line is a process of its own, in which the plain loop and Divulge do the same work in turn, after one round that is
not counted; a ratio is taken within a round, and its median is shown: above 1 Divulge is faster. Seconds are those of
the processor, on one thread, and of the wall where several processes work. The plain loops are what one writes who
knows the libraries: data as tensors or arrays in memory, batches by index, no gradients where there is nothing to
learn. ``Ray`` compares a local cluster of two cores with one that has a GPU slot as well, by name alone: models that
use no GPU are to take as long. The last column is the ratio over that recorded last; ``--record`` writes new ones.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge.references import FineTune, LoRA, Train, splits

RESULTS = Path(__file__).parent / "results"
Work = Callable[[], object]


def draw_records(n: int, *shape: int) -> dv.Records:
    rng = np.random.default_rng(0)
    return dv.Records(rng.normal(size=(n, *shape)).astype(np.float32), rng.integers(0, 10, n))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn() -> nn.Module:
    first_block = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
    second_block = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(first_block, second_block, nn.Flatten(), nn.Linear(32 * 64, 10))


def train_networks(make: Callable[[], nn.Module], n: int, shape: tuple[int, ...], models: int) -> tuple[Work, Work]:
    """Train models on half of the records each, three epochs of SGD in batches of 64."""
    records = draw_records(n, *shape)
    x, y, halves = torch.from_numpy(records.x), torch.from_numpy(records.y), splits.offline(n, models, 0)
    train = Train(make, models, epochs=3, batch_size=64, device="cpu", workers=1)

    def train_plainly() -> None:
        for model in range(models):
            net, members = make().train(), torch.from_numpy(halves.members(model))
            optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
            for _ in range(3):
                for rows in members[torch.randperm(len(members))].split(64):
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
                    optimizer.step()

    return train_plainly, lambda: train.fit(records, halves, seed=0, classes=10)


def ask_network(make: Callable[[], nn.Module], n: int, shape: tuple[int, ...]) -> tuple[Work, Work]:
    """Ask a network about records, 256 at a time in the plain loop."""
    records, net = draw_records(n, *shape), make().eval()
    x, target = torch.from_numpy(records.x), dv.targets.TorchTarget(net, device="cpu")

    def ask_plainly() -> None:
        with torch.inference_mode():
            torch.cat([net(part) for part in x.split(256)]).double().numpy()

    return ask_plainly, lambda: target.logits(records)


def booster() -> object:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, n_jobs=1, random_state=0, verbose=-1)


def train_boosters() -> tuple[Work, Work]:
    """Train four models on half of the records each, and ask each about all of them."""
    records, halves = draw_records(10_000, 20), splits.offline(10_000, 4, 0)
    labelled = dv.Records(records.x, (records.x[:, 0] + records.x[:, 1] > 0).astype(int))

    def train_plainly() -> None:
        for model in range(4):
            rows = halves.members(model)
            booster().fit(labelled.x[rows], labelled.y[rows]).predict_proba(labelled.x)

    train = Train(booster, 4, engine="serial")
    return train_plainly, lambda: train.fit(labelled, halves, seed=0, observe=[labelled])


def ask_booster() -> tuple[Work, Work]:
    """Ask a model about records."""
    records = draw_records(40_000, 20)
    fitted = booster().fit(records.x[:2000], (records.x[:2000, 0] > 0).astype(int))
    target = dv.targets.adapt(fitted)
    return lambda: fitted.predict_proba(records.x), lambda: target.logits(records)


def language_model() -> tuple[dv.targets.CausalLM, list[str]]:
    """Return a GPT-2 of two layers of 128, one token a word, and documents of very different lengths."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from language_model_speed import build_tokenizer, draw_texts

    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=2, n_head=4, n_embd=128, vocab_size=16_384, n_positions=256, bos_token_id=0, eos_token_id=0
    )
    return dv.targets.CausalLM(GPT2LMHeadModel(config).eval(), build_tokenizer(), bos="add"), draw_texts(48, 0)


def train_adapters() -> tuple[Work, Work]:
    """Train adapters of rank 8, two epochs in batches of 8 documents; in the plain loop they are drawn at random."""
    import peft

    base, texts = language_model()
    encoded, records = base.encoded(texts), dv.Records(np.array(texts, dtype=object))

    def train_plainly() -> None:
        model = peft.get_peft_model(
            copy.deepcopy(base.model), peft.LoraConfig(r=8, task_type="CAUSAL_LM", fan_in_fan_out=True)
        ).train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
        for rows in (rows for _ in range(2) for rows in torch.randperm(len(encoded)).split(8)):
            width = max(len(encoded[row]) for row in rows)
            ids = torch.tensor([encoded[row] + [0] * (width - len(encoded[row])) for row in rows])
            mask = torch.tensor([[1] * len(encoded[row]) + [0] * (width - len(encoded[row])) for row in rows])
            labels = torch.where(mask.bool(), ids, torch.tensor(-100))
            optimizer.zero_grad()
            model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    tuning = FineTune(base, count=1, epochs=2, batch_size=8, lora=LoRA(rank=8), engine="serial", device="cpu")
    loaded = tuning.load_base()
    return train_plainly, lambda: loaded.fit(records, np.ones((1, len(records)), bool), seed=0)


def ask_language_model() -> tuple[Work, Work]:
    """Ask a language model for the log-probability of each token; the plain loop has batches of nearly equal length."""
    from language_model_speed import score_plainly

    base, texts = language_model()
    encoded = base.encoded(texts)
    return lambda: score_plainly(base.model, encoded), lambda: base.tokens(texts, vocabulary=False)


LOCAL: dict[str, Callable[[], tuple[Work, Work]]] = {
    "16 MLPs, training": lambda: train_networks(mlp, 2000, (256,), 16),
    "MLP, 40,000 records": lambda: ask_network(mlp, 40_000, (256,)),
    "4 CNNs, training": lambda: train_networks(cnn, 512, (3, 32, 32), 4),
    "CNN, 2,000 images": lambda: ask_network(cnn, 2000, (3, 32, 32)),
    "4 LightGBMs, training": train_boosters,
    "LightGBM, 40,000 records": ask_booster,
    "LoRA, training": train_adapters,
    "GPT-2, 48 documents": ask_language_model,
}
"""Name → the plain loop and Divulge, each once."""

RAY = {
    "8 LightGBMs": lambda engine: Train(booster, 8, engine=engine),
    "8 CNNs on the CPU": lambda engine: Train(cnn, 8, epochs=3, batch_size=64, device="cpu", engine=engine),
}
"""Name → a training, by engine."""


def measure(name: str, rounds: int) -> dict[str, float]:
    """Return the median seconds of the plain loop and of Divulge, and the median of their ratios."""
    torch.set_num_threads(1)
    plain, ours = LOCAL[name]()
    seconds = [[measure_seconds(work, time.process_time) for work in (plain, ours)] for _ in range(rounds + 1)][1:]
    before, now = zip(*seconds, strict=True)
    ratio = statistics.median(a / b for a, b in seconds)
    return {"plain": statistics.median(before), "divulge": statistics.median(now), "ratio": ratio}


def measure_ray(name: str, rounds: int, *, gpus: int) -> dict[str, float]:
    """Return the seconds of a training in one process, and on a cluster of two cores, once it has begun to work."""
    import ray

    torch.set_num_threads(1)
    records = draw_records(512, 3, 32, 32) if "CNN" in name else draw_records(4000, 20)
    halves = splits.offline(len(records), 8, 0)
    ray.init(num_cpus=2, num_gpus=gpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        works = [
            lambda engine=engine: RAY[name](engine).fit(records, halves, seed=0, classes=10)
            for engine in ("serial", "ray")
        ]
        seconds = [[measure_seconds(work, time.perf_counter) for work in works] for _ in range(rounds + 1)][1:]
    finally:
        ray.shutdown()
    before, now = zip(*seconds, strict=True)
    ratio = statistics.median(a / b for a, b in seconds)
    return {"plain": statistics.median(before), "divulge": statistics.median(now), "ratio": ratio}


def measure_seconds(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def write_table(figures: dict[str, dict[str, float]], recorded: dict[str, dict[str, float]]) -> str:
    """Write the figures as a table, with ratios to those recorded."""
    lines = [
        "| work | plain loop, s | Divulge, s | times as fast | times as fast / recorded |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, now in figures.items():
        change = f"{now['ratio'] / recorded[name]['ratio']:.2f}" if name in recorded else "–"
        lines.append(f"| {name} | {now['plain']:.3f} | {now['divulge']:.3f} | {now['ratio']:.2f} | {change} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="lines that contain one of these words; all when there is none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write the figures to benchmarks/results")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    # On Ray the plain loop is Divulge in one process.
    cells = {name: (name, None) for name in LOCAL} | {
        f"Ray, {name}, {'a GPU slot' if gpus else 'no GPU'}": (name, gpus) for name in RAY for gpus in (0, 1)
    }
    if options.cell:
        name, gpus = cells[options.cell]
        figures = measure(name, options.rounds) if gpus is None else measure_ray(name, options.rounds, gpus=gpus)
        print(json.dumps(figures))
        return
    file = RESULTS / "throughput.json"
    recorded = json.loads(file.read_text()) if file.exists() else {}
    figures = {}
    for cell in cells:
        if options.parts and not any(part.lower() in cell.lower() for part in options.parts):
            continue
        command = [sys.executable, __file__, "--cell", cell, "--rounds", str(options.rounds)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        figures[cell] = json.loads(run.stdout.splitlines()[-1])
        print(f"{cell}: {figures[cell]['ratio']:.2f}", file=sys.stderr)
        if options.record:  # line by line, so that an interruption costs one
            rounded = {name: {key: round(value, 3) for key, value in row.items()} for name, row in figures.items()}
            file.write_text(json.dumps(recorded | rounded, indent=1) + "\n")
            table = write_table(recorded | figures, recorded)
            (RESULTS / "throughput.md").write_text(f"# Reference models beside a plain loop\n\n{table}\n")
    print(write_table(figures, recorded))


if __name__ == "__main__":
    main()
