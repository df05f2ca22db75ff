"""Models that answer with a mapping or a tuple: what is read from it, and what to pass where that cannot be told."""

import re
from collections import OrderedDict

import numpy as np
import pytest

import divulge as dv

pytestmark = pytest.mark.usefixtures("scores_alone")

RNG = np.random.default_rng(0)
RECORDS = {role: dv.Records(RNG.normal(size=(60, 4)), RNG.integers(0, 2, 60)) for role in ("members", "nonmembers")}
SETS = RECORDS | {"population": dv.Records(RNG.normal(size=(120, 4)), RNG.integers(0, 2, 120))}


def logits_of(x):
    return np.stack([x[:, 0], -x[:, 1]], axis=1)


def probabilities_of(x):
    odds = np.exp(logits_of(x))
    return odds / odds.sum(axis=1, keepdims=True)


def measure_auc(target, **options):
    return dv.audit(target, **SETS, recipes=["loss"], fpr=(0.1,), **options)["loss"].auc.value


EXPECTED = measure_auc(logits_of)


@pytest.mark.parametrize("mapping", [dict, OrderedDict])
def test_a_key_of_the_declared_name_is_read(mapping):
    assert measure_auc(lambda x: mapping(hidden=x, logits=logits_of(x))) == EXPECTED
    answers = lambda x: mapping(hidden=x, probabilities=probabilities_of(x))  # noqa: E731
    assert measure_auc(answers, outputs="probabilities") == pytest.approx(EXPECTED)


@pytest.mark.parametrize(("declared", "other"), [("logits", "probabilities"), ("probabilities", "logits")])
def test_a_key_of_the_other_name_is_not_read_as_what_was_declared(declared, other):
    with pytest.raises(dv.InputError, match=f"'{other}' is read with outputs='{other}'"):
        measure_auc(lambda x: {other: probabilities_of(x)}, outputs=declared)


def packed(x):
    return {"step": 3, "scores": logits_of(x), "hidden": x}


def paired(x):
    return logits_of(x), x, x


@pytest.mark.parametrize("function", [packed, paired])
def test_a_function_is_audited_by_what_the_refusal_of_its_answer_says(function):
    with pytest.raises(dv.InputError) as caught:
        measure_auc(function)
    told = re.search(r"such as (.+)$", str(caught.value)).group(1)
    assert measure_auc(eval(told, {"function": function})) == EXPECTED


def test_keys_that_hold_no_array_are_listed():
    with pytest.raises(dv.InputError, match=r"returns a mapping \('loss', 'step'\) without 'logits'$"):
        measure_auc(lambda x: {"loss": 0.5, "step": 3})


@pytest.fixture
def modules():
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def __init__(self, keys):
            super().__init__()
            torch.manual_seed(0)
            self.layer, self.drop, self.keys = torch.nn.Linear(4, 2), torch.nn.Dropout(0.5), keys

        def forward(self, x):
            answer = self.drop(self.layer(x))
            return {key: answer if key != "hidden" else x for key in self.keys} if self.keys else answer

    return torch, Network


def test_a_module_that_answers_with_logits_by_name_is_read_with_its_gradients(modules):
    _, network = modules
    plain, named = (dv.targets.TorchTarget(network(keys), device="cpu") for keys in ((), ("hidden", "logits")))
    records = SETS["members"]
    for right in ("logits", "loss", "gradients", "gradient_norms"):
        np.testing.assert_array_equal(getattr(named, right)(records), getattr(plain, right)(records))


def test_a_module_is_audited_by_what_the_refusal_of_its_answer_says(modules):
    torch, network = modules
    module = network(("scores", "hidden"))
    with pytest.raises(dv.InputError, match=r"returns a mapping \('scores', 'hidden'\) without 'logits'") as caught:
        measure_auc(module)
    told = re.search(r"such as (.+)$", str(caught.value)).group(1)
    assert measure_auc(eval(told, {"module": module, "torch": torch})) == pytest.approx(measure_auc(network(())))
