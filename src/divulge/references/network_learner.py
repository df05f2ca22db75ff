"""Training of networks: the learner behind `divulge.references.Train`, and the trial that chooses its engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import nn

from divulge import errors, networks, seeds, store
from divulge.errors import InputError
from divulge.references import network_training, pool, private, stacked
from divulge.references.jobs import (
    Execute,
    Job,
    LocalEngine,
    Task,
    Tick,
    TrainedModel,
    Visit,
    count_classes,
    query_model,
)
from divulge.targets.torch_modules import TorchTarget, has_device, resolve_device
from divulge.types import Array, Floats, Ints, Records

if TYPE_CHECKING:
    from divulge.references.hyperparameters import Hyperparameters
    from divulge.references.progress import Progress


@dataclass(frozen=True, slots=True)
class NetworkLearner:
    """The learner behind `Train`: networks trained by ``config`` on ``device``."""

    config: Hyperparameters
    device: str

    @property
    def timed_by_doing(self) -> bool:
        """False: a few batches tell the time."""
        return False

    def settings(self) -> dict[str, str]:
        """Return the settings by name."""
        values = {f.name: getattr(self.config, f.name) for f in fields(self.config)}
        return {name: getattr(value, "__qualname__", repr(value)) for name, value in values.items()}

    def width(self, records: Records, classes: int | None) -> int:
        """Return the size of the whole label set."""
        return count_classes(records, classes)

    def check(self, task: Task) -> None:
        """Ask an untrained network about two records.

        Raises:
            divulge.InputError: the network does not fit the records or the label set.
        """
        dtype = network_training.weights_dtype(self.config.precision)
        module = network_training.build_network(self.config.make_model, 0).to(dtype=dtype)
        network_training.check_outputs(module, task.records.x, task.classes, torch.device("cpu"), dtype)

    def check_device(self) -> None:
        """Look for the device.

        Raises:
            divulge.InputError: this machine does not have it.
        """
        resolve_device(self.device)

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Return a digest of architecture, first weights, data, subset, settings, seed and torch's version."""
        config = self.config
        structure = pool.digest_architecture(network_training.build_network(config.make_model, seed))
        settings = pool.list_settings(config)
        versions = pool.ARITHMETIC_VERSION, torch.__version__
        return store.hash_values(versions, structure, task.data, rows, settings, seed, task.classes)[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Return a function that trains one network on data that stay on the device."""
        data = self.data(task)

        def learn(job: Job, tick: Tick) -> TrainedModel:
            return self.learned(train_network(self.config, data, job.rows, job.seed, tick))

        return learn

    def trace(self, task: Task, job: Job, visit: Visit) -> TrainedModel | None:
        """Train one network, show it after each epoch, and return the last state that was to be kept."""
        kept_weights: dict[str, torch.Tensor] = {}
        data = self.data(task)

        def after_epoch(epoch: int, module: nn.Module) -> bool:
            with torch.random.fork_rng(devices=[]):  # what is asked of a network must not move its training
                keep, stop = visit(epoch, self.learned(module))
            if keep:
                kept_weights.update({name: value.detach().clone() for name, value in module.state_dict().items()})
            return stop

        try:
            if self.config.privacy is not None:  # its noise is for the whole of the training
                module = private.train_privately(self.config, data, job.rows, job.seed)
                after_epoch(self.config.stop_after or self.config.epochs, module)
            elif stacked.has_explicit_backward(self.config):
                stacked.train_stack(self.config, data, [job], _ignore_progress, after_epoch)
            else:
                network_training.train_by_sgd(self.config, data, job.rows, job.seed, after_epoch=after_epoch)
        except network_training.DivergedError:
            pass  # what was kept before is whole
        if not kept_weights:
            return None
        module = network_training.build_network(self.config.make_model, job.seed)
        module.to(dtype=network_training.weights_dtype(self.config.precision))
        module.load_state_dict(kept_weights)
        return self.learned(module)

    def trial(
        self, task: Task, jobs: Sequence[Job], *, untimed: bool, execute: Execute | None = None
    ) -> tuple[LocalEngine, float, str]:
        """Return the faster engine for these jobs, its seconds, and the reason."""
        if untimed and stacked.has_explicit_backward(self.config):
            return EXPLICIT_BACKWARD
        compute = partial(run_trial, task, jobs) if execute is None else partial(execute, run_trial, task, jobs)
        return load_or_measure(task, self.config, self.device, compute)

    def data(self, task: Task) -> network_training.TrainingData:
        """Load all records of a run onto the device."""
        return load_data(self.config, task.records, self.device)

    def learned(self, module: nn.Module) -> TrainedModel:
        """Wrap a trained network as engines return it."""
        device, dtype = resolve_device(self.device), network_training.weights_dtype(self.config.precision)
        module.to(device)
        layout: network_training.MemoryFormat | None = None

        def predict(records: Records) -> Floats:
            nonlocal layout
            if layout is None:
                layout = network_training.choose_layout(
                    module, network_training.to_tensor(records.x[:2], module, device, dtype)
                )
                network_training.set_layout(module, layout)
            return network_training.predict_logits(module, records.x, device, dtype, layout)

        return TrainedModel(
            lambda _: network_training.state_arrays(module), predict, TorchTarget(module, device=self.device)
        )

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Train several networks at once, with stacked weights and one batched step for all.

        Raises:
            divulge.InputError: networks that cannot be stacked, with the reason.
        """
        data = self.data(task)
        if reason := stacked.unstackable_reason(self.config, data):
            raise InputError(f"engine: 'stacked' cannot train this network ({reason}); use 'serial' or 'processes'")
        for job, module in stacked.train_stacks(self.config, data, jobs, watch):
            yield job, None if module is None else self.learned(module)

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """Return the outputs of a stored network, on the CPU where other machines alone have its device."""
        module = network_training.build_network(self.config.make_model, job.seed).to(
            dtype=network_training.weights_dtype(self.config.precision)
        )
        learner = self if has_device(self.device) else replace(self, device="cpu")
        return query_model(task, learner.learned(network_training.load_state(module, arrays)))


def run_trial(task: Task, jobs: Sequence[Job]) -> tuple[LocalEngine, float, str]:
    """Measure which engine is faster for a task of `NetworkLearner`, where this is called."""
    assert isinstance(task.learner, NetworkLearner)
    return measure_trial(task.learner.config, task.learner.data(task), jobs, train_network)


def train_network(
    config: Hyperparameters, data: network_training.TrainingData, rows: Ints, seed: int, tick: Tick | None = None
) -> nn.Module:
    """Train one network by itself: the plain loop, or DP-SGD if privacy is requested.

    Raises:
        DivergedError: NaN or infinity in the weights.
    """
    return (network_training.train_by_sgd if config.privacy is None else private.train_privately)(
        config, data, rows, seed, tick
    )


def load_data(config: Hyperparameters, records: Records, device: str) -> network_training.TrainingData:
    """Load records onto the device, in the type that the network takes."""
    place = resolve_device(device)
    module = network_training.build_network(config.make_model, 0)
    assert records.y is not None
    x = network_training.to_tensor(records.x, module, place, network_training.weights_dtype(config.precision))
    return network_training.TrainingData(x, network_training.label_tensor(records.y, place))


def train_single(
    learner: NetworkLearner, records: Records, seed: int, classes: int, progress: Progress | None
) -> nn.Module:
    """Train a single network on all ``records``; it returns on the CPU, in evaluation mode."""
    config = learner.config
    dtype = network_training.weights_dtype(config.precision)
    probe = network_training.build_network(config.make_model, 0).to(dtype=dtype)
    network_training.check_outputs(probe, records.x, classes, torch.device("cpu"), dtype)
    data = load_data(config, records, learner.device)
    rows = torch.arange(len(records)).numpy()

    def tick(share: float) -> None:
        if progress is not None:
            with errors.user_code_errors("progress"):
                progress(share, 1, "target")

    try:
        with networks.single_thread():
            module = train_network(config, data, rows, seeds.derive_seed(seed, "target"), tick)
    except network_training.DivergedError:
        raise InputError(
            f"lr: the loss became NaN or infinite at {config.learning_rate:g}; lower it or scale the records"
        ) from None
    return module.to("cpu").eval()


TrainSingle: TypeAlias = "Callable[[Hyperparameters, network_training.TrainingData, Ints, int], object]"
"""Trains one network by itself."""

TRIAL_BATCHES = 3
"""Batches a model in the trial; one before them warms up."""

EXPLICIT_BACKWARD: tuple[LocalEngine, float, str] = ("stacked", 0.0, " (written-out backward)")
"""The outcome for an MLP where nothing was measured."""


def measure_trial(
    config: Hyperparameters, data: network_training.TrainingData, jobs: Sequence[Job], train_single_network: TrainSingle
) -> tuple[LocalEngine, float, str]:
    """Return the faster engine, the seconds that all jobs take with it in one process, and the reason.

    An MLP is always stacked: written out by hand it wins everywhere, and the same seed then gives the same bits.
    Other networks are stacked when a trial says so; with too little work for a trial, or two engines so close
    that it could fall either way, the plain loop is taken. The seconds are 0 where nothing was measured.
    """
    n_epochs = config.stop_after or config.epochs
    steps = sum(n_epochs * networks.steps_per_epoch(len(job.rows), config.batch_size) for job in jobs)
    first_jobs = jobs[: stacked.stack_width(config, len(jobs), data.x.device)]
    short_jobs = [replace(job, rows=jobs[0].rows[: TRIAL_BATCHES * config.batch_size]) for job in first_jobs]
    brief_config = replace(config, epochs=1, stop_at_accuracy=None, stop_after=None)

    def train_stack(timed_jobs: Sequence[Job]) -> object:
        return stacked.train_stack(brief_config, data, timed_jobs, _ignore_progress)

    def time_stack() -> tuple[float, int]:
        """Return seconds, and the width of the stack: all models, or as many as memory holds, as in training."""
        stacks = stacked.run_stacks(
            config, data, short_jobs, lambda part: [(_seconds_per_step(train_stack, part, config), len(part))]
        )
        return next(stacks)

    if stacked.has_explicit_backward(config):
        stacked_seconds = time_stack()[0] if _is_affordable(steps, len(short_jobs)) else 0.0
        return EXPLICIT_BACKWARD[0], steps * stacked_seconds, EXPLICIT_BACKWARD[2]
    if not _is_affordable(steps, 1):
        return "serial", 0.0, " (too little work for a trial)"
    single_seconds = _seconds_per_step(
        lambda timed_jobs: train_single_network(brief_config, data, timed_jobs[0].rows, timed_jobs[0].seed),
        short_jobs[:1],
        config,
    )
    if stacked.unstackable_reason(config, data):
        return "serial", steps * single_seconds, " (cannot be stacked)"
    if not _is_affordable(steps, 1 + len(short_jobs)):
        return "serial", steps * single_seconds, " (too little work for a trial)"
    try:
        stacked_seconds, width = time_stack()
    except InputError:  # a network needs more memory in a stack than by itself
        return "serial", steps * single_seconds, " (a stack does not fit into memory)"
    reason = (
        f" (trial: {1e3 * single_seconds:.2g} ms per step alone, {1e3 * stacked_seconds:.2g} ms in a stack of {width})"
    )
    return (
        ("stacked" if stacked_seconds < 0.95 * single_seconds else "serial"),
        steps * min(single_seconds, stacked_seconds),
        reason,
    )


def _is_affordable(steps: int, models_timed: int) -> bool:
    """Check whether a trial of so many models costs less than a twentieth of the work."""
    return steps >= 20 * models_timed * (1 + 2 * TRIAL_BATCHES)


def load_or_measure(
    task: Task, config: Hyperparameters, device: str, compute: Callable[[], tuple[LocalEngine, float, str]]
) -> tuple[LocalEngine, float, str]:
    """Return the outcome of an earlier trial of the same work in the pool, so that a resumed run keeps its engine."""
    if task.pool is None:
        return compute()
    structure = pool.digest_architecture(network_training.build_network(config.make_model, 0))
    name = store.hash_values(structure, task.data, pool.list_settings(config), device, torch.__version__)[:32]
    path = task.pool / ".trials" / f"{name}.json"
    if path.exists():
        try:
            stored = store.read_json(path, inside=task.pool)
            return (
                ("stacked" if stored["inner"] == "stacked" else "serial"),
                float(stored["seconds"]),
                str(stored["why"]),
            )
        except (InputError, KeyError, TypeError, ValueError):
            path.unlink()  # damaged: measure again
    measured = compute()
    store.write_json(path, dict(zip(("inner", "seconds", "why"), measured, strict=True)))
    return measured


def _ignore_progress(job: Job, share: float) -> None:
    """Ignore progress: the trial is too short to report."""


def _seconds_per_step(train: Callable[[Sequence[Job]], object], jobs: Sequence[Job], config: Hyperparameters) -> float:
    """Measure the seconds per model and step; the better of two measurements."""
    warm_up_jobs = [replace(job, rows=job.rows[: config.batch_size]) for job in jobs]
    times = []
    for timed_jobs in (warm_up_jobs, jobs, jobs):
        started = time.perf_counter()
        with contextlib.suppress(network_training.DivergedError):  # its time counts all the same
            train(timed_jobs)
        times.append(time.perf_counter() - started)
    return min(times[1:]) / len(jobs) / networks.steps_per_epoch(len(jobs[0].rows), config.batch_size)
