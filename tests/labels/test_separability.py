"""The paper's definitions, theorems and negative results by enumeration, and the counter-example of each erratum."""

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx

import divulge as dv
from divulge import labels
from divulge.labels.paper_codes import first_primes


def labellings(n, classes=2):
    return list(itertools.product(range(classes), repeat=n))


def separation(values):
    """Definition 1 for different labellings: the smallest distance of two of the values."""
    return min(b - a for a, b in itertools.pairwise(sorted(values)))


def means(table):
    """The mean loss of every labelling, from losses ``[n, K]``."""
    return [sum(row[c] for row, c in zip(table, y, strict=True)) / len(table) for y in labellings(*np.shape(table))]


def subset_sums(gaps):
    return [sum(g for g, bit in zip(gaps, y, strict=True) if bit) for y in labellings(len(gaps))]


def theorem3(n, classes, tau, start=1):
    """Logarithms of the matrix of Theorem 3, ``[n, classes]``, with k counted from ``first``."""
    powers = 2.0 ** (classes * np.arange(n)[:, None] + start + np.arange(classes))
    exponents = math.log(3) * n * tau * powers
    return exponents - np.logaddexp.reduce(exponents, axis=1, keepdims=True)


class TestDefinitions:
    @pytest.mark.parametrize("tau", [1.0, 0.25, 3.0])
    def test_the_example_of_powers_of_two(self, tau):
        assert separation(subset_sums([tau * 2**i for i in range(8)])) == tau

    def test_without_different_labellings_every_separation_is_zero(self):
        values = subset_sums([1, 2, 4])
        assert min(abs(a - b) for a, b in itertools.product(values, repeat=2)) == 0 < separation(values)

    def test_labels_follow_from_one_answer_if_and_only_if_answers_are_two_tau_apart(self):
        """Proposition 1 and Theorem 2, for random functions of three labels of three classes."""
        rng = np.random.default_rng(0)
        tau, met = 0.01, [0, 0]
        for _ in range(300):
            values = rng.random(27) * rng.choice([1, 10])
            is_separated = bool(separation(values) >= 2 * tau)
            met[is_separated] += 1
            noisy = np.concatenate([values + sign * tau * (1 - 1e-9) for sign in (-1, 1)])
            guess = np.abs(noisy[:, None] - values).argmin(axis=1)
            if is_separated:
                assert (guess == np.tile(np.arange(27), 2)).all()
            else:
                low, high = min(itertools.pairwise(sorted(values)), key=lambda pair: pair[1] - pair[0])
                middle = (low + high) / 2
                assert max(middle - low, high - middle) < tau  # an answer both may give
        assert min(met) > 20

    def test_theorem_9_allows_noise_of_exactly_tau_at_which_two_labels_give_one_answer(self):
        tau = 0.5
        values = [0.0, 1.0]
        assert separation(values) >= 2 * tau
        assert abs(values[0] - 0.5) <= tau
        assert abs(values[1] - 0.5) <= tau


class TestCrossEntropy:
    @pytest.mark.parametrize(("n", "classes"), [(1, 2), (3, 2), (2, 3), (3, 3), (2, 4), (1, 6)])
    @pytest.mark.parametrize("tau", [0.01, 0.5])
    def test_theorem_3(self, n, classes, tau):
        logs = theorem3(n, classes, tau)
        assert np.allclose(np.exp(logs).sum(axis=1), 1)
        assert separation(means(-logs)) == pytest.approx(2 * tau * math.log(3))
        printed = theorem3(n, classes, tau, start=0)
        assert separation(means(-printed)) == pytest.approx(tau * math.log(3))  # below 2τ

    @pytest.mark.parametrize("classes", [2, 3])
    def test_theorem_3_through_softmax_and_sigmoid(self, classes):
        n, tau = 3, 0.05
        logs = theorem3(n, classes, tau)
        spec = labels.OracleSpec("softmax_cross_entropy", n=n, classes=classes)
        assert separation(means(spec.loss().table(logs))) == pytest.approx(2 * tau * math.log(3))
        # The system of equations leaves one constant per row open: it does not specify the logits fully.
        assert np.allclose(spec.loss().table(logs + [[1.0], [-5.0], [9.0]]), spec.loss().table(logs))
        if classes == 2:
            spec = labels.OracleSpec("sigmoid_cross_entropy", n=n)
            assert np.allclose(spec.loss().table(logs[:, 1] - logs[:, 0]), -logs)

    @pytest.mark.parametrize("metric", ["softmax_cross_entropy", "sigmoid_cross_entropy"])
    @pytest.mark.parametrize("method", ["theorem3", "theorem14"])
    @pytest.mark.parametrize("noise", [0.0, 1e-4, 1.0])
    def test_the_codes_recover_through_softmax_and_sigmoid(self, metric, method, noise):
        spec = labels.OracleSpec(metric, n=40, noise=noise)
        plan = labels.design(spec, method)
        assert plan.certificate.certified
        assert labels.simulate(spec, np.random.default_rng(0).integers(0, 2, 40), plan).accuracy == 1.0

    def test_theorem_3_through_softmax_of_three_classes(self):
        spec = labels.OracleSpec("softmax_cross_entropy", n=40, classes=3, noise=0.1)
        plan = labels.design(spec, "theorem3")
        assert plan.certificate.certified
        assert labels.simulate(spec, np.arange(40) % 3, plan).accuracy == 1.0

    def test_logits_need_fewer_digits_than_probabilities_not_more(self):
        # Appendix G: ln|ln(θ/(1-θ))| bits for a logit are said to dominate the |ln θ| bits of a probability.
        for theta in (1e-10, 1e-100, 1e-300):
            assert math.log(abs(math.log(theta / (1 - theta)))) < abs(math.log(theta)) / 5
        # One query of the same code reads more through logits than through probabilities.
        read = {
            metric: labels.design(labels.OracleSpec(metric, n=20, clip=None, noise=1e-2), "theorem3").count
            for metric in ("log_loss", "softmax_cross_entropy")
        }
        assert read["softmax_cross_entropy"] < read["log_loss"]

    @pytest.mark.parametrize(("n", "tau"), [(4, 0.01), (8, 0.001)])
    def test_the_smallest_entries_of_both_theorems(self, n, tau):
        smallest = -theorem3(n, 2, tau).min()
        assert smallest == pytest.approx(math.log(3) * 2 ** (2 * n - 1) * n * tau, rel=1e-3)
        theorem14 = math.log(3) * 2**n * n * tau
        assert theorem14 < smallest
        # No code does without: 2^N answers that are 2τ apart need a largest and a smallest this far apart.
        assert math.log(3) * n * tau * sum(2**i for i in range(1, n + 1)) >= 2 * n * tau * (2**n - 1)

    def test_the_worked_example_of_primes(self):
        spec = labels.OracleSpec(n=2, classes=3)
        rows = np.array([[2, 3, 5], [7, 11, 13]]) / [[10], [31]]
        table = spec.loss().table(rows)
        assert (table[0, 0] + table[1, 2]) / 2 == pytest.approx(-math.log(2 * 13 / 310) / 2)
        assert (table[0, 1] + table[1, 0]) / 2 == pytest.approx(-math.log(3 * 7 / 310) / 2)
        plan = labels.design(spec, "primes")
        assert plan.count == 1
        assert np.allclose(plan.queries[0], rows)
        assert separation(means(table)) > 0

    @pytest.mark.parametrize("metric", ["log_loss", "softmax_cross_entropy"])
    @pytest.mark.parametrize("classes", [2, 3, 6])
    def test_primes_for_more_classes(self, metric, classes):
        spec = labels.OracleSpec(metric, n=30, classes=classes)
        plan = labels.design(spec, "primes")
        assert plan.certificate.certified
        y = np.random.default_rng(classes).integers(0, classes, 30)
        assert labels.simulate(spec, y, plan).accuracy == 1.0
        block = plan.inner.rows
        odds = np.exp(block) if metric != "log_loss" else block / block.min(axis=1, keepdims=True)
        expected = np.reshape(first_primes(block.size), block.shape)
        assert np.allclose(odds / odds[:, :1], expected / expected[:, :1])


class TestLinearlyDecomposable:
    """Losses of two classes that are sums of ``g(θ)`` and ``g(1 - θ)``."""

    @staticmethod
    def gaps(metric, theta):
        rows = np.stack([1 - np.asarray(theta), theta], axis=1)
        table = labels.OracleSpec(metric, n=len(theta)).loss().table(rows)
        return table[:, 1] - table[:, 0]

    def test_itakura_saito_is_equation_7(self):
        for theta in (1e-9, 0.2, 0.5, 0.9):
            table = labels.OracleSpec("itakura_saito", n=1).loss().table([[1 - theta, theta]])[0]
            assert table == pytest.approx([1 / (1 - p) + math.log(1 - p) - 1 for p in (theta, 1 - theta)])
            t = math.log((1 - theta) / theta)
            assert table[1] - table[0] == pytest.approx(2 * math.sinh(t) - t)
            assert t <= 0 or table[1] - table[0] > t  # the proof of Corollary 2
            # Section 4 has -2 for -1: the same code, not the same loss.
            assert table[1] - (1 / theta + math.log(theta) - 2) == pytest.approx(1, abs=1e-6)

    @pytest.mark.parametrize("n", [1, 2, 4, 6])
    @pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0])
    def test_corollary_2(self, n, tau):
        with ctx.workprec(4000):
            odds = [arb(3).log() * 2**i * n * arb(tau) for i in range(1, n + 1)]
            distance = separation(subset_sums([t.exp() - (-t).exp() - t for t in odds]))
            assert distance / n >= 2 * arb(tau)

    @pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
    def test_the_plan_of_corollary_2(self, noise):
        spec = labels.OracleSpec("itakura_saito", n=30, noise=noise)
        plan = labels.design(spec, "corollary2")
        assert plan.certificate.certified
        if noise:
            probabilities = plan.inner.rows[:, 1]
            assert probabilities == pytest.approx(
                [1 / (1 + 3 ** (2**i * 30 * noise)) for i in range(1, len(probabilities) + 1)]
            )
        assert labels.simulate(spec, np.random.default_rng(3).integers(0, 2, 30), plan).accuracy == 1.0

    @pytest.mark.parametrize("factor", [1.0, 1.5])
    def test_theorem_4_with_gaps_that_double(self, factor):
        n, tau = 5, 0.02
        gaps = [factor * 2**i * n * tau for i in range(1, n + 1)]
        assert separation(subset_sums(gaps)) / n == pytest.approx(factor * 2 * tau)

    @pytest.mark.parametrize("metric", ["squared_euclidean", labels.norm_like(2), labels.norm_like(3.5)])
    @pytest.mark.parametrize("n", [2, 6, 9])
    def test_corollary_3(self, metric, n):
        plan = labels.design(labels.OracleSpec(metric, n=n), "primes")
        theta = plan.inner.rows[:, 1]
        assert ((theta > 0) & (theta < 0.5)).all()
        result = self.gaps(metric, theta)
        assert result == pytest.approx(np.log(first_primes(len(theta))) / n, rel=1e-9)
        assert separation(subset_sums(result)) > 1e-9
        if metric == "squared_euclidean":
            assert theta == pytest.approx(0.5 * (1 - np.log(first_primes(len(theta))) / n))
        else:
            power = metric.parameter - 1
            expected = np.log(first_primes(len(theta))) / (n * metric.parameter)
            assert (1 - theta) ** power - theta**power == pytest.approx(expected, rel=1e-9)

    def test_the_norm_like_g_of_section_4_is_not_that_of_equation_10(self):
        alpha = 2.0

        def printed(t):
            return 1 / t - alpha * t ** (alpha - 1) + (alpha - 1) * (1 - t) ** alpha

        assert printed(0.25) - printed(0.75) == pytest.approx(25 / 6)
        assert self.gaps(labels.norm_like(alpha), [0.25]) == pytest.approx([1.0])

    def test_blocks_of_a_multi_query_attack_leave_the_other_rows_at_one_half(self):
        """Theorem 5: ⌈N/M⌉ queries, and a row at 1/2 tells nothing."""
        spec = labels.OracleSpec(n=11, noise=1e-2, clip=None)
        plan = labels.design(spec, "theorem3")
        is_asked = np.array([(query != 0.5).any(axis=1) for query in plan.queries])
        assert (is_asked.sum(axis=0) == 1).all()
        assert plan.count == math.ceil(11 / is_asked[0].sum()) > 1


MATRIX = np.array([[2.0, 0.5], [0.5, 1.0]])
FORMS = {  # the convex function, its gradient, the closed form
    "kullback_leibler": (
        lambda p: (p * np.log(p)).sum(),
        lambda p: np.log(p) + 1,
        lambda p, q: (p * np.log(p / q) - (p - q)).sum(),
    ),
    "itakura_saito": (
        lambda p: -np.log(p).sum(),
        lambda p: -1 / p,
        lambda p, q: (p / q - np.log(p / q) - 1).sum(),
    ),
    "squared_euclidean": (lambda p: (p**2).sum(), lambda p: 2 * p, lambda p, q: ((p - q) ** 2).sum()),
    "norm_like": (
        lambda p: (p**3).sum(),
        lambda p: 3 * p**2,
        lambda p, q: (p**3 + 2 * q**3 - 3 * p * q**2).sum(),
    ),
    "mahalanobis": (
        lambda p: p @ MATRIX @ p / 2,
        lambda p: MATRIX @ p,
        lambda p, q: (p - q) @ MATRIX @ (p - q) / 2,
    ),
}


class TestBregman:
    """Appendix C: closed forms of divergences, and the losses of labels they become."""

    @pytest.mark.parametrize("name", FORMS)
    def test_the_closed_forms(self, name):
        convex, gradient, form = FORMS[name]
        rng = np.random.default_rng(0)
        for _ in range(20):
            p, q = rng.uniform(0.05, 2, (2, 2))
            assert form(p, q) == pytest.approx(convex(p) - convex(q) - gradient(q) @ (p - q))

    @pytest.mark.parametrize(
        ("name", "metric", "factor"),
        [
            ("kullback_leibler", "log_loss", 1),
            ("squared_euclidean", "squared_euclidean", 2),  # equation 9 leaves the 2 out
            ("norm_like", labels.norm_like(3), 1),
            ("mahalanobis", labels.mahalanobis(MATRIX), 0.5),  # its loss leaves the 1/2 out
        ],
    )
    def test_the_losses_of_the_labels(self, name, metric, factor):
        form = FORMS[name][2]
        spec = labels.OracleSpec(metric, n=1)
        for theta in (0.1, 0.4, 0.9):
            rows = np.array([theta]) if spec.name == "mahalanobis" else np.array([[1 - theta, theta]])
            table = spec.loss().table(rows)[0]
            for label in (0, 1):
                label_distribution = np.clip([label, 1 - label], 1e-12, 1)  # 0·ln 0 = 0
                assert factor * table[label] == pytest.approx(
                    form(label_distribution, np.array([theta, 1 - theta])), abs=1e-9
                )


class TestMahalanobis:
    def test_the_loss_is_a_multiple_of_the_squared_euclidean_one(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            a = rng.normal(size=(2, 2))
            skew = rng.normal() * np.array([[0, 1], [-1, 0]])
            matrix = a @ a.T + 0.1 * np.eye(2) + skew
            metric = labels.mahalanobis(matrix)
            assert metric.parameter == pytest.approx(matrix[0, 0] + matrix[1, 1] - matrix[0, 1] - matrix[1, 0])
            theta = rng.random(3)
            table = labels.OracleSpec(metric, n=3).loss().table(theta)
            for row, label in itertools.product(range(3), range(2)):
                d = np.array([label - theta[row], theta[row] - label])
                assert table[row, label] == pytest.approx(d @ matrix @ d)

    def test_the_loss_is_linearly_decomposable(self):
        """Section 4 says it is not: g(θ) = α(1 - θ)² does, and prime codes read it."""
        metric, theta = labels.mahalanobis([[2.0, 1.0], [0.0, 3.0]]), np.array([0.1, 0.5, 0.8])
        table = labels.OracleSpec(metric, n=3).loss().table(theta)
        assert np.allclose(table[:, 1], metric.parameter * (1 - theta) ** 2)
        assert np.allclose(table[:, 0], metric.parameter * (1 - (1 - theta)) ** 2)
        spec = labels.OracleSpec(metric, n=10)
        plan = labels.design(spec, "primes")
        assert plan.certificate.certified
        assert labels.simulate(spec, np.arange(10) % 2, plan).accuracy == 1.0

    def test_theorem_8_equal_predictions_hide_who_has_which_label(self):
        spec = labels.OracleSpec(labels.mahalanobis(np.eye(2)), n=2)
        table = spec.loss().table(np.array([0.25, 0.25]))
        tau = 0.2
        assert max(0.25, 0.25) <= 0.5 * (1 - 2 * tau / 2)  # what the theorem asks for, with α = 2
        assert table[0, 0] + table[1, 1] == table[0, 1] + table[1, 0]

    def test_theorem_8_loses_a_factor_of_two_between_statement_and_proof(self):
        # One label, α = 2, θ at the bound: the answers are τ apart; at the bound of the proof 2τ.
        tau, alpha = 0.2, 2.0
        loss = labels.OracleSpec(labels.mahalanobis(1.0), n=1).loss()
        for bound, distance in ((0.5 * (1 - tau / alpha), tau), (0.5 - tau / alpha, 2 * tau)):
            low, high = sorted(loss.table(np.array([bound]))[0])
            assert high - low == pytest.approx(distance)

    @pytest.mark.parametrize("matrix", [np.eye(2), [[2.0, 1.0], [0.0, 3.0]]])
    @pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
    def test_doubling_gaps_recover_the_labels(self, matrix, noise):
        spec = labels.OracleSpec(labels.mahalanobis(matrix), n=20, noise=noise)
        plan = labels.design(spec)
        assert plan.certificate.certified
        y = np.random.default_rng(1).integers(0, 2, 20)
        assert labels.simulate(spec, y, plan).accuracy == 1.0

    @pytest.mark.parametrize("n", [1, 2, 3, 6])
    def test_doubling_gaps_in_one_query(self, n):
        """In place of Theorem 8: 2τ-separable while τ is below α/(N·2^N)."""
        metric = labels.mahalanobis([[2.0, 1.0], [0.0, 3.0]])
        tau = 0.99 * metric.parameter / (n * 2**n)
        theta = 0.5 * (1 - 2.0 ** np.arange(1, n + 1) * n * tau / metric.parameter)
        assert ((theta > 0) & (theta < 0.5)).all()
        spec = labels.OracleSpec(metric, n=n, noise=tau)
        assert separation(means(spec.loss().table(theta))) == pytest.approx(2 * tau)
        assert labels.design(spec).count == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (np.eye(3), r"shape \(2, 2\) is needed, got \(3, 3\)"),
            ([1.0, 2.0], r"shape \(2, 2\) is needed, got \(2,\)"),
            ([[1.0, 2.0], [2.0, 1.0]], "positive definite, but its smallest eigenvalue is -1"),
            (0.0, "positive definite"),
            ([[1e308, 0.0], [0.0, 1e308]], r"a \+ d - b - c: must lie in"),
            ([[1.0, math.nan], [0.0, 1.0]], "matrix: 1 values are NaN"),
        ],
    )
    def test_matrices(self, matrix, message):
        with pytest.raises(dv.InputError, match=message):
            labels.mahalanobis(matrix)

    @pytest.mark.parametrize(
        ("metric", "method", "options", "message"),
        [
            ("log_loss", "corollary2", {}, "corollary2 is stated for itakura_saito, got log_loss"),
            ("itakura_saito", "corollary2", {"noise": 1e3}, "cannot read even one label"),
            ("itakura_saito", "theorem3", {}, "stated for cross-entropies .*got itakura_saito"),
            ("squared_euclidean", "theorem14", {}, "stated for cross-entropies .*got squared_euclidean"),
            ("squared_euclidean", "primes", {"classes": 3}, "primes are stated for 2 classes, got 3"),
            ("softmax_cross_entropy", "theorem3", {"noise": 1e306}, "cannot read even one label"),
            ("softmax_cross_entropy", "theorem3", {"noise": 1e5, "float_dtype": "float16"}, "cannot read even one"),
            ("sigmoid_cross_entropy", "theorem14", {"noise": 1e37, "float_dtype": "float32"}, "cannot read even one"),
        ],
    )
    def test_codes_where_they_are_not_stated_or_leave_the_floats(self, metric, method, options, message):
        with pytest.raises(dv.InputError, match=message):
            labels.design(labels.OracleSpec(metric, n=9, **options), method)


def random_clauses(rng, n, count):
    """Clauses of three literals ``(variable, sign)``; a variable may occur twice."""
    return [
        [(int(v), int(s)) for v, s in zip(rng.integers(0, n, 3), rng.integers(0, 2, 3), strict=True)]
        for _ in range(count)
    ]


def unsatisfied(clauses, n):
    """Number of assignments that violate some clause."""
    return sum(any(all(y[v] != s for v, s in clause) for clause in clauses) for y in labellings(n))


class TestHardness:
    """Appendix E, by brute force over small formulas."""

    @staticmethod
    def value(clauses, y, theta, primes_):
        """Equation 12."""
        product = math.prod(p**bit for p, bit in zip(primes_, y, strict=True))
        for clause, power in zip(clauses, theta, strict=True):
            product *= sum(y[v] if s else 1 - y[v] for v, s in clause) ** power
        return product

    def test_lemma_2_and_the_reduction(self):
        rng = np.random.default_rng(0)
        met = set()
        for _ in range(150):
            n = int(rng.integers(2, 5))
            # Clauses with a variable in both signs are always true: without some of them no formula is nearly so.
            clauses = [
                [(v := int(rng.integers(n)), 0), (v, 1), (int(rng.integers(n)), int(rng.integers(2)))]
                if rng.random() < 0.7
                else random_clauses(rng, n, 1)[0]
                for _ in range(n)
            ]
            theta = rng.integers(1, 4, n)
            values = {y: self.value(clauses, y, theta, first_primes(n + 2)[2:]) for y in labellings(n)}
            true = {y for y in values if all(any(y[v] == s for v, s in clause) for clause in clauses)}
            for first_set, second_set in itertools.combinations(values, 2):
                assert (values[first_set] != values[second_set]) == (first_set in true or second_set in true)
            separable = len(set(values.values())) == len(values)
            assert separable == (len(true) >= 2**n - 1)
            met.add(separable)
        assert met == {True, False}

    def test_equation_12(self):
        clauses = [[(0, 0), (1, 1), (2, 1)], [(0, 1), (1, 1), (2, 0)], [(0, 1), (1, 1), (2, 0)]]
        for y, theta in itertools.product(labellings(3), [(1, 1, 1), (2, 1, 3)]):
            a, b, c = y
            expected = 5**a * 7**b * 11**c * (1 - a + b + c) ** theta[0] * (1 + a + b - c) ** (theta[1] + theta[2])
            assert self.value(clauses, y, theta, (5, 7, 11)) == expected

    def test_almost_tautologies_of_clauses_are_easy_to_decide(self):
        """Lemma 1 as printed: a formula of clauses with four variables or more is an almost tautology only if each
        clause has a variable in both signs, for any other clause of three literals is violated by 2^(N-3) assignments.
        """
        rng = np.random.default_rng(1)
        met = set()
        for _ in range(400):
            n = int(rng.integers(4, 7))
            clauses = random_clauses(rng, n, int(rng.integers(1, 4)))
            easy = all(len({v for v, _ in clause}) < len(set(clause)) for clause in clauses)
            assert easy == (unsatisfied(clauses, n) <= 1)
            met.add(easy)
        assert met == {True, False}

    def test_the_reduction_holds_for_disjunctions_of_terms(self):
        """The repair: tautology of terms is co-NP-complete, an idle variable makes "almost" one a true one, and a sum
        of terms times primes larger than their number separates the labellings of almost tautologies alone.
        """
        rng = np.random.default_rng(2)
        met = set()
        for _ in range(200):
            n, count = int(rng.integers(2, 4)), int(rng.integers(2, 7))
            terms = [clause[: int(rng.integers(1, 3))] for clause in random_clauses(rng, n, count)]

            def true(y, terms=terms):
                return sum(all(y[v] == s for v, s in term) for term in terms)

            tautology = all(true(y) for y in labellings(n))
            large = [p for p in first_primes(20) if p > count][: n + 1]
            values = [true(y) * math.prod(p**b for p, b in zip(large, y, strict=True)) for y in labellings(n + 1)]
            assert (len(set(values)) == len(values)) == tautology
            assert (separation(values) >= 1) == tautology  # of integers, so hard at every τ: multiply f by τ
            met.add(tautology)
        assert met == {True, False}


class TestNegativeResults:
    @pytest.mark.parametrize("p", [0.5, 1, 2, 7])
    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_theorem_11_holds_from_two_labels_on(self, n, p):
        separations = [
            separation([sum(abs(a - b) ** p for a, b in zip(theta, y, strict=True)) ** (1 / p) for y in labellings(n)])
            for theta in labellings(n)
        ]
        assert set(separations) == ({1.0} if n == 1 else {0.0})  # one label: its two answers are 0 and 1

    @staticmethod
    def monotone(rng, n):
        """A random monotone function of subsets, as values by labelling."""
        values = {}
        for y in sorted(labellings(n), key=sum):
            below = [values[tuple(b - (i == j) for j, b in enumerate(y))] for i in range(n) if y[i]]
            values[y] = max(below, default=0.0) + float(rng.exponential() ** 3)
        return values

    @staticmethod
    def least_step(values, n):
        return min(
            values[tuple(b + (i == j) for j, b in enumerate(y))] - value
            for y, value in values.items()
            for i in range(n)
            if not y[i]
        )

    def test_theorem_12_without_its_half(self):
        rng = np.random.default_rng(0)
        for n in (1, 2, 3, 4):
            for _ in range(30):
                values = self.monotone(rng, n)
                assert separation(values.values()) <= self.least_step(values, n)
        # With the half it is false: one label, answers 0 and 1, are 1-separable, not only 1/2-separable.
        values = {(0,): 0.0, (1,): 1.0}
        assert separation(values.values()) == 1.0 > self.least_step(values, 1) / 2

    def test_corollary_4_without_its_half(self):
        # f(A, θ) = min(|θ|, 1) for A = {1}, 0 for the empty set: the supremum over θ of the least step is 1.
        steps = [min(abs(theta), 1.0) for theta in (-2.0, 0.0, 0.3, 1.0, 5.0)]
        reached = max(separation([0.0, step]) for step in steps)
        assert reached == max(steps) == 1.0
        assert reached > max(steps) / 2

    def test_theorem_13_and_its_tight_bound(self):
        rng = np.random.default_rng(0)
        for n in (1, 2, 3, 4):
            for _ in range(30):
                values = self.monotone(rng, n)
                top = max(values.values())
                assert separation(values.values()) <= top / (2**n - 1) + 1e-12
                assert top / (2**n - 1) <= top / n
            beta = 3.0
            best = subset_sums([beta * 2**i / (2**n - 1) for i in range(n)])
            assert max(best) == pytest.approx(beta)
            assert separation(best) == pytest.approx(beta / (2**n - 1))

    def test_the_bounds_of_the_library_are_the_repaired_ones(self):
        """One label, answers R apart: noise below R/2 is read (Proposition 1), so no half is lost twice."""
        spec = labels.OracleSpec(n=1)
        assert labels.capacity(spec).threshold == pytest.approx(spec.loss().span / 2)


class TestFinitePrecision:
    """Appendix A: FPA(φ) has (φ-1)/2 bits after the point."""

    @staticmethod
    def round_to_precision(value, phi):
        step = 2.0 ** -((phi - 1) // 2)
        return round(value / step) * step

    def test_proposition_2_rounding_can_separate_what_is_not_separate(self):
        values = [0.24, 0.26]
        assert separation([self.round_to_precision(v, 3) for v in values]) == 0.5
        assert separation(values) < 0.5
        assert separation([self.round_to_precision(v, 5) for v in values]) < 0.5  # nor with more bits, as it says

    def test_proposition_3_rounding_can_join_what_is_separate(self):
        tau, phi = 0.25, 3
        assert phi >= max(2 * math.log2(tau) + 5, -2 * math.log2(tau) - 1)
        values = [0.3, 0.55]
        assert separation(values) >= tau
        assert separation([self.round_to_precision(v, phi) for v in values]) == 0 < tau

    @pytest.mark.parametrize("phi", [3, 5, 9, 21])
    def test_what_rounding_leaves_of_a_separation(self, phi):
        """In place of both: a separation changes by one step at most."""
        rng = np.random.default_rng(phi)
        step = 2.0 ** -((phi - 1) // 2)
        for _ in range(200):
            values = np.cumsum(rng.exponential(size=4) * 3 * step)
            rounded_separation = separation([self.round_to_precision(v, phi) for v in values])
            assert abs(rounded_separation - separation(values)) <= step
