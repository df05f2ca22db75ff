"""jax_privacy's auditing: run with its own Python. It has no attacks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from protocol import Said, serve

DELTA = 1e-5
COMMIT = "commit 8967688 (2026-08-20)"


def _load_auditing():
    """Its module alone: the whole package wants a newer optax than the package index has."""
    (folder,) = importlib.util.find_spec("jax_privacy").submodule_search_locations
    spec = importlib.util.spec_from_file_location("auditing", Path(folder) / "auditing.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


auditing = _load_auditing()


def _state(scores, members):
    auditor = auditing.CanaryScoreAuditor(scores[members], scores[~members])
    params = auditing.BootstrapParams(num_samples=200, seed=0)
    ends = auditor.attack_auroc(bootstrap_params=params)
    bounds = ("epsilon_clopper_pearson", "epsilon_from_gdp", "epsilon_one_run", "epsilon_one_run_fdp")
    lows = {f"`{name}`": getattr(auditor, name)(0.05, delta=DELTA) for name in bounds}
    statements = {name: Said(low, low > 1e-6) for name, low in lows.items()}
    return {"`attack_auroc`, bootstrap": Said.area(auditor.attack_auroc(), *ends)} | statements


if __name__ == "__main__":
    serve(COMMIT, {}, _state)
