"""Networks in the forms in which they are served: of lower precision, frozen or exported by torch, in ONNX files."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import divulge as dv
from divulge import plan, targets
from divulge.targets import rights

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
RECORDS = dv.Records(X, np.arange(7) % 3)


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


class HeadFirst(nn.Module):
    """A head in single precision that is named before the body in bfloat16, which takes the records."""

    def __init__(self):
        super().__init__()
        network = make_network()
        self.head, self.body = network[2], network[0].bfloat16()

    def forward(self, x):
        return self.head(torch.relu(self.body(x)).float())


FORMS = {
    "bfloat16": lambda: make_network().bfloat16(),
    "several types": HeadFirst,
    "scripted": lambda: torch.jit.script(make_network()),
    "traced": lambda: torch.jit.trace(make_network(), torch.zeros(2, 4)),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(make_network())),
    "frozen bfloat16": lambda: torch.jit.freeze(torch.jit.script(make_network().bfloat16())),
    "exported": lambda: torch.export.export(
        make_network(), (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("n", max=4096)},)
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("form", FORMS)
def test_a_network_answers_alike_in_every_form(form):
    expected = make_network()(torch.from_numpy(X)).detach().numpy()
    target = targets.TorchTarget(FORMS[form](), device="cpu")
    is_coarse = "bfloat16" in form or form == "several types"
    np.testing.assert_allclose(target.logits(RECORDS), expected, atol=0.02 if is_coarse else 1e-6)
    assert target.gradients(RECORDS).shape == X.shape
    assert all(array.dtype == np.float32 for array in target.weights().values())


def test_the_inside_of_a_network_in_bfloat16_is_read():
    exact, coarse = (targets.TorchTarget(network, device="cpu") for network in (make_network(), FORMS["bfloat16"]()))
    np.testing.assert_allclose(coarse.gradient_norms(RECORDS), exact.gradient_norms(RECORDS), atol=0.1)
    np.testing.assert_allclose(coarse.head(RECORDS)[0], exact.head(RECORDS)[0], atol=0.02)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_frozen_networks_which_show_no_weights_are_not_taken_for_one_another():
    first, second = (targets.TorchTarget(FORMS["frozen"](), device="cpu") for _ in range(2))
    assert rights.weights_key(first) == rights.weights_key(second) == ""


def test_a_type_that_the_network_cannot_compute_with_is_an_error():
    network = make_network()
    for parameter in network.parameters():
        parameter.data = parameter.data.to(torch.float8_e4m3fn)
    with pytest.raises(dv.InputError, match="float8"):
        targets.TorchTarget(network, device="cpu").logits(RECORDS)


def test_the_gradient_of_one_probability_is_that_of_its_log_odds():
    network = nn.Linear(4, 1)
    records = dv.Records(X, np.arange(7) % 2)
    as_logits = targets.TorchTarget(network, device="cpu")
    as_probabilities = targets.TorchTarget(nn.Sequential(network, nn.Sigmoid()), "probabilities", "cpu")
    np.testing.assert_allclose(as_logits.gradients(records), as_probabilities.gradients(records), atol=1e-6)


WEIGHT = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
PROBABILITIES = np.exp(X @ WEIGHT) / np.exp(X @ WEIGHT).sum(axis=1, keepdims=True)
LABEL = helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0)
SOFTMAX = helper.make_node("Softmax", ["logits"], ["p"], axis=1)
TYPES = {"logits": TensorProto.FLOAT, "p": TensorProto.FLOAT, "label": TensorProto.INT64}


def save_onnx(path, nodes=(), outputs=("logits",), *, batch=None, input_type=TensorProto.FLOAT):
    cast = helper.make_node("Cast", ["x"], ["values"], to=TensorProto.FLOAT)
    product = helper.make_node("MatMul", ["values", "w"], ["logits"])
    values = [
        output if not isinstance(output, str) else helper.make_tensor_value_info(output, TYPES[output], None)
        for output in outputs
    ]
    graph = helper.make_graph(
        [cast, product, *nodes], "g", [helper.make_tensor_value_info("x", input_type, [batch, 4])], values,
        [numpy_helper.from_array(WEIGHT, "w")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.parametrize("outputs", [("logits", "label"), ("label", "logits")])
def test_the_scores_beside_labels_are_read(outputs, tmp_path):
    target = targets.OnnxTarget(save_onnx(tmp_path / "m.onnx", [LABEL], outputs))
    np.testing.assert_allclose(target.logits(RECORDS), X @ WEIGHT, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 7, 10])
@pytest.mark.parametrize("input_type", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_a_model_of_a_fixed_batch_is_asked_in_such_batches(batch, input_type, tmp_path):
    target = targets.OnnxTarget(save_onnx(tmp_path / "m.onnx", batch=batch, input_type=input_type))
    np.testing.assert_allclose(target.logits(RECORDS), X @ WEIGHT, atol=1e-5)


def test_labels_alone_are_no_scores(tmp_path):
    for options in ({"outputs": ("label",)}, {"outputs": ("logits", "label")}):
        path = save_onnx(tmp_path / "m.onnx", [LABEL], **options)
        with pytest.raises(dv.InputError, match=r"'label' holds labels.*labels\(records\)"):
            targets.OnnxTarget(path, output="label").logits(RECORDS)


def test_a_model_of_several_inputs_is_refused_by_their_names(tmp_path):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 4]) for name in ("a", "b")]
    outputs = [helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["sum"])], "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(dv.InputError, match="several inputs, 'a', 'b'"):
        targets.load(str(tmp_path / "m.onnx"))


def test_of_several_outputs_with_scores_one_is_named(tmp_path):
    path = save_onnx(tmp_path / "m.onnx", [SOFTMAX], ("logits", "p"))
    with pytest.raises(dv.InputError, match=r"'logits', 'p'.*target\.output"):
        targets.load(str(path))
    np.testing.assert_allclose(targets.load(str(path), output="logits").logits(RECORDS), X @ WEIGHT, atol=1e-5)
    for role in ("members", "nonmembers", "population"):
        np.savez(tmp_path / f"{role}.npz", x=X, y=np.arange(7) % 3)
    (tmp_path / "plan.toml").write_text(
        'recipes = ["loss"]\n[target]\nmodel = "m.onnx"\noutput = "p"\noutputs = "probabilities"\n[data]\n'
        'members = "members.npz"\nnonmembers = "nonmembers.npz"\npopulation = "population.npz"\n'
    )
    resolved = plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)
    np.testing.assert_allclose(np.exp(resolved.target.logits(RECORDS)), PROBABILITIES, atol=1e-5)
    with pytest.raises(dv.InputError, match=r"target\.output"):
        targets.load("module:model", output="p")


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize(
    ("classes", "columns", "names"),
    [
        ([0, 1, 2], [0, 1, 2], None),
        ([0, 2, 3], [0, 2, 3], None),
        ([-1, 0, 1], [0, 1, 2], ("-1", "0", "1")),
        (["a", "b", "c"], [0, 1, 2], ("a", "b", "c")),
        (["c", "a", "b"], [2, 0, 1], ("a", "b", "c")),
    ],
)
def test_dictionaries_from_classes_to_scores_become_columns(classes, columns, names, batch, tmp_path):
    is_text = isinstance(classes[0], str)
    attribute = {"classlabels_strings": classes} if is_text else {"classlabels_int64s": classes}
    zipped = helper.make_map_type_proto(
        TensorProto.STRING if is_text else TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    nodes = [SOFTMAX, LABEL, helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", **attribute)]
    outputs = ("label", helper.make_value_info("z", helper.make_sequence_type_proto(zipped)))
    target = targets.OnnxTarget(save_onnx(tmp_path / "m.onnx", nodes, outputs, batch=batch), "probabilities")
    logits = target.logits(RECORDS)
    np.testing.assert_allclose(np.exp(logits[:, columns]), PROBABILITIES, atol=1e-5)
    assert logits.shape[1] == max(columns) + 1
    assert target.class_names == names


def test_records_with_fractions_are_not_cut_for_a_model_of_whole_numbers(tmp_path):
    target = targets.OnnxTarget(save_onnx(tmp_path / "m.onnx", input_type=TensorProto.INT64))
    assert target.logits(dv.Records(np.eye(4))).shape == (4, 3)
    with pytest.raises(dv.InputError, match=r"int64.*other values"):
        target.logits(RECORDS)
