"""Extraction from a model that knows some documents by heart, and from models that never saw them."""

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import extraction
from divulge.extraction.extraction_page import most_extractable
from divulge.targets import Continuations, Decoding
from extraction.conftest import WORDS, sentences

MEMBERS, NONMEMBERS = sentences(24, 0), sentences(40, 1)
LENGTHS = {"prefix": 8, "suffix": 6}
COLUMNS = ("log_p", "verbatim", "longest", "overlap")


@pytest.fixture(scope="module")
def trained(language):
    return language(MEMBERS, 140)


@pytest.fixture(scope="module")
def untrained(language):
    return language(sentences(24, 2), 8, seed=1)


@pytest.fixture(scope="module")
def measurement(trained):
    return extraction.measure(trained, MEMBERS, dv.Records(NONMEMBERS, ids=[f"n{i}" for i in range(40)]), **LENGTHS)


class Coins:
    """A language of two words; each document is completed with a probability of its own."""

    length, start = 100, ()

    def __init__(self, p):
        self.p = p

    def encode(self, texts):
        return [tuple(map(int, text.split())) for text in texts]

    def decode(self, tokens):
        return " ".join(f"{token:03d}" for token in tokens)

    def continuations(self, prefixes, suffixes, *, decoding=None):
        p = np.array([self.p(prefix[0]) for prefix in prefixes])
        with np.errstate(divide="ignore"):
            return Continuations(np.arange(len(p) + 1), np.log(p), p > 0.5)

    def greedy(self, prefixes, tokens):
        return [(0,) * tokens for _ in prefixes]

    def key(self):
        return {"model": "coins"}


def numbered(start, count):
    """Documents of a number of their own and of one word."""
    return [f"{number} 1" for number in range(start, start + count)]


class TestMemorised:
    def test_members_are_extracted_and_nonmembers_are_not(self, measurement):
        assert measurement.finding.answer == "extracted"
        assert measurement.finding.tone == "leak"
        verbatim = measurement.rates[0]
        assert verbatim.members.value > 0.5
        assert verbatim.nonmembers.value < 0.1
        assert verbatim.difference.low > 0
        assert set(measurement.extracted) <= {f"row {number}" for number in range(1, 25)}
        assert len(measurement.extracted) >= 12
        assert "Training documents can be extracted" in str(measurement)

    def test_probabilities_are_products_of_single_tokens(self, measurement, trained):
        import torch

        for ids, log_p in zip(trained.encode(MEMBERS), measurement.members.target.log_p[:6], strict=False):
            total = 0.0
            for i in range(8, 14):
                with torch.no_grad():
                    logits = trained.model(torch.tensor([[0, *ids[:i]]])).logits[0, -1].double()
                total += float(logits.log_softmax(-1)[ids[i]])
            assert log_p == pytest.approx(total, abs=1e-3)

    def test_a_greedy_text_is_what_is_compared(self, measurement, trained):
        for i in range(len(measurement.nonmembers)):
            ids = trained.encode([NONMEMBERS[i]])[0]
            continuation = trained.greedy([(0, *ids[:8])], 6)[0]
            assert measurement.nonmembers.target.verbatim[i] == (continuation == ids[8:14])
            assert measurement.nonmembers.target.texts[i] == trained.decode(continuation)
            assert (
                measurement.nonmembers.target.overlap[i]
                == extraction.completions.likeness(continuation, ids[8:14]).overlap
            )

    def test_a_reference_that_gives_the_same_back_takes_it_away(self, trained, untrained):
        itself = extraction.measure(trained, MEMBERS, NONMEMBERS, reference=trained, **LENGTHS)
        assert itself.finding.answer == "undecided"  # none of those that could come back could count
        assert "members that the reference does not give back" in itself.verdict
        assert itself.rates[0].members.value == 0
        assert itself.rates[0].reference_counts[0] > 12
        result = extraction.measure(trained, MEMBERS, NONMEMBERS, reference=untrained, **LENGTHS)
        assert result.finding.answer == "extracted"
        assert "not by the reference" in result.verdict
        assert (result.members.reference.log_p < result.members.target.log_p).all()

    def test_nothing_is_said_of_a_model_that_never_saw_them(self, untrained):
        result = extraction.measure(untrained, MEMBERS, NONMEMBERS, **LENGTHS)
        assert result.finding.answer == "not shown"
        assert result.extracted.size == 0
        assert 0 < result.finding.smallest < 24

    def test_narrow_decoding_draws_more_of_what_is_known(self, measurement, trained):
        narrow = extraction.measure(
            trained, MEMBERS, NONMEMBERS, decoding=Decoding(temperature=0.5, top_k=5), **LENGTHS
        ).members.target
        wide = measurement.members.target
        assert (narrow.log_p[wide.verbatim] >= wide.log_p[wide.verbatim] - 1e-4).all()
        assert np.array_equal(narrow.verbatim, wide.verbatim)


class TestVerdict:
    def test_false_alarms_are_rarer_than_promised(self, language):
        """A model that never saw the documents but knows their forms, 20 random divisions into two sets.

        Below half an alarm is expected; 5 or more have a chance below 0.02 %.
        """
        forms = sentences(4, 50, words=12)
        fresh = np.random.default_rng(1)

        def written(count, seed):
            heads = sentences(count, seed, words=4)
            endings = [forms[fresh.integers(4)] if fresh.random() < 0.5 else " ".join([head] * 3) for head in heads]
            return [f"{head} {after}" for head, after in zip(heads, endings, strict=True)]

        model = language(written(48, 60), 110)
        unseen = written(80, 61)
        result = extraction.measure(model, unseen[:40], unseen[40:], **LENGTHS)
        assert 0.02 < result.rates[0].members.value < 0.9  # they can be completed, but not from memory
        sides = result.members.target, result.nonmembers.target
        columns = [np.concatenate([getattr(side, name) for side in sides]) for name in COLUMNS]
        alarms = 0
        for seed in range(20):
            rows = np.random.default_rng(seed).permutation(len(columns[0]))
            inside, outside = (
                extraction.MeasuredDocuments(part, extraction.Completions(*(column[part] for column in columns)))
                for part in np.array_split(rows, 2)
            )
            divided = dataclasses.replace(result, members=inside, nonmembers=outside)
            alarms += any(rate.difference.low > 0 for rate in divided.rates)
        assert alarms < 5

    def test_boilerplate_is_not_called_memorised(self):
        """A model that completes half of all documents, seen or not."""
        result = extraction.measure(
            Coins(lambda at: at % 2 * 0.9), numbered(0, 60), numbered(60, 60), prefix=1, suffix=1
        )
        assert result.rates[0].members.value == 0.5
        assert result.finding.answer == "not shown"
        assert result.extracted.size == 0

    def test_too_few_documents_say_so(self):
        result = extraction.measure(Coins(lambda at: at < 2), numbered(0, 2), numbered(2, 2), prefix=1, suffix=1)
        assert result.finding.answer == "undecided"
        assert "Too little data" in result.verdict
        assert result.finding.smallest is None
        assert result.blind is None

    def test_one_document_a_side(self):
        result = extraction.measure(Coins(lambda at: 1.0), numbered(0, 1), numbered(1, 1), prefix=1, suffix=1)
        assert result.finding.answer == "undecided"

    def test_sets_that_differ_without_the_model_are_confounded(self, trained):
        respelled = [text.replace("ba", "xo").replace("ke", "zu") for text in NONMEMBERS]
        result = extraction.measure(trained, MEMBERS, respelled, **LENGTHS)
        assert result.finding.answer == "confounded"
        assert result.finding.tone == "doubt"
        assert result.extracted.size == 0
        assert "need not come from training" in result.verdict

    def test_a_year_gives_the_split_away_before_anything_is_said_of_the_model(self):
        """A model that completes what is old, seen or not; too few documents for a classifier to tell."""
        old, new = ([f"{year} {i}" for i in range(100, 108)] for year in (1950, 2020))
        result = extraction.measure(Coins(lambda at: float(at < 2000)), old, new, prefix=1, suffix=1)
        assert result.blind is None
        assert result.finding.answer == "confounded"
        assert "the newest year named is 1950 in the median of the members" in result.verdict
        assert result.warnings[0].startswith("members and non-members differ in more than membership: ")
        assert result.summary().confounded
        unsaid = extraction.measure(
            Coins(lambda at: float(at < 2000)), old, new, prefix=1, suffix=1, show_records=False
        )
        assert unsaid.finding.answer == "confounded"
        assert "1950" not in str(unsaid) + " ".join(unsaid.warnings)

    def test_easier_nonmembers_do_not_clear_what_members_give_back(self):
        """A third of the members come back from memory, and half of non-members of another, easier kind."""
        old, new = ([f"{year} {i}" for i in range(100, 160)] for year in (1950, 2020))

        class Masked(Coins):
            def continuations(self, prefixes, suffixes, *, decoding=None):
                p = np.array(
                    [s[0] % 3 == 0 if q[0] < 2000 else s[0] % 2 == 0 for q, s in zip(prefixes, suffixes, strict=False)]
                )
                with np.errstate(divide="ignore"):
                    return Continuations(np.arange(len(p) + 1), np.log(p.astype(float)), p)

        result = extraction.measure(Masked(None), old, new, prefix=1, suffix=1)
        assert result.finding.answer == "confounded"
        assert result.finding.tone == "doubt"
        assert "easier to complete would hide" in result.verdict
        assert "33.3 % of members" in result.verdict
        assert result.extracted.size == 0
        nothing = extraction.measure(Coins(lambda at: 0.0), old, new, prefix=1, suffix=1)
        assert nothing.finding.answer == "not shown"  # no member came back, so none is hidden

    def test_nothing_extracted_does_not_look_like_no_leak(self):
        result = extraction.measure(Coins(lambda at: 0.0), numbered(0, 60), numbered(60, 60), prefix=1, suffix=1)
        assert (result.finding.answer, result.finding.tone) == ("not shown", "plain")

    def test_a_model_that_completes_everything_is_not_blamed_on_few_documents(self):
        result = extraction.measure(Coins(lambda at: 1.0), numbered(0, 60), numbered(60, 60), prefix=1, suffix=1)
        assert result.finding.answer == "undecided"
        assert "all of 60 members verbatim, that would not show" in result.verdict
        assert "beside 60 of 60 non-members" in result.verdict

    @pytest.mark.parametrize(("count", "answer"), [(6, "undecided"), (40, "not shown")])
    def test_nothing_is_not_shown_where_nearly_all_members_would_have_had_to_come_back(self, count, answer):
        sets = numbered(0, count), numbered(count, count)
        result = extraction.measure(Coins(lambda at: 0.0), *sets, prefix=1, suffix=1)
        assert result.finding.answer == answer
        assert (result.finding.smallest > count / 2) == (answer == "undecided")
        assert f"{result.finding.smallest} of {count} members" in result.verdict

    def test_members_that_the_reference_gives_back_cannot_show_anything(self):
        """Ten members and no non-member come back from the reference, so of 30 only 20 can count, of 12 only 2."""
        for count, most in ((12, 2), (30, 20)):
            sets = numbered(0, count), numbered(count, 40)
            reference = Coins(lambda at: float(at < 10))
            result = extraction.measure(Coins(lambda at: 0.0), *sets, prefix=1, suffix=1, reference=reference)
            assert result.finding.answer == ("undecided" if most == 2 else "not shown")
            assert result.finding.smallest is None or result.finding.smallest <= most

    @pytest.mark.parametrize("case", ["in both sets", "repeated", "one suffix"])
    def test_copies_of_forms_show_nothing(self, case):
        """A model that completes half of the documents of either set: forms, which others of the set follow as well."""
        if case == "in both sets":  # left out of both, they leave fewer forms in the smaller set
            members = [f"{i} 1 {i}" for i in range(60)] + [f"{1000 + i} 1 {i}" for i in range(60)]
            others = [f"{i} 1 {100 + i}" for i in range(20)] + [f"{2000 + i} 1 {i}" for i in range(20)]
        elif case == "repeated":  # counted once, they are fewer in the larger set
            members = [f"{i} 1 {i}" for i in range(20)] + [f"{1000 + i} 1 {i}" for i in range(20)]
            others = [f"{100 + i % 10} 1 {i}" for i in range(100)] + [f"{2000 + i} 1 {i}" for i in range(100)]
        else:  # three of six forms of the members are completed, and none of six of the non-members
            members = [f"{form * 400 + i} {5000 + form}" for form in range(6) for i in range(8)]
            others = [f"{4000 + form * 10 + i} {6000 + form}" for form in range(6) for i in range(8)]
        result = extraction.measure(Coins(lambda at: float(at < 1000)), members, others, prefix=1, suffix=1)
        assert result.rates[0].members.value > result.rates[0].nonmembers.value + 0.2
        assert result.finding.shown_by == ()
        assert result.extracted.size == 0

    def test_the_smallest_number_would_have_shown_it(self):
        sets = numbered(0, 30), numbered(30, 40)
        result = extraction.measure(Coins(lambda at: 0.0), *sets, prefix=1, suffix=1)
        smallest = result.finding.smallest
        for count, answer in ((smallest, "extracted"), (smallest - 1, "not shown")):
            with_count = extraction.measure(Coins(lambda at, count=count: float(at < count)), *sets, prefix=1, suffix=1)
            assert with_count.finding.answer == answer


class TestPassages:
    def test_a_prompt_too_long_for_the_model_loses_its_beginning(self, language, trained):
        short = dataclasses.replace(trained, length=8, stride=4)
        result = extraction.measure(short, MEMBERS, NONMEMBERS, **LENGTHS)
        assert result.members.shortened == 24
        assert any("without their beginning" in note for note in result.warnings)
        ids = trained.encode(MEMBERS[:1])[0]
        expected = trained.continuations([(0, ids[7])], [ids[8:14]]).log_p
        assert result.members.target.log_p[0] == pytest.approx(expected[0], abs=1e-3)

    def test_a_context_of_two_tokens(self, trained):
        tiny = dataclasses.replace(trained, length=2, stride=1, bos="none")
        result = extraction.measure(tiny, MEMBERS, NONMEMBERS, prefix=8, suffix=1)
        assert len(result.members) > 1
        with pytest.raises(dv.InputError, match="suffix: must be below 1"):
            extraction.measure(dataclasses.replace(tiny, bos="add"), MEMBERS, NONMEMBERS, prefix=8, suffix=1)

    def test_short_documents_are_counted_and_left_out(self, trained):
        result = extraction.measure(trained, [*MEMBERS, "badan", ""], NONMEMBERS, **LENGTHS)
        assert result.members.short == 2
        assert "too short, and left out: 2 members" in " ".join(result.warnings)
        with pytest.raises(dv.InputError, match=r"nonmembers: none of 2 documents has .* \(8 \+ 6\)"):
            extraction.measure(trained, MEMBERS, ["badan", ""], **LENGTHS)

    def test_repeats_count_once_and_shared_passages_not_at_all(self, trained):
        shared = MEMBERS[0] + " badan"
        inside = [*MEMBERS, MEMBERS[1], MEMBERS[1] + " lidan"]
        result = extraction.measure(trained, inside, [*NONMEMBERS, shared], **LENGTHS)
        assert len(result.members) == 23
        assert len(result.nonmembers) == 40
        assert result.members.ids.tolist() == [f"row {row}" for row in range(2, 25)]
        assert "in documents of both sets, and left out of both: 1 passage" in " ".join(result.warnings)

    def test_documents_of_both_sets_are_left_out_where_that_is_asked_for(self, trained):
        inside = [NONMEMBERS[3], *MEMBERS, NONMEMBERS[3]]
        with pytest.raises(dv.InputError, match="set duplicates to 'drop'"):
            extraction.measure(trained, inside, NONMEMBERS, **LENGTHS)
        result = extraction.measure(trained, inside, NONMEMBERS, **LENGTHS, duplicates="drop")
        plain = extraction.measure(trained, MEMBERS, [*NONMEMBERS[:3], *NONMEMBERS[4:]], **LENGTHS)
        assert result.verdict == plain.verdict
        assert result.members.ids.tolist() == [f"row {row}" for row in range(2, len(MEMBERS) + 2)]
        assert "left out of both: 2 members and 1 non-members" in " ".join(result.warnings)
        with pytest.raises(dv.InputError, match="nothing is left to compare"):
            extraction.measure(trained, MEMBERS, MEMBERS, **LENGTHS, duplicates="drop")

    @pytest.mark.parametrize("place", ["start", "end", "random"])
    def test_where_a_passage_stands(self, trained, place):
        cut_rule = extraction.Cut(5, 4, place)
        (ids,) = trained.encode(MEMBERS[:1])
        (passage,) = extraction.completions.cut_passages(trained, MEMBERS[:1], cut_rule, 60, 7, "members").passages
        firsts = {"start": 0, "end": len(ids) - 9, "random": cut_rule.prompt_start(len(ids), MEMBERS[0], 7)}
        assert passage.tokens == ids[firsts[place] : firsts[place] + 9]
        starts = [cut_rule.prompt_start(len(ids), text, 0) for text in MEMBERS]
        assert (len(set(starts)) > 3) == (place == "random")

    def test_a_share_of_the_document(self, trained):
        passages = extraction.completions.cut_passages(trained, MEMBERS, extraction.Cut(0.5, 4), 60, 0, "members")
        for passage, ids in zip(passages.passages, trained.encode(MEMBERS), strict=True):
            assert passage.prefix == ids[: len(ids) // 2]
            assert passage.suffix == ids[len(ids) // 2 :][:4]


class TestInput:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"members": []}, "members: at least|x: at least"),
            ({"nonmembers": []}, "x: at least"),
            ({"members": "one text"}, "members: a list"),
            ({"members": dv.Records(np.zeros((3, 2)))}, "members: documents are needed"),
            ({"nonmembers": MEMBERS[:3]}, "nonmembers: 3 documents are members as well"),
            ({"members": ["half \ud83d"]}, "members: document 0 holds half of a surrogate pair"),
            ({"prefix": 0}, "prefix: "),
            ({"prefix": 1.5}, "prefix: "),
            ({"prefix": 0.5, "place": "end"}, "place: "),
            ({"suffix": 0}, "suffix: "),
            ({"suffix": 64}, "suffix: must be below 63"),
            ({"place": "middle"}, "place: "),
            ({"draws": []}, "draws: "),
            ({"draws": [0]}, "draws: "),
            ({"draws": 5}, "draws: "),
            ({"near": 2}, "near: "),
            ({"confidence": 1}, "confidence: "),
            ({"decoding": "greedy"}, "decoding: "),
            ({"seed": -1}, "seed: "),
            ({"show_records": 1}, "show_records: "),
            ({"target": dv.targets.CallableTarget(lambda x: x)}, "target: a language model that runs here"),
            ({"reference": object()}, "reference: a language model that runs here"),
        ],
    )
    def test_bad_input_is_refused_by_name(self, trained, change, message):
        arguments = {"target": trained, "members": MEMBERS, "nonmembers": NONMEMBERS} | LENGTHS | change
        with pytest.raises(dv.InputError, match=message):
            extraction.measure(**arguments)

    def test_a_reference_with_other_tokens_is_refused(self, trained):
        with pytest.raises(dv.InputError, match="reference: a model with the target's tokenizer"):
            extraction.measure(trained, MEMBERS, NONMEMBERS, reference=Words(), **LENGTHS)


class Words(Coins):
    """A model with one token per word, and no letters."""

    def __init__(self):
        super().__init__(lambda at: 0.5)

    def encode(self, texts):
        return [tuple(1000 + WORDS.index(word) for word in text.split() if word in WORDS) for text in texts]


class TestKept:
    def test_a_run_directory_holds_all_of_it(self, measurement, tmp_path):
        measurement.save(tmp_path / "run")
        table = pl.read_parquet(tmp_path / "run" / "documents.parquet")
        assert len(table) == 64
        assert table["prefix"].str.len_chars().min() > 0
        summary = dv.results.read_summary(tmp_path / "run", dv.results.ExtractionSummary)
        assert summary == measurement.summary()
        report = (tmp_path / "run" / "report.html").read_text()
        assert measurement.members.suffixes[most_extractable(measurement.members)[0]].strip() in report
        with pytest.raises(dv.InputError, match="out: "):
            measurement.save(tmp_path / "run")

    def test_a_directory_in_use_is_refused_before_the_model_is_asked(self, trained, tmp_path):
        (tmp_path / "mine.txt").write_text("x")
        progress_calls = []
        with pytest.raises(dv.InputError, match="holds no run"):
            extraction.measure(
                trained,
                MEMBERS,
                NONMEMBERS,
                out=tmp_path,
                progress=lambda done, total: progress_calls.append(done),
                **LENGTHS,
            )
        assert progress_calls == []

    @pytest.mark.parametrize("texts", [True, False])
    def test_an_interruption_loses_nothing(self, tmp_path, texts):
        sets, prompts = (numbered(0, 100), numbered(100, 90)), []

        class CountingCoins(Coins):
            def continuations(self, prefixes, suffixes, *, decoding=None):
                prompts.extend(prefixes)
                return super().continuations(prefixes, suffixes, decoding=decoding)

        def measured(**more):
            return extraction.measure(
                CountingCoins(lambda at: at % 3 / 3), *sets, prefix=1, suffix=1, show_records=texts, **more
            )

        def stop(n_done, total):
            if n_done > 64:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            measured(out=tmp_path / "run", progress=stop)
        array_names = [name for path in (tmp_path / "run").rglob("*.npz") for name in np.load(path)]
        assert ("written" in array_names) == texts
        resumed = measured(out=tmp_path / "run")
        assert len(prompts) == len(set(prompts)) == 190
        expected = measured()
        assert resumed.rates == expected.rates
        assert resumed.members.target.texts == expected.members.target.texts
        assert not list((tmp_path / "run").glob(".staged*"))

    def test_no_text_leaves_the_result_where_none_is_wanted(self, trained, tmp_path):
        result = extraction.measure(trained, MEMBERS, NONMEMBERS, show_records=False, out=tmp_path / "run", **LENGTHS)
        for path in (tmp_path / "run").rglob("*"):
            content = path.read_bytes()
            assert not any(text[len(text) // 2 :].encode() in content for text in MEMBERS)
            assert b"lidan" not in content
        assert result.members.prompts is None
        assert result.finding.answer == "extracted"

    def test_the_summary_has_no_text(self, measurement):
        content = (
            json.dumps(dv.results.to_json_values(measurement.summary()))
            + measurement.verdict
            + repr(measurement.finding)
        )
        assert not any(word in content for word in WORDS)

    def test_hostile_documents_are_escaped(self, trained, tmp_path):
        evil = [f"<script>alert({i})</script> \x1b[2J \u202e <s> 😀 " + text for i, text in enumerate(MEMBERS)]
        extraction.measure(trained, evil, NONMEMBERS, **LENGTHS, out=tmp_path / "run")
        report = (tmp_path / "run" / "report.html").read_text()
        assert "<script>alert" not in report

    def test_the_order_of_documents_changes_nothing(self, trained):
        order = np.random.default_rng(0).permutation(24)
        straight = extraction.measure(trained, MEMBERS, NONMEMBERS, place="random", seed=3, **LENGTHS)
        reordered = extraction.measure(
            trained, [MEMBERS[position] for position in order], NONMEMBERS, place="random", seed=3, **LENGTHS
        )
        assert straight.rates == reordered.rates
        assert np.allclose(straight.members.target.log_p[order], reordered.members.target.log_p, atol=1e-5)
