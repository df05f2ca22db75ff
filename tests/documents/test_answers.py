"""Audits of language models that were fine-tuned on the answer alone, which stands at the end of a document."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import divulge as dv  # noqa: E402
from divulge.references import FineTune  # noqa: E402
from divulge.targets import CausalLM  # noqa: E402
from documents import conftest as small  # noqa: E402


def questions(seed, count, ending):
    rng = np.random.default_rng(seed)
    texts = [f"{question} {rng.choice(small.WORDS[:2])}{ending}" for question in small.sentences(seed, count, words=10)]
    return dv.Records(np.array(texts, dtype=object))


def tuned_on_answers(base, documents, n_ending, epochs=60):
    """Fine-tune a copy of the base on the last words alone: the answer, and what always follows it."""
    torch.manual_seed(0)
    network = copy.deepcopy(base.model)
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    rows = [[0, *base.tokenizer(text)["input_ids"]] for text in documents.x]
    tokens = torch.tensor([row + [0] * (max(map(len, rows)) - len(row)) for row in rows])
    labels = torch.full_like(tokens, -100)
    for row, length in enumerate(map(len, rows)):
        labels[row, length - 1 - n_ending : length] = tokens[row, length - 1 - n_ending : length]
    for _ in range(epochs):
        for batch in torch.randperm(len(tokens)).split(20):
            optimizer.zero_grad()
            network(tokens[batch], labels=labels[batch]).loss.backward()
            optimizer.step()
    return CausalLM(network.eval(), base.tokenizer, name="tuned", bos="add")


@pytest.mark.parametrize(("ending", "n_ending"), [("", 0), (" nu nu", 2)])
def test_the_default_finds_what_the_end_alone_shows_and_says_what_was_read(base, ending, n_ending):
    sets = {
        name: questions(seed, count, ending)
        for name, seed, count in (("members", 1, 80), ("nonmembers", 2, 80), ("population", 3, 80))
    }
    target = tuned_on_answers(base, sets["members"], n_ending)
    for references, name in ((None, "last-tokens"), (FineTune(base, count=0), "last-tokens-base")):
        result = dv.audit(target, **sets, references=references, fpr=(0.1,), seed=0)
        assert result[name].auc.low > max(0.5, result["loss"].auc.value)
        assert result.verdict.answer == "leak found"
        assert "the last" in result.verdict.text
