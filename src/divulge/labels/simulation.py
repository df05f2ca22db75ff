"""An attack simulated on known labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels.answers import LabelInference
from divulge.labels.design import design
from divulge.labels.inference import infer
from divulge.labels.oracles import LocalOracle, public
from divulge.labels.plans import QueryPlan
from divulge.labels.spec import OracleSpec
from divulge.validation import check_instance, check_labels

if TYPE_CHECKING:
    from divulge.types import Array, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What an attack reads from an oracle with known labels.

    Args:
        inference: what was recovered.
        accuracy: share of labels that are right (of a split: also that a row is not scored).
        certain_and_wrong: labels called certain that are wrong (0, or there is a bug).
        truth: the labels ``[n]``, -1 for rows that are not scored.
    """

    inference: LabelInference
    accuracy: float
    certain_and_wrong: int
    truth: Ints

    @property
    def queries(self) -> int:
        """How many answers were used."""
        return self.inference.queries


def simulate(
    spec: OracleSpec,
    y: object,
    plan: QueryPlan | None = None,
    *,
    oracle: Callable[[Array], float] | None = None,
    seed: int = 0,
    scored: object = None,
) -> Simulation:
    """Accuracy and queries of a plan against a local oracle with the labels ``y``.

    Args:
        spec: the oracle.
        y: labels ``[n]``.
        plan: by default the best one that `design` finds.
        oracle: instead of a `LocalOracle`.
        seed: of the oracle's noise.
        scored: bool ``[n]``, the rows of a hidden split that are scored.

    Raises:
        divulge.InputError: labels, mask or plan that do not fit the specification.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> simulate(OracleSpec(n=6, noise=1e-3), [0, 1, 1, 0, 0, 1]).accuracy
        1.0
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    truth = check_labels(y, "y", length=spec.n, classes=spec.classes)
    made = design(spec) if plan is None else plan
    check_plan(made, spec)
    mask = None if scored is None else public(spec, scored)
    inference = infer(LocalOracle(spec, truth, seed, scored=mask) if oracle is None else oracle, made)
    if mask is not None:
        truth = np.where(mask, truth, -1)
    right = inference.labels == truth
    return Simulation(inference, float(right.mean()), int((inference.certain & ~right).sum()), truth)


def check_plan(plan: QueryPlan, spec: OracleSpec) -> None:
    """Refuse a plan that was made for another oracle."""
    check_instance(plan, "plan", QueryPlan, "what labels.design returned")
    if plan.spec != spec:
        raise InputError(f"plan: made for another oracle ({plan.spec}), not for {spec}")
