"""Training records in a model's arrays: found in every form, and never where nothing is stored."""

import json

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
import xgboost
from safetensors.numpy import save_file
from scipy import stats
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.impute import KNNImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.semi_supervised import LabelPropagation
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge import auditing
from divulge.auditing.compare import Comparison, judge_ending
from divulge.auditing.gates import gate, reason_of
from divulge.errors import InputError
from divulge.inspection import (
    collect_arrays,
    find_stored_records,
    inspect_file,
    inspect_model,
    inspect_outputs,
    model_arrays,
)
from divulge.results import StoredRecords
from divulge.settings import InspectionSettings
from divulge.targets import SklearnTarget

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
Y = (X[:, 0] + RNG.normal(size=240) > 0).astype(int)
IS_MEMBER = np.arange(240) < 120
RECORDS = dv.Records(X, Y)
SCALED = StandardScaler().fit(X[:120]).transform(X)


def search(model, records=RECORDS, **options):
    model = SklearnTarget(model) if hasattr(model, "predict") else model
    return find_stored_records(model, records, IS_MEMBER[: len(records)], **options)


def rows_in(table, rows):
    """Count rows that stand in a table, by a loop over all pairs."""
    return sum(any(np.allclose(row, stored, rtol=1e-9, atol=1e-12) for stored in table) for row in rows)


def test_support_vectors_are_counted_as_a_loop_counts_them():
    model = SVC().fit(X[:120], Y[:120])
    matches = search(model)
    assert matches.found == rows_in(model.support_vectors_, X[:120]) == len(model.support_vectors_)
    assert matches.nonmembers_found == rows_in(model.support_vectors_, X[120:]) == 0
    assert matches.sentence == f"{matches.found} of 120 training records stand in this file."
    assert "support_vectors_" in matches.evidence


@pytest.mark.parametrize(
    ("model", "x", "form"),
    [
        (KNeighborsClassifier(), X, "as they are"),
        (KNeighborsClassifier(), X.astype(np.float32), "as they are"),
        (GaussianProcessClassifier(), X, "as they are"),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), X, "as the model's own steps transform them"),
        (
            make_pipeline(QuantileTransformer(n_quantiles=20), KNeighborsClassifier()),
            X,
            "as the model's own steps transform them",
        ),
        (KNeighborsClassifier(), SCALED, "up to a scale and shift of each column"),
        (KNeighborsClassifier(), SCALED.astype(np.float32), "up to a scale and shift of each column"),
        (SVC(), MinMaxScaler().fit_transform(X), "up to a scale and shift of each column"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_they_are_found_in_every_form(model, x, form):
    model.fit(x[:120], Y[:120])
    # The adversary holds the records as they were before anything outside the model scaled them.
    matches = search(model)
    assert matches.proven
    assert matches.matches[0].form == form
    assert matches.found >= (60 if isinstance(model, SVC) else 120)
    assert matches.nonmembers_found == 0


def test_files_of_other_libraries_are_searched(tmp_path):
    save_file({"memory": X[:120].astype(np.float32), "weight": RNG.normal(size=(8, 4))}, tmp_path / "m.safetensors")
    np.savez(tmp_path / "m.npz", flat=X[:120].ravel())
    skops.io.dump(KNeighborsClassifier().fit(X[:120], Y[:120]), tmp_path / "m.skops")
    (tmp_path / "m.json").write_text(json.dumps({"learner": [{"rows": X[:120].tolist()}]}))
    for name in ("m.safetensors", "m.npz", "m.skops", "m.json"):
        assert search(tmp_path / name).found == 120, name
    booster = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X[:120], Y[:120]).booster_
    booster.save_model(tmp_path / "m.txt")
    boosted = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X[:120], Y[:120])
    boosted.save_model(tmp_path / "x.json")
    for name in ("m.txt", "x.json"):
        assert collect_arrays(tmp_path / name)
        assert not search(tmp_path / name).proven


def test_onnx_initialisers_and_attributes_are_searched(tmp_path):
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("SVMClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml")
    node.attribute.append(onnx.helper.make_attribute("support_vectors", X[:60].ravel().tolist()))
    stored = onnx.numpy_helper.from_array(X[60:120].astype(np.float32), "memory")
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 4])
    out = onnx.helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, [None, 2])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [info], [out], [stored])), tmp_path / "m.onnx")
    assert search(tmp_path / "m.onnx").found == 120


PERMUTED = [2, 0, 3, 1]


@pytest.mark.parametrize(
    ("model", "x", "columns"),
    [
        (make_pipeline(StandardScaler(), make_pipeline(PCA(), KNeighborsClassifier())), X, 0),
        (SVC(C=0.01), X.astype(np.float32), 0),  # which keeps them as float64
        (KNeighborsClassifier(), X[:, PERMUTED], 4),
        (KNeighborsClassifier(), X[:, [3, 1]], 2),
        (KNeighborsClassifier(), np.c_[X, X[:, 0] * X[:, 1]], 4),
        (BaggingClassifier(KNeighborsClassifier(), 8, max_features=2, random_state=0), X, 2),
        (
            make_pipeline(ColumnTransformer([("few", KNNImputer(), [0, 3]), ("rest", "drop", [1])]), GaussianNB()),
            X,
            2,
        ),
    ],
)
def test_they_are_found_by_some_columns_in_any_order_and_as_nested_pipelines_are_given_them(model, x, columns):
    model.fit(x[:120], Y[:120])
    for searched in (model, SklearnTarget(model)):  # a pipeline's own steps are followed in both
        matches = find_stored_records(searched, RECORDS, IS_MEMBER)
        assert matches.found == (len(model.support_vectors_) if isinstance(model, SVC) else 120)
        assert matches.nonmembers_found == 0
        assert max(match.columns or 0 for match in matches.matches) == columns
    if columns == 2 and len(model.get_params()) < 12 and not hasattr(model, "steps"):
        assert matches.sentence == "120 of 120 training records stand in this file, by some of their columns."
        assert "in 2 of 4 columns" in matches.evidence


def test_columns_of_a_frame_may_stand_in_another_order_than_the_records(tmp_path):
    names = list("abcd")
    frame = pd.DataFrame(X, columns=names)
    model = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(frame.iloc[:120, PERMUTED], Y[:120])
    skops.io.dump(model, tmp_path / "m.skops")
    records = dv.Records(frame, Y)
    for searched in (SklearnTarget(model), model, tmp_path / "m.skops"):
        matches = find_stored_records(searched, records, IS_MEMBER)
        assert (matches.found, matches.nonmembers_found) == (120, 0)
        assert matches.matches[0].form == "as the model's own steps transform them"
    plain = KNeighborsClassifier().fit(frame.iloc[:120, PERMUTED], Y[:120])
    forms = {match.form for match in find_stored_records(plain, records, IS_MEMBER).matches}
    assert {"as they are", "as the model is given them"} <= forms


def test_arrays_that_hold_the_same_are_counted_once():
    matches = search(KNeighborsClassifier().fit(X[:120], Y[:120]))
    assert len(matches.matches) > 2
    assert "and 1 other array holds some" in matches.evidence


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (KernelRidge(kernel="rbf"), "KernelRidge holds 120 records"),
        (KernelDensity(), "KernelDensity holds 120 records"),
        (LabelPropagation(), "LabelPropagation holds 120 records"),
        (Nystroem(n_components=30), "Nystroem holds 30 records"),
        (
            TransformedTargetRegressor(SVR(epsilon=0.0), func=np.exp, inverse_func=np.log),
            "SVR holds 120 support vectors",
        ),
        (GaussianProcessRegressor(), "GaussianProcessRegressor holds 120 records"),
    ],
)
def test_whatever_keeps_records_by_its_nature_is_named(model, hint):
    result = inspect_model(model.fit(X[:120], Y[:120]))
    assert [each.found for each in result.hints if each.name == "stored records"] == [hint]
    assert result.training_records == (None if isinstance(model, Nystroem) else 120)
    assert find_stored_records(model, RECORDS, IS_MEMBER).found >= (30 if isinstance(model, Nystroem) else 118)


def test_boosting_by_histograms_says_how_many_records_it_saw():
    model = HistGradientBoostingClassifier(max_iter=2, early_stopping=False).fit(X[:120], Y[:120])
    assert inspect_model(model).training_records == 120


def discrete(n, rng):
    return np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 5, n)]).astype(float)


@pytest.mark.parametrize("table", ["numbers", "few values", "constants", "duplicates"])
@pytest.mark.parametrize("model_name", ["forest", "linear", "boosting", "bayes", "quantiles"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_models_that_store_nothing_are_not_accused(table, model_name):
    # Each of the 20 cases may fail with a probability of at most 0.001; the seeds are fixed.
    rng = np.random.default_rng(5)
    x = {
        "numbers": rng.normal(size=(240, 4)),
        "few values": discrete(240, rng),
        "constants": np.column_stack([rng.normal(size=240), np.full(240, 7.0), np.zeros(240), rng.integers(0, 9, 240)]),
        "duplicates": np.repeat(rng.normal(size=(80, 3)), 3, axis=0)[rng.permutation(240)],
    }[table]
    model = {
        "forest": RandomForestClassifier(10, random_state=0),
        "linear": LogisticRegression(),
        "boosting": HistGradientBoostingClassifier(max_iter=5, early_stopping=False),
        "bayes": GaussianNB(),
        "quantiles": make_pipeline(QuantileTransformer(n_quantiles=50), GaussianNB()),
    }[model_name].fit(x[:120], Y[:120])
    matches = search(model, dv.Records(x, Y))
    assert not matches.proven
    assert matches.sentence.startswith("No training record was found")


def test_the_chance_of_a_false_match_keeps_its_bound():
    """Arrays of candidates that have nothing to do with membership: most hold some, few may be called a match.

    Of 300 runs at a bound of 0.2, more than 0.2 * 300 + 3 standard deviations happen with less than 1 in 700.
    """
    rng, proven = np.random.default_rng(1), 0
    for _ in range(300):
        x = rng.normal(size=(40, 2)) if rng.random() < 0.5 else discrete(40, rng)
        is_member = rng.permutation(40) < 20
        stored = x[rng.permutation(40)[: rng.integers(1, 20)]]
        wide = np.c_[rng.normal(size=len(stored)), stored[:, ::-1]]
        matches = find_stored_records({"a": stored, "b": wide}, dv.Records(x), is_member, bound=0.2)
        proven += matches.proven
    assert 0 < proven <= 60 + 3 * np.sqrt(300 * 0.2 * 0.8)


def test_a_row_of_both_sides_decides_nothing():
    x = np.vstack([X[:20], X[:20], X[40:60]])
    matches = find_stored_records({"a": X[:20]}, dv.Records(x), np.arange(60) < 20)
    assert not matches.proven
    assert not matches.suspected


def test_the_p_value_is_fishers():
    x = X[:40]
    matches = find_stored_records({"a": np.vstack([x[:12], x[20:23]])}, dv.Records(x), np.arange(40) < 20, bound=0.5)
    expected = stats.fisher_exact([[12, 3], [8, 17]], alternative="greater").pvalue
    match = next(match for match in matches.matches if match.form == "as they are")
    assert match.p_value == pytest.approx(expected)
    assert (match.members, match.nonmembers) == (12, 3)


def test_few_records_are_suspected_and_neither_proven_nor_cleared():
    matches = find_stored_records({"a": X[:6]}, dv.Records(X[:12]), np.arange(12) < 6)
    assert not matches.proven
    assert matches.suspected == 6
    assert "too few to rule out chance" in matches.sentence


def audited(model, **options):
    sets = [dv.Records(X[i : i + 60], Y[i : i + 60]) for i in (0, 120, 180)]
    model.fit(X[:60], Y[:60])
    return dv.audit(
        model, members=sets[0], nonmembers=sets[1], population=sets[2], recipes=["loss"], fpr=[0.05], **options
    )


def test_the_verdict_the_gate_and_the_comparison_follow(tmp_path):
    stores = audited(SVC(), out=tmp_path / "run")
    assert stores.verdict.answer == "leak found"
    assert (
        stores.verdict.plain
        == f"{stores.about.measured(StoredRecords).found} of 60 training records stand in this file."
    )
    rulings = gate(stores, ["auc:0.99", "epsilon:10"])
    assert {ruling.state for ruling in rulings} == {"broken"}
    assert "stand in this file" in rulings[0].reason
    reloaded = auditing.load(tmp_path / "run")
    assert reloaded.about.measured(StoredRecords) == stores.about.measured(StoredRecords)
    assert reloaded.verdict.plain == stores.verdict.plain
    assert "stand in this file" in (tmp_path / "run" / "report.html").read_text()
    forest = audited(RandomForestClassifier(20, random_state=0))
    assert not forest.about.measured(StoredRecords).proven
    compared = Comparison.from_runs({"forest": forest, "stores": stores})
    heading, words, tone = judge_ending(compared.changes["stores"], stores)
    assert heading == "Training records stand in the second model"
    assert tone == "leak"
    assert "whatever the attacks measure" in words
    assert reason_of(forest, "proof") == ""


def test_inspect_says_without_data_what_may_be_stored(tmp_path, divulge):
    skops.io.dump(KNeighborsClassifier().fit(X[:120], Y[:120]), tmp_path / "m.skops")
    inspection = inspect_file(tmp_path / "m.skops")
    assert inspection.training_records == 120
    assert ("_fit_X", (120, 4)) in inspection.long_arrays
    code, out, err = divulge("inspect", tmp_path / "m.skops")
    assert code == 0, err
    assert "KNeighborsClassifier holds 120 records" in out
    code, out, _ = divulge("inspect", tmp_path / "m.skops", "--json")
    assert json.loads(out)["training_records"] == 120
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04N.")
    code, _, err = divulge("inspect", tmp_path / "m.pkl")
    assert code == 2
    assert "is a pickle, a program" in err
    with pytest.raises(InputError, match="no such file"):
        inspect_file(tmp_path / "none.skops")


def test_leaves_are_counted_as_a_loop_counts_them():
    forest = RandomForestClassifier(5, random_state=0).fit(X[:120], Y[:120])
    result = inspect_model(forest, InspectionSettings(leaf_records=4))
    counts = [
        int(tree.tree_.n_node_samples[node])
        for tree in forest.estimators_
        for node in range(tree.tree_.node_count)
        if tree.tree_.children_left[node] == -1
    ]
    assert (result.leaves, result.single_leaves) == (len(counts), counts.count(1))
    assert result.small_leaves == sum(count < 4 for count in counts)
    names = {hint.name for hint in result.hints}
    assert {"records of a leaf", "class disclosure", "least records of a leaf", "depth"} <= names
    coarse = RandomForestClassifier(5, min_samples_leaf=30, max_depth=2, bootstrap=False).fit(X[:120], Y[:120])
    assert {hint.name for hint in inspect_model(coarse).hints} == {"bootstrap"}
    assert not inspect_model(LogisticRegression().fit(X[:120], Y[:120])).hints


def test_outputs_are_counted_as_a_loop_counts_them():
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X[:120], Y[:120])
    answers = [tuple(row) for row in forest.predict_proba(X[:120]).round(12)]
    n_few = sum(answers.count(answer) < 10 for answer in answers)
    ruled_out = sum(min(answer) == 0 for answer in answers)
    small = sum(any(0 < p * answers.count(a) < 10 for p in a) for a in set(answers))
    hints = {hint.name: hint.found for hint in inspect_outputs(forest, dv.Records(X[:120]))}
    assert hints["records of an output"].startswith(f"{n_few} of 120 records")
    assert hints["class disclosure by outputs"].startswith(f"{ruled_out} of 120 records")
    assert hints["small groups"].startswith(f"{small} of {len(set(answers))} outputs")
    settings = InspectionSettings(output_records=1)
    assert "records of an output" not in {hint.name for hint in inspect_outputs(forest, dv.Records(X[:120]), settings)}


def test_outputs_of_regression_models_and_labels_are_compared_as_they_are():
    steps = RandomForestRegressor(1, max_depth=1, bootstrap=False, random_state=0).fit(X[:120], X[:120, 0])
    assert not inspect_outputs(steps, dv.Records(X[:120]))
    each_its_own = LinearRegression().fit(X[:120], X[:120, 0] + X[:120, 1])
    (hint,) = inspect_outputs(each_its_own, dv.Records(X[:120]))
    assert hint.found == "120 of 120 records have an output that fewer share; the rarest has 1"
    with pytest.raises(dv.InputError, match=r"members: divulge\.Records is needed"):
        inspect_outputs(each_its_own, X)


def test_listed_settings_stand_with_what_was_measured_of_them():
    listed = {
        "forest": RandomForestClassifier(50, max_depth=10, random_state=0),
        "tree": DecisionTreeClassifier(random_state=0),
        "stored": KNeighborsClassifier(3),
    }
    for model in listed.values():
        (hint,) = [hint for hint in inspect_model(model.fit(X[:120], Y[:120])).hints if hint.name == "listed setting"]
        assert type(model).__name__ in hint.found
        assert ("benchmarks/results/defences.md" in hint.measured) == (type(model) is not DecisionTreeClassifier)
    for model in (RandomForestClassifier(20), RandomForestClassifier(50, max_depth=3), LogisticRegression()):
        fitted = model.fit(X[:120], Y[:120])
        assert "listed setting" not in {hint.name for hint in inspect_model(fitted).hints}


def test_inspect_counts_outputs_of_a_table_of_members(tmp_path, divulge):
    skops.io.dump(RandomForestClassifier(20, random_state=0).fit(X[:120], Y[:120]), tmp_path / "m.skops")
    columns = {f"x{i}": X[:120, i] for i in range(X.shape[1])} | {"label": Y[:120]}
    pl.DataFrame(columns).write_csv(tmp_path / "members.csv")
    code, out, err = divulge("inspect", tmp_path / "m.skops", "--members", tmp_path / "members.csv")
    assert code == 0, err
    assert "Hint, records of an output" in out
    code, _, err = divulge("inspect", tmp_path / "m.skops", "--members", tmp_path / "none.csv")
    assert code == 2
    assert "none.csv" in err


def test_records_of_one_column_are_searched():
    single_column = dv.Records(X[:, :1], Y)
    matches = search(KNeighborsClassifier(3).fit(X[:120, :1], Y[:120]), single_column)
    assert (matches.found, matches.nonmembers_found) == (120, 0)
    assert search(KNeighborsClassifier(3).fit(RNG.normal(size=(120, 1)), Y[:120]), single_column).found == 0
    integers = dv.Records(RNG.integers(0, 5, (240, 1)), Y)
    assert search(KNeighborsClassifier(3).fit(integers.x[:120], Y[:120]), integers).found == 0


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, lambda values: pl.DataFrame({f"x{i}": column for i, column in enumerate(values.T)}), pd.Series],
)
def test_data_frames_that_an_estimator_keeps_are_searched(make):
    values = X[:, 0] if make is pd.Series else X

    class Lookup(LogisticRegression):
        pass

    model = Lookup().fit(X[:120], Y[:120])
    model.training_data_ = make(values[:120])
    records = dv.Records(values.reshape(240, -1), Y)
    assert find_stored_records(model, records, IS_MEMBER).found == 120
    model.training_data_ = make(RNG.normal(size=values[:120].shape))
    assert find_stored_records(model, records, IS_MEMBER).found == 0


def test_a_form_with_a_column_for_each_record_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(model_arrays, "MAX_VALUES", 20_000)
    frame = pd.DataFrame({"postcode": [f"code {row}" for row in range(240)], "age": X[:, 0]})
    encode = ColumnTransformer([("one-hot", OneHotEncoder(), ["postcode"])], remainder="passthrough")
    matches = search(make_pipeline(encode, LogisticRegression()).fit(frame, Y), dv.Records(frame, Y))
    assert matches.not_searched == ("a form of the records has 57,840 values, more than 20,000",)


def test_arrays_of_an_onnx_model_are_named_by_their_node_or_its_place(tmp_path):
    onnx = pytest.importorskip("onnx")
    make, graph = onnx.helper.make_attribute, onnx.helper.make_graph
    nodes = [
        onnx.helper.make_node("Scaler", ["x"], ["y"], name=name, domain="ai.onnx.ml") for name in ("scale", "", "")
    ]
    for i, node in enumerate(nodes):
        node.attribute.append(make("offset", [0.5 + i, 1.5]))
        node.attribute.append(make("order", [i, 7]))
        node.attribute.append(make("stored", onnx.numpy_helper.from_array(np.full((2, 2), i, dtype=np.float64))))
        node.attribute.append(make("mode", "text"))
    start = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32), "start")
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 2])
    onnx.save(onnx.helper.make_model(graph(nodes, "g", [info], [info], [start])), tmp_path / "m.onnx")
    found = model_arrays._read_onnx(tmp_path / "m.onnx")
    expected = {"start": [0, 1, 2]}
    for i, name in enumerate(("scale", "1", "2")):
        expected |= {f"{name}.offset": [0.5 + i, 1.5], f"{name}.order": [i, 7], f"{name}.stored": [[i, i], [i, i]]}
    assert {name: values.tolist() for name, values in found.items()} == expected
