"""`divulge weights` and `divulge reconstruct`, as a user runs them."""

import json

import numpy as np
import polars as pl
import pytest

from divulge import datafiles, margin, signals
from divulge.auditing import weights


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("weights"), np.random.default_rng(0)

    def draw(n):
        y = rng.integers(0, 2, n)
        x = rng.normal(size=(n, 50))
        x[:, 0] += 2 * y - 1
        return x, y

    x, y = draw(20)
    net = margin.train(x, 2 * y - 1, width=200, target_margin=100.0).net
    net.to_safetensors(folder / "net.safetensors")
    fresh, fresh_y = draw(80)
    np.savez(folder / "candidates.npz", x=np.vstack([x, fresh]), y=np.append(y, fresh_y), member=np.arange(100) < 20,
             ids=[f"r{i:03}" for i in range(100)])  # fmt: skip
    unseen, unseen_y = draw(250)
    np.savez(folder / "unseen.npz", x=unseen, y=unseen_y)
    np.savez(folder / "leaked.npz", x=x[:1])
    line = margin.solve([[-2.0], [-0.5], [0.5], [2.0]], [-1, 1, 1, -1]).net
    line.to_safetensors(folder / "line.safetensors")
    return folder


def test_members_are_selected_with_guarantees(divulge, files):
    code, out, err = divulge(
        "weights", files / "net.safetensors", "--candidates", files / "candidates.npz", "--nonmembers",
        files / "unseen.npz", "--margin", 100, "--out", files / "report.html", "--json",
    )  # fmt: skip
    assert code == 0, err
    content = json.loads(out)
    for rule in ("FPR ≤ 0.01", "FDR ≤ 0.05"):
        chosen = np.array(content["decisions"][rule]["selected"])
        assert (chosen < 20).sum() >= 16
        assert (chosen >= 20).sum() <= 4
    assert "nothing is proven" in content["decisions"]["margin band"]["warnings"][0]
    page = (files / "report.html").read_text()
    assert "Membership from weights" in page
    assert all(group in page for group in ("members", "fresh candidates", "known non-members"))


def test_tables_say_the_same_as_arrays_whatever_the_order_of_their_columns(divulge, files):
    for name in ("candidates", "unseen"):
        arrays = np.load(files / f"{name}.npz")
        columns = {f"x{i}": arrays["x"][:, i] for i in range(50)} | {"outcome": arrays["y"]}
        frame = pl.DataFrame(columns | {key: arrays[key] for key in ("member", "ids") if key in arrays})
        if name == "unseen":
            frame = frame.select(reversed(frame.columns))
        frame.write_csv(files / f"{name}.csv", separator=";")
    outputs = []
    for ending, column_options in (("npz", []), ("csv", ["--label", "outcome", "--id", "ids"])):
        arguments = [
            "--candidates",
            files / f"candidates.{ending}",
            "--nonmembers",
            files / f"unseen.{ending}",
            *column_options,
        ]
        options = [*arguments, "--margin", 100, "--json"]
        if ending == "csv":
            code, _, err = divulge("weights", files / "net.safetensors", *options)
            assert code == 2
            assert "'ids'" in err  # which the non-members lack
            options = [each if each != files / "unseen.csv" else files / "named.csv" for each in options]
            unseen = pl.read_csv(files / "unseen.csv", separator=";").with_row_index("ids")
            unseen.write_csv(files / "named.csv")
        code, out, err = divulge("weights", files / "net.safetensors", *options)
        assert code == 0, err
        outputs.append(json.loads(out))
    assert outputs[0]["decisions"] == outputs[1]["decisions"]
    assert outputs[0]["called"] == outputs[1]["called"]


def test_a_leaked_record_tells_the_margin(files):
    net = margin.ShallowReLU.from_safetensors(files / "net.safetensors")
    rows, leaked = (datafiles.read_named_rows(files / f"{name}.npz") for name in ("candidates", "leaked"))
    examined = weights.examine_weights(net, rows, weights.ExaminationRules(), leaked=leaked)
    assert examined.decisions


def test_reconstruction(divulge, files):
    arguments = ["--out", files / "line.html", "--json"]
    code, out, err = divulge("weights", files / "line.safetensors", "--margin", 1, *arguments)
    assert code == 0, err
    typed = json.loads(out)
    assert typed["standing"] == "conditional"
    assert not any(typed["proven"])
    assert "if the margin is 1" in (files / "line.html").read_text()
    margin.ShallowReLU.from_safetensors(files / "line.safetensors").to_safetensors(files / "recorded.safetensors", 1.0)
    code, out, err = divulge("weights", files / "recorded.safetensors", *arguments)
    assert code == 0, err
    content = json.loads(out)
    assert content["needed"] == typed["needed"]
    assert np.abs(np.subtract.outer(content["candidates"], [-2.0, -0.5, 0.5, 2.0])).min(axis=1).max() < 1e-4
    # The two in the middle are the ends of a stretch on the margin: found, but points between would do as well.
    assert content["proven"] == [True, False, False, True]
    assert content["guaranteed"] == 2
    page = (files / "line.html").read_text()
    assert "Reconstruction from weights" in page
    assert "Training points read off the weights" in page
    assert all(mark in page for mark in ("break-point", "crossing", "candidate"))


def test_members_are_named(divulge, files, tmp_path):
    arguments = ["--candidates", files / "candidates.npz", "--nonmembers", files / "unseen.npz"]
    code, out, err = divulge(
        "weights",
        files / "net.safetensors",
        *arguments,
        "--out",
        tmp_path / "r.html",
        "--selection",
        tmp_path / "s.parquet",
    )
    assert code == 0, err
    chosen = pl.read_parquet(tmp_path / "s.parquet")
    assert len(chosen) == 100
    member_names = chosen.filter("FDR ≤ 0.05")["id"].to_list()
    assert sum(int(name[1:]) < 20 for name in member_names) >= 16
    page = (tmp_path / "r.html").read_text()
    assert all(name in page for name in member_names)
    assert sum(name in out for name in member_names) == min(len(member_names), 20)
    assert "Training records recognised" in page


def test_nothing_is_proven_of_records_that_were_not_trained_on(divulge, files, tmp_path):
    """5 % of such runs may call a member: the one drawn here calls none."""
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "fresh.npz", x=rng.normal(size=(100, 50)))
    np.savez(tmp_path / "others.npz", x=rng.normal(size=(250, 50)))
    page = tmp_path / "r.html"
    code, out, err = divulge(
        "weights", files / "net.safetensors", "--candidates", tmp_path / "fresh.npz", "--nonmembers",
        tmp_path / "others.npz", "--margin", 100, "--out", page,
    )  # fmt: skip
    assert code == 0, err
    assert "No leak is proven" in out
    assert "Leak found" not in page.read_text()
    assert "≤ 1" not in out + page.read_text().split("<script")[0]


def test_a_network_that_is_no_kkt_point_proves_nothing(divulge, files, tmp_path):
    rng = np.random.default_rng(0)
    margin.ShallowReLU(rng.normal(size=(9, 1)), rng.normal(size=9), rng.normal(size=9)).to_safetensors(
        tmp_path / "any.safetensors"
    )
    page = tmp_path / "r.html"
    code, out, err = divulge("weights", tmp_path / "any.safetensors", "--margin", 0.5, "--out", page)
    assert code == 0, err
    assert "Nothing is proven" in out
    assert "not at a KKT point with the margin 0.5" in " ".join(out.split())
    assert "Leak found" not in page.read_text()
    assert "Nothing is proven" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["weights", "line.safetensors"], "reconstruction needs the margin"),
        (["weights", "line.safetensors", "--margin", "-1"], "margin: must lie in"),
        (["weights", "net.safetensors", "--margin", "1"], "the network takes 50"),
        (["weights", "none.safetensors", "--margin", "1"], "no such file"),
        (["weights", "line.safetensors", "--candidates", "candidates.npz"], "records have 50 values"),
    ],
)
def test_user_errors_exit_with_2(divulge, files, arguments, message):
    code, _, err = divulge(*(files / word if "." in word and "-" not in word else word for word in arguments))
    assert code == 2, err
    assert message in err


class TestSignals:
    """The three signals, larger = more like a member."""

    def test_members_score_higher(self):
        from divulge.types import Records

        rng = np.random.default_rng(1)
        y = np.arange(120) % 2
        x = rng.normal(size=(120, 100))
        net = margin.train(x[:20], 2 * y[:20] - 1, width=100, target_margin=100.0)
        records = Records(x, y)
        for signal in (
            signals.margin.MarginAbs(),
            signals.margin.MarginBand(float(net.margin[-1])),
            signals.margin.KKTMultipliers(),
        ):
            values = signal.measure(net.net, records)
            assert np.median(values[:20]) > np.quantile(values[20:], 0.95), signal.name

    def test_labels_may_be_signs_or_classes(self):
        net = margin.ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        classes_margin, signs_margin = (signals.margin.margin_abs(net, [[1.0], [2.0]], y) for y in ([0, 1], [-1, 1]))
        np.testing.assert_array_equal(classes_margin, signs_margin)
        with pytest.raises(ValueError, match="two classes are needed"):
            signals.margin.labels_to_signs([0, 2], 2)

    def test_a_target_without_weights_is_refused(self):
        with pytest.raises(ValueError, match="its weights are needed"):
            signals.margin.trained_network(object())
