"""Glossary of the terms that reports use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import markupsafe


class Term(NamedTuple):
    """A word as people say it, how it is written in reports, and what it means."""

    name: str
    written: str
    meaning: str


TERMS = (
    Term(
        "AUC", "AUC", "How often the attack tells a training record from another one, shown one of each. Guessing: 0.5."
    ),
    Term(
        "TPR (true-positive rate)",
        r"TPR|true positive rate",
        "Of the training records, the share that the attack recognises as such.",
    ),
    Term(
        "FPR (false-positive rate)",
        r"FPRs?|false[- ]positive rate",
        "Of the records that were not used for training, the share that is wrongly called training records.",
    ),
    Term(
        "FDR (false discovery rate)",
        r"FDR|false discovery rate",
        "Of the records that are called training records, the share that is not, on average over repetitions.",
    ),
    Term(
        "false discovery proportion",
        r"false discovery proportion",
        "Of the records called training records in this one run, the share that is not.",
    ),
    Term(
        "advantage",
        r"advantage",
        "The largest difference of true- and false-positive rate over all thresholds. Guessing: 0.",
    ),
    Term(
        "ε (epsilon)",
        r"ε",
        "A bound of differential privacy: with ε, one record changes the odds of any output by a factor of at most "
        "exp(ε). A lower bound says that no smaller ε is true of this training.",
    ),
    Term("δ (delta)", r"δ", "The probability with which a bound of differential privacy may fail."),
    Term(
        "interval",
        r"9\d(?:\.\d+)? % intervals?|intervals?",
        "The range that holds the true value in the stated share of repetitions, over new records drawn alike.",
    ),
    Term("recipe", r"recipes?", "An attack together with what it reads of the model."),
    Term(
        "calibration",
        r"calibration records?|calibration scores?|calibration set|calibration",
        "Records that are known not to have been used. Nothing learns from them; they show how high records score by "
        "chance.",
    ),
    Term(
        "reference model",
        r"reference models?",
        "A model of the same kind that the attacker trains on other data, to see what is usual.",
    ),
    Term(
        "exchangeable",
        r"exchangeable|exchangeability",
        "Alike in every way that matters: in which of the sets a record stands is pure chance.",
    ),
    Term(
        "members",
        r"non-members?|members?",
        "Members are the records that the model was trained on; non-members were not.",
    ),
    Term("ROC", r"ROC", "True-positive rate over false-positive rate, for every threshold of the score."),
    Term(
        "confounded",
        r"confounded",
        "Members and non-members differ in more than their use, so that no number shows what the model leaks.",
    ),
    Term(
        "p-value",
        r"p-values?",
        "How often a record that was not used would score at least as high by chance.",
    ),
    Term(
        "q-value",
        r"q-values?",
        "The smallest false discovery rate at which this record would be selected.",
    ),
    Term(
        "canary",
        r"canar(?:y|ies)",
        "A record made for the test, put into the training data or left out by the toss of a coin.",
    ),
    Term(
        "Γ (gamma)",
        r"Γ",
        "How many times likelier, or less likely, a score may be among unused candidates than in the calibration.",
    ),
    Term(
        "margin",
        r"margin",
        "How far outputs lie on the right side; training pushes those of its records to the same value.",
    ),
    Term("digest", r"digests?", "A checksum (BLAKE2 or SHA-256) that changes if a single byte of the data does."),
    Term("seed", r"seeds?", "The number from which all random draws of the run follow; the same seed repeats them."),
    Term(
        "multi-accuracy violation",
        r"multi-accuracy violation",
        "How far a threshold's error depends on what records look like; 0 where a rate carries over to others.",
    ),
    Term(
        "realised power",
        r"realised power",
        "Of the members among the candidates, the share that was selected in this run.",
    ),
    Term("hinge", r"hinge", "How far the model's answer for the true class lies above that for any other."),
    Term(
        "scaled logit",
        r"scaled[- ]logit",
        "The logarithm of the odds that the model gives the true class.",
    ),
    Term("unseen classes", r"unseen class(?:es)?", "Classes of which the attacker holds no records."),
)
_ANY = "|".join(f"(?P<t{i}>{term.written})" for i, term in enumerate(TERMS))
# Not inside a dotted name or the name of a command.
_EVERY = re.compile(rf"(?<![\w-])(?<!divulge )(?<!\w\.)(?:{_ANY})(?![\w-]|\.\w)")


_BUTTON = '<button type="button" class="term" popovertarget="term-{}">{}</button>'


@dataclass(slots=True)
class Glossary:
    """The terms of one page: marked where they first stand in each section, explained at its end.

    Examples:
        >>> glossary = Glossary()
        >>> str(glossary.marked("<AUC>"))
        '&lt;<button type="button" class="term" popovertarget="term-0">AUC</button>&gt;'
        >>> glossary.used()[0][1].name
        'AUC'
    """

    _pages: set[int] = field(default_factory=set)
    _section: set[int] = field(default_factory=set)

    def begin(self) -> str:
        """A new section, in which every term is marked once more."""
        self._section.clear()
        return ""

    def marked(self, text: object) -> markupsafe.Markup:
        """``text``, escaped, each term that this section has not shown yet a button that explains it."""
        parts, end, whole = [], 0, str(text)
        button = markupsafe.Markup(_BUTTON)  # noqa: S704  our own constant
        for place in _EVERY.finditer(whole):
            number = int(str(place.lastgroup)[1:])
            if number in self._section:
                continue
            self._section.add(number)
            self._pages.add(number)
            parts += [markupsafe.escape(whole[end : place.start()]), button.format(number, place[0])]
            end = place.end()
        return markupsafe.Markup("").join([*parts, markupsafe.escape(whole[end:])])

    def used(self) -> list[tuple[int, Term]]:
        """Every term that was marked, in the order of the glossary."""
        return [(number, TERMS[number]) for number in sorted(self._pages)]
