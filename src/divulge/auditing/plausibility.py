"""Plausibility check: whether a target fits the records it is said to have been trained on.

A file of another model, columns or classes in another order, inputs that were scaled otherwise, another tokenizer: what
is audited then leaks nothing, and that says nothing of the model that was meant.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from scipy import special

from divulge import chats, lazy, people, seeds, statistics
from divulge.results import ClassFit, RegressionFit, TokenFit
from divulge.targets import Endpoint
from divulge.types import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scipy import stats

    from divulge.auditing.prepared import PreparedAudit
    from divulge.targets import TokenStatistics
    from divulge.types import Bools, Floats, Ints
else:
    stats = lazy.module("scipy.stats")

ERROR = 1e-3
"""Largest probability that a target no better than its baseline passes by chance."""
_UNBOUNDED = 1e6  # nats: beyond any mean log-probability
MARGIN, MAX_MARGIN = 0.05, 0.02
"""Margin by which a target must surely be better: a share of what the constant answer gets wrong, and a maximum."""
CLASS_GAIN_MARGIN = 0.02
"""Share of the log loss of the classes' shares, as a constant answer, that a classifier must save."""
_MAX_PERMUTED, _PERMUTATIONS, _SHIFT_STEPS = 20_000, 1_999, 100
PEER_MARGIN, PEER_ERROR_MARGIN = 0.1, 0.3
"""Share of the members by which models that never saw them must be right more often, or nearer more often than not."""
_BY_HEART = 0.6  # AUC of a fit to one's own records, against others', beyond which a clone has learned them by heart
GAIN_MARGIN = 0.01
"""Share of a constant answer's squared or absolute error that a regression model must save."""
CORRELATION_MARGIN = 0.1
"""Rank correlation with the values that its predictions must surely exceed: about 1 % of the variance."""
_INTERVAL_ERROR = 0.025  # on each side of the intervals that a report shows


@dataclass(frozen=True, slots=True)
class SampleFit:
    """Answers of a target about a few of its training records, beside a constant answer.

    Args:
        records: number of them.
        measure: what is measured: accuracy, or the mean absolute error.
        target: that of the target.
        constant: that of their most frequent class, or of their median.
    """

    records: int
    measure: Literal["accuracy", "error"]
    target: float
    constant: float

    @property
    def text(self) -> str:
        """The comparison in a sentence."""
        of_records = f"{self.records:,} training records"
        if self.measure == "accuracy":
            return f"The model is right on {self.target:.0%} of {of_records} (a constant answer: {self.constant:.0%})."
        return (
            f"The model's mean absolute error on {of_records} is {self.target:.3g} (a constant answer: "
            f"{self.constant:.3g})."
        )

    @property
    def doubt(self) -> str:
        """What to look at if the target is no better than a constant answer; empty where it is."""
        is_better = self.target > self.constant if self.measure == "accuracy" else self.target < self.constant
        if is_better:
            return ""
        exception = " (of a rare class that may be so)" if self.measure == "accuracy" else ""
        return (
            f"members: the model is no better than a constant answer{exception}; are the records scaled, and columns "
            "and classes ordered, as in its training?"
        )


def describe_accuracy_doubt(n_correct: int, labels: Ints, note: str = "") -> str:
    """Explain why a classifier may not be the one that was trained on the members; empty if it surely is.

    Args:
        n_correct: members whose predicted class is right.
        labels: classes of the members, ``[n]``.
        note: what is said of the members beside their number.
    """
    share = float(np.unique(labels, return_counts=True)[1].max()) / len(labels)
    if _is_surely_better(n_correct, labels):
        return ""
    if _are_too_few(labels):
        return f"{len(labels):,} training records{note} are too few to show that the model was trained on them"
    uncertainty = ", so it is not surely better" if n_correct > share * len(labels) else ""
    return (
        f"the model is right on {_per_cent(n_correct / len(labels))} of its own training records ({n_correct:,} of "
        f"{len(labels):,}{note}), and always answering their most frequent class is right on {_per_cent(share)}"
        f"{uncertainty}"
    )


def _is_surely_better(n_correct: int, labels: Ints) -> bool:
    """Check whether a model that is right on so many members surely beats their most frequent class by a margin."""
    share = float(np.unique(labels, return_counts=True)[1].max()) / len(labels)
    lower_bound = float(statistics.clopper_pearson_lower(n_correct, len(labels), ERROR))
    return lower_bound > share + min(MARGIN * (1 - share), MAX_MARGIN)


def _are_too_few(labels: Ints) -> bool:
    """Check whether not even a model that is right on all members of several classes would surely be better."""
    return len(np.unique(labels)) > 1 and not _is_surely_better(len(labels), labels)


def measure_class_fit(logits: Floats, labels: Ints, seed: int) -> ClassFit | None:
    """Measure whether a classifier's probabilities fit its members where its predicted classes leave a doubt.

    A sound model of a rare outcome may predict the frequent class for everyone and still rank those at risk first. Its
    log loss shows that; re-weighted classes, which a sound model may have been trained with, are a constant for each
    class in its logits, so the constants are taken from the members. That depends on how many are of each class alone,
    so the p-value by permutation of the labels is exact.

    Args:
        logits: of distinct members, ``[n, classes]``.
        labels: their classes, ``[n]``.
        seed: of the permutations, and of the draw of `_MAX_PERMUTED` members where there are more.

    Returns:
        None where the members' accuracy leaves no doubt, where all are of one class, or of one that has no logit.
    """
    if not describe_accuracy_doubt(int((logits.argmax(axis=1) == labels).sum()), labels):
        return None
    rng = seeds.generator(seed, "class fit")
    if len(labels) > _MAX_PERMUTED:
        rows = rng.choice(len(labels), _MAX_PERMUTED, replace=False)
        logits, labels = logits[rows], labels[rows]
    classes, columns, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2 or classes[-1] >= logits.shape[1]:
        return None
    shares = counts / len(labels)
    log_probabilities = special.log_softmax(logits[:, classes].astype(np.float64), axis=1)
    constants = np.zeros(len(classes))
    for _ in range(_SHIFT_STEPS):  # iterative proportional fitting: the mean probability of each class is its share
        fitted = special.log_softmax(log_probabilities + constants, axis=1)
        constants += np.log(shares) - special.logsumexp(fitted, axis=0) + np.log(len(labels))
    fitted = special.log_softmax(log_probabilities + constants, axis=1)
    rows = np.arange(len(labels))
    likelihood = fitted[rows, columns].mean()
    permuted = np.array([fitted[rows, rng.permutation(columns)].mean() for _ in range(_PERMUTATIONS)])
    entropy = -float(shares @ np.log(shares))
    # Ties are compared with room for rounding: a constant answer has the same likelihood under every permutation.
    reached = int((permuted >= likelihood - 1e-12 * abs(likelihood)).sum())
    return ClassFit(float(1 + likelihood / entropy), (1 + reached) / (1 + _PERMUTATIONS))


def fits_classes(fit: ClassFit) -> bool:
    """Check whether a classifier surely knows the members' labels by its probabilities."""
    return fit.p_value <= ERROR and fit.gain > CLASS_GAIN_MARGIN


LANGUAGE_MODEL_ADVICE = (
    "So nothing shows that this is the model that was trained on them; one with another tokenizer, another base under "
    "its adapter, or from another file would give nothing away either. Check these first."
)
REGRESSION_ADVICE = (
    "So nothing shows that this is the model that was trained on them; one that is given its columns in another order, "
    "its inputs in another scale, values in another unit, or that comes from another file would give nothing away "
    "either. Check these first. A model that predicts no better than that may give nothing away, but this audit cannot "
    "tell it from a mistake."
)

PEER_ADVICE = (
    "Whether it leaks is open. On its own training records a model does at least as well as models that never saw "
    "them. As this one does not, it is probably another model than the one that was trained on them, or is asked in "
    "another way; that no leak was found does not clear the one that was meant.",
    "Check the file, the order of columns and classes, and that inputs are scaled as in the training. If all that is "
    "right, it was trained in another way, such as with noise added for privacy; then give reference models that were "
    "trained in that way (in a plan train = 'module:function').",
)
CLONE_ADVICE = (
    "Whether it leaks is open. A model knows the records that it was trained on about as well as another of its kind "
    "knows its own. As this one does not, it was probably trained on other records than these, or is given them in "
    "another form; that no leak was found here does not clear it for the records that it did learn.",
    "Check the files of model and members, the order of columns and classes, and that inputs are scaled as in the "
    "training. If it was trained on far more records than these, a comparison with more non-members can show that, and "
    "end the doubt.",
)


def describe_peer_doubt(fit: Floats, peer_fit: Floats, peer: str, labels: Ints | None) -> str:
    """Explain that a peer which never saw the members fits them better than the model; empty if it surely does not.

    Each member is won by the peer, lost or neither; where the two know as much, wins are binomial (the sign test). The
    peer must be right more often over all members and in the mean over classes: a model of re-weighted classes, which
    gives up some of a frequent one for a rare one, is less often right in all than one that answers the frequent one.

    Args:
        fit: of the model to distinct members, ``[n]``, larger = better: 1 where its class is right, or minus an error.
        peer_fit: the same of the peer; NaN for records that it saw, which are passed over.
        peer: what the peer is, in words.
        labels: classes of the members; None where they have real values.

    Examples:
        >>> right, labels = np.repeat([0.0, 1.0], [40, 60]), np.tile([0, 1], 50)
        >>> describe_peer_doubt(right, np.ones(100), "a linear model", labels)
        'the model is right on 60.0 % of its own training records, and a linear model on 100.0 %'
        >>> describe_peer_doubt(np.ones(100), right, "a linear model", labels)
        ''
    """
    is_new = ~np.isnan(peer_fit)
    fit, peer_fit, labels = fit[is_new], peer_fit[is_new], None if labels is None else labels[is_new]
    n_won, n_lost = int((peer_fit > fit).sum()), int((peer_fit < fit).sum())
    margin = PEER_MARGIN if labels is not None else PEER_ERROR_MARGIN
    if n_won - n_lost <= margin * len(fit) or stats.binom.sf(n_won - 1, n_won + n_lost, 0.5) > ERROR:
        return ""
    if labels is not None:
        _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if np.mean(np.bincount(classes, peer_fit - fit) / counts) <= margin:
            return ""
    if labels is None:
        return f"of {_per_cent(n_won / len(fit))} of its own training records the model errs by more than {peer}"
    return (
        f"the model is right on {_per_cent(float(fit.mean()))} of its own training records, and {peer} on "
        f"{_per_cent(float(peer_fit.mean()))}"
    )


def knows_members(fit: Floats, fit_to_others: Floats) -> bool:
    """Check whether a model surely fits its members better than others, or all of them nearly as well as can be.

    Args:
        fit: to members ``[n]``, larger = better: 1 where its class is right, or minus an error.
        fit_to_others: the same to non-members ``[m]``.
    """
    is_classifier = np.isin(fit, (0.0, 1.0)).all()
    return bool(is_classifier and fit.mean() > 2 * (1 - _BY_HEART)) or _fits_better(fit, fit_to_others) > 0.5


def describe_unlearned_doubt(
    fit: Floats, fit_to_others: Floats, clone_fit: Floats, clone_fit_to_others: Floats, *, has_classes: bool
) -> str:
    """Explain that clones learn their records by heart and the model has not learned its own; empty if that is unsure.

    A model that learned from far more records than the clone did knows less of them by heart, and is then surely better
    on records that neither saw.

    Args:
        fit: of the model to distinct members, as `knows_members`.
        fit_to_others: of the model to non-members.
        clone_fit: of a clone to the records that it was trained on, about as many as there are members.
        clone_fit_to_others: of the clone to the same non-members.
        has_classes: whether fits are right or wrong classes.

    Examples:
        >>> right = np.repeat([0.0, 1.0], [120, 180])
        >>> describe_unlearned_doubt(right, right, np.ones(300), right, has_classes=True)[:63]
        'the model is right on 60.0 % of the records that it is said to '
        >>> describe_unlearned_doubt(np.ones(300), right, np.ones(300), right, has_classes=True)
        ''
    """
    learns_by_heart = min(_fits_better(clone_fit, clone_fit_to_others), _fits_better(clone_fit, fit)) > _BY_HEART
    is_better = max(_fits_better(fit, fit_to_others), _fits_better(fit_to_others, clone_fit_to_others)) > 0.5
    if is_better or not learns_by_heart:
        return ""
    if not has_classes:
        return (
            "the model errs on the records that it is said to have been trained on by not surely less than on others; "
            f"the same estimator, trained on {len(clone_fit):,} other records, errs far less on those"
        )
    n = len(clone_fit)
    return (
        f"the model is right on {_per_cent(float(fit.mean()))} of the records that it is said to have been trained on, "
        f"and on {_per_cent(float(fit_to_others.mean()))} of others, which may be chance; the same estimator, "
        f"trained on {n:,} other records, is right on {_per_cent(float(clone_fit.mean()))} of those {n:,}"
    )


def _fits_better(fit: Floats, than: Floats) -> float:
    """Return the least share of pairs in which the first fit is surely larger, ties by half."""
    return statistics.auc(np.concatenate([fit, than]), np.arange(len(fit) + len(than)) < len(fit), 1 - 2 * ERROR).low


def advise_on_classifier(labels: Ints | None) -> str:
    """Advise what to check if there is a doubt about a classifier whose members have these classes."""
    if labels is not None and _are_too_few(labels):
        return "A model that is right on all of them could be another one, or right by chance. Give more members."
    return (
        "So nothing shows that this is the model that was trained on them; one that is given its columns or classes in "
        "another order, its inputs in another scale, or that comes from another file would give nothing away either. "
        "Check these first. A model that is right no more often than that, such as one trained with much noise, may "
        "give nothing away, but this audit cannot tell it from a mistake."
    )


def measure_token_fit(audit: PreparedAudit, statistics: TokenStatistics) -> TokenFit:
    """Measure how likely the target finds its training documents, against population frequencies.

    Where the target shows its tokens, their frequencies in the population (calibration included) are the baseline,
    each token and one unknown counted once more; elsewhere those of bytes. Both are what a model knows that reads
    nothing of what stands before.
    """
    layout, tokenize = audit.layout, _tokenizer(audit.target)
    max_length = audit.target.length if isinstance(audit.target, Endpoint) else None
    texts = [[document[:max_length] for document in people.split_record(text)] for text in audit.views[0].x]
    population_units = [
        unit for record in texts[layout.candidates :] for document in record for unit in tokenize(document)
    ]
    counts = Counter(population_units)
    total = len(population_units) + len(counts) + 1
    is_member = audit.inputs.truth
    baselines, log_probabilities = np.zeros(len(is_member)), np.empty(len(is_member))
    for row in range(len(is_member)):
        start, stop = statistics.offsets[row], statistics.offsets[row + 1]
        units = [unit for document in texts[row] for unit in tokenize(document)]
        log_likelihood = float(statistics.logp[start:stop].sum())
        # A document that was cut off is compared token by token; bytes are those of all of it.
        n_units = (stop - start) if tokenize is not _utf8_bytes else max(len(units), 1)
        log_probabilities[row] = log_likelihood / n_units
        if is_member[row] and units:
            baselines[row] = np.mean([np.log((counts[unit] + 1) / total) for unit in units])
    spread = float(np.ptp(statistics.logp)) if len(statistics.logp) else 0.0
    return TokenFit(
        members=float(log_probabilities[is_member].mean()),
        gain=_mean_estimate((log_probabilities - baselines)[is_member], ERROR),
        unit="byte" if tokenize is _utf8_bytes else "token",
        constant=spread <= 1e-6 * max(1.0, abs(float(statistics.logp[0]))),
        perplexity_members=estimate_perplexity(log_probabilities[is_member]),
        perplexity_nonmembers=estimate_perplexity(log_probabilities[~is_member]),
    )


def estimate_perplexity(log_probabilities: Floats) -> Estimate | None:
    """Estimate the perplexity of documents from their mean log-probabilities of a token, ``[n]``, in nats.

    It is the geometric mean of their perplexities, each document weighing the same, with Student's interval of its
    logarithm. None with fewer than two documents, and where it is beyond what a number holds.

    Examples:
        >>> estimate_perplexity(np.log([1 / 8, 1 / 2])).value
        4.0
        >>> estimate_perplexity(np.log([0.5])) is None
        True
    """
    if len(log_probabilities) < 2:
        return None
    mean = _mean_estimate(-log_probabilities, _INTERVAL_ERROR)
    if not mean.high < np.log(np.finfo(float).max):
        return None
    value, low, high = (float(np.exp(end)) for end in (mean.value, mean.low, mean.high))
    return Estimate(round(value, 12), low, high, mean.confidence, "student, of the logarithm")


def measure_regression_fit(y: Floats, predictions: Floats, is_member: Bools) -> RegressionFit:
    """Measure how well a regression model predicts members and non-members, and beside a constant on the members.

    The constant is the best there is in hindsight: the mean for squared errors, the median for absolute ones.

    Args:
        y: true values of the candidates, ``[n]``.
        predictions: predicted values, ``[n]``.
        is_member: bool, ``[n]``.
    """
    member_y, member_predictions = y[is_member], predictions[is_member]
    errors, member_errors = np.abs(y - predictions), np.abs(member_y - member_predictions)
    return RegressionFit(
        r_squared_members=_r_squared(member_y, member_predictions),
        r_squared_nonmembers=_r_squared(y[~is_member], predictions[~is_member]),
        error_members=_mean_estimate(member_errors, _INTERVAL_ERROR),
        error_nonmembers=_mean_estimate(errors[~is_member], _INTERVAL_ERROR),
        squared_gain=_share_saved((member_y - member_y.mean()) ** 2, member_errors**2),
        absolute_gain=_share_saved(np.abs(member_y - np.median(member_y)), member_errors),
        rank_correlation=_rank_correlation(member_y, member_predictions),
    )


def describe_token_doubt(fit: TokenFit) -> str:
    """Explain why a language model may not be the one that was trained on the members; empty if it surely is."""
    if fit.constant:
        return "the model gives every token of every document the same probability"
    if fit.gain.low > 0:
        return ""
    return (
        f"the model gives a {fit.unit} of its own training documents a mean log-probability of {fit.members:.2f}, and "
        f"the {fit.unit}s' frequencies in the population alone give {fit.members - fit.gain.value:.2f}"
    )


def describe_regression_doubt(fit: RegressionFit) -> str:
    """Explain why a regression model may not be the one that was trained on the members; empty if it surely is.

    It must predict better than a constant, by squared or absolute errors, and its predictions must surely rise with the
    values: a model that has nothing to do with the records predicts some of them well by chance.
    """
    gains = [gain.value for gain in (fit.squared_gain, fit.absolute_gain) if gain is not None]
    if not gains:
        return "the values of all training records are equal, so any model that predicts that value fits them"
    if max(gains) > GAIN_MARGIN and fit.rank_correlation.low > CORRELATION_MARGIN:
        return ""
    r_squared = "" if fit.r_squared_members is None else f", R² {fit.r_squared_members.value:z.3f}"
    if max(gains) > GAIN_MARGIN:
        return (
            f"the model errs by {fit.error_members.value:.4g} on average on its own training records{r_squared}, and "
            f"its predictions do not surely rise with their values (rank correlation {fit.rank_correlation})"
        )
    comparison = "hardly worse, so the model is not surely better" if max(gains) > 0 else "no worse"
    return (
        f"the model errs by {fit.error_members.value:.4g} on average on its own training records{r_squared}, and "
        f"always answering their mean or median is {comparison}"
    )


def _share_saved(constant_errors: Floats, model_errors: Floats) -> Estimate | None:
    """Return the share of a constant answer's error that the model saves; None if it has none."""
    scale = float(constant_errors.mean())
    if not np.isfinite(scale) or scale <= 0:
        return None
    return _mean_estimate((constant_errors - model_errors) / scale, _INTERVAL_ERROR)


def _r_squared(y: Floats, predictions: Floats) -> Estimate | None:
    """Return R² with the delta method's interval; None where all values are equal."""
    squares, deviations = (y - predictions) ** 2, (y - y.mean()) ** 2
    variance, n = float(deviations.mean()), len(y)
    if not np.isfinite(variance) or variance <= 0:
        return None
    ratio = float(squares.mean()) / variance
    deviation = float((squares - ratio * deviations).std()) / variance
    half_width = float(stats.norm.isf(_INTERVAL_ERROR)) * deviation / n**0.5
    return Estimate(1 - ratio, 1 - ratio - half_width, 1 - ratio + half_width, 1 - 2 * _INTERVAL_ERROR, "delta")


def _rank_correlation(y: Floats, predictions: Floats) -> Estimate:
    """Return Spearman's correlation with the interval of Bonett & Wright (2000) at error `ERROR` on each side.

    It is 0 where all values or all predictions are equal.
    """
    ranks = stats.rankdata(y), stats.rankdata(predictions)
    n, varies = len(y), all(np.ptp(each) > 0 for each in ranks)
    value = float(np.corrcoef(*ranks)[0, 1]) if varies else 0.0
    if n < 4:
        return Estimate(value, -1.0, 1.0, 1 - 2 * ERROR, "bonett-wright")
    half_width = float(stats.norm.isf(ERROR)) * ((1 + value**2 / 2) / (n - 3)) ** 0.5
    middle = np.arctanh(np.clip(value, -1 + 1e-12, 1 - 1e-12))
    low, high = float(np.tanh(middle - half_width)), float(np.tanh(middle + half_width))
    return Estimate(value, low, high, 1 - 2 * ERROR, "bonett-wright")


def _tokenizer(target: object) -> Callable[[str], Sequence[int]]:
    """Return the target's own tokenizer, of answers where they alone are scored, or UTF-8 encoding if it has none."""
    encode = getattr(target, "encode", None)
    if encode is None:
        return _utf8_bytes

    def tokenize(text: str) -> Sequence[int]:
        if not chats.has_answers([text]):
            return encode([text])[0]
        (document,) = cast("Any", target).encode_documents([text])
        return list(itertools.compress(document.ids, document.in_answer or [True] * len(document.ids)))

    return tokenize


def _utf8_bytes(text: str) -> Sequence[int]:
    return chats.extract_scored_text(text).encode("utf-8", "surrogatepass")


def _mean_estimate(values: Floats, error: float) -> Estimate:
    """Return the mean with Student's interval at ``error`` on each side."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, -_UNBOUNDED, _UNBOUNDED, 1 - 2 * error, "student")
    half_width = float(stats.t.isf(error, n - 1)) * float(values.std(ddof=1)) / n**0.5
    return Estimate(mean, mean - half_width, mean + half_width, 1 - 2 * error, "student")


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f} %"
