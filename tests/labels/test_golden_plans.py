"""How many queries each kind of oracle needs, and how far apart its answers are proven to lie, today.

A plan that asks more, or proves less, has lost something; one that asks less may be better, and is looked at before its
numbers are written here. That plans are right is tested elsewhere.
"""

import numpy as np
import pytest

from divulge import labels

PLANS = [
    ({"n": 60}, "auto", 2, 1.12e-09),
    ({"n": 60, "noise": 0.0001}, "auto", 5, 0.00101),
    ({"n": 60, "decimals": 4}, "auto", 4, 0.000134),
    ({"n": 60, "clip": 0.001, "noise": 0.001}, "auto", 8, 0.0048),
    ({"n": 60, "float_dtype": "float32"}, "auto", 4, 8.22e-05),
    ({"n": 60, "float_dtype": "float32", "noise": 0.001}, "auto", 6, 0.00383),
    ({"n": 60, "reduction": "sum", "noise": 0.05}, "auto", 6, 0.233),
    ({"n": 60, "summation": "sequential", "float_dtype": "float32"}, "auto", 4, 3.88e-06),
    ({"n": 60, "submission": "positive"}, "auto", 3, 1.25e-06),
    ({"n": 60, "submission": "positive", "noise": 0.0001}, "auto", 5, 0.000611),
    ({"n": 60, "classes": 3}, "auto", 2, 4.04e-15),
    ({"n": 60, "classes": 3, "noise": 0.001}, "auto", 10, 0.00246),
    ({"n": 60, "classes": 10, "noise": 0.001}, "auto", 22, 0.00267),
    ({"n": 60, "class_weight": (0.5, 2.0), "noise": 0.0001}, "auto", 6, 0.000253),
    ({"n": 60, "scored": "unknown", "noise": 1e-05}, "auto", 18, 4.07e-05),
    ({"n": 60, "scored": 30, "noise": 1e-05}, "auto", 12, 6.1e-05),
    ({"n": 60, "scored": "unknown", "noise": 1e-05, "metric": "mae"}, "auto", 24, 4.57e-05),
    ({"n": 60, "metric": "mae", "noise": 0.001}, "auto", 11, 0.00238),
    ({"n": 60, "metric": "mse"}, "auto", 2, 6.25e-17),
    ({"n": 60, "metric": "mse", "noise": 0.001}, "auto", 3, 0.0022),
    ({"n": 60, "metric": "rmse", "noise": 0.0001}, "auto", 6, 0.00833),
    ({"n": 60, "metric": "mse", "float_dtype": "float32"}, "auto", 4, 1.38e-06),
    ({"n": 60, "metric": "squared_euclidean", "noise": 0.001}, "auto", 11, 0.00238),
    ({"n": 60, "metric": "squared_euclidean", "classes": 3, "noise": 0.001}, "auto", 19, 0.00222),
    ({"n": 60, "metric": "itakura_saito"}, "auto", 2, 1.53e-08),
    ({"n": 60, "metric": "itakura_saito", "noise": 0.001}, "auto", 2, 0.257),
    ({"n": 60, "metric": labels.norm_like(3), "noise": 0.001}, "auto", 8, 0.00208),
    ({"n": 60, "metric": "softmax_cross_entropy"}, "auto", 2, 4200000000000000.0),
    ({"n": 60, "metric": "softmax_cross_entropy", "classes": 3}, "auto", 2, 1.17e17),
    ({"n": 60, "metric": "sigmoid_cross_entropy"}, "auto", 2, 4200000000000000.0),
    ({"n": 60, "metric": "accuracy"}, "auto", 27, 0.0167),
    ({"n": 60, "metric": "f1"}, "auto", 27, 0.00833),
    ({"n": 60, "metric": "auc"}, "auto", 12, 0.000139),
    ({"n": 20, "metric": "auc", "noise": 0.0001}, "auto", 6, 0.00125),
    ({"n": 60, "metric": "accuracy", "decimals": 3}, "auto", 27, 0.0167),
    ({"n": 40, "noise": 0.01, "noise_kind": "gaussian"}, "auto", 8, 0.15),
    ({"n": 40, "noise": 0.001, "noise_kind": "laplace"}, "auto", 6, 0.041),
    ({"n": 40, "noise": 0.2, "clip": 0.01, "noise_kind": "gaussian"}, "auto", 147, 0.0),
    ({"n": 40, "metric": "rmse"}, "auto", 1, 1.01e-11),
    ({"n": 500, "metric": "softmax_cross_entropy"}, "auto", 10, 1.15e15),
    ({"n": 500, "metric": "softmax_cross_entropy", "classes": 3}, "auto", 16, 1.11e17),
    ({"n": 500, "metric": "softmax_cross_entropy", "float_dtype": "float32"}, "auto", 22, 3.22e06),
    ({"n": 500, "metric": "itakura_saito"}, "auto", 11, 5.14e-15),
    ({"n": 500, "noise": 1e-05}, "auto", 33, 3.27e-05),
    ({"n": 500}, "auto", 11, 1.48e-15),
    ({"n": 30, "noise": 0.0001}, "theorem3", 5, 0.00022),
    ({"n": 30, "noise": 0.0001}, "theorem14", 3, 0.00022),
    ({"n": 30, "classes": 3, "noise": 1e-05}, "theorem3", 6, 2.2e-05),
    ({"n": 12}, "primes", 1, 7.67e-07),
    ({"n": 12}, "exhaustive", 1, 0.00147),
    ({"n": 12, "classes": 3, "noise": 0.0001}, "exhaustive", 2, 0.00206),
    ({"n": 60, "noise": 0.001}, "positional", 7, 0.00235),
    ({"n": 60, "noise": 0.001}, "weighing", 6, 0.00235),
    ({"n": 60, "noise": 0.001}, "dense", 6, 0.00388),
    ({"n": 12, "metric": "squared_euclidean"}, "primes", 1, 5.73e-07),
    ({"n": 12, "metric": "itakura_saito"}, "exhaustive", 1, 0.00163),
    ({"n": 30, "float_dtype": "float32"}, "theorem3", 3, 9.46e-07),
]


@pytest.mark.parametrize(("oracle", "method", "count", "separation"), PLANS)
def test_plans_ask_and_prove_what_they_did(oracle, method, count, separation):
    plan = labels.design(labels.OracleSpec(**oracle), method)
    assert plan.count == count
    assert plan.certificate.separation == pytest.approx(separation, rel=0.01)


@pytest.mark.parametrize(
    ("n", "queries"), [(2, 2), (3, 2), (4, 2), (7, 3), (8, 3), (9, 4), (17, 5), (31, 8), (39, 9), (60, 12)]
)
def test_ranks_ask_so_many_queries(n, queries):
    assert labels.design(labels.OracleSpec("auc", n=n)).count == queries


# A sum over all numbers of all queries, each with a weight of its own.
QUERIES = [
    ({"n": 30, "noise": 0.001}, "auto", 0.716133831),
    ({"n": 30, "noise": 0.001}, "positional", -0.00968516462),
    ({"n": 30, "noise": 0.001}, "weighing", 0.103388428),
    ({"n": 30, "noise": 0.001, "decimals": 4}, "dense", 0.716133831),
    ({"n": 30, "submission": "positive", "decimals": 5}, "auto", 0.473970979),
    ({"n": 30, "submission": "positive", "clip": None, "noise": 0.001}, "auto", -0.186064969),
    ({"n": 30, "classes": 3, "noise": 0.001}, "auto", 0.32777225),
    ({"n": 30, "classes": 6, "decimals": 5}, "auto", 4.19530734),
    ({"n": 30, "class_weight": (1.0, 3.0), "noise": 0.0001}, "auto", -0.199291646),
    ({"n": 30, "reduction": "sum", "noise": 0.01}, "auto", 0.716133831),
    ({"n": 30, "metric": "mse", "noise": 0.001}, "auto", -11.860134),
    ({"n": 30, "metric": "mae", "noise": 0.001}, "auto", 0.53480556),
    ({"n": 30, "metric": "squared_euclidean", "noise": 0.001}, "auto", 0.587563567),
    ({"n": 30, "metric": "squared_euclidean", "classes": 4, "noise": 0.0001}, "auto", 1.15551188),
    ({"n": 30, "metric": "softmax_cross_entropy", "classes": 3}, "auto", -59.2733856),
    ({"n": 30, "metric": "sigmoid_cross_entropy", "float_dtype": "float32"}, "auto", 22.3506278),
    ({"n": 30, "metric": "itakura_saito", "noise": 0.001}, "auto", 0.465992417),
    ({"n": 30, "metric": labels.norm_like(3), "noise": 0.001}, "auto", 1.59889668),
    ({"n": 30, "metric": "accuracy"}, "auto", -8.17980583),
    ({"n": 30, "metric": "f1"}, "auto", -8.17980583),
    ({"n": 30, "metric": "auc"}, "auto", 1.29973939),
    ({"n": 30, "metric": "map_at_k", "classes": 3}, "auto", -13.6224228),
    ({"n": 30, "metric": "mcc"}, "auto", -6.54897374),
    ({"n": 12, "metric": "quadratic_weighted_kappa", "classes": 4}, "auto", -2.56334995),
    ({"n": 12, "metric": "r2", "decimals": 6}, "auto", 0.647834802),
    ({"n": 30, "scored": 10, "noise": 0.001}, "auto", -0.701545778),
    ({"n": 30, "scored": "unknown", "noise": 0.0001, "submission": "positive"}, "auto", -1.20586788),
    ({"n": 30, "scored": 10, "metric": "mse", "noise": 0.001}, "auto", -16.071544),
    ({"n": 30, "noise": 0.4, "noise_kind": "gaussian", "clip": 0.001}, "auto", -4.03320863),
    ({"n": 30, "noise": 0.001, "noise_kind": "laplace"}, "auto", 1.93165215),
    ({"n": 12, "noise": 0.001}, "theorem3", -0.0257685347),
    ({"n": 12, "noise": 0.001}, "theorem14", -0.171728935),
    ({"n": 12}, "primes", -0.282095029),
    ({"n": 12, "metric": "mae"}, "primes", -0.0621686999),
    ({"n": 12, "metric": "itakura_saito", "noise": 0.001}, "corollary2", -0.114659922),
    ({"n": 12, "noise": 0.0001}, "exhaustive", -0.127801539),
    ({"n": 12, "metric": "softmax_cross_entropy", "noise": 0.0001}, "exhaustive", 2.12664868),
]


@pytest.mark.parametrize(("oracle", "method", "fingerprint"), QUERIES)
def test_plans_ask_the_very_queries_they_did_on_which_answers_in_journals_rest(oracle, method, fingerprint):
    plan = labels.design(labels.OracleSpec(**oracle), method)
    values = np.concatenate([np.ravel(query) for query in plan.queries]).astype(float)
    scaled = np.sign(values) * np.log1p(np.abs(values))
    assert float(scaled @ np.cos(np.arange(len(scaled)))) == pytest.approx(fingerprint, abs=1e-6)
