"""The most exposed records, as they are: pictures, rows of a table, documents with the tokens that give them away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import ragged
from divulge.report import Exhibit, Fold, Gallery, Section, heat, in_words, thumbnail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.findings import Findings
    from divulge.types import Array, Floats

_MAX_EXHIBITS = 12
_MAX_UNFOLDED = 6  # documents, or rows of a table, that are not folded


def exposed_section(audit: Findings, strongest: str) -> Section:
    """The members that the strongest recipe is surest of."""
    scores = audit.scores[strongest]
    inside = [row for row in np.argsort(-scores, kind="stable") if audit.members[row] and int(row) in audit.exhibits]
    exhibits = [_make_exhibit(audit, int(row), float(scores[row])) for row in inside[:_MAX_EXHIBITS]]
    note = f"Members with the highest scores under {strongest}, the strongest recipe here."
    note += _count_equal_nonmembers(audit, scores, inside)
    if audit.heat:
        against = next(iter(audit.heat.values())).against
        note += f" The deeper a token is marked, the likelier the target finds it than {against} does."
    # Pictures are taken in at a glance; rows and documents are long.
    seen = _MAX_EXHIBITS if all(one.png for one in exhibits) else _MAX_UNFOLDED
    more = [Fold(f"{len(exhibits) - seen} more", [Gallery(exhibits[seen:])])] if len(exhibits) > seen else []
    return Section("Most exposed records", [Gallery(exhibits[:seen], note=note), *more] if exhibits else [])


def _count_equal_nonmembers(audit: Findings, scores: Floats, inside: Sequence[np.intp]) -> str:
    """How many non-members score as high as what is shown: where many do, a high score exposes nobody."""
    others = scores[~audit.members]
    least = min((scores[row] for row in inside[:_MAX_EXHIBITS]), default=np.inf)
    alike = int((others >= least).sum())
    return f" Of {len(others):,} non-members, {alike:,} score at least as high as the last of them."


def _make_exhibit(audit: Findings, row: int, score: float) -> Exhibit:
    label = "" if audit.labels is None else f", class {in_words.class_name(int(audit.labels[row]), audit.class_names)}"
    caption = f"{audit.ids[row]}{label}, score {score:.4g}"
    value = audit.exhibits[row]
    if isinstance(value, str):
        value = value.replace(ragged.SEPARATOR, "\n")
        return Exhibit(caption, text=value, heat=heat.pieces(value, audit.heat.get(row)))
    image = _as_image(value)
    if image is not None:
        return Exhibit(caption, png=thumbnail(image))
    return Exhibit(caption, text=", ".join(f"{number:.4g}" for number in value.ravel()[:64]))


def _as_image(value: Array) -> Array | None:
    """``[h, w]``, ``[h, w, 3]`` or channels-first arrays, scaled to [0, 1]; None for a row of a table."""
    if value.ndim == 3 and value.shape[0] in (1, 3):
        value = np.moveaxis(value, 0, -1)
    if value.ndim == 3 and value.shape[-1] == 1:
        value = value[..., 0]
    if value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[-1] != 3):
        return None
    low, high = float(value.min()), float(value.max())
    return (value - low) / (high - low) if high > low else np.zeros(value.shape)
