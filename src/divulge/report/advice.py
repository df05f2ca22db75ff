"""What to do about a leak: only what was measured, with the figure and the place where it stands."""

from __future__ import annotations

from divulge.report.page import Point, Points

_DEFENCES = "benchmarks/results/unseen_defences.md"
_MEASURED_ELSEWHERE = (
    "Measured on other models than this one, so these figures say what can be gained and not what will be: audit "
    "again after the change, and compare both runs with divulge compare. Nothing else is advised here, because nothing "
    "else was measured."
)
_AGAINST_MEMBERSHIP = (
    Point(
        "Regularise more strongly.",
        "In a network with one hidden layer, trained on 3,000 images of CIFAR-100 with 5 of 20 superclasses unseen by "
        "the attacker, raising the weight decay from 0.0005 to 0.05 lowered the AUC of the loss attack from 0.778 "
        "[0.777, 0.780] to 0.534 [0.524, 0.544]. Its test accuracy fell from 23.6 % to 18.5 %.",
        _DEFENCES,
    ),
    Point(
        "Train with differential privacy.",
        "In the same network on CIFAR-10 with one class unseen by the attacker, the AUC of the loss attack was 0.525 "
        "[0.503, 0.548] with DP-SGD at ε = 1 and 0.563 [0.542, 0.585] at ε = 16; test accuracy was 24.3 % and 37.0 %. "
        "The command divulge canaries tests whether training keeps the ε it claims.",
        _DEFENCES,
    ),
)


def against_membership(*, documents: bool = False) -> list[Points]:
    """Against membership inference on classifiers; empty for documents, where no defence was measured.

    Examples:
        >>> against_membership(documents=True)
        []
    """
    return [] if documents else [Points(_AGAINST_MEMBERSHIP, note=_MEASURED_ELSEWHERE)]
