"""`divulge init` for networks and language models: what their files show is written, the rest is named."""

import json
import subprocess
import sys
import tomllib
from collections import OrderedDict

import numpy as np
import pytest

from divulge import plan

torch = pytest.importorskip("torch")
nn = torch.nn
save_file = pytest.importorskip("safetensors.torch").save_file


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("members", "nonmembers", "population"):
        np.savez(f"{name}.npz", x=rng.normal(size=(150, 6)).astype(np.float32), y=rng.integers(0, 3, 150))
    return tmp_path


def start(divulge, *options):
    code, told, error = divulge("init", "new", "--model", "net.safetensors", *options)
    assert code == 0, error
    return told


def build_network(folder):
    names = {}
    exec(compile((folder / "new" / "my_model.py").read_text(), "my_model.py", "exec"), names)
    return names["make_model"]()


class Named(nn.Module):
    """Linear layers that are attributes: name → inputs and outputs, in the order in which they work."""

    def __init__(self, **sizes):
        super().__init__()
        self.order = list(sizes)
        for name, (n_inputs, n_outputs) in sizes.items():
            setattr(self, name, nn.Linear(n_inputs, n_outputs))

    def forward(self, x):
        for name in self.order[:-1]:
            x = torch.relu(getattr(self, name)(x))
        return getattr(self, self.order[-1])(x)


@pytest.mark.parametrize(
    "network",
    [
        Named(fc1=(6, 9), fc2=(9, 5), out=(5, 3)),
        Named(fc1=(6, 9), **{f"fc{at}": (9, 9) for at in range(2, 11)}, fc11=(9, 3)),
        Named(trunk=(6, 9), hidden=(9, 5), head=(5, 3)),
        nn.Sequential(nn.Flatten(), nn.Linear(6, 9, bias=False), nn.ReLU(), nn.Linear(9, 5), nn.Linear(5, 3)),
        nn.Sequential(OrderedDict(layers=nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)))),
        nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 3)),
    ],
    ids=[
        "named", "named with equal sizes", "names in another order", "three layers without a bias", "an attribute",
        "dropout",
    ],
)  # fmt: skip
def test_a_network_of_linear_layers_is_written_as_its_weights_show_it_and_can_be_checked(network, here, divulge):
    save_file(network.state_dict(), "net.safetensors")
    told = start(divulge, "--references", "2")
    assert "records" not in told.split("Next")[1]
    assert "fill in my_model.py" in told
    written = build_network(here)
    written.load_state_dict(network.state_dict())
    x = torch.randn(20, 6)
    assert torch.equal(written.eval()(x), network.eval()(x))
    code, _, error = divulge("check", "new/plan.toml")
    assert code == 0, error


def test_of_another_network_the_stub_takes_the_records_and_names_the_weights(here, divulge):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    save_file(Net().state_dict(), "net.safetensors")
    start(divulge)
    assert build_network(here)(torch.zeros(4, 6)).shape == (4, 3)
    assert "#   first.weight [8, 6]" in (here / "new" / "my_model.py").read_text()


@pytest.mark.parametrize(
    "sizes",
    [
        {"left": (6, 8), "right": (6, 8)},
        {"b": (6, 8), "a": (8, 8), "c": (8, 3)},
        {"a": (6, 8), "b": (8, 6)} | {"c": (7, 3)},
    ],
    ids=["side by side", "order of equal sizes unknown", "no chain"],
)
def test_layers_whose_order_sizes_and_names_leave_open_are_listed_alone(sizes, here, divulge):
    save_file(Named(**sizes).state_dict(), "net.safetensors")
    start(divulge)
    assert "class Net" not in (here / "new" / "my_model.py").read_text()


@pytest.mark.parametrize("name", ["lambda", "__hidden", "x = 1; y"])
def test_a_name_that_no_attribute_of_code_can_have_is_written_into_no_code(name, here, divulge):
    save_file({f"{name}.weight": torch.zeros(3, 6), f"{name}.bias": torch.zeros(3)}, "net.safetensors")
    start(divulge)
    assert f"self.{name}" not in (here / "new" / "my_model.py").read_text()
    assert build_network(here)(torch.zeros(4, 6)).shape == (4, 3)


def test_named_layers_for_images_take_them_flattened(here, divulge):
    for name in ("members", "nonmembers", "population"):
        np.savez(f"{name}.npz", x=np.zeros((30, 1, 2, 3), np.float32), y=np.arange(30) % 3)
    save_file(Named(fc1=(6, 9), out=(9, 3)).state_dict(), "net.safetensors")
    start(divulge)
    assert build_network(here)(torch.zeros(4, 1, 2, 3)).shape == (4, 3)


def test_of_layers_whose_sizes_form_a_circle_the_first_takes_a_record(here, divulge):
    network = Named(encoder=(6, 3), decoder=(3, 6))
    save_file(network.state_dict(), "net.safetensors")
    start(divulge)
    written = build_network(here)
    written.load_state_dict(network.state_dict())
    x = torch.randn(20, 6)
    assert torch.equal(written(x), network(x))


@pytest.mark.parametrize(
    "network",
    [nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3)), Named(fc1=(7, 9), out=(9, 3))],
    ids=["positions", "names"],
)
def test_weights_for_more_values_than_a_record_has_are_named(network, here, divulge):
    save_file(network.state_dict(), "net.safetensors")
    assert "its weights take 7 values, and a record has 6" in start(divulge)


def test_a_stub_for_a_table_counts_the_columns_of_values_and_for_real_values_has_one_output(here, divulge):
    rows = "".join(f"{i},{i / 7},{-i},{i % 4},{i / 3}\n" for i in range(40))
    (here / "members.csv").write_text("row_id,a,b,c,y\n" + rows)
    start(divulge, "--members", "members.csv", "--references", "2")
    assert build_network(here)(torch.zeros(4, 3)).shape == (4, 1)


def test_the_settings_of_a_training_stand_in_the_plan_and_are_named_before_the_check(here, divulge):
    told = start(divulge, "--references", "4")
    following = told.split("Next: ")[1]
    assert following.index("fill in") < following.index("divulge check")
    text = (here / "new" / "plan.toml").read_text()
    for key in ("optimizer", "lr", "epochs", "batch_size"):
        assert f"\n# {key} = " in text, f"init writes {key} as a comment with its default"
        assert key in following
    without = tomllib.loads(text)["references"]
    for key in ("optimizer", "lr", "epochs", "batch_size"):
        text = text.replace(f"\n# {key} = ", f"\n{key} = ")
    assert set(tomllib.loads(text)["references"]) == {*without, "optimizer", "lr", "epochs", "batch_size"}
    read = plan.read(here / "new" / "plan.toml").references
    assert (read.optimizer, read.epochs, read.batch_size) == ("sgd", 20, 128)  # what the comments say


def test_check_names_the_defaults_with_which_networks_are_trained_until_the_plan_has_a_setting(here, divulge):
    save_file(nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)).state_dict(), "net.safetensors")
    start(divulge, "--references", "2")
    path = here / "new" / "plan.toml"
    warning = "optimizer=sgd, lr=0.02, epochs=20, batch_size=128"
    assert warning in " ".join(divulge("check", path)[1].split())
    text = path.read_text()
    for told in ("epochs = 20", "match = {epochs = [2, 3]}"):
        path.write_text(f"{text}\n{told}\n")
        code, out, error = divulge("check", path)
        assert code == 0, error
        assert "batch_size=128" not in out
    path.write_text(text.replace("recipes = ", 'recipes = ["loss"]\n# was: '))
    code, out, error = divulge("check", path)
    assert code == 0, error
    assert "batch_size=128" not in out, "no reference model is trained"


def write_language_model(folder, *, adds_bos, model=None):
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "a": 1, "?": 2}, unk_token="?"))
    if adds_bos:
        raw.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="?").save_pretrained(folder)
    if model is not None:
        (folder / "config.json").write_text(json.dumps({"model_type": model}))


@pytest.mark.parametrize(("adds_bos", "line"), [(True, '# bos = "none"'), (False, '# bos = "add"')])
def test_whether_the_tokenizer_adds_a_bos_is_written_and_the_base_of_the_references_is_asked_for(
    here, divulge, adds_bos, line
):
    write_language_model(here / "tuned", adds_bos=adds_bos, model="gpt2")
    code, told, error = divulge("init", "new", "--model", "tuned")
    assert code == 0, error
    target = (here / "new" / "plan.toml").read_text().split("[target]")[1].split("[data]")[0]
    assert line in target
    assert "base" not in target
    assert tomllib.loads((here / "new" / "plan.toml").read_text())["references"]["base"] == "base/"
    assert "fill in [references]: base" in told


@pytest.mark.parametrize("is_there", [True, False])
def test_the_base_that_an_adapter_names_is_written(here, divulge, is_there):
    write_language_model(here / "adapter", adds_bos=False)
    (here / "adapter" / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base"}')
    if is_there:
        write_language_model(here / "some" / "base", adds_bos=True, model="gpt2")
    code, told, error = divulge("init", "new", "--records", "text", "--model", "adapter")
    assert code == 0, error
    content = tomllib.loads((here / "new" / "plan.toml").read_text())
    assert content["references"]["base"] == ("../some/base" if is_there else "hf:some/base")
    assert "base" not in content["target"]  # found without it, or not to be fetched before somebody says so
    assert ("[target]: base" in told) == (not is_there)


def test_a_column_of_classes_that_was_guessed_is_said_to_be(here, divulge):
    (here / "members.csv").write_text("text,label\nlong enough,0\nand longer,1\n")
    _, told, _ = divulge("init", "new", "--records", "text", "--model", "tuned", "--members", "members.csv")
    assert "text = 'text', label = 'label'" in told


def write_regression_records(here, rng):
    for name in ("members", "nonmembers", "population"):
        x = rng.normal(size=(150, 6)).astype(np.float32)
        np.savez(here / f"{name}.npz", x=x, y=7 * x[:, 0].astype(np.float64))


@pytest.mark.parametrize("is_scaled", [True, False])
def test_check_says_how_right_the_model_is_about_its_training_records(here, divulge, is_scaled):
    rng = np.random.default_rng(0)
    for name in ("members", "nonmembers", "population"):
        x = rng.normal(size=(150, 6)).astype(np.float32)
        y = np.digitize(x[:, 0], [-0.5, 0.5])
        np.savez(f"{name}.npz", x=x if is_scaled else 1000 - 50 * x, y=y)
    layer = nn.Linear(6, 3)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[:, 0] = torch.tensor([-2.0, 0.0, 2.0])
        layer.bias[:] = torch.tensor([-1.0, 0.0, -1.0])
    save_file(nn.Sequential(layer).state_dict(), "net.safetensors")
    start(divulge, "--references", "0")
    code, told, error = divulge("check", "new/plan.toml")
    assert code == 0, error
    assert ("The model is right on 100% of 64 training records (a constant answer: " in told) == is_scaled
    assert ("are the records scaled" in told) == (not is_scaled)
    fit = json.loads(divulge("check", "new/plan.toml", "--json")[1])["forecast"]["fit"]
    assert (fit["target"] > fit["constant"]) == is_scaled


def test_check_compares_the_error_of_a_regression_model_with_that_of_a_constant(here, divulge):
    write_regression_records(here, np.random.default_rng(0))
    layer = nn.Linear(6, 1)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[7.0, 0, 0, 0, 0, 0]])
        layer.bias[:] = 0.5
    save_file(nn.Sequential(layer).state_dict(), "net.safetensors")
    start(divulge, "--references", "0")
    code, told, error = divulge("check", "new/plan.toml")
    assert code == 0, error
    assert "The model's mean absolute error on 64 training records is 0.5 (a constant answer: " in told


FORECASTS = """
import contextlib, io, json, sys
from divulge import cli
for plan in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        assert cli.run(["check", plan, "--json"]) == 0
    print(json.loads(told.getvalue())["forecast"]["training"])
"""


@pytest.mark.parametrize("batch_size", [8, 400], ids=["many steps an epoch", "one step an epoch"])
def test_the_training_of_networks_is_forecast_to_take_longer_with_more_epochs_and_more_models(batch_size, here):
    """In a new process, the short one first: the first training of a process is slow, which must hide nothing."""
    network = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3))
    save_file(network.state_dict(), "net.safetensors")
    (here / "network_of_test.py").write_text(
        "from torch import nn\n\ndef make_model():\n"
        "    return nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3))\n"
    )
    for name, count, epochs in (("short", 2, 20), ("long", 200, 2000)):
        (here / f"{name}.toml").write_text(
            f"""
            recipes = ["rmia"]
            [target]
            model = "net.safetensors"
            factory = "network_of_test:make_model"
            [data]
            members = "members.npz"
            nonmembers = "nonmembers.npz"
            population = "population.npz"
            [references]
            make_model = "network_of_test:make_model"
            count = {count}
            epochs = {epochs}
            batch_size = {batch_size}
            """
        )
    command = [sys.executable, "-c", FORECASTS, "short.toml", "long.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    short, long = map(float, done.stdout.split())
    assert short > 0
    assert long > 20 * 20 * short, "a hundred times as many models, of a hundred times as many epochs"
