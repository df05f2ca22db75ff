"""A valid call of a public function: what the cases are made from."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Call:
    """A valid call.

    Args:
        arguments: by name; copied for each case.
        use: what is done with what comes back: settings are used, so that a value nobody checked shows.
        free: parameters that may be anything, or whose content is the user's (their own code, names).
        says: what messages may name instead of the argument.
        long: counts of steps, which are as many as the user asks for.
        tolerance: relative, between answers to the same array in other forms (float32 copies and the like).
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    use: Callable[[Any], Any] = lambda made: made
    free: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    tolerance: float = 0.0

    def fresh(self):
        """The arguments, copied."""
        return copy.deepcopy(self.arguments)


def call(use=lambda made: made, free=(), says=(), long=(), tolerance=0.0, **arguments):
    """A valid call with these arguments."""
    return Call(arguments, use, free, says, long, tolerance)
