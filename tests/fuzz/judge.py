"""One case: a right answer or an InputError that names what was wrong; anything else is a violation."""

import contextlib
import dataclasses
import resource
import signal
import threading
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import divulge as dv

PATIENCE = 20  # seconds after which a case counts as a hang
_UNSAID = ("np.float", "np.int", "np.bool", "np.str", "allow_pickle", "Traceback", "0x7f")
_LONGEST = 3000  # characters of a message


class Hang(BaseException):
    """Stopped after a time in which any answer should have come."""


@contextlib.contextmanager
def patience(seconds=PATIENCE):
    """Raise `Hang` in a block that does not end."""

    def stop(*_):
        raise Hang

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def little_memory(extra_bytes=8 << 30):
    """Let this process take no more than ``more`` bytes beyond what it has, so that a huge count ends at once."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Tally:
    """Counts of what came of the cases, and the violations in words."""

    def __init__(self, title):
        self.title, self.counts, self.violations = title, Counter(), []

    def add(self, case, outcome):
        """Count an outcome: "answer", "InputError", or a violation in words."""
        is_allowed = outcome in ("answer", "InputError", "noticed")
        self.counts[outcome if is_allowed else "violation"] += 1
        if not is_allowed:
            self.violations.append(f"{case}: {outcome}")

    def __str__(self):
        total = sum(self.counts.values())
        return f"{self.title}: {total} cases, " + ", ".join(
            f"{n} {outcome}" for outcome, n in sorted(self.counts.items())
        )


def outcome(work, *named, right=None):
    """What came of ``work()``.

    Args:
        work: the case.
        named: the message of an InputError holds one of these words; none: any will do.
        right: raises or returns words where the answer is not right.
    """
    try:
        with patience(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = work()
    except (dv.InputError, dv.MissingExtraError) as error:
        return _check_message(str(error), named)
    except Hang:
        return f"no end in {PATIENCE} seconds"
    except Exception as error:
        return _violation(error)
    return (right(result) if right else None) or "answer"


def _check_message(message, expected_words):
    if expected_words and not any(name in message for name in expected_words):
        return f"names none of {', '.join(expected_words)}: {message[:300]!r}"
    if odd := [word for word in _UNSAID if word in message]:
        return f"says {odd[0]}: {message[:300]!r}"
    if not message.strip() or len(message) > _LONGEST:
        return f"a message of {len(message)} characters: {message[:100]!r}"
    return "InputError"


def _violation(error):
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "divulge" in frame.filename]
    place = f"{frames[-1].filename.rpartition('/src/')[2]}:{frames[-1].lineno}" if frames else "?"
    try:
        message = str(error)
    except Exception:
        message = "?"
    return f"{type(error).__name__} at {place}: {message[:200]!r}"


def leaves(value, depth=8):
    """Arrays, numbers and words in a value, in order."""
    if depth == 0 or value is None:
        return
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        yield np.asarray(value)
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part, depth - 1)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part, depth - 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), depth - 1)


def same(first_answer, second_answer, tolerance=0.0):
    """Whether two answers say the same."""
    first_leaves, second_leaves = list(leaves(first_answer)), list(leaves(second_answer))
    return len(first_leaves) == len(second_leaves) and all(
        _equal(a, b, tolerance) for a, b in zip(first_leaves, second_leaves, strict=True)
    )


def _equal(a, b, tolerance):
    if a.shape != b.shape:
        return False
    if tolerance and a.dtype.kind in "fiub" and b.dtype.kind in "fiub":
        return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc")


def undefined(value):
    """How many numbers of an answer are NaN."""
    return sum(int(np.isnan(leaf).sum()) for leaf in leaves(value) if leaf.dtype.kind in "fc")
