"""What any attack's score has beyond what the records' features explain of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scipy import special, stats

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored, Scores, adapt, seeded
from divulge.attacks.unexplained import leading, unexplained
from divulge.validation import check_integer, require_callable

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Residual:
    """Another attack's score minus its out-of-fold ridge regression on features and class.

    `Transductive` for any attack: reference models never know quite how hard a record is for the target, and what
    they miss is partly a function of what the record looks like. The candidates' own scores show that part, whoever is
    a member. Members' larger scores raise a prediction for all records of their kind alike, so the residual ranks
    records by what sets them apart from others that look like them.

    Scores are ranked first and the ranks turned into normal deviates. LiRA's tails and RMIA's saturation would
    otherwise rule the regression; a score of equal ranks throughout leaves a residual of zero.

    It is no blind attack: what features alone tell of membership is subtracted and not added. Where the inner score
    says nothing, neither does the residual. Candidates and calibration records are scored in one call and alike, so
    their scores stay exchangeable wherever the inner attack's are. It takes a batch, of at least 20 records and better
    some hundred per class.

    Args:
        inner: the attack.
        components: principal components of the features that are kept where there are more columns.
        folds: each record is predicted by a regression on the other folds.
        seed: of the folds.

    Raises:
        divulge.InputError: an inner attack without ``score``, a setting out of its range.

    Examples:
        >>> import numpy as np
        >>> from divulge import Evidence
        >>> from divulge.attacks import Calibrated
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(400, 1)), np.arange(400) < 200
        >>> evidence = Evidence(5 * x[:, 0] + member, references=np.zeros((2, 400)), features=x)
        >>> scores = Residual(Calibrated()).score(evidence)
        >>> bool(scores[member].mean() > scores[~member].mean() + 0.1)
        True
    """

    inner: Scores
    components: int = 50
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        require_callable(self.inner, "Residual.inner", "score")
        check_integer(self.components, "Residual.components", least=1)
        check_integer(self.folds, "Residual.folds", least=2)
        check_integer(self.seed, "Residual.seed", least=0)

    @property
    def needs(self) -> frozenset[Need]:
        """What the inner attack needs, features and labels."""
        return adapt(self.inner).needs | {Need.FEATURES, Need.LABELS}

    @property
    def least_references(self) -> int:
        """As many as the inner attack."""
        return adapt(self.inner).least_references

    def score(self, evidence: Evidence) -> Floats:
        """Residuals ``[n]``, in standard deviations of the inner attack's ranked scores.

        Raises:
            divulge.InputError: no features, fewer than 20 candidates or than folds, features that are texts; and what
                the inner attack raises.
        """
        return self.run(evidence).scores

    def run(self, evidence: Evidence) -> Scored:
        """`score`, with what the inner attack has to say.

        Raises:
            divulge.InputError: as `score`.
        """
        needs.part(evidence.features, "Residual", "features", "what the records look like")
        scored = adapt(self.inner).run(evidence)
        return Scored(self.left(scored.scores, evidence), scored.notes)

    def left(self, scores: Floats, evidence: Evidence) -> Floats:
        """What is left of the inner attack's ``scores``, ``[n]``, where they are known already.

        Raises:
            divulge.InputError: as `score`.
        """
        features = needs.part(evidence.features, "Residual", "features", "what the records look like")
        deviates = special.ndtri((stats.rankdata(scores) - 0.5) / len(evidence))
        return unexplained(deviates, leading(features, self.components), evidence.labels, self.folds, self.seed)

    def seeded(self, seed: int) -> Residual:
        """The same of the inner attack with this seed, where it draws."""
        return replace(self, inner=seeded(self.inner, seed), seed=seed)
