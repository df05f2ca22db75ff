"""ReCaLL against its formula, one document at a time."""

import numpy as np
import pytest

import divulge as dv
from divulge.signals import PreparedReCaLL, ReCaLL
from divulge.targets import CausalLM

torch = pytest.importorskip("torch")

TEXTS = ["the quick brown fox", "a model remembers what it has read", "x", "hello world " * 40]


def mean_logp(model, ids, start):
    """Mean log-probability of the tokens from ``first`` on."""
    with torch.no_grad():
        logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return np.mean([logp[i - 1, ids[i]].item() for i in range(start, len(ids))])


@pytest.mark.parametrize("bos", ["add", "none"])
def test_it_is_the_ratio_of_two_means_over_the_same_tokens(make, tokenizer, bos):
    target = CausalLM(make("gpt2", 64), tokenizer, bos=bos)
    prepared = ReCaLL(shots=2).prepare(["hello world", "the lazy dog", "it has read"], seed=3)
    before = [token for ids in target.encode(prepared.before) for token in ids]
    assert 0 < len(before) <= 32
    values = prepared.measure(target, dv.Records(TEXTS))
    start = [0] if bos == "add" else []
    for text, ids, value in zip(TEXTS, target.encode(TEXTS), values, strict=True):
        ids = ids[: 64 - len(start) - len(before)]
        if len(ids) + len(start) < 2:
            assert text == "x"
            assert np.isnan(value)
            continue
        skipped = 0 if start else 1
        plain = mean_logp(target.model, [*start, *ids], len(start) + skipped)
        conditional = mean_logp(target.model, [*start, *before, *ids], len(start) + len(before) + skipped)
        assert value == pytest.approx(conditional / plain, abs=1e-4)


def test_the_same_seed_draws_the_same_shots():
    population = [f"text {i}" for i in range(50)]
    prepared, prepared_again, other_seed = (ReCaLL(5).prepare(population, seed) for seed in (1, 1, 2))
    assert prepared == prepared_again != other_seed
    assert len(set(prepared.before)) == 5
    assert prepared.name == "recall"
    assert ReCaLL(5).prepare(dv.Records(population), 1) == prepared


def test_shots_that_do_not_fit_are_left_out(make, tokenizer):
    target = CausalLM(make("gpt2", 16), tokenizer, bos="add")
    short = PreparedReCaLL(("the quick brown fox jumps over", "it has"))
    without_long = PreparedReCaLL(("it has",))
    records = dv.Records(["a model remembers"])
    assert short.measure(target, records) == without_long.measure(target, records)
    assert np.isfinite(PreparedReCaLL(("hello world " * 40,)).measure(target, records)).all()


def test_bad_input_is_refused_by_name(make, tokenizer):
    with pytest.raises(dv.InputError, match="shots: must be at least 1"):
        ReCaLL(0)
    with pytest.raises(dv.InputError, match="population: at least 8"):
        ReCaLL().prepare(["a"])
    with pytest.raises(dv.InputError, match="gives no continuations"):
        PreparedReCaLL(("a",)).measure(object(), dv.Records(["b"]))
    target = CausalLM(make("gpt2"), tokenizer, bos="add", length=2, stride=1)
    with pytest.raises(dv.InputError, match="recall: "):
        PreparedReCaLL(("a",)).measure(target, dv.Records(["hello"]))
    with pytest.raises(dv.InputError, match="recall: no token"):
        PreparedReCaLL(("",)).measure(CausalLM(make("gpt2"), tokenizer), dv.Records(["hello"]))
