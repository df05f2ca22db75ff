"""Steps between a question and a model's answer: arrays, rights, files, carriers, journals and messages."""

import json
import types
import zipfile

import numpy as np
import pytest

import divulge as dv
from divulge import targets, web
from divulge.errors import InputError
from divulge.targets import arrays, endpoint, files, rights
from divulge.targets.endpoint import Endpoint, EndpointJournal


@pytest.mark.parametrize(
    ("outputs", "length", "expected"),
    [
        ([0.5, 2.0], 2, [0.5, 2.0]),
        ([[0.5], [2.0]], 2, [0.5, 2.0]),
        ([[[0.5]], [[2.0]]], 2, [0.5, 2.0]),
        ([[0.5, 2.0]], 1, "one real value per record"),
        ([[0.5, 2.0], [1.0, 1.0]], 2, "one real value per record"),
        ([0.5], 2, "2 rows are needed"),
        (0.5, 1, "1 rows are needed"),
        ([0.5, np.nan], 2, "NaN"),
    ],
)
def test_a_regression_model_gives_one_value_per_record(outputs, length, expected):
    if isinstance(expected, str):
        with pytest.raises(InputError, match=f"^p: .*{expected}"):
            arrays.as_predictions(outputs, length, "p")
        return
    assert arrays.as_predictions(outputs, length, "p").tolist() == expected


@pytest.mark.parametrize(
    ("outputs", "declared", "expected"),
    [
        ([1.0, -2.0], "logits", [[0, 1], [0, -2]]),
        ([[1.0], [-2.0]], "logits", [[0, 1], [0, -2]]),
        ([[0.25], [0.0]], "probabilities", np.log([[0.75, 0.25], [1.0, 1e-7]])),
        ([0.25, 1.0], "probabilities", np.log([[0.75, 0.25], [1e-7, 1.0]])),
        ([[0.0, 1.0], [0.5, 0.5]], "probabilities", np.log([[1e-7, 1.0], [0.5, 0.5]])),
        ([[0.48, 0.501], [0.5, 0.519]], "probabilities", np.log([[0.48, 0.501], [0.5, 0.519]])),
        ([[0.47, 0.5], [0.5, 0.5]], "probabilities", "row 0 sums to 0.97"),
        ([[0.5, 0.5], [0.53, 0.5]], "probabilities", "row 1 sums to 1.03"),
        ([[0.5, 0.5], [-0.01, 0.5]], "probabilities", "values range from -0.01 to 0.5"),
        ([[0.5, 0.5], [1.01, 0.0]], "probabilities", "values range from 0 to 1.01"),
        (1.0, "logits", "2 rows are needed"),
        ([1.0], "logits", "2 rows are needed"),
        (np.zeros((2, 2, 2)), "logits", "shape .n, classes. is needed"),
    ],
)
def test_outputs_become_logits(outputs, declared, expected):
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            arrays.as_logits(outputs, declared, 2)
        return
    np.testing.assert_allclose(arrays.as_logits(outputs, declared, 2), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("frames", "is_plain", "expected"),
    [
        (None, True, "array"),
        (None, False, "frame"),
        (True, True, "frame"),
        (True, False, "frame"),
        (False, False, "array"),
    ],
)
def test_functions_are_given_frames_where_numbers_do_not_say_all(frames, is_plain, expected):
    table = types.SimpleNamespace(to_native=lambda: "frame")
    records = types.SimpleNamespace(x="array", table=table, encoder=types.SimpleNamespace(is_plain=is_plain))
    assert arrays.CallableTarget(len, frames=frames)._input(records) == expected
    for lacking in ({"table": None}, {"encoder": None}):
        bare = types.SimpleNamespace(**(vars(records) | lacking))
        assert arrays.CallableTarget(len, frames=True)._input(bare) == "array"


def test_tables_find_the_first_and_the_last_id_and_refuse_what_lies_beyond():
    table = targets.TableTarget(["b", "d"], [[1.0, 0.0], [2.0, 0.0]])
    assert table.logits(dv.Records([[0.0]] * 2, ids=["d", "b"]))[:, 0].tolist() == [2.0, 1.0]
    assert table.labels(dv.Records([[0.0]], ids=["d"])).tolist() == [0]
    for absent in ("a", "c", "e"):
        with pytest.raises(InputError, match=rf"1 ids are not in the table of outputs \(first: '{absent}'\)"):
            table.logits(dv.Records([[0.0]] * 2, ids=["b", absent]))


RIGHTS = ("logits", "labels", "predictions", "tokens", "continuations")


@pytest.mark.parametrize(
    ("methods", "language", "regression", "label_only"),
    [
        (("logits",), False, False, False),
        (("logits", "labels"), False, False, False),
        (("labels",), False, False, True),
        (("tokens", "key"), True, False, False),
        (("tokens",), False, False, False),
        (("tokens", "key", "logits"), False, False, False),
        (("tokens", "key", "labels"), True, False, True),
        (("predictions",), False, True, False),
        (("predictions", "logits"), False, False, False),
        (("predictions", "labels"), False, False, True),
        (("predictions", "tokens", "key"), True, False, False),
    ],
)
def test_models_are_told_apart_by_their_rights(methods, language, regression, label_only):
    target = types.SimpleNamespace(**dict.fromkeys(methods, len))
    assert rights.is_language_model(target) is language
    assert rights.is_regression_model(target) is regression
    assert rights.is_label_only(target) is label_only


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


@pytest.mark.parametrize(("table", "encoder"), [(None, "e"), ("t", None)])
def test_records_without_a_template_of_frames_go_as_they_are(table, encoder):
    records = dv.Records([[1.0]])
    template = types.SimpleNamespace(table=table, encoder=encoder)
    framed = rights.FramedTarget(Counting(), template)
    assert framed._with_frame(records) is records
    whole = types.SimpleNamespace(table="t", encoder=types.SimpleNamespace(columns=()))
    has_table = types.SimpleNamespace(table="there")
    assert rights.FramedTarget(Counting(), whole)._with_frame(has_table) is has_table
    texts = types.SimpleNamespace(columns=[types.SimpleNamespace(name="note", measure="text")])
    with pytest.raises(InputError, match=r"free text \(column 'note'\)"):
        rights.FramedTarget(Counting(), types.SimpleNamespace(table="t", encoder=texts))._with_frame(records)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: 0, False),
        (lambda a: 0, True),
        (lambda a=1: 0, False),
        (lambda *a, **k: 0, False),
        (lambda *, a: 0, True),
        (lambda a, b=1: 0, True),
        (type, True),
    ],
)
def test_functions_that_need_arguments_are_no_factories(function, expected):
    assert files._requires_arguments(function) is expected


@pytest.mark.parametrize(
    ("name", "content", "library"),
    [
        ("m.cbm", b"CBM1rest", "CatBoost"),
        ("m.txt", b"tree\nversion=v4", "LightGBM"),
        ("m.json", b'{"learner": {}}', "XGBoost"),
        ("m.ubj", b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner", "XGBoost"),
        ("m.ubj", b"{L" + b" " * 64 + b"learner", ""),
        ("m.ubj", b"xL learner", ""),
        ("m.json", b'{"features_info": 1}', "CatBoost"),
        ("m.JSON", b'{"features_info": 1}', "CatBoost"),
        ("m.txt", b'{"features_info": 1}', ""),
        ("m.json", b"{}", ""),
        ("m.txt", b"xtree\nversion=", ""),
    ],
)
def test_files_of_boosting_libraries_are_known_by_their_content(tmp_path, name, content, library):
    (tmp_path / name).write_bytes(content)
    assert files._detect_boosting_library(tmp_path / name) == library


@pytest.mark.parametrize(
    ("name", "content", "file_type"),
    [
        ("m.bin", b"\x89HDF\r\n", "HDF5"),
        ("m.bin", b"\x80\x04", "pickle"),
        ("m.pkl", b"x", "pickle"),
        ("m.PICKLE", b"x", "pickle"),
        ("m.joblib", b"", "pickle"),
        ("m.pth", b"x", "pickle"),
        ("m.bin", b"x\x80", ""),
        ("m.bin", b"", ""),
    ],
)
def test_refused_files_are_known_by_their_content_or_ending(tmp_path, name, content, file_type):
    (tmp_path / name).write_bytes(content)
    assert files._detect_file_type(tmp_path / name) == file_type
    reason = files._refusal_reason(tmp_path / name)
    assert reason == (
        f"a {file_type} file {files.REFUSED[file_type]}" if file_type else "its kind (.bin) is not known here"
    )
    with pytest.raises(InputError, match="cannot be loaded without running code from it"):
        files.refuse_unsafe_file(tmp_path / name)


@pytest.mark.parametrize(
    ("entries", "file_type"),
    [
        (["m/archive_format", "m/data.pkl"], "torch.export"),
        (["serialized_exported_program.json"], "torch.export"),
        (["m/code/x.py", "m/data.pkl"], "TorchScript"),
        (["m/constants.pkl", "m/data.pkl"], "TorchScript"),
        (["metadata.json", "config.json", "model.weights.h5"], "Keras"),
        (["metadata.json"], ""),
        (["config.json"], ""),
        (["m/data.pkl", "m/data/0"], "torch.save"),
        (["m/data"], ""),
        ([], ""),
    ],
)
def test_archives_are_known_by_their_entries(tmp_path, entries, file_type):
    assert files._detect_archive_type(entries) == file_type
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        for entry in entries:
            archive.writestr(entry, "")
    assert files._detect_file_type(tmp_path / "m.zip") == file_type


@pytest.mark.parametrize("suffix", [".safetensors", ".onnx", ".skops", ".SKOPS"])
def test_files_that_run_nothing_are_not_refused(tmp_path, suffix):
    (tmp_path / f"m{suffix}").write_bytes(b"\x80")
    files.refuse_unsafe_file(tmp_path / f"m{suffix}")
    files.refuse_unsafe_file(tmp_path / "absent.pkl")
    files.refuse_unsafe_file(tmp_path)


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


def choice(text=TEXT, logprobs=(None, -1.0), **more):
    return {"text": text, "logprobs": {"token_logprobs": list(logprobs)} | more}


def answer(n_prompt=2, n_completion=0, **options):
    return {"choices": [choice(**options)], "usage": {"prompt_tokens": n_prompt, "completion_tokens": n_completion}}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(), [-1.0]),
        (answer(logprobs=[-2.0, -1.0]), [-2.0, -1.0]),
        (answer(logprobs=[None, -1.0, -3.0], n_completion=1), [-1.0]),
        (answer(text="<s> Some  TEXT and more"), [-1.0]),
        (answer(n_prompt=0, logprobs=[]), []),
        (answer(logprobs=[None, 1e-6]), [1e-6]),
        ({"choices": [choice()], "usage": {"prompt_tokens": 2}}, [-1.0]),
        ({"choices": [choice()], "usage": {"prompt_tokens": 2, "completion_tokens": None}}, [-1.0]),
        ({"choices": [choice(tokens=["some ", "text"])]}, [-1.0]),
        ({"choices": [choice(tokens=["<s>", "some text"])]}, [-1.0]),
        ({"choices": [choice(tokens=["<|begin_of_text|>", "some text"])]}, [-1.0]),
        ({"choices": [choice(tokens=["some ", "words"])]}, "the tokens of the answer are not those of the prompt"),
        ({"choices": [choice(tokens=["some text"])]}, "the tokens of the answer are not those of the prompt"),
        ({"choices": [choice(tokens=["some text", 3])]}, "neither a token count"),
        ({"choices": [choice(tokens="some text")]}, "neither a token count"),
        ({"choices": [choice()]}, "neither a token count"),
        (answer(n_prompt=3), "2 log-probabilities for 3 prompt and 0 other tokens"),
        (answer(n_prompt=1), "2 log-probabilities for 1 prompt and 0 other tokens"),
        (answer(n_prompt=10**9 + 1), "not a count of tokens"),
        (answer(n_prompt=10**9), "2 log-probabilities for 1000000000 prompt"),
        (answer(logprobs=[None, 1e-5]), "prompt log-probability 0 is 1e-05"),
        (answer(logprobs=[-1.0, None]), "prompt log-probability 1 is None"),
        (answer(text="other words"), "repeats another text than the prompt"),
        (answer(text="some"), "the server cut the prompt"),
        (answer(text="  "), "repeats another text than the prompt"),
        (answer(text=""), "does not repeat the prompt"),
        (answer(text=None), "does not repeat the prompt"),
    ],
)
def test_an_answer_is_believed_where_it_is_checked_against_the_prompt(reply, expected):
    if isinstance(expected, list):
        assert endpoint._parse_log_probabilities(reply, TEXT).tolist() == expected
        return
    is_hopeless = "neither" in expected or "does not" in expected
    error = InputError if is_hopeless else endpoint._TransientError
    with pytest.raises(error, match=expected):
        endpoint._parse_log_probabilities(reply, TEXT)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, True), (1e-6, True), (1.1e-6, False), (-1e300, False), (-0.9e300, True), (float("nan"), False),
        (False, False), ("0", False), (None, False),
    ],
)  # fmt: skip
def test_log_probabilities_are_finite_numbers_of_at_most_zero(value, expected):
    assert endpoint.is_log_probability(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (10**18, str(10**18)),
        (10**18 + 1, "an integer of 60 bits"),
        (-(10**18) - 1, "an integer of 60 bits"),
        (True, "True"),
        ("x" * 58, repr("x" * 58)),
        ("x" * 59, "'" + "x" * 56 + "…"),
    ],
)
def test_long_values_of_a_server_are_cut(value, expected):
    assert endpoint.abbreviate(value) == expected


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


class Failing:
    """A client whose first answers fail."""

    def __init__(self, *waits):
        self.waits, self.asked = list(waits), 0

    def thread_client(self):
        return self

    def hide(self, text):
        return text

    def post(self, *arguments, **options):
        self.asked += 1
        if self.asked <= len(self.waits):
            wait = self.waits[self.asked - 1]
            return types.SimpleNamespace(status=503, wait=lambda: wait, excerpt=lambda: "")
        return types.SimpleNamespace(status=200, json=answer, excerpt=lambda: "")


class Stop:
    def __init__(self):
        self.waits, self.is_set_now = [], False

    def wait(self, seconds):
        self.waits.append(seconds)

    def set(self):
        self.is_set_now = True

    def is_set(self):
        return self.is_set_now


@pytest.mark.parametrize(
    ("waits", "retries", "waited"),
    [
        ([None] * 3, 3, [0.5, 1.0, 2.0]),
        ([7.0, None], 2, [7.0, 1.0]),
        ([0.0], 1, [0.0]),
        ([999.0], 1, [60.0]),
        ([None] * 9, 9, [0.5, 1, 2, 4, 8, 16, 32, 60, 60]),
        ([None] * 3, 2, [0.5, 1.0]),
        ([None], 0, []),
    ],
)
def test_attempts_wait_twice_as_long_each_time_unless_the_server_names_a_time(waits, retries, waited):
    client, stop, journal = Failing(*waits), Stop(), EndpointJournal(None, {})
    asked = Endpoint("http://127.0.0.1:9/v1", "m", retries=retries)
    if len(waits) <= retries:
        asked._ask(client, TEXT, journal, stop)
        assert journal[TEXT].tolist() == [-1.0]
        assert not stop.is_set()
    else:
        with pytest.raises(
            endpoint.EndpointError, match=rf"gave no usable answer in {retries + 1} attempts \(status 503\)"
        ):
            asked._ask(client, TEXT, journal, stop)
        assert stop.is_set()
    assert stop.waits == waited
    stop.set()
    before = client.asked
    asked._ask(client, TEXT, journal, stop)
    assert client.asked == before


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


def test_each_thread_has_its_own_client_and_the_key_of_the_first_variable(monkeypatch):
    import threading

    made = []
    monkeypatch.setattr(web, "Client", lambda **options: made.append(options) or object())
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    monkeypatch.setenv("DIVULGE_API_KEY", "first")
    pool = endpoint._ClientPool(Endpoint("https://127.0.0.1:9/v1", "m", timeout=3.0))
    clients = [pool.thread_client(), pool.thread_client()]
    thread = threading.Thread(target=lambda: clients.append(pool.thread_client()))
    thread.start()
    thread.join()
    assert clients[0] is clients[1]
    assert clients[2] is not clients[0]
    assert made == [{"timeout": 3.0, "headers": {"authorization": "Bearer first"}, "verify": True}] * 2
    monkeypatch.setenv("DIVULGE_API_KEY", "")
    endpoint._ClientPool(Endpoint("http://127.0.0.1:9/v1", "m"))
    assert made[-1]["headers"] == {"authorization": "Bearer second"}
    assert made[-1]["verify"] is False
