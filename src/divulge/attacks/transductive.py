"""What a candidate's signal has beyond what its features explain among the candidates themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.attacks.unexplained import unexplained
from divulge.validation import check_integer

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Transductive:
    """Signal minus its out-of-fold ridge regression on features and class, fitted on the candidates.

    For a class that the auditor has no records of, quantile regression must guess from other classes how hard a
    record is. The candidates themselves are records of that class, and how hard a record is can be learnt from
    them without knowing which are members: with a share π of members whose signal is larger by δ, the mean
    signal given the features is the non-members' plus πδ, and the residual ranks records by whether they are
    members and not by how easy they are. Features must be the records', not the target's own outputs or
    embeddings: those depend on membership, and regressing on them takes away what is looked for.

    One regression serves all classes; a class with four records per feature or more then has a second one, of what
    is left, to itself.

    Nothing is learnt from the population and no reference model is needed. Calibration records that are scored
    together with the candidates are treated exactly like them, in random folds, so their scores stay exchangeable
    with those of non-members of their kind. It takes a batch: at least 20 candidates, better some hundred per class.

    Args:
        folds: each record is predicted by a regression on the other folds.
        seed: of the folds.

    Examples:
        >>> import numpy as np
        >>> from divulge import Evidence
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(400, 1)), np.arange(400) < 200
        >>> evidence = Evidence(target=5 * x[:, 0] + member, features=x)
        >>> scores = Transductive().score(evidence)
        >>> bool(scores[member].min() > scores[~member].max())
        True
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FEATURES, Need.LABELS})
    least_references: ClassVar[int] = 0

    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer(self.folds, "Transductive.folds", least=2)
        check_integer(self.seed, "Transductive.seed", least=0)

    def score(self, evidence: Evidence) -> Floats:
        """Residuals ``[n]``, in the unit of the signal.

        Raises:
            divulge.InputError: no features, fewer than 20 candidates or than folds, or features that are texts.
        """
        features = needs.part(evidence.features, "Transductive", "features", "what the records look like")
        return unexplained(evidence.target, features, evidence.labels, self.folds, self.seed)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> Transductive:
        """The same with another seed."""
        return replace(self, seed=seed)
