"""What can go wrong in a user's hands; light, so that the command line starts without NumPy."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user handed in cannot be used; the message says what, why and what would do."""


class MissingExtraError(ImportError):
    """A part of Divulge was used whose optional dependency is not installed."""


def extra(package: str, name: str) -> MissingExtraError:
    """The error for a missing optional dependency.

    Examples:
        >>> print(extra("torch", "torch"))
        torch is not installed; it comes with: pip install 'divulge[torch]'
    """
    return MissingExtraError(f"{package} is not installed; it comes with: pip install 'divulge[{name}]'")
