"""jax_privacy's auditing: run with its own Python. It has no attacks."""

from __future__ import annotations

from jax_privacy import auditing
from protocol import Said, serve

DELTA = 1e-5


def _said(scores, members):
    auditor = auditing.CanaryScoreAuditor(scores[members], scores[~members])
    params = auditing.BootstrapParams(num_samples=200, seed=0)
    ends = auditor.attack_auroc(bootstrap_params=params)
    bounds = ("epsilon_clopper_pearson", "epsilon_one_run", "epsilon_one_run_fdp")
    lows = {f"`{name}`": getattr(auditor, name)(0.05, delta=DELTA) for name in bounds}
    said = {name: Said(low, low > 1e-6) for name, low in lows.items()}
    return {"`attack_auroc`, bootstrap": Said.area(auditor.attack_auroc(), *ends)} | said


if __name__ == "__main__":
    serve("jax-privacy", {}, _said)
