"""What an audit will take, before it starts: models to train, time, memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.auditing import active, looking_inside, memory, reference_models
from divulge.signals import internals
from divulge.targets import GivesLabels, GivesLogits

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.auditing.case import Case
    from divulge.types import Records

_TIMED = 16  # batches of one reference model that are timed, after a first that warms up
_ASKED = 10  # records that the target is asked about


@dataclass(frozen=True, slots=True)
class Forecast:
    """What an audit will take.

    Args:
        records: candidates, calibration and population together.
        models: reference models that its recipes read; those already in the pool count too.
        lessons: records that each of them is trained on, on average.
        training: seconds of one core to train them one by one, from timed batches; None where nothing tells.
        scoring: seconds for the target to answer; None where it was not asked, or a signal does not say how often it
            will be.
        memory: bytes held at once, without what training takes.
    """

    records: int
    models: int
    lessons: int
    training: float | None
    scoring: float | None
    memory: float

    @property
    def text(self) -> str:
        """One line."""
        parts = [f"{self.records:,} records"]
        if self.models:
            parts.append(f"{self.models:,} reference models of {self.lessons:,} records on average")
            known = None if self.training is None else f"at most {_time(self.training)} on one core"
            parts.append(f"training {known or 'of unknown length'}")
        if self.scoring is not None:
            parts.append(f"scoring at most {_time(self.scoring)}")
        return "; ".join([*parts, f"memory about {self.memory / 2**20:,.0f} MiB, without training"])


def foresee(case: Case, *, on_disk: bool) -> Forecast:
    """The forecast of a checked audit; the target is asked nothing."""
    kinds = [kind for kind in reference_models.KINDS if any(kind in recipe.needs for recipe in case.given.recipes)]
    lessons = [reference_models.lessons(case, kind) for kind in kinds]
    sizes = np.concatenate([rows.sum(1) for _, rows in lessons]) if lessons else np.zeros(0)
    return Forecast(
        records=case.layout.total,
        models=len(sizes),
        lessons=round(float(sizes.mean())) if len(sizes) else 0,
        training=_training(case, lessons[0][0], sizes) if len(sizes) else 0.0,
        scoring=None,
        memory=memory.needed(case, on_disk=on_disk),
    )


def asked(case: Case, forecast: Forecast) -> Forecast:
    """The same with the time for the target to answer, from ten records of the population.

    Signals that question it themselves say at most how often, in ``queries``.
    """
    own = [getattr(signal, "queries", None) for signal in active.signals(case.given.recipes).values()]
    if None in own:
        return forecast
    some, inside = case.given.population[:_ASKED], looking_inside.names_of(case.given.recipes)
    records = len(case.views[0])
    answers = sum(map(len, case.views)) + records * sum(int(queries) for queries in own if queries is not None)
    looks = records * _timed(lambda: internals.measure(case.target, some, inside)) if inside else 0.0
    return replace(forecast, scoring=(answers * _timed(lambda: _ask(case, some)) + looks) / len(some))


def _timed(work: Callable[[], object]) -> float:
    """Seconds that it takes once it is warm."""
    work()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _ask(case: Case, records: Records) -> None:
    target: Any = case.target
    if isinstance(target, GivesLogits):
        target.logits(records)
    elif isinstance(target, GivesLabels):
        target.labels(records)
    else:
        target.tokens(list(records.x))


def _training(case: Case, records: Records, sizes: np.ndarray) -> float | None:
    """Seconds for all models, from a few batches of one; None for training that has no batches."""
    how = case.references
    if not hasattr(how, "brief"):
        return None
    settings = getattr(how, "config", how)
    size, epochs = settings.batch_size, settings.epochs
    least, most = min(size, len(records)), min((1 + _TIMED) * size, len(records))
    first = _seconds(case, records, least)
    if most == least:
        return first * epochs * len(sizes)
    each = max(_seconds(case, records, most) - first, 0.0) / (most - least)
    return each * float(sizes.sum()) * epochs


def _seconds(case: Case, records: Records, count: int) -> float:
    """Of one epoch on so many records."""
    how, classes = case.references.brief(), {"classes": case.classes} if case.classes else {}
    began = time.perf_counter()
    how.fit(records, (np.arange(len(records)) < count)[None], seed=case.seed, **classes)
    return time.perf_counter() - began


def _time(seconds: float) -> str:
    """Rounded up, as nobody minds an audit that ends early.

    Examples:
        >>> _time(0.2), _time(31), _time(200), _time(9000)
        ('about 1 s', 'about 31 s', 'about 4 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {-(-seconds // 60):.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
