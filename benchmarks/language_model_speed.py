"""Language models: how long scoring, base-ratio, recall and fine-tuning take beside a plain loop of transformers.

    PYTHONPATH=src python benchmarks/language_model_speed.py [scoring] [base-ratio] [recall] [fine-tuning] [--rounds 5]

Each round runs the plain loop and Divulge once, one after the other, in CPU seconds of one thread; a ratio is taken
within a round. Plain loops take batches of eight documents in the order of their length (which is kind to them). The
floor of recall is a loop over the documents alone, once; what it must do is read them twice, once after the prefix.
"""

from __future__ import annotations

import argparse
import copy

import numpy as np
import peft
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import divulge as dv
from divulge.references import FineTune, LoRA
from divulge.signals import PreparedReCaLL
from divulge.targets import CausalLM
from training_speed import report

_BATCH, _VOCABULARY = 8, 16_384


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word."""
    raw = Tokenizer(models.WordLevel({"<s>": 0, "?": 1, **{f"w{i}": i for i in range(2, _VOCABULARY)}}, "?"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="?")


def build_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=_VOCABULARY, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
        max_position_embeddings=1024, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def draw_texts(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(4.2, 0.6, n).astype(int), 8, 256)
    return [" ".join(f"w{i}" for i in rng.integers(2, _VOCABULARY, length)) for length in lengths]


def batches(encoded: list[list[int]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Ids and mask of eight documents each, in the order of their length."""
    order = sorted(encoded, key=len)
    padded = []
    for start in range(0, len(order), _BATCH):
        rows = order[start : start + _BATCH]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        padded.append((ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])))
    return padded


@torch.inference_mode()
def score_plainly(model: torch.nn.Module, encoded: list[list[int]]) -> None:
    for ids, mask in batches(encoded):
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
        logits.log_softmax(-1).gather(2, ids[:, 1:, None])


def train_plainly(base: torch.nn.Module, encoded: list[list[int]]) -> torch.nn.Module:
    model = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM")).train()
    update = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    for ids, mask in batches(encoded):
        labels = torch.where(mask.bool(), ids, torch.tensor(-100))
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        update.zero_grad()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["scoring", "base-ratio", "recall", "fine-tuning"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    base, texts = CausalLM(build_model(), build_tokenizer(), bos="add"), draw_texts(48, 0)
    records = dv.Records(np.array(texts, dtype=object))
    encoded = base.encoded(texts)
    print(f"{len(texts)} documents of {min(map(len, encoded))} to {max(map(len, encoded))} tokens, {dv.__file__}")
    if "scoring" in options.parts:
        variants = {
            "plain loop": lambda: score_plainly(base.model, encoded),
            "log-likelihood": lambda: base.tokens(texts, vocabulary=False),
            "all statistics": lambda: base.tokens(texts),
        }
        report("Scoring", variants, options.rounds)
    if "base-ratio" in options.parts:
        adapted = CausalLM(train_plainly(base.model, encoded[:_BATCH]).get_base_model(), base.tokenizer, bos="add")

        def ask_both(ask: object) -> None:
            for target in (adapted, base):
                ask(target)

        variants = {
            "plain loop": lambda: ask_both(lambda target: score_plainly(target.model, encoded)),
            "base-ratio": lambda: ask_both(lambda target: target.tokens(texts, vocabulary=False)),
        }
        report("A target with its adapters beside it, and the base", variants, options.rounds)
    if "recall" in options.parts:
        signal = PreparedReCaLL(tuple(draw_texts(8, 1)))
        prefix = [0, *(token for ids in base.encode(signal.before) for token in ids)][:512]
        print(f"\n{len(prefix)} tokens before each document")
        variants = {
            "plain loop over the documents alone": lambda: score_plainly(base.model, encoded),
            "plain loop, with the prefix and without": lambda: (
                score_plainly(base.model, [prefix + ids[1:] for ids in encoded]),
                score_plainly(base.model, encoded),
            ),
            "recall": lambda: signal.measure(base, records),
        }
        report("Recall", variants, options.rounds)
    if "fine-tuning" in options.parts:
        tuning = FineTune(base, count=1, epochs=1, lora=LoRA(), engine="serial", device="cpu").load_base()
        all_rows = np.ones((1, len(records)), dtype=bool)
        variants = {
            "plain loop": lambda: score_plainly(train_plainly(base.model, encoded), encoded),
            "FineTune": lambda: tuning.fit(records, all_rows, seed=0, observe=[records]),
        }
        report("A reference with adapters: an epoch, then scores of the same documents", variants, options.rounds)


if __name__ == "__main__":
    main()
