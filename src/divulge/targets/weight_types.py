"""Weights as a file stores them, held against what a model computes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def reject_quantised_weights(stored: Mapping[str, str], own: Mapping[str, Any]) -> None:
    """Raise where weights are stored as integers and a module computes with floats.

    Such weights are quantised, and mean nothing without the scales that belong to them. A library that only casts them
    gives a model that runs, and says something else than the one that was trained.

    Args:
        stored: by name, the type of each tensor of a file, as safetensors or torch writes it.
        own: parameters and buffers of the module, by name; a name in the file may lack a prefix, or have one more.

    Raises:
        ValueError: there are some; the first is named.
    """
    for name, kind in stored.items():
        plain = kind.removeprefix("torch.")
        if plain.lower().startswith(("f", "bf", "c")):
            continue
        same = own.get(name, next((value for key, value in own.items() if _is_same_parameter(key, name)), None))
        if same is not None and same.is_floating_point():
            raise ValueError(
                f"{name} is stored as {plain} where the model has {str(same.dtype).removeprefix('torch.')}: quantised "
                "weights mean nothing without their scales; save them dequantised"
            )


def _is_same_parameter(one: str, other: str) -> bool:
    return one.endswith(f".{other}") or other.endswith(f".{one}")
