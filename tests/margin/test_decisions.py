"""Decisions by a margin, orthogonality, files, modules and records on the margin: formulas against others."""

import math

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import stats

import divulge as dv
from divulge import margin

LINE = margin.ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])  # Φ(x) = x


def geometry(*bounds):
    return margin.Orthogonality(5, 1.0, 2.0, 2.5, np.array(bounds), max(bounds) < 1)


class TestDecisions:
    def test_both_ends_of_a_band_belong_to_it(self):
        x = [[1.5], [2.5], [-1.5], [-2.5], [1.4999], [2.5001]]
        for decision in (margin.known_margin(LINE, x, 2.0, 0.25), margin.leaked_point(LINE, [[-2.0]], x, 0.25)):
            assert decision.members.tolist() == [True, True, True, True, False, False]
            assert (decision.margin, decision.low, decision.high) == (2.0, 1.5, 2.5)
            assert decision.outputs.tolist() == [row[0] for row in x]
            assert decision.selected is decision.members
            assert decision.count == 4

    @pytest.mark.parametrize("decide", [
        lambda x: margin.known_margin(LINE, x, 100.0), lambda x: margin.leaked_point(LINE, [[100.0]], x)
    ])  # fmt: skip
    def test_a_band_is_a_hundredth_unless_it_is_given(self, decide):
        assert decide([[99.1], [98.9], [100.9], [101.1]]).members.tolist() == [True, False, True, False]

    def test_a_lower_bound_is_met_on_it_and_has_no_upper_end(self):
        decision = margin.bounded_margin(LINE, [[1.0], [0.9999], [1e9]], 1.0)
        assert decision.members.tolist() == [True, False, True]
        assert (decision.margin, decision.low, decision.high) == (1.0, 1.0, math.inf)
        assert "the margin lies in [1, inf]" in decision.guarantee.assumes
        both = margin.bounded_margin(LINE, [[2.0], [1.9], [2.1]], (2.0, 2.0))
        assert both.members.tolist() == [True, False, False]

    @pytest.mark.parametrize("bounds", [0.0, -1.0, math.inf, math.nan, (0.0, 1.0), (1.0, math.nan)])
    def test_bounds_that_cannot_be_are_refused(self, bounds):
        with pytest.raises(dv.InputError, match=r"^c: "):
            margin.bounded_margin(LINE, [[1.0]], bounds)

    @pytest.mark.parametrize(
        ("decide", "bound", "proven"),
        [
            (lambda shape: margin.known_margin(LINE, [[1.0]], 4.0, 0.25, geometry=shape), 0.7499, True),
            (lambda shape: margin.known_margin(LINE, [[1.0]], 4.0, 0.25, geometry=shape), 0.75, False),
            (lambda shape: margin.leaked_point(LINE, [[4.0]], band=0.25, geometry=shape), 0.7499, True),
            (lambda shape: margin.leaked_point(LINE, [[4.0]], band=0.25, geometry=shape), 0.75, False),
            (lambda shape: margin.bounded_margin(LINE, [[1.0]], (1.0, 2.0), geometry=shape), 0.4999, True),
            (lambda shape: margin.bounded_margin(LINE, [[1.0]], (1.0, 2.0), geometry=shape), 0.5, False),
            (lambda shape: margin.bounded_margin(LINE, [[1.0]], (1.0, 2.0), geometry=shape), 0.6, False),
            (lambda shape: margin.bounded_margin(LINE, [[1.0]], 1.0, geometry=shape), 1e-9, False),
        ],
    )
    def test_a_proof_needs_every_fresh_record_below_the_threshold_at_the_largest_margin(self, decide, bound, proven):
        decision = decide(geometry(0.0, bound, bound / 2))
        assert decision.guarantee.level == (0.0 if proven else 1.0)
        assert "network is at a KKT point" in decision.guarantee.assumes[0]
        assert bool(decision.warnings) != proven
        if proven:
            share = bound * 2 if decision.high == 2.0 else bound / 0.75
            assert f"|Φ| ≤ {share:.3g} of the threshold" in decision.guarantee.assumes[-1]
        else:
            assert decision.warnings[0].endswith(f", which is {bound:.3g}")


class TestOrthogonality:
    @pytest.mark.parametrize("fresh", [None, 7])
    def test_the_bound_is_that_of_all_pairs_with_the_bias(self, fresh):
        rng = np.random.default_rng(1)
        x = 9 * np.eye(4, 12) + rng.normal(size=(4, 12)) / 9
        others = None if fresh is None else rng.normal(size=(fresh, 12))
        measured = margin.orthogonality(x, others)
        pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
        delta = max(abs(x[i] @ x[j] + 1) for i, j in pairs)
        smallest = min(row @ row + 1 for row in x)
        nearest = [delta] if others is None else [max(abs(row @ other + 1) for row in x) for other in others]
        np.testing.assert_allclose(measured.bound, 4 * np.array(nearest) / (smallest - 6 * delta))
        assert measured.n == 4
        assert measured.delta == pytest.approx(max(abs(x[i] @ x[j]) for i, j in pairs))
        assert measured.Delta == pytest.approx(smallest - 1)
        assert measured.ratio == pytest.approx(4 * measured.delta / measured.Delta)

    def test_every_fresh_record_must_be_below_1(self):
        x = np.kron(np.eye(2), np.ones(5))
        fresh = np.array([np.zeros(10), np.full(10, 2.0)])
        measured = margin.orthogonality(x, fresh)
        assert (measured.bound < 1).tolist() == [True, False]
        assert not measured.says_something


class TestAssumption:
    @pytest.mark.parametrize("n", [2, 7])
    def test_products_on_a_sphere_have_their_beta_law(self, n):
        for d in (1, 2, 30):
            delta, smallest = margin.Sphere(d).extremes(n, 0.1)
            pairs = n * (n - 1) / 2
            expected = 1.0 if d == 1 else stats.beta.isf(0.1 / pairs, 0.5, (d - 1) / 2)
            assert delta == pytest.approx(d * math.sqrt(expected))
            assert smallest == d

    @pytest.mark.parametrize("n", [2, 6])
    def test_norms_and_products_of_a_mixture_have_their_worst_mean(self, n):
        means = np.zeros((3, 8))
        means[1, 0], means[2, :2] = 3.0, (1.0, -1.0)
        delta, smallest = margin.Mixture(means).extremes(n, 0.2)
        laws = [stats.chi2(8), stats.ncx2(8, 9.0), stats.ncx2(8, 2.0)]
        assert smallest == pytest.approx(min(law.ppf(0.2 / 4 / n) for law in laws))
        largest = max(law.isf(0.2 / 4 / n) for law in laws)
        reach = stats.norm.isf(0.1 / (n * (n - 1) / 2) / 2)
        assert delta == pytest.approx((3 + reach) * math.sqrt(largest))
        one = np.zeros((1, 8))
        one[0, 0] = 3.0
        assert margin.Gaussian(8, 3.0).extremes(n, 0.2) == margin.Mixture(one).extremes(n, 0.2)
        np.testing.assert_array_equal(margin.Gaussian(8, 3.0).sample(5, 1), margin.Mixture(one).sample(5, 1))

    def test_samples_lie_where_their_source_says(self):
        x = margin.Sphere(7).sample(50, 3)
        np.testing.assert_allclose((x**2).sum(axis=1), 7)
        means = np.array([[-100.0, 0.0], [100.0, 0.0]])
        mixed = margin.Mixture(means).sample(200, 3)
        assert 60 < (mixed[:, 0] > 0).sum() < 140
        assert np.abs(np.abs(mixed[:, 0]) - 100).max() < 6
        assert margin.Gaussian(3).mean == 0.0


@pytest.mark.parametrize(("loss", "n"), [(0.1, 1), (0.1, 5), (2.0, 3), (math.log(2), 1), (1e-3, 1)])
def test_the_least_margin_is_that_of_a_record_that_carries_all_of_the_loss(loss, n):
    """Where one record carries all, ln(1 + exp(-margin)) is n times the mean loss."""
    assert math.log1p(math.exp(-margin.least_margin(loss, n))) == pytest.approx(n * loss)


class TestNetworks:
    def test_files_of_plain_names_and_layers_without_bias(self, tmp_path):
        w, b, v = np.array([[1.0], [2.0]]), np.array([0.5, -0.5]), np.array([[1.0, -1.0]])
        for arrays, bias in (
            ({"w": w, "b": b, "v": v[0]}, b),
            ({"1.weight": w, "2.weight": v}, np.zeros(2)),
            ({"1.weight": w, "1.bias": b, "2.weight": v, "2.bias": np.zeros(1)}, b),
        ):
            save_file(arrays, tmp_path / "net.safetensors")
            net = margin.ShallowReLU.from_safetensors(tmp_path / "net.safetensors")
            assert (net.w.tolist(), net.b.tolist(), net.v.tolist()) == (w.tolist(), bias.tolist(), v[0].tolist())

    def test_one_neuron_of_one_input_is_read_in_either_order(self, tmp_path):
        save_file({"a.weight": np.array([[2.0]]), "b.weight": np.array([[3.0]])}, tmp_path / "net.safetensors")
        net = margin.ShallowReLU.from_safetensors(tmp_path / "net.safetensors")
        assert (net.w.tolist(), net.v.tolist()) == ([[2.0]], [3.0])

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"a.weight": np.ones((2, 1), np.int8), "b.weight": np.ones((1, 2))}, "a.weight is stored as int8"),
            ({"a.weight": np.ones((2, 1)), "b.weight": np.ones((2, 2))}, r"found a.weight \[2, 1\] and b.weight"),
            (
                {"a.weight": np.ones((2, 1)), "b.weight": np.ones((1, 2)), "c.bias": np.ones(1)},
                r"found: .*c.bias \[1\]",
            ),
            ({"a.weight": np.ones((2, 1)), "b.weight": np.ones((1, 2)), "b.bias": -np.ones(1)}, r"has a bias \(-1\)"),
            ({"w": np.full((1, 1), np.nan), "b": np.ones(1), "v": np.ones(1)}, "w: 1 values are NaN"),
        ],
    )
    def test_what_is_wrong_with_a_file_is_said_once_with_its_name(self, tmp_path, arrays, message):
        path = tmp_path / "net.safetensors"
        save_file(arrays, path)
        with pytest.raises(dv.InputError, match=message) as refusal:
            margin.ShallowReLU.from_safetensors(path)
        assert str(refusal.value).startswith(f"{path}: ")
        assert str(refusal.value).count(str(path)) == 1


class TestModules:
    torch = pytest.importorskip("torch")

    def module(self, transform, scale=1.0):
        torch = self.torch

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.hidden = torch.nn.Linear(3, 5)
                self.output = torch.nn.Linear(5, 1, bias=False)
                with torch.no_grad():
                    self.output.weight.mul_(scale)

            def forward(self, x):
                return transform(self, self.output(torch.relu(self.hidden(x))))

        return Module().double()

    @pytest.mark.parametrize("training", [True, False])
    def test_modules_are_asked_as_they_predict_and_left_as_they_were(self, training):
        modes = []
        module = self.module(lambda self, z: modes.append(self.training) or z).train(training)
        margin.ShallowReLU.from_torch(module)
        assert modes == [False]
        assert module.training is training

    def test_outputs_of_another_shape_and_failures_are_refused(self):
        with pytest.raises(dv.InputError, match="outputs differ"):
            margin.ShallowReLU.from_torch(self.module(lambda _, z: z[:3]))
        with pytest.raises(dv.InputError, match=r"module: cannot be applied to records \[n, 3\]"):
            margin.ShallowReLU.from_torch(self.module(lambda _, z: z @ z))

    def test_what_cannot_be_called_is_read_by_its_weights_alone(self):
        state = self.module(None).state_dict()

        class Weights:
            def state_dict(self):
                return state

        assert margin.ShallowReLU.from_torch(Weights()).width == 5


class TestStationarity:
    def test_a_record_of_margin_0_is_misclassified(self):
        with pytest.raises(dv.InputError, match=r"x: 1 records are misclassified \(first: record 1, y·Φ = 0\)"):
            margin.kkt(LINE, [[-1.0], [0.0]], [-1, 1])

    def test_records_on_the_band_are_on_the_margin(self):
        state = margin.kkt(LINE, [[-2.0], [2.5], [2.5001], [4.0]], [-1, 1, 1, 1], band=0.25)
        assert state.on_margin.tolist() == [True, True, False, False]
        assert state.margin == 2.0
        assert state.multipliers[2:].tolist() == [0.0, 0.0]
        assert state.outputs.tolist() == [-2.0, 2.5, 2.5001, 4.0]
        weights = state.multipliers
        assert state.slackness == pytest.approx(weights[1] * 0.25 / (weights[0] + weights[1]))

    def test_a_kink_is_as_near_as_the_tolerance_says(self):
        net = margin.ShallowReLU([[3.0], [-1.0], [1.0]], [0.0, 0.0, 0.0], [1.0, -1.0, 0.0])
        x = [[-4.0], [3.0], [0.75]]  # |3·0.75| is 0.6 of 3·1.25
        for tolerance, kinks in ((0.59, 0), (0.61, 2)):
            fit = margin.explain(net, x, [-1, 1, 1], tolerance=tolerance)
            assert len(fit.kinks) == kinks  # none of the neuron without output weight
        assert margin.kkt(net, x, [-1, 1, 1], tolerance=0.61, band=99.0, clarke=False).kinks == 0
        assert margin.kkt(net, x, [-1, 1, 1], tolerance=0.61, band=99.0).kinks == 2
