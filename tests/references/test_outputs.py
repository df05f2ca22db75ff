"""What is kept of models: in memory, on disk, whole or reduced."""

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import divulge as dv
from divulge import references, signals
from divulge.references import Train, jobs
from divulge.references.progress import describe_progress


def test_outputs_on_disk_equal_outputs_in_memory(fit, networks, records, tmp_path):
    observe = [records, records[np.arange(7)]]
    train = Train(networks.mlp, 3, epochs=2)
    in_memory, filed = fit(train, observe=observe), fit(train, observe=observe, out=tmp_path)
    assert [a.shape for a in filed.outputs] == [(3, 203, 4), (3, 7, 4)]
    for output, on_disk in zip(in_memory.outputs, filed.outputs, strict=True):
        assert isinstance(on_disk, np.memmap)
        assert (output == on_disk).all()


def test_signals_are_taken_while_the_model_is_in_memory(fit, networks, records, monkeypatch):
    train = Train(networks.mlp, 3, epochs=2)
    logits = fit(train).outputs[0]
    expected = np.stack([signals.classification.scaled_logit(row, records.y) for row in logits])
    monkeypatch.setattr(jobs, "QUERY_CHUNK", 50)  # 203 records in five chunks
    outputs = fit(train, signal=signals.classification.scaled_logit).outputs[0]
    assert outputs.shape == (3, 203)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-5)


def test_a_signal_that_is_no_function_is_refused_before_training(fit, networks):
    with pytest.raises(dv.InputError, match="signal: a function is needed, got 'scaled-logit'"):
        fit(Train(networks.mlp, 2, epochs=1), signal="scaled-logit")


def test_arrays_without_labels_may_be_observed(fit, networks, records):
    assert fit(Train(networks.mlp, 2, epochs=1), observe=[records.x[:5]]).outputs[0].shape == (2, 5, 4)
    assert fit(Train(networks.mlp, 2, epochs=1), observe=()).outputs == ()


@pytest.mark.parametrize("missing", [(), (0,), (1, 3), (2,)])
def test_rows_of_missing_models_close_up(tmp_path, missing):
    for folder in (None, tmp_path):
        sheets = jobs.OutputStore(4, folder)
        for model in (3, 0, 2, 1):
            if model not in missing:
                sheets.write(model, [np.full((5, 2), model, dtype=np.float32)])
        remaining_models = [model for model in range(4) if model not in missing]
        assert np.asarray(sheets.read()[0])[:, 0, 0].tolist() == remaining_models


def test_signals_of_many_models_on_many_records_need_little_memory(tmp_path):
    """32 linear models, 300,000 records: the table is 38 MB on disk and never in memory."""
    script = textwrap.dedent("""
        import resource, sys
        import numpy as np, torch
        import divulge as dv
        from divulge import references, signals

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

        rng = np.random.default_rng(0)
        x = rng.normal(size=(300_000, 8)).astype(np.float32)
        records = dv.Records(x, (x[:, 0] > 0).astype(int))
        some = records[np.arange(256)]
        train = references.Train(lambda: torch.nn.Linear(8, 2), 32, epochs=1, engine="stacked")
        split = references.splits.online(256, 32, 0)
        signal = signals.classification.scaled_logit
        train.fit(some, split, seed=0, observe=[records[np.arange(20_000)]], signal=signal)
        before = peak()
        found = train.fit(some, split, seed=0, observe=[records], signal=signal, out=sys.argv[1])
        assert found.outputs[0].shape == (32, 300_000)
        print(peak() - before)
    """)
    environment = os.environ | {"PYTHONPATH": str(Path(dv.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert float(process.stdout) < 25, process.stdout


def test_progress_counts_models_and_tells_the_pace(fit, networks):
    progress_calls = []
    fit(
        Train(networks.mlp, 3, epochs=4, engine="serial"),
        progress=lambda n_done, total, note: progress_calls.append((n_done, total, note)),
    )
    assert progress_calls[0] == (0.25, 3, "serial")
    assert progress_calls[-1][0] == 3
    assert [n_done for n_done, *_ in progress_calls] == sorted(n_done for n_done, *_ in progress_calls)


@pytest.mark.parametrize(
    ("completed", "seconds", "before", "expected"),
    [
        (5, 120.0, 1, "5 of 16 models, 2.0 a minute, 6 min left"),  # 11 at 30 s
        (1, 10.0, 1, "1 of 16 models"),
        (0.5, 10.0, 1, "0 of 16 models"),
        (2, 0.0, 0, "2 of 16 models"),
        (16, 60.0, 0, "16 of 16 models"),
        (15, 1345.0, 0, "15 of 16 models, 0.7 a minute, 90 s left"),
        (15, 1350.0, 0, "15 of 16 models, 0.7 a minute, 2 min left"),
        (2.999_999_999_9, 30.0, 0, "3 of 16 models, 6.0 a minute, 2 min left"),
    ],
)
def test_the_pace_is_that_of_new_models_alone(completed, seconds, before, expected):
    assert describe_progress(completed, 16, seconds, before) == expected


def test_a_log_file_gets_lines_not_a_bar():
    log = io.StringIO()
    with references.Bar("models", every=0.0, stream=log) as bar:
        bar(1.0, 4, "serial")
        bar(4.0, 4, "serial")
    lines = log.getvalue().splitlines()
    assert lines[-1].startswith("models: ")
    assert "(serial)" in lines[-1]
    assert "\x1b" not in log.getvalue()


def test_one_target(records, networks):
    target = references.train_one(networks.mlp, records, seed=0, epochs=40, lr=0.05)
    repeat = references.train_one(networks.mlp, records, seed=0, epochs=40, lr=0.05)
    logits = dv.targets.adapt(target).logits(records)
    assert (logits.argmax(axis=1) == records.y).mean() > 0.9
    assert (logits == dv.targets.adapt(repeat).logits(records)).all()
    with pytest.raises(dv.InputError, match="lr: the loss became NaN"):
        references.train_one(networks.mlp, records, seed=0, lr=1e38)


def test_importing_references_needs_no_torch():
    script = "import sys; from divulge import references; references.Train(print); sys.exit('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(Path(dv.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0


class TestLazyModules:
    """Networks whose layers take their shapes from the records."""

    @staticmethod
    def lazy(width=8):
        return torch.nn.Sequential(torch.nn.LazyLinear(width), torch.nn.ReLU(), torch.nn.LazyLinear(2))

    @pytest.mark.parametrize("engine", ["serial", "stacked", "auto"])
    def test_they_are_trained_as_others_and_kept_in_the_pool(self, engine, tmp_path):
        rng = np.random.default_rng(0)
        records = dv.Records(rng.normal(size=(40, 3)), np.arange(40) % 2)
        training = Train(self.lazy, count=2, epochs=1, engine=engine, device="cpu")
        rows = np.arange(40) % 4 < np.array([[2], [3]])
        trained, reused = (training.fit(records, rows, seed=0, observe=(records,), pool=tmp_path) for _ in range(2))
        assert reused.reused == 2
        assert trained.outputs[0].shape == (2, 40, 2)
        assert np.array_equal(trained.outputs[0], reused.outputs[0])
        assert not np.array_equal(trained.outputs[0][0], trained.outputs[0][1])
        assert isinstance(training.train_model(records, seed=0), torch.nn.Module)

    def test_records_that_they_cannot_take_are_refused(self):
        records = dv.Records(np.zeros((4, 3)) + np.arange(4)[:, None], np.arange(4) % 2)
        training = Train(
            lambda: torch.nn.Sequential(torch.nn.LazyConv2d(2, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
        )
        with pytest.raises(dv.InputError, match=r"make_model: the network cannot take records of shape \(3,\)"):
            training.train_model(records, seed=0)
