"""Canary documents in a real causal language model: made, learned, audited, with their exposure."""

import numpy as np
import pytest

import divulge as dv
from divulge import canaries

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "red",
    "blue",
    "owl",
    "and",
    "ran",
    "far",
    "away",
    "old",
    "elk",
    "dog",
    "fox",
]
DATA = dv.Records([" ".join(np.random.default_rng(i).choice(WORDS, 8)) for i in range(60)])


@pytest.fixture(scope="module")
def tokenizer():
    """One token per word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["<s>", *WORDS])}, unk_token="<s>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")


def trained(tokenizer, texts, epochs):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=16, n_embd=48, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    ids = torch.tensor([[0, *row] for row in tokenizer(list(texts))["input_ids"]])
    for _ in range(epochs):
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
    return dv.targets.CausalLM(model, tokenizer, bos="add")


def test_a_model_that_learned_them_by_heart_exposes_them(tokenizer, tmp_path):
    canaries.make(DATA, kind="unigram", count=120, seed=1, out=tmp_path / "c")
    canary_texts = np.load(tmp_path / "c" / "insert.npz")["x"]
    target = trained(tokenizer, [*DATA.x, *canary_texts], epochs=60)
    result = canaries.audit(target, tmp_path / "c", claim=dv.Claim(1.0, 1e-5), out=tmp_path / "run")
    assert result.proof.answer == "violated"
    highest = np.log2((~result.included).sum() + 1)
    assert (result.exposures <= highest).all()
    assert result.exposures.mean() > 0.8 * highest
    assert f"mean {result.exposures.mean():.2f} bits" in (tmp_path / "run" / "report.html").read_text()


def test_a_model_that_never_read_them_exposes_nobody(tokenizer):
    planted = canaries.make(DATA, kind="random-token", count=120, seed=1)
    result = canaries.audit(trained(tokenizer, DATA.x, epochs=30), planted, claim=dv.Claim(1.0, 1e-5))
    assert result.proof.answer == "consistent"
    assert result.epsilon.low == 0
    assert abs(result.exposures.mean() - 1 / np.log(2)) < 1.0  # what ranks drawn evenly have, in bits
