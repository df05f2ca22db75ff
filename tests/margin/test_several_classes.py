"""Weights of networks with several classes, and of the head of a frozen body."""

import copy
import json

import numpy as np
import pytest
import safetensors.numpy

import divulge as dv
from divulge import margin, signals


def exact_network(k):
    """A KKT point of k records and classes, by symmetry: corners of a simplex with a neuron and a multiplier each."""
    corners = 2 * np.sqrt(k) * (np.eye(k) - 1 / k)
    square = (corners[0] ** 2).sum() + 1
    multiplier = 1 / np.sqrt(square * k * (k - 1))
    output = multiplier * k * square * (np.eye(k) - 1 / k)
    return margin.ShallowClassifier(corners, np.ones(k), output), corners, (k - 1) * multiplier


def draw(rng, n, d, k, shift=2.0):
    y = np.arange(n) % k
    x = rng.normal(size=(n, d))
    x[np.arange(n), y] += shift
    return x, y


def train_head(x, y, k, steps=3000):
    """Gradient descent on the cross-entropy of a linear head, in steps as long as the loss is small."""
    w, points, rows = np.zeros((k, x.shape[1] + 1)), np.column_stack([x, np.ones(len(x))]), np.arange(len(x))
    for _ in range(steps):
        f = points @ w.T
        gap = f - f[rows, y][:, None]
        gap[rows, y] = -np.inf
        gap -= gap.max()  # only the ratio of the pulls counts
        pull = -np.exp(gap)
        pull[rows, y] = -pull.sum(axis=1)
        w += 0.02 * (pull / np.abs(pull).sum()).T @ points
    return margin.LinearHead(w[:, :-1], w[:, -1])


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_an_exact_point_has_its_multipliers_and_no_residual(k):
    net, x, multiplier = exact_network(k)
    found = margin.kkt(net, x, np.arange(k))
    assert found.residual < 1e-6
    np.testing.assert_allclose(found.multipliers, multiplier, rtol=1e-4)
    np.testing.assert_allclose(net.margins(x, np.arange(k)), found.margin)
    # Euler: the multipliers of a network of degree 2 sum to half its squared norm over the margin.
    assert found.multipliers.sum() * 2 * found.margin == pytest.approx(net.squared_norm, rel=1e-4)


@pytest.mark.parametrize("kind", ["network", "head"])
def test_no_fresh_record_passes_the_bound(kind):
    rng = np.random.default_rng(0)
    if kind == "network":
        net, x, _ = exact_network(4)
    else:
        x, y = draw(rng, 12, 20, 4)
        net = train_head(x, y, 4)
    fresh = rng.normal(size=(2000, x.shape[1])) * rng.choice([0.01, 1, 10], size=(2000, 1))
    geometry = margin.orthogonality(x, fresh, net=net)
    assert (net.margins(fresh) <= 1.02 * geometry.bound * net.margins(x).min()).all()
    near_zero = margin.orthogonality(x, fresh[:5] * 1e-6, net=margin.LinearHead(net(np.eye(len(x[0]))).T))
    assert near_zero.says_something
    decision = margin.known_margin(net, fresh[:5] * 1e-6, net.margins(x).min(), geometry=geometry)
    assert decision.guarantee.standing == "conditional"


def test_multipliers_agree_with_non_negative_least_squares():
    from scipy.optimize import nnls

    rng = np.random.default_rng(1)
    head = margin.LinearHead(rng.normal(size=(3, 4)), rng.normal(size=3))
    x, y = rng.normal(size=(12, 4)), np.arange(12) % 3
    points, columns = np.column_stack([x, np.ones(12)]), []
    for i in range(12):
        for other in set(range(3)) - {y[i]}:
            column = np.zeros((3, 5))
            column[y[i]], column[other] = points[i], -points[i]
            columns.append(column.ravel())
    _, left = nnls(np.array(columns).T, np.column_stack([head.w, head.b]).ravel())
    fit = margin.explain(head, x, y)
    assert fit.residual == pytest.approx(left / np.sqrt(head.squared_norm), abs=1e-5)
    assert (fit.multipliers >= 0).all()


def test_weights_of_a_head_tell_more_members_than_its_loss():
    rng, k = np.random.default_rng(0), 3
    x, y = draw(rng, 600, 200, k)
    head = train_head(x[:60], y[:60], k)
    is_member = np.arange(600) < 60
    by_weights = dv.evaluation.tpr_at_fpr(signals.margin.kkt_nnls(head, x, y), is_member, 0.01)
    by_loss = dv.evaluation.tpr_at_fpr(signals.margin.margin_abs(head, x, y), is_member, 0.01)
    assert by_weights.low > by_loss.value


def test_two_outputs_say_what_one_output_says():
    rng = np.random.default_rng(2)
    y = np.arange(30) % 2
    x = rng.normal(size=(30, 40)) + np.outer(2 * y - 1, np.eye(40)[0])
    one = margin.train(x[:15], 2 * y[:15] - 1, width=60, target_margin=20.0).net
    # Φ = f_1 - f_0 of the least norm: half the output weight for one class, half against the other, neurons balanced.
    two = margin.ShallowClassifier(one.w / 2**0.25, one.b / 2**0.25, np.stack([-one.v, one.v]) * 2**0.25 / 2)
    np.testing.assert_allclose(two.margins(x, y), one.margins(x, 2 * y - 1), rtol=1e-9)
    first, second = margin.multipliers(one, x, 2 * y - 1), margin.multipliers(two, x, y)
    np.testing.assert_allclose(first / first.sum(), second / second.sum(), atol=2e-3)


@pytest.mark.parametrize(
    ("wrong", "word"), [([0, 1, 3], "classes 0 to 2"), ([0, 1], "y"), ([0.5, 1, 2], "classes 0 to 2")]
)
def test_labels_that_the_network_lacks_are_refused(wrong, word):
    net, x, _ = exact_network(3)
    with pytest.raises(dv.InputError, match=word):
        margin.kkt(net, x, wrong)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """A body with random weights, a head trained on its features of 60 of 100 candidates, and files of both."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    folder, rng, k = tmp_path_factory.mktemp("head"), np.random.default_rng(0), 5
    (folder / "own_module.py").write_text(
        "from torch import nn\n\n\ndef make():\n"
        "    body = nn.Sequential(nn.Flatten(), nn.Linear(36, 300), nn.Tanh()).requires_grad_(False)\n"
        "    return nn.Sequential(body, nn.Linear(300, 5))\n"
    )
    namespace = {}
    exec((folder / "own_module.py").read_text(), namespace)
    torch.manual_seed(0)
    module = namespace["make"]()
    x, y = draw(rng, 500, 36, k)
    with torch.no_grad():
        features = module[0](torch.tensor(x, dtype=torch.float32)).double().numpy()
    head = train_head(features[:60], y[:60], k)
    with torch.no_grad():
        module[1].weight.copy_(torch.tensor(head.w))
        module[1].bias.copy_(torch.tensor(head.b))
    save_file(module.state_dict(), folder / "model.safetensors")
    save_file(module[1].state_dict(), folder / "head.safetensors")
    images, member = x.reshape(-1, 6, 6), np.arange(100) < 60
    for name, values in (("images", images), ("features", features)):
        np.savez(folder / f"{name}.npz", x=values[:100], y=y[:100], member=member)
        np.savez(folder / f"{name}-known.npz", x=values[100:], y=y[100:])
    return folder, module, images, y


def test_the_head_of_a_frozen_body_is_read_on_its_features(divulge, frozen, monkeypatch):
    folder = frozen[0]
    monkeypatch.chdir(folder)
    answers = []
    for arguments in (
        ["model.safetensors", "--factory", "own_module:make", "--candidates", "images.npz"],
        ["head.safetensors", "--candidates", "features.npz"],
    ):
        known = arguments[-1].replace(".npz", "-known.npz")
        code, out, err = divulge(
            "weights", *arguments, "--nonmembers", known, "--fdr", 0.1, "--out", "report.html", "--json"
        )
        assert code == 0, err
        answers.append(json.loads(out))
    selected = [np.array(answer["decisions"]["FDR ≤ 0.1"]["selected"]) for answer in answers]
    np.testing.assert_array_equal(*selected)
    assert (selected[0] < 60).mean() > 0.8
    assert len(selected[0]) > 20
    assert "linear head" in (folder / "report.html").read_text()


def test_a_network_that_was_trained_behind_its_last_layer_is_refused(frozen):
    module, images, y = frozen[1:]
    records = dv.Records(images.astype("float32"), y)
    scores = signals.margin.KKTMultipliers().measure(module, records)
    assert dv.evaluation.auc(scores, np.arange(500) < 60).value > 0.8
    with pytest.raises(dv.InputError, match="output layer has a bias"):
        signals.margin.KKTMultipliers().measure(copy.deepcopy(module).requires_grad_(True), records)


def test_premises_that_fail_leave_too_little_to_say(divulge, tmp_path):
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    x, y = draw(rng, 300, 30, 3)
    net = margin.ShallowClassifier(rng.normal(size=(50, 30)), np.zeros(50), rng.normal(size=(3, 50)))
    save_file({"0.weight": net.w, "0.bias": net.b, "2.weight": net.v}, tmp_path / "untrained.safetensors")
    np.savez(tmp_path / "candidates.npz", x=x[:60], y=y[:60], member=np.arange(60) < 30)
    np.savez(tmp_path / "known.npz", x=x[60:], y=y[60:])
    code, out, err = divulge(
        "weights", tmp_path / "untrained.safetensors", "--candidates", tmp_path / "candidates.npz",
        "--nonmembers", tmp_path / "known.npz", "--margin", 1.0, "--json",
    )  # fmt: skip
    assert code == 0, err
    answer = json.loads(out)
    assert answer["verdict"].startswith("Too little to say")
    assert "wrong" in answer["verdict"]
    assert "unexplained" in answer["decisions"]["margin band"]["warnings"][-1]


def test_copies_of_non_members_and_classes_without_any_prove_nothing(divulge, tmp_path):
    """Twelve records were trained on, and none of the candidates."""
    rng = np.random.default_rng(3)
    head = train_head(*draw(rng, 12, 40, 3), 3)
    safetensors.numpy.save_file({"weight": head.w, "bias": head.b}, tmp_path / "head.safetensors")
    (x, y), (fresh, y_fresh) = draw(rng, 150, 40, 3), draw(rng, 60, 40, 3)

    def examine(**sets):
        for name, (rows, labels) in sets.items():
            np.savez(tmp_path / f"{name}.npz", x=rows, y=labels)
        files = [part for name in sets for part in (f"--{name}", tmp_path / f"{name}.npz")]
        return divulge("weights", tmp_path / "head.safetensors", *files, "--json")

    once = json.loads(examine(candidates=(fresh, y_fresh), nonmembers=(x, y))[1])
    often = json.loads(examine(candidates=(fresh, y_fresh), nonmembers=(np.repeat(x, 10, 0), np.repeat(y, 10)))[1])
    assert (often["scores"], often["verdict"]) == (once["scores"], once["verdict"])
    strange = y_fresh == 2
    kept = y != 2
    found = json.loads(examine(candidates=(fresh[strange], y_fresh[strange]), nonmembers=(x[kept], y[kept]))[1])
    assert found["tone"] == "undecided"
    assert "of class 2" in found["verdict"]
    code, _, err = examine(candidates=(x[:20], y[:20]), nonmembers=(x, y))
    assert (code, "20 of the candidates are among them" in err) == (2, True)
