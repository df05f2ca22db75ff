"""Endpoints: journals, submissions, typed scores and answers of servers; every form read, and every one refused."""

import json
import math

import numpy as np
import pytest

from divulge import labels, web
from divulge.cli.labels import make_spec
from divulge.errors import InputError
from divulge.labels.oracles import QuotaReachedError
from divulge.settings import OracleSettings

PLAN = labels.design(labels.OracleSpec(n=9, clip=1e-3, noise=0.05))
COUNT = PLAN.count + len(PLAN.controls)
HEADER = {"plan": PLAN.key, "method": PLAN.method, "queries": PLAN.count}


def journal_of(tmp_path, text):
    (tmp_path / "journal").write_text(text, encoding="utf-8")
    return labels.Journal(tmp_path / "journal", PLAN)


def lines(*entries, header=None):
    return "".join(json.dumps(entry) + "\n" for entry in (header or HEADER, *entries))


def test_a_new_journal_begins_with_its_plan_and_keeps_a_line_for_each_answer(tmp_path):
    journal = labels.Journal(tmp_path / "journal", PLAN)
    assert (tmp_path / "journal").read_text() == lines()
    journal.keep(0, 0.5)
    journal.keep(PLAN.count, 0.25)
    assert (tmp_path / "journal").read_text() == lines({"query": 0, "score": 0.5}, {"query": PLAN.count, "score": 0.25})
    assert journal.answers() == labels.Journal(tmp_path / "journal", PLAN).answers() == {0: 0.5, PLAN.count: 0.25}
    journal.answers().clear()
    assert len(journal.answers()) == 2


@pytest.mark.parametrize("text", ["", json.dumps(HEADER), json.dumps(HEADER)[:9]])
def test_a_journal_whose_first_line_is_half_written_is_a_new_one(tmp_path, text):
    assert journal_of(tmp_path, text).answers() == {}
    assert (tmp_path / "journal").read_text() == lines()


def test_a_half_written_last_line_is_dropped(tmp_path):
    text = lines({"query": 1, "score": 0.5})
    assert journal_of(tmp_path, text + '{"query": 2, "sc').answers() == {1: 0.5}
    assert (tmp_path / "journal").read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "not a journal of answers"),
        (lines("x"), "not a journal of answers"),
        (lines({"query": 1}), "not a journal of answers"),
        (lines({"query": "one", "score": 1}), "not a journal of answers"),
        (lines({"query": 1, "score": None}), "not a journal of answers"),
        (lines({"query": 1, "score": 10**400}), "not a journal of answers"),
        (lines(header={"method": "x"}), "not a journal of answers"),
        (lines({"query": 1, "score": math.nan}), "an answer is not a finite number"),
        (lines({"query": 0, "score": 1}, {"query": 1, "score": math.inf}), "an answer is not a finite number"),
        (lines(header=HEADER | {"plan": "other"}), r"holds answers to another plan \(.*, 4 queries\)"),
        (lines({"query": COUNT, "score": 1.0}), "names a query the plan does not have"),
        (lines({"query": -1, "score": 1.0}), "names a query the plan does not have"),
    ],
)
def test_what_is_no_journal_of_this_plan_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message.replace("4 queries", f"{PLAN.count} queries")):
        journal_of(tmp_path, text)


@pytest.mark.parametrize(
    ("submission", "predictions", "text"),
    [
        (labels.Submission(), [0.5, 0.25], "id,p0\n0,0.5\n1,0.25\n"),
        (labels.Submission(), [[0.5, 0.5], [1.0, 0.0]], "id,p0,p1\n0,0.5,0.5\n1,1.0,0.0\n"),
        (
            labels.Submission(ids=["a", "b"], columns=("row", "p"), separator=";"),
            [0.5, 1e-9],
            "row;p\na;0.5\nb;1e-09\n",
        ),
        (labels.Submission(ids=(7, 8)), [0.5, 0.25], "id,p0\n7,0.5\n8,0.25\n"),
        (labels.Submission(), np.array([0.1], dtype=np.float32), "id,p0\n0,0.1\n"),
        (labels.Submission(), np.array([3, 0]), "id,p0\n0,3\n1,0\n"),
    ],
)
def test_a_submission_has_a_line_for_each_row(submission, predictions, text):
    assert submission.text(np.asarray(predictions)) == text


@pytest.mark.parametrize(
    ("submission", "shape", "message"),
    [
        (labels.Submission(ids=("a",)), (2,), r"template: 1 identifiers \(ids\) for 2 rows"),
        (labels.Submission(columns=("id", "p")), (2, 2), "template: 2 columns, but an identifier and 2 predictions"),
        (labels.Submission(columns=("id", "p", "q")), (2,), "template: 3 columns, but an identifier and 1 predictions"),
    ],
)
def test_predictions_of_another_form_than_the_template_are_refused(submission, shape, message):
    with pytest.raises(InputError, match=message):
        submission.text(np.zeros(shape))
    for separator in ("", ",,", "\n", '"'):
        with pytest.raises(InputError, match="separator"):
            labels.Submission(separator=separator)


def test_every_query_is_written_with_the_control_query_last(tmp_path):
    paths = labels.write_submissions(PLAN, tmp_path, labels.Submission())
    width = len(str(COUNT - 1))
    assert [path.name for path in paths] == [f"query_{index:0{width}d}.csv" for index in range(COUNT)]
    for path, query in zip(paths, [*PLAN.queries, *PLAN.controls], strict=True):
        assert path.read_text() == labels.Submission().text(query)


SCORES = [0.5 + index for index in range(COUNT)]


def typed(tmp_path, text, name="scores.txt"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return labels.read_scores(tmp_path / name, PLAN).tolist()


def test_typed_scores_are_read_line_by_line(tmp_path):
    plain = [str(score) for score in SCORES]
    comma = [text.replace(".", ",") for text in plain]
    for content in (plain, comma, ["score", *plain], ['"Scores"', *plain], ["", plain[0], "  ", *plain[1:], ""]):
        assert typed(tmp_path, "\n".join(content)) == SCORES
    assert typed(tmp_path, "\ufeff" + "\n".join(plain)) == SCORES
    exponents = ["+1,5e-1", "-,5", *["2"] * (COUNT - 2)]
    assert typed(tmp_path, "\n".join(exponents)) == [0.15, -0.5, *[2.0] * (COUNT - 2)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["0.5", "x"], "scores: line 2 of .* is 'x'; a number is needed"),
        (["0.5", "", "nan"], "scores: line 3 of .* is 'nan'; a number is needed"),
        (["inf"], "scores: line 1 of .* is 'inf'; a number is needed"),
        (["1,2,3"], "scores: line 1 of"),
        (["points", "1"], "scores: line 1 of"),
        (["1"] * (PLAN.count - 1), rf"scores: {COUNT} are needed .*, got {PLAN.count - 1} in"),
        (["1"] * (COUNT + 1), rf"scores: {COUNT} are needed .*, got {COUNT + 1} in"),
    ],
)
def test_typed_scores_that_are_none_or_too_few_are_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        typed(tmp_path, "\n".join(content))


@pytest.mark.parametrize(
    "header",
    ["score", "Scores", "team,score", "score,team", "points"],
)
def test_scores_stand_in_the_only_column_or_in_that_called_score(tmp_path, header):
    cells = {"score": "{}", "Scores": "{}", "points": "{}", "team,score": "a,{}", "score,team": "{},a"}[header]
    text = "\n".join([header, *(cells.format(score) for score in SCORES)])
    assert typed(tmp_path, text, "scores.csv") == SCORES


def test_a_single_column_may_lack_a_name_and_several_must_have_one(tmp_path):
    assert typed(tmp_path, "\n".join(map(str, SCORES)), "scores.csv") == SCORES
    for header in ("a,b", "score,scores"):
        with pytest.raises(InputError, match="one column is needed, or one that is called score, got"):
            typed(tmp_path, "\n".join([header, *(f"1,{score}" for score in SCORES)]), "scores.csv")
    with pytest.raises(InputError, match="scores: row 1 of"):
        typed(tmp_path, "team,score\na,1\nb,\n", "scores.csv")


class Server:
    """Answers, one after the other, in the place of a connection."""

    def __init__(self, monkeypatch, *answers):
        self.answers, self.asked, self.waits = list(answers), [], []
        server = self

        class Client:
            def __init__(self, **options):
                server.options = options

            def __enter__(self):
                return self

            def __exit__(self, *error):
                pass

            def post(self, url, *, content, media_type):
                server.asked.append((url, content, media_type))
                status, body, *headers = server.answers.pop(0)
                if status is None:
                    raise web.WebError(body)
                return web.HttpAnswer(status, dict(*headers), body.encode())

        monkeypatch.setattr(web, "Client", Client)

    def oracle(self, **options):
        return labels.HttpOracle("http://board.test/submit", sleep=self.waits.append, **options)


def test_a_busy_server_is_waited_for_as_long_as_patience_lasts(monkeypatch):
    busy = (429, "", {"retry-after": "30"})
    server = Server(monkeypatch, busy, (200, "2"))
    assert server.oracle()(np.array([0.5])) == 2.0
    assert server.waits == [30.0]
    for answer in ((429, "", {"retry-after": "31"}), (429, "")):
        server = Server(monkeypatch, answer)
        with pytest.raises(QuotaReachedError, match=r"no more submissions for now \(429\)"):
            server.oracle()(np.array([0.5]))
        assert server.waits == []
    server = Server(monkeypatch, busy, busy)
    with pytest.raises(QuotaReachedError, match=r"still busy after 2 tries \(429\)"):
        server.oracle(retries=1)(np.array([0.5]))
    server = Server(monkeypatch, busy, (None, "no route"))
    with pytest.raises(InputError, match="failed 2 times, last: no route"):
        server.oracle(retries=1)(np.array([0.5]))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (300, "moved", "oracle: http://board.test/submit refused: HTTP 300: moved"),
        (404, "gone", "refused: HTTP 404: gone"),
        (499, "", "refused: HTTP 499"),
        (200, "{}", "answered without a number at 'result.score'"),
        (200, '{"result": 3}', "answered without a number at"),
        (200, '{"result": {"score": "x"}}', "answered without a number at"),
        (200, "[1]", "answered without a number at"),
        (200, "word", "answered without a number at"),
        (200, '{"result": {"score": true}}', "answered True; a finite number is needed"),
        (200, '{"result": {"score": "inf"}}', "; a finite number is needed"),
        (200, "nan", "; a finite number is needed"),
        (200, "1_000", "answered without a number at"),
        (200, "٣", "answered without a number at"),
        (200, "1,5", "answered without a number at"),
        (200, "1" * 1001, "answered without a number at"),
    ],
)
def test_an_answer_without_a_score_is_refused(monkeypatch, status, body, message):
    server = Server(monkeypatch, (status, body))
    with pytest.raises(InputError, match=message):
        server.oracle(key="result.score")(np.array([0.5]))
    assert server.waits == []


def test_a_score_stands_under_its_key(monkeypatch):
    server = Server(
        monkeypatch,
        (200, '{"result": {"score": "0.5"}}'),
        (200, '"0.25"'),
        (200, "  3 \n"),
        (200, '"-1e3"'),
        (200, '".5"'),
    )
    oracle = server.oracle(key="result.score")
    assert [oracle(np.array([0.5])) for _ in range(5)] == [0.5, 0.25, 3.0, -1000.0, 0.5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://x"}, "url"), ({"url": "http://me:secret@x/"}, "url"), ({"submission": "x"}, "submission"),
        ({"headers": [1]}, "headers"), ({"headers": {"a": 1}}, "headers"), ({"key": 3}, "key"),
        ({"retries": -1}, "retries"), ({"pause": 0}, "pause"), ({"patience": 0.0}, "patience"),
        ({"timeout": 0}, "timeout"),
    ],
)  # fmt: skip
def test_an_oracle_behind_http_needs_an_address_and_sound_settings(options, message):
    with pytest.raises(InputError, match=message):
        labels.HttpOracle(**{"url": "http://board.test"} | options)


@pytest.mark.parametrize(
    ("clip", "epsilon"),
    [("none", None), ("float32", 2.0**-23), ("float64", 2.0**-52), ("0.01", 0.01), ("1e-15", 1e-15)],
)
def test_the_clip_of_the_command_line_is_a_number_a_float_or_none(clip, epsilon):
    spec = make_spec(OracleSettings(clip=clip), 7)
    assert spec.clip == (None if clip == "none" else clip if clip.startswith("float") else float(clip))
    assert (spec.epsilon or None) == epsilon
    with pytest.raises(InputError, match="clip: a number, float64"):
        make_spec(OracleSettings(clip="some"), 7)
