"""Scoring on a local Ray cluster of two nodes."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from divulge.signals import tokens as signals
from divulge.targets.language_models import CausalLM

pytest.importorskip("ray")

TEXTS = [f"the fox of {i} jumps over a lazy dog" for i in range(60)]

# In a process of its own: Ray leaves threads and sockets behind that this suite would take for leaks.
SCRIPT = """
import json, sys
from functools import partial
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from divulge.identification import document_scoring
from divulge.results import to_json_values

folder = Path(sys.argv[1])


class CountsThreads:
    def __init__(self):
        self.target = document_scoring.load_target(str(folder / "model"), None, device="cpu")
        self.key = self.target.key

    def tokens(self, *arguments, **options):
        import torch

        (folder / f"threads-{torch.get_num_threads()}").touch()
        return self.target.tokens(*arguments, **options)


nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False})
nodes.add_node(num_cpus=3)
ray.init(address=nodes.address, logging_level="ERROR")
seen = []
run = partial(
    document_scoring.score_on_ray,
    [folder / "t.parquet"],
    CountsThreads,
    folder / "out",
    document_scoring.ScoringOptions(shard=10),
)
first = run(progress=lambda *at: seen.append(at))
second = run(overwrite=True)
print(json.dumps([len(ray.nodes()), to_json_values(first), seen[-1], to_json_values(second)]))
ray.shutdown()
nodes.shutdown()
"""


@pytest.mark.ray
def test_a_cluster_of_two_nodes_gives_what_one_machine_gives(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "t.parquet")
    process = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=500)
    assert process.returncode == 0, process.stderr[-3000:]
    nodes, first_summary, last_progress, second_summary = json.loads(process.stdout.splitlines()[-1])
    assert nodes == 2
    assert [mark.name for mark in tmp_path.glob("threads-*")] == ["threads-3"]
    assert first_summary["documents"] == 60
    assert first_summary["resumed"] == 0
    assert last_progress == [60, 60]
    assert second_summary["resumed"] == 60
    documents = pl.read_parquet(tmp_path / "out" / "documents")
    assert documents["text"].to_list() == TEXTS
    want = signals.log_likelihood(CausalLM(model, tokenizer).tokens(TEXTS))
    assert np.allclose(documents["log_likelihood"].to_numpy(), want, atol=1e-5)
