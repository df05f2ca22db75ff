"""Records, token logs, evidence and claims: what they hold, what is taken from them, and where each check ends."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from divulge import types
from divulge.errors import InputError
from divulge.types import Estimate, Evidence, Guarantee, PartialRecords, Records, Selection, TokenLogs, check_features

NAN = float("nan")
LARGE = 2.0**53


def refused(message):
    return pytest.raises(InputError, match=message)


def numbers(n=3, **options):
    return Records(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, [f"r{i}" for i in range(n)], **options)


def frame(n=3, start=0):
    return pl.DataFrame({"a": np.arange(start, start + n) * 1.0, "b": [["u", "v"][i % 2] for i in range(n)]})


class TestLabels:
    def test_y_is_read_as_classes_names_or_real_values(self):
        x = np.zeros((2, 1))
        assert Records(x, [0.5, 1.0]).y.tolist() == [0.5, 1.0]
        assert Records(x, [0.5, 1.0]).labels is None
        assert Records(x, [2, 0]).labels.tolist() == [2, 0]
        assert Records(x).labels is None
        named = Records(x, ["b", "a"], class_names=["b", "a"])
        assert (named.y.tolist(), named.class_names, named.has_class_order) == ([0, 1], ("b", "a"), True)
        sorted_names = Records(x, ["b", "a"])
        assert (sorted_names.class_names, sorted_names.has_class_order) == (("a", "b"), False)
        with refused("class_names: a class in y: '0.5' is unknown|whole-number labels"):
            Records(x, [0.5, 1.0], class_names=["0", "1"])

    def test_real_values_and_classes_are_read_as_each_other(self):
        x = np.zeros((3, 1))
        assert Records(x).with_real_values().y is None
        assert Records(x, [0, 1, 2]).with_real_values().y.dtype == np.float64
        spelled = Records(x, [-1, 3, -1]).with_real_values()
        assert (spelled.y.tolist(), spelled.class_names, spelled.has_class_order) == ([-1, 3, -1], None, False)
        with refused(r"^y: real values are needed, and these are names: \['a', 'b'\]"):
            Records(x, ["a", "b", "a"]).with_real_values()
        whole = Records(x, [-2.0, 2.0, 0.0]).with_class_labels()
        assert (whole.y.tolist(), whole.class_names) == ([0, 2, 1], ("-2", "0", "2"))
        for unchanged in (Records(x), Records(x, [0, 1, 2]), Records(x, [0.5, 1.0, 2.0])):
            assert unchanged.with_class_labels() is unchanged
        source = Records(x, ["a", "b", "a"], class_names=["b", "a"])
        copied = Records(x, [5, 6, 7]).with_y_of(source)
        assert (copied.y.tolist(), copied.class_names, copied.has_class_order) == ([1, 0, 1], ("b", "a"), True)
        assert Records(x).with_labels([2, 1, 0], ("p", "q", "r")).class_names == ("p", "q", "r")


class TestRecords:
    def test_rows_are_chosen_with_all_that_belongs_to_them(self):
        records = Records(frame(), [0, 1, 1], ["p", "q", "r"]).with_features([1.0, 2.0, 3.0], ["f"])
        for index in ([2, 0], np.array([2, 0])):
            chosen = records[index]
            assert chosen.y.tolist() == [1, 0]
            assert chosen.ids.tolist() == ["r", "p"]
            assert chosen.table["a"].to_list() == [2, 0]
            assert chosen.features.tolist() == [[3], [1]]
            assert chosen.x[:, 0].tolist() == [2, 0]
        assert len(records[np.array([True, False, True])]) == 2
        bare = Records(np.zeros((3, 2)))[1:]
        assert (bare.y, bare.ids, bare.table, bare.features) == (None, None, None, None)
        with refused("at least 1 entry"):
            records[np.zeros(3, bool)]

    def test_a_copy_shares_no_array(self):
        records = numbers().with_features([1.0, 2.0, 3.0])
        copied = records.copy()
        copied.x[:], copied.y[:] = 9, 1
        assert records.x[0, 0] == 0
        assert records.y.tolist() == [0, 1, 0]
        assert copied.features is None
        assert copied.ids.tolist() == records.ids.tolist()
        assert Records(np.zeros((1, 1))).copy().y is None

    def test_values_and_columns_are_replaced_in_numbers_and_in_frames(self):
        records = numbers()
        assert records.with_values(records.x + 1).x.tolist() == (records.x + 1).tolist()
        donor = numbers()
        changed = records.with_columns_of([1], donor, 2)
        assert changed.x.tolist() == [[0, 5], [2, 5], [4, 5]]
        assert records.x[0, 1] == 1
        table = Records(frame())
        moved = table.with_values(table.x + [10.0, 0.0, 0.0])
        assert moved.table["a"].to_list() == [10, 11, 12]
        other = table.with_columns_of(["b"], Records(frame(start=5)), 1)
        assert other.table["b"].to_list() == ["v"] * 3
        assert other.table["a"].to_list() == [0, 1, 2]
        assert other.x[:, 1:].tolist() == [[0, 1]] * 3
        texts = [f"text {i}" for i in range(40)]
        noted = Records(pl.DataFrame({"a": np.arange(40.0), "note": texts}))
        template = Records(pl.DataFrame({"a": np.arange(40.0), "note": texts[::-1]}))
        assert noted.with_values(noted.x).table["note"].to_list() == texts
        assert noted.with_values(noted.x, template).table["note"].to_list() == [texts[-1]] * 40
        assert noted.with_values(noted.x, Records(np.zeros((2, 2)))).table["note"].to_list() == texts

    def test_ids_columns_and_features_come_and_go(self):
        records = numbers()
        assert records.with_ids([3, 1, 2]).ids.tolist() == [3, 1, 2]
        assert records.without_ids().ids is None
        assert records.without_columns(["a"]) is records
        table = Records(frame())
        assert table.without_columns(["b"]).table.columns == ["a"]
        assert table.without_columns(["b"]).x.shape == (3, 1)
        assert records.with_encoder(table.encoder) is records
        assert records.with_table(table.table) is records
        assert table.with_table(Records(frame(start=7)).table).x[:, 0].tolist() == [7, 8, 9]
        named = records.with_features([[1.0, 2.0]] * 3, ["f", "g"])
        assert named.feature_names == ("f", "g")
        assert records.with_features([1.0, 2.0, 3.0]).feature_names is None
        framed = records.with_features(pl.DataFrame({"h": [1, 2, 3]}), ["f"])
        assert framed.feature_names == ("h",)
        assert named.with_features(None).feature_names is None
        assert named.with_features(None).features is None

    def test_parts_are_joined_by_what_all_of_them_have(self):
        first, second = numbers(2), numbers(3).with_ids(["s1", "s2", "s3"])
        joined = Records.concatenate([first, second])
        assert joined.y.tolist() == [0, 1, 0, 1, 0]
        assert joined.ids.tolist() == ["r0", "r1", "s1", "s2", "s3"]
        assert Records.concatenate([first, second.without_ids()]).ids is None
        assert Records.concatenate([first, Records(second.x)]).y is None
        with refused("identifiers must be unique"):
            Records.concatenate([first, first])
        real = Records.concatenate([Records(np.zeros((1, 1)), [0.5]), Records(np.zeros((1, 1)), [-1])])
        assert real.y.tolist() == [0.5, -1.0]
        with_features = [part.with_features(np.ones(len(part)), ["f"]) for part in (first, second)]
        assert Records.concatenate(with_features).feature_names == ("f",)
        assert Records.concatenate([with_features[0], second]).feature_names is None
        tables = [Records(frame()), Records(frame(start=3))]
        both = Records.concatenate(tables)
        assert both.table["a"].to_list() == [0, 1, 2, 3, 4, 5]
        assert both.encoder is not tables[0].encoder
        same = Records.concatenate([tables[0], tables[0]])
        assert same.encoder is tables[0].encoder
        assert same.x.tolist() == np.tile(tables[0].x, (2, 1)).tolist()
        numbers_too = Records.concatenate([Records(pl.DataFrame({"a": [1.0]})), Records(np.ones((1, 1)))])
        assert numbers_too.table is None
        labelled_alike = Records.concatenate([Records(frame().to_pandas()), Records(frame(start=3).to_pandas())])
        assert labelled_alike.table.to_native().index.tolist() == [0, 1, 2, 3, 4, 5]

    def test_digests_are_of_the_frame_or_of_the_array(self):
        assert len(set(numbers().digests())) == 3
        turned = Records(frame().select("b", "a"))
        assert turned.digests() == Records(frame()).digests()

    @pytest.mark.parametrize(
        ("records", "text"),
        [
            (numbers(), "Records(n=3, shape=(2,), classes=2)"),
            (Records(np.zeros((2, 1))), "Records(n=2, shape=(1,), unlabelled)"),
            (Records(np.zeros((2, 1)), [0.5, -2.25]), "Records(n=2, shape=(1,), y=-2.25..0.5)"),
            (Records(frame(), [0, 0, 0]), "Records(n=3, columns=('a', 'b'), classes=1)"),
        ],
    )
    def test_records_say_what_they_are(self, records, text):
        assert repr(records) == text

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (pl.DataFrame({"f": [1.0, None]}), "column 'f' holds missing values; features are numbers"),
            (pl.DataFrame({"f": ["a", "b"]}), r"column 'f' holds no numbers \(category\)"),
            (pl.DataFrame({"e": [1, 2], "f": [None, "b"]}), "column 'f' holds missing values"),
            ([1.0, 2.0, 3.0], r"an array \[2, d\] with d ≥ 1 is needed, one row per record, got \(3, 1\)"),
            (np.zeros((2, 0)), r"got \(2, 0\)"), (np.zeros((2, 1, 1)), r"got \(2, 1, 1\)"),
            ([[NAN], [1.0]], "1 values are NaN"),
        ],
    )  # fmt: skip
    def test_features_are_numbers_for_each_record(self, value, message):
        with refused(f"^features: .*{message}|^features: {message}"):
            check_features(value, "features", 2)

    def test_truth_values_are_features_too(self):
        values, names = check_features(pl.DataFrame({"f": [True, False], "g": [2, 3]}), "features", 2)
        assert (values.tolist(), names) == ([[1, 2], [0, 3]], ("f", "g"))


class TestPartialRecords:
    def test_what_is_not_known_is_not_read(self):
        partial = PartialRecords([[1.0, NAN], [NAN, 4.0]], [0, 1], [[True, False], [False, True]])
        assert partial.x.tolist() == [[1, 0], [0, 4]]
        assert len(partial) == 2
        assert PartialRecords([[1.0]], None, [True]).y is None
        with refused(r"^known: 2 records have no known value at all \(first: record 1\)"):
            PartialRecords(np.zeros((3, 2)), None, [[True, False], [False, False], [False, False]])
        with refused("^y: real values"):
            PartialRecords([[1.0]], [0.5], [True])
        with refused("NaN"):
            PartialRecords([[NAN, 1.0]], None, [True, True])


class TestTokenLogs:
    logs = TokenLogs([0, 2, 3, 6], -np.arange(6.0), -np.arange(12.0).reshape(2, 6), np.arange(6) % 2 == 0)

    def test_documents_have_their_own_tokens(self):
        assert len(self.logs) == 3
        assert self.logs.lengths.tolist() == [2, 1, 3]
        assert self.logs.document.tolist() == [0, 0, 1, 2, 2, 2]
        np.testing.assert_allclose(self.logs.mean(np.arange(6.0)), [0.5, 2, 4])
        part = self.logs.documents(slice(1, 3))
        assert part.offsets.tolist() == [0, 1, 4]
        assert part.target.tolist() == [-2, -3, -4, -5]
        assert part.references.tolist() == [[-2, -3, -4, -5], [-8, -9, -10, -11]]
        assert part.wrong.tolist() == [True, False, True, False]
        bare = TokenLogs([0, 2, 3], [-1, -2, -3]).documents(slice(0, 1))
        assert (bare.target.tolist(), bare.references, bare.wrong) == ([-1, -2], None, None)

    @pytest.mark.parametrize("offsets", [[1, 2], [0, 0, 2], [0, 2, 1]])
    def test_no_document_is_empty(self, offsets):
        with refused("^offsets: numbers that start at 0 and rise"):
            TokenLogs(offsets, [-1.0, -1.0])

    @pytest.mark.parametrize(("highest", "allowed"), [(0.0, True), (1e-3, True), (1.001e-3, False), (1.0, False)])
    def test_a_logarithm_of_a_probability_is_hardly_above_0(self, highest, allowed):
        if allowed:
            assert TokenLogs([0, 2], [-1.0, highest], [[-1.0, highest]]).target[1] == highest
            return
        with refused("^target: log-probabilities, at most 0"):
            TokenLogs([0, 2], [-1.0, highest])
        with refused("^references: log-probabilities, at most 0"):
            TokenLogs([0, 2], [-1.0, -1.0], [[-1.0, highest]])

    def test_logs_are_of_so_many_documents_and_tokens(self):
        assert types.check_token_logs(None, "tokens", 3) is None
        assert types.check_token_logs(self.logs, "tokens", 3) is self.logs
        with refused("^tokens: 2 documents are needed, got 3"):
            types.check_token_logs(self.logs, "tokens", 2)
        with refused(r"^tokens: a divulge\.types\.TokenLogs is needed"):
            types.check_token_logs([1], "tokens", 1)
        for arguments in ({"target": [-1.0]}, {"references": [[-1.0]]}, {"wrong": [True, True, False]}):
            with refused(f"^{next(iter(arguments))}: "):
                TokenLogs(**{"offsets": [0, 2], "target": [-1.0, -2.0]} | arguments)


class TestEvidence:
    def test_every_array_fits_the_others(self):
        evidence = Evidence(
            [1.0, 2.0], [[1.0, 2.0]] * 3, np.ones((3, 2), bool), [5.0], [[1.0]] * 3, [0.5, 0.25], [["u"]][0],
            [0, 1], [2], np.zeros((3, 1), bool),
        )  # fmt: skip
        assert repr(evidence) == "Evidence(n=2, m=3, z=1)"
        assert evidence.features.shape == (2, 1)
        assert evidence.population_features.shape == (1, 1)
        assert repr(Evidence([1.0])) == "Evidence(n=1, m=0, z=0)"
        assert len(evidence) == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"references": [[1.0]]}, "references: 2 columns are needed, got 1"),
            ({"trained_on": np.ones((2, 2), bool)}, r"trained_on: shape \(3, 2\) is needed"),
            (
                {"population_references": [[1.0]]},
                "population_references: 1 rows, but references has 3 reference models",
            ),
            ({"population_references": [[1.0, 2.0]] * 3}, "population_references: 1 columns are needed, got 2"),
            ({"population_trained_on": np.ones((3, 2), bool)}, r"population_trained_on: shape \(3, 1\) is needed"),
            ({"features": [1.0]}, r"features: 1 rows, but 2 are needed \(one per record\)"),
            ({"population_features": [1.0, 2.0]}, "population_features: 2 rows, but 1 are needed"),
            ({"labels": [0]}, "labels: 2 labels are needed"),
            ({"population_labels": [0, 1]}, "population_labels: 1 labels are needed"),
            ({"tokens": TestTokenLogs.logs}, "tokens: 2 documents are needed, got 3"),
            ({"population_tokens": TestTokenLogs.logs}, "population_tokens: 1 documents are needed, got 3"),
            ({"queries": [3]}, r"queries: a divulge\.Evidence is needed"),
            (
                {"queries": [Evidence([1.0, 2.0])]},
                r"without queries of its own is needed, got Evidence\(n=2, m=0, z=0\)",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused(self, arguments, message):
        fitting = {"target": [1.0, 2.0], "references": [[1.0, 2.0]] * 3, "population": [5.0]}
        with refused(f"^{message}|^queries: .*{message}"):
            Evidence(**fitting | arguments)

    def test_further_versions_are_of_the_same_shape_and_have_none_of_their_own(self):
        other = Evidence([3.0, 4.0])
        assert Evidence([1.0, 2.0], queries=[other, other]).queries == (other, other)
        nested = Evidence([3.0, 4.0], queries=[other])
        with refused("without queries of its own is needed"):
            Evidence([1.0, 2.0], queries=[other, nested])
        with refused("without queries of its own is needed"):
            Evidence([1.0, 2.0], queries=[Evidence([1.0])])


class TestClaims:
    @pytest.mark.parametrize(
        ("level", "assumes", "standing", "text"),
        [
            (0.05, (), "holds", "FDR ≤ 0.05"), (0.05, ("p", "q"), "holds", "FDR ≤ 0.05, assuming p and q"),
            (0.05, ("p",), "doubtful", "DOUBTFUL: FDR ≤ 0.05, only if p"),
            (0.05, (), "doubtful", "DOUBTFUL: FDR ≤ 0.05"),
            (0.05, ("p",), "void", "VOID: FDR ≤ 0.05 (an assumption fails: p)"), (0.05, (), "void", "VOID: FDR ≤ 0.05"),
            (1.0, ("p",), "holds", "nothing is proven about the FDR"),
            (1.5, ("p",), "void", "nothing is proven about the FDR"), (0.999, (), "holds", "FDR ≤ 0.999"),
        ],
    )  # fmt: skip
    def test_a_claim_reads_by_its_level_and_standing(self, level, assumes, standing, text):
        claim = Guarantee("FDR", level, assumes, standing)
        assert str(claim) == text
        assert claim.holds == (standing != "void")
        assert claim.says == (standing != "void" and level < 1)

    def test_a_claim_never_stands_better_than_its_cap(self):
        order = ("holds", "doubtful", "void")
        for standing in order:
            for cap in order:
                worse = order[max(order.index(standing), order.index(cap))]
                assert Guarantee("FDR", 0.05, (), standing).capped_at(cap).standing == worse
        with refused("^standing: 'fine' is unknown"):
            Guarantee("FDR", 0.05, (), "fine")

    def test_estimates_and_selections_say_their_numbers(self):
        estimate = Estimate(-0.00001, 0.25, 1.0, 0.9875, "delong")
        assert str(estimate) == "0.0000 [0.2500, 1.0000]"
        assert repr(estimate) == "Estimate(0.0000 [0.2500, 1.0000], 98.75 %, delong)"
        claim = Guarantee("FDR", 0.05, ())
        selection = Selection(np.array([True, False, True]), np.zeros(3), 0.5, None, claim)
        assert selection.count == 2
        assert selection.warnings == ()
        assert repr(replace(selection, threshold=1.0)) == "Selection(2 of 3 selected; FDR ≤ 0.05)"


@pytest.mark.parametrize("use", [lambda records: records[0], lambda records: records[np.int64(0)], np.asarray, list])
def test_records_are_not_taken_one_by_one(use):
    with pytest.raises(InputError, match=r"records\[0\]: a mask, positions or a slice is needed.*records\.x"):
        use(Records(np.zeros((3, 2)), [0, 1, 0]))


class TestRowLabels:
    """Columns of pandas are joined by position only where that is surely right."""

    X = pd.DataFrame({"a": [0.0, 1.0, 2.0]}, index=[2, 0, 1])

    @pytest.mark.parametrize("index", [[2, 0, 1], None])
    def test_equal_labels_fit_and_so_do_arrays(self, index):
        y = pd.Series([0, 1, 1], index=index) if index else np.array([0, 1, 1])
        assert Records(self.X, y).y.tolist() == [0, 1, 1]

    @pytest.mark.parametrize("index", [[0, 1, 2], [1, 0, 2], [7, 8, 9]])
    def test_the_same_labels_in_another_order_or_others_are_refused(self, index):
        with refused("x, y"):
            Records(self.X, pd.Series([0, 1, 1], index=index))
        with refused("ids"):
            Records(self.X, ids=pd.Series(["p", "q", "r"], index=index))
        with refused("features"):
            Records(self.X).with_features(pd.DataFrame({"f": [1.0, 2.0, 3.0]}, index=index))

    def test_labels_that_count_from_zero_fit_a_part_of_a_larger_frame(self):
        assert Records(self.X.set_axis([5, 0, 9]), pd.Series([0, 1, 1])).y.tolist() == [0, 1, 1]
