"""Reference training, engine by engine: time, memory and accuracy.

    python benchmarks/reference_training.py [--quick] [--models 16 64] [--skip PART …]

Parts: mlp cnn processes forests ray dp lira scale.

On a machine with an NVIDIA GPU the engines run there (``--device cpu`` keeps them on the CPU). Every network is
trained on real images, the Fashion-MNIST subset that comes with the package. CPU seconds are those of one thread
per process; ratios are taken within one run of this program, on whatever else the machine is doing.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import divulge as dv
from divulge.references import Custom, Private, Train, network_training, private, splits, stacked

torch.set_num_threads(1)


class Plain(nn.Module):
    """The same MLP in a class of its own, which the written-out backward does not know: the vmap path."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        """Logits."""
        return self.inner(x)


def mlp_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def mlp_plain():
    return Plain(mlp_net())


def cnn_net():
    first_block = nn.Sequential(nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    second_block = nn.Sequential(nn.Conv2d(8, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(first_block, second_block, nn.Flatten(), nn.Linear(400, 10))


def cnn_plain():
    return Plain(cnn_net())


class Block(nn.Module):
    """Two 3x3 convolutions and a way round them."""

    def __init__(self, into, out, stride):
        super().__init__()
        self.one, self.norm = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.two, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.skip = nn.Conv2d(into, out, 1, stride, bias=False)

    def forward(self, x):
        """Features of the same or half the size."""
        inner = self.norm2(self.two(torch.relu(self.norm(self.one(x)))))
        return torch.relu(inner + self.skip(x))


def resnet():
    blocks = nn.Sequential(Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
    return nn.Sequential(blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100))


@dataclass
class Row:
    """One line of a table."""

    name: str
    cpu: float
    wall: float
    accuracy: float


def images(records):
    with resources.files("divulge").joinpath("data/fashion_mnist_small.npz").open("rb") as file:
        loaded = np.load(file)
        train = dv.Records(loaded["x_train"][:records, None] / np.float32(255), loaded["y_train"][:records].astype(int))
        test = dv.Records(loaded["x_test"][:, None] / np.float32(255), loaded["y_test"].astype(int))
    return train, test


def dataloader(train, data, test, split):
    """What peers do: a `Dataset`, a `DataLoader`, one model after the other."""
    right = []
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    for model in range(train.count):
        torch.manual_seed(model)
        rows = torch.from_numpy(split.members(model))
        batches = DataLoader(TensorDataset(x[rows], y[rows]), batch_size=train.batch_size, shuffle=True)
        net = train.make_model()
        update = torch.optim.SGD(net.parameters(), lr=train.learning_rate, momentum=train.momentum)
        for _ in range(train.epochs):
            for xb, yb in batches:
                update.zero_grad()
                nn.functional.cross_entropy(net(xb), yb).backward()
                update.step()
        right.append((network_training.predict_logits(net, test.x, torch.device("cpu")).argmax(1) == test.y).mean())
    return float(np.mean(right))


def engine(train, data, test, split):
    fitted = train.fit(data, split, seed=0, observe=[test])
    return float((fitted.outputs[0].argmax(2) == test.y).mean()), fitted.engine


def timed(name, work, repeats=1):
    rows = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        accuracy, remark = result if isinstance(result, tuple) else (result, "")
        rows.append(Row(name, time.process_time() - cpu, time.perf_counter() - wall, accuracy))
    if remark:
        print(f"    {name}: {remark}")
    return min(rows, key=lambda row: row.cpu)


def table(title, rows, epochs, note=""):
    base = rows[0]
    print(f"\n{title}{note}")
    print(f"{'':28}{'CPU ms/model-epoch':>20}{'x DataLoader (CPU)':>20}{'wall s':>9}{'test acc.':>11}")
    for row in rows:
        print(
            f"{row.name:28}{1e3 * row.cpu / epochs:20.1f}{base.cpu / row.cpu:20.2f}{row.wall:9.2f}{row.accuracy:11.4f}"
        )


def in_process(title, make, other_make, count, data, test, epochs, batch_size=128):
    """Engines of one process: CPU time is theirs alone, the better of two runs."""
    train = Train(make, count, epochs=epochs, batch_size=batch_size, engine="serial", device="cpu")
    split = splits.online(len(data), count, 0, labels=data.y)
    for engine_name in ("serial", "stacked"):  # first calls pay for caches and kernels
        engine(replace(train, engine=engine_name, epochs=1), data, test, split)
    work = {
        "DataLoader loop": lambda: dataloader(train, data, test, split),
        "serial (tensors)": lambda: engine(train, data, test, split),
        "stacked": lambda: engine(replace(train, engine="stacked"), data, test, split),
        "auto": lambda: engine(replace(train, engine="auto", workers=1), data, test, split),
    }
    if other_make is not None:
        work["vmap"] = lambda: engine(replace(train, engine="stacked", make_model=other_make), data, test, split)
    rows = [timed(name, call, repeats=2) for name, call in work.items()]
    table(title, rows, count * epochs, f", batches of {batch_size}")
    best = min(row.cpu for row in rows[1:] if row.name != "auto")
    chosen = next(row.cpu for row in rows if row.name == "auto")
    print(f"    auto / best single engine: {chosen / best:.2f} (its trial included)")


def fan_out(count, data, test, epochs):
    """Two processes against one: work done per second of wall time, and CPU time the spreading costs."""
    split = splits.online(len(data), count, 0, labels=data.y)
    train = Train(mlp_net, count, epochs=epochs, engine="stacked", device="cpu", workers=2)
    one_process = timed("stacked, one process", lambda: engine(train, data, test, split))
    two = replace(train, engine="processes")
    timed("two processes, cold", lambda: engine(replace(two, epochs=1), data, test, split))
    pids = [int(pid) for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split()]
    before = sum(map(cpu_of, pids))
    warm = timed("two processes, warm", lambda: engine(two, data, test, split))
    spent = sum(map(cpu_of, pids)) - before
    print(f"\nFan-out, {count} MLPs, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"    one process {one_process.wall:.2f} s, two {warm.wall:.2f} s: speed-up {one_process.wall / warm.wall:.2f}"
    )
    print(f"    cores at work in the two processes: {spent / warm.wall:.2f}")
    print(f"    CPU seconds: one process {one_process.cpu:.2f}, two {spent:.2f} (+ {warm.cpu:.2f} in the parent)")


def forest(records, seed):
    return RandomForestClassifier(100, random_state=seed, n_jobs=1).fit(records.x, records.y)


def forests(count, data, test, turns=3):
    """Forests of scikit-learn: its own plain loop, `Custom` in one process, and in two; in turns, the best of each.

    Where others use the machine too, wall time says little of two processes. Nobody else's work is in CPU time: with
    two cores to themselves, they would take what the busier of the two takes, and the parent's own work.
    """
    flat, test_records = (dv.Records(part.x.reshape(len(part), -1), part.y) for part in (data, test))
    split = splits.online(len(flat), count, 0, labels=flat.y)
    in_process = Custom(forest, count, engine="serial")
    in_two = replace(in_process, engine="processes", workers=2)

    def loop_alone():
        for model in range(count):
            rows = split.members(model)
            forest(dv.Records(flat.x[rows], flat.y[rows]), model).predict_proba(test_records.x)

    in_two.fit(flat, split.trained_on[:count], seed=1, observe=[test_records])  # starts the processes
    pids = [int(pid) for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split()]
    best = {}
    for _ in range(turns):
        for name, work in {
            "scikit-learn, plain loop": loop_alone,
            "Custom, one process": lambda: in_process.fit(flat, split, seed=0, observe=[test_records]),
            "Custom, two processes": lambda: in_two.fit(flat, split, seed=0, observe=[test_records]),
        }.items():
            before, wall, cpu = [cpu_of(pid) for pid in pids], time.perf_counter(), time.process_time()
            work()
            parent_seconds, wall_seconds = time.process_time() - cpu, time.perf_counter() - wall
            worker_seconds = [cpu_of(pid) - spent for pid, spent in zip(pids, before, strict=True)]
            row = (
                parent_seconds + max(worker_seconds, default=0.0),
                parent_seconds + sum(worker_seconds),
                wall_seconds,
            )
            best[name] = min(best.get(name, row), row)
    base = best["Custom, one process"]
    print(f"\nForests, {count} of 100 trees on {int(split.trained_on[0].sum())} images, ", end="")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':28}{'CPU s':>9}{'alone, s':>10}{'speed-up':>10}{'wall s':>9}{'speed-up':>10}")
    for name, (ideal, cpu, wall) in best.items():
        print(f"{name:28}{cpu:9.2f}{ideal:10.2f}{base[0] / ideal:10.2f}{wall:9.2f}{base[2] / wall:10.2f}")


def cpu_of(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def on_ray(count, data, test, epochs):
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    split = splits.online(len(data), count, 0, labels=data.y)
    train = Train(mlp_net, count, epochs=epochs, engine="ray", device="cpu")
    timed("ray, cold", lambda: engine(replace(train, epochs=1), data, test, split))
    row = timed("ray, warm", lambda: engine(train, data, test, split))
    plain = timed("stacked", lambda: engine(replace(train, engine="stacked"), data, test, split))
    print(f"\nRay, {count} MLPs on 2 slots: {row.wall:.2f} s; one process stacked: {plain.wall:.2f} s")
    ray.shutdown()


def private_training(steps):
    """One private MLP 600-256-100, batches of 256, both ways."""
    rng = np.random.default_rng(0)
    n, batch = 256 * steps, 256
    data = network_training.TrainingData(
        torch.from_numpy((rng.random((n, 600)) < 0.2).astype(np.float32)), torch.from_numpy(rng.integers(0, 100, n))
    )

    def net():
        return nn.Sequential(nn.Linear(600, 256), nn.ReLU(), nn.Linear(256, 100))

    config = Train(net, 2, epochs=1, batch_size=batch, privacy=Private(1.0), device="cpu")
    rows = np.arange(n)
    spent = {}
    for name in ("ghost norms", "Opacus"):
        for warm in (True, False):
            module = network_training.build_network(net, 0).train()
            private_step = (
                private.GhostClipping(config, module, stacked.mlp_layers(module), 0) if name == "ghost norms" else None
            )
            step = private_step or private.OpacusClipping(config, module, n, 0)
            started = time.process_time()
            for batch_rows in private.poisson_batches(rows, 0, 0, 2 if warm else steps, batch):
                step(data.x[batch_rows], data.y[batch_rows], 0.02)
            spent[name] = (time.process_time() - started) / (2 if warm else steps)
    plain = Train(net, 2, epochs=1, batch_size=batch, device="cpu")
    started = time.process_time()
    network_training.train_by_sgd(plain, data, rows, 0)
    unprivate = (time.process_time() - started) / steps
    print("\nDP-SGD, MLP 600-256-100, 256 records per step, CPU ms per step")
    print(f"    Opacus {1e3 * spent['Opacus']:.1f}, ghost norms {1e3 * spent['ghost norms']:.1f}: ", end="")
    print(f"{spent['Opacus'] / spent['ghost norms']:.1f}x; the plain loop without privacy {1e3 * unprivate:.1f}")


def every_model_the_target(n):
    """LiRA with each of 64 models as the target once."""
    from divulge.attacks import LiRA
    from divulge.attacks.lira import leave_one_out

    rng = np.random.default_rng(0)
    signal, inside = rng.normal(size=(64, n)).astype(np.float32), rng.random((64, n)) < 0.5
    started = time.process_time()
    fast = leave_one_out(signal, inside)
    quick = time.process_time() - started
    started = time.process_time()
    slow = []
    for model in range(64):
        other_models = np.arange(64) != model
        evidence = dv.Evidence(target=signal[model], references=signal[other_models], trained_on=inside[other_models])
        slow.append(LiRA().score(evidence))
    naive = time.process_time() - started
    largest_gap = float(np.abs(fast - np.stack(slow)).max())
    print(
        f"\nLeave-one-out LiRA, 64 models x {n} records: naive loop {naive:.2f} s, sum subtraction {quick:.3f} s: ",
        end="",
    )
    print(f"{naive / quick:.1f}x, largest difference {largest_gap:.1e}")


def scale(models_count, n):
    """Signals of many linear models on many records, streamed to disk; LiRA and RMIA read them from there."""
    from divulge import signals
    from divulge.attacks import RMIA, LiRA

    def two_signals(logits, labels):
        classification = signals.classification
        return np.stack(
            [classification.scaled_logit(logits, labels), classification.confidence(logits, labels)], axis=1
        )

    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 20)).astype(np.float32)
    everyone = dv.Records(x, (x[:, 0] > 0).astype(int))
    trained_records, fresh_records = everyone[np.arange(2000)], everyone[np.arange(2000, 7000)]
    split = splits.online(2000, models_count, 0)
    train = Train(lambda: nn.Linear(20, 2), models_count, epochs=2, engine="stacked", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        fitted = train.fit(
            trained_records, split, seed=0, observe=[everyone, fresh_records], signal=two_signals, out=folder
        )
        print(f"\nScale: {models_count} linear models x {n} records: {time.process_time() - started:.1f} CPU s", end="")
        print(f", resident at most {peak():.0f} MB")
        inside = np.zeros((models_count, n), dtype=bool)
        inside[:, :2000] = fitted.trained_on
        logit, sure = ([part[:, :, k] for part in fitted.outputs] for k in (0, 1))
        started = time.process_time()
        LiRA().score(dv.Evidence(target=logit[0][0], references=logit[0], trained_on=inside))
        print(f"    LiRA {time.process_time() - started:.2f} CPU s, resident at most {peak():.0f} MB")
        evidence = dv.Evidence(
            target=sure[0][0],
            references=sure[0],
            trained_on=inside,
            population=sure[1][0],
            population_references=sure[1],
        )
        started = time.process_time()
        RMIA(gamma=1.0, offline_a=0.3).score(evidence)
        print(f"    RMIA {time.process_time() - started:.2f} CPU s, resident at most {peak():.0f} MB")


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_gpu(counts):
    """MLP and small ResNet, stacked against serial, on CUDA; CIFAR-100 where DIVULGE_DATA has it."""
    loaded = np.load(Path(os.environ["DIVULGE_DATA"], "cifar100_small.npz"))
    x = np.ascontiguousarray(loaded["x_train"].transpose(0, 3, 1, 2)) / np.float32(255)
    data = dv.Records(x, loaded["y_train"].astype(int))
    test = dv.Records(loaded["x_test"].transpose(0, 3, 1, 2) / np.float32(255), loaded["y_test"].astype(int))

    def wide():
        return nn.Sequential(nn.Flatten(), nn.Linear(3072, 512), nn.ReLU(), nn.Linear(512, 100))

    for name, make in (("MLP 3072-512-100", wide), ("small ResNet", resnet)):
        for count in counts:
            split = splits.online(len(data), count, 0, labels=data.y)
            for engine_name in ("serial", "stacked"):
                train = Train(make, count, epochs=5, engine=engine_name, device="cuda")
                engine(replace(train, epochs=1), data, test, split)
                row = timed(engine_name, lambda train=train, split=split: engine(train, data, test, split))
                print(
                    f"{name}, {count} models, {engine_name}: {count / row.wall:.2f} models/s, "
                    f"accuracy {row.accuracy:.3f}"
                )


def in_process_parts(options, counts, data, test, epochs):
    for count in counts if "mlp" not in options.skip else ():
        for size in (32, 64, 128) if count == counts[0] else (128,):
            in_process(f"{count} MLPs 784-256-10", mlp_net, mlp_plain, count, data, test, epochs, size)
    for count in counts if "cnn" not in options.skip else ():
        in_process(f"{count} CNNs", cnn_net, cnn_plain, count, data, test, 3 if count == counts[0] else 1)


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--quick", action="store_true")
    parse.add_argument("--models", type=int, nargs="+", default=[16, 64])
    parse.add_argument("--skip", nargs="*", default=[])
    parse.add_argument("--device", default="auto")
    options = parse.parse_args()
    records, epochs = (2000, 5) if options.quick else (4000, 10)
    counts = [8] if options.quick else options.models
    data, test = images(records)
    in_process_parts(options, counts, data, test, epochs)
    if "processes" not in options.skip:
        fan_out(max(counts), data, test, epochs)
    if "forests" not in options.skip:
        forests(8 if options.quick else 16, data, test)
    if "ray" not in options.skip:
        on_ray(max(counts), data, test, epochs)
    if "dp" not in options.skip:
        private_training(4 if options.quick else 20)
    if "lira" not in options.skip:
        every_model_the_target(5_000 if options.quick else 50_000)
    if "scale" not in options.skip:
        scale(8 if options.quick else 64, 20_000 if options.quick else 500_000)
    if torch.cuda.is_available() and options.device != "cpu":
        on_gpu(counts)
    print(f"\nresident at most: {peak():.0f} MB")


if __name__ == "__main__":
    main()
