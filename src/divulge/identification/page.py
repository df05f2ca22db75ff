"""What the report of an identification says: whether the guarantee holds comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def shown(estimate: Mapping[str, Any]) -> str:
    """An estimate in words.

    >>> shown({"value": 0.5, "low": 0.25, "high": 1.0, "confidence": 0.95})
    '0.500 [0.250, 1.000]'
    """
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The main numbers, name and value."""
    threshold = summary["threshold"]
    found = [
        ("selected", f"{summary['selected']} of {summary['candidates']}"),
        ("method", summary["used"]),
        ("calibration scores", str(summary["calibration"])),
        ("smallest selected score", "–" if threshold is None else f"{threshold:.6g}"),
        ("share of members, estimated", shown(summary["usage"])),
    ]
    if summary["truth"]:
        found.append(("realised false discovery proportion", shown(summary["truth"]["fdp"])))
        found.append(("realised power", shown(summary["truth"]["power"])))
    return found
