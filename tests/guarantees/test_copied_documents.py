"""Documents that stand several times among candidates, calibration or holdout count once in an identification."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import divulge as dv
from divulge.decisions.counts import Counts, has_unmatched_repeats
from score_audits import scored

LEVEL = 0.1


def texts(side, numbers):
    return [f"{side} {number} " + "word " * (number % 5) for number in numbers]


def selections(method, distinct, seed, *, with_texts=True):
    """A run without a member, in which documents stand several times: candidates, calibration."""
    rng = np.random.default_rng([seed, *distinct])
    (m, m_copies), (n, n_copies) = distinct[:2], distinct[2:]
    candidates, calibration = np.repeat(np.arange(m), m_copies), np.repeat(np.arange(n), n_copies)
    texts_by_set = {
        "candidate_texts": texts("asked", candidates),
        "calibration_texts": texts("unused", calibration),
    }
    return dv.identify(
        rng.normal(size=m)[candidates], rng.normal(size=n)[calibration], fdr=LEVEL, method=method,
        **texts_by_set if with_texts else {},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "distinct"), [("bh", (150, 1, 20, 8)), ("adaptive", (10, 40, 200, 1)), ("storey", (40, 5, 50, 4))]
)
def test_copies_bring_no_false_discoveries(method, distinct):
    """12 runs without a member at 10 %: fails by chance in .1 % of seeds; one by one up to half select some."""
    wrong = sum(selections(method, distinct, seed).count > 0 for seed in range(12))
    assert wrong <= binom.isf(0.001, 12, LEVEL)


def test_one_by_one_they_would():
    selection_runs = [selections("adaptive", (10, 40, 200, 1), seed, with_texts=False) for seed in range(30)]
    assert sum(selection.count > 0 for selection in selection_runs) > binom.isf(0.001, 30, LEVEL)
    assert all(any("several times" in text for text in selection.warnings) for selection in selection_runs)


def test_equal_records_count_once_in_a_selection_of_an_audit():
    """Candidates in groups of equal records, none of which was trained on: 30 audits at 10 %, as above."""
    wrong = one_by_one = 0
    for seed in range(30):
        rng = np.random.default_rng([7, seed])
        groups = np.repeat(np.arange(10), 40)
        audit = scored({"r": rng.normal(size=10)[groups]}, groups < 5, calibration={"r": rng.normal(size=200)})
        one_by_one += audit["r"].selection(fdr=LEVEL, method="adaptive").count > 0
        object.__setattr__(audit, "duplicate_groups", groups)
        result = audit["r"].selection(fdr=LEVEL, method="adaptive")
        assert len(result.selected) == len(result.p_values) == 400
        assert result.count % 40 == 0
        wrong += result.count > 0
    assert wrong <= binom.isf(0.001, 30, LEVEL) < one_by_one


def test_copies_are_selected_together_whatever_the_order():
    rng = np.random.default_rng(0)
    numbers = np.repeat(np.arange(150), rng.integers(1, 5, 150))
    scores = rng.normal(size=150)[numbers] + 4 * (numbers < 60) + rng.normal(size=len(numbers)) * 1e-9
    calibration, unused = rng.normal(size=500), texts("unused", range(500))
    candidate_texts = texts("asked", numbers)
    selection = dv.identify(scores, calibration, fdr=LEVEL, candidate_texts=candidate_texts, calibration_texts=unused)
    assert selection.count > 60
    assert all(
        len(set(selection.selected[numbers == number])) == len(set(selection.p_values[numbers == number])) == 1
        for number in range(150)
    )
    once = np.unique(numbers, return_index=True)[1]
    assert f"{len(numbers) - 150} candidates are of texts that others are of as well" in selection.warnings[-1]
    order = rng.permutation(len(scores))
    repeat = dv.identify(
        scores[order],
        calibration,
        fdr=LEVEL,
        candidate_texts=[candidate_texts[i] for i in order],
        calibration_texts=unused,
    )
    assert np.array_equal(repeat.selected, selection.selected[order])
    assert np.array_equal(repeat.p_values, selection.p_values[order])
    single = dv.identify(
        scores[once],
        calibration,
        fdr=LEVEL,
        candidate_texts=[candidate_texts[i] for i in once],
        calibration_texts=unused,
    )
    assert np.array_equal(selection.selected[once], single.selected)
    assert selection.usage.low == pytest.approx(single.usage.low, abs=1e-9)


def write(path, side, numbers, scores):
    pl.DataFrame(
        {"id": [f"{side}{i}" for i in range(len(numbers))], "text": texts(side, numbers), "loss": scores}
    ).write_csv(path)


def test_tables_keep_each_text_once(tmp_path, divulge):
    """Candidates, calibration and holdout with copies lead to what the distinct documents lead to, in any order."""
    rng = np.random.default_rng(1)
    sides = {
        "asked": (np.repeat(np.arange(80), 3), 3.0),
        "unused": (np.repeat(np.arange(120), 4), 0.0),
        "other": (np.repeat(np.arange(60), 5), 0.0),
    }
    selected = {}
    for name, (numbers, shift) in sides.items():
        scores = rng.normal(size=numbers.max() + 1)[numbers] + shift * (numbers < 30)
        order = rng.permutation(len(numbers))
        once = np.unique(numbers, return_index=True)[1]
        write(tmp_path / f"{name}.csv", name, numbers[order], scores[order])
        write(tmp_path / f"{name}-once.csv", name, numbers[once], scores[once])
    for suffix in ("", "-once"):
        words = [
            "identify",
            f"asked{suffix}.csv",
            "--calibration",
            f"unused{suffix}.csv",
            "--holdout",
            f"other{suffix}.csv",
        ]
        words = [str(tmp_path / word) if word.endswith(".csv") else word for word in words]
        code, _, err = divulge(
            *words, "--score", "loss:high", "--text", "text", "--fdr", "0.1", "--out", tmp_path / f"run{suffix}"
        )
        assert code == 0, err
        selected[suffix] = pl.read_parquet(tmp_path / f"run{suffix}" / "selection.parquet").sort("score")
    columns = ["score", "p", "q", "selected"]
    assert selected[""].select(columns).equals(selected["-once"].select(columns))
    assert 20 < selected[""]["selected"].sum() < 40
    summaries = [dv.load(tmp_path / f"run{suffix}").summary for suffix in ("", "-once")]
    assert [c.p_value for c in summaries[0].controls] == [c.p_value for c in summaries[1].controls]
    warning_text = " ".join(summaries[0].warnings)
    assert "360 calibration rows repeat the text of another and were left out" in warning_text
    assert "160 candidates rows repeat" in warning_text
    assert "240 holdout rows repeat" in warning_text


def test_repeated_scores_are_told_from_rounded_ones():
    """Copies of 2 to 20 against scores of 0 to 4 decimals, cut off or of few values, members or none, 3 to 900 rows."""
    for seed in range(15):
        rng = np.random.default_rng(seed)
        for n in (3, 20, 300, 900):
            for m in (3, 40, 500):
                shift = rng.choice([0, 1, 6])
                calibration, candidates = rng.normal(size=n), rng.normal(size=m) + shift
                for decimals in (0, 1, 2, 3, 4):
                    assert not has_unmatched_repeats(
                        Counts.empty(calibration.round(decimals)).add(candidates.round(decimals))
                    )
                for clipped in (np.maximum(calibration, 0.5), np.sign(calibration)):
                    assert not has_unmatched_repeats(Counts.empty(clipped).add(candidates))
    rng = np.random.default_rng(0)
    for copies in (2, 5, 20):
        calibration = np.repeat(rng.normal(size=40), copies)
        assert has_unmatched_repeats(Counts.empty(calibration).add(rng.normal(size=200)))
    assert not has_unmatched_repeats(
        Counts.empty(np.append(rng.normal(size=99), 0.0).repeat(1)).add(rng.normal(size=200))
    )
