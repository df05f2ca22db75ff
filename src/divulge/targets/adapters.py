"""LoRA adapters of `peft`: a configuration that is read key by key, and weights from safetensors.

peft itself opens no file here. Its configurations can import modules (``megatron_core``), open files
(``corda_config``), match names by expressions that never end, and change the base as they are put on it. So of a
configuration only what describes a plain LoRA is taken, which modules are adapted is told from the weights, and
anything else is refused.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from divulge import lazy, store
from divulge.errors import InputError
from divulge.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_integer,
    check_number,
    format_exception,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import peft
    import torch
    from safetensors import torch as tensors
else:
    peft = lazy.module("peft")
    tensors = lazy.module("safetensors.torch")
    torch = lazy.module("torch")

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

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
_READ_KEYS = {"r", "lora_alpha", "bias", "modules_to_save", "rank_pattern", "alpha_pattern", "init_lora_weights", *_LORA_FLAGS}
_SAFE_INITIALISATIONS = (True, False, None, "gaussian", "orthogonal", "eva")  # starts that leave the base as it is
_WORKAROUND = "put it on its base in your own code (peft's merge_and_unload), save the model, and load that folder"


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """What a folder says of an adapter.

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
    """The adapter in a folder.

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
        return Adapter(
            settings | {"target_modules": _adapted_modules(weights)},
            weights,
            check_instance(base, "base_model_name_or_path", str, "a text"),
            config.get("task_type") == "SEQ_CLS",
        )
    except InputError as error:
        raise InputError(f"target.model: the adapter in {folder}: {error}") from None


def apply_adapter(model: Any, adapter: Adapter) -> Any:
    """The base ``model`` with the adapter: merged in float32, beside the base's own weights in half precision.

    Half precision would round away most of what the adapter changes.

    Raises:
        divulge.InputError: weights that do not fit the base.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft's hints for training, and what it calls of transformers
            return _wrap_and_merge(model, adapter).eval()
    except Exception as error:  # whatever peft raises on weights that do not fit
        raise InputError(f"target.model: the adapter does not fit its base: {format_exception(error)}") from None


def _wrap_and_merge(model: Any, adapter: Adapter) -> Any:
    config = peft.LoraConfig(**adapter.settings, inference_mode=True)
    wearing = peft.get_peft_model(model, config, low_cpu_mem_usage=True)
    report = peft.set_peft_model_state_dict(wearing, dict(adapter.weights), low_cpu_mem_usage=True)
    lacking = [key for key in report.missing_keys if ".lora_" in key or ".modules_to_save." in key]
    if off := [*report.unexpected_keys, *lacking]:
        raise ValueError(f"{len(off)} weights are missing or belong to no module (first: {off[0]})")
    return merge_adapter(wearing)


def merge_adapter(wearing: Any) -> Any:
    """The base with the adapter in its weights, or beside them: in half precision, and on weights that are shared.

    Where the embedding is the output layer too, what an adapter adds to the one would go into the other.
    """
    base = wearing.get_base_model()
    ends = [end for end in (base.get_input_embeddings(), base.get_output_embeddings()) if end is not None]
    shared = len(ends) == 2 and ends[0].weight is ends[1].weight
    adapted = any(hasattr(end, "base_layer") for end in ends)
    return base if (shared and adapted) or base.dtype != torch.float32 else wearing.merge_and_unload()


def _read_lora_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a configuration describes a plain LoRA, checked; more than that is refused."""
    kind = config.get("peft_type")
    if kind != "LORA":
        raise InputError(f"peft_type: only LORA can be read, got {format_value(kind)}; {_WORKAROUND}")
    for key, value in config.items():
        if key not in _IGNORED_KEYS | _READ_KEYS and value not in (None, False, {}, []):
            raise InputError(f"{key}: asks for more than a plain LoRA, got {format_value(value)}; {_WORKAROUND}")
    _require_transformers_base(config.get("auto_mapping"))
    start = config.get("init_lora_weights", True)
    if not isinstance(start, str | bool | None) or start not in _SAFE_INITIALISATIONS:
        raise InputError(
            f"init_lora_weights: {format_value(start)} changes the base as the adapter is put on; {_WORKAROUND}"
        )
    replaced = config.get("modules_to_save")
    return {
        "r": check_integer(config.get("r", 8), "r", least=1, most=2**20),
        "lora_alpha": check_number(config.get("lora_alpha", 8), "lora_alpha"),
        "bias": check_choice(config.get("bias", "none"), "bias", ("none", "all", "lora_only")),
        "modules_to_save": None if not replaced else [_check_module_name(one, "modules_to_save") for one in _check_name_list(replaced)],
        "rank_pattern": _read_patterns(config, "rank_pattern", lambda v, n: check_integer(v, n, least=1, most=2**20)),
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


def _check_name_list(value: Any) -> list[Any]:
    return check_instance(value, "modules_to_save", list, "a list of names")


def _check_module_name(value: Any, key: str) -> str:
    """A module's name; peft would take anything else for a regular expression, which may take for ever to match."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InputError(f"{key}: plain names of modules are needed, got {format_value(value)}; {_WORKAROUND}")
    return value


def _read_patterns(config: Mapping[str, Any], key: str, check: Any) -> dict[str, Any]:
    given = check_instance(config.get(key) or {}, key, dict, "a table of names and numbers")
    return {_check_module_name(name.removeprefix("^"), key): check(value, f"{key}.{name}") for name, value in given.items()}


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    path = folder / ADAPTER_WEIGHTS
    if not path.is_file():
        beside = " (adapter_model.bin is a pickle: a program)" if (folder / "adapter_model.bin").exists() else ""
        raise InputError(f"there is no {ADAPTER_WEIGHTS}{beside}; peft's save_pretrained writes one")
    try:
        weights = tensors.load_file(path)
    except Exception as error:  # whatever safetensors raises on damaged files
        raise InputError(f"{ADAPTER_WEIGHTS} is damaged: {format_exception(error)}") from None
    if odd := [name for name, value in weights.items() if not value.is_floating_point()]:
        kind = str(weights[odd[0]].dtype).removeprefix("torch.")
        raise InputError(f"{ADAPTER_WEIGHTS}: floats are needed, and {odd[0]} is stored as {kind}; save it dequantised")
    return weights


def _adapted_modules(weights: Mapping[str, torch.Tensor]) -> list[str]:
    """The modules that have LoRA weights, by their full names."""
    own = sorted({_LORA.sub("", name.removeprefix(_WEIGHT_PREFIX)) for name in weights if _LORA_A.search(name)})
    if not own:
        raise InputError(f"{ADAPTER_WEIGHTS} holds no LoRA weights")
    return own
