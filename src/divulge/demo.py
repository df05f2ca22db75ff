"""Demonstrations: audits of an image classifier and of a language model, and an identification of documents.

Images are Fashion-MNIST: an audit with all classes known, then one with a class unseen. Texts are the paragraphs of the
manual that ships with Python (`pydoc_data.topics`). For the audit a small transformer learns the language of the manual
from half of them and is fine-tuned on some of the others, the members. For the identification it is trained on a random
half, one part of the other half is the calibration, and one part is added to the candidates: membership is known, and
the assumption of the guarantee holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, provenance, seeds, store, tables
from divulge.auditing import run_audit
from divulge.auditing.result import KIND
from divulge.decisions.methods import resolve_method
from divulge.identification import document_scoring, from_tables
from divulge.identification.decision import METHODS, Policy
from divulge.identification.finished_run import RUN_TYPE
from divulge.identification.score_tables import Columns, Score
from divulge.references import FineTune, Train
from divulge.references.progress import ProgressContext, no_progress
from divulge.run_directory import RunDirectory
from divulge.settings import DecisionSettings, ResolvedAuditSettings
from divulge.types import AuditData, Records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pydoc_data import topics

    import tokenizers
    import torch
    import transformers
    from safetensors import torch as tensors
    from torch import nn

    from divulge.auditing import Audit
    from divulge.decisions.methods import Method
    from divulge.identification.from_tables import Progress
    from divulge.results import IdentificationSummary
    from divulge.run_directory import RunDraft
    from divulge.targets import CausalLM, language_models, pretrained
else:
    language_models = lazy.module("divulge.targets.language_models")
    nn = lazy.module("torch.nn")
    pretrained = lazy.module("divulge.targets.pretrained")
    tensors = lazy.module("safetensors.torch")
    tokenizers = lazy.module("tokenizers")
    topics = lazy.module("pydoc_data.topics")
    torch = lazy.module("torch")
    transformers = lazy.module("transformers")

UNSEEN = 3
IMAGE_RECIPES = ("loss", "calibrated", "lira", "rmia", "learned", "quantile-trees", "transductive")


@dataclass(frozen=True, slots=True)
class ImageDemoSize:
    """Size of the audit of images: records of each set, reference models, epochs."""

    members: int
    population: int
    count: int
    epochs: int


FULL_IMAGES = ImageDemoSize(members=2500, population=5000, count=16, epochs=50)
QUICK_IMAGES = ImageDemoSize(members=500, population=1500, count=4, epochs=20)


def fashion_mnist() -> Records:
    """Load 10,000 images of clothing in 10 classes, 28 x 28 grey values in [0, 1] (Zalando, MIT licence).

    Examples:
        >>> fashion_mnist()
        Records(n=10000, shape=(28, 28), classes=10)
    """
    with resources.as_file(resources.files("divulge") / "data" / "fashion_mnist_small.npz") as path:
        arrays = store.read_arrays(path)
    x = np.concatenate([arrays["x_train"], arrays["x_test"]]).astype(np.float32) / np.float32(255)
    return Records(x, np.concatenate([arrays["y_train"], arrays["y_test"]]))


def network() -> nn.Module:
    """Return the classifier of the demo: one hidden layer of 256."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def audit_images(
    out: Path,
    *,
    seed: int = 0,
    size: ImageDemoSize = FULL_IMAGES,
    overwrite: bool = False,
    watching: ProgressContext = no_progress,
) -> tuple[Audit, Audit]:
    """Train a target, then audit it twice: all classes known to the auditor, and class 3 (dresses) unseen.

    The first audit lies in ``out``, the second in ``out/unseen``; the report in ``out`` shows both. The target and
    the records lie in ``out/inputs``, so that both plans can be run again and changed.

    Args:
        out: run directory.
        seed: of every random draw.
        size: `FULL_IMAGES` or `QUICK_IMAGES`.
        overwrite: replace a finished run in ``out``.
        watching: called with a title for each audit, gives the context in which its progress is shown.
    """
    network()  # says what is missing before anything is made
    with RunDirectory(out).writing(KIND, store.hash_values("demo", size, seed), overwrite=overwrite) as draft:
        records = fashion_mnist()
        order = seeds.generator(seed, "demo").permutation(len(records))
        members = records[order[: size.members]]
        nonmembers = records[order[size.members : 2 * size.members]]
        population = records[order[2 * size.members : 2 * size.members + size.population]]
        training = Train(network, count=size.count, epochs=size.epochs, optimizer="adam")
        target = training.train_model(members, seed=seeds.derive_seed(seed, "demo target"))
        _write_image_inputs(
            draft.path / "inputs", target, {"members": members, "nonmembers": nonmembers, "population": population}
        )
        settings = ResolvedAuditSettings(recipes=IMAGE_RECIPES, references=training, seed=seed)
        subject, pool, plan = (
            AuditData(members=members, nonmembers=nonmembers, population=population),
            draft.home / "pool",
            _plan_images(size, seed),
        )
        with watching("reference models, all classes known") as progress:
            all_classes_audit = run_audit(target, subject, settings, out=draft, plan=plan, progress=progress, pool=pool)
        plan |= {"unseen_classes": [UNSEEN], "access": {"drop_classes": [UNSEEN]}, "folder": "../inputs"}
        without_unseen = population[np.asarray(population.y) != UNSEEN]
        subject = replace(subject, population=without_unseen, unseen_classes=(UNSEEN,))
        with (
            watching(f"reference models, class {UNSEEN} unseen") as progress,
            draft.part("unseen", KIND, store.hash_values("demo", size, seed)) as part,
        ):
            unseen_class_audit = run_audit(target, subject, settings, out=part, plan=plan, progress=progress, pool=pool)
        all_classes_audit.report(
            draft.path / "report.html",
            related={"unseen": unseen_class_audit},
            origin=provenance.read_provenance(draft.path),
        )
        return all_classes_audit, unseen_class_audit


def _plan_images(size: ImageDemoSize, seed: int) -> dict[str, Any]:
    """Return the plan of the first audit, relative to its run directory."""
    return {
        "folder": "inputs",
        "seed": seed,
        "recipes": list(IMAGE_RECIPES),
        "target": {"model": "target.safetensors", "factory": f"{__name__}:network"},
        "data": {"members": "members.npz", "nonmembers": "nonmembers.npz", "population": "population.npz"},
        "references": {
            "make_model": f"{__name__}:network",
            "count": size.count,
            "epochs": size.epochs,
            "optimizer": "adam",
        },
    }


def _write_image_inputs(folder: Path, target: nn.Module, sets: dict[str, Records]) -> None:
    """Write target and records to the paths that the plans name."""
    store.make_private_directory(folder)
    store.write_bytes(folder / "target.safetensors", tensors.save(target.state_dict()))
    for name, records in sets.items():
        assert records.y is not None
        store.write_arrays(folder / f"{name}.npz", {"x": records.x, "y": records.y})


TEXT_RECIPES = ("loss", "zlib", "min-k++", "base-ratio", "wbc", "reference-ratio", "windows", "lira", "rmia", "learned")
_TUNING_RATE = 2e-3
_TEXT_SETS = ("members", "nonmembers", "population")


@dataclass(frozen=True, slots=True)
class TextDemoSize:
    """Size of the audit of a language model: paragraphs of each set, models, epochs of base and fine-tunes."""

    base: int
    members: int
    nonmembers: int
    population: int
    count: int
    base_epochs: int
    epochs: int


FULL_TEXTS = TextDemoSize(base=400, members=150, nonmembers=200, population=400, count=4, base_epochs=12, epochs=3)
QUICK_TEXTS = TextDemoSize(base=200, members=60, nonmembers=100, population=160, count=3, base_epochs=3, epochs=3)


def audit_language_model(
    out: Path,
    *,
    seed: int = 0,
    size: TextDemoSize = FULL_TEXTS,
    overwrite: bool = False,
    watching: ProgressContext = no_progress,
) -> Audit:
    """Train a base on half of the manual's paragraphs, fine-tune it on some of the others, audit the fine-tune.

    Base, fine-tune and paragraphs lie in ``out/inputs``, so that the plan can be run again and changed.

    Args:
        out: run directory.
        seed: of every random draw.
        size: `FULL_TEXTS` or `QUICK_TEXTS`.
        overwrite: replace a finished run in ``out``.
        watching: called with a title, gives the context in which the progress of an audit is shown.

    Raises:
        divulge.MissingExtraError: torch or transformers is not installed.
    """
    with RunDirectory(out).writing(KIND, store.hash_values("text demo", size, seed), overwrite=overwrite) as draft:
        texts = load_paragraphs(seed)
        manual, paragraphs = texts[: size.base], texts[size.base :]
        base = train_language_model(manual, DemoModelConfig(epochs=size.base_epochs), seed=seed)
        sets, begin = {}, 0
        for name in _TEXT_SETS:
            end = begin + getattr(size, name)
            sets[name] = Records(np.array(paragraphs[begin:end], dtype=object))
            begin = end
        tuning = FineTune(base, size.count, size.epochs, lr=_TUNING_RATE, bos="add", device="cpu")
        target = tuning.train_model(sets["members"], seed=seeds.derive_seed(seed, "text demo target"))
        _write_text_inputs(draft, {"base": base, "target": target}, sets)
        with watching("reference models") as progress:
            settings = ResolvedAuditSettings(recipes=TEXT_RECIPES, references=tuning, seed=seed)
            plan = _plan_texts(size, seed)
            return run_audit(target, AuditData(**sets), settings, out=draft, plan=plan, progress=progress)


def _write_text_inputs(draft: RunDraft, models: Mapping[str, CausalLM], sets: Mapping[str, Records]) -> None:
    """Write models and documents to the paths that the plan names."""
    folder = draft.path / "inputs"
    store.make_private_directory(folder)
    with pretrained.hide_progress_bars():
        for name, model in models.items():
            model.model.save_pretrained(folder / name)
            model.tokenizer.save_pretrained(folder / name)
    for name, records in sets.items():
        frame = tables.from_arrays({"text": np.array(records.x, dtype=object)})
        store.write_file(folder / f"{name}.parquet", partial(tables.write_parquet, frame))


def _plan_texts(size: TextDemoSize, seed: int) -> dict[str, Any]:
    """Return the plan of the audit, relative to its run directory."""
    return {
        "folder": "inputs",
        "seed": seed,
        "device": "cpu",
        "recipes": list(TEXT_RECIPES),
        "target": {"model": "target", "bos": "add"},
        "data": {**{name: f"{name}.parquet" for name in _TEXT_SETS}, "text": "text"},
        "references": {"base": "base", "count": size.count, "epochs": size.epochs, "lr": _TUNING_RATE, "bos": "add"},
    }


@dataclass(frozen=True, slots=True)
class DemoModelConfig:
    """Size and training of the demo's model.

    Args:
        epochs: passes over the training half.
        width: size of the hidden layers.
        layers: number of layers.
        vocabulary: size of the tokenizer's vocabulary, which is learned from the training half alone.
        batch: paragraphs per step.
        rate: highest learning rate.
        longest: number of tokens to which paragraphs are cut.
    """

    epochs: int = 12
    width: int = 96
    layers: int = 2
    vocabulary: int = 1024
    batch: int = 16
    rate: float = 5e-3
    longest: int = 256


def load_paragraphs(seed: int = 0) -> list[str]:
    """Return the distinct paragraphs of Python's manual of 80 to 1,200 characters, shuffled."""
    parts = (part.strip() for topic in topics.topics.values() for part in re.split(r"\n\s*\n", topic))
    distinct = sorted({part for part in parts if 80 <= len(part) <= 1200})
    return [distinct[i] for i in seeds.generator(seed, "demo paragraphs").permutation(len(distinct))]


def identify_documents(
    out: Path,
    *,
    fdr: float = DecisionSettings().fdr,
    method: Method | str = "auto",
    seed: int = 0,
    config: DemoModelConfig | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> IdentificationSummary:
    """Train, score and identify; write the tables, the signals, the selection and the report to ``out``.

    Args:
        out: run directory for everything.
        fdr: bound on the expected share of non-members among the selected.
        method: see `divulge.identify`.
        seed: of the split, the initial weights and the order of training.
        config: size and training of the model.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of training steps finished and of all.

    Raises:
        divulge.MissingExtraError: torch or transformers is not installed.
    """
    policy = Policy(fdr, resolve_method(method, METHODS))
    with RunDirectory(out).writing(RUN_TYPE, "demo", overwrite=overwrite) as draft:
        texts = load_paragraphs(seed)
        half, quarter = len(texts) // 2, len(texts) // 4
        target = train_language_model(texts[:half], config or DemoModelConfig(), seed=seed, progress=progress)
        n_members = half - quarter // 2
        _score_documents(draft, "candidates", target, texts[:n_members] + texts[half + quarter :], n_members)
        third = quarter // 3  # of the unused documents, to test the others
        calibration = _score_documents(draft, "calibration", target, texts[half : half + quarter - third], 0)
        holdout = _score_documents(draft, "holdout", target, texts[half + quarter - third : half + quarter], 0)
        columns = Columns((Score("min_k_plus"),), id="id", text="text", truth="member")
        plan = from_tables.DecisionPlan(columns, policy, seed=seed)
        return from_tables.run([draft.path / "candidates.parquet"], [calibration], draft, plan, holdout=[holdout])


def _score_documents(
    draft: RunDraft, name: str, target: language_models.CausalLM, documents: list[str], n_members: int
) -> Path:
    """Write a table of documents, members first, with their signals; return the folder of the signals."""
    truth, options = np.arange(len(documents)) < n_members, document_scoring.ScoringOptions()
    draft.write_table(name, tables.from_arrays({"text": np.array(documents, object), "member": truth}))
    key = document_scoring.run_key(target.key(), options)
    with draft.part(f"token-statistics/{name}", document_scoring.RUN_TYPE, key) as inner:
        document_scoring.score_into(inner, [draft.path / f"{name}.parquet"], target, options)
    signals = tables.read_table(sorted((inner.path / "documents").iterdir()))
    draft.write_table(name, signals.with_columns(member=truth))
    return inner.path


def train_language_model(
    texts: list[str], config: DemoModelConfig, *, seed: int = 0, progress: Progress | None = None
) -> language_models.CausalLM:
    """Train a small Llama from random weights until it overfits ``texts``.

    Raises:
        divulge.MissingExtraError: torch or transformers is not installed.
    """
    tokenizer = train_tokenizer(texts, config.vocabulary)
    encoded = [[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]][: config.longest] for text in texts]
    with torch.random.fork_rng():  # transformers draws initial weights from torch's global generator
        torch.manual_seed(seeds.derive_seed(seed, "demo weights"))
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=config.width,
                intermediate_size=2 * config.width,
                num_hidden_layers=config.layers,
                num_attention_heads=4,
                max_position_embeddings=1024,
                tie_word_embeddings=True,
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    _fit(model, encoded, config, seeds.generator(seed, "demo order"), progress or (lambda done, total: None))
    return language_models.CausalLM(model, tokenizer, name="demo", bos="add")


def train_tokenizer(texts: list[str], size: int) -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer of ``size`` tokens."""
    splitter = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = splitter
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>"], initial_alphabet=splitter.alphabet(), show_progress=False
    )
    raw.train_from_iterator(texts, trainer)
    raw.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>")  # noqa: S106  a token, not a password


def _fit(
    model: Any, encoded: list[list[int]], config: DemoModelConfig, rng: np.random.Generator, progress: Progress
) -> None:
    n_steps = config.epochs * -(-len(encoded) // config.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.rate, total_steps=n_steps)
    model.train()
    n_done = 0
    for _ in range(config.epochs):
        # Paragraphs of nearly equal length stand in one batch, so that little is padding; in a new order each time.
        order = np.argsort(np.array([len(ids) for ids in encoded]) + rng.normal(0, 5, len(encoded)))
        batches = [
            [encoded[i] for i in order[start : start + config.batch]] for start in range(0, len(order), config.batch)
        ]
        for batch in (batches[i] for i in rng.permutation(len(batches))):
            width = max(map(len, batch))
            ids = torch.tensor([row + [0] * (width - len(row)) for row in batch])
            is_token = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
            labels = ids.masked_fill(is_token == 0, -100)  # padding is not learned
            model(input_ids=ids, attention_mask=is_token, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            n_done += 1
            progress(n_done, n_steps)
    model.eval()
