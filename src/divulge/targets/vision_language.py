"""Vision-language models of Hugging Face (the LLaVA family): statistics at the places of an image and of its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError, missing_extra
from divulge.targets import language_models as language
from divulge.targets import pretrained
from divulge.targets.token_statistics import PER_TOKEN, TokenStatistics
from divulge.validation import check_choice, check_integer

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import transformers
else:
    transformers = lazy.module("transformers")

_PARTS = ("image", "text")


@dataclass(frozen=True, slots=True, eq=False)
class VisionLanguage:
    """A model that reads an image and a text, asked for statistics per token.

    An image takes up many places of the input, one per patch, and at each the model has a distribution
    over the next word. Nothing is said there that could be right or wrong, so the log-probability of
    "the token" does not exist (NaN); the Rényi entropies do, and members make the model surer
    (Li et al., "Membership inference attacks against large vision-language models", NeurIPS 2024).

    Args:
        model: a `transformers` image-text-to-text model, on its device.
        processor: its processor; the text must hold its image token, which is put before it if missing.
        name: what to call it; part of the cache key.
        batch: records run at a time.

    Raises:
        divulge.InputError: a configuration without an image token, or a batch below 1.
    """

    model: Any
    processor: Any
    name: str = "model"
    batch: int = 4
    _split: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_integer(self.batch, "batch", least=1)
        if _image_token_id(self.model) is None:
            raise InputError("model: its configuration names no image token; is it an image-text-to-text model?")
        self.model.eval()
        object.__setattr__(self, "_split", language.has_separate_head(self.model))

    @classmethod
    def load(cls, name: str, *, dtype: str = "float32", device: str = "auto", **options: Any) -> VisionLanguage:
        """From ``hf:NAME``, ``hf:NAME@REVISION`` or a local folder.

        Raises:
            divulge.InputError: unknown dtype, or a model that cannot be loaded.
        """
        model, processor = pretrained.load_pretrained(
            transformers.AutoModelForImageTextToText, transformers.AutoProcessor, name, dtype, device
        )
        return cls(model, processor, name=name, **options)

    def key(self) -> Mapping[str, Any]:
        """Return what determines the numbers."""
        return {
            "model": self.name,
            "weights": pretrained.weights_digest(self.model),
            "tokenizer": pretrained.tokenizer_digest(self.processor.tokenizer),
            "dtype": str(self.model.dtype),
        }

    def statistics(self, images: Sequence[Any], texts: Sequence[str], *, part: str = "image") -> TokenStatistics:
        """Statistics of each record.

        Args:
            images: one per record: arrays ``[height, width, 3]`` of uint8, or PIL images.
            texts: the instruction that goes with each.
            part: "image" (the places of the image; log-probabilities are NaN) or "text".

        Raises:
            divulge.InputError: an unknown part, or different numbers of images and texts.
        """
        check_choice(part, "part", _PARTS)
        if len(images) != len(texts):
            raise InputError(f"texts: {len(images)} are needed (one per image), got {len(texts)}")
        rows: list[dict[str, np.ndarray]] = []
        for start in range(0, len(texts), self.batch):
            stop = start + self.batch
            rows += self._run(list(images[start:stop]), list(texts[start:stop]), part)
        return TokenStatistics.of(texts, rows)

    @torch.inference_mode()
    def _run(self, images: list[Any], texts: list[str], part: str) -> list[dict[str, np.ndarray]]:
        image_token = self.processor.image_token
        prompts = [text if image_token in text else f"{image_token}\n{text}" for text in texts]
        inputs = self.processor(
            images=images, text=prompts, return_tensors="pt", padding=True, padding_side="right"
        ).to(self.model.device)
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].to(self.model.dtype)
        ids, attention_mask = inputs["input_ids"], inputs["attention_mask"].bool()
        positions, target = _select_positions(ids, attention_mask, ids == _image_token_id(self.model), part)
        reduced = self._reduce(inputs, positions, target).cpu().numpy()
        if part == "image":
            reduced[PER_TOKEN.index("logp")] = reduced[PER_TOKEN.index("modified_entropy")] = np.nan
        cuts = np.cumsum(positions.sum(1).cpu().numpy())[:-1]
        return [
            dict(zip(PER_TOKEN, piece.astype(np.float64), strict=True)) for piece in np.split(reduced, cuts, axis=1)
        ]

    def _reduce(self, inputs: Any, positions: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if not self._split:
            rows = self.model(**inputs, use_cache=False).logits[positions]
            return torch.cat(
                [language.reduce_logits(*block) for block in language.split_blocks(rows, target, rows.shape[-1])], 1
            )
        hidden = self.model.base_model(**inputs, use_cache=False).last_hidden_state[positions]
        head = self.model.get_output_embeddings()
        blocks = language.split_blocks(hidden, target, head.weight.shape[0])
        return torch.cat(
            [
                language.reduce_logits(language.finish_logits(self.model, head(rows)), targets)
                for rows, targets in blocks
            ],
            1,
        )


def _select_positions(
    ids: torch.Tensor, attention_mask: torch.Tensor, image: torch.Tensor, part: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the positions of a part's distributions, bool ``[B, L]``, and the token that comes next there, ``[t]``."""
    next_tokens = torch.roll(ids, -1, dims=1)
    if part == "image":
        positions = image & attention_mask
    else:
        positions = attention_mask & torch.roll(attention_mask & ~image, -1, dims=1)
        positions[:, -1] = False  # nothing follows the last place
    return positions, next_tokens[positions]


def _image_token_id(model: Any) -> int | None:
    config = model.config
    token = getattr(config, "image_token_id", None)
    return getattr(config, "image_token_index", None) if token is None else token
