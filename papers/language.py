r"""Was this document used? Every attack on fine-tuned language models, at 0 to 16 reference models.

    DIVULGE_DATA=… PYTHONPATH=src:benchmarks \
        python papers/language.py scores --out FOLDER --texts news|messages [--epochs 4] [--references 4]
        [--seeds 0 1 2] [--lora] [--rate R] [--members 300 --others 1000 --population 400] [--longest 300]
        [--knockoffs]
    PYTHONPATH=src:benchmarks python papers/language.py tables --out FOLDER
    DIVULGE_DATA=… PYTHONPATH=src:benchmarks python papers/language.py twins
    DIVULGE_DATA=… PYTHONPATH=src:benchmarks python papers/language.py speed

The base (GPT-2's architecture, 2 layers of 128, byte-level BPE of 4,096) is made once from newsgroup articles and kept
in ``--base``; what is fine-tuned on was never shown to it. ``scores`` keeps every document's scores in ``--out``, one
file a seed, and makes none that is there; ``tables`` prints what lies there. ``--base`` may name a pretrained model too
(``papers/deep.py smollm2``). ``--knockoffs`` keeps norms of gradients of documents and of their paraphrases as well;
``papers/ptdi.py kept`` then compares identification with PTDI and KTD on the same documents.
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
from scipy import special, stats

import divulge as dv
import language_models as made
from divulge import evaluation, store
from divulge.attacks import Need
from divulge.evidence import Layout, Measurements, Models
from divulge.recipes import Auto, document_recipes
from divulge.references import FineTune, LoRA, splits
from divulge.signals import tokens
from divulge.targets import CausalLM, TokenStatistics
from divulge.types import TokenLogs
from membership_tables import STATISTICS, clipped, over_seeds, short, signed
from ptdi import gradient_norms
from ptdi import paired as paraphrased

MEMBERS, N_NONMEMBERS, POPULATION = 300, 1000, 400
COUNTS = (0, 1, 3, 4, 16)
GAINS = (
    ("0/base-ratio", "0/loss"),
    ("0/wbc", "0/base-ratio"),
    ("1/windows", "0/wbc"),
    ("1/windows", "1/reference-ratio"),
    ("4/windows", "4/reference-ratio"),
    ("4/windows", "1/windows"),
    ("16/windows", "4/windows"),
    ("0/ez", "0/wbc"),
    ("0/ez-smoothed", "0/ez"),
    ("1/windows + ez", "1/windows"),
    ("3/windows + ez", "3/windows"),
    ("3/windows + ez", "3/windows + ratio"),
    ("3/windows + ratio + ez", "3/windows + ez"),
)
# Means of normal deviates of ranks, to choose `auto` among.
AVERAGES = {
    "windows + ratio": ("windows", "reference-ratio"),
    "windows + ez": ("windows", "ez-out-smoothed"),
    "windows + ratio + ez": ("windows", "reference-ratio", "ez-out-smoothed"),
}
LONGEST = 300  # characters of a newsgroup article
TITLES = {
    "messages": "Text messages",
    "news": "Newsgroup articles",
    "full": "all weights",
    "lora": "LoRA of rank 8",
}


@dataclass(frozen=True)
class Case:
    """Documents of one seed: members, non-members, population."""

    members: dv.Records
    others: dv.Records
    population: dv.Records

    @property
    def candidates(self) -> int:
        """Number of members and non-members."""
        return len(self.members) + len(self.others)

    @property
    def everything(self) -> dv.Records:
        """All of them, in this order."""
        return dv.Records(np.concatenate([self.members.x, self.others.x, self.population.x]))


def case(
    text_type: str,
    seed: int,
    others: int = N_NONMEMBERS,
    members: int = MEMBERS,
    population: int = POPULATION,
    longest: int = LONGEST,
) -> Case:
    """Drawn anew for each seed; newsgroup articles are cut after ``longest`` characters."""
    every = [text[:longest] for text in made.news()[6000:]] if text_type == "news" else made.messages()
    drawn = np.random.default_rng(seed).permutation(len(every))[: members + others + population]
    texts = np.array([every[i] for i in drawn], dtype=object)
    return Case(*map(dv.Records, np.split(texts, [members, members + others])))


def base(folder: str) -> CausalLM:
    """The base, made where it is not there yet."""
    made.base(made.news()[:4000], Path(folder), layers=2, width=128, epochs=3)
    return CausalLM.load(folder, device="cpu", bos="add")


def measured(target: CausalLM, tuning: FineTune, documents: Case, seed: int) -> tuple[Measurements, Models | None]:
    """Everything that a recipe may read, and all reference models."""
    every = documents.everything
    target_statistics = target.tokens(list(every.x))
    own_signals = {
        r.signal: tokens.get_signal(r.signal)(target_statistics)
        for r in document_recipes()
        if isinstance(r.signal, str)
    }
    logs = tuning.base.tokens(list(every.x), vocabulary=False).logp[None]
    models = {Need.REFERENCES_BASE: said(target_statistics, logs, np.zeros((1, len(every)), bool))}
    candidates, population = documents.candidates, len(documents.population)
    layout = Layout(candidates, 0, population)
    fine_tuned = None
    if tuning.count:
        halves = splits.offline(population, max(tuning.count, 2), seed).trained_on[: tuning.count]
        trained = tuning.fit(documents.population, halves, seed=seed, observe=[every])
        trained_on = np.hstack([np.zeros((len(halves), candidates), bool), halves])
        fine_tuned = said(target_statistics, trained.outputs[0], trained_on)
    logs = TokenLogs(
        target_statistics.offsets,
        np.minimum(target_statistics.logp, 0),
        wrong=target_statistics.logp < -target_statistics.renyi_inf,
    )
    return Measurements(own_signals, layout, models=models, tokens=logs), fine_tuned


def said(target_statistics: TokenStatistics, logs: np.ndarray, trained_on: np.ndarray) -> Models:
    each = [
        TokenStatistics(target_statistics.offsets, target_statistics.zlib_bytes, logp=row.astype(float)) for row in logs
    ]
    names = ("log_likelihood", *tokens.RESCALED)
    return Models(
        {n: np.stack([tokens.get_signal(n)(statistics) for statistics in each]) for n in names},
        trained_on,
        np.minimum(logs, 0),
    )


def first(models: Models, count: int) -> Models:
    """The first ``count`` models alone."""
    signals = {name: values[:count] for name, values in models.signals.items()}
    return Models(signals, models.trained_on[:count], models.tokens[:count])


def scores(measurements: Measurements, fine_tuned: Models | None, count: int) -> dict[str, np.ndarray]:
    """Recipe → scores, of the recipes that read ``count`` reference models; 0: those that read none, or the base."""
    scores_by_recipe = {}
    auto = Auto().recipe_in(documents=True, has_references=bool(count), has_base=True)
    for recipe in (*(recipe for recipe in document_recipes() if recipe.name != "auto"), auto):
        reads = recipe.references
        if not isinstance(recipe.signal, str) or recipe.features or reads == "in and out":
            continue
        if (reads == "out") != bool(count):
            continue
        if count and recipe.attack.least_references > count:
            continue
        at_count = (
            measurements if not count else replace(measurements, models={Need.REFERENCES_OUT: first(fine_tuned, count)})
        )
        scores_by_recipe[recipe.name] = recipe.attack.run(at_count.evidence(recipe.signal, recipe.needs)).scores
    for name, parts in (AVERAGES if count else {}).items():
        scores_by_recipe[name] = np.mean(
            [special.ndtri((stats.rankdata(scores_by_recipe[p]) - 0.5) / len(scores_by_recipe[p])) for p in parts],
            axis=0,
        )
    return scores_by_recipe


def kept(options: argparse.Namespace) -> None:
    """Scores of each seed, in a file of its own."""
    options.out.mkdir(parents=True, exist_ok=True)
    training_options = {"lr": 1e-2, "lora": LoRA(8)} if options.lora else {"lr": 1e-3}
    training_options |= {} if options.rate is None else {"lr": options.rate}
    tuning = FineTune(base(options.base), options.references, options.epochs, engine="serial", **training_options)
    for seed in options.seeds:
        cut = options.longest if options.texts == "news" and options.longest != LONGEST else ""
        path = options.out / f"{options.texts}{cut}-{'lora' if options.lora else 'full'}-{options.epochs}-{seed}.npz"
        if path.exists():
            continue
        began = time.perf_counter()
        documents = case(options.texts, seed, options.others, options.members, options.population, options.longest)
        target = tuning.train_model(documents.members, seed=seed + 1000)
        measurements, models = measured(target, tuning, documents, seed)
        if options.knockoffs:
            beside = options.out / "knockoffs" / path.name
            beside.parent.mkdir(exist_ok=True)
            store.write_arrays(beside, gradients(target, list(documents.everything.x[: documents.candidates])))
        arrays = {"member": np.arange(documents.candidates) < len(documents.members)}
        for count in (c for c in COUNTS if c <= options.references):
            arrays |= {f"{count}/{name}": values for name, values in scores(measurements, models, count).items()}
        store.write_arrays(path, arrays)
        print(f"{path.name}: {time.perf_counter() - began:.0f} s", flush=True)


def gradients(target: CausalLM, texts: list[str]) -> dict[str, np.ndarray]:
    """Scores of documents and of their paraphrases: minus the norm of the gradient in the last block's weights."""
    for weight in target.model.parameters():
        weight.requires_grad_(False)
    body = target.model.base_model
    blocks = body.layers if hasattr(body, "layers") else body.h
    for weight in blocks[-1].parameters():
        weight.requires_grad_(True)
    return {"own": gradient_norms(target, texts), "other": gradient_norms(target, paraphrased(texts, 1))}


def tables(options: argparse.Namespace) -> None:
    """What lies in the folder: one table for each kind of documents and fine-tune."""
    names = {path.name.rpartition("-")[0] for path in options.out.glob("*.npz")}
    for texts, training, epochs in sorted(name.split("-") for name in names):
        paths = sorted(options.out.glob(f"{texts}-{training}-{epochs}-*.npz"))
        runs = [store.read_arrays(path) for path in paths]
        print(f"\n## {title(texts)}, {TITLES[training]}, {epochs} epoch{'s' * (epochs != '1')}, {len(runs)} seeds\n")
        nonmembers = min(int((~run["member"]).sum()) for run in runs)
        shown_statistics = {
            title: statistic
            for title, statistic in STATISTICS.items()
            if statistic == "auc" or nonmembers >= evaluation.min_nonmembers(float(statistic.partition("=")[2]))
        }
        print(f"| references | recipe | {' | '.join(shown_statistics)} |")
        print(f"|---:|---{'|---' * len(shown_statistics)}|")
        for name in (name for name in runs[0] if name != "member"):
            seeds = {
                s: [evaluation.measure(run[name], run["member"], s) for run in runs] for s in shown_statistics.values()
            }
            cells = " | ".join(short(clipped(over_seeds(each))) for each in seeds.values())
            print(f"| {name.replace('/', ' | ')} | {cells} |")
        print("\n| gain | over | AUC | TPR at 1 % |\n|---|---|---|---|")
        for recipe, base_recipe in (pair for pair in GAINS if set(pair) <= set(runs[0])):
            pairs = [[paired(run, recipe, base_recipe, s) for run in runs] for s in ("auc", "tpr@fpr=0.01")]
            gained = " | ".join(signed(over_seeds(each)) for each in pairs)
            print(f"| {told(recipe)} | {told(base_recipe)} | {gained} |")


def title(texts: str) -> str:
    """What the documents of a file's name are: "news", "news120" (cut after 120 characters), "messages"."""
    name = texts.rstrip("0123456789")
    cut = f" of at most {texts[len(name) :] or LONGEST} characters" if name == "news" else ""
    return f"{TITLES[name]}{cut}"


def paired(run: dict[str, np.ndarray], recipe: str, base_recipe: str, statistic: str) -> dv.Estimate:
    """The difference of two recipes on the same documents."""
    return evaluation.paired_difference(run[recipe], run[base_recipe], run["member"], statistic)


def told(name: str) -> str:
    """A recipe and its number of reference models."""
    count, _, recipe = name.partition("/")
    return f"{recipe}, {count}" if count != "0" else recipe


def twins(options: argparse.Namespace) -> None:
    """Models that never saw the members: how often a leak is found all the same."""
    tuning = FineTune(base(options.base), 2, 1, lr=1e-3, engine="processes")
    alarms, worst = 0, []
    recipes = ("loss", "min-k++", "base-ratio", "wbc", "reference-ratio", "windows", "rmia")
    for seed in range(20):
        documents, strangers = case("messages", seed, 400), case("messages", seed + 500, 400)
        target = tuning.train_model(strangers.members, seed=seed)
        member_texts = set(strangers.members.x)
        sets = {
            name: dv.Records(np.array([text for text in records.x if text not in member_texts], dtype=object))
            for name, records in vars(documents).items()
        }
        run = dv.audit(
            target, members=sets["members"], nonmembers=sets["others"], population=sets["population"],
            recipes=recipes, references=tuning, fpr=(0.05,), seed=seed,
        )  # fmt: skip
        alarms += run.verdict.answer == "leak found"
        worst += [float((run[name].selection(fpr=0.05).selected[run.members]).mean()) for name in run]
    print(f"twins: {alarms} of 20 called leaking; members called at a nominal FPR of 5 %: mean {np.mean(worst):.4f}")


def speed(options: argparse.Namespace) -> None:
    """Ratios of seconds: scoring beside one document at a time, four references beside four runs of the Trainer."""
    target, documents = base(options.base), case("news", 0)
    every = list(documents.everything.x)
    texts = [text for text, ids in zip(every, target.encoded(every), strict=True) if len(ids) <= made.CONTEXT][:600]
    batch_seconds = timed(lambda: target.tokens(texts, vocabulary=False))
    single_seconds = timed(lambda: [one_by_one(target, text) for text in texts])
    batch_logs = target.tokens(texts[:50], vocabulary=False).logp
    largest_gap = np.abs(batch_logs - np.concatenate([one_by_one(target, text) for text in texts[:50]])).max()
    print(
        f"scoring {len(texts)} documents: {single_seconds / batch_seconds:.2f} times as fast as one by one; "
        f"gap at most {largest_gap:.1e}"
    )
    halves = splits.offline(POPULATION, 4, 0)
    for epochs in (2, 8):
        tuning = FineTune(options.base, 4, epochs, lr=1e-3, bos="add", device="cpu")
        fast = timed(lambda tuning=tuning: tuning.fit(documents.population, halves, seed=0))
        learnt = [list(documents.population.x[row]) for row in halves.trained_on]
        slow = timed(lambda learnt=learnt, epochs=epochs: [trainer(target, texts, epochs) for texts in learnt])
        print(
            f"four references on {POPULATION // 2} documents, {epochs} epochs: {slow / fast:.2f} times as fast as the "
            f"Trainer ({slow:.0f} s)"
        )


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


def trainer(target: CausalLM, texts: list[str], epochs: int) -> None:
    """What a user would write with the Trainer: padded to the longest of a batch, in random order."""
    words = target.tokenizer
    words.pad_token = words.bos_token
    rows = [{"input_ids": [words.bos_token_id, *words(text)["input_ids"]][: made.CONTEXT]} for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=8, learning_rate=1e-3, report_to=[],
            save_strategy="no", disable_tqdm=True, use_cpu=True, logging_strategy="no",
        )  # fmt: skip
        collate = transformers.DataCollatorForLanguageModeling(words, mlm=False)
        model = copy.deepcopy(target.model)
        transformers.Trainer(model, arguments, train_dataset=rows, data_collator=collate).train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("scores", "tables", "twins", "speed"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--texts", choices=("news", "messages"), default="news")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--references", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--rate", type=float, help="learning rate; default: 1e-3, and 1e-2 with LoRA")
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--others", type=int, default=N_NONMEMBERS)
    parser.add_argument("--population", type=int, default=POPULATION)
    parser.add_argument("--longest", type=int, default=LONGEST, help="characters of a newsgroup article")
    parser.add_argument("--knockoffs", action="store_true", help="gradients of documents and of paraphrases as well")
    parser.add_argument("--base", default=str(Path(tempfile.gettempdir()) / "divulge-base"))
    chosen = parser.parse_args()
    if chosen.part in ("scores", "tables") and chosen.out is None:
        parser.error("--out: the folder of scores is needed")
    {"scores": kept, "tables": tables, "twins": twins, "speed": speed}[chosen.part](chosen)
