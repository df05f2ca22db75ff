"""The same scores by Divulge, jax_privacy and PrivacyGuard; a peer that cannot be imported has no columns."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from divulge.evaluation import GaussianMechanism, epsilon_lower_bound, epsilon_one_run, one_run_bound
from dp_audit_games import DELTA, MECHANISMS, quantiles

PEERS = {"jax_privacy": "jax-privacy", "privacy_guard": "privacyguard-platform"}
_ERROR = 0.05


def ours(delta):
    """Bounds of Divulge, by name; each takes scores and coins."""
    one_run = partial(epsilon_one_run, delta=delta)
    many_runs = partial(epsilon_lower_bound, delta=delta)
    bounds = {
        "one run, any": one_run,
        "one run, f-DP": partial(one_run, family="gaussian", bound="f-dp"),
        "one run, tight": partial(one_run, family="gaussian"),
        "many runs, any": many_runs,
        "many runs, Gaussian": partial(many_runs, family="gaussian"),
    }
    return {f"Divulge: {name}": lambda s, m, prove=prove: prove(s, m).low for name, prove in bounds.items()}


def jax_privacy(delta):
    """Bounds of jax_privacy with its own defaults."""
    from jax_privacy import auditing

    def bound_by(method, **how):
        return lambda s, m: getattr(auditing.CanaryScoreAuditor(s[m], s[~m]), method)(_ERROR, delta=delta, **how)

    return {
        "jax_privacy: one run": bound_by("epsilon_one_run"),
        "jax_privacy: one run, f-DP": bound_by("epsilon_one_run_fdp"),
        "jax_privacy: Clopper-Pearson": bound_by("epsilon_clopper_pearson"),
        "jax_privacy: GDP": bound_by("epsilon_from_gdp"),
    }


def counts(scores, members):
    """A quarter of the records guessed, fixed before: canaries, guesses, wrong ones."""
    n = len(scores)
    order, half = np.argsort(scores, kind="stable"), n // 8
    return n, 2 * half, int((~members)[order[n - half :]].sum() + members[order[:half]].sum())


def privacy_guard(delta):
    """PrivacyGuard's f-DP bound, beside ours from the same counts."""
    from privacy_guard.analysis.mia.fdp_analysis_node import FDPAnalysisNode

    def peer_bound(scores, members):
        n, n_guesses, wrong = counts(scores, members)
        return (
            FDPAnalysisNode(m=n, c=n_guesses - wrong, c_cap=n_guesses, threshold=_ERROR, delta=delta).run_analysis().eps
        )

    return {"PrivacyGuard: f-DP, n/4 guesses": peer_bound}


def of_counts(delta):
    """Bounds of Divulge from n/4 guesses, with nothing to pay for their choice."""

    def bound(scores, members, **how):
        n, n_guesses, wrong = counts(scores, members)
        return one_run_bound(canaries=n, guesses=n_guesses, wrong=wrong, delta=delta, family="gaussian", **how).low

    return {
        "Divulge: f-DP, n/4 guesses": partial(bound, bound="f-dp"),
        "Divulge: tight, n/4 guesses": bound,
    }


def bounds(delta):
    """All that can be had."""
    makers = {"jax_privacy": jax_privacy, "privacy_guard": privacy_guard}
    peer_bounds = [make(delta) for name, make in makers.items() if find_spec(name)]
    return ours(delta) | of_counts(delta) | {name: bound for each in peer_bounds for name, bound in each.items()}


def peers(runs):
    """A table per set of scores: what each bound says, and how often it is above the truth."""
    for name, package in PEERS.items():
        print(f"{package} {version(package)}" if find_spec(name) else f"{package}: not installed", end="; ")
    print(f"NumPy {np.__version__}.\n")
    columns = {f"μ = {mu}": [quantiles(mu)] for mu in (1, 2, 4)}
    print("10,000 members at normal quantiles shifted by μ, 10,000 non-members at them, δ = 1e-6.\n")
    _table(columns, bounds(1e-6), [GaussianMechanism().epsilon(mu, 1e-6) for mu in (1, 2, 4)])
    gaussian = next(each for each in MECHANISMS if each.name == "Gaussian")
    cells = [(epsilon, n) for n in (100, 1000) for epsilon in (0.0, 1.0, 4.0)]
    columns = {
        f"ε = {epsilon:g}, n = {n}": [gaussian.game(np.random.default_rng([i, n]), n, epsilon) for i in range(runs)]
        for epsilon, n in cells
    }
    print(f"\n{runs} games of a Gaussian mechanism per column, δ = {DELTA:g}: median bound (share above ε).\n")
    _table(columns, bounds(DELTA), [epsilon for epsilon, _ in cells])


def _table(columns, rows, truths):
    print("| bound | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    print("| truth | " + " | ".join(f"{truth:.3f}" for truth in truths) + " |")
    for name, bound in rows.items():
        cells = []
        for games, truth in zip(columns.values(), truths, strict=True):
            lows = np.array([bound(*game) for game in games])
            above = f" ({(lows > truth + 1e-6).mean():.2f})" if len(games) > 1 else ""
            cells.append(f"{np.median(lows):.3f}{above}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
