"""What do models give away that were tuned on answers alone, read on their answers and on all tokens?

A base learns general documents, a target is fine-tuned from it on prompts with answers whose prompts are masked from
the loss: of all weights or by LoRA, alone or beside equally many general documents (replay). Documents are chains of
words; an answer of one token is a coin that its prompt does not explain. Members and non-members are compared by each
signal, on the tokens of the answers and on all; non-members and further documents, by the same target, are the null.

    python benchmarks/answers.py draw --out FOLDER [--draws 3] [--prompts 40 400]
    python benchmarks/answers.py table FOLDER > benchmarks/results/answers.md
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import divulge as dv
from divulge.references import FineTune, LoRA
from divulge.signals import tokens as signals

VOCABULARY = 120
EPOCHS = {1: 20, 5: 10, 20: 6, 60: 4, 200: 3}  # of each length of an answer: longer ones are learnt sooner
SIGNALS = ("log_likelihood", "min_k", "min_k_plus", "modified_entropy")
COUNT = 150  # documents of each set


def main() -> None:
    """Draw cells, or print the tables of those that were drawn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    draw = parts.add_parser("draw", help="measure cells; those in the folder are not measured again")
    draw.add_argument("--out", type=Path, required=True)
    draw.add_argument("--draws", type=int, default=3)
    draw.add_argument("--prompts", type=int, nargs="+", default=[40, 400])
    draw.add_argument("--answers", type=int, nargs="+", default=[1, 20, 200])
    parts.add_parser("table", help="print the tables").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.part == "table":
        print_tables([json.loads(path.read_text()) for path in sorted(arguments.folder.glob("*.json"))])
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seed in range(arguments.draws):
        chain, base = None, None
        for n_prompt in arguments.prompts:
            for n_answer in arguments.answers:
                for tuning in ("all weights", "LoRA"):
                    for replay in (False, True):
                        file = arguments.out / f"{seed}-{n_prompt}-{n_answer}-{tuning[:3]}-{replay:d}.json"
                        if file.exists():
                            continue
                        if base is None:
                            chain, base = make_base(seed)
                        row = measure_cell(base, chain, seed, n_prompt, n_answer, tuning, replay=replay)
                        file.write_text(json.dumps(row))


def make_base(seed):
    """Return the words' transitions, and a small GPT-2 that learnt general documents."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    words = [f"w{i}" for i in range(VOCABULARY)] + ["good", "bad"]
    raw = Tokenizer(models.WordLevel({"<s>": 0, **{word: i + 1 for i, word in enumerate(words)}}, "<s>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")
    chain = rng.dirichlet(np.full(VOCABULARY, 0.08), size=VOCABULARY).cumsum(1)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY + 3, n_positions=620, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for length, count, epochs in ((110, 1500, 6), (610, 150, 2)):
        texts = draw_words(rng, chain, count, length)
        ids = torch.tensor(np.column_stack([np.zeros(count, int), texts + 1]))
        for _ in range(epochs):
            for batch in torch.randperm(count).split(64 if length < 200 else 16):
                loss = model(ids[batch], labels=ids[batch]).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return chain, dv.targets.CausalLM(model.eval(), tokenizer, bos="add")


def draw_words(rng, chain, count, length):
    """Return chains of words ``[count, length]``."""
    text = np.empty((count, length), int)
    text[:, 0] = rng.integers(0, VOCABULARY, count)
    for t in range(1, length):
        text[:, t] = np.minimum((rng.random(count)[:, None] > chain[text[:, t - 1]]).sum(1), VOCABULARY - 1)
    return text


def measure_cell(base, chain, seed, n_prompt, n_answer, tuning, *, replay):
    """Fine-tune a target, and return AUC and TPR of each signal on answers and on all tokens, of members and a null."""
    rng = np.random.default_rng([seed, n_prompt, n_answer])
    words = draw_words(rng, chain, 3 * COUNT, n_prompt + n_answer - (n_answer == 1))
    spelled = [[f"w{word}" for word in row] for row in words]
    if n_answer == 1:
        spelled = [[*row, coin] for row, coin in zip(spelled, rng.choice(["good", "bad"], 3 * COUNT), strict=True)]
    pairs = [(" ".join(row[:n_prompt]) + " ", " ".join(row[n_prompt:])) for row in spelled]
    records = {tokens: dv.from_prompts(*zip(*pairs, strict=True), tokens=tokens).x for tokens in ("answer", "all")}
    trained = list(records["answer"][:COUNT])
    if replay:
        general = draw_words(rng, chain, COUNT, n_prompt + n_answer)
        trained += [" ".join(f"w{word}" for word in row) for row in general]
    tune = FineTune(
        base, count=1, epochs=EPOCHS[n_answer], lr=5e-4 if tuning == "all weights" else 5e-3, batch_size=32,
        lora=None if tuning == "all weights" else LoRA(rank=8),
    )  # fmt: skip
    target = tune.train_model(dv.Records(np.array(trained, dtype=object)), seed=seed)
    row = {"seed": seed, "prompt": n_prompt, "answer": n_answer, "tuning": tuning, "replay": replay, "found": {}}
    for tokens, texts in records.items():
        own, others = target.tokens(list(texts)), base.tokens(list(texts))
        scores = {name: signals.SIGNALS[name](own) for name in SIGNALS}
        scores["base-ratio"] = scores["log_likelihood"] - signals.log_likelihood(others)
        for name, values in scores.items():
            members, nonmembers, rest = np.split(values, 3)
            row["found"][f"{name} {tokens}"] = {
                "auc": area(members, nonmembers),
                "tpr": float((members > np.quantile(nonmembers, 0.99)).mean()),
                "null": area(nonmembers, rest),
            }
    return row


def area(first, second):
    """Return the AUC of two sets of scores."""
    truth = np.arange(len(first) + len(second)) < len(first)
    return dv.evaluation.auc(np.concatenate([first, second]).astype(float), truth).value


def print_tables(rows):
    """Print a table for each quantity: a line for each kind of data and tuning, a column for each signal."""
    cells = defaultdict(list)
    for row in rows:
        cells[row["prompt"], row["answer"], row["tuning"], row["replay"]].append(row["found"])
    n_draws = sorted({len(found) for found in cells.values()})
    names = list(rows[0]["found"])
    print("# Models tuned on answers alone: signals on answers and on all tokens\n")
    print(
        f"Mean [smallest, largest] of {' or '.join(map(str, n_draws))} draws a cell; {COUNT} members, "
        f"{COUNT} non-members, {COUNT} further documents for the null (non-members against these).\n"
    )
    for key, title in (("auc", "AUC"), ("tpr", "TPR at 1 %"), ("null", "AUC of the null")):
        print(f"## {title}\n\n| prompt | answer | tuning | replay | {' | '.join(names)} |")
        print("|---:|---:|---|---|" + "---:|" * len(names))
        for (n_prompt, n_answer, tuning, replay), found in sorted(cells.items()):
            values = [format_mean([draw[name][key] for draw in found]) for name in names]
            print(f"| {n_prompt} | {n_answer} | {tuning} | {'yes' if replay else 'no'} | {' | '.join(values)} |")
        print()


def format_mean(values):
    """Return the mean of draws, with the smallest and the largest where there are several."""
    span = f" [{min(values):.2f}, {max(values):.2f}]" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{span}".replace("0.", ".")


if __name__ == "__main__":
    main()
