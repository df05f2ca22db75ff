"""Adapters: every kind of model gives the same logits, is left as it was, and says what is wrong."""

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from divulge import targets

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
RECORDS = dv.Records(X, np.arange(20) % 3)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def naive_logits(module):
    module.eval()
    with torch.no_grad():
        return module(torch.from_numpy(X)).numpy()


def test_torch_runs_in_evaluation_mode_in_batches_and_leaves_the_module_as_it_was():
    module = net()
    expected = naive_logits(module)
    module.train()
    module[3].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    logits = targets.TorchTarget(module, batch_size=7, device="cpu").logits(RECORDS)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    assert logits.dtype == np.float64
    assert module.training
    assert not module[3].training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_torch_loss_gradients_and_weights():
    module = net()
    target = targets.TorchTarget(module, device="cpu", batch_size=7)
    step = 1e-3
    shifted = X.copy()
    shifted[:, 1] += step
    numeric = (target.loss(dv.Records(shifted, RECORDS.y)) - target.loss(RECORDS)) / step
    np.testing.assert_allclose(target.gradients(RECORDS)[:, 1], numeric, atol=2e-2)
    assert target.weights()["0.weight"].shape == (8, 4)
    assert target.labels(RECORDS).tolist() == target.logits(RECORDS).argmax(axis=1).tolist()
    with pytest.raises(dv.InputError, match="y is None"):
        target.loss(dv.Records(X))


def test_probabilities_declared_as_logits_are_refused_and_the_other_way_round():
    module = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    with pytest.raises(dv.InputError, match="these are probabilities"):
        targets.TorchTarget(module, device="cpu").logits(RECORDS)
    assert np.exp(targets.TorchTarget(module, "probabilities", "cpu").logits(RECORDS)).sum(axis=1) == pytest.approx(1)
    with pytest.raises(dv.InputError, match="declared as probabilities, but values range"):
        targets.TorchTarget(net(), "probabilities", "cpu").logits(RECORDS)
    for row in ([1.5, 0.0], [1.0, -0.5]):  # one value beyond [0, 1] is enough
        answers = np.array([row, *[[0.5, 0.5]] * (len(RECORDS) - 1)])
        one_beyond = targets.CallableTarget(lambda x, answers=answers: answers, "probabilities")
        with pytest.raises(dv.InputError, match="declared as probabilities, but values range"):
            one_beyond.logits(RECORDS)
    uneven = np.array([[0.5, 0.5]] * (len(RECORDS) - 1) + [[0.5, 0.3]])  # one row that does not sum to one is enough
    with pytest.raises(dv.InputError, match=rf"row {len(RECORDS) - 1} sums to 0\.8, not to one"):
        targets.CallableTarget(lambda x: uneven, "probabilities").logits(RECORDS)
    halves = targets.CallableTarget(lambda x: np.full((len(x), 3), 0.1), "probabilities")
    with pytest.raises(dv.InputError, match=r"row 0 sums to 0\.3"):
        halves.logits(RECORDS)


@pytest.mark.parametrize(
    "answers",
    [
        [[0.5, 0.5]] * 64,  # a constant
        [[0.6, 0.4], [0.3, 0.7]],  # rounded, and two rows happen to sum to one
        [[0.25, 0.75]],
        [[0.123456, 0.876544]],
        np.eye(3),
    ],
)
def test_logits_that_happen_to_sum_to_one_are_logits(answers):
    answers = np.array(answers, float)
    logits = targets.CallableTarget(lambda x: answers).logits(dv.Records(np.zeros((len(answers), 1))))
    np.testing.assert_array_equal(logits, answers)


def test_rounded_probabilities_declared_as_logits_are_refused():
    probabilities = np.arange(1, 9) / 10
    rounded = targets.CallableTarget(lambda x: np.column_stack([probabilities, 1 - probabilities]))
    with pytest.raises(dv.InputError, match="these are probabilities"):
        rounded.logits(dv.Records(np.zeros((8, 1))))


def test_one_column_is_the_log_odds_of_class_one():
    column = targets.CallableTarget(lambda x: x[:, :1])
    odds = column.logits(RECORDS)
    np.testing.assert_allclose(odds[:, 1] - odds[:, 0], X[:, 0], rtol=1e-6)


def test_mixed_devices_nan_outputs_and_misfitting_records_are_named():
    mixed = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3, device="meta"))
    with pytest.raises(dv.InputError, match=r"several devices \(cpu, meta\)"):
        targets.TorchTarget(mixed)
    broken = net()
    with torch.no_grad():
        broken[4].bias[0] = float("nan")
    with pytest.raises(dv.InputError, match="target outputs: 20 values are NaN"):
        targets.TorchTarget(broken, device="cpu").logits(RECORDS)
    with pytest.raises(dv.InputError, match=r"cannot take records of shape \(5,\)"):
        targets.TorchTarget(net(), device="cpu").logits(dv.Records(np.zeros((2, 5))))
    with pytest.raises(dv.InputError, match="device: 'cuda:99'"):
        targets.TorchTarget(net(), device="cuda:99").logits(RECORDS)


def test_sklearn_logistic_regression_gives_logits_that_do_not_saturate():
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e6).fit(X, RECORDS.y)
    np.testing.assert_allclose(targets.adapt(model).logits(RECORDS), model.decision_function(X))


def test_sklearn_trees_give_floored_log_probabilities_over_the_full_label_set():
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(5, bootstrap=False, max_depth=3, random_state=0).fit(
        X, np.where(RECORDS.y == 1, 3, RECORDS.y)
    )
    logits = targets.SklearnTarget(model, classes=5).logits(RECORDS)
    assert logits.shape == (20, 5)
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(np.exp(logits[:, [0, 2, 3]]), model.predict_proba(X), atol=1e-6)
    assert (logits[:, 4] < np.log(1e-6)).all()
    with pytest.raises(dv.InputError, match="labels must be below 3"):
        targets.SklearnTarget(model, classes=3)
    with pytest.raises(dv.InputError, match="not a fitted classifier"):
        targets.SklearnTarget(RandomForestClassifier())


def test_table_is_looked_up_by_id():
    table = targets.TableTarget([7, 3, 5], [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    assert table.logits(dv.Records([[0.0], [0.0]], ids=[5, 7]))[:, 0].tolist() == [3.0, 1.0]
    with pytest.raises(dv.InputError, match=r"1 ids are not in the table of outputs \(first: 9\)"):
        table.logits(dv.Records([[0.0], [0.0]], ids=[5, 9]))
    with pytest.raises(dv.InputError, match="have no ids"):
        table.logits(dv.Records([[0.0]]))


def test_nothing_fits_an_unknown_object():
    with pytest.raises(dv.InputError, match="target: int is neither"):
        targets.adapt(3)


def test_meter_counts_and_refuses_before_the_call():
    meter = targets.Metered(targets.adapt(net(), device="cpu"), limit=30)
    meter.logits(RECORDS)
    assert meter.queries == 20
    with pytest.raises(dv.InputError, match="20 of 30 allowed queries are used and 20 more"):
        meter.logits(RECORDS)
    assert meter.queries == 20


def test_noise_belongs_to_the_record():
    noisy = targets.Noisy(targets.adapt(net(), device="cpu"), scale=1.0, seed=0)
    once = noisy.logits(RECORDS)
    np.testing.assert_array_equal(once[::-1], noisy.logits(RECORDS[np.arange(20)[::-1]]))
    assert np.abs(once - noisy.target.logits(RECORDS)).max() > 0.1


class Writes:
    """A classifier of the user's own, by every right, that scribbles over what it is given."""

    classes_ = np.arange(3)

    def __call__(self, x):
        result = np.stack([x[:, 0], x[:, 1], x[:, 2]], axis=1)
        x[:] = np.nan
        return result

    def predict_proba(self, x):
        odds = np.exp(self(x))
        return odds / odds.sum(axis=1, keepdims=True)


class WritesRecords:
    def logits(self, records):
        return Writes()(records.x)

    def gradients(self, records):
        records.y[:] = 0
        records.x[:] = 0
        return records.x


IN_PLACE = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3))


@pytest.mark.parametrize("model", [Writes().__call__, WritesRecords(), IN_PLACE, Writes()])
@pytest.mark.parametrize("limit", [None, targets.Metered])
def test_what_a_target_writes_into_is_a_copy(model, limit):
    target = targets.adapt(model) if limit is None else limit(targets.adapt(model))
    mine = dv.Records(X.copy(), RECORDS.y.copy())
    expected = target.logits(mine)
    np.testing.assert_array_equal(target.logits(mine), expected)
    if isinstance(target, targets.GivesGradients):
        target.gradients(mine)
    np.testing.assert_array_equal(mine.x, X)
    np.testing.assert_array_equal(mine.y, RECORDS.y)


def test_a_target_of_ones_own_keeps_its_rights_and_no_others():
    for target in (targets.adapt(WritesRecords()), targets.Metered(WritesRecords())):
        assert isinstance(target, targets.GivesLogits)
        assert isinstance(target, targets.GivesGradients)
        assert not isinstance(target, targets.GivesWeights)
        assert not isinstance(target, targets.GivesLabels)


def test_answers_that_are_none_and_errors_of_the_users_code_are_named():
    class Odd:
        def __init__(self, answer):
            self.answer = answer

        def logits(self, records):
            if self.answer is None:
                raise KeyError("mine")
            return self.answer

    for answer in ([[1.0, 2.0]], np.full((20, 2), np.nan), "no", torch.zeros(3, 3), np.zeros((20, 2, 2))):
        with pytest.raises(dv.InputError, match="target outputs: "):
            targets.adapt(Odd(answer)).logits(RECORDS)
    with pytest.raises(dv.InputError, match=r"target: Odd\.logits: your code raised KeyError: 'mine'"):
        targets.adapt(Odd(None)).logits(RECORDS)
    with pytest.raises(dv.InputError, match="target: your code raised ZeroDivisionError"):
        targets.adapt(lambda x: 1 / 0).logits(RECORDS)


class TestFiles:
    """Every file kind that may be offered as a model."""

    def test_safetensors_with_a_factory(self, tmp_path):
        from safetensors.torch import save_file

        module = net()
        save_file(module.state_dict(), tmp_path / "model.safetensors")
        (tmp_path / "mine_factory.py").write_text(
            "from torch import nn\n"
            "def make():\n"
            "    first = (nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())\n"
            "    return nn.Sequential(*first, nn.Dropout(0.5), nn.Linear(8, 3))\n"
            "def wrong():\n    return nn.Linear(4, 3)\n"
        )
        loaded = targets.load("model.safetensors", factory="mine_factory:make", folder=tmp_path, device="cpu")
        np.testing.assert_allclose(loaded.logits(RECORDS), naive_logits(module), rtol=1e-5, atol=1e-6)
        with pytest.raises(dv.InputError, match="does not fit the factory's module"):
            targets.load("model.safetensors", factory="mine_factory:wrong", folder=tmp_path)
        with pytest.raises(dv.InputError, match=r"target\.factory: .* holds only weights"):
            targets.load("model.safetensors", folder=tmp_path)
        with pytest.raises(dv.InputError, match=r"target\.factory: 'mine_factory:none' cannot be imported"):
            targets.load("model.safetensors", factory="mine_factory:none", folder=tmp_path)

    @pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:.*:FutureWarning")
    def test_torchscript_and_exported_programs_are_handed_over_loaded(self, tmp_path):
        module = net().eval()
        torch.jit.trace(module, torch.from_numpy(X)).save(str(tmp_path / "script.pt"))
        batch = torch.export.Dim("batch", min=2)
        exported = torch.export.export(module, (torch.from_numpy(X),), dynamic_shapes=({0: batch},))
        for loaded in (torch.jit.load(str(tmp_path / "script.pt")), exported.module()):
            logits = targets.adapt(loaded, device="cpu").logits(RECORDS)
            np.testing.assert_allclose(logits, naive_logits(module), rtol=1e-4, atol=1e-5)

    def test_skops(self, tmp_path):
        import skops.io
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression().fit(X, RECORDS.y)
        skops.io.dump(model, tmp_path / "model.skops")
        logits = targets.load("model.skops", folder=tmp_path).logits(RECORDS)
        np.testing.assert_allclose(logits, model.decision_function(X))
        (tmp_path / "bad.skops").write_bytes(b"no zip")
        with pytest.raises(dv.InputError, match="not a readable skops file"):
            targets.load("bad.skops", folder=tmp_path)

    def test_onnx(self, tmp_path):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        weight = np.arange(12, dtype=np.float32).reshape(4, 3)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["z"])],
            "linear",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, [None, 3])],
            [numpy_helper.from_array(weight, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, tmp_path / "linear.onnx")
        logits = targets.load("linear.onnx", folder=tmp_path).logits(RECORDS)
        np.testing.assert_allclose(logits, X @ weight, rtol=1e-5, atol=1e-5)
        with pytest.raises(dv.InputError, match="output: 'q' is unknown"):
            targets.OnnxTarget(tmp_path / "linear.onnx", output="q")
        (tmp_path / "bad.onnx").write_bytes(b"nothing")
        with pytest.raises(dv.InputError, match="is not a readable ONNX model"):
            targets.load("bad.onnx", folder=tmp_path)

    def test_pickles_are_refused_whatever_they_are_called(self, tmp_path):
        import pickle

        torch.save(net(), tmp_path / "whole.pt")
        (tmp_path / "model.pkl").write_bytes(pickle.dumps({"w": 1}))
        (tmp_path / "model.joblib").write_bytes(pickle.dumps({"w": 1}))
        for name in ("whole.pt", "model.pkl", "model.joblib"):
            with pytest.raises(dv.InputError, match="without running code from it"):
                targets.load(name, folder=tmp_path)
        with pytest.raises(dv.InputError, match="no such file"):
            targets.load("absent.pt", folder=tmp_path)

    def test_a_name_is_that_of_a_model_a_predictor_or_a_factory(self, tmp_path):
        (tmp_path / "mine_target.py").write_text(
            "import torch\n"
            "def predict(x):\n    return x[:, :3]\n"
            "def make():\n    return predict\n"
            "def seeded(seed=0):\n    return predict\n"
            "class Cut(torch.nn.Module):\n"
            "    def forward(self, x):\n        return x[:, :3]\n"
            "cut = Cut()\n"
        )
        for name in ("predict", "make", "seeded", "Cut", "cut", "cut.forward"):
            loaded = targets.load(f"mine_target:{name}", folder=tmp_path, device="cpu")
            if name != "cut.forward":
                np.testing.assert_allclose(loaded.logits(RECORDS), X[:, :3])
