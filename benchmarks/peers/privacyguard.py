"""PrivacyGuard (privacyguard-platform): run with its own Python."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
import training
import without_cuda  # noqa: F401  before what imports torchvision
from privacy_guard.analysis.mia.aggregate_analysis_input import AggregateAnalysisInput, AggregationType
from privacy_guard.analysis.mia.analysis_node import AnalysisNode
from privacy_guard.attacks.lira_attack import LiraAttack
from privacy_guard.attacks.rmia_attack import RmiaAttack
from privacy_guard.shadow_model_training import prepare_lira_data, train_model
from protocol import Said, probability, serve

NONE = AggregationType.NONE
DELTA = 1e-5


def _frames(columns, members):
    """Its two tables, members' and others', with the place of each record."""
    table = pd.DataFrame(columns | {"user_id": np.arange(len(members))})
    return table[members].copy(), table[~members].copy()


def _scores(result, n):
    """Scores by record; NaN for those that it drops."""
    scores = np.full(n, np.nan)
    for table in (result.df_train_merge, result.df_test_merge):
        scores[table["user_id"]] = table["score"]
    return scores


def _lira(online, **how):
    """Means and deviations by its own `prepare_lira_data`, which takes 0 and 1e-8 where a record has none."""

    def attack(arrays):
        pairs = [(None, row) for row in arrays.trained_on]
        prepared = prepare_lira_data(
            arrays.target[:, None], arrays.references[:, :, None], (None, arrays.members), pairs
        )
        tables = prepared[:2] if online else prepared[2:]
        for table, side in zip(tables, (arrays.members, ~arrays.members), strict=True):
            table["user_id"] = np.flatnonzero(side)
        result = LiraAttack(*tables, row_aggregation=NONE, online_attack=online, **how).run_attack()
        return _scores(result, len(arrays.members))

    return attack


def _columns(target, references, trained_on):
    columns = {"score_orig": probability(target)}
    columns |= {f"score_ref_{i}": row for i, row in enumerate(probability(references))}
    return columns | {f"member_ref_{i}": row for i, row in enumerate(trained_on)}


def _rmia(**how):
    """By itself it takes the largest half of a record's values; more models than there are: all of them."""

    def attack(arrays):
        tables = _frames(_columns(arrays.target, arrays.references, arrays.trained_on), arrays.members)
        none = np.zeros(arrays.population_references.shape, bool)
        population = pd.DataFrame(_columns(arrays.population, arrays.population_references, none))
        result = RmiaAttack(*tables, population, row_aggregation=NONE, **how).run_attack()
        return _scores(result, len(arrays.members))

    return attack


def _analysed(scores, members, resamples):
    """Its analysis; by itself it takes 1,000 resamples."""
    analysis_input = AggregateAnalysisInput(NONE, *_frames({"score": scores}, members), user_id_key="user_id")
    np.random.seed(0)  # noqa: NPY002  it draws from the global generator
    node = AnalysisNode(analysis_input, DELTA, n_users_for_eval=len(scores), num_bootstrap_resampling_times=resamples)
    result = node.run_analysis()
    return result, {"`auc` with `auc_ci`": Said.area(result.auc, *result.auc_ci)}


def _state(scores, members):
    analysis, area = _analysed(scores, members, 200)
    lows = {
        "`eps_lb` (lower end at TPR 1 %)": analysis.eps_lb,
        "`eps_max_lb`, largest of its 100": np.nanmax(analysis.eps_max_lb),
        "`eps_cp`": analysis.eps_cp,
    }
    statements = {name: Said(low, low > 0) for name, low in lows.items()}
    return area | {"`eps` (upper end at TPR 1 %)": Said(analysis.eps)} | statements


def _area(scores, members):
    return _analysed(scores, members, 100)[1]


def _train(path, rounds):
    """Its `train_model`, which asks for test records and goes through them after every epoch: the other half."""

    def train_models(job):
        models = []
        for rows in job.trained_on:
            loaders = job.loader(rows), job.loader(~rows, shuffle=False)
            models.append(train_model(training.network.Net(), *loaders, training.EPOCHS, torch.device("cpu")))
            models[-1](torch.from_numpy(job.x))
        return models

    return training.in_turns({"PrivacyGuard": train_models}, path, rounds)


ATTACKS = {
    "LiRA offline": _lira(online=False),
    "LiRA offline, one variance": _lira(online=False, std_dev_type="shadows_out"),
    "LiRA online": _lira(online=True),
    "LiRA online, one variance": _lira(online=True, use_fixed_variance=True, std_dev_type="mix"),
    "RMIA offline": _rmia(),
    "RMIA online": _rmia(online=True, num_reference_models=10**6),
    "RMIA online, as it comes": _rmia(online=True),
}

if __name__ == "__main__":
    serve("privacyguard-platform", ATTACKS, _state, briefly=_area, train=_train)
