"""A language of forty words, a tiny model of it, and a fine-tune that has learnt its documents too well."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import divulge as dv  # noqa: E402
from divulge.references import FineTune  # noqa: E402
from divulge.targets import CausalLM  # noqa: E402

WORDS = [a + b for a in "bdfgklmn" for b in ("a", "e", "i", "o", "u")]


def sentences(seed, count, words=14):
    """Random words: they can only be remembered."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, words + int(rng.integers(0, 8)))) for _ in range(count)]


def records(seed, count):
    return dv.Records(np.array(sentences(seed, count), dtype=object))


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    raw = Tokenizer(models.WordLevel({"<s>": 0, "?": 1, **{word: 2 + i for i, word in enumerate(WORDS)}}, "?"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="?")


def network(width=32, context=64):
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=42, n_positions=context, n_embd=width, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
        )
    ).eval()


@pytest.fixture(scope="session")
def base():
    return CausalLM(network(), tokenizer(), name="base", bos="add")


@pytest.fixture(scope="session")
def folder(base, tmp_path_factory):
    """The base as a Hugging Face folder."""
    path = tmp_path_factory.mktemp("base")
    base.model.save_pretrained(path)
    base.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def tuning():
    """How everything here is fine-tuned."""

    def make(base, **more):
        return FineTune(base, **{"count": 4, "epochs": 12, "lr": 5e-3, "engine": "serial", "device": "cpu"} | more)

    return make


@pytest.fixture(scope="session")
def sets():
    return {"members": records(1, 60), "nonmembers": records(2, 100), "population": records(3, 160)}


@pytest.fixture(scope="session")
def target(base, tuning, sets):
    return tuning(base).train_model(sets["members"], seed=5)
