"""Valid calls of what works on arrays: types, attacks, decisions, evaluation."""

import dataclasses

import numpy as np

import divulge as dv
import score_audits
from divulge.decisions.counts import Counts
from divulge.types import TokenLogs
from fuzz.table import call


def _share(x):
    return 1 / (1 + np.exp(-x))


RNG = np.random.default_rng(0)
MEMBERS = np.arange(60) % 2 == 0
SCORES = RNG.normal(size=60) + MEMBERS
CALIBRATION = RNG.normal(size=120)
X, Y = RNG.normal(size=(60, 3)), np.arange(60) % 3
REFERENCES = RNG.normal(size=(6, 60))
INSIDE = np.arange(6)[:, None] % 2 == np.arange(60)[None] % 2
EVIDENCE = dv.Evidence(
    target=SCORES,
    references=REFERENCES,
    trained_on=INSIDE,
    population=CALIBRATION,
    population_references=RNG.normal(size=(6, 120)),
    features=X,
    population_features=RNG.normal(size=(120, 3)),
    labels=Y,
    population_labels=np.arange(120) % 3,
    population_trained_on=np.zeros((6, 120), bool),
)
OFFLINE = dv.Evidence(
    target=_share(SCORES),
    references=_share(REFERENCES),
    population=_share(CALIBRATION),
    features=X,
    labels=Y,
    population_references=_share(EVIDENCE.population_references),
    population_features=EVIDENCE.population_features,
    population_labels=EVIDENCE.population_labels,
)
QUERIED = dataclasses.replace(OFFLINE, queries=(OFFLINE,))
LOSSES = dv.Evidence(-np.abs(SCORES), -np.abs(REFERENCES))
POINTS = RNG.normal(size=(200, 2))
RECORDS = dv.Records(X, Y, np.arange(60))
COUNTS = Counts.empty(CALIBRATION).add(SCORES)
STRATA = dv.decisions.strata.Strata(np.arange(60) // 30, np.arange(120) // 60)
ESTIMATE = dv.Estimate(0.5, 0.4, 0.6, 0.95, "a method")
CONTROL = dv.decisions.controls.Control("exchangeability", 0.3, 0.05, "40 against 50 scores")


def scored(attack, evidence=EVIDENCE):
    return attack.score(evidence)


def decided(method):
    return dv.identify(SCORES, CALIBRATION, fdr=0.2, method=method).selected


def chosen(method):
    return dv.decisions.fdr.select(SCORES, CALIBRATION, fdr=0.2, method=method).selected


TOKENS = dv.Evidence(
    target=SCORES[:6],
    tokens=TokenLogs(np.arange(7) * 4, -1.0 - SCORES[:24] ** 2, -1.0 - REFERENCES[:2, :24] ** 2, np.arange(24) % 3 > 0),
)

TYPES = {
    "from_pairs": call(dataset=[([0.0, 1.0], 0), ([1.0, 0.0], 1)], use=lambda made: made.y),
    "by_person": call(texts=["a b", "c", "d"], people=["x", "x", "y"], free=("people",), use=lambda made: made.ids),
    "from_messages": call(
        messages=[[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]],
        ids=["x"],
        use=lambda made: made.ids,
    ),
    "from_prompts": call(prompts=["a", "b"], answers=["c", "d"], ids=["x", "y"], use=lambda made: made.ids),
    "Claim": call(epsilon=8.0, delta=1e-5),
    "evaluation.GaussianMechanism": call(),
    "evaluation.SubsampledGaussian": call(rate=0.1, steps=5),
    "Evidence": call(
        target=SCORES[:6],
        references=REFERENCES[:, :6],
        trained_on=INSIDE[:, :6],
        population=CALIBRATION[:5],
        population_references=REFERENCES[:, :5],
        features=X[:6],
        population_features=X[:5],
        labels=Y[:6],
        population_labels=Y[:5],
        population_trained_on=INSIDE[:, :5],
        tokens=TOKENS.tokens,
        population_tokens=None,
        queries=None,
    ),
    "PartialRecords": call(x=X[:4], y=Y[:4], known=np.array([True, False, True])),
    "Records": call(x=X[:4], y=Y[:4], ids=np.arange(4), free=("ids", "y"), use=lambda made: (repr(made), made[:2])),
    "access.DropClasses": call(classes=(1,), use=lambda made: made.apply(RECORDS).y),
    "access.DropShare": call(share=0.5, use=lambda made: made.apply(RECORDS).y),
    "access.KeepPerClass": call(count=2, classes=(1,), use=lambda made: made.apply(RECORDS).y),
    "access.DropGroups": call(
        groups=("a",), says=("DropGroups",), use=lambda made: made.apply(RECORDS, ["a", "b"] * 30).y
    ),
}

ATTACKS = {
    "attacks.Auto": call(
        options=(dv.attacks.auto.Option("lira", "scaled logit", dv.attacks.LiRA()),), most=100, seed=0, use=scored
    ),
    "attacks.AutoOnline": call(
        options=(dv.attacks.auto.Option("lira-online", "scaled logit", dv.attacks.LiRA("online")),), use=scored
    ),
    "attacks.auto.Option": call(name="loss", unit="log-probability", attack=dv.attacks.Threshold(), use=repr),
    "attacks.OnErrors": call(
        inner=dv.attacks.Threshold(),
        unit="probability",
        likelihood="cauchy",
        use=lambda made: scored(made, dv.Evidence(target=-np.abs(SCORES), population=-np.abs(SCORES))),
    ),
    "attacks.Averaged": call(inner=dv.attacks.LiRA(), use=lambda made: scored(made, QUERIED)),
    "attacks.MajorityRMIA": call(inner=dv.attacks.RMIA(), use=lambda made: scored(made, QUERIED)),
    "attacks.BASE": call(mode="offline", scale=0.33, use=lambda made: scored(made, LOSSES)),
    "attacks.BaVarIA": call(mode="offline", use=scored),
    "attacks.RMIA": call(gamma=1.0, offline_a=0.3, ranking="tie-free", use=lambda made: scored(made, OFFLINE)),
    "attacks.Calibrated": call(over="out", use=scored),
    "attacks.Consensus": call(
        attacks=(dv.attacks.Threshold(), dv.attacks.Calibrated()), names=("loss", "calibrated"), reason="", use=scored
    ),
    "attacks.Combined": call(attacks=(dv.attacks.Threshold(), dv.attacks.Calibrated()), use=scored),
    "attacks.EZ": call(smoothed=True, use=lambda made: scored(made, TOKENS)),
    "attacks.Learned": call(mode="online", most=2000, seed=0, few=False, beside=False, use=scored),
    "attacks.LiRA": call(mode="offline", variance="global", use=scored),
    "attacks.QuantileRegression": call(
        regressor=dv.attacks.regressors.Marginal(), conformal=True, calibration=0.5, output="z", seed=0, use=scored
    ),
    "attacks.Residual": call(inner=dv.attacks.Calibrated(), components=2, folds=2, seed=0, use=scored),
    "attacks.SequenceLiRA": call(use=lambda made: scored(made, TOKENS)),
    "attacks.Substitute": call(use=lambda made: scored(made, LOSSES)),
    "attacks.Threshold": call(use=scored),
    "attacks.WBC": call(lengths=(2, 3), use=lambda made: scored(made, TOKENS)),
    "attacks.Transductive": call(folds=2, seed=0, use=scored),
    "attacks.at_risk": call(losses=REFERENCES, low=0.25, high=0.75),
    "attacks.adapt": call(attack=dv.attacks.Threshold(), use=scored),
    "attacks.lira.leave_one_out": call(
        signals=REFERENCES[:, :5], trained_on=INSIDE[:, :5], mode="offline", variance="global"
    ),
    "attacks.regressors.Marginal": call(use=lambda made: made.fit(X, SCORES).predict(X)),
    "attacks.regressors.PerClass": call(least=10, use=lambda made: made.fit(X, SCORES, Y).predict(X, Y)),
    "attacks.regressors.Booster": call(rounds=5, rate=0.1, leaves=15, least_in_leaf=20, patience=20, use=repr),
    "attacks.regressors.Boosted": call(
        booster=dv.attacks.regressors.Booster(rounds=5),
        folds=3,
        least=30,
        use=lambda made: made.fit(X, SCORES, Y, 0).predict(X, Y),
    ),
    "attacks.seeded": call(attack=dv.attacks.Learned(), seed=1, use=repr),
}

DECISIONS = {
    "decisions.pooled_scores.adadetect_scores": call(candidates=X[:10], calibration=X[10:50], seed=0),
    "decisions.fdr.benjamini_hochberg": call(p_values=np.linspace(0.001, 1, 60), level=0.2),
    "decisions.fpr.p_values": call(calibration=CALIBRATION, scores=SCORES),
    "decisions.pooled_scores.adjust_for_blind_score": call(
        scores=SCORES,
        calibration=CALIBRATION,
        baseline=SCORES[::-1].copy(),
        calibration_baseline=CALIBRATION[::-1].copy(),
    ),
    "decisions.controls.blind_score": call(calibration_baseline=CALIBRATION, baseline=SCORES, level=0.05, seed=0),
    "decisions.controls.exchangeability": call(calibration=CALIBRATION, holdout=SCORES, level=0.05, seed=0),
    "decisions.controls.low_end": call(calibration=CALIBRATION, holdout=SCORES, level=0.05),
    "decisions.controls.strongest": call(evidence=[CONTROL, CONTROL]),
    "decisions.controls.clean_model": call(calibration=CALIBRATION, candidates=SCORES, level=0.05, seed=0),
    "decisions.controls.low_scores": call(calibration=CALIBRATION, candidates=SCORES, level=0.05),
    "decisions.controls.low_scores_from_counts": call(counts=COUNTS, level=0.05),
    "decisions.controls.blind_text": call(
        cal_texts=[f"the king of {i}" for i in range(20)],
        cand_texts=[f"a tweet of {i}" for i in range(20)],
        level=0.05,
        seed=0,
    ),
    "decisions.fdr.select_at_boundary": call(
        candidates=SCORES[:20], calibration=CALIBRATION, fdr=0.3, seed=0, use=lambda made: made.selected
    ),
    "decisions.fdp.envelope": call(calibration=CALIBRATION, candidates=SCORES, confidence=0.9, seed=0, use=np.asarray),
    "decisions.fdp.choices": call(counts=COUNTS, method="storey", confidence=0.9, seed=0),
    "decisions.fdp.envelope_from_counts": call(counts=COUNTS, confidence=0.9, seed=0, use=np.asarray),
    "decisions.fdr.threshold": call(candidates=SCORES, calibration=CALIBRATION, fdr=0.2, method="storey"),
    "decisions.fdr.select": call(candidates=SCORES, calibration=CALIBRATION, fdr=0.2, method="storey"),
    "decisions.AdaDetect": call(),
    "decisions.Adaptive": call(use=decided),
    "decisions.Auto": call(adaptive=dv.decisions.Adaptive(), storey=dv.decisions.Storey(), use=decided),
    "decisions.BH": call(use=decided),
    "decisions.Moments": call(members=SCORES, eta=0.5, use=chosen),
    "decisions.PTDI": call(eta=0.05, use=decided),
    "decisions.Storey": call(lam=0.5, use=decided),
    "decisions.fdr.min_selected": call(n=199, m=1000, fdr=0.05),
    "decisions.fdr.required_calibration": call(m=1000, fdr=0.05, expected_selected=100),
    "decisions.fpr.threshold": call(calibration=CALIBRATION, fpr=0.05, guarantee="marginal", confidence=0.95),
    "decisions.fpr.required_calibration": call(fpr=0.01, guarantee="marginal", confidence=0.95),
    "decisions.fpr.training_conditional_rank": call(n=299, fpr=0.01, confidence=0.95),
    "decisions.fpr.realised_interval": call(n=99, fpr=0.01, confidence=0.95),
    "decisions.fpr.decide": call(
        calibration=CALIBRATION, scores=SCORES, fpr=0.05, guarantee="marginal", confidence=0.95
    ),
    "decisions.fdr.combine_p_values": call(
        p_values=np.linspace(0.1, 1, 60), groups=np.arange(60) // 6, free=("groups",)
    ),
    "decisions.fdr.select_groups": call(
        candidates=SCORES,
        groups=np.arange(60) // 6,
        calibration=CALIBRATION,
        calibration_groups=np.arange(120) // 3,
        fdr=0.2,
        method="storey",
        free=("groups", "calibration_groups"),
        use=lambda made: made.selection.selected,
    ),
    "decisions.planning.Setting": call(candidates=20, members=10, auc=0.95),
    "decisions.planning.mean_power": call(shares=[0.0, 0.5, 1.0]),
    "decisions.planning.power": call(
        n=50, setting=dv.decisions.planning.Setting(20, 10, 0.95), fdr=0.2, method="storey", seed=0
    ),
    "decisions.planning.calibration": call(
        setting=dv.decisions.planning.Setting(20, 10, 0.95),
        wanted=0.5,
        fdr=0.2,
        method="storey",
        max_calibration=60,
        seed=0,
    ),
    "decisions.fdr.Sensitivity": call(gammas=np.array([2.0, 0.0]), fdr=0.1, use=lambda made: made.up_to()),
    "decisions.fdr.sensitivity": call(candidates=SCORES, calibration=CALIBRATION, fdr=0.2, method="storey", use=str),
    "decisions.fdr.sensitivity_by_rank": call(counts=COUNTS, fdr=0.2, method="storey"),
    "decisions.strata.Strata": call(
        candidates=np.arange(60) // 30, calibration=np.arange(120) // 60, holdout=np.arange(60) // 30, free=("holdout",)
    ),
    "decisions.strata.stratified_p_values": call(candidates=SCORES, calibration=CALIBRATION, strata=STRATA),
    "decisions.strata.select_within_strata": call(
        candidates=SCORES, calibration=CALIBRATION, strata=STRATA, fdr=0.2, use=lambda made: made.selected
    ),
    "decisions.unseen_classes.threshold": call(
        calibration=CALIBRATION,
        classes=np.arange(120) // 6,
        fpr=0.3,
        promise="average",
        share=0.9,
        free=("classes",),
        use=float,
    ),
    "decisions.unseen_classes.required_classes": call(fpr=0.3, promise="most", share=0.9),
    "decisions.unseen_classes.p_values": call(
        calibration=CALIBRATION, classes=np.arange(120) // 6, scores=SCORES, free=("classes",)
    ),
    "decisions.unseen_classes.decide": call(
        calibration=CALIBRATION,
        classes=np.arange(120) // 6,
        scores=SCORES,
        fpr=0.3,
        promise="average",
        share=0.9,
        free=("classes",),
        use=lambda made: made.selected,
    ),
    "decisions.unseen_classes.leave_one_class_out": call(
        calibration=CALIBRATION,
        classes=np.arange(120) // 6,
        fpr=0.3,
        share=0.9,
        free=("classes",),
        use=lambda made: made.pooled,
    ),
    "identify": call(
        candidates=SCORES,
        calibration=CALIBRATION,
        fdr=0.2,
        method="auto",
        eta=0.05,
        lam=0.5,
        holdout=CALIBRATION[:50] + 0.01,
        candidate_texts=None,
        calibration_texts=None,
        members=None,
        truth=MEMBERS,
        seed=0,
    ),
}

SMALL = {"scores": SCORES, "members": MEMBERS, "confidence": 0.95}
EVALUATION = {
    "evaluation.against_baseline": call(
        scores=SCORES,
        baseline=SCORES[::-1].copy(),
        members=MEMBERS,
        fpr=(0.1,),
        confidence=0.95,
        seed=0,
        use=lambda found: found.text,
    ),
    "evaluation.advantage": call(**SMALL),
    "evaluation.erasure_test": call(
        after=SCORES,
        controls=np.stack([SCORES[::-1], SCORES + 0.5]),
        forgotten=MEMBERS,
        before=SCORES + 1.0,
        at_random=False,
        margin=0.05,
        confidence=0.95,
        use=lambda found: found.reason,
    ),
    "evaluation.auc": call(**SMALL),
    "evaluation.blind.baseline": call(
        x_members=X[:30],
        x_nonmembers=X[30:],
        seed=0,
        y_members=Y[:30],
        y_nonmembers=Y[30:],
        false_alarm=0.1,
        permutations=9,
        confidence=0.95,
        max_records=100,
        long=("permutations",),
    ),
    "evaluation.blind.duplicates": call(x_members=X[:30], x_nonmembers=X[20:]),
    "evaluation.text_differences": call(
        texts=["a king"] * 9,
        other_texts=["a tweet"] * 9,
        names=("old", "new"),
        false_alarm=0.01,
        max_differences=3,
        seed=0,
        free=("names",),
    ),
    "evaluation.near_duplicates": call(
        members=["a b c d e f", "x"], nonmembers=["a b c d e", "y"], population=["z"], words=5, share=0.5
    ),
    "evaluation.canaries_needed": call(claimed=1.0, true=8.0, delta=1e-5, power=0.8, confidence=0.95, sides="both"),
    "evaluation.smallest_violation": call(
        canaries=64, claimed=1.0, delta=1e-5, power=0.8, confidence=0.95, sides="both"
    ),
    "evaluation.epsilon_fixed_count": call(**SMALL, delta=1e-5, family="gaussian", seed=0),
    "evaluation.epsilon_lower_bound": call(**SMALL, delta=1e-5, strategy="bonferroni", seed=0),
    "evaluation.surest_records": call(**SMALL),
    "evaluation.epsilon_one_run": call(**SMALL, delta=1e-5, guesses=40),
    "evaluation.one_run_bound": call(
        canaries=100, guesses=40, wrong=3, delta=1e-5, confidence=0.95, family="gaussian", bound="tight", sides="both"
    ),
    "evaluation.proportion": call(successes=5, trials=10, confidence=0.95),
    "evaluation.min_nonmembers": call(fpr=0.01),
    "evaluation.measure": call(**SMALL, statistic="tpr@fpr=0.1"),
    "evaluation.exposed_members": call(**SMALL),
    "evaluation.smallest_exposed": call(n_members=100, n_nonmembers=100, confidence=0.95, power=0.8),
    "evaluation.most_exposed": call(**SMALL, ids=np.arange(60), k=3, free=("ids",)),
    "evaluation.nonmembers_to_tell": call(fpr=0.01, confidence=0.95),
    "evaluation.paired_difference": call(
        scores_a=SCORES, scores_b=SCORES[::-1], members=MEMBERS, statistic="auc", confidence=0.95
    ),
    "evaluation.rate_difference": call(successes=5, trials=10, other_successes=1, other_trials=12, confidence=0.95),
    "evaluation.paired_rate_difference": call(first=SCORES > 0, second=SCORES > 0.5, confidence=0.95),
    "evaluation.rates": call(selected=SCORES > 0, members=MEMBERS, confidence=0.95),
    "evaluation.records_to_see": call(auc=0.6, confidence=0.95, power=0.8),
    "evaluation.roc": call(**SMALL),
    "evaluation.smallest_detectable": call(n_members=200, n_nonmembers=200, fpr=0.01, confidence=0.95, power=0.8),
    "evaluation.subgroups": call(**SMALL, groups=np.arange(60) // 30, fpr=0.1, simultaneous=False, free=("groups",)),
    "evaluation.tpr_at_fpr": call(**SMALL, fpr=0.1),
    "evaluation.tnr_at_fnr": call(**SMALL, fnr=0.1),
    "evaluation.transfer.measure_linearity": call(seen=POINTS, query=POINTS[:60] + 0.1, seed=0),
    "evaluation.transfer.multiaccuracy": call(embedding=POINTS, selected=POINTS[:, 0] > 0.5, level=0.3),
    "evaluation.transfer.assess": call(
        seen=POINTS, query=POINTS[:60] + 0.1, selected=POINTS[:, 0] > 0.5, level=0.3, seed=0
    ),
}

IDS = [f"r{row}" for row in range(60)]
TABLES = [{"id": IDS, "score": row} for row in (SCORES + 1.0, SCORES, SCORES[::-1], SCORES + 0.5)]
ERASURE = {
    "forget": call(
        before=TABLES[0],
        after=TABLES[1],
        forget=IDS[:20],
        never=IDS[20:50],
        retrained=TABLES[2:],
        other=IDS[50:],
        margin=0.05,
        confidence=0.95,
        fdr=0.05,
        at_random=False,
        seed=0,
        use=lambda found: found.verdict.text,
    ),
}

GATES = {
    "gate": call(
        run=score_audits.scored({"loss": SCORES}, np.arange(60) < 30, fpr=(0.2,)),
        policy=["auc:0.9"],
        confidence=0.95,
        use=lambda rulings: [ruling.state for ruling in rulings],
    ),
}

CALLS = GATES | TYPES | ATTACKS | DECISIONS | EVALUATION | ERASURE
