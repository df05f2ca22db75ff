"""Models of Hugging Face from a hub name or a folder, safetensors alone, or from a GGUF file of llama.cpp."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import safetensors

from divulge import lazy
from divulge.errors import InputError, missing_extra
from divulge.store import MAX_LINES_BYTES, panic_errors, read_untrusted
from divulge.validation import check_choice, format_bytes, format_exception, format_value

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

from divulge.targets import device_memory
from divulge.targets.torch_modules import reject_quantised_weights, resolve_device

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    import transformers
    from transformers import utils as transformers_utils
    from transformers.utils import import_utils as transformers_imports
    from transformers.utils import logging as transformers_logging
else:
    transformers = lazy.module("transformers")
    transformers_imports = lazy.module("transformers.utils.import_utils")
    transformers_logging = lazy.module("transformers.utils.logging")
    transformers_utils = lazy.module("transformers.utils")

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

_BYTES_IN_4_BIT = 0.53  # a weight in NF4, its scales quantised too
_GGUF = "model.gguf"
_MAX_PADDING = 1 << 24  # tokens that texts may be filled up to
_MAX_COUNT = (
    10_000  # layers, experts or labels: a configuration can ask for any number, and gets modules that fill memory
)
# Of a configuration, where a model comes from and how it was saved; the rest decides what it computes.
_PROVENANCE_KEYS = frozenset({"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"})
_COUNT_KEYS = ("layer", "expert", "label", "block", "head")


def load_pretrained(
    model_class: Any,
    tokenizer_class: Any,
    name: str,
    dtype: str,
    device: str,
    *,
    tokenizer: str | None = None,
    lacks: Sequence[str] = (),
    **options: Any,
) -> tuple[Any, Any]:
    """Load a model onto its device, and its tokenizer (or processor), from a hub name or a folder.

    Args:
        model_class: what builds the model.
        tokenizer_class: what builds the tokenizer.
        name: ``hf:NAME``, ``hf:NAME@REVISION``, a folder, or a ``.gguf`` file, whose weights are dequantised.
        dtype: "float32", "bfloat16" or "float16".
        device: "map" (all devices), or as `divulge.targets.torch_modules.resolve_device` takes it.
        tokenizer: where the tokenizer lies; with the model when None.
        lacks: names of modules whose weights come from elsewhere.
        **options: of the configuration.

    Raises:
        divulge.InputError: unknown dtype, or a model that cannot be loaded.
        divulge.MissingExtraError: a ``.gguf`` file, and the package gguf is not installed.
    """
    check_choice(dtype, "dtype", DTYPES)
    if is_gguf(name):
        with _isolate_gguf(name) as folder:
            return _load(model_class, tokenizer_class, name, folder, dtype, device, tokenizer, lacks, options)
    if not name.startswith("hf:") and not Path(name).is_dir():
        raise InputError(f"model: {format_value(name)} cannot be loaded: no such folder; hf:NAME is one on the hub")
    source = name.removeprefix("hf:")
    return _load(model_class, tokenizer_class, name, source, dtype, device, tokenizer, lacks, options)


def quantize(bits: Literal["4bit"], dtype: str) -> Any:
    """Return transformers' settings for weights of four bits each (NF4, Dettmers et al. 2023).

    Raises:
        divulge.InputError: bitsandbytes is not installed.
    """
    check_choice(bits, "quantization", ("4bit",))
    if importlib.util.find_spec("bitsandbytes") is None:
        raise InputError("quantization: weights of 4 bits need the package bitsandbytes, which is not installed")
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=DTYPES[dtype],
    )


def is_gguf(name: str) -> bool:
    """Return whether ``name`` is a file of llama.cpp's format, which holds weights, configuration and tokenizer."""
    return name.lower().endswith(".gguf") and Path(name).is_file()


@contextlib.contextmanager
def _isolate_gguf(name: str) -> Generator[str]:
    """Yield a folder that holds the file alone: what lies beside it (an adapter, a configuration) is not its own.

    Raises:
        divulge.MissingExtraError: the package gguf is not installed.
    """
    if not transformers_imports.is_gguf_available():
        raise missing_extra("gguf", "gguf")
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / _GGUF
        try:
            link.symlink_to(Path(name).absolute())
        except OSError:  # Windows reserves symbolic links for administrators
            link.hardlink_to(Path(name).absolute())
        with contextlib.redirect_stderr(io.StringIO()):  # a bar of transformers that no setting hides
            yield folder


def _load(
    model_class: Any,
    tokenizer_class: Any,
    name: str,
    location: str,
    dtype: str,
    device: str,
    tokenizer: str | None,
    lacks: Sequence[str],
    options: dict[str, Any],
) -> tuple[Any, Any]:
    source, _, revision = (location, "", "") if is_gguf(name) else location.partition("@")
    revision_option: dict[str, Any] = {"revision": revision} if revision else {}
    origin_option = {"gguf_file": _GGUF} if is_gguf(name) else revision_option
    place = None if device == "map" else resolve_device(device)
    device_option: dict[str, Any] = {"device_map": "auto"} if place is None else {}
    if "quantization_config" in options and place is not None:  # such weights are put in place as they are read
        if place.type == "mps" and device == "auto":
            place = torch.device("cpu")  # what computes with four bits is written for CUDA and the CPU
        device_option = {"device_map": {"": str(place)}}
    try:
        # transformers would read an adapter beside a model in ways that are not safe.
        if transformers_utils.find_adapter_config_file(source, **revision_option) is not None:
            raise ValueError("it holds an adapter (adapter_config.json); divulge.targets.load puts one on its base")
        _reject_unsafe_config(source, origin_option)
        _reject_long_padding(tokenizer or source)
        _check_weights_fit(source, dtype, place, quantised="quantization_config" in options)
        with hide_progress_bars():
            model, report = model_class.from_pretrained(
                source,
                dtype=DTYPES[dtype],
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **origin_option,
                **device_option,
                **options,
            )
        # transformers draws weights that are missing at random, and the outputs then mean nothing.
        if untrained := sorted(key for key in report["missing_keys"] if not set(key.split(".")) & set(lacks)):
            raise ValueError(f"{len(untrained)} of its weights are missing from its files (first: {untrained[0]})")
        if is_gguf(name):
            # The weights are floats by now; a model that still calls itself quantised cannot be trained or stored.
            model.hf_quantizer = None
            vars(model.config).pop("quantization_config", None)
        _reject_unscaled_weights(model, source)
        with panic_errors("tokenizer"):
            tokenizer_object = tokenizer_class.from_pretrained(
                tokenizer or source, trust_remote_code=False, **({} if tokenizer else origin_option)
            )
            # Without a tokenizer in the folder transformers makes one up, of special tokens alone.
            text_tokenizer = getattr(tokenizer_object, "tokenizer", tokenizer_object)
            if not text_tokenizer.get_vocab().keys() - set(text_tokenizer.all_special_tokens):
                raise ValueError(
                    "it has no tokenizer (tokenizer.json); save the model's own beside it (save_pretrained)"
                )
        if place is not None and getattr(model, "hf_device_map", None) is None:
            model = model.to(place)
    except Exception as error:  # whatever transformers raises on files that are damaged or missing
        raise InputError(f"model: {format_value(name)} cannot be loaded: {format_exception(error)}") from None
    return model.eval(), tokenizer_object


@contextlib.contextmanager
def hide_progress_bars() -> Generator[None]:
    """Hide transformers' own progress bars inside the block."""
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


def _reject_unsafe_config(source: str, origin_option: Mapping[str, str]) -> None:
    """Refuse a configuration that names compiled code on the hub, which would be fetched and run, or endless layers.

    Raises:
        ValueError: it does.
    """
    pending: list[Any] = [transformers.PretrainedConfig.get_config_dict(source, **origin_option)[0]]
    while pending:
        for key, value in pending.pop().items():
            if isinstance(value, dict):
                pending.append(value)
            if "implementation" in key and "/" in str(value):
                raise ValueError(f"its configuration asks for code from the hub ({key}: {value!r})")
            size = len(value) if isinstance(value, dict | list) else value
            if any(word in key for word in _COUNT_KEYS) and isinstance(size, int | float) and size > _MAX_COUNT:
                raise ValueError(f"its configuration asks for more than {_MAX_COUNT:,} ({key}: {format_value(value)})")


def _check_weights_fit(source: str, dtype: str, device: torch.device | None, *, quantised: bool) -> None:
    """Check that a folder's weights fit onto the device (None: all together) before any is read.

    Of other sources nothing is known yet.

    Raises:
        ValueError: they do not.
    """
    files = sorted(Path(source).glob("*.safetensors")) if Path(source).is_dir() else []
    n_values = 0
    for path in files:
        with safetensors.safe_open(path, framework="pt") as file:
            n_values += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 - no dictionary
    n_bytes = n_values * (_BYTES_IN_4_BIT if quantised else DTYPES[dtype].itemsize)
    everywhere = [torch.device("cpu"), *(torch.device("cuda", i) for i in range(torch.cuda.device_count()))]
    devices = everywhere if device is None else [device]
    free = [device_memory.free_memory(each) for each in devices]
    if None not in free and n_bytes > (total := sum(size for size in free if size is not None)):
        raise ValueError(
            f"its weights need {format_bytes(n_bytes)} in {dtype}, and {format_bytes(total)} are free on "
            f"{' and '.join(map(str, devices))}; dtype='bfloat16' or device='map' may help"
        )


def _reject_unscaled_weights(model: Any, source: str) -> None:
    """Refuse quantised weights (integers) whose scales transformers would ignore; without them they are noise.

    Raises:
        ValueError: the model computes with floats where a file of its folder has integers.
    """
    if getattr(model.config, "quantization_config", None) is not None:
        return  # transformers reads the scales
    parameters = model.state_dict()
    for path in sorted(Path(source).glob("*.safetensors")) if Path(source).is_dir() else ():
        with safetensors.safe_open(path, framework="pt") as file:
            stored_types = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - no dictionary
        reject_quantised_weights(stored_types, parameters)


def _reject_long_padding(source: str) -> None:
    """Refuse a tokenizer that pads every text to so many tokens that memory would run out.

    Raises:
        ValueError: it does.
    """
    path = Path(source) / "tokenizer.json"
    if not path.is_file():
        return
    content = json.loads(read_untrusted(path, limit=MAX_LINES_BYTES))
    pending: list[Any] = [content.get("padding"), content.get("truncation")] if isinstance(content, dict) else []
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, int) and value > _MAX_PADDING:
            raise ValueError(f"tokenizer.json asks for texts of {value:,} tokens (at most {_MAX_PADDING:,})")


def check_token_ids(model: Any, encoded: Sequence[Sequence[int]]) -> None:
    """Raise where a tokenizer makes tokens that the model has no embedding for.

    Raises:
        divulge.InputError: it does; the model and the tokenizer do not belong together.
    """
    size = model.get_input_embeddings().weight.shape[0]
    if (highest := max((max(ids) for ids in encoded if len(ids)), default=0)) >= size:
        raise InputError(
            f"tokenizer: it makes token {highest}, and the model knows {size:,} tokens; they do not belong together"
        )


def weights_digest(model: Any) -> str:
    """Return a digest of every parameter, and of the configuration that says how they are used.

    That a model came from the hub says nothing of its weights: it may have been trained since, or wear an adapter.
    Only of weights that are left on disk is the revision all that is known.
    """
    config = {name: value for name, value in model.config.to_dict().items() if name not in _PROVENANCE_KEYS}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
        if value.is_meta:
            digest.update(str(getattr(model.config, "_commit_hash", None)).encode())
        else:
            digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tokenizer_digest(tokenizer: Any) -> str:
    """Return a digest of the vocabulary and rules of a tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(content.encode()).hexdigest()
