"""Chats, and prompts with answers: read from files, scored and learnt by their answers alone."""

import json

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import chats, datafiles

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402

CHAT = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hello you"},
    {"role": "user", "content": "bye"},
    {"role": "assistant", "content": "bye you"},
]
PLAIN = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|{{ m['role'] }}|>{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] }}<|end|>{% endgeneration %}\n"
    "{% else %}{{ m['content'] }}<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_tokenizer(template):
    special = ["<s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("ll", "o"), ("he", "llo"), ("b", "y"), ("by", "e"), ("Ġ", "y")]
    pieces = [*special, *letters, *("".join(pair) for pair in merges)]
    raw = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    raw.add_special_tokens(special)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="<|end|>")
    tokenizer.chat_template = template
    return tokenizer


def make_model(tokenizer, context=128, width=32):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=context, n_embd=width, n_layer=1, n_head=2, bos_token_id=0,
        eos_token_id=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


@pytest.fixture(scope="module")
def target():
    tokenizer = make_tokenizer(PLAIN)
    return dv.targets.CausalLM(make_model(tokenizer), tokenizer)


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_messages_are_read_from_every_kind_of_table(ending, tmp_path):
    rows = [
        {"id": f"c{i}", "title": "t", "messages": [*CHAT[:2], {"role": "assistant", "content": f"a{i}"}]}
        for i in range(3)
    ]
    path = tmp_path / f"chats.{ending}"
    if ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif ending == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        pl.DataFrame([{**row, "messages": json.dumps(row["messages"])} for row in rows]).write_csv(path)
    records = datafiles.read_records(path, datafiles.FileLayout(messages="messages")).records
    assert records.ids.tolist() == ["c0", "c1", "c2"]
    assert records.x.tolist() == dv.from_messages([row["messages"] for row in rows]).x.tolist()


def test_a_file_of_chats_is_audited_by_the_plan_that_init_writes(tmp_path, divulge, target, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target.model.save_pretrained("tuned")
    target.tokenizer.save_pretrained("tuned")
    rng = np.random.default_rng(0)
    for name in ("members", "nonmembers", "population"):
        prompts, answers = (
            ["".join(rng.choice(list("abc def gh"), rng.integers(8, 30))) + "." for _ in range(110)] for _ in range(2)
        )
        pairs = enumerate(zip(prompts, answers, strict=True))
        rows = [
            {"id": f"{name}{i}", "messages": [CHAT[1] | {"content": p}, CHAT[2] | {"content": a}]}
            for i, (p, a) in pairs
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = [f"--{name}={name}.jsonl" for name in ("members", "nonmembers", "population")]
    assert divulge("init", ".", "--records=text", "--model=tuned", "--references=0", *files)[0] == 0
    plan = (tmp_path / "plan.toml").read_text()
    assert 'messages = "messages"' in plan
    assert 'tokens = "answer"' in plan
    code, _, shown = divulge("audit", "plan.toml", "--out=run")
    assert code == 0, shown
    assert "chat template" not in shown
    assert (tmp_path / "run" / "report.html").exists()


def test_all_turns_of_the_assistant_are_scored_and_nothing_else(target):
    record = str(dv.from_messages([CHAT]).x[0])
    (document,) = target.encode_documents([record])
    scored = [token for token, is_scored in zip(document.ids, document.in_answer, strict=True) if is_scored]
    assert target.decode(scored) == "hello you<|end|>\nbye you<|end|>\n"
    ids = torch.tensor([document.ids])
    with torch.no_grad():
        logits = target.model(ids).logits[0, :-1].log_softmax(-1)
    naive = logits.gather(1, ids[0, 1:, None])[:, 0].numpy()[document.in_answer[1:]]
    statistics = target.tokens([record, record])
    assert np.allclose(statistics.logp, np.tile(naive, 2), atol=1e-5)
    whole = target.tokens([str(dv.from_messages([CHAT], tokens="all").x[0])])
    assert whole.lengths.tolist() == [len(document.ids) - 1]


@pytest.mark.filterwarnings("ignore")  # of transformers and dill about each other's settings
@pytest.mark.parametrize("packing", ["", "bfd", "wrapped"])
@pytest.mark.parametrize("chat", [False, True])
def test_answers_are_where_trl_puts_the_loss(chat, packing, tmp_path):
    trl = pytest.importorskip("trl", reason="TRL is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    tokenizer = make_tokenizer(MARKED)
    base = make_model(tokenizer)
    prompts, answers = ["hello you ", "hello", "bye " * 20], ["bye<|end|>", " you you<|end|>", "you<|end|>"]
    rows = {"messages": [CHAT, CHAT[1:3]]} if chat else {"prompt": prompts, "completion": answers}
    settings = {"assistant_only_loss": True} if chat else {"completion_only_loss": True}
    if packing:
        settings |= {"packing": True, "packing_strategy": packing}
    length = 60 if packing == "wrapped" else 16  # beyond which wrapped rows go on, and all others are cut off
    arguments = trl.SFTConfig(str(tmp_path), max_length=length, use_cpu=True, report_to=[], bf16=False, **settings)
    data = datasets.Dataset.from_dict(rows)
    trainer = trl.SFTTrainer(base, arguments, train_dataset=data, processing_class=tokenizer)
    learnt = []
    for row in trainer.train_dataset:
        labels = trainer.data_collator([row])["labels"][0].tolist()
        ends = np.cumsum(row["seq_lengths"]) if packing == "bfd" else [len(labels)]
        learnt += [part.tolist() for part in np.split(labels, ends[:-1])]
    records = dv.from_messages(rows["messages"]) if chat else dv.from_prompts(prompts, answers)
    target = dv.targets.CausalLM(base, tokenizer, length=length, truncation="head")
    documents = target.encode_documents(list(records.x))
    own = [[i if s else -100 for i, s in zip(d.ids, d.in_answer, strict=True)] for d in documents]
    if packing == "wrapped":
        assert np.concatenate(own).tolist() == np.concatenate(learnt).tolist()
    else:
        assert sorted(labels for labels in own if max(labels) > -100) == sorted(
            labels for labels in learnt if max(labels) > -100
        )


def test_fine_tuned_references_learn_answers_alone(target):
    fine_tune = dv.references.FineTune(target, count=1, epochs=30, lr=3e-3)
    tuned, tuned_on_all = (
        fine_tune.train_model(dv.from_prompts(["bye bye"] * 4, [" hello"] * 4, tokens=tokens), seed=0)
        for tokens in ("answer", "all")
    )
    answer, prompt = list(dv.from_prompts(["bye bye"], [" hello"]).x), ["bye bye"]
    assert tuned.tokens(answer).logp.mean() > target.tokens(answer).logp.mean() + 1
    assert tuned.tokens(prompt).logp.mean() < tuned_on_all.tokens(prompt).logp.mean() - 0.5


def test_an_answer_beyond_the_window_is_refused(target):
    short = dv.targets.CausalLM(target.model, target.tokenizer, length=16, truncation="head")
    rng = np.random.default_rng(0)
    prompts = ["".join(rng.choice(list("helo by"), 30)) + "." for _ in range(90)]
    records = dv.from_prompts(prompts, [" bye"] * 90)
    with pytest.raises(dv.InputError, match="beyond the 16 tokens"):
        dv.audit(
            short,
            members=records[:30],
            nonmembers=records[30:60],
            population=records[60:],
            recipes=["loss"],
            fpr=[0.1],
            progress=None,
        )


def test_a_leak_in_answers_alone_is_found_and_shown_beside_its_prompt(tmp_path):
    tokenizer = make_tokenizer(PLAIN)
    base = dv.targets.CausalLM(make_model(tokenizer), tokenizer)
    rng = np.random.default_rng(1)
    prompts = ["".join(rng.choice(list("abcdefgh"), 40)) for _ in range(240)]
    records = dv.from_prompts(prompts, rng.choice([" yes", " no!"], 240), ids=[f"r{i}" for i in range(240)])
    members = records[:80]
    tuned = dv.references.FineTune(base, count=1, epochs=40, lr=6e-3, batch_size=16).train_model(members, seed=0)
    results = {}
    for tokens in ("answer", "all"):
        texts = [chats.parse_dialogue(text).turns for text in records.x]
        again = dv.from_prompts(*zip(*[(p.content, a.content) for p, a in texts], strict=True), tokens=tokens)
        results[tokens] = dv.audit(
            tuned, members=again[:80], nonmembers=again[80:160], population=again[160:],
            recipes=["loss", "base-ratio"], fpr=[0.05], progress=None, seed=0,
            references=dv.references.FineTune(base, count=0), out=tmp_path / tokens,
        )  # fmt: skip
    assert results["answer"]["loss"].auc.low > results["all"]["loss"].auc.value
    assert any("these documents are no chats" in warning for warning in results["answer"].about.warnings)
    page = (tmp_path / "answer" / "report.html").read_text()
    assert 'class="unscored"' in page
    assert not any(mark in page for mark in "\ufdd0\ufdd1\ufdd2")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: dv.from_messages([CHAT[:2]]), "no answer"),
        (lambda: dv.from_messages(["hello"]), "list of messages"),
        (lambda: dv.from_messages([[{"role": "user"}]]), "role"),
        (lambda: dv.from_prompts(["a"], []), "1 are needed"),
        (lambda: dv.from_prompts(["a"], [" "]), "no answer"),
        (lambda: dv.from_prompts(["a"], ["b"], tokens="some"), "tokens"),
    ],
)
def test_what_has_no_answer_is_refused(call, named):
    with pytest.raises(dv.InputError, match=named):
        call()


def test_a_tokenizer_without_a_template_reads_no_chats(target):
    bare = make_tokenizer(None)
    with pytest.raises(dv.InputError, match="chat template"):
        dv.targets.CausalLM(target.model, bare).tokens(list(dv.from_messages([CHAT]).x))


def test_extraction_asks_for_the_answer_to_the_prompt(target):
    tuned = dv.references.FineTune(target, count=1, epochs=40, lr=4e-3).train_model(
        dv.from_prompts([f"{i} hello" for i in range(10)], [" bye you"] * 10), seed=0
    )
    members, nonmembers = (
        dv.from_prompts([f"{i} hello" for i in numbers], answers)
        for numbers, answers in ((range(10), [" bye you"] * 10), (range(10, 20), [" you hello"] * 10))
    )
    result = dv.extraction.measure(tuned, members, nonmembers, suffix=5)
    assert result.members.target.verbatim.all()
    assert not result.nonmembers.target.verbatim.any()
    assert set(result.members.suffixes) == {" bye you"}


@pytest.mark.parametrize("tokens", ["answer", "all"])
def test_documents_of_an_identification_are_scored_by_their_answers(tokens, tmp_path, divulge, target, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target.model.save_pretrained("tuned")
    target.tokenizer.save_pretrained("tuned")
    rows = [{"id": f"c{i}", "messages": [CHAT[1], {"role": "assistant", "content": f"bye you {i}"}]} for i in range(9)]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, _, shown = divulge("identify", "score", "chats.jsonl", "--model=tuned", "--out=refused")
    assert code != 0
    assert "--messages" in shown
    columns = ["--messages=messages", f"--tokens={tokens}"]
    code, _, shown = divulge("identify", "score", "chats.jsonl", "--model=tuned", "--out=scores", *columns)
    assert code == 0, shown
    scored = pl.read_parquet("scores/documents/*.parquet")
    expected = target.tokens(list(dv.from_messages([row["messages"] for row in rows], tokens=tokens).x))
    assert scored["tokens"].to_list() == expected.lengths.tolist()
    assert scored["text"][0] == "user: hello\nassistant: bye you 0"


def test_a_list_of_chats_of_unknown_membership_names_those_that_were_used(tmp_path, divulge, target, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    chats_of = [
        [turn | {"content": "".join(rng.choice(list("abcdefgh"), 12))} for turn in CHAT[1:3]] for _ in range(160)
    ]
    tuned = dv.references.FineTune(target, count=1, epochs=80, lr=8e-3, batch_size=16).train_model(
        dv.from_messages(chats_of[:40]), seed=0
    )
    tuned.model.save_pretrained("tuned")
    tuned.tokenizer.save_pretrained("tuned")
    for name, part in {"candidates": chats_of[:80], "population": chats_of[80:]}.items():
        rows = [{"id": f"{name}{i}", "messages": chat} for i, chat in enumerate(part)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plan = 'recipes = ["loss"]\n[target]\nmodel = "tuned"\n[data]\nmessages = "messages"\n'
    plan += 'candidates = "candidates.jsonl"\npopulation = "population.jsonl"\n'
    (tmp_path / "plan.toml").write_text(plan)
    code, _, shown = divulge("identify", "plan.toml", "--fdr=0.2", "--out=run")
    assert code == 0, shown
    listed = pl.read_csv("run/selected.csv")["id"].str.strip_prefix("candidates").cast(int)
    assert (listed < 40).sum() > 25
    assert not any(mark in (tmp_path / "run" / "report.html").read_text() for mark in "\ufdd0\ufdd1\ufdd2")
