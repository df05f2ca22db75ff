"""ONNX models as targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.targets import arrays as out
from divulge.validation import check_choice, format_exception

if TYPE_CHECKING:
    import onnxruntime

    from divulge.types import Array, Floats, Ints, Records
else:
    onnxruntime = lazy.module("onnxruntime")


@dataclass(frozen=True, slots=True)
class OnnxTarget:
    """A classifier in an ``.onnx`` file, run by ONNX Runtime on the CPU.

    Args:
        path: the file.
        outputs: "logits" or "probabilities": what the model returns.
        output: name of the output to read; the last one when None (exporters put scores after labels).
        batch_size: records per call.

    Raises:
        divulge.InputError: a file ONNX Runtime cannot read, or an output that is not there.
    """

    path: str | Path
    outputs: str = "logits"
    output: str | None = None
    batch_size: int = 1024
    session: Any = None

    def __post_init__(self) -> None:
        open_session = onnxruntime.InferenceSession
        check_choice(self.outputs, "outputs", out.OUTPUT_TYPES)
        try:
            session = open_session(str(self.path), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(f"path: {self.path} is not a readable ONNX model ({format_exception(error)})") from None
        names = [output.name for output in session.get_outputs()]
        if not names or not session.get_inputs():
            raise InputError(f"path: {self.path} is a model without inputs or outputs")
        object.__setattr__(self, "session", session)
        object.__setattr__(self, "output", check_choice(self.output or names[-1], "output", names))

    def logits(self, records: Records) -> Floats:
        """Logits of each record, float64 ``[n, K]``."""
        return out.as_logits(self.raw_outputs(records), self.outputs, len(records))

    def raw_outputs(self, records: Records) -> Array:
        """Return what the model returns for the records, as it is."""
        model_input = self.session.get_inputs()[0]
        dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}.get(
            model_input.type
        )
        if dtype is None:
            raise InputError(f"target: the ONNX model's input type {model_input.type} is not supported")
        x = records.x.astype(dtype, copy=False)
        try:
            parts = [
                self.session.run([self.output], {model_input.name: x[start : start + self.batch_size]})[0]
                for start in range(0, len(x), self.batch_size)
            ]
        except Exception as error:  # ONNX Runtime has no common class of its errors
            raise InputError(
                f"target: the ONNX model cannot take records of shape {x.shape[1:]} ({format_exception(error)})"
            ) from None
        return np.concatenate(parts)

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)
