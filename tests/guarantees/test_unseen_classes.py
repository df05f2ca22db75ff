"""Promises about classes without calibration records: simulated, and what an audit makes of them."""

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.decisions import unseen_classes
from divulge.decisions.unseen_classes import leave_one_class_out, threshold

LEVEL, RUNS = 0.1, 240
SIZES = {
    "few": lambda effects, rng: np.full(len(effects), 30),
    "lopsided": lambda effects, rng: rng.choice([1, 30, 400], len(effects)),
    "rare classes score high": lambda effects, rng: np.where(effects > 0, 3, 60),
}


def draw_classes(rng, k, spread, sizes):
    """Return K classes of normal scores, their effects at random, and one more effect: that of an unseen class."""
    effects = rng.normal(0, spread, k + 1)
    counts = SIZES[sizes](effects[:k], rng)
    labels = np.repeat(np.arange(k), counts)
    return rng.normal(effects[labels]), labels, effects[k]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("k", "spread", "decimals"), [(10, 0.2, None), (20, 2.0, 0), (100, 2.0, None)])
def test_both_promises_are_kept(k, spread, sizes, decimals):
    """Each fails with less than .0005 if true (3.5 standard errors, at most, of 240 runs): .01 over all 18."""
    rng = np.random.default_rng([k, len(sizes), decimals is None])
    rates, misses = [], 0
    for _ in range(RUNS if k < 100 else RUNS // 4):
        scores, labels, effect = draw_classes(rng, k, spread, sizes)
        if decimals is not None:
            scores = scores.round(decimals)  # ties: many records have one score
        limits = {}
        for promise in unseen_classes.PROMISES:
            try:
                limits[promise] = float(threshold(scores, labels, LEVEL, promise=promise))
            except dv.InputError:
                limits[promise] = np.inf  # nothing is promised
        # A rounded score reaches the limit if it is a whole number above it.
        edges = {p: v if decimals is None else np.ceil(v) - 0.5 for p, v in limits.items()}
        rates.append(stats.norm.sf(edges["average"] - effect))
        misses += stats.norm.sf(edges["most"] - effect) > LEVEL
    n = len(rates)
    assert np.mean(rates) <= LEVEL + 3.5 * np.std(rates) / np.sqrt(n)
    assert misses <= stats.binom.ppf(0.9995, n, 1 - unseen_classes.SHARE)


def test_the_threshold_of_all_records_keeps_no_promise_where_classes_differ():
    """What is promised is not idle: one sample of all records breaks the level in far more than 10 % of classes."""
    rng = np.random.default_rng(0)
    scores, labels, _ = draw_classes(rng, 60, 2.0, "few")
    rates = leave_one_class_out(scores, labels, LEVEL)
    assert (rates.pooled > LEVEL).mean() > 0.15
    assert (rates.most > LEVEL).mean() <= 0.1
    assert rates.average.mean() <= LEVEL


def test_too_few_classes_or_too_few_records_in_them_are_refused():
    scores, labels = np.arange(36.0), np.repeat(np.arange(9), 4)
    with pytest.raises(dv.InputError, match="19 classes with calibration records are needed"):
        threshold(scores, labels, 0.05)
    with pytest.raises(dv.InputError, match="10 classes with calibration records are needed"):
        threshold(scores, labels, 0.05, promise="most")
    with pytest.raises(dv.InputError, match="records enough"):
        threshold(np.arange(36.0), np.repeat(np.arange(12), 3), 0.05, promise="most")


class Remembering:
    """Logits that rise with a record's class, with chance, and with membership."""

    def __init__(self, members, effects):
        self.members, self.effects = members.x[:, 0], effects

    def logits(self, records):
        values = np.zeros((len(records.x), len(self.effects)))
        margin = records.x[:, 1] + self.effects[records.y] + 2 * np.isin(records.x[:, 0], self.members)
        values[np.arange(len(margin)), records.y] = margin
        return values


def audit_without_a_class(n_classes, effects, **more):
    def draw(n, seed, classes):
        rng = np.random.default_rng(seed)
        return dv.Records(rng.normal(size=(n, 3)), rng.choice(classes, n))

    members, nonmembers = (draw(600, seed, n_classes) for seed in (1, 2))
    population = draw(4000, 3, n_classes - 1)
    target = Remembering(members, effects)
    options = {"recipes": ["loss", "transductive"], "fpr": (0.1,), "unseen_classes": [n_classes - 1]} | more
    return dv.audit(target, members=members, nonmembers=nonmembers, population=population, **options)


def test_an_audit_promises_where_it_was_void(tmp_path):
    """A score of the target alone has a promise; one that learnt from other classes, and one by FDR, stays void."""
    effects = np.random.default_rng(5).normal(0, 0.3, 30)
    result = audit_without_a_class(30, effects, out=tmp_path / "run")
    loaded = dv.load(tmp_path / "run")
    for each in (result, loaded):
        average, most = (each["loss"].selection(fpr=0.1, promise=name) for name in ("average", "most"))
        assert average.guarantee.holds
        assert most.guarantee.holds
        assert "on average" in average.guarantee.kind
        assert "90 %" in most.guarantee.kind
        assert 0 < most.count < average.count
        assert not each["loss"].selection(fdr=0.1).guarantee.holds
        assert not each["transductive"].selection(fpr=0.1).guarantee.holds
    left_out = next(finding for finding in loaded.about.findings if finding.check == "left-out classes").measured
    assert len(left_out.classes) == len(left_out.recipes["loss"].most) == 29
    assert "transductive" not in left_out.recipes


def test_nothing_is_claimed_where_the_class_is_known_to_break_the_promise():
    effects = np.zeros(30)
    effects[29] = 4.0
    selection = audit_without_a_class(30, effects, recipes=["loss"])["loss"].selection(fpr=0.1)
    assert not selection.guarantee.holds
    assert "true non-members" in selection.warnings[0]
