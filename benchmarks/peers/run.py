"""Divulge beside other tools, each in an environment of its own, on the same arrays.

    PYTHONPATH=src:tests python benchmarks/peers/run.py WORK [--trees LEAKPRO METER] [--records 10000] [--runs 60]

WORK is a folder for environments, arrays and answers; what is there already is not made again, so that a second
run prints the tables alone. LeakPro and ML Privacy Meter are not on the package index: hand in their source trees.
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
from scipy.stats import spearmanr

from divulge.evaluation import auc, tpr_at_fpr

HERE = Path(__file__).parent
LONGEST = 400  # seconds for one attack
MODELS = 64


@dataclass(frozen=True)
class Peer:
    """A tool.

    Attributes:
        name: what it is called.
        script: in this folder.
        packages: what pip installs; ``{}`` stands for its source tree.
        beside: what its own list of needs leaves out.
        tree: place of its source tree among those handed in; None when the package index has it.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    beside: tuple[str, ...] = ()
    tree: int | None = None


PEERS = (
    Peer("PrivacyGuard", "privacyguard", ("privacyguard-platform==0.0.2",)),
    Peer("SACRO-ML", "sacro", ("sacroml==2.0.1",)),
    Peer("LeakPro", "leaks", ("{}[mia]",), ("transformers",), 0),
    Peer("ML Privacy Meter", "meter", ("numpy", "scipy", "scikit-learn", "matplotlib", "torch"), (), 1),
    Peer("ART", "robustness", ("adversarial-robustness-toolbox==1.20.1",), ("packaging",)),
    Peer("jax_privacy", "jaxprivacy", ("jax-privacy==2.0.0",)),
)
OURS = Peer("Divulge", "ours", ())


def environment(peer, work, trees):
    """Its Python, made when it is not there, with what the making took."""
    place = work / "environments" / peer.script
    if not place.exists():
        tree = trees[peer.tree] if peer.tree is not None else ""
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        for packages in (peer.packages, peer.beside):
            wanted = [package.format(tree) for package in packages]
            if wanted:
                subprocess.run([place / "bin/pip", "install", "-q", *wanted], check=True)
            if packages is peer.packages:
                size = sum(file.lstat().st_size for file in place.rglob("*") if file.is_file()) / 1e6
                took = {"seconds": time.perf_counter() - begun, "MB": size}
        kept(work / "install" / f"{peer.script}.json", lambda: took)
    return place / "bin/python"


def kept(path, make):
    """What ``make`` answers, kept as JSON."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def ask(peer, work, trees, *command):
    """The answer of its script; an error as a word."""
    python = sys.executable if peer is OURS else environment(peer, work, trees)
    extra = [str(trees[peer.tree])] if peer.tree is not None else []
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep) if peer is OURS else extra
    settings = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
    told = [python, HERE / f"{peer.script}.py", *command]
    limit = LONGEST if command[0] == "score" else None
    try:
        done = subprocess.run(told, env=settings, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {LONGEST} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1][:160]}
    return json.loads(done.stdout.splitlines()[-1])


def scores(peer, work, trees, given):
    """Attack → its scores and what it took, or an error."""
    names = kept(work / "names" / f"{peer.script}.json", lambda: ask(peer, work, trees, "names"))
    answers = {}
    for attack in names.get("attacks", []):
        out = work / "scores" / f"{given.stem}-{peer.script}-{attack}.npy"
        out.parent.mkdir(parents=True, exist_ok=True)
        question = ("score", attack, str(given), str(out))
        answer = kept(out.with_suffix(".json"), lambda question=question: ask(peer, work, trees, *question))
        answers[attack] = (np.load(out) if out.exists() else None, answer)
    return answers


def compared(peers, work, trees, given):
    """Each tool's attacks on the same arrays, beside ours of the same name."""
    members = np.load(given)["members"]
    ours = scores(OURS, work, trees, given)
    print("| attack | tool | Spearman with ours | AUC | TPR at FPR 1 % | at .1 % | processor s | MB |")
    print("|---|---|---|---|---|---|---|---|")
    theirs = {peer.name: scores(peer, work, trees, given) for peer in peers if peer is not OURS}
    tables = {"Divulge": ours} | theirs
    for attack in dict.fromkeys(name for table in tables.values() for name in table):
        for tool, table in tables.items():
            if attack in table:
                print(f"| {attack} | {tool} | {_compared(*table[attack], members, ours.get(attack))} |")


def _compared(mine, took, members, ours):
    if mine is None:
        return f"{took['error']} | | | | |"
    known = np.isfinite(mine)
    agreement = f"{spearmanr(mine[known], ours[0][known]).statistic:.4f}" if ours else ""
    area = auc(mine[known], members[known]).value
    rates = [f"{tpr_at_fpr(mine[known], members[known], fpr).value:.4f}" for fpr in (0.01, 0.001)]
    lost = "" if known.all() else f" ({(~known).sum():,} without a score)"
    return f"{agreement}{lost} | {area:.4f} | {' | '.join(rates)} | {took['processor']:.2f} | {took['MB']:.0f}"


def nulls(peers, work, trees, given):
    """What each tool says of scores that know nothing."""
    print("| tool | what it says | " + " | ".join(arrays.NULLS) + " |")
    print("|---" * (len(arrays.NULLS) + 2) + "|")
    for peer in peers:
        path = work / "nulls" / f"{given.stem}-{peer.script}.json"
        answer = kept(path, lambda peer=peer: ask(peer, work, trees, "null", str(given)))
        if "error" in answer:
            print(f"| {peer.name} | {answer['error']} |" + " |" * len(arrays.NULLS))
            continue
        for name in dict.fromkeys(name for case in answer.values() for name in case["said"]):
            print(f"| {peer.name} | {name} | " + " | ".join(_said(answer[case], name) for case in arrays.NULLS) + " |")


def _said(case, name):
    """The median, the share of alarms, and of errors."""
    said = case["said"].get(name)
    error = f" {len(case['errors']) / case['runs']:.0%} errors" if case["errors"] else ""
    if said is None:
        return error.strip()
    alarms = f" ({np.mean(said['alarms']):.2f})" if said["alarms"] else ""
    middle = np.median(said["values"])
    return f"{'none given' if np.isnan(middle) else f'{middle:.3f}'}{alarms}{error}"


def installed(peers, work):
    """What an install takes."""
    print("| tool | version | s | MB |\n|---|---|---|---|")
    for peer in peers:
        path, names = work / "install" / f"{peer.script}.json", work / "names" / f"{peer.script}.json"
        took = json.loads(path.read_text()) if path.exists() else {}
        version = json.loads(names.read_text()).get("version", "") if names.exists() else ""
        cells = [f"{took[key]:.0f}" if key in took else "not measured" for key in ("seconds", "MB")]
        print(f"| {peer.name} | {version} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--trees", type=Path, nargs=2)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=60)
    asked = parser.parse_args()
    work, trees = asked.work.resolve(), asked.trees
    work.mkdir(parents=True, exist_ok=True)
    peers = [OURS, *(peer for peer in PEERS if trees or peer.tree is None)]
    given = {
        f"paired-{asked.records}": lambda: arrays.leak(asked.records, MODELS, 2000, 2),
        "few": lambda: arrays.leak(2000, 2, 500, 1, paired=False, size=0),
        f"nulls-{asked.runs}": lambda: arrays.nulls(asked.runs, 3),
    }
    files = []
    for name, make in given.items():
        files.append(work / f"{name}.npz")
        if not files[-1].exists():
            np.savez(files[-1], **make())
    print(f"\n### The same {asked.records:,} records and {MODELS} reference models\n")
    compared(peers, work, trees, files[0])
    print("\n### Two reference models, each record in each by a coin, and no leak; 2,000 records\n")
    compared(peers, work, trees, files[1])
    print("\n### Scores that know nothing: median (share of alarms)\n")
    nulls(peers, work, trees, files[2])
    print("\n### Installs\n")
    installed(peers, work)


if __name__ == "__main__":
    main()
