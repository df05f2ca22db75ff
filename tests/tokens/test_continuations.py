"""Continuations against one token at a time in double precision, and against what is really drawn."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.targets import CausalLM, Decoding, GivesContinuations

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = ["the quick brown fox jumps over the lazy dog", "a model remembers what it has read", "ünïcödé ☃ 😀 ok"]


def filtered(logits, decoding):
    """Probabilities after temperature, top k and top p, by their definitions."""
    x = logits / decoding.temperature
    p = np.exp(x - x.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if decoding.top_k is not None:
        p[order[decoding.top_k :]] = 0
        p /= p.sum()
    if decoding.top_p is not None:
        reached = np.cumsum(p[order])
        # A token is kept if those above it have not reached the share yet.
        p[order[1:][reached[:-1] >= decoding.top_p]] = 0
        p /= p.sum()
    return p


def one_by_one(model, prefix, suffix, decoding):
    """Log-probabilities and greedy flags of a suffix, token by token."""
    tokens, logs, greedy = list(prefix), [], []
    for token in suffix:
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0, -1].double().numpy()
        with np.errstate(divide="ignore"):
            logs.append(np.log(filtered(logits, decoding)[token]))
        greedy.append(int(logits.argmax()) == token)
        tokens.append(token)
    return np.array(logs), np.array(greedy)


DECODINGS = [
    Decoding(),
    Decoding(temperature=0.5),
    Decoding(top_k=7),
    Decoding(top_p=0.6),
    Decoding(temperature=1.7, top_k=100, top_p=0.9),
    Decoding(top_k=10**6, top_p=1.0),
]


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "gemma", "cohere"])
def test_suffixes_equal_the_naive_ones(make, tokenizer, architecture):
    target = CausalLM(make(architecture), tokenizer, bos="add", budget=64)
    assert isinstance(target, GivesContinuations)
    encoded = target.encode(TEXTS)
    cuts = [(ids, position) for ids in encoded for position in (0, 3, len(ids) - 1)][::2]
    prefixes, suffixes = [(0, *ids[:position]) for ids, position in cuts], [ids[position:] for ids, position in cuts]
    for decoding in DECODINGS if architecture == "gpt2" else DECODINGS[:1]:
        continuations = target.continuations(prefixes, suffixes, decoding=decoding)
        assert continuations.lengths.tolist() == [len(part) for part in suffixes]
        expected = [one_by_one(target.model, *pair, decoding) for pair in zip(prefixes, suffixes, strict=True)]
        logs, greedy = (np.concatenate(column) for column in zip(*expected, strict=True))
        assert np.array_equal(np.isinf(continuations.logp), np.isinf(logs))
        is_possible = np.isfinite(logs)
        assert np.abs(continuations.logp[is_possible] - logs[is_possible]).max() < 1e-4
        assert np.array_equal(continuations.greedy, greedy)
        assert np.allclose(continuations.log_p, [part[0].sum() for part in expected], atol=1e-3)
        assert continuations.verbatim.tolist() == [bool(part[1].all()) for part in expected]


def test_tokens_alone_are_the_statistics_of_the_document(make, tokenizer):
    """Prefix and suffix are cut between two tokens of the whole document: together they are its statistics."""
    target = CausalLM(make("gpt2"), tokenizer, bos="add")
    stats = target.tokens(TEXTS, vocabulary=False).rows()["logp"]
    for ids, document_logp in zip(target.encode(TEXTS), stats, strict=True):
        for i in range(len(ids)):
            continuations = target.continuations([(0, *ids[:i])], [ids[i:]])
            assert np.allclose(continuations.logp, document_logp[i:], atol=1e-4)


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(temperature=0.3, top_k=4), Decoding(0.5, top_p=0.5)])
def test_probabilities_are_the_frequencies_of_what_is_drawn(tokenizer, decoding):
    """`transformers` draws 4,000 pairs of 6 tokens; each share within 4.5 standard deviations (fails in < 0.1 %)."""
    import transformers

    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=6, n_positions=8, n_embd=16, n_layer=1, n_head=2, initializer_range=0.8)
    target = CausalLM(transformers.GPT2LMHeadModel(config), tokenizer, bos="none")
    torch.manual_seed(2)
    count = 4000
    samples = target.model.generate(
        torch.tensor([[1, 2]]).repeat(count, 1), do_sample=True, max_new_tokens=2, min_new_tokens=2, pad_token_id=0,
        temperature=decoding.temperature, top_k=decoding.top_k or 0, top_p=decoding.top_p or 1.0, eos_token_id=None,
    )[:, 2:].numpy()  # fmt: skip
    pairs = [(a, b) for a in range(6) for b in range(6)]
    p = np.exp(target.continuations([(1, 2)] * 36, pairs, decoding=decoding).log_p)
    assert abs(p.sum() - 1) < 1e-5
    frequencies = np.array([(samples == pair).all(1).mean() for pair in pairs])
    assert not frequencies[p == 0].any()
    assert (np.abs(frequencies - p) <= 4.5 * np.sqrt(p * (1 - p) / count) + 1e-9).all()


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "neox"])
def test_greedy_is_the_likeliest_token_again_and_again(make, tokenizer, architecture):
    target = CausalLM(make(architecture), tokenizer, bos="none", budget=64)
    prefixes = [ids[:length] for ids in target.encode(TEXTS) for length in (1, 4, 4, 6)]
    continuation = target.greedy(prefixes, 9)
    for prefix, generated in zip(prefixes, continuation, strict=True):
        assert len(generated) == 9
        assert one_by_one(target.model, prefix, generated, Decoding())[1].all()
        assert target.continuations([prefix], [generated]).verbatim.all()


def test_a_model_that_finds_all_tokens_alike_repeats_nothing(make, tokenizer):
    """Of equal tokens only the first is the greedy one: such a model gives nothing back."""
    model = make("gpt2")
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    continuations = CausalLM(model, tokenizer).continuations([(5, 6)], [(7, 8, 9)])
    assert not continuations.verbatim.any()
    assert np.allclose(continuations.logp, -np.log(len(tokenizer)))


def test_what_stands_before_a_prompt_is_what_the_policy_puts_there(make, tokenizer):
    model = make("gpt2")
    starts = {bos: CausalLM(model, tokenizer, bos=bos).start for bos in ("tokenizer", "add", "none")}
    assert starts == {"tokenizer": (), "add": (0,), "none": ()}
    from tokenizers import processors

    changed_tokenizer = copy.deepcopy(tokenizer)
    changed_tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A <s>", special_tokens=[("<s>", 0)]
    )
    target = CausalLM(model, changed_tokenizer)
    assert target.start == (0,)
    assert target.encode(["hello"]) == [tuple(tokenizer("hello")["input_ids"])]


def test_text_of_tokens_is_the_text(make, tokenizer):
    from tokenizers import decoders

    byte_tokenizer = copy.deepcopy(tokenizer)
    byte_tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    target = CausalLM(make("gpt2"), byte_tokenizer)
    assert [target.decode(ids) for ids in target.encode(TEXTS)] == TEXTS


def test_bad_input_is_refused_by_name(make, tokenizer):
    target = CausalLM(make("gpt2"), tokenizer, length=8)
    for prefixes, suffixes, message in (
        ([(1,)], [], "suffixes: 1 are needed"),
        ([()], [(1,)], "prefixes: at least 1 token"),
        ([(1,)], [()], "suffixes: at least 1 token"),
        ([(1,)], [(10**6,)], "the model knows 300 tokens"),
        ([(1,)], [(-1,)], "tokens are numbers from 0 on"),
        ([(1,) * 5], [(1,) * 4], "at most 8"),
    ):
        with pytest.raises(dv.InputError, match=message):
            target.continuations(prefixes, suffixes)
    with pytest.raises(dv.InputError, match="decoding: "):
        target.continuations([(1,)], [(1,)], decoding="greedy")
    with pytest.raises(dv.InputError, match="texts: "):
        target.encode("hello")
    assert len(target.continuations([], [])) == 0
    assert target.greedy([], 3) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
    ],
)
def test_decodings_that_are_none(settings, message):
    with pytest.raises(dv.InputError, match=f"{message}: must"):
        Decoding(**settings)


def test_decoding_strips_no_space_before_a_point():
    """Word pieces, whose tokenizers would tidy up what the model had read."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "he": 1, "said": 2, ".": 3, "n't": 4}
    raw = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]"))
    raw.decoder = tokenizers.decoders.WordPiece(cleanup=False)
    target = SimpleNamespace(tokenizer=transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]"))
    assert CausalLM.decode(target, [1, 4, 2, 3]) == "he n't said ."
