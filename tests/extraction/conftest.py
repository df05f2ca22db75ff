"""A small language model that has learned some documents by heart, built on the spot."""

import numpy as np
import pytest

import divulge as dv

WORDS = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti") for b in ("dan", "fel", "gor", "hin")]


def sentences(count, seed, words=20):
    """Documents of random words: nothing in one says what follows, so only memory completes them."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, words)) for _ in range(count)]


@pytest.fixture(scope="session")
def language():
    """Train a causal model on texts: ``language(texts, epochs)``."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        sentences(200, 99),
        trainers.BpeTrainer(vocab_size=330, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")

    def train(texts, epochs, seed=0, context=64, bos="add"):
        torch.manual_seed(seed)
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer), n_positions=context, n_embd=64, n_layer=2, n_head=2, bos_token_id=0,
            eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        model = transformers.GPT2LMHeadModel(config)
        rows = [torch.tensor([0, *tokenizer(text)["input_ids"]][:context]) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        for _ in range(epochs):
            for batch in torch.randperm(len(ids)).split(32):
                logits = model(input_ids=ids[batch]).logits[:, :-1].flatten(0, 1)
                torch.nn.functional.cross_entropy(logits, labels[batch, 1:].flatten()).backward()
                optimizer.step()
                optimizer.zero_grad()
        return dv.targets.CausalLM(model, tokenizer, name="small", bos=bos)

    return train
