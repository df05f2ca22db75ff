"""Valid calls of what infers labels, and of what reads weights."""

import numpy as np
import torch

import divulge as dv
from divulge import labels, margin
from fuzz.table import call

SPEC = labels.OracleSpec(n=6, decimals=6)
PLAN = labels.design(SPEC)
TRUTH = np.array([0, 1, 1, 0, 0, 1])
ORACLE = labels.LocalOracle(SPEC, TRUTH)
ANSWERS = np.array([ORACLE(query) for query in (*PLAN.queries, *PLAN.controls)])
NET = margin.ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
DEEP = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(3)))
POINTS = np.array([[-2.0], [0.5], [2.001]])
SIDES = np.array([-1, 1, 1])
COHORTS = {name: (np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2.0) for name in ("a", "b")}


def agreement(y, predictions):
    """A metric of somebody's own."""
    return float(np.mean(np.asarray(y) == np.asarray(predictions)))


def settled(spec):
    """Everything that a specification decides."""
    return spec.tolerance, labels.capacity(spec).queries


LABELS = {
    "labels.HttpOracle": call(
        url="http://127.0.0.1:1/",
        submission=labels.Submission(),
        headers={},
        key="score",
        retries=1,
        pause=0.5,
        patience=1.0,
        timeout=1.0,
        sleep=len,
        free=("sleep",),
    ),
    "labels.Ladder": call(oracle=lambda p: float(np.mean(p)), step=0.1, best=1.0, use=lambda made: made(np.ones(2))),
    "labels.Linear": call(
        loss=lambda t, y: np.maximum(0, 1 - (2 * y - 1) * t),
        low=-1.0,
        high=1.0,
        name="hinge",
        use=lambda made: labels.OracleSpec(metric=made, n=4).loss().span,
    ),
    "labels.LocalOracle": call(
        spec=SPEC,
        y=TRUTH,
        seed=0,
        pattern="edge",
        scored=np.arange(6) < 6,
        arithmetic="numpy",
        use=lambda made: made(PLAN.controls[0]),
    ),
    "labels.OracleSpec": call(
        metric="log_loss",
        n=6,
        classes=2,
        clip=1e-15,
        decimals=6,
        noise=0.0,
        float_dtype="float64",
        reduction="mean",
        class_weight=None,
        submission="rows",
        noise_kind="bounded",
        summation="pairwise",
        scored="all",
        use=settled,
    ),
    "labels.ScikitLearn": call(spec=labels.OracleSpec(n=6), y=TRUTH, use=lambda made: made(np.full((6, 2), 0.5))),
    "labels.Submission": call(
        ids=("a", "b"),
        columns=("id", "p"),
        separator=",",
        free=("ids", "columns"),
        use=lambda made: made.text(np.array([0.25, 0.5])),
    ),
    "labels.capacity": call(spec=SPEC),
    "labels.Evaluated": call(function=agreement, depends_on="counts", low=0.0, high=1.0, name="share", use=repr),
    "labels.KnownRange": call(low=0.0, high=1.0, name="score", use=repr),
    "labels.distinct_answers": call(low=0.0, high=1.0, decimals=3),
    "labels.information_bound": call(n=10, low=0.0, high=1.0, decimals=3, classes=2),
    "labels.menu": call(spec=SPEC, days=3, per_day=2, public=0.5, decimals=3, step=None, seed=0, use=len),
    "labels.certify": call(spec=labels.OracleSpec(n=2, noise=0.01), predictions=np.array([[0.5, 0.5], [0.9, 0.1]])),
    "labels.defend": call(spec=SPEC, queries=100, accuracy=0.7),
    "labels.design": call(
        spec=SPEC, method="auto", guard=False, rigorous=True, block=None, queries=None, use=lambda made: made.count
    ),
    "labels.infer": call(oracle=ORACLE, plan=PLAN, journal=None, progress=None, control=True, free=("progress",)),
    "labels.mahalanobis": call(matrix=np.array([[2.0, 0.0], [0.0, 2.0]]), use=repr),
    "labels.norm_like": call(alpha=3.0, use=repr),
    "labels.read": call(plan=PLAN, answers=ANSWERS, free=("answers",)),
    "labels.simulate": call(spec=SPEC, y=TRUTH, plan=PLAN, oracle=None, seed=0, scored=None),
}

MARGIN = {
    "margin.Gaussian": call(dimension=5, mean=1.0, use=lambda made: margin.assumption(made, 3)),
    "margin.Mixture": call(means=np.zeros((2, 5)), use=lambda made: (margin.assumption(made, 3), made.sample(3, 0))),
    "margin.Sphere": call(dimension=5, use=lambda made: (margin.assumption(made, 3), made.sample(3, 0))),
    "margin.ShallowReLU": call(
        w=np.array([[1.0], [-1.0]]), b=np.zeros(2), v=np.array([1.0, -1.0]), use=lambda made: made(POINTS)
    ),
    "margin.assumption": call(source=margin.Sphere(50), n=5, tau=0.05),
    "margin.bounded_margin": call(net=NET, x=POINTS, c=1.0, geometry=None),
    "margin.Publication": call(
        coefficients=np.array([0.5, -0.25]),
        intercept=0.1,
        family="logistic",
        decimals=2,
        penalty=1.0,
        scaled=False,
        penalises_intercept=False,
        units=0.5,
        gradient=1e-4,
        use=lambda made: (made.theta, made.rounding, margin.cohorts(made, COHORTS)),
        says=("data",),
    ),
    "examine_cohorts": call(
        published=margin.Publication([0.5, -0.25], 0.1, decimals=2),
        data=COHORTS,
        columns=("age", "prior"),
        model="paper",
        show_records=True,
        out=None,
        overwrite=False,
        use=lambda made: made.summary().verdict,
    ),
    "margin.cohorts": call(published=margin.Publication([0.5, -0.25], 0.1, decimals=2), data=COHORTS),
    "margin.descend": call(
        x=np.eye(2), y=np.array([1, -1]), width=5, steps=20, learning_rate=0.5, seed=0, long=("steps",)
    ),
    "margin.explain": call(net=NET, pool=POINTS, y=SIDES, tolerance=1e-6),
    "margin.kkt": call(net=NET, x=POINTS, y=SIDES, clarke=True, tolerance=1e-6, band=0.1),
    "margin.known_margin": call(net=NET, x=POINTS, m=2.0, band=0.01, geometry=None),
    "margin.leaked_point": call(net=NET, z=np.array([[2.0], [0.5]]), x=POINTS, band=0.01, geometry=None),
    "margin.least_margin": call(loss=0.1, n=7),
    "margin.multipliers": call(net=NET, pool=POINTS, y=SIDES, tolerance=1e-6),
    "margin.orthogonality": call(x=1e3 * np.eye(3), fresh=np.ones((1, 3)), net=margin.LinearHead(1e-3 * np.eye(3))),
    "margin.solve": call(
        x=np.array([[-1.0], [1.0]]), y=np.array([-1, 1]), tolerance=1e-6, max_rounds=20, seed=0, long=("max_rounds",)
    ),
    "margin.train": call(
        x=np.eye(2),
        y=np.array([1, -1]),
        width=10,
        target_margin=2.0,
        seed=0,
        max_steps=500,
        initial_scale=None,
        implicit=None,
        reduced=True,
        long=("max_steps",),
    ),
    "reconstruction.univariate": call(
        net=margin.solve([[-1.0], [0.5], [2.0]], [-1, 1, 1]).net, margin=1.0, algorithm="both"
    ),
    "signals.margin.margin_abs": call(net=NET, x=POINTS, y=SIDES),
    "signals.margin.margin_band": call(net=NET, x=POINTS, y=SIDES, margin=2.0),
    "signals.margin.kkt_nnls": call(net=NET, x=POINTS, y=SIDES, says=("pool",)),
    "signals.margin.labels_to_signs": call(y=SIDES, length=3),
    "signals.margin.densest_value": call(values=np.r_[np.linspace(0.1, 9.0, 50), np.full(8, 4.0)]),
    "signals.margin.MarginAbs": call(use=lambda made: made.measure(NET, dv.Records(POINTS, [0, 1, 1]))),
    "signals.margin.MarginBand": call(margin=2.0, use=lambda made: made.measure(NET, dv.Records(POINTS, [0, 1, 1]))),
    "signals.margin.KKTMultipliers": call(use=lambda made: made.measure(NET, dv.Records(POINTS, [0, 1, 1]))),
    "signals.margin.trained_network": call(target=NET, use=lambda made: repr(made[0])),
    "signals.margin.as_network_labels": call(net=NET, y=SIDES, length=3),
    "margin.ShallowClassifier": call(
        w=[[1.0], [-1.0]], b=[0.0, 0.0], v=[[1.0, 0.0], [0.0, 1.0]], use=lambda made: made.margins(POINTS, [0, 1, 1])
    ),
    "margin.LinearHead": call(w=np.eye(2), b=[0.0, 0.0], use=lambda made: made.margins(np.eye(2), [0, 1])),
    "signals.margin.deep_multipliers": call(module=DEEP, x=POINTS, y=SIDES),
    "signals.margin.homogeneity_degree": call(module=DEEP, x=POINTS, tolerance=0.01),
    "signals.margin.DeepMultipliers": call(use=lambda made: made.measure(DEEP, dv.Records(POINTS, [0, 1, 1]))),
}

CALLS = LABELS | MARGIN
