"""Membership as people spell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks
from divulge.identification import kinds

if TYPE_CHECKING:
    from divulge.types import Array

# In lower case; a missing value is membership not known.
_MEMBER = ("1", "1.0", "true", "t", "yes", "y", "member", "members")
_NONMEMBER = ("0", "0.0", "false", "f", "no", "n", "nonmember", "non-member", "nonmembers", "non-members")
_UNKNOWN = ("", "nan", "null", "none", "na")
_SHOWN = 5  # words in a message


class Membership:
    """A column of membership, read piece by piece."""

    def __init__(self) -> None:
        self._known = False
        self._unread: list[str] = []

    def read(self, values: Array) -> Array:
        """True, False or None of each value ``[n]``, in whatever spelling.

        Examples:
            >>> Membership().read(np.array([" Yes", "no", "", "perhaps"], object))
            array([True, False, None, None], dtype=object)
        """
        words = kinds.texts(values).tolist()
        read = {word: self._one(word) for word in set(words)}
        self._known = self._known or any(value is not None for value in read.values())
        return np.fromiter((read[word] for word in words), dtype=object, count=len(words))

    def check(self, column: str, name: str) -> None:
        """Raise for a column that says something else, or nothing.

        Raises:
            divulge.InputError: in that case.
        """
        if self._unread:
            shown = ", ".join(map(repr, self._unread[:_SHOWN])) + (", …" if len(self._unread) > _SHOWN else "")
            raise checks.InputError(
                f"truth: column {column!r} of {name} must hold yes and no, true and false, 1 and 0 or member and "
                f"nonmember, got {shown}"
            )
        if not self._known:
            raise checks.InputError(
                f"truth: column {column!r} of {name} is empty in every row; membership is known of none"
            )

    def _one(self, said: Any) -> bool | None:
        spelled = "" if said is None else said.strip()
        word = spelled.lower()
        if word in _MEMBER or word in _NONMEMBER:
            return word in _MEMBER
        if word not in _UNKNOWN:
            self._unread = sorted({*self._unread, spelled})[: _SHOWN + 1]
        return None
