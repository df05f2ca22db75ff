"""What a server's answer says of a score: every status from 300 is a refusal, and only finite numbers count."""

import json

import pytest

from divulge import InputError, labels
from divulge.cli.labels import make_spec
from divulge.settings import OracleSettings
from divulge.web import HttpAnswer


def score(status=200, body=b"0.5", key="score"):
    return labels.HttpOracle("http://localhost:1/", key=key)._parse_score(HttpAnswer(status, {}, body), "the server")


@pytest.mark.parametrize(("status", "accepted"), [(200, True), (201, True), (299, True), (300, False), (404, False)])
def test_a_status_from_300_is_a_refusal(status, accepted):
    if accepted:
        assert score(status) == 0.5
    else:
        with pytest.raises(InputError, match=f"refused: HTTP {status}"):
            score(status)


@pytest.mark.parametrize("body", [{"score": 0.25}, {"score": "0.25"}, 0.25])
def test_a_score_is_a_number_or_stands_under_its_key(body):
    assert score(body=json.dumps(body).encode()) == 0.25


@pytest.mark.parametrize("body", [b"nothing", b'{"other": 1}', b"[]", b"1e999", b'{"score": null}'])
def test_anything_else_is_refused(body):
    with pytest.raises(InputError, match="number"):
        score(body=body)


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
