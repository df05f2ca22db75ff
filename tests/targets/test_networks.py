"""Networks as targets: gradients, devices, quantised weights, lengths, and folders of SACRO."""

import types

import numpy as np
import pytest

import divulge as dv
from divulge import targets
from divulge.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from divulge.targets import (  # noqa: E402
    language_models,
    sacro_folders,
    torch_modules,
)

X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
Y = np.arange(7) % 4


def net(outputs=4, bias=True):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, outputs, bias=bias))


def test_every_part_of_a_network_trains_as_before_after_it_was_asked():
    network = torch.nn.Sequential(net(), torch.nn.Dropout(), torch.nn.Sequential(torch.nn.Dropout()))
    network[1].eval()
    before = [part.training for part in network.modules()]
    targets.adapt(network, device="cpu").logits(dv.Records(X))
    assert [part.training for part in network.modules()] == before


@pytest.mark.parametrize("batch_size", [2, 7, 100])
def test_hidden_layer_gradients_and_losses_are_those_of_the_module(batch_size):
    module = net()
    target = targets.TorchTarget(module, device="cpu", batch_size=batch_size)
    records = dv.Records(X, Y)
    hidden, weights = target.head(records)
    with torch.no_grad():
        np.testing.assert_allclose(hidden, module[:2](torch.from_numpy(X)).numpy(), rtol=1e-5)
    np.testing.assert_array_equal(weights, module[2].weight.detach().numpy())
    x = torch.from_numpy(X).requires_grad_()
    losses = torch.nn.functional.cross_entropy(module(x), torch.from_numpy(Y), reduction="none")
    np.testing.assert_allclose(target.loss(records), losses.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(target.gradients(records), torch.autograd.grad(losses.sum(), x)[0], rtol=1e-4, atol=1e-6)
    probable = targets.TorchTarget(torch.nn.Sequential(module, torch.nn.Softmax(1)), "probabilities", "cpu", batch_size)
    np.testing.assert_allclose(probable.gradients(records), target.gradients(records), rtol=1e-3, atol=1e-6)
    for right in (target.loss, target.gradients):
        with pytest.raises(InputError, match="a loss needs labels, but y is None"):
            right(dv.Records(X))


def test_whole_numbers_are_tokens_where_a_module_embeds_them():
    embedding = torch.nn.Embedding(9, 2)
    tokens = np.arange(6).reshape(2, 3)

    def dtype(module, x):
        taken = []
        hook = module.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0].dtype))
        try:
            torch_modules.TorchTarget(module, device="cpu").raw_outputs(dv.Records(x))
        except InputError:
            if not taken:
                raise
        finally:
            hook.remove()
        return taken[-1]

    assert dtype(embedding, tokens) == torch.int64
    assert dtype(embedding, tokens.astype(float)) == torch.float32
    assert dtype(net(), tokens) == torch.float32
    assert dtype(net().double(), tokens) == torch.float64
    assert dtype(torch.nn.Identity(), tokens) == torch.float32
    with pytest.raises(InputError, match="got text"):
        dtype(net(), np.array(["a"], object))


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_has_a_record(batch_size):
    with pytest.raises(InputError, match="batch_size"):
        targets.TorchTarget(net(), batch_size=batch_size)
    assert targets.TorchTarget(net(), batch_size=1).batch_size == 1


@pytest.mark.parametrize(
    ("stored", "names", "is_refused"),
    [
        ({"w": "I8"}, {"w": torch.float32}, True),
        ({"w": "torch.int8"}, {"w": torch.float32}, True),
        ({"w": "U8"}, {"model.w": torch.float16}, True),
        ({"model.w": "I8"}, {"w": torch.float32}, True),
        ({"w": "F32", "v": "I8"}, {"w": torch.float32, "v": torch.float32}, True),
        ({"w": "F16"}, {"w": torch.float32}, False),
        ({"w": "BF16"}, {"w": torch.float32}, False),
        ({"w": "C64"}, {"w": torch.float32}, False),
        ({"w": "torch.float32"}, {"w": torch.float32}, False),
        ({"w": "I64"}, {"w": torch.int64}, False),
        ({"w": "I8"}, {"xw": torch.float32}, False),
        ({"w": "I8"}, {}, False),
    ],
)
def test_whole_numbers_where_a_module_has_floats_are_quantised_weights(stored, names, is_refused):
    parameters = {name: torch.zeros(1, dtype=dtype) for name, dtype in names.items()}
    if not is_refused:
        torch_modules.reject_quantised_weights(stored, parameters)
        return
    with pytest.raises(ValueError, match="quantised weights mean nothing without their scales"):
        torch_modules.reject_quantised_weights(stored, parameters)


def sacro(folder, **content):
    import yaml

    (folder / "target.yaml").write_text(yaml.safe_dump({"model_path": "m.skops"} | content))
    return sacro_folders.read_sacro_folder(folder)


def feature(*indices, name="a"):
    return {"name": name, "indices": list(indices)}


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        ({0: feature(0), 1: feature(1, name="b")}, ("a", "b")),
        ({0: feature(1), 1: feature(0, name="b")}, ("b", "a")),
        ({0: feature(0), 1: feature(1)}, ()),
        ({0: feature(0, name="label")}, ()),
        ({0: feature(0, 1)}, ()),
        ({0: feature()}, ()),
        ({0: feature(1)}, ()),
        ({0: feature(0), 1: 3}, ()),
        ([feature(0)], ()),
        (None, ()),
    ],
)
def test_columns_of_a_folder_are_named_where_each_feature_is_one(tmp_path, features, columns):
    assert sacro(tmp_path, features=features).columns == columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nmodel_path: m\nb: *x", "it holds an alias"),
        ("a: [", "is not readable YAML"),
        ("[1]", "names no model"),
        ("model_name: x", "names no model"),
        ("model_path: ../m", r"names \.\./m, which lies outside of it"),
        ("model_path: m\nX_train_path: /etc/passwd", "names /etc/passwd, which lies outside of it"),
    ],
)
def test_a_folder_that_names_no_model_of_its_own_is_refused(tmp_path, text, message):
    (tmp_path / "target.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        sacro_folders.read_sacro_folder(tmp_path)


def test_records_of_a_folder_become_tables(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    np.savetxt(tmp_path / "y.csv", [0, 1, 1], delimiter=",")
    np.savetxt(tmp_path / "xt.csv", [[1.5, 2.5]], delimiter=",")
    np.save(tmp_path / "yt.npy", np.array([[0.5]]))
    (tmp_path / "y.txt").touch()
    paths = {"X_train_path": "x.npy", "y_train_path": "y.csv", "X_test_path": "xt.csv"}
    folder = sacro(tmp_path, **paths, y_test_path="yt.npy")
    np.save(tmp_path / "yt.npy", np.array([0.5]))
    tables = sacro(tmp_path, **paths, y_test_path="yt.npy", features={0: feature(0), 1: feature(1, name="b")})
    with pytest.raises(InputError, match=r"X_test of shape \(1, 2\) does not fit y_test of shape \(\)"):
        tables.tables()
    np.savetxt(tmp_path / "xt.csv", [[1.5, 2.5], [3.5, 4.5]], delimiter=",")
    np.save(tmp_path / "yt.npy", np.array([[0.5], [1.0]]))
    train, test = tables.tables().values()
    assert train.columns == ["a", "b", "label"]
    assert train["label"].to_list() == [0, 1, 1]
    assert train["label"].dtype.is_integer()
    assert test["b"].to_list() == [2.5, 4.5]
    assert test["label"].to_list() == [0.5, 1.0]
    assert folder.tables()["train"].columns == ["x0", "x1", "label"]
    np.save(tmp_path / "yt.npy", np.arange(3))
    with pytest.raises(InputError, match="does not fit"):
        folder.tables()
    for path, message in (("y.txt", r"\.npy or \.csv is needed"), ("absent.npy", "is no table of numbers")):
        with pytest.raises(InputError, match=message):
            sacro(tmp_path, y_train_path=path).read_array("y_train")
    with pytest.raises(InputError, match="names no y_train_path; its records are needed"):
        sacro(tmp_path).read_array("y_train")
    for suffix in (".pkl", ".pickle", ".JOBLIB"):
        with pytest.raises(InputError, match="is a pickle, a program that runs when it is opened"):
            sacro(tmp_path, y_train_path=f"y{suffix}").read_array("y_train")
    assert sacro_folders.is_sacro_folder(tmp_path)
    assert not sacro_folders.is_sacro_folder(tmp_path / "target.yaml")
    assert not sacro_folders.is_sacro_folder(tmp_path.parent)


def language_model(context=10, bos_token_id=1, **settings):
    model = types.SimpleNamespace(
        config=types.SimpleNamespace(max_position_embeddings=context),
        device=torch.device("cpu"),
        eval=lambda: None,
        get_output_embeddings=lambda: None,
        get_input_embeddings=lambda: torch.nn.Embedding(9, 2),
    )
    return language_models.CausalLM(model, types.SimpleNamespace(bos_token_id=bos_token_id), **settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (10, 5, 1024)),
        ({"length": 7}, (7, 3, 1024)),
        ({"length": 2}, (2, 1, 1024)),
        ({"length": 10, "stride": 9, "budget": 1}, (10, 9, 1)),
        ({"length": 11}, "length: the model takes at most 10 tokens, got 11"),
        ({"length": 1}, "length"),
        ({"length": 7, "stride": 7}, "stride: must be below the length 7, got 7"),
        ({"stride": 0}, "stride"),
        ({"budget": 0}, "budget"),
        ({"bos": "add", "bos_token_id": None}, "bos: the tokenizer has no BOS token to add"),
        ({"bos": "none", "bos_token_id": None}, (10, 5, 1024)),
        ({"bos": "add", "bos_token_id": 0}, (10, 5, 1024)),
        ({"bos": "both"}, "bos"),
        ({"truncation": "tail"}, "truncation"),
    ],
)
def test_lengths_and_strides_of_a_language_model_fit_its_context(settings, expected):
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            language_model(**settings)
        return
    model = language_model(**settings)
    assert (model.length, model.stride, model.budget) == expected


class CountingNet(torch.nn.Module):
    """A small convolution that notes how many records came at once."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 3, 2)
        self.batches = []

    def forward(self, x):
        self.batches.append(len(x))
        return self.layer(x).amax((2, 3)) if x.ndim == 4 else x[:, :3]


def images(n):
    return dv.Records(np.random.default_rng(0).normal(size=(n, 1, 4, 4)).astype(np.float32), np.arange(n) % 3)


def test_images_go_through_a_network_on_the_cpu_in_batches_that_stay_in_the_cache():
    net = CountingNet()
    in_parts = targets.TorchTarget(net, device="cpu").logits(images(150))
    assert net.batches == [64, 64, 22]
    at_once = targets.TorchTarget(net, device="cpu", batch_size=1000).logits(images(150))
    np.testing.assert_allclose(in_parts, at_once, rtol=1e-5, atol=1e-6)
    assert net.batches[3:] == [150]


def test_an_exported_network_gets_no_last_batch_of_a_single_image():
    exported = torch.export.export(
        torch.nn.Sequential(torch.nn.Conv2d(1, 3, 4), torch.nn.Flatten()),
        (torch.zeros(4, 1, 4, 4),),
        dynamic_shapes=({0: torch.export.Dim("records", min=2)},),
    ).module()
    assert targets.TorchTarget(exported, device="cpu").logits(images(65)).shape == (65, 3)
