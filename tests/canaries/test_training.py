"""Canaries in a training that runs here: inserted, checked before the first step, scored, and proven."""

import re

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import divulge as dv

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

# peft 0.21 reads a property that transformers 5.24 calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")

WORDS = [f"w{i}" for i in range(100)]
LEARNED = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj", "lm_head"]
CHAT = (
    "{% for m in messages %}<s> {{ m.role }} {% generation %}{{ m.content }} </s>{% endgeneration %}{% endfor %}"
    "{% if add_generation_prompt %}<s> assistant {% endif %}"
)


def draw_words(n, seed):
    return " ".join(np.random.default_rng(seed).choice(WORDS, n))


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "user", "assistant", *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", pad_token="<pad>", eos_token="</s>"
    )
    made.chat_template = CHAT
    return made


@pytest.fixture
def rows(tokenizer):
    return [{"input_ids": [0, *tokenizer(draw_words(10, i))["input_ids"]]} for i in range(60)]


def language_model(**settings):
    torch.manual_seed(0)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=105, max_position_embeddings=128, **shape | settings)
    return transformers.LlamaForCausalLM(config)


def with_adapter():
    return peft.get_peft_model(language_model(), peft.LoraConfig(r=32, lora_alpha=32, target_modules=LEARNED))


def make_trainer(data, tokenizer, folder, *, model=None, collator=None, callbacks=(), **settings):
    options = {
        "num_train_epochs": 12,
        "per_device_train_batch_size": 16,
        "learning_rate": 5e-3,
        "use_cpu": True,
        "report_to": "none",
        "logging_strategy": "no",
        "save_strategy": "no",
        "disable_tqdm": True,
        "lr_scheduler_type": "constant",
    }
    return transformers.Trainer(
        language_model() if model is None else model,
        transformers.TrainingArguments(folder, **options | settings),
        train_dataset=data,
        eval_dataset=data[:8],
        data_collator=collator or transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )


class Tracker(transformers.TrainerCallback):
    """What W&B, MLflow and TensorBoard are to a trainer; closed when training ends, as they are."""

    def __init__(self):
        self.logged, self.is_open = [], True

    def on_log(self, args, state, control, logs=None, **kwargs):
        assert self.is_open
        self.logged.append(dict(logs))

    def on_train_end(self, args, state, control, **kwargs):
        self.is_open = False


class TestTrainer:
    def test_an_adapter_that_learns_canaries_by_heart_gives_them_away(self, rows, tokenizer, tmp_path, capsys):
        callback, tracker = dv.canaries.TrainerCallback(60, seed=0, out=tmp_path / "run"), Tracker()
        data = callback.insert(rows)
        trainer = make_trainer(data, tokenizer, tmp_path, model=with_adapter(), callbacks=[tracker])
        callback.attach(trainer)
        trainer.train()
        assert callback.result.epsilon.low > 1
        assert [logs["divulge/epsilon"] for logs in tracker.logged if "divulge/epsilon" in logs] == callback.history[
            "divulge/epsilon"
        ].to_list()
        assert callback.history["divulge/auc_low"][-1] > 0.8
        run = dv.load(tmp_path / "run")
        assert run.summary.bound.low == callback.result.epsilon.low
        assert run.summary.trained_on == 60
        assert not {"coins", "included"} & set(capsys.readouterr().out.split())

    def test_each_evaluation_is_measured_and_kept_without_attaching(self, rows, tokenizer, tmp_path):
        callback = dv.canaries.TrainerCallback(60, seed=0)
        settings = {"eval_strategy": "steps", "eval_steps": 2, "max_steps": 5, "gradient_accumulation_steps": 2}
        trainer = make_trainer(callback.insert(rows), tokenizer, tmp_path, callbacks=[callback], **settings)
        trainer.train()
        assert [entry["step"] for entry in trainer.state.log_history if "divulge/auc" in entry] == [2, 4, 5]

    def test_training_is_the_same_as_without_measuring(self, rows, tokenizer, tmp_path):
        def train(attach):
            callback = dv.canaries.TrainerCallback(20, seed=0)
            model = language_model(attention_dropout=0.3)
            trainer = make_trainer(callback.insert(rows), tokenizer, tmp_path, model=model, num_train_epochs=2)
            if attach:
                callback.attach(trainer)
            trainer.train()
            return trainer.model.lm_head.weight.detach().numpy()

        assert (train(True) == train(False)).all()

    def test_a_training_that_is_resumed_has_the_same_coins_and_evaluations(self, rows, tokenizer, tmp_path):
        def start():
            callback = dv.canaries.TrainerCallback(20, out=tmp_path / "run")  # coins from the system's entropy
            data = callback.insert(rows)
            trainer = make_trainer(data, tokenizer, tmp_path, num_train_epochs=3, save_strategy="epoch")
            callback.attach(trainer)
            return callback, data, trainer

        first, data, trainer = start()
        trainer.train()
        second, again, trainer = start()
        assert again == data
        after_one_epoch = min(tmp_path.glob("checkpoint-*"), key=lambda folder: int(folder.name.split("-")[1]))
        trainer.train(resume_from_checkpoint=str(after_one_epoch))
        assert len(second.history) == 2 * len(first.history) - 1
        assert (second.result.included == first.result.included).all()
        _, _, trainer = start()
        with pytest.raises(dv.InputError, match="looked at"):
            trainer.train()
        with pytest.raises(dv.InputError, match="other data"):
            dv.canaries.TrainerCallback(30, out=tmp_path / "run").insert(rows)


class TestBeforeTheFirstStep:
    """What would keep canaries from being learnt stops training, with the reason and the number of canaries."""

    def refuse(self, trainer, callback, *words):
        callback.attach(trainer)
        with pytest.raises(dv.InputError) as error:
            trainer.train()
        assert trainer.state.global_step == 0
        assert all(word in str(error.value) for word in words), error.value

    def insert(self, rows):
        callback = dv.canaries.TrainerCallback(20, seed=0)
        data = callback.insert(rows)
        return callback, data, len(data) - len(rows)

    def test_masked(self, rows, tokenizer, tmp_path):
        callback, data, n = self.insert(rows)

        def mask(batch):
            made = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)(batch)
            return made | {"labels": torch.where(torch.arange(made["labels"].shape[1]) > 3, -100, made["labels"])}

        trainer = make_trainer(data, tokenizer, tmp_path, collator=mask)
        self.refuse(trainer, callback, f"{n} of {n} inserted", f"{n} masked")

    def test_truncated(self, rows, tokenizer, tmp_path):
        callback, data, n = self.insert(rows)
        cut = [{"input_ids": row["input_ids"][: 4 if i >= len(rows) + 3 else None]} for i, row in enumerate(data)]
        # Rows that are cut one by one, and not by a length that all have, look like rows of other data.
        self.refuse(make_trainer(cut, tokenizer, tmp_path), callback, f"{n - 3} of {n} inserted")
        callback, data, n = self.insert(rows)
        cut = [{"input_ids": row["input_ids"][:4]} for row in data]
        self.refuse(make_trainer(cut, tokenizer, tmp_path), callback, f"{n} truncated", "4 tokens")

    def test_filtered_out(self, rows, tokenizer, tmp_path):
        callback, data, n = self.insert(rows)
        self.refuse(make_trainer(data[:-4], tokenizer, tmp_path), callback, f"4 of {n} inserted", "4 missing")

    @pytest.mark.parametrize("adapter", ["none", "disabled", "elsewhere"])
    def test_frozen(self, adapter, rows, tokenizer, tmp_path):
        callback, data, n = self.insert(rows)
        model = with_adapter() if adapter == "disabled" else language_model()
        model.requires_grad_(False)
        if adapter == "disabled":
            model.add_adapter("unused", peft.LoraConfig(r=4, target_modules=["q_proj"]))
            for name, parameter in model.named_parameters():
                parameter.requires_grad_("unused" in name)
        if adapter == "elsewhere":
            model.register_parameter("spare", torch.nn.Parameter(torch.zeros(3)))
        self.refuse(make_trainer(data, tokenizer, tmp_path, model=model), callback, "frozen", str(n))

    def test_left_out_and_in_the_data_all_the_same(self, rows, tokenizer, tmp_path):
        callback = dv.canaries.TrainerCallback(20, seed=0, out=tmp_path / "run")
        data = callback.insert(rows)
        secret = np.load(tmp_path / "run" / "secret" / "canaries.npz")
        left_out = secret["x"][~secret["included"]][:3]
        added = [*data, *({"input_ids": list(map(int, re.findall(r"\d+", ids)))} for ids in left_out)]
        self.refuse(make_trainer(added, tokenizer, tmp_path), callback, "3 canaries that were left out")

    def test_a_model_that_was_trained_on_other_rows_than_insert_returned(self, rows, tokenizer, tmp_path):
        callback, _, n = self.insert(rows)
        self.refuse(make_trainer(rows, tokenizer, tmp_path), callback, f"{n} missing")


@pytest.mark.filterwarnings("ignore")  # of TRL and transformers about each other's settings
class TestSFTTrainer:
    """The trainer of TRL, which tokenizes, masks, truncates and packs rows when it is made."""

    def train(self, tokenizer, folder, **settings):
        trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
        rows = [{"prompt": draw_words(5, i) + " ", "completion": draw_words(10, i + 500)} for i in range(60)]
        callback = dv.canaries.TrainerCallback(60, seed=1)
        data = callback.insert(datasets.Dataset.from_list(rows))
        options = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "learning_rate": 5e-3, "bf16": False}
        trainer = trl.SFTTrainer(
            language_model(),
            trl.SFTConfig(folder, num_train_epochs=8, lr_scheduler_type="constant", **options | settings),
            train_dataset=data,
            processing_class=tokenizer,
        )
        callback.attach(trainer)
        trainer.train()
        return callback

    @pytest.mark.parametrize("packing", [False, True])
    def test_canaries_that_are_learnt_by_heart_are_given_away(self, packing, tokenizer, tmp_path):
        assert self.train(tokenizer, tmp_path, packing=packing, max_length=40).history["divulge/auc_low"][-1] > 0.5

    def test_canaries_that_are_packed_away_or_cut_off_stop_training(self, tokenizer, tmp_path):
        with pytest.raises(dv.InputError, match=r"inserted canaries would not be learnt.*packing"):
            self.train(tokenizer, tmp_path, packing=True, max_length=8)
        with pytest.raises(dv.InputError, match=r"inserted canaries would not be learnt.*truncated"):
            self.train(tokenizer, tmp_path, max_length=8)


@pytest.mark.parametrize(
    "row",
    [
        lambda i: draw_words(12, i),
        lambda i: {"text": draw_words(12, i), "source": "a"},
        lambda i: {"prompt": draw_words(4, i) + " ", "completion": draw_words(12, -i % 997)},
        lambda i: {"messages": [{"role": "user", "content": "w1"}, {"role": "assistant", "content": draw_words(9, i)}]},
        lambda i: [{"role": "user", "content": "w1"}, {"role": "assistant", "content": draw_words(9, i)}],
        lambda i: {"conversations": [{"from": "human", "value": "w1"}, {"from": "gpt", "value": draw_words(9, i)}]},
        lambda i: {"input_ids": [0, 7, 8, *range(20, 30)], "labels": [-100, -100, -100, *range(20, 30)], "length": 13},
    ],
    ids=["texts", "text", "prompt and completion", "messages", "chats", "conversations", "tokens"],
)
def test_canaries_have_the_form_of_the_rows(row, tokenizer):
    rows = [row(i) for i in range(40)]
    monitor = dv.canaries.Monitor(20, seed=0)
    data = monitor.insert(rows)
    inserted = data[len(rows) :]
    assert data[: len(rows)] == rows
    assert 0 < len(inserted) < 20
    assert all(type(each) is type(rows[0]) for each in inserted)
    if isinstance(rows[0], dict):
        assert all(each.keys() == rows[0].keys() for each in inserted)
        assert all(
            each["length"] == len(each["input_ids"]) == len(each["labels"]) for each in inserted if "length" in each
        )
    model = language_model()
    batches = [encode(row, tokenizer) for row in data]
    monitor.check(batches, model, tokenizer=tokenizer)
    with pytest.raises(dv.InputError, match=f"1 of {len(inserted)} inserted canaries would not be learnt: 1 missing"):
        monitor.check(batches[:-1], model, tokenizer=tokenizer)
    assert set(monitor.measure(model)) > {"divulge/epsilon", "divulge/auc"}


def encode(row, tokenizer):
    """As a loop of one's own may: one batch per row, with all tokens as labels."""
    if isinstance(row, dict) and "input_ids" in row:
        return {name: torch.tensor([row[name]]) for name in ("input_ids", "labels")}
    if isinstance(row, dict) and "conversations" in row:
        row = [
            {"role": {"human": "user"}.get(m["from"], "assistant"), "content": m["value"]} for m in row["conversations"]
        ]
    chat = row.get("messages") if isinstance(row, dict) else row
    if isinstance(chat, list):
        text = tokenizer.apply_chat_template(chat, tokenize=False)
    else:
        text = row if isinstance(row, str) else row.get("text") or row["prompt"] + row["completion"]
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    return {"input_ids": ids, "labels": ids}


class TestPlainLoop:
    def test_a_network_gives_away_more_each_epoch(self, tmp_path):
        rng = np.random.default_rng(0)
        x, y = torch.tensor(rng.normal(size=(100, 40)), dtype=torch.float32), torch.tensor(rng.integers(0, 2, 100))
        members, nonmembers = dv.Records(x, y), dv.Records(rng.normal(size=(100, 40)), rng.integers(0, 2, 100))
        monitor = dv.canaries.Monitor(
            80, kind="random", members=members, nonmembers=nonmembers, seed=0, out=tmp_path / "run"
        )
        data = monitor.insert(torch.utils.data.TensorDataset(x, y))
        loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        monitor.check(loader, model, optimizer=optimizer)
        for epoch in range(20):
            for batch_x, batch_y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(batch_x), batch_y).backward()
                optimizer.step()
            monitor.measure(model, step=epoch)
        history, result = monitor.history, monitor.finish()
        assert model.training
        assert history["divulge/members_auc"][-1] > 0.8 > history["divulge/members_auc"][0]
        assert 0.3 < history["divulge/blind_auc"][-1] < 0.7
        assert result.epsilon.low > 1
        assert dv.load(tmp_path / "run").summary.bound.low == result.epsilon.low

    def test_records_that_are_missing_or_left_out_are_refused(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(50, 4)), rng.integers(0, 2, 50)
        monitor = dv.canaries.Monitor(20, kind="random", seed=0)
        with_canaries = monitor.insert((x, y))
        monitor.check(with_canaries)
        with pytest.raises(dv.InputError, match="not be learnt"):
            monitor.check((x, y))
        frozen = torch.nn.Linear(4, 2).requires_grad_(False)
        with pytest.raises(dv.InputError, match="frozen"):
            monitor.check(with_canaries, frozen)

    def test_a_learner_that_never_sees_them_is_seldom_said_to_give_them_away(self):
        # Bounds hold with 95 %: of 40 learners that leak nothing, more than 7 would prove something by chance with
        # probability 1e-3 were each bound off by all that it may be.
        n_last = n_ever = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            x, y = rng.normal(size=(40, 5)), rng.integers(0, 2, 40)
            monitor = dv.canaries.Monitor(60, kind="random", seed=seed)
            monitor.insert((x, y))
            model = SGDClassifier(loss="log_loss", random_state=seed)
            looks = [monitor.measure(model.partial_fit(x, y, classes=[0, 1])) for _ in range(4)]
            n_last += looks[-1]["divulge/epsilon"] > 0
            n_ever += looks[-1]["divulge/epsilon_so_far"] > 0
        assert max(n_last, n_ever) <= 7

    def test_canaries_are_inserted_once_and_before_anything_else(self):
        monitor = dv.canaries.Monitor(20, seed=0)
        with pytest.raises(dv.InputError, match="insert"):
            monitor.measure(None)
        data = (np.arange(40.0).reshape(20, 2), np.arange(20) % 2)
        monitor.insert(data)
        with pytest.raises(dv.InputError, match="already"):
            monitor.insert(data)
        with pytest.raises(dv.InputError, match="measure"):
            monitor.finish()


def test_two_trainings_in_one_directory_do_not_mix(tmp_path):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 20)), rng.integers(0, 2, 60)

    def begin(**options):
        monitor = dv.canaries.Monitor(30, kind="random", out=tmp_path / "run", **options)
        x, y = monitor.insert(data)
        return monitor, SGDClassifier(loss="log_loss", random_state=0).fit(x, y)

    first, first_model = begin(seed=1)
    second, second_model = begin(seed=2, overwrite=True)
    second.measure(second_model)
    expected = second.finish()
    first.measure(first_model)
    assert any("Another training" in note for note in first.finish().warnings)
    with np.load(tmp_path / "run" / "scores.npz") as written:
        np.testing.assert_array_equal(written["scores"], expected.scores)
