"""Many networks, trained as reference models, and one by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import lazy
from divulge.references import fitting
from divulge.references.engines import EngineName, Placement
from divulge.references.hyperparameters import Hyperparameters
from divulge.references.label_sets import label_set
from divulge.references.predictions import Inside, Signal, Trained
from divulge.references.progress import Progress
from divulge.references.splits import Splits
from divulge.types import Array, Bools, Records
from divulge.validation import check_integer, require_callable

if TYPE_CHECKING:
    import torch

    from divulge import networks
    from divulge.references import learner, models
else:
    models = lazy.module("divulge.references.models")
    learner = lazy.module("divulge.references.learner")
    networks = lazy.module("divulge.networks")


@dataclass(frozen=True, slots=True)
class Train(Hyperparameters):
    """Train ``count`` networks with cross-entropy.

    Args:
        make_model: returns a new ``torch.nn.Module`` with one output (logit) per class; called with the model's seed
            if it takes one, otherwise with nothing. Torch's generators are seeded for the call either way.
        count: number of reference models.
        epochs: passes over a model's records.
        optimizer: "sgd" (with momentum), "adam" or "adamw".
        lr: learning rate; None means 0.02 for "sgd", 0.001 for the others.
        momentum: of "sgd".
        weight_decay: as torch's optimisers define it.
        batch_size: records per step; a last batch of one record joins the one before.
        schedule: "constant", "cosine" (to zero), "linear" (to zero), or a function from the share of steps done
            (0 to 1) to a factor on ``lr``.
        stop_at_accuracy: stop a model after the first epoch whose running training accuracy reaches this.
        augment: ``augment(x, generator) -> x`` on each batch tensor, drawing from the ``torch.Generator`` it is given.
        privacy: train with DP-SGD; ``batch_size`` is then the expected size of a Poisson sample.
        precision: "single", "double", or "mixed" (bfloat16 autocast).
        engine: "serial" (one after the other), "stacked" (many at once), "processes" (several on this machine),
            "ray" (several machines), or "auto" (a short measured trial chooses).
        device: "auto", "cpu", "cuda" or "mps".
        workers: processes for "processes"; None means one per core.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> Train(lambda: ..., count=4, lr=0.1).learning_rate
        0.1
    """

    count: int = 16
    _: KW_ONLY
    engine: EngineName = "auto"
    device: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        Hyperparameters.__post_init__(self)  # super() needs the class that slots=True replaces
        check_integer(self.count, "count", least=1, most=10**6)
        self._place  # noqa: B018 - checked when it is made

    def brief(self) -> Train:
        """One model for one epoch, in this process: what a forecast of the time is made from."""
        return replace(self, count=1, epochs=1, engine="serial", stop_at_accuracy=None)

    def untrained(self) -> torch.nn.Module:
        """A network as ``make_model`` makes it, with the weights of seed 0 and in the precision of training.

        Raises:
            divulge.InputError: ``make_model`` returns no network with parameters.
        """
        return models.build(self.make_model, 0).to(dtype=models.precision(self.precision))

    @property
    def _place(self) -> Placement:
        return Placement(self.engine, self.workers)

    def fit(
        self,
        records: Records,
        splits: Splits | Bools,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        signal: Signal | None = None,
        classes: int | None = None,
        pool: Path | str | None = None,
        out: Path | str | None = None,
        progress: Progress | None = None,
        inside: Inside | None = None,
    ) -> Trained:
        """Train the models of ``splits`` and keep what they say about the observed records.

        Args:
            records: what the models are trained on, with labels.
            splits: bool ``[m, n]``, True where model ``i`` is trained on record ``j``.
            seed: the user's seed; model ``i`` has its own stream, whatever the number of models.
            observe: sets of records each model is queried on while it is in memory.
            signal: reduces logits ``[b, K]`` and labels ``[b]`` to ``[b]`` or ``[b, q]``; None keeps the logits.
            classes: size of the whole label set, classes without records included; None: the largest label plus one.
            pool: folder of finished models; those whose key matches are not trained again.
            out: folder for memory-mapped outputs; None keeps them in memory.
            progress: called with what is done.
            inside: called with each model as a target and the first set of observed records; returns ``[n, w]``, which
                is kept beside what ``signal`` returns.

        On the CPU a process trains on one thread: networks of this size gain little from more, and where other
        work runs beside them they lose much. Several cores are used by several processes.

        Raises:
            divulge.InputError: bad input, before any training; a full disk; no model that did not diverge.
        """
        work = fitting.Work(records, splits, tuple(observe), signal, classes, pool, out, progress, inside)
        with networks.single_thread():
            return fitting.fit(learner.Networks(self, self.device), work, self.count, seed, self._place)

    def one(
        self, records: Records, *, seed: int, classes: int | None = None, progress: Progress | None = None
    ) -> torch.nn.Module:
        """Train a single network on all ``records`` (a target for a demonstration), in evaluation mode, on the CPU.

        Raises:
            divulge.InputError: bad input, or the loss became NaN.
        """
        if progress is not None:
            require_callable(progress, "progress")
        how = learner.Networks(self, self.device)
        return learner.one(how, records, seed, label_set(records, classes), progress)


def train_one(
    make_model: Callable[..., Any],
    records: Records,
    *,
    seed: int,
    classes: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> torch.nn.Module:
    """Train one network on ``records``; ``settings`` are the fields of `Train`.

    Raises:
        divulge.InputError: bad input, or the loss became NaN.
    """
    return Train(make_model, **settings).one(records, seed=seed, classes=classes, progress=progress)
