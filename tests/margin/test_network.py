"""Reading networks, and refusing what is not one."""

import numpy as np
import pytest
from safetensors.numpy import save_file

import divulge as dv
from divulge import margin

RNG = np.random.default_rng(0)


def net(k=7, d=3):
    rng = np.random.default_rng(1)
    return margin.ShallowReLU(rng.normal(size=(k, d)), rng.normal(size=k), rng.normal(size=k))


def test_outputs_equal_the_sum_written_out():
    shallow, x = net(), RNG.normal(size=(5, 3))
    written = [
        sum(v * max(w @ row + b, 0) for w, b, v in zip(shallow.w, shallow.b, shallow.v, strict=True)) for row in x
    ]
    np.testing.assert_allclose(shallow(x), written, rtol=1e-12)


def test_it_is_two_homogeneous():
    shallow, x = net(), RNG.normal(size=(5, 3))
    scaled = margin.ShallowReLU(3 * shallow.w, 3 * shallow.b, 3 * shallow.v)
    np.testing.assert_allclose(scaled(x), 9 * shallow(x), rtol=1e-12)


def test_large_inputs_are_evaluated_in_blocks(monkeypatch):
    shallow, x = net(), RNG.normal(size=(50, 3))
    expected = shallow(x)
    monkeypatch.setattr("divulge.margin.shallow_relu._BLOCK_SIZE", 20)
    np.testing.assert_array_equal(shallow(x), expected)


def test_safetensors_round_trip(tmp_path):
    shallow, x = net(), RNG.normal(size=(5, 3))
    shallow.to_safetensors(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(margin.ShallowReLU.from_safetensors(tmp_path / "net.safetensors")(x), shallow(x))


def test_layer_names_say_nothing_shapes_do(tmp_path):
    shallow, x = net(), RNG.normal(size=(5, 3))
    arrays = {"a.weight": shallow.v[None], "b.weight": shallow.w, "b.bias": shallow.b}
    save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, tmp_path / "n.safetensors")
    np.testing.assert_allclose(margin.ShallowReLU.from_safetensors(tmp_path / "n.safetensors")(x), shallow(x))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a.weight": (4, 2), "a.bias": (4,), "b.weight": (1, 4), "b.bias": (1,)}, "not homogeneous"),
        ({"a.weight": (4, 2), "b.weight": (2, 4)}, "scalar output"),
        ({"a.weight": (4, 2)}, "exactly two linear layers"),
        ({"a.weight": (4, 2), "b.weight": (4, 4), "c.weight": (1, 4)}, "exactly two linear layers"),
        ({"a.weight": (4, 2), "b.weight": (1, 4), "norm.scale": (4,)}, "exactly two linear layers"),
    ],
)
def test_other_architectures_are_refused(tmp_path, arrays, message):
    save_file({name: np.ones(shape) for name, shape in arrays.items()}, tmp_path / "n.safetensors")
    with pytest.raises(dv.InputError, match=message):
        margin.ShallowReLU.from_safetensors(tmp_path / "n.safetensors")


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(dv.InputError, match="no such file"):
        margin.ShallowReLU.from_safetensors(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"not a tensor file")
    with pytest.raises(dv.InputError, match="not a readable safetensors"):
        margin.ShallowReLU.from_safetensors(tmp_path / "bad.safetensors")


@pytest.mark.parametrize(
    ("w", "b", "v", "message"),
    [
        ([[np.nan]], [0.0], [1.0], "w: 1 values are NaN"),
        ([[1.0]], [0.0, 1.0], [1.0], "b: 1 values are needed, got 2"),
        ([[1.0]], [0.0], [np.inf], "v: 1 values are NaN or infinite"),
        ([1.0], [0.0], [1.0], "w: two dimensions"),
    ],
)
def test_weights_that_cannot_be(w, b, v, message):
    with pytest.raises(dv.InputError, match=message):
        margin.ShallowReLU(w, b, v)


def test_records_of_another_dimension():
    with pytest.raises(dv.InputError, match="records have 2 values, the network takes 3"):
        net()(np.ones((1, 2)))


class TestTorch:
    """torch modules, read through their state without the number wing importing torch."""

    torch = pytest.importorskip("torch")

    def module(self, activation=None, bias=False):
        nn = self.torch.nn
        self.torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 5), activation or nn.ReLU(), nn.Linear(5, 1, bias=bias))

    def test_outputs_agree(self):
        module, x = self.module(), RNG.normal(size=(4, 3))
        outputs = module(self.torch.tensor(x, dtype=self.torch.float32)).detach().numpy()[:, 0]
        np.testing.assert_allclose(margin.ShallowReLU.from_torch(module)(x), outputs, atol=1e-6)

    def test_an_output_bias_is_an_error_that_says_why(self):
        with pytest.raises(dv.InputError, match=r"not homogeneous in its parameters.*KKT"):
            margin.ShallowReLU.from_torch(self.module(bias=True))

    def test_another_activation_is_found_out(self):
        with pytest.raises(dv.InputError, match="outputs differ"):
            margin.ShallowReLU.from_torch(self.module(self.torch.nn.GELU()))

    def test_not_a_module(self):
        with pytest.raises(dv.InputError, match="a torch module is needed, got dict"):
            margin.ShallowReLU.from_torch({})
