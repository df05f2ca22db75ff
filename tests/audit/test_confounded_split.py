"""What the verdict on a confounded split says: the columns by their names, and advice that fits the split."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest

import divulge as dv


def draw_frame(rng, n, *, start, shift=0.0):
    days = rng.integers(0, 300, n)
    return pd.DataFrame(
        {
            "income": rng.normal(shift, 1, n),
            "sex": rng.choice(["F", "M"], n),
            "admitted": [dt.datetime(start, 1, 1) + dt.timedelta(int(day)) for day in days],
        }
    )


def audit(**frames):
    rng = np.random.default_rng(1)
    sets = {name: dv.Records(frame, rng.integers(0, 2, len(frame))) for name, frame in frames.items()}

    def model(frame):
        return np.stack([-frame["income"].to_numpy(), frame["income"].to_numpy()], axis=1)

    return dv.audit(model, **sets, recipes=["loss"], fpr=[0.05], progress=None).verdict


def test_a_column_that_tells_the_sets_apart_is_named_and_a_new_draw_advised():
    rng = np.random.default_rng(0)
    verdict = audit(
        members=draw_frame(rng, 300, start=2020, shift=2.0),
        nonmembers=draw_frame(rng, 300, start=2020),
        population=draw_frame(rng, 300, start=2020),
    )
    assert verdict.answer == "split is confounded"
    assert "income is larger among the members" in verdict.text
    assert "divide all records at random in two" in verdict.text


def test_a_split_by_time_is_not_answered_with_a_new_draw():
    rng = np.random.default_rng(0)
    verdict = audit(
        members=draw_frame(rng, 300, start=2019),
        nonmembers=draw_frame(rng, 300, start=2022),
        population=draw_frame(rng, 300, start=2019),
    )
    assert verdict.answer == "split is confounded"
    assert "admitted" in verdict.text
    assert "training period" in verdict.text
    assert "divide all records at random" not in verdict.text


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("run") / "run"
    sets = {name: dv.Records(rng.normal(size=(300, 3)), rng.integers(0, 2, 300)) for name in ("members", "nonmembers")}
    known = {row.tobytes(): label for row, label in zip(sets["members"].x, sets["members"].y, strict=True)}

    def model(x):
        right = np.array([known.get(row.tobytes(), 0) * 2 - 1 if row.tobytes() in known else row[0] for row in x])
        return np.stack([-right, right], axis=1)

    population = dv.Records(rng.normal(size=(300, 3)), rng.integers(0, 2, 300))
    return dv.audit(
        model, **sets, population=population, recipes=["loss"], fpr=[0.05], progress=None, out=folder
    ), folder


def test_a_page_has_one_number_for_epsilon(report):
    result, folder = report
    bound = f"{result.summary().recipes['loss'].epsilon.low:.2f}"
    numbers = set(re.findall(r'ε ≥(?:">|\s)([0-9.]+[0-9])', (folder / "report.html").read_text(encoding="utf-8")))
    assert numbers == {bound}
