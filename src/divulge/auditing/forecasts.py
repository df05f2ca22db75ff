"""Forecast of the models, time and memory that an audit takes, before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.auditing.signals import (
    MAX_BYTES_IN_MEMORY,
    TRAINED_REFERENCES,
    active_signals,
    training_data,
    white_box_names,
)
from divulge.references import matching
from divulge.signals import internals
from divulge.validation import check_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.auditing.prepared import PreparedAudit
    from divulge.types import Records

_N_TIMED_BATCHES = 16  # batches of one reference model that are timed, after a first that warms up
_N_TIMED_RECORDS = 10  # records that the target is asked about


@dataclass(frozen=True, slots=True)
class Forecast:
    """Models, time and memory that an audit takes.

    Args:
        records: candidates, calibration and population together.
        models: reference models that its recipes read; those already in the pool count too.
        lessons: records that each of them is trained on, on average.
        training: seconds of one core to train them one by one, from timed batches; None where nothing tells.
        scoring: seconds for the target to answer; None where it was not asked, or a signal does not say how often it
            will be.
        memory: bytes held at once, without what training takes.
        trials: models that are trained at most to find settings that match the target; they count in ``training``.
    """

    records: int
    models: int
    lessons: int
    training: float | None
    scoring: float | None
    memory: float
    trials: int = 0

    @property
    def text(self) -> str:
        """The forecast in one line."""
        parts = [f"{self.records:,} records"]
        if self.trials:
            parts.append(f"at most {self.trials:,} trial models to match the target")
        if self.models:
            parts.append(f"{self.models:,} reference models of {self.lessons:,} records on average")
            duration = None if self.training is None else f"at most {_format_duration(self.training)} on one core"
            parts.append(f"training {duration or 'of unknown length'}")
        if self.scoring is not None:
            parts.append(f"scoring at most {_format_duration(self.scoring)}")
        return "; ".join([*parts, f"memory about {self.memory / 2**20:,.0f} MiB, without training"])


def make_forecast(audit: PreparedAudit, *, on_disk: bool) -> Forecast:
    """Forecast a checked audit without querying the target."""
    needs = [need for need in TRAINED_REFERENCES if any(need in recipe.needs for recipe in audit.inputs.recipes)]
    lessons = [training_data(audit, need) for need in needs]
    sizes = np.concatenate([rows.sum(1) for _, rows in lessons]) if lessons else np.zeros(0)
    return Forecast(
        records=audit.layout.total,
        models=len(sizes),
        lessons=round(float(sizes.mean())) if len(sizes) else 0,
        training=_training_seconds(audit, lessons[0][0], sizes) if len(sizes) else 0.0,
        scoring=None,
        memory=estimate_memory(audit, on_disk=on_disk),
        trials=0 if audit.held_out is None else matching.count_trials(audit.references)[0],
    )


def add_scoring_time(audit: PreparedAudit, forecast: Forecast) -> Forecast:
    """Add the time for the target's answers, measured on ten records of the population.

    Signals that question it themselves say at most how often, in ``queries``.
    """
    query_counts = [getattr(signal, "queries", None) for signal in active_signals(audit.inputs.recipes).values()]
    if None in query_counts:
        return forecast
    sample, white_box = (
        audit.inputs.population[:_N_TIMED_RECORDS],
        white_box_names(audit.inputs.recipes),
    )
    records = len(audit.views[0])
    answers = sum(map(len, audit.views)) + records * sum(
        int(queries) for queries in query_counts if queries is not None
    )
    white_box_seconds = (
        records * _time_call(lambda: internals.measure(audit.target, sample, white_box)) if white_box else 0.0
    )
    return replace(
        forecast,
        scoring=(answers * _time_call(lambda: audit.modality.query(audit.target, sample)) + white_box_seconds)
        / len(sample),
    )


def _time_call(work: Callable[[], object]) -> float:
    """Return the seconds of a second call, after a first that warms up."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _training_seconds(audit: PreparedAudit, records: Records, sizes: np.ndarray) -> float | None:
    """Estimate the seconds for training all models from a few batches; None without batches."""
    references = audit.references
    if not hasattr(references, "brief"):
        return None
    settings = getattr(references, "config", references)
    # Epochs of all models together, each of the mean size; a matched setting may have more than the given one.
    size, epochs = settings.batch_size, matching.longest_training(references)
    trial_epochs = 0 if audit.held_out is None else matching.count_trials(references)[1]
    n_epochs = epochs * len(sizes) + trial_epochs
    small_count, large_count = min(size, len(records)), min((1 + _N_TIMED_BATCHES) * size, len(records))
    small_seconds = _epoch_seconds(audit, records, small_count)
    if large_count == small_count:
        return small_seconds * n_epochs
    seconds_per_record = max(_epoch_seconds(audit, records, large_count) - small_seconds, 0.0) / (
        large_count - small_count
    )
    return seconds_per_record * float(sizes.mean()) * n_epochs


def _epoch_seconds(audit: PreparedAudit, records: Records, count: int) -> float:
    """Measure the seconds of one epoch on ``count`` records."""
    references, classes = audit.references.brief(), {"classes": audit.n_classes} if audit.n_classes else {}
    start = time.perf_counter()
    references.fit(records, (np.arange(len(records)) < count)[None], seed=audit.seed, **classes)
    return time.perf_counter() - start


def _format_duration(seconds: float) -> str:
    """Format a duration, rounded up.

    Examples:
        >>> _format_duration(0.2), _format_duration(31), _format_duration(200), _format_duration(9000)
        ('about 1 s', 'about 31 s', 'about 4 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {-(-seconds // 60):.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


_BYTES_PER_LOGIT = 3 * 8  # bytes per output of the target: itself, its copy in double precision, its exponential
_BYTES_PER_SIGNAL = 4


def estimate_memory(audit: PreparedAudit, *, on_disk: bool) -> float:
    """Estimate the bytes that an audit holds at once, see `check_memory_fits`."""
    view = audit.views[0]
    rows = audit.layout.total
    outputs = rows * audit.n_classes * _BYTES_PER_LOGIT
    features = 0 if view.x.dtype == object else 2 * 8 * view.x.size
    signals = len({name for recipe in audit.inputs.recipes for name in (recipe.signal_name, *recipe.beside)})
    models = _count_models(audit)
    versions = 1 + len({place for places in audit.version_views.values() for place in places})
    reference_bytes = models * rows * versions * (signals * _BYTES_PER_SIGNAL + 1)
    if on_disk:
        reference_bytes = min(reference_bytes, 2 * MAX_BYTES_IN_MEMORY * _count_model_sets(audit))
    return float(outputs + features + reference_bytes + audit.modality.estimate_memory(audit, models))


def check_memory_fits(audit: PreparedAudit, *, on_disk: bool) -> None:
    """Raise if an audit would hold more at once than this machine has free.

    Counted is what is made of the records: the target's outputs, the features that attacks condition on, and what
    the reference models say. What training takes depends on the engine, which chooses its stacks by itself.

    Args:
        audit: the audit.
        on_disk: whether signals of reference models may be kept in the run directory.

    Raises:
        divulge.InputError: it does not fit; the sizes are named.
    """
    rows, models = audit.layout.total, _count_models(audit)
    check_memory(
        estimate_memory(audit, on_disk=on_disk),
        "members, nonmembers, population",
        f"they are {rows:,} records"
        + (f", of {audit.n_classes:,} classes" if audit.n_classes else "")
        + (f" and the answers of {models:,} reference models" if models else "")
        + ("; use fewer records" if on_disk or not models else "; set out=, or use fewer records or models"),
    )


def _count_models(audit: PreparedAudit) -> int:
    """Count the reference models of all kinds."""
    return 0 if audit.references is None else audit.references.count * _count_model_sets(audit)


def _count_model_sets(audit: PreparedAudit) -> int:
    """Count the kinds of reference models that some recipe reads."""
    return sum(any(need in recipe.needs for recipe in audit.inputs.recipes) for need in TRAINED_REFERENCES)
