"""Different engines, the same models."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import divulge as dv
from divulge import networks
from divulge.references import Custom, Train, engines, network_learner

SETTINGS = {
    "sgd": {},
    "adam": {"optimizer": "adam", "schedule": "cosine", "weight_decay": 1e-3},
    "adamw": {"optimizer": "adamw", "schedule": lambda done: 1.0 - 0.5 * done},
    "decay": {"weight_decay": 1e-2, "schedule": "linear", "momentum": 0.5},
}


def noisy(x, generator):
    return x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)


@pytest.mark.parametrize(
    ("network", "settings"), [("mlp", "sgd"), ("cnn", "adam"), ("mlp", "adamw"), ("cnn", "decay"), ("mlp", "adam")]
)
def test_stacked_equals_serial(fit, networks, network, settings):
    train = Train(getattr(networks, network), 5, epochs=2, batch_size=32, precision="double", **SETTINGS[settings])
    serial, stacked = (fit(replace(train, engine=engine)).outputs[0] for engine in ("serial", "stacked"))
    assert serial.shape == (5, 203, 4)
    assert np.abs(serial - stacked).max() <= 1e-8


@pytest.mark.parametrize("network", ["linear", "mlp", "cnn", "own"])
def test_stacked_equals_serial_in_single_precision(fit, networks, network):
    serial, stacked = (
        fit(Train(getattr(networks, network), 5, epochs=2, engine=engine)).outputs[0]
        for engine in ("serial", "stacked")
    )
    assert np.abs(serial - stacked).max() <= 2e-5 * np.abs(serial).max()


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_stacked_equals_serial_with_augmentation_and_early_stop(fit, networks, network):
    train = Train(
        getattr(networks, network), 4, epochs=12, batch_size=32, precision="double", augment=noisy, stop_at_accuracy=0.6
    )
    serial, stacked = (fit(replace(train, engine=engine)).outputs[0] for engine in ("serial", "stacked"))
    unstopped = fit(replace(train, engine="serial", stop_at_accuracy=None)).outputs[0]
    assert np.abs(serial - stacked).max() <= 1e-8
    assert np.abs(serial - unstopped).max() > 1e-3


class OwnLinear(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def odd_network(oddity):
    """A small network whose backward pass is not that of a plain MLP, though its layers are."""

    def make():
        first, last = torch.nn.Linear(36, 36), torch.nn.Linear(36, 4)
        inner = {
            "two activations": [first, torch.nn.ReLU(), torch.nn.Tanh()],
            "a subclass": [OwnLinear(36, 36), torch.nn.ReLU()],
            "a frozen bias": [first, torch.nn.Tanh()],
            "no activation": [first],
        }[oddity]
        if oddity == "a frozen bias":
            first.bias.requires_grad_(requires_grad=False)
        return torch.nn.Sequential(torch.nn.Flatten(), *inner, last)

    return make


@pytest.mark.parametrize("oddity", ["two activations", "a subclass", "a frozen bias", "no activation"])
def test_stacked_equals_serial_for_networks_that_are_nearly_plain(fit, oddity):
    train = Train(odd_network(oddity), 3, epochs=2, batch_size=64, precision="double", momentum=0.0)
    serial, stacked = (fit(replace(train, engine=engine)).outputs[0] for engine in ("serial", "stacked"))
    assert np.abs(serial - stacked).max() <= 1e-8


def test_a_stack_does_not_depend_on_its_size(fit, networks):
    """Asking for more models changes no bit of the first: what makes resuming exact."""
    two_models, seven_models = (
        fit(Train(networks.mlp, count, epochs=3, engine="stacked")).outputs[0] for count in (2, 7)
    )
    assert (two_models == seven_models[:2]).all()


def test_splits_of_unequal_sizes_are_stacked_too(records, networks):
    rng = np.random.default_rng(1)
    trained_on = rng.random((6, len(records))) < rng.uniform(0.3, 0.7, 6)[:, None]
    train = Train(networks.cnn, 6, epochs=2, batch_size=16, precision="double")
    serial, stacked = (
        replace(train, engine=engine).fit(records, trained_on, seed=0, observe=[records]).outputs[0]
        for engine in ("serial", "stacked")
    )
    assert np.abs(serial - stacked).max() <= 1e-8


def test_processes_equal_serial(fit, networks):
    train = Train(networks.dropout, 3, epochs=2, precision="double")
    references = fit(replace(train, engine="processes", workers=2))
    assert references.engine.startswith("2 processes")
    assert np.abs(references.outputs[0] - fit(replace(train, engine="serial")).outputs[0]).max() <= 1e-8


def test_auto_says_what_it_measured(fit, networks, monkeypatch):
    monkeypatch.setattr(network_learner, "TRIAL_BATCHES", 1)
    assert "ms per step alone" in fit(Train(networks.cnn, 4, epochs=6, batch_size=8)).engine
    assert fit(Train(networks.cnn, 4, epochs=1)).engine == "serial (too little work for a trial)"
    assert fit(Train(networks.mlp, 4, epochs=2)).engine == "stacked (written-out backward)"
    assert "cannot be stacked" in fit(Train(networks.dropout, 4, epochs=4, batch_size=8)).engine


def test_a_run_that_goes_on_keeps_the_choice_of_the_first(fit, networks, tmp_path, monkeypatch):
    monkeypatch.setattr(network_learner, "TRIAL_BATCHES", 1)
    engine_used = fit(Train(networks.own, 4, epochs=6, batch_size=8), pool=tmp_path).engine
    assert "ms per step alone" in engine_used
    assert fit(Train(networks.own, 5, epochs=6, batch_size=8), pool=tmp_path).engine == engine_used
    (path,) = (tmp_path / ".trials").iterdir()
    path.write_text('{"inner": "serial"}')  # damaged: measured again
    measured_again = fit(Train(networks.own, 6, epochs=6, batch_size=8), pool=tmp_path).engine
    assert "too little work for a trial" in measured_again  # one model alone lacks


def test_same_seed_same_bits_and_global_generators_untouched(fit, networks):
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global generator is what is watched
    before = torch.rand(1), np.random.random()  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    outputs, repeated = (fit(Train(networks.dropout, 2, epochs=2, engine="serial")).outputs[0] for _ in range(2))
    assert (outputs == repeated).all()
    assert before == (torch.rand(1), np.random.random())  # noqa: NPY002
    assert (outputs != fit(Train(networks.dropout, 2, epochs=2, engine="serial"), seed=1).outputs[0]).any()


def test_models_are_different_and_learn(fit, networks, records):
    references = fit(Train(networks.mlp, 4, epochs=30, lr=0.05))
    right = references.outputs[0].argmax(axis=2) == records.y
    assert right[references.trained_on].mean() > 0.9
    assert len(np.unique(references.outputs[0][:, 0, 0])) == 4


def test_mixed_precision_stays_near_single(fit, networks):
    for engine in ("serial", "stacked"):
        exact, mixed = (
            fit(Train(networks.mlp, 2, epochs=3, engine=engine, precision=precision)).outputs[0]
            for precision in ("single", "mixed")
        )
        assert 0 < np.abs(exact - mixed).max() < 0.1


def test_make_model_may_take_the_seed(fit):
    def seeded(seed):
        torch.manual_seed(seed % 7)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 4))

    assert fit(Train(seeded, 2, epochs=1, engine="serial")).outputs[0].shape == (2, 203, 4)


def test_an_unseen_class_has_an_output(records, networks):
    seen_records = records[records.y != 3]
    splits = dv.references.splits.online(len(seen_records), 2, 0)
    references = Train(networks.mlp, 2, epochs=2).fit(seen_records, splits, seed=0, observe=[records], classes=4)
    assert np.isfinite(references.outputs[0]).all()
    assert references.outputs[0].shape == (2, 203, 4)


@pytest.mark.parametrize("engine", ["auto", "serial", "processes"])
def test_the_users_own_training_goes_through_every_engine(fit, records, engine, tmp_path):
    def forest(training, seed):
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(5, random_state=seed).fit(training.x.reshape(len(training), -1), training.y)

    train = Custom(forest, 3, engine=engine, workers=2)
    references = fit(train, pool=tmp_path)
    assert references.outputs[0].shape == (3, 203, 4)
    assert (references.outputs[0] == fit(Custom(forest, 3, engine="serial")).outputs[0]).all()
    repeat = fit(train, pool=tmp_path)
    assert repeat.reused == 3
    assert (repeat.outputs[0] == references.outputs[0]).all()


def slow(records, seed):
    """A classifier whose training solves systems of equations, on as many threads as it is given."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(records.x.reshape(len(records), -1), records.y)


@pytest.mark.parametrize("engine", ["processes", "auto"])
def test_the_users_own_training_is_the_same_bit_for_bit_wherever_it_runs(fit, engine, monkeypatch):
    in_one_process = fit(Custom(slow, 4, engine="auto", workers=1))
    monkeypatch.setattr(engines, "MIN_PROCESS_SECONDS", 0.0)
    spread = fit(Custom(slow, 4, engine=engine, workers=2))
    np.testing.assert_array_equal(in_one_process.outputs[0], spread.outputs[0])
    assert "2 processes" in spread.engine


def test_what_cannot_be_sent_to_another_process_is_trained_here(fit, monkeypatch):
    from sklearn.naive_bayes import GaussianNB

    lock = threading.Lock()

    def train_with_lock(records, seed):
        with lock:
            return GaussianNB().fit(records.x.reshape(len(records), -1), records.y)

    monkeypatch.setattr(engines, "MIN_PROCESS_SECONDS", 0.0)
    assert fit(Custom(train_with_lock, 4, workers=2)).outputs[0].shape == (4, 203, 4)


def test_a_custom_classifier_that_never_saw_a_class_still_answers(records):
    def narrow(training, seed):
        from sklearn.linear_model import LogisticRegression

        keep = training.y < 3
        return LogisticRegression().fit(training.x.reshape(len(training), -1)[keep], training.y[keep])

    splits = dv.references.splits.online(len(records), 2, 0)
    references = Custom(narrow, 2).fit(records, splits, seed=0, observe=[records], classes=4)
    assert np.isfinite(references.outputs[0]).all()
    assert (references.outputs[0].argmax(axis=2) != 3).all()


@pytest.mark.parametrize(("n", "size"), [(9, 4), (8, 4), (1, 4), (3, 1), (5, 2)])
def test_batches_cover_an_epoch_once_and_are_never_of_one_when_avoidable(n, size):
    batches = networks.epoch_batches(np.arange(n) + 10, 3, 0, size)
    assert sorted(np.concatenate(batches)) == list(range(10, n + 10))
    assert len(batches) == networks.steps_per_epoch(n, size)
    assert n == 1 or size == 1 or min(map(len, batches)) > 1


class LocalRay:
    """What is used of Ray, in one process: connections are counted, and tasks lost where that is asked for."""

    exceptions = SimpleNamespace(
        **{
            name: type(name, (Exception,), {})
            for name in ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "RayTaskError")
        }
    )

    def __init__(self, was_there, lost=None):
        self.was_there, self.lost, self.calls = was_there, lost, []

    def is_initialized(self):
        return self.was_there

    def init(self, **options):
        self.calls.append("init")

    def shutdown(self):
        self.calls.append("shutdown")

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def put(self, value):
        return value

    def remote(self, **options):
        return lambda function: SimpleNamespace(remote=lambda *arguments: (function, arguments))

    def cancel(self, item):
        pass

    def wait(self, running, num_returns):
        return running[:num_returns], running[num_returns:]

    def get(self, item):
        if self.lost:
            raise getattr(self.exceptions, self.lost)
        function, arguments = item
        return function(*arguments)


@pytest.mark.parametrize(("was_there", "lost"), [(True, None), (False, None), (False, "NodeDiedError")])
def test_a_connection_to_a_cluster_is_closed_if_it_was_made_here_and_stays_otherwise(
    monkeypatch, fit, networks, was_there, lost
):
    ray = LocalRay(was_there, lost)
    monkeypatch.setattr(engines, "ray", ray)
    train = Train(networks.linear, 5, epochs=1)
    if lost:
        with pytest.raises(dv.InputError, match=rf"engine: a Ray task was lost 10 times \({lost}\)"):
            fit(replace(train, engine="ray"))
    else:
        outputs = [fit(replace(train, engine=engine)).outputs[0] for engine in ("ray", "stacked")]
        np.testing.assert_array_equal(*outputs)
    assert ray.calls == ([] if was_there else ["init", "shutdown"])


def test_one_gpu_is_not_shared_by_processes(monkeypatch, fit, networks):
    monkeypatch.setattr(engines, "MIN_PROCESS_SECONDS", 0.0)
    train = Train(networks.mlp, 4, epochs=2, workers=2)
    assert "processes" in fit(train).engine
    monkeypatch.setattr("divulge.targets.torch_modules.resolve_device", lambda device: torch.device("cuda"))
    assert fit(train).engine.startswith("stacked")
