"""Divulge, asked like the others; run with its own Python, with ``src`` and ``tests`` in PYTHONPATH."""

from __future__ import annotations

import network
import numpy as np
import training
from protocol import Said, probability, serve

from divulge import InputError, Records
from divulge.attacks import RMIA, LiRA
from divulge.evaluation import auc, epsilon_lower_bound, epsilon_one_run, tpr_at_fpr
from divulge.evidence import Evidence
from divulge.references import Train
from score_audits import scored


def _lira(**how):
    def attack(arrays):
        return LiRA(**how).score(Evidence(arrays.target, arrays.references, arrays.trained_on))

    return attack


def _rmia(**how):
    def attack(arrays):
        evidence = Evidence(
            probability(arrays.target),
            probability(arrays.references),
            arrays.trained_on,
            population=probability(arrays.population),
            population_references=probability(arrays.population_references),
        )
        return RMIA(**how).score(evidence)

    return attack


def _area(scores, members):
    area = auc(scores, members)
    return {"AUC, interval": Said.area(area.value, area.low, area.high)}


def _state(scores, members):
    answer = scored({"r": scores}, members, fpr=(0.1,)).verdict.answer
    return _area(scores, members) | {
        "TPR at FPR 1 %, lower end": _low(lambda: tpr_at_fpr(scores, members, 0.01), 0.01),
        "ε, many runs": _low(lambda: epsilon_lower_bound(scores, members, 1e-5), 0),
        "ε, one run": _low(lambda: epsilon_one_run(scores, members, 1e-5), 0),
        "verdict of an audit (value: “too little data to say”)": Said(answer.startswith("too"), answer == "leak found"),
    }


def _low(bound, truth):
    """Its lower end; none where it refuses, for too few records or members that no fair coin has drawn."""
    try:
        low = bound().low
    except InputError:
        return Said(np.nan, alarm=False)
    return Said(low, low > truth)


def _train(path, rounds):
    def make_trainer(engine, make=network.Net):
        def train(job):
            trainer = Train(
                make,
                len(job.trained_on),
                epochs=training.EPOCHS,
                batch_size=training.BATCH,
                lr=network.RATE,
                momentum=network.MOMENTUM,
                engine=engine,
                workers=2,
                device="cpu",
            )
            result = trainer.fit(
                Records(job.x, job.y), job.trained_on, seed=0, observe=[Records(job.x, job.y), job.test_x]
            )
            return float((np.asarray(result.outputs[1]).argmax(2) == job.test_y).mean())

        return train

    names = {"serial": "serial", "auto": "auto (the default)", "processes": "two processes"}
    trainers = {name: make_trainer(engine) for engine, name in names.items()}
    trainers["auto, the network as nn.Sequential"] = make_trainer("auto", network.in_sequence)
    return training.in_turns(trainers, path, rounds)


ATTACKS = {
    "LiRA offline": _lira(mode="offline", variance="per_record"),
    "LiRA offline, one variance": _lira(mode="offline", variance="global"),
    "LiRA online": _lira(mode="online", variance="per_record"),
    "LiRA online, one variance": _lira(mode="online", variance="global"),
    "RMIA offline": _rmia(),
    "RMIA online": _rmia(offline_a=None),
}


if __name__ == "__main__":
    np.seterr(over="ignore")
    serve("divulge", ATTACKS, _state, briefly=_area, train=_train)
