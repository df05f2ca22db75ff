"""Language models in llama.cpp's file format as targets."""

import json

import numpy as np
import pytest

import divulge as dv
from divulge import targets

gguf = pytest.importorskip("gguf", reason="pip install '.[gguf]'")
pytest.importorskip("transformers")

WIDTH, VOCABULARY = 32, 258  # a multiple of a block of quantised weights


def write_model(path, *, layers=1, quantised=True, leave_out=()):
    """Write a llama of one layer with random weights and one token for each byte."""
    alphabet = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))]
    alphabet += [chr(256 + i) for i in range(256 - len(alphabet))]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*alphabet, "ab", "<s>"])
    writer.add_token_types([1] * 257 + [3])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(257)
    rng = np.random.default_rng(0)
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output.weight": (VOCABULARY, WIDTH)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        shapes[f"blk.0.{name}.weight"] = (WIDTH, WIDTH)
    for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"):
        shapes[name] = (WIDTH,)
    for name, shape in shapes.items():
        if name in leave_out:
            continue
        values = rng.normal(size=shape).astype(np.float32)
        if quantised and len(shape) == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


TEXTS = ["a record of someone", "another one, a bit longer"]


def test_a_file_answers_as_the_folder_of_its_numbers(tmp_path):
    model = targets.load(str(write_model(tmp_path / "model.gguf")), device="cpu")
    embedding = model.model.get_input_embeddings().weight.detach().numpy()
    expected = np.random.default_rng(0).normal(size=embedding.shape)
    assert 1e-4 < np.abs(embedding - expected).max() < 0.05  # rounded to 8 bits a block
    model.model.save_pretrained(tmp_path / "folder")
    model.tokenizer.save_pretrained(tmp_path / "folder")
    folder = targets.load(str(tmp_path / "folder"), device="cpu")
    np.testing.assert_allclose(model.tokens(TEXTS).logp, folder.tokens(TEXTS).logp, rtol=1e-5)


def test_the_command_line_takes_a_file(divulge, tmp_path):
    write_model(tmp_path / "model.gguf")
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    code, _, err = divulge(
        "identify", "score", tmp_path / "texts.jsonl", "--model", tmp_path / "model.gguf", "--out", tmp_path / "out"
    )
    assert code == 0, err
    assert "de-quantizing" not in err


def test_what_lies_beside_a_file_is_not_read(tmp_path):
    write_model(tmp_path / "model.gguf")
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoConfig": "evil.Config"}}')
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["evil.Tokenizer", null]}}')
    (tmp_path / "evil.py").write_text("raise SystemExit")
    assert np.isfinite(targets.load(str(tmp_path / "model.gguf"), device="cpu").tokens(TEXTS).logp).all()


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        ({"layers": 10**6}, "more than 10,000"),
        ({"leave_out": ("output_norm.weight",)}, "missing"),
        ({"leave_out": ("blk.0.attn_q.weight",)}, "missing"),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused(tmp_path, damage, word):
    with pytest.raises(dv.InputError, match=word):
        targets.load(str(write_model(tmp_path / "model.gguf", **damage)), device="cpu")


@pytest.mark.parametrize("size", [0, 4, 100, 5000, 20_000])
def test_a_damaged_file_is_refused(tmp_path, size):
    content = write_model(tmp_path / "whole.gguf").read_bytes()
    (tmp_path / "model.gguf").write_bytes(content[:size])
    with pytest.raises(dv.InputError, match=r"model: .* cannot be loaded"):  # a long path is cut
        targets.load(str(tmp_path / "model.gguf"), device="cpu")


def test_a_file_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    write_model(tmp_path / "model.gguf")
    monkeypatch.setattr("transformers.utils.import_utils.is_gguf_available", lambda *_: False)
    with pytest.raises(dv.MissingExtraError, match=r"pip install '\.\[gguf\]'"):
        targets.load(str(tmp_path / "model.gguf"))
