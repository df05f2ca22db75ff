"""Divulge beside other tools, each in an environment of its own, on the same arrays.

    PYTHONPATH=src:tests python benchmarks/peers/run.py WORK [--trees LEAKPRO METER JAX_PRIVACY] [--torch torch==2.13.0]
        [--records 50000] [--runs 60] [--rounds 5]

WORK is a folder for environments, arrays and answers; what is there already is not made again, so that a second
run prints the tables alone. LeakPro and ML Privacy Meter are not on the package index: hand in their source trees.
The source tree of jax_privacy is newer than its release on the index, whose needs it is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import arrays
import numpy as np
from protocol import REFERENCED
from scipy.stats import spearmanr

from divulge.evaluation import auc, min_nonmembers, tpr_at_fpr

FOLDER = Path(__file__).parent
LONGEST = 400  # seconds for one attack
MODELS, TRAINED = 64, 8


@dataclass(frozen=True)
class Peer:
    """A tool.

    Attributes:
        name: what it is called.
        script: in this folder.
        packages: what pip installs; ``{}`` stands for its source tree.
        beside: what its own list of needs leaves out.
        tree: place of its source tree among those handed in; None when the package index has it.
        torch: whether it needs PyTorch, so that ``--torch`` says which.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    beside: tuple[str, ...] = ()
    tree: int | None = None
    torch: bool = True


METER = "numpy scipy scikit-learn matplotlib pandas pyyaml tqdm torch torchvision transformers peft datasets"
PEERS = (
    Peer("PrivacyGuard", "privacyguard", ("privacyguard-platform==0.0.2",)),
    Peer("SACRO-ML", "sacro", ("sacroml==2.0.1",)),
    Peer("LeakPro", "leaks", ("{}[mia]",), ("transformers",), 0),
    Peer("ML Privacy Meter", "meter", tuple(METER.split()), (), 1),
    Peer("ART", "robustness", ("adversarial-robustness-toolbox==1.20.1",), ("packaging", "torch"), torch=False),
    Peer("jax_privacy", "jaxprivacy", ("jax-privacy==2.0.0",), tree=2, torch=False),
)
OURS = Peer("Divulge", "ours", ())


@dataclass(frozen=True)
class Place:
    """Where environments and answers are kept, and what is installed.

    Attributes:
        work: the folder.
        trees: source trees of LeakPro, ML Privacy Meter and jax_privacy.
        torch: what pip is told of PyTorch; nothing where empty.
    """

    work: Path
    trees: list[Path]
    torch: str

    def python(self, peer):
        """The peer's Python, made when it is not there, with what the making took."""
        place, record = self.work / "environments" / peer.script, self.work / "install" / f"{peer.script}.json"
        if not record.exists():  # or an install that was cut off
            tree = self.trees[peer.tree] if peer.tree is not None else ""
            pinned = [self.torch] if self.torch else []
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
            _install(place, [name.format(tree) for name in peer.packages] + pinned * peer.torch)
            size = sum(file.lstat().st_size for file in place.rglob("*") if file.is_file()) / 1e6
            took = {"seconds": time.perf_counter() - begun, "MB": size}
            if peer.beside:
                _install(place, [*peer.beside, *pinned])
            kept(record, lambda: took)
        return place / "bin/python"

    def ask(self, peer, *command):
        """The answer of the peer's script; an error as a word."""
        python = sys.executable if peer is OURS else self.python(peer)
        extra = [str(self.trees[peer.tree])] if peer.tree is not None else []
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep) if peer is OURS else extra
        settings = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
        arguments = [python, FOLDER / f"{peer.script}.py", *command]
        limit = LONGEST if command[0] == "score" else None
        try:
            process = subprocess.run(
                arguments, env=settings, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {LONGEST} s"}
        if process.returncode:
            return {"error": (process.stderr.strip().splitlines() or ["killed"])[-1][:160]}
        return json.loads(process.stdout.splitlines()[-1])

    def names(self, peer):
        """Its attacks and its version."""
        return self.kept("names", peer, "", "names")

    def kept(self, topic, peer, stem, *command):
        """An answer, asked for once."""
        return kept(self.work / topic / f"{stem}{peer.script}.json", lambda: self.ask(peer, *command))


def _install(place, packages):
    subprocess.run([place / "bin/pip", "install", "-q", *packages], check=True)


def kept(path, make):
    """What ``make`` answers, kept as JSON."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def scores(peer, place, arrays_file):
    """Attack → its scores and what it took, or an error."""
    answers = {}
    for attack in place.names(peer).get("attacks", []):
        out = place.work / "scores" / f"{arrays_file.stem}-{peer.script}-{attack}.npy"
        question = ("score", attack, str(arrays_file), str(out))
        out.parent.mkdir(parents=True, exist_ok=True)
        answer = kept(out.with_suffix(".json"), lambda question=question: place.ask(peer, *question))
        answers[attack] = (np.load(out) if out.exists() else None, answer)
    return answers


def compared(peers, place, arrays_file):
    """Each tool's attacks on the same arrays, beside ours of the same name."""
    members = np.load(arrays_file)["members"]
    ours = scores(OURS, place, arrays_file)
    print("| attack | tool | Spearman with ours | AUC | TPR at FPR 1 % | at .1 % | processor s | MB |")
    print("|---|---|---|---|---|---|---|---|")
    peer_scores = {peer.name: scores(peer, place, arrays_file) for peer in peers if peer is not OURS}
    tables = {"Divulge": ours} | peer_scores
    for attack in dict.fromkeys(name for table in tables.values() for name in table):
        for tool, table in tables.items():
            if attack in table:
                print(f"| {attack} | {tool} | {_compared(*table[attack], members, ours.get(attack))} |")


def _compared(mine, took, members, ours):
    if mine is None:
        return f"{took['error']} | | | | |"
    has_score = np.isfinite(mine)
    agreement = f"{spearmanr(mine[has_score], ours[0][has_score]).statistic:.4f}" if ours else ""
    area = auc(mine[has_score], members[has_score]).value
    rates = [_rate(mine[has_score], members[has_score], fpr) for fpr in (0.01, 0.001)]
    lost = "" if has_score.all() else f" ({(~has_score).sum():,} without a score)"
    return f"{agreement}{lost} | {area:.4f} | {' | '.join(rates)} | {took['processor']:.2f} | {took['MB']:.0f}"


def _rate(scores, members, fpr):
    """TPR at a FPR, where there are non-members enough for it."""
    has_enough = np.count_nonzero(~members) >= min_nonmembers(fpr)
    return f"{tpr_at_fpr(scores, members, fpr).value:.4f}" if has_enough else "too few"


def nulls(peers, place, arrays_file):
    """What each tool says of scores that know nothing."""
    print("| tool | what it says | " + " | ".join(arrays.NULLS) + " |")
    print("|---" * (len(arrays.NULLS) + 2) + "|")
    for peer in peers:
        answer = place.kept("nulls", peer, f"{arrays_file.stem}-", "null", str(arrays_file))
        if "error" in answer:
            print(f"| {peer.name} | {answer['error']} |" + " |" * len(arrays.NULLS))
            continue
        for name in dict.fromkeys(name for case in answer.values() for name in case["said"]):
            print(f"| {peer.name} | {name} | " + " | ".join(_state(answer[case], name) for case in arrays.NULLS) + " |")


def _state(case, name):
    """The median, the shares of alarms and of intervals that hold the truth, and what is missing."""
    failed = f"{case['errors'][0]} ({len(case['errors']) / case['runs']:.0%})" if case["errors"] else ""
    statement = case["said"].get(name)
    if statement is None:
        return failed
    values = np.array(statement["values"])
    defined_values = values[~np.isnan(values)]
    shares = [f"{np.mean(statement[fact]):.2f}" for fact in ("alarms", "holds") if statement[fact]]
    none = f"none given {1 - len(defined_values) / len(values):.0%}" if len(defined_values) < len(values) else ""
    middle = f"{np.median(defined_values):.3f}" if len(defined_values) else ""
    return " ".join(
        filter(None, [middle, f"({'; '.join(shares)})" if shares and len(defined_values) else "", none, failed])
    )


def few(peers, place, arrays_file):
    """What each tool says after its attacks with few reference models, of a model that leaks nothing."""
    print("| tool | attack | what it says | " + " | ".join(f"{models}" for models in arrays.FEW_MODELS) + " |")
    print("|---" * (len(arrays.FEW_MODELS) + 3) + "|")
    for peer in peers:
        if not any(name.startswith(REFERENCED) for name in place.names(peer).get("attacks", [])):
            continue
        answer = place.kept("few", peer, f"{arrays_file.stem}-", "few", str(arrays_file))
        if "error" in answer:
            print(f"| {peer.name} | {answer['error']} |" + " |" * (len(arrays.FEW_MODELS) + 1))
            continue
        for attack in answer[str(arrays.FEW_MODELS[0])]:
            cases = [answer[str(models)][attack] for models in arrays.FEW_MODELS]
            names = [name for case in cases for name in case["said"] if name != "records scored" or _dropped(cases)]
            for name in list(dict.fromkeys(names)) or [""]:
                print(f"| {peer.name} | {attack} | {name} | " + " | ".join(_state(case, name) for case in cases) + " |")


def _dropped(cases):
    """Whether some records had no score."""
    return any(min(case["said"]["records scored"]["values"]) < 1 for case in cases if case["said"])


def trained(peers, place, training_file, rounds):
    """Reference models a minute, each tool in turns with the plain loop."""
    print("| tool | a minute | a processor minute | × plain loop, wall | × plain loop, processor | accuracy |")
    print("|---|---|---|---|---|---|")
    for peer in peers:
        if not place.names(peer).get("trains"):
            continue
        answer = place.kept("train", peer, f"{training_file.stem}-{rounds}-", "train", str(training_file), str(rounds))
        if "error" in answer:
            print(f"| {peer.name} | {answer['error']} | | | | |")
            continue
        for name, took in list(answer["took"].items())[peer is not OURS :]:  # the plain loop is shown once
            row_name = name if name.startswith(peer.name) else f"{peer.name}: {name}"
            print(f"| {row_name} | {_throughput(took, answer)} |")


def _throughput(took, answer):
    plain = next(iter(answer["took"].values()))
    clocks = ("wall", "processor")
    rates = [f"{60 * answer['models'] / np.median(took[clock]):.0f}" for clock in clocks]
    ratios = [f"{np.median(np.divide(plain[clock], took[clock])):.2f}" for clock in clocks]
    return " | ".join([*rates, *ratios, f"{np.mean(took['right']):.3f}"])


def installed(peers, place):
    """What an install takes."""
    print("| tool | version | s | MB |\n|---|---|---|---|")
    for peer in peers:
        path = place.work / "install" / f"{peer.script}.json"
        took = json.loads(path.read_text()) if path.exists() else {}
        cells = [f"{took[key]:,.0f}" if key in took else "not measured" for key in ("seconds", "MB")]
        print(f"| {peer.name} | {place.names(peer).get('version', '')} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--trees", type=Path, nargs=3, default=[])
    parser.add_argument("--torch", default="", help="as pip is to read it, e.g. a version that it finds without CUDA")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=60, help="tables of scores that know nothing, a case")
    parser.add_argument(
        "--rounds", type=int, default=5, help="times that the reference models are trained; 0: not at all"
    )
    parsed = parser.parse_args()
    place = Place(parsed.work.resolve(), [tree.resolve() for tree in parsed.trees], parsed.torch)
    place.work.mkdir(parents=True, exist_ok=True)
    peers = [OURS, *(peer for peer in PEERS if place.trees or peer.tree is None)]
    arguments = {
        f"paired-{parsed.records}": lambda: arrays.leak(parsed.records, MODELS, 2000, 2),
        f"nulls-{parsed.runs}": lambda: arrays.nulls(parsed.runs, 3),
        f"few-{parsed.runs}": lambda: arrays.few(parsed.runs, 4),
        "training": lambda: arrays.training(TRAINED, 5),
    }
    files = [place.work / f"{name}.npz" for name in arguments]
    for file, make in zip(files, arguments.values(), strict=True):
        if not file.exists():
            np.savez(file, **make())
    print(f"\n### The same {parsed.records:,} records and {MODELS} reference models\n")
    compared(peers, place, files[0])
    print("\n### Scores that know nothing: median (share of alarms; of intervals that hold the truth)\n")
    nulls(peers, place, files[1])
    print("\n### The same, by number of reference models; each in half of them, and no leak\n")
    few(peers, place, files[2])
    if parsed.rounds:
        print(f"\n### {TRAINED} reference models, by training\n")
        trained(peers, place, files[3], parsed.rounds)
    print("\n### Installs\n")
    installed(peers, place)


if __name__ == "__main__":
    main()
