"""Target's settings unknown: references trained with the defaults, matched, and with the target's own settings.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/matching.py --out FOLDER [--seeds 3] [--only satimage]
    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/matching.py --out FOLDER --null 20
    PYTHONPATH=src python benchmarks/matching.py --out FOLDER --table

A piece is one target: it is measured once and kept in FOLDER, so that a stopped run goes on where it was. With
``--table`` the pieces become `benchmarks/results/matching.md`. A null audit has a target that was trained on records
that are in none of its sets.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import data_sets
import divulge as dv
from divulge import demo
from divulge.auditing.checks import ScoredAudit
from divulge.auditing.checks.agreement import ReferenceAnswers
from divulge.auditing.pipeline import _prepare_audit
from divulge.auditing.prepared import AuditLog
from divulge.auditing.reference_match import match_references
from divulge.auditing.signals import score_recipe, signal_names
from divulge.references import FineTune, Train
from divulge.references.progress import ignore_progress
from divulge.settings import ResolvedAuditSettings
from divulge.types import AuditData

RESULTS = Path(__file__).parent / "results" / "matching.md"
COUNT = 4


@dataclass(frozen=True)
class Case:
    """A kind of target.

    Args:
        name: of the data and the model.
        truth: how the target was trained, in words.
        recipes: attacks; the first decides the table.
        prepare: seed → sets, other records to train a null target on, a function that trains the target on records,
            and reference trainings by name: "defaults", "matched", "oracle".
    """

    name: str
    truth: str
    recipes: tuple[str, ...]
    prepare: Callable[[int], tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]]


def split(x: np.ndarray, y: np.ndarray | None, members: int, population: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Return the sets of an audit, and as many other records as members."""
    rows = np.random.default_rng([7, seed]).permutation(len(x))[: 3 * members + population]
    parts = np.split(rows, np.cumsum([members, members, population]))
    records = [dv.Records(x[part], None if y is None else y[part]) for part in parts]
    return dict(zip(("members", "nonmembers", "population"), records[:3], strict=True)), records[3]


def network(
    read: Callable[[], data_sets.DataSet], members: int, population: int, **truth: Any
) -> Callable[[int], tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]]:
    """Return the preparation of an MLP with 128 hidden units; references begin with the defaults of `Train`."""

    def prepare(seed: int) -> tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]:
        data = read()
        sets, outsiders = split(data.x, data.y, members, population, seed)
        width, classes = data.x.shape[1], int(data.y.max()) + 1

        def make_model() -> nn.Module:
            return nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, classes))

        trainings = {
            "defaults": Train(make_model, count=COUNT, engine="stacked"),
            "matched": Train(make_model, count=COUNT, engine="stacked", match="auto"),
            "oracle": Train(make_model, count=COUNT, engine="stacked", **truth),
        }
        return (
            sets,
            outsiders,
            lambda records: Train(make_model, **truth).train_model(records, seed=1000 + seed),
            trainings,
        )

    return prepare


def estimator(
    read: Callable[[], data_sets.DataSet], members: int, population: int, make: Callable[..., Any], **truth: Any
) -> Callable[[int], tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]]:
    """Return the preparation of an estimator behind a function; references begin with its default parameters."""

    def prepare(seed: int) -> tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]:
        data = read()
        sets, outsiders = split(data.x, data.y, members, population, seed)

        def train(records: Any) -> Any:
            fitted = make(random_state=seed, **truth).fit(records.x, records.y)
            return dv.targets.CallableTarget(lambda x: fitted.predict_proba(x), outputs="probabilities")

        trainings = {
            "defaults": Train(make, count=COUNT, engine="serial"),
            "matched": Train(make, count=COUNT, engine="serial", match="auto"),
            "oracle": Train(lambda: make(**truth), count=COUNT, engine="serial"),
        }
        return sets, outsiders, train, trainings

    return prepare


def quiet_boosting(**parameters: Any) -> LGBMClassifier:
    """Return a boosting of trees that prints nothing."""
    return LGBMClassifier(verbose=-1, n_jobs=1, **parameters)


def language_model(
    file: str, field_length: int, members: int, population: int, **truth: Any
) -> Callable[[int], tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]]:
    """Return the preparation of a small language model; references begin with the defaults of `FineTune`."""

    def prepare(seed: int) -> tuple[dict[str, Any], Any, Callable[[Any], Any], dict[str, Any]]:
        with gzip.open(data_sets.folder() / file, "rt", encoding="utf8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        texts = sorted(
            {" ".join(data_sets._body(t).split() if "\n\n" in t else t.split())[:field_length] for t in texts}
        )
        texts = [text for text in texts if len(text) >= 40]
        order = np.random.default_rng([11, seed]).permutation(len(texts))
        base_texts, other_texts = [texts[row] for row in order[:600]], [texts[row] for row in order[600:]]
        base = demo.train_language_model(base_texts, demo.DemoModelConfig(epochs=4, width=64), seed=seed)
        sets, outsiders = split(np.array(other_texts, dtype=object), None, members, population, seed)
        settings = {"count": 3, "device": "cpu", "engine": "serial", "bos": "add"}
        trainings = {
            "defaults": FineTune(base, **settings),
            "matched": FineTune(base, **settings, match="auto"),
            "oracle": FineTune(base, **settings, **truth),
        }
        return (
            sets,
            outsiders,
            lambda records: FineTune(base, bos="add", **truth).train_model(records, seed=1000 + seed),
            trainings,
        )

    return prepare


ADAM = {"optimizer": "adam", "lr": 1e-3}
CASES = {
    case.name: case
    for case in (
        Case(
            "satimage MLP", "sgd .1, 60 epochs", ("lira", "rmia", "calibrated"),
            network(data_sets.satimage, 800, 1600, lr=0.1, epochs=60),
        ),
        Case(
            "Location-30 MLP", "adam .001, 30 epochs", ("lira", "rmia", "calibrated"),
            network(data_sets.location, 800, 1600, epochs=30, **ADAM),
        ),
        Case(
            "Fashion-MNIST MLP", "adam .001, 60 epochs", ("lira", "rmia", "calibrated"),
            network(data_sets.fashion, 1000, 2000, epochs=60, **ADAM),
        ),
        Case(
            "Adult MLP", "adam .003, 40 epochs", ("lira", "rmia", "calibrated"),
            network(data_sets.adult, 1000, 2000, epochs=40, optimizer="adam", lr=3e-3),
        ),
        Case(
            "Adult forest", "depth 8, leaves of 2", ("lira", "rmia", "calibrated"),
            estimator(data_sets.adult, 1000, 2000, RandomForestClassifier, max_depth=8, min_samples_leaf=2),
        ),
        Case(
            "satimage boosting", "30 rounds at .3, 7 leaves", ("lira", "rmia", "calibrated"),
            estimator(
                data_sets.satimage, 800, 1600, quiet_boosting, n_estimators=30, learning_rate=0.3, num_leaves=7,
            ),
        ),
        Case(
            "SMS language model", "rate .002, 6 epochs", ("reference-ratio", "windows", "lira"),
            language_model("sms_spam.jsonl.gz", 160, 200, 500, lr=2e-3, epochs=6),
        ),
        Case(
            "news language model", "rate .001, 4 epochs", ("reference-ratio", "windows", "lira"),
            language_model("20news_bydate_small.jsonl.gz", 300, 200, 500, lr=1e-3, epochs=4),
        ),
    )
}  # fmt: skip


def measure(case: Case, seed: int) -> dict[str, Any]:
    """Audit one target with each training of references; AUC and TPR at 1 % of every attack."""
    sets, _, train, trainings = case.prepare(seed)
    target = train(sets["members"])
    row: dict[str, Any] = {"case": case.name, "seed": seed}
    for name, references in trainings.items():
        began = time.process_time()
        options = ResolvedAuditSettings(recipes=case.recipes, references=references, duplicates="drop", seed=seed)
        prepared, settings = _prepare_audit(target, AuditData(**sets), options, ignore_progress, None)
        log = AuditLog()
        prepared = match_references(_with_pool(prepared), log)
        views = prepared.modality.compute_signals(prepared, log)
        names = signal_names(prepared.inputs.recipes)
        outcome: dict[str, Any] = {"seconds": time.process_time() - began}
        for recipe in prepared.inputs.recipes:
            scores = score_recipe(recipe, names[recipe.name], views).scores[prepared.layout.candidate_rows]
            truth = prepared.inputs.truth
            outcome[recipe.name] = [
                dv.evaluation.auc(scores, truth).value,
                dv.evaluation.tpr_at_fpr(scores, truth, 0.01).value,
            ]
        audit = ScoredAudit(prepared, settings, views, {}, {}, (), log)
        agreement = ReferenceAnswers().compare(audit).agreement[0]
        outcome |= {"rmse": agreement.rmse.value, "spread": agreement.spread.value, "differs": agreement.differs}
        if log.matched is not None:
            outcome |= {"chosen": log.matched.chosen, "models": log.matched.models}
            outcome["tried"] = [
                [t.setting, t.score and t.score.value, t.rmse and t.rmse.value] for t in log.matched.tried
            ]
        row[name] = outcome
    return row


def _with_pool(prepared: Any) -> Any:
    import dataclasses
    import tempfile

    return dataclasses.replace(prepared, pool=Path(tempfile.mkdtemp(prefix="matching-")) / "pool")


def measure_null(case: Case, seed: int) -> dict[str, Any]:
    """Audit a target that was trained on none of the records, with matched references."""
    sets, outsiders, train, trainings = case.prepare(seed)
    result = dv.audit(
        train(outsiders),
        **sets,
        recipes=case.recipes,
        references=trainings["matched"],
        duplicates="drop",
        seed=seed,
        progress=None,
    )
    return {"case": case.name, "seed": seed, "answer": result.verdict.answer}


def run_pieces(out: Path, piece: str, cases: list[Case], seeds: range, work: Callable[[Case, int], Any]) -> None:
    """Measure what is not yet in ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for case in cases:
            path = out / f"{piece}-{case.name.replace(' ', '_')}-{seed}.json"
            if not path.exists():
                path.write_text(json.dumps(work(case, seed)))
                print(path.name, flush=True)


HEAD = """# References that match the target

`benchmarks/matching.py`: the auditor does not know how the target was trained. References ({count}; 3 of language
models) are trained with the defaults of `Train` and `FineTune` (of estimators: the library's defaults), with
`match="auto"`, and with the target's own settings ("oracle"). Each number is the mean over draws of records, target
and references, whose number (at most {seeds}) stands beside the target; standard deviations stand in brackets. A single
draw has the luck of one target: among 1,600 to 2,000 candidates, an AUC has a standard error of about .015. "RMSE"
compares target and references on calibration records, with defaults, matched and oracle; "said to differ" is what the
report says of each. The oracle differs too where the target had more records than half of the population.
"""


HOWS = ("defaults", "matched", "oracle")


def write_table(out: Path) -> None:
    """Write the pieces as tables."""
    rows = [json.loads(path.read_text()) for path in sorted(out.glob("piece-*.json"))]
    n_seeds = max(sum(row["case"] == name for row in rows) for name in CASES)
    lines = [HEAD.format(count=COUNT, seeds=n_seeds)]
    for statistic, title in ((0, "AUC"), (1, "TPR at 1 %")):
        lines += _table(title, ["target (draws)", "trained with", "attack", *HOWS])
        for case in CASES.values():
            mine = [row for row in rows if row["case"] == case.name]
            for attack in case.recipes if mine else ():
                cells = [_cell([row[training][attack][statistic] for row in mine]) for training in HOWS]
                lines.append(_row([f"{case.name} ({len(mine)})", case.truth, attack, *cells]))
    lines += _table("What was chosen", ["target, draw", "RMSE", "said to differ", "chosen", "models", "seconds"])
    for row in rows:
        rmse = ", ".join(f"{row[training]['rmse']:.2f}" for training in HOWS)
        differs = ", ".join("yes" if row[training]["differs"] else "no" for training in HOWS)
        seconds = ", ".join(f"{row[training]['seconds']:.0f}" for training in HOWS[:2])
        chosen, models = row["matched"]["chosen"], str(row["matched"]["models"])
        lines.append(_row([f"{row['case']}, {row['seed']}", rmse, differs, chosen, models, seconds]))
    nulls = [json.loads(path.read_text()) for path in sorted(out.glob("null-*.json"))]
    if nulls:
        lines += _table("Models that leak nothing, with matching", ["target", "audits", "answers"])
    for name in dict.fromkeys(row["case"] for row in nulls):
        answers = [row["answer"] for row in nulls if row["case"] == name]
        answer_counts = ", ".join(f"{answer}: {answers.count(answer)}" for answer in sorted(set(answers)))
        lines.append(_row([name, str(len(answers)), answer_counts]))
    RESULTS.write_text("\n".join(lines) + "\n")
    print(RESULTS.read_text())


def _table(title: str, columns: list[str]) -> list[str]:
    return ["", f"## {title}", "", _row(columns), _row(["---"] * len(columns))]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(values: list[float]) -> str:
    deviation = f" ({np.std(values, ddof=1):.3f})" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{deviation}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--null", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = [case for case in CASES.values() if arguments.only in case.name]
    if arguments.table:
        write_table(arguments.out)
    elif arguments.null:
        run_pieces(arguments.out, "null", cases, range(100, 100 + arguments.null), measure_null)
    else:
        run_pieces(arguments.out, "piece", cases, range(arguments.seeds), measure)


if __name__ == "__main__":
    main()
