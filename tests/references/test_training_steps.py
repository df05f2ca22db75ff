"""Steps of the training of references: rates, engines, trials, outputs and limits, against their definitions."""

import contextlib
import math
import types
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import divulge as dv
from divulge.errors import InputError
from divulge.references import (
    engines,
    fitting,
    hyperparameters,
    jobs,
    network_learner,
    network_training,
    private,
    stacked,
)
from divulge.references.hyperparameters import FineTuneSettings, Hyperparameters, LoRA, Private
from divulge.references.jobs import Job, JobResult, OutputStore, Task, TrainedModel
from divulge.references.pool import Pool

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
RECORDS = dv.Records(X, np.arange(12) % 3)


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"optimizer": "sgd"}, 0.02),
        ({"optimizer": "adam"}, 0.001),
        ({"optimizer": "adamw"}, 0.001),
        ({"optimizer": "sgd", "lr": 0.5}, 0.5),
        ({"optimizer": "adam", "lr": 0.5}, 0.5),
    ],
)
def test_the_default_rate_is_that_of_the_optimizer(settings, rate):
    assert Hyperparameters(**settings).learning_rate == rate


@pytest.mark.parametrize(("lora", "lr", "rate"), [(None, None, 5e-5), (LoRA(), None, 2e-4), (LoRA(), 0.1, 0.1)])
def test_the_default_rate_of_a_fine_tune_is_higher_with_adapters(lora, lr, rate):
    assert FineTuneSettings("hf:base", lora=lora, lr=lr).learning_rate == rate


@pytest.mark.parametrize("progress", [0.0, 0.25, 0.5, 1.0])
def test_rates_fall_as_their_schedule_says(progress):
    expected = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    for schedule, factor in expected.items():
        assert Hyperparameters(lr=0.3, schedule=schedule).rate(progress) == pytest.approx(0.3 * factor, abs=1e-15)
    assert Hyperparameters(lr=0.3, schedule=lambda share: 2 * share).rate(progress) == pytest.approx(0.6 * progress)


@pytest.mark.parametrize("factor", [-0.1, math.nan, "x"])
def test_a_schedule_of_ones_own_gives_a_number_from_zero_on(factor):
    with pytest.raises(InputError, match="schedule: its factor"):
        Hyperparameters(schedule=lambda share: factor).rate(0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"privacy": Private(1.0), "stop_at_accuracy": 0.9}, "privacy: DP-SGD works with neither"),
        ({"privacy": Private(1.0), "precision": "mixed"}, "privacy: DP-SGD works with neither"),
        ({"privacy": 1.0}, "privacy"),
        ({"augment": 3}, "augment"),
        ({"make_model": 3}, "make_model: a function that returns a new network"),
        ({"make_model": torch.nn.Linear(1, 1)}, "make_model: a function that returns a new network"),
        ({"stop_after": 31, "epochs": 30}, "stop_after: must be at most epochs = 30, got 31"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Hyperparameters(**settings)


def test_settings_that_go_together_are_taken():
    Hyperparameters(privacy=Private(0.0), precision="double", stop_after=30, epochs=30)
    Hyperparameters(stop_at_accuracy=0.9, precision="mixed", make_model=torch.nn.Linear)
    Hyperparameters().check_network_settings()
    Hyperparameters(lambda: None).check_network_settings()
    with pytest.raises(InputError, match="momentum is a setting of networks"):
        Hyperparameters(momentum=0.5).check_network_settings()
    with pytest.raises(InputError, match="make_model: a function that returns a new network or estimator is needed"):
        Hyperparameters().network_function()


@pytest.mark.parametrize(
    ("noise", "is_allowed"), [(0.0, True), (1e-6, True), (0.99e-6, False), (1e-9, False), (-1.0, False), (1.0, True)]
)
def test_noise_is_none_or_enough_to_be_accounted_for(noise, is_allowed):
    if is_allowed:
        assert Private(noise).noise == noise
        return
    with pytest.raises(InputError, match="noise"):
        Private(noise)


def test_the_accountant_is_asked_about_steps_and_sampling_rate(monkeypatch):
    histories = []

    class Accountant:
        history = ()

        def get_epsilon(self, delta):
            histories.append((self.history, delta))
            return 2.5

    monkeypatch.setattr(
        hyperparameters, "accountants", types.SimpleNamespace(create_accountant=lambda name: Accountant())
    )
    assert Private(1.5).epsilon(records=100, batch_size=30, epochs=3, delta=1e-5) == 2.5
    assert Private(1.5).epsilon(records=90, batch_size=30, epochs=3, delta=1e-5) == 2.5
    assert Private(1.5).epsilon(records=10, batch_size=30, epochs=3, delta=0.5) == 2.5
    assert histories == [([(1.5, 0.3, 12)], 1e-5), ([(1.5, 1 / 3, 9)], 1e-5), ([(1.5, 1.0, 3)], 0.5)]
    assert Private(0.0).epsilon(records=10, batch_size=3, epochs=3, delta=0.5) == math.inf
    for delta in (0.0, 1.0):
        with pytest.raises(InputError, match="delta"):
            Private(1.0).epsilon(records=10, batch_size=3, epochs=3, delta=delta)


@pytest.mark.parametrize(
    ("n_jobs", "workers", "inner", "sizes"),
    [
        (5, 2, "serial", [1, 1, 1, 1, 1]),
        (5, 2, "stacked", [3, 2]),
        (16, 2, "stacked", [4, 4, 4, 4]),
        (3, 8, "stacked", [1, 1, 1]),
        (8, 2, "stacked", [4, 4]),
        (9, 4, "stacked", [3, 3, 3]),
    ],
)
def test_units_of_work_are_small_enough_for_all_workers(n_jobs, workers, inner, sizes):
    units = engines.split_jobs(list(range(n_jobs)), workers, inner)
    assert [len(unit) for unit in units] == sizes
    assert [job for unit in units for job in unit] == list(range(n_jobs))


class Learner:
    """A learner whose models answer their number; some diverge."""

    timed_by_doing = False

    def __init__(self, diverging=(), choice=("serial", 0.0, " (reason)"), answers=None):
        self.diverging, self.choice, self.answers = diverging, choice, answers
        self.untimed, self.restored = [], []

    def learner(self, task):
        def learn(job, tick):
            tick(0.5)
            if job.model in self.diverging:
                raise ArithmeticError
            value = float(job.model) if self.answers is None else self.answers[job.model]
            return jobs.output_only_model(lambda records: np.full((len(records), 2), value))

        return learn

    def stack(self, task, several, watch):
        for job in several:
            yield job, None if job.model in self.diverging else self.learner(task)(job, partial(watch, job))

    def trial(self, task, several, *, untimed):
        self.untimed.append(untimed)
        return self.choice

    def settings(self):
        return {"a": "b"}

    def restore(self, task, job, arrays):
        self.restored.append(job.model)
        return [arrays["0"]]


def make_task(learner, pool=None, observe=(RECORDS,), **settings):
    return Task(
        learner=learner, records=RECORDS, data="data", classes=3, observe=observe, signal=None, pool=pool, **settings
    )


def make_jobs(count):
    return [Job(model, model + 10, np.arange(3), f"key{model}") for model in range(count)]


@pytest.mark.parametrize("engine", ["serial", "stacked"])
def test_models_that_diverge_have_no_outputs_and_the_others_their_own(engine):
    shares = []
    task = make_task(Learner(diverging=(1,)))
    results = list(
        engines.LOCAL_ENGINES[engine](task, make_jobs(3), lambda job, share: shares.append((job.model, share)))
    )
    assert [None if result.rows is None else result.rows[0][0, 0] for result in results] == [0.0, None, 2.0]
    assert shares[0] == (0, 0.5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_model_whose_outputs_are_not_finite_counts_as_diverged_and_is_not_stored(tmp_path, value):
    task = make_task(Learner(answers=[1.0, value]), tmp_path / "pool")
    good, bad = engines.train_serially(task, make_jobs(2), lambda job, share: None)
    assert good.rows is not None
    assert bad.rows is None
    stored = [path.name for path in (tmp_path / "pool").glob("*.safetensors")]
    assert stored == ["key0.safetensors"]


@pytest.mark.parametrize(
    ("engine", "workers", "n_jobs", "choice", "expected"),
    [
        ("serial", None, 3, None, "serial"),
        ("stacked", None, 3, None, "stacked"),
        ("auto", 1, 3, ("serial", 99.0, "!"), "serial!"),
        ("auto", 2, 1, ("stacked", 99.0, "!"), "stacked!"),
        ("auto", 2, 3, ("serial", 14.9, "!"), "serial!"),
        ("auto", 2, 3, ("serial", 15.0, "!"), "2 processes, serial in each!"),
        ("processes", 2, 3, ("stacked", 0.0, "!"), "2 processes, stacked in each!"),
        ("processes", 1, 1, ("stacked", 0.0, "!"), "1 processes, stacked in each!"),
        ("ray", 2, 3, ("serial", 0.0, "!"), "ray, serial in each task!"),
    ],
)
def test_the_engine_is_the_one_asked_for_or_the_fastest(engine, workers, n_jobs, choice, expected):
    learner = Learner(choice=choice)
    _, note = fitting._choose_engine(make_task(learner), make_jobs(n_jobs), engines.Placement(engine, workers))
    assert note == expected
    is_single = engine == "auto" and (workers == 1 or n_jobs == 1)
    assert learner.untimed == ([] if choice is None else [is_single])


def test_a_learner_that_only_training_times_starts_with_one_model():
    learner = Learner()
    learner.timed_by_doing = True
    engine, note = fitting._choose_engine(make_task(learner), make_jobs(3), engines.Placement("auto", 3))
    assert note == "serial, on one thread; on 3 processes after the first model if the others take long"
    assert engine.func is engines.run_after_first
    _, note = fitting._choose_engine(make_task(learner), make_jobs(3), engines.Placement("processes", 3))
    assert note.startswith("3 processes")


@pytest.mark.parametrize(
    ("seconds", "workers", "can_pickle", "is_sent"),
    [(7.5, 2, True, True), (7.4, 2, True, False), (7.5, 1, True, False), (7.5, 2, False, False)],
)
def test_other_models_go_to_processes_where_they_take_long_enough(monkeypatch, seconds, workers, can_pickle, is_sent):
    clock = iter([0.0, seconds])
    sent = []
    monkeypatch.setattr(engines.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(engines, "limit_to_one_thread", contextlib.nullcontext)
    monkeypatch.setattr(engines, "_can_pickle", lambda task: can_pickle)
    monkeypatch.setattr(
        engines, "run_processes", lambda task, several, watch, inner, workers: sent.extend(several) or iter(())
    )
    results = list(
        engines.run_after_first(make_task(Learner()), make_jobs(3), lambda job, share: None, workers=workers)
    )
    assert [result.job.model for result in results] == ([0] if is_sent else [0, 1, 2])
    assert [job.model for job in sent] == ([1, 2] if is_sent else [])


def test_what_cannot_be_pickled_stays():
    assert engines._can_pickle(make_task(Learner()))
    learner = Learner()
    learner.file = (value for value in ())
    assert not engines._can_pickle(make_task(learner))


def test_a_worker_writes_one_file_per_model_and_they_are_collected_once(tmp_path):
    task = make_task(Learner(diverging=(1,)))
    waiting = {job.model: job for job in make_jobs(4)}
    engines._run_in_process(task, [waiting[0], waiting[1], waiting[2]], tmp_path, "serial")
    results = list(engines._collect_results(tmp_path, waiting))
    assert [(r.job.model, None if r.rows is None else r.rows[0].tolist()) for r in results] == [
        (0, [[0.0, 0.0]] * 12),
        (1, None),
        (2, [[2.0, 2.0]] * 12),
    ]
    assert list(waiting) == [3]
    assert not list(tmp_path.iterdir())
    assert not list(engines._collect_results(tmp_path, waiting))


@pytest.mark.parametrize("keep", [True, False])
def test_a_node_returns_outputs_and_for_a_pool_what_is_stored(keep):
    results = engines._run_on_node(make_task(Learner(diverging=(1,))), make_jobs(2), "serial", keep)
    (first, rows, arrays), (second, no_rows, nothing) = results
    assert (first, second, no_rows, nothing) == (0, 1, None, {})
    assert rows[0].shape == (12, 2)
    assert list(arrays) == (["0"] if keep else [])


class Ray:
    """What is used of Ray, in one process."""

    exceptions = types.SimpleNamespace(
        WorkerCrashedError=type("WorkerCrashedError", (Exception,), {}),
        NodeDiedError=type("NodeDiedError", (Exception,), {}),
        ObjectLostError=type("ObjectLostError", (Exception,), {}),
    )

    def __init__(self, nodes, lost=None):
        self._nodes, self.lost, self.options, self.units = nodes, lost, None, []

    def nodes(self):
        return self._nodes

    def put(self, value):
        self.shared = value
        return value

    def remote(self, **options):
        self.options = options

        def decorate(function):
            def remote(shared, unit, inner, keep):
                self.units.append(len(unit))
                return function, (shared, unit, inner, keep)

            return types.SimpleNamespace(remote=remote)

        return decorate

    def wait(self, running, num_returns):
        assert num_returns == 1
        return running[:1], running[1:]

    def get(self, item):
        if self.lost:
            raise getattr(self.exceptions, self.lost)
        function, arguments = item
        return function(*arguments)


NODES = [
    {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}},
    {"Alive": False, "Resources": {"CPU": 64.0}},
    {"Alive": True, "Resources": {"CPU": 1.0}},
]


@pytest.mark.parametrize(
    ("nodes", "gpus", "units"),
    [(NODES, 1, [3, 3, 3]), (NODES[1:], 0, [4, 4, 1]), ([{"Alive": True, "Resources": {}}], 0, [4, 4, 1])],
)
def test_a_cluster_is_asked_for_what_its_living_nodes_have(monkeypatch, tmp_path, nodes, gpus, units):
    cluster = Ray(nodes)
    monkeypatch.setattr(engines, "ray", cluster)
    task = make_task(Learner(diverging=(1,)), tmp_path / "pool")
    results = list(engines._run_tasks(task, make_jobs(9), "stacked"))
    assert cluster.options == {"num_cpus": 1, "num_gpus": gpus, "max_retries": 10}
    assert cluster.shared.pool is None
    assert cluster.units == units
    assert [result.job.model for result in results if result.rows is None] == [1]
    assert len(list((tmp_path / "pool").glob("*.safetensors"))) == 8
    assert list(Pool(tmp_path / "pool").get("key0") or {}) == ["0"]
    bare = list(engines._run_tasks(replace(task, pool=None), make_jobs(2), "serial"))
    assert len(bare) == 2


@pytest.mark.parametrize("lost", ["WorkerCrashedError", "NodeDiedError", "ObjectLostError"])
def test_a_task_that_is_lost_again_and_again_is_an_error(monkeypatch, lost):
    monkeypatch.setattr(engines, "ray", Ray(NODES, lost))
    with pytest.raises(InputError, match=rf"engine: a Ray task was lost 10 times \({lost}\)"):
        list(engines._run_tasks(make_task(Learner()), make_jobs(2), "serial"))


@pytest.mark.parametrize("workers", [0, -1])
def test_one_process_is_the_least(workers):
    with pytest.raises(InputError, match="workers"):
        engines.Placement("processes", workers)
    assert engines.Placement("processes", 1).workers == 1


def test_signals_of_the_inside_stand_beside_those_of_the_first_records():
    task = make_task(Learner(), observe=(RECORDS, RECORDS[:5]), inside=lambda target, records: np.ones((12, 1)) * 7)
    rows = jobs.query_model(task, jobs.output_only_model(lambda records: records.x.astype(np.float32)))
    assert [row.shape for row in rows] == [(12, 4), (5, 3)]
    assert (rows[0][:, 3] == 7).all()
    nothing = make_task(Learner(), observe=(), inside=lambda target, records: np.ones((12, 1)))
    assert jobs.query_model(nothing, jobs.output_only_model(lambda records: records.x)) == []


@pytest.mark.parametrize("n", [1, 4, 5, 8, 9])
def test_records_are_queried_in_chunks_with_their_labels(monkeypatch, n):
    monkeypatch.setattr(jobs, "QUERY_CHUNK", 4)
    sizes = []

    def predict(records):
        sizes.append(len(records))
        return records.x

    signals = jobs.query_in_chunks(predict, RECORDS[:n], lambda outputs, y: outputs[:, 0] + y)
    assert sizes == [min(4, n - start) for start in range(0, n, 4)]
    np.testing.assert_allclose(signals, X[:n, 0] + np.arange(n) % 3, rtol=1e-6)
    assert signals.dtype == np.float32
    unlabelled = jobs.query_in_chunks(predict, dv.Records(X[:n]), lambda outputs, y: outputs[:, 0] * (y is None))
    np.testing.assert_array_equal(unlabelled, X[:n, 0])


def test_signals_too_large_for_the_type_of_the_outputs_are_the_largest_that_are_not():
    clipped = jobs.clip_to_dtype(np.array([1e300, -1e300, 1.0]), np.dtype(np.float32))
    largest = np.finfo(np.float32).max
    assert clipped.tolist() == [largest, -largest, 1.0]
    assert clipped.dtype == np.float32


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("written", [[0, 1, 2], [2, 0], [1]])
def test_outputs_come_back_for_the_models_that_were_written(tmp_path, folder, written):
    outputs = OutputStore(3, tmp_path / "out" if folder else None)
    for model in written:
        outputs.write(model, [np.full((2, 2), float(model)), np.full(5, 10.0 + model, np.float32)])
    first, second = outputs.read()
    assert first.shape == (len(written), 2, 2)
    assert first[:, 1, 1].tolist() == sorted(written)
    assert second[:, 4].tolist() == [10.0 + model for model in sorted(written)]
    assert second.dtype == np.float32


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([0, 1, 2], None, 3),
        ([0, 1, 2], 3, 3),
        ([0, 1, 2], 7, 7),
        ([0, 0, 1], None, 2),
        ([0, 1, 2], 2, "records.y"),
        ([0, 0, 0], None, "at least 2 classes are needed, got 1"),
        ([0, 1, 3], None, r"at least as many as classes \(4\) are needed, got 3"),
        ([0, 1, 3], 4, 4),
        ([0, 0, 0], 1, "classes"),
        (None, 3, "labels are needed to train on, got y=None"),
    ],
)
def test_classes_are_counted_or_given(labels, classes, expected):
    records = dv.Records(X[:3], None if labels is None else np.array(labels))
    if isinstance(expected, int):
        assert jobs.count_classes(records, classes) == expected
        return
    with pytest.raises(InputError, match=expected):
        jobs.count_classes(records, classes)


def test_a_model_that_is_not_trained_in_epochs_is_shown_once():
    shown = []

    class Once(jobs.OutputLearner):
        def learner(self, task):
            return lambda job, tick: f"model {job.model}"

    for keep in (True, False):
        learned = Once().trace(
            None, make_jobs(2)[1], lambda epoch, model, keep=keep: shown.append(epoch) or (keep, False)
        )
        assert learned == ("model 1" if keep else None)
    assert shown == [1, 1]
    with pytest.raises(InputError, match="engine: 'stacked' trains small networks alone"):
        Once().stack(None, [], None)
    kept = Once().restore(make_task(None, observe=(RECORDS, RECORDS)), None, {"0": 1, "1": 2, "2": 3})
    assert kept == [1, 2]


def test_jobs_are_described_for_a_reader_of_the_pool():
    assert make_task(Learner()).describe_job(make_jobs(2)[1]) == {
        "model": 1, "seed": 11, "records": 3, "data": "data", "how": {"a": "b"},
    }  # fmt: skip


def run_of(learner, pool=None, total=3):
    reports = []
    run = fitting._TrainingRun(
        make_task(learner, pool), OutputStore(total, None), lambda *report: reports.append(report), total
    )
    return run, reports


def test_shares_of_all_models_are_reported_and_diverged_ones_returned():
    run, reports = run_of(Learner(diverging=(1,)))
    diverged = run.train(engines.train_serially, make_jobs(3), "note")
    assert [job.model for job in diverged] == [1]
    assert [report[0] for report in reports] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert {report[1:] for report in reports} == {(3, "note")}
    assert run.finished.tolist() == [True, False, True]
    assert run.warnings == ["model 1: its loss or its outputs became NaN or infinite (seed 11)"]
    run.give_up(diverged)
    assert run.warnings[1:] == ["model 1: left out, it diverged with a second seed too"]
    assert run.interrupted() == "reference models: stopped; without a pool nothing is kept"
    assert run.train(None, [], "note") == []


def test_models_of_a_pool_are_restored_and_damaged_ones_discarded(tmp_path):
    first, _ = run_of(Learner(), tmp_path / "pool")
    first.train(engines.train_serially, make_jobs(2), "note")
    (tmp_path / "pool" / "key1.safetensors").write_bytes(b"damaged")
    learner = Learner()
    run, reports = run_of(learner, tmp_path / "pool")
    assert [run.restore(job) for job in make_jobs(3)] == [True, False, False]
    assert learner.restored == [0]
    assert reports == [(1.0, 3, "from the pool")]
    assert len(run.warnings) == 1
    assert "model 1: the stored model is damaged and is trained again" in run.warnings[0]
    assert not (tmp_path / "pool" / "key1.safetensors").exists()
    assert f"1 of 3 models are finished and kept in {tmp_path / 'pool'}; the same call resumes" in run.interrupted()
    assert not run_of(Learner())[0].restore(make_jobs(1)[0])


@pytest.mark.parametrize(
    ("shape", "message"), [((3, 12), "splits: 2 rows are needed"), ((2, 11), "splits: 12 columns are needed")]
)
def test_splits_that_do_not_fit_the_request_are_refused(shape, message):
    request = types.SimpleNamespace(splits=np.ones(shape, bool), records=RECORDS)
    with pytest.raises(InputError, match=message):
        fitting._check_splits(request, 2)


def positional(seed, /):
    return seed


def positional_with_default(seed=0, /):
    return seed


def net():
    return torch.nn.Sequential(torch.nn.Linear(3, 3))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda seed: seed, ((), {"seed": 5})),
        (lambda *, seed=0: seed, ((), {"seed": 5})),
        (lambda s: s, ((5,), {})),
        (lambda s=1: s, ((), {})),
        (lambda: 0, ((), {})),
        (lambda *arguments, **keywords: 0, ((), {})),
        (lambda *, width: 0, ((), {})),
        (positional, ((5,), {})),
        (positional_with_default, ((), {})),
    ],
)
def test_a_function_is_given_the_seed_where_it_takes_one(make, expected):
    assert network_training._seed_arguments(make, 5) == expected


@pytest.mark.parametrize(
    "make", [lambda: None, lambda: torch.nn.ReLU(), lambda: net().requires_grad_(requires_grad=False)]
)
def test_what_is_no_network_to_train_is_refused(make):
    with pytest.raises(InputError, match=r"make_model: a torch\.nn\.Module with parameters is needed"):
        network_training.build_network(make, 0)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_network_has_one_output_per_class(size):
    def check():
        network_training.check_outputs(net(), X, size, torch.device("cpu"), torch.float32)

    if size == 3:
        check()
        return
    with pytest.raises(InputError, match=rf"make_model: {size} outputs are needed .*got shape \(3,\)"):
        check()


def test_outputs_are_a_matrix_and_records_fit():
    flat = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Unflatten(1, (3, 1)))
    with pytest.raises(InputError, match="3 outputs are needed"):
        network_training.check_outputs(flat, X, 3, torch.device("cpu"), torch.float32)
    with pytest.raises(InputError, match=r"cannot take records of shape \(2,\)"):
        network_training.check_outputs(net(), X[:, :2], 3, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize(
    ("dtype", "module", "expected"),
    [
        (np.int64, torch.nn.Embedding(4, 2), torch.int64),
        (np.uint8, torch.nn.EmbeddingBag(4, 2), torch.int64),
        (np.float32, torch.nn.Embedding(4, 2), torch.float32),
        (np.int64, net(), torch.float32),
    ],
)
def test_numbers_are_tokens_where_a_network_embeds_them(dtype, module, expected):
    x = np.ones((2, 3), dtype)
    x.flags.writeable = False
    tensor = network_training.to_tensor(x, module, torch.device("cpu"), torch.float32)
    assert tensor.dtype == expected
    tensor.zero_()
    assert (x == 1).all()
    with pytest.raises(InputError, match="got text"):
        network_training.to_tensor(np.array(["a"], object), module, torch.device("cpu"), torch.float32)


def test_half_precision_is_stored_widened():
    module = net().to(torch.bfloat16)
    arrays = network_training.state_arrays(module)
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert network_training.state_arrays(net().double())["0.weight"].dtype == np.float64


@pytest.mark.parametrize(
    ("shape", "module", "expected"),
    [
        ((2, 3, 8, 8), torch.nn.Conv2d(3, 4, 3), torch.channels_last),
        ((2, 3, 8, 8), torch.nn.Flatten(), torch.contiguous_format),
        ((2, 3), net(), torch.contiguous_format),
    ],
)
def test_channels_come_last_for_images_in_convolutions(shape, module, expected):
    assert network_training.choose_layout(module, torch.zeros(shape)) == expected


class Views(torch.nn.Module):
    """A convolution whose records are cut up by `view`."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.layer(x.view(len(x), -1).view(x.shape))


def test_a_network_that_cannot_take_channels_last_gets_them_first():
    assert network_training.choose_layout(Views(), torch.rand(2, 3, 8, 8)) == torch.contiguous_format


@pytest.mark.parametrize(
    ("accuracy", "epochs"), [(None, 4), (1.0, 4), (0.3, 1)]
)  # labels without any signal are never all right
def test_training_stops_at_an_accuracy_or_after_its_epochs(accuracy, epochs):
    done, shares = [], []
    config = Hyperparameters(net, epochs=4, lr=1e-9, batch_size=4, stop_at_accuracy=accuracy)
    y = torch.arange(12) % 3 if accuracy != 0.3 else torch.zeros(12, dtype=torch.int64)
    if accuracy == 0.3:
        config = replace(config, make_model=partial(biased, 0))
    data = network_training.TrainingData(torch.from_numpy(X), y)
    network_training.train_by_sgd(
        config, data, np.arange(12), 0, shares.append, lambda epoch, module: done.append(epoch)
    )
    assert done == list(range(1, epochs + 1))
    assert shares == [epoch / 4 for epoch in done]


def biased(label):
    module = net()
    with torch.no_grad():
        module[0].bias[label] = 100.0
    return module


@pytest.mark.parametrize(("n_right", "epochs"), [(6, 1), (5, 3)])
def test_the_accuracy_is_reached_at_exactly_its_share(n_right, epochs):
    y = torch.tensor([0] * n_right + [1] * (12 - n_right))
    data = network_training.TrainingData(torch.from_numpy(X), y)
    config = Hyperparameters(partial(biased, 0), epochs=3, lr=1e-9, batch_size=5, stop_at_accuracy=0.5)
    done = []
    network_training.train_by_sgd(config, data, np.arange(12), 0, done.append)
    assert len(done) == epochs


def test_the_rate_of_each_step_follows_the_share_of_all_steps(monkeypatch):
    rates = []
    monkeypatch.setattr(network_training, "set_learning_rate", lambda update, rate: rates.append(rate))
    data = network_training.TrainingData(torch.from_numpy(X), torch.arange(12) % 3)
    config = Hyperparameters(net, epochs=3, lr=1.0, batch_size=6, schedule=lambda share: share, stop_after=2)
    shares = []
    network_training.train_by_sgd(config, data, np.arange(12), 0, shares.append)
    np.testing.assert_allclose(rates, [0, 1 / 6, 2 / 6, 3 / 6])
    assert shares == [0.5, 1.0]


def test_weights_that_are_not_finite_are_divergence():
    data = network_training.TrainingData(torch.from_numpy(X), torch.arange(12) % 3)
    config = Hyperparameters(net, epochs=9, lr=1e38, momentum=0.9, batch_size=6)
    with pytest.raises(network_training.DivergedError):
        network_training.train_by_sgd(config, data, np.arange(12), 0)


@pytest.mark.parametrize(
    ("name", "expected"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_optimizers_have_the_given_settings(name, expected):
    module = net()
    module[0].bias.requires_grad_(requires_grad=False)
    config = Hyperparameters(net, optimizer=name, lr=0.25, weight_decay=0.125, momentum=0.75)
    optimizer = network_training.make_optimizer(config, module.parameters())
    (group,) = optimizer.param_groups
    assert type(optimizer) is expected
    assert (group["lr"], group["weight_decay"], len(group["params"])) == (0.25, 0.125, 1)
    assert group["fused"] is True
    if name == "sgd":
        assert group["momentum"] == 0.75
    network_training.set_learning_rate(optimizer, 0.5)
    assert group["lr"] == 0.5


@pytest.mark.parametrize(("steps", "models", "is_affordable"), [(140, 1, True), (139, 1, False), (280, 2, True)])
def test_a_trial_costs_at_most_a_twentieth_of_the_work(steps, models, is_affordable):
    """A model's trial takes a step to warm up and two measurements of 3 batches."""
    assert network_learner._is_affordable(steps, models) is is_affordable
    assert not network_learner._is_affordable(steps - 1 if models == 2 else 0, models)


@pytest.mark.parametrize(
    ("single", "together", "epochs", "explicit", "reason", "expected"),
    [
        (1.0, 0.94, 1000, False, "", ("stacked", 0.94)),
        (1.0, 0.95, 1000, False, "", ("serial", 0.95)),
        (1.0, 2.0, 1000, False, "", ("serial", 1.0)),
        (1.0, 0.5, 1000, False, "dropout", ("serial", 1.0)),
        (1.0, 0.5, 1000, True, "", ("stacked", 0.5)),
        (1.0, 0.5, 1, True, "", ("stacked", 0.0)),
        (1.0, 0.5, 1, False, "", ("serial", 0.0)),
        (1.0, 0.5, 25, False, "", ("serial", 1.0)),  # enough for one model and not for a stack
    ],
)
def test_the_faster_engine_is_chosen_by_a_clear_margin(
    monkeypatch, single, together, epochs, explicit, reason, expected
):
    monkeypatch.setattr(stacked, "has_explicit_backward", lambda config: explicit)
    monkeypatch.setattr(stacked, "unstackable_reason", lambda config, data: reason)
    monkeypatch.setattr(stacked, "stack_width", lambda config, count, device: count)
    monkeypatch.setattr(
        network_learner, "_seconds_per_step",
        lambda train, several, config: together if len(several) == 4 else single,
    )  # fmt: skip
    data = network_training.TrainingData(torch.from_numpy(X), torch.arange(12) % 3)
    config = Hyperparameters(net, epochs=epochs, batch_size=6)
    four = [Job(model, 0, np.arange(12), "") for model in range(4)]
    inner, seconds, _ = network_learner.measure_trial(config, data, four, None)
    assert (inner, seconds) == (expected[0], pytest.approx(expected[1] * 4 * epochs * 2))


def test_the_engine_of_a_training_that_stops_early_is_chosen_by_the_epochs_that_it_has():
    """The brief training of a trial has one epoch, and no later one to stop after."""
    data = network_training.TrainingData(torch.from_numpy(X), torch.arange(12) % 3)
    jobs = [Job(model, 0, np.arange(12), "") for model in range(2)]

    def seconds(stop_after):
        config = Hyperparameters(net, epochs=1000, stop_after=stop_after, batch_size=6, schedule="cosine")
        return network_learner.measure_trial(config, data, jobs, network_learner.train_network)[1]

    assert seconds(300) > 0
    assert seconds(2) == 0  # too little work for a trial


def test_seconds_per_step_are_the_better_of_two_measurements_after_a_warm_up(monkeypatch):
    clock = iter([0.0, 9.0, 10.0, 16.0, 20.0, 24.0])
    monkeypatch.setattr(network_learner.time, "perf_counter", lambda: next(clock))
    sizes = []
    two = [Job(model, 0, np.arange(12), "") for model in range(2)]
    config = Hyperparameters(net, batch_size=4)
    seconds = network_learner._seconds_per_step(
        lambda several: sizes.append([len(job.rows) for job in several]), two, config
    )
    assert sizes == [[4, 4], [12, 12], [12, 12]]
    assert seconds == pytest.approx(4.0 / 2 / 3)


def test_a_trial_is_remembered_in_the_pool_and_a_damaged_one_measured_again(tmp_path):
    config = Hyperparameters(net)
    measured = []

    def compute():
        measured.append(1)
        return "stacked", 2.5, " (why)"

    def ask(task):
        return network_learner.load_or_measure(task, config, "cpu", compute)

    task = make_task(Learner(), tmp_path)
    assert [ask(task), ask(task)] == [("stacked", 2.5, " (why)")] * 2
    assert len(measured) == 1
    (path,) = (tmp_path / ".trials").iterdir()
    path.write_text('{"inner": "other", "seconds": 3, "why": "x"}')
    assert ask(task) == ("serial", 3.0, "x")
    for damaged in ("{", '{"inner": "serial"}', '{"inner": "serial", "seconds": "x", "why": ""}'):
        path.write_text(damaged)
        assert ask(task) == ("stacked", 2.5, " (why)")
    assert len(measured) == 4
    assert ask(make_task(Learner())) == ("stacked", 2.5, " (why)")
    assert len(measured) == 5


def test_batches_of_private_training_hold_each_record_with_its_probability():
    batches = private.poisson_batches(np.arange(1000) + 7, seed=0, epoch=2, steps=40, size=100)
    assert len(batches) == 40
    assert np.mean([len(batch) for batch in batches]) == pytest.approx(100, abs=5)
    assert all((np.diff(batch) > 0).all() and batch.min() >= 7 for batch in batches)
    whole = private.poisson_batches(np.arange(5), seed=0, epoch=0, steps=2, size=5)
    assert [batch.tolist() for batch in whole] == [list(range(5))] * 2


@pytest.mark.parametrize("clip", [0.1, 1e9])
def test_a_private_step_is_the_mean_of_clipped_gradients(clip):
    """Without noise, against gradients of one record at a time."""
    config = Hyperparameters(net, lr=1.0, optimizer="sgd", momentum=0.0, batch_size=4, privacy=Private(0.0, clip))
    module = net()
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    x, y = torch.from_numpy(X[:5]), torch.arange(5) % 3
    expected = {name: torch.zeros_like(value) for name, value in before.items()}
    for row in range(5):
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(x[row : row + 1]), y[row : row + 1]).backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
        for name, gradient in gradients.items():
            expected[name] += gradient * min(1.0, clip / norm)
    step = private.GhostClipping(config, module, stacked.mlp_layers(module), 0)
    step(x, y, 0.5)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(before[name] - parameter.detach(), 0.5 * expected[name] / 4, rtol=1e-3, atol=1e-5)


def test_the_noise_has_the_standard_deviation_of_noise_times_clip():
    module = net()
    for noise, clip in ((2.0, 0.5), (0.5, 3.0)):
        config = Hyperparameters(net, privacy=Private(noise, clip))
        step = private.GhostClipping(config, module, stacked.mlp_layers(module), 0)
        (released,) = step.release([torch.full((40_000,), 5.0)])
        assert float(released.std()) == pytest.approx(noise * clip, rel=0.03)
        assert float(released.mean()) == pytest.approx(5.0, abs=0.05)
    quiet = private.GhostClipping(Hyperparameters(net, privacy=Private(0.0)), module, stacked.mlp_layers(module), 0)
    totals = [torch.ones(2)]
    assert quiet.release(totals) is totals


def test_a_job_result_and_a_trained_model_are_what_they_are_made_of():
    model = jobs.output_only_model(lambda records: records.x, "target")
    assert isinstance(model, TrainedModel)
    assert {name: value.tolist() for name, value in model.arrays([np.ones(1), np.zeros(1)]).items()} == {
        "0": [1.0], "1": [0.0],
    }  # fmt: skip
    assert JobResult(make_jobs(1)[0], None).rows is None
