"""Hugging Face folders: a causal language model, a sequence classifier, or a LoRA adapter and its base."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import lazy, store
from divulge.errors import InputError
from divulge.targets import adapters
from divulge.targets.pretrained import load_pretrained
from divulge.targets.text import CausalLM
from divulge.targets.text_classifiers import TextClassifier
from divulge.validation import check_choice, check_path, format_exception, format_value

if TYPE_CHECKING:
    import huggingface_hub
    import transformers
    from transformers.models.auto import modeling_auto as known
else:
    huggingface_hub = lazy.module("huggingface_hub")
    known = lazy.module("transformers.models.auto.modeling_auto")
    transformers = lazy.module("transformers")

HUB = "hf:"
_MAX_SUGGESTIONS = 8  # checkpoints in a message
_CONFIG = "config.json"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_SMALL_FILES = (_CONFIG, adapters.ADAPTER_CONFIG, adapters.ADAPTER_WEIGHTS, "tokenizer*", "special_tokens_map.json", "vocab*", "merges.txt")


def load_folder(
    model: str,
    *,
    base: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
    folder: Path | None = None,
    **options: Any,
) -> CausalLM | TextClassifier:
    """The target in a folder of Hugging Face's layout, or in a repository on the hub.

    Args:
        model: the folder, or ``hf:NAME`` or ``hf:NAME@REVISION``.
        base: of an adapter: a folder or ``hf:NAME``; by default what its configuration names, looked for from the
            adapter's folder, then from ``folder``. Nothing is fetched from the hub that you did not name.
        dtype: "float32", "bfloat16" or "float16".
        device: "auto", "cpu", "cuda", or "map" to spread layers over all devices.
        folder: relative paths start here.
        **options: of `CausalLM` or `TextClassifier`.

    Raises:
        divulge.InputError: a folder that is none of these, an adapter without its base, anything that would run code.
    """
    place = _download_small_files(model) if model.startswith(HUB) else _resolve_path(folder, model)
    if (place / adapters.ADAPTER_CONFIG).is_file():
        return _load_adapted(place, model, base, dtype, device, folder, options)
    if base is not None:
        raise InputError(
            f"target.base: {place} holds no adapter ({adapters.ADAPTER_CONFIG}) that could need a base" + _suggest_subfolders(place)
        )
    kind = _target_class(place)
    source = model if model.startswith(HUB) else str(place)
    network, tokenizer = load_pretrained(_auto_class(kind), transformers.AutoTokenizer, source, dtype, device)
    return _build_target(kind, network, tokenizer, model, options)


def _build_target(kind: Any, network: Any, tokenizer: Any, name: str, options: dict[str, Any]) -> CausalLM | TextClassifier:
    known_options = [one.name for one in fields(kind)]
    for option in options:
        check_choice(option, f"target.model: {name} makes a {kind.__name__}; its options", known_options)
    return kind(network, tokenizer, name=name, **options)


def _load_adapted(
    place: Path, name: str, base: str | None, dtype: str, device: str, folder: Path | None, options: dict[str, Any]
) -> CausalLM | TextClassifier:
    """The base with the adapter put on."""
    adapter = adapters.read_adapter(place)
    under = _find_base(place, adapter.base, folder) if base is None else base
    if not under.startswith(HUB):
        under = str(_resolve_path(folder, under))
    kind = TextClassifier if adapter.classifies else _target_class(_download_small_files(under) if under.startswith(HUB) else Path(under))
    labels = {"num_labels": adapter.labels} if kind is TextClassifier and adapter.labels is not None else {}
    words = str(place) if any((place / file).is_file() for file in _TOKENIZER) else None
    network, tokenizer = load_pretrained(
        _auto_class(kind),
        transformers.AutoTokenizer,
        under,
        dtype,
        device,
        tokenizer=words,
        lacks=adapter.replaced,
        **labels,
    )
    return _build_target(kind, adapters.apply_adapter(network, adapter), tokenizer, name, options)


def _find_base(place: Path, named: str, folder: Path | None) -> str:
    """Where the base lies that a configuration names."""
    if not named:
        raise InputError(f"target.base: {place} holds an adapter without its base; name the base's folder")
    near = (check_path(place / named, "target.base"), _resolve_path(folder, named))
    for candidate in near:
        if (candidate / _CONFIG).is_file():
            return str(candidate.absolute())
    raise InputError(
        f"target.base: {place} holds an adapter without its base: {format_value(named)} is no model's folder, neither "
        f"from there nor from {folder or 'here'}; set base to its folder, or to 'hf:NAME' to fetch it from the hub"
    )


def _target_class(place: Path) -> type[CausalLM] | type[TextClassifier]:
    """Which target a folder makes, from the class that its configuration names."""
    if not (place / _CONFIG).is_file():
        raise InputError(
            f"target.model: {place} is no Hugging Face model: it has neither {_CONFIG} nor {adapters.ADAPTER_CONFIG}"
            + _suggest_subfolders(place)
        )
    config = store.read_json(place / _CONFIG)
    if not isinstance(config, dict):
        raise InputError(f"target.model: {place / _CONFIG}: an object is needed, got {format_value(config)}")
    made = config.get("architectures") or [_architecture_of_type(known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, config.get("model_type"))]
    for kind, names in (
        (CausalLM, known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
        (TextClassifier, known.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES),
    ):
        if isinstance(made, list) and len(made) == 1 and made[0] in names.values():
            return kind
    raise InputError(
        f"target.model: {place} holds {format_value(config.get('architectures') or config.get('model_type'))}, which "
        "is neither a causal language model nor a sequence classifier of transformers"
    )


def _suggest_subfolders(place: Path) -> str:
    """Folders of models in a folder, as `transformers.Trainer` writes them, to be named instead."""
    inside = [path.parent.name for kind in (_CONFIG, adapters.ADAPTER_CONFIG) for path in place.glob(f"*/{kind}")]
    steps = sorted(dict.fromkeys(inside), key=lambda name: (len(name), name))  # checkpoint-80 before checkpoint-160
    return f"; name one of the folders in it: {', '.join(steps[-_MAX_SUGGESTIONS:])}" if steps else ""


def _architecture_of_type(names: Any, kind: Any) -> Any:
    return names.get(kind) if isinstance(kind, str) else None


def _auto_class(kind: type) -> Any:
    return transformers.AutoModelForCausalLM if kind is CausalLM else transformers.AutoModelForSequenceClassification


def _resolve_path(folder: Path | None, model: str) -> Path:
    return check_path(Path(folder or ".") / model, "target.model")


def _download_small_files(name: str) -> Path:
    """The small files of a repository on the hub: configurations, tokenizer, adapter."""
    where, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(huggingface_hub.snapshot_download(where, revision=revision or None, allow_patterns=list(_SMALL_FILES)))
    except Exception as error:  # no connection, no such repository
        raise InputError(f"target.model: {name!r} cannot be fetched: {format_exception(error)}") from None
