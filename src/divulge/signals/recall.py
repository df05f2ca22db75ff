"""ReCaLL: how much less likely a document becomes when others are read before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.targets import GivesContinuations
from divulge.targets.rights import class_name
from divulge.types import Records
from divulge.validation import check_integer, check_strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Floats

_FLAT = 1e-12  # mean log-probability above which a document is as good as certain


@dataclass(frozen=True, slots=True)
class ReCaLL:
    """Relative conditional log-likelihood (Xie et al. 2024, EMNLP, eq. 2), ``LL(x | P) / LL(x)``.

    P are documents that the model was not trained on. Read first, they make a member lose more than a non-member, so
    the ratio of the two (negative) log-likelihoods is larger for members. Both are means over the same tokens: where no
    BOS stands before a document, its first token is left out of both.

    Args:
        shots: documents in P; fewer are taken where half of what the model reads cannot hold them.

    Raises:
        divulge.InputError: fewer than 1 shot.
    """

    shots: int = 8

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        return "recall"

    def __post_init__(self) -> None:
        check_integer(self.shots, "shots", minimum=1)

    def prepare(self, population: Records | Sequence[str], seed: int = 0) -> PreparedReCaLL:
        """Draw the documents of P from a population that the model was not trained on.

        Args:
            population: records of documents, or their texts.
            seed: of the draw.

        Raises:
            divulge.InputError: fewer documents than shots, something that is not a text.
        """
        texts = check_strings(list(population.x) if isinstance(population, Records) else population, "population")
        if len(texts) < self.shots:
            raise InputError(f"population: at least {self.shots} documents are needed (shots), got {len(texts)}")
        rows = seeds.generator(seed, "recall").choice(len(texts), self.shots, replace=False)
        return PreparedReCaLL(tuple(texts[row] for row in rows))


@dataclass(frozen=True, slots=True)
class PreparedReCaLL:
    """ReCaLL with its documents.

    Args:
        before: the texts that are read before a document, the last one right before it.
    """

    before: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", check_strings(self.before, "before"))

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        return "recall"

    @property
    def queries(self) -> int:
        """Queries it makes a record: with the documents before it and without."""
        return 2

    def measure(self, target: Any, records: Records) -> Floats:
        """Return the ratio, ``[n]``; NaN for a document without a token that could be scored.

        Of a document that is longer than what the model reads beside P, the beginning is measured, in both terms.

        Raises:
            divulge.InputError: a target that gives no continuations, a context too short for a document beside P.
        """
        if isinstance(target, type) or not isinstance(target, GivesContinuations):
            raise InputError(
                "recall: a language model that runs here is needed (divulge.targets.CausalLM), "
                f"{class_name(target)} gives no continuations"
            )
        start = target.start
        room = int(target.length or 0) - len(start)
        before = self._prefix_tokens(target, room // 2)
        if room - len(before) < (1 if start else 2):
            raise InputError(f"recall: the model takes {room} tokens, too few for a document beside the population's")
        plain_prefixes, prefixes_with_population, suffixes, scored_rows = [], [], [], []
        for row, tokens in enumerate(target.encode([str(text) for text in records.x])):
            head, tail = tokens[: 0 if start else 1], tokens[0 if start else 1 : room - len(before)]
            if not tail:
                continue
            plain_prefixes.append((*start, *head))
            prefixes_with_population.append((*start, *before, *head))
            suffixes.append(tail)
            scored_rows.append(row)
        values = np.full(len(records), np.nan)
        if scored_rows:
            conditional, unconditional = (
                target.continuations(prefixes, suffixes) for prefixes in (prefixes_with_population, plain_prefixes)
            )
            lengths = unconditional.lengths
            values[scored_rows] = (conditional.log_p / lengths) / np.minimum(unconditional.log_p / lengths, -_FLAT)
        return values

    def _prefix_tokens(self, target: GivesContinuations, max_tokens: int) -> tuple[int, ...]:
        """Return the tokens of P: as many whole documents as fit, or the end of the last one.

        Raises:
            divulge.InputError: no token fits, or there is none.
        """
        population_tokens: tuple[int, ...] = ()
        for tokens in reversed(target.encode(self.before)):
            if population_tokens and len(tokens) + len(population_tokens) > max_tokens:
                break
            population_tokens = (*tokens, *population_tokens)[-max_tokens:] if max_tokens > 0 else ()
        if not population_tokens:
            raise InputError("recall: no token of the population can be read before a document")
        return population_tokens
