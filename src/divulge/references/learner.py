"""`Train` at work: how one network is named, trained, questioned and brought back from the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import nn

from divulge import errors, networks, seeds, store
from divulge.errors import InputError
from divulge.references import keys, loop, models, private, stacked, trial
from divulge.references.jobs import Inner, Job, Task, Tick, TrainedModel, said
from divulge.references.label_sets import label_set
from divulge.targets.modules import TorchTarget, resolve
from divulge.types import Array, Floats, Ints, Records

if TYPE_CHECKING:
    from divulge.references.hyperparameters import Hyperparameters
    from divulge.references.progress import Progress


@dataclass(frozen=True, slots=True)
class Networks:
    """Networks trained as ``config`` says, on ``device``."""

    config: Hyperparameters
    device: str

    @property
    def timed_by_doing(self) -> bool:
        """A few batches tell."""
        return False

    def settings(self) -> dict[str, str]:
        """The configuration, field by field."""
        values = {f.name: getattr(self.config, f.name) for f in fields(self.config)}
        return {name: getattr(value, "__qualname__", repr(value)) for name, value in values.items()}

    def width(self, records: Records, classes: int | None) -> int:
        """Of the whole label set."""
        return label_set(records, classes)

    def check(self, task: Task) -> None:
        """Ask an untrained network about two records, and look for the device.

        Raises:
            divulge.InputError: the network does not fit the records or the label set; no such device.
        """
        resolve(self.device)
        dtype = models.precision(self.config.precision)
        module = models.build(self.config.make_model, 0).to(dtype=dtype)
        models.check_outputs(module, task.records.x, task.classes, torch.device("cpu"), dtype)

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Digest of architecture, first weights, data, subset, settings, seed and torch's version."""
        config = self.config
        structure = keys.architecture(models.build(config.make_model, seed))
        settings = keys.settings(config)
        versions = keys.ARITHMETIC, torch.__version__
        return store.hash_values(versions, structure, task.data, rows, settings, seed, task.classes)[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """The plain loop over data that stays on the device."""
        data = self.data(task)

        def learn(job: Job, tick: Tick) -> TrainedModel:
            return self.learned(train(self.config, data, job.rows, job.seed, tick))

        return learn

    def trial(self, task: Task, jobs: Sequence[Job], *, alone: bool) -> tuple[Inner, float, str]:
        """The faster arithmetic for these jobs, its seconds, and why."""
        if alone and stacked.by_hand(self.config):
            return trial.BY_HAND

        def compute() -> tuple[Inner, float, str]:
            return trial.measure(self.config, self.data(task), jobs, train)

        return trial.remembered(task, self.config, self.device, compute)

    def data(self, task: Task) -> models.Data:
        """All records of a run on the device."""
        return load(self.config, task.records, self.device)

    def learned(self, module: nn.Module) -> TrainedModel:
        """A trained network as engines hand it on."""
        where, dtype = resolve(self.device), models.precision(self.config.precision)
        module.to(where)
        form: models.MemoryFormat | None = None

        def predict(records: Records) -> Floats:
            nonlocal form
            if form is None:
                form = models.best_layout(module, models.tensor(records.x, module, where, dtype))
                models.lay_out(module, form)
            return models.logits(module, records.x, where, dtype, form)

        return TrainedModel(lambda _: models.arrays(module), predict, TorchTarget(module, device=self.device))

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Stacked weights, one batched step for all of them.

        Raises:
            divulge.InputError: networks that cannot be stacked, with the reason.
        """
        data = self.data(task)
        if reason := stacked.refusal(self.config, data):
            raise InputError(f"engine: 'stacked' cannot train this network ({reason}); use 'serial' or 'processes'")
        for job, module in stacked.train(self.config, data, jobs, watch):
            yield job, None if module is None else self.learned(module)

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """Outputs of a stored network."""
        module = models.build(self.config.make_model, job.seed).to(dtype=models.precision(self.config.precision))
        return said(task, self.learned(models.load(module, arrays)))


def train(config: Hyperparameters, data: models.Data, rows: Ints, seed: int, tick: Tick | None = None) -> nn.Module:
    """One network by itself: the plain loop, or DP-SGD where privacy is asked for.

    Raises:
        DivergedError: NaN or infinity in the weights.
    """
    return (loop if config.privacy is None else private).train(config, data, rows, seed, tick)


def load(config: Hyperparameters, records: Records, device: str) -> models.Data:
    """Records on the device a configuration names, as its network wants them."""
    where = resolve(device)
    module = models.build(config.make_model, 0)
    assert records.y is not None
    x = models.tensor(records.x, module, where, models.precision(config.precision))
    return models.Data(x, models.labels(records.y, where))


def one(how: Networks, records: Records, seed: int, classes: int, progress: Progress | None) -> nn.Module:
    """A single network trained on all ``records``; back on the CPU, in evaluation mode."""
    config = how.config
    dtype = models.precision(config.precision)
    probe = models.build(config.make_model, 0).to(dtype=dtype)
    models.check_outputs(probe, records.x, classes, torch.device("cpu"), dtype)
    data = load(config, records, how.device)
    rows = torch.arange(len(records)).numpy()

    def tick(share: float) -> None:
        if progress is not None:
            with errors.user_code_errors("progress"):
                progress(share, 1, "target")

    try:
        with networks.single_thread():
            module = train(config, data, rows, seeds.derive_seed(seed, "target"), tick)
    except loop.DivergedError:
        raise InputError(
            f"lr: the loss became NaN or infinite at {config.learning_rate:g}; lower it or scale the records"
        ) from None
    return module.to("cpu").eval()
