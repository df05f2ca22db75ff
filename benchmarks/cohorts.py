"""Which subset of cohorts, and which single record, is named of published regressions, and how often wrongly.

    PYTHONPATH=src python benchmarks/cohorts.py [--draws 20] [--part subsets missing differences outside]

`subsets`: the training set is some of four cohorts. `missing`: it is two cohorts and a record that is in neither.
`differences`: it differs from two of them otherwise. `outside`: it is another trial of the same design, or another
cohort of a table with few distinct records. Of digits that are said, numbers have so many decimals, or, below .01, so
many digits. Fits are by Newton steps of this script's own. Writes `benchmarks/results/cohorts.md`.
"""

from __future__ import annotations

import argparse
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.margin import CohortMatch, OddRecord, Publication, cohorts

Counts = Mapping[str, float]
Table = tuple[NDArray[np.float64], NDArray[np.float64]]
PAGE = Path(__file__).parent / "results" / "cohorts.md"
FAMILIES = ("logistic", "poisson", "linear")
PENALTY = 1e-2


def scale(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a column as it moves the labels: of spread 1, whatever its units."""
    return (column - np.median(column)) / max(float(np.subtract(*np.quantile(column, [0.9, 0.1]))), 1e-9)


COLUMNS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "whole numbers": lambda rng, n: np.c_[
        rng.integers(18, 70, n), rng.poisson(2, n), rng.random(n) < 0.6, rng.random(n) < 0.3
    ],
    "one of real numbers": lambda rng, n: np.c_[
        rng.integers(18, 70, n), rng.poisson(2, n), rng.random(n) < 0.6, rng.normal(size=n)
    ],
    "real numbers": lambda rng, n: rng.normal(size=(n, 4)),
    "many duplicates": lambda rng, n: np.c_[rng.integers(0, 3, n), rng.random(n) < 0.5, rng.random(n) < 0.2],
    "a near-constant column": lambda rng, n: np.c_[
        rng.integers(18, 70, n), rng.random(n) < 0.5, np.arange(n) % 120 == 60
    ],
    "heavy tails": lambda rng, n: np.c_[np.round(rng.standard_t(1.5, n) * 10), rng.integers(0, 5, n)],
    "values of 1e12": lambda rng, n: np.c_[rng.integers(10**11, 10**12, n), rng.integers(0, 5, n), rng.random(n) < 0.4],
}
TRIALS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "a 2 x 2 table": lambda rng, n: rng.permutation(np.arange(n) % 2)[:, None],
    "a 2 x 2 table beside real numbers": lambda rng, n: (np.arange(n) % 2)[:, None],
    "a dose each": lambda rng, n: np.arange(n)[:, None],
    "two of each dose": lambda rng, n: np.arange(n)[:, None] // 2,
    "three of each dose": lambda rng, n: np.arange(n)[:, None] // 3,
    "a real number": lambda rng, n: rng.normal(size=(n, 1)),
}


def draw(columns: str, family: str, rng: np.random.Generator, n: int) -> Table:
    """Draw records; the labels follow the columns, with the family's own noise."""
    x = (COLUMNS | TRIALS)[columns](rng, n).astype(float)
    predictor = 0.3 * np.clip(np.column_stack([scale(column) for column in x.T]), -3, 3).sum(axis=1) - 0.2
    if family == "logistic":
        return x, (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(float)
    if family == "poisson":
        return x, rng.poisson(np.exp(predictor)).astype(float)
    return x, np.round(predictor + rng.normal(size=n), 1)


def join(*tables: Table) -> Table:
    """Return the records of all tables."""
    x, y = (np.concatenate([table[part] for table in tables]) for part in (0, 1))
    return x, y


def fit(
    table: Table, family: str, weights: NDArray[np.float64] | None = None, *, scaled: bool = False, penalty: float
) -> NDArray[np.float64] | None:
    """Return coefficients and, last, intercept of the optimum, in the columns' units; None where there is none.

    Args:
        table: training set.
        family: of the regression.
        weights: of the records; 1 each where None.
        scaled: whether the coefficients are those of columns of spread 1, and the penalty too.
        penalty: as in `Publication`.
    """
    x, y = table
    weights = np.ones(len(y)) if weights is None else weights
    spread = x.std(axis=0)
    if (spread == 0).any():
        return None
    center = x.mean(axis=0) if scaled else np.average(x, axis=0, weights=weights)
    design = np.c_[(x - center) / spread, np.ones(len(y))]
    # In units of their spread the penalty weighs as it does in the columns' own.
    strength = penalty * (weights.sum() if family == "poisson" else 1)
    ridge = np.append(np.full(x.shape[1], strength) if scaled else strength / spread**2, 0.0)
    theta = np.zeros(design.shape[1])
    for _ in range(200):
        at = np.clip(design @ theta, -60, 60)
        mean = {"logistic": 1 / (1 + np.exp(-at)), "poisson": np.exp(at), "linear": at}[family]
        curvature = {"logistic": mean * (1 - mean), "poisson": mean, "linear": np.ones_like(mean)}[family]
        gradient = design.T @ (weights * (mean - y)) + ridge * theta
        hessian = (design * (weights * curvature)[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        step *= min(1.0, 2.0 / max(float(np.abs(design @ step).max()), 1e-300))
        theta = theta - step
        if np.abs(step).max() < 1e-13 * max(1.0, float(np.abs(theta).max())):
            break
    if np.abs(theta).max() > 20:  # classes are separated
        return None
    if scaled:
        return theta
    slopes = theta[:-1] / spread
    return np.append(slopes, theta[-1] - slopes @ center)


def publish(theta: NDArray[np.float64], family: str, digits: int, **options: object) -> Publication:
    """Return the coefficients with so many decimals; those below .01, with so many digits."""
    size = np.floor(np.log10(np.maximum(np.abs(theta), 1e-15))).astype(int)
    decimals = np.clip(np.where(size < -2, digits - 1 - size, digits), 0, 15)
    rounded = np.array([round(float(value), int(places)) for value, places in zip(theta, decimals, strict=True)])
    decimals = [int(each) for each in decimals]
    return Publication(
        rounded[:-1],
        float(rounded[-1]),
        family,
        decimals=decimals,
        **{"gradient": 1e-9} | options,  # ty: ignore[invalid-argument-type]
    )


def examine(theta: NDArray[np.float64] | None, data: dict[str, Table], **options: object) -> CohortMatch | None:
    """Return what is said of published coefficients; None where there was no fit."""
    return None if theta is None else cohorts(publish(theta, **options), data)  # ty: ignore[invalid-argument-type]


def try_subset(columns: str, family: str, rng: np.random.Generator, number: int, how: str) -> Counts | None:
    """Publish the fit on some of four cohorts of 200, to two to six digits."""
    data = {name: draw(columns, family, rng, 200) for name in "abcd"}
    right = tuple(sorted(rng.choice(list(data), rng.integers(1, 5), replace=False)))
    scaled, digits = "scaled" in how, int(rng.choice([2, 3, 4, 6]))
    theta = fit(join(*(data[name] for name in right)), family, scaled=scaled, penalty=PENALTY)
    penalty = None if "unknown" in how else PENALTY
    match = examine(theta, data, family=family, digits=digits, scaled=scaled, penalty=penalty)
    if match is None:
        return None
    return {
        "draws": 1,
        "right subset fits": right in [each.cohorts for each in match.accepted],
        "right one named": match.match is not None and match.match.cohorts == right,
        "wrong one named": match.match is not None and match.match.cohorts != right,
        "wrong cohort proven": not set(match.certain) <= set(right),
        "record named": match.odd_record is not None,
    }


def try_single_record(columns: str, family: str, rng: np.random.Generator, number: int, how: str) -> Counts | None:
    """Publish the fit on two cohorts of 500 and a further record, or without one of theirs, to six digits."""
    data = {name: draw(columns, family, rng, 500) for name in "ab"}
    x, y = join(*data.values())
    row = int(rng.integers(len(y)))
    added = draw(columns, family, rng, 200)
    record = (added[0][:1], added[1][:1]) if how == "one more" else (x[[row]], y[[row]])
    training = join((x, y), record) if how == "one more" else (np.delete(x, row, axis=0), np.delete(y, row))
    match = examine(fit(training, family, penalty=PENALTY), data, family=family, digits=6, penalty=PENALTY)
    if match is None:
        return None
    odd, (true_x, true_y) = match.odd_record, (record[0][0], record[1][0])
    is_right = (
        odd is not None
        and odd.cohorts == ("a", "b")
        and odd.missing == (how == "one more")
        and bool((np.abs(odd.x - true_x) <= odd.error + 1e-9 * np.abs(true_x) + 1e-9).all())
        and bool(abs(odd.y - true_y) <= odd.y_error + 1e-9)
    )
    return {
        "draws": 1,
        "record read off rightly": is_right,
        "record read off wrongly": odd is not None and not is_right,
        "not told from no difference": bool(match.accepted),
    }


def differ(
    how: str, table: Table, added: Table, rng: np.random.Generator
) -> tuple[Table, NDArray[np.float64], NDArray[np.float64]]:
    """Return a training set that differs otherwise, its weights, and the values of the records that differ."""
    x, y = table
    weights, rows = np.ones(len(y)), rng.choice(len(y), 2, replace=False)
    if how == "two more":
        return join(table, (added[0][:2], added[1][:2])), np.ones(len(y) + 2), added[0][:2]
    if how == "three more":
        return join(table, (added[0][:3], added[1][:3])), np.ones(len(y) + 3), added[0][:3]
    if how == "two fewer":
        return (np.delete(x, rows, axis=0), np.delete(y, rows)), weights[2:], x[rows]
    if how == "a swap":
        one = (added[0][:1], added[1][:1])
        return join((np.delete(x, rows[0], axis=0), np.delete(y, rows[0])), one), weights, np.r_[x[rows[:1]], one[0]]
    if how == "one corrected in a column":
        column, corrected = int(rng.integers(x.shape[1])), x.copy()
        corrected[rows[0], column] = added[0][0, column]
        return (corrected, y), weights, np.stack([x[rows[0]], corrected[rows[0]]])
    if how == "one of weight 1.5":
        weights[rows[0]] = 1.5
        return table, weights, x[rows[:1]]
    if how == "two alike":
        alike = np.repeat(added[0][:1], 2, axis=0)
        return join(table, (alike, added[1][:2])), np.ones(len(y) + 2), alike
    if how == "a further cohort":
        return join(table, added), np.ones(len(y) + len(added[1])), added[0]
    raise ValueError(f"how: {how!r} is unknown")


DIFFERENCES = (
    "two more", "three more", "two fewer", "a swap", "one corrected in a column", "one of weight 1.5", "two alike",
    "a further cohort",
)  # fmt: skip


def try_difference(columns: str, family: str, rng: np.random.Generator, number: int, how: str) -> Counts | None:
    """Publish the fit on two cohorts of 200 that differ otherwise than by one record, to four, six and eight digits."""
    data = {name: draw(columns, family, rng, 200) for name in "ab"}
    added = draw(columns, family, rng, 200)
    training, weights, differing = differ(how, join(*data.values()), added, rng)
    theta = fit(training, family, weights, penalty=PENALTY)
    match = examine(theta, data, family=family, digits=(4, 6, 8)[number % 3], penalty=PENALTY)
    whole = fit(join(*data.values()), family, penalty=PENALTY)
    # A value may be corrected to what it was, and two records may cancel each other.
    if match is None or whole is None or np.allclose(whole, theta, rtol=1e-9, atol=1e-12):
        return None
    odd = match.odd_record
    # Of records that are alike no more is claimed than that one of these values differs.
    is_value_right = (
        odd is not None
        and odd.alike is not None
        and bool((np.abs(differing - odd.x) <= odd.error + 1e-9).all(axis=1).any())
    )
    is_equivalent = odd is not None and not is_value_right and gives_the_same(odd, theta, data, family)
    return {
        "draws": 1,
        "record named falsely": odd is not None and not is_value_right and not is_equivalent,
        "values rightly named as differing": is_value_right,
        "one record gives the same numbers": is_equivalent,
        "not told from no difference": bool(match.accepted),
    }


def gives_the_same(odd: OddRecord, theta: NDArray[np.float64], data: dict[str, Table], family: str) -> bool:
    """Return whether the record that is named leads to all digits of these coefficients: then nothing is wrong."""
    x, y = join(*(data[name] for name in odd.cohorts))
    one = (odd.x[None], np.array([odd.y]))
    table = join((x, y), one) if odd.row is None else (np.delete(x, odd.row, axis=0), np.delete(y, odd.row))
    refitted = fit(table, family, penalty=PENALTY)
    return refitted is not None and bool(np.allclose(refitted, theta, rtol=1e-9, atol=1e-12))


def try_outside(columns: str, family: str, rng: np.random.Generator, number: int, how: str, n: int) -> Counts | None:
    """Publish the fit on another trial of the same design, or another cohort of few distinct records, to six digits."""
    data, scaled = {name: draw(columns, family, rng, n) for name in "ab"}, how == "scaled"
    if columns.endswith("beside real numbers"):
        data["a"] = draw("a real number", family, rng, n)
    theta = fit(draw(columns, family, rng, n), family, scaled=scaled, penalty=PENALTY)
    penalty = None if "unknown" in how else PENALTY
    match = examine(theta, data, family=family, digits=6, scaled=scaled, penalty=penalty)
    if match is None:
        return None
    return {
        "draws": 1,
        "named": match.match is not None or bool(match.certain) or match.odd_record is not None,
        "some subset fits": bool(match.accepted),
        "fits expected, by the printed chances": match.chance,
    }


class Part(NamedTuple):
    """One question: a draw of it, the columns that it is asked of, and the settings of each cell."""

    try_once: Callable[..., Counts | None]
    columns: tuple[str, ...]
    settings: tuple[tuple[object, ...], ...]


_DRAWN = tuple(COLUMNS)
PARTS = {
    "subsets": Part(
        try_subset, _DRAWN, (("as they are",), ("scaled",), ("penalty unknown",), ("scaled, penalty unknown",))
    ),
    "missing": Part(try_single_record, _DRAWN, (("one more",), ("one fewer",))),
    "differences": Part(try_difference, _DRAWN, tuple((how,) for how in DIFFERENCES)),
    "outside": Part(
        try_outside,
        (*tuple(TRIALS)[:-1], "many duplicates"),
        tuple(itertools.product(("as they are", "scaled", "penalty unknown"), (20, 40, 100, 400))),
    ),
}


def run(name: str, draws: int) -> str:
    """Return the section of a part, with a row for each kind of columns and family."""
    part, rows = PARTS[name], {}
    for columns, family in itertools.product(part.columns, FAMILIES):
        total: Counter[str] = Counter()
        for setting in part.settings:
            for number in range(draws):
                key = (name, columns, family, *setting, number)
                rng = np.random.default_rng([zlib.crc32(str(each).encode()) for each in key])
                try:
                    total.update(part.try_once(columns, family, rng, number, *setting) or {})
                except InputError:
                    total["refused"] += 1
        rows[columns, family] = total
        print(name, columns, family, dict(total), sep=" | ", flush=True)
    counted = [*dict.fromkeys(key for total in rows.values() for key in total if key != "refused"), "refused"]
    settings = ", ".join(" of ".join(map(str, setting)) for setting in part.settings)
    return "\n".join(
        [
            f"## {name}",
            "",
            f"{part.try_once.__doc__} {draws} draws for each of: {settings}. What has no fit, or is no difference, is "
            "no draw; what is refused is counted beside them.",
            "",
            f"| columns | family | {' | '.join(counted)} |",
            f"|---|---|{'---|' * len(counted)}",
            *(
                f"| {columns} | {family} | {' | '.join(f'{total[key]:.4g}' for key in counted)} |"
                for (columns, family), total in rows.items()
            ),
            "",
        ]
    )


def main() -> None:
    """Run the parts that are named, and write their sections of the page; those of other parts stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    page = PAGE.read_text() if PAGE.exists() else ""
    sections = {text.split()[1]: text.rstrip() + "\n" for text in re.split(r"(?m)^(?=## )", page)[1:]}
    for name in arguments.part:
        sections[name] = run(name, arguments.draws)
        ordered = "\n".join(sections[each] for each in PARTS if each in sections)
        PAGE.write_text(f"# Cohorts behind a published regression\n\n`benchmarks/cohorts.py`.\n\n{ordered}")


if __name__ == "__main__":
    main()
