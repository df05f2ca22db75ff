"""`divulge extract` with a model in a folder."""

import json

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = [f"letter {i} of the {word} to the bank" for i, word in enumerate(("baker", "clerk", "miner", "nurse") * 6)]
OPTIONS = ("--prefix", 4, "--suffix", 3)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model, its documents and others."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("extract")
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False),
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>").save_pretrained(folder / "model")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=300, n_positions=32, n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder / "model")
    frame = pl.DataFrame({"text": TEXTS, "id": [f"a{i}" for i in range(24)]})
    frame[:12].write_ndjson(folder / "in.jsonl")
    frame[12:].write_parquet(folder / "out.parquet")
    return folder


def arguments(home, **changes):
    keywords = {
        "--model": home / "model",
        "--members": home / "in.jsonl",
        "--nonmembers": home / "out.parquet",
    } | changes
    return ["extract", *(part for pair in keywords.items() for part in pair), *OPTIONS]


def test_what_is_printed_has_no_text_and_the_report_has(divulge, home, tmp_path):
    code, out, err = divulge(*arguments(home), "--out", tmp_path / "run", "-v")
    assert code == 0, err
    assert "Too little data to say" in " ".join(out.split())
    assert "a3" in out
    assert "letter" not in out + err
    report = (tmp_path / "run" / "report.html").read_text()
    assert "letter" in report
    assert pl.read_parquet(tmp_path / "run" / "documents.parquet")["id"].to_list()[12] == "a12"


@pytest.mark.parametrize("texts", ["--show-records", "--no-show-records"])
def test_a_finished_extraction_is_rendered_again_as_it_was_and_in_every_format(divulge, home, tmp_path, texts):
    run = tmp_path / "run"
    assert divulge(*arguments(home), texts, "--out", run)[0] == 0
    html_before = (run / "report.html").read_text()
    assert divulge("report", run)[0] == 0
    assert (run / "report.html").read_text() == html_before
    for name, file in (("md", "model_card.md"), ("json", "results.json"), ("csv", "records.csv")):
        code, _, err = divulge("report", run, "--format", name)
        assert code == 0, err
        assert (run / file).stat().st_size > 100
    assert "How many are given back" in (run / "model_card.md").read_text()
    content = json.loads((run / "results.json").read_text())
    assert content["results"]["answer"] == "undecided"
    assert {source["role"] for source in content["provenance"]["sources"]} == {"model", "members", "nonmembers"}
    assert pl.read_csv(run / "records.csv").height == 24


def test_without_texts_none_is_written(divulge, home, tmp_path):
    code, out, err = divulge(*arguments(home), "--no-show-records", "--out", tmp_path / "run", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert content["answer"] == "undecided"
    assert content["settings"]["draws"] == [1, 100, 10_000]
    assert content["decoding"] == "temperature 1"
    for path in (tmp_path / "run").rglob("*"):
        assert b"nurse" not in path.read_bytes()


def test_a_reference_and_a_csv_file(divulge, home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    pl.DataFrame({"body": [f"{i} {text} ünï \x1b[2J" for i, text in enumerate(TEXTS)]}).write_csv(home / "in.csv")
    pl.DataFrame({"body": [f"{i + 50} {text}" for i, text in enumerate(TEXTS)]}).write_csv(home / "out.csv")
    changes = {"--members": home / "in.csv", "--nonmembers": home / "out.csv", "--text": "body"}
    code, out, err = divulge(*arguments(home, **changes), "--reference", home / "model")
    assert code == 0, err
    assert "\x1b" not in out
    assert "by the reference, too" in out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--text": "body"}, "--text: 'body' is unknown"),
        ({"--members": "none.jsonl"}, "no such file"),
        ({"--model": "nowhere"}, "--model: nowhere is no Hugging Face model"),
        ({"--dtype": "float8"}, "--dtype: "),
        ({"--reference": "nowhere"}, "--reference: nowhere is no Hugging Face model"),
        ({"--members": "data.text"}, "no such file: data.text"),
    ],
)
def test_user_errors_exit_with_2(divulge, home, changes, message):
    code, out, err = divulge(*arguments(home, **changes))
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("prefix", "message"), [("many", "--prefix: a number"), ("1.5", "prefix: "), ("0", "prefix: ")]
)
def test_a_prefix_that_is_none(divulge, home, prefix, message):
    code, _, err = divulge(*arguments(home), "--prefix", prefix)
    assert code == 2
    assert message in err


def test_documents_of_both_sets_are_refused(divulge, home):
    code, _, err = divulge(*arguments(home, **{"--nonmembers": home / "in.jsonl"}))
    assert code == 2
    assert "12 documents are members as well" in err
    both = pl.concat([pl.read_ndjson(home / "in.jsonl")[:1], pl.read_parquet(home / "out.parquet")])
    both.write_ndjson(home / "both.jsonl")
    code, _, err = divulge(*arguments(home, **{"--nonmembers": home / "both.jsonl"}), "--duplicates", "drop")
    assert code == 0, err


def test_a_share_of_the_document(divulge, home):
    code, out, err = divulge(*arguments(home), "--prefix", "0.25", "--json")
    assert code == 0, err
    settings = json.loads(out)["settings"]
    assert settings["prefix"] == 0.25
    assert np.isclose(settings["confidence"], 0.95)


def test_what_an_interruption_leaves_is_said(divulge, home, tmp_path, monkeypatch):
    def stops(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("divulge.targets.CausalLM.greedy", stops)
    code, _, err = divulge(*arguments(home))
    assert (code, "nothing is kept" in err) == (130, True)
    code, _, err = divulge(*arguments(home), "--out", tmp_path / "run")
    assert (code, "the same command resumes" in err) == (130, True)
