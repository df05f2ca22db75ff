"""Canaries of tables, of a user's own and of insertions, piece by piece."""

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import canaries
from divulge.canaries import canary_audit, canary_records, make
from divulge.canaries import canary_kinds as kinds
from divulge.canaries.canary_records import Canaries
from divulge.run_directory import RunDirectory
from divulge.targets.token_statistics import TokenStatistics


def test_random_canaries_draw_codes_from_those_that_occur():
    frame = pl.DataFrame({"code": [100, 900] * 20, "x": np.arange(40.0)})
    data = dv.Records(frame, np.arange(40) % 2)
    plain, _ = kinds.build_records("random", data, 30, np.random.default_rng(0))
    coded, draft = kinds.build_records("random", data, 30, np.random.default_rng(0), ["code"])
    assert len(set(plain.table["code"].to_list())) > 10
    assert set(coded.table["code"].to_list()) == {100, 900}
    assert set(draft.numbers) == {"x"}
    assert len(coded) == len(draft.donors) == 30
    shuffled, kept = kinds.build_records("shuffled", data, 10, np.random.default_rng(0), ["code"])
    assert len(shuffled) == 10
    assert kept.numbers == {}


def test_a_canary_left_out_is_found_in_another_precision_and_beside_row_numbers():
    x = np.random.default_rng(0).normal(size=(600, 6))
    planted = Canaries(dv.Records(x[:200], np.arange(200) % 2), np.arange(200) < 100, "coins", "own", 0, 400)
    for stored in (x.astype(np.float16), x.astype(np.float32), x.round(3)):
        training = dv.Records(stored[120:], np.arange(120, 600) % 2)
        with pytest.raises(dv.InputError, match="training: 80 canaries"):
            canary_records.check_not_trained_on(planted, training)
    columns = pl.DataFrame(x[:, :3], schema=["a", "b", "c"])
    frames = [columns, columns.with_row_index("Unnamed: 0")]
    made = [canary_records.make(dv.Records(frame), kind="random", count=20, seed=0) for frame in frames]
    assert made[1].records.table.columns == ["a", "b", "c"]
    np.testing.assert_array_equal(made[0].records.x, made[1].records.x)


LABELLED = dv.Records(np.arange(24.0).reshape(12, 2), np.arange(12) % 2)


@pytest.mark.parametrize("labels", [True, False])
def test_canaries_left_out_may_not_be_trained_on(labels):
    y = np.arange(10) % 2 if labels else None
    records = dv.Records(100 + np.arange(20.0).reshape(10, 2), y)
    planted = Canaries(records, np.arange(10) < 4, "coins", "own", 0, 12)
    training = LABELLED if labels else dv.Records(LABELLED.x)
    canary_records.check_not_trained_on(planted, training)
    allowed = dv.Records.concatenate([training, records[np.arange(10) < 4]])
    canary_records.check_not_trained_on(planted, allowed)
    spoilt = dv.Records.concatenate([training, records[np.array([6, 8])]])
    with pytest.raises(dv.InputError, match=r"training: 2 canaries .* \(first: canary 6\)"):
        canary_records.check_not_trained_on(planted, spoilt)
    if labels:
        with pytest.raises(dv.InputError, match="training: its labels are needed"):
            canary_records.check_not_trained_on(planted, dv.Records(LABELLED.x))
    else:  # labels of the training set say nothing where the canaries have none
        with_labels = dv.Records.concatenate([LABELLED, dv.Records(records.x[[6, 8]], np.array([0, 1]))])
        with pytest.raises(dv.InputError, match="training: 2 canaries"):
            canary_records.check_not_trained_on(planted, with_labels)


def test_own_canaries_have_labels_where_the_data_has_and_one_shape():
    own = dv.Records(100 + np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
    assert len(make(LABELLED, own=own, seed=0)) == 10
    unlabelled = dv.Records(LABELLED.x)
    for data, wrong in ((unlabelled, own), (LABELLED, dv.Records(own.x)), (LABELLED, dv.Records(own.x[:, :1], own.y))):
        with pytest.raises(dv.InputError, match="own: canaries of the data's shape and with labels as it are needed"):
            make(data, own=wrong, seed=0)
    made = make(unlabelled, own=dv.Records(own.x), seed=0)
    assert (made.kind, made.trained_on, made.seed) == ("own", 12, 0)


def outputs(x):
    return np.column_stack([x[:, 0], -x[:, 0]])


def test_pooled_runs_and_their_numbers(tmp_path):
    data = dv.Records(np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2)
    planted = make(data, count=10, seed=1)
    given = []

    def train(records, seed):
        given.append((len(records), seed))
        return outputs

    result = canaries.play(train, planted, data, runs=3, holdout=data, seed=5, claim=dv.Claim(1.0, 1e-3))
    assert (result.runs, len(result.scores), result.trained_on) == (3, 30, 40)
    assert result.seed == 5
    assert result.proof.claim == dv.Claim(1.0, 1e-3)
    runs = [planted.redrawn(canary_audit.seeds.derive_seed(5, "canaries", "run", i)) for i in range(3)]
    np.testing.assert_array_equal(result.included, np.concatenate([run.included for run in runs]))
    assert [n for n, _ in given] == [40 + int(run.included.sum()) for run in runs] + [40]
    training_seeds = [canary_audit.seeds.derive_seed(5, "training", i) for i in range(3)]
    assert [seed for _, seed in given] == [*training_seeds, training_seeds[0]]
    assert result.accuracy[0] == result.accuracy[1]
    right = int((data.y == (data.x[:, 0] < 0)).sum())
    assert result.accuracy[0] == dv.evaluation.proportion(right, 40)
    assert canaries.play(train, planted, data).accuracy is None
    # A δ of one over all records that the first run trained on is refused.
    largest = 1 / (40 + int(runs[0].included.sum()))
    with pytest.raises(dv.InputError, match=r"claim\.delta: must be below"):
        canaries.play(train, planted, data, seed=5, claim=dv.Claim(1.0, largest * 1.0001))
    with pytest.raises(dv.InputError, match="runs: must be at least 1"):
        canaries.play(train, planted, data, runs=0)


def test_an_audit_counts_the_records_trained_on_and_knows_the_training_set():
    data = dv.Records(np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2)
    planted = make(data, count=20, seed=1)
    n = 40 + int(planted.included.sum())
    with pytest.raises(dv.InputError, match=rf"claim\.delta: must be below 1/{n} "):
        canaries.audit(outputs, planted, claim=dv.Claim(1.0, 1.0001 / n))
    result = canaries.audit(outputs, planted, claim=dv.Claim(1.0, 0.9999 / n), training=data)
    right = int((data.y == (data.x[:, 0] < 0)).sum())
    assert result.training_accuracy == dv.evaluation.proportion(right, 40)
    assert canaries.audit(outputs, planted).training_accuracy is None
    with pytest.raises(dv.InputError, match=r"training: .* canaries that were not to be included"):
        canaries.audit(outputs, planted, training=planted.records)
    none = Canaries(planted.records, np.zeros(20, bool), "coins", "mislabelled", 0, 40)
    with pytest.raises(dv.InputError, match="canaries: some must be in and some out, got 0 of 20 in"):
        canaries.audit(outputs, none)


class Documents:
    """A language model that gives each document one token of its own log-probability, or none."""

    def __init__(self, silent=()):
        self.silent = silent

    def tokens(self, texts, *, vocabulary=True):
        counts = [i not in self.silent for i in range(len(texts))]
        logp = -np.arange(1.0, len(texts) + 1)[counts]
        return TokenStatistics(np.append(0, np.cumsum(counts)), np.full(len(texts), 9), logp=logp)

    def key(self):
        return {}


def test_documents_are_scored_by_loss_alone_and_each_needs_a_token():
    texts = dv.Records([f"word{i} of text" for i in range(20)])
    planted = make(texts, kind="random-token", count=10, seed=0)
    result = canaries.audit(Documents(), planted)
    np.testing.assert_array_equal(result.scores, -np.arange(1.0, 11))
    assert (result.recipe, result.warnings) == ("loss", ())
    with pytest.raises(dv.InputError, match="recipe: documents are scored by 'loss', got 'entropy'"):
        canaries.audit(Documents(), planted, recipe="entropy")
    with pytest.raises(dv.InputError, match="canaries: 2 documents have no token that could be scored"):
        canaries.audit(Documents(silent=(3, 5)), planted)


@pytest.mark.parametrize("kept", [["x"], ["included"], []])
def test_canaries_without_values_or_coins_are_damaged(tmp_path, kept):
    made = make(LABELLED, kind="random", count=8, seed=0, out=tmp_path / "c")
    arrays = {"x": made.records.x, "y": made.records.y, "included": made.included}
    with RunDirectory(tmp_path / "c").changing("canaries") as draft:
        draft.write_arrays("secret/canaries", {name: arrays[name] for name in ["y", *kept]})
    with pytest.raises(dv.InputError, match="damaged: arrays named included and x are needed"):
        Canaries.load(tmp_path / "c")


def test_a_folder_is_written_once_unless_it_may_be_replaced(tmp_path):
    first = make(LABELLED, kind="random", count=8, seed=0, out=tmp_path / "c")
    with pytest.raises(dv.InputError, match="overwrite"):
        make(LABELLED, kind="random", count=9, seed=1, out=tmp_path / "c")
    with pytest.raises(dv.InputError, match="overwrite"):
        first.redrawn(5).save(tmp_path / "c")
    make(LABELLED, kind="random", count=9, seed=1, out=tmp_path / "c", overwrite=True)
    assert len(Canaries.load(tmp_path / "c")) == 9
    assert len(make(LABELLED, kind="random", count=8, seed=0)) == 8
