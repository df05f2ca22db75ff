"""The result of an audit of a release: scores, proofs and controls, and the answer that is decided from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from divulge import evaluation, seeds, statistics, tables
from divulge.auditing.gates import REVERSED, Limit, Ruling, describe_open_verdict
from divulge.auditing.wording import list_names
from divulge.decisions import fdr as false_discoveries
from divulge.errors import InputError
from divulge.evaluation.comparison import parse_fpr
from divulge.provenance import Environment, collect_environment
from divulge.report import formatting, notebook
from divulge.results import FALSE_MATCH, SINGLE_RECORDS, LowerBound, Summary
from divulge.settings import SyntheticSettings
from divulge.study import Study
from divulge.synthetic.controls import ALIKE, HOLDOUT, POPULATION, Control
from divulge.synthetic.risks import Risk
from divulge.synthetic.scores import AUTO
from divulge.types import Estimate, Selection, Tone
from divulge.validation import check_choice, check_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from divulge.run_directory import RunDraft
    from divulge.types import Array, Bools, Floats, Ints

RUN_TYPE = "synthetic"
LEAK, CLEAR, TOO_LITTLE, CANNOT_JUDGE = "leak found", "no leak found", "too little data to say", "cannot judge"
TONES: Mapping[str, Tone] = {LEAK: "leak", CLEAR: "clear", TOO_LITTLE: "undecided", CANNOT_JUDGE: "void"}
MIN_SIDE = 100
"""Members, and non-members, with fewer of which only proofs count."""
COPIES = "copies"
"""Limit on released rows that equal a member's."""
MAX_LISTED = 1_000
"""Copied rows that are listed."""
_SIMILAR_LEVEL = 0.01  # at which more members than non-members stand in the release but for a column
WHOLE_ROWS = "whole rows"
BUT_FOR = "rows but for "
"""What the name of a proof begins with that leaves out one column, and ends with its name."""
PROOFS = {
    WHOLE_ROWS: "stand in it unchanged, and none of the further records (population) equals them",
    "values": "have a value that the release has and no further record (population) has",
    "value-sets": "have two or three values together that the release has and no further record (population) has",
    "passages": "have five words in a row that the release has and no further record (population) has",
}
"""Proof → what is said of the records that are counted; see `say_match`."""


@dataclass(frozen=True, slots=True)
class CopiedRow:
    """A row of the release that equals a candidate, in the precision of the release.

    Args:
        released: its number in the release, from 0.
        set: "members" or "nonmembers".
        record: number of the candidate in its table, from 0, or its person.
        population: rows of the population that are equal to it as well.
        values: name → value, as a text.
    """

    released: int
    set: Literal["members", "nonmembers"]
    record: str
    population: int
    values: str


@dataclass(frozen=True, slots=True)
class Proof:
    """Matches among members against those among non-members, which are phantoms: the generator saw none of them.

    Args:
        name: what is counted, a key of `PROOFS`, or `BUT_FOR` and the name of a column.
        members: number of members that match.
        nonmembers: number of non-members that match.
        p_value: of as many or more among members by chance (Fisher's exact test).
        excess: share of members that match, less that of non-members.
        proven: whether ``p_value`` is at most .001 over all proofs.
    """

    name: str
    members: int
    nonmembers: int
    p_value: float
    excess: Estimate
    proven: bool


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """Verdict on a release.

    Args:
        answer: "leak found", "no leak found", "too little data to say" or "cannot judge".
        plain: the reason that decides, in a sentence.
        details: further sentences.
        code: of that reason: "rows", "values", "scores", "confounded", "holdout", "copies", "few", "wide", "no holdout
            control", "columns", "similar", "none".
    """

    answer: str
    plain: str
    details: tuple[str, ...]
    code: str

    @property
    def tone(self) -> Tone:
        """Tone of a report that begins with the verdict."""
        return TONES[self.answer]

    @property
    def text(self) -> str:
        """The whole verdict, ready to print."""
        return " ".join((f"{formatting.capitalize(self.answer)}.", self.plain, *self.details))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseScores:
    """One score of all records that count.

    Args:
        name: of the score.
        scores: ``[n]``, larger = more like a row that the generator saw.
        members: bool ``[n]``.
        confidence: of each interval.
    """

    name: str
    scores: Floats
    members: Bools
    confidence: float = 0.95

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        return statistics.auc(self.scores, self.members, self.confidence)

    def tpr(self, fpr: float) -> Estimate:
        """Share of members found where at most ``fpr`` of the non-members are taken for members."""
        return evaluation.tpr_at_fpr(self.scores, self.members, fpr, self.confidence)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """One score: its AUC, and shares of members found; None where there are too few non-members for the rate."""

    name: str
    auc: Estimate
    tpr: Mapping[str, Estimate | None]


@dataclass(frozen=True, slots=True)
class ListSummary:
    """The list of members: how many records are on it, of which sets, and what is guaranteed."""

    members: int
    nonmembers: int
    candidates: int
    calibration: int
    guarantee: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSummary(Summary):
    """What a release gives away.

    Args:
        verdict: in sentences.
        tone: its colour.
        answer: "leak found", "no leak found", "too little data to say" or "cannot judge".
        code: of the reason that decides.
        released: rows of the release.
        members: members that count.
        nonmembers: non-members that count.
        population: rows of the population.
        left_out: records left out, as equal ones stand among members and non-members twice or more.
        scores: every score; the intervals of all hold together.
        proofs: matches among members against those among non-members.
        copied: rows of the release that equal a member and nobody else, and those that equal a non-member and nobody
            else.
        copies: rows of the release that equal a candidate.
        controls: of the sets.
        risks: singling out, linkability, inference.
        epsilon: lower bound on ε; None where membership was not drawn at random.
        members_list: whom the release gives away; None where there are too few non-members for a list.
        notes: what was assumed, left out or rounded.
        uncompared: columns that the release writes otherwise than the other tables; whole rows are compared without.
        candidates: digest of members and non-members.
        settings: what was asked for.
        environment: software that ran.
    """

    kind: Literal["synthetic"] = field(default="synthetic", repr=False)
    verdict: str
    tone: Tone
    answer: str
    code: str
    released: int
    members: int
    nonmembers: int
    population: int
    left_out: int
    scores: tuple[ScoreSummary, ...]
    proofs: tuple[Proof, ...]
    copied: tuple[int, int]
    copies: tuple[CopiedRow, ...] = field(metadata=SINGLE_RECORDS)
    controls: tuple[Control, ...]
    risks: tuple[Risk, ...]
    epsilon: LowerBound | None
    members_list: ListSummary | None
    notes: tuple[str, ...]
    uncompared: tuple[str, ...]
    candidates: str
    settings: SyntheticSettings
    environment: Environment


@dataclass(frozen=True, eq=False)
class SyntheticAudit(Study):
    """Result of `divulge.synthetic.audit`; indexing by a score's name gives its `ReleaseScores`.

    Args:
        ids: of the records, members first: row numbers or persons, ``[n]``.
        members: bool ``[n]``.
        is_counted: bool ``[n]``; False where an equal record stands among members and non-members.
        order: ``[n]``, an order of the records that membership has no part in.
        scores: score → ``[n]``, `AUTO` last.
        matches: proof → bool ``[n]``, whether the record matches.
        copies: rows of the release that equal a candidate, those that are in no population first.
        controls: of the sets.
        risks: singling out, linkability, inference.
        released: rows of the release.
        population: rows of the population.
        notes: what was assumed, left out or rounded.
        uncompared: columns that the release writes otherwise than the other tables; whole rows are compared without.
        candidates_digest: of members and non-members, by which runs of the same records are known.
        settings: what was asked for.
    """

    ids: Array
    members: Bools
    is_counted: Bools
    order: Ints
    scores: Mapping[str, Floats]
    matches: Mapping[str, Bools]
    copies: tuple[CopiedRow, ...]
    controls: tuple[Control, ...]
    risks: tuple[Risk, ...]
    released: int
    population: int
    notes: tuple[str, ...]
    uncompared: tuple[str, ...]
    candidates_digest: str
    settings: SyntheticSettings

    def __getitem__(self, name: str) -> ReleaseScores:
        """Return the score of that name, of the records that count."""
        check_choice(name, "score", self.scores)
        return ReleaseScores(name, self.scores[name][self.is_counted], self.members[self.is_counted])

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def counts(self) -> tuple[int, int]:
        """Number of members and of non-members that count."""
        return int(self.members[self.is_counted].sum()), int((~self.members[self.is_counted]).sum())

    @property
    def copied(self) -> tuple[int, int]:
        """Number of released rows that equal a member and nobody else, and of those of non-members likewise."""
        inside, outside = self._new_rows
        return len(inside - outside), len(outside - inside)

    @property
    def _new_rows(self) -> tuple[set[int], set[int]]:
        """Released rows in no population that equal a member, and those that equal a non-member; some are both."""
        new = [copy for copy in self.copies if not copy.population]
        inside = {copy.released for copy in new if copy.set == "members"}
        return inside, {copy.released for copy in new if copy.set == "nonmembers"}

    @cached_property
    def proofs(self) -> tuple[Proof, ...]:
        """Matches among members against those among non-members."""
        truth, (n, m) = self.members[self.is_counted], self.counts
        if not n or not m:
            return ()
        proofs = []
        for name, match in self.matches.items():
            k, j = (int(part.sum()) for part in (match[self.is_counted][truth], match[self.is_counted][~truth]))
            p_value = float(stats.fisher_exact([[k, n - k], [j, m - j]], alternative="greater").pvalue)
            excess = self._excess_share(k, j, self.settings.confidence)
            proofs.append(Proof(name, k, j, p_value, excess, p_value <= FALSE_MATCH / len(self.matches)))
        return tuple(proofs)

    @property
    def similar(self) -> Proof | None:
        """Members that stand in the release but for a column, where they are more than chance lets expect."""
        return next((p for p in self.proofs if p.name.startswith(BUT_FOR) and p.p_value <= _SIMILAR_LEVEL), None)

    @property
    def released_members(self) -> int | None:
        """Number of members that are proven to stand in the release as whole rows.

        None where some stand there and that is not proven to be more than chance, or where nothing can be judged.
        """
        rows = next((proof for proof in self.proofs if proof.name == WHOLE_ROWS), None)
        if rows is None or self.verdict.answer == CANNOT_JUDGE or (rows.members and not rows.proven):
            return None
        return rows.members

    @cached_property
    def verdict(self) -> ReleaseVerdict:
        """The answer, and what it rests on."""
        return decide_release(self)

    @property
    def interval_confidence(self) -> float:
        """Confidence of each interval by which a leak is found: all and the proofs together err as the settings say."""
        error = max(1 - self.settings.confidence - FALSE_MATCH, 0.5 * (1 - self.settings.confidence))
        return 1 - error / max(1, len(self.scores) * (1 + len(self.settings.fpr)))

    @cached_property
    def score_summaries(self) -> tuple[ScoreSummary, ...]:
        """Every score, with intervals that hold together."""
        return self.summarise_scores(self.interval_confidence)

    def summarise_scores(self, confidence: float) -> tuple[ScoreSummary, ...]:
        """Return AUC and shares of members found of each score; each interval has this confidence."""
        if not all(self.counts):
            return ()
        summaries = []
        for name in self:
            score = replace(self[name], confidence=confidence)
            rates = {
                f"{level:g}": score.tpr(level) if self.counts[1] >= statistics.min_nonmembers(level) else None
                for level in self.settings.fpr
            }
            summaries.append(ScoreSummary(name, score.auc, rates))
        return tuple(summaries)

    @cached_property
    def _is_calibration(self) -> Bools:
        """Half of the non-members that count, drawn by the seed: they calibrate lists and are on none."""
        places = np.flatnonzero(self.is_counted & ~self.members)
        chosen = seeds.generator(self.settings.seed, "synthetic", "list").permutation(len(places))[: len(places) // 2]
        is_calibration = np.zeros(len(self.members), dtype=bool)
        is_calibration[places[chosen]] = True
        return is_calibration

    def selection(self, *, fdr: float | None = None, score: str = AUTO) -> Selection:
        """Select the records that the release gives away, members among them with a bound on false discoveries.

        Candidates are all members and one half of the non-members, which shows what a wrong call is; the other half
        calibrates. Nothing but exchangeable non-members is assumed, so the bound holds for every generator.

        Args:
            fdr: bound on the expected share of non-members among the selected; that of the settings by default.
            score: by which.

        Returns:
            A `Selection` of all records ``[n]``; those that calibrate, or do not count, are never selected and have
            p-value 1.

        Raises:
            divulge.InputError: a level outside (0, 1), another score, too few non-members for the level.
        """
        level = self.settings.fdr if fdr is None else check_number(fdr, "fdr", above=0, below=1)
        values = self.scores[check_choice(score, "score", self.scores)]
        is_calibration = self._is_calibration
        if not is_calibration.any():
            raise InputError(f"fdr: at least 2 non-members are needed for a list, got {self.counts[1]}")
        is_candidate = self.is_counted & ~is_calibration
        chosen = false_discoveries.select(values[is_candidate], values[is_calibration], fdr=level)
        selected, p_values = np.zeros(len(values), dtype=bool), np.ones(len(values))
        selected[is_candidate], p_values[is_candidate] = chosen.selected, chosen.p_values
        failed = [control.says for control in self.controls if control.state == "fails" and control.name != POPULATION]
        guarantee = chosen.guarantee.capped_at("void") if failed else chosen.guarantee
        warnings = (*(f"the guarantee is void: {says}" for says in failed), *chosen.warnings)
        return replace(chosen, selected=selected, p_values=p_values, guarantee=guarantee, warnings=warnings)

    @cached_property
    def epsilon(self) -> Estimate | None:
        """Lower bound on the generator's ε; None where membership was not drawn at random."""
        if not self.settings.at_random or not all(self.counts):
            return None
        places = np.flatnonzero(self.is_counted)
        places = places[np.argsort(self.order[places], kind="stable")]
        return evaluation.epsilon_fixed_count(
            self.scores[AUTO][places],
            self.members[places],
            confidence=self.settings.confidence,
            seed=self.settings.seed,
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per record: id, membership, every score, every proof, and whether it is on the list."""
        selection = self._try_selection()
        listed = {} if selection is None else {"listed": selection.selected}
        return tables.from_arrays(self._record_columns("") | listed)

    def _record_columns(self, score_prefix: str) -> dict[str, Any]:
        return {
            "id": self.ids,
            "member": self.members,
            "counted": self.is_counted,
            **{f"{score_prefix}{name}": score for name, score in self.scores.items()},
            **{f"proof: {name}": match for name, match in self.matches.items()},
        }

    def _try_selection(self) -> Selection | None:
        try:
            return self.selection()
        except InputError:
            return None

    def _summarise_list(self) -> ListSummary | None:
        selection = self._try_selection()
        if selection is None:
            return None
        n_members, n_calibration = int(selection.selected[self.members].sum()), int(self._is_calibration.sum())
        return ListSummary(
            n_members, selection.count - n_members, int(self.is_counted.sum()) - n_calibration, n_calibration,
            str(selection.guarantee), tuple(selection.warnings),
        )  # fmt: skip

    def summary(self) -> SyntheticSummary:
        """Return the typed summary for JSON and the report."""
        verdict = self.verdict
        return SyntheticSummary(
            verdict=verdict.text, tone=verdict.tone, answer=verdict.answer, code=verdict.code, released=self.released,
            members=self.counts[0], nonmembers=self.counts[1], population=self.population,
            left_out=int((~self.is_counted).sum()), scores=self.score_summaries, proofs=self.proofs, copied=self.copied,
            copies=self.copies, controls=self.controls, risks=self.risks, epsilon=_lower_bound(self.epsilon),
            members_list=self._summarise_list(), notes=self.notes, uncompared=self.uncompared,
            candidates=self.candidates_digest,
            settings=self.settings, environment=collect_environment(),
        )  # fmt: skip

    def write(self, draft: RunDraft) -> None:
        """Write scores and matches."""
        columns = self._record_columns("score: ") | {"order": self.order}
        draft.write_table("records", tables.from_arrays(columns))

    def rule(self, limits: Sequence[Limit], confidence: float) -> list[Ruling]:
        """Rule on every score and limit; of "share", on every proof: what more members match than non-members.

        All are broken where whole rows of members are proven to stand in the release, and undecided where nothing can
        be judged. None is kept while single rows of members stand there, or nothing shows that the generator did not
        see the non-members. "copies" is a count, and no interval of anything: see `_rule_on_copies`.
        """
        verdict = self.verdict
        void = verdict.plain.rstrip(".") if verdict.answer == CANNOT_JUDGE else ""
        stored = verdict.plain.rstrip(".") if verdict.code == "rows" else ""
        is_cautious = verdict.code in ("copies", "no holdout control") or self.uncompared
        caution = verdict.plain.rstrip(".") if is_cautious else ""
        open_verdict = describe_open_verdict(verdict.plain) if verdict.answer == TOO_LITTLE else ""
        error, rulings = (1 - confidence) / len(limits), []
        for limit in limits:
            if limit.metric == COPIES:
                rulings.append(self._rule_on_copies(limit))
                continue
            if limit.metric == "share":
                each = 1 - error / max(1, len(self.matches))
                measured = {
                    proof.name: self._excess_share(proof.members, proof.nonmembers, each) for proof in self.proofs
                }
            else:
                measured = self._measure(limit.metric, 1 - error / max(1, len(self.scores)))
            if not measured:
                doubt = void or "there are too few records, or no score that varies"
                rulings.append(Ruling("all", "all", limit.metric, limit.limit, None, doubt, stored=stored))
            for name, estimate in measured.items():
                doubt = void
                if not doubt and estimate.high <= limit.limit:
                    is_reversed = limit.metric == "auc" and estimate.high < 0.5 and 1 - estimate.low > limit.limit
                    doubt = REVERSED if is_reversed else caution
                rulings.append(
                    Ruling(
                        name,
                        "all",
                        limit.metric,
                        limit.limit,
                        estimate,
                        doubt,
                        stored=stored,
                        open_verdict=open_verdict,
                    )
                )
        return rulings

    def _rule_on_copies(self, limit: Limit) -> Ruling:
        """Rule on the number of released rows that equal a member's and nobody else's, whatever attacks find.

        A copy stands there, even if it came about by chance. Only where nothing tells copies from coincidences is that
        open: rows that are a non-member's alone, which the generator did not see, stand there as well, and not surely
        less often; or most rows of non-members equal another's, so that equal rows are ordinary. Open, too, is what
        rows hold in columns that could not be compared: no limit is kept for it unless fewer rows equal any member's
        in the other columns, and none is broken without a proof. No limit is kept where more members than by chance
        stand there but for one column, which may be written otherwise, or where nothing can be judged.
        """
        count = self.copied[0]
        # Of more than are listed there are at least so many, and those of non-members may not be among them.
        is_cut = len(self.copies) == MAX_LISTED
        most = self.released if is_cut else count
        outsiders = ~self.members
        n_outside = max(self.copied[1], int((self.matches[WHOLE_ROWS] & outsiders & self.is_counted).sum()))
        n_alone = int((outsiders & self.is_counted).sum())
        is_seen = any(control.name == HOLDOUT and control.state == "fails" for control in self.controls)
        is_shown = is_seen or any(proof.name == WHOLE_ROWS and proof.proven for proof in self.proofs)
        rows = "1 row of the release equals" if count == 1 else f"{count:,} rows of the release equal"
        words = f"{rows} one that it was made from and nobody's in population or non-members"
        broken = doubt = open_verdict = ""
        if self.uncompared and not (count > limit.limit and is_shown):
            reason = describe_uncompared(self.uncompared)
            equal = len({copy.released for copy in self.copies if copy.set == "members"})
            if equal > limit.limit or is_cut:
                doubt = f"{words}. {reason}" if count else f"{formatting.capitalize(reason)}"
            else:
                open_verdict = describe_open_verdict(reason)
        elif count > limit.limit and n_outside and not is_shown:
            doubt = (
                f"{words}; {n_outside:,} that {'equals' if n_outside == 1 else 'equal'} one of the others alone, which "
                f"it was not made from, {'stands' if n_outside == 1 else 'stand'} there as well, so each may be a "
                "coincidence"
            )
        elif count > limit.limit and not is_shown and 2 * n_alone < int(outsiders.sum()):
            doubt = (
                f"{words}; in these columns rows of different records are ordinarily equal (of "
                f"{int(outsiders.sum()):,} others {n_alone:,} alone have a row of their own), so each may be a "
                "coincidence"
            )
        elif count <= limit.limit and self.verdict.answer == CANNOT_JUDGE:
            doubt = self.verdict.plain
        elif count <= limit.limit and self.similar and self.similar.members > limit.limit:
            doubt = f"{words}; but {_describe_matches(self.similar, *self.counts)}"
        elif count > limit.limit:
            chance = "" if is_shown else "; that may be a coincidence, and stands there all the same"
            where = f". {describe_uncompared(self.uncompared)}" if self.uncompared else ""
            broken = f"{words}{chance}{where}".rstrip(".")
        estimate = Estimate(count, count, most, 1.0, "count")
        return Ruling(
            WHOLE_ROWS, "all", limit.metric, limit.limit, estimate, doubt.rstrip("."), stored=broken,
            open_verdict=open_verdict,
        )  # fmt: skip

    def _excess_share(self, n_members: int, n_nonmembers: int, confidence: float) -> Estimate:
        """Return the share of members that match, less that of non-members."""
        return statistics.rate_difference(n_members, self.counts[0], n_nonmembers, self.counts[1], confidence)

    def _measure(self, metric: str, confidence: float) -> dict[str, Estimate]:
        if min(self.counts) < 2 or (metric != "auc" and self.counts[1] < statistics.min_nonmembers(parse_fpr(metric))):
            return {}
        return {name: evaluation.measure(self[name].scores, self[name].members, metric, confidence) for name in self}

    def picture(self) -> str:
        """Return a picture for notebooks: the AUC of every score."""
        aucs = {score.name: score.auc for score in self.score_summaries}
        return notebook.draw_intervals(aucs, "AUC", 0.5) if aucs else ""

    def __repr__(self) -> str:
        return f"SyntheticAudit({self.verdict.answer}; {self.counts[0]} members, {self.counts[1]} non-members)"


def decide_release(result: SyntheticAudit) -> ReleaseVerdict:
    """Decide what a release gives away; nothing is cleared that could not be compared, or may be written otherwise."""
    verdict = _decide_by_what_is_compared(result)
    if verdict.answer == CLEAR and result.similar:
        plain = f"{_describe_matches(result.similar, *result.counts)} That is rare by chance, and no proof."
        verdict = ReleaseVerdict(TOO_LITTLE, plain, (), "similar")
    if not result.uncompared:
        return verdict
    reason = describe_uncompared(result.uncompared)
    if verdict.answer == CLEAR:
        plain = f"No attack finds records that the release was made from, but not all of it was compared. {reason}"
        return ReleaseVerdict(TOO_LITTLE, plain, (), "columns")
    return replace(verdict, plain=f"{verdict.plain} {reason}")


def describe_uncompared(names: Sequence[str]) -> str:
    """Say that columns could not be compared, and what to do."""
    quoted = list_names([repr(name) for name in names])
    is_one = len(names) == 1
    return (
        f"Column{'' if is_one else 's'} {quoted} {'holds' if is_one else 'hold'} other values in the release than in "
        f"the other tables (another spelling, language, code or unit?), so rows were compared without "
        f"{'it' if is_one else 'them'}: write {'it' if is_one else 'them'} alike in all tables."
    )


def _decide_by_what_is_compared(result: SyntheticAudit) -> ReleaseVerdict:
    """Decide what the columns that could be compared give away; the first of these reasons that holds.

    Nothing can be judged where members differ from non-members without the release. A leak is proven by copied rows,
    values or passages, or shown by an interval that excludes chance. Nothing can be judged, either, where the
    generator saw the non-members. Nothing is cleared while rows of members stand in the release, by few records, by
    wide intervals, or where nothing shows that the generator did not see the non-members. All else is no leak.
    """
    states = {control.name: control for control in result.controls}
    copies = _describe_copies(result)
    if (alike := states[ALIKE]).state == "fails":
        plain = f"Nothing can be said of the release: {alike.says}."
        return ReleaseVerdict(CANNOT_JUDGE, plain, copies, "confounded")
    proven = [proof for proof in result.proofs if proof.proven]
    if proven:
        first = proven[0]
        code = "rows" if first.name == WHOLE_ROWS else "values"
        further = _describe_auto(result) if code == "rows" else (*_describe_auto(result), *copies)
        return ReleaseVerdict(LEAK, describe_proof(first, *result.counts), further, code)
    n, m = result.counts
    scores = result.score_summaries if min(n, m) >= MIN_SIDE else ()
    found = [score for score in scores if score.auc.low > 0.5]
    found_rates = [
        (level, rate) for score in scores for level, rate in score.tpr.items()
        if rate is not None and rate.low > float(level)
    ]  # fmt: skip
    if found:
        best = max(found, key=lambda score: (score.name == AUTO, score.auc.low))
        return ReleaseVerdict(LEAK, _describe_auc(best), copies, "scores")
    if found_rates:
        level, rate = max(found_rates, key=lambda each: each[1].low)
        plain = (
            f"Of 100 records that the release was made from about {100 * rate.value:.0f} stand out "
            f"({100 * rate.low:.0f} to {100 * rate.high:.0f}), where only {100 * float(level):g} of 100 others do."
        )
        return ReleaseVerdict(LEAK, plain, copies, "scores")
    if (holdout := states[HOLDOUT]).state == "fails":
        plain = f"The generator saw the other records (non-members) as well, so nothing can be said: {holdout.says}."
        return ReleaseVerdict(CANNOT_JUDGE, plain, copies, "holdout")
    if copies:
        return ReleaseVerdict(TOO_LITTLE, copies[0], (), "copies")
    if min(n, m) < MIN_SIDE:
        left_out = int((~result.is_counted).sum())
        why = f" ({formatting.format_count(left_out, 'record')} equal another and are left out)" if left_out else ""
        plain = (
            f"{n:,} records that the release was made from and {m:,} others count{why}; with fewer than {MIN_SIDE} of "
            "either only copies would show anything, and there are none."
        )
        return ReleaseVerdict(TOO_LITTLE, plain, (), "few")
    if holdout.state != "holds":
        plain = (
            "No attack finds records that the release was made from, but nothing shows that the generator did not see "
            "the others as well: "
            f"{holdout.says}."
        )
        return ReleaseVerdict(TOO_LITTLE, plain, (), "no holdout control")
    highest = max(scores, key=lambda score: score.auc.high, default=None)
    if highest is None or highest.auc.high >= 0.5 + result.settings.margin:
        reach = "" if highest is None else f": it may tell up to {100 * highest.auc.high:.0f} of 100 pairs right"
        plain = (
            f"No attack surely finds records that the release was made from, but one may{reach}. More records would "
            "make that surer."
        )
        return ReleaseVerdict(TOO_LITTLE, plain, (), "wide")
    plain = (
        "None of these attacks tells records that the release was made from better than others: of 100 pairs at most "
        f"about {100 * highest.auc.high:.0f} are told right, where guessing gets 50."
    )
    return ReleaseVerdict(CLEAR, plain, (), "none")


def describe_proof(proof: Proof, n_members: int, n_nonmembers: int) -> str:
    """Say how many records match, and how many would by chance; those that do not are not cleared for it."""
    uncleared = formatting.describe_uncleared(n_members - proof.members, "be at risk")
    matches = _describe_matches(proof, n_members, n_nonmembers)
    return f"{matches} Chance does not explain the difference. {uncleared}".rstrip()


def say_match(name: str) -> str:
    """Say what the records do that a proof counts."""
    if name.startswith(BUT_FOR):
        column = name.removeprefix(BUT_FOR)
        return f"stand in it unchanged but for their {column!r}, and none of the further records (population) does"
    return PROOFS[name]


def _describe_matches(proof: Proof, n_members: int, n_nonmembers: int) -> str:
    return (
        f"{proof.members:,} of {n_members:,} records that the release was made from {say_match(proof.name)}; of "
        f"{n_nonmembers:,} others, which it was not made from, {proof.nonmembers:,} do so."
    )


def _lower_bound(estimate: Estimate | None) -> LowerBound | None:
    if estimate is None:
        return None
    return LowerBound(estimate.value, estimate.low, estimate.confidence, estimate.method)


def _describe_auc(score: ScoreSummary) -> str:
    return (
        "Shown a record that the release was made from and another one, the attack tells which is which in about "
        f"{100 * score.auc.value:.0f} of 100 such pairs ({100 * score.auc.low:.0f} to {100 * score.auc.high:.0f}); "
        "guessing is right in 50."
    )


def _describe_auto(result: SyntheticAudit) -> tuple[str, ...]:
    best = next((score for score in result.score_summaries if score.name == AUTO and score.auc.low > 0.5), None)
    return () if best is None else (_describe_auc(best),)


def _describe_copies(result: SyntheticAudit) -> tuple[str, ...]:
    (inside, outside), n_both = result.copied, len(set.intersection(*result._new_rows))
    if not inside + n_both:
        return ()
    rows = "1 row of the release equals" if inside == 1 else f"{inside:,} rows of the release equal"
    both = f", {n_both:,} one of both" if n_both else ""
    return (
        f"{rows} one that it was made from and nobody's in population or non-members; {outside:,} "
        f"{'equals' if outside == 1 else 'equal'} one of the others alone{both}. They are listed: what is copied is "
        "copied, even where chance explains as many.",
    )
