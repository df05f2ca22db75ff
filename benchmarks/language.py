"""Was this document used? Every attack on fine-tuned language models, at 0 to 16 reference models.

    DIVULGE_DATA=… python benchmarks/language.py attacks [--texts news|messages] [--epochs 4] [--references 4]
        [--others 400] [--seeds 3]
    DIVULGE_DATA=… python benchmarks/language.py twins
    DIVULGE_DATA=… python benchmarks/language.py lora
    DIVULGE_DATA=… python benchmarks/language.py speed

The base (GPT-2's architecture, 2 layers of 128, byte-level BPE of 4,096) is made once from newsgroup articles and kept
in ``--base``; what is fine-tuned on was never shown to it.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import transformers

import divulge as dv
import language_models as made
from divulge import evaluation
from divulge.attacks import Need
from divulge.evidence import Layout, Measurements, Models
from divulge.ragged import TokenLogs
from divulge.recipes import document_recipes
from divulge.references import FineTune, LoRA, splits
from divulge.signals import tokens
from divulge.targets import CausalLM, TokenStatistics

MEMBERS, OTHERS, POPULATION = 300, 400, 400
LONGEST = 600  # characters of a newsgroup article


@dataclass(frozen=True)
class Case:
    """Documents of one seed: members, non-members, population."""

    members: dv.Records
    others: dv.Records
    population: dv.Records

    @property
    def everything(self) -> dv.Records:
        """All of them, in this order."""
        return dv.Records(np.concatenate([self.members.x, self.others.x, self.population.x]))


def case(kind: str, seed: int, others: int = OTHERS) -> Case:
    every = [text[:LONGEST] for text in made.news()[6000:]] if kind == "news" else made.messages()
    drawn = np.random.default_rng(seed).permutation(len(every))[: MEMBERS + others + POPULATION]
    texts = np.array([every[i] for i in drawn], dtype=object)
    return Case(*map(dv.Records, np.split(texts, [MEMBERS, MEMBERS + others])))


def base(folder: str) -> CausalLM:
    made.base(made.news()[:4000], Path(folder), layers=2, width=128, epochs=3)
    return CausalLM.load(folder, device="cpu", bos="add")


def measured(target: CausalLM, tuning: FineTune, documents: Case, seed: int) -> tuple[Measurements, Models | None]:
    """Everything that a recipe may read, and all reference models."""
    every = documents.everything
    stats = target.tokens(list(every.x))
    own = {r.signal: tokens.signal(r.signal)(stats) for r in document_recipes() if isinstance(r.signal, str)}
    logs = tuning.base.tokens(list(every.x), vocabulary=False).logp[None]
    models = {Need.REFERENCES_BASE: said(stats, logs, np.zeros((1, len(every)), bool))}
    candidates = len(documents.members) + len(documents.others)
    layout = Layout(candidates, 0, POPULATION)
    fine_tuned = None
    if tuning.count:
        halves = splits.offline(POPULATION, max(tuning.count, 2), seed).trained_on[: tuning.count]
        trained = tuning.fit(documents.population, halves, seed=seed, observe=[every])
        held = np.hstack([np.zeros((len(halves), candidates), bool), halves])
        fine_tuned = said(stats, trained.outputs[0], held)
    found = Measurements(own, layout, models=models, tokens=TokenLogs(stats.offsets, np.minimum(stats.logp, 0)))
    return found, fine_tuned


def said(stats: TokenStatistics, logs: np.ndarray, held: np.ndarray) -> Models:
    each = [TokenStatistics(stats.offsets, stats.zlib_bytes, logp=row.astype(float)) for row in logs]
    names = ("log_likelihood", *tokens.RESCALED)
    return Models({n: np.stack([tokens.signal(n)(one) for one in each]) for n in names}, held, np.minimum(logs, 0))


def first(models: Models, count: int) -> Models:
    """The first ``count`` models alone."""
    signals = {name: values[:count] for name, values in models.signals.items()}
    return Models(signals, models.trained_on[:count], models.tokens[:count])


def scores(found: Measurements, fine_tuned: Models | None, count: int) -> dict[str, np.ndarray]:
    """Recipe → scores, of the recipes that read ``count`` reference models; 0: those that read none, or the base."""
    kept = {}
    for recipe in document_recipes():
        reads = recipe.references
        if not isinstance(recipe.signal, str) or recipe.features or reads == "in and out":
            continue
        if (reads == "out") != bool(count):
            continue
        if count and recipe.attack.least_references > count:
            continue
        own = found if not count else replace(found, models={Need.REFERENCES_OUT: first(fine_tuned, count)})
        kept[recipe.name] = recipe.attack.run(own.evidence(recipe.signal, recipe.needs)).scores
    return kept


def tables(options: argparse.Namespace) -> None:
    tuning = FineTune(base(options.base), options.references, options.epochs, lr=1e-3, engine="processes")
    counts = [c for c in (0, 1, 3, 4, 16) if c <= options.references]
    truth = np.arange(MEMBERS + options.others) < MEMBERS
    found: dict[tuple[int, str], list] = {}
    for seed in range(options.seeds):
        documents = case(options.texts, seed, options.others)
        target = tuning.one(documents.members, seed=seed + 1000)
        one, models = measured(target, tuning, documents, seed)
        for count in counts:
            for name, values in scores(one, models, count).items():
                found.setdefault((count, name), []).append(values)
        print(f"  seed {seed} done", flush=True)
    sizes = f"{MEMBERS} members, {options.others} others"
    print(f"\n{options.texts}, {options.epochs} epochs, {options.seeds} seeds, {sizes}")
    print(f"| references | recipe | AUC | TPR at FPR 1 % | TPR, 1 of {options.others} passed |")
    print("|---|---|---|---|---|")
    for (count, name), runs in found.items():
        cells = [mean([evaluation.measure(s, truth, what) for s in runs]) for what in ("auc", "tpr@fpr=0.01")]
        lowest = np.mean([(s[truth] > np.sort(s[~truth])[-2]).mean() for s in runs])
        print(f"| {count} | {name} | {cells[0]} | {cells[1]} | {lowest:.3f} |")


def mean(estimates: list) -> str:
    """Mean of the seeds' estimates; the interval is of their mean, from those of each."""
    value = np.mean([e.value for e in estimates])
    half = np.sqrt(np.sum([((e.high - e.low) / 2) ** 2 for e in estimates])) / len(estimates)
    return f"{value:.3f} ± {half:.3f}"


def twins(options: argparse.Namespace) -> None:
    """Models that never saw the members: how often a leak is found all the same."""
    tuning = FineTune(base(options.base), 2, 1, lr=1e-3, engine="processes")
    alarms, worst = 0, []
    recipes = ("loss", "min-k++", "base-ratio", "wbc", "reference-ratio", "windows", "rmia")
    for seed in range(20):
        documents, strangers = case("messages", seed), case("messages", seed + 500)
        target = tuning.one(strangers.members, seed=seed)
        known = set(strangers.members.x)
        sets = {
            name: dv.Records(np.array([text for text in records.x if text not in known], dtype=object))
            for name, records in vars(documents).items()
        }
        run = dv.audit(
            target, members=sets["members"], nonmembers=sets["others"], population=sets["population"],
            recipes=recipes, references=tuning, fpr=(0.05,), seed=seed,
        )  # fmt: skip
        alarms += run.verdict.answer == "leak found"
        worst += [float((run[name].selection(fpr=0.05).selected[run.members]).mean()) for name in run]
    print(f"twins: {alarms} of 20 called leaking; members called at a nominal FPR of 5 %: mean {np.mean(worst):.4f}")


def lora(options: argparse.Namespace) -> None:
    """The same documents, full fine-tune and LoRA: what each leaks, with references made the same way."""
    for name, how in (("full", {"lr": 1e-3}), ("LoRA, rank 8", {"lr": 1e-2, "lora": LoRA(8)})):
        tuning = FineTune(base(options.base), 3, 4, engine="processes", **how)
        documents = case("messages", 0)
        target = tuning.one(documents.members, seed=1000)
        one, models = measured(target, tuning, documents, 0)
        truth = np.arange(MEMBERS + OTHERS) < MEMBERS
        for count, recipe in ((0, "loss"), (0, "base-ratio"), (3, "reference-ratio"), (3, "windows")):
            area = evaluation.auc(scores(one, models, count)[recipe], truth)
            print(f"{name}: {recipe} AUC {area}", flush=True)


def speed(options: argparse.Namespace) -> None:
    """Ratios of seconds: scoring beside one document at a time, four references beside four runs of the Trainer."""
    target, documents = base(options.base), case("news", 0)
    every = list(documents.everything.x)
    texts = [text for text, ids in zip(every, target.encoded(every), strict=True) if len(ids) <= made.CONTEXT][:600]
    together = timed(lambda: target.tokens(texts, vocabulary=False))
    alone = timed(lambda: [one_by_one(target, text) for text in texts])
    own = target.tokens(texts[:50], vocabulary=False).logp
    apart = np.abs(own - np.concatenate([one_by_one(target, text) for text in texts[:50]])).max()
    print(
        f"scoring {len(texts)} documents: {alone / together:.2f} times as fast as one by one; gap at most {apart:.1e}"
    )
    tuning = FineTune(options.base, 4, 2, lr=1e-3, bos="add", device="cpu")
    halves = splits.offline(POPULATION, 4, 0)
    fast = timed(lambda: tuning.fit(documents.population, halves, seed=0))
    slow = timed(lambda: [trainer(target, list(documents.population.x[row])) for row in halves.trained_on])
    print(f"four references on {POPULATION // 2} documents, 2 epochs: {slow / fast:.2f} times as fast as the Trainer")


def timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@torch.inference_mode()
def one_by_one(target: CausalLM, text: str) -> np.ndarray:
    """A plain loop's log-probabilities of one document."""
    ids = torch.tensor([[target.tokenizer.bos_token_id, *target.tokenizer(text)["input_ids"]]])[:, : made.CONTEXT]
    logs = target.model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return logs.gather(1, ids[0, 1:, None])[:, 0].numpy()


def trainer(target: CausalLM, texts: list[str]) -> None:
    """What a user would write with the Trainer: padded to the longest of a batch, in random order."""
    words = target.tokenizer
    words.pad_token = words.bos_token
    rows = [{"input_ids": [words.bos_token_id, *words(text)["input_ids"]][: made.CONTEXT]} for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=8, learning_rate=1e-3, report_to=[],
            save_strategy="no", disable_tqdm=True, use_cpu=True, logging_strategy="no",
        )  # fmt: skip
        collate = transformers.DataCollatorForLanguageModeling(words, mlm=False)
        model = copy.deepcopy(target.model)
        transformers.Trainer(model, arguments, train_dataset=rows, data_collator=collate).train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("attacks", "twins", "lora", "speed"))
    parser.add_argument("--texts", choices=("news", "messages"), default="news")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--references", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--others", type=int, default=OTHERS)
    parser.add_argument("--base", default=str(Path(tempfile.gettempdir()) / "divulge-base"))
    chosen = parser.parse_args()
    {"attacks": tables, "twins": twins, "lora": lora, "speed": speed}[chosen.part](chosen)
