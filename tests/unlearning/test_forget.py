"""`divulge.forget` on models of every kind, on score tables, and on inputs that it refuses."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge

import divulge as dv
from divulge.attacks import Threshold
from divulge.auditing import Modality
from divulge.recipes import Recipe
from divulge.signals.named import OutputSignal
from divulge.targets import TokenStatistics
from divulge.unlearning.finding import NO_DIFFERENCE, OVERDONE, REMEMBERED, TOO_LITTLE

RNG = np.random.default_rng(0)
IDS = [f"r{i}" for i in range(500)]


def score_tables(shift, count=1, seed=1):
    rng = np.random.default_rng(seed)
    ids = [f"r{i}" for i in range(500)]
    scores = rng.normal(size=(count, 500)) + shift * (np.arange(500) < 200)
    return [pl.DataFrame({"id": ids, "score": row, "correct": (row > 0).astype(int)}) for row in scores]


CONTROLS = score_tables(0, 4, seed=2)


def draw(n, shift=0.0):
    x = RNG.normal(size=(n, 4)) + shift
    return dv.Records(x, RNG.integers(0, 2, n))


FORGET, NEVER, RETAINED, POPULATION = draw(120), draw(200), draw(60), draw(300)


@dataclass
class Memory:
    """A classifier that is sure of the records it was trained on, and of others as a seed says."""

    records: dv.Records
    seed: int

    def logits(self, records):
        known_digests = set(self.records.digests())
        is_known = np.array([digest in known_digests for digest in records.digests()])
        weights = np.random.default_rng(self.seed).normal(size=(records.x.shape[1], 2))
        noise = np.sin(records.x @ weights * 9)
        noise[np.arange(len(records)), records.y] += 3 * is_known
        return noise


def retrained(count, records=RETAINED):
    return [Memory(records, seed) for seed in range(1, count + 1)]


BEFORE = Memory(dv.Records.concatenate([FORGET, RETAINED]), 0)


def test_nothing_forgotten_is_still_remembered_and_retraining_passes():
    result = dv.forget(BEFORE, BEFORE, forget=FORGET, never=NEVER, retrained=retrained(4), retained=RETAINED)
    assert result.verdict.answer == REMEMBERED
    assert result.findings[0].share.low > 0.5
    assert any("nothing was done" in note for note in result.warnings)
    assert {change.records: change.change.value for change in result.quality} == {"retained": 0, "never used": 0}
    listed = result.remembered["forget"]
    assert len(listed) == result.findings[0].remembered
    passed = dv.forget(
        BEFORE, Memory(RETAINED, 99), forget=FORGET, never=NEVER, retrained=retrained(8), margin=0.2, at_random=True
    )
    assert passed.verdict.answer == NO_DIFFERENCE
    assert passed.null == "retrained models"
    assert passed.quality[0].measure == "accuracy"


def test_reference_models_can_be_given_or_trained():
    result_given = dv.forget(BEFORE, BEFORE, forget=FORGET, never=NEVER, references=retrained(3, POPULATION))
    trained = dv.forget(
        BEFORE,
        BEFORE,
        forget=FORGET,
        never=NEVER,
        references=dv.references.Custom(Memory, count=4),
        population=POPULATION,
        retained=RETAINED,
    )
    for result, count in ((result_given, 3), (trained, 4)):
        assert result.verdict.answer == REMEMBERED
        assert result.null == "reference models"
        assert result.controls.shape[0] == count
    with pytest.raises(dv.InputError, match="population: 120 records to be forgotten or never used are in it"):
        dv.forget(
            BEFORE, BEFORE, forget=FORGET, never=NEVER, references=dv.references.Custom(Memory, count=4),
            population=dv.Records.concatenate([FORGET, POPULATION]),
        )  # fmt: skip


def test_clones_of_an_estimator_on_named_columns_are_references():
    def frame(records):
        return dv.Records(pl.DataFrame(records.x, schema=list("abcd")), np.where(records.y == 1, "yes", "no"))

    forgotten, never, retained, population = map(frame, (FORGET, NEVER, RETAINED, POPULATION))
    training = dv.Records.concatenate([forgotten, retained])
    columns = training.table.to_native().to_pandas()
    forest = RandomForestClassifier(30, random_state=0).fit(columns, np.array(["no", "yes"])[training.y])
    result = dv.forget(
        forest, forest, forget=forgotten, never=never, references=dv.references.Train(count=3), population=population
    )
    assert result.verdict.answer == REMEMBERED
    assert result.null == "reference models"
    assert result.controls.shape == (3, 320)


def test_without_models_that_never_saw_them_nothing_is_said():
    result = dv.forget(BEFORE, BEFORE, forget=FORGET, never=NEVER)
    assert result.verdict.answer == TOO_LITTLE
    assert "training noise is not included" in result.verdict.text
    single = dv.forget(BEFORE, Memory(RETAINED, 9), forget=FORGET, never=NEVER, retrained=retrained(1))
    assert "training noise is not included" in single.verdict.text


def test_several_requests_are_answered_together():
    half = Memory(dv.Records.concatenate([FORGET[:60], RETAINED]), 5)
    requests = {"first": FORGET[:60], "second": FORGET[60:]}
    result = dv.forget(BEFORE, half, forget=requests, never=NEVER, retrained=retrained(5))
    answers = {finding.request: finding.answer for finding in result.findings}
    assert answers["first"] == REMEMBERED
    assert answers["second"] != REMEMBERED
    assert result.verdict.answer == REMEMBERED
    assert "Still remembered: first." in result.verdict.text
    assert all(finding.auc_after.confidence == pytest.approx(0.975) for finding in result.findings)


def test_labels_alone_are_enough():
    class Labels(Memory):
        def labels(self, records):
            return Memory.logits(self, records).argmax(axis=1)

    @dataclass
    class OnlyLabels:
        inner: Memory

        def labels(self, records):
            return self.inner.logits(records).argmax(axis=1)

    controls = [OnlyLabels(each) for each in retrained(4)]
    result = dv.forget(OnlyLabels(BEFORE), OnlyLabels(BEFORE), forget=FORGET, never=NEVER, retrained=controls)
    assert result.signal == "correctness"
    assert result.verdict.answer == REMEMBERED


@dataclass
class Speaker:
    """A language model that finds documents it knows likely."""

    known: frozenset
    seed: int

    def tokens(self, texts, *, vocabulary=True):
        rng = np.random.default_rng(self.seed)
        likely = np.array([text in self.known for text in texts])
        logp = np.repeat(-3.0 + 2.0 * likely, 3) + 0.5 * rng.normal(size=3 * len(texts))
        return TokenStatistics(np.arange(0, 3 * len(texts) + 1, 3), np.zeros(len(texts), int), logp=logp)

    def key(self):
        return {"seed": self.seed}


def test_language_models_are_read_by_their_likelihood():
    words = np.array(["a", "tale", "of", "many", "towns", "and", "few", "people", "who", "went", "out", "one", "day"])
    texts = [f"{' '.join(RNG.permutation(words)[:8])} {i}" for i in range(160)]
    forgotten, never = dv.Records(texts[:60]), dv.Records(texts[60:])
    before = Speaker(frozenset(texts[:60]), 0)
    controls = [Speaker(frozenset(), seed) for seed in range(1, 5)]
    result = dv.forget(before, before, forget=forgotten, never=never, retrained=controls)
    assert result.verdict.answer == REMEMBERED
    assert result.signal == "log-likelihood per token"
    assert {"length: forget", "topic: forget", "shared passages: forget"} < {check.name for check in result.checks}


def test_a_modality_of_the_users_own_is_read_by_its_first_recipe():
    error = OutputSignal("negative-squared-error", "predictions", lambda predicted, y: -((predicted - y) ** 2))
    modality_given = Modality(
        "a regression model", ("predictions",), recipes=(Recipe("squared-error", error, Threshold()),)
    )

    @dataclass
    class Regressor:
        known: frozenset
        seed: int
        modality = modality_given

        def predictions(self, records):
            is_known = np.array([digest in self.known for digest in records.digests()])
            return records.y + np.where(is_known, 0.05, 1.0) * np.random.default_rng(self.seed).normal(
                size=len(records)
            )

    forgotten, never = (dv.Records(part.x, part.x.sum(axis=1)) for part in (FORGET, NEVER))
    before = Regressor(frozenset(forgotten.digests()), 0)
    controls = [Regressor(frozenset(), seed) for seed in range(1, 5)]
    result = dv.forget(before, before, forget=forgotten, never=never, retrained=controls)
    assert (result.signal, result.verdict.answer) == ("negative-squared-error", REMEMBERED)


def regression_records(n, shift=0, seed=0):
    rng = np.random.default_rng([n, seed])
    x = rng.normal(size=(n, 12)).astype(np.float32)
    return x, np.round(6 * rng.normal(size=n)) + shift


def train_regressor(x, y, seed, epochs=200):
    """Train a network of one output that learns its records by heart."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(12, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    inputs, values = torch.tensor(x), torch.tensor(y, dtype=torch.float32)
    for _ in range(epochs):
        optimiser.zero_grad()
        ((net(inputs)[:, 0] - values) ** 2).mean().backward()
        optimiser.step()
    return net.eval()


@pytest.mark.parametrize(("shift", "task"), [(0.25, "auto"), (-40, "regression")])
def test_networks_of_one_output_are_read_as_regression_models(shift, task):
    # Whole numbers, negative ones too, could be classes: then the task is said.
    parts = [regression_records(n, shift, i) for i, n in enumerate((60, 80, 40))]
    training_arrays = [np.concatenate([parts[0][i], parts[2][i]]) for i in (0, 1)]
    before = train_regressor(*training_arrays, 0)
    controls = [train_regressor(*parts[2], seed) for seed in range(1, 5)]
    forgotten, never, retained = (dv.Records(x, y) for x, y in parts)
    sets = {"forget": forgotten, "never": never, "retained": retained}
    result = dv.forget(before, before, retrained=controls, task=task, **sets)
    assert result.verdict.answer == REMEMBERED
    assert result.findings[0].auc_after.low > 0.6
    assert result.signal == "negative-squared-loss"
    clean = dv.forget(before, train_regressor(*parts[2], 9), retrained=controls, task=task, **sets)
    assert clean.verdict.answer not in (REMEMBERED, OVERDONE)
    if task == "auto":
        forests = dv.forget(
            Ridge().fit(*training_arrays), Ridge().fit(*training_arrays), references=dv.references.Train(count=4),
            population=dv.Records(*regression_records(100, shift, 7)), **sets,
        )  # fmt: skip
        assert forests.controls.shape == (4, 180)


def test_models_are_shown_in_a_notebook_without_their_arrays():
    (after,) = score_tables(2, seed=3)
    result = dv.forget(None, after, forget={"<b>": IDS[:100], "c": IDS[100:200]}, never=IDS[200:], retrained=CONTROLS)
    assert repr(result) == "Erasure(still remembered; <b>: 100, c: 100; 4 models that never saw them)"
    html_text = result._repr_html_()
    assert "Still remembered" in html_text
    assert "&lt;b&gt;" in html_text
    assert "<b>" not in html_text


def test_controls_that_are_the_model_itself_or_saw_the_records_are_named():
    (before,), (after,) = score_tables(3), score_tables(0, seed=3)
    sets = {"forget": IDS[:200], "never": IDS[200:]}
    for extra, words in (
        (before, "model 5 scores every record as the one before the erasure"),
        (after, "model 5 scores every record as the one after the erasure"),
        (score_tables(3, seed=8)[0], "model 5 shows the records as one that was trained on them would"),
    ):
        result = dv.forget(before, after, retrained=[*CONTROLS, extra], **sets)
        assert any(words in note for note in result.warnings), result.warnings
        assert result.verdict.answer != REMEMBERED
    copied = dv.forget(before, after, retrained=[*CONTROLS, CONTROLS[0]], **sets)
    assert any("1 of the models that never saw the records score every record as another" in w for w in copied.warnings)


def test_controls_of_another_recipe_are_said_and_acquit_nobody():
    (before,), (after,) = score_tables(3), score_tables(0, seed=3)
    sets = {"forget": IDS[:200], "never": IDS[200:], "margin": 0.4}
    control_tables = score_tables(0, 8, seed=2)
    assert dv.forget(before, after, retrained=control_tables, **sets).verdict.answer == NO_DIFFERENCE
    for changed in (pl.col("score") * 5, pl.col("score") + 4):
        result = dv.forget(before, after, retrained=[table.with_columns(changed) for table in control_tables], **sets)
        assert any("not trained like the model" in note for note in result.warnings)
        assert result.verdict.answer == TOO_LITTLE


def test_copies_within_a_set_are_no_further_observations():
    controls = retrained(4)
    sets = {"never": NEVER, "retrained": controls}
    once = dv.forget(BEFORE, Memory(RETAINED, 9), forget=FORGET, **sets)
    repeat = dv.forget(BEFORE, Memory(RETAINED, 9), forget=dv.Records.concatenate([FORGET[:50], FORGET]), **sets)
    assert repeat.findings == once.findings
    assert any("forget: 50 copies" in note for note in repeat.warnings)


def test_tables_of_scores_alone_in_any_order_of_rows():
    (before,), (after,) = score_tables(3), score_tables(2, seed=3)
    result = dv.forget(before, after, forget=IDS[:200], never=IDS[200:], retrained=CONTROLS)
    shuffled = dv.forget(
        before.reverse(), after.sample(fraction=1, shuffle=True, seed=0), forget=IDS[:200], never=IDS[200:],
        retrained=[table.reverse() for table in CONTROLS],
    )  # fmt: skip
    assert result.verdict.answer == REMEMBERED
    assert result.findings == shuffled.findings
    assert result.quality[0].measure == "accuracy"


def test_a_random_draw_is_not_believed_where_the_records_differ():
    shifted_records = dv.Records(FORGET.x + 1.5, FORGET.y)
    result = dv.forget(
        BEFORE, Memory(RETAINED, 9), forget=shifted_records, never=NEVER, retrained=retrained(3), at_random=True
    )
    blind = next(check for check in result.checks if check.name.startswith("blind"))
    assert not blind.passed
    assert any("without any model" in note for note in result.warnings)
    assert (
        result.findings[0].relative.method != "DeLong; forgotten and never-used records drawn at random from one pool"
    )


def test_copies_among_the_retained_records_are_left_out_and_said():
    retained_and_forgotten = dv.Records.concatenate([FORGET, RETAINED])
    result = dv.forget(BEFORE, BEFORE, forget=FORGET, never=NEVER, retained=retained_and_forgotten)
    assert int((result.part == "retained").sum()) == len(RETAINED)
    assert any("120 of the retained records" in note for note in result.warnings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"never": dv.Records.concatenate([FORGET[:3], NEVER])}, "forget, never: 3 records are in both"),
        ({"forget": {}}, "forget: at least 1 request"),
        ({"forget": IDS[:10]}, "forget: divulge.Records are needed"),
        ({"never": None}, "never: divulge.Records are needed"),
        ({"retrained": CONTROLS}, "retrained 1: models and tables of scores cannot be mixed"),
        ({"retrained": BEFORE.logits}, "retrained: a list"),
        ({"references": dv.references.Custom(Memory, count=4)}, "population: reference models are trained on it"),
        ({"margin": 0}, "margin: must"),
        ({"confidence": 1.0}, "confidence: must"),
        ({"seed": -1}, "seed: must be"),
        ({"retained": FORGET}, "retained: all of these records were to be forgotten"),
        ({"forget": {"a": FORGET, "b": FORGET[:5]}}, "forget: a, forget: b: 5 records are in both"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, message):
    with pytest.raises(dv.InputError, match=message):
        dv.forget(BEFORE, BEFORE, **{"forget": FORGET, "never": NEVER} | changes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"id": IDS, "value": np.zeros(500)}, "after: a table of scores has the columns"),
        ({"id": IDS[:400], "score": np.zeros(400)}, "after: 100 of the 500 records have no score"),
        ({"id": IDS, "score": np.full(500, np.nan)}, "after: score"),
        ({"id": ["a", "a"], "score": [0.0, 1.0]}, "after: id: identifiers must be unique"),
        ({"id": IDS, "score": np.zeros(500), "correct": np.full(500, 2)}, "after: correct: 0 or 1"),
        ({"id": IDS, "score": np.zeros(500), "correct": ["x"] * 500}, "after: correct: numbers are needed"),
        ({"id": IDS, "score": np.full(500, 1.7e308)}, "after: score: values within ±1e\\+300"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_name(table, message):
    with pytest.raises(dv.InputError, match=message):
        dv.forget(None, table, forget=IDS[:200], never=IDS[200:])
    with pytest.raises(dv.InputError, match="belongs to one set"):
        dv.forget(None, CONTROLS[0], forget=IDS[:200], never=IDS[199:])


def test_copies_are_known_by_their_scores_where_there_is_nothing_else():
    (before,), (after,) = score_tables(3), score_tables(0, seed=3)
    tables = [before, after, *CONTROLS]
    once = dv.forget(before, after, forget=IDS[:30], never=IDS[200:], retrained=CONTROLS)
    # Ten copies of 30 records under ids of their own would be taken for 300 records.
    repeated = [
        pl.concat([table, *(table[:30].with_columns(id=pl.format("{}-{}", "id", pl.lit(i))) for i in range(9))])
        for table in tables
    ]
    copies = [f"r{row}-{i}" for i in range(9) for row in range(30)]
    result = dv.forget(repeated[0], repeated[1], forget=[*IDS[:30], *copies], never=IDS[200:], retrained=repeated[2:])
    assert result.findings == once.findings
    assert any("forget: 270 records that score like another one" in note for note in result.warnings)
    with pytest.raises(dv.InputError, match="forget, never: 30 records are in both: they score alike"):
        dv.forget(repeated[0], repeated[1], forget=IDS[:30], never=[*IDS[200:], *copies], retrained=repeated[2:])
    rounded = [table.with_columns(pl.col("score").round(1)) for table in tables]
    assert len(dv.forget(*rounded[:2], forget=IDS[:200], never=IDS[200:], retrained=rounded[2:]).ids) == 500


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_controls_of_which_each_saw_some_of_the_records_give_no_answer_against_a_model(after):
    rng = np.random.default_rng(5)
    forgotten = np.arange(500) < 200
    scores = rng.normal(size=(10, 500))
    scores[2:] += 3 * forgotten * (rng.random((8, 500)) < 0.5)
    scores[:2] += np.array([[3], [after]]) * forgotten
    before, model, *controls = [{"id": IDS, "score": row} for row in scores]
    result = dv.forget(before, model, forget=IDS[:200], never=IDS[200:], retrained=controls)
    assert any("they disagree about the records" in note for note in result.warnings)
    assert result.verdict.answer == TOO_LITTLE
