"""Vision-language models: statistics at the image's places against all logits at once."""

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.signals import tokens as signals
from divulge.targets.language_models import VisionLanguage
from divulge.targets.token_statistics import PER_TOKEN

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")

WORDS = ["<s>", "<unk>", "describe", "this", "image", "<image>", "a", "cat"]
PROMPTS = ["describe this", "<image> describe this image a cat", "cat"]


@pytest.fixture(scope="module")
def target():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", unk_token="<unk>", pad_token="<s>", additional_special_tokens=["<image>"]
    )
    processor = transformers.LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
    )
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**small, image_size=16, patch_size=8),
        text_config=transformers.LlamaConfig(**small, vocab_size=40, bos_token_id=0, eos_token_id=0),
        image_token_id=WORDS.index("<image>"),
        vision_feature_layer=-1,
    )
    return VisionLanguage(transformers.LlavaForConditionalGeneration(config), processor, batch=2)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 255, (20, 24, 3), dtype=np.uint8) for _ in PROMPTS]


def logits(target, image, prompt):
    text = prompt if "<image>" in prompt else f"<image>\n{prompt}"
    inputs = target.processor(images=[image], text=[text], return_tensors="pt")
    with torch.no_grad():
        return inputs["input_ids"][0], target.model(**inputs).logits[0].double().log_softmax(-1)


def test_entropies_at_the_image_equal_the_naive_ones(target, images):
    stats = target.statistics(images, PROMPTS)
    assert target._split
    assert stats.lengths.tolist() == [4, 4, 4]
    assert np.isnan(stats.logp).all()
    for i, (image, prompt) in enumerate(zip(images, PROMPTS, strict=True)):
        ids, logp = logits(target, image, prompt)
        image_logp = logp[ids == target.model.config.image_token_id]
        rows = stats.rows()
        assert np.allclose(rows["entropy"][i], -(image_logp.exp() * image_logp).sum(-1), atol=1e-5)
        assert np.allclose(rows["renyi_half"][i], 2 * torch.logsumexp(image_logp / 2, -1), atol=1e-5)
        assert np.allclose(rows["renyi_two"][i], -torch.logsumexp(2 * image_logp, -1), atol=1e-5)
        assert np.allclose(rows["renyi_inf"][i], -image_logp.max(-1).values, atol=1e-5)
    for alpha in (0.5, 1, 2, np.inf):
        assert np.isfinite(signals.max_renyi(stats, alpha)).all()
        assert np.isfinite(signals.min_renyi(stats, alpha)).all()


def test_log_probabilities_of_the_text_behind_the_image(target, images):
    rows = target.statistics(images, PROMPTS, part="text").rows()
    for i, (image, prompt) in enumerate(zip(images, PROMPTS, strict=True)):
        ids, logp = logits(target, image, prompt)
        text_logp = [logp[k, ids[k + 1]].item() for k in range(len(ids) - 1) if ids[k + 1] != WORDS.index("<image>")]
        assert np.allclose(rows["logp"][i], text_logp, atol=1e-5)
    assert set(rows) == set(PER_TOKEN)


def test_wrong_input_is_named(target, images):
    with pytest.raises(InputError, match="3 are needed"):
        target.statistics(images, PROMPTS[:2])
    with pytest.raises(InputError, match="part"):
        target.statistics(images, PROMPTS, part="sound")
    assert target.key()["dtype"] == "torch.float32"
