"""Fine-tuned reference models: the same models from every engine, from the pool, and as a naive loop makes them."""

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import divulge as dv  # noqa: E402
from divulge.references import (  # noqa: E402
    FineTune,
    LoRA,
    engines,
    fine_tuning,
    fitting,
    matching,
    splits,
)
from divulge.references.pool import Pool  # noqa: E402


@pytest.fixture(scope="module")
def documents(sets):
    return sets["population"][:40]


@pytest.fixture(scope="module")
def halves(documents):
    return splits.offline(len(documents), 4, 0)


def fitted(config, documents, halves, **more):
    return config.fit(documents, halves, seed=3, observe=[documents], **more)


class TestModels:
    def test_training_documents_become_likelier(self, base, tuning, documents, halves):
        trained = fitted(tuning(base), documents, halves)
        logs, lengths = trained.outputs[0], base.tokens(list(documents.x)).lengths
        assert logs.shape == (4, lengths.sum())
        assert logs.dtype == np.float32
        inside = np.repeat(trained.trained_on, lengths, axis=1)
        assert logs[inside].mean() > logs[~inside].mean() + 0.5

    def test_equals_a_naive_loop(self, base, tuning, documents):
        """One batch per epoch, so that no order is drawn; no dropout."""
        config = tuning(base, batch_size=64, epochs=3, schedule="constant", weight_decay=0.1)
        undropped = copy.deepcopy(base.model)
        for part in undropped.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        plain = dv.targets.CausalLM(undropped, base.tokenizer, bos="add")
        tuned = fine_tuning.LoadedFineTune(FineTune(plain, epochs=3, lr=5e-3, batch_size=64, schedule="constant",
                                          weight_decay=0.1)).train_model(documents, seed=0)  # fmt: skip
        assert config.learning_rate == 5e-3
        model = copy.deepcopy(undropped).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
        encoded = base.encoded(list(documents.x))
        for _ in range(3):
            optimizer.zero_grad()
            losses = []
            for ids in encoded:
                row = torch.tensor([ids])
                logits = model(input_ids=row).logits[0, :-1]
                losses.append(torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="none"))
            torch.cat(losses).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        expected = dv.targets.CausalLM(model, base.tokenizer, bos="add").tokens(list(documents.x), vocabulary=False)
        tokens = tuned.tokens(list(documents.x), vocabulary=False)
        assert np.allclose(tokens.logp, expected.logp, atol=2e-3)

    def test_the_base_is_left_as_it_was(self, base, tuning, documents, halves):
        before = {name: value.clone() for name, value in base.model.state_dict().items()}
        fitted(tuning(base, epochs=1), documents, halves)
        assert all(torch.equal(value, before[name]) for name, value in base.model.state_dict().items())
        assert not base.model.training

    def test_long_documents_are_trained_on_in_stretches(self):
        assert fine_tuning.split_stretches(list(range(7)), 3) == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
        assert fine_tuning.split_stretches([5], 3) == []
        assert fine_tuning.split_stretches([5, 6], 3) == [[5, 6]]

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_a_base_in_half_precision(self, base, tuning, documents, dtype):
        """Asked in its own precision, trained in single."""
        half = dv.targets.CausalLM(copy.deepcopy(base.model).to(dtype), base.tokenizer, bos="add")
        single = tuning(base, epochs=2).train_model(documents, seed=0).tokens(list(documents.x), vocabulary=False).logp
        model = tuning(half, epochs=2).train_model(documents, seed=0)
        assert model.model.dtype == dtype
        assert abs(model.tokens(list(documents.x), vocabulary=False).logp - single).mean() < 0.05

    @pytest.mark.parametrize("method", ["full", "lora"])
    def test_lora_and_full(self, base, tuning, documents, method):
        if method == "lora":
            pytest.importorskip("peft")
        config = tuning(base, lora=LoRA(rank=4) if method == "lora" else None, lr=2e-2 if method == "lora" else 5e-3)
        model = config.train_model(documents, seed=0)
        mean_logs = [each.tokens(list(documents.x), vocabulary=False).logp.mean() for each in (base, model)]
        assert mean_logs[1] > mean_logs[0] + 0.03
        assert type(model.model) is type(base.model)


class TestEngines:
    def test_same_bits(self, folder, tuning, documents, halves):
        config = tuning(str(folder), epochs=2, bos="add")
        in_process = fitted(config, documents, halves).outputs[0]
        spread = fitted(tuning(str(folder), epochs=2, bos="add", engine="processes", workers=2), documents, halves)
        assert np.array_equal(spread.outputs[0], in_process)

    def test_models_do_not_depend_on_their_number(self, base, tuning, documents, halves):
        all_four = fitted(tuning(base, epochs=1), documents, halves).outputs[0]
        two = fitted(tuning(base, epochs=1, count=2), documents, halves.trained_on[:2]).outputs[0]
        assert np.array_equal(all_four[:2], two)

    def test_another_seed_is_another_model(self, base, tuning, documents, halves):
        config = tuning(base, epochs=1)
        other_seed = config.fit(documents, halves, seed=4, observe=[documents]).outputs[0]
        assert not np.array_equal(other_seed, fitted(config, documents, halves).outputs[0])


class TestPool:
    def test_resumes_after_a_stop(self, base, tuning, documents, halves, tmp_path):
        """Stopped at the third model; the two that were finished are not trained again."""
        config, expected = tuning(base, epochs=1), None

        def stop(n_done, total, note):
            if n_done >= 2.5 or (n_done > 2 and n_done != int(n_done)):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            config.fit(
                documents, halves, seed=3, observe=[documents], pool=tmp_path,
                progress=lambda n_done, total, note: stop(n_done + 0.5 if n_done == 2 else n_done, total, note),
            )  # fmt: skip
        repeat = fitted(config, documents, halves, pool=tmp_path)
        assert repeat.reused >= 1
        expected = fitted(config, documents, halves)
        assert np.array_equal(repeat.outputs[0], expected.outputs[0])
        third = fitted(config, documents, halves, pool=tmp_path)
        assert third.reused == 4

    @pytest.mark.parametrize("change", [{"lr": 1e-3}, {"lora": LoRA()}])
    def test_other_settings_are_other_models(self, base, tuning, documents, halves, tmp_path, change):
        if "lora" in change:
            pytest.importorskip("peft")
        fitted(tuning(base, epochs=1), documents, halves, pool=tmp_path)
        assert fitted(tuning(base, **{"epochs": 1} | change), documents, halves, pool=tmp_path).reused == 0

    def test_another_base_is_another_model(self, base, tuning, target, documents, halves, tmp_path):
        fitted(tuning(base, epochs=1), documents, halves, pool=tmp_path)
        assert fitted(tuning(target, epochs=1), documents, halves, pool=tmp_path).reused == 0


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"count": -1}, "count"),
            ({"epochs": 0}, "epochs"),
            ({"lr": -1.0}, "lr"),
            ({"lr": np.nan}, "lr"),
            ({"batch_size": 0}, "batch_size"),
            ({"schedule": "step"}, "schedule"),
            ({"warmup": 1.0}, "warmup"),
            ({"engine": "stacked"}, "engine"),
            ({"base": 3}, "base"),
            ({"bos": "both"}, "bos"),
            ({"length": 1}, "length"),
            ({"lora": 8}, "lora"),
        ],
    )
    def test_settings(self, change, says):
        with pytest.raises(dv.InputError, match=says):
            FineTune(**{"base": "base/"} | change)

    @pytest.mark.parametrize("change", [{"rank": 0}, {"alpha": 0.0}, {"dropout": 1.0}, {"modules": (3,)}])
    def test_adapters(self, change):
        with pytest.raises(dv.InputError, match=rf"LoRA\.{next(iter(change))}"):
            LoRA(**change)

    def test_numbers_are_no_documents(self, base, tuning):
        with pytest.raises(dv.InputError, match="documents"):
            tuning(base).fit(dv.Records([[0.0], [1.0]]), np.ones((4, 2), bool), seed=0)

    def test_no_such_base(self, documents, halves):
        with pytest.raises(dv.InputError, match="cannot be loaded"):
            fitted(FineTune("nowhere/"), documents, halves)

    def test_a_layer_that_is_not_there(self, base, tuning, documents):
        pytest.importorskip("peft")
        with pytest.raises(dv.InputError, match=r"LoRA\.modules"):
            tuning(base, lora=LoRA(modules=("nothing",))).train_model(documents, seed=0)

    def test_a_loss_that_explodes(self, base, tuning, documents):
        with pytest.raises(dv.InputError, match="lr"):
            tuning(base, lr=1e30, epochs=3).train_model(documents, seed=0)


@pytest.mark.parametrize("adapted", [False, True])
def test_logits_made_some_at_a_time_give_the_gradients_of_all_at_once(base, monkeypatch, adapted):
    monkeypatch.setattr(fine_tuning, "_LOGITS", 42 * 7)  # seven tokens at a time
    model = copy.deepcopy(base.model)
    if adapted:
        peft = pytest.importorskip("peft")
        torch.manual_seed(0)
        lora = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
        with warnings.catch_warnings(action="ignore"):  # of what peft asks transformers, some is deprecated there
            model = peft.get_peft_model(model, lora)
    lesson = fine_tuning.NextTokenLoss.from_model(model)
    assert lesson.inner is not None
    batch = [[2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [5, 4, 3], [12, 13, 14, 15, 16, 17]]
    losses, gradients = [], []
    for each in (lesson, fine_tuning.NextTokenLoss(model, None)):
        model.zero_grad()
        losses.append(each(batch).item())
        gradients.append([w.grad.clone() for w in model.parameters() if w.requires_grad])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for ours, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("match", "settings"),
    [
        ({"epochs": [1, 3]}, {"warmup": 0.5}),
        ({"stop_after": [1, 3], "epochs": [3]}, {"warmup": 0.5}),
        ("auto", {"warmup": 0.0}),
    ],
)
def test_what_a_search_stores_is_what_a_training_of_that_setting_makes(
    base, tuning, target, sets, match, settings, tmp_path, monkeypatch
):
    """Warm-up is a share of all steps: an epoch of a longer training is no shorter training."""
    config = tuning(base, count=2, epochs=2, schedule="constant", match=match, **settings)
    stored = []
    put = Pool.put

    def remember(pool, key, arrays, about):
        stored.append((about, arrays["0"]))
        return put(pool, key, arrays, about)

    monkeypatch.setattr(Pool, "put", remember)
    documents = sets["population"]
    loaded, rows = config.load_base(), splits.offline(60, 2, 0, candidates=np.arange(60) >= 40)
    request = fitting.TrainingRequest(
        documents[:60], rows.trained_on, (documents[:10],), None, 0, tmp_path, None, None
    )  # fmt: skip

    def measure(model, records):
        texts = list(records.x)
        tokens = model.tokens(texts, vocabulary=False)
        return np.add.reduceat(tokens.logp, tokens.offsets[:-1])

    held_out = documents[40:60]
    goal = matching.MatchGoal(held_out, measure(target, held_out), measure)
    match_result = matching.match_settings(loaded, request, rows, 3, goal)
    monkeypatch.setattr(Pool, "put", put)
    assert stored
    for about, logp in stored:
        how = about["how"]
        changes = {name: int(how[name]) for name in ("epochs", "stop_after") if name in how}
        with engines.limit_to_one_thread():
            fresh = loaded.with_settings(match=None, lr=float(how["lr"]), **changes).fit(
                documents[:60], rows, seed=3, observe=[documents[:10]]
            )
        np.testing.assert_allclose(logp, fresh.outputs[0][about["model"]], atol=1e-4)
    assert match_result.training.config.match is None
