"""Canaries in a training by the Trainer of transformers, or by the SFTTrainer of TRL."""

from __future__ import annotations

from typing import Any

from divulge.canaries.monitor import Monitor
from divulge.errors import missing_extra

try:
    import transformers
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("transformers", "text") from None


class TrainerCallback(Monitor, transformers.TrainerCallback):
    """A `Monitor` that checks, measures and finishes by the events of a Trainer.

    Before the first step it raises where an inserted canary would not be learnt. It measures at each evaluation (at the
    end of each epoch where there is none) and at the end, and logs what `Monitor.measure` returns. Call `insert` on the
    training set before the trainer is made, and `attach` after. Handed over in ``callbacks=[…]`` alone it does the
    same, but trackers (MLflow, W&B, TensorBoard) see nothing of it: a callback does not know its trainer.

    The arguments are those of `Monitor`.

    Raises:
        divulge.InputError: as `Monitor`; ``train()`` raises those of `Monitor.check`.

    Examples:
        >>> callback = TrainerCallback(200, seed=0)
        >>> rows = callback.insert([{"text": f"patient {i} was given dose {i % 7} at night"} for i in range(300)])
        >>> 300 < len(rows) < 500  # then Trainer(…, train_dataset=rows), callback.attach(trainer), trainer.train()
        True
    """

    _trainer: Any = None

    def attach(self, trainer: Any) -> None:
        """Join a trainer, in front of its other callbacks, so that trackers still listen when the last bound is logged.

        Args:
            trainer: of transformers or TRL, made with the data set that `insert` returned.
        """
        callbacks = trainer.callback_handler.callbacks
        callbacks[:] = [self, *(each for each in callbacks if each is not self)]
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Check that canaries will be learnt, before the first step."""
        loader, model = kwargs["train_dataloader"], kwargs["model"]
        processor = kwargs.get("processing_class") or getattr(loader.collate_fn, "tokenizer", None)
        is_sharded = bool(getattr(args, "fsdp", None) or getattr(args, "deepspeed", None))
        self._probes_gradients = not is_sharded  # Whose backward pass is the engine's own.
        self.check(
            loader,
            model,
            tokenizer=getattr(processor, "tokenizer", processor),
            # Parameters in shards are others in the optimizer than in the model.
            optimizer=None if is_sharded else kwargs.get("optimizer"),
            resume=state.global_step > 0,
            max_length=getattr(args, "max_length", None),
            packs=bool(getattr(args, "packing", False)),
        )
        per_step = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        n_rows = len(loader.dataset)
        if state.max_steps * per_step < n_rows:
            self._note(
                f"{state.max_steps} steps read {state.max_steps * per_step} of {n_rows} rows: canaries among the "
                "others are not learnt, so that more may leak than the bound shows."
            )

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure, and log what was measured."""
        self._measure_once(args, state, kwargs["model"])

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure where the trainer does not evaluate."""
        if str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "no":
            self._measure_once(args, state, kwargs["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model that training ends with, and finish."""
        # With the best model loaded, it is another than the one at the last step.
        self._measure_once(args, state, kwargs["model"], again=bool(args.load_best_model_at_end))
        self.finish()

    def _measure_once(self, args: Any, state: Any, model: Any, *, again: bool = False) -> None:
        """Measure once per step, however many data sets the trainer evaluates on; nothing before training."""
        if not self._is_checked:
            return
        if self._looks and self._looks[-1]["step"] == state.global_step and not again:
            return
        look = self.measure(model, step=state.global_step)
        if not look:
            return
        if self._trainer is not None:
            self._trainer.log(dict(look))
        else:
            state.log_history.append({**look, "epoch": state.epoch, "step": state.global_step})
