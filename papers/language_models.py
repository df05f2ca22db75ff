"""A small language model made on the spot, and texts it never saw: what the benchmarks on documents share."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers

import divulge as dv
from divulge.targets import CausalLM

CONTEXT = 256


def data() -> Path:
    folder = Path(os.environ.get("DIVULGE_DATA", ""))
    if not (folder / "20news_bydate.jsonl.gz").is_file():
        sys.exit("DIVULGE_DATA: a folder with 20news_bydate.jsonl.gz and sms_spam.jsonl.gz is needed")
    return folder


def rows(name: str) -> list[dict]:
    with gzip.open(data() / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def news() -> list[str]:
    """Bodies of newsgroup articles of 200 to 1,500 characters, each once, shuffled."""
    bodies = (row["text"].partition("\n\n")[2].strip() for row in rows("20news_bydate.jsonl.gz"))
    unique_texts = sorted({body[:1500] for body in bodies if len(body) >= 200})
    return [unique_texts[i] for i in np.random.default_rng(0).permutation(len(unique_texts))]


def messages() -> list[str]:
    """Text messages of at least 60 characters, each once, shuffled."""
    unique_texts = sorted({row["text"].strip() for row in rows("sms_spam.jsonl.gz") if len(row["text"].strip()) >= 60})
    return [unique_texts[i] for i in np.random.default_rng(0).permutation(len(unique_texts))]


def tokenizer(texts: list[str], size: int = 4096) -> transformers.PreTrainedTokenizerFast:
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = byte_level
    raw.decoder = tokenizers.decoders.ByteLevel()
    raw.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(
            vocab_size=size, special_tokens=["<s>"], initial_alphabet=byte_level.alphabet(), show_progress=False
        ),
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")


def base(texts: list[str], folder: Path, *, layers: int, width: int, epochs: int) -> Path:
    """A GPT-2 of ``layers`` x ``width`` trained on ``texts``, kept in ``folder`` and made once."""
    if (folder / "config.json").is_file():
        return folder
    words = tokenizer(texts)
    config = transformers.GPT2Config(
        vocab_size=len(words), n_positions=CONTEXT, n_embd=width, n_layer=layers, n_head=4, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    empty = CausalLM(transformers.GPT2LMHeadModel(config), words, name="empty", bos="add")
    training = dv.references.FineTune(empty, epochs=epochs, lr=3e-3, batch_size=16, schedule="cosine", warmup=0.05)
    model = training.train_model(dv.Records(np.array(texts, object)), seed=0)
    model.model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
