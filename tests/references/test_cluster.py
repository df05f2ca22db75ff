"""The Ray engine on a cluster of two local nodes, with real kills."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge import InputError, user_code
from divulge.errors import UserCodeError
from divulge.references import Custom, Train

ray = pytest.importorskip("ray", reason="the engine for many machines comes with the extra ray")

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes of one slot each, in a folder of their own; only what is started here is stopped."""
    import tempfile

    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="dv-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)  # sockets need a short path
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        Path(folder, "ray").mkdir()
        small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
        soon = {"health_check_period_ms": 500, "health_check_initial_delay_ms": 500}  # that a node is gone
        result = Cluster(initialize_head=True, head_node_args={**small, "_system_config": soon})
        result.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        ray.init(address=result.address, log_to_driver=False)
        try:
            yield result
        finally:
            ray.shutdown()
            for node in list(result.worker_nodes):  # Ray waits ten seconds for each that it asks to end
                result.remove_node(node, allow_graceful=False)
            result.shutdown()


def test_ray_equals_stacked(fit, networks, cluster, tmp_path):
    train = Train(networks.mlp, 4, epochs=2, engine="ray")
    references = fit(train, pool=tmp_path)
    assert references.engine.startswith("ray, stacked in each task")
    assert (references.outputs[0] == fit(replace(train, engine="stacked")).outputs[0]).all()
    assert fit(train, pool=tmp_path).reused == 4


def test_a_device_that_no_node_has_is_refused_before_work_starts(fit, networks, cluster):
    for name in ("mlp", "cnn"):
        with pytest.raises(InputError, match=r"device: 'cuda' is wanted, and no node of the cluster has a GPU"):
            fit(Train(getattr(networks, name), 2, epochs=1, device="cuda", engine="ray"))


def test_ray_fine_tunes_as_one_process_does(cluster):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    import divulge as dv
    from divulge.targets import CausalLM

    torch.manual_seed(0)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "a": 1, "b": 2}, "<s>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    small = transformers.GPT2Config(vocab_size=3, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    model = transformers.GPT2LMHeadModel(small)
    base = CausalLM(model, transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>"), bos="add")
    documents = dv.Records(np.array(["a b a", "b b", "a a b b", "b a"], dtype=object))
    halves = np.array([[1, 1, 0, 0], [0, 1, 1, 0]], bool)
    tuning = dv.references.FineTune(base, 2, 2, engine="ray", device="cpu")
    spread = tuning.fit(documents, halves, seed=0, observe=[documents])
    in_one_process = replace(tuning, engine="serial").fit(documents, halves, seed=0, observe=[documents])
    assert (spread.outputs[0] == in_one_process.outputs[0]).all()


def test_a_killed_worker_is_replaced(fit, cluster, tmp_path):
    def deadly(records, seed):
        import pathlib

        mark = pathlib.Path(folder) / "mark"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        weights = np.random.default_rng(seed).normal(size=(36, 4))
        return lambda x: x.reshape(len(x), -1) @ weights

    folder = str(tmp_path)
    references = fit(Custom(deadly, 3, engine="ray"))
    assert (tmp_path / "mark").exists()
    assert (references.outputs[0] == fit(Custom(deadly, 3)).outputs[0]).all()


def test_a_node_that_goes_away_takes_nothing_with_it(fit, cluster, tmp_path):
    """Every task waits until the third node, which is training some, has been killed."""
    before = {node["NodeID"] for node in ray.nodes()}
    node = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    (victim,) = {node["NodeID"] for node in ray.nodes()} - before
    folder = str(tmp_path)

    def patient(records, seed):
        import pathlib
        import time

        signals_folder = pathlib.Path(folder)
        (signals_folder / f"{ray.get_runtime_context().get_node_id()}-{seed}").touch()
        while not (signals_folder / "gone").exists():
            time.sleep(0.05)
        weights = np.random.default_rng(seed).normal(size=(36, 4))
        return lambda x: x.reshape(len(x), -1) @ weights

    def kill():
        while not list(tmp_path.glob(f"{victim}-*")):
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        (tmp_path / "gone").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    references = fit(Custom(patient, 6, engine="ray"))
    killer.join()
    lost = {mark.name.split("-")[1] for mark in tmp_path.glob(f"{victim}-*")}
    repeated = {mark.name.split("-")[1] for mark in tmp_path.glob("*-*") if not mark.name.startswith(victim)}
    assert lost <= repeated
    assert len(references) == 6
    assert (references.outputs[0] == fit(Custom(patient, 6)).outputs[0]).all()


def _node_of_training(folder):
    def train(records, seed):
        import pathlib
        import time

        (pathlib.Path(folder) / f"{ray.get_runtime_context().get_node_id()}-{seed}").touch()
        time.sleep(0.3)  # so that both nodes get some
        weights = np.random.default_rng(seed).normal(size=(36, 4))
        return lambda x: x.reshape(len(x), -1) @ weights

    return train


@pytest.fixture(scope="module")
def gpu_node(cluster):
    """A third node, with one GPU by name alone; it stays, as a node takes long to start."""
    before = {node["NodeID"] for node in ray.nodes()}
    cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    (name,) = {node["NodeID"] for node in ray.nodes()} - before
    return name


def _names_of_nodes(folder):
    return {mark.name.split("-")[0] for mark in folder.iterdir()}


def test_a_gpu_in_the_cluster_is_for_those_that_use_it(fit, networks, gpu_node, tmp_path):
    (tmp_path / "any").mkdir(), (tmp_path / "gpu").mkdir()
    anywhere = fit(Custom(_node_of_training(tmp_path / "any"), 8, engine="ray"))
    assert len(_names_of_nodes(tmp_path / "any")) > 1
    quarters = Custom(_node_of_training(tmp_path / "gpu"), 4, engine="ray", gpus=0.25)
    fit(quarters)
    assert _names_of_nodes(tmp_path / "gpu") == {gpu_node}
    assert len(anywhere) == 8
    train = Train(networks.mlp, 4, epochs=1, engine="ray")
    assert (fit(train).outputs[0] == fit(replace(train, gpus=0)).outputs[0]).all()
    with pytest.raises(InputError, match=r"gpus: 2 are wanted.* more than 1"):
        fit(replace(quarters, gpus=2))


def test_a_node_whose_gpu_is_a_name_alone_says_so(fit, networks, gpu_node):
    for name in ("mlp", "cnn"):
        with pytest.raises(InputError, match=r"device: 'cuda' cannot be used here .* here: the Ray node"):
            fit(Train(getattr(networks, name), 2, epochs=1, device="cuda", engine="ray"))


# A module that is read on a node before anything else, and gives that node a device ``cuda``: what is put there stays
# on the CPU. In the process of the test it gives none.
_FAKE_CUDA = """
import os

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

HERE = os.environ.get("DRIVER_OF_TEST") == str(os.getpid())


class Cuda(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        def stay(value):
            return "cpu" if isinstance(value, str | torch.device) and str(value).startswith("cuda") else value

        kwargs = {key: stay(value) if key == "device" else value for key, value in (kwargs or {}).items()}
        return function(*map(stay, args), **kwargs)


if not HERE:
    Cuda().__enter__()


def cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4))
"""


def test_a_device_that_only_nodes_have_is_used_there(fit, gpu_node, tmp_path, monkeypatch):
    """The caller has no CUDA: it asks for no trial of its own, and what it takes from the pool it asks on the CPU."""
    monkeypatch.setenv("DRIVER_OF_TEST", str(os.getpid()))
    (tmp_path / "makes_networks.py").write_text(_FAKE_CUDA)
    monkeypatch.setitem(sys.modules, "makes_networks", None)  # so that no later task reads it
    monkeypatch.delitem(sys.modules, "makes_networks")
    for name in ("mlp", "cnn"):
        make_model = user_code.import_object(f"makes_networks:{name}", "make_model", tmp_path).value
        train, pool = Train(make_model, 4, epochs=2, device="cuda", engine="ray"), tmp_path / name
        with pytest.raises(InputError, match="device: 'cuda' cannot be used here"):
            fit(replace(train, engine="serial"))
        pool.mkdir()
        trained = fit(train, pool=pool)
        inner = trained.engine.split()[1].rstrip(",")
        assert (trained.outputs[0] == fit(replace(train, engine=inner, device="cpu")).outputs[0]).all()
        restored = fit(train, pool=pool)
        assert restored.reused == 4
        np.testing.assert_allclose(restored.outputs[0], trained.outputs[0], atol=1e-5)


def test_what_users_code_raises_is_said_as_without_a_cluster(fit, cluster):
    def broken(records, seed):
        raise ValueError("no such column: age")

    messages = []
    for engine in ("serial", "ray"):
        with pytest.raises(UserCodeError) as raised:
            fit(Custom(broken, 2, engine=engine))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert "age" in messages[0]


def test_what_still_runs_is_cancelled_at_an_interruption(fit, cluster, tmp_path):
    def long(records, seed):
        import pathlib
        import time

        for _ in range(600):
            (pathlib.Path(folder) / f"{seed}").touch()
            time.sleep(0.1)

    def interrupt():
        while not list(tmp_path.iterdir()):
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    folder = str(tmp_path)
    interrupter = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of a parallel test run ignore it
    try:
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            fit(Custom(long, 2, engine="ray"))
    finally:
        interrupter.join()
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for mark in tmp_path.iterdir():
            mark.unlink()
        time.sleep(0.5)
        if not list(tmp_path.iterdir()):
            return
    pytest.fail("tasks go on after the interruption; cancel them where the engine ends")


@pytest.fixture(scope="module")
def large_pool(tmp_path_factory):
    """Files with 147 MiB of records, which do not fit into the object store of a node."""
    import polars as pl

    folder, width = tmp_path_factory.mktemp("pool"), 128
    for number in range(10):
        rng = np.random.default_rng(number)
        x = rng.normal(size=(30_000, width)).astype(np.float32)
        frame = pl.DataFrame({f"c{i}": x[:, i] for i in range(width)} | {"y": (x[:, 0] > 0).astype(int)})
        frame.write_parquet(folder / f"part-{number}.parquet", row_group_size=10_000)
    return folder


def _train_on_sums(records, seed):
    weights = np.stack([records.x[records.y == label].sum(axis=0, dtype=np.float64) for label in (0, 1)], axis=1)
    return lambda x: x @ weights + np.random.default_rng(seed).normal()


def _memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read from Linux")
def test_records_in_files_are_read_on_the_nodes_and_not_by_the_caller(cluster, large_pool):
    from divulge.references import scan_records, splits

    source = scan_records(large_pool, label="y")
    halves, observed = splits.offline(len(source), 4, 0), source[np.arange(50)]
    by_value = Custom(_train_on_sums, 4, engine="ray")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _memory("VmRSS")
    spread = by_value.fit(source, halves, seed=0, observe=[observed])
    added = _memory("VmHWM") - before
    assert added < 75, f"the caller held {added:.0f} MiB of a pool of 73 MiB a model; let tasks read their own rows"
    whole = source[np.arange(len(source))]
    in_memory = Custom(_train_on_sums, 4).fit(whole, halves, seed=0, observe=[observed])
    assert (spread.outputs[0] == in_memory.outputs[0]).all()


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_ray_dataset_is_read_in_its_blocks(cluster, tmp_path):
    import polars as pl

    from divulge.references import scan_records, splits

    data = pytest.importorskip("ray.data")
    x = np.random.default_rng(0).normal(size=(400, 3))
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": (x[:, 0] > 0).astype(int)})
    dataset = data.from_arrow([frame[start : start + 100].to_arrow() for start in range(0, 400, 100)])
    source = scan_records(dataset, label="y", columns=["a", "b", "c"])
    assert repr(source) == "RecordSource(n=400, shape=(3,), parts=4)"
    import divulge as dv

    expected = dv.Records(x, (x[:, 0] > 0).astype(int))
    assert (source[np.arange(400)].x == expected.x).all()
    halves = splits.online(400, 4, 0)
    trainings = [Custom(_train_on_sums, 4, engine=engine) for engine in ("ray", "serial")]
    outputs = [
        training.fit(records, halves, seed=0, observe=[expected[:20]], pool=pool).outputs[0]
        for training, records, pool in zip(trainings, (source, expected), (tmp_path / "models", None), strict=True)
    ]
    assert (outputs[0] == outputs[1]).all()


def test_a_file_that_a_node_cannot_read_is_named(cluster, tmp_path):
    import polars as pl

    from divulge.references import scan_records

    for number in range(2):
        pl.DataFrame({"a": [0.5, 1.5], "y": [0, 1]}).write_parquet(tmp_path / f"{number}.parquet")
    source = scan_records(tmp_path, label="y")
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(InputError, match=r"1\.parquet: no such file.* on every node"):
        Custom(_train_on_sums, 2, engine="ray").fit(source, np.array([[1, 1, 0, 0], [0, 0, 1, 1]], bool), seed=0)


def test_a_cluster_that_was_there_stays(cluster):
    assert ray.is_initialized()
