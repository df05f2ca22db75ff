"""What users and their models may do to an audit of documents, and what it must not do to them."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import divulge as dv  # noqa: E402
from divulge.targets import CausalLM  # noqa: E402
from documents import conftest as small  # noqa: E402


def audited(target, sets, **more):
    return dv.audit(target, **sets, **{"fpr": (0.1,), "seed": 0, "recipes": ("loss",)} | more)


@pytest.fixture(scope="module")
def small_sets():
    return {"members": small.records(1, 30), "nonmembers": small.records(2, 40), "population": small.records(3, 60)}


class CustomModel:
    """A language model of somebody's own; ``spoil`` changes its answers."""

    def __init__(self, target, spoil):
        self.target, self.spoil = target, spoil

    def tokens(self, texts, *, vocabulary=True):
        return self.spoil(self.target, texts, vocabulary)

    def key(self):
        return {"model": "own"}


class TestScores:
    def test_what_else_is_asked_changes_no_bit(self, target, base, tuning, small_sets):
        """Min-K%++ needs the whole distribution, for which the target is asked in another way."""
        names, references = ("loss", "zlib", "base-ratio", "wbc"), tuning(base, count=0)
        expected = audited(target, small_sets, recipes=names, references=references)
        with_others = audited(target, small_sets, recipes=("min-k++", *names), references=references)
        for name in names:
            np.testing.assert_array_equal(expected.scores[name], with_others.scores[name])
            np.testing.assert_array_equal(expected.calibration[name], with_others.calibration[name])

    def test_rounding_decides_nothing_between_equal_models(self, base, tuning, small_sets):
        """Where the target is the base, no window is likelier under it."""
        result = audited(base, small_sets, recipes=("min-k++", "base-ratio", "wbc"), references=tuning(base, count=0))
        assert not result.scores["wbc"].any()
        assert not result.scores["base-ratio"].any()


class TestTokenizers:
    def merge_tokens(self, base, merged):
        """The base, whose tokenizer takes two neighbouring words for one."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        words = {"<s>": 0, "?": 1, **{word: i for i, word in enumerate("abcd ", 2)}, merged: 7}
        raw = Tokenizer(models.BPE(words, [tuple(merged)], unk_token="?"))
        raw.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="?")
        return CausalLM(base.model, tokenizer, name=merged, bos="add")

    @pytest.mark.parametrize("name", ["windows"])
    def test_a_base_with_as_many_tokens_at_other_places_is_refused(self, base, tuning, name):
        sets = {
            key: dv.Records([f"{'a ' * (1 + i % 7)}{word}ab cd{' d' * (i // 7)}" for i in range(40)])
            for key, word in (("members", "a"), ("nonmembers", "b"), ("population", "c"))
        }
        target_model, base_model = (self.merge_tokens(base, merged) for merged in ("ab", "cd"))
        lengths = [target.tokens(list(sets["members"].x)).lengths for target in (target_model, base_model)]
        np.testing.assert_array_equal(*lengths)
        with pytest.raises(dv.InputError, match=r"elsewhere \(first: candidate row 1 of members, token \d\)"):
            audited(target_model, sets, recipes=(name,), references=tuning(base_model, count=1))
        renamed = self.merge_tokens(base, "ab")
        renamed.tokenizer.add_tokens(["never"])
        run = audited(target_model, sets, recipes=("wbc",), references=tuning(renamed, count=0))
        assert not run.scores["wbc"].any()


class TestPool:
    def test_another_configuration_is_another_base(self, base, tuning, small_sets, tmp_path):
        """Equal weights under other dropout are fine-tuned into other models."""
        config = small.network().config
        config.resid_pdrop = config.attn_pdrop = 0.0
        model = transformers.GPT2LMHeadModel(config)
        model.load_state_dict(base.model.state_dict())
        rows = np.random.default_rng(0).random((2, 60)) < 0.5
        outputs = [
            tuning(base_variant, count=2, epochs=1)
            .fit(small_sets["population"], rows, seed=0, observe=[small_sets["members"]], pool=tmp_path / "pool")
            .outputs[0]
            for base_variant in (base, replace(base, model=model))
        ]
        assert len(list((tmp_path / "pool").glob("*.safetensors"))) == 4
        assert not np.array_equal(*outputs)

    def test_a_saved_base_is_the_same(self, base, folder):
        reloaded = CausalLM.load(str(folder), device="cpu")
        assert reloaded.key()["weights"] == base.key()["weights"]


class TestFineTune:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_rounds_away_no_step(self, base, tuning, small_sets, dtype):
        half = replace(base, model=small.network().to(dtype))
        texts = list(small_sets["members"].x)
        gains = [
            tuning(base_variant, epochs=2, lr=5e-5).train_model(small_sets["members"], seed=1).tokens(texts).logp.mean()
            - base_variant.tokens(texts).logp.mean()
            for base_variant in (base, half)
        ]
        assert gains[1] == pytest.approx(gains[0], rel=0.1)

    def test_longer_stretches_than_the_base_takes(self, base, tuning):
        with pytest.raises(dv.InputError, match="length: the base takes at most 64 tokens, got 65"):
            tuning(base, length=65).load_base()


class TestWhatIsSaid:
    def test_many_short_documents_of_a_person_are_no_long_one(self, target):
        people = {
            name: dv.by_person(small.sentences(k, 8 * n), [f"{name} {i // 8}" for i in range(8 * n)])
            for k, (name, n) in enumerate({"members": 20, "nonmembers": 30, "population": 20}.items())
        }
        assert not any("context" in warning for warning in audited(target, people).about.warnings)

    def test_beginnings_alone(self, target, small_sets):
        short = replace(target, length=8, stride=4, truncation="head")
        assert any(
            "only their beginning was scored" in warning for warning in audited(short, small_sets).about.warnings
        )


def _lacks_one(target, texts, vocabulary):
    return target.tokens(texts[1:], vocabulary=vocabulary)


def _a_list(target, texts, vocabulary):
    return [0.0] * len(texts)


def _raises(target, texts, vocabulary):
    raise KeyError("no")


def _above_zero(target, texts, vocabulary):
    stats = target.tokens(texts, vocabulary=vocabulary)
    return replace(stats, logp=stats.logp + 10)


def _nan(target, texts, vocabulary):
    stats = target.tokens(texts, vocabulary=vocabulary)
    return replace(stats, logp=np.append(stats.logp[:-1], np.nan))


class TestBadInput:
    @pytest.mark.parametrize(
        ("spoil", "says"),
        [
            (_lacks_one, "130 documents are needed, got 129"),
            (_a_list, r"targets\.TokenStatistics is needed"),
            (_raises, "your code raised KeyError"),
            (_above_zero, "at most 0"),
            (_nan, "NaN or infinite"),
        ],
    )
    def test_a_target_of_ones_own(self, target, small_sets, spoil, says):
        with pytest.raises(dv.InputError, match=says):
            audited(CustomModel(target, spoil), small_sets)

    def test_half_a_surrogate_pair(self):
        with pytest.raises(dv.InputError, match="half of a surrogate pair, which is no character, in row 1"):
            dv.Records(["whole", "half \ud800"])

    @pytest.mark.parametrize("missing", [None, float("nan")])
    def test_where_half_of_the_texts_are_missing_none_is_shown(self, missing):
        for texts in (["private", missing], np.array([missing, "private", missing], dtype=object)):
            with pytest.raises(dv.InputError, match=r"x: texts are needed, got (None|nan) in row \d"):
                dv.Records(texts)

    @pytest.mark.parametrize("missing", [None, float("nan"), 3])
    def test_missing_texts_are_named_by_row_and_no_text_is_shown(self, missing):
        for texts in (["private", missing, "own"], np.array(["private", missing, "own"], dtype=object)):
            with pytest.raises(dv.InputError, match="in row 1") as raised:
                dv.Records(texts)
            assert "private" not in str(raised.value)

    @pytest.mark.parametrize("name", [None, float("nan"), " ", True])
    def test_documents_of_nobody(self, name):
        with pytest.raises(dv.InputError, match=r"people: .* in row 1"):
            dv.by_person(["a", "b"], ["ann", name])


@pytest.mark.parametrize("modules", [("embed_tokens",), ("embed_tokens", "lm_head"), ("q_proj",)])
@pytest.mark.parametrize("tied", [True, False])
def test_adapters_on_shared_weights(modules, tied, monkeypatch):
    """What an adapted embedding learns does not go into the output layer that has the same weights."""
    from divulge.references import FineTune, LoRA, fine_tuning

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=42,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=tied,
        max_position_embeddings=64,
    )
    base = CausalLM(transformers.LlamaForCausalLM(config).eval(), small.tokenizer(), bos="add")
    ids = torch.tensor([[0, 5, 9, 13, 7]])
    trained = []
    train = fine_tuning._train_epochs

    def watched(model, *rest):
        train(model, *rest)
        with torch.inference_mode():
            trained.append(model.eval()(input_ids=ids).logits)

    monkeypatch.setattr(fine_tuning, "_train_epochs", watched)
    tuning = FineTune(base, count=1, epochs=2, lr=5e-3, lora=LoRA(rank=2, modules=modules), device="cpu")
    tuned = tuning.train_model(small.records(1, 10), seed=0)
    with torch.inference_mode():
        torch.testing.assert_close(tuned.model(input_ids=ids).logits, trained[0], rtol=1e-3, atol=1e-3)
