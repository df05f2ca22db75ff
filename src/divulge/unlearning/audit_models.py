"""Reference models of a finished audit, as models that never saw the records of an erasure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import plan as plans
from divulge.auditing.pipeline import list_reference_data
from divulge.auditing.result import KIND
from divulge.errors import InputError
from divulge.run_directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Bools, Records


@dataclass(frozen=True, slots=True, eq=False)
class AuditModels:
    """How the reference models of an audit were trained.

    Args:
        folder: the run directory.
        references: how they were trained.
        records: that they learned from, ``r`` of them: the population, and where ``saw_candidates`` the candidates too.
        trained_on: bool ``[m, r]``, which of them each model was trained on.
        saw_candidates: whether they are models of an online audit, each of which saw half of the candidates.
        pool: where they are kept.
        seed: of the audit.
    """

    folder: Path
    references: Any
    records: Records
    trained_on: Bools
    saw_candidates: bool
    pool: Path
    seed: int


def open_audit_models(folder: Path, trust: Sequence[str] = ()) -> AuditModels:
    """Find the reference models of the audit in a run directory.

    Offline attacks compare with models that learned from halves of the population, and saw neither members nor
    non-members: these are taken where the audit has them. Models of online attacks saw half of the candidates each, so
    that every record is compared with those that did not see it. Networks are read from the pool of the run; of other
    models a pool keeps the scores that the audit needed, so that they are trained again, with the same records and
    seeds. What the audit's plan names as code is run, so it has to be trusted by name.

    Args:
        folder: the run directory of the audit.
        trust: code that its plan may name ("module:name"), and types that a ``.skops`` target may be built from.

    Raises:
        divulge.InputError: no finished audit, one that was started from Python or trains no reference models, code that
            is not trusted, files of the plan that are gone.
    """
    name = f"references: {folder}"
    try:
        kind = RunDirectory(folder).kind()
    except InputError as error:
        raise InputError(f"references: {error}") from None
    if kind != KIND:
        raise InputError(f"{name}: the run of an audit is needed, got one of kind {kind!r}")
    try:
        plan = plans.read(folder / "plan.toml")
    except InputError as error:
        raise InputError(
            f"{name}: {error}; give its trainer, population and pool as `references`, `population` and `pool`"
        ) from None
    if plan.references is None:
        raise InputError(f"{name}: the audit has no reference models")
    home = (folder / (plan.folder or ".")).resolve()
    unknown = {key: code for key, code in plans.list_named_code(plan, home).items() if code not in trust}
    if unknown:
        listed = ", ".join(f"{key} = {code!r}" for key, code in unknown.items())
        first = next(iter(unknown.values()))
        raise InputError(f"{name}: its plan runs code in {home} ({listed}); trust it by name (--trust {first})")
    try:
        resolved = plans.resolve(plan, folder, trust)
        records, trained_on = list_reference_data(resolved.target, resolved.first_subject, resolved.options)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    population = resolved.subject.population
    n_outside = 0 if population is None else len(population)
    return AuditModels(
        folder, resolved.options.references, records, trained_on, len(records) > n_outside,
        resolved.pool or folder / "pool", plan.seed,
    )  # fmt: skip
