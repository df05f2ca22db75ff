"""Recipes: a signal, an attack on it, and the requirements of the pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from divulge.attacks import Need, Scores, adapt
from divulge.attacks.protocol import REFERENCES
from divulge.errors import InputError
from divulge.signals import internals, tokens
from divulge.signals.named import CLASSIFIER_SIGNALS, NAMED_SIGNALS, OutputSignal
from divulge.signals.versions import Versions
from divulge.validation import as_list, check_choice, check_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Floats, PartialRecords, Records

References: TypeAlias = Literal["none", "out", "in and out", "base", "substitutes"]

CLASSIFIER_OUTPUTS = ("logits", "labels", "internals")
# Columns of a score table that are not recipes.
RESERVED = frozenset({"id", "member", "label", "group", "duplicate_group"})


@runtime_checkable
class Signal(Protocol):
    """Anything that asks a target about records and ends in one number each (an active attack, say)."""

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        ...

    def measure(self, target: Any, records: Records) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member."""
        ...


@runtime_checkable
class PreparedSignal(Protocol):
    """A signal that first takes documents known not to be members (`divulge.signals.ReCaLL`, say)."""

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        ...

    def prepare(self, population: Sequence[str], seed: int = 0) -> Signal:
        """Return the signal that asks with them."""
        ...


@runtime_checkable
class PartialMeasure(Protocol):
    """A `PartialSignal` that has seen its auxiliary records."""

    @property
    def queries(self) -> int:
        """Queries it makes a record."""
        ...

    def measure(self, target: Any, partial: PartialRecords) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member."""
        ...


@runtime_checkable
class PartialSignal(Protocol):
    """A signal that itself deals with unknown values (`divulge.signals.MRAD`, say)."""

    @property
    def name(self) -> str:
        """Name of the signal in tables and files."""
        ...

    def fit(self, auxiliary: Records, seed: int = 0) -> PartialMeasure:
        """Learn from records that are disjoint from the candidates."""
        ...


@dataclass(frozen=True, slots=True)
class Imputed:
    """Combination of several completions of a partly known record into one score.

    Args:
        draws: 1 for the single best completion; more for multiple imputation.
        average: over draws: "signal" (of each model), "likelihood" (of each model: the log of the mean of the
            signals' exponentials) or "score" (each draw is attacked alone).

    Raises:
        divulge.InputError: fewer than 1 draw, an unknown average.
    """

    draws: int = 1
    average: Literal["signal", "likelihood", "score"] = "signal"

    def __post_init__(self) -> None:
        check_integer(self.draws, "draws", minimum=1)
        check_choice(self.average, "average", ("signal", "likelihood", "score"))

    @property
    def random(self) -> int:
        """Number of random completions of each record that are queried; 0 if only the best one is."""
        return 0 if self.draws == 1 else self.draws


@dataclass(frozen=True, slots=True)
class Recipe:
    """A signal, an attack on it, and what the pair needs.

    Args:
        name: what it is called.
        signal: the name of a signal of classifiers, of a network's inside or of language models, an `OutputSignal` of
            your own, a `Signal`, a `PartialSignal` or a `PreparedSignal`.
        attack: what turns the signal into a score; a third party's may have ``score(evidence)`` alone
            (see `divulge.attacks.adapt`).
        references: "none"; "out": models trained on the auditor's population only; "in and out": models
            each trained on a random half of population and candidates; "base": the model that a language model
            was fine-tuned from; "substitutes": models trained on the population with the target's answers for labels.
        summary: one line for `divulge list`.
        imputed: how completions of partly known records become one score.
        features: whether the attack is given ``evidence.features``, features of all records or the records themselves,
            as its needs say.
        partial: whether whole records are refused; always so where there are random completions, or where the signal
            itself deals with unknown values.
        versions: further versions of every record that all models are asked about (`divulge.signals.versions`).
        beside: names of further signals of the same records; the attack finds them in ``evidence.queries``.

    Raises:
        divulge.InputError: an unknown signal, a signal of one's own that is called like one of ours, a name that a
            score table needs for something else, an attack without ``score``, one that reads reference models
            of a kind that the recipe does not have, substitutes of a language model.
    """

    name: str
    signal: str | OutputSignal | Signal | PartialSignal | PreparedSignal
    attack: Scores
    references: References = "none"
    summary: str = ""
    imputed: Imputed = field(default_factory=Imputed)
    features: bool = False
    partial: bool = False
    versions: Versions | None = None
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.signal, str):
            check_choice(self.signal, "signal", NAMED_SIGNALS)
        elif self.signal.name in NAMED_SIGNALS:
            raise InputError(f"signal: {self.signal.name!r} is the name of another signal; choose another")
        if self.name in RESERVED or ":" in self.name:
            raise InputError(f"recipe: {self.name!r} cannot be a recipe's name (nor can one with a colon)")
        check_choice(self.references, "references", get_args(References))
        names = as_list(self.beside, "beside")
        object.__setattr__(self, "beside", tuple(check_choice(name, "beside", CLASSIFIER_SIGNALS) for name in names))
        self._check_attack()
        self._check_versions()
        if self.beside and self.output not in CLASSIFIER_OUTPUTS:
            raise InputError(f"recipe: {self.name!r}: only a classifier's signals can have others beside them")
        if (self.beside or self.inside) and (self.versions is not None or self.imputed.random):
            raise InputError(
                f"recipe: {self.name!r}: signals beside others, and of a network's inside, are measured on whole "
                "records alone, without versions or random completions"
            )

    def _check_attack(self) -> None:
        """Check that the attack's needs exist, and that the recipe has the reference models they require."""
        attack_needs = {
            Need(check_choice(part, "attack: needs", [need.value for need in Need]))
            for part in adapt(self.attack).needs
        }
        if self.references == "substitutes" and self.output not in (*CLASSIFIER_OUTPUTS, None):
            model = "a language model" if self.reads_documents else f"a model of {self.output}"
            raise InputError(
                f"recipe: {self.name!r}: substitutes learn from a classifier's labels, and {model} gives none"
            )
        if attack_needs == set(Need):  # it does not say: whatever the recipe has will do
            return
        if attack_needs & REFERENCES and self.references == "none":
            raise InputError(f"recipe: {self.name!r}: {self.attack!r} reads reference models, but references='none'")
        if Need.REFERENCES_IN_AND_OUT in attack_needs and self.references != "in and out":
            raise InputError(
                f"recipe: {self.name!r}: {self.attack!r} reads models trained on candidates, but "
                f"references={self.references!r}"
            )
        if Need.REFERENCES_SUBSTITUTES in attack_needs and self.references != "substitutes":
            raise InputError(
                f"recipe: {self.name!r}: {self.attack!r} reads models trained on the target's labels, but "
                f"references={self.references!r}"
            )
        if Need.QUERIES in attack_needs and self.versions is None and not self.beside:
            raise InputError(
                f"recipe: {self.name!r}: {self.attack!r} reads further versions of the records, but versions=None"
            )

    def _check_versions(self) -> None:
        if self.versions is None:
            return
        if not isinstance(self.versions, Versions):
            raise InputError(
                f"versions: of divulge.signals.versions, or an object with count and of(records, seed), is needed, got "
                f"{type(self.versions).__name__}"
            )
        if self.output not in ("logits", "labels") or self.imputed.random:
            raise InputError(
                f"recipe: {self.name!r}: only a classifier's outputs are asked for on several versions of a record"
            )

    @property
    def output_signal(self) -> OutputSignal | None:
        """The signal if it is computed from an output of the model; None if it queries the target itself."""
        if isinstance(self.signal, str):
            return NAMED_SIGNALS[self.signal]
        return self.signal if isinstance(self.signal, OutputSignal) else None

    @property
    def output(self) -> str | None:
        """Output of the model that the signal is computed from ("logits", "tokens", …); None if it has none."""
        signal = self.output_signal
        return None if signal is None else signal.output

    @property
    def inside(self) -> tuple[str, ...]:
        """Names of the signals for which networks are looked into; none for most recipes."""
        signal_names = (self.signal, *self.beside) if isinstance(self.signal, str) else self.beside
        return tuple(name for name in signal_names if name in internals.SIGNALS)

    @property
    def needs(self) -> frozenset[Need]:
        """All of the evidence that the attack is given: what it reads, of what the recipe has."""
        attack_needs = adapt(self.attack).needs
        needs = {Need(part) for part in attack_needs - REFERENCES}
        if not self.features:
            needs -= {Need.FEATURES, Need.RECORDS}
        if self.versions is None and not self.beside:
            needs.discard(Need.QUERIES)
        if self.references != "none" and attack_needs & REFERENCES:
            needs.add(Need(f"references {self.references}"))
        return frozenset(needs)

    @property
    def reads_vocabulary(self) -> bool:
        """Whether the attack says that it must know where a language model's likeliest token is another one."""
        attack_needs = adapt(self.attack).needs
        return Need.VOCABULARY in attack_needs and attack_needs != set(Need)

    @property
    def signal_name(self) -> str:
        """Name of the signal."""
        return self.signal if isinstance(self.signal, str) else self.signal.name

    @property
    def reads(self) -> str:
        """Access to the target that the adversary needs; a signal that reads more than outputs declares it."""
        substitute_text = " and its label of each population record" * (self.references == "substitutes")
        if self.output == "labels":
            return f"the target's label of each candidate{substitute_text}"
        if self.inside:
            return f"the target's {internals.describe_reads(self.inside)} on each candidate"
        if self.output not in (None, "logits", "tokens"):
            return f"the target's {self.output} on each candidate"
        versions_text = "" if self.versions is None else f" and on {self.versions.count} further versions of it"
        if self.signal in tokens.OF_ENDS:
            part = "the last quarter of the tokens" if self.signal == "last_quarter" else "the last tokens"
            return f"the target's outputs on {part} of each candidate"
        return getattr(self.signal, "reads", f"the target's outputs on each candidate{versions_text}{substitute_text}")

    @property
    def needs_labels(self) -> bool:
        """Whether the signal reads the record's label, or its real value."""
        signal = self.output_signal
        return isinstance(self.signal, PartialSignal) if signal is None else signal.needs_labels

    @property
    def needs_logits(self) -> bool:
        """Whether the target must give logits, not labels alone."""
        return self.needs_known if self.output is None else self.output != "labels"

    @property
    def needs_numbers(self) -> bool:
        """Whether the signal perturbs records, which is impossible for texts."""
        return self.versions is not None or getattr(self.signal, "needs_numbers", False)

    @property
    def reads_documents(self) -> bool:
        """Whether the signal is a language model's."""
        return self.output == "tokens"

    @property
    def needs_training(self) -> bool:
        """Whether `references` must be given: for reference models, or a signal's shadow models."""
        return self.references != "none" or getattr(self.signal, "shadows", 0) > 0

    @property
    def needs_known(self) -> bool:
        """Whether the recipe is for partly known records only."""
        return self.partial or self.imputed.random > 0 or isinstance(self.signal, PartialSignal)
