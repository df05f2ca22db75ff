"""Steps of progress, trials of fine-tunes, stacks and keys, against their definitions."""

import functools
import io
import types

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.references import matching, pool, progress

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from divulge.references import fine_tuning, network_training, private, stacked  # noqa: E402
from divulge.references.hyperparameters import FineTuneSettings, Hyperparameters, Private  # noqa: E402
from divulge.references.jobs import Job  # noqa: E402


@pytest.mark.parametrize(
    ("completed", "total", "seconds", "before", "expected"),
    [
        (5, 16, 120.0, 1, "5 of 16 models, 2.0 a minute, 6 min left"),
        (1, 2, 89.0, 0, "1 of 2 models, 0.7 a minute, 89 s left"),
        (1, 2, 90.0, 0, "1 of 2 models, 0.7 a minute, 2 min left"),
        (2.5, 5, 10.0, 0, "2 of 5 models, 15.0 a minute, 10 s left"),
        (2.9999999999, 5, 10.0, 2.9999999999, "3 of 5 models"),
        (3, 5, 10.0, 4, "3 of 5 models"),
        (3, 5, 0.0, 1, "3 of 5 models"),
        (3, 5, -1.0, 1, "3 of 5 models"),
        (5, 5, 10.0, 1, "5 of 5 models"),
        (6, 5, 10.0, 1, "6 of 5 models"),
    ],
)
def test_the_time_left_is_that_at_the_pace_so_far(completed, total, seconds, before, expected):
    assert progress.describe_progress(completed, total, seconds, before) == expected


def bar_lines(monkeypatch, reports, **settings):
    clock = iter([0.0, *(seconds for seconds, _ in reports)])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, 1e6))
    stream = io.StringIO()
    with progress.Bar("title", stream=stream, **settings) as bar:
        monkeypatch.setattr(bar, "_bar", types.SimpleNamespace(update=lambda *a, **k: None, stop=lambda: None))
        for _, completed in reports:
            bar(completed, 4, "note")
    return stream.getvalue().splitlines()


def test_a_log_file_gets_a_line_a_minute_and_one_at_the_end(monkeypatch):
    def count_lines(*reports, **settings):
        return [line.split()[1] for line in bar_lines(monkeypatch, reports, **settings)]

    assert count_lines((59.0, 1), (60.0, 2), (119.0, 3), (120.0, 3), (121.0, 4), (122.0, 4)) == ["2", "3", "4"]
    assert count_lines((1.0, 1), (2.0, 2), every=1.0) == ["1", "2"]
    assert count_lines((1.0, 1), (1.0, 2), every=0) == ["1", "2"]
    with pytest.raises(InputError, match="every"):
        progress.Bar("title", every=-1.0)


def test_a_line_holds_title_pace_and_note(monkeypatch):
    assert bar_lines(monkeypatch, [(60.0, 1), (120.0, 2)]) == [
        "title: 1 of 4 models (note)",
        "title: 2 of 4 models, 0.5 a minute, 4 min left (note)",
    ]


@pytest.mark.parametrize(
    ("given", "expected"), [(None, None), (False, None), (True, "auto"), ("auto", "auto"), (print, print)]
)
def test_progress_is_shown_by_a_function_a_bar_or_not_at_all(given, expected):
    assert progress.check_progress(given) == expected
    for wrong in ("bar", 1, 0):
        with pytest.raises(InputError, match="progress"):
            progress.check_progress(wrong)
    if expected is None:
        with progress.show_progress(None, "title") as report:
            assert report is progress.ignore_progress
    if expected is print:
        with progress.show_progress(print, "title") as report:
            assert report is print


def document_learner(lengths, device="cpu", **settings):
    seen = []
    tuning = types.SimpleNamespace(
        config=FineTuneSettings("hf:base", **settings),
        base=types.SimpleNamespace(model=types.SimpleNamespace(device=torch.device(device))),
        tokenised=lambda texts: [[[0]] * length for length in lengths],
    )
    tuning.brief = lambda: types.SimpleNamespace(tuned=lambda documents, seed, tick: seen.append(len(documents)))
    return fine_tuning.DocumentLearner(tuning), seen


@pytest.mark.parametrize(
    ("settings", "steps"),
    [({"epochs": 3, "batch_size": 4}, 3 * (2 + 1)), ({"epochs": 3, "batch_size": 4, "stop_after": 2}, 2 * (2 + 1))],
)
def test_the_seconds_of_fine_tunes_are_those_of_their_steps(monkeypatch, settings, steps):
    learner, seen = document_learner([1, 2, 3, 2], **settings)
    clock = iter([10.0, 10.0 + fine_tuning._TRIAL_BATCHES])
    monkeypatch.setattr(fine_tuning.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(fine_tuning, "_require_texts", lambda records: records)
    jobs = [Job(0, 0, np.array([0, 1, 2]), ""), Job(1, 0, np.array([1, 3]), "")]  # 6 and 4 stretches, in fours
    assert learner.trial(types.SimpleNamespace(records=[]), jobs, untimed=False) == ("serial", float(steps), "")
    assert seen == [3]
    assert learner.trial(None, jobs, untimed=True) == ("serial", 0.0, "")
    other, seen = document_learner([1], device="meta")
    assert other.trial(None, jobs, untimed=False) == ("serial", 0.0, "")
    assert seen == []


def test_a_trial_of_fine_tunes_takes_a_few_batches(monkeypatch):
    learner, seen = document_learner([1] * 50, batch_size=4)
    monkeypatch.setattr(fine_tuning, "_require_texts", lambda records: records)
    learner.trial(types.SimpleNamespace(records=[]), [Job(0, 0, np.arange(50), "")], untimed=False)
    assert seen == [4 * fine_tuning._TRIAL_BATCHES]


def test_settings_of_a_fine_tune_are_named_for_a_reader():
    learner, _ = document_learner([1], lr=0.25)
    base = types.SimpleNamespace(name="tiny")
    learner.tuning.base, learner.tuning.digest = base, "0123456789abcdefghi"
    settings = learner.settings()
    assert settings["base"] == "tiny (0123456789abcdef)"
    assert settings["lr"] == "0.25"
    assert "stop_after" not in settings
    assert not {"count", "engine", "device", "workers", "match"} & settings.keys()
    stopped, _ = document_learner([1], stop_after=2)
    stopped.tuning.base, stopped.tuning.digest = base, ""
    assert stopped.settings()["stop_after"] == "2"


@pytest.mark.parametrize(("length", "context", "is_refused"), [(None, 10, False), (10, 10, False), (11, 10, True)])
def test_a_length_is_one_that_the_base_takes(monkeypatch, length, context, is_refused):
    monkeypatch.setattr(fine_tuning.language_models, "context_length", lambda model: context)
    monkeypatch.setattr(fine_tuning, "weights_digest", lambda model: "digest")
    base = types.SimpleNamespace(model=None)
    monkeypatch.setattr(fine_tuning, "_load_base", lambda config: base)
    config = FineTuneSettings("hf:base", length=length)
    if is_refused:
        with pytest.raises(InputError, match="length: the base takes at most 10 tokens, got 11"):
            fine_tuning.LoadedFineTune(config)
        return
    loaded = fine_tuning.LoadedFineTune(config)
    assert loaded.__getstate__() == {"config": config, "digest": "digest"}
    loaded.__setstate__(loaded.__getstate__())
    with pytest.raises(InputError, match="was changed while models were trained from it"):
        loaded.__setstate__({"config": config, "digest": "other"})
    brief = fine_tuning.LoadedFineTune(FineTuneSettings("hf:base", epochs=7, stop_after=3, count=5)).brief().config
    assert (brief.count, brief.epochs, brief.stop_after, brief.engine) == (1, 1, None, "serial")


def test_tokens_are_counted_by_record_and_mismatches_found(monkeypatch):
    from divulge import types as divulge_types

    monkeypatch.setattr(fine_tuning.LoadedFineTune, "__post_init__", lambda self: None)
    loaded = fine_tuning.LoadedFineTune(FineTuneSettings("hf:base"))
    object.__setattr__(loaded, "base", types.SimpleNamespace(
        encoded=lambda texts: [list(range(len(text))) for text in texts], tokenizer="base", length=3,
    ))  # fmt: skip
    two = divulge_types.SEPARATOR.join(["abc", "ab"])
    assert loaded.count_tokens(["abcd", "", two, "a"]) == [3, 0, 3, 0]
    assert loaded.tokenised(["abcd", "a", two]) == [[[0, 1, 2], [2, 3]], [], [[0, 1, 2], [0, 1]]]
    ends = {"base": [[1, 2], [1, 2, 3], [1, 2]], "target": [[1, 2], [1, 2, 4], None]}
    monkeypatch.setattr(fine_tuning, "tokenizer_digest", lambda tokenizer: tokenizer)
    monkeypatch.setattr(fine_tuning.token_statistics, "token_ends", lambda model, record: ends[model.tokenizer][record])
    target = types.SimpleNamespace(tokenizer="target")
    assert loaded.find_token_mismatch(target, [0, 1]) == (1, 2)
    assert loaded.find_token_mismatch(target, [0, 2]) is None
    assert loaded.find_token_mismatch(types.SimpleNamespace(tokenizer="base"), [0, 1]) is None
    assert loaded.find_token_mismatch(types.SimpleNamespace(), [0, 1]) is None
    ends["target"][0] = [1]  # one token less, and those that are there end alike
    assert loaded.find_token_mismatch(target, [0]) == (0, 0)


def shared_layer():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def frozen_layer():
    layer = nn.Linear(3, 3)
    layer.bias.requires_grad_(requires_grad=False)
    return layer


def hooked(register):
    layer = nn.Linear(3, 3)
    getattr(layer, register)(lambda *arguments: None)
    return layer


class OwnLinear(nn.Linear):
    pass


@pytest.mark.parametrize(
    ("module", "activations"),
    [
        (nn.Linear(3, 3), ["none"]),
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), ["relu", "none"]),
        (nn.Sequential(nn.Flatten(), nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3)), ["tanh", "none"]),
        (nn.Sequential(nn.Identity(), nn.Sequential(nn.Linear(3, 3), nn.Identity())), ["none"]),
        (nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), ["none", "none"]),
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU()), None),
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.ReLU(), nn.Linear(3, 3)), None),
        (nn.Sequential(nn.ReLU(), nn.Linear(3, 3)), None),
        (nn.Sequential(nn.Linear(3, 3), nn.Flatten(), nn.Linear(3, 3)), None),
        (nn.Sequential(nn.Flatten(2), nn.Linear(3, 3)), None),
        (nn.Sequential(nn.Flatten(1, 2), nn.Linear(3, 3)), None),
        (nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.Linear(3, 3)), None),
        (nn.Sequential(), None),
        (nn.Conv2d(1, 1, 1), None),
        (shared_layer(), None),
        (frozen_layer(), None),
        (hooked("register_forward_hook"), None),
        (hooked("register_forward_pre_hook"), None),
        (OwnLinear(3, 3), None),
    ],
)
def test_a_network_is_an_mlp_where_its_backward_pass_can_be_written_out(module, activations):
    layers = stacked.mlp_layers(module)
    assert (None if layers is None else [layer.activation for layer in layers]) == activations


@pytest.mark.parametrize(
    ("settings", "is_explicit"),
    [({}, True), ({"precision": "double"}, True), ({"precision": "mixed"}, False), ({"privacy": Private(0.0)}, False)],
)
def test_the_backward_pass_is_written_out_in_one_precision_without_privacy(settings, is_explicit):
    assert stacked.has_explicit_backward(Hyperparameters(lambda: nn.Linear(3, 3), **settings)) is is_explicit
    assert not stacked.has_explicit_backward(Hyperparameters(lambda: nn.Conv2d(1, 1, 1), **settings))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_written_out_are_those_of_autograd(activation, bias):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4, bias=bias), activation(), nn.Linear(4, 2)).double()
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 1])
    layers = stacked.mlp_layers(module)
    weights = [module[0].weight.mT.detach(), module[2].weight.mT.detach()]
    biases = [module[0].bias, module[2].bias]
    with torch.no_grad():
        inputs, z = stacked.mlp_forward(layers, weights, biases, x)
        torch.testing.assert_close(z, module(x))
        slopes = stacked.mlp_backward(layers, weights, inputs, z, y, 0.5)
    (0.5 * nn.functional.cross_entropy(module(x), y, reduction="sum")).backward()
    for layer, a, slope in zip((module[0], module[2]), inputs, slopes, strict=True):
        torch.testing.assert_close(slope.mT @ a, layer.weight.grad)
        if layer.bias is not None:
            torch.testing.assert_close(slope.sum(0), layer.bias.grad)


@pytest.mark.parametrize(
    ("sizes", "width", "groups"),
    [
        ([5, 6, 5, 5, 6], 2, [[0, 2], [3], [1, 4]]),
        ([5, 5], 2, [[0, 1]]),
        ([5], 2, [[0]]),
    ],
)
def test_stacks_hold_models_of_equally_many_records(monkeypatch, sizes, width, groups):
    monkeypatch.setattr(stacked, "CPU_WIDTH", width)
    jobs = [Job(model, 0, np.arange(size), "") for model, size in enumerate(sizes)]
    stacks = stacked.group_jobs(None, jobs, torch.device("cpu"))
    assert [[job.model for job in stack] for stack in stacks] == groups
    assert stacked.stack_width(None, 9, torch.device("cpu")) == width
    assert stacked.stack_width(None, 1, torch.device("cpu")) == 1
    assert stacked.stack_width(None, 9, torch.device("meta")) == 9


def test_a_stack_too_large_for_memory_is_halved_and_a_single_network_is_an_error(monkeypatch):
    tried = []

    def train_stack(config, data, jobs, watch):
        tried.append([job.model for job in jobs])
        if len(jobs) > 2 or jobs[0].model == 9:
            raise torch.OutOfMemoryError
        return [f"model {job.model}" for job in jobs]

    monkeypatch.setattr(stacked, "train_stack", train_stack)
    data = types.SimpleNamespace(x=torch.zeros(1))
    jobs = [Job(model, 0, np.arange(3), "") for model in range(5)]
    results = list(stacked.train_stacks(None, data, jobs, None))
    assert [(job.model, module) for job, module in results] == [(i, f"model {i}") for i in range(5)]
    assert tried == [[0, 1, 2, 3, 4], [0, 1], [2, 3], [4]]
    with pytest.raises(torch.OutOfMemoryError):
        list(stacked.train_stacks(None, data, [Job(9, 0, np.arange(3), "")], None))


def test_networks_of_a_stack_end_where_they_diverge_or_are_accurate_enough():
    stack = types.SimpleNamespace(finite=lambda: [True, False, True, True], module=lambda index: f"module {index}")
    jobs = [Job(model, 0, np.arange(10), "") for model in range(4)]
    correct = torch.tensor([5.0, 9.0, 4.0, 9.0])
    finished = {3: "before"}
    stacked._finish_networks(Hyperparameters(stop_at_accuracy=0.5), stack, jobs, correct, finished)
    assert finished == {0: "module 0", 1: None, 3: "before"}
    finished = {}
    stacked._finish_networks(Hyperparameters(), stack, jobs, torch.full((4,), 10.0), finished)
    assert finished == {1: None}


def test_the_reason_against_a_stack_is_named():
    data = network_training.TrainingData(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]))

    def reason(make, **settings):
        return stacked.unstackable_reason(Hyperparameters(make, **settings), data)

    assert reason(lambda: nn.Linear(3, 3)) == ""
    assert reason(lambda: nn.Linear(3, 3), privacy=Private(0.0)) == "DP-SGD trains one network at a time"
    assert reason(lambda: nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 3))) == ""
    assert "random" in reason(lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.Linear(3, 3)))


def test_private_training_counts_its_epochs(monkeypatch):
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    data = network_training.TrainingData(torch.from_numpy(x), torch.arange(10) % 3)
    sizes = []
    batches = private.poisson_batches
    monkeypatch.setattr(private, "poisson_batches", lambda *a, **k: sizes.append((a, k)) or batches(*a, **k))
    for stop_after, expected in ((None, [0.25, 0.5, 0.75, 1.0]), (2, [0.5, 1.0])):
        shares = []
        config = Hyperparameters(
            lambda: nn.Linear(3, 3), epochs=4, batch_size=4, privacy=Private(0.0), stop_after=stop_after
        )
        private.train_privately(config, data, np.arange(10), 0, shares.append)
        assert shares == expected
    values = [value for value in (*sizes[0][0], *sizes[0][1].values()) if isinstance(value, int)]
    assert 3 in values  # steps: ceil(10 / 4)
    assert 4 in values


@pytest.mark.parametrize(
    ("stop_after", "epochs", "is_allowed"), [(None, 3, True), (3, 3, True), (4, 3, False), (1, 3, True)]
)
def test_training_stops_no_later_than_its_last_epoch(stop_after, epochs, is_allowed):
    if is_allowed:
        matching.check_stop(stop_after, epochs)
        return
    with pytest.raises(InputError, match=r"stop_after: must be at most epochs = 3, got 4"):
        matching.check_stop(stop_after, epochs)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (True, 1), ([1], (1,)), ({1}, [1]), ({"a": 1}, {"a": 2}), ({"a": 1}, {"b": 1}), ([1, 2], [2, 1]),
        (np.arange(2), np.arange(2.0)), (np.array(["a"], object), np.array(["b"], object)), (np.sin, np.cos),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (functools.partial(max, key=len), functools.partial(max)),
        (np.random.default_rng(0), np.random.default_rng(1)), (nn.Linear(2, 2), nn.Linear(2, 3)),
        (torch.zeros(2), torch.ones(2)), ("abc".upper, "abd".upper), (pool, matching), ({1: [object]}, {1: [int]}),
    ],
)  # fmt: skip
def test_values_that_differ_have_other_digests(one, other):
    assert pool.digest_value(one) == pool.digest_value(one)
    assert pool.digest_value(one) != pool.digest_value(other)


def test_the_order_of_a_set_does_not_count_and_values_that_hold_themselves_have_a_digest():
    assert pool.digest_value({"a", "b", (1, 2)}) == pool.digest_value({(1, 2), "b", "a"})
    assert pool.digest_value({"a", (1, 2)}) != pool.digest_value(frozenset({"a", (1, 2)}))
    endless: list = []
    endless.append(endless)
    assert pool.digest_value(endless) == pool.digest_value(endless)


@pytest.mark.parametrize(
    ("value", "is_plain"),
    [
        (None, True), (1, True), ("a", True), (np.float32(1), True), ([1, (2, {"a": 3})], True), ({1}, False),
        ([[[[1]]]], True), ([[[[[1]]]]], False), ([object()], False), ({"a": {1}}, False), ({(1, 2): 3}, True),
    ],
)  # fmt: skip
def test_plain_values_are_numbers_texts_and_ordered_containers_of_them(value, is_plain):
    assert pool._is_plain(value) is is_plain


@pytest.mark.parametrize(("stop_after", "shares"), [(None, [0.25, 0.5, 0.75, 1.0]), (2, [0.5, 1.0])])
def test_each_network_of_a_stack_tells_the_share_of_its_epochs(stop_after, shares):
    data = network_training.TrainingData(torch.randn(6, 3), torch.arange(6) % 3)
    config = Hyperparameters(lambda: nn.Linear(3, 3), epochs=4, batch_size=3, stop_after=stop_after)
    told = []
    jobs = [Job(model, model, np.arange(6), "") for model in range(2)]
    stacked.train_stack(config, data, jobs, lambda job, share: told.append((job.model, share)))
    assert told == [(model, share) for share in shares for model in range(2)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_answer_that_is_no_number_stops_a_trial_model(value):
    answers = np.array([0.0, value, 1.0])
    goal = matching.MatchGoal([0], np.zeros(3), lambda target, records: answers)
    for only in (None, 1):
        visit = matching._Visit(goal, {}, 0, only, None, False)
        assert visit(1, types.SimpleNamespace(target=None)) == (False, True)
        assert visit.nearest == 0
        assert visit.answers == {}


@pytest.mark.parametrize(("options", "prune"), [({}, False), ({"prune": True}, True)])
def test_a_trial_is_trained_to_its_end_unless_it_may_be_given_up(monkeypatch, options, prune):
    visits = []
    learner = types.SimpleNamespace(check=lambda task: None, trace=lambda task, job, visit: visits.append(visit))
    training = types.SimpleNamespace(
        with_settings=lambda **changes: training, make_learner=lambda records: learner, epochs=3
    )
    make_task = lambda learner, request: types.SimpleNamespace(learner=learner)  # noqa: E731
    monkeypatch.setattr(matching.fitting, "make_task", make_task)
    monkeypatch.setattr(matching.fitting, "make_job", lambda *arguments: None)
    search = matching._Search(training, types.SimpleNamespace(records=None), [0, 1, 2], 0, None)
    setting, epoch = search.run({"lr": 0.1}, "epochs", **options)
    assert [visit.prune for visit in visits] == [prune]  # a training that gives no model is not repeated
    assert (setting.rmse, setting.answers, epoch, search.n_models) == (np.inf, (), 0, 1)
    assert search.tried == [setting]
