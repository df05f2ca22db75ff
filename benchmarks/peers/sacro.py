"""SACRO-ML (sacroml): run with its own Python. Its LiRA trains its models itself; we hand its scoring our arrays."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import training
from protocol import Said, probability, serve
from sacroml import metrics
from sacroml.attacks import utils
from sacroml.attacks.likelihood_attack import LIRAAttack
from sacroml.attacks.model_pytorch import PytorchModel


def _lira(mode, **how):
    def attack(arrays):
        with tempfile.TemporaryDirectory() as folder:
            lira = LIRAAttack(output_dir=folder, mode=mode, write_report=False, **how)
            chance = probability(arrays.target)
            sides = [
                {i: arrays.references[side[:, i], i].tolist() for i in range(len(chance))}
                for side in (~arrays.trained_on, arrays.trained_on)
            ]
            ones = np.ones(len(chance), int)
            scores, _ = lira._compute_scores(ones, np.stack([1 - chance, chance], 1), *sides)
            return np.array(scores)[:, 1]

    return attack


def _state(scores, members):
    """In the order that it makes itself: members first."""
    order = np.argsort(~members, kind="stable")
    result = metrics.get_metrics(np.stack([-scores, scores], 1)[order], members[order].astype(int))
    return {
        "AUC, “significant at p=0.05”": Said(result["AUC"], result["P_HIGHER_AUC"] <= 0.05),
        "FDIF01, “significant at p=0.05”": Said(result["FDIF01"], np.exp(-result["PDIF01"]) <= 0.05),
        "TPR@0.1% (no interval)": Said(float(result["TPR@0.1%"])),
    }


def _train(path, rounds):
    """Its shadow models with our loop, which it wants of its user; trained, kept on disk, read back and asked."""

    def train_models(job):
        network = training.network
        model = PytorchModel(
            network.Net(),
            model_module_path="network.py",  # it takes a relative path alone
            model_name="Net",
            model_params={},
            train_module_path="network",
            train_params={"epochs": training.EPOCHS},
            batch_size=training.BATCH,
        )
        count, members = len(job.trained_on), int(job.trained_on[0].sum())
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(Path(network.__file__).parent):
            utils.train_shadow_models(model, job.x, job.y, members, count, folder)
            lira = LIRAAttack(output_dir=folder, write_report=False, n_shadow_models=count)
            lira.shadow_path = folder
            lira._get_shadow_signals(job.x, job.y)
            return [utils.get_shadow_model(folder, i)[0].model for i in range(count)]

    return training.in_turns({"SACRO-ML": train_models}, path, rounds)


ATTACKS = {
    "LiRA offline": _lira("offline"),
    "LiRA offline, one variance": _lira("offline", fix_variance=True),
    "LiRA online": _lira("online-carlini"),
    "LiRA online, one variance": _lira("online-carlini", fix_variance=True),
}

if __name__ == "__main__":
    serve("sacroml", ATTACKS, _state, train=_train)
