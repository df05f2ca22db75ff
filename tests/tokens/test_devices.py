"""Language models on several cards, on one that has too little memory, and prompts that all begin alike."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import cards  # noqa: E402
import divulge as dv  # noqa: E402
from divulge.signals import PreparedReCaLL  # noqa: E402
from divulge.targets import CausalLM, device_memory, torch_modules  # noqa: E402

TEXTS = ["the quick brown fox jumps over the lazy dog", "a model remembers what it has read", "hello world " * 9, "x y"]


@pytest.fixture(autouse=True)
def forget():
    yield
    device_memory.forget_sizes()


def answers(target):
    """Everything that is asked of a language model."""
    stats = target.tokens(TEXTS)
    encoded = target.encode(TEXTS)
    continuations = target.continuations([(0, *ids[:2]) for ids in encoded], [ids[2:] for ids in encoded])
    recall = PreparedReCaLL((TEXTS[0], TEXTS[1])).measure(target, dv.Records(TEXTS))
    numbers = [*stats.rows()["logp"], *stats.rows()["variance"], continuations.logp, recall]
    return np.concatenate(numbers), target.greedy([ids[:3] for ids in encoded], 5)


def refuse_above(module, n_rows):
    """Let a layer run out of memory where it is given more than so many rows."""
    forward, refusals = module.forward, []

    def run(rows, *args, **kwargs):
        if len(rows) > n_rows:
            refusals.append(len(rows))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return forward(rows, *args, **kwargs)

    module.forward = run
    return refusals


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_model_on_two_cards_answers_as_on_one_device(make, tokenizer, family):
    numbers, generated = answers(CausalLM(make(family), tokenizer, bos="add"))
    model = cards.spread(make(family))
    with cards.Cards():
        spread_numbers, spread_generated = answers(CausalLM(model, tokenizer, bos="add"))
    np.testing.assert_allclose(spread_numbers, numbers, atol=1e-5)
    assert spread_generated == generated


def test_a_layers_tensors_of_two_cards_never_meet_by_themselves():
    with cards.Cards():
        first, second = (torch.ones(2).to(torch.device("meta", index)) for index in (0, 1))
        with pytest.raises(RuntimeError, match="several devices"):
            first + second


@pytest.mark.parametrize("family", ["llama", "gemma"])
def test_where_memory_runs_out_fewer_are_run_at_once_and_scores_stay(make, tokenizer, family):
    numbers, generated = answers(CausalLM(make(family), tokenizer, bos="add"))
    model = make(family)
    batches, blocks = refuse_above(model.get_input_embeddings(), 1), refuse_above(model.get_output_embeddings(), 5)
    small_numbers, small_generated = answers(CausalLM(model, tokenizer, bos="add"))
    np.testing.assert_allclose(small_numbers, numbers, atol=1e-5)
    assert small_generated == generated
    assert batches
    assert blocks
    # What did not fit is not tried again.
    batches.clear()
    CausalLM(model, tokenizer, bos="add").tokens(TEXTS)
    assert not batches


def test_auto_names_the_same_device_for_language_models_and_networks(make, tokenizer, tmp_path, monkeypatch):
    make("gpt2").save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    moved = []
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, device: moved.append(device) or module)
    for is_there in (False, True):
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda is_there=is_there: is_there)
        CausalLM.load(str(tmp_path))
        assert moved.pop() == torch_modules.resolve_device("auto")
    assert torch_modules.resolve_device("auto") == torch.device("mps")
    CausalLM.load(str(tmp_path), device="cpu")
    assert moved.pop() == torch.device("cpu")
    with pytest.raises(dv.InputError, match="device: 'gpu' cannot be used here"):
        CausalLM.load(str(tmp_path), device="gpu")


def test_one_document_that_does_not_fit_is_an_error_that_says_what_helps(make, tokenizer):
    model = make("llama")
    refuse_above(model.get_input_embeddings(), 0)
    with pytest.raises(dv.InputError, match=r"memory: .*bfloat16"):
        CausalLM.tokens(_without_probe(model, tokenizer), TEXTS)


def _without_probe(model, tokenizer):
    forward = model.get_input_embeddings().forward
    del model.get_input_embeddings().forward
    target = CausalLM(model, tokenizer)
    model.get_input_embeddings().forward = forward
    return target


@pytest.mark.parametrize(("family", "budget"), [("llama", 1024), ("gpt2", 64), ("neox", 64), ("gemma", 64)])
def test_what_all_prompts_begin_with_is_read_once(make, tokenizer, family, budget):
    target = CausalLM(make(family), tokenizer, bos="add", budget=budget)
    (shared,), suffixes = target.encode(["a model remembers what it has read"]), target.encode(TEXTS)
    prefix = (0, *shared)
    assert len(prefix) > 16
    tokens_read = []
    embed = target.model.get_input_embeddings()
    embed.register_forward_hook(lambda module, inputs, output: tokens_read.append(inputs[0].numel()))
    together = target.continuations([prefix] * len(suffixes), suffixes)
    n_together = sum(tokens_read)
    tokens_read.clear()
    alone = [target.continuations([prefix], [suffix]) for suffix in suffixes]  # one prompt has nobody to share with
    np.testing.assert_allclose(together.logp, np.concatenate([each.logp for each in alone]), atol=2e-5)
    assert together.greedy.tolist() == [flag for each in alone for flag in each.greedy]
    if family != "gemma":  # which keeps a window of its keys
        assert n_together < sum(tokens_read) - len(prefix)


def test_recall_on_answers_reads_prompts_as_they_stand(make, tokenizer):
    """The likelihood is that of prompt and answer, one document after the other."""
    records = dv.from_prompts(["the quick", "a model "] * 3, [" brown fox", "remembers"] * 3, tokens="all")
    target = CausalLM(make("llama"), tokenizer, bos="add")
    recall = PreparedReCaLL(("hello world " * 3, "it has read"))
    values = recall.measure(target, records)
    alone = [recall.measure(target, records[[row]])[0] for row in range(len(records))]
    np.testing.assert_allclose(values, alone, atol=1e-5)
    plain = recall.measure(target, dv.Records(["the quick brown fox", "a model remembers"] * 3))
    np.testing.assert_allclose(values, plain, atol=1e-5)
