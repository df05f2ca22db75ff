"""LeakPro: run with its own Python. Its attacks train their models themselves; we hand their scoring our arrays."""

from __future__ import annotations

import numpy as np
from leakpro.attacks.mia_attacks.abstract_mia import AbstractMIA
from leakpro.attacks.mia_attacks.lira import AttackLiRA
from leakpro.attacks.mia_attacks.rmia import AttackRMIA
from leakpro.reporting.mia_result import MIAResult
from protocol import Said, probability, serve

COMMIT = "commit c47752f (2026-06-30)"


def _prepared(kind, arrays, **how):
    """An attack as it is after its models have answered."""
    attack = object.__new__(kind)
    places = {"in_members": np.flatnonzero(arrays.members), "out_members": np.flatnonzero(~arrays.members)}
    settings = kind.AttackConfig(num_shadow_models=len(arrays.references), **how)
    AbstractMIA.audit_dataset = places  # it keeps them on the class
    for name, value in (settings.model_dump() | {"out_indices": ~arrays.trained_on, "configs": settings}).items():
        setattr(attack, name, value)
    return attack


def _scores(attack, members):
    scores = np.empty(len(members))
    scores[members], scores[~members] = attack.in_member_signals[:, 0], attack.out_member_signals[:, 0]
    return scores


def _lira(**how):
    def run(arrays):
        attack = _prepared(AttackLiRA, arrays, **how)
        attack.fix_var_threshold, attack.target_logits = 32, arrays.target
        attack.shadow_models_logits = arrays.references
        attack.run_attack()
        return _scores(attack, arrays.members)

    return run


def _rmia(**how):
    def run(arrays):
        attack = _prepared(AttackRMIA, arrays, gamma=1.0, temperature=1.0, offline_a=0.3, **how)
        attack.epsilon, n = 1e-6, len(arrays.target)
        attack.ground_truth_indices = np.ones(n, int)
        attack.logits_theta = np.stack([np.zeros(n), arrays.target], 1)
        attack.logits_shadow_models = [np.stack([np.zeros(n), row], 1) for row in arrays.references]
        others = probability(arrays.population_references).mean(axis=0)
        mean = others if attack.online else ((1 + attack.offline_a) * others + 1 - attack.offline_a) / 2
        attack.ratio_z = probability(arrays.population) / (mean + attack.epsilon)
        attack.run_attack()
        return _scores(attack, arrays.members)

    return run


def _said(scores, members):
    """Of scores in the order that it makes itself: members first."""
    order = np.argsort(~members, kind="stable")
    done = MIAResult.from_full_scores(members[order].astype(float), scores[order], "scores", {})
    return {"AUC (no interval)": Said(np.nan if done.roc_auc is None else done.roc_auc)}


ATTACKS = {
    "LiRA offline": _lira(),
    "LiRA online": _lira(online=True),
    "RMIA offline": _rmia(),
    "RMIA online": _rmia(online=True),
}

if __name__ == "__main__":
    serve(COMMIT, ATTACKS, _said)
