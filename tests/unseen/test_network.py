"""Neural regressors: they learn what is there to learn, the same way each time, and say when they cannot."""

import json

import numpy as np
import pytest

import divulge as dv
from divulge import Evidence, InputError, lazy
from divulge.attacks import QuantileRegression, regressors
from divulge.attacks.protocol import check_installed
from divulge.recipes import Quantile, Recipe, resolve
from divulge.regressors import Network, bodies, network

SAMPLE = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)


def signal(x, seed=1):
    """Mean and spread both depend on the features."""
    noise = np.random.default_rng(seed).normal(size=len(x))
    return 3 + 2 * x[:, 0] + np.exp(0.5 * x[:, 1]) * noise


@pytest.mark.parametrize("head", ["gaussian", "pinball"])
def test_a_network_learns_location_scale_and_a_rate_close_to_nominal(head):
    fitted = Network(bodies.MLP((32,)), head=head, epochs=12, lr=1e-2).fit(SAMPLE, signal(SAMPLE))
    fresh = np.random.default_rng(2).normal(size=(4000, 4)).astype(np.float32)
    location, scale = fitted.predict(fresh)
    assert np.corrcoef(location, fresh[:, 0])[0, 1] > 0.9
    assert np.corrcoef(np.log(scale), fresh[:, 1])[0, 1] > 0.8
    upper = fitted.quantiles(fresh)[:, -2]
    # Nominal 5 %; the fit, not chance, decides how close: 4,000 records alone give ±0.7 %.
    assert 0.015 < (signal(fresh, 3) > upper).mean() < 0.1
    assert fitted.embed(fresh).shape == (4000, 32)


def test_quantiles_never_cross():
    fitted = Network(head="pinball", epochs=2).fit(SAMPLE, signal(SAMPLE))
    distant = 50 * np.random.default_rng(4).normal(size=(200, 4)).astype(np.float32)
    assert (np.diff(fitted.quantiles(distant), axis=1) >= 0).all()


def test_the_seed_decides_everything():
    config = Network(epochs=2)
    predictions, repeated, other_seed = (
        config.fit(SAMPLE, signal(SAMPLE), seed=s).predict(SAMPLE)[0] for s in (0, 0, 1)
    )
    assert (predictions == repeated).all()
    assert (predictions != other_seed).any()


def test_training_stops_early_and_keeps_the_best_pass():
    noise = np.random.default_rng(5).normal(size=200)
    fitted = Network(epochs=60, lr=0.01, patience=3).fit(SAMPLE[:200], noise)
    assert 1 <= fitted.epochs < 57


def test_with_nothing_held_out_it_keeps_the_last_pass():
    noise = np.random.default_rng(5).normal(size=200)
    fitted = Network(epochs=7, lr=0.01, patience=1, held=0).fit(SAMPLE[:200], noise)
    assert fitted.epochs == 7


def test_a_network_that_diverges_gives_way_to_one_location_and_scale_and_says_so():
    wild = signal(SAMPLE).astype(np.float64)
    evidence = Evidence(target=wild[:50], features=SAMPLE[:50], population=wild[50:], population_features=SAMPLE[50:])
    attack = QuantileRegression(Network(lr=1e30, epochs=2), conformal=False)
    scored = attack.run(evidence)
    assert "diverged" in scored.notes[0]
    plain = QuantileRegression(regressors.Marginal(), conformal=False).score(evidence)
    assert np.allclose(scored.scores, plain)


def test_equal_signals_are_no_error():
    fitted = Network(epochs=1).fit(SAMPLE[:100], np.full(100, 2.0))
    location, scale = fitted.predict(SAMPLE[:5])
    assert np.isfinite(location).all()
    assert (scale > 0).all()


@pytest.mark.parametrize(
    ("body", "records"),
    [
        (bodies.SmallCNN(4), np.random.default_rng(0).random((40, 12, 12))),
        (bodies.SmallCNN(4), np.random.default_rng(0).random((40, 12, 12, 3))),
        (bodies.TextBag(16, 50, 8, (8,)), np.array([f"word{i % 3} and more" for i in range(39)] + [""], dtype=object)),
        (bodies.MLP((8,)), np.random.default_rng(0).random((40, 3, 3))),
    ],
)
def test_every_kind_of_record_has_a_body(body, records):
    fitted = Network(body, epochs=1).fit(records, np.arange(40.0))
    location, scale = fitted.predict(records[:3])
    assert location.shape == scale.shape == (3,)
    assert (scale > 0).all()
    assert len(fitted.embed(records)) == 40


def test_backbones_come_from_their_configurations():
    pytest.importorskip("transformers")
    images = np.random.default_rng(0).random((10, 8, 8, 3)).astype(np.float32)
    fitted = Network(bodies.Backbone("vit-tiny", size=32), epochs=1, batch_size=8).fit(images, np.arange(10.0))
    assert np.isfinite(fitted.predict(images)[0]).all()
    classifier = bodies.Backbone("resnet-18", size=32).classifier(3, 5)
    import torch

    assert classifier(torch.from_numpy(images).movedim(-1, 1)).shape == (10, 5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Network(head="median"), "head"),
        (lambda: Network(levels=(0.9, 0.1)), "increasing"),
        (lambda: Network(lr=0), "lr"),
        (lambda: Network().fit(SAMPLE[:5], np.arange(5.0)), "at least 10 records"),
        (lambda: Network().fit(np.array(["a"] * 20, dtype=object), np.arange(20.0)), "use TextBag"),
        (lambda: Network(bodies.TextBag()).fit(SAMPLE[:20], np.arange(20.0)), "texts are needed"),
        (lambda: Network(bodies.SmallCNN()).fit(SAMPLE[:20], np.arange(20.0)), "images"),
        (lambda: Network().fit(np.empty((20, 0)), np.arange(20.0)), "no features"),
        (lambda: bodies.Backbone("resnet-19"), "did you mean"),
        (lambda: bodies.Backbone(size=32, weights="/nowhere").build(np.zeros((1, 3, 8, 8))), "holds no weights"),
    ],
)
def test_bad_settings_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


RECORDS = {
    "rows": np.random.default_rng(0).normal(size=(60, 5)),
    "images": np.random.default_rng(0).random((60, 8, 8, 3)),
    "texts": np.array([f"word{i % 7} and more" for i in range(60)], dtype=object),
}


@pytest.mark.parametrize(("name", "signal"), [("quantile", "hinge"), ("quantile-gap", "top-two-gap")])
def test_the_recipes_with_the_papers_names_are_the_papers(name, signal):
    recipe = resolve(name)
    regressor = recipe.attack.regressor
    assert recipe.signal == signal
    assert (regressor.head, regressor.epochs, regressor.lr, regressor.batch_size) == ("gaussian", 30, 1e-4, 16)
    assert (regressor.held, regressor.weight_decay) == (0, 0)  # no early stopping
    for records, width in (("rows", 5), ("images", 192), ("texts", 128)):
        module = regressor.body.build(regressor.body.prepare(RECORDS[records]))
        linear = [part.in_features for part in module if hasattr(part, "in_features")]
        assert linear == [width, 256]
        assert module[-2].out_features == 128
    assert "trees" in resolve(f"{name}-trees").summary
    assert isinstance(resolve(f"{name}-trees").attack.regressor, regressors.Boosted)


def test_in_an_audit_the_network_reads_the_records_themselves_and_trees_their_features():
    rng = np.random.default_rng(0)
    features_seen = {}

    class Watching(Network):
        def fit(self, features, signal, seed=0):
            features_seen["network"] = features
            return regressors.Marginal().fit(features, signal)

    class Recording(regressors.Marginal):
        def fit(self, features, signal):
            features_seen["features"] = features
            return regressors.Marginal().fit(features, signal)

    x = rng.normal(size=(140, 60))
    sets = {name: dv.Records(x[a:b], rng.integers(0, 2, b - a)) for name, a, b in
            (("members", 0, 30), ("nonmembers", 30, 60), ("population", 60, 140))}  # fmt: skip
    recipes = [
        Recipe(name, "hinge", QuantileRegression(regressor, conformal=False), features=True)
        for name, regressor in (("records", Watching()), ("columns", Recording()))
    ]
    dv.audit(lambda rows: np.stack([rows[:, 0], -rows[:, 0]], axis=1), **sets, recipes=recipes, fpr=(0.1,))
    assert features_seen["network"].shape[1] == 60
    assert {tuple(row) for row in features_seen["network"]} <= {tuple(row) for row in x[60:]}
    assert features_seen["features"].shape[1] == 48


def test_a_pretrained_body_is_fine_tuned_whatever_unit_and_channels_images_have(tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    config = transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], image_size=32)
    transformers.ConvNextModel(config).save_pretrained(tmp_path)
    attack = Quantile(weights=str(tmp_path)).recipe().attack
    check_installed(attack)
    images = RECORDS["images"]
    for records in (images, 255 * images, images.mean(axis=3)):
        body = attack.regressor.body
        built = body.build(body.prepare(records))
        assert type(built.body.model).__name__ == "ConvNextModel"
        fitted = Network(body, epochs=1, batch_size=16).fit(records, np.arange(60.0))
        assert np.isfinite(fitted.predict(records[:3])[0]).all()
    assert not attack.regressor.notes(images)
    assert "rows of pixels" in Network.published().notes(images)[0]


@pytest.mark.parametrize(
    ("config", "weights", "message"),
    [
        (None, False, "holds no config.json"),
        ({"model_type": "gpt2"}, True, "model_type: 'gpt2' is unknown"),
        ([], True, "holds no config.json"),
        ({"model_type": "convnext"}, False, "holds no model.safetensors"),
    ],
)
def test_weights_that_are_not_there_are_named_before_work_starts(tmp_path, config, weights, message):
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    if weights:
        (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=message):
        check_installed(Quantile(weights=str(tmp_path)).recipe().attack)


def test_without_torch_the_message_names_the_trees(monkeypatch):
    monkeypatch.setattr(network, "torch_network", lazy.module("torch.no_such_part"))
    with pytest.raises(dv.MissingExtraError, match=r"pip install '\.\[torch\]'.*quantile-trees"):
        check_installed(resolve("quantile").attack)


@pytest.mark.parametrize(
    ("name", "size", "millions"),
    [("resnet-18", 224, 11.176512), ("resnet-50", 224, 23.508032), ("convnext-tiny", 224, 27.820128),
     ("vit-tiny", 224, 5.524416), ("vit-base", 224, 85.798656)],
)  # fmt: skip
def test_backbones_have_the_published_numbers_of_parameters(name, size, millions):
    """Those of torchvision and timm without the classifier; a ViT of transformers has a pooler besides."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    with torch.device("meta"):
        built = bodies.Backbone(name, size=size).build(np.zeros((1, 3, 8, 8)))
    counts = {part: values.numel() for part, values in built.named_parameters() if "pooler" not in part}
    assert sum(counts.values()) == round(millions * 1e6)
