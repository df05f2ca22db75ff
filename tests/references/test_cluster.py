"""The Ray engine on a cluster of two local nodes, with real kills."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge.references import Custom, Train

ray = pytest.importorskip("ray", reason="the engine for many machines comes with divulge[ray]")

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
        result = Cluster(initialize_head=True, head_node_args=small)
        result.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        ray.init(address=result.address, log_to_driver=False)
        try:
            yield result
        finally:
            ray.shutdown()
            result.shutdown()


def test_ray_equals_stacked(fit, networks, cluster, tmp_path):
    train = Train(networks.mlp, 4, epochs=2, engine="ray")
    references = fit(train, pool=tmp_path)
    assert references.engine.startswith("ray, stacked in each task")
    assert (references.outputs[0] == fit(replace(train, engine="stacked")).outputs[0]).all()
    assert fit(train, pool=tmp_path).reused == 4


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


def test_a_cluster_that_was_there_stays(cluster):
    assert ray.is_initialized()
