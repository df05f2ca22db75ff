"""What to do about a leak: only what was measured, with the figure and the place where it stands."""

from __future__ import annotations

from divulge.report.page import Point, Points

_DEFENCES = "papers/results/unseen_defences.md"
_LANGUAGE = "papers/results/language.md"
TITLE = "What to do about it"
_MEASURED_ELSEWHERE = (
    "Measured on other models than this one, so these figures say what can be gained and not what will be: "
    "measure again after the change (divulge compare sets two audits side by side). Nothing else is advised here, "
    "because nothing else was measured."
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
_DOCUMENTS = (
    Point(
        "Train for fewer epochs.",
        "In a small GPT-2 fine-tuned on 300 text messages, all weights, the AUC of the windows attack with three "
        "reference models was 0.985 [0.978, 0.992] after four epochs and 0.824 [0.806, 0.840] after one.",
        _LANGUAGE,
    ),
    Point(
        "Train an adapter instead of all weights.",
        "In the same model, LoRA of rank 8 brought it from 0.985 [0.978, 0.992] to 0.775 [0.747, 0.802] after four "
        "epochs. What either change costs the model was not measured.",
        _LANGUAGE,
    ),
)
_AGAINST_EXTRACTION = (
    Point(
        "Leave each document in the training set once.",
        "In a small GPT-2 fine-tuned for four epochs on 300 newsgroup articles, 15.0 % [0.0, 36.2] of those that stood "
        "there sixteen times were given back nearly verbatim, and 0.0 % [0.0, 1.5] of those that stood there once.",
        _LANGUAGE,
    ),
)


def against_membership(*, documents: bool = False) -> list[Points]:
    """Against membership inference on classifiers, or on fine-tuned language models.

    Examples:
        >>> against_membership(documents=True)[0].points[0].title
        'Train for fewer epochs.'
    """
    return [Points(_DOCUMENTS if documents else _AGAINST_MEMBERSHIP, note=_MEASURED_ELSEWHERE)]


def against_extraction() -> list[Points]:
    """Against the extraction of training documents."""
    return [Points(_AGAINST_EXTRACTION, note=_MEASURED_ELSEWHERE)]
