"""Sequence classifiers of Hugging Face against one document at a time, and audited whole."""

import re

import numpy as np
import pytest

import divulge as dv
from divulge import references, targets
from divulge.targets.text_classifiers import TextClassifier

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = [
    "hello",
    "the quick brown fox jumps over the lazy dog " * 2,
    "a",
    "hello world hello",
    "ünïcödé ☃",
    "x y z",
] * 3
ARCHITECTURES = ["bert", "roberta", "xlnet", "gpt2", "gpt2 without padding", "gpt2 padded by a word", "llama"]


def build(architecture, vocabulary, classes=3, context=64, **options):
    torch.manual_seed(0)
    t, small = transformers, {"vocab_size": vocabulary, "num_labels": classes, **options}
    wide = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    narrow = {"n_positions": context, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    places = {"max_position_embeddings": context}
    match architecture:
        case "bert":
            return t.BertForSequenceClassification(t.BertConfig(**small, **wide, **places)).eval()
        case "roberta":
            return t.RobertaForSequenceClassification(t.RobertaConfig(**small, **wide, **places)).eval()
        case "xlnet":
            sizes = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64}
            return t.XLNetForSequenceClassification(t.XLNetConfig(**small, **sizes)).eval()
        case "llama":
            config = t.LlamaConfig(**small, **wide, **places, pad_token_id=0, bos_token_id=0, eos_token_id=0)
            return t.LlamaForSequenceClassification(config).eval()
    padding = {"gpt2": 0, "gpt2 without padding": None, "gpt2 padded by a word": 40}[architecture]
    return t.GPT2ForSequenceClassification(t.GPT2Config(**small, **narrow, pad_token_id=padding)).eval()


@pytest.fixture
def classifier(tokenizer):
    return lambda kind, **options: TextClassifier(build(kind, len(tokenizer)), tokenizer, **options)


@pytest.mark.parametrize("budget", [1, 40, 4096])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_are_those_of_one_document_at_a_time(classifier, tokenizer, architecture, budget):
    target = classifier(architecture, budget=budget)
    assert isinstance(target, targets.GivesLogits)
    assert target._can_batch == (architecture not in ("xlnet", "gpt2 without padding"))
    logits = target.logits(dv.Records(TEXTS))
    with torch.no_grad():
        want = [target.model(torch.tensor([tokenizer(text)["input_ids"]])).logits[0].numpy() for text in TEXTS]
    assert logits.dtype == np.float64
    np.testing.assert_allclose(logits, want, atol=1e-5)
    assert target.labels(dv.Records(TEXTS)).tolist() == np.argmax(want, axis=1).tolist()


def test_the_loss_is_cross_entropy(classifier):
    target, y = classifier("bert"), np.arange(len(TEXTS)) % 3
    logits = target.logits(dv.Records(TEXTS))
    want = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]
    np.testing.assert_allclose(target.loss(dv.Records(TEXTS, y)), want, atol=1e-9)
    with pytest.raises(dv.InputError, match=r"records\.y: labels must be below 3"):
        target.loss(dv.Records(TEXTS, y + 1))
    with pytest.raises(dv.InputError, match="a loss needs labels"):
        target.loss(dv.Records(TEXTS))


@pytest.mark.parametrize(("architecture", "max_length"), [("bert", 64), ("roberta", 62), ("gpt2", 64)])
def test_documents_longer_than_the_context_are_cut_and_said(classifier, tokenizer, architecture, max_length):
    target = classifier(architecture)
    assert target.length == max_length
    long = "the quick brown fox " * 100
    ids = tokenizer(long)["input_ids"][:max_length]
    with torch.no_grad():
        want = target.model(torch.tensor([ids])).logits[0].numpy()
    records = dv.Records(["a", long])
    np.testing.assert_allclose(target.logits(records)[1], want, atol=1e-5)
    assert target.notes(records) == (
        f"1 of 2 documents are longer than {max_length} tokens; the rest of them is not read",
    )
    assert target.notes(records[:1]) == ()
    assert classifier(architecture, length=8).logits(records).shape == (2, 3)
    with pytest.raises(dv.InputError, match=f"length: the model takes at most {max_length} tokens, got 65"):
        classifier(architecture, length=65)


def test_what_is_no_classifier_of_documents_is_refused(make, classifier, tokenizer):
    with pytest.raises(dv.InputError, match="a sequence classifier of transformers is needed, got GPT2LMHeadModel"):
        TextClassifier(make("gpt2"), tokenizer)
    with pytest.raises(dv.InputError, match=r"two or more classes .* got 1 \(regression\)"):
        TextClassifier(build("bert", len(tokenizer), classes=1), tokenizer)
    several = build("bert", len(tokenizer), problem_type="multi_label_classification")
    with pytest.raises(dv.InputError, match="multi_label_classification"):
        TextClassifier(several, tokenizer)
    target = classifier("bert")
    with pytest.raises(dv.InputError, match="documents are needed, got numbers"):
        target.logits(dv.Records([[1.0]]))
    with pytest.raises(dv.InputError, match=r"documents without a token: 1 \(first: row 1, counted from 0\)"):
        target.logits(dv.Records(["a", ""]))
    with pytest.raises(dv.InputError, match=r"tokenizer: it makes token .* they do not belong together"):
        TextClassifier(build("bert", 80), tokenizer).logits(dv.Records(["hello world"]))


def test_a_folder_and_its_key(classifier, tokenizer, tmp_path):
    target = classifier("bert")
    target.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = targets.load(str(tmp_path), device="cpu")
    assert isinstance(loaded, TextClassifier)
    np.testing.assert_array_equal(loaded.logits(dv.Records(TEXTS)), target.logits(dv.Records(TEXTS)))
    assert loaded.key()["weights"] == target.key()["weights"]
    half = targets.load(str(tmp_path), device="cpu", dtype="bfloat16")
    assert np.abs(half.logits(dv.Records(TEXTS)) - target.logits(dv.Records(TEXTS))).max() < 0.05
    assert all(value.dtype == np.float32 for value in half.weights().values())


def documents(n, seed):
    """Documents of two classes that a network has to learn by heart."""
    rng = np.random.default_rng(seed)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "model", "read", "hello", "world"]
    return dv.Records([" ".join(rng.choice(words, 8)) for _ in range(n)], rng.integers(0, 2, n))


def test_an_audit_of_a_classifier_that_learnt_its_documents_by_heart(tokenizer):
    def train(records, seed):
        network = build("bert", len(tokenizer), classes=2, hidden_dropout_prob=0.0)
        torch.manual_seed(seed)
        optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
        batch = tokenizer(list(records.x), padding=True, return_tensors="pt")
        for _ in range(25):
            loss = network(
                batch["input_ids"], attention_mask=batch["attention_mask"], labels=torch.from_numpy(records.y)
            ).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return TextClassifier(network, tokenizer)

    tokenizer.pad_token = "<s>"
    members, nonmembers, population = (documents(n, seed) for n, seed in ((60, 1), (60, 2), (80, 3)))
    result = dv.audit(
        train(members, 0),
        members=members,
        nonmembers=nonmembers,
        population=population,
        recipes=["loss", "lira"],
        references=references.Custom(train, count=2),
        fpr=[0.1],
    )
    assert result["loss"].auc.low > 0.5
    model = result.about.settings.target
    assert re.fullmatch(r"\w+ForSequenceClassification( from .+)?, weights [0-9a-f]+", model), model


def test_an_audit_says_how_many_documents_were_cut(tokenizer):
    target = TextClassifier(build("bert", len(tokenizer), classes=2), tokenizer, length=6)
    sets = [documents(n, seed) for n, seed in ((20, 1), (20, 2), (40, 3))]
    run = dv.audit(target, members=sets[0], nonmembers=sets[1], population=sets[2], recipes=["loss"], fpr=[0.2], seed=0)
    assert "target: 80 of 80 documents are longer than 6 tokens; the rest of them is not read" in run.warnings


@pytest.mark.parametrize(("stated", "length"), [(2, 4), (4, 4), (5, 5), (50, 50), (1e30, 64)])
def test_the_longest_input_is_the_smaller_of_what_model_and_tokenizer_state(tokenizer, monkeypatch, stated, length):
    """A tokenizer that states fewer than four tokens, which leave no room beside its own marks, is not believed."""
    monkeypatch.setattr(tokenizer, "model_max_length", int(stated))
    assert TextClassifier(build("bert", len(tokenizer)), tokenizer).length == length
