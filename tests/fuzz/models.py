"""Valid calls of what asks, trains and completes: targets, references, signals, completion, regressors, audit."""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import peft  # noqa: F401 - takes seconds to import, which no case should be charged with
import polars as pl
import torch
import transformers
from sklearn.linear_model import LinearRegression, LogisticRegression
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

import divulge as dv
from divulge import canaries, completion, references, regressors, signals, targets
from fuzz.numbers import SCORES, X, Y
from fuzz.table import call

RECORDS = dv.Records(X, Y)
LOGITS = np.random.default_rng(1).normal(size=(60, 3))
PARTIAL = dv.PartialRecords(X[:5], Y[:5], np.array([True, True, False]))
MODEL = LogisticRegression().fit(X, Y)
STATS = targets.TokenStatistics(
    np.array([0, 3, 5]), np.array([9, 8]), *(np.array([-1.0, -3.0, -2.0, -1.5, -0.5]) for _ in range(7))
)


DOCUMENTS = dv.Records([f"{number} 1 2" for number in range(12)])


class Even:
    """A language model that finds every token equally likely."""

    length, start = 100, ()

    def encode(self, texts):
        return [tuple(map(ord, text)) for text in texts]

    def decode(self, tokens):
        return "".join(map(chr, tokens))

    def continuations(self, prefixes, suffixes, *, decoding=None):
        offsets = np.append(0, np.cumsum([len(suffix) for suffix in suffixes]))
        return targets.Continuations(offsets, np.full(offsets[-1], -1.0), np.zeros(offsets[-1], bool))

    def greedy(self, prefixes, tokens):
        return [(49,) * tokens for _ in prefixes]

    def key(self):
        return {"model": "even"}


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(3, 3)


def fitted(records, seed):
    return LogisticRegression(max_iter=20).fit(records.x, records.y)


def text_classifier():
    """A tiny network and its tokenizer, which knows two words."""
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({"[PAD]": 0, "yes": 1, "no": 2, "?": 3}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.BertConfig(vocab_size=4, max_position_embeddings=16, **small)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
    return {"model": transformers.BertForSequenceClassification(config), "tokenizer": tokenizer}


def logits(target):
    return target.logits(RECORDS)


def completed(imputer):
    return imputer.fit(RECORDS).complete(PARTIAL, 2, 0)


def versions(augmenter):
    return augmenter.generate(RECORDS, 0)


def measure_signal(signal_object):
    return signal_object.measure(targets.SklearnTarget(MODEL), RECORDS)


def measured(signal_object):
    return signal_object.fit(RECORDS, 0).measure(targets.TorchTarget(linear(), device="cpu"), PARTIAL)


def trained(trainer):
    return trainer.fit(RECORDS, references.splits.online(60, 2, 0), seed=0, observe=[RECORDS]).outputs


def language_model():
    """A tiny language model of two words."""
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({"<s>": 0, "yes": 1, "no": 2, "?": 3}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    small = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 1}
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=4, **small))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>")
    return targets.CausalLM(network, tokenizer, bos="add")


def fine_tuned(trainer):
    documents = dv.Records(["yes no", "no no", "yes", "no yes yes"])
    return trainer.fit(documents, references.splits.offline(4, 2, 0), seed=0, observe=[documents]).outputs


def planted_gradients(canaries):
    total = [torch.zeros(3, 3), torch.zeros(3)]
    canaries.plant(total)
    canaries.observe(total)
    return canaries.scores()


def watched_training(monitor):
    monitor.check(monitor.insert(RECORDS))
    return monitor.measure(targets.SklearnTarget(MODEL))["divulge/auc"]


PLANTED = canaries.make(RECORDS, count=20, seed=0)
CANARIES = {
    "canaries.Monitor": call(
        count=20,
        kind="random",
        claim=dv.Claim(1.0, 1e-5),
        sides="both",
        confidence=0.95,
        members=None,
        nonmembers=None,
        seed=0,
        overwrite=False,
        use=watched_training,
    ),
    "canaries.TrainerCallback": call(count=20, kind="random", seed=0, use=watched_training),
    "canaries.make": call(
        data=RECORDS, kind="random", count=20, design="coins", own=None, seed=0, use=lambda made: made.included
    ),
    "canaries.GradientCanaries": call(
        count=8, clip=1.0, rate=0.5, noise=1.0, seed=0, use=lambda made: planted_gradients(made)
    ),
    "canaries.audit": call(
        target=targets.SklearnTarget(MODEL),
        canaries=PLANTED,
        claim=dv.Claim(1.0, 1e-5),
        recipe="loss",
        family=None,
        sides="both",
        confidence=0.95,
        seed=0,
        use=lambda made: made.scores,
    ),
    "canaries.label_privacy": call(
        target=targets.SklearnTarget(MODEL),
        members=RECORDS[:20],
        nonmembers=RECORDS[20:40],
        population=RECORDS[40:],
        proxy=None,
        confidence=0.95,
        outputs="logits",
        device="cpu",
        seed=0,
        overwrite=False,
        use=lambda made: made.scores,
    ),
    "canaries.play": call(
        train=fitted,
        canaries=PLANTED,
        data=RECORDS,
        claim=dv.Claim(1.0, 1e-5),
        runs=1,
        confidence=0.95,
        seed=0,
        use=lambda made: made.scores,
        free=("train",),
        long=("runs",),
    ),
    "canaries.prove": call(
        scores=SCORES,
        included=np.arange(60) % 2 == 0,
        claim=dv.Claim(1.0, 1e-5),
        design="coins",
        confidence=0.95,
        seed=0,
        use=lambda made: made.bound.low,
    ),
}

SERVER = {
    "url": "http://127.0.0.1:1/v1", "model": "tiny", "concurrency": 2, "retries": 1, "backoff": 0.5, "timeout": 1.0
}  # fmt: skip
TARGETS = {
    "targets.Regressor": call(
        target=targets.CallableTarget(lambda x: x.sum(axis=1)), use=lambda made: made.predictions(RECORDS)
    ),
    "targets.SklearnRegressor": call(
        estimator=LinearRegression().fit(X, X[:, 0]), use=lambda made: made.predictions(RECORDS)
    ),
    "targets.CallableTarget": call(function=lambda x: x, outputs="logits", use=logits, free=("function",)),
    "targets.Metered": call(target=targets.SklearnTarget(MODEL), limit=100, use=logits),
    "targets.Noisy": call(target=targets.SklearnTarget(MODEL), scale=0.1, seed=0, use=logits),
    "targets.Rounded": call(target=targets.SklearnTarget(MODEL), decimals=2, use=logits),
    "targets.SklearnTarget": call(estimator=MODEL, classes=3, floor=1e-7, use=logits),
    "targets.TableTarget": call(
        free=("ids",),
        ids=np.arange(60),
        table=LOGITS,
        outputs="logits",
        use=lambda made: made.logits(dv.Records(X, Y, np.arange(60))),
    ),
    "targets.TextClassifier": call(
        **text_classifier(),
        name="model",
        length=8,
        budget=64,
        use=lambda made: made.logits(dv.Records(["yes no", "no"])),
        free=("name",),
        says=("target", "records"),
    ),
    "targets.TokenStatistics": call(
        offsets=STATS.offsets,
        zlib_bytes=STATS.zlib_bytes,
        logp=STATS.logp,
        free=("logp", "zlib_bytes"),
        use=lambda made: (signals.tokens.all_signals(made), made.rows()),
    ),
    "targets.TorchTarget": call(module=linear(), outputs="logits", device="cpu", batch_size=16, use=logits),
    "targets.Continuations": call(
        offsets=np.array([0, 2, 3]),
        logp=np.array([-1.0, -0.5, -2.0]),
        greedy=np.array([True, False, True]),
        use=lambda made: (made.log_p, made.verbatim),
    ),
    "targets.Decoding": call(temperature=0.5, top_k=5, top_p=0.9, use=str),
    "targets.Endpoint": call(
        **SERVER,
        length=None,
        journal=None,
        use=lambda made: made.key(),
    ),
    "targets.ChatEndpoint": call(
        **SERVER,
        instruction="Go on: ",
        use=lambda made: (made.key(), made.make_prompt("It was")),
        free=("instruction",),
    ),
    "targets.wrap_target": call(target=targets.SklearnTarget(MODEL), use=logits),
    "targets.adapt": call(model=MODEL, outputs="logits", device="cpu", use=logits, says=("target",), free=("device",)),
}

POOL = Path(tempfile.mkdtemp(prefix="divulge-fuzz-"), "pool.parquet")
atexit.register(shutil.rmtree, POOL.parent, ignore_errors=True)
pl.DataFrame({"a": [0.5, 1.5, 2.5], "b": [1, 2, 3], "y": [0, 1, 1]}).write_parquet(POOL)

REFERENCES = {
    "references.Bar": call(title="references", every=10.0, free=("title", "stream")),
    "references.Custom": call(
        says=("splits",),
        train=fitted,
        count=2,
        version="1",
        outputs="logits",
        engine="serial",
        workers=1,
        use=trained,
        free=("train", "version"),
    ),
    "references.FineTune": call(
        base=language_model(),
        count=2,
        epochs=1,
        lr=1e-3,
        batch_size=8,
        lora=None,
        schedule="linear",
        warmup=0.0,
        weight_decay=0.0,
        length=None,
        bos="add",
        engine="serial",
        device="cpu",
        workers=1,
        says=("references", "splits", "model"),
        use=fine_tuned,
        free=("device", "bos", "base"),
        long=("epochs",),
    ),
    "references.LoRA": call(rank=2, alpha=4.0, dropout=0.0, modules=("c_attn",), use=repr),
    "references.Pool": call(path=Path("pool"), use=repr),
    "references.Private": call(
        noise=1.0, clip=1.0, use=lambda made: made.epsilon(records=100, batch_size=10, epochs=1, delta=1e-3)
    ),
    "references.Splits": call(trained_on=np.arange(4)[:, None] % 2 == np.arange(6)[None] % 2, use=repr),
    "references.Train": call(
        make_model=linear,
        count=2,
        epochs=1,
        optimizer="sgd",
        lr=0.1,
        momentum=0.5,
        weight_decay=0.0,
        batch_size=32,
        schedule="constant",
        stop_at_accuracy=None,
        augment=None,
        privacy=None,
        precision="single",
        engine="serial",
        device="cpu",
        workers=1,
        says=("references", "splits"),
        use=trained,
        free=("schedule", "augment", "make_model"),
        long=("epochs",),
    ),
    "references.scan_records": call(
        source=POOL, label="y", columns=("a", "b"), use=lambda source: source[np.array([0, 2])].x
    ),
    "references.splits.online": call(records=6, models=4, seed=0, labels=np.arange(6) % 2),
    "references.splits.offline": call(
        records=6, models=4, seed=0, k=1, of=2, candidates=np.arange(6) < 2, labels=np.arange(6) % 2
    ),
    "references.train_one": call(
        make_model=linear,
        records=RECORDS,
        seed=0,
        classes=3,
        progress=None,
        epochs=1,
        device="cpu",
        use=lambda made: made.weight.detach().numpy(),
        free=("make_model", "progress"),
        long=("epochs",),
        tolerance=1e-6,
    ),
}

_STATISTICS = (
    "log_likelihood",
    "token_probability",
    "scaled_likelihood",
    "last_tokens",
    "last_quarter",
    "zlib",
    "modified_entropy",
    "all_signals",
)
SIGNALS = {
    f"signals.classification.{name}": call(logits=LOGITS, labels=Y)
    for name in (
        "negative_loss",
        "confidence",
        "scaled_logit",
        "hinge",
        "top_two_gap",
        "max_probability",
        "modified_entropy",
        "correctness",
        "label_loss",
    )
} | {
    "signals.classification.one_hot_logits": call(labels=Y, classes=3),
    "signals.internals.measure": call(
        target=targets.TorchTarget(linear(), device="cpu"),
        records=RECORDS,
        names=("weight-gradient", "feature-angle"),
        says=("signal",),
    ),
    "signals.internals.feature_angle": call(fed=LOGITS, weights=np.eye(3)[:, : LOGITS.shape[1]], labels=Y),
    "signals.BoundaryDistance": call(queries=30, seed=0, use=measure_signal, long=("queries",)),
    "signals.NoiseRobustness": call(queries=3, scale=1.0, flips=0.1, seed=0, use=measure_signal, long=("queries",)),
    "signals.versions.ImageVersions": call(flip=True, shift=0, shape=(3, 1), free=("shape",), use=versions),
    "signals.versions.NoisyVersions": call(count=2, scale=0.1, flips=0.1, use=versions, long=("count",)),
    "signals.versions.OwnVersions": call(function=lambda x, rng: x + rng.normal(), count=2, use=versions),
    "signals.MRAD": call(
        step=10.0,
        iterations=1,
        access="white",
        directions=2,
        epsilon=0.01,
        clip="range",
        detector="gradient-norm",
        start=completion.Mean(),
        limit=1000,
        shadows=0,
        use=measured,
    ),
    "signals.GradientMatching": call(steps=2, rate=0.1, start=completion.Mean(), use=measured, long=("steps",)),
    "signals.ReCaLL": call(shots=1, use=lambda made: made.prepare(["1 1"], 0).measure(Even(), DOCUMENTS)),
    "signals.PreparedReCaLL": call(
        before=("1 1",), use=lambda made: made.measure(Even(), DOCUMENTS), says=("population", "recall")
    ),
    **{f"signals.tokens.{name}": call(stats=STATS) for name in _STATISTICS},
    **{f"signals.tokens.{name}": call(stats=STATS, k=0.2) for name in ("min_k", "min_k_plus")},
    **{f"signals.tokens.{name}": call(stats=STATS, alpha=0.5, k=0.1) for name in ("max_renyi", "min_renyi")},
    "signals.tokens.lowercase": call(stats=STATS, lowered=STATS),
    "signals.tokens.reference_difference": call(stats=STATS, reference=STATS),
}

COMPLETION = {
    "completion.ConditionalGaussian": call(shrinkage="ledoit-wolf", per_class=True, use=completed),
    "completion.CustomImputer": call(
        function=lambda x, known, y, auxiliary, rng: np.nan_to_num(x), use=completed, free=("function",)
    ),
    "completion.Mean": call(per_class=True, use=completed),
    "completion.imputer": call(imputer_or_function=completion.Mean(), use=completed, free=("imputer_or_function",)),
    "completion.mask": call(words="columns:b", shape=(3,), columns=("a", "b", "c"), seed=0, says=("known",)),
    "completion.overlap": call(partial=PARTIAL, auxiliary=X),
}

REGRESSORS = {
    "regressors.Network": call(
        body=regressors.bodies.MLP((4,)),
        head="gaussian",
        levels=(0.2, 0.5),
        epochs=1,
        lr=1e-3,
        batch_size=16,
        weight_decay=0.0,
        held=0.2,
        patience=1,
        device="cpu",
        use=lambda made: np.nan_to_num(made.fit(X, SCORES, 0).predict(X)),
    ),
    "regressors.bodies.MLP": call(hidden=(4,), use=lambda made: str(made.build(made.prepare(X)))),
    "regressors.bodies.Published": call(use=lambda made: str(made.build(made.prepare(X)))),
    "regressors.bodies.SmallCNN": call(width=2, use=lambda made: str(made.build(made.prepare(np.zeros((4, 8, 8, 1)))))),
    "regressors.bodies.TextBag": call(
        length=8,
        rows=100,
        dimension=4,
        hidden=(4,),
        use=lambda made: str(made.build(made.prepare(np.array(["yes no", "b"], dtype=object)))),
    ),
    "regressors.bodies.Backbone": call(
        name="convnext-tiny", size=32, weights=None, use=lambda made: made.prepare(np.zeros((2, 8, 8, 3))).shape
    ),
}

AUDIT = {
    "audit": call(
        target=targets.SklearnTarget(MODEL),
        members=dv.Records(X[:30], Y[:30]),
        nonmembers=dv.Records(X[30:], Y[30:]),
        population=dv.Records(X + 0.5, Y),
        recipes=("loss",),
        references=None,
        unseen_classes=(),
        fpr=(0.2,),
        groups=None,
        duplicates="error",
        outputs="logits",
        device="cpu",
        seed=0,
        out=None,
        overwrite=False,
        progress=None,
        options=dv.AuditOptions(),
        use=lambda made: [made[name].auc for name in made],
        says=("records",),
        free=("progress", "out", "device"),
    ),
    "AuditOptions": call(
        calibration=0.25,
        unknown_classes="error",
        calls=1,
        known="share:0.5",
        imputer=None,
        pool=None,
        use=lambda made: made.calibration,
        free=("covariates", "known", "imputer", "pool"),
    ),
}

ATTRIBUTE_ROWS = dv.Records(np.c_[np.arange(60) % 3, X], Y)
ATTRIBUTES = {
    "attributes.infer": call(
        target=LogisticRegression().fit(ATTRIBUTE_ROWS.x, Y),
        members=ATTRIBUTE_ROWS[:20],
        nonmembers=ATTRIBUTE_ROWS[20:40],
        population=ATTRIBUTE_ROWS[40:],
        column=0,
        tolerance=None,
        references=None,
        max_values=8,
        margin=0.1,
        confidence=0.95,
        duplicates="error",
        outputs="logits",
        task="auto",
        device="cpu",
        seed=0,
        show_records=True,
        pool=None,
        out=None,
        overwrite=False,
        progress=None,
        use=lambda made: [attack.difference for attack in made.finding.attacks],
        says=("answer",),
        free=("progress", "out", "pool"),
    ),
}
RELEASED = np.random.default_rng(5).normal(size=(200, 3)).round(2)
SYNTHETIC = {
    "synthetic.audit": call(
        released=RELEASED[:40],
        members=RELEASED[40:80],
        nonmembers=RELEASED[80:120],
        population=RELEASED[120:],
        person=None,
        text=None,
        drop=(),
        attributes=("column 0",),
        at_random=True,
        duplicates="error",
        fpr=(0.2,),
        fdr=0.2,
        margin=0.1,
        confidence=0.95,
        seed=0,
        out=None,
        overwrite=False,
        use=lambda made: [made[name].auc for name in made],
        says=("answer",),
        free=("out",),
    ),
}
DEFENCES = {
    "defences.suggest_settings": call(estimator=LogisticRegression(), says=("settings",), free=("estimator",)),
    "defences.measure_settings": call(
        target=LogisticRegression().fit(X, Y),
        members=dv.Records(X[:30], Y[:30]),
        nonmembers=dv.Records(X[30:], Y[30:]),
        population=dv.Records(X + 0.5, Y),
        settings=[{"C": 0.1}],
        recipes=["loss"],
        references=None,
        fpr=0.2,
        max_loss=0.1,
        duplicates="error",
        task="auto",
        seed=0,
        out=None,
        overwrite=False,
        progress=None,
        use=lambda made: [row.auc for row in made.rows],
        says=("records",),
        free=("progress", "out"),
    ),
}
EXTRACTION = {
    "signals.OutputSignal": call(
        name="largest",
        output="logits",
        compute=lambda answers, y: answers.max(axis=1),
        needs_labels=False,
        use=lambda made: made.compute(LOGITS, None),
        free=("compute",),
    ),
    "extraction.Cut": call(prefix=2, suffix=1, place="start", use=lambda made: made.prompt_length(9)),
    "extraction.draws_needed": call(log_p=np.array([-1.0, -5.0]), chance=0.5),
    "extraction.measure": call(
        target=Even(),
        members=DOCUMENTS,
        nonmembers=dv.Records([f"{number} 3 4" for number in range(12)]),
        prefix=2,
        suffix=2,
        place="start",
        decoding=targets.Decoding(),
        draws=(1, 10),
        near=0.75,
        reference=None,
        confidence=0.95,
        duplicates="error",
        show_records=True,
        seed=0,
        out=None,
        overwrite=False,
        progress=None,
        use=lambda made: [rate.difference for rate in made.rates],
        says=("x",),
        free=("progress", "out"),
    ),
    "extraction.probability_seen": call(log_p=np.array([-1.0, -5.0]), draws=10),
}

CALLS = (
    ATTRIBUTES
    | DEFENCES
    | SYNTHETIC
    | EXTRACTION
    | CANARIES
    | TARGETS
    | REFERENCES
    | SIGNALS
    | COMPLETION
    | REGRESSORS
    | AUDIT
)
