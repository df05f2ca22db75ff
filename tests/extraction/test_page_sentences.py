"""Every sentence of the report of an extraction, in each of its readings."""

import dataclasses

import numpy as np
import pytest

from divulge import provenance
from divulge.extraction import extraction_page
from divulge.extraction.completions import Completions, MeasuredDocuments
from divulge.extraction.result import EXTRACTION
from divulge.report.markdown import render
from divulge.report.page import Collapsible, Gallery, Table
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.results import ExtractionRate, ExtractionSummary
from divulge.types import Estimate

TONES = {"extracted": "leak", "not shown": "plain", "undecided": "undecided", "confounded": "void"}


def estimate(value, low, high):
    return Estimate(value, low, high, 0.975, "the method")


def rate(method, members, nonmembers, low):
    change = estimate(members - nonmembers, low, members)
    return ExtractionRate(method, estimate(members, members / 2, 0.5), estimate(nonmembers, 0.0, 0.2), change, 3, 1)


def summary(answer="extracted", **changes):
    run_summary = ExtractionSummary(
        verdict="The verdict.",
        tone=TONES[answer],
        answer=answer,
        model="a model",
        members=20,
        nonmembers=1500,
        prefix=8,
        suffix=16,
        place="start",
        decoding="temperature 1",
        draws=(100,),
        near=0.9,
        confidence=0.95,
        rates=(rate("verbatim, greedy", 0.3, 0.1, 0.05), rate("likely within 100 draws", 0.4, 0.1, 0.15)),
        smallest=4,
        extracted=8,
        with_reference=False,
        blind=0.5,
        signs=(),
        confounded=False,
        seed=3,
        warnings=(),
        environment=provenance.collect_environment(),
    )
    return dataclasses.replace(run_summary, **changes)


def measured(count=8, texts=True, reference=False):
    log_p = np.r_[0.0, -np.inf, -np.linspace(1, 60, count - 2)]
    verbatim = np.arange(count) == 0
    continuations = tuple(f"said {i}" for i in range(count)) if texts else None
    completions = Completions(log_p, verbatim, np.arange(count) + 1, np.linspace(1, 0, count), continuations)
    return MeasuredDocuments(
        np.array([f"d{i}" for i in range(count)]),
        completions,
        Completions(log_p - 1, ~verbatim, completions.longest, completions.overlap) if reference else None,
        tuple(f"prompt {i}" for i in range(count)) if texts else None,
        tuple(f"suffix {i}" for i in range(count)) if texts else None,
    )


def page(answer="extracted", members=None, **changes):
    run = extraction_page.ExtractionRun(summary(answer, **changes), members or measured(), measured())
    return build_page(EXTRACTION, run)


@pytest.mark.parametrize(
    ("answer", "heading"),
    [
        ("extracted", "Training documents are given back"),
        ("not shown", "Extraction is not shown"),
        ("undecided", "Too little data to say"),
        ("confounded", "Nothing can be said of the model"),
    ],
)
def test_heading_advice_and_pictures_follow_the_answer(answer, heading):
    rendered = page(answer)
    assert rendered.heading == heading
    assert (ADVICE_TITLE in [section.title for section in rendered.sections]) == (answer == "extracted")
    method = {"extracted": "likely within 100 draws", "not shown": "verbatim, greedy"}.get(answer)
    assert bool(rendered.pictures) == (method is not None)
    for dots, set_name in zip(rendered.pictures, ("members", "non-members"), strict=bool(method)):
        assert f" {set_name} (" in dots.caption
        assert dots.caption.endswith(f"are given back ({method})")
    if method:
        assert [dots.value for dots in rendered.pictures] == [40 if answer == "extracted" else 30, 10]


@pytest.mark.parametrize(
    ("prefix", "place", "sentence", "fact"),
    [
        (8, "start", "(its first 8 tokens)", "8 tokens, at the start"),
        (1, "end", "(those before its end, 1 token)", "1 token, at the end"),
        (0.25, "random", "(those at some place, 25 % of the document)", "25 % of the document, at a random place"),
    ],
)
def test_what_the_adversary_holds_is_said_as_it_was_asked(prefix, place, sentence, fact):
    rendered = page(prefix=prefix, place=place)
    assert sentence in rendered.details[0]
    assert rendered.facts["prompt"] == fact


def test_what_is_not_counted_is_said_with_a_reference_model_and_only_then():
    without, with_one = summary(), summary(with_reference=True)
    for run_summary, reference in ((without, None), (with_one, measured(reference=True))):
        run = extraction_page.ExtractionRun(run_summary, reference or measured(), measured())
        text = render(build_page(EXTRACTION, run))
        assert ("No single document is shown to be memorised" in text) == (reference is None)
        assert ("Documents that the reference model gives back as well are not counted" in text) == bool(reference)
        curve = extraction_page._curve(run_summary, reference or measured(), measured())
        assert ("members, by the reference" in str(curve)) == bool(reference)
    assert extraction_page.facts(without)["reference model"] == "none"
    assert extraction_page.facts(with_one)["reference model"] == "what it gives back, too, is not counted"
    columns, rows = extraction_page.rate_rows(with_one)
    assert columns[-1] == "by the reference, too"
    assert [row[-1] for row in rows] == ["3 + 1", "3 + 1"]
    assert extraction_page.rate_rows(without)[0][-1] == "difference"
    assert rows[0][1] == "30.0 % [15.0, 50.0]"


@pytest.mark.parametrize(
    ("blind", "confounded", "expected"),
    [
        (None, False, "not seen (too few documents for a blind baseline)"),
        (0.5, False, "not seen (blind baseline: p = 0.5)"),
        (1e-4, True, "yes (blind baseline: p = 0.0001)"),
    ],
)
def test_whether_the_sets_are_told_apart_without_the_model_is_a_fact(blind, confounded, expected):
    assert (
        extraction_page.facts(summary(blind=blind, confounded=confounded))["told apart without the model"] == expected
    )


def test_confidences_of_one_and_of_all_differences_are_told_apart():
    assert "Each difference holds with 97.5 % confidence, all together with 95 %" in render(page())


def test_losses_per_token_are_those_of_each_set():
    finite = dataclasses.replace(measured(), target=dataclasses.replace(measured().target, log_p=np.full(8, -32.0)))
    assert page(members=finite).facts["loss per token of the suffixes"].startswith("members 2.00, non-members inf")


def test_warnings_have_a_section_where_there_are_some():
    assert "## Warnings\n\nThe first." in render(page(warnings=("the first",)))
    assert "Warnings" not in render(page())


def test_the_easiest_documents_come_first_and_their_numbers_are_said_in_words():
    columns, rows = extraction_page.most_extractable_rows(measured(reference=True))
    row_of = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    assert rows[0][0] == "d0"
    assert rows[-1][0] == "d1"
    assert row_of["d0"]["verbatim"] == "yes"
    assert row_of["d0"]["verbatim, reference"] == "no"
    assert row_of["d2"]["verbatim"] == "no"
    assert row_of["d1"]["log10 p"] == "never drawn"
    assert row_of["d1"]["draws for an even chance"] == "never"
    assert row_of["d0"]["draws for an even chance"] == "1"
    assert row_of["d2"]["log10 p"] == f"{-1 / np.log(10):.2f}"
    assert row_of["d7"]["draws for an even chance"] == f"{np.log(2) * np.exp(60):.0e}"
    assert "log10 p, reference" not in extraction_page.most_extractable_rows(measured())[0]


@pytest.mark.parametrize("count", [5, 6, 7, 15])
def test_documents_are_shown_as_they_are_and_long_lists_folded(count):
    blocks = extraction_page._most_extractable_blocks(measured(count))
    exhibits, folded = blocks[1].exhibits, [block for block in blocks if isinstance(block, Collapsible)]
    assert len(exhibits) == min(count, 6)
    assert bool(folded) == (count > 6)
    if folded:
        assert folded[0].title == f"{min(count, 12) - 6} more"
    assert exhibits[0].caption == "d0: given back verbatim"
    assert exhibits[0].text == "[prompt] prompt 0\n[document] suffix 0\n[model] said 0"
    assert exhibits[1].caption == "d2"


def test_without_texts_there_is_a_table_only_and_long_texts_are_cut():
    (only,) = extraction_page._most_extractable_blocks(measured(texts=False))
    assert isinstance(only, Table)
    assert any(isinstance(block, Gallery) for block in extraction_page._most_extractable_blocks(measured()))
    for length in (1999, 2000, 2001):
        document_line = extraction_page._format_texts("p", "s" * length, "m").splitlines()[1]
        assert document_line == "[document] " + "s" * min(length, 2000) + "…" * (length > 2000)


def test_the_curve_counts_documents_whose_even_chance_takes_so_many_draws():
    curve = extraction_page._reached_curve(measured().target)
    assert curve.y[0] == pytest.approx(1 / 8)  # the one of probability one
    for index in (10, 60, 120):
        expected = np.mean(1 - (1 - np.exp(measured().target.log_p)) ** (curve.x[index] * (1 + 1e-6)) >= 0.5)
        assert curve.y[index] == pytest.approx(expected, abs=1 / 8 + 1e-9)


def test_draws_are_drawn_on_a_logarithmic_axis():
    spec = extraction_page._curve(summary(), measured(), measured()).spec
    scales = [layer["encoding"]["x"]["scale"]["type"] for part in spec["layer"] for layer in part["layer"]]
    assert set(scales) == {"log"}
