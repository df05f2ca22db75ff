"""What an audit runs by default in each of an auditor's circumstances; and without a leak it accuses nobody."""

from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.attacks import Calibrated, Consensus, Threshold, Transductive
from divulge.auditing.language_modality import LanguageModel
from divulge.recipes import Auto, Recipe
from null_models import audited

CIRCUMSTANCES = [
    ({}, "scaled-logit", "out", None),
    ({"has_references": False}, "hinge", "none", ("quantile-trees", "transductive")),
    ({"labels_only": True}, "correctness", "out", ("correct-calibrated",)),
    ({"labels_only": True, "has_references": False}, "correctness", "none", ("correct-residual",)),
    ({"documents": True}, "log_likelihood", "out", ("windows", "ez-out-smoothed")),
    ({"documents": True, "has_vocabulary": False}, "log_likelihood", "out", ("windows", "reference-ratio")),
    ({"documents": True, "has_references": False, "has_base": True}, "log_likelihood", "base", ("wbc", "base-ratio")),
    ({"documents": True, "has_references": False}, "min_k_plus", "none", ("min-k++",)),
    ({"documents": True, "has_references": False, "has_vocabulary": False}, "min_k", "none", ("min-k",)),
    ({"documents": True, "has_references": False, "short_answers": True}, "log_likelihood", "none", ("loss",)),
]


@pytest.mark.parametrize(("circumstances", "signal", "references", "names"), CIRCUMSTANCES)
def test_auto_is_a_recipe_in_every_circumstance(circumstances, signal, references, names):
    recipe = Auto().recipe_in(**circumstances)
    assert (recipe.name, recipe.signal, recipe.references) == ("auto", signal, references)
    assert getattr(recipe.attack, "names", None) == names


@pytest.mark.parametrize(("references", "expected"), [(None, "none"), (0, "base"), (2, "out")])
def test_auto_of_a_language_model_uses_the_references_that_there_are(references, expected):
    config = None if references is None else SimpleNamespace(count=references)
    assert LanguageModel().auto_recipe(object(), config).references == expected


def records(seed, n, memorised=0.0):
    """Records whose labels a model that memorised them knows."""
    rng = np.random.default_rng(seed)
    return dv.Records(rng.normal(size=(n, 4)), rng.integers(0, 3, n))


class Memory:
    """A target that knows the labels of its members."""

    def __init__(self, members):
        self.known = {row.tobytes(): label for row, label in zip(members.x, members.y, strict=True)}

    def guesses(self, x):
        return [self.known.get(row.tobytes(), int(row[0] > 0)) for row in np.ascontiguousarray(x)]


class GivesLogits(Memory):
    def logits(self, records):
        return 3.0 * np.eye(3)[self.guesses(records.x)] + 0.3 * records.x[:, :3]


class GivesLabels(Memory):
    def labels(self, records):
        return np.array(self.guesses(records.x))


def audit(target, n=150, **more):
    members = records(1, n)
    sets = {"members": members, "nonmembers": records(2, n), "population": records(3, 2 * n)}
    return dv.audit(target(members), **sets, fpr=more.pop("fpr", (0.05,)), **more)


def test_without_reference_models_the_default_finds_the_leak_and_says_that_references_see_more():
    result = audit(GivesLogits)
    assert list(result) == ["auto", "loss", "max-probability"]
    assert result.about.recipes["auto"].chosen == "quantile-trees + transductive"
    assert any(
        "auto: used quantile-trees + transductive, as there are no reference models" in w for w in result.about.warnings
    )
    assert result.verdict.answer == "leak found"


def test_of_a_target_that_gives_labels_alone_the_default_reads_no_more():
    result = audit(GivesLabels)
    assert list(result) == ["auto"]
    assert result.about.recipes["auto"].chosen == "correct-residual"
    assert result["auto"].auc.low > 0.5


def test_of_partly_known_records_the_default_reads_the_best_completion():
    result = audit(GivesLogits, options=dv.AuditOptions(known="share:0.5"))
    assert list(result) == ["auto", "loss", "max-probability"]
    assert result.about.recipes["auto"].completed_by is not None


def test_with_few_records_what_cannot_learn_is_left_out_and_said():
    members, nonmembers = records(1, 6), records(2, 6)
    result = dv.audit(
        GivesLogits(members),
        members=members,
        nonmembers=nonmembers,
        population=records(3, 8),
        fpr=(0.2,),
        options=dv.AuditOptions(calibration=0.2),
    )
    assert result.about.recipes["auto"].chosen == "quantile-trees"
    assert any("left out transductive: at least 20 candidates are needed" in note for note in result.about.warnings)


def test_a_recipe_of_ones_own_that_is_called_auto_is_left_alone():
    result = audit(GivesLogits, recipes=[Recipe("auto", "negative-loss", Threshold())])
    assert result.about.recipes["auto"].attack == "Threshold()"


def test_the_default_finds_no_more_leaks_than_nominal_where_there_are_none():
    """Of 8 audits at 5 %, more than 3 have probability 4e-4."""
    answer = "rounded, right in 90 %"
    alarms = [audited(answer, 100, 100, seed, ("auto", "loss")).verdict.answer == "leak found" for seed in range(8)]
    assert sum(alarms) <= 3


class TestConsensus:
    def test_averages_the_normal_deviates_of_ranks(self):
        evidence = dv.Evidence([3.0, 2.0, 1.0], references=[[3.0, 0.0, 1.0]])
        scored = Consensus((Threshold(), Calibrated()), ("a", "b"), "why").run(evidence)
        assert (scored.chosen, scored.notes) == ("a + b", ("used a + b, why",))
        assert scored.scores.argsort().tolist() == [2, 0, 1]

    def test_is_the_signal_itself_where_no_attack_is_left(self):
        scored = Consensus((Transductive(),), ("transductive",)).run(dv.Evidence([1.0, 2.0]))
        np.testing.assert_array_equal(scored.scores, [1.0, 2.0])
        assert scored.notes[0] == "used the signal itself"
        assert "left out transductive" in scored.notes[1]

    def test_needs_a_name_for_each_attack(self):
        with pytest.raises(dv.InputError, match="at least 1 with a name each"):
            Consensus((Threshold(),), ())
