"""Tiny language models with random weights, built on the spot."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CORPUS = ["the quick brown fox jumps over the lazy dog", "a model remembers what it has read", "hello world " * 4]


@pytest.fixture(scope="session")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = bytes_
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>"], initial_alphabet=bytes_.alphabet(), show_progress=False
    )
    raw.train_from_iterator(CORPUS, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")


def build(architecture, vocabulary, context=256):
    torch.manual_seed(0)
    small = {"vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 0}
    wide = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    t = transformers
    match architecture:
        case "gpt2":
            return t.GPT2LMHeadModel(t.GPT2Config(**small, n_positions=context, n_embd=32, n_layer=2, n_head=2)).eval()
        case "llama":
            return t.LlamaForCausalLM(t.LlamaConfig(**small, **wide, max_position_embeddings=context)).eval()
        case "neox":
            return t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**small, **wide, max_position_embeddings=context)).eval()
        case "gemma":  # caps its logits
            config = t.Gemma2Config(
                **small,
                **wide,
                num_key_value_heads=2,
                head_dim=16,
                max_position_embeddings=context,
                final_logit_softcapping=0.5,
            )
            return t.Gemma2ForCausalLM(config).eval()
        case "cohere":  # scales them
            return t.CohereForCausalLM(
                t.CohereConfig(**small, **wide, max_position_embeddings=context, logit_scale=3.0, pad_token_id=0)
            ).eval()


@pytest.fixture(scope="session")
def model(tokenizer):
    return build("gpt2", len(tokenizer))


@pytest.fixture(scope="session")
def make(tokenizer):
    return lambda kind, context=256: build(kind, len(tokenizer), context)
