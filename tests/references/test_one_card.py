"""Reference models on one card: how often this machine waits for it, what is sent to it, and what its memory holds."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

import cards  # noqa: E402
from divulge import InputError, regressors  # noqa: E402
from divulge.references import Private, Train, network_learner, network_training, stacked  # noqa: E402
from divulge.references.jobs import Job  # noqa: E402
from divulge.targets import TorchTarget, device_memory  # noqa: E402

CPU_ALLOCATOR = RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")


@pytest.fixture(autouse=True)
def forget():
    yield
    device_memory.forget_sizes()


def fit_on_card(fit, train, **options):
    with cards.Gpu() as gpu:
        return fit(replace(train, device="cuda:0"), **options), gpu


def test_models_on_a_card_are_those_of_the_cpu(fit, networks):
    train = Train(networks.mlp, 6, epochs=3, engine="stacked")
    on_card, _ = fit_on_card(fit, train)
    np.testing.assert_allclose(on_card.outputs[0], fit(train).outputs[0], atol=1e-5)


def test_an_epoch_of_a_stack_waits_for_the_card_once(fit, networks, records):
    """However many networks there are, and however many tensors each has."""
    even = records[np.arange(200)]  # all models in one stack
    for count in (2, 12):
        train = Train(networks.mlp, count, lr=1e-3, stop_at_accuracy=0.999, engine="stacked")
        n_waits = [len(fit_on_card(fit, replace(train, epochs=epochs), data=even)[1].waits) for epochs in (2, 7)]
        assert n_waits[1] - n_waits[0] == 5


@pytest.mark.parametrize("name", ["mlp", "own"])
def test_an_epoch_of_a_stack_reads_no_number_of_a_network_by_itself(fit, networks, name):
    counts = []
    for epochs in (2, 7):
        with cards.Reads() as reads:
            fit(Train(getattr(networks, name), 12, epochs=epochs, engine="stacked", device="cpu"))
        counts.append(reads.count)
    assert counts[0] == counts[1]


def test_an_epoch_of_one_network_reads_one_number(fit, networks):
    counts = []
    for epochs in (2, 7):
        with cards.Reads() as reads:
            fit(Train(networks.cnn, 1, epochs=epochs, engine="serial", device="cpu"))
        counts.append(reads.count)
    assert counts[1] - counts[0] <= 5


def test_batches_go_to_a_card_from_pinned_memory_and_are_not_waited_for(fit, networks, records):
    even = records[np.arange(200)]
    _, gpu = fit_on_card(fit, Train(networks.mlp, 4, epochs=3, batch_size=30, engine="stacked"), data=even)
    assert [upload for upload in gpu.uploads if upload[0] == 4 * 30] == [(4 * 30, True, True)] * 9  # places of records
    assert [upload for upload in gpu.uploads if upload[0] == 200 * 36] == [(200 * 36, True, True)] * 5  # and they
    with cards.Gpu() as gpu:
        on_card = TorchTarget(networks.cnn(), device="cuda:0", batch_size=50).logits(even)
    assert on_card.shape == (200, 4)
    assert [upload for upload in gpu.uploads if upload[0] == 50 * 36] == [(50 * 36, True, True)] * 4


class SinglePrecisionGpu(cards.Gpu):
    """A card without numbers in double precision, as Apple's."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = super().__torch_dispatch__(function, types, args, kwargs)
        if isinstance(result, cards.CardTensor) and result.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        return result


def test_nothing_is_in_double_precision_on_a_card(networks, records):
    torch.manual_seed(0)
    target = TorchTarget(networks.cnn(), device="cpu")
    expected = [target.logits(records), *target.head(records)]
    with SinglePrecisionGpu():
        on_card = replace(target, device="cuda:0")
        for values, values_of_cpu in zip([on_card.logits(records), *on_card.head(records)], expected, strict=True):
            np.testing.assert_allclose(values, values_of_cpu, atol=1e-5)


def test_what_would_take_much_pinned_memory_is_sent_without(monkeypatch, networks, records):
    monkeypatch.setattr("divulge.networks._MAX_PINNED_BYTES", 100)
    with cards.Gpu() as gpu:
        TorchTarget(networks.mlp(), device="cuda:0").logits(records)
    assert not any(is_pinned for _, is_pinned, _ in gpu.uploads)


ASKED = {
    "logits": lambda target, records: target.logits(records),
    "gradients": lambda target, records: target.gradients(records),
    "gradient norms": lambda target, records: target.gradient_norms(records),
    "head": lambda target, records: np.hstack([target.head(records)[0], target.logits(records)]),
}


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        *((asked, torch.OutOfMemoryError("HIP out of memory")) for asked in ASKED),
        *(("logits", error) for error in (CPU_ALLOCATOR, MemoryError())),
    ],
)
def test_a_target_is_asked_about_fewer_records_where_memory_runs_out(networks, records, asked, error):
    torch.manual_seed(0)
    target = TorchTarget(networks.mlp(), device="cpu", batch_size=203)
    expected = ASKED[asked](target, records)
    with cards.SmallMemory(28_000, error) as memory:  # the records have 203 x 36 x 4
        np.testing.assert_allclose(ASKED[asked](target, records), expected, atol=1e-5)
        assert memory.refused
        memory.refused.clear()
        ASKED[asked](target, records)
        assert not memory.refused  # what did not fit is not tried again


def test_a_record_that_does_not_fit_is_an_error_that_says_so(networks, records):
    target = TorchTarget(networks.cnn(), device="cpu")
    with cards.SmallMemory(100), pytest.raises(InputError, match=r"memory: cpu has too little for 36 values"):
        target.logits(records)


def test_a_network_that_fails_for_another_reason_is_not_asked_again(networks, records):
    class Odd(torch.nn.Module):
        calls = 0

        def forward(self, x):
            Odd.calls += 1
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(InputError, match="cannot take records"):
        TorchTarget(Odd(), device="cpu").logits(records)
    assert Odd.calls == 1


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_references_are_asked_about_fewer_records_where_memory_runs_out(fit, networks, records, tmp_path, name):
    train = Train(getattr(networks, name), 4, epochs=1, engine="serial", device="cpu")
    expected = fit(train, pool=tmp_path).outputs[0]
    with cards.SmallMemory(8_000) as memory:  # 64 records have 64 x 36 x 4
        restored = fit(train, pool=tmp_path)
    assert restored.reused == 4
    np.testing.assert_allclose(restored.outputs[0], expected, atol=1e-5)
    assert 1 <= len(memory.refused) <= 2  # by the first model alone


def test_a_regressor_answers_about_fewer_records_where_memory_runs_out():
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    fitted = regressors.Network(regressors.bodies.MLP((16,)), epochs=2, device="cpu").fit(x, x[:, 0].astype(float), 0)
    expected = fitted.predict(x)
    with cards.SmallMemory(6_000) as memory:
        np.testing.assert_allclose(fitted.predict(x), expected, atol=1e-5)
    assert memory.refused


@pytest.mark.parametrize("name", ["mlp", "own"])
def test_a_stack_is_halved_until_it_fits_and_the_next_begins_there(fit, networks, records, name):
    even = records[np.arange(200)]
    train = Train(getattr(networks, name), 8, epochs=2, batch_size=100, engine="stacked", device="cpu")
    expected = fit(train, data=even).outputs[0]
    with cards.SmallMemory(3 * 100 * 36 * 4) as memory:  # a batch of records for each of three networks
        np.testing.assert_allclose(fit(train, data=even).outputs[0], expected, atol=1e-5)
        assert 1 <= len(memory.refused) <= 3
        memory.refused.clear()
        fit(train, data=even)
        assert not memory.refused
    assert (fit(train, data=even).outputs[0] == expected).all() or name == "own"


def test_a_stack_that_does_not_fit_is_timed_as_wide_as_it_will_be(fit, networks, records, monkeypatch):
    monkeypatch.setattr(network_learner, "TRIAL_BATCHES", 1)
    train = Train(networks.own, 5, epochs=140, batch_size=100, device="cpu", workers=1)
    with cards.SmallMemory(3 * 100 * 36 * 4):
        engine = fit(train, data=records[np.arange(200)]).engine
    assert "in a stack of " in engine
    assert "in a stack of 5" not in engine


@pytest.mark.parametrize("settings", [{"engine": "stacked"}, {"engine": "serial"}, {"privacy": Private(1.0, 1.0)}])
def test_a_step_that_does_not_fit_is_an_error_that_says_what_helps(settings):
    wide = Train(lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 4)), 2, epochs=1, device="cpu")
    train = replace(wide, batch_size=200, **settings)
    data = network_training.TrainingData(torch.zeros(203, 36), torch.zeros(203, dtype=torch.int64))

    def learn():
        if settings.get("engine") == "stacked":
            return list(stacked.train_stacks(train, data, [Job(0, 0, np.arange(200), "")], lambda job, share: None))
        return network_learner.train_network(train, data, np.arange(200), 0)

    with cards.SmallMemory(100 * 36), pytest.raises(InputError, match=r"memory: cpu has too little .*batch_size"):
        learn()
