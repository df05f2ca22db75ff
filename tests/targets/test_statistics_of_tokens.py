"""Statistics of tokens, continuations and windows against their definitions."""

import types

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.targets import token_statistics
from divulge.targets.token_statistics import PER_TOKEN, Continuations, Decoding, TokenStatistics

torch = pytest.importorskip("torch")
from divulge.targets import language_models  # noqa: E402


def naive_statistics(logits, token):
    p = np.exp(logits - logits.max())
    p /= p.sum()
    log_p = np.log(p)
    entropy = -(p * log_p).sum()
    others = np.delete(p, token)
    return {
        "logp": log_p[token],
        "entropy": entropy,
        "variance": (p * (log_p - (p * log_p).sum()) ** 2).sum(),
        "modified_entropy": -(1 - p[token]) * log_p[token] - (others * np.log(1 - others)).sum(),
        "renyi_half": 2 * np.log(np.sqrt(p).sum()),
        "renyi_two": -np.log((p**2).sum()),
        "renyi_inf": -log_p.max(),
    }


def test_statistics_of_a_token_are_those_of_its_distribution():
    rng = np.random.default_rng(0)
    logits, tokens = rng.normal(0, 2, (6, 5)), np.array([0, 1, 2, 3, 4, 0])
    reduced = language_models.reduce_logits(torch.tensor(logits), torch.tensor(tokens)).numpy()
    expected = [naive_statistics(row, token) for row, token in zip(logits, tokens, strict=True)]
    for values, name in zip(reduced, PER_TOKEN, strict=True):
        np.testing.assert_allclose(values, [statistics[name] for statistics in expected], rtol=2e-5, atol=1e-6)
    alone = language_models.reduce_logits(torch.tensor(logits), torch.tensor(tokens), vocabulary=False)
    assert alone.shape == (1, 6)
    np.testing.assert_array_equal(alone[0].numpy(), reduced[0])


def test_a_certain_token_has_finite_statistics():
    reduced = language_models.reduce_logits(torch.tensor([[200.0, 0.0, 0.0]]), torch.tensor([0])).numpy()[:, 0]
    np.testing.assert_allclose(reduced, 0.0, atol=1e-5)
    absent = language_models.reduce_logits(torch.tensor([[200.0, 0.0, 0.0]]), torch.tensor([1])).numpy()[:, 0]
    assert absent[0] == -200
    assert absent[3] == pytest.approx(200 + 24 * np.log(2), rel=1e-5)  # p log(1 - p), 1 - p at float32's resolution


@pytest.mark.parametrize(
    ("decoding", "expected"),
    [
        (Decoding(), [0.5, 0.3, 0.15, 0.05]),
        (Decoding(temperature=0.5), np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365),
        (Decoding(top_k=2), [0.625, 0.375, 0, 0]),
        (Decoding(top_k=4), [0.5, 0.3, 0.15, 0.05]),
        (Decoding(top_k=3), np.array([0.5, 0.3, 0.15, 0]) / 0.95),
        (Decoding(top_p=0.7), [0.625, 0.375, 0, 0]),
        (Decoding(top_p=1.0), [0.5, 0.3, 0.15, 0.05]),
        (Decoding(top_k=3, top_p=0.99), np.array([0.5, 0.3, 0.15, 0]) / 0.95),
    ],
)
def test_probabilities_of_a_draw_are_those_after_temperature_top_k_and_top_p(decoding, expected):
    pytest.importorskip("transformers")
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).repeat(4, 1)
    log_p, greedy = language_models.sampling_log_probabilities(logits, torch.arange(4), decoding).numpy()
    np.testing.assert_allclose(np.exp(log_p), expected, rtol=1e-5)
    assert greedy.tolist() == [1, 0, 0, 0]


def test_of_equal_tokens_the_first_is_the_greedy_one():
    logits = torch.zeros(3, 3)
    greedy = language_models.sampling_log_probabilities(logits, torch.arange(3), Decoding())[1]
    assert greedy.tolist() == [1, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 5, 13])
@pytest.mark.parametrize(("length", "stride"), [(3, 2), (4, 2), (2, 1), (6, 5)])
def test_windows_score_each_token_once_with_the_most_context(n, length, stride):
    tokens = list(range(10, 10 + n))
    scores = []
    for window in language_models.split_windows(7, tokens, length, stride):
        assert window.document == 7
        assert window.start % stride == 0
        assert window.tokens == tuple(tokens[window.start : window.start + length])
        scores += [(place, place - window.start) for place in range(window.start + window.skip + 1, n)][
            : len(window.tokens) - 1 - window.skip
        ]
    assert [place for place, _ in scores] == list(range(1, n))
    for place, context in scores:
        first = next(start for start in range(0, n, stride) if place < start + length)
        assert context == place - first


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_position_embeddings": 7}, 7),
        ({"n_positions": 9}, 9),
        ({"max_seq_len": 11}, 11),
        ({"seq_length": 13}, 13),
        ({"max_position_embeddings": -1, "n_positions": 9}, 9),
        ({"max_position_embeddings": 1}, 4096),
        ({"max_position_embeddings": 2}, 2),
        ({"max_position_embeddings": None}, 4096),
        ({"max_position_embeddings": "7"}, 4096),
        ({"max_position_embeddings": 7, "text_config": types.SimpleNamespace(max_position_embeddings=5)}, 5),
        ({}, 4096),
    ],
)
def test_the_context_is_read_by_whichever_name_it_has(settings, expected):
    model = types.SimpleNamespace(config=types.SimpleNamespace(**settings))
    assert language_models.context_length(model) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [4.0, -8.0]),
        ({"logit_scale": 0.5}, [2.0, -4.0]),
        ({"logits_scaling": 4.0}, [1.0, -2.0]),
        ({"logit_scale": None, "logits_scaling": None, "final_logit_softcapping": None}, [4.0, -8.0]),
        ({"logit_scale": 0.5, "logits_scaling": 2.0}, [1.0, -2.0]),
        ({"final_logit_softcapping": 4.0}, (4 * np.tanh([1.0, -2.0])).tolist()),
    ],
)
def test_logits_are_scaled_and_capped_as_the_model_says(settings, expected):
    model = types.SimpleNamespace(config=types.SimpleNamespace(**settings))
    np.testing.assert_allclose(language_models.finish_logits(model, torch.tensor([4.0, -8.0])), expected, rtol=1e-6)


def tokenizer(with_special, without):
    return lambda text, add_special_tokens: {"input_ids": with_special if add_special_tokens else without}


@pytest.mark.parametrize(
    ("with_special", "without", "expected"),
    [
        ([1, 5, 2], [5], (1,)),
        ([5], [5], ()),
        ([5, 2], [5], ()),
        ([1, 9, 5], [5], (1, 9)),
        ([1, 5, 6], [5, 6], (1,)),
        ([1, 2], [5], ()),
    ],
)
def test_what_the_tokenizer_puts_before_a_text_is_found(with_special, without, expected):
    assert language_models.leading_tokens(tokenizer(with_special, without), "tokenizer") == expected
    assert language_models.leading_tokens(types.SimpleNamespace(bos_token_id=4), "add") == (4,)
    assert language_models.leading_tokens(None, "none") == ()


@pytest.mark.parametrize(
    ("offsets", "logp"),
    [([1, 2], [-1.0]), ([0, 2, 1], [-1.0]), ([0, 2], [-1.0]), ([0, 1], [[-1.0]]), ([0], [-1.0]), ([0, 1], None)],
)
def test_statistics_that_do_not_fit_their_documents_are_refused(offsets, logp):
    with pytest.raises(InputError, match=r"offsets|logp"):
        TokenStatistics(np.array(offsets), np.full(len(offsets) - 1, 9), logp=logp)


def test_columns_of_a_document_have_one_length_and_are_split_again():
    rows = [
        {"logp": np.array([-1.0, -2.0]), "entropy": np.array([0.5, 0.25])},
        {"logp": np.empty(0), "entropy": np.empty(0)},
        {"logp": np.array([-3.0]), "entropy": np.array([1.0])},
    ]
    stats = TokenStatistics.from_documents(["ab", "", "c"], rows, {1: "too long"})
    assert len(stats) == 3
    assert stats.lengths.tolist() == [2, 0, 1]
    assert stats.skipped == {1: "too long"}
    again = stats.rows()
    assert again.keys() == {"logp", "entropy"}
    for name, parts in again.items():
        assert [part.tolist() for part in parts] == [row[name].tolist() for row in rows]
    assert stats.zlib_bytes.tolist() == token_statistics.compressed_sizes(["ab", "", "c"]).tolist()
    with pytest.raises(InputError, match="the columns of a document differ in length"):
        TokenStatistics.from_documents(["a", "b"], [rows[0], {"logp": np.zeros(2), "entropy": np.zeros(1)}])
    none = TokenStatistics.from_documents([], [])
    assert (len(none), len(none.logp), none.skipped) == (0, 0, {})
    allowed = TokenStatistics(np.array([0, 0, 2]), np.array([8, 9]), logp=np.array([np.nan, -1.0]))
    assert allowed.lengths.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("offsets", "logp", "message"),
    [
        ([1, 2], [-1.0], "offsets"),
        ([0, 1, 1], [-1.0], "offsets"),
        ([0, 2, 1], [-1.0, -1.0], "offsets"),
        ([0, 2], [-1.0, np.nan], "logp: logarithms of probabilities are needed"),
        ([0, 2], [-1.0, 2e-5], "logp: logarithms of probabilities are needed"),
        ([0, 2], [-1.0], "logp"),
    ],
)
def test_continuations_that_do_not_fit_are_refused(offsets, logp, message):
    with pytest.raises(InputError, match=message):
        Continuations(np.array(offsets), np.array(logp), np.ones(len(logp), bool))


def test_continuations_are_summed_and_compared_suffix_by_suffix():
    logp, greedy = [-1.0, -0.5, -np.inf, 1e-5, -2.0], np.array([True, False, True, True, True])
    three = Continuations(np.array([0, 2, 3, 5]), np.array(logp), greedy)
    assert len(three) == 3
    assert three.lengths.tolist() == [2, 1, 2]
    assert three.log_p.tolist() == [-1.5, -np.inf, -2.0]
    assert three.verbatim.tolist() == [False, True, True]
    empty = Continuations(np.array([0]), np.empty(0), np.empty(0, bool))
    assert (len(empty), len(empty.log_p), len(empty.verbatim)) == (0, 0, 0)
    with pytest.raises(InputError, match="greedy"):
        Continuations(np.array([0, 2]), np.array([-1.0, -1.0]), np.ones(3, bool))


class Fast:
    """A tokenizer of single characters, each with a given end."""

    is_fast = True

    def __init__(self, ends):
        self.ends = ends

    def __call__(self, text, add_special_tokens, return_offsets_mapping, verbose):
        specials = [(0, 0)] if add_special_tokens else []
        return {"offset_mapping": [*specials, *((0, end) for end in self.ends[: len(text)])]}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"bos": "tokenizer"}, [1, 3, 3, 4]),
        ({"bos": "add"}, [1, 3, 3, 4]),
        ({"bos": "none"}, [3, 3, 4]),
        ({}, [1, 3, 3, 4]),
        ({"bos": "tokenizer", "truncation": "head", "length": 3}, [1, 3]),
        ({"bos": "tokenizer", "truncation": "head", "length": None}, [1, 3, 3, 4]),
        ({"bos": "tokenizer", "truncation": "windows", "length": 3}, [1, 3, 3, 4]),
    ],
)
def test_scored_tokens_end_where_the_tokenizer_says_and_never_earlier_than_the_one_before(settings, expected):
    target = types.SimpleNamespace(tokenizer=Fast([1, 3, 2, 4]), **settings)
    assert token_statistics.token_ends(target, "abcd") == expected


def test_ends_of_several_documents_of_one_person_follow_each_other():
    from divulge import types as divulge_types

    target = types.SimpleNamespace(tokenizer=Fast([1, 2, 3]), bos="add")
    record = divulge_types.SEPARATOR.join(["abc", "ab"])
    shift = 3 + len(divulge_types.SEPARATOR)
    assert token_statistics.token_ends(target, record) == [1, 2, 3, shift + 1, shift + 2]
    assert token_statistics.token_ends(types.SimpleNamespace(tokenizer=object()), "abc") is None
    assert token_statistics.token_ends(object(), "abc") is None
