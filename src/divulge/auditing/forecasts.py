"""What an audit will take, before it starts: models to train, time, memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.auditing import reference_models
from divulge.auditing.reference_models import MAX_BYTES_IN_MEMORY, TRAINED_REFERENCES
from divulge.auditing.signals import active_signals
from divulge.signals import internals
from divulge.targets import GivesLabels, GivesLogits
from divulge.validation import check_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.auditing.prepared import PreparedAudit
    from divulge.types import Records

_N_TIMED_BATCHES = 16  # batches of one reference model that are timed, after a first that warms up
_N_TIMED_RECORDS = 10  # records that the target is asked about


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
            known = None if self.training is None else f"at most {_format_duration(self.training)} on one core"
            parts.append(f"training {known or 'of unknown length'}")
        if self.scoring is not None:
            parts.append(f"scoring at most {_format_duration(self.scoring)}")
        return "; ".join([*parts, f"memory about {self.memory / 2**20:,.0f} MiB, without training"])


def make_forecast(case: PreparedAudit, *, on_disk: bool) -> Forecast:
    """The forecast of a checked audit; the target is asked nothing."""
    kinds = [
        kind
        for kind in reference_models.TRAINED_REFERENCES
        if any(kind in recipe.needs for recipe in case.given.recipes)
    ]
    lessons = [reference_models.training_data(case, kind) for kind in kinds]
    sizes = np.concatenate([rows.sum(1) for _, rows in lessons]) if lessons else np.zeros(0)
    return Forecast(
        records=case.layout.total,
        models=len(sizes),
        lessons=round(float(sizes.mean())) if len(sizes) else 0,
        training=_training_seconds(case, lessons[0][0], sizes) if len(sizes) else 0.0,
        scoring=None,
        memory=estimate_memory(case, on_disk=on_disk),
    )


def add_scoring_time(case: PreparedAudit, forecast: Forecast) -> Forecast:
    """The same with the time for the target to answer, from ten records of the population.

    Signals that question it themselves say at most how often, in ``queries``.
    """
    own = [getattr(signal, "queries", None) for signal in active_signals(case.given.recipes).values()]
    if None in own:
        return forecast
    some, inside = case.given.population[:_N_TIMED_RECORDS], reference_models.white_box_names(case.given.recipes)
    records = len(case.views[0])
    answers = sum(map(len, case.views)) + records * sum(int(queries) for queries in own if queries is not None)
    looks = records * _time_call(lambda: internals.measure(case.target, some, inside)) if inside else 0.0
    return replace(forecast, scoring=(answers * _time_call(lambda: _query(case, some)) + looks) / len(some))


def _time_call(work: Callable[[], object]) -> float:
    """Seconds that it takes once it is warm."""
    work()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _query(case: PreparedAudit, records: Records) -> None:
    target: Any = case.target
    if isinstance(target, GivesLogits):
        target.logits(records)
    elif isinstance(target, GivesLabels):
        target.labels(records)
    else:
        target.tokens(list(records.x))


def _training_seconds(case: PreparedAudit, records: Records, sizes: np.ndarray) -> float | None:
    """Seconds for all models, from a few batches of one; None for training that has no batches."""
    how = case.references
    if not hasattr(how, "brief"):
        return None
    settings = getattr(how, "config", how)
    size, epochs = settings.batch_size, settings.epochs
    least, most = min(size, len(records)), min((1 + _N_TIMED_BATCHES) * size, len(records))
    first = _epoch_seconds(case, records, least)
    if most == least:
        return first * epochs * len(sizes)
    each = max(_epoch_seconds(case, records, most) - first, 0.0) / (most - least)
    return each * float(sizes.sum()) * epochs


def _epoch_seconds(case: PreparedAudit, records: Records, count: int) -> float:
    """Of one epoch on so many records."""
    how, classes = case.references.brief(), {"classes": case.classes} if case.classes else {}
    began = time.perf_counter()
    how.fit(records, (np.arange(len(records)) < count)[None], seed=case.seed, **classes)
    return time.perf_counter() - began


def _format_duration(seconds: float) -> str:
    """Rounded up, as nobody minds an audit that ends early.

    Examples:
        >>> _format_duration(0.2), _format_duration(31), _format_duration(200), _format_duration(9000)
        ('about 1 s', 'about 31 s', 'about 4 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {-(-seconds // 60):.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


_BYTES_PER_LOGIT = 3 * 8  # bytes per output of the target: itself, its copy in double precision, its exponential
_BYTES_PER_SIGNAL = 4
_CHARACTERS_PER_TOKEN = 4  # characters, in most languages and tokenizers
_BYTES_PER_TOKEN = 7 * 8  # bytes per token of the target


def estimate_memory(case: PreparedAudit, *, on_disk: bool) -> float:
    """Bytes that an audit will hold at once, see `check`."""
    view = case.views[0]
    rows = case.layout.total
    outputs = rows * case.classes * _BYTES_PER_LOGIT
    features = 0 if view.x.dtype == object else 2 * 8 * view.x.size
    signals = len({name for recipe in case.given.recipes for name in (recipe.signal_name, *recipe.beside)})
    models = _count_models(case)
    versions = 1 + len({at for places in case.further.values() for at in places})
    said = models * rows * versions * (signals * _BYTES_PER_SIGNAL + 1)
    if on_disk:
        said = min(said, 2 * MAX_BYTES_IN_MEMORY * _count_model_sets(case))
    return float(outputs + features + said + _token_bytes(case, models))


def check_memory_fits(case: PreparedAudit, *, on_disk: bool) -> None:
    """Raise where what an audit will hold at once is more than this machine can still give.

    Counted is what is made of the records: the target's outputs, the features that attacks condition on, and what
    the reference models say. What training takes depends on the engine, which chooses its stacks by itself.

    Args:
        case: the audit.
        on_disk: whether signals of reference models may be kept in the run directory.

    Raises:
        divulge.InputError: it does not fit; the sizes are named.
    """
    rows, models = case.layout.total, _count_models(case)
    check_memory(
        estimate_memory(case, on_disk=on_disk),
        "members, nonmembers, population",
        f"they are {rows:,} records"
        + (f", of {case.classes:,} classes" if case.classes else "")
        + (f" and the answers of {models:,} reference models" if models else "")
        + ("; use fewer records" if on_disk or not models else "; set out=, or use fewer records or models"),
    )


def _count_models(case: PreparedAudit) -> int:
    """Reference models of all kinds."""
    return 0 if case.references is None else case.references.count * _count_model_sets(case)


def _count_model_sets(case: PreparedAudit) -> int:
    """Of how many kinds some recipe reads models."""
    return sum(any(kind in recipe.needs for recipe in case.given.recipes) for kind in TRAINED_REFERENCES)


def _token_bytes(case: PreparedAudit, models: int) -> int:
    """Bytes of token statistics, where records are documents."""
    if case.classes:
        return 0
    characters = sum(map(len, case.views[0].x))
    return characters // _CHARACTERS_PER_TOKEN * (_BYTES_PER_TOKEN + models * _BYTES_PER_SIGNAL)
