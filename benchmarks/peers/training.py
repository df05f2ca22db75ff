"""The same reference models by each tool, in turns with a plain PyTorch loop; needs NumPy and PyTorch."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import network
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH = 20, 32
PLAIN = "plain loop"


@dataclass(frozen=True)
class Job:
    """What is to be trained: row ``i`` of ``trained_on`` says which of the records model ``i`` sees."""

    x: np.ndarray  # float32 [n, 784]
    y: np.ndarray  # int64 [n]
    trained_on: np.ndarray  # bool [m, n]
    test_x: np.ndarray
    test_y: np.ndarray

    def loader(self, rows, *, shuffle=True):
        """Batches of some of the records, as PyTorch makes them."""
        data = TensorDataset(torch.from_numpy(self.x[rows]), torch.from_numpy(self.y[rows]))
        return DataLoader(data, batch_size=BATCH, shuffle=shuffle)

    def right(self, models):
        """Mean share of test images that the networks get right."""
        with torch.no_grad():
            x = torch.from_numpy(self.test_x)
            predictions = [model.eval()(x).argmax(1).numpy() for model in models]
        return float(np.mean([answer == self.test_y for answer in predictions]))


def plain(job):
    """The yardstick: one network after the other, batches by indexing, each asked about all records in the end."""
    x, y = torch.from_numpy(job.x), torch.from_numpy(job.y)
    models = []
    for rows in map(torch.from_numpy, job.trained_on):
        mine, labels, model = x[rows], y[rows], network.Net()
        update = network.optimizer(model)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(mine)).split(BATCH):
                network.step(model, update, mine[batch], labels[batch])
        with torch.no_grad():
            model.eval()(x)
        models.append(model)
    return models


def in_turns(trainers, path, rounds):
    """Name → wall and processor seconds and accuracy of each round; the plain loop is one of the trainers.

    Args:
        trainers: name → function of a `Job` to networks, or to their accuracy.
        path: ``.npz`` of a `Job`.
        rounds: how often each trains, after a first time that does not count.
    """
    torch.set_num_threads(1)
    with np.load(path) as file:
        job = Job(**file)
    trainers = {PLAIN: plain} | trainers
    took = {name: {"wall": [], "processor": [], "right": []} for name in trainers}
    for turn in range(rounds + 1):
        for name, train_models in trainers.items():
            torch.manual_seed(turn)
            wall, processor = time.perf_counter(), spent()
            models = train_models(job)
            wall, processor = time.perf_counter() - wall, spent() - processor
            if turn:
                right = models if isinstance(models, float) else job.right(models)
                for key, value in (("wall", wall), ("processor", processor), ("right", right)):
                    took[name][key].append(value)
    return {"models": len(job.trained_on), "took": took}


def spent():
    """Processor seconds of this process and of all its children, alive or ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(_alive, _below(os.getpid())))


def _below(process):
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield child
            yield from _below(child)


def _alive(process):
    """Its own seconds and those of the children that it has seen end."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
