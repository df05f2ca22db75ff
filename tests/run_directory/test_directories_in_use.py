"""A run directory that holds a finished run is refused before any model is asked."""

import numpy as np
import pytest

import divulge as dv
from run_directories import write_audit


def ask_nothing(x):
    raise AssertionError("the model was asked before the directory was looked at")


def records(n, seed):
    rng = np.random.default_rng(seed)
    return dv.Records(rng.normal(size=(n, 3)), rng.integers(0, 2, n))


SETS = {"members": records(120, 0), "nonmembers": records(120, 1), "population": records(120, 2)}
STUDIES = {
    "audit": lambda out: dv.audit(ask_nothing, **SETS, recipes=["loss"], fpr=(0.1,), out=out),
    "forget": lambda out: dv.forget(
        ask_nothing, ask_nothing, forget=SETS["members"], never=SETS["nonmembers"], retrained=[ask_nothing], out=out
    ),
    "identify": lambda out: dv.identify(
        SETS["members"], target=ask_nothing, population=SETS["population"], recipes=["loss"], out=out
    ),
    "label privacy": lambda out: dv.canaries.label_privacy(ask_nothing, **SETS, out=out),
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_finished_run_is_refused_before_the_model_is_asked(tmp_path, study):
    write_audit(tmp_path / "run")
    with pytest.raises(dv.InputError, match="holds a finished run; give another directory, or overwrite=True"):
        STUDIES[study](tmp_path / "run")


def test_a_folder_of_other_files_is_refused_before_the_model_is_asked(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(dv.InputError, match="is not empty and holds no run"):
        STUDIES["audit"](tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"
