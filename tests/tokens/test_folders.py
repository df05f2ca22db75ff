"""Hugging Face folders: what is loaded is what was saved, adapters included, and nothing in a folder is run."""

import json
import os
import shutil

import numpy as np
import pytest

import divulge as dv
from divulge import cli, targets
from divulge.identification import document_scoring
from divulge.targets.pretrained import weights_digest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*is_gradient_checkpointing:FutureWarning", "ignore:Setting `save_embedding_layers`:UserWarning"
)
TEXTS = ["hello world", "the quick brown fox jumps over the lazy dog", "a model"]


@pytest.fixture
def base(tmp_path, make, tokenizer):
    """A causal model's folder."""
    folder = tmp_path / "base"
    make("llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def adapt(model, **options):
    """The model wearing an adapter that changes it."""
    torch.manual_seed(1)
    settings = {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"} | options
    wearing = peft.get_peft_model(model, peft.LoraConfig(**settings))
    for name, value in wearing.named_parameters():
        if "lora_B" in name or "lora_embedding_A" in name or "modules_to_save" in name:
            torch.nn.init.normal_(value, std=0.1)
    return wearing.eval()


def save(wearing, folder, base="../base", **changes):
    wearing.save_pretrained(folder)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text()) | {"base_model_name_or_path": base} | changes
    path.write_text(json.dumps(config))
    return folder


def logp(target):
    return target.tokens(TEXTS).logp


def load(folder, **options):
    return targets.load(str(folder), device="cpu", **options)


def test_a_causal_models_folder(base, make, tokenizer):
    loaded = load(base)
    assert isinstance(loaded, targets.CausalLM)
    np.testing.assert_allclose(logp(loaded), logp(targets.CausalLM(make("llama"), tokenizer)), atol=1e-5)
    np.testing.assert_array_equal(logp(targets.load("base", folder=base.parent, device="cpu")), logp(loaded))
    assert load(base, dtype="bfloat16").model.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True, "bias": "all"},
        {"use_dora": True},
        {"target_modules": ["q_proj", "embed_tokens"], "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 3}},
        {"target_modules": r".*layers\.1.*proj"},
        {"target_modules": "all-linear", "modules_to_save": ["lm_head"]},
        {"layers_to_transform": [1], "init_lora_weights": "gaussian", "lora_dropout": 0.5},
    ],
)
def test_an_adapter_on_its_base_is_the_model_that_was_trained(base, make, tokenizer, tmp_path, options):
    wearing = adapt(make("llama"), **options)
    plain = logp(load(base))
    folder = save(wearing, tmp_path / "adapter")
    want = logp(targets.CausalLM(wearing.get_base_model(), tokenizer))
    assert np.abs(want - plain).max() > 1e-3
    np.testing.assert_allclose(logp(load(folder)), want, atol=1e-5)
    merged = targets.CausalLM(wearing.merge_and_unload(), tokenizer)
    np.testing.assert_allclose(logp(merged), want, atol=1e-5)
    np.testing.assert_allclose(logp(load(folder, base=str(base))), want, atol=1e-5)


def test_half_precision_keeps_what_the_adapter_changes(base, make, tmp_path):
    wearing = adapt(make("llama"))
    with torch.no_grad():
        for name, value in wearing.named_parameters():
            if "lora_B" in name:
                value.mul_(0.01)  # less than bfloat16 resolves beside the base's weights
    folder = save(wearing, tmp_path / "adapter")
    change = logp(load(folder)) - logp(load(base))
    half = logp(load(folder, dtype="bfloat16")) - logp(load(base, dtype="bfloat16"))
    assert np.abs(half).max() > 0
    assert np.corrcoef(half, change)[0, 1] > 0


def test_gpt2s_transposed_layers(make, tokenizer, tmp_path):
    make("gpt2").save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "adapter")
    with pytest.warns(UserWarning, match="fan_in_fan_out"):
        wearing = adapt(make("gpt2"), target_modules=["c_attn"])
    folder = save(wearing, tmp_path / "adapter")
    want = logp(targets.CausalLM(wearing.get_base_model(), tokenizer))
    np.testing.assert_allclose(logp(load(folder)), want, atol=1e-5)


def test_the_key_holds_the_adapters_weights_also_where_the_base_has_a_revision(base, make, tokenizer, tmp_path):
    model = make("llama")
    model.config._commit_hash = "abc"
    before = weights_digest(model)
    wearing = adapt(model)
    worn = targets.CausalLM(wearing.get_base_model(), tokenizer).key()["weights"]
    keys = {before, worn, weights_digest(wearing.merge_and_unload())}
    folder = save(adapt(make("llama")), tmp_path / "adapter")
    keys.add(load(folder).key()["weights"])
    assert len(keys) >= 3
    assert load(folder).key()["weights"] not in (before, load(base).key()["weights"])
    (folder / "adapter_model.safetensors").unlink()
    peft.LoraConfig()
    torch.manual_seed(5)
    other_adapter = adapt(make("llama"))
    with torch.no_grad():
        next(v for n, v in other_adapter.named_parameters() if "lora_B" in n)[0, 0] += 1e-3
    key = load(save(other_adapter, tmp_path / "other")).key()["weights"]
    assert key not in keys


class TestBases:
    def test_where_the_base_is_looked_for(self, base, make, tmp_path):
        folder = save(adapt(make("llama")), tmp_path / "deep" / "adapter", base="base")
        with pytest.raises(dv.InputError, match="holds an adapter without its base: 'base' is no model's folder"):
            load(folder)
        loaded = targets.load("deep/adapter", folder=tmp_path, device="cpu")
        np.testing.assert_array_equal(logp(loaded), logp(load(folder, base=str(base))))
        save(adapt(make("llama")), folder, base=str(base))
        np.testing.assert_array_equal(logp(load(folder)), logp(loaded))

    def test_a_name_on_the_hub_is_not_fetched_unasked(self, make, tmp_path, monkeypatch):
        import huggingface_hub

        folder = save(adapt(make("llama")), tmp_path / "adapter", base="someone/model")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("fetched"))
        with pytest.raises(dv.InputError, match="'hf:NAME' to fetch it from the hub"):
            load(folder)

    @pytest.mark.parametrize("name", [None, ""])
    def test_an_adapter_that_names_no_base(self, make, tmp_path, name):
        folder = save(adapt(make("llama")), tmp_path / "adapter", base=name)
        with pytest.raises(dv.InputError, match="an adapter without its base; name the base's folder"):
            load(folder)

    def test_another_base(self, make, tmp_path, tokenizer):
        make("gpt2").save_pretrained(tmp_path / "base")
        tokenizer.save_pretrained(tmp_path / "base")
        folder = save(adapt(make("llama")), tmp_path / "adapter")
        with pytest.raises(dv.InputError, match="the adapter does not fit its base"):
            load(folder)

    def test_a_base_for_what_needs_none(self, base, tmp_path):
        with pytest.raises(dv.InputError, match=r"target\.base: .* holds no adapter"):
            load(base, base=str(base))
        (tmp_path / "model.onnx").write_bytes(b"")
        with pytest.raises(dv.InputError, match=r"target\.base: only Hugging Face folders"):
            load(tmp_path / "model.onnx", base="x")


def test_a_sequence_classifiers_adapter_brings_its_head(make, tokenizer, tmp_path):
    make("llama").save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    network = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=5)
    wearing = adapt(network, task_type="SEQ_CLS")
    loaded = load(save(wearing, tmp_path / "adapter"))
    assert isinstance(loaded, targets.TextClassifier)
    with torch.no_grad():
        want = [wearing(torch.tensor([tokenizer(text)["input_ids"]])).logits[0].numpy() for text in TEXTS]
    np.testing.assert_allclose(loaded.logits(dv.Records(TEXTS)), want, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "has neither config.json nor adapter_config.json"),
        ("[1]", "an object is needed"),
        ("{", "damaged or half-written JSON"),
        ('{"architectures": ["BertForMaskedLM"], "model_type": "bert"}', "neither a causal language model nor"),
        ('{"architectures": 5}', "neither a causal language model nor"),
        ('{"model_type": ["gpt2"]}', "neither a causal language model nor"),
        ("{}", "neither a causal language model nor"),
    ],
)
def test_folders_of_another_kind_say_what_they_lack(tmp_path, config, message):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(dv.InputError, match=message):
        load(tmp_path)


def test_a_folder_of_checkpoints_says_which_there_are(base, tmp_path):
    for step in (80, 160):
        shutil.copytree(base, tmp_path / "trained" / f"checkpoint-{step}")
    with pytest.raises(dv.InputError, match=r"name one of the folders in it: checkpoint-80, checkpoint-160$"):
        load(tmp_path / "trained")
    with pytest.raises(dv.InputError, match=r"holds no adapter .* folders in it: checkpoint-80, checkpoint-160$"):
        load(tmp_path / "trained", base=str(base))


def test_an_adapter_can_be_scored(base, make, tmp_path):
    save(adapt(make("llama")), tmp_path / "adapter")
    target = document_scoring.load_target(str(tmp_path / "adapter"), None, device="cpu")
    np.testing.assert_array_equal(logp(target), logp(load(tmp_path / "adapter")))


def test_an_erasure_check_reads_adapters_before_after_and_as_references(base, make, tmp_path, capsys):
    for seed, name in enumerate(("before", "after", "first", "second")):
        wearing = adapt(make("llama"))
        with torch.no_grad():
            for key, value in wearing.named_parameters():
                if "lora_B" in key:
                    value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(seed)))
        save(wearing, tmp_path / name)
    texts = [f"{text} {i}" for i in range(8) for text in TEXTS]
    for name, part in {"forget": texts[:12], "never": texts[12:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
    words = [word for name in ("before", "after") for word in (f"--{name}", str(tmp_path / name))]
    words += [word for name in ("forget", "never") for word in (f"--{name}", str(tmp_path / f"{name}.jsonl"))]
    words += ["--references", str(tmp_path / "first"), "--references", str(tmp_path / "second"), "--text", "text"]
    assert cli.run(["forget", *words, "--json"]) in (0, 1, 3), capsys.readouterr().err
    summary = json.loads(capsys.readouterr().out)
    assert (summary["signal"], len(summary["control_names"])) == ("log-likelihood per token", 2)


def test_weights_that_are_missing_are_not_drawn_at_random(base):
    from safetensors.torch import load_file, save_file

    path = base / "model.safetensors"
    weights = load_file(path)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(dv.InputError, match=r"1 of its weights are missing from its files \(first: model\.layers\.1"):
        load(base)


def test_a_model_without_its_tokenizer_is_not_given_an_empty_one(make, tmp_path):
    make("gpt2").save_pretrained(tmp_path)
    with pytest.raises(dv.InputError, match=r"has no tokenizer \(tokenizer\.json\)"):
        load(tmp_path)


def test_hub_names_are_asked_of_the_hub(base, monkeypatch):
    import huggingface_hub

    lookups = []

    def fetch(name, revision=None, **_):
        lookups.append((name, revision))
        raise OSError("no connection")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(dv.InputError, match="'hf:some/model@v2' cannot be fetched: no connection"):
        targets.load("hf:some/model@v2")
    assert lookups == [("some/model", "v2")]


class TestHostile:
    """What an adapter's files can ask for, and do not get."""

    @pytest.fixture
    def adapter(self, base, make, tmp_path):
        return save(adapt(make("llama")), tmp_path / "adapter")

    def change(self, folder, **changes):
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    def refused(self, folder, message, mark=None):
        with pytest.raises(dv.InputError, match=message):
            load(folder)
        assert mark is None or not mark.exists()

    def test_modules_are_not_imported(self, adapter, tmp_path, monkeypatch):
        mark = tmp_path / "mark"
        (tmp_path / "megatron").mkdir()
        (tmp_path / "megatron" / "__init__.py").write_text("")
        (tmp_path / "megatron" / "core.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
        monkeypatch.syspath_prepend(tmp_path)
        self.change(adapter, megatron_config={"a": 1}, megatron_core="megatron.core")
        self.refused(adapter, "megatron_config: asks for more than a plain LoRA", mark)
        self.change(adapter, megatron_config=None, auto_mapping={"parent_library": "megatron.core"})
        self.refused(adapter, "auto_mapping: its base is a class of 'megatron.core'", mark)

    @pytest.mark.parametrize("place", ["adapter", "base", "pickle beside"])
    def test_pickles_are_not_read(self, adapter, base, tmp_path, place):
        class Payload:
            def __reduce__(self):
                return exec, (f"open({str(tmp_path / 'mark')!r}, 'w').close()",)

        folder = base if place == "base" else adapter
        torch.save({"w": Payload()}, folder / ("pytorch_model.bin" if place == "base" else "adapter_model.bin"))
        name = "model.safetensors" if place == "base" else "adapter_model.safetensors"
        if place == "pickle beside":
            load(adapter)
            assert not (tmp_path / "mark").exists()
            return
        (folder / name).unlink()
        message = "cannot be loaded" if place == "base" else r"no adapter_model\.safetensors .* is a pickle"
        self.refused(adapter, message, tmp_path / "mark")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"peft_type": "IA3"}, "only LORA can be read, got 'IA3'"),
            ({"peft_type": None}, "only LORA can be read"),
            ({"corda_config": {"cache_file": "x", "covariance_file": "y"}}, "corda_config: asks for more"),
            ({"lora_ga_config": {"cache_file": "x"}}, "lora_ga_config: asks for more"),
            ({"layer_replication": [[0, 10**9]]}, "layer_replication: asks for more"),
            ({"init_lora_weights": "pissa"}, "'pissa' changes the base"),
            ({"init_lora_weights": ["pissa"]}, "changes the base"),
            ({"new_in_a_later_version": 1}, "new_in_a_later_version: asks for more"),
            ({"alpha_pattern": {"(a+)+$": 1}}, "alpha_pattern: plain names of modules are needed"),
            ({"rank_pattern": {"q_proj": 10**12}}, r"rank_pattern\.q_proj: must be at most"),
            ({"modules_to_save": ["(.*)*x"]}, "modules_to_save: plain names"),
            ({"modules_to_save": "lm_head"}, "modules_to_save: a list of names is needed"),
            ({"r": 10**15}, "r: must be at most"),
            ({"r": 2**20}, "does not fit its base"),
            ({"r": True}, "r: a whole number"),
            ({"lora_alpha": float("nan")}, "lora_alpha: must lie in"),
            ({"lora_alpha": "16"}, "lora_alpha: a number is needed"),
            ({"bias": "some"}, "bias: 'some' is unknown"),
            ({"use_dora": 1}, "use_dora: True or False is needed"),
            ({"base_model_name_or_path": ["x"]}, "base_model_name_or_path: a text is needed"),
            ({"base_model_name_or_path": "a" * 5000}, r"target\.base: the name of a file or folder is needed"),
            ({"base_model_name_or_path": "a\0b"}, r"target\.base: the name of a file or folder is needed"),
            ({"base_model_name_or_path": "../../../etc"}, "an adapter without its base"),
            ({"base_model_name_or_path": "."}, "has neither|without its base"),
        ],
    )
    def test_settings_that_ask_for_more(self, adapter, changes, message):
        self.change(adapter, **changes)
        self.refused(adapter, message)

    def test_expressions_that_never_end_are_not_matched(self, adapter):
        want = logp(load(adapter))
        self.change(adapter, target_modules="((m|o|d|e|l|.)+)+$!", exclude_modules="(.+)+$!", layers_pattern="(a+)+")
        np.testing.assert_array_equal(logp(load(adapter)), want)

    def test_half_an_adapter(self, adapter):
        from safetensors.torch import load_file, save_file

        path = adapter / "adapter_model.safetensors"
        weights = load_file(path)
        adapter_name = next(name for name in weights if "lora_B" in name)
        save_file({name: value for name, value in weights.items() if name != adapter_name}, path)
        self.refused(adapter, "1 weights are missing")
        save_file(weights | {"base_model.model.model.nothing.weight": torch.zeros(32)}, path)
        self.refused(adapter, "does not fit its base")
        save_file({"x": torch.zeros(1)}, path)
        self.refused(adapter, "holds no LoRA weights")
        path.write_bytes(b"x" * 100)
        self.refused(adapter, "is damaged")

    def test_an_adapter_inside_a_models_folder_is_not_read_by_transformers(self, base, adapter):
        """It would be: with peft installed, and with adapter_model.bin."""
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            (base / name).write_bytes((adapter / name).read_bytes())
        with pytest.raises(dv.InputError, match="it holds an adapter"):
            targets.CausalLM.load(str(base), device="cpu")
        self.refused(adapter, "it holds an adapter")

    def test_pipes_are_not_waited_for(self, tmp_path, adapter):
        os.mkfifo(tmp_path / "config.json")
        self.refused(tmp_path, "has neither")
        (adapter / "adapter_model.safetensors").unlink()
        os.mkfifo(adapter / "adapter_model.safetensors")
        self.refused(adapter, r"there is no adapter_model\.safetensors")

    @pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "num_labels"])
    def test_numbers_without_end(self, base, key):
        path = base / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: 10**9}))
        self.refused(base, f"asks for more than 10,000 \\({key}")
