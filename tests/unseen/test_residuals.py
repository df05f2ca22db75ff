"""Residuals and `auto` on classes of which the auditor holds no record, from end to end."""

import functools

import numpy as np
import pytest

import divulge as dv
from divulge.auditing import pipeline

pytestmark = pytest.mark.usefixtures("scores_alone")

CLASSES, UNSEEN, COLUMNS = 4, 3, 6
NAMES = ("lira", "lira-residual", "rmia-residual", "learned-residual", "auto")


@pytest.fixture(autouse=True, scope="module")
def _versions_are_read_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "collect_environment", functools.cache(pipeline.collect_environment))
        yield


def records(rng, n, *, unseen=True):
    y = rng.integers(0, CLASSES if unseen else UNSEEN, n)
    return dv.Records(rng.normal(0.4 * y[:, None], 1.0, size=(n, COLUMNS)), y)


def remembering(data, seed, *, strength=1.5):
    """Minus the squared distance to each class's mean, and to the nearest record of each class: members stand out."""
    jitter = np.random.default_rng(seed).normal(scale=0.1, size=(CLASSES, COLUMNS))
    class_records = [data.x[data.y == c] for c in range(CLASSES)]
    means = np.stack(
        [class_rows.mean(axis=0) if len(class_rows) else np.zeros(COLUMNS) for class_rows in class_records]
    )

    def logits(x):
        scores = -((x[:, None] - means - jitter) ** 2).mean(axis=2)
        for c, class_rows in enumerate(class_records):
            if len(class_rows) and strength:
                closeness = ((x[:, None] - class_rows) ** 2).sum(axis=2).min(axis=1)
                scores[:, c] += strength * np.exp(-closeness)
        return scores

    return logits


REFERENCES = dv.references.Custom(remembering, count=4, engine="serial")


def audit(seed, *, leaks, members=200, names=NAMES):
    rng = np.random.default_rng(seed)
    sets = {"members": records(rng, members), "nonmembers": records(rng, 200)}
    trained = sets["members"] if leaks else records(rng, members)
    return dv.audit(
        remembering(trained, 0),
        population=records(rng, 600, unseen=False),
        references=REFERENCES,
        recipes=names,
        unseen_classes=(UNSEEN,),
        fpr=(0.1,),
        seed=seed,
        **sets,
    )


def test_they_run_beside_each_other_and_find_a_leak_in_classes_seen_and_not():
    result = audit(0, leaks=True)
    unseen = result.labels == UNSEEN
    for name in NAMES:
        assert result[name].on(unseen).auc.value > 0.6, name
        assert result[name].on(~unseen).auc.value > 0.6, name
    chosen = result.about.recipes["auto"].chosen
    every = (*dv.attacks.auto.OPTIONS, *dv.attacks.auto.JOINED)
    assert set(chosen.split(" + ")) <= {option.name for option in every}
    assert any(note.startswith(f"auto: chose {chosen.split(' + ')[0]}") for note in result.warnings)
    assert result.about.recipes["lira"].chosen is None


def test_nothing_is_told_of_a_target_that_leaks_nothing_and_rates_stay_nominal():
    """6 audits. 900 non-members of seen classes against 150 calibration records each at 10 %: the mean rate is
    beyond .1 ± .058 with probability 4e-5 for each of five recipes; the mean AUC beyond .5 ± .058 likewise."""
    rates, areas, strange = ({name: [] for name in NAMES} for _ in range(3))
    for seed in range(6):
        result = audit(100 + seed, leaks=False)
        unseen = result.labels == UNSEEN
        for name in NAMES:
            areas[name].append(result[name].on(~unseen).auc.value)
            strange[name].append(result[name].on(unseen).auc.value)
            threshold = dv.decisions.fpr.threshold(result.calibration[name], fpr=0.1).value
            rates[name].append((result.scores[name][~unseen & ~result.members] >= threshold).mean())
    for name in NAMES:
        assert np.mean(rates[name]) == pytest.approx(0.1, abs=0.058), name
        assert np.mean(areas[name]) == pytest.approx(0.5, abs=0.058), name
        assert np.mean(strange[name]) == pytest.approx(0.5, abs=0.103), name


@pytest.mark.parametrize("members", [4, 1600])
def test_few_members_and_many_are_no_trouble(members):
    result = audit(1, leaks=True, members=members, names=("lira-residual", "rmia-residual"))
    for name in result:
        assert np.isfinite(result.scores[name]).all()
        assert result[name].auc.value > 0.6
