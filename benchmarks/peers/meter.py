"""ML Privacy Meter: run with a Python that has its needs, and its source tree in PYTHONPATH."""

from __future__ import annotations

import logging
import tempfile

import numpy as np
import torch
import training
import without_cuda  # noqa: F401  before what imports torchvision
from dataset import TabularDataset
from models import utils
from modules.mia.attacks.rmia import run_rmia
from protocol import Said, probability, serve

from audit import compute_abstain_attack_results, compute_attack_results

COMMIT = "commit e384af8 (2025-04-26)"


def _rmia(arrays):
    return run_rmia(
        probability(arrays.target),
        np.ascontiguousarray(probability(arrays.references).T),
        np.ascontiguousarray(arrays.trained_on.T),
        probability(arrays.population),
        np.ascontiguousarray(probability(arrays.population_references).T),
        0.3,
    )


def _rates(scores, members):
    result = compute_attack_results(scores, members)
    return {"AUC (no interval)": Said(result["auc"]), "TPR at FPR 1 % (no interval)": Said(result["one_fpr"])}


def _state(scores, members):
    bound = compute_abstain_attack_results(scores, members.astype(int))["eps_opt"]
    return _rates(scores, members) | {
        "ε, one run, best of all numbers of guesses": Said(bound, bound > 1e-3),
    }


def _train(path, rounds):
    """`train_models`: its own loop and schedule, four processes a data loader, the other half after every epoch."""
    utils.INPUT_OUTPUT_SHAPE["fashion"] = [784, 10]
    train_settings = {"model_name": "mlp", "device": "cpu", "batch_size": training.BATCH, "epochs": training.EPOCHS}
    rate = 10 * training.network.RATE  # of which its schedule takes a tenth
    train_settings |= {"optimizer": "SGD", "learning_rate": rate, "weight_decay": 0}
    settings = {"train": train_settings | {"momentum": training.network.MOMENTUM}, "data": {"dataset": "fashion"}}

    def train_models(job):
        splits = [{"train": np.flatnonzero(row), "test": np.flatnonzero(~row)} for row in job.trained_on]
        data = TabularDataset(job.x, job.y)
        with tempfile.TemporaryDirectory() as folder:
            models = utils.train_models(folder, data, splits, job.trained_on, settings, logging.getLogger("meter"))
        for model in models:
            model(torch.from_numpy(job.x))
        return models

    return training.in_turns({"ML Privacy Meter": train_models}, path, rounds)


if __name__ == "__main__":
    serve(COMMIT, {"RMIA offline": _rmia}, _state, briefly=_rates, train=_train)
