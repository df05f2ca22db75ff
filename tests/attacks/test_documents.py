"""Attacks on the tokens of documents, beside literal versions of their formulas."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import divulge as dv
from divulge.attacks import EZ, WBC, SequenceLiRA
from divulge.statistics import auc
from divulge.types import TokenLogs


def logs(seed, lengths, models=3, *, lift=0.0, rounded=False):
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(lengths))
    hard = -np.abs(rng.normal(3, 2, offsets[-1]))
    target, reference_logs = (hard + 0.3 * rng.normal(size=(k, offsets[-1])) - 2 for k in (1, models))
    target = target[0] + lift * np.repeat(np.arange(len(lengths)) < len(lengths) // 2, lengths)
    if rounded:
        target, reference_logs = np.round(target), np.round(reference_logs)
    wrong = rng.random(offsets[-1]) < 0.7
    return TokenLogs(offsets, np.minimum(target, 0), np.minimum(reference_logs, 0), wrong)


def evidence(tokens):
    return dv.Evidence(target=np.zeros(len(tokens)), tokens=tokens)


def literal_windows(tokens, lengths):
    scores = []
    for i in range(len(tokens)):
        document = slice(tokens.offsets[i], tokens.offsets[i + 1])
        gain = tokens.target[document] - tokens.references[:, document].mean(axis=0)
        shares = []
        for length in lengths:
            size = min(length, len(gain))
            sums = [sum(gain[i : i + size]) for i in range(len(gain) - size + 1)]
            shares.append(np.mean([value > 0 for value in sums]))
        scores.append(np.mean(shares))
    return np.array(scores)


def literal_sequence(standard, rho):
    size = len(standard)
    inverse = np.linalg.inv(rho ** np.abs(np.subtract.outer(np.arange(size), np.arange(size))))
    ones = np.ones(size)
    return ones @ inverse @ standard / np.sqrt(ones @ inverse @ ones)


def literal_sequence_lira(tokens):
    """Standardise by tokens as likely as each (sixteenths of all), one correlation of neighbours, then the shift."""
    size = len(tokens.target)
    mean = np.array([np.mean([model[t] for model in tokens.references]) for t in range(size)])
    variance = [np.var([model[t] for model in tokens.references], ddof=1) for t in range(size)]
    cuts = [np.quantile(mean, step / 16) for step in range(1, 16)]
    level = np.array([sum(threshold <= value for threshold in cuts) for value in mean])
    spread = np.array(
        [np.sqrt(np.mean([variance[s] for s in range(size) if level[s] == level[t]])) for t in range(size)]
    )
    deviation = (tokens.references - mean) / spread
    ends = set(tokens.offsets[1:].tolist())
    pairs = [row[t] * row[t + 1] for row in deviation for t in range(size - 1) if t + 1 not in ends]
    rho = min(max(np.mean(pairs) / np.mean(deviation**2), 0.0), 0.99)
    standard = (tokens.target - mean) / (spread * np.sqrt(1 + 1 / len(tokens.references)))
    return [literal_sequence(standard[a:b], rho) for a, b in pairwise(tokens.offsets)]


def literal_error_zone(tokens, smoothed):
    scores = []
    for i in range(len(tokens)):
        positions = range(tokens.offsets[i] + (not smoothed), tokens.offsets[i + 1])
        gains = [tokens.target[t] - tokens.references[:, t].mean() for t in positions if tokens.wrong[t]]
        up, down = sum(d for d in gains if d > 0), sum(-d for d in gains if d < 0)
        if smoothed:
            scores.append(np.log((up + 1) / (down + 1)))
        else:
            scores.append(up / down if down > 0 and len(gains) >= 2 else 0.0)
    return np.array(scores)


class TestEZ:
    @given(st.integers(0, 10_000), st.lists(st.integers(1, 30), min_size=1, max_size=6), st.booleans())
    def test_equals_the_literal_formula(self, seed, lengths, smoothed):
        tokens = logs(seed, lengths)
        assert np.allclose(EZ(smoothed).score(evidence(tokens)), literal_error_zone(tokens, smoothed), rtol=1e-9)

    def test_as_published_the_surest_member_has_the_lowest_score(self):
        # Ten documents of which the target has learned every error, ten that it has not.
        rng = np.random.default_rng(0)
        gain = np.repeat([1.0, 0.0], 100) + rng.normal(0, 0.2, 200)
        gain[:100] = np.abs(gain[:100])
        gain[100:110] = 0.5  # one of the others gains everywhere too, and less
        tokens = TokenLogs(np.arange(21) * 10, gain - 3, np.full((1, 200), -3.0), np.ones(200, bool))
        member = np.arange(20) < 10
        published, smoothed = (EZ(smoothed).score(evidence(tokens)) for smoothed in (False, True))
        assert (published[:11] == 0).all()
        assert auc(published, member).value < 0.1
        assert auc(smoothed, member).value == 1.0

    def test_a_document_without_errors_is_neither(self):
        tokens = TokenLogs([0, 3], [-1.0] * 3, [[-2.0] * 3], [False] * 3)
        assert EZ().score(evidence(tokens)).tolist() == EZ(smoothed=True).score(evidence(tokens)).tolist() == [0.0]

    def test_a_loss_next_to_nothing_is_no_infinity(self):
        tokens = TokenLogs([0, 3], [-1.0, -1.0, -1.0 - 5e-324], [[-1.0, -700.0, -1.0 + 1e-300]], [True] * 3)
        assert np.isfinite(EZ().score(evidence(tokens))).all()

    def test_what_is_not_known_is_named(self):
        with pytest.raises(dv.InputError, match=r"EZ: evidence\.tokens\.wrong is needed"):
            EZ().score(evidence(TokenLogs([0, 1], [-1.0], [[-1.0]])))
        with pytest.raises(dv.InputError, match=r"EZ\.smoothed"):
            EZ(smoothed=1)


class TestWBC:
    @given(st.integers(0, 10_000), st.lists(st.integers(1, 50), min_size=1, max_size=6), st.booleans())
    def test_equals_the_literal_formula(self, seed, lengths, rounded):
        tokens = logs(seed, lengths, rounded=rounded)
        expected = literal_windows(tokens, WBC().lengths)
        if rounded:  # sums of thirds: the order of addition decides what is a hair above 0
            tokens = TokenLogs(tokens.offsets, tokens.target, tokens.references[:1], tokens.wrong)
            expected = literal_windows(tokens, WBC().lengths)
        assert np.allclose(WBC().score(evidence(tokens)), expected, atol=1e-12)

    def test_windows_of_the_paper(self):
        assert WBC().lengths == (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)

    def test_a_model_that_is_its_own_reference_wins_no_window(self):
        tokens = logs(0, [30, 5])
        same = TokenLogs(tokens.offsets, tokens.target, tokens.target[None])
        assert (WBC().score(evidence(same)) == 0).all()

    def test_a_document_is_judged_by_itself(self):
        tokens = logs(1, [30, 7, 1])
        scores_one_by_one = [WBC().score(evidence(tokens.documents(slice(i, i + 1))))[0] for i in range(3)]
        assert WBC().score(evidence(tokens)).tolist() == scores_one_by_one

    @pytest.mark.parametrize("lengths", [(), (0,), (2, -1)])
    def test_lengths_are_checked(self, lengths):
        with pytest.raises(dv.InputError, match=r"WBC\.lengths"):
            WBC(lengths)

    def test_says_what_it_lacks(self):
        with pytest.raises(dv.InputError, match=r"evidence\.tokens is needed"):
            WBC().score(dv.Evidence(target=[0.0]))
        with pytest.raises(dv.InputError, match=r"tokens\.references is needed"):
            WBC().score(evidence(TokenLogs([0, 1], [-1.0])))


class TestSequenceLiRA:
    def test_scores_of_non_members_are_close_to_standard_normal(self):
        """Autoregressive deviations of order one, as assumed: mean within 5 standard errors, spread within 15 %."""
        rng = np.random.default_rng(2)
        n, length, rho = 2000, 30, 0.6
        deviation = rng.normal(size=(9, n, length))
        for t in range(1, length):
            deviation[..., t] = rho * deviation[..., t - 1] + np.sqrt(1 - rho**2) * deviation[..., t]
        values = -8 + 0.5 * deviation.reshape(9, -1)
        scores = SequenceLiRA().score(evidence(TokenLogs(np.arange(n + 1) * length, values[0], values[1:])))
        assert abs(scores.mean()) < 5 / np.sqrt(n)
        assert 0.85 < scores.std() < 1.15

    def test_correlation_matters_where_lengths_differ(self):
        """A long document's deviations do not average out as independent ones would."""
        rng = np.random.default_rng(3)
        lengths = np.where(np.arange(600) % 2 == 0, 10, 200)
        drift = rng.normal(size=(5, 600))
        values = -9 + np.repeat(drift, lengths, axis=1) + 0.3 * rng.normal(size=(5, lengths.sum()))
        tokens = TokenLogs(np.append(0, np.cumsum(lengths)), np.minimum(values[0], 0), np.minimum(values[1:], 0))
        scores = SequenceLiRA().score(evidence(tokens))
        assert scores[lengths == 200].std() < 4 * scores[lengths == 10].std()

    @pytest.mark.parametrize("seed", range(5))
    def test_equals_the_literal_formula(self, seed):
        """Likely tokens vary by 1 and move together; unlikely ones vary by 8, each by itself."""
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 12, 60)
        offsets = np.append(0, np.cumsum(lengths))
        is_likely = np.repeat(np.arange(60) % 2 == 0, lengths)
        drift = np.repeat(rng.normal(size=(5, 60)), lengths, axis=1)
        deviates = rng.normal(size=(5, offsets[-1]))
        values = np.where(is_likely, -10 + drift + 0.3 * deviates, -90 + 8 * deviates)
        tokens = TokenLogs(offsets, values[0], values[1:])
        assert SequenceLiRA().score(evidence(tokens)) == pytest.approx(literal_sequence_lira(tokens))

    @pytest.mark.parametrize("lengths", [[1, 1], [1, 40], [3]])
    def test_short_documents(self, lengths):
        assert np.isfinite(SequenceLiRA().score(evidence(logs(4, lengths, models=2)))).all()

    def test_constants(self):
        tokens = TokenLogs([0, 2, 4], -np.ones(4), -np.ones((3, 4)))
        assert (SequenceLiRA().score(evidence(tokens)) == 0).all()

    def test_one_model_has_no_spread(self):
        with pytest.raises(dv.InputError, match="at least 2 reference models"):
            SequenceLiRA().score(evidence(logs(5, [4], models=1)))


@pytest.mark.parametrize("attack", [WBC(), SequenceLiRA()])
class TestBoth:
    def test_members_score_higher(self, attack):
        lengths = np.random.default_rng(0).integers(5, 60, 200)
        member = np.arange(200) < 100
        assert auc(attack.score(evidence(logs(6, lengths, lift=0.3))), member).value > 0.8

    def test_no_leak_no_difference(self, attack):
        """AUC within .5 ± .12 for 150 against 150: four standard errors."""
        lengths = np.random.default_rng(1).integers(5, 60, 300)
        area = auc(attack.score(evidence(logs(7, lengths))), np.arange(300) < 150).value
        assert abs(area - 0.5) < 0.12

    def test_order_of_documents_does_not_matter(self, attack):
        lengths = [5, 17, 40, 2]
        tokens = logs(8, lengths)
        order = [2, 0, 3, 1]
        token_order = np.concatenate([np.arange(tokens.offsets[i], tokens.offsets[i + 1]) for i in order])
        turned = TokenLogs(
            np.append(0, np.cumsum(np.array(lengths)[order])),
            tokens.target[token_order],
            tokens.references[:, token_order],
        )
        assert np.allclose(attack.score(evidence(turned)), attack.score(evidence(tokens))[order], atol=0.02)


class TestTokenLogs:
    @pytest.mark.parametrize(
        ("offsets", "target", "references", "says"),
        [
            ([0, 2, 2], [-1.0, -1.0], None, "offsets"),
            ([1, 2], [-1.0, -1.0], None, "offsets"),
            ([0, 3], [-1.0, -1.0], None, "target: 3 values"),
            ([0, 2], [-1.0, 0.5], None, "target: log-probabilities"),
            ([0, 2], [-1.0, np.nan], None, "target"),
            ([0, 2], [-1.0, -1.0], [[-1.0]], "references"),
        ],
    )
    def test_bad_input(self, offsets, target, references, says):
        with pytest.raises(dv.InputError, match=says):
            TokenLogs(offsets, target, references)

    def test_evidence_takes_as_many_documents_as_candidates(self):
        with pytest.raises(dv.InputError, match="tokens: 2 documents are needed, got 1"):
            dv.Evidence(target=[0.0, 1.0], tokens=TokenLogs([0, 1], [-1.0]))
