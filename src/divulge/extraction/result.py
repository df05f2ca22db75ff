"""What a language model gave back of documents, set against what it gives of documents it never saw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import store
from divulge.evaluation import proportion, rate_difference
from divulge.extraction import extraction_page
from divulge.extraction.completed import Measured, RateOf
from divulge.extraction.finding import Finding, finding_of
from divulge.report import html, origin
from divulge.results import ExtractionRate, ExtractionSummary, environment, provenance, write
from divulge.run_directory import RunDirectory
from divulge.validation import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from divulge.evaluation.blind import Blind
    from divulge.extraction.passages import Cut
    from divulge.report import Page
    from divulge.run_directory import RunDraft
    from divulge.targets import Decoding
    from divulge.types import Array, Bools

KIND = "extraction"
_FALSE_ALARM = 0.01  # of the blind baseline


@dataclass(frozen=True, eq=False)
class Extraction:
    """Members against non-members; `verdict` says what that shows.

    Args:
        members: documents that the model was trained on.
        nonmembers: documents that it was not trained on.
        cut: where prompts end and suffixes begin.
        decoding: how tokens are drawn.
        draws: numbers of draws looked at.
        near: overlap from which a greedy continuation counts as near-verbatim.
        confidence: that all intervals of differences hold together.
        blind: whether the sets can be told apart without the model; None where there are too few documents.
        signs: words, years and lengths by which their passages differ, the surest first.
        model: name of the model.
        seed: of random places and of the blind baseline.
        warnings: what the user must know.
    """

    members: Measured
    nonmembers: Measured
    cut: Cut
    decoding: Decoding
    draws: tuple[int, ...]
    near: float
    confidence: float
    blind: Blind | None
    model: str
    seed: int
    signs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def confounded(self) -> str:
        """How the sets can be told apart without the model, in words; empty where no difference is seen."""
        return confounding(None if self.blind is None else self.blind.p_value, self.signs)

    def given(self, measured: Measured) -> Mapping[str, Bools]:
        """Which documents of a set the model gives back and the reference does not, by each way, ``[n]``."""
        return given(measured, self.draws, self.near)

    @cached_property
    def rates(self) -> tuple[RateOf, ...]:
        """Shares and their differences; the intervals hold together with the stated confidence."""
        return rates_of(self.members, self.nonmembers, self.draws, self.near, self.confidence)

    @cached_property
    def finding(self) -> Finding:
        """The answer, in a word and in sentences."""
        return finding_of(self.rates, len(self.members), len(self.nonmembers), self.confounded)

    @property
    def verdict(self) -> str:
        """The answer in sentences."""
        return self.finding.text

    @property
    def extracted(self) -> Array:
        """Ids of the members that are given back by a way that shows extraction; none without that verdict."""
        hits = self.given(self.members)
        shown = [hits[way] for way in self.finding.shown_by if self.finding.answer == "extracted"]
        return self.members.ids[np.any(shown, axis=0)] if shown else self.members.ids[:0]

    def summary(self) -> ExtractionSummary:
        """All of it but the documents, typed, for JSON and for the report."""
        blind = self.blind
        return ExtractionSummary(
            verdict=self.finding.text,
            tone=self.finding.tone,
            answer=self.finding.answer,
            model=self.model,
            members=len(self.members),
            nonmembers=len(self.nonmembers),
            prefix=float(self.cut.prefix) if isinstance(self.cut.prefix, float) else int(self.cut.prefix),
            suffix=self.cut.suffix,
            place=self.cut.place,
            decoding=str(self.decoding),
            draws=self.draws,
            near=self.near,
            confidence=self.confidence,
            rates=tuple(_plain(rate) for rate in self.rates),
            smallest=self.finding.smallest,
            extracted=len(self.extracted),
            with_reference=self.members.reference is not None,
            blind=None if blind is None else blind.p_value,
            signs=self.signs,
            confounded=bool(self.confounded),
            seed=self.seed,
            warnings=self.warnings,
            environment=environment(),
        )

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML file."""
        html.write(origin.added(self._page(), provenance.now()), check_path(path, "path"))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write one row per document, the summary and the report into a run directory.

        Raises:
            divulge.InputError: the folder is in use, cannot be written, or holds a run (unless ``overwrite``).
        """
        parts = [(side.ids, side.target.log_p, side.target.overlap) for side in (self.members, self.nonmembers)]
        key = store.hash_values(KIND, *parts[0], *parts[1], str(self.cut), str(self.decoding), self.draws, self.near)
        with RunDirectory(check_path(folder, "out")).writing(KIND, key, overwrite=overwrite) as draft:
            self.into(draft)

    def into(self, draft: RunDraft) -> None:
        """Write all of it into the draft of a run."""
        sets = [self.members.table("member"), self.nonmembers.table("non-member")]
        draft.write_table("documents", pl.concat(sets))
        write(draft, self.summary())
        html.write(origin.added(self._page(), provenance.write(draft)), draft.path / "report.html")

    def _page(self) -> Page:
        return extraction_page.page(self.summary(), self.members, self.nonmembers)

    def __str__(self) -> str:
        return self.verdict


def given(measured: Measured, draws: tuple[int, ...], near: float) -> Mapping[str, Bools]:
    """Return which documents of a set the model gives back and the reference does not, by each way, ``[n]``."""
    own = measured.target.given(draws, near)
    if measured.reference is None:
        return own
    others = measured.reference.given(draws, near)
    return {way: hits & ~others[way] for way, hits in own.items()}


def rates_of(
    members: Measured, nonmembers: Measured, draws: tuple[int, ...], near: float, confidence: float
) -> tuple[RateOf, ...]:
    """Return shares given back and their differences; see `Extraction.rates`."""
    inside, outside = given(members, draws, near), given(nonmembers, draws, near)
    level = 1 - (1 - confidence) / len(inside)
    rates = []
    for way in inside:
        (k, m), (j, n) = ((int(hits[way].sum()), len(hits[way])) for hits in (inside, outside))
        both = (members.reference, nonmembers.reference)
        taken = [int(one.given(draws, near)[way].sum()) for one in both if one is not None]
        rates.append(
            RateOf(
                way,
                proportion(k, m, level),
                proportion(j, n, level),
                rate_difference(k, m, j, n, level),
                (taken[0], taken[1]) if taken else None,
            )
        )
    return tuple(rates)


def confounding(p_value: float | None, signs: Sequence[str]) -> str:
    """Return how two sets can be told apart without the model, in words; empty where no difference is seen.

    Args:
        p_value: of the blind baseline; None where there was none.
        signs: words, years and lengths by which they differ.
    """
    told = p_value is not None and p_value <= _FALSE_ALARM
    return "; ".join([*([f"a classifier tells them apart (p = {p_value:.2g})"] if told else []), *signs])


def summarise_again(told: ExtractionSummary, members: Measured, nonmembers: Measured) -> ExtractionSummary:
    """Return the summary of a finished run, with everything that documents decide computed from them again."""
    rates = rates_of(members, nonmembers, told.draws, told.near, told.confidence)
    confounded = confounding(told.blind, told.signs)
    finding = finding_of(rates, len(members), len(nonmembers), confounded)
    hits = given(members, told.draws, told.near)
    shown = [hits[way] for way in finding.shown_by if finding.answer == "extracted"]
    return replace(
        told,
        verdict=finding.text,
        tone=finding.tone,
        answer=finding.answer,
        members=len(members),
        nonmembers=len(nonmembers),
        rates=tuple(map(_plain, rates)),
        smallest=finding.smallest,
        extracted=int(np.any(shown, axis=0).sum()) if shown else 0,
        with_reference=members.reference is not None,
        confounded=bool(confounded),
    )


def _plain(rate: RateOf) -> ExtractionRate:
    return ExtractionRate(
        rate.way, rate.members, rate.nonmembers, rate.difference, *(rate.of_reference or (None, None))
    )
