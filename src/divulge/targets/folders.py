"""Hugging Face folders: a causal language model, a sequence classifier, or a LoRA adapter and its base."""

from __future__ import annotations

import contextlib
import re
import warnings
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import lazy, store
from divulge.errors import InputError
from divulge.targets.language_models import CausalLM, leading_tokens
from divulge.targets.pretrained import is_gguf, load_pretrained
from divulge.targets.text_classifiers import TextClassifier
from divulge.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_integer,
    check_number,
    check_path,
    format_exception,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import huggingface_hub
    import peft
    import torch
    import transformers
    from safetensors import torch as tensors
    from transformers.models.auto import modeling_auto as auto_models
else:
    huggingface_hub = lazy.module("huggingface_hub")
    auto_models = lazy.module("transformers.models.auto.modeling_auto")
    transformers = lazy.module("transformers")
    peft = lazy.module("peft")
    tensors = lazy.module("safetensors.torch")
    torch = lazy.module("torch")


ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


HUB = "hf:"
_MAX_SUGGESTIONS = 8  # checkpoints in a message
_CONFIG = "config.json"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_SMALL_FILES = (
    _CONFIG,
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
)


def load_folder(
    model: str,
    *,
    base: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
    folder: Path | None = None,
    **options: Any,
) -> CausalLM | TextClassifier:
    """Load the target in a folder of Hugging Face's layout, or in a repository on the hub.

    Args:
        model: the folder, ``hf:NAME`` or ``hf:NAME@REVISION``, or a ``.gguf`` file of a causal language model.
        base: of an adapter: a folder or ``hf:NAME``; by default what its configuration names, looked for from the
            adapter's folder, then from ``folder``. Nothing is fetched from the hub that you did not name.
        dtype: "float32", "bfloat16" or "float16".
        device: "auto", "cpu", "cuda", "mps", or "map" to spread layers over all devices.
        folder: relative paths start here.
        **options: of `CausalLM` or `TextClassifier`.

    Raises:
        divulge.InputError: a folder that is none of these, an adapter without its base, anything that would run code.
    """
    path = _download_small_files(model) if model.startswith(HUB) else _resolve_path(folder, model)
    if (path / ADAPTER_CONFIG).is_file():
        return _load_adapted(path, model, base, dtype, device, folder, options)
    if base is not None:
        raise InputError(
            f"target.base: {path} holds no adapter ({ADAPTER_CONFIG}) that could need a base"
            + _suggest_subfolders(path)
        )
    source = model if model.startswith(HUB) else str(path)
    target_class = _target_class(path, source)
    network, tokenizer = load_pretrained(_auto_class(target_class), transformers.AutoTokenizer, source, dtype, device)
    return _build_target(target_class, network, tokenizer, model, options)


@dataclass(frozen=True, slots=True)
class FolderHints:
    """What the files of a language model's folder show without its weights.

    Args:
        is_adapter: whether it holds a LoRA adapter, which needs its base.
        base: the adapter's base: its folder, or the name that the configuration has for one that is not there; empty
            where it names none.
        has_base: whether that base's folder is there.
        bos: the tokenizer's BOS token; empty where it has none, None where no tokenizer can be read.
        adds_bos: whether the tokenizer puts it before each text.
    """

    is_adapter: bool
    base: str = ""
    has_base: bool = False
    bos: str | None = None
    adds_bos: bool = False


def read_folder_hints(model: str) -> FolderHints | None:
    """Return what the folder of a language model shows; None where there is no such folder."""
    path = Path(model)
    if not path.is_dir():
        return None
    base, base_folder = "", ""
    is_adapter = (path / ADAPTER_CONFIG).is_file()
    with contextlib.suppress(InputError, OSError, ValueError):
        config = store.read_json(path / ADAPTER_CONFIG) if is_adapter else {}
        base = str(config.get("base_model_name_or_path") or "") if isinstance(config, dict) else ""
        base_folder = _find_base(path, base, None) if base else ""
    hints = FolderHints(is_adapter, base_folder or base, bool(base_folder))
    source = path if any((path / file).is_file() for file in _TOKENIZER) else Path(base_folder or path)
    if not any((source / file).is_file() for file in _TOKENIZER):
        return hints
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            str(source), trust_remote_code=False, local_files_only=True
        )
        starts = leading_tokens(tokenizer, "tokenizer")
    except Exception:  # the extra is not installed, or whatever transformers raises on damaged files
        return hints
    return replace(hints, bos=tokenizer.bos_token or "", adds_bos=tokenizer.bos_token_id in starts)


def _build_target(
    target_class: Any, network: Any, tokenizer: Any, name: str, options: dict[str, Any]
) -> CausalLM | TextClassifier:
    known_options = [option_field.name for option_field in fields(target_class)]
    for option in options:
        check_choice(option, f"target.model: {name} makes a {target_class.__name__}; its options", known_options)
    return target_class(network, tokenizer, name=name, **options)


def _load_adapted(
    path: Path, name: str, base: str | None, dtype: str, device: str, folder: Path | None, options: dict[str, Any]
) -> CausalLM | TextClassifier:
    """Load the base and put the adapter on it."""
    adapter = read_adapter(path)
    base_path = _find_base(path, adapter.base, folder) if base is None else base
    if not base_path.startswith(HUB):
        base_path = str(_resolve_path(folder, base_path))
    target_class = (
        TextClassifier
        if adapter.classifies
        else _target_class(
            _download_small_files(base_path) if base_path.startswith(HUB) else Path(base_path), base_path
        )
    )
    labels = {"num_labels": adapter.labels} if target_class is TextClassifier and adapter.labels is not None else {}
    tokenizer_path = str(path) if any((path / file).is_file() for file in _TOKENIZER) else None
    network, tokenizer = load_pretrained(
        _auto_class(target_class),
        transformers.AutoTokenizer,
        base_path,
        dtype,
        device,
        tokenizer=tokenizer_path,
        lacks=adapter.replaced,
        **labels,
    )
    return _build_target(target_class, apply_adapter(network, adapter), tokenizer, name, options)


def _find_base(path: Path, base_name: str, folder: Path | None) -> str:
    """Find the base that a configuration names."""
    if not base_name:
        raise InputError(f"target.base: {path} holds an adapter without its base; name the base's folder")
    candidates = (check_path(path / base_name, "target.base"), _resolve_path(folder, base_name))
    for candidate in candidates:
        if (candidate / _CONFIG).is_file():
            return str(candidate.absolute())
    raise InputError(
        f"target.base: {path} holds an adapter without its base: {format_value(base_name)} is no model's folder, "
        f"neither from there nor from {folder or 'here'}; set base to its folder, or to 'hf:NAME' to fetch it from "
        "the hub"
    )


def _target_class(path: Path, source: str | None = None) -> type[CausalLM] | type[TextClassifier]:
    """Choose the target of a folder from the class that its configuration names; of a GGUF file, a language model."""
    if is_gguf(str(path)):
        return CausalLM
    if not (path / _CONFIG).is_file():
        raise InputError(
            f"target.model: {path} is no Hugging Face model: it has neither {_CONFIG} nor {ADAPTER_CONFIG}"
            + _suggest_subfolders(path)
        )
    config = store.read_json(path / _CONFIG)
    if not isinstance(config, dict):
        raise InputError(f"target.model: {path / _CONFIG}: an object is needed, got {format_value(config)}")
    architectures = config.get("architectures")
    if not architectures:
        model_type = config.get("model_type")
        by_type = auto_models.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        architectures = [by_type.get(model_type) if isinstance(model_type, str) else None]
    for target_class, names in (
        (CausalLM, auto_models.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
        (TextClassifier, auto_models.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES),
    ):
        if isinstance(architectures, list) and len(architectures) == 1 and architectures[0] in names.values():
            return target_class
    if isinstance(architectures, list) and any("ForImageClassification" in str(name) for name in architectures):
        name = (source or str(path)).removeprefix(HUB)
        raise InputError(
            f"target.model: {path} holds {architectures[0]}, an image classifier, whose images have to be prepared as "
            "in training. Do so in your own code, and pass lambda x: model(**processor(list(x), do_rescale=False, "
            "input_data_format='channels_first', return_tensors='pt')).logits.detach().numpy() for images [n, "
            "channels, height, width] from 0 to 1, where model = "
            f"transformers.AutoModelForImageClassification.from_pretrained({name!r}) and processor = "
            f"transformers.AutoImageProcessor.from_pretrained({name!r}); a plan names that function as "
            "'package.module:callable'"
        )
    raise InputError(
        f"target.model: {path} holds {format_value(config.get('architectures') or config.get('model_type'))}, which "
        "is neither a causal language model nor a sequence classifier of transformers"
    )


def _suggest_subfolders(path: Path) -> str:
    """Suggest folders of models in a folder, as `transformers.Trainer` writes them."""
    subfolders = [file.parent.name for file_name in (_CONFIG, ADAPTER_CONFIG) for file in path.glob(f"*/{file_name}")]
    steps = sorted(dict.fromkeys(subfolders), key=lambda name: (len(name), name))  # checkpoint-80 before checkpoint-160
    return f"; name one of the folders in it: {', '.join(steps[-_MAX_SUGGESTIONS:])}" if steps else ""


def _auto_class(target_class: type) -> Any:
    return (
        transformers.AutoModelForCausalLM
        if target_class is CausalLM
        else transformers.AutoModelForSequenceClassification
    )


def _resolve_path(folder: Path | None, model: str) -> Path:
    return check_path(Path(folder or ".") / model, "target.model")


def _download_small_files(name: str) -> Path:
    """Download the small files of a repository on the hub: configurations, tokenizer, adapter."""
    repository, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=list(_SMALL_FILES))
        )
    except Exception as error:  # no connection, no such repository
        raise InputError(f"target.model: {name!r} cannot be fetched: {format_exception(error)}") from None


_WEIGHT_PREFIX = "base_model.model."  # what peft puts before the name of every weight
_LORA = re.compile(r"\.lora_(?:embedding_)?[AB](?:\.(?:weight|bias))?$|\.lora_magnitude_vector(?:\.weight)?$")
_LORA_A = re.compile(r"\.lora_A\.weight$|\.lora_embedding_A$")
_NAME = re.compile(r"[\w.-]+")
_HEADS = ("score.weight", "classifier.weight", "out_proj.weight")

# What matters to training, to peft's own loading, or to which modules are adapted, which the weights tell.
_IGNORED_KEYS = {
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "loftq_config",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
}
_LORA_FLAGS = ("use_rslora", "use_dora", "fan_in_fan_out", "lora_bias")
_READ_KEYS = {
    "r",
    "lora_alpha",
    "bias",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "init_lora_weights",
    *_LORA_FLAGS,
}
_SAFE_INITIALISATIONS = (True, False, None, "gaussian", "orthogonal", "eva")  # starts that leave the base as it is
_WORKAROUND = "put it on its base in your own code (peft's merge_and_unload), save the model, and load that folder"


# peft itself opens no file here. Its configurations can import modules (``megatron_core``), open files
# (``corda_config``), match names by expressions that never end, and change the base as they are put on it. So of a
# configuration only what describes a plain LoRA is read, key by key; which modules are adapted is told by the weights,
# which come from safetensors; anything else is refused.
@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """Description of an adapter in its folder.

    Args:
        settings: of the LoRA, checked.
        weights: by peft's names.
        base: the base as the configuration names it; empty if it does not.
        classifies: whether it is a sequence classifier's.
    """

    settings: Mapping[str, Any]
    weights: Mapping[str, torch.Tensor]
    base: str
    classifies: bool

    @property
    def replaced(self) -> tuple[str, ...]:
        """Modules that come with the adapter as a whole."""
        return tuple(self.settings["modules_to_save"] or ())

    @property
    def labels(self) -> int | None:
        """Number of classes of a classifier's head that comes with the adapter."""
        for name, value in self.weights.items():
            if name.endswith(_HEADS) and value.ndim == 2 and set(name.split(".")) & set(self.replaced):
                return len(value)
        return None


def read_adapter(folder: Path) -> Adapter:
    """Read the adapter in a folder.

    Raises:
        divulge.InputError: no weights in safetensors, another method than LoRA, or a configuration that asks for more
            than a plain LoRA.
    """
    config = store.read_json(folder / ADAPTER_CONFIG)
    if not isinstance(config, dict):
        raise InputError(f"{folder / ADAPTER_CONFIG}: an object is needed, got {format_value(config)}")
    try:
        settings = _read_lora_settings(config)
        weights = _read_weights(folder)
        base = config.get("base_model_name_or_path") or ""
        modules = sorted({_LORA.sub("", name.removeprefix(_WEIGHT_PREFIX)) for name in weights if _LORA_A.search(name)})
        if not modules:
            raise InputError(f"{ADAPTER_WEIGHTS} holds no LoRA weights")
        return Adapter(
            settings | {"target_modules": modules},
            weights,
            check_instance(base, "base_model_name_or_path", str, "a text"),
            config.get("task_type") == "SEQ_CLS",
        )
    except InputError as error:
        raise InputError(f"target.model: the adapter in {folder}: {error}") from None


def apply_adapter(model: Any, adapter: Adapter) -> Any:
    """Put an adapter on the base ``model``: merged in float32, beside the base's own weights in half precision.

    Half precision would round away most of what the adapter changes.

    Raises:
        divulge.InputError: weights that do not fit the base.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft's hints for training, and what it calls of transformers
            config = peft.LoraConfig(**adapter.settings, inference_mode=True)
            peft_model = peft.get_peft_model(model, config, low_cpu_mem_usage=True)
            report = peft.set_peft_model_state_dict(peft_model, dict(adapter.weights), low_cpu_mem_usage=True)
            lacking = [key for key in report.missing_keys if ".lora_" in key or ".modules_to_save." in key]
            if mismatched := [*report.unexpected_keys, *lacking]:
                raise ValueError(
                    f"{len(mismatched)} weights are missing or belong to no module (first: {mismatched[0]})"
                )
            return merge_adapter(peft_model).eval()
    except Exception as error:  # whatever peft raises on weights that do not fit
        raise InputError(f"target.model: the adapter does not fit its base: {format_exception(error)}") from None


def merge_adapter(peft_model: Any) -> Any:
    """Merge an adapter into its base; where `can_merge` denies it, leave it beside."""
    model = peft_model.merge_and_unload() if can_merge(peft_model) else peft_model.get_base_model()
    model.is_adapted = True  # its merged weights no longer show it, and advice on training depends on it
    return model


def can_merge(peft_model: Any) -> bool:
    """Return whether an adapter can be added to the weights: not in half precision, nor on shared weights.

    Where the embedding is the output layer too, what an adapter adds to the one would go into the other.
    """
    base = peft_model.get_base_model()
    embeddings = [
        embedding for embedding in (base.get_input_embeddings(), base.get_output_embeddings()) if embedding is not None
    ]
    shared = len(embeddings) == 2 and embeddings[0].weight is embeddings[1].weight
    adapted = any(hasattr(embedding, "base_layer") for embedding in embeddings)
    return base.dtype == torch.float32 and not (shared and adapted) and not getattr(base, "is_quantized", False)


def _read_lora_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read and check what describes a plain LoRA in a configuration; more than that is refused."""
    peft_type = config.get("peft_type")
    if peft_type != "LORA":
        raise InputError(f"peft_type: only LORA can be read, got {format_value(peft_type)}; {_WORKAROUND}")
    for key, value in config.items():
        if key not in _IGNORED_KEYS | _READ_KEYS and value not in (None, False, {}, []):
            raise InputError(f"{key}: asks for more than a plain LoRA, got {format_value(value)}; {_WORKAROUND}")
    _require_transformers_base(config.get("auto_mapping"))
    initialisation = config.get("init_lora_weights", True)
    if not isinstance(initialisation, str | bool | None) or initialisation not in _SAFE_INITIALISATIONS:
        raise InputError(
            f"init_lora_weights: {format_value(initialisation)} changes the base as the adapter is put on; "
            f"{_WORKAROUND}"
        )
    replaced = config.get("modules_to_save")
    return {
        "r": check_integer(config.get("r", 8), "r", minimum=1, maximum=2**20),
        "lora_alpha": check_number(config.get("lora_alpha", 8), "lora_alpha"),
        "bias": check_choice(config.get("bias", "none"), "bias", ("none", "all", "lora_only")),
        "modules_to_save": None
        if not replaced
        else [
            _check_module_name(module, "modules_to_save")
            for module in check_instance(replaced, "modules_to_save", list, "a list of names")
        ],
        "rank_pattern": _read_patterns(
            config, "rank_pattern", lambda v, n: check_integer(v, n, minimum=1, maximum=2**20)
        ),
        "alpha_pattern": _read_patterns(config, "alpha_pattern", check_number),
        **{flag: check_bool(config.get(flag, False), flag) for flag in _LORA_FLAGS},
    }


def _require_transformers_base(mapping: Any) -> None:
    """Raise for a base of another library: peft itself would import what ``auto_mapping`` names."""
    if mapping is None:
        return
    library = mapping.get("parent_library") if isinstance(mapping, dict) else mapping
    if not isinstance(library, str) or library.partition(".")[0] != "transformers":
        raise InputError(
            f"auto_mapping: its base is a class of {format_value(library)}, and only transformers' own are used; "
            f"{_WORKAROUND}"
        )


def _check_module_name(value: Any, key: str) -> str:
    """Check a module's name; peft takes anything else for a regular expression, which may take for ever to match."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InputError(f"{key}: plain names of modules are needed, got {format_value(value)}; {_WORKAROUND}")
    return value


def _read_patterns(config: Mapping[str, Any], key: str, check: Any) -> dict[str, Any]:
    patterns = check_instance(config.get(key) or {}, key, dict, "a table of names and numbers")
    return {
        _check_module_name(name.removeprefix("^"), key): check(value, f"{key}.{name}")
        for name, value in patterns.items()
    }


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    path = folder / ADAPTER_WEIGHTS
    if not path.is_file():
        hint = " (adapter_model.bin is a pickle: a program)" if (folder / "adapter_model.bin").exists() else ""
        raise InputError(f"there is no {ADAPTER_WEIGHTS}{hint}; peft's save_pretrained writes one")
    try:
        weights = tensors.load_file(path)
    except Exception as error:  # whatever safetensors raises on damaged files
        raise InputError(f"{ADAPTER_WEIGHTS} is damaged: {format_exception(error)}") from None
    if non_float := [name for name, value in weights.items() if not value.is_floating_point()]:
        dtype = str(weights[non_float[0]].dtype).removeprefix("torch.")
        raise InputError(
            f"{ADAPTER_WEIGHTS}: floats are needed, and {non_float[0]} is stored as {dtype}; save it dequantised"
        )
    return weights
