"""Training one model: how much sooner than an ordinary loop, in interleaved pairs.

    PYTHONPATH=src python benchmarks/training_speed.py [cnn] [answers] [lora] [references] [--rounds 5] [--epochs 4]
        [--compile]

Each round trains every variant once, one after the other, in CPU seconds of one thread; a ratio is taken within a
round, so that whatever else the machine does touches both sides. The plain loop of the network holds its images as a
tensor (a `DataLoader` is slower still); that of the language model draws batches at random and takes the library's own
loss. A network is trained for ``--epochs``, as one epoch of eight batches is shorter than any training; what is done
once, a look at the outputs and the choice of the memory layout, is in the figures. "mixed" is `precision="mixed"`;
"compiled" is a network behind `torch.compile`, its compilation counted apart. ``answers`` asks a network about images,
all at once, by the thousand and as reference models and targets are asked. ``references`` is wall time on all cores:
several models one after the other in a plain loop with torch's threads, and trained as `Train` does by default, its
processes' start and the answers about all records counted in. It needs an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import peft
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import divulge as dv
from divulge.references import FineTune, LoRA, Train, fine_tuning, network_training, splits
from reference_training import resnet


def train_plainly(net: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, batch_size: int) -> float:
    """Train as a loop without any care would, and return the last loss."""
    update = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    net.train()
    loss = torch.zeros(())
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch_size):
            update.zero_grad()
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            update.step()
    return loss.item()


def measure_cnn(rounds: int, epochs: int, compiled: bool) -> None:
    """ResNet of three blocks on images of 32 x 32."""
    rng, n, size = np.random.default_rng(0), 512, 64
    data = dv.Records(rng.normal(size=(n, 3, 32, 32)).astype(np.float32), np.arange(n) % 100)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    train = Train(resnet, epochs=epochs, batch_size=size, engine="serial", device="cpu")
    variants: dict[str, Callable[[], object]] = {
        "plain loop": lambda: train_plainly(resnet(), x, y, epochs, size),
        "Train": lambda: train.train_model(data, seed=0, classes=100),
        "Train, mixed": lambda: Train(
            resnet, epochs=epochs, batch_size=size, engine="serial", device="cpu", precision="mixed"
        ).train_model(data, seed=0, classes=100),
    }
    if compiled:
        net = torch.compile(resnet())
        variants["plain loop, compiled"] = lambda: train_plainly(net, x, y, epochs, size)
        inner = torch.compile(resnet().to(memory_format=torch.channels_last))
        channels_last = x.contiguous(memory_format=torch.channels_last)
        variants["channels last, compiled"] = lambda: train_plainly(inner, channels_last, y, epochs, size)
    report(f"ResNet of three blocks, 32 x 32, batches of 64, {epochs} epochs", variants, rounds)


def measure_answers(rounds: int, images: int = 4096) -> None:
    """Ask the same network about images."""
    x = np.random.default_rng(0).normal(size=(images, 3, 32, 32)).astype(np.float32)
    net, cpu = resnet().eval(), torch.device("cpu")
    records = dv.Records(x)

    def ask_plainly(size: int) -> None:
        with torch.inference_mode():
            torch.cat([net(part) for part in torch.from_numpy(x).split(size)])

    def ask_reference() -> None:
        layout = network_training.choose_layout(net, torch.from_numpy(x))
        inner = network_training.set_layout(copy.deepcopy(net), layout)
        network_training.predict_logits(inner, x, cpu, form=layout)

    variants: dict[str, Callable[[], object]] = {
        f"{images} at once": lambda: ask_plainly(images),
        "1,024 at once": lambda: ask_plainly(1024),
        "TorchTarget": lambda: dv.targets.TorchTarget(net, device="cpu").raw_outputs(records),
        "a reference model": ask_reference,
    }
    report(f"Answers of a ResNet of three blocks about {images} images of 32 x 32", variants, rounds)


def measure_references(rounds: int, epochs: int, models: int = 8, images: int = 4096) -> None:
    """Train several such networks, each on half of the images, on all cores of the machine."""
    rng, size = np.random.default_rng(0), 64
    data = dv.Records(rng.normal(size=(images, 3, 32, 32)).astype(np.float32), np.arange(images) % 100)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    halves = splits.offline(images, models, 0)

    def train_in_turn() -> None:
        torch.set_num_threads(os.cpu_count() or 1)
        for model in range(models):
            rows = torch.from_numpy(halves.members(model))
            net = resnet()
            train_plainly(net, x[rows], y[rows], epochs, size)
            with torch.inference_mode():
                torch.cat([net.eval()(part) for part in x.split(250)])
        torch.set_num_threads(1)

    def fit(precision: Literal["single", "mixed"]) -> None:
        train = Train(resnet, count=models, epochs=epochs, batch_size=size, device="cpu", precision=precision)
        train.fit(data, halves, seed=0, observe=[data])

    report(
        f"{models} ResNets of three blocks, {images // 2} images each, {epochs} epochs, {os.cpu_count()} cores",
        {"plain loop": train_in_turn, "Train": lambda: fit("single"), "Train, mixed": lambda: fit("mixed")},
        rounds,
        time.perf_counter,
    )


def measure_lora(rounds: int) -> None:
    """GPT-2's shape, two layers of 128, 16,384 tokens, documents of very different lengths."""
    rng = np.random.default_rng(0)
    config = GPT2Config(
        n_layer=2, n_head=4, n_embd=128, vocab_size=16_384, n_positions=256, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    base = GPT2LMHeadModel(config)
    lengths = np.clip(rng.lognormal(3.5, 0.8, 48).astype(int), 4, 256)
    documents = [rng.integers(0, 16_384, size=length).tolist() for length in lengths]
    print(f"\ndocuments of {lengths.min()} to {lengths.max()} tokens, {lengths.mean():.0f} on average")

    def adapted(rank: int | None) -> nn.Module:
        model = copy.deepcopy(base)
        if rank is None:
            return model
        return peft.get_peft_model(model, peft.LoraConfig(r=rank, task_type="CAUSAL_LM", fan_in_fan_out=True))

    def plain(rank: int | None) -> None:
        model = adapted(rank).train()
        update = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        for rows in np.array_split(rng.permutation(len(documents)), len(documents) // 8):
            width = max(len(documents[row]) for row in rows)
            ids = torch.tensor([documents[row] + [0] * (width - len(documents[row])) for row in rows])
            mask = torch.tensor([[1] * len(documents[row]) + [0] * (width - len(documents[row])) for row in rows])
            labels = torch.where(mask.bool(), ids, torch.tensor(-100))
            update.zero_grad()
            model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()

    def ours(rank: int | None) -> None:
        settings = FineTune("base", epochs=1, batch_size=8, lora=None if rank is None else LoRA(rank=rank))
        fine_tuning._train_epochs(adapted(rank), documents, settings, np.random.default_rng(0), lambda share: None)

    for title, rank in (("LoRA of rank 8", 8), ("all weights", None)):
        report(
            f"Language model of two layers of 128, {title}, batches of 8",
            {"plain loop": lambda rank=rank: plain(rank), "FineTune": lambda rank=rank: ours(rank)},
            rounds,
        )


def report(
    title: str,
    variants: dict[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> None:
    """Train every variant in turn, and print seconds (CPU seconds, by default) and ratios to the first."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    first_seconds: dict[str, float] = {}
    for round_number in range(rounds + 1):
        for name, work in variants.items():
            began = clock()
            work()
            passed = clock() - began
            if round_number:
                seconds[name].append(passed)
            else:  # caches, kernels and compilation
                first_seconds[name] = passed
    base, unit = next(iter(seconds.values())), "CPU" if clock is time.process_time else "wall"
    print(f"\n## {title}\n\n| | first run, s | {unit} s, median | times the speed of the first, median [least, most] |")
    print("|---|---|---|---|")
    for name, each in seconds.items():
        ratios = [b / s for b, s in zip(base, each, strict=True)]
        spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        print(f"| {name} | {first_seconds[name]:.2f} | {statistics.median(each):.3f} | {spread} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["cnn", "lora"], help="cnn, answers, lora, references")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4, help="of the network")
    parser.add_argument("--compile", action="store_true", help="also torch.compile, which takes minutes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if "cnn" in options.parts:
        measure_cnn(options.rounds, options.epochs, options.compile)
    if "answers" in options.parts:
        measure_answers(options.rounds)
    if "lora" in options.parts:
        measure_lora(options.rounds)
    if "references" in options.parts:
        measure_references(options.rounds, options.epochs)


if __name__ == "__main__":
    main()
