"""Between a question and a model's answer: tables, rights, noise, journals and messages."""

import json
import types

import numpy as np
import pytest

import divulge as dv
from divulge import targets
from divulge.errors import InputError
from divulge.targets import endpoint, files, rights
from divulge.targets.endpoint import Endpoint, EndpointJournal


def test_tables_find_the_first_and_the_last_id_and_refuse_what_lies_beyond():
    table = targets.TableTarget(["b", "d"], [[1.0, 0.0], [2.0, 0.0]])
    assert table.logits(dv.Records([[0.0]] * 2, ids=["d", "b"]))[:, 0].tolist() == [2.0, 1.0]
    assert table.labels(dv.Records([[0.0]], ids=["d"])).tolist() == [0]
    for absent in ("a", "c", "e"):
        with pytest.raises(InputError, match=rf"1 ids are not in the table of outputs \(first: '{absent}'\)"):
            table.logits(dv.Records([[0.0]] * 2, ids=["b", absent]))


def test_models_are_told_apart_by_key_or_weights():
    def key_of(**methods):
        return rights.weights_key(types.SimpleNamespace(**methods))

    one, two = {"w": np.ones(2), "b": np.zeros(1)}, {"b": np.zeros(1), "w": np.ones(2)}
    assert key_of(weights=lambda: one) == key_of(weights=lambda: two)
    assert key_of(weights=lambda: one) != key_of(weights=lambda: {"w": np.ones(2), "b": np.ones(1)})
    assert key_of(weights=lambda: one) != key_of(weights=lambda: {"w": np.ones(2), "c": np.zeros(1)})
    assert len(key_of(weights=lambda: one)) == 16
    tokens = {"tokens": len, "weights": lambda: one}
    assert key_of(key=lambda: {"a": 1, "b": 2}, **tokens) == key_of(key=lambda: {"b": 2, "a": 1}, **tokens)
    assert key_of(key=lambda: {"a": 1}, **tokens) != key_of(key=lambda: {"a": 2}, **tokens)
    assert key_of() == ""


@pytest.mark.parametrize("model", [3, "x", targets.CallableTarget, types.SimpleNamespace(gradient_norms=len)])
def test_what_gives_no_right_is_no_target(model):
    with pytest.raises(InputError, match=r"target: an object with logits\(records\) or another right is needed"):
        rights.wrap_target(model)


class Counting:
    def logits(self, records):
        return np.zeros((len(records), 2)) + [[0, 1]]


@pytest.mark.parametrize(("limit", "is_refused"), [(5, False), (4, True), (None, False), (0, True)])
def test_queries_up_to_the_limit_are_answered(limit, is_refused):
    meter = targets.Metered(Counting(), limit)
    if is_refused:
        with pytest.raises(InputError, match=f"limit: 0 of {limit} allowed queries are used and 5 more are requested"):
            meter.logits(dv.Records(np.zeros((5, 1))))
        assert meter.queries == 0
    else:
        meter.logits(dv.Records(np.zeros((5, 1))))
        assert meter.queries == 5
    with pytest.raises(InputError, match="limit"):
        targets.Metered(Counting(), -1)


def test_rounded_probabilities_are_those_of_the_target_and_never_zero():
    target = targets.CallableTarget(lambda x: np.log([[0.646, 0.352, 0.002]]))
    logits = targets.Rounded(target, 2).logits(dv.Records([[0.0]]))
    np.testing.assert_allclose(np.exp(logits), [[0.65, 0.35, 1e-7]])
    np.testing.assert_allclose(np.exp(targets.Rounded(target, 0).logits(dv.Records([[0.0]]))), [[1, 1e-7, 1e-7]])
    for decimals in (-1, 301):
        with pytest.raises(InputError, match="decimals"):
            targets.Rounded(target, decimals)
    assert targets.Rounded(target, 300).decimals == 300


def test_noise_has_its_scale_and_depends_on_the_seed():
    target = targets.CallableTarget(lambda x: np.zeros((len(x), 3)) + 5)
    records = dv.Records(np.arange(2000.0)[:, None])
    noise = targets.Noisy(target, 2.0, 0).logits(records) - 5
    assert noise.std() == pytest.approx(2.0, rel=0.04)
    assert noise.mean() == pytest.approx(0.0, abs=0.1)
    assert (targets.Noisy(target, 2.0, 1).logits(records) - 5 != noise).all()
    np.testing.assert_allclose(targets.Noisy(target, 4.0, 0).logits(records) - 5, 2 * noise)
    assert (targets.Noisy(target, 0.0, 0).logits(records) == 5).all()
    for scale, seed in ((-0.1, 0), (1.1e300, 0), (1.0, -1)):
        with pytest.raises(InputError, match=r"scale|seed"):
            targets.Noisy(target, scale, seed)


def test_answers_of_ones_own_language_model_are_statistics_of_all_texts():
    class Own:
        def __init__(self, answer):
            self.answer = answer

        def tokens(self, texts, *, vocabulary=True):
            return self.answer

        def key(self):
            return {}

    stats = targets.TokenStatistics(np.array([0, 1, 1]), np.array([8, 8]), logp=np.array([-1.0]))
    assert rights.wrap_target(Own(stats)).tokens(["a", "b"]) is stats
    with pytest.raises(InputError, match=r"target: Own\.tokens: 3 documents are needed, got 2"):
        rights.wrap_target(Own(stats)).tokens(["a", "b", "c"])
    with pytest.raises(InputError, match=r"a targets\.TokenStatistics"):
        rights.wrap_target(Own([1])).tokens(["a"])


class PredictsOnly:
    def predictions(self, records):
        return np.zeros(len(records))


class PredictsBoth(PredictsOnly):
    def predict(self, x):
        return np.zeros(len(x))


class Labels:
    def labels(self, records):
        return np.zeros(len(records), int)


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        (Counting(), {}, "UserTarget"),
        (PredictsOnly(), {}, "UserTarget"),
        (PredictsBoth(), {"task": "regression"}, "SklearnRegressor"),
        (Labels(), {"labels_only": True}, "UserTarget"),
        (Labels(), {}, "neither"),
        (len, {}, "CallableTarget"),
        (len, {"task": "regression"}, "Regressor"),
        (Counting, {}, "CallableTarget"),
        (3, {"labels_only": True}, r"logits\(records\) or labels\(records\) or predictions"),
        (3, {}, r"logits\(records\) or predictions"),
        (Counting(), {"task": "regression"}, "needs a model that predicts one real value"),
        (len, {"task": "both"}, "task"),
        (len, {"outputs": "odds"}, "outputs"),
    ],
)
def test_each_model_has_its_adapter(model, options, expected):
    if expected[0].isupper():
        assert type(rights.adapt(model, **options)).__name__ == expected
        return
    with pytest.raises(InputError, match=expected):
        rights.adapt(model, **options)


def test_reference_models_that_give_outputs_are_targets():
    assert type(rights.adapt_output_model(PredictsOnly())).__name__ == "UserTarget"
    assert type(rights.adapt_output_model(PredictsBoth())).__name__ == "SklearnRegressor"
    assert type(rights.adapt_output_model(len)).__name__ == "Regressor"


@pytest.mark.parametrize(
    ("options", "key"), [({"base": "x"}, "base"), ({"dtype": "float16"}, "dtype"), ({"bos": "add"}, "bos")]
)
def test_options_of_folders_are_refused_for_files_and_endpoints(tmp_path, options, key):
    (tmp_path / "m.onnx").touch()
    with pytest.raises(InputError, match=rf"target\.{key}: only Hugging Face folders have one"):
        files.load("m.onnx", folder=tmp_path, **options)
    with pytest.raises(InputError, match=rf"target\.{key}: a model behind an endpoint has none"):
        files.load("m", endpoint="http://127.0.0.1:9/v1", **options)
    with pytest.raises(InputError, match=r"target\.factory: a model behind an endpoint has none"):
        files.load("m", endpoint="http://127.0.0.1:9/v1", factory="a:b")


TEXT = "some text"


@pytest.mark.parametrize(
    ("message", "text", "expected"),
    [
        ("got abcdef!", "abcdef", "got …!"),
        ("got abcde!", "abcdef", "got abcde!"),
        ("got abc!", "abc", "got …!"),
        ("got a-b-c def", "xxabcdefxx", "got …"),
        ("ABCDEF", "abcdef", "…"),
        ("abcdefghi", "xabcdefx", "…ghi"),
        ("nothing", "", "nothing"),
        ("é ü", "éü", "…"),
    ],
)
def test_messages_hold_nothing_that_stands_in_the_document(message, text, expected):
    assert endpoint.redact(message, text) == expected


def lines(*entries, key=None):
    return "\n".join(json.dumps(entry) for entry in ({"journal": key or {"model": "m"}}, *entries))


def test_a_journal_keeps_answers_and_refusals(tmp_path):
    path = tmp_path / "journal"
    journal = EndpointJournal(path, {"model": "m"})
    journal.put("a", np.array([-1.0, -2.0]))
    journal.refuse("b", "too long")
    with path.open("a") as out:
        out.write('\n{"text": "cut')
    again = EndpointJournal(path, {"model": "m"})
    assert again["a"].tolist() == [-1.0, -2.0]
    assert len(again["b"]) == 0
    assert again.refused == {endpoint.text_digest("b"): "too long"}
    assert "a" in again
    assert "b" in again
    assert "c" not in again
    memory = EndpointJournal(None, {})
    memory.put("a", np.array([-1.0]))
    assert "a" in memory


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines({"text": "d", "logp": [1.0]}), "an entry holds no log-probabilities"),
        (lines({"text": "d", "logp": "x"}), "an entry holds no log-probabilities"),
        (lines({"text": 3, "logp": [-1.0]}), "an entry holds no log-probabilities"),
        (lines({"text": 3, "refused": "x"}), "an entry holds no log-probabilities"),
        (lines({"text": "d", "refused": 3}), "an entry holds no log-probabilities"),
        (lines([1]), "an entry holds no log-probabilities"),
        (lines(key={"model": "n"}), "holds answers of another model or other settings"),
        ("", "holds answers of another model or other settings"),
        ("[1]", "holds answers of another model or other settings"),
        ("[" * 100_000, "not a journal of answers|holds answers of another model"),
    ],
)
def test_a_journal_with_something_else_is_refused(tmp_path, content, message):
    path = tmp_path / "journal"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        EndpointJournal(path, {"model": "m"})


@pytest.mark.parametrize(
    ("options", "is_allowed"),
    [
        ({"concurrency": 1, "retries": 0, "length": 1, "backoff": 1e-9, "timeout": 1e-9}, True),
        ({"concurrency": 0}, False),
        ({"retries": -1}, False),
        ({"length": 0}, False),
        ({"backoff": 0.0}, False),
        ({"timeout": 0.0}, False),
    ],
)
def test_options_of_an_endpoint_have_limits(options, is_allowed):
    if is_allowed:
        Endpoint("http://127.0.0.1:9/v1", "m", **options)
        return
    with pytest.raises(InputError, match=next(iter(options))):
        Endpoint("http://127.0.0.1:9/v1", "m", **options)


@pytest.mark.parametrize("texts", ["one text", ["a", 3], [None]])
def test_texts_are_a_sequence_of_strings(texts):
    with pytest.raises(InputError, match="texts: a sequence of strings is needed"):
        Endpoint("http://127.0.0.1:9/v1", "m").tokens(texts)
