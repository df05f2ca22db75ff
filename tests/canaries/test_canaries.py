"""Canaries: made, kept, played, and what they prove of claims that are true, false and too strong to test."""

import json

import numpy as np
import polars as pl
import pytest
import skops.io
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier

import divulge as dv
from divulge import canaries
from divulge.canaries import Canaries, canary_records, make, play, prove
from divulge.errors import UserCodeError
from divulge.evaluation import GaussianMechanism, SubsampledGaussian
from divulge.report import formatting


def data(n=300, d=6, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return dv.Records(rng.normal(size=(n, d)) + y[:, None], y)


TEXTS = dv.Records(
    [f"the {a} sat on the {b} mat" for a in ("cat", "dog", "owl", "elk") for b in ("red", "blue", "old")]
)


class TestKinds:
    @pytest.mark.parametrize(
        "kind", [kind for kind in canaries.KINDS if kind not in ("own", *canary_records.TEXT_KINDS)]
    )
    @pytest.mark.parametrize("images", [False, True])
    def test_none_repeats_and_none_is_a_record_of_the_data(self, kind, images):
        rng = np.random.default_rng(0)
        x = (
            rng.integers(0, 256, (200, 4, 4)).astype(np.uint8)
            if images
            else rng.normal(size=(200, 5)).astype(np.float32)
        )
        records = dv.Records(x, rng.integers(0, 3, 200))
        generated = make(records, kind=kind, count=100, seed=1).records
        names = canary_records.fingerprints(generated)
        assert len(set(names)) == 100
        assert not set(names) & set(canary_records.fingerprints(records))
        assert generated.x.shape[1:] == x.shape[1:]
        assert set(generated.y.tolist()) <= {0, 1, 2}

    @pytest.mark.parametrize("kind", ["mislabelled", "far"])
    def test_a_wrong_label_is_wrong(self, kind):
        records = data()
        truth = {x.tobytes(): y for x, y in zip(records.x, records.y, strict=True)}
        generated = make(records, kind=kind, count=90, seed=0).records
        assert all(truth[x.tobytes()] != y for x, y in zip(generated.x, generated.y, strict=True))

    def test_far_ones_are_the_most_isolated(self):
        records = data(100)
        isolated = 2.0 ** np.arange(6, 14)[:, None] * np.ones((1, 6))
        lonely = dv.Records(np.vstack([records.x, isolated]), np.append(records.y, [0, 1] * 4))
        generated = make(lonely, kind="far", count=8, seed=0).records
        assert set(generated.x[:, 0]) == set(isolated[:, 0])

    @pytest.mark.parametrize("kind", canary_records.TEXT_KINDS)
    def test_documents_are_made_of_the_words_of_the_data(self, kind):
        generated = make(TEXTS, kind=kind, count=40, seed=0).records
        words = {word for text in TEXTS.x for word in text.split()}
        assert all(set(text.split()) <= words for text in generated.x)
        assert generated.y is None

    def test_unigrams_are_drawn_as_often_as_they_occur(self):
        generated = make(TEXTS, kind="unigram", count=300, seed=0).records
        words = np.array([word for text in generated.x for word in text.split()])
        share = (words == "the").mean()
        assert abs(share - 2 / 7) < 4.5 * np.sqrt(2 / 7 * 5 / 7 / len(words))


class TestKept:
    def test_what_is_written_is_what_is_read(self, tmp_path):
        generated = make(data(), count=50, out=tmp_path / "c")
        read = Canaries.load(tmp_path / "c")
        np.testing.assert_array_equal(read.records.x, generated.records.x)
        np.testing.assert_array_equal(read.included, generated.included)
        assert (read.design, read.kind, read.seed, read.trained_on) == ("coins", "mislabelled", generated.seed, 300)
        inserted = np.load(tmp_path / "c" / "insert.npz")
        np.testing.assert_array_equal(inserted["x"], generated.insert.x)
        assert "included" not in inserted
        assert (tmp_path / "c" / "secret").stat().st_mode & 0o077 == 0

    def test_the_insert_may_be_gone(self, tmp_path):
        make(data(), count=50, out=tmp_path / "c")
        (tmp_path / "c" / "insert.npz").unlink()
        assert len(Canaries.load(tmp_path / "c")) == 50

    @pytest.mark.parametrize("change", ["fewer", "other"])
    def test_an_insert_of_other_canaries_is_refused(self, tmp_path, change):
        generated = make(data(), count=50, out=tmp_path / "c")
        insert = generated.insert
        x = insert.x[1:] if change == "fewer" else insert.x + 1
        np.savez(tmp_path / "c" / "insert.npz", x=x, y=insert.y[: len(x)])
        with pytest.raises(dv.InputError, match="were to be included"):
            Canaries.load(tmp_path / "c")

    def test_a_damaged_secret_is_refused(self, tmp_path):
        generated = make(data(), count=50, out=tmp_path / "c")
        np.savez(
            tmp_path / "c" / "secret" / "canaries.npz",
            x=generated.records.x,
            y=generated.records.y,
            included=~generated.included,
        )
        with pytest.raises(dv.InputError, match="damaged"):
            Canaries.load(tmp_path / "c")

    def test_the_coins_are_not_those_of_another_seed_and_no_seed_is_secret(self):
        assignments = [tuple(make(data(), count=64).included) for _ in range(2)]
        assert assignments[0] != assignments[1]
        assert tuple(make(data(), count=64, seed=5).included) == tuple(make(data(), count=64, seed=5).included)

    def test_a_fixed_number_is_half(self):
        assert make(data(), count=51, design="fixed", seed=0).included.sum() == 25

    def test_coins_are_fair(self):
        heads = sum(make(data(), count=200, kind="random", seed=seed).included.sum() for seed in range(50))
        assert abs(heads - 5000) < 4.5 * np.sqrt(2500)


def noisy(mu):
    """A training whose model gives every canary away as a Gaussian mechanism of strength μ does."""

    def train(records, seed):
        rng = np.random.default_rng(seed)
        canary_rows = {x.tobytes() for x in records.x}

        def model(x):
            used = np.array([row.tobytes() in canary_rows for row in x])
            z = mu * used + rng.normal(size=len(x))
            return np.stack([z, np.zeros(len(x))], axis=1)

        return model

    return train


def same_label(n, seed=0):
    """Canaries of class 0, so that the first logit is the score."""
    rng = np.random.default_rng(seed)
    own_records = dv.Records(rng.normal(size=(n, 3)) + 9, np.zeros(n, np.int64))
    return make(dv.Records(rng.normal(size=(40, 3)), np.arange(40) % 2), own=own_records, seed=seed)


class TestGame:
    BASE = dv.Records(np.random.default_rng(5).normal(size=(40, 3)), np.arange(40) % 2)

    def test_a_violated_claim_is_found(self):
        result = play(noisy(4.0), same_label(400), self.BASE, claim=dv.Claim(1.0, 1e-5), seed=1)
        assert result.proof.answer == "violated"
        assert 1.0 < result.epsilon.low < GaussianMechanism().epsilon(4.0, 1e-5)
        assert result.exposures.mean() > 4

    def test_true_claims_are_called_violated_in_at_most_5_percent_of_games(self):
        """50 games at exactly the claimed ε, with and without the family; 1e-4 to fail in a true world."""
        truth = GaussianMechanism().epsilon(1.0, 1e-5)
        planted = same_label(60)
        for family in (None, "gaussian"):
            wrong = sum(
                prove(
                    np.random.default_rng(seed).normal(size=60) + coins,
                    coins,
                    claim=dv.Claim(truth, 1e-5),
                    family=family,
                ).answer
                == "violated"
                for seed in range(50)
                for coins in [planted.redrawn(seed).included]
            )
            assert wrong <= binom.isf(1e-4, 50, 0.05)

    def test_several_runs_add_up(self):
        single_run, three_runs = (play(noisy(2.0), same_label(100), self.BASE, runs=runs, seed=2) for runs in (1, 3))
        assert len(three_runs.scores) == 3 * len(single_run.scores)
        assert three_runs.epsilon.low > single_run.epsilon.low

    def test_accuracy_with_and_without(self):
        holdout = dv.Records(np.random.default_rng(6).normal(size=(50, 3)), np.arange(50) % 2)
        result = play(noisy(0.0), same_label(20), self.BASE, holdout=holdout)
        assert all(0 <= share.low <= share.value <= share.high <= 1 for share in result.accuracy)

    def test_accuracy_needs_labels_of_the_records(self):
        """Where they are unknown, or the model gives none, it would be that of nothing."""
        holdout = dv.Records(np.random.default_rng(6).normal(size=(50, 3)))
        with pytest.raises(dv.InputError, match="holdout: accuracy needs a target that gives labels, and records"):
            play(noisy(0.0), same_label(20), self.BASE, holdout=holdout)

    def test_same_seed_same_result(self):
        result, repeated = (play(noisy(1.0), same_label(50), self.BASE, seed=3) for _ in range(2))
        np.testing.assert_array_equal(result.scores, repeated.scores)
        assert result.epsilon == repeated.epsilon

    def test_a_training_that_raises_is_named(self):
        def broken(records, seed):
            raise RuntimeError("no memory")

        with pytest.raises(UserCodeError, match="no memory"):
            play(broken, same_label(20), self.BASE)

    def test_canaries_among_the_data_are_refused(self):
        planted = same_label(20)
        with pytest.raises(dv.InputError, match="are records of the training set"):
            play(noisy(1.0), planted, dv.Records(planted.records.x[:5], planted.records.y[:5]))

    def test_a_fixed_number_is_for_one_run(self):
        own_records = dv.Records(np.random.default_rng(0).normal(size=(20, 3)) + 9, np.zeros(20, np.int64))
        with pytest.raises(dv.InputError, match="for 1 run"):
            play(noisy(1.0), make(self.BASE, own=own_records, design="fixed", seed=0), self.BASE, runs=2)


class TestProof:
    COINS = np.random.default_rng(0).random(500) < 0.5

    def test_a_model_that_answers_the_same_to_all_shows_nothing(self):
        for scores in (np.ones(500), np.r_[np.ones(499), 2.0], np.repeat([1.0, 2.0], [490, 10])):
            for design in ("coins", "fixed"):
                coins = self.COINS if design == "coins" else np.random.default_rng(0).permutation(500) < 250
                proof = prove(scores, coins, claim=dv.Claim(1.0, 1e-5), design=design)
                assert proof.bound.low == 0
                assert proof.answer == "not testable"
                assert proof.would_see is None
        assert "nothing can be told" in prove(np.ones(500), self.COINS, claim=dv.Claim(1.0, 1e-5)).text

    def test_too_few_canaries_are_not_taken_for_a_kept_claim(self):
        coins = np.arange(20) % 2 == 0
        proof = prove(coins.astype(float), coins, claim=dv.Claim(8.0, 1e-5))
        assert proof.answer == "not testable"
        assert proof.most < 8
        assert "cannot test the claim" in proof.text
        assert f"ε ≥ {formatting.format_lower_bound(proof.most)} would have been proven" in proof.text

    def test_a_claim_that_perfect_guesses_would_refute_is_testable(self):
        coins = np.random.default_rng(3).random(600) < 0.5
        proof = prove(np.random.default_rng(4).normal(size=600), coins, claim=dv.Claim(4.0, 1e-5), family="gaussian")
        assert proof.answer == "consistent"
        assert proof.most > 10

    def test_the_bound_that_fits_the_design_is_used(self):
        coins = np.arange(500) % 2 == 0
        assert "pairs" in prove(coins + 0.0, coins, design="fixed").bound.method
        assert "pairs" not in prove(coins + 0.0, coins).bound.method

    def test_nothing_untrue_is_said_of_a_fixed_number(self):
        coins = np.random.default_rng(0).permutation(500) < 250
        proof = prove(np.random.default_rng(1).normal(size=500), coins, claim=dv.Claim(1.0, 1e-5), design="fixed")
        assert proof.answer == "consistent"
        assert "would have been found" not in proof.text

    def test_so_few_canaries_that_nothing_would_be_found_test_nothing(self):
        coins = np.arange(8) % 2 == 0
        proof = prove(np.random.default_rng(1).normal(size=8), coins, claim=dv.Claim(2.0, 1e-5))
        assert proof.answer == "not testable"

    def test_at_delta_0_no_gaussian_is_spoken_of(self):
        proof = prove(np.random.default_rng(1).normal(size=500), self.COINS, claim=dv.Claim(1.0, 0.0))
        assert proof.others == {}
        assert "Gaussian" not in proof.text

    def test_a_consistent_claim_says_what_would_have_been_seen(self):
        proof = prove(np.random.default_rng(1).normal(size=500), self.COINS, claim=dv.Claim(1.0, 1e-5))
        assert proof.answer == "consistent"
        assert proof.tone != "clear"  # its heading says that no leak was found, where an ε may be proven
        assert 1.0 < proof.would_see < 20
        assert f"ε = {proof.would_see:.1f}" in proof.text

    def test_a_stated_family_is_an_assumption(self):
        proof = prove(self.COINS + 0.0, self.COINS, family=SubsampledGaussian(0.5), delta=1e-5)
        assert any("uses it with probability 0.5" in each for each in proof.guarantee.assumes)
        assert set(proof.others) == {"of any mechanism", "if Gaussian"}

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"included": np.ones(500, bool)}, "some must be in and some out"),
            ({"scores": np.full(500, np.nan)}, "scores"),
            ({"claim": dv.Claim(1, 1e-5), "delta": 1e-5}, "the claim has one"),
            ({"design": "fixed", "family": SubsampledGaussian(0.5), "delta": 1e-5}, "None or 'gaussian'"),
        ],
    )
    def test_bad_input_is_named(self, changes, message):
        with pytest.raises(dv.InputError, match=message):
            prove(**({"scores": self.COINS + 0.0, "included": self.COINS} | changes))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1, 0), (float("inf"), 0), (float("nan"), 0), (65, 0), (1, 1), (1, -1e-9)]
)
def test_impossible_claims_are_refused(epsilon, delta):
    with pytest.raises(dv.InputError, match=r"claim\.(epsilon|delta): must lie"):
        dv.Claim(epsilon, delta)


def test_what_a_claim_allows_is_its_trade_off_curve():
    """The largest of the three lines of (ε, δ)-DP, which meet no power of a test above e^ε·FPR + δ."""
    claim = dv.Claim(1.0, 0.01)
    assert claim.fnr(0.0) == pytest.approx(0.99)
    assert claim.fnr(0.99) == 0.0
    for fpr in np.linspace(0, 1, 51):
        fnr = claim.fnr(fpr)
        assert 1 - fnr <= np.e * fpr + 0.01 + 1e-12
        assert 1 - fpr <= np.e * fnr + 0.01 + 1e-12
    results = [claim.fnr(fpr) for fpr in np.linspace(0, 1, 51)]
    assert (np.diff(results) <= 1e-12).all()


def test_exposure_is_the_rank_among_the_canaries_left_out_in_bits():
    """By the definition, in a loop; a constant score exposes nobody."""
    rng = np.random.default_rng(0)
    included = np.arange(40) % 3 > 0
    for scores in (rng.normal(size=40).round(1), np.ones(40)):
        proof = prove(scores, included, delta=1e-5)
        exposure = canaries.CanaryAudit(scores, included, proof, "loss", "random", 100).exposures
        left_out = scores[~included]
        for score, bits in zip(scores[included], exposure, strict=True):
            rank = 1 + sum(unused_score >= score for unused_score in left_out)
            assert bits == pytest.approx(np.log2(len(left_out) + 1) - np.log2(rank))
    assert (exposure == 0).all()


def test_a_claim_of_zero_is_violated_by_any_leak():
    coins = np.random.default_rng(0).random(500) < 0.5
    assert prove(coins + 0.0, coins, claim=dv.Claim(0, 0)).answer == "violated"
    assert prove(np.random.default_rng(2).normal(size=500), coins, claim=dv.Claim(0, 0)).answer == "consistent"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "mislabeled"}, "did you mean 'mislabelled'"),
        ({"count": 7}, "count: must be at least 8"),
        ({"count": 301}, "at most 300, one canary per record"),
        ({"kind": "unigram"}, "made of documents"),
        ({"design": "both"}, "design: "),
        ({"own": dv.Records(np.zeros((3, 6)), [0, 0, 0])}, "repeat others"),
        ({"own": dv.Records(data().x[:3], data().y[:3])}, "are records of the data"),
        ({"own": dv.Records(np.zeros((3, 2)), [0, 1, 0])}, "of the data's shape"),
        ({"own": dv.Records(np.eye(6)[:3] + 9, [0, 1, 0])}, "own: at least 8 canaries"),
        ({"own": dv.Records(data().x[:9].astype(np.float32), data().y[:9])}, "are records of the data"),
        ({"seed": -1}, "seed: "),
    ],
)
def test_canaries_that_cannot_be_made(changes, message):
    with pytest.raises(dv.InputError, match=message):
        make(data(), **({"kind": "mislabelled"} | changes))


def test_a_delta_that_allows_whole_records_is_refused():
    planted = same_label(100)
    trained_on = 40 + int(planted.included.sum())
    for delta in (0.05, 1 / trained_on):
        with pytest.raises(dv.InputError, match=r"claim\.delta: must be below 1/"):
            canaries.audit(noisy(1.0)(planted.insert, 0), planted, claim=dv.Claim(1.0, delta))
    canaries.audit(noisy(1.0)(planted.insert, 0), planted, claim=dv.Claim(1.0, 0.99 / trained_on))


def test_a_training_set_that_holds_canaries_that_were_left_out_is_refused():
    planted = same_label(100)
    with pytest.raises(dv.InputError, match="canaries that were not to be included are records"):
        canaries.audit(noisy(1.0)(planted.insert, 0), planted, training=planted.records)
    canaries.audit(noisy(1.0)(planted.insert, 0), planted, training=planted.insert)  # those belong there


def test_canaries_of_a_table_have_its_columns_by_name(divulge, tmp_path):
    """The model is asked by name, and a canary is found in a training set whose columns stand in another order."""
    rng = np.random.default_rng(0)
    columns = ["a", "b", "c"]
    table = pl.DataFrame(rng.normal(size=(300, 3)), schema=columns).with_columns(label=rng.integers(0, 2, 300))
    data = dv.Records(table[:200].select("c", "a", "b"), table["label"][:200])  # not as the model was fitted
    planted = make(data, count=100, seed=0, out=tmp_path / "c")
    loaded = Canaries.load(tmp_path / "c")
    assert loaded.records.table.columns == planted.records.table.columns == ["c", "a", "b"]
    np.testing.assert_array_equal(loaded.records.x, planted.records.x)
    inserted = pl.from_numpy(planted.insert.x, ["c", "a", "b"]).select(columns).with_columns(label=planted.insert.y)
    training = pl.concat([table[:200].with_columns(label=pl.col("label").cast(pl.Int64)), inserted])
    forest = RandomForestClassifier(100, bootstrap=False, random_state=0)
    forest.fit(training.select(columns).to_pandas(), training["label"].to_numpy())
    training.write_parquet(tmp_path / "training.parquet")
    skops.io.dump(forest, tmp_path / "model.skops")
    arguments = ["canaries", "audit", tmp_path / "model.skops", "--canaries", tmp_path / "c", "--claim-epsilon", 1]
    arguments += ["--training", tmp_path / "training.parquet"]
    code, out, err = divulge(*arguments, "--json")
    assert code == 1, err
    assert json.loads(out)["bound"]["low"] > 1
    left_out = planted.records[~planted.included]
    pl.from_numpy(left_out.x, ["c", "a", "b"]).select(columns).with_columns(label=left_out.y).write_csv(
        tmp_path / "wrong.csv"
    )
    code, _, err = divulge(*arguments[:-1], tmp_path / "wrong.csv")
    assert code == 2
    assert "canaries that were not to be included are records of the training set" in err
    canaries = make(data, own=dv.Records(table[200:].select("b", "c", "a"), table["label"][200:]), seed=0)
    np.testing.assert_array_equal(canaries.records.x, table[200:].select("c", "a", "b").to_numpy())
    with pytest.raises(dv.InputError, match="own: the columns of the other records are needed; these lack 'a'"):
        make(data, own=dv.Records(table[200:].select("b", "c"), table["label"][200:]), seed=0)


class TestCommand:
    @pytest.fixture
    def trained(self, divulge, tmp_path, monkeypatch):
        """Make, train a nearest-neighbour model with what was inserted, and name it for the audit."""
        records = data(200)
        np.savez(tmp_path / "train.npz", x=records.x, y=records.y)
        arguments = [
            "canaries",
            "make",
            "--data",
            tmp_path / "train.npz",
            "--count",
            400,
            "--kind",
            "random",
            "--seed",
            1,
        ]
        code, out, err = divulge(*arguments, "--out", tmp_path / "c")
        assert code == 0, err
        assert "of them in" in out
        (tmp_path / "served.py").write_text(
            "from pathlib import Path\n"
            "import numpy as np\n"
            "here = Path(__file__).parent\n"
            "parts = [np.load(here / path) for path in ('train.npz', 'c/insert.npz')]\n"
            "X, Y = (np.concatenate([part[name] for part in parts]) for name in 'xy')\n"
            "def model(x):\n"
            "    near = ((x[:, None] - X[None]) ** 2).sum(-1).argmin(1)\n"
            "    return 3.0 * np.eye(3)[Y[near]]\n"
        )
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_make_train_audit(self, divulge, trained):
        arguments = ["canaries", "audit", "served:model", "--canaries", "c", "--claim-epsilon", 1, "--delta", 1e-5]
        code, out, err = divulge(*arguments, "--out", "run", "--training", "train.npz")
        assert code == 1, err
        assert "The claim of ε = 1 at δ = 1e-05 is violated" in " ".join(out.split())
        page = (trained / "run" / "report.html").read_text()
        assert "A claim of differential privacy" in page
        assert "least the claim allows" in page
        summary = json.loads((trained / "run" / "summary.json").read_text())
        assert summary["answer"] == "violated"
        assert summary["bound"]["low"] > 1
        assert divulge("report", "run")[0] == 0
        assert (trained / "run" / "report.html").read_text() == page
        for name in ("md", "json"):
            assert divulge("report", "run", "--format", name)[0] == 0
        card = (trained / "run" / "model_card.md").read_text()
        for words in ("What to do about it", "What is proven"):
            assert words in card
        assert divulge("report", "run", "--format", "csv", "--to", "canaries.csv")[0] == 0
        table = pl.read_csv("canaries.csv")
        with np.load("run/scores.npz") as arrays:
            assert len(table) == len(arrays["scores"])

    def test_a_model_that_answers_the_same_to_all_cannot_be_tested(self, divulge, trained):
        (trained / "flat.py").write_text("import numpy as np\n\ndef model(x):\n    return np.zeros((len(x), 3))\n")
        arguments = ["canaries", "audit", "flat:model", "--canaries", "c", "--claim-epsilon", 1, "--delta", 1e-5]
        code, out, err = divulge(*arguments)
        assert code == 3, err
        assert "cannot test the claim" in " ".join(out.split())

    def test_a_plan(self, divulge):
        code, out, _ = divulge("canaries", "plan", "--claim-epsilon", 1, "--true-epsilon", 8)
        assert code == 0
        assert out.startswith("128 canaries find")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["plan", "--claim-epsilon", 8, "--true-epsilon", 2], "--true-epsilon: must be above"),
            (["plan", "--claim-epsilon", 1, "--true-epsilon", 2, "--family", "subsampled:a"], "subsampled:RATE:STEPS"),
            (["plan", "--claim-epsilon", 1, "--true-epsilon", 2, "--family", "subsampled:2:9"], "rate: must lie"),
            (["plan", "--claim-epsilon", 1, "--true-epsilon", 2, "--family", "Subsampled:"], "subsampled:RATE:STEPS"),
            (["plan", "--claim-epsilon", "inf", "--true-epsilon", 2], "--true-epsilon: must be above"),
            (["audit", "served:model", "--canaries", "nowhere"], "nowhere"),
            (["make", "--data", "none.npz", "--out", "x"], "no such file"),
        ],
    )
    def test_user_errors_exit_with_2(self, divulge, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        code, _, err = divulge("canaries", *arguments)
        assert code == 2, err
        assert message in " ".join(err.split())
