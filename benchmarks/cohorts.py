"""Which subset of cohorts, and which single record, is named of published regressions, and how often wrongly.

    PYTHONPATH=src python benchmarks/cohorts.py [--draws 30] [--part subsets missing differences outside]

`subsets`: the training set is some of four cohorts. `missing`: it is two cohorts and a record that is in neither.
`differences`: it differs from two of them otherwise. `outside`: it is another cohort of a table with few distinct
records. Every cell draws columns, family, penalty and scaling anew. Fits are by Newton steps of this script's own.
Writes `benchmarks/results/cohorts.md`.
"""

from __future__ import annotations

import argparse
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from divulge.errors import InputError
from divulge.margin import CohortMatch, OddRecord, Publication, cohorts

Table = tuple[NDArray[np.float64], NDArray[np.float64]]
PAGE = Path(__file__).parent / "results" / "cohorts.md"
FAMILIES = ("logistic", "poisson", "linear")
PENALTY = 1e-2
COUNTED = {
    "subsets": (
        "draws",
        "right subset fits",
        "right one named",
        "wrong one named",
        "wrong cohort proven",
        "record named",
    ),
    "missing": (
        "draws",
        "record read off rightly",
        "record read off wrongly",
        "not told from no difference",
    ),
    "differences": (
        "draws",
        "record named falsely",
        "values rightly named as differing",
        "one record gives the same numbers",
        "not told from no difference",
    ),
    "outside": (
        "draws",
        "named",
        "some subset fits",
        "fits expected, by the printed chances",
    ),
}


def start(names: Iterable[str]) -> Counter[str]:
    """Return counts of 0, which are shown too."""
    return Counter(dict.fromkeys(names, 0))


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
    "a 2 x 2 table": lambda rng, n: rng.permutation(np.arange(n) % 2)[:, None],
}


def draw(columns: str, family: str, rng: np.random.Generator, n: int) -> Table:
    """Draw records; the labels follow the columns, with the family's own noise."""
    x = COLUMNS[columns](rng, n).astype(float)
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
    """Return the coefficients with so many decimals, or, where columns are in other units, as many more."""
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


def examine(theta: NDArray[np.float64] | None, data: dict[str, Table], **options: object) -> CohortMatch | str:
    """Return what is said of published coefficients, or why nothing can be."""
    if theta is None:
        return "no fit"
    try:
        return cohorts(publish(theta, **options), data)  # ty: ignore[invalid-argument-type]
    except InputError:
        return "refused"


def make_generator(*parts: object) -> np.random.Generator:
    """Return the generator of one draw of a cell."""
    return np.random.default_rng([zlib.crc32(str(part).encode()) for part in parts])


def try_subsets(columns: str, family: str, draws: int) -> Iterator[tuple[str, Counter[str]]]:
    """Publish the fit on some of four cohorts, at two to six decimals."""
    for how in HOW["subsets"]:
        count = start(COUNTED["subsets"])
        for number in range(draws):
            rng = make_generator("subsets", columns, family, how, number)
            data = {name: draw(columns, family, rng, 200) for name in "abcd"}
            right = tuple(sorted(rng.choice(list(data), rng.integers(1, 4), replace=False)))
            scaled, digits = "scaled" in how, int(rng.choice([2, 3, 4, 6]))
            theta = fit(join(*(data[name] for name in right)), family, scaled=scaled, penalty=PENALTY)
            penalty = None if "unknown" in how else PENALTY
            match = examine(theta, data, family=family, digits=digits, scaled=scaled, penalty=penalty)
            if isinstance(match, str):
                count[match] += 1
                continue
            is_right = right in [each.cohorts for each in match.accepted]
            count["right subset fits"] += is_right
            count["right one named"] += match.match is not None and match.match.cohorts == right
            count["wrong one named"] += match.match is not None and match.match.cohorts != right
            count["wrong cohort proven"] += not set(match.certain) <= set(right)
            count["record named"] += match.odd_record is not None
            count["draws"] += 1
        yield how, count


def try_missing(columns: str, family: str, draws: int) -> Iterator[tuple[str, Counter[str]]]:
    """Publish the fit on two cohorts and a further record, or without one of theirs, at six decimals."""
    for how in HOW["missing"]:
        count = start(COUNTED["missing"])
        for number in range(draws):
            rng = make_generator("missing", columns, family, how, number)
            data = {name: draw(columns, family, rng, 500) for name in "ab"}
            x, y = join(*data.values())
            row = int(rng.integers(len(y)))
            further = draw(columns, family, rng, 200)
            one = (further[0][:1], further[1][:1]) if how == "one more" else (x[[row]], y[[row]])
            training = join((x, y), one) if how == "one more" else (np.delete(x, row, axis=0), np.delete(y, row))
            match = examine(fit(training, family, penalty=PENALTY), data, family=family, digits=6, penalty=PENALTY)
            if isinstance(match, str):
                count[match] += 1
                continue
            odd = match.odd_record
            count["draws"] += 1
            count["not told from no difference"] += bool(match.accepted)
            if odd is not None:
                is_near = bool((np.abs(odd.x - one[0][0]) <= odd.error + 1e-9 * np.abs(one[0][0]) + 1e-9).all())
                is_right = (
                    is_near and odd.missing == (how == "one more") and abs(odd.y - one[1][0]) <= odd.y_error + 1e-9
                )
                count["record read off rightly"] += is_right
                count["record read off wrongly"] += not is_right
        yield how, count


def differ(
    how: str, table: Table, others: Table, rng: np.random.Generator
) -> tuple[Table, NDArray[np.float64], NDArray[np.float64]]:
    """Return a training set that differs otherwise, its weights, and the values of the records that differ."""
    x, y = table
    weights, rows = np.ones(len(y)), rng.choice(len(y), 2, replace=False)
    if how == "two more":
        return join(table, (others[0][:2], others[1][:2])), np.ones(len(y) + 2), others[0][:2]
    if how == "three more":
        return join(table, (others[0][:3], others[1][:3])), np.ones(len(y) + 3), others[0][:3]
    if how == "two fewer":
        return (np.delete(x, rows, axis=0), np.delete(y, rows)), weights[2:], x[rows]
    if how == "a swap":
        one = (others[0][:1], others[1][:1])
        return join((np.delete(x, rows[0], axis=0), np.delete(y, rows[0])), one), weights, np.r_[x[rows[:1]], one[0]]
    if how == "one corrected in a column":
        column, corrected = int(rng.integers(x.shape[1])), x.copy()
        corrected[rows[0], column] = others[0][0, column]
        return (corrected, y), weights, np.stack([x[rows[0]], corrected[rows[0]]])
    if how == "one of weight 1.5":
        weights[rows[0]] = 1.5
        return table, weights, x[rows[:1]]
    if how == "two alike":
        alike = np.repeat(others[0][:1], 2, axis=0)
        return join(table, (alike, others[1][:2])), np.ones(len(y) + 2), alike
    return join(table, others), np.ones(len(y) + len(others[1])), others[0]


DIFFERENCES = (
    "two more", "three more", "two fewer", "a swap", "one corrected in a column", "one of weight 1.5", "two alike",
    "a further cohort",
)  # fmt: skip


def try_differences(columns: str, family: str, draws: int) -> Iterator[tuple[str, Counter[str]]]:
    """Publish the fit on two cohorts that differ otherwise than by one record, at four, six and eight decimals."""
    for how in DIFFERENCES:
        count = start(COUNTED["differences"])
        for number in range(draws):
            rng = make_generator("differences", columns, family, how, number)
            data = {name: draw(columns, family, rng, 200) for name in "ab"}
            others = draw(columns, family, rng, 200)
            training, weights, differing = differ(how, join(*data.values()), others, rng)
            theta = fit(training, family, weights, penalty=PENALTY)
            match = examine(theta, data, family=family, digits=(4, 6, 8)[number % 3], penalty=PENALTY)
            if isinstance(match, str):
                count[match] += 1
                continue
            odd = match.odd_record
            # Differences may be none: a value may be corrected to what it was, two may cancel each other.
            whole = fit(join(*data.values()), family, penalty=PENALTY)
            is_none = whole is not None and bool(np.allclose(whole, theta, rtol=1e-9, atol=1e-12))
            count["draws"] += not is_none
            if is_none:
                continue
            count["not told from no difference"] += bool(match.accepted)
            if odd is not None:
                # Of records that are alike no more is claimed than that one of these values differs.
                is_true = odd.alike is not None and bool(
                    (np.abs(differing - odd.x) <= odd.error + 1e-9).all(axis=1).any()
                )
                is_same = not is_true and gives_the_same(odd, theta, data, family)
                count["values rightly named as differing"] += is_true
                count["one record gives the same numbers"] += is_same
                count["record named falsely"] += not is_true and not is_same
        yield how, count


def gives_the_same(odd: OddRecord, theta: NDArray[np.float64], data: dict[str, Table], family: str) -> bool:
    """Return whether the record that is named leads to all digits of these coefficients: then nothing is wrong."""
    x, y = join(*(data[name] for name in odd.cohorts))
    one = (odd.x[None], np.array([odd.y]))
    table = join((x, y), one) if odd.row is None else (np.delete(x, odd.row, axis=0), np.delete(y, odd.row))
    refitted = fit(table, family, penalty=PENALTY)
    return refitted is not None and bool(np.allclose(refitted, theta, rtol=1e-9, atol=1e-12))


def try_outside(columns: str, family: str, draws: int) -> Iterator[tuple[str, Counter[str]]]:
    """Publish the fit on another cohort of 20, 40, 100 or 400, at six decimals, where few records are distinct."""
    for n in SIZES:
        for how in HOW["outside"]:
            count = start(COUNTED["outside"])
            for number in range(draws):
                rng = make_generator("outside", columns, family, how, n, number)
                data, scaled = {name: draw(columns, family, rng, n) for name in "ab"}, how == "scaled"
                theta = fit(draw(columns, family, rng, n), family, scaled=scaled, penalty=PENALTY)
                penalty = None if "unknown" in how else PENALTY
                match = examine(theta, data, family=family, digits=6, scaled=scaled, penalty=penalty)
                if isinstance(match, str):
                    count[match] += 1
                    continue
                count["draws"] += 1
                count["some subset fits"] += bool(match.accepted)
                count["fits expected, by the printed chances"] += match.chance
                count["named"] += match.match is not None or bool(match.certain) or match.odd_record is not None
            yield f"{n} records, {how}", count


SIZES = (20, 40, 100, 400)
HOW = {
    "subsets": ("as they are", "scaled", "penalty unknown", "scaled, penalty unknown"),
    "missing": ("one more", "one fewer"),
    "differences": DIFFERENCES,
    "outside": ("as they are", "scaled", "penalty unknown"),
}
PARTS = {
    "subsets": (try_subsets, tuple(COLUMNS)[:-1]),
    "missing": (try_missing, tuple(COLUMNS)[:-1]),
    "differences": (try_differences, tuple(COLUMNS)[:-1]),
    "outside": (try_outside, ("a 2 x 2 table", "many duplicates")),
}


def main() -> None:
    """Run the parts that are named, and write their sections of the page; those of other parts stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text() if PAGE.exists() else "", re.M | re.S))
    for part in arguments.part:
        run, all_columns = PARTS[part]
        names = COUNTED[part]
        lines = [
            f"\n{run.__doc__} {arguments.draws} draws for each of",
            f"{', '.join(HOW[part])}; what has no fit, or is refused, is no draw.\n",
            f"| columns | family | {' | '.join(names)} |",
            f"|---|---|{'---|' * len(names)}",
        ]
        for columns in all_columns:
            for family in FAMILIES:
                total = start(names)
                for how, count in run(columns, family, arguments.draws):
                    print(part, columns, family, how, dict(count), sep=" | ", flush=True)
                    total.update(count)
                lines.append(f"| {columns} | {family} | {' | '.join(f'{total[name]:.4g}' for name in names)} |")
        sections[part] = "\n".join(lines) + "\n\n"
        ordered = "".join(f"## {name}\n{sections[name]}" for name in PARTS if name in sections)
        PAGE.write_text(f"# Cohorts behind a published regression\n\n`benchmarks/cohorts.py`.\n\n{ordered.rstrip()}\n")


if __name__ == "__main__":
    main()
