"""What is held out for the choice of settings, and how references that answer otherwise are described, step by step."""

from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.attacks import Need
from divulge.auditing import reference_match
from divulge.auditing.prepared import AuditLog
from divulge.evidence import Layout, Measurements, Models, TokenLogs
from divulge.results import MatchedReferences, ReferenceAgreement
from divulge.types import Estimate

N, K = 3, 5  # candidates, calibration records


def population(n_distinct, copies=1):
    x = np.repeat(np.arange(n_distinct, dtype=float)[:, None], copies, axis=0)
    return dv.Records(x, np.zeros(len(x), dtype=int))


@pytest.mark.parametrize(("n_distinct", "expected"), [(60, 20), (100, 20), (150, 30), (5000, 1000), (6000, 1000)])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_fifth_of_the_distinct_records_is_held_out_of_20_to_1000(n_distinct, expected, copies):
    held_out = reference_match.choose_held_out(population(n_distinct, copies), seed=3)
    assert held_out.sum() == expected * copies
    assert (held_out.reshape(n_distinct, copies).all(axis=1) | ~held_out.reshape(n_distinct, copies).any(axis=1)).all()


def test_the_seed_chooses_what_is_held_out():
    first, again, other = (reference_match.choose_held_out(population(100), seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_fewer_than_60_distinct_records_are_too_few():
    with pytest.raises(dv.InputError, match=r"at least 60 distinct .* got 59"):
        reference_match.choose_held_out(population(59, copies=3), seed=0)


def make_audit(**changes):
    fields = {
        "layout": Layout(N, calibration=K),
        "held_out": None,
        "references": object(),
        "inputs": SimpleNamespace(truth=np.array([True, True, False])),
    }
    return SimpleNamespace(**(fields | changes))


def measured(target, models, *, tokens=None, base=None, need=Need.REFERENCES_OUT):
    by_need = {need: models}
    if base is not None:
        by_need[Need.REFERENCES_BASE] = base
    return Measurements(target, Layout(N, calibration=K), models=by_need, tokens=tokens)


def models_of(values, trained_on=None, name="scaled-logit"):
    values = np.asarray(values, dtype=float)
    mask = np.zeros(values.shape, dtype=bool) if trained_on is None else np.asarray(trained_on)
    return Models({name: values}, mask)


RNG = np.random.default_rng(0)
TARGET = RNG.normal(size=N + K)
VALUES = RNG.normal(size=(3, N + K))


def compare(target=TARGET, values=VALUES, trained_on=None, name="scaled-logit", audit=None):
    models = models_of(values, trained_on, name)
    return reference_match._compare_answers(
        audit or make_audit(), measured({name: target}, models), models, Need.REFERENCES_OUT
    )


def test_calibration_records_alone_are_compared_and_losses_are_averaged():
    report = compare()
    assert (report.records, report.models, report.references) == (K, 3, "out")
    assert (report.measure, report.distance) == ("loss", "scaled-logits")
    assert np.isclose(report.target.value, np.log1p(np.exp(-TARGET[N:])).mean())
    assert np.isclose(report.mean.value, np.log1p(np.exp(-VALUES[:, N:])).mean())


def test_a_negative_loss_is_turned_into_a_loss_and_other_signals_stay():
    report = compare(name="negative-loss")
    assert (report.measure, report.distance) == ("loss", "negative-losses")
    assert np.isclose(report.target.value, -TARGET[N:].mean())
    other = compare(name="confidence")
    assert (other.measure, other.distance) == ("confidence", "confidences")
    assert np.isclose(other.target.value, TARGET[N:].mean())
    assert np.isclose(other.mean.value, VALUES[:, N:].mean())


def test_the_preferred_signal_is_compared_where_several_are_read():
    values = {"confidence": VALUES + 9, "negative-loss": VALUES, "scaled-logit": VALUES + 1}
    models = Models(values, np.zeros(VALUES.shape, dtype=bool))
    target = dict.fromkeys(values, TARGET)
    report = reference_match._compare_answers(make_audit(), measured(target, models), models, Need.REFERENCES_OUT)
    assert report.distance == "scaled-logits"


def test_answers_on_records_that_a_model_learned_do_not_count():
    trained_on = np.zeros(VALUES.shape, dtype=bool)
    trained_on[0, N] = trained_on[1, N + 1] = True
    changed = VALUES.copy()
    changed[trained_on] = 50.0
    assert compare(values=changed, trained_on=trained_on).mean == compare(trained_on=trained_on).mean
    kept = np.where(trained_on, np.nan, np.log1p(np.exp(-VALUES)))[:, N:]
    assert np.isclose(compare(trained_on=trained_on).mean.value, np.nanmean(kept, axis=0).mean())


def test_nothing_is_said_where_one_of_the_models_saw_every_calibration_record():
    trained_on = np.zeros(VALUES.shape, dtype=bool)
    trained_on[1] = True
    with pytest.raises(dv.InputError, match="a reference model was trained on every calibration record"):
        compare(trained_on=trained_on)


def test_nothing_is_said_of_fewer_than_two_calibration_records():
    with pytest.raises(dv.InputError, match="at least 2 calibration records are needed, got 1"):
        compare(TARGET[: N + 1], VALUES[:, : N + 1], audit=make_audit(layout=Layout(N, calibration=1)))
    assert compare(TARGET[: N + 2], VALUES[:, : N + 2], audit=make_audit(layout=Layout(N, calibration=2))).records == 2


def test_nothing_is_said_without_a_signal_of_the_target():
    models = models_of(VALUES)
    with pytest.raises(dv.InputError, match="the recipes read no signal of both"):
        reference_match._compare_answers(
            make_audit(), measured({"confidence": TARGET}, models), models, Need.REFERENCES_OUT
        )


@pytest.mark.parametrize("has_base", [False, True])
def test_documents_are_compared_by_the_mean_of_their_tokens_and_by_the_drift_from_the_base(has_base):
    offsets = np.arange(N + K + 1) * 2
    target, rows, base = (-RNG.random(size) for size in (2 * (N + K), (3, 2 * (N + K)), (1, 2 * (N + K))))
    mask = np.zeros((3, N + K), dtype=bool)
    models = Models({}, mask, rows)
    base_models = Models({}, mask[:1], base) if has_base else None
    tokens = TokenLogs(offsets, target)
    report = reference_match._compare_answers(
        make_audit(), measured({}, models, tokens=tokens, base=base_models), models, Need.REFERENCES_OUT
    )
    drift = base[0] if has_base else 0.0
    assert np.isclose(report.target.value, (target - drift)[2 * N :].mean())
    assert np.isclose(report.mean.value, (rows - drift)[:, 2 * N :].mean())
    assert report.distance == "log-likelihoods per token"
    assert report.measure == (
        "drift of the log-likelihood per token from the base" if has_base else "log-likelihood per token"
    )


def far_target():
    return TARGET + 100


def test_the_advice_depends_on_how_the_settings_came_about():
    assert 'give its settings, or match="auto"' in compare(far_target()).text
    matched = compare(far_target(), audit=make_audit(held_out=np.zeros(4, dtype=bool)))
    assert "of the settings that were tried none comes nearer" in matched.text


def test_the_numbers_of_records_are_the_median_of_the_models_and_that_of_the_members():
    trained_on = np.zeros(VALUES.shape, dtype=bool)
    trained_on[0, :N], trained_on[1, :2], trained_on[2, :1] = True, True, True
    assert "(about 2 each, beside the 2 members given)" in compare(far_target(), trained_on=trained_on).text


def make_report(spread, differs):
    value = Estimate(1.0, 0.5, 1.5, 0.95, "exact")
    return ReferenceAgreement("out", 40, 3, "loss", value, value, "scaled-logits", value, spread, differs, "")


def test_each_sentence_on_the_agreement_in_all_readings():
    value = Estimate(2.0, 1.5, 2.5, 0.95, "exact")
    single = reference_match._describe_agreement(make_report(None, None), "numbers", "advice")
    assert single.endswith("One reference model does not show how far two trainings differ by chance.")
    assert "advice" not in single
    alike = reference_match._describe_agreement(make_report(value, False), "numbers", "advice")
    assert alike.endswith("no more than trainings alike differ, as far as 3 reference models show.")
    assert "advice" not in alike
    unlike = reference_match._describe_agreement(make_report(value, True), "numbers", "advice")
    assert unlike.endswith("(numbers), and attacks that compare with them tend to understate a leak; advice.")
    assert all("on 40 calibration records that neither was trained on" in text for text in (single, alike, unlike))


@pytest.mark.parametrize(
    ("references", "changes", "expected"),
    [
        (SimpleNamespace(learning_rate=0.1, epochs=3), {"lr": 0.2}, "lr=0.2, epochs=3"),
        (SimpleNamespace(config=SimpleNamespace(learning_rate=0.1, epochs=3)), {}, "lr=0.1, epochs=3"),
        (SimpleNamespace(learning_rate=0.1), {}, "as given"),
        (SimpleNamespace(epochs=3), {"depth": 4}, "depth=4"),
        (SimpleNamespace(), {"make": make_report}, "make=make_report"),
    ],
)
def test_a_setting_is_described_by_what_it_changes(references, changes, expected):
    assert reference_match._describe_setting(references, changes) == expected


def test_both_kinds_of_references_are_reported_and_warned_of():
    out, both = models_of(VALUES), models_of(VALUES + 0.01)
    measurements = Measurements(
        {"scaled-logit": far_target()},
        Layout(N, calibration=K),
        models={Need.REFERENCES_OUT: out, Need.REFERENCES_IN_AND_OUT: both},
    )
    log = AuditLog()
    reference_match.report_agreement(make_audit(), measurements, log)
    assert [report.references for report in log.agreement] == ["out", "in and out"]
    assert log.warnings == [report.text for report in log.agreement]


def test_too_few_calibration_records_are_warned_of_and_agreement_is_not():
    log = AuditLog()
    models = models_of(VALUES[:, : N + 1])
    measurements = measured({"scaled-logit": TARGET[: N + 1]}, models)
    reference_match.report_agreement(make_audit(layout=Layout(N, calibration=1)), measurements, log)
    assert log.agreement == []
    assert log.uncompared == log.warnings
    assert log.warnings == [
        "references out: how well the reference models answer like the target cannot be said: at least 2 calibration "
        "records are needed, got 1"
    ]
    near = measured({"scaled-logit": VALUES[0]}, models_of(VALUES))
    log = AuditLog()
    reference_match.report_agreement(make_audit(), near, log)
    assert len(log.agreement) == 1
    assert not log.warnings


def test_answers_that_cannot_be_compared_are_reported_with_the_true_reason():
    target = TARGET.copy()
    target[N] = np.inf
    log = AuditLog()
    reference_match.report_agreement(make_audit(), measured({"scaled-logit": target}, models_of(VALUES)), log)
    (message,) = log.warnings
    assert "infin" in message
    assert "too few" not in message
    assert log.uncompared == [message]


def test_substitutes_are_said_to_follow_the_target_where_it_is_right_and_where_it_is_wrong():
    log = AuditLog()
    layout = Layout(2, calibration=6)
    signal = np.array([0.0, 0.0, 0.0, 0.0, -800.0, 0.0, 0.0, -800.0])  # four right, two wrong after the candidates
    probabilities = np.array([[0.5, 0.5, 0.9, 0.6, 0.1, 0.9, 0.2, 0.6], [0.5, 0.5, 0.9, 0.5, 0.1, 0.9, 0.7, 0.5]])
    models = models_of(np.log(probabilities), name="label-loss")
    measurements = Measurements({"label-loss": signal}, layout, models={Need.REFERENCES_SUBSTITUTES: models})
    reference_match.report_agreement(make_audit(layout=layout), measurements, log)
    assert log.agreement == []
    assert not log.warnings
    (message,) = log.uncompared
    # Means over models of the four: .9, .55, .9, .45; of the two: .1, .55. Clopper-Pearson of 3 in 4 and 1 in 2.
    assert "on 6 calibration records" in message
    assert "of the 4 that the target labels rightly, in 0.750 [0.194, 0.994] of them" in message
    assert "of the 2 that the target labels wrongly, in 0.500 [0.013, 0.987] of them" in message
    assert "it is asked for labels alone" in message


def test_of_a_target_without_errors_or_substitutes_without_label_losses_nothing_is_made_up():
    layout = Layout(2, calibration=3)
    right = Measurements(
        {"label-loss": np.zeros(5)}, layout,
        models={Need.REFERENCES_SUBSTITUTES: models_of(np.log(np.full((1, 5), 0.9)), name="label-loss")},
    )  # fmt: skip
    log = AuditLog()
    reference_match.report_agreement(make_audit(layout=layout), right, log)
    assert "rightly, in 1.000 [0.292, 1.000]" in log.uncompared[0]
    assert "wrongly" not in log.uncompared[0]
    log = AuditLog()
    others = measured({"scaled-logit": TARGET}, models_of(VALUES), need=Need.REFERENCES_SUBSTITUTES)
    reference_match.report_agreement(make_audit(), others, log)
    assert "rightly" not in log.uncompared[0]
    assert "it is asked for labels alone" in log.uncompared[0]


def test_what_trained_references_names_the_trial_models_where_nothing_was_left_to_train():
    log = AuditLog(engines=["nothing to train"])
    assert reference_match.describe_engines(log) == "nothing to train"
    log.matched = MatchedReferences("lr=1", 20, "scaled logits", 16, ())
    assert reference_match.describe_engines(log) == (
        "16 trial models of the matching: serial, on one thread; all others from the pool"
    )
    log.engines = ["stacked"]
    assert reference_match.describe_engines(log).endswith("one thread; stacked")
