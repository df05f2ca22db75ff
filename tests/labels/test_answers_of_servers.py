"""What a server's answer says of a score: every status from 300 is a refusal, and only finite numbers count."""

import pytest

from divulge import InputError
from divulge.cli.labels import make_spec
from divulge.settings import OracleSettings


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
