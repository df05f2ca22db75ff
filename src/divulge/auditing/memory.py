"""Whether an audit fits into memory, before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing.reference_models import TRAINED_REFERENCES, MAX_BYTES_IN_MEMORY
from divulge.validation import check_memory

if TYPE_CHECKING:
    from divulge.auditing.case import PreparedAudit

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
