"""Demonstration audit of a language model fine-tuned on part of Python's own manual.

A small transformer learns the language of the manual from half of its paragraphs. It is then fine-tuned on some of
the others, which are the members; the rest are the non-members and what the auditor holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, seeds, store, tables
from divulge.auditing import audit
from divulge.auditing.result import KIND
from divulge.identification import language_demo
from divulge.references import FineTune
from divulge.references.progress import ProgressContext, no_progress
from divulge.run_directory import RunDirectory
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from divulge.auditing import Audit
    from divulge.run_directory import RunDraft
    from divulge.targets import CausalLM, pretrained
else:
    pretrained = lazy.module("divulge.targets.pretrained")

RECIPES = ("loss", "zlib", "min-k++", "base-ratio", "wbc", "reference-ratio", "windows", "lira", "rmia", "learned")
_LEARNING_RATE = 2e-3
SETS = ("members", "nonmembers", "population")


@dataclass(frozen=True, slots=True)
class TextSize:
    """Size of the demo: paragraphs of each kind, reference models, epochs of base and fine-tunes."""

    base: int
    members: int
    nonmembers: int
    population: int
    count: int
    base_epochs: int
    epochs: int


FULL = TextSize(base=400, members=150, nonmembers=200, population=400, count=4, base_epochs=12, epochs=3)
QUICK = TextSize(base=200, members=60, nonmembers=100, population=160, count=3, base_epochs=3, epochs=3)


def run(
    out: Path, *, seed: int = 0, size: TextSize = FULL, overwrite: bool = False, watching: ProgressContext = no_progress
) -> Audit:
    """Train a base, fine-tune it on the members, audit the fine-tune.

    Base, fine-tune and paragraphs lie in ``out/inputs``, so that the plan can be run again and changed.

    Args:
        out: run directory.
        seed: of every random draw.
        size: `FULL` or `QUICK`.
        overwrite: replace a finished run in ``out``.
        watching: called with a title, gives the context in which the progress of an audit is shown.

    Raises:
        divulge.MissingExtraError: torch or transformers is not installed.
    """
    with RunDirectory(out).writing(KIND, store.hash_values("text demo", size, seed), overwrite=overwrite) as draft:
        texts = language_demo.load_paragraphs(seed)
        manual, paragraphs = texts[: size.base], texts[size.base :]
        base = language_demo.train(manual, language_demo.DemoModel(epochs=size.base_epochs), seed=seed)
        sets, begin = {}, 0
        for name in SETS:
            end = begin + getattr(size, name)
            sets[name] = Records(np.array(paragraphs[begin:end], dtype=object))
            begin = end
        tuning = FineTune(base, size.count, size.epochs, lr=_LEARNING_RATE, bos="add", device="cpu")
        target = tuning.one(sets["members"], seed=seeds.derive_seed(seed, "text demo target"))
        _write_inputs(draft, {"base": base, "target": target}, sets)
        with watching("reference models") as progress:
            return audit(
                target,
                **sets,
                recipes=RECIPES,
                references=tuning,
                seed=seed,
                out=draft,
                plan=_plan(size, seed),
                progress=progress,
            )


def _write_inputs(draft: RunDraft, models: Mapping[str, CausalLM], sets: Mapping[str, Records]) -> None:
    """Write models and documents to the paths that the plan names."""
    folder = draft.path / "inputs"
    store.make_private_directory(folder)
    with pretrained.hide_progress_bars():
        for name, model in models.items():
            model.model.save_pretrained(folder / name)
            model.tokenizer.save_pretrained(folder / name)
    for name, records in sets.items():
        frame = tables.from_arrays({"text": np.array(records.x, dtype=object)})
        store.write_file(folder / f"{name}.parquet", partial(tables.write_parquet, frame))


def _plan(size: TextSize, seed: int) -> dict[str, Any]:
    """Return the plan of the audit, relative to its run directory."""
    return {
        "folder": "inputs",
        "seed": seed,
        "device": "cpu",
        "recipes": list(RECIPES),
        "target": {"model": "target", "bos": "add"},
        "data": {**{name: f"{name}.parquet" for name in SETS}, "text": "text"},
        "references": {"base": "base", "count": size.count, "epochs": size.epochs, "lr": _LEARNING_RATE, "bos": "add"},
    }
