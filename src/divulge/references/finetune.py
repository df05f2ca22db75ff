"""Reference models of a language model: further fine-tunes of the same base on other documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from divulge import lazy
from divulge.references.predictions import Trained
from divulge.references.progress import Progress
from divulge.references.splits import Splits
from divulge.references.tuning import FineTuneSettings
from divulge.types import Array, Bools, Records

if TYPE_CHECKING:
    from divulge import networks
    from divulge.references import finetuning
    from divulge.targets import CausalLM
else:
    finetuning = lazy.module("divulge.references.finetuning")
    networks = lazy.module("divulge.networks")


@dataclass(frozen=True, slots=True)
class FineTune(FineTuneSettings):
    """Fine-tune ``count`` copies of a base model on documents, with next-token cross-entropy.

    As the target was made, so should these be: the same base, epochs, learning rate and kind of fine-tuning. The
    optimiser is AdamW; gradients are clipped to norm 1; documents longer than the context are trained on in stretches.

    Args:
        base: folder or ``hf:NAME`` of the model that the target was fine-tuned from, or a `divulge.targets.CausalLM`.
        count: number of reference models; 0 asks the base alone.
        epochs: passes over a model's documents.
        lr: highest learning rate; None means 5e-5, and 2e-4 for LoRA.
        batch_size: documents per step.
        lora: adapters in place of a full fine-tune.
        schedule: "linear" (to zero), "cosine" (to zero) or "constant".
        warmup: share of the steps in which the learning rate rises.
        weight_decay: of AdamW.
        length: longest stretch of tokens in training; the base's context when None.
        bos: "tokenizer", "add" or "none", see `divulge.targets.CausalLM`; for a base given as a folder.
        engine: "serial", "processes" (several on this machine), "ray" (several machines), or "auto" (processes, on a
            CPU and where a short measured trial says that the work is worth their start).
        device: where models are trained: "auto", "cpu", "cuda".
        workers: processes for "processes"; None means one per core.

    What the pool keeps of such a model is the log-probability of each token of the observed documents.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> FineTune("base/", count=4, epochs=3).learning_rate
        5e-05
    """

    def opened(self) -> finetuning.LoadedFineTune:
        """The base in memory, once for everything that is asked of it.

        Raises:
            divulge.InputError: a base that cannot be loaded, or is no language model.
        """
        return finetuning.LoadedFineTune(self)

    def fit(
        self,
        records: Records,
        splits: Splits | Bools,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        pool: Path | str | None = None,
        out: Path | str | None = None,
        progress: Progress | None = None,
    ) -> Trained:
        """Fine-tune the models of ``splits`` and keep how likely they find each token of the observed documents.

        Args:
            records: the documents that models are trained on.
            splits: bool ``[m, n]``, True where model ``i`` is trained on document ``j``.
            seed: the user's seed; model ``i`` has its own stream, whatever the number of models.
            observe: sets of documents each model is asked about while it is in memory.
            pool: folder of finished models; those whose key matches are not trained again.
            out: folder for memory-mapped outputs; None keeps them in memory.
            progress: called with what is done.

        Returns:
            `Trained`, whose outputs are float32 ``[m, t]``: one document after the other, tokens in order.

        Raises:
            divulge.InputError: bad input, before any training; a full disk; no model that did not diverge.
        """
        return self.opened().fit(records, splits, seed=seed, observe=observe, pool=pool, out=out, progress=progress)

    def one(self, records: Records, *, seed: int, progress: Progress | None = None) -> CausalLM:
        """The base fine-tuned on all ``records`` (a target for a demonstration).

        Raises:
            divulge.InputError: bad input, or the loss became NaN.
        """
        return self.opened().one(records, seed=seed, progress=progress)
