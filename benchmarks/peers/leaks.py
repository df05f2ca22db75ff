"""LeakPro: run with its own Python. Its attacks train their models themselves; we hand their scoring our arrays."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import torch
import training
import without_cuda  # noqa: F401  before what imports torchvision
import yaml
from leakpro import AbstractInputHandler, LeakPro
from leakpro.attacks.mia_attacks.abstract_mia import AbstractMIA
from leakpro.attacks.mia_attacks.lira import AttackLiRA
from leakpro.attacks.mia_attacks.rmia import AttackRMIA
from leakpro.attacks.utils.shadow_model_handler import ShadowModelHandler
from leakpro.reporting.mia_result import MIAResult
from leakpro.schemas import EvalOutput, TrainingOutput
from protocol import Said, probability, serve

COMMIT = "commit c47752f (2026-06-30)"
AREA = "AUC (no interval)"
RATE = "TPR at FPR 1 % (no interval)"


def _prepared(attack_class, arrays, **how):
    """An attack as it is after its models have answered."""
    attack = object.__new__(attack_class)
    places = {"in_members": np.flatnonzero(arrays.members), "out_members": np.flatnonzero(~arrays.members)}
    settings = attack_class.AttackConfig(num_shadow_models=len(arrays.references), **how)
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
        out_mean = probability(arrays.population_references).mean(axis=0)
        mean = out_mean if attack.online else ((1 + attack.offline_a) * out_mean + 1 - attack.offline_a) / 2
        attack.ratio_z = probability(arrays.population) / (mean + attack.epsilon)
        attack.run_attack()
        return _scores(attack, arrays.members)

    return run


def _state(scores, members):
    """Of scores in the order that it makes itself: members first."""
    order = np.argsort(~members, kind="stable")
    result = MIAResult.from_full_scores(members[order].astype(float), scores[order], "scores", {})
    if result.roc_auc is None:  # one value alone
        return {AREA: Said(np.nan), RATE: Said(np.nan)}
    return {AREA: Said(result.roc_auc), RATE: Said(result.fixed_fpr_table["TPR@1%FPR"])}


class DotGrids(AbstractInputHandler):
    """What it wants of its user: records, and how a network is trained and judged."""

    class UserDataset(AbstractInputHandler.UserDataset):
        """Records with labels, told apart by place."""

        def __init__(self, data, targets, **_):
            self.data, self.targets = data, targets

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, place):
            return self.data[place], self.targets[place]

        def return_params(self):
            """None."""
            return {}

    def train(self, dataloader, model=None, criterion=None, optimizer=None, epochs=None):
        """Our loop; `network.train` makes the same optimizer."""
        return TrainingOutput(model=training.network.train(model, dataloader, epochs), metrics=_metrics(0, 0))

    def eval(self, loader, model, criterion):
        """Accuracy and loss."""
        right, loss, n = 0, 0.0, 0
        with torch.no_grad():
            for x, y in loader:
                logits = model.eval()(x)
                right, loss, n = (
                    right + int((logits.argmax(1) == y).sum()),
                    loss + float(criterion(logits, y)),
                    n + len(y),
                )
        return _metrics(right / n, loss / len(loader))


def _metrics(accuracy, loss):
    return EvalOutput(accuracy=accuracy, loss=loss)


def _handler(job, folder):
    """Its handler of reference models, of a target that nobody has trained."""
    target, everyone = training.network.Net(), np.arange(len(job.y))
    members, nonmember_rows = everyone[job.trained_on[0]].tolist(), everyone[~job.trained_on[0]].tolist()
    torch.save(target.state_dict(), folder / "target_model.pkl")
    about = LeakPro.make_mia_metadata(
        TrainingOutput(model=target, metrics=_metrics(0, 0)),
        training.network.optimizer(target),
        torch.nn.CrossEntropyLoss(),
        job.loader(job.trained_on[0]),
        _metrics(0, 0),
        training.EPOCHS,
        members,
        nonmember_rows,
        "Fashion-MNIST",
    )
    (folder / "model_metadata.pkl").write_bytes(pickle.dumps(about))
    population = DotGrids.UserDataset(torch.from_numpy(job.x), torch.from_numpy(job.y))
    (folder / "population.pkl").write_bytes(pickle.dumps(population))
    settings = {
        "target": {
            "module_path": training.network.__file__,
            "model_class": "Net",
            "target_folder": str(folder),
            "data_path": str(folder / "population.pkl"),
        },
        "audit": {
            "attack_type": "mia",
            "attack_list": [{"attack": "lira"}],
            "data_modality": "tabular",
            "output_dir": str(folder / "out"),
        },
    }
    (folder / "audit.yaml").write_text(yaml.safe_dump(settings))
    return ShadowModelHandler(LeakPro(DotGrids, str(folder / "audit.yaml")).handler)


def _train(path, rounds):
    """`create_shadow_models`: trained, judged on the other half, kept on disk, asked about all records."""

    def train_models(job):
        with tempfile.TemporaryDirectory() as folder:
            handler = _handler(job, Path(folder))
            shadow_models = handler.create_shadow_models(len(job.trained_on), np.arange(len(job.y)), 0.5)
            return [model.model_obj for model in handler.get_shadow_models(shadow_models)[0]]

    return training.in_turns({"LeakPro": train_models}, path, rounds)


ATTACKS = {
    "LiRA offline": _lira(),
    "LiRA online": _lira(online=True),
    "LiRA offline, one variance": _lira(var_calculation="fixed"),
    "LiRA online, one variance": _lira(online=True, var_calculation="fixed"),
    "RMIA offline": _rmia(),
    "RMIA online": _rmia(online=True),
}

if __name__ == "__main__":
    serve(COMMIT, ATTACKS, _state, train=_train)
