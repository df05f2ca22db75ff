"""The most exposed records: who is shown, in which order, and how many others score as high."""

import dataclasses

import numpy as np
import pytest

import divulge as dv
from divulge.auditing import audit_page as page
from divulge.report.page import Collapsible
from divulge.results import HeatStrip
from score_audits import scored, sizes


def audit(members, exhibits, nonmember_scores=(-1.0, -2.0, -3.0), **changes):
    scores = np.r_[np.arange(members, dtype=float), nonmember_scores]
    result = scored({"loss": scores}, sizes(members, len(nonmember_scores)))
    return dataclasses.replace(result, exhibits=exhibits, **changes)


@pytest.mark.parametrize("members", [3, 6, 7, 12, 15])
def test_the_members_with_the_highest_scores_are_shown_best_first(members):
    section = page.exposed_section(audit(members, {i: f"text {i}" for i in range(members)}), "loss")
    open_exhibits = [exhibit for block in section.blocks[:1] for exhibit in block.exhibits]
    folded = [block for block in section.blocks if isinstance(block, Collapsible)]
    folded_exhibits = [exhibit for fold in folded for exhibit in fold.blocks[0].exhibits]
    expected = list(range(members))[::-1][:12]
    assert [shown_exhibit.text for shown_exhibit in (*open_exhibits, *folded_exhibits)] == [
        f"text {i}" for i in expected
    ]
    assert len(open_exhibits) == min(members, 6)
    assert [fold.title for fold in folded] == ([f"{len(expected) - 6} more"] if len(expected) > 6 else [])


def test_non_members_and_what_was_not_kept_are_not_shown():
    section = page.exposed_section(audit(5, {0: "zero", 3: "three", 6: "a non-member"}), "loss")
    assert [exhibit.text for exhibit in section.blocks[0].exhibits] == ["three", "zero"]
    assert page.exposed_section(audit(5, {}), "loss").blocks == []


def test_pictures_are_shown_all_at_once_and_rows_of_numbers_as_numbers():
    rng = np.random.default_rng(0)
    pictures = page.exposed_section(audit(12, {i: rng.random((8, 8)) for i in range(12)}), "loss").blocks
    assert len(pictures) == 1
    assert all(exhibit.png for exhibit in pictures[0].exhibits)
    rows = page.exposed_section(audit(2, {1: np.array([1.0, 0.123456])}), "loss").blocks
    assert rows[0].exhibits[0].text == "1, 0.1235"


def test_captions_name_record_class_and_score_and_marks_are_explained():
    labels = np.array([7, 8, 9, 7, 8, 9])
    strips = {2: HeatStrip((2,), (3.0,), "chance")}
    section = page.exposed_section(audit(3, {2: "to be", 1: "or not"}, labels=labels, heat=strips), "loss")
    assert [exhibit.caption for exhibit in section.blocks[0].exhibits] == ["2, class 9, score 2", "1, class 8, score 1"]
    assert "the likelier the target finds it than chance does." in section.blocks[0].note
    plain = page.exposed_section(audit(3, {2: "to be"}), "loss").blocks[0]
    assert plain.exhibits[0].caption == "2, score 2"
    assert "The deeper a token" not in plain.note


def test_records_without_ids_are_named_by_the_row_in_which_they_were_given():
    """Also where rows before them were left out, as they stand in both sets."""
    rng = np.random.default_rng(0)
    members, nonmembers, population = (dv.Records(rng.normal(size=(n, 2)), np.arange(n) % 2) for n in (110, 120, 60))
    members.x[4], nonmembers.x[0] = 7.0, 7.0
    logits = lambda x: np.stack([x[:, 0], np.zeros(len(x))], axis=1)  # noqa: E731
    result = dv.audit(
        logits, members=members, nonmembers=nonmembers, population=population, recipes=["loss"], fpr=(0.05,),
        duplicates="drop", seed=0,
    )  # fmt: skip
    assert "row 1 of nonmembers" not in result.ids or "row 5 of members" not in result.ids
    assert len(result.ids) < 230
    for name, score in zip(result.ids, result["loss"].scores, strict=True):
        row, given = name.removeprefix("row ").split(" of ")
        records = {"members": members, "nonmembers": nonmembers}[given]
        margin = records.x[int(row) - 1, 0] * (1 - 2 * records.y[int(row) - 1])
        assert score == pytest.approx(-np.log1p(np.exp(-margin)), abs=1e-9)
