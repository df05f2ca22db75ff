"""`divulge inspect`: what a model's file holds beside its function, without any data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge.cli import options, printing
from divulge.cli.modules import datafiles, inspection, results, targets
from divulge.settings import ColumnNames, InspectionSettings

if TYPE_CHECKING:
    from divulge.inspection import Inspection

_N_SHOWN = 10  # arrays


@options.from_settings
def inspect(
    *,
    model: Annotated[
        Path, typer.Argument(help=".skops, .onnx, .safetensors, .npz, .txt of LightGBM, .json of XGBoost or CatBoost.")
    ],
    settings: InspectionSettings,
    members: Annotated[
        Path | None, typer.Option(help="Training records: also count how many of them share an output.")
    ] = None,
    columns: ColumnNames,
    trust: options.Trust = None,
    json: options.Json = False,
) -> None:
    """Does this model's file hold training records? Look at its arrays, leaves and settings, without data."""
    inspected = inspection.inspect_file(model, settings)
    if members is not None:
        target = targets.load(str(model), trust=trust or (), labels_only=True)
        layout = datafiles.FileLayout.from_column_names(columns, real_values=True)
        records = datafiles.read_records(members, layout).records
        inspected = replace(inspected, hints=(*inspected.hints, *inspection.inspect_outputs(target, records, settings)))
    if json:
        printing.as_json(results.to_json_values(inspected))
        return
    _show(model, inspected)


def _show(path: Path, inspected: Inspection) -> None:
    printing.line(f"{path}: {inspected.model}")
    size = "it does not say" if inspected.training_records is None else f"{inspected.training_records:,}"
    printing.line(f"Arrays: {inspected.arrays:,}. Training records: {size}.")
    for name, shape in inspected.long_arrays[:_N_SHOWN]:
        printing.line(f"  as long as the training set: {name} {shape}")
    if inspected.leaves:
        printing.line(
            f"Leaves: {inspected.leaves:,}; of one record: {inspected.single_leaves:,}; of few: "
            f"{inspected.small_leaves:,}."
        )
    for hint in inspected.hints:
        measured = f" Measured: {hint.measured}" if hint.measured else ""
        printing.line(f"Hint, {hint.name}: {hint.found} (wanted: {hint.threshold}). {hint.meaning}{measured}")
    printing.line(
        "These are hints from the file alone. An audit with members and non-members searches the arrays for the "
        "records themselves, and measures what the model's answers give away."
    )
