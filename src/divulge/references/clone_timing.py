"""How long a clone of an estimator takes, from trials on few records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from divulge import seeds
from divulge.errors import InputError
from divulge.references import clones
from divulge.references.engines import limit_to_one_thread

if TYPE_CHECKING:
    from divulge.types import Records

_FIRST_SIZE, _GROWTH = 256, 4  # records of the first trial, and times as many of each further one
_SHARE_OF_CLOCK = 4  # a busy machine makes everything wait, so that waiting counts less than work
_LONG_ENOUGH = 2.0  # seconds of a trial from which the rest is extrapolated


def time_clone(
    training: clones.CloneTraining, records: Records, classes: int, n_learned: int, n_asked: int, seed: int
) -> float:
    """Return the seconds in which one clone is trained on so many records, and asked about so many others.

    Trials are of more and more of ``records``, until one is of as many or takes some seconds: from there on the time is
    taken to grow as the records do. It is time of the processor, which depends less than the clock's on what else runs;
    of a clone that waits, for a server or a card, a quarter of the clock's.

    Args:
        training: whose clones are timed.
        records: of the kind that they are trained on.
        classes: size of the whole label set; 0 for a regressor.
        n_learned: records that a clone is trained on.
        n_asked: records that it is asked about.
        seed: of the draw of the records.

    Raises:
        divulge.InputError: a clone cannot be trained.
    """
    order = seeds.generator(seed, "clone", "trial").permutation(len(records))
    n_tried, n_most = 0, max(1, min(n_learned, len(records)))
    while True:
        n_tried = min(max(_FIRST_SIZE, _GROWTH * n_tried), n_most)
        part = records[order[:n_tried]]
        try:
            training_seconds, answer_seconds = _time_trial(training, part, seed, classes)
        except InputError:  # a class that only the larger parts have
            if n_tried == n_most:
                raise
            continue
        if n_tried == n_most or training_seconds + answer_seconds > _LONG_ENOUGH:
            return training_seconds * n_learned / n_tried + answer_seconds * n_asked / n_tried


def _time_trial(training: clones.CloneTraining, records: Records, seed: int, classes: int) -> tuple[float, float]:
    """Return the seconds in which a clone is trained on records and answers about them."""
    start = _now()
    with limit_to_one_thread():
        if classes:
            answer = clones.train_clone(training, records, seed, classes).logits
        else:
            answer = clones.train_regressor(training, records, seed).predictions
        trained = _now()
        answer(records)
    return _elapsed(start, trained), _elapsed(trained, _now())


def _now() -> tuple[float, float]:
    """Return the seconds of the processor and of the clock."""
    return time.process_time(), time.perf_counter()


def _elapsed(start: tuple[float, float], end: tuple[float, float]) -> float:
    return max(end[0] - start[0], (end[1] - start[1]) / _SHARE_OF_CLOCK)
