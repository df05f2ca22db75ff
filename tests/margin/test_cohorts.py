"""Which cohorts a published regression was fitted on, against refitting every subset."""

import itertools
import json
import re
import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge.margin import Publication, cohorts

EXACT = {"gradient": 1e-12}
COLUMNS = ["age", "prior", "sex", "region"]


def draw(n, rng, family="logistic"):
    """Draw records with columns of whole numbers, as a registry has them."""
    x = np.c_[rng.integers(18, 70, n), rng.poisson(2, n), rng.random(n) < 0.6, rng.random(n) < 0.3].astype(float)
    predictor = x @ [-0.03, 0.2, 0.4, -0.5] + 0.5
    if family == "logistic":
        return x, (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(float)
    return x, rng.poisson(np.exp(predictor)).astype(float) if family == "poisson" else predictor + rng.normal(size=n)


def draw_cohorts(n, rng, count=4, family="logistic"):
    return {name: draw(n, rng, family) for name in "abcdefgh"[:count]}


def join(data, names):
    return tuple(np.concatenate([data[name][part] for name in names]) for part in (0, 1))


def fit(x, y, family="logistic", penalty=1.0, scaled=False, **options):
    """Return coefficients and intercept of scikit-learn's optimum."""
    if family == "logistic":
        model = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-12, max_iter=200, **options)
    elif family == "linear":
        model = Ridge(penalty)
    else:
        model = PoissonRegressor(alpha=penalty, solver="newton-cholesky", tol=1e-12, max_iter=200)
    model.fit((x - x.mean(0)) / x.std(0) if scaled else x, y)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def publish(fitted, decimals, **options):
    options = {"penalty": 1.0, "decimals": decimals} | EXACT | options
    return Publication(np.round(fitted[0], decimals), round(fitted[1], decimals), **options)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("family", ["logistic", "linear", "poisson"])
def test_a_subset_is_accepted_where_its_own_fit_rounds_to_the_published_numbers(family, scaled):
    rng = np.random.default_rng(0)
    for decimals, n in ((0, 30), (1, 200), (3, 30)):
        data = draw_cohorts(n, rng, 3, family)
        penalty = 0.5
        published = publish(
            fit(*join(data, "ac"), family, penalty, scaled), decimals, family=family, penalty=penalty, scaled=scaled
        )
        match = cohorts(published, data)
        for subset in match.subsets:
            w, b = fit(*join(data, subset.cohorts), family, penalty, scaled)
            distance = np.abs(np.append(w, b) - published.theta).max() * 10**decimals
            assert subset.accepted == (distance <= match.units * (1 + 1e-6))


@pytest.mark.parametrize(("penalty", "decimals"), [(1.0, 2), (None, 3), (1.0, None)])
def test_the_right_subset_is_found_and_no_other(penalty, decimals):
    rng = np.random.default_rng(1)
    for _ in range(3):
        data = draw_cohorts(300, rng)
        right = tuple(sorted(rng.choice(list(data), rng.integers(1, 5), replace=False)))
        model = LogisticRegression(max_iter=2000).fit(*join(data, right))  # at its default tolerance
        w, b = model.coef_[0], float(model.intercept_[0])
        if decimals is not None:
            w, b = np.round(w, decimals), round(b, decimals)
        match = cohorts(Publication(w, b, decimals=decimals, penalty=penalty), data)
        assert right in [each.cohorts for each in match.accepted]
        assert match.match is None or match.match.cohorts == right
        assert len(match.accepted) == 1 or penalty is None


def test_an_outside_trial_whose_counts_are_those_of_a_cohort_proves_nothing():
    """Of a table of two by two, other trials often have the same odds ratio to all decimals."""
    n_fit, arm = 0, (np.arange(40) % 2)[:, None].astype(float)
    for seed in range(15):
        rng = np.random.default_rng(seed)
        *held, outside = [(arm, (rng.random(40) < 0.3 + 0.1 * arm[:, 0]).astype(float)) for _ in range(4)]
        fitted = fit(*outside, penalty=1e-9)
        if abs(fitted[0][0]) < 1e-5:  # as many in both arms
            continue
        match = cohorts(publish(fitted, 6, penalty=0.0), dict(zip("abc", held, strict=True)))
        n_fit += bool(match.accepted)
        assert match.certain == ()
        assert match.chance > 0.01
    assert n_fit >= 2


def drop(x, y, rows):
    return np.delete(x, rows, axis=0), np.delete(y, rows)


OTHERWISE = {
    "none of the cohorts": lambda x, y, rng: fit(*draw(600, rng)),
    "a whole further cohort": lambda x, y, rng: fit(*join({"a": (x, y), "b": draw(300, rng)}, "ab")),
    "two more records": lambda x, y, rng: fit(*join({"a": (x, y), "b": draw(2, rng)}, "ab")),
    "two records fewer": lambda x, y, rng: fit(*drop(x, y, [3, 400])),
    "a tenth left out": lambda x, y, rng: fit(*drop(x, y, np.arange(60))),
    "weighted records": lambda x, y, rng: fit(x, y, class_weight="balanced"),
    "another penalty": lambda x, y, rng: fit(x, y, penalty=9.0),
    "columns in another order": lambda x, y, rng: fit(x[:, ::-1], y),
    "scaled columns": lambda x, y, rng: fit(x, y, scaled=True),
    "stopped early": lambda x, y, rng: (fit(x, y)[0] * 0.99, fit(x, y)[1] * 0.99),
}


@pytest.mark.parametrize("how", OTHERWISE)
def test_of_weights_from_elsewhere_neither_cohorts_nor_a_record_are_named(how):
    rng = np.random.default_rng(2)
    for decimals in (4, 8):
        data = draw_cohorts(300, rng)
        match = cohorts(publish(OTHERWISE[how](*join(data, "bc"), rng), decimals), data)
        assert not match.accepted
        assert match.odd_record is None


@pytest.mark.parametrize("family", ["linear", "poisson"])
def test_two_records_that_agree_in_every_whole_number_are_not_read_as_one(family):
    """What they leave together lies at that whole number, too, in each such column."""
    rng, n_named = np.random.default_rng(6), 0
    for number in range(20):
        n = 102
        x = np.c_[rng.integers(0, 2, (n, 2)), rng.normal(size=n)]
        x[-1, :2] = x[-2, :2]
        predictor = x @ np.full(3, 0.4) - 0.5
        y = rng.poisson(np.exp(predictor)).astype(float)
        if family == "linear":
            y = np.round(predictor + rng.normal(size=n))
        options = {"family": family, "penalty": 1e-9}
        published = publish(fit(x, y, **options), 4 + number % 2, **options)
        n_named += cohorts(published, {"a": (x[:-2], y[:-2])}).odd_record is not None
    assert n_named <= 3  # named with a chance of at most 1 in 200; 4 of 20 have one of 3 in a million


def test_cohorts_that_cannot_be_told_apart_are_all_named_and_none_is_claimed():
    data = draw_cohorts(300, np.random.default_rng(4))
    published = publish(fit(*join(data, "ab")), 4)
    twins = cohorts(published, data | {"d": data["a"]})
    assert {each.cohorts for each in twins.accepted} == {("a", "b"), ("b", "d")}
    assert twins.match is None
    tiny = cohorts(published, data | {"d": tuple(part[:3] for part in data["d"])})
    assert tiny.accepted[0].cohorts == ("a", "b")
    assert tiny.match is None  # the three records alone cannot be checked


def test_a_cohort_of_every_subset_that_fits_is_proven(tmp_path):
    data = draw_cohorts(300, np.random.default_rng(4))
    published = publish(fit(*join(data, "ab")), 4)
    twins = dv.examine_cohorts(published, data | {"d": data["a"]}, out=tmp_path / "run")
    assert (twins.answer, twins.proven) == ("several", ("b",))
    assert dv.load(tmp_path / "run").summary.proven == ("b",)
    rulings = twins.gate(["cohorts:0", "cohorts:1", "cohorts:2", "records:0"])
    assert [ruling.state for ruling in rulings] == ["broken", "undecided", "kept", "undecided"]
    assert "several subsets fit" in rulings[1].reason
    same = dv.examine_cohorts(publish(fit(*data["a"]), 4), {"a": data["a"], "d": data["a"]})
    assert (same.answer, same.proven) == ("several", ())
    assert same.gate("cohorts:0").state == "undecided"  # one of them is in it
    assert same.gate("cohorts:1").state == "kept"


def test_twins_are_not_put_down_to_decimals_or_to_single_records():
    data = draw_cohorts(300, np.random.default_rng(4))
    twins = dv.examine_cohorts(publish(fit(*join(data, "ab")), 8), data | {"d": data["a"]})
    assert (twins.answer, twins.match.accepted[0].told_apart) == ("several", 600)
    assert not re.search("decimals|single records", twins.summary().verdict)


def test_where_too_little_can_be_said_no_limit_is_kept():
    """One decimal of one column fits much, and a fit unlike the assumed one, too."""
    n_undecided = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data = {name: (x := rng.normal(2.0, 3.0, (40, 1)), x[:, 0] + 3 * rng.normal(size=40)) for name in "abc"}
        result = dv.examine_cohorts(publish(fit(*join(data, "abc"), "linear", 1e-9, True), 1, family="linear"), data)
        unlike = dv.examine_cohorts(publish(fit(*join(data, "abc"), "linear", 1e-9), 1, family="linear"), data)
        for each in (result, unlike):
            if each.match.accepted and each.match.chance > 1e-3:
                n_undecided += 1
                assert {ruling.state for ruling in each.gate(["cohorts:2", "records:0"])} == {"undecided"}
    assert n_undecided > 3


def test_only_one_subset_fits_however_the_numbers_were_rounded():
    """Six records more may lie between rounding and cutting off."""
    n_accepted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        data = {
            name: (x := rng.normal(size=(n, 2)), x @ [0.5, -0.3] + rng.normal(size=n))
            for name, n in (("a", 300), ("b", 6))
        }
        w, b = fit(*join(data, "ab"), "linear", 1e-9)
        match = cohorts(
            publish((np.trunc(w * 100) / 100, np.trunc(b * 100) / 100), 2, family="linear", penalty=0.0), data
        )
        n_accepted += len(match.accepted)
        assert match.match is None or match.match.cohorts == ("a", "b")
    assert n_accepted > 20


@pytest.mark.parametrize(
    ("family", "low", "high", "slope", "decimals"),
    [
        ("poisson", 18, 70, 0.0375, 1),
        ("logistic", 1e3, 3e3, 3e-3, 2),
    ],
)
def test_the_right_subset_fits_where_rounding_moves_the_predictor_far(family, low, high, slope, decimals):
    for seed, penalty in itertools.product(range(2), (1e-9, None)):
        rng, data = np.random.default_rng(seed), {}
        for name in "ab":
            x = rng.uniform(low, high, (200, 1)).round()
            predictor = slope * (x[:, 0] - (low + high) / 2)
            probability = 1 / (1 + np.exp(-predictor))
            y = rng.poisson(np.exp(predictor)) if family == "poisson" else rng.random(200) < probability
            data[name] = (x, y.astype(float))
        (x, y), center = data["a"], (low + high) / 2
        w, b = fit(x - center, y, family, 1e-9)
        published = publish((w, b - w[0] * center), decimals, family=family, penalty=penalty)
        assert ("a",) in [each.cohorts for each in cohorts(published, data).accepted]


def test_the_unit_of_labels_and_the_precision_of_columns_change_nothing():
    rng = np.random.default_rng(3)
    data = {name: (x := rng.normal(size=(80, 2)), x.sum(axis=1) + 2 * rng.normal(size=80)) for name in "ab"}
    w, b = fit(*data["a"], "linear", 1e-9)
    one, other = (
        cohorts(
            publish((w * unit, b * unit), decimals, family="linear", penalty=0.0),
            {k: (x, y * unit) for k, (x, y) in data.items()},
        )
        for unit, decimals in ((1.0, 3), (1000.0, 0))
    )
    assert one.match.cohorts == other.match.cohorts == ("a",)
    assert other.chance == pytest.approx(one.chance, rel=1e-6)
    half = {name: (x.astype(np.float32), y) for name, (x, y) in data.items()}
    exact = {name: (x.astype(float), y) for name, (x, y) in half.items()}
    published = publish(fit(*exact["a"], "linear", 1e-9, scaled=True), 8, family="linear", penalty=0.0, scaled=True)
    assert cohorts(published, half).match.cohorts == cohorts(published, exact).match.cohorts == ("a",)


def test_a_zero_may_stand_beside_longer_numbers_and_equal_decimals_are_one_number():
    data = draw_cohorts(300, np.random.default_rng(21), 2)
    w, b = fit(*data["a"])
    decimals = [1, 6, 6, 6, 6]
    rounded = [round(float(value), places) for value, places in zip((*w, b), decimals, strict=True)]
    assert rounded[0] == 0
    published = Publication(rounded[:4], rounded[4], decimals=decimals, penalty=1.0, **EXACT)
    assert cohorts(published, data).match.cohorts == ("a",)
    numbers = publish(fit(*data["a"]), 3)
    one, each = (
        cohorts(Publication(numbers.coefficients, numbers.intercept, decimals=decimals, penalty=1.0, **EXACT), data)
        for decimals in (3, [3] * 5)
    )
    assert one == each


def test_columns_that_the_penalty_or_the_scaling_tells_apart_are_not_refused():
    rng, data, stamps = np.random.default_rng(8), {}, {}
    for name in "ab":
        group, y = rng.integers(3, size=90), rng.normal(size=90)
        data[name] = (np.eye(3)[group], y + group)
        stamps[name] = ((1.7e9 + 2e4 * rng.normal(size=(90, 1))).round(), y)
    assert cohorts(publish(fit(*data["a"], "linear", 1.0), 6, family="linear"), data).match.cohorts == ("a",)
    published = publish(fit(*stamps["a"], "linear", 1e-9, scaled=True), 6, family="linear", penalty=0.0, scaled=True)
    assert cohorts(published, stamps).match.cohorts == ("a",)


def test_a_record_is_not_named_where_another_explains_the_numbers_as_exactly():
    """Of two cohorts that differ in one record the training set may be the one with a record more, or the other."""
    for seed in (5, 27):
        rng, n = np.random.default_rng(seed), 201
        x = np.c_[rng.integers(18, 70, n), rng.poisson(2, n)].astype(float)
        y = (rng.random(n) < 1 / (1 + np.exp(0.04 * (x[:, 0] - 45) - 0.2 * x[:, 1]))).astype(float)
        match = cohorts(publish(fit(x, y), 5), {"a": (x[:-1], y[:-1]), "c": (x[1:], y[1:])})
        assert match.odd_record is None


def test_labels_of_any_size_are_read_in_bounded_time():
    rng = np.random.default_rng(0)
    x = np.c_[rng.integers(0, 3, 150), rng.normal(size=150)]
    y = np.round(1e6 * (x.sum(axis=1) + rng.normal(size=150)), 3)
    assert cohorts(publish(fit(x, y, "linear"), 0, family="linear"), {"a": (x[:-1], y[:-1])}).match is None


def test_names_of_columns_are_checked_before_work_and_a_publication_can_be_compared():
    published = Publication([0.1, 0.2], 0.3, decimals=2)
    assert published in (published,)
    with pytest.raises(dv.InputError, match="columns: 2 names"):
        dv.examine_cohorts(published, {"a": ("no", "table")}, columns=["one"])


def test_a_file_that_holds_two_cohorts_keeps_no_limit_of_theirs():
    data = draw_cohorts(150, np.random.default_rng(0), 3)
    published = publish(fit(*join(data, "ab")), 6)
    result = dv.examine_cohorts(published, data | {"all": join(data, "ab")})
    assert (result.answer, result.proven) == ("several", ())
    assert [each.state for each in result.gate(["cohorts:0", "cohorts:1", "records:0"])] == ["undecided"] * 3
    assert result.gate("cohorts:2").state == "kept"  # with the penalty, all three together do not fit


def test_numbers_may_have_a_rounding_each(tmp_path, divulge):
    """Three significant digits of each, as 3.1E-2 is written; zeros at the end may be dropped, too."""
    data = draw_cohorts(300, np.random.default_rng(14), 3)
    fitted = fit(*join(data, "ac"))
    for name, (x, y) in data.items():
        table = pl.DataFrame(x, schema=COLUMNS).with_columns(outcome=pl.Series(y.astype(int)))
        table.write_csv(tmp_path / f"{name}.csv")
    options = [part for name in data for part in ("--cohort", tmp_path / f"{name}.csv")] + ["--label", "outcome"]
    for form in ("{:.2e}", "{:#.3g}", "{:.4f}"):
        texts = [form.format(value).rstrip("0" if form == "{:.4f}" else "") for value in (*fitted[0], fitted[1])]
        lines = [f"{name},{text}" for name, text in zip((*COLUMNS, "intercept"), texts, strict=True)]
        (tmp_path / "paper.csv").write_text("\n".join(lines))
        code, out, errors = divulge("weights", tmp_path / "paper.csv", *options, "--json")
        assert code == 0, errors
        assert ["a", "c"] in [each["cohorts"] for each in json.loads(out)["subsets"] if each["accepted"]], form
    # As a spreadsheet, or R's write.csv2, writes it.
    local = ['"term";"estimate"', *(line.replace(",", ";").replace(".", ",") for line in lines)]
    (tmp_path / "paper.csv").write_text("\n".join(local))
    code, local_out, errors = divulge("weights", tmp_path / "paper.csv", *options, "--json")
    assert code == 0, errors
    assert json.loads(local_out)["subsets"] == json.loads(out)["subsets"]


def test_the_rounding_of_a_number_is_read_off_that_number(tmp_path, divulge):
    """1.23e4 is rounded to hundreds; leading zeros are no digits, and only a number of 15 digits is exact."""
    rng = np.random.default_rng(3)
    scale, names = np.array([1e3, 1.0, 1e-12]), ("large", "one", "tiny")
    for name in "ab":
        x = rng.normal(size=(200, 3)) / scale
        table = pl.DataFrame(x, schema=names).with_columns(
            y=pl.Series(x * scale @ [12.0, 3.0, 1.0] + rng.normal(size=200))
        )
        table.write_csv(tmp_path / f"{name}.csv")
    x = pl.read_csv(tmp_path / "a.csv")
    design = np.c_[x.select(names).to_numpy() * scale, np.ones(200)]
    theta = np.linalg.lstsq(design, x["y"].to_numpy(), rcond=None)[0] * [*scale, 1.0]
    options = ["--cohort", tmp_path / "a.csv", "--cohort", tmp_path / "b.csv", "--label", "y", "--penalty", 0]
    for forms in (
        ("{:.2e}",) * 4,
        ("{:.2f}", "{:.2f}", "{:.15f}", "{:.2f}"),
        ("{:.1f}", "{:.17g}", "{:.15f}", "{:.2f}"),
    ):
        texts = [form.format(value) for form, value in zip(forms, theta, strict=True)]
        lines = [f"{name},{text}" for name, text in zip((*names, "intercept"), texts, strict=True)]
        (tmp_path / "paper.csv").write_text("\n".join(lines))
        code, out, errors = divulge("weights", tmp_path / "paper.csv", "--family", "linear", *options, "--json")
        assert code == 0, errors
        assert [each["cohorts"] for each in json.loads(out)["subsets"] if each["accepted"]] == [["a"]], forms


def test_errors_name_the_file_and_what_is_wrong_there(files, divulge):
    folder, data, options = files
    write_coefficients(folder / "paper.csv", fit(*data["a"]), 3)
    good = pl.read_csv(folder / "a.csv")
    for change, message in (
        (lambda t: t.rename({"age": "years"}), "bad.csv: lacks age and has the further columns years"),
        (lambda t: t.drop("outcome"), "--label: 'outcome' is unknown .* in .*bad.csv"),
        (lambda t: t.with_columns(outcome=pl.lit("yes")), "bad.csv: labels 0 and 1 are needed .* got yes"),
        (lambda t: t.with_columns(outcome=2), "bad.csv: labels 0 and 1 are needed .* got 2"),
        (lambda t: t.with_columns(age=pl.lit("old")), "bad.csv: numbers are needed, and the columns age"),
        (lambda t: t.with_columns(age=pl.lit(None, pl.Float64)), "bad.csv.*age"),
    ):
        change(good).write_csv(folder / "bad.csv")
        code, _, errors = divulge("weights", folder / "paper.csv", *options, "--cohort", folder / "bad.csv")
        assert code == 2
        assert re.search(message, " ".join(errors.split())), errors
    many = [part for _ in range(13) for part in ("--cohort", folder / "a.csv")]
    code, _, errors = divulge("weights", folder / "paper.csv", *many, "--label", "outcome")
    assert (code, "--cohort: must be given at most 12 times, got 13" in errors) == (2, True)


def test_a_coefficient_that_rounds_to_0_is_one_like_others():
    data = draw_cohorts(300, np.random.default_rng(21), 2)
    published = publish(fit(*data["a"]), 1)
    assert 0 in published.coefficients
    assert ("a",) in [each.cohorts for each in cohorts(published, data).accepted]


def test_cut_off_decimals_are_understood():
    data = draw_cohorts(300, np.random.default_rng(5))
    w, b = fit(*join(data, "ad"))
    for turn in (np.floor, np.ceil, np.trunc):
        match = cohorts(publish((turn(w * 1e4) / 1e4, float(turn(b * 1e4) / 1e4)), 4), data)
        assert match.match.cohorts == ("a", "d")
        assert match.units == 1.0


def test_the_records_that_decimals_tell_apart_are_those_without_which_the_fit_rounds_otherwise():
    rng = np.random.default_rng(6)
    data = draw_cohorts(200, rng, 2)
    published = publish(fit(*join(data, "ab")), 2)
    match = cohorts(published, data)
    x, y = join(data, "ab")
    without = [np.append(*fit(*drop(x, y, row))) for row in range(len(y))]
    told_apart = sum(np.abs(theta - published.theta).max() > 1e-2 for theta in without)  # it may be cut off
    assert 0 < told_apart < len(y)
    assert match.match.hidden >= 1
    assert told_apart - 3 <= match.match.told_apart <= told_apart  # one Newton step each, in the place of most fits


@pytest.mark.parametrize(
    ("family", "penalty", "scaled", "n"),
    [("linear", 1e-9, True, 100), ("linear", 5.0, True, 60), ("poisson", 3.0, False, 60), ("logistic", 1.0, True, 60)],
)
def test_of_no_record_it_is_said_that_it_shows_whose_absence_leaves_every_digit(family, penalty, scaled, n):
    """Without a record columns are scaled otherwise, and a mean loss has another penalty."""
    n_true = n_told_apart = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = np.exp(1.2 * rng.normal(size=(n, 3))) if family == "linear" else rng.normal(size=(n, 3))
        predictor = np.clip(x @ [0.4, -0.3, 0.2], -3, 3)
        y = predictor + rng.normal(size=n)
        if family != "linear":
            mean = 1 / (1 + np.exp(-predictor))
            y = (rng.random(n) < mean).astype(float) if family == "logistic" else rng.poisson(np.exp(predictor)) * 1.0
        decimals = 1 if family == "logistic" else 2
        published = publish(fit(x, y, family, penalty, scaled), decimals, family=family, penalty=penalty, scaled=scaled)
        match = cohorts(published, {"a": (x, y)})
        without = [np.append(*fit(*drop(x, y, row), family, penalty, scaled)) for row in range(n)]
        is_changed = [np.abs(theta - published.theta).max() > 10.0**-decimals for theta in without]
        told_apart = match.accepted[0].told_apart
        assert told_apart <= sum(is_changed)
        n_true, n_told_apart = n_true + sum(is_changed), n_told_apart + told_apart
    assert 0.8 * n_true <= n_told_apart < 2 * n


@pytest.mark.parametrize(("scaled", "n", "decimals"), [(True, 4000, 3), (False, 8000, 2)])
def test_so_many_records_as_are_said_to_hide_do_and_many_more_do_not(scaled, n, decimals):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    y = x @ [3.0, -2.0] + rng.normal(size=n)
    published = publish(fit(x, y, "linear", 1e-9, scaled), decimals, family="linear", penalty=1e-9, scaled=scaled)
    hidden = cohorts(published, {"a": (x, y)}).accepted[0].hidden

    def rate_without(count):
        refits = (
            np.append(*fit(*drop(x, y, rng.choice(n, count, replace=False)), "linear", 1e-9, scaled)) for _ in range(40)
        )
        return np.mean([np.abs(theta - published.theta).max() <= 10.0**-decimals for theta in refits])

    assert hidden > (1 if scaled else 1024)
    assert rate_without(hidden // 2) > 0
    assert hidden > n / 4 or rate_without(4 * hidden) <= 0.1


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_record_is_told_apart_only_if_no_penalty_of_at_least_0_makes_up_for_it(family):
    """Of a mean loss (Poisson) the penalty is in other units than of a sum; both may fall as far as 0."""
    data = draw_cohorts(120, np.random.default_rng(24), 1, family)
    x, y = data["a"]
    strength = 0.002 if family == "poisson" else 0.3
    published = publish(fit(x, y, family, strength), 2, family=family, penalty=None)
    match = cohorts(published, data).match
    penalties = strength * np.r_[1e-6, np.linspace(0.1, 5, 7)]

    def is_made_up_for(row):
        refits = (np.append(*fit(*drop(x, y, row), family, penalty)) for penalty in penalties)
        return any(np.abs(theta - published.theta).max() <= 1e-2 for theta in refits)

    told_apart = sum(not is_made_up_for(row) for row in range(len(y)))
    assert 0 < told_apart < len(y)
    assert abs(match.told_apart - told_apart) <= 4  # one Newton step each, in the place of a fit


@pytest.mark.parametrize("family", ["linear", "poisson"])
def test_a_missing_record_of_other_families_is_read_off_and_what_it_may_be_taken_for_is_said(family):
    """The residual of a linear fit may be that of several records which are alike; a count must be a whole number."""
    rng, n_named = np.random.default_rng(15), 0
    options = {"family": family, "penalty": 1e-3}
    for _ in range(3):
        data, (x, y) = draw_cohorts(300, rng, 1, family), draw(1, rng, family)
        published = publish(fit(*join(data | {"z": (x, y)}, "az"), **options), 6, **options)
        odd = cohorts(published, data).odd_record
        n_named += odd is not None
        assert odd is None or (odd.x.tolist(), odd.missing) == (x[0].tolist(), True)
        assert odd is None or abs(odd.y - y[0]) <= odd.y_error
        assert odd is None or (odd.alike is not None, odd.y_error > 0) == (family == "linear",) * 2
    assert n_named >= 2  # a small residual leaves too little to read


def test_where_nothing_but_real_numbers_are_left_no_linear_record_is_named():
    rng = np.random.default_rng(16)
    x = rng.normal(size=(301, 3))
    y = x.sum(axis=1) + rng.normal(size=301)
    published = publish(fit(x, y, "linear"), 8, family="linear")
    assert cohorts(published, {"a": (x[:-1], y[:-1])}).odd_record is None


@pytest.mark.parametrize("missing", [True, False])
def test_the_one_record_is_read_off_six_decimals(missing):
    rng = np.random.default_rng(7)
    for _ in range(3):
        data = draw_cohorts(500, rng, 3)
        x, y = join(data, "ab")
        row = int(rng.integers(len(y)))
        record = draw(1, rng) if missing else (x[[row]], y[[row]])
        training = (np.r_[x, record[0]], np.r_[y, record[1]]) if missing else drop(x, y, row)
        odd = cohorts(publish(fit(*training), 6), data).odd_record
        assert odd is not None
        assert (odd.cohorts, odd.missing, odd.y) == (("a", "b"), missing, record[1][0])
        np.testing.assert_allclose(odd.x, record[0][0], atol=1e-9)
    assert cohorts(publish(fit(*training), 2), data).odd_record is None


def test_one_decimal_of_one_column_reads_no_record():
    """Where the residual is not known, nothing bounds the chance of a record."""
    for seed in (7, 40):
        rng = np.random.default_rng(seed)
        data = {name: (rng.normal(size=(30, 1)), (rng.random(30) < 0.3).astype(float)) for name in "abcd"}
        n = 30 + int(rng.integers(0, 6))
        outside = rng.normal(size=(n, 1)), (rng.random(n) < 0.3).astype(float)
        match = cohorts(publish(fit(*outside, penalty=1e-9), 1, penalty=0.0, gradient=1e-9), data)
        assert match.odd_record is None
        assert all(0 <= each.chance <= 1 for each in match.subsets)


def test_a_line_but_for_one_record_is_no_error():
    x = np.tile(np.arange(5.0), 8)[:, None]
    for row in (3, 20, 38):
        y = x[:, 0].copy()
        y[row] += 4.3
        match = cohorts(Publication([1.0], 0.0, "linear", decimals=3), {"a": (x, y)})
        assert match.match is None


@pytest.mark.parametrize("value", [16.0, 100.0])
def test_a_count_beside_which_all_others_are_lost_is_no_error_and_names_nothing(value):
    x, y = np.tile([0.0, 1.0], 20)[:, None], np.tile([0.0, 1.0, 2.0, 1.0], 10)
    data = {"a": (x, y), "b": (np.r_[x, [[value]]], np.r_[y, 3.0])}
    match = cohorts(Publication([5.0], 0.3, "poisson", decimals=1), data)
    assert (match.match, match.certain) == (None, ())
    assert match.chance > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coefficients": [0.1234, 0.0, 0.3, 0.2], "decimals": 6}, "exactly 0"),
        ({"coefficients": [0.1]}, "1 columns are needed"),
        ({"penalty": -1.0}, "penalty"),
        ({"decimals": 20}, "decimals"),
        ({"family": "cox"}, "family"),
        ({"gradient": np.nan}, "gradient"),
        ({"gradient": np.inf}, "gradient"),
        ({"penalty": np.inf}, "penalty"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    options = {"coefficients": [0.1, 0.2, 0.3, 0.4], "intercept": 0.5, "decimals": 4} | change
    with pytest.raises(dv.InputError, match=message):
        cohorts(Publication(**options), draw_cohorts(50, np.random.default_rng(8)))


def test_a_record_that_stands_in_two_cohorts_is_not_said_to_be_missing():
    """Where training took it once, one of two equal records counts less, and nobody was left out."""
    rng = np.random.default_rng(22)
    data = draw_cohorts(300, rng, 3)
    data["b"][0][5], data["b"][1][5] = data["a"][0][3], data["a"][1][3]
    x, y = join(data, "ab")
    result = dv.examine_cohorts(publish(fit(*drop(x, y, 305)), 8), data, columns=COLUMNS)
    assert (result.answer, result.odd_record.missing, result.odd_record.copies) == ("one record off", False, 2)
    assert "one of 2 equal records counted less" in result.summary().verdict
    assert result.gate("records:0").state == "undecided"


@pytest.mark.parametrize("cohort", ["a", "c"])
def test_a_record_that_counts_twice_is_not_said_to_be_in_none_of_the_cohorts(cohort):
    data = draw_cohorts(300, np.random.default_rng(23), 3)
    row = 7
    twice = tuple(part[[row]] for part in data[cohort])
    result = dv.examine_cohorts(publish(fit(*join(data | {"x": twice}, "abx")), 8), data, columns=COLUMNS)
    odd, verdict = result.odd_record, result.summary().verdict
    assert (result.answer, odd.missing, odd.equal_cohort) == ("one record off", True, cohort)
    np.testing.assert_array_equal(data[cohort][0][odd.equal_row], data[cohort][0][row])
    assert f"equals one of {cohort}" in verdict
    assert ("counted twice" in verdict) == (cohort == "a")
    assert result.gate("records:0").state == "undecided"


@pytest.mark.parametrize("value", [1e3, 1e6, 1e12])
def test_an_enormous_value_makes_nothing_fit_that_does_not(value):
    """Short steps past it are no sign that the optimum was reached."""
    data = draw_cohorts(200, np.random.default_rng(20), 2)
    published = publish(fit(*join(data, "ab")), 4)
    data["a"][0][3, 1] = value
    match = cohorts(published, data)
    assert [each.cohorts for each in match.accepted] in ([], [("a", "b")])
    assert not match.certain or match.certain == ("a", "b")


def test_collinear_columns_and_other_labels_are_refused():
    (x, y) = draw(50, np.random.default_rng(9))
    published = Publication([0.1, 0.2, 0.3, 0.4], 0.5, decimals=2)
    for bad, message in (
        ((np.c_[x[:, :3], x[:, 0] + x[:, 1]], y), "collinear"),
        ((np.c_[x[:, :3], np.ones(50)], y), "collinear"),
        ((x, y + 1), "labels 0 and 1"),
    ):
        with pytest.raises(dv.InputError, match=message):
            cohorts(published, {"a": bad})


@pytest.fixture
def files(tmp_path):
    """Write tables of cohorts, with columns in another order than the coefficients."""
    data = draw_cohorts(300, np.random.default_rng(10), 3)
    for name, (x, y) in data.items():
        table = pl.DataFrame(x, schema=COLUMNS).with_columns(outcome=pl.Series(y.astype(int)))
        table.select("outcome", *reversed(COLUMNS)).write_csv(tmp_path / f"{name}.csv")
    options = [part for name in data for part in ("--cohort", tmp_path / f"{name}.csv")] + ["--label", "outcome"]
    return tmp_path, data, options


def write_coefficients(path, fitted, decimals):
    rows = [*zip(COLUMNS, fitted[0], strict=True), ("(Intercept)", fitted[1])]
    path.write_text("term,estimate\n" + "".join(f"{name},{value:.{decimals}f}\n" for name, value in rows))


def test_a_table_of_coefficients_from_the_command_line(files, divulge):
    folder, data, options = files
    write_coefficients(folder / "paper.csv", fit(*join(data, "ac")), 3)
    code, out, errors = divulge("weights", folder / "paper.csv", *options, "--json", "--out", folder / "report.html")
    assert code == 0, errors
    summary = json.loads(out)
    assert summary["answer"] == "found"
    assert summary["subsets"][0]["cohorts"] == ["a", "c"]
    assert "What is assumed" in (folder / "report.html").read_text()
    extra = draw(1, np.random.default_rng(11))
    training = join(data | {"b": extra}, "acb")
    coefficients, intercept = fit(*training)
    write_coefficients(folder / "six.csv", (coefficients, intercept), 6)
    published = Publication(np.round(coefficients, 6), round(intercept, 6), penalty=1.0, decimals=6, gradient=1e-12)
    for is_shown in (True, False):
        summary = dv.examine_cohorts(published, data, columns=COLUMNS, show_records=is_shown).summary()
        assert summary.answer == "one record off"
        assert (summary.odd_record.values is not None) == is_shown
        assert not is_shown or [summary.odd_record.values[name] for name in COLUMNS] == extra[0][0].tolist()
    code, out, _ = divulge("weights", folder / "six.csv", *options, "--penalty", 1, "--json")
    assert json.loads(out)["answer"] == "none"  # an optimiser of which more is not known may have left as much


def test_a_run_is_read_back_shown_in_every_form_and_held_to_limits(files, divulge, tmp_path):
    folder, data, options = files
    write_coefficients(folder / "paper.csv", fit(*join(data, "ac")), 3)
    run = tmp_path / "run"
    assert divulge("weights", folder / "paper.csv", *options, "--out", run)[0] == 0
    assert divulge("weights", folder / "paper.csv", *options, "--out", run)[0] == 2  # is there already
    assert divulge("weights", folder / "paper.csv", *options, "--out", run, "--overwrite")[0] == 0
    loaded = dv.load(run)
    assert (loaded.summary.answer, loaded.summary.proven) == ("found", ("a", "c"))
    assert loaded.to_frame().height == 7
    assert "a and c" in loaded.verdict
    for form, name in (
        ("html", "report.html"),
        ("md", "model_card.md"),
        ("json", "results.json"),
        ("csv", "records.csv"),
    ):
        assert divulge("report", run, "--format", form)[0] == 0
        assert (run / name).stat().st_size
    for limit, code in (("cohorts:0", 1), ("cohorts:1", 1), ("cohorts:2", 0), ("records:0", 3), ("auc:0.5", 2)):
        assert divulge("gate", run, "--max", limit)[0] == code, limit
    with pytest.raises(dv.InputError, match=r"whole number of cohorts, got 0\.5"):
        dv.gate(run, "cohorts:0.5")


def test_what_fits_nothing_keeps_no_limit(tmp_path):
    """The fit may be unlike the assumed one, and whoever knows it reads the cohorts off."""
    data = draw_cohorts(300, np.random.default_rng(12), 3)
    result = dv.examine_cohorts(publish(fit(*join(data, "ab"), scaled=True), 4), data, out=tmp_path / "run")
    assert result.answer == "none"
    for run in (result, tmp_path / "run"):
        assert [ruling.state for ruling in dv.gate(run, ["cohorts:0", "records:0"])] == ["undecided"] * 2


@pytest.mark.parametrize(
    ("change", "n", "state"), [("none", 500, "kept"), ("one fewer", 150, "broken"), ("one more", 150, "broken")]
)
def test_records_that_may_not_show_leave_their_limit_open(change, n, state, divulge, tmp_path):
    """A Newton solver's coefficients tell of one record what a wider gradient would hide."""
    rng = np.random.default_rng(17)
    data, extra = draw_cohorts(n, rng, 2), draw(1, rng)
    x, y = join(data, "ab") if change != "one more" else join(data | {"x": extra}, "abx")
    if change == "one fewer":
        x, y = drop(x, y, [20])
    write_coefficients(tmp_path / "paper.csv", fit(x, y, penalty=1e-9), 6)
    for name, (values, labels) in data.items():
        pl.DataFrame(values, schema=COLUMNS).with_columns(died=pl.Series(labels)).write_csv(tmp_path / f"{name}.csv")
    options = ["--cohort", tmp_path / "a.csv", "--cohort", tmp_path / "b.csv", "--label", "died", "--penalty", 0]
    states = {}
    for gradient in (1e-4, 1e-6):
        run = tmp_path / f"{gradient}"
        command = ["weights", tmp_path / "paper.csv", *options, "--gradient", gradient, "--out", run, "--json"]
        code, out, errors = divulge(*command)
        assert code == 0, errors
        states[gradient] = dv.gate(run, "records:0").state
    assert states == {1e-4: "undecided", 1e-6: state}
    assert json.loads(out)["proven"] == ["a", "b"]
    assert divulge(*command[:-3], "--gradient", -1)[0] == 2


@pytest.mark.parametrize("show_records", [True, False])
def test_a_record_that_is_read_off_breaks_a_limit_and_is_shown_on_request(tmp_path, divulge, show_records):
    rng = np.random.default_rng(13)
    data, extra = draw_cohorts(300, rng, 2), draw(1, rng)
    published = publish(fit(*join(data | {"x": extra}, "abx")), 6)
    run = tmp_path / "run"
    result = dv.examine_cohorts(published, data, columns=COLUMNS, show_records=show_records, out=run)
    assert result.answer == dv.load(run).summary.answer == "one record off"
    assert dv.gate(run, ["cohorts:1", "records:0"]).state == "broken"
    assert dv.gate(run, ["cohorts:2", "records:1"]).state == "kept"
    assert (">prior<" in (run / "report.html").read_text()) == show_records
    assert (f'"age": {extra[0][0, 0]}' in (run / "summary.json").read_text()) == show_records
    assert divulge("report", run, "--format", "json")[0] == 0
    assert "values" not in json.loads((run / "results.json").read_text())["results"]["odd_record"]


def test_models_of_scikit_learn(files, divulge):
    skops = pytest.importorskip("skops.io")
    folder, data, options = files
    x, y = join(data, "bc")
    frame = pl.DataFrame(x, schema=COLUMNS).to_pandas()
    right = (LogisticRegression(max_iter=2000), make_pipeline(StandardScaler(), LogisticRegression()), Ridge(2.0))
    for model in right:
        skops.dump(model.fit(frame, y), folder / "model.skops")
        code, out, errors = divulge("weights", folder / "model.skops", *options, "--json")
        assert code == 0, errors
        assert json.loads(out)["subsets"][0]["cohorts"] == ["b", "c"]
        assert json.loads(out)["answer"] == "found"
    refused = {
        "L1": LogisticRegression(l1_ratio=1.0, solver="saga", C=0.1, max_iter=5000),
        "class weights": LogisticRegression(class_weight="balanced", max_iter=2000),
        "max_iter": LogisticRegression(max_iter=3),
    }
    for message, model in refused.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge
            model.fit(frame, y)
        skops.dump(model, folder / "model.skops")
        code, _, errors = divulge("weights", folder / "model.skops", *options)
        assert code == 2
        assert message in errors


def test_where_nothing_fits_the_nearest_combination_and_a_missing_intercept_are_named():
    rng = np.random.default_rng(7)
    data = draw_cohorts(200, rng)
    x, y = join(data, "ab")
    near = dv.examine_cohorts(publish(fit(x[3:], y[3:]), 4), data)
    assert near.answer == "none"
    assert "Nearest is a and b, " in near.summary().verdict
    assert "none of the cohorts is cleared" in near.summary().verdict
    far = dv.examine_cohorts(publish(fit(*draw(400, rng)), 4), data)
    assert "Nearest is" not in far.summary().verdict
    coefficients = fit(x, y)[0]
    bare = dv.examine_cohorts(Publication(coefficients.round(4), None, decimals=4, penalty=1.0, **EXACT), data)
    assert "Fitted without an intercept, as no number of that name was given" in bare.summary().verdict


@pytest.fixture(scope="module")
def wards(tmp_path_factory):
    """Cohorts with columns of texts, the same coded by hand, and coefficients of two of them."""
    folder, rng = tmp_path_factory.mktemp("wards"), np.random.default_rng(5)
    coded = {}
    for name in "abc":
        sex, ward = rng.choice(["F", "M"], 200), rng.choice(["east", "north", "west"], 200)
        by_hand = {"age": rng.integers(18, 70, 200).astype(float), "sexM": sex == "M"}
        by_hand |= {f"ward{level}": ward == level for level in ("north", "west")}
        x = np.column_stack([*by_hand.values()]).astype(float)
        y = (rng.random(200) < 1 / (1 + np.exp(-(x @ [-0.03, 0.5, -0.4, 0.3] + 1)))).astype(int)
        coded[name] = x, y
        pl.DataFrame({"age": by_hand["age"], "sex": sex, "ward": ward, "died": y}).write_csv(folder / f"{name}.csv")
        (folder / "coded").mkdir(exist_ok=True)
        frame = pl.DataFrame(x, schema=list(by_hand)).with_columns(died=pl.Series(y))
        frame.write_csv(folder / "coded" / f"{name}.csv")
    coefficients, intercept = fit(*join(coded, "ac"))
    return folder, [*coefficients.round(4), round(intercept, 4)]


def weigh(divulge, folder, names, numbers, cohorts="abc", drop=None):
    rows = zip(["name", *names, "(Intercept)"], ["estimate", *numbers], strict=True)
    (folder / "paper.csv").write_text("".join(f"{name},{number}\n" for name, number in rows))
    options = [part for name in cohorts for part in ("--cohort", folder / f"{name}.csv")]
    options += ["--drop", drop] if drop else []
    code, out, err = divulge("weights", folder / "paper.csv", *options, "--label", "died", "--penalty", 1, "--json")
    return json.loads(out) if code == 0 else err


@pytest.mark.parametrize(
    "names",
    [
        ["age", "sexM", "wardnorth", "wardwest"],
        ["age", "sex_M", "ward_north", "ward_west"],
        ["age", "sex[T.M]", "C(ward)[T.north]", "C(ward)[T.west]"],
    ],
)
def test_dummies_of_a_column_of_texts_give_the_numbers_of_columns_coded_by_hand(names, wards, divulge):
    folder, numbers = wards
    found = weigh(divulge, folder, names, numbers)
    by_hand = weigh(divulge, folder / "coded", ["age", "sexM", "wardnorth", "wardwest"], numbers)
    assert found["answer"] == "found"
    assert found["proven"] == ["a", "c"]
    for key in ("subsets", "chance", "decimals", "tried"):
        assert found[key] == by_hand[key]


NUMBERED = {"F": 1, "M": 2}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda sex: sex, "factor(sex)M"),
        (lambda sex: sex, "as.factor(sex)M"),
        (lambda sex: sex == "M", "sexTRUE"),
        (lambda sex: sex == "M", "sex_True"),
        (lambda sex: sex.replace_strict(NUMBERED), "factor(sex)2"),
        (lambda sex: sex.replace_strict(NUMBERED), "sex2"),
        (lambda sex: sex.replace_strict(NUMBERED).cast(float), "C(sex)[T.2.0]"),
    ],
)
def test_levels_are_called_as_r_calls_those_of_factors_numbers_and_truths(change, name, wards, divulge, tmp_path):
    folder, numbers = wards
    for cohort in "abc":
        frame = pl.read_csv(folder / f"{cohort}.csv")
        frame.with_columns(change(frame["sex"]).alias("sex")).write_csv(tmp_path / f"{cohort}.csv")
    found = weigh(divulge, tmp_path, ["age", name, "wardnorth", "wardwest"], numbers)
    assert found["proven"] == ["a", "c"]


def test_a_column_and_a_level_of_one_name_are_told_apart_by_drop(wards, divulge, tmp_path):
    folder, numbers = wards
    for cohort in "abc":
        frame = pl.read_csv(folder / f"{cohort}.csv")
        frame.with_columns(sexM=pl.col("age") % 7).write_csv(tmp_path / f"{cohort}.csv")
    names = ["age", "sexM", "wardnorth", "wardwest"]
    message = weigh(divulge, tmp_path, names, numbers)
    assert "'sexM' may stand for the column 'sexM' or 'M' in column 'sex'" in " ".join(message.split())
    assert weigh(divulge, tmp_path, names, numbers, drop="sexM")["proven"] == ["a", "c"]
    assert weigh(divulge, tmp_path, names, numbers, drop="sex")["answer"] == "none"


def test_a_printed_summary_and_a_label_that_was_not_named_are_recognised(wards, divulge, tmp_path):
    folder, _ = wards
    (tmp_path / "printed.csv").write_text(
        "            Estimate Std. Error\n(Intercept)  -3.7     0.01 ***\nage  0.1 0.2\n"
    )
    code, _, errors = divulge("weights", tmp_path / "printed.csv", "--cohort", folder / "a.csv")
    assert (code, "write.csv(coef(model)" in errors) == (2, True)
    (tmp_path / "paper.csv").write_text("age,0.1\nsexM,0.2\nwardnorth,0.3\nwardwest,0.4\n")
    code, _, errors = divulge("weights", tmp_path / "paper.csv", "--cohort", folder / "a.csv")
    assert (code, "or is this --label?" in " ".join(errors.split())) == (2, True)


@pytest.mark.parametrize(
    ("change", "names", "message"),
    [
        # Two columns without a coefficient: which one is the base?
        (lambda t: t, ["age", "sexM", "wardnorth"], "in column 'ward' east, west have no coefficient"),
        (lambda t: t.with_columns(sex=pl.col("sex").replace("F", "_M")), ["age", "sex_M", "wardnorth", "wardwest"],
         "'sex_M' may stand for 'M' in column 'sex' or '_M' in column 'sex'; rename"),
        (lambda t: t, ["age", "sexM", "sex_M", "wardnorth", "wardwest"], "both stand for 'M' in column 'sex'"),
        (lambda t: t.with_columns(sex=pl.when(pl.col("age") > 60).then(None).otherwise(pl.col("sex"))),
         ["age", "sexM", "wardnorth", "wardwest"], "'sex': a value is missing"),
        (lambda t: t, ["age", "sexX", "wardnorth", "wardwest"], "lacks sexX and has the further columns sex"),
        (lambda t: t, ["age", "sexM", "wardnorth", "wardwest", "age:sexM"], "make a column called 'age:sexM'"),
        # Of so many ages one name is rather a square.
        (lambda t: t, ["age2", "sexM", "wardnorth", "wardwest"], "lacks age2 and has the further columns age"),
        (lambda t: t, ["factor(age)20", "sexM", "wardnorth", "wardwest"], "in column 'age' 18, 19, 21"),
    ],
)  # fmt: skip
def test_dummies_that_can_be_read_in_two_ways_are_refused(change, names, message, wards, divulge, tmp_path):
    folder, numbers = wards
    for name in "abc":
        change(pl.read_csv(folder / f"{name}.csv")).write_csv(tmp_path / f"{name}.csv")
    numbers = [0.1 + 0.01 * place for place in range(len(names) + 1)]
    assert message in " ".join(weigh(divulge, tmp_path, names, numbers).split())
