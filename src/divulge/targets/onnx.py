"""ONNX models as targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.targets import outputs as out
from divulge.validation import check_choice, format_exception

if TYPE_CHECKING:
    import onnxruntime

    from divulge.types import Array, Floats, Ints, Records
else:
    onnxruntime = lazy.module("onnxruntime")

_FLOATS = {f"tensor({name})": dtype for name, dtype in
           (("float", np.float32), ("double", np.float64), ("float16", np.float16))}  # fmt: skip
_INPUTS = _FLOATS | {f"tensor({name})": np.dtype(name) for name in ("int64", "int32", "int8", "uint8", "bool")}
_ZIPPED = "seq(map("  # what ZipMap makes: a dictionary for each record, from classes to scores


@dataclass(frozen=True, slots=True)
class OnnxTarget:
    """A classifier in an ``.onnx`` file, run by ONNX Runtime on the CPU.

    Of several outputs the one with scores is read, which are floats: whole numbers and texts beside them are predicted
    labels. Dictionaries from classes to scores (skl2onnx' ZipMap) become columns: of classes with names in the order of
    the dictionaries, which are then ``class_names``, and of classes with numbers at these numbers. A model with a fixed
    batch is asked in batches of this size; the last one is filled up with copies of a record.

    Args:
        path: the file.
        outputs: "logits" or "probabilities": what the model returns.
        output: name of the output to read; the only one with scores when None.
        batch_size: records per call.

    Raises:
        divulge.InputError: a file ONNX Runtime cannot read, an output that is not there, several outputs with scores
            and no ``output``.
    """

    path: str | Path
    outputs: str = "logits"
    output: str | None = None
    batch_size: int = 1024
    session: Any = None
    class_names: tuple[str, ...] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        open_session = onnxruntime.InferenceSession
        check_choice(self.outputs, "outputs", out.OUTPUT_TYPES)
        try:
            session = open_session(str(self.path), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(f"path: {self.path} is not a readable ONNX model ({format_exception(error)})") from None
        types = {output.name: output.type for output in session.get_outputs()}
        if not types or not session.get_inputs():
            raise InputError(f"path: {self.path} is a model without inputs or outputs")
        # An input with a default value is an initialiser, which is none of these.
        if len(inputs := [node.name for node in session.get_inputs()]) > 1:
            raise InputError(
                f"path: {self.path} has several inputs, {', '.join(map(repr, inputs))}, and records are given as one "
                "array; export it with one input, or pass a function that runs it"
            )
        scores = [name for name, kind in types.items() if kind in _FLOATS or kind.startswith(_ZIPPED)]
        if self.output is None and len(scores) > 1:
            raise InputError(
                f"output: {self.path} has several outputs of numbers, {', '.join(map(repr, scores))}; name the one "
                "with the classes' logits or probabilities, output='…', in a plan target.output"
            )
        output = check_choice(self.output or [*types, *scores][-1], "output", list(types))
        if types[output] == "tensor(bfloat16)":
            raise InputError(f"output: {output!r} of {self.path} is bfloat16, which NumPy lacks; export it as float32")
        object.__setattr__(self, "session", session)
        object.__setattr__(self, "output", output)
        if types[output].startswith(_ZIPPED):
            object.__setattr__(self, "class_names", self._zipped_names())

    def logits(self, records: Records) -> Floats:
        """Logits of each record, float64 ``[n, K]``.

        Raises:
            divulge.InputError: labels instead of scores, records that the model cannot take, values that are not what
                was declared.
        """
        answers = self.raw_outputs(records)
        if answers.dtype.kind in "biuOSU" and answers.size == len(records):
            raise InputError(
                f"target: the ONNX model's output {self.output!r} holds labels, which are no scores; to audit labels "
                "alone, pass an object with a method labels(records) that returns them"
            )
        return out.as_logits(answers, self.outputs, len(records))

    def raw_outputs(self, records: Records) -> Array:
        """Return what the model returns for the records, as it is; dictionaries of ZipMap as columns."""
        model_input = self.session.get_inputs()[0]
        if (dtype := _INPUTS.get(model_input.type)) is None:
            raise InputError(f"target: the ONNX model's input type {model_input.type} is not supported")
        x = records.x.astype(dtype, copy=False)
        if np.dtype(dtype).kind in "biu" and (x != records.x).any():
            raise InputError(
                f"target: the ONNX model takes {model_input.type}, and the records hold other values, such as "
                f"{records.x[x != records.x].flat[0]:g}"
            )
        fixed = model_input.shape[0] if model_input.shape and isinstance(model_input.shape[0], int) else 0
        size, parts = fixed if fixed > 0 else self.batch_size, []
        for start in range(0, len(x), size):
            batch = x[start : start + size]
            filling = np.repeat(batch[-1:], size - len(batch) if fixed > 0 else 0, axis=0)
            try:
                answer = self.session.run([self.output], {model_input.name: np.concatenate([batch, filling])})[0]
            except Exception as error:  # ONNX Runtime has no common class of its errors
                raise InputError(
                    f"target: the ONNX model cannot take records of shape {x.shape[1:]} ({format_exception(error)})"
                ) from None
            if isinstance(answer, list):
                answer = self._from_dictionaries(answer)
            parts.append(answer[: len(batch)] if fixed > 0 else answer)
        return np.concatenate(parts)

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)

    def _zipped_names(self) -> tuple[str, ...] | None:
        """Return the names of the classes in the dictionaries of ZipMap, in their order; None of numbers from 0 on."""
        model_input = self.session.get_inputs()[0]
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in model_input.shape]
        try:
            keys = self.session.run([self.output], {model_input.name: np.zeros(shape, _INPUTS[model_input.type])})[0][0]
        except Exception:  # the first records show what is wrong
            return None
        return None if all(isinstance(key, int) and key >= 0 for key in keys) else tuple(map(str, keys))

    def _from_dictionaries(self, rows: list[Any]) -> Array:
        """Return one row of scores for each dictionary from classes to scores."""
        if not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
            raise InputError(
                f"target: the ONNX model's output {self.output!r} is a sequence, not a table of scores: of several "
                "outcomes at once, export a model of one"
            )
        values = np.array([list(row.values()) for row in rows], dtype=np.float64)
        if self.class_names is not None:
            return values
        floor = 0.0 if self.outputs == "probabilities" else np.log(out.PROBABILITY_FLOOR) + values.max(axis=1)[:, None]
        table = np.full((len(rows), max(rows[0]) + 1), floor)
        table[:, list(rows[0])] = values
        return table
