"""Models that others trained and saved, through the command line: real networks, ONNX, scikit-learn."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

DATA = os.environ.get("DIVULGE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="DIVULGE_DATA names no folder of data")

NETWORKS = """
import torch
from torch import nn
from torch.nn import functional as f

class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.stride, self.padding = stride, (b - a) // 2

    def forward(self, x):
        short = f.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.padding, self.padding))
        return f.relu(self.bn2(self.conv2(f.relu(self.bn1(self.conv1(x))))) + short)

class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(f.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean(dim=(2, 3)))

class Tanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5), nn.Conv2d(16, 32, 4)
        self.fc1, self.fc2 = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = f.max_pool2d(torch.tanh(conv(x)), 2)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))
"""


def audited(divulge, folder, target, recipes, **sets):
    """The summary of `divulge audit` on these sets, and every answer of the verdict."""
    for name, (x, y) in sets.items():
        np.savez(folder / f"{name}.npz", x=x, y=y)
    files = "\n".join(f'{name} = "{name}.npz"' for name in sets)
    plan = f"recipes = {json.dumps(recipes)}\nfpr = [0.01, 0.05]\n[target]\n{target}\n[data]\n{files}\n"
    (folder / "plan.toml").write_text(plan)
    code, _, errors = divulge("audit", folder / "plan.toml", "--out", folder / "run")
    assert code == 0, errors
    return json.loads((folder / "run" / "summary.json").read_text())


def shares(x, y, *sizes):
    """The first records, then the next, and so on."""
    ends = np.cumsum((0, *sizes))
    return [(x[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]


@needs_data
def test_a_residual_network_that_leaks_little(divulge, tmp_path):
    """Trained on all of CIFAR-10's training images; its loss finds members no better than by chance at 1 %."""
    rows = np.random.default_rng(0).permutation(6000)[:300]
    with np.load(Path(DATA) / "cifar10_12k.npz") as z:
        images = [decoded(z[name][:, rows]) for name in ("res_train", "res_test")]
        labels = [z[name][rows].astype(int) for name in ("y_train", "y_test")]
    x = [(part / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225) for part in images]
    x = [part.transpose(0, 3, 1, 2).astype(np.float32) for part in x]
    (tmp_path / "strangers.py").write_text(NETWORKS)
    result = audited(
        divulge,
        tmp_path,
        f'model = "{DATA}/models/resnet20_cifar10.safetensors"\nfactory = "strangers:ResNet20"',
        ["loss"],
        members=(x[0][:200], labels[0][:200]),
        **dict(zip(("nonmembers", "population"), shares(x[1], labels[1], 200, 100), strict=True)),
    )
    recipe = result["recipes"]["loss"]
    assert 0.5 < recipe["auc"]["value"] < 0.62  # its accuracy is .999 on members and .903 on others
    assert recipe["tpr_at_fpr"]["0.01"]["low"] < 0.01 < recipe["tpr_at_fpr"]["0.01"]["high"]
    assert "TPR at FPR 0.01" not in result["verdict"]["text"]


def decoded(residuals):
    x = np.cumsum(np.cumsum(residuals, 2, dtype=np.uint8), 3, dtype=np.uint8)
    x[0] += x[1]
    x[2] += x[1]
    return x.transpose(1, 2, 3, 0)


@needs_data
@pytest.mark.parametrize("shuffled", [True, False])
def test_of_a_network_that_leaks_nothing_nothing_is_claimed(divulge, tmp_path, shuffled):
    """Trained on the first half of MNIST's training images.

    The files are in the order of their writers: the first of either half differ without any model, and the audit says
    so. Drawn from all of either half, they hardly do.
    """
    with np.load(Path(DATA) / "mnist.npz") as z:
        order = np.r_[np.arange(30_000), np.arange(30_000, 60_000)].reshape(2, -1)
        if shuffled:
            order = np.random.default_rng(0).permuted(order, axis=1)
        rows = order[:, :600].ravel()
        x, y = z["x_train"][rows][:, None].astype(np.float32), z["y_train"][rows].astype(int)
    x = (x / 255 - 0.1307) / 0.3081
    (tmp_path / "strangers.py").write_text(NETWORKS)
    result = audited(
        divulge,
        tmp_path,
        f'model = "{DATA}/models/cnn_mnist_half.safetensors"\nfactory = "strangers:Tanh"',
        ["loss", "entropy"],
        members=(x[:400], y[:400]),
        **dict(zip(("nonmembers", "population"), shares(x[600:], y[600:], 400, 200), strict=True)),
    )
    assert result["verdict"]["answer"] == ("no leak found" if shuffled else "split is confounded")


def table(seed=0, n=900):
    """Eight numbers and labels that are noise for half of the records: a model can only remember them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    return x, np.where(rng.random(n) < 0.5, rng.integers(0, 3, n), np.digitize(x[:, 0], (-0.5, 0.5)))


def naive_auc(probabilities, y):
    """The AUC of the probability of the right class: 300 members, then 300 others."""
    right = probabilities[np.arange(len(y)), y]
    return metrics.roc_auc_score(np.arange(len(y)) < 300, right)


def test_a_forest_in_a_file(divulge, tmp_path):
    import skops.io
    from sklearn.ensemble import RandomForestClassifier

    x, y = table()
    forest = RandomForestClassifier(50, random_state=0).fit(x[:300], y[:300])
    skops.io.dump(forest, tmp_path / "forest.skops")
    sets = dict(zip(("members", "nonmembers", "population"), shares(x, y, 300, 300, 300), strict=True))
    target = 'model = "forest.skops"\ntrust = ["sklearn.tree._tree.Tree"]'
    result = audited(divulge, tmp_path, target, ["loss", "transductive"], **sets)
    assert result["verdict"]["answer"] == "leak found"
    expected = naive_auc(forest.predict_proba(x[:600]), y[:600])
    assert result["recipes"]["loss"]["auc"]["value"] == pytest.approx(expected, abs=0.01)


def test_an_onnx_file(divulge, tmp_path):
    """One hidden layer that scikit-learn trained, written as ONNX by hand."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from sklearn.neural_network import MLPClassifier

    x, y = table()
    net = MLPClassifier((200,), alpha=0, solver="lbfgs", max_iter=2000, random_state=0).fit(x[:300], y[:300])
    weights = {"a": net.coefs_[0], "b": net.intercepts_[0], "c": net.coefs_[1], "d": net.intercepts_[1]}
    nodes = [
        helper.make_node("Gemm", ["x", "a", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "c", "d"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 8])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [None, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "net.onnx")
    sets = dict(zip(("members", "nonmembers", "population"), shares(x, y, 300, 300, 300), strict=True))
    result = audited(divulge, tmp_path, 'model = "net.onnx"', ["loss", "transductive"], **sets)
    assert result["verdict"]["answer"] == "leak found"
    expected = naive_auc(net.predict_proba(x[:600]), y[:600])
    assert result["recipes"]["loss"]["auc"]["value"] == pytest.approx(expected, abs=1e-3)
