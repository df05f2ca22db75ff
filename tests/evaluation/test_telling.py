"""What gives a split of texts away, and silence where nothing does."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.decisions import controls
from divulge.evaluation import text_differences

DATA = os.environ.get("DIVULGE_DATA")
WORDS = [f"word{i}" for i in range(300)]


def texts(rng, n, years=None):
    drawn_texts = [" ".join(rng.choice(WORDS, 30)) for _ in range(n)]
    return drawn_texts if years is None else [f"{text} {rng.integers(*years)}" for text in drawn_texts]


def test_dates_words_and_lengths_are_named_with_their_direction():
    rng = np.random.default_rng(0)
    old, new = texts(rng, 150, (1990, 2008)), texts(rng, 150, (2002, 2024))
    sentences = [str(sign) for sign in text_differences(old, new)]
    assert any(
        line.startswith("the newest year named is 199") and "in the median of the members" in line for line in sentences
    )
    signs = text_differences([f"{text} obama" for text in old], [text[:100] for text in new], names=("A", "B"))
    sign_by_text = {str(sign): sign for sign in signs}
    assert sign_by_text["“obama” is in 100 % of the A and 0 % of the B"].is_larger_in_first
    length = next(sign for sign in signs if "median length" in str(sign))
    assert length.is_larger_in_first
    assert [sign.p_value for sign in signs] == sorted(sign.p_value for sign in signs)
    assert len(text_differences(old, new, max_differences=1)) == 1


def test_a_words_p_value_is_fishers():
    first_texts = ["x y"] * 9 + ["z"] * 31
    second_texts = ["x"] * 1 + ["z"] * 49
    results = {
        str(sign).split("”")[0][1:]: sign.p_value
        for sign in text_differences(first_texts, second_texts, false_alarm=0.999, max_differences=99)
    }
    table = [[9, 31], [1, 49]]
    want = 2 * stats.fisher_exact(table, alternative="greater").pvalue
    assert results["x"] == pytest.approx(min(1.0, want * 2 * 3))  # three words, half the level for all of them


def test_of_exchangeable_texts_nothing_is_said_but_at_the_level():
    """50 random halves: more than level + 4.5 deviations of them with a sign has a chance below 1e-4."""
    rng, level = np.random.default_rng(1), 0.2
    pool = texts(rng, 50, (1990, 2020)) + [text[:60] for text in texts(rng, 50)]
    alarms = 0
    for _ in range(50):
        rng.shuffle(pool)
        alarms += bool(text_differences(pool[:40], pool[40:], false_alarm=level, max_differences=1))
    assert alarms <= 50 * level + 4.5 * np.sqrt(50 * level * (1 - level))


def test_texts_without_words_and_bad_arguments():
    assert text_differences(["", "!"], ["?"]) == ()
    assert text_differences(["a"] * 3, ["b"]) == ()
    long = "x" * 5000
    assert len(str(text_differences([long] * 20, ["y"] * 20)[0])) < 200
    for bad, message in (
        ({"texts": []}, "texts: at least 1"),
        ({"other_texts": "a"}, "other_texts: "),
        ({"names": ("a",)}, "names: two are needed"),
        ({"false_alarm": 1.0}, "false_alarm: "),
        ({"max_differences": 0}, "max_differences: "),
        ({"seed": -1}, "seed: "),
    ):
        with pytest.raises(dv.InputError, match=message):
            text_differences(**({"texts": ["a"], "other_texts": ["b"]} | bad))


def test_the_text_control_names_what_it_found():
    rng = np.random.default_rng(2)
    result = controls.blind_text(texts(rng, 120, (1990, 1999)), texts(rng, 120, (2010, 2020)))
    assert result.state == "doubtful"
    assert "the newest year named is 201" in result.says
    assert "“" not in controls.blind_text(texts(rng, 120), texts(rng, 120)).says


@pytest.mark.skipif(not DATA, reason="DIVULGE_DATA is not set")
def test_on_newsgroups_by_date_and_at_random():
    """The by-date halves of one group differ in what was talked about; halves at random do not."""
    with gzip.open(Path(DATA) / "20news_bydate_small.jsonl.gz", "rt", encoding="utf8") as lines:
        rows = [json.loads(line) for line in lines]
    politics = [row["text"] for row in rows if 16 <= row["label"] <= 18]
    sports = [row["text"] for row in rows if 9 <= row["label"] <= 10]
    signs_text = " ".join(map(str, text_differences(politics, sports)))
    assert any(word in signs_text for word in ("“game”", "“team”", "“hockey”", "“baseball”", "“government”", "“sport”"))
    mixed = np.random.default_rng(0).permutation(np.array(politics + sports, dtype=object)).tolist()
    assert text_differences(mixed[:350], mixed[350:]) == ()


def test_lengths_of_one_median_are_said_to_differ_by_which_is_larger():
    short, long = (["a" * size for size in [5] * 60 + [length] * 40] for length in (4, 6))
    for first_texts, second_texts, larger in ((short, long, "non-members"), (long, short, "members")):
        sentences = [
            str(sign)
            for sign in text_differences(first_texts, second_texts, false_alarm=0.01, seed=0)
            if "length" in str(sign)
        ]
        assert sentences == [
            "the median length is 5 characters of the members and 5 of the non-members "
            f"(on the whole, it is the larger one of the {larger})"
        ]
