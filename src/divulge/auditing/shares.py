"""The same audit with more and more of each record known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import store
from divulge.auditing import settings as describe
from divulge.auditing.result import KIND
from divulge.auditing.run import audit
from divulge.dossier import Dossier
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from divulge.auditing.forecasts import Forecast
    from divulge.auditing.result import Audit


def over_shares(
    target: Any,
    *,
    known: Sequence[Any],
    out: str | Path | None = None,
    overwrite: bool = False,
    pool: str | Path | None = None,
    expect: Callable[[Forecast], object] | None = None,
    **arguments: Any,
) -> list[Audit]:
    """One audit for each entry of ``known``; the report of the first shows them all, by known share.

    With a run directory, the first audit lies in ``out`` and the others in ``out/known-1``, ``out/known-2``, …;
    all use the reference models in ``pool``: what saw no candidate is trained once for all shares.

    Args:
        target: as for `divulge.audit`.
        known: masks or words, as for `divulge.audit`; ``"share:1"`` adds the whole record to compare with.
        out: run directory, or None.
        overwrite: replace a finished run in ``out``.
        pool: where finished reference models are kept and found; ``out/pool`` when None.
        expect: called with what the first of the audits will take, before it starts.
        arguments: every other argument of `divulge.audit`.

    Raises:
        divulge.InputError: nothing in ``known``, or what `divulge.audit` refuses.
    """
    if isinstance(known, str) or not len(known):
        raise InputError(f"known: at least 1 mask in a list is needed, got {known!r}")
    if out is None:
        said = [expect, *[None] * (len(known) - 1)]
        each = zip(known, said, strict=True)
        return [audit(target, known=mask, pool=pool, expect=first, **arguments) for mask, first in each]
    key = store.digest("shares", *known, *describe.describe_arguments(arguments))
    with Dossier(Path(out)).writing(KIND, key, overwrite=overwrite) as draft:
        shared = draft.home / "pool" if pool is None else pool
        first = audit(target, known=known[0], out=draft, pool=shared, expect=expect, **arguments)
        more = {}
        for at, mask in enumerate(known[1:], start=1):
            with draft.part(f"known-{at}", KIND, key) as inner:
                more[inner.path.name] = audit(target, known=mask, out=inner, pool=shared, **arguments)
        first.report(draft.path / "report.html", beside=more)
    return [first, *more.values()]
