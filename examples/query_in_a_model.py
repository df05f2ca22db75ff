"""Read labels off an endpoint that takes a model: run python examples/query_in_a_model.py.

A server that scores a submitted model on features that the attacker knows can be asked any query: the model answers it.
"""

import numpy as np
import torch
from sklearn.tree import DecisionTreeRegressor
from torch import nn

from divulge import labels


def overwrite_batch(predictions, width, *, dtype=torch.float32, seed=0):
    """Build the network of Aggarwal et al. (2021), equation 11: it maps any batch ``[n, width]`` to ``predictions``.

    With v the whole batch as one vector it computes ``sigmoid(relu(v·M1)·M2 + log-odds)``. All entries of M1 are
    negative, which leaves zeros of features that are not: shift those that are. It knows rows by their place in the
    batch alone. Float32 expresses log-odds from about -88 to 14, beyond which a prediction becomes 0 or 1.
    """
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.as_tensor(predictions, dtype=torch.float64)
    size = len(probabilities) * width
    hidden, output = nn.Linear(size, size, bias=False, dtype=dtype), nn.Linear(size, len(probabilities), dtype=dtype)
    hidden.weight.data = -(0.5 + 0.5 * torch.rand(size, size, generator=generator, dtype=torch.float64)).to(dtype)
    output.bias.data = torch.logit(probabilities).to(dtype)
    return nn.Sequential(nn.Flatten(0), hidden, nn.ReLU(), output, nn.Sigmoid())


def fit_tree(features, predictions):
    """Fit a decision tree that answers ``predictions`` row by row, in any order, where rows of features differ."""
    return DecisionTreeRegressor(random_state=0).fit(features, predictions)


def main():
    rng = np.random.default_rng(0)
    features, hidden_labels = rng.random((20, 4)), rng.integers(0, 2, 20)
    spec = labels.OracleSpec(n=20, submission="positive", float_dtype="float32", clip=1e-6, noise=1e-3)
    oracle, plan = labels.LocalOracle(spec, hidden_labels), labels.design(spec)

    def submit_network(predictions):
        network = overwrite_batch(predictions, features.shape[1])
        return oracle(network(torch.as_tensor(features, dtype=torch.float32)).detach().numpy())

    def submit_tree(predictions):
        return oracle(fit_tree(features, predictions).predict(features))

    for name, submit in (("overwriting network", submit_network), ("decision tree", submit_tree)):
        read = labels.infer(submit, plan).labels
        print(f"{name}: {np.sum(read == hidden_labels)} of {len(read)} labels read in {plan.count} queries")


if __name__ == "__main__":
    main()
