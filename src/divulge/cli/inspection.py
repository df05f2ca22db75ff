"""`divulge inspect`: what a model's file holds beside its function, without any data."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import datafiles, inspection, results, targets
from divulge import plan as plan_files
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.report import formatting
from divulge.settings import InspectionSettings
from divulge.targets import sacro_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.inspection import Inspection

_N_SHOWN = 10  # arrays


@options.from_settings
def inspect(
    *,
    model: Annotated[
        Path,
        typer.Argument(
            help=".skops, .onnx, .safetensors, .npz, .txt of LightGBM, .json of XGBoost or CatBoost; or a plan (TOML) "
            "that names target and members; or a folder of models."
        ),
    ],
    members: Annotated[
        Path | None, typer.Option(help="Training records: also count how many of them share an output.")
    ] = None,
    columns: options.RecordColumns,
    trust: options.Trust = None,
    json: options.Json = False,
) -> None:
    """Does this model's file hold training records? Look at its arrays, leaves and settings, without data.

    Of a folder every model is looked at, also in folders below; the exit code is 2 where one cannot be read.
    """
    if model.is_dir() and not sacro_folders.is_sacro_folder(model):
        if members is not None:
            raise InputError("--members: goes with one model; of a folder of models each has its own")
        _inspect_folder(model, json)
        return
    if model.suffix.lower() == ".toml":
        if members is not None or columns.model_fields_set:
            raise InputError("members: the plan names records and columns; leave out --members and options of columns")
        inspected = _inspect_plan(model, trust or ())
    elif members is None:
        inspected = inspection.inspect_file(model)
    else:
        target = targets.load(str(model), trust=trust or (), labels_only=True)
        layout = datafiles.FileLayout.from_column_names(columns, real_values=True)
        records = datafiles.read_records(members, layout).records
        from_file = inspection.inspect_file(model, training_records=len(records))
        inspected = replace(from_file, hints=(*from_file.hints, *inspection.inspect_outputs(target, records)))
    if json:
        printing.as_json(results.to_json_values(inspected))
        return
    _show(model, inspected, is_known=members is not None or model.suffix.lower() == ".toml")


def _inspect_plan(path: Path, trust: Sequence[str]) -> Inspection:
    """Inspect the target of a plan, with its members."""
    plan = plan_files.read(path)
    resolved = plan_files.resolve(plan, path.parent, trust)
    chosen = plan.inspect or InspectionSettings()
    records = resolved.subject.members
    inspected = inspection.inspect_model(resolved.target, chosen, training_records=len(records))
    hints = inspection.inspect_outputs(resolved.target, records, chosen, outputs=resolved.options.outputs)
    return replace(inspected, hints=(*inspected.hints, *hints))


def _inspect_folder(folder: Path, json: bool) -> None:
    """Print a row for each model in a folder, and the hints below."""
    files = inspection.inspect_folder(folder)
    if json:
        printing.as_json(results.to_json_values(files))
    else:
        rows = []
        for file in files:
            if (inspected := file.inspection) is None:
                rows.append((file.path, "cannot be read", "–", "–", "–", "–"))
                continue
            size = "–" if inspected.training_records is None else f"{inspected.training_records:,}"
            counts = (f"{len(inspected.long_arrays):,}", f"{inspected.single_leaves:,}")
            hints = ", ".join(hint.name for hint in inspected.hints) or "none"
            rows.append((file.path, inspected.model.partition("(")[0].replace("dict", "–"), size, *counts, hints))
        columns = ["file", "model", "training records", "arrays as long", "one-record leaves", "hints"]
        printing.table(f"{len(files):,} models", columns, rows)
        printing.line(
            "These are hints from the files alone: divulge inspect FILE explains those of one model, an audit measures."
        )
    problems = [file for file in files if file.problem]
    for file in problems:
        printing.error(f"{file.path}: {file.problem}")
    if problems:
        raise typer.Exit(Exit.INPUT)


def _show(path: Path, inspected: Inspection, *, is_known: bool) -> None:
    whole, *parts = re.findall(r"\b[A-Z]\w*(?=\()", inspected.model) or [inspected.model]
    # All settings of a pipeline would fill the screen; --json has them.
    model = f"{whole} of {formatting.join_words(list(dict.fromkeys(parts)))}" if parts else inspected.model
    printing.line(f"{path}: {model}")
    size = "it does not say" if inspected.training_records is None else f"{inspected.training_records:,}"
    size += "" if is_known or inspected.training_records is None else " or more"
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
