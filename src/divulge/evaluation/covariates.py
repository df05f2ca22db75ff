"""Comparison of members and non-members adjusted for covariates.

A covariate may differ between the two sets beside membership and influence the score: length, topic and date of a text,
or a column that the user names. A score may then tell the sets apart without a leak, and a leak may be masked. There
are two adjustments, either of which suffices if its models are right:

1. The sets are balanced. Membership is predicted from the covariates by cross-fitted models. If the predictions tell
   the sets apart, records are divided into strata by them, and from every stratum records are left out at random until
   members and non-members are in the same proportion everywhere.
2. Scores are made relative. Their ranks are predicted from the covariates by cross-fitted models that do not use
   membership, and the residuals are divided by their expected size.

No step uses scores and membership together. So if scores depend on the covariates alone, the members and non-members
that are compared are samples from one distribution given the covariates, and intervals for such samples are valid.

References:
    Janes & Pepe 2009, Adjusting for covariate effects on classification accuracy using the covariate-adjusted
    receiver operating characteristic curve;
    Rosenbaum & Rubin 1984, Reducing bias in observational studies using subclassification on the propensity score;
    Chernozhukov et al. 2018, Double/debiased machine learning for treatment and structural parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, seeds
from divulge.duplicates import first_of_each_group
from divulge.evaluation.blind import MAX_CHARACTERS, YEAR
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scipy import stats
    from sklearn import decomposition, linear_model, preprocessing
    from sklearn.feature_extraction import text as text_features

    from divulge.types import Array, Bools, Floats, Ints
else:
    stats = lazy.module("scipy.stats")
    decomposition = lazy.module("sklearn.decomposition")
    linear_model = lazy.module("sklearn.linear_model")
    preprocessing = lazy.module("sklearn.preprocessing")
    text_features = lazy.module("sklearn.feature_extraction.text")

MIN_RECORDS = 10  # members, and non-members; fewer allow neither a prediction nor a verdict
FALSE_ALARM = 0.01  # probability that sets without a difference are called different after balancing

_WORD = r"\w+"
_FOLDS = 5
_MAX_STRATA = 10  # they remove 97 % of the difference in the predictions; the relative scores adjust for the rest
_STRATUM_SIZE = 20  # minimum mean number of records of the smaller side in a stratum
_PERMUTE_BELOW = 0.05  # a smaller normal p-value is replaced by a permutation p-value
_PERMUTATIONS = 199
_MAX_PERMUTED = 2000  # number of records beyond which the normal p-value is accurate enough
_MIN_SEPARATION = 1.0  # standard errors by which predictions must tell the sets apart before records are left out
_MIN_EXPLAINED = 0.01  # share of the variance that covariates must explain, on other records, before they are used
_FULLY_EXPLAINED = 0.999  # explained share from which on residuals are rounding errors
_DIGITS = 2  # of residuals, in standard deviations; smaller differences come from the fit
_MAX_TOPICS = 30
_MAX_CATEGORIES = 20
_MAX_DISTINCT_VALUES = 20  # a column with at most so many values gets an indicator for each
_PENALTIES = tuple(10.0**power for power in np.arange(-3, 6))


@dataclass(frozen=True, slots=True, eq=False)
class Covariates:
    """Covariates of records: columns that may differ between members and non-members.

    Args:
        names: of each column: ``length``, ``year``, ``topic:1``, ``column:age``, ``category:2:ward``.
        values: ``[n, k]``.
    """

    names: tuple[str, ...]
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Bools | Ints) -> Covariates:
        """Return the covariates of the records in ``rows``."""
        return Covariates(self.names, self.values[rows])

    @property
    def varied(self) -> Covariates:
        """The covariates that are not constant."""
        columns = np.ptp(self.values, axis=0) > 0 if len(self) else np.zeros(len(self.names), dtype=bool)
        return Covariates(tuple(np.array(self.names, dtype=object)[columns]), self.values[:, columns])

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the covariates for a reader, without repetition.

        Examples:
            >>> Covariates(("length", "topic:1", "topic:2", "column:age"), np.zeros((0, 4))).sources
            ('length', 'topic', 'age')
        """
        return tuple(dict.fromkeys(_column_label(name) for name in self.names))


@dataclass(frozen=True, slots=True, eq=False)
class Adjustment:
    """Balanced records and adjusted scores.

    Args:
        adjusted_for: names of the covariates for a reader.
        is_included: bool ``[n]``, the records that take part.
        scores: recipe → adjusted scores of the records that take part; only their order has a meaning.
        explained: recipe → share of the variance of the ranks of the scores that the covariates explain; 0 if it is too
            small to adjust for.
        p_before: p-value of the hypothesis that covariates do not differ between members and non-members, on all
            records.
        p_value: the same on the records that take part.
        overlap: whether enough members and non-members are comparable.
        unexplained: recipe → adjusted residuals of the scores given the records; empty if these were not computed.
    """

    adjusted_for: tuple[str, ...]
    is_included: Bools
    scores: Mapping[str, Floats]
    explained: Mapping[str, float]
    p_before: float
    p_value: float
    overlap: bool
    unexplained: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def confounded(self) -> bool:
        """Whether the covariates still tell members from non-members, or too few of them are comparable."""
        return not self.overlap or self.p_value <= FALSE_ALARM


def adjust(
    scores: Mapping[str, Floats],
    members: Bools,
    covariates: Covariates,
    *,
    seed: int = 0,
    groups: Ints | None = None,
    unexplained: Mapping[str, Floats] | None = None,
) -> Adjustment | None:
    """Balance members and non-members in the covariates, and make their scores relative to the covariates.

    Args:
        scores: recipe → ``[n]``.
        members: bool ``[n]``.
        covariates: of the same records.
        seed: of the folds, and of the records that are left out.
        groups: group of equal records ``[n]``, if a group is one observation: only the first record of each group and
            side takes part. None if each record is an observation.
        unexplained: recipe → residuals of the scores given the records, to be adjusted in the same way.

    Returns:
        The adjustment; None if no covariate varies, or if there are fewer than ten members or non-members.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members = np.arange(600) < 300
        >>> length = rng.normal(size=600) + 0.5 * members
        >>> adjustment = adjust({"loss": length}, members, Covariates(("length",), length[:, None]))
        >>> stats.mannwhitneyu(length[members], length[~members]).pvalue < 1e-6
        np.True_
        >>> kept = members[adjustment.is_included]
        >>> stats.mannwhitneyu(adjustment.scores["loss"][kept], adjustment.scores["loss"][~kept]).pvalue > 0.05
        np.True_
    """
    if groups is not None:
        rows = np.flatnonzero(first_of_each_group(groups, members))
        values_by_name, unexplained_by_name = (
            {name: values[rows] for name, values in each.items()} for each in (scores, unexplained or {})
        )
        adjustment = adjust(values_by_name, members[rows], covariates[rows], seed=seed, unexplained=unexplained_by_name)
        return (
            None
            if adjustment is None
            else replace(adjustment, is_included=np.isin(np.arange(len(members)), rows[adjustment.is_included]))
        )
    features = _features(covariates)
    if features.shape[1] == 0 or min(members.sum(), (~members).sum()) < MIN_RECORDS:
        return None
    folds = _stratified_folds(members, seed, "before")
    predicted = _predict_membership(features, members, folds)
    separation_before = _separation_z(predicted, members)
    is_kept = np.ones(len(members), dtype=bool)
    if separation_before > _MIN_SEPARATION:
        is_kept = _balance_strata(predicted, members, seed)
    overlap = min(members[is_kept].sum(), (~members[is_kept]).sum()) >= MIN_RECORDS
    if not overlap:  # In small sets this may be chance; scores are still made relative.
        is_kept[:] = True
        overlap = _p_value(features, members, folds, separation_before, seed) > FALSE_ALARM
    separation_after = separation_before
    if not is_kept.all():
        features = _features(covariates[is_kept])
        folds = _stratified_folds(members[is_kept], seed, "after")
        separation_after = _separation_z(_predict_membership(features, members[is_kept], folds), members[is_kept])
    p_value = _p_value(features, members[is_kept], folds, separation_after, seed)
    folds = _folds(int(is_kept.sum()), seeds.generator(seed, "covariates", "folds"))
    relative = {
        name: _relative_scores(features, values_by_name[is_kept], folds) for name, values_by_name in scores.items()
    }
    return Adjustment(
        adjusted_for=covariates.varied.sources,
        is_included=is_kept,
        scores={name: values_by_name for name, (values_by_name, _) in relative.items()},
        explained={name: share for name, (_, share) in relative.items()},
        p_before=float(stats.norm.sf(separation_before)),
        p_value=p_value,
        overlap=bool(overlap),
        unexplained={
            name: _relative_scores(features, values_by_name[is_kept], folds)[0]
            for name, values_by_name in (unexplained or {}).items()
        },
    )


def text_covariates(texts: Sequence[str], *, seed: int = 0) -> Covariates:
    """Return length, years and topics of texts as covariates.

    Topics are the first components of the words' tf-idf (latent semantic analysis), computed without membership.

    Examples:
        >>> text_covariates(["in 1999", "a longer text of 2004"]).sources
        ('length', 'year')
    """
    short = [text[:MAX_CHARACTERS] for text in texts]
    years = [[int(year) for year in YEAR.findall(text)] for text in short]
    newest = np.array([max(names, default=0) for names in years], dtype=np.float64)
    names = newest > 0
    newest[~names] = np.median(newest[names]) if names.any() else 0
    columns = {"length": np.log1p([float(len(text)) for text in texts]), "year": newest, "year:named": names * 1.0}
    topics = _topics(short, seed)
    columns |= {f"topic:{row + 1}": column for row, column in enumerate(topics.T)}
    return Covariates(tuple(columns), np.column_stack(list(columns.values())))


def column_covariates(columns: Mapping[str, Array]) -> Covariates:
    """Return the user's columns as covariates: numbers, dates, and words, with an indicator for each frequent word.

    Raises:
        divulge.InputError: a number that is NaN or infinite.
    """
    parts: dict[str, Floats] = {}
    for name, values in columns.items():
        column = _dates(np.asarray(values))
        if column.dtype.kind in "mM":
            column = column.astype("datetime64[s]" if column.dtype.kind == "M" else "timedelta64[s]").astype(np.int64)
        if column.dtype.kind in "biuf":
            parts[f"column:{name}"] = check_vector(column.astype(np.float64), f"covariates: {name}")
            continue
        words, code, count = np.unique(column.astype(str), return_inverse=True, return_counts=True)
        often = np.argsort(-count, kind="stable")[: min(_MAX_CATEGORIES, len(words) - 1)]
        parts |= {f"category:{row}:{name}": (code == word) * 1.0 for row, word in enumerate(often)}
    return Covariates(tuple(parts), np.column_stack(list(parts.values())) if parts else np.zeros((0, 0)))


def _dates(column: Array) -> Array:
    """Return a column of dates that are written out (2024-05-31) as dates; any other as it is."""
    if column.dtype.kind not in "UO":
        return column
    try:
        dates = column.astype(str).astype("datetime64[s]")
    except ValueError:
        return column
    return column if np.isnat(dates).any() else dates


def join_covariates(parts: Sequence[Covariates]) -> Covariates:
    """Join covariates side by side."""
    names = tuple(name for part in parts for name in part.names)
    return Covariates(names, np.hstack([part.values for part in parts if part.names]))


def _column_label(name: str) -> str:
    head, _, tail = name.partition(":")
    if head == "category":
        return tail.partition(":")[2]
    return tail if head == "column" else head


def _topics(texts: Sequence[str], seed: int) -> Floats:
    """Return components of the words' tf-idf, ``[n, at most 30]``; none if no word is in two texts."""
    words = text_features.TfidfVectorizer(token_pattern=_WORD, min_df=2, max_features=20_000, sublinear_tf=True)
    try:
        table = words.fit_transform(texts)
    except ValueError:  # No word is in two texts.
        return np.zeros((len(texts), 0))
    count = min(_MAX_TOPICS, len(texts) // (2 * _FOLDS), table.shape[1] - 1)
    if count < 1:
        return np.zeros((len(texts), 0))
    components = decomposition.TruncatedSVD(count, random_state=seeds.derive_seed(seed, "topics"))
    return np.asarray(components.fit_transform(table), dtype=np.float64)


def _features(covariates: Covariates) -> Floats:
    """Return the features of the linear predictions: topics, indicators, and splines of the ranks of other columns."""
    n, parts = len(covariates), []
    for name, column in zip(covariates.names, covariates.values.T, strict=True):
        values = np.unique(column)
        if len(values) == 1:
            continue
        rank = (stats.rankdata(column) - 0.5) / n
        if name.startswith("topic:") or len(values) == 2:
            parts.append(column[:, None])
        elif len(values) <= min(_MAX_DISTINCT_VALUES, n // 20):
            parts += [rank[:, None], (column[:, None] == values[1:]) * 1.0]
        else:
            curves = preprocessing.SplineTransformer(n_knots=5, degree=3, include_bias=False, extrapolation="constant")
            parts.append(curves.fit_transform(rank[:, None]))
    if not parts:
        return np.zeros((n, 0))
    return np.asarray(preprocessing.StandardScaler().fit_transform(np.hstack(parts)))


def _predict_membership(features: Floats, memberships: Bools, folds: Ints) -> Floats:
    """Predict membership from the covariates, each record by a model that was not fitted to it."""
    # Predictions are rounded, so that ties do not depend on the machine.
    return np.round(_cross_fitted(features, memberships * 1.0, folds), 9)


def _stratified_folds(members: Bools, seed: int, part: str) -> Ints:
    """Return folds with equal numbers of members and of non-members."""
    rng = seeds.generator(seed, "covariates", part)
    folds = np.empty(len(members), dtype=np.int64)
    for side in (members, ~members):
        folds[side] = _folds(int(side.sum()), rng)
    return folds


def _folds(count: int, rng: np.random.Generator) -> Ints:
    return rng.permutation(np.arange(count) % _FOLDS)


def _cross_fitted(features: Floats, values: Floats, folds: Ints) -> Floats:
    """Predict ``values``, or each of their columns, by ridge regression on the records of other folds."""
    predicted = np.empty(values.shape)
    for fold in np.unique(folds):
        out = folds == fold
        model = linear_model.RidgeCV(alphas=_PENALTIES, alpha_per_target=values.ndim > 1)
        model.fit(features[~out], values[~out])
        predicted[out] = model.predict(features[out])
    return predicted


def _separation_z(predicted: Floats, members: Bools) -> float:
    """Return by how many standard errors the predictions are larger for members than for non-members."""
    m, n = int(members.sum()), int((~members).sum())
    area = stats.mannwhitneyu(predicted[members], predicted[~members]).statistic / (m * n)
    return float((area - 0.5) / np.sqrt((m + n + 1) / (12 * m * n)))


def _p_value(features: Floats, members: Bools, folds: Ints, separation: float, seed: int) -> float:
    """Return the one-sided p-value of a separation by so many standard errors.

    With few records, predictions vary more than the normal approximation says, as folds share training data. So a small
    p-value is replaced by that of memberships permuted within folds.
    """
    normal_p = float(stats.norm.sf(separation))
    if normal_p > _PERMUTE_BELOW or len(members) > _MAX_PERMUTED:
        return normal_p
    rng = seeds.generator(seed, "covariates", "permuted")
    permuted = np.repeat(members[:, None], _PERMUTATIONS, axis=1)
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        permuted[rows] = rng.permuted(permuted[rows], axis=0)
    predicted = _predict_membership(features, permuted, folds)
    n_reached = sum(_separation_z(*pair) >= separation - 1e-9 for pair in zip(predicted.T, permuted.T, strict=True))
    return max(normal_p, (1 + n_reached) / (1 + _PERMUTATIONS))


def _balance_strata(predicted: Floats, members: Bools, seed: int) -> Bools:
    """Return the mask of records that remain if every stratum has members and non-members in the same proportion.

    The proportion maximises the effective sample size, so that if one side has many more records, the other is kept
    whole.
    """
    count = int(np.clip(min(members.sum(), (~members).sum()) // _STRATUM_SIZE, 2, _MAX_STRATA))
    stratum = np.floor((stats.rankdata(predicted) - 0.5) / len(predicted) * count).astype(np.int64)
    inside = np.bincount(stratum[members], minlength=count)
    outside = np.bincount(stratum[~members], minlength=count)
    mixed = (inside > 0) & (outside > 0)
    best, stratum_counts = 0.0, (np.zeros_like(inside), np.zeros_like(outside))
    for proportion in np.unique(inside[mixed] / outside[mixed]):
        m = np.minimum(inside, np.floor(proportion * outside + 0.5).astype(np.int64))
        n = np.minimum(outside, np.floor(inside / proportion + 0.5).astype(np.int64))
        effective = float(m.sum() * n.sum() / max(m.sum() + n.sum(), 1))
        if effective > best:
            best, stratum_counts = effective, (m, n)
    is_kept = np.zeros(len(members), dtype=bool)
    order = seeds.generator(seed, "covariates", "left out").permutation(len(members))
    for i in range(count):
        for side, number in ((members, stratum_counts[0][i]), (~members, stratum_counts[1][i])):
            rows = order[(stratum[order] == i) & side[order]]
            is_kept[rows[:number]] = True
    return is_kept


def _relative_scores(features: Floats, scores: Floats, folds: Ints) -> tuple[Floats, float]:
    """Return scores relative to their expectation given the covariates, and the share of variance explained.

    Scores of which the covariates explain almost nothing are returned as they are; if they explain everything, zeros
    are.
    """
    normal = stats.norm.ppf((stats.rankdata(scores) - 0.5) / len(scores))
    expected = _cross_fitted(features, normal, folds)
    explained = _explained_variance(normal, expected)
    if explained < _MIN_EXPLAINED:
        return scores, 0.0
    if explained >= _FULLY_EXPLAINED:
        return np.zeros(len(scores)), explained
    residuals = np.round(normal - expected, _DIGITS)
    sizes = np.abs(residuals)
    expected_sizes = _cross_fitted(features, sizes, folds)
    if _explained_variance(sizes, expected_sizes) >= _MIN_EXPLAINED:
        residuals = residuals / np.maximum(expected_sizes, sizes.mean() / 4)
    return residuals, explained


def _explained_variance(values: Floats, predicted: Floats) -> float:
    """Return the share of the variance of ``values`` that cross-fitted predictions explain; it may be negative."""
    total = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - predicted) ** 2).sum()) / total if total > 0 else 0.0
