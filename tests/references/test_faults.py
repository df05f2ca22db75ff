"""Crashes, divergence and bad input, with real processes."""

import importlib.util
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import divulge as dv
from divulge.references import Custom, Train, engines

RUN = """
import signal, sys
from pathlib import Path
import numpy as np, torch
import divulge as dv
from divulge.references import Train, splits

class Halting(torch.nn.Sequential):
    pool = None

    def forward(self, x):
        if self.pool and len(list(Path(self.pool).glob("*.json"))) == 2:
            print("at work", flush=True)
            signal.pause()
        return super().forward(x)

def make():
    return Halting(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

rng = np.random.default_rng(0)
records = dv.Records(rng.normal(size=(60, 6)), np.arange(60) % 3)
train = Train(make, 6, epochs=4, batch_size=16, engine="serial")

def run(pool):
    return train.fit(records, splits.online(60, 6, 0), seed=0, observe=[records], pool=pool)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    Halting.pool = sys.argv[1]
    run(sys.argv[1])
"""


def start(tmp_path, pool):
    script = tmp_path / "run.py"
    script.write_text(RUN)
    environment = os.environ | {"PYTHONPATH": str(Path(dv.__file__).parents[1])}
    command = [sys.executable, str(script), str(pool)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def loaded(path):
    """The script as a module of this process; its source can be found, as pool keys need it."""
    spec = importlib.util.spec_from_file_location("killed_run", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["killed_run"] = module
    spec.loader.exec_module(module)
    return module


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    """The run says when two networks are stored, and waits in the middle of the third; of kill -9 the audits tell."""
    pool = tmp_path / "pool"
    victim = start(tmp_path, pool)
    assert "at work\n" in iter(victim.stdout.readline, "")
    victim.send_signal(signal.SIGINT)
    _, errors = victim.communicate(timeout=60)
    assert victim.returncode != 0
    assert "the same call resumes" in errors

    assert len(list(pool.glob("*.json"))) == 2
    same = loaded(tmp_path / "run.py")
    resumed, uninterrupted = (same.run(folder) for folder in (pool, tmp_path / "other"))
    assert (resumed.reused, uninterrupted.reused) == (2, 0)
    assert (resumed.outputs[0] == uninterrupted.outputs[0]).all()


def test_a_killed_worker_is_replaced_and_nothing_is_lost(fit, tmp_path):
    def deadly(records, seed):
        """Kills its own process the first time that any model is trained."""
        import os
        import signal

        if not (tmp_path / "mark").exists():
            (tmp_path / "mark").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        weights = np.random.default_rng(seed).normal(size=(36, 4))
        return lambda x: x.reshape(len(x), -1) @ weights

    references = fit(Custom(deadly, 4, engine="processes", workers=2))
    assert (tmp_path / "mark").exists()
    assert (references.outputs[0] == fit(Custom(deadly, 4)).outputs[0]).all()


def test_workers_that_always_die_are_reported(fit, monkeypatch):
    """Also where a single model is left, which is trained in no process of its own by default."""
    monkeypatch.setattr(engines, "MAX_RESTARTS", 2)

    def deadly(records, seed):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(dv.InputError, match="killed 2 times in a row"):
        fit(Custom(deadly, 1, engine="processes", workers=2))


def explosive(chance_of_seed):
    """Networks whose weights are infinite for some seeds."""

    def make(seed):
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 4))
        if chance_of_seed(seed):
            net[1].weight.data.fill_(float("inf"))
        return net

    return make


@pytest.mark.parametrize("engine", ["serial", "stacked"])
def test_a_model_that_diverges_gets_a_second_seed(fit, engine):
    bad = dv.seeds.derive_seed(0, "references", "model", 1)
    references = fit(Train(explosive(lambda seed: seed == bad), 3, epochs=2, engine=engine))
    assert len(references) == 3
    assert np.isfinite(references.outputs[0]).all()
    assert references.warnings == (f"model 1: its loss or its outputs became NaN or infinite (seed {bad})",)


def test_a_model_that_diverges_twice_is_left_out(fit, tmp_path):
    bad = {dv.seeds.derive_seed(0, "references", stream, 1) for stream in ("model", "retry")}
    train = Train(explosive(lambda seed: seed in bad), 4, epochs=2, engine="serial")
    references = fit(train, out=tmp_path)
    undisturbed = fit(replace(train, make_model=explosive(lambda seed: False)))
    assert len(references) == 3
    assert "left out" in references.warnings[-1]
    assert (np.asarray(references.outputs[0]) == undisturbed.outputs[0][[0, 2, 3]]).all()
    assert (references.trained_on == undisturbed.trained_on[[0, 2, 3]]).all()


def test_when_every_model_diverges_the_error_says_so(fit, networks):
    with pytest.raises(dv.InputError, match="none of the 2 models could be trained"):
        fit(Train(networks.mlp, 2, epochs=2, lr=1e38))


def test_a_stack_too_large_for_memory_is_halved(fit, networks, records):
    class Tight:
        """A device with room for two networks: the third to begin a stack finds the memory full."""

        def __init__(self):
            self.begun, self.room, self.refused = set(), 2, 0

        def __call__(self, x, generator):
            if generator.initial_seed() in self.begun:
                self.room = 2
                return x
            self.begun.add(generator.initial_seed())
            self.room -= 1
            if self.room < 0:
                self.begun, self.room, self.refused = set(), 2, self.refused + 1
                raise torch.OutOfMemoryError
            return x

    tight = Tight()
    even = records[np.arange(200)]
    references = fit(Train(networks.mlp, 4, epochs=2, engine="stacked", augment=tight), data=even)
    assert tight.refused == 1
    assert (
        references.outputs[0] == fit(Train(networks.mlp, 4, epochs=2, engine="stacked"), data=even).outputs[0]
    ).all()


BAD = {
    "count < 1": (lambda r, n: Train(n.mlp, 0), "count: must be at least 1, got 0"),
    "optimizer": (lambda r, n: Train(n.mlp, optimizer="sdg"), "did you mean 'sgd'"),
    "no function": (lambda r, n: go(r, Train(None)), "make_model: a function"),
    "a model, not a function": (lambda r, n: Train(n.mlp()), "make_model: a function"),
    "custom stacked": (lambda r, n: Custom(lambda r, s: None, engine="stacked"), "engine: 'stacked' is unknown"),
    "device": (lambda r, n: go(r, Train(n.mlp, 2, device="gpu")), "device: "),
    "fewer records than classes": (
        lambda r, n: go(dv.Records(r.x[:3], [0, 1, 3]), Train(n.mlp, 2), classes=None),
        "at least as many as classes",
    ),
    "output width": (lambda r, n: go(r, Train(n.mlp, 2), classes=5), "5 outputs are needed .* got shape"),
    "records that do not fit": (lambda r, n: go(flat(r), Train(n.cnn, 2)), "cannot take records of shape"),
    "no labels": (lambda r, n: go(dv.Records(r.x), Train(n.mlp, 2)), "labels are needed to train on"),
    "one class": (lambda r, n: go(dv.Records(r.x, 0 * r.y), Train(n.mlp, 2), classes=None), "at least 2 classes"),
    "label outside": (lambda r, n: go(r, Train(n.mlp, 2), classes=3), "labels must be below 3"),
    "rows of splits": (lambda r, n: Train(n.mlp, 2).fit(r, np.ones((3, 203), bool), seed=0), "splits: 2 rows"),
    "columns of splits": (lambda r, n: Train(n.mlp, 2).fit(r, np.ones((2, 20), bool), seed=0), "splits: 203 columns"),
    "dropout stacked": (lambda r, n: go(r, Train(n.dropout, 2, engine="stacked")), "cannot train this network"),
    "no network": (lambda r, n: go(r, Train(lambda: 3, 2)), "a torch.nn.Module with parameters is needed, got int"),
    "bad target": (lambda r, n: go(r, Custom(lambda some, seed: 3, 2)), "target: int is neither"),
}


def go(records, train, classes=4):
    splits = np.ones((train.count, len(records)), dtype=bool)
    return train.fit(records, splits, seed=0, observe=[records], classes=classes)


def flat(records):
    return dv.Records(records.x.reshape(len(records), -1), records.y)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(records, networks, case):
    call, message = BAD[case]
    with pytest.raises(dv.InputError, match=message):
        call(records, networks)
