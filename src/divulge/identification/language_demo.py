"""Demonstration of an identification: train a small language model on half of a corpus, and identify that half.

The corpus is the manual that ships with Python (`pydoc_data.topics`), cut into paragraphs. A transformer is trained on
a random half; one part of the other half is the calibration, and one part is added to the candidates. Membership is
therefore known, and the assumption of the guarantee holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, seeds, tables
from divulge.decisions.methods import resolve_method
from divulge.identification import document_scoring, from_tables
from divulge.identification.decision import METHODS, Policy
from divulge.identification.finished_run import RUN_TYPE
from divulge.identification.score_tables import Columns, Score
from divulge.run_directory import RunDirectory
from divulge.settings import DecisionSettings

if TYPE_CHECKING:
    from pathlib import Path
    from pydoc_data import topics

    import tokenizers
    import torch
    import transformers

    from divulge.decisions.methods import Method
    from divulge.identification.from_tables import Progress
    from divulge.results import IdentificationSummary
    from divulge.run_directory import RunDraft
    from divulge.targets import language_models
else:
    language_models = lazy.module("divulge.targets.language_models")
    tokenizers = lazy.module("tokenizers")
    topics = lazy.module("pydoc_data.topics")
    torch = lazy.module("torch")
    transformers = lazy.module("transformers")


@dataclass(frozen=True, slots=True)
class DemoModel:
    """Size and training of the demo's model.

    Args:
        epochs: passes over the training half.
        width: size of the hidden layers.
        layers: number of layers.
        vocabulary: size of the tokenizer's vocabulary, which is learned from the training half alone.
        batch: paragraphs per step.
        rate: highest learning rate.
        longest: number of tokens to which paragraphs are cut.
    """

    epochs: int = 12
    width: int = 96
    layers: int = 2
    vocabulary: int = 1024
    batch: int = 16
    rate: float = 5e-3
    longest: int = 256


def load_paragraphs(seed: int = 0) -> list[str]:
    """Return the distinct paragraphs of Python's manual of 80 to 1,200 characters, shuffled."""
    parts = (part.strip() for topic in topics.topics.values() for part in re.split(r"\n\s*\n", topic))
    distinct = sorted({part for part in parts if 80 <= len(part) <= 1200})
    return [distinct[i] for i in seeds.generator(seed, "demo paragraphs").permutation(len(distinct))]


def run(
    out: Path,
    *,
    fdr: float = DecisionSettings().fdr,
    method: Method | str = "auto",
    seed: int = 0,
    recipe: DemoModel | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> IdentificationSummary:
    """Train, score and identify; write the tables, the signals, the selection and the report to ``out``.

    Args:
        out: run directory for everything.
        fdr: bound on the expected share of non-members among the selected.
        method: see `divulge.identify`.
        seed: of the split, the initial weights and the order of training.
        recipe: size and training of the model.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of training steps finished and of all.

    Raises:
        divulge.MissingExtraError: torch or transformers is not installed.
    """
    policy = Policy(fdr, resolve_method(method, METHODS))
    with RunDirectory(out).writing(RUN_TYPE, "demo", overwrite=overwrite) as draft:
        texts = load_paragraphs(seed)
        half, quarter = len(texts) // 2, len(texts) // 4
        target = train(texts[:half], recipe or DemoModel(), seed=seed, progress=progress)
        n_members = half - quarter // 2
        _score_documents(draft, "candidates", target, texts[:n_members] + texts[half + quarter :], n_members)
        third = quarter // 3  # of the unused documents, to test the others
        calibration = _score_documents(draft, "calibration", target, texts[half : half + quarter - third], 0)
        holdout = _score_documents(draft, "holdout", target, texts[half + quarter - third : half + quarter], 0)
        columns = Columns((Score("min_k_plus"),), id="id", text="text", truth="member")
        plan = from_tables.DecisionPlan(columns, policy, seed=seed)
        return from_tables.run([draft.path / "candidates.parquet"], [calibration], draft, plan, holdout=[holdout])


def _score_documents(
    draft: RunDraft, name: str, target: language_models.CausalLM, documents: list[str], n_members: int
) -> Path:
    """Write a table of documents, members first, with their signals; return the folder of the signals."""
    truth, options = np.arange(len(documents)) < n_members, document_scoring.ScoringOptions()
    draft.write_table(name, tables.from_arrays({"text": np.array(documents, object), "member": truth}))
    key = document_scoring.run_key(target.key(), options)
    with draft.part(f"token-statistics/{name}", document_scoring.RUN_TYPE, key) as inner:
        document_scoring.score_into(inner, [draft.path / f"{name}.parquet"], target, options)
    signals = tables.read_table(sorted((inner.path / "documents").iterdir()))
    draft.write_table(name, signals.with_columns(member=truth))
    return inner.path


def train(
    texts: list[str], recipe: DemoModel, *, seed: int = 0, progress: Progress | None = None
) -> language_models.CausalLM:
    """Train a small Llama from random weights until it overfits ``texts``.

    Raises:
        divulge.MissingExtraError: torch or transformers is not installed.
    """
    tokenizer = train_tokenizer(texts, recipe.vocabulary)
    encoded = [[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]][: recipe.longest] for text in texts]
    with torch.random.fork_rng():  # transformers draws initial weights from torch's global generator
        torch.manual_seed(seeds.derive_seed(seed, "demo weights"))
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=recipe.width,
                intermediate_size=2 * recipe.width,
                num_hidden_layers=recipe.layers,
                num_attention_heads=4,
                max_position_embeddings=1024,
                tie_word_embeddings=True,
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    _fit(model, encoded, recipe, seeds.generator(seed, "demo order"), progress or (lambda done, total: None))
    return language_models.CausalLM(model, tokenizer, name="demo", bos="add")


def train_tokenizer(texts: list[str], size: int) -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer of ``size`` tokens."""
    splitter = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = splitter
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>"], initial_alphabet=splitter.alphabet(), show_progress=False
    )
    raw.train_from_iterator(texts, trainer)
    raw.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")  # noqa: S106  a token, not a password


def _fit(model: Any, encoded: list[list[int]], recipe: DemoModel, rng: np.random.Generator, progress: Progress) -> None:
    n_steps = recipe.epochs * -(-len(encoded) // recipe.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=n_steps)
    model.train()
    n_done = 0
    for _ in range(recipe.epochs):
        for batch in _batches(encoded, recipe.batch, rng):
            model(**_pad(batch)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            n_done += 1
            progress(n_done, n_steps)
    model.eval()


def _batches(encoded: list[list[int]], size: int, rng: np.random.Generator) -> list[list[list[int]]]:
    """Batch paragraphs of nearly equal length, so that little is padding, in a new order each time."""
    length = np.array([len(ids) for ids in encoded]) + rng.normal(0, 5, len(encoded))
    order = np.argsort(length)
    batches = [[encoded[i] for i in order[start : start + size]] for start in range(0, len(order), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def _pad(batch: list[list[int]]) -> dict[str, torch.Tensor]:
    width = max(map(len, batch))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in batch])
    is_token = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
    return {"input_ids": ids, "attention_mask": is_token, "labels": ids.masked_fill(is_token == 0, -100)}
