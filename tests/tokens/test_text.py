"""Causal language models against one document at a time in double precision."""

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.targets.language_models import CausalLM, batch_windows, reduce_logits, split_windows
from divulge.targets.token_statistics import PER_TOKEN, GivesTokens

torch = pytest.importorskip("torch")

TEXTS = ["hello world " * 3, "", "a", "the quick brown fox jumps over the lazy dog " * 3, "x", "ünïcödé ☃"]


def naive(model, ids):
    """Every statistic of every predicted token, from all logits at once."""
    if len(ids) < 2:
        return np.empty((len(PER_TOKEN), 0))
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1].double()
    logp = logits.log_softmax(-1)
    p, rows, y = logp.exp(), torch.arange(len(ids) - 1), torch.tensor(ids[1:])
    own_logp, entropy = logp[rows, y], -(p * logp).sum(-1)
    other_probabilities = p.clone()
    other_probabilities[rows, y] = 0
    return torch.stack(
        [
            own_logp,
            entropy,
            (p * logp**2).sum(-1) - entropy**2,
            -(1 - own_logp.exp()) * own_logp - (other_probabilities * torch.log1p(-other_probabilities)).sum(-1),
            2 * (p**0.5).sum(-1).log(),
            -(p**2).sum(-1).log(),
            -logp.max(-1).values,
        ]
    ).numpy()


def columns(stats):
    rows = stats.rows()
    return [np.stack([rows[name][i] for name in PER_TOKEN]) for i in range(len(stats))]


@pytest.mark.parametrize("bos", ["tokenizer", "add", "none"])
@pytest.mark.parametrize("architecture", ["gpt2", "llama", "neox", "gemma", "cohere"])
def test_statistics_equal_the_naive_ones(make, tokenizer, architecture, bos):
    model = make(architecture)
    target = CausalLM(model, tokenizer, bos=bos, budget=128)
    assert isinstance(target, GivesTokens)
    assert target._split  # also for families that scale or cap their logits
    for text, actual in zip(TEXTS, columns(target.tokens(TEXTS)), strict=True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        want = naive(model, [0, *ids] if bos == "add" else ids)
        assert actual.shape == want.shape
        assert np.abs(actual - want).max(initial=0) < 1e-5


def test_a_head_that_is_not_understood_falls_back_to_the_models_own_logits(make, tokenizer):
    model = make("gpt2")
    plain = CausalLM(model, tokenizer).tokens(TEXTS)
    forward = model.forward

    def shifted(*args, **options):
        result = forward(*args, **options)
        result.logits = result.logits * 2
        return result

    model.forward = shifted
    target = CausalLM(model, tokenizer)
    assert not target._split
    statistics = columns(target.tokens(TEXTS))
    assert np.abs(statistics[3] - naive(model, tokenizer(TEXTS[3])["input_ids"])).max() < 1e-5
    assert np.abs(statistics[3] - columns(plain)[3]).max() > 1e-3


def test_log_probabilities_alone_are_those_of_the_whole(make, tokenizer):
    target = CausalLM(make("llama"), tokenizer)
    with_vocabulary, without_vocabulary = target.tokens(TEXTS), target.tokens(TEXTS, vocabulary=False)
    assert np.abs(with_vocabulary.logp - without_vocabulary.logp).max() < 1e-5
    assert without_vocabulary.entropy is None
    assert without_vocabulary.lengths.tolist() == with_vocabulary.lengths.tolist()


def test_statistics_of_one_block_are_exact_also_where_one_token_has_all():
    logits = torch.randn(40, 500, generator=torch.Generator().manual_seed(0)) * 3
    logits[::4, 0] = 60.0  # so likely that every other logarithm is far from zero
    target = torch.where(torch.arange(40) % 4 == 0, 0, torch.arange(40) % 3)
    logp = logits.double().log_softmax(-1)
    p, own_logp = logp.exp(), logp[torch.arange(40), target]
    entropy = -(p * logp).sum(-1)
    other_probabilities = p.scatter(1, target[:, None], 0.0)
    want = torch.stack(
        [
            own_logp,
            entropy,
            (p * (logp + entropy[:, None]) ** 2).sum(-1),
            -(1 - own_logp.exp()) * own_logp - (other_probabilities * torch.log1p(-other_probabilities)).sum(-1),
            2 * p.sqrt().sum(-1).log(),
            -(p**2).sum(-1).log(),
            -logp.amax(-1),
        ]
    )
    assert ((reduce_logits(logits, target) - want).abs() / want.abs().clamp(min=1)).max() < 1e-5


@pytest.mark.parametrize(("length", "stride"), [(16, 8), (16, 15), (10, 1)])
def test_long_documents_are_scored_in_windows_each_token_once(make, tokenizer, length, stride):
    model = make("gpt2")
    text = TEXTS[3] * 2
    ids = tokenizer(text)["input_ids"]
    columns_read = columns(CausalLM(model, tokenizer, length=length, stride=stride).tokens(["a", text]))[1]
    assert columns_read.shape[1] == len(ids) - 1
    for place in range(1, len(ids)):
        # The window that first reaches a token gives it all the context it has.
        start = 0 if place < length else -(-(place - length + 1) // stride) * stride
        want = naive(model, ids[start : place + 1])[0, -1]
        assert abs(columns_read[0, place - 1] - want) < 1e-5


def test_head_truncation_scores_the_beginning_only(make, tokenizer):
    model = make("gpt2")
    columns_read = columns(CausalLM(model, tokenizer, length=16, truncation="head").tokens([TEXTS[3]]))[0]
    assert np.abs(columns_read - naive(model, tokenizer(TEXTS[3])["input_ids"][:16])).max() < 1e-5


def test_batches_stay_within_the_budget_and_lose_nothing():
    rng = np.random.default_rng(0)
    windows = [w for i in range(50) for w in split_windows(i, tuple(range(rng.integers(0, 90))), 32, 16)]
    result = list(batch_windows(windows, 100))
    assert sorted(map(id, windows)) == sorted(id(w) for batch in result for w in batch)
    assert all(len(batch) * max(len(w.tokens) for w in batch) <= 100 for batch in result)


def test_neither_batch_nor_order_changes_a_score(make, tokenizer):
    target = CausalLM(make("llama"), tokenizer, budget=512)
    one_at_a_time = CausalLM(make("llama"), tokenizer, budget=1)
    batched, turned = target.tokens(TEXTS), target.tokens(TEXTS[::-1])
    for expected, reversed_order, singly in zip(
        columns(batched), columns(turned)[::-1], columns(one_at_a_time.tokens(TEXTS)), strict=True
    ):
        assert np.abs(expected - reversed_order).max(initial=0) < 1e-5
        assert np.abs(expected - singly).max(initial=0) < 1e-5


def test_half_precision_is_cast_up_before_the_softmax(make, tokenizer):
    exact = CausalLM(make("llama"), tokenizer).tokens(TEXTS)
    half = CausalLM(make("llama").to(torch.bfloat16), tokenizer).tokens(TEXTS)
    assert abs(exact.logp.mean() - half.logp.mean()) < 2e-3
    assert half.logp.dtype == np.float64


def test_key_changes_with_whatever_changes_a_score(make, tokenizer):
    model = make("gpt2")
    base = CausalLM(model, tokenizer).key()
    changed_keys = [
        CausalLM(make("gpt2", 128), tokenizer).key(),
        CausalLM(model, tokenizer, bos="add").key(),
        CausalLM(model, tokenizer, length=32).key(),
        CausalLM(model, tokenizer, stride=7).key(),
        CausalLM(model, tokenizer, truncation="head").key(),
        CausalLM(make("gpt2").half(), tokenizer).key(),
    ]
    assert all(changed_key != base for changed_key in changed_keys)
    assert CausalLM(make("gpt2"), tokenizer).key() == base


def test_loading_from_a_folder(make, tokenizer, tmp_path):
    model = make("gpt2")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    tokens = CausalLM.load(f"hf:{tmp_path}", device="cpu").tokens(TEXTS)
    assert np.array_equal(tokens.logp, CausalLM(model, tokenizer).tokens(TEXTS).logp)
    with pytest.raises(InputError, match="cannot be loaded"):
        CausalLM.load(f"hf:{tmp_path / 'nothing'}")
    with pytest.raises(InputError, match="did you mean 'float16'"):
        CausalLM.load(f"hf:{tmp_path}", dtype="float-16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bos": "always"}, "bos"),
        ({"truncation": "tail"}, "truncation"),
        ({"length": 1000}, "at most 256 tokens"),
        ({"length": 16, "stride": 16}, "below the length 16"),
        ({"budget": 0}, "budget"),
    ],
)
def test_options_are_checked(model, tokenizer, options, message):
    with pytest.raises(InputError, match=message):
        CausalLM(model, tokenizer, **options)


def test_texts_must_be_texts(model, tokenizer):
    with pytest.raises(InputError, match="sequence of strings"):
        CausalLM(model, tokenizer).tokens("one string")
