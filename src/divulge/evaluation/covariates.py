"""Scores adjusted for covariates: what is left of a difference between members and non-members that are alike.

A covariate is whatever may differ between the two sets beside membership and move the score with it: the length,
the topic and the date of a text, or a column that the user names. Where it does, a score may tell the sets apart
without a leak, and a leak may be masked. Two things are done about it, and either suffices where it is done well:

1. The sets are balanced. Membership is predicted from the covariates by models that never saw the record that they
   judge. If those predictions tell the sets apart, records are divided by them into strata, and of every stratum
   as many are left out, drawn by chance, as it takes for members and non-members to be in one proportion.
2. Scores are made relative. Their ranks are predicted from the covariates, by models that know neither the
   record nor anything of membership, and what is left of each is divided by its expected size.

No step looks at scores and membership at once. So where scores depend on the covariates alone, given these, members
and non-members are compared as two samples of one kind, and every interval that holds for such samples holds here.

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
from scipy import stats
from sklearn import decomposition, linear_model, preprocessing
from sklearn.feature_extraction import text as text_features

from divulge import seeds
from divulge.evaluation.record_features import MAX_CHARACTERS, YEAR
from divulge.statistics.duplicates import first_of_each_group
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Array, Bools, Floats, Ints

MIN_RECORDS = 10  # of a kind; fewer allow no prediction, and no verdict either
FALSE_ALARM = 0.01  # chance that sets which are alike are called different after balancing

_WORD = r"\w+"
_FOLDS = 5
_MOST_STRATA = 10  # they remove 97 % of the difference in what they are made by, and the adjusted scores the rest
_STRATUM_SIZE = 20  # records of the smaller kind that a stratum has on average, at least
_PERMUTE_BELOW = 0.05  # p-value of the normal law from which on permutations decide instead
_PERMUTATIONS = 199
_MOST_PERMUTED = 2000  # records, beyond which the normal law is near enough
_MIN_SEPARATION = 1.0  # standard errors by which predictions must tell the sets apart before records are left out
_MIN_EXPLAINED = 0.01  # share of the variance that covariates must explain, on other records, before they are used
_FULLY_EXPLAINED = 0.999  # share from which on a score is the covariates, and what is left of it rounding
_DIGITS = 2  # of what is left, in standard deviations of all: smaller differences are the fit's
_MOST_TOPICS = 30
_MOST_CATEGORIES = 20
_FEW_VALUES = 20  # of a column, each of which is expected on its own where it is of twenty records
_PENALTIES = tuple(10.0**power for power in np.arange(-3, 6))


@dataclass(frozen=True, slots=True, eq=False)
class Covariates:
    """What may differ between members and non-members beside membership.

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
        """Those that are not the same for all records."""
        columns = np.ptp(self.values, axis=0) > 0 if len(self) else np.zeros(len(self.names), dtype=bool)
        return Covariates(tuple(np.array(self.names, dtype=object)[columns]), self.values[:, columns])

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a reader would call them, each once.

        Examples:
            >>> Covariates(("length", "topic:1", "topic:2", "column:age"), np.zeros((0, 4))).kinds
            ('length', 'topic', 'age')
        """
        return tuple(dict.fromkeys(_column_label(name) for name in self.names))


@dataclass(frozen=True, slots=True, eq=False)
class Adjustment:
    """The comparison of members and non-members that are alike in the covariates.

    Args:
        adjusted_for: the covariates, in a reader's words.
        kept: bool ``[n]``, the records that take part.
        scores: recipe → adjusted scores of the records that take part. Their order counts; their unit means nothing.
        explained: recipe → share of the variance of the ranks of its scores that the covariates explain; 0 where it
            is too small to adjust for.
        p_before: of members and non-members being alike in the covariates, of all records.
        p_value: the same of the records that take part.
        overlap: whether enough members and non-members are alike to be compared.
        unexplained: recipe → adjusted scores, less what the records alone explain; empty where that is not known.
    """

    adjusted_for: tuple[str, ...]
    kept: Bools
    scores: Mapping[str, Floats]
    explained: Mapping[str, float]
    p_before: float
    p_value: float
    overlap: bool
    unexplained: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def confounded(self) -> bool:
        """Whether the covariates still tell members from non-members, or no two of them are alike."""
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
    """Balance members and non-members in the covariates, and make their scores relative to these.

    Args:
        scores: recipe → ``[n]``.
        members: bool ``[n]``.
        covariates: of the same records.
        seed: of the folds, and of the records that are left out.
        groups: number of the distinct record that each is, ``[n]``, where a group is one observation: the first of
            each group and side takes part alone. None where each record is one.
        unexplained: recipe → the same scores less what the records alone explain, to be adjusted likewise.

    Returns:
        The adjustment; None where there is nothing to adjust for: no covariate varies, or there are fewer than ten
        records of a kind.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members = np.arange(600) < 300
        >>> length = rng.normal(size=600) + 0.5 * members
        >>> found = adjust({"loss": length}, members, Covariates(("length",), length[:, None]))
        >>> stats.mannwhitneyu(length[members], length[~members]).pvalue < 1e-6
        np.True_
        >>> kept = members[found.kept]
        >>> stats.mannwhitneyu(found.scores["loss"][kept], found.scores["loss"][~kept]).pvalue > 0.05
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
            else replace(adjustment, kept=np.isin(np.arange(len(members)), rows[adjustment.kept]))
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
    if not overlap:  # of small sets that may be chance; the scores are still made relative
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
        adjusted_for=covariates.varied.kinds,
        kept=is_kept,
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
    """Length, years and topic of texts.

    Topics are the first components of the words' tf-idf (latent semantic analysis), made without a look at
    membership.

    Examples:
        >>> text_covariates(["in 1999", "a longer text of 2004"]).kinds
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
    """Columns that the user names: numbers, dates, and words, of which each of the most frequent becomes a column.

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
        often = np.argsort(-count, kind="stable")[: min(_MOST_CATEGORIES, len(words) - 1)]
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
    """All columns beside one another."""
    names = tuple(name for part in parts for name in part.names)
    return Covariates(names, np.hstack([part.values for part in parts if part.names]))


def _column_label(name: str) -> str:
    head, _, tail = name.partition(":")
    if head == "category":
        return tail.partition(":")[2]
    return tail if head == "column" else head


def _topics(texts: Sequence[str], seed: int) -> Floats:
    """Components of the words' tf-idf, ``[n, at most 30]``; none where no word is in two texts."""
    words = text_features.TfidfVectorizer(token_pattern=_WORD, min_df=2, max_features=20_000, sublinear_tf=True)
    try:
        table = words.fit_transform(texts)
    except ValueError:  # no word is in two texts
        return np.zeros((len(texts), 0))
    count = min(_MOST_TOPICS, len(texts) // (2 * _FOLDS), table.shape[1] - 1)
    if count < 1:
        return np.zeros((len(texts), 0))
    components = decomposition.TruncatedSVD(count, random_state=seeds.derive_seed(seed, "topics"))
    return np.asarray(components.fit_transform(table), dtype=np.float64)


def _features(covariates: Covariates) -> Floats:
    """What predictions are linear in: components of topics, and smooth curves of the ranks of all else."""
    n, parts = len(covariates), []
    for name, column in zip(covariates.names, covariates.values.T, strict=True):
        values = np.unique(column)
        if len(values) == 1:
            continue
        rank = (stats.rankdata(column) - 0.5) / n
        if name.startswith("topic:") or len(values) == 2:
            parts.append(column[:, None])
        elif len(values) <= min(_FEW_VALUES, n // 20):
            parts += [rank[:, None], (column[:, None] == values[1:]) * 1.0]
        else:
            curves = preprocessing.SplineTransformer(n_knots=5, degree=3, include_bias=False, extrapolation="constant")
            parts.append(curves.fit_transform(rank[:, None]))
    if not parts:
        return np.zeros((n, 0))
    return np.asarray(preprocessing.StandardScaler().fit_transform(np.hstack(parts)))


def _predict_membership(features: Floats, memberships: Bools, folds: Ints) -> Floats:
    """Membership by the covariates; every record is judged by a model that did not see it."""
    return np.round(_cross_fitted(features, memberships * 1.0, folds), 9)  # equal records are so on every machine


def _stratified_folds(members: Bools, seed: int, part: str) -> Ints:
    """Folds with as many members each, and as many non-members."""
    rng = seeds.generator(seed, "covariates", part)
    folds = np.empty(len(members), dtype=np.int64)
    for side in (members, ~members):
        folds[side] = _folds(int(side.sum()), rng)
    return folds


def _folds(count: int, rng: np.random.Generator) -> Ints:
    return rng.permutation(np.arange(count) % _FOLDS)


def _cross_fitted(features: Floats, values: Floats, folds: Ints) -> Floats:
    """Predictions of ``values`` (or of each of their columns) by ridge regression on the records of other folds."""
    predicted = np.empty(values.shape)
    for fold in np.unique(folds):
        out = folds == fold
        model = linear_model.RidgeCV(alphas=_PENALTIES, alpha_per_target=values.ndim > 1)
        model.fit(features[~out], values[~out])
        predicted[out] = model.predict(features[out])
    return predicted


def _separation_z(predicted: Floats, members: Bools) -> float:
    """By how many standard errors of chance predictions are larger for members."""
    m, n = int(members.sum()), int((~members).sum())
    area = stats.mannwhitneyu(predicted[members], predicted[~members]).statistic / (m * n)
    return float((area - 0.5) / np.sqrt((m + n + 1) / (12 * m * n)))


def _p_value(features: Floats, members: Bools, folds: Ints, separation: float, seed: int) -> float:
    """Chance of sets that are alike being told apart by so many standard errors, in one direction.

    Predictions of few records vary more than the normal law has it, as folds share what they learn from. So what is
    in doubt is decided by memberships permuted within folds, which are as likely as the true one.
    """
    normal_p = float(stats.norm.sf(separation))
    if normal_p > _PERMUTE_BELOW or len(members) > _MOST_PERMUTED:
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
    """Records that remain when every stratum has members and non-members in one proportion.

    Of all proportions it is that which leaves most to the comparison, so that where one kind abounds, the other is
    kept whole.
    """
    count = int(np.clip(min(members.sum(), (~members).sum()) // _STRATUM_SIZE, 2, _MOST_STRATA))
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
    """Scores relative to what the covariates lead one to expect, and how much of their variance that is.

    Scores of which the covariates explain next to nothing come back as they are; of scores that are nothing else,
    nothing is left.
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
    """Share of the variance of ``values`` that predictions of other records' models take away; below 0 for none."""
    total = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - predicted) ** 2).sum()) / total if total > 0 else 0.0
