"""Folders of language models that somebody prepared: panics of the tokenizer, and weights without their scales."""

import base64
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import divulge as dv
from divulge import store
from divulge.targets import folders


@pytest.fixture
def folder(tmp_path, model, tokenizer):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def charsmap(content):
    return {"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}}


def template():
    return {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    }


CRAFTED = {
    "panics when read": charsmap(b""),
    "panics on any text": charsmap(b"\x08\0\0\0" + b"\xff" * 8 + b"abc"),
    "panics on a missing token": template(),
    "panics on pieces of nothing": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "lacks its unknown token": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "nope"}},
    "panics on what it gives back": {"decoder": {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9}},
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_tokenizer_that_panics_is_an_error(folder, name):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | CRAFTED[name]))
    with pytest.raises(dv.InputError, match="tokenizer"):
        use(folder)


def use(folder):
    target = folders.load_folder(str(folder), device="cpu")
    target.tokens(["the quick brown fox"])
    target.decode(target.encode(["a"])[0])


@pytest.mark.parametrize("key", ["padding", "truncation"])
def test_a_tokenizer_that_asks_for_endless_texts_is_refused(folder, key):
    """It would end the process for want of memory."""
    hostile_settings = {
        "padding": {
            "strategy": {"Fixed": 1 << 40}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "<s>",
        },
        "truncation": {"direction": "Right", "max_length": 1 << 40, "strategy": "LongestFirst", "stride": 0},
    }  # fmt: skip
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: hostile_settings[key]}))
    with pytest.raises(dv.InputError, match="asks for texts of 1,099,511,627,776 tokens"):
        folders.load_folder(str(folder), device="cpu")


def test_only_panics_become_errors():
    for error in (KeyboardInterrupt, SystemExit, ValueError):
        with pytest.raises(error), store.panic_errors("tokenizer"):
            raise error


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_quantised_weights_without_scales_are_refused(folder, dtype):
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if name.endswith("attn.weight"))
    weights[name] = (weights[name] * 100).to(dtype)
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(dv.InputError, match=f"{name} is stored as .*quantised"):
        folders.load_folder(str(folder), device="cpu")


def test_weights_of_half_precision_are_not_refused(folder):
    path = folder / "model.safetensors"
    save_file(
        {name: value.to(torch.float16) for name, value in load_file(path).items()}, path, metadata={"format": "pt"}
    )
    assert folders.load_folder(str(folder), device="cpu").tokens(["the quick brown fox"])


def test_quantised_weights_of_a_module_are_refused(tmp_path):
    from divulge import targets

    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    state = module.state_dict()  # of which num_batches_tracked is an integer, as it should be
    save_file(state, tmp_path / "good.safetensors")
    targets.load(str(tmp_path / "good.safetensors"), factory=lambda: module)
    save_file(state | {"0.weight": (state["0.weight"] * 100).to(torch.int8)}, tmp_path / "bad.safetensors")
    with pytest.raises(dv.InputError, match=r"0\.weight is stored as int8"):
        targets.load(str(tmp_path / "bad.safetensors"), factory=lambda: module)


def test_quantised_weights_of_a_network_of_two_layers_are_refused(tmp_path):
    from divulge.margin import ShallowReLU

    save_file(
        {"w": torch.ones(3, 2, dtype=torch.int8), "b": torch.ones(3), "v": torch.ones(3)}, tmp_path / "net.safetensors"
    )
    with pytest.raises(dv.InputError, match="w is stored as int8"):
        ShallowReLU.from_safetensors(tmp_path / "net.safetensors")
