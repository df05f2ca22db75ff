"""scikit-learn comes with an extra: without it, all but its own models works."""

import json
import subprocess
import sys

import numpy as np

FORBIDDEN = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "skops"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Forbidden())
import numpy as np
import divulge as dv
rng = np.random.default_rng(0)
"""


def without(code, *arguments):
    """What ``code`` prints where scikit-learn cannot be imported."""
    command = [sys.executable, "-c", FORBIDDEN + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_but_the_one_that_looks_into_its_trees_can_be_imported():
    """Modules that need torch are left out where it is not installed."""
    said = without(
        "import importlib, pkgutil\n"
        "for module in pkgutil.walk_packages(dv.__path__, 'divulge.'):\n"
        "    try:\n"
        "        importlib.import_module(module.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name.startswith('sklearn'):\n"
        "            print(module.name)\n"
    )
    assert said == "divulge.targets.forests\n"


def test_an_audit_of_texts():
    said = without("""
texts = lambda word: dv.Records(np.array([f"{word} {' '.join(rng.choice(list('abcdefgh'), 9))}" for _ in range(200)],
                                         dtype=object), rng.integers(0, 2, 200))
logits = lambda x: np.array([[len(str(text)) % 3, len(str(text)) % 2] for text in x], dtype=float)
run = dv.audit(logits, members=texts("old"), nonmembers=texts("new"), population=texts("new"),
               recipes=("loss", "quantile"), fpr=(0.1,))
print(run.summary().about.blind_baseline.confounded, sorted(run))
""")
    assert said == "True ['loss', 'quantile']\n"


def test_an_audit_of_unseen_classes_on_arrays():
    said = without("""
def records(n, classes=(0, 1, 2)):
    y = rng.choice(classes, n)
    return dv.Records(rng.normal(y[:, None], 1, size=(n, 60)), y)

run = dv.audit(lambda x: -((x.mean(axis=1)[:, None] - np.arange(3)) ** 2), members=records(300),
               nonmembers=records(300), population=records(600, (0, 1)), unseen_classes=(2,),
               recipes=("loss", "quantile", "transductive"), fpr=(0.05,))
print(sorted(run), sorted(run.summary().about.transfer.recipes))
""")
    assert said == "['loss', 'quantile', 'transductive'] ['loss', 'quantile', 'transductive']\n"


def test_an_identification_from_tables_with_texts(tmp_path):
    rng = np.random.default_rng(0)
    for name, word, shift in (("candidates", "new", 1), ("calibration", "old", 0)):
        rows = [
            {"id": f"{name}{i}", "a": score, "b": other, "text": f"a {word} text {i}"}
            for i, (score, other) in enumerate(rng.normal(shift, 1, (200, 2)).tolist())
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "out"
    sides = ("--candidates", tmp_path / "candidates.jsonl", "--calibration", tmp_path / "calibration.jsonl")
    columns = ("--score", "a:high", "--score", "b:high", "--text", "text", "--out", out)
    without("from divulge.cli import main\nmain()\n", "identify", *sides, *columns)
    checked = json.loads((out / "summary.json").read_text())["controls"]
    assert "blind text" in [control["name"] for control in checked]


def test_a_simulation_of_labels(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(map(str, np.random.default_rng(0).integers(0, 2, 40))))
    said = without("from divulge.cli import main\nmain()\n", "labels", "simulate", path)
    assert "40/40 labels recovered" in said


def test_what_else_once_rested_on_it():
    said = without("""
from divulge import PartialRecords
from divulge.attacks import Learned
from divulge.canaries import kinds
from divulge.completion.gaussian import ConditionalGaussian
from divulge.decisions import adadetect, weighted
from divulge.evaluation import near_duplicates, telling
from divulge.targets.mutator import carrier

x, y = rng.normal(size=(100, 5)), rng.integers(0, 2, 100)
inside = rng.random((8, 200)) < 0.5
signals = rng.normal(size=(8, 200)) + inside
print(len(Learned("online").score(dv.Evidence(signals[0], signals[1:], inside[1:]))))
print(len(kinds.build("far", dv.Records(x, y), 5, rng)))
print(ConditionalGaussian().fit(dv.Records(x, y)).complete(PartialRecords(x, y, np.arange(5) < 3))[0].shape)
print([len(part) for part in adadetect.scores(x, x + 1)], weighted.density_ratio(x, x + 1).effective > 0)
print(near_duplicates(["a b c d e f"], ["a b c d e f"]).pairs[0].counts, telling(["a"], ["b"]))
print([carrier(x, np.eye(100), model=name).predict_proba(x).argmax(1)[7] for name in ("tree", "nearest")])
""")
    assert said.splitlines() == ["200", "5", "(100, 5)", "[100, 50] True", "(1, 1) ()", "[np.int64(7), np.int64(7)]"]


def test_what_is_its_own_says_which_extra_brings_it(tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(b"")
    said = without(
        """
from divulge.targets import SklearnTarget
for use in (lambda: dv.labels.ScikitLearn(dv.labels.OracleSpec(n=2), [0, 1])(np.full((2, 2), 0.5)),
            lambda: dv.targets.load(sys.argv[1])):
    try:
        use()
    except dv.MissingExtraError as error:
        print(error)
""",
        path,
    )
    assert said.splitlines() == [
        f"{name} is not installed; it comes with: pip install 'divulge[sklearn]'" for name in ("sklearn", "skops")
    ]
