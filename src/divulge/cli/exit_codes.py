"""Exit codes of the command line; each has one meaning."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the exit code of a command says.

    Attributes:
        OK: done; of `divulge gate`: the policy is kept.
        BROKEN: the policy of `divulge gate` is broken, or the claim that `divulge canaries audit` tested is violated.
        INPUT: something that was handed in cannot be used: an option, a file, a directory, a missing package.
        UNDECIDED: whether the policy of `divulge gate` is kept cannot be told from so few records, or the claim not be
            tested with these canaries.
        CONTRADICTED: the answers of a scoring endpoint contradict its specification.
        DAMAGED: `divulge pool verify` found a model that is not what was stored.
        INTERNAL: a fault of Divulge.
        INTERRUPTED: stopped from the keyboard; finished work is kept.
    """

    OK = 0
    BROKEN = 1
    INPUT = 2
    UNDECIDED = 3
    CONTRADICTED = 4
    DAMAGED = 5
    INTERNAL = 70
    INTERRUPTED = 130
