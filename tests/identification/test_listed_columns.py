"""Lists say what the input says of each record, and are written as its file is."""

import numpy as np
import polars as pl


def test_a_german_table_gives_a_german_list_with_its_titles(tmp_path, divulge, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, scores in {
        "candidates": np.r_[rng.normal(1, 0.2, 40), rng.normal(3, 0.2, 40)],
        "unused": rng.normal(3, 0.2, 200),
    }.items():
        rows = [f"{name}{i};Brief {i};{f'{score:.4f}'.replace('.', ',')}" for i, score in enumerate(scores)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["Nr;Titel;loss", *rows]) + "\n")
    asked = ["candidates.csv", "--calibration=unused.csv", "--score=loss:low", "--id=Nr", "--fdr=0.2", "--out=run"]
    assert divulge("identify", *asked)[0] == 0
    assert divulge("report", "run", "--format=csv")[0] == 0
    for file in ("selected.csv", "records.csv"):
        listed = pl.read_csv(f"run/{file}", separator=";", decimal_comma=True)
        assert set(listed["id"]) >= {f"candidates{i}" for i in range(40)}
        assert listed["Titel"].to_list() == [f"Brief {key.removeprefix('candidates')}" for key in listed["id"]]
        assert listed["loss"].dtype == pl.Float64
    assert divulge("identify", *asked, "--no-show-records", "--overwrite")[0] == 0
    assert "Titel" not in (tmp_path / "run" / "selected.csv").read_text()
