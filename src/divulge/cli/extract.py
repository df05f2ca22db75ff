"""`divulge extract`: which training documents a language model gives back."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import options, printing
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator

    from divulge import datafiles, extraction, results
    from divulge.extraction import extraction_page
    from divulge.results import provenance
    from divulge.targets import folders, token_statistics
else:
    datafiles = lazy.module("divulge.datafiles")
    token_statistics = lazy.module("divulge.targets.token_statistics")
    extraction = lazy.module("divulge.extraction")
    extraction_page = lazy.module("divulge.extraction.extraction_page")
    folders = lazy.module("divulge.targets.folders")
    provenance = lazy.module("divulge.results.provenance")
    results = lazy.module("divulge.results")


@options.unfold
def extract(
    columns: options.TextColumns,
    model: Annotated[str, typer.Option(help="The language model: a folder, also of a LoRA adapter, or hf:NAME.")],
    members: Annotated[Path, typer.Option(help="Documents it was trained on: .jsonl, .parquet or .csv.")],
    nonmembers: Annotated[Path, typer.Option(help="Documents of the same kind that it was not trained on.")],
    base: Annotated[str | None, typer.Option(help="Of an adapter (default: what it names).")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Another model with this tokenizer, such as the base of a fine-tune.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="Tokens of the prompt, or its share of the document, as in 0.5.")] = "50",
    suffix: Annotated[int, typer.Option(help="Tokens that the model is to give back.")] = 50,
    place: Annotated[str, typer.Option(help="Where in a document: start, end or random.")] = "start",
    temperature: Annotated[float, typer.Option(help="Of sampling.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Sample from the k most likely tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Sample only from the most likely tokens that reach this share.")
    ] = None,
    draws: Annotated[list[int] | None, typer.Option(help="Numbers of draws (default: 1, 100, 10000).")] = None,
    near: Annotated[float, typer.Option(help="Overlap from which a text counts as near-verbatim.")] = 0.75,
    confidence: Annotated[float, typer.Option(help="That all intervals of differences hold together.")] = 0.95,
    bos: Annotated[str, typer.Option(help="tokenizer, add or none.")] = "tokenizer",
    length: Annotated[
        int | None, typer.Option(help="Tokens that the model is given at most (default: all it takes).")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or map for several devices.")] = "auto",
    texts: Annotated[bool, typer.Option("--texts/--no-texts", help="Whether --out may hold documents.")] = True,
    seed: Annotated[int, typer.Option(help="Of every random draw.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Run directory to write, with the report.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in --out.")] = False,
    json: printing.Json = False,
) -> None:
    """Can training documents be extracted from a language model? Measured against documents it never saw.

    No document is printed; --out writes those that are given back most easily into its report.
    """
    sampling = token_statistics.Decoding(temperature, top_k, top_p)
    cut = extraction.Cut(_tokens(prefix), suffix, place)
    layout = datafiles.FileLayout.from_column_names(columns.names(), text="text", label="")  # classes are not read
    provenance.declare_input_files(model=model, base=base, members=members, nonmembers=nonmembers, reference=reference)
    inside, outside = (datafiles.read_records(path, layout).records for path in (members, nonmembers))
    chosen: dict[str, Any] = {"dtype": dtype, "device": device, "bos": bos, "length": length}
    target = folders.load_folder(model, base=base, **chosen)
    with options.naming("--reference"):
        other = None if reference is None else folders.load_folder(reference, **chosen)
    with _interruptible(out), printing.bar("asking the model") as progress:
        result = extraction.measure(
            target,
            inside,
            outside,
            prefix=cut.prefix,
            suffix=cut.suffix,
            place=cut.place,
            decoding=sampling,
            draws=draws or (1, 100, 10_000),
            near=near,
            reference=other,
            confidence=confidence,
            texts=texts,
            seed=seed,
            out=out,
            overwrite=overwrite,
            progress=progress,
        )
    if json:
        printing.as_json(results.to_json_values(result.summary()))
        return
    printing.verdict(result.finding.tone, result.verdict)
    printing.table("Given back, %", *extraction_page.rate_rows(result.summary()))
    printing.table("Members that are given back most easily", *extraction_page.foremost_rows(result.members))
    for note in result.warnings:
        printing.line(f"warning: {note}")
    if out is not None:
        printing.line(f"Report: {out / 'report.html'}")


@contextlib.contextmanager
def _interruptible(out: Path | None) -> Generator[None]:
    """Without a run directory there is nowhere to keep what is finished, and that is said."""
    try:
        yield
    except KeyboardInterrupt:
        if out is not None:
            raise
        raise KeyboardInterrupt("interrupted; nothing is kept: with --out it would be") from None


def _tokens(words: str) -> int | float:
    """A number of tokens, or a share with a point in it."""
    try:
        return float(words) if "." in words else int(words)
    except ValueError:
        raise InputError(f"--prefix: a number of tokens, or a share such as 0.5, is needed, got {words!r}") from None
