"""Networks of regressors: what they take, and how wide they are."""

import numpy as np
import pytest

from divulge.regressors import bodies


@pytest.mark.parametrize("shape", [(6, 4), (6, 2, 3), (6, 1)])
def test_the_first_layer_is_as_wide_as_a_record(shape):
    import torch

    body = bodies.MLP((5, 7))
    prepared = body.prepare(np.ones(shape))
    width = int(np.prod(shape[1:]))
    assert prepared.shape == (6, width)
    network = body.build(prepared)
    linear = [part for part in network if hasattr(part, "in_features")]
    assert [(part.in_features, part.out_features) for part in linear] == [(width, 5), (5, 7)]
    assert network(torch.from_numpy(prepared)).shape == (6, 7)
